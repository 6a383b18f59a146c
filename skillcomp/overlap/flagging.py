"""The calibrated cut applied to verdicts: copied answers are marked, never dropped."""

from __future__ import annotations

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.overlap.checking import as_booleans, need, once


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
    need(verdicts, ["attempt_id", "passed"], what="overlap.flag: verdicts")
    passed = as_booleans(verdicts, "passed", what="overlap.flag: verdicts")
    rules = _rules(cut)
    on = [name for name in ("n", "skill") if name in rules.columns]
    need(shared, ["attempt_id", *on, "any_shared", "share"], what="overlap.flag: shared")
    lacking = sorted(set(rules["n"]) - set(shared["n"]))
    if lacking:
        raise FrameError(f"overlap.flag: shared was not scored for n = {lacking[0]}.")
    attempts = shared[shared["attempt_id"].notna()]
    once(attempts, what="overlap.flag: shared")
    asked = verdicts["attempt_id"].dropna()
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
    marked = known.reindex(verdicts["attempt_id"]).astype("boolean").array
    return verdicts.assign(
        copied=marked, passed_own_words=passed & ~pd.Series(marked, index=passed.index)
    )


def _rules(cut: pd.DataFrame) -> pd.DataFrame:
    """Return the chosen rule, or that of each skill: n, rule, cut, and skill where there is one."""
    need(cut, ["chosen", "n", "rule", "cut"], what="overlap.flag: cut")
    chosen = cut[as_booleans(cut, "chosen", what="overlap.flag: cut").fillna(False)]
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
