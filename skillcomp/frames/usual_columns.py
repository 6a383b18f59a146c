"""Usual names of columns, and the argument that each of them stands for."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import product
from typing import Any

import pandas as pd

# for each argument, names that its column often has in tables, the most likely first
_COLUMN_NAMES = {
    "skill": "plugin toolkit package",
    "case": "case_id task task_id item item_id question question_id problem problem_id instance"
    " instance_id example example_id id",
    "condition": "arm variant setup group config configuration treatment mode setting",
    "passed": "pass ok solved success correct result resolved outcome verdict is_correct",
    "repeat": "trial run seed sample try rep replicate iteration epoch attempt_number",
    "attempt": "attempt_id answer_id trial_id response_id run_id",
    "grader": "judge judge_name judge_model rater evaluator scorer annotator",
    "check": "check_id assertion criterion rubric expectation",
    "agent": "model system assistant",
    "text": "passage answer submission content response",
    "source": "source_text original reference task source_id",
    "label": "level category copied plagiarised class",
    "gold": "gold_winner",
    "winner": "preference preferred verdict judgement judgment choice prediction vote label",
    "order": "swap swapped is_swapped presentation_order",
}

# Names of columns such as model_a and output_1 consist of a word and a side. Words of the first
# line mean that the column holds names of systems, those of the second that it holds texts.
SYSTEMS = ("model", "system", "agent")
TEXTS = ("output", "response", "answer", "completion", "text", "candidate")
_SIDES = (("first", "second"), ("a", "b"), ("1", "2"), ("left", "right"))


def columns_of_answers(frame: pd.DataFrame, used: Collection[Any]) -> list[list[Hashable]]:
    """Return the pairs of unused columns that may hold two answers, by their names.

    Columns called first and second are preferred, and names of systems to texts.
    """
    labels = {plain_label(label): label for label in frame.columns if label not in used}
    for nouns, sides in (([""], _SIDES[:1]), (SYSTEMS, _SIDES), (TEXTS, _SIDES)):
        pairs = [(n + a, n + b) for n, (a, b) in product(nouns, sides)]
        pairs += [(a + n, b + n) for n, (a, b) in product(nouns, sides) if n]
        columns = [[labels[name] for name in pair] for pair in pairs if labels.keys() >= {*pair}]
        if columns:
            return columns
    return []


def plain_label(label: Hashable) -> str:
    """Return the name of a column in lower case, without separators."""
    return re.sub(r"[\s_.-]", "", str(label).casefold())


def usual_columns(role: str, frame: pd.DataFrame, used: Collection[Any]) -> list[Hashable]:
    """Return the unused columns with a name that fits the argument ``role``.

    A column with the name ``role`` itself is returned alone. Without such a column, all columns
    with usual names for this argument are returned.
    """
    labels = {str(label).casefold(): label for label in frame.columns if label not in used}
    if role in labels:
        return [labels[role]]
    return [labels[name] for name in _COLUMN_NAMES.get(role, "").split() if name in labels]


def columns_with_roles(
    frame: pd.DataFrame, names: Mapping[str, Hashable], roles: Iterable[str]
) -> str:
    """Return a line that lists all columns with the argument that the name of each stands for.

    Only names count, never values. ``names`` are the columns that the caller named, by argument.

    Examples
    --------
    >>> frame = pd.DataFrame(columns=["task", "setup", "latency"])
    >>> columns_with_roles(frame, {"case": "task"}, ["case", "condition", "repeat"])
    'Columns: case=task, condition=setup; no role: latency.'
    """
    found = {role: name for role, name in names.items() if name in frame.columns}
    known = set(map(str, frame.columns))
    for role in sorted(roles, key=lambda role: role not in known):
        if role not in found:
            found |= dict(zip([role], usual_columns(role, frame, found.values()), strict=False))
    rest = [str(name) for name in frame.columns if name not in found.values()]
    pairs = [f"{role}={name}" for role, name in found.items()]
    return f"Columns: {', '.join(pairs) or 'none'}; no role: {', '.join(rest) or 'none'}."


def differing_columns(frame: pd.DataFrame, place: pd.Series) -> str:
    """List the columns of which the values differ between rows of one place."""
    return ", ".join(
        f"'{name}'"
        for name, values in frame.astype("str").items()
        if values.groupby(place).nunique().gt(1).any()
    )
