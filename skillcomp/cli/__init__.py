"""The command line of skillcomp: its commands and its main program.

Commands that ask no model exit with status 0 on success, 1 if a check found problems, and 2 if the
input cannot be used, or if the baseline of ``skillcomp answer`` is unknown. The exit status of
``skillcomp run``, ``grade``, ``compare`` and ``status`` is 0 if all work is done, 1 if some work is
left to do, 2 if the input cannot be used, and 130 after Ctrl-C or SIGTERM. ``drop`` removes a suite
without answers from a study.

``evaluate`` compares a skill with its original on a task suite. Its exit status is 0 for the
verdict pass, 1 for fail, 2 for error and 3 for skipped.

``trigger run`` asks a program the prompts of trigger suites, and ``trigger status`` shows the
progress of such a run. The exit status of ``trigger run`` is 0 if every case passed, 1 if a case
failed or is unknown or a skill cannot be called, 2 if the input cannot be used, and 130 after
Ctrl-C or SIGTERM.

Texts are printed without control characters and secrets. Findings are formatted for people, and for
programs as annotations of GitHub workflows. The help texts of options come from the docstrings of
commands.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from datetime import UTC, datetime
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, Option

import skillcomp as sc
from skillcomp.errors import (
    UNKNOWN,
    SkillcompError,
    StoreError,
    StudyError,
    arguments_as,
    plural,
    problem_list,
    require_known,
    screenful,
    shortened,
    suggest,
    without_control,
)
from skillcomp.io.files import checked_slug
from skillcomp.io.journal import is_store
from skillcomp.io.redaction import redact

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.lint import LintedPlace
    from skillcomp.live.agents.agent import Agent
    from skillcomp.live.study_file import StudyFile
    from skillcomp.records import Suite

COLUMNS = "Columns: "  # begins the line of a message that lists the columns of a table
_PYTHON = r"import json, |with open\(|table = pd|own = sc|print\(sc"  # begins a line of Python
_LINE_FEED = re.compile(rf"\n(?!- |{COLUMNS}|{_PYTHON})")
_ROW = re.compile(r"row (\d+)\b")
_LINE_NUMBER = re.compile(r"^(?:row \d+, )?line (\d+)\b|, line (\d+): ")


def say(text: object, *, err: bool = False, lines: bool = False) -> None:
    """Print a text without secrets, with control characters replaced.

    With `err`, the text goes to stderr and is cut to the size of a screen. Without `lines`, a line
    feed is printed as a blank, because a CI reads some lines of its log as commands, and a name
    with a line feed could add such a line. Line feeds before a list entry (``- ``), before
    ``Columns:`` and before lines of Python are kept.
    """
    shown = redact(str(text))
    plain = without_control(screenful(shown) if err else shown)
    typer.echo(plain if lines else _LINE_FEED.sub(" ", plain), err=err)


def github(findings: pd.DataFrame) -> Iterator[str]:
    """Yield one GitHub workflow command for each finding, with escaped texts."""
    here = Path.cwd()
    for row in findings.to_dict("records"):
        file, message = Path(os.path.abspath(row["file"])), row["message"]
        match = _LINE_NUMBER.search(message) or _ROW.match(message)
        properties = {
            "file": file.relative_to(here) if file.is_relative_to(here) else file,
            "line": max(int(match[match.lastindex or 0]), 1) if match else None,
            "title": row["rule"],
        }
        listed = ",".join(f"{k}={_escape_signs(str(v), ':,')}" for k, v in properties.items() if v)
        text = _escape_signs(f"{message} ({row['reason']})")
        yield f"::{row['severity']} {listed}::{text}"


def _escape_signs(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def print_findings(linted: LintedPlace, *, with_warnings: bool, err: bool = False) -> None:
    """Print the findings on a skill, suite or study, grouped by rule, and then their counts."""
    for severity in ("error", "warning") if with_warnings else ("error",):
        of_severity = linted.findings[linted.findings["severity"].eq(severity)]
        for rule, rows in of_severity.groupby("rule", sort=False):
            say(f"{severity}: {rows['reason'].iloc[0]} [{rule}]", err=err)
            for message, group in rows.groupby("message", sort=False):
                say(f"  {', '.join(group['place'].unique())}: {message}", err=err)
    numbers = linted.findings["severity"].value_counts()
    counts = [plural(numbers[noun], noun) for noun in ("error", "warning") if numbers.get(noun)]
    hint = " (--advice shows them)" if numbers.get("warning") and not with_warnings else ""
    say(f"{linted.description}: {', '.join(counts) or 'no problems'}{hint}", err=err)


# Matches the entry of a parameter in a docstring: its name, its type, and its indented text.
_ENTRY = re.compile(r"^(\w+) : (.+?)(?:, optional)?((?:\n +.*)+)", re.MULTILINE)
OneOrMore = Annotated[int, Option(min=1)]
_Command = Callable[..., None]
# The types that docstrings name. A type in braces is a choice of words.
_TYPES: dict[str, Any] = {
    "str": str,
    "list of str": list[str],
    "Path": Path,
    "list of Path": list[Path],
    "float": float,
    "two floats": tuple[float, float],
    "positive int": OneOrMore,
    "seconds": Annotated[float, Option(min=1)],
}


def options_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def documented(command: _Command) -> _Command:
    """Return a command with the help that the section "Parameters" of its docstring has.

    A parameter ``**options`` stands for documented options without a default that are passed on.
    As in typer, a parameter without a default is an argument, and any other is an option. An option
    of type bool is a flag that can only be set. An annotation of typer, such as ``Annotated[bool,
    Option()]``, prevails over these rules.
    """
    summary, _, entries = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = dict(signature.parameters)
    parameters.pop("options", None)
    for name, type_name, text in _ENTRY.findall(entries):
        if name not in parameters:
            parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=None)
            words = tuple(re.findall(r'"(.+?)"', type_name))
            hints[name] = Literal[words] if words else _TYPES[type_name]
        kind, parameter = hints[name], parameters[name]
        about: Any = Option(*[f"--{name.replace('_', '-')}"] * (kind is bool))
        if hasattr(kind, "__metadata__"):
            kind, annotated = get_args(kind)
            about = copy(annotated)
        elif parameter.default is parameter.empty:
            about = Argument()
        about.help = " ".join(text.split())
        hints[name] = Annotated[kind | None if parameter.default is None else kind, about]
    whole = [parameter.replace(annotation=hints[n]) for n, parameter in parameters.items()]
    command.__dict__["__signature__"] = signature.replace(parameters=whole)
    command.__doc__ = summary
    return command


_Study = Annotated[Path, Argument(metavar="STUDY.yaml", help="The study.")]
_Budget = Annotated[
    float | None,
    Option(metavar="USD", help="Maximum cost of this stage in dollars, earlier calls included."),
]
_Outside = Annotated[
    bool, Option("--allow-outside", help="Allow a store and texts outside the study's folder.")
]
Quiet = Annotated[bool, Option("--quiet", help="Show no progress bars.")]
_REASONS = 10  # print at most this many reasons for failures


def run(
    study: _Study,
    budget_usd: _Budget = None,
    force: bool = False,
    dry_run: bool = False,
    quiet: Quiet = False,
    allow_outside: _Outside = False,
) -> None:
    """Put the cases of a study to its agents; the same command resumes after an interruption.

    Parameters
    ----------
    force : bool
        Run although the lint finds errors.
    dry_run : bool
        Ask nobody and store nothing; show what is left to ask and grade, and what it will cost.
    """
    from skillcomp.lint import lint_places

    with _opened(study, allow_outside, "agents", "ask", in_copy=dry_run) as (file, store):
        n_errors = 0
        for linted in lint_places(study):
            if len(linted.findings):
                print_findings(linted, with_warnings=True, err=True)
            n_errors += int(linted.findings["severity"].eq("error").sum())
        if n_errors and not force:
            raise StudyError(
                f"run: the lint finds {plural(n_errors, 'error')} in {study}. Correct them, or run "
                "with --force."
            )
        suites = file.open_suites(store)
        how = {
            "agents": file.build("agents"),
            "conditions": file.conditions,
            "repeats": file.repeats,
            "placebo": file.texts(store, "placebo"),
            "previous": file.texts(store, "previous"),
            **file.limits(budget_usd, grading=False),
        }
        if dry_run:
            from skillcomp.live.run import estimate

            _print_estimate(estimate(store, suites, graders=file.build("graders"), **how))
            return
        table = sc.run(store, suites, progress=not quiet, **how)
        _print_state(table, store, stage=["run"])


def grade(
    study: _Study,
    budget_usd: _Budget = None,
    gold: Path | None = None,
    round: OneOrMore = 1,
    quiet: Quiet = False,
    allow_outside: _Outside = False,
) -> None:
    """Grade the gold answers, then the answers of a study; answers do not change.

    Parameters
    ----------
    gold : Path, optional
        Answers with known verdicts, as JSON Lines.
    round : int
        2 or more to grade again.
    """
    with _opened(study, allow_outside, "graders", "grade") as (file, store):
        file.open_suites(store)
        own, graders = file.grading, file.build("graders")
        table = sc.grade(
            store,
            graders=graders,
            round=round,
            gold=gold or (file.folder / own.gold if own.gold else None),
            min_gold_agreement=own.min_gold_agreement,
            progress=not quiet,
            **file.limits(budget_usd, grading=True),
        )
        names = [grader.name for grader in graders]
        _print_state(table, store, stage=["grade"], name=names, round=[round])


def compare(
    study: _Study,
    budget_usd: _Budget = None,
    condition: str = "skill",
    reference: str = "baseline",
    quiet: Quiet = False,
    allow_outside: _Outside = False,
) -> None:
    """Compare answers under two conditions in pairs; graders do not see the conditions.

    Parameters
    ----------
    condition : str
        The condition to compare.
    reference : str
        The condition to compare it with.
    """
    with _opened(study, allow_outside, "comparators", "compare") as (file, store):
        file.open_suites(store)
        graders = file.build("comparators")
        table = sc.compare(
            store,
            graders=graders,
            condition=condition,
            reference=reference,
            progress=not quiet,
            **file.limits(budget_usd, grading=True),
        )
        names = [grader.name for grader in graders]
        two = [f"{condition} against {reference}", f"{reference} against {condition}"]
        _print_state(table, store, stage=["compare"], name=names, condition=two)


def status(
    store: Annotated[Path, Argument(metavar="STORE")],
    allow_outside: _Outside = False,
) -> None:
    """Show the progress of a study, even while it is running; nothing is written.

    Parameters
    ----------
    store : Path
        Folder of the study, or its STUDY.yaml.
    """
    from skillcomp.io.journal import active_writer
    from skillcomp.live.status import status as status_of
    from skillcomp.live.status import unanswered_cases

    if store.is_file():
        store = sc.live.read_study(store, outside=allow_outside).store_path
    study = recorded_study(store, "status")
    _print_state(status_of(study), study, exits=False)
    if cases := unanswered_cases(study):
        names = shortened(cases, _REASONS)
        say(f"{plural(len(cases), 'case')} without an answer: {names}")
    say(f"at work: {active_writer(study.path) or 'nobody'}")


def drop(
    store: Path,
    suite: str,
) -> None:
    """Remove a suite without answers from a study, such as one that was added by mistake.

    Parameters
    ----------
    store : Path
        Folder of the study.
    suite : str
        The suite. If its cases have answers, it stays.
    """
    recorded_study(store, "drop").drop_suite(suite)
    say(f"drop: suite {suite} is removed from {store}")


def recorded_study(folder: Path, command: str) -> sc.RunStore:
    """Open the store of a recorded study; raise, with the nearest name, if there is none."""
    if not (folder / "manifest.json").is_file():
        folders = (path for path in folder.parent.glob("*") if path.is_dir() and path != folder)
        near = suggest(folder.name, [path.name for path in folders])
        raise StudyError(
            f"{command}: {folder} is not a recorded study: it has no manifest.json.{near}"
        )
    return sc.RunStore(folder)


def print_coverage(path: Path) -> None:
    """Print the table that `skillcomp.frames.coverage` returns for the suites at a path."""
    from skillcomp.frames.from_store import cases_of, coverage
    from skillcomp.lint import suites_at

    table = coverage(cases_of(suites_at(_study_file_at(path))))
    if table.empty:
        raise StudyError(f"check: there is no case at {path}; give a suite, a study or study.yaml.")
    shares = table["share"].map(lambda share: f"{100 * share:.0f} %")
    ids = [
        ", ".join(case_id.removeprefix(f"{skill}/") for case_id in text.split(", "))
        for skill, text in zip(table["skill"], table.pop("case_ids"), strict=True)
    ]
    lines = table.assign(share=shares).fillna("none").to_string(index=False).splitlines()
    texts = zip(lines, ["cases", *ids], strict=True)
    say("\n".join(f"{line} {text}".rstrip() for line, text in texts), lines=True)


def _study_file_at(path: Path) -> Path:
    """Return the study.yaml of a folder, or the path unchanged if there is none."""
    file = path / "study.yaml"
    return file if file.is_file() else path


def check_judges(study: Path, *, ask: bool) -> None:
    """Probe the checks of a study, print the faulty checks, and exit with 1 if there are any."""
    from skillcomp.frames.probes import probed_checks, untested_reasons
    from skillcomp.live.probe import probe

    file = sc.live.read_study(_study_file_at(study))
    store = file.open_store()
    file.open_suites(store)
    with warnings_as_notes(store):
        warnings.filterwarnings("ignore", "probe: ")  # the last line below says the same
        probed = probe(store, graders=file.build("graders") if ask else ())
    at_fault = probed[probed["finding"].ne("")]
    for row in at_fault.to_dict("records"):
        by = "" if row["grader"] == row["check_id"] else f" ({row['grader']})"
        say(f"{row['case_id']}: {row['check_id']}{by}: {row['finding']}: {row['note']}")
    checks = probed_checks(probed)
    summary = f"{checks['at_fault'].sum()} of {plural(len(checks), 'check')} at fault"
    say(f"probe: {'; '.join(filter(None, [summary, untested_reasons(probed)]))}")
    if len(at_fault):
        raise typer.Exit(1)


def _display_name(stage: str, name: str, number: Any) -> str:
    return f"{name}, round {number}" if stage == "grade" else name


@contextmanager
def _opened(
    study: Path, outside: bool, key: str, what: str, *, in_copy: bool = False
) -> Iterator[tuple[StudyFile, sc.RunStore]]:
    """Read a study file and open its store; raise if the file has no entries under `key`.

    A command that fails before anything is answered leaves the store unchanged. If
    `in_copy` is True, the store is a temporary copy.
    """
    file = sc.live.read_study(study, outside=outside)
    if not getattr(file, key):
        raise StudyError(f"{study}: '{key}' is missing; there is nobody to {what}.")
    with TemporaryDirectory() if in_copy else nullcontext() as folder:
        file = file.copy_in(Path(folder)) if folder else file
        store = file.open_store()
        with warnings_as_notes(store), store.provisional():
            yield file, store


@contextmanager
def warnings_as_notes(store: sc.RunStore | None, again: str = "The same command") -> Iterator[None]:
    """Print warnings as notes when they occur; after Ctrl-C, print how to resume, then exit.

    Without a store there is nothing to resume, so the message is only "interrupted".
    """
    from tqdm.auto import tqdm

    def show(message: Warning | str, *_: object, **__: object) -> None:
        # Print the note above the progress bar, because it would otherwise break the bar's line.
        with tqdm.external_write_mode(file=sys.stderr):
            say(f"note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except KeyboardInterrupt:
            text = "interrupted."
            if store is not None:
                text = f"interrupted; {store.path} holds what was answered. {again} goes on."
            say(f"skillcomp: {text}", err=True)
            raise typer.Exit(130) from None


def _print_estimate(table: pd.DataFrame) -> None:
    """Print an estimate of the work that is left, its sums, and why a cost is unknown."""
    notes = table.pop("note").dropna().unique()
    table["minutes"] = table.pop("seconds") / 60
    say(table.to_string(index=False, na_rep="unknown", float_format="{:.3f}".format), lines=True)
    calls, usd, minutes = table[["n_calls", "cost_usd", "minutes"]].sum(skipna=False)
    total = f"total: {calls:.0f} calls, {usd:.3f} USD, {minutes:.1f} minutes"
    say(total.replace("nan", "unknown"))
    for note in notes:
        say(f"note: {note}")


def _print_state(
    table: pd.DataFrame, store: sc.RunStore, *, exits: bool = True, **only: list[Any]
) -> None:
    """Print the state of a study and reasons for failures; exit with 1 if work is left to do.

    Only the rows with these values in these columns count.
    """
    from skillcomp.live.status import errors

    for column, values in only.items():
        table = table[table[column].isin(values)]
    filled = table.drop(columns=["models", "note"]).dropna(axis="columns", how="all")
    if len(table):
        cells = filled.astype(object).where(filled.notna(), "-")
        say(cells.to_string(index=False, float_format="{:.4f}".format), lines=True)
    else:
        say("nothing has been asked yet")
    # an agent has one row per condition, all with the same note
    noted = table.dropna(subset="note").drop_duplicates(["stage", "name", "round", "note"])
    for stage, name, number, note in noted[["stage", "name", "round", "note"]].to_numpy():
        say(f"note: {_display_name(stage, name, number)}: {note}")
    here = errors(store).merge(table[["stage", "name", "round"]].drop_duplicates())
    for stage, name, number, reason, n, first in here.head(_REASONS).to_numpy():
        times = "once" if n == 1 else f"{n} times, first"
        say(f"failed: {_display_name(stage, name, number)}: {reason} ({times} at {first})")
    if len(here) > _REASONS:
        say(f"failed: {len(here) - _REASONS} further reasons")
    n_open = int(table["n_open"].sum())
    if exits and n_open:
        raise typer.Exit(1)


_CODES = {"pass": 0, "fail": 1, "error": 2, "skipped": 3}
_CLAUDE = "{kind: cli, program: claude}"
_LINE = (
    *("execution_pass_rate", "baseline_pass_rate", "no_skill_pass_rate", "delta", "interval"),
    *("verdict", "reason"),
)
_Runs = Annotated[Path, Option(help="Folder of all runs; its own .gitignore keeps it out of git.")]
_HOME = Path("artifacts/skill-evals")


def evaluate(
    task_suite: Annotated[Path, Option()],
    state_root: Annotated[Path, Option()],
    input: Path | None = None,
    candidate_id: str | None = None,
    standalone: bool = False,
    skill_path: Path | None = None,
    original: Path | None = None,
    original_anywhere: bool = False,
    pass_k: OneOrMore = 1,
    baseline_cache_dir: Path | None = None,
    eval_threshold: float = 6.0,
    mock: bool = False,
    output: Path | None = None,
    agent: str | None = None,
    judge: str | None = None,
    min_pass_rate: Annotated[float, Option(min=0, max=1)] = 0.5,
    no_skill: bool = False,
    trust_answers: bool = False,
    budget_usd: float | None = None,
    concurrency: OneOrMore = 4,
    quiet: Quiet = False,
) -> None:
    """Measure the pass rate of a skill on a task suite, and the change from the original skill.

    Parameters
    ----------
    task_suite : Path
        The task_suite.yaml.
    state_root : Path
        Folder of the state and the artefacts.
    input : Path, optional
        Pipeline mode: the ranking artefact (JSON).
    candidate_id : str, optional
        Pipeline mode: id of the candidate.
    standalone : bool
        Evaluate a skill without a ranking artefact.
    skill_path : Path, optional
        Standalone mode: the SKILL.md or its folder.
    original : Path, optional
        Standalone mode: the earlier SKILL.md, to compare with.
    original_anywhere : bool
        Read target.path outside the folder of the ranking.
    pass_k : int
        Attempts per task; one passed attempt is enough.
    baseline_cache_dir : Path, optional
        Folder that keeps baselines for seven days.
    eval_threshold : float
        Minimum score of a candidate; lower ones are skipped.
    mock : bool
        Ask and judge nothing, to test the setup.
    output : Path, optional
        File of the artefact. Default: evaluations/<run_id>.json
    agent : str, optional
        The agent: a model, or a mapping as in a study file. Default: {kind: cli, program:
        claude}
    judge : str, optional
        The agent that scores by rubric. Default: --agent.
    min_pass_rate : float
        Minimum pass rate for the verdict pass without an original.
    no_skill : bool
        Ask without any skill as well.
    trust_answers : bool
        Run answers without a sandbox if there is none.
    budget_usd : float, optional
        Maximum dollars for the answers, and again for the scores.
    concurrency : int
        Maximum questions at once.
    """
    from skillcomp.io.files import write_json
    from skillcomp.live import evaluate as evaluation

    suite = evaluation.read_task_suite(task_suite)
    if standalone:
        _refuse_options("pipeline mode, not --standalone", input=input, candidate_id=candidate_id)
        if skill_path is None:
            raise StudyError("evaluate: --standalone needs --skill-path.")
        candidate = evaluation.standalone(suite, skill_path, original)
    else:
        if input is None or candidate_id is None:
            raise StudyError(
                "evaluate: --input and --candidate-id are needed in pipeline mode; "
                "--standalone evaluates a skill without them."
            )
        _refuse_options("--standalone, not pipeline mode", skill_path=skill_path, original=original)
        candidate = evaluation.read_ranking(
            input, candidate_id, suite.skill, original_anywhere=original_anywhere
        )
    asked_agent = evaluation.MockAgent() if mock else _agent_to_ask(agent, suite, "--agent")
    work = evaluation.Evaluation(
        task_suite,
        candidate,
        agent=asked_agent,
        judge=asked_agent if mock or judge is None else _agent_to_ask(judge, suite, "--judge"),
        state_root=state_root,
        pass_k=pass_k,
        cache=baseline_cache_dir,
        mock=mock,
        trust=trust_answers,
        without_skill=no_skill,
        min_pass_rate=min_pass_rate,
        options={"budget_usd": budget_usd, "concurrency": concurrency, "progress": not quiet},
    )
    artefact = work.skipped(eval_threshold)
    if artefact is None:
        say(work.estimate(), err=True)
        with warnings_as_notes(work.store):
            artefact = work.evaluate()
    for note in artefact["notes"]:
        say(f"note: {note}", err=True)
    if mock and artefact["verdict"] != "skipped":
        say("mock: nothing was asked, nothing was judged, and every task passes", err=True)
    interval = artefact.get("interval")
    if interval:
        say(f"with {interval['n']} tasks this supports: {interval['supports']}", err=True)
    file = output or state_root / "evaluations" / f"{candidate.run_id}.json"
    file = file.expanduser().resolve()
    write_json(file, {**artefact, "truth_anchor": str(file)})
    if interval:
        # the interval of the delta or, if there is no original skill, of the pass rate
        artefact = artefact | {"interval": [interval["ci_low"], interval["ci_high"]]}
    names = (*_LINE, *(["mock"] if mock else []))
    say(json.dumps({name: artefact[name] for name in names if name in artefact}))
    if code := _CODES[artefact["verdict"]]:
        raise typer.Exit(code)


def _refuse_options(mode: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise StudyError(f"evaluate: --{name.replace('_', '-')} belongs to {mode}.")


def _agent_to_ask(text: str | None, suite: Suite, key: str) -> Agent:
    """Build the agent that `text` describes.

    The default time limit of a program is the longest time limit of the tasks.
    """
    from skillcomp.live.study_file import read_agent

    if text is None and shutil.which("claude") is None:
        raise StudyError(
            "evaluate: the program claude is not in PATH. Install it, name who is asked by --agent "
            "(a model, or '{kind: openai, model: ...}'), or try the wiring out with --mock."
        )
    limits = [case.timeout_seconds for case in suite.cases if case.timeout_seconds]
    return read_agent(text or _CLAUDE, key=key, timeout=max(limits, default=None))


def trigger_run(
    root: Path = Path("."),
    skill: list[str] | None = None,
    case: list[str] | None = None,
    max_cases: Annotated[int | None, Option(min=1)] = None,
    neighbour: list[str] | None = None,
    judge: Annotated[bool | None, Option("--judge/--no-judge")] = None,
    rubric_schema: Path | None = None,
    run_id: str | None = None,
    artifacts: _Runs = _HOME,
    write_progress: Annotated[bool, Option()] = False,
    background: bool = False,
    resume: bool = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Send the prompts of trigger suites to a program with installed skills, and grade its work.

    Parameters
    ----------
    suite : {"smoke", "explicit", "implicit", "negative", "all"}
        Which prompts to ask; smoke is the first explicit and the first negative. Default: smoke
    root : Path
        Repository with skills, and their prompts in evals/skills/<slug>, evals/<slug> or
        evals/ of each skill.
    skill : list of str, optional
        Only this skill; repeatable.
    case : list of str, optional
        Only this case id; repeatable.
    max_cases : int, optional
        Maximum cases per skill.
    neighbour : list of str, optional
        Another skill to install, or 'none'. Default: all others.
    judge : bool, optional
        Judge all cases or none. Default: by the column judge.
    program : {"claude", "codex"}
        The program to ask. Default: claude
    model : str, optional
        The program's model.
    judge_program : {"claude", "codex"}, optional
        The judge. Default: --program.
    judge_model : str, optional
        The judge's model.
    rubric_schema : Path, optional
        File with the JSON Schema of the judge's reply.
    timeout_s : seconds
        Seconds for a case without a limit. Default: 180
    concurrency : positive int
        Maximum programs at once. Default: 2
    run_id : str, optional
        Name of the run. Default: the time.
    write_progress : bool
        Write progress files.
    background : bool
        Run detached from the terminal, with progress files.
    resume : bool
        Resume a run with its settings (needs --run-id).
    """
    from skillcomp.live import trigger_runs as triggers
    from skillcomp.live.graders.traces import read_rubric_schema

    if resume and run_id is None:
        raise StudyError("trigger: --resume needs --run-id.")
    run_id = checked_slug(run_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}", StudyError)
    folder = artifacts / run_id
    if not resume:
        settings = triggers.TriggerSettings(
            **options_given(options),
            write_progress=write_progress or background,
            rubric_schema=None if rubric_schema is None else read_rubric_schema(rubric_schema),
        )
        triggers.prepare_run(
            folder,
            root / "skills" if (root / "skills").is_dir() else root,
            root,
            settings,
            only_skills=skill or (),
            only_cases=case or (),
            max_cases=max_cases,
            judge=judge,
            neighbours=[] if neighbour == ["none"] else neighbour,
        )
    if background:
        pid = triggers.start_in_background(folder)
        say(f"run {run_id} goes on in process {pid}; log: {folder / 'runner.log'}")
        say(f"skillcomp trigger status --run-id {run_id} --artifacts {artifacts}")
        return
    with warnings_as_notes(sc.RunStore(folder / "store"), f"--resume --run-id {run_id}"):
        summary = triggers.work_run(folder, progress=not quiet)
    for line in summary["warnings"]:
        say(line)
    say(
        f"run {run_id}: {summary['pass_count']} passed, {summary['fail_count']} failed, "
        f"{summary['unknown_count']} unknown, of {summary['cases']} cases; {folder / 'summary.md'}"
    )
    if summary["pass_count"] < summary["cases"] or summary["dead"]:
        raise typer.Exit(1)


