"""Reference labels of a researcher's own table, in a column or in a separate frame."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import is_among
from skillcomp.frames.reference_labels import ITEM
from skillcomp.frames.table_reader import (
    TRY,
    Change,
    Columns,
    TableReader,
    made_ids,
    row_tuples,
)


def labels_inside(columns: Columns, rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Return the labels in the gold column of the table, one row per item and labeller."""
    if "gold" not in columns:
        return empty("gold")
    labels = rows[ITEM].assign(passed=reader.as_verdicts(columns["gold"], "gold"))
    labels = labels.assign(**_labeller_facts(columns, reader, needed=False))
    labels["labeller"] = labels["labeller"].fillna("own")
    labels = labels[labels["passed"].notna()].drop_duplicates()
    twice = labels.loc[labels.duplicated([*ITEM, "labeller"]), ITEM]
    if len(twice):
        item = twice.iloc[0].to_dict()
        reader.add_problem("gold", f"differs between rows of one item; the first: {item}.")
    return labels


def _labeller_facts(columns: Columns, reader: TableReader, *, needed: bool) -> dict[str, Any]:
    """Return the labellers ("own" without a column of them), and their kind and family."""
    facts: dict[str, Any] = {"labeller": "own"}
    for name in ("labeller", "labeller_kind", "labeller_family"):
        if name in columns:
            is_needed = needed and name == "labeller"
            facts[name] = reader.as_texts(columns[name], name, needed=is_needed)
    return facts


def labels_beside(
    gold: pd.DataFrame,
    labellers: Mapping[str, Hashable | None],
    rows: pd.DataFrame,
    reader: TableReader,
) -> pd.DataFrame:
    """Return the labels of a separate frame, matched by the columns that identify an item."""
    keys: tuple[str, ...] = ("skill", "case", "condition", "agent", "repeat")
    if "attempt" in reader.names:
        keys = ("attempt",)
    elif reader.numbered:
        reader.problems.append(
            "gold: several repeats could have this label; name repeat= or "
            "attempt=, a column of both."
        )
        return empty("gold")
    names = {r: reader.names[r] for r in (*keys, "check", "passed") if r in reader.names}
    try:
        other = reader.beside(gold, {**names, **labellers})
        columns = other.columns()
    except FrameError as error:
        raise FrameError(f"gold: {error}") from None
    items = other.keys(columns)
    items["repeat"] = other.as_tries(columns["repeat"], again=True) if "repeat" in columns else 1
    if "attempt" in columns:
        items["attempt_id"] = other.as_texts(columns["attempt"], "attempt")
    else:
        of_try = dict(zip(row_tuples(rows, TRY), rows["attempt_id"], strict=True))
        ids = map(of_try.get, row_tuples(items, TRY), made_ids(items))
        items["attempt_id"] = pd.Series(list(ids), dtype="str")
    items = items.assign(passed=other.as_verdicts(columns["passed"], "passed"))
    items = items.assign(**_labeller_facts(columns, other, needed=True))
    for name in ("inclusion_probability", "borderline", "note"):
        if name in gold.columns:
            items[name] = gold[name].array
    reader.problems += [f"gold: {problem}" for problem in other.problems]
    reader.unused = {key: value for key, value in reader.unused.items() if key in other.unused}
    # gold may cover a single condition, so leave out the warning that no condition is the baseline
    changes = [change for change in other.changes if "none is 'baseline'" not in change.found]
    reader.changes += [c._replace(place=f"gold: {c.place}") for c in changes]
    strays = items.loc[~is_among(items, rows, ITEM), ITEM]
    if len(strays):
        n, first = f"{len(strays)} of {plural(len(gold), 'label')}", strays.iloc[0].to_dict()
        stray = f"{n} match nothing in the table"
        reader.changes.append(Change("gold", stray, f"the first: {first}", len(strays)))
    return items[[c for c in items.columns if c in CONTRACTS["gold"].columns]]
