"""Whole stores: what agents did, what each run was made with, and whether the tables agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.frames import from_store as readers
from skillcomp.frames.contracts import check, empty
from skillcomp.io.event_streams import read_trace
from skillcomp.io.store import RunStore, require_store

_DIGITS = 12  # of a sha256: enough to tell two texts apart


def events(store: RunStore, *, perturbation: str | Sequence[str] | None = None) -> pd.DataFrame:
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
    table = readers.attempt_rows(store, perturbation, "trace").dropna(subset=["trace"])
    rows = [
        {**one, "ordinal": ordinal, **asdict(step)}
        for one in table.to_dict("records")
        for ordinal, step in enumerate(read_trace(one.pop("trace")).steps, start=1)
    ]
    return check(pd.DataFrame(rows), "events") if rows else empty("events")


def commands(store: RunStore, *, perturbation: str | Sequence[str] | None = None) -> pd.DataFrame:
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


def runs(stores: Mapping[str, RunStore]) -> pd.DataFrame:
    """Return what each run was made with, and what is not as it was in the run before.

    Parameters
    ----------
    stores : mapping of str to RunStore
        The runs by name, the oldest first; such as the stores of trigger runs by run-id.

    Returns
    -------
    pandas.DataFrame
        One row per run and thing: run, what (``text of <skill>``, ``description of <skill>``,
        ``prompts of <suite>``, ``agent``, ``model``, ``settings``, ``skills on offer``,
        ``grader <name>``), value (a name, or the first digits of a sha256; NA where a run lacks the
        thing and its neighbour has it) and changed (False in the first run).

    See Also
    --------
    skillcomp.deltas.over_time : The scores of these runs, paired case by case.
    """
    if not isinstance(stores, Mapping):
        raise FrameError(
            f"runs: expected a mapping of names to stores, found {type(stores).__name__} "
            f"{literal(stores)}."
        )
    rows: list[dict[str, object]] = []
    before: dict[str, str] | None = None
    for name, store in stores.items():
        now = _made_with(store)
        for what in dict.fromkeys([*now, *(before or {})]):
            changed = before is not None and now.get(what) != before.get(what)
            rows.append({"run": name, "what": what, "value": now.get(what), "changed": changed})
        before = now
    columns = {"run": "str", "what": "str", "value": "str", "changed": "bool"}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def _made_with(store: RunStore) -> dict[str, str]:
    found = {}
    for slug, skill in require_store(store).skills.items():
        found[f"text of {slug}"] = skill.sha256[:_DIGITS]
        found[f"description of {slug}"] = _hash([skill.description])
    for slug, suite in store.suites.items():
        found[f"prompts of {slug}"] = suite.sha256[:_DIGITS]
    attempts = store.table("attempts")
    for what, column in (("agent", "agent"), ("model", "agent_model"), ("settings", "settings")):
        names = sorted(filter(None, set(attempts.column(column).to_pylist())))
        if names:
            found[what] = _hash(names) if what == "settings" else ", ".join(names)
    offered = sorted(readers.invocations(store, perturbation="all")["offered"].unique())
    found |= {"skills on offer": ", ".join(offered)} if offered else {}
    pairs = store.table("verdicts").group_by(["grader", "grader_version"]).aggregate([])
    versions: dict[str, set[str]] = {}
    for one in pairs.to_pylist():
        versions.setdefault(one["grader"], set()).add(one["grader_version"] or "no version")
    return found | {f"grader {one}": ", ".join(sorted(versions[one])) for one in sorted(versions)}


def _hash(texts: Iterable[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
