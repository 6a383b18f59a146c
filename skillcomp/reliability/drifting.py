"""What changes when the grader changes: drift between grader versions on the same attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.estimates import estimates, groups, listed, row
from skillcomp.reliability._bycase import clustered_cochran, clustered_midp, paired_change
from skillcomp.reliability._common import ITEM, check_settings, plural, reference_labels
from skillcomp.reliability._versions import (
    VERSION,
    Pair,
    Reference,
    given_versions,
    pairs,
    reference_version,
)
from skillcomp.stats.intervals import mcnemar_midp
from skillcomp.stats.multiplicity import holm
from skillcomp.stats.results import NAN, Interval, undefined
from skillcomp.stats.severity import severity_shift

EXTRA = [
    "reference",
    "reference_version",
    "rate",
    "reference_rate",
    "n_gained",
    "n_lost",
    "n_dropped",
    "p_interval",
    "p_items",
]


def drift(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference: Reference,
    by: Sequence[str] = (),
    exclude_checks: str | Sequence[str] | None = None,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Say how the verdicts change on the same checks of the same attempts with another grader.

    Every other grader version is compared with the reference over the items (attempt x check)
    that both decided. Items weigh alike; the case is the unit of evidence in every interval and
    test, because checks of a case are not independent.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with the reference and at least one other version, one round of each.
    gold : pandas.DataFrame, optional
        A gold frame; tells drift of sensitivity from drift of specificity.
    reference : str or tuple of str
        The grader that the others are compared with: its name, or name and version.
    by : sequence of str
        Columns that keep items apart, such as ``["check_kind"]``. Not the grader's.
    exclude_checks : str or sequence of str, optional
        Leave out checks whose id contains one of these texts: ``"verbatim"`` for behaviours that a
        grader without the skill's text could not check.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Exchanges of versions within cases behind the p-value of Cochran's Q.

    Returns
    -------
    pandas.DataFrame
        Per ``by`` and compared grader and grader_version, in the estimates shape:

        - ``pass_rate_change``: its pass rate less the reference's; p by inverting the interval;
        - ``sensitivity_change``: the same among gold passes, and ``specificity_change``: change in
          the share failed among gold fails, so below 0 is worse for both. p is McNemar's mid-p
          with the flips of a case exchanged together, p_adjusted Holm over the two;
        - ``severity_shift``: logits, above 0 is more severe (passes fewer of the same items),
          below 0 more lenient; conditional logit (Rasch);
        - ``cochran_q``: one row per ``by`` with three versions or more, grader NA: the statistic,
          its p-value with versions exchanged within cases; no interval.

        Extra: reference, reference_version, rate and reference_rate (over the same items),
        n_gained and n_lost (verdicts that flipped to PASS and to FAIL), n_dropped (items only one
        of the two decided), p_interval (p by inverting the interval), p_items (mid-p McNemar or
        Cochran's Q with items taken as independent, for comparison with published work).
        Undefined is NaN with a note.

    Raises
    ------
    FrameError
        If the reference is not there or has several versions, a version has several rounds, there
        is nothing to compare, or ``by`` names a grader column.

    See Also
    --------
    flipped : Which verdicts changed.
    flip_counts : How many, as a matrix of old and new verdict.

    Notes
    -----
    The interval of a change comes from :func:`skillcomp.stats.switching.paired_delta` with items
    as rows and cases as clusters; it and the mid-p test answer the same question by different
    approximations and may differ near the level, so both p-values stand in the row. The severity
    shift is log(lost / gained) with a cluster-robust standard error; where one of the two is 0,
    half an item is added to both. Holm's family is sensitivity and specificity of one comparison.
    A missing or failed verdict leaves the item out of the comparison.

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
    >>> found = drift(pd.concat([old, new]), reference="old").set_index("measure")
    >>> found.loc["pass_rate_change", ["estimate", "n_gained", "n_lost"]].tolist()
    [-0.375, 0.0, 3.0]
    """
    check_settings("reliability.drift", ci_level, n_resamples)
    names = listed(by)
    given = given_versions(verdicts, names, exclude_checks, cases, "reliability.drift")
    first = reference_version(given, reference)
    labels = None if gold is None else reference_labels(gold)
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        about = {**values, "reference": first[0], "reference_version": first[1]}
        for pair in pairs(part, first, labels):
            rows += [
                {**about, **one} for one in _comparison(pair, ci_level, with_gold=gold is not None)
            ]
        versions = part[VERSION].drop_duplicates()
        if len(versions) > 2:
            rows.append({**about, **_all_versions(part, ci_level, n_resamples, seed)})
    return estimates(rows, by=[*names, *VERSION], extra=EXTRA)


