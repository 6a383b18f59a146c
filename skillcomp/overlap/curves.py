"""ROC and precision-recall points of the share, for drawing; judge with ``calibrate``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import roc_curve

from skillcomp.errors import FrameError, suggest


def roc(
    shared: pd.DataFrame,
    *,
    positive: Sequence[str] = ("verbatim", "near_copy"),
    negative: Sequence[str] = ("fresh", "heavy_revision"),
    n: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Trace what each cut of the share finds and flags: the points of ROC and PR curves.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored passages, as returned by :func:`skillcomp.overlap.score`.
    positive, negative : sequence of str
        Levels that copy, and levels that do not. Passages of other levels are left out.
    n : sequence of int, optional
        Lengths of n-grams; by default all that were scored.

    Returns
    -------
    pandas.DataFrame
        One row per n and cut at which a curve turns, from the strictest on: n, cut (flagged is a share of at least the
        cut; infinite at first), true_positive_rate, false_positive_rate, recall (the same as the
        true positive rate), precision (NaN where nothing is flagged), prevalence of the sample.

    Raises
    ------
    FrameError
        If a level is not there or a class is empty.

    Notes
    -----
    Points have no intervals: use :func:`skillcomp.overlap.calibrate` for rates to rely on. A
    passage too short for an n-gram shares nothing.
    """
    passages = shared[shared["kind"].eq("passage") & shared["any_shared"].notna()]
    there = sorted(passages["level"].dropna().unique())
    for name in (*positive, *negative):
        if name not in there:
            raise FrameError(
                f"overlap.roc: no passage has the level '{name}'; there: {', '.join(there)}."
                + suggest(name, there)
            )
    kept = passages[passages["level"].isin([*positive, *negative])]
    lengths = sorted(kept["n"].unique()) if n is None else list(n)
    parts = []
    for length in lengths:
        here = kept[kept["n"].eq(length)]
        if here.empty:
            raise FrameError(f"overlap.roc: nothing was scored for n = {length}.")
        copies = here["level"].isin(positive).to_numpy()
        false_rate, true_rate, cut = roc_curve(copies, here["share"].fillna(0.0))
        found, wrong = true_rate * copies.sum(), false_rate * (~copies).sum()
        with np.errstate(invalid="ignore"):
            precision = found / (found + wrong)
        parts.append(
            pd.DataFrame(
                {
                    "n": int(length),
                    "cut": cut,
                    "true_positive_rate": true_rate,
                    "false_positive_rate": false_rate,
                    "recall": true_rate,
                    "precision": precision,
                    "prevalence": float(copies.mean()),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)
