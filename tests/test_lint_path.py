"""What the lint says of a suite and a skill, rule by rule."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.errors import SuiteError
from skillcomp.io import read_skill, read_suite
from skillcomp.io.skills import sections_of
from skillcomp.lint import lint_path, lint_skill, lint_suite
from skillcomp.lint.lint_path import lint_places
from skillcomp.lint.lint_rules import RULES, Finding
from skillcomp.records import CONCEPT_FIELDS, Case, Check, Skill, Suite

BODY = """# Tidal Ledger

## Coverage

Matching two ledgers against one another until the open lines are explained.

## Running a Tide

Both clerks settle every unmatched line before midnight and then seal the page.

## Verification

- [ ] Both clerks signed.
- [ ] Every open line has a reason.
- [ ] The seal carries a date.

## Do NOT Use When

| Situation | Owner |
|---|---|
| One ledger only | `stock-count` |
"""
MODEL = "Keel: the line both ledgers share.\nSpring entry: a repair dated above the mark."
CONCEPT = {name: f"Words enough to say what the {name} of it is here." for name in CONCEPT_FIELDS}
CONCEPT["mental_model"] = MODEL


def skill_of(**changes: Any) -> Skill:
    whole = {
        "slug": "tide",
        "name": "tide",
        "description": "Reconciling ledgers.",
        "concept": CONCEPT,
        "body": BODY,
        "text": BODY,
        "sections": sections_of(BODY),
        **changes,
    }
    return Skill(**whole)


POSITIVE = Check(check_id="uses_keel", description="Names the keel as what decides.")
NEGATIVE = Check(check_id="no_verbatim_span", check_kind="negative", description="Copies nothing.")


def case_of(ident: Any, dimension: str | None = "C1", transfer: str = "near", **changes: Any):
    whole = {
        "case_id": f"tide/{ident}",
        "prompt": f"Question {ident}: two bakers disagree about flour.",
        "comprehension_dimension": dimension,
        "transfer": transfer,
        "checks": (POSITIVE, NEGATIVE),
        "truth_sources": ("skills/tide/SKILL.md#running-a-tide",),
        **changes,
    }
    return Case(**whole)


def clean() -> list[Case]:
    """A suite in which nothing is to be found: C1 to C9 near, C1 to C7 far."""
    near = [case_of(i, f"C{i}") for i in range(1, 10)]
    return near + [case_of(10 + i, f"C{i}", "far") for i in range(1, 8)]


def suite_of(*cases: Case) -> Suite:
    return Suite(slug="tide", skill="tide", cases=cases)


def rows_of(frame: pd.DataFrame) -> list[Finding]:
    frame = frame.astype(object).where(frame.notna(), None)
    return [Finding(**row) for row in frame.to_dict("records")]


def lint(*cases: Case, skill: Skill | None = None, root: Any = None) -> list[Finding]:
    return rows_of(lint_suite(suite_of(*cases), skill or skill_of(), root=root))


def one_changed(rule: str, **changes: Any) -> Finding:
    """Change one case of the clean suite; return what is found, which must be one thing."""
    case = case_of(99, **{"dimension": "C2", **changes})
    found = lint(*clean(), case)
    assert [f.rule for f in found] == [rule], found
    assert found[0].case_id == case.case_id and found[0].severity == RULES[rule][0]
    return found[0]


def test_a_suite_that_keeps_every_rule_gives_no_finding():
    assert lint(*clean()) == []


def test_a_finding_is_one_line_with_place_severity_message_and_reason():
    found = one_changed("truth_missing", truth_sources=())
    assert str(found) == (
        "tide/99: warning: truth_sources: found none. [truth_missing: a case may rest only on "
        "what a grader can look up in the sources it names]"
    )


def test_fewer_than_seven_cases_and_uncovered_dimensions_are_errors():
    found = lint(*[case_of(i, "C1") for i in range(6)], case_of(7, "C2", "far"))[:2]
    assert [f.rule for f in found] == ["dimensions_missing", "far_missing_near_in_report"]
    assert "no case for C3 (Purpose articulation), C4 (Boundary" in found[0].message
    assert "C9 (Negative-boundary refusal); expected" in found[0].message
    few = lint(*[case_of(i, "C1") for i in range(6)])[0]
    assert (few.rule, few.severity, few.case_id) == ("cases_few", "warning", None)
    assert "6 cases; expected at least 7" in few.message


def test_a_missing_far_case_is_an_error_only_where_the_report_has_one():
    cases = [case_of(i, f"C{i}") for i in range(1, 10)]
    found = {f.rule: f for f in lint(*cases)}
    assert "no far case for C2, C5, C6, C7" in found["far_missing"].message
    assert found["far_missing"].severity == "warning"
    assert "no far case for C1, C3, C4" in found["far_missing_near_in_report"].message
    assert found["far_missing_near_in_report"].severity == "warning"


def test_a_case_declares_exactly_one_dimension():
    none = one_changed("dimension_single", dimension=None)
    assert "comprehension_dimension: found none; allowed: exactly one of C1" in none.message
    two = one_changed("dimension_single", dimension="C1, C2")
    assert "found 'C1, C2'" in two.message
    near = one_changed("dimension_single", dimension="c2")
    assert "Did you mean 'C2'?" in near.message


def test_a_suite_without_any_dimension_is_told_so_once():
    found = lint(*[case_of(i, None) for i in range(8)])
    assert [f.rule for f in found] == ["dimensions_missing"]
    assert "none of the 8 cases names a comprehension_dimension" in found[0].message


def test_a_case_without_near_or_far_is_named():
    assert (
        "found nothing; allowed: near, far"
        in one_changed("transfer_missing", transfer=None).message
    )


def test_a_far_prompt_that_shares_four_content_tokens_with_the_skill_shows_them():
    # tokens: both clerks settle every unmatched line ... ; "the" and "a" are dropped
    prompt = "At a zoo both keepers settle every unmatched line before closing. What now?"
    found = one_changed("far_overlap", transfer="far", prompt=prompt)
    assert "shares 'settle every unmatched line' with the skill" in found.message
    assert "1 run of 4 content words" in found.message
    # three shared tokens are no finding, and neither is a near prompt
    assert lint(*clean(), case_of(99, "C2", "far", prompt="Settle every unmatched bill.")) == []
    assert lint(*clean(), case_of(99, "C2", "near", prompt=prompt)) == []


def test_far_prompts_are_held_against_the_concept_block_too():
    skill = skill_of(text=BODY + MODEL)
    prompt = "Is a spring entry in our bakery a repair dated below the others?"
    assert lint(*clean(), case_of(99, "C2", "far", prompt=prompt), skill=skill) == []
    prompt = "A baker books a spring entry (repair dated above the rest). Right?"
    found = lint(*clean(), case_of(99, "C2", "far", prompt=prompt), skill=skill)
    assert [f.rule for f in found] == ["far_overlap"]
    assert "'spring entry (repair dated above'" in found[0].message


def test_a_case_with_a_dimension_needs_behaviours():
    found = one_changed("behaviours_missing", checks=())
    assert "required where comprehension_dimension is set" in found.message


def test_a_behaviour_id_may_stand_once_in_a_case_and_again_in_another():
    found = one_changed("behaviour_id", checks=(POSITIVE, POSITIVE, NEGATIVE))
    assert "the id 'uses_keel' stands 2 times" in found.message


def test_a_case_without_a_negative_behaviour_is_a_warning_and_a_suite_without_one_an_error():
    assert one_changed("negative_missing", checks=(POSITIVE,)).severity == "warning"
    bare = [c.model_copy(update={"checks": (POSITIVE,)}) for c in clean()]
    whole = [f for f in lint(*bare) if f.case_id is None]
    assert [(f.rule, f.severity) for f in whole] == [
        ("negative_none", "error"),
        ("anti_quote_none", "error"),
    ]


def test_the_definition_needs_a_behaviour_against_quoting():
    other = Check(check_id="no_severity", check_kind="negative", description="No severity.")
    assert one_changed("anti_quote_missing", dimension="C1", checks=(POSITIVE, other))
    # a positive behaviour about quotes forbids nothing
    asks = Check(check_id="quotes_rule", description="Quotes the rule verbatim.")
    bare = [c.model_copy(update={"checks": (POSITIVE, asks, other)}) for c in clean()]
    assert [f.rule for f in lint(*bare) if f.case_id is None] == ["anti_quote_none"]


@pytest.mark.parametrize(
    "words", ["no_quote", "does not copy the text", "no 6-gram overlap", "not in the exact words"]
)
def test_anti_quote_behaviours_are_recognized_by_id_or_description(words):
    check = Check(check_id="b", check_kind="negative", description=words)
    check = check.model_copy(update={"check_id": words}) if "_" in words else check
    assert lint(*clean(), case_of(99, "C1", checks=(POSITIVE, check))) == []


def test_reasoning_dimensions_need_a_behaviour_that_names_a_primitive():
    vague = Check(check_id="is_good", description="Understands the discipline.")
    found = one_changed("primitive_missing", checks=(vague, NEGATIVE))
    assert "names a primitive of the mental model (Keel, Spring entry)" in found.message
    # inflected, in the id, or of two words in one behaviour: all are asked for
    for check in (
        Check(check_id="a", description="Compares the keels."),
        Check(check_id="spring_entry_used", description="Does it."),
    ):
        assert lint(*clean(), case_of(99, "C7", checks=(check, NEGATIVE))) == []
    # a definition, a purpose or a boundary may be asked for without one
    assert lint(*clean(), case_of(99, "C3", checks=(vague, NEGATIVE))) == []


def test_a_suite_whose_behaviours_name_no_primitive_at_all_is_told_so():
    vague = Check(check_id="is_good", description="Understands the discipline.")
    bare = [c.model_copy(update={"checks": (vague, NEGATIVE)}) for c in clean()]
    assert [f.rule for f in lint(*bare) if f.case_id is None] == ["primitive_none"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"expected_reasoning": "First weigh flour, sugar, butter, then compare."}, "expected_rea"),
        ({"checks": (POSITIVE, NEGATIVE, Check(check_id="b", description="Weigh flour, sugar, "
                                               "butter."))}, "b;"),
    ],
)  # fmt: skip
def test_a_prompt_that_holds_its_answer_leaks(changes, place):
    prompt = "Should they weigh flour, sugar, butter?"
    found = one_changed("leak", prompt=prompt, **changes)
    assert f"shares 'weigh flour, sugar, butter' with {place}" in found.message


def test_a_negative_behaviour_may_name_what_the_prompt_tempts_to():
    tempted = Check(check_id="no_weigh", check_kind="negative", description="Weigh flour, sugar, "
                    "butter.")  # fmt: skip
    case = case_of(99, "C2", prompt="Weigh flour, sugar, butter!", checks=(POSITIVE, tempted))
    assert lint(*clean(), case) == []


def test_the_concept_field_may_not_stand_in_the_prompt_but_for_the_misconception():
    concept = {**CONCEPT, "purpose": "Ledgers drifted apart unnoticed.", "misconception": MODEL}
    skill = skill_of(concept=concept)
    leaking = case_of(99, "C3", prompt="Is it that ledgers drifted apart unnoticed?")
    found = lint(*clean(), leaking, skill=skill)
    assert [f.rule for f in found] == ["leak"] and "with concept.purpose" in found[0].message
    voiced = case_of(99, "C7", prompt="A repair dated above the mark: shared line, right?")
    assert lint(*clean(), voiced, skill=skill) == []


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("According to the tide skill, who signs?", "According to the tide skill"),
        ("What does the skill say in SKILL.md?", "SKILL.md"),
        ("The skill says to seal. When?", "skill says"),
        ("What is in the section on sealing?", "section"),
        ("Use the Coverage table.", "Coverage table"),
        ("Look at #running-a-tide and answer.", "#running-a-tide"),
        ("Explain Running a Tide to a baker.", "Running a Tide"),
        ('What does "Coverage" mean?', '"Coverage"'),
    ],
)
def test_a_prompt_that_points_into_the_skill_is_named(prompt, words):
    assert f"'{words}'" in one_changed("cites_section", prompt=prompt).message


@pytest.mark.parametrize(
    "prompt",
    [
        "Our insurance coverage is thin. Verification failed twice.",
        "Draw a cross-section of the hull.",
        "Explain the tide discipline to a baker.",
        "Does her skill matter?",
    ],
)
def test_ordinary_words_cite_nothing(prompt):
    assert lint(*clean(), case_of(99, "C2", prompt=prompt)) == []


def test_truth_sources_resolve_to_files_lines_and_headings(tmp_path):
    folder = tmp_path / "skills" / "tide"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tide\n# no heading\n---\n" + BODY)
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    good = ("skills/tide/SKILL.md", "skills/tide/SKILL.md:1-4", "notes.txt:2", "notes.txt#L1-L2")
    good += ("skills/tide/SKILL.md#do-not-use-when",)
    assert lint(*clean(), case_of(99, "C2", truth_sources=good), root=tmp_path) == []
    for source, said in {
        "skills/tide/SKILL.md#runing-a-tide": "no heading '#runing-a-tide'. Did you mean 'running-",
        "skills/tide/SKILL.md#no-heading": "no heading '#no-heading'",
        "notes.txt:3": "no line 3; the file has 2 lines",
        "notes.txt:2-1": "lines 2-1 are no range",
        "notes.txt:0": "lines 0-0 are no range",
        "notes.txt#one": "only Markdown files have headings",
        "gone.md": "there is no source here",
        "skills": "not a regular file",
        "notes\0.txt": "allowed: path, path:line",
        "notes.txt:2-": "allowed: path, path:line, path:first-last, path#anchor",
    }.items():
        found = lint(*clean(), case_of(99, "C2", truth_sources=(source,)), root=tmp_path)
        assert [f.rule for f in found] == ["truth_source"], source
        assert said in found[0].message and f"'{source}'" in found[0].message


@pytest.mark.parametrize("source", ["/etc/hosts", "../x.md", "a/../../x.md", "~/x", "C:\\x.txt"])
def test_a_truth_source_never_leads_out_of_its_folder(tmp_path, source):
    found = lint(case_of(1, truth_sources=(source,)), root=tmp_path)
    assert "truth_outside" in [f.rule for f in found]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    inside = tmp_path / "study"
    inside.mkdir()
    (tmp_path / "secret.md").write_text("# Secret\n")
    (inside / "link.md").symlink_to(tmp_path / "secret.md")
    found = lint(case_of(1, truth_sources=("link.md#secret",)), root=inside)
    assert "truth_outside" in [f.rule for f in found]


def test_without_a_folder_only_the_skill_itself_is_looked_up():
    cases = (*clean(), case_of(99, "C2", truth_sources=("other.md", "https://example.org/x")))
    found = lint(*cases)
    assert [f.rule for f in found] == ["not_checked"]
    assert "2 of 18 truth sources were not looked up" in found[0].message
    wrong = case_of(99, "C2", truth_sources=("skills/tide/SKILL.md#gone",))
    assert [f.rule for f in lint(*clean(), wrong)] == ["truth_source"]


def test_twins_exist_and_differ_in_prompt_and_behaviours():
    missing = one_changed("contrast_missing", contrast_of="tide/33")
    assert "'tide/33' is no case of this suite. Did you mean 'tide/" in missing.message
    assert "is the case itself" in one_changed("contrast_missing", contrast_of="tide/99").message
    twin = clean()[1]
    same = one_changed("contrast_same", contrast_of="tide/2", prompt=f"  {twin.prompt}\n")
    assert "the same as that of tide/2" in same.message
    flipped = (POSITIVE.model_copy(update={"description": "Names the keel: not due."}), NEGATIVE)
    apart = one_changed(
        "contrast_apart", contrast_of="tide/2", prompt="Quite another matter.", checks=flipped
    )
    assert "0% of the words are those of tide/2; expected at least 50%" in apart.message
    close = twin.prompt.replace("flour", "sugar")
    assert one_changed("contrast_behaviours", contrast_of="tide/2", prompt=close)
    good = case_of(99, "C2", contrast_of="tide/2", prompt=close, checks=flipped)
    assert lint(*clean(), good) == []


def test_without_the_skill_the_lint_says_what_it_did_not_look_at():
    found = rows_of(lint_suite(suite_of(*clean())))
    assert [f.rule for f in found] == ["not_checked", "not_checked"]
    assert "skill 'tide' is not at hand" in found[0].message


def test_a_foreign_skill_is_refused():
    with pytest.raises(SuiteError, match="is about the skill 'tide'; found 'other'"):
        lint_suite(suite_of(*clean()), skill_of(slug="other"))


def test_a_skill_that_keeps_every_rule_gives_no_finding():
    assert lint_skill(skill_of()).empty


@pytest.mark.parametrize(
    ("changes", "rule", "said"),
    [
        ({"name": " "}, "front_matter", "'name' is missing or empty"),
        ({"description": ""}, "front_matter", "'description' is missing or empty"),
        (
            {"concept": {k: v for k, v in CONCEPT.items() if k != "analogy"}},
            "concept_missing",
            "missing or empty: analogy",
        ),
        ({"concept": {**CONCEPT, "purpose": "Saves time."}}, "concept_short", "2 words ('Saves"),
        ({"concept": {**CONCEPT, "purpose": "word " * 401}}, "concept_long", "401 words"),
        (
            {"concept": {**CONCEPT, "mental_model": "It all hangs together in one way or other."}},
            "primitives_unnamed",
            "no primitive can be told",
        ),
        ({"sections": sections_of(BODY[: BODY.index("## Do")])}, "section_missing", "## Do NOT"),
        (
            {"sections": sections_of(BODY.replace("## Verification", "## Verifications"))},
            "section_missing",
            "Did you mean 'Verifications'?",
        ),
        (
            {"sections": sections_of("## Verification\n\n## Do NOT Use When\n\nNever.\n")},
            "section_missing",
            "line 1: the section 'Verification' is empty",
        ),
        (
            {"sections": sections_of(BODY.replace("- [ ] Every open line has a reason.\n", ""))},
            "verification_short",
            "has 2 items; expected at least 3",
        ),
    ],
)
def test_what_a_skill_lacks_is_named(changes, rule, said):
    found = rows_of(lint_skill(skill_of(**changes)))
    assert [f.rule for f in found] == [rule]
    assert said in found[0].message


def test_a_section_whose_text_stands_under_subheadings_is_not_empty():
    body = (
        "## Verification\n\n### Before\n\n- a\n- b\n\n### After\n\n- c\n\n## Do NOT Use When\n\nx\n"
    )
    assert lint_skill(skill_of(sections=sections_of(body))).empty


def test_a_concept_field_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "tide" / "SKILL.md"
    file.parent.mkdir()
    file.write_text(
        "---\nname: tide\ndescription: D.\nconcept:\n  purpose: [a]\n  analgy: x\n---\n"
    )
    found = [
        f
        for f in rows_of(lint_skill(read_skill(file)))
        if f.rule in ("concept_not_text", "reading")
    ]
    assert [f.message for f in found] == [
        "concept.purpose: found a list; expected text.",
        "concept.analgy: not one of the seven concept fields. Did you mean 'analogy'?",
    ]


def test_a_skill_without_any_concept_block_only_gets_warnings():
    found = rows_of(lint_skill(skill_of(concept={}, sections=())))
    assert [f.rule for f in found] == ["concept_none"] + ["section_missing_no_concept"] * 2
    assert {f.severity for f in found} == {"warning"}
    declared = lint_skill(skill_of(concept={}, metadata={"comprehension_state": "present"}))
    assert declared["rule"].tolist() == ["concept_missing"]


def test_the_pilot_has_no_error_and_its_warnings_are_known(pilot):
    rules: dict[str, int] = {}
    for suite in pilot.suites.values():
        skill = pilot.skills[suite.skill]
        frames = lint_skill(skill), lint_suite(suite, skill, root=pilot.path)
        for found in rows_of(pd.concat(frames)):
            assert found.severity == "warning", found
            rules[found.rule] = rules.get(found.rule, 0) + 1
    # C1, C3 and C4 are near only in all six; one case has no negative behaviour; behaviours
    # describe what a primitive does more often than they name it
    assert rules == {
        "far_missing_near_in_report": 6,
        "negative_missing": 1,
        "primitive_missing": 27,
        "primitive_none": 1,
    }


def test_the_pilot_suite_finds_its_skill_beside_it():
    path = Path(__file__).parent.parent / "data" / "pilot" / "suites" / "braid-provenance.json"
    (linted,) = lint_places(path)
    assert linted.findings["severity"].tolist() == ["warning"] * 3
    assert "not_checked" not in set(linted.findings["rule"])
    assert linted.description == "suite 'braid-provenance': 14 cases, 69 checks"


def test_what_reader_and_lint_both_see_is_said_once(tmp_path):
    file = tmp_path / "tide.json"
    file.write_text(
        '{"skill_name": "tide", "evals": [{"id": 1, "prompt": "Q?", "contrast_of": 9, '
        '"comprehension_dimension": "C0", "expected_behaviors": [{"id": "a", "kind": "positive"}, '
        '{"id": "a", "kind": "positive"}]}]}'
    )
    assert len(read_suite(file).problems) == 4
    rules = lint_path(file)["rule"].tolist()
    assert rules.count("fields_missing") == 1 and "reading" not in rules
    for rule in ("behaviour_id", "contrast_missing", "dimension_single"):
        assert rules.count(rule) == 1


def test_a_word_of_other_published_files_is_only_a_warning(tmp_path):
    file = tmp_path / "tide.json"
    file.write_text('{"skill_name": "tide", "evals": [{"id": 1, "criticality": "low"}]}')
    found = lint_path(file).set_index("rule")["severity"]
    assert (found["other_word"], found["reading"]) == ("warning", "error")


def test_cases_for_a_router_are_read_and_not_linted(tmp_path):
    file = tmp_path / "routes.json"
    file.write_text('{"routing_cases": [{"id": "a", "description": "Which one?"}]}')
    assert lint_path(file)["rule"].tolist() == ["reading"] * 2


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=60), st.text(max_size=40), st.lists(st.text(max_size=30), max_size=3),
    st.sampled_from([None, "C1", "C7", "x"]), st.sampled_from([None, "near", "far"]),
)  # fmt: skip
def test_no_text_breaks_the_lint(prompt, reasoning, sources, dimension, transfer):
    case = case_of(
        1, dimension, transfer, prompt=prompt, expected_reasoning=reasoning,
        truth_sources=tuple(sources), contrast_of="tide/2",
    )  # fmt: skip
    for found in lint(case, root=Path(__file__).parent):
        assert found.rule in RULES and found.message and found.reason


# The shapes of other files of the report's library

SHAPED = """Three primitives structure the reasoning:

