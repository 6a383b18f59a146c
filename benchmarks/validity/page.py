"""The page docs/intervals.md, generated from tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from benchmarks.validity import claims, pilot
from benchmarks.validity.cells import ROOT
from benchmarks.validity.designs import DELTAS, INDEPENDENT, RATES
from benchmarks.validity.methods import BOOTSTRAP, CR2, OURS, QUANTITIES
from benchmarks.validity.scan import larger

DOCS = ROOT / "docs"
SHOWN = (14, 84)  # numbers of cases for which other intervals of a rate are compared
COSTLY = 1.2  # the page names families in which the interval is wider than CR2 t by this ratio
TABLES = ("study", "choice", "scan", "larger", "families", "power", "pilot")
_TEMPLATE = Path(__file__).with_name("intervals.md.j2")


def tables(cells: pd.DataFrame, chosen: pd.DataFrame, scan: pd.DataFrame, hours: float) -> dict[str, pd.DataFrame]:  # fmt: skip  # noqa: E501
    """Return the tables of the page by name."""
    covered = cells[cells["kind"].eq("coverage")]
    study = {
        "designs": len(cells.drop_duplicates(claims.KEYS)),
        "runs": int(covered["runs"].max()),
        "hours_two_cores": round(hours / 2, 1),
        "margin": claims.FEWEST - covered.loc[covered["method"].eq(OURS), "limit"].min(),
    }
    used = scan["c"].isna() | np.isclose(
        scan["c"], scan["quantity"].map({name: quantity.c for name, quantity in QUANTITIES.items()})
    )
    keep = ["quantity", "method", "n", "c", "coverage", "up", "down", "side"]
    return {
        "study": pd.DataFrame([study]),
        "choice": chosen,
        "scan": scan.loc[used, keep],
        "larger": larger(),
        "families": claims.families(cells),
        "power": power(covered),
        "pilot": pilot.table(),
    }


def power(covered: pd.DataFrame) -> pd.DataFrame:
    """Compare power and mean width with those of CR2 t for independent cases."""
    plain = covered[covered["quantity"].eq(DELTAS) & covered["family"].eq(INDEPENDENT)]
    middle = plain["words"].str.contains("middle") & ~plain["words"].str.contains("delta 0,")
    plain = plain[middle & plain["method"].isin([OURS, CR2])]
    wide = plain.pivot_table(
        index="words", columns="method", values=["mean_width", "decided"], sort=False
    )
    table = pd.DataFrame(
        {
            "design": [design.removeprefix(f"layout {INDEPENDENT}, ") for design in wide.index],
            "width": wide["mean_width", OURS].to_numpy(),
            "width_t": wide["mean_width", CR2].to_numpy(),
            "power": wide["decided", OURS].to_numpy(),
            "power_t": wide["decided", CR2].to_numpy(),
        }
    )
    table["design"] = (
        table["design"]
        .str.replace("size ", "cases ")
        .str.replace(", regime middle", "")
        .str.removesuffix(", tau 0")
    )
    return table.sort_values(
        "design", key=lambda names: names.map(_padded_numbers), ignore_index=True
    )


def _padded_numbers(design: str) -> str:
    """Pad numbers with zeros, so that 30 sorts before 100."""
    return re.sub(r"[0-9]+", lambda match: match[0].zfill(6), design)


def write(frames: dict[str, pd.DataFrame], docs: Path = DOCS) -> Path:
    """Write the tables and the page."""
    folder = docs / "intervals"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
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
    families, scan, choice = read["families"], read["scan"], read["choice"]
    ours = families[families["method"].eq(OURS)]
    table = []
    for _, row in ours.iterrows():
        same = families[
            families["quantity"].eq(row["quantity"]) & families["family"].eq(row["family"])
        ]
        of = same.set_index("method")
        other = {
            key: float(of["lowest"].get(name, np.nan))
            for key, name in (("t", CR2), ("bootstrap", BOOTSTRAP))
        }
        against_t = row["mean_width"] / of["mean_width"].get(CR2, np.nan)
        about = {"against_t": against_t, "margin": float(read["study"]["margin"].iloc[0])}
        table.append({**row.to_dict(), **other, **about})
    points = {
        quantity: {
            "lowest": part.loc[part["coverage"].idxmin()].to_dict(),
            "side": part.loc[part["side"].idxmax()].to_dict(),
            "most": int(part["n"].max()),
        }
        for quantity, part in scan[scan["method"].eq(OURS)].groupby("quantity")
    }
    usual = {
        int(n): part.set_index("method")["coverage"].to_dict()
        for n, part in scan[scan["quantity"].eq(RATES) & scan["n"].isin(SHOWN)].groupby("n")
    }
    return {
        "pilot": read["pilot"].to_dict("records"),
        "study": read["study"].to_dict("records")[0],
        "c": {name: used.c for name, used in QUANTITIES.items()},
        "quantities": claims.ORDER,
        "choice": {name: part.to_dict("records") for name, part in choice.groupby("quantity")},
        "points": points,
        "larger_lowest": read["larger"].loc[read["larger"]["coverage"].idxmin()].to_dict(),
        "twins_lowest": read["larger"].loc[read["larger"]["size"].eq(2), "coverage"].min(),
        "usual": usual,
        "families": table,
        "costly": _families_where_t_is_narrower(table),
        "power": read["power"].to_dict("records"),
        "fewest": claims.FEWEST,
        "scan_fewest": claims.SCAN_FEWEST,
        "scan_side": claims.SCAN_SIDE,
        "t_lowest": float(families.loc[families["method"].eq(CR2), "lowest"].min()),
        "lowest": float(ours["lowest"].min()),
        "highest_side": float(ours["side"].max()),
    }


def _families_where_t_is_narrower(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the families in which CR2 t has its coverage and the interval is much wider."""
    rows = [
        row
        for row in table
        if row["t"] >= claims.FEWEST - row["margin"] and row["against_t"] > COSTLY
    ]
    return sorted(rows, key=lambda row: -row["against_t"])
