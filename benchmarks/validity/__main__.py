"""Run the coverage study: ``python -m benchmarks.validity [--quick] [--page]``."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.validity import (
    analyses,
    available,
    changes,
    claims,
    methods,
    next_skill,
    page,
    scan,
    studies,
    words,
)
from benchmarks.validity.cells import ROOT, work
from benchmarks.validity.designs import designs
from skillcomp import style

RUNS, STUDIES = 4000, 200
QUICK_RUNS, QUICK_STUDIES = 400, 16
AVAILABLE_RUNS = 1000

SHOWN = 5  # designs to print
DRAWN = (methods.ADAPTIVE, methods.BOUNDED, methods.CR2)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, write tables and figure, print claims; return 1 if a claim fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity")
    parser.add_argument("--quick", action="store_true", help="fewer runs, wider margins: minutes")
    parser.add_argument("--page", action="store_true", help="write docs/intervals.md as well")
    parser.add_argument("--runs", type=int, help=f"studies a cell (default {RUNS})")
    parser.add_argument("--studies", type=int, help=f"through the frames (default {STUDIES})")
    parser.add_argument("--jobs", type=int, default=-1, help="processes (default: one a core)")
    parser.add_argument("--out", type=Path, help="folder (default report/validity)")
    options = parser.parse_args(argv)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    n_studies = options.studies or (QUICK_STUDIES if options.quick else STUDIES)
    out = options.out or ROOT / "report" / "validity" / ("quick" if options.quick else "")
    try:
        results = intervals(runs, out, jobs=options.jobs, quick=options.quick)
        docs = page.DOCS if options.page else None
        following = next_skill.study(runs, out, jobs=options.jobs, docs=docs)
        audits = analyses.study(runs, out, jobs=options.jobs, docs=docs)
        spoken = words.study(runs, out, jobs=options.jobs, docs=docs)
        moved = changes.study(runs, out, jobs=options.jobs, docs=docs)
        if options.page:
            print(f"wrote {write_page(results, out)}")
            return 0
        failed = study(results, n_studies, out, jobs=options.jobs, audits=audits)
        failed = failed or next_skill.report(following) or words.report(spoken)
        return failed or changes.report(moved)
    except KeyboardInterrupt:
        print(f"Stopped; finished cells are kept in {out / 'cells'}, and the next run goes on.")
        return 130


@dataclass(frozen=True)
class Results:
    """Tables of the designs, of the scans and of available power, and their hours on one core."""

    table: pd.DataFrame
    scan: pd.DataFrame
    levels: pd.DataFrame
    available: pd.DataFrame
    hours: float


def intervals(runs: int, out: Path, *, jobs: int = -1, quick: bool = False) -> Results:
    """Run all designs and scans, and write their tables."""
    folder = out / "cells"
    points = scan.scans(quick)
    skills = [available.Available(n, 500 if quick else AVAILABLE_RUNS) for n in available.SKILLS]
    shown, t1 = work(skills, available.run, folder, jobs=jobs, title="available power")
    cells, t2 = work(designs(runs), methods.run, folder, jobs=jobs, title="designs")
    scanned, t3 = work(points, scan.run, folder, jobs=jobs, title="exact scans")
    table, points_table = claims.table(cells), claims.scanned(scanned)
    rows = pd.DataFrame([row for _, rows in shown for row in rows])
    by_level = claims.levels(table, points_table)
    results = Results(table, points_table, by_level, rows, (t1 + t2 + t3) / 3600)
    for name in ("table", "scan", "levels", "available"):
        getattr(results, name).to_csv(out / f"{name}.csv", index=False)
    return results


def study(results: Results, n_studies: int, out: Path, *, jobs: int, audits: pd.DataFrame) -> int:
    """Send whole studies through the frames, draw and report; return 1 if a claim fails."""
    batches = studies.batches(n_studies)
    through, seconds = work(
        batches, studies.run, out / "cells", jobs=jobs, title="studies through the frames"
    )
    recovered = claims.recovery(pd.DataFrame([row for _, rows in through for row in rows]))
    recovered.to_csv(out / "recovery.csv", index=False)
    made = [
        *claims.claims(results.table, results.levels),
        claims.available_claim(results.available),
        analyses.claim(audits),
        *claims.recovered_claims(recovered),
    ]
    made_tables = page.tables(results)
    draw(made_tables["families"], made_tables["power"], out / "validity")
    print(_report_text(results, recovered, made, results.hours + seconds / 3600))
    print(audits.drop(columns=["limit", "side_limit"]).round(4).to_string(index=False))
    return 0 if all(claim.holds for claim in made) else 1


LOOKS = {
    methods.ADAPTIVE: ("o", "#0072b2"), methods.BOUNDED: ("s", "#7f7f7f"),
    methods.CR2: ("^", "#d55e00"),
}  # fmt: skip


def draw(families: pd.DataFrame, power: pd.DataFrame, path: Path) -> Figure:
    """Draw the protection and the power of three intervals side by side.

    Protection is the lowest coverage in the main suite and in each family of weakness designs.
    """
    mpl.use("agg")
    style.use()
    weak = families["weak"].astype(bool)
    named = families.assign(group=families["family"].where(weak, "main suite"))
    lowest = named.groupby(["group", "method"], sort=False)["lowest"].min().unstack("method")
    shown = power[~power["design"].str.contains("an error")]
    found = shown.pivot(index="design", columns="method", values="power")
    found = found.loc[shown["design"].unique()]
    fig, axes = style.figure("page", ncols=2, height=3.4)
    for ax, table, label in (
        (axes[0], lowest, "Lowest coverage (%)"),
        (axes[1], found, "Power (%)"),
    ):
        places = range(len(table))[::-1]
        for method, up in zip(DRAWN, (0.18, 0.0, -0.18), strict=True):
            marker, colour = LOOKS[method]
            heights = [place + up for place in places]
            ax.plot(100 * table[method], heights, marker, color=colour, label=method)
        ax.set_yticks(places, [textwrap.fill(name, 26) for name in table.index])
        ax.set_ylim(-0.6, len(table) - 0.4)
        ax.set_xlim(25 if ax is axes[0] else -4, 104)
        ax.set_xlabel(label)
        ax.grid(axis="y", linewidth=0.4)
    line = axes[0].axvline(100 * claims.FEWEST, color="black", linestyle="--", linewidth=1)
    line.set_label(f"rule for the main suite ({claims.FEWEST:.0%}; nominal level 95%)")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    style.save(fig, path, data={"protection": lowest.reset_index(), "power": shown})
    return fig


def write_page(results: Results, out: Path, docs: Path = page.DOCS) -> Path:
    """Write the page with its tables and its figure."""
    frames = page.tables(results)
    fig = draw(frames["families"], frames["power"], out / "validity")
    written = page.write(frames, docs)
    # a small file, because it is committed
    fig.savefig(docs / "intervals" / "tradeoff.png", dpi=130, metadata={"Software": None})
    return written


def _report_text(
    results: Results, recovered: pd.DataFrame, made: Sequence[claims.Claim], hours: float
) -> str:
    table = results.table
    estimators = recovered[["quantity", "estimator", "studies", "truth", "bias", "coverage"]]
    ours = table[table["method"].eq(methods.ADAPTIVE) & table["level"].eq(methods.LEVEL)]
    main_suite = ours[~ours["weak"]]
    lines = [
        "Lowest coverage of 95 % intervals over the designs of each family, in percent",
        claims.by_family(table, "lowest").to_string(),
        "\nHighest error on one side, in percent",
        claims.by_family(table, "side").to_string(),
        "\nWorst coverage by level, with the factor by which small p-values can be too small",
        results.levels.round(4).to_string(index=False),
        "\nPower, and width of 95 % intervals",
        page.power(table).round(3).to_string(index=False),
        "\nSmallest delta that nine of ten studies show, by number of skills",
        results.available.to_string(index=False),
        "\nPlanted and found through the frames",
        estimators.round(4).to_string(index=False),
        f"\n{len(main_suite)} designs of the main suite and {int(ours['weak'].sum())} weakness "
        f"designs of {int(ours['runs'].min()):,} to {int(ours['runs'].max()):,} studies; all that "
        f"is above took one core {hours:.2f} hours, two cores {hours / 2:.2f}.",
        *(f"{'holds' if claim.holds else 'FAILS'}: {claim.text}" for claim in made),
        "  lowest designs of the main suite:",
        *(
            f"    {row['rate']:.2%} of {row['runs']:,}, {claims.describe(row)}"
            for _, row in main_suite.sort_values("rate").head(SHOWN).iterrows()
        ),
        *(
            f"  fails at {row['level']:.0%}: coverage {row['rate']:.2%}, one side "
            f"{row['side']:.2%}, {claims.describe(row)}"
            for _, row in table[table["fails"]].iterrows()
        ),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
