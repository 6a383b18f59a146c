"""The page docs/intervals.md, generated from tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd

from benchmarks.validity import analyses, claims, next_skill, pilot
from benchmarks.validity.cells import ROOT
from benchmarks.validity.changes import OF_AMOUNTS, OF_VERDICTS
from benchmarks.validity.designs import DELTAS, FOUR, RATES, WEAKNESSES, designs
from benchmarks.validity.instruments import POWER as SHEET_POWER
from benchmarks.validity.methods import ADAPTIVE, BOUNDED, CR2, LEVEL, PLAIN, QUANTITIES
from benchmarks.validity.scan import larger

if TYPE_CHECKING:
    from benchmarks.validity.__main__ import Results

DOCS = ROOT / "docs"
_PLANNED = ["design", "quantity", "planned", "length"]  # columns of the table of planned lengths
SHOWN = (14, 84)  # numbers of cases for which other intervals of a rate are compared
TABLES = (
    "study",
    "levels",
    "scan",
    "larger",
    "families",
    "power",
    "available",
    "pilot",
    "next_skill",
    "analyses",
    "words",
    "changes",
)
_TEMPLATE = Path(__file__).with_name("intervals.md.j2")
_LOGIT = "layout {}, size {}, attempts {}, regime middle, delta {}, tau {}"
# label, quantity, numbers of the design, column of the power
POWER = (
    ("10 cases x 3 attempts, delta .3", DELTAS,
     _LOGIT.format("independent cases", 10, 3, 0.3, 0), "decided"),
    ("14 x 5, delta .27", DELTAS,
     _LOGIT.format("independent cases", 14, 5, 0.27, 0), "decided"),
    ("20 x 3, delta .3", DELTAS,
     _LOGIT.format("independent cases", 20, 3, 0.3, 0), "decided"),
    ("20 x 3, delta .3, beyond a margin of .1", DELTAS,
     _LOGIT.format("independent cases", 20, 3, 0.3, 0), "gained"),
    ("20 x 3, delta .1, beyond a margin of .1 (an error)", DELTAS,
     _LOGIT.format("independent cases", 20, 3, 0.1, 0), "gained"),
    ("5 even skills as clusters, delta .3", DELTAS,
     _LOGIT.format("even skills", 5, 3, 0.3, 1), "decided"),
    ("10 even skills as clusters, delta .3", DELTAS,
     _LOGIT.format("even skills", 10, 3, 0.3, 1), "decided"),
    ("20 lopsided skills as clusters, delta .3", DELTAS,
     _LOGIT.format("lopsided skills", 20, 3, 0.3, 1), "decided"),
    ("four arms, 24 x 2, difference of deltas .3", FOUR,
     "cases 24, rates 0.8/0.4/0.5/0.4, attempts 2", "decided"),
)  # fmt: skip


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of the page by name."""
    cells = results.table
    ours = cells[cells["method"].eq(ADAPTIVE) & cells["level"].eq(LEVEL)]
    main_suite, runs = ours[~ours["weak"]], ours["runs"]
    study = {
        "designs": len(main_suite),
        "planned": sum(cell.family not in WEAKNESSES for cell in designs(1)),
        "weak_designs": int(ours["weak"].sum()),
        "runs": int(runs.min()),
        "most_runs": int(runs.max()),
        "hours": round(results.hours, 1),
        "margin_side": float(
            main_suite.loc[main_suite["words"].str.contains("delta 0.1,"), "too_high"].max()
        ),
    }
    scan = results.scan
    keep = [
        "quantity",
        "attempts",
        "ruled",
        "method",
        "n",
        "level",
        "coverage",
        "up",
        "down",
        "side",
    ]
    return {
        "study": pd.DataFrame([study]),
        "levels": results.levels,
        "scan": scan.loc[scan["level"].eq(LEVEL), keep],
        "larger": larger(),
        "families": claims.families(cells),
        "power": power(cells),
        "available": results.available,
        "pilot": pilot.table(),
    }


def power(cells: pd.DataFrame) -> pd.DataFrame:
    """Tabulate power, coverage and mean width, one row per design of ``POWER`` and method."""
    rows = cells[cells["level"].eq(LEVEL) & ~cells["method"].eq(PLAIN)]
    parts = []
    for label, quantity, words, column in POWER:
        part = rows[rows["quantity"].eq(quantity) & rows["words"].eq(words)]
        part = part[["method", column, "rate", "mean_width"]].dropna()
        parts.append(part.set_axis(["method", "power", "coverage", "width"], axis=1))
        parts[-1].insert(0, "design", label)
    return pd.concat(parts, ignore_index=True)


