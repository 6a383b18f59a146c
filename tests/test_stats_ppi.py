"""Prediction-powered estimates: by hand, by ppi-python, by their limits, by simulated studies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta

from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.clusters_and_amounts import cr2_mean
from skillcomp.stats.ppi import ppi_limits, ppi_mean
from skillcomp.stats.results import within_range

ppi_paired = partial(ppi_mean, quantity=DELTAS)

NAN = float("nan")
# Sensitivity and specificity of the grader in the baseline and in the skill condition.
LENIENT = ((0.90, 0.85), (0.96, 0.70))


def test_gold_on_a_subset_by_hand():
    # lambda 1/2: 1/2 * mean(1, 0, 1, 1) + mean(1 - 1/2, 0 - 1/2, 1 - 0, 0 - 0) = 0.375 + 0.25.
    gold, grader = [1, 0, 1, 0, NAN, NAN, NAN, NAN], [1, 1, 0, 0, 1, 0, 1, 1]
    found = ppi_mean(gold, grader, lam=0.5)
    assert found.estimate == pytest.approx(0.625)
    # Variances: 1/4 * 0.25 / 4 and (0.0625 + 0.5625 + 0.5625 + 0.0625) / 3 / 4, and for two
    # imagined errors 1 / (5 * 6), of which lambda squared counts.
    assert found.se**2 == pytest.approx(0.0625 / 4 + 1.25 / 12 + 0.25 / 30)
    assert found.df == 3 and "lambda=0.5000" in found.method
    assert "grader errs in one direction" in found.note


def test_gold_on_one_repeat_of_every_case_by_hand():
    # Per case: lambda times the grader's mean plus gold minus lambda times what it said there.
    gold, mean, seen = [1, 0, 1, 0, 1], [0.5, 0.5, 1, 0, 0], [1, 1, 1, 0, -1]
    found = ppi_paired(gold, mean, predicted_on_gold=seen, lam=0.8)
    values = 0.8 * np.array(mean) + gold - 0.8 * np.array(seen)
    assert found.estimate == pytest.approx(values.mean())
    assert found.se**2 == pytest.approx(values.var(ddof=1) / 5 + 1 / 42)
    assert "gold on every case" in found.method and found.n == 5


def test_limits_by_hand():
    # 20 cases with gold, all 1, a grader of no weight: the pseudo-case at 0 has the weight c among
    # 20 + c, so the mean is 20 / (20 + c) and the variance that of a beta(20, c) distribution
    low, high = ppi_limits(1.0, 1.0, 0.0, 0.0, 20, 19, quantity=RATES)
    assert low == pytest.approx(beta.ppf(0.025, 20, RATES.c), rel=1e-9) and high == 1.0
    assert low == pytest.approx(bounded_mean([1.0] * 20).low, rel=1e-6)


cases = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=4, max_size=40)


@given(cases, st.data())
@settings(max_examples=25, deadline=None)
def test_a_grader_equal_to_gold_gives_the_mean_of_all_cases(values, data):
    values = np.array(values)
    labelled = data.draw(st.integers(2, values.size - 1))
    gold = np.where(np.arange(values.size) < labelled, values, NAN)
    if np.ptp(values[:labelled]) == 0:
        return  # nothing tells how the grader goes with gold: gold alone is used
    assert ppi_paired(gold, values).estimate == pytest.approx(values.mean())
    rates = (values + 1) / 2
    assert ppi_mean((gold + 1) / 2, rates).estimate == pytest.approx(rates.mean())


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=2, max_size=30))
@settings(max_examples=25, deadline=None)
def test_so_it_does_with_gold_on_one_repeat_of_every_case(repeats):
    y = np.array(repeats, float)
    if np.all(y[:, 0] == y.mean(axis=1)):
        return  # no case varies over its repeats: any lambda gives the mean of gold
    found = ppi_mean(y[:, 0], y.mean(axis=1), predicted_on_gold=y[:, 0])
    assert found.estimate == pytest.approx(y.mean())


@given(cases, st.data())
@settings(max_examples=25, deadline=None)
def test_swapping_the_conditions_mirrors_the_interval(gold, data):
    gold = np.array(gold)
    grader = np.array(
        data.draw(
            st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=gold.size, max_size=gold.size)
        )
    )
    gold[data.draw(st.integers(1, gold.size)) :] = NAN
    found, mirrored = ppi_paired(gold, grader), ppi_paired(-gold, -grader)
    assert [mirrored.estimate, mirrored.low, mirrored.high] == pytest.approx(
        [-found.estimate, -found.high, -found.low]
    )


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0, NAN]), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_no_interval_collapses_or_leaves_its_range(pairs, skills, clustered):
    gold, grader = np.array(pairs).T
    clusters = np.arange(gold.size) % skills if clustered else None
    for method, bottom in ((ppi_mean, 0.0), (ppi_paired, -1.0)):
        found = method(gold, grader, clusters=clusters)
        if np.isnan(gold).all():
            assert np.isnan(found.estimate) and found.note == "no case with gold"
            continue
        assert bottom <= found.low <= found.estimate <= found.high <= 1.0
        assert found.high - found.low > 1e-3


def test_an_estimate_outside_its_range_keeps_an_interval():
    found = ppi_mean([0.0, 0.5, NAN, NAN, NAN], [0.5, 1.0, 0.0, 0.0, 0.0])
    assert found.estimate == found.low == 0.0 and found.high > 0.5
    assert "lies outside 0 to 1" in found.note


def test_collapse_is_named_and_handed_over():
    # Grader and gold agree wherever they can be compared, and no case differs.
    found = ppi_paired([0.0] * 10 + [NAN] * 40, [0.0] * 50)
    assert found.estimate == 0.0 and found.high > 0.1
    assert "imagined error in each direction" in found.method
    assert "can collapse: two imagined errors added" in found.note
    single = ppi_mean([1.0, NAN, NAN], [1.0, 1.0, 0.0], clusters=["u", "u", "v"])
    assert single.high - single.low > 0.5


def test_an_imagined_error_is_a_whole_case_until_five_errors_show_its_size():
    gold = np.r_[np.tile([0.4, 0.6, 0.8], 4), np.full(20, NAN)]
    error = np.r_[[0.2] * 5, [-0.2] * 3, np.zeros(24)]
    grader = np.where(np.isnan(gold), 0.6, gold) + error
    sample = np.var(error[:12], ddof=1) / 12  # without imagined errors
    found = ppi_mean(gold, grader, lam=1.0).se ** 2
    # five errors of .2 one way, fewer than five the other way: a whole case
    assert found - sample == pytest.approx(0.5 * (0.2**2 + 1.0) / (13 * 14))


@pytest.mark.parametrize("paired", [True, False])
def test_coverage_where_whole_answers_fool_the_grader(paired):
    """Few gold cases seldom show an answer that is wrong throughout and passed throughout."""
    rng = np.random.default_rng(5)
    n, n_gold, fooled, inside = 84, 14, 0.05, 0
    for _ in range(200):
        met = rng.random((n, 5)) < 0.9
        said = met.copy()
        wrong = rng.random(n) < fooled
        met[wrong], said[wrong] = False, rng.random((wrong.sum(), 5)) < 0.9
        base = (rng.random((n, 5)) < 0.6).mean(axis=1) if paired else np.zeros(n)
        gold = np.where(np.arange(n) < n_gold, met.mean(axis=1) - base, NAN)
        found = (ppi_paired if paired else ppi_mean)(gold, said.mean(axis=1) - base)
        true = 0.9 * (1 - fooled) - (0.6 if paired else 0.0)
        inside += found.low <= true <= found.high
    assert inside / 200 >= 0.95


def test_single_case_clusters_change_nothing():
    rng = np.random.default_rng(4)
    gold = rng.choice([-1.0, 0.0, 1.0], 60)
    grader = np.where(rng.random(60) < 0.6, gold, rng.choice([-1.0, 0.0, 1.0], 60))
    known = np.where(np.arange(60) < 25, gold, NAN)
    plain, single = ppi_paired(known, grader), ppi_paired(known, grader, clusters=np.arange(60))
    assert [single.estimate, single.se, single.df] == pytest.approx(
        [plain.estimate, plain.se, plain.df]
    )
    every = ppi_paired(gold, grader, predicted_on_gold=grader[::-1], clusters=np.arange(60) % 12)
    values = gold + (lam := float(every.method.split("lambda=")[1][:6])) * (grader - grader[::-1])
    by_skill = cr2_mean(values, np.arange(60) % 12)
    assert 0 <= lam <= 1
    assert [every.estimate, every.se, every.df] == pytest.approx(
        [by_skill.estimate, by_skill.se, by_skill.df], rel=1e-3
    )


def test_a_case_whose_grader_failed_is_left_out_and_counted():
    found = ppi_mean([1, 0, 1, NAN, NAN], [1, 0, NAN, NAN, 1])
    assert "2 cases without a prediction left out, 1 of them with gold" in found.note
    assert found.n == 2


def test_an_interval_outside_its_range_keeps_its_length():
    assert within_range(0.5, -0.2, 0.7, (0.0, 1.0)) == (0.5, 0.0, 0.7, "")
    estimate, low, high, note = within_range(-0.5, -0.75, -0.25, (0.0, 1.0))
    assert (estimate, low, high) == (0.0, 0.0, 0.25)
    assert within_range(1.5, 1.25, 1.75, (0.0, 1.0))[:3] == (1.0, 0.75, 1.0)
    assert "is cut to it" in note


def study(rng, n, repeats, shift, skill=None, spread=0.0):
    """Verdicts and gold by condition, shape (2, n, repeats); skills differ in ease and effect."""
    ease, effect = rng.normal(0, 1.2, n), rng.normal(0, 0.5, n)
    if skill is not None:
        ease = ease + rng.normal(0, spread, skill.max() + 1)[skill]
        effect = effect + rng.normal(0, spread, skill.max() + 1)[skill]
    rate = expit(np.stack([shift[0] + ease, shift[1] + ease + effect]))
    gold = rng.random((2, n, repeats)) < rate[..., None]
    luck = rng.random((2, n, repeats))
    seen = [np.where(gold[a], luck[a] < LENIENT[a][0], luck[a] < 1 - LENIENT[a][1]) for a in (0, 1)]
    return gold.astype(float), np.stack(seen).astype(float)


def truth(shift, spread=0.0):
    z = np.random.default_rng(99).normal(size=(2, 200_000))
    ease, effect = z[0] * np.hypot(1.2, spread), z[1] * np.hypot(0.5, spread)
    with_skill = expit(shift[1] + ease + effect).mean()
    return with_skill - expit(shift[0] + ease).mean(), with_skill


@pytest.mark.parametrize(
    ("labels", "setting"),
    [
        (30, {"n": 200, "repeats": 1}),
        (None, {"n": 60, "repeats": 3}),  # gold on one repeat of every case
        (80, {"n": 200, "repeats": 1, "skill": np.arange(200) % 10, "spread": 0.7}),
    ],
)
def test_delta_and_rate_are_unbiased_and_covered(labels, setting):
    rng, shift, runs = np.random.default_rng(1), (0.2, 1.3), 100
    true = truth(shift, setting.get("spread", 0.0))
    errors, covered = np.zeros((runs, 2)), np.zeros((runs, 2))
    for run in range(runs):
        gold, seen = study(rng, shift=shift, **setting)
        drawn = rng.permutation(setting["n"]) < (labels or 0)
        for j, (y, f, method) in enumerate(
            [(gold[1] - gold[0], seen[1] - seen[0], ppi_paired), (gold[1], seen[1], ppi_mean)]
        ):
            known, on_gold = np.where(drawn, y.mean(axis=1), NAN), None
            if labels is None:
                known, on_gold = y[:, 0], f[:, 0]
            how = {"predicted_on_gold": on_gold, "clusters": setting.get("skill")}
            found = method(known, f.mean(axis=1), **how)
            errors[run, j] = found.estimate - true[j]
            covered[run, j] = found.low <= true[j] <= found.high
    assert np.all(np.abs(errors.mean(axis=0)) < 3.3 * errors.std(axis=0) / np.sqrt(runs))
    # 100 runs: two standard errors below 95 % are 0.906
    assert np.all(covered.mean(axis=0) >= 0.9)


def unequal_study(rng, ratio, n=100):
    """Gold and verdicts by condition; hard cases are labelled ``ratio`` times as often."""
    hard = np.arange(n) % 2 == 0
    high = 0.3 * 2 / (1 + 1 / ratio)
    chance = np.where(hard, high, high / ratio)
    gold, seen = study(rng, n, 1, (np.where(hard, -1, 1), np.where(hard, 0, 2)))
    drawn = rng.random(n) < chance
    return gold[..., 0], seen[..., 0], np.where(drawn, chance, NAN)


def test_gold_of_very_unequal_chances_is_covered():
    # counted as so many whole cases, gold drawn by what the grader said covered 86 to 88 % at 10
    rng, inside = np.random.default_rng(4), np.zeros(2)
    parts = [truth((a, b)) for a, b in ((-1, 0), (1, 2))]
    true = np.mean(parts, axis=0)
    for _ in range(100):
        gold, seen, chance = unequal_study(rng, 10)
        drawn = np.isfinite(chance)
        for i, (method, y, f) in enumerate(
            [(ppi_paired, gold[1] - gold[0], seen[1] - seen[0]), (ppi_mean, gold[1], seen[1])]
        ):
            found = method(np.where(drawn, y, NAN), f, inclusion_probability=chance)
            inside[i] += found.low <= true[i] <= found.high
    assert (inside / 100 >= 0.93).all()


def test_cases_of_unequal_weight_count_by_kishs_formula():
    gold = np.r_[np.tile([1.0, 0.0], 15), np.full(70, NAN)]
    grader = np.r_[np.tile([1.0, 0.0, 0.0, 1.0], 25)]
    weights = np.r_[np.full(29, 2.0), 42.0]
    chance = np.r_[1 / weights, np.full(70, NAN)]
    found = ppi_mean(gold, grader, inclusion_probability=chance)
    kish = 100.0**2 / (29 * 4 + 42**2)
    assert f"effective n {kish:.1f}" in found.method and found.df == pytest.approx(kish - 1)
    assert (
        "weight of a case with gold is 21 times the median: 30 cases with gold count for 5.3"
        in (found.note)
    )
    equal = ppi_mean(gold, grader, inclusion_probability=np.where(np.isnan(gold), NAN, 0.3))
    assert equal == ppi_mean(gold, grader)  # chances that are all the same change nothing
    assert found.high - found.low > 1.5 * (equal.high - equal.low)


def test_labels_that_stand_for_too_few_cases_are_named():
    gold = np.r_[np.tile([1.0, 0.0], 15), np.full(70, NAN)]
    grader = np.tile([1.0, 0.0, 0.0, 1.0], 25)
    sparse = ppi_mean(gold, grader, inclusion_probability=np.where(np.isnan(gold), NAN, 0.6))
    assert "stand for 50 of 100: cases of a small chance may have no gold" in sparse.note
    told = ppi_mean(gold, grader, inclusion_probability=np.where(np.isnan(gold), NAN, 0.3))
    assert "may have no gold" not in told.note


@pytest.mark.parametrize(
    ("method", "gold", "predicted", "options", "message"),
    [
        (ppi_mean, [1, -1, NAN], [1, 0, 1], {}, "gold must lie between 0 and 1, found -1 to 1"),
        (ppi_paired, [1, -1, NAN], [1, 0], {}, "one value for each of 3 cases"),
        (ppi_paired, [1, NAN], [1, 0], {"lam": 1.5}, "lam must lie between 0 and 1"),
        (ppi_mean, [1, NAN], [1, 0], {"clusters": [1]}, "clusters must name 2 cases"),
        (
            ppi_mean, [1, 0, NAN], [1, 0, 1], {"inclusion_probability": [0.5, 0.0, NAN]},
            "inclusion_probability must lie in",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused(method, gold, predicted, options, message):
    with pytest.raises(ValueError, match=message):
        method(gold, predicted, **options)
