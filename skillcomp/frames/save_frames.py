"""The frames of one study, how they are saved as a store, and several studies side by side."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, StoreError, literal, plural, require_type
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CAUTION, CONTRACTS
from skillcomp.frames.estimates import require_rows
from skillcomp.frames.reference_labels import Drawn
from skillcomp.frames.table_reader import Change, changes_frame
from skillcomp.io.files import as_path
from skillcomp.io.json_lines import RECORDS, schema
from skillcomp.io.store import RECORDED, SAVED_FRAMES, SOURCE, RunStore, replayed_agents
from skillcomp.io.study_overview import overview_facts, overview_html
from skillcomp.stats.results import Fields

TABLES = ("cases", "attempts", "verdicts", "gold", "pairwise", "passages")
# columns that a reader of the store computes again from the other columns
_DERIVED = {"attempts": ("n_words",), "verdicts": ("evidence_found",)}


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of one study, each checked against its contract.

    It unpacks into its first five frames, in this order.

    Attributes
    ----------
    cases, attempts, verdicts, outcomes, gold : pandas.DataFrame
        Frames like those that the readers of :mod:`skillcomp.frames` return. ``gold`` is empty if
        there are no labels.
    pairwise, passages : pandas.DataFrame
        Comparisons of two answers and labelled passages; empty unless a reader adds them.
    problems : pandas.DataFrame
        One row per kind of value that was converted or dropped, and per known distortion of the
        results: ``place`` (column, field and argument), ``found``, ``done`` (what became of it, or
        the consequence) and ``n`` (number of rows; 0 if it concerns the whole study).
    gold_drawn, drawn_by : str
        How the labels were drawn, as in :func:`skillcomp.correction.delta`.
    columns : mapping of str to str
        For each argument of :func:`skillcomp.from_frame`, the name of its column in the table.
    skills : mapping of str to str
        The texts of the skills, or of the sources of passages, by name.
    """

    cases: pd.DataFrame
    attempts: pd.DataFrame
    verdicts: pd.DataFrame
    outcomes: pd.DataFrame
    gold: pd.DataFrame
    pairwise: pd.DataFrame = field(default_factory=partial(empty, "pairwise"))
    passages: pd.DataFrame = field(default_factory=partial(empty, "passages"))
    problems: pd.DataFrame = field(default_factory=partial(changes_frame, ()))
    gold_drawn: Drawn = "random"
    drawn_by: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield cases, attempts, verdicts, outcomes and gold."""
        return iter((self.cases, self.attempts, self.verdicts, self.outcomes, self.gold))

    def __repr__(self) -> str:
        """Return one line with the numbers of skills, cases, attempts, verdicts and labels."""
        return f"Frames({', '.join(self._row_counts())})"

    def _repr_html_(self) -> str:
        """Return the contents of the frames in a few lines, and how the table was read."""
        skills = list(self.cases["skill"].unique())
        facts = overview_facts(
            skills, len(self.cases), self.attempts, self.verdicts, len(self.gold)
        )
        changes = self.problems.to_dict("records")
        return overview_html("Frames", facts, columns=self.columns, changes=changes)

    def _row_counts(self) -> list[str]:
        sizes = {
            "skill": self.cases["skill"].nunique(),
            "case": len(self.cases),
            "attempt": len(self.attempts),
            "verdict": len(self.verdicts),
            "gold label": len(self.gold),
        }
        sizes |= {"comparison": len(self.pairwise)} if len(self.pairwise) else {}
        if len(self.passages) and not len(self.cases):
            sizes = {"source": len(self.skills), "passage": len(self.passages)}
        return [plural(n, what) for what, n in sizes.items()]

    @property
    def fingerprint(self) -> str:
        """The sha256 of the contents of the frames."""
        frames = (*self, self.pairwise, self.passages)
        texts = [frame.to_csv(index=False) for frame in frames]
        texts += [f"{name}\n{text}" for name, text in self.skills.items()]
        return sha256("\n".join(texts).encode()).hexdigest()

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the frames as a store that :class:`skillcomp.RunStore` opens.

        The readers of :mod:`skillcomp.frames` return equal frames from this store, so every
        chapter and command that reads a store also reads your table.

        Parameters
        ----------
        folder : str or path
            A new or empty folder.
        overwrite : bool, default False
            Whether to replace frames that were saved in this folder before. A recorded study is
            never replaced, nor is a folder that also holds other files.

        Returns
        -------
        pathlib.Path
            The folder.

        Raises
        ------
        FrameError
            If the folder holds other things, a frame has a column that a store cannot hold, or a
            verdict belongs to an attempt that is missing from ``attempts``.
        StoreError
            If the folder cannot be written.

        Notes
        -----
        Cases, attempts, verdicts, gold, pairs and passages are one JSON Lines file each; no file
        is named after a value. What a table does not have, such as the text of a skill or a
        prompt, is unknown in the store, too: ``store.suites`` is empty, and ``store.skills`` has
        only the sources of passages.
        ``outcomes`` is not stored: :func:`skillcomp.frames.outcomes` computes it from verdicts,
        cases and attempts, with ``checks="shared"`` if you had set it.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import pandas as pd
        >>> import skillcomp as sc
        >>> table = pd.DataFrame({"case": "a", "condition": ["baseline", "skill"], "passed": True})
        >>> own = sc.from_frame(table, skill=None)
        >>> with TemporaryDirectory() as folder:
        ...     store = sc.RunStore(own.save(folder))
        ...     sc.frames.verdicts(store)[["case_id", "condition", "passed"]]
          case_id condition  passed
        0       a  baseline    True
        1       a     skill    True
        """
        # resolve a link, so that its target is replaced, and not the link
        place = as_path(folder, "save: folder", FrameError).resolve()
        rows = {table: _rows_of_table(self, table) for table in TABLES}
        rows["passages"] += [
            {"passage_id": f"{SOURCE}/{slug}", "skill": slug, "document": slug}
            | {"level": SOURCE, "text": text}
            for slug, text in self.skills.items()
        ]
        require_rows(self.verdicts, self.attempts, ["attempt_id"], "save", "attempts")
        about = {
            "gold_drawn": self.gold_drawn,
            "drawn_by": self.drawn_by,
            "columns": dict(self.columns),
            "problems": _table_records(self.problems),
        }
        try:
            _require_free(place, overwrite)
            place.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=place.parent, prefix=".saving-") as parent:
                store = RunStore(Path(parent) / "study")
                with store.writer():
                    # store no time of creation, so that equal frames have equal fingerprints
                    store.annotate(created=None, **{SAVED_FRAMES: about})
                    for table, records in rows.items():
                        store.append(table, records)
                if place.exists():
                    shutil.rmtree(place)
                os.replace(store.path, place)
        except OSError as cause:
            reason = f"the folder cannot be written ({cause.strerror})"
            raise StoreError(f"save: {place}: {reason}.") from cause
        return place


