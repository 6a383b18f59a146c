"""Verdicts on skills: teaching, redundant, ineffective, harmful or undetermined.

Decisions compare an interval with a stated margin. "No change" is a claim of equivalence: the whole
interval must be inside the margin. A difference that is not significant is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.deltas import paired, paired_cases, rates
from skillcomp.errors import FrameError, plural, require_known, suggest
from skillcomp.frames.check import check, settle
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.corrected_deltas import (
    MOVED,
    NAIVE,
    reasons_of_verdict,
    with_corrections,
)
from skillcomp.frames.estimates import (
    By,
    estimates,
    grouped,
    groups,
    listed,
    prepared,
    refuse_different_checks,
    refuse_pooling,
    require_columns,
    require_reference,
    row,
    with_notes_of,
)
from skillcomp.frames.worst_case import with_missing_attempts
from skillcomp.records import SCHEMA_WEIGHTS, dimension_family
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.results import is_number, join_notes

__all__ = ["aggregate", "cases", "decide", "dimensions", "together"]


def __dir__() -> list[str]:
    return __all__


PLACEBO = "placebo"
Policy = Literal["strict", "weighted", "pass_count"]


def decide(
    outcomes: pd.DataFrame,
    *,
    corrected: pd.DataFrame | None = None,
    by: By = ("skill",),
    margin: float = 0.1,
    reference: str = "baseline",
    value: Literal["passed", "share_passed"] = "passed",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    assume_missing: Literal["at random"] | None = None,
) -> pd.DataFrame:
    """Decide for each skill whether it teaches, from the interval of its delta.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or name ``grader`` in ``by``).
    corrected : pandas.DataFrame, optional
        The rows of :func:`skillcomp.correction.delta` for the same verdicts, ``by``, ``value``,
        weights, clusters, checks and level, or only the recommended ones. For the verdict
        ``redundant`` add the rows of :func:`skillcomp.correction.rate` with ``pandas.concat``.
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group and condition.
    margin : float, default 0.1
        The largest change that counts as no change, in rate units (0.1 is ten points). Choose it
        before you see the data.
    reference : str, default "baseline"
        The condition that the others are compared with.
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    cluster, average, weight
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals that decide.
    assume_missing : {"at random"}, optional
        Assume that missing attempts are like the others. Default: no assumption, so that missing
        attempts can make a verdict ``undetermined``.

    Returns
    -------
    pandas.DataFrame
        The rows of :func:`skillcomp.deltas.paired` with further columns. ``margin`` is the
        argument. ``reference_low`` is the lower limit of the rate under the reference, over all
        cases with an outcome under it. ``over_placebo`` is the delta between the condition and the
        placebo, over the cases that have both; ``over_placebo_low`` and ``over_placebo_high`` are
        its limits. All three are NaN without a placebo. A note states if the delta and
        ``over_placebo`` have different cases. ``overturned`` is True if missing attempts could
        change the verdict (see Notes), and ``assume_missing`` is then the assumption that keeps it,
        otherwise empty. ``verdict`` is the first of these that applies:

        ``redundant``
            The reference already passes (its lower limit is at least ``1 - margin``) and the
            interval of the delta excludes a loss beyond the margin.
        ``ineffective``
            No change: the whole interval is inside ``(-margin, margin)``, whether or not it
            excludes zero.
        ``teaching``, ``harmful``
            The whole interval is above ``margin`` (teaching) or below ``-margin`` (harmful).
        ``undetermined``
            Anything else: the data do not decide. A note states if the interval excludes zero but
            reaches into the margin.

        With a placebo, a note states if the verdict is ``teaching`` but the interval of
        ``over_placebo`` is not above zero. Any other text of the same length might then have the
        same effect.

        ``verdict_uncorrected`` is the verdict by the grader alone. ``estimator`` is the one behind
        ``verdict`` and the estimates columns: ``naive`` for the grader as it is, otherwise the one
        that the correction recommends. ``estimate_uncorrected``, ``ci_low_uncorrected`` and
        ``ci_high_uncorrected`` are by the grader alone, as are ``rate``, ``reference_rate`` and
        ``over_placebo``. ``n_gold`` counts the cases with gold. If a verdict by the grader alone is
        not confirmed, ``labels_needed`` is about the number of further labelled cases that would
        decide: infinite if labels on all cases would not, NaN if it is unknown. ``why`` gives the
        reasons for the verdict: interval, missing attempts and correction.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, if ``margin`` is not between 0 and 1, or if
        ``corrected`` does not match the outcomes and the other arguments.

    See Also
    --------
    cases : The single cases that change when the skill is loaded.

    Notes
    -----
    :func:`skillcomp.deltas.paired` defines missing attempts. If a condition lacks 5 % or more of
    its attempts, all missing attempts are set against the verdict. If the estimate is then beyond
    the margin on which the verdict rests, or the interval includes 0 although a gain or loss is
    claimed, the verdict becomes ``undetermined``, unless ``assume_missing`` keeps it. Otherwise the
    note gives the tipping point: the smallest number of missing attempts that change the verdict if
    they are set against it. They are ordered once by their influence on the estimate, ties by row.

    With ``corrected``, the verdict follows from the recommended interval. ``redundant`` then needs
    the corrected rate of the reference. If no correction is recommended for a row, because labels
    are too few or not a random draw, the verdict is ``undetermined``: fewer labels never give a
    stronger verdict. Missing attempts are assumed to be corrected as the others are. Without
    ``corrected``, all verdicts are by the grader alone.

    A verdict is wrong with a probability of at most ``(1 - ci_level) / 2``, or slightly more
    because outcomes are discrete. At the default level the probability is at most 5 % if the true
    delta equals the margin. This was found by computing all possible outcomes of cases with one
    attempt (:mod:`skillcomp.stats.bounded`).
    """
    if not is_number(margin) or not 0.0 < margin < 1.0:
        raise FrameError(f"margin: found {margin!r}; allowed: a number above 0 and below 1.")
    if assume_missing is not None:
        require_known("assume_missing: found", assume_missing, ["at random"])
    names, outcomes = listed(by), check(outcomes, "outcomes")
    how: dict[str, Any] = {"by": names, "value": value, "weight": weight}
    how |= {"cluster": cluster, "average": listed(average)}
    _, sets, references = paired_cases(outcomes, **how, reference=reference)
    how["ci_level"] = ci_level
    deltas = paired(outcomes, reference=reference, **how)
    levels = rates(outcomes, **how)
    base = levels.loc[levels["condition"].eq(reference), [*names, "ci_low"]]
    base = base.rename(columns={"ci_low": "reference_low"})
    deltas["margin"] = margin
    deltas = deltas.merge(base, on=names or None, how="left" if names else "cross")
    deltas = _over_placebo(deltas, outcomes, names, reference, how)
    judge = partial(
        _with_verdicts,
        sets,
        references,
        value=value,
        cluster=cluster,
        assume_missing=assume_missing,
    )
    judged = judge(deltas)
    ends = ["estimate", "ci_low", "ci_high"]
    alone = deltas[ends].add_suffix("_uncorrected").assign(verdict_uncorrected=judged["verdict"])
    judged = judged.assign(**alone, estimator=NAIVE, n_gold=np.nan, labels_needed=np.nan)
    if corrected is not None:
        matched = {name: how[name] for name in ("value", "cluster", "weight")}
        judged = judge(with_corrections(deltas, corrected, names, **matched)).assign(**alone)
        judged = _without_unconfirmed(judged)
    judged["why"] = [reasons_of_verdict(row) for _, row in judged.iterrows()]
    return judged.drop(columns=[*MOVED, "correction_reason"], errors="ignore")


def _without_unconfirmed(judged: pd.DataFrame) -> pd.DataFrame:
    """Make the verdicts undetermined for which no correction is recommended."""
    claimed = judged["verdict_uncorrected"].ne("undetermined")
    verdict = judged["verdict"].mask(judged["estimator"].eq(NAIVE), "undetermined")
    overturned = judged["overturned"] & judged["assume_missing"].eq("")
    unconfirmed = verdict.eq("undetermined") & claimed & ~overturned
    return judged.assign(verdict=verdict, labels_needed=judged["labels_needed"].where(unconfirmed))


def _with_verdicts(
    sets: Any,
    references: Any,
    deltas: pd.DataFrame,
    *,
    value: str,
    cluster: str,
    assume_missing: str | None,
) -> pd.DataFrame:
    """Add the verdict, and whether missing attempts overturn it."""
    low, high, margin = deltas["ci_low"], deltas["ci_high"], deltas["margin"]
    verdicts = {
        "redundant": (deltas["reference_low"] >= 1.0 - margin) & (low > -margin),
        "ineffective": (low > -margin) & (high < margin),
        "teaching": low > margin,
        "harmful": high < -margin,
    }
    deltas = deltas.assign(verdict=_first_that_holds(verdicts, "undetermined"))
    how: dict[str, Any] = {"value": value, "assume_missing": assume_missing, "cluster": cluster}
    judged = with_missing_attempts(deltas, sets, references, **how)
    return _with_reasons(judged)


def _first_that_holds(words: Mapping[str, Any], otherwise: str) -> Any:
    return np.select(list(words.values()), list(words), default=otherwise)


def _with_notes(deltas: pd.DataFrame, remarks: Iterable[str]) -> pd.DataFrame:
    return deltas.assign(note=list(map(join_notes, deltas["note"], remarks)))


def _over_placebo(
    deltas: pd.DataFrame,
    outcomes: pd.DataFrame,
    names: list[str],
    reference: str,
    how: dict[str, Any],
) -> pd.DataFrame:
    """Add ``over_placebo``, the delta between each condition and the placebo, with its limits."""
    renamed = {"estimate": "over_placebo"}
    renamed |= {f"ci_{end}": f"over_placebo_{end}" for end in ("low", "high")}
    if not deltas["condition"].eq(PLACEBO).any():
        return deltas.assign(**dict.fromkeys(renamed.values(), np.nan))
    over = paired(outcomes, reference=PLACEBO, **how)
    over = over[[*names, "condition", *renamed]].rename(columns=renamed)
    deltas = deltas.merge(over, on=[*names, "condition"], how="left")
    other = _other_cases(outcomes, names, how["value"], reference)
    matched = deltas[[*names, "condition"]].merge(other, on=[*names, "condition"], how="left")
    remarks = matched["remark"].fillna("").where(deltas["over_placebo"].notna(), "")
    return _with_notes(_with_notes(deltas, remarks), _lacking_repeats(deltas, outcomes, names))


def _lacking_repeats(deltas: pd.DataFrame, outcomes: pd.DataFrame, names: list[str]) -> list[str]:
    """Remark, per row, how many repeats of the condition have no counterpart under the placebo."""
    keys = list(dict.fromkeys([*names, *CASE, "repeat"]))
    attempts = outcomes[[*keys, "condition"]].drop_duplicates()
    placebo = attempts.loc[attempts["condition"].eq(PLACEBO), keys]
    of_cases = attempts.merge(placebo[keys[:-1]].drop_duplicates(), on=keys[:-1])
    both = of_cases.merge(placebo, on=keys, how="left", indicator="there")
    both = both.assign(lacks=both["there"].ne("both"))
    counts = grouped(both, [*names, "condition"])["lacks"].agg(["sum", "size"]).reset_index()
    matched = deltas[[*names, "condition"]].merge(counts, on=[*names, "condition"], how="left")
    return [
        f"the placebo lacks {int(n)} of the {plural(int(of_n), 'repeat')} of '{condition}'"
        if n > 0
        else ""
        for condition, n, of_n in matched[["condition", "sum", "size"]].itertuples(index=False)
    ]


def _other_cases(
    outcomes: pd.DataFrame, names: list[str], value: str, reference: str
) -> pd.DataFrame:
    """Remark, per condition, if its deltas to placebo and to reference are over different cases."""
    keys = list(dict.fromkeys([*names, *CASE]))
    run = outcomes.loc[outcomes[value].notna(), [*keys, "condition"]].drop_duplicates()
    sides = run[[*names, "condition"]]
    for side, other in (("delta", reference), ("over", PLACEBO)):
        there = run.loc[run["condition"].eq(other), keys]
        both = run.merge(there, on=keys, how="left", indicator="there")
        sides = sides.assign(**{side: both["there"].eq("both").to_numpy()})
    sides = sides.assign(differs=sides["delta"] != sides["over"])
    counts: pd.DataFrame = grouped(sides, [*names, "condition"])[["delta", "over", "differs"]].sum()
    remarks = [
        f"over_placebo rests on other cases than the delta: {over} and {delta}" if differs else ""
        for delta, over, differs in counts.itertuples(index=False)
    ]
    return counts.assign(remark=remarks)["remark"].reset_index()


def _with_reasons(deltas: pd.DataFrame) -> pd.DataFrame:
    """Add to the note why a verdict is undetermined, or that a placebo is not clearly beaten."""
    verdict, low, high = (deltas[name] for name in ("verdict", "ci_low", "ci_high"))
    unsure = verdict.eq("undetermined") & deltas["overturned"].eq(deltas["assume_missing"].ne(""))
    beaten = deltas["over_placebo"].notna() & ~(deltas["over_placebo_low"] > 0)
    words = {
        "helps, but perhaps by no more than the margin": unsure & (low > 0),
        "harms, but perhaps by no more than the margin": unsure & (high < 0),
        "does not clearly beat its placebo": verdict.eq("teaching") & beaten,
    }
    return _with_notes(deltas, _first_that_holds(words, ""))


def cases(outcomes: pd.DataFrame, *, by: By = (), reference: str = "baseline") -> pd.DataFrame:
    """Show for each case whether its answers pass with the skill and without it.

    A single case has too few repeats for a useful interval. Use these rows to find cases, not to
    claim effects.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or name ``grader`` in ``by``).
    by : str or sequence of str
        Further columns that group the rows.
    reference : str, default "baseline"
        The condition that the others are compared with.

    Returns
    -------
    pandas.DataFrame
        One row per case and condition other than the reference. It starts with ``by``, skill,
        case_id, comprehension_dimension, transfer and condition. ``n`` and ``n_reference`` count
        the attempts with an outcome. ``rate`` and ``reference_rate`` are the shares of these that
        passed, and ``delta`` is their difference. Rows are sorted by ``delta``, the largest loss
        first. A condition passes a case if more than half of these attempts pass.
        ``discriminates`` is True if only one of the two conditions passes the case, and NA if one
        of them has a tie or no outcome. ``verdict`` is ``taught`` (only the condition passes),
        ``already_passes`` (both), ``not_taught`` (neither), ``harmed`` (only the reference passes),
        or ``undetermined`` where ``discriminates`` is NA. A case that was not asked under the
        condition has n 0. ``note`` has the notes of its outcomes.
    """
    names = list(dict.fromkeys([*listed(by), *CASE, "comprehension_dimension", "transfer"]))
    if "condition" in names:
        raise FrameError("skillverdicts.cases: by= names 'condition'; a row has one already.")
    checked = prepared(outcomes, "outcomes", listed(by), "skillverdicts.cases", agents=True)
    require_reference(checked["condition"], reference)
    refuse_different_checks(checked, "skillverdicts.cases")
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    attempts = grouped(scored, [*names, "condition"])["passed"]
    table: pd.DataFrame = attempts.agg(n="count", rate="mean").reset_index()
    base = table[table["condition"].eq(reference)].drop(columns="condition")
    base = base.rename(columns={"n": "n_reference", "rate": "reference_rate"})
    others = table[table["condition"].ne(reference)]
    compared = others[["condition"]].drop_duplicates()
    every = table[names].drop_duplicates().merge(compared, how="cross")
    joined = every.merge(others, on=[*names, "condition"], how="left")
    joined = joined.merge(base, on=names, how="left")
    for count in ("n", "n_reference"):
        joined[count] = joined[count].fillna(0).astype("int64")
    after, before = np.sign(joined["rate"] - 0.5), np.sign(joined["reference_rate"] - 0.5)
    decided = after.abs().eq(1) & before.abs().eq(1)
    joined["discriminates"] = after.ne(before).astype("boolean").where(decided)
    verdicts = {
        "taught": (after > 0) & (before < 0),
        "already_passes": (after > 0) & (before > 0),
        "not_taught": (after < 0) & (before < 0),
        "harmed": (after < 0) & (before > 0),
    }
    joined["verdict"] = _first_that_holds(verdicts, "undetermined")
    joined["delta"] = joined["rate"] - joined["reference_rate"]
    joined = joined.sort_values("delta", kind="stable", ignore_index=True)
    order = [*names, "condition", "n", "rate", "n_reference", "reference_rate", "delta"]
    joined = with_notes_of(joined.assign(note=""), checked, names, reference)
    return joined[[*order, "discriminates", "verdict", "note"]]


def dimensions(
    outcomes: pd.DataFrame, *, by: By = ("skill",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Decide which dimensions each skill passes under each condition.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or name ``grader`` in ``by``).
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group, condition and dimension.
    ci_level : float, default 0.95
        Level of the interval of the rate.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and comprehension_dimension. The estimates columns hold the
        rate of attempts passed, with an interval by case. ``n_cases`` and ``n_cases_passed`` count
        the cases; a case is passed if more than half of its repeats pass. ``passed`` is True if
        every case is passed, False if a case fails, and NA if no case fails but one has no outcome.
        ``score`` is a mark from 1 to 5, with the limits ``score_low`` and ``score_high``.

    Notes
    -----
    The score is derived from the binary checks (report 9.4). An answer that passes 5 of 5 checks
    scores 5, one that passes 4 of 5 scores 4, and no answer scores less than 1. Scores are averaged
    over repeats, then over cases. The interval is that of a bounded mean, on the scale of the
    score. Use ``passed`` as the verdict, because a score hides which check failed.
    """
    names = [name for name in listed(by) if name not in ("comprehension_dimension", "condition")]
    keys = [*names, "comprehension_dimension"]
    checked = check(outcomes, "outcomes")
    refuse_pooling(checked, names, "skillverdicts.dimensions")
    checked = checked[checked["comprehension_dimension"].notna()]
    level = rates(checked, by=keys, ci_level=ci_level)
    marks = ((5 * checked["share_passed"] - 1) / 4).clip(lower=0.0)
    given_marks = checked.assign(share_passed=marks)
    marked = rates(given_marks, by=keys, value="share_passed", ci_level=ci_level)
    marked = marked.set_index([*keys, "condition"])[["estimate", "ci_low", "ci_high"]]
    marked = 1 + 4 * marked.set_axis(["score", "score_low", "score_high"], axis=1)
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    per_case = grouped(scored, [*keys, "condition", *CASE])["passed"].mean()
    rows = []
    for values, part in groups(per_case.reset_index(), [*keys, "condition"]):
        share = part["passed"]
        failed, open_ = bool((share <= 0.5).any()), bool(share.isna().any())
        passed = False if failed else (pd.NA if open_ else True)
        rows.append([*values.values(), len(share), int((share > 0.5).sum()), passed])
    columns = [*keys, "condition", "n_cases", "n_cases_passed", "passed"]
    verdict = pd.DataFrame(rows, columns=columns).astype({"passed": "boolean"})
    verdict = verdict.merge(marked.reset_index(), on=[*keys, "condition"], how="left")
    return level.merge(verdict, on=[*keys, "condition"], how="left")


