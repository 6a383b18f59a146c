from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.variance_components import paired_components
from scipy.stats import multinomial
from scipy.stats import t as student

from benchmarks import simulated
from benchmarks.many_studies import bounded_mean_counts
from benchmarks.simulated import Grader
from skillcomp import planning
from skillcomp.errors import FrameError, StudyError
from skillcomp.frames import outcomes
from skillcomp.frames.check import check
from skillcomp.planning.assumed_components import (
    noise_of_repeats,
    omega2_interval,
    sigma2_interval,
    spread_of_cases,
    tau2_interval,
)
from skillcomp.planning.gold_needed import (
    case_differences,
    differences_of,
    expected_length,
)
from skillcomp.planning.power import GAPS, case_chances, case_samples
from skillcomp.skillverdicts import compare
from skillcomp.stats.bounded import DELTAS, Arm, sides_of_null
from skillcomp.stats.gaps import standardised_gap
from skillcomp.stats.ppi import ppi_mean

PERFECT = (Grader("g", 1.0, 1.0),)


def frame_of(rows):
    """Outcomes from (skill, case, condition, repeat, passed)."""
    frame = pd.DataFrame(rows, columns=["skill", "case_id", "condition", "repeat", "passed"])
    names = [frame[name].astype(str) for name in ("case_id", "condition", "repeat")]
    frame["attempt_id"] = names[0] + "/" + names[1] + "/" + names[2]
    return frame


def value(table, measure, column="estimate"):
    return table.set_index("measure")[column][measure]


def test_components_by_hand():
    # deltas by case: skill a: 1.0, 0.5; skill b: 0.0, 0.0  (two repeats an condition)
    passes = {"a/1": (0, 2), "a/2": (1, 2), "b/1": (1, 1), "b/2": (0, 0)}
    rows = [
        (case[0], case, condition, repeat, repeat <= k)
        for case, both in passes.items()
        for condition, k in zip(("baseline", "skill"), both, strict=True)
        for repeat in (1, 2)
    ]
    found = planning.variance_components(frame_of(rows))
    assert value(found, "delta") == pytest.approx(1.5 / 4)
    # variance between repeats is 1/2 where one of two passes: baseline a/2, b/1; skill b/1
    assert value(found, "sigma2_baseline") == pytest.approx(2 * 0.5 / 4)
    assert value(found, "sigma2_skill") == pytest.approx(0.5 / 4)
    # within: (1 - .75)^2 + (.5 - .75)^2 = .125 over 2 df: .0625; noise (.25 + .125) / 2 = .1875
    assert value(found, "omega2") == 0
    assert "estimated below zero (-0.125)" in value(found, "omega2", "note")
    # between: 2 (.75 - .375)^2 + 2 (0 - .375)^2 = .5625 on 1 df; (.5625 - .0625) / 2 = .25
    assert value(found, "tau2") == pytest.approx(0.25)
    assert value(found, "tau2", "ci_low") <= 0.25 <= value(found, "tau2", "ci_high")


def test_one_skill_leaves_tau_unknown_and_no_distance_leaves_the_gap_unknown():
    made = simulated.study(n_skills=1, graders=PERFECT, far_share=0.0)
    found = planning.variance_components(outcomes(made.verdicts, made.cases))
    for measure, words in (("tau2", "at least two skills"), ("gap", "two near and two far")):
        assert np.isnan(value(found, measure))
        assert words in value(found, measure, "note")


def test_components_are_an_estimates_frame_and_refuse_pooled_graders():
    made = simulated.study(graders=(Grader("a"), Grader("b")), n_skills=2)
    both = outcomes(made.verdicts, made.cases)
    found = planning.variance_components(both, by=["grader"])
    pd.testing.assert_frame_equal(
        check(found, "estimates")[list(found.columns)], found, check_dtype=False
    )
    assert len(found) == 2 * 9
    with pytest.raises(FrameError, match="holds more than one grader: a, b"):
        planning.variance_components(both)
    with pytest.raises(FrameError, match="Did you mean 'share_passed'"):
        planning.variance_components(both, by=["grader"], value="share_pased")
    with pytest.raises(FrameError, match="no condition 'base'"):
        planning.variance_components(both, by=["grader"], reference="base")


