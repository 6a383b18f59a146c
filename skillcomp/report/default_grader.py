"""The grader that a study is read by, if the user names none."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp import frames, reliability
from skillcomp.errors import StudyError, instead
from skillcomp.io.store import RunStore


def default_grader(study: RunStore | frames.Frames, grader: str | None = None) -> str:
    """Choose the grader that a study is read by.

    Parameters
    ----------
    study : skillcomp.RunStore or skillcomp.frames.Frames
        The study.
    grader : str, optional
        The grader that you want.

    Returns
    -------
    str
        `grader`; without it, the grader that agrees best with gold or, without gold, the first by
        name.

    Raises
    ------
    StudyError
        If the study has no verdicts, or none of this grader; the message lists the graders.
    """
    if isinstance(study, frames.Frames):
        verdicts, gold, cases = study.verdicts, study.gold, study.cases
    else:
        verdicts, gold = frames.verdicts(study), frames.gold(study)
        cases = frames.cases(study)
    names = sorted(verdicts["grader"].dropna().unique())
    if not names:
        raise StudyError("report: the study has no verdicts yet; grade it with `skillcomp grade`.")
    if grader is not None and grader not in names:
        raise StudyError(f"report: there is no grader '{grader}'{instead(grader, names)}")
    if grader is not None or len(names) == 1 or gold.empty:
        return grader or str(names[0])
    # the intervals are not used
    how: dict[str, Any] = {"by": ["grader"], "cases": cases, "n_resamples": 1}
    agreement = reliability.agreement(verdicts, gold, **how)
    return best_grader(agreement, names)


def best_grader(agreement: pd.DataFrame | None, names: list[str]) -> str:
    """Return the grader that agrees best with gold; without any agreement, the first by name."""
    if agreement is not None:
        raw = agreement[agreement["measure"].eq("raw_agreement")].dropna(subset=["estimate"])
        if len(raw):
            return str(raw.sort_values("estimate", kind="stable")["grader"].iloc[-1])
    return sorted(names)[0]
