"""Collect the notes of the estimates that a page shows, by topic and subject."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillcomp.report.phrases import listing
from skillcomp.style import called

# name of a frame -> topic of the sentences on it
_TOPICS = {
    **dict.fromkeys(("decided", "placebo", "previous"), "skill"),
    **dict.fromkeys(("effects", "explained"), "structure"),
    **dict.fromkeys(("triggers", "goals", "controls"), "trigger"),
    "overall": "summary",
    "gap": "transfer",
    "dimensions": "dimension",
    "price": "price",
    "drift": "drift",
    "corrected": "correction",
    "needed": "limits",
}
# columns that identify a row; the first of them in a frame is the subject of its notes
_KEYS = ["skill", "grader", "feature", "agent", "condition", "scope", "effect", "at", "kind"]
_KEYS += ["goal", "estimator", "sought", "measure"]


def notes_of(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the notes of the frames of an answer.

    Parameters
    ----------
    frames : mapping of str to pandas.DataFrame
        The frames of an :class:`skillcomp.report.Answer`.

    Returns
    -------
    pandas.DataFrame
        One row per frame, subject and note: topic (as in :func:`findings` for the main estimates;
        ``grader`` for all other frames), about (a skill, grader, feature or condition), text (the
        names of the rows, and their note).
    """
    rows = []
    for name, frame in frames.items():
        keys = [key for key in _KEYS if key in frame.columns and frame[key].nunique() > 1]
        about = next((key for key in _KEYS if key in frame.columns), None)
        if "note" not in frame.columns or about is None:
            continue
        noted = frame[frame["note"].fillna("").ne("")]
        for (subject, note), part in noted.groupby([about, "note"], sort=False, dropna=False):
            labels = [_label_of_rows(part, key, frame) for key in keys if key != about]
            versus = f"against {name}" if name in ("placebo", "previous") else ""
            labels = [called(subject) if isinstance(subject, str) else "", versus, *labels]
            text = f"{', '.join(filter(None, labels))}: {note}"
            rows.append((_TOPICS.get(name, "grader"), str(subject), text))
    return pd.DataFrame(rows, columns=["topic", "about", "text"])


def _label_of_rows(part: pd.DataFrame, key: str, frame: pd.DataFrame) -> str:
    """List the values of `part` in the column `key`; empty if `frame` has no other values."""
    values = [value for value in part[key].dropna().unique() if value != ""]
    if not values or (len(values) > 1 and len(values) == frame[key].nunique()):
        return ""
    return listing(map(called, values))
