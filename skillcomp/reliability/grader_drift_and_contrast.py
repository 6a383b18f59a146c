"""Grader versions and graders on the same items: drift, differences and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

from skillcomp.contrast import Bounds, changes_over_items
from skillcomp.errors import FrameError, plural, require_type, suggest
from skillcomp.frames.check import as_list, require_frame
from skillcomp.frames.contracts import CONTRACTS, GRADER_KEYS
from skillcomp.frames.estimates import (
    GRADER,
    RESERVED,
    By,
    check_settings,
    estimates,
    group_codes,
    grouped,
    groups,
    listed,
    n_distinct,
    require_columns,
    row,
    sorted_by,
)
from skillcomp.frames.reference_labels import missing_reasons
from skillcomp.reliability.grader_agreement_and_consistency import (
    LEVELS,
    Graded,
    GradedValue,
    graded_items,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.intervals import wilson
from skillcomp.stats.results import NAN, Fields, Interval, holm, join_notes, undefined
from skillcomp.stats.significance_and_grader_errors import (
    clustered_cochran,
    rank_sets,
    severity_shift,
)

VERSION = ["grader", "grader_version"]
Reference = str | tuple[str, str]
_REFERENCE = ["reference", "reference_version"]
_MISSING = ["n_missing", "n_missing_reference", "worst_low", "worst_high"]
_COUNTS = ["n_gained", "n_lost", "n_dropped"]
_DRIFT_COLUMNS = [*_REFERENCE, *LEVELS, *_COUNTS, *_MISSING]
_BOTH = ["new", "old"]  # The verdicts of two graders on an item.
_FLIPPED = ["skill", "case_id", "attempt_id", "condition", "repeat", "check_id", "check_kind"]
_TEXTS = ["evidence_quote", "rationale"]
READ = [*VERSION, "skill", "cluster", "gold", "verdict", "status"]
READ += ["_check", "_item"]
# For each measure of agreement with gold, the labels of the items that it counts.
COUNTED = {"agreement": (0.0, 1.0), "sensitivity": (1.0,), "specificity": (0.0,)}
ERROR = "absolute_error"


def drift(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
    by: By = (),
    value: GradedValue = "passed",
    bounds: Bounds = None,
    average: By = (),
    exclude_checks: str | Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate how the verdicts on the same checks change with the grader version.

    Every other grader version is compared with the reference. An item is a check of an attempt;
    only items that both versions decided count. Items have equal weight, but the case is the unit
    of evidence in every interval and test, because checks of a case are not independent.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with one round of the reference and of at least one other version.
    gold : pandas.DataFrame, optional
        A gold frame, for the change in agreement with gold and in its two parts, sensitivity and
        specificity.
    reference_grader : str or tuple of str
        The grader with which the others are compared: its name, or name and version, such as
        ``("g1", "2")`` or ``"g1 2"``. Required; if it is missing, the error lists the graders.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"check_kind"``, or ``"agent"`` if there are several. Columns
        that name the grader are not allowed.
    value : {"passed", "score"}, default "passed"
        Whether verdicts or scores are compared. Gold then has labels in ``passed`` or scores in
        ``score``; if several labellers scored an item, and none is adjudicated, gold is their mean.
    bounds : tuple of float, optional
        The lowest and the highest possible score, such as ``(1, 5)``; required for scores.
    average : str or sequence of str, optional
        Columns to pool over, such as ``["agent"]``. Items keep their equal weights, and the answers
        of all agents to a case are in one cluster. A version may be harder on one agent and easier
        on another, so look at ``by=["agent"]`` first.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id. For example, ``"verbatim"`` leaves out
        behaviours that a grader could not check without the text of the skill.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair, and cases of several skills with the same
        ``task``, then form one cluster. Equal case names under several skills are refused unless
        the cases have tasks or ``by`` has ``skill``.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for the intervals of changes, as in :func:`skillcomp.deltas.paired`. The adaptive rule
        uses, for each check of a case, its pass rates and its number of attempts.
    n_resamples, seed : int
        Number of permutations of versions within cases and their seed, for the p-value of Cochran's
        Q.

    Returns
    -------
    pandas.DataFrame
        Several rows per ``by``, grader and grader_version (those of the compared version), with
        the estimates columns. The measures are:

        - ``agreement_change``: change in the share of items on which verdict and gold agree; only
          with ``gold``, and only on items with a label. Above 0 if the version is better.
        - ``pass_rate_change``: pass rate of the compared version minus that of the reference.
        - ``sensitivity_change``: change in the share passed among gold passes.
        - ``specificity_change``: change in the share failed among gold fails. This and the
          sensitivity change are below 0 if the version is worse.
        - ``severity_shift``: in logits, from a conditional logit (Rasch) model. Above 0 if the
          version is more severe (it passes fewer of the same items), below 0 if more lenient.
        - with ``value="score"``, only ``absolute_error_change`` (with ``gold``), the change in the
          mean distance between score and gold (below 0 if the version is better), and
          ``score_change``, the change in the mean score; both in the unit of the scores;
        - ``cochran_q``: Cochran's Q over three or more versions, without an interval. One row per
          ``by``, with grader NA. Its p-value permutes the versions within cases.

        Further columns: ``reference`` and ``reference_version`` name the reference. ``rate`` and
        ``reference_rate`` are the rates over the items that both decided. ``n_gained`` and
        ``n_lost`` count verdicts that flipped to PASS and to FAIL (for ``agreement_change``, to
        right and to wrong; for scores, values that rose and fell). ``n_dropped`` counts the items
        that only one of the two decided. ``n_missing`` counts the items that have rows of both
        versions, but no verdict of the compared version (malformed, refused, an error);
        ``n_missing_reference`` counts those without a verdict of the reference. ``worst_low`` and
        ``worst_high`` are the lowest and the highest value that these missing verdicts allow. The
        two bounds do not include items that one version did not grade; the note counts such items.
        Undefined values are NaN with a note.

    Raises
    ------
    FrameError
        If the reference is missing or has several versions, a version has several rounds, there is
        no other version, ``by`` names a grader column, or agents would be pooled.

    See Also
    --------
    flipped : The verdicts that changed.

    Notes
    -----
    The interval of a change is that of :func:`skillcomp.stats.bounded.bounded_mean` for the changes
    of the items, with cases as clusters. The adaptive rule uses how far the errors of each version
    come singly within their cases; errors that come in whole cases make the interval wide. The
    p-value is that of McNemar's mid-p test with all changes of a case reversed together. If a case
    has several items, it is that of the interval where this is larger. Both assume that cases are
    independent of each other. The test also assumes that equally good versions are exchangeable
    within a case. They are not if one errs in whole cases and the other on single items: then the
    test alone shows a change in 6 to 20 % of studies, and test and interval together in at most
    3 %. They show a change from .05 to .12 errors in 40 cases of five items in 60 % of studies, or
    in 46 % if errors on two items of a case have a correlation of .1 (the test alone in 70 and
    57 %). In ``pass_rate_change``, fails take the place of errors. The severity shift is log(lost /
    gained) with a cluster-robust standard error. If one of the two counts is 0, m / 2 is added to
    both, where m is the mean number of flipped items in the cases that have a flipped item (see
    :func:`skillcomp.stats.significance_and_grader_errors.severity_shift`). An item is left out of
    the comparison if either version gave no verdict on it.

    For scores, the interval depends in the same way on the variance of the scores within cases, and
    the p-value is that of the interval. It assumes nothing about unseen cases if each case has one
    item, and is then wide; ``interval="t"`` is narrower and assumes that no unseen case is unlike
    the others.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91; Rasch 1960.

    Examples
    --------
    The new version fails three of eight answers that the old one passed.

    >>> import pandas as pd
    >>> cases = [f"s/{i}" for i in range(8)]
    >>> old = pd.DataFrame({
    ...     "attempt_id": cases, "skill": "s", "case_id": cases, "condition": "skill",
    ...     "check_id": "c", "grader": "old", "passed": True})
    >>> new = old.assign(grader="new", passed=[False] * 3 + [True] * 5)
    >>> changes = drift(pd.concat([old, new]), reference_grader="old").set_index("measure")
    >>> changes.loc["pass_rate_change", ["estimate", "n_gained", "n_lost"]].tolist()
    [-0.375, 0.0, 3.0]
    """
    graded, reference = _graded_versions(
        verdicts,
        gold,
        reference_grader,
        "reliability.drift",
        by=by,
        value=value,
        bounds=bounds,
        settings=(ci_level, n_resamples, seed),
        average=average,
        exclude_checks=exclude_checks,
        cases=cases,
    )
    no_item, no_label = "no item has both verdicts", "no such gold label among these items"
    if value == "score":
        why = {} if gold is None else {ERROR: "no item has a gold label and both scores"}
        why["score"] = "no item has both scores"
    else:
        why = {"agreement": "no item has a gold label"}
        if gold is None:
            why, no_label = {}, "no gold given"
        why |= {"pass_rate": no_item, "sensitivity": no_label, "specificity": no_label}
        why["severity"] = no_item
    rows = []
    for values, part in groups(graded.rows, graded.names):
        for versions, items in _pairs_with_reference(part, reference):
            changes = _change_rows(items, versions, why, graded.span, ci_level, interval)
            rows += [values | change for change in changes]
        if value == "passed" and len(part[VERSION].drop_duplicates()) > 2:
            rows.append(values | reference | _cochran_row(part, ci_level, n_resamples, seed))
    return graded.estimates(rows, _DRIFT_COLUMNS, by=VERSION)


