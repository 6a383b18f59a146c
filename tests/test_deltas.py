import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t
from scipy.stats import ttest_1samp

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.stats.bounded import DELTAS, bounded_mean


def outcomes(
    baseline: list[list[bool | None]], skill: list[list[bool | None]], **columns: object
) -> pd.DataFrame:
    """One inner list a case, one entry a repeat."""
    rows = [
        {
            "attempt_id": f"{case}/{condition}/{repeat}",
            "skill": "s",
            "case_id": f"s/{case}",
            "condition": condition,
            "repeat": repeat,
            "grader": "g",
            "passed": passed,
            "share_passed": None if passed is None else float(passed),
        }
        for condition, side in (("baseline", baseline), ("skill", skill))
        for case, repeats in enumerate(side)
        for repeat, passed in enumerate(repeats, start=1)
    ]
    return pd.DataFrame(rows).assign(**columns)


def one(frame: pd.DataFrame) -> pd.Series:
    assert len(frame) == 1
    return frame.iloc[0]


def test_single_attempts_give_the_paired_difference_of_the_counted_table() -> None:
    # 12 cases: 3 pass in both (a), 6 only with the skill (b), 1 only without (c), 2 never (d)
    baseline = [[True]] * 3 + [[False]] * 6 + [[True]] + [[False]] * 2
    skill = [[True]] * 3 + [[True]] * 6 + [[False]] + [[False]] * 2
    row = one(sc.deltas.paired(outcomes(baseline, skill)))
    assert row["estimate"] == pytest.approx((6 - 1) / 12)
    assert row["reference_rate"] == pytest.approx(4 / 12)
    assert row["rate"] == pytest.approx(9 / 12)
    limits = bounded_mean([0] * 5 + [1] * 6 + [-1], quantity=DELTAS, null=0.0)
    assert row["ci_low"] == pytest.approx(limits.low)
    assert row["ci_high"] == pytest.approx(limits.high)
    assert row["p_value"] == pytest.approx(ttest_1samp([0] * 5 + [1] * 6 + [-1], 0).pvalue)
    # CR2 of independent cases: sd of the differences over the root of 12, 11 df
    assert row["se"] == pytest.approx(np.std([0] * 5 + [1] * 6 + [-1], ddof=1) / np.sqrt(12))
    assert row["df"] == pytest.approx(11)


def test_repeats_are_averaged_inside_a_case_and_never_counted_as_cases() -> None:
    baseline = [[False], [False], [True], [False]]
    skill = [[True], [True], [True], [False]]
    once = one(sc.deltas.paired(outcomes(baseline, skill)))
    many = one(sc.deltas.paired(outcomes([c * 5 for c in baseline], [c * 5 for c in skill])))
    assert many["n"] == once["n"] == 4
    assert many["estimate"] == once["estimate"]
    assert many["ci_high"] - many["ci_low"] > 0.5


def test_conditions_may_have_unequal_numbers_of_repeats() -> None:
    row = one(sc.deltas.paired(outcomes([[True, False], [False]], [[True], [True, True, False]])))
    # case 0: 1 - 1/2, case 1: 2/3 - 0; mean of 1/2 and 2/3 is 7/12
    assert row["estimate"] == pytest.approx(7 / 12)
    # both cases have delta 0; unpaired rates would say 1/3 - 1/2
    frame = outcomes([[True], [False]], [[True], [False, False]])
    assert one(sc.deltas.paired(frame))["estimate"] == 0


def test_a_case_without_an_outcome_in_one_condition_is_dropped_and_counted() -> None:
    row = one(sc.deltas.paired(outcomes([[True], [False], [None]], [[True], [True], [True]])))
    assert row["n"] == 2
    assert row["n_dropped"] == 1
    assert "1 case dropped" in row["note"]


def over_skills(n_skills: int) -> pd.DataFrame:
    """Four cases a skill; all pass with the skill, two without it, and one takes dollars."""
    baseline, skill = [[False], [False], [True], [True]], [[True]] * 4
    parts = [outcomes(baseline, skill).assign(skill=f"s{i}") for i in range(n_skills)]
    frame = pd.concat(parts, ignore_index=True)
    for name in ("case_id", "attempt_id"):
        frame[name] = frame["skill"] + frame[name]
    return frame


def amounts(frame: pd.DataFrame) -> pd.DataFrame:
    cost = np.where(frame["condition"].eq("skill"), 0.02, 0.01) * (1 + np.arange(len(frame)) % 7)
    return frame[["attempt_id", "skill", "case_id", "condition", "repeat"]].assign(
        status="ok", cost_usd=cost, agent="a"
    )


def test_a_study_of_one_or_two_cases_carries_a_note() -> None:
    for n in (1, 2, 3):
        frame = outcomes([[False, True]] * n, [[True, True]] * n)
        for result in (sc.deltas.rates(frame), sc.deltas.paired(frame)):
            assert result["note"].str.contains(f"only {n} case").all() == (n < 3)


@pytest.mark.parametrize("n_skills", [1, 4, 5])
def test_few_skills_are_refused_a_general_claim_by_rates_amounts_and_deltas(n_skills: int) -> None:
    frame = over_skills(n_skills)
    found = {
        "delta": lambda cluster: sc.deltas.paired(frame, cluster=cluster),
        "rate": lambda cluster: sc.deltas.rates(frame, cluster=cluster),
        "amount": lambda cluster: sc.deltas.paired(
            amounts(frame), value="cost_usd", cluster=cluster
        ),
    }
    for name, ask in found.items():
        general, cases = ask("skill"), ask("case")
        limits = ["estimate", "ci_low", "ci_high"]
        if n_skills == 1:
            assert general[limits].isna().all().all(), name
            assert general["note"].str.contains("one skill says nothing").all(), name
            continue
        few = n_skills < 5
        assert general["note"].str.contains("too few to speak of skills in general").eq(few).all()
        assert np.allclose(general[limits], cases[limits]) == few or name == "rate", name
        note = f"{n_skills} skills can show"
        assert general["note"].str.contains(note).eq(name == "delta" and not few).all()


