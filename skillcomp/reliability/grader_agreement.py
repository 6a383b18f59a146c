"""Agreement of a grader with gold labels, compared with the agreement between labellers."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import plural
from skillcomp.frames.case_table import cluster_readings
from skillcomp.frames.check import check
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    covering,
    estimates,
    groups,
    listed,
    row,
    rows_of_group,
)
from skillcomp.frames.reference_labels import (
    ADJUDICATED,
    ITEM,
    NAME_DRAWN_BY,
    SETTLED,
    Drawn,
    check_draw,
    clustered_verdicts,
    draw_words,
    drawn_strata,
    join_gold,
    labelled_shares,
    labellers_said,
    missing_reasons,
    one_draw,
    reference_labels,
    refuted_draw,
    unequal_shares,
)
from skillcomp.stats.agreement import bootstrap_agreement, krippendorff_alpha
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.grader_errors import rates_against_gold, sensitivity, specificity
from skillcomp.stats.intervals import NO_GOLD, weighted_rate
from skillcomp.stats.results import Interval, join_notes, undefined

Floats = NDArray[np.float64]

COEFFICIENTS = ("raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha")
_UNEQUAL_DRAW = "labels drawn with unequal probabilities: this speaks of the labelled items"
_FEW_LABELLERS = (
    "no ceiling: the gold frame holds {}; frames.gold(store, labeller='all') holds every one"
)
_OTHER_ITEMS = (
    "no ceiling: {} of the {} with a verdict and gold have the labels of two labellers; compare on "
    "these items alone: give the gold of these"
)
EXTRA = ["ceiling", "prevalence", "n_failed", "gold_drawn", "n_missing", "worst_low", "worst_high"]
# number of values tried for each kind of missing verdicts, to find the extremes of a coefficient
_TRIED = 101


def agreement(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = ("grader",),
    average: By = (),
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate the agreement of each grader with gold, and of the labellers with each other.

    An item is a check of an attempt that has a verdict and a gold label. Items have equal weight,
    but the case is the unit of evidence. To compare two versions of a grader use :func:`drift`.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with one version and one round per grader, unless ``by`` separates them.
    gold : pandas.DataFrame
        A gold frame. The reference for an item is the adjudicated label, otherwise the only label
        or the label on which all labellers agree. If labels of several of these kinds occur, the
        note states the number of each kind, and that of disputed items, which are left out. The
        ceiling needs the labels of every labeller, as ``frames.gold(store, labeller="all")``
        returns them.
    by : str or sequence of str, default ("grader",)
        Columns to group by, such as ``["grader", "skill"]``.
    average
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
        Several rows per ``by``, with the estimates columns. The measures are:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa`` and ``krippendorff_alpha``: agreement of
          grader and gold, at most 1. ``n`` counts items;
        - ``sensitivity``: share of the gold passes that the grader passes;
        - ``specificity``: share of the gold fails that the grader fails;
        - ``failure_share``: share of all gradings, with or without a label, that gave no verdict,
          because the reply was malformed or refused or there was an error;
        - ``ceiling_raw_agreement`` and so on: agreement between the labellers on the same items,
          those with a verdict and a gold label; NaN with a note if one of them has fewer than two
          labels.

        Further columns: ``ceiling`` is the same coefficient between the labellers. ``prevalence``
        is the share of the items that pass by gold. ``n_failed`` counts labelled checks without a
        verdict, which are left out and do not count as FAIL. ``gold_drawn`` tells in words how gold
        was drawn. ``n_missing`` counts the labels of the measure that have a grading without a
        verdict. ``worst_low`` and ``worst_high`` are the lowest and the highest value that these
        missing verdicts allow; they are NaN with ``gold_drawn="verdict"``. An undefined coefficient
        is NaN with a note.

    Raises
    ------
    FrameError
        If a frame breaks its contract, several graders, versions, rounds or agents would be pooled,
        or labellers differ on an item and no label is adjudicated.

    See Also
    --------
    consistency : Agreement of a grader with itself in a second round.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    Intervals of rates and raw agreement are those of :func:`skillcomp.stats.bounded.bounded_mean`
    with cases as clusters. Intervals of the other coefficients are from a bootstrap of whole cases
    or, if the bootstrap can collapse, from rescaling the limits of the raw agreement. Kappa falls
    towards 0 if nearly all items pass, so report raw agreement and AC1 with it. If labels were
    drawn with unequal probabilities, or at shares of passes and fails that no random draw gives,
    the rates are those of the labelled items, with a note. If gold was drawn by verdict, rates have
    the interval of :func:`skillcomp.stats.weighted_rate`.
    Adjudication resolves disputes, so agreement with adjudicated labels may exceed the agreement
    between labellers. For a fair comparison with the ceiling, compare the grader with each
    labeller: ``agreement(verdicts, gold[gold["labeller"] == name])``.

    References
    ----------
    Gwet 2008, doi:10.1348/000711006X126600; Hayes and Krippendorff 2007,
    doi:10.1080/19312450709336664.

    Examples
    --------
    >>> import pandas as pd
    >>> cases = [f"s/{i}" for i in range(20)]
    >>> verdicts = pd.DataFrame({
    ...     "attempt_id": cases, "skill": "s", "case_id": cases, "condition": "skill",
    ...     "check_id": "c", "grader": "g", "passed": [True] * 14 + [False] * 6})
    >>> gold = pd.DataFrame({
    ...     "attempt_id": cases, "check_id": "c", "passed": [True] * 12 + [False] * 8})
    >>> found = agreement(verdicts, gold).set_index("measure")["estimate"]
    >>> found[["raw_agreement", "sensitivity", "specificity"]].tolist()
    [0.9, 1.0, 0.75]
    """
    check_settings("reliability.agreement", ci_level, n_resamples, seed)
    names, what = listed(by), "reliability.agreement"
    checked, together = clustered_verdicts(verdicts, names, what, cases=cases, average=average)
    check_draw(gold_drawn, drawn_by, checked["grader"], what)
    labels, raters = reference_labels(gold, "reliability"), _labels_by_labeller(gold)
    decided = join_gold(checked, labels)
    if gold_drawn == "verdict":
        condition = "'" + decided["condition"].fillna("") + "': "
        decided["stratum"] = condition + drawn_strata(decided, drawn_by)
    keys = list(dict.fromkeys([*names, "condition"]))
    shares = one_draw(labelled_shares(decided, keys), keys)
    refuted = ""
    if gold_drawn == "verdict":
        refuted = refuted_draw(decided, keys, drawn_by)
    rows: list[dict[str, Any]] = []
    settings = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    for values, part in groups(decided, names):
        items = part[part["settled_by"].notna()]
        about_labels = _label_notes(items, labels, names)
        if gold_drawn == "verdict":
            items = items.assign(**_gold_weights(part))
            about_labels.append(refuted)
        else:
            about_labels.append(_note_on_draw(rows_of_group(shares, values), items))
        about = _gold_columns(items) | {"gold_drawn": draw_words(gold_drawn, drawn_by)} | values
        why, weights = _why_no_ceiling(gold, raters), items.get("weight")
        readings = [
            _all_measures(part.assign(cluster=clusters), weights, raters, why, settings)
            for clusters in cluster_readings(part)
        ]
        missing = _missing_verdicts(items, weighted=weights is not None)
        for name in readings[0]:
            interval = reduce(covering, [measures[name] for measures in readings])
            bounds, left_out = missing.get(name, ((0, np.nan, np.nan), ""))
            notes = [*about_labels, left_out] if name in missing else []
            interval = replace(interval, note=join_notes(interval.note, *notes, together))
            own = readings[0].get(f"ceiling_{name}")
            columns = dict(zip(EXTRA[-3:], bounds, strict=True))
            columns["ceiling"] = np.nan if own is None else own.estimate
            rows.append(row(name, interval, **about, **columns))
    return estimates(rows, by=names, extra=EXTRA)


