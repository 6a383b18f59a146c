"""Severity and reason of every lint rule, and the class and frame of findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

COLUMNS = ["place", "rule", "severity", "message", "reason", "case_id", "file"]
RuleMessages = Iterator[tuple[str, str]]  # (rule, message) of each finding


class Finding(NamedTuple):
    """One problem of a skill, a suite or a study.

    Attributes
    ----------
    rule : str
        Key of `RULES`.
    message : str
        What was found and what is allowed.
    place : str
        The case_id, or the suite or skill that the finding is about; empty for a whole file.
    case_id : str or None
        Id of the case; None for a finding about the whole suite or skill.
    file : str or None
        The file that was read.
    severity : {"error", "warning"} or None
        None for the severity of the rule.
    """

    rule: str
    message: str
    place: str = ""
    case_id: str | None = None
    file: str | None = None
    severity: str | None = None

    def in_file(self, file: Path) -> Finding:
        """Return the finding with the file that it is about, which `place` then names first."""
        return self._replace(file=str(file), place=f"{file}: {self.place}".removesuffix(": "))


_GROUNDS = "a grader must be able to look up what a case rests on"
_TRANSFER = "near and far transfer are compared dimension by dimension (report 8.2)"

_NO_NEGATIVE = "without a negative behaviour an answer that says everything passes"
_CONCEPT = "C1 to C7 are each graded against one concept field"
_SECTIONS = "C8 is graded against Verification and C9 against Do NOT Use When (report 5.9, 5.10)"

# The reason for each rule. An error makes a study useless; a warning needs the judgement of a
# person.
_ERRORS = {
    # rules about a suite
    "reading": "other tools may read what deviates from the report's format differently",
    "not_mapped": "the outcome rests on fewer checks than the file has",
    "store": "every analysis refuses it, or would count it wrongly",
    "negative_none": f"{_NO_NEGATIVE} everything",
    "anti_quote_none": (
        "a grader that sees the concept field rewards quoting it unless a behaviour forbids it "
        "(report 8.4)"
    ),
    # rules about a case
    "dimension_single": (
        "a case that grades several dimensions, or none, cannot say which one failed (report 8.8)"
    ),
    "transfer_unknown": "a case that is neither near nor far is left out of both",
    "behaviours_missing": "without expected_behaviors a grader has nothing to decide (report 9.5)",
    "behaviour_id": "verdicts are joined to behaviours by their id",
    "truth_source": _GROUNDS,
    "truth_outside": "a suite from elsewhere must not reach into other files",
    "contrast_missing": "a contrast case is compared with the other case of its pair",
    "contrast_same": "a contrast pair without a difference shows nothing",
    # rules about a skill
    "front_matter": "an agent decides by name and description whether to load a skill",
    "concept_missing": _CONCEPT,
    "concept_not_text": "a concept field is shown to the grader as text",
    "section_missing": _SECTIONS,
    # rules about skills and prompts for trigger tests (`check --evals`)
    "skill_none": "prompts for a skill that is not there test nothing",
    "slug_twice": "an agent that is offered two skills of one name loads either",
    "link_missing": "an agent that follows the link finds nothing",
    "link_outside": "a skill is installed with its own folder and nothing else",
}
_WARNINGS = {
    # rules about a suite
    "kept": "no analysis uses it",
    "other_word": "other published files use the word, the report does not",
    "fields_missing": "the report's format has it; no analysis uses it",
    "tasks_number": "a task suite holds five to ten tasks that cover the skill's core",
    "tasks_rubric": (
        "a judge that runs no model is free and says the same each time; a rubric is for what "
        "words and tests cannot tell"
    ),
    "answer_in_process": (
        "an answer that is executed in the process of its test can read the test and forge the "
        "result; execute it in a process of its own, as subprocess.run([sys.executable, path]) does"
    ),
    "cases_few": "fewer than seven cases say little about a skill (report 6.3)",
    "dimensions_missing": (
        "a dimension without a case is not measured, and the verdict on a skill needs all nine "
        "(report 5.11)"
    ),
    "c2_few": "C2 is the hardest and most informative dimension (report 5.3)",
    "c1_roles": "outsiders of different roles need different explanations (report 4.1.4, 5.2)",
    "far_missing": _TRANSFER,
    "primitive_none": (
        "an answer in empty general words passes where no behaviour asks for a primitive of the "
        "mental model (report 8.4)"
    ),
    "not_checked": "what was not checked is unknown, not free of faults",
    # rules about a case
    "transfer_missing": _TRANSFER,
    "far_overlap": (
        "a far prompt that shares a run of words with the skill can be answered by looking it up "
        "(report 7.4)"
    ),
    "negative_missing": _NO_NEGATIVE,
    "anti_quote_missing": (
        "a definition that copies the skill shows retrieval and not understanding (report 5.2)"
    ),
    "primitive_missing": (
        "this dimension is passed by reasoning with the primitives of the mental model (report "
        "5.3, 5.8, 8.4)"
    ),
    "leak": "a prompt that contains its answer tests repetition (report 4.2.4)",
    "truth_missing": _GROUNDS,
    "contrast_behaviours": "the difference of a contrast pair should change the right answer",
    "many_skills": (
        "a prompt for several skills cannot say which one helped; it belongs to a routing suite "
        "(report 8.8)"
    ),
    # rules about a skill
    "concept_none": _CONCEPT,
    "concept_in_body": (
        "a body with the shape of a concept is a candidate for a concept block (report B.5)"
    ),
    "concept_shared": (
        "concept blocks that share their wording are written for the rubric (report 8.5)"
    ),
    "section_missing_no_concept": _SECTIONS,
    "verification_short": "C8 asks for at least three items of the checklist",
    # rules about skills and prompts for trigger tests (`check --evals`)
    "evals_none": "only trigger prompts show whether a skill fires when it should",
    "kind_none": "explicit, implicit and negative prompts ask three different questions",
    "description_twice": "an agent chooses by the description",
    "prompt_twice": "a repeated prompt adds no evidence",
    "done_none": "without a definition of done a grader cannot tell when it is reached",
    "dry_run_none": "a skill that can answer with its steps can be tested at no risk",
    "not_when_none": "negative prompts need to be told from those that are meant",
    "unbounded": "a workflow without an end runs into every limit",
    "download": "a heavy download that a test cannot skip makes it slow and flaky",
}
RULES = {rule: ("error", reason) for rule, reason in _ERRORS.items()}
RULES |= {rule: ("warning", reason) for rule, reason in _WARNINGS.items()}


def findings_frame(findings: Iterable[Finding]) -> pd.DataFrame:
    """Return a frame with one row per finding, in order, with the severity and reason of its rule.

    A warning needs the judgement of a person, because the rule is a heuristic or because the
    comprehension report (the source of the rules) allows what the rule flags.
    """
    rows = []
    for finding in findings:
        severity, reason = RULES[finding.rule]
        row = finding._asdict() | {"severity": finding.severity or severity, "reason": reason}
        rows.append(row)
    # Arrow, the default storage of text in pandas, refuses file names that are not UTF-8
    text = pd.StringDtype("python", na_value=math.nan)
    return pd.DataFrame(rows, columns=COLUMNS, dtype=text)
