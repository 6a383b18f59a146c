import numpy as np
import pandas as pd
import pytest

from skillcomp.errors import FrameError
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import group_codes


@pytest.mark.parametrize("kind", CONTRACTS)
def test_an_empty_frame_has_every_column_at_its_dtype_and_passes_its_own_check(kind: str) -> None:
    frame = check(empty(kind), kind)
    assert frame.dtypes.astype(str).to_dict() == dict(CONTRACTS[kind].columns)
    assert frame.empty


def test_every_problem_is_reported_at_once_with_column_values_and_what_is_allowed() -> None:
    own = pd.DataFrame(
        {
            "skil": ["a", "a"],
            "case_id": ["a/1", "a/1"],
            "transfer": ["distant", "near"],
            "n_checks": [1.5, 2],
            "should_trigger": ["false", None],
            "comprehension_dimension": ["C1", "C10"],
        }
    )
    with pytest.raises(FrameError) as caught:
        check(own, "cases")
    message = str(caught.value)
    assert "cases frame, 5 problems" in message
    assert "column 'skill' is missing; required: skill, case_id. Is it 'skil'?" in message
    assert "column 'transfer': found 'distant' (1 row); allowed: 'near', 'far'" in message
    assert "column 'n_checks': found 1.5 (1 row); expected whole numbers." in message
    assert "column 'should_trigger': found 'false' (1 row); allowed: True, False" in message
    assert "column 'comprehension_dimension': found 'C10' (1 row)" in message
    assert len(caught.value.problems) == 5


def test_the_text_false_is_never_taken_for_a_pass() -> None:
    rows = _verdict_rows(passed=["false", "true"])
    with pytest.raises(FrameError, match=r"column 'passed': found 'false', 'true' \(2 rows\)"):
        check(rows, "verdicts")


@pytest.mark.parametrize(
    "passed", [[1, 0], [1.0, np.nan], [True, None], pd.array([True, pd.NA], dtype="boolean")]
)
def test_zeros_ones_and_booleans_become_nullable_booleans(passed: list[object]) -> None:
    frame = check(_verdict_rows(passed=passed), "verdicts")
    assert str(frame["passed"].dtype) == "boolean"
    assert frame["passed"].iloc[0] == True  # noqa: E712 - a nullable boolean
    assert len(frame) == 2


def test_only_the_keys_are_required_and_missing_optional_columns_are_added_as_missing() -> None:
    frame = check(_verdict_rows(), "verdicts")
    assert list(frame.columns) == list(CONTRACTS["verdicts"].columns)
    assert frame["rationale"].isna().all()
    assert frame["round"].isna().all()


def test_own_columns_are_kept_behind_those_of_the_contract_and_the_argument_is_untouched() -> None:
    rows = _verdict_rows().assign(mood="calm")
    before = rows.copy()
    frame = check(rows, "verdicts")
    assert frame.columns[-1] == "mood"
    pd.testing.assert_frame_equal(rows, before)


def test_categories_and_odd_indexes_are_accepted() -> None:
    rows = _verdict_rows().astype({"condition": "category"}).set_index(pd.Index([7, 7]))
    frame = check(rows, "verdicts")
    assert str(frame["condition"].dtype) == "str"
    assert list(frame.index) == [0, 1]


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(FrameError, match="Did you mean 'verdicts'"):
        check(pd.DataFrame(), "verdict")


def test_times_are_read_as_utc_and_bad_ones_named() -> None:
    rows = _verdict_rows().assign(graded_at=["2026-11-21T10:00:00Z", "soon"])
    with pytest.raises(FrameError, match="column 'graded_at': found 'soon'"):
        check(rows, "verdicts")
    good = check(rows.assign(graded_at="2026-11-21T10:00:00+02:00"), "verdicts")
    assert str(good["graded_at"].iloc[0]) == "2026-11-21 08:00:00+00:00"


def test_a_missing_value_in_a_key_is_counted() -> None:
    rows = _verdict_rows().assign(condition=["skill", None])
    with pytest.raises(FrameError, match="column 'condition': missing in 1 row; it is required"):
        check(rows, "verdicts")


def _verdict_rows(**columns: object) -> pd.DataFrame:
    rows = {
        "attempt_id": ["a", "b"],
        "skill": "s",
        "case_id": "s/1",
        "condition": ["baseline", "skill"],
        "check_id": "c",
        "grader": "g",
        "passed": [True, False],
    }
    return pd.DataFrame(rows | columns)


def test_an_empty_text_does_not_count_as_a_name() -> None:
    own = pd.DataFrame({"skill": ["a", ""], "case_id": ["a/1", "a/2"]})
    with pytest.raises(FrameError, match="column 'skill': empty in 1 row; it is required"):
        check(own, "cases")


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, np.array([1, 2]), 1 + 2j, 10**400, object(), pd.NaT, float("inf"), b"x"],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("column", ["passed", "repeat", "score", "skill", "graded_at"])
def test_cells_that_hold_anything_are_taken_or_told(column: str, value: object) -> None:
    row = {"attempt_id": "a", "skill": "s", "case_id": "c", "condition": "skill", "check_id": "k"}
    row |= {"grader": "g"}
    own = pd.DataFrame([row, row | {"attempt_id": "b"}]).astype("object")
    own[column] = pd.Series([value, value], dtype="object")
    try:
        check(own, "verdicts")
    except FrameError as error:
        assert f"column '{column}'" in str(error)


def test_columns_of_several_levels_and_things_that_are_no_frame_are_told() -> None:
    two = pd.DataFrame(
        [[1, 2]], columns=pd.MultiIndex.from_tuples([("skill", "a"), ("skill", "b")])
    )
    with pytest.raises(FrameError, match="several levels"):
        check(two, "cases")
    for thing in (None, [], {"skill": ["a"]}, pd.Series(["a"]), np.zeros(3), "cases"):
        with pytest.raises(FrameError, match="expected a pandas DataFrame"):
            check(thing, "cases")


def test_texts_that_python_keeps_are_taken_and_half_a_character_is_told() -> None:
    kept = pd.StringDtype("python", na_value=np.nan)
    own = {"skill": pd.array(["a", "b"], dtype=kept), "case_id": pd.array(["1", "1"], dtype=kept)}
    assert check(pd.DataFrame(own), "cases")["skill"].tolist() == ["a", "b"]
    own["case_id"] = pd.array(["1", "\ud800"], dtype=kept)
    with pytest.raises(FrameError, match=r"column 'case_id': found .*ud800.*; expected text"):
        check(pd.DataFrame(own), "cases")
    assert group_codes(pd.DataFrame(own), ["case_id"])[0].tolist() == [0, 1]