@pytest.mark.parametrize("lost", ["amounts", "answers", "baseline"])
def test_an_amount_that_nobody_recorded_is_a_row_of_nan_with_a_note(lost: str) -> None:
    frame = amounts(over_skills(2))
    if lost == "answers":
        frame["status"] = np.where(frame["condition"].eq("skill"), "error", "ok")
    else:
        frame.loc[frame["condition"].eq(lost) | (lost == "amounts"), "cost_usd"] = np.nan
    found = sc.deltas.paired(frame, value="cost_usd")
    measures = ["total_ratio_cost_usd", "delta_cost_usd", "ratio_cost_usd"]
    assert found["measure"].tolist() == measures
    assert found[["estimate", "ci_low", "ci_high"]].isna().all().all()
    assert found["note"].str.startswith("no case has an amount in both conditions; ").all()
    assert found["n_dropped"].eq(8).all() and found["n"].eq(0).all()


def test_all_differences_equal_never_give_a_zero_width_interval() -> None:
    for value in ("passed", "share_passed"):
        row = one(sc.deltas.paired(outcomes([[False]] * 9, [[True]] * 9), value=value))
        assert row["estimate"] == 1
        assert row["ci_low"] < 1 == row["ci_high"]
        assert np.isnan([row["se"], row["df"]]).all()


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25),
    st.sampled_from(["passed", "share_passed"]),
)
@settings(max_examples=10, deadline=None)
def test_swapping_the_conditions_mirrors_the_row(
    pairs: list[tuple[bool, bool]], value: str
) -> None:
    first, second = [[a] for a, _ in pairs], [[b] for _, b in pairs]
    there = one(sc.deltas.paired(outcomes(first, second), value=value))
    back = one(sc.deltas.paired(outcomes(second, first), value=value))
    assert there["estimate"] == pytest.approx(-back["estimate"])
    assert there["ci_low"] == pytest.approx(-back["ci_high"])
    assert there["p_value"] == pytest.approx(back["p_value"], nan_ok=True)
    assert there["ci_low"] < there["ci_high"]
    assert -1 - 1e-9 <= there["ci_low"] <= there["estimate"] <= there["ci_high"] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("twins", "n_clusters"),
    [
        ({"s/3": "s/0"}, 7),
        ({"s/3": "s/0", "s/0": "s/3"}, 7),
        ({"s/1": "s/0", "s/3": "s/2", "s/5": "s/4", "s/7": "s/6"}, 4),
    ],
)
def test_contrast_pairs_form_one_cluster(twins: dict[str, str], n_clusters: int) -> None:
    frame = outcomes([[False]] * 8, [[True]] * 6 + [[False]] * 2)
    row = one(sc.deltas.paired(frame.assign(contrast_of=frame["case_id"].map(twins))))
    assert row["n_clusters"] == n_clusters
    assert np.isfinite(row["ci_low"])


def test_verdicts_given_as_outcomes_are_recognised(pilot: sc.RunStore) -> None:
    with pytest.raises(FrameError, match=r"rows share a key(.|\n)*sc.frames.outcomes\(verdicts"):
        sc.deltas.paired(sc.frames.verdicts(pilot), by=["grader"])
    with pytest.raises(FrameError, match=r"missing in 1 row; it is required\.$"):
        sc.deltas.paired(outcomes([[True]], [[True]]).assign(skill=[None, "s"]))


def test_several_graders_rounds_or_agents_are_never_pooled_silently() -> None:
    frame = outcomes([[False]] * 3, [[True]] * 3)
    for column, values, by in (
        ("grader", ("g", "h"), []),
        ("round", (1, 2), ["grader"]),
        ("agent", ("a", "b"), []),
    ):
        first, second = (frame.assign(**{column: value}) for value in values)
        both = pd.concat([first, second.assign(attempt_id="b" + frame["attempt_id"])])
        with pytest.raises(FrameError, match=f"more than one {column}: {values[0]}, {values[1]}"):
            sc.deltas.paired(both, by=by)
        assert len(sc.deltas.paired(both, by=[*by, column])) == 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"reference": "basline"}, r"no condition 'basline'.*Did you mean 'baseline'"),
        ({"value": "pass"}, "value: found 'pass'"),
        ({"by": ["skil"]}, r"no column 'skil'.*Did you mean 'skill'"),
        ({"by": ["condition"]}, "by= names 'condition', which is compared"),
        ({"by": ["cluster"]}, "by= names 'cluster', which is a column that the analysis adds"),
        # columns of tables of cases and items: groups would be merged or mixed up
        *(
            ({"by": [name]}, f"by= names '{name}', which is a column that")
            for name in ("size", "absent", "n_shares", "case", "gold", "settled_by")
        ),
        ({"weight": "wort"}, r"no column 'wort'.*Did you mean 'worth'"),
        ({"weight": "worth"}, "has more than one weight"),
        ({"value": "seconds", "weight": "worth"}, "amounts are not weighted"),
    ],
)
def test_bad_words_are_named_with_the_nearest_right_one(how: dict, message: str) -> None:
    frame = outcomes([[False]], [[True]]).assign(cluster="x", worth=[1, 2], score=1.0)
    frame = frame.assign(size="s", absent="s", n_shares="s", case="s", gold="s", settled_by="s")
    with pytest.raises(FrameError, match=message):
        sc.deltas.paired(frame, **how)


