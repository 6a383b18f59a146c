"""Area under the ROC curve by bootstrap over documents, and negatives needed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference_map import ENTRIES
from sklearn.metrics import roc_auc_score

from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.detection import bootstrap_auc, clean_needed

ASAH = ENTRIES["delong_aSAH"]  # markers of pROC's data, with the results of pROC 1.18.0


def test_ties_count_one_half_and_constant_scores_are_worth_one_half():
    assert bootstrap_auc([0, 1, 0, 1], [1, 1, 0, 2]).estimate == pytest.approx(3.5 / 4)
    constant = bootstrap_auc([0, 0, 0, 1, 1, 1], [7] * 6)
    assert constant.estimate == 0.5 and constant.low < 0.2 and constant.high > 0.8
    assert "draws do not vary" in constant.note


@pytest.mark.parametrize(("sign", "limits"), [(1, (0.025**0.25, 1)), (-1, (0, 1 - 0.025**0.25))])
def test_perfect_separation_counts_the_documents_of_the_rarer_class(sign, limits):
    # Clopper-Pearson, 4 of 4 and 0 of 4
    auc = bootstrap_auc([0] * 5 + [1] * 4, sign * np.array([*range(5), *range(10, 14)]))
    assert (auc.low, auc.high) == pytest.approx(limits)
    assert "perfect separation" in auc.note and "Clopper-Pearson over 4 rows" in auc.method


def test_one_class_is_unknown_not_a_number():
    auc = bootstrap_auc([1, 1, 1], [1, 2, 3])
    assert math.isnan(auc.estimate) and "one class only" in auc.note
    assert bootstrap_auc([], [], clusters=[]).note == "not defined: no rows"


def test_missing_rows_are_left_out_and_counted():
    clusters = ["a", "b", "c", "d", None]
    auc = bootstrap_auc([0, 1, np.nan, 1, 0], [1, 2, 3, np.nan, 0], clusters=clusters)
    assert auc.n == 2 and "3 rows without label, score or document left out" in auc.note


def test_copying_every_row_inside_its_document_changes_nothing_but_the_row_count():
    labels, scores = ASAH["inputs"]["y"], ASAH["inputs"]["s100b"]
    clusters = list(range(len(labels)))
    once = bootstrap_auc(labels, scores, clusters=clusters, n_resamples=500)
    thrice = bootstrap_auc(labels * 3, scores * 3, clusters=clusters * 3, n_resamples=500)
    assert (thrice.low, thrice.high, thrice.n) == pytest.approx((once.low, once.high, 3 * once.n))


def test_few_documents_are_counted_not_modelled():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=80) + [0, 1] * 40
    auc = bootstrap_auc([0, 1] * 40, scores, clusters=np.arange(80) // 16)
    assert auc.method == "Clopper-Pearson over 5 documents"
    assert "fewer than 10 documents" in auc.note


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_auc([0, 2], [1, 2]), "labels must be 0 or 1 .* found 2"),
        (lambda: bootstrap_auc([0, 1], [1, 2, 3]), "equally long, found 2, 3 and 2"),
        (lambda: bootstrap_auc([0, 1], [1, 2], ci_level=95), "ci_level must lie strictly"),
    ],
)
def test_errors_name_what_was_found_and_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


labels_and_scores = st.integers(4, 40).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, n, elements=st.integers(0, 1)).filter(lambda y: 0 < y.sum() < len(y)),
        hnp.arrays(np.float64, n, elements=st.integers(-9, 9).map(float)),
    )
)


@settings(max_examples=20, deadline=None)
@given(labels_and_scores)
def test_the_area_agrees_with_scikit_learn_and_flips_with_the_scores(data):
    y, scores = data
    auc, reverse = (bootstrap_auc(y, s, n_resamples=99) for s in (scores, -scores))
    assert auc.estimate == pytest.approx(roc_auc_score(y, scores))
    assert (reverse.low, reverse.high) == pytest.approx((1 - auc.high, 1 - auc.low))
    assert 0 <= auc.low < auc.high <= 1


def test_the_bootstrap_repeats_with_its_seed_and_agrees_with_delongs_variance():
    inputs, expected = ASAH["inputs"], ASAH["expected"]
    first, second = (
        bootstrap_auc(inputs["y"], inputs["s100b"], n_resamples=500, seed=3) for _ in range(2)
    )
    assert first == second
    assert first.se == pytest.approx(math.sqrt(expected["var_s100b"]), rel=0.1)
    assert [first.low, first.high] == pytest.approx(expected["ci_s100b"], abs=0.02)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_as_many_clean_passages_as_needed_bound_false_flags_and_one_fewer_does_not(rate, level):
    needed = clean_needed(rate, ci_level=level)
    assert bounded_mean(np.zeros(needed), ci_level=level).high <= rate
    assert bounded_mean(np.zeros(needed - 1), ci_level=level).high > rate
