"""Synthetic skills, answers and passages with known length, hedging and copying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.frames.contracts import check
from skillcomp.records import CONCEPT_FIELDS, Section, Skill

Ints = NDArray[np.int64]

HEDGES = ("perhaps", "possibly", "probably", "maybe", "might")
SENTENCE = 12  # words of a synthetic sentence
QUOTE = 6  # words of a synthetic evidence quote
LEVELS = {  # share of the words of a copied passage that are replaced
    "verbatim": 0.0,
    "near_copy": 0.12,
    "light_revision": 0.3,
    "heavy_revision": 0.6,
    "fresh": 1.0,
}
_CONCEPT_WORDS, _BODY_WORDS = 36, 480


@cache
def _forms() -> tuple[int, NDArray[np.object_]]:
    """Return the vocabulary's size and its forms: plain, sentence end, start, bullet start.

    Words are of five letters and more, so that no tokenizer drops them as too short.
    """
    tails = ("bel", "dor", "fin", "gar", "lum", "mon", "pex", "rit")
    words = [a + v + t for a, v, t in product("bdfgklmnprstvz", "aeiou", tails)] + list(HEDGES)
    forms = [
        words,
        [w + "." for w in words],
        [w.capitalize() for w in words],
        ["\n- " + w.capitalize() for w in words],
        # the last word of an answer may also be the first of a sentence
        [w.capitalize() + "." for w in words],
        ["\n- " + w.capitalize() + "." for w in words],
    ]
    return len(words), np.array([w for form in forms for w in form], dtype=object)


def _n_plain() -> int:
    return _forms()[0] - len(HEDGES)


def _spell(words: Ints, first: Ints, length: Ints, listed: NDArray[np.bool_]) -> list[str]:
    """Return word forms of many texts laid end to end, with capitals, full stops and bullets."""
    size, forms = _forms()
    owner = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(words)) - first[owner]
    begins = place % SENTENCE == 0
    ends = (place % SENTENCE == SENTENCE - 1) | (place == length[owner] - 1)
    form = np.where(begins, 2 + listed[owner], 0)
    form = np.where(ends, np.where(begins, form + 2, 1), form)
    spelled: list[str] = forms[words + size * form].tolist()
    return spelled


def _sentences(words: Ints) -> str:
    length = np.array([len(words)])
    return " ".join(_spell(words, np.zeros(1, dtype=np.int64), length, np.zeros(1, dtype=bool)))


@dataclass(frozen=True, slots=True)
class Source:
    """A synthetic skill and the words of the section that answers copy from."""

    skill: Skill
    words: Ints


def make_skill(slug: str, rng: np.random.Generator) -> Source:
    """Write a SKILL.md of random words: seven concept fields and one section."""
    drawn = rng.integers(0, _n_plain(), _CONCEPT_WORDS * len(CONCEPT_FIELDS) + _BODY_WORDS)
    parts = drawn[_BODY_WORDS:].reshape(len(CONCEPT_FIELDS), -1)
    concept = {name: _sentences(part) for name, part in zip(CONCEPT_FIELDS, parts, strict=True)}
    section = _sentences(drawn[:_BODY_WORDS])
    body = f"# {slug}\n\n## Coverage\n\n{section}\n"
    fields = "".join(f"  {name}: {text}\n" for name, text in concept.items())
    front = f"name: {slug}\ndescription: A simulated skill.\nconcept:\n{fields}"
    text = f"---\n{front}---\n{body}"
    head = text[: text.index("## Coverage")].count("\n") + 1
    return Source(
        Skill(
            slug=slug,
            name=slug,
            description="A simulated skill.",
            concept=concept,
            body=body,
            text=text,
            sections=(
                Section(title=slug, level=1, anchor=slug, text="", line=head - 2),
                Section(title="Coverage", level=2, anchor="coverage", text=section, line=head),
            ),
        ),
        drawn[:_BODY_WORDS],
    )


@dataclass(frozen=True, slots=True)
class WrittenAnswers:
    """Answers laid end to end, with what was planted in each.

    Attributes
    ----------
    text : list of str
        The answers.
    spelled : list of str
        All words of all answers in order; answer i starts at ``first[i]``.
    first, length : numpy.ndarray of int
        Offset and number of synthetic words of each answer.
    n_words, n_hedges, n_copied : numpy.ndarray of int
        White-space separated words (bullet marks count), hedge words, words copied from the skill.
    listed : numpy.ndarray of bool
        Whether the answer is a bullet list.
    """

    text: list[str]
    spelled: list[str]
    first: Ints
    length: Ints
    n_words: Ints
    n_hedges: Ints
    n_copied: Ints
    listed: NDArray[np.bool_]


def write_answers(
    sources: list[Source],
    source: Ints,
    *,
    mean_words: NDArray[np.float64],
    hedges_per_100: NDArray[np.float64],
    copied_share: NDArray[np.float64],
    listed_share: float,
    rng: np.random.Generator,
) -> WrittenAnswers:
    """Write one answer per row: length, hedges and one copied span as planted.

    Per answer: the skill it may copy from, the mean length in words (log-normal, sd of the log 0.3,
    at least 20), mean hedge words per 100 words, share of the words that is one copied span;
    `listed_share` is the chance of a bullet list.
    """
    n = len(source)
    drawn = np.rint(mean_words * np.exp(0.3 * rng.standard_normal(n) - 0.045))
    length = np.maximum(drawn, 20).astype(np.int64)
    copied = np.minimum(np.rint(copied_share * length).astype(np.int64), _BODY_WORDS)
    wanted = rng.poisson(hedges_per_100 * length / 100)
    hedges = np.minimum(wanted, (length - copied) // 3).astype(np.int64)
    first = np.cumsum(length) - length
    words = rng.integers(0, _n_plain(), length.sum())
    owner = np.repeat(np.arange(n), length)
    place = np.arange(len(words)) - first[owner]
    begin = rng.integers(0, length - copied + 1)
    inside = (place >= begin[owner]) & (place < (begin + copied)[owner])
    bodies = np.stack([one.words for one in sources])
    origin = rng.integers(0, _BODY_WORDS - copied + 1) - begin
    words[inside] = bodies[source[owner[inside]], (place + origin[owner])[inside]]
    words[_chosen(~inside, owner, place, hedges, rng)] = rng.integers(
        _n_plain(), _forms()[0], hedges.sum()
    )
    listed = rng.random(n) < listed_share
    spelled = _spell(words, first, length, listed)
    ends = (first + length).tolist()
    text = [" ".join(spelled[a:b]).lstrip() for a, b in zip(first.tolist(), ends, strict=True)]
    n_bullets = np.where(listed, -(-length // SENTENCE), 0)
    return WrittenAnswers(text, spelled, first, length, length + n_bullets, hedges, copied, listed)


def _chosen(
    allowed: NDArray[np.bool_], owner: Ints, place: Ints, wanted: Ints, rng: np.random.Generator
) -> Ints:
    """Return that many random allowed positions of each text."""
    key = np.where(allowed, rng.random(len(owner)), 2.0)
    order = np.lexsort((key, owner))
    # positions of a text stand together in the order, so place counts its ranks
    return order[place < wanted[owner]]


def quotes(answers: WrittenAnswers, row: Ints, rng: np.random.Generator) -> list[str]:
    """Return an exact substring of six words from each of the named answers."""
    starts = answers.first[row] + rng.integers(0, answers.length[row] - QUOTE + 1)
    spelled = answers.spelled
    return [" ".join(spelled[s : s + QUOTE]).lstrip() for s in starts.tolist()]


def passages(
    skills: Mapping[str, Skill], *, topics: int = 6, n_words: int = 60, seed: int = 0
) -> pd.DataFrame:
    """Return passages labelled by construction with their degree of copying from a skill.

    Parameters
    ----------
    skills : mapping of str to Skill
        Simulated skills, ``Study.skills``.
    topics : int, default 6
        Documents per skill; each yields one passage of every level.
    n_words : int, default 60
        Length of a passage.
    seed : int, default 0
        Source of randomness.

    Returns
    -------
    pandas.DataFrame
        A passages frame: passage_id, skill, document, level, text, and the extra column
        ``replaced_share``. Levels and the share of words replaced at random places: verbatim 0,
        near_copy 0.12, light_revision 0.3, heavy_revision 0.6, fresh 1.

    Examples
    --------
    >>> from skillcomp import simulate
    >>> copies = simulate.passages(simulate.study(seed=1).skills, topics=2)
    >>> copies["level"].value_counts().to_dict()["verbatim"]
    12
    """
    rng = np.random.default_rng(seed)
    rows = []
    for slug, skill in skills.items():
        body = skill.sections[-1].text.lower().replace(".", "").split()
        for topic in range(1, topics + 1):
            start = rng.integers(0, len(body) - n_words + 1)
            for level, share in LEVELS.items():
                words = np.array(body[start : start + n_words], dtype=object)
                where = rng.permutation(n_words)[: round(share * n_words)]
                words[where] = _forms()[1][rng.integers(0, _n_plain(), len(where))]
                text = _punctuated(words.tolist())
                name = f"{slug}/{topic:02d}"
                rows.append((f"{name}/{level}", slug, name, level, text, share))
    columns = ["passage_id", "skill", "document", "level", "text", "replaced_share"]
    return check(pd.DataFrame(rows, columns=columns), "passages")


def _punctuated(words: list[str]) -> str:
    cut = range(0, len(words), SENTENCE)
    return " ".join(" ".join(words[i : i + SENTENCE]).capitalize() + "." for i in cut)
