"""Scores with bounds are values: intervals, verdicts and the page in the unit of the scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from oracles.scores import score_interval

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError

HOW = {"value": "score", "bounds": (1, 5)}


def marks(n: int = 12, repeats: int = 3, gain: float = 1.0, seed: int = 0, size: int = 1):
    """Marks from 1 to 5 of two skills, of which only the first gains; some marks are missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for skill, change in (("tea", gain), ("tide", 0.0)):
        for i in range(n):
            base = rng.uniform(1.5, 3.5)
            for condition in ("baseline", "skill"):
                for repeat in range(repeats):
                    mark = base + change * (condition == "skill") + rng.normal(0, 0.5)
                    rows.append({"skill": skill, "case": f"{skill}/{i}", "condition": condition,
                                 "family": f"{skill}{i // size}", "nr": repeat + 1,
                                 "reward": float(np.clip(mark, 1, 5))})  # fmt: skip
    return pd.DataFrame(rows)


def frames_of(table: pd.DataFrame, **more):
    return sc.from_frame(table, **{"passed": None, "score": "reward", "repeat": "nr"} | more)


def outcomes_of(table: pd.DataFrame, **more):
    families = table.drop_duplicates("case").set_index("case")["family"]
    outcomes = frames_of(table, **more).outcomes
    return outcomes.assign(family=outcomes["case_id"].map(families), linked_by="family")


@pytest.mark.parametrize("size", [1, 3])
def test_the_interval_of_scores_is_that_of_the_oracle(size: int) -> None:
    table = marks(size=size)
    outcomes = outcomes_of(table)
    rows = sc.deltas.paired(outcomes, by="skill", **HOW).set_index("skill")
    means = sc.deltas.rates(outcomes, by="skill", **HOW)
    for skill, part in table.groupby("skill"):
        sides = []
        for condition in ("skill", "baseline"):
            cases = part[part["condition"].eq(condition)].groupby("case", sort=False)
            sides.append([(case["reward"].to_numpy() - 1) / 4 for _, case in cases])
        clusters = part.groupby("case", sort=False)["family"].first().to_numpy()
        expected = score_interval(sides, [1, -1], clusters)
        found = rows.loc[skill]
        assert found["estimate"] == pytest.approx(4 * expected.estimate, abs=1e-9)
        assert found["ci_low"] == pytest.approx(4 * expected.low, abs=1e-9)
        assert found["ci_high"] == pytest.approx(4 * expected.high, abs=1e-9)
        mean = means[means["skill"].eq(skill) & means["condition"].eq("skill")].iloc[0]
        expected = score_interval(sides[:1], [1], clusters)
        assert mean["ci_low"] == pytest.approx(1 + 4 * expected.low, abs=1e-9)
        assert mean["ci_high"] == pytest.approx(1 + 4 * expected.high, abs=1e-9)
    assert rows["unit"].eq("score").all() and means["unit"].eq("score").all()


def test_scores_of_0_and_1_are_judged_as_passes() -> None:
    table = marks().assign(passed=lambda frame: frame["reward"] > 3)
    table["reward"] = table["passed"].astype(float)
    outcomes = frames_of(table, passed="passed").outcomes
    passes = sc.skillverdicts.decide(outcomes)
    scores = sc.skillverdicts.decide(outcomes, value="score", bounds=(0, 1))
    same = [name for name in passes.columns if name not in ("measure", "unit", "why")]
    pd.testing.assert_frame_equal(passes[same], scores[same], rtol=1e-9)


def test_estimates_margins_and_verdicts_have_the_unit_of_the_scores() -> None:
    table = marks(n=40, gain=2.0)
    other = table.assign(reward=(table["reward"] - 1) / 4)
    ours = sc.skillverdicts.decide(outcomes_of(table), margin=0.4, **HOW)
    theirs = sc.skillverdicts.decide(outcomes_of(other), margin=0.1, value="score", bounds=(0, 1))
    assert ours["verdict"].tolist() == theirs["verdict"].tolist()
    assert "teaching" in set(ours["verdict"])
    for name in ("estimate", "ci_low", "ci_high", "se", "detectable", "worst_low"):
        assert ours[name].to_numpy() == pytest.approx(4 * theirs[name].to_numpy(), nan_ok=True)
    assert ours["p_adjusted"].to_numpy() == pytest.approx(theirs["p_adjusted"].to_numpy())
    assert "above the margin of 0.4" in ours.loc[ours["verdict"].eq("teaching"), "why"].iloc[0]


