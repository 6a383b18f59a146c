"""The arms of a table of results: which column names them, and the condition of each word."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.frames.words import distinct_words
from skillcomp.readers.reader import ARM_WORDS

_MEANINGS = "baseline, skill, placebo, previous or a name of your own"
_FEW = 12  # a column with more words is not listed as one that may name the arms


class UnknownArmsError(FrameError):
    """The file names the arms by words without a known meaning; ``words`` lists the words."""

    def __init__(self, message: str, words: list[str]) -> None:
        super().__init__(message)
        self.words = words


def with_conditions(
    table: pd.DataFrame,
    conditions: Mapping[Any, str] | None,
    place: str,
    sides: Collection[str] = (),
) -> pd.DataFrame:
    """Return the table with a condition in each row instead of the tool's word for the arm.

    Without a column ``condition``, the column that holds all keys of `conditions` names the arms.
    `sides` are words of comparisons, which `conditions` may name too.
    """
    meanings = {str(word): str(name) for word, name in (conditions or {}).items()}
    if "condition" not in table.columns:
        table = table.assign(condition=table[_column_of_arms(table, meanings, place)])
        if "agent" in table.columns and table["agent"].nunique() > 1:
            pairs = table[["condition", "agent"]].drop_duplicates()
            if pairs["agent"].is_unique and pairs["condition"].is_unique:
                table = table.assign(agent=None)  # the arm, and not another agent
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
        raise UnknownArmsError(
            f"{place}: the arms are called {', '.join(words)}; what each means is not in the file. "
            f"Name it: conditions={_example_mapping(unknown)} ({_MEANINGS}).",
            words,
        )
    names = {**ARM_WORDS, **meanings}
    return table.assign(condition=table["condition"].astype("str").map(names))


def _column_of_arms(table: pd.DataFrame, meanings: Mapping[str, str], place: str) -> str:
    """Return the column whose words are the keys of `conditions`."""
    words = {name: [str(word) for word in distinct_words(table[name])] for name in table.columns}
    for name, present in words.items():
        if meanings and set(meanings) <= set(present):
            return str(name)
    several = {n: w for n, w in words.items() if 2 <= len(w) <= _FEW and n not in _NO_ARMS}
    listing = "; ".join(f"{name}: {', '.join(present)}" for name, present in several.items())
    example = _example_mapping(next(iter(several.values()), ["a", "b"]))
    raise FrameError(
        f"{place}: the file does not say which answers had the skill. Name the words of the arms: "
        f"conditions={example}, or give one file per arm: {{'baseline': path, 'skill': path}}. "
        f"Fields with several words: {listing or 'none'}."
    )


_NO_ARMS = {
    *("passed", "check", "status", "case", "grader", "repeat", "score", "rationale", "error"),
    *("grader_kind", "verdict_status", "triggered", "check_kind", "check_weight"),
}


def _example_mapping(words: list[str]) -> str:
    """Return a mapping of the words as code, with the words that the user has to replace."""
    names = ["'baseline'", "'skill'", *["'...'"] * len(words)]
    return f"{{{', '.join(f'{word!r}: {name}' for word, name in zip(words, names, strict=False))}}}"
