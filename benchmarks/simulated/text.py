"""Synthetic skills, answers and passages with known length, hedging and copying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.simulated.design import Bools, Floats, Ints, Rng
from skillcomp.errors import StudyError, plural
from skillcomp.frames.check import check
from skillcomp.io.skills import require_skills
from skillcomp.records import CONCEPT_FIELDS, Section, Skill

HEDGES = ("perhaps", "possibly", "probably", "maybe", "might")
SENTENCE = 12  # Number of words in a synthetic sentence.
QUOTE = 6  # Number of words in a synthetic evidence quote.
LEVELS = {  # For each level, the share of the words of a passage that are replaced.
    "verbatim": 0.0,
    "near_copy": 0.12,
    "light_revision": 0.3,
    "heavy_revision": 0.6,
    "fresh": 1.0,
}
_CONCEPT_WORDS, _BODY_WORDS = 36, 480


@cache
def _word_forms() -> tuple[int, NDArray[np.object_]]:
    """Return the number of words, and an array with each word in six forms.

    The forms are: plain, end of a sentence, start of a sentence, start of a bullet, the only word
    of a sentence, and the only word of a bullet. Words have at least five letters, so that no
    tokenizer drops them as too short.
    """
    tails = ("bel", "dor", "fin", "gar", "lum", "mon", "pex", "rit")
    words = [a + v + t for a, v, t in product("bdfgklmnprstvz", "aeiou", tails)] + list(HEDGES)
    forms = [
        words,
        [w + "." for w in words],
        [w.capitalize() for w in words],
        ["\n- " + w.capitalize() for w in words],
        # the last sentence of an answer can have only one word
        [w.capitalize() + "." for w in words],
        ["\n- " + w.capitalize() + "." for w in words],
    ]
    return len(words), np.array([w for form in forms for w in form], dtype=object)


def _n_plain_words() -> int:
    return _word_forms()[0] - len(HEDGES)


def _spell_words(words: Ints, first: Ints, length: Ints, listed: Bools) -> list[str]:
    """Return the words of several texts in order, with capitals, full stops and bullet marks."""
    size, forms = _word_forms()
    owner = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(words)) - first[owner]
    begins = place % SENTENCE == 0
    ends = (place % SENTENCE == SENTENCE - 1) | (place == length[owner] - 1)
    form = np.where(begins, 2 + listed[owner], 0)
    form = np.where(ends, np.where(begins, form + 2, 1), form)
    spelled: list[str] = forms[words + size * form].tolist()
    return spelled


def _as_sentences(words: Ints) -> str:
    first, length = np.zeros(1, dtype=np.int64), np.array([len(words)])
    return " ".join(_spell_words(words, first, length, np.zeros(1, dtype=bool)))


@dataclass(frozen=True, slots=True)
class Source:
    """A synthetic skill, and the words of the section from which answers copy."""

    skill: Skill
    words: Ints


def make_skill(slug: str, rng: Rng) -> Source:
    """Write a SKILL.md of random words, with seven concept fields and one section."""
    drawn = rng.integers(0, _n_plain_words(), _CONCEPT_WORDS * len(CONCEPT_FIELDS) + _BODY_WORDS)
    parts = drawn[_BODY_WORDS:].reshape(len(CONCEPT_FIELDS), -1)
    concept = {name: _as_sentences(part) for name, part in zip(CONCEPT_FIELDS, parts, strict=True)}
    section = _as_sentences(drawn[:_BODY_WORDS])
    body = f"# {slug}\n\n## Coverage\n\n{section}\n"
    fields = "".join(f"  {name}: {text}\n" for name, text in concept.items())
    front = f"name: {slug}\ndescription: A simulated skill.\nconcept:\n{fields}"
    text = f"---\n{front}---\n{body}"
    head = text[: text.index("## Coverage")].count("\n") + 1
    title = Section(title=slug, level=1, anchor=slug, text="", line=head - 2)
    coverage = Section(title="Coverage", level=2, anchor="coverage", text=section, line=head)
    skill = Skill(
        slug=slug,
        name=slug,
        description="A simulated skill.",
        concept=concept,
        body=body,
        text=text,
        sections=(title, coverage),
    )
    return Source(skill, drawn[:_BODY_WORDS])


@dataclass(frozen=True, slots=True)
class WrittenAnswers:
    """Simulated answers, with the true properties of each.

    Attributes
    ----------
    text : list of str
        The answers.
    spelled : list of str
        All words of all answers in order; answer i begins at ``first[i]``.
    first, length : numpy.ndarray of int
        Offset of each answer in ``spelled``, and its number of words without bullet marks.
    n_words, n_hedges, n_copied : numpy.ndarray of int
        Numbers of words in each answer: all words (here a bullet mark counts as a word), hedge
        words, and words copied from the skill.
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
    listed: Bools