def write(frames: dict[str, pd.DataFrame], docs: Path = DOCS) -> Path:
    """Write the tables and the page."""
    folder = docs / "intervals"
    folder.mkdir(parents=True, exist_ok=True)
    for name in frames:
        frames[name].to_csv(folder / f"{name}.csv", index=False, float_format="%.5g")
    page = docs / "intervals.md"
    page.write_text(render(folder), encoding="utf-8")
    return page


def render(folder: Path) -> str:
    """Render the page from the tables in ``folder``."""
    read = {name: pd.read_csv(folder / f"{name}.csv") for name in TABLES}
    places = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    places.filters |= {"pct": _percent_text, "more": _relative_change, "num": lambda x: f"{x:.3g}"}
    places.filters["points"] = lambda x: f"{100 * x:+.1f}"
    return (
        places.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(**_template_values(read))
        + "\n"
    )


def _percent_text(value: float, digits: int = 1) -> str:
    return "–" if pd.isna(value) else f"{100 * value:.{digits}f} %"


def _relative_change(ratio: float) -> str:
    """Format a ratio of widths as a change in percent."""
    return "–" if pd.isna(ratio) else f"{100 * (ratio - 1):+.0f} %"


def _template_values(read: dict[str, pd.DataFrame]) -> dict[str, Any]:
    families, scan = read["families"], read["scan"]
    scanned = scan[scan["method"].eq(ADAPTIVE)]
    points = [
        {
            "quantity": quantity,
            "attempts": attempts,
            "ruled": bool(part["ruled"].all()),
            "most": int(part["n"].max()),
            "lowest": part.loc[part["coverage"].idxmin()].to_dict(),
            "side": part.loc[part["side"].idxmax()].to_dict(),
        }
        for (quantity, attempts), part in scanned.groupby(["quantity", "attempts"])
    ]
    single = scan[scan["quantity"].eq(RATES) & scan["attempts"].eq(1) & scan["n"].isin(SHOWN)]
    by_level = read["levels"].to_dict("records")
    of_95 = next(row for row in by_level if row["level"] == LEVEL)
    main_suite = families[~families["weak"]]
    changed = read["changes"][read["changes"]["kind"].isin(["single", "clumped"])]
    audits = read["analyses"]
    of_sheet = audits["quantity"].str.endswith(SHEET_POWER)
    missed = audits[of_sheet].assign(quantity=audits["quantity"].str.removesuffix(SHEET_POWER))
    missed = missed.pivot_table(index="quantity", columns="design", values="side")
    return {
        "pilot": read["pilot"].to_dict("records"),
        "study": read["study"].to_dict("records")[0],
        "c": QUANTITIES[DELTAS].c,
        "levels": by_level,
        "at_95": of_95,
        "points": points,
        "usual": {
            int(n): part.set_index("method")["coverage"].to_dict()
            for n, part in single.groupby("n")
        },
        "larger_lowest": read["larger"].loc[read["larger"]["coverage"].idxmin()].to_dict(),
        "twins_lowest": read["larger"].loc[read["larger"]["size"].eq(2), "coverage"].min(),
        "families": _rows_by_method(main_suite, ["quantity", "family", "designs"]),
        "weak": _rows_by_method(families[families["weak"]], ["quantity", "family", "designs"]),
        "power": _rows_by_method(read["power"].rename(columns={"width": "mean_width"}), ["design"]),
        "following": next_skill.page_rows(read["next_skill"]),
        "next_fewest": next_skill.FEWEST,
        "next_runs": f"{next_skill.MOST_RUNS:,}",
        "available": read["available"].to_dict("records"),
        "analyses": audits[~of_sheet].to_dict("records"),
        "sheet_power": 1 - missed[audits.loc[of_sheet, "design"].unique()],
        "planned": audits.reindex(columns=_PLANNED).dropna().to_dict("records"),
        "longest": analyses.LONGEST,
        "words": read["words"].to_dict("records"),
        "changes": read["changes"].to_dict("records"),
        "of_verdicts": OF_VERDICTS,
        "of_amounts": OF_AMOUNTS,
        "power_price": (changed["shown_before"] - changed["shown"]).max(),
        "fewest": claims.FEWEST,
        "scan_fewest": claims.SCAN_FEWEST,
        "lowest": main_suite.groupby("method")["lowest"].min().to_dict(),
        "weak_lowest": families[families["weak"]].groupby("method")["lowest"].min().to_dict(),
    }


def _rows_by_method(rows: pd.DataFrame, keys: list[str]) -> list[dict[str, Any]]:
    """Return one entry per value of the keys, with the columns of each method under its name."""
    names = {ADAPTIVE: "G", BOUNDED: "F", CR2: "t", PLAIN: "plain"}
    entries = []
    for values, part in rows[rows["method"].isin(names)].groupby(keys, sort=False):
        methods = part.set_index("method").rename(index=names).to_dict("index")
        entries.append(dict(zip(keys, values, strict=True)) | {"plain": None} | methods)
    return entries