def trigger_status(
    run_id: Annotated[str, Option()],
    artifacts: _Runs = _HOME,
    as_json: Annotated[bool, Option("--json")] = False,
) -> None:
    """Show the progress of a run, even while it is running; nothing is written.

    Parameters
    ----------
    run_id : str
        Name of the run.
    as_json : bool
        Print JSON.
    """
    from skillcomp.live import trigger_runs as triggers

    run_id = checked_slug(run_id, StudyError)
    state = triggers.run_state(artifacts / run_id)
    if as_json:
        say(json.dumps(state))
        return
    for line in state.pop("warnings"):
        say(line)
    state.pop("dead")
    for name, value in state.items():
        say(f"{name}: {'nobody' if value is None else value}")


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
    keep : {"all", "last"}, optional
        What several rows on one thing are.
    asked : Path, optional
        A table of the planned attempts.
    gold : Path, optional
        A table of reference labels.
    gold_drawn : {"random", "chosen", "verdict", "separate"}, optional
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
    checks : {"all", "shared"}, optional
        Checks that only some arms have.
    value : {"passed", "share_passed", "score"}, optional
        What is compared. Default: passed
    bounds : two floats, optional
        Lowest and highest possible score.
    assume_missing : {"at random"}, optional
        Why attempts are missing.
    margin : float, optional
        Largest negligible change. Default: 0.1
    """
    from skillcomp.report.page import write_answer

    given = options_given(options)
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
    with warnings_as_notes(None), arguments_as(as_option):
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
        print_coverage(path)
        return
    if judges or ask:
        check_judges(path, ask=ask)
        return
    import pandas as pd

    from skillcomp.lint import is_study_file, lint_places

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
    quiet: Quiet = False,
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
    assume_missing : {"at random"}, optional
        Keep a verdict that missing attempts could change.
    interval : {"adaptive", "bounded", "t"}, optional
        Rule for the intervals of changes. Default: adaptive
    checks : {"all", "shared"}, optional
        all checks (the default), or those shared: that every condition of a case was asked.
    reference : str, optional
        Condition to compare with.
    gold_drawn : {"random", "chosen", "verdict", "separate"}, optional
        How gold was drawn.
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
    with warnings_as_notes(None):
        page = sc.report.build(
            sc.datasets.path("pilot") if data is None else data,
            out,
            notebooks=paths,
            parameters=_parse_parameters(settings or []),
            progress=not quiet,
            **options_given(options),
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
    from skillcomp.lint import ALL_ROWS

    store = recorded_study(data, "export")
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


_of_studies = (run, grade, compare, status, drop, evaluate)
_of_results = (check, report, export, init, notebooks, answer)
for _command in (*_of_results, *_of_studies):
    app.command()(documented(_command))
_trigger = typer.Typer(
    no_args_is_help=True, help="Does a skill trigger when it should, and is the work done well?"
)
_trigger.command("run")(documented(trigger_run))
_trigger.command("status")(documented(trigger_status))
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
