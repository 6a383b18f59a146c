import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.frames.check import missing_values
from skillcomp.frames.estimates import group_codes

TEXT = st.one_of(st.none(), st.sampled_from(["a", "b", "bb", ""]))
MISSING = st.sampled_from([None, np.nan, pd.NA, pd.NaT])  # each stands for no value
NUMBER = st.one_of(st.none(), st.integers(0, 2))


@st.composite
def frames(draw):
    n = draw(st.integers(0, 12))
    texts, numbers, truths = (
        draw(st.lists(kind, min_size=n, max_size=n))
        for kind in (TEXT, NUMBER, st.one_of(st.none(), st.booleans()))
    )
    return pd.DataFrame(
        {
            "text": pd.array(texts, dtype="str"),
            "number": pd.array(numbers, dtype="Int64"),
            "truth": pd.array(truths, dtype="boolean"),
            "value": pd.array([None if k is None else k / 2 for k in numbers], dtype="float64"),
            "level": pd.Categorical(texts),
            "own": pd.array(
                [draw(MISSING) if text is None else text for text in texts], dtype=object
            ),
        }
    )


@settings(max_examples=150, deadline=None)
@given(
    frame=frames(),
    names=st.lists(st.sampled_from(["text", "number", "truth", "value", "level", "own"])),
)
def test_groups_are_those_of_pandas_in_the_order_of_appearance(frame, names):
    names = list(dict.fromkeys(names))
    codes, first = group_codes(frame, names)
    if not names:
        assert codes.tolist() == [0] * len(frame)
        return
    keys = frame.groupby(names, sort=False, dropna=False, observed=True)
    # numbered by their first rows, because pandas sorts missing values of several keys last
    expected = keys.ngroup().to_numpy()
    rows = pd.Series(np.arange(len(frame))).groupby(expected).min().sort_values().to_numpy()
    assert first.tolist() == rows.tolist()
    assert all(
        (expected[i] == expected[j]) == (codes[i] == codes[j])
        for i in range(len(frame))
        for j in range(i)
    )
    assert codes[first].tolist() == list(range(len(first)))


def test_text_in_several_chunks_is_read_as_one():
    whole = pd.concat([pd.Series(["a", "a"]), pd.Series(["a", None, None])], ignore_index=True)
    codes, first = group_codes(pd.DataFrame({"text": whole.astype("str")}), ["text"])
    assert codes.tolist() == [0, 0, 0, 1, 1]
    assert first.tolist() == [0, 3]


def test_many_columns_of_many_values_do_not_overflow():
    n = 3000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{k}": rng.permutation(n) for k in range(8)})
    again = pd.concat([frame, frame], ignore_index=True)
    codes, first = group_codes(again, list(frame))
    assert codes.tolist() == [*range(n), *range(n)]
    assert first.tolist() == list(range(n))


@pytest.mark.parametrize("dtype", ["str", "Int64", "boolean", "float64", "datetime64[us, UTC]"])
@pytest.mark.parametrize("n", [0, 3])
def test_absent_columns_are_missing_at_their_dtype(dtype, n):
    column = pd.Series(missing_values(dtype, n))
    assert str(column.dtype) == dtype
    assert len(column) == n and column.isna().all()
