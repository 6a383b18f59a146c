import numpy as np
import pandas as pd
import pytest
from analysis_tables import messy
from build import lenient_judge
from scipy.stats import multinomial

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.planning.power import detectable_changes


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
        (40, 10, 18, "helps"),  # a gain, but perhaps within the margin
        (40, 18, 10, "hurts"),
        (14, 14, 14, "undetermined"),  # fourteen cases cannot show that nothing is left to gain
    ],
)
def test_a_skill_is_judged_by_the_interval_against_the_margin(
    n: int, baseline: int, skill: int, verdict: str
) -> None:
    row = sc.skillverdicts.decide(study(n, baseline, skill), margin=0.1).iloc[0]
    assert row["verdict"] == verdict, row[["ci_low", "ci_high", "reference_low"]]


def test_cases_are_taught_already_passing_not_taught_or_harmed() -> None:
    frame = study(4, 2, 2)
    skill = frame["condition"].eq("skill")
    frame.loc[skill & frame["case_id"].eq("s/0"), "passed"] = False
    frame.loc[skill & frame["case_id"].eq("s/2"), "passed"] = True
    rows = sc.skillverdicts.cases(frame).set_index("case_id")
    assert rows["verdict"].to_dict() == {
        "s/0": "harmed", "s/1": "already_passes", "s/2": "taught", "s/3": "not_taught",
    }  # fmt: skip
    # sorted by delta, the largest loss first
    assert rows["delta"].to_dict() == {"s/0": -1, "s/1": 0, "s/3": 0, "s/2": 1}
    assert rows.index.tolist() == ["s/0", "s/1", "s/3", "s/2"]
    assert rows["discriminates"].tolist() == [True, False, False, True]
    assert rows["note"].eq("").all()
    noted = frame.assign(note=frame["case_id"].map({"s/2": "attempts lack a check: 1"}))
    rows = sc.skillverdicts.cases(noted).set_index("case_id")
    assert rows["note"].to_dict() == {
        "s/0": "", "s/1": "", "s/3": "", "s/2": "attempts lack a check: 1",
    }  # fmt: skip


