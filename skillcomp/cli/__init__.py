"""The command line of skillcomp: its main program, and the commands that ask no model.

These commands exit with status 0 on success, 1 if a check found problems, and 2 if the input
cannot be used, or if the baseline of ``skillcomp answer`` is unknown.
"""

from __future__ import annotations

import atexit
import gc
import json
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

import skillcomp as sc
from skillcomp.cli import study_commands as studies
from skillcomp.cli.terminal import documented, github, print_findings, say
from skillcomp.errors import (
    UNKNOWN,
    SkillcompError,
    StoreError,
    StudyError,
    arguments_as,
    problem_list,
    require_known,
    without_control,
)
from skillcomp.io.journal import is_store
from skillcomp.io.redaction import redact

_BASELINE = "baseline"
# Options of ``skillcomp answer`` that are arguments of `report.answer`; the others say how to read.
_OF_ANSWER = {"grader", "margin", "value", "bounds", "assume_missing"}


def answer(
    path: list[str],
    out: Path = Path("page"),
    words: Annotated[list[str] | None, Option(metavar="ROLE:WORD=MEANING")] = None,
    column: Annotated[list[str] | None, Option(metavar="NAME=ROLE")] = None,
    reference: str | None = None,
    shared_cases: Annotated[bool | None, Option("--shared-cases/--own-cases")] = None,
    **options: Any,
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
    value : str, optional
        What is compared. Default: passed
    bounds : two floats, optional
        Lowest and highest possible score.
    assume_missing : str, optional
        Why attempts are missing.
    margin : float, optional
        Largest negligible change. Default: 0.1
    """
    from skillcomp.report.page import write_answer

    given = _options_given(options)
    of_answer = {name: given.pop(name) for name in _OF_ANSWER & given.keys()}
    source: Path | dict[str, str] = Path(path[0])
    if len(path) > 1 or ("=" in path[0] and not Path(path[0]).exists()):
        # each argument is the name of an arm with its path
        source = {arm: file for arm, _, file in (p.partition("=") for p in path) if arm and file}
        if len(source) < len(path):
            raise StudyError(
                f"answer: {' '.join(path)}: give one path, or one per arm: baseline=FILE "
                "skill=FILE."
            )
    with studies.warnings_as_notes(None), arguments_as(as_option):
        # a FrameWarning would only repeat the printed sentences
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        given |= _meanings(words or [], column or [])
        frames = sc.read_results(source, shared_cases=shared_cases, **given)
        names = [str(name) for name in frames.attempts["condition"].dropna().unique()]
        if reference is None and _BASELINE not in names and len(names) > 1:
            reference = _chosen_baseline(names)
        which = given.get("checks", "all")
        study = sc.RunStore(path[0]) if isinstance(source, Path) and is_store(source) else frames
        result = sc.report.answer(study, reference=reference, checks=which, **of_answer)
        for line in result.lines():
            say(line)
        page = write_answer(result, study, out, reference, which)
    say(f"page: {page}")


def _options_given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


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


app = typer.Typer(
    name="skillcomp",
    help="Does a Skill teach an agent, and can the grader that says so be trusted?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Models do not know this invented topic, so a skill about it can improve their answers.
SLUG = "tidemark-reconciliation"
_GRADER = "g2"
_STUDY = f"""\
# A study that runs offline: it replays the answers and verdicts in the folder `recorded`. They
# belong to the skill and the suite below; a run with another prompt or skill text is refused.
# To change a check, name another store (store: study-2) and a grader with a model, which grades the
# recorded answers. To change prompts or the skill, or for a study of your own, list your skill and
# suite below, and go on with a model and a new store:
#   store: my-study
#   agents: [{{kind: anthropic, model: claude-sonnet-5-5}}]
#   graders: [{{agent: {{kind: anthropic, model: claude-opus-5-5}}, style: forced}}]
#   budget_usd: 20
store: study
skills: [skills/{SLUG}]
suites: [suites/{SLUG}.json]
agents: [{{kind: replay, store: recorded}}]
graders: [{{kind: replay, store: recorded, grader: {_GRADER}}}]
conditions: [baseline, skill]
repeats: 2
"""
STEPS = (
    "skillcomp check study.yaml",
    "skillcomp run study.yaml",
    "skillcomp grade study.yaml",
    "skillcomp answer study",
)
_Folder = Annotated[Path, Argument(metavar="DIR", help="A new or empty folder.")]


def _print_version(requested: bool) -> None:
    if requested:
        say(f"skillcomp {sc.__version__}")
        raise typer.Exit


@app.callback()
def _root_options(
    version: Annotated[
        bool, Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None:
    """Read the options that the user gives before the name of a command."""


def init(folder: _Folder) -> None:
    """Make an example study with a skill, its suite, and recorded answers to replay offline."""
    pilot = sc.datasets.load("pilot")
    with _new_folder(folder, "init"):
        shutil.copytree(pilot.path / "skills" / SLUG, folder / "skills" / SLUG)
        (folder / "suites").mkdir()
        shutil.copyfile(pilot.path / "suites" / f"{SLUG}.json", folder / "suites" / f"{SLUG}.json")
        attempts = [
            row
            for row in pilot.rows("attempts")
            if row["skill"] == SLUG
            and row["perturbation"] is None
            and row["condition"] in ("baseline", "skill")
        ]
        ids = {row["attempt_id"] for row in attempts}
        verdicts = [
            row
            for row in pilot.rows("verdicts")
            if row["attempt_id"] in ids and row["grader"] == _GRADER and row["round"] == 1
        ]
        recorded = sc.RunStore(folder / "recorded")
        with recorded.writer():
            recorded.add_skill(folder / "skills" / SLUG)
            recorded.add_suite(folder / "suites" / f"{SLUG}.json")
            recorded.append("attempts", attempts)
            recorded.append("verdicts", verdicts)
        (folder / "study.yaml").write_text(_STUDY, encoding="utf-8")
    say(f"init: {folder} holds a skill, its suite and a study that runs offline. Next:")
    for step in (f"cd {folder}", *STEPS):
        say(f"  {step}")


def notebooks(folder: _Folder) -> None:
    """Copy the notebooks, and the recorded data that they read, to a folder of your own."""
    from skillcomp.report.chapters import find_notebooks

    paths, copies = find_notebooks(every=True), folder / "notebooks"
    data = sc.datasets.path("pilot").parent
    with _new_folder(folder, "notebooks"):
        copies.mkdir()
        # relative paths become paths in the folder, so that a notebook runs from anywhere
        whole = json.dumps(folder.resolve().as_posix(), ensure_ascii=False)[:-1]
        for path in paths:
            content = json.loads(path.read_text(encoding="utf-8"))
            for cell in content["cells"]:
                if "parameters" in cell["metadata"].get("tags", []):
                    cell["source"] = [line.replace('"..', whole) for line in cell["source"]]
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            (copies / path.name).write_text(text, encoding="utf-8")
        shutil.copytree(data, folder / "data", ignore=shutil.ignore_patterns(".*"))
    say(f"notebooks: {len(paths)} in {copies}, their data in {folder / 'data'}. Next:")
    if find_spec("jupyterlab") is None:
        say('  pip install "skillcomp[lab]"')
    say(f"  jupyter lab {copies}")


@contextmanager
def _new_folder(folder: Path, command: str) -> Iterator[None]:
    """Make a folder for the ``with`` block to fill; remove it if the block fails."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StudyError(f"{command}: {folder} is there already; name a folder that is not.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise StudyError(f"{command}: {folder} cannot be made ({cause.strerror}).") from cause
    try:
        yield
    except (OSError, StoreError) as cause:
        shutil.rmtree(folder, ignore_errors=True)
        # shutil.Error holds a list with one entry per file; the last item of an entry is the reason
        why = cause.args[0][0][-1] if isinstance(cause, shutil.Error) else cause
        raise StudyError(f"{command}: {folder} could not be filled ({why}).") from cause


def check(
    path: Path,
    strict: Annotated[bool, Option()] = False,
    advice: bool = False,
    evals: bool = False,
    form: Annotated[Literal["text", "github"], Option("--format")] = "text",
    coverage: bool = False,
    judges: bool = False,
    ask: bool = False,
) -> None:
    """Check a skill, a suite or a whole study; print each fault with its place and reason.

    Parameters
    ----------
    path : Path
        A SKILL.md, its folder, a suite, a study or its study.yaml.
    strict : bool
        Treat warnings as errors.
    advice : bool
        Show the warnings as well.
    evals : bool
        Lint all skills in a folder and their prompts.csv.
    form : str
        github for annotations.
    coverage : bool
        Print the cases of each dimension, and stop.
    judges : bool
        Test the checks of a study.yaml with answers of known quality.
    ask : bool
        With --judges: ask the study's graders too; prints the cost.
    """
    if coverage:
        studies.print_coverage(path)
        return
    if judges or ask:
        studies.check_judges(path, ask=ask)
        return
    import pandas as pd

    from skillcomp.lint.lint_path import is_study_file, lint_places

    if not evals and is_study_file(path):
        # Check the keys of the study file here; the lint then checks the skills and suites in it.
        sc.live.read_study(path)
    frames = []
    for linted in lint_places(path, evals=evals):
        frames.append(linted.findings)
        if form == "text":
            print_findings(linted, with_warnings=advice or strict)
    findings = pd.concat(frames, ignore_index=True)
    for line in github(findings) if form == "github" else ():
        say(line)
    if findings["severity"].isin(("error", "warning") if strict else ("error",)).any():
        raise typer.Exit(1)


def report(
    data: Path | None = None,
    out: Path = Path("report"),
    quiet: studies.Quiet = False,
    notebook: Annotated[list[str] | None, Option(metavar="NN")] = None,
    settings: Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE")] = None,
    **options: Any,
) -> None:
    """Write a report in HTML: the answer of a study, then the notebooks, executed on its data.

    Parameters
    ----------
    data : Path, optional
        Folder of the study; the default is the recorded pilot.
    out : Path
        Folder of the report.
    notebook : list of str, optional
        Only this chapter, such as 02; may be repeated.
    assume_missing : str, optional
        Keep a verdict that missing attempts could change.
    interval : str, optional
        Rule for the intervals of changes. Default: adaptive
    checks : str, optional
        all checks (the default), or those shared: that every condition of a case was asked.
    reference : str, optional
        Condition to compare with.
    gold_drawn : str, optional
        How gold was drawn: random, chosen or verdict.
    drawn_by : str, optional
        The grader by whose verdict gold was drawn.
    settings : list of str, optional
        A parameter, such as GRADER=g1.
    """
    from skillcomp.report.chapters import find_notebooks

    paths = None
    if notebook:
        named = {word: path for path in find_notebooks() for word in (path.stem, path.stem[:2])}
        stems = sorted({path.stem for path in named.values()})
        for name in set(notebook) - named.keys():
            require_known("report: there is no notebook", name, stems, StudyError, label="there")
        paths = sorted({named[name] for name in notebook})
    with studies.warnings_as_notes(None):
        page = sc.report.build(
            sc.datasets.path("pilot") if data is None else data,
            out,
            notebooks=paths,
            parameters=_parse_parameters(settings or []),
            progress=not quiet,
            **_options_given(options),
        )
    say(f"report: {page}")


def _parse_parameters(settings: list[str]) -> dict[str, object]:
    """Parse settings NAME=VALUE as YAML; dates, mappings and invalid YAML are kept as text."""
    import yaml

    from skillcomp.io.files import YAML_FAILURES

    parameters: dict[str, object] = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        if not (sign and name.isidentifier()):
            raise StudyError(f"report: --set '{setting}'; expected NAME=VALUE, such as GRADER=g1.")
        if name in parameters:
            raise StudyError(f"report: --set '{setting}': {name} is given twice.")
        try:
            value = yaml.safe_load(text) if text != "None" else None
        except YAML_FAILURES:
            value = text
        parameters[name] = (
            value if isinstance(value, str | bool | int | float | list | None) else text
        )
    return parameters


def export(
    data: Path,
    out: Path,
) -> None:
    """Write every frame of a study as a parquet file and a csv file.

    Parameters
    ----------
    data : Path
        Folder of the recorded study.
    out : Path
        Folder for the files.
    """
    from skillcomp import frames
    from skillcomp.lint.lint_path import ALL_ROWS

    store = studies.recorded_study(data, "export")
    tables, problems = {}, []
    for name in [*ALL_ROWS, "events", "outcomes"]:
        try:
            if name == "outcomes":
                tables[name] = frames.outcomes(frames.verdicts(store), frames.cases(store))
            else:
                rows = ALL_ROWS.get(name, {"perturbation": "all"})
                tables[name] = getattr(frames, name)(store, **rows)
        except SkillcompError as error:
            problems.append(f"{name}: {error}")
    written = sc.export.write(tables, out)
    say(f"export: {len(written)} files in {out}")
    if problems:
        raise StudyError(problem_list("export: not written", problems))


_of_studies = (studies.run, studies.grade, studies.compare, studies.status, studies.drop)
_of_results = (check, report, export, init, notebooks, answer)
for _command in (*_of_results, *_of_studies, studies.evaluate):
    app.command()(documented(_command))
_trigger = typer.Typer(
    no_args_is_help=True, help="Does a skill trigger when it should, and is the work done well?"
)
_trigger.command("run")(documented(studies.trigger_run))
_trigger.command("status")(documented(studies.trigger_status))
app.add_typer(_trigger, name="trigger")


def main() -> None:
    """Run the command line; print known errors without a traceback and exit with status 2."""
    # A command makes many objects and little garbage: collect it seldom, and never at exit.
    threshold = gc.get_threshold()
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    try:
        app()
    except (SkillcompError, OSError, UnicodeError) as error:
        say(f"skillcomp: {error}", err=True)
        sys.exit(2)
    except MemoryError:
        reason = "the memory of this machine is not enough; count large tables by case first"
        say(f"skillcomp: {reason} (docs/howto/million-rows.md).", err=True)
        sys.exit(2)
    except Exception:  # such as an error of the user's own agent, whose text may hold a secret
        typer.echo(without_control(redact(traceback.format_exc())), err=True)
        sys.exit(1)
    finally:  # a test may call this function
        gc.set_threshold(*threshold)
