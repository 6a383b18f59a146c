"""The rule of the coverage study, checked against its results.

The rule was fixed before these results were computed. At 95 %, no design of the main suite may have
a coverage significantly below 94 %, or an error on one side significantly above 5 % (one-sided
tests at 1 %); and the exact scans must show a coverage of at least 93.1 %, the lowest that the
reference implementation of the interval had, and at most 5 % error on either side. The rules at
other levels are in proportion, but never wider in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from benchmarks.validity.designs import DELTAS, FOUR, RATES, SHARES, WEAKNESSES, Design
from benchmarks.validity.methods import ADAPTIVE, LEVEL, METHODS, Rows
from benchmarks.validity.scan import Scan
from skillcomp.contrast import AVAILABLE_DELTAS

FEWEST, SCAN_FEWEST = 0.94, 0.931  # least coverage at 95 %: designs, worst points of the scans
SIGNIFICANT = 0.01  # level of the tests of one design
RULED = (0.8, 0.9, LEVEL, 0.99)  # levels with a rule; the others are reported
FALSE_ALARM = 0.05  # chance that a true claim about whole studies fails by Monte Carlo error
KEYS = ["quantity", "family", "words"]
ORDER = (DELTAS, FOUR, RATES, SHARES)
FAMILIES = (
    "independent cases", "even skills", "lopsided skills", "few skills carry the effect",
    "twelve unequal clusters", "skills, same answer every time", "same answer every time",
    "few flips, same answer every time", "hopeless cases", "near 0 or 1, ten attempts",
    "near 0 or 1", "with a ceiling", "deltas of shares", "twins", "unequal repeats",
    "missing attempts", "several agents", "weights", *WEAKNESSES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about the study, and whether it holds."""

    text: str
    holds: bool


def least(level: float, at_95: float = FEWEST) -> float:
    """Return the least coverage at a level from the one at 95 %, ``at_95``."""
    missing = LEVEL - at_95
    return level - min(missing, missing * (1 - level) / (1 - LEVEL))


def table(cells: Sequence[tuple[Design, Rows]]) -> pd.DataFrame:
    """Tabulate the coverages, one row per design, method and level, with limits.

    ``side`` is the higher of the errors on one side. ``limit`` and ``side_limit`` are the rule,
    widened by the margin of its tests; NaN where there is no rule. ``fails`` marks violations.
    """
    frame = pd.DataFrame(
        [
            {"quantity": design.quantity, "family": design.family, "words": design.words, **row}
            for design, rows in cells
            for row in rows
        ]
    )
    frame["weak"] = frame["family"].isin(WEAKNESSES)
    frame["side"] = frame[["too_high", "too_low"]].max(axis=1)
    ruled = frame["method"].eq(ADAPTIVE) & ~frame["weak"] & frame["level"].isin(RULED)
    limit, side_limit = margins(frame["level"], frame["runs"])
    frame["limit"], frame["side_limit"] = limit.where(ruled), side_limit.where(ruled)
    frame["fails"] = (frame["rate"] < frame["limit"]) | (frame["side"] > frame["side_limit"])
    return frame


