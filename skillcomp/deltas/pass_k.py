"""pass@k and pass^k: at least one, or all, of k attempts pass."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pandas as pd

from skillcomp.deltas.condition_rates import MISSING_OF_RATE, missing_of_rate
from skillcomp.frames.case_table import (
    case_table,
    cluster_readings,
    compared_outcomes,
    first_names,
)
from skillcomp.frames.estimates import By, condition_groups, covering, estimates, listed, row
from skillcomp.stats import passk
from skillcomp.stats.results import join_notes

_PASS_K = {
    "pass_at_k": (passk.pass_at_k, passk.pooled_pass_at_k),
    "pass_hat_k": (passk.pass_hat_k, passk.pooled_pass_hat_k),
}


def pass_at_k(
    outcomes: pd.DataFrame, *, k: int, by: By = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate the probability that at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Cases with fewer than ``k`` attempts that have an outcome are left out;
        the note names them and the largest ``k`` for all cases.
    k : int
        Number of attempts.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns (measure ``pass_at_k``), ``k``,
        ``n_short`` (cases left out), and the columns of :func:`skillcomp.deltas.rates` about
        missing attempts.

    See Also
    --------
    pass_hat_k : The probability that all of ``k`` attempts pass.
    """
    return _pass_k(outcomes, k, by, ci_level, "pass_at_k")


def pass_hat_k(
    outcomes: pd.DataFrame, *, k: int, by: By = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate the probability that all of ``k`` attempts pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, ci_level, "pass_hat_k")


def _pass_k(outcomes: pd.DataFrame, k: int, by: By, ci_level: float, measure: str) -> pd.DataFrame:
    names = [name for name in listed(by) if name != "condition"]
    checked = compared_outcomes(outcomes, names, f"deltas.{measure}")
    of_case, pooled = _PASS_K[measure]
    of_case([], [], k)  # refuses a k that is no number of attempts
    rows = []
    for values, group in condition_groups(case_table(checked, by=names), names):
        part, whole = (group[group[count].ge(k)] for count in ("n", "size"))
        passed = part["n_passed"].to_numpy(dtype=int)
        readings = cluster_readings(part)
        results = [pooled(part["n"], passed, k, clusters=c, ci_level=ci_level) for c in readings]
        result = reduce(covering, results)
        worst = [
            float(of_case(whole["size"], whole["n_passed"] + whole[end], k).mean())
            for end in (("passed_low", "passed_high") if len(whole) else ())
        ] or [np.nan, np.nan]
        lost, missing = missing_of_rate(group["size"], group["n"], worst)
        result = replace(result, note=join_notes(result.note, _short_cases(group, k), missing))
        about = values | lost | {"k": k, "n_short": len(group) - len(part)}
        rows.append(row(measure, result, **about))
    extra = ["k", "n_short", *MISSING_OF_RATE]
    return estimates(rows, by=[*names, "condition"], extra=extra, outcomes=checked)


def _short_cases(group: pd.DataFrame, k: int) -> str:
    """Name the cases with fewer than k attempts that have an outcome, and the largest k for all."""
    short = group.loc[group["n"].lt(k), "case_id"].to_numpy()
    if not len(short):
        return ""
    largest = int(group["n"].min())
    return (
        f"left out, with fewer than {k} attempts that have an outcome: {first_names(short)}; "
        + (f"the largest k for all cases is {largest}" if largest else "no k suits all cases")
    )
