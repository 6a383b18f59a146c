"""The completed call of a function that reads a table, with likely columns filled in."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from difflib import get_close_matches
from typing import Any

import pandas as pd

from skillcomp.frames.words import as_literal, condition_names, distinct_words

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
_DEFAULTS: dict[str, Any] = {name: name for name in ("skill", "case", "condition", "passed")}
_DEFAULTS |= {name: name for name in ("text", "source", "label")}
_DEFAULTS |= {"checks": "all", "missing": [], "gold_drawn": "random"}
_FEW_WORDS = 12  # a column with more values than this is not suggested as the column of conditions


def likely_column(role: str, frame: pd.DataFrame, used: Collection[Any]) -> Hashable | None:
    """Return the unused column that best fits the argument ``role``, by its name or its values."""
    labels = {str(label).casefold(): label for label in frame.columns if label not in used}
    for name in (role, *_COLUMN_NAMES.get(role, "").split()):
        if name in labels:
            return labels[name]
    near = get_close_matches(role, list(labels), n=1, cutoff=0.75)
    if near:
        return labels[near[0]]
    for label in labels.values() if role == "condition" else ():
        words = distinct_words(frame[label])
        if len(words) <= _FEW_WORDS and "baseline" in condition_names(words).values():
            return label
    return None


def column_candidates(role: str, frame: pd.DataFrame, used: Collection[Any]) -> list[Hashable]:
    """Return the unused columns with a name that fits the argument ``role``.

    A column with the name ``role`` itself is returned alone. Without such a column, all columns
    with usual names for this argument are returned.
    """
    labels = {str(label).casefold(): label for label in frame.columns if label not in used}
    if role in labels:
        return [labels[role]]
    return [labels[name] for name in _COLUMN_NAMES.get(role, "").split() if name in labels]


def separating_column(frame: pd.DataFrame, place: list[Any], used: Collection[Any]) -> Any:
    """Return (argument, column) for a column that distinguishes rows with equal keys, or None.

    Columns with the usual names come first, then columns of whole numbers. Times do not count,
    because they also differ between an answer and its retry.
    """
    for role in ("repeat", "attempt", "grader", "check"):
        name = likely_column(role, frame, used)
        if name is not None and not pd.concat([*place, frame[name]], axis=1).duplicated().any():
            return role, name
    for name in frame.columns:
        is_free = name not in used and frame[name].dtype.kind in "iu"
        if is_free and not pd.concat([*place, frame[name]], axis=1).duplicated().any():
            return "repeat", name
    return None


def call_text(arguments: Mapping[str, Any], function: str = "from_frame") -> str:
    """Return the code of a call with these arguments; leave out arguments with default values."""
    parts = []
    for role, value in arguments.items():
        is_frame = isinstance(value, pd.DataFrame)
        if is_frame or not (value is _DEFAULTS.get(role) or value == _DEFAULTS.get(role)):
            parts.append(f"{role}={role if is_frame else as_literal(value)}")
    return f"sc.{function}({', '.join(['table', *parts])})"
