"""Checks that some attempts lack: stopped graders, checks of one condition, lost rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.contrast import attempt_bounds
from skillcomp.errors import FrameError


def studies(
    rates: Mapping[str, Mapping[str, float]],
    n_cases: int,
    *,
    stops: bool = False,
    lost: float | Mapping[str, float] = 0.0,
    own_ids: Sequence[str] = (),
    n: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate studies, one per grader: the pass rates of the checks of each condition, in order.

    A grader that ``stops`` gives no row after the first fail. A share ``lost`` of the rows is
    absent. ``own_ids`` are checks whose id differs from case to case.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for condition, by_check in rates.items():
        names = np.array(list(by_check))
        passed = rng.random((n * n_cases, len(names))) < list(by_check.values())
        there = rng.random(passed.shape) >= (lost if isinstance(lost, float) else lost[condition])
        if stops:
            there[:, 1:] &= np.cumprod(passed[:, :-1], axis=1).astype(bool)
        place, check = np.nonzero(there)
        case = pd.Series(place % n_cases).astype(str)
        grader = pd.Series(place // n_cases).astype(str)
        ids = pd.Series(names[check])
        rows = {
            "attempt_id": condition + "/" + case + "/" + grader,
            "skill": "s",
            "case_id": "s/" + case,
            "condition": condition,
            "check_id": ids.where(~ids.isin(own_ids), ids + case),
            "grader": "g" + grader,
            "passed": passed[place, check],
        }
        parts.append(pd.DataFrame(rows))
    return pd.concat(parts).sample(frac=1.0, random_state=seed).reset_index(drop=True)


def rates_of(outcomes: pd.DataFrame) -> list[float]:
    means = outcomes.groupby("condition")["passed"].mean()
    return [float(means["baseline"]), float(means["skill"])]


def two(
    baseline: Mapping[str, float], skill: Mapping[str, float]
) -> dict[str, Mapping[str, float]]:
    return {"baseline": baseline, "skill": skill}


AB = {"a": 0.75, "b": 0.8}  # .60
PLUGIN = two({"criteria": 0.6}, {"criteria": 0.6, "fired": 1.0})


def test_a_check_of_one_condition_is_refused_and_its_rates_can_be_read() -> None:
    verdicts = studies(PLUGIN, 200)
    outcomes = sc.frames.outcomes(verdicts)
    assert outcomes["checks_differ"].all() and outcomes["passed"].notna().all()
    assert "different checks: 'fired' not under baseline (200 cases)" in outcomes["note"][0]
    assert rates_of(outcomes) == rates_of(sc.frames.outcomes(verdicts, checks="shared"))
    assert "'fired' not under baseline" in sc.deltas.rates(outcomes)["note"][0]
    # before: +.60 on about 80 cases, "teaching"
    for compare in (sc.deltas.paired, sc.skillverdicts.decide, sc.skillverdicts.cases):
        with pytest.raises(FrameError, match=r"'fired' not under baseline \(200 cases\).*'shared'"):
            compare(outcomes)
    with pytest.raises(FrameError, match="different checks"):
        sc.planning.variance_components(outcomes)
    gold = verdicts.head(50)[["attempt_id", "check_id", "passed"]].assign(labeller="adjudicated")
    with pytest.raises(FrameError, match=r"correction.delta: .*'fired' not under baseline"):
        sc.correction.delta(verdicts, gold)
    fixed = sc.correction.delta(verdicts, gold, value="passed", checks="shared")
    shared = sc.deltas.paired(sc.frames.outcomes(verdicts, checks="shared"))
    assert fixed["estimate"][0] == pytest.approx(shared["estimate"][0])
    assert "left out: 'fired'" in shared["note"][0] and "left out" in fixed["note"][0]


def test_every_entry_takes_shared_checks() -> None:
    verdicts = studies(PLUGIN, 30)
    made = sc.from_frame(
        verdicts, case="case_id", check="check_id", grader="grader", checks="shared"
    )
    assert not made.outcomes["checks_differ"].any()
    with pytest.raises(
        sc.errors.StudyError, match=r"different checks.*checks='shared' compares only"
    ):
        sc.report.answer(made)
    decided = sc.report.answer(made, checks="shared").frames["decided"]
    assert decided["estimate"][0] == pytest.approx(sc.deltas.paired(made.outcomes)["estimate"][0])
    with pytest.raises(
        FrameError, match=r"checks: found 'share'; allowed: .*Did you mean 'shared'"
    ):
        sc.frames.outcomes(verdicts, checks="share")  # type: ignore[arg-type]


@pytest.mark.parametrize("n_checks", [2, 3])
@pytest.mark.parametrize("lost", [0.0, 0.01])
def test_a_grader_that_stops_at_the_first_fail_keeps_its_rates(n_checks: int, lost: float) -> None:
    rates = [dict.fromkeys("abc"[:n_checks], rate ** (1 / n_checks)) for rate in (0.63, 0.81)]
    outcomes = sc.frames.outcomes(studies(two(*rates), 3000, stops=True, lost=lost))
    assert rates_of(outcomes) == pytest.approx([0.63, 0.81], abs=0.02)
    assert not outcomes["checks_differ"].any()
    assert "stopped at the first fail in" in sc.deltas.paired(outcomes)["note"][0]
    with pytest.raises(FrameError, match="Use value='passed'"):
        sc.deltas.paired(outcomes, value="share_passed")


SIZES = [(1500, 0.05), pytest.param(40_000, 0.01, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("n_cases", "margin"), SIZES)
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("skill", [{**AB, "x": 1.0}, {"x": 0.7, **AB}, {**AB, "x": 0.7}])
def test_shared_checks_show_no_difference_where_there_is_none(skill, stops, n_cases, margin):
    verdicts = studies(two(AB, skill), n_cases, stops=stops)
    baseline, with_skill = rates_of(sc.frames.outcomes(verdicts, checks="shared"))
    assert with_skill - baseline == pytest.approx(0.0, abs=margin)


def test_a_grader_that_stops_between_shared_checks_is_refused() -> None:
    between = studies(two(AB, {"a": 0.75, "x": 0.7, "b": 0.8}), 300, stops=True)
    with pytest.raises(FrameError, match="stopped at a check that not every condition was asked"):
        sc.frames.outcomes(between, checks="shared")
    # which check an attempt would have been asked is unknown if its id occurs in one case only
    own = studies(two(AB, {**AB, "x": 0.7}), 300, stops=True, own_ids=["a", "b", "x"])
    assert sc.frames.outcomes(own)["checks_differ"].any()
    with pytest.raises(FrameError, match="different checks of the case alone"):
        sc.frames.outcomes(own, checks="shared")


def share_refused(verdicts: pd.DataFrame) -> float:
    outcomes = sc.frames.outcomes(verdicts)
    return float(outcomes.groupby("grader")["checks_differ"].any().mean())


def test_lost_rows_are_not_refused_and_a_check_of_one_condition_is() -> None:
    assert share_refused(studies(two(AB, AB), 40, lost=0.01, n=60)) < 0.01
    for fired in (1.0, 0.7):
        plugin = two(PLUGIN["baseline"], {"criteria": 0.6, "fired": fired})
        assert share_refused(studies(plugin, 10, n=40)) > 0.99
        assert share_refused(studies(plugin, 20, stops=True, n=40)) > 0.99


def test_rows_absent_at_random_do_not_look_like_a_grader_that_stops() -> None:
    lost = {"baseline": 0.3, "skill": 0.0}
    checks = dict.fromkeys("abc", 0.8)
    outcomes = sc.frames.outcomes(studies(two(checks, checks), 100, lost=lost, n=30))
    assert not outcomes["note"].str.contains("stopped").any()


def test_a_verdict_without_a_result_makes_the_outcome_unknown() -> None:
    verdicts = studies(two(dict.fromkeys("abcde", 0.9), dict.fromkeys("abcde", 0.9)), 4000)
    broken = verdicts["condition"].eq("baseline") & (np.random.default_rng(1).random(40_000) < 0.08)
    verdicts = verdicts.assign(
        passed=verdicts["passed"].astype("boolean").mask(broken),
        status=np.where(broken, "error", "ok"),
    )
    baseline, skill = rates_of(sc.frames.outcomes(verdicts))
    assert skill - baseline == pytest.approx(0.0, abs=0.03)  # before: +.086


def test_bounds_of_an_attempt_use_the_checks_with_a_verdict() -> None:
    rows = {
        "skill": "s",
        "case_id": list("abcd"),
        "condition": "skill",
        "n_checks": [2, 2, 2, None],
    }
    rows |= {"passed": [True, None, None, None], "n_passed": [2, 1, 0, None]}
    outcomes = sc.frames.check(pd.DataFrame(rows | {"n_missing": [0, 1, 1, None]}), "outcomes")
    low, high = attempt_bounds(outcomes, "passed")
    assert low.tolist() == [1, 0, 0, 0] and high.tolist() == [1, 1, 0, 1]
    low, high = attempt_bounds(outcomes, "share_passed")
    assert low.tolist() == [1, 0.5, 0, 0] and high.tolist() == [1, 1, 0.5, 1]


def test_bounds_of_a_share_count_checks_by_their_weights() -> None:
    rows = {"skill": "s", "case_id": "a", "condition": "skill", "attempt_id": "a", "grader": "g"}
    rows |= {"check_id": ["x", "y"], "check_weight": [3.0, 1.0], "passed": [None, True]}
    outcomes = sc.frames.outcomes(pd.DataFrame(rows | {"status": ["error", "ok"]}))
    low, high = attempt_bounds(sc.frames.check(outcomes, "outcomes"), "share_passed")
    assert (low.tolist(), high.tolist()) == ([0.25], [1.0])


def test_a_case_without_a_shared_check_is_dropped_and_counted() -> None:
    verdicts = studies(two(AB, AB), 20)
    other = verdicts["case_id"].isin(["s/1", "s/2"]) & verdicts["condition"].eq("skill")
    verdicts["check_id"] = verdicts["check_id"].mask(other, verdicts["check_id"] + "2")
    shared = sc.frames.outcomes(verdicts, checks="shared")
    assert shared["case_id"].nunique() == 18
    assert "2 cases without a shared check" in shared["note"][0]


def test_graders_of_different_checks_each_have_outcomes() -> None:
    table = studies(two(AB, AB), 20).assign(grader=lambda rows: "grader of " + rows["check_id"])
    made = sc.from_frame(table, case="case_id", check="check_id", grader="grader")
    assert made.outcomes["passed"].notna().all() and not made.outcomes["checks_differ"].any()


def test_weights_of_checks_count_in_the_share_passed() -> None:
    verdicts = studies(two(AB, AB), 5).assign(
        check_weight=lambda t: t["check_id"].map({"a": 3, "b": 1})
    )
    outcomes = sc.frames.outcomes(verdicts)
    first = verdicts[verdicts["attempt_id"].eq(outcomes["attempt_id"][0])]
    share = np.average(first["passed"], weights=first["check_weight"])
    assert outcomes["share_passed"][0] == pytest.approx(share)
    with pytest.raises(FrameError, match=r"check_weight: found -1.0 .*at least 0"):
        sc.frames.outcomes(verdicts.assign(check_weight=-1.0))


def test_the_notes_of_a_skill_count_only_its_own_attempts() -> None:
    rates = {name: {"a": 0.5, "b": 0.5} for name in ("baseline", "skill")}
    first = studies(rates, 20, lost=0.3)
    other = first.assign(skill="t", case_id=first["case_id"].str.replace("s/", "t/"))
    other["attempt_id"] = "t" + other["attempt_id"]
    for checks in ("all", "shared"):
        alone = sc.frames.outcomes(first, checks=checks)["note"]
        both = sc.frames.outcomes(pd.concat([first, other]), checks=checks)
        assert alone.ne("").any()
        notes = both.loc[both["skill"].eq("s"), "note"]
        assert notes.str.replace(" of s", "").tolist() == alone.tolist()