def test_frames_that_break_the_contract_are_refused() -> None:
    frame = outcomes([[False]] * 2, [[True]] * 2)
    with pytest.raises(
        FrameError, match=r"Amounts of an attempts frame are for deltas.paired: .*_commands\.$"
    ):
        sc.deltas.rates(frame, value="seconds")  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="column 'Passed' looks like 'passed'"):
        sc.deltas.paired(frame.rename(columns={"passed": "Passed"}))
    bare = frame.drop(columns="attempt_id")
    with pytest.raises(FrameError, match="rows without attempt_id: 8 are alike"):
        sc.deltas.paired(pd.concat([bare, bare]))
    assert len(sc.deltas.paired(bare[["skill", "case_id", "condition", "passed"]])) == 1


def test_p_values_are_adjusted_over_the_rows_of_one_measure_and_a_placebo_has_none() -> None:
    frame = outcomes([[False]] * 8, [[True]] * 6 + [[False]] * 2)
    placebo = frame[frame["condition"].eq("skill")].assign(condition="placebo")
    placebo["attempt_id"] += "/placebo"
    frame = pd.concat([frame, placebo], ignore_index=True)
    frame["comprehension_dimension"] = np.where(frame["case_id"] < "s/4", "C1", "C2")
    frame["share_passed"] = frame["passed"].astype(float)
    values = ["passed", "share_passed"]
    rows = sc.deltas.paired(frame, by=["comprehension_dimension"], value=values)
    claims = rows[rows["condition"].eq("skill")]
    # two measures of two rows each: Holm multiplies the smaller of two by 2
    for _, part in claims.groupby("measure"):
        assert part["p_adjusted"].min() == pytest.approx(2 * part["p_value"].min())
    assert claims["method"].str.endswith("; p adjusted by Holm over 2 rows").all()
    others = rows[rows["condition"].eq("placebo")]
    assert others["p_value"].notna().all() and others["p_adjusted"].isna().all()
    assert others["shown"].isna().all() and len(others) == 4


def test_the_rows_of_a_placebo_do_not_change_the_p_values_of_the_skill() -> None:
    rng = np.random.default_rng(3)
    parts = []
    for skill in "abcd":
        part = outcomes(rng.random((8, 2)) < 0.3, rng.random((8, 2)) < 0.7)
        same = part[part["condition"].eq("skill")].assign(condition="placebo", passed=True)
        for rows in (part, same):
            own = {name: skill + rows[name] for name in ("attempt_id", "case_id")}
            parts.append(rows.assign(skill=skill, **own))
    frame = pd.concat(parts, ignore_index=True)
    frame["attempt_id"] += frame["condition"]
    both = sc.deltas.paired(frame, by=["skill"])
    alone = sc.deltas.paired(frame[frame["condition"].ne("placebo")], by=["skill"])
    names = ["estimate", "p_value", "p_adjusted", "shown", "method"]
    kept = both.loc[both["condition"].eq("skill"), names].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, alone[names])
    assert alone["method"].str.contains("; p: CR2 t, variance shared by 4 rows").all()


def test_paired_deltas_of_pass_k_average_the_differences_of_the_cases() -> None:
    passes = {"baseline": [0, 1, 2, 0, 3], "skill": [2, 3, 2, 1, 3]}
    sides = [[[j < n for j in range(3)] for n in side] for side in passes.values()]
    frame = outcomes(*sides)
    # of 3 attempts with c passes: pass@2 = 1 - C(3 - c, 2) / 3 and pass^2 = C(c, 2) / 3
    at = {0: 0.0, 1: 2 / 3, 2: 1.0, 3: 1.0}
    hat = {0: 0.0, 1: 0.0, 2: 1 / 3, 3: 1.0}
    for analysis, table in ((sc.deltas.pass_at_k, at), (sc.deltas.pass_hat_k, hat)):
        row = one(analysis(frame, k=2, reference="baseline"))
        base, skill = (np.array([table[n] for n in side]) for side in passes.values())
        limits = bounded_mean(skill - base, quantity=DELTAS, null=0.0)
        assert row["estimate"] == pytest.approx((skill - base).mean())
        assert [row["rate"], row["reference_rate"]] == pytest.approx([skill.mean(), base.mean()])
        assert [row["ci_low"], row["ci_high"]] == pytest.approx([limits.low, limits.high])
        assert row["measure"] == f"delta_{analysis.__name__}" and row["unit"] == "points"
    # k = 1 is the paired delta
    first, plain = (
        one(f(frame, reference="baseline"))
        for f in (partial(sc.deltas.pass_at_k, k=1), partial(sc.deltas.paired, interval="bounded"))
    )
    same = ["estimate", "ci_low", "ci_high", "p_value", "n"]
    assert first[same].to_list() == pytest.approx(plain[same].to_list())
    # two attempts of a case without an outcome: it is left out, named and bounded
    lost = frame["case_id"].eq("s/0") & frame["condition"].eq("skill") & frame["repeat"].gt(1)
    row = one(
        sc.deltas.pass_at_k(
            frame.assign(passed=frame["passed"].mask(lost)), k=2, reference="baseline"
        )
    )
    assert row[["n", "n_short", "n_dropped", "n_missing"]].to_list() == [4, 1, 1, 2]
    assert "1 case (s/0); the largest k for all cases is 1" in row["note"]
    # the case has 1 pass of 3 if both lost attempts fail, and 3 of 3 if both pass
    others = 1 / 3 + 0.0 + 2 / 3 + 0.0
    worst = [(2 / 3 + others) / 5, (1.0 + others) / 5]
    assert [row["worst_low"], row["worst_high"]] == pytest.approx(worst)


def test_on_the_pilot_the_skill_helps_and_the_placebo_stands_beside_it(
    forced: pd.DataFrame,
) -> None:
    rows = sc.deltas.paired(forced).set_index("condition")
    assert rows.loc["skill", "estimate"] == pytest.approx(0.5179, abs=5e-5)
    assert rows.loc["placebo", "estimate"] == pytest.approx(0.0476, abs=5e-5)
    assert rows.loc["skill", "n"] == 84
    assert rows.loc["skill", "n_clusters"] == 72


