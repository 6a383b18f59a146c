"""Frames of a simulated study, built with their final dtypes, so that they need no check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.simulated import text
from benchmarks.simulated.design import Bools, Floats, Ints, Layout, Rng, Spread, case_rates
from benchmarks.simulated.graders import Grader, Items, Rate, framed, texts, utc, value_by_condition
from skillcomp.errors import StudyError
from skillcomp.frames.check import empty
from skillcomp.frames.contracts import CASE
from skillcomp.records import BLOOM, CONCEPT_FIELDS, DIMENSIONS, SCHEMA_WEIGHTS

# log odds that the better answer wins if it meets all checks and the other answer meets none
_QUALITY = 3.0
_ATTEMPTS_START = np.datetime64("2026-01-05T08:00:00", "us")
# matches the hedge words of simulated answers and of their perturbed copies
HEDGED = r"\b(?:perhaps|possibly|probably|maybe|might|seems?|arguably|presumably|likely|could)\b"


@dataclass(frozen=True, slots=True)
class Grid:
    """The attempts of a study, sorted by case, then by condition, then by repeat."""

    plan: Layout
    names: list[str]
    n_repeats: int

    def __post_init__(self) -> None:
        """Raise StudyError for a study without attempts."""
        if self.n_repeats < 1:
            raise StudyError(f"n_repeats: found {self.n_repeats}; allowed: 1 or more.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of cases, of conditions and of repeats."""
        return self.plan.n_cases, len(self.names), self.n_repeats

    def axis(self, which: int) -> Ints:
        """Return, for each attempt, the index of its case (axis 0), condition (1) or repeat (2)."""
        return np.asarray(np.indices(self.shape)[which].ravel())


def _skill_slugs(n_skills: int) -> list[str]:
    return [f"skill-{k + 1:02d}" for k in range(n_skills)]


