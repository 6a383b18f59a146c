"""Ids of checks that a tool identifies only by their wording and position."""

from __future__ import annotations

import pandas as pd

from skillcomp.readers.reader import Problems

_CASE = ["skill", "case", "iteration"]
_ATTEMPT = ["condition", "repeat", "agent"]


def with_check_ids(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with a column `check` instead of `position` and `text`.

    A check has one text in all arms of its case. Where texts differ and every attempt has the same
    number of checks, those at one position are taken for the same check, and that is reported.
    Where the numbers differ, checks with other texts are other checks.
    """
    if "text" not in table.columns:
        return table if "check" in table.columns else table.assign(check=None)
    keys = [name for name in _CASE if name in table.columns]
    parts = [_checks_of_case(rows, problems) for _, rows in table.groupby(keys, dropna=False)]
    return pd.concat(parts).sort_index().drop(columns=["position", "text"])


def _checks_of_case(rows: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the rows of one case with ids of checks."""
    graded = rows[rows["text"].notna()]
    if graded.empty:
        return rows.assign(check=None)
    attempt = [name for name in _ATTEMPT if name in rows.columns]
    by_attempt = graded.groupby(attempt, dropna=False)["text"].agg(list)
    lists = {tuple(texts) for texts in by_attempt}
    same_texts = len({frozenset(texts) for texts in lists}) == 1
    unique = all(len(set(texts)) == len(texts) for texts in lists)
    if same_texts and unique:
        first = by_attempt.iloc[0]  # an order of their own does not matter
        numbers = {text: at for at, text in enumerate(first, start=1)}
        check = rows["text"].map(numbers)
    elif len({len(texts) for texts in lists}) == 1:
        case = rows["case"].iloc[0]
        n = sum(len(set(texts)) > 1 for texts in zip(*lists, strict=True))
        done = "taken for the same check by its position; read both texts"
        problems.add(
            "text", f"case '{case}': a check is worded differently in two attempts", done, n
        )
        check = rows["position"]
    else:
        return rows.assign(check=rows["text"])
    others = rows["check"] if "check" in rows.columns else None
    return rows.assign(
        check=check.astype("Int64").astype("str").where(rows["text"].notna(), others)
    )