def _change_rows(
    items: pd.DataFrame,
    versions: Fields,
    why: dict[str, str],
    span: float,
    ci_level: float,
    rule: IntervalRule,
) -> list[Fields]:
    """Return one row per measure: the change of a version relative to the reference version.

    ``why`` has the measures, and the note of each if it has no item.
    """
    parts = {measure: items_of_measure(items, measure) for measure in why}
    severity = parts.pop("severity", None)
    rows = paired_changes(list(parts.items()), "change", ci_level, rule)
    if severity is not None:
        # in this analysis, all gains and losses are of passes
        of_fails, of_passes = rows[-1], rows[-3]
        of_fails |= {"n_gained": of_fails["n_lost"], "n_lost": of_fails["n_gained"]}
        shift = _severity(items.dropna(subset=_BOTH), ci_level)
        counts = {name: of_passes[name] for name in _COUNTS}
        rows.append(row("severity_shift", shift, **counts))
        parts["severity"] = severity
    for (measure, part), change in zip(parts.items(), rows, strict=True):
        change |= versions | _missing_columns(part, measure)
        note = change["note"] if change["n"] else why[measure]
        scale = span if change["unit"] == "score" else 1.0
        change["note"] = join_notes(note, *_notes(part, change, scale))
    return rows


def _severity(items: pd.DataFrame, ci_level: float = 0.95) -> Interval:
    return severity_shift(items[["old", "new"]], items["cluster"], ci_level=ci_level)