@pytest.mark.parametrize(("noise", "n_gold"), [(0.1, 20), (0.4, 45)])
def test_the_planned_length_is_that_of_the_printed_interval(noise, n_gold):
    """A pilot of many cases plans the mean length of the intervals of smaller studies."""
    rng = np.random.default_rng(4)
    gold = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], 4000, p=[0.05, 0.1, 0.35, 0.3, 0.2])
    grader = np.where(rng.random(4000) < noise, rng.choice([-0.5, 0.0, 0.5, 1.0], 4000), gold)
    pilot = differences_of(np.stack([gold, grader, grader], axis=1))
    planned, _ = expected_length(pilot, np.array([n_gold]), 60, 0.95)
    lengths = []
    for _ in range(100):
        drawn = rng.integers(0, 4000, 60)
        known = np.where(np.arange(60) < n_gold, gold[drawn], np.nan)
        found = ppi_mean(known, grader[drawn], quantity=DELTAS)
        lengths.append(found.high - found.low)
    assert planned[0] == pytest.approx(np.mean(lengths), rel=0.06)


def pilot_of(error_rate, n_cases=84):
    """Verdicts and gold of one check a case; the grader errs at random at `error_rate`."""
    rng = np.random.default_rng(3)
    passes = {}
    for case in range(n_cases):
        for condition, rate in (("baseline", 0.5), ("skill", 0.7)):
            label = bool(rng.random() < rate)
            passes[(f"c{case}", condition)] = [label ^ bool(rng.random() < error_rate)], [label]
    return labelled_frames(passes, checks=1)


def test_a_perfect_grader_needs_the_fewest_labels_and_a_useless_one_saves_none():
    plans = {
        rate: planning.gold_needed(*pilot_of(rate), width=0.3, n_cases=300)
        for rate in (0.0, 0.2, 0.5)
    }
    counts = [value(plan, "gold_cases") for plan in plans.values()]
    assert counts == sorted(counts) and counts[0] < 0.7 * counts[2]
    # the grader's verdicts on a useless grader have almost no weight
    assert value(plans[0.5], "gold_cases", "lam") < 0.2
    assert value(plans[0.0], "gold_cases", "lam") > 0.7


def test_gold_on_every_case_that_is_not_enough_says_so():
    found = planning.gold_needed(*pilot_of(0.1), width=0.05)
    assert found["estimate"].isna().all()
    assert "gold on all 84 cases gives an interval" in found["note"].iloc[0]


def labelled_frames(passes, checks=2):
    """Verdicts and gold from {(case, condition): (grader by check, gold by check)}."""
    rows = [
        (case, condition, f"{case}/{condition}", f"{case}#{k}", seen[k], true[k])
        for (case, condition), (seen, true) in passes.items()
        for k in range(checks)
    ]
    names = ["case_id", "condition", "attempt_id", "check_id", "passed", "label"]
    frame = pd.DataFrame(rows, columns=names)
    verdicts = frame.drop(columns="label").assign(skill="s", grader="g", status="ok")
    gold = frame[["attempt_id", "check_id", "label"]].rename(columns={"label": "passed"})
    return verdicts, gold.dropna().assign(labeller="alice")


def differences(verdicts, gold, unit):
    (part,) = case_differences(verdicts, gold, [], unit, "baseline")
    return part.cases.droplevel("skill")


def test_a_failed_grader_is_no_fail_and_an_attempt_with_an_unknown_check_no_pass():
    verdicts, gold = labelled_frames(
        {
            ("a", "baseline"): ([False, False], [False, False]),
            ("a", "skill"): ([True, False], [True, True]),
            ("b", "baseline"): ([False, False], [False, False]),
            ("b", "skill"): ([True, True], [True, True]),
        }
    )
    verdicts.loc[verdicts["attempt_id"].eq("a/skill") & ~verdicts["passed"], "status"] = "error"
    whole = differences(verdicts, gold, "passed")
    # a: one check passed, the other unknown: neither a pass nor a fail, so no case at all
    assert list(whole.index) == ["b"]
    shares = differences(verdicts, gold, "share_passed")
    assert shares.loc["a", "grader"] == 1.0


