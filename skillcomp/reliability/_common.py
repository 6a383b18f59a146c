"""What the grader studies share: one reference label an item, clusters of cases, known verdicts."""

from __future__ import annotations

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError
from skillcomp.estimates import check_settings as check_settings
from skillcomp.twins import twin_clusters

ITEM = ["attempt_id", "check_id"]
ADJUDICATED = "adjudicated"
GRADER_COLUMNS = ["grader", "grader_version", "round"]


def reference_labels(gold: pd.DataFrame) -> pd.DataFrame:
    """Return one reference label per item: the adjudicated one, or the only labeller's.

    Parameters
    ----------
    gold : pandas.DataFrame
        A gold frame.

    Returns
    -------
    pandas.DataFrame
        attempt_id, check_id, gold (float: 1, 0, NaN without a label), inclusion_probability.

    Raises
    ------
    FrameError
        If several labellers are there and none is adjudicated.
    """
    labels = check(gold, "gold")
    # a label without a name is of yet another labeller, not of the one who is named
    names = list(labels["labeller"].unique())
    if ADJUDICATED in names:
        labels = labels[labels["labeller"].eq(ADJUDICATED)]
    elif len(names) > 1:
        raise FrameError(
            f"gold: several labellers and none '{ADJUDICATED}': "
            f"{', '.join('no name' if pd.isna(n) else str(n) for n in names)}. Select one."
        )
    found = labels[[*ITEM, "inclusion_probability"]].copy()
    found["gold"] = labels["passed"].astype("float64")
    return found.reset_index(drop=True)


def labellers(gold: pd.DataFrame) -> pd.DataFrame:
    """Return the labels before adjudication, one row per item and one column per labeller.

    Parameters
    ----------
    gold : pandas.DataFrame
        A gold frame, with every labeller that it is to tell about.

    Returns
    -------
    pandas.DataFrame
        Index attempt_id and check_id; floats, NaN where a labeller gave none.
    """
    labels = check(gold, "gold")
    single = labels[labels["labeller"].notna() & labels["labeller"].ne(ADJUDICATED)]
    values = single.assign(_label=single["passed"].astype("float64"))
    return values.pivot(index=ITEM, columns="labeller", values="_label")


def with_known(verdicts: pd.DataFrame, cases: pd.DataFrame | None = None) -> pd.DataFrame:
    """Add ``verdict`` (float, NaN for a failed grader) and ``cluster`` to a verdicts frame.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A checked verdicts frame.
    cases : pandas.DataFrame, optional
        A cases frame: the two members of a contrast pair then form one cluster.

    Returns
    -------
    pandas.DataFrame
        The rows with the two columns added.
    """
    usable = verdicts["status"].isna() | verdicts["status"].eq("ok")
    return verdicts.assign(
        verdict=verdicts["passed"].where(usable).astype("float64"),
        cluster=clusters_of(verdicts["case_id"], cases),
    )


def clusters_of(case_ids: pd.Series, cases: pd.DataFrame | None) -> pd.Series:
    """Return the cluster of each case: the case itself, or the first case of its twins."""
    if cases is None:
        return case_ids
    known = check(cases, "cases")
    first = known["case_id"].groupby(twin_clusters(known)).transform("first")
    root = dict(zip(known["case_id"], first, strict=True))
    return case_ids.map(root).fillna(case_ids)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 label`` or ``3 labels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
