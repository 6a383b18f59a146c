"""Frozen records of skills, suites, attempts and verdicts, as stored in files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from skillcomp.removed_names import raise_missing_name

__all__ = [
    "RUBRIC",
    "Attempt",
    "Case",
    "Check",
    "GoldLabel",
    "PairwiseJudgement",
    "Passage",
    "Record",
    "Section",
    "Skill",
    "Suite",
    "Verdict",
]

CONDITIONS = ("baseline", "skill", "placebo", "previous")
# names of the dimensions in the rubric of the comprehension report
DIMENSIONS = tuple(f"C{i}" for i in range(1, 10))


def dimension_family(values: Iterable[object]) -> tuple[str, ...]:
    """Return the dimensions of a suite: C1 to C9, or the user's own names.

    The result is C1 to C9 if there is no name, or if any name is C or c with a number. A name such
    as C10 or c1 is then a typing error. Otherwise the result is the names given.

    Parameters
    ----------
    values : iterable
        Names of dimensions in cases; values that are not text are ignored.

    Returns
    -------
    tuple of str
        C1 to C9, or the user's names, sorted.
    """
    names = {value for value in values if isinstance(value, str)}
    rubric = not names or any(re.fullmatch(r"[Cc] ?\d+", name) for name in names)
    return DIMENSIONS if rubric else tuple(sorted(names))


CONCEPT_FIELDS = (
    "definition",
    "mental_model",
    "purpose",
    "boundary",
    "taxonomy",
    "analogy",
    "misconception",
)
# Weights of dimensions in the schema of the comprehension report (2.4), which gives C7 to C9 no
# weight.
SCHEMA_WEIGHTS = {"C1": 1.0, "C2": 1.5, "C3": 1.0, "C4": 1.5, "C5": 1.0, "C6": 0.5}
# Level of each rubric dimension in Bloom's taxonomy (comprehension report, 5.1).
BLOOM = {
    "C1": "understand",
    "C2": "apply/analyze",
    "C3": "understand/evaluate",
    "C4": "analyze",
    "C5": "analyze",
    "C6": "apply/evaluate",
    "C7": "evaluate",
    "C8": "apply",
    "C9": "evaluate",
}

# Kinds of knowledge that a case can ask for, from Bloom's revised taxonomy (report, 4.1.1).
KNOWLEDGE = ("factual", "conceptual", "procedural", "metacognitive")

# Name and pass criteria of each dimension, shortened from sections 5.2 to 5.10 of the comprehension
# report ("Skill Comprehension Evaluation", 2026-05-16).
RUBRIC: dict[str, tuple[str, str]] = {
    "C1": (
        "Definitional precision",
        "names the same primary category; says in other words what it does; copies no span of the "
        "skill; adds no claim of its own",
    ),
    "C2": (
        "Mental-model fidelity",
        "uses at least two of the skill's primitives; applies them to the new case; concludes as "
        "the model does; the case does not stand in the skill",
    ),
    "C3": (
        "Purpose articulation",
        "names the problem; names what was done before; explains how the subject is better; adds "
        "no purpose of its own",
    ),
    "C4": (
        "Boundary discrimination",
        "sees that the case lies outside; names the right neighbour; explains the difference; "
        "gives no half answer first",
    ),
    "C5": (
        "Taxonomy navigation",
        "places the new instance rightly; uses the skill's relations; contradicts no entry; says "
        "so where it fits nowhere",
    ),
    "C6": (
        "Analogy reuse with limit",
        "carries the analogy's structure over; names a case where it breaks and why; neither "
        "stretches nor shuns it",
    ),
    "C7": (
        "Misconception inoculation",
        "flags the misconception unasked; corrects it by the primitives; explains how it "
        "misleads; grants none of it",
    ),
    "C8": (
        "Verification application",
        "runs at least three checks of the skill's list; tells which pass and which fail; gives "
        "no verdict without them; points at features of the artefact",
    ),
    "C9": (
        "Negative-boundary refusal",
        "refuses in the skill's voice; names the owner; gives no partial answer first; does not "
        "refuse what is in scope",
    ),
}

# The kinds of judges of tasks, spelled as in the file of a task suite.
JUDGES = ("contains", "pytest", "llm-rubric")

CheckKind = Literal["positive", "negative"]
Goal = Literal["outcome", "process", "style", "efficiency"]
PromptKind = Literal["explicit", "implicit", "negative", "control"]
SuiteKind = Literal["comprehension", "tasks", "skill-creator", "trigger-set", "plugin-eval"]
LabellerKind = Literal["person", "model", "program"]
AttemptStatus = Literal["ok", "error", "refused", "truncated", "paused", "timeout"]
VerdictStatus = Literal["ok", "malformed", "error", "refused"]


class Record(BaseModel):
    """Base class of all records; they are frozen and refuse unknown (such as misspelled) keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Section(Record):
    """One heading of a SKILL.md body and the text below it.

    Attributes
    ----------
    title, level, anchor : str, int, str
        The heading's text, its depth (1 to 6) and its anchor as used in ``truth_sources``.
    text : str
        Text below the heading, up to the next heading of any depth.
    line : int
        Line of the heading in the file, counted from 1.
    """

    title: str
    level: int
    anchor: str
    text: str
    line: int


