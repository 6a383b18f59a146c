"""Cost of model calls: the user's prices or, without them, the list prices of ``genai-prices``.

The package ``genai-prices`` has the list prices in its files; nothing is read from the network. The
cost of a model that it does not know is NaN with a note, not 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt

from skillcomp.errors import extra_imports, suggest
from skillcomp.removed_names import raise_missing_name

__all__ = ["Cost", "Price", "Usage", "cost"]

_PER = 1_000_000  # prices are in USD per million tokens
# Only the prices of this maker are used. Other models are served by several services, and each has
# prices of its own.
_MAKER = "anthropic"
# our name of a kind of token -> that of genai-prices
_KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "cache_read": "cache_read_mtok",
}

# Match the date at the end of a model name, such as "-20261121". A dated snapshot of a model has
# the price of the model.
_SNAPSHOT = re.compile(r"-\d{8}$")


@dataclass(frozen=True)
class Price:
    """Your own prices of one model, for prompts within one range of lengths.

    Attributes
    ----------
    model : str
        Name of the model. Without the date of a snapshot, it stands for all dated snapshots too.
    input, output : float
        USD per million uncached prompt tokens, and per million reply tokens (including thinking).
    cache_write_5m, cache_write_1h, cache_read : float
        USD per million tokens written to a cache that lasts five minutes, written to one that
        lasts one hour, and read from a cache. NaN if unknown.
    above : int
        The row applies only to calls with a longer prompt (in tokens) than this. Its prices then
        hold for all tokens of the call. 0 for the lowest tier.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # for the prices of a study file
    model: str
    input: NonNegativeFloat
    output: NonNegativeFloat
    cache_write_5m: NonNegativeFloat = math.nan
    cache_write_1h: NonNegativeFloat = math.nan
    cache_read: NonNegativeFloat = math.nan
    above: NonNegativeInt = 0


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
    """

    usd: float
    note: str | None = None


def cost(
    usage: Usage,
    model: str,
    *,
    on: date | None = None,
    prices: Sequence[Price] = (),
) -> Cost:
    """Compute the cost of model calls in dollars.

    Parameters
    ----------
    usage : Usage
        Tokens of one call. Sums over several calls give the right cost only if the prices of the
        model do not depend on the length of the prompt.
    model : str
        Name of the model in the reply.
    on : datetime.date, optional
        Day of the call, for list prices that changed; today if omitted.
    prices : sequence of Price, optional
        Your own rows; they replace the list prices of the same model.

    Returns
    -------
    Cost
        If a needed price is unknown, ``usd`` is NaN and ``note`` states the reason.

    Raises
    ------
    ExtraError
        If a list price is needed and the package genai-prices is not installed.

    Notes
    -----
    List prices are those of Anthropic's models in the installed version of genai-prices. For
    other models, which several services offer at different prices, give your own. Tokens read
    from a cache or written to one have their own prices. Discounts (such as those of batch
    services), taxes and server tools are not included.

    Examples
    --------
    >>> from datetime import date
    >>> cost(Usage(1_000_000, 0), "claude-opus-5-5", on=date(2026, 11, 21)).usd
    4.0
    >>> cost(Usage(10, 0), "my-model", prices=[Price("my-model", input=1, output=2)]).usd
    1e-05
    """
    # rows of the model itself come before those of the model without the date of a snapshot
    own = [row for row in prices if row.model == model]
    own = own or [row for row in prices if row.model == _SNAPSHOT.sub("", model)]
    if own:
        tiers = [row for row in own if usage.input_tokens > row.above or not row.above]
        if not tiers:
            lowest = min(row.above for row in own)
            why = (
                f"no price for model '{model}' and a prompt of {usage.input_tokens:,.0f} tokens; "
                f"its lowest tier begins above {lowest:,}"
            )
            return Cost(math.nan, why)
        tier = max(tiers, key=lambda row: row.above)
        if not tier.input + tier.output:
            return Cost(0.0)  # the cache of a free model is free, too
        rates = asdict(tier)
    else:
        listed = _list_prices(model, on or date.today())
        if not listed:
            from genai_prices.data_snapshot import get_snapshot

            own_maker = (maker for maker in get_snapshot().providers if maker.id == _MAKER)
            names = [info.id for maker in own_maker for info in maker.models]
            near = suggest(_SNAPSHOT.sub("", model), names)
            release = f"genai-prices {version('genai-prices')}"
            why = f"no price for model '{model}' in {release}; give your own as prices=.{near}"
            return Cost(math.nan, why)
        rates = {kind: _rate_of_tier(rate, usage) for kind, rate in listed.items()}
    plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    tokens = {
        "input": plain,
        "cache_read": usage.cached_tokens,
        "cache_write_5m": usage.cache_write_tokens - usage.cache_write_1h_tokens,
        "cache_write_1h": usage.cache_write_1h_tokens,
        "output": usage.output_tokens,
    }
    # skip a kind of token that was not used, because its price may be unknown
    usd = sum(rates[kind] * n for kind, n in tokens.items() if n) / _PER
    if not math.isnan(usd):
        return Cost(usd)
    needed = [kind for kind, n in tokens.items() if n and math.isnan(rates[kind])]
    return Cost(math.nan, f"no price for {' and '.join(needed)} of model '{model}'")


@lru_cache(maxsize=256)
def _list_prices(model: str, day: date) -> dict[str, Any]:
    """Return the list prices of a model by kind of token, or an empty dict if it is not known.

    A kind without a price is NaN.
    """
    with extra_imports("live", "The list price of a model"):
        from genai_prices.data_snapshot import get_snapshot

    # noon, because prices start with a day
    moment = datetime.combine(day, time(12), UTC)
    try:
        _, info = get_snapshot().find_provider_model(model, None, _MAKER, None)
    except LookupError:
        return {}
    resolved = info.get_prices(moment)
    rates = {kind: getattr(resolved, name) for kind, name in _KINDS.items()}
    return {kind: math.nan if rate is None else rate for kind, rate in rates.items()}


def _rate_of_tier(rate: Any, usage: Usage) -> float:
    """Return a price for a call; some prices depend on the length of the whole prompt."""
    reached = [tier for tier in getattr(rate, "tiers", ()) if usage.input_tokens > tier.start]
    if reached:
        return float(max(reached, key=lambda tier: tier.start).price)
    return float(getattr(rate, "base", rate))


__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)