def losing(whole: pd.DataFrame, shares: dict[str, float], seed: int, how: str) -> pd.DataFrame:
    """Lose attempts of each condition, those that passed twice as often as the others."""
    rng = np.random.default_rng(seed)
    chance = whole["condition"].map(shares) * np.where(whole["passed"], 4 / 3, 2 / 3)
    lost = rng.random(len(whole)) < chance
    # every case keeps a row in each condition, or it would not have been asked there
    lost &= whole["repeat"].gt(1).to_numpy() | (how == "outcome")
    if how == "row":
        return whole[~lost]
    return whole.assign(
        passed=whole["passed"].mask(lost), share_passed=whole["share_passed"].mask(lost)
    )


@pytest.mark.parametrize("value", ["passed", "share_passed"])
@pytest.mark.parametrize("how", ["outcome", "row"])
def test_worst_case_bounds_hold_the_delta_of_the_complete_study(value: str, how: str) -> None:
    shares, warned, n_wrong = {"baseline": 0.05, "skill": 0.2}, 0, 0
    for seed in range(4):
        draw = np.random.default_rng(seed).random
        passes = [(draw((30, 4)) < rate).tolist() for rate in (0.5, 0.7)]
        whole = outcomes(*passes)
        truth = sc.deltas.paired(whole, value=value)["estimate"].iloc[0]
        row = sc.deltas.paired(losing(whole, shares, seed, how), value=value).iloc[0]
        assert row["worst_low"] <= truth + 1e-12 and truth <= row["worst_high"] + 1e-12
        warned += "attempts missing" in row["note"]
        n_wrong += abs(row["estimate"] - truth) > 1e-9
    assert warned >= 3 and n_wrong >= 3


