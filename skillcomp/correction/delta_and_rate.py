"""Rates and deltas corrected for the grader's errors, and differences of these errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from skillcomp.contrast import (
    WEIGHT,
    BoundedValue,
    Bounds,
    Value,
    arms_of,
    check_bounds,
    claim,
    claimed,
    few_skills,
    lost_attempts,
    verdict_table,
)
from skillcomp.errors import FrameError, argument, plural, require_known
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    columns_of,
    estimates,
    grouped,
    groups,
    listed,
    ordered,
    prepared,
    require_reference,
    row,
    rows_of_group,
    with_method,
)
from skillcomp.frames.reference_labels import (
    CALIBRATION,
    NAME_DRAWN_BY,
    Drawn,
    check_draw,
    draw_words,
    drawn_strata,
    join_gold,
    known_verdict,
    labelled_shares,
    labellers_said,
    one_draw,
    reference_labels,
    refuted_draw,
    share_of_checks,
    strays_of,
    unequal_shares,
    usable,
)
from skillcomp.frames.table_pairs import OF_PAIR
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    Arm,
    IntervalRule,
    Quantity,
    Sample,
    bounded_means,
)
from skillcomp.stats.intervals import NO_GOLD, weighted_rate
from skillcomp.stats.ppi import UNSEEN, ppi_mean
from skillcomp.stats.results import (
    NEEDED,
    OUTSIDE,
    Fields,
    Interval,
    Intervals,
    join_notes,
    needed_columns,
    note_on_width,
    quantile,
    undefined,
    within_range,
)
from skillcomp.stats.significance import (
    DifferentialTests,
    differential_misclassification,
    equal_errors,
    error_limits,
    rates_against_gold,
    youden,
    youden_difference,
)

_PLACE = [*CASE, "condition", "attempt_id"]
_MADE = ("chance", "stratum", WEIGHT, "n_checks", "settled_by")
Sides = dict[str, pd.DataFrame]  # The rows of each condition.
ByGroup = dict[tuple[Any, ...], pd.DataFrame]  # The rows of each group, by the values of `by`.


class Draw(NamedTuple):
    """How gold was drawn; ``problem`` is a message if the labels contradict ``gold_drawn``."""

    gold_drawn: str
    words: str
    problem: str = ""


@dataclass(frozen=True)
class Tables:
    """Verdicts joined with gold, and their means by attempt and by case.

    ``items`` has one row per verdict: ``by``, skill, case_id, cluster, condition, attempt_id,
    check_id, verdict and gold (0, 1 or NaN), chance (the inclusion probability), and settled_by
    (how the gold label was chosen; NA if there is none).

    ``units`` are the units that gold can label: the items or, if ``value`` is ``passed``, the
    attempts, with one row per attempt: ``by``, skill, case_id, condition, attempt_id and cluster.
    verdict and gold are the value (``passed`` or ``share_passed``) according to the grader and to
    gold. seen is the grader's value on only those checks that have gold.

    ``cases`` has one row per ``by``, case and condition. verdict, gold and seen are means over
    attempts. size is the number of attempts. The other counts are numbers of attempts: with a
    verdict (n), with gold (n_gold), with gold on all their checks (n_whole), with gold on so few
    checks that it is not used (n_sparse), and with gold but no chance (n_unknown). chance is the
    probability that the case was drawn for gold, NaN if not recorded. case and cluster are codes.

    ``items``, ``units`` and ``cases`` have ``case_weight`` if cases are weighted. If gold was
    drawn by verdict, ``items`` and ``units`` have their stratum. ``draw`` says how it was drawn.
    If gold is separate, ``calibration`` has the units of the calibration set, and only ``items``
    has its rows, too. Scores are on a scale from 0 to 1; ``ends`` are their bounds.

    ``strays`` is a note on gold labels that match no verdict. ``outcomes`` has the notes on checks
    that attempts lack.
    """

    items: pd.DataFrame
    units: pd.DataFrame
    cases: pd.DataFrame
    by: list[str]
    value: BoundedValue
    strays: str
    outcomes: pd.DataFrame
    cluster: str
    weight: str | None
    draw: Draw
    calibration: pd.DataFrame | None
    ends: tuple[float, float]

    def label_notes(self, values: Fields, conditions: Sequence[str]) -> tuple[str, str]:
        """Return notes on how gold labels were chosen, and on gold labels without a verdict."""
        labelled = self._settled_items.get(key_of(values, self.by))
        settled = ""
        if labelled is not None:
            labelled = labelled[labelled["condition"].isin([*conditions, CALIBRATION])]
            settled = labellers_said(labelled["settled_by"], labelled["gold"])
        return settled, self.strays

    @cached_property
    def _settled_items(self) -> ByGroup:
        return self.by_group(self.items[self.items["settled_by"].notna()])

    def by_group(self, rows: pd.DataFrame) -> ByGroup:
        """Return the rows of each group of ``by``, with the :func:`key_of` the group as key."""
        return {key_of(values, self.by): part for values, part in groups(rows, self.by)}

    def labelled(self) -> ByGroup:
        """Return, for each group, the units with gold.

        If gold was drawn by verdict, return all units that have a stratum, with or without gold.
        Scores have no errors of this kind, and therefore no units.
        """
        rows = self.units.iloc[: None if self.value != "score" else 0]
        drawn = "stratum" in rows
        rows = rows[rows["stratum" if drawn else "gold"].notna()]
        if drawn:
            keys = listed([*self.by, *CASE, "condition"])
            n_attempts = grouped(rows, keys)["attempt_id"].transform("nunique")
            size = grouped(rows, [*keys, "attempt_id"])["attempt_id"].transform("size")
            rows = rows.assign(size=rows.get(WEIGHT, 1.0) / (n_attempts * size))
        names = [*self.by, *CASE, "condition", "verdict", "gold", "cluster"]
        names += columns_of(rows, WEIGHT, "stratum", "size")
        return self.by_group(rows[listed(names)])

    def calibration_of(self, values: Fields) -> pd.DataFrame | None:
        """Return the units of the calibration set for a group of ``by``, if gold is separate.

        The grader is that of the group. The set is divided by another column only if it has all
        values of this column.
        """
        rows = every = self.calibration
        if rows is None or every is None:
            return None
        for name in self.by:
            if name in GRADER or set(self.cases[name]) <= set(every[name]):
                rows = rows_of_group(rows, {name: values[name]})
        return rows

    def shares_labelled(self) -> dict[tuple[Any, ...], pd.Series]:
        """Return, by group and condition, the shares of passes and of fails that have gold.

        Scores have none.
        """
        if self.value == "score":
            return {}
        keys = listed([*self.by, "condition"])
        table = one_draw(labelled_shares(self.units, keys), keys)
        return {key_of(row, keys): row for _, row in table.iterrows()}


def key_of(values: Fields | pd.Series, names: Sequence[str]) -> tuple[Any, ...]:
    """Build the key of a group from its values; a missing value becomes None."""
    return tuple(None if pd.isna(values[name]) else values[name] for name in names)


def tables(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str],
    value: BoundedValue,
    bounds: Bounds = None,
    cases: pd.DataFrame | None,
    checks: Checks = "all",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    weight: str | None = None,
    cluster: str = "case",
    what: str,
    compares: bool = True,
) -> Tables:
    """Join verdicts with gold and average by attempt and by case.

    ``by`` has the columns to group by, ``cases`` has facts of the cases, ``checks`` chooses the
    checks that count, and ``what`` is the name of the analysis in messages. Raises FrameError if a
    frame breaks its contract, graders, agents or labellers would be pooled, ``value`` is unknown,
    the grader stopped at the first fail, ``compares`` is True and the checks differ between
    conditions, or gold is said to be separate and there is no calibration set.
    """
    compared = ["condition"] if compares else []
    checked = prepared(verdicts, "verdicts", by, what, agents=True, compared=compared)
    if len(checked) and checked["check_id"].str.startswith(OF_PAIR).all():
        raise FrameError(
            f"{what}: the verdicts compare two answers, and one of them always wins. "
            "bias.win_rates gives win rates, corrected by gold."
        )
    low, high = ends = check_bounds(checked, value, bounds)
    check_draw(gold_drawn, drawn_by, checked["grader"], what)
    labels = reference_labels(gold, what, value)
    if value == "score":
        if gold_drawn == "verdict":
            draw_of_passes = "needs passes and fails, and scores have none"
            raise FrameError(f"{what}: {argument('gold_drawn', gold_drawn)} {draw_of_passes}.")
        check_bounds(labels.rename(columns={"gold": "score"}), value, bounds)
        # as in outcomes, checks that were never scored do not count
        checked = checked[grouped(checked, [*CASE, "check_id"])["score"].transform("count").gt(0)]
    # columns of a table may have the names of columns that are made here
    own = set(_MADE) - {*by, weight}
    checked = checked.drop(columns=own, errors="ignore").assign(verdict=known_verdict(checked))
    joined = join_gold(checked, labels)
    joined = joined.rename(columns={"inclusion_probability": "chance"})
    how: dict[str, Any] = {"by": by, "checks": checks, "what": what}
    calibration = None
    if gold_drawn == "separate":
        in_set = joined["condition"].eq(CALIBRATION)
        if in_set.nunique() < 2:
            raise FrameError(
                f"{what}: {argument('gold_drawn', gold_drawn)} needs verdicts on a calibration set "
                f"(with the condition '{CALIBRATION}') and on answers under other conditions."
            )
        alone: dict[str, Any] = {"cluster": "case", "weight": None, "compares": False}
        calibration, _ = verdict_table(joined[in_set], cases, **how, **alone)
        joined = joined[~in_set]
    joined, notes = verdict_table(
        joined, cases, cluster=cluster, weight=weight, compares=compares, **how
    )
    if gold_drawn == "verdict":
        joined["stratum"] = drawn_strata(joined, drawn_by, of_attempts=value == "passed")
    keys = [*by, *_PLACE, "cluster", "check_id", "verdict", "gold", "chance", "settled_by"]
    keys += ["n_checks", *columns_of(joined, "stratum", WEIGHT)]
    if value == "score":
        scaled = (joined["score"].where(usable(joined)) - low) / (high - low)
        joined = joined.assign(verdict=scaled, gold=(joined["gold"] - low) / (high - low))
    items = joined[listed(keys)]
    attempts = _attempt_table(items, list(by), value)
    means = _condition_means(attempts, list(by))
    units = items if value == "share_passed" else attempts
    if calibration is not None:
        calibration = calibration[listed([name for name in keys if name != WEIGHT])]
        items = pd.concat([items, calibration])
        if value == "passed":
            calibration = _attempt_table(calibration, list(by), value)
        calibration = calibration[calibration["gold"].notna()]
    refuted = refuted_draw(units, [*by, "condition"], drawn_by)
    draw = Draw(gold_drawn, draw_words(gold_drawn, drawn_by), refuted)
    about = strays_of(checked, labels), notes, cluster, weight, draw
    return Tables(items, units, means, list(by), value, *about, calibration, ends)


def _attempt_table(items: pd.DataFrame, by: list[str], value: BoundedValue) -> pd.DataFrame:
    has, seen = items["gold"].notna(), items["verdict"].notna()
    met = items["verdict"].fillna(0.0)
    counted = {
        "_seen": seen,
        "_met": met,
        "_gold": has,
        "_gold_met": items["gold"].fillna(0.0),
        "_both": has & seen,
        "_both_met": met.where(has, 0.0),
    }
    of_attempt = grouped(items.assign(**counted), [*by, *_PLACE])
    facts = ["cluster", "chance", "n_checks", *columns_of(items, "stratum", WEIGHT)]
    frame: pd.DataFrame = of_attempt[list(counted)].sum().join(of_attempt[facts].first())
    frame = frame.reset_index()
    n_checks, n_gold = frame["n_checks"], frame["_gold"]
    # A whole attempt has gold only if all its checks do. Gold on some of its checks can show that
    # the attempt fails but never that it passes, so counting such attempts would favour failures.
    whole = n_gold.eq(n_checks)
    if value == "share_passed":
        frame["verdict"] = share_of_checks(frame["_met"], frame["_seen"], n_checks)
        frame["gold"] = share_of_checks(frame["_gold_met"], n_gold, n_checks)
        on_gold = frame["_both_met"] / frame["_both"].where(frame["_both"].gt(0))
    else:
        frame["verdict"] = (frame["_met"] / n_checks).where(frame["_seen"].eq(n_checks))
        frame["gold"] = (frame["_gold_met"] / n_checks).where(whole)
        if value == "passed":
            frame[["verdict", "gold"]] = np.floor(frame[["verdict", "gold"]])
        on_gold = frame["verdict"]
    labelled = frame["gold"].notna()
    sparse = n_gold.gt(0) & ~labelled
    checks = n_checks.where(n_checks.gt(0) & (value == "share_passed"))
    seen = on_gold.where(labelled)
    return frame.assign(seen=seen, sparse=sparse, whole=whole, checks=checks)


def _condition_means(attempts: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    labelled = attempts["gold"].notna()
    frame = attempts.assign(
        _n=attempts["verdict"].notna(),
        _chance=attempts["chance"].where(labelled),
        _unknown=labelled & attempts["chance"].isna(),
        _square=attempts["verdict"] ** 2,
        seen=attempts["seen"].where(labelled),
    )
    of_case = grouped(frame, [*by, *CASE, *columns_of(frame, WEIGHT), "cluster", "condition"])
    table: pd.DataFrame = of_case.agg(
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
        checks=("checks", "max"),
        squares=("_square", "mean"),
    ).reset_index()
    # P(a case is drawn) = P(a given repeat gets gold) * repeats / repeats with gold
    drawn = table["chance"] * table["size"] / table["n_gold"].where(table["n_gold"].gt(0))
    return table.assign(
        chance=drawn.clip(upper=1.0),
        case=grouped(table, CASE).ngroup(),
        cluster=pd.factorize(table["cluster"])[0],
    )


Estimator = Literal[
    "auto", "naive", "gold_only", "rogan_gladen_pooled", "rogan_gladen_by_arm", "ppi", "pooled"
]
_EVERY = get_args(Estimator)[1:]
ESTIMATORS = _EVERY[:-1]
POOLED = "pooled"  # the estimator that pools error rates over skills
NO_OTHERS = "no error rates of other skills"
_LEAST_YOUDEN = 0.2  # with pooled error rates, a smaller J counts as this one
SCORES = "scores have no sensitivity and specificity"
# If Youden's J is not above this value, the grader is no better than chance.
_NO_BETTER_THAN = 1e-12
NO_BETTER = "sensitivity + specificity do not exceed 1: the grader is no better than chance"
_WIDEST = 20.0  # logit of the largest interval level in the search for a p-value
POOLED_NOTE = "one sensitivity and specificity for all conditions; wrong where they differ"


def n_with_gold(cases: pd.DataFrame) -> int:
    """Return the number of cases with gold, of rows of ``Tables.cases``."""
    return cases["gold"].count()


def have_equal_chances(cases: pd.DataFrame) -> bool:
    """Return whether the recorded inclusion probabilities of the cases with gold are all equal."""
    chances = cases["chance"][cases["gold"].notna()].dropna()
    return chances.empty or bool(np.isclose(chances, chances.iloc[0]).all())


def unrecorded(sides: Iterable[pd.DataFrame]) -> str:
    """Return a note on missing inclusion probabilities; empty if all or none are missing."""
    tables = pd.concat([cases[["n_gold", "n_unknown"]] for cases in sides])
    n_gold, unknown = (tables[name].sum() for name in ("n_gold", "n_unknown"))
    if unknown in (0, n_gold):
        return ""
    return (
        f"inclusion_probability is missing for {unknown} of {n_gold} attempts with gold: give it "
        "for all (reliability.join_labels does so) or for none, if all had the same chance"
    )


def _ppi_of_table(table: pd.DataFrame, quantity: Quantity, ci_level: float) -> Interval:
    """Call ``ppi_mean`` with the columns of ``table``."""
    codes, clusters = pd.factorize(table["cluster"])
    recorded = table.loc[table["gold"].notna(), "chance"]
    chances = len(recorded) and recorded.notna().all()
    return ppi_mean(
        table["gold"],
        table["verdict"],
        quantity=quantity,
        predicted_on_gold=table["seen"],
        clusters=codes if len(clusters) < len(codes) else None,
        weights=table.get(WEIGHT),
        inclusion_probability=table["chance"] if chances else None,
        ci_level=ci_level,
    )


class Errors(NamedTuple):
    """Sensitivity and specificity of the grader under one or several conditions.

    ``n_lost`` counts the units with gold but without a verdict. It is set only for error rates over
    all conditions; the notes on missing attempts count those of one condition.
    """

    sensitivity: Interval
    specificity: Interval
    n_lost: int = 0

    @property
    def pooled_note(self) -> str:
        """Note on what estimates with error rates over all conditions assume and lack."""
        lost = f"gold without a verdict, over all conditions: {self.n_lost:,}"
        return join_notes(POOLED_NOTE, lost if self.n_lost else "")

    @property
    def youden(self) -> Interval:
        """Estimate of Youden's J with its interval."""
        return youden(self.sensitivity, self.specificity)

    @property
    def j(self) -> float:
        """Estimate of Youden's J; NaN if one of the rates is undefined."""
        return self.sensitivity.estimate + self.specificity.estimate - 1.0