def _missing_columns(items: pd.DataFrame, measure: str) -> Fields:
    """Count the missing verdicts of items that both graded, and return the bounds they allow."""
    graded = items.dropna(subset=["_check", "_old_check"])
    # In the first copy, missing verdicts of the version are FAIL and those of the reference PASS.
    # In the second copy, it is the other way round.
    worst = [graded.fillna({"new": x, "old": 1.0 - x}) for x in (0.0, 1.0)]
    ends = [(filled["new"] - filled["old"]).mean() for filled in worst]
    if measure == "severity":
        decided = len(graded.dropna(subset=_BOTH))
        shifts = [_severity(filled).estimate for filled in reversed(worst)]
        ends = shifts if decided else [NAN, NAN]
    return dict(zip(_MISSING, (*graded[_BOTH].isna().sum(), *ends), strict=True))


def paired_changes(
    parts: Sequence[tuple[str, pd.DataFrame]], what: str, ci_level: float, rule: IntervalRule
) -> list[Fields]:
    """Estimate how much more often the new grader passes, or is right on, the same items.

    ``parts`` has measures and their items (see :func:`items_of_measure`), and ``what`` ends the
    names of the measures. Return one row of an estimates frame for each.
    """
    if not parts:
        return []
    decided = [items.dropna(subset=_BOTH) for _, items in parts]
    found = changes_over_items(decided, ci_level=ci_level, interval=rule)
    rows = []
    for (measure, items), both, change in zip(parts, decided, found, strict=True):
        gained, lost = both["new"].gt(both["old"]), both["new"].lt(both["old"])
        dropped = items["new"].isna() ^ items["old"].isna()
        numbers = gained.sum(), lost.sum(), dropped.sum()
        columns: Fields = dict(zip(_COUNTS, numbers, strict=True))
        if len(both):
            columns |= dict(zip(LEVELS, (both["new"].mean(), both["old"].mean()), strict=True))
        else:
            change = undefined("paired difference", "", ci_level, 0.0)
        rows.append(row(f"{measure}_{what}", change, **columns))
    return rows


def _notes(items: pd.DataFrame, change: Fields, span: float) -> list[str]:
    """Return notes: how many items are left out, why verdicts are missing, and the worst case."""
    n_dropped, n_neither = change["n_dropped"], items[_BOTH].isna().all(axis=1).sum()
    notes = [f"{plural(n_dropped, 'item')} decided by one of the two only"] if n_dropped else []
    notes += [f"{plural(n_neither, 'item')} decided by neither"] if n_neither else []
    new, new_version, old, old_version = (change[name] for name in [*VERSION, *_REFERENCE])
    if new == old:  # versions of one grader are told apart by their numbers
        new, old = f"{new} {new_version}", f"{old} {old_version}"
    sides = (("new", "status", "_check", new), ("old", "old_status", "_old_check", old))
    for verdict, status, row_of_grader, name in sides:
        lacking = items[items[verdict].isna()]
        if len(lacking):
            reasons = lacking[status].mask(lacking[row_of_grader].isna(), "not graded")
            notes.append(f"without a verdict of {name}: {missing_reasons(reasons)}")
    n_missing, n_missing_reference, *ends = (change[name] for name in _MISSING)
    if n_missing + n_missing_reference and not np.isnan(ends).any():
        low, high = (span * end for end in ends)
        notes.append(f"in the worst case the change is {low:+.2f} or {high:+.2f}")
    return notes


