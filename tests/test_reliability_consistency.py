from itertools import product

import numpy as np
import pandas as pd
import pytest
from build import verdicts

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import consistency

Passed = bool | None


def regraded(*rounds: list[Passed], checks: int = 1) -> pd.DataFrame:
    parts = [verdicts(passed, checks=checks, round=k) for k, passed in enumerate(rounds, start=1)]
    return pd.concat(parts)


def measures(frame: pd.DataFrame) -> pd.DataFrame:
    return consistency(frame, n_resamples=99).set_index("measure")


def test_the_flip_rate_counts_verdicts_that_changed_on_a_second_grading() -> None:
    table = measures(regraded([True] * 12 + [False] * 8, [True] * 9 + [False] * 11, checks=2))
    estimate = table["estimate"]
    assert estimate["flip_rate"] == pytest.approx(3 / 20)
    # flips at items 9, 10, 11: one of two checks in case 4, both in case 5; 10 cases
    assert estimate["case_flip_rate"] == pytest.approx((0.5 + 1.0) / 10)
    # the attempts of cases 4 and 5 passed before and fail now
    assert estimate["attempt_flip_rate"] == pytest.approx(2 / 10)
    assert estimate["pass_rate_change"] == pytest.approx(-3 / 20)
    assert estimate["raw_agreement"] == pytest.approx(17 / 20)
    assert set(table["n_rounds"]) == {2}


def test_a_grader_without_a_second_grading_has_nan_and_a_note() -> None:
    table = measures(verdicts([True] * 4))
    assert table["estimate"].isna().all()
    assert table["note"].str.contains("nothing was graded twice").all()


def test_three_rounds_have_alpha_and_no_kappa() -> None:
    table = measures(regraded([True, False] * 8, [True, True] * 8, [False, False] * 8))
    assert "kappa compares two raters" in table.loc["cohen_kappa", "note"]
    assert np.isfinite(table.loc["krippendorff_alpha", "estimate"])
    assert table.loc["flip_rate", "estimate"] == 1.0
    assert set(table["n_rounds"]) == {3}


def test_a_failed_regrade_is_not_a_flip() -> None:
    rate = measures(regraded([True] * 12, [None] * 4 + [True] * 8)).loc["flip_rate"]
    assert (rate["estimate"], rate["n"]) == (0, 8)
    gap = measures(regraded([True, True], [True, None], [None, True])).loc["attempt_flip_rate"]
    assert "no attempt has the same checks decided in all rounds" in gap["note"]


def test_versions_are_not_taken_for_rounds() -> None:
    both = [verdicts([True] * 4, grader_version=str(k), round=k) for k in (1, 2)]
    with pytest.raises(FrameError, match="more than one grader_version"):
        consistency(pd.concat(both))
    with pytest.raises(FrameError, match="by= names 'round'"):
        consistency(both[0], by="round")


def test_the_pilot_retest_flips_four_of_817_verdicts(pilot: sc.RunStore) -> None:
    rows = sc.frames.verdicts(pilot, round="all")
    rate = measures(rows[rows["grader"].eq("g2")]).loc["flip_rate"]
    assert (rate["n"], round(rate["estimate"] * rate["n"])) == (817, 4)


def test_failed_regrades_are_counted_with_reasons_and_bound_every_rate() -> None:
    # 60 items graded three times; in 40 the second and the third reply are malformed
    again: list[Passed] = [True] * 20 + [None] * 40
    rows = regraded([True] * 60, again, again)
    table = measures(rows)
    row = table.loc["flip_rate"]
    assert row[["estimate", "n", "n_missing", "worst_low"]].tolist() == [0, 20, 40, 0]
    assert row["worst_high"] == pytest.approx(2 / 3)
    assert "40 items left out, without verdicts in two rounds" in row["note"]
    assert "verdicts missing: 80 malformed" in row["note"]
    assert "in the worst case it is 0.00 or 0.67" in row["note"]
    # two of three rounds may differ from the first: one pair of three agrees
    assert table.loc["raw_agreement", "worst_low"] == pytest.approx((20 + 40 / 3) / 60)
    assert table.loc["pass_rate_change", "worst_low"] == pytest.approx(-2 / 3)
    assert table.loc["attempt_flip_rate", "n_missing"] == 40


def test_the_bounds_are_reached_by_the_verdicts_that_are_missing() -> None:
    # every completion of the missing verdicts of two checks in three cases
    full = [[True, True, False, True, False, False], [True, False, False, True, True, False]]
    holes = [(0, 1), (1, 2), (1, 5)]
    lost = [
        [None if (r, k) in holes else v for k, v in enumerate(row)] for r, row in enumerate(full)
    ]
    bounds = measures(regraded(*lost, checks=2))
    estimates = []
    for values in product([True, False], repeat=len(holes)):
        for (r, k), value in zip(holes, values, strict=True):
            full[r][k] = value
        estimates.append(measures(regraded(*full, checks=2))["estimate"])
    extremes = pd.concat(estimates, axis=1).agg(["min", "max"], axis=1)
    for name in ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change"):
        ends = bounds.loc[name, ["worst_low", "worst_high"]].tolist()
        assert ends == pytest.approx(extremes.loc[name].tolist()), name
    ends = bounds.loc["raw_agreement", ["worst_low", "worst_high"]].tolist()
    assert ends == pytest.approx(extremes.loc["raw_agreement"].tolist())


def test_items_of_one_round_are_named_and_agents_are_never_pooled() -> None:
    rows = regraded([True, False] * 10, [True] * 20)
    half = rows[rows["round"].eq(1) | rows["case_id"].isin([f"s/{k}" for k in range(8)])]
    note = measures(half).loc["flip_rate", "note"]
    assert "12 items graded in one round only" in note
    other = rows.assign(agent="b", attempt_id=rows["attempt_id"] + "/b", passed=True)
    both = pd.concat([rows.assign(agent="a"), other])
    with pytest.raises(FrameError, match=r"more than one agent: a, b.*average=\['agent'\]"):
        consistency(both)
    own = consistency(both, by=["grader", "agent"], n_resamples=9).set_index(["agent", "measure"])
    assert own["estimate"]["a", "flip_rate"] == 0.5 and own["estimate"]["b", "flip_rate"] == 0
    together = consistency(both, average=["agent"], n_resamples=9).set_index("measure")
    row = together.loc["flip_rate"]
    assert row[["estimate", "n", "n_clusters"]].tolist() == [0.25, 40, 20]
    assert "2 agents together" in row["note"]