def together(
    judged: pd.DataFrame,
    *,
    first: str = "C4",
    second: str = "C7",
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often skills pass one of two dimensions without the other.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`, with ``skill`` in its ``by``.
    first, second : str, default "C4" and "C7"
        The two dimensions. The comprehension report (9.2) considers merging C4 (boundary) and C7
        (misconception), the defaults.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Four rows per ``by`` and condition, with the estimates columns, ``first`` and ``second``.
        The measures are ``both_rate``, ``first_only_rate``, ``second_only_rate`` and
        ``neither_rate``. Each is a share of the skills that have a verdict on both dimensions, with
        the interval of a bounded mean over skills. If both dimensions measure the same thing, the
        two ``only`` rates are near 0. NaN with a note if no skill has both verdicts.

    Raises
    ------
    FrameError
        For an unknown dimension, or the same dimension twice.
    """
    if first == second:
        raise FrameError(f"second: found '{second}' twice; give two different dimensions.")
    names = [name for name in listed(by) if name != "condition"]
    keys = list(dict.fromkeys([*names, "condition", "skill"]))
    what = "skillverdicts.together"
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], what)
    family = dimension_family(judged["comprehension_dimension"])
    _require_dimensions(family, first=[first], second=[second])
    judged = _checked_verdicts(judged, keys, what, "name in by= what tells them apart")
    chosen = judged[judged["comprehension_dimension"].isin([first, second])]
    passed = chosen.set_index([*keys, "comprehension_dimension"])["passed"].astype("float64")
    table = passed.unstack("comprehension_dimension")
    wide = pd.DataFrame(table).reindex(columns=[first, second]).reset_index()
    measures = ("both_rate", "first_only_rate", "second_only_rate", "neither_rate")
    rows: list[dict[str, Any]] = []
    for values, part in groups(wide, [*names, "condition"]):
        complete = part.dropna(subset=[first, second])
        for name, (left, right) in zip(measures, product((1.0, 0.0), repeat=2), strict=True):
            share = complete[first].eq(left) & complete[second].eq(right)
            interval = bounded_mean(share.astype(float), quantity=RATES, ci_level=ci_level)
            if complete.empty:
                interval = replace(interval, note="no skill has a verdict on both dimensions")
            rows.append(row(name, interval, **values, first=first, second=second))
    return estimates(rows, by=[*names, "condition"], extra=["first", "second"])


def aggregate(
    judged: pd.DataFrame,
    *,
    by: By = ("skill",),
    policy: Policy = "strict",
    exceptions: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    threshold: float | None = None,
) -> pd.DataFrame:
    """Combine the verdicts on dimensions into one verdict on the skill, by one of three policies.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`.
    by : str or sequence of str, default ("skill",)
        The ``by`` of :func:`dimensions`.
    policy : {"strict", "weighted", "pass_count"}, default "strict"
        ``strict``: every dimension must be passed, except those in ``exceptions``. ``weighted``:
        the weighted share of passed dimensions must be at least ``threshold`` (default 0.8).
        ``pass_count``: the number of passed dimensions must be at least ``threshold`` (default two
        thirds of all, so 6 of 9).
    exceptions : sequence of str
        Dimensions with documented deficiencies; only for ``strict``.
    weights : mapping of str to float, optional
        Weight of each dimension. By default C1 to C6 have the weights of the source schema and C7
        to C9 have weight 0; a study's own dimensions have equal weights.
    threshold : float, optional
        The least share or number of passed dimensions; see ``policy``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition. ``policy`` is the argument. ``passed`` is NA if it depends
        on dimensions without a verdict. ``verdict`` uses the words of the source's audits.
        ``PASS``: passed, and no dimension failed. ``PASS WITH FIXES``: passed, but a dimension
        failed. ``PARTIAL``: not passed, but a dimension passed. ``FAIL``: not passed, and no
        dimension passed. It is NA if ``passed`` is. ``score`` is the share of dimensions passed, or
        their number for ``pass_count``. ``n_passed``, ``n_failed`` and ``n_missing`` count
        dimensions. ``failed`` names the failed ones, ``excepted`` those of them that are in
        ``exceptions``. ``note`` names the dimensions without a verdict.

    Raises
    ------
    FrameError
        For an unknown policy or exception.
    """
    require_known("policy: found", policy, ["strict", "weighted", "pass_count"])
    keys = [*(name for name in listed(by) if name != "condition"), "condition"]
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], "skillverdicts.aggregate")
    family = dimension_family(judged["comprehension_dimension"])
    default = SCHEMA_WEIGHTS if "C1" in family else dict.fromkeys(family, 1.0)
    weigh = dict(default if weights is None else weights)
    _require_dimensions(family, exceptions=exceptions, weights=weigh)
    if policy == "weighted" and not sum(weigh.values()) > 0:
        raise FrameError("weights: they add up to nothing; give at least one above 0.")
    advice = "give by= as in skillverdicts.dimensions"
    judged = _checked_verdicts(judged, keys, "skillverdicts.aggregate", advice)
    rows = []
    for values, part in groups(judged, keys):
        passed = part.set_index("comprehension_dimension")["passed"].reindex(list(family))
        combined = _combined_verdict(passed, policy, exceptions, weigh, threshold)
        rows.append({**values, "policy": policy, **combined})
    shape = [*keys, "policy", "passed", "verdict", "score", "n_passed", "n_failed", "n_missing"]
    frame = pd.DataFrame(rows, columns=[*shape, "failed", "excepted", "note"])
    return frame.astype({"passed": "boolean", "verdict": "str"})


def _checked_verdicts(
    judged: pd.DataFrame, keys: list[str], what: str, advice: str
) -> pd.DataFrame:
    """Return the verdicts in their dtypes; raise FrameError if a dimension has several."""
    judged = settle(judged, CONTRACTS["outcomes"].columns, f"{what}: judged")
    if judged.duplicated([*keys, "comprehension_dimension"]).any():
        raise FrameError(
            f"{what}: a dimension has several verdicts for one {' and '.join(keys)}; {advice}."
        )
    return judged


def _require_dimensions(family: tuple[str, ...], **arguments: Iterable[str]) -> None:
    allowed = "C1 to C9" if "C1" in family else ", ".join(family)
    for argument, names in arguments.items():
        for name in names:
            if name not in family:
                raise FrameError(
                    f"{argument}: found '{name}'; allowed: {allowed}." + suggest(str(name), family)
                )


def _combined_verdict(
    passed: pd.Series,
    policy: Policy,
    exceptions: Sequence[str],
    weights: Mapping[str, float],
    threshold: float | None,
) -> dict[str, object]:
    missing = list(passed.index[passed.isna()])
    failed = list(passed.index[passed.eq(False).fillna(False)])
    won = list(passed.index[passed.eq(True).fillna(False)])
    excepted = [name for name in failed if name in exceptions]
    if policy == "strict":
        open_ = [name for name in missing if name not in exceptions]
        verdict: object = False if len(failed) > len(excepted) else (pd.NA if open_ else True)
        score = len(won) / len(passed)
    else:
        each = {
            name: weights.get(name, 0.0) if policy == "weighted" else 1.0 for name in passed.index
        }
        scale = sum(each.values()) if policy == "weighted" else 1.0
        enough = math.ceil(2 * len(passed) / 3)
        bound = threshold if threshold is not None else (0.8 if policy == "weighted" else enough)
        score = sum(each[name] for name in won) / scale
        best = score + sum(each[name] for name in missing) / scale
        verdict = True if score >= bound else (False if best < bound else pd.NA)
    words = ("PASS WITH FIXES", "PARTIAL") if failed and won else ("PASS", "FAIL")
    return {
        "passed": verdict,
        "verdict": pd.NA if verdict is pd.NA else words[0 if verdict else 1],
        "score": score,
        "n_passed": len(won),
        "n_failed": len(failed),
        "n_missing": len(missing),
        "failed": ", ".join(failed),
        "excepted": ", ".join(excepted),
        "note": f"no verdict for {', '.join(missing)}" if missing else "",
    }