def margins(levels: pd.Series, runs: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the lowest coverage and the highest error on one side that the tests allow."""
    wide, fewest, error = norm.isf(SIGNIFICANT), levels.map(least), 1 - levels
    limit = fewest - wide * np.sqrt(fewest * (1 - fewest) / runs)
    return limit, error + wide * np.sqrt(error * (1 - error) / runs)


def deviations(n_cells: int, sides: int = 1) -> float:
    """Return the margin in standard errors that keeps ``FALSE_ALARM`` over ``n_cells`` cells."""
    return float(norm.isf(FALSE_ALARM / max(n_cells, 1) / sides))


def families(cells: pd.DataFrame) -> pd.DataFrame:
    """Summarise the coverage at 95 %, one row per family of designs and method."""
    covered = cells[np.isclose(cells["level"], LEVEL)]
    groups = covered.groupby(["weak", "quantity", "family", "method"], sort=False)
    summary = groups.agg(
        designs=("rate", "size"),
        lowest=("rate", "min"),
        side=("side", "max"),
        zero_width=("zero_width", "max"),
        mean_width=("mean_width", "mean"),
    )
    place = {name: i for i, name in enumerate((*ORDER, *FAMILIES, *METHODS))}
    return summary.reset_index().sort_values(
        ["weak", "quantity", "family", "method"],
        key=lambda names: names if names.name == "weak" else names.map(place),
        ignore_index=True,
    )


def scanned(cells: Sequence[tuple[Scan, Rows]]) -> pd.DataFrame:
    """Tabulate the worst points of the scans, one row per scan, method and level.

    ``ruled`` marks the scans of the rule. Rates with several attempts were scanned later.
    """
    rows = [
        {"quantity": scan.quantity, "attempts": scan.attempts, "n": scan.n, **row}
        for scan, rows_of_scan in cells
        for row in rows_of_scan
    ]
    order = ["quantity", "attempts", "n", "level"]
    frame = pd.DataFrame(rows).sort_values(order, kind="stable", ignore_index=True)
    return frame.assign(ruled=frame["quantity"].eq(DELTAS) | frame["attempts"].eq(1))


def levels(cells: pd.DataFrame, scan: pd.DataFrame) -> pd.DataFrame:
    """Compare the worst coverage with the rule, one row per level.

    ``factor`` and ``side_factor`` are the highest error rate of all scans over its nominal value,
    for two sides and for one: the factor by which a p-value can be too small.
    """
    rows = []
    for level, part in cells[cells["method"].eq(ADAPTIVE) & ~cells["weak"]].groupby("level"):
        scans = scan[scan["method"].eq(ADAPTIVE) & np.isclose(scan["level"], level)]
        points = scans[scans["ruled"]]
        worst = part.loc[part["rate"].idxmin()]
        rows.append(
            {
                "level": level,
                "designs": len(part),
                "fails": int(part["fails"].sum()),
                "least": least(level),
                "lowest": worst["rate"],
                "where": describe(worst),
                "side": part["side"].max(),
                "scan_least": least(level, SCAN_FEWEST),
                "scan_lowest": points["coverage"].min(),
                "scan_side": points["side"].max(),
                "factor": (1 - scans["coverage"].min()) / (1 - level),
                "side_factor": 2 * scans["side"].max() / (1 - level),
            }
        )
    return pd.DataFrame(rows)


def recovery(studies: pd.DataFrame) -> pd.DataFrame:
    """Summarise bias and coverage of whole studies, one row per estimator, with their margins."""
    studies = studies.assign(
        error=studies["estimate"] - studies["truth"],
        held=(studies["low"] <= studies["truth"]) & (studies["truth"] <= studies["high"]),
    )
    keys = ["quantity", "estimator", "checked"]
    summary = studies.groupby(keys, sort=False).agg(
        studies=("error", "count"),
        truth=("truth", "mean"),
        bias=("error", "mean"),
        sd=("error", "std"),
        coverage=("held", "mean"),
    )
    summary = summary.reset_index()
    m, n = int(summary["checked"].sum()), summary["studies"]
    summary["bias_limit"] = deviations(m, sides=2) * summary["sd"] / np.sqrt(n)
    summary["coverage_limit"] = FEWEST - deviations(m) * np.sqrt(FEWEST * (1 - FEWEST) / n)
    biased = summary["bias"].abs() > summary["bias_limit"]
    summary["fails"] = summary["checked"] & (
        biased | (summary["coverage"] < summary["coverage_limit"])
    )
    return summary


def claims(cells: pd.DataFrame, by_level: pd.DataFrame) -> list[Claim]:
    """Return the claims about the adaptive interval, with their numbers."""
    made = []
    for _, row in by_level[by_level["level"].isin(RULED)].iterrows():
        text = (
            f"{row['level']:.0%}: lowest coverage of {row['designs']} designs {row['lowest']:.1%} "
            f"(rule {row['least']:.1%} less the margin; {row['where']}), highest error on one side "
            f"{row['side']:.1%}; {row['fails']} designs fail"
        )
        made.append(Claim(text, row["fails"] == 0))
        text = (
            f"{row['level']:.0%}: lowest coverage of the scans {row['scan_lowest']:.2%} (rule "
            f"{row['scan_least']:.2%}), highest error on one side {row['scan_side']:.2%} (rule "
            f"{1 - row['level']:.0%})"
        )
        fine = row["scan_lowest"] >= row["scan_least"] - 5e-5
        made.append(Claim(text, bool(fine and row["scan_side"] <= 1 - row["level"])))
    ours = cells[cells["method"].eq(ADAPTIVE) & np.isclose(cells["level"], LEVEL)]
    widthless = ours["zero_width"].max()
    made.append(Claim(f"intervals of zero width: {widthless:.1%}", widthless == 0))
    return made


def available_claim(available: pd.DataFrame) -> Claim:
    """Return the claim that the notes of the frames rest on the table of available power."""
    stored = available["skills"].map(AVAILABLE_DELTAS)
    off = float((stored - available["delta"]).abs().max())
    text = f"available power: stored and computed deltas differ by at most {off:.3f} (allowed 0.03)"
    return Claim(text, off <= 0.03)


def recovered_claims(recovered: pd.DataFrame) -> list[Claim]:
    """Return the claims about whole studies, with their numbers."""
    made = []
    checked = recovered[recovered["checked"]]
    for quantity, rows in checked.groupby("quantity", sort=False):
        bias = rows.iloc[int((rows["bias"].abs() / rows["bias_limit"]).argmax())]
        covered = rows.iloc[int(rows["coverage"].argmin())]
        text = (
            f"{quantity} from {int(bias['studies'])} studies through the frames: bias at most "
            f"{bias['bias']:+.4f} (allowed {bias['bias_limit']:.4f}), coverage at least "
            f"{covered['coverage']:.1%} (allowed {covered['coverage_limit']:.1%})"
        )
        made.append(Claim(text, not rows["fails"].any()))
    return made


def describe(row: pd.Series) -> str:
    """Name the design of a row."""
    return f"{row['quantity']}, {row['family']}: {row['words']}"


def by_family(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """Spread a column of :func:`families` in percent: rows are families, columns methods."""
    summary = families(cells)
    rows = pd.MultiIndex.from_frame(summary[["quantity", "family"]].drop_duplicates())
    wide = (100 * summary.set_index(["quantity", "family", "method"])[column]).round(1)
    wide = wide.unstack("method")
    return wide.reindex(index=rows, columns=[m for m in METHODS if m in wide])
