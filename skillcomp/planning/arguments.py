"""Checks of the numbers that a plan is asked with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from skillcomp.errors import StudyError

_T = TypeVar("_T")


def number(name: str, value: Any, *, least: float, most: float, open_: bool = False) -> float:
    """Return a number of a range, which excludes its ends where it is open.

    Raises
    ------
    StudyError
        If it is no number, or outside.
    """
    inside = False
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        inside = bool(least < value < most if open_ else least <= value <= most)
    if not inside:
        if math.isinf(most):
            allowed = f"a number of at least {least:g}"
        else:
            allowed = f"{'strictly between' if open_ else 'from'} {least:g} "
            allowed += f"{'and' if open_ else 'to'} {most:g}"
        raise StudyError(f"{name}: found {value!r}; allowed: {allowed}.")
    return float(value)


def level(ci_level: Any) -> float:
    """Return the level of an interval."""
    return number("ci_level", ci_level, least=0, most=1, open_=True)


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return a whole number, numpy's among them.

    Raises
    ------
    StudyError
        If it is not whole, or below the least.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise StudyError(f"{name}: found {value!r}; allowed: a whole number of at least {least}.")
    return int(value)


def wholes(name: str, values: Any) -> list[int]:
    """Return one or several whole numbers of at least 1 as a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [whole(name, values)]
    return _some(name, [whole(name, one) for one in values])


def sizes_of(name: str, values: Any) -> list[float]:
    """Return one or several effects in rate units as a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [number(name, values, least=-2, most=2)]
    return _some(name, [number(name, one, least=-2, most=2) for one in values])


def _some(name: str, found: list[_T]) -> list[_T]:
    if not found:
        raise StudyError(f"{name}: found nothing; allowed: at least one number.")
    return found
