"""Effect of missing attempts on a verdict: the worst case.

To set a missing attempt against a verdict means to assume the result that contradicts the verdict
most. If the verdict is a gain, this is a fail under the condition, or a pass under the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.frames.case_table import CasePairs, Floats, claim, covering_means, delta_rows
from skillcomp.stats.bounded import RATES, IntervalRule, Sample
from skillcomp.stats.results import join_notes

# A verdict is overturned only if a condition lacks at least this share of its attempts.
ENOUGH_MISSING = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim that a delta or, with ``is_rate``, the rate of the condition is above ``bound``.

    ``is_gain`` is True if the claim is also that the delta is above 0. A loss of the condition is
    expressed as a gain of the reference, see :func:`mirrored`. ``cluster`` is the clustering with
    which the verdict was computed. ``moved`` is what a correction for the grader's errors adds to
    the estimate and to the lower limit; it is assumed to be the same for missing attempts.
    """

    pairs: CasePairs
    bound: float
    value: str
    ci_level: float
    cluster: str
    is_gain: bool = False
    is_rate: bool = False
    moved: tuple[float, float] = (0.0, 0.0)
    interval: IntervalRule = "adaptive"

    def fails_in_worst_case(self) -> bool:
        """Return whether the claim fails if all missing attempts are set against it.

        It fails if the estimate is not above the bound or, for a gain, if the interval includes 0.
        """
        estimate, low = self._worst_estimate()
        return not estimate > self.bound or (self.is_gain and not low > 0)

    def _lost(self) -> Floats:
        """Count the missing attempts of each case, in one column for each of the two conditions."""
        pairs = self.pairs
        lost, lost_base = pairs.size1 - pairs.n1, pairs.size0 - pairs.n0
        return np.stack([lost, 0.0 * lost_base if self.is_rate else lost_base], axis=1)

    def _opposed_values(self) -> Floats:
        """Return, for each case, the value of a missing attempt that is worst for the claim.

        There is one column for each of the two conditions, as in `_lost`.
        """
        sums = np.stack([self.pairs.low1, self.pairs.high0], axis=1)
        return np.divide(sums, lost := self._lost(), out=np.zeros_like(sums), where=lost > 0)

    def _worst_estimate(self) -> tuple[float, float]:
        """Return the estimate and the lower limit if all missing attempts refute the claim."""
        lost = self._lost()
        pairs = _with_attempts(self.pairs, lost, lost * self._opposed_values())
        if self.is_rate:
            whole = pairs.where(~np.isnan(pairs.level1)).averaged()
            label = claim(whole.skill, whole.cluster, self.cluster)[0]
            by_name = claim(whole.skill, whole.by_name, self.cluster)[0]
            arms = whole.arms(with_reference=False)
            sample = Sample(whole.level1, label, whole.weight, arms)
            how: dict[str, Any] = {"ci_level": self.ci_level, "interval": self.interval}
            (interval,) = covering_means([sample], [by_name], quantity=RATES, **how)
            estimate, low = interval.estimate, interval.low
        else:
            how = {"interval": self.interval}
            (row,) = delta_rows([pairs], self.value, self.cluster, self.ci_level, **how)
            estimate, low = row["estimate"], row["ci_low"]
        return estimate + self.moved[0], low + self.moved[1]


