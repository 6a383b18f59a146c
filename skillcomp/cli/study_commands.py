"""The commands of live studies: ``skillcomp run``, ``grade``, ``compare`` and ``status``.

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

from skillcomp.cli.terminal import say
from skillcomp.errors import StudyError, suggest

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.io.store import RunStore
    from skillcomp.live.study_file import StudyFile

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
_Outside = Annotated[
    bool,
    typer.Option("--allow-outside", help="The store and texts may lie outside the study's folder."),
]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")]
_LEFT_OUT = ("models", "note")
_REASONS = 10  # why something failed, as many as are shown


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
    allow_outside: _Outside = False,
) -> None:
    """Ask the agents of a study; started again, it goes on where it was."""
    from skillcomp.live.run import run as run_study

    file, store = _opened(study, allow_outside, "agents", "ask")
    with told(store):
        table = run_study(
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
    _show(table[table["stage"].eq("run")], store)


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
    allow_outside: _Outside = False,
) -> None:
    """Have the answers of a study graded, gold answers first; no answer is touched."""
    from skillcomp.live.grade import grade as grade_study

    file, store = _opened(study, allow_outside, "graders", "grade")
    file.open_suites(store)
    own, graders = file.grading, file.build_graders()
    with told(store):
        table = grade_study(
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
    _show(table[shown], store)


def compare(
    study: _Study,
    batch: _Batch = None,
    resend_lost: _Resend = False,
    budget_usd: _Budget = None,
    concurrency: _Width = None,
    condition: Annotated[str, typer.Option(help="Whose answers are compared.")] = "skill",
    reference: Annotated[str, typer.Option(help="With whose.")] = "baseline",
    quiet: _Quiet = False,
    allow_outside: _Outside = False,
) -> None:
    """Have answers under two conditions compared in pairs, blind and in both orders."""
    from skillcomp.live.compare import compare as compare_study

    file, store = _opened(study, allow_outside, "comparators", "compare")
    file.open_suites(store)
    own, graders = file.grading, file.build_comparators()
    with told(store):
        table = compare_study(
            store,
            graders=graders,
            condition=condition,
            reference=reference,
            budget_usd=_first(budget_usd, own.budget_usd, file.budget_usd),
            seed=_first(own.seed, file.seed),
            concurrency=concurrency or own.concurrency or file.concurrency,
            batch=_batch(_first(batch, own.batch, file.batch), resend_lost),
            progress=not quiet,
        )
    names = [grader.name for grader in graders]
    two = {f"{condition} against {reference}", f"{reference} against {condition}"}
    shown = table["stage"].eq("compare") & table["name"].isin(names)
    _show(table[shown & table["condition"].isin(two)], store)


def status(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder, or its STUDY.yaml.")],
    allow_outside: _Outside = False,
) -> None:
    """Say how far a study has come, also while it runs; the store is only read."""
    from skillcomp.io.store import RunStore
    from skillcomp.live.status import status as status_of
    from skillcomp.live.status import writer

    if store.is_file():
        from skillcomp.live.study_file import read_study

        store = read_study(store, outside=allow_outside).store_path
    if not (store / "manifest.json").is_file():
        beside = [one.name for one in store.parent.glob("*") if one.is_dir() and one != store]
        near = suggest(store.name, beside)
        raise StudyError(f"status: {store} is not a study: it has no manifest.json.{near}")
    found = RunStore(store)
    _show(status_of(found), found, exits=False)
    who = writer(found)
    say(f"at work: {who}" if who else "at work: nobody")


def _name(stage: str, name: str, number: Any) -> str:
    return f"{name}, round {number}" if stage == "grade" else name


def _opened(study: Path, outside: bool, who: str, what: str) -> tuple[StudyFile, RunStore]:
    """Return a study in which somebody is named, and its store."""
    from skillcomp.live.study_file import read_study

    file = read_study(study, outside=outside)
    if not getattr(file, who):
        raise StudyError(f"{study}: '{who}' is missing; there is nobody to {what}.")
    return file, file.open_store()


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _batch(batch: bool | None, resend_lost: bool) -> Any:
    """Return what the runner takes for batch=."""
    from skillcomp.live.batches import BatchLimits

    return BatchLimits(resend=True) if resend_lost else bool(batch)


@contextmanager
def told(store: RunStore, again: str = "The same command") -> Iterator[None]:
    """Show warnings at once as lines of their own, and say after Ctrl-C that nothing is lost."""
    from tqdm.auto import tqdm

    def show(message: Warning | str, *_: object, **__: object) -> None:
        # above a progress bar and not into it
        with tqdm.external_write_mode(file=sys.stderr):
            say(f"note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except KeyboardInterrupt:
            say(
                f"skillcomp: interrupted; {store.path} holds what was answered. {again} goes on.",
                err=True,
            )
            raise typer.Exit(_INTERRUPTED) from None


def _show(table: pd.DataFrame, store: RunStore, *, exits: bool = True) -> None:
    """Print a state and why something failed; leave with 1 when something is open."""
    from skillcomp.live.status import errors

    filled = table.drop(columns=list(_LEFT_OUT)).dropna(axis="columns", how="all")
    if len(table):
        shown = filled.astype(object).where(filled.notna(), "-")
        say(shown.to_string(index=False, float_format="{:.4f}".format))
    else:
        say("nothing has been asked yet")
    noted = table.dropna(subset="note")
    # an agent has a row for each condition, and the note is the same in all
    noted = noted[noted["stage"].eq("grade") | ~noted.duplicated(["stage", "name", "note"])]
    for stage, name, number, note in noted[["stage", "name", "round", "note"]].to_numpy():
        head = "note" if "empty answer" in note else "under way"
        say(f"{head}: {_name(stage, name, number)}: {note}")
    reasons = errors(store)
    here = reasons.merge(table[["stage", "name", "round"]].drop_duplicates())
    for stage, name, number, reason, n, first in here.head(_REASONS).to_numpy():
        times = "once" if n == 1 else f"{n} times, first"
        say(f"failed: {_name(stage, name, number)}: {reason} ({times} at {first})")
    if len(here) > _REASONS:
        say(f"failed: {len(here) - _REASONS} further reasons")
    n_open = int(table["n_open"].sum())
    if exits and n_open:
        raise typer.Exit(1)