def test_the_grader_on_gold_is_read_on_the_checks_that_carry_gold():
    verdicts, gold = labelled_frames(
        {
            ("a", "baseline"): ([False, False], [False, None]),
            ("a", "skill"): ([True, False], [True, None]),
        }
    )
    found = differences(verdicts, gold, "share_passed").loc["a"]
    # over both checks the grader sees 1/2 - 0; on the labelled check 1 - 0
    assert (found["grader"], found["on_gold"], found["gold"]) == (0.5, 1.0, 1.0)


def test_wider_intervals_need_less_gold_and_a_short_pilot_has_no_upper_limit():
    made = simulated.study(seed=1, n_repeats=1, graders=(Grader("good", 0.97, 0.97),))
    how = {"width": [0.19, 0.3]}
    table = planning.gold_needed(made.verdicts, made.gold, **how).set_index(["width", "measure"])
    rows, narrow = table.loc[0.3], table.loc[(0.19, "gold_cases")]
    needed = rows.loc["gold_cases", "estimate"]
    assert needed < narrow["estimate"]
    assert np.isnan(narrow["ci_high"]) and "of the bootstrap pilots gold on" in narrow["note"]
    assert (rows["estimate"] == needed * np.array([1, 2, 10])).all()
    assert rows["estimate"].between(rows["ci_low"], rows["ci_high"]).all()
    assert (rows["expected_width"] <= 0.3).all()


@pytest.mark.parametrize("n_cases", [1, 3, 6])
def test_a_pilot_of_few_cases_is_unknown_and_names_what_to_state(n_cases):
    verdicts, gold = labelled_frames(
        {
            (f"c{i}", condition): ([k, i % 2 == 0], [k, i % 3 == 0])
            for i in range(n_cases)
            for condition, k in (("baseline", False), ("skill", True))
        }
    )
    found = planning.gold_needed(verdicts, gold)
    assert found["estimate"].isna().all()
    words = (
        "state n_cases, at least 10" if n_cases == 6 else "have gold in both conditions: 5 needed"
    )
    assert found["note"].str.contains(words).all()


ASSUMED = dict(omega2=0.05, sigma2=0.15, baseline_rate=0.4)


def one(table, measure=None):
    rows = table if measure is None else table[table["measure"].eq(measure)]
    assert len(rows) == 1
    return rows.iloc[0]


MIXED = dict(sizes=0.5, n_repeats=2, omega2=0.05, sigma2=0.15, baseline_rate=0.3)


def test_power_of_repeats_is_exact_for_every_rule():
    """Five cases with two attempts: all 1,287 possible studies are counted."""
    chance, fits = case_chances(0.5, 0.05 + 0.3 / 2, 2, 0.3, (0.15, 0.15))
    rates = np.indices((3, 3)).reshape(2, -1) / 2
    deltas, arms = rates[0] - rates[1], [Arm(rates[0], [2] * 9), Arm(rates[1], [2] * 9, -1.0)]
    bars = np.array(list(combinations(range(13), 8)))
    counts = np.diff(bars, prepend=-1, append=13) - 1
    weight = multinomial(5, chance).pmf(counts)
    cases = np.array([np.repeat(deltas, row) for row in counts])
    shown = {
        "adaptive": bounded_mean_counts(deltas, counts, arms=arms, quantity=DELTAS).low > 0,
        "bounded": bounded_mean_counts(deltas, counts, quantity=DELTAS).low > 0,
        "t": cases.mean(1) > student.ppf(0.975, 4) * cases.std(1, ddof=1) / np.sqrt(5),
    }
    shown["t"] &= cases.std(1) > 0  # without spread there is no t interval
    exact = {rule: float(weight[above].sum()) for rule, above in shown.items()}
    assert fits and exact["bounded"] + 0.1 < exact["adaptive"] < exact["t"]
    for rule, expected in exact.items():
        about = dict(n_skills=1, n_cases=5, interval=rule, n_studies=20_000, **MIXED)
        found = one(planning.power_curve(**about))
        # simulation error of 20,000 studies: at most 0.35 points
        assert found["estimate"] == pytest.approx(expected, abs=0.012), rule
        words = {"adaptive": "the adaptive bounded", "bounded": "the bounded", "t": "CR2"}[rule]
        assert f"judged by {words}" in found["method"]


