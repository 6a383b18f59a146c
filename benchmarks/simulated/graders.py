"""Simulated graders with chosen error rates, drift and biases, and streams of gold checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray
from scipy.special import expit, logit

from benchmarks.simulated.design import Bools, Floats, Ints, Rng
from benchmarks.simulated.text import WrittenAnswers, quotes
from skillcomp.errors import StudyError, suggest
from skillcomp.frames.contracts import ATTEMPT_KEYS, CONTRACTS

Rate = float | Mapping[str, float]

GRADING_STARTS = np.datetime64("2026-02-02T08:00:00", "us")
SECONDS_PER_ATTEMPT = 60  # A simulated grader needs this time for one attempt.
BATCH_ATTEMPTS = 14  # Number of attempts per batch.
BIASES = {  # For each bias, the meaning of one unit of its feature.
    "verbosity": "doubling of the answer's words",
    "hedging": "hedge word per 100 words",
    "family": "answer of the grader's own model family",
    "list": "answer in the form of a bullet list",
    "order": "way from the first to the last verdict of a batch",
}
_GRADER_FIELDS = ("kind", "model", "family", "version")
_RATES = ("sensitivity", "specificity", "failure_rate", "quote_error_rate", "dimension_error_rate")


@dataclass(frozen=True)
class Grader:
    """A simulated grader with known error rates.

    Attributes
    ----------
    name : str
        Name of the grader in the verdicts.
    sensitivity : float or mapping of str to float
        Chance that a check is passed if it is met: one number, or one per condition. The chance
        holds for an answer that is not a list, is from another model family, has the study's mean
        log length and mean hedge rate, and is graded in the middle of a batch. Biases do not change
        a chance of 1 or 0.
    specificity : float or mapping of str to float
        Chance that a check is failed if it is not met, for such an answer.
    version, family, model, kind : str
        Values of the grader columns of the verdicts.
    verbosity_bias, hedging_bias, family_bias, list_bias, order_bias : float
        Change of the log odds of a PASS, the same for met and unmet checks. In this order: per
        doubling of the answer's length, per additional hedge word in 100 words, for answers of the
        grader's own family, for bullet lists, and from the first to the last verdict of a batch.
    position_bias : float
        Change of the log odds that the answer shown first wins a pairwise comparison.
    drift : tuple of (time, sensitivity, specificity), optional
        Time of a drift, and sensitivity and specificity from then on. The time is the share of
        attempts that are graded before the drift, strictly between 0 and 1.
    failure_rate : float or mapping of str to float
        Chance that a verdict is ``malformed``, so that ``passed`` is NA.
    asks_evidence : bool
        Whether verdicts have a quote, a rationale and a verdict on the dimension.
    quote_error_rate : float
        Chance that the quote is not in the answer.
    dimension_error_rate : float
        Chance that ``dimension_passed`` of an attempt contradicts the verdicts on its checks.
    rounds : int
        Number of times that everything is graded. The rounds are independent draws with the same
        rates.
    """

    name: str
    sensitivity: Rate = 0.9
    specificity: Rate = 0.9
    version: str = "1"
    family: str = "family-a"
    model: str = "simulated"
    kind: str = "llm"
    verbosity_bias: float = 0.0
    hedging_bias: float = 0.0
    family_bias: float = 0.0
    list_bias: float = 0.0
    order_bias: float = 0.0
    position_bias: float = 0.0
    drift: tuple[float, Rate, Rate] | None = None
    failure_rate: Rate = 0.0
    asks_evidence: bool = True
    quote_error_rate: float = 0.0
    dimension_error_rate: float = 0.0
    rounds: int = 1

    def __post_init__(self) -> None:
        """Raise StudyError for an impossible rate, time of drift or number of rounds."""
        rates = {name: getattr(self, name) for name in _RATES}
        if self.drift is not None:
            share = self.drift[0]
            if not 0 < share < 1:
                rule = "a share strictly between 0 and 1"
                raise StudyError(f"grader '{self.name}': drift time {share!r}; allowed: {rule}.")
            rates |= {"drifted sensitivity": self.drift[1], "drifted specificity": self.drift[2]}
        for name, rate in rates.items():
            values = list(rate.values()) if isinstance(rate, Mapping) else [rate]
            if not all(0 <= value <= 1 for value in values):
                rule = "0 to 1, one number or one per condition"
                raise StudyError(f"grader '{self.name}': {name} is {rate!r}; allowed: {rule}.")
        if self.rounds < 1:
            raise StudyError(f"grader '{self.name}': rounds is {self.rounds}; allowed: 1 or more.")

    def coefficient(self, bias: str) -> float:
        """Return how much one unit of a bias's feature changes the log odds of a PASS."""
        return float(getattr(self, f"{bias}_bias"))

    def drift_time(self, n_attempts: int) -> np.datetime64 | None:
        """Return the ``graded_at`` at which the drift begins; None if the grader does not drift."""
        if self.drift is None:
            return None
        seconds = round(self.drift[0] * n_attempts) * SECONDS_PER_ATTEMPT
        return GRADING_STARTS + np.timedelta64(seconds, "s")


