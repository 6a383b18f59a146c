"""Gold drawn by the verdicts of graders, weighted cases and shared tasks in corrections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

Counts = tuple[int, int, int, bool]  # answers, those with gold, those right by gold, verdict


def answers(*parts: Counts, condition: str = "baseline", **columns: object) -> pd.DataFrame:
    """Answers of one check: verdict, and label (1, 0, NaN without gold)."""
    rows = []
    for n, n_gold, n_right, passed in parts:
        labels = [1.0] * n_right + [0.0] * (n_gold - n_right) + [np.nan] * (n - n_gold)
        rows += [(passed, label) for label in labels]
    frame = pd.DataFrame(rows, columns=["passed", "label"])
    frame["case_id"] = [f"s/{k}" for k in range(len(frame))]
    frame["attempt_id"] = frame["case_id"] + f"/{condition}"
    about = {"skill": "s", "condition": condition, "check_id": "c", "grader": "g", "status": "ok"}
    return frame.assign(**(about | columns))


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    labelled = rows[rows["label"].notna()].drop_duplicates(["attempt_id", "check_id"])
    gold = labelled[["attempt_id", "check_id"]].assign(passed=labelled["label"].eq(1))
    return rows.drop(columns="label"), gold.reset_index(drop=True)


# 200 answers, the judge passes 132; gold on all 68 fails (12 right) and 22 passes (18 right)
FAILS, PASSES = (68, 68, 12, False), (132, 22, 18, True)
TRUTH = 0.66 * 18 / 22 + 0.34 * 12 / 68
DRAWN = {"gold_drawn": "verdict"}


def recommended(found: pd.DataFrame) -> pd.Series:
    assert found["recommended"].sum() == 1, found["reason"].iloc[0]
    return found[found["recommended"]].iloc[0]


def test_gold_on_all_fails_and_some_passes_is_weighted_by_the_verdicts() -> None:
    verdicts, gold = split(answers(FAILS, PASSES))
    row = recommended(sc.correction.rate(verdicts, gold, **DRAWN))
    assert row["estimate"] == pytest.approx(TRUTH) == pytest.approx(0.60)
    assert row["ci_low"] < 0.5 and 0.68 < row["ci_high"] < 0.75
    assert (row["sensitivity"], row["specificity"]) == pytest.approx((0.9, 0.7))
    assert row["gold_drawn"] == "drawn by the verdicts"
    assert row["reason"] == "gold on 90 cases, drawn by the verdicts, weighted within strata"
    expected = "gold on 17 % of the passes and 100 % of the fails ('baseline')"
    found = sc.correction.rate(verdicts, gold)
    assert not found["recommended"].any() and found["reason"].str.startswith(expected).all()


def test_gold_that_was_chosen_is_not_overruled_by_its_shares() -> None:
    # gold on all 40 fails by gold (8 pass) and on 20 of 60 passes (2 fail): Se .9, Sp .8
    verdicts, gold = split(answers((38, 34, 2, False), (62, 26, 18, True)))
    row = recommended(sc.correction.rate(verdicts, gold, gold_drawn="chosen"))
    assert row["estimator"] == "rogan_gladen_by_arm" and row["estimate"] == pytest.approx(0.6)
    assert "gold on 42 % of the passes and 89 % of the fails ('baseline')" in row["reason"]
    assert "gold_drawn=" not in row["reason"]
    found = sc.correction.rate(verdicts, gold)
    assert not found["recommended"].any()
    assert found["reason"].str.contains("gold_drawn='separate'; if it was drawn by").all()


def test_agreement_is_weighted_by_the_verdicts() -> None:
    verdicts, gold = split(answers(FAILS, PASSES))
    every = {"quantities": "all", "n_resamples": 99}
    table = sc.reliability.agreement(verdicts, gold, **every, **DRAWN).set_index("measure")
    assert table.loc["sensitivity", "estimate"] == pytest.approx(0.90)
    assert table.loc[["specificity", "false_passes"], "estimate"].tolist() == pytest.approx(
        [0.7, 0.3]
    )
    # of all items, .54 are true passes, .12 false passes and .06 false fails
    assert table.loc["precision", "estimate"] == pytest.approx(0.54 / 0.66)
    assert table.loc["f1", "estimate"] == pytest.approx(1.08 / 1.26)
    raw = 0.34 * 56 / 68 + 0.66 * 18 / 22
    assert table.loc["raw_agreement", "estimate"] == pytest.approx(raw)
    assert table["prevalence"].dropna().unique() == pytest.approx([TRUTH])
    passing = 0.66
    chance = passing * TRUTH + (1 - passing) * (1 - TRUTH)
    kappa = table.loc["cohen_kappa", ["estimate", "ci_low", "ci_high"]]
    assert kappa["estimate"] == pytest.approx((raw - chance) / (1 - chance))
    assert kappa["ci_low"] < kappa["estimate"] < kappa["ci_high"]
    assert table["gold_drawn"].dropna().unique().tolist() == ["drawn by the verdicts"]
    plain = sc.reliability.agreement(verdicts, gold, **every).set_index("measure")
    assert plain.loc["sensitivity", "estimate"] == pytest.approx(0.6)
    assert plain.loc["specificity", "note"].endswith("state gold_drawn='verdict'")


def test_strata_are_those_of_each_condition() -> None:
    # passes are right in 90 % with the skill and in 60 % without it; true delta .85 - .36
    parts = {
        "baseline": answers((50, 50, 5, False), (50, 10, 6, True)),
        "skill": answers((10, 10, 4, False), (90, 20, 18, True), condition="skill"),
    }
    verdicts, gold = split(pd.concat(parts.values(), ignore_index=True))
    row = recommended(sc.correction.delta(verdicts, gold, **DRAWN))
    assert row["estimate"] == pytest.approx((0.1 * 0.4 + 0.9 * 0.9) - (0.5 * 0.1 + 0.5 * 0.6))
    assert row["ci_low"] > 0 and row["p_value"] < 0.05
    assert np.isnan(row["p_differential"])
    swapped = recommended(sc.correction.delta(verdicts, gold, reference="skill", **DRAWN))
    assert swapped["estimate"] == pytest.approx(-row["estimate"])
    assert swapped["ci_low"] == pytest.approx(-row["ci_high"])
    assert swapped["p_value"] == pytest.approx(row["p_value"])
    level = 1 - row["p_value"]
    edge = recommended(sc.correction.delta(verdicts, gold, ci_level=level, **DRAWN))
    assert edge["ci_low"] == pytest.approx(0, abs=1e-3)


def test_a_stratum_without_gold_gives_no_estimate_and_names_the_way_out() -> None:
    # g drew the gold; the pattern with h has a stratum without any
    first = answers((10, 10, 2, False), (3, 0, 0, True), (57, 15, 14, True))
    second = first.assign(grader="h", passed=[True] * 10 + [False] * 3 + [True] * 57)
    verdicts, gold = split(pd.concat([first, second], ignore_index=True))
    found = sc.correction.rate(verdicts, gold, by=["grader"], **DRAWN)
    assert not found["recommended"].any()
    reason = found["reason"].iloc[0]
    assert reason.startswith("no gold in the stratum 'g pass, h fail' of 'baseline'")
    assert reason.endswith("drawn_by=")
    named = sc.correction.rate(verdicts, gold, by=["grader"], drawn_by="g", **DRAWN)
    rows = named[named["recommended"]]
    assert rows["estimate"].tolist() == pytest.approx([1 / 7 * 0.2 + 6 / 7 * 14 / 15] * 2)
    assert rows["gold_drawn"].unique().tolist() == ["drawn by the verdict of g"]


def test_gold_drawn_where_two_graders_disagree() -> None:
    # both pass 60 (gold on 12), both fail 20 (gold on 4), and they disagree on 20 (gold on all)
    rows = answers((60, 12, 11, True), (20, 4, 1, False), (20, 20, 8, True))
    other = rows.assign(grader="h", passed=rows["passed"] & ~rows.index.isin(range(80, 100)))
    verdicts, gold = split(pd.concat([rows, other], ignore_index=True))
    found = sc.correction.rate(verdicts, gold, by=["grader"], **DRAWN)
    truth = 0.6 * 11 / 12 + 0.2 * 1 / 4 + 0.2 * 8 / 20
    assert found.loc[found["recommended"], "estimate"].tolist() == pytest.approx([truth] * 2)


def test_gold_drawn_by_whole_answers_takes_the_verdict_on_the_answer_as_stratum() -> None:
    # answers of two checks; gold on all 10 failed answers and on 10 of 30 passed ones. A passed
    # check of a failed answer is right in half, a passed check of a passed answer always.
    failed = answers((10, 10, 0, False), check_id="c1")
    failed = pd.concat([failed, failed.assign(check_id="c2", passed=True, label=[1.0, 0.0] * 5)])
    passed = answers((30, 10, 10, True), check_id="c1")
    passed[["case_id", "attempt_id"]] = "p" + passed[["case_id", "attempt_id"]]
    passed = pd.concat([passed, passed.assign(check_id="c2")])
    verdicts, gold = split(pd.concat([failed, passed], ignore_index=True))
    share = recommended(sc.correction.rate(verdicts, gold, **DRAWN))
    assert share["estimate"] == pytest.approx(0.25 * 0.25 + 0.75 * 1)
    whole = recommended(sc.correction.rate(verdicts, gold, value="passed", **DRAWN))
    assert whole["estimate"] == pytest.approx(0.75)


def test_gold_drawn_by_checks_needs_whole_answers_in_every_stratum_for_answers() -> None:
    rows = pd.concat(
        [answers((20, 10, 9, True), check_id="c1"), answers((20, 20, 3, False), check_id="c2")]
    )
    verdicts, gold = split(rows)
    share = sc.correction.rate(verdicts, gold, **DRAWN)
    assert recommended(share)["estimate"] == pytest.approx((0.9 + 0.15) / 2)
    whole = sc.correction.rate(verdicts, gold, value="passed", **DRAWN)
    # 10 of the 20 answers have gold on both checks, all with one of two passed
    assert recommended(whole)["n_gold"] == 10


def test_answers_without_a_verdict_and_without_gold_are_left_out() -> None:
    rows = answers((20, 20, 4, False), (40, 10, 8, True), (5, 0, 0, True))
    rows = rows.astype({"passed": "boolean"})
    rows.loc[rows.index >= 60, ["passed", "status"]] = [pd.NA, "malformed"]
    verdicts, gold = split(rows)
    row = recommended(sc.correction.rate(verdicts, gold, **DRAWN))
    assert row["estimate"] == pytest.approx(1 / 3 * 0.2 + 2 / 3 * 0.8)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"gold_drawn": "verdicts"}, "gold_drawn: found 'verdicts'; .*Did you mean 'verdict'"),
        ({"drawn_by": "g"}, "drawn_by= names the grader .* That needs gold_drawn='verdict'"),
        ({"gold_drawn": "verdict", "drawn_by": "j"}, "there is no grader 'j'; there: g"),
    ],
)
def test_a_draw_that_cannot_be_is_refused(how: dict[str, str], message: str) -> None:
    verdicts, gold = split(answers(FAILS, PASSES))
    for analysis in (sc.correction.rate, sc.correction.delta, sc.reliability.agreement):
        with pytest.raises(FrameError, match=message):
            analysis(verdicts, gold, **how)


def test_an_estimate_outside_its_range_is_never_recommended() -> None:
    # of 40 answers the grader passes 38; on gold it passes 8 of 10: sensitivity 8/9
    rows = answers((8, 8, 8, True), (1, 1, 1, False), (1, 1, 0, False), (30, 0, 0, True))
    found = sc.correction.rate(*split(rows), gold_drawn="chosen")
    by_arm = found.set_index("estimator").loc["rogan_gladen_by_arm"]
    assert by_arm["estimate"] == 1 and "lies outside 0 to 1" in by_arm["note"]
    assert not found["recommended"].any()
    assert "never recommended" in found["reason"].iloc[0]


def repeated(n: int, **columns: Sequence[object]) -> pd.DataFrame:
    """Both conditions of n cases, gold on each; the skill helps every second case."""
    sides = []
    for condition, right in (("baseline", 0.0), ("skill", None)):
        labels = [right if right is not None else float(k % 2) for k in range(n)]
        rows = answers(*[(1, 1, int(x), bool(x)) for x in labels], condition=condition)
        sides.append(rows.assign(**columns))
    return pd.concat(sides, ignore_index=True)


def test_weights_of_cases_count_in_every_correction() -> None:
    rows = repeated(20, importance=[3.0, 1.0] * 10)
    rows = rows.assign(label=rows["label"].where(rows["case_id"].str[2:].astype(int) < 12))
    verdicts, gold = split(rows)
    found = sc.correction.delta(verdicts, gold, weight="importance").set_index("estimator")
    for name in ("naive", "gold_only", "ppi"):
        assert found.loc[name, "estimate"] == pytest.approx(0.25), name
    assert found["method"].str.endswith("cases weighted by importance").all()
    rate = sc.correction.rate(verdicts, gold, weight="importance")
    skill = rate[rate["condition"].eq("skill")].set_index("estimator")
    assert skill.loc[["naive", "gold_only", "ppi"], "estimate"].tolist() == pytest.approx(
        [0.25] * 3
    )
    cases = rows[["skill", "case_id", "importance"]].drop_duplicates()
    plain = verdicts.drop(columns="importance")
    again = sc.correction.delta(plain, gold, cases=cases, weight="importance")
    assert again["estimate"].tolist() == pytest.approx(found["estimate"].tolist(), nan_ok=True)
    drawn = sc.correction.rate(verdicts, gold, weight="importance", **DRAWN)
    drawn = drawn[drawn["condition"].eq("skill") & drawn["recommended"]]
    assert drawn["estimate"].tolist() == pytest.approx([0.25])


def test_clusters_and_shared_tasks_widen_corrections() -> None:
    rows = repeated(24, video=[f"v{k // 6}" for k in range(24)])
    verdicts, gold = split(rows)
    apart = sc.correction.delta(verdicts, gold).set_index("estimator")
    linked = verdicts.assign(linked_by="video")
    videos = sc.correction.delta(linked, gold).set_index("estimator")
    assert (apart.loc["naive", "n_clusters"], videos.loc["naive", "n_clusters"]) == (24, 4)
    assert videos.loc["gold_only", "ci_low"] < apart.loc["gold_only", "ci_low"]
    # the same 24 tasks under two skills
    both = pd.concat([rows, rows.assign(skill="t", attempt_id="t/" + rows["attempt_id"])])
    both.loc[both["case_id"].eq("s/0") & both["skill"].eq("t"), "passed"] = True
    verdicts, gold = split(both.reset_index(drop=True))
    with pytest.raises(FrameError, match=r"skills 's' and 't' both have a case 's/0'.*cases=\."):
        sc.correction.delta(verdicts, gold)
    cases = both[["skill", "case_id"]].drop_duplicates()
    shared, different = (
        sc.correction.delta(verdicts, gold, cases=cases.assign(task=task)).set_index("estimator")
        for task in (cases["case_id"], cases["skill"] + cases["case_id"])
    )
    assert (shared.loc["naive", "n_clusters"], different.loc["naive", "n_clusters"]) == (24, 48)


def test_one_skill_supports_no_claim_about_skills() -> None:
    verdicts, gold = split(repeated(12))
    found = sc.correction.delta(verdicts, gold, cluster="skill")
    assert found["ci_low"].isna().all() and not found["recommended"].any()
    assert found["note"].str.startswith("one skill says nothing").all()
    verdicts, gold = split(repeated(12))
    no_gold = verdicts.loc[verdicts["condition"].eq("baseline"), "attempt_id"]
    part = sc.correction.delta(
        verdicts, gold[~gold["attempt_id"].isin(no_gold)], cluster="skill", estimator="auto"
    )
    assert part["ci_low"].isna().all()


def test_the_page_names_how_gold_was_drawn() -> None:
    baseline = answers((60, 60, 12, False), (60, 15, 10, True))
    skill = answers((30, 30, 6, False), (90, 22, 18, True), condition="skill")
    rows = pd.concat([baseline, skill], ignore_index=True).astype({"label": "boolean"})
    named = {"skill": None, "case": "case_id", "gold": "label", "grader": "grader"}
    made = sc.from_frame(rows, **named, gold_drawn="verdict", drawn_by="g")
    assert (made.gold_drawn, made.drawn_by) == ("verdict", "g")
    text = " ".join(sc.report.answer(made).findings["sentence"])
    assert "The gold labels were drawn by the verdict of g" in text
    corrected = (0.25 * 0.2 + 0.75 * 18 / 22) - (0.5 * 0.2 + 0.5 * 10 / 15)
    assert f"by gold alone, by {100 * corrected:+.0f}" in text
    as_random = sc.report.answer(made, gold_drawn="random")
    text = " ".join(as_random.findings["sentence"])
    assert "a corrected number cannot be given (gold on" in text and "gold_drawn='verdict'" in text
    with pytest.raises(FrameError, match="there is no grader 'h'; there: g"):
        sc.from_frame(rows, **named, gold_drawn="verdict", drawn_by="h")


def test_gold_cases_without_a_verdict_are_not_left_to_ppi() -> None:
    """The skill changes nothing; the grader gives no verdict on most of its wrong answers."""
    rng = np.random.default_rng(0)
    sides = []
    for condition in ("baseline", "skill"):
        right = rng.random(100) < 0.5
        side = answers((100, 100, 0, True), condition=condition)
        lost = ~right & (rng.random(100) < 0.6) & (condition == "skill")
        passed = pd.array(np.where(lost, None, right), dtype="boolean")
        label = np.where(np.arange(100) < 50, right.astype(float), np.nan)
        sides.append(side.assign(passed=passed, label=label, status=np.where(lost, "error", "ok")))
    found = sc.correction.delta(*split(pd.concat(sides, ignore_index=True)), value="passed")
    row = recommended(found)
    assert row["estimator"] == "gold_only" and row["ci_low"] < 0 < row["ci_high"]
    assert "cases with gold have no verdict, and ppi leaves them out" in row["reason"]


def test_six_labelled_fails_of_six_are_no_random_draw() -> None:
    # under a random draw of 18 from 60 the chance of this is 4 in 10,000
    verdicts, gold = split(answers((6, 6, 5, False), (54, 12, 9, True)))
    found = sc.correction.rate(verdicts, gold)
    assert not found["recommended"].any()
    assert found["reason"].str.startswith("gold on 22 % of the passes and 100 % of the fails").all()
    table = sc.reliability.agreement(verdicts, gold).set_index("measure")
    assert "such shares are no random draw" in table.loc["false_fails", "note"]


def drawn_by_g1() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return verdicts of two graders, right in 80 %, and gold on nine in ten of g1's fails."""
    rng = np.random.default_rng(3)
    right = rng.random(300) < 0.5
    by = {name: np.where(rng.random(300) < 0.8, right, ~right) for name in ("g1", "g2")}
    has = rng.random(300) < np.where(by["g1"], 0.1, 0.9)
    label = np.where(has, right.astype(float), np.nan)
    plain = answers((300, 300, 0, True)).assign(label=label)
    rows = [plain.assign(grader=name, passed=passed) for name, passed in by.items()]
    return split(pd.concat(rows, ignore_index=True))


