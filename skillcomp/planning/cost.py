"""What a study will cost before it is run: tokens and dollars, with and without the discounts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pandas as pd

from skillcomp import pricing
from skillcomp.errors import FrameError, StudyError
from skillcomp.planning.calls import (
    CHARS_PER_TOKEN,
    Caller,
    Calls,
    CostedStudy,
    Counter,
    Loaded,
    answer_lengths,
    by_slug,
    listed_agents,
    minimum_prefix,
)
from skillcomp.records import Skill, Suite

__all__ = ["MODES", "cost_estimate", "cost_total"]

MODES = ("plain", "cached", "batched", "both")
ANSWER_TOKENS = 300.0  # an answer of 180 words, the mean of the pilot's 420
_COLUMNS = {
    "role": "str",
    "name": "str",
    "model": "str",
    "condition": "str",
    "mode": "str",
    "planned": "bool",
    "n_calls": "int64",
    "input_tokens": "float64",
    "cached_tokens": "float64",
    "cache_write_tokens": "float64",
    "output_tokens": "float64",
    "cost_usd": "float64",
    "counted": "bool",
    "note": "str",
}


def cost_estimate(
    suites: Suite | Iterable[Suite] | Mapping[str, Suite],
    skills: Skill | Iterable[Skill] | Mapping[str, Skill],
    agents: Any,
    graders: Any = (),
    conditions: Sequence[str] = ("baseline", "skill"),
    repeats: int | Mapping[str, int] = 1,
    *,
    batch: bool = False,
    caching: bool = True,
    loaded: Loaded | None = None,
    attempts: pd.DataFrame | None = None,
    client: Any = None,
    answer_tokens: float = ANSWER_TOKENS,
    thinking_tokens: float = 0.0,
    on: date | None = None,
    prices: Sequence[pricing.Price] = (),
) -> pd.DataFrame:
    """Say what a study will cost in tokens and dollars, before anything is spent.

    Every case is asked of every agent under every condition, `repeats` times, and every answer is
    graded once by every grader, one answer a call.

    Parameters
    ----------
    suites, skills : records, iterables of them, or mappings such as ``store.suites``
        Each suite's skill has to be among the skills.
    agents, graders : str, object with ``model``, or a sequence of them
        Names of models, agents, or graders; a grader's ``style`` decides its prompt (``forced``
        where there is none).
    conditions : sequence of str
        ``baseline`` loads nothing, ``skill`` the suite's skill. ``placebo`` and ``previous`` load
        what `loaded` gives; where it gives nothing, a text as long as the skill.
    repeats : int or mapping of str to int, default 1
        Attempts of each case, or that number by condition.
    batch, caching : bool
        Which mode is planned; all four are shown whatever is chosen.
    loaded : mapping of str to text, Skill, or mapping of slug to either, optional
        What a condition loads, for each suite's skill or for all.
    attempts : pandas.DataFrame, optional
        Answers of a pilot, columns case_id, condition and answer: their lengths by case and
        condition (else by condition, else over all) take the place of `answer_tokens`.
    client : object or callable, optional
        Counts tokens: a synchronous anthropic client, or a function of model and text. Asked once
        for each text. Without it tokens are estimated.
    answer_tokens : float, default 300
        Length of an answer.
    thinking_tokens : float, default 0
        Added to the output of every call; priced as output. Unknown before a first run.
    on : datetime.date, optional
        Day of the prices; today when not given.
    prices : sequence of Price, optional
        The user's own prices, used before the table.

    Returns
    -------
    pandas.DataFrame
        One row per role (``agent``, ``grader``), name, model, condition and mode: ``planned``
        (the mode chosen), ``n_calls``, ``input_tokens`` (whole prompts), ``cached_tokens`` and
        ``cache_write_tokens`` (parts of them), ``output_tokens``, ``cost_usd`` (NaN when a price is
        unknown), ``counted`` (False: estimated) and ``note``. Modes: ``plain``, ``cached``,
        ``batched``, ``both``.

    Raises
    ------
    StudyError
        When a suite's skill is missing, a condition is unknown and not in `loaded`, `repeats` is
        below one, or nothing would be asked.
    FrameError
        When `attempts` lacks a column.

    See Also
    --------
    cost_total : One row a mode, over everything.

    Notes
    -----
    Without a client a token is 3.5 characters of English, the figure of Anthropic's glossary;
    newer tokenizers give up to 30 % more, and code and other languages more still. Instructions
    are measured on the prompts' templates. Output is an assumption: the answers' length as above;
    a verdict with its quote and reason 225 characters, as in the pilot.

    With caching, the first call writes the loaded skill (an agent) or instructions and skill (a
    grader) into the cache, once for a skill and shared by a grader's conditions, and all further
    calls read it. This takes it that calls follow one another within the cache's five minutes,
    and in a batch, where hits are best effort, that they hit as well: a lower bound. Prefixes
    below the model's minimum are not cached, and the note says so. Not in the figure: retries,
    malformed replies asked again, refusals, gold and retests, tools and traces of CLI agents,
    taxes and discounts.

    Examples
    --------
    >>> from datetime import date
    >>> from skillcomp.records import Case, Skill, Suite
    >>> suite = Suite(slug="tea", skill="tea", cases=(Case(case_id="tea/1", prompt="x" * 320),))
    >>> found = cost_estimate(suite, Skill(slug="tea", text="y" * 7000), "claude-opus-5-5",
    ...                       conditions=["skill"], repeats=10, on=date(2026, 11, 21))
    >>> found.set_index("mode")["cost_usd"].round(4).to_dict()
    {'plain': 0.1447, 'cached': 0.0777, 'batched': 0.0724, 'both': 0.0389}
    """
    study = CostedStudy(
        by_slug(suites, "suites"), by_slug(skills, "skills"), list(conditions), repeats,
        loaded or {}, Counter(client), answer_tokens, thinking_tokens, answer_lengths(attempts),
    )  # fmt: skip
    named = listed_agents(agents)
    who = [study.agent(agent) for agent in named]
    who += [study.grader(grader, len(named)) for grader in listed_agents(graders)]
    if not any(calls.n for one in who for some in one.calls.values() for calls in some):
        raise StudyError("cost_estimate: nothing would be asked: no agent, no grader or no case.")
    planned = _mode(caching, batch)
    rows = [
        {**row, "planned": mode == planned}
        for one in who
        for mode in MODES
        for row in _rows(one, mode, on, prices)
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def cost_total(estimate: pd.DataFrame) -> pd.DataFrame:
    """Add up what `cost_estimate` found, mode by mode.

    Parameters
    ----------
    estimate : pandas.DataFrame
        As returned by `cost_estimate`, or rows of it.

    Returns
    -------
    pandas.DataFrame
        One row per mode: mode, planned, n_calls, input_tokens, output_tokens, ``cost_usd`` (NaN as
        soon as one part is unknown), ``ratio`` (of the plain cost) and ``note`` (what is unknown).

    Raises
    ------
    FrameError
        When a column is missing.
    """
    absent = [name for name in _COLUMNS if name not in estimate.columns]
    if absent:
        raise FrameError(f"cost_total: there is no column '{absent[0]}'; give cost_estimate's.")
    rows = []
    for mode, part in estimate.groupby("mode", sort=False):
        unknown = part.loc[part["cost_usd"].isna(), "note"].dropna().unique()
        rows.append(
            {
                "mode": mode,
                "planned": bool(part["planned"].all()),
                "n_calls": int(part["n_calls"].sum()),
                "input_tokens": part["input_tokens"].sum(),
                "output_tokens": part["output_tokens"].sum(),
                # an unknown part makes the sum unknown
                "cost_usd": part["cost_usd"].sum(skipna=False),
                "note": "; ".join(unknown) or None,
            }
        )
    table = pd.DataFrame(rows)
    plain = table.loc[table["mode"].eq("plain"), "cost_usd"]
    base = plain.iloc[0] if len(plain) and plain.iloc[0] else math.nan
    table.insert(6, "ratio", table["cost_usd"] / base)
    return table.astype({"mode": "str", "note": "str"})


def _rows(
    who: Caller, mode: str, on: date | None, prices: Sequence[pricing.Price]
) -> Iterator[dict[str, Any]]:
    """Yield one row a condition; a prefix is written once and read from then on."""
    written: set[str] = set()
    least = minimum_prefix(who.model)
    for condition, calls in who.calls.items():
        sums = dict.fromkeys(("input", "output", "cached", "write", "usd"), 0.0)
        notes = [who.notes[condition]] if condition in who.notes else []
        for call in calls:
            for usage, n in _usages(call, mode, least, written):
                cost = _cost(usage, who.model, mode, on, prices)
                sums["usd"] += cost.usd * n
                notes += [cost.note] if cost.note else []
                for name, value in (
                    ("input", usage.input_tokens),
                    ("output", usage.output_tokens),
                    ("cached", usage.cached_tokens),
                    ("write", usage.cache_write_tokens),
                ):
                    sums[name] += value * n
            if _caches(mode) and 0 < call.prefix < least:
                notes.append(f"prefixes below {least:,} tokens are not cached")
        if not who.counted:
            notes.append(f"tokens estimated at {CHARS_PER_TOKEN} characters each")
        yield {
            "role": who.role,
            "name": who.name,
            "model": who.model,
            "condition": condition,
            "mode": mode,
            "n_calls": sum(call.n for call in calls),
            "input_tokens": sums["input"],
            "cached_tokens": sums["cached"],
            "cache_write_tokens": sums["write"],
            "output_tokens": sums["output"],
            "cost_usd": sums["usd"],
            "counted": who.counted,
            "note": "; ".join(dict.fromkeys(notes)) or None,
        }


def _usages(
    call: Calls, mode: str, least: int, written: set[str]
) -> Iterator[tuple[pricing.Usage, int]]:
    whole, n = call.prefix + call.rest, call.n
    if not n:
        return
    if not _caches(mode) or call.prefix < least:
        yield pricing.Usage(whole, call.output), n
        return
    if call.key not in written:
        written.add(call.key)
        yield pricing.Usage(whole, call.output, cache_write_tokens=call.prefix), 1
        n -= 1
    if n:
        yield pricing.Usage(whole, call.output, cached_tokens=call.prefix), n


def _cost(
    usage: pricing.Usage,
    model: str | None,
    mode: str,
    on: date | None,
    prices: Sequence[pricing.Price],
) -> pricing.Cost:
    if model is None:
        return pricing.Cost(math.nan, "no model is named, so no price is known")
    batch = mode in ("batched", "both")
    return pricing.cost(usage, model, batch=batch, on=on, prices=prices)


def _caches(mode: str) -> bool:
    return mode in ("cached", "both")


def _mode(caching: bool, batch: bool) -> str:
    return MODES[caching + 2 * batch]
