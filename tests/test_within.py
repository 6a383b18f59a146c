import numpy as np
import pandas as pd
import pytest

from skillcomp.stats.clusters import cr2, newcombe_effective
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.within import Arm, Compared, WithinLevels

Levels = tuple[list[int], list[int]]


def layout(near: list[int], far: list[int]) -> tuple[np.ndarray, np.ndarray]:
    second = np.concatenate([np.repeat([0, 1], ab) for ab in zip(near, far, strict=True)])
    sizes = np.add(near, far)
    return second, np.repeat(np.arange(len(sizes)), sizes)


def test_the_gap_is_least_squares_with_a_dummy_for_each_level() -> None:
    rng = np.random.default_rng(3)
    second, levels = layout([4, 1, 2, 1], [1, 3, 2, 1])
    clusters = np.array([0, 1, 2, 3, 3, 5, 6, 7, 8, 9, 8, 11, 11, 13, 14])
    values = rng.normal(size=15)
    fit = cr2(values, np.column_stack([second, pd.get_dummies(levels)]).astype(float), clusters)
    gap = WithinLevels(second, levels, clusters).by_t(values).gap
    assert gap.estimate == pytest.approx(fit.coefficients[0])
    assert gap.se == pytest.approx(fit.se[0])
    assert gap.df == pytest.approx(fit.df[0])
    assert gap.p_value == pytest.approx(fit.p_values[0])


def test_one_level_gives_each_group_its_own_score_interval() -> None:
    rng = np.random.default_rng(4)
    second, levels = layout([8], [11])
    tries = np.full(19, 3.0)
    x1, x0 = rng.binomial(3, 0.8, 19), rng.binomial(3, 0.3, 19)
    clusters = np.array([0, 0, *range(2, 19)])
    found = WithinLevels(second, levels, clusters).by_score(Arm(x1 / 3, tries), Arm(x0 / 3, tries))
    near, far = (
        newcombe_effective(x1[k], 3, x0[k], 3, clusters=clusters[k])
        for k in (second == 0, second == 1)
    )
    assert found.first.low == pytest.approx(near.low)
    # every case its own cluster: the plain binomial variance has n, CR2 n - 1; here up to that
    assert found.second.low == pytest.approx(far.low, abs=0.02)
    expected = mover_difference(found.second, found.first)
    assert (found.gap.low, found.gap.high) == pytest.approx((expected.low, expected.high))


def test_levels_with_one_group_only_are_refused() -> None:
    with pytest.raises(ValueError, match="cases of both groups"):
        WithinLevels([0, 1, 1], ["u", "u", "v"], [0, 1, 2])


def test_a_level_that_is_one_cluster_leaves_its_variance_to_the_others() -> None:
    second, levels = layout([1, 3, 2], [1, 3, 2])
    clusters = np.array([0, 0, *range(2, 12)])
    found = WithinLevels(second, levels, clusters).by_t(np.random.default_rng(1).normal(size=12))
    assert all(np.isfinite(one.se) for one in (found.first, found.second, found.gap))


def test_ten_thousand_cases_in_180_levels_need_no_matrix_per_case() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat(np.arange(180), 56)
    second = np.tile([0, 1], len(levels) // 2)
    clusters = np.arange(len(levels)) // 2
    gap = WithinLevels(second, levels, clusters).by_t(rng.normal(size=len(levels))).gap
    assert gap.n_clusters == 5040
    # two independent rows of variance 1 in each pair: 1 / 5040 + 1 / 5040
    assert gap.se == pytest.approx(np.sqrt(2 / 5040), rel=0.05)


DESIGNS: dict[str, Levels] = {
    "18 and 2, 2 and 18": ([18, 2], [2, 18]),
    "9 and 1, 1 and 9": ([9, 1], [1, 9]),
    "10 and 10, twice": ([10, 10], [10, 10]),
    "5 and 5": ([5], [5]),
    "twelve levels of the pilot": (
        [1, 2, 1, 1, 1, 1, 1, 2, 1, 2, 1, 2],
        [3, 1, 3, 2, 3, 1, 3, 1, 3, 1, 3, 1],
    ),
}
RATES = {  # baseline and skill rates of even and odd levels
    "middle": ((0.2, 0.4), (0.6, 0.8)),
    "ceiling with the skill": ((0.1, 0.5), (0.97, 0.97)),
    "ceiling in both arms": ((0.9, 0.9), (0.97, 0.97)),
}


def chosen(design: WithinLevels, one: np.ndarray, other: np.ndarray, repeats: int) -> Compared:
    """Follow the rule of transfer.gap, without its frames."""
    from skillcomp.transfer import _compared

    tries = np.full(len(one), float(repeats))
    pairs = pd.DataFrame(
        {"rate1": one, "rate0": other, "delta": one - other, "n1": tries, "n0": tries}
    )
    return _compared(pairs, design, "passed", 0.95)[0]


@pytest.mark.slow
@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("place", RATES)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_gap_of_zero_is_covered(name: str, place: str, repeats: int, twins: bool) -> None:
    second, levels = layout(*DESIGNS[name])
    n, n_studies = len(levels), 500
    clusters = np.arange(n)
    if twins:  # every fourth case shares the luck of the one before
        clusters[3::4] = clusters[2 : n - 1 : 4][: len(clusters[3::4])]
    design = WithinLevels(second, levels, clusters)
    baseline, skill = (np.array(pair)[levels % 2] for pair in RATES[place])
    rng = np.random.default_rng(20)
    covered = 0
    for _ in range(n_studies):
        # the rates of cases vary around those of their level (beta, a + b = 4)
        own0, own1 = (rng.beta(4 * p, 4 * (1 - p))[clusters] for p in (baseline, skill))
        one, other = rng.binomial(repeats, own1) / repeats, rng.binomial(repeats, own0) / repeats
        gap = chosen(design, one, other, repeats).gap
        covered += gap.low <= 0 <= gap.high
    # 93.5 %, less two Monte Carlo standard errors of 500 studies
    assert covered / n_studies >= 0.935 - 2 * np.sqrt(0.935 * 0.065 / n_studies)
