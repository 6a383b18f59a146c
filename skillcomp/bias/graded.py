"""Verdicts joined with gold, with what they were given for: the rows that a bias is read from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillcomp.bias.features import features
from skillcomp.contracts import check
from skillcomp.correction.tables import clusters_of, join_gold
from skillcomp.errors import FrameError
from skillcomp.estimates import require_columns, require_one_grader
from skillcomp.selection import without_checks

ANSWER = ("log2_words", "hedges_per_100", "has_list", "log2_words_per_sentence")


def chosen(
    verdicts: pd.DataFrame,
    *,
    by: Sequence[str],
    exclude_checks: Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Return the verdicts under their contract, without the excluded checks.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame.
    by : sequence of str
        Columns that keep rows apart.
    exclude_checks : sequence of str
        Texts; every check whose id contains one is left out.
    cases : pandas.DataFrame, optional
        Tells which cases are contrast pairs.
    what : str
        The analysis, for messages.

    Returns
    -------
    pandas.DataFrame
        With ``passed`` NA unless the status is ok, and ``cluster``.

    Raises
    ------
    FrameError
        If the frame breaks its contract, graders would be pooled, or an excluded check is not
        there.
    """
    given = check(verdicts, "verdicts")
    require_columns(given, by, what)
    require_one_grader(given, by, what, copies=True)
    if len(given):
        given = without_checks(given, exclude_checks, what).reset_index(drop=True)
    usable = given["status"].isna() | given["status"].eq("ok")
    cluster = clusters_of(given, cases)[0]
    return given.assign(passed=given["passed"].where(usable), cluster=cluster)


def known_attempts(verdicts: pd.DataFrame, attempts: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the attempts under their contract, or raise when a verdict's attempt is not there."""
    given = check(attempts, "attempts")
    unknown = verdicts.loc[~verdicts["attempt_id"].isin(given["attempt_id"]), "attempt_id"]
    if len(unknown):
        raise FrameError(
            f"{what}: {len(unknown)} verdicts belong to attempts that are not in the attempts "
            f"frame; the first is '{unknown.iloc[0]}'. Read both with the same perturbation=."
        )
    return given


def graded(
    verdicts: pd.DataFrame, attempts: pd.DataFrame, gold: pd.DataFrame, what: str
) -> pd.DataFrame:
    """Return verdicts on the plain answers with gold and features.

    Parameters
    ----------
    verdicts, attempts : pandas.DataFrame
        As returned by :func:`chosen` and :func:`known_attempts`.
    gold : pandas.DataFrame
        A gold frame.
    what : str
        The analysis, for messages.

    Returns
    -------
    pandas.DataFrame
        The verdict rows of unperturbed attempts that carry gold, with verdict and gold (0 or 1),
        the features of the answer, own_family (1 where the answer is of the grader's model
        family, NaN where one is not recorded), agent_family, and place (0 for the first verdict of
        a batch to 1 for the last; NaN where batch or order is not recorded).
    """
    place = _place(verdicts)
    plain = attempts[attempts["perturbation"].isna() & attempts["source_attempt_id"].isna()]
    about = features(plain).set_index("attempt_id")[list(ANSWER)]
    about["agent_family"] = plain.set_index("attempt_id")["agent_family"]
    joined = join_gold(verdicts.assign(place=place), gold, what)
    joined = joined[joined["gold"].notna() & joined["verdict"].notna()]
    joined = joined[joined["attempt_id"].isin(about.index)]
    joined = joined.join(about, on="attempt_id")
    families = joined["agent_family"].notna() & joined["grader_family"].notna()
    own = joined["agent_family"].eq(joined["grader_family"]).astype("float64")
    return joined.assign(own_family=own.where(families)).reset_index(drop=True)


def _place(verdicts: pd.DataFrame) -> pd.Series:
    keys = ["grader", "grader_version", "round", "batch"]
    order = verdicts["order"].astype("float64")
    grouped = order.groupby([verdicts[name] for name in keys], sort=False, dropna=False)
    first, last = grouped.transform("min"), grouped.transform("max")
    span = (last - first).where(verdicts["batch"].notna())
    return (order - first) / span.where(span.gt(0))


def cells(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return the number of the combination of columns that each row is in."""
    return frame.groupby(list(names), sort=False, dropna=False, observed=True).ngroup().to_numpy()
