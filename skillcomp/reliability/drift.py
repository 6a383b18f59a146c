"""Drift: differences between grader versions on the same checks of the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import Bounds, changes_over_items
from skillcomp.errors import FrameError, plural, suggest
from skillcomp.frames.estimates import GRADER, By, groups, listed, n_distinct, row
from skillcomp.frames.reference_labels import missing_reasons, without_checks
from skillcomp.reliability.graded_items import LEVELS, Graded, GradedValue, graded_items
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import NAN, Fields, Interval, join_notes, undefined
from skillcomp.stats.significance import clustered_cochran, severity_shift

VERSION = ["grader", "grader_version"]
Reference = str | tuple[str, str]
_REFERENCE = ["reference", "reference_version"]
_MISSING = ["n_missing", "n_missing_reference", "worst_low", "worst_high"]
_COUNTS = ["n_gained", "n_lost", "n_dropped"]
EXTRA = [*_REFERENCE, *LEVELS, *_COUNTS, *_MISSING]
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
    flip_counts : Counts by old and new verdict.

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
    :func:`skillcomp.stats.significance.severity_shift`). An item is left out of the comparison if
    either version gave no verdict on it.

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
    return graded.estimates(rows, EXTRA, by=VERSION)


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
    flip_counts : The numbers of verdicts that flipped and that did not.
    """
    what = "reliability.flipped"
    items = _decided_items(verdicts, gold, reference_grader, what)
    flips = items[items["new"].ne(items["old"])].reset_index(drop=True)
    flips = flips.assign(
        direction=np.where(flips["new"].gt(flips["old"]), "to PASS", "to FAIL"),
        **{name: flips[name].astype("boolean") for name in ("old", "new", "gold")},
    )
    names = [*_FLIPPED, *VERSION, "reference", "direction", "old", "new", "gold", *_TEXTS]
    return flips[[*names, "old_rationale"]]


def flip_counts(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
) -> pd.DataFrame:
    """Count pairs of an old and a new verdict, separately for gold passes and gold fails.

    Parameters
    ----------
    verdicts, gold, reference_grader
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        One row per grader and grader_version (those of the compared version), gold label and pair
        of verdicts. ``gold`` is ``PASS`` or ``FAIL``, and NA for items without a label.
        ``reference`` and ``reference_version`` name the grader of ``old``. ``old`` and ``new`` are
        the two verdicts, and ``count`` is the number of items. All four pairs are present, even
        with count 0.

    See Also
    --------
    skillcomp.plots.dimensions : Draws the counts of one version and gold label with x="new",
        y="old", if their column is called estimate.
    """
    what, names = "reliability.flip_counts", [*VERSION, *_REFERENCE]
    decided = _decided_items(verdicts, gold, reference_grader, what)
    rows = []
    for values, items in groups(decided, names):
        for label, name in ((1.0, "PASS"), (0.0, "FAIL"), (NAN, None)):
            of_label = items[items["gold"].eq(label) | (items["gold"].isna() & (name is None))]
            for old, new in product((True, False), repeat=2) if len(of_label) else ():
                count = (of_label["old"].eq(old) & of_label["new"].eq(new)).sum()
                rows.append([*values.values(), name, old, new, count])
    return pd.DataFrame(rows, columns=[*names, "gold", "old", "new", "count"])


def _decided_items(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None,
    reference_grader: Reference | None,
    what: str,
) -> pd.DataFrame:
    """Return the items that a version and the reference decided, for each of the versions."""
    graded, reference = _graded_versions(
        verdicts, gold, reference_grader, what, columns=[*_FLIPPED, *_TEXTS], agents=False
    )
    pairs = _pairs_with_reference(graded.rows, reference)
    items = pd.concat([items.assign(**versions) for versions, items in pairs], ignore_index=True)
    return items.dropna(subset=_BOTH)


def _graded_versions(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None,
    reference_grader: Reference | None,
    what: str,
    *,
    exclude_checks: str | Sequence[str] = (),
    by: By = (),
    columns: Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    **how: Any,
) -> tuple[Graded, Fields]:
    """Open the verdicts of versions; return them and the reference version.

    Raise FrameError if a version has several rounds.
    """
    graded = graded_items(
        verdicts, gold, what, by=by, cases=cases, compared=GRADER, graders=False, **how
    )
    rows = graded.rows
    rounds = rows.groupby(VERSION, dropna=False, observed=True)["round"].nunique()
    if (rounds > 1).any():
        version = rounds.index[rounds.to_numpy() > 1][0]
        raise FrameError(
            f"{what}: grader '{version[0]}' has several rounds; select one "
            "(frames.verdicts(store, round=1)), or ask consistency() about them."
        )
    if rows.empty:
        raise FrameError(f"{what}: the verdicts frame has no rows: nothing to compare.")
    rows = without_checks(rows, exclude_checks, what)
    if rows.empty:
        raise FrameError("exclude_checks: every check is left out: nothing to compare.")
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
    words = list(reference_grader) if isinstance(reference_grader, Sequence) else []
    if not is_name and [isinstance(word, str) for word in words] != [True, True]:
        raise FrameError(
            f"reference_grader: found {reference_grader!r}; allowed: the name of a grader, such as "
            "'g1', or its name and version, such as ('g1', '2')."
        )
    name = str(reference_grader if is_name else words[0])
    matches = [pair for pair in versions if pair[0] == name and (is_name or pair[1] == words[1])]
    if not matches:
        matches = [pair for pair in versions if " ".join(filter(None, pair)) == reference_grader]
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