def _label_notes(items: pd.DataFrame, labels: pd.DataFrame, names: list[str]) -> list[str]:
    """Return notes on labels without a verdict of the grader, and on how labels were settled."""
    # A label without a verdict has no skill or condition, so it can be counted only if the groups
    # are graders.
    whole = set(names) <= set(GRADER)
    lost = int(labels["gold"].notna().sum() - items["gold"].notna().sum()) if whole else 0
    remark = f"{plural(lost, 'gold label')} without a verdict of this grader" if lost else ""
    return [remark, labellers_said(items["settled_by"], items["gold"])]


def _all_measures(
    part: pd.DataFrame, weights: Any, raters: pd.DataFrame, lone: str, settings: dict[str, Any]
) -> dict[str, Interval]:
    """Estimate all measures of one group; ``weights`` are those of its items with gold, if any."""
    items = part[part["settled_by"].notna()]
    if weights is not None:
        items = items.assign(weight=weights)
    both = items[items["gold"].notna() & items["verdict"].notna()]
    measures = _against_gold(items, settings)
    if weights is not None:
        units = part[part["stratum"].notna()]
        measures = _with_strata(measures, units, settings["ci_level"])
    measures["failure_share"] = failure_share(part, settings["ci_level"])
    ceiling = _labeller_agreement(both, raters, lone, settings)
    return measures | {f"ceiling_{name}": interval for name, interval in ceiling.items()}


