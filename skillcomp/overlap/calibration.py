"""From which n on a shared n-gram means copying: two nulls, one limit, one choice.

A candidate is an n-gram length with a rule: any shared n-gram, or a share of the text's n-grams
that reaches a cut. It is judged by what it finds among passages that copy, and by what it flags
under each null: texts of which we know that they do not copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.checking import as_names, in_range, need, once
from skillcomp.overlap.judging import calibration_rows
from skillcomp.overlap.sample import Settings, make_sample
from skillcomp.overlap.scoring import score
from skillcomp.records import Skill

NEEDED = ["kind", "attempt_id", "passage_id", "skill", "case_id", "condition", "document"]
NEEDED += ["level", "n", "any_shared", "share", "n_tokens"]
COLUMNS = {
    "rule": "str",
    "n": "Int64",
    "cut": "float64",
    "measure": "str",
    "estimate": "float64",
    "ci_low": "float64",
    "ci_high": "float64",
    "ci_level": "float64",
    "n_texts": "float64",
    "n_clusters": "float64",
    "limit": "float64",
    "chosen": "bool",
    "method": "str",
    "note": "str",
}


def calibrate(
    shared: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    passages: pd.DataFrame,
    skills: Mapping[str, Skill | str],
    positive: str | Sequence[str] = ("verbatim", "near_copy"),
    nulls: str | Sequence[str] = ("baseline", "fresh"),
    max_false_flags: float = 0.05,
    by: str | Sequence[str] = (),
    tokenizer: Tokenizer | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Say from which n on a shared n-gram means copying, and how sure that is.

    Copies are passages labelled so by construction. Two nulls say what does not: answers that
    never saw the skill (coincidence) and passages written fresh from understanding (honest use of
    the proper terms). The limit on false flags applies under each of them.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored attempts, as returned by :func:`score`; its lengths n are the candidates.
    attempts : pandas.DataFrame
        The attempts that were scored. Only these take part, so a selection can be made here.
    passages : pandas.DataFrame
        Passages frame: passage_id, skill, document, level, text. Scored here; what stands in the
        question of a passage too does not count, as in :func:`score`.
    skills : mapping of str to Skill or str
        As in :func:`score`.
    positive : str or sequence of str
        Levels of passages that are copies.
    nulls : str or sequence of str
        Levels of passages, or conditions of attempts, that are not.
    max_false_flags : float, default 0.05
        Largest rate of flagged texts allowed under each null.
    by : str or sequence of str
        ``["skill"]`` calibrates each skill alone.
    tokenizer : callable, optional
        As in :func:`score`; give the one that scored the attempts.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Resamples of documents and cases behind the spread of the choice and the AUC; at least 1.

    Returns
    -------
    pandas.DataFrame
        Long, one row per ``by``, rule, n and measure.

        rule : str, ``any`` (a shared n-gram flags) or ``share`` (a share of at least ``cut`` flags)
        n : Int64, tokens of the n-gram (not a number of texts: that is ``n_texts``)
        cut : float64, for ``share``: the cut preferred for this n (see Notes); no row where none
            finds a copy within the limit
        measure : str
            ``sensitivity`` among the copies and ``specificity`` among the passages of the nulls,
            by document; ``false_flags_<null>`` for each null, with its upper bound and, where the
            data cannot bound it at the limit, how many clean texts would;
            ``false_flags_<null>_at_answer_length``, the same carried from short passages to texts
            as long as the answers; ``flagged_<name>`` for every other level and condition, where
            the truth is not known; ``auc`` of the share; ``nested_...``, the choice judged on
            documents and cases that it was not made on, without the folds in which nothing kept
            the limit; ``chosen_n_<null>``, the answer under one null alone; ``chosen_n``, the
            answer.
        estimate, ci_low, ci_high, ci_level : float64
        n_texts, n_clusters : float64, texts and documents or cases behind the row
        limit : float64, the limit where it applies
        chosen : bool, True in exactly one row (of each ``by``): measure ``chosen_n``, with the
            chosen n, rule and cut. Its interval is the spread of n over resamples, half a step
            wider on each side; NaN with a note when nothing keeps the limit, and without limits
            when a class has fewer than 10 documents or cases: so few hardly move the choice when
            they are resampled, however unsure it is.
        method, note : str

    Raises
    ------
    FrameError
        If a level, condition or column is not there, `shared` is empty, holds none of the
        attempts or one twice, ``by`` names something else than ``skill``, or a number is out of
        range.

    See Also
    --------
    flag : Applies the choice to verdicts.
    skillcomp.plots.threshold : Draws it.

    Notes
    -----
    Chosen is the candidate with the highest sensitivity among those within the limit under every
    null. Of equals, ``any`` comes before ``share``. Among rules of ``any`` the longer n-gram
    follows, which flags less; among those of ``share`` the lowest rate under the worst null, then
    the longer n-gram, then the middle one of the cuts that are left, as far from both classes as
    can be. The rows shown for each n are chosen by the same order.

    Documents (a skill and topic) are the units of passages, cases those of attempts. Carrying a
    rate to another length assumes the same chance at each place of a text.

    References
    ----------
    Levels of reuse as in Clough and Stevenson 2011, doi:10.1007/s10579-009-9112-1.
    """
    settings = _settings(positive, nulls, max_false_flags, ci_level, n_resamples, seed)
    names = list(as_names(by))
    if names not in ([], ["skill"]):
        raise FrameError(f"overlap.calibrate: by= found {names}; allowed: [] or ['skill'].")
    kept = _scored(shared, attempts)
    lengths = sorted(int(n) for n in shared["n"].unique())
    scored = score(passages, skills=skills, n=lengths, tokenizer=tokenizer)
    every = pd.concat([kept, scored], ignore_index=True)
    parts = []
    for slug, part in every.groupby("skill", sort=False) if names else [(None, every)]:
        rows = pd.DataFrame(calibration_rows(make_sample(part, settings), settings))
        rows = rows.reindex(columns=list(COLUMNS)).astype(COLUMNS)
        if names:
            rows.insert(0, "skill", slug)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _settings(
    positive: str | Sequence[str],
    nulls: str | Sequence[str],
    max_false_flags: float,
    ci_level: float,
    n_resamples: int,
    seed: int,
) -> Settings:
    for what, found in (("positive", positive), ("nulls", nulls)):
        if not as_names(found):
            raise FrameError(f"overlap.calibrate: {what}: found none; allowed: at least one name.")
    for what, number, least in (("n_resamples", n_resamples, 1), ("seed", seed, 0)):
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < least:
            raise FrameError(
                f"overlap.calibrate: {what}: found {number!r}; "
                f"allowed: whole numbers of at least {least}."
            )
    limit = in_range(max_false_flags, "max_false_flags", low=0.0, allowed="0 to below 1")
    level = in_range(ci_level, "ci_level", low=1e-9, allowed="above 0 and below 1, as 0.95")
    return Settings(as_names(positive), as_names(nulls), limit, level, n_resamples, seed)


def _scored(shared: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `shared` for the attempts given."""
    what = "overlap.calibrate: shared"
    need(shared, NEEDED, what=what)
    if shared.empty:
        raise FrameError(f"{what} has no rows; allowed: the rows of overlap.score for attempts.")
    wanted = shared["attempt_id"].isin(check(attempts, "attempts")["attempt_id"])
    if shared["attempt_id"].notna().any() and not wanted.any():
        raise FrameError(f"{what} holds none of the attempts.")
    kept = shared[wanted]
    once(kept, what=what)
    held = kept.groupby("attempt_id")["n"].size()
    if len(held) and held.min() < shared["n"].nunique():
        raise FrameError(
            f"{what}: attempt '{held.idxmin()}' was not scored for every n; "
            "allowed: the same n for all attempts."
        )
    return kept
