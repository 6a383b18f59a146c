"""What changes when the grader changes: its versions on the same checks of the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, plural, suggest
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.estimates import (
    GRADER,
    check_settings,
    estimates,
    groups,
    listed,
    prepared,
    row,
)
from skillcomp.frames.reference_labels import (
    ITEM,
    join_gold,
    known_verdict,
    reference_labels,
    without_checks,
)
from skillcomp.stats.bounded import DELTAS, bounded_mean
from skillcomp.stats.results import NAN, Interval, join_notes, undefined
from skillcomp.stats.significance import (
    clustered_cochran,
    clustered_midp,
    holm,
    mcnemar_midp,
    severity_shift,
)

Floats = NDArray[np.float64]

VERSION = ["grader", "grader_version"]
Version = tuple[str, str]
Reference = str | tuple[str, str]
_REFERENCE = ["reference", "reference_version"]
EXTRA = [*_REFERENCE, "rate", "reference_rate", "n_gained", "n_lost", "n_dropped"]
EXTRA += ["p_interval", "p_items"]
_NO_RATES = dict.fromkeys(("rate", "reference_rate", "p_interval", "p_items"), NAN)


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
    The interval of a change is :func:`skillcomp.stats.bounded.bounded_mean` of the items' changes
    with cases as clusters; it and the mid-p test answer the same question by different
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
    check_settings("reliability.drift", ci_level, n_resamples, seed)
    names = listed(by)
    given = given_versions(verdicts, names, exclude_checks, cases, "reliability.drift")
    first = reference_version(given, reference)
    labels = None if gold is None else reference_labels(gold, "reliability")
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        about = {**values, "reference": first[0], "reference_version": first[1]}
        for pair in beside_reference(part, first, labels):
            rows += [
                {**about, **one} for one in _comparison(pair, ci_level, with_gold=gold is not None)
            ]
        versions = part[VERSION].drop_duplicates()
        if len(versions) > 2:
            rows.append({**about, **_all_versions(part, ci_level, n_resamples, seed)})
    return estimates(rows, by=[*names, *VERSION], extra=EXTRA)


def _comparison(pair: Pair, level: float, *, with_gold: bool) -> list[dict[str, Any]]:
    """Return the rows of one version beside the reference."""
    nothing = "no such gold label among these items" if with_gold else "no gold given"
    rows = [
        _change("pass_rate_change", pair, None, level, "no item has both verdicts"),
        _change("sensitivity_change", pair, 1.0, level, nothing),
        _change("specificity_change", pair, 0.0, level, nothing),
    ]
    adjusted = holm([one["p_value"] for one in rows[1:]])
    for one, p_value in zip(rows[1:], adjusted, strict=True):
        one["p_adjusted"] = p_value
    items, n_dropped = pair.among()
    why = "no item has both verdicts"
    found = undefined("log odds of the discordant items", why, ci_level=level, n=0.0)
    if len(items):
        table, cluster = items[["old", "new"]].to_numpy(dtype=float), items["cluster"].to_numpy()
        found = severity_shift(table, cluster, ci_level=level)
    plain = _NO_RATES | {"p_interval": found.p_value}
    return [*rows, _row("severity_shift", found, pair, items, n_dropped) | plain]


def _change(
    measure: str, pair: Pair, label: float | None, level: float, why: str
) -> dict[str, Any]:
    """Return one paired change; a specificity counts FAILs, so its sign is turned."""
    items, n_dropped = pair.among(label)
    old, new = (items[name].to_numpy(dtype=float) for name in ("old", "new"))
    right, before = (1.0 - new, 1.0 - old) if label == 0.0 else (new, old)
    if not len(items):
        found = undefined("paired difference", why, ci_level=level, n=0.0)
        return _row(measure, found, pair, items, n_dropped) | _NO_RATES
    exchanged = label is not None
    found, about = paired_change(right, before, items["cluster"], level, exchanged=exchanged)
    return _row(measure, found, pair, items, n_dropped) | about


def paired_change(
    new: Floats, old: Floats, cluster: pd.Series, level: float, *, exchanged: bool = True
) -> tuple[Interval, dict[str, float]]:
    """Return how much more often the same items are right, and what stands beside it.

    The p-value is that of versions exchanged within clusters, or of the interval itself.
    """
    clusters = cluster.to_numpy()
    found = bounded_mean(new - old, clusters, quantity=DELTAS, null=0.0, ci_level=level)
    about = {"rate": float(new.mean()), "reference_rate": float(old.mean())}
    about["p_interval"] = found.p_value
    about["p_items"] = mcnemar_midp(int((new > old).sum()), int((new < old).sum())).p_value
    if exchanged:
        test = clustered_midp(new > old, new < old, clusters)
        found = replace(found, p_value=test.p_value, method=f"{found.method}; p: {test.method}")
    return found, about


def _row(
    measure: str, found: Interval, pair: Pair, items: pd.DataFrame, n_dropped: int
) -> dict[str, Any]:
    dropped = f"{plural(n_dropped, 'item')} decided by one of the two only"
    return row(
        measure,
        replace(found, note=join_notes(found.note, dropped if n_dropped else "")),
        grader=pair.grader,
        grader_version=pair.version,
        n_gained=int(items["new"].gt(items["old"]).sum()),
        n_lost=int(items["new"].lt(items["old"]).sum()),
        n_dropped=n_dropped,
    )


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
    found = undefined(test.method, join_notes(test.note, note), ci_level=level, n=float(len(full)))
    n_clusters, p_value = float(len(np.unique(cluster))), test.p_value
    found = replace(found, estimate=test.statistic, n_clusters=n_clusters, p_value=p_value)
    return row("cochran_q", found, **about | {"p_items": plain.p_value})


def flipped(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference: Reference,
    exclude_checks: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the verdicts that change with the grader, one row per item and compared version.

    Parameters
    ----------
    verdicts, gold, reference, exclude_checks
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        skill, case_id, attempt_id, condition, repeat, check_id, check_kind, grader and
        grader_version (compared), reference, direction (``to PASS`` or ``to FAIL``), old and new
        (boolean), gold (boolean, NA without), evidence_quote, rationale (of the compared version)
        and old_rationale. Empty when nothing flipped.

    See Also
    --------
    flip_counts : How many flipped and how many stayed.
    """
    first, pairs = _pairs(verdicts, gold, reference, exclude_checks, "reliability.flipped")
    parts = [pair.among()[0] for pair in pairs]
    every = pd.concat(parts, ignore_index=True)
    found = every[every["new"].ne(every["old"])].reset_index(drop=True)
    found = found.assign(
        reference=first[0],
        direction=np.where(found["new"].gt(found["old"]), "to PASS", "to FAIL"),
        **{name: found[name].astype("boolean") for name in ("old", "new", "gold")},
    )
    keys = ["skill", "case_id", "attempt_id", "condition", "repeat", "check_id", "check_kind"]
    texts = ["evidence_quote", "rationale", "old_rationale"]
    return found[[*keys, *VERSION, "reference", "direction", "old", "new", "gold", *texts]]


