"""Find the column with the arms in a table of results, and the condition that a word means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.frames.words import distinct_words
from skillcomp.readers.reader import (
    ARM_WORDS,
)

_MEANINGS = "baseline, skill, placebo, previous or a name of your own"
_FEW = 12  # a column with more distinct words than this is not suggested as the column of the arms


class UnknownArmsError(FrameError):
    """Raised if the meaning of a file's words for the arms is unknown.

    Attributes
    ----------
    words : list of str
        The words of the arms.
    example : dict of str to str
        A condition for each word.
    """

    def __init__(self, message: str, words: list[str], example: dict[str, str]) -> None:
        super().__init__(message)
        self.words, self.example = words, example


def with_conditions(
    table: pd.DataFrame,
    conditions: Mapping[Any, str] | None,
    place: str,
    sides: Collection[str] = (),
) -> pd.DataFrame:
    """Return the table with a condition in each row instead of the tool's word for the arm.

    Without a column ``condition``, the column that holds all keys of `conditions` names the arms.
    `sides` are the words for the arms in comparisons; `conditions` may contain them, too.
    """
    meanings = {str(word): str(name) for word, name in (conditions or {}).items()}
    if "condition" not in table.columns:
        table = table.assign(condition=table[_column_of_arms(table, meanings, place)])
        if "agent" in table.columns and table["agent"].nunique() > 1:
            pairs = table[["condition", "agent"]].drop_duplicates()
            if pairs["agent"].is_unique and pairs["condition"].is_unique:
                # each arm has one agent of its own, so `agent` is only another name of the arm
                table = table.assign(agent=None)
    words = list(map(str, distinct_words(table["condition"])))
    if table["condition"].isna().any():
        raise FrameError(f"{place}: some rows name no arm.")
    strange = [word for word in meanings if word not in {*words, *sides}]
    if strange:
        raise FrameError(
            f"{place}: conditions=: there is no arm {literal(strange[0])}; there: "
            f"{', '.join(words)}."
        )
    unknown = [word for word in words if word not in ARM_WORDS and word not in meanings]
    if unknown:
        example = _example_meanings({word: {**ARM_WORDS, **meanings}.get(word) for word in words})
        raise UnknownArmsError(
            f"{place}: the arms are called {', '.join(words)}; the meaning of "
            f"{' and '.join(map(literal, unknown))} is not in the file. "
            f"Name it: conditions={example} ({_MEANINGS}).",
            words,
            example,
        )
    names = {**ARM_WORDS, **meanings}
    return table.assign(condition=table["condition"].astype("str").map(names))


def _column_of_arms(table: pd.DataFrame, meanings: Mapping[str, str], place: str) -> str:
    """Return the column that contains all keys of `conditions`; raise if there is none."""
    words = {name: [str(word) for word in distinct_words(table[name])] for name in table.columns}
    for name, present in words.items():
        if meanings and set(meanings) <= set(present):
            return str(name)
    several = {n: w for n, w in words.items() if 2 <= len(w) <= _FEW and n not in _NO_ARMS}
    if table.get("case", pd.Series()).nunique() > 1:
        of_case = table.groupby("case")[list(several)].nunique().max()
        several = {n: w for n, w in several.items() if of_case[n] > 1} or several
    names = sorted(several, key=lambda name: (name in _OF_AGENT, len(several[name])))
    start = f"{place}: the file does not say which answers had the skill."
    files = "one file per arm: {'baseline': path, 'skill': path}."
    if not names:
        raise FrameError(f"{start} No field has several words; give {files}")
    listed = {n: (literal(w) if not w.strip() else f"{w:.60}" for w in several[n]) for n in names}
    listing = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in listed.items())
    example = _example_meanings(dict.fromkeys(several[names[0]]))
    raise FrameError(
        f"{start} Name the words of the arms: conditions={example}, or give {files} "
        f"Fields with several words: {listing}."
    )


_NO_ARMS = {
    *("passed", "check", "status", "case", "grader", "repeat", "score", "rationale", "error"),
    *("grader_kind", "verdict_status", "triggered", "check_kind", "check_weight"),
    *("prompt", "answer", "seconds", "cost_usd", "input_tokens", "cached_tokens", "output_tokens"),
    *("started_at", "stop_reason"),
}
# columns of the agent, which an error message lists last because they rarely name the arms
_OF_AGENT = ("agent", "agent_model", "provider", "provider_label")


def _example_meanings(meanings: Mapping[str, str | None]) -> dict[str, str]:
    """Return a condition for each word; a word with None gets an example condition."""
    unused = [name for name in ("baseline", "skill") if name not in meanings.values()]
    examples = iter([*unused, *["..."] * len(meanings)])
    return {word: name or next(examples) for word, name in meanings.items()}
