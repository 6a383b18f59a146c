"""Batches of labels drawn one after another, joined so that they weigh alike."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError
from skillcomp.reliability._common import ITEM
from skillcomp.reliability.labelling import _pool


def join_batches(
    batches: Sequence[pd.DataFrame],
    attempts: pd.DataFrame,
    cases: pd.DataFrame,
    *,
    conditions: Sequence[str] = ("baseline", "skill"),
) -> pd.DataFrame:
    """Join batches of labels; every label gets its chance of being labelled by now.

    A batch that was drawn from what earlier ones left over has another inclusion probability in
    its key than they have. Together they are one random sample of cases, and weighing them by the
    probabilities of their own keys would be wrong.

    Parameters
    ----------
    batches : sequence of pandas.DataFrame
        Gold frames as :func:`read_labels` gives them, each drawn with
        ``label_sheet(..., gold=)`` from what the earlier ones left over.
    attempts, cases : pandas.DataFrame
        The frames that the sheets were drawn from: the attempts of one agent.
    conditions : sequence of str, default ("baseline", "skill")
        As given to :func:`label_sheet`.

    Returns
    -------
    pandas.DataFrame
        A gold frame with every row of the batches, in their order. inclusion_probability: cases
        drawn by now over cases that could be drawn, by skill, times one over the answers that the
        case has in the condition. Rows without a label (``passed`` NA) were drawn and count.

    Raises
    ------
    FrameError
        If there is no batch, the attempts are of several agents, an item was labelled twice by one
        labeller, or a label belongs to an attempt that could not be drawn.

    See Also
    --------
    label_sheet : Draws a batch.

    Notes
    -----
    Valid when each batch was drawn at random within skill and its size did not depend on what the
    earlier labels said. Horvitz and Thompson 1952, doi:10.1080/01621459.1952.10483446.
    """
    parts = [check(one, "gold") for one in batches]
    if not parts:
        raise FrameError("join_batches: found no batch; give one gold frame or more.")
    joined = pd.concat(parts, ignore_index=True)
    twice = joined.duplicated([*ITEM, "labeller"])
    if twice.any():
        item = joined.loc[twice, ITEM].iloc[0]
        raise FrameError(
            f"join_batches: check '{item['check_id']}' of attempt '{item['attempt_id']}' stands in "
            "two batches by one labeller; leave one out."
        )
    pool = _pool(check(attempts, "attempts"), check(cases, "cases"), conditions)
    strange = joined.loc[~joined["attempt_id"].isin(pool["attempt_id"]), "attempt_id"]
    if len(strange):
        raise FrameError(
            f"join_batches: attempt '{strange.iloc[0]}' has labels but could not be drawn: it has "
            "no answer, is altered or of another condition, or its case lacks an answer in one "
            "condition. Leave its labels out, or name the conditions it was drawn with."
        )
    drawn = pool["attempt_id"].isin(joined["attempt_id"]).groupby(pool["case_id"]).transform("any")
    by_case = pool.assign(drawn=drawn).drop_duplicates("case_id")
    share = by_case.groupby("skill")["drawn"].mean()
    repeats = pool.groupby(["case_id", "condition"])["attempt_id"].transform("count")
    chance = (pool["skill"].map(share) / repeats).set_axis(pool["attempt_id"])
    probability = joined["attempt_id"].map(chance).astype("float64")
    return check(joined.assign(inclusion_probability=probability), "gold")
