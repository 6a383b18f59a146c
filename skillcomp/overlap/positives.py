"""Made-up copies of a skill: its sentences, whole or edited at a stated rate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, require_whole
from skillcomp.frames.check import check
from skillcomp.frames.estimates import check_settings
from skillcomp.io.skills import skill_of
from skillcomp.ngrams import NO_BLANKS, count_words, split_sentences
from skillcomp.overlap.score import Skills, checked_columns, score, skills_by_slug, source_files
from skillcomp.records import Skill
from skillcomp.stats.results import NAN

MADE_UP = "made-up copies: the rate belongs to the edits that made them, so there is no interval"
_EDIT_RATES = (0.1, 0.3)  # shares of the words that are edited
_SENTENCES = (1, 2, 4)  # numbers of sentences in a passage
FEWEST_WORDS = 4  # a text with fewer words than this is taken for a label, not a sentence
_FENCE = re.compile(r"^\s*(?:```|~~~)")
# matches lines that are never quoted: tables, headings, horizontal rules
_LEFT_OUT = re.compile(r"^\s*(?:\||#{1,6}\s|[-=*_]{3,}\s*$)")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
# matches a word and the blanks before it; in scripts without blanks, each character is a word
_WORD = re.compile(rf"(\s*)([{NO_BLANKS}]|[^\s{NO_BLANKS}]+)")


def positives(
    skill: Skill | Skills,
    *,
    seed: int = 0,
    n_each: int = 20,
) -> pd.DataFrame:
    """Make verbatim passages and near copies out of the text of a skill.

    A passage is a sequence of one, two or four sentences of one section. It is quoted whole, or 10
    or 30 % of its words are dropped or swapped with the next word. Tables, headings and code are
    left out.

    Parameters
    ----------
    skill : Skill, mapping of str to Skill, str or path, or path
        A skill, or several with slugs as keys, such as ``store.skills``; paths as in :func:`score`.
    seed : int, default 0
        Seed of the random generator. Each skill has its own generator, so that its passages do not
        depend on the other skills.
    n_each : int, default 20
        Largest number of passages for each combination of skill, number of sentences, edit and
        rate. A skill with few sentences gives fewer.

    Returns
    -------
    pandas.DataFrame
        A passages frame (passage_id, skill, document, level, text) with ``made_up`` True and

        level : ``verbatim`` without an edit, otherwise ``near_copy``
        document : the skill and the first sentence that is quoted
        edit : str, ``none``, ``dropped`` or ``swapped``
        edit_rate : float64, share of the words that are edited
        n_sentences : int64
        source_text : str, the sentences before the edit

    Raises
    ------
    FrameError
        If a skill has no sentence to quote, or a number is out of range.

    See Also
    --------
    positives_found : Computes how many of these passages have an n-gram of the skill.
    calibrate : Estimates the threshold; its choice then depends only on the nulls.

    Notes
    -----
    The rate of made-up copies that are detected is a fact about these edits. It has no interval,
    because more passages would not show more about the copies of an agent. Passages that people or
    models wrote by copying are the better source.

    Examples
    --------
    >>> copies = positives({"tea": "Pour the water over the leaves. Wait for four minutes."})
    >>> copies.loc[copies["level"].eq("verbatim"), "text"].tolist()[0]
    'Pour the water over the leaves.'
    """
    check_settings("overlap.positives", 0.95, seed=seed)
    require_whole("overlap.positives: n_each", n_each, FrameError)
    edits = [("none", 0.0), *product(("dropped", "swapped"), _EDIT_RATES)]
    rows = []
    for slug, one_skill in _parsed_skills(skill).items():
        rng = np.random.default_rng([seed, *slug.encode()])
        blocks = [list(_sentences_of_block(block)) for block in _blocks_of_skill(one_skill)]
        if not any(_quoted_sentences(blocks, 1)):
            raise FrameError(
                f"overlap.positives: skill '{slug}' has no sentence of {FEWEST_WORDS} words or "
                "more; give passages that were written by hand."
            )
        for n_sentences in _SENTENCES:
            quotes = list(_quoted_sentences(blocks, n_sentences))
            picked = rng.permutation(len(quotes))[:n_each]
            for place in sorted(picked.tolist()):
                number, text = quotes[place]
                about = {
                    "skill": slug,
                    "document": f"{slug}/sentence {number}",
                    "n_sentences": n_sentences,
                    "source_text": text,
                }
                rows += [
                    about
                    | {"edit": edit, "edit_rate": rate, "text": _edited_text(text, edit, rate, rng)}
                    for edit, rate in edits
                ]
    table = pd.DataFrame(rows)
    numbers = (table.groupby("skill").cumcount() + 1).astype("str").str.zfill(4)
    table["passage_id"] = table["skill"] + "/made-up-" + numbers
    levels = table["edit"].eq("none").map({True: "verbatim", False: "near_copy"})
    return check(table.assign(level=levels, made_up=True), "passages")


def positives_found(
    passages: pd.DataFrame,
    *,
    skills: Skills,
    ngram: Iterable[int] | int = range(3, 13),
) -> pd.DataFrame:
    """Compute the rate of made-up copies with an n-gram of their skill, by length and edit.

    Parameters
    ----------
    passages : pandas.DataFrame
        Passages of :func:`positives`.
    skills, ngram
        As in :func:`score`.

    Returns
    -------
    pandas.DataFrame
        One row per number of sentences, edit, rate and n: n_sentences, edit, edit_rate, n,
        ``copy`` (the edit in words), measure (``sensitivity``), unit, estimate, ci_low and ci_high
        (NaN, see the note), n_texts, note. A passage with fewer than n tokens counts as missed.

    Raises
    ------
    FrameError
        If a column of :func:`positives` is missing, or a skill is missing from `skills`.
    """
    keys = ["n_sentences", "edit", "edit_rate"]
    passages = checked_columns(passages, ["text", *keys], what="overlap.positives_found: passages")
    scored = score(passages, skills=skills, ngram=ngram)
    scored = scored.merge(passages[["passage_id", *keys]], on="passage_id")
    scored["estimate"] = scored["any_shared"].fillna(False).astype("float64")
    rates = scored.groupby([*keys, "n"], sort=False)["estimate"]
    table = rates.agg(estimate="mean", n_texts="size").reset_index()
    words = {"none": "quoted whole", "dropped": "words dropped", "swapped": "words swapped"}
    copy = [
        words[edit] if edit == "none" else f"{100 * rate:g} % of {words[edit]}"
        for edit, rate in zip(table["edit"], table["edit_rate"], strict=True)
    ]
    table = table.assign(copy=copy, measure="sensitivity", unit="rate", note=MADE_UP)
    table[["ci_low", "ci_high"]] = NAN
    front = [*keys, "copy", "n", "measure", "unit", "estimate", "ci_low", "ci_high"]
    return table[[*front, "n_texts", "note"]]


def _parsed_skills(skill: Skill | Skills) -> dict[str, Skill]:
    if isinstance(skill, Skill):
        return {skill.slug: skill}
    documents = skills_by_slug(skill)
    if not documents:
        raise FrameError(
            "overlap.positives: there is no skill; give the text of its SKILL.md, as {'tea': text},"
            " or add it to the study (RunStore.add_skill)."
        )
    return {
        slug: document
        if isinstance(document, Skill)
        else skill_of("\n\n".join(source_files(documents, slug).values()), slug, Path(slug))
        for slug, document in documents.items()
    }


def _blocks_of_skill(skill: Skill) -> Iterator[list[str]]:
    """Yield blocks of lines that can be quoted; a heading, table or code block ends a block."""
    for text in (skill.description, *skill.concept.values(), skill.body or skill.text):
        block: list[str] = []
        code = False
        for line in text.splitlines():
            fence = bool(_FENCE.match(line))
            if fence or code or _LEFT_OUT.match(line):
                code ^= fence
                yield block
                block = []
            else:
                block.append(line)
        yield block


def _sentences_of_block(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a block, after joining the lines of each paragraph."""
    paragraph: list[str] = []
    for line in [*lines, ""]:
        item = _ITEM.match(line)
        ends = (
            item or not line.strip() or (paragraph and re.search(r"[.!?。！？:;]$", paragraph[-1]))
        )
        if ends:
            yield from split_sentences(" ".join(paragraph))
            paragraph = []
        text = line[item.end() :] if item else line
        paragraph += [text.strip()] if text.strip() else []


