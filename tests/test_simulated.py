from difflib import SequenceMatcher

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from benchmarks import simulated
from benchmarks.simulated import Grader
from benchmarks.simulated.design import marginal_rate
from benchmarks.simulated.text import HEDGES
from skillcomp.errors import StudyError
from skillcomp.frames import outcomes
from skillcomp.frames.check import check

KINDS = ("cases", "checks", "attempts", "verdicts", "gold", "pairwise")
RICH = dict(
    n_skills=3,
    n_cases=[4, 7, 12],
    conditions=("baseline", "skill", "placebo"),
    checks_per_case=[1, 3, 5],
    contrast_pairs=2,
    labeller_error=0.1,
    attempt_failure_rate=0.1,
    listed_share=0.3,
    agent_families=("family-a", "family-b"),
    copying={"baseline": 0.0, "skill": 0.4, "placebo": 0.0},
)


def exact_rate(intercept, sd):
    """Second route to the marginal rate: adaptive quadrature instead of the even grid."""
    return quad(lambda z: expit(intercept + sd * z) * norm.pdf(z), -9, 9, epsabs=1e-13)[0]


SMALL = dict(gold_fraction=0, n_skills=1, n_cases=np.int64(1), n_repeats=1)
GRADERS = (
    Grader("a", failure_rate=0.1, rounds=2, quote_error_rate=0.2),
    Grader("a", version="2", asks_evidence=False),
)


@pytest.mark.parametrize(
    "options", [dict(graders=GRADERS, seed=3, **RICH), SMALL, SMALL | {"graders": ()}]
)
def test_every_frame_keeps_its_contract_and_is_already_at_its_dtypes(options):
    made = simulated.study(**options)
    for kind in KINDS:
        frame = getattr(made, kind)
        pd.testing.assert_frame_equal(check(frame, kind), frame)
    pd.testing.assert_frame_equal(check(made.labels, "gold"), made.labels)
    assert made.gold.empty == (options.get("gold_fraction") == 0)
    n_graded = sum(grader.rounds for grader in options.get("graders", [Grader("judge")]))
    n_answers = made.attempts["answer"].notna().sum()
    assert len(outcomes(made.verdicts, made.cases)) == n_answers * n_graded
    bad = made.verdicts["status"].eq("malformed")
    assert made.verdicts["passed"].isna().equals(bad)


def test_the_same_seed_gives_the_same_study_and_another_seed_another():
    first, same, other = (simulated.study(n_skills=2, seed=s) for s in (5, 5, 6))
    for kind in KINDS:
        pd.testing.assert_frame_equal(getattr(first, kind), getattr(same, kind))
    assert not first.attempts["answer"].equals(other.attempts["answer"])


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.5, 4.0])
def test_the_even_grid_agrees_with_adaptive_quadrature(sd):
    rate = marginal_rate(-0.7, sd, 0.0, ((1, 1.0),), "share_passed")
    assert rate == pytest.approx(exact_rate(-0.7, sd), abs=1e-11)


def test_attempts_with_independent_checks_pass_with_the_product():
    # rate 0.5 for attempts of two independent checks: each check sqrt(0.5) = 0.707107
    made = simulated.study(
        n_skills=1, n_cases=2, baseline_rate=0.5, delta=0.25, value="passed", checks_per_case=2,
        between_skill_sd=0, between_case_sd=0, case_effect_sd=0, skill_level_sd=0,
        between_attempt_sd=0,
    )  # fmt: skip
    rate = made.true("pass_rate", value="share_passed", condition="baseline")
    assert rate == pytest.approx(np.sqrt(0.5), abs=1e-10)
    # skill condition: sqrt(0.75) = 0.866025, so the behaviours' delta is 0.158919
    assert made.true("delta", value="share_passed") == pytest.approx(0.1589186, abs=1e-7)
    wide = made.rates.pivot(index="case_id", columns="condition", values="attempt_rate")
    realised = made.true("delta", value="passed", target="these_cases")
    assert (wide["skill"] - wide["baseline"]).mean() == pytest.approx(realised, abs=1e-12)


