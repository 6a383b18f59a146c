"""Drift: differences between grader versions on the same checks of the same answers."""

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
    By,
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
    reference_grader: Reference | None = None,
    by: By = (),
    exclude_checks: str | Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
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
        A gold frame, which separates drift of sensitivity from drift of specificity.
    reference_grader : str or tuple of str
        The grader with which the others are compared: its name, or name and version, such as
        ``("g1", "2")`` or ``"g1 2"``. It is required; without it the error lists the graders.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"check_kind"``. Columns that name the grader are not allowed.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id. For example, ``"verbatim"`` leaves out
        behaviours that a grader could not check without the text of the skill.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Number of permutations of versions within cases and their seed, for the p-value of Cochran's
        Q.

    Returns
    -------
    pandas.DataFrame
        Several rows per ``by``, grader and grader_version (those of the compared version), with
        the estimates columns. The measures are:

        - ``pass_rate_change``: pass rate of the compared version minus that of the reference. The
          p-value inverts the interval.
        - ``sensitivity_change``: change in the share passed among gold passes.
        - ``specificity_change``: change in the share failed among gold fails. This and the
          sensitivity change are below 0 if the version is worse. Their ``p_value`` is McNemar's
          mid-p with all flips of a case reversed together; ``p_adjusted`` is by Holm over the two.
        - ``severity_shift``: in logits, from a conditional logit (Rasch) model. Above 0 if the
          version is more severe (it passes fewer of the same items), below 0 if more lenient.
        - ``cochran_q``: Cochran's Q over three or more versions, without an interval. One row per
          ``by``, with grader NA. Its p-value permutes the versions within cases.

        Further columns: ``reference`` and ``reference_version`` name the reference. ``rate`` and
        ``reference_rate`` are the rates over the items that both decided. ``n_gained`` and
        ``n_lost`` count verdicts that flipped to PASS and to FAIL. ``n_dropped`` counts items that
        only one of the two decided. ``p_interval`` inverts the interval. ``p_items`` is from the
        mid-p McNemar test or Cochran's Q with items as independent, for comparison with published
        work. Undefined values are NaN with a note.

    Raises
    ------
    FrameError
        If the reference is missing or has several versions, a version has several rounds, there is
        no other version, or ``by`` names a grader column.

    See Also
    --------
    flipped : The verdicts that changed.
    flip_counts : Counts by old and new verdict.

    Notes
    -----
    The interval of a change is that of :func:`skillcomp.stats.bounded.bounded_mean` for the changes
    of the items, with cases as clusters. The interval and the mid-p test are different
    approximations and may disagree near the level, so a row has both p-values. The severity shift
    is log(lost / gained) with a cluster-robust standard error; if one of the two counts is 0, half
    an item, or half a case, is added to both (see
    :func:`skillcomp.stats.significance.severity_shift`). An item with a missing or failed verdict
    is left out of the comparison.

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
    check_settings("reliability.drift", ci_level, n_resamples, seed)
    names = listed(by)
    verdicts = graded_versions(verdicts, names, exclude_checks, cases, "reliability.drift")
    reference = reference_version(verdicts, reference_grader)
    labels = None if gold is None else reference_labels(gold, "reliability")
    rows: list[dict[str, Any]] = []
    for values, part in groups(verdicts, names):
        keys = {**values, "reference": reference[0], "reference_version": reference[1]}
        for pair in pairs_with_reference(part, reference, labels):
            changes = _comparison_rows(pair, ci_level, with_gold=gold is not None)
            rows += [{**keys, **change} for change in changes]
        if len(part[VERSION].drop_duplicates()) > 2:
            rows.append({**keys, **_cochran_row(part, ci_level, n_resamples, seed)})
    return estimates(rows, by=[*names, *VERSION], extra=EXTRA)


