import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.stats.cusum import (
    bernoulli_cusum,
    cusum_limit,
    cusum_run_length,
    cusum_steps,
    false_alarm_probability,
)


def test_very_long_runs_stay_exact():
    # Steps +1 / -1 and limit n: a gambler who cannot fall below 0 needs, with r = q / p,
    # E = n / (p - q) + (q / (p - q)**2) * (r**n - 1), which is 1e17 here.
    p, n = 0.0625, 16
    q = 1 - p
    exact = n / (p - q) + q / (p - q) ** 2 * ((q / p) ** n - 1)
    assert cusum_run_length(p, up=1, down=1, limit=n) == pytest.approx(exact, rel=1e-10)


def test_two_errors_in_a_row_worked_by_hand():
    # Steps +2 / -1, alarm at 3: states 0, 1, 2 with a0 = 1 + q a0 + p a2, a1 = 1 + q a0,
    # a2 = 1 + q a1. At p = 1/2: a1 = 1 + a0/2, a2 = 1.5 + a0/4, a0 = 1 + a0/2 + .75 + a0/8,
    # so 3/8 a0 = 1.75 and a0 = 14/3.
    assert cusum_run_length(0.5, up=2, down=1, limit=3) == pytest.approx(14 / 3)


def dense_run_length(p, up, down, limit):
    chain = np.zeros((limit, limit))
    for state in range(limit):
        chain[state, max(0, state - down)] += 1 - p
        if state + up < limit:
            chain[state, state + up] += p
    return np.linalg.solve(np.eye(limit) - chain, np.ones(limit))[0], chain


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 0.9), st.integers(1, 12), st.integers(1, 12), st.integers(1, 25))
def test_banded_solution_agrees_with_the_dense_chain(p, up, down, limit):
    expected, chain = dense_run_length(p, up, down, limit)
    found = cusum_run_length(p, up=up, down=down, limit=limit)
    assert found > 0
    if 0 < expected < 1e7:  # beyond that the dense solution itself is lost to rounding
        assert found == pytest.approx(expected, rel=1e-6)
    within = np.linalg.matrix_power(chain, 9)[0].sum()
    assert false_alarm_probability(9, p, up=up, down=down, limit=limit) == pytest.approx(1 - within)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 0.4), st.floats(1.3, 4), st.floats(30, 3000))
def test_the_limit_is_the_smallest_that_waits_long_enough(p0, ratio, arl):
    up, down = cusum_steps(p0, min(p0 * ratio, 0.95))
    limit = cusum_limit(p0, up=up, down=down, arl=arl)
    assert cusum_run_length(p0, up=up, down=down, limit=limit) >= arl
    if limit > 1:
        assert cusum_run_length(p0, up=up, down=down, limit=limit - 1) < arl


@settings(max_examples=25, deadline=None)
@given(st.floats(0.005, 0.5), st.floats(1.2, 5))
def test_steps_keep_the_ratio_of_the_likelihoods(p0, ratio):
    p1 = min(p0 * ratio, 0.97)
    up, down = cusum_steps(p0, p1)
    correct = math.log((1 - p0) / (1 - p1))
    assert down / (up + down) == pytest.approx(correct / (math.log(p1 / p0) + correct), rel=0.021)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, math.nan]), min_size=1, max_size=80))
def test_path_is_that_of_the_recursion(errors):
    chart = bernoulli_cusum(errors, p0=0.05, p1=0.15, limit=20)
    level, alarm = 0.0, None
    for position, error in enumerate(errors):
        if not math.isnan(error):
            level = max(0.0, level + (10 if error else -1))
        assert chart.path[position] == level
        if alarm is None and level >= 20:
            alarm = position
    assert chart.alarm == alarm
    if alarm is not None:
        assert errors[chart.change] == 1 or math.isnan(errors[chart.change])
        assert chart.change <= chart.alarm


def test_a_failed_grader_is_no_error_and_no_success():
    with_gap = bernoulli_cusum([1, math.nan, 1], p0=0.05, p1=0.15, limit=20)
    assert with_gap.path == (10.0, 10.0, 20.0) and with_gap.n == 2
    assert with_gap.note == "1 checks without a result skipped"


def test_chart_states_its_own_properties():
    limit = cusum_limit(0.05, up=10, down=1, arl=500)
    chart = bernoulli_cusum([0] * 50, p0=0.05, p1=0.15, limit=limit)
    assert (chart.limit, chart.alarm, chart.change) == (28, None, None)
    assert chart.arl_p0 == pytest.approx(519.9010598, abs=1e-5)
    assert chart.arl_p1 == pytest.approx(35.5453862, abs=1e-5)
    assert chart.p_false_alarm == false_alarm_probability(50, 0.05, up=10, down=1, limit=28)
    assert "p0=0.05, p1=0.15, steps +10/-1, limit 28" in chart.method


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cusum_steps(0.1, 0.05), r"p1 must be above p0, found p0=0.1 and p1=0.05"),
        (lambda: cusum_steps(0, 0.05), "p0 must lie strictly between 0 and 1, found 0"),
        (lambda: bernoulli_cusum([0, 3], p0=0.1, p1=0.2, limit=9), "errors must be 0 or 1"),
        (lambda: cusum_limit(0.1, up=3, down=1, arl=0.5), "arl must be a number of checks above 1"),
        (lambda: cusum_run_length(0.1, up=3, down=0, limit=5), "must be at least 1"),
    ],
)
def test_errors_say_what_was_found_and_what_is_allowed(call, words):
    with pytest.raises(ValueError, match=words):
        call()
