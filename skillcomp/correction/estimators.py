"""What each case shows by grader and by gold, and the estimators of one rate and of one delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from skillcomp.errors import plural, require_known
from skillcomp.frames.case_table import Value, clusters_of
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import groups, prepared
from skillcomp.frames.reference_labels import (
    attempt_passed,
    join_gold,
    known_verdict,
    labellers_said,
    reference_labels,
    share_of_checks,
    strays_of,
)
from skillcomp.stats.bounded import DELTAS, RATES, Quantity, bounded_means
from skillcomp.stats.grader_errors import (
    DifferentialTests,
    differential_misclassification,
    rates_against_gold,
    youden,
)
from skillcomp.stats.ppi import ppi_mean, ppi_paired
from skillcomp.stats.results import Interval, join_notes, undefined, within_range

Floats = NDArray[np.float64]

_PLACE = [*CASE, "condition", "attempt_id"]


@dataclass(frozen=True)
class Tables:
    """Verdicts joined with gold, and what follows from them for attempts and cases.

    ``items``, one row per verdict: ``by``, skill, case_id, cluster, condition, attempt_id,
    check_id, verdict and gold as 0, 1 or NaN, chance, settled_by (NA without a row).

    ``attempts``, one row per attempt: ``by``, the keys, cluster, passed and share_passed by the
    grader; gold_passed and gold_share; verdict and gold as ``value`` asks; seen, the grader's value
    on just what carries gold.

    ``cases``, one row per ``by``, case and condition: means over the attempts of the case
    (verdict, gold, seen), size and n (attempts, those with a verdict), n_gold, n_whole
    and n_sparse (attempts with gold; on all their checks; on fewer than half of them, or for whole
    attempts on not all, which counts as none), chance (with which the case was drawn for gold; NaN
    where not recorded), n_unknown (attempts with gold without it), case and cluster as numbers.

    ``strays`` says how many gold labels match no verdict; empty where none is lost.
    """

    items: pd.DataFrame
    attempts: pd.DataFrame
    cases: pd.DataFrame
    by: list[str]
    value: Value
    strays: str = ""

    def settled(self, values: Mapping[str, Any], conditions: Sequence[str]) -> str:
        """Say how the labels of a group's conditions were settled, "" where all in one way."""
        kept = self._settled.get(key_of(values, self.by))
        if kept is None:
            return ""
        kept = kept[kept["condition"].isin(conditions)]
        return labellers_said(kept["settled_by"], kept["gold"])

    @cached_property
    def _settled(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        kept = self.items[self.items["settled_by"].notna()]
        return {key_of(values, self.by): part for values, part in groups(kept, self.by)}

    def labelled(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Return verdict, gold, cluster and condition of each unit with gold, by group."""
        frame = self.items if self.value == "share_passed" else self.attempts
        kept = frame[frame["gold"].notna()]
        columns = list(dict.fromkeys([*self.by, "condition", "verdict", "gold"]))
        small = kept[columns].assign(cluster=pd.factorize(kept["cluster"])[0])
        return {key_of(values, self.by): part for values, part in groups(small, self.by)}


def key_of(values: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return the values that name a group, None where one is missing."""
    return tuple(None if pd.isna(values[name]) else values[name] for name in names)


def tables(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str],
    value: Value,
    cases: pd.DataFrame | None,
    what: str,
) -> Tables:
    """Join verdicts with gold and sum up attempts and cases.

    The frames are under their contracts or a researcher's own; ``by`` keeps rows apart, ``cases``
    tells which cases are contrast pairs, ``what`` names the analysis in messages. Raises FrameError
    where a frame breaks its contract, graders, agents or labellers would be pooled, or ``value``
    is unknown.
    """
    require_known("value: found", value, get_args(Value))
    given = prepared(verdicts, "verdicts", by, what, agents=True)
    labels = reference_labels(gold, what)
    joined = join_gold(given.assign(verdict=known_verdict(given)), labels)
    joined = joined.rename(columns={"inclusion_probability": "chance"})
    joined["cluster"] = clusters_of(joined, cases)
    keys = [*by, *_PLACE, "cluster", "check_id", "verdict", "gold", "chance", "settled_by"]
    items = joined[list(dict.fromkeys(keys))]
    attempts = _attempts(items, list(by), value)
    strays = strays_of(given, labels)
    return Tables(items, attempts, _cases(attempts, list(by)), list(by), value, strays)


def _attempts(items: pd.DataFrame, by: list[str], value: Value) -> pd.DataFrame:
    has, seen = items["gold"].notna(), items["verdict"].notna()
    met, keys = items["verdict"].eq(1), list(dict.fromkeys([*by, *_PLACE]))
    counted = {"_seen": seen, "_met": met, "_gold": has, "_gold_met": items["gold"].eq(1)}
    counted |= {"_both": has & seen, "_both_met": has & met}
    grouped = items.assign(**counted).groupby(keys, sort=False, dropna=False, observed=True)
    frame = grouped[list(counted)].sum().join(grouped[["cluster", "chance"]].first())
    frame = frame.reset_index()
    of_case = list(dict.fromkeys([*by, *CASE]))
    size = items.groupby(of_case, sort=False, dropna=False, observed=True)["check_id"].nunique()
    frame = frame.merge(size.rename("n_checks").reset_index(), on=of_case, how="left")
    frame["share_passed"] = share_of_checks(frame["_met"], frame["_seen"], frame["n_checks"])
    frame["passed"] = attempt_passed(frame["_met"], frame["_seen"], frame["n_checks"])
    frame["gold_share"] = share_of_checks(frame["_gold_met"], frame["_gold"], frame["n_checks"])
    # Gold on a part of the checks settles an attempt only where it fails: to count those alone
    # would choose attempts by their outcome. So gold on all checks or none.
    whole = frame["_gold"].eq(frame["n_checks"])
    frame["gold_passed"] = frame["_gold_met"].eq(frame["_gold"]).astype("float64").where(whole)
    if value == "share_passed":
        own = (frame["share_passed"], frame["gold_share"])
        on_gold = _share(frame["_both_met"], frame["_both"]).where(own[1].notna())
    else:
        own = (frame["passed"], frame["gold_passed"])
        on_gold = frame["passed"].where(frame["gold_passed"].notna())
    sparse = frame["_gold"].gt(0) & own[1].isna()
    return frame.assign(verdict=own[0], gold=own[1], seen=on_gold, sparse=sparse, whole=whole)


def _share(met: pd.Series, n: pd.Series) -> pd.Series:
    return met / n.where(n.gt(0))


def _cases(attempts: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    keys = list(dict.fromkeys([*by, *CASE, "cluster", "condition"]))
    labelled = attempts["gold"].notna()
    frame = attempts.assign(
        _n=attempts["verdict"].notna(),
        _chance=attempts["chance"].where(labelled),
        _unknown=labelled & attempts["chance"].isna(),
        seen=attempts["seen"].where(labelled),
    )
    grouped = frame.groupby(keys, sort=False, dropna=False, observed=True)
    table = grouped.agg(
        verdict=("verdict", "mean"),
        gold=("gold", "mean"),
        seen=("seen", "mean"),
        n=("_n", "sum"),
        n_gold=("gold", "count"),
        n_whole=("whole", "sum"),
        n_sparse=("sparse", "sum"),
        n_unknown=("_unknown", "sum"),
        chance=("_chance", "mean"),
        size=("attempt_id", "size"),
    ).reset_index()
    # One of several repeats is drawn: the case itself had as many chances as it has attempts.
    drawn = table["chance"] * table["size"] / table["n_gold"].where(table["n_gold"].gt(0))
    case = table.groupby(CASE, sort=False, dropna=False, observed=True).ngroup()
    return table.assign(
        chance=drawn.clip(upper=1.0),
        case=case.to_numpy(),
        cluster=pd.factorize(table["cluster"])[0],
    )


# The estimators

ESTIMATORS = ("naive", "gold_only", "rogan_gladen_pooled", "rogan_gladen_by_arm", "ppi")
_NO_BETTER_THAN = 1e-12  # Youden's J of a grader that is no better than chance
NO_BETTER = "sensitivity + specificity do not exceed 1: the grader is no better than chance"
POOLED_NOTE = "one sensitivity and specificity for all conditions; wrong where they differ"


@dataclass(frozen=True)
class Condition:
    """Cases of one condition: rows of :class:`Tables` (``cases``)."""

    cases: pd.DataFrame

    @property
    def n_gold(self) -> int:
        """Cases with gold."""
        return int(self.cases["gold"].notna().sum())

    @property
    def equal_chances(self) -> bool:
        """Whether every case with gold was drawn with the same chance, as far as recorded."""
        known = self.cases["chance"][self.cases["gold"].notna()].dropna()
        return known.empty or bool(np.isclose(known, known.iloc[0]).all())


def unrecorded(conditions: Iterable[Condition]) -> str:
    """Say how many chances are missing where others are known, "" where all or none are."""
    tables = pd.concat([one.cases[["n_gold", "n_unknown"]] for one in conditions])
    n_gold, unknown = (int(tables[name].sum()) for name in ("n_gold", "n_unknown"))
    if unknown in (0, n_gold):
        return ""
    return (
        f"inclusion_probability is missing for {unknown} of {n_gold} attempts with gold: give it "
        "for all (reliability.join_labels does so) or for none, if all had the same chance"
    )


def _ppi(estimate: Callable[..., Interval], table: pd.DataFrame, ci_level: float) -> Interval:
    """Return a prediction-powered estimate of cases, or of differences of cases."""
    codes, clusters = pd.factorize(table["cluster"])
    known = table.loc[table["gold"].notna(), "chance"]
    chances = len(known) and known.notna().all()
    return estimate(
        table["gold"].to_numpy(),
        table["verdict"].to_numpy(),
        predicted_on_gold=table["seen"].to_numpy(),
        clusters=codes if len(clusters) < len(codes) else None,
        inclusion_probability=table["chance"].to_numpy() if chances else None,
        ci_level=ci_level,
    )


@dataclass(frozen=True)
class Errors:
    """Sensitivity and specificity under one condition or over several."""

    sensitivity: Interval
    specificity: Interval

    @property
    def youden(self) -> Interval:
        """How much better than chance the grader is."""
        return youden(self.sensitivity, self.specificity)

    @property
    def j(self) -> float:
        """Youden's J, NaN where one of the rates is not defined."""
        return self.sensitivity.estimate + self.specificity.estimate - 1.0


def errors_of(groups: Sequence[pd.DataFrame], ci_level: float) -> list[Errors]:
    """Return sensitivity and specificity of each group of units with gold, intervals by case.

    Units are rows with verdict, gold and cluster. NaN with a note without a unit of a class.
    """
    asked = []
    for units in groups:
        verdict, gold = (units[name].to_numpy(dtype=float) for name in ("verdict", "gold"))
        asked += [(verdict, gold, truth, units["cluster"].to_numpy()) for truth in (1.0, 0.0)]
    found = rates_against_gold(asked, ci_level)
    return [Errors(*found[i : i + 2]) for i in range(0, len(found), 2)]


def no_units() -> pd.DataFrame:
    """Return units of a group without gold."""
    columns = {"verdict": "float64", "gold": "float64", "cluster": "int64", "condition": "str"}
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


def differential_tests(units: pd.DataFrame, base: pd.DataFrame) -> DifferentialTests:
    """Test whether the grader errs alike under two conditions, clustered by case."""
    verdict, gold, cluster = (
        np.concatenate([units[name].to_numpy(), base[name].to_numpy()])
        for name in ("verdict", "gold", "cluster")
    )
    first = np.arange(len(verdict)) < len(units)
    return differential_misclassification(verdict, gold, first, clusters=cluster)


def ppi_rate(side: Condition, ci_level: float) -> Interval:
    """Prediction-powered pass rate of one condition."""
    if why := unrecorded([side]):
        return undefined("PPI++ mean", why, ci_level=ci_level, n=0.0)
    return _ppi(ppi_mean, side.cases, ci_level)


LABELS = {"verdict": "the grader as it is", "gold": "gold alone"}


def plain_rates(conditions: Sequence[Condition], ci_level: float) -> list[dict[str, Interval]]:
    """Return the rate of each condition by the grader's verdicts and by gold alone."""
    asked = [(one.cases, source) for one in conditions for source in LABELS]
    return _bounded(asked, RATES, None, [""] * len(asked), ci_level)


def plain_deltas(
    compared: Sequence[tuple[Condition, Condition]], ci_level: float
) -> list[dict[str, Interval]]:
    """Return the paired delta of two conditions by the verdicts and by gold alone."""
    asked, notes = [], []
    for side, base in compared:
        pairs = paired_cases(side, base)
        for source in LABELS:
            known = pairs[source].notna()
            seen = [one.cases.loc[one.cases[source].notna(), "case"] for one in (side, base)]
            dropped = pd.concat(seen).nunique() - int(known.sum())
            skills = pairs.loc[known, "skill"].nunique()
            said = [f"cases of these {skills} skills"] if skills > 1 else []
            if dropped:
                said += [
                    f"{plural(dropped, 'case')} dropped: no outcome in one of the two conditions"
                ]
            notes.append("; ".join(said))
            asked.append((pairs, source))
    return _bounded(asked, DELTAS, 0.0, notes, ci_level)


def _bounded(
    asked: Sequence[tuple[pd.DataFrame, str]],
    quantity: Quantity,
    null: float | None,
    notes: Sequence[str],
    ci_level: float,
) -> list[dict[str, Interval]]:
    """Return for each two of the asked, verdicts and gold, one dict of bounded means."""
    known = [(table[table[source].notna()], source) for table, source in asked]
    samples = [(table[source], table["cluster"], None) for table, source in known]
    found = bounded_means(samples, quantity=quantity, null=null, ci_level=ci_level)
    named = []
    for one, (_, source), note in zip(found, asked, notes, strict=True):
        if not one.n:
            said = "no outcome by gold" if source == "gold" else "no outcome by grader"
            named.append(undefined(LABELS[source], said, ci_level=ci_level, n=0.0))
        else:
            method, said = f"{LABELS[source]}, {one.method}", join_notes(one.note, note)
            named.append(replace(one, method=method, note=said))
    return [dict(zip(LABELS, named[i : i + 2], strict=True)) for i in range(0, len(named), 2)]


def paired_cases(side: Condition, base: Condition) -> pd.DataFrame:
    """Return the cases of both conditions: differences, gold where both carry it."""
    _, at, other = np.intersect1d(side.cases["case"], base.cases["case"], return_indices=True)
    first, second = side.cases.take(at), base.cases.take(other)
    columns = {
        name: first[name].to_numpy() - second[name].to_numpy()
        for name in ("verdict", "gold", "seen")
    }
    columns["chance"] = np.minimum(first["chance"].to_numpy(), second["chance"].to_numpy())
    columns |= {name: first[name].to_numpy() for name in ("cluster", "skill")}
    return pd.DataFrame(columns)


def ppi_delta(side: Condition, base: Condition, pairs: pd.DataFrame, ci_level: float) -> Interval:
    """Prediction-powered delta: paired where cases carry gold in both, else each by itself."""
    if why := unrecorded([side, base]):
        return undefined("PPI++ paired difference", why, ci_level=ci_level, n=0.0)
    pairs = pairs[pairs["verdict"].notna()]
    if pairs["gold"].notna().any():
        return _ppi(ppi_paired, pairs, ci_level)
    found = _minus(ppi_rate(side, ci_level), ppi_rate(base, ci_level), "PPI++ by condition")
    if math.isnan(found.estimate):
        return found
    note = "no case carries gold in both conditions: each corrected apart, interval too wide"
    return replace(found, note=join_notes(note, found.note))


def corrected_rate(naive: Interval, side: Condition, errors: Errors, ci_level: float) -> Interval:
    """Rogan-Gladen pass rate: the limits of the naive one over J, and the uncertainty of J."""
    label, gold = "Rogan-Gladen", float(side.n_gold)
    if math.isnan(naive.low) or math.isnan(errors.j):
        reasons = (errors.sensitivity.note, errors.specificity.note, "no verdict")
        reason = next(filter(None, reasons))
        return undefined(label, reason, ci_level=ci_level, n=0.0)
    if errors.j <= _NO_BETTER_THAN:
        return undefined(label, NO_BETTER, ci_level=ci_level, n=gold)
    estimate = (naive.estimate + errors.specificity.estimate - 1.0) / errors.j
    true = min(max(estimate, 0.0), 1.0)
    return _over_j(label, naive, estimate, errors, (true, 1.0 - true), (0.0, 1.0), gold)


def _over_j(
    label: str,
    naive: Interval,
    estimate: float,
    errors: Errors,
    moved: tuple[float, float],
    bounds: tuple[float, float],
    n: float,
) -> Interval:
    """Interval of an estimate that divides the naive one by Youden's J.

    Each limit adds the naive one over J and the uncertainty of J in squares. ``moved`` is by how
    much J times the estimate moves with the sensitivity and with the specificity; both are shrunk
    as Lang and Reiczigel do, so that neither counts as certain.
    """
    j, variance = errors.j, 0.0
    for one, by in zip((errors.sensitivity, errors.specificity), moved, strict=True):
        labels = _labels(one)
        rate = (labels * one.estimate + 1.0) / (labels + 2.0)
        variance += by**2 * rate * (1.0 - rate) / (labels + 2.0)
    reach = float(norm.isf((1.0 - naive.ci_level) / 2.0)) * math.sqrt(variance) / j
    low = estimate - math.hypot((naive.estimate - naive.low) / j, reach)
    high = estimate + math.hypot((naive.high - naive.estimate) / j, reach)
    inside, low, high, cut = within_range(estimate, low, high, bounds)
    return Interval(inside, low, high, naive.ci_level, f"{label}, {naive.method}", cut, n)


def pooled_rate(naive: Interval, side: Condition, pooled: Errors, ci_level: float) -> Interval:
    """Rogan-Gladen pass rate with the error rates of all conditions, for comparison only."""
    found = corrected_rate(naive, side, pooled, ci_level)
    if math.isnan(found.estimate):
        return found
    return replace(found, note=join_notes(POOLED_NOTE, found.note))


def _labels(found: Interval) -> float:
    """Effective labels behind an error rate: at most all, at least one per case."""
    # With no error seen, labels of one case may all agree for one reason: count the cases.
    least, spread = min(found.n_clusters, found.n), found.estimate * (1.0 - found.estimate)
    effective = spread / found.se**2 if spread > 0 and found.se > 0 else least
    return min(max(effective, least), found.n)


def by_condition_delta(first: Interval, second: Interval) -> Interval:
    """Difference of two Rogan-Gladen rates, each with the error rates of its own condition."""
    return _minus(first, second, "Rogan-Gladen by condition")


def _minus(first: Interval, second: Interval, label: str) -> Interval:
    found = first.minus(second)
    if math.isnan(found.low):
        # a condition that has its limits has nothing to do with why there is no difference
        whys = (one.note for one in (first, second) if math.isnan(one.low))
        reason = "; ".join(dict.fromkeys(filter(None, whys)))
        return undefined(label, reason, ci_level=first.ci_level, n=0.0)
    return replace(
        found,
        low=max(found.low, -1.0),
        high=min(found.high, 1.0),
        method=f"{label}, {found.method}",
        note="; ".join(dict.fromkeys(filter(None, (first.note, second.note)))),
        n=min(first.n, second.n),
    )


def pooled_delta(naive: Interval, errors: Errors, n_gold: int, ci_level: float) -> Interval:
    """Return the naive delta over a pooled Youden's J, for comparison only."""
    label = "Rogan-Gladen pooled"
    if math.isnan(errors.j) or math.isnan(naive.low):
        reason = errors.sensitivity.note or errors.specificity.note or naive.note
        return undefined(label, reason, ci_level=ci_level, n=0.0)
    if errors.j <= _NO_BETTER_THAN:
        return undefined(label, NO_BETTER, ci_level=ci_level, n=float(n_gold))
    estimate = naive.estimate / errors.j
    moved = (abs(estimate), abs(estimate))
    found = _over_j(label, naive, estimate, errors, moved, (-1.0, 1.0), float(n_gold))
    return replace(found, note=join_notes(POOLED_NOTE, found.note))
