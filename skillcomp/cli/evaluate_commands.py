"""The commands that put a skill to work: ``skillcomp evaluate`` and ``skillcomp trigger``.

``evaluate`` holds a skill against a task suite, and against its original. Exit status: 0 when the
verdict is pass, 1 fail, 2 error, 3 skipped. ``trigger run`` asks a program the prompts of trigger
suites, and ``trigger status`` says how far that has come. Exit status: 0 when every case passed, 1
when one failed or is not known, 2 when the input cannot be used, 130 after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from skillcomp.cli.study_commands import told
from skillcomp.cli.terminal import say
from skillcomp.errors import StudyError, require_known

if TYPE_CHECKING:
    from skillcomp.live.agents.agent import Agent
    from skillcomp.records import Suite

_CODES = {"pass": 0, "fail": 1, "error": 2, "skipped": 3}
_CLAUDE = "{kind: cli, program: claude}"
_LINE = ("execution_pass_rate", "baseline_pass_rate", "delta", "verdict", "reason")
_Artifacts = Annotated[
    Path, typer.Option(help="Folder of all runs; it is kept out of git by its own .gitignore.")
]
_HOME = Path("artifacts/skill-evals")


def evaluate(
    task_suite: Annotated[Path, typer.Option(help="The task_suite.yaml.")],
    state_root: Annotated[Path, typer.Option(help="Folder of the state and the artefacts.")],
    input: Annotated[
        Path | None, typer.Option(help="Pipeline mode: the ranking artefact (JSON).")
    ] = None,
    candidate_id: Annotated[
        str | None, typer.Option(help="Pipeline mode: which of its candidates.")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Evaluate a skill without a ranking artefact.")
    ] = False,
    skill_path: Annotated[
        Path | None, typer.Option(help="Standalone mode: the SKILL.md or its folder.")
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(help="Standalone mode: the SKILL.md as it was, to compare with."),
    ] = None,
    pass_k: Annotated[
        int, typer.Option(min=1, help="Attempts of each task; it passes if one of them does.")
    ] = 1,
    baseline_cache_dir: Annotated[
        Path | None, typer.Option(help="Keep baselines here for seven days.")
    ] = None,
    eval_threshold: Annotated[
        float, typer.Option(help="Smallest score of a candidate that is evaluated.")
    ] = 6.0,
    mock: Annotated[
        bool, typer.Option("--mock", help="Ask and judge nothing: only try the wiring out.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the artefact goes; evaluations/<run_id>.json when not given."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help=f"Who is asked: a model, or as in a study file. Default: {_CLAUDE}"),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Who scores by rubric; the agent when not given.")
    ] = None,
    no_skill: Annotated[
        bool, typer.Option("--no-skill", help="Ask without any skill, too.")
    ] = False,
    trust_answers: Annotated[
        bool,
        typer.Option("--trust-answers", help="Run answers where there is no sandbox for them."),
    ] = False,
    budget_usd: Annotated[
        float | None, typer.Option(help="Dollars for the answers, and once more for the scores.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions under way at once.")] = 4,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False,
) -> None:
    """Measure whether a skill makes an agent pass the tasks of a suite, and more than before."""
    from skillcomp.live import evaluate as of

    suite = of.read_tasks_of(task_suite)
    if standalone:
        for name, given in (("--input", input), ("--candidate-id", candidate_id)):
            if given is not None:
                raise StudyError(f"evaluate: {name} belongs to pipeline mode, not --standalone.")
        if skill_path is None:
            raise StudyError("evaluate: --standalone needs --skill-path.")
        candidate = of.standalone(suite, skill_path, original)
    else:
        if input is None or candidate_id is None:
            raise StudyError(
                "evaluate: --input and --candidate-id are needed in pipeline mode; "
                "--standalone evaluates a skill without them."
            )
        for name, given in (("--skill-path", skill_path), ("--original", original)):
            if given is not None:
                raise StudyError(f"evaluate: {name} belongs to --standalone, not pipeline mode.")
        candidate = of.read_ranking(input, candidate_id, suite.skill)
    asked = of.MockAgent() if mock else _agent(agent, suite, "--agent")
    work = of.Evaluation(
        task_suite,
        candidate,
        agent=asked,
        judge=asked if mock or judge is None else _agent(judge, suite, "--judge"),
        state_root=state_root,
        pass_k=pass_k,
        cache=baseline_cache_dir,
        mock=mock,
        trust=trust_answers,
        without_skill=no_skill,
        budget_usd=budget_usd,
        concurrency=concurrency,
        progress=not quiet,
    )
    artefact = work.skipped(eval_threshold)
    if artefact is None:
        say(work.estimate(), err=True)
        with told(work.store):
            artefact = work.evaluate()
    for note in artefact["notes"]:
        say(f"note: {note}", err=True)
    if mock and artefact["verdict"] != "skipped":
        say("mock: nothing was asked, nothing was judged, and every task passes", err=True)
    if interval := artefact.get("interval"):
        say(f"with {interval['n']} tasks this supports: {interval['supports']}", err=True)
    of.write_artefact(artefact, output or state_root / "evaluations" / f"{candidate.run_id}.json")
    line = {name: artefact[name] for name in _LINE if name in artefact}
    say(json.dumps(line | ({"mock": True} if mock else {})))
    if code := _CODES[artefact["verdict"]]:
        raise typer.Exit(code)


def _agent(text: str | None, suite: Suite, key: str) -> Agent:
    """Return who is asked; a program has the time that the tasks allow."""
    from skillcomp.live.study_file import read_agent

    if text is None and shutil.which("claude") is None:
        raise StudyError(
            "evaluate: the program claude is not in PATH. Install it, name who is asked by --agent "
            "(a model, or '{kind: openai, model: ...}'), or try the wiring out with --mock."
        )
    limits = [case.timeout_seconds for case in suite.cases if case.timeout_seconds]
    return read_agent(text or _CLAUDE, key=key, timeout=max(limits, default=None))


def trigger_run(
    suite: Annotated[
        str,
        typer.Option(
            help="smoke (first explicit, first negative), explicit, implicit, negative or all."
        ),
    ] = "smoke",
    root: Annotated[
        Path, typer.Option(help="Repository with skills/ and evals/skills/<slug>/prompts.csv.")
    ] = Path("."),
    skills: Annotated[
        Path | None,
        typer.Option(help="Where the skills stand; skills/ of the root by default."),
    ] = None,
    skill: Annotated[list[str] | None, typer.Option(help="Only this skill; repeatable.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case id; repeatable.")] = None,
    max_cases: Annotated[int | None, typer.Option(min=1, help="Of each skill at most.")] = None,
    neighbour: Annotated[
        list[str] | None,
        typer.Option(help="A skill installed beside, or 'none'; all others when not given."),
    ] = None,
    judge: Annotated[
        bool | None,
        typer.Option("--judge/--no-judge", help="The rubric judge; as the column says by default."),
    ] = None,
    program: Annotated[str, typer.Option(help="Who is asked: claude or codex.")] = "claude",
    model: Annotated[str | None, typer.Option(help="The program's model.")] = None,
    judge_program: Annotated[str | None, typer.Option(help="Who judges; as --program.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="The judge's model.")] = None,
    timeout_s: Annotated[float, typer.Option(min=1, help="Of a case that names none.")] = 180,
    judge_timeout_s: Annotated[float, typer.Option(min=1, help="Of one judging.")] = 180,
    concurrency: Annotated[int, typer.Option(min=1, help="Programs at once.")] = 2,
    run_id: Annotated[
        str | None, typer.Option(help="Name of the run; by default the time.")
    ] = None,
    artifacts: _Artifacts = _HOME,
    write_progress: Annotated[bool, typer.Option(help="Write progress files.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Detached from the terminal, with progress files.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run as it was begun (needs --run-id).")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False,
) -> None:
    """Ask a program the prompts of trigger suites with the skills installed, and grade its work."""
    from skillcomp.io.files import checked_slug
    from skillcomp.io.store import RunStore
    from skillcomp.live import trigger_runs as triggers

    require_known("trigger: --suite", suite, get_args(triggers.Which), StudyError)
    for option, name in (("--program", program), ("--judge-program", judge_program or program)):
        require_known(f"trigger: {option}", name, get_args(triggers.Program), StudyError)
    if resume and run_id is None:
        raise StudyError("trigger: --resume needs --run-id.")
    run_id = checked_slug(run_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}", StudyError)
    folder = artifacts / run_id
    if not resume:
        triggers.prepare_run(
            folder,
            skills or root / "skills",
            root / "evals" / "skills",
            which=suite,  # type: ignore[arg-type]
            only_skills=skill or (),
            only_cases=case or (),
            max_cases=max_cases,
            judge=judge,
            neighbours=[] if neighbour == ["none"] else neighbour,
            program=program,  # type: ignore[arg-type]
            model=model,
            judge_program=judge_program,
            judge_model=judge_model,
            timeout_s=timeout_s,
            judge_timeout_s=judge_timeout_s,
            concurrency=concurrency,
            write_progress=write_progress or background,
        )
    if background:
        pid = triggers.start_in_background(folder)
        say(f"run {run_id} goes on in process {pid}; log: {folder / 'runner.log'}")
        say(f"skillcomp trigger status --run-id {run_id} --artifacts {artifacts}")
        return
    with told(RunStore(folder / "store"), f"--resume --run-id {run_id}"):
        found = triggers.work_run(folder, progress=not quiet)
    say(
        f"run {run_id}: {found['pass_count']} passed, {found['fail_count']} failed, "
        f"{found['unknown_count']} unknown, of {found['cases']} cases; {folder / 'summary.md'}"
    )
    if found["pass_count"] < found["cases"]:
        raise typer.Exit(1)


def trigger_status(
    run_id: Annotated[str, typer.Option(help="Name of the run.")],
    artifacts: _Artifacts = _HOME,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how far a run has come, also while it runs; nothing is written."""
    from skillcomp.live import trigger_runs as triggers

    found: dict[str, Any] = triggers.run_state(artifacts / run_id)
    if as_json:
        say(json.dumps(found))
        return
    for name, value in found.items():
        say(f"{name}: {'nobody' if value is None else value}")