@pytest.mark.parametrize("value", ["share_passed", "passed"])
def test_the_planted_delta_and_gap_come_out_of_the_outcomes_on_average(value):
    deltas, gaps = [], []
    for seed in range(12):
        made = simulated.study(
            n_skills=8, n_cases=6, n_repeats=1, delta=0.2, near_far_gap=-0.15, value=value,
            baseline_rate=0.4, checks_per_case=3, graders=(Grader("g", 1.0, 1.0),), seed=seed,
        )  # fmt: skip
        out = outcomes(made.verdicts, made.cases)
        out["value"] = (
            out["share_passed"] if value == "share_passed" else out["passed"].astype(float)
        )
        wide = out.pivot_table(index=["case_id", "transfer"], columns="condition", values="value")
        by_case = (wide["skill"] - wide["baseline"]).reset_index("transfer")
        near_far = by_case.groupby("transfer")[0].mean()
        deltas.append(by_case[0].mean())
        gaps.append(near_far["far"] - near_far["near"])
    for values, true in ((deltas, 0.2), (gaps, -0.15)):
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - true) < 3.5 * error


@pytest.mark.parametrize(("delta", "effect"), [(0.2, 0), ({"skill": 0.2, "placebo": 0.1}, 0.1)])
def test_a_placebo_has_no_effect_unless_it_is_given_one(delta, effect):
    made = simulated.study(conditions=("baseline", "skill", "placebo"), delta=delta, n_skills=2)
    true = made.true("delta", value="share_passed", condition="placebo")
    assert true == pytest.approx(effect, abs=1e-9)


@pytest.mark.parametrize("again", [False, True])
def test_a_perfect_grader_repeats_the_truth_whatever_its_biases(again):
    grader = Grader("g", 1.0, 1.0, verbosity_bias=3.0)
    made = simulated.study(graders=(grader,), seed=4)
    verdicts = simulated.grade(made, grader) if again else made.verdicts
    both = verdicts.merge(made.labels, on=["attempt_id", "check_id"], suffixes=("", "_true"))
    assert len(both) == len(made.labels)
    assert both["passed"].eq(both["passed_true"]).all()
    assert made.true("verbosity_effect") == 0


def rates_against_truth(made, by):
    both = made.verdicts.merge(
        made.labels[["attempt_id", "check_id", "passed"]].rename(columns={"passed": "met"}),
        on=["attempt_id", "check_id"],
    )
    right = both["passed"].eq(both["met"])
    return right.groupby([both[name] for name in by] + [both["met"]]).mean()


def test_sensitivity_and_specificity_hold_in_each_condition():
    grader = Grader("g", {"baseline": 0.9, "skill": 0.96}, {"baseline": 0.85, "skill": 0.7})
    made = simulated.study(graders=(grader,), n_skills=20, n_cases=20, n_repeats=2, seed=1)
    rates = rates_against_truth(made, ["condition"])
    # about 2,000 to 5,600 checks a cell: three standard errors are at most 0.03
    for condition, se, sp in (("baseline", 0.9, 0.85), ("skill", 0.96, 0.7)):
        assert rates[condition, True] == pytest.approx(se, abs=0.03)
        assert rates[condition, False] == pytest.approx(sp, abs=0.03)
        assert made.true("sensitivity", condition=condition) == se
        realised = made.true("specificity", condition=condition, target="these_cases")
        assert realised == pytest.approx(sp)


def test_drift_sets_in_at_its_time():
    # 1,600 attempts, one a minute from 08:00: the 800th is graded at 21:20
    made = simulated.study(
        n_skills=20, n_cases=20, graders=(Grader("g", 0.95, 0.9, drift=(0.5, 0.6, 0.5)),), seed=1
    )
    made.verdicts["late"] = made.verdicts["graded_at"] >= pd.Timestamp("2026-02-02 21:20", tz="UTC")
    rates = rates_against_truth(made, ["late"])
    expected = {(False, True): 0.95, (False, False): 0.9, (True, True): 0.6, (True, False): 0.5}
    for key, value in expected.items():
        assert rates[key] == pytest.approx(value, abs=0.04)
    assert made.true("specificity", condition="skill", period="after") == 0.5