def saved_facts(store: RunStore) -> Fields:
    """Return the facts that `Frames.save` stored in the manifest, and the agents that replayed.

    {} for a store without such facts and agents.
    """
    about = dict(store.manifest.get(SAVED_FRAMES, {}))
    rows = [Change(**row) for row in about.get("problems", [])]
    rows += [Change("agents", name, RECORDED, 0) for name in replayed_agents(store)]
    return {**about, "problems": changes_frame(rows)} if about or rows else {}


def _require_free(place: Path, overwrite: bool) -> None:
    """Raise FrameError if the folder holds anything that `save` may not replace."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    saved = place.is_dir() and SAVED_FRAMES in RunStore(place).manifest
    written = {"manifest.json", ".writer.lock", *(f"{table}.jsonl" for table in TABLES)}
    others = (
        sorted(path.name for path in place.iterdir() if path.name not in written) if saved else []
    )
    if saved and overwrite and not others:
        return
    hint = "overwrite=True replaces it" if saved and not others else "name an empty or new folder"
    holds = "saved frames already" if saved else "other things"
    holds = f"saved frames and other things, such as '{others[0]}'" if others else holds
    raise FrameError(f"save: {place} holds {holds}; {hint}.")


def _rows_of_table(study: Frames, table: str) -> list[Fields]:
    """Return the rows of a frame as mappings; refuse columns that a store cannot hold."""
    frame: pd.DataFrame = getattr(study, table)
    columns = list(frame.columns) if table == "cases" else list(schema(table).names)
    known = [
        *columns,
        *CONTRACTS[table].columns,
        *CONTRACTS["cases"].columns,
        *study.cases,
        "agent_model",
        CAUTION,
    ]
    lost = [name for name in frame if name not in known]
    if lost and table in RECORDS:
        raise FrameError(
            f"save: {table}: column '{lost[0]}' has no place in a store. Drop it or, if it "
            "describes the case, add it to the cases."
        )
    keep = [name for name in frame if name in columns and name not in _DERIVED.get(table, ())]
    return _table_records(frame[keep])


def _table_records(frame: pd.DataFrame) -> list[Fields]:
    """Return rows as mappings with None for missing values; times become text."""
    times = frame.select_dtypes(["datetime", "datetimetz"]).columns
    texts = {name: frame[name].map(pd.Timestamp.isoformat, na_action="ignore") for name in times}
    values = frame.assign(**texts).astype("object")
    rows = values.where(values.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


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