def _cochran_row(part: pd.DataFrame, ci_level: float, n_resamples: int, seed: int) -> Fields:
    """Test whether all versions have the same pass rate on the items that all of them decided."""
    index = ["_item", "cluster", "skill"]
    wide = part.pivot(index=index, columns=VERSION, values="verdict")
    full = wide.dropna()
    n_dropped, graders = len(wide) - len(full), ", ".join(wide.columns.get_level_values(0))
    note = f"versions of {graders}; {plural(n_dropped, 'item')} not decided by all"
    q = undefined("Cochran's Q", f"no item decided by all; {note}", ci_level, 0.0)
    if len(full):
        clusters = full.index.get_level_values("cluster")
        test = clustered_cochran(full, clusters, n_resamples=n_resamples, seed=seed)
        q = undefined(test.method, join_notes(test.note, note), ci_level, len(full))
        q = replace(q, estimate=test.statistic, n_clusters=n_distinct(clusters))
        q = replace(q, p_value=test.p_value)
    return row("cochran_q", q, n_dropped=n_dropped)


def flipped(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
) -> pd.DataFrame:
    """List the verdicts that change with the grader, one row per item and compared version.

    Parameters
    ----------
    verdicts, gold, reference_grader
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        One row per verdict that flipped: skill, case_id, attempt_id, condition, repeat, check_id
        and check_kind; grader and grader_version of the compared version; reference; direction
        (``to PASS`` or ``to FAIL``); the booleans old, new and gold (NA without a label);
        evidence_quote and rationale of the compared version; and old_rationale.

    See Also
    --------
    drift : Counts the flips to PASS and to FAIL, also among gold passes and gold fails.
    """
    graded, reference = _graded_versions(
        verdicts,
        gold,
        reference_grader,
        "reliability.flipped",
        columns=[*_FLIPPED, *_TEXTS],
        agents=False,
    )
    pairs = _pairs_with_reference(graded.rows, reference)
    items = pd.concat([items.assign(**versions) for versions, items in pairs], ignore_index=True)
    items = items.dropna(subset=_BOTH)
    flips = items[items["new"].ne(items["old"])].reset_index(drop=True)
    flips = flips.assign(
        direction=np.where(flips["new"].gt(flips["old"]), "to PASS", "to FAIL"),
        **{name: flips[name].astype("boolean") for name in ("old", "new", "gold")},
    )
    names = [*_FLIPPED, *VERSION, "reference", "direction", "old", "new", "gold", *_TEXTS]
    return flips[[*names, "old_rationale"]]


def _graded_versions(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None,
    reference_grader: Reference | None,
    what: str,
    *,
    by: By = (),
    columns: Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    **how: Any,
) -> tuple[Graded, Fields]:
    """Open the verdicts of versions; return them and the reference version."""
    graded = graded_items(verdicts, gold, what, by=by, cases=cases, compared=VERSION, **how)
    rows = graded.rows
    if rows.empty:
        why = "exclude_checks leaves out every check"
        if verdicts.empty:
            why = "the verdicts frame has no rows"
        raise FrameError(f"{what}: {why}: nothing to compare.")
    rows = rows.assign(grader_version=rows["grader_version"].fillna(""))
    reference = _reference_version(rows, reference_grader)
    return graded._replace(rows=rows[listed([*graded.names, *columns, *READ])]), reference


def _reference_version(verdicts: pd.DataFrame, reference_grader: Reference | None) -> Fields:
    """Return the name and version of the reference.

    Raise FrameError unless ``reference_grader`` fits exactly one of at least two versions.
    """
    versions = [(str(g), str(v)) for g, v in verdicts[VERSION].drop_duplicates().to_numpy()]
    labels = [" ".join(filter(None, pair)) for pair in versions]
    if reference_grader is None:
        raise FrameError(
            f"reference_grader= is missing; there: {', '.join(labels)}. Name the grader with which "
            f"the others are compared, such as reference_grader={labels[0]!r}."
        )
    # accept lists, because JSON has no tuples
    is_name = isinstance(reference_grader, str)
    asked: Any = reference_grader if is_name else tuple(as_list(reference_grader))
    if not is_name and [isinstance(word, str) for word in asked] != [True, True]:
        raise FrameError(
            f"reference_grader: found {reference_grader!r}; allowed: the name of a grader, such as "
            "'g1', or its name and version, such as ('g1', '2')."
        )
    name = asked if is_name else asked[0]
    matches = [pair for pair in versions if asked in (pair, pair[0])]
    if not matches:
        matches = [pair for pair in versions if " ".join(filter(None, pair)) == asked]
    if not matches:
        near = suggest(name, [grader for grader, _ in versions])
        raise FrameError(
            f"reference_grader: there is no grader {reference_grader!r}; "
            f"there: {', '.join(labels)}.{near}"
        )
    if len(matches) > 1:
        raise FrameError(
            f"reference_grader: grader '{name}' has several versions: "
            f"{', '.join(version for _, version in matches)}. "
            f"Give name and version, such as ('{name}', '{matches[0][1]}')."
        )
    if len(versions) < 2:
        raise FrameError(
            f"reference_grader: '{name}' is the only grader there: nothing to compare. Grade the "
            "same answers with a second grader or version."
        )
    return dict(zip(_REFERENCE, matches[0], strict=True))


