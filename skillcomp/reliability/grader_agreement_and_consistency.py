"""Agreement of graders with gold and with each other, and of a grader with itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    Bounds,
    Contrast,
    Estimate,
    Units,
    changes_over_items,
    check_bounds,
    ends_of,
    within,
)
from skillcomp.errors import FrameError, SkillcompError, argument, plural, require_known
from skillcomp.frames.check import as_list, check, empty, settle
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.estimates import (
    GRADER,
    UNITS,
    By,
    check_settings,
    estimates,
    group_codes,
    grouped,
    groups,
    listed,
    require_columns,
    row,
    rows_of_group,
)
from skillcomp.frames.reference_labels import (
    ADJUDICATED,
    DISPUTED,
    ITEM,
    NAME_DRAWN_BY,
    SETTLED,
    Drawn,
    check_draw,
    clustered_verdicts,
    draw_words,
    drawn_strata,
    grader_names,
    join_gold,
    labelled_shares,
    labellers_said,
    missing_reasons,
    one_draw,
    reference_labels,
    refuted_draw,
    unequal_shares,
    usable,
    without_checks,
)
from skillcomp.frames.study_defaults import grader_named, names_of_graders
from skillcomp.stats.agreement import bootstrap_agreement, correlations
from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.intervals import NO_GOLD, weighted_rate
from skillcomp.stats.results import (
    NAN,
    NEEDED,
    Fields,
    Floats,
    Interval,
    Intervals,
    join_notes,
    needed_columns,
    note_on_width,
    undefined,
)
from skillcomp.stats.significance_and_grader_errors import rates_against_gold

GradedValue = Literal["passed", "score"]
_SPANS = ("estimate", "ci_low", "ci_high", "se", "worst_low", "worst_high")
LEVELS = ["rate", "reference_rate"]


class Graded(NamedTuple):
    """Verdicts that were opened for an analysis.

    Attributes
    ----------
    rows : pandas.DataFrame
        One row per verdict: its columns; ``cluster``; ``gold`` with the other columns of
        ``reference_labels``; and ``_check`` and ``_item``, the numbers of the check and the item.
        ``verdict`` and ``gold`` are 1, 0 or NaN, or scores on a scale from 0 to 1.
    labels : pandas.DataFrame
        The rows of ``reference_labels``.
    names : list of str
        The columns of ``by``.
    note : str
        A note on the averaged columns.
    lowest, span : float
        The lowest value, and the highest minus the lowest. For verdicts 0 and 1.
    """

    rows: pd.DataFrame
    labels: pd.DataFrame
    names: list[str]
    note: str
    lowest: float
    span: float

    def estimates(
        self, rows: Iterable[Fields], extra: Sequence[str], by: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Make the estimates frame of an analysis; results for scores get the unit of the scores.

        ``by`` names further columns that identify a row.
        """
        lines = []
        for line in rows:
            line = line | {"note": join_notes(line["note"], self.note)}
            if line["unit"] == "score":
                lowest = self.lowest if line["measure"].startswith("score") else 0.0
                line |= {name: self.span * line[name] for name in _SPANS if name in line}
                line |= {name: lowest + self.span * line[name] for name in LEVELS if name in line}
            lines.append(line)
        return estimates(lines, by=[*self.names, *by], extra=extra)


def graded_items(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | str | None,
    what: str,
    *,
    by: By,
    value: GradedValue | None = None,
    bounds: Bounds = None,
    settings: Sequence[Any] = (0.95,),
    exclude_checks: str | Sequence[str] = (),
    **how: Any,
) -> Graded:
    """Open verdicts, or scores, and gold for an analysis.

    ``gold`` is a gold frame, ``"majority"`` or None. ``settings`` are those of
    ``check_settings``. Checks with one of the texts ``exclude_checks`` in their id are left out. An
    analysis of verdicts alone gives no ``value``. The arguments ``how`` are passed to
    ``clustered_verdicts``.
    """
    check_settings(what, *settings)
    require_known(f"{what}: value: found", value or "passed", get_args(GradedValue))
    lowest, highest = ends_of(value or "passed", bounds)
    names, is_score = listed(by), value == "score"
    rows, note = clustered_verdicts(verdicts, names, what, **how)
    if len(rows):
        rows = without_checks(rows, exclude_checks, what)
    if is_score:
        rows["verdict"] = scaled_scores(rows, bounds)
    elif rows["verdict"].isna().all() and rows["score"].notna().any():
        remedy = f": {argument('value', 'score')} with {argument('bounds')} compares scores"
        note = join_notes(note, f"there are scores, but no verdicts{remedy if value else ''}")
    rows["gold"], labels = NAN, rows.head(0)
    if isinstance(gold, str):
        require_known(f"{what}: gold: found", gold, ("majority",))
        labels = _majority_labels(rows, what, is_score=is_score)
        rows = rows.drop(columns="gold").merge(labels, on=[*ITEM, "grader"], how="left")
    elif gold is not None:
        labels = reference_scores(gold, bounds, what) if is_score else reference_labels(gold, what)
        rows = join_gold(rows, labels)
    rows = rows.assign(
        _check=group_codes(rows, [*CASE, "check_id"])[0],
        _item=rows.groupby(ITEM, dropna=False).ngroup(),  # in the order of the ids
    )
    return Graded(rows, labels, names, note, lowest, highest - lowest)


def scaled_scores(verdicts: pd.DataFrame, bounds: Bounds) -> pd.Series:
    """Return the scores of usable verdicts on a scale from 0 to 1."""
    lowest, highest = check_bounds(verdicts, "score", bounds)
    return (verdicts["score"].where(usable(verdicts)) - lowest) / (highest - lowest)


