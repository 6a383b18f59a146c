"""A calibration set of its own, error rates borrowed from other skills, and scores."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from oracles.pooled_errors import borrowing_p, pooled_delta

import skillcomp as sc
from benchmarks.validity.corrections import drawn_skills, separate_gold
from skillcomp.errors import FrameError
from skillcomp.stats.bounded import RATES
from skillcomp.stats.ppi import ppi_mean

SEPARATE = {"gold_drawn": "separate"}
Counts = dict[str, tuple[int, int]]


def graded(counts: Counts, **columns: object) -> pd.DataFrame:
    """Answers of one check by condition: the numbers of passes and of fails by the grader."""
    rows = [
        {"condition": name, "case_id": f"{'cal' if name == 'calibration' else 's'}/{k}",
         "passed": k < n_passed}
        for name, (n_passed, n_failed) in counts.items()
        for k in range(n_passed + n_failed)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["attempt_id"] = frame["case_id"] + "/" + frame["condition"]
    about = {"skill": "s", "check_id": "c", "grader": "g", "status": "ok"}
    return frame.assign(**(about | columns))


def labels_of(rows: pd.DataFrame, passed: list[bool]) -> pd.DataFrame:
    return rows[["attempt_id", "check_id"]].assign(passed=passed).reset_index(drop=True)


# The grader passes 86 of 100 and 54 of 100 answers. Calibration: 27 of 30 gold passes are passed,
# and 15 of 30 gold fails (sensitivity .9, specificity .5), so that the true rates are .9 and .1.
VERDICTS = graded({"baseline": (54, 46), "skill": (86, 14), "calibration": (42, 18)})
SET = VERDICTS[VERDICTS["condition"].eq("calibration")]
GOLD = labels_of(SET, [True] * 27 + [False] * 15 + [True] * 3 + [False] * 15)


def best(found: pd.DataFrame) -> pd.Series:
    assert found["recommended"].sum() == 1, found["reason"].iloc[0]
    return found[found["recommended"]].iloc[0]


def test_error_rates_come_from_the_calibration_set() -> None:
    rates = sc.correction.rate(VERDICTS, GOLD, **SEPARATE)
    assert set(rates["condition"]) == {"baseline", "skill"}
    chosen = rates[rates["recommended"]].set_index("condition")
    assert chosen["estimate"].to_dict() == pytest.approx({"baseline": 0.1, "skill": 0.9})
    row = best(sc.correction.delta(VERDICTS, GOLD, **SEPARATE))
    assert row["estimator"] == "rogan_gladen_pooled" and row["condition"] == "skill"
    assert row["estimate"] == pytest.approx(0.8)
    assert row["ci_low"] < 0.6 and row["ci_high"] == 1.0
    assert (row["sensitivity"], row["reference_specificity"]) == pytest.approx((0.9, 0.5))
    assert row["n_gold"] == 60 and "verdict" not in row["reason"]
    # with a pass rate of .1 under both, the grader passes .86 with 1 - specificity = .77 / .9
    assert "'skill' has a specificity of 0.14 instead of 0.50 (Youden's J -0.36)" in row["note"]
    errors = sc.correction.differential(VERDICTS, GOLD, **SEPARATE)
    errors = errors.set_index(["condition", "measure"])["estimate"]
    assert errors["calibration", "youden"] == pytest.approx(0.4)
    assert math.isnan(errors["skill", "delta_youden"])


def test_the_set_is_that_of_the_grader_and_may_cover_other_skills_and_checks() -> None:
    other = VERDICTS["condition"].eq("calibration")
    moved = VERDICTS.assign(
        skill=np.where(other, "another", "s"), check_id=np.where(other, "d", "c")
    )
    row = best(sc.correction.delta(moved, GOLD.assign(check_id="d"), by="skill", **SEPARATE))
    assert row["estimate"] == pytest.approx(0.8) and row["skill"] == "s"
    # a second grader that is right throughout
    right = moved.assign(grader="h")
    right.loc[other, "passed"] = GOLD["passed"].to_numpy()
    both = pd.concat([moved, right], ignore_index=True)
    found = sc.correction.delta(both, GOLD.assign(check_id="d"), by="grader", **SEPARATE)
    found = found[found["recommended"]].set_index("grader")
    assert found["estimate"].to_dict() == pytest.approx({"g": 0.8, "h": 0.32})


def test_what_is_unknown_of_a_calibration_set_is_said() -> None:
    for part in (SET, VERDICTS.drop(SET.index)):
        with pytest.raises(FrameError, match=r"'calibration'.* and on answers under other"):
            sc.correction.rate(part, GOLD, **SEPARATE)
    for labels, why in (
        (GOLD[GOLD["passed"]], "no gold label fails with a verdict"),
        (GOLD.iloc[:0], "no gold label passes with a verdict"),
        (GOLD.iloc[[0, 30, 45, 50]], "4 cases with gold, fewer than 10"),
    ):
        found = sc.correction.delta(VERDICTS, labels, **SEPARATE)
        assert not found["recommended"].any() and found["reason"].str.contains(why).all()
    silent = VERDICTS.assign(passed=VERDICTS["passed"].astype("boolean"))
    silent.loc[SET.index, ["passed", "status"]] = [pd.NA, "error"]
    assert not sc.correction.delta(silent, GOLD, **SEPARATE)["recommended"].any()


def test_gold_on_compared_answers_checks_a_calibration_set_and_overrules_nothing() -> None:
    # all 40 labelled answers of the skill fail by gold, and the grader passes 36 of them
    skill = VERDICTS[VERDICTS["condition"].eq("skill")].iloc[50:90]
    gold = pd.concat([GOLD, labels_of(skill, [False] * 40)], ignore_index=True)
    row = best(sc.correction.delta(VERDICTS, gold, **SEPARATE))
    assert row["estimate"] == pytest.approx(0.8)
    assert "gold on 40 compared cases only checks these error rates" in row["reason"]
    assert "those of 'skill' differ (p = 0.00031)" in row["reason"]
    assert "gold_drawn" not in row["reason"]


def test_intervals_of_a_calibration_set_cover_where_few_labels_meet_many_cases() -> None:
    hits = {"rate": [], "delta": []}
    for kind, truth, low, high in separate_gold(
        np.random.default_rng(5), 40, rates=(0.9, 0.3), errors=(0.1, 0.3), labels=20
    ):
        hits[kind.split()[-1]].append(low <= truth <= high)
    assert all(len(hit) == 40 and np.mean(hit) >= 0.9 for hit in hits.values())


@pytest.mark.parametrize("odd", [None, 0.5])
def test_a_skill_borrows_the_error_rates_of_the_others_where_they_may_be_its_own(odd) -> None:
    verdicts, gold = drawn_skills(np.random.default_rng(9), errors=0.05, odd=odd)
    found = sc.correction.delta(verdicts, gold, by="skill")
    table = verdicts.merge(gold.rename(columns={"passed": "gold"}), how="left")
    naive = found[found["estimator"].eq("naive")].set_index("skill")
    expected, p_values = pooled_delta(table, naive[["ci_low", "ci_high"]]), borrowing_p(table)
    rows = found[found["estimator"].eq("pooled")].set_index("skill")
    for name, column in zip(("estimate", "ci_low", "ci_high"), expected.T, strict=True):
        assert rows[name].to_numpy() == pytest.approx(column, abs=1e-9)
    width = found.pivot(index="skill", columns="estimator", values=["ci_low", "ci_high"])
    width = width["ci_high"] - width["ci_low"]
    chosen = found[found["recommended"]].set_index("skill")
    least = width[["gold_only", "ppi"]].min(axis=1)
    borrows = (p_values > 0.2) & (width["pooled"] < least).to_numpy()
    assert (chosen["estimator"].eq("pooled") == borrows).all()
    assert borrows.any() and borrows.all() == (odd is None)
    assert (chosen["ci_high"] - chosen["ci_low"] <= width["gold_only"]).all()
    refused = p_values <= 0.2
    assert refused[0] == (odd is not None)
    for skill in np.array(sorted(chosen.index))[refused]:
        assert "not the error rates of 5 other skills" in chosen.loc[skill, "reason"]
    stated = sc.correction.delta(verdicts, gold, by="skill", estimator="pooled")
    assert stated["estimate"].notna().all() and len(stated) == 6
    with pytest.raises(FrameError, match=r"estimator='pooled' pools .* by= needs 'skill'"):
        sc.correction.delta(verdicts, gold, estimator="pooled")


def marked(seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Marks from 1 to 5 of 40 cases; the grader adds .4 with the skill. Gold on 20 cases."""
    rng = np.random.default_rng(seed)
    case, condition = np.repeat(np.arange(40), 2), np.tile(["baseline", "skill"], 40)
    gain = condition == "skill"
    true = np.repeat(rng.uniform(1.5, 3.5, 40), 2) + gain + rng.normal(0, 0.3, 80)
    score = np.clip(true + 0.4 * gain + rng.normal(0, 0.2, 80), 1, 5)
    rows = pd.DataFrame({"case_id": case.astype(str), "condition": condition, "score": score})
    rows["attempt_id"] = rows["case_id"] + rows["condition"]
    rows = rows.assign(skill="s", check_id="c", grader="g", status="ok", passed=pd.NA)
    gold = rows[["attempt_id", "check_id"]].assign(score=np.clip(true, 1, 5))
    return rows, gold[case < 20]