def value_by_condition(rate: Rate, conditions: list[str], what: str) -> Floats:
    """Return one number per condition; `rate` is a number for all conditions, or a mapping."""
    if not isinstance(rate, Mapping):
        return np.full(len(conditions), float(rate))
    absent = [name for name in conditions if name not in rate]
    odd = [name for name in rate if name not in conditions]
    if absent or odd:
        names = ", ".join(map(repr, rate))
        raise StudyError(
            f"{what}: found {names}; allowed: one number, or one for each condition of the study "
            f"({', '.join(conditions)})." + (suggest(odd[0], conditions) if odd else "")
        )
    return np.array([float(rate[name]) for name in conditions])


@dataclass(frozen=True, slots=True)
class Items:
    """Input of a simulated grader: attempts with their features, and one row per check.

    Attributes
    ----------
    attempts : pandas.DataFrame
        Attempts frame with the answers to grade.
    conditions : list of str
        All conditions of the study.
    features : dict of str to numpy.ndarray
        Values per attempt: ``verbosity`` (log2 of the words, centred), ``hedging`` (hedge words per
        100 words, centred) and ``list`` (1 for a bullet list, else 0).
    row : numpy.ndarray of int
        Row in `attempts` of each check; the checks of an attempt are adjacent.
    check : pandas.DataFrame
        check_id, check_kind and goal of each check.
    truth : numpy.ndarray of bool
        Whether the check is met.
    answers : WrittenAnswers, optional
        Texts to quote from; if None, the start of the answer is quoted.
    """

    attempts: pd.DataFrame
    conditions: list[str]
    features: dict[str, Floats]
    row: Ints
    check: pd.DataFrame
    truth: Bools
    answers: WrittenAnswers | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each check is graded: batch, position in the batch and time.

    `batch` counts from 0. `item` is the number of the attempt within its batch, and `order` the
    number of the check within its batch; both count from 1. `place` runs from -0.5 for the first
    check of a batch to 0.5 for the last.
    """

    batch: Ints
    item: Ints
    order: Ints
    place: Floats
    graded_at: NDArray[np.datetime64]


def schedule(items: Items, round_number: int, rng: Rng) -> Schedule:
    """Schedule the attempts in random order, one per minute and divided into batches.

    Each round begins a week after the round before it.
    """
    n, row = len(items.attempts), items.row
    rank = rng.permutation(n)
    batch, item = rank // BATCH_ATTEMPTS, rank % BATCH_ATTEMPTS + 1
    size = np.bincount(row, minlength=n)
    inside = np.arange(len(row)) - (np.cumsum(size) - size)[row]
    by_rank = np.argsort(rank)
    before = np.empty(n, dtype=np.int64)
    before[by_rank] = np.cumsum(size[by_rank]) - size[by_rank]
    total = np.bincount(batch, weights=size)
    batch_start = np.concatenate([[0], np.cumsum(total)[:-1]]).astype(np.int64)
    order = before[row] + inside - batch_start[batch[row]] + 1
    seconds = rank[row] * SECONDS_PER_ATTEMPT + np.minimum(inside, SECONDS_PER_ATTEMPT - 1)
    seconds += (round_number - 1) * 7 * 86_400
    last = np.maximum(total[batch[row]] - 1, 1)
    place, graded_at = (order - 1) / last - 0.5, GRADING_STARTS + seconds.astype("timedelta64[s]")
    return Schedule(batch[row], item[row], order, place, graded_at)


def pass_logits(grader: Grader, items: Items, when: Schedule) -> Floats:
    """Return the log odds that each check is passed, given its truth and the grader's biases."""
    names, row = items.conditions, items.row
    condition = pd.Index(names).get_indexer(pd.Index(items.attempts["condition"]))[row]
    label = f"grader '{grader.name}'"
    phases = [(grader.sensitivity, grader.specificity)]
    late = np.zeros(len(row), dtype=np.int64)
    at = grader.drift_time(len(items.attempts))
    if grader.drift is not None and at is not None:
        phases.append((grader.drift[1], grader.drift[2]))
        late = (when.graded_at >= at).astype(np.int64)
    met = np.array([value_by_condition(se, names, f"{label} sensitivity") for se, _ in phases])
    unmet = np.array([value_by_condition(sp, names, f"{label} specificity") for _, sp in phases])
    odds = np.where(items.truth, logit(met)[late, condition], -logit(unmet)[late, condition])
    for bias in BIASES:
        if grader.coefficient(bias):
            odds = odds + grader.coefficient(bias) * feature(grader, items, when, bias)
    return np.asarray(odds, dtype=np.float64)


def feature(grader: Grader, items: Items, when: Schedule, bias: str) -> Floats:
    """Return the feature to which a bias reacts, one value per check."""
    if bias == "order":
        return when.place
    if bias == "family":
        family = items.attempts["agent_family"].to_numpy(dtype=object)
        return np.asarray(family == grader.family, dtype=np.float64)[items.row]
    return items.features[bias][items.row]


