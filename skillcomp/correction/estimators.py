"""The estimators of one rate and of one delta, from the cases of one group."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.correction.errors import Errors
from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.misclassification import rogan_gladen
from skillcomp.stats.ppi import ppi_mean, ppi_paired, within_range
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.score import quantile

Floats = NDArray[np.float64]

ESTIMATORS = ("naive", "gold_only", "rogan_gladen_pooled", "rogan_gladen_by_arm", "ppi")
POOLED_NOTE = "one sensitivity and specificity for all conditions; wrong where they differ"


@dataclass(frozen=True)
class Arm:
    """Cases of one condition: verdict, gold and seen (grader where gold is), and who relates."""

    cases: pd.DataFrame

    @property
    def clusters(self) -> NDArray[np.intp] | None:
        """Cluster codes where several cases share a cluster, else None."""
        return cluster_codes(self.cases["cluster"])

    @property
    def n_gold(self) -> int:
        """Cases with gold."""
        return int(self.cases["gold"].notna().sum())

    @property
    def equal_chances(self) -> bool:
        """Whether every case with gold was drawn with the same chance, as far as recorded."""
        known = self.cases["chance"][self.cases["gold"].notna()].dropna()
        return known.empty or bool(np.isclose(known, known.iloc[0]).all())


def cluster_codes(labels: pd.Series) -> NDArray[np.intp] | None:
    """Return cluster codes where several cases share a cluster, else None."""
    codes, found = pd.factorize(labels)
    return codes if len(found) < len(codes) else None


def unrecorded(arms: Iterable[Arm]) -> str:
    """Say how many chances are missing where others are known, "" where all or none are."""
    tables = pd.concat([arm.cases[["n_gold", "n_unknown"]] for arm in arms])
    n_gold, unknown = (int(tables[name].sum()) for name in ("n_gold", "n_unknown"))
    if unknown in (0, n_gold):
        return ""
    return (
        f"inclusion_probability is missing for {unknown} of {n_gold} attempts with gold: give it "
        "for all (reliability.join_batches does so) or for none, if all had the same chance"
    )


def _chance(values: pd.Series, gold: pd.Series) -> Floats | None:
    known = values[gold.notna()]
    return values.to_numpy() if len(known) and known.notna().all() else None


def ppi_rate(arm: Arm, ci_level: float) -> Interval:
    """Prediction-powered pass rate of one condition."""
    if why := unrecorded([arm]):
        return undefined("PPI++ mean", why, ci_level=ci_level, n=0.0)
    table = arm.cases
    return ppi_mean(
        table["gold"].to_numpy(),
        table["verdict"].to_numpy(),
        predicted_on_gold=table["seen"].to_numpy(),
        clusters=arm.clusters,
        inclusion_probability=_chance(table["chance"], table["gold"]),
        ci_level=ci_level,
    )


def paired_cases(arm: Arm, base: Arm) -> pd.DataFrame:
    """Return the cases with a verdict in both arms: differences, gold where both arms carry it."""
    _, at, other = np.intersect1d(arm.cases["case"], base.cases["case"], return_indices=True)
    first, second = arm.cases.take(at), base.cases.take(other)
    columns = {
        name: first[name].to_numpy() - second[name].to_numpy()
        for name in ("verdict", "gold", "seen")
    }
    columns["chance"] = np.minimum(first["chance"].to_numpy(), second["chance"].to_numpy())
    columns["cluster"] = first["cluster"].to_numpy()
    table = pd.DataFrame(columns)
    return table[table["verdict"].notna()]


def ppi_delta(arm: Arm, base: Arm, pairs: pd.DataFrame, ci_level: float) -> Interval:
    """Prediction-powered delta: paired where cases carry gold in both arms, else arm by arm."""
    if why := unrecorded([arm, base]):
        return undefined("PPI++ paired difference", why, ci_level=ci_level, n=0.0)
    if pairs["gold"].notna().any():
        return ppi_paired(
            pairs["gold"].to_numpy(),
            pairs["verdict"].to_numpy(),
            predicted_on_gold=pairs["seen"].to_numpy(),
            clusters=cluster_codes(pairs["cluster"]),
            inclusion_probability=_chance(pairs["chance"], pairs["gold"]),
            ci_level=ci_level,
        )
    found = _minus(ppi_rate(arm, ci_level), ppi_rate(base, ci_level), "PPI++ by arm")
    if math.isnan(found.estimate):
        return found
    note = "no case carries gold in both conditions: arms corrected apart, interval too wide"
    return replace(found, note="; ".join(filter(None, (note, found.note))))


def corrected_rate(rate: float, arm: Arm, errors: Errors, ci_level: float) -> Interval:
    """Rogan-Gladen pass rate, every count being an effective number."""
    label = "Rogan-Gladen, Lang-Reiczigel"
    if math.isnan(rate) or not errors.known:
        reasons = (errors.sensitivity.note, errors.specificity.note, "no verdict")
        reason = next(filter(None, reasons))
        return undefined(label, reason, ci_level=ci_level, n=0.0)
    given = arm.cases["verdict"].to_numpy()
    units = _effective(rate, cr2_mean(given, arm.clusters).se, np.isfinite(given).sum())
    # Shrunk rates that sum to exactly 1 divide by zero; the answer then says so.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = rogan_gladen(
            rate,
            units,
            errors.sensitivity.estimate,
            _labels(errors.sensitivity),
            errors.specificity.estimate,
            _labels(errors.specificity),
            ci_level=ci_level,
        )
    return replace(found, method=f"{found.method} on effective n", n=float(arm.n_gold))


def pooled_rate(rate: float, arm: Arm, pooled: Errors, ci_level: float) -> Interval:
    """Rogan-Gladen pass rate with the error rates of all conditions, for comparison only."""
    found = corrected_rate(rate, arm, pooled, ci_level)
    if math.isnan(found.estimate):
        return found
    return replace(found, note="; ".join(filter(None, (POOLED_NOTE, found.note))))


def _effective(rate: float, se: float, n: float) -> float:
    """Return how many independent units a rate with this standard error stands for."""
    spread = rate * (1.0 - rate)
    return spread / se**2 if spread > 0 and se > 0 else float(n)


def _labels(found: Interval) -> float:
    """Effective labels behind an error rate: at most all, at least one per case."""
    # With no error seen, labels of one case may all agree for one reason: count the cases.
    least = min(found.n_clusters, found.n)
    return min(max(_effective(found.estimate, found.se, least), least), found.n)


def by_arm_delta(first: Interval, second: Interval) -> Interval:
    """Difference of two Rogan-Gladen rates, each with the error rates of its own arm."""
    return _minus(first, second, "Rogan-Gladen by arm")


def _minus(first: Interval, second: Interval, label: str) -> Interval:
    if math.isnan(first.low + second.low):
        # an arm that has its limits has nothing to do with why there is no difference
        whys = (one.note for one in (first, second) if math.isnan(one.low))
        reason = "; ".join(dict.fromkeys(filter(None, whys)))
        return undefined(label, reason, ci_level=first.ci_level, n=0.0)
    found = mover_difference(first, second)
    return replace(
        found,
        low=max(found.low, -1.0),
        high=min(found.high, 1.0),
        method=f"{label}, {found.method}",
        note="; ".join(dict.fromkeys(filter(None, (first.note, second.note)))),
        n=min(first.n, second.n),
    )


def pooled_delta(naive: Interval, errors: Errors, n_gold: int, ci_level: float) -> Interval:
    """Naive delta over a pooled Youden's J, for comparison only.

    Parameters
    ----------
    naive : Interval
        The grader's delta.
    errors : Errors
        Error rates over all conditions together.
    n_gold : int
        Cases behind them.
    ci_level : float
        Level of the interval.

    Returns
    -------
    Interval
        ``delta / J``. Each limit adds the naive one over J and the uncertainty of J in squares;
        the error rates are shrunk as Lang and Reiczigel do, so that neither counts as certain.
    """
    label = "Rogan-Gladen pooled"
    if not errors.known or math.isnan(naive.low):
        reason = errors.sensitivity.note or errors.specificity.note or naive.note
        return undefined(label, reason, ci_level=ci_level, n=0.0)
    j = errors.sensitivity.estimate + errors.specificity.estimate - 1.0
    if j <= 1e-12:
        reason = "sensitivity + specificity do not exceed 1: the grader is no better than chance"
        return undefined(label, reason, ci_level=ci_level, n=float(n_gold))
    variance = 0.0
    for one in (errors.sensitivity, errors.specificity):
        n = _labels(one)
        rate = (n * one.estimate + 1.0) / (n + 2.0)
        variance += rate * (1.0 - rate) / (n + 2.0)
    estimate = naive.estimate / j
    reach = quantile(ci_level) * abs(estimate) * math.sqrt(variance) / j
    low = estimate - math.hypot((naive.estimate - naive.low) / j, reach)
    high = estimate + math.hypot((naive.high - naive.estimate) / j, reach)
    inside, low, high, cut = within_range(estimate, low, high, (-1.0, 1.0))
    method = f"{label}, {naive.method}"
    note = "; ".join(filter(None, (POOLED_NOTE, cut)))
    return Interval(inside, low, high, ci_level, method, note, float(n_gold))