def test_shares_are_planned_with_the_bounded_rule_and_say_so():
    how = dict(sizes=0.2, n_studies=200, value="share_passed", **ASSUMED)
    adaptive, bounded = (
        one(planning.power_curve(interval=rule, **how)) for rule in ("adaptive", "bounded")
    )
    assert adaptive["estimate"] == bounded["estimate"]
    assert "not adaptive for" in adaptive["method"] and "adaptive" not in bounded["method"]


def test_a_plan_costs_no_more_than_the_t_formula_and_the_pseudo_case():
    # Where deltas are many and small the interval is nearly the t interval of Miller 2024:
    # variance (0.05 + 0.15 / 2 + 0.15 / 2) / 560; (1.96 + 0.84) * 0.018898 = 0.0529
    about = dict(n_cases=560 // 8, n_skills=8, **ASSUMED)
    power = planning.power_curve(sizes=[0.0489, 0.0569], **about)["estimate"]
    assert power[0] < 0.8 < power[1]


@pytest.mark.parametrize("rule", ["adaptive", "bounded"])
def test_planned_gaps_are_judged_as_transfer_gap_judges_them(rule):
    rates, rng = np.indices((3, 3)).reshape(2, -1) / 2, np.random.default_rng(0)
    mixed, values = rng.dirichlet(np.full(9, 2.0)), rates[0] - rates[1]
    drawn = [
        rng.multinomial(12, mixed * np.exp(way * values) / (mixed * np.exp(way * values)).sum(), 30)
        for way in (1.2, -1.2)
    ]
    arms = [Arm(rates[0], np.full(9, 2)), Arm(rates[1], np.full(9, 2), -1.0)]
    samples = case_samples(values, arms if rule == "adaptive" else [], drawn)
    found, printed = sides_of_null(samples, quantity=GAPS), []
    for near, far in zip(*drawn, strict=True):
        cases = np.r_[np.repeat(np.arange(9), near), np.repeat(np.arange(9), far)]
        gap = standardised_gap(
            values[cases], np.repeat([0, 1], 12), np.zeros(24), np.arange(24),
            arms=[arm.rows(cases) for arm in arms], interval=rule,
        ).gap  # fmt: skip
        printed.append(np.sign(gap.estimate) * (gap.low > 0 or gap.high < 0))
    assert found.tolist() == printed
    assert 5 < np.count_nonzero(found) < 25


def test_the_cases_needed_reach_the_power_and_one_fewer_does_not():
    about = dict(n_skills=8, n_repeats=2, seed=3, **ASSUMED)
    found = planning.cases_needed(size=0.15, **about).set_index("measure")["estimate"]
    needed = found["cases_per_skill"]
    power = [
        one(planning.power_curve(sizes=[0.15], n_cases=int(n), **about))["estimate"]
        for n in (needed - 1, needed)
    ]
    assert power[0] < 0.8 + 0.02
    assert power[1] >= 0.8
    assert found["attempts"] == needed * 8 * 2 * 2


def test_skills_that_differ_make_more_cases_useless():
    # standard error at least sqrt(0.04 / 6) = 0.0816; a delta of 0.15 is 1.8 of these
    found = planning.cases_needed(
        size=0.15, cluster="skill", n_skills=[6, 60], tau2=0.04, n_studies=100, **ASSUMED
    )
    cases = found[found["measure"].eq("cases_per_skill")].set_index("n_skills")
    assert np.isnan(cases["estimate"][6])
    assert "6 skills differ too much from each other" in cases["note"][6]
    assert cases["estimate"][60] < 60
    alike = planning.cases_needed(
        size=0.1, cluster="skill", n_skills=5, tau2=0.0, n_studies=100, interval="bounded",
        **ASSUMED,
    )  # fmt: skip
    assert "5 skills are too few for this effect" in alike["note"].iloc[0]


def test_a_claim_about_skills_from_one_or_few_skills_is_refused():
    about = dict(cluster="skill", tau2=0.01, sizes=[0.2], **ASSUMED)
    alone = one(planning.power_curve(n_skills=1, **about))
    assert np.isnan(alone["estimate"])
    assert "one skill says nothing" in alone["note"]
    few = one(planning.power_curve(n_skills=4, **about))
    assert np.isnan(few["estimate"])
    # as deltas.paired refuses to speak of so few skills
    assert "4 skills are too few to speak of skills in general" in few["note"]
    assert np.isfinite(one(planning.power_curve(n_skills=5, **about))["estimate"])


def test_an_impossible_effect_is_unknown_with_a_note():
    found = one(planning.power_curve(sizes=[0.7], **ASSUMED))
    assert np.isnan(found["estimate"])
    assert "needs a rate outside 0 to 1; at most 0.599" in found["note"]


@given(st.floats(-0.99, 0.99), st.floats(0.0, 1.0), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_drawn_deltas_have_the_mean_and_variance_that_are_asked_for(delta, variance, n_repeats):
    chance, possible = case_chances(delta, variance, n_repeats)
    skill, baseline = np.indices((n_repeats + 1, n_repeats + 1)).reshape(2, -1) / n_repeats
    values = skill - baseline
    assert chance.min() >= 0 and chance.sum() == pytest.approx(1)
    assert chance @ values == pytest.approx(delta, abs=1e-6)
    if possible:
        assert chance @ values**2 - delta**2 == pytest.approx(variance, abs=1e-4)


def test_a_pilot_and_its_components_give_the_same_plan():
    made = simulated.study(graders=(Grader("a", 1.0, 1.0), Grader("b")), seed=1)
    pilot = outcomes(made.verdicts, made.cases)
    components_frame = planning.variance_components(pilot, by=["grader"])
    about = dict(by=["grader"], sizes=0.2, n_studies=100)
    direct = planning.power_curve(pilot, **about)
    through = planning.power_curve(components_frame, **about)
    pd.testing.assert_frame_equal(direct, through)
    assert len(direct) == 2
    assert check(direct, "estimates") is not None
    with pytest.raises(FrameError, match="name their columns in by="):
        planning.power_curve(components_frame)


def test_a_pilot_with_one_repeat_says_what_it_takes_for_granted():
    made = simulated.study(graders=PERFECT, n_repeats=1, seed=1)
    pilot = outcomes(made.verdicts, made.cases)
    found = planning.power_curve(pilot, sizes=[0.2], n_repeats=[1, 4])
    # steps of a quarter instead of one, but the same variance
    assert found["estimate"].iloc[0] == pytest.approx(found["estimate"].iloc[1], abs=0.06)
    assert "repeats are taken to gain nothing" in found["note"].iloc[1]
    assert found["note"].iloc[0] == ""


def test_point_values_agree_with_the_second_implementation():
    made = simulated.study(graders=PERFECT, n_cases=[5, 9, 14, 6], n_skills=4, n_repeats=3, seed=2)
    out = outcomes(made.verdicts, made.cases)
    found = planning.variance_components(out)
    wide = out.assign(x=out["passed"].astype(float)).pivot_table(
        index=["skill", "case_id"], columns="condition", values="x", aggfunc="sum"
    )
    other = paired_components(
        wide["skill"], wide["baseline"], 3, wide.index.get_level_values("skill")
    )
    for name, expected in other.items():
        assert value(found, name) == pytest.approx(expected, abs=1e-12)


def by_group(rates, n_repeats=2):
    """Outcomes of two skills by group; a rate of 0 or 1 for all, or None for random ones."""
    rng, parts = np.random.default_rng(0), []
    for group, rate in rates.items():
        rows = [
            (f"s{i % 2}", f"c{i}", condition, repeat, rng.random() < 0.5 if rate is None else rate)
            for i in range(12)
            for condition in ("baseline", "skill")
            for repeat in range(1, n_repeats + 1)
        ]
        frame = frame_of(rows).assign(group=group)
        frame["attempt_id"] += f"/{group}"
        frame["transfer"] = np.where(frame["case_id"].str[1:].astype(int) % 4 < 2, "near", "far")
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def deltas_of(**changes):
    """Outcomes of skills with so many gains and losses among their cases (one attempt each)."""
    rows = []
    for skill, (n, gains, losses) in changes.items():
        for case in range(n):
            before = case >= gains and (case < gains + losses or case % 2 == 0)
            after = case < gains or (case >= gains + losses and before)
            for condition, passed in (("baseline", before), ("skill", after)):
                rows.append((skill, f"{skill}/{case}", condition, 1, passed))
    return frame_of(rows).astype({"passed": "boolean"})


def test_a_margin_asks_for_an_effect_beyond_it_or_within_it():
    about = {"n_skills": 1, "omega2": 0.05, "sigma2": 0.15, "n_studies": 300}
    plain, beyond = (
        planning.cases_needed(size=-0.3, margin=margin, **about)["estimate"].iloc[0]
        for margin in (0.0, 0.1)
    )
    # the distance to the margin is 0.2 instead of 0.3
    assert 1.7 < beyond / plain < 2.6
    within = planning.power_curve(sizes=[0.0, 0.05], n_cases=300, margin=0.1, **about)["estimate"]
    assert within[0] > 0.8 > within[1] > 0.1
    same = planning.cases_needed(size=0.1, margin=0.1, **about)
    assert same["note"].eq("the size is that of the margin").all()
    with pytest.raises(StudyError, match="margin: found 2"):
        planning.power_curve(margin=2, **ASSUMED)


@pytest.mark.parametrize(
    ("plan", "effect"),
    [("power_curve", "delta"), ("power_curve", "gap"), ("cases_needed", "delta")],
)
def test_a_group_that_cannot_be_planned_with_leaves_the_others(plan, effect):
    about = {"power_curve": {"sizes": 0.2}, "cases_needed": {"size": 0.2}}.get(plan, {})
    pilot = by_group({"none": 0, "some": None, "all": 1})
    found = getattr(planning, plan)(
        pilot, by=["group"], effect=effect, n_studies=50, n_skills=2, **about
    ).set_index("group")
    for group in ("none", "all"):
        rows = found.loc[[group]]
        assert rows["estimate"].isna().all()
        assert rows["note"].str.contains("no variance|cannot be simulated").all()
    assert found.loc[["some"], "method"].ne("").all()
    assert not found.loc[["some"], "note"].str.contains("no variance|cannot be simulated").any()


def test_a_group_that_lacks_a_component_leaves_the_others_and_alone_is_refused():
    pilot = by_group({"whole": None, "near only": None})
    pilot.loc[pilot["group"].eq("near only"), "transfer"] = pd.NA
    about = dict(by=["group"], sizes=[0.2], effect="gap")
    found = planning.power_curve(pilot, **about).set_index("group")
    assert np.isnan(found.loc["near only", "estimate"])
    assert "the pilot leaves unknown what is needed: omega2_gap" in found.loc["near only", "note"]
    assert found.loc["whole", "estimate"] > 0
    with pytest.raises(StudyError, match=r"the pilot \(near only, skill\) leaves unknown"):
        planning.power_curve(pilot[pilot["group"].eq("near only")], **about)


def test_a_pooled_gap_takes_the_spread_between_skills_for_noise():
    found = {
        scope: one(
            planning.power_curve(
                sizes=-0.3, effect="gap", scope=scope, delta=0.2, tau2=0.1, **ASSUMED
            )
        )
        for scope in ("within_dimensions", "pooled")
    }
    assert found["pooled"]["estimate"] < found["within_dimensions"]["estimate"] - 0.1
    assert [one["scope"] for one in found.values()] == list(found)
    with pytest.raises(StudyError, match="needed: tau2"):
        planning.power_curve(effect="gap", scope="pooled", delta=0.2, **ASSUMED)


def test_assumptions_are_keywords_and_an_unknown_one_is_named():
    shared = {"omega2": 0.2, "sigma2": 0.15, "n_studies": 200}
    wide = planning.power_curve(sizes=0.2, **shared)
    calmer = planning.power_curve(sizes=0.2, **shared | {"omega2": 0.05})
    assert one(calmer)["estimate"] > one(wide)["estimate"]
    with pytest.raises(TypeError, match=r"unknown keyword 'omega'.*Did you mean 'omega2'"):
        planning.power_curve(omega=0.2)
    with pytest.raises(StudyError, match="effect: found 'deltas'"):
        planning.power_curve(effect="deltas")


def test_a_gap_is_planned_where_few_cases_are_far() -> None:
    about = {"omega2": 0.02, "sigma2": 0.05, "delta": 0.1, "effect": "gap", "n_studies": 200}
    found = planning.cases_needed(size=0.3, far_share=0.1, **about).iloc[0]
    assert 5 < found["estimate"] < 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0.0}, "width: found 0.0"),
        ({"width": "0.1"}, "width: found '0.1'; allowed"),
        ({"n_cases": 5}, "n_cases: found 5; allowed: a whole number of at least 10"),
        ({"ci_level": 95}, "ci_level: found 95; allowed: strictly between 0 and 1"),
        ({"value": "pased"}, r"value: found 'pased'.*Did you mean 'passed'"),
    ],
)
def test_impossible_gold_plans_are_refused(arguments, message):
    with pytest.raises(StudyError, match=message):
        planning.gold_needed(*pilot_of(0.1, n_cases=12), **arguments)


