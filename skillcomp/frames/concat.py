"""Several studies next to each other in one set of frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal, require_type
from skillcomp.frames.check import check
from skillcomp.frames.save_frames import TABLES, Frames

# columns with the id of a case, a task, an attempt or a passage
_IDS = (
    *("case_id", "contrast_of", "task", "attempt_id", "source_attempt_id", "passage_id"),
    *("first", "second", "winner", "gold_winner"),
)


def concat(studies: Mapping[str, Frames]) -> Frames:
    """Combine the frames of several studies, with their origin in a column ``study``.

    Nothing is pooled: equal names of cases in two studies are two cases, and an analysis that would
    put answers of several studies into one estimate raises an error. Add ``"study"`` to its ``by``.

    Parameters
    ----------
    studies : mapping of str to Frames
        The frames of each study, by its name.

    Returns
    -------
    Frames
        All frames have a column ``study``. The ids of cases, tasks, attempts and passages begin
        with the name of the study and a slash. In ``problems``, each place begins with the name of
        the study and a colon. Skills, conditions, agents and graders keep their names.

    Raises
    ------
    FrameError
        If there is no study, a value is not a Frames, a frame has a column ``study`` already, or
        the gold labels of two studies were drawn in different ways.

    See Also
    --------
    skillcomp.read_results : Reads the results of another tool.
    skillcomp.deltas.contrast : Compares estimates of two groups on the same cases.

    Examples
    --------
    >>> import pandas as pd
    >>> import skillcomp as sc
    >>> table = pd.DataFrame({"case": "a", "condition": ["baseline", "skill"], "passed": True})
    >>> own = sc.from_frame(table.assign(skill="tea"))
    >>> both = concat({"may": own, "june": own})
    >>> both.cases[["study", "skill", "case_id"]]
      study skill case_id
    0   may   tea   may/a
    1  june   tea  june/a
    """
    if not isinstance(studies, Mapping) or not studies:
        raise FrameError(
            f"concat: found {literal(studies)}; expected a mapping of names to frames, such as "
            "{'may': frames, 'june': others}."
        )
    for name, study in studies.items():
        source = "sc.read_results or sc.from_frame"
        require_type(f"concat: {literal(name)}", study, Frames, source, FrameError)
    drawn = {(s.gold_drawn, s.drawn_by) for s in studies.values() if len(s.gold)}
    if len(drawn) > 1:
        raise FrameError(
            f"concat: the gold labels were drawn in different ways ({sorted(map(str, drawn))}). "
            "Correct each study alone, or leave the labels of one out: "
            "dataclasses.replace(frames, gold=sc.frames.empty('gold'))."
        )
    tables = (*TABLES, "outcomes")
    made: dict[str, Any] = {table: _combined_rows(studies, table) for table in tables}
    problems = [
        study.problems.assign(place=f"{name}: " + study.problems["place"])
        for name, study in studies.items()
    ]
    made["problems"] = pd.concat(problems, ignore_index=True)
    made["skills"] = {
        slug: text for study in studies.values() for slug, text in study.skills.items()
    }
    for name, study in studies.items():
        odd = [slug for slug, text in study.skills.items() if made["skills"][slug] != text]
        if odd:
            raise FrameError(
                f"concat: {literal(name)}: another study has a source '{odd[0]}' with another "
                "text. Rename one."
            )
    gold_drawn, drawn_by = next(iter(drawn), ("random", None))
    return Frames(**made, gold_drawn=gold_drawn, drawn_by=drawn_by)


def _combined_rows(studies: Mapping[str, Frames], table: str) -> pd.DataFrame:
    """Combine the frames of one kind from all studies."""
    parts = []
    for name, study in studies.items():
        frame: pd.DataFrame = getattr(study, table)
        if "study" in frame:
            raise FrameError(
                f"concat: {literal(name)}: {table} have a column 'study' already. Rename it."
            )
        ids = {column: f"{name}/" + frame[column] for column in _IDS if column in frame}
        for column in {"winner", "gold_winner"} & set(ids):
            ids[column] = ids[column].where(frame[column].ne("tie"), "tie")
        parts.append(frame.assign(**ids, study=str(name)))
    filled = [part for part in parts if len(part)] or parts[:1]
    return check(pd.concat(filled, ignore_index=True), table).astype({"study": "str"})
