"""Outcomes: the verdicts on an attempt, aggregated into one row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, instead, plural, suggest
from skillcomp.frames.check import as_list, check, empty
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CONTRACTS, GRADER_KEYS
from skillcomp.frames.estimates import group_codes
from skillcomp.frames.missing_attempts import unanswered_outcomes
from skillcomp.frames.reference_labels import attempt_passed, share_of_checks, usable

_CASE_FACTS = ["comprehension_dimension", "transfer", "contrast_of", "task"]


def outcomes(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    grader: str | Sequence[str] | None = None,
    attempts: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Aggregate verdicts into one outcome per attempt, grader version and round.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame.
    cases : pandas.DataFrame, optional
        A cases frame. It adds the dimension, the transfer distance, the task and your own columns
        about the case, and its ``n_checks`` is the number of checks that an attempt should have.
        Without ``cases`` an attempt should have as many checks as there are distinct checks among
        all verdicts on its case.
    grader : str or sequence of str, optional
        Keep the outcomes of this grader, or of several. Default: all graders.

    attempts : pandas.DataFrame, optional
        An attempts frame. It adds the attempts without a verdict that ended in an error or a pause
        (``passed`` is NA), at a time limit, cut off or in a refusal (``passed`` is False).

    Returns
    -------
    pandas.DataFrame
        One row per attempt, grader version and round. ``passed`` is True if every check of the
        attempt passed, False if one failed, and NA if none failed but one has no verdict.
        ``share_passed`` is the share of passes among the checks with a verdict; it is NA if fewer
        than half of the checks have a verdict. ``score`` is the mean of the scores given, on the
        grader's own scale, or NaN if there is none. ``n_checks``, ``n_passed`` and ``n_missing``
        count checks. ``checks_differ`` is True if conditions of the case were asked different
        checks, and ``note`` gives the counts. An altered copy of an answer has its own outcome, and
        ``perturbation`` names the change. Analyses refuse to count copies as repeats
        unless ``by`` contains this column.

    Raises
    ------
    FrameError
        If a frame breaks its contract, the case of a verdict is missing from ``cases``, or a name
        in ``grader`` has no verdict (the message then lists the graders in the frame).

    Notes
    -----
    If all verdicts on an attempt are errors, ``passed`` is NA; ``groupby.all()`` of pandas, which
    skips missing values, would return True.

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
    rows = check(verdicts, "verdicts")
    graders = _graders_present(grader, rows["grader"])
    if rows.empty:
        return empty("outcomes")
    # the key columns are constant within a group: take them from its first row
    code, first = group_codes(rows, ["attempt_id", "grader", "grader_version", "round"])
    keys = rows[[*ATTEMPT_KEYS, *GRADER_KEYS]].take(first).reset_index(drop=True)
    case, first_of_case = group_codes(keys, CASE)
    seen = pd.DataFrame({"case": case[code], "check_id": rows["check_id"]}).drop_duplicates()
    facts = _case_facts(keys.take(first_of_case)[CASE], cases, np.bincount(seen["case"]))
    table = keys.join(facts.take(case).reset_index(drop=True))
    decided = (usable(rows) & rows["passed"].notna()).to_numpy()
    passed = rows["passed"].to_numpy(dtype=bool, na_value=False)
    scored = (usable(rows) & rows["score"].notna()).to_numpy()
    n_seen = np.bincount(code, weights=decided)
    n_passed = np.bincount(code, weights=decided & passed)
    total = np.bincount(code, weights=np.where(scored, rows["score"], 0.0))
    n_scores = np.bincount(code, weights=scored)
    # a check may have been removed from the suite after grading: count at least the graded ones
    n_checks = np.maximum(table["n_checks"].to_numpy(dtype=float), np.bincount(code))
    table = table.assign(
        n_checks=n_checks,
        n_passed=n_passed,
        n_missing=n_checks - n_seen,
        share_passed=share_of_checks(n_passed, n_seen, n_checks),
        score=np.divide(total, n_scores, out=np.full(len(first), np.nan), where=n_scores > 0),
        passed=attempt_passed(n_passed, n_seen, n_checks),
        checks_differ=False,
        note="",
    )
    columns = CONTRACTS["outcomes"].columns
    own = [name for name in facts.columns if name not in columns]
    table = table[[*columns, *own]].astype(dict(columns))
    if attempts is not None:
        more = unanswered_outcomes(table, check(attempts, "attempts"), cases)
        table = pd.concat([table, more], ignore_index=True) if len(more) else table
    if graders is None:
        return table
    return table[table["grader"].isin(graders)].reset_index(drop=True)


def _graders_present(
    graders_argument: str | Sequence[str] | None, graders: pd.Series
) -> list[str] | None:
    """Return the names of the chosen graders, None for all; FrameError if one has no verdict."""
    if graders_argument is None:
        return None
    names = as_list(graders_argument)
    present = sorted(graders.dropna().unique())
    for name in names:
        if name not in present:
            message = f"outcomes: there is no verdict by a grader {name!r}"
            raise FrameError(message + instead(name, present))
    return names


def _case_facts(
    names: pd.DataFrame, cases: pd.DataFrame | None, n_checks_seen: NDArray[np.int64]
) -> pd.DataFrame:
    """Return n_checks and the facts about each case in ``names``, in the order of ``names``."""
    if cases is None:
        return pd.DataFrame({"n_checks": n_checks_seen}).assign(**dict.fromkeys(_CASE_FACTS))
    index = pd.MultiIndex.from_frame(names)
    facts = check(cases, "cases")
    own = facts.columns.difference([*CONTRACTS["cases"].columns, *CONTRACTS["outcomes"].columns])
    facts = facts.set_index(CASE)[["n_checks", *_CASE_FACTS, *own]]
    unknown = sorted(case_id for _, case_id in index[~index.isin(facts.index)])
    if unknown:
        raise FrameError(
            f"outcomes: {plural(len(unknown), 'case')} of the verdicts not in the cases frame, the "
            f"first is '{unknown[0]}'." + suggest(unknown[0], facts.index.get_level_values(1))
        )
    return facts.assign(n_checks=facts["n_checks"].fillna(0)).loc[index]
