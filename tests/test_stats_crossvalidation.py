import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.stats.crossvalidation import nested_threshold, optimism_bootstrap
from skillcomp.stats.detection import Criterion, at_threshold, choose_threshold


def documents_with_signal(seed, n_documents=24, rows=4, shift=1.5):
    """Documents that hold both classes, with a document effect on the score."""
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(n_documents), rows)
    label = np.tile(np.arange(rows) % 2, n_documents)
    score = rng.normal(size=n_documents)[document] + rng.normal(size=label.size) + shift * label
    return label, score, document


def test_optimism_worked_by_hand_for_two_resamples_of_two_documents():
    # Documents A (1 low negative at 0, positive at 1) and B (negative at 2, positive at 3).
    # All rows: cuts 0.5 and 2.5 both have J = 0.5; the highest, 2.5: sensitivity 1/2, spec. 1.
    # Draw AA: cut 0.5, J = 1 there; on all rows sensitivity 1, specificity 1/2: J = 0.5.
    # Draw BB: cut 2.5, J = 1 there; on all rows sensitivity 1/2, specificity 1: J = 0.5.
    # Draw AB: the original again, optimism 0. So optimism = 0.5 * share of AA and BB.
    found = optimism_bootstrap(
        [0, 1, 0, 1], [0, 1, 2, 3], groups=list("AABB"), n_resamples=4000, seed=1
    )
    assert found.cut == 2.5
    assert found.youden.apparent == 0.5
    assert found.youden.optimism == pytest.approx(0.25, abs=0.02)
    assert found.youden.estimate == pytest.approx(0.5 - found.youden.optimism)


def test_apparent_rates_are_those_of_the_chosen_cut():
    label, score, document = documents_with_signal(1)
    found = optimism_bootstrap(label, score, groups=document, n_resamples=100)
    chosen = choose_threshold(label, score, groups=document, n_resamples=10)
    assert found.cut == chosen.estimate
    assert found.sensitivity.apparent == pytest.approx(chosen.sensitivity)
    assert found.specificity.apparent == pytest.approx(chosen.specificity)


def test_noise_looks_useful_until_it_is_corrected():
    apparent, corrected, nested = [], [], []
    for seed in range(12):
        label, score, document = documents_with_signal(seed, shift=0.0, n_documents=15)
        noise = np.random.default_rng(seed + 100).normal(size=(label.size, 4))
        scores = np.column_stack([score, noise])
        boot = optimism_bootstrap(label, scores, groups=document, n_resamples=100)
        apparent.append(boot.youden.apparent)
        corrected.append(boot.youden.estimate)
        nested.append(nested_threshold(label, scores, groups=document, n_repeats=2).youden.estimate)
    assert np.mean(apparent) > 0.25
    # Harrell's correction is known to be too small for flexible choices; nested has no such bias.
    assert abs(np.mean(corrected)) < 0.5 * np.mean(apparent)
    assert abs(np.mean(nested)) < 0.1


def test_the_useful_candidate_is_found_in_every_fold():
    label, score, document = documents_with_signal(2, shift=4)
    noise = np.random.default_rng(9).normal(size=(label.size, 2))
    scores = np.column_stack([noise[:, 0], score, noise[:, 1]])
    found = nested_threshold(label, scores, groups=document, n_repeats=3)
    assert set(found.candidates) == {1} and len(found.cuts) == 15
    assert optimism_bootstrap(label, scores, groups=document, n_resamples=50).candidate == 1
    alone = nested_threshold(label, score, groups=document, n_repeats=3)
    assert alone.cuts == found.cuts and alone.youden.estimate == found.youden.estimate


def test_no_row_is_judged_by_a_cut_picked_on_its_document():
    # Within every document one positive; the score of a document's rows is the document's own
    # number, so a cut learnt elsewhere can only be right by order, never by recognising the rows.
    document = np.repeat(np.arange(20), 2)
    label = (document >= 10).astype(int)
    score = np.where(document % 2 == 0, document, -document).astype(float)
    found = nested_threshold(label, score, groups=document, n_splits=20, n_repeats=1)
    for fold_cut in found.cuts:
        assert math.isinf(fold_cut) or -20 < fold_cut < 20
    judged_apart = nested_threshold(label, score, groups=None, n_splits=20, n_repeats=1)
    assert judged_apart.sensitivity.estimate >= found.sensitivity.estimate


