"""Claims of the coverage study checked against its results: tables, margins, the choice of c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import multinomial, norm

from benchmarks.validity.designs import DELTAS, RATES, SHARES, Design
from benchmarks.validity.methods import METHODS, OURS, QUANTITIES, Rows
from benchmarks.validity.scan import Scan
from skillcomp.stats import Quantity, bounded_mean_counts

FEWEST, MOST = 0.94, 0.06  # least coverage; highest error rate of a test
SCAN_FEWEST, SCAN_SIDE = 0.92, 0.05  # the same at the worst point of a scan; error on one side
FALSE_ALARM = 0.05  # chance that a true claim fails by Monte Carlo error
KEYS = ["quantity", "family", "words"]
ORDER = (DELTAS, RATES, SHARES)
FAMILIES = (
    "independent cases", "even skills", "lopsided skills", "few skills carry the effect",
    "twelve unequal clusters", "few flips, same answer every time", "hopeless cases",
    "near 0 or 1, ten attempts", "near 0 or 1", "with a ceiling", "deltas of shares", "twins",
    "unequal repeats", "weights",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about the study, and whether it holds."""

    text: str
    holds: bool


def table(cells: Sequence[tuple[Design, Rows]]) -> pd.DataFrame:
    """Tabulate the rates: one row per cell and interval or test, with its limit.

    ``kind`` is coverage or error; ``limit`` is the target minus (plus) the Monte Carlo margin, and
    NaN for methods without a claim; ``fails`` marks rates beyond the limit.
    """
    rows = [
        {"quantity": design.quantity, "family": design.family, "words": design.words, **row}
        for design, rows_of_design in cells
        for row in rows_of_design
        if row["kind"] != "grid"
    ]
    frame = pd.DataFrame(rows)
    error = frame["kind"].eq("error")
    limits = np.full(len(frame), np.nan)
    for mine, target, sign in (
        (frame["kind"].eq("coverage") & frame["method"].eq(OURS), FEWEST, -1),
        (error, MOST, 1),
    ):
        spread = np.sqrt(target * (1 - target) / frame.loc[mine, "runs"])
        limits[mine.to_numpy()] = target + sign * deviations(int(mine.sum())) * spread
    frame["limit"] = limits
    below = frame["kind"].eq("coverage") & (frame["rate"] < limits)
    frame["fails"] = below | (frame["kind"].eq("error") & (frame["rate"] > limits))
    return frame


def deviations(n_cells: int, sides: int = 1) -> float:
    """Return the margin in standard errors that keeps ``FALSE_ALARM`` over ``n_cells`` cells."""
    return float(norm.isf(FALSE_ALARM / max(n_cells, 1) / sides))


def families(cells: pd.DataFrame) -> pd.DataFrame:
    """Summarise coverage, errors and widths, one row per family of designs and interval."""
    covered = cells[cells["kind"].eq("coverage")]
    covered = covered.assign(side=covered[["too_high", "too_low"]].max(axis=1))
    summary = covered.groupby(["quantity", "family", "method"], sort=False).agg(
        designs=("rate", "size"),
        lowest=("rate", "min"),
        mean=("rate", "mean"),
        side=("side", "max"),
        zero_width=("collapsed", "max"),
        mean_width=("mean_width", "mean"),
    )
    summary = summary.reset_index()
    place = {name: i for i, name in enumerate((*ORDER, *FAMILIES, *METHODS))}
    return summary.sort_values(
        ["quantity", "family", "method"], key=lambda names: names.map(place), ignore_index=True
    )


def scanned(cells: Sequence[tuple[Scan, Rows]]) -> pd.DataFrame:
    """Tabulate the worst points of the scan, one row per quantity, number of cases and c."""
    rows = [
        {"quantity": scan.quantity, "n": scan.n, **row}
        for scan, rows_of_scan in cells
        for row in rows_of_scan
    ]
    return pd.DataFrame(rows).sort_values(["quantity", "n", "c"], ignore_index=True)


def choice(cells: Sequence[tuple[Design, Rows]], scan: pd.DataFrame) -> pd.DataFrame:
    """Choose c: one row per quantity and c with the numbers that decide.

    A c is allowed if coverage is at least 94 % in every design, and at the worst points of the scan
    at least 92 % with at most 5 % error on either side. Coverage of yes/no outcomes is exact;
    simulated coverage may be lower by the Monte Carlo margin. The smallest allowed c is
    ``chosen``. The scan and the exact designs of rates also apply to shares, because a share of
    one check is a rate.
    """
    rows = pd.DataFrame(
        [
            {"quantity": design.quantity, "family": design.family, "design": design.words, **row}
            | {"c": float(row["method"]), "exact": exact_coverage(design, float(row["method"]))}
            for design, rows_of_design in cells
            for row in rows_of_design
            if row["kind"] == "grid"
        ]
    )
    spread = np.sqrt(FEWEST * (1 - FEWEST) / rows["runs"])
    n_designs = int(rows.groupby("c").size().max())
    simulated = rows["rate"] < FEWEST - deviations(n_designs) * spread
    rows["below"] = simulated.mask(rows["exact"].notna(), rows["exact"] < FEWEST)
    rows["rate"] = rows["exact"].fillna(rows["rate"])
    worst_points = []
    yes_no = rows[rows["quantity"].eq(RATES) & rows["exact"].notna()]
    for (quantity, c), part in rows.groupby(["quantity", "c"]):
        if quantity == SHARES:
            part = pd.concat([part, yes_no[yes_no["c"].eq(c)]])
        worst = part.loc[part["rate"].idxmin()]
        at = scan[scan["quantity"].eq(RATES if quantity == SHARES else quantity) & scan["c"].eq(c)]
        point, side = at.loc[at["coverage"].idxmin()], at.loc[at["side"].idxmax()]
        allowed = not part["below"].any() and point["coverage"] >= SCAN_FEWEST
        worst_points.append(
            {
                "quantity": quantity,
                "c": c,
                "designs": len(part),
                "below": int(part["below"].sum()),
                "lowest": worst["rate"],
                "where": f"{worst['family']}: {worst['design']}",
                "scan_lowest": point["coverage"],
                "scan_n": int(point["n"]),
                "scan_side": side["side"],
                "side_n": int(side["n"]),
                "allowed": bool(allowed and side["side"] <= SCAN_SIDE),
            }
        )
    frame = pd.DataFrame(worst_points)
    first = frame[frame["allowed"]].groupby("quantity")["c"].min()
    frame["chosen"] = frame["c"].eq(frame["quantity"].map(first))
    place = frame["quantity"].map({name: i for i, name in enumerate(ORDER)})
    return frame.assign(place=place).sort_values(["place", "c"]).drop(columns="place")


