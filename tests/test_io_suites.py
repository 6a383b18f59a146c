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
from skillcomp.io.suites import ELSEWHERE, MAX_BYTES

# The ten cases of the report's worked example: dimension, C, concept_field, transfer, substance,
# truth_mode and criticality as printed there
_PLUS_REPO, _AGAINST = "conceptual_correctness_plus_repo_application", "contradiction-check"
WORKED = [
    ("definition", "C1", "definition", "near", "domain", _PLUS_REPO, "high"),
    ("mental_model", "C2", "mental_model", "far", "domain", _PLUS_REPO, "critical"),
    ("purpose", "C3", "purpose", "near", "domain", _PLUS_REPO, "high"),
    ("boundary", "C4", "boundary", "near", _AGAINST, "code_verification", "high"),
    ("mental_model", "C5", "taxonomy", "far", "domain", _PLUS_REPO, "normal"),
    ("mental_model", "C6", "analogy", "far", "domain", _PLUS_REPO, "normal"),
    ("anti_pattern", "C7", "misconception", "near", _AGAINST, _PLUS_REPO, "critical"),
    ("application", "C8", None, "near", "domain", _PLUS_REPO, "high"),
    ("boundary", "C9", None, "near", _AGAINST, "code_verification", "high"),
    ("anti_pattern", "C7", "misconception", "far", _AGAINST, _PLUS_REPO, "high"),
]
FIELDS = ("dimension", "comprehension_dimension", "concept_field", "transfer", "substance")
FIELDS += ("truth_mode", "criticality")


def case(ident: Any = 1, **changes: Any) -> dict[str, Any]:
    """Return a case in which nothing deviates, with changes; a change to ... takes the key away."""
    whole = {
        **{"id": ident, "prompt": "What is it?", **dict(zip(FIELDS, WORKED[0], strict=True))},
        **{"truth_mode": "code_verification", "calibration": "semantic", "skill_type": "concept"},
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


def test_the_ten_cases_of_the_report_read_without_a_problem(make):
    more = {"adjacent_concepts": ["api-design"], "grounding_note": "Lines as of May."}
    rows = [dict(zip(FIELDS, row, strict=True)) for row in WORKED]
    file = make(*(case(i, **row) for i, row in enumerate(rows)), **more)
    suite = read_suite(file, strict=True)
    assert (suite.slug, suite.skill, suite.subject) == ("tide", "tide", "Tides")
    assert suite.adjacent_concepts == ("api-design",)
    assert suite.grounding_note == "Lines as of May."
    assert [c.case_id for c in suite.cases] == [f"tide/{i}" for i in range(10)]
    assert [tuple(getattr(c, name) for name in FIELDS) for c in suite.cases] == WORKED
    assert suite.sha256 == sha256(file.read_bytes()).hexdigest()
    first = suite.cases[0]
    assert first.truth_sources == ("skills/tide/SKILL.md#coverage",)
    assert first.expected_reasoning == "The kind, then the use."
    assert [(k.check_id, k.check_kind, k.goal, k.description) for k in first.checks] == [
        ("names_kind", "positive", "outcome", "Names the kind."),
        ("no_copy", "negative", "outcome", "Copies nothing."),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"comprehension_dimension": "C8", "concept_field": None, "should_trigger": True},
        {"dimension": "rule_conflict", "expected_behaviors": ..., "expected_reasoning": ...},
        {"comprehension_dimension": ..., "concept_field": ..., "transfer": ...},
    ],
)
def test_fields_that_need_not_be_there_are_none(make, changes):
    (read,) = read_suite(make(case(**changes)), strict=True).cases
    for key in set(changes) - {"expected_behaviors"}:
        assert getattr(read, key) == (None if changes[key] is ... else changes[key])
    assert len(read.checks) == (0 if "expected_behaviors" in changes else 2)


def test_contrast_of_becomes_a_full_case_id_whatever_the_type_of_the_id(make):
    suite = read_suite(make(case(1), case("2b", contrast_of=1), case(3, contrast_of="tide/2b")))
    assert [c.contrast_of for c in suite.cases] == [None, "tide/1", "tide/2b"]
    assert suite.problems == ()
    suite = read_suite(
        make(case(1, contrast_of=1), case(2, contrast_of=9), case(3, contrast_of=[]))
    )
    assert suite.problems == (
        "evals[2] (id 3): contrast_of: found []; expected an id.",
        "evals[0] (id 1): contrast_of: 'tide/1' is the case itself.",
        "evals[1] (id 2): contrast_of: 'tide/9' is no case of this suite.",
    )


def test_a_misspelt_word_is_kept_and_told_with_place_allowed_words_and_nearest(make):
    rows = case(1), case(7, transfer="fare", comprehension_dimension="C2", concept_field="analogy")
    suite = read_suite(make(*rows, skill_name=None))
    assert (suite.skill, suite.cases[1].transfer) == ("tide", "fare")
    assert suite.problems == (
        "evals[1] (id 7): transfer: found 'fare'; allowed: near, far. Did you mean 'far'?",
        "evals[1] (id 7): concept_field: found 'analogy'; C2 asks about 'mental_model'.",
        "skill_name: missing; 'tide' is taken.",
    )


