import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from skillcomp.stats.sample_size import (
    connor,
    mcnemar_cases,
    mcnemar_power,
    miller_cases,
    miller_mde,
)
from skillcomp.stats.significance import mcnemar_exact, mcnemar_midp

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
    ],
)
def test_errors_say_what_was_found_and_what_is_allowed(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_binomial_quantile_gives_the_critical_value_of_the_exact_test():
    # R: qbinom(.975, 20, .5) = 14, so 15 of 20 is the first with p = .0414 <= .05
    assert binom.isf(0.025, 20, 0.5) == 14 and mcnemar_exact(15, 5).p_value < 0.05
