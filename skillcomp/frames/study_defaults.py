"""What the results of a study rest on by default: its graders and the condition to compare with."""

from __future__ import annotations

import pandas as pd

from skillcomp.errors import FrameError, StudyError, argument, instead
from skillcomp.frames.estimates import group_codes, ordered, reference_choices, require_reference

_NO_VERDICTS = "the study has no verdicts yet; grade it with `skillcomp grade`."
_NO_USABLE_VERDICT = (
    "none of {} verdicts says pass or fail: the grader failed, or the values are missing. Grade "
    "again with `skillcomp grade`."
)
_ONLY_SCORES = (
    "none of {} verdicts says pass or fail, but they have scores. {} and {}, the lowest and the "
    "highest possible score, compare these."
)


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
    names = names_of_graders(verdicts)
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
        raise StudyError(str(error)) from error
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
    raise StudyError(f"there is no grader '{wish}'{instead(wish, graders)}")


def names_of_graders(verdicts: pd.DataFrame) -> list[str]:
    """Return the sorted names of the graders; raise StudyError if there are none."""
    names = sorted(map(str, verdicts["grader"].dropna().unique()))
    if not names:
        raise StudyError(_NO_VERDICTS)
    return names
