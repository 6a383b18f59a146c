import numpy as np
import pandas as pd
import pytest

from skillcomp.errors import FrameError
from skillcomp.reliability import chart
from skillcomp.simulate import gold_stream

SETTINGS = {"p0": 0.05, "p1": 0.15, "arl": 500.0}


def test_the_path_is_that_of_the_steps_worked_by_hand() -> None:
    # steps for 5 % against 15 %: +10 on an error, -1 on a correct check, never below 0
    stream = pd.DataFrame({"error": [False, True, True, False, True, True]})
    found = chart(stream, **SETTINGS)
    assert found["cusum"].tolist() == [0, 10, 20, 19, 29, 39]
    assert found["limit"].unique().tolist() == [28]
    # the alarm is marked once, at the first check that reaches the limit
    assert found.loc[found["alarm"], "check"].tolist() == [5]
    assert found["alarm_at"].unique().tolist() == [5]
    assert found["change_at"].unique().tolist() == [2]


def test_verdict_and_gold_may_stand_in_place_of_the_error() -> None:
    stream = pd.DataFrame(
        {"passed": [True, True, False, None, True], "gold": [True, False, True, True, False]}
    )
    found = chart(stream, **SETTINGS)
    assert found["error"].tolist()[:3] == [False, True, True]
    assert pd.isna(found["error"].iloc[3])
    # the failed verdict leaves the chart where it was
    assert found["cusum"].tolist() == [0, 10, 20, 20, 30]
    assert "1 checks without a result skipped" in found["note"].iloc[0]


def test_checks_are_taken_in_the_order_of_their_time() -> None:
    times = pd.to_datetime(["2026-01-03", "2026-01-01", "2026-01-02"], utc=True)
    stream = pd.DataFrame({"error": [True, False, True], "graded_at": times})
    found = chart(stream, **SETTINGS)
    assert found["error"].tolist() == [False, True, True]
    assert found["time"].is_monotonic_increasing
    # a column of times in which none was recorded is none
    for other, how in (
        (stream.rename(columns={"graded_at": "time"}), {}),
        (stream, {"time": "graded_at"}),
        (stream.assign(time=pd.NaT), {}),
    ):
        pd.testing.assert_frame_equal(chart(other, **SETTINGS, **how), found)
    none = chart(stream.assign(graded_at=pd.NaT), **SETTINGS)
    assert none["error"].tolist() == [True, False, True]
    assert "no times: rows taken in the order" in none["note"].iloc[0]
    gaps = chart(stream.assign(graded_at=[pd.NaT, *times[1:]]), **SETTINGS)
    assert gaps["error"].tolist() == [False, True, True]
    assert "1 check without a time taken last" in gaps["note"].iloc[0]


def test_a_time_that_is_not_there_or_no_time_is_refused() -> None:
    stream = pd.DataFrame({"error": [True, False], "graded_at": ["10:00", "1:00"]})
    mixed = [pd.Timestamp("2026-01-03", tz="UTC"), pd.Timestamp("2026-01-01")]
    zones = pd.DataFrame({"error": [True, False], "time": pd.Series(mixed, dtype=object)})
    # as text 10:00 would stand before 1:00
    message = r"column 'graded_at': found '10:00'; allowed: times, dates or numbers"
    for frame, name, expected in (
        (stream, "gradet_at", r"'gradet_at'.*Did you mean 'graded_at'\?"),
        (stream, "graded_at", message),
        (zones, None, r"column 'time': .* no common order.*utc=True"),
    ):
        with pytest.raises(FrameError, match=expected):
            chart(frame, time=name, **SETTINGS)


def test_a_categorical_of_numbers_gives_the_order_of_its_values() -> None:
    batch = pd.Categorical([10, 1, 2, None], categories=[10, 2, 1], ordered=True)
    stream = pd.DataFrame({"error": [True, False, True, False], "batch": batch})
    found = chart(stream, time="batch", **SETTINGS)
    assert found["time"].tolist()[:3] == [1, 2, 10] and pd.isna(found["time"].iloc[3])
    assert found["error"].tolist() == [False, True, True, False]
    assert found["alarm_time"].isna().all()


def test_a_stream_without_an_alarm_says_so() -> None:
    found = chart(pd.DataFrame({"error": [False] * 30}), **SETTINGS)
    assert not found["alarm"].any()
    assert found["alarm_at"].isna().all() and found["alarm_time"].isna().all()
    stand = "no times: rows taken in the order in which they stand"
    assert found["note"].unique().tolist() == [f"no alarm in this stream; {stand}"]
    assert chart(pd.DataFrame({"error": []}), **SETTINGS).empty


def test_streams_are_kept_apart_and_never_pooled() -> None:
    stream = gold_stream(n=50, rise_at=None, n_streams=2)
    with pytest.raises(FrameError, match=r"several streams\. Add 'stream' to by="):
        chart(stream, **SETTINGS)
    assert chart(stream, by=["stream"], **SETTINGS).groupby("stream").size().tolist() == [50, 50]
    graders = stream.assign(grader=stream["stream"]).drop(columns="stream")
    with pytest.raises(FrameError, match="more than one grader"):
        chart(graders, **SETTINGS)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (
            pd.DataFrame({"error": ["no", "yes"]}),
            "column 'error': found 'no'; allowed: True, False",
        ),
        (pd.DataFrame({"passed": [True]}), "needs 'error', or 'passed' and 'gold'"),
        ([True], "expected a pandas DataFrame, found list"),
    ],
)
def test_what_is_no_truth_value_is_refused(stream: object, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        chart(stream, **SETTINGS)  # type: ignore[arg-type]


def charts(**how: object) -> pd.DataFrame:
    """One row per simulated stream."""
    return chart(gold_stream(**how), by=["stream"], **SETTINGS).drop_duplicates("stream")


def test_a_planted_rise_is_detected_within_the_expected_run_length() -> None:
    found = charts(n=400, rise_at=0, n_streams=60, seed=1)
    at = found["alarm_at"]
    assert at.notna().all()
    expected = float(found["arl_p1"].iloc[0])
    assert abs(float(at.mean()) - expected) < 3.5 * float(at.std()) / np.sqrt(len(at))
    assert expected < 40


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"p1": 0.05}, "p1 must be above p0"),
        ({"p0": "five"}, "p0='five'"),
    ],
)
def test_settings_without_a_chart_are_refused_with_what_is_allowed(
    setting: dict[str, object], message: str
) -> None:
    stream = pd.DataFrame({"error": [False, True]})
    settings: dict[str, object] = {"p0": 0.05, "p1": 0.15, "arl": 300} | setting
    with pytest.raises(FrameError, match=r"allowed: 0 < p0 < p1 < 1 and arl above 1") as error:
        chart(stream, **settings)  # type: ignore[arg-type]
    assert message in str(error.value)
