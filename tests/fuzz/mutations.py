"""Ways in which a frame or a file comes out broken, each drawn by a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

VALUES: list[Any] = [
    *(None, np.nan, pd.NA, pd.NaT, "", " ", "x", "nan", "true", "1", b"x", 0, 1, -1, 2, 1.5, -0.0),
    *(True, False, np.inf, -np.inf, 1e308, 2**63, 10**400, 1 + 2j, Decimal("0.5"), object),
    *([], [1, 2], (1, 2), {"a": 1}, {1}, np.array([1, 2]), np.float32(0.1), pd.Timestamp(0)),
    *("ok", "malformed", "baseline", "skill", "C1", "far", "positive", "\ud800", "a" * 10_000),
]
DTYPES = ["object", "category", "float64", "str", "Int64", "boolean", "complex128", "int8"]
THINGS: list[Any] = [None, [], {}, "frame", 3, np.zeros((2, 2)), pd.Series([1, 2])]


def _cells(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    """Put an odd value into some cells of a column, or all."""
    name, value = rng.choice(list(frame.columns)), rng.choice(VALUES)
    cells = list(frame[name].astype("object"))
    share = rng.choice([0.02, 0.5, 1.0])
    cells = [value if rng.random() < share else cell for cell in cells]
    out = pd.Series([None] * len(cells), dtype="object", index=frame.index)
    for i, cell in enumerate(cells):
        out.iat[i] = cell
    return frame.assign(**{str(name): out})


def _dtype(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    name = rng.choice(list(frame.columns))
    try:
        return frame.assign(**{str(name): frame[name].astype(rng.choice(DTYPES))})
    except Exception:  # pandas itself cannot
        return frame


def _swap(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    """Put the values of a column into another."""
    one, other = rng.choice(list(frame.columns)), rng.choice(list(frame.columns))
    return frame.assign(**{str(one): frame[other]})


def _rename(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    name = rng.choice(list(frame.columns))
    return frame.rename(
        columns={name: rng.choice([str(name).upper(), 3, None, ("a", "b"), "gold"])}
    )


def _extra(frame: pd.DataFrame, rng: random.Random) -> pd.DataFrame:
    names = ["gold", "cluster", "estimate", "share", "rate", "unit", "n", "level_0", "index"]
    names += ["_merge", "passed_gold", "passed_x", "verdict", "sources", "code", "weight"]
    names += ["truth", "label"]
    return frame.assign(**{rng.choice(names): rng.choice([1, "a", None, True])})


MUTATIONS: list[Callable[[pd.DataFrame, random.Random], Any]] = [
    _cells,
    _cells,
    _cells,
    _dtype,
    _swap,
    _rename,
    _extra,
    lambda f, rng: f.drop(columns=rng.choice(list(f.columns))),
    lambda f, rng: f.iloc[:0],
    lambda f, rng: f.iloc[: rng.choice([1, 2, 3])],
    lambda f, rng: f.sample(frac=0.3, random_state=rng.randrange(1000)),
    lambda f, rng: pd.concat([f, f.iloc[: rng.choice([1, 5])]]),
    lambda f, rng: f.set_axis([0] * len(f)),
    lambda f, rng: f.set_index(list(f.columns[: rng.choice([1, 2])])),
    lambda f, rng: pd.concat([f, f[[f.columns[0]]]], axis=1),
    lambda f, rng: f.T,
    lambda f, rng: f.set_axis(pd.MultiIndex.from_product([["a"], f.columns]), axis=1),
    lambda f, rng: rng.choice(THINGS),
]


def mutated(frame: pd.DataFrame, rng: random.Random) -> Any:
    """Return a frame that one or two things have happened to."""
    out: Any = frame
    for _ in range(rng.choice([1, 1, 1, 2])):
        if isinstance(out, pd.DataFrame) and len(out.columns):
            with suppress(ValueError, TypeError, IndexError, KeyError):  # pandas itself cannot
                out = rng.choice(MUTATIONS)(out, rng)
    return out
