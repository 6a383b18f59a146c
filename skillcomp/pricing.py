"""Cost of model calls: a dated table of list prices and a function that applies it.

Prices differ by date, model, prompt length and kind of token. Every row of the table names its
source and, if known, the first day of its prices. The cost of a model that is not in the table is
NaN with a note, not 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import pandas as pd

from skillcomp.errors import suggest

__all__ = ["PRICES", "READ_ON", "Cost", "Price", "Usage", "cost", "price", "price_table"]

READ_ON = date(2026, 11, 21)  # day on which the table was last compared with its sources
_PAGES = "platform.claude.com model overview and pricing pages"
_NOTES = "release notes of third parties that quote the pricing page"
_PER = 1_000_000  # prices are in USD per million tokens

# Match the date at the end of a model name, such as "-20261121". A dated snapshot of a model has
# the price of the model.
_SNAPSHOT = re.compile(r"-\d{8}$")


@dataclass(frozen=True)
class Price:
    """Prices of one model from one day on, for prompts within one range of lengths.

    Attributes
    ----------
    model : str
        Name of the model without the date of a snapshot.
    input, output : float
        USD per million uncached prompt tokens, and per million reply tokens (including thinking).
    cache_write_5m, cache_write_1h, cache_read : float
        USD per million tokens written to a cache that lasts five minutes, written to one that
        lasts one hour, and read from a cache. NaN if unknown.
    above : int
        The row applies only to calls with a longer prompt (in tokens) than this. Its prices then
        hold for all tokens of the call. 0 for the lowest tier.
    since : datetime.date or None
        First day of these prices; None if unknown.
    source : str
        Origin of the row.
    """

    model: str
    input: float
    output: float
    cache_write_5m: float = math.nan
    cache_write_1h: float = math.nan
    cache_read: float = math.nan
    above: int = 0
    since: date | None = None
    source: str = "given by the user"


def _price_rows(
    names: str, prices: tuple[float, float, float, float, float], **about: Any
) -> list[Price]:
    """Return one `Price` per name; all get ``prices`` as fields ``input`` to ``cache_read``."""
    about.setdefault("source", _PAGES)
    return [Price(f"claude-{name}", *prices, **about) for name in names.split()]


PRICES: tuple[Price, ...] = (
    *_price_rows(
        "fable-5-2 mythos-5-2", (8, 40, 10, 16, 0.20), since=date(2026, 11, 9), source=_NOTES
    ),
    *_price_rows("fable-5-1 mythos-5-1", (10, 50, 12.50, 20, 0.25)),
    *_price_rows("fable-5 mythos-5", (10, 50, 12.50, 20, 1.00)),
    *_price_rows("opus-5-5", (4, 20, 5, 8, 0.20), since=date(2026, 9, 22)),
    *_price_rows("opus-5 opus-4-8 opus-4-7 opus-4-6 opus-4-5", (5, 25, 6.25, 10, 0.50)),
    *_price_rows("sonnet-5-5", (2, 10, 2.50, 4, 0.20), since=date(2026, 9, 28)),
    *_price_rows("sonnet-5-5", (2, 10, 2.50, 4, 0.10), since=date(2026, 10, 7), source=_NOTES),
    *_price_rows("sonnet-5", (2, 10, 2.50, 4, 0.20)),
    *_price_rows("sonnet-4-6", (3, 15, 3.75, 6, 0.30)),
    *_price_rows("haiku-5-5", (0.10, 0.50, 0.125, 0.20, 0.01), since=date(2026, 10, 7)),
    *_price_rows(
        "haiku-5-5", (0.50, 2.50, 0.625, 1.00, 0.05), since=date(2026, 10, 7), above=100_000
    ),
    *_price_rows("haiku-4-5", (1, 5, 1.25, 2, 0.10)),
)
"""List prices of Claude models as of `READ_ON`; pass prices of other models as ``prices=``."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one call, or their sums over several calls of one model.

    Attributes
    ----------
    input_tokens : float
        Tokens of the whole prompt, including those read from a cache or written to one.
    output_tokens : float
        Tokens of the reply, thinking included.
    cached_tokens : float
        The part of the prompt that was read from a cache.
    cache_write_tokens : float
        The part of the prompt that was written to a cache.
    cache_write_1h_tokens : float
        The part of `cache_write_tokens` that was written for one hour instead of five minutes.
    """

    input_tokens: float
    output_tokens: float
    cached_tokens: float = 0
    cache_write_tokens: float = 0
    cache_write_1h_tokens: float = 0

    def __post_init__(self) -> None:
        """Raise ValueError if a number is negative, or if a part is larger than its whole."""
        parts = self.cached_tokens + self.cache_write_tokens
        if min(asdict(self).values()) < 0 or parts > self.input_tokens:
            raise ValueError(
                f"Usage: found {self}; input_tokens counts the whole prompt, so cached_tokens and "
                "cache_write_tokens together cannot exceed it, and nothing is negative."
            )
        if self.cache_write_1h_tokens > self.cache_write_tokens:
            raise ValueError(
                f"Usage: found cache_write_1h_tokens {self.cache_write_1h_tokens}; it is a part of "
                f"cache_write_tokens ({self.cache_write_tokens})."
            )


@dataclass(frozen=True)
class Cost:
    """Cost of one or several model calls.

    Attributes
    ----------
    usd : float
        Dollars; NaN if a price is unknown.
    note : str or None
        Reason why the cost is unknown; None if it is known.
    price : Price or None
        The row of the table that was applied.
    """

    usd: float
    note: str | None = None
    price: Price | None = None


def price(
    model: str, *, on: date | None = None, prompt_tokens: float = 0, prices: Sequence[Price] = ()
) -> Price | None:
    """Return the row of prices of a model on a day, or None if unknown.

    Parameters
    ----------
    model : str
        Name of the model in the request or in the reply. A snapshot date at the end of the name is
        ignored, unless ``prices`` has a row for the full name, date included.
    on : datetime.date, optional
        Day of the call; today if omitted.
    prompt_tokens : float, default 0
        Length of the whole prompt in tokens; determines the tier.
    prices : sequence of Price, optional
        The user's own rows; they replace the rows of the same model in `PRICES`.

    Returns
    -------
    Price or None
        None if the model is unknown or has no price on that day or for a prompt of that length.

    Examples
    --------
    >>> from datetime import date
    >>> price("claude-haiku-5-5", on=date(2026, 11, 21), prompt_tokens=150_000).input
    0.5
    >>> price("a-model-of-my-own") is None
    True
    """
    day = on or date.today()
    # A tier applies to prompts longer than its bound. The lowest tier also applies to a prompt of
    # 0 tokens.
    rows = _rows_of(model, prices)
    tier = [row for row in rows if prompt_tokens > row.above or not row.above]
    fits = [row for row in tier if (row.since or date.min) <= day]
    return max(fits, key=lambda row: (row.since or date.min, row.above), default=None)


def _rows_of(model: str, prices: Sequence[Price]) -> list[Price]:
    """Return the user's rows for a model or, if there are none, the built-in rows.

    A row without a snapshot date also applies to the dated snapshots of its model.
    """
    name = _SNAPSHOT.sub("", model)
    for rows, key in ((prices, model), (prices, name), (PRICES, name)):
        if matching := [row for row in rows if row.model == key]:
            return matching
    return []


def cost(
    usage: Usage,
    model: str,
    *,
    on: date | None = None,
    prices: Sequence[Price] = (),
) -> Cost:
    """Compute the cost of model calls in dollars at list price.

    Parameters
    ----------
    usage : Usage
        Tokens of one call. Sums over several calls give the right cost only if the prices of the
        model do not depend on the length of the prompt.
    model : str
        Name of the model in the reply.
    on : datetime.date, optional
        Day of the call; today if omitted.
    prices : sequence of Price, optional
        The user's own rows; they replace the rows of the same model in `PRICES`.

    Returns
    -------
    Cost
        If a needed price is unknown, ``usd`` is NaN and ``note`` states the reason.

    Notes
    -----
    Tokens read from a cache or written to one have their own prices. Discounts (such as those of
    batch services), taxes and server tools are not included.

    Examples
    --------
    >>> from datetime import date
    >>> cost(Usage(1_000_000, 0), "claude-opus-5-5", on=date(2026, 11, 21)).usd
    4.0
    """
    day = on or date.today()
    row = price(model, on=day, prompt_tokens=usage.input_tokens, prices=prices)
    if row is None:
        return Cost(math.nan, _why_unknown(model, day, usage.input_tokens, prices))
    plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    tokens = {
        "input": plain,
        "cache_read": usage.cached_tokens,
        "cache_write_5m": usage.cache_write_tokens - usage.cache_write_1h_tokens,
        "cache_write_1h": usage.cache_write_1h_tokens,
        "output": usage.output_tokens,
    }
    # skip a kind of token that was not used, because its price may be unknown
    usd = sum(getattr(row, kind) * n for kind, n in tokens.items() if n) / _PER
    if math.isnan(usd):
        need = [kind for kind, n in tokens.items() if n and math.isnan(getattr(row, kind))]
        return Cost(math.nan, f"no price for {' and '.join(need)} of model '{model}'", row)
    return Cost(usd, None, row)


def _why_unknown(model: str, day: date, prompt_tokens: float, prices: Sequence[Price]) -> str:
    rows = _rows_of(model, prices)
    if sold := [row.above for row in rows if (row.since or date.min) <= day]:
        return (
            f"no price for model '{model}' and a prompt of {prompt_tokens:,.0f} tokens; "
            f"its lowest tier begins above {min(sold):,}"
        )
    if rows:
        first = min(row.since or date.min for row in rows)
        return f"no price for model '{model}' on {day}; the table begins on {first}"
    near = suggest(_SNAPSHOT.sub("", model), [row.model for row in PRICES])
    return f"no price for model '{model}' in the table of {READ_ON}.{near}"


def price_table(*, on: date | None = None) -> pd.DataFrame:
    """List the prices that apply on a day.

    Parameters
    ----------
    on : datetime.date, optional
        Today if omitted.

    Returns
    -------
    pandas.DataFrame
        One row per model and tier, with the fields of `Price` as columns.

    Examples
    --------
    >>> from datetime import date
    >>> now = price_table(on=date(2026, 11, 21))
    >>> now.loc[now.model == "claude-sonnet-5-5", ["input", "cache_read"]].values.tolist()
    [[2.0, 0.1]]
    """
    tiers = dict.fromkeys((row.model, row.above + 1 if row.above else 0) for row in PRICES)
    current = [price(model, on=on, prompt_tokens=n) for model, n in tiers]
    columns = ["model", "above", "input", "output", "cache_write_5m", "cache_write_1h"]
    columns += ["cache_read", "since", "source"]
    return pd.DataFrame([asdict(row) for row in current if row is not None], columns=columns)


def __dir__() -> list[str]:
    return __all__