@pytest.mark.slow
def test_components_are_unbiased_and_their_limits_cover():
    """Simulate normal pilots with tau2 = 0.15^2, omega2 = 0.2^2 and sigma2 = 0.3^2 / 4."""
    rng, n_runs = np.random.default_rng(1), 300
    skill, far = np.repeat(np.arange(6), 10), np.tile([0.0, 1.0], 30)
    codes = {"omega2": skill, "omega2_gap": 2 * skill + far.astype(int)}
    intervals = []
    for _ in range(n_runs):
        true = 0.15 * rng.standard_normal(6)[skill] + 0.2 * rng.standard_normal(60)
        # clipped for the interval of sigma2; the means below may leave [0, 1]
        sides = np.clip(0.15 * rng.standard_normal((2, 2, 60)) + 0.5, 0, 1)
        mean, spread = sides.mean(axis=1), sides.var(axis=1, ddof=1)
        pairs = pd.DataFrame({"skill": skill, "far": far, "n1": 2, "n0": 2})
        pairs["delta"] = mean[1] + true - mean[0]
        names = ("sigma2_skill", "sigma2_baseline")
        sigma = {n: sigma2_interval(v, 0.95) for n, v in zip(names, spread, strict=True)}
        noise = noise_of_repeats(pairs, sigma)
        row = [
            omega2_interval(spread_of_cases(pairs.delta, c), noise, 0.95) for c in codes.values()
        ]
        intervals.append([tau2_interval(pairs, 0.95), *row])
    truth = np.array([0.15**2, 0.2**2, 0.2**2])
    numbers = np.array([[(i.estimate, i.low, i.high) for i in row] for row in intervals])
    estimate, low, high = np.moveaxis(numbers, 2, 0)
    error = estimate.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(estimate.mean(axis=0) - truth) < 4 * error + 0.002).all()
    # Monte Carlo standard error of 95 % over 300 runs: 1.3 points
    assert (((low <= truth) & (truth <= high)).mean(axis=0) > 0.91).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"omega2": None}, "stated assumptions leaves unknown what is needed: omega2"),
        ({"cluster": "skill"}, "needed: tau2"),
        ({"cluster": "skills"}, "cluster: found 'skills'.*Did you mean 'skill'"),
        ({"effect": "interaction"}, "effect: found 'interaction'; allowed: delta, gap"),
        ({"omega2": "much"}, "omega2, a variance: found 'much'"),
        ({"power": 0.01}, "power: found 0.01; allowed: above 0.05"),
        ({"far_share": 1.0}, "far_share: found 1.0"),
        ({"ci_level": 95}, "ci_level: found 95; allowed: strictly between 0 and 1"),
        ({"baseline_rate": 1.2}, r"baseline_rate: found 1\.2; allowed: from 0 to 1"),
        ({"n_repeats": 0}, "n_repeats: found 0; allowed: a whole number of at least 1"),
        ({"n_skills": []}, "n_skills: found nothing"),
        ({"seed": -1}, "seed: found -1"),
    ],
)
def test_impossible_plans_are_refused(arguments, message):
    with pytest.raises(StudyError, match=message):
        planning.cases_needed(**(ASSUMED | arguments))


