"""Paired differences and ratios of amounts, such as dollars, seconds and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    MISSING,
    Contrast,
    Units,
    claim,
    claimed,
    contrasts_with,
    level_table,
    missing_note,
)
from skillcomp.errors import FrameError, plural
from skillcomp.frames.estimates import (
    estimates,
    n_distinct,
    prepared,
    refuse_different_checks,
    require_reference,
    row,
    sorted_by,
    with_cautions,
    with_method,
)
from skillcomp.frames.reference_labels import RESULTS, usable
from skillcomp.stats.bounded import DELTAS, bounded_mean
from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.ratios import amount_change, log_ratio, ratio_of_means
from skillcomp.stats.results import Fields, Interval, is_number, join_notes

DELTA_FACTS = ["reference", "rate", "reference_rate", "n_dropped"]
NO_AMOUNTS = "no case has an amount in both conditions"
_COUNTS = ("n_words", "n_commands")  # these are not billed: 0 is an ordinary value


def amount_deltas(
    attempts: pd.DataFrame,
    value: str,
    limit: float | None,
    *,
    by: list[str],
    reference: str,
    cluster: str,
    average: list[str],
    ci_level: float,
    **unused: Any,
) -> pd.DataFrame:
    """Compare an amount between each condition and the reference, by difference and ratio.

    The arguments and the result are those of :func:`skillcomp.deltas.paired`. Those of ``unused``
    are for pass rates.
    """
    kind = "outcomes" if value == "score" else "attempts"
    checked = prepared(
        attempts, kind, by, "deltas.paired", compared=["condition"], average=average, agents=True
    )
    require_reference(checked["condition"], reference)
    amount = checked[value].astype("float64")
    if value == "score":
        refuse_different_checks(checked, "deltas.paired")
    else:
        amount = amount.where(usable(checked) | checked["status"].isin(RESULTS))
    if limit is not None and not (is_number(limit) and 0.0 < limit < np.inf):
        raise FrameError(f"limit: found {limit!r}; allowed: a number above 0.")
    if limit is not None and (amount.min() < 0 or amount.max() > limit):
        raise FrameError(
            f"limit: found {limit:g}, but {value} runs from {amount.min():g} to {amount.max():g}; "
            "allowed: amounts from 0 to the limit. Name the limit that each attempt had."
        )
    refuse_infinite(amount, value)
    # the groups of `by` in alphabetical order
    units, zeros = (
        Units.of(
            sorted_by(level_table(checked, values, by=[*by, *average], cluster=cluster), by),
            by,
            average=average,
            value="level",
        )
        for values in (amount, amount.eq(0).where(amount.notna()))
    )
    contrasts = (replace(c, nothing=NO_AMOUNTS) for c in contrasts_with(units, reference))
    rows = [
        each
        for contrast in contrasts
        for each in _rows_of_contrast(units, zeros, contrast, value, cluster, limit, ci_level)
    ]
    if kind == "attempts":
        checked = with_cautions(checked.assign(note=""), checked)
    result = estimates(
        rows,
        by=[*by, "condition"],
        extra=[*DELTA_FACTS, *MISSING[:4]],
        outcomes=checked,
        reference=reference,
    )
    return with_method(result, cluster, None)


def refuse_infinite(amount: pd.Series, name: str) -> None:
    """Raise if an amount is infinite; it would be counted as missing."""
    if n_infinite := int(np.isinf(amount).sum()):
        raise FrameError(
            f"{name}: found an infinite amount in {plural(n_infinite, 'attempt')}; allowed: a "
            "number, or missing."
        )


def _rows_of_contrast(
    units: Units,
    zeros: Units,
    contrast: Contrast,
    value: str,
    cluster: str,
    limit: float | None,
    ci_level: float,
) -> list[Fields]:
    """Return the rows of an amount: ratio of totals, mean difference, mean ratio.

    A score has only the difference. An undefined estimate is NaN, with a note. ``zeros`` has the
    shares of attempts with an amount of 0.
    """
    part = units.part(contrast)
    cases = part.means_of_cases()
    amounts, base = (pd.Series(level) for level in cases.numbers["level"].T)
    pairs = pd.DataFrame(cases.facts)
    counts = part.missing(contrast.sides)[0]
    missing, _ = missing_note(counts, contrast.sides, f"attempts without {value}")
    if missing:
        missing += f"; if their {value} is unlike that of the others, the result is biased; it has "
        missing += "no bounds, so there is no worst case"
    about = contrast.about | dict(zip(MISSING[:4], counts, strict=True))
    about["n_dropped"] = n_distinct(units.cases_of_group(contrast.group)) - cases.n
    labels, note = claim(pairs["skill"], pairs["cluster"], cluster)
    heavy = heavy_cases(amounts, base)

    def noted(interval: Interval, *more: str) -> Interval:
        # cases with amounts of 0 alone have no ratio, and the interval has the reason
        nothing = join_notes(part.nothing or interval.note, missing)
        result = claimed(interval, note, nothing, cases.note, missing, *more)
        return replace(result, method=interval.method)

    about |= {"rate": amounts.mean(), "reference_rate": base.mean()}
    if value == "score":
        scale = max(amounts.abs().max(), base.abs().max()) if len(base) else None
        change = cr2_mean(amounts - base, labels, ci_level=ci_level, scale=scale)
        return [row("delta_score", noted(change, heavy), **about)]
    # for each side, the attempts with an amount of 0, and those with any amount
    zero = zeros.part(contrast).numbers
    counts_of_zeros = (np.nansum(n, axis=0) for n in (zero["level"] * zero["n"], zero["n"]))
    free, known = (n.round().astype(int).tolist() for n in counts_of_zeros)
    unbilled = zeros_note(value, free, known, contrast.sides)
    total = ratio_of_means(amounts, base, labels, ci_level=ci_level)
    if not np.isnan(total.low):
        # Fieller's limits include a ratio of 1 exactly if the t interval of the change includes 0
        total = replace(total, p_value=cr2_mean(amounts - base, labels).p_value)
    if limit is None or amounts.empty:
        difference = amount_change(amounts, base, labels, ci_level=ci_level)
    else:
        difference = bounded_mean(
            (amounts - base) / limit, labels, quantity=DELTAS, null=0.0, ci_level=ci_level
        ).times(limit)
        method = f"{difference.method}; amounts from 0 to {limit:g}"
        difference = replace(difference, method=method)
    more = "" if limit is not None else heavy
    rows = [row(f"total_ratio_{value}", noted(total, unbilled, more), **about)]
    rows.append(row(f"delta_{value}", noted(difference, unbilled, more), **about))
    ratio = log_ratio(amounts, base, labels, ci_level=ci_level)
    both = (amounts > 0) & (base > 0)
    about |= {"rate": amounts[both].mean(), "reference_rate": base[both].mean()}
    return [*rows, row(f"ratio_{value}", noted(ratio, heavy), **about)]


def zeros_note(value: str, free: Sequence[int], known: Sequence[int], sides: Sequence[str]) -> str:
    """Return a note on the attempts with an amount of 0; empty if there are none."""
    hint = "" if value in _COUNTS else " (unbilled?)"
    parts = [
        f"{n} of {size}" + (f" under {side}" if side else "")
        for n, size, side in zip(free, known, sides, strict=True)
        if n
    ]
    return f"amounts of 0{hint}: {', '.join(parts)}" if parts else ""


def heavy_cases(amounts: pd.Series, base: pd.Series) -> str:
    """Return a warning if few cases hold much of the amount of a condition.

    "Few" means one case, or at most a tenth of all cases. "Much" means at least a third of the
    amount, and at least three times as much as the same number of average cases would have.
    Otherwise the warning is empty.
    """
    for side in (amounts.abs(), base.abs()):
        share = side.sort_values(ascending=False).cumsum().to_numpy() / (side.sum() or 1.0)
        share = share[: max(1, len(side) // 10)]
        part = np.arange(1, len(share) + 1) / max(len(side), 1)
        heavy = np.flatnonzero(share >= np.maximum(1 / 3, 3 * part))
        if len(heavy):
            holds = "hold" if heavy[0] else "holds"
            return (
                f"{heavy[0] + 1} of {len(side)} cases {holds} {100 * share[heavy[0]]:.0f} % of the "
                "amount: an interval may be too narrow; name the limit of an attempt by limit="
            )
    return ""
