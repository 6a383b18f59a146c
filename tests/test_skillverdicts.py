import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError


def study(n: int, baseline: int, skill: int, *, repeats: int = 1) -> pd.DataFrame:
    """The first `baseline` of n cases pass without the skill, the first `skill` with it."""
    rows = [
        {
            "attempt_id": f"{condition}/{case}/{repeat}",
            "skill": "s",
            "case_id": f"s/{case}",
            "condition": condition,
            "repeat": repeat,
            "grader": "g",
            "comprehension_dimension": f"C{case % 9 + 1}",
            "passed": case < passing,
        }
        for condition, passing in (("baseline", baseline), ("skill", skill))
        for case in range(n)
        for repeat in range(1, repeats + 1)
    ]
    return pd.DataFrame(rows).astype({"passed": "boolean"})


@pytest.mark.parametrize(
    ("n", "baseline", "skill", "verdict"),
    [
        (60, 10, 50, "teaching"),
        (60, 50, 10, "harmful"),
        (20, 10, 11, "undetermined"),  # not significant is not "no change"
        (400, 200, 202, "ineffective"),  # the whole interval lies within ten points
        (400, 399, 400, "redundant"),
        (14, 14, 14, "undetermined"),  # fourteen cases cannot show that nothing is left to gain
    ],
)
def test_a_skill_is_judged_by_the_interval_against_the_margin(
    n: int, baseline: int, skill: int, verdict: str
) -> None:
    row = sc.skillverdicts.decide(study(n, baseline, skill), margin=0.1).iloc[0]
    assert row["verdict"] == verdict, row[["ci_low", "ci_high", "reference_low"]]


def test_without_groups_the_whole_study_gets_one_verdict() -> None:
    assert sc.skillverdicts.decide(study(60, 10, 50), by=[])["verdict"].tolist() == ["teaching"]


def test_a_margin_outside_zero_and_one_is_refused() -> None:
    with pytest.raises(FrameError, match="margin: found 10"):
        sc.skillverdicts.decide(study(20, 1, 2), margin=10)


def test_cases_are_taught_already_passing_not_taught_or_harmed() -> None:
    frame = study(4, 2, 2)
    skill = frame["condition"].eq("skill")
    frame.loc[skill & frame["case_id"].eq("s/0"), "passed"] = False
    frame.loc[skill & frame["case_id"].eq("s/2"), "passed"] = True
    rows = sc.skillverdicts.cases(frame).set_index("case_id")
    assert rows["verdict"].to_dict() == {
        "s/0": "harmed", "s/1": "already_passes", "s/2": "taught", "s/3": "not_taught",
    }  # fmt: skip
    assert rows["discriminates"].tolist() == [True, False, True, False]


def test_a_tie_between_repeats_is_undetermined() -> None:
    frame = study(1, 0, 1, repeats=2)
    frame.loc[frame["attempt_id"].eq("skill/0/2"), "passed"] = False
    assert sc.skillverdicts.cases(frame)["verdict"].tolist() == ["undetermined"]


def test_a_dimension_passes_when_all_its_cases_pass_in_the_majority_and_ties_fail() -> None:
    frame = study(9, 0, 9, repeats=2)
    frame.loc[frame["attempt_id"].eq("skill/0/2"), "passed"] = False
    rows = sc.skillverdicts.dimensions(frame)
    with_skill = rows[rows["condition"].eq("skill")].set_index("comprehension_dimension")
    assert with_skill["passed"].to_dict() == {f"C{i}": i > 1 for i in range(1, 10)}
    assert with_skill.loc["C1", "estimate"] == 0.5


def test_a_dimension_with_a_missing_outcome_is_unknown_unless_another_case_fails() -> None:
    frame = study(18, 0, 18)
    frame.loc[frame["attempt_id"].eq("skill/0/1"), "passed"] = None
    rows = sc.skillverdicts.dimensions(frame)
    row = rows[rows["condition"].eq("skill") & rows["comprehension_dimension"].eq("C1")].iloc[0]
    assert row["passed"] is pd.NA
    frame.loc[frame["attempt_id"].eq("skill/9/1"), "passed"] = False
    rows = sc.skillverdicts.dimensions(frame)
    row = rows[rows["condition"].eq("skill") & rows["comprehension_dimension"].eq("C1")].iloc[0]
    assert not row["passed"]


