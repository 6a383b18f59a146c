"""The commands of live studies: ``skillcomp run``, ``grade`` and ``status``.

Exit status: 0 when nothing is left open, 1 when something is, 2 when the input cannot be used, 130
after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm.auto import tqdm

from skillcomp.errors import StudyError, suggest

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.io.store import RunStore

__all__ = ["register"]

_INTERRUPTED = 130
_Study = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study.")]
_Batch = Annotated[
    bool | None, typer.Option("--batch/--no-batch", help="Ask in batches: half the price.")
]
_Resend = Annotated[
    bool,
    typer.Option(
        "--resend-lost",
        help="Ask in batches, and send again what a batch held that the service does not know.",
    ),
]
_Budget = Annotated[
    float | None,
    typer.Option(metavar="USD", help="Dollars that this stage of the study may cost in all."),
]
_Width = Annotated[int | None, typer.Option(min=1, help="Questions under way at once.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")]
_LEFT_OUT = ("models", "note")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (run, grade, status):
        app.command()(command)


def run(
    study: _Study,
    batch: _Batch = None,
    resend_lost: _Resend = False,
    budget_usd: _Budget = None,
    concurrency: _Width = None,
    again: Annotated[
        list[str] | None,
        typer.Option(help="Ask anew what was refused, truncated or paused; may be repeated."),
    ] = None,
    quiet: _Quiet = False,
) -> None:
    """Ask the agents of a study; started again, it goes on where it was."""
    from skillcomp.live import runner
    from skillcomp.live.studyfile import read_study

    file = read_study(study)
    if not file.agents:
        raise StudyError(f"{study}: 'agents' is missing; there is nobody to ask.")
    store = file.open_store()
    with _told(store):
        table = runner.run(
            store,
            file.open_suites(store),
            agents=file.build_agents(),
            conditions=file.conditions,
            repeats=file.repeats,
            placebo=file.texts(store, "placebo"),
            previous=file.texts(store, "previous"),
            seed=file.seed,
            concurrency=concurrency or file.concurrency,
            budget_usd=_first(budget_usd, file.budget_usd),
            batch=_batch(_first(batch, file.batch), resend_lost),
            again=again or (),
            progress=not quiet,
        )
    _show(table[table["stage"].eq("run")])


def grade(
    study: _Study,
    batch: _Batch = None,
    resend_lost: _Resend = False,
    budget_usd: _Budget = None,
    concurrency: _Width = None,
    gold: Annotated[
        Path | None, typer.Option(help="Answers with known verdicts, as JSON Lines.")
    ] = None,
    min_gold_agreement: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Grade only if this share of gold is met."),
    ] = None,
    round: Annotated[int, typer.Option(min=1, help="2 and up to grade again.")] = 1,
    quiet: _Quiet = False,
) -> None:
    """Have the answers of a study graded, gold answers first; no answer is touched."""
    from skillcomp.live import runner
    from skillcomp.live.studyfile import read_study

    file = read_study(study)
    if not file.graders:
        raise StudyError(f"{study}: 'graders' is missing; there is nobody to grade.")
    own, graders = file.grading, file.build_graders()
    store = file.open_store()
    file.open_suites(store)
    with _told(store):
        table = runner.grade(
            store,
            graders=graders,
            round=round,
            gold=gold or (file.folder / own.gold if own.gold else None),
            min_gold_agreement=_first(min_gold_agreement, own.min_gold_agreement),
            budget_usd=_first(budget_usd, own.budget_usd, file.budget_usd),
            seed=_first(own.seed, file.seed),
            concurrency=concurrency or own.concurrency or file.concurrency,
            batch=_batch(_first(batch, own.batch, file.batch), resend_lost),
            progress=not quiet,
        )
    names = [grader.name for grader in graders]
    shown = table["stage"].eq("grade") & table["name"].isin(names) & table["round"].eq(round)
    _show(table[shown])


def status(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder, or its STUDY.yaml.")],
) -> None:
    """Say how far a study has come, also while it runs; the store is only read."""
    from skillcomp.io.store import RunStore
    from skillcomp.live.status import status as status_of
    from skillcomp.live.status import writer
    from skillcomp.live.studyfile import read_study

    if store.is_file():
        file = read_study(store)
        store = file.folder / file.store
    if not (store / "manifest.json").is_file():
        near = suggest(store.name, [path.name for path in store.parent.glob("*") if path.is_dir()])
        raise StudyError(f"status: {store} is not a study: it has no manifest.json.{near}")
    found = RunStore(store)
    _show(status_of(found), exits=False)
    who = writer(found)
    typer.echo(f"at work: {who}" if who else "at work: nobody")


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _batch(batch: bool | None, resend_lost: bool) -> Any:
    """Return what the runner takes for batch=."""
    from skillcomp.live.batches import BatchLimits

    return BatchLimits(resend=True) if resend_lost else bool(batch)


@contextmanager
def _told(store: RunStore) -> Iterator[None]:
    """Show warnings at once as lines of their own, and say after Ctrl-C that nothing is lost."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        # above a progress bar and not into it
        with tqdm.external_write_mode(file=sys.stderr):
            typer.echo(f"note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except KeyboardInterrupt:
            typer.echo(
                f"skillcomp: interrupted; {store.path} holds what was answered. The same command "
                "goes on.",
                err=True,
            )
            raise typer.Exit(_INTERRUPTED) from None


def _show(table: pd.DataFrame, *, exits: bool = True) -> None:
    """Print a state without its empty columns; leave with 1 when something is open."""
    filled = table.drop(columns=list(_LEFT_OUT)).dropna(axis="columns", how="all")
    if len(table):
        shown = filled.astype(object).where(filled.notna(), "-")
        typer.echo(shown.to_string(index=False, float_format="{:.4f}".format))
    else:
        typer.echo("nothing has been asked yet")
    noted = table.dropna(subset="note")
    # an agent has a row for each condition, and the note is the same in all
    noted = noted[noted["stage"].ne("run") | ~noted.duplicated(["stage", "name"])]
    for stage, name, number, note in noted[["stage", "name", "round", "note"]].to_numpy():
        typer.echo(f"under way: {name if stage == 'run' else f'{name}, round {number}'}: {note}")
    n_open = int(table["n_open"].sum())
    if exits and n_open:
        raise typer.Exit(1)