1. **Tide gauge** — a label that says how high the water is, such as `any` or `as`.

2. **Spring vs neap** — *spring* tides are the large ones (`moon === 'full'`).

3. **The tidemark** — the line at which the water stops. At `JSON.parse` nothing is known.
"""


def test_code_spans_beside_named_primitives_are_examples_and_no_primitives():
    from skillcomp.lint.lint_skill import primitives

    assert primitives(SHAPED) == ("Tide gauge", "Spring vs neap", "The tidemark")
    assert primitives("It rests on **trust** and `any`.") == ("trust",)
    assert primitives("It rests on `trust` alone.") == ("trust",)


@pytest.mark.parametrize(
    ("description", "names_one"),
    [
        ("answers well and as any reader would", False),
        ("speaks of the tide in general words", False),
        ("invokes the tidemarks as the line", True),
        ("tells spring from neap", True),
        ("reads both tide gauges", True),
    ],
)
def test_a_behaviour_names_a_primitive_by_its_words_and_not_by_the_skills_own_name(
    description, names_one
):
    skill = Skill(slug="tide", name="tide", concept={"mental_model": SHAPED.replace(" gauge", "")})
    if "gauge" in description:
        skill = Skill(slug="tide", name="tide", concept={"mental_model": SHAPED})
    check = Check(check_id="says_it", description=description)
    case = Case(case_id="tide/1", prompt="Why?", comprehension_dimension="C2", checks=(check,))
    rules = lint_suite(Suite(slug="tide", skill="tide", cases=(case,)), skill)["rule"]
    assert ("primitive_missing" in set(rules)) is not names_one


def test_a_suite_of_the_older_shape_gets_advice_and_no_errors():
    old = Case(case_id="tide/1", prompt="What is it?", dimension="definition", criticality="high")
    found = rows_of(lint_suite(Suite(slug="tide", skill="tide", cases=(old,))))
    assert {"cases_few", "dimensions_missing"} <= {one.rule for one in found}
    assert {one.severity for one in found} == {"warning"}
    newer = old.model_copy(update={"comprehension_dimension": "C0"})
    found = rows_of(lint_suite(Suite(slug="tide", skill="tide", cases=(old, newer))))
    assert "error" in {one.severity for one in found}
    lost = old.model_copy(update={"truth_sources": ("../../etc/passwd",)})
    found = rows_of(lint_suite(Suite(slug="tide", skill="tide", cases=(lost,))))
    assert {one.rule for one in found if one.severity == "error"} == {"truth_outside"}


@pytest.mark.parametrize(
    ("check_id", "description", "forbids"),
    [
        ("no_verbatim_span", "", True),
        ("no_body_copy", "Uses its own words", True),
        ("no_quoting", "", True),
        ("own_words", "Does not quote the skill body", True),
        ("no_overlap", "no 6-gram substring overlap with skill body", True),
        ("no_price", "Does not quote a price", False),
        ("no_squared_ratio", "Does not offer 66% as an equally good answer; quoted or not", False),
        ("no_copilot", "Does not send them to the copilot", False),
    ],
)
def test_what_lints_as_a_ban_on_copying_is_what_the_overlap_check_decides(
    check_id, description, forbids
):
    from skillcomp.live.graders.reply import forbids_copying as is_bound

    check = Check(check_id=check_id, check_kind="negative", description=description)
    case = Case(case_id="tide/1", prompt="?", comprehension_dimension="C1", checks=(check,))
    found = rows_of(lint_suite(Suite(slug="tide", skill="tide", cases=(case,))))
    assert is_bound(check) is forbids
    assert ("anti_quote_missing" in {one.rule for one in found}) is not forbids
    assert not is_bound(check.model_copy(update={"check_kind": "positive"}))


def test_a_transfer_that_is_neither_near_nor_far_is_an_error():
    found = one_changed("transfer_unknown", transfer="middle")
    assert found.severity == "error"
    assert found.message == "transfer: found 'middle'; allowed: near, far."
    assert "Did you mean 'near'?" in one_changed("transfer_unknown", transfer="neer").message