class Skill(Record):
    """One SKILL.md: its front matter, concept block, sections and the whole text as loaded.

    Attributes
    ----------
    slug : str
        Name of the skill's folder; also the key of the skill in ``store.skills``.
    name, description : str
        Fields of the front matter; empty if missing.
    concept : dict of str to str
        The concept fields that the file has (``definition`` to ``misconception``), with their text.
    metadata : dict
        The other fields of the front matter.
    body : str
        The file without its front matter.
    text : str
        The whole file as an agent loads it.
    sections : tuple of Section
        The sections of the body, in order.
    sha256 : str
        Hash of the file's bytes.
    path : str
        Path of the file, relative where possible.
    problems : tuple of str
        Deviations found while reading, one sentence each.
    """

    slug: str
    name: str = ""
    description: str = ""
    concept: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    body: str = ""
    text: str = ""
    sections: tuple[Section, ...] = ()
    sha256: str = ""
    path: str = ""
    problems: tuple[str, ...] = ()


class TaskJudge(Record):
    """How a task of a task suite is judged.

    Attributes
    ----------
    type : {"contains", "pytest", "llm-rubric"}
        The kind of judge. Each kind has its own fields below; those of the other kinds are empty.
    expected : tuple of str
        For ``contains``: texts that must all occur in the answer.
    test_file : str or None
        For ``pytest``: the test file, relative to the suite's folder and below ``fixtures/``.
    rubric : str or None
        For ``llm-rubric``: instructions for the model that scores an answer from 0 to 1.
    pass_threshold : float or None
        For ``llm-rubric``: the smallest score that passes.
    """

    type: Literal["contains", "pytest", "llm-rubric"]
    expected: tuple[str, ...] = ()
    test_file: str | None = None
    rubric: str | None = None
    pass_threshold: float | None = None


class Check(Record):
    """One yes/no requirement of an answer (in a comprehension suite: a behaviour).

    For a check of a task, ``judge`` states how it is judged. ``rule``
    is the rule by which ``claude plugin eval`` decided a check in an old store; no grader decides
    such a check again. Both are None if a grader judges by the description.
    """

    check_id: str
    check_kind: CheckKind = "positive"
    goal: Goal = "outcome"
    description: str = ""
    judge: TaskJudge | None = None
    rule: dict[str, Any] | None = None


class Case(Record):
    """One prompt with its checks.

    ``case_id`` is ``suite/id``. Fields with a vocabulary accept any string, because public files
    use words that the comprehension report does not list; ``Suite.problems`` lists such words.
    ``should_trigger`` is whether the skill should be invoked for the prompt. ``prompt_kind`` states
    whether the prompt names the skill (explicit), needs the skill without naming it (implicit),
    does not need the skill (negative), or tests the instrument (control); a control has no checks.
    ``should_trigger`` and ``prompt_kind`` are None if the suite does not test triggers.
    ``right_skills`` lists all skills on offer that should be invoked, if they are known.
    """

    case_id: str
    prompt: str
    checks: tuple[Check, ...] = ()
    dimension: str | None = None
    comprehension_dimension: str | None = None
    concept_field: str | None = None
    transfer: str | None = None
    knowledge: str | None = None
    substance: str | None = None
    calibration: str | None = None
    truth_mode: str | None = None
    skill_type: str | None = None
    criticality: str | None = None
    truth_sources: tuple[str, ...] = ()
    expected_reasoning: str | None = None
    contrast_of: str | None = None
    should_trigger: bool | None = None
    prompt_kind: PromptKind | None = None
    right_skills: tuple[str, ...] | None = None
    timeout_seconds: float | None = None
    extra: dict[str, Any] = {}

    @property
    def own_id(self) -> str:
        """Return the id of the case within its suite."""
        return self.case_id.partition("/")[2]


