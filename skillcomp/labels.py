"""One reference label for each item, out of what several people said of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError

__all__ = ["ADJUDICATED", "AGREED", "DISPUTED", "ITEM", "SETTLED", "one_label", "told"]

ITEM = ["attempt_id", "check_id"]
# what stands as labeller of a label that several people had a part in
ADJUDICATED, AGREED, DISPUTED = SETTLED = ("adjudicated", "agreed", "disputed")


def one_label(gold: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return one label per item, settled where several labellers said something of it.

    Parameters
    ----------
    gold : pandas.DataFrame
        A checked gold frame.
    what : str
        Who asks, for the message.

    Returns
    -------
    pandas.DataFrame
        A gold frame with one row per attempt and check. ``labeller`` says how it was settled:

        - ``adjudicated``: the adjudicated label stands, also where it is NA;
        - ``agreed``: no adjudicated one; all who gave a label gave the same;
        - ``disputed``: they differ and nobody adjudicated; passed is NA;
        - a name: the only one who gave a label (or, with NA, a row).

        inclusion_probability: of the row, else of another row of the item. ``borderline`` of an
        agreed or disputed label is True where one labeller says so. Labels of one labeller, of
        whatever name, are returned as they are.

    Raises
    ------
    FrameError
        If there are several labellers and nothing was ever adjudicated: whether they may be taken
        for one is not for the analysis to say.

    Notes
    -----
    To adjudicate only what is disputed is usual. To keep the adjudicated labels alone would then
    keep the doubtful items alone, and every error rate with them.
    """
    # a label without a name is of yet another labeller, not of the one who is named
    names = list(gold["labeller"].unique())
    if len(names) <= 1:
        return gold
    if not set(SETTLED) & set(names):
        raise FrameError(_unsettled(gold, names, what))
    last = np.where(gold["passed"].isna(), 2, 1)
    rank = np.where(gold["labeller"].eq(ADJUDICATED), 0, last)
    ordered = gold.loc[np.argsort(rank, kind="stable")]
    first = ordered.drop_duplicates(ITEM).sort_index()
    about = ordered.groupby(ITEM).agg(
        n=("passed", "count"),
        n_passed=("passed", "sum"),
        borderline=("borderline", "max"),
        chance=("inclusion_probability", "first"),
    )
    about = about.loc[pd.MultiIndex.from_frame(first[ITEM])].set_index(first.index)
    several = about["n"].gt(1) & first["labeller"].ne(ADJUDICATED)
    disputed = several & about["n_passed"].gt(0) & about["n_passed"].lt(about["n"])
    chance = first["inclusion_probability"].fillna(about["chance"])
    return first.assign(
        labeller=first["labeller"].mask(several, AGREED).mask(disputed, DISPUTED),
        passed=first["passed"].mask(disputed),
        borderline=first["borderline"].mask(several, about["borderline"]),
        inclusion_probability=chance,
    ).reset_index(drop=True)


def _unsettled(gold: pd.DataFrame, names: list[str], what: str) -> str:
    known = gold[gold["passed"].notna()].groupby(ITEM)["passed"].nunique()
    who = ", ".join(sorted("no name" if pd.isna(name) else str(name) for name in names))
    return (
        f"{what}: gold holds more than one labeller and none is '{ADJUDICATED}': {who}. Select one "
        f"first, or add '{ADJUDICATED}' labels where they differ ({int((known > 1).sum())} items)."
    )


def told(labellers: pd.Series) -> str:
    """Say how labels were settled, "" where all of them were in one way.

    Parameters
    ----------
    labellers : pandas.Series
        The column ``labeller`` of :func:`one_label`, one value per label that counts.

    Returns
    -------
    str
        Such as ``gold: 10 labels adjudicated, 805 agreed, 5 disputed and left out``.
    """
    if labellers.nunique(dropna=False) <= 1:
        return ""
    count = {name: int(labellers.eq(name).sum()) for name in SETTLED}
    alone = len(labellers) - sum(count.values())
    parts = [
        f"{count[ADJUDICATED]} labels adjudicated",
        f"{count[AGREED]} agreed",
        f"{alone} of one labeller alone" if alone else "",
        f"{count[DISPUTED]} disputed and left out" if count[DISPUTED] else "",
    ]
    return "gold: " + ", ".join(filter(None, parts))
