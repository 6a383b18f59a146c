"""Replay of recorded answers and verdicts: a study without a key and without a network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Unpack

from skillcomp.errors import AgentError, GraderError, SkillcompError, StudyError, require_known
from skillcomp.io.files import JsonObject, digest
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import Asked, BaseAgent, Cell, Reply, settings_json
from skillcomp.live.graders.comprehension import gives_condition_away
from skillcomp.live.graders.grader import BaseGrader, Grading, Place, on_check
from skillcomp.live.plan import Plan, cases_by_id, input_files, own_attempts, require_unedited
from skillcomp.records import Attempt, Case, Skill, Verdict

_FIELDS = tuple(field for field in Reply.model_fields if field not in ("model", "settings"))


class ReplayAgent(BaseAgent):
    """An agent that returns the answer recorded in a store for a case, condition and repeat.

    Tokens, cost and seconds are the recorded ones. Replaying spends nothing. An answer is replayed
    only for the question that it answers: the suites and skills of the store must have the same
    prompt, the same loaded skill and the same input files.

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
        self._store = as_store(store)
        place = f"ReplayAgent: {store!r}"
        rows = rows_of_one(place, "answers", "agent", agent, own_attempts(store), AgentError)
        self._rows: dict[Cell, JsonObject] = {}
        for row in rows:
            # if a cell has several attempts, prefer one with the status ok
            key = Cell(row["case_id"], row["condition"], row["repeat"])
            if key not in self._rows or row["status"] == "ok":
                self._rows[key] = row
        self._cases = cases_by_id(store.suites.values())
        chosen = str(rows[0]["agent"])
        self.name = name or chosen
        self.model, self.family = rows[0]["agent_model"], rows[0]["agent_family"]
        self.settings = settings_json(replay=chosen)

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the reply that is recorded for the case, condition and repeat in `cell`."""
        cell = about.get("cell")
        if cell is None:
            raise AgentError("ReplayAgent: a recording is asked by cell=, not by prompt alone.")
        row = self._rows.get(Cell(*cell[:3]))
        case = self._cases.get(cell.case_id)
        if row is None or (case and case.prompt != prompt):
            where = f"{cell.case_id}, condition '{cell.condition}', repeat {cell.repeat}"
            error = f"not recorded: {where}{'' if row is None else ': another prompt'}"
            return Reply(status="error", error=error, settings=self.settings)
        fields = {name: row[name] for name in _FIELDS if row.get(name) is not None}
        return Reply(**fields, model=row["agent_model"], settings=row["settings"] or self.settings)

    def require_recorded(self, store: RunStore, plan: Plan) -> None:
        """Raise if a case or a loaded text of a plan is not the recorded one.

        Checks may differ, because they are no part of the question. `store` is the store of the
        plan.
        """
        require_unedited(self._store, self._store.suites.values())
        lines = []
        for name, case in plan.cases.items():
            before = self._cases.get(name)
            if before is None:
                lines.append(f"{name}: no suite of {self._store.path} has this case")
            elif before.prompt != case.prompt:
                lines.append(f"{name}: another prompt")
            elif _hashes(input_files(self._store, before)) != _hashes(input_files(store, case)):
                lines.append(f"{name}: other input files")
        place_of = itemgetter("skill", "condition")
        # some recordings do not name the skill that was loaded under the condition skill
        names = {
            place_of(row): row["loaded_skill"] or {"skill": row["skill"]}.get(row["condition"])
            for row in self._rows.values()
        }
        hashes = {place_of(row): row["sha256"] for row in self._store.records("arms")}
        own, new = self._store.manifest["skills"], store.manifest["skills"]
        for at, text in plan.texts.items():
            loaded, sha256 = text.loaded_skill, text.sha256
            recorded = names.get(at, ""), own.get(loaded), hashes.get(at, sha256)
            if recorded != (loaded, new.get(loaded), sha256):
                lines.append(f"{at[0]}, condition '{at[1]}': another text, or no answers")
        if lines:
            listed = "".join(f"\n- {line}" for line in lines)
            raise StudyError(
                f"agent '{self.name}' only has recorded answers, so nothing was asked. Put the "
                "recorded text back, or ask a model (agents: [{kind: anthropic, model: ...}]). No "
                f"answers are recorded to:{listed}"
            )


def _hashes(files: Iterable[tuple[str, Path]]) -> dict[str, str]:
    return {name: digest(file.read_bytes()) for name, file in files}


def rows_of_one(
    place: str,
    what: str,
    key: str,
    name: str | None,
    rows: Iterable[JsonObject],
    error: type[SkillcompError],
) -> list[JsonObject]:
    """Return the rows of the recorded agent or grader to replay: of `name`, or of the only one."""
    by_name: defaultdict[str, list[JsonObject]] = defaultdict(list)
    for row in rows:
        by_name[str(row[key])].append(row)
    recorded = sorted(by_name)
    if not recorded:
        raise error(f"{place} holds no {what}.")
    if name is not None:
        require_known(f"{place} holds no {what} of", name, recorded, error, label="there")
    elif len(recorded) > 1:
        raise error(f"{place} holds {what} of {', '.join(recorded)}; name one by {key}=.")
    return by_name[name or recorded[0]]


# what graders see of a case apart from its checks
_SHOWN = attrgetter("prompt", "comprehension_dimension", "concept_field", "expected_reasoning")
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
    case, condition, repeat and perturbation. A verdict is replayed if the suites of the recorded
    study have the same check, prompt, concept field and expected reasoning. Any other verdict has
    the status ``error``. If several recorded agents gave this text, one of these answers is chosen:
    that of the agent with the same name as the attempt's agent or, without such an agent, the last
    answer. Cost, item, batch and order are the recorded values.
    """

    remedy = "a grader with a model can grade the recorded answers"

    def __init__(
        self,
        store: RunStore,
        *,
        grader: str | None = None,
        round: int = 1,
        name: str | None = None,
    ) -> None:
        in_round = (row for row in as_store(store).rows("verdicts") if row["round"] == round)
        place, what = f"ReplayGrader: {store!r}", f"verdicts of round {round}"
        rows = rows_of_one(place, what, "grader", grader, in_round, GraderError)
        first, chosen = rows[0], str(rows[0]["grader"])
        versions = {row["grader_version"] for row in rows}
        if len(versions) > 1:
            raise GraderError(
                f"ReplayGrader: '{chosen}' stands for {len(versions)} versions in {store!r}; "
                "verdicts of two versions are two graders."
            )
        self.name, self.kind = name or chosen, str(first["grader_kind"] or "replay")
        self.model, self.family = first["grader_model"], first["grader_family"]
        self.version = first["grader_version"]
        self.settings = settings_json(replay=chosen, round=round)
        self._cases = cases_by_id(store.suites.values())
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
        before = self._cases.get(case.case_id)
        checks = before.checks if before and _SHOWN(case) == _SHOWN(before) else ()
        about = self.about(attempt, place)
        identity = {name: about[name] for name in ("attempt_id", "grader")}
        identity["round"] = place.get("round", 1)
        verdicts = []
        for position, check in enumerate(case.checks):
            if check in checks and check.check_id in rows:
                verdicts.append(Verdict(**{**rows[check.check_id], **identity}))
                continue
            raw = f"not recorded: {case.case_id}, check '{check.check_id}'"
            if recorded and not same:
                raw += ": the answer is another one"
            elif check not in checks:
                raw += ": the check or its case has changed"
            verdicts.append(on_check(check, position, about, status="error", raw=raw))
        return Grading(tuple(verdicts), gives_away=gives_condition_away(attempt.answer or ""))