def _comparison_rows(pair: Pair, level: float, *, with_gold: bool) -> list[dict[str, Any]]:
    """Return one row per measure: the change of a version relative to the reference version."""
    no_label = "no such gold label among these items" if with_gold else "no gold given"
    no_item = "no item has both verdicts"
    rows = [
        _change_row("pass_rate_change", pair, None, level, no_item),
        _change_row("sensitivity_change", pair, 1.0, level, no_label),
        _change_row("specificity_change", pair, 0.0, level, no_label),
    ]
    adjusted = holm([change["p_value"] for change in rows[1:]])
    for change, p_value in zip(rows[1:], adjusted, strict=True):
        change["p_adjusted"] = p_value
    items, n_dropped = pair.decided_items()
    shift = undefined("log odds of the discordant items", no_item, ci_level=level, n=0.0)
    if len(items):
        table, cluster = items[["old", "new"]].to_numpy(dtype=float), items["cluster"].to_numpy()
        shift = severity_shift(table, cluster, ci_level=level)
    p_values = _NO_RATES | {"p_interval": shift.p_value}
    return [*rows, _row_with_counts("severity_shift", shift, pair, items, n_dropped) | p_values]


def _change_row(
    measure: str, pair: Pair, label: float | None, level: float, why: str
) -> dict[str, Any]:
    """Return the row of a paired change; specificity counts FAILs, so its verdicts are inverted."""
    items, n_dropped = pair.decided_items(label)
    old, new = (items[name].to_numpy(dtype=float) for name in ("old", "new"))
    if label == 0.0:
        old, new = 1.0 - old, 1.0 - new
    if not len(items):
        change = undefined("paired difference", why, ci_level=level, n=0.0)
        return _row_with_counts(measure, change, pair, items, n_dropped) | _NO_RATES
    exchanged = label is not None
    change, columns = paired_change(new, old, items["cluster"], level, exchanged=exchanged)
    return _row_with_counts(measure, change, pair, items, n_dropped) | columns


def paired_change(
    new: Floats, old: Floats, cluster: pd.Series, level: float, *, exchanged: bool = True
) -> tuple[Interval, dict[str, float]]:
    """Estimate the change of a rate over the same items; also return both rates and p-values.

    If ``exchanged``, the p-value of the interval is from exchanging the versions within clusters,
    otherwise from inverting the interval.
    """
    clusters = cluster.to_numpy()
    change = bounded_mean(new - old, clusters, quantity=DELTAS, null=0.0, ci_level=level)
    columns = {"rate": float(new.mean()), "reference_rate": float(old.mean())}
    columns["p_interval"] = change.p_value
    columns["p_items"] = mcnemar_midp(int((new > old).sum()), int((new < old).sum())).p_value
    if exchanged:
        test = clustered_midp(new > old, new < old, clusters)
        change = replace(change, p_value=test.p_value, method=f"{change.method}; p: {test.method}")
    return change, columns


def _row_with_counts(
    measure: str, interval: Interval, pair: Pair, items: pd.DataFrame, n_dropped: int
) -> dict[str, Any]:
    dropped = f"{plural(n_dropped, 'item')} decided by one of the two only"
    return row(
        measure,
        replace(interval, note=join_notes(interval.note, dropped if n_dropped else "")),
        grader=pair.grader,
        grader_version=pair.version,
        n_gained=int(items["new"].gt(items["old"]).sum()),
        n_lost=int(items["new"].lt(items["old"]).sum()),
        n_dropped=n_dropped,
    )


def _cochran_row(part: pd.DataFrame, level: float, n_resamples: int, seed: int) -> dict[str, Any]:
    """Test whether all versions pass equally often on the items that all of them decided."""
    wide = part.pivot(index=["cluster", *ITEM], columns=VERSION, values="verdict")
    full = wide.dropna()
    graders = ", ".join(map(str, wide.columns.get_level_values(0)))
    note = f"versions of {graders}; {plural(len(wide) - len(full), 'item')} not decided by all"
    columns: dict[str, Any] = {"grader": None, "grader_version": None}
    columns |= {name: NAN for name in EXTRA[2:]} | {"n_dropped": len(wide) - len(full)}
    if full.empty:
        why = f"no item decided by all; {note}"
        return row("cochran_q", undefined("Cochran's Q", why, ci_level=level, n=0.0), **columns)
    cluster = full.index.get_level_values("cluster").to_numpy()
    test, plain = clustered_cochran(full.to_numpy(), cluster, n_resamples=n_resamples, seed=seed)
    statistic = replace(
        undefined(test.method, join_notes(test.note, note), ci_level=level, n=float(len(full))),
        estimate=test.statistic,
        n_clusters=float(len(np.unique(cluster))),
        p_value=test.p_value,
    )
    return row("cochran_q", statistic, **columns | {"p_items": plain.p_value})


