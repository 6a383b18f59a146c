"""Holm's adjustment of p-values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from skillcomp.stats.significance import holm


def test_an_untestable_comparison_stays_unknown_but_counts():
    # three comparisons, two p-values: Holm multiplies by 3 and 2, not by 2 and 1
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)
    assert np.isnan(holm([math.nan, math.nan])).all() and holm([]).size == 0


def test_a_family_declared_larger_counts_in_full():
    assert holm([0.01, 0.02], family=9) == pytest.approx([0.09, 0.16])
    assert holm([0.01, math.nan], family=9) == pytest.approx([0.09, math.nan], nan_ok=True)


# statsmodels collects garbage on every call of Holm, about 0.1 s: few examples
@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=12), st.integers(0, 3))
def test_holm_agrees_with_statsmodels_where_an_unknown_p_value_counts_as_1(p, more):
    raw = np.array(p)
    missing = np.isnan(raw)
    family = np.concatenate([np.where(missing, 1.0, raw), np.ones(more)])
    expected = np.where(missing, np.nan, multipletests(family, method="holm")[1][: len(p)])
    np.testing.assert_array_equal(holm(raw, family=len(p) + more), expected)


@pytest.mark.parametrize(
    ("p_values", "family", "message"),
    [
        ([0.1, 1.2], None, r"p_values must lie in 0..1, found 1.2 at position 1"),
        ([0.1, 0.2], 1, "family must be at least the 2 p-values"),
    ],
)
def test_errors_name_what_was_found(p_values, family, message):
    with pytest.raises(ValueError, match=message):
        holm(p_values, family=family)