def flip_counts(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference: Reference,
    exclude_checks: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Count the pairs of old and new verdict, among gold passes and gold fails where gold is given.

    Parameters
    ----------
    verdicts, gold, reference, exclude_checks
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        One row per grader, grader_version (compared), gold (``PASS``, ``FAIL``; NA for items
        without a label) and pair: reference and reference_version (whose verdict is ``old``), old,
        new, count. All four pairs are there, with 0 too.

    See Also
    --------
    skillcomp.plots.flips : Draws the matrix of one version and gold label.
    """
    first, pairs = _pairs(verdicts, gold, reference, exclude_checks, "reliability.flip_counts")
    rows = []
    for pair in pairs:
        decided = pair.among()[0]
        for label, name in ((1.0, "PASS"), (0.0, "FAIL"), (NAN, None)):
            items = decided[decided["gold"].isna() if name is None else decided["gold"].eq(label)]
            for old, new in product((True, False), repeat=2) if len(items) else ():
                count = int((items["old"].eq(old) & items["new"].eq(new)).sum())
                rows.append([pair.grader, pair.version, *first, name, old, new, count])
    return pd.DataFrame(rows, columns=[*VERSION, *_REFERENCE, "gold", "old", "new", "count"])


def _pairs(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None,
    reference: Reference,
    exclude: str | Sequence[str] | None,
    what: str,
) -> tuple[Version, Iterator[Pair]]:
    """Return the reference, and the items of each other version beside it."""
    given = given_versions(verdicts, [], exclude, None, what)
    first = reference_version(given, reference)
    labels = None if gold is None else reference_labels(gold, "reliability")
    return first, beside_reference(given, first, labels)


@dataclass(frozen=True)
class Pair:
    """The items that a version or the reference decided; ``both`` says whether both did."""

    grader: str
    version: str
    items: pd.DataFrame

    def among(self, label: float | None = None) -> tuple[pd.DataFrame, int]:
        """Return the items that both decided, of one gold label or all, and how many are lost."""
        items = self.items if label is None else self.items[self.items["gold"].eq(label)]
        return items[items["both"]].reset_index(drop=True), int((~items["both"]).sum())


def given_versions(
    verdicts: pd.DataFrame,
    names: list[str],
    exclude: str | Sequence[str] | None,
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Return checked verdicts of one round a version, with ``verdict`` and ``cluster``."""
    given = prepared(verdicts, "verdicts", names, what, compared=GRADER, graders=False)
    rounds = given.groupby(VERSION, dropna=False, observed=True)["round"].nunique()
    if (rounds > 1).any():
        who = rounds.index[rounds.to_numpy() > 1][0]
        raise FrameError(
            f"{what}: grader '{who[0]}' has several rounds; select one "
            "(frames.verdicts(store, round=1)), or ask consistency() about them."
        )
    if given.empty:
        raise FrameError(f"{what}: the verdicts frame has no rows: nothing to compare.")
    kept = without_checks(given, exclude, what)
    known = kept.assign(verdict=known_verdict(kept), cluster=clusters_of(kept, cases))
    return known.assign(grader_version=known["grader_version"].fillna(""))


def reference_version(given: pd.DataFrame, reference: Reference) -> Version:
    """Return name and version of the reference, or say why it cannot be one."""
    if given.empty:
        raise FrameError("exclude_checks: every check is left out: nothing to compare.")
    there = [(str(g), str(v)) for g, v in given[VERSION].drop_duplicates().to_numpy()]
    name, version = _wanted(reference)
    hits = [one for one in there if one[0] == name and version in (None, one[1])]
    graders = list(dict.fromkeys(one[0] for one in there))
    if not hits:
        shown = ", ".join(f"{g} {v}".strip() for g, v in there)
        raise FrameError(
            f"reference: there is no grader {reference!r}; there: {shown}."
            + suggest(str(name), graders)
        )
    if len(hits) > 1:
        shown = ", ".join(v for _, v in hits)
        raise FrameError(
            f"reference: grader '{name}' has several versions: {shown}. "
            f"Give name and version, such as ('{name}', '{hits[0][1]}')."
        )
    if len(there) < 2:
        raise FrameError(f"reference: '{name}' is the only grader there: nothing to compare.")
    return hits[0]


def _wanted(reference: Reference) -> tuple[str, str | None]:
    """Return name and version asked for; a list, as JSON writes a tuple, is one."""
    if isinstance(reference, str):
        return reference, None
    given = list(reference) if isinstance(reference, Sequence) else []
    if len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise FrameError(
            f"reference: found {reference!r}; allowed: the name of a grader, such as 'g1', or its "
            "name and version, such as ('g1', '2')."
        )
    return given[0], given[1]


def beside_reference(
    part: pd.DataFrame, first: Version, labels: pd.DataFrame | None
) -> Iterator[Pair]:
    """Give the items of each other version beside the reference's, gold labels joined."""
    old = part[part["grader"].eq(first[0]) & part["grader_version"].eq(first[1])]
    beside = old[[*ITEM, "verdict", "rationale"]].rename(
        columns={"verdict": "old", "rationale": "old_rationale"}
    )
    for (grader, version), rows in part.groupby(VERSION, sort=False, observed=True):
        if (grader, version) == first:
            continue
        new = rows.rename(columns={"verdict": "new"})
        both = new.merge(beside, on=ITEM, how="outer")
        if labels is not None:
            both = join_gold(both.drop(columns="gold", errors="ignore"), labels[[*ITEM, "gold"]])
        else:
            both["gold"] = np.nan
        known = both[["old", "new"]].notna()
        both["both"] = known.all(axis=1)
        yield Pair(str(grader), str(version), both[known.any(axis=1)].reset_index(drop=True))