def simulated_cases(plan: Layout) -> pd.DataFrame:
    """Return the cases frame; two neighbouring cases share a dimension, from C1 to C9 in turn."""
    number = np.arange(plan.n_cases) - np.searchsorted(plan.skill, plan.skill)
    # Two neighbours get the same dimension; with far_share 0.5, one of them is near and one is far.
    dimension = [DIMENSIONS[k] for k in number // 2 % len(DIMENSIONS)]
    fields = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
    skill = [_skill_slugs(plan.n_skills)[k] for k in plan.skill]
    case_id = [f"{slug}/{k + 1:02d}" for slug, k in zip(skill, number, strict=True)]
    pairs = [(case_id[t], bool(t != k)) for k, t in enumerate(plan.partner)]
    columns = {
        "skill": skill,
        "suite": skill,
        "case_id": case_id,
        # the prompts of a contrast pair differ in one word
        "prompt": [f"Simulated question {first}{' turned' * turned}?" for first, turned in pairs],
        "comprehension_dimension": dimension,
        "concept_field": [fields.get(d) for d in dimension],
        "dimension": [fields.get(d) for d in dimension],
        "transfer": np.where(plan.far, "far", "near"),
        "bloom": [BLOOM[d] for d in dimension],
        "schema_weight": [SCHEMA_WEIGHTS.get(d, np.nan) for d in dimension],
        "contrast_of": [first if turned else None for first, turned in pairs],
        "n_checks": plan.n_checks,
    }
    return framed("cases", columns, plan.n_cases)


def simulated_checks(plan: Layout, cases: pd.DataFrame) -> pd.DataFrame:
    """Return the checks frame; the last check of a case with several checks is negative."""
    case = np.repeat(np.arange(plan.n_cases), plan.n_checks)
    number = np.arange(len(case)) - (np.cumsum(plan.n_checks) - plan.n_checks)[case]
    negative = (number == plan.n_checks[case] - 1) & (plan.n_checks[case] > 1)
    columns = {
        **{name: cases[name].array.take(case) for name in CASE},
        "check_id": [f"check-{k + 1}" for k in number],
        "check_kind": np.where(negative, "negative", "positive"),
        "goal": "outcome",
        "description": [_DESCRIPTIONS[k] for k in negative.astype(int)],
    }
    return framed("checks", columns, len(case))


_DESCRIPTIONS = ("States what was planted.", "Does not claim what was planted.")


def answers(
    grid: Grid, copying: Rate, words: Rate, hedges: Rate, listed_share: float, rng: Rng
) -> tuple[list[text.Source], text.WrittenAnswers]:
    """Write the simulated skills, and one answer per attempt."""
    condition, names = grid.axis(1), grid.names
    sources = [text.make_skill(slug, rng) for slug in _skill_slugs(grid.plan.n_skills)]
    written = text.write_answers(
        sources,
        grid.plan.skill[grid.axis(0)],
        mean_words=value_by_condition(words, names, "answer_words")[condition],
        hedges_per_100=value_by_condition(hedges, names, "hedges_per_100")[condition],
        copied_share=value_by_condition(copying, names, "copying")[condition],
        listed_share=listed_share,
        rng=rng,
    )
    return sources, written


def simulated_attempts(
    grid: Grid,
    cases: pd.DataFrame,
    written: text.WrittenAnswers,
    families: Sequence[str],
    failure_rate: float,
    rng: Rng,
) -> pd.DataFrame:
    """Return the attempts frame; start times are in random order."""
    case, condition, repeat = grid.axis(0), grid.axis(1), grid.axis(2)
    n, names = len(case), grid.names
    # draw once per case and repeat, so that the family is the same under all conditions
    family = rng.integers(0, len(families), (grid.plan.n_cases, grid.n_repeats))[case, repeat]
    failed = rng.random(n) < failure_rate
    of_case = {name: cases[name].array.take(case) for name in CASE}
    place = zip(of_case["case_id"], condition.tolist(), repeat.tolist(), strict=True)
    loaded = np.array(names)[condition] == "skill"
    spoken = np.rint(1.4 * written.n_words).astype(np.int64)
    columns = {
        "attempt_id": [f"{case_id}/{names[k]}/{r + 1}" for case_id, k, r in place],
        **of_case,
        "condition": texts(names).take(condition),
        "repeat": repeat + 1,
        "loaded_skill": pd.Series(of_case["skill"]).where(loaded).array,
        "agent": texts([f"agent-{f}" for f in families]).take(family),
        "agent_model": "simulated",
        "agent_family": texts(families).take(family),
        "status": texts(["ok", "error"]).take(failed.astype(np.int64)),
        "answer": pd.Series(written.text, dtype="str").mask(failed).array,
        "n_words": pd.arrays.IntegerArray(written.n_words, failed.copy()),
        "output_tokens": pd.arrays.IntegerArray(spoken, failed.copy()),
        "started_at": utc(_ATTEMPTS_START + rng.permutation(n).astype("timedelta64[m]")),
    }
    return framed("attempts", columns, n)


def items(
    grid: Grid,
    logits: Floats,
    spread: Spread,
    attempts: pd.DataFrame,
    checks: pd.DataFrame,
    written: text.WrittenAnswers,
    rng: Rng,
) -> Items:
    """Draw whether each check is met, for all attempts that have an answer."""
    case, condition = grid.axis(0), grid.axis(1)
    size = grid.plan.n_checks
    row = np.repeat(np.arange(len(case)), size[case])
    ends = np.cumsum(size[case])
    inside = np.arange(len(row)) - (ends - size[case])[row]
    first_check = np.cumsum(size) - size
    own = logits[case, condition] + spread.attempt * rng.standard_normal(len(case))
    met = rng.random(len(row)) < expit(own)[row]
    answered = attempts["answer"].notna().to_numpy()[row]
    place = (first_check[case][row] + inside)[answered]
    asked_checks = checks.take(place)[["check_id", "check_kind", "goal"]]
    features = features_of(written.n_words, written.n_hedges, written.listed)
    of_checks = row[answered], asked_checks, met[answered]
    return Items(attempts, grid.names, features, *of_checks, written)


def features_of(
    n_words: Any, n_hedges: Any, listed: Any, means: tuple[float, float] | None = None
) -> dict[str, Floats]:
    """Return the features that bias simulated graders; length and hedging are centred.

    `means` are the values to subtract; by default, the mean length and the mean hedging.
    """
    words = np.maximum(np.asarray(n_words, dtype=np.float64), 1)
    length, hedging = np.log2(words), 100 * np.asarray(n_hedges, dtype=np.float64) / words
    centre = means or (float(length.mean()), float(hedging.mean()))
    lists = np.asarray(listed, dtype=np.float64)
    return {"verbosity": length - centre[0], "hedging": hedging - centre[1], "list": lists}


def true_labels(items: Items, where: Any, labeller: str, passed: Bools) -> pd.DataFrame:
    """Return a gold frame of one labeller; `passed` has one label for each check in `where`."""
    row = items.row[where]
    columns = {
        "attempt_id": items.attempts["attempt_id"].array.take(row),
        "check_id": items.check["check_id"].array[where],
        "labeller": labeller,
        "passed": passed,
        "borderline": False,
        "inclusion_probability": 1.0,
    }
    return framed("gold", columns, len(row))


def simulated_gold(
    grid: Grid, items: Items, fraction: float, labeller_error: float | None, rng: Rng
) -> pd.DataFrame:
    """Draw cases of each skill and one repeat per case; label this repeat in every condition."""
    if not 0 <= fraction <= 1:
        raise StudyError(f"gold_fraction: found {fraction}; allowed: 0 to 1.")
    plan = grid.plan
    size = np.bincount(plan.skill)
    # draw at least one case per skill, so that no inclusion probability is 0
    n_drawn = np.maximum(np.rint(fraction * size), 1 if fraction > 0 else 0).astype(np.int64)
    order = np.lexsort((rng.random(plan.n_cases), plan.skill))
    rank = np.empty(plan.n_cases, dtype=np.int64)
    rank[order] = np.arange(plan.n_cases) - np.searchsorted(plan.skill, plan.skill)
    drawn = rank < n_drawn[plan.skill]
    repeat = rng.integers(0, grid.n_repeats, plan.n_cases)
    case = grid.axis(0)
    attempt = drawn[case] & (repeat[case] == grid.axis(2))
    where = np.flatnonzero(attempt[items.row])
    chance = (n_drawn / size)[plan.skill[case]] / grid.n_repeats
    truth = items.truth[where]
    labels = {"adjudicated": truth}
    if labeller_error is not None:
        for name in ("labeller-1", "labeller-2"):
            labels[name] = truth ^ (rng.random(len(truth)) < labeller_error)
    parts = [true_labels(items, where, name, passed) for name, passed in labels.items()]
    frame = pd.concat(parts, ignore_index=True)
    frame["inclusion_probability"] = np.tile(chance[items.row[where]], len(labels))
    return frame


def simulated_pairs(grid: Grid, graders: Sequence[Grader], items: Items, rng: Rng) -> pd.DataFrame:
    """Compare repeat 1 of the baseline with repeat 1 of the second condition, in both orders."""
    n_attempts = len(items.attempts)
    n_checks = np.bincount(items.row, minlength=n_attempts)
    met = np.bincount(items.row, weights=items.truth, minlength=n_attempts)
    with np.errstate(invalid="ignore"):
        share = (met / n_checks).reshape(grid.shape)[:, :2, 0]
    index = np.arange(n_attempts).reshape(grid.shape)[:, :2, 0]
    both = np.isfinite(share).all(axis=1)
    share, index = share[both], index[both]
    # if several graders have the same name, keep the first
    by_name = {grader.name: grader for grader in reversed(graders)}
    parts = [
        _drawn_judgements(grader, order, share, index, items, rng)
        for grader in list(by_name.values())[::-1]
        for order in (1, 2)
    ]
    return pd.concat(parts, ignore_index=True) if parts else empty("pairwise")


def _drawn_judgements(
    grader: Grader, order: int, share: Floats, index: Ints, items: Items, rng: Rng
) -> pd.DataFrame:
    pairs = index if order == 1 else index[:, ::-1]
    length = items.features["verbosity"][pairs]
    quality = share if order == 1 else share[:, ::-1]
    odds = grader.position_bias + _QUALITY * (quality[:, 0] - quality[:, 1])
    odds = odds + grader.verbosity_bias * (length[:, 0] - length[:, 1])
    position = np.where(rng.random(len(pairs)) < expit(odds), 0, 1)
    ids = items.attempts["attempt_id"].array
    columns = {
        **{name: items.attempts[name].array.take(index[:, 0]) for name in CASE},
        "grader": grader.name,
        "grader_family": grader.family,
        "order": order,
        "first": ids.take(pairs[:, 0]),
        "second": ids.take(pairs[:, 1]),
        "winner": ids.take(pairs[np.arange(len(pairs)), position]),
        "winner_position": position + 1,
    }
    return framed("pairwise", columns, len(pairs))


def simulated_rates(
    plan: Layout, cases: pd.DataFrame, names: list[str], logits: Floats, spread: Spread
) -> pd.DataFrame:
    """Return the true rates of every case in every condition."""
    case = np.repeat(np.arange(plan.n_cases), len(names))
    columns = {
        **{name: cases[name].array.take(case) for name in ("skill", "case_id", "transfer")},
        "condition": texts(names).take(np.tile(np.arange(len(names)), plan.n_cases)),
        "behaviour_rate": case_rates(logits, spread.attempt).ravel(),
        "attempt_rate": case_rates(logits, spread.attempt, plan.n_checks).ravel(),
    }
    return pd.DataFrame(columns)


def planted(attempts: pd.DataFrame, written: text.WrittenAnswers) -> pd.DataFrame:
    """Return the properties of the simulated answers, one row per attempt.

    Columns: number of words, of copied words and of hedges, and whether the answer is a list.
    """
    columns = {
        "attempt_id": attempts["attempt_id"],
        "n_words": written.n_words,
        "n_copied_words": written.n_copied,
        "n_hedges": written.n_hedges,
        "listed": written.listed,
    }
    return pd.DataFrame(columns)
