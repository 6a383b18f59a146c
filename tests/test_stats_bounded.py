import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.imhof import chance_below
from scipy.stats import beta, binomtest, ttest_1samp

from benchmarks.many_studies import adaptive_positions, bounded_mean_counts, bounded_mean_many
from skillcomp.errors import FrameError
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    SHARES,
    Arm,
    CaseCounts,
    Positions,
    Quantity,
    Sample,
    bounded_mean,
    bounded_means,
    sides_of_null,
)

MIXED = [1, 1, 0.5, 0.5, 0.5, 0, 0, 0, -0.5, 1, 1, 0, 0.5, 0.5]
thirds = st.integers(-3, 3).map(lambda k: k / 3)
cases = st.lists(thirds, min_size=1, max_size=20)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (10, 1), (14, 14), (100, 3), (30, 15)])
def test_yes_no_data_with_a_whole_pseudo_case_are_clopper_pearson(n: int, k: int) -> None:
    found = bounded_mean([1] * k + [0] * (n - k), quantity=Quantity(0, 1, 1.0))
    exact = binomtest(k, n).proportion_ci(method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize("c", [0.7, 1.0])
@pytest.mark.parametrize("values", [MIXED, [0.2], [0] * 14, [1] * 3 + [0] * 20])
def test_at_the_limits_imhofs_integral_gives_the_tails(values: list[float], c: float) -> None:
    found = bounded_mean(values, quantity=Quantity(-1, 1, c))
    assert chance_below(values, found.low, -1, c) == pytest.approx(0.025, abs=1e-8)
    assert chance_below(values, found.high, 1, c) == pytest.approx(0.975, abs=1e-8)


def test_equal_values_have_the_limits_of_a_beta_distribution() -> None:
    # the mean is low + (x - low) Beta(n, c): closed form for 1 to 300 cases, anywhere
    for n, x, c in itertools.product((1, 2, 5, 300), (0.05, 0.3, 0.999), (0.5, 0.7, 1.0)):
        found = bounded_mean([x] * n, quantity=Quantity(0, 1, c))
        assert found.low == pytest.approx(x * beta.ppf(0.025, n, c), abs=1e-9)
        assert found.high == pytest.approx(1 - (1 - x) * beta.ppf(0.025, n, c), abs=1e-9)


@pytest.mark.parametrize("null", [0.9, 0.5, 0.1, 0.01, 1e-4])
def test_small_p_values_keep_their_digits(null: float) -> None:
    # fourteen ones against a null t: P(Beta(14, c) <= t), down to 1e-56
    found = bounded_mean([1] * 14, null=null)
    c = 1 if null == 0.9 else 0.8  # the weights of a p-value above 0.1 and below 0.02
    expected = min(1.0, 2 * float(beta.cdf(null, 14, c)))
    assert found.p_value == pytest.approx(expected, rel=1e-8)


def test_a_mean_at_its_bound_is_as_far_as_it_can_go() -> None:
    found = bounded_mean([0, 0, 0], null=0.0)
    assert (found.low, found.p_value) == (0.0, 1.0)
    assert 0 < bounded_mean([1, 1, 1], null=0.0).p_value < 1e-200


@given(cases)
@settings(max_examples=20, deadline=None)
def test_p_values_invert_the_interval(values: list[float]) -> None:
    found = bounded_mean(values, quantity=DELTAS, null=0.0)
    inside = found.low < 0 < found.high
    assert inside == (found.p_value > 0.05) or min(abs(found.low), abs(found.high)) < 1e-8
    for limit in (found.low, found.high):
        if -1 < limit < 1:
            again = bounded_mean(values, quantity=DELTAS, null=limit).p_value
            assert again == pytest.approx(0.05, abs=1e-7)


@given(cases, st.randoms())
@settings(max_examples=20, deadline=None)
def test_order_does_not_matter_and_the_sign_mirrors(values: list[float], random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    found, again, turned = bounded_means(
        [(values, None, None), (shuffled, None, None), ([-v for v in values], None, None)],
        quantity=DELTAS,
        null=0.0,
    )
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
    assert (-turned.high, -turned.low) == pytest.approx((found.low, found.high), abs=1e-9)
    assert turned.p_value == pytest.approx(found.p_value, rel=1e-6)
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    assert found.high - found.low > 1e-3


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12), st.data())
@settings(max_examples=20, deadline=None)
def test_raising_one_value_never_lowers_a_limit(values: list[float], data) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    raised = list(values)
    raised[place] = data.draw(st.floats(values[place], 1))
    before, after = bounded_means([(values, None, None), (raised, None, None)], quantity=DELTAS)
    assert after.low >= before.low - 1e-9
    assert after.high >= before.high - 1e-9