def _pairs_with_reference(
    part: pd.DataFrame, reference: Fields
) -> Iterator[tuple[Fields, pd.DataFrame]]:
    """Yield the names of each version and of the reference, and their items."""
    of_version = dict(iter(part.groupby(VERSION, sort=False, observed=True)))
    old = of_version.pop(tuple(reference.values()), part.head(0))
    for version, rows in of_version.items():
        names = dict(zip(VERSION, map(str, version), strict=True)) | reference
        yield names, paired_items(rows, old)


def paired_items(rows: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """Join the verdicts of two graders; return one row per item that one of them graded.

    The verdicts are in the columns ``new`` and ``old``, NaN if missing. ``_check`` is NaN if the
    new grader did not grade the item, and ``_old_check`` if the old one did not.
    """
    names = {"verdict": "old", "status": "old_status", "rationale": "old_rationale"}
    names["_check"] = "_old_check"
    keys = ["_item", "gold"]
    old = old[[*keys, *old.columns.intersection(list(names))]].rename(columns=names)
    return rows.rename(columns={"verdict": "new"}).merge(old, on=keys, how="outer")


def items_of_measure(items: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Select the items that a measure counts.

    For a measure of agreement, 1 replaces a verdict that equals gold, and 0 another one; for the
    absolute error, the difference replaces a score.
    """
    if measure not in [*COUNTED, ERROR]:
        return items
    labels = COUNTED.get(measure)
    items = items[items["gold"].notna() if labels is None else items["gold"].isin(labels)]
    apart = {name: (items[name] - items["gold"]).abs() for name in _BOTH}
    return items.assign(**{n: 1.0 - x if labels else x for n, x in apart.items()})


_CONTRAST_COLUMNS = ["reference", "rate", "reference_rate", "n_gained", "n_lost", "n_dropped"]
_CELLS = ["true_pass", "false_fail", "false_pass", "true_fail"]


def contrast(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    between: str = "grader",
    by: By = (),
    value: GradedValue = "passed",
    bounds: Bounds = None,
    average: By = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how graders differ in their agreement with gold, and how they rank.

    Every pair of graders is compared on the items (checks of attempts) that both decided and that
    have a gold label. Items have equal weight; the case is the unit of evidence.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        A verdicts frame with two or more graders, and a gold frame.
    between : str, default "grader"
        The column of ``verdicts`` with the compared levels, such as ``"grader_family"``,
        ``"batch"``, or a column of your own such as month or prompt version. With ``"round"``, a
        version that graded twice is compared with itself: if a provider changed the model under
        its name, the later round differs. Each level must have verdicts on the same answers.
        Columns that name the grader and are not compared must have one value in each level; the
        note names them if the value differs between levels. Verdicts without a level are left out
        and counted in the note.
    by, value, bounds, average, cases, ci_level, interval
        As in :func:`drift`. With ``value="score"``, gold has a column ``score``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, measure and pair of graders, and one per ``by`` and grader, with the
        estimates columns. In the row of a pair, the column named by ``between`` has one
        grader and ``reference`` the other, which is earlier in sorted order. The measures are:

        - ``agreement_difference``: agreement of the grader with gold minus that of the reference;
        - ``sensitivity_difference`` and ``specificity_difference``: the same among gold passes and
          among gold fails;
        - with ``value="score"``, instead of these: ``absolute_error_difference``, the mean distance
          between score and gold minus that of the reference (below 0 if the grader is closer to
          gold), and ``score_difference``, the mean score minus that of the reference, both in the
          unit of the scores;
        - ``agreement_rank``: one row per grader, in the order of the ranks, with ``reference``
          NA. ``estimate`` is 1 plus the number of graders with a higher agreement (or a smaller
          absolute error) on the items that they share with this grader. ``ci_low`` and ``ci_high``
          are the ends of the confidence set of the rank; the sets hold for all graders
          simultaneously.

        ``p_value`` is that of :func:`drift`. ``p_adjusted`` is by Holm over all pairs of the
        measure. ``rate`` and ``reference_rate`` are the rates over the shared items; for a rank,
        ``rate`` is the grader's agreement (or absolute error) on all its items. ``n_gained`` and
        ``n_lost`` count the items on which only the grader, or only the reference, is right.
        ``n_dropped`` counts labelled items that only one of the two decided. A pair without a
        shared item is NaN with a note and widens the sets of ranks.

    Raises
    ------
    FrameError
        If there are fewer than two levels, no answer has verdicts under two of them, or graders,
        versions, rounds or agents would be pooled.

    See Also
    --------
    contrast_counts : The same for published counts.
    drift : One reference version against all others.
    skillcomp.plots.ranks : Draws the ranks.

    Notes
    -----
    Limits are those of each pair alone. Limits and p-value follow the rule of :func:`drift`:
    McNemar's mid-p test on cases and, if a case has several items, the interval as well. The rule
    assumes that cases are independent of each other. If one grader errs in whole cases and an
    equally good one on single items, it shows a difference in at most 3 % of studies, the test
    alone in 6 to 20 %. It shows .05 against .12 errors in 40 cases of five items in 46 to 60 % of
    studies. The sets of ranks follow from the adjusted p-values of agreement: see
    :func:`skillcomp.stats.significance_and_grader_errors.rank_sets`.
    Equal graders are tied for several ranks, and the set of each of them contains all these
    ranks. A wide set means that the graders are equal or that the items are too few to show
    a difference.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm 2024, Inference for ranks, Review of Economic Studies,
    doi:10.1093/restud/rdad006; Holm 1979; Fagerland et al. 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    Grader c errs on 12 of 30 answers, a and b on one each. ``right`` marks the answers on which a
    grader agrees with gold.

    >>> import pandas as pd
    >>> ids = [f"s/{i}" for i in range(30)]
    >>> gold = pd.DataFrame({"attempt_id": ids, "check_id": "c", "passed": [True, False] * 15})
    >>> right = {"a": [i > 0 for i in range(30)], "b": [i > 1 or i == 0 for i in range(30)],
    ...     "c": [i >= 12 for i in range(30)]}
    >>> verdicts = pd.concat(pd.DataFrame({
    ...     "attempt_id": ids, "skill": "s", "case_id": ids, "condition": "skill", "check_id": "c",
    ...     "grader": name, "passed": gold["passed"].eq(pd.Series(values))})
    ...     for name, values in right.items())
    >>> rows = contrast(verdicts, gold)
    >>> rows[rows["measure"].eq("agreement_rank")][["grader", "estimate", "ci_low", "ci_high"]]
      grader  estimate  ci_low  ci_high
    9      a       1.0     1.0      2.0
    10     b       1.0     1.0      2.0
    11     c       3.0     3.0      3.0
    """
    what = "reliability.contrast"
    verdicts, column, compared, note = _with_levels(verdicts, between, listed(by), what)
    graded = graded_items(
        verdicts,
        gold,
        what,
        by=by,
        value=value,
        bounds=bounds,
        settings=(ci_level,),
        cases=cases,
        average=average,
        compared=compared,
    )
    if between not in GRADER:
        graded.rows[between] = column.array
    rows = graded.rows[listed([*graded.names, between, *READ])].dropna(subset=[between])
    _require_two(rows[between].unique(), between, what)
    if rows.groupby("_item")[between].nunique().max() < 2:
        raise FrameError(
            f"{what}: no answer has verdicts under two values of {between}, so not only the "
            "grading differs. Grade the same answers under both, or estimate the agreement on "
            f"different answers: agreement(by={[*graded.names, between]})."
        )
    lines = []
    for values, part in groups(rows, graded.names):
        levels = sorted_by(part[[between]].drop_duplicates(), [between])[between].tolist()
        found = _compared_graders(part, between, levels, ci_level, interval, value, graded.span)
        lines += [values | line for line in _family_rows(found, levels, between, ci_level)]
    frame = graded._replace(note=join_notes(note, graded.note)).estimates(
        lines, _CONTRAST_COLUMNS, [between]
    )
    return frame.astype({"reference": rows[between].dtype})


def _with_levels(
    verdicts: pd.DataFrame, between: str, by: Sequence[str], what: str
) -> tuple[pd.DataFrame, pd.Series, list[str], str]:
    """Return verdicts with comparable levels, the levels, the compared columns and a note.

    The levels become rounds, because a verdicts frame has one verdict of a grader version on an
    item in each round. A column that names the grader may differ between levels, not within one.
    """
    require_type(f"{what}: between", between, str, "the name of one column", FrameError)
    if between not in GRADER or between in verdicts:
        require_columns(verdicts, [*by, between], what)
    else:
        verdicts = verdicts.assign(**{between: None})
    if between in {*RESERVED, *_CONTRAST_COLUMNS}:
        raise FrameError(f"{what}: between= names '{between}', which the analysis adds. Rename it.")
    unnamed = verdicts[between].isna().sum()
    notes = [f"{plural(unnamed, 'verdict')} without a {between} left out"] if unnamed else []
    compared, levels = [between], verdicts[between]
    if between not in GRADER:
        if pd.api.types.is_numeric_dtype(levels):
            levels = levels.convert_dtypes()
        facts = GRADER if between in GRADER_KEYS else GRADER[1:]
        names = [name for name in facts if name in verdicts and name not in by]
        single = grouped(verdicts, [*by, between])[names].nunique().le(1).all()
        differ = [name for name in names if single[name] and verdicts[name].nunique() > 1]
        notes += [f"{name} differs with {between}" for name in differ if name != "round"]
        verdicts = verdicts.assign(**dict.fromkeys(differ, "compared"))
        if "round" not in by and single.get("round", True):
            verdicts = verdicts.assign(round=group_codes(verdicts, [between])[0] + 1)
            compared.append("round")
        if between not in CONTRACTS["verdicts"].required:  # or it would have to fit the contract
            verdicts = verdicts.drop(columns=between)
    return verdicts, levels, compared, join_notes(*notes)


def contrast_counts(
    counts: pd.DataFrame, *, between: str = "grader", by: By = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate differences and ranks of graders from counts alone, such as published ones.

    Parameters
    ----------
    counts : pandas.DataFrame
        One row per ``by`` and grader. The columns are either ``n`` (number of items) and ``agreed``
        (number of items on which grader and gold agree), or the confusion matrix: ``true_pass``,
        ``false_fail``, ``false_pass`` and ``true_fail``.
    between : str, default "grader"
        The column that names the grader.
    by : str or sequence of str, optional
        Columns to group by.
    ci_level : float, default 0.95
        Level of the intervals and of the sets of ranks.

    Returns
    -------
    pandas.DataFrame
        The rows of :func:`contrast`; sensitivity and specificity only with a confusion matrix.
        ``p_value`` is that of Fisher's exact test.

    Raises
    ------
    FrameError
        If a column is missing, a number is not a count, a grader has two rows, or there is only one
        grader.

    Notes
    -----
    Counts do not show on which items two graders agree, so the graders are compared as if they had
    judged different, independent items. If they judged the same items, the interval of a difference
    is usually too wide. Limits of a difference are Newcombe's, from two Wilson intervals.

    References
    ----------
    Newcombe 1998, Statistics in Medicine 17:873; Mogstad et al. 2024, doi:10.1093/restud/rdad006.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame({"grader": ["a", "b", "c"], "agreed": [90, 85, 60], "n": 100})
    >>> rows = contrast_counts(counts)
    >>> rows[rows["measure"].eq("agreement_rank")][["grader", "ci_low", "ci_high"]]
      grader  ci_low  ci_high
    3      a     1.0      2.0
    4      b     1.0      2.0
    5      c     3.0      3.0
    """
    what, names = "reliability.contrast_counts", listed(by)
    check_settings(what, ci_level)
    require_frame(counts, what)
    columns = _CELLS if set(_CELLS) <= set(counts.columns) else ["agreed", "n"]
    require_columns(counts, [*names, between, *columns], what)
    if counts[between].isna().any():
        raise FrameError(f"{what}: {between}: a row has no name. Name the grader, or drop the row.")
    _require_two(counts[between].unique(), between, what)
    rows = []
    for values, part in groups(counts.astype({between: "str"}), names):
        if part[between].duplicated().any():
            name = part.loc[part[between].duplicated(), between].iloc[0]
            raise FrameError(f"{what}: '{name}' has several rows. Name their columns in by=.")
        levels = sorted(part[between].tolist())
        compared = _compared_counts(part.set_index(between).loc[levels, columns], ci_level, what)
        rows += [values | line for line in _family_rows(compared, levels, between, ci_level)]
    return estimates(rows, by=[*names, between], extra=_CONTRAST_COLUMNS)


class _Compared(NamedTuple):
    """Comparisons of all pairs of graders, and the agreement of each grader with gold.

    ``pairs`` has a list of rows for each measure, one per pair of graders, in the order of
    ``itertools.combinations``.
    """

    pairs: dict[str, list[Fields]]
    agreement: list[Interval]
    method: str


def _require_two(names: Any, between: str, what: str) -> None:
    if len(names) < 2:
        only = f"'{names[0]}' is the only {between}" if len(names) else f"there is no {between}"
        raise FrameError(
            f"{what}: {only}: nothing to compare. Grade the same answers with a second {between}, "
            f"or name the column whose values you compare: between=."
        )


def _family_rows(
    compared: _Compared, levels: Sequence[Any], between: str, ci_level: float
) -> Iterator[Fields]:
    """Yield one row per pair and measure, then one row per grader with its rank."""
    pairs, n = list(combinations(levels, 2)), len(levels)
    for changes in compared.pairs.values():
        for (old, new), change in zip(pairs, changes, strict=True):
            yield change | {between: new, "reference": old}
    measure, agreement = next(iter(compared.pairs.items()))
    above, sign = np.triu_indices(n, 1), -1.0 if measure == ERROR else 1.0
    differences, p_values = np.full((2, n, n), NAN)
    differences.T[above] = [sign * change["estimate"] for change in agreement]
    differences[above] = -differences.T[above]
    p_values[above] = p_values.T[above] = holm([change["p_value"] for change in agreement])
    unknown = np.isnan(differences).sum(axis=1) - 1
    ends = rank_sets(differences, p_values, ci_level=ci_level)
    ranks = np.where(unknown < n - 1, (1.0 + (differences < 0).sum(axis=1), *ends), NAN).T
    method = f"ranks from {plural(len(pairs), 'pair')}, Holm; {compared.method}"
    for k in np.argsort(ranks[:, 0], kind="stable"):
        own, note = compared.agreement[k], ""
        if unknown[k]:
            note = f"not compared with {plural(unknown[k], 'grader')}"
        if n < 2:
            note = f"the only {between} here"
        place, low, high = ranks[k]
        rank = undefined(method, join_notes(note, own.note), ci_level, own.n)
        rank = replace(rank, estimate=place, low=low, high=high, n_clusters=own.n_clusters)
        yield row("agreement_rank", rank, rate=own.estimate) | {between: levels[k]}


def _compared_graders(
    part: pd.DataFrame,
    between: str,
    levels: list[Any],
    ci_level: float,
    rule: IntervalRule,
    value: GradedValue,
    span: float,
) -> _Compared:
    """Compare all pairs of graders on their shared items with gold."""
    labelled = part.dropna(subset="gold")
    of_level = [labelled[labelled[between].eq(level)] for level in levels]
    pairs = [paired_items(new, old) for old, new in combinations(of_level, 2)]
    changes = {}
    for measure in COUNTED if value == "passed" else (ERROR, "score"):
        parts = [(measure, items_of_measure(items, measure)) for items in pairs]
        changes[measure] = paired_changes(parts, "difference", ci_level, rule)
        for change, items in zip(changes[measure], pairs, strict=True):
            left_out, note = "", ""
            if items[["_check", "_old_check"]].isna().any(axis=1).all():
                note = "no answer with gold was graded under both"
            elif not change["n"]:
                note = "no such item has gold and both verdicts"
            elif value == "passed" and not change["n_gained"] + change["n_lost"]:
                note = "no verdict flipped: p = 1"
            if change["n_dropped"]:
                left_out = f"{plural(change['n_dropped'], 'item')} decided by one of the two only"
            change["note"] = join_notes(change["note"], note, left_out)
    own = []
    for rows in of_level:
        known = rows.dropna(subset="verdict")
        rate = undefined("", "" if len(known) else "no verdict on an item with gold", n=len(known))
        error = span * (known["verdict"] - known["gold"]).abs().mean()
        right = 1.0 - error if value == "passed" else error
        own.append(replace(rate, estimate=right, n_clusters=known["cluster"].nunique()))
    return _Compared(changes, own, "McNemar's mid-p and intervals on the same items")


def _compared_counts(table: pd.DataFrame, ci_level: float, what: str) -> _Compared:
    """Compare all pairs of graders by their counts, as independent samples."""
    numbers = table.astype("float64")
    if not ((numbers >= 0) & (numbers == numbers.round())).all(axis=None):
        names = ", ".join(table.columns)
        raise FrameError(f"{what}: {names} must be whole numbers of items, 0 or more.")
    columns = numbers.to_numpy().T
    if len(columns) == 2:  # numbers of right and of wrong verdicts, for each measure
        counts = {"agreement": (columns[0], columns[1] - columns[0])}
    else:
        true_pass, false_fail, false_pass, true_fail = columns
        counts = {"agreement": (true_pass + true_fail, false_fail + false_pass)}
        counts |= {"sensitivity": (true_pass, false_fail), "specificity": (true_fail, false_pass)}
    if (counts["agreement"][1] < 0).any():
        raise FrameError(f"{what}: agreed is larger than n. Give the number of items in n.")
    made: dict[str, list[Fields]] = {measure: [] for measure in counts}
    rates = {}
    for measure, of_measure in counts.items():
        cells = np.column_stack(of_measure).astype(int)
        rates[measure] = [wilson(right, right + wrong, ci_level=ci_level) for right, wrong in cells]
        for old, new in combinations(range(len(cells)), 2):
            about = {"rate": rates[measure][new].estimate}
            about["reference_rate"] = rates[measure][old].estimate
            difference = rates[measure][new].minus(rates[measure][old])
            p_value = NAN
            if np.isfinite(difference.estimate):
                p_value = fisher_exact(cells[[new, old]]).pvalue
            method = "unpaired, Newcombe; p: Fisher's exact test"
            difference = replace(difference, p_value=p_value, method=method)
            made[measure].append(row(f"{measure}_difference", difference, **about))
    return _Compared(made, rates["agreement"], "Fisher's exact test of unpaired counts")