def test_scores_are_corrected_by_the_mean_difference_from_gold() -> None:
    how = {"value": "score", "bounds": (1, 5)}
    verdicts, gold = marked()
    found = sc.correction.delta(verdicts, gold, **how).set_index("estimator")
    own = sc.deltas.paired(sc.frames.outcomes(verdicts), **how).iloc[0]
    columns = ["estimate", "ci_low", "ci_high", "n"]
    assert found.loc["naive", columns].tolist() == pytest.approx(own[columns].tolist())
    row = best(found.reset_index())
    assert row["estimator"] == "ppi" and row["unit"] == "score" and row["n_gold"] == 20
    assert row["ci_low"] < 1.0 < row["ci_high"] < found.loc["naive", "estimate"] + 0.2
    assert "no sensitivity" in found.loc["rogan_gladen_by_arm", "note"]
    assert found["sensitivity"].isna().all() and found["n_for_half_width_20"].isna().all()
    rates = sc.correction.rate(verdicts, gold, **how)
    skill = best(rates[rates["condition"].eq("skill")])
    labels = verdicts.merge(gold, on=["attempt_id", "check_id"], how="left")
    labels = labels[labels["condition"].eq("skill")]
    scaled = [(labels[name].to_numpy(float) - 1) / 4 for name in ("score_y", "score_x")]
    expected = ppi_mean(*scaled, quantity=RATES)
    limits = [1 + 4 * each for each in (expected.estimate, expected.low, expected.high)]
    assert skill[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(limits)
    for more, message in (
        ({"bounds": (1, 3)}, "bounds=: found"),
        ({"gold_drawn": "verdict"}, "needs passes and fails, and scores have none"),
    ):
        with pytest.raises(FrameError, match=message):
            sc.correction.delta(verdicts, gold, **(how | more))
    with pytest.raises(FrameError, match="gold: there is no column 'score'"):
        sc.correction.delta(verdicts, gold.drop(columns="score"), **how)


def test_scores_of_0_and_1_are_corrected_as_passes() -> None:
    verdicts, gold = marked()
    verdicts["passed"] = verdicts["score"].gt(3)
    gold["passed"] = gold["score"].gt(3)
    same = ["estimate", "ci_low", "ci_high", "se", "p_value"]
    passes = sc.correction.delta(verdicts, gold, value="passed").set_index("estimator")
    ones = [frame.assign(score=frame["passed"].astype(float)) for frame in (verdicts, gold)]
    scores = sc.correction.delta(*ones, value="score", bounds=(0, 1)).set_index("estimator")
    for name in ("naive", "gold_only", "ppi"):
        assert scores.loc[name, same].tolist() == pytest.approx(passes.loc[name, same].tolist())


def test_a_calibration_set_is_no_arm_of_frames_reports_and_stores(tmp_path) -> None:
    labels = GOLD.set_index("attempt_id")["passed"]
    table = VERDICTS.assign(label=VERDICTS["attempt_id"].map(labels).astype("boolean"))
    named = {"skill": None, "case": "case_id", "gold": "label", "grader": "grader"}
    made = sc.from_frame(table, **named, **SEPARATE)
    again = sc.read_results(made.save(tmp_path / "saved"))
    for own in (made, again):
        assert set(own.outcomes["condition"]) == {"baseline", "skill"}
        answer = sc.report.answer(own)
        text = " ".join(answer.findings["sentence"])
        assert "by +80 points" in text and "under calibration" not in text
        decided = answer.frames["decided"]
        assert decided["condition"].tolist() == ["skill"]
        assert decided["estimator"].tolist() == ["rogan_gladen_pooled"]


def test_a_set_that_cannot_be_like_the_answers_corrects_nothing() -> None:
    rows = [
        {"case": i, "condition": arm, "passed": i % each == 0, "gold": None}
        for i in range(200) for arm, each in (("baseline", 5), ("skill", 2))
    ]  # fmt: skip
    rows += [  # half of the fails pass, three quarters of the passes
        {"case": f"k{i}", "condition": "calibration", "gold": i % 4 > 1,
         "passed": i % 2 == 0 if i % 4 < 2 else i % 4 == 2 or i % 8 == 3}
        for i in range(80)
    ]  # fmt: skip
    made = sc.from_frame(pd.DataFrame(rows), skill=None, gold="gold", gold_drawn="separate")
    found = sc.correction.delta(made.verdicts, made.gold, gold_drawn="separate")
    assert not found["recommended"].any()
    assert found["reason"].str.contains("'baseline' has 20 % passes by the grader").all()
    unsaid = sc.correction.delta(made.verdicts, made.gold)
    assert unsaid["reason"].str.contains("gold_drawn='separate' takes those of 'calibrat").all()
