"""The recorded data of skillcomp: studies, a worked example, traces and labelled passages."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from skillcomp.errors import StudyError, require_known
from skillcomp.frames.from_store import passages as read_passages
from skillcomp.io.files import shipped
from skillcomp.io.store import RunStore

__all__ = ["load", "passages", "path"]

_STUDIES = {name: name for name in ("pilot", "execution", "triggers", "process", "worked_example")}
_PASSAGES = {name: f"corpus/{name}.jsonl" for name in ("copies", "copies_second")}
_TABLES = {"messy": "messy/answers.csv"}


def path(name: str) -> Path:
    """Return the path of a recorded data set.

    Parameters
    ----------
    name : str
        Name of a study (see `load`), of a set of passages (``copies``, ``copies_second``) or of the
        table ``messy``.

    Returns
    -------
    pathlib.Path
        A folder for a study; a file for a set of passages or the table ``messy``. It is in the
        installed package or, in a checkout, below ``data``. ``data/README.md`` describes how each
        data set was made.

    Raises
    ------
    StudyError
        If the name is unknown, or the files are missing.
    """
    return _place_of(name, "data set", _STUDIES | _PASSAGES | _TABLES)


def _place_of(name: str, kind: str, places: dict[str, str]) -> Path:
    require_known(f"datasets: there is no {kind}", name, places, StudyError, label="there")
    place = shipped("data") / places[name]
    if not place.exists():
        raise StudyError(f"datasets: '{name}' is not at {place}; install skillcomp from its wheel.")
    return place


def load(name: str) -> RunStore:
    """Open a recorded study that comes with skillcomp.

    Parameters
    ----------
    name : {"pilot", "execution", "triggers", "process", "worked_example"}
        ``pilot``: answers to 84 cases of six skills under three conditions (with the skill, without
        it, and with another skill), with verdicts of three graders and gold labels. ``execution``:
        answers to 48 tasks of the same skills without a document and with each of four documents
        (content full or gutted, form structured or flat). ``manifest["design"]`` lists the
        conditions with their factors. ``triggers``: for each of 84 prompts, the skills that an
        agent invokes. It is offered twelve skills and sees their names and descriptions, which have
        three variants. ``process``: traces of eight runs of the programs claude and codex. A server
        gave scripted answers, so the traces are no evidence about models. ``worked_example``: the
        ten cases of section 6.2 of the comprehension report, with answers written by hand and a
        scripted grader. The grader agrees with the labels, except that it passes every check if the
        user sounds pleased, and fails the last passed check of an answer if the user sounds
        displeased.

    Returns
    -------
    RunStore
        A study, which :mod:`skillcomp.frames` turns into frames.

    Raises
    ------
    StudyError
        If the name is unknown. The message lists the known names.

    Examples
    --------
    >>> sorted(load("pilot").skills)[:2]
    ['base-rate-reasoning', 'braid-provenance']
    """
    return RunStore(_place_of(name, "study", _STUDIES))


def passages(name: str) -> pd.DataFrame:
    """Load recorded passages; each was written with one of five known degrees of copying.

    Parameters
    ----------
    name : {"copies", "copies_second"}
        Name of the set of passages.

    Returns
    -------
    pandas.DataFrame
        A frame of :func:`skillcomp.frames.passages`, one row per passage.

    Raises
    ------
    StudyError
        If the name is unknown; the message lists the names.

    Examples
    --------
    >>> passages("copies")["level"].value_counts().to_dict()["verbatim"]
    36
    """
    return read_passages(_place_of(name, "set of passages", _PASSAGES))


__dir__ = __all__.copy  # so that dir() lists the public names
