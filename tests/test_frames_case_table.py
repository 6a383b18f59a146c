"""Clusters, columns that repeat a case, cases that skills share, and missing attempts."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from oracles.planned_attempts import lacking

import skillcomp as sc
from skillcomp.contrast import missing_attempts
from skillcomp.errors import FrameError
from skillcomp.report import answer
from skillcomp.stats.clusters_and_amounts import cr2_mean
from tests.reference_map import ENTRIES

LIMITS = ["estimate", "ci_low", "ci_high", "p_value", "n", "n_clusters"]


def study(baseline: list[int], skill: list[int], repeats: int = 1, **columns: Any) -> pd.DataFrame:
    """Outcomes of one entry per case and condition: how many of its repeats passed."""
    rows = [
        {"skill": "s", "case_id": f"{case}", "condition": condition, "repeat": repeat + 1}
        | {"grader": "g", "round": 1, "passed": repeat < n, "share_passed": float(repeat < n)}
        | {"attempt_id": f"{case}/{condition}/{repeat}", "transfer": "near" if case % 2 else "far"}
        for condition, side in (("baseline", baseline), ("skill", skill))
        for case, n in enumerate(side)
        for repeat in range(repeats)
    ]
    return pd.DataFrame(rows).assign(comprehension_dimension="C1", **columns)


def copied(frame: pd.DataFrame, column: str, values: list[Any]) -> pd.DataFrame:
    ids = frame["attempt_id"]
    copies = [frame.assign(**{column: v, "attempt_id": ids + f"/{v}"}) for v in values]
    return pd.concat(copies, ignore_index=True)


COPIES = {"agent": ["A", "B", "C"], "grader": ["g", "h"], "round": [1, 2], "run": ["x", "y"]}
ANALYSES: list[Any] = [sc.deltas.paired, sc.skillverdicts.decide]


@pytest.mark.parametrize("column", COPIES)
def test_rows_copied_under_another_agent_grader_round_or_run_never_narrow_an_interval(column):
    frame = study(*np.random.default_rng(2).integers(0, 3, (2, 12)).tolist(), repeats=2)
    several = copied(frame, column, COPIES[column])
    for analysis in ANALYSES if column == "agent" else ANALYSES[:1]:
        once, averaged = analysis(frame), analysis(several, average=[column])
        pd.testing.assert_frame_equal(once[LIMITS], averaged[LIMITS])
        averages = f"averaged over {len(COPIES[column])} {column}s within each case"
        assert averaged["note"].str.contains(averages).all()
        by = ["skill", column] if analysis is sc.skillverdicts.decide else [column]
        each = analysis(several, by=by)
        assert len(each) == len(COPIES[column]) * len(once)
        with pytest.raises(FrameError, match=rf"more than one .*{column}.*average=\['{column}'\]"):
            analysis(several)


def test_six_models_on_24_tasks_support_what_24_tasks_support() -> None:
    frame = study([0] * 24, [1] * 7 + [0] * 17)
    several = copied(frame, "agent", list("ABCDEF"))
    row = sc.deltas.paired(several, average="agent").iloc[0]
    assert (row["n"], row["n_clusters"]) == (24, 24)
    assert [round(float(row[end]), 2) for end in ("ci_low", "ci_high")] == [0.07, 0.50]
    two = several[several["agent"].isin(["A", "B"])]
    own = two.drop(columns=["comprehension_dimension", "transfer", "repeat"])
    made = sc.from_frame(own, case="case_id", agent="agent", attempt="attempt_id")
    page = answer(made)
    assert page.facts["cases"] == 24
    assert page.frames["decided"]["agent"].tolist() == ["A", "B"]
    assert page.frames["overall"]["n"].tolist() == [24]
    sentences = " ".join(page.findings["sentence"])
    assert "Over all agents (agents averaged within each case), with" in sentences
    assert "s (A)" in sentences and "s, A" not in sentences


def test_levels_are_paired_before_they_are_averaged_and_absent_ones_are_noted() -> None:
    # agent A: one case gains; agent B has no skill row of case 0 and gains in all others
    both = pd.concat(
        [
            study([0] * 6, [1] + [0] * 5, agent="A"),
            study([0] * 6, [0] + [1] * 5, agent="B").assign(
                attempt_id=lambda rows: "b" + rows["attempt_id"]
            ),
        ]
    )
    lost = both["agent"].eq("B") & both["case_id"].eq("0") & both["condition"].eq("skill")
    row = sc.deltas.paired(both[~lost], average=["agent"]).iloc[0]
    assert row["estimate"] == pytest.approx((1 + 5 * 0.5) / 6) and row["n_dropped"] == 0
    assert "1 case without some of them" in row["note"]
    # the missing attempt of B failed or passed: case 0 has 1/2 or 1
    assert row["worst_low"] == pytest.approx(3 / 6)
    assert row["worst_high"] == pytest.approx(3.5 / 6)
    amounts = both[~lost].assign(seconds=2.0, status="ok")
    assert sc.deltas.paired(amounts, value="seconds", average=["agent"])["n"].tolist() == [6] * 3


@pytest.mark.parametrize("name", ["cr2_mean_thyroids", "cr2_mean_psychiatry"])
def test_linked_cases_give_the_cr2_reference(name: str) -> None:
    entry = ENTRIES[name]
    cells = {"a": (1, 1), "b": (1, 0), "c": (0, 1), "d": (0, 0)}
    pairs = [
        (sides, patient)
        for cell, sides in cells.items()
        for patient, n in enumerate(entry["inputs"][cell])
        for _ in range(n)
    ]
    skill, baseline = ([sides[arm] for sides, _ in pairs] for arm in (0, 1))
    patients = [patient for _, patient in pairs]
    frame = study(baseline, skill, patient=[*patients, *patients]).assign(linked_by="patient")
    row = sc.deltas.paired(frame).iloc[0]
    assert [row["se"], row["df"]] == pytest.approx(entry["expected"]["CR2"], rel=1e-6)
    assert row["n_clusters"] == len(set(patients))


def test_clusters_of_a_column_merge_with_twins_and_a_missing_value_is_its_own() -> None:
    frame = study([0] * 8, [1, 0, 1, 1, 0, 1, 0, 1])
    frame["video"] = frame["case_id"].map({"0": "x", "1": "x", "2": "y", "3": "y"})
    frame["linked_by"] = "video"
    frame["contrast_of"] = frame["case_id"].map({"4": "1", "5": "6"})
    labels = [0, 0, 1, 1, 0, 2, 2, 3]  # 4 is a twin of 1, whose video 0 has, too
    row = sc.deltas.paired(frame).iloc[0]
    expected = cr2_mean([1, 0, 1, 1, 0, 1, 0, 1], labels)
    assert (row["se"], row["df"]) == pytest.approx((expected.se, expected.df))
    assert row["n_clusters"] == 4 and "one cluster has 38 % of the weight" in row["note"]
    rates = sc.deltas.rates(frame).set_index("condition")
    assert rates.loc["skill", "n_clusters"] == 4
    assert sc.skillverdicts.decide(frame)["n_clusters"].tolist() == [4]
    with pytest.raises(FrameError, match=r"cluster: found 'video'; allowed: .* of from_frame"):
        sc.deltas.paired(frame, cluster="video")


def five_skills() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    parts = []
    for skill in "abcde":
        sides = (rng.random((2, 20)) < [[0.3], [0.6]]).astype(int)
        parts.append(study(*sides.tolist()).assign(skill=skill))
    frame = pd.concat(parts, ignore_index=True)
    ids = frame["skill"] + "/" + frame["attempt_id"]
    return frame.assign(attempt_id=ids, n_words=rng.integers(20, 40, len(frame)))


@pytest.mark.parametrize(
    "analysis", [sc.deltas.paired, sc.deltas.rates, partial(sc.deltas.paired, value="n_words")]
)
def test_cases_of_one_name_under_several_skills_need_a_statement(analysis: Any) -> None:
    frame = five_skills()
    shared = analysis(frame.assign(task=frame["case_id"]))
    apart = analysis(frame.assign(task=frame["skill"] + "/" + frame["case_id"]))
    with pytest.raises(FrameError, match=r"skills 'a' and 'b' both have a case .*shared_cases="):
        analysis(frame)
    assert shared["n_clusters"].max() == 20 and apart["n_clusters"].max() == 100
    assert analysis(frame, by=["skill"])["n_clusters"].eq(20).any()
    half = frame.assign(task=frame["case_id"].where(frame["skill"].eq("a")))
    with pytest.raises(FrameError, match="both have a case"):
        analysis(half)


def test_two_skills_with_identical_rows_are_refused() -> None:
    frame = five_skills()
    other = frame.assign(skill=frame["skill"] + "2", attempt_id=frame["attempt_id"] + "2")
    both = pd.concat([frame, other.sample(frac=1, random_state=1)])
    own = frame.assign(task=frame["skill"] + frame["case_id"])
    of_skills = sc.deltas.paired(own, cluster="skill")["note"][0]
    assert "5 skills can show 64 points in 9 of 10 studies" in of_skills
    with pytest.raises(FrameError, match="skills 'a' and 'a2' have identical rows"):
        sc.deltas.paired(both)
    lost = both.assign(passed=pd.array([pd.NA] * len(both), dtype="boolean"))
    lost = sc.deltas.paired(lost.assign(task=both["skill"] + both["case_id"]))
    assert lost["note"].str.contains("no case has outcomes").all()  # equal, but no copies
    own = both[["skill", "case_id", "condition", "passed"]]
    with pytest.raises(FrameError, match=r"skills 'a' and 'a2' .*shared_cases=False if"):
        sc.from_frame(own, case="case_id")
    stated = sc.from_frame(own, case="case_id", shared_cases=True).outcomes
    once = sc.from_frame(own[own["skill"].str.len().eq(1)], case="case_id", shared_cases=True)
    row, original = (
        sc.deltas.paired(rows, interval="bounded").iloc[0] for rows in (stated, once.outcomes)
    )
    assert row[["ci_low", "ci_high"]].tolist() == original[["ci_low", "ci_high"]].tolist()


@pytest.mark.parametrize("average", [["skill"], ["condition"], ["nope"], ["rate"]])
def test_a_column_that_cannot_be_averaged_is_refused(average: list[str]) -> None:
    frame = study([0] * 6, [1] * 6, rate=1)
    with pytest.raises(FrameError, match=rf"average= names '{average[0]}'|no column 'nope'"):
        sc.deltas.paired(frame, average=average)
    with pytest.raises(FrameError, match="by= names it, too"):
        sc.deltas.paired(frame.assign(agent="A"), by=["agent"], average=["agent"])


def test_a_case_that_holds_more_than_a_fifth_of_the_weight_is_noted() -> None:
    frame = study([0] * 12, [1] * 6 + [0] * 6)
    frame["heavy"] = np.where(frame["case_id"].eq("0"), 5.0, 1.0)
    assert "one case has 31 % of the weight" in sc.deltas.paired(frame, weight="heavy")["note"][0]
    assert sc.deltas.paired(frame)["note"][0] == ""


def test_an_agent_or_a_skill_without_any_rows_under_a_condition_is_missing_there() -> None:
    frame = copied(study([0] * 14, [1] * 14), "agent", ["m1", "m2"])
    lost = frame["agent"].eq("m2") & frame["condition"].eq("skill")
    rows = sc.deltas.paired(frame[~lost], by=["agent"]).set_index("agent")
    assert rows["n_missing"].to_dict() == {"m1": 0, "m2": 14}
    assert sc.skillverdicts.decide(frame[~lost], average=["agent"])["n_missing"].tolist() == [14]
    other = study([0] * 6, []).assign(skill="b", attempt_id=[f"b{k}" for k in range(6)])
    both = pd.concat([study([0] * 14, [1] * 14), other], ignore_index=True)
    rows = sc.deltas.paired(both, by=["skill"]).set_index("skill")
    assert rows["n_missing"].to_dict() == {"b": 6, "s": 0} and np.isnan(rows.loc["b", "estimate"])
    # batches of one condition each were never planned to hold the other
    apart = frame[frame["agent"].eq("m1")].assign(batch=lambda rows: rows["condition"].str[0])
    rates = sc.deltas.rates(apart, by=["batch"])
    assert len(rates) == 2 and not rates["n_missing"].any()


@pytest.mark.parametrize("side", ["baseline", "skill"])
def test_a_case_tried_more_often_makes_no_attempts_missing_in_the_others(side: str) -> None:
    frame = study([0] * 30, [13] * 30, repeats=13)
    often = frame["case_id"].eq("0") & (frame["condition"].eq(side) | (frame["repeat"] <= 7))
    few = frame["repeat"] <= 3
    row = sc.deltas.paired(frame[often | few]).iloc[0]
    # only the case itself lacks the six attempts that it has under one condition
    assert sorted(row[["n_missing", "n_missing_reference"]]) == [0, 6]
    even = frame[few | frame["case_id"].eq("0")]
    assert not sc.deltas.paired(even)[["n_missing", "n_missing_reference"]].any(axis=None)
    gone = frame["condition"].eq(side) & frame["case_id"].eq("1")
    row = sc.deltas.paired(frame[few & ~gone]).iloc[0]
    assert sorted(row[["n_missing", "n_missing_reference"]]) == [0, 3]
    assert (row["n_attempts"], row["n_attempts_reference"]) == (90, 90)


def made(table: np.ndarray, conditions: tuple[str, ...] = ("baseline", "skill")) -> pd.DataFrame:
    """Outcomes with as many attempts at each case (row) under each condition as the table says."""
    case, condition = np.nonzero(table)
    times = table[case, condition]
    rows = {"skill": "s", "case_id": case.repeat(times), "passed": True}
    frame = pd.DataFrame(rows | {"condition": np.array(conditions)[condition].repeat(times)})
    repeat = frame.groupby(["case_id", "condition"]).cumcount() + 1
    return frame.assign(case_id=frame["case_id"].astype("str"), repeat=repeat)


def n_missing(frame: pd.DataFrame, **how: Any) -> list[int]:
    counts = sc.deltas.paired(frame, **how)[["n_missing", "n_missing_reference"]]
    return counts.sum().tolist()


def test_the_missing_attempts_are_those_of_the_plan_with_the_fewest_losses() -> None:
    rng = np.random.default_rng(6)
    for number in range(300):
        n_cases, n_conditions = rng.integers(1, 20), rng.integers(1, 4)
        shapes = [(n_cases, 1), (1, n_conditions), (1, 1)]
        plan = rng.integers(1, 6, shapes[number % 3])
        losses = rng.choice([0.0, 0.05, 0.2, 0.5])
        table = rng.binomial(np.broadcast_to(plan, (n_cases, n_conditions)), 1 - losses)
        table = table[table.sum(axis=1) > 0]
        if len(table):
            assert missing_attempts(table).tolist() == lacking(table.tolist())


def test_nothing_is_missing_that_was_not_planned() -> None:
    uneven = np.repeat([[3, 3], [5, 5], [1, 1]], [15, 3, 2], axis=0)
    assert n_missing(made(uneven)) == [0, 0]
    by_arm = np.repeat([[3, 1], [6, 2]], [12, 4], axis=0)
    assert n_missing(made(by_arm)) == [0, 0]
    # one skill may have another plan than the next
    other = made(np.full((6, 2), 2)).assign(skill="t", case_id=lambda rows: "t" + rows["case_id"])
    assert n_missing(pd.concat([made(uneven), other])) == [0, 0]


def test_lost_attempts_and_a_half_finished_arm_are_seen() -> None:
    one_arm = np.full((20, 2), 3)
    one_arm[:4, 1] = 2
    assert n_missing(made(one_arm)) == [4, 0]
    half = np.full((20, 2), 3)
    half[8:, 1] = 1
    assert n_missing(made(half)) == [24, 0]
    # the groups of `by` are facts of the case and do not change the plan
    frame = made(half).assign(
        transfer=lambda rows: np.where(rows["case_id"].eq("0"), "far", "near")
    )
    assert n_missing(frame, by=["transfer"]) == [24, 0]
    assert n_missing(frame.assign(own=frame["case_id"]), by=["own"]) == [24, 0]
    # conditions without an attempt at a case, other than baseline and skill, were not planned
    three = np.column_stack([half, np.where(np.arange(20) < 5, 3, 0)])
    frame = made(three, ("baseline", "skill", "placebo"))
    counts = sc.deltas.paired(frame).set_index("condition")[["n_missing", "n_missing_reference"]]
    assert counts.loc["skill"].tolist() == [24, 0] and not counts.loc["placebo"].any()


def test_a_plan_decides_what_is_missing() -> None:
    half = np.full((20, 2), 3)
    half[8:, 1] = 1
    half[0, 0] = 0
    own = made(half)
    cells = own[["skill", "case_id", "condition", "repeat"]]
    read = partial(sc.from_frame, own, case="case_id", passed="passed", repeat="repeat")
    assert n_missing(read().outcomes) == [24, 3]
    # with exactly the recorded rows planned, nothing is missing
    recorded = read(asked=cells)
    assert n_missing(recorded.outcomes) == [0, 0]
    assert sc.skillverdicts.decide(recorded.outcomes)["n_missing"].tolist() == [0]
    amounts = recorded.attempts.assign(seconds=1.0)
    assert n_missing(amounts, value="seconds") == [0, 0]
    page = answer(read(), asked=cells).frames["decided"]
    assert page["n_missing"].tolist() == [0]
    # of the other attempts, exactly the planned ones are
    more = cells[cells["case_id"].eq("9")].assign(condition="skill").iloc[:2]
    asked = pd.concat([cells, more]).drop_duplicates()
    assert n_missing(read(asked=asked).outcomes) == [1, 0]