def reference_scores(gold: pd.DataFrame, bounds: Bounds, what: str) -> pd.DataFrame:
    """Return the reference score of each item: the adjudicated one, or the mean of the labellers.

    The scale is from 0 to 1. The columns are those of ``reference_labels``.
    """
    if "score" not in gold or (len(gold) and gold["score"].isna().all()):
        raise FrameError(f"{what}: gold: there is no column 'score' with values.")
    labels = check(settle(gold, {"score": "float64"}, f"{what}: gold"), "gold")
    lowest, highest = check_bounds(labels, "score", bounds)
    labels["score"] = (labels["score"] - lowest) / (highest - lowest)
    settled = labels["labeller"].eq(ADJUDICATED) & labels["score"].notna()
    any_settled = settled.groupby([labels[name] for name in ITEM]).transform("any")
    labels = labels[settled | ~any_settled]
    several = labels.groupby(ITEM)["score"].transform("count").gt(1)
    by = labels["labeller"].astype("str").fillna("no name").mask(several, "the mean of labellers")
    items = labels.assign(settled_by=by).groupby(ITEM, sort=False)
    how = {"inclusion_probability": "first", "score": "mean", "settled_by": "first"}
    return items.agg(how).reset_index().rename(columns={"score": "gold"})


def _majority_labels(rows: pd.DataFrame, what: str, *, is_score: bool) -> pd.DataFrame:
    """Return a label of each item for each grader: the majority of the others, NaN for a tie.

    For scores, it is the mean of the others. The columns are those of ``reference_labels`` and
    ``grader``. All versions and rounds of a grader have one vote.
    """
    votes = rows.pivot_table(index=ITEM, columns="grader", values="verdict")
    if votes.shape[1] < 3:
        raise FrameError(
            f"{what}: {argument('gold', 'majority')} needs three or more graders; there: "
            f"{', '.join(map(str, votes.columns))}. Without gold, two graders are compared with "
            "each other."
        )
    known = votes.notna()
    sums, counts = votes.sum(axis=1), known.sum(axis=1)
    others = votes.fillna(0.0).rsub(sums, axis=0) / known.astype(int).rsub(counts, axis=0)
    label = others.stack(future_stack=True)
    by = pd.Series(f"a majority of the {votes.shape[1] - 1} other graders", label.index)
    if not is_score:
        tied = pd.Series(np.isclose(label, 0.5), label.index)
        label, by = label.round().mask(tied), by.mask(tied, DISPUTED)
    about = {"gold": label, "settled_by": by, "inclusion_probability": NAN}
    return pd.DataFrame(about).reset_index()


