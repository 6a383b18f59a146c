import numpy as np
import pandas as pd
import pytest

from skillcomp import contracts
from skillcomp.errors import FrameError


@pytest.mark.parametrize("kind", contracts.CONTRACTS)
def test_an_empty_frame_has_every_column_at_its_dtype_and_passes_its_own_check(kind: str) -> None:
    frame = contracts.check(contracts.empty(kind), kind)
    assert frame.dtypes.astype(str).to_dict() == dict(contracts.CONTRACTS[kind].columns)
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
        contracts.check(own, "cases")
    message = str(caught.value)
    assert "cases frame, 6 problems" in message
    assert "column 'skill' is missing; required: skill, case_id. Is it 'skil'?" in message
    assert "column 'transfer': found 'distant' (1 row); allowed: 'near', 'far'" in message
    assert "column 'n_checks': found 1.5 (1 row); expected whole numbers." in message
    assert "column 'should_trigger': found 'false' (1 row); allowed: True, False" in message
    assert "column 'comprehension_dimension': found 'C10' (1 row)" in message
    assert "2 rows share a key" in message
    assert len(caught.value.problems) == 6


def test_the_text_false_is_never_taken_for_a_pass() -> None:
    rows = _verdict_rows(passed=["false", "true"])
    with pytest.raises(FrameError, match=r"column 'passed': found 'false', 'true' \(2 rows\)"):
        contracts.check(rows, "verdicts")


@pytest.mark.parametrize(
    "passed", [[1, 0], [1.0, np.nan], [True, None], pd.array([True, pd.NA], dtype="boolean")]
)
def test_zeros_ones_and_booleans_become_nullable_booleans(passed: list[object]) -> None:
    frame = contracts.check(_verdict_rows(passed=passed), "verdicts")
    assert str(frame["passed"].dtype) == "boolean"
    assert frame["passed"].iloc[0] == True  # noqa: E712 - a nullable boolean
    assert len(frame) == 2


def test_only_the_keys_are_required_and_missing_optional_columns_are_added_as_missing() -> None:
    frame = contracts.check(_verdict_rows(), "verdicts")
    assert list(frame.columns) == list(contracts.CONTRACTS["verdicts"].columns)
    assert frame["rationale"].isna().all()
    assert frame["round"].isna().all()


def test_own_columns_are_kept_behind_those_of_the_contract_and_the_argument_is_untouched() -> None:
    rows = _verdict_rows().assign(mood="calm")
    before = rows.copy()
    frame = contracts.check(rows, "verdicts")
    assert frame.columns[-1] == "mood"
    pd.testing.assert_frame_equal(rows, before)


def test_categories_and_odd_indexes_are_accepted() -> None:
    rows = _verdict_rows().astype({"condition": "category"}).set_index(pd.Index([7, 7]))
    frame = contracts.check(rows, "verdicts")
    assert str(frame["condition"].dtype) == "str"
    assert list(frame.index) == [0, 1]


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(FrameError, match="Did you mean 'verdicts'"):
        contracts.check(pd.DataFrame(), "verdict")


def test_times_are_read_as_utc_and_bad_ones_named() -> None:
    rows = _verdict_rows().assign(graded_at=["2026-11-21T10:00:00Z", "soon"])
    with pytest.raises(FrameError, match="column 'graded_at': found 'soon'"):
        contracts.check(rows, "verdicts")
    good = contracts.check(rows.assign(graded_at="2026-11-21T10:00:00+02:00"), "verdicts")
    assert str(good["graded_at"].iloc[0]) == "2026-11-21 08:00:00+00:00"


def test_a_missing_value_in_a_key_is_counted() -> None:
    rows = _verdict_rows().assign(condition=["skill", None])
    with pytest.raises(FrameError, match="column 'condition': missing in 1 rows; it is required"):
        contracts.check(rows, "verdicts")


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