def test_scores_with_bounds_and_copies_are_estimated_in_one_call() -> None:
    table = marks().assign(passed=lambda frame: frame["reward"] > 3)
    outcomes = frames_of(table, passed="passed").outcomes.assign(copied=False)
    own_words = outcomes.assign(passed_own_words=outcomes["passed"])
    values = ["score", "passed_own_words"]
    rows = sc.deltas.paired(own_words, value=values, bounds=(1, 5))
    assert rows["measure"].tolist() == [f"delta_{value}" for value in values]
    assert rows["unit"].tolist() == ["score", "points"]


def test_a_missing_score_may_be_the_lowest_or_the_highest() -> None:
    table = marks()
    table.loc[table["condition"].eq("skill") & table["nr"].eq(1), "reward"] = np.nan
    row = sc.deltas.paired(outcomes_of(table), by="skill", **HOW).iloc[0]
    assert row["worst_high"] - row["worst_low"] == pytest.approx(4 / 3)
    assert row["n_missing"] == 12


def test_compare_unpaired_contrast_and_gap_take_scores() -> None:
    table = marks().assign(transfer=lambda rows: np.where(rows["case"].str[-1].isin(list("02468")),
                           "near", "far"), agent=lambda rows: np.where(rows["nr"] > 1, "x", "y"),
                           dimension="C1")  # fmt: skip
    made = frames_of(table, transfer="transfer", dimension="dimension", agent="agent")
    outcomes = made.outcomes
    one = outcomes[outcomes["agent"].eq("x")]
    pairs = sc.deltas.paired(one, **HOW)
    verdict = sc.skillverdicts.compare(
        one, made.attempts, reference="baseline", margin=0.4, by=(), **HOW
    )
    assert verdict["estimate"].iloc[0] == pytest.approx(pairs["estimate"].iloc[0])
    assert sc.deltas.unpaired(one, **HOW)["estimate"].iloc[0] == pytest.approx(pairs["estimate"][0])
    between = sc.deltas.contrast(outcomes, between="agent", **HOW)
    assert between["measure"].eq("difference_score").all() and between["unit"].eq("score").all()
    gap = sc.transfer.gap(one, **HOW)
    assert set(gap["measure"]) == {"near_delta_score", "far_delta_score", "gap_score"}
    near, far, difference = gap[gap["scope"].eq("pooled")]["estimate"]
    assert difference == pytest.approx(far - near)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"value": "score", "bounds": (1, 4)}, r"scores run from .*lowest and the highest"),
        ({"value": "score", "bounds": (5, 1)}, r"bounds=: found \(5, 1\)"),
        ({"value": "score", "bounds": 5}, "bounds=: found 5"),
        ({"value": "passed", "bounds": (1, 5)}, "only scores have bounds"),
        ({"value": ["passed", "share_passed"], "bounds": (1, 5)}, "only scores have bounds"),
        ({"value": "cost_usd", "bounds": (1, 5)}, "only scores have bounds"),
    ],
)
def test_bounds_that_do_not_fit_are_refused(how: dict, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        sc.deltas.paired(outcomes_of(marks()), **how)
    with pytest.raises(FrameError, match="bounds= is missing"):
        sc.deltas.rates(outcomes_of(marks()), value="score")


def test_the_page_of_a_study_of_scores_has_no_points_and_no_passes(tmp_path: Path) -> None:
    made = frames_of(marks(n=40, gain=2.0))
    with pytest.raises(StudyError, match=r"value='score' and bounds=, the lowest"):
        sc.report.answer(made)
    answer = sc.report.answer(made, margin=0.4, **HOW)
    row = answer.frames["decided"].set_index("skill").loc["tea"]
    text = next(line for line in answer.lines() if line.startswith("tea "))
    assert (
        f"+{row['estimate']:.3g} [" in text and f"score with the skill is {row['rate']:.3g}" in text
    )
    assert not [line for line in answer.lines() if "points" in line or "pass" in line]
    page = sc.report.build(made, tmp_path, margin=0.4, progress=False, **HOW)
    assert "Change in the mean score" in page.read_text(encoding="utf-8")


def test_a_share_of_one_check_is_not_estimated_beside_the_pass() -> None:
    table = marks().assign(passed=lambda frame: frame["reward"] > 3)
    outcomes = frames_of(table, passed="passed").outcomes
    rows = sc.deltas.paired(outcomes, value=["passed", "share_passed"])
    assert rows["measure"].tolist() == ["delta_passed"]
    two = outcomes.assign(n_checks=2)
    assert len(sc.deltas.paired(two, value=["passed", "share_passed"])) == 2


def test_a_check_without_a_score_makes_the_score_of_its_attempt_missing() -> None:
    table = marks(gain=0.0, repeats=2)
    both = pd.concat([table.assign(check="tone", reward=4.5), table.assign(check="facts")])
    lost = both["check"].eq("facts") & both["condition"].eq("skill") & both["nr"].eq(1)
    both.loc[lost, "reward"] = np.nan
    row = sc.deltas.paired(outcomes_of(both, check="check"), by="skill", **HOW).iloc[0]
    assert row["n_missing"] == 12
    assert row["worst_low"] < row["estimate"] < row["worst_high"]
    heavy = both.assign(check_weight=np.where(both["check"].eq("tone"), 3.0, 1.0))
    scores = outcomes_of(heavy, check="check", check_weight="check_weight")["score"].dropna()
    plain = outcomes_of(both, check="check")["score"].dropna()
    assert ((scores - 4.5) / (plain - 4.5)).to_numpy() == pytest.approx(0.5)


def test_studies_without_any_score_have_no_estimate_and_no_crash() -> None:
    table = marks().assign(passed=True)
    outcomes = frames_of(table, passed="passed").outcomes.assign(score=np.nan)
    row = sc.deltas.paired(outcomes, by="skill", **HOW).iloc[0]
    assert np.isnan(row["estimate"]) and "usable score" in row["note"]


def test_labels_on_passes_do_not_confirm_a_verdict_on_scores() -> None:
    table = marks(n=40, gain=2.0).assign(passed=lambda rows: rows["reward"] > 3)
    table["gold"] = np.random.default_rng(1).random(len(table)) < 0.5
    made = frames_of(table, passed="passed", gold="gold")
    lines = sc.report.answer(made, margin=0.4, **HOW).lines()
    assert lines[0].startswith("Nobody has checked the scores. By the grader alone: ")
    assert "Scores are not corrected for the errors of the grader." in lines


@pytest.mark.parametrize("bounds", [np.array([1, 5]), pd.Series([1, 5]), [1, 5]])
def test_bounds_may_be_any_pair_of_numbers(bounds) -> None:
    outcomes = outcomes_of(marks())
    expected = sc.skillverdicts.decide(outcomes, margin=0.4, **HOW)
    found = sc.skillverdicts.decide(outcomes, margin=0.4, value="score", bounds=bounds)
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("bounds", [("1", "5"), "15", 5, (1, 5, 9), (5, 1), None])
def test_verdicts_refuse_bounds_before_the_margin(bounds) -> None:
    with pytest.raises(FrameError, match="bounds="):
        sc.skillverdicts.decide(outcomes_of(marks()), margin=2, value="score", bounds=bounds)


def test_repeats_until_a_pass_bias_scores_too() -> None:
    rng = np.random.default_rng(5)
    rows = []
    for i in range(20):
        for condition in ("baseline", "skill"):
            for nr in range(1, 30):
                mark = float(rng.integers(1, 6))
                rows.append({"skill": "tea", "case": f"tea/{i}", "condition": condition, "nr": nr,
                             "reward": mark, "passed": mark > 3, "family": "f"})  # fmt: skip
                if mark > 3:
                    break
    outcomes = frames_of(pd.DataFrame(rows), passed="passed").outcomes
    note = sc.deltas.paired(outcomes, by="skill", **HOW)["note"].iloc[0]
    assert "so scores are biased" in note and "pass rates" not in note


def test_a_factorial_study_of_scores_has_effects_in_their_unit() -> None:
    rng, rows = np.random.default_rng(2), []
    design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    for i in range(10):
        for made in [*design, {"condition": "baseline", "content": ""}]:
            mark = 2.0 + (made["content"] == "F") + rng.uniform(0, 0.5)
            rows.append({"skill": "tea", "case": f"tea/{i}", "condition": made["condition"],
                         "reward": mark, "nr": 1, "family": "f"})  # fmt: skip
    outcomes = outcomes_of(pd.DataFrame(rows))
    effects = sc.structure.factorial(outcomes, design, **HOW).set_index("effect")
    content = effects[effects["at"].eq("")].loc["content", "estimate"]
    assert abs(content) == pytest.approx(1.0, abs=0.3)
    assert effects["unit"].eq("score").all()
    assert set(effects["measure"]) == {"delta_score", "difference_score"}


def test_an_unknown_value_is_named_everywhere() -> None:
    outcomes = outcomes_of(marks())
    agents = outcomes.assign(agent=["x", "y"] * 72)
    with pytest.raises(FrameError, match="value: found 'scores'; allowed"):
        sc.deltas.contrast(agents, between="agent", value="scores")
    with pytest.raises(FrameError, match="value: found 'scores'; allowed"):
        sc.transfer.gap(outcomes, value="scores")


def test_planning_reads_scores_in_their_unit() -> None:
    outcomes = outcomes_of(marks())
    own = outcomes.assign(score=(outcomes["score"] - 1) / 4)
    unit = {"value": "score", "bounds": (0, 1)}
    wide = sc.planning.variance_components(outcomes, **HOW).set_index("measure")["estimate"]
    narrow = sc.planning.variance_components(own, **unit).set_index("measure")["estimate"]
    variances = wide.index.str.contains("2")
    assert (wide[variances] / 16).to_numpy() == pytest.approx(narrow[variances], nan_ok=True)
    assert wide["delta"] == pytest.approx(4 * narrow["delta"])
    assert wide["baseline_rate"] == pytest.approx(1 + 4 * narrow["baseline_rate"])
    small = {"n_cases": 6, "n_skills": 2, "n_studies": 200}
    for pilot in (outcomes, sc.planning.variance_components(outcomes, **HOW)):
        power = sc.planning.power_curve(pilot, sizes=[0.4, 1.2], margin=0.2, **HOW, **small)
        same = sc.planning.power_curve(own, sizes=[0.1, 0.3], margin=0.05, **unit, **small)
        assert power["estimate"].tolist() == same["estimate"].tolist()
        assert power["size"].tolist() == [0.4, 1.2]
    needed = sc.planning.cases_needed(outcomes, size=1.2, n_studies=200, **HOW)
    same = sc.planning.cases_needed(own, size=0.3, n_studies=200, **unit)
    assert needed["estimate"].tolist() == same["estimate"].tolist()
    far = sc.planning.power_curve(outcomes, sizes=3.9, **HOW, **small)["note"].iloc[0]
    assert "needs a score outside 1 to 5" in far
    with pytest.raises(StudyError, match="margin: found 5"):
        sc.planning.power_curve(outcomes, margin=5, **HOW)
    with pytest.raises(FrameError, match="bounds= is missing"):
        sc.planning.power_curve(outcomes, value="score")


def test_a_document_is_compared_with_the_scores_of_its_agents() -> None:
    outcomes, grades = outcomes_of(marks()), {"document": ["tea", "tide"], "value": [40, 60]}
    documents = {"scores": pd.DataFrame(grades)}
    for outcome, rows in (("delta", sc.deltas.paired), ("rate", sc.deltas.rates)):
        found = sc.structure.score_by_document(outcomes, outcome=outcome, **documents, **HOW)
        expected = rows(outcomes, by="skill", **HOW)
        expected = expected[expected["condition"].eq("skill")]
        assert found.query("condition == 'skill'")["estimate"].tolist() == pytest.approx(
            expected["estimate"].tolist()
        )
    assert sc.structure.score_association(outcomes, **documents, **HOW)["n"].eq(2).all()
    with pytest.raises(FrameError, match="bounds= is missing"):
        sc.structure.score_association(outcomes, value="score", **documents)


def test_the_case_pages_of_a_page_of_scores_show_scores(tmp_path: Path) -> None:
    study = frames_of(marks(n=6, gain=1.5))
    sc.report.build(study, tmp_path, notebooks=[], progress=False, **HOW)
    page = (tmp_path / "cases" / "tea.html").read_text()
    assert "mean scores and changes by" in page and "are not compared" not in page
    outcomes = study.outcomes.set_index(["case_id", "condition"])["score"]
    means = outcomes.groupby(level=[0, 1]).mean().unstack()
    losses = (means["skill"] - means["baseline"])[lambda s: s.index.str.startswith("tea")]
    first = losses.idxmin()
    assert f"{means.loc[first, 'skill']:.3g}" in page
    names = [part.split("<")[0] for part in page.split("<h2><bdi>")[1:]]
    assert names == list(losses.sort_values().index)
    assert f'title="unnamed grader: {outcomes.iloc[0]:.3g}"' in page
    with pytest.raises(FrameError, match="value: found 'share_passed'"):
        sc.report.write_case_pages(study, tmp_path, value="share_passed")


def judged_marks(rng, n: int, per_doubling: float) -> pd.DataFrame:
    """Marks of a judge from 1 to 5, and of a person; longer answers get higher marks."""
    rows = []
    for case in range(n):
        for condition in ("baseline", "skill"):
            words = int(2 ** rng.uniform(4, 7))
            person = rng.uniform(1.8, 4.2)
            judge = person + per_doubling * (np.log2(words) - 5.5) + rng.normal(0, 0.2)
            answer = "One two three four. " * (words // 4)
            rows.append({"case": case, "condition": condition, "answer": answer,
                         "mark": np.clip(judge, 1, 5), "person": person, "judge": "j"})  # fmt: skip
    return pd.DataFrame(rows)


def test_gold_scores_come_with_the_table_or_beside_it(tmp_path: Path) -> None:
    table = judged_marks(np.random.default_rng(0), 10, 0.0)
    how = {"skill": None, "passed": None, "score": "mark", "grader": "judge"}
    inside = sc.from_frame(table, **how, gold="person")
    labels = table[["case", "condition"]].assign(score=table["person"])
    beside = sc.from_frame(table.drop(columns="person"), **how, gold=labels)
    assert inside.gold["score"].tolist() == table["person"].tolist()
    pd.testing.assert_frame_equal(inside.gold, beside.gold)
    stored = sc.frames.gold(sc.RunStore(inside.save(tmp_path / "x")))
    pd.testing.assert_frame_equal(stored, inside.gold)


def test_the_audit_of_scores_gives_effects_in_their_unit() -> None:
    rng, inside = np.random.default_rng(1), []
    for effect in (0.0, 0.3, 0.3, 0.3):
        table = judged_marks(rng, 40, effect)
        made = sc.from_frame(table, skill=None, passed=None, score="mark", grader="judge",
                             answer="answer", gold="person")  # fmt: skip
        how = {"by": "grader", "value": "score", "bounds": (1, 5)}
        rows = sc.bias.audit(made.verdicts, made.attempts, made.gold, **how).set_index("bias")
        row = rows.loc["verbosity"]
        inside.append(row["ci_low"] <= effect <= row["ci_high"])
        assert row["unit"] == "score" and row["ci_high"] - row["ci_low"] < 0.4
        lenient = rows.loc["condition leniency"]
        inside.append(lenient["ci_low"] <= 0 <= lenient["ci_high"])
    assert sum(inside) >= 7
    with pytest.raises(FrameError, match="bounds"):
        sc.bias.audit(made.verdicts, made.attempts, made.gold, by="grader", value="score")


def test_the_page_of_scores_with_gold_says_how_far_the_judge_agrees(tmp_path: Path) -> None:
    table = judged_marks(np.random.default_rng(2), 30, 0.0)
    made = sc.from_frame(table, skill=None, passed=None, score="mark", grader="judge",
                         answer="answer", gold="person")  # fmt: skip
    page = sc.report.build(made, tmp_path / "page", notebooks=[], progress=False, **HOW)
    text = page.read_text(encoding="utf-8")
    assert "60 gold labels" in text and "Nobody has checked" not in text
    assert "The scores of j minus those of gold:" in text and "change, corrected" not in text
    answers = sc.correction.rate(made.verdicts, made.gold, by="grader", **HOW)
    said = " ".join(sc.report.sentences(answers))
    assert "the mean score is" in said and "%" not in said