def _comparison(pair: Pair, level: float, *, with_gold: bool) -> list[dict[str, Any]]:
    nothing = "no such gold label among these items" if with_gold else "no gold given"
    rows = [
        _change("pass_rate_change", pair, None, level, "no item has both verdicts"),
        _change("sensitivity_change", pair, 1.0, level, nothing),
        _change("specificity_change", pair, 0.0, level, nothing),
    ]
    adjusted = holm([one["p_value"] for one in rows[1:]])
    for one, p_value in zip(rows[1:], adjusted, strict=True):
        one["p_adjusted"] = p_value
    return [*rows, _severity(pair, level)]


def _change(
    measure: str, pair: Pair, label: float | None, level: float, why: str
) -> dict[str, Any]:
    """Return one paired change; a specificity counts FAILs, so its sign is turned."""
    items, n_dropped = pair.among(label)
    turned = label == 0.0
    old, new = (items[name].to_numpy(dtype=float) for name in ("old", "new"))
    right = (1.0 - new, 1.0 - old) if turned else (new, old)
    if len(items):
        found = paired_change(right[0], right[1], items["cluster"].to_numpy(), ci_level=level)
    else:
        found = undefined("paired difference", why, ci_level=level, n=0.0)
    p_interval, p_items = found.p_value, NAN
    if len(items):
        gained, lost = new > old, new < old
        p_items = mcnemar_midp(int(gained.sum()), int(lost.sum())).p_value
        if label is not None:
            test = clustered_midp(gained, lost, items["cluster"].to_numpy())
            method = f"{found.method}; p: {test.method}"
            found = replace(found, p_value=test.p_value, method=method)
    rates = [float(side.mean()) if len(items) else NAN for side in right]
    about = {"rate": rates[0], "reference_rate": rates[1]}
    about |= {"p_interval": p_interval, "p_items": p_items}
    return _named(measure, found, pair, items, n_dropped, **about)


def _named(
    measure: str,
    found: Interval,
    pair: Pair,
    items: pd.DataFrame,
    n_dropped: int,
    **columns: float,
) -> dict[str, Any]:
    old, new = (items[name].to_numpy(dtype=float) for name in ("old", "new"))
    dropped = f"{plural(n_dropped, 'item')} decided by one of the two only"
    note = "; ".join(filter(None, [found.note, dropped if n_dropped else ""]))
    return row(
        measure,
        replace(found, note=note),
        grader=pair.grader,
        grader_version=pair.version,
        n_gained=int((new > old).sum()),
        n_lost=int((new < old).sum()),
        n_dropped=n_dropped,
        **columns,
    )


def _severity(pair: Pair, level: float) -> dict[str, Any]:
    items, n_dropped = pair.among()
    if len(items):
        table = items[["old", "new"]].to_numpy(dtype=float)
        found = severity_shift(table, items["cluster"].to_numpy(), ci_level=level)[0]
    else:
        why = "no item has both verdicts"
        found = undefined("log odds of the discordant items", why, ci_level=level, n=0.0)
    plain = {"rate": NAN, "reference_rate": NAN, "p_interval": found.p_value, "p_items": NAN}
    return _named("severity_shift", found, pair, items, n_dropped, **plain)


def _all_versions(part: pd.DataFrame, level: float, n_resamples: int, seed: int) -> dict[str, Any]:
    wide = part.pivot(index=["cluster", *ITEM], columns=VERSION, values="verdict")
    full = wide.dropna()
    who = ", ".join(map(str, wide.columns.get_level_values(0)))
    note = f"versions of {who}; {plural(len(wide) - len(full), 'item')} not decided by all"
    about: dict[str, Any] = {"grader": None, "grader_version": None}
    about |= {name: NAN for name in EXTRA[2:]} | {"n_dropped": len(wide) - len(full)}
    if full.empty:
        found = undefined("Cochran's Q", f"no item decided by all; {note}", ci_level=level, n=0.0)
        return row("cochran_q", found, **about)
    cluster = full.index.get_level_values("cluster").to_numpy()
    test, plain = clustered_cochran(full.to_numpy(), cluster, n_resamples=n_resamples, seed=seed)
    found = Interval(
        test.statistic,
        NAN,
        NAN,
        ci_level=level,
        method=test.method,
        note="; ".join(filter(None, [test.note, note])),
        n=float(len(full)),
        n_clusters=float(len(np.unique(cluster))),
        p_value=test.p_value,
    )
    return row("cochran_q", found, **about | {"p_items": plain.p_value})
