"""Small tables and lines of the first screen of a page; every number is from a frame."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.style import called, quantity

_AMOUNTS = ("cost_usd", "tokens", "minutes")


def skill_cells(row: Row, others: pd.DataFrame | None) -> dict[str, str]:
    """Return the cells of a skill: name, rates, changes, and what is missing."""
    name = say.skill_and_agent(row)
    name += f" ({called(row['condition'])})" if row["condition"] != "skill" else ""
    return {
        "name": name,
        "change": say.change_text(row) or "not known",
        "rate": say.rate(row["rate"]),
        "reference": say.rate(row["reference_rate"]),
        "placebo": say.change_text(say.matching_row(others, row)),
        "lost": say.lost(row).strip(" ()"),
    }


def grader_cells(frames: Mapping[str, pd.DataFrame]) -> list[dict[str, str]]:
    """Return the cells of each grader: agreement, errors, and the raw and the corrected change.

    The list is empty without gold. The two changes are empty if the corrections are by agent.
    """
    if "agreement" not in frames:
        return []
    corrected = frames.get("corrected", pd.DataFrame())
    alone = "grader" in corrected and "agent" not in corrected
    rows = []
    for name, part in frames["agreement"].groupby("grader", sort=False):
        of = say.by_measure(part)
        changes: list[Row | None] = [None, None]
        own = corrected[corrected["grader"].eq(name)] if alone else corrected[:0]
        if len(own):
            changes = say.naive_and_best(own[own["condition"].eq(own["condition"].iloc[0])])
        naive, best = map(say.change_text, changes)
        cells = {"name": called(name), "naive": naive, "corrected": best}
        cells["agreement"] = say.rate_text(of.get("raw_agreement")) or "not known"
        cells["passes"] = say.rate_text(of.get("false_passes"))
        cells["fails"] = say.rate_text(of.get("false_fails"))
        rows.append(cells)
    return rows


def agent_grid(decided: pd.DataFrame, signs: Mapping[str, str]) -> dict[str, list[str]]:
    """Return a table by skill and agent; a cell has the symbol of the verdict and the change.

    The first row has the names of the agents. The table is empty if the rows are not by agent.
    """
    if "agent" not in decided:
        return {}
    agents = list(dict.fromkeys(decided["agent"]))
    grid = {"": [called(agent) for agent in agents]}
    for skill, part in decided.groupby("skill", sort=False):
        rows = {row["agent"]: row for _, row in part.iterrows()}
        grid[called(skill)] = [
            f"{signs.get(str(rows[a]['verdict']), '?')} {say.bare(say.signed(rows[a]['estimate']))}"
            if a in rows
            else ""
            for a in agents
        ]
    return grid


def dimension_sentences(main: pd.DataFrame, dimensions: pd.DataFrame) -> Sentences:
    """Name the dimensions with an adjusted p-value below 0.05, then the other dimensions.

    If no dimension has such a p-value, none is named.
    """
    for condition in main["condition"].unique():
        rows = say.with_estimate(dimensions[dimensions["condition"].eq(condition)])
        if rows.empty:
            continue
        sure = rows["p_adjusted"].lt(0.05)
        parts = [
            f"{row['comprehension_dimension']} ({say.change(row)})"
            for _, row in rows[sure].iterrows()
        ]
        others = [str(name) for name in rows.loc[~sure, "comprehension_dimension"]]
        text = f"A change by {say.treatment(condition)} is shown in {say.listing(parts or [''])}"
        text = text if parts else "No change is shown in a single dimension"
        text += f"; not in {say.listing(others)}" if parts and others else ""
        yield Sentence(f"{text} (p adjusted for {len(rows)} dimensions).")


def _amount_text(amount: str, value: float) -> str:
    """Format dollars, tokens or minutes; a time below two minutes is given in seconds."""
    if amount == "cost_usd":
        dollars = f"{abs(value):,.2f}" if abs(value) >= 0.1 else quantity(abs(value))
        return f"−${dollars}" if value < 0 else f"${dollars}"
    if amount == "tokens":
        return f"{quantity(value, 'count')} tokens"
    return f"{quantity(value)} minutes" if abs(value) >= 2 else f"{60 * value:.0f} seconds"


def price_sentences(price: pd.DataFrame) -> Sentences:
    """Describe cost, tokens and time of an attempt and of a pass, as far as recorded."""
    for agent, part in say.parts_by(price, "agent"):
        about = "".join(f"{called(name)}: " for name in agent)
        for amount in _AMOUNTS:
            rows = say.with_estimate(say.rows_of(part, f"{amount}_per_pass"))
            if rows.empty:
                continue
            parts = [
                f"{_amount_text(amount, row['amount'])} an attempt and "
                f"{_amount_text(amount, row['estimate'])} a pass under {called(row['condition'])}"
                for _, row in rows.iterrows()
            ]
            text = f"{about}{say.listing(parts)}"
            added = say.with_estimate(say.rows_of(part, f"{amount}_per_added_pass"))
            more = [
                f"{_amount_text(amount, row['estimate'])} for each further pass by "
                f"{say.treatment(row['condition'])}"
                for _, row in added.iterrows()
            ]
            yield Sentence(f"{text}{'; ' + say.listing(more) if more else ''}.")
