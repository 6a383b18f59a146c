import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.intervals import mcnemar_exact, mcnemar_midp
from skillcomp.stats.power import (
    PairedComponents,
    clustered_cases,
    clustered_df,
    clustered_mde,
    connor,
    design_effect,
    draw_paired_studies,
    mcnemar_cases,
    mcnemar_power,
    miller_cases,
    miller_mde,
    paired_components,
    paired_variance,
    simulate_power,
    t_mde,
    t_power,
)
from skillcomp.stats.switching import paired_delta

REFERENCE = Path(__file__).parent / "reference" / "stats_reference.json"


def entry(name):
    entries = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return next(e for e in entries if e["name"] == name)


@pytest.mark.parametrize("name", ["power_mcnemar_0.25_0.1_100", "power_mcnemar_0.3_0.05_30"])
@pytest.mark.parametrize("test", ["exact", "midp"])
def test_power_equals_r_exact2x2(name, test):
    found = entry(name)
    given_ = found["inputs"]
    power = mcnemar_power(given_["pairs"], given_["p_improve"], given_["p_regress"], test=test)
    assert power == pytest.approx(found["expected"][test], abs=found["expected"]["tol"])


@pytest.mark.parametrize("name", ["sample_size_connor_0.3_0.05", "sample_size_connor_0.25_0.1"])
def test_connor_equals_the_reference(name):
    found = entry(name)
    p10, p01 = found["inputs"]["p10"], found["inputs"]["p01"]
    assert connor(p10, p01) == pytest.approx(found["expected"]["n80"], abs=1e-6)
    assert connor(p10, p01, power=0.9) == pytest.approx(found["expected"]["n90"], abs=1e-6)


def test_miller_needs_969_questions_and_sees_13_points():
    found = entry("miller_n")["expected"]
    needed = miller_cases(0.03, omega2=1 / 9)
    assert needed == pytest.approx(found["n"], abs=found["tol"])
    assert math.ceil(needed) == found["n_ceiling"]
    seen = entry("miller_mde")["expected"]
    parts = {"omega2": 1 / 9, "sigma2_skill": 1 / 6, "sigma2_baseline": 1 / 6}
    assert miller_mde(198, **parts) == pytest.approx(seen["K1"], abs=seen["tol"])
    ten = miller_mde(198, **parts, attempts_skill=10, attempts_baseline=10)
    assert ten == pytest.approx(seen["K10"], abs=seen["tol"])


@settings(max_examples=30, deadline=None)
@given(st.floats(0.02, 0.5), st.floats(0.01, 0.2), st.floats(0.01, 0.2), st.integers(1, 8))
def test_miller_cases_and_difference_invert_each_other(delta, omega2, sigma2, attempts):
    parts = {"omega2": omega2, "sigma2_skill": sigma2, "sigma2_baseline": sigma2}
    tries = {"attempts_skill": attempts, "attempts_baseline": attempts}
    n = miller_cases(delta, **parts, **tries)
    assert miller_mde(n, **parts, **tries) == pytest.approx(delta)


def test_power_worked_by_hand_for_six_cases_that_can_only_improve():
    # Exact McNemar with 6 improved of 6 has p = 2 / 64 = .031; 5 of 5 has .0625. So at n = 6
    # only m = 6 rejects: .9^6. Mid-p of 5 of 5 is .031, too: m = 5 or 6.
    assert mcnemar_power(6, 0.9, 0.0, test="exact") == pytest.approx(0.9**6)
    assert mcnemar_power(6, 0.9, 0.0) == pytest.approx(0.9**6 + 6 * 0.9**5 * 0.1)


