"""Agreement: values by hand and from irrCAC, resampling by case, no answer where none exists."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles.agreement_tables import gwet_ac1
from scipy.stats import beta
from sklearn.metrics import cohen_kappa_score

from skillcomp.stats import units_needed
from skillcomp.stats.agreement import (
    bootstrap_agreement,
    cohen_kappa,
    krippendorff_alpha,
)
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.significance_and_grader_errors import rates_against_gold

COEFFICIENTS = ["raw_agreement", "cohen_kappa", "gwet_ac1", "krippendorff_alpha"]


def ratings_of(table):
    table = np.asarray(table)
    return np.repeat(np.argwhere(np.ones_like(table)), table.ravel(), axis=0).astype(float)


def test_kappa_collapses_at_a_skewed_rate_and_its_interval_says_so():
    table = [[118, 5], [2, 0]]
    kappa = cohen_kappa(table)
    ac1 = bootstrap_agreement(ratings_of(table), "gwet_ac1")
    assert kappa.estimate == pytest.approx(-0.0234, abs=1e-4) and ac1.estimate > 0.94
    assert "fewer than 5 agreements" in kappa.note and "Wilson" in kappa.method
    assert kappa.high - kappa.low > 1.0 > 0.1 > ac1.high - ac1.low


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_ratings_equal_a_second_implementation(name):
    rng = np.random.default_rng(0)
    first = rng.random(60) < 0.6
    second = np.where(rng.random(60) < 0.8, first, ~first)
    pairs = np.column_stack([first, second]).astype(float)
    table = np.array([[np.sum((first == a) & (second == b)) for b in (0, 1)] for a in (0, 1)])
    oracle = {
        "raw_agreement": np.mean(first == second),
        "cohen_kappa": cohen_kappa_score(first, second),
        "gwet_ac1": gwet_ac1(table)[0],
        "krippendorff_alpha": krippendorff.alpha(pairs.T, level_of_measurement="nominal"),
    }
    assert bootstrap_agreement(pairs, name).estimate == pytest.approx(oracle[name])


@given(
    arrays(float, (12, 3), elements=st.sampled_from([0.0, 1.0, 2.0, 5.0, np.nan])),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
@settings(max_examples=30, deadline=None)
def test_alpha_from_sums_equals_the_library(ratings, level):
    found = krippendorff_alpha(ratings, level=level, n_resamples=20)
    assume(not np.isnan(found.estimate))
    assert found.low <= found.estimate <= found.high and found.low < found.high
    library = krippendorff.alpha(ratings.T, level_of_measurement=level)
    assert found.estimate == pytest.approx(library, abs=1e-9)


@given(
    arrays(float, (15, 2), elements=st.sampled_from([0.0, 1.0, np.nan])),
    st.sampled_from(COEFFICIENTS),
    st.integers(1, 15),
)
@settings(max_examples=30, deadline=None)
def test_an_interval_holds_its_estimate_keeps_a_width_or_says_why_not(ratings, name, cases):
    found = bootstrap_agreement(
        ratings, name, clusters=np.arange(15) % cases, n_categories=2, n_resamples=200
    )
    if np.isnan(found.estimate) or np.isnan(found.low):
        assert found.note
        return
    assert -1.0 - 1e-12 <= found.low <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.high <= 1.0 + 1e-12
    assert found.high - found.low > 1e-6


@given(st.lists(st.integers(0, 30), min_size=4, max_size=4).filter(any))
@settings(max_examples=30, deadline=None)
def test_tables_keep_range_width_and_symmetry(cells):
    table = np.reshape(cells, (2, 2))
    found, swapped = cohen_kappa(table), cohen_kappa(table.T)
    if np.isnan(found.estimate):
        assert found.note
        return
    assert -1.0 <= found.low <= found.estimate <= found.high <= 1.0
    assert found.high - found.low > 1e-6
    assert swapped.estimate == pytest.approx(found.estimate)


def test_constant_tables_are_never_certain():
    kappa = cohen_kappa([[50, 0], [0, 0]])
    assert np.isnan(kappa.estimate) and "one category" in kappa.note
    assert np.isnan(krippendorff_alpha(np.zeros((9, 3))).estimate)
    for name in ("cohen_kappa", "krippendorff_alpha"):
        undefined = bootstrap_agreement(np.ones((20, 2)), name)
        assert np.isnan([undefined.estimate, undefined.low]).all()
        assert "one category" in undefined.note
    assert np.isnan(bootstrap_agreement(np.ones((20, 2)), "gwet_ac1").estimate)
    empty = cohen_kappa([[0, 0], [0, 0]])
    assert np.isnan(empty.estimate) and empty.note == "no units"


def test_perfect_agreement_hands_over_to_the_limits_of_the_raw_agreement():
    pairs = ratings_of([[30, 0], [0, 10]])
    raw = bounded_mean(np.ones(40))
    for name in COEFFICIENTS:
        found = bootstrap_agreement(pairs, name)
        assert found.estimate == 1.0 and found.low < 0.95
        if name == "raw_agreement":
            assert (found.low, found.high) == (raw.low, raw.high)
        else:
            assert "limits derived from those of the raw agreement" in found.note
            assert found.low <= raw.low
    assert cohen_kappa([[30, 0], [0, 10]]).low < 0.9


def test_resamples_without_variation_are_left_out_and_counted(monkeypatch):
    # Four of 30 cases do not pass twice: (26/30)**30 = 1.4 % of the resamples hold none of them.
    pairs = ratings_of([[2, 1], [1, 26]])
    monkeypatch.setattr("skillcomp.stats.agreement.FEWEST_EVENTS", 1)
    found = bootstrap_agreement(pairs, "cohen_kappa")
    lost = int(found.note.split()[0])
    assert found.note.endswith("undefined resamples left out") and 10 < lost < 50
    assert -1 <= found.low < found.estimate < found.high <= 1
    # Two of 30: 13 % are undefined, too many for the rest to describe the sample.
    found = bootstrap_agreement(ratings_of([[1, 1], [0, 28]]), "cohen_kappa")
    assert "resamples are undefined" in found.note and "those of the raw agreement" in found.note


def test_the_method_names_resamples_and_seed_and_repeats_itself():
    pairs = ratings_of([[20, 8], [7, 25]])
    first = bootstrap_agreement(pairs, "cohen_kappa", n_resamples=500, seed=7)
    assert "n_resamples=500, seed=7" in first.method
    assert first == bootstrap_agreement(pairs, "cohen_kappa", n_resamples=500, seed=7)
    assert first.low != bootstrap_agreement(pairs, "cohen_kappa", n_resamples=500, seed=8).low


def rate(verdicts, gold, truth):
    """Return the sensitivity (truth 1) or the specificity (truth 0)."""
    arrays = np.asarray(verdicts, float), np.asarray(gold, float)
    return rates_against_gold([(*arrays, None, None, None)], 0.95)[0][0 if truth else 1]


def test_sensitivity_and_specificity_by_hand():
    # Gold passes: 4 of 5 passed by the grader, one more without a verdict. Gold fails: 2 of 3.
    gold = [1, 1, 1, 1, 1, 1, 0, 0, 0, np.nan]
    verdict = [1, 1, 1, 1, 0, np.nan, 0, 0, 1, 1]
    right = rate(verdict, gold, 1.0)
    assert (right.estimate, right.n) == (0.8, 5.0)
    assert "1 label without a verdict left out" in right.note
    # 4 of 5 with a pseudo-case of weight c at the bound: Beta(4, 1 + c) and Beta(4 + c, 1)
    assert [right.low, right.high] == pytest.approx(
        [beta.ppf(0.025, 4, 1 + RATES.c), beta.ppf(0.975, 4 + RATES.c, 1)], abs=1e-9
    )
    assert rate(verdict, gold, 0.0).estimate == pytest.approx(2 / 3)


def test_a_grader_never_wrong_is_not_certain_and_no_gold_is_unknown():
    ten = rate([1] * 10, [1] * 10, 1.0)
    assert ten.estimate == 1.0 and ten.low == pytest.approx(beta.ppf(0.025, 10, RATES.c), abs=1e-9)
    unknown = rate([1] * 10, [1] * 10, 0.0)
    assert np.isnan(unknown.estimate) and "no gold label fails" in unknown.note
    assert np.isnan(rate([np.nan], [1], 1.0).estimate)


def test_ordinal_alpha_forgives_a_near_category_more_than_a_far_one():
    same = [[k % 4, k % 4] for k in range(40)]
    near, far = [[0, 1]] * 6, [[0, 3]] * 6
    nominal = [krippendorff_alpha(same + d, n_resamples=99).estimate for d in (near, far)]
    ordinal = [krippendorff_alpha(same + d, level="ordinal").estimate for d in (near, far)]
    assert ordinal[0] - ordinal[1] > 0.2 > abs(nominal[0] - nominal[1])
    with pytest.raises(ValueError, match="nominal, ordinal or interval"):
        krippendorff_alpha(same, level="ratio")


def marks_of(n: int, rng: np.random.Generator, raters: int = 2) -> np.ndarray:
    """Marks from 1 to 5: the same latent quality, and an error of each rater."""
    quality = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, raters))
    return 1.0 + np.digitize(quality, [-1, -0.35, 0.35, 1])


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("n", [10, 20, 50])
def test_the_jackknife_of_alpha_covers(level, n):
    rng = np.random.default_rng(n)
    truth = krippendorff_alpha(marks_of(100_000, rng), level=level).estimate
    found = [krippendorff_alpha(marks_of(n, rng), level=level, n_resamples=99) for _ in range(150)]
    # 150 studies: two standard errors below 95 % are 91.4 %
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.914
    widths = [one.high - one.low for one in found]
    assert min(widths) > 0 and (level == "nominal" or n != 20 or np.mean(widths) < 0.65)


def test_alpha_of_marks_counts_cases_and_never_has_zero_width():
    rng = np.random.default_rng(0)
    marks = marks_of(40, rng)
    single, paired = (krippendorff_alpha(np.repeat(marks, 2, 0), level="ordinal", clusters=codes)
                      for codes in (None, np.repeat(np.arange(40), 2)))  # fmt: skip
    plain = krippendorff_alpha(marks, level="ordinal")
    assert single.high - single.low < 0.8 * (paired.high - paired.low)
    assert paired.high - paired.low == pytest.approx(plain.high - plain.low, rel=0.05)
    assert "jackknife over 40 cases" in paired.method and paired.df <= 39
    same = krippendorff_alpha(np.repeat(marks[:, :1], 2, axis=1), level="interval")
    assert same.estimate == 1 and same.low < 0.97 and "agreement is perfect" in same.note
    flat = krippendorff_alpha([[3, 3]] * 18 + [[1, 3], [3, 5]], level="ordinal")
    assert flat.high - flat.low > 0.3 and "outside the commonest category" in flat.note
    none = krippendorff_alpha([[3, np.nan]] * 9, level="interval")
    assert np.isnan([none.estimate, none.low]).all() and none.note == "no unit has two ratings"


@pytest.mark.parametrize("name", ["raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha"])
def test_units_of_one_case_only_say_next_to_nothing(name):
    found = bootstrap_agreement(
        [[1, 1]] * 6 + [[1, 0]] * 2 + [[0, 0]] * 4, name, clusters=["a"] * 12
    )
    assert np.isfinite(found.estimate)
    assert found.low < 0.05 and found.high > 0.98
    assert "only 1.0 effective clusters" in found.note


def coverage(name, rate, right, cases, runs):
    rng = np.random.default_rng(5)

    def draw(size):
        # Three checks a case share its difficulty; each rater errs on its own.
        truth = rng.random((size, 3)) < rng.beta(6 * rate, 6 * (1 - rate), size)[:, None]
        raters = [np.where(rng.random((size, 3)) < right, truth, ~truth) for _ in range(2)]
        return np.stack(raters, axis=-1).reshape(-1, 2).astype(float)

    truth = bootstrap_agreement(draw(50_000), name, n_resamples=2).estimate
    case = np.repeat(np.arange(cases), 3)
    hits = 0
    for _ in range(runs):
        found = bootstrap_agreement(draw(cases), name, clusters=case, n_resamples=199)
        hits += found.low <= truth <= found.high
    return hits / runs


@pytest.mark.parametrize("name", ["cohen_kappa", "gwet_ac1"])
def test_the_case_bootstrap_covers(name):
    # 100 runs: two standard errors below 95 % are 0.906.
    assert coverage(name, 0.6, 0.9, 30, 100) >= 0.9


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (krippendorff_alpha, ([1, 0, 1],), "at least two raters"),
        (cohen_kappa, ([[1, 2, 3], [4, 5, 6]],), "square"),
        (cohen_kappa, ([[1, -2], [3, 4]],), "counts"),
    ],
)
def test_bad_ratings_are_refused(call, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(*arguments)


def test_bad_clusters_are_refused():
    with pytest.raises(ValueError, match="clusters must name 3 cases, found 2"):
        krippendorff_alpha(np.ones((3, 2)), clusters=[1, 2])


@pytest.mark.parametrize("table", [[[40, 9], [6, 45]], [[52, 8], [7, 13]]])
def test_the_needed_units_give_kappa_the_half_width(table: list[list[int]]) -> None:
    counts = np.array(table)
    needed = units_needed(cohen_kappa(counts), 0.1)
    grown = cohen_kappa(counts * needed / counts.sum())
    assert 0.097 < (grown.high - grown.low) / 2 <= 0.1
    assert np.isnan(units_needed(cohen_kappa([[9, 0], [0, 0]]), 0.1))
    with pytest.raises(ValueError, match="half_width must be above 0"):
        units_needed(grown, 0.0)


def test_disagreements_of_light_units_do_not_stand_for_heavy_units_without_any() -> None:
    # gold for all 20 verdicts fail, 8 of them wrong, and for 10 of 100 passes, none wrong: of the
    # passes not labelled, several may be wrong
    pairs = [[0, 1]] * 8 + [[0, 0]] * 12 + [[1, 1]] * 10
    weights = [1.0] * 20 + [10.0] * 10
    found = bootstrap_agreement(pairs, "cohen_kappa", weights=weights, n_resamples=199)
    assert "disagreement in the units of the largest weights" in found.note
    equal = bootstrap_agreement(pairs, "cohen_kappa", weights=[2.0] * 30, n_resamples=199)
    plain = bootstrap_agreement(pairs, "cohen_kappa", n_resamples=199)
    assert (equal.low, equal.high, equal.note) == (plain.low, plain.high, "")
