import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.report.study_sentences import findings


def study(cases: list[tuple[str, str, str, float, float]], repeats: int = 2) -> pd.DataFrame:
    """(skill, dimension, transfer, baseline rate, skill rate) a case."""
    rows = []
    for number, (skill, dimension, transfer, *rates) in enumerate(cases):
        for condition, rate in zip(("baseline", "skill"), rates, strict=True):
            for repeat in range(repeats):
                rows.append(
                    {
                        "attempt_id": f"{number}/{condition}/{repeat}",
                        "skill": skill,
                        "case_id": f"{skill}/{number}",
                        "condition": condition,
                        "repeat": repeat + 1,
                        "grader": "g",
                        "comprehension_dimension": dimension,
                        "transfer": transfer,
                        "passed": repeat < rate * repeats,
                        "share_passed": rate,
                    }
                )
    return pd.DataFrame(rows)


def headline(frame: pd.DataFrame, measure: str = "gap") -> pd.Series:
    rows = frame[frame["scope"].eq("within_dimensions") & frame["measure"].eq(measure)]
    assert len(rows) == 1
    return rows.iloc[0]


def mixed() -> pd.DataFrame:
    # within C2 far gains half as much as near; C1 has only near and C5 only far cases
    cases = [("s", "C2", "near", 0.0, 1.0)] * 6 + [("s", "C2", "near", 0.0, 0.5)] * 2
    cases += [("s", "C2", "far", 0.5, 1.0)] * 6 + [("s", "C2", "far", 0.5, 0.5)] * 2
    cases += [("s", "C1", "near", 0.0, 0.0)] * 5 + [("s", "C5", "far", 0.0, 1.0)] * 5
    return study(cases)


def test_the_headline_is_the_gap_within_dimensions_that_have_both() -> None:
    row = headline(sc.transfer.gap(mixed()))
    # near delta: (6 x 1 + 2 x 1/2) / 8 = 7/8; far delta: 6 x 1/2 / 8 = 3/8
    assert row["estimate"] == pytest.approx(3 / 8 - 7 / 8)
    assert row["dimensions"] == "C2"
    assert (row["n_near"], row["n_far"]) == (8, 8)
    assert row["ci_low"] < row["estimate"] < row["ci_high"]


def test_without_distances_the_remedy_is_their_column() -> None:
    frame = mixed().assign(transfer=pd.Series(pd.NA, index=mixed().index, dtype="str"))
    assert set(sc.transfer.gap(frame)["note"].str.contains("transfer= in from_frame")) == {True}


@pytest.mark.parametrize(("measure", "noted"), [("near_delta", False), ("gap", True)])
def test_attempts_missing_of_far_cases_are_noted(measure: str, noted: bool) -> None:
    outcomes = mixed()
    lost = outcomes["transfer"].eq("far") & outcomes["condition"].eq("skill")
    lost &= outcomes["repeat"].eq(2) & outcomes["comprehension_dimension"].eq("C2")
    outcomes["passed"] = outcomes["passed"].astype("boolean").mask(lost)
    note = headline(sc.transfer.gap(outcomes), measure)["note"]
    text = "far: attempts missing: 8 of 16 under the condition, 0 of 16 under the reference"
    assert (text in note and "the delta is biased" in note) == noted


def test_pooling_over_dimensions_would_give_another_sign_and_says_so() -> None:
    frame = sc.transfer.gap(mixed())
    pooled = frame[frame["scope"].eq("pooled") & frame["measure"].eq("gap")].iloc[0]
    # near: 7 of 13 gained, far: (3 + 5) of 13
    assert pooled["estimate"] == pytest.approx(8 / 13 - 7 / 13)
    assert "confounded with the rubric dimension" in pooled["note"]
    for _, part in frame.groupby("scope"):
        value = part.set_index("measure")["estimate"]
        assert value["near_delta"] + value["gap"] == pytest.approx(value["far_delta"])