@pytest.mark.parametrize(("test", "p_value"), [("exact", mcnemar_exact), ("midp", mcnemar_midp)])
def test_power_agrees_with_summing_the_p_values_of_all_tables(test, p_value):
    n, up, down = 14, 0.4, 0.1
    total = sum(
        multinomial.pmf([b, c, n - b - c], n, [up, down, 1 - up - down])
        for b in range(n + 1)
        for c in range(min(b, n - b + 1))
        if b + c <= n and p_value(b, c).p_value <= 0.05
    )
    assert mcnemar_power(n, up, down, test=test) == pytest.approx(total)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 200), st.floats(0, 0.5), st.floats(0.01, 0.5))
def test_power_is_symmetric_and_mid_p_is_never_weaker(n, up, down):
    exact, midp = (mcnemar_power(n, up, down, test=t) for t in ("exact", "midp"))
    assert 0 <= exact <= midp <= 1
    assert mcnemar_power(n, down, up) == pytest.approx(midp)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 0.6), st.floats(0, 0.2), st.sampled_from(["exact", "midp"]))
def test_cases_needed_are_enough_and_one_fewer_is_not(up, down, test):
    if up - down < 0.1 or up + down > 1:
        return
    n = mcnemar_cases(up, down, test=test)
    assert mcnemar_power(n, up, down, test=test) >= 0.8
    assert n == 1 or mcnemar_power(n - 1, up, down, test=test) < 0.8
    assert n == pytest.approx(connor(up, down), rel=0.35, abs=8)


def test_even_error_rate_of_the_mid_p_test_stays_near_its_level():
    for n in (20, 50, 100):
        both_tails = 2 * mcnemar_power(n, 0.15, 0.15)
        assert 0.02 < both_tails < 0.055
        assert 2 * mcnemar_power(n, 0.15, 0.15, test="exact") < 0.05


def test_variance_of_a_clustered_design_worked_by_hand():
    # two skills of 2 and 4 cases: tau2 * (4 + 16) / 36 + (.06 + .2 / 2 + .1 / 4) / 6
    parts = PairedComponents(tau2=0.09, omega2=0.06, sigma2_skill=0.2, sigma2_baseline=0.1)
    found = paired_variance([2, 4], parts, attempts_skill=2, attempts_baseline=4)
    assert found == pytest.approx(0.05 + 0.185 / 6)
    # as a design effect: rho = tau2 / (tau2 + within), deff = 1 + (20 / 6 - 1) rho
    rho = 0.09 / (0.09 + 0.185)
    assert found == pytest.approx((0.09 + 0.185) / 6 * design_effect([2, 4], rho))


def test_cases_do_not_replace_skills():
    parts = PairedComponents(tau2=0.04, omega2=0.05, sigma2_skill=0.1, sigma2_baseline=0.1)
    with_many = clustered_mde([100_000] * 6, parts)
    assert with_many == pytest.approx(t_mde(0.04 / 6, 5), rel=1e-3)
    assert clustered_cases(0.15, 6, parts) == math.inf
    assert clustered_cases(0.15, 40, parts) < 20


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.05, 0.6),
    st.integers(2, 40),
    st.floats(0, 0.02),
    st.floats(0.01, 0.2),
    st.integers(1, 5),
)
def test_cases_per_skill_are_the_fewest_that_show_the_difference(delta, g, tau2, omega2, k):
    parts = PairedComponents(tau2, omega2, 0.15, 0.1)
    tries = {"attempts_skill": k, "attempts_baseline": k}
    n = clustered_cases(delta, g, parts, **tries)
    if n < 1000:
        assert clustered_mde([int(n)] * g, parts, **tries) <= delta + 1e-9
        if n > 1:
            assert clustered_mde([int(n) - 1] * g, parts, **tries) > delta - 1e-9


def test_degrees_of_freedom_are_those_of_the_cr2_mean():
    sizes = [30, 4, 4, 7]
    rng = np.random.default_rng(1)
    found = cr2_mean(rng.normal(size=45), np.repeat(np.arange(4), sizes))
    assert clustered_df(sizes) == pytest.approx(found.df)
    assert clustered_df([1] * 12) == pytest.approx(11)