def errors_of(groups: Sequence[pd.DataFrame], ci_level: float) -> list[Errors]:
    """Estimate sensitivity and specificity of each group of units with gold, clustered by case.

    A unit is a row with verdict, gold and cluster. The sensitivity is NaN with a note if there are
    no gold passes, the specificity if there are no gold fails.
    """
    samples = []
    for units in groups:
        verdict, gold = units[["verdict", "gold"]].to_numpy(float).T
        about = units["cluster"], units.get(WEIGHT), units.get("stratum")
        samples.append((verdict, gold, *about))
    return [Errors(*rates) for rates in rates_against_gold(samples, ci_level)]


def differential_tests(units: pd.DataFrame, base: pd.DataFrame | None) -> DifferentialTests:
    """Test whether the grader's error rates are equal under two conditions, clustered by case."""
    both = pd.concat([units, base])
    first = np.arange(len(both)) < len(units)
    return differential_misclassification(
        both["verdict"], both["gold"], first, clusters=both["cluster"]
    )


# for each source of values, the method and the name of who gave them
LABELS = {"verdict": ("the grader as it is", "grader"), "gold": ("gold alone", "gold")}


def plain_means(
    compared: Sequence[Sequence[pd.DataFrame]], ci_level: float, interval: IntervalRule
) -> list[Intervals]:
    """Estimate the rate of one condition or the delta of two, by verdicts alone and by gold alone.

    An entry of ``compared`` holds the cases of one condition or, in all entries, of two.
    ``interval`` applies to verdicts only.
    """
    by_verdicts = _means_of_source(compared, "verdict", ci_level, interval)
    by_gold = _means_of_source(compared, "gold", ci_level, "adaptive")
    return [
        {"verdict": verdicts, "gold": gold}
        for verdicts, gold in zip(by_verdicts, by_gold, strict=True)
    ]


