"""The commands ``skillcomp trigger run`` and ``skillcomp trigger status``.

Exit status: 0 when every case passed, 1 when one failed or is not known, 2 when the input cannot be
used, 130 after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from skillcomp.cli.terminal import say
from skillcomp.errors import StudyError, suggest

__all__ = ["register"]

_Artifacts = Annotated[
    Path, typer.Option(help="Folder of all runs; it is kept out of git by its own .gitignore.")
]
_HOME = Path("artifacts/skill-evals")


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        no_args_is_help=True, help="Does a skill fire when it should, and is the work done well?"
    )
    group.command("run")(run)
    group.command("status")(status)
    app.add_typer(group, name="trigger")


def run(
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
    from skillcomp.cli.studies import told
    from skillcomp.io.files import checked_slug
    from skillcomp.io.store import RunStore
    from skillcomp.live.work import triggers

    _one_of("--suite", suite, get_args(triggers.Which))
    for option, name in (("--program", program), ("--judge-program", judge_program)):
        if name is not None:
            _one_of(option, name, get_args(triggers.Program))
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


def status(
    run_id: Annotated[str, typer.Option(help="Name of the run.")],
    artifacts: _Artifacts = _HOME,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how far a run has come, also while it runs; nothing is written."""
    import json

    from skillcomp.live.work import triggers

    found: dict[str, Any] = triggers.run_state(artifacts / run_id)
    if as_json:
        say(json.dumps(found))
        return
    for name, value in found.items():
        say(f"{name}: {'nobody' if value is None else value}")


def _one_of(option: str, found: str, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        raise StudyError(
            f"trigger: {option} '{found}'; allowed: {', '.join(allowed)}.{suggest(found, allowed)}"
        )
