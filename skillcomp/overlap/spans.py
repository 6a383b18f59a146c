"""The longest spans that texts share with their skill, next to their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.score import checked_columns, score, skill_text
from skillcomp.records import Skill

_NEEDED = ["skill", "longest_run", "longest_text"]


def spans(
    shared: pd.DataFrame,
    *,
    skills: Mapping[str, Skill | str],
    most: int = 10,
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
) -> pd.DataFrame:
    """Show the longest spans that texts share with their skill, next to their source.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored texts, as returned by :func:`score`.
    skills, tokenizer, tokenizer_name
        As in :func:`score`.
    most : int, default 10
        Largest number of texts. The texts with the longest spans come first.

    Returns
    -------
    pandas.DataFrame
        One row per text with a shared span: attempt_id, passage_id, skill, condition, level (NA if
        `shared` does not have the column), longest_run (number of content tokens), ``span`` (as
        written in the text) and ``source`` (as written in the skill).

    Raises
    ------
    FrameError
        If a column or a skill is missing, or `most` is below 1.

    Examples
    --------
    >>> passages = pd.DataFrame({"passage_id": ["p"], "skill": ["s"], "level": ["near_copy"],
    ...     "text": ["They narrow the unknown values."]})
    >>> skills = {"s": "Always narrow unknown values, then decode."}
    >>> shared = score(passages, skills=skills, ngram=3)
    >>> spans(shared, skills=skills)[["span", "source"]].iloc[0].tolist()
    ['narrow the unknown values', 'narrow unknown values']
    """
    if most < 1:
        raise FrameError(f"overlap.spans: most: found {most!r}; allowed: at least 1.")
    shared = checked_columns(shared, _NEEDED, what="overlap.spans: shared")
    keys = ["attempt_id", "passage_id", "skill", "condition", "level"]
    rows = shared.reindex(columns=[*keys, "longest_run", "longest_text"]).drop_duplicates(keys)
    rows = rows[rows["longest_run"].gt(0).fillna(False)]
    rows = rows.sort_values("longest_run", ascending=False, kind="stable").head(most)
    rows = rows.reset_index(drop=True).rename(columns={"longest_text": "span"})
    # the longest span that the skill shares with the quoted one is its source
    numbers = rows.index.astype("str")
    texts = [skill_text(skills, slug) for slug in rows["skill"]]
    source = pd.DataFrame(
        {"passage_id": numbers, "skill": numbers, "level": "source", "text": texts}
    )
    quoted = dict(zip(numbers, rows["span"], strict=True))
    how: Any = {"tokenizer": tokenizer, "tokenizer_name": tokenizer_name}
    if rows.empty:
        return rows.assign(source=pd.Series(dtype="str"))
    return rows.assign(source=score(source, skills=quoted, ngram=1, **how)["longest_text"])