def test_copies_of_attempts_change_nothing_and_clusters_are_not_counted_as_cases() -> None:
    values = np.array([1, 0, 0.5, 1, 0, 0, 1, 0.5])
    alone = bounded_mean(values)
    doubled = bounded_mean(np.repeat(values, 2), np.repeat(np.arange(8), 2))
    assert (doubled.low, doubled.high) == pytest.approx((alone.low, alone.high), abs=1e-10)
    assert doubled.n == 16
    assert doubled.n_clusters == 8


def test_clusters_enter_with_their_sums_and_a_pseudo_cluster_of_the_size_that_varies() -> None:
    # sizes 1, 2 and 5: weighted by variance (1 + 8 + 125) / (1 + 4 + 25)
    values, clusters = [1, 0, 1, 1, 0, 1, 1, 0], list("abbccccc")
    found = bounded_mean(values, clusters, quantity=RATES)
    draws = np.random.default_rng(0).exponential(size=(400_000, 3))
    pseudo = 134 / 30 * np.random.default_rng(1).gamma(RATES.c, size=400_000)
    top = draws @ np.array([1, 1, 3])
    size = draws @ np.array([1.0, 2, 5]) + pseudo
    assert found.low == pytest.approx(np.quantile(top / size, 0.025), abs=0.003)
    assert found.high == pytest.approx(np.quantile((top + pseudo) / size, 0.975), abs=0.003)
    assert found.estimate == pytest.approx(5 / 8)
    assert "effective clusters" in found.note


def test_missing_values_are_left_out_and_counted() -> None:
    found = bounded_mean([1, np.nan, 0, 1])
    assert found.n == 3
    assert found.note == "1 missing value left out"


def test_no_case_is_unknown() -> None:
    found = bounded_mean([])
    assert np.isnan([found.estimate, found.low, found.high]).all()
    assert found.note == "no cases"


def test_se_and_df_are_those_of_cr2_and_unknown_without_spread() -> None:
    # four cases, mean 1/2: variance of the mean 1/12 of (1/4 + ... ) = sd^2/n = (1/3)/4
    found = bounded_mean([0, 0, 1, 1], quantity=SHARES)
    assert found.se == pytest.approx(np.sqrt(1 / 3 / 4))
    assert found.df == pytest.approx(3)
    assert np.isnan([bounded_mean([1, 1]).se, bounded_mean([1]).df]).all()


@pytest.mark.parametrize("scale", [1e-13, 1e13])
def test_only_the_proportions_of_weights_matter(scale: float) -> None:
    values, weights = [0, 1, 1, 0, 1, 0.5], np.array([1, 2, 3, 1, 1, 5.0])
    one, other = (bounded_mean(values, weights=w) for w in (weights, scale * weights))
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-9)
    assert (other.se, other.df, other.note) == pytest.approx((one.se, one.df, one.note))
    counts = [[2, 1, 3], [0, 4, 1]]
    plain = bounded_mean_counts([0, 0.5, 1], counts, weights=weights[:3])
    again = bounded_mean_counts([0, 0.5, 1], counts, weights=scale * weights[:3])
    assert again.low == pytest.approx(plain.low, abs=1e-9)
    assert again.estimate == pytest.approx(plain.estimate)


@pytest.mark.parametrize("null", [-0.1, 1.5, math.inf])
def test_a_null_outside_the_bounds_is_refused(null: float) -> None:
    for ask in (
        lambda: bounded_mean([0, 1, 1], null=null),
        lambda: bounded_mean_many([[0, 1, 1]], null=null),
        lambda: bounded_mean_counts([0, 1], [[1, 2]], null=null),
    ):
        with pytest.raises(ValueError, match=f"null must lie between 0 and 1, found {null:g}"):
            ask()


