"""Estimators of pass rates and deltas from labels of gold and verdicts of a grader."""

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
    arms_of,
    check_bounds,
    verdict_table,
)
from skillcomp.errors import FrameError, argument, plural
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    columns_of,
    grouped,
    listed,
    prepared,
    rows_of_group,
)
from skillcomp.frames.from_frame import OF_PAIR
from skillcomp.frames.outcomes import Checks
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
)
from skillcomp.reliability.grader_agreement_and_consistency import (
    reference_scores,
    scaled_scores,
)
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
from skillcomp.stats.ppi import ppi_mean
from skillcomp.stats.results import (
    Fields,
    Interval,
    Intervals,
    join_notes,
    quantile,
    undefined,
    within_range,
)
from skillcomp.stats.significance_and_grader_errors import (
    DifferentialTests,
    differential_misclassification,
    error_limits,
    rates_against_gold,
    youden,
)

_PLACE = [*CASE, "condition", "attempt_id"]
_MADE = ("chance", "stratum", WEIGHT, "n_checks", "settled_by")
Sides = dict[str, pd.DataFrame]  # The rows of each condition.


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
        labelled = rows_of_group(self._settled_items, values)
        labelled = labelled[labelled["condition"].isin([*conditions, CALIBRATION])]
        return labellers_said(labelled["settled_by"], labelled["gold"]), self.strays

    @cached_property
    def _settled_items(self) -> pd.DataFrame:
        return self.items[self.items["settled_by"].notna()]

    @property
    def _units_with_errors(self) -> pd.DataFrame:
        """The units; none for scores, which have no errors of this kind."""
        return self.units.iloc[: None if self.value != "score" else 0]

    def labelled(self) -> pd.DataFrame:
        """Return the units with gold.

        If gold was drawn by verdict, return all units that have a stratum, with or without gold.
        """
        rows = self._units_with_errors
        drawn = "stratum" in rows
        rows = rows[rows["stratum" if drawn else "gold"].notna()]
        if drawn:
            keys = listed([*self.by, *CASE, "condition"])
            n_attempts = grouped(rows, keys)["attempt_id"].transform("nunique")
            size = grouped(rows, [*keys, "attempt_id"])["attempt_id"].transform("size")
            rows = rows.assign(size=rows.get(WEIGHT, 1.0) / (n_attempts * size))
        names = [*self.by, *CASE, "condition", "verdict", "gold", "cluster"]
        names += columns_of(rows, WEIGHT, "stratum", "size")
        return rows[listed(names)]

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

    def shares_labelled(self) -> pd.DataFrame:
        """Return, by group and condition, the shares of passes and of fails that have gold."""
        keys = listed([*self.by, "condition"])
        return one_draw(labelled_shares(self._units_with_errors, keys), keys)


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
    ends = check_bounds(checked, value, bounds)
    check_draw(gold_drawn, drawn_by, checked["grader"], what)
    if value == "score":
        if gold_drawn == "verdict":
            draw_of_passes = "needs passes and fails, and scores have none"
            raise FrameError(f"{what}: {argument('gold_drawn', gold_drawn)} {draw_of_passes}.")
        labels = reference_scores(gold, bounds, what)
        # as in outcomes, checks that were never scored do not count
        checked = checked[grouped(checked, [*CASE, "check_id"])["score"].transform("count").gt(0)]
    else:
        labels = reference_labels(gold, what)
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
        joined = joined.assign(verdict=scaled_scores(joined, bounds))
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
EVERY_ESTIMATOR = get_args(Estimator)[1:]
ESTIMATORS = EVERY_ESTIMATOR[:-1]
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
_LABELS = {"verdict": ("the grader as it is", "grader"), "gold": ("gold alone", "gold")}


def _means_of_source(
    compared: Sequence[Sequence[pd.DataFrame]], source: str, ci_level: float, interval: IntervalRule
) -> list[Interval]:
    """Estimate rates or deltas by one source: the column ``verdict`` or ``gold``.

    An entry of ``compared`` holds the cases of one condition or, in all entries, of two.
    """
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
    label, who = _LABELS[source]
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
    shares: dict[Any, Any]
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
    by_verdicts = _means_of_source(sides, "verdict", ci_level, interval)
    by_gold = _means_of_source(sides, "gold", ci_level, "adaptive")
    return [
        _by_estimator(naive, gold_only, group, names, ci_level, interval)
        for (group, *names), naive, gold_only in zip(compared, by_verdicts, by_gold, strict=True)
    ]


def _by_estimator(
    naive: Interval,
    gold_only: Interval,
    group: Group,
    conditions: Sequence[str],
    ci_level: float,
    interval: IntervalRule,
) -> Intervals:
    is_delta = len(conditions) > 1
    if group.by_strata:
        in_strata = _delta_in_strata if is_delta else _rate_in_strata
        nothing = undefined("", _OTHER_DRAW, ci_level, 0.0)
        weighted = in_strata(group, conditions, ci_level)
        found = dict.fromkeys(EVERY_ESTIMATOR, nothing)
        return found | {"naive": naive, "gold_only": weighted}
    sides = [group.sides[name] for name in conditions]
    rates = [naive]
    if is_delta:
        rates = _means_of_source([[cases] for cases in sides], "verdict", ci_level, interval)
    by_arm = [
        rogan_gladen(rate, group.n_gold(name), group.used_errors(name))
        for rate, name in zip(rates, conditions, strict=True)
    ]
    pooled = rogan_gladen(naive, group.n_gold(*conditions), group.pooled, is_delta=is_delta)
    by_condition = by_arm[0]
    if is_delta:
        difference = difference_of_rates(by_arm[0], by_arm[1], "Rogan-Gladen by condition")
        # with equal error rates, no difference by gold is no difference by the grader
        pooled, by_condition = replace(pooled, p_value=naive.p_value), _with_p_value(difference)
    if not math.isnan(pooled.estimate):
        turns = turning_note(rates, group.pooled, conditions[0]) if is_delta else ""
        pooled = pooled.with_note(turns, first=group.pooled.pooled_note)
    estimated = (naive, gold_only, pooled, by_condition, ppi_estimate(sides, ci_level))
    found = dict(zip(ESTIMATORS, estimated, strict=True))
    over = undefined("", NO_OTHERS, ci_level, 0.0)
    skills = [group.skills[name] for name in conditions if name in group.skills]
    if len(skills) == len(conditions) and min(each.n for each in skills) > 1:
        shares = [rate.estimate for rate in rates]
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
