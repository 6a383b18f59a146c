"""What a cut flags: the calibrated one applied to verdicts, or every cut traced as a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_curve

from skillcomp.errors import FrameError, suggest
from skillcomp.overlap.score import as_names, need, once

__all__ = ["flag", "roc"]


def flag(verdicts: pd.DataFrame, shared: pd.DataFrame, cut: pd.DataFrame) -> pd.DataFrame:
    """Mark which answers copy, by the calibrated cut; nothing is dropped.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts or outcomes frame: attempt_id and passed.
    shared : pandas.DataFrame
        Scored attempts, as returned by :func:`score`, with the chosen n among its lengths.
    cut : pandas.DataFrame
        As returned by :func:`calibrate`; its ``chosen`` row is applied (one for each skill when
        calibrated by skill).

    Returns
    -------
    pandas.DataFrame
        The frame given, with ``copied`` (boolean; NA for an attempt that was not scored or has no
        answer) and ``passed_own_words``: passed and not copied; False where the verdict failed or
        the answer copied, NA where that is not known.

    Raises
    ------
    FrameError
        If a column is missing, ``passed`` is not boolean, no row of ``cut`` is chosen, nothing
        kept the limit, ``shared`` lacks the chosen n or has an attempt twice for it, or not one
        of the verdicts is about an attempt in ``shared``.
    """
    told = need(verdicts, ["attempt_id", "passed"], what="overlap.flag: verdicts")
    passed = told["passed"]
    rules = _rules(cut)
    on = [name for name in ("n", "skill") if name in rules.columns]
    shared = need(shared, ["attempt_id", *on, "any_shared", "share"], what="overlap.flag: shared")
    lacking = sorted(set(rules["n"]) - set(shared["n"]))
    if lacking:
        raise FrameError(f"overlap.flag: shared was not scored for n = {lacking[0]}.")
    attempts = shared[shared["attempt_id"].notna()]
    once(attempts, what="overlap.flag: shared")
    asked = told["attempt_id"].dropna()
    if len(asked) and not asked.isin(attempts["attempt_id"]).any():
        found = f"'{attempts['attempt_id'].iloc[0]}'" if len(attempts) else "no attempts"
        raise FrameError(
            "overlap.flag: no verdict is about an attempt in shared: verdicts have "
            f"'{asked.iloc[0]}', shared has {found}; allowed: the attempt_id of both frames alike."
        )
    scored = attempts.merge(rules, on=on)
    by_share = scored["share"].fillna(0.0).ge(scored["cut"]).astype("boolean")
    copied = scored["any_shared"].where(scored["rule"].eq("any"), by_share)
    copied = copied.mask(scored["any_shared"].isna())
    known = pd.Series(copied.array, index=scored["attempt_id"])
    marked = known.reindex(told["attempt_id"]).astype("boolean").array
    return verdicts.assign(
        copied=marked, passed_own_words=passed & ~pd.Series(marked, index=passed.index)
    )


def _rules(cut: pd.DataFrame) -> pd.DataFrame:
    """Return the chosen rule, or that of each skill: n, rule, cut, and skill where there is one."""
    cut = need(cut, ["chosen", "n", "rule", "cut"], what="overlap.flag: cut")
    chosen = cut[cut["chosen"].fillna(False)]
    if chosen.empty or chosen["n"].isna().any():
        without = chosen[chosen["n"].isna()].get("note", pd.Series("no n was chosen."))
        why = "no row is marked chosen." if chosen.empty else str(without.iloc[0])
        raise FrameError(f"overlap.flag: no cut to apply: {why}")
    by_skill = "skill" in chosen.columns
    if not by_skill and len(chosen) > 1:
        raise FrameError(f"overlap.flag: {len(chosen)} rows are marked chosen; one is needed.")
    if by_skill and chosen["skill"].duplicated().any():
        first = chosen.loc[chosen["skill"].duplicated(), "skill"].iloc[0]
        raise FrameError(f"overlap.flag: more than one row is marked chosen for skill '{first}'.")
    names = ["n", *(["skill"] if by_skill else []), "rule", "cut"]
    return chosen[names].astype({"n": "int64"})


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
    shared = need(shared, ["kind", "level", "n", "any_shared", "share"], what="overlap.roc: shared")
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
    given: Any = scored if n is None else n
    wanted = list(given) if isinstance(given, Iterable) and given != str(given) else [given]
    if not wanted:
        raise FrameError("overlap.roc: n: found none; allowed: at least one length.")
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