def test_the_three_policies_combine_dimensions_as_the_source_says() -> None:
    frame = study(9, 0, 8)  # C9 fails with the skill, everything without
    judged = sc.skillverdicts.dimensions(frame)
    strict = sc.skillverdicts.aggregate(judged).set_index("condition")
    assert not strict.loc["skill", "passed"]
    assert strict.loc["skill", "failed"] == "C9"
    named = sc.skillverdicts.aggregate(judged, exceptions=["C9"]).set_index("condition")
    assert named.loc["skill", "passed"]
    assert named.loc["skill", "excepted"] == "C9"
    weighted = sc.skillverdicts.aggregate(judged, policy="weighted").set_index("condition")
    assert weighted.loc["skill", "score"] == pytest.approx(1)  # C9 carries no weight
    count = sc.skillverdicts.aggregate(judged, policy="pass_count").set_index("condition")
    assert count.loc["skill", "score"] == 8
    assert not count.loc["baseline", "passed"]


def test_missing_dimensions_leave_the_policy_open_only_where_they_could_decide() -> None:
    frame = study(5, 0, 5)  # C6 to C9 are not asked
    judged = sc.skillverdicts.dimensions(frame)
    for policy in ("strict", "weighted", "pass_count"):
        rows = sc.skillverdicts.aggregate(judged, policy=policy).set_index("condition")
        assert not rows.loc["baseline", "passed"]
        assert rows.loc["baseline", "note"] == "no verdict for C6, C7, C8, C9"
    assert rows.loc["skill", "passed"] is pd.NA  # five of six, four unknown


def test_unknown_policies_and_exceptions_are_named() -> None:
    judged = sc.skillverdicts.dimensions(study(9, 0, 9))
    with pytest.raises(FrameError, match=r"policy: found 'stict'.*Did you mean 'strict'"):
        sc.skillverdicts.aggregate(judged, policy="stict")  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="exceptions: found 'C10'"):
        sc.skillverdicts.aggregate(judged, exceptions=["C10"])


def test_a_saturated_baseline_is_not_redundant_while_a_loss_is_not_excluded() -> None:
    frame = study(60, 60, 60)
    skill = frame["condition"].eq("skill")
    frame = frame[~skill | frame["case_id"].isin([f"s/{i}" for i in range(5)])]
    frame.loc[skill & frame["case_id"].isin(["s/0", "s/1"]), "passed"] = False
    row = sc.skillverdicts.decide(frame, margin=0.1).iloc[0]
    assert row["reference_low"] > 0.9 and row["ci_low"] < -0.1
    assert row["verdict"] == "undetermined"


def test_a_tie_neither_discriminates_nor_not_and_cases_without_the_skill_stay_visible() -> None:
    frame = study(2, 0, 1, repeats=2)
    frame.loc[frame["attempt_id"].eq("skill/0/2"), "passed"] = False
    frame = frame[frame["attempt_id"].ne("skill/1/1") & frame["attempt_id"].ne("skill/1/2")]
    rows = sc.skillverdicts.cases(frame).set_index("case_id")
    assert rows.loc["s/0", "discriminates"] is pd.NA
    assert rows.loc["s/1", "n"] == 0
    assert rows.loc["s/1", "verdict"] == "undetermined"


def test_shares_from_few_cases_carry_no_verdict() -> None:
    frame = study(14, 0, 14)
    frame["share_passed"] = frame["passed"].astype(float).where(frame["case_id"].ne("s/3"), 0.4)
    row = sc.skillverdicts.decide(frame, value="share_passed").iloc[0]
    assert row["verdict"] == "undetermined"
    assert "may be too short" in row["note"]


def test_an_empty_study_has_no_verdicts() -> None:
    assert sc.skillverdicts.decide(sc.frames.empty("outcomes"), by=[]).empty


def test_weights_are_checked() -> None:
    judged = sc.skillverdicts.dimensions(study(9, 0, 9))
    with pytest.raises(FrameError, match="weights: found 'c1'; allowed: C1 to C9"):
        sc.skillverdicts.aggregate(judged, policy="weighted", weights={"c1": 1.0})
    with pytest.raises(FrameError, match="add up to nothing"):
        sc.skillverdicts.aggregate(judged, policy="weighted", weights={})
