"""The nouns of skillcomp as frozen records: what is written to and read from files."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "BLOOM",
    "CONCEPT_FIELDS",
    "CONDITIONS",
    "DIMENSIONS",
    "JUDGES",
    "RUBRIC",
    "SCHEMA_WEIGHTS",
    "Attempt",
    "AttemptStatus",
    "Case",
    "Check",
    "CheckKind",
    "Goal",
    "GoldLabel",
    "PairwiseJudgement",
    "Passage",
    "PromptKind",
    "Record",
    "Section",
    "Skill",
    "Suite",
    "TaskJudge",
    "Verdict",
    "VerdictStatus",
]

CONDITIONS = ("baseline", "skill", "placebo", "previous")
DIMENSIONS = tuple(f"C{i}" for i in range(1, 10))
CONCEPT_FIELDS = (
    "definition",
    "mental_model",
    "purpose",
    "boundary",
    "taxonomy",
    "analogy",
    "misconception",
)
# Weights of the concept fields in the source schema (report 2.4); C7-C9 carry none there.
SCHEMA_WEIGHTS = {"C1": 1.0, "C2": 1.5, "C3": 1.0, "C4": 1.5, "C5": 1.0, "C6": 0.5}
# Bloom levels of the rubric dimensions (report 5.1).
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

# Name and pass criteria of each dimension, in short, after sections 5.2 to 5.10 of the "Skill
# Comprehension Evaluation" research report of 2026-05-16, from which the rubric comes.
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

# The judges of task suites, by the words of their format.
JUDGES = ("contains", "pytest", "llm-rubric")

CheckKind = Literal["positive", "negative"]
Goal = Literal["outcome", "process", "style", "efficiency"]
PromptKind = Literal["explicit", "implicit", "negative"]
AttemptStatus = Literal["ok", "error", "refused", "truncated", "paused", "timeout"]
VerdictStatus = Literal["ok", "malformed", "error", "refused"]


class Record(BaseModel):
    """Base of all records: frozen; unknown keys are refused, so that a typo is not lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Section(Record):
    """One headed part of a SKILL.md body.

    Attributes
    ----------
    title, level, anchor : str, int, str
        The heading's text, its depth (1 to 6) and its anchor as used in ``truth_sources``.
    text : str
        What stands under the heading, up to the next heading of any depth.
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
        The folder's name; the key of ``store.skills``.
    name, description : str
        From the front matter; empty when missing.
    concept : dict of str to str
        The concept fields that are present, by name (``definition`` ... ``misconception``).
    metadata : dict
        The rest of the front matter.
    body : str
        The file without its front matter.
    text : str
        The whole file as an agent loads it.
    sections : tuple of Section
        Headed parts of the body in order.
    sha256 : str
        Hash of the file's bytes.
    path : str
        Where it was read from, relative where possible.
    problems : tuple of str
        Deviations found while reading, one sentence each.
    """

    slug: str
    name: str = ""
    description: str = ""
    concept: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
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
        The kind of judge; what it needs stands in the fields below, the others are empty.
    expected : tuple of str
        Texts that must all occur.
    test_file : str or None
        A test file, relative to the suite's folder, always below ``fixtures/``.
    rubric : str or None
        What a model scores by, from 0 to 1.
    pass_threshold : float or None
        The score from which an answer passes.
    """

    type: Literal["contains", "pytest", "llm-rubric"]
    expected: tuple[str, ...] = ()
    test_file: str | None = None
    rubric: str | None = None
    pass_threshold: float | None = None


class Check(Record):
    """One binary thing to verify about an answer (in a comprehension suite: a behaviour).

    ``judge`` says how a task is judged; None where a grader reads the description.
    """

    check_id: str
    check_kind: CheckKind = "positive"
    goal: Goal = "outcome"
    description: str = ""
    judge: TaskJudge | None = None


class Case(Record):
    """One prompt with its checks.

    ``case_id`` is ``suite/id``. Vocabulary fields are plain strings, since public files use words
    that the report does not list; deviations stand in ``Suite.problems``. ``should_trigger`` says
    whether the skill should answer to the prompt, ``prompt_kind`` whether it is named there
    (explicit), meant (implicit), or not meant (negative); both None where no one asks.
    ``right_skills`` names every skill on offer that should, where that is known of all of them.
    """

    case_id: str
    prompt: str
    checks: tuple[Check, ...] = ()
    dimension: str | None = None
    comprehension_dimension: str | None = None
    concept_field: str | None = None
    transfer: str | None = None
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
    extra: dict[str, Any] = Field(default_factory=dict)


class Suite(Record):
    """The cases of one skill.

    Attributes
    ----------
    slug : str
        The file's stem; the first half of every ``case_id``.
    skill : str
        Slug of the skill whose cases these are (``skill_name`` in the file; ``skill_id`` of tasks).
    kind : {"comprehension", "tasks"}
        The format that it was read from: comprehension JSON, or a task_suite.yaml.
    cases : tuple of Case
        In file order.
    sha256 : str
        Hash of the file's bytes.
    problems : tuple of str
        Deviations found while reading: place, what was found, what is allowed.
    """

    slug: str
    skill: str
    kind: Literal["comprehension", "tasks"] = "comprehension"
    cases: tuple[Case, ...] = ()
    subject: str | None = None
    adjacent_concepts: tuple[str, ...] = ()
    grounding_note: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    sha256: str = ""
    path: str = ""
    problems: tuple[str, ...] = ()


class Attempt(Record):
    """One answer by one agent to one case under one condition.

    ``status`` says whether there is an answer to grade: a refusal, a cut-off or an infrastructure
    error is recorded as such and is never a failed answer. ``offered`` names the skills that the
    agent could invoke and ``invoked`` those that it did; None where that cannot be told.
    """

    attempt_id: str
    skill: str
    case_id: str
    condition: str
    repeat: int = 1
    sitting: str | None = None
    loaded_skill: str | None = None
    source_attempt_id: str | None = None
    perturbation: str | None = None
    agent: str | None = None
    agent_model: str | None = None
    agent_family: str | None = None
    status: AttemptStatus = "ok"
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
    """What one grader says of one check of one attempt; ``passed`` is None unless ``ok``.

    ``dimension_passed`` is what the same reply said of all its checks together (the report's
    ``dimension_verdict``), the same in each of its verdicts; None where it was not asked for.
    ``overlap`` is what the grader was told of copying, as JSON: ``rule``, ``n`` and the ``shared``
    n-grams; None of graders that are told nothing, and in verdicts made before the rule was
    recorded (skill body and concept field of the case, prompt included).
    """

    attempt_id: str
    check_id: str
    grader: str
    check_kind: CheckKind | None = None
    goal: Goal | None = None
    grader_kind: str | None = None
    grader_model: str | None = None
    grader_family: str | None = None
    grader_version: str | None = None
    round: int = 1
    batch: str | None = None
    item: str | None = None
    order: int | None = None
    status: VerdictStatus = "ok"
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
    """A reference label for one check of one attempt."""

    attempt_id: str
    check_id: str
    labeller: str
    passed: bool | None = None
    borderline: bool | None = None
    inclusion_probability: float | None = None
    note: str | None = None


class PairwiseJudgement(Record):
    """Which of two answers a grader preferred, in one order of showing them.

    ``winner`` and ``winner_position`` are None for a tie. A comparison that failed has no line.
    """

    skill: str
    case_id: str
    grader: str
    order: int
    first: str
    second: str
    winner: str | None = None
    winner_position: int | None = None
    grader_model: str | None = None
    grader_family: str | None = None
    grader_version: str | None = None
    rationale: str | None = None


class Passage(Record):
    """A text labelled by construction with its degree of copying from a skill."""

    passage_id: str
    skill: str
    document: str
    level: str
    text: str
    topic: str | None = None
    question: str | None = None


def __dir__() -> list[str]:
    return __all__
