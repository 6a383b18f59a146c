"""Parts of a chapter: sentences made from frames, and what a study lacks as one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Markdown, display

from skillcomp import frames, reliability
from skillcomp.errors import SkillcompError, StudyError, instead
from skillcomp.io.store import RunStore

NOT_SHOWN = "Not shown: "


@contextmanager
def section() -> Iterator[None]:
    """Show one sentence in place of an analysis that the study has no data for.

    An error of skillcomp ends the block, and its message is shown, with the remedy. Other errors
    are raised.

    Yields
    ------
    None
        The block is the analysis with its tables and figures.

    Examples
    --------
    >>> with section():  # doctest: +SKIP
    ...     drift = sc.reliability.drift(verdicts, gold, reference_grader="old")
    """
    try:
        yield
    except SkillcompError as error:
        plt.close("all")
        _show_text(NOT_SHOWN + str(error))


def show(*parts: object) -> None:
    """Show sentences as paragraphs and everything else as a notebook does.

    Parameters
    ----------
    *parts : str, pandas.DataFrame with a column ``sentence``, or any object
        A text, the sentences of :func:`skillcomp.report.findings`, or an object such as a
        :class:`skillcomp.table.Table`. Texts are escaped, because names in them may come from
        outside.
    """
    for part in parts:
        if isinstance(part, str):
            _show_text(part)
        elif isinstance(part, pd.DataFrame) and "sentence" in part:
            for sentence in part["sentence"]:
                _show_text(str(sentence))
        else:
            display(part)  # type: ignore[no-untyped-call]


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
    agreement = reliability.agreement(verdicts, gold, by=["grader"], cases=cases)
    return best_grader(agreement, names)


def best_grader(agreement: pd.DataFrame | None, names: list[str]) -> str:
    """Return the grader that agrees best with gold; without any agreement, the first by name."""
    if agreement is not None:
        raw = agreement[agreement["measure"].eq("raw_agreement")].dropna(subset=["estimate"])
        if len(raw):
            return str(raw.sort_values("estimate", kind="stable")["grader"].iloc[-1])
    return sorted(names)[0]


def _escaped(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; line breaks become spaces."""
    return re.sub(r"([\\`*_{}\[\]<>#|!$])", r"\\\1", " ".join(text.split()))


def _show_text(text: str) -> None:
    display(Markdown(_escaped(text)))  # type: ignore[no-untyped-call]
