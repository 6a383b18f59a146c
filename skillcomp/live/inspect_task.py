"""Turn suites into tasks of Inspect, which asks the models; our graders decide the checks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from pydantic import ValidationError

from skillcomp.errors import StudyError, error_text, extra_imports, literal, require_known
from skillcomp.io.event_streams import STOPPED
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import redact
from skillcomp.io.skills import read_skill
from skillcomp.io.suites import read_suite
from skillcomp.io.task_suites import names_of_files, suite_files
from skillcomp.io.trigger_suites import CONTROLS, FILE, control_prompts, read_prompts
from skillcomp.live.agents.agent import (
    Asked,
    BaseAgent,
    Reply,
    family_of,
    first_fault,
    skill_block,
)
from skillcomp.live.graders.comprehension import ComprehensionGrader
from skillcomp.live.graders.grader import LiveGrader
from skillcomp.records import CONDITIONS, Attempt, Case, Skill, Suite, Verdict

with extra_imports("inspect", "inspect_task"):
    from inspect_ai import Task, task
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model
    from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver, use_tools
    from inspect_ai.tool import Skill as InspectSkill
    from inspect_ai.tool import skill as skill_tool

    from skillcomp.live.graders.traces import TraceGrader

Source = str | PathLike[str]
_WORDS = {True: "pass", False: "fail", None: "no verdict"}
# facts of a case that are copied to the log
_FACTS = {"transfer", "criticality", "contrast_of", "prompt_kind", "should_trigger"}


@task(name="suite")
def inspect_task(
    suite: Source | Suite,
    skill: Source | Skill,
    *,
    condition: str = "skill",
    text: Source | Skill | None = None,
    neighbours: Source | Skill | Sequence[Source | Skill] = (),
    grader: str | LiveGrader = "forced",
    trust: bool = False,
) -> Task:
    """Make a task of Inspect that asks the cases of a suite under one condition.

    Needs the optional dependencies ``skillcomp[inspect]``. The name of the task in Inspect is
    ``skillcomp/suite``; its ``-T`` options are the arguments of this function.
    :func:`skillcomp.read_results` reads the logs of two conditions as one study.

    Parameters
    ----------
    suite : path or Suite
        The file or folder of a suite, as in :func:`skillcomp.read_suite`.
    skill : path or Skill
        The SKILL.md under test, or its folder.
    condition : str, default "skill"
        What is loaded as the system message: nothing (``baseline``), the skill (``skill``), or
        `text` (``placebo`` and ``previous``).
    text : path or Skill, optional
        The text of a placebo, or the older SKILL.md.
    neighbours : path, Skill or sequence of them, optional
        For a suite of triggers: further skills that are offered under every condition.
    grader : str or BaseGrader, default "forced"
        A grader, or the style of a `ComprehensionGrader` that asks the model with the role
        ``grader``. Without a grader of your own, task suites get the judges of a `SuiteGrader`.
    trust : bool, default False
        Whether to run the tests of a task suite without a sandbox, as in `SuiteGrader`.

    Returns
    -------
    inspect_ai.Task
        One sample per case. Epochs are repeats. The score of a sample is 1 if every check passed,
        NaN if a check has no verdict or the model failed, and otherwise 0. The metadata of the
        score contain the verdicts.

    Raises
    ------
    StudyError
        If the condition is unknown; if `text` or `neighbours` is missing or not allowed here; if
        the suite belongs to another skill, has a case without checks or is only partly about
        triggers; or if Inspect cannot offer a skill.

    Notes
    -----
    The prompts, the text that loads the skill, and the prompts of graders are those of
    `skillcomp.run` and `skillcomp.grade`, so the outcomes can be compared. Checks that a program
    decides need no model. An answer that is cut off or refused is a result without verdicts. Files
    of a case are copied into the sandbox of Inspect, if there is one; files of a skill are not.

    In a suite of triggers every case says whether the skill should fire. No text is loaded: the
    tool ``skill`` of Inspect offers the skill of the condition and the `neighbours` by name and
    description, and a skill fires if the model calls the tool with its name. As in ``skillcomp
    trigger run``, two control prompts are added: one calls the skill by name, and no skill should
    fire at the other. Rules decide the checks; checks that need a trace have no verdict.
    """
    cases, own = _suite_of(suite), _skill_of(skill)
    _require_askable(cases, own)
    require_known("inspect_task: condition: found", condition, CONDITIONS, StudyError)
    if (text is None) != (condition in ("baseline", "skill")):
        needs = "loads another text; give text=, a SKILL.md" if text is None else "takes no text="
        raise StudyError(f"inspect_task: condition {literal(condition)} {needs}.")
    loaded = _skill_of(text) if text is not None else own if condition == "skill" else None
    files = {} if cases.kind == "tasks" else suite_files(cases, Path(cases.path))
    about: JsonObject = {"skill": own.slug, "condition": condition}
    about |= {"loaded_skill": loaded.slug} if loaded else {}
    judges = [check.judge for case in cases.cases for check in case.checks]
    by_model = any(judge is None or judge.type == "llm-rubric" for judge in judges)
    needs_grader = isinstance(grader, str) and by_model
    setup = load_skill(skill_block(loaded) if loaded else None, needs_grader)
    tools = []
    if _is_about_triggers(cases):
        if isinstance(neighbours, str | PathLike | Skill):
            neighbours = (neighbours,)
        others = map(_skill_of, neighbours)
        skills = {other.slug: other for other in others if other.slug != own.slug}
        if loaded is not None:
            # the older text has the slug of the skill under test
            skills[own.slug if condition == "previous" else loaded.slug] = loaded
        offered = {}
        for slug, one in skills.items():
            fields = {"name": slug, "description": one.description, "instructions": one.body}
            try:
                offered[slug] = InspectSkill.model_validate(fields)
            except ValidationError as error:
                why = first_fault(error)
                raise StudyError(f"skill '{slug}': Inspect cannot offer it: {why}.") from error
        about |= {"offered": list(offered)}
        tools = [skill_tool(list(offered.values()))] if offered else []
        setup = use_tools(tools)
    elif neighbours:
        raise StudyError(f"inspect_task: neighbours=: suite '{cases.slug}' is not about triggers.")
    return Task(
        name=f"{cases.slug}-{condition}",
        dataset=[_sample_of(case, about, files) for case in _asked_cases(cases, own)],
        setup=setup,
        scorer=checks(_argument(suite), _argument(skill), grader, trust),
        # the tool ``skill`` writes the files of a skill into a sandbox
        sandbox="local" if tools else None,
    )


@solver
def load_skill(text: str | None, needs_grader: bool) -> Solver:
    """Put the text of a skill before the question; raise if a needed grader is missing."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if needs_grader:  # do not pay for answers that cannot be graded
            get_model(role="grader", required=True)
        if text is not None:
            state.messages.insert(0, ChatMessageSystem(content=text))
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def checks(
    suite: str | Suite, skill: str | Skill, grader: str | LiveGrader = "forced", trust: bool = False
) -> Scorer:
    """Return a scorer for Inspect, in which a grader of skillcomp decides the checks of a case."""
    source, own = _suite_of(suite), _skill_of(skill)
    cases = {case.case_id: case for case in _asked_cases(source, own)}

    @cache
    def judge() -> LiveGrader:
        # make the grader on first use, because the model is known only during a task
        if not isinstance(grader, str):
            return grader
        if _is_about_triggers(source):
            return TraceGrader()
        if source.kind != "tasks":
            return ComprehensionGrader(RoleAgent(), style=grader)  # type: ignore[arg-type]
        from skillcomp.live.graders.task_graders import SuiteGrader

        return SuiteGrader(source.path, RoleAgent(), trust=trust)

    async def score(state: TaskState, target: Target) -> Score:
        attempt = _attempt_of(state)
        if attempt.status != "ok":
            return _score_of(attempt, ())
        grading = await judge().grade(attempt, cases[attempt.case_id], own)
        errors = [reply.error for reply in grading.replies[-1:] if reply.error]
        return _score_of(attempt, grading.verdicts, "; ".join((*grading.problems, *errors)))

    return score


