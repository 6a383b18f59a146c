"""What the grader studies share: one reference label an item, clusters of cases, known verdicts."""

from __future__ import annotations

import pandas as pd

from skillcomp.contracts import check
from skillcomp.estimates import check_settings as check_settings
from skillcomp.labels import ITEM as ITEM
from skillcomp.labels import SETTLED, one_label
from skillcomp.twins import twin_clusters

GRADER_COLUMNS = ["grader", "grader_version", "round"]


def reference_labels(gold: pd.DataFrame) -> pd.DataFrame:
    """Return one reference label per item, settled by :func:`skillcomp.labels.one_label`.

    Parameters
    ----------
    gold : pandas.DataFrame
        A gold frame.

    Returns
    -------
    pandas.DataFrame
        attempt_id, check_id, gold (float: 1, 0, NaN without a label), inclusion_probability,
        settled_by (adjudicated, agreed, disputed or a name).

    Raises
    ------
    FrameError
        If labellers differ on an item and nothing was adjudicated.
    """
    labels = one_label(check(gold, "gold"), "reliability")
    found = labels[[*ITEM, "inclusion_probability"]].copy()
    return found.assign(gold=labels["passed"].astype("float64"), settled_by=labels["labeller"])


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
    single = labels[labels["labeller"].notna() & ~labels["labeller"].isin(SETTLED)]
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