@pytest.mark.parametrize(
    ("dimensions", "why"),
    [
        ((None, None), "no case has a dimension"),
        (("C1", "C2"), "no dimension of a skill has both near and far cases"),
    ],
)
def test_without_common_dimensions_the_note_points_to_the_pooled_gap(dimensions, why) -> None:
    near, far = dimensions
    cases = [("s", near, "near", 0.0, 1.0)] * 20 + [("s", far, "far", 0.0, 0.5)] * 20
    outcomes = study(cases)
    frame, decided = sc.transfer.gap(outcomes), sc.skillverdicts.decide(outcomes)
    note = headline(frame)["note"]
    assert note.startswith(why) and "20 near and 20 far cases" in note
    assert ("confounds distance with dimension" in note) == (near is not None)
    pooled = frame[frame["scope"].eq("pooled") & frame["measure"].eq("gap")].iloc[0]
    assert pooled["estimate"] == pytest.approx(-0.5)
    text = " ".join(findings(decided, gap=frame)["sentence"])
    if near is None:
        assert "on far cases by" in text and "dimension" not in text
    else:
        assert why in text and "confounded with the rubric dimension" in text


def test_fewer_than_five_cases_of_a_kind_are_unknown_with_a_note() -> None:
    cases = [("s", "C2", "near", 0.0, 1.0)] * 4 + [("s", "C2", "far", 0.0, 1.0)] * 9
    frame = sc.transfer.gap(study(cases), by=["skill"])
    assert frame[["estimate", "ci_low", "ci_high"]].isna().all(axis=None)
    assert frame["note"].str.contains("4 near and 9 far, at least 5 of each").all()
    assert frame["n"].tolist() == [4, 9, 13] * 2


def lopsided(gap_1: float, gap_2: float) -> pd.DataFrame:
    # level C2 with 6 near and 2 far cases, level C7 with 1 near and 3 far cases
    cases = [("s", "C2", "near", 0.25, 0.5)] * 6
    cases += [("s", "C2", "far", 0.25, 0.5 + gap_1)] * 2
    cases += [("s", "C7", "near", 0.5, 0.5)] + [("s", "C7", "far", 0.5, 0.5 + gap_2)] * 3
    return study(cases, repeats=4)


def test_the_gap_is_the_stated_average_of_the_gaps_of_the_levels() -> None:
    frame = sc.transfer.gap(lopsided(0.25, -0.5))
    # weights 6 x 2 / 8 = 3/2 and 1 x 3 / 4 = 3/4, so 2/3 and 1/3
    # gap 2/3 x 1/4 - 1/3 x 1/2 = 0; near 2/3 x 1/4 + 1/3 x 0 = 1/6
    assert headline(frame)["estimate"] == pytest.approx(0)
    assert headline(frame, "near_delta")["estimate"] == pytest.approx(1 / 6)
    assert headline(frame, "far_delta")["estimate"] == pytest.approx(1 / 6)
    assert "average over 2 levels" in headline(frame)["note"]


def test_the_p_value_is_the_level_whose_limit_is_zero() -> None:
    cases = [("s", "C2", "near", 0.0, 0.2)] * 12 + [("s", "C2", "far", 0.0, 1.0)] * 12
    row = headline(sc.transfer.gap(study(cases, repeats=5)))
    at = headline(sc.transfer.gap(study(cases, repeats=5), ci_level=1 - row["p_value"]))
    assert at["ci_low"] == pytest.approx(0, abs=1e-6)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["C2", "C7"]),
            st.sampled_from(["near", "far"]),
            *[st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])] * 2,
        ),
        max_size=12,
    )
)
def test_swapping_near_and_far_mirrors_the_gap(more: list[tuple[str, str, float, float]]) -> None:
    cases = [("s", "C2", kind, 0.25, 0.5) for kind in ("near", "far") for _ in range(5)]
    frame = study([*cases, *(("s", *one) for one in more)], repeats=4)
    swapped = frame.assign(transfer=frame["transfer"].map({"near": "far", "far": "near"}))
    there, back = (sc.transfer.gap(f).set_index(["scope", "measure"]) for f in (frame, swapped))
    for scope in ("within_dimensions", "pooled"):
        one, other = there.loc[(scope, "gap")], back.loc[(scope, "gap")]
        assert one["estimate"] == pytest.approx(-other["estimate"], abs=1e-12)
        assert one["ci_low"] == pytest.approx(-other["ci_high"])
        assert one["p_value"] == pytest.approx(other["p_value"])
        near, far = there.loc[(scope, "near_delta")], back.loc[(scope, "far_delta")]
        assert near["ci_low"] == pytest.approx(far["ci_low"])