@pytest.mark.parametrize(
    ("values", "counts", "weights", "said"),
    [
        ([0, 2], [[1, 1]], None, "values must lie between 0 and 1"),
        ([0, 1, 1], [[1, 1]], None, "values: found shape"),
        ([0, 1], [[1, -1]], None, "counts must not be negative"),
        ([0, 1], [[1, 1], [0, 0]], None, "at least one case in every study"),
        ([0, 1], [1, 1], None, "counts must be studies by values"),
        ([0, 1], [[1, 1]], [1, math.inf], "weights must be above 0"),
        ([0, 1], [[1, 1]], [1], "weights: found shape"),
    ],
)
def test_counts_are_checked_as_cases_are(values, counts, weights, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        bounded_mean_counts(values, counts, weights=weights)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([0, 1.5], None, r"between 0 and 1, found 0 to 1\.5"),
        ([0, 1], [1, 0], "weights must be above 0"),
        ([0, 1], [1], r"there are \(2,\) values"),
    ],
)
def test_bad_values_are_refused(values, weights, message) -> None:
    with pytest.raises(ValueError, match=message):
        bounded_mean(values, weights=weights)
    with pytest.raises(ValueError, match="studies by cases"):
        bounded_mean_many([1, 0])


# --- the adaptive rule -------------------------------------------------------------------------


def arms(*passes: str, k: int) -> list[Arm]:
    """Arms with the signs 1, -1, -1, 1; passes of each case as digits, all with k attempts."""
    signs = (1.0, -1.0, -1.0, 1.0)
    return [
        Arm(np.array(list(map(int, digits))) / k, [k] * len(digits), sign)
        for digits, sign in zip(passes, signs, strict=False)
    ]


S, B = "3221321203", "1101201201"
LEVELS = [0.8, 0.6, 1, 0.75, 0.5, 0.8, 2 / 3, 1, 0.4, 0.6]
CHECKS = [5, 5, 5, 4, 2, 5, 3, 3, 5, 5]
HALVES = [Arm([0.5] * 6, None, sign, [2] * 6) for sign in (1.0, -1.0)]
# samples, and the limits of the bounded and of the adaptive rule in section G of the notes
SECTION_G = [
    (Sample.of_arms(*arms("2" * 10 + "1100", "0" * 9 + "11122", k=2)), (0.02903, 0.84563), None),
    (Sample.of_arms(*arms(S, B, k=3)), (-0.05583, 0.57126), (0.09355, 0.56784)),
    (
        Sample.of_arms(*arms(S, B, k=3), clusters=list("0011223344")),
        (-0.30623, 0.66149),
        (0.02000, 0.63554),
    ),
    (Sample.of_arms(*arms("33233313", "0" * 8, k=3)), (0.24720, 0.98441), (0.31724, 0.98441)),
    (Sample.of_arms(*arms("3321023122", k=3)), (0.38175, 0.82622), (0.39096, 0.82622)),
    (Sample.of_arms(*arms("1000000000", k=1)), (0.00259, 0.42238), None),
    (Sample.of_arms(Arm(LEVELS)), (0.49783, 0.84371), (0.56139, 0.84371)),
    (Sample.of_arms(Arm(LEVELS, checks=CHECKS)), (0.49783, 0.84371), (0.54416, 0.84371)),
    (Sample.of_arms(*arms("0" * 14, "0" * 14, k=3)), (-0.20236, 0.20236), None),
    (Sample.of_arms(*arms("1" * 6, "1" * 6, k=2)), (-0.41335, 0.41335), None),
    (Sample.of_arms(*HALVES), (-0.41335, 0.41335), None),
]


@pytest.mark.parametrize(("sample", "bounded", "adaptive"), SECTION_G)
def test_limits_are_those_of_section_g(sample: Sample, bounded, adaptive) -> None:
    quantity = RATES if len(sample.arms) == 1 else DELTAS
    for rule, limits in (("bounded", bounded), ("adaptive", adaptive or bounded)):
        found = bounded_means([sample], quantity=quantity, interval=rule)[0]
        assert (found.low, found.high) == pytest.approx(limits, abs=6e-6)