def verdicts_with(
    frame: pd.DataFrame,
    name: str,
    columns: Sequence[str],
    made: Fields,
    *,
    by: Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Open a frame of verdicts with extra columns, the result of another analysis.

    ``made`` maps each extra column to its dtype. The frame must have ``columns`` and all extra
    columns.
    """
    require_columns(frame, [*columns, *made], what)
    settled = settle(frame, {**CONTRACTS["verdicts"].columns, **made}, f"{what}: {name}")
    return clustered_verdicts(settled, by, what, cases=cases)[0]


COEFFICIENTS = ("raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha")
FOUR = ("raw_agreement", "cohen_kappa", "false_passes", "false_fails")
# for each count, the verdict and the gold label of the items that it counts
_CONFUSION = {
    "true_pass_count": (1.0, 1.0),
    "false_pass_count": (1.0, 0.0),
    "false_fail_count": (0.0, 1.0),
    "true_fail_count": (0.0, 0.0),
}
_OF_SCORES = ("score_difference", "absolute_error", "pearson", "spearman", "concordance")
_RATES = ("sensitivity", "specificity", "precision", "f1")
_CEILINGS = tuple(f"ceiling_{name}" for name in COEFFICIENTS)
_ALL = (*dict.fromkeys((*FOUR, *COEFFICIENTS)), *_RATES, "failure_share", *_CONFUSION, *_CEILINGS)
# The units that `n` counts. For measures that are not listed here, it counts all labels.
_UNITS = {
    "false_passes": "gold fails",
    "specificity": "gold fails",
    "false_fails": "gold passes",
    "sensitivity": "gold passes",
    "precision": "labels of its passes",
    "f1": "labels that grader or gold passes",
    "failure_share": "gradings",
}
_SHARED_ERRORS = "gold is a majority: errors that the graders share look like truth"
_UNEQUAL_DRAW = "labels drawn with unequal probabilities: this speaks of the labelled items"
_FEW_LABELLERS = (
    "no ceiling: the gold frame names fewer than two labellers; frames.gold(store, labeller='all') "
    "holds every one"
)
_OTHER_ITEMS = (
    "no ceiling: {} of the {} with a verdict and gold have the labels of two labellers; compare on "
    "these items alone: give the gold of these"
)
_LACKING = ["n_missing", "worst_low", "worst_high"]
EXTRA = ["ceiling", "prevalence", "n_failed", "gold_drawn", *_LACKING]
# The worst cases of a coefficient are found by varying the number of passes among the missing
# verdicts. At most this many numbers are tried for gold passes, and as many for gold fails.
_TRIED = 101


def agreement(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | Literal["majority"] | None = None,
    *,
    quantities: str | Sequence[str] = (),
    by: By = ("grader",),
    value: GradedValue = "passed",
    bounds: Bounds = None,
    average: By = (),
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate how often each grader agrees with gold, or graders with each other.

    An item is a check of an attempt that has a verdict and a gold label. Items have equal weight,
    but the case is the unit of evidence. To compare graders use :func:`contrast`, to compare
    versions of one grader :func:`drift`.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with one version and one round per grader, unless ``by`` separates them.
    gold : pandas.DataFrame or "majority", optional
        A gold frame; ``"majority"``, the majority verdict of all other graders (for scores, their
        mean); or None, the agreement of graders, versions and rounds with each other. The reference
        for an item is the adjudicated label, otherwise the only label or the label on which all
        labellers agree. If labels of several of these kinds occur, the note states how many there
        are of each kind. Disputed items are left out and counted. The ceiling needs the labels of
        every labeller, as ``frames.gold(store, labeller="all")`` returns them.
    quantities : str or sequence of str
        Measures to estimate, as listed below; ``"confusion"`` means the four counts, ``"all"``
        every measure. By default, the first four of the list; without gold, the four coefficients.
    by : str or sequence of str, default ("grader",)
        Columns to group by, such as ``["grader", "skill"]``.
    value, bounds, average
        As in :func:`drift`.
    gold_drawn, drawn_by
        As in :func:`skillcomp.correction.delta`. With ``gold_drawn="verdict"`` all coefficients are
        weighted within strata of condition and verdict.
    cases : pandas.DataFrame, optional
        As in :func:`drift`.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Number of bootstrap resamples of cases and their seed, for the chance-corrected
        coefficients.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and measure, with the estimates columns. The default measures are:

        - ``raw_agreement``: share of the items on which verdict and gold agree;
        - ``cohen_kappa``: agreement beyond chance, at most 1;
        - ``false_passes``: share of the gold fails that the grader passes. ``n`` counts gold fails;
        - ``false_fails``: share of the gold passes that the grader fails. ``n`` counts gold passes.

        On request:

        - ``gwet_ac1`` and ``krippendorff_alpha``: other coefficients of agreement beyond chance;
        - ``sensitivity`` and ``specificity``: 1 minus the false fails, and 1 minus the false
          passes;
        - ``precision``: share of the grader's passes that gold passes. ``f1``: harmonic mean of
          precision and sensitivity;
        - ``true_pass_count``, ``false_pass_count``, ``false_fail_count``, ``true_fail_count``: the
          confusion matrix, as numbers of labelled items without an interval;
        - ``failure_share``: share of all gradings, with or without a label, that gave no verdict,
          because the reply was malformed or refused or there was an error;
        - ``ceiling_raw_agreement`` and so on: agreement between the labellers on the items with a
          verdict and a gold label; NaN with a note if any of these items has fewer than two
          labels. ``"all"`` leaves the ceilings out if there are fewer than two labellers.

        With ``value="score"``, the measures are those of a grader's scores against the scores of
        gold: ``score_difference`` (mean score of the grader minus that of gold) and
        ``absolute_error`` (mean distance between the two), in the unit of the scores; ``pearson``
        and ``spearman``, the correlations of the scores and of their ranks; ``concordance``, Lin's,
        which is 1 only if the scores are equal; and ``krippendorff_alpha`` for interval data. The
        other columns are then ``reference`` (``gold``), and ``rate`` and ``reference_rate``, the
        mean scores.

        Without gold, there is one row per measure and pair of graders: ``reference`` is the earlier
        of the two in sorted order. If there are more than two, rows with ``grader`` and
        ``reference`` NA have the agreement of all. A grader with several versions or rounds is
        several graders, named such as ``g1 round 2``. Scores have the measures above.

        Further columns: ``ceiling`` is the same coefficient between the labellers. ``prevalence``
        is the share of the items that pass by gold. ``n_failed`` counts labelled checks without a
        verdict, which are left out and do not count as FAIL. ``n_missing`` is the same count among
        the labels that the measure uses. ``worst_low`` and ``worst_high`` are the lowest and the
        highest value that these missing verdicts allow; they are NaN with
        ``gold_drawn="verdict"``. ``gold_drawn`` states how gold was drawn. ``n_for_half_width_20``
        and ``n_for_half_width_10`` are the ``n`` that would bring half of the width of the interval
        to 0.2 and 0.1 (see :func:`skillcomp.stats.units_needed`); the note states them where half
        of the width is above 0.2. An undefined measure is NaN with a note.

    Raises
    ------
    FrameError
        If a frame breaks its contract, several graders, versions, rounds or agents would be pooled,
        labellers differ on an item and no label is adjudicated, gold is a majority of fewer than
        two other graders, or there is neither gold nor a second grader.

    See Also
    --------
    contrast : Differences between graders, and their ranks.
    consistency : Agreement of a grader with itself in a second round.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    Intervals of rates and raw agreement are those of :func:`skillcomp.stats.bounded.bounded_mean`
    with cases as clusters. Intervals of the other coefficients are from a bootstrap of whole cases.
    If too few cases have an agreement or a disagreement for a bootstrap, the limits of the raw
    agreement are rescaled (see ``skillcomp.stats.agreement.bootstrap_agreement``).
    F1 is 2 J / (1 + J). Here J is the share of items that both the grader and gold pass, among
    the items that at least one of them passes; the limits of F1 follow from those of J. Kappa falls
    towards 0 if nearly all
    items pass, so report the raw agreement or AC1 with it. If labels were drawn with unequal
    probabilities, or if the labelled shares of passes and of fails differ too much for a random
    draw, the rates are those of the labelled items, and a note states this. If gold was drawn by
    verdict, rates have the interval of :func:`skillcomp.stats.intervals.weighted_rate`.

    The majority leaves out the grader under test, and every other grader has one vote. Ties are
    unknown and counted in the note. It assumes that graders err independently: shared errors look
    like truth, and a better grader than the majority looks worse than it is.

    Limits of correlations and concordance are those of
    :func:`skillcomp.stats.association`, with at least ten cases. Those of differences
    of scores are as in :func:`drift`.

    Adjudication resolves disputes, so agreement with adjudicated labels can exceed the agreement
    between labellers. For a fair comparison with the ceiling, compare the grader with each
    labeller: ``agreement(verdicts, gold[gold["labeller"] == name])``.

    References
    ----------
    Gwet 2008, doi:10.1348/000711006X126600; Hayes and Krippendorff 2007,
    doi:10.1080/19312450709336664; Lin 1989, doi:10.2307/2532051.

    Examples
    --------
    The grader passes 14 of 20 answers. Gold passes 12 of these 14 and none of the others.

    >>> import pandas as pd
    >>> cases = [f"s/{i}" for i in range(20)]
    >>> verdicts = pd.DataFrame({
    ...     "attempt_id": cases, "skill": "s", "case_id": cases, "condition": "skill",
    ...     "check_id": "c", "grader": "g", "passed": [True] * 14 + [False] * 6})
    >>> gold = pd.DataFrame({
    ...     "attempt_id": cases, "check_id": "c", "passed": [True] * 12 + [False] * 8})
    >>> agreement(verdicts, gold)[["measure", "estimate", "n"]].round(3)
             measure  estimate     n
    0  raw_agreement     0.900  20.0
    1    cohen_kappa     0.783  20.0
    2   false_passes     0.250   8.0
    3    false_fails     0.000  12.0
    """
    what, is_majority = "reliability.agreement", isinstance(gold, str)
    settings = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    how: Fields = {"value": value, "bounds": bounds, "average": average, "cases": cases, "by": by}
    if gold is None:
        how |= {"by": listed(by, *GRADER), "compared": GRADER, "graders": False}
    graded = graded_items(verdicts, gold, what, settings=[*settings.values()], **how)
    names, decided = graded.names, graded.rows
    check_draw(gold_drawn, drawn_by, decided["grader"], what)
    if gold_drawn == "verdict" and (gold is None or is_majority or value == "score"):
        needs = "needs a gold frame with verdicts"
        raise FrameError(f"{what}: {argument('gold_drawn', gold_drawn)} {needs}.")
    if gold is None or value == "score":
        usual = [*_OF_SCORES, "krippendorff_alpha"] if value == "score" else COEFFICIENTS
        measures = _measures_asked(quantities, what, usual, usual)
        rows = _rows_of_ratings(graded, gold, measures, value, settings)
        if not rows:
            raise FrameError(
                f"{what}: there is no {argument('gold')} and only one grader. Give gold, or the "
                "verdicts of a second grader or round."
            )
        added = ["grader", "reference"] if gold is None else ["reference"]
        return graded.estimates(rows, LEVELS, by=added)
    measures = _measures_asked(quantities, what, _ALL, FOUR)
    every = empty("gold") if isinstance(gold, str) else check(gold, "gold")
    single = every[every["labeller"].notna() & ~every["labeller"].isin(SETTLED)]
    single = single.astype({"passed": "float64"})
    raters = single.pivot(index=ITEM, columns="labeller", values="passed")
    keys = listed([*names, "condition"])
    shares = one_draw(labelled_shares(decided, keys), keys)
    if gold_drawn == "verdict":
        condition = "'" + decided["condition"].fillna("") + "': "
        decided["stratum"] = condition + drawn_strata(decided, drawn_by)
    refuted = refuted_draw(decided, keys, drawn_by)
    rows = []
    for values, part in groups(decided, names):
        items = part.dropna(subset="settled_by")
        # A label without a verdict has no skill or condition, so it is counted only if ``by`` has
        # no columns except those of the grader.
        lost = graded.labels["gold"].count() - items["gold"].count()
        lost = lost if set(names) <= set(GRADER) and not is_majority else 0
        remark = f"{plural(lost, 'gold label')} without a verdict of this grader" if lost else ""
        about_labels = [remark, labellers_said(items["settled_by"], items["gold"])]
        if is_majority:
            about_labels.append(_SHARED_ERRORS)
        elif gold_drawn == "verdict":
            # by the weight of an item, the labelled items represent their whole stratum
            labelled = part["gold"].notna() & part["verdict"].notna()
            strata = part.assign(_has=labelled).groupby("stratum", sort=False)["_has"]
            n_labelled = strata.transform("sum")
            items["weight"] = strata.transform("size") / n_labelled.where(n_labelled > 0)
            about_labels.append(refuted)
        elif items["inclusion_probability"].nunique() > 1:
            about_labels.append(_UNEQUAL_DRAW)
        else:
            of_condition: Any = rows_of_group(shares, values).set_index("condition")
            about_labels.append(unequal_shares(of_condition.to_dict("index")))
        about = _gold_columns(items) | {"gold_drawn": draw_words(gold_drawn, drawn_by)} | values
        intervals = _all_measures(part, items, measures, raters, settings)
        missing = _missing_verdicts(items)
        for name in measures:
            if raters.shape[1] < 2 and name in _CEILINGS and name not in as_list(quantities):
                continue
            interval = intervals[name]
            worst, left_out = missing.get(name, ((0, NAN, NAN), ""))
            notes = [*about_labels, left_out] if name in missing else []
            units = "labels" if gold_drawn == "verdict" else _UNITS.get(name, "labels")
            coefficient = UNITS.get(name) == "coefficient"
            notes.append(note_on_width(interval, units, coefficient=coefficient))
            columns = dict(zip(_LACKING, worst, strict=True)) | needed_columns(interval)
            ceiling = intervals.get(f"ceiling_{name}", undefined("", "")).estimate
            interval = interval.with_note(*notes)
            rows.append(row(name, interval, ceiling=ceiling, **about, **columns))
    return graded.estimates(rows, [*EXTRA, *NEEDED])


def default_grader(
    verdicts: pd.DataFrame, gold: pd.DataFrame | None = None, *, grader: str | None = None
) -> str:
    """Choose the grader that the results of a study are based on.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame, such as the result of :func:`skillcomp.frames.grader_versions`.
    gold : pandas.DataFrame, optional
        A gold frame.
    grader : str, optional
        The grader that you want; the version in its name may be left out.

    Returns
    -------
    str
        `grader`; without it, the grader that agrees best with gold or, without gold or in a tie,
        the first by name.

    Raises
    ------
    StudyError
        If the study has no verdicts, or none of this grader; the message lists the graders.

    See Also
    --------
    skillcomp.frames.first_grader : The grader with which other graders are compared.
    """
    names = names_of_graders(verdicts)
    if grader is not None:
        return grader_named(grader, names)
    if len(names) == 1 or gold is None or gold.empty:
        return names[0]
    # only the estimates are read, so it does not matter which cases of several skills are one task
    verdicts = verdicts.assign(task=verdicts["case_id"])
    try:
        rows = agreement(
            verdicts,
            gold,
            by=["grader", "grader_version"],
            quantities="raw_agreement",
            average=["agent"],
            n_resamples=1,
        )
    except SkillcompError:  # the labels are unusable; an analysis of them gives the reason
        return names[0]
    rows = rows.dropna(subset="estimate")
    best = rows[rows["estimate"].eq(rows["estimate"].max())]
    return str(best["grader"].min()) if len(best) else names[0]


def _rows_of_ratings(
    graded: Graded,
    gold: object,
    measures: Sequence[str],
    value: GradedValue,
    settings: Fields,
) -> list[Fields]:
    """Compare scores with those of gold or, without gold, all pairs of graders and all together."""
    rows = []
    for values, part in groups(graded.rows, graded.names):
        both, notes = part.set_index("cluster")[["verdict", "gold"]], []
        compared: list[tuple[Any, Fields]] = [(both, {"reference": "gold"})]
        if gold is None:
            code, first = group_codes(part, GRADER)
            wide = part.assign(_code=code).pivot(
                index=["_item", "cluster"], columns="_code", values="verdict"
            )
            wide = wide.set_axis(grader_names(part[list(GRADER)].take(first)), axis=1)
            wide = wide.sort_index(axis=1).droplevel("_item")
            compared = [
                (wide[[new, old]], {"grader": new, "reference": old})
                for old, new in combinations(wide, 2)
            ]
            compared += [(wide, {})] if len(wide.columns) > 2 else []
        else:
            labelled = part.dropna(subset="settled_by")
            notes = [labellers_said(labelled["settled_by"], labelled["gold"])]
            notes += [_SHARED_ERRORS] if isinstance(gold, str) else []
        for ratings, about in compared:
            known = ratings.dropna(thresh=2)
            n_lacking = ratings.dropna(how="all").isna().any(axis=1).sum()
            lacking = f"{plural(n_lacking, 'item')} without a value of each" if n_lacking else ""
            intervals = _of_ratings(known, value, settings)
            for name in [name for name in measures if name in intervals]:
                line = row(name, intervals[name].with_note(*notes, lacking), **values, **about)
                if name == "score_difference":
                    line |= dict(zip(LEVELS, known.mean(), strict=True))
                rows.append(line)
    return rows


def _of_ratings(known: pd.DataFrame, value: GradedValue, settings: Fields) -> Intervals:
    """Estimate the agreement of ratings; some measures only if there are two columns."""
    ratings, cluster, level = known.to_numpy(float), known.index, settings["ci_level"]
    if value == "passed":
        return coefficients(ratings, cluster, **settings)
    if known.empty:
        names = (*_OF_SCORES, "krippendorff_alpha")
        return {name: undefined("", "no item has both scores", level, 0.0) for name in names}
    name = "interval krippendorff_alpha"
    alpha = bootstrap_agreement(ratings, name, clusters=cluster, **settings)
    intervals = {"krippendorff_alpha": alpha}
    if ratings.shape[1] == 2:
        new, old = ratings.T
        table = pd.DataFrame({"new": new, "old": old, "cluster": cluster})
        (intervals["score_difference"],) = changes_over_items([table], ci_level=level)
        intervals["absolute_error"] = bounded_mean(np.abs(new - old), cluster, ci_level=level)
        intervals |= correlations(new, old, pd.factorize(cluster)[0], level)
    return intervals


def _measures_asked(
    quantities: str | Sequence[str], what: str, allowed: Sequence[str], usual: Sequence[str]
) -> list[str]:
    """Return the measures to estimate; raise FrameError if a name is unknown."""
    names: list[str] = []
    several: Fields = {"all": allowed}
    if allowed is _ALL:
        several["confusion"] = _CONFUSION
    for name in as_list(quantities) or usual:
        require_known(f"{what}: quantities: found", name, (*allowed, *several))
        names += several.get(name, [name])
    return listed(names)


def _all_measures(
    part: pd.DataFrame,
    items: pd.DataFrame,
    measures: Sequence[str],
    raters: pd.DataFrame,
    settings: Fields,
) -> Intervals:
    """Estimate the measures of one group and its ``items`` with gold, which may have weights."""
    both = items.dropna(subset=["gold", "verdict"])
    names = [n for n in COEFFICIENTS if n in measures or f"ceiling_{n}" in measures]
    units = part.dropna(subset="stratum") if "weight" in items else items
    intervals = _against_gold(items, units, names, settings)
    intervals["failure_share"] = failure_share(part, settings["ci_level"])
    for name, (verdict, label) in _CONFUSION.items():
        count = (both["verdict"].eq(verdict) & both["gold"].eq(label)).sum()
        about = settings["ci_level"], "", "a count of labelled items", len(both)
        intervals[name] = Interval(count, NAN, NAN, *about)
    ceiling = _labeller_agreement(both, names, raters, settings)
    return intervals | {f"ceiling_{name}": interval for name, interval in ceiling.items()}


def _missing_verdicts(
    items: pd.DataFrame,
) -> dict[str, tuple[tuple[int, float, float], str]]:
    """Return, by measure, the number of missing verdicts, the worst-case bounds, and a note."""
    verdict, gold = items[["verdict", "gold"]].to_numpy(float).T
    extremes = _extreme_values(verdict, gold)
    missing = {}
    labels = {"sensitivity": 1.0, "false_fails": 1.0, "specificity": 0.0, "false_passes": 0.0}
    for name, worst in extremes.items():
        lacking = (gold == labels.get(name, gold)) & np.isnan(verdict)
        n = lacking.sum()
        low, high = (NAN, NAN) if "weight" in items else worst
        notes = [f"{plural(n, 'label')} without a verdict left out"]
        notes = [] if name in labels else notes
        notes.append(f"verdicts missing: {missing_reasons(items['status'][lacking])}")
        ends = "" if np.isnan(low) else f"in the worst case it is {low:.2f} or {high:.2f}"
        missing[name] = ((n, low, high), join_notes(*notes, ends) if n else "")
    return missing


def _extreme_values(verdict: Floats, gold: Floats) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value of each measure that the missing verdicts allow.

    The number of passes among the missing verdicts is varied, for gold passes and for gold fails.
    Up to ``_TRIED`` numbers are tried for each of the two, in all combinations.
    """
    passes, fails, missing = (
        np.array([np.sum(mask & (gold == label)) for label in (1.0, 0.0)], dtype=float)
        for mask in (verdict == 1.0, verdict == 0.0, np.isnan(verdict))
    )
    tried = [np.unique(np.linspace(0, n, _TRIED).round()) for n in missing]
    more_right, more_wrong = np.meshgrid(*tried)
    total = np.isfinite(gold).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        both = passes[0] + more_right
        neither = fails[1] + missing[1] - more_wrong
        passed = (both + passes[1] + more_wrong) / total
        gold_passed = (passes + fails + missing)[0] / total
        agreed = (both + neither) / total
        mean = (passed + gold_passed) / 2.0
        ac1 = 2.0 * mean * (1.0 - mean)
        by_chance = {
            "gwet_ac1": ac1,
            "cohen_kappa": passed * gold_passed + (1.0 - passed) * (1.0 - gold_passed),
            "krippendorff_alpha": 1.0 - ac1 * 2.0 * total / (2.0 * total - 1.0),
        }
        values = {
            "raw_agreement": agreed,
            **{name: 1.0 - (1.0 - agreed) / (1.0 - p) for name, p in by_chance.items()},
            "sensitivity": both / (gold_passed * total),
            "specificity": neither / (total - gold_passed * total),
            "precision": both / (passed * total),
            "f1": 2.0 * both / ((passed + gold_passed) * total),
        }
        values["false_fails"] = 1.0 - values["sensitivity"]
        values["false_passes"] = 1.0 - values["specificity"]
    defined = {name: value[np.isfinite(value)] for name, value in values.items()}
    return {
        name: (value.min(), value.max()) if value.size else (NAN, NAN)
        for name, value in defined.items()
    }


def _f1(jaccard: Interval) -> Interval:
    """Compute F1 from the Jaccard index.

    The index is the share of items that grader and gold both pass, among
    the items that at least one of them passes.
    """
    return replace(jaccard.mapped(lambda share: 2 * share / (1 + share)), se=NAN)


def _gold_columns(items: pd.DataFrame) -> Fields:
    labelled = items.dropna(subset="gold")
    weights = labelled.get("weight", pd.Series(1.0, labelled.index)).fillna(1.0)
    share = np.average(labelled["gold"], weights=weights) if len(labelled) else NAN
    return {"prevalence": share, "n_failed": labelled["verdict"].isna().sum()}


def _against_gold(
    items: pd.DataFrame, units: pd.DataFrame, names: Sequence[str], settings: Fields
) -> Intervals:
    """Estimate coefficients and rates; the rates are weighted if the ``units`` have strata.

    All are then NaN if a stratum has no gold.
    """
    level, ratings = settings["ci_level"], items[["verdict", "gold"]].to_numpy(float)
    intervals = coefficients(
        ratings, items["cluster"], names, weights=items.get("weight"), **settings
    )
    verdict, gold = units[["verdict", "gold"]].to_numpy(float).T
    clusters, strata = units["cluster"], units.get("stratum") if "weight" in items else None
    seen, has = np.isfinite(verdict), np.isfinite(gold)

    def right(among: Any, why: str = "") -> Interval:
        if strata is not None:
            values, counted = (np.where(has, x, NAN) for x in (verdict == gold, seen & among))
            how: Fields = {"counted": counted, "clusters": clusters, "ci_level": level}
            return weighted_rate(values, strata, **how)
        used = among & seen & has
        share = bounded_mean((verdict == gold)[used], clusters[used], ci_level=level)
        return share if used.any() else undefined("", why, level, 0.0)

    ((sensitivity, specificity),) = rates_against_gold(
        [(verdict, gold, clusters, None, strata)], level
    )
    intervals |= {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "false_fails": sensitivity.complement,
        "false_passes": specificity.complement,
        "precision": right(verdict == 1.0, "the grader passes no labelled item"),
        "f1": _f1(right((verdict == 1.0) | (gold == 1.0), "nobody passes a labelled item")),
    }
    if strata is not None:
        intervals["raw_agreement"] = raw = right(True)
        if NO_GOLD in raw.note:
            note = f"{raw.note}: {NAME_DRAWN_BY}"
            return {n: undefined(n, note, level, i.n) for n, i in intervals.items()}
    return intervals


def coefficients(
    ratings: Floats,
    clusters: Any,
    names: Sequence[str] = COEFFICIENTS,
    *,
    weights: Any = None,
    **settings: Any,
) -> Intervals:
    """Estimate coefficients of agreement between ratings; NaN with a note if undefined.

    ``settings`` are the level, the number of resamples and the seed.
    """
    both = np.isfinite(ratings).sum(axis=1) >= 2
    ratings, clusters = ratings[both], np.asarray(clusters)[both]
    settings["weights"] = None if weights is None else np.asarray(weights)[both]
    intervals = {}
    for name in names:
        note = "" if len(ratings) else "no item has both ratings"
        if not note and name == "cohen_kappa" and ratings.shape[1] > 2:
            note = "kappa compares two raters; use krippendorff_alpha"
        intervals[name] = undefined(name, note, settings["ci_level"], len(ratings))
        if not note:
            intervals[name] = bootstrap_agreement(
                ratings, name, clusters=clusters, n_categories=2, **settings
            )
    return intervals


def _labeller_agreement(
    items: pd.DataFrame,
    names: Sequence[str],
    raters: pd.DataFrame,
    settings: Fields,
) -> Intervals:
    """Estimate the agreement between labellers; NaN if an item has fewer than two labels."""
    ratings = raters.reindex(pd.MultiIndex.from_frame(items[ITEM])).to_numpy(float)
    n_both = (np.isfinite(ratings).sum(axis=1) >= 2).sum()
    note = _FEW_LABELLERS if raters.shape[1] < 2 else ""
    if not note and n_both < len(items):
        note = _OTHER_ITEMS.format(n_both, plural(len(items), "item"))
    if note:
        return {name: undefined(name, note, settings["ci_level"], 0.0) for name in names}
    intervals = coefficients(
        ratings, items["cluster"], names, weights=items.get("weight"), **settings
    )
    who = " and ".join(map(str, raters.columns))
    return {
        name: interval.with_note(first=f"between {who}") for name, interval in intervals.items()
    }


def failure_share(part: pd.DataFrame, ci_level: float) -> Interval:
    """Estimate the share of gradings without a verdict; the note lists the kinds of failure."""
    failed = part["verdict"].isna()
    share = bounded_mean(failed, part["cluster"], ci_level=ci_level)
    return share.with_note(first=missing_reasons(part.loc[failed, "status"]))


_NO_RETEST = "nothing was graded twice in the rounds that were read"
_NO_PAIR = "no item has verdicts in two rounds"
_NO_ATTEMPT = "no attempt has the same checks decided in all rounds"
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")
_FACTS = [*CASE, "cluster"]


def consistency(
    verdicts: pd.DataFrame,
    *,
    by: By = ("grader",),
    average: By = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate how consistently one grader version grades the same answers in several rounds.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with all rounds, as ``frames.verdicts(store, round="all")`` returns it.
    by : str or sequence of str, default ("grader",)
        Columns to group by, such as ``["grader", "agent"]``; not ``round``, because rounds are
        compared.
    average, cases
        As in :func:`drift`.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Number of bootstrap resamples of cases and their seed, for the chance-corrected
        coefficients.

    Returns
    -------
    pandas.DataFrame
        Several rows per ``by``, with the estimates columns. An item is a check of an attempt; only
        items with verdicts in two or more rounds count. The measures are:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa`` (only for two rounds) and
          ``krippendorff_alpha``: agreement between rounds;
        - ``flip_rate``: share of items with different verdicts in different rounds;
        - ``case_flip_rate``: the flip rate within each case, averaged over cases;
        - ``attempt_flip_rate``: share of attempts that pass (every check passed) in one round but
          not in another; only attempts with a verdict on every check in every round count;
        - ``pass_rate_change``: pass rate of the last round minus that of the first.

        ``n_rounds`` is the number of rounds. ``n_missing`` counts the items that have rows in two
        or more rounds, but in at least one of them no verdict (malformed, refused or an error). For
        ``attempt_flip_rate``, it counts the attempts of which every check has a row in every round,
        but at least one row has no verdict. ``worst_low`` and ``worst_high`` are the lowest and the
        highest value that these missing verdicts allow; they are NaN for the three chance-corrected
        coefficients. The note counts the items that were left out, with reasons. Estimates are NaN
        with a note if nothing was graded twice.

    Raises
    ------
    FrameError
        If the frame breaks its contract, graders, versions or agents would be pooled, or ``by``
        names ``round``.

    Notes
    -----
    Flip rates, raw agreement and the change have the interval of
    :func:`skillcomp.stats.bounded.bounded_mean` with cases as clusters. A consistent grader can
    still be wrong: see :func:`agreement`. The note counts the items that were graded in only one
    round; ``worst_low`` and ``worst_high`` do not allow for them.
    """
    graded = graded_items(
        verdicts,
        None,
        "reliability.consistency",
        by=by,
        settings=(ci_level, n_resamples, seed),
        average=average,
        cases=cases,
        compared=["round"],
    )
    decided = graded.rows.assign(round=graded.rows["round"].fillna(1))
    n_rounds = grouped(decided, [*graded.names, *ITEM])["round"].transform("size")
    rows = []
    for values, part in groups(decided.assign(again=n_rounds.ge(2)), graded.names):
        index = ["cluster", *CASE, *ITEM]
        wide = part.pivot(index=index, columns="round", values="verdict")
        both = wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")
        clusters = both.index.get_level_values("cluster")
        measures = coefficients(
            both.to_numpy(float), clusters, ci_level=ci_level, n_resamples=n_resamples, seed=seed
        )
        means = _means_of_changes(part[part["again"]], ci_level)
        notes = _left_out(part, means["flip_rate"])
        measures |= {name: means[name].interval for name in _MEASURES}
        for name, interval in measures.items():
            if not len(both):
                note = _NO_PAIR if part["again"].any() else _NO_RETEST
                interval = replace(interval, method=name, note=note)
            elif not interval.n:
                interval = undefined("bounded mean", _NO_ATTEMPT, ci_level, 0.0)
            n_missing = means[name if name == "attempt_flip_rate" else "flip_rate"].missing[0]
            worst = means[name].worst if name in means else [NAN, NAN]
            ends = f"in the worst case it is {worst[0]:.2f} or {worst[1]:.2f}"
            ends = ends if n_missing and not np.isnan(worst).any() else ""
            interval = interval.with_note(*notes, ends)
            about = dict(zip(_LACKING, (n_missing, *worst), strict=True))
            rows.append(row(name, interval, **values, **about, n_rounds=both.shape[1]))
    return graded.estimates(rows, ["n_rounds", *_LACKING])


def _left_out(part: pd.DataFrame, flips: Estimate) -> list[str]:
    """Return notes on the items that are left out or lack verdicts, with reasons."""
    again, n_left, n_lacking = part["again"], flips.n_dropped, flips.missing[0]
    reasons = missing_reasons(part.loc[again & part["verdict"].isna(), "status"])
    n_once = (~again).sum()
    counts = {
        f"{plural(n_left, 'item')} left out, without verdicts in two rounds": n_left,
        f"{plural(n_lacking - n_left, 'item')} without a verdict in some round": n_lacking > n_left,
        f"verdicts missing: {reasons}": n_lacking,
        f"{plural(n_once, 'item')} graded in one round only": n_once,
    }
    return [note for note, count in counts.items() if count and again.any()]


def _means_of_changes(again: pd.DataFrame, ci_level: float) -> dict[str, Estimate]:
    """Estimate the measures of changes between rounds, with the bounds of missing verdicts.

    ``raw_agreement`` has only bounds. The rows in ``again`` are verdicts on items that were graded
    in several rounds.
    """
    again = again.assign(
        _low=again["verdict"].fillna(0.0),
        _high=again["verdict"].fillna(1.0),
        is_open=again["verdict"].isna(),
    ).sort_values("round")
    items = _flips(again, ITEM)
    n, n_passed, n_known = items["n_rounds"], items["n_passed"], items["n_known"]
    # Most pairs of rounds agree if missing verdicts join the more frequent verdict of the item, and
    # the fewest agree if passes and fails are as equal in number as possible.
    most = n - n_known + n_passed
    counts = {"_low": (n // 2).clip(n_passed, most)}
    counts["_high"] = most.where(2 * n_passed >= n_known, n_passed)
    pairs = {k: (m * (m - 1) + (n - m) * (n - m - 1)) / (n * (n - 1)) for k, m in counts.items()}
    ends = []
    for end in ("first", "last"):
        values = (
            grouped(again, [*ITEM, *_FACTS])[["verdict", "_low", "_high"]].agg(end).reset_index()
        )
        level = values["verdict"].where(n_known >= 2)
        ends.append(values.assign(end=end, _level=level, _size=1, _n=1))
    attempts = _flips(_outcomes_of_rounds(again), ["attempt_id"]).drop(columns="_level")
    known = again.dropna(subset="verdict")
    known = known[grouped(known, ITEM)["round"].transform("size") >= 2]
    decided = _flips(_outcomes_of_rounds(known), ["attempt_id"])
    attempts = attempts.merge(decided[["attempt_id", *_FACTS, "_level"]], how="outer")

    def mean(
        table: pd.DataFrame, unit: list[str], arm: Sequence[str] = (), average: Sequence[str] = ()
    ) -> Estimate:
        if table.empty:
            return Estimate(undefined("", "", ci_level, 0.0), [], 0, [0], [NAN, NAN])
        units = Units.of(table, [], arm=arm, unit=unit, average=average, value="level")
        weights = {("last",): 1.0, ("first",): -1.0} if arm else {(): 1.0}
        return within(
            units, [Contrast({}, 0, weights)], ci_level=ci_level, interval="bounded", notes=False
        )[0]

    return {
        "flip_rate": mean(items, ITEM),
        "case_flip_rate": mean(items, CASE, average=ITEM),
        "attempt_flip_rate": mean(attempts, ["attempt_id"]),
        "pass_rate_change": mean(pd.concat(ends), ITEM, ["end"]),
        "raw_agreement": mean(items.assign(**pairs), ITEM),
    }


def _flips(rows: pd.DataFrame, unit: list[str]) -> pd.DataFrame:
    """Return one row per unit: whether its verdict changes, and the bounds of this."""
    units = grouped(rows, [*unit, *_FACTS])
    table: pd.DataFrame = (
        units["verdict"].agg(n_rounds="size", n_known="count", n_passed="sum").reset_index()
    )
    changes = table["n_passed"].between(0, table["n_known"], inclusive="neither")
    return table.assign(
        _level=changes.astype(float).where(table["n_known"] >= 2),
        _low=changes,
        _high=changes | (table["n_known"] < table["n_rounds"]),
        _size=1,
        _n=~units["is_open"].any().to_numpy(),
    )


def _outcomes_of_rounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return whether each attempt passed in each round, NaN if a missing verdict decides it.

    Only attempts of which every check has a row in every round count.
    """
    whole = grouped(rows, ITEM)["round"].transform("size").eq(rows["round"].nunique())
    rows = rows[whole.groupby(rows["attempt_id"]).transform("all")]
    outcomes = grouped(rows, ["attempt_id", *_FACTS, "round"])
    lowest: pd.DataFrame = outcomes["verdict"].min().reset_index()
    is_open = outcomes["is_open"].any().to_numpy()
    verdict = lowest["verdict"].where(lowest["verdict"].eq(0) | ~is_open)
    return lowest.assign(verdict=verdict, is_open=is_open)


def round_flips(verdicts: pd.DataFrame, *, cases: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return how often the rounds of each grader disagree, for graders with several rounds.

    The rows are those of :func:`consistency` with the measures ``flip_rate`` and
    ``attempt_flip_rate``. Every grader version has one row for each measure; agents are pooled.
    """
    version = [verdicts["grader"], verdicts["grader_version"]]
    n_rounds = verdicts["round"].fillna(1).groupby(version, dropna=False).transform("nunique")
    # no resampling, because only the chance-corrected coefficients need it
    rows = consistency(
        verdicts[n_rounds.gt(1)],
        by=["grader", "grader_version"],
        average=["agent"] if "agent" in verdicts else [],
        cases=cases,
        n_resamples=1,
    )
    return rows[rows["measure"].isin(["flip_rate", "attempt_flip_rate"])].reset_index(drop=True)
