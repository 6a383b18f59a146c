"""The command ``skillcomp answer``: print sentences about results, and write a page about them.

Its exit status is 0 on success and 2 if the input cannot be used or the baseline is unknown.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer
from typer import Option

import skillcomp as sc
from skillcomp.cli.study_commands import warnings_as_notes
from skillcomp.cli.terminal import say
from skillcomp.errors import UNKNOWN, StudyError, arguments_as, require_known
from skillcomp.io.journal import is_store

_BASELINE = "baseline"


def answer(
    path: list[str],
    out: Path = Path("page"),
    words: Annotated[list[str] | None, Option(metavar="ROLE:WORD=MEANING")] = None,
    column: Annotated[list[str] | None, Option(metavar="NAME=ROLE")] = None,
    reference: str | None = None,
    grader: str | None = None,
    case: str | None = None,
    shared_cases: Annotated[bool | None, Option("--shared-cases/--own-cases")] = None,
    checks: Literal["all", "shared"] | None = None,
    value: Literal["passed", "share_passed", "score"] = "passed",
    bounds: tuple[float, float] | None = None,
    assume_missing: Literal["at random"] | None = None,
    margin: float = 0.1,
    **facts: Any,
) -> None:
    """Print what a table, a study or another tool's results show, and write a page about it.

    Parameters
    ----------
    path : list of str
        A csv or parquet file, a study, or the results of another tool; with one arm per
        file, baseline=FILE skill=FILE.
    out : Path
        Folder of the page.
    words : list of str, optional
        What a word means: transfer:close=near.
    column : list of str, optional
        What a column of a table holds, such as task=case.
    missing : list of str, optional
        A value that means no value.
    keep : str, optional
        What several rows on one thing are.
    asked : Path, optional
        A table of the planned attempts.
    gold : Path, optional
        A table of reference labels.
    gold_drawn : str, optional
        How the labels were drawn.
    drawn_by : str, optional
        The grader whose verdicts drew them.
    skills : list of Path, optional
        A SKILL.md of the table.
    reference : str, optional
        Condition to compare with.
    grader : str, optional
        The grader whose verdicts count.
    skill : str, optional
        The skill, if the files do not name it.
    case : str, optional
        The field that names the case.
    agent : str, optional
        The agent, if the files do not name it.
    agent_model : str, optional
        Its model, if they do not name it.
    grader_model : str, optional
        The grader's model, likewise.
    shared_cases : bool, optional
        Whether cases of one name under several skills are the same task.
    checks : str, optional
        Checks that only some arms have.
    value : str
        What is compared.
    bounds : two floats, optional
        Lowest and highest possible score.
    assume_missing : str, optional
        Why attempts are missing.
    margin : float
        Largest negligible change.
    """
    from skillcomp.report.page import write_answer

    facts = {name: value for name, value in facts.items() if value is not None}
    source: Path | dict[str, str] = Path(path[0])
    if len(path) > 1 or ("=" in path[0] and not Path(path[0]).exists()):
        # each argument is the name of an arm with its path
        source = {arm: file for arm, _, file in (p.partition("=") for p in path) if arm and file}
        if len(source) < len(path):
            raise StudyError(
                f"answer: {' '.join(path)}: give one path, or one per arm: baseline=FILE "
                "skill=FILE."
            )
    with warnings_as_notes(None), arguments_as(as_option):
        # a FrameWarning would only repeat the printed sentences
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        facts |= _meanings(words or [], column or [])
        frames = sc.read_results(
            source, case=case, shared_cases=shared_cases, checks=checks, **facts
        )
        names = [str(name) for name in frames.attempts["condition"].dropna().unique()]
        if reference is None and _BASELINE not in names and len(names) > 1:
            reference = _chosen_baseline(names)
        which = checks or "all"
        study = sc.RunStore(path[0]) if isinstance(source, Path) and is_store(source) else frames
        result = sc.report.answer(
            study,
            reference=reference,
            checks=which,
            grader=grader,
            margin=margin,
            value=value,
            bounds=bounds,
            assume_missing=assume_missing,
        )
        for line in result.lines():
            say(line)
        page = write_answer(result, study, out, reference, which)
    say(f"page: {page}")


def _meanings(words: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """Return ``words=`` and ``columns=`` of `read_results`, parsed from settings."""
    read: dict[str, Any] = {"words": {}, "columns": {}}
    for setting in columns:
        name, _, role = setting.rpartition("=")
        if not name or not role:
            raise StudyError(f"answer: --column '{setting}'; expected NAME=ROLE, as task=case.")
        read["columns"][name] = role
    for setting in words:
        word, _, meaning = setting.rpartition("=")
        role, _, word = word.partition(":")
        if not word or not meaning:
            form = "ROLE:WORD=MEANING, as condition:plain=baseline"
            raise StudyError(f"answer: --words '{setting}'; expected {form}.")
        read["words"].setdefault(role, {})[word] = meaning
    return {name: value for name, value in read.items() if value}


def as_option(name: str, value: object) -> str:
    """Name an argument as an option of ``skillcomp answer``."""
    from skillcomp.frames.from_frame import ROLES

    option = f"--{name.removeprefix('fact ').replace('_', '-')}"
    if name in ROLES:
        column = "NAME" if value is UNKNOWN else value
        return f"--column {quote(f'{column}={name}')}"
    if name == "shared_cases":
        return option if value else "--own-cases"
    if value is UNKNOWN:
        return option
    if isinstance(value, Mapping):
        texts = [
            f"{role}:{word}={'...' if meaning is UNKNOWN else meaning}"
            for role, own in value.items()
            for word, meaning in own.items()
        ]
    else:
        texts = list(map(str, value if isinstance(value, list | tuple) else [value]))
    if name == "bounds":
        return f"{option} {' '.join(texts)}"
    return " ".join(f"{option} {quote(text)}" for text in texts)


def _chosen_baseline(words: list[str]) -> str:
    """In a terminal, ask which word is the baseline; elsewhere, raise an error with the options."""
    question = f"Which of these is the baseline: {', '.join(words)}?"
    if not in_terminal():
        meanings = {"condition": dict.fromkeys(words, UNKNOWN)}
        options = [*(as_option("reference", word) for word in words), as_option("words", meanings)]
        listed = "".join(f"\n- {option}" for option in options)
        raise StudyError(f"answer: {question} The data do not say. Give one of:{listed}")
    word: str = typer.prompt(question)
    require_known("answer: there is no condition", word, words, StudyError, label="there")
    return word


def in_terminal() -> bool:
    """Return whether the input is a terminal, so that a user can be asked."""
    return sys.stdin.isatty()
