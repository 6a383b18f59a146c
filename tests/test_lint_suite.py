"""The rules of a suite, one by one, on a suite that breaks no other rule."""

from collections import Counter
from typing import Any

import pytest

from skillcomp.errors import SuiteError
from skillcomp.grading_rules import forbids_copying as is_bound
from skillcomp.io import read_suite
from skillcomp.io.skills import sections_of
from skillcomp.lint import ERRORS, RULES, lint_skill, lint_suite
from skillcomp.records import CONCEPT_FIELDS, Case, Check, Skill, Suite

BODY = """# Tidal Ledger

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
POSITIVE = Check(check_id="uses_keel", description="Names the keel as what decides.")
NEGATIVE = Check(check_id="no_verbatim_span", check_kind="negative", description="Copies nothing.")
VAGUE = Check(check_id="is_good", description="Understands the discipline.")


def skill_of(**changes: Any) -> Skill:
    fields = {"slug": "tide", "name": "tide", "description": "Reconciling ledgers."}
    fields |= {"concept": CONCEPT, "body": BODY, "text": BODY, "sections": sections_of(BODY)}
    return Skill(**{**fields, **changes})


def case_of(ident: Any, dimension: str | None = "C1", transfer: Any = "near", **changes: Any):
    fields = {
        "case_id": f"tide/{ident}",
        "prompt": f"Question {ident}: two bakers disagree about flour.",
        "comprehension_dimension": dimension,
        "transfer": transfer,
        "checks": (POSITIVE, NEGATIVE),
        "truth_sources": ("skills/tide/SKILL.md#running-a-tide",),
    }
    return Case(**{**fields, **changes})


def clean(**changes: Any) -> list[Case]:
    """Cases without findings: C1 to C9 near, C1 to C7 far, and a third of C2."""
    roles = {1: {"prompt": "Explain it to a baker."}, 11: {"prompt": "Explain it to the miller."}}
    near = [case_of(i, f"C{i}", **roles.get(i, {}), **changes) for i in range(1, 10)]
    far = [case_of(10 + i, f"C{i}", "far", **roles.get(10 + i, {}), **changes) for i in range(1, 8)]
    return [*near, *far, case_of(18, "C2", "far", **changes)]


def test_c2_has_three_cases_and_each_prompt_of_c1_another_outsider():
    assert lint(*clean()[:-1])[0].message == "2 cases of C2; expected at least 3."
    (row,) = lint(*clean(), case_of(19, "C1", prompt="Explain to the baker, please."))
    assert (row.rule, row.severity) == ("c1_roles", "warning")
    assert "the 3 prompts of C1 explain to baker, miller; expected a role" in row.message


def test_a_prompt_for_three_skills_is_named():
    suite = Suite(slug="tide", skill="tide", adjacent_concepts=("stock-count",))
    many = case_of(99, "C2", prompt="Use tide, stock-count and $sealing for this.")
    two = case_of(98, "C2", prompt="Is it tide or stock-count, or tidemark?")
    code = case_of(97, "C2", prompt="Are $PATH, $HOME and $USER set by `a=$b; echo $c $d`?")
    cases = (*clean(), many, two, code)
    rows = lint_suite(suite.model_copy(update={"cases": cases}), skill_of())
    assert rows["case_id"].tolist() == ["tide/99"]
    assert rows["message"].tolist() == [
        "prompt: names 3 skills (sealing, stock-count, tide); expected one."
    ]


def lint(*cases: Case, skill: Skill | None = None, root: Any = None) -> list[Any]:
    suite = Suite(slug="tide", skill="tide", cases=cases)
    return list(lint_suite(suite, skill or skill_of(), root=root).itertuples())


def rules(*cases: Case, **options: Any) -> list[str]:
    return [row.rule for row in lint(*cases, **options)]


def without_skill(*cases: Case) -> dict[str, str]:
    """Severity by rule."""
    frame = lint_suite(Suite(slug="tide", skill="tide", cases=cases))
    return dict(zip(frame["rule"], frame["severity"], strict=True))


def one_changed(rule: str, **changes: Any) -> Any:
    """Return the finding on the only faulty case of a suite."""
    case = case_of(99, **{"dimension": "C2", **changes})
    (row,) = lint(*clean(), case)
    assert (row.rule, row.case_id, row.reason) == (rule, case.case_id, RULES[rule])
    assert row.severity == ("error" if rule in ERRORS else "warning")
    return row


LEAKING = "Should they weigh flour, sugar, butter?"
TWIN = clean()[1].prompt
FLIPPED = (POSITIVE.model_copy(update={"description": "Names the keel: not due."}), NEGATIVE)
BUTTER = Check(check_id="b", description="Weigh flour, sugar, butter.")
# tokens: both clerks settle every unmatched line ... ; "the" and "a" are dropped
FAR = "At a zoo both keepers settle every unmatched line before closing. What now?"
OTHER_NEGATIVE = Check(check_id="no_severity", check_kind="negative", description="No severity.")


@pytest.mark.parametrize(
    ("rule", "changes", "message"),
    [
        ("truth_missing", {"truth_sources": ()}, "truth_sources: found none."),
        ("dimension_single", {"dimension": None}, "found none; allowed: exactly one of C1"),
        ("dimension_single", {"dimension": "c2"}, "Did you mean 'C2'?"),
        ("transfer_missing", {"transfer": None}, "found nothing; allowed: near, far"),
        ("transfer_unknown", {"transfer": "neer"}, "found 'neer'; allowed: near, far. Did you"),
        ("far_overlap", {"transfer": "far", "prompt": FAR}, "'settle every unmatched line' with"),
        ("far_overlap", {"transfer": "far", "prompt": FAR}, "(4 content words); allowed: below 4"),
        ("behaviours_missing", {"checks": ()}, "required where comprehension_dimension is set"),
        ("behaviour_id", {"checks": (POSITIVE, POSITIVE, NEGATIVE)}, "'uses_keel' stands 2 times"),
        ("negative_missing", {"checks": (POSITIVE,)}, "none of the 1 is negative"),
        (
            "anti_quote_missing",
            {"dimension": "C1", "checks": (POSITIVE, OTHER_NEGATIVE)},
            "none of the 2 forbids copying",
        ),
        ("primitive_missing", {"checks": (VAGUE, NEGATIVE)}, "model (Keel, Spring entry)"),
        (
            "leak",
            {"prompt": LEAKING, "expected_reasoning": "First weigh flour, sugar, butter."},
            "shares 'weigh flour, sugar, butter' with expected_reasoning",
        ),
        ("leak", {"prompt": LEAKING, "checks": (POSITIVE, NEGATIVE, BUTTER)}, "butter' with b;"),
        ("contrast_missing", {"contrast_of": "tide/33"}, "no case of this suite. Did you mean"),
        ("contrast_same", {"contrast_of": "tide/2", "prompt": f"  {TWIN}\n"}, "as that of tide/2"),
        (
            "contrast_behaviours",
            {"contrast_of": "tide/2", "prompt": TWIN.replace("flour", "sugar")},
            "the same as those of tide/2",
        ),
    ],
)
def test_a_fault_of_one_case_is_one_finding(rule, changes, message):
    assert message in one_changed(rule, **changes).message


@pytest.mark.parametrize(
    "changes",
    [
        # three shared tokens, a near prompt
        {"transfer": "far", "prompt": "Settle every unmatched bill."},
        {"prompt": FAR},
        # primitives: inflected, in the id, or not needed for this dimension
        {"checks": (VAGUE.model_copy(update={"description": "Compares the keels."}), NEGATIVE)},
        {"checks": (VAGUE.model_copy(update={"check_id": "spring_entry"}), NEGATIVE)},
        {"dimension": "C3", "checks": (VAGUE, NEGATIVE)},
        # a negative behaviour may name the temptation
        {
            "prompt": LEAKING,
            "checks": (POSITIVE, NEGATIVE, BUTTER.model_copy(update={"check_kind": "negative"})),
        },
        {
            "contrast_of": "tide/2",
            "prompt": TWIN.replace("flour", "sugar"),
            "checks": FLIPPED,
        },
    ],
)
def test_a_case_that_keeps_the_rules_gives_no_finding(changes):
    assert lint(*clean(), case_of(99, **{"dimension": "C2", **changes})) == []


def test_gaps_of_a_suite_are_warnings_about_the_whole_suite():
    few, dimensions, far = lint(*[case_of(i, "C1") for i in range(6)])[:3]
    assert (few.rule, few.severity, few.place) == ("cases_few", "warning", "suite tide")
    assert few.case_id != few.case_id  # missing
    assert "6 cases; expected at least 7" in few.message
    assert "no case for C2 (Mental-model fidelity), C3" in dimensions.message
    assert far.rule == "far_missing"
    near = {row.rule: row for row in lint(*clean()[:9])}
    assert "no far case for C1, C2, C3, C4, C5, C6, C7;" in near["far_missing"].message
    assert {row.severity for row in near.values()} == {"warning"}
    (row,) = lint(*[case_of(i, None) for i in range(8)])
    assert "none of the 8 cases names a comprehension_dimension" in row.message


def test_a_suite_without_a_kind_of_behaviour_has_one_finding_about_it():
    quotes = Check(check_id="quotes_rule", description="Quotes the rule verbatim.")
    for checks, expected in (
        ((POSITIVE,), ["negative_none", "anti_quote_none"]),
        ((POSITIVE, quotes, OTHER_NEGATIVE), ["anti_quote_none"]),
        ((VAGUE, NEGATIVE), ["primitive_none"]),
    ):
        rows = lint(*clean(checks=checks))
        assert [row.rule for row in rows if row.place == "suite tide"] == expected


def test_far_prompts_are_compared_with_the_concept_block_too():
    skill = skill_of(text=BODY + MODEL)
    prompt = "A baker books a spring entry (repair dated above the rest). Right?"
    (row,) = lint(*clean(), case_of(99, "C2", "far", prompt=prompt), skill=skill)
    assert row.rule == "far_overlap" and "'spring entry (repair dated above'" in row.message


def test_the_concept_field_may_not_occur_in_the_prompt_except_for_the_misconception():
    concept = {**CONCEPT, "purpose": "Ledgers drifted apart unnoticed.", "misconception": MODEL}
    skill = skill_of(concept=concept)
    leaking = case_of(99, "C3", prompt="Is it that ledgers drifted apart unnoticed?")
    (row,) = lint(*clean(), leaking, skill=skill)
    assert row.rule == "leak" and "with concept.purpose" in row.message
    voiced = case_of(99, "C7", prompt="A repair dated above the mark: shared line, right?")
    assert lint(*clean(), voiced, skill=skill) == []


def test_truth_sources_resolve_to_files_lines_and_headings(tmp_path):
    folder = tmp_path / "skills" / "tide"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tide\n# no heading\n---\n" + BODY)
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    good = ("skills/tide/SKILL.md", "skills/tide/SKILL.md:1-4", "notes.txt:2", "notes.txt#L1-L2")
    good += ("skills/tide/SKILL.md#do-not-use-when",)
    assert lint(*clean(), case_of(99, "C2", truth_sources=good), root=tmp_path) == []
    for source, message in {
        "skills/tide/SKILL.md#runing-a-tide": "no heading '#runing-a-tide'. Did you mean 'running-",
        "skills/tide/SKILL.md#no-heading": "no heading '#no-heading'",
        "notes.txt:3": "no line 3; the file has 2 lines",
        "notes.txt:2-1": "lines 2-1 are no range",
        "notes.txt#one": "only Markdown files have headings",
        "gone.md": "there is no source here",
        "notes\0.txt": "allowed: path, path:line",
    }.items():
        (row,) = lint(*clean(), case_of(99, "C2", truth_sources=(source,)), root=tmp_path)
        assert row.rule == "truth_source", source
        assert message in row.message and f"'{source}'" in row.message


@pytest.mark.parametrize(
    "source", ["/etc/hosts", "../x.md", "a/../../x.md", "~/x", "C:\\x.txt", "link.md#secret"]
)
def test_a_truth_source_never_leads_out_of_its_folder(tmp_path, source):
    inside = tmp_path / "study"
    inside.mkdir()
    (tmp_path / "secret.md").write_text("# Secret\n")
    (inside / "link.md").symlink_to(tmp_path / "secret.md")
    assert "truth_outside" in rules(case_of(1, truth_sources=(source,)), root=inside)


def test_without_a_folder_only_the_skill_itself_is_looked_up():
    outside = ("other.md", "https://example.org/x")
    (row,) = lint(*clean(), case_of(99, "C2", truth_sources=outside))
    assert row.rule == "not_checked"
    assert "2 of 19 truth sources were not looked up" in row.message
    wrong = case_of(99, "C2", truth_sources=("skills/tide/SKILL.md#gone",))
    assert rules(*clean(), wrong) == ["truth_source"]


def test_the_skill_of_a_suite_may_be_unknown_but_not_another():
    suite = Suite(slug="tide", skill="tide", cases=tuple(clean()))
    findings = lint_suite(suite)
    assert findings["rule"].tolist() == ["not_checked", "not_checked"]
    assert "skill 'tide' is not at hand" in findings["message"][0]
    with pytest.raises(SuiteError, match="is about the skill 'tide'; found 'other'"):
        lint_suite(suite, skill_of(slug="other"))


def test_the_pilot_has_no_error_and_its_warnings_are_known(pilot):
    counts: Counter[str] = Counter()
    for suite in pilot.suites.values():
        skill = pilot.skills[suite.skill]
        for frame in (lint_skill(skill), lint_suite(suite, skill, root=pilot.path)):
            assert frame["severity"].eq("warning").all()
            counts.update(frame["rule"])
    # C1, C3 and C4 are near only in all six; one case has no negative behaviour; behaviours
    # describe what a primitive does more often than they name it
    expected = {"far_missing": 6, "negative_missing": 1}
    assert counts == expected | {"primitive_missing": 27, "primitive_none": 1}


def test_a_suite_of_the_older_shape_gets_advice_and_no_errors():
    old = Case(case_id="tide/1", prompt="What is it?", dimension="definition", criticality="high")
    severities = without_skill(old)
    assert {"cases_few", "dimensions_missing"} <= severities.keys()
    assert set(severities.values()) == {"warning"}
    newer = old.model_copy(update={"comprehension_dimension": "C0"})
    assert "error" in without_skill(old, newer).values()
    lost = old.model_copy(update={"truth_sources": ("../../etc/passwd",)})
    errors = {rule for rule, severity in without_skill(lost).items() if severity == "error"}
    assert errors == {"truth_outside"}


@pytest.mark.parametrize(
    ("check_id", "description", "forbids"),
    [
        ("no_verbatim_span", "", True),
        ("b", "does not copy the text", True),
        ("own_words", "Does not quote the skill body", True),
        ("no_overlap", "no 6-gram substring overlap with skill body", True),
        ("no_price", "Does not quote a price", False),
        ("no_squared_ratio", "Does not offer 66% as an equally good answer; quoted or not", False),
    ],
)
def test_a_ban_on_copying_for_the_lint_is_one_for_the_overlap_check(check_id, description, forbids):
    check = Check(check_id=check_id, check_kind="negative", description=description)
    case = Case(case_id="tide/1", prompt="?", comprehension_dimension="C1", checks=(check,))
    assert is_bound(check) is forbids
    assert ("anti_quote_missing" in without_skill(case)) is not forbids
    assert not is_bound(check.model_copy(update={"check_kind": "positive"}))


@pytest.mark.parametrize("words", ["tasks_number", "tasks_rubric"])
def test_advice_on_task_suites(words, tmp_path):
    task = "  - {{id: t{i}, prompt: P, judge: {judge}}}\n"
    rubric = "{type: llm-rubric, rubric: R}"
    judges = ["{type: contains, expected: [x]}"] * 3 + [rubric] * 4 * (words == "tasks_rubric")
    text = 'skill_id: tide\nversion: "1.0"\ntasks:\n'
    text += "".join(task.format(i=i, judge=judge) for i, judge in enumerate(judges))
    file = tmp_path / "task_suite.yaml"
    file.write_text(text)
    (row,) = lint_suite(read_suite(file)).itertuples()
    assert (row.rule, row.severity) == (words, "warning")
