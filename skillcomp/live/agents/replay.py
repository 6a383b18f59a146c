"""An agent that replays recorded answers, so that a study needs no key and no network."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Unpack

from skillcomp.errors import AgentError, SkillcompError, suggest
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import Asked, BaseAgent, Cell, Reply, settings_json

_FIELDS = tuple(field for field in Reply.model_fields if field not in ("model", "settings"))


class ReplayAgent(BaseAgent):
    """An agent that returns the answer recorded in a store for a case, condition and repeat.

    Tokens, cost and seconds are the recorded ones. Replaying spends nothing.

    Parameters
    ----------
    store : RunStore
        The recorded study. Perturbed copies of answers are not replayed.
    agent : str, optional
        Name of the recorded agent; may be omitted if the store has only one.
    name : str, optional
        Label of the agent in the frames; by default the recorded name.

    Raises
    ------
    AgentError
        If the store has no answers, no answers of `agent` or, without `agent`, several agents.
    """

    is_recording = True

    def __init__(
        self, store: RunStore, *, agent: str | None = None, name: str | None = None
    ) -> None:
        table = as_store(store).rows("attempts")
        rows = [r for r in table if r["perturbation"] is None and r["source_attempt_id"] is None]
        recorded = (str(row["agent"]) for row in rows)
        chosen = one_of_recorded(f"ReplayAgent: {store!r}", "answers", "agent", agent, recorded)
        rows = [row for row in rows if str(row["agent"]) == chosen]
        self._rows: dict[Hashable, dict[str, Any]] = {}
        for row in rows:
            # if a cell has several attempts, prefer one with the status ok
            key = Cell(row["case_id"], row["condition"], row["repeat"])
            if key not in self._rows or row["status"] == "ok":
                self._rows[key] = row
        self.name = name or chosen
        self.model = rows[0]["agent_model"]
        self.family = rows[0]["agent_family"]
        self.settings = settings_json(replay=chosen)

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the reply that is recorded for the case, condition and repeat in `cell`."""
        cell = about.get("cell")
        if cell is None:
            raise AgentError("ReplayAgent: a recording is asked by cell=, not by prompt alone.")
        row = self._rows.get(Cell(*cell[:3]))
        if row is None:
            where = f"{cell.case_id}, condition '{cell.condition}', repeat {cell.repeat}"
            return Reply(status="error", error=f"not recorded: {where}", settings=self.settings)
        fields = {name: row[name] for name in _FIELDS if row.get(name) is not None}
        return Reply(**fields, model=row["agent_model"], settings=row["settings"] or self.settings)


def one_of_recorded(
    place: str,
    what: str,
    key: str,
    name: str | None,
    names: Iterable[str],
    error: type[SkillcompError] = AgentError,
) -> str:
    """Return the recorded name to replay: `name` if it is given, otherwise the only one."""
    recorded = sorted(set(names))
    listed = ", ".join(recorded)
    if not recorded:
        raise error(f"{place} holds no {what}.")
    if name is None and len(recorded) > 1:
        raise error(f"{place} holds {what} of {listed}; name one by {key}=.")
    chosen = name or recorded[0]
    if chosen not in recorded:
        there_are = f"there are {listed}.{suggest(chosen, recorded)}"
        raise error(f"{place} holds no {what} of '{chosen}'; {there_are}")
    return chosen