def _missing_verdicts(
    items: pd.DataFrame, *, weighted: bool
) -> dict[str, tuple[tuple[int, float, float], str]]:
    """Return, by measure, the number of labels without a verdict, the extremes, and a note."""
    verdict, gold = (items[name].to_numpy(dtype=float) for name in ("verdict", "gold"))
    extremes = _extreme_values(verdict, gold)
    missing = {}
    for name, worst in extremes.items():
        counted = gold == {"sensitivity": 1.0, "specificity": 0.0}.get(name, gold)
        lacking = counted & np.isnan(verdict)
        n = int(lacking.sum())
        low, high = (np.nan, np.nan) if weighted else worst
        notes = [f"{plural(n, 'label')} without a verdict left out"]
        notes = [] if name in ("sensitivity", "specificity") else notes
        notes.append(f"verdicts missing: {missing_reasons(items['status'][lacking])}")
        ends = "" if np.isnan(low) else f"in the worst case it is {low:.2f} or {high:.2f}"
        missing[name] = ((n, low, high), join_notes(*notes, ends) if n else "")
    return missing


def _extreme_values(verdict: Floats, gold: Floats) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value of each measure over all values of missing verdicts.

    The coefficients are computed for up to ``_TRIED`` numbers of passes among the missing verdicts
    on gold passes, and as many on gold fails.
    """
    passes, fails, missing = (
        np.array([np.sum(mask & (gold == label)) for label in (1.0, 0.0)], dtype=float)
        for mask in (verdict == 1.0, verdict == 0.0, np.isnan(verdict))
    )
    tried = [np.unique(np.linspace(0, n, _TRIED).round()) for n in missing]
    more_right, more_wrong = np.meshgrid(*tried)
    total = float(np.isfinite(gold).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        both = passes[0] + more_right
        neither = fails[1] + missing[1] - more_wrong
        passed = (both + passes[1] + more_wrong) / total
        gold_passed = (passes + fails + missing)[0] / total
        agreed = (both + neither) / total
        mean = (passed + gold_passed) / 2.0
        ac1, kappa = 2.0 * mean * (1.0 - mean), passed * gold_passed
        kappa = kappa + (1.0 - passed) * (1.0 - gold_passed)
        alpha = 1.0 - 2.0 * mean * (1.0 - mean) * 2.0 * total / (2.0 * total - 1.0)
        values = {
            "raw_agreement": agreed,
            "gwet_ac1": 1.0 - (1.0 - agreed) / (1.0 - ac1),
            "cohen_kappa": 1.0 - (1.0 - agreed) / (1.0 - kappa),
            "krippendorff_alpha": 1.0 - (1.0 - agreed) / (1.0 - alpha),
            "sensitivity": both / (gold_passed * total),
            "specificity": neither / (total - gold_passed * total),
        }
    defined = {name: value[np.isfinite(value)] for name, value in values.items()}
    return {
        name: (float(value.min()), float(value.max())) if value.size else (np.nan, np.nan)
        for name, value in defined.items()
    }


def _note_on_draw(shares: pd.DataFrame, items: pd.DataFrame) -> str:
    """Return a note on labels that were not drawn at random; empty if they may have been."""
    if items["inclusion_probability"].nunique() > 1:
        return _UNEQUAL_DRAW
    return unequal_shares({row["condition"]: row for _, row in shares.iterrows()})


def _gold_weights(part: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the weights of items with gold: the verdicts of their stratum, by label."""
    labelled = part["gold"].notna() & part["verdict"].notna()
    of_stratum = part.assign(_has=labelled).groupby("stratum", sort=False)["_has"]
    counts = of_stratum.transform("sum")
    return {"weight": of_stratum.transform("size") / counts.where(counts > 0)}


def _with_strata(
    measures: dict[str, Interval], units: pd.DataFrame, ci_level: float
) -> dict[str, Interval]:
    """Replace the rates by those weighted within strata; all are NaN if a stratum has no gold."""
    verdict, gold = (units[name].to_numpy(dtype=float) for name in ("verdict", "gold"))
    strata, clusters = units["stratum"].to_numpy(), units["cluster"].to_numpy()
    has = np.isfinite(gold)
    raw = weighted_rate(
        np.where(has, verdict == gold, np.nan),
        strata,
        counted=np.where(has, np.isfinite(verdict), np.nan),
        clusters=clusters,
        ci_level=ci_level,
    )
    if NO_GOLD in raw.note:
        note = f"{raw.note}: {NAME_DRAWN_BY}"
        return {n: undefined(n, note, ci_level=ci_level, n=i.n) for n, i in measures.items()}
    samples = [(verdict, gold, truth, clusters, None, strata) for truth in (1.0, 0.0)]
    right_passes, right_fails = rates_against_gold(samples, ci_level)
    rates = {"sensitivity": right_passes, "specificity": right_fails, "raw_agreement": raw}
    return measures | rates