def test_a_skill_name_of_a_case_names_the_skill_or_is_held_against_it(make):
    named = read_suite(make(case(1, skill_name="tea"), case(2), skill_name=None))
    assert (named.skill, named.problems) == ("tea", ())
    assert read_suite(make(case(1, skill_name="tide"), case(2))).problems == ()
    assert "skill_name: found ['tea']" in read_suite(make(case(1, skill_name=["tea"]))).problems[0]
    other = "skill_name: found 'tea'; a suite is about one skill; cases about another belong to its"
    assert read_suite(make(case(1, skill_name="tea"))).problems == (f"{other} own.",)
    both = make(case(1, skill_name="tide"), case(2, skill_name="tea"), skill_name=None)
    assert read_suite(both).problems == (f"{other} own.", "skill_name: missing; 'tide' is taken.")


@pytest.mark.parametrize(("key", "word"), [(k, w) for k, words in ELSEWHERE.items() for w in words])
def test_words_of_public_files_are_kept_and_listed_as_such(make, key, word):
    suite = read_suite(make(case(**{key: word})))
    assert getattr(suite.cases[0], key) == word
    (problem,) = suite.problems
    assert f"{key}: found '{word}'; allowed: " in problem
    assert problem.endswith("A word of other published files, kept.")


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


def test_ids_that_stand_twice_are_kept_and_told_and_refused_when_strict(make):
    twice = [{"id": "b", "kind": "positive", "description": ""}] * 2
    file = make(case(1, expected_behaviors=twice), case("1"))
    suite = read_suite(file)
    assert [c.case_id for c in suite.cases] == ["tide/1", "tide/1"]
    assert suite.problems == (
        "evals[0] (id 1): expected_behaviors: the id 'b' stands 2 times.",
        "evals: the id '1' stands 2 times.",
    )


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
    problems = "\n".join(suite.problems)
    for problem in (
        *("[0]: plain text; expected an object", "[1] (x): kind: found 'negatve'; allowed: "),
        *("Did you mean 'negative'?", "[1] (x): 'weight' is not a known key."),
        *("[2] (behavior-3): goal: found 'speed'", "; expected an object."),
    ):
        assert problem in problems


def test_cases_of_wrong_types_are_read_as_far_as_they_go(make):
    suite = read_suite(
        make(5, case(True, prompt=" ", truth_sources="one", should_trigger="yes", transfer=3)),
        strict=False,
    )
    assert [c.case_id for c in suite.cases] == ["tide/case-1", "tide/case-2"]
    problems = "\n".join(suite.problems)
    assert "evals[0]: found " in problems and "; expected an object." in problems
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"evals": [\n  {"id": 1,}\n]}', r"tide\.json, line 2, column \d+: not JSON"),
        ("", r"tide\.json, line 1, column 1: not JSON"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "found .*; expected an object with 'evals'"),
        ('{"evals": [], "evals": []}', "'evals' is repeated in one object; the last counts"),
        ('{"eval": []}', "'evals' is missing; expected a list of cases. Did you mean 'eval'?"),
        ('{"evals": {}}', "'evals' is .*; expected a list of cases"),
    ],
)
def test_a_file_that_is_no_suite_gives_a_clear_error(tmp_path, text, message):
    file = tmp_path / "tide.json"
    file.write_text(text)
    with pytest.raises(SuiteError, match=message.replace("?", r"\?")):
        read_suite(file, strict=True)
    with pytest.raises(SuiteError, match="there is no suite"):
        read_suite(tmp_path / "none.json")


def test_a_file_that_is_too_large_is_refused(tmp_path):
    (tmp_path / "big.json").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(SuiteError, match=r"16,777,217 bytes; a suite may have at most"):
        read_suite(tmp_path / "big.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(case())) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={key: _JSON for key in case()}), max_size=3))
def test_cases_of_any_json_are_read_leniently_and_never_crash(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("any") / "tide.json"
    file.write_text(json.dumps({"skill_name": "tide", "evals": rows}))
    try:
        suite = read_suite(file)
    except SuiteError as error:
        # the only reason: an id that no file may have, such as a control character
        assert str(error).startswith(f"{file}: ids become names of files")
        return
    assert len(suite.cases) == len(rows)
    clean = not suite.problems
    if clean:
        assert read_suite(file, strict=True) == suite


def test_the_skill_is_the_argument_if_the_file_names_none(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"evals": [{"id": 1, "prompt": "What is a tide?"}]}))
    suite = read_suite(file, skill="tides")
    assert suite.skill == "tides" and not any("skill_name" in text for text in suite.problems)
