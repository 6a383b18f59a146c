"""What the grader studies share: one reference label an item, clusters of cases, known verdicts."""

from __future__ import annotations

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError
from skillcomp.stats.results import check_level
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


def check_settings(what: str, ci_level: float, n_resamples: int | None = None) -> None:
    """Refuse a level or a number of resamples that no interval can be made with.

    Parameters
    ----------
    what : str
        The analysis, for the message.
    ci_level : float
        Confidence level, strictly between 0 and 1.
    n_resamples : int, optional
        Resamples, at least 1.

    Raises
    ------
    FrameError
        With what was found and what is allowed.
    """
    try:
        check_level(ci_level)
    except (TypeError, ValueError):
        hint = " Did you mean 0.95?" if ci_level == 95 else ""
        raise FrameError(
            f"{what}: ci_level: found {ci_level!r}; allowed: a number strictly between 0 and 1."
            + hint
        ) from None
    whole = isinstance(n_resamples, int) and not isinstance(n_resamples, bool)
    if n_resamples is not None and not (whole and n_resamples >= 1):
        raise FrameError(
            f"{what}: n_resamples: found {n_resamples!r}; allowed: a whole number of 1 or more."
        )


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 label`` or ``3 labels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
