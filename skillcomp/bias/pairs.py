"""The same answer graded twice, once as it was and once perturbed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.bias.effects import in_points
from skillcomp.bias.graded import chosen, known_attempts
from skillcomp.errors import FrameError
from skillcomp.estimates import check_settings, estimates, groups, listed, row
from skillcomp.stats.intervals import mcnemar_midp
from skillcomp.stats.results import undefined
from skillcomp.stats.switching import paired_delta

__all__ = ["perturbed"]

EXTRA = ("n_pairs", "n_to_pass", "n_to_fail", "p_mcnemar", "n_dropped")


def perturbed(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    exclude_checks: Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how the verdicts change when only the form of the answer does.

    Pairs the verdict on a copy with that on its original: same check, same grader, version and
    round. Needs no gold.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame that holds originals and copies (``perturbation="all"``).
    attempts : pandas.DataFrame
        Their attempts: source_attempt_id and perturbation tell the copies.
    by : sequence of str
        Columns of the verdicts that keep rows apart; ``perturbation`` always does.
    exclude_checks : sequence of str
        Texts; every check whose id contains one is left out, as in ``reliability``.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and perturbation: estimates columns (measure ``perturbation_points``,
        estimate in percentage points: pass rate of the copies minus that of the originals, cases
        weighing equally; n = cases; p_value by inverting the same interval), n_pairs (verdicts
        compared), n_to_pass and n_to_fail (verdicts that changed), p_mcnemar (mid-p McNemar over
        verdicts, which takes the checks of an answer as independent), n_dropped (verdicts on
        copies without a partner). No rows where there are no copies.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders or rounds would be pooled, a verdict's attempt
        is not among ``attempts``, or ``ci_level`` is no level.

    See Also
    --------
    perturb : Makes the copies.

    Notes
    -----
    The interval is that of :func:`skillcomp.stats.switching.paired_delta` with the case as unit.
    """
    names = [name for name in listed(by) if name != "perturbation"]
    what = "bias.perturbed"
    check_settings(what, ci_level)
    given = chosen(verdicts, by=names, exclude_checks=exclude_checks, cases=cases, what=what)
    pairs = paired_verdicts(given, known_attempts(given, attempts, what), what)
    rows = []
    for values, part in groups(pairs, [*names, "perturbation"]):
        rows.append(compared(part, ci_level) | values)
    return estimates(rows, by=[*names, "perturbation"], extra=list(EXTRA))


def paired_verdicts(verdicts: pd.DataFrame, attempts: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the verdicts on copies with ``before``, the verdict on the original.

    Parameters
    ----------
    verdicts, attempts : pandas.DataFrame
        As returned by ``chosen`` and ``known_attempts``.
    what : str
        The analysis, for messages.

    Returns
    -------
    pandas.DataFrame
        The verdict columns, perturbation, before and after (0, 1 or NaN).

    Raises
    ------
    FrameError
        If a copy does not name its source.
    """
    about = attempts.set_index("attempt_id")[["source_attempt_id", "perturbation"]]
    copies = attempts["perturbation"].notna()
    lost = attempts[copies & attempts["source_attempt_id"].isna()]
    if len(lost):
        raise FrameError(
            f"{what}: {len(lost)} perturbed attempts have no source_attempt_id; the first is "
            f"'{lost['attempt_id'].iloc[0]}'."
        )
    joined = verdicts.drop(columns=list(about.columns), errors="ignore")
    joined = joined.join(about, on="attempt_id")
    keys = ["check_id", "grader", "grader_version", "round"]
    is_copy = joined["perturbation"].notna()
    original = joined.loc[~is_copy, ["attempt_id", *keys, "passed"]]
    original = original.rename(columns={"attempt_id": "source_attempt_id", "passed": "before"})
    pairs = joined[is_copy].merge(original, on=["source_attempt_id", *keys], how="left")
    return pairs.assign(
        before=pairs["before"].astype("float64"), after=pairs["passed"].astype("float64")
    )


def compared(pairs: pd.DataFrame, ci_level: float) -> dict[str, Any]:
    """Return the row of one perturbation."""
    known = pairs[pairs["before"].notna() & pairs["after"].notna()]
    n_dropped = len(pairs) - len(known)
    to_pass = int((known["after"] > known["before"]).sum())
    to_fail = int((known["after"] < known["before"]).sum())
    counts: dict[str, Any] = {
        "n_pairs": len(known),
        "n_to_pass": to_pass,
        "n_to_fail": to_fail,
        "n_dropped": n_dropped,
        "p_mcnemar": mcnemar_midp(to_pass, to_fail).p_value if len(known) else np.nan,
    }
    measure = "perturbation_points"
    if known.empty:
        nothing = undefined("", "no copy has a verdict beside that of its original",
                            ci_level=ci_level, n=0.0)  # fmt: skip
        return row(measure, nothing, **counts)
    grouped = known.groupby(["skill", "case_id"], sort=False)
    by_case = grouped[["after", "before"]].agg(["sum", "count"])
    cluster = pd.factorize(grouped["cluster"].first())[0]
    found = paired_delta(
        by_case["after", "sum"].to_numpy(),
        by_case["after", "count"].to_numpy(),
        by_case["before", "sum"].to_numpy(),
        by_case["before", "count"].to_numpy(),
        clusters=cluster,
        ci_level=ci_level,
    )
    return row(measure, in_points(found), **counts)
