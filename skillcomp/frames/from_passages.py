"""Conversion of a researcher's own table of labelled texts to a passages frame."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import instead, literal, plural
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import Columns, TableReader
from skillcomp.frames.words import ARGUMENTS, LEVELS, TRUTHS, ColumnName, as_literal, plain_word
from skillcomp.io.store import SOURCE
from skillcomp.records import Skill

WHAT = "from_passages"
# fewest words, or characters, of the text of a source; a shorter value may be its name
_FEWEST_WORDS, _FEWEST_LETTERS = 5, 20
_OF_FRESH = re.compile("fresh|original|clean|own|non|not|human|independent")


def from_passages(
    table: pd.DataFrame,
    *,
    text: Hashable = "text",
    source: Hashable = "source",
    label: Hashable = "label",
    document: ColumnName = None,
    question: ColumnName = None,
    sources: Mapping[str, Skill | str] | None = None,
    label_names: Mapping[Any, str | None] | None = None,
    missing: Any = (),
    name: str | None = None,
) -> Frames:
    """Convert your own table of labelled texts to frames for a calibration of copying.

    Name the columns with the text, its source, and whether (or how far) the text copies from the
    source. ``overlap.calibrate(passages=own.passages, skills=own.skills)`` then estimates the
    length from which a shared n-gram means copying.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per text. The table is not changed.
    text : hashable, default "text"
        Column with the texts. Rows without a text are left out and counted.
    source : hashable, default "source"
        Column with the text of the source, or with its name. The texts of named sources are given
        by ``sources`` or by rows of the table with the label "source", "original" or "orig", one
        for each source.
    label : hashable, default "label"
        Column with the degree of copying. Known words are those of Clough and Stevenson (cut,
        light, heavy, non), the levels verbatim, near_copy, light_revision, heavy_revision and
        fresh, and copied or fresh, yes or no, 1 or 0. Rows without a label are left out and
        counted.
    document : hashable, optional
        Column with a topic, a writer or the like. Texts about one source are related if they have
        the same value in it. By default all texts about one source are related.
    question : hashable, optional
        Column with the question that a text answers. Words that a text repeats from its question
        do not count as copied.
    sources : mapping of str to str or Skill, optional
        The texts of the sources by name.
    label_names : mapping, optional
        Meaning of your words, such as ``{"borrowed": "copied"}``; None means no label. It takes
        precedence over the known words and gives no warning.
    missing : sequence, optional
        Values of ``label`` that mean no label, as in :func:`skillcomp.from_frame`.
    name : str, optional
        Name of the table in messages, such as the name of its file.

    Returns
    -------
    Frames
        ``passages`` has passage_id (source and number of the row in the table), skill (name of the
        source), document, level and text; ``skills`` maps each source to its text. A text that
        copies to an unknown degree has the level ``copied``. The other frames are empty.

    Raises
    ------
    FrameError
        With one sentence per problem: a missing column (with the most similar name), an unknown
        word, a source without a text, or a truth value in a column with a name such as
        "original", because True may then mean that nothing is copied. If a role is
        unclear, the message ends with all columns and the argument that the name of each stands
        for.

    Warns
    -----
    FrameWarning
        One warning that lists how words were read and which rows were left out.

    See Also
    --------
    skillcomp.overlap.calibrate : Estimates the length from which a shared n-gram means copying.
    skillcomp.from_frame : Converts a table of answers and verdicts.

    References
    ----------
    Degrees of reuse as in Clough and Stevenson 2011, doi:10.1007/s10579-009-9112-1.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"text": ["Narrow values early.", "Tea is hot."], "source": "s",
    ...     "label": ["verbatim", "fresh"]})
    >>> own = from_passages(table, sources={"s": "Always narrow values early."})
    >>> own.passages[["passage_id", "skill", "document", "level"]]
      passage_id skill document     level
    0        s/1     s        s  verbatim
    1        s/2     s        s     fresh
    """
    arguments = dict(locals())
    place = WHAT if name is None else f"{name} ({WHAT})"
    names = {role: arguments[role] for role in ARGUMENTS["passage"]}
    reader = TableReader(table, names, place=place, missing=missing)
    documents = reader.mapping("sources", sources)
    own_words = reader.mapping("label_names", label_names)
    columns = reader.columns(required=("text", "source", "label"))
    rows = pd.DataFrame({"level": _levels_of_labels(columns["label"], own_words, reader)})
    for role in {"text", "question", "document"} & set(columns):
        rows[role] = reader.as_texts(columns[role], role, needed=False)
    rows["skill"], texts = _named_sources(columns, rows, documents, reader)
    reader.raise_problems()
    if "document" in rows:
        rows["document"] = rows["skill"] + "/" + rows["document"].fillna("none")
    rows = rows.assign(document=rows.get("document", rows["skill"]))
    rows["passage_id"] = rows["skill"] + "/" + (rows.index + 1).astype("str")
    rows = _labelled_rows(rows, reader)
    return Frames(**reader.checked({"passages": rows}), **reader.facts(), skills=texts)


def _levels_of_labels(
    values: pd.Series, label_names: Mapping[Any, str | None], reader: TableReader
) -> pd.Series:
    """Return the level that each label means; report words that are unknown or ambiguous."""
    odd = [level for level in label_names.values() if not isinstance(level, str | None)]
    if odd:
        reader.problems.append(f"label_names=: found {literal(odd[0])}; allowed: a level, or None.")
        return values
    plain = values.map(plain_word, na_action="ignore")
    is_truth = plain.isin(TRUTHS.keys() - set(map(plain_word, label_names)))
    inverted = _OF_FRESH.search(str(reader.names["label"]).casefold())
    if is_truth.any() and inverted:
        words = [*map(as_literal, pd.unique(values[is_truth]))]
        reader.add_problem(
            "label",
            f"found {' and '.join(words)} in a column called '{reader.names['label']}', where it "
            "may mean that the text does not copy; say which by label_names=.",
        )
        return values
    allowed = "copied or fresh, yes or no, 1 or 0, cut, light, heavy or non, or names of levels"
    own: dict[str, Any] = {"own": label_names, "argument": "label_names"}
    return reader.mapped(values, "label", LEVELS, allowed, **own).astype("str")


def _named_sources(
    columns: Columns,
    rows: pd.DataFrame,
    documents: Mapping[str, Skill | str],
    reader: TableReader,
) -> tuple[pd.Series, dict[str, str]]:
    """Return the name of each row's source, and the texts of the sources by name."""
    names = reader.as_texts(columns["source"], "source")
    is_source = rows["level"].eq(SOURCE)
    texts = {slug: d.text if isinstance(d, Skill) else d for slug, d in documents.items()}
    if is_source.any():
        twice = names[is_source][names[is_source].duplicated()]
        if len(twice):
            reader.add_problem(
                "label",
                f"several rows are the text of source '{twice.iloc[0]}'; if the word means a text "
                "that does not copy, say so by label_names=.",
            )
        texts |= dict(zip(names[is_source], rows.loc[is_source, "text"].fillna(""), strict=True))
        done = "taken as the texts of the sources"
        reader.add_change("label", "rows of sources", done, is_source.sum())
    if not texts:
        return _numbered_sources(names, reader)
    for slug in names.dropna().unique():
        if slug not in texts:
            n = plural(int(names.eq(slug).sum()), "row")
            words = instead(slug, texts)
            reader.add_problem("source", f"'{slug[:60]}' ({n}) has no text in sources={words}")
        elif not isinstance(texts[slug], str) or not texts[slug].strip():
            reader.problems.append(f"sources=: '{slug[:60]}' has no text.")
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
            "source, or names with sources={name: text}.",
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
    for role, column in (("text", "text"), ("label", "level")):
        lacking = rows[column].isna() | rows[column].eq("").fillna(False)
        if lacking.any():
            reader.add_change(role, "missing", "row left out", lacking.sum())
        rows = rows[~lacking]
    if rows.empty:
        reader.problems.append("no row has both a text and a label.")
    return rows.reset_index(drop=True)
