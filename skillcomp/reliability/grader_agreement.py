"""Agreement of a grader with gold labels, next to the agreement of the labellers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import plural
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    estimates,
    groups,
    listed,
    prepared,
    row,
)
from skillcomp.frames.reference_labels import (
    ADJUDICATED,
    ITEM,
    SETTLED,
    join_gold,
    known_verdict,
    labellers_said,
    reference_labels,
)
from skillcomp.stats.agreement import bootstrap_agreement, krippendorff_alpha
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.grader_errors import sensitivity, specificity
from skillcomp.stats.results import Interval, join_notes, undefined

Floats = NDArray[np.float64]

COEFFICIENTS = ("raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha")
_FEW_LABELLERS = (
    "no ceiling: the gold frame holds {}; frames.gold(store, labeller='all') holds every one"
)
EXTRA = ["ceiling", "prevalence", "n_failed"]


def agreement(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = ("grader",),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Say how far each grader agrees with gold, beside how far the labellers agree themselves.

    An item is a check of an attempt with a verdict and a gold label; items weigh alike, and the
    case is the unit of evidence. To compare two versions of a grader use :func:`drift`.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame; one version and round a grader unless ``by`` keeps them apart.
    gold : pandas.DataFrame
        A gold frame. The reference is the adjudicated label, without one the label on which all
        labellers agree, or that of the only one who gave one; where these mix the note counts them,
        and how many are disputed and left out. With every labeller in it
        (``frames.gold(store, labeller="all")``) the ceiling is known too.
    by : str or sequence of str, default ("grader",)
        Columns that keep rows apart, such as ``["grader", "skill"]``.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Bootstrap of cases behind the intervals of the coefficients beyond chance.

    Returns
    -------
    pandas.DataFrame
        Rows per ``by``, in the estimates shape:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa``, ``krippendorff_alpha`` of grader and
          gold, at most 1; n counts items;
        - ``sensitivity``, share of the gold passes that the grader passes, and ``specificity``,
          share of the gold fails that it fails;
        - ``failure_share``, share of all its verdicts (labelled or not) that are no verdict:
          malformed, refused or an error;
        - ``ceiling_raw_agreement`` and so on: the labellers among themselves on the same items.

        Extra: ceiling (the labellers' value of the same coefficient), prevalence (share of the
        items that pass by gold), n_failed (items whose verdict failed; they are left out, never
        counted as FAIL). NaN with a note where a coefficient is not defined.

    Raises
    ------
    FrameError
        If a frame breaks its contract, several graders, versions or rounds would be pooled, or
        labellers differ on an item and nothing was adjudicated.

    See Also
    --------
    consistency : A grader against itself on a second grading.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    Rates, raw agreement among them: :func:`skillcomp.stats.bounded.bounded_mean` with cases as
    clusters. Coefficients: bootstrap of whole cases, or the limits of the raw agreement rescaled
    where that can collapse. Report raw agreement and AC1 beside kappa: kappa falls towards 0 where
    nearly all items pass. Where labels were drawn
    with unequal probabilities the rates speak of the labelled items, and the note says so.
    Adjudicated labels settle what the labellers dispute, so agreement with them may run higher than
    that of labellers with each other. To compare on one scale hold the grader against each
    labeller alone: ``agreement(verdicts, gold[gold["labeller"] == name])`` beside the ceiling.

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
    names = listed(by)
    given = prepared(verdicts, "verdicts", names, "reliability.agreement")
    labels, raters = reference_labels(gold, "reliability"), _labellers(gold)
    known = given.assign(verdict=known_verdict(given), cluster=clusters_of(given, cases))
    # a label without a row among the verdicts has no skill or condition to count it under
    whole = set(names) <= set(GRADER)
    rows: list[dict[str, Any]] = []
    settings = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    for values, part in groups(known, names):
        items = join_gold(part, labels)
        # in the order of the clusters, so that the order of the rows decides no resample
        items = items[items["settled_by"].notna()].sort_values("cluster", kind="stable")
        lost = int(labels["gold"].notna().sum() - items["gold"].notna().sum()) if whole else 0
        remark = f"{plural(lost, 'gold label')} without a verdict of this grader" if lost else ""
        settled = labellers_said(items["settled_by"], items["gold"])
        ceiling = _ceiling(items, raters, _whose_labels(gold, raters), settings)
        found = _against_gold(items, settings)
        found = {
            n: replace(i, note=join_notes(i.note, remark, settled, _unequal(items)))
            for n, i in found.items()
        }
        found["failure_share"] = failure_share(part, ci_level)
        found |= {f"ceiling_{name}": one for name, one in ceiling.items()}
        about = _about(items) | values
        for name, one in found.items():
            own = ceiling[name].estimate if name in ceiling else np.nan
            rows.append(row(name, one, ceiling=own, **about))
    return estimates(rows, by=names, extra=EXTRA)


def _about(items: pd.DataFrame) -> dict[str, Any]:
    labelled = items[items["gold"].notna()]
    share = float(labelled["gold"].mean()) if len(labelled) else np.nan
    return {"prevalence": share, "n_failed": int(labelled["verdict"].isna().sum())}


def _unequal(items: pd.DataFrame) -> str:
    chances = items["inclusion_probability"].dropna()
    if chances.nunique() < 2:
        return ""
    return "labels drawn with unequal probabilities: this speaks of the labelled items"


def _against_gold(items: pd.DataFrame, settings: dict[str, Any]) -> dict[str, Interval]:
    cluster = items["cluster"].to_numpy()
    verdict, gold = (items[name].to_numpy(dtype=float) for name in ("verdict", "gold"))
    found = coefficients(np.column_stack([verdict, gold]), cluster, **settings)
    level = {"clusters": cluster if len(items) else None, "ci_level": settings["ci_level"]}
    found["sensitivity"] = sensitivity(verdict, gold, **level)
    found["specificity"] = specificity(verdict, gold, **level)
    return found


def coefficients(
    ratings: Floats, clusters: Any, *, ci_level: float, n_resamples: int, seed: int
) -> dict[str, Interval]:
    """Return the four coefficients of agreement of ratings, NaN with a note where undefined."""
    both = np.isfinite(ratings).sum(axis=1) >= 2
    ratings, clusters = ratings[both], np.asarray(clusters)[both]
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    found: dict[str, Interval] = {}
    n = float(len(ratings))
    for name in COEFFICIENTS:
        if not n:
            found[name] = undefined(name, "no item has both ratings", ci_level=ci_level, n=n)
        elif name == "cohen_kappa" and ratings.shape[1] > 2:
            note = "kappa compares two raters; use krippendorff_alpha"
            found[name] = undefined(name, note, ci_level=ci_level, n=n)
        elif name == "krippendorff_alpha":
            found[name] = krippendorff_alpha(ratings, clusters=clusters, **settings)
        else:
            found[name] = bootstrap_agreement(
                ratings, name, clusters=clusters, n_categories=2, **settings
            )
    return found


def _ceiling(
    items: pd.DataFrame,
    raters: pd.DataFrame,
    lone: str,
    settings: dict[str, Any],
) -> dict[str, Interval]:
    """Return how far the labellers agree on the items that this grader is held against."""
    if raters.shape[1] < 2:
        note, level = _FEW_LABELLERS.format(lone), settings["ci_level"]
        return {name: undefined(name, note, ci_level=level, n=0.0) for name in COEFFICIENTS}
    wanted = raters.reindex(pd.MultiIndex.from_frame(items[ITEM]))
    found = coefficients(wanted.to_numpy(dtype=float), items["cluster"].to_numpy(), **settings)
    who = " and ".join(map(str, raters.columns))
    return {
        name: replace(one, note=join_notes(f"between {who}", one.note))
        for name, one in found.items()
    }


def _whose_labels(gold: pd.DataFrame, raters: pd.DataFrame) -> str:
    """Say whose labels there are where nobody's can be compared with another's."""
    if raters.shape[1]:
        return "one labeller"
    named = gold["labeller"] if "labeller" in gold.columns else pd.Series(dtype="str")
    if named.eq(ADJUDICATED).any():
        return "adjudicated labels only"
    return "settled labels only" if named.notna().any() else "labels without a labeller"


def failure_share(part: pd.DataFrame, ci_level: float) -> Interval:
    """Return the share of verdicts that are none, with the kinds of failure in the note."""
    failed = part["verdict"].isna()
    found = bounded_mean(
        failed.to_numpy(), part["cluster"].to_numpy(), quantity=RATES, ci_level=ci_level
    )
    kinds = part.loc[failed, "status"].replace("ok", None).fillna("no verdict").value_counts()
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return replace(found, note=join_notes(told, found.note))


def _labellers(gold: pd.DataFrame) -> pd.DataFrame:
    """Return the labels before adjudication, one row per item and one column per labeller."""
    labels = check(gold, "gold")
    single = labels[labels["labeller"].notna() & ~labels["labeller"].isin(SETTLED)]
    values = single.assign(_label=single["passed"].astype("float64"))
    return values.pivot(index=ITEM, columns="labeller", values="_label")
