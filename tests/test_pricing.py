import re
import socket
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillcomp.errors import ExtraError
from skillcomp.pricing import Price, Usage, cost

NOW = date(2026, 11, 21)
ROOT = Path(__file__).parents[1]
# list prices in USD per million: input, output, write for 5 minutes and for an hour, read
LISTED = {
    "claude-fable-5-2": (8, 40, 10, 16, 0.20),
    "claude-fable-5-1": (10, 50, 12.50, 20, 0.25),
    "claude-fable-5": (10, 50, 12.50, 20, 1.00),
    "claude-opus-5-5": (4, 20, 5, 8, 0.20),
    "claude-opus-5": (5, 25, 6.25, 10, 0.50),
    "claude-opus-4-8": (5, 25, 6.25, 10, 0.50),
    "claude-sonnet-5-5": (2, 10, 2.50, 4, 0.10),
    "claude-sonnet-5": (2, 10, 2.50, 4, 0.20),
    "claude-sonnet-4-6": (3, 15, 3.75, 6, 0.30),
    "claude-haiku-5-5": (0.10, 0.50, 0.125, 0.20, 0.01),
    "claude-haiku-4-5": (1, 5, 1.25, 2, 0.10),
}


def test_each_kind_of_token_has_its_own_price():
    # sonnet-5-5: 1,000 plain x 2 + 8,000 read x 0.10 + 1,000 written x 2.50 + 500 out x 10
    # = 2,000 + 800 + 2,500 + 5,000 = 10,300 USD per million = 0.0103
    usage = Usage(10_000, 500, cached_tokens=8_000, cache_write_tokens=1_000)
    assert cost(usage, "claude-sonnet-5-5", on=NOW).usd == pytest.approx(0.0103)


def test_the_long_tier_applies_to_the_whole_request_and_counts_cached_tokens():
    short = Usage(100_000, 0)
    long = Usage(100_001, 0, cached_tokens=100_000)
    assert cost(short, "claude-haiku-5-5", on=NOW).usd == pytest.approx(0.01)
    # 100,000 read x 0.05 + 1 x 0.50 = 5,000.5 per million
    assert cost(long, "claude-haiku-5-5", on=NOW).usd == pytest.approx(0.0050005)


@given(
    name=st.sampled_from(sorted(LISTED)),
    parts=st.tuples(*[st.integers(0, 20_000)] * 5),
    snapshot=st.sampled_from(["", "-20261101"]),
)
@settings(max_examples=60, deadline=None)
def test_the_parts_of_a_cost_add_up_at_the_list_prices(name, parts, snapshot):
    plain, read, write, write_1h, out = parts
    usage = Usage(plain + read + write + write_1h, out, read, write + write_1h, write_1h)
    full = cost(usage, f"{name}{snapshot}", on=NOW)
    by_hand = np.dot(LISTED[name], (plain, out, write, write_1h, read)) / 1e6
    assert full.usd == pytest.approx(by_hand) and full.note is None


def test_the_models_of_the_documents_have_a_price():
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*")]
    texts = "".join(file.read_text("utf-8") for file in files if file.is_file())
    names = set(re.findall(r"claude-(?:opus|sonnet|haiku|fable)-[0-9](?:-[0-9]+)*", texts))
    assert names, "no model is named"
    for name in names:
        assert cost(Usage(10, 10), name).note is None, name


def test_an_unknown_model_costs_nan_with_a_note_and_never_nothing():
    unknown = cost(Usage(0, 0), "claude-sonet-5-5", on=NOW)
    assert np.isnan(unknown.usd)
    assert "no price for model 'claude-sonet-5-5' in genai-prices" in unknown.note
    assert "Did you mean 'claude-sonnet-5-5'?" in unknown.note
    # what other models cost depends on the service
    for name in ("gpt-oss-20b", "gpt-4o", "qwen3", "a-model-of-my-own"):
        assert np.isnan(cost(Usage(10, 0), name).usd)


def test_no_price_is_read_from_the_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    # a day that no other test asks about
    assert cost(Usage(1e6, 0), "claude-opus-5-5", on=date(2026, 11, 3)).usd == 4


def test_own_prices_come_first_and_may_leave_gaps(monkeypatch):
    assert cost(Usage(1e6, 0), "claude-opus-5-5", prices=[Price("claude-opus-5-5", 1, 1)]).usd == 1
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)  # the list is not needed
    mine = (Price("gpt-6", 3, 12),)
    assert cost(Usage(1e6, 0), "gpt-6", prices=mine).usd == 3
    gap = cost(Usage(1e6, 0, cached_tokens=5), "gpt-6", prices=mine)
    assert np.isnan(gap.usd)
    assert gap.note == "no price for cache_read of model 'gpt-6'"


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    with pytest.raises(ExtraError, match=r"genai_prices.*skillcomp\[live\]"):
        cost(Usage(10, 0), "claude-opus-5-5", on=date(2026, 11, 4))


def test_a_row_of_ones_own_for_a_snapshot_is_not_lost_to_one_without_a_date():
    mine = (Price("m", 1, 1), Price("m-20260101", 5, 5))
    names = ("m", "m-20260101", "m-20260202")
    assert [cost(Usage(1e6, 0), name, prices=mine).usd for name in names] == [1, 5, 1]


def test_why_a_price_of_ones_own_does_not_hold_is_said_of_that_row():
    longer = cost(Usage(10, 0), "m", prices=(Price("m", 1, 2, above=1000),))
    assert longer.note.endswith("a prompt of 10 tokens; its lowest tier begins above 1,000")


def test_parts_that_exceed_the_prompt_are_refused():
    with pytest.raises(ValueError, match="input_tokens counts the whole prompt"):
        Usage(10, 0, cached_tokens=11)
    with pytest.raises(ValueError, match="part of cache_write_tokens"):
        Usage(10, 0, cache_write_tokens=1, cache_write_1h_tokens=2)
