"""What a skill lacks, and what keeps it from being tested as an interface."""

from __future__ import annotations

import time

import pytest
from test_lint_suite import BODY, CONCEPT, skill_of

from skillcomp.io.skills import sections_of
from skillcomp.lint import ERRORS, lint_skill, lint_suite, primitives, untestable_messages
from skillcomp.records import Case, Check, Skill, Suite


@pytest.mark.parametrize(
    ("changes", "rule", "message"),
    [
        ({"description": ""}, "front_matter", "'description' is missing or empty"),
        (
            {"concept": {k: v for k, v in CONCEPT.items() if k != "analogy"}},
            *("concept_missing", "missing or empty: analogy"),
        ),
        (BODY[: BODY.index("## Do")], "section_missing", "## Do NOT"),
        (BODY.replace("Verification", "Verifications"), "section_missing", "mean 'Verifications'?"),
        (
            "## Verification\n\n## Do NOT Use When\n\nNever.\n",
            *("section_missing", "line 1: the section 'Verification' is empty"),
        ),
        (
            BODY.replace("- [ ] Every open line has a reason.\n", ""),
            *("verification_short", "has 2 items; expected at least 3"),
        ),
    ],
)
def test_what_a_skill_lacks_is_named(changes, rule, message):
    changes = {"sections": sections_of(changes)} if isinstance(changes, str) else changes
    (row,) = lint_skill(skill_of(**changes)).itertuples()
    assert row.rule == rule
    assert row.severity == ("error" if rule in ERRORS else "warning")
    assert message in row.message


def test_a_concept_field_that_is_no_text_is_named():
    concept = {"purpose": ["a"], "analgy": "x"}
    findings = lint_skill(skill_of(concept={}, metadata={"concept": concept})).set_index("rule")
    assert findings.loc["concept_not_text", "message"].startswith("concept.purpose: found a list")
    assert "Did you mean 'analogy'?" in findings.loc["reading", "message"]


def test_a_skill_without_any_concept_block_only_gets_warnings():
    skill = skill_of(concept={}, sections=())
    assert lint_skill(skill).empty  # no suite asks about them
    cases = [
        Case(case_id=f"s/{name}", prompt="Q?", comprehension_dimension=name)
        for name in ("C1", "C8", "C9")
    ]
    findings = lint_skill(skill, [Suite(slug="s", skill=skill.slug, cases=tuple(cases))])
    assert findings["rule"].tolist() == ["concept_none"] + ["section_missing_no_concept"] * 2
    assert findings["severity"].eq("warning").all()


def test_a_body_with_the_shape_of_a_concept_is_a_candidate_for_a_block():
    body = "# Tea\n\n## Coverage\n\nA.\n\n## Philosophy\n\nB.\n\n## Misconceptions\n\nC.\n"
    skill = skill_of(concept={}, body=body, sections=sections_of(body))
    (row,) = lint_skill(skill).itertuples()
    assert (row.rule, row.severity) == ("concept_in_body", "warning")
    assert row.message.endswith("sections Coverage, Philosophy, Misconceptions.")
    stated = skill.model_copy(update={"metadata": {"comprehension_state": "present"}})
    assert "concept_in_body" not in lint_skill(stated)["rule"].tolist()


# Shapes of mental models in other files of the report's library

SHAPED = """Three primitives structure the reasoning:

1. **Tide gauge** — a label that says how high the water is, such as `any` or `as`.

2. **Spring vs neap** — *spring* tides are the large ones (`moon === 'full'`).

3. **The tidemark** — the line at which the water stops. At `JSON.parse` nothing is known.
"""


def test_code_next_to_named_primitives_is_an_example():
    assert primitives(SHAPED) == ("Tide gauge", "Spring vs neap", "The tidemark")
    assert primitives("It rests on **trust** and `any`.") == ("trust",)
    assert primitives("It rests on `trust` alone.") == ("trust",)
    assert primitives("It all hangs together.") == ()


@pytest.mark.parametrize(
    ("model", "description", "names_one"),
    [
        (SHAPED.replace(" gauge", ""), "answers well and as any reader would", False),
        (SHAPED.replace(" gauge", ""), "speaks of the tide in general words", False),
        (SHAPED.replace(" gauge", ""), "invokes the tidemarks as the line", True),
        (SHAPED.replace(" gauge", ""), "tells spring from neap", True),
        (SHAPED, "reads both tide gauges", True),
    ],
)
def test_a_behaviour_names_a_primitive_by_more_than_the_name_of_the_skill(
    model, description, names_one
):
    skill = Skill(slug="tide", name="tide", concept={"mental_model": model})
    check = Check(check_id="says_it", description=description)
    case = Case(case_id="tide/1", prompt="Why?", comprehension_dimension="C2", checks=(check,))
    findings = lint_suite(Suite(slug="tide", skill="tide", cases=(case,)), skill)
    assert ("primitive_missing" in set(findings["rule"])) is not names_one


@pytest.mark.parametrize("text", ["curl " * 30_000, '](a "' * 30_000])
def test_a_hostile_body_is_read_in_seconds(text: str) -> None:
    began = time.monotonic()
    list(untestable_messages(Skill(slug="s", name="s", description="d", body=text, text=text)))
    assert time.monotonic() - began < 10
