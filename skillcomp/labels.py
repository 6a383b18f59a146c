"""One reference label for each item, out of what several people said of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError

__all__ = ["ADJUDICATED", "AGREED", "DISPUTED", "ITEM", "SETTLED", "one_label", "told"]

ITEM = ["attempt_id", "check_id"]
# what stands as labeller of a label that several people had a part in
ADJUDICATED, AGREED, DISPUTED = SETTLED = ("adjudicated", "agreed", "disputed")
# with more people than this their number is told instead of their names
_NAMED = 4


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

        - ``adjudicated``: the adjudicated label stands. A row of the adjudicator without a label
          decides nothing: adjudicating a whole sheet leaves blank what nobody disputed;
        - ``agreed``: no adjudicated one; all who gave a label gave the same;
        - ``disputed``: they differ and nobody adjudicated; passed is NA;
        - a name: the only one who gave a label, or, with NA, one of those who gave none.

        inclusion_probability: of the row, else of another row of the item. ``borderline`` of an
        agreed or disputed label is True where one labeller says so. Labels of one labeller, of
        whatever name, are returned as they are.

    Raises
    ------
    FrameError
        If labellers differ on an item and nothing was ever adjudicated: whose label to take is
        not for the analysis to say.

    Notes
    -----
    To adjudicate only what is disputed is usual. To keep the adjudicated labels alone would then
    keep the doubtful items alone, and every error rate with them.
    """
    # a label without a name is of yet another labeller, not of the one who is named
    names = list(gold["labeller"].unique())
    if len(names) <= 1:
        return gold
    known = gold["passed"].notna()
    if not set(SETTLED) & set(names):
        n_labels = gold[known].groupby(ITEM)["passed"].nunique()
        if n_labels.gt(1).any():
            raise FrameError(_unsettled(names, int(n_labels.gt(1).sum()), what))
    last = np.where(gold["labeller"].eq(ADJUDICATED), 0, 1)
    rank = np.where(known, last, last + 2)
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


def _unsettled(names: list[str], n_items: int, what: str) -> str:
    who = ", ".join(sorted("no name" if pd.isna(name) else str(name) for name in names))
    return (
        f"{what}: gold holds more than one labeller and none is '{ADJUDICATED}': {who}. Select one "
        f"first, or add '{ADJUDICATED}' labels where they differ ({n_items} items)."
    )


def told(labellers: pd.Series, passed: pd.Series) -> str:
    """Say how labels were settled, "" where all of them were in one way and none is disputed.

    Parameters
    ----------
    labellers : pandas.Series
        The column ``labeller`` of :func:`one_label`, one value per label that counts.
    passed : pandas.Series
        Their labels, NA where there is none.

    Returns
    -------
    str
        Such as ``gold: 10 labels adjudicated, 805 agreed, 5 disputed and left out`` or, where
        several people labelled different items, ``gold: 100 labels by anna, 95 by bob``.
    """
    disputed = labellers.eq(DISPUTED)
    if labellers.nunique(dropna=False) <= 1 and not disputed.any():
        return ""
    given = labellers[passed.notna() & ~disputed].astype("str").fillna("no name")
    count = {str(name): int(n) for name, n in given.value_counts().items()}
    parts = [(count.pop(name, 0), name) for name in (ADJUDICATED, AGREED)]
    if len(count) > _NAMED:
        parts.append((sum(count.values()), f"each by one of {len(count)} labellers"))
    else:
        parts += [(count[name], f"by {name}") for name in sorted(count)]
    parts += [
        (int(disputed.sum()), "disputed and left out"),
        (int((passed.isna() & ~disputed).sum()), "without a label"),
    ]
    (n, how), *others = [one for one in parts if one[0]]
    first = f"gold: {n} {'label' if n == 1 else 'labels'} {how}"
    return ", ".join([first, *(f"{n} {how}" for n, how in others)])
