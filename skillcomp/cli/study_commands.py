"""The commands that ask models: live studies, task suites and trigger suites.

The exit status of ``skillcomp run``, ``grade``, ``compare`` and ``status`` is 0 if all work is
done, 1 if some work is left to do, 2 if the input cannot be used, and 130 after Ctrl-C or SIGTERM.
``drop`` removes a suite without answers from a study.

``evaluate`` compares a skill with its original on a task suite. Its exit status is 0 for the
verdict pass, 1 for fail, 2 for error and 3 for skipped.

``trigger run`` asks a program the prompts of trigger suites, and ``trigger status`` shows the
progress of such a run. The exit status of ``trigger run`` is 0 if every case passed, 1 if a case
failed or is unknown or a skill cannot be called, 2 if the input cannot be used, and 130 after
Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer import Argument, Option

import skillcomp as sc
from skillcomp.cli.terminal import OneOrMore, print_findings, say
from skillcomp.errors import StudyError, plural, require_known, shortened, suggest
from skillcomp.io.files import checked_slug

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.live.agents.agent import Agent
    from skillcomp.live.study_file import StudyFile
    from skillcomp.records import Suite

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
    from skillcomp.lint.lint_path import lint_places

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
    from skillcomp.lint.lint_path import suites_at

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
    suite: str = "smoke",
    root: Path = Path("."),
    skill: list[str] | None = None,
    case: list[str] | None = None,
    max_cases: Annotated[int | None, Option(min=1)] = None,
    neighbour: list[str] | None = None,
    judge: Annotated[bool | None, Option("--judge/--no-judge")] = None,
    program: str = "claude",
    model: str | None = None,
    judge_program: str | None = None,
    judge_model: str | None = None,
    rubric_schema: Path | None = None,
    timeout_s: Annotated[float, Option(min=1)] = 180,
    concurrency: OneOrMore = 2,
    run_id: str | None = None,
    artifacts: _Runs = _HOME,
    write_progress: Annotated[bool, Option()] = False,
    background: bool = False,
    resume: bool = False,
    quiet: Quiet = False,
) -> None:
    """Send the prompts of trigger suites to a program with installed skills, and grade its work.

    Parameters
    ----------
    suite : str
        smoke (first explicit, first negative), explicit, implicit, negative or all.
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
    program : str
        The program to ask: claude or codex.
    model : str, optional
        The program's model.
    judge_program : str, optional
        The judge. Default: --program.
    judge_model : str, optional
        The judge's model.
    rubric_schema : Path, optional
        File with the JSON Schema of the judge's reply.
    timeout_s : float
        Seconds for a case without a limit.
    concurrency : int
        Maximum programs at once.
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

    require_known("trigger: --suite", suite, get_args(triggers.Which), StudyError)
    for option, name in (("--program", program), ("--judge-program", judge_program or program)):
        require_known(f"trigger: {option}", name, get_args(triggers.Program), StudyError)
    if resume and run_id is None:
        raise StudyError("trigger: --resume needs --run-id.")
    run_id = checked_slug(run_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}", StudyError)
    folder = artifacts / run_id
    if not resume:
        settings = triggers.TriggerSettings(
            suite=suite,  # type: ignore[arg-type]
            program=program,  # type: ignore[arg-type]
            model=model,
            judge_program=judge_program,  # type: ignore[arg-type]
            judge_model=judge_model,
            timeout_s=timeout_s,
            concurrency=concurrency,
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