class Suite(Record):
    """The cases of one skill.

    Attributes
    ----------
    slug : str
        Name of the suite, by default as :func:`skillcomp.read_suite` describes; the first half of
        every ``case_id``.
    skill : str
        Slug of the skill under test (``skill_name`` in the file; ``skill_id`` for tasks).
    kind : {"comprehension", "tasks", "skill-creator", "trigger-set", "plugin-eval"}
        Format of the file: comprehension JSON (or prompts.csv), task_suite.yaml, skill-creator's
        evals.json or trigger set, or (in old stores) the cases of ``claude plugin eval``.
    cases : tuple of Case
        In file order.
    sha256 : str
        Hash of the file's bytes.
    problems : tuple of str
        Deviations found while reading. Each names the place, what was found and what is allowed.
    """

    slug: str
    skill: str
    kind: SuiteKind = "comprehension"
    cases: tuple[Case, ...] = ()
    subject: str | None = None
    adjacent_concepts: tuple[str, ...] = ()
    grounding_note: str | None = None
    extra: dict[str, Any] = {}
    sha256: str = ""
    path: str = ""
    problems: tuple[str, ...] = ()


class Attempt(Record):
    """One answer by one agent to one case under one condition.

    ``status`` is ``ok`` if there is an answer to grade. After ``error`` or ``paused`` the answer is
    missing and never counts as failed. ``timeout``, ``truncated`` and ``refused`` are results of
    the agent: without a verdict, the answer counts as failed. ``offered`` lists the skills that the
    agent could invoke, ``invoked`` those that it did invoke. Both are None if unknown.
    """

    attempt_id: str
    skill: str
    case_id: str
    condition: str
    repeat: int | None = 1
    sitting: str | None = None
    loaded_skill: str | None = None
    source_attempt_id: str | None = None
    perturbation: str | None = None
    agent: str | None = None
    agent_model: str | None = None
    agent_family: str | None = None
    status: AttemptStatus | None = "ok"
    stop_reason: str | None = None
    answer: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    triggered: bool | None = None
    offered: tuple[str, ...] | None = None
    invoked: tuple[str, ...] | None = None
    n_commands: int | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    error: str | None = None
    request_id: str | None = None
    settings: str | None = None
    trace: str | None = None


class Verdict(Record):
    """One grader's verdict on one check of one attempt.

    ``passed`` is None unless ``status`` is ``ok``. ``dimension_passed`` is the grader's verdict on
    all checks of the attempt together, which the comprehension report calls ``dimension_verdict``.
    It is the same in each verdict of a reply, and None if the grader was not asked for it.
    ``overlap`` is the result of a check for copying, which the grader saw in its prompt. It is JSON
    with ``rule``, ``n``, the n-grams that answer and skill have in common (``shared``) and, if it
    is not the default, the ``tokenizer``. It is None if the grader saw no such result, for example
    because the answer has fewer than n tokens. It is also None in old verdicts, from before the
    rule was recorded. The old rule counted n-grams of two texts: SKILL.md without its front matter,
    and the concept field that the case is about. It also counted n-grams that occur in the prompt.
    """

    attempt_id: str
    check_id: str
    grader: str
    check_kind: CheckKind | None = None
    goal: Goal | None = None
    check_weight: float | None = None
    grader_kind: str | None = None
    grader_model: str | None = None
    grader_family: str | None = None
    grader_version: str | None = None
    round: int = 1
    batch: str | None = None
    item: str | None = None
    order: int | None = None
    status: VerdictStatus | None = "ok"
    passed: bool | None = None
    score: float | None = None
    evidence_quote: str | None = None
    rationale: str | None = None
    borderline: bool | None = None
    dimension_passed: bool | None = None
    overlap: str | None = None
    cost_usd: float | None = None
    graded_at: datetime | None = None
    raw: str | None = None


class GoldLabel(Record):
    """A reference label for one check of one attempt.

    ``replaces`` is True if the label replaces earlier labels of the same labeller on the same
    check. Without it, two labels that contradict each other are an error. ``labeller_family`` is
    the family of the model, if a model gave the label.
    """

    attempt_id: str
    check_id: str
    labeller: str
    labeller_kind: LabellerKind | None = None
    labeller_family: str | None = None
    passed: bool | None = None
    score: float | None = None
    borderline: bool | None = None
    inclusion_probability: float | None = None
    note: str | None = None
    replaces: bool | None = None


class PairwiseJudgement(Record):
    """A grader's preference between two answers shown in one order.

    ``winner`` and ``winner_position`` are None for a tie. A failed comparison is not recorded.
    ``repeat`` tells repeated judgements apart. ``preference`` is a graded one: 1 if the answer
    shown first is clearly better, 0 if the other one is.
    """

    skill: str
    case_id: str
    grader: str
    order: int
    first: str
    second: str
    winner: str | None = None
    winner_position: int | None = None
    gold_winner: str | None = None
    repeat: int | None = None
    preference: float | None = None
    grader_model: str | None = None
    grader_family: str | None = None
    grader_version: str | None = None
    rationale: str | None = None


class Passage(Record):
    """A text for which it is known how far it copies from a skill."""

    passage_id: str
    skill: str
    document: str
    level: str
    text: str
    topic: str | None = None
    question: str | None = None
    made_up: bool | None = None


__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)