def test_a_failed_attempt_has_no_answer_no_verdict_and_no_gold():
    made = simulated.study(attempt_failure_rate=0.3, gold_fraction=1.0, seed=1)
    failed = made.attempts["status"].eq("error")
    assert 0.2 < failed.mean() < 0.4
    assert made.attempts["answer"].isna().equals(failed)
    ids = set(made.attempts.loc[failed, "attempt_id"])
    for frame in (made.verdicts, made.gold, made.labels):
        assert not ids & set(frame["attempt_id"])
    assert not ids & set(made.pairwise["first"])


def test_gold_takes_one_repeat_of_every_condition_of_random_cases_within_skill():
    made = simulated.study(n_skills=4, n_cases=10, n_repeats=3, gold_fraction=0.3, seed=2)
    drawn = made.attempts[made.attempts["attempt_id"].isin(made.gold["attempt_id"])]
    assert drawn.groupby("skill")["case_id"].nunique().tolist() == [3] * 4
    assert drawn.groupby("case_id")["condition"].agg(",".join).eq("baseline,skill").all()
    assert drawn.groupby("case_id")["repeat"].nunique().eq(1).all()
    # 3 of 10 cases and 1 of 3 repeats: 0.1
    assert made.gold["inclusion_probability"].to_numpy() == pytest.approx(0.1)
    truth = made.labels.merge(made.gold, on=["attempt_id", "check_id"])
    assert truth["passed_x"].eq(truth["passed_y"]).all()


def test_labellers_err_at_the_planted_rate_and_the_adjudicated_label_does_not():
    made = simulated.study(gold_fraction=1.0, labeller_error=0.1, n_cases=30, seed=2)
    wide = made.gold.pivot(
        index=["attempt_id", "check_id"], columns="labeller", values="passed"
    ).astype(bool)
    assert (wide["labeller-1"] != wide["adjudicated"]).mean() == pytest.approx(0.1, abs=0.02)
    # two independent labellers differ at 2 * 0.1 * 0.9 = 0.18
    assert (wide["labeller-1"] != wide["labeller-2"]).mean() == pytest.approx(0.18, abs=0.03)


def longest_shared(answer, source):
    words, body = (text.lower().replace(".", "").split() for text in (answer, source))
    blocks = SequenceMatcher(None, words, body, autojunk=False)
    return blocks.find_longest_match().size


def test_length_and_hedging_are_as_planted():
    made = simulated.study(
        n_skills=10, answer_words={"baseline": 60, "skill": 120}, hedges_per_100=3.0,
        listed_share=0.5, seed=1,
    )  # fmt: skip
    answers = made.attempts["answer"]
    mean = made.attempts.groupby("condition")["n_words"].mean()
    # bullets count as words: half of the answers have one in twelve words, 4 % more
    assert mean["baseline"] == pytest.approx(60 * 1.04, rel=0.05)
    assert mean["skill"] == pytest.approx(120 * 1.04, rel=0.05)
    assert answers.str.count(r"\S+").eq(made.attempts["n_words"]).all()
    counted = answers.str.lower().str.count("|".join(HEDGES))
    assert counted.to_numpy().tolist() == made.planted["n_hedges"].tolist()
    assert 100 * counted.sum() / made.attempts["n_words"].sum() == pytest.approx(2.9, abs=0.2)
    listed = answers.str.contains(r"(?m)^- ", regex=True)
    assert listed.tolist() == made.planted["listed"].tolist()


def test_a_stranger_among_the_attempts_is_refused():
    made = simulated.study(n_skills=1, n_cases=2)
    stranger = made.attempts.assign(attempt_id=made.attempts["attempt_id"] + "x")
    with pytest.raises(StudyError, match="8 are neither attempts of the study nor copies"):
        simulated.grade(made, Grader("g"), attempts=stranger)


