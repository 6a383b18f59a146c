"""What an estimate is about: these cases, or skills in general; readings of equal names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.frames.clusters import n_distinct
from skillcomp.stats.bounded import IntervalRule, Sample, bounded_means
from skillcomp.stats.results import Interval, join_notes, undefined

SAME_NAMES = (
    "several skills have cases of the same name. The limits allow for both: the same tasks, and "
    "different ones. State shared_cases=True or False in from_frame (analyses of verdicts read it "
    "from cases=)"
)
ONE_SKILL = "one skill says nothing of skills in general; use cluster='case'"


# With fewer skills than this, no estimate is about skills in general (STATISTICS, rule 4).
MIN_SKILLS = 5


# For each number of skills, the smallest delta whose interval excludes 0 in nine of ten studies.
# `make validate` computes it for ten cases per skill, three attempts per case, and deltas of skills
# with a standard deviation of 25 points.
AVAILABLE_DELTAS = {
    5: 0.64, 6: 0.51, 7: 0.46, 8: 0.41, 9: 0.38, 10: 0.35, 12: 0.33, 15: 0.29, 20: 0.24, 25: 0.21,
    30: 0.20,
}  # fmt: skip


def few_skills(n_skills: int) -> str:
    """Return a note if an estimate about skills in general needs more skills, otherwise ""."""
    if n_skills == 1:
        return ONE_SKILL
    if n_skills < MIN_SKILLS:
        return (
            f"{n_skills} skills are too few to speak of skills in general (at least {MIN_SKILLS})"
        )
    return ""


def claim(
    skill: Any, clusters: Any, cluster: str, *, delta: bool = False, rule: IntervalRule = "adaptive"
) -> tuple[NDArray[Any], str]:
    """Return the cluster of each case, and a note on the cases or skills the estimate is about.

    If ``cluster`` is ``"skill"`` and there are at least five skills, each skill is a cluster;
    otherwise the clusters are ``clusters``. With ``"skill"`` and a single skill the note is
    ``ONE_SKILL``, because an estimate about skills in general is impossible. If each skill is a
    cluster, a delta over up to 30 skills, computed with the adaptive ``rule``, has a note with the
    smallest delta that this number of skills can show (``AVAILABLE_DELTAS``).
    """
    skills, cases = np.asarray(skill), np.asarray(clusters)
    if cluster != "skill" and not delta:
        return cases, ""
    n_skills = n_distinct(skills)
    if cluster != "skill" or not n_skills:
        return cases, f"cases of these {n_skills} skills" if delta and n_skills > 1 else ""
    if few := few_skills(n_skills):
        return cases, few if n_skills == 1 else f"these cases only: {few}"
    if delta and rule == "adaptive" and n_skills <= max(AVAILABLE_DELTAS):
        shown = AVAILABLE_DELTAS[max(n for n in AVAILABLE_DELTAS if n <= n_skills)]
        return skills, (
            f"{n_skills} skills can show {100 * shown:.0f} points in 9 of 10 studies (ten cases of "
            "three attempts each, deltas that differ by 25 points)"
        )
    return skills, ""


def claimed(interval: Interval, note: str, nothing: str, *more: str) -> Interval:
    """Add the note of :func:`claim` to an interval; with ``ONE_SKILL``, the interval becomes NaN.

    If the interval has no cases, its note is the text in ``nothing`` instead. The texts in ``more``
    are added only to an interval with an estimate.
    """
    if not interval.n:
        return replace(interval, note=nothing)
    if note == ONE_SKILL:
        return undefined("", note, ci_level=interval.ci_level, n=interval.n)
    return replace(interval, note=join_notes(interval.note, note, *more))


def cluster_readings(table: pd.DataFrame, cluster: str = "case") -> list[NDArray[Any]]:
    """Return the clusters of the rows, for two readings of equal case names.

    In the first array, equal names under several skills are different tasks; in the second, they
    are one task. The second array is left out if it has the same clusters as the first.
    """
    columns = (table[name] for name in ("cluster", "cluster_by_name"))
    first, by_name = (claim(table["skill"], column, cluster)[0] for column in columns)
    return [first] if n_distinct(by_name) == n_distinct(first) else [first, by_name]


def covering_means(samples: Sequence[Sample], by_name: Sequence[Any], **how: Any) -> list[Interval]:
    """Return the interval of each sample; it is valid whether or not equal names are one task.

    Cases with the same name under several skills may be different tasks, or one task and so one
    cluster. Both intervals are computed and combined by :func:`covering`. ``by_name`` has the
    clusters of each sample if equal names are one task. ``how`` contains arguments of
    :func:`skillcomp.stats.bounded.bounded_means`.
    """
    intervals = bounded_means(samples, **how)
    twice = [
        at
        for at, (sample, shared) in enumerate(zip(samples, by_name, strict=True))
        if n_distinct(shared) < n_distinct(sample.clusters)
    ]
    others = [samples[at]._replace(clusters=by_name[at]) for at in twice]
    for at, other in zip(twice, bounded_means(others, **how) if others else (), strict=True):
        intervals[at] = covering(intervals[at], other)
    return intervals


def covering(first: Interval, second: Interval) -> Interval:
    """Combine two intervals of one estimate: the smaller lower and the larger upper limit."""
    return replace(
        second if second.n_clusters < first.n_clusters else first,
        low=float(np.minimum(first.low, second.low)),
        high=float(np.maximum(first.high, second.high)),
        p_value=float(np.maximum(first.p_value, second.p_value)),
        note=join_notes(*dict.fromkeys([first.note, second.note]), SAME_NAMES),
    )