def write_answers(
    sources: list[Source],
    source: Ints,
    *,
    mean_words: Floats,
    hedges_per_100: Floats,
    copied_share: Floats,
    listed_share: float,
    rng: Rng,
) -> WrittenAnswers:
    """Write answers of random length with hedges and one copied span.

    Arrays have one entry per answer. `source` is the index of the skill from which the answer can
    copy, `mean_words` its expected length, `hedges_per_100` its expected number of hedge words per
    100 words, and `copied_share` the share of its words that form the copied span. Lengths are
    log-normal, with 0.3 as the standard deviation of the log, and at least 20 words. `listed_share`
    is the chance that an answer is a bullet list.
    """
    n = len(source)
    drawn = np.rint(mean_words * np.exp(0.3 * rng.standard_normal(n) - 0.045))
    length = np.maximum(drawn, 20).astype(np.int64)
    copied = np.minimum(np.rint(copied_share * length).astype(np.int64), _BODY_WORDS)
    drawn_hedges = rng.poisson(hedges_per_100 * length / 100)
    hedges = np.minimum(drawn_hedges, (length - copied) // 3).astype(np.int64)
    first = np.cumsum(length) - length
    words = rng.integers(0, _n_plain_words(), length.sum())
    owner = np.repeat(np.arange(n), length)
    place = np.arange(len(words)) - first[owner]
    begin = rng.integers(0, length - copied + 1)
    inside = (place >= begin[owner]) & (place < (begin + copied)[owner])
    bodies = np.stack([skill_source.words for skill_source in sources])
    origin = rng.integers(0, _BODY_WORDS - copied + 1) - begin
    words[inside] = bodies[source[owner[inside]], (place + origin[owner])[inside]]
    words[_random_positions(~inside, owner, place, hedges, rng)] = rng.integers(
        _n_plain_words(), _word_forms()[0], hedges.sum()
    )
    listed = rng.random(n) < listed_share
    spelled = _spell_words(words, first, length, listed)
    ends = (first + length).tolist()
    text = [" ".join(spelled[a:b]).lstrip() for a, b in zip(first.tolist(), ends, strict=True)]
    n_bullets = np.where(listed, -(-length // SENTENCE), 0)
    return WrittenAnswers(text, spelled, first, length, length + n_bullets, hedges, copied, listed)


def _random_positions(allowed: Bools, owner: Ints, place: Ints, n_drawn: Ints, rng: Rng) -> Ints:
    """Draw `n_drawn` of the allowed positions in each text at random."""
    key = np.where(allowed, rng.random(len(owner)), 2.0)
    order = np.lexsort((key, owner))
    # `order` lists the words text by text. Within a text, the allowed words come first, in random
    # order, and the first `n_drawn` of them are drawn.
    return order[place < n_drawn[owner]]


def quotes(answers: WrittenAnswers, row: Ints, rng: Rng) -> list[str]:
    """Return six consecutive words of each answer in `row`, from a random position."""
    starts = answers.first[row] + rng.integers(0, answers.length[row] - QUOTE + 1)
    spelled = answers.spelled
    return [" ".join(spelled[s : s + QUOTE]).lstrip() for s in starts.tolist()]


def passages(
    skills: Mapping[str, Skill | str], *, topics: int = 6, n_words: int = 60, seed: int = 0
) -> pd.DataFrame:
    """Simulate passages with a known degree of copying from a skill.

    Parameters
    ----------
    skills : mapping of str to Skill or str
        The texts to copy from, or skills such as ``Study.skills``, with slugs as keys. Of a skill,
        the last section is used.
    topics : int, default 6
        Documents per skill. Each has one passage of every level.
    n_words : int, default 60
        Words per passage.
    seed : int, default 0
        Source of randomness.

    Returns
    -------
    pandas.DataFrame
        A passages frame with one row per skill, topic and level: passage_id, skill, document, level
        and text. The additional column ``replaced_share`` is the share of words that are replaced
        at random places: verbatim 0, near_copy 0.12, light_revision 0.3, heavy_revision 0.6, fresh
        1.

    Raises
    ------
    StudyError
        If `skills` is not such a mapping, or a text has fewer than `n_words` words.

    Examples
    --------
    Six skills with two topics each give twelve passages of every level.

    >>> from benchmarks import simulated
    >>> copies = simulated.passages(simulated.study(seed=1).skills, topics=2)
    >>> copies["level"].value_counts().to_dict()["verbatim"]
    12
    """
    require_skills("passages: skills", skills, StudyError)
    rng = np.random.default_rng(seed)
    rows = []
    for slug, skill in skills.items():
        text = skill if isinstance(skill, str) else skill.sections[-1].text
        body = text.lower().replace(".", "").split()
        if len(body) < n_words:
            size = f"{plural(len(body), 'word')} to copy from"
            raise StudyError(f"skill '{slug}': found {size}; a passage has n_words={n_words}.")
        for topic in range(1, topics + 1):
            start = rng.integers(0, len(body) - n_words + 1)
            for level, share in LEVELS.items():
                words = np.array(body[start : start + n_words], dtype=object)
                replaced = rng.permutation(n_words)[: round(share * n_words)]
                words[replaced] = _word_forms()[1][rng.integers(0, _n_plain_words(), len(replaced))]
                passage = _with_full_stops(words.tolist())
                name = f"{slug}/{topic:02d}"
                rows.append((f"{name}/{level}", slug, name, level, passage, share))
    columns = ["passage_id", "skill", "document", "level", "text", "replaced_share"]
    return check(pd.DataFrame(rows, columns=columns), "passages")


def _with_full_stops(words: list[str]) -> str:
    starts = range(0, len(words), SENTENCE)
    return " ".join(" ".join(words[i : i + SENTENCE]).capitalize() + "." for i in starts)
