"""The frames of a study, written as a store."""

from __future__ import annotations

import os
import shutil
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd

from skillcomp.errors import FrameError, StoreError
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import require_rows
from skillcomp.frames.table_reader import Change, changes_frame
from skillcomp.io.files import as_path
from skillcomp.io.json_lines import RECORDS, schema
from skillcomp.io.store import SAVED_FRAMES, SOURCE, RunStore

if TYPE_CHECKING:
    from skillcomp.frames.from_frame import Frames

_TABLES = ("cases", "attempts", "verdicts", "gold", "pairwise", "passages")
# columns that a reader of the store computes again from the other columns
_DERIVED = {"attempts": ("n_words",), "verdicts": ("evidence_found",)}


def save_frames(study: Frames, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Write frames as a store; the folder appears only when it is complete."""
    # resolve a link, so that its target is replaced, and not the link
    place = as_path(folder, "save: folder", FrameError).resolve()
    try:
        _require_free(place, overwrite)
    except OSError as cause:
        raise _write_error(place, cause) from cause
    rows = {table: _rows_of_table(study, table) for table in _TABLES}
    rows["passages"] += [
        {"passage_id": f"{SOURCE}/{slug}", "skill": slug, "document": slug}
        | {"level": SOURCE, "text": text}
        for slug, text in study.skills.items()
    ]
    require_rows(study.verdicts, study.attempts, ["attempt_id"], "save", "attempts")
    about = {
        "gold_drawn": study.gold_drawn,
        "drawn_by": study.drawn_by,
        "columns": dict(study.columns),
        "problems": _table_records(study.problems),
    }
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent, prefix=".saving-") as parent:
            store = RunStore(Path(parent) / "study")
            with store.writer(sync=False):
                # store no time of creation, so that equal frames have equal fingerprints
                store.annotate(created=None, **{SAVED_FRAMES: about})
                for table, records in rows.items():
                    store.append(table, records)
            if place.exists():
                shutil.rmtree(place)
            os.replace(store.path, place)
    except OSError as cause:
        raise _write_error(place, cause) from cause
    return place


def saved_facts(store: RunStore) -> dict[str, Any]:
    """Return the facts that `save_frames` stored in the manifest; {} for other stores."""
    about = dict(store.manifest.get(SAVED_FRAMES, {}))
    rows = [Change(**row) for row in about.get("problems", [])]
    return {**about, "problems": changes_frame(rows)} if about else {}


def _write_error(place: Path, cause: OSError) -> StoreError:
    return StoreError(f"save: {place}: the folder cannot be written ({cause.strerror}).")


def _require_free(place: Path, overwrite: bool) -> None:
    """Raise FrameError if the folder holds anything that `save` may not replace."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    saved = place.is_dir() and SAVED_FRAMES in RunStore(place).manifest
    written = {"manifest.json", ".writer.lock", *(f"{table}.jsonl" for table in _TABLES)}
    others = (
        sorted(path.name for path in place.iterdir() if path.name not in written) if saved else []
    )
    if saved and overwrite and not others:
        return
    hint = "overwrite=True replaces it" if saved and not others else "name an empty or new folder"
    holds = "saved frames already" if saved else "other things"
    holds = f"saved frames and other things, such as '{others[0]}'" if others else holds
    raise FrameError(f"save: {place} holds {holds}; {hint}.")


def _rows_of_table(study: Frames, table: str) -> list[dict[str, Any]]:
    """Return the rows of a frame as mappings; refuse columns that a store cannot hold."""
    frame: pd.DataFrame = getattr(study, table)
    of_case = [*CONTRACTS["cases"].columns, *study.cases.columns]
    derived = _DERIVED.get(table, ())
    columns = list(frame.columns) if table == "cases" else list(schema(table).names)
    lost = [n for n in frame if n not in columns and n not in CONTRACTS[table].columns]
    lost = [name for name in lost if name not in of_case]
    if lost and table in RECORDS:
        raise FrameError(
            f"save: {table}: column '{lost[0]}' has no place in a store. Drop it or, if it "
            "describes the case, add it to the cases."
        )
    keep = [name for name in frame.columns if name in columns and name not in derived]
    return _table_records(frame[keep])


def _table_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as mappings with None for missing values; times become text."""
    times = frame.select_dtypes(["datetime", "datetimetz"]).columns
    texts = {name: frame[name].map(pd.Timestamp.isoformat, na_action="ignore") for name in times}
    values = frame.assign(**texts).astype("object")
    rows = values.where(values.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]
