"""Compare the counting of shared n-grams with three other methods on the same texts.

``python -m benchmarks.overlap`` prints a table; ``--quick`` takes a tenth of the answers, once.
For each answer and n = 3..12, every method gives the number of shared n-grams and of all distinct
n-grams of the answer. The results must agree before anything is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from skillcomp import overlap
from skillcomp.ngrams import STOP_WORDS

R = TypeVar("R")
LENGTHS = range(3, 13)
N_ANSWERS, ANSWER_TOKENS, SKILL_TOKENS, N_SKILLS = 20_000, 150, 1_200, 6
TARGETS = {"sets": 80, "sets_cached": 8, "vectorizer": 10}
PART, MAX_PARTS_GIB, MAX_SLOPE = 20_000, 0.7, 1.1  # answers of a part; limits of all parts
MAX_GIB, MAX_GROWTH = 1.0, 2.2  # growth of time for twice the answers, with a tolerance

# frequency of letters in English text, percent
_LETTERS = dict(
    zip(
        "etaoinshrdlcumwfgypbvkjxqz",
        [12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.1, 6.0, 4.3, 4.0, 2.8, 2.8, 2.4,
         2.4, 2.2, 2.0, 2.0, 1.9, 1.5, 1.0, 0.8, 0.15, 0.15, 0.1, 0.07],
        strict=True,
    )
)  # fmt: skip
_SMALL = "the a of to and in is it you are for on as be at or an not by if we can has one so no"
_GLUE = [*[" "] * 8, *[", ", ". "] * 2, "; ", ": ", " (", ") ", "-", "\n\n- ", " — ", "’s ", "` "]


@dataclass(frozen=True)
class Texts:
    """Answers, skills, and the skill of each answer."""

    answers: list[str]
    skills: list[str]
    skill_of: NDArray[np.int64]

    def head(self, n: int) -> Texts:
        """Return the first answers only."""
        return Texts(self.answers[:n], self.skills, self.skill_of[:n])


def synthetic(n_answers: int = N_ANSWERS, *, seed: int = 0) -> Texts:
    """Return answers of 150 content tokens; three in ten copy 3 to 40 tokens from their skill."""
    rng = np.random.default_rng(seed)
    letters, weight = np.array(list(_LETTERS)), np.array(list(_LETTERS.values()))
    sizes = rng.choice(
        np.arange(4, 14), p=[0.14, 0.16, 0.17, 0.16, 0.13, 0.1, 0.06, 0.04, 0.02, 0.02], size=20_000
    )
    made = ("".join(rng.choice(letters, size=k, p=weight / weight.sum())) for k in sizes)
    words = np.array([w for w in dict.fromkeys(made) if w not in STOP_WORDS], dtype=object)
    zipf = 1 / (np.arange(len(words)) + 2.7)  # Zipf-Mandelbrot
    zipf /= zipf.sum()
    # each subject has the same frequent words, in another order of frequency
    subjects = [rng.permutation(2_000) for _ in range(N_SKILLS)]

    def draw(subject: int, size: int) -> NDArray[np.int64]:
        rank = rng.choice(len(words), size=size, p=zipf)
        return np.where(rank < 2_000, subjects[subject][np.minimum(rank, 1_999)], rank)

    skills = [draw(s, SKILL_TOKENS) for s in range(N_SKILLS)]
    skill_of = rng.integers(N_SKILLS, size=n_answers)
    answers = []
    for s in skill_of:
        answer = draw(s, ANSWER_TOKENS)
        if rng.random() < 0.3:
            span = int(rng.integers(3, 41))
            source, target = rng.integers(SKILL_TOKENS - span), rng.integers(ANSWER_TOKENS - span)
            answer[target : target + span] = skills[s][source : source + span]
        answers.append(_as_prose(words[answer], rng))
    return Texts(answers, [_as_prose(words[skill], rng) for skill in skills], skill_of)


def _as_prose(tokens: NDArray[np.object_], rng: np.random.Generator) -> str:
    """Join content tokens with small words, stop words, punctuation and capitals."""
    filler = np.array([*_SMALL.split(), *sorted(STOP_WORDS)], dtype=object)
    between = rng.choice(filler, size=(len(tokens), 2)) + " "
    between[rng.random(between.shape) < 0.5] = ""
    glue = rng.choice(np.array(_GLUE, dtype=object), size=len(tokens))
    capital = rng.random(len(tokens)) < 0.1
    tokens = np.where(capital, [t.capitalize() for t in tokens], tokens)
    return "".join(tokens + glue + between[:, 0] + between[:, 1])


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]  # n_shared, n_distinct; one row per answer


def _content_tokens(text: str) -> list[str]:
    folded = re.sub(r"[^a-z0-9\s]", " ", text.lower())
    return [t for t in folded.split() if len(t) > 3 and t not in STOP_WORDS]


def _ngram_set(tokens: list[str], n: int) -> set[str]:
    return {" ".join(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


def sets(texts: Texts) -> Counts:
    """Count with the function of the report, which splits both texts again for every n."""
    rows = []
    for answer, s in zip(texts.answers, texts.skill_of, strict=True):
        for n in LENGTHS:
            own = _ngram_set(_content_tokens(answer), n)
            body = _ngram_set(_content_tokens(texts.skills[s] + " "), n)
            rows.append((len([g for g in own if g in body]), len(own)))
    return _count_table(rows)


def sets_cached(texts: Texts) -> Counts:
    """Count with sets, splitting each answer and each skill once."""
    bodies = [{n: _ngram_set(_content_tokens(skill), n) for n in LENGTHS} for skill in texts.skills]
    rows = []
    for answer, s in zip(texts.answers, texts.skill_of, strict=True):
        tokens = _content_tokens(answer)
        for n in LENGTHS:
            own, body = _ngram_set(tokens, n), bodies[s][n]
            rows.append((len([g for g in own if g in body]), len(own)))
    return _count_table(rows)


def _count_table(rows: list[tuple[int, int]]) -> Counts:
    both = np.array(rows).reshape(-1, len(LENGTHS), 2)
    return both[:, :, 0], both[:, :, 1]


def vectorizer(texts: Texts) -> Counts:
    """Count with CountVectorizer over the n-grams of the skill alone.

    This is the fastest use we found: the analyzer runs once per answer, the table covers the
    n-grams of the skill, and sets count the distinct ones. A table over all n-grams of all answers
    takes at least three times as long.
    """
    shared = np.zeros((len(texts.answers), len(LENGTHS)), dtype=np.int64)
    distinct = np.zeros_like(shared)
    ngrams = CountVectorizer(
        ngram_range=(LENGTHS[0], LENGTHS[-1]),
        token_pattern=r"[a-z0-9]{4,}",
        stop_words=sorted(STOP_WORDS),
    ).build_analyzer()
    ends = np.cumsum([0, *(ANSWER_TOKENS - n + 1 for n in LENGTHS)]).tolist()
    for s, skill in enumerate(texts.skills):
        mine = np.flatnonzero(texts.skill_of == s)
        answer_ngrams = [ngrams(texts.answers[i]) for i in mine]
        count = CountVectorizer(analyzer=_as_it_is, binary=True).fit([ngrams(skill)])
        table = count.transform(answer_ngrams).tocsc()
        length = np.array([gram.count(" ") + 1 for gram in count.get_feature_names_out()])
        for k, n in enumerate(LENGTHS):
            columns = table[:, np.flatnonzero(length == n)]
            shared[mine, k] = np.asarray(columns.sum(axis=1)).ravel()
            distinct[mine, k] = [len(set(grams[ends[k] : ends[k + 1]])) for grams in answer_ngrams]
    return shared, distinct


def _as_it_is(grams: list[str]) -> list[str]:
    return grams


def frames(texts: Texts) -> tuple[pd.DataFrame, dict[str, str]]:
    slugs = [f"skill-{s}" for s in texts.skill_of]
    attempts = pd.DataFrame(
        {
            "attempt_id": [f"{slug}/{i}/skill/1" for i, slug in enumerate(slugs)],
            "skill": slugs,
            "case_id": [f"{slug}/{i % 14}" for i, slug in enumerate(slugs)],
            "condition": "skill",
            "answer": texts.answers,
        }
    )
    return attempts, {f"skill-{s}": skill for s, skill in enumerate(texts.skills)}


def ours(texts: Texts) -> pd.DataFrame:
    attempts, skills = frames(texts)
    return overlap.score(attempts, skills=skills, ngram=LENGTHS, exclude_prompt=False)


def require_equal(name: str, counted: Counts, reference: pd.DataFrame) -> None:
    """Raise AssertionError unless a method agrees with skillcomp in every answer and n."""
    shared, distinct = (counts.ravel() for counts in counted)
    head = reference.iloc[: len(shared)]
    same = (
        np.array_equal(shared, head["n_shared"])
        and np.array_equal(shared > 0, head["any_shared"])
        and np.array_equal(shared / np.maximum(distinct, 1), head["share"].fillna(0))
    )
    if not same:
        raise AssertionError(f"{name} and skillcomp.overlap.score disagree")


def timed(work: Callable[[Texts], R], texts: Texts) -> tuple[float, R]:
    """Return CPU seconds and the result; every method uses one thread."""
    begin = time.process_time()
    result = work(texts)
    return time.process_time() - begin, result


def peak_memory(n_answers: int) -> float:
    """Return the peak memory of this process in GiB after scoring, with texts and libraries."""
    ours(synthetic(n_answers))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**30


def write_parts(n_answers: int, folder: Path) -> list[Path]:
    """Write parquet parts of 20,000 answers each: one part, copied with ids of its own."""
    attempts, skills = frames(synthetic(PART))
    (folder / "skills.json").write_text(json.dumps(skills))
    parts = [folder / f"{at:04d}.parquet" for at in range(n_answers // PART)]
    for at, part in enumerate(parts):
        attempts.assign(attempt_id=attempts["attempt_id"] + f"/{at}").to_parquet(part)
    return parts


def parts_scored(parts: Sequence[Path]) -> tuple[float, float]:
    """Score parts by one worker; return its peak memory in GiB and CPU seconds."""
    skills = json.loads((parts[0].parent / "skills.json").read_text())
    how = {"skills": skills, "ngram": LENGTHS, "exclude_prompt": False}
    with TemporaryDirectory() as out, dask.config.set(scheduler="synchronous"):
        begin = time.process_time()
        answers = dd.read_parquet(list(parts))
        meta = overlap.score(answers.head(1), **how)
        answers.map_partitions(overlap.score, **how, meta=meta).to_parquet(out, write_index=False)
        spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**30, spent


def parts_rows(few: int, many: int) -> list[str]:
    """Return a line per number of answers in parts, and the slope of time between them.

    A busy machine slows CPU seconds down as well, so one process scores all answers while another
    one scores the few again and again, which is as much work under the same load.
    """
    settings = {"mp_context": get_context("spawn"), "max_tasks_per_child": 1}
    with TemporaryDirectory() as folder:
        with ProcessPoolExecutor(1, **settings) as alone:
            parts = alone.submit(write_parts, many, Path(folder)).result()
        with (
            ProcessPoolExecutor(1, **settings) as long,
            ProcessPoolExecutor(1, **settings) as short,
        ):
            whole = long.submit(parts_scored, parts)
            calls = [short.submit(parts_scored, parts[: few // PART]) for _ in range(many // few)]
            scored = {few: [call.result() for call in calls], many: [whole.result()]}
    peaks = {n: max(peak for peak, _ in rows) for n, rows in scored.items()}
    seconds = {n: statistics.mean(spent for _, spent in rows) for n, rows in scored.items()}
    slope = np.log(seconds[many] / seconds[few]) / np.log(many / few)
    return [
        *(
            f"  partitions: {n:>9,} answers {seconds[n]:9.2f} s CPU, peak {peaks[n]:.2f} "
            f"GiB   target below {MAX_PARTS_GIB:g}: {_reached_or_not(peaks[n] < MAX_PARTS_GIB)}"
            for n in scored
        ),
        f"  time grows with the power {slope:.2f} of the number of answers   target at most "
        f"{MAX_SLOPE:g}: {_reached_or_not(slope <= MAX_SLOPE)}",
    ]


def compare(n_answers: int, rounds: int) -> list[str]:
    """Return the lines of the table; the methods alternate, so that load affects all of them."""
    # first, while this process is small: the peak of a child starts at that of its parent
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        peak = alone.submit(peak_memory, n_answers).result()
    texts = synthetic(n_answers)
    half, tenth = texts.head(n_answers // 2), texts.head(n_answers // 10)
    peers: list[tuple[str, Callable[[Texts], Counts], Texts, int]] = [
        ("(a) sets as the report has them, a tenth scaled", sets, tenth, 10),
        ("(b) sets, skill's n-grams and tokens kept", sets_cached, texts, 1),
        ("(c) scikit-learn CountVectorizer", vectorizer, texts, 1),
    ]
    ours(tenth)
    pairs = [(timed(ours, half)[0], timed(ours, texts)[0]) for _ in range(5)]
    growth = statistics.median(whole / part for part, whole in pairs)
    own: list[float] = []
    spent: dict[str, list[float]] = {label: [] for label, *_ in peers}
    for _ in range(rounds):
        for label, work, some, scale in peers:
            seconds, reference = timed(ours, texts)
            own.append(seconds)
            seconds, result = timed(work, some)
            spent[label].append(seconds * scale)
            require_equal(label, result, reference)
    middle = {label: statistics.median(seconds) for label, seconds in spent.items()}
    ratios = {label: middle[label] / statistics.median(own) for label in middle}
    return [
        f"overlap: {n_answers:,} answers of {ANSWER_TOKENS} tokens, {N_SKILLS} skills of "
        f"{SKILL_TOKENS:,}, n = {LENGTHS[0]}..{LENGTHS[-1]}: equal results; CPU time, median of "
        f"{rounds} rounds",
        f"  {'skillcomp.overlap.score':<50} {statistics.median(own):9.2f} s",
        *(
            f"  {label:<50} {middle[label]:9.2f} s {ratios[label]:7.1f} x   target "
            f"{TARGETS[work.__name__]}: {_reached_or_not(ratios[label] >= TARGETS[work.__name__])}"
            for label, work, _, _ in peers
        ),
        f"  twice as many answers take {growth:.2f} times as long   target at most "
        f"{MAX_GROWTH:g}: {_reached_or_not(growth <= MAX_GROWTH)}",
        f"  peak memory of a process, texts and libraries included: {peak:.2f} GiB   target below "
        f"{MAX_GIB:g}: {_reached_or_not(peak < MAX_GIB)}",
    ]


def _reached_or_not(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison and print it; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlap", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the answers, one round")
    quick = parser.parse_args(argv).quick
    lines = parts_rows(PART, 5 * PART) if quick else parts_rows(100_000, 1_000_000)
    lines = [*(compare(N_ANSWERS // 10, 1) if quick else compare(N_ANSWERS, 3)), *lines]
    print("\n".join(lines))
    return 1 if any(_reached_or_not(False) in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