def test_limits_with_unequal_attempts_clusters_and_weights() -> None:
    # values of a slow exact program of the same rule that shares no code with this one
    attempts = ([4, 3, 3, 4, 3, 4, 4, 1, 1], [2, 2, 4, 4, 1, 2, 4, 1, 4])
    passes = np.array([[2, 1, 1, 1, 1, 2, 2, 1, 1], [1, 2, 1, 1, 1, 0, 0, 1, 2]])
    two = [
        Arm(np.divide(p, k), k, sign)
        for p, k, sign in zip(passes, attempts, (1.0, -1.0), strict=True)
    ]
    clustered = Sample.of_arms(*two, clusters=[0, 0, 1, 2, 2, 2, 3, 4, 5])
    k = np.array([1, 4, 1, 1, 1, 4, 3, 4, 1])
    weighted = Sample.of_arms(
        Arm(np.array([0, 0, 1, 0, 0, 3, 2, 3, 1]) / k, k), weights=[1, 3, 2, 1, 1, 3, 3, 3, 3]
    )
    delta, rate = (
        bounded_means([sample], quantity=quantity)[0]
        for sample, quantity in ((clustered, DELTAS), (weighted, RATES))
    )
    assert (delta.low, delta.high) == pytest.approx((-0.321155929, 0.4190901), abs=1e-8)
    assert (rate.low, rate.high) == pytest.approx((0.248989042, 0.812531702), abs=1e-8)


def test_many_studies_and_counts_have_the_adaptive_limits_of_each_study() -> None:
    rng = np.random.default_rng(3)
    skill, base = rng.binomial(3, 0.7, (40, 8)), rng.binomial(3, 0.4, (40, 8))
    both = [Arm(skill / 3, [3] * 8), Arm(base / 3, [3] * 8, -1.0)]
    values = (skill - base) / 3
    for clusters in (None, [0, 0, 1, 2, 3, 3, 4, 5]):
        many = bounded_mean_many(values, clusters, arms=both, quantity=DELTAS)
        studies = [
            Sample.of_arms(
                *(Arm(arm.rates[at], [3] * 8, arm.sign) for arm in both), clusters=clusters
            )
            for at in range(40)
        ]
        each = bounded_means(studies, quantity=DELTAS)
        assert many.low == pytest.approx([found.low for found in each], abs=1e-8)
        assert many.high == pytest.approx([found.high for found in each], abs=1e-8)
    cells = np.array(list(itertools.product(range(4), range(4))))
    counts = [np.bincount(4 * s + b, minlength=16) for s, b in zip(skill, base, strict=True)]
    of_cells = [Arm(cells[:, 0] / 3, [3] * 16), Arm(cells[:, 1] / 3, [3] * 16, -1.0)]
    how = {"arms": of_cells, "quantity": DELTAS}
    counted = bounded_mean_counts((cells[:, 0] - cells[:, 1]) / 3, counts, **how)
    alone = bounded_mean_many(values, arms=both, quantity=DELTAS)
    assert counted.low == pytest.approx(alone.low, abs=1e-8)


@pytest.mark.parametrize("own", ["attempts", "checks", "mixed"])
def test_studies_that_differ_only_in_their_arms_have_their_own_limits(own: str) -> None:
    rates, counts = np.array([0.25, 0.5, 0.75]), np.array([[2, 5, 3]] * 3)
    of_study = {
        "attempts": {"attempts": np.array([[2.0] * 3, [8.0] * 3, [2.0] * 3])},
        "checks": {"checks": np.array([[2.0] * 3, [8.0] * 3, [2.0] * 3])},
        "mixed": {"attempts": [8] * 3, "mixed": np.array([[0.0] * 3, [1.0] * 3, [0.0] * 3])},
    }[own]
    found = bounded_mean_counts(rates, counts, arms=[Arm(np.tile(rates, (3, 1)), **of_study)])
    for study in range(3):
        values = np.repeat(rates, counts[study])
        parts = {
            name: np.repeat(np.broadcast_to(part, (3, 3))[study], counts[study])
            for name, part in of_study.items()
        }
        alone = bounded_mean(values, arms=[Arm(values, **parts)])
        assert (found.low[study], found.high[study]) == pytest.approx((alone.low, alone.high))
    assert found.low[0] == found.low[2] != found.low[1]


