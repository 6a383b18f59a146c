"""What the study claims, held against what it found: tables, margins, and the lines printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from benchmarks.validity.designs import Design
from benchmarks.validity.methods import CR2, RULE, Rows

FEWEST, MOST = 0.94, 0.06  # coverage to reach; error rate of a test not to exceed
FALSE_ALARM = 0.05  # chance that a claim fails by Monte Carlo error although every cell is right
METHODS = (
    RULE, CR2, "unpaired Wald", "attempts as units", "plain CLT, z", "percentile bootstrap",
)  # fmt: skip
KEYS = ["layout", "size", "attempts", "regime", "delta", "tau"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence about the study and whether it holds."""

    text: str
    holds: bool


def table(cells: Sequence[tuple[Design, Rows]]) -> pd.DataFrame:
    """Return a row per cell and interval or test: its rate, the limit it is held to, and whether.

    ``kind`` tells coverage from error rates; ``limit`` is the target less (plus) the Monte Carlo
    margin and NaN for naive methods, which are there to be compared with.
    """
    rows = [{**asdict(design), **row} for design, found in cells for row in found]
    frame = pd.DataFrame(rows)
    claimed = frame["kind"].eq("error") | frame["method"].eq(RULE)
    limits = np.full(len(frame), np.nan)
    for kind, target, sign in (("coverage", FEWEST, -1), ("error", MOST, 1)):
        mine = (claimed & frame["kind"].eq(kind)).to_numpy()
        spread = np.sqrt(target * (1 - target) / frame.loc[mine, "runs"])
        limits[mine] = target + sign * deviations(int(mine.sum())) * spread
    frame["limit"] = limits
    below = frame["kind"].eq("coverage") & (frame["rate"] < limits)
    above = frame["kind"].eq("error") & (frame["rate"] > limits)
    frame["fails"] = below | above
    return frame


def deviations(n_cells: int, sides: int = 1) -> float:
    """Return the standard errors to allow so that ``n_cells`` together keep ``FALSE_ALARM``."""
    return float(norm.isf(FALSE_ALARM / max(n_cells, 1) / sides))


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


def claims(cells: pd.DataFrame, recovered: pd.DataFrame) -> list[Claim]:
    """Return each claim with what was found."""
    made = []
    rule = cells[cells["kind"].eq("coverage") & cells["method"].eq(RULE)]
    text = f"coverage of the rule: lowest {_worst(rule, 'min')}; {_limit(rule, 'at least')}"
    made.append(Claim(text, not rule["fails"].any()))
    for name, rows in cells[cells["kind"].eq("error")].groupby("method", sort=False):
        text = f"type-I error of {name}: highest {_worst(rows, 'max')}; {_limit(rows, 'at most')}"
        made.append(Claim(text, not rows["fails"].any()))
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
    """Name the design of a row in a few words."""
    unit = "cases" if row["layout"] == "independent cases" else row["layout"]
    tau = f", tau {row['tau']:g}" if unit != "cases" else ""
    tries = "1 attempt" if row["attempts"] == 1 else f"{row['attempts']} attempts"
    return f"{row['size']} {unit}, {tries}, {row['regime']}, delta {row['delta']:g}{tau}"


def lowest_coverage(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the lowest coverage in percent of each method over regimes, deltas and taus."""
    covered = cells[cells["kind"].eq("coverage")]
    return _percent(covered, "min").reindex(columns=list(METHODS))


def highest_error(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the highest type-I error in percent of each test over regimes and taus."""
    return _percent(cells[cells["kind"].eq("error")], "max")


def _percent(rows: pd.DataFrame, how: str) -> pd.DataFrame:
    by = rows.groupby(["layout", "size", "attempts", "method"])["rate"].agg(how)
    return (100 * by.unstack("method")).round(1)
