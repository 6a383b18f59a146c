"""Every public analysis gives the same numbers whatever dtypes hold the same values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from analyses import ANALYSES, LONG, Frames, frames, numbers, plain
from pandas.testing import assert_frame_equal

import skillcomp as sc


def as_object_with_na(values: pd.Series) -> pd.Series:
    return values.astype("object").where(values.notna(), pd.NA)


def as_wide_category(values: pd.Series) -> pd.Series:
    """Categories that no row has stand beside those that rows have."""
    changed = values.astype("category")
    if changed.cat.categories.dtype in ("str", "object"):
        changed = changed.cat.add_categories(["no row has it"])
    return changed


def as_sparse(values: pd.Series) -> pd.Series:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return values
    if values.dtype == "bool" or pd.api.types.is_numeric_dtype(values.dtype):
        floats = values.astype("object").where(values.notna(), np.nan).astype("float64")
        return floats.astype(pd.SparseDtype("float64", np.nan))
    return values.astype("object").where(values.notna(), None).astype(pd.SparseDtype("object"))


def as_decimal(values: pd.Series) -> pd.Series:
    whole = pd.api.types.is_integer_dtype(values.dtype)
    return values.map(lambda n: None if pd.isna(n) else Decimal(int(n))) if whole else values


def as_numpy_scalars(values: pd.Series) -> pd.Series:
    def scalar(value: object) -> object:
        if value is None or pd.isna(value):
            return None
        if isinstance(value, bool | np.bool_):
            return np.bool_(value)
        if isinstance(value, str):
            return np.str_(value)
        return np.float64(value) if isinstance(value, int | float) else value

    return pd.Series([scalar(value) for value in values], dtype="object")


FORMS: dict[str, Callable[[pd.Series], pd.Series]] = {
    "arrow": lambda s: s.convert_dtypes(dtype_backend="pyarrow"),
    "string[python]": lambda s: s.astype(pd.StringDtype("python")) if s.dtype == "str" else s,
    "wide category": as_wide_category,
    "object with NA": as_object_with_na,
    "numpy scalars": as_numpy_scalars,
    "sparse": as_sparse,
    "decimal": as_decimal,
}
# each column in another form: two turns bring every analysis under nearly all of them
MIXED = ["mixed 0", "mixed 1"]


def changed_by(form: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns hold the same values in another dtype, under another index."""
    forms = list(FORMS.values())
    turn = int(form.split()[1]) * 5 if form in MIXED else None
    columns = {
        name: (FORMS[form] if turn is None else forms[(k + turn) % len(forms)])(frame[name])
        for k, name in enumerate(frame.columns)
    }
    return pd.DataFrame(columns).set_axis(range(5, 5 + len(frame)))


@pytest.fixture(scope="module", params=[*FORMS, *MIXED] if LONG else MIXED[:1])
def changed(request: pytest.FixtureRequest) -> Frames:
    return {name: changed_by(request.param, frame) for name, frame in frames().items()}


# these read or write files, take no frame of the study, or return a name
OTHERS = {
    *("planning.cost_estimate", "planning.cost_total", "reliability.join_labels"),
    *("reliability.label_sheet", "reliability.read_labels", "reliability.contrast_counts"),
    *("overlap.positives", "overlap.positives_found", "overlap.spans"),  # texts, made or shown
    "reliability.default_grader",
}


def test_every_public_analysis_is_among_those_tried() -> None:
    modules = ["overlap", "deltas", "transfer", "skillverdicts", "reliability", "bias"]
    modules += ["correction", "planning", "triggers"]
    public = {
        f"{module}.{name}"
        for module in modules
        for name in getattr(sc, module).__all__
        if inspect.isfunction(getattr(getattr(sc, module), name))
    }
    assert public - {name.split()[0] for name in ANALYSES} == OTHERS


@pytest.mark.parametrize("name", ANALYSES if LONG else list(ANALYSES)[4::8])
def test_the_same_values_in_other_dtypes_give_the_same_numbers(name: str, changed: Frames) -> None:
    result = numbers(ANALYSES[name](changed))
    assert_frame_equal(result, numbers(plain(name)), check_dtype=False, rtol=0, atol=1e-12)