def test_both_one_or_no_member_of_a_contrast_pair_right_add_up_to_one() -> None:
    cases = [("s", "C2", "near", 0.0, 1.0)] * 6
    frame = study(cases)
    twins = {"s/1": "s/0", "s/3": "s/2", "s/5": "s/4"}
    frame["contrast_of"] = frame["case_id"].map(twins)
    frame.loc[frame["case_id"].eq("s/5"), "passed"] = False
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"])["estimate"]
    assert rows["skill"].to_dict() == pytest.approx(
        {"both_right": 2 / 3, "one_right": 1 / 3, "none_right": 0, "only_original_right": 1 / 3}
    )
    assert rows["baseline", "none_right"] == 1
    # the same answers, the other one being the twin: only the changed case is right
    frame["contrast_of"] = frame["case_id"].map({of: one for one, of in twins.items()})
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"])["estimate"]
    assert rows["skill", "one_right"] == pytest.approx(1 / 3)
    assert rows["skill", "only_original_right"] == 0


def test_twins_that_name_each_other_are_one_pair_and_one_cluster() -> None:
    frame = study([("s", "C2", "near", 0.0, 1.0)] * 5 + [("s", "C2", "far", 0.0, 0.5)] * 5)
    one_way = frame.assign(contrast_of=frame["case_id"].map({"s/5": "s/0", "s/6": "s/1"}))
    names = {"s/5": "s/0", "s/6": "s/1", "s/0": "s/5", "s/1": "s/6"}
    both_ways = frame.assign(contrast_of=frame["case_id"].map(names))
    one, both = (sc.transfer.contrast(given) for given in (one_way, both_ways))
    last = both["measure"].eq("only_original_right")
    assert both.loc[last, "estimate"].isna().all()
    assert both.loc[last, "note"].str.contains("name each other have no original").all()
    pd.testing.assert_frame_equal(one[~last], both[~last])
    both = both[~last]
    pd.testing.assert_frame_equal(sc.transfer.gap(one_way), sc.transfer.gap(both_ways))
    assert both["n"].eq(2).all()
    assert headline(sc.transfer.gap(both_ways))["n_clusters"] == 8


def test_missing_repeat_numbers_pair_attempts_in_their_order() -> None:
    frame = study([("s", "C2", "near", 0.0, 1.0)] * 2, repeats=3)
    frame["contrast_of"] = frame["case_id"].map({"s/1": "s/0"})
    # the first attempt of one twin and the last of the other fail: 2 of 3 pairs have one right
    skill = frame["condition"].eq("skill")
    frame.loc[skill & frame["case_id"].eq("s/0") & frame["repeat"].eq(1), "passed"] = False
    frame.loc[skill & frame["case_id"].eq("s/1") & frame["repeat"].eq(3), "passed"] = False
    bare = frame.assign(repeat=pd.array([pd.NA] * len(frame), dtype="Int64"))
    for given_frame in (frame, bare):
        rows = sc.transfer.contrast(given_frame).set_index(["condition", "measure"])["estimate"]
        assert rows["skill", "one_right"] == pytest.approx(2 / 3)
        assert rows["skill", "both_right"] == pytest.approx(1 / 3)


