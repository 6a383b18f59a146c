"""What the study claims, held against what it found: tables, margins, c, and the lines printed."""

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

FEWEST, MOST = 0.94, 0.06  # coverage to reach; error rate of a test not to exceed
SCAN_FEWEST, SCAN_SIDE = 0.92, 0.05  # at the worst point of a scan: coverage, error on one side
FALSE_ALARM = 0.05  # chance that a claim fails by Monte Carlo error although every cell is right
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
    """One sentence about the study and whether it holds."""

    text: str
    holds: bool


def table(cells: Sequence[tuple[Design, Rows]]) -> pd.DataFrame:
    """Return a row per cell and interval or test: its rate, the limit it is held to, and whether.

    ``kind`` tells coverage from error rates; ``limit`` is the target less (plus) the Monte Carlo
    margin and NaN for methods that are there to be compared with.
    """
    rows = [
        {"quantity": one.quantity, "family": one.family, "words": one.words, **row}
        for one, found in cells
        for row in found
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
    """Return the standard errors to allow so that ``n_cells`` together keep ``FALSE_ALARM``."""
    return float(norm.isf(FALSE_ALARM / max(n_cells, 1) / sides))


def families(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per family of designs and interval: coverage, errors and widths over them."""
    covered = cells[cells["kind"].eq("coverage")]
    covered = covered.assign(side=covered[["too_high", "too_low"]].max(axis=1))
    found = covered.groupby(["quantity", "family", "method"], sort=False).agg(
        designs=("rate", "size"),
        lowest=("rate", "min"),
        mean=("rate", "mean"),
        side=("side", "max"),
        zero_width=("collapsed", "max"),
        mean_width=("mean_width", "mean"),
    )
    found = found.reset_index()
    place = {name: i for i, name in enumerate((*ORDER, *FAMILIES, *METHODS))}
    return found.sort_values(
        ["quantity", "family", "method"], key=lambda names: names.map(place), ignore_index=True
    )


def scanned(cells: Sequence[tuple[Scan, Rows]]) -> pd.DataFrame:
    """Return a row per quantity, number of cases and c: the worst points of the scan."""
    rows = [{"quantity": one.quantity, "n": one.n, **row} for one, found in cells for row in found]
    return pd.DataFrame(rows).sort_values(["quantity", "n", "c"], ignore_index=True)


def choice(cells: Sequence[tuple[Design, Rows]], scan: pd.DataFrame) -> pd.DataFrame:
    """Return a row per quantity and c: all that the choice of c is read from.

    A c is allowed where coverage is at least 94 % in every design (exact where outcomes are
    yes/no, so that no margin is needed; else simulated, less the margin), and at the worst points
    of the scan at least 92 % with at most 5 % error on either side. The smallest such c is
    ``chosen``. Yes/no shares are yes/no rates, so that shares read the scan and the exact designs
    of rates too.
    """
    rows = pd.DataFrame(
        [
            {"quantity": one.quantity, "family": one.family, "design": one.words, **row}
            | {"c": float(row["method"]), "exact": exact_coverage(one, float(row["method"]))}
            for one, found in cells
            for row in found
            if row["kind"] == "grid"
        ]
    )
    spread = np.sqrt(FEWEST * (1 - FEWEST) / rows["runs"])
    n_designs = int(rows.groupby("c").size().max())
    simulated = rows["rate"] < FEWEST - deviations(n_designs) * spread
    rows["below"] = simulated.mask(rows["exact"].notna(), rows["exact"] < FEWEST)
    rows["rate"] = rows["exact"].fillna(rows["rate"])
    found = []
    yes_no = rows[rows["quantity"].eq(RATES) & rows["exact"].notna()]
    for (quantity, c), part in rows.groupby(["quantity", "c"]):
        if quantity == SHARES:
            part = pd.concat([part, yes_no[yes_no["c"].eq(c)]])
        worst = part.loc[part["rate"].idxmin()]
        at = scan[scan["quantity"].eq(RATES if quantity == SHARES else quantity) & scan["c"].eq(c)]
        point, side = at.loc[at["coverage"].idxmin()], at.loc[at["side"].idxmax()]
        allowed = not part["below"].any() and point["coverage"] >= SCAN_FEWEST
        found.append(
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
    frame = pd.DataFrame(found)
    first = frame[frame["allowed"]].groupby("quantity")["c"].min()
    frame["chosen"] = frame["c"].eq(frame["quantity"].map(first))
    place = frame["quantity"].map({name: i for i, name in enumerate(ORDER)})
    return frame.assign(place=place).sort_values(["place", "c"]).drop(columns="place")


def exact_coverage(design: Design, c: float) -> float:
    """Return the coverage of a design whose cases are yes/no, without simulation; else NaN."""
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
    """Return a row per estimator used through the frames: bias with its margin, and coverage."""
    studies = studies.assign(
        error=studies["estimate"] - studies["truth"],
        held=(studies["low"] <= studies["truth"]) & (studies["truth"] <= studies["high"]),
    )
    keys = ["quantity", "estimator", "checked"]
    found = studies.groupby(keys, sort=False).agg(
        studies=("error", "count"),
        truth=("truth", "mean"),
        bias=("error", "mean"),
        sd=("error", "std"),
        coverage=("held", "mean"),
    )
    found = found.reset_index()
    m, n = int(found["checked"].sum()), found["studies"]
    found["bias_limit"] = deviations(m, sides=2) * found["sd"] / np.sqrt(n)
    found["coverage_limit"] = FEWEST - deviations(m) * np.sqrt(FEWEST * (1 - FEWEST) / n)
    biased = found["bias"].abs() > found["bias_limit"]
    found["fails"] = found["checked"] & (biased | (found["coverage"] < found["coverage_limit"]))
    return found


def claims(cells: pd.DataFrame, chosen: pd.DataFrame) -> list[Claim]:
    """Return each claim about the intervals and tests with what was found."""
    made = []
    covered = cells[cells["kind"].eq("coverage") & cells["method"].eq(OURS)]
    for quantity, rows in covered.groupby("quantity", sort=False):
        text = f"coverage of {quantity}: lowest {_worst(rows, 'min')}; {_limit(rows, 'at least')}"
        made.append(Claim(text, not rows["fails"].any()))
    widthless = covered["collapsed"].max()
    made.append(Claim(f"intervals of zero width: {widthless:.1%}", widthless == 0))
    errors = cells[cells["kind"].eq("error")]
    for name, rows in errors.groupby("method", sort=False):
        text = f"type-I error of {name}: highest {_worst(rows, 'max')}; {_limit(rows, 'at most')}"
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
        said = f"{best.iloc[0]:g}" if len(best) else "none"
        text = f"c of {name} in use {used:g}; smallest that the rule allows: {said}"
        made.append(Claim(text, bool(row["chosen"])))
    return made


def recovered_claims(recovered: pd.DataFrame) -> list[Claim]:
    """Return each claim about whole studies through the frames with what was found."""
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


def _worst(rows: pd.DataFrame, which: str) -> str:
    row = rows.sort_values("rate", ascending=which == "min").iloc[0]
    return f"{row['rate']:.1%} ({describe(row)})"


def _limit(rows: pd.DataFrame, words: str) -> str:
    target = FEWEST if words == "at least" else MOST
    limit = rows["limit"].min() if words == "at least" else rows["limit"].max()
    return f"{words} {target:.0%}, with the margin {limit:.2%}, in {len(rows)} cells"


def describe(row: pd.Series) -> str:
    """Name the design of a row."""
    return f"{row['quantity']}, {row['family']}: {row['words']}"


def by_family(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column of :func:`families` in percent: families by methods."""
    found = families(cells)
    rows = pd.MultiIndex.from_frame(found[["quantity", "family"]].drop_duplicates())
    wide = (100 * found.set_index(["quantity", "family", "method"])[column]).round(1)
    wide = wide.unstack("method")
    return wide.reindex(index=rows, columns=[m for m in METHODS if m in wide])


def highest_error(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the highest type-I error in percent of each test by family."""
    errors = cells[cells["kind"].eq("error")]
    wide = errors.pivot_table(index="family", columns="method", values="rate", aggfunc="max")
    return (100 * wide).round(1)