def _means_of_source(
    compared: Sequence[Sequence[pd.DataFrame]], source: str, ci_level: float, interval: IntervalRule
) -> list[Interval]:
    """Estimate rates or deltas by one source: the column ``verdict`` or ``gold``."""
    samples, notes = [], []
    is_delta = any(len(sides) > 1 for sides in compared)
    for sides in compared:
        means, tables = sides[0], sides
        if is_delta:
            means, tables = paired_cases(*sides), _cases_of_both(*sides)
        has = means[source].notna().to_numpy()
        part = means[has]
        arms: tuple[Arm, ...] = ()
        # Use the numbers of attempts and checks only for verdicts, because gold may cover only a
        # part of them.
        if source == "verdict":
            is_share = any(bool(table["checks"].notna().any()) for table in tables)
            columns = [
                (
                    *(table[name].to_numpy()[has] for name in (source, "n", "checks")),
                    sign,
                    None,
                    None if is_share else table["squares"].to_numpy()[has],
                )
                for table, sign in zip(tables, (1.0, -1.0), strict=False)
            ]
            arms = arms_of(columns, is_share=is_share)
        samples.append(Sample(part[source], part["cluster"], part.get(WEIGHT), arms))
        note = ""
        if is_delta:
            seen = [cases.loc[cases[source].notna(), "case"] for cases in sides]
            dropped, skills = pd.concat(seen).nunique() - len(part), part["skill"].nunique()
            pooled = f"cases of these {skills} skills" if skills > 1 else ""
            lost = f"{plural(dropped, 'case')} dropped: no outcome in one of the two conditions"
            note = join_notes(pooled, lost if dropped else "")
        notes.append(note)
    how: Fields = {"quantity": DELTAS, "null": 0.0} if is_delta else {}
    label, who = LABELS[source]
    nothing = undefined(label, f"no outcome by {who}", ci_level, 0.0)
    return [
        replace(mean.with_note(note), method=f"{label}, {mean.method}") if mean.n else nothing
        for mean, note in zip(
            bounded_means(samples, ci_level=ci_level, interval=interval, **how), notes, strict=True
        )
    ]


