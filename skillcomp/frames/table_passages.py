"""Conversion of a researcher's own table of labelled texts to a passages frame."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillcomp.errors import UNKNOWN, argument, instead, plural
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import TableReader
from skillcomp.io.store import SOURCE

_NEEDED = ("text", "source", "level")
# fewest words, or characters, of the text of a source; a shorter value may be its name
_FEWEST_WORDS, _FEWEST_LETTERS = 5, 20


def frames_of_passages(reader: TableReader, documents: Mapping[str, str]) -> Frames:
    """Return the passages of a table with one row per text; ``documents`` are texts of sources."""
    for role in _NEEDED:
        reader.find([role], [[label] for label in reader.usual(role)])
    rows = reader.read(*_NEEDED)
    if reader.require_direction("level", rows["level"], ("copied", "fresh")):
        reader.raise_problems()
    rows["level"] = reader.mapped(rows["level"], "level").astype("str")
    for role in columns_of(rows, "text", "question", "document"):
        rows[role] = reader.as_texts(rows[role], role, needed=False)
    rows["skill"], texts = _named_sources(rows, documents, reader)
    reader.raise_problems()
    if "document" in rows:
        rows["document"] = rows["skill"] + "/" + rows["document"].fillna("none")
    rows = rows.assign(document=rows.get("document", rows["skill"]))
    rows["passage_id"] = rows["skill"] + "/" + (rows.index + 1).astype("str")
    rows = _labelled_rows(rows, reader)
    return Frames(**reader.checked({"passages": rows}), **reader.facts(), skills=texts)


def _named_sources(
    rows: pd.DataFrame, documents: Mapping[str, str], reader: TableReader
) -> tuple[pd.Series, dict[str, str]]:
    """Return the name of each row's source, and the texts of the sources by name."""
    names = reader.as_texts(rows.pop("source"), "source")
    is_source = rows["level"].eq(SOURCE)
    texts = dict(documents)
    if is_source.any():
        twice = names[is_source][names[is_source].duplicated()]
        if len(twice):
            reader.add_problem(
                "level",
                f"several rows are the text of source '{twice.iloc[0]}'. "
                f"{argument('words', {'level': {'original': UNKNOWN}})} says what the word means.",
            )
        texts |= dict(zip(names[is_source], rows.loc[is_source, "text"].fillna(""), strict=True))
        done = "taken as the texts of the sources"
        reader.add_change("level", "rows of sources", done, is_source.sum())
    if not texts:
        return _numbered_sources(names, reader)
    for slug in names.dropna().unique():
        if slug not in texts:
            n = plural(int(names.eq(slug).sum()), "row")
            words = instead(slug, texts)
            reader.add_problem(
                "source", f"'{slug[:60]}' ({n}) has no text in {argument('skills')}{words}"
            )
        elif not isinstance(texts[slug], str) or not texts[slug].strip():
            reader.problems.append(f"{argument('skills')}: '{slug[:60]}' has no text.")
    return names, {slug: texts[slug] for slug in names.dropna().unique() if slug in texts}


def _numbered_sources(texts: pd.Series, reader: TableReader) -> tuple[pd.Series, dict[str, str]]:
    """Call the source texts of the table "source 1", "source 2" and so on.

    A value that is too short for a text is reported, because it is probably the name of a source.
    """
    several = pd.unique(texts.dropna())
    short = [t for t in several if len(t.split()) < _FEWEST_WORDS and _is_short(t)]
    if short:
        reader.add_problem(
            "source",
            f"found {plural(len(short), 'name')}, such as '{short[0]}'; allowed: the text of the "
            f"source, or names with {argument('skills')}, the texts by name.",
        )
    names = {text: f"source {number}" for number, text in enumerate(several, start=1)}
    return texts.map(names).astype("str"), {name: text for text, name in names.items()}


def _is_short(text: str) -> bool:
    """Return whether a value of few words is too short for the text of a source.

    ASCII values are always too short. Other values may be in a script without spaces, such as
    Chinese; they are too short if they have few characters.
    """
    return text.isascii() or len(text) < _FEWEST_LETTERS


def _labelled_rows(rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Return the rows with a text and a label, except rows of sources; report incomplete rows."""
    rows = rows[~rows["level"].eq(SOURCE).fillna(False)]
    for role in ("text", "level"):
        lacking = rows[role].isna() | rows[role].eq("").fillna(False)
        if lacking.any():
            reader.add_change(role, "missing", "row left out", lacking.sum())
        rows = rows[~lacking]
    if rows.empty:
        reader.problems.append("no row has both a text and a level.")
    return rows.reset_index(drop=True)
