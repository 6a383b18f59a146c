"""Default choices of the grader and of the reference condition for the results of a study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp import frames, reliability
from skillcomp.errors import FrameError, SkillcompError, StudyError, argument, instead
from skillcomp.frames.estimates import (
    group_codes,
    ordered,
    reference_choices,
    require_reference,
)
from skillcomp.io.store import RunStore

_NO_VERDICTS = "report: the study has no verdicts yet; grade it with `skillcomp grade`."
_NO_USABLE_VERDICT = (
    "report: none of {} verdicts says pass or fail: the grader failed, or the values are missing. "
    "Grade again with `skillcomp grade`."
)

_ONLY_SCORES = (
    "report: none of {} verdicts says pass or fail, but they have scores. {} and {}, the lowest "
    "and the highest possible score, compare these."
)


def default_grader(
    study: RunStore | frames.Frames | pd.DataFrame,
    grader: str | None = None,
    *,
    gold: pd.DataFrame | None = None,
) -> str:
    """Choose the grader that the results of a study are based on.

    Parameters
    ----------
    study : skillcomp.RunStore, skillcomp.frames.Frames or pandas.DataFrame
        The study, or its verdicts frame, such as the result of :func:`grader_versions`.
    grader : str, optional
        The grader that you want.
    gold : pandas.DataFrame, optional
        A gold frame, if `study` is a verdicts frame.

    Returns
    -------
    str
        `grader`; without it, the grader that agrees best with gold or, without gold or in a tie,
        the first by name.

    Raises
    ------
    StudyError
        If the study has no verdicts, or none of this grader; the message lists the graders.
    """
    if isinstance(study, pd.DataFrame):
        verdicts = study
    else:
        verdicts, gold = frame_of(study, "verdicts"), frame_of(study, "gold")
    names = _grader_names(verdicts)
    if grader is not None:
        return grader_named(grader, names)
    if len(names) == 1 or gold is None or gold.empty:
        return names[0]
    # only the estimates are read, so it does not matter which cases of several skills are one task
    verdicts = verdicts.assign(task=verdicts["case_id"])
    try:
        agreement = reliability.agreement(
            verdicts,
            gold,
            by=["grader", "grader_version"],
            quantities="raw_agreement",
            average=["agent"],
            n_resamples=1,
        )
    except SkillcompError:  # the labels are unusable; the report gives the reason elsewhere
        return names[0]
    return best_grader(agreement, names)


def frame_of(study: RunStore | frames.Frames, name: str, **how: Any) -> Any:
    """Return a frame of a study by its name; `how` are arguments for reading it from a store."""
    if isinstance(study, frames.Frames):
        return vars(study)[name]
    return getattr(frames, name)(study, **how)


def best_grader(agreement: pd.DataFrame | None, names: list[str]) -> str:
    """Return the grader that agrees best with gold; in a tie or without gold, the first by name."""
    if agreement is not None:
        raw = agreement[agreement["measure"].eq("raw_agreement")].dropna(subset=["estimate"])
        if len(raw):
            return str(raw[raw["estimate"].eq(raw["estimate"].max())]["grader"].min())
    return sorted(names)[0]


def first_grader(verdicts: pd.DataFrame, grader: str | None = None) -> str:
    """Choose the grader with which the others are compared.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame, such as the result of :func:`grader_versions`.
    grader : str, optional
        The grader that you want.

    Returns
    -------
    str
        `grader`; without it, the grader that graded first by ``graded_at`` or, if a grader has no
        times, the first by name.

    Raises
    ------
    StudyError
        If there are no verdicts, or none of this grader; the message lists the graders.
    """
    names = _grader_names(verdicts)
    if grader is not None:
        return grader_named(grader, names)
    starts = verdicts.groupby("grader")["graded_at"].min()
    if starts.isna().any():
        return names[0]
    return str(starts.sort_values(kind="stable").index[0])


def default_reference(
    answers: pd.DataFrame, condition: str | None = None, *, alone: bool = False
) -> str:
    """Choose the condition that the others are compared with.

    Parameters
    ----------
    answers : pandas.DataFrame
        An outcomes, verdicts or attempts frame.
    condition : str, optional
        The condition that you want.
    alone : bool, default False
        Accept a study with a single condition, for results that need no comparison.

    Returns
    -------
    str
        `condition`; without it, ``baseline`` or, in a study without one, ``previous``. With
        `alone`, the only condition of a study that has a single one.

    Raises
    ------
    StudyError
        If there are no answers under this condition (the message lists the conditions to choose
        from), if there is only one condition and `alone` is False, or if no verdict says pass or
        fail.
    """
    present = ordered(answers["condition"])
    names = [name for name in ("baseline", "previous") if name in present]
    names += present if alone and len(present) == 1 else []
    if not present:
        raise StudyError(_NO_VERDICTS)
    if "passed" in answers.columns and answers["passed"].isna().all():
        if "score" in answers.columns and answers["score"].notna().any():
            raise StudyError(
                _ONLY_SCORES.format(len(answers), argument("value", "score"), argument("bounds"))
            )
        raise StudyError(_NO_USABLE_VERDICT.format(len(answers)))
    if len(present) == 1 and not alone:
        raise StudyError(f"all answers are under {present[0]}. {reference_choices(present)}.")
    reference = condition or [*names, "baseline"][0]
    try:
        require_reference(present, reference)
    except FrameError as error:
        raise StudyError(f"report: {error}") from error
    return reference


def grader_versions(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Give each version of a grader a name of its own, such as ``g2 (forced)``.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame.

    Returns
    -------
    pandas.DataFrame
        The same rows with new names in ``grader``. The version ``forced@1a2b`` of the grader g2
        gives ``g2 (forced)``. Two versions without an ``@`` give ``g2 (version 1)`` and
        ``g2 (version 2)``. A grader with only one version without an ``@`` keeps its name.
    """
    if verdicts.empty:
        return verdicts
    code, first = group_codes(verdicts, ["grader", "grader_version"])
    pairs = verdicts[["grader", "grader_version"]].iloc[first].fillna({"grader_version": ""})
    names = []
    for grader, version in zip(pairs["grader"], pairs["grader_version"], strict=True):
        name, sign, _ = version.partition("@")
        text = f"{grader} ({name})" if sign else grader
        if not sign and int(pairs["grader"].eq(grader).sum()) > 1:
            text = f"{grader} (version {version or 'unknown'})"
        names.append(f"{text} {version}" if text in names else text)
    return verdicts.assign(grader=pd.Series(names, dtype="str").array.take(code))


def grader_named(wish: str, graders: list[str]) -> str:
    """Return the grader with this name (the version may be left out); raise StudyError if none."""
    for name in graders:
        if wish == name or name.startswith(f"{wish} ("):
            return name
    raise StudyError(f"report: there is no grader '{wish}'{instead(wish, graders)}")


def _grader_names(verdicts: pd.DataFrame) -> list[str]:
    """Return the sorted names of the graders; raise StudyError if there are none."""
    names = sorted(map(str, verdicts["grader"].dropna().unique()))
    if not names:
        raise StudyError(_NO_VERDICTS)
    return names
