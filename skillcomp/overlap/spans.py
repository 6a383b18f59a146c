"""All spans that texts share with their skill, with their places in both texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.ngrams import (
    Ints,
    Tokenizer,
    Tokens,
    check_n,
    intern_groups,
    match_lengths,
    run_lengths,
)
from skillcomp.overlap.score import ScoredTexts, Skills, checked_texts
from skillcomp.stats.results import Fields

_KEYS = ["attempt_id", "passage_id", "skill", "case_id", "condition", "level"]
_PLACES = {
    "start": "Int64",
    "end": "Int64",
    "span": "str",
    "file": "str",
    "source_start": "Int64",
    "source_end": "Int64",
    "source": "str",
}


def spans(
    texts: pd.DataFrame,
    *,
    skills: Skills,
    cases: pd.DataFrame | None = None,
    ngram: int = 6,
    exclude_prompt: bool = True,
    boilerplate: str | Sequence[str] = (),
    most: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> pd.DataFrame:
    """List the spans that texts share with their skill, with their places in both texts.

    A span is a sequence of at least `ngram` tokens that is also in the skill, and that cannot be
    made longer at either end. Spans may overlap. A span is left out if it overlaps another span and
    has only n-grams of that span.

    Parameters
    ----------
    texts, skills, cases, exclude_prompt, boilerplate, tokenizer
        As in :func:`score`.
    ngram : int, default 6
        Smallest number of tokens of a span.
    most : int, optional
        Largest number of spans.

    Returns
    -------
    pandas.DataFrame
        One row per span, the longest first: attempt_id, passage_id, skill, case_id, condition and
        level (NA if `texts` does not have the column), then

        n_tokens : int64, number of tokens of the span
        start, end : Int64, place in the text in characters, so that ``text[start:end]`` is the span
        span : str, as written in the text
        file : str, file of the skill; NA if the skill was given as a text
        source_start, source_end : Int64, place of the first such sequence in that file
        source : str, as written in the skill

        Indices are NA if the tokens do not occur in the text, because your own tokenizer rewrites
        them.

    Raises
    ------
    FrameError
        As in :func:`score`, or if `most` is below 1.

    See Also
    --------
    score : Counts the n-grams; a text has a span exactly if ``any_shared`` is True for this n.

    Notes
    -----
    A span counts if at least one of its n-grams is in neither the prompt nor the boilerplate. It is
    listed as a whole, even if it begins or ends with words of the prompt.

    Examples
    --------
    >>> passages = pd.DataFrame({"passage_id": ["p"], "skill": ["s"], "level": ["near_copy"],
    ...     "text": ["They narrow the unknown values."]})
    >>> skills = {"s": "Always narrow unknown values, then decode."}
    >>> shared = spans(passages, skills=skills, ngram=3)
    >>> shared.loc[0, ["span", "source"]].tolist()
    ['narrow the unknown values', 'narrow unknown values']
    """
    if most is not None and most < 1:
        raise FrameError(f"overlap.spans: most: found {most!r}; allowed: at least 1.")
    (n,) = check_n(ngram, "overlap.spans: ngram").tolist()
    written = checked_texts(texts, skills, cases, exclude_prompt, boilerplate)
    rows = [
        place
        for at in range(len(written.files))
        for place in _spans_of_source(written, at, n, tokenizer)
    ]
    dtypes = {"row": "int64", "n_tokens": "int64", **_PLACES}
    places = pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)
    order = ["n_tokens", "row", "start"]
    places = places.sort_values(order, ascending=[False, True, True]).head(most or len(places))
    keys = written.frame.reindex(columns=_KEYS).astype("str").take(places.pop("row").to_numpy())
    return pd.concat([keys.reset_index(drop=True), places.reset_index(drop=True)], axis=1)


def _spans_of_source(
    written: ScoredTexts, source: int, n: int, tokenizer: Tokenizer | None
) -> list[Fields]:
    """Return the spans that texts share with one source; ``row`` is the number of the text."""
    rows = np.flatnonzero(written.source_of == source)
    texts = [written.texts[row] for row in rows]
    banned, exclude = np.unique(written.exclude_of[rows], return_inverse=True)
    files = written.files[source]
    groups = [list(files.values()), *("" if i < 0 else written.excludes[i] for i in banned)]
    tokens, owned, first = intern_groups(groups, texts, tokenizer)
    text = np.repeat(np.arange(len(rows)), np.diff(tokens.bounds)[first:])
    runs = _maximal_runs(tokens, owned, first, exclude[text], n)
    placed = []
    ids = tokens.ids[: owned[1]]
    for begin, run in _without_repeats(tokens.ids, runs, n):
        at = text[begin - tokens.bounds[first]]
        other = _first_occurrence(ids, tokens.ids[begin : begin + run])
        part = int(np.searchsorted(tokens.bounds, other, side="right")) - 1
        file, whole = list(files.items())[part]
        place = {"row": rows[at], "n_tokens": run, "file": file or None}
        place |= _place(tokens, texts[at], first + at, begin, run, ("start", "end", "span"))
        names = ("source_start", "source_end", "source")
        place |= _place(tokens, whole, part, other, run, names)
        placed.append(place)
    return placed


def _maximal_runs(
    tokens: Tokens, owned: Ints, first: int, exclude: Ints, n: int
) -> list[tuple[int, int]]:
    """Return position and length of each shared run that is not part of a longer shared run.

    At least one n-gram of each run is in no excluded text. The first group of documents is the
    source. `exclude` holds, for each position, the index (from 0) of the group of excluded texts.
    """
    here = np.arange(tokens.bounds[first], tokens.bounds[-1])
    run = run_lengths(tokens, owned, here, np.zeros_like(here))
    # A run is not maximal if a longer shared run contains it and begins one token earlier.
    grows = np.append(0, run[:-1]) == run + 1
    begin = np.flatnonzero((run >= n) & ~grows)
    banned = match_lengths(tokens, owned[1:], here, exclude, n)
    counted = np.concatenate([[0], np.cumsum(banned < n)])
    begin = begin[counted[begin + run[begin] - n + 1] > counted[begin]]
    return list(zip(here[begin].tolist(), run[begin].tolist(), strict=True))


def _without_repeats(ids: Ints, runs: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """Leave out each run that overlaps another run and has only n-grams of that run.

    Without this rule, a text that repeats one word would have a run at every word.
    """
    listed = []
    # `stop` is the end of the last listed run. If a run begins before `stop`, the two overlap, and
    # `seen` keeps its n-grams; otherwise `seen` is emptied. N-grams at positions before `checked`
    # were added already.
    seen: set[bytes] = set()
    checked = stop = -1
    for begin, run in runs:
        overlaps = begin < stop
        if not overlaps:
            seen, checked = set(), begin
        last = begin + run - n + 1
        new = {ids[at : at + n].tobytes() for at in range(max(checked, begin), last)}
        checked = max(checked, last)
        if not overlaps or not new <= seen:
            listed.append((begin, run))
            stop = begin + run
        seen |= new
    return listed


def _first_occurrence(ids: Ints, run: Ints) -> int:
    """Return the position of the first occurrence of a run of tokens, which must exist."""
    at = np.flatnonzero(ids[: len(ids) - len(run) + 1] == run[0])
    for step in range(1, len(run)):
        if len(at) == 1:
            break
        at = at[ids[at + step] == run[step]]
    return int(at[0])


def _place(
    tokens: Tokens, text: str, doc: int, begin: int, run: int, names: tuple[str, str, str]
) -> Fields:
    """Return start, end and text of a run of tokens in its document."""
    at = begin - tokens.bounds[doc]
    start, end = tokens.edges(text, doc, at, run) or (None, None)
    return dict(zip(names, (start, end, tokens.cut(text, doc, at, run)), strict=True))
