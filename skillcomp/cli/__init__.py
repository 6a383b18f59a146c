"""The command line of skillcomp: its main program, and the commands that ask no model.

These commands exit with status 0 on success, 1 if a check found problems, and 2 if the input
cannot be used.
"""

from __future__ import annotations

import atexit
import gc
import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

import skillcomp as sc
from skillcomp.cli import evaluate_commands as evaluating
from skillcomp.cli import study_commands as studies
from skillcomp.cli.answer_command import answer
from skillcomp.cli.option_help import documented
from skillcomp.cli.terminal import FORMATS, github, print_findings, say
from skillcomp.errors import (
    SkillcompError,
    StoreError,
    StudyError,
    problem_list,
    require_known,
    without_control,
)
from skillcomp.io.redaction import redact

if TYPE_CHECKING:
    import pandas as pd

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
_Checks = Literal["all", "shared"]
_STUDY = f"""\
# A study that runs offline: answers and verdicts are replayed from the folder `recorded`.
# For a study of your own, add your skill and suite to these folders and name a model:
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
_AssumeMissing = Annotated[
    str | None,
    Option(
        metavar="ASSUMPTION", help='Keep a verdict that missing attempts could change: "at random".'
    ),
]
_Interval = Annotated[
    str, Option(help="Rule for the intervals of changes: adaptive, bounded or t.")
]
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
        with recorded.writer(sync=False):
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
        for path in paths:
            (copies / path.name).write_text(_with_whole_paths(path, folder), encoding="utf-8")
        shutil.copytree(data, folder / "data", ignore=shutil.ignore_patterns(".*"))
    say(f"notebooks: {len(paths)} in {copies}, their data in {folder / 'data'}. Next:")
    if find_spec("jupyterlab") is None:
        say('  pip install "skillcomp[lab]"')
    say(f"  jupyter lab {copies}")


def _with_whole_paths(notebook: Path, folder: Path) -> str:
    """Return a notebook that runs from anywhere: relative paths become paths in `folder`."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            whole = json.dumps(folder.resolve().as_posix(), ensure_ascii=False)[:-1]
            cell["source"] = [line.replace('"..', whole) for line in cell["source"]]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


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
    form: Annotated[str, Option("--format")] = "text",
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
        text or github (annotations).
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

    require_known("check: --format: found", form, FORMATS, StudyError)
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
    assume_missing: _AssumeMissing = None,
    interval: _Interval = "adaptive",
    checks: _Checks = "all",
    reference: str | None = None,
    gold_drawn: Annotated[str | None, Option(metavar="HOW")] = None,
    drawn_by: Annotated[str | None, Option(metavar="GRADER")] = None,
    settings: Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE")] = None,
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
    checks : str
        all checks, or those shared: that every condition of a case was asked.
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
        stems = {path.stem: path for path in find_notebooks()}
        for name in notebook:
            if not any(name in (stem, stem[:2]) for stem in stems):
                require_known(
                    "report: there is no notebook", name, stems, StudyError, label="there"
                )
        paths = [p for stem, p in stems.items() if not {stem, stem[:2]}.isdisjoint(notebook)]
    with studies.warnings_as_notes(None):
        page = sc.report.build(
            sc.datasets.path("pilot") if data is None else data,
            out,
            notebooks=paths,
            parameters=_parse_parameters(settings or []),
            reference=reference,
            assume_missing=assume_missing,  # type: ignore[arg-type]  # checked by decide
            interval=interval,  # type: ignore[arg-type]  # checked by decide
            gold_drawn=gold_drawn,  # type: ignore[arg-type]  # checked by answer
            drawn_by=drawn_by,
            checks=checks,
            progress=not quiet,
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

    store = studies.recorded_study(data, "export")
    how: dict[str, Callable[[sc.RunStore], pd.DataFrame]] = {
        "cases": frames.cases,
        "checks": frames.checks,
        "attempts": partial(frames.attempts, perturbation="all"),
        "verdicts": partial(frames.verdicts, perturbation="all", round="all"),
        "outcomes": lambda store: frames.outcomes(frames.verdicts(store), frames.cases(store)),
        "gold": partial(frames.gold, labeller="all"),
        "pairwise": frames.pairwise,
        "invocations": partial(frames.invocations, perturbation="all"),
        "events": partial(frames.events, perturbation="all"),
    }
    tables, problems = {}, []
    for name, read in how.items():
        try:
            tables[name] = read(store)
        except SkillcompError as error:
            problems.append(f"{name}: {error}")
    written = sc.export.write(tables, out)
    say(f"export: {len(written)} files in {out}")
    if problems:
        raise StudyError(problem_list("export: not written", problems))


_of_studies = (studies.run, studies.grade, studies.compare, studies.status)
_of_results = (check, report, export, init, notebooks, answer)
for _command in (*_of_results, *_of_studies, evaluating.evaluate):
    app.command()(documented(_command))
_trigger = typer.Typer(
    no_args_is_help=True, help="Does a skill trigger when it should, and is the work done well?"
)
_trigger.command("run")(documented(evaluating.trigger_run))
_trigger.command("status")(documented(evaluating.trigger_status))
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