def test_gold_has_one_draw_for_all_graders() -> None:
    verdicts, gold = drawn_by_g1()
    found = sc.correction.rate(verdicts, gold, by=["grader"])
    assert not found["recommended"].any()
    assert found["reason"].str.contains("of the fails of g1").all()


def test_a_draw_that_the_shares_refute_is_not_believed() -> None:
    verdicts, gold = drawn_by_g1()
    how = {"by": ["grader"], **DRAWN}
    right = sc.correction.rate(verdicts, gold, **how, drawn_by="g1")
    both = sc.correction.rate(verdicts, gold, **how)
    for table in (right, both):
        rows = table[table["recommended"]]
        assert len(rows) == 2 and rows["ci_low"].lt(0.5).all() and rows["ci_high"].gt(0.5).all()
    wrong = sc.correction.rate(verdicts, gold, **how, drawn_by="g2")
    assert not wrong["recommended"].any()
    assert wrong["reason"].str.contains("drawn_by='g2' does not hold").all()
    table = sc.reliability.agreement(verdicts, gold, **how, drawn_by="g2")
    assert table["note"].str.contains("drawn_by='g2' does not hold").any()
    silent = verdicts.assign(
        passed=verdicts["passed"].astype("boolean").mask(verdicts["grader"].eq("g2")),
        status=np.where(verdicts["grader"].eq("g2"), "error", "ok"),
    )
    with pytest.raises(FrameError, match="'g2' has no usable verdict"):
        sc.correction.rate(silent, gold, **how, drawn_by="g2")
