"""Run the coverage study: ``python -m benchmarks.validity [--quick] [--choose | --page]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.validity import claims, methods, null_skills, page, scan, studies
from benchmarks.validity.cells import ROOT, work
from benchmarks.validity.designs import designs
from skillcomp import plots, style

RUNS, STUDIES = 4000, 200
QUICK_RUNS, QUICK_STUDIES = 100, 16

SHOWN = 5  # cells between target and margin to print
DRAWN = (methods.OURS, methods.CR2)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, write tables and figure, print claims; return 1 if a claim fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity")
    parser.add_argument("--quick", action="store_true", help="fewer runs, wider margins: minutes")
    parser.add_argument("--choose", action="store_true", help="print only the table for choosing c")
    parser.add_argument("--page", action="store_true", help="write docs/intervals.md as well")
    parser.add_argument("--runs", type=int, help=f"studies a cell (default {RUNS})")
    parser.add_argument("--studies", type=int, help=f"through the frames (default {STUDIES})")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: one a core)")
    parser.add_argument("--out", type=Path, help="folder (default report/validity)")
    options = parser.parse_args(argv)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    n_studies = options.studies or (QUICK_STUDIES if options.quick else STUDIES)
    if options.choose or options.page:
        n_studies = 0
    out = options.out or ROOT / "report" / "validity" / ("quick" if options.quick else "")
    try:
        results = intervals(runs, out, jobs=options.jobs, quick=options.quick)
        if options.choose:
            print(choice_text(results))
            return 0
        if options.page:
            print(f"wrote {write_page(results, out)}")
            return 0
        return study(results, n_studies, out, jobs=options.jobs)
    except KeyboardInterrupt:
        print(f"Stopped; finished cells are kept in {out / 'cells'}, and the next run goes on.")
        return 130


@dataclass(frozen=True)
class Results:
    """Tables of the designs and of the scan, and their hours on one core."""

    table: pd.DataFrame
    scan: pd.DataFrame
    choice: pd.DataFrame
    hours: float


def intervals(runs: int, out: Path, *, jobs: int = -1, quick: bool = False) -> Results:
    """Run all designs and scans, and write their tables."""
    chosen, points = designs(runs), scan.scans(quick)
    folder = out / "cells"
    scanned, t1 = work(points, scan.run, folder, jobs=jobs, title="scan of yes/no outcomes")
    cells, t2 = work(chosen, methods.run, folder, jobs=jobs, title="designs")
    points_table = claims.scanned(scanned)
    choice = claims.choice(cells, points_table)
    results = Results(claims.table(cells), points_table, choice, (t1 + t2) / 3600)
    for name, table in (("table", results.table), ("scan", results.scan), ("choice", choice)):
        table.to_csv(out / f"{name}.csv", index=False)
    return results


def study(results: Results, n_studies: int, out: Path, *, jobs: int = -1) -> int:
    """Send whole studies through the frames, draw and report; return 1 if a claim fails."""
    batches = studies.batches(n_studies)
    through, seconds = work(
        batches, studies.run, out / "cells", jobs=jobs, title="studies through the frames"
    )
    recovered = claims.recovery(pd.DataFrame([row for _, rows in through for row in rows]))
    recovered.to_csv(out / "recovery.csv", index=False)
    made = [*claims.claims(results.table, results.choice), *claims.recovered_claims(recovered)]
    made.append(null_skills.claim(2 * n_studies))
    draw(results.table, out / "validity")
    print(_report_text(results, recovered, made, results.hours + seconds / 3600))
    return 0 if all(claim.holds for claim in made) else 1


def draw(table: pd.DataFrame, path: Path) -> Figure:
    """Draw the coverage of two intervals by family, one mark per design."""
    mpl.use("agg")
    style.use()
    covered = table[table["kind"].eq("coverage") & table["method"].isin(DRAWN)]
    order = {name: i for i, name in enumerate(claims.ORDER)}
    covered = covered.sort_values("quantity", key=lambda names: names.map(order), kind="stable")
    names = [name for name in claims.FAMILIES if covered["family"].eq(name).any()]
    covered = covered.assign(family=pd.Categorical(covered["family"], names))
    fig, axes = style.figure("page", ncols=len(DRAWN), height=6.6, sharex=True)
    for ax, method in zip(axes, DRAWN, strict=True):
        plots.coverage(
            covered[covered["method"].eq(method)], x="rate", y="family", hue="quantity",
            target=claims.FEWEST, ax=ax, legend="below" if ax is axes[1] else False,
        )  # fmt: skip
        ax.set_title(method)
        if ax is not axes[0]:
            ax.set_yticklabels([])
    style.save(fig, path, data={"coverage": covered})
    return fig


def write_page(results: Results, out: Path, docs: Path = page.DOCS) -> Path:
    """Write the page with its tables and its figure."""
    fig = draw(results.table, out / "validity")
    written = page.write(
        page.tables(results.table, results.choice, results.scan, results.hours), docs
    )
    # a small file, because it is committed
    fig.savefig(docs / "intervals" / "coverage.png", dpi=130, metadata={"Software": None})
    return written


def choice_text(results: Results) -> str:
    """Format the table from which c is chosen, for each quantity."""
    columns = [
        "c", "designs", "below", "lowest", "scan_lowest", "scan_n", "scan_side", "side_n",
        "allowed", "chosen", "where",
    ]  # fmt: skip
    parts = [
        f"{name}: c in use {methods.QUANTITIES[name].c:g}\n"
        + results.choice.loc[results.choice["quantity"].eq(name), columns]
        .round(4)
        .to_string(index=False)
        for name in claims.ORDER
    ]
    rule = (
        f"The smallest c with at least {claims.FEWEST:.0%} coverage in every design (exact where "
        f"cases are yes/no, else less the margin), and in the scan at least "
        f"{claims.SCAN_FEWEST:.0%} coverage and at most "
        f"{claims.SCAN_SIDE:.0%} error on either side."
    )
    return "\n\n".join([rule, *parts])


def _report_text(
    results: Results, recovered: pd.DataFrame, made: Sequence[claims.Claim], hours: float
) -> str:
    table = results.table
    estimators = recovered[["quantity", "estimator", "studies", "truth", "bias", "coverage"]]
    failing = table[table["fails"]]
    ours = table[table["kind"].eq("coverage") & table["method"].eq(methods.OURS)]
    under = ours[(ours["rate"] < claims.FEWEST) & ~ours["fails"]].sort_values("rate")
    lines = [
        "Lowest coverage of 95 % intervals over the designs of each family, in percent",
        claims.by_family(table, "lowest").to_string(),
        "\nHighest error on one side, in percent",
        claims.by_family(table, "side").to_string(),
        "\nHighest type-I error of tests at 5 %, in percent",
        claims.highest_error(table).to_string(),
        "",
        choice_text(results),
        "\nPlanted and found through the frames",
        estimators.round(4).to_string(index=False),
        f"\n{len(ours)} designs of {int(ours['runs'].max()):,} studies; all that is above took one "
        f"core {hours:.2f} hours, two cores {hours / 2:.2f}. Margins: "
        f"{claims.deviations(1):.2f} standard errors of a single cell, widened to "
        f"{claims.deviations(len(ours)):.2f} or less for the number of cells, so that the study "
        f"fails by chance in at most {claims.FALSE_ALARM:.0%} of runs for each kind of claim. "
        f"Sign flips of more than ten clusters take {methods.PATTERNS} random patterns.",
        *(f"{'holds' if claim.holds else 'FAILS'}: {claim.text}" for claim in made),
        f"  cells of the bounded mean below {claims.FEWEST:.0%} but within the margin: "
        f"{len(under)}",
        *(
            f"    {row['rate']:.2%}, {claims.describe(row)}"
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
