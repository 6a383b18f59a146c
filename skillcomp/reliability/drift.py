"""Drift: differences between grader versions on the same checks of the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.contrast import cluster_readings, covering
from skillcomp.errors import FrameError, plural, suggest
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    estimates,
    group_codes,
    groups,
    listed,
    row,
)
from skillcomp.frames.reference_labels import (
    ITEM,
    clustered_verdicts,
    join_gold,
    missing_reasons,
    reference_labels,
    without_checks,
)
from skillcomp.stats.bounded import DELTAS, Arm, IntervalRule, Sample, bounded_means, mixed_of_case
from skillcomp.stats.results import NAN, HypothesisTest, Interval, join_notes, undefined
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
EXTRA += ["p_interval", "p_items", "n_missing", "n_missing_reference", "worst_low", "worst_high"]
_READ = [*ITEM, *CASE, *VERSION, "cluster", "cluster_by_name", "agent", "run"]
_READ += ["verdict", "status", "rationale"]
_NO_RATES = dict.fromkeys(("rate", "reference_rate", "p_interval", "p_items"), NAN)


def drift(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference_grader: Reference | None = None,
    by: By = (),
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
    average : str or sequence of str, optional
        Columns to pool over, such as ``["agent"]``. Items keep their equal weights, and the answers
        of all agents to a case are in one cluster. A version may be harder on one agent and easier
        on another, so look at ``by=["agent"]`` first.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id. For example, ``"verbatim"`` leaves out
        behaviours that a grader could not check without the text of the skill.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair, and cases of several skills with the same
        ``task``, then form one cluster. If it is not known whether equal case names of several
        skills are the same task, the limits allow for both, with a note.
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
          with ``gold``, and only on items with a label. Above 0 if the version is better. The
          p-value is the larger of two: that of the interval, and McNemar's mid-p with all changes
          of a case reversed together.
        - ``pass_rate_change``: pass rate of the compared version minus that of the reference. The
          p-value inverts the interval.
        - ``sensitivity_change``: change in the share passed among gold passes.
        - ``specificity_change``: change in the share failed among gold fails. This and the
          sensitivity change are below 0 if the version is worse. Their ``p_value`` is the larger of
          two, as for ``agreement_change``; ``p_adjusted`` is adjusted by Holm over these measures.
        - ``severity_shift``: in logits, from a conditional logit (Rasch) model. Above 0 if the
          version is more severe (it passes fewer of the same items), below 0 if more lenient.
        - ``cochran_q``: Cochran's Q over three or more versions, without an interval. One row per
          ``by``, with grader NA. Its p-value permutes the versions within cases.

        Further columns: ``reference`` and ``reference_version`` name the reference. ``rate`` and
        ``reference_rate`` are the rates over the items that both decided. ``n_gained`` and
        ``n_lost`` count verdicts that flipped to PASS and to FAIL (for ``agreement_change``, to
        right and to wrong). ``n_dropped`` counts the items that only one of the two decided.
        ``p_interval`` inverts the interval. ``p_items`` takes items as independent (mid-p McNemar
        test or Cochran's Q); it is for comparison with published work. ``n_missing`` counts the
        items that have rows of both versions, but no verdict of the compared version (malformed,
        refused, an error); ``n_missing_reference`` counts those without a verdict of the reference.
        ``worst_low`` and ``worst_high`` are the lowest and the highest value that these missing
        verdicts allow. The two bounds do not include items that one version did not grade; the note
        counts such items. Undefined values are NaN with a note.

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
    of the items, with cases as clusters. The interval allows for cases unlike those observed;
    McNemar's test does not. If one version errs on all checks of a few cases and an equally good
    one errs on single checks, the test alone shows a change in about 10 % of studies instead of
    5 %. Therefore ``p_value`` is the larger of the two p-values (see :func:`contrast`). The
    severity shift is log(lost / gained) with a cluster-robust standard error. If one of the two
    counts is 0, m / 2 is added to both, where m is the mean number of flipped items in the cases
    that have a flipped item (see :func:`skillcomp.stats.significance.severity_shift`). An item is
    left out of the comparison if either version gave no verdict on it.

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
    names, what = listed(by), "reliability.drift"
    how: dict[str, Any] = {"exclude_checks": exclude_checks, "cases": cases}
    verdicts, note = graded_versions(verdicts, names, what, **how, average=average)
    reference = reference_version(verdicts, reference_grader)
    labels = None if gold is None else reference_labels(gold, "reliability")
    verdicts = verdicts[[n for n in dict.fromkeys([*names, *_READ]) if n in verdicts.columns]]
    rows: list[dict[str, Any]] = []
    for values, part in groups(verdicts, names):
        keys = {**values, "reference": reference[0], "reference_version": reference[1]}
        for pair in pairs_with_reference(part, reference, labels):
            changes = _comparison_rows(pair, ci_level, interval, with_gold=gold is not None)
            rows += [{**keys, **change} for change in changes]
        if len(part[VERSION].drop_duplicates()) > 2:
            rows.append({**keys, **_cochran_row(part, ci_level, n_resamples, seed)})
    rows = [line | {"note": join_notes(line["note"], note)} for line in rows]
    return estimates(rows, by=[*names, *VERSION], extra=EXTRA)


def _comparison_rows(
    pair: Pair, level: float, rule: IntervalRule, *, with_gold: bool
) -> list[dict[str, Any]]:
    """Return one row per measure: the change of a version relative to the reference version."""
    no_label = "no such gold label among these items" if with_gold else "no gold given"
    no_item = "no item has both verdicts"
    rows = [
        _change_row("agreement_change", pair.with_gold(), level, rule, "no item has a gold label"),
        _change_row("pass_rate_change", pair, level, rule, no_item),
        _change_row("sensitivity_change", pair.with_label(1.0), level, rule, no_label),
        _change_row("specificity_change", pair.with_label(0.0), level, rule, no_label),
    ]
    adjusted = holm([change["p_value"] for change in rows[2:]])
    for change, p_value in zip(rows[2:], adjusted, strict=True):
        change["p_adjusted"] = p_value
    return [*rows[not with_gold :], _severity_row(pair, level, no_item)]


def _severity_row(pair: Pair, level: float, no_item: str) -> dict[str, Any]:
    items, worst = pair.decided_items(), (NAN, NAN)
    shift = undefined("log odds of the discordant items", no_item, ci_level=level, n=0.0)
    if len(items):
        table = items[["old", "new"]].to_numpy(dtype=float)
        readings = [severity_shift(table, c, ci_level=level) for c in cluster_readings(items)]
        shift = reduce(covering, readings)
        # The first of the two worst cases has the highest shift: missing verdicts of the compared
        # version are FAIL there, which makes this version more severe.
        high, low = (
            severity_shift(rows[["old", "new"]].to_numpy(), rows["cluster"].to_numpy()).estimate
            for rows in pair.worst_cases()
        )
        worst = (low, high)
    p_values = _NO_RATES | {"p_interval": shift.p_value}
    return _row_with_counts("severity_shift", shift, pair, worst) | p_values


def _change_row(
    measure: str, pair: Pair, level: float, rule: IntervalRule, why: str
) -> dict[str, Any]:
    """Return the row of a paired change; for specificity, count FAILs instead of passes."""
    items = pair.decided_items()
    old, new = (items[name].to_numpy(dtype=float) for name in ("old", "new"))
    ends = [(rows["new"] - rows["old"]).mean() for rows in pair.worst_cases()]
    if pair.label == 0.0:
        old, new = 1.0 - old, 1.0 - new
        ends = [-end for end in reversed(ends)]
    worst = (float(ends[0]), float(ends[1]))
    if not len(items):
        change = undefined("paired difference", why, ci_level=level, n=0.0)
        return _row_with_counts(measure, change, pair, worst) | _NO_RATES
    exchanged = pair.label is not None
    readings = [
        paired_change(new, old, clusters, level, rule, exchanged=exchanged, items=items)
        for clusters in cluster_readings(items)
    ]
    change = reduce(covering, [interval for interval, _ in readings])
    columns = readings[0][1] | {"p_interval": max(c["p_interval"] for _, c in readings)}
    return _row_with_counts(measure, change, pair, worst) | columns


def paired_change(
    new: Floats,
    old: Floats,
    cluster: Any,
    level: float,
    rule: IntervalRule = "adaptive",
    *,
    exchanged: bool = True,
    items: pd.DataFrame | None = None,
) -> tuple[Interval, dict[str, float]]:
    """Estimate the change of a rate over the same items.

    Also return four columns: the two rates, the p-value of the interval, and the p-value of
    McNemar's test over items. If ``exchanged`` is False, the p-value of the change is that of the
    interval. Otherwise it is the larger of two p-values: that of the interval, and that of a test
    that exchanges the versions within clusters.

    ``rule`` is the rule for the interval. ``items`` is a frame with the check and the case of each
    item. It lets the rule "adaptive" use the attempts of each check. Without ``items``, "adaptive"
    gives the same interval as "bounded".
    """
    clusters = np.asarray(cluster)
    sample = Sample(new - old, clusters)
    if items is not None:
        sample = sample_of_checks(items.assign(new=new, old=old, cluster=clusters))
    how: dict[str, Any] = {"quantity": DELTAS, "null": 0.0, "ci_level": level}
    change = replace(bounded_means([sample], **how, interval=rule)[0], n=float(len(new)))
    columns = {"rate": float(new.mean()), "reference_rate": float(old.mean())}
    columns["p_interval"] = change.p_value
    columns["p_items"] = mcnemar_midp(int((new > old).sum()), int((new < old).sum())).p_value
    if exchanged:
        change = with_larger_p(change, clustered_midp(new > old, new < old, clusters))
    return change, columns


def with_larger_p(interval: Interval, test: HypothesisTest) -> Interval:
    """Replace the p-value of an interval by the p-value of a test if the latter is larger."""
    p_value = float(np.fmax(test.p_value, interval.p_value))
    method = f"{interval.method}; p: at least that of {test.method}"
    return replace(interval, p_value=p_value, method=method)


def sample_of_checks(items: pd.DataFrame) -> Sample:
    """Return a sample with one entry per check of a case.

    An entry has the pass rates of both versions and the number of attempts. If several agents or
    runs answer a case, this number is that of the agent or run with the fewest attempts, so that
    copies of an agent do not narrow the interval.
    """
    keys = [*CASE, "check_id"]
    check = first = source = first_of_source = np.arange(len(items))
    if items.duplicated(keys).any():
        check, first = group_codes(items, keys)
        sources = [name for name in ("agent", "run") if name in items.columns]
        source, first_of_source = group_codes(items, [*keys, *sources])
    n, n_of_source = np.bincount(check), np.bincount(source)
    check_of_source = check[first_of_source]
    attempts = np.full(len(n), np.inf)
    np.minimum.at(attempts, check_of_source, n_of_source)
    arms = []
    for name, sign in (("new", 1.0), ("old", -1.0)):
        values = items[name].to_numpy(dtype=float)
        mixed = mixed_of_case(np.bincount(source, values) / n_of_source, n_of_source)
        mixed = np.bincount(check_of_source, mixed) / np.bincount(check_of_source)
        arms.append(Arm(np.bincount(check, values) / n, attempts, sign, None, mixed))
    return Sample.of_arms(*arms, clusters=items["cluster"].to_numpy()[first], weights=n)


def _row_with_counts(
    measure: str, interval: Interval, pair: Pair, worst: tuple[float, float]
) -> dict[str, Any]:
    items, (n_missing, n_missing_base) = pair.items, pair.n_missing()
    ends = f"in the worst case the change is {worst[0]:+.2f} or {worst[1]:+.2f}"
    if not n_missing + n_missing_base or np.isnan(worst).any():
        ends = ""
    note = join_notes(interval.note, *pair.notes_on_left_out(), ends)
    return row(
        measure,
        replace(interval, note=note),
        grader=pair.grader,
        grader_version=pair.version,
        n_gained=int(items["new"].gt(items["old"]).sum()),
        n_lost=int(items["new"].lt(items["old"]).sum()),
        n_dropped=pair.n_dropped(),
        n_missing=n_missing,
        n_missing_reference=n_missing_base,
        worst_low=worst[0],
        worst_high=worst[1],
    )


def _cochran_row(part: pd.DataFrame, level: float, n_resamples: int, seed: int) -> dict[str, Any]:
    """Test whether all versions have the same pass rate on the items that all of them decided."""
    facts = ["cluster_by_name", "skill"]
    wide = part.pivot(index=["cluster", *ITEM, *facts], columns=VERSION, values="verdict")
    full = wide.dropna()
    graders = ", ".join(map(str, wide.columns.get_level_values(0)))
    note = f"versions of {graders}; {plural(len(wide) - len(full), 'item')} not decided by all"
    columns: dict[str, Any] = {"grader": None, "grader_version": None}
    columns |= {name: NAN for name in EXTRA[2:]} | {"n_dropped": len(wide) - len(full)}
    if full.empty:
        why = f"no item decided by all; {note}"
        return row("cochran_q", undefined("Cochran's Q", why, ci_level=level, n=0.0), **columns)
    statistics, how = [], {"n_resamples": n_resamples, "seed": seed}
    for clusters in cluster_readings(full.index.to_frame(index=False)):
        test, plain = clustered_cochran(full.to_numpy(), clusters, **how)
        statistic = replace(
            undefined(test.method, join_notes(test.note, note), ci_level=level, n=float(len(full))),
            estimate=test.statistic,
            n_clusters=float(len(np.unique(clusters))),
            p_value=test.p_value,
        )
        statistics.append(statistic)
    q = reduce(covering, statistics)
    return row("cochran_q", q, **columns | {"p_items": plain.p_value})


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
    items = pd.concat([pair.decided_items() for pair in pairs], ignore_index=True)
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
        decided = pair.decided_items()
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
    """Return the reference version, and one pair for each of the other versions."""
    how: dict[str, Any] = {"exclude_checks": exclude_checks, "agents": False}
    verdicts, _ = graded_versions(verdicts, [], what, **how)
    reference = reference_version(verdicts, reference_grader)
    labels = None if gold is None else reference_labels(gold, "reliability")
    return reference, pairs_with_reference(verdicts, reference, labels)


@dataclass(frozen=True)
class Pair:
    """The items that a version, the reference version, or both of them graded.

    ``old`` is the verdict of the reference and ``new`` that of the version, NaN if missing. The
    column ``_graded_by`` is ``left_only`` if only the version graded the item, ``right_only`` if
    only the reference did, and ``both`` if both did. ``label`` is the right verdict, if all items
    have the same right verdict; otherwise it is None.
    """

    grader: str
    version: str
    reference: Version
    items: pd.DataFrame
    label: float | None = None

    def with_label(self, label: float) -> Pair:
        """Keep the items with the gold label ``label``."""
        return replace(self, items=self.items[self.items["gold"].eq(label)], label=label)

    def with_gold(self) -> Pair:
        """Keep the items with gold; replace each verdict by 1 if it equals gold, otherwise by 0."""
        items = self.items[self.items["gold"].notna()]
        right = {name: 1.0 - (items[name] - items["gold"]).abs() for name in ("new", "old")}
        return replace(self, items=items.assign(**right), label=1.0)

    def decided_items(self) -> pd.DataFrame:
        """Return the items that both versions decided."""
        return self.items[self._n_without(0)].reset_index(drop=True)

    def _n_without(self, n: int) -> NDArray[np.bool_]:
        """Mark the items on which exactly ``n`` of the two versions gave no verdict."""
        new, old = (self.items[name].isna().to_numpy() for name in ("new", "old"))
        return np.asarray(new.astype(int) + old == n)

    def n_dropped(self) -> int:
        """Count the items that only one of the two versions decided."""
        return int(self._n_without(1).sum())

    def n_missing(self) -> list[int]:
        """Count the missing verdicts of the version, and those of the reference.

        Only items that both of them graded count.
        """
        both = self.items["_graded_by"].eq("both")
        return [int((both & self.items[name].isna()).sum()) for name in ("new", "old")]

    def worst_cases(self) -> list[pd.DataFrame]:
        """Return two copies of the items that both graded, for the lowest and the highest change.

        In the first copy, missing verdicts of the version are FAIL and those of the reference
        PASS. In the second copy, it is the other way round.
        """
        both = self.items["_graded_by"].eq("both")
        graded = self.items.loc[both, ["new", "old", "cluster"]]
        return [graded.fillna({"new": x, "old": 1.0 - x}) for x in (0.0, 1.0)]

    def notes_on_left_out(self) -> list[str]:
        """Return notes: how many items are left out, and why verdicts are missing."""
        items, n_dropped = self.items, self.n_dropped()
        dropped = f"{plural(n_dropped, 'item')} decided by one of the two only"
        neither = int(self._n_without(2).sum())
        notes = [dropped] if n_dropped else []
        notes += [f"{plural(neither, 'item')} decided by neither"] if neither else []
        versions = (self.grader, self.version), self.reference
        # mention version numbers only if both versions belong to the same grader
        names = [
            " ".join(pair if self.grader == self.reference[0] else pair[:1]) for pair in versions
        ]
        sides = (
            ("new", "status", "right_only", names[0]),
            ("old", "old_status", "left_only", names[1]),
        )
        for verdict, status, absent, name in sides:
            lacking = items[items[verdict].isna()]
            if len(lacking):
                reasons = lacking[status].mask(lacking["_graded_by"].eq(absent), "not graded")
                notes.append(f"without a verdict of {name}: {missing_reasons(reasons)}")
        return notes


def graded_versions(
    verdicts: pd.DataFrame,
    names: list[str],
    what: str,
    *,
    exclude_checks: str | Sequence[str],
    cases: pd.DataFrame | None = None,
    average: By = (),
    agents: bool = True,
) -> tuple[pd.DataFrame, str]:
    """Check that each version has one round; add the columns of `clustered_verdicts`."""
    how: dict[str, Any] = {"cases": cases, "average": average, "agents": agents}
    how |= {"compared": GRADER, "graders": False}
    verdicts, note = clustered_verdicts(verdicts, names, what, **how)
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
    return verdicts.assign(grader_version=verdicts["grader_version"].fillna("")), note


def reference_version(verdicts: pd.DataFrame, reference_grader: Reference | None) -> Version:
    """Return the name and version of the reference.

    Raise FrameError unless ``reference_grader`` fits exactly one of at least two versions.
    """
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
            f"reference_grader: '{name}' is the only grader there: nothing to compare. Grade the "
            "same answers with a second grader or version."
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
    """Yield a `Pair` for each version except the reference, with the gold labels of its items."""
    old = part[part["grader"].eq(reference[0]) & part["grader_version"].eq(reference[1])]
    names = {"verdict": "old", "rationale": "old_rationale", "status": "old_status"}
    old = old[[*ITEM, *names]].rename(columns=names)
    for (grader, version), rows in part.groupby(VERSION, sort=False, observed=True):
        if (grader, version) == reference:
            continue
        items = rows.rename(columns={"verdict": "new"})
        items = items.merge(old, on=ITEM, how="outer", indicator="_graded_by")
        if labels is not None:
            items = join_gold(items.drop(columns="gold", errors="ignore"), labels[[*ITEM, "gold"]])
        else:
            items["gold"] = np.nan
        yield Pair(str(grader), str(version), reference, items)
