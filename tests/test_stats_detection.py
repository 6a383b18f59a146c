import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import roc_auc_score

from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.detection import bootstrap_auc, clean_needed, delong, delong_paired

REFERENCE = Path(__file__).parent / "reference" / "stats_reference.json"


@pytest.fixture(scope="module")
def asah():
    """The aSAH markers of pROC with what pROC 1.18.0 gives for them."""
    entries = json.loads(REFERENCE.read_text(encoding="utf-8"))
    entry = next(e for e in entries if e["name"] == "delong_aSAH")
    return entry["inputs"], entry["expected"]


@pytest.mark.parametrize("marker", ["s100b", "ndka", "wfns"])
def test_area_and_interval_equal_proc(asah, marker):
    data, expected = asah
    found = delong(data["y"], data[marker])
    assert found.estimate == pytest.approx(expected[f"auc_{marker}"], abs=expected["tol"])
    assert [found.low, found.high] == pytest.approx(expected[f"ci_{marker}"], abs=expected["tol"])
    if marker != "wfns":
        assert found.se**2 == pytest.approx(expected[f"var_{marker}"], abs=expected["tol"])


def test_paired_curves_equal_proc(asah):
    data, expected = asah
    found = delong_paired(data["y"], data["s100b"], data["ndka"])
    assert found.estimate / found.se == pytest.approx(expected["z_s100b_vs_ndka"], abs=1e-7)
    assert found.p_value == pytest.approx(expected["p"], abs=1e-7)
    assert [found.low, found.high] == pytest.approx(expected["ci_diff"], abs=1e-7)
    other = delong_paired(data["y"], data["s100b"], data["wfns"])
    assert other.p_value == pytest.approx(expected["p_s100b_vs_wfns"], abs=1e-7)


def test_area_and_variance_worked_by_hand():
    # positives 3, 5, 6; negatives 1, 2, 4. Pairs won: 3 beats 1, 2; 5 and 6 beat all: 8 of 9.
    # V10 = 2/3, 1, 1 and V01 = 1, 1, 2/3: both have variance 1/27, so S/m + S/n = 2/81.
    found = delong([0, 0, 1, 0, 1, 1], [1, 2, 3, 4, 5, 6], scale="plain")
    assert found.estimate == pytest.approx(8 / 9)
    assert found.se**2 == pytest.approx(2 / 81)


def test_small_classes_get_the_logit_scale_and_stay_inside():
    found = delong([0, 0, 1, 0, 1, 1], [1, 2, 3, 4, 5, 6])
    assert "logit" in found.method
    # logit(8/9) = log 8, se on that scale = sqrt(2/81) / (8/81)
    half = 1.959963985 * math.sqrt(2 / 81) * 81 / 8
    assert found.low == pytest.approx(1 / (1 + math.exp(-(math.log(8) - half))))
    assert 0 < found.low < found.estimate < found.high < 1


def test_ties_count_one_half():
    assert delong([0, 1, 0, 1], [1, 1, 0, 2]).estimate == pytest.approx(3.5 / 4)


def test_perfect_separation_counts_the_documents_of_the_rarer_class():
    found = delong([0] * 5 + [1] * 4, [*range(5), *range(10, 14)])
    assert found.estimate == found.high == 1.0
    assert found.low == pytest.approx(0.025 ** (1 / 4))  # Clopper-Pearson, 4 of 4
    assert "perfect separation" in found.note and "Clopper-Pearson over 4 rows" in found.method
    reverse = delong([0] * 5 + [1] * 4, [-s for s in (*range(5), *range(10, 14))])
    assert (reverse.low, reverse.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 4)))


def test_constant_scores_are_worth_one_half_with_a_wide_interval():
    found = delong([0, 0, 0, 1, 1, 1], [7] * 6)
    assert found.estimate == 0.5 and found.low < 0.2 and found.high > 0.8


def test_one_class_is_unknown_not_a_number():
    found = delong([1, 1, 1], [1, 2, 3])
    assert math.isnan(found.estimate) and "one class only" in found.note
    assert math.isnan(bootstrap_auc([], []).low)
    assert delong([], [], groups=[]).note == delong([], []).note == "not defined: no rows"


def test_missing_rows_are_left_out_and_counted():
    found = delong([0, 1, np.nan, 1, 0], [1, 2, 3, np.nan, 0], groups=["a", "b", "c", "d", None])
    assert found.n == 2 and "3 rows without label, score or document left out" in found.note


def test_single_row_documents_give_the_variance_of_delong(asah):
    data, _ = asah
    rows = delong(data["y"], data["s100b"])
    documents = delong(data["y"], data["s100b"], groups=range(len(data["y"])))
    assert documents.se == pytest.approx(rows.se) and documents.df == 40


def test_copying_every_row_inside_its_document_changes_nothing_but_the_row_count(asah):
    data, _ = asah
    groups = list(range(len(data["y"])))
    once = delong(data["y"], data["s100b"], groups=groups)
    thrice = delong(data["y"] * 3, data["s100b"] * 3, groups=groups * 3)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))
    naive = delong(data["y"] * 3, data["s100b"] * 3)
    assert naive.high - naive.low < 0.7 * (once.high - once.low)