def grade_items(grader: Grader, items: Items, rng: Rng) -> tuple[pd.DataFrame, Floats, Schedule]:
    """Return the verdicts of all rounds, and the log odds and schedule of the first round."""
    first: tuple[Floats, Schedule] | None = None
    rounds = []
    for number in range(1, grader.rounds + 1):
        when = schedule(items, number, rng)
        odds = pass_logits(grader, items, when)
        first = first or (odds, when)
        passed = rng.random(len(odds)) < expit(odds)
        failure = value_by_condition(grader.failure_rate, items.conditions, "failure_rate")
        where = pd.Index(items.conditions).get_indexer(pd.Index(items.attempts["condition"]))
        failed = rng.random(len(odds)) < failure[where][items.row]
        rounds.append(_drawn_verdicts(grader, items, when, passed, failed, number, rng))
    assert first is not None
    return pd.concat(rounds, ignore_index=True), *first


def _drawn_verdicts(
    grader: Grader,
    items: Items,
    when: Schedule,
    passed: Bools,
    failed: Bools,
    number: int,
    rng: Rng,
) -> pd.DataFrame:
    n, row = len(items.row), items.row
    suffix = "" if number == 1 else f"-{number}"
    names = [f"{grader.name}/{k + 1}{suffix}" for k in range(int(when.batch.max(initial=-1)) + 1)]
    numbers = [f"{k:02d}" for k in range(BATCH_ATTEMPTS + 1)]
    columns: dict[str, Any] = {
        **{name: items.attempts[name].array.take(row) for name in ATTEMPT_KEYS},
        **{name: items.check[name].array for name in items.check.columns},
        "grader": grader.name,
        **{f"grader_{of}": getattr(grader, of) for of in _GRADER_FIELDS},
        "round": number,
        "batch": texts(names).take(when.batch),
        "item": texts(numbers).take(when.item),
        "order": when.order,
        "status": texts(["ok", "malformed"]).take(failed.astype(int)),
        "passed": pd.arrays.BooleanArray(passed, failed.copy()),
        **_evidence_columns(grader, items, passed, failed, rng),
        "borderline": pd.arrays.BooleanArray(np.zeros(n, dtype=bool), failed.copy()),
        "dimension_passed": _dimension_passes(grader, items, passed, failed, rng),
        "graded_at": utc(when.graded_at),
    }
    return framed("verdicts", columns, n)


def _dimension_passes(grader: Grader, items: Items, passed: Bools, failed: Bools, rng: Rng) -> Any:
    """Return, for each check, the dimension verdict of its attempt.

    Return None if the grader is not asked for evidence; it then gives no dimension verdicts.
    """
    if not grader.asks_evidence:
        return None
    n = len(items.attempts)
    whole = np.bincount(items.row, weights=~passed, minlength=n) == 0
    # do not draw at rate 0, because a draw would change all later random numbers
    if grader.dimension_error_rate:
        whole ^= rng.random(n) < grader.dimension_error_rate
    return pd.arrays.BooleanArray(whole[items.row], failed.copy())


def framed(kind: str, columns: Mapping[str, Any], n: int) -> pd.DataFrame:
    """Return a frame of `kind` with `n` rows; columns that are not given have missing values.

    Lists and single values are converted to the dtype of their column.
    """
    full = {}
    dtype: Any
    for name, dtype in CONTRACTS[kind].columns.items():
        values = columns.get(name)
        if values is None:
            values = pd.Series(None, index=range(n), dtype=dtype).array
        elif isinstance(values, str | int | float):
            values = pd.array([values], dtype=dtype).repeat(n)
        elif not isinstance(values, ExtensionArray):
            values = pd.array(values, dtype=dtype)
        full[name] = values
    return pd.DataFrame(full)


def texts(values: Sequence[str | None]) -> Any:
    """Return the values as an array of text."""
    return pd.array(list(values), dtype="str")


def utc(times: NDArray[np.datetime64]) -> Any:
    """Return the times as an array of times in UTC."""
    return pd.DatetimeIndex(times).as_unit("us").tz_localize("UTC").array


def _evidence_columns(
    grader: Grader, items: Items, passed: Bools, failed: Bools, rng: Rng
) -> dict[str, Any]:
    """Return the evidence columns; no columns if the grader is not asked for evidence."""
    if not grader.asks_evidence:
        return {}
    if items.answers is not None:
        quoted = quotes(items.answers, items.row, rng)
    else:
        starts = [" ".join(answer.split()[:6]) for answer in items.attempts["answer"]]
        quoted = [starts[k] for k in items.row]
    wrong = rng.random(len(quoted)) < grader.quote_error_rate
    # no answer has this quote, because the simulated vocabulary has no such short words
    quote = pd.Series(quoted, dtype="str").mask(wrong, "it is not in it")
    reasons = texts(["The answer does not meet it.", "The answer meets it.", None])
    return {
        "evidence_quote": quote.mask(failed).array,
        "evidence_found": pd.arrays.BooleanArray(~wrong, failed.copy()),
        "rationale": reasons.take(np.where(failed, 2, passed.astype(np.int64))),
    }