def with_missing_attempts(
    decided: pd.DataFrame,
    sets: Sequence[CasePairs],
    references: Iterable[CasePairs],
    value: str,
    assume_missing: str | None,
    *,
    cluster: str = "case",
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Overturn the verdicts that missing attempts could change.

    Parameters
    ----------
    decided : pandas.DataFrame
        Verdicts with the columns of :func:`skillcomp.deltas.paired`, ``margin`` and ``p_limit``.
        A row shows a gain or loss if its p-value is at most ``p_limit``, which depends on the
        number of rows.
    sets, references : iterable of CasePairs
        For each row, the pairs of condition and reference, and the pairs of the reference with
        itself.
    value : str
        ``passed`` or ``share_passed``.
    assume_missing : str or None
        The assumption, such as ``at random``, under which a verdict is kept.
    cluster, interval : str
        The arguments of :func:`skillcomp.deltas.paired` with which the rows were made.

    Returns
    -------
    pandas.DataFrame
        The rows, with a remark added to ``note``, and two more columns. ``overturned`` is True if
        missing attempts could change the verdict. The verdict of these rows is ``undetermined`` or,
        if there is an assumption, unchanged; ``assume_missing`` then names the assumption. It is
        empty in all other rows.
    """
    how: dict[str, Any] = {"value": value, "cluster": cluster, "interval": interval}
    rows = [
        _judged_row(row, _claims_of_row(row, pairs, reference, **how), assume_missing)
        for (_, row), pairs, reference in zip(decided.iterrows(), sets, references, strict=True)
    ]
    columns = ["verdict", "overturned", "assume_missing", "remark"]
    judged = pd.DataFrame(rows, columns=columns, index=decided.index)
    notes = list(map(join_notes, decided["note"], judged.pop("remark")))
    return decided.assign(**judged.astype({"overturned": bool}), note=notes)


def _judged_row(
    row: pd.Series, claims: list[Claim], assume_missing: str | None
) -> tuple[str, bool, str, str]:
    """Return the verdict, whether it is overturned, the assumption that keeps it, and a remark."""
    verdict, counts = row["verdict"], ("n_missing", "n_missing_reference")
    if not claims or not sum(row[name] for name in counts):
        return verdict, False, "", ""
    shares = [row[name] / row[name.replace("missing", "attempts")] for name in counts]
    claimed = f"'{verdict}'" if " " in verdict else verdict
    if max(shares) >= ENOUGH_MISSING - 1e-9 and any(c.fails_in_worst_case() for c in claims):
        if assume_missing:
            remark = f"{claimed}, assuming that attempts are missing {assume_missing}"
            return verdict, True, assume_missing, remark
        others = f"the others alone would say {claimed} ({row['estimate']:+.2f})"
        return "undetermined", True, "", f"undetermined: too many attempts are missing; {others}"
    return verdict, False, "", ""


def _claims_of_row(
    row: pd.Series, pairs: CasePairs, reference: CasePairs, **how: Any
) -> list[Claim]:
    """Return the claims from which the verdict of a row follows; none if it is undetermined."""
    verdict, margin = row["verdict"], row["margin"]
    how["ci_level"] = row["ci_level"]
    moved = {end: row.get(f"moved_{end}", 0.0) for end in ("estimate", "low", "high", "rate")}
    up, down = (moved["estimate"], moved["low"]), (-moved["estimate"], -moved["high"])
    gain, loss = (
        Claim(pairs, margin, **how, is_gain=True, moved=up),
        Claim(mirrored(pairs), margin, **how, is_gain=True, moved=down),
    )
    of_rate = (moved["rate"], row.get("moved_rate_low", 0.0))
    no_loss = replace(gain, bound=-margin, is_gain=False)
    # The verdicts helps and hurts follow from a p-value of at most p_limit, which allows for the
    # number of rows. Their claims are therefore checked at the level 1 - p_limit.
    family: dict[str, Any] = {
        "bound": 0.0,
        "ci_level": 1.0 - row.get("p_limit", 1.0 - row["ci_level"]),
    }
    claims = {
        "teaching": [gain],
        "harmful": [loss],
        "ineffective": [no_loss, replace(loss, bound=-margin, is_gain=False)],
        "redundant": [no_loss, Claim(reference, 1.0 - margin, **how, is_rate=True, moved=of_rate)],
        "helps": [replace(gain, **family)],
        "hurts": [replace(loss, **family)],
    }
    # `skillverdicts.compare` uses the words worse and better instead of hurts and helps
    claims |= {"worse": claims["hurts"], "better": claims["helps"]}
    return [no_loss] if verdict.startswith("as good") else claims.get(verdict, [])


def mirrored(pairs: CasePairs) -> CasePairs:
    """Return the pairs with the condition and the reference exchanged."""
    names = ("level", "met", "n", "size", "low", "high", "absent", "checks", "mixed")
    sides = {f"{name}{a}": getattr(pairs, f"{name}{b}") for name in names for a, b in ("10", "01")}
    return replace(pairs, **sides)


def _with_attempts(pairs: CasePairs, n: Floats, met: Floats) -> CasePairs:
    """Add attempts to the pairs: their number `n` and the sum `met` of their values.

    In each array, the first column is for the condition and the second for the reference.
    """
    n1, n0 = pairs.n1 + n[:, 0], pairs.n0 + n[:, 1]
    met1, met0 = pairs.met1 + met[:, 0], pairs.met0 + met[:, 1]
    level1, level0 = (
        np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        for sums, counts in ((met1, n1), (met0, n0))
    )
    return replace(pairs, level1=level1, met1=met1, n1=n1, level0=level0, met0=met0, n0=n0)
