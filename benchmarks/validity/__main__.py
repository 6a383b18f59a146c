"""Run the coverage study: ``python -m benchmarks.validity [--quick]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from benchmarks.validity import claims, methods, studies
from benchmarks.validity.cells import ROOT, work
from benchmarks.validity.designs import designs
from skillcomp import plots, style

RUNS, STUDIES = 4000, 200
QUICK_RUNS, QUICK_STUDIES = 200, 16

SHOWN = 5  # of the cells between target and margin


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, print the tables and claims, write table and figure; 1 when a claim fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity")
    parser.add_argument("--quick", action="store_true", help="fewer runs, wider margins: a minute")
    parser.add_argument("--runs", type=int, help=f"studies a cell (default {RUNS})")
    parser.add_argument("--studies", type=int, help=f"through the frames (default {STUDIES})")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: one a core)")
    parser.add_argument("--out", type=Path, help="folder (default report/validity)")
    given = parser.parse_args(argv)
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    n_studies = given.studies or (QUICK_STUDIES if given.quick else STUDIES)
    out = given.out or ROOT / "report" / "validity" / ("quick" if given.quick else "")
    try:
        return study(runs, n_studies, out, jobs=given.jobs)
    except KeyboardInterrupt:
        print(f"Stopped; finished cells are kept in {out / 'cells'}, and the next run goes on.")
        return 130


def study(runs: int, n_studies: int, out: Path, *, jobs: int = -1, only: int | None = None) -> int:
    """Run every cell (or the ``only`` smallest) and report; 1 when a claim fails."""
    begin = time.perf_counter()
    chosen = designs(runs)[-only:] if only else designs(runs)
    folder = out / "cells"
    cells = work(chosen, methods.run, folder, jobs=jobs, title="designs")
    batches = studies.batches(n_studies)
    through = work(batches, studies.run, folder, jobs=jobs, title="studies through the frames")
    table = claims.table(cells)
    recovered = claims.recovery(pd.DataFrame([row for _, rows in through for row in rows]))
    found = claims.claims(table, recovered)
    table.to_csv(out / "table.csv", index=False)
    recovered.to_csv(out / "recovery.csv", index=False)
    draw(table, out / "validity")
    print(_report(table, recovered, found, runs, time.perf_counter() - begin))
    return 0 if all(claim.holds for claim in found) else 1


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw coverage of every interval and error rate of every test, a mark per design."""
    mpl.use("agg")
    style.use()
    order = {name: i for i, name in enumerate(claims.METHODS)}
    covered = table[table["kind"].eq("coverage")]
    covered = covered.sort_values("method", key=lambda names: names.map(order), kind="stable")
    rejected = table[table["kind"].eq("error")]
    fig, axes = style.figure("page", ncols=2, height=4.2)
    plots.coverage(covered, x="rate", hue="layout", target=claims.FEWEST, ax=axes[0])
    plots.coverage(
        rejected, x="rate", hue="layout", target=claims.MOST, label="Type-I error (%)", ax=axes[1]
    )
    style.save(fig, path, data={"coverage": covered, "errors": rejected})


def _report(
    table: pd.DataFrame,
    recovered: pd.DataFrame,
    found: Sequence[claims.Claim],
    runs: int,
    seconds: float,
) -> str:
    shown = recovered[["quantity", "estimator", "studies", "truth", "bias", "coverage"]]
    failing = table[table["fails"]]
    rule = table[table["kind"].eq("coverage") & table["method"].eq(methods.RULE)]
    under = rule[(rule["rate"] < claims.FEWEST) & ~rule["fails"]].sort_values("rate")
    lines = [
        "Lowest coverage of 95 % intervals, in percent, over regimes, deltas and taus",
        claims.lowest_coverage(table).to_string(),
        "\nHighest type-I error of tests at 5 %, in percent",
        claims.highest_error(table).to_string(),
        "\nPlanted and found through the frames",
        shown.round(4).to_string(index=False),
        f"\n{len(table.drop_duplicates(claims.KEYS))} designs of {runs:,} studies, "
        f"{seconds:,.0f} s. Margins: {claims.deviations(1):.2f} standard errors of a single cell, "
        f"widened to {claims.deviations(len(table[table['limit'].notna()])):.2f} or less for the "
        f"number of cells, so that the study fails by chance in at most "
        f"{claims.FALSE_ALARM:.0%} of runs for each kind of claim. Sign flips of more than ten "
        f"clusters take {methods.PATTERNS} random patterns.",
        *(f"{'holds' if claim.holds else 'FAILS'}: {claim.text}" for claim in found),
        f"  cells of the rule below {claims.FEWEST:.0%} but within the margin: {len(under)}",
        *(
            f"    {row['rate']:.2%}, {claims.describe(row)}, {row['fired']}"
            for _, row in under.head(SHOWN).iterrows()
        ),
        *(
            f"  fails: {row['method']}, {row['kind']} {row['rate']:.2%}, {claims.describe(row)}"
            for _, row in failing.iterrows()
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