def test_agents_that_repeat_themselves_need_no_more_cases_than_one_attempt_shows():
    # a fifth of the cases gains, both repeats are the same: 33 cases reach a power of .80
    about = dict(size=0.2, n_skills=1, n_repeats=2, omega2=0.16, n_studies=2000)
    same = planning.cases_needed(sigma2=0.0, **about)["estimate"].iloc[0]
    assert 31 <= same <= 34
    mixed = planning.cases_needed(sigma2=0.005, **about)["estimate"].iloc[0]
    assert same < mixed < 41


SIXTY = {"n_skills": 1, "n_cases": 60, "n_repeats": 3, "margin": 0.1}
QUIET = {"omega2": 0.03, "sigma2": 0.08, "baseline_rate": 0.8}


def test_as_good_is_planned_as_compare_tests_it() -> None:
    both, lower = (
        planning.power_curve(sizes=[-0.1, 0.0, 0.05], **SIXTY, **QUIET, claim=claim)["estimate"]
        for claim in ("change", "as_good")
    )
    # sixty cases: no change within the margin is rarely shown, and twice as often no loss beyond it
    assert both[1] == pytest.approx(0.32, abs=0.03)
    assert lower[1] == pytest.approx(0.66, abs=0.03)
    # a loss of the margin itself is called as good in at most 2.5 % of studies
    assert lower[0] < 0.035 and lower[2] > 0.9
    how = {"n_skills": 1, "n_repeats": 3, "margin": 0.1, "claim": "as_good", **QUIET}
    n = int(planning.cases_needed(size=0.0, **how)["estimate"].iloc[0])
    at = planning.power_curve(sizes=0.0, n_cases=n, **how)
    assert n > 60 and at["estimate"].iloc[0] == pytest.approx(0.8, abs=0.02)


