"""The estimates frame has one shape, and graders are never pooled silently."""

import math

import pandas as pd
import pytest

from skillcomp.errors import FrameError
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import (
    estimates,
    refuse_pooling,
    require_columns,
    row,
)
from skillcomp.stats.results import Interval, undefined

SHAPE = list(CONTRACTS["estimates"].columns)


def judged(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_the_columns_are_by_then_the_contract_then_the_diagnostics() -> None:
    found = Interval(0.5, 0.2, 0.8, method="Wilson", n=10, n_clusters=4, p_value=0.04)
    one = row("delta", found, skill="a", n_dropped=2)
    frame = estimates([one], by=["skill"], extra=["n_dropped"])
    assert list(frame.columns) == ["skill", *SHAPE, "n_dropped"]
    assert frame.loc[0, ["estimate", "ci_low", "ci_high", "ci_level"]].tolist() == [
        *(0.5, 0.2, 0.8, 0.95)
    ]
    assert (frame.loc[0, "n"], frame.loc[0, "n_clusters"], frame.loc[0, "n_dropped"]) == (10, 4, 2)
    assert (frame.loc[0, "method"], frame.loc[0, "p_value"]) == ("Wilson", 0.04)


def test_what_is_unknown_is_nan_with_its_note_and_a_note_is_never_missing() -> None:
    frame = estimates(
        [
            row("rate_passed", undefined("Wilson", "no cases", n=0)),
            row("rate_passed", Interval(0.5, 0.2, 0.8)),
        ],
        by=[],
    )
    assert frame.loc[0, ["estimate", "ci_low", "ci_high", "p_value", "p_adjusted"]].isna().all()
    assert frame["note"].tolist() == ["no cases", ""]
    assert frame.loc[0, "n"] == 0 and math.isnan(frame.loc[1, "n"])


def test_a_missing_column_is_named_with_the_nearest_one() -> None:
    message = r"rates: there is no column 'skil'; there: skill, n\. Did you mean 'skill'"
    with pytest.raises(FrameError, match=message):
        require_columns(judged(skill=["a"], n=[1]), ["skil"], "rates")
    require_columns(judged(skill=["a"]), [], "rates")


def test_altered_copies_are_never_taken_for_repeats() -> None:
    both = judged(grader=["g"] * 3, perturbation=["pad", None, "pad"])
    with pytest.raises(FrameError, match=r"deltas: .* altered copies .*perturbation: none, pad"):
        refuse_pooling(both, ["grader"], "deltas")
    refuse_pooling(both, ["grader", "perturbation"], "deltas")
    refuse_pooling(both, [], "bias", copies=False)
    for plain in (both[both["perturbation"].eq("pad")], both.drop(columns="perturbation")):
        refuse_pooling(plain, [], "deltas")
    # none and an empty text are the original answer, like a missing value
    for word in ("none", ""):
        refuse_pooling(judged(perturbation=[word, None, word]), [], "deltas")
        with pytest.raises(FrameError, match=r"perturbation: none, pad\)"):
            refuse_pooling(judged(perturbation=[word, None, "pad"]), [], "deltas")


def test_a_measure_of_ours_has_its_unit_and_any_other_measure_must_name_one():
    interval = undefined("", "none", ci_level=0.95, n=0)
    assert row("delta_passed", interval)["unit"] == "points"
    assert row("accuracy", interval, unit="rate")["unit"] == "rate"
    with pytest.raises(FrameError, match=r"'accuracy' has no unit\. Name it, such as unit='rate'"):
        row("accuracy", interval)