def exact_coverage(design: Design, c: float) -> float:
    """Compute the coverage of a design with yes/no cases exactly; NaN for other designs."""
    about = dict(design.numbers)
    plain = not any(about.get(name) for name in ("noise", "alike", "sd", "heavy"))
    n, down = about.get("cases", 0), about.get("down", 0.0)
    if design.world == "flips" and plain:
        up = about["up"]
    elif design.world == "rates_of" and plain and (about["attempts"] == 1 or about["rate"] == 1):
        up = about["rate"] * (1 - about.get("hopeless", 0.0))
    else:
        return float("nan")
    ups, downs = (part.ravel() for part in np.indices((n + 1, n + 1 if down else 1)))
    counts = np.stack([ups, downs, n - ups - downs], axis=1)[ups + downs <= n]
    chance = multinomial.pmf(counts, n, [up, down, 1 - up - down])
    counts, chance = counts[chance > 1e-12], chance[chance > 1e-12]
    bounds = QUANTITIES[design.quantity]
    limits = bounded_mean_counts(
        [1.0, -1.0, 0.0] if down else [1.0, 0.0, 0.0],
        counts, quantity=Quantity(bounds.low, bounds.high, c),
    )  # fmt: skip
    holds = (limits.low <= up - down + 1e-12) & (up - down - 1e-12 <= limits.high)
    return float(chance[holds].sum() / chance.sum())


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


def claims(cells: pd.DataFrame, chosen: pd.DataFrame) -> list[Claim]:
    """Return the claims about the intervals and tests, with their numbers."""
    made = []
    covered = cells[cells["kind"].eq("coverage") & cells["method"].eq(OURS)]
    for quantity, rows in covered.groupby("quantity", sort=False):
        limit = _limit_text(rows, "at least")
        text = f"coverage of {quantity}: lowest {_worst_cell(rows, 'min')}; {limit}"
        made.append(Claim(text, not rows["fails"].any()))
    widthless = covered["collapsed"].max()
    made.append(Claim(f"intervals of zero width: {widthless:.1%}", widthless == 0))
    errors = cells[cells["kind"].eq("error")]
    for name, rows in errors.groupby("method", sort=False):
        limit = _limit_text(rows, "at most")
        text = f"type-I error of {name}: highest {_worst_cell(rows, 'max')}; {limit}"
        made.append(Claim(text, not rows["fails"].any()))
    for name in ORDER:
        mine = chosen[chosen["quantity"].eq(name)]
        used = QUANTITIES[name].c
        row = mine[np.isclose(mine["c"], used)].iloc[0]
        text = (
            f"scan of yes/no {name}, c = {used:g}: lowest coverage {row['scan_lowest']:.1%} "
            f"({row['scan_n']} cases; at least {SCAN_FEWEST:.0%}), highest error on one side "
            f"{row['scan_side']:.1%} ({row['side_n']} cases; at most {SCAN_SIDE:.0%})"
        )
        fine = row["scan_lowest"] >= SCAN_FEWEST and row["scan_side"] <= SCAN_SIDE
        made.append(Claim(text, bool(fine)))
        best = mine.loc[mine["chosen"], "c"]
        allowed = f"{best.iloc[0]:g}" if len(best) else "none"
        text = f"c of {name} in use {used:g}; smallest that the rule allows: {allowed}"
        made.append(Claim(text, bool(row["chosen"])))
    return made


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


def _worst_cell(rows: pd.DataFrame, which: str) -> str:
    row = rows.sort_values("rate", ascending=which == "min").iloc[0]
    return f"{row['rate']:.1%} ({describe(row)})"


def _limit_text(rows: pd.DataFrame, words: str) -> str:
    target = FEWEST if words == "at least" else MOST
    limit = rows["limit"].min() if words == "at least" else rows["limit"].max()
    return f"{words} {target:.0%}, with the margin {limit:.2%}, in {len(rows)} cells"


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


def highest_error(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the highest type-I error in percent of each test by family."""
    errors = cells[cells["kind"].eq("error")]
    wide = errors.pivot_table(index="family", columns="method", values="rate", aggfunc="max")
    return (100 * wide).round(1)
