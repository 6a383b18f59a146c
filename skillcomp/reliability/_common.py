"""What the grader studies share: one reference label an item, clusters of cases, known verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest

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
    names = list(labels["labeller"].dropna().unique())
    if ADJUDICATED in names:
        labels = labels[labels["labeller"].eq(ADJUDICATED)]
    elif len(names) > 1:
        raise FrameError(
            f"gold: several labellers and none '{ADJUDICATED}': {', '.join(names)}. Select one."
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
    """Return the cluster of each case: the case itself, or one name for a contrast pair."""
    if cases is None:
        return case_ids
    known = check(cases, "cases")
    named = known.loc[known["contrast_of"].notna(), ["case_id", "contrast_of"]]
    twin = dict(zip(named["case_id"], named["contrast_of"], strict=True))
    # where twins name each other, the smaller id stands for both
    root = {a: min(a, b) if twin.get(b) == a else b for a, b in twin.items()}
    return case_ids.map(root).fillna(case_ids)


def without_checks(
    frame: pd.DataFrame, exclude: str | Sequence[str] | None, what: str
) -> pd.DataFrame:
    """Leave out the checks whose id contains one of the texts.

    Parameters
    ----------
    frame : pandas.DataFrame
        Anything with ``check_id``.
    exclude : str or sequence of str, optional
        Texts, such as ``"verbatim"``.
    what : str
        The analysis, for the message.

    Returns
    -------
    pandas.DataFrame
        The other rows.

    Raises
    ------
    FrameError
        If a text is in no check id.
    """
    texts = [exclude] if isinstance(exclude, str) else list(exclude or ())
    for text in texts:
        hit = frame["check_id"].str.contains(text, regex=False)
        if not hit.any():
            raise FrameError(
                f"{what}: exclude_checks '{text}' is in no check id."
                + suggest(text, frame["check_id"].unique())
            )
        frame = frame[~hit]
    return frame


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 label`` or ``3 labels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
