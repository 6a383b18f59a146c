"""What a lint finds, and the rules it knows: each with its severity and the reason behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from skillcomp.records import Record

__all__ = ["RULES", "Finding", "Severity", "finding"]

Severity = Literal["error", "warning"]


class Finding(Record):
    """One thing that a lint found.

    Attributes
    ----------
    place : str
        Where: a case_id, with the behaviour after it where there is one, or the suite or skill.
    case_id : str or None
        The case; None for what concerns the suite or skill as a whole.
    rule : str
        Which rule, a key of `RULES`.
    severity : {"error", "warning"}
        A warning is for a person to judge: the rule is a heuristic, or the report lets it pass.
    message : str
        What was found and what is allowed.
    reason : str
        Why it matters.
    """

    place: str
    rule: str
    severity: Severity
    message: str
    reason: str
    case_id: str | None = None

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.place}: {self.severity}: {self.message} [{self.rule}: {self.reason}]"


_GROUNDS = "a case may rest only on what a grader can look up in the sources it names"
_TRANSFER = "near and far transfer are compared dimension by dimension (report 8.2)"

RULES: Mapping[str, tuple[Severity, str]] = {
    # suite
    "reading": ("error", "what deviates from the report's shape is read differently elsewhere"),
    "other_word": ("warning", "other published files use the word, the report does not"),
    "cases_few": ("error", "fewer than seven cases say little about a skill (report 6.3)"),
    "dimensions_missing": (
        "error",
        "a dimension without a case is not measured, and the verdict on a skill needs all nine "
        "(report 5.11)",
    ),
    "far_missing": ("error", _TRANSFER),
    "far_missing_near_in_report": ("warning", f"{_TRANSFER}; the report's own example has none"),
    "negative_none": (
        "error",
        "without a negative behaviour an answer that says everything passes everything",
    ),
    "anti_quote_none": (
        "error",
        "a grader that sees the concept field rewards quoting it unless a behaviour forbids it "
        "(report 8.4)",
    ),
    "primitive_none": (
        "warning",
        "an answer in empty general words passes where no behaviour asks for a primitive of the "
        "mental model (report 8.4)",
    ),
    "not_checked": ("warning", "what was not looked at is not in order, it is unknown"),
    # case
    "dimension_single": (
        "error",
        "a case that grades several dimensions, or none, cannot say which one failed (report 8.8)",
    ),
    "transfer_missing": ("warning", _TRANSFER),
    "far_overlap": (
        "warning",
        "a far prompt that shares a run of words with the skill can be answered by looking it up "
        "(report 7.4)",
    ),
    "behaviours_missing": (
        "error",
        "without expected_behaviors a grader has nothing to decide (report 9.5)",
    ),
    "behaviour_id": ("error", "verdicts are joined to behaviours by their id"),
    "negative_missing": (
        "warning",
        "without a negative behaviour an answer that says everything passes",
    ),
    "anti_quote_missing": (
        "warning",
        "a definition that copies the skill shows retrieval and not understanding (report 5.2)",
    ),
    "primitive_missing": (
        "warning",
        "this dimension is passed by reasoning with the primitives of the mental model (report "
        "5.3, 5.8, 8.4)",
    ),
    "leak": ("warning", "a prompt that holds the answer asks for repetition"),
    "cites_section": (
        "warning",
        "a prompt that points into the skill asks for retrieval (report B.1)",
    ),
    "truth_missing": ("warning", _GROUNDS),
    "truth_source": ("error", _GROUNDS),
    "truth_outside": ("error", "a suite from elsewhere must not reach into other files"),
    "contrast_missing": ("error", "a contrast case is read beside its twin"),
    "contrast_same": ("error", "twins that do not differ show nothing about the detail between"),
    "contrast_behaviours": (
        "warning",
        "the detail between twins is meant to change the right answer",
    ),
    "contrast_apart": ("warning", "twins are meant to differ in a single detail (report 4.2.5)"),
    # skill
    "front_matter": ("error", "an agent decides by name and description whether to load a skill"),
    "concept_missing": ("error", "C1 to C7 are each graded against one concept field"),
    "concept_none": ("warning", "C1 to C7 are each graded against one concept field"),
    "concept_not_text": ("error", "a concept field is shown to the grader as text"),
    "concept_short": ("warning", "a few words cannot carry what the dimension grades against"),
    "concept_long": ("warning", "a concept field of a page drowns what is load-bearing in it"),
    "primitives_unnamed": (
        "warning",
        "C2 and C7 are graded by the primitives that the mental model names",
    ),
    "section_missing": (
        "error",
        "C8 is graded against Verification and C9 against Do NOT Use When (report 5.9, 5.10)",
    ),
    "section_missing_no_concept": (
        "warning",
        "C8 is graded against Verification and C9 against Do NOT Use When (report 5.9, 5.10)",
    ),
    "verification_short": ("warning", "C8 asks for at least three items of the checklist"),
}


def finding(rule: str, place: str, message: str, *, case_id: str | None = None) -> Finding:
    """Return a finding with the severity and reason of its rule."""
    severity, reason = RULES[rule]
    return Finding(
        place=place,
        rule=rule,
        severity=severity,
        message=message,
        reason=reason,
        case_id=case_id,
    )
