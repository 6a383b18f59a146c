"""Differences between graders on the same items, and confidence sets of the graders' ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

from skillcomp.contrast import Bounds
from skillcomp.errors import FrameError, plural, require_type
from skillcomp.frames.check import require_frame
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
    require_columns,
    row,
    sorted_by,
)
from skillcomp.reliability.drift import (
    COUNTED,
    ERROR,
    READ,
    items_of_measure,
    paired_changes,
    paired_items,
)
from skillcomp.reliability.graded_items import GradedValue, graded_items
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.intervals import wilson
from skillcomp.stats.results import NAN, Fields, Interval, holm, join_notes, undefined
from skillcomp.stats.significance import rank_sets

_EXTRA = ["reference", "rate", "reference_rate", "n_gained", "n_lost", "n_dropped"]
_COUNTS = ["true_pass", "false_fail", "false_pass", "true_fail"]


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
    :func:`skillcomp.stats.significance.rank_sets`.
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
    frame = graded._replace(note=join_notes(note, graded.note)).estimates(lines, _EXTRA, [between])
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
    if between in {*RESERVED, *_EXTRA}:
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
    columns = _COUNTS if set(_COUNTS) <= set(counts.columns) else ["agreed", "n"]
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
    return estimates(rows, by=[*names, between], extra=_EXTRA)


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
