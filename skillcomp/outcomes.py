"""Outcomes: whether each attempt passed, from the verdicts on its checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.columns import absent
from skillcomp.contracts import CONTRACTS, check, checked, empty
from skillcomp.errors import FrameError, suggest

__all__ = ["outcomes"]

Ints = NDArray[np.int64]
_ATTEMPT_KEYS = ["skill", "case_id", "condition", "repeat", "agent", "perturbation"]
_GRADER_KEYS = [
    "grader",
    "grader_kind",
    "grader_model",
    "grader_family",
    "grader_version",
    "round",
]
_CASE_FACTS = ("comprehension_dimension", "transfer", "contrast_of")


def outcomes(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    grader: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return whether each attempt passed, one row per attempt, grader version and round.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame, ours or a researcher's own.
    cases : pandas.DataFrame, optional
        A cases frame: gives the dimension, the transfer distance and how many checks an attempt
        should have. Without it the number of checks is the number of distinct checks that any
        verdict on the case names.
    grader : str or sequence of str, optional
        Only the outcomes by this grader, or by several; by every one when omitted.

    Returns
    -------
    pandas.DataFrame
        One row per attempt and grader version and round. ``passed`` is True iff every check of the
        attempt passed, False as soon as one failed, NA when none failed but one is missing.
        ``share_passed`` is over the checks with a verdict, NA when fewer than half have one.
        ``n_checks``, ``n_passed``, ``n_missing`` count checks. ``perturbation`` is that of the
        verdicts: outcomes of answers and of altered copies stay apart, and analyses refuse to take
        the one for a repeat of the other unless ``by`` names the column.

    Raises
    ------
    FrameError
        If a frame breaks its contract, a verdict's case is not among ``cases``, or there is no
        verdict by a ``grader``; those there are get named.

    Notes
    -----
    An attempt whose verdicts are all errors has ``passed`` NA; ``groupby.all()`` of pandas, which
    skips missing values, would call it True.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({
    ...     "attempt_id": ["a", "a", "b", "b"], "skill": "s", "case_id": "s/1",
    ...     "condition": ["skill", "skill", "baseline", "baseline"], "check_id": ["x", "y"] * 2,
    ...     "grader": "g", "status": ["ok", "ok", "error", "error"],
    ...     "passed": [True, True, None, None]})
    >>> outcomes(rows)[["attempt_id", "n_checks", "n_passed", "n_missing", "passed"]]
      attempt_id  n_checks  n_passed  n_missing  passed
    0          a         2         2          0    True
    1          b         2         0          2    <NA>
    """
    given, columns = checked(verdicts, "verdicts")
    wanted = _graders(grader, given["grader"])
    if given.empty:
        return empty("outcomes")
    known = check(cases, "cases") if cases is not None else None
    # the key columns are constant in a group: the first row of a group carries them
    code, first = columns.groups(["attempt_id", "grader", "grader_version", "round"])
    names = ("attempt_id", *_ATTEMPT_KEYS, *_GRADER_KEYS)
    result: dict[str, Any] = {name: columns.pick(name, first) for name in names}
    answered = columns.equals("status", "ok") | given["status"].isna().to_numpy()
    usable = answered & given["passed"].notna().to_numpy()
    n_seen = np.bincount(code, weights=usable)
    n_passed = np.bincount(
        code, weights=usable & given["passed"].to_numpy(dtype=bool, na_value=False)
    )
    case, asked = pd.factorize(pd.Series(result["case_id"]))
    facts = _case_facts(asked, known, lambda: _checks_seen(case[code], columns.codes("check_id")))
    # a suite may have lost checks since the grading: never fewer than were seen
    n_checks = np.maximum(facts["n_checks"].to_numpy(dtype=float)[case], np.bincount(code))
    result |= {name: facts[name].array.take(case) for name in _CASE_FACTS}
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(2 * n_seen >= n_checks, n_passed / n_seen, np.nan)
    failed, complete = n_passed < n_seen, n_seen == n_checks
    result |= {
        "n_checks": _whole(n_checks),
        "n_passed": _whole(n_passed),
        "n_missing": _whole(n_checks - n_seen),
        "share_passed": share,
        "passed": pd.arrays.BooleanArray(complete & ~failed, ~complete & ~failed),
    }
    # what checked frames give keeps its own contract by construction: not checked again
    frame = pd.DataFrame({n: result[n] for n in CONTRACTS["outcomes"].columns}, copy=False)
    return frame if wanted is None else frame[frame["grader"].isin(wanted)].reset_index(drop=True)


def _graders(asked: str | Sequence[str] | None, found: pd.Series) -> list[str] | None:
    if asked is None:
        return None
    names = [asked] if isinstance(asked, str) or not isinstance(asked, Sequence) else list(asked)
    there = sorted(found.dropna().unique())
    for name in names:
        if name not in there:
            raise FrameError(
                f"outcomes: there is no verdict by a grader {name!r}; there: "
                f"{', '.join(there) or 'none'}." + suggest(str(name), there)
            )
    return names


def _whole(numbers: NDArray[Any]) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(numbers.astype(np.int64), np.zeros(len(numbers), dtype=bool))


def _checks_seen(case: Ints, check_code: Ints) -> Ints:
    """Count the distinct checks that the verdicts on each case name."""
    n_checks = int(check_code.max()) + 1
    pairs, n_cases = case * n_checks + check_code, int(case.max()) + 1
    if n_cases * n_checks <= len(pairs):
        seen = np.zeros(n_cases * n_checks, dtype=bool)
        seen[pairs] = True
        return np.asarray(seen.reshape(n_cases, n_checks).sum(axis=1), dtype=np.int64)
    return np.bincount(pd.unique(pairs) // n_checks)


def _case_facts(
    names: pd.Index, cases: pd.DataFrame | None, seen: Callable[[], Ints]
) -> pd.DataFrame:
    """Return what is known of the cases ``names``, one row each in their order."""
    if cases is None:
        texts = {name: absent("str", len(names)) for name in _CASE_FACTS}
        return pd.DataFrame({"n_checks": seen(), **texts}, index=names)
    facts = cases.set_index("case_id")[["n_checks", *_CASE_FACTS]]
    unknown = sorted(names.difference(facts.index))
    if unknown:
        raise FrameError(
            f"outcomes: {len(unknown)} cases of the verdicts are not in the cases frame, "
            f"the first is '{unknown[0]}'." + suggest(unknown[0], cases["case_id"])
        )
    return facts.assign(n_checks=facts["n_checks"].astype("float64").fillna(0)).loc[names]
