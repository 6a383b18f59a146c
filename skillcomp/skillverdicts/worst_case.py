"""Effect of missing attempts on a verdict: the worst case.

To set a missing attempt against a verdict means to assume the result that contradicts the verdict
most. If the verdict is a gain, this is a fail under the condition, or a pass under the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from skillcomp.contrast import Contrast, Units, within
from skillcomp.stats.results import join_notes

# A verdict is overturned only if a condition lacks at least this share of its attempts.
ENOUGH_MISSING = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim that a contrast (a delta, or the rate of an arm) is above ``bound``.

    ``is_gain`` is True if the claim is also that the delta is above 0. A loss of the condition is
    expressed as a gain of the reference. ``moved`` is what a correction for the grader's errors
    adds to the estimate and to the lower limit; it is assumed to be the same for missing attempts.
    """

    contrast: Contrast
    bound: float
    ci_level: float
    is_gain: bool = False
    moved: tuple[float, float] = (0.0, 0.0)

    def fails_in_worst_case(self, units: Units, **how: Any) -> bool:
        """Return whether the claim fails if all missing attempts are set against it.

        It fails if the estimate is not above the bound or, for a gain, if the interval includes 0.
        """
        filled = units.filled(self.contrast.weights)
        (worst,) = within(filled, [self.contrast], ci_level=self.ci_level, **how)
        estimate = worst.interval.estimate + self.moved[0]
        low = worst.interval.low + self.moved[1]
        return not estimate > self.bound or (self.is_gain and not low > 0)


def with_missing_attempts(
    decided: pd.DataFrame,
    units: Units,
    contrasts: Sequence[Contrast],
    assume_missing: str | None,
    **how: Any,
) -> pd.DataFrame:
    """Overturn the verdicts that missing attempts could change.

    Parameters
    ----------
    decided : pandas.DataFrame
        Verdicts with the columns of :func:`skillcomp.deltas.paired` and ``margin``.
    units, contrasts : Units, sequence of Contrast
        The cases, and the contrast of each row.
    assume_missing : str or None
        The assumption, such as ``at random``, under which a verdict is kept.
    **how : str
        The arguments ``cluster`` and ``interval`` of :func:`skillcomp.deltas.paired` with which the
        rows were made.

    Returns
    -------
    pandas.DataFrame
        The rows, with a remark added to ``note``, and two more columns. ``overturned`` is True if
        missing attempts could change the verdict. The verdict of these rows is ``undetermined`` or,
        if there is an assumption, unchanged; ``assume_missing`` then names the assumption. It is
        empty in all other rows.
    """
    rows = []
    for (_, row), contrast in zip(decided.iterrows(), contrasts, strict=True):
        # examine a row only if one of its conditions lacks enough attempts
        counts = ("n_missing", "n_missing_reference")
        lost = [row[name] / max(row[name.replace("missing", "attempts")], 1) for name in counts]
        lacks = max(lost) >= ENOUGH_MISSING - 1e-9
        is_shaken = lacks and any(
            claim.fails_in_worst_case(units, **how) for claim in _claims_of_row(row, contrast)
        )
        verdict, assumed, remark = row["verdict"], "", ""
        if is_shaken:
            claimed = f"'{verdict}'" if " " in verdict else verdict
            assumed = assume_missing or ""
            remark = f"{claimed}, assuming that attempts are missing {assumed}"
            if not assumed:
                others = f"the others alone would say {claimed} ({row['estimate']:+.2f})"
                verdict = "undetermined"
                remark = f"undetermined: too many attempts are missing; {others}"
        rows.append((verdict, is_shaken, assumed, remark))
    columns = ["verdict", "overturned", "assume_missing", "remark"]
    judged = pd.DataFrame(rows, columns=columns, index=decided.index)
    notes = list(map(join_notes, decided["note"], judged.pop("remark")))
    return decided.assign(**judged.astype({"overturned": bool}), note=notes)


def _claims_of_row(row: pd.Series, contrast: Contrast) -> list[Claim]:
    """Return the claims from which the verdict of a row follows; none if it is undetermined."""
    verdict, margin = row["verdict"], row["margin"]
    level = row["ci_level"]
    moved = {end: row.get(f"moved_{end}", 0.0) for end in ("estimate", "low", "high", "rate")}
    up, down = (moved["estimate"], moved["low"]), (-moved["estimate"], -moved["high"])
    turned = replace(contrast, weights={arm: -w for arm, w in contrast.weights.items()})
    gain = Claim(contrast, margin, level, is_gain=True, moved=up)
    loss = Claim(turned, margin, level, is_gain=True, moved=down)
    base = replace(contrast, weights={(row["reference"],): 1.0}, sides=("",))
    of_rate = (moved["rate"], row.get("moved_rate_low", 0.0))
    no_loss = replace(gain, bound=-margin, is_gain=False)
    claims = {
        "teaching": [gain],
        "harmful": [loss],
        "ineffective": [no_loss, replace(loss, bound=-margin, is_gain=False)],
        "redundant": [no_loss, Claim(base, row.get("highest", 1.0) - margin, level, moved=of_rate)],
        "helps": [replace(gain, bound=0.0)],
        "hurts": [replace(loss, bound=0.0)],
    }
    # `skillverdicts.compare` uses the words worse and better instead of hurts and helps
    claims |= {"worse": claims["hurts"], "better": claims["helps"]}
    return [no_loss] if verdict.startswith("as good") else claims.get(verdict, [])