def test_amounts_have_a_difference_and_a_ratio_with_t_intervals() -> None:
    rows = [
        {"attempt_id": f"{c}{i}{k}", "skill": "s", "case_id": f"s/{i}", "condition": c,
         "repeat": k, "seconds": seconds * k}
        for c, times in (("baseline", [1.0, 2.0, 4.0, 0.0]), ("skill", [2.0, 2.0, 16.0, 3.0]))
        for i, seconds in enumerate(times)
        for k in (1, 2)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    frame = sc.deltas.paired(table, value="seconds").set_index("measure")
    # the rule for rates does not apply to amounts, alone or in a list
    for value in ("seconds", ["seconds"]):
        other = sc.deltas.paired(table, value=value, interval="t").set_index("measure")
        pd.testing.assert_frame_equal(frame, other)
    # case means are 1.5 times the first: differences 1.5, 0, 18, 4.5
    delta = frame.loc["delta_seconds"]
    assert delta["estimate"] == pytest.approx(6)
    se = np.std([1.5, 0, 18, 4.5], ddof=1) / 2
    assert delta["ci_high"] == pytest.approx(6 + student_t.isf(0.025, 3) * se)
    # ratios 2, 1, 4; the case with no seconds has none
    ratio = frame.loc["ratio_seconds"]
    assert ratio["estimate"] == pytest.approx(2)
    assert ratio["n"] == 3
    assert ratio["note"] == "1 case with an amount of 0: no ratio"
    # means of the three cases that have a ratio
    assert ratio["rate"] / ratio["reference_rate"] == pytest.approx(20 / 7)
    assert "geometric mean of ratios" in ratio["method"]


def test_several_values_in_one_call_are_the_rows_of_each_value() -> None:
    frame = outcomes([[False, True]] * 6, [[True, True]] * 5 + [[False, False]])
    frame = frame.assign(contrast_of=frame["case_id"].map({"s/0": "s/1"}))
    attempts = amounts(frame)
    attempts["seconds"] = attempts["cost_usd"] * 100.0
    values = ["passed", "cost_usd", "seconds"]
    rows = sc.deltas.paired(frame, attempts, value=values)
    three = ["total_ratio_{}", "delta_{}", "ratio_{}"]
    of_amounts = [name.format(value) for value in values[1:] for name in three]
    assert rows["measure"].tolist() == ["delta_passed", *of_amounts]
    passed = one(sc.deltas.paired(frame))
    assert rows.iloc[0].drop("note").equals(passed.drop("note"))
    # the pair of cases is one cluster for the cost, too
    assert rows["n_clusters"].tolist() == [5] * 7
    alone = sc.deltas.paired(
        attempts.merge(frame[["skill", "case_id", "contrast_of"]].drop_duplicates()),
        value="cost_usd",
    )
    assert rows["estimate"].tolist()[1:4] == alone["estimate"].tolist()
    assert rows["ci_low"].tolist()[1:4] == alone["ci_low"].tolist()
    # only the cases of the outcomes count
    some = frame[~frame["case_id"].isin(["s/4", "s/5"])]
    assert sc.deltas.paired(some, attempts, value=values)["n"].tolist() == [4] * 7
    more = [attempts, amounts(frame).assign(agent="b", attempt_id=range(100, 124))]
    more.append(attempts[attempts["condition"].eq("skill")].assign(condition="placebo"))
    more[2] = more[2].assign(attempt_id=range(200, 212))
    whole = sc.deltas.paired(frame.assign(agent="a"), pd.concat(more), value=values)
    assert whole["estimate"].equals(rows["estimate"])
    limited = sc.deltas.paired(frame, attempts, value=["passed", "seconds"], limit=600.0)
    assert limited["ci_low"].iloc[2] != rows["ci_low"].iloc[5]
    two = pd.concat([frame, frame.assign(grader="h")])
    with pytest.raises(FrameError, match=r"found 'cost'.*Did you mean 'cost_usd'"):
        sc.deltas.paired(frame, attempts, value=["passed", "cost"])
    with pytest.raises(FrameError, match=r"Pass it, too: sc.deltas.paired\(outcomes, attempts"):
        sc.deltas.paired(frame, value=values)
    with pytest.raises(FrameError, match="attempts have no column 'grader', which differs"):
        sc.deltas.paired(two, attempts, by=["grader"], value=values)


def test_scores_of_a_grader_are_read_from_outcomes_and_have_no_ratio() -> None:
    scores = {"baseline": [40.0, 60.0, 50.0, None], "skill": [70.0, 80.0, 90.0, 10.0]}
    verdicts = pd.DataFrame(
        [
            {"attempt_id": f"{c}{i}", "skill": "s", "case_id": f"s/{i}", "condition": c,
             "check_id": k, "grader": "g", "passed": True, "score": None if k else score}
            for c, values in scores.items() for i, score in enumerate(values) for k in (0, 1)
        ]
    ).astype({"check_id": "str", "score": "float64"})  # fmt: skip
    outcomes = sc.frames.outcomes(verdicts)
    assert outcomes["score"].tolist()[:3] == [40, 60, 50] and outcomes["score"].isna().sum() == 1
    row = one(sc.deltas.paired(outcomes, value="score"))
    # differences 30, 20, 40
    assert (row["measure"], row["unit"]) == ("delta_score", "score")
    assert row["estimate"] == pytest.approx(30) and row["n_dropped"] == 1
    se = 10 / np.sqrt(3)
    assert row["ci_high"] == pytest.approx(30 + student_t.isf(0.025, 2) * se)
    assert sc.table(pd.DataFrame([row])) is not None


def test_cases_weigh_by_their_criticality_and_intervals_stay_inside_their_bounds() -> None:
    baseline = [[True]] * 3 + [[False]] * 9
    skill = [[True]] * 10 + [[False]] * 2
    frame = outcomes(baseline, skill)
    frame["worth"] = frame["case_id"].map({f"s/{i}": 1.0 + 3.0 * (i >= 9) for i in range(12)})
    row = one(sc.deltas.paired(frame, weight="worth"))
    # cases 0-2 pass in both, 3-8 are won at weight 1, 9 at weight 4, 10 and 11 never pass
    assert row["estimate"] == pytest.approx((6 + 4) / (9 + 3 * 4))
    assert row["rate"] == pytest.approx((9 + 4) / 21)
    assert row["reference_rate"] == pytest.approx(3 / 21)
    weights = [1.0] * 9 + [4.0] * 3
    limits = bounded_mean(
        [0.0] * 3 + [1.0] * 7 + [0.0] * 2, quantity=DELTAS, weights=weights, null=0.0
    )
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((limits.low, limits.high))
    assert row["method"].endswith("cases weighted by worth")
    levels = sc.deltas.rates(frame, weight="worth").set_index("condition")["estimate"]
    assert levels.to_dict() == pytest.approx({"skill": 13 / 21, "baseline": 3 / 21})
    tagged = frame.assign(comprehension_dimension="C2")
    of_dimension = sc.deltas.paired(tagged, by=["comprehension_dimension"], weight="worth")
    assert one(of_dimension)["estimate"] == pytest.approx(row["estimate"])


def test_weights_that_are_none_are_told() -> None:
    frame = outcomes([[True]] * 3, [[True]] * 3)
    for bad in (0.0, -1.0, None, "high", np.inf):
        with pytest.raises(FrameError, match=r"case 's/0' has the weight .*a number above 0"):
            sc.deltas.paired(frame.assign(worth=bad), weight="worth")


def test_a_column_that_is_named_twice_or_kept_apart_anyway_is_taken_once() -> None:
    facts = {"comprehension_dimension": "C2", "transfer": "near"}
    frame = outcomes([[False], [True], [False]], [[True], [True], [True]], **facts)
    for analysis, own in (
        (sc.deltas.paired, "skill"),
        (sc.skillverdicts.dimensions, "comprehension_dimension"),
    ):
        named, plain = analysis(frame, by=["skill", own]), analysis(frame, by=["skill"])
        pd.testing.assert_frame_equal(named, plain)


def test_rates_pass_at_k_and_amounts_count_and_note_what_is_missing() -> None:
    frame = outcomes([[True, False]] * 4, [[True, None], [True] * 2, [None] * 2, [True, False]])
    rates = sc.deltas.rates(frame).set_index("condition").loc["skill"]
    # without the missing 1, 1 and .5; at worst (.5 + 1 + 0 + .5) / 4 or (1 + 1 + 1 + .5) / 4
    assert rates["estimate"] == pytest.approx(2.5 / 3)
    assert (rates["n_missing"], rates["n_attempts"]) == (3, 8)
    assert (rates["worst_low"], rates["worst_high"]) == (0.5, 0.875)
    assert "attempts missing: 3 of 8; in the worst case the rate is 0.50 or 0.88" in rates["note"]
    both = sc.deltas.pass_hat_k(frame, k=2).set_index("condition").loc["skill"]
    assert (both["n"], both["n_short"], both["estimate"]) == (2, 2, 0.5)
    assert (both["worst_low"], both["worst_high"]) == (0.25, 0.75)
    assert (
        "left out, with fewer than 2 attempts that have an outcome: 2 cases (s/0, s/2)"
        in (both["note"])
    )
    assert "no k suits all cases" in both["note"]
    assert not sc.deltas.pass_at_k(frame, k=2).set_index("condition").loc["baseline", "note"]
    costs = frame.assign(status="ok", cost_usd=1.0).drop(
        columns=["passed", "share_passed", "grader"]
    )
    dear = costs["condition"].eq("skill") & costs["repeat"].eq(2)
    row = sc.deltas.paired(costs.assign(cost_usd=costs["cost_usd"].mask(dear)), value="cost_usd")
    assert (
        row[["n_missing", "n_attempts", "n_missing_reference"]].to_numpy().tolist()
        == [[4, 8, 0]] * 3
    )
    counts = "attempts without cost_usd: 4 of 8 under skill, 0 of 8 under baseline; if their cost"
    assert row["note"].str.contains(counts).all()


def test_a_k_that_some_cases_lack_names_them_and_the_largest_for_all() -> None:
    frame = outcomes([[True]] * 3, [[True, False, True]] * 2 + [[False, True]])
    row = sc.deltas.pass_at_k(frame, k=3).set_index("condition").loc["skill"]
    assert (row["n"], row["estimate"]) == (2, 1)
    assert "1 case (s/2); the largest k for all cases is 2" in row["note"]
    with pytest.raises(FrameError, match="whole number of attempts"):
        sc.deltas.pass_at_k(frame, k=0)
    agents = pd.concat([frame, frame.assign(agent="b", attempt_id="b" + frame["attempt_id"])])
    with pytest.raises(FrameError, match=r"deltas.pass_at_k: .*more than one agent") as refused:
        sc.deltas.pass_at_k(agents.fillna({"agent": "a"}), k=2, reference="baseline")
    assert "average=" not in str(refused.value)


def test_a_case_without_rows_is_missing_under_baseline_and_skill_only() -> None:
    whole = outcomes([[False, False]] * 6, [[True, True]] * 6)
    placebo = whole[whole["condition"].eq("skill")].assign(condition="placebo")
    frame = pd.concat([whole, placebo.assign(attempt_id="p" + placebo["attempt_id"])])
    few = frame[frame["condition"].eq("baseline") | frame["case_id"].isin(["s/0", "s/1", "s/2"])]
    rows = sc.deltas.paired(few).set_index("condition")
    assert rows["n_missing"].to_dict() == {"skill": 6, "placebo": 0}
    assert rows.loc["skill", "worst_low"] == pytest.approx(3 / 6)
    assert rows.loc["placebo", "n_dropped"] == 3
    # a repeat that no case has under a condition was not planned there
    once = frame[frame["condition"].eq("baseline") | frame["repeat"].eq(1)]
    assert sc.deltas.paired(once)[["n_missing", "n_missing_reference"]].sum().sum() == 0


def test_attempts_that_ended_in_a_time_limit_have_their_cost() -> None:
    frame = outcomes([[True]] * 12, [[True]] * 12).assign(cost_usd=1.0, status="ok")
    late = frame["condition"].eq("skill") & frame["case_id"].isin(["s/0", "s/1"])
    frame = frame.assign(cost_usd=np.where(late, 7.0, 1.0))
    for status, mean in (("timeout", 2.0), ("error", 1.0)):
        rows = sc.deltas.paired(
            frame.assign(status=np.where(late, status, "ok")), value="cost_usd"
        ).set_index("measure")
        assert rows.loc["delta_cost_usd", "rate"] == pytest.approx(mean)


def test_a_few_dear_cases_are_noted_and_a_limit_gives_the_interval_of_a_bounded_mean():
    base = pd.DataFrame({"case_id": [f"s/{i}" for i in range(14)], "cost_usd": 1.0})
    skill = base.assign(cost_usd=[20.0] + [1.0 + i / 50 for i in range(13)])
    sides = {"baseline": base, "skill": skill}
    frame = pd.concat([side.assign(condition=name) for name, side in sides.items()])
    frame = frame.assign(skill="s", status="ok", attempt_id=[str(i) for i in range(28)])
    free = sc.deltas.paired(frame, value="cost_usd")
    assert free["note"].str.contains("1 of 14 cases holds 58 % of the amount").all()
    bound = sc.deltas.paired(frame, value="cost_usd", limit=30).iloc[1]
    assert bound["estimate"] == pytest.approx(free["estimate"].iloc[1])
    assert bound["ci_high"] > free["ci_high"].iloc[1] and "hold" not in bound["note"]
    with pytest.raises(FrameError, match="limit: found 3, but cost_usd runs from 1 to 20"):
        sc.deltas.paired(frame, value="cost_usd", limit=3)
    with pytest.raises(FrameError, match="found value='passed'; a limit belongs to one amount"):
        sc.deltas.paired(outcomes([[True]], [[True]]), limit=3)
    with pytest.raises(FrameError, match="a limit belongs to one amount"):
        sc.deltas.paired(frame, value=["cost_usd", "output_tokens"], limit=30)
    with pytest.raises(FrameError, match=r"value=: found \[\]; allowed: names such as"):
        sc.deltas.paired(frame, value=[])


def test_passes_too_short_to_tell_copies_give_both_bounds_of_a_rate_and_a_delta() -> None:
    # Baseline: 5 of 20 pass, 2 of them short. Skill: 15 of 20 pass, 3 short and 1 copied.
    copied = [pd.NA] * 2 + [False] * 18 + [pd.NA] * 3 + [True] + [False] * 16
    frame = pd.DataFrame(
        {
            "skill": "s", "case_id": [f"s/{i}" for i in range(20)] * 2,
            "attempt_id": [f"{c}/{i}" for c in "bs" for i in range(20)],
            "condition": ["baseline"] * 20 + ["skill"] * 20, "n_checks": 2, "n_missing": 0,
            "passed": [True] * 5 + [False] * 15 + [True] * 15 + [False] * 5,
        }
    )  # fmt: skip
    frame["n_passed"] = frame["passed"] * 2
    frame["passed_own_words"] = frame["passed"].astype("boolean") & ~pd.array(copied, "boolean")
    rates = sc.deltas.rates(frame, value="passed_own_words").set_index("condition")
    assert rates["measure"].eq("rate_passed_own_words").all()
    assert rates.loc["baseline", ["worst_low", "worst_high"]].tolist() == [3 / 20, 5 / 20]
    assert rates.loc["skill", ["worst_low", "worst_high"]].tolist() == [11 / 20, 14 / 20]
    assert rates.loc["skill", "estimate"] == pytest.approx(11 / 17)
    none, every = (
        sc.deltas.rates(frame.assign(passed=frame["passed_own_words"].fillna(reading)))
        for reading in (False, True)
    )
    assert rates["ci_low"].tolist() == none["ci_low"].tolist()
    assert rates["ci_high"].tolist() == every["ci_high"].tolist()
    assert "not scored: 3; the estimate is between 0.55 and 0.70" in rates.loc["skill", "note"]
    delta = sc.deltas.paired(frame, value="passed_own_words").iloc[0]
    assert delta[["worst_low", "worst_high"]].tolist() == pytest.approx([0.3, 0.55])
    assert delta["ci_low"] < 0.3 < delta["estimate"] < 0.55 < delta["ci_high"]
    known = frame.assign(passed_own_words=frame["passed_own_words"].fillna(False))
    plain = sc.deltas.paired(known.assign(passed=known["passed_own_words"]))
    same = sc.deltas.paired(known, value="passed_own_words")
    pd.testing.assert_frame_equal(same.drop(columns="measure"), plain.drop(columns="measure"))
    with pytest.raises(FrameError, match="passed_own_words"):
        sc.deltas.rates(frame.drop(columns="passed_own_words"), value="passed_own_words")


def test_agents_that_always_answer_differently_are_no_mixed_outcomes() -> None:
    # agent A always passes, B never does; each gives the same answer every time
    rows = [
        {"skill": "s", "case_id": f"s/{case}", "condition": condition, "agent": agent,
         "passed": agent == "A"}
        for case in range(20) for condition in ("skill", "baseline") for agent in "AB"
        for _ in range(20)
    ]  # fmt: skip
    averaged, bounded = (
        one(sc.deltas.paired(pd.DataFrame(rows), average=["agent"], interval=rule))
        for rule in ("adaptive", "bounded")
    )
    assert averaged["ci_high"] == pytest.approx(bounded["ci_high"], abs=1e-9)
    assert averaged["ci_high"] > 0.14


def tagged_outcomes() -> pd.DataFrame:
    """Outcomes of two dimensions, the second first, and of cases without a dimension."""
    frame = outcomes([[False]] * 12, [[True]] * 8 + [[False]] * 4)
    number = frame["case_id"].str.removeprefix("s/").astype(int)
    tags = np.select([number < 5, number < 10], ["C2", "C1"], "none")
    return frame.assign(comprehension_dimension=pd.Series(tags, dtype="str").replace("none", pd.NA))


def test_cases_without_a_dimension_change_no_delta_of_a_dimension() -> None:
    by, frame = ["comprehension_dimension"], tagged_outcomes()
    rows = sc.deltas.paired(frame, by=by)
    assert rows["comprehension_dimension"].tolist() == ["C1", "C2"]
    known = sc.deltas.paired(frame[frame["comprehension_dimension"].notna()], by=by)
    pd.testing.assert_frame_equal(rows, known)


def test_verdicts_by_dimension_keep_their_rows_and_their_order() -> None:
    by, frame = ["comprehension_dimension"], tagged_outcomes()
    judged = sc.skillverdicts.decide(frame, by=by)
    assert judged["comprehension_dimension"].isna().sum() == 1
    for values, row in judged.set_index("comprehension_dimension").iterrows():
        own = frame["comprehension_dimension"]
        part = frame[own.isna() if pd.isna(values) else own.eq(values)]
        assert row["estimate"] == one(sc.deltas.paired(part))["estimate"]


def test_passes_in_own_words_by_dimension_are_shown_by_their_own_interval() -> None:
    frame = tagged_outcomes()
    frame["passed_own_words"] = frame["passed"].mask(frame["case_id"].isin(["s/0", "s/6", "s/7"]))
    rows = sc.deltas.paired(frame, by=["comprehension_dimension"], value="passed_own_words")
    assert (rows["p_adjusted"] >= rows["p_value"]).all()
    assert not (rows["shown"] & rows["ci_low"].le(0) & rows["ci_high"].ge(0)).any()


def test_groups_of_an_amount_may_mix_text_and_numbers() -> None:
    frame = outcomes([[True]] * 4, [[True]] * 4)
    frame = frame.assign(score=np.arange(8.0), tag=[1, "one", None, 2] * 2)
    rows = sc.deltas.paired(frame, by="tag", value="score")
    assert rows["tag"].isna().tolist() == [True, False, False, False]
    assert rows["tag"].tolist()[1:] == [1, 2, "one"]
    with pytest.raises(FrameError, match="_level"):
        sc.deltas.rates(frame.assign(_level="x"), by="_level")


def retried(tries: dict[str, list[int]], most: int = 6) -> pd.DataFrame:
    """Outcomes of attempts that were repeated until one passed, or up to ``most`` times."""
    rows = [
        {"skill": "s", "case_id": f"s/{case}", "condition": condition, "repeat": repeat}
        | {"passed": repeat == n}
        for condition, cases in tries.items()
        for case, n in enumerate(cases)
        for repeat in range(1, min(n, most) + 1)
    ]
    return pd.DataFrame(rows)


def test_attempts_that_were_repeated_until_one_passed_are_recognised() -> None:
    tries = {"baseline": [3, 2, 2, 1, 4, 3, 2, 2, 3, 2], "skill": [1, 2, 1, 1, 2, 2, 1, 1, 2, 1]}
    frame = retried(tries)
    rates = sc.deltas.rates(frame).set_index("condition")
    assert "pass rates are biased; the rate of first attempts is 0.10" in rates["note"]["baseline"]
    assert "pass rates are biased; the rate of first attempts is 0.60" in rates["note"]["skill"]
    assert not rates["n_missing"].any()  # their numbers were not planned
    delta = sc.deltas.paired(frame.sample(frac=1, random_state=1)).iloc[0]
    assert "first attempts is 0.60 under skill, 0.10 under baseline" in delta["note"]
    decided = sc.skillverdicts.decide(frame).iloc[0]
    assert "first attempts" in decided["note"] and decided["n_missing"] == 0
    # two cases with several attempts, or cases with a second pass, are ordinary repeats
    for other in (retried({"baseline": [2, 2, 1], "skill": [1, 1, 1]}), frame.assign(passed=True)):
        assert not sc.deltas.rates(other)["note"].str.contains("first attempts").any()


def test_a_case_that_stopped_at_its_first_pass_passes_at_k_if_k_is_at_least_its_attempts() -> None:
    # one case of the baseline fails four times
    frame = retried({"baseline": [1, 2, 3, 4] * 3 + [9], "skill": [1, 2] * 6 + [2]}, most=4)
    for k, share in ((1, 3 / 13), (2, 6 / 13), (3, 9 / 13), (4, 12 / 13)):
        rows = sc.deltas.pass_at_k(frame, k=k).set_index("condition")
        low, high = rows.loc["baseline", ["worst_low", "worst_high"]]
        assert rows.loc["baseline", "estimate"] == low == high == pytest.approx(share)
        assert not rows["n_short"].any() and not rows["n_missing"].any()
        assert "repeated until one passed (12 cases)" in rows.loc["baseline", "note"]
    assert rows.loc["skill", "estimate"] == 1
    change = sc.deltas.pass_at_k(frame, k=2, reference="baseline").iloc[0]
    assert (change["rate"], change["n"]) == (1.0, 13)
    assert change["reference_rate"] == pytest.approx(6 / 13)


def apart(baseline: list[str], skill: list[str], **columns: Any) -> pd.DataFrame:
    """Outcomes of cases with the given ids under each condition; every second one passes."""
    sides = [("baseline", baseline), ("skill", skill)]
    rows = [
        {"skill": "s", "case_id": case, "condition": condition, "passed": bool(n % 2)}
        for condition, cases in sides
        for n, case in enumerate(cases)
    ]
    return pd.DataFrame(rows).assign(**columns)


IDS = [f"a{n}" for n in range(10)]


@pytest.mark.parametrize("by", [[], ["skill"]])
@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        (apart(IDS, [" " + name for name in IDS]), r"only by blanks, .*' a0' under skill and 'a0'"),
        (apart(["01", "02", "10"], ["1", "2", "10.0"]), r"'1' under skill and '01' under baseline"),
        (apart(IDS, [name.upper() for name in IDS]), "'A0' under skill and 'a0' under baseline"),
        (
            apart(IDS, IDS).assign(
                skill=lambda rows: np.where(rows["condition"].eq("skill"), "s", "none"),
                task=lambda rows: rows["case_id"],
            ),
            "equal cases have different skills, such as 'a0' with skill 's' under skill and 'none'",
        ),
        (
            apart(IDS, ["b", "c"]),
            r"different cases .* 2 cases \(b, c\) only under skill, 10 cases .* only under baseline"
            r".* deltas.unpaired .* asked=",
        ),
        (
            apart(IDS, ["b", "c", "a9"]),
            r"^11 of 12 cases have rows under only one condition: .* deltas.unpaired .* asked=",
        ),
        (
            apart(IDS, IDS, passed=pd.NA, score=0.4),
            r"scores, but no verdicts \(passed\); value='score' with bounds=",
        ),
        (
            apart(IDS, IDS).assign(
                passed=lambda rows: rows["passed"].mask(rows["condition"].eq("skill"))
            ),
            "^no case has outcomes in both conditions; 10 attempts without a usable verdict$",
        ),
    ],
)
def test_a_refused_delta_states_the_true_cause(
    frame: pd.DataFrame, cause: str, by: list[str]
) -> None:
    row = sc.deltas.paired(frame, by=by).iloc[0]
    assert np.isnan(row["estimate"]) and re.search(cause, row["note"])
    assert ("usable verdict" in row["note"]) == ("usable verdict" in cause)
    decided = sc.skillverdicts.decide(frame, by=by).iloc[0]
    assert decided["verdict"] == "undetermined" and row["note"] in decided["why"]