def test_power_at_the_minimum_detectable_difference_is_the_wanted_power():
    for df in (5, 12, math.inf):
        mde = t_mde(0.003, df)
        assert t_power(mde, 0.003, df) == pytest.approx(0.8, abs=0.015)
        assert t_power(-mde, 0.003, df) == t_power(mde, 0.003, df)


def test_components_worked_by_hand():
    # case differences u: 1, 0; v: .5, .5. Means .5, .5: between 0, within (.25 + .25) / 2 = .25.
    # p (1 - p) of two attempts: 1 pass of 2 gives .5 (unbiased), 0 or 2 give 0.
    # skill 2 1 2 2 -> (0 + .5 + 0 + 0) / 4; baseline 0 1 1 1 -> .375. omega2 = .25 - .25 = 0.
    found = paired_components([2, 1, 2, 2], 2, [0, 1, 1, 1], 2, ["u", "u", "v", "v"])
    assert found.sigma2_skill == 0.125 and found.sigma2_baseline == 0.375
    # tau2 = (0 - .25) / 2 is negative
    assert found.tau2 == 0 and found.omega2 == 0
    assert "tau2 came out negative" in found.note


def test_components_recover_what_was_planted():
    rng = np.random.default_rng(5)
    skill, case = np.repeat(np.arange(300), 6), np.arange(1800)
    assert case.size == skill.size
    p0 = rng.uniform(0.2, 0.5, 1800)
    true_delta = 0.15 + rng.choice([-0.1, 0.1], 300)[skill] + rng.choice([-0.1, 0.1], 1800)
    x1, x0 = rng.binomial(3, p0 + true_delta), rng.binomial(3, p0)
    found = paired_components(x1, 3, x0, 3, skill)
    assert found.tau2 == pytest.approx(0.01, abs=0.004)
    assert found.omega2 == pytest.approx(0.01, abs=0.008)
    assert found.sigma2_baseline == pytest.approx((p0 * (1 - p0)).mean(), abs=0.01)


def test_one_attempt_a_case_cannot_tell_attempts_from_cases():
    found = paired_components([1, 0, 1, 1], 1, [0, 0, 1, 0], 1)
    assert (
        math.isnan(found.sigma2_skill) and "omega2 holds the variance of its attempts" in found.note
    )
    assert found.omega2 == pytest.approx(np.var([1, 0, 0, 1], ddof=1))
    assert paired_variance([1] * 4, found) == pytest.approx(found.omega2 / 4)
    with pytest.raises(ValueError, match="attempts_skill=3 cannot be planned"):
        paired_variance([1] * 4, found, attempts_skill=3)


def test_drawn_studies_have_the_stated_rates_and_repeat_with_the_seed():
    design = {"baseline": 0.3, "delta": 0.25, "attempts_skill": 3, "sd_skill": 0.7}
    studies = draw_paired_studies([4, 8], **design, n_studies=4000, seed=1)
    assert studies.baseline.mean() == pytest.approx(0.3, abs=0.012)
    assert studies.skill.mean() / 3 == pytest.approx(0.55, abs=0.012)
    again = draw_paired_studies([4, 8], **design, n_studies=4000, seed=1)
    assert (studies.skill == again.skill).all() and studies.delta == 0.25


def test_simulation_uses_the_interval_of_the_project():
    design = {"baseline": 0.4, "delta": 0.3, "attempts_skill": 2, "attempts_baseline": 2}
    found = simulate_power([5] * 6, **design, n_studies=60, seed=3)
    studies = draw_paired_studies([5] * 6, **design, n_studies=60, seed=np.random.default_rng(3))
    one_by_one = [
        paired_delta(x1, 2, x0, 2, studies.clusters)
        for x1, x0 in zip(studies.skill, studies.baseline, strict=True)
    ]
    assert found.estimate == pytest.approx(np.mean([ci.low > 0 for ci in one_by_one]))
    assert found.coverage == pytest.approx(np.mean([ci.low <= 0.3 <= ci.high for ci in one_by_one]))
    assert "the project's paired_delta at 0.95, claim: skills" in found.method