def test_pairs_that_share_a_case_are_one_cluster_and_unknown_outcomes_are_left_out() -> None:
    frame = study([("s", "C2", "near", 0.0, 1.0)] * 5, repeats=1).astype({"passed": "boolean"})
    frame["contrast_of"] = frame["case_id"].map({"s/1": "s/0", "s/2": "s/0", "s/4": "s/3"})
    rows = sc.transfer.contrast(frame)
    assert rows["n"].eq(3).all() and rows["n_clusters"].eq(2).all()
    frame.loc[frame["case_id"].eq("s/4") & frame["condition"].eq("skill"), "passed"] = pd.NA
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"])
    assert rows.loc[("skill", "both_right"), ["estimate", "n"]].tolist() == [1, 2]
    assert sc.transfer.contrast(mixed()).empty


def test_hedging_is_held_against_being_right() -> None:
    frame = study([("s", "C2", "far", 0.5, 0.5)] * 8, repeats=2)
    frame["attempt_id"] = [f"a{i}" for i in range(len(frame))]
    frame["passed"] = np.arange(len(frame)) % 2 == 0
    answers = np.where(frame["passed"], "It is so.", "Perhaps it is so.")
    attempts = frame[["attempt_id", "skill", "case_id", "condition", "repeat"]].assign(
        answer=answers, status="ok"
    )
    found = sc.transfer.hedging(frame, attempts, by=["transfer"])
    rows = found.set_index(["condition", "measure"])["estimate"]
    assert rows["skill"].to_dict() == pytest.approx(
        {"hedged_rate_right": 0.0, "hedged_rate_wrong": 1.0, "hedged_gap": 1.0}
    )
    assert found["transfer"].eq("far").all()
    assert (found["ci_high"] > found["ci_low"]).all()
    flat = sc.transfer.hedging(frame, attempts.assign(answer="Perhaps it is so."))
    gap = flat[flat["measure"].eq("hedged_gap")].iloc[0]
    assert gap["estimate"] == 0
    assert gap["ci_low"] < 0 < gap["ci_high"]
    right = sc.transfer.hedging(frame.assign(passed=True), attempts)
    assert right["estimate"].isna().all()
    assert right["note"].eq("no skill has both right and wrong answers").all()
    with pytest.raises(FrameError, match="of the outcomes is not in the attempts frame"):
        sc.transfer.hedging(frame, attempts.iloc[1:])


def test_contrast_pairs_without_an_outcome_are_counted_and_bound_the_shares() -> None:
    frame = study([("s", "C2", "near", 0.0, 1.0)] * 8, repeats=1).astype({"passed": "boolean"})
    frame["contrast_of"] = frame["case_id"].map({f"s/{k + 1}": f"s/{k}" for k in (0, 2, 4, 6)})
    # the skill: two pairs with both right, one with an open original, one with an open twin
    skill = frame["condition"].eq("skill")
    frame.loc[skill & frame["case_id"].isin(["s/0", "s/3"]), "passed"] = pd.NA
    frame.loc[skill & frame["case_id"].eq("s/2"), "passed"] = False
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"]).loc["skill"]
    assert rows["n_missing"].eq(2).all() and rows["n"].eq(2).all()
    ends = rows[["worst_low", "worst_high"]].T.to_dict("list")
    assert ends == {
        "both_right": [0.5, 0.75],  # s/2 failed, so its pair cannot have both right
        "one_right": [0, 0.5],
        "none_right": [0, 0.25],
        "only_original_right": [0, 0],  # s/2 failed, and s/1, the twin of s/0, passed
    }
    note = rows.loc["both_right", "note"]
    assert "attempts missing: 2 of 4; in the worst case the rate is 0.50 or 0.75" in note
    frame.loc[skill & frame["case_id"].isin(["s/5", "s/6"]), "passed"] = pd.NA
    rows = sc.transfer.contrast(frame).set_index(["condition", "measure"]).loc["skill"]
    assert rows["estimate"].isna().all() and rows["n"].eq(0).all()
    why = "no contrast pair with outcomes of both members; attempts missing: 4 of 4"
    assert rows["note"].str.startswith(why).all()
