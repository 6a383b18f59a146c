"""Runs of the same cases one after another: what each was made with, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

import pandas as pd

from skillcomp.frames import readers
from skillcomp.io.store import RunStore

_DIGITS = 12  # of a sha256: enough to tell two texts apart


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
    for slug, skill in store.skills.items():
        found[f"text of {slug}"] = skill.sha256[:_DIGITS]
        found[f"description of {slug}"] = _hash([skill.description])
    for slug, suite in store.suites.items():
        found[f"prompts of {slug}"] = suite.sha256[:_DIGITS]
    attempts = store.table("attempts")
    for what, column in (("agent", "agent"), ("model", "agent_model")):
        names = sorted(filter(None, set(attempts.column(column).to_pylist())))
        found |= {what: ", ".join(names)} if names else {}
    settings = sorted(filter(None, set(attempts.column("settings").to_pylist())))
    found |= {"settings": _hash(settings)} if settings else {}
    offered = sorted(readers.invocations(store, perturbation="all")["offered"].unique())
    found |= {"skills on offer": ", ".join(offered)} if offered else {}
    verdicts = store.table("verdicts")
    pairs = set(
        zip(*(verdicts.column(n).to_pylist() for n in ("grader", "grader_version")), strict=True)
    )
    for grader in sorted({name for name, _ in pairs}):
        versions = sorted(version or "no version" for name, version in pairs if name == grader)
        found[f"grader {grader}"] = ", ".join(versions)
    return found


def _hash(texts: Iterable[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