def _quoted_sentences(blocks: Iterable[Sequence[str]], size: int) -> Iterator[tuple[int, str]]:
    """Yield ``size`` neighbouring sentences of a block, and the number of the first sentence."""
    first = 1
    for block in blocks:
        for at in range(len(block) - size + 1):
            text = " ".join(block[at : at + size])
            if count_words(text) >= FEWEST_WORDS:
                yield first + at, text
        first += len(block)


def _edited_text(text: str, edit: str, rate: float, rng: np.random.Generator) -> str:
    """Drop a share of the words of a text, at least one, or swap neighbouring words."""
    if edit == "none":
        return text
    blanks, words = zip(*_WORD.findall(text), strict=True)
    n_edited = max(1, round(rate * len(words)))
    order = np.arange(len(words))
    if edit == "dropped":
        order = np.sort(rng.permutation(order)[min(n_edited, len(words) - 1) :])
        return "".join(blanks[at] + words[at] for at in order).strip()
    free = np.ones(len(words), dtype=bool)
    for at in rng.permutation(len(words) - 1):
        if n_edited > 0 and free[at] and free[at + 1]:  # swap no word twice
            order[[at, at + 1]] = at + 1, at
            free[[at, at + 1]] = False
            n_edited -= 2
    return "".join(blank + words[at] for blank, at in zip(blanks, order, strict=True)).strip()
