import numpy as np
import pandas as pd
import pytest

from skillcomp.errors import FrameError
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CONTRACTS


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


def test_missing_columns_are_added_own_ones_kept_and_the_argument_is_untouched() -> None:
    rows = _verdict_rows().assign(mood="calm").astype({"condition": "category"})
    rows = rows.set_index(pd.Index([7, 7]))
    before = rows.copy()
    frame = check(rows, "verdicts")
    assert list(frame.columns) == [*CONTRACTS["verdicts"].columns, "mood"]
    assert frame[["rationale", "round"]].isna().all(axis=None)
    assert str(frame["condition"].dtype) == "str" and list(frame.index) == [0, 1]
    pd.testing.assert_frame_equal(rows, before)


def test_times_are_read_as_utc_and_bad_ones_named() -> None:
    rows = _verdict_rows().assign(graded_at=["2026-11-21T10:00:00Z", "soon"])
    with pytest.raises(FrameError, match="column 'graded_at': found 'soon'"):
        check(rows, "verdicts")
    good = check(rows.assign(graded_at="2026-11-21T10:00:00+02:00"), "verdicts")
    assert str(good["graded_at"].iloc[0]) == "2026-11-21 08:00:00+00:00"


@pytest.mark.parametrize(
    ("condition", "problem"), [(None, "missing in 1 row"), ("", "empty in 1 row")]
)
def test_a_key_without_a_value_is_counted(condition: str | None, problem: str) -> None:
    rows = _verdict_rows().assign(condition=["skill", condition])
    with pytest.raises(FrameError, match=f"column 'condition': {problem}; it is required"):
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
    with pytest.raises(FrameError, match="columns stand twice: skill"):
        check(two.set_axis(["skill", "skill"], axis=1), "cases")
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


def test_texts_of_dtype_object_are_read_without_a_python_call_per_value() -> None:
    class Counted(str):
        n = 0

        def __str__(self) -> str:
            Counted.n += 1
            return super().__str__()

    names = [Counted(f"c{at}") for at in range(50)]
    frame = (
        empty("cases")
        .reindex(range(50))
        .assign(skill="s", case_id=pd.Series(names, dtype="object"))
    )
    assert check(frame, "cases")["case_id"].tolist() == [f"c{at}" for at in range(50)]
    assert Counted.n == 0
