from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp import pricing
from skillcomp.pricing import PRICES, Price, Usage, cost, price

NOW = date(2026, 11, 21)
NAMES = sorted({row.model for row in PRICES})


def test_each_kind_of_token_has_its_own_price():
    # sonnet-5-5: 1,000 plain x 2 + 8,000 read x 0.10 + 1,000 written x 2.50 + 500 out x 10
    # = 2,000 + 800 + 2,500 + 5,000 = 10,300 USD per million = 0.0103
    usage = Usage(10_000, 500, cached_tokens=8_000, cache_write_tokens=1_000)
    assert cost(usage, "claude-sonnet-5-5", on=NOW).usd == pytest.approx(0.0103)


def test_a_cache_of_one_hour_costs_more_to_write():
    usage = Usage(1_000_000, 0, cache_write_tokens=1_000_000, cache_write_1h_tokens=400_000)
    # 600,000 x 5 + 400,000 x 8 = 6.2
    assert cost(usage, "claude-opus-5-5", on=NOW).usd == pytest.approx(6.2)


def test_the_long_tier_applies_to_the_whole_request_and_counts_cached_tokens():
    short = Usage(100_000, 0)
    long = Usage(100_001, 0, cached_tokens=100_000)
    assert cost(short, "claude-haiku-5-5", on=NOW).usd == pytest.approx(0.01)
    # 100,000 read x 0.05 + 1 x 0.50 = 5,000.5 per million
    assert cost(long, "claude-haiku-5-5", on=NOW).usd == pytest.approx(0.0050005)


@given(
    name=st.sampled_from(NAMES),
    parts=st.tuples(*[st.integers(0, 200_000)] * 4),
)
@settings(max_examples=30, deadline=None)
def test_the_parts_of_a_cost_add_up(name, parts):
    plain, read, write, out = parts
    usage = Usage(plain + read + write, out, read, write)
    full = cost(usage, name, on=NOW)
    row = full.price
    by_hand = plain * row.input + read * row.cache_read + write * row.cache_write_5m
    by_hand += out * row.output
    assert full.usd == pytest.approx(by_hand / 1e6)


def test_prices_are_those_of_the_day():
    assert price("claude-sonnet-5-5", on=date(2026, 10, 6)).cache_read == 0.20
    assert price("claude-sonnet-5-5", on=date(2026, 10, 7)).cache_read == 0.10
    early = cost(Usage(10, 10), "claude-fable-5-2", on=date(2026, 11, 8))
    assert np.isnan(early.usd)
    assert "on 2026-11-08; the table begins on 2026-11-09" in early.note


def test_an_unknown_model_costs_nan_with_a_note_and_never_nothing():
    unknown = cost(Usage(0, 0), "claude-sonet-5-5", on=NOW)
    assert np.isnan(unknown.usd)
    assert "no price for model 'claude-sonet-5-5'" in unknown.note
    assert "Did you mean 'claude-sonnet-5-5'?" in unknown.note
    assert price("gpt-6") is None


def test_own_prices_come_first_and_may_leave_gaps():
    mine = (Price("gpt-6", 3, 12),)
    assert cost(Usage(1e6, 0), "gpt-6", prices=mine).usd == 3
    gap = cost(Usage(1e6, 0, cached_tokens=5), "gpt-6", prices=mine)
    assert np.isnan(gap.usd)
    assert gap.note == "no price for cache_read of model 'gpt-6'"


def test_a_row_of_ones_own_for_a_snapshot_is_not_lost_to_one_without_a_date():
    mine = (Price("m", 1, 1), Price("m-20260101", 5, 5))
    assert [price(name, prices=mine).input for name in ("m", "m-20260101", "m-20260202")] == [
        1,
        5,
        1,
    ]


def test_why_a_price_of_ones_own_does_not_hold_is_told_of_that_row():
    name = "claude-haiku-5-5"
    later = cost(Usage(10, 0), name, on=NOW, prices=(Price(name, 1, 2, since=date(2100, 1, 1)),))
    assert later.note.endswith("the table begins on 2100-01-01")
    longer = cost(Usage(10, 0), "m", prices=(Price("m", 1, 2, above=1000),))
    assert longer.note.endswith("a prompt of 10 tokens; its lowest tier begins above 1,000")


def test_parts_that_exceed_the_prompt_are_refused():
    with pytest.raises(ValueError, match="input_tokens counts the whole prompt"):
        Usage(10, 0, cached_tokens=11)
    with pytest.raises(ValueError, match="part of cache_write_tokens"):
        Usage(10, 0, cache_write_tokens=1, cache_write_1h_tokens=2)


def test_every_row_is_dated_or_read_from_a_named_source_and_no_price_is_zero():
    for row in PRICES:
        assert row.source
        assert min(row.input, row.output, row.cache_read, row.cache_write_5m) > 0
        assert row.cache_read < row.input < row.cache_write_5m < row.cache_write_1h
    table = pricing.price_table(on=NOW)
    assert not table.duplicated(["model", "above"]).any()
    assert set(table.model) == set(NAMES)
