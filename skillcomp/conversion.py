"""Columns brought to their dtype where nothing can be lost; what stands in the way is named."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp.shapes import TIME

__all__ = ["Unfit", "convert", "show"]

_MAX_SHOWN = 5  # distinct bad values named in a message


class Unfit(Exception):
    """A column cannot be brought to its dtype without loss."""


def show(values: pd.Series) -> str:
    """Name the distinct bad values and how many rows hold them."""
    distinct = list(dict.fromkeys(values.tolist()))
    shown = ", ".join(_literal(v) for v in distinct[:_MAX_SHOWN])
    more = f" and {len(distinct) - _MAX_SHOWN} more" if len(distinct) > _MAX_SHOWN else ""
    rows = "1 row" if len(values) == 1 else f"{len(values)} rows"
    return f"{shown}{more} ({rows})"


def _literal(value: Any) -> str:
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= 60 else text[:57] + "..."


def convert(values: pd.Series, dtype: Any) -> pd.Series:
    """Bring a column to its dtype where nothing is lost, else say which values stand in the way."""
    if str(values.dtype) == dtype:
        return values
    if (dtype, values.dtype.kind) in {("boolean", "b"), ("Int64", "i"), ("float64", "i")}:
        converted: pd.Series = values.astype(dtype)
        return converted
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = pd.Series(values.astype(values.cat.categories.dtype))
    present = values.dropna()
    if present.empty:
        absent: pd.Series = pd.Series(None, index=values.index, dtype=dtype)
        return absent
    match dtype:
        case "str":
            return _to_text(values, present)
        case "boolean":
            return _to_boolean(values, present)
        case "Int64" | "float64":
            return _to_number(values, present, dtype)
        case _:
            return _to_time(values, present)


def _to_text(values: pd.Series, present: pd.Series) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype):
        return values.astype("str")
    bad = present[~present.map(lambda v: isinstance(v, str | int) and not isinstance(v, bool))]
    if len(bad):
        raise Unfit(f"found {show(bad)}; expected text.")
    return present.map(str).astype("str").reindex(values.index)


def _to_boolean(values: pd.Series, present: pd.Series) -> pd.Series:
    fits = present.map(lambda v: not isinstance(v, str) and v in (0, 1))
    if not fits.all():
        raise Unfit(f"found {show(present[~fits.astype(bool)])}; allowed: True, False or missing.")
    return present.astype(bool).astype("boolean").reindex(values.index)


def _to_number(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype) or present.map(type).isin([str, bool]).any():
        raise Unfit(f"found {show(present)}; expected numbers.")
    numbers = pd.to_numeric(present, errors="coerce").astype("float64")
    bad = present[numbers.isna() | ((numbers % 1 != 0) if dtype == "Int64" else False)]
    if len(bad):
        what = "whole numbers" if dtype == "Int64" else "numbers"
        raise Unfit(f"found {show(bad)}; expected {what}.")
    if dtype == "float64":
        return numbers.reindex(values.index)
    return present.astype("Int64").reindex(values.index)


def _to_time(values: pd.Series, present: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values.dtype):
        raise Unfit(f"found {show(present)}; expected times (ISO 8601).")
    times = pd.to_datetime(present, errors="coerce", utc=True, format="ISO8601")
    bad = present[times.isna()]
    if len(bad):
        raise Unfit(f"found {show(bad)}; expected times (ISO 8601).")
    return times.astype(TIME).reindex(values.index)
