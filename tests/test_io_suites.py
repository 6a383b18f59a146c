"""What read_suite makes of the report's shape, of public deviations and of broken files."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.errors import SuiteError
from skillcomp.io import read_suite
from skillcomp.io.suites import MAX_BYTES, VOCABULARY


def case(ident: Any = 1, **changes: Any) -> dict[str, Any]:
    """Return a case in which nothing deviates, with changes; a change to ... takes the key away."""
    whole = {
        "id": ident,
        "prompt": "What is it?",
        "dimension": "definition",
        "comprehension_dimension": "C1",
        "concept_field": "definition",
        "transfer": "near",
        "substance": "domain",
        "calibration": "semantic",
        "truth_mode": "code_verification",
        "skill_type": "concept",
        "criticality": "high",
        "truth_sources": ["skills/tide/SKILL.md#coverage"],
        "expected_behaviors": [
            {"id": "names_kind", "kind": "positive", "description": "Names the kind."},
            {"id": "no_copy", "kind": "negative", "description": "Copies nothing."},
        ],
        "expected_reasoning": "The kind, then the use.",
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not ...}


@pytest.fixture
def make(tmp_path):
    def _make(*cases: Any, name: str = "tide.json", **changes: Any) -> Path:
        content = {"skill_name": "tide", "subject": "Tides", "evals": list(cases), **changes}
        file = tmp_path / name
        file.write_text(json.dumps(content), encoding="utf-8")
        return file

    return _make


# The ten cases of the report's worked example: their fields as printed there, texts shortened by
# hand. (dimension, C, concept_field, transfer, substance, truth_mode, criticality, n+, n-)
_PLUS_REPO, _AGAINST = "conceptual_correctness_plus_repo_application", "contradiction-check"
WORKED = [
    ("definition", "C1", "definition", "near", "domain", _PLUS_REPO, "high", 2, 2),
    ("mental_model", "C2", "mental_model", "far", "domain", _PLUS_REPO, "critical", 4, 1),
    ("purpose", "C3", "purpose", "near", "domain", _PLUS_REPO, "high", 3, 1),
    ("boundary", "C4", "boundary", "near", _AGAINST, "code_verification", "high", 3, 1),
    ("mental_model", "C5", "taxonomy", "far", "domain", _PLUS_REPO, "normal", 4, 0),
    ("mental_model", "C6", "analogy", "far", "domain", _PLUS_REPO, "normal", 3, 1),
    ("anti_pattern", "C7", "misconception", "near", _AGAINST, _PLUS_REPO, "critical", 4, 1),
    ("application", "C8", None, "near", "domain", _PLUS_REPO, "high", 5, 1),
    ("boundary", "C9", None, "near", _AGAINST, "code_verification", "high", 3, 2),
    ("anti_pattern", "C7", "misconception", "far", _AGAINST, _PLUS_REPO, "high", 3, 1),
]


def worked_example() -> list[dict[str, Any]]:
    keys = ("dimension", "comprehension_dimension", "concept_field", "transfer")
    keys += ("substance", "truth_mode", "criticality")
    return [
        case(
            i,
            prompt=f"Question {i} about types?",
            expected_behaviors=[
                {"id": f"b{k}", "kind": "positive" if k < row[7] else "negative", "description": ""}
                for k in range(row[7] + row[8])
            ],
            truth_sources=["skills/type-safety/SKILL.md:64", "skills/type-safety/SKILL.md#types"],
            expected_reasoning="Why." if i not in (3, 4, 6, 9) else ...,
            **dict(zip(keys, row[:7], strict=True)),
        )
        for i, row in enumerate(WORKED, start=1)
    ]


def test_the_ten_cases_of_the_report_read_without_a_problem(make):
    file = make(
        *worked_example(),
        name="type-safety.json",
        skill_name="type-safety",
        adjacent_concepts=["api-design", "code-review"],
        grounding_note="Lines as of May.",
    )
    suite = read_suite(file, strict=True)
    assert (suite.slug, suite.skill, suite.subject) == ("type-safety", "type-safety", "Tides")
    assert suite.adjacent_concepts == ("api-design", "code-review")
    assert suite.grounding_note == "Lines as of May."
    assert [c.comprehension_dimension for c in suite.cases] == [
        *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C7"),
    ]
    assert [c.case_id for c in suite.cases] == [f"type-safety/{i}" for i in range(1, 11)]
    assert [c.transfer for c in suite.cases].count("near") == 6
    assert [c.concept_field for c in suite.cases][7:9] == [None, None]
    assert [len(c.checks) for c in suite.cases] == [4, 5, 4, 4, 4, 4, 5, 6, 5, 4]
    assert {k.goal for c in suite.cases for k in c.checks} == {"outcome"}
    assert suite.sha256 == sha256(file.read_bytes()).hexdigest()


def test_every_field_of_a_case_is_kept(make):
    one = read_suite(make(case(1, should_trigger=True), case(2, contrast_of=1))).cases[0]
    for key in VOCABULARY:
        assert getattr(one, key) == case()[key]
    assert one.truth_sources == ("skills/tide/SKILL.md#coverage",)
    assert one.expected_reasoning == "The kind, then the use."
    assert one.should_trigger is True
    assert [(k.check_id, k.check_kind, k.description) for k in one.checks] == [
        ("names_kind", "positive", "Names the kind."),
        ("no_copy", "negative", "Copies nothing."),
    ]


def test_contrast_of_becomes_a_full_case_id_whatever_the_type_of_the_id(make):
    suite = read_suite(make(case(1), case("2b", contrast_of=1), case(3, contrast_of="tide/2b")))
    assert [c.contrast_of for c in suite.cases] == [None, "tide/1", "tide/2b"]
    assert suite.problems == ()


def test_contrast_with_nothing_or_with_itself_is_a_problem(make):
    suite = read_suite(
        make(case(1, contrast_of=1), case(2, contrast_of=9), case(3, contrast_of=[]))
    )
    assert suite.problems == (
        "evals[2] (id 3): contrast_of: found []; expected an id.",
        "evals[0] (id 1): contrast_of: 'tide/1' is the case itself.",
        "evals[1] (id 2): contrast_of: 'tide/9' is no case of this suite.",
    )


def test_a_misspelt_word_is_kept_and_told_with_place_allowed_words_and_nearest(make):
    suite = read_suite(make(case(1), case(7, transfer="fare", criticality="hgih")))
    assert suite.cases[1].transfer == "fare"
    assert suite.problems == (
        "evals[1] (id 7): transfer: found 'fare'; allowed: near, far. Did you mean 'far'?",
        "evals[1] (id 7): criticality: found 'hgih'; allowed: normal, high, critical. "
        "Did you mean 'high'?",
    )


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("dimension", "taxonomy"),
        ("dimension", "analogy"),
        ("dimension", "misconception"),
        ("truth_mode", "output_correctness"),
        ("substance", "procedure"),
        ("criticality", "low"),
        ("criticality", "medium"),
        ("calibration", "exact-match"),
        ("skill_type", "router"),
    ],
)
def test_words_of_public_files_are_kept_and_listed_as_such(make, key, word):
    suite = read_suite(make(case(**{key: word})))
    assert getattr(suite.cases[0], key) == word
    assert len(suite.problems) == 1
    assert f"{key}: found '{word}'; allowed: " in suite.problems[0]
    assert suite.problems[0].endswith("A word of other published files, kept.")


@pytest.mark.parametrize("word", ["application", "anti_pattern", "rule_conflict"])
def test_the_dimensions_that_the_report_counts_are_no_problem(make, word):
    assert read_suite(make(case(dimension=word)), strict=True).cases[0].dimension == word


def test_concept_field_null_is_right_for_c8_and_c9(make):
    cases = [case(i, comprehension_dimension=f"C{i}", concept_field=None) for i in (8, 9)]
    assert [c.concept_field for c in read_suite(make(*cases), strict=True).cases] == [None, None]


def test_a_concept_field_that_its_dimension_does_not_ask_about_is_told(make):
    suite = read_suite(make(case(comprehension_dimension="C2", concept_field="analogy")))
    assert suite.problems == (
        "evals[0] (id 1): concept_field: found 'analogy'; C2 asks about 'mental_model'.",
    )


def test_files_without_the_extensions_read_without_a_problem(make):
    plain = case(
        comprehension_dimension=..., concept_field=..., transfer=..., expected_behaviors=...,
        expected_reasoning=...,
    )  # fmt: skip
    suite = read_suite(make(plain), strict=True)
    assert suite.cases[0].checks == ()
    assert suite.cases[0].transfer is None


def test_the_bigger_schema_keeps_its_negative_expectation_and_lists_what_lacks(make):
    row = case(negative_expectation="Says nothing of moons.", truth_sources=...)
    suite = read_suite(make(row, name="comprehension.json"), slug="tide")
    assert suite.slug == "tide"
    assert suite.cases[0].case_id == "tide/1"
    assert suite.cases[0].extra == {"negative_expectation": "Says nothing of moons."}
    assert suite.problems == (
        "evals[0] (id 1): missing truth_sources.",
        "evals[0] (id 1): 'negative_expectation' is not a known key.",
    )


def test_a_routing_file_is_read_without_checks_and_says_so(make, tmp_path):
    rows = [{"id": "no-match", "description": "No surface fits.", "expected_winner": None}]
    content = {"skill_name": "router", "kind": "routing_eval", "routing_cases": rows}
    file = tmp_path / "router.routing.json"
    file.write_text(json.dumps(content))
    suite = read_suite(file)
    assert suite.slug == "router.routing"
    assert suite.cases[0].prompt == "No surface fits."
    assert suite.cases[0].checks == ()
    assert suite.cases[0].extra["expected_winner"] is None
    assert suite.extra == {"kind": "routing_eval"}
    assert suite.problems == (
        "routing_cases: these cases ask a router, not an agent; they are read without checks.",
    )


def test_ids_that_stand_twice_are_kept_and_told_and_refused_when_strict(make):
    twice = [{"id": "b", "kind": "positive", "description": ""}] * 2
    file = make(case(1, expected_behaviors=twice), case("1"))
    suite = read_suite(file)
    assert [c.case_id for c in suite.cases] == ["tide/1", "tide/1"]
    assert suite.problems == (
        "evals[0] (id 1): expected_behaviors: the id 'b' stands 2 times.",
        "evals: the id '1' stands 2 times.",
    )
    with pytest.raises(SuiteError, match="2 problems"):
        read_suite(file, strict=True)


def test_behaviours_of_any_shape_are_read_and_what_deviates_is_kept(make):
    behaviours = [
        "Names the moon.",
        {"id": "x", "kind": "negatve", "description": 5, "weight": 2},
        {"kind": "positive", "goal": "speed"},
        7,
    ]
    suite = read_suite(make(case(expected_behaviors=behaviours)))
    checks = suite.cases[0].checks
    assert [(c.check_id, c.check_kind, c.description) for c in checks] == [
        ("behavior-1", "positive", "Names the moon."),
        ("x", "positive", "5"),
        ("behavior-3", "positive", ""),
        ("behavior-4", "positive", ""),
    ]
    assert suite.cases[0].extra["checks"] == {
        "x": {"kind": "negatve", "weight": 2},
        "behavior-3": {"goal": "speed"},
    }
    spot = "evals[0] (id 1): expected_behaviors"
    assert f"{spot}[0]: plain text; expected an object with id and kind." in suite.problems
    assert (
        f"{spot}[1] (x): kind: found 'negatve'; allowed: positive, negative; taken as positive. "
        "Did you mean 'negative'?" in suite.problems
    )
    assert f"{spot}[1] (x): 'weight' is not a known key." in suite.problems
    assert any(p.startswith(f"{spot}[2] (behavior-3): goal: found 'speed'") for p in suite.problems)
    assert f"{spot}[3]: a number; expected an object." in suite.problems


def test_cases_of_wrong_types_are_read_as_far_as_they_go(make):
    suite = read_suite(
        make(5, case(True, prompt=" ", truth_sources="one", should_trigger="yes", transfer=3)),
        strict=False,
    )
    assert [c.case_id for c in suite.cases] == ["tide/case-1", "tide/case-2"]
    problems = "\n".join(suite.problems)
    assert "evals[0]: a number; expected an object." in problems
    assert "evals[1]: id: found True; expected a number or text; 'case-2' is taken." in problems
    assert "(id case-2): prompt: missing or empty; there is nothing to ask." in problems
    assert "truth_sources: found 'one'; expected a list of texts." in problems
    assert "should_trigger: found 'yes'; allowed: true, false." in problems
    assert "transfer: found 3; expected text." in problems


def test_strict_raises_one_error_that_lists_everything(make):
    file = make(case(1, transfer="fra"), case(2, dimension="definiton"), subject=4)
    with pytest.raises(SuiteError) as caught:
        read_suite(file, strict=True)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("tide.json, 3 problems:")
    assert lines[1:] == [f"- {problem}" for problem in read_suite(file).problems]
    assert "Did you mean 'definition'?" in str(caught.value)


def test_a_missing_skill_name_is_taken_from_the_file(make):
    suite = read_suite(make(case(), skill_name=None))
    assert suite.skill == "tide"
    assert suite.problems == ("skill_name: missing; 'tide' is taken.",)


def test_a_key_that_stands_twice_is_told(tmp_path):
    file = tmp_path / "tide.json"
    file.write_text('{"skill_name": "tide", "evals": [], "evals": []}')
    assert read_suite(file).problems == (
        "the key 'evals' stands 2 times in one object; the last counts.",
        "evals: the list is empty.",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"evals": [\n  {"id": 1,}\n]}', r"tide\.json, line 2, column \d+: not JSON"),
        ("", r"tide\.json, line 1, column 1: not JSON"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "the JSON holds a list; expected an object with 'evals'"),
        ('{"eval": []}', "'evals' is missing; expected a list of cases. Did you mean 'eval'?"),
        ('{"evals": {}}', "'evals' is an object; expected a list of cases"),
    ],
)
def test_a_file_that_is_no_suite_gives_a_clear_error(tmp_path, text, message):
    file = tmp_path / "tide.json"
    file.write_text(text)
    with pytest.raises(SuiteError, match=message.replace("?", r"\?")):
        read_suite(file)


def test_size_links_and_encoding_are_guarded(tmp_path):
    big = tmp_path / "big.json"
    big.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(SuiteError, match=r"16,777,217 bytes; a suite \(JSON\) may have at most"):
        read_suite(big)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.json").symlink_to(big)
    with pytest.raises(SuiteError, match="leads out of its folder"):
        read_suite(tmp_path / "in" / "link.json")
    (tmp_path / "latin.json").write_bytes(b'{\n"a": "\xe9"}')
    with pytest.raises(SuiteError, match="line 2: byte 0xe9 is not UTF-8"):
        read_suite(tmp_path / "latin.json")
    with pytest.raises(SuiteError, match="there is no suite"):
        read_suite(tmp_path / "none.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(case())) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={key: _JSON for key in case()}), max_size=3))
def test_cases_of_any_json_are_read_leniently_and_never_crash(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("any") / "tide.json"
    file.write_text(json.dumps({"skill_name": "tide", "evals": rows}))
    suite = read_suite(file)
    assert len(suite.cases) == len(rows)
    clean = not suite.problems
    if clean:
        assert read_suite(file, strict=True) == suite
