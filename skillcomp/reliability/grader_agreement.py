"""How far a grader agrees with gold, and with itself on a second grading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import plural
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.contracts import CASE, check
from skillcomp.frames.estimates import (
    GRADER,
    check_settings,
    estimates,
    groups,
    listed,
    prepared,
    refuse_pooling,
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
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean, bounded_means
from skillcomp.stats.grader_errors import sensitivity, specificity
from skillcomp.stats.results import Interval, join_notes, undefined

Floats = NDArray[np.float64]

COEFFICIENTS = ("raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha")
_FEW_LABELLERS = (
    "no ceiling: the gold frame holds {}; frames.gold(store, labeller='all') holds every one"
)
EXTRA = ["ceiling", "prevalence", "n_failed"]
_NO_RETEST = (
    "nothing was graded twice; frames.verdicts(store, round='all') reads regrades where there are"
)
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")


def agreement(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str] = ("grader",),
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
    by : sequence of str, default ("grader",)
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


def consistency(
    verdicts: pd.DataFrame,
    *,
    by: Sequence[str] = ("grader",),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Say how steady a grader is: the same version on the same answers, graded again.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with its rounds (``frames.verdicts(store, round="all")``).
    by : sequence of str, default ("grader",)
        Columns that keep rows apart; not ``round``, which is what is compared.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Bootstrap of cases behind the coefficients beyond chance.

    Returns
    -------
    pandas.DataFrame
        Rows per ``by`` in the estimates shape, over the items (attempt x check) with verdicts in
        two rounds or more:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa`` (two rounds only),
          ``krippendorff_alpha`` of the rounds;
        - ``flip_rate``: share of items whose verdict is not the same in all rounds;
        - ``case_flip_rate``: the same share inside each case, averaged over cases, each one vote;
        - ``attempt_flip_rate``: share of attempts whose outcome (every check passed) changed,
          among attempts with the same checks decided in all rounds;
        - ``pass_rate_change``: pass rate of the last round less that of the first.

        Extra: n_rounds. NaN with a note where nothing was graded twice.

    Raises
    ------
    FrameError
        If the frame breaks its contract, graders or versions would be pooled, or ``by`` names
        ``round``.

    See Also
    --------
    flip_rates : The flip rate of every case.

    Notes
    -----
    Rates, raw agreement among them, and the change: :func:`skillcomp.stats.bounded.bounded_mean`
    with cases as clusters. A steady grader need not be right: see :func:`agreement`.
    """
    check_settings("reliability.consistency", ci_level, n_resamples, seed)
    names, known = _checked_rounds(verdicts, by, cases, "reliability.consistency")
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    rows: list[dict[str, Any]] = []
    for values, part in groups(known, names):
        wide = _rounds(part)
        cluster = wide.index.get_level_values("cluster").to_numpy()
        found = coefficients(wide.to_numpy(dtype=float), cluster, **settings)
        found |= _flip_measures(wide, ci_level)
        about = {**values, "n_rounds": wide.shape[1]}
        for name, interval in found.items():
            one = row(name, interval, **about)
            rows.append(one if len(wide) else one | {"note": _NO_RETEST})
    return estimates(rows, by=names, extra=["n_rounds"])


def _checked_rounds(
    verdicts: pd.DataFrame, by: Sequence[str], cases: pd.DataFrame | None, what: str
) -> tuple[list[str], pd.DataFrame]:
    names = listed(by)
    given = prepared(verdicts, "verdicts", names, what, compared=["round"], graders=False)
    refuse_pooling(given, [*names, "round"], what)
    return names, given.assign(verdict=known_verdict(given), cluster=clusters_of(given, cases))


def _rounds(part: pd.DataFrame) -> pd.DataFrame:
    """Return the items with two verdicts or more, one column per round."""
    told = part.assign(round=part["round"].fillna(1))
    wide = told.pivot(index=["cluster", *CASE, *ITEM], columns="round", values="verdict")
    return wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")


def _flip_measures(wide: pd.DataFrame, level: float) -> dict[str, Interval]:
    if wide.empty:
        return {name: undefined(name, _NO_RETEST, ci_level=level, n=0.0) for name in _MEASURES}
    keys = wide.index.to_frame(index=False)
    flips = wide.min(axis=1).ne(wide.max(axis=1)).to_numpy(dtype=float)
    by_case = keys.assign(flips=flips).groupby(["cluster", *CASE], sort=False)["flips"]
    shares = by_case.mean()
    found = (
        _rate(flips, keys["cluster"], level),
        _rate(shares, shares.index.get_level_values("cluster"), level),
        _attempt_flips(wide, level),
        _last_less_first(wide, keys["cluster"], level),
    )
    return dict(zip(_MEASURES, found, strict=True))


def _attempt_flips(wide: pd.DataFrame, level: float) -> Interval:
    # an attempt with a gap in one round has no outcome there that could have changed
    full = wide.notna().all(axis=1).groupby(level=["cluster", "attempt_id"], sort=False).all()
    passed = wide.groupby(level=["cluster", "attempt_id"], sort=False).min()[full]
    if passed.empty:
        why = "no attempt has the same checks decided in all rounds"
        return undefined("bounded mean", why, ci_level=level, n=0.0)
    flips = passed.min(axis=1).ne(passed.max(axis=1))
    return _rate(flips, passed.index.get_level_values("cluster"), level)


def _rate(flips: Any, cluster: Any, level: float) -> Interval:
    values = np.asarray(flips, dtype=float)
    return bounded_mean(values, np.asarray(cluster), quantity=RATES, ci_level=level)


def _last_less_first(wide: pd.DataFrame, cluster: pd.Series, level: float) -> Interval:
    first = wide.bfill(axis=1).iloc[:, 0].to_numpy(dtype=float)
    last = wide.ffill(axis=1).iloc[:, -1].to_numpy(dtype=float)
    return bounded_mean(last - first, cluster.to_numpy(), quantity=DELTAS, null=0.0, ci_level=level)


def flip_rates(
    verdicts: pd.DataFrame, *, by: Sequence[str] = ("grader",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Return how often the verdicts of each case flipped on a second grading.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with its rounds.
    by : sequence of str, default ("grader",)
        As in :func:`consistency`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill and case that was graded twice: the estimates columns (measure
        ``flip_rate``, n counts repeated verdicts) and n_flipped. The bounded interval; inside
        one case it can only take the checks as independent, and the note says so.

    Raises
    ------
    FrameError
        As in :func:`consistency`.
    """
    check_settings("reliability.flip_rates", ci_level)
    names, known = _checked_rounds(verdicts, by, None, "reliability.flip_rates")
    keys = [name for name in CASE if name not in names]
    where = list(dict.fromkeys([*names, *keys, *ITEM]))
    told = known[known["verdict"].notna()].groupby(where, sort=False, dropna=False, observed=True)
    items = told["verdict"].agg(["min", "max", "count"]).reset_index()
    items = items[items["count"] >= 2]
    items["flipped"] = items["min"].ne(items["max"])
    cases = list(groups(items, [*names, *keys]))
    samples = [(part["flipped"].to_numpy(), None, None) for _, part in cases]
    rows = []
    shares = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    for (values, part), found in zip(cases, shares, strict=True):
        one = row("flip_rate", found, n_flipped=int(part["flipped"].sum()), **values)
        note = f"{plural(len(part), 'check')} of one case taken as independent"
        rows.append(one | {"n_clusters": 1.0, "note": note})
    return estimates(rows, by=[*names, *keys], extra=["n_flipped"])
