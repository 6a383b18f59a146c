"""Which cases hang together: twins of a contrast pair share a prompt and form one cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = ["twin_clusters"]


def twin_clusters(frame: pd.DataFrame) -> pd.Series:
    """Put cases that name one another as contrast, directly or in a chain, into one cluster.

    Parameters
    ----------
    frame : pandas.DataFrame
        Reads skill, case_id and contrast_of (case_id of the twin, of the same skill; may be
        missing). One row per case, attempt or verdict, in any order.

    Returns
    -------
    pandas.Series
        int64, on the index of ``frame``: numbers from 0 in order of first appearance. Cases of
        two skills never share one. Cases that name the same absent twin do.

    Notes
    -----
    Connected components, so that it does not matter which twin names the other, or whether both
    do.

    Examples
    --------
    >>> frame = pd.DataFrame({"skill": "s", "case_id": ["a", "b", "c"],
    ...                       "contrast_of": ["b", "a", None]})
    >>> twin_clusters(frame).tolist()
    [0, 0, 1]
    """
    n = len(frame)
    named = frame["contrast_of"].notna().to_numpy()
    skill = pd.factorize(frame["skill"], use_na_sentinel=False)[0]
    ids = pd.concat([frame["case_id"], frame["contrast_of"][named]], ignore_index=True)
    case, found = pd.factorize(ids, use_na_sentinel=False)
    place = np.concatenate([skill, skill[named]]) * max(len(found), 1) + case
    node, places = pd.factorize(place)
    edges = (np.ones(int(named.sum())), (node[:n][named], node[n:]))
    graph = coo_array(edges, shape=(len(places), len(places)))
    label = connected_components(graph, directed=False)[1][node[:n]] if n else node[:n]
    return pd.Series(pd.factorize(label)[0].astype(np.int64), index=frame.index, name="cluster")