def flipped(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
    exclude_checks: str | Sequence[str] = (),
) -> pd.DataFrame:
    """List the verdicts that change with the grader, one row per item and compared version.

    Parameters
    ----------
    verdicts, gold, reference_grader, exclude_checks
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
    reference, pairs = _reference_pairs(verdicts, gold, reference_grader, exclude_checks, what)
    items = pd.concat([pair.decided_items()[0] for pair in pairs], ignore_index=True)
    flips = items[items["new"].ne(items["old"])].reset_index(drop=True)
    flips = flips.assign(
        reference=reference[0],
        direction=np.where(flips["new"].gt(flips["old"]), "to PASS", "to FAIL"),
        **{name: flips[name].astype("boolean") for name in ("old", "new", "gold")},
    )
    keys = ["skill", "case_id", "attempt_id", "condition", "repeat", "check_id", "check_kind"]
    texts = ["evidence_quote", "rationale", "old_rationale"]
    return flips[[*keys, *VERSION, "reference", "direction", "old", "new", "gold", *texts]]


def flip_counts(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
    exclude_checks: str | Sequence[str] = (),
) -> pd.DataFrame:
    """Count pairs of an old and a new verdict, separately for gold passes and gold fails.

    Parameters
    ----------
    verdicts, gold, reference_grader, exclude_checks
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
    skillcomp.plots.flips : Draws the matrix of one version and gold label.
    """
    what = "reliability.flip_counts"
    reference, pairs = _reference_pairs(verdicts, gold, reference_grader, exclude_checks, what)
    rows = []
    for pair in pairs:
        decided = pair.decided_items()[0]
        for label, name in ((1.0, "PASS"), (0.0, "FAIL"), (NAN, None)):
            items = decided[decided["gold"].isna() if name is None else decided["gold"].eq(label)]
            for old, new in product((True, False), repeat=2) if len(items) else ():
                count = int((items["old"].eq(old) & items["new"].eq(new)).sum())
                rows.append([pair.grader, pair.version, *reference, name, old, new, count])
    return pd.DataFrame(rows, columns=[*VERSION, *_REFERENCE, "gold", "old", "new", "count"])


def _reference_pairs(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None,
    reference_grader: Reference | None,
    exclude_checks: str | Sequence[str],
    what: str,
) -> tuple[Version, Iterator[Pair]]:
    """Return the reference version, and its pairs with every other version."""
    verdicts = graded_versions(verdicts, [], exclude_checks, None, what)
    reference = reference_version(verdicts, reference_grader)
    labels = None if gold is None else reference_labels(gold, "reliability")
    return reference, pairs_with_reference(verdicts, reference, labels)


@dataclass(frozen=True)
class Pair:
    """Items decided by a version, the reference or both; the column ``both`` marks the latter."""

    grader: str
    version: str
    items: pd.DataFrame

    def decided_items(self, label: float | None = None) -> tuple[pd.DataFrame, int]:
        """Return the items that both versions decided, and the number of other items.

        If `label` is given, only items with this gold label count.
        """
        items = self.items if label is None else self.items[self.items["gold"].eq(label)]
        return items[items["both"]].reset_index(drop=True), int((~items["both"]).sum())


def graded_versions(
    verdicts: pd.DataFrame,
    names: list[str],
    exclude_checks: str | Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Check that verdicts have one round per version; add columns ``verdict`` and ``cluster``."""
    verdicts = prepared(verdicts, "verdicts", names, what, compared=GRADER, graders=False)
    rounds = verdicts.groupby(VERSION, dropna=False, observed=True)["round"].nunique()
    if (rounds > 1).any():
        version = rounds.index[rounds.to_numpy() > 1][0]
        raise FrameError(
            f"{what}: grader '{version[0]}' has several rounds; select one "
            "(frames.verdicts(store, round=1)), or ask consistency() about them."
        )
    if verdicts.empty:
        raise FrameError(f"{what}: the verdicts frame has no rows: nothing to compare.")
    verdicts = without_checks(verdicts, exclude_checks, what)
    return verdicts.assign(
        verdict=known_verdict(verdicts),
        cluster=clusters_of(verdicts, cases),
        grader_version=verdicts["grader_version"].fillna(""),
    )


