"""What agents did, read from their traces: every event, and the commands among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import pandas as pd

from skillcomp.frames.contract import check, empty
from skillcomp.frames.readers import _ATTEMPT_KEYS, _TYPES, _wanted
from skillcomp.io.store import RunStore
from skillcomp.io.traces import read_trace


def events(
    store: RunStore,
    *,
    perturbation: str | Sequence[str] | Literal["all"] | None = None,
) -> pd.DataFrame:
    """Return what each agent did and said, one row per event of a trace.

    Parameters
    ----------
    store : RunStore
        The recorded study; the traces of its attempts are read, those of attempts that brought no
        answer too.
    perturbation : str or sequence of str, optional
        As in :func:`skillcomp.frames.attempts`.

    Returns
    -------
    pandas.DataFrame
        One row per event: the keys of the attempt, ordinal (from 1), turn, kind (session, turn,
        result, message, reasoning, command, skill, tool, file_change, web_search, todo, subagent,
        retry, error, other), tool (its name; of kind other, the type of the event), text (what was
        said or named; of a command, the command), status (completed, failed, declined,
        in_progress), exit_code (of a command; NA where the program does not tell), read_only (NA
        where it cannot be told), in_subagent, input_tokens, cached_tokens and output_tokens. Tokens
        stand with one event of each report, NA with all others, so that they may be summed. An
        attempt without a trace has no row.

    Notes
    -----
    Read are ``claude -p --output-format stream-json`` and ``codex exec --json``. What begins and
    ends in several lines (an item of codex, a tool of claude and its result) is one event where it
    began, with its last status. A command is read-only when every program of it is known to write
    nothing.
    """
    columns = ["attempt_id", *_ATTEMPT_KEYS, "trace"]
    table = store.table("attempts").select(columns).to_pandas(types_mapper=_TYPES.get)
    table = table[_wanted(table["perturbation"], perturbation) & table["trace"].notna()]
    rows = [
        {**one, "ordinal": ordinal, **asdict(step)}
        for one in table.to_dict("records")
        for ordinal, step in enumerate(read_trace(one.pop("trace")).steps, start=1)
    ]
    return check(pd.DataFrame(rows), "events") if rows else empty("events")


def commands(
    store: RunStore,
    *,
    perturbation: str | Sequence[str] | Literal["all"] | None = None,
) -> pd.DataFrame:
    """Return the shell commands that each agent ran, one row per command.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        As in :func:`skillcomp.frames.attempts`.

    Returns
    -------
    pandas.DataFrame
        The rows of :func:`events` whose kind is command, those that were declined not among them,
        with their ordinal there and the command in ``text``.
    """
    frame = events(store, perturbation=perturbation)
    ran = frame["kind"].eq("command") & frame["status"].ne("declined").fillna(True)
    return frame[ran].reset_index(drop=True)
