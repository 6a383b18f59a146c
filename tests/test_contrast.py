"""Contrasts of agents, graders and rounds on the same cases."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

import skillcomp as sc
from skillcomp.contrast import Contrast, Units, between, case_table
from skillcomp.errors import FrameError
from skillcomp.stats.bounded import DELTAS, Arm, Quantity, Sample, bounded_mean, bounded_means


def study(passes: dict[tuple[str, str], list[int]], k: int = 2) -> pd.DataFrame:
    """Passes of ``k`` attempts by agent and condition, one number per case."""
    rows = [
        {
            "skill": "s",
            "case_id": f"s/{case}",
            "agent": agent,
            "condition": condition,
            "repeat": repeat + 1,
            "grader": "g",
            "passed": repeat < n,
        }
        for (agent, condition), numbers in passes.items()
        for case, n in enumerate(numbers)
        for repeat in range(k)
    ]
    return pd.DataFrame(rows).astype({"passed": "boolean"})


TWO = {
    ("ada", "baseline"): [0, 1, 0, 0, 2, 1, 0, 0],
    ("ada", "skill"): [2, 2, 1, 2, 2, 2, 1, 0],
    ("bo", "baseline"): [0, 0, 1, 0, 2, 1, 1, 0],
    ("bo", "skill"): [1, 0, 1, 1, 2, 2, 1, 0],
}


def test_a_difference_of_deltas_is_computed_within_the_case() -> None:
    row = sc.deltas.contrast(study(TWO), between="agent").iloc[0]
    arms = {name: np.array(numbers) / 2 for name, numbers in TWO.items()}
    deltas = {a: arms[a, "skill"] - arms[a, "baseline"] for a in ("ada", "bo")}
    values = deltas["bo"] - deltas["ada"]  # -.5 -.5 -.5 -.5 0 0 -.5 0
    assert (row["agent"], row["reference"], row["condition"]) == ("bo", "ada", "skill")
    assert row["measure"] == "difference_passed" and row["unit"] == "points"
    assert row["estimate"] == pytest.approx(-2.5 / 8) and row["n"] == 8
    assert row["rate"] == pytest.approx(deltas["bo"].mean())
    assert row["reference_rate"] == pytest.approx(deltas["ada"].mean())
    quantity = Quantity(-2, 2, DELTAS.c)
    signs = {("bo", "skill"): 1, ("bo", "baseline"): -1, ("ada", "skill"): -1}
    four = [Arm(rates, np.full(8, 2), signs.get(name, 1)) for name, rates in arms.items()]
    (limits,) = bounded_means([Sample(values, None, None, four)], quantity=quantity, null=0.0)
    assert row["ci_low"] == pytest.approx(limits.low)
    assert row["ci_high"] == pytest.approx(limits.high)
    # the p-value of one row is that of the t test, which is far smaller; the interval must agree
    assert row["p_value"] == row["p_adjusted"] == pytest.approx(ttest_1samp(values, 0).pvalue)
    assert row["p_value"] < 0.05 < limits.p_value and not row["shown"]
    assert row["reference_condition"] == "baseline" and row["n_missing"] == 0
    bounded = sc.deltas.contrast(study(TWO), between="agent", interval="bounded").iloc[0]
    plain = bounded_mean(values, quantity=quantity)
    assert [bounded["ci_low"], bounded["ci_high"]] == pytest.approx([plain.low, plain.high])
    assert row["method"] == "adaptive bounded mean, c = 0.75; p: CR2 t"


def test_rates_under_a_condition_equal_a_paired_delta_of_levels_as_conditions() -> None:
    frame = study(TWO)
    row = sc.deltas.contrast(frame, between="agent", condition="skill").iloc[0]
    alone = frame[frame["condition"].eq("skill")]
    alone = alone.assign(condition=alone["agent"]).drop(columns="agent")
    paired = sc.deltas.paired(alone, reference="ada").iloc[0]
    same = ["measure", "estimate", "ci_low", "ci_high", "p_value", "rate", "reference_rate", "n"]
    assert row[same].to_list() == paired[same].to_list()
    assert pd.isna(row["reference_condition"])


def test_pairs_of_levels_are_adjusted_by_holm_and_do_not_depend_on_the_order_of_rows() -> None:
    frame = study({**TWO, ("cy", "baseline"): [0] * 8, ("cy", "skill"): [2] * 8})
    rows = sc.deltas.contrast(frame, between="agent")
    assert rows[["agent", "reference"]].to_numpy().tolist() == [
        ["bo", "ada"],
        ["cy", "ada"],
        ["cy", "bo"],
    ]
    p = np.sort(rows["p_value"])
    expected = np.minimum(np.maximum.accumulate(p * [3, 2, 1]), 1.0)
    assert np.sort(rows["p_adjusted"]) == pytest.approx(expected)
    shuffled = sc.deltas.contrast(frame.sample(frac=1, random_state=1), between="agent")
    pd.testing.assert_frame_equal(rows, shuffled)


def test_missing_outcomes_are_dropped_counted_and_bounded() -> None:
    frame = study(TWO)
    lost = frame["agent"].eq("bo") & frame["condition"].eq("skill") & frame["case_id"].eq("s/0")
    frame["passed"] = frame["passed"].mask(lost)
    row = sc.deltas.contrast(frame, between="agent").iloc[0]
    assert row["n"] == 7 and row["n_dropped"] == 1
    assert row["n_missing"] == 2 and row["n_attempts"] == 32 and row["n_missing_reference"] == 0
    # the lost case passes 0 or 2 of 2: the whole contrast is -12/16 + 0 or 1 in that case
    complete = [
        sc.deltas.contrast(
            study(TWO | {("bo", "skill"): [n, *TWO["bo", "skill"][1:]]}), between="agent"
        ).iloc[0]["estimate"]
        for n in (0, 2)
    ]
    assert [row["worst_low"], row["worst_high"]] == pytest.approx(complete)
    assert "attempts missing: 2 of 32 under bo, 0 of 32 under ada" in row["note"]
    # without any row of the case under the skill, its attempts are missing as well
    absent = sc.deltas.contrast(frame[~lost], between="agent").iloc[0]
    assert absent[["n", "n_dropped", "n_missing"]].to_list() == [7, 1, 2]


def test_different_cases_are_refused_and_named() -> None:
    frame = study(TWO)
    other = frame["agent"].eq("bo") & frame["case_id"].isin(["s/1", "s/6"])
    with pytest.raises(
        FrameError,
        match=r"different cases were asked .* only agent 'ada': 2 cases "
        r"\(s/1, s/6\).*deltas.rates with by=",
    ):
        sc.deltas.contrast(frame[~other], between="agent")
    shared = frame[~frame["case_id"].isin(["s/1", "s/6"])]
    assert sc.deltas.contrast(shared, between="agent").iloc[0]["n"] == 6
    # a condition that one of the levels was never asked is unknown
    placebo = frame[frame["agent"].eq("ada") & frame["condition"].eq("skill")]
    both = pd.concat([frame, placebo.assign(condition="placebo")])
    rows = sc.deltas.contrast(both, between="agent").set_index("condition")
    assert rows.loc["skill", "n"] == 8 and np.isnan(rows.loc["placebo", "estimate"])
    assert rows.loc["placebo", "note"] == "agent 'bo' has no attempts under 'placebo'"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"between": "condition"}, "are compared by sc.deltas.paired"),
        ({"between": ["agent", "grader"]}, "between: found .*one column.*outcomes.assign"),
        ({"between": "agnet"}, "no column 'agnet'.* Did you mean 'agent'"),
        ({"between": "video", "by": "agent"}, "no case has two values of 'video'"),
        ({"between": "grader", "by": "agent"}, "has one value, 'g'; a contrast needs two"),
        ({"between": "agent", "by": ["agent"]}, "by= names 'agent', which is compared"),
        (
            {"between": "agent", "condition": "skil"},
            "condition: found 'skil'.*Did you mean 'skill'",
        ),
        ({"between": "agent", "value": "score"}, "value='score': bounds= is missing"),
        ({"between": "task"}, "column 'task': missing in some rows"),
    ],
)
def test_unusable_arguments_are_refused_with_a_remedy(how: dict, message: str) -> None:
    frame = study(TWO).assign(task=None)
    frame = frame.assign(video=frame["case_id"].isin(["s/1", "s/2"]))
    with pytest.raises(FrameError, match=message):
        sc.deltas.contrast(frame, **how)


def test_other_columns_are_not_pooled_and_different_checks_are_refused() -> None:
    frame = study(TWO)
    two = pd.concat([frame, frame.assign(grader="h")])
    with pytest.raises(FrameError, match="more than one grader: g, h"):
        sc.deltas.contrast(two, between="agent")
    rows = sc.deltas.contrast(two, between="agent", by=["grader"])
    averaged = sc.deltas.contrast(two, between="agent", average=["grader"]).iloc[0]
    assert rows["estimate"].nunique() == 1 and averaged["n"] == 8
    same = ["estimate", "ci_low", "ci_high"]
    assert averaged[same].to_list() == pytest.approx(rows.iloc[0][same].to_list())
    assert sc.deltas.contrast(two, between="grader", by="agent")["estimate"].to_list() == [0, 0]
    checks = frame.assign(n_checks=frame["agent"].map({"ada": 3, "bo": 2}))
    with pytest.raises(
        FrameError, match="8 of 8 cases have another number of checks for the agent"
    ):
        sc.deltas.contrast(checks, between="agent")


def test_averaged_agents_may_be_nested_in_the_compared_families() -> None:
    cy = {("cy", "baseline"): [0, 1] * 4, ("cy", "skill"): [2] * 8}
    frame = study({**TWO, **cy})
    frame["family"] = frame["agent"].map({"ada": "a", "bo": "b", "cy": "a"})
    row = sc.deltas.contrast(frame, between=["family"], average="agent").iloc[0]
    alone = sc.deltas.paired(frame, by="agent").set_index("agent")["estimate"]
    expected = alone["bo"] - (alone["ada"] + alone["cy"]) / 2
    assert row["estimate"] == pytest.approx(expected) and row["n"] == 8
    assert row[["n_attempts", "n_attempts_reference"]].to_list() == [32, 64]
    assert "averaged over agent within each family and case" in row["note"]
    # a case that one agent of a family did not answer is dropped
    lost = frame["agent"].eq("cy") & frame["condition"].eq("skill") & frame["case_id"].eq("s/1")
    fewer = sc.deltas.contrast(frame[~lost], between="family", average="agent").iloc[0]
    other = sc.deltas.contrast(
        frame[frame["case_id"].ne("s/1")], between="family", average="agent"
    ).iloc[0]
    assert fewer["estimate"] == pytest.approx(other["estimate"])
    assert fewer[["n", "n_dropped"]].to_list() == [7, 1]


def test_a_list_of_one_column_is_one_column_and_only_pairs_with_a_p_value_are_adjusted() -> None:
    frame = study({**TWO, ("cy", "baseline"): [0] * 8, ("cy", "skill"): [2] * 8})
    expected = sc.deltas.contrast(frame, between="agent", condition="skill")
    listed = sc.deltas.contrast(frame, between=["agent"], condition="skill")
    pd.testing.assert_frame_equal(expected, listed)
    two = frame[frame["agent"].ne("cy") | frame["condition"].eq("baseline")]
    rows = sc.deltas.contrast(two, between="agent").set_index(["agent", "reference"])
    row = rows.loc[("bo", "ada")]
    assert rows["p_value"].notna().sum() == 1 and row["p_adjusted"] == row["p_value"]
    assert "Holm" not in row["method"]


def test_sittings_may_have_the_same_repeats_or_ids_and_copies_are_refused() -> None:
    frame = study(TWO)
    first = frame[frame["agent"].eq("ada")].drop(columns="agent")
    later = frame[frame["agent"].eq("bo")].drop(columns="agent")
    both = pd.concat([first.assign(sitting="am"), later.assign(sitting="pm")])
    expected = sc.deltas.contrast(frame, between="agent")["estimate"].to_list()
    numbered = [f.assign(attempt_id=range(32)) for f in (first, later)]
    named = pd.concat([f.assign(sitting=name) for f, name in zip(numbered, "ap", strict=True)])
    for table in (both, named):
        assert sc.deltas.contrast(table, between="sitting")["estimate"].to_list() == expected
        with pytest.raises(FrameError, match="attempt_id"):
            sc.deltas.contrast(pd.concat([table, table]), between="sitting")
    with pytest.raises(FrameError, match="between='sitting': this is a column of the attempts"):
        sc.deltas.contrast(frame, between="sitting")
    lacking = frame.assign(checks_differ=True, note="")
    with pytest.raises(FrameError, match="different checks"):
        sc.deltas.contrast(lacking, between="agent")
    assert len(sc.deltas.contrast(lacking, between="agent", condition="skill")) == 1


def test_groups_are_compared_within_the_strata_that_have_both() -> None:
    passes = {("s", "near"): [0, 0, 0, 0], ("s", "far"): [1], ("t", "near"): [1], ("t", "far"): [0]}
    passes |= {("u", "near"): [1, 1], ("s", None): [1]}
    rows = [
        {"skill": skill, "case_id": f"{skill}{kind}{i}", "condition": "skill", "grader": "g",
         "transfer": kind, "passed": n > 0}
        for (skill, kind), numbers in passes.items()
        for i, n in enumerate(numbers)
    ]  # fmt: skip
    outcomes = sc.frames.check(pd.DataFrame(rows), "outcomes")
    table = case_table(outcomes)
    facts = outcomes[["skill", "case_id", "transfer"]]
    units = Units.of(table.merge(facts, on=["skill", "case_id"]), [], facts=["transfer"])
    contrast = Contrast({}, 0, {("skill",): 1.0})
    gap = between(units, contrast, "transfer", ("near", "far"), strata=["skill"])
    # weights 4 x 1 / 5 for skill s and 1 x 1 / 2 for skill t; u has no far case
    near, far, difference = (interval.estimate for interval in gap.intervals)
    assert near == pytest.approx(0.5 * 1 / 1.3)
    assert far == pytest.approx(0.8 * 1 / 1.3)
    assert difference == pytest.approx(far - near)
    assert gap.sizes == [5, 2]
    few = between(units, contrast, "transfer", ("near", "far"), strata=["skill"], least=3)
    assert [interval.n for interval in few.intervals] == [5, 2, 7]
    assert np.isnan([interval.estimate for interval in few.intervals]).all()
    pooled = between(units, contrast, "transfer", ("near", "far"))
    assert pooled.sizes == [7, 2]
    assert pooled.intervals[0].estimate == pytest.approx(3 / 7)


@pytest.mark.parametrize("name", ["level", "low", "row", "order", "member"])
def test_a_column_of_by_may_be_called_like_a_number_of_the_engine(name: str) -> None:
    frame = study(TWO)
    frame = frame[frame["agent"].eq("ada")]
    easy = frame["case_id"].isin(["s/0", "s/1", "s/2"])
    frame = frame.assign(**{name: np.where(easy, "easy", "hard")}, seconds=1.0)
    frame["attempt_id"] = np.arange(len(frame)).astype(str)
    assert sc.deltas.rates(frame, by=[name])["n"].tolist() == [3, 3, 5, 5]
    for value in ("passed", "seconds"):
        rows = sc.deltas.paired(frame, by=[name], value=value)
        assert rows.drop_duplicates(name)[[name, "n"]].to_numpy().tolist() == [
            ["easy", 3],
            ["hard", 5],
        ]