def reference_version(verdicts: pd.DataFrame, reference_grader: Reference | None) -> Version:
    """Return name and version of the reference; raise FrameError if it is not unique or alone."""
    if verdicts.empty:
        raise FrameError("exclude_checks: every check is left out: nothing to compare.")
    versions = [(str(g), str(v)) for g, v in verdicts[VERSION].drop_duplicates().to_numpy()]
    labels = [" ".join(filter(None, pair)) for pair in versions]
    if reference_grader is None:
        raise FrameError(
            f"reference_grader= is missing; there: {', '.join(labels)}. Name the grader with which "
            f"the others are compared, such as reference_grader={labels[0]!r}."
        )
    name, number = _name_and_version(reference_grader)
    matches = [pair for pair in versions if pair[0] == name and number in (None, pair[1])]
    if not matches and reference_grader in labels:
        matches = [versions[labels.index(str(reference_grader))]]
    if not matches:
        hint = suggest(str(name), list(dict.fromkeys(grader for grader, _ in versions)))
        raise FrameError(
            f"reference_grader: there is no grader {reference_grader!r}; "
            f"there: {', '.join(labels)}.{hint}"
        )
    if len(matches) > 1:
        raise FrameError(
            f"reference_grader: grader '{name}' has several versions: "
            f"{', '.join(version for _, version in matches)}. "
            f"Give name and version, such as ('{name}', '{matches[0][1]}')."
        )
    if len(versions) < 2:
        raise FrameError(
            f"reference_grader: '{name}' is the only grader there: nothing to compare."
        )
    return matches[0]


def _name_and_version(reference_grader: Reference) -> tuple[str, str | None]:
    """Split a reference grader into name and version; accept lists, because JSON has no tuples."""
    if isinstance(reference_grader, str):
        return reference_grader, None
    parts = list(reference_grader) if isinstance(reference_grader, Sequence) else []
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise FrameError(
            f"reference_grader: found {reference_grader!r}; allowed: the name of a grader, such as "
            "'g1', or its name and version, such as ('g1', '2')."
        )
    return parts[0], parts[1]


def pairs_with_reference(
    part: pd.DataFrame, reference: Version, labels: pd.DataFrame | None
) -> Iterator[Pair]:
    """Yield every other version, paired item by item with the reference and joined with gold."""
    old = part[part["grader"].eq(reference[0]) & part["grader_version"].eq(reference[1])]
    names = {"verdict": "old", "rationale": "old_rationale"}
    old = old[[*ITEM, *names]].rename(columns=names)
    for (grader, version), rows in part.groupby(VERSION, sort=False, observed=True):
        if (grader, version) == reference:
            continue
        items = rows.rename(columns={"verdict": "new"}).merge(old, on=ITEM, how="outer")
        if labels is not None:
            items = join_gold(items.drop(columns="gold", errors="ignore"), labels[[*ITEM, "gold"]])
        else:
            items["gold"] = np.nan
        decided = items[["old", "new"]].notna()
        items["both"] = decided.all(axis=1)
        yield Pair(str(grader), str(version), items[decided.any(axis=1)].reset_index(drop=True))
