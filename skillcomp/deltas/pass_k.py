"""pass@k (at least one of k attempts passes) and pass^k (all k attempts pass)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.deltas.condition_rates import MISSING_OF_RATE, missing_of_rate
from skillcomp.deltas.paired_deltas import paired_cases
from skillcomp.frames.case_table import (
    MISSING,
    CasePairs,
    case_labels,
    case_table,
    cluster_readings,
    compared_outcomes,
    delta_rows,
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
    The estimate of a case is unbiased for any number of attempts that is at least ``k``. The mean
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
    names = [name for name in listed(by) if name != "condition"]
    of_case, pooled = _PASS_K[measure]
    of_case([], [], k)  # this call raises an error if k is not a positive whole number
    if reference is not None:
        return _deltas_of_pass_k(outcomes, k, names, reference, ci_level, measure)
    checked = compared_outcomes(outcomes, names, f"deltas.{measure}")
    rows = []
    table = case_table(checked, by=names)
    table["case"] = case_labels(table)
    for values, group in condition_groups(table, names):
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
        result = replace(
            result,
            note=join_notes(result.note, _short_cases(group["n"], group["case"], k), missing),
        )
        about = values | lost | {"k": k, "n_short": len(group) - len(part)}
        rows.append(row(measure, result, **about))
    extra = ["k", "n_short", *MISSING_OF_RATE]
    return estimates(rows, by=[*names, "condition"], extra=extra, outcomes=checked)


def _deltas_of_pass_k(
    outcomes: pd.DataFrame, k: int, by: list[str], reference: str, ci_level: float, measure: str
) -> pd.DataFrame:
    """Estimate the paired changes of pass@k or pass^k from the reference."""
    how: dict[str, Any] = {"value": "passed", "weight": None, "cluster": "case", "average": None}
    about, sets, _ = paired_cases(
        outcomes, by=by, reference=reference, **how, what=f"deltas.{measure}"
    )
    of_case, _ = _PASS_K[measure]
    sides = [(place["condition"], place["reference"]) for place in about]
    # the adaptive rule is not defined for sets of k attempts, so use the bounded interval
    rows = delta_rows(
        [_pairs_at_k(pairs, k, of_case) for pairs in sets],
        *(measure, "case", ci_level, (), sides, "bounded"),
    )
    for each, place, pairs in zip(rows, about, sets, strict=True):
        n = pd.Series(np.minimum(pairs.n1, pairs.n0))
        note = each["note"].replace("no outcome in", f"fewer than {k} outcomes in")
        each |= place | {"k": k, "n_short": int(n.lt(k).sum())}
        each["note"] = join_notes(note, _short_cases(n, pd.Series(pairs.case), k))
        each["method"] = f"pass{'@' if measure == 'pass_at_k' else '^'}{k}, {each['method']}"
    extra = ["reference", "rate", "reference_rate", "k", "n_short", "n_dropped", *MISSING]
    noted: dict[str, Any] = {"outcomes": outcomes, "reference": reference}
    return estimates(rows, by=[*by, "condition"], extra=extra, **noted)


def _pairs_at_k(pairs: CasePairs, k: int, of_case: Callable[..., Any]) -> CasePairs:
    """Replace the rates of the pairs, and the bounds of the rates, by pass@k or pass^k."""
    pairs = pairs.where((pairs.size1 >= k) & (pairs.size0 >= k))
    columns: dict[str, Any] = {}
    for side in "10":
        n, met, size, low, high = (
            getattr(pairs, name + side) for name in ("n", "met", "size", "low", "high")
        )
        enough = n >= k
        level = np.full(len(n), np.nan)
        level[enough] = of_case(n[enough], met[enough], k)
        columns[f"level{side}"] = level
        for name, more in (("low", low), ("high", high)):
            # Other functions compute the worst case as (met + bound) / size, where ``met`` is the
            # number of passes. Choose the bound so that this is the worst pass@k or pass^k.
            columns[name + side] = of_case(size, met + more, k) * size - met
    return replace(pairs, **columns)


def _short_cases(n: pd.Series, case: pd.Series, k: int) -> str:
    """Return a note on the cases with fewer than k outcomes, and on the largest possible k."""
    short = case[n.lt(k)].to_numpy()
    if not len(short):
        return ""
    largest = int(n.min())
    return (
        f"left out, with fewer than {k} attempts that have an outcome: {first_names(short)}; "
        + (f"the largest k for all cases is {largest}" if largest else "no k suits all cases")
    )