def test_arms_on_different_cases_lack_nothing_and_are_compared_by_their_rates() -> None:
    frame = apart([f"a{n}" for n in range(15)], [f"b{n}" for n in range(18)])
    frame["passed"] = [n < 5 for n in range(15)] + [n < 14 for n in range(18)]
    rates = sc.deltas.rates(frame).set_index("condition")
    assert not rates["n_missing"].any()
    row = sc.deltas.unpaired(frame).iloc[0]
    (p, low, high), (q, down, up) = rates.loc[
        ["skill", "baseline"], ["estimate", "ci_low", "ci_high"]
    ].to_numpy()
    expected = [p - q, p - q - np.hypot(p - low, up - q), p - q + np.hypot(high - p, q - down)]
    assert row[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(expected)
    assert row[["measure", "n", "n_condition", "n_reference"]].tolist() == [
        "delta_passed",
        33,
        18,
        15,
    ]
    assert "square-and-add" in row["method"] and row["reference"] == "baseline"
    # the p-value is the error rate at which the interval reaches 0
    p_value = float(row["p_value"])
    at = sc.deltas.unpaired(frame, ci_level=1 - p_value).iloc[0]
    assert at["ci_low"] == pytest.approx(0, abs=1e-4) and 0 < p_value < 0.05
    swapped = sc.deltas.unpaired(frame, reference="skill").iloc[0]
    assert swapped["ci_high"] == pytest.approx(-row["ci_low"])
    assert swapped["p_value"] == pytest.approx(p_value, rel=1e-3)
    even = sc.deltas.unpaired(apart(IDS, ["b" + name for name in IDS])).iloc[0]
    assert (even["estimate"], even["p_value"]) == (0, pytest.approx(1))
    # without a usable verdict under a condition, there is no estimate
    lost = frame.assign(passed=frame["passed"].mask(frame["condition"].eq("skill")))
    row = sc.deltas.unpaired(lost).iloc[0]
    assert np.isnan(row["estimate"]) and np.isnan(row["p_value"])
    assert "no outcome under skill; 18 attempts without a usable verdict" in row["note"]
