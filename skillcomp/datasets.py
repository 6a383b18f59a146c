"""The recorded data of skillcomp: three studies, scripted traces and labelled passages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

import pandas as pd

from skillcomp.errors import StudyError, instead
from skillcomp.frames.from_store import passages
from skillcomp.io.files import shipped
from skillcomp.io.store import RunStore

__all__ = ["load", "path"]

_PLACES = {name: name for name in ("pilot", "execution", "triggers", "process")}
_PLACES |= {name: f"corpus/{name}.jsonl" for name in ("copies", "copies_second")}


def path(name: str) -> Path:
    """Return the path of a recorded data set.

    Parameters
    ----------
    name : {"pilot", "execution", "triggers", "process", "copies", "copies_second"}
        Name of the data set.

    Returns
    -------
    pathlib.Path
        The folder of the study, or the file of passages. It is in the installed package or, in a
        checkout, below ``data``. ``data/README.md`` describes how each data set was made.

    Raises
    ------
    StudyError
        If the name is unknown, or the files are missing.
    """
    if name not in _PLACES:
        raise StudyError(f"datasets: there is none called '{name}'{instead(name, _PLACES)}")
    place = shipped("data") / _PLACES[name]
    if not place.exists():
        raise StudyError(f"datasets: '{name}' is not at {place}; install skillcomp from its wheel.")
    return place


@overload
def load(name: Literal["pilot", "execution", "triggers", "process"]) -> RunStore: ...
@overload
def load(name: Literal["copies", "copies_second"]) -> pd.DataFrame: ...
def load(name: str) -> RunStore | pd.DataFrame:
    """Load recorded data that comes with skillcomp.

    Parameters
    ----------
    name : {"pilot", "execution", "triggers", "process", "copies", "copies_second"}
        ``pilot``: answers to 84 cases of six skills under three conditions (with the skill, without
        it, and with another skill), with verdicts of three graders and gold labels. ``execution``:
        answers to 48 tasks of the same skills without a document and with each of four documents
        (content full or gutted, form structured or flat). ``manifest["design"]`` lists the
        conditions with their factors. ``triggers``: for each of 84 prompts, the skills that an
        agent invokes out of twelve on offer. The agent sees their names and descriptions, which
        have three variants. ``process``: traces of eight runs of claude and codex on a server with
        scripted answers, so they are no evidence about models. ``copies`` and ``copies_second``:
        passages with five degrees of copying, each written with a known degree.

    Returns
    -------
    RunStore or pandas.DataFrame
        A study, which :mod:`skillcomp.frames` turns into frames, or a frame of passages.

    Raises
    ------
    StudyError
        If the name is unknown. The message lists the known names.

    Examples
    --------
    >>> sorted(load("pilot").skills)[:2]
    ['base-rate-reasoning', 'braid-provenance']
    >>> load("copies")["level"].value_counts().to_dict()["verbatim"]
    36
    """
    where = path(name)
    return RunStore(where) if where.is_dir() else passages(where)


def __dir__() -> list[str]:
    return __all__
