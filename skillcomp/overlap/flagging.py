"""The calibrated cut applied to verdicts: copied answers are marked, never dropped."""

from __future__ import annotations

import pandas as pd

from skillcomp.errors import FrameError


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
        If no row of ``cut`` is chosen, nothing kept the limit, or ``shared`` lacks the chosen n.
    """
    chosen = cut[cut["chosen"]]
    if chosen.empty or chosen["n"].isna().any():
        raise FrameError(
            "overlap.flag: no cut to apply: "
            + ("no row is marked chosen." if chosen.empty else str(chosen["note"].iloc[0]))
        )
    by_skill = "skill" in chosen.columns
    if not by_skill and len(chosen) > 1:
        raise FrameError(f"overlap.flag: {len(chosen)} rows are marked chosen; one is needed.")
    on = ["n", "skill"] if by_skill else ["n"]
    rules = chosen[[*on, "rule", "cut"]].astype({"n": "int64"})
    lacking = sorted(set(rules["n"]) - set(shared["n"]))
    if lacking:
        raise FrameError(f"overlap.flag: shared was not scored for n = {lacking[0]}.")
    scored = shared[shared["attempt_id"].notna()].merge(rules, on=on)
    by_share = scored["share"].fillna(0.0).ge(scored["cut"]).astype("boolean")
    copied = scored["any_shared"].where(scored["rule"].eq("any"), by_share)
    copied = copied.mask(scored["any_shared"].isna())
    known = pd.Series(copied.array, index=scored["attempt_id"])
    marked = known.reindex(verdicts["attempt_id"]).astype("boolean").array
    passed = verdicts["passed"].astype("boolean")
    return verdicts.assign(
        copied=marked, passed_own_words=passed & ~pd.Series(marked, index=passed.index)
    )
