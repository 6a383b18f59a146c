"""pass@k (at least one of k attempts passes) and pass^k (all k attempts pass)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import Units, compared_units, first_names
from skillcomp.deltas.condition_rates import MISSING_OF_RATE, contrasts_of_rates
from skillcomp.deltas.paired_deltas import DELTA_COLUMNS, contrast_rows, paired_units
from skillcomp.frames.estimates import By, estimates, listed
from skillcomp.stats import passk
from skillcomp.stats.results import NAN, join_notes

_PASS_K = {"pass_at_k": passk.pass_at_k, "pass_hat_k": passk.pass_hat_k}


def pass_at_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Cases with fewer than ``k`` attempts that have an outcome are left out;
        the note names them, and the largest ``k`` that all cases allow.
    k : int
        Number of attempts.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    reference : str, optional
        A condition, such as ``"baseline"``, from which the paired changes of the other conditions
        are estimated. Default: estimate the probability under each condition.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns (measure ``pass_at_k``), ``k``,
        ``n_short`` (cases left out), and the columns of :func:`skillcomp.deltas.rates` about
        missing attempts. With ``reference``, one row per ``by`` and other condition, with the
        measure ``delta_pass_at_k`` and the columns of :func:`skillcomp.deltas.paired`.

    See Also
    --------
    pass_hat_k : The probability that all of ``k`` attempts pass.

    Notes
    -----
    The estimate of a case is unbiased for any number of attempts that is at least ``k``. If the
    attempts were repeated until one passed, a case that stopped at its first pass counts as 1 if
    ``k`` is at least its number of attempts, and otherwise as 0; ``note`` gives their number. The
    attempts were repeated if, under a condition, at least three cases have several attempts and in
    nine of ten of these only the last attempt passes. The mean
    over cases, and the mean of the differences on the same cases, have the ``"bounded"`` interval
    of :func:`skillcomp.stats.bounded.bounded_mean`, which assumes nothing about unseen cases.

    Examples
    --------
    Four cases with three attempts each; ``passes`` has the number of passes of each case.

    >>> import pandas as pd
    >>> passes = {"baseline": [0, 1, 0, 2], "skill": [1, 3, 2, 3]}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": j < n}
    ...     for c, cases in passes.items() for i, n in enumerate(cases) for j in range(3)])
    >>> change = pass_at_k(frame, k=2, reference="baseline")
    >>> change[["condition", "measure", "estimate", "rate"]].round(2)
      condition          measure  estimate  rate
    0     skill  delta_pass_at_k       0.5  0.92
    """
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_at_k")


def pass_hat_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that all of ``k`` attempts pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_hat_k")


def _pass_k(
    outcomes: pd.DataFrame, k: int, by: By, reference: str | None, ci_level: float, measure: str
) -> pd.DataFrame:
    names, what = listed(by, "condition"), f"deltas.{measure}"
    of_case = _PASS_K[measure]
    of_case([], [], k)  # this call raises an error if k is not a positive whole number
    if reference is None:
        _, units = compared_units(outcomes, names, what)
        contrasts = contrasts_of_rates(units)
        name, extra = measure, MISSING_OF_RATE
    else:
        units, contrasts = paired_units(outcomes, names, what, reference=reference)
        name, extra = f"delta_{measure}", DELTA_COLUMNS
    numbers = units.numbers
    retried = (numbers["retried"] > 0) & (measure == "pass_at_k")
    at_k = _units_at_k(units, k, of_case, retried, is_paired=reference is not None)
    # the attempts at a case that stopped at its first pass are enough for any k
    n_at_k = np.where(retried, np.maximum(numbers["n"], k), numbers["n"])
    units = replace(units, numbers=numbers | {"n": n_at_k})
    # the adaptive rule is not defined for sets of k attempts, so use the bounded interval
    rows = contrast_rows(name, at_k, contrasts, ci_level=ci_level, interval="bounded")
    for each, contrast in zip(rows, contrasts, strict=True):
        part = units.part(contrast)
        n, label = pd.Series(part.numbers["n"].min(axis=1)), pd.Series(part.facts["label"])
        note = each["note"].replace("no outcome in", f"fewer than {k} outcomes in")
        each |= {"k": k, "n_short": int(n.lt(k).sum())}
        if n.lt(k).any():
            largest = int(n.min())
            largest_k = (
                f"the largest k for all cases is {largest}" if largest else "no k suits all cases"
            )
            short = first_names(label[n.lt(k)].to_numpy())
            few = f"with fewer than {k} attempts that have an outcome: {short}"
            note = join_notes(note, f"left out, {few}; {largest_k}")
        each["note"] = note
        each["method"] = f"pass{'@' if measure == 'pass_at_k' else '^'}{k}, {each['method']}"
    columns = [*extra, "k", "n_short"]
    keys = [*names, "condition"]
    return estimates(rows, by=keys, extra=columns, outcomes=outcomes, reference=reference)


def _units_at_k(
    units: Units, k: int, of_case: Callable[..., Any], retried: Any, *, is_paired: bool
) -> Units:
    """Replace the rates of the units, and the bounds of the rates, by pass@k or pass^k.

    Whether a case that stopped at its first pass would pass within k attempts is known: 1 if k is
    at least its number of attempts, otherwise 0.
    """
    numbers = dict(units.numbers)
    for name, count in (("level", "n"), ("low", "size"), ("high", "size")):
        n = units.numbers[count]
        enough = np.nan_to_num(n) >= k
        passes = np.rint(units.numbers[name][enough] * n[enough])
        numbers[name] = np.full(n.shape, NAN)
        numbers[name][enough] = of_case(n[enough], passes, k)
        numbers[name][retried] = n[retried] <= k
    enough |= retried
    if is_paired:  # pairs with fewer than k expected attempts lack no attempts
        numbers["size"] = np.where(enough, numbers["size"], NAN)
    return replace(units, numbers=numbers)