def _cases_of_both(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the cases that both conditions have, in the same order."""
    _, at, other = np.intersect1d(first["case"], second["case"], return_indices=True)
    return first.take(at).reset_index(drop=True), second.take(other).reset_index(drop=True)


def paired_cases(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Compute the difference, first minus second, of each case that both conditions have."""
    first, second = _cases_of_both(first, second)
    names = ["verdict", "gold", "seen"]
    facts = first[columns_of(first, "cluster", "skill", WEIGHT)]
    return facts.assign(
        **(first[names] - second[names]), chance=np.minimum(first["chance"], second["chance"])
    )


def ppi_estimate(sides: Sequence[pd.DataFrame], ci_level: float) -> Interval:
    """Compute the prediction-powered rate of one condition, or the delta of two.

    The delta is unpaired if no case has gold under both conditions. The estimate is NaN if some
    inclusion probabilities are missing.
    """
    is_delta = len(sides) > 1
    if why := unrecorded(sides):
        label = "PPI++ paired difference" if is_delta else "PPI++ mean"
        return undefined(label, why, ci_level, 0.0)
    if not is_delta:
        return _ppi_of_table(sides[0], RATES, ci_level)
    pairs = paired_cases(*sides).dropna(subset="verdict")
    if pairs["gold"].notna().any():
        return _ppi_of_table(pairs, DELTAS, ci_level)
    first, second = (ppi_estimate([cases], ci_level) for cases in sides)
    difference = difference_of_rates(first, second, "PPI++ by condition")
    if math.isnan(difference.estimate):
        return difference
    note = "no case carries gold in both conditions: each corrected apart, interval too wide"
    return difference.with_note(first=note)


def rogan_gladen(
    naive: Interval, n_gold: int, errors: Errors, *, is_delta: bool = False
) -> Interval:
    """Compute the Rogan-Gladen rate or delta: a number divided by Youden's J.

    The limits are those of Fieller: a value is inside if the number minus J times the value is
    compatible with 0. Its variance is the sum of squares of the distance from the naive estimate
    to its limit, and of the parts of the two error rates. The variances of these are computed after
    shrinking the rates as in Lang and Reiczigel, so that neither counts as certain. If J may be 0,
    a limit is the bound.
    """
    label = "Rogan-Gladen pooled" if is_delta else "Rogan-Gladen"
    rates, j = (errors.sensitivity, errors.specificity), errors.j
    nothing = partial(undefined, label, ci_level=naive.ci_level)
    if math.isnan(naive.low) or math.isnan(j):
        reasons = [rate.note for rate in rates] + [naive.note if is_delta else "no verdict"]
        return nothing(next(filter(None, reasons)), n=0.0)
    if j <= _NO_BETTER_THAN:
        return nothing(NO_BETTER, n=n_gold)
    # a pass rate of 1 by gold has false fails only, one of 0 false passes only; in a delta, both
    # kinds count in proportion to its size
    one, bounds = (0.0, (-1.0, 1.0)) if is_delta else (1.0, (0.0, 1.0))
    reaches = []
    for error_rate in rates:
        labels = _effective_labels(error_rate)
        rate = (labels * error_rate.estimate + 1.0) / (labels + 2.0)
        reaches.append(quantile(naive.ci_level) ** 2 * rate * (1.0 - rate) / (labels + 2.0))
    # limits t solve (number - j t)**2 = distance**2 + reaches[0] t**2 + reaches[1] (one - t)**2
    number = naive.estimate + one * (rates[1].estimate - 1.0)
    square, middle = j**2 - sum(reaches), number * j - reaches[1] * one
    ends = []
    for sign, end, bound in zip((-1.0, 1.0), (naive.low, naive.high), bounds, strict=True):
        rest = number**2 - (naive.estimate - end) ** 2 - reaches[1] * one
        root = middle**2 - square * rest
        solved = square > 0.0 and root >= 0.0
        ends.append((middle + sign * math.sqrt(root)) / square if solved else bound)
    inside, low, high, cut = within_range(number / j, ends[0], ends[1], bounds)
    method = f"{label}, {naive.method}"
    return Interval(inside, low, high, naive.ci_level, method, cut, n_gold)


def pooled_over_skills(
    naive: Interval, rates: Sequence[float], skills: Sequence[OfSkills], n_gold: int
) -> Interval:
    """Compute the rate of a condition, or the delta of two, with error rates of several skills.

    ``rates`` and ``skills`` belong to the conditions. Each rate is that of Rogan and Gladen. A
    limit is the root of a sum of squares: the distance of the naive limit, divided by the mean J,
    and the effect of the Jeffreys limits of each error rate. An error rate without labels may have
    any value.
    """
    label = f"Rogan-Gladen by condition, error rates of {skills[0].n} skills"
    if math.isnan(naive.low):
        return undefined(label, naive.note, naive.ci_level, 0.0)
    estimate, squares, youdens = 0.0, np.zeros(2), []
    for sign, rate, (_, errors, _) in zip((1, -1), rates, skills, strict=False):
        fn, fp = (
            error_limits(each.complement, _effective_labels(each), naive.ci_level)
            for each in (errors.sensitivity, errors.specificity)
        )
        if fn[0] + fp[0] >= 1.0:
            return undefined(label, NO_BETTER, naive.ci_level, n_gold)
        youdens.append(max(1.0 - fn[0] - fp[0], _LEAST_YOUDEN))
        true = min(max((rate - fp[0]) / youdens[-1], 0.0), 1.0)
        # squared distances to the lower and to the upper limit; those of the reference exchanged
        moved = (true * (fn[1:] - fn[0])) ** 2 + ((1.0 - true) * (fp[:0:-1] - fp[0])) ** 2
        squares += moved[::sign] / youdens[-1] ** 2
        estimate += sign * true
    ends = (np.array([naive.low, naive.high]) - naive.estimate) / np.mean(youdens)
    down, up = np.sqrt(ends**2 + squares)
    low, high = max(estimate - down, 1.0 - len(youdens)), min(estimate + up, 1.0)
    method = f"{label}, {naive.method}"
    return Interval(estimate, float(low), float(high), naive.ci_level, method, "", n_gold)


def turning_note(rates: Sequence[Interval], errors: Errors, condition: str) -> str:
    """Return a note on the errors under one condition that would turn the sign of a delta.

    ``rates`` are the naive rates of the condition and the reference. With the same ``errors`` under
    both, the corrected delta has the sign of the naive one.
    """
    own = {"sensitivity": errors.sensitivity.estimate, "specificity": errors.specificity.estimate}
    new, old = (rate.estimate for rate in rates)
    truth = (old + own["specificity"] - 1.0) / errors.j
    if not 0.0 < truth < 1.0 or new == old:
        return ""
    # both conditions have the true rate of the reference
    turning = {
        "sensitivity": (new - (1.0 - truth) * (1.0 - own["specificity"])) / truth,
        "specificity": 1.0 - (new - truth * own["sensitivity"]) / (1.0 - truth),
    }
    turns = [
        f"a {name} of {value:.2f} instead of {own[name]:.2f} (Youden's J {value - own[name]:+.2f})"
        for name, value in turning.items()
        if 0.0 <= value <= 1.0
    ]
    which = " or ".join(turns) or "no sensitivity or specificity alone"
    return f"the sign turns where '{condition}' has {which}"


def _effective_labels(rate: Interval) -> float:
    """Return the effective number of labels behind a rate.

    It is at least the number of cases and at most the number of labels.
    """
    # If the rate is 0 or 1, the dependence within cases is unknown, so count each case as one
    # label.
    least, spread = min(rate.n_clusters, rate.n), rate.estimate * (1.0 - rate.estimate)
    effective = spread / rate.se**2 if spread > 0 and rate.se > 0 else least
    return min(max(effective, least), rate.n)


def difference_of_rates(first: Interval, second: Interval, label: str) -> Interval:
    """Compute the difference of two corrected rates, first - second; NaN if one has no limits."""
    difference = first.minus(second)
    # if limits are missing, only the notes of the rates without limits explain it
    rates = [rate for rate in (first, second) if math.isnan(rate.low)] or [first, second]
    return replace(
        difference,
        low=max(difference.low, -1.0),
        high=min(difference.high, 1.0),
        method=f"{label}, {difference.method}",
        note=join_notes(*dict.fromkeys(rate.note for rate in rates)),
        n=min(rate.n for rate in rates),
    )


class OfSkills(NamedTuple):
    """Error rates under a condition over ``n`` skills, and the p-value of those of one skill."""

    n: int
    errors: Errors
    p_equal: float


class Group(NamedTuple):
    """Cases, units with gold and error rates of one group, under each condition.

    Each dict has conditions as keys. ``pooled`` holds the error rates over all conditions,
    ``shares`` the shares of passes and of fails that have gold. ``by_strata`` is True if gold was
    drawn by verdict. ``claim`` is a note on skills as clusters. If gold is separate, the error
    rates are those of the units ``calibration``. ``skills`` has the error rates of all skills by
    condition, if the groups are skills.
    """

    sides: Sides
    units: Sides
    errors: dict[str, Errors]
    pooled: Errors
    shares: dict[str, pd.Series]
    by_strata: bool
    claim: str
    calibration: pd.DataFrame | None = None
    skills: Mapping[str, OfSkills] = MappingProxyType({})

    def used_errors(self, condition: str) -> Errors:
        """Return the error rates for a condition: its own, or those of the calibration set."""
        return self.errors[condition] if self.calibration is None else self.pooled

    def n_gold(self, *conditions: str) -> int:
        """Return the number of cases with gold under a condition, or under both of two.

        If no case has gold under both, or if gold was drawn by verdict, return the smaller number.
        If gold is separate, return the number of cases of the calibration set.
        """
        if self.calibration is not None:
            return len(self.calibration[CASE].drop_duplicates())
        counts = []
        for name in conditions:
            units = self.units[name]
            labelled = units.loc[units["gold"].notna(), CASE].drop_duplicates()
            counts.append(len(labelled) if self.by_strata else n_with_gold(self.sides[name]))
        # with strata, each condition is corrected separately
        if self.by_strata or len(conditions) == 1:
            return min(counts)
        return n_with_gold(paired_cases(*(self.sides[name] for name in conditions))) or min(counts)


Compared = Sequence[tuple[Any, ...]]  # tuples (group, condition) or (group, condition, reference)
_OTHER_DRAW = "gold was drawn by verdict, so only gold weighted within strata is unbiased"


def estimates_by_name(
    compared: Compared, ci_level: float, interval: IntervalRule
) -> list[Intervals]:
    """Apply every estimator to the rate of a condition, or to the delta of two, of a group."""
    sides = [[group.sides[name] for name in names] for group, *names in compared]
    return [
        _by_estimator(plain, group, names, ci_level, interval)
        for (group, *names), plain in zip(
            compared, plain_means(sides, ci_level, interval), strict=True
        )
    ]


def _by_estimator(
    plain: Intervals,
    group: Group,
    conditions: Sequence[str],
    ci_level: float,
    interval: IntervalRule,
) -> Intervals:
    naive, is_delta = plain["verdict"], len(conditions) > 1
    if group.by_strata:
        in_strata = _delta_in_strata if is_delta else _rate_in_strata
        nothing = undefined("", _OTHER_DRAW, ci_level, 0.0)
        weighted = in_strata(group, conditions, ci_level)
        found = dict.fromkeys(_EVERY, nothing)
        return found | {"naive": naive, "gold_only": weighted}
    sides = [group.sides[name] for name in conditions]
    own = plain_means([[cases] for cases in sides], ci_level, interval) if is_delta else [plain]
    by_arm = [
        rogan_gladen(rate["verdict"], group.n_gold(name), group.used_errors(name))
        for rate, name in zip(own, conditions, strict=True)
    ]
    pooled = rogan_gladen(naive, group.n_gold(*conditions), group.pooled, is_delta=is_delta)
    by_condition = by_arm[0]
    if is_delta:
        difference = difference_of_rates(by_arm[0], by_arm[1], "Rogan-Gladen by condition")
        # with equal error rates, no difference by gold is no difference by the grader
        pooled, by_condition = replace(pooled, p_value=naive.p_value), _with_p_value(difference)
    if not math.isnan(pooled.estimate):
        rates = [rate["verdict"] for rate in own]
        turns = turning_note(rates, group.pooled, conditions[0]) if is_delta else ""
        pooled = pooled.with_note(turns, first=group.pooled.pooled_note)
    estimated = (naive, plain["gold"], pooled, by_condition, ppi_estimate(sides, ci_level))
    found = dict(zip(ESTIMATORS, estimated, strict=True))
    over = undefined("", NO_OTHERS, ci_level, 0.0)
    skills = [group.skills[name] for name in conditions if name in group.skills]
    if len(skills) == len(conditions) and min(each.n for each in skills) > 1:
        shares = [rate["verdict"].estimate for rate in own]
        over = pooled_over_skills(naive, shares, skills, group.n_gold(*conditions))
        over = _with_p_value(over) if is_delta else over
    found[POOLED] = over
    return found


def _with_p_value(delta: Interval) -> Interval:
    """Add the p-value of a delta that has limits only."""
    if math.isnan(delta.low):
        return delta
    p_value, method = delta.p_from_limits(0.0), f"{delta.method}; p from its limits"
    return replace(delta, p_value=2.0 * min(p_value, 1.0 - p_value), method=method)


def _rate_in_strata(group: Group, conditions: Sequence[str], ci_level: float) -> Interval:
    (condition,) = conditions
    units = group.units[condition]
    rate = weighted_rate(
        units["gold"],
        units["stratum"],
        weights=units["size"],
        clusters=units["cluster"],
        ci_level=ci_level,
    )
    note = f"{rate.note} of '{condition}': {NAME_DRAWN_BY}" if NO_GOLD in rate.note else rate.note
    return replace(rate, note=note)


def _delta_in_strata(group: Group, conditions: Sequence[str], ci_level: float) -> Interval:
    """Return the difference of two weighted rates; its p-value inverts its interval."""

    def difference(level: float) -> Interval:
        first, second = (_rate_in_strata(group, [name], level) for name in conditions)
        return difference_of_rates(first, second, "gold weighted within strata")

    delta = difference(ci_level)
    if math.isnan(delta.low):
        return delta
    first, second = (set(group.units[name]["cluster"]) for name in conditions)
    n_clusters = len(first & second)

    def distance(logit: float) -> float:
        ends = difference(expit(logit))
        return ends.low if delta.estimate > 0.0 else -ends.high

    # search for the p-value among interval levels from 2e-9 to 1 - 2e-9
    ends = -_WIDEST, _WIDEST
    if delta.estimate == 0.0 or distance(ends[0]) <= 0.0:
        p_value = 1.0
    elif distance(ends[1]) >= 0.0:
        p_value = expit(-_WIDEST)
    else:
        p_value = 1.0 - expit(brentq(distance, *ends, xtol=1e-4))
    return replace(delta, n_clusters=n_clusters, p_value=p_value)


# The smallest number of cases with gold for which the coverage of the prediction-powered interval
# was tested.
FEWEST_GOLD = 10
# If more than this share of the cases with gold has no verdict, ppi is not recommended.
LOST_GOLD = 0.05
# A skill borrows the error rates of the others if the p-value of equal error rates is above this.
MAY_BORROW = 0.2
# The smallest p-value of a test whether answers with gold of their own contradict a calibration set
SIGNIFICANT = 0.05
# The note of an estimate contains this text if imagined errors of the grader (errors that gold did
# not show) were added to the variance.
SAFEGUARD = "imagined errors"
FEW_ERRORS = "few errors of the grader seen: the interval rests on two imagined ones"
Parts = Iterable[tuple[Fields, Group]]  # type of the result of `labelled_groups`
LEADING = ("estimator", "recommended", "reason", "gold_drawn", "n_gold", *NEEDED)


def rate(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "share_passed",
    bounds: Bounds = None,
    estimator: Estimator = "auto",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    weight: str | None = None,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the true pass rate of each condition, corrected for the grader's errors.

    Repeats are averaged within a case, and cases have equal weight. For a difference between
    conditions use :func:`delta`, which compares the same cases.

    Parameters
    ----------
    verdicts, gold, by, value, bounds, estimator, gold_drawn, drawn_by : object
        As in :func:`delta`.
    cases, checks, weight, cluster, ci_level, interval : object
        As in :func:`delta`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and estimator, with the estimates columns. The measure is
        ``rate_share_passed``, ``rate_passed`` or ``rate_score``; estimates are from 0 to 1, or in
        the unit of the score. ``estimator``,
        ``recommended``, ``reason`` and ``gold_drawn`` are as in :func:`delta`. ``n_gold`` counts
        the cases with gold; ``n_for_half_width_20`` and ``n_for_half_width_10`` are as in
        :func:`delta`. ``sensitivity``, ``specificity`` and ``youden`` are those of the grader
        under the condition. The sensitivity needs gold passes, the specificity gold fails, and
        ``youden`` both; otherwise they are NaN.

    Raises
    ------
    FrameError
        As :func:`delta`.

    See Also
    --------
    delta : The paired difference between conditions.

    Notes
    -----
    The recommended estimator is chosen as in :func:`delta`. ``naive`` and ``gold_only`` have the
    interval of :func:`skillcomp.deltas.rates`, ``gold_only`` always with ``"bounded"``. With a
    calibration set of 20 labels of each kind and 100 answers, the interval of ``rate`` covered the
    true rate in 94.6 to 98.4 % of 1,500 simulated studies of each of four designs. With a grader
    near chance (Youden's J .4) and 1,000 answers it covered 93.2 %.
    """
    return _corrected_rows(
        verdicts,
        gold,
        [None],
        estimator,
        ci_level,
        interval,
        what="correction.rate",
        by=listed(by, "condition"),
        value=value,
        bounds=bounds,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        weight=weight,
        cluster=cluster,
        compares=False,
    )


def delta(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "share_passed",
    bounds: Bounds = None,
    estimator: Estimator = "auto",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    weight: str | None = None,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the true paired change in pass rate, corrected for the grader's errors.

    Conditions are paired by case, repeats averaged within a case, and cases weighted equally, as
    :func:`skillcomp.deltas.paired` does for uncorrected verdicts.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame: skill, case_id, condition, attempt_id, check_id, status, passed. A
        verdict that the grader failed to give is missing, not a FAIL.
    gold : pandas.DataFrame
        A gold frame: attempt_id, check_id, passed, and inclusion_probability if cases were drawn
        with unequal chances. If only some labels have this probability, ``ppi`` is NaN and no
        estimator is recommended. Gold may cover some of the cases, or one repeat of every case.
        An attempt counts as labelled if at least half of its checks have gold. With
        ``value="passed"``, all of its checks must have gold: gold on some checks can show that an
        attempt fails, but not that it passes, so such attempts would bias the estimate. If an
        adjudicated label of a check exists, it is used. Otherwise the only label is used, or the
        label on which all labellers agree. ``reason`` counts the labels that were adjudicated,
        agreed or disputed. If no estimator is recommended, it also counts the labels that match no
        attempt. With ``value="score"`` gold has a column ``score`` in place of ``passed``.
    by : str or sequence of str, default ()
        Columns to group by, such as ``["grader", "skill"]``.
    value : {"share_passed", "passed", "score"}, default "share_passed"
        What is averaged: the share of checks passed, whether the attempt passes every check, or
        the mean score of its checks.
    bounds : tuple of float, optional
        For scores, the lowest and the highest score that an attempt can have, such as ``(1, 5)``.
        Estimates, limits and standard errors are then in the unit of the score.
    estimator : str, default "auto"
        ``"auto"`` returns the rows of every estimator. The name of an estimator returns only the
        rows of this estimator. ``"pooled"`` states that the error rates under a condition are the
        same for all skills; it needs ``by="skill"``.
    reference : str, default "baseline"
        Condition with which every other condition is compared.
    gold_drawn : {"random", "chosen", "verdict", "separate"}, default "random"
        ``"random"``: the cases or repeats with gold were drawn at random. ``"chosen"``: they were
        selected, for instance the doubtful ones first. ``ppi`` and ``gold_only`` are then biased,
        and ``rogan_gladen_by_arm`` is recommended. ``"verdict"``: answers or checks were drawn by
        the verdicts of graders, at random among those with equal verdicts, for instance all fails
        and a part of the passes. ``gold_only`` is then weighted within strata of condition and
        verdict, as are sensitivity and specificity; the other corrections are NaN. ``"separate"``:
        gold is a calibration set of its own. Its verdicts are rows of ``verdicts`` with the
        condition ``calibration``, which is not compared with the others; its cases, checks and
        skills may be others. The grader's sensitivity and specificity are those of the whole set
        (of the grader; by another column of ``by`` only if the set has all values of the column),
        and ``rogan_gladen_pooled`` is recommended. Gold on compared answers only tests whether
        these error rates carry over to them. What you state is not overruled: ``"chosen"`` and
        ``"separate"`` keep their estimator, with a caution in ``reason`` where labels contradict
        it. ``"random"`` and ``drawn_by`` lose it, because such labels would bias it.
    drawn_by : str, optional
        With ``gold_drawn="verdict"``, the grader that gave the verdicts by which gold was drawn. By
        default, gold counts as drawn by the pattern of the verdicts of all graders in ``verdicts``.
        If every labelled answer has gold on all its checks, the strata are verdicts on whole
        answers, otherwise on single checks.
    cases : pandas.DataFrame, optional
        A cases frame. If given, the members of a contrast pair, and cases of several skills with
        the same ``task``, form one cluster. Equal case names under several skills are refused
        unless the cases have tasks or ``by`` has ``skill``.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: count only checks that the grader was asked about under every condition of the
        case.
    weight : str, optional
        A column of ``verdicts`` or ``cases`` with the weight of each case, as in
        :func:`skillcomp.deltas.paired`. The tests behind p_differential are not weighted.
    cluster : {"case", "skill"} or str, default "case"
        As in :func:`skillcomp.deltas.paired`; a column may be in ``verdicts`` or ``cases``.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for ``naive``, as in :func:`skillcomp.deltas.paired`. The limits of both Rogan-Gladen
        estimators are computed from limits by this rule. ``ppi`` and ``gold_only`` do not use it.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition other than the reference, and estimator: estimates columns
        (measure ``delta_share_passed``, ``delta_passed`` or ``delta_score``, estimate from -1 to 1
        or in the unit of the score) and

        - estimator: ``naive`` (the grader as it is), ``gold_only`` (cases with gold under both
          conditions), ``rogan_gladen_pooled`` (one sensitivity and specificity for all
          conditions), ``rogan_gladen_by_arm`` (those of each condition), ``ppi`` (PPI++ on paired
          differences) and, with ``by="skill"``, ``pooled`` (error rates of each condition, pooled
          over the skills). For scores, which have no error rates, those that need them are NaN;
        - recommended: True for the recommended estimator, in at most one row per ``by`` and
          condition; reason: why this estimator is recommended, or why no estimator is;
        - gold_drawn: how gold was drawn, in words;
        - n_gold: number of cases with gold under both conditions. If no case has gold under both,
          or gold was drawn by verdict, the cases with gold are counted under each condition, and
          ``n_gold`` is the smaller number;
        - n_for_half_width_20, n_for_half_width_10: the ``n_gold`` that would bring half of the
          width of the interval to 0.2 and 0.1 (:func:`skillcomp.stats.units_needed`), if the number
          of cases without gold grows in proportion; NaN for ``naive``. The note states them where
          half of the width is above 0.2. To plan for a fixed number of cases use
          :func:`skillcomp.planning.gold_needed`. NaN for scores;
        - sensitivity, specificity, reference_sensitivity, reference_specificity, delta_youden
          (condition minus reference), p_differential (test that the error rates are equal under
          both conditions, clustered by case; the smaller of two p-values after Holm; NaN if gold
          was drawn by verdict). These columns pool skills and checks: see the notes of
          :func:`differential`. With a calibration set, the first four are those of the set, the
          last two those of gold on compared answers.

        The estimate is NaN with a note if gold does not suffice for it.

    Raises
    ------
    FrameError
        If a frame breaks its contract, the frames would pool graders, rounds, agents, altered
        copies or labellers, the reference is missing, ``by`` names ``condition``, or an argument
        has a value that is not allowed.

    See Also
    --------
    differential : The grader's error rates, with intervals.

    Notes
    -----
    The recommended estimator is

    - ``gold_only`` if every check of every attempt has gold;
    - ``ppi`` or ``gold_only``, whichever has the narrower interval, if at least 10 cases drawn at
      random have gold. Neither makes an assumption about the grader's errors. If the grader errs on
      fewer than five gold cases in one direction, the variance of ``ppi`` is increased as if gold
      showed one more error in each direction; ``note`` and ``reason`` state this;
    - ``pooled`` for a skill of such a study if its interval is narrower than both, and the error
      rates of the skill may be those of the other skills: the exact p-value of
      :func:`skillcomp.stats.significance.equal_errors` is above 0.2. ``reason`` states it;
    - ``rogan_gladen_by_arm`` if the cases with gold were selected. It assumes that the grader's
      error rates under a condition are the same for attempts with and without gold;
    - ``rogan_gladen_pooled`` with a calibration set of at least 10 cases. The delta then has the
      sign of the uncorrected one. ``note`` states how far the sensitivity or specificity under the
      condition would have to be from the others to turn the sign;
    - ``gold_only`` if gold was drawn by verdict and covers at least 10 cases: Begg and Greenes'
      correction, with the interval of :func:`skillcomp.stats.intervals.weighted_rate` and, for
      a delta, the difference of two such intervals;
    - otherwise no estimator. No estimator is recommended, either, if the labelled shares of passes
      and of fails differ too much for a random draw, or if the estimate is outside its range before
      it is clipped (with a calibration set, the clipped estimate is recommended).

    Without a calibration set, the recommended estimator never pools the error rates of conditions,
    because a pooled correction can be worse than none. The choice does not depend on
    p_differential, a test of little power. The limits of the Rogan-Gladen estimators are those of
    Fieller. With a calibration set of 20 labels of each kind and 100 cases, the interval of the
    delta covered 95.3 to 96.6 % of 1,500 simulated studies of each of four designs.
    The labelled shares of passes and of fails differ too much if at most one random draw in a
    thousand would show such a difference (a score test, clustered by case). This is not tested if
    the recorded inclusion probabilities are unequal.

    With six skills of 14 cases, gold on one of two repeats and 3 % errors, a gain of 30 points was
    shown in 42 % of 600 rows of skills, and 98 to 99 % of the intervals covered the true gain. For
    a skill with which alone the grader was lenient (30 % false passes), 95 % did (100 studies). In
    nine further designs, with rates near 0 and 1 and gold on a part of the cases, 97 % or more of
    720 intervals each did.

    The ppi interval was checked in 1500 simulated studies without a true effect. Their
    grader was more lenient with the skill: sensitivity and specificity were .96 and .70 with the
    skill, and .90 and .85 in the baseline. In six designs of 14 to 60 cases, with gold on 14 to 40
    of them, the ppi interval contained 0 in 94 to 97 % of the studies, and the naive
    interval in 27 to 64 %.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Lang and Reiczigel 2014,
    doi:10.1016/j.prevetmed.2013.09.015; Fiedler 2026, arXiv:2605.06939; Begg and Greenes 1983,
    doi:10.2307/2530820.

    Examples
    --------
    >>> import skillcomp as sc
    >>> pilot = sc.datasets.load("pilot")
    >>> verdicts, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    >>> found = delta(verdicts[verdicts["grader"].eq("g2")], gold)
    >>> found.loc[found["recommended"], "estimator"].tolist()
    ['gold_only']
    """
    return _corrected_rows(
        verdicts,
        gold,
        [reference],
        estimator,
        ci_level,
        interval,
        by=listed(by),
        value=value,
        bounds=bounds,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        weight=weight,
        cluster=cluster,
    )


def delta_with_rates(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    reference: str,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    **about: Any,
) -> pd.DataFrame:
    """Return the rows of :func:`delta`, then those of :func:`rate`, from one join with gold."""
    how = "auto", ci_level, interval
    return _corrected_rows(verdicts, gold, [reference, None], *how, **about)


def _corrected_rows(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    references: Sequence[str | None],
    estimator: str,
    ci_level: float,
    interval: IntervalRule,
    what: str = "correction.delta",
    **about: Any,
) -> pd.DataFrame:
    """Return the rows of :func:`delta` for each reference, or of :func:`rate` for None."""
    check_settings(what, ci_level)
    made = tables(verdicts, gold, what=what, **about)
    rows: list[pd.DataFrame] = []
    for reference in references:
        if not rows or made.cluster == "skill":
            parts = list(labelled_groups(made, ci_level, deltas=reference is not None))
        rows.append(_estimated_rows(made, parts, estimator, ci_level, interval, reference))
    return pd.concat(rows, ignore_index=True)


def _estimated_rows(
    made: Tables,
    parts: Parts,
    estimator: str,
    ci_level: float,
    interval: IntervalRule,
    reference: str | None = None,
) -> pd.DataFrame:
    """Return the rows of :func:`rate` or, with a reference, of :func:`delta`, in every group."""
    require_known("estimator: found", estimator, get_args(Estimator))
    if estimator == POOLED and "skill" not in made.by:
        raise FrameError(
            f"estimator='{POOLED}' pools the error rates of skills: by= needs 'skill'."
        )
    every = _EVERY if "skill" in made.by else ESTIMATORS
    requested = every if estimator == "auto" else (estimator,)
    require_reference(made.cases["condition"], reference)
    compared = [
        (values, group, [condition] if reference is None else [condition, reference])
        for values, group in parts
        for condition in group.sides
        if reference is None or (condition != reference and reference in group.sides)
    ]
    places = [(group, *names) for _, group, names in compared]
    rows = []
    found = estimates_by_name(places, ci_level, interval)
    for (values, group, names), intervals in zip(compared, found, strict=True):
        intervals = {
            name: claimed(each, group.claim, join_notes(each.note, group.claim))
            for name, each in intervals.items()
        }
        own, n_gold = group.used_errors(names[0]), group.n_gold(*names)
        chosen = choose(
            group, names, intervals, n_gold, made.draw, *made.label_notes(values, names)
        )
        if made.value == "score":
            low, high = made.ends
            intervals = {
                name: each.times(high - low, 0.0 if reference else low)
                for name, each in intervals.items()
            }
        about = {**values, "condition": names[0], "n_gold": n_gold}
        about |= {**error_columns(own), "youden": own.j, "gold_drawn": made.draw.words}
        sides = [group.sides[name] for name in names]
        if reference is None:
            lost = lost_attempts(sides, [""])
        else:
            lost = lost_attempts(sides)
            base = group.used_errors(reference)
            tests = differential_tests(*(group.units[name] for name in names))
            about |= {
                **error_columns(base, "reference_"),
                "delta_youden": group.errors[names[0]].j - group.errors[reference].j,
                "p_differential": math.nan if group.by_strata else tests.either.p_value,
                "reference": reference,
            }
        kind = "rate" if reference is None else "delta"
        rows += rows_of(f"{kind}_{made.value}", intervals, requested, chosen, about, lost)
    extra = [*LEADING, *_RATES, "youden"]
    if reference is not None:
        base_errors = [f"reference_{name}" for name in _RATES]
        differences = ("delta_youden", "p_differential")
        extra = [*LEADING, "reference", *_RATES, *base_errors, *differences]
    result = estimates(
        rows,
        by=[*made.by, "condition"],
        extra=extra,
        outcomes=made.outcomes,
        reference=reference,
    )
    return with_method(result, made.cluster, made.weight)


def choose(
    group: Group,
    conditions: Sequence[str],
    intervals: Intervals,
    n_gold: int,
    draw: Draw,
    settled: str = "",
    strays: str = "",
) -> tuple[str, str]:
    """Return the name of the recommended estimator (empty if there is none), and the reason.

    No estimator is recommended whose interval is wider than that of valid gold alone. ``strays`` is
    the note on gold labels that match no attempt, ``settled`` the note on labels by several
    labellers.
    """
    sides = {name: group.sides[name] for name in conditions}
    choice = _without_a_draw(group, sides, intervals, n_gold, draw)
    name, why = choice or _by_a_draw(group, sides, intervals, n_gold)
    if name and OUTSIDE in intervals[name].note and group.calibration is None:
        why = f"{name}: {intervals[name].note}. Such an estimate is never recommended"
        name = ""
    part = "" if group.by_strata else _partial_gold_note(sides)
    return name, join_notes(why, part, settled, "" if name else strays)


def _without_a_draw(
    group: Group,
    sides: Sides,
    intervals: Intervals,
    n_gold: int,
    draw: Draw,
) -> tuple[str, str] | None:
    """Return the recommendation, or None if it depends on a random draw of gold.

    In that case, `_by_a_draw` chooses.
    """
    few = f"{plural(n_gold, 'case')} with gold, fewer than {FEWEST_GOLD}: label more"
    no_limits = math.isnan(intervals["gold_only"].low)
    whole = all(len(cases) and cases["n_whole"].ge(cases["size"]).all() for cases in sides.values())
    if whole and not no_limits:
        return "gold_only", "every attempt carries gold: the grader is not needed"
    if draw.gold_drawn == "separate":
        if math.isnan(intervals["rogan_gladen_pooled"].low):
            return "", intervals["rogan_gladen_pooled"].note
        return ("", few) if n_gold < FEWEST_GOLD else _by_calibration(group, sides, n_gold)
    without = [name for name in sides if group.n_gold(name) == 0]
    if without:
        why = f"no gold in condition '{without[0]}': the grader's errors there are unknown"
        there = f"gold_drawn='separate' takes those of '{CALIBRATION}'"
        return "", join_notes(why, there if CALIBRATION in group.sides else "")
    if draw.problem:
        return "", draw.problem
    if draw.gold_drawn == "verdict":
        if no_limits:
            return "", intervals["gold_only"].note
        if n_gold < FEWEST_GOLD:
            return "", few
        return "gold_only", f"gold on {n_gold} cases, {draw.words}, weighted within strata"
    alike = {
        name: group.shares[name]
        for name, cases in sides.items()
        if have_equal_chances(cases) and name in group.shares
    }
    unequal = unequal_shares(alike, draw.gold_drawn)
    if draw.gold_drawn == "chosen":
        if math.isnan(intervals["rogan_gladen_by_arm"].low):
            note = intervals["rogan_gladen_by_arm"].note
            why = note if note == SCORES else "a condition lacks gold passes or gold fails"
            return "", join_notes(f"gold was chosen, and {why}", unequal)
        # gold chosen by what it was expected to say leaves the error rates as they are
        right = "gold was chosen, not drawn: right if the error rates of each condition carry over "
        return "rogan_gladen_by_arm", join_notes(f"{right}to its other attempts", unequal)
    if unequal:
        return "", unequal
    if n_gold < FEWEST_GOLD:
        return "", few
    unknown = unrecorded(sides.values())
    return ("", unknown) if unknown else None


def _by_calibration(group: Group, sides: Sides, n_gold: int) -> tuple[str, str]:
    """Recommend error rates of a calibration set; say if gold on the compared answers differs."""
    notes = []
    n_own = sum(map(n_with_gold, sides.values()))
    if n_own:
        notes.append(f"gold on {plural(n_own, 'compared case')} only checks these error rates")
    for name in sides:
        p_value = differential_tests(group.units[name], group.calibration).either.p_value
        if p_value < SIGNIFICANT:
            notes.append(f"by this gold, those of '{name}' differ (p = {p_value:.2g})")
        passes = sides[name]["verdict"].mean()
        least, most = 1.0 - group.pooled.specificity.estimate, group.pooled.sensitivity.estimate
        if not least <= passes <= most:
            beyond = f"'{name}' has {100 * passes:.0f} % passes by the grader; by the error rates "
            beyond += f"of the set, {100 * least:.0f} to {100 * most:.0f} % are possible"
            if (
                passes < 1.0 - group.pooled.specificity.high
                or passes > group.pooled.sensitivity.high
            ):
                return "", f"{beyond}, so they do not carry over"
            notes.append(beyond)
    right = "right if its error rates carry over to all conditions"
    return "rogan_gladen_pooled", join_notes(
        f"a calibration set of {plural(n_gold, 'case')}: {right}", *notes
    )


def _by_a_draw(group: Group, sides: Sides, intervals: Intervals, n_gold: int) -> tuple[str, str]:
    """Recommend an estimator or none, for gold that was drawn at random."""
    note, equal = intervals["ppi"].note, all(map(have_equal_chances, sides.values()))
    unbounded = {name for name, each in intervals.items() if math.isnan(each.low)}
    if not equal:
        unbounded |= {"gold_only", POOLED}
    width = {name: each.high - each.low for name, each in intervals.items()}
    width |= dict.fromkeys(unbounded, math.inf)
    name = "ppi" if width["ppi"] < width["gold_only"] else "gold_only"
    if width[name] == math.inf:
        return "", note
    drawn = f"gold on {n_gold} cases, taken as drawn at random (gold_drawn='random')"
    lacks_verdict = pd.concat(s.loc[s["gold"].notna(), "verdict"].isna() for s in sides.values())
    n_lost, n_with_gold = lacks_verdict.sum(), len(lacks_verdict)
    if n_lost > LOST_GOLD * n_with_gold:
        lost = f"{n_lost} of {n_with_gold} cases with gold have no verdict, and ppi leaves them out"
        return ("", lost) if width["gold_only"] == math.inf else ("gold_only", f"{drawn}; {lost}")
    imagined = name == "ppi" and SAFEGUARD in note
    whys = [drawn, FEW_ERRORS if imagined else "nothing assumed of the grader's errors"]
    if not equal:
        whys.append("cases drawn with unequal chances, which gold alone does not weigh")
    elif name == "gold_only":
        whys.append("ppi is no narrower")
    whys.append(f"by their chances {UNSEEN}" if UNSEEN in note else "")
    if width[POOLED] < math.inf:
        skills = [group.skills[side] for side in sides]
        p_value = min(1.0, 2.0 * min(each.p_equal for each in skills))
        others = f"the error rates of {skills[0].n - 1} other skills"
        p_text = f"(p of equal rates {p_value:.2g})"
        if width[POOLED] >= width[name]:
            whys.append(f"no narrower with {others}")
        elif p_value > MAY_BORROW:
            return POOLED, f"{drawn}; this skill borrows {others} {p_text}"
        else:
            whys.append(f"not {others} {p_text}")
    return name, join_notes(*whys)


def _partial_gold_note(sides: Sides) -> str:
    """Return a note that counts the attempts with gold on only some of their checks."""
    sparse = sum(cases["n_sparse"].sum() for cases in sides.values())
    part = sum((cases["n_gold"] - cases["n_whole"]).sum() for cases in sides.values())
    few = f"gold on too few checks of {sparse} attempts, left out" if sparse else ""
    return join_notes(few, f"gold on a part of the checks of {part} attempts" if part else "")


def rows_of(
    measure: str,
    intervals: Intervals,
    estimators: tuple[str, ...],
    chosen: tuple[str, str],
    columns: Fields,
    lost: str,
) -> list[Fields]:
    """Build one row per estimator, marking the recommended one.

    ``lost`` is a note for all estimators that use verdicts.
    """
    name, reason = chosen
    rows = []
    for word in estimators:
        interval = intervals[word]
        by_gold = replace(interval, n=columns["n_gold"])
        # the widths are in points
        has_width = word != "naive" and columns["n_gold"] > 0 and not measure.endswith("_score")
        wide = note_on_width(by_gold, "cases with gold") if has_width else ""
        noted = interval.with_note("" if word == "gold_only" else lost, wide)
        needed = needed_columns(by_gold if has_width else undefined("", ""))
        rows.append(
            row(
                measure,
                noted,
                estimator=word,
                **columns,
                reason=reason,
                **needed,
                recommended=word == name,
            )
        )
    return rows


def error_columns(own: Errors, prefix: str = "") -> Fields:
    """Build the columns with sensitivity and specificity; their names start with ``prefix``."""
    return {f"{prefix}{name}": getattr(own, name).estimate for name in _RATES}


def labelled_groups(made: Tables, ci_level: float, *, deltas: bool = False) -> Parts:
    """Yield each group of ``by``: the values that identify it, and its cases and error rates."""
    labelled, shares = made.labelled(), made.shares_labelled()
    pooled_keys = [name for name in made.by if name != "skill"]
    of_skills = _errors_of_skills(made, pooled_keys, ci_level)
    # a group without gold has no strata
    no_units = made.units.iloc[:0].drop(columns="stratum", errors="ignore")
    for values, part in groups(made.cases, made.by):
        key, note, name = key_of(values, made.by), "", "cluster"
        if made.cluster == "skill":
            note = claim(part["skill"], part["cluster"], "skill", delta=deltas, rule="bounded")[1]
            if not few_skills(part["skill"].nunique()):
                name = "skill"
        known = {c: shares[(*key, c)] for c in part["condition"] if (*key, c) in shares}
        group = _group_of(part, labelled.get(key, no_units), name, known, ci_level, note)
        if made.value == "score":
            nothing = undefined("", SCORES, ci_level, 0.0)
            none = Errors(nothing, nothing)
            group = group._replace(errors=dict.fromkeys(group.errors, none), pooled=none)
        if (calibration := made.calibration_of(values)) is not None:
            pooled = group.pooled
            if made.value != "score":
                (pooled,) = errors_of([calibration], ci_level)
            group = group._replace(pooled=pooled, calibration=calibration)
        skills = of_skills.get(key_of(values, pooled_keys), {})
        own = {
            c: skills[c][values["skill"]]
            for c in group.sides
            if values.get("skill") in skills.get(c, {})
        }
        yield values, group._replace(skills=own)


def _errors_of_skills(
    made: Tables, keys: Sequence[str], ci_level: float
) -> dict[tuple[Any, ...], dict[str, dict[str, OfSkills]]]:
    """Return error rates over all skills by values of ``keys``, condition and skill.

    They are empty unless ``by`` has the skill, and gold is a sample of answers that pass or fail.
    """
    found: dict[tuple[Any, ...], dict[str, dict[str, OfSkills]]] = {}
    usual = made.draw.gold_drawn in ("random", "chosen") and made.value != "score"
    units = made.units.dropna(subset=["gold", "verdict"])
    units = units if usual and "skill" in made.by else units.iloc[:0]
    for values, rows in groups(units, [*keys, "condition"]):
        place, skills = pd.factorize(rows["skill"])
        wrong, passes = rows["verdict"].ne(rows["gold"]), rows["gold"].eq(1.0)
        kinds = [
            [np.bincount(place, kind & counted, len(skills)) for kind in (passes, ~passes)]
            for counted in (wrong, True)
        ]
        (errors,) = errors_of([rows], ci_level)
        each = {
            skill: OfSkills(len(skills), errors, p_value)
            for skill, p_value in zip(skills, equal_errors(*kinds), strict=True)
        }
        found.setdefault(key_of(values, keys), {})[values["condition"]] = each
    return found


def _group_of(
    part: pd.DataFrame,
    every: pd.DataFrame,
    cluster: str,
    shares: Fields,
    ci_level: float,
    note: str,
) -> Group:
    """Build a group; ``cluster`` is the name of the column with the clusters."""
    part, every = (t.assign(cluster=pd.factorize(t[cluster])[0]) for t in (part, every))
    names, by_strata = ordered(part["condition"]), "stratum" in every
    units = {c: every[every["condition"].eq(c)] for c in names}
    # strata differ between conditions, so no error rates can be pooled over conditions
    whole = every.iloc[:0] if by_strata else every
    errors = errors_of([*units.values(), whole], ci_level)
    n_lost = (whole["gold"].notna() & whole["verdict"].isna()).sum()
    errors[-1] = errors[-1]._replace(n_lost=n_lost)
    sides = {c: part[part["condition"].eq(c)].reset_index(drop=True) for c in names}
    by_condition = dict(zip(names, errors[:-1], strict=True))
    return Group(sides, units, by_condition, errors[-1], shares, by_strata, note)


_RATES = ("sensitivity", "specificity")
NO_POWER = "a p-value that is not small is no licence to pool the conditions"


def differential(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate and test whether the grader's error rates differ between conditions.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As in :func:`skillcomp.correction.delta`.
    by : str or sequence of str, default ()
        Columns to group by.
    value : {"share_passed", "passed"}, default "share_passed"
        Whether errors are counted on single checks or on whole attempts.
    reference : str, default "baseline"
        Condition with which every other condition is compared.
    gold_drawn, drawn_by : object
        As in :func:`skillcomp.correction.delta`. If gold is ``"separate"``, the calibration set has
        rows, too, with the condition ``calibration``; the other conditions have the error rates of
        their own labels, if there are any. With ``"verdict"`` the rates are weighted within strata,
        and differences have no p-value.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    checks : {"all", "shared"}, default "all"
        As in :func:`skillcomp.correction.delta`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition, with the estimates columns. The measures are
        ``sensitivity`` and ``specificity``, from 0 to 1, and ``youden``: their sum minus 1, which
        is 0 if the grader guesses. Every condition other than the reference has three more rows
        with the differences (condition minus reference): ``delta_sensitivity``,
        ``delta_specificity`` and ``delta_youden``. The first two have a ``p_value``, and
        ``p_adjusted`` by Holm over the rows of the measure. ``n`` counts labels. The sensitivity
        is NaN with a note if gold has no passes, the specificity if gold has no fails.

    Raises
    ------
    FrameError
        As in :func:`skillcomp.correction.delta`.

    Notes
    -----
    Rates have the interval of a bounded mean, clustered by case. Differences have limits by
    square-and-add (MOVER). This assumes independent conditions and gives somewhat too wide
    intervals if the same cases have gold under both. The p-values of differences are those of CR2
    with cases as clusters. With 30 to 60 labels the tests have little power, so a large p-value
    does not justify pooling the conditions.

    The comparison pools skills, dimensions and checks. The checks that fail with the skill may
    belong to other skills than the checks that fail in the baseline. Error rates that are equal
    within every skill can then seem to differ, and differences can cancel. To compare within
    skills, use ``by="skill"`` or :func:`skillcomp.bias.audit`. The correction itself needs rates
    that are pooled over skills, because these are the error rates of the condition.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    names = listed(by, "condition")
    what = "correction.differential"
    check_settings(what, ci_level)
    require_known(f"{what}: value: found", value, get_args(Value))
    made = tables(
        verdicts,
        gold,
        by=names,
        value=value,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        what=what,
    )
    require_reference(made.cases["condition"], reference)
    rows = []
    for values, group in labelled_groups(made, ci_level):
        units = group.units
        errors = group.errors | ({} if group.calibration is None else {CALIBRATION: group.pooled})
        for condition, own in errors.items():
            made_rows = [row(name, getattr(own, name)) for name in (*_RATES, "youden")]
            if reference in errors and condition not in (reference, CALIBRATION):
                base = errors[reference]
                # the tests do not weigh gold drawn by verdict
                end = 0 if group.by_strata else None
                tests = differential_tests(*(units[c].iloc[:end] for c in (condition, reference)))
                for name in _RATES:
                    change = getattr(own, name).minus(getattr(base, name))
                    test = getattr(tests, name)
                    method = f"{change.method}; p by {test.method}"
                    change = replace(change, method=method, p_value=test.p_value)
                    made_rows.append(row(f"delta_{name}", change.with_note(test.note, NO_POWER)))
                made_rows.append(row("delta_youden", youden_difference(own.youden, base.youden)))
            compared = dict.fromkeys([condition, reference])
            lost = lost_attempts(group.sides[n] for n in compared if n in group.sides)
            for each in made_rows:
                note = join_notes(each["note"], lost)
                rows.append(each | values | {"condition": condition, "note": note})
    return estimates(rows, by=[*names, "condition"], outcomes=made.outcomes)