class RoleAgent(BaseAgent):
    """The model that has the role ``grader`` in an evaluation by Inspect."""

    def __init__(self) -> None:
        self._model = get_model(role="grader")
        self.name = self.model = str(self._model)
        self.family = family_of(self.model)

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the reply of the model, with the status ``error`` if its service fails."""
        system = about.get("system")
        before = [] if system is None else [ChatMessageSystem(content=system)]
        try:
            output = await self._model.generate([*before, ChatMessageUser(content=prompt)])
        except Exception as error:  # the services of Inspect can raise any exception
            return Reply(status="error", error=redact(error_text(error)))
        usage = output.usage
        return Reply(
            answer=output.completion,
            status=STOPPED.get(output.stop_reason, "ok"),
            stop_reason=output.stop_reason,
            model=output.model or self.model,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
        )


def _suite_of(suite: Source | Suite) -> Suite:
    return suite if isinstance(suite, Suite) else read_suite(suite)


def _skill_of(skill: Source | Skill) -> Skill:
    return skill if isinstance(skill, Skill) else read_skill(skill)


def _argument(source: Any) -> Any:
    """Return an argument as the log records it, so that `inspect score` can read it again."""
    return source if isinstance(source, Suite | Skill) else str(source)


def _require_askable(suite: Suite, skill: Skill) -> None:
    if suite.skill not in (skill.slug, skill.name):
        raise StudyError(
            f"suite '{suite.slug}': its skill is '{suite.skill}', given is '{skill.slug}'."
        )
    if suite.cases and _is_about_triggers(suite):
        return
    wrong = [case for case in suite.cases if not case.checks or case.should_trigger is not None]
    if wrong or not suite.cases:
        why = "has no checks, so no answer can be graded"
        if wrong and wrong[0].checks:
            why = "says whether the skill should fire, and others do not; make two suites of them"
        what = f"case '{wrong[0].case_id}' {why}" if wrong else "there are no cases"
        raise StudyError(f"suite '{suite.slug}': {what}.")


def _is_about_triggers(suite: Suite) -> bool:
    return all(case.should_trigger is not None for case in suite.cases)


def _asked_cases(suite: Suite, skill: Skill) -> tuple[Case, ...]:
    """Return the cases of a suite; a suite about triggers also gets the control prompts."""
    if not _is_about_triggers(suite):
        return suite.cases
    prompts, slug = control_prompts(skill.slug), f"{CONTROLS}{skill.slug}"
    return (*suite.cases, *read_prompts(prompts, Path(FILE), slug, skill.slug).cases)


def _sample_of(case: Case, about: JsonObject, files: dict[str, Path]) -> Sample:
    facts = case.model_dump(include=_FACTS) | about
    facts["dimension"] = case.comprehension_dimension or case.dimension
    if case.right_skills is not None:
        facts["right_skills"] = ", ".join(case.right_skills) or "none"
    present = {name: value for name, value in facts.items() if value is not None}
    places = {name: str(files[name]) for name in names_of_files(case.extra) if name in files}
    metadata = {"skillcomp": present}
    return Sample(id=case.case_id, input=case.prompt, metadata=metadata, files=places or None)


def _attempt_of(state: TaskState) -> Attempt:
    about = state.metadata["skillcomp"]
    key = f"{state.sample_id}/{about['condition']}/{state.epoch}"
    fields = {name: about.get(name) for name in ("skill", "condition", "loaded_skill")}
    model, output = str(state.model), state.output
    stop_reason = output.stop_reason if output.choices else None
    return Attempt(
        attempt_id=key,
        case_id=str(state.sample_id),
        repeat=state.epoch,
        **fields,
        agent=model,
        agent_model=model,
        agent_family=family_of(model),
        # if there is no answer, a limit of Inspect may have ended the sample; the log names it
        status=STOPPED.get(stop_reason or "", "ok") if output.choices else "error",
        stop_reason=stop_reason,
        answer=output.completion,
        **_skill_use(state, about),
    )


def _skill_use(state: TaskState, about: JsonObject) -> JsonObject:
    """Return ``offered``, ``invoked`` and ``triggered`` of an attempt; {} if nothing is offered."""
    if not (offered := about.get("offered")):
        return {}
    calls = [c for m in state.messages for c in getattr(m, "tool_calls", None) or ()]
    words = [call.arguments.get("command") for call in calls if call.function == "skill"]
    invoked = tuple(slug for slug in offered if slug in words)
    triggered = about["skill"] in invoked if about["skill"] in offered else None
    return {"offered": tuple(offered), "invoked": invoked, "triggered": triggered}


def _score_of(attempt: Attempt, verdicts: Sequence[Verdict], problems: str = "") -> Score:
    passed = [verdict.passed for verdict in verdicts]
    unknown = None in passed or attempt.status == "error"
    value = float("nan") if unknown else float(bool(passed) and all(passed))
    lines = [f"{v.check_id}: {_WORDS[v.passed]}. {v.rationale or problems}" for v in verdicts]
    names = {"status", "stop_reason", "agent_family", "invoked", "triggered"}
    own = {"attempt": attempt.model_dump(include=names)}
    rows = [verdict.model_dump(mode="json", exclude_none=True) for verdict in verdicts]
    return Score(
        value=value,
        answer=attempt.answer,
        explanation="\n".join(lines) or f"the answer is {attempt.status}",
        metadata={"skillcomp": {**own, "verdicts": rows}},
    )
