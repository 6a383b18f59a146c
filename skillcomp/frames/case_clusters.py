"""Clusters of cases: cases that are linked are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skillcomp.errors import FrameError
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE


def clusters_of(
    frame: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    column: str | None = None,
) -> pd.Series:
    """Assign each row to a cluster: its case and all cases linked to it.

    Two cases are linked if one names the other in ``contrast_of`` (a contrast pair within a skill),
    if they have the same ``task`` under several skills, or if they have the same value of
    ``column``. Clusters are connected components of these links, so it does not matter which case
    of a pair names the other. Cases that name the same third case are in one cluster, even if the
    third case is not in the frame. All rows of a case are in its cluster, whatever their agent,
    grader, round or repeat. Clusters are numbered in the order of the sorted skills and cases, so
    resampling does not depend on the order of the rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cases, attempts, verdicts or outcomes; columns ``skill``, ``case_id`` and, if there are
        any, ``contrast_of`` and ``task``.
    cases : pandas.DataFrame, optional
        A cases frame; its links between cases are used, too.
    column : str, optional
        A column of ``frame`` or ``cases`` with one value in all rows of a case, such as the
        repository that the case comes from. A missing value links a case to no other case.

    Returns
    -------
    pandas.Series
        Cluster numbers from 0, with the index of ``frame``.

    Examples
    --------
    >>> frame = pd.DataFrame({"skill": "s", "case_id": ["a", "b", "c"],
    ...                       "contrast_of": ["b", "a", None]})
    >>> clusters_of(frame).tolist()
    [0, 0, 1]
    """
    n, names = len(frame), list(dict.fromkeys(["task", column or "task"]))
    rows = _case_links(frame, names)
    if cases is not None:
        rows = pd.concat([rows, _case_links(check(cases, "cases"), names)], ignore_index=True)
    has_twin = rows["contrast_of"].notna().to_numpy()
    skill = pd.factorize(rows["skill"], sort=True, use_na_sentinel=False)[0]
    ids = pd.concat([rows["case_id"], rows["contrast_of"][has_twin]], ignore_index=True)
    case, distinct_ids = pd.factorize(ids, sort=True, use_na_sentinel=False)
    place = np.concatenate([skill, skill[has_twin]]) * max(len(distinct_ids), 1) + case
    places, node = np.unique(place, return_inverse=True)
    edges, n_nodes = [(node[: len(rows)][has_twin], node[len(rows) :])], len(places)
    # in the graph of links, each distinct value of the column (such as a task) is a node of its own
    for name in names:
        value = pd.factorize(rows[name])[0]
        linked = value >= 0
        edges.append((node[: len(rows)][linked], n_nodes + value[linked]))
        n_nodes += int(value.max(initial=-1)) + 1
    ends = np.hstack(edges)
    graph = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n_nodes, n_nodes))
    label = connected_components(graph, directed=False)[1] if len(places) else node
    # number components by their first case; leave out components without a row in `frame`
    first = np.unique(label, return_index=True)[1][label] if len(places) else node
    numbers = np.unique(first[node[:n]], return_inverse=True)[1]
    return pd.Series(numbers.astype(np.int64), index=frame.index, name="cluster")


def _case_links(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return skill, case_id, contrast_of and the columns ``names``; absent columns are NA."""
    present = [name for name in ("contrast_of", *names) if name in frame.columns]
    columns = list(dict.fromkeys([*CASE, *present]))
    links = frame[columns].astype("str")
    absent = {name: pd.Series(pd.NA, frame.index, dtype="str") for name in ("contrast_of", *names)}
    return links.assign(**{name: na for name, na in absent.items() if name not in columns})


def linked_clusters(
    frame: pd.DataFrame, cases: pd.DataFrame | None, by: Sequence[str], column: str | None = None
) -> pd.Series:
    """Return the clusters of the rows, see :func:`clusters_of`.

    Raise FrameError if a group of ``by`` has cases of equal names under several skills and no
    ``task`` says whether they are the same: the clusters are then unknown.
    """
    names = list(dict.fromkeys([*by, "case_id"]))
    tasks = frame["task"] if "task" in frame else pd.Series(None, frame.index, dtype="str")
    unknown = frame.loc[tasks.isna(), [*dict.fromkeys([*names, "skill"])]].drop_duplicates()
    twins = unknown[unknown.duplicated(names, keep=False)]
    if len(twins):
        first, second = twins.loc[twins["case_id"].eq(twins["case_id"].iloc[0]), "skill"].iloc[:2]
        raise FrameError(
            f"skills {first!r} and {second!r} both have a case {twins['case_id'].iloc[0]!r}, and "
            "neither prompts nor tasks say whether it is the same task. State it: "
            "shared_cases=True (the same tasks) or False (different ones) in sc.from_frame, or a "
            "column 'task' of the cases, which analyses of verdicts read from cases=. Or estimate "
            "each skill by itself: add 'skill' to by=."
        )
    return clusters_of(frame, cases, column=column)


def with_case_facts(
    frame: pd.DataFrame, cases: pd.DataFrame | None, columns: Sequence[str | None]
) -> pd.DataFrame:
    """Add columns of ``cases`` that ``frame`` lacks: ``task`` and those in ``columns``."""
    if cases is None:
        return frame
    checked = check(cases, "cases")
    facts = [n for n in dict.fromkeys(["task", *columns]) if n in checked and n not in frame]
    return frame.merge(checked[[*CASE, *facts]], on=CASE, how="left", validate="m:1")


def n_distinct(values: Any) -> int:
    """Return the number of distinct values; for short arrays, this is faster than pandas."""
    values = np.asarray(values)
    return len(pd.unique(values) if values.dtype == object else np.unique(values))
