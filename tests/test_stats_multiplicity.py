import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from skillcomp.stats.significance import adjust, benjamini_hochberg, holm

REFERENCE = Path(__file__).parent / "reference" / "stats_reference.json"


def entry(name):
    entries = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return next(e for e in entries if e["name"] == name)


@pytest.mark.parametrize("method", ["holm", "bh", "by", "hochberg", "hommel"])
def test_adjusted_p_values_equal_r_p_adjust(method):
    found = entry("holm_bh_9dims")
    assert adjust(found["inputs"]["p"], method=method) == pytest.approx(
        found["expected"][method], abs=found["expected"]["tol"]
    )


def test_an_untestable_comparison_stays_unknown_but_counts():
    # three comparisons, two p-values: Holm multiplies by 3 and 2, not by 2 and 1
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)
    # BH: 0.01 * 3 / 1 and 0.04 * 3 / 2
    assert benjamini_hochberg([0.01, math.nan, 0.04]) == pytest.approx(
        [0.03, math.nan, 0.06], nan_ok=True
    )
    assert np.isnan(holm([math.nan, math.nan])).all() and holm([]).size == 0


def test_a_family_declared_larger_counts_in_full():
    assert holm([0.01, 0.02], family=9) == pytest.approx([0.09, 0.16])
    assert holm([0.01, math.nan], family=9) == pytest.approx([0.09, math.nan], nan_ok=True)


p_lists = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=12)


# statsmodels collects garbage on every call of Holm, about 0.1 s: few examples
@settings(max_examples=25, deadline=None)
@given(p_lists)
def test_holm_is_never_below_bh_which_is_never_below_the_p_value(p):
    by_holm, by_bh, raw = holm(p), benjamini_hochberg(p), np.array(p)
    known = ~np.isnan(raw)
    assert (np.isnan(by_holm) == ~known).all() and (np.isnan(by_bh) == ~known).all()
    assert (by_holm[known] >= by_bh[known] - 1e-12).all()
    assert (by_bh[known] >= raw[known] - 1e-12).all() and (by_holm[known] <= 1).all()
    if known.all():
        assert by_bh == pytest.approx(false_discovery_control(raw))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=10), st.randoms(use_true_random=False))
def test_adjustment_does_not_depend_on_the_order(p, random):
    order = list(range(len(p)))
    random.shuffle(order)
    assert holm(np.array(p)[order]) == pytest.approx(holm(p)[order])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: adjust([0.1], method="holms"), r"method must be one of .* Did you mean 'holm'"),
        (lambda: adjust([0.1, 1.2]), r"p_values must lie in 0..1, found 1.2 at position 1"),
        (lambda: adjust([0.1, 0.2], family=1), "family must be at least the 2 p-values"),
    ],
)
def test_errors_say_what_was_found(call, words):
    with pytest.raises(ValueError, match=words):
        call()