def _gold_columns(items: pd.DataFrame) -> dict[str, Any]:
    labelled = items[items["gold"].notna()]
    weights = labelled.get("weight", pd.Series(1.0, labelled.index)).fillna(1.0)
    share = float(np.average(labelled["gold"], weights=weights)) if len(labelled) else np.nan
    return {"prevalence": share, "n_failed": int(labelled["verdict"].isna().sum())}


def _against_gold(items: pd.DataFrame, settings: dict[str, Any]) -> dict[str, Interval]:
    cluster = items["cluster"].to_numpy()
    verdict, gold = (items[name].to_numpy(dtype=float) for name in ("verdict", "gold"))
    ratings = np.column_stack([verdict, gold])
    intervals = coefficients(ratings, cluster, weights=items.get("weight"), **settings)
    level = {"clusters": cluster if len(items) else None, "ci_level": settings["ci_level"]}
    intervals["sensitivity"] = sensitivity(verdict, gold, **level)
    intervals["specificity"] = specificity(verdict, gold, **level)
    return intervals


def coefficients(
    ratings: Floats,
    clusters: Any,
    *,
    weights: Any = None,
    ci_level: float,
    n_resamples: int,
    seed: int,
) -> dict[str, Interval]:
    """Estimate four coefficients of agreement between ratings; NaN with a note if undefined."""
    both = np.isfinite(ratings).sum(axis=1) >= 2
    ratings, clusters = ratings[both], np.asarray(clusters)[both]
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    settings["weights"] = None if weights is None else np.asarray(weights)[both]
    intervals: dict[str, Interval] = {}
    n = float(len(ratings))
    for name in COEFFICIENTS:
        if not n:
            intervals[name] = undefined(name, "no item has both ratings", ci_level=ci_level, n=n)
        elif name == "cohen_kappa" and ratings.shape[1] > 2:
            note = "kappa compares two raters; use krippendorff_alpha"
            intervals[name] = undefined(name, note, ci_level=ci_level, n=n)
        elif name == "krippendorff_alpha":
            intervals[name] = krippendorff_alpha(ratings, clusters=clusters, **settings)
        else:
            intervals[name] = bootstrap_agreement(
                ratings, name, clusters=clusters, n_categories=2, **settings
            )
    return intervals


def _labeller_agreement(
    items: pd.DataFrame, raters: pd.DataFrame, lone: str, settings: dict[str, Any]
) -> dict[str, Interval]:
    """Estimate the agreement between labellers on ``items``, if each has two labels or more."""
    ratings = raters.reindex(pd.MultiIndex.from_frame(items[ITEM])).to_numpy(dtype=float)
    n_both = int((np.isfinite(ratings).sum(axis=1) >= 2).sum())
    note = _FEW_LABELLERS.format(lone) if raters.shape[1] < 2 else ""
    if not note and n_both < len(items):
        note = _OTHER_ITEMS.format(n_both, plural(len(items), "item"))
    if note:
        level = settings["ci_level"]
        return {name: undefined(name, note, ci_level=level, n=0.0) for name in COEFFICIENTS}
    about = {"weights": items.get("weight"), **settings}
    intervals = coefficients(ratings, items["cluster"].to_numpy(), **about)
    who = " and ".join(map(str, raters.columns))
    return {
        name: replace(interval, note=join_notes(f"between {who}", interval.note))
        for name, interval in intervals.items()
    }


def _why_no_ceiling(gold: pd.DataFrame, raters: pd.DataFrame) -> str:
    """Return the reason why there is no agreement between labellers."""
    if gold.empty:
        return "no labels"
    if raters.shape[1]:
        return "one labeller"
    labellers = gold["labeller"] if "labeller" in gold.columns else pd.Series(dtype="str")
    if labellers.eq(ADJUDICATED).any():
        return "adjudicated labels only"
    return "settled labels only" if labellers.notna().any() else "labels without a labeller"


def failure_share(part: pd.DataFrame, ci_level: float) -> Interval:
    """Estimate the share of gradings without a verdict; the note lists the kinds of failure."""
    failed = part["verdict"].isna()
    share = bounded_mean(
        failed.to_numpy(), part["cluster"].to_numpy(), quantity=RATES, ci_level=ci_level
    )
    return replace(share, note=join_notes(missing_reasons(part.loc[failed, "status"]), share.note))


def _labels_by_labeller(gold: pd.DataFrame) -> pd.DataFrame:
    """Return the labels before adjudication, with a row per item and a column per labeller."""
    labels = check(gold, "gold")
    single = labels[labels["labeller"].notna() & ~labels["labeller"].isin(SETTLED)]
    values = single.assign(_label=single["passed"].astype("float64"))
    return values.pivot(index=ITEM, columns="labeller", values="_label")
