"""ROC and precision-recall points of the share, for drawing; judge with ``calibrate``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import roc_curve

from skillcomp.errors import FrameError, suggest
from skillcomp.overlap.checking import as_names, need


def roc(
    shared: pd.DataFrame,
    *,
    positive: str | Sequence[str] = ("verbatim", "near_copy"),
    negative: str | Sequence[str] = ("fresh", "heavy_revision"),
    n: Sequence[int] | int | None = None,
) -> pd.DataFrame:
    """Trace what each cut of the share finds and flags: the points of ROC and PR curves.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored passages, as returned by :func:`skillcomp.overlap.score`.
    positive, negative : str or sequence of str
        Levels that copy, and levels that do not. Passages of other levels are left out.
    n : int or sequence of int, optional
        Lengths of n-grams; by default all that were scored.

    Returns
    -------
    pandas.DataFrame
        One row per n and cut at which a curve turns, from the strictest on: n, cut (flagged is a
        share of at least the cut; infinite at first), true_positive_rate, false_positive_rate,
        recall (the same as the true positive rate), precision (NaN where nothing is flagged),
        prevalence of the sample.

    Raises
    ------
    FrameError
        If a column or a level is not there, or nothing was scored for an n.

    Notes
    -----
    Points have no intervals: use :func:`skillcomp.overlap.calibrate` for rates to rely on. A
    passage too short for an n-gram shares nothing.
    """
    need(shared, ["kind", "level", "n", "any_shared", "share"], what="overlap.roc: shared")
    copying, clean = as_names(positive), as_names(negative)
    passages = shared[shared["kind"].eq("passage") & shared["any_shared"].notna()]
    there = sorted(passages["level"].dropna().unique())
    for name in (*copying, *clean):
        if name not in there:
            raise FrameError(
                f"overlap.roc: no passage has the level '{name}'; there: {', '.join(there)}."
                + suggest(name, there)
            )
    kept = passages[passages["level"].isin([*copying, *clean])]
    scored = sorted(kept["n"].unique())
    wanted = scored if n is None else [n] if isinstance(n, (int, str)) else list(n)
    for length in wanted:
        if length not in scored:
            raise FrameError(
                f"overlap.roc: n: nothing was scored for n = {length!r}; "
                f"there: {', '.join(map(str, scored))}."
            )
    parts = [_points(kept[kept["n"].eq(length)], copying) for length in wanted]
    return pd.concat(parts, ignore_index=True)


def _points(passages: pd.DataFrame, copying: Sequence[str]) -> pd.DataFrame:
    """Return the points of one n."""
    copies = passages["level"].isin(copying).to_numpy()
    false_rate, true_rate, cut = roc_curve(copies, passages["share"].fillna(0.0))
    found, wrong = true_rate * copies.sum(), false_rate * (~copies).sum()
    with np.errstate(invalid="ignore"):
        precision = found / (found + wrong)
    return pd.DataFrame(
        {
            "n": int(passages["n"].iloc[0]),
            "cut": cut,
            "true_positive_rate": true_rate,
            "false_positive_rate": false_rate,
            "recall": true_rate,
            "precision": precision,
            "prevalence": float(copies.mean()),
        }
    )
