"""The commands ``skillcomp evaluate``, ``trigger run`` and ``trigger status``.

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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from typer import Option

import skillcomp as sc
from skillcomp.cli.option_help import OneOrMore
from skillcomp.cli.study_commands import Quiet, warnings_as_notes
from skillcomp.cli.terminal import say
from skillcomp.errors import StudyError, require_known
from skillcomp.io.files import checked_slug

if TYPE_CHECKING:
    from skillcomp.live.agents.agent import Agent
    from skillcomp.records import Suite

_CODES = {"pass": 0, "fail": 1, "error": 2, "skipped": 3}
_CLAUDE = "{kind: cli, program: claude}"
_LINE = ("execution_pass_rate", "baseline_pass_rate", "no_skill_pass_rate", "delta")
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
    evaluation.write_artefact(artefact, file)
    line = {name: artefact[name] for name in _LINE if name in artefact}
    if interval:
        # the interval of the delta or, if there is no original skill, of the pass rate
        line["interval"] = [interval["ci_low"], interval["ci_high"]]
    line |= {name: artefact[name] for name in ("verdict", "reason") if name in artefact}
    say(json.dumps(line | ({"mock": True} if mock else {})))
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
    for line in triggers.control_lines(summary):
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
