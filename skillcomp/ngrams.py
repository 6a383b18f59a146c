"""Shared n-grams: exact, vectorised, every n in one pass.

A text shares an n-gram with a source when n consecutive tokens of the text are n consecutive
tokens of the source. All n are answered together by one number for each position of the text:
the length of the longest match that starts there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.tokens import END, STOP_WORDS, Ints, Tokenizer, Tokens, intern, tokenize

__all__ = ["STOP_WORDS", "Matches", "Tokenizer", "check_n", "match", "shared_ngrams", "tokenize"]

_BATCH = 2**20  # characters worked on at once: keeps the arrays inside the processor's cache


def shared_ngrams(
    text: str,
    source: str,
    *,
    n: int = 6,
    exclude: str = "",
    tokenizer: Tokenizer | None = None,
) -> list[str]:
    """Return the distinct n-grams of a text that stand in a source too.

    Use `match` for many texts or many n; this is the readable answer for one pair.

    Parameters
    ----------
    text, source : str
        The answer and the skill's text.
    n : int, default 6
        Tokens in an n-gram, at least 1.
    exclude : str, optional
        A text (the prompt) whose n-grams do not count.
    tokenizer : callable, optional
        From str to list of str; `tokenize` when not given.

    Returns
    -------
    list of str
        The tokens of each shared n-gram joined by a blank, in the order of the text.

    Examples
    --------
    >>> shared_ngrams("Narrow unknown values early", "Always narrow unknown values.", n=2)
    ['narrow unknown', 'unknown values']
    """
    check_n(n)
    split = tokenizer or tokenize
    words = split(text)
    allowed = _grams(split(source), n) - _grams(split(exclude), n)
    found = (tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    return [" ".join(gram) for gram in dict.fromkeys(found) if gram in allowed]


def _grams(words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def check_n(n: Iterable[int] | int) -> Ints:
    """Return the wanted lengths of n-grams, sorted and distinct.

    Parameters
    ----------
    n : iterable of int, or one int
        Lengths in tokens.

    Returns
    -------
    ndarray of int64
        Ascending, without repeats.

    Raises
    ------
    ValueError
        When there is none, or one is not a whole number of at least 1.

    Examples
    --------
    >>> check_n([6, 3, 6]).tolist()
    [3, 6]
    """
    lengths = [n] if isinstance(n, int) else list(n)
    wrong = [x for x in lengths if not isinstance(x, (int, np.integer)) or x < 1]
    if wrong or not lengths:
        found = f"found {wrong[0]!r}" if wrong else "found none"
        raise ValueError(f"n: {found}; allowed are whole numbers of at least 1, as range(3, 13).")
    return np.unique(np.asarray(lengths, dtype=np.int64))


@dataclass(frozen=True)
class Matches:
    """What each text shares with its source.

    Attributes
    ----------
    n : ndarray of int64, shape (n_lengths,)
        Lengths of n-grams, ascending.
    n_tokens : ndarray of int64, shape (n_texts,)
        Tokens of each text.
    n_distinct, n_shared : ndarray of int64, shape (n_texts, n_lengths)
        Distinct n-grams of each text, and those of them that count as shared.
    longest_run : ndarray of int64, shape (n_texts,)
        Tokens of the longest shared run, whatever the lengths asked for; 0 when no token is
        shared.
    longest_text : list of str
        The first longest run as it stands in the text; empty when there is none.
    """

    n: Ints
    n_tokens: Ints
    n_distinct: Ints
    n_shared: Ints
    longest_run: Ints
    longest_text: list[str]


def match(
    texts: Sequence[str],
    sources: Sequence[str],
    source_of: Sequence[int] | Ints,
    *,
    excludes: Sequence[str] = (),
    exclude_of: Sequence[int] | Ints | None = None,
    n: Iterable[int] | int = range(3, 13),
    tokenizer: Tokenizer | None = None,
) -> Matches:
    """Count the distinct n-grams that each text shares with its source, for every n at once.

    Parameters
    ----------
    texts : sequence of str
        The texts to look into.
    sources : sequence of str
        The texts that may have been copied.
    source_of : sequence of int
        For each text the index of its source.
    excludes : sequence of str, optional
        Texts (prompts) whose n-grams do not count.
    exclude_of : sequence of int, optional
        For each text the index of the text to exclude, -1 for none.
    n : iterable of int, or one int
        Lengths of n-grams in tokens.
    tokenizer : callable, optional
        From str to list of str; `tokenize` when not given.

    Returns
    -------
    Matches
        Arrays in the order of `texts`.

    Notes
    -----
    Tokens become integers, and the n-grams of one length become integers by the pair (integer
    of the first n - 1 tokens, last token), so equal integers mean equal n-grams: nothing rests
    on a hash alone. A position goes on to n + 1 only if it matched at n. Runs beyond the
    largest n are measured with a suffix automaton of the source (doi:10.1016/0304-3975(85)90157-4)
    in time linear in the text.

    Without `excludes`, a text that shares an n-gram shares its shorter ones too. With them this
    need not hold: a run of four tokens can be new although both its runs of three stand in the
    prompt.

    Examples
    --------
    >>> found = match(["narrow unknown values"], ["unknown values leak"], [0], n=[1, 2, 3])
    >>> found.n_shared.tolist(), found.longest_text
    ([[2, 1, 0]], ['unknown values'])
    """
    lengths = check_n(n)
    source_index = np.asarray(source_of, dtype=np.int64)
    exclude_index = (
        np.full(len(texts), -1, dtype=np.int64)
        if exclude_of is None
        else np.asarray(exclude_of, dtype=np.int64)
    )
    shape = (len(texts), len(lengths))
    out = Matches(
        n=lengths,
        n_tokens=np.zeros(len(texts), dtype=np.int64),
        n_distinct=np.zeros(shape, dtype=np.int64),
        n_shared=np.zeros(shape, dtype=np.int64),
        longest_run=np.zeros(len(texts), dtype=np.int64),
        longest_text=[""] * len(texts),
    )
    # Texts of one source stand together, so that a batch needs few sources.
    order = np.argsort(source_index, kind="stable")
    size = np.fromiter((len(texts[i]) + 1 for i in order), dtype=np.int64, count=len(order))
    batch_of = np.cumsum(size) // _BATCH
    for rows in np.split(order, np.flatnonzero(np.diff(batch_of)) + 1):
        if len(rows):
            _match_batch(
                texts, sources, source_index, excludes, exclude_index, rows, tokenizer, out
            )
    return out


def _match_batch(
    texts: Sequence[str],
    sources: Sequence[str],
    source_of: Ints,
    excludes: Sequence[str],
    exclude_of: Ints,
    rows: Ints,
    tokenizer: Tokenizer | None,
    out: Matches,
) -> None:
    """Fill the given rows of `out`."""
    used, source = np.unique(source_of[rows], return_inverse=True)
    banned, exclude = np.unique(exclude_of[rows], return_inverse=True)
    batch = [texts[i] for i in rows]
    docs = [sources[i] for i in used] + ["" if i < 0 else excludes[i] for i in banned]
    first = len(docs)  # the documents from here on are the texts
    tokens = intern(docs + batch, tokenizer)
    doc = tokens.doc()
    top = int(out.n[-1])

    here = np.arange(tokens.bounds[first], len(doc))
    text = doc[here] - first
    shared = _match_lengths(tokens, doc, range(len(used)), here, source[text], top)
    known = np.zeros_like(shared)
    if banned[-1] >= 0:
        there = here[shared[here] > 0]
        owner = exclude[doc[there] - first] + len(used)
        known = _match_lengths(tokens, doc, range(len(used), first), there, owner, top)
    repeated = _repeat_lengths(tokens, doc, here, top)

    count = np.diff(tokens.bounds)[first:] - 1
    out.n_tokens[rows] = count
    out.n_distinct[rows] = (
        np.maximum(count[:, None] - out.n + 1, 0)
        - _at_least(text, repeated[here], len(rows), top)[:, out.n]
    )
    low = np.minimum(np.maximum(known, repeated), shared)[here]
    new = _at_least(text, shared[here], len(rows), top) - _at_least(text, low, len(rows), top)
    out.n_shared[rows] = new[:, out.n]

    at = here[(shared > known)[here]]
    run, begin = _first_longest(doc[at] - first, at, shared[at], len(rows))
    table = cache(lambda d: _suffix_automaton(tokens.of(d).tolist()))
    for row in np.unique(text[shared[here] == top]):
        span = slice(tokens.bounds[first + row], tokens.bounds[first + row + 1])
        longer = _beyond(
            tokens.ids[span],
            shared[span] == top,
            known[span] == top,
            top,
            table(int(source[row])),
            table(int(exclude[row]) + len(used)),
        )
        if longer is not None:
            run[row], begin[row] = longer[0], longer[1] + span.start
    out.longest_run[rows] = run
    for row in np.flatnonzero(run):
        out.longest_text[rows[row]] = tokens.cut(
            batch[row], int(begin[row]), int(run[row]), first + int(row)
        )


def _match_lengths(
    tokens: Tokens, doc: Ints, sources: range, at: Ints, source: Ints, top: int
) -> Ints:
    """Return for each position the length of its longest match, at most `top`.

    `at` are the positions to look at and `source` the document that each is compared with.
    """
    ids = tokens.ids
    base = int(ids.max(initial=0)) + 1
    mine = np.arange(tokens.bounds[sources.start], tokens.bounds[sources.stop])
    mine_rank, rank = doc[mine], source
    in_source = np.zeros(base, dtype=bool)
    in_source[ids[mine]] = True
    in_source[END] = False
    length = np.zeros(len(ids), dtype=np.int64)
    for n in range(1, top + 1):
        go = ids[mine + n - 1] != END
        mine, mine_rank = mine[go], mine_rank[go]
        go = in_source[ids[at + n - 1]]
        at, rank = at[go], rank[go]
        if not len(at) or not len(mine):
            break
        pairs = np.concatenate(
            [mine_rank * base + ids[mine + n - 1], rank * base + ids[at + n - 1]]
        )
        # Codes are given in order of appearance, the source's n-grams first.
        code = pd.factorize(pairs)[0]
        mine_rank, rank = code[: len(mine)], code[len(mine) :]
        go = rank <= mine_rank.max()
        at, rank = at[go], rank[go]
        length[at] = n
    return length


def _repeat_lengths(tokens: Tokens, doc: Ints, at: Ints, top: int) -> Ints:
    """Return for each position the longest n-gram, at most `top`, seen earlier in its text."""
    ids, rank = tokens.ids, doc[at]
    base = int(ids.max(initial=0)) + 1
    length = np.zeros(len(ids), dtype=np.int64)
    for n in range(1, top + 1):
        go = ids[at + n - 1] != END
        at, rank = at[go], rank[go]
        if not len(at):
            break
        rank = pd.factorize(rank * base + ids[at + n - 1])[0]
        # A code is new where it is larger than all before it.
        seen = np.diff(np.maximum.accumulate(rank), prepend=-1) == 0
        length[at[seen]] = n
        go = (np.bincount(rank) > 1)[rank]
        at, rank = at[go], rank[go]
    return length


def _at_least(text: Ints, length: Ints, n_texts: int, top: int) -> Ints:
    """Return how many positions of each text have a length of at least 0, 1, ..., top."""
    table = np.bincount(text * (top + 1) + length, minlength=n_texts * (top + 1))
    return np.cumsum(table.reshape(n_texts, top + 1)[:, ::-1], axis=1)[:, ::-1]


def _first_longest(text: Ints, at: Ints, length: Ints, n_texts: int) -> tuple[Ints, Ints]:
    """Return the largest length of each text and the first position that has it."""
    run = np.zeros(n_texts, dtype=np.int64)
    np.maximum.at(run, text, length)
    best = length == run[text]
    begin = np.zeros(n_texts, dtype=np.int64)
    begin[text[best][::-1]] = at[best][::-1]
    return run, begin


# Transitions, suffix links and lengths of the states; state 0 is the empty run.
_Automaton = tuple[list[dict[int, int]], list[int], list[int]]


def _beyond(
    ids: Ints,
    shared: NDArray[np.bool_],
    known: NDArray[np.bool_],
    top: int,
    source: _Automaton,
    exclude: _Automaton,
) -> tuple[int, int] | None:
    """Return length and position of a text's first longest run of at least `top` that counts.

    `shared` and `known` mark the positions that match for `top` tokens in source and exclude.
    """
    full = np.flatnonzero(shared)
    # The last full position cannot match for longer: the next one would be full too.
    begin, stop = int(full[0]), int(full[-1]) + top
    piece = ids[begin:stop].tolist()
    runs = np.array(_suffix_matches(source, piece))
    counts = runs >= top
    if known[begin:stop].any():
        counts &= runs > np.array(_suffix_matches(exclude, piece))
    if not counts.any():
        return None
    last = int(np.argmax(np.where(counts, runs, 0)))
    return int(runs[last]), begin + last - int(runs[last]) + 1


def _suffix_matches(source: _Automaton, piece: list[int]) -> list[int]:
    """Return for each end in the piece how many tokens up to it stand together in the source."""
    follow, link, size = source
    out, state, length = [], 0, 0
    for token in piece:
        while state and token not in follow[state]:
            state = link[state]
            length = size[state]
        if token in follow[state]:
            state, length = follow[state][token], length + 1
        out.append(length)
    return out


def _suffix_automaton(source: list[int]) -> _Automaton:
    """Return the automaton of all runs of a source."""
    follow: list[dict[int, int]] = [{}]
    link, size, last = [-1], [0], 0
    for token in source:
        new, state = len(size), last
        follow.append({})
        link.append(0)
        size.append(size[last] + 1)
        while state >= 0 and token not in follow[state]:
            follow[state][token] = new
            state = link[state]
        if state >= 0:
            near = follow[state][token]
            if size[near] > size[state] + 1:
                twin = len(size)
                follow.append(dict(follow[near]))
                link.append(link[near])
                size.append(size[state] + 1)
                while state >= 0 and follow[state].get(token) == near:
                    follow[state][token] = twin
                    state = link[state]
                link[near] = near = twin
            link[new] = near
        last = new
    return follow, link, size