def test_perfect_separation_keeps_an_interval_that_counts_documents():
    label, score = np.tile([0, 1], 12), np.tile([0.0, 1.0], 12) + np.linspace(0, 0.1, 24)
    document = np.arange(24) // 2
    found = optimism_bootstrap(label, score, groups=document, n_resamples=100)
    assert found.sensitivity.estimate == found.sensitivity.high == 1
    assert found.sensitivity.low == pytest.approx(0.025 ** (1 / 12))
    assert "draws do not vary" in found.sensitivity.note
    nested = nested_threshold(label, score, groups=document)
    assert nested.sensitivity.low < 0.9 and nested.youden.low < nested.youden.estimate == 1


def test_fewer_folds_where_a_class_has_few_documents():
    label = [0, 0, 0, 0, 0, 0, 1, 1, 1]
    found = nested_threshold(label, [1, 2, 3, 4, 5, 6, 7, 8, 9], groups=list("aabbccddd"))
    assert math.isnan(found.youden.estimate)
    assert "one class comes from a single document" in found.youden.note
    three = nested_threshold(label, [1, 2, 3, 4, 5, 6, 7, 8, 9], groups=list("aabbccdef"))
    assert "3 folds of documents" in three.sensitivity.method
    assert three.sensitivity.note.startswith("only 3 documents: counted by document")


def test_a_missing_class_is_unknown():
    found = optimism_bootstrap([1, 1], [0, 1])
    assert found.candidate == -1 and math.isnan(found.sensitivity.estimate)
    assert "one class only" in found.youden.note
    assert math.isnan(nested_threshold([0, 0], [0, 1]).specificity.low)


def test_errors_name_what_was_found():
    with pytest.raises(ValueError, match=r"n_splits must be at least 2 .* found 1 and 10"):
        nested_threshold([0, 1], [0, 1], n_splits=1)
    with pytest.raises(ValueError, match=r"criterion must be one of .* found 'auc'"):
        optimism_bootstrap([0, 1], [0, 1], criterion="auc")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["youden", "cost", "false_flags"]))
def test_every_interval_holds_its_estimate_and_has_a_width(seed, kind):
    label, score, document = documents_with_signal(seed, n_documents=12)
    rule = Criterion(kind, prevalence=0.2, max_false_flags=0.1)
    boot = optimism_bootstrap(label, score, groups=document, criterion=rule, n_resamples=50)
    nested = nested_threshold(label, score, groups=document, criterion=rule, n_repeats=2)
    for result in (boot, nested):
        for rate in (result.sensitivity, result.specificity):
            assert 0 <= rate.low <= rate.estimate <= rate.high <= 1 and rate.low < rate.high
        assert -1 <= result.youden.low < result.youden.high <= 1
        assert result.youden.low <= result.youden.estimate <= result.youden.high


def test_results_repeat_with_the_seed_and_move_with_it():
    label, score, document = documents_with_signal(3)
    first = nested_threshold(label, score, groups=document, seed=4)
    assert first == nested_threshold(label, score, groups=document, seed=4)
    assert first != nested_threshold(label, score, groups=document, seed=5)


@pytest.mark.slow
def test_corrected_rates_recover_what_the_cut_does_on_new_documents():
    boot, nested, apparent, truth = [], [], [], []
    for seed in range(150):
        label, score, document = documents_with_signal(seed, n_documents=14, rows=2, shift=1.5)
        found = optimism_bootstrap(label, score, groups=document, n_resamples=200)
        new_label, new_score, _ = documents_with_signal(seed + 10_000, n_documents=2000, rows=2)
        new = at_threshold(new_label, new_score, found.cut)
        truth.append(new.sensitivity.estimate + new.specificity.estimate - 1)
        boot.append(found.youden.estimate)
        apparent.append(found.youden.apparent)
        nested.append(nested_threshold(label, score, groups=document, n_repeats=2).youden.estimate)
    assert np.mean(apparent) - np.mean(truth) > 0.08
    luck = np.mean(apparent) - np.mean(truth)
    assert np.mean(boot) - np.mean(truth) < 0.55 * luck
    assert abs(np.mean(nested) - np.mean(truth)) < 0.04