def test_an_interval_of_ones_own_can_be_tried():
    def wald(x1, n1, x0, n0, clusters):
        d = x1 / n1 - x0 / n0
        half = 1.96 * d.std(axis=1, ddof=1) / math.sqrt(d.shape[1])
        return d.mean(axis=1) - half, d.mean(axis=1) + half

    design = {"baseline": 0.45, "delta": 0.0, "sd_skill_effect": 1.0, "n_studies": 400}
    naive = simulate_power([8] * 6, **design, interval=wald)
    own = simulate_power([8] * 6, **design)
    assert own.coverage >= 0.93 > 0.9 > naive.coverage
    assert own.estimate + own.wrong_direction <= 0.07


def test_simulated_power_agrees_with_the_exact_power_of_mcnemar():
    # Without variation between cases P(only skill) = .6 * .6, P(only baseline) = .4 * .4.
    found = simulate_power(
        [1] * 60,
        baseline=0.4,
        delta=0.2,
        sd_case=1e-9,
        sd_effect=1e-9,
        n_studies=3000,
        claim="cases",
    )
    exact = mcnemar_power(60, 0.36, 0.16)
    assert found.estimate == pytest.approx(exact, abs=0.06)
    assert found.low <= found.estimate <= found.high


def test_formula_and_simulation_agree_away_from_the_ceiling():
    # 12 skills of 6 cases; attempts and skills vary, effects small enough to stay linear.
    design = {"attempts_skill": 3, "attempts_baseline": 3}
    studies = draw_paired_studies(
        [6] * 400, baseline=0.4, delta=0.12, sd_skill_effect=0.3, n_studies=1, seed=2, **design
    )
    parts = paired_components(studies.skill[0], 3, studies.baseline[0], 3, studies.clusters)
    variance = paired_variance([6] * 12, parts, **design)
    formula = t_power(0.12, variance, clustered_df([6] * 12))
    found = simulate_power(
        [6] * 12, baseline=0.4, delta=0.12, sd_skill_effect=0.3, n_studies=2000, **design
    )
    assert found.estimate == pytest.approx(formula, abs=0.08)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mcnemar_power(10, 0.7, 0.5), "their sum must lie in 0..1 "),
        (lambda: mcnemar_power(10, 0.3, 0.1, test="mid"), "test must be 'midp' or 'exact'"),
        (lambda: mcnemar_power(0, 0.3, 0.1), "n must be at least 1"),
        (lambda: connor(0.2, 0.2), "must differ, found 0.2 for both"),
        (lambda: connor(0.3, 0.2, power=0.01), "power must be above alpha"),
        (lambda: miller_cases(0, omega2=1), "delta must not be 0"),
        (lambda: miller_cases(0.1, omega2=-1), "variances must not be negative"),
        (lambda: miller_mde(0, omega2=1), "n must be above 0"),
        (lambda: t_power(0.1, 0, 5), "variance must be above 0"),
        (lambda: clustered_cases(0, 5, PairedComponents(0, 1, 1, 1)), "delta not 0"),
        (lambda: paired_variance([], PairedComponents(0, 1, 1, 1)), "at least one case"),
        (
            lambda: draw_paired_studies([3], baseline=0.8, delta=0.3),
            r"baseline \+ delta must lie strictly between 0 and 1, found 1.1",
        ),
        (
            lambda: simulate_power([3], baseline=0.5, delta=0.3, claim="skill"),
            "claim must be 'skills' or 'cases', found 'skill'",
        ),
    ],
)
def test_errors_say_what_was_found_and_what_is_allowed(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_binomial_quantile_gives_the_critical_value_of_the_exact_test():
    # R: qbinom(.975, 20, .5) = 14, so 15 of 20 is the first with p = .0414 <= .05
    assert binom.isf(0.025, 20, 0.5) == 14 and mcnemar_exact(15, 5).p_value < 0.05
