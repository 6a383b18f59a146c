"""The commands of live studies: ``skillcomp run``, ``grade``, ``compare`` and ``status``.

The exit status is 0 if all work is done, 1 if some work is left to do, 2 if the input cannot be
used, and 130 after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import skillcomp as sc
from skillcomp.cli.option_help import OneOrMore
from skillcomp.cli.terminal import print_findings, say
from skillcomp.errors import StudyError, plural, suggest

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.live.study_file import StudyFile

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
    quiet: Quiet = False,
    allow_outside: _Outside = False,
) -> None:
    """Put the cases of a study to its agents; the same command resumes after an interruption.

    Parameters
    ----------
    force : bool
        Run although the lint finds errors.
    """
    from skillcomp.lint.lint_path import lint_places

    file, store = _study_and_store(study, allow_outside, "agents", "ask")
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
    with warnings_as_notes(store):
        table = sc.run(
            store,
            file.open_suites(store),
            agents=file.build_agents(),
            conditions=file.conditions,
            repeats=file.repeats,
            placebo=file.texts(store, "placebo"),
            previous=file.texts(store, "previous"),
            seed=file.seed,
            concurrency=file.concurrency,
            budget_usd=_first_set(budget_usd, file.budget_usd),
            progress=not quiet,
        )
    _print_state(table[table["stage"].eq("run")], store)


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
    file, store = _study_and_store(study, allow_outside, "graders", "grade")
    file.open_suites(store)
    own, graders = file.grading, file.build_graders()
    with warnings_as_notes(store):
        table = sc.grade(
            store,
            graders=graders,
            round=round,
            gold=gold or (file.folder / own.gold if own.gold else None),
            min_gold_agreement=own.min_gold_agreement,
            budget_usd=_first_set(budget_usd, own.budget_usd, file.budget_usd),
            seed=_first_set(own.seed, file.seed),
            concurrency=own.concurrency or file.concurrency,
            progress=not quiet,
        )
    names = [grader.name for grader in graders]
    is_shown = table["stage"].eq("grade") & table["name"].isin(names) & table["round"].eq(round)
    _print_state(table[is_shown], store)


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
    file, store = _study_and_store(study, allow_outside, "comparators", "compare")
    file.open_suites(store)
    own, graders = file.grading, file.build_comparators()
    with warnings_as_notes(store):
        table = sc.compare(
            store,
            graders=graders,
            condition=condition,
            reference=reference,
            budget_usd=_first_set(budget_usd, own.budget_usd, file.budget_usd),
            seed=_first_set(own.seed, file.seed),
            concurrency=own.concurrency or file.concurrency,
            progress=not quiet,
        )
    names = [grader.name for grader in graders]
    two = {f"{condition} against {reference}", f"{reference} against {condition}"}
    is_shown = table["stage"].eq("compare") & table["name"].isin(names)
    _print_state(table[is_shown & table["condition"].isin(two)], store)


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

    if store.is_file():
        store = sc.live.read_study(store, outside=allow_outside).store_path
    study = recorded_study(store, "status")
    _print_state(status_of(study), study, exits=False)
    say(f"at work: {active_writer(study.path) or 'nobody'}")


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
    shares = (100 * table["share"]).round().astype(int).astype(str) + " %"
    ids = [
        ", ".join(case_id.removeprefix(f"{skill}/") for case_id in text.split(", "))
        for skill, text in zip(table["skill"], table.pop("case_ids"), strict=True)
    ]
    width = max(map(len, ["cases", *ids]))
    table = table.assign(share=shares).fillna("none")
    table["cases".ljust(width)] = [text.ljust(width) for text in ids]
    lines = table.to_string(index=False).splitlines()
    say("\n".join(map(str.rstrip, lines)), lines=True)


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
        probed = probe(store, graders=file.build_graders() if ask else ())
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


def _study_and_store(
    study: Path, outside: bool, key: str, what: str
) -> tuple[StudyFile, sc.RunStore]:
    """Read a study file and open its store; raise if the file has no entries under `key`."""
    file = sc.live.read_study(study, outside=outside)
    if not getattr(file, key):
        raise StudyError(f"{study}: '{key}' is missing; there is nobody to {what}.")
    return file, file.open_store()


def _first_set(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


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


def _print_state(table: pd.DataFrame, store: sc.RunStore, *, exits: bool = True) -> None:
    """Print the state of a study and reasons for failures; exit with 1 if work is left to do."""
    from skillcomp.live.status import errors

    filled = table.drop(columns=["models", "note"]).dropna(axis="columns", how="all")
    if len(table):
        cells = filled.astype(object).where(filled.notna(), "-")
        say(cells.to_string(index=False, float_format="{:.4f}".format), lines=True)
    else:
        say("nothing has been asked yet")
    noted = table.dropna(subset="note")
    # An agent has one row per condition, all with the same note, so print the note once.
    noted = noted[noted["stage"].eq("grade") | ~noted.duplicated(["stage", "name", "note"])]
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