def test_sixty_cases_with_a_small_loss_show_as_good_more_often_than_no_change() -> None:
    both, lower = (
        planning.power_curve(sizes=-0.015, **SIXTY, **QUIET, claim=claim)["estimate"].item()
        for claim in ("change", "as_good")
    )
    # equal versions cannot have these two: their lower limit alone is shown in half of 1 + .32
    assert both == pytest.approx(0.32, abs=0.03) and lower == pytest.approx(0.52, abs=0.03)


def test_compare_says_as_good_as_often_as_planned() -> None:
    rng = np.random.default_rng(0)
    n_studies, n_cases, n_repeats = 200, 60, 3
    chance = rng.beta(2.4, 0.6, (n_studies, n_cases))  # equal versions that pass 80 %
    sides = []
    for condition in ("previous", "skill"):
        passed = rng.random((n_studies, n_cases, n_repeats)) < chance[..., None]
        study, case, repeat = (each.ravel() for each in np.indices(passed.shape))
        columns = {"skill": study, "case_id": case, "repeat": repeat + 1, "passed": passed.ravel()}
        sides.append(pd.DataFrame(columns).assign(condition=condition))
    rows = pd.concat(sides, ignore_index=True).astype({"skill": str})
    rows["case_id"] = rows["skill"] + "/" + rows["case_id"].astype(str)
    rows = rows.assign(attempt_id=rows.index.astype(str), grader="g")
    # each study is a skill of its own: "as good" rests on the interval of its row alone
    judged = compare(rows, rows.drop(columns=["passed", "grader"]))
    share = judged["verdict"].isin(["as good", "better"]).mean()
    spread = {"omega2": 0.0, "sigma2": float((chance * (1 - chance)).mean()), "baseline_rate": 0.8}
    planned = planning.power_curve(sizes=0.0, **SIXTY, **spread, claim="as_good")["estimate"]
    assert share == pytest.approx(planned.item(), abs=0.08)


def test_as_good_needs_a_margin_and_a_size_above_its_loss() -> None:
    with pytest.raises(StudyError, match=r"claim='as_good' is about a delta and needs margin="):
        planning.power_curve(**QUIET, claim="as_good")
    lost = planning.cases_needed(size=-0.1, margin=0.1, **QUIET, claim="as_good").iloc[0]
    assert np.isnan(lost["estimate"]) and "a loss of the margin is not as good" in lost["note"]