def test_a_dimension_passes_when_all_its_cases_pass_in_the_majority_and_ties_fail() -> None:
    frame = study(9, 0, 9, repeats=2)
    frame.loc[frame["attempt_id"].eq("skill/0/2"), "passed"] = False
    rows = sc.skillverdicts.dimensions(frame)
    pd.testing.assert_frame_equal(
        rows, sc.skillverdicts.dimensions(frame, by=["skill", "condition"])
    )
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
    rubric = sc.skillverdicts.aggregate(judged, policy="weighted", weights="rubric")
    rubric = rubric.set_index("condition")
    assert rubric.loc["skill", "score"] == pytest.approx(8.5 / 9.5)  # C7 to C9 weigh 1.0 each
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


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"policy": "stict"}, r"policy: found 'stict'.*Did you mean 'strict'"),
        ({"exceptions": ["C10"]}, "exceptions: found 'C10'"),
        ({"policy": "weighted", "weights": {"c1": 1.0}}, "weights: found 'c1'; allowed: C1 to C9"),
        ({"policy": "weighted", "weights": "shema"}, r"found 'shema'.*Did you mean 'schema'"),
        ({"policy": "weighted", "weights": {}}, "add up to nothing"),
    ],
)
def test_unknown_policies_exceptions_and_weights_are_named(how: dict, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        sc.skillverdicts.aggregate(sc.skillverdicts.dimensions(study(9, 0, 9)), **how)


def test_no_groups_give_one_verdict_and_an_empty_study_none() -> None:
    assert sc.skillverdicts.decide(study(60, 10, 50), by=[])["verdict"].tolist() == ["teaching"]
    assert sc.skillverdicts.decide(sc.frames.empty("outcomes"), by=[]).empty
    with pytest.raises(FrameError, match="margin: found 10"):
        sc.skillverdicts.decide(study(20, 1, 2), margin=10)


def test_a_saturated_baseline_is_not_redundant_while_a_loss_is_not_excluded() -> None:
    frame = study(60, 60, 60)
    skill = frame["condition"].eq("skill")
    died = skill & ~frame["case_id"].isin([f"s/{i}" for i in range(5)])
    frame.loc[died, "passed"] = pd.NA
    frame.loc[skill & frame["case_id"].isin(["s/0", "s/1"]), "passed"] = False
    row = sc.skillverdicts.decide(frame, margin=0.1).iloc[0]
    assert row["reference_low"] > 0.9 and row["ci_low"] < -0.1
    assert row["verdict"] == "undetermined"


def every_outcome(n: int) -> tuple[pd.DataFrame, list[tuple[int, int, int]]]:
    """All studies of n cases with one attempt: a skill for each count of up, down and passing."""
    counts = [
        (up, down, both)
        for up in range(n + 1)
        for down in range(n + 1 - up)
        for both in {0, n - up - down}
    ]
    parts = []
    for number, (up, down, both) in enumerate(counts):
        steady = n - up - down
        baseline = [False] * up + [True] * (down + both) + [False] * (steady - both)
        skill = [True] * up + [False] * down + [True] * both + [False] * (steady - both)
        for condition, passed in (("baseline", baseline), ("skill", skill)):
            parts.append(
                pd.DataFrame(
                    {
                        "skill": f"s{number:04d}",
                        "case_id": [f"s{number:04d}/{i}" for i in range(n)],
                        "condition": condition,
                        "passed": passed,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True), counts


def test_each_verdict_is_wrong_in_at_most_five_percent_at_its_own_margin() -> None:
    n, margin = 12, 0.2
    frame, counts = every_outcome(n)
    verdicts = sc.skillverdicts.decide(frame, margin=margin).set_index("skill")["verdict"]
    table = np.array(counts)
    given = np.array([verdicts[f"s{i:04d}"] for i in range(len(counts))])
    # flips alone decide: the cases that stay all pass, or all fail, whichever is worse
    for passing in (True, False):
        kept = table[:, 2] == np.where(passing, n - table[:, 0] - table[:, 1], 0)
        up, down = table[kept, 0], table[kept, 1]
        for delta, wrong in (
            (margin, "ineffective"),
            (-margin, "ineffective"),
            (margin, "teaching"),
            (-margin, "harmful"),
            (-margin, "redundant"),
        ):
            for flips in np.linspace(abs(delta), 1, 25):
                chances = [(flips + delta) / 2, (flips - delta) / 2, 1 - flips]
                mass = multinomial.pmf(np.stack([up, down, n - up - down], axis=1), n, chances)
                assert mass[given[kept] == wrong].sum() <= 0.05, (wrong, delta, flips)


def several(*passing: tuple[int, int], n: int = 40) -> pd.DataFrame:
    """Skills a, b, ... with n cases, of which so many pass without and with the skill."""
    parts = [
        study(n, *counts).assign(skill=name)
        for name, counts in zip("abcdefghij", passing, strict=False)
    ]
    frame = pd.concat(parts, ignore_index=True)
    ids = {name: frame["skill"] + "/" + frame[name] for name in ("attempt_id", "case_id")}
    return frame.assign(**ids).reset_index(drop=True)


def test_gains_and_losses_are_adjusted_over_the_rows_of_one_call() -> None:
    # Holm by hand: three times the smallest p-value, and no later one is smaller than that
    frame = several((10, 18), (18, 10), (20, 21))
    rows = sc.skillverdicts.decide(frame)
    assert rows["verdict"].tolist() == ["helps", "hurts", "undetermined"]
    p = rows["p_value"].tolist()
    assert rows["p_adjusted"].tolist() == pytest.approx([3 * p[0], 3 * p[0], p[2]])
    assert rows["method"].str.endswith("; p adjusted by Holm over 3 rows").all()
    assert (
        "is above 0, but reaches into the margin of 10 points (adjusted p = .02 among 3 rows"
        in (rows["why"][0])
    )
    weak = several((10, 17), *[(20, 20)] * 9)
    row = sc.skillverdicts.decide(weak).iloc[0]
    assert row["ci_low"] > 0 and row["verdict"] == "undetermined"
    words = "a gain is shown by the interval alone, not among 10 rows (adjusted p = ."
    assert words in row["note"] and words in row["why"]
    alone = sc.skillverdicts.decide(weak[weak["skill"].eq("a")]).iloc[0]
    assert (alone["verdict"], alone["p_adjusted"]) == ("helps", alone["p_value"])


def test_the_stronger_word_needs_the_adjusted_p_value_too() -> None:
    frame = several((10, 17), *[(20, 20)] * 9)
    rows = sc.skillverdicts.decide(frame, margin=0.01)
    assert rows["ci_low"][0] > 0.01 and not rows["shown"][0]
    assert rows["verdict"][0] == "undetermined"
    assert (
        "is above the margin of 1 points; a gain is shown by the interval alone" in rows["why"][0]
    )
    alone = sc.skillverdicts.decide(frame[frame["skill"].eq("a")], margin=0.01).iloc[0]
    assert alone["verdict"] == "teaching" and alone["shown"]


def test_no_change_is_adjusted_over_the_rows_by_benjamini_and_hochberg() -> None:
    quiet = sc.skillverdicts.decide(several((20, 20)), margin=0.2).iloc[0]
    margin = float(quiet["ci_high"]) + 0.001
    noisy = several((20, 20), *[(20, 23)] * 3)
    turned = noisy["skill"].ne("a") & noisy["condition"].eq("skill")
    noisy.loc[turned, "passed"] = noisy.loc[turned, "passed"].to_numpy()[::-1]
    verdicts = sc.skillverdicts.decide(noisy, margin=margin)["verdict"]
    # one quiet row among four: its one-sided p-value of nearly .025 is multiplied by 4
    assert verdicts.tolist() == ["undetermined"] * 4
    assert (
        "but not once adjusted for 4 rows"
        in sc.skillverdicts.decide(noisy, margin=margin)["why"][0]
    )
    alone = sc.skillverdicts.decide(noisy[noisy["skill"].eq("a")], margin=margin)
    assert alone["verdict"].tolist() == ["ineffective"]
    # four quiet rows support each other: the largest p-value is not changed
    all_quiet = sc.skillverdicts.decide(several(*[(20, 20)] * 4), margin=margin)
    assert all_quiet["verdict"].tolist() == ["ineffective"] * 4


def test_a_placebo_is_not_in_the_family_and_neither_helps_nor_hurts() -> None:
    frame = study(40, 10, 18)
    placebo = frame[frame["condition"].eq("skill")].assign(condition="placebo")
    placebo["attempt_id"] = "p" + placebo["attempt_id"]
    rows = sc.skillverdicts.decide(pd.concat([frame, placebo])).set_index("condition")
    assert rows.loc["skill", "p_adjusted"] == rows.loc["skill", "p_value"]
    assert rows["verdict"].to_dict() == {"skill": "helps", "placebo": "undetermined"}
    assert "Holm" not in rows.loc["placebo", "method"]
    assert "the interval alone, without an adjusted p-value" in rows.loc["placebo", "note"]
    assert "does not clearly beat its placebo" in rows.loc["skill", "note"]


def test_a_skill_that_does_not_beat_its_placebo_is_not_called_teaching_without_a_word() -> None:
    frame = study(60, 10, 50)
    placebo = frame[frame["condition"].eq("skill")].assign(condition="placebo")
    placebo["attempt_id"] = "p" + placebo["attempt_id"]
    both = pd.concat([frame, placebo], ignore_index=True)
    rows = sc.skillverdicts.decide(both).set_index("condition")
    assert rows.loc["skill", "verdict"] == "teaching"
    assert rows.loc["skill", "over_placebo"] == 0
    assert "does not clearly beat its placebo" in rows.loc["skill", "note"]
    assert np.isnan(rows.loc["placebo", "over_placebo"])
    weak = both.copy()
    weak.loc[weak["condition"].eq("placebo"), "passed"] = frame.loc[
        frame["condition"].eq("baseline"), "passed"
    ].to_numpy()
    rows = sc.skillverdicts.decide(weak).set_index("condition")
    assert rows.loc["skill", "over_placebo_low"] > 0
    assert "placebo" not in rows.loc["skill", "note"]


def judged(
    passed: list[bool | None], *, skill: str = "s", condition: str = "skill"
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "skill": skill,
            "condition": condition,
            "comprehension_dimension": [f"C{k + 1}" for k in range(len(passed))],
            "passed": passed,
        }
    )
    return frame.astype({"passed": "boolean"})


@pytest.mark.parametrize(
    ("passed", "how", "verdict"),
    [
        ([True] * 9, {}, "PASS"),
        ([True] * 7 + [False] * 2, {}, "PARTIAL"),  # the report's own example (appendix C)
        ([True] * 7 + [False] * 2, {"exceptions": ["C8", "C9"]}, "PASS WITH FIXES"),
        ([True] * 7 + [False] * 2, {"policy": "pass_count"}, "PASS WITH FIXES"),
        ([True] * 9, {"policy": "weighted"}, "PASS"),
        ([False] * 9, {}, "FAIL"),
        ([False] * 9, {"exceptions": [f"C{k}" for k in range(1, 10)]}, "PASS WITH FIXES"),
        ([True] * 8 + [None], {}, None),
        ([True] * 7 + [False, None], {}, "PARTIAL"),
    ],
)
def test_the_verdict_is_in_the_words_of_the_sources_audits(
    passed: list[bool | None], how: dict[str, object], verdict: str | None
) -> None:
    found = sc.skillverdicts.aggregate(judged(passed), **how).iloc[0]
    assert found["verdict"] == verdict if verdict else pd.isna(found["verdict"])


@pytest.mark.parametrize(("share", "score"), [(1.0, 5.0), (0.4, 2.0), (0.0, 1.0)])
def test_the_score_of_a_dimension_is_derived_from_its_checks(share: float, score: float) -> None:
    frame = study(36, 9, 9).assign(share_passed=share)
    found = sc.skillverdicts.dimensions(frame)
    assert found["score"].tolist() == pytest.approx([score] * len(found))
    assert (found["score_low"] >= 1).all()
    assert (found["score_high"] <= 5).all()
    assert (found["score_low"] < found["score_high"]).all()
    unknown = sc.skillverdicts.dimensions(frame.assign(share_passed=np.nan))
    assert unknown["score"].isna().all()


def test_boundary_and_misconception_are_held_side_by_side() -> None:
    kinds = [(True, True)] * 6 + [(True, False)] * 3 + [(False, True)] + [(False, False)] * 2
    rows = [
        judged([True] * 3 + [four, True, True, seven], skill=f"s{k}")
        for k, (four, seven) in enumerate(kinds)
    ]
    frame = pd.concat(rows, ignore_index=True)
    found = sc.skillverdicts.together(frame).set_index("measure")
    assert found["estimate"].to_dict() == pytest.approx(
        {
            "both_rate": 6 / 12,
            "first_only_rate": 3 / 12,
            "second_only_rate": 1 / 12,
            "neither_rate": 2 / 12,
        }
    )
    assert found["n"].eq(12).all()
    assert (found["ci_low"] < found["ci_high"]).all()
    alone = sc.skillverdicts.together(judged([True] * 4))
    assert alone["estimate"].isna().all()
    assert alone["note"].eq("no skill has a verdict on both dimensions").all()
    with pytest.raises(FrameError, match=r"second: found 'C10'.*Did you mean 'C1'"):
        sc.skillverdicts.together(frame, second="C10")
    with pytest.raises(FrameError, match="second: found 'C4' twice"):
        sc.skillverdicts.together(frame, second="C4")
    with pytest.raises(FrameError, match=r"a dimension has several verdicts .* name in by= what"):
        sc.skillverdicts.together(pd.concat([frame, frame]))


def test_a_placebo_on_other_cases_than_the_delta_is_said_with_both_numbers() -> None:
    frame = study(12, 2, 11)
    placebo = frame[frame["condition"].eq("baseline")].assign(condition="placebo")
    placebo["attempt_id"] = placebo["attempt_id"] + "/placebo"
    whole = sc.skillverdicts.decide(pd.concat([frame, placebo])).set_index("condition")
    assert not whole["note"].str.contains("other cases").any()
    part = sc.skillverdicts.decide(pd.concat([frame, placebo[3:]])).set_index("condition")
    assert "over_placebo rests on other cases than the delta: 9 and 12" in part["note"]["skill"]
    # as many cases, but not the same ones
    baseline = frame["condition"].eq("baseline") & frame["case_id"].isin(["s/9", "s/10", "s/11"])
    moved = sc.skillverdicts.decide(pd.concat([frame[~baseline], placebo[3:]]), by=[])
    note = moved.set_index("condition")["note"]["skill"]
    assert "over_placebo rests on other cases than the delta: 9 and 9" in note


def lost_runs(how: str) -> pd.DataFrame:
    """60 cases: the baseline passes 30, 40 runs of the skill died, the others passed."""
    frame = study(60, 30, 60)
    died = frame["condition"].eq("skill") & ~frame["case_id"].isin(f"s/{k}" for k in range(20, 40))
    if how == "outcome":
        return frame.assign(passed=frame["passed"].mask(died))
    asked = frame[["skill", "case_id", "condition"]] if how == "planned" else None
    read = sc.from_frame(frame[~died], case="case_id", attempt="attempt_id", asked=asked)
    return read.outcomes


def test_a_condition_without_rows_for_most_cases_is_no_basis_for_a_verdict() -> None:
    row = sc.skillverdicts.decide(lost_runs("row")).iloc[0]
    assert np.isnan(row["estimate"]) and row["verdict"] == "undetermined"
    assert "40 of 60 cases have rows under only one condition" in row["why"]
    assert "deltas.unpaired" in row["why"] and "asked=" in row["why"]


@pytest.mark.parametrize("how", ["outcome", "planned"])
def test_runs_that_died_do_not_make_a_skill_teach(how: str) -> None:
    row = sc.skillverdicts.decide(lost_runs(how)).iloc[0]
    assert (row["estimate"], row["verdict"], row["overturned"]) == (0.5, "undetermined", True)
    assert row[["n_missing", "n_attempts", "n_missing_reference"]].tolist() == [40, 60, 0]
    assert row["worst_low"] == pytest.approx(20 / 60 - 30 / 60)
    for part in (
        "40 of 60 under skill, 0 of 60 under baseline",
        "-0.17 or +0.50",
        "would say teaching (+0.50)",
    ):
        assert part in row["note"]
    kept = sc.skillverdicts.decide(lost_runs(how), assume_missing="at random").iloc[0]
    assert (kept["verdict"], kept["assume_missing"]) == ("teaching", "at random")
    assert "teaching, assuming that attempts are missing at random" in kept["note"]
    with pytest.raises(FrameError, match="allowed: at random"):
        sc.skillverdicts.decide(lost_runs(how), assume_missing="none")


@pytest.mark.parametrize(("n", "overturned"), [(20, True), (21, False)])
def test_only_five_percent_of_missing_attempts_or_more_overturn_a_verdict(
    n: int, overturned: bool
) -> None:
    frame = study(n, 1, 7)  # six gains in the other cases; the lost run could be a loss
    lost = frame["condition"].eq("skill") & frame["case_id"].eq("s/0")
    row = sc.skillverdicts.decide(frame.assign(passed=frame["passed"].mask(lost))).iloc[0]
    assert row["ci_low"] > 0, row["ci_low"]
    verdict = "undetermined" if overturned else "helps"
    assert (row["verdict"], row["overturned"]) == (verdict, overturned)
    assert ("too many attempts are missing" in row["note"]) == overturned


def corrections(study: sc.frames.Frames, **how: object) -> pd.DataFrame:
    """Changes and rates by skill, corrected for the grader's errors."""
    how = {"by": ["skill"], "value": "passed", "cases": study.cases, **how}
    delta = sc.correction.delta(study.verdicts, study.gold, **how)
    return pd.concat([delta, sc.correction.rate(study.verdicts, study.gold, **how)])


def test_a_judge_that_is_lenient_with_the_skill_only_does_not_make_it_teach() -> None:
    study = lenient_judge()
    rows = corrections(study)
    alone = sc.skillverdicts.decide(study.outcomes).iloc[0]
    assert (alone["verdict"], alone["estimator"]) == ("teaching", "naive")
    for corrected in (rows, rows[rows["recommended"]]):
        row = sc.skillverdicts.decide(study.outcomes, corrected=corrected).iloc[0]
        words = row[["verdict", "verdict_uncorrected", "estimator"]].tolist()
        assert words == ["ineffective", "teaching", "ppi"]
        assert row["estimate"] == pytest.approx(0) and abs(row["ci_low"]) < 0.07
        assert row["estimate_uncorrected"] == pytest.approx(1 / 3)
        is_used = corrected["recommended"] & corrected["measure"].eq("delta_passed")
        assert row["p_adjusted"] == corrected.loc[is_used, "p_value"].item()
        assert "[−6, 6] is within the margin of 10 points; no attempt is missing" in row["why"]
        assert "by ppi with 40 labelled cases (by the grader alone teaching" in row["why"]


def test_a_row_that_the_grader_shows_only_alone_gives_its_adjusted_p_value() -> None:
    frame = several((10, 17), *[(20, 20)] * 9, n=40)
    alone = sc.skillverdicts.decide(frame).iloc[0]
    assert alone["verdict"] == "undetermined" and alone["ci_low"] > 0
    labels = frame["passed"].where(frame["skill"].eq("a") & ~frame["case_id"].str.endswith("5"))
    cells = frame.rename(columns={"case_id": "case"}).assign(gold=labels)
    gold = sc.from_frame(cells[["skill", "case", "condition", "passed", "gold"]], gold="gold")
    corrected = corrections(gold)
    row = sc.skillverdicts.decide(gold.outcomes, corrected=corrected).set_index("skill").loc["a"]
    end = f"{alone['p_adjusted']:.2f}))".removeprefix("0")
    end = f"(by the grader alone undetermined, [4, 32] (adjusted p = {end}"
    assert row["estimator"] != "naive" and row["why"].endswith(end)
    assert "p_adjusted_uncorrected" not in row


@pytest.mark.parametrize("lenient", [True, False])
def test_fewer_labels_never_give_a_stronger_verdict(lenient: bool) -> None:
    verdicts, needed, counts = [], [], (40, 20, 8, 0)
    for n in counts:
        study = lenient_judge(n)
        if not lenient:  # a judge that is right about 24 cases more with the skill
            right = study.verdicts.set_index("attempt_id")["passed"]
            study.gold["passed"] = study.gold["attempt_id"].map(right).array
        row = sc.skillverdicts.decide(study.outcomes, corrected=corrections(study)).iloc[0]
        verdicts.append(row["verdict"])
        needed.append(row["labels_needed"])
    first = "ineffective" if lenient else "teaching"
    n_claims = verdicts.count(first)
    assert verdicts == [first] * n_claims + ["undetermined"] * (len(verdicts) - n_claims)
    assert 1 <= n_claims <= 2, "fewer than ten labels confirm nothing"
    assert np.isnan(needed[:n_claims]).all() and np.isfinite(needed[n_claims])
    # the first step that decides has about as many labels as the one before it asked for
    assert counts[n_claims] + needed[n_claims] <= counts[n_claims - 1] + 3


def test_a_saturated_baseline_is_redundant_only_by_its_corrected_rate() -> None:
    rows = [
        {"case": str(k), "condition": condition, "passed": True, "gold": right if k < 150 else None}
        for condition in ("baseline", "skill")
        for k in range(400)
        for right in [k % 3 > 0]
    ]
    study = sc.from_frame(pd.DataFrame(rows).assign(skill="tea"), gold="gold")
    row = sc.skillverdicts.decide(study.outcomes, corrected=corrections(study)).iloc[0]
    assert row["verdict_uncorrected"] == "redundant" and row["verdict"] == "ineffective"
    assert row["reference_low"] < 0.8, "a third of the passes is wrong"
    right = sc.from_frame(pd.DataFrame(rows).assign(skill="tea", gold=True), gold="gold")
    both = corrections(right)
    row = sc.skillverdicts.decide(right.outcomes, corrected=both).iloc[0]
    assert row["verdict"] == "redundant" and "'baseline' passes at least 99 %" in row["why"]
    deltas = both[both["measure"].eq("delta_passed")]
    row = sc.skillverdicts.decide(right.outcomes, corrected=deltas).iloc[0]
    assert row["verdict"] == "ineffective" and np.isnan(row["reference_low"])


@pytest.mark.parametrize(
    ("how", "own", "message"),
    [
        ({"value": "share_passed"}, {}, "value='passed'"),
        ({"ci_level": 0.9}, {}, "Compute it with ci_level=0.95"),
        ({"by": ["grader"]}, {}, "no column 'skill'|lack.*'skill'"),
        ({}, {"margin": 0.1, "weight": "size"}, r"correction.delta\(weight='size'\)"),
        ({}, {"ends": 50}, "uncorrected delta .* on 60 cases, and the outcomes .* on 50"),
        ({}, {"skill": "coffee"}, "the outcomes have no skill 'tea'"),
    ],
)
def test_a_correction_of_other_data_is_refused_with_its_remedy(
    how: dict, own: dict, message: str
) -> None:
    study = lenient_judge()
    case = study.outcomes["case_id"].astype(int)
    outcomes = study.outcomes.assign(size=1.0 + case % 2, shop=(case // 2).astype("str"))
    outcomes = outcomes[case < own.pop("ends", 60)]
    outcomes = outcomes.assign(skill=own.pop("skill", "tea"))
    with pytest.raises(FrameError, match=message):
        sc.skillverdicts.decide(outcomes, corrected=corrections(study, **how), **own)


def test_missing_attempts_are_set_against_the_corrected_verdict() -> None:
    study = lenient_judge()
    right = study.verdicts.set_index("attempt_id")["passed"]
    gold = study.gold.assign(passed=study.gold["attempt_id"].map(right).array)
    lost = study.outcomes["condition"].eq("skill") & study.outcomes["case_id"].astype(int).ge(54)
    ids = study.outcomes.loc[lost, "attempt_id"]
    outcomes = study.outcomes.assign(passed=study.outcomes["passed"].mask(lost))
    verdicts = study.verdicts[~study.verdicts["attempt_id"].isin(ids)]
    how = {"by": ["skill"], "value": "passed"}
    rows = sc.correction.delta(verdicts, gold, **how)
    row = sc.skillverdicts.decide(outcomes, corrected=rows).iloc[0]
    assert row["n_missing"] == 6 and "6 of 120 attempts are missing" in row["why"]
    assert row["estimator"] == "ppi"


def test_the_note_names_another_verdict_by_another_interval() -> None:
    # ten cases with three attempts each, from section G of the statistics notes
    passes = {"skill": "3221321203", "baseline": "1101201201"}
    frame = pd.DataFrame(
        [
            {"skill": "s", "case_id": f"s/{case}", "condition": condition, "passed": k < int(digit)}
            for condition, digits in passes.items()
            for case, digit in enumerate(digits)
            for k in range(3)
        ]
    )
    found = sc.skillverdicts.decide(frame).iloc[0]
    assert found[["ci_low", "ci_high"]].round(5).tolist() == [0.09355, 0.56784]
    assert found["verdict"] == "helps" and found["method"].startswith("adaptive bounded mean")
    assert "undetermined by the bounded interval; teaching by the t interval" in found["note"]
    bounded, t = (
        sc.skillverdicts.decide(frame, interval=rule).iloc[0] for rule in ("bounded", "t")
    )
    assert (bounded["verdict"], t["verdict"]) == ("undetermined", "teaching")
    assert "by the t interval" not in bounded["note"]


@pytest.mark.filterwarnings("ignore::skillcomp.frames.table_reader.FrameWarning")
def test_graders_without_versions_can_be_grouped_by_version() -> None:
    outcomes = messy().outcomes
    assert outcomes["grader_version"].isna().all()
    judged = sc.skillverdicts.decide(outcomes, by=["grader", "grader_version"])
    assert judged["grader"].nunique() == 2 and judged["reference_low"].notna().all()


def test_an_undetermined_row_has_the_change_that_the_study_would_have_shown(
    pilot: sc.RunStore,
) -> None:
    verdicts, cases = sc.frames.verdicts(pilot), sc.frames.cases(pilot)
    rows = sc.skillverdicts.decide(sc.frames.outcomes(verdicts, cases, grader="g2"))
    is_open = rows["verdict"].eq("undetermined")
    assert is_open.any() and rows["detectable"].notna().equals(is_open)
    # it is further away than the limit that excludes 0, and smaller with more cases
    open_rows = rows[is_open]
    reach = open_rows["ci_high"] - open_rows["estimate"]
    assert (open_rows["detectable"] > reach).all()
    alone = sc.skillverdicts.decide(sc.frames.outcomes(verdicts, cases, grader="g2"), by=[])
    whole = detectable_changes(alone)
    assert (whole < open_rows["detectable"].min()).all()


def test_a_study_that_shows_no_possible_change_says_so_and_names_no_impossible_size() -> None:
    few = sc.skillverdicts.decide(study(3, baseline=2, skill=1))
    assert few["verdict"].item() == "undetermined" and np.isinf(few["detectable"].item())
    (text,) = [str(s) for s in sc.report.sentences(few) if "is undetermined:" in str(s)]
    assert "even the largest possible change may go unseen" in text
    assert "would have been shown" not in text
    # the largest change that the reference rate allows, here a loss, is a finite size
    more = sc.skillverdicts.decide(study(14, baseline=12, skill=10, repeats=2))
    assert more["detectable"].item() < more["reference_rate"].item()


@pytest.mark.parametrize("old", ["without the column", "with an unknown size"])
def test_saved_verdicts_without_a_detectable_change_still_have_sentences(old: str) -> None:
    rows = sc.skillverdicts.decide(study(20, baseline=10, skill=11))
    assert rows["verdict"].item() == "undetermined"
    saved = rows.assign(detectable=np.nan)
    if old == "without the column":
        saved = rows.drop(columns="detectable")
    (text,) = [str(s) for s in sc.report.sentences(saved) if "is undetermined:" in str(s)]
    assert text.endswith(" on 20 cases.") and "8 of 10" not in text


@pytest.mark.slow
@pytest.mark.parametrize(("n_cases", "n_repeats"), [(14, 2), (30, 3)])
def test_a_detectable_change_is_shown_in_about_80_of_100_studies(n_cases, n_repeats) -> None:
    rng = np.random.default_rng(1)

    def drawn(gain: float) -> pd.DataFrame:
        base = np.clip(rng.normal(0.3, 0.12, n_cases), 0.02, 0.98)
        frames = []
        for condition, chance in (("baseline", base), ("skill", np.clip(base + gain, 0.0, 1.0))):
            passed = rng.random((n_cases, n_repeats)) < chance[:, None]
            case, repeat = np.indices(passed.shape)
            frames.append(
                pd.DataFrame(
                    {
                        "case_id": [f"s/{i}" for i in case.ravel()],
                        "condition": condition,
                        "repeat": repeat.ravel() + 1,
                        "passed": passed.ravel(),
                    }
                )
            )
        rows = pd.concat(frames, ignore_index=True).assign(skill="s", grader="g", check_id="c")
        rows["attempt_id"] = [f"a{i}" for i in range(len(rows))]
        return sc.skillverdicts.decide(sc.frames.outcomes(rows.assign(check_kind="positive")))

    tried = pd.concat([drawn(0.05) for _ in range(30)])
    change = float(tried["detectable"].median())
    shown = np.mean([bool(drawn(change)["shown"].iloc[0]) for _ in range(300)])
    assert 0.70 < shown < 0.88