def test_contrast_twins_share_their_prompt_and_difficulty():
    made = simulated.study(
        n_skills=5, n_cases=6, contrast_pairs=1, skill_level_sd=0, case_effect_sd=0,
        between_skill_sd=0,
    )  # fmt: skip
    twins = made.cases[made.cases["contrast_of"].notna()]
    assert len(twins) == 5
    base = made.rates[made.rates["condition"].eq("baseline")].set_index("case_id")["behaviour_rate"]
    for row in twins.itertuples():
        assert base[row.case_id] == pytest.approx(base[row.contrast_of])


def test_passages_hold_the_planted_share_of_the_skill():
    made = simulated.study(n_skills=1, n_cases=1, seed=1)
    copies = simulated.passages(made.skills, topics=3, seed=1)
    assert copies.groupby("document").size().eq(5).all()
    body = made.skills["skill-01"].sections[-1].text
    longest = copies["text"].map(lambda text: longest_shared(text, body))
    means = longest.groupby(copies["level"]).mean()
    assert means["verbatim"] == 60
    assert means["verbatim"] > means["near_copy"] > means["light_revision"] > means["fresh"]
    by_text = simulated.passages({"skill-01": body}, topics=3, seed=1)
    pd.testing.assert_frame_equal(by_text, copies)
    with pytest.raises(StudyError, match=r"skill 'short': found 1 word to copy from"):
        simulated.passages({"short": "Word."})


def test_counts_have_the_delta_gap_and_repeat_variance_asked_for():
    many = simulated.counts(
        n_runs=2000, n_skills=5, n_cases=6, n_repeats=3, baseline_rate=0.3, delta=0.25,
        near_far_gap=-0.1, between_skill_sd=0.5, checks_per_case=[1, 2], between_attempt_sd=0.5,
    )  # fmt: skip
    share = (many.skill - many.baseline) / 3
    for values, true in (
        (share.mean(axis=1), 0.25),
        (share[:, many.far].mean(axis=1) - share[:, ~many.far].mean(axis=1), -0.1),
        (many.baseline.mean(axis=1) / 3, 0.3),
    ):
        assert abs(values.mean() - true) < 3.5 * values.std() / np.sqrt(2000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"baseline_rate": 0.9, "delta": 0.2}, r"A pass rate of 1\.1 was asked for"),
        ({"conditions": ("skill", "baseline")}, "allowed: 'baseline' first"),
        ({"delta": {"skil": 0.1}}, "found condition 'skil'; allowed: skill. Did you mean 'skill'"),
        ({"far_share": 0.0, "near_far_gap": 0.1}, "needs both near and far cases"),
        ({"gold_fraction": 1.5}, "gold_fraction: found 1.5"),
        ({"n_repeats": 0}, "n_repeats: found 0"),
        ({"n_cases": [3, 4]}, "for 6 skills; allowed: one number, or one for each skill"),
        ({"contrast_pairs": 8}, r"allowed: 0 to half of a skill's cases \(7\)"),
        ({"copying": {"skill": 0.1}}, "copying: found 'skill'; allowed: one number"),
        ({"between_case_sd": 9}, "standard deviation 'case_level': found 9"),
        ({"graders": (Grader("a"), Grader("a"))}, "two have the same name and version"),
    ],
)
def test_an_impossible_study_is_refused_by_name(arguments, message):
    with pytest.raises(StudyError, match=message):
        simulated.study(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sensitivity": 1.2}, "grader 'g': sensitivity is 1.2; allowed: 0 to 1"),
        ({"drift": (2.0, 0.5, 0.5)}, "drift time 2.0; allowed: a share"),
        ({"drift": (0.5, 0.5, 7)}, "drifted specificity is 7"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_an_impossible_grader_is_refused_by_name(arguments, message):
    with pytest.raises(StudyError, match=message):
        Grader("g", **arguments)


def test_asking_for_a_truth_that_is_not_single_says_what_to_name():
    made = simulated.study(n_skills=1, n_cases=2)
    with pytest.raises(StudyError, match="2 rows of measure 'delta' fit"):
        made.true("delta")
    with pytest.raises(StudyError, match="Did you mean 'sensitivity'"):
        made.true("sensitivty")