def test_few_documents_are_counted_not_modelled():
    rng = np.random.default_rng(1)
    found = delong([0, 1] * 40, rng.normal(size=80) + [0, 1] * 40, groups=np.arange(80) // 16)
    assert found.method == "Clopper-Pearson over 5 documents"
    assert "fewer than 10 documents" in found.note


def test_equal_curves_have_no_zero_width_interval():
    found = delong_paired([0, 0, 0, 1, 1, 1], [1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 7])
    assert found.estimate == 0 and found.p_value == 1
    assert found.low == pytest.approx(-(1 - 0.025 ** (1 / 3))) and found.high == -found.low


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: delong([0, 2], [1, 2]), "labels must be 0 or 1 .* found 2"),
        (lambda: delong([0, 1], [1, 2, 3]), "equally long, found 2, 3 and 2"),
        (lambda: delong([0, 1], [1, 2], scale="log"), "scale must be .* found 'log'"),
        (lambda: delong([0, 1], [1, 2], ci_level=95), "ci_level must lie strictly"),
        (lambda: clean_needed(0), "max_rate must lie strictly"),
    ],
)
def test_errors_say_what_was_found_and_what_is_allowed(call, words):
    with pytest.raises(ValueError, match=words):
        call()


labels_and_scores = st.integers(4, 40).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, n, elements=st.integers(0, 1)).filter(lambda y: 0 < y.sum() < len(y)),
        hnp.arrays(np.float64, n, elements=st.integers(-9, 9).map(float)),
    )
)


@settings(max_examples=60, deadline=None)
@given(labels_and_scores)
def test_area_agrees_with_scikit_learn_and_flips_with_the_scores(data):
    y, s = data
    found, reverse = delong(y, s), delong(y, -s)
    assert found.estimate == pytest.approx(roc_auc_score(y, s))
    assert reverse.estimate == pytest.approx(1 - found.estimate)
    assert (reverse.low, reverse.high) == pytest.approx((1 - found.high, 1 - found.low))
    assert 0 <= found.low < found.high <= 1 and found.low <= found.estimate <= found.high


@settings(max_examples=40, deadline=None)
@given(labels_and_scores)
def test_paired_difference_changes_sign_with_the_order_of_the_scores(data):
    y, s = data
    other = np.roll(s, 1)
    ab, ba = delong_paired(y, s, other), delong_paired(y, other, s)
    assert (ab.estimate, ab.low, ab.high) == pytest.approx((-ba.estimate, -ba.high, -ba.low))
    assert ab.low < ab.high


def test_bootstrap_areas_agree_with_scikit_learn_and_repeat_with_the_seed(asah):
    data, _ = asah
    roc = bootstrap_auc(data["y"], data["s100b"], n_resamples=500, seed=3)
    assert roc == bootstrap_auc(data["y"], data["s100b"], n_resamples=500, seed=3)
    assert roc.estimate == pytest.approx(roc_auc_score(data["y"], data["s100b"]))
    assert roc.se == pytest.approx(delong(data["y"], data["s100b"]).se, rel=0.1)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_as_many_clean_passages_as_needed_bound_false_flags_and_one_fewer_does_not(rate, level):
    needed = clean_needed(rate, ci_level=level)
    assert bounded_mean(np.zeros(needed), ci_level=level).high <= rate
    assert bounded_mean(np.zeros(needed - 1), ci_level=level).high > rate


@pytest.mark.parametrize(("n", "shift"), [(15, 0.8), (15, 2.0), (40, 1.5), (40, 3.0)])
def test_delong_covers_the_true_area(n, shift):
    rng = np.random.default_rng(20)
    truth = 0.5 * math.erfc(-shift / 2)  # normal classes: Phi(shift / sqrt 2)
    y = np.repeat([0, 1], n)
    hits = 0
    for _ in range(600):
        found = delong(y, rng.normal(size=2 * n) + shift * y)
        hits += found.low <= truth <= found.high
    assert hits / 600 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 600)


@pytest.mark.slow
def test_by_document_interval_covers_where_the_row_interval_does_not():
    rng = np.random.default_rng(21)
    document = np.repeat(np.arange(30), 8)
    y = (document % 2).astype(int)
    # score = document effect (variance 1) + row effect (variance 1) + shift: Phi(shift / 2)
    truth = 0.5 * math.erfc(-(1.5 / 2) / math.sqrt(2))
    covered = {"document": 0, "row": 0}
    for _ in range(1000):
        score = rng.normal(size=30)[document] + rng.normal(size=240) + 1.5 * y
        for name, groups in (("document", document), ("row", None)):
            found = delong(y, score, groups=groups)
            covered[name] += found.low <= truth <= found.high
    assert covered["document"] >= 935
    assert covered["row"] < 800
