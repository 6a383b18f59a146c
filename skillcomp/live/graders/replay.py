"""Replay of recorded verdicts: grading without a key and without a network."""

from __future__ import annotations

from typing import Any, Unpack

from skillcomp.errors import GraderError
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import settings_json
from skillcomp.live.agents.replay import one_of_recorded
from skillcomp.live.graders.comprehension import gives_condition_away
from skillcomp.live.graders.grader import BaseGrader, Grading, Place, on_check
from skillcomp.records import Attempt, Case, Skill, Verdict

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
        self._verdicts: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            self._verdicts.setdefault(row["attempt_id"], {})[row["check_id"]] = row
        # the attempt_id by place, by place and answer, and by place, answer and agent
        self._recorded: dict[tuple[Any, ...], str] = {}
        for row in store.rows("attempts"):
            if row["attempt_id"] in self._verdicts and row["answer"] is not None:
                at = tuple(map(row.get, _PLACE))
                text = (*at, row["answer"])
                self._recorded |= dict.fromkeys(
                    (at, text, (*text, row["agent"])), row["attempt_id"]
                )

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the recorded verdicts on an answer; see `ComprehensionGrader.grade`.

        The verdict on a check without a record has status ``error`` and the reason in ``raw``.
        """
        at = tuple(getattr(attempt, name) for name in _PLACE)
        text = (*at, attempt.answer)
        attempt_id = self._recorded.get((*text, attempt.agent), self._recorded.get(text, ""))
        rows = self._verdicts.get(attempt_id, {})
        is_other = not attempt_id and at in self._recorded
        reason = "not recorded: the answer is another one" if is_other else "not recorded"
        about = self.about(attempt, place)
        identity: dict[str, Any] = {
            "attempt_id": attempt.attempt_id,
            "grader": self.name,
            "round": place.get("round", 1),
        }
        verdicts = (
            Verdict(**{**rows[check.check_id], **identity})
            if check.check_id in rows
            else on_check(check, position, about, status="error", raw=reason)
            for position, check in enumerate(case.checks)
        )
        return Grading(tuple(verdicts), gives_away=gives_condition_away(attempt.answer or ""))