def test_p_values_invert_the_adaptive_limits_at_every_level() -> None:
    how = {"quantity": DELTAS, "arms": arms(S, B, k=3)}
    values = how["arms"][0].rates - how["arms"][1].rates
    for level in (0.8, 0.9, 0.93, 0.95, 0.97, 0.99, 0.9999):
        low = bounded_mean(values, ci_level=level, **how).low
        assert bounded_mean(values, null=low, **how).p_value == pytest.approx(1 - level, rel=1e-5)


def test_t_is_the_textbook_interval_and_has_no_limits_without_spread() -> None:
    values = [0.5, 0.0, 1.0, 0.5, -0.5]
    found = bounded_mean(values, quantity=DELTAS, null=0.0, interval="t")
    expected = ttest_1samp(values, 0.0)
    ends = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.p_value == pytest.approx(expected.pvalue)
    flat = bounded_mean([0.5] * 5, interval="t")
    assert math.isnan(flat.low) and "no spread" in flat.note


def test_an_unknown_interval_is_named() -> None:
    with pytest.raises(FrameError, match=r"interval: found 'adaptiv'.*Did you mean 'adaptive'"):
        bounded_mean([0, 1], interval="adaptiv")


def test_a_difference_without_spread_has_the_p_value_of_the_chi_square_equation() -> None:
    arms = [Arm(np.ones(40), [3] * 40), Arm(np.zeros(40), [3] * 40, -1.0)]
    means = [
        bounded_mean(np.ones(40), quantity=DELTAS, null=0.0, arms=arms, interval=rule)
        for rule in ("adaptive", "bounded")
    ]
    assert 0 < means[0].p_value == means[1].p_value < 1e-9


@pytest.mark.parametrize("ci_level", [0.8, 0.95])
def test_the_side_of_the_null_is_that_of_the_exact_interval(ci_level):
    rng = np.random.default_rng(7)
    decided = []
    for _ in range(12):
        n, k = int(rng.integers(2, 40)), int(rng.integers(1, 5))
        rates = np.indices((k + 1, k + 1)).reshape(2, -1) / k
        deltas, null = rates[0] - rates[1], float(rng.uniform(-0.2, 0.4))
        chance = rng.dirichlet(np.full(len(deltas), 0.4) * (1 + 2 * (deltas > null)))
        count = rng.multinomial(n, chance, 25)
        arms = [Arm(rates[0], [k] * len(deltas)), Arm(rates[1], [k] * len(deltas), -1.0)]
        weights = rng.choice([1.0, 2.0, 4.0], len(deltas))
        how = {"quantity": DELTAS, "ci_level": ci_level}
        for rule in ("adaptive", "bounded"):
            few = {"arms": arms if rule == "adaptive" else (), "weights": weights}
            exact = bounded_mean_counts(deltas, count, **few, **how)
            size = np.tile(weights / weights.max(), (25, 1))
            places = Positions.at_bounds(DELTAS, 25)
            if rule == "adaptive":
                places = adaptive_positions(arms, deltas[None], size, (-1, 1), count=count)
            value = np.broadcast_to(deltas, count.shape)
            ends = places.low, places.high, places.reach
            samples = CaseCounts(value, size, count.astype(float), *ends)
            sides = sides_of_null(samples, null=null, **how)
            above, below = exact.low > null + 1e-9, exact.high < null - 1e-9
            assert sides.tolist() == (above.astype(float) - below).tolist()
            decided.extend(sides != 0)
        study = np.repeat(deltas, count[0])
        how |= {"null": null, "interval": "t"}
        t = bounded_mean(study, weights=np.repeat(weights, count[0]), **how)
        side = sides_of_null(samples.rows([0]), **how)[0]
        assert side == float(t.low > null) - float(t.high < null)
    assert 0.2 < np.mean(decided) < 0.8
