"""The command ``skillcomp answer``: print sentences about results, and write a page about them.

Its exit status is 0 on success and 2 if the input cannot be used or the baseline is unknown.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from skillcomp.cli.study_commands import warnings_as_notes
from skillcomp.cli.terminal import COLUMNS, say
from skillcomp.errors import FrameError, StudyError, require_known
from skillcomp.io.journal import is_store

if TYPE_CHECKING:
    from skillcomp.frames import Frames

_BASELINE = "baseline"


def answer(
    path: Annotated[
        list[str],
        Argument(
            help="A csv or parquet file, a study, or the results of another tool; with one arm per "
            "file, baseline=FILE skill=FILE."
        ),
    ],
    out: Annotated[Path, Option(help="Folder of the page.")] = Path("page"),
    condition: Annotated[
        list[str] | None,
        Option(metavar="WORD=NAME", help="What a word for an arm means, such as plain=baseline."),
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(metavar="NAME=ROLE", help="What a column of a table holds, such as task=case."),
    ] = None,
    reference: Annotated[str | None, Option(help="Condition to compare with.")] = None,
    skill: Annotated[str | None, Option(help="The skill, if the files do not name it.")] = None,
    case: Annotated[str | None, Option(help="The field that names the case.")] = None,
    agent: Annotated[str | None, Option(help="The agent, if the files do not name it.")] = None,
    agent_model: Annotated[str | None, Option(help="Its model, if they do not name it.")] = None,
    grader_model: Annotated[str | None, Option(help="The grader's model, likewise.")] = None,
    shared_cases: Annotated[
        bool | None,
        Option(
            "--shared-cases/--own-cases",
            help="Whether cases of one name under several skills are the same task.",
        ),
    ] = None,
    checks: Annotated[
        Literal["all", "shared"] | None, Option(help="Checks that only some arms have.")
    ] = None,
    margin: Annotated[float, Option(help="Largest negligible change.")] = 0.1,
) -> None:
    """Print what a table, a study or another tool's results show, and write a page about it."""
    import skillcomp as sc
    from skillcomp.report.page import write_answer

    facts: dict[str, Any] = {
        "skill": skill,
        "case": case,
        "agent": agent,
        "checks": checks,
        "agent_model": agent_model,
        "grader_model": grader_model,
        "shared_cases": shared_cases,
    }
    source: Path | dict[str, str] = Path(path[0])
    if len(path) > 1 or ("=" in path[0] and not Path(path[0]).exists()):
        # each argument is the name of an arm with its path
        source = {arm: file for arm, _, file in (p.partition("=") for p in path) if arm and file}
        if len(source) < len(path):
            raise StudyError(
                f"answer: {' '.join(path)}: give one path, or one per arm: baseline=FILE "
                "skill=FILE."
            )
    with warnings_as_notes(None):
        # a FrameWarning would only repeat the printed sentences
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        if column:
            facts["columns"] = _meanings(column, "--column", "NAME=ROLE, as task=case")
        frames = _frames_at(source, _meanings(condition or []), facts)
        names = [str(name) for name in frames.attempts["condition"].dropna().unique()]
        if reference is None and _BASELINE not in names and len(names) > 1:
            reference = _chosen_baseline(names, [f"--reference '{n}'" for n in names])
        how = checks or "all"
        is_study = isinstance(source, Path) and is_store(source)
        study = sc.RunStore(path[0]) if is_study else frames
        result = sc.report.answer(study, margin=margin, reference=reference, checks=how)
        for line in result.lines():
            say(line)
        page = write_answer(result, study, out, reference, how)
    say(f"page: {page}")


def _frames_at(
    path: Path | dict[str, str], conditions: dict[str, str], facts: dict[str, Any]
) -> Frames:
    """Read results; if the names of two arms are unknown, ask which arm is the baseline."""
    import skillcomp as sc
    from skillcomp.readers.result_table import UnknownArmsError

    try:
        return sc.read_results(path, conditions=conditions or None, **facts)
    except UnknownArmsError as error:
        if len(error.words) != 2:
            pairs = " ".join(f"--condition '{w}={name}'" for w, name in error.example.items())
            raise StudyError(f"{error} On the command line: {pairs}") from error
        first, second = error.words
        options = [
            f"--condition '{a}={_BASELINE}' --condition '{b}=skill'"
            for a, b in ((first, second), (second, first))
        ]
        baseline = _chosen_baseline([first, second], options)
        other = second if baseline == first else first
        return sc.read_results(path, conditions={baseline: _BASELINE, other: "skill"}, **facts)
    except FrameError as error:
        if COLUMNS not in str(error):
            raise
        raise StudyError(f"{error} Name a column by --column, as --column task=case.") from error


def _meanings(
    settings: list[str], option: str = "--condition", form: str = "WORD=NAME, as a=baseline"
) -> dict[str, str]:
    """Return a dict from words to names, parsed from settings of the form WORD=NAME."""
    meanings = {}
    for setting in settings:
        word, _, name = setting.rpartition("=")
        if not word or not name:
            raise StudyError(f"answer: {option} '{setting}'; expected {form}.")
        meanings[word] = name
    return meanings


def _chosen_baseline(words: list[str], options: list[str]) -> str:
    """In a terminal, ask which word is the baseline; elsewhere, raise an error with the options."""
    question = f"Which of these is the baseline: {', '.join(words)}?"
    if not in_terminal():
        listed = "".join(f"\n- {option}" for option in options)
        raise StudyError(f"answer: {question} The data do not say. Give one of:{listed}")
    word: str = typer.prompt(question)
    require_known("answer: there is no condition", word, words, StudyError, label="there")
    return word


def in_terminal() -> bool:
    """Return whether the input is a terminal, so that a user can be asked."""
    return sys.stdin.isatty()
