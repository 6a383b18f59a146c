"""Replay of recorded answers and verdicts: a study without a key and without a network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Unpack

from skillcomp.errors import AgentError, GraderError, SkillcompError, require_known
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import Asked, BaseAgent, Cell, Reply, settings_json
from skillcomp.live.graders.comprehension import gives_condition_away
from skillcomp.live.graders.grader import BaseGrader, Grading, Place, on_check
from skillcomp.live.plan import own_attempts
from skillcomp.records import Attempt, Case, Skill, Verdict

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
        rows = list(own_attempts(as_store(store)))
        recorded = (str(row["agent"]) for row in rows)
        chosen = one_of_recorded(f"ReplayAgent: {store!r}", "answers", "agent", agent, recorded)
        rows = [row for row in rows if str(row["agent"]) == chosen]
        self._rows: dict[Cell, JsonObject] = {}
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
    if not recorded:
        raise error(f"{place} holds no {what}.")
    if name is not None:
        require_known(f"{place} holds no {what} of", name, recorded, error, label="there")
    elif len(recorded) > 1:
        raise error(f"{place} holds {what} of {', '.join(recorded)}; name one by {key}=.")
    return name or recorded[0]


# these columns together identify an answer of an agent
_PLACE = ("case_id", "condition", "repeat", "perturbation")


class ReplayGrader(BaseGrader):
    """A grader that returns the recorded verdicts if it gets a recorded answer again.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    grader : str, optional
        Name of the recorded grader; required if the store holds verdicts of several graders.
    round : int, default 1
        Recorded round from which the verdicts are taken.
    name : str, optional
        Label of this grader in the frames. Default: the recorded name.

    Raises
    ------
    GraderError
        If the store holds no verdicts of this grader and round, or has verdicts of several
        versions.

    Notes
    -----
    An answer has recorded verdicts if the recorded study has exactly the same text for the same
    case, condition, repeat and perturbation. For any other text, the verdicts have the status
    ``error``. If several recorded agents gave this text, one of these answers is chosen: that of
    the agent with the same name as the attempt's agent or, without such an agent, the last answer.
    Cost, item, batch and order are the recorded values.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        grader: str | None = None,
        round: int = 1,
        name: str | None = None,
    ) -> None:
        verdicts = as_store(store).rows("verdicts")
        rows = [row for row in verdicts if row["round"] == round]
        place, what = f"ReplayGrader: {store!r}", f"verdicts of round {round}"
        recorded = (str(row["grader"]) for row in rows)
        chosen = one_of_recorded(place, what, "grader", grader, recorded, GraderError)
        rows = [row for row in rows if row["grader"] == chosen]
        versions = {row["grader_version"] for row in rows}
        if len(versions) > 1:
            raise GraderError(
                f"ReplayGrader: '{chosen}' stands for {len(versions)} versions in {store!r}; "
                "verdicts of two versions are two graders."
            )
        first = rows[0]
        self.name, self.kind = name or chosen, str(first["grader_kind"] or "replay")
        self.model, self.family = first["grader_model"], first["grader_family"]
        self.version = first["grader_version"]
        self.settings = settings_json(replay=chosen, round=round)
        self._verdicts: defaultdict[str, dict[str, JsonObject]] = defaultdict(dict)
        for row in rows:
            self._verdicts[row["attempt_id"]][row["check_id"]] = row
        self._recorded: defaultdict[tuple[Any, ...], list[JsonObject]] = defaultdict(list)
        for row in store.rows("attempts", "attempt_id", "answer", "agent", *_PLACE):
            if row["attempt_id"] in self._verdicts and row["answer"] is not None:
                self._recorded[tuple(map(row.get, _PLACE))].append(row)

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the recorded verdicts on an answer; see `ComprehensionGrader.grade`.

        The verdict on a check without a record has status ``error`` and the reason in ``raw``.
        """
        recorded = self._recorded.get(tuple(getattr(attempt, name) for name in _PLACE), [])
        same = [row for row in recorded if row["answer"] == attempt.answer]
        # the sort is stable, so the last answer of the same agent comes last
        same.sort(key=lambda row: row["agent"] == attempt.agent)
        rows = self._verdicts[same[-1]["attempt_id"]] if same else {}
        is_other = recorded and not same
        reason = "not recorded: the answer is another one" if is_other else "not recorded"
        about = self.about(attempt, place)
        identity = {name: about[name] for name in ("attempt_id", "grader")}
        identity["round"] = place.get("round", 1)
        verdicts = (
            Verdict(**{**rows[check.check_id], **identity})
            if check.check_id in rows
            else on_check(check, position, about, status="error", raw=reason)
            for position, check in enumerate(case.checks)
        )
        return Grading(tuple(verdicts), gives_away=gives_condition_away(attempt.answer or ""))
