"""Shared n-grams of a text and a source: tokens, counts for every n, and longest runs.

A text shares an n-gram with a source if n consecutive tokens of the text are n consecutive tokens
of the source. To count shared n-grams for every n, it is enough to find the longest match that
starts at each position of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["STOP_WORDS", "Matches", "Tokenizer", "check_n", "match", "shared_ngrams", "tokenize"]

Tokenizer = Callable[[str], list[str]]
Ints = NDArray[np.int64]
Word = TypeVar("Word", str, int)

# the initial list of stop words in the comprehension report, section A.3
_STOP = """
this that they them with from have will would could should their there where when what which while
about after before between into than then
"""
STOP_WORDS = frozenset(_STOP.split())
BATCH = 2**20  # characters per batch, so that a batch fits into the cache of the processor
END = 0  # id of the mark after the last token of each document; it matches nothing
# shortest token in characters; the comprehension report keeps tokens longer than three
MIN_LENGTH = 4

_WORD = re.compile(f"[a-z0-9]{{{MIN_LENGTH},}}")
# Translates bytes: letters to lower case, all bytes other than letters and digits to blanks.
_FOLD = bytes(ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else ord(" ") for b in range(256))
# the only two characters outside ASCII with an ASCII letter in their lower case
_KELVIN, _DOTTED_I = "\u212a", "\u0130"
_WORD_BYTES = 8  # tokens are compared in pieces of this many bytes
_LONG_TOKEN = 64  # in bytes; the rest of a longer token is compared as one object


def tokenize(text: str) -> list[str]:
    """Split a text into content tokens by the rule of the comprehension report.

    The text is lower-cased. Every character outside ``[a-z0-9]`` separates tokens. Tokens of at
    most three characters and `STOP_WORDS` are dropped.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        The tokens in order, repeats included.

    Notes
    -----
    Letters outside ASCII separate tokens, too, so the rule suits only English. Use another
    tokenizer for other languages.

    Examples
    --------
    >>> tokenize("The type-checker's 3rd PASS would narrow it.")
    ['type', 'checker', 'pass', 'narrow']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


@dataclass(frozen=True)
class Tokens:
    """Documents as one array of integers; equal integers mean equal tokens.

    Document d is ``ids[bounds[d] : bounds[d + 1]]`` and ends with `END`. Either `start` and `end`
    are set, the character positions of each token in its document, or `words`, the tokens of each
    document.
    """

    ids: Ints
    bounds: Ints
    start: Ints | None = None
    end: Ints | None = None
    words: list[list[str]] | None = None

    def of(self, doc: int) -> Ints:
        """Return the integers of one document without its end mark."""
        return self.ids[self.bounds[doc] : self.bounds[doc + 1] - 1]

    @property
    def base(self) -> int:
        """Smallest integer above all of `ids`."""
        return int(self.ids.max(initial=END)) + 1

    def cut(self, text: str, doc: int, begin: int, run: int) -> str:
        """Return the part of a document that has ``run`` tokens and starts at token ``begin``."""
        if self.words is not None:
            return _find_run(text, self.words[doc][: begin + run], begin)
        assert self.start is not None and self.end is not None
        first = int(self.bounds[doc]) + begin
        return text[self.start[first] : self.end[first + run - 1]]


def _find_run(text: str, words: list[str], k: int) -> str:
    """Return the part of a text from the word ``words[k]`` to the word ``words[-1]``.

    If the text lacks one of the words (for example, because the tokenizer stems), return
    ``words[k:]`` joined by blanks.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    cursor, begin = 0, 0
    for i, word in enumerate(words):
        at = folded.find(word, cursor)
        at = at if at >= 0 else folded.find(word.lower(), cursor)
        if at < 0:
            return " ".join(words[k:])
        begin = at if i == k else begin
        cursor = at + len(word)
    return text[begin:cursor]


def intern(docs: list[str], tokenizer: Tokenizer | None = None) -> Tokens:
    """Replace the tokens of documents by integers; equal integers mean equal tokens.

    With the default tokenizer, all documents are processed in one pass.
    """
    if tokenizer is None or tokenizer is tokenize:
        return _intern_default(docs)
    words = [tokenizer(doc) for doc in docs]
    if any(isinstance(ws, str) for ws in words):
        raise TypeError("tokenizer: found a str returned; it must return a list of str.")
    flat = np.array([w for ws in words for w in ws], dtype=object)
    ids = pd.factorize(flat)[0].astype(np.int64) + 1
    count = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    bounds, place = _with_ends(count)
    return Tokens(_values_at_places(ids, place, bounds), bounds, words=words)


def _with_ends(count: Ints) -> tuple[Ints, Ints]:
    """Return the bounds of documents, each with an end mark, and the position of each token."""
    bounds = np.concatenate([[0], np.cumsum(count + 1)])
    return bounds, np.arange(count.sum()) + np.repeat(np.arange(len(count)), count)


def _values_at_places(values: Ints, place: Ints, bounds: Ints) -> Ints:
    out = np.zeros(bounds[-1], dtype=np.int64)
    out[place] = values
    return out


def _intern_default(docs: list[str]) -> Tokens:
    """Tokenize by the default rule, and number the tokens without creating a text for each."""
    docs = [" ".join(sorted(STOP_WORDS)), *docs]
    dotted = [d for d, doc in enumerate(docs) if _DOTTED_I in doc]
    plain = list(docs)
    for d in dotted:
        plain[d] = docs[d].replace(_DOTTED_I, _DOTTED_I.lower())
    joined = "\n".join(plain).replace(_KELVIN, "k")
    # Each character must become one byte, so that positions in bytes are positions in the text.
    data = b" " + joined.encode("ascii", "replace").translate(_FOLD) + b" " * (1 + _WORD_BYTES)
    edge = np.frombuffer(data, dtype=np.uint8) != ord(" ")
    edges = np.flatnonzero(edge[1:] != edge[:-1]) + 1
    start, end = edges[0::2], edges[1::2]
    long_enough = np.flatnonzero(end - start >= MIN_LENGTH)
    start, end = start[long_enough], end[long_enough]
    ids = _intern_bytes(data, start, end - start)

    size = np.fromiter(map(len, plain), dtype=np.int64, count=len(plain))
    offset = 1 + np.concatenate([[0], np.cumsum(size + 1)])
    n_stop = int(np.searchsorted(start, offset[1]))
    stop = np.zeros(ids.max(initial=0) + 1, dtype=bool)
    stop[ids[:n_stop]] = True
    long_enough = np.flatnonzero(~stop[ids])
    start, end, ids = start[long_enough], end[long_enough], ids[long_enough]
    count = np.diff(np.searchsorted(start, offset[1:]))
    bounds, place = _with_ends(count)
    shift = np.repeat(offset[1:-1], count)
    start, end = start - shift, end - shift
    for d in dotted:
        mine = slice(bounds[d - 1] - d + 1, bounds[d] - d)
        origin = np.repeat(np.arange(len(docs[d])), [1 + (c == _DOTTED_I) for c in docs[d]])
        start[mine], end[mine] = origin[start[mine]], origin[end[mine] - 1] + 1
    ids, start, end = (_values_at_places(v, place, bounds) for v in (ids + 1, start, end))
    return Tokens(ids, bounds, start, end)


def _intern_bytes(data: bytes, start: Ints, length: Ints) -> Ints:
    """Return an integer for each token, so that equal integers mean equal bytes."""
    block = np.ndarray((len(data) - _WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    mask = np.array([(1 << 8 * k) - 1 for k in range(_WORD_BYTES + 1)], dtype=np.uint64)
    ids, heads = pd.factorize(block[start] & mask[np.minimum(length, _WORD_BYTES)])
    ids = ids.astype(np.int64)
    n_ids = len(heads)
    for done in range(_WORD_BYTES, _LONG_TOKEN, _WORD_BYTES):
        more = np.flatnonzero(length > done)
        if not len(more):
            return ids
        rest = np.minimum(length[more] - done, _WORD_BYTES)
        tail, tails = pd.factorize(block[start[more] + done] & mask[rest])
        pair, pairs = pd.factorize(ids[more] * len(tails) + tail)
        ids[more] = n_ids + pair
        n_ids += len(pairs)
    more = np.flatnonzero(length > _LONG_TOKEN)
    ends = start[more] + length[more]
    rests = [data[a:b] for a, b in zip(start[more] + _LONG_TOKEN, ends, strict=True)]
    tail, tails = pd.factorize(np.array(rests, dtype=object))
    ids[more] = n_ids + pd.factorize(ids[more] * max(len(tails), 1) + tail)[0]
    return ids


def shared_ngrams(
    text: str, source: str, *, n: int = 6, exclude: str = "", tokenizer: Tokenizer | None = None
) -> list[str]:
    """List the distinct n-grams of a text that occur in a source.

    This is for one pair of texts; use `match` for many texts or several n.

    Parameters
    ----------
    text, source : str
        The text to examine, such as an answer, and the text that it may copy, such as a skill.
    n : int, default 6
        Tokens in an n-gram, at least 1.
    exclude : str, optional
        A text, such as the prompt; its n-grams do not count as shared.
    tokenizer : callable, optional
        A function from str to list of str; `tokenize` if omitted.

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
    allowed = set(grams(split(source), n)) - set(grams(split(exclude), n))
    return [" ".join(gram) for gram in dict.fromkeys(grams(words, n)) if gram in allowed]


def grams(words: Sequence[Word], n: int) -> list[tuple[Word, ...]]:
    """Return all n-grams in order, repeats included."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def check_n(n: Iterable[int] | int) -> Ints:
    """Check lengths of n-grams and return them sorted and distinct.

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
        If no length is given, or a length is not a whole number of at least 1.

    Examples
    --------
    >>> check_n([6, 3, 6]).tolist()
    [3, 6]
    """
    lengths = [n] if isinstance(n, int) else list(n)
    wrong = [x for x in lengths if not isinstance(x, (int, np.integer)) or not 1 <= x < 2**63]
    if wrong or not lengths:
        problem = f"found {wrong[0]!r}" if wrong else "found none"
        raise ValueError(f"n: {problem}; allowed are whole numbers of at least 1, as range(3, 13).")
    return np.unique(np.asarray(lengths, dtype=np.int64))


@dataclass(frozen=True)
class Matches:
    """Counts of the n-grams that each text shares with its source.

    Attributes
    ----------
    n : ndarray of int64, shape (n_lengths,)
        Lengths of n-grams, ascending.
    n_tokens : ndarray of int64, shape (n_texts,)
        Number of tokens of each text.
    n_distinct, n_shared : ndarray of int64, shape (n_texts, n_lengths)
        Numbers of distinct n-grams of each text, and of those that its source shares.
    longest_run : ndarray of int64, shape (n_texts,)
        Number of tokens in the longest shared run; 0 if no token is shared. It may exceed every
        length in ``n``.
    longest_text : list of str
        The longest shared run as written in the text; empty if there is none. Of several runs with
        the same length, the first.
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
        The texts to examine.
    sources : sequence of str
        The texts that may be copied, such as skills.
    source_of : sequence of int
        For each text, the index of its source in `sources`.
    excludes : sequence of str, optional
        Texts, such as prompts, with n-grams that do not count as shared.
    exclude_of : sequence of int, optional
        For each text, the index in `excludes` of the text to exclude; -1 for none.
    n : iterable of int, or one int
        Lengths of n-grams in tokens.
    tokenizer : callable, optional
        A function from str to list of str; `tokenize` if omitted.

    Returns
    -------
    Matches
        Arrays in the order of `texts`.

    Notes
    -----
    Every n-gram has a number. It is found from the number of the first n - 1 tokens and from the
    last token, so equal numbers mean equal n-grams and no hash can collide. A position is compared
    at n + 1 only if it matched at n. Runs longer than the largest n are measured by sorting
    suffixes with prefix doubling (doi:10.1137/0222058). The time this takes hardly depends on the
    length of the runs.

    Without `excludes`, a text that shares an n-gram also shares the shorter n-grams inside it. With
    `excludes` it may not: the prompt may contain both runs of three tokens inside a run of four,
    but not the run of four.

    Examples
    --------
    >>> found = match(["narrow unknown values"], ["unknown values leak"], [0], n=[1, 2, 3])
    >>> found.n_shared.tolist(), found.longest_text
    ([[2, 1, 0]], ['unknown values'])
    """
    source_index = np.asarray(source_of, dtype=np.int64)
    excluded = np.full(len(texts), -1) if exclude_of is None else exclude_of
    exclude_index = np.asarray(excluded, dtype=np.int64)
    job = _Job(texts, sources, source_index, excludes, exclude_index, check_n(n), tokenizer)
    # sort the texts by source, so that a batch needs few sources
    order = np.argsort(source_index, kind="stable")
    size = np.fromiter((len(texts[i]) + 1 for i in order), dtype=np.int64, count=len(order))
    batch_of = np.cumsum(size) // BATCH
    batches = np.split(order, np.flatnonzero(np.diff(batch_of)) + 1)
    parts = [_match_batch(job, rows) for rows in batches]
    back = np.argsort(order, kind="stable")
    longest = [text for part in parts for text in part.longest_text]
    return Matches(
        n=job.n,
        n_tokens=np.concatenate([part.n_tokens for part in parts])[back],
        n_distinct=np.concatenate([part.n_distinct for part in parts])[back],
        n_shared=np.concatenate([part.n_shared for part in parts])[back],
        longest_run=np.concatenate([part.longest_run for part in parts])[back],
        longest_text=[longest[i] for i in back],
    )


@dataclass(frozen=True)
class _Job:
    """Checked arguments of `match`."""

    texts: Sequence[str]
    sources: Sequence[str]
    source_of: Ints
    excludes: Sequence[str]
    exclude_of: Ints
    n: Ints
    tokenizer: Tokenizer | None


def _match_batch(job: _Job, rows: Ints) -> Matches:
    """Return the matches of the texts with the indices `rows`, in this order."""
    used, source = np.unique(job.source_of[rows], return_inverse=True)
    banned, exclude = np.unique(job.exclude_of[rows], return_inverse=True)
    exclude = exclude + len(used)
    docs = [job.sources[i] for i in used]
    docs += ["" if i < 0 else job.excludes[i] for i in banned]
    texts = [job.texts[i] for i in rows]
    # texts follow the sources and excluded texts; this is the index of the first of them
    first = len(docs)
    tokens = intern(docs + texts, job.tokenizer)
    here = np.arange(tokens.bounds[first], tokens.bounds[-1])
    count = np.diff(tokens.bounds)[first:] - 1
    top = min(int(job.n[-1]), int(count.max(initial=0)) + 1)  # no text has more tokens than this
    text = np.repeat(np.arange(len(rows)), count + 1)
    shared = _match_lengths(tokens, range(len(used)), here, source[text], top)
    excluded = np.zeros_like(shared)
    if job.excludes:
        some = np.flatnonzero(shared)
        owner = exclude[text[some]]
        excluded[some] = _match_lengths(tokens, range(len(used), first), here[some], owner, top)
    repeated = _repeat_lengths(tokens, here, text, top)

    low = np.minimum(np.maximum(excluded, repeated), shared)
    n = np.minimum(job.n, top)
    at_least = [_at_least(text, x, len(rows), top)[:, n] for x in (repeated, shared, low)]
    owners = source, exclude
    shared = _extend_to_true_lengths(tokens, top, text, shared, excluded, owners)
    at = np.flatnonzero(shared > excluded)
    run, begin = _first_longest(text[at], at, shared[at], len(rows))
    begin -= tokens.bounds[first:-1] - tokens.bounds[first]
    return Matches(
        n=job.n,
        n_tokens=count,
        n_distinct=np.maximum(count[:, None] - job.n + 1, 0) - at_least[0],
        n_shared=at_least[1] - at_least[2],
        longest_run=run,
        longest_text=[
            tokens.cut(text, first + i, int(begin[i]), int(run[i])) if run[i] else ""
            for i, text in enumerate(texts)
        ],
    )


def _match_lengths(tokens: Tokens, docs: range, at: Ints, owner: Ints, top: int) -> Ints:
    """Return the length of the longest match (at most `top`) that starts at each position.

    Each position is compared with one document: `owner` holds its index within `docs`.
    """
    ids, base = tokens.ids, tokens.base
    mine = np.arange(tokens.bounds[docs.start], tokens.bounds[docs.stop])
    mine_rank = np.repeat(docs, np.diff(tokens.bounds[docs.start : docs.stop + 1]))
    rank, where = owner, np.arange(len(at))
    in_docs = np.zeros(base, dtype=bool)
    in_docs[ids[mine]] = True
    in_docs[END] = False
    length = np.zeros(len(at), dtype=np.int64)
    for n in range(1, top + 1):
        go = ids[mine + n - 1] != END
        mine, mine_rank = mine[go], mine_rank[go]
        go = np.flatnonzero(in_docs[ids[at + n - 1]])
        at, rank, where = at[go], rank[go], where[go]
        if not len(at) or not len(mine):
            break
        pairs = [mine_rank * base + ids[mine + n - 1], rank * base + ids[at + n - 1]]
        # Codes are numbered in order of appearance, and the documents come first. An n-gram with a
        # code above those of the documents is thus in no document.
        code = pd.factorize(np.concatenate(pairs))[0]
        mine_rank, rank = code[: len(mine)], code[len(mine) :]
        go = np.flatnonzero(rank <= mine_rank.max())
        at, rank, where = at[go], rank[go], where[go]
        length[where] = n
    return length


def _repeat_lengths(tokens: Tokens, at: Ints, text: Ints, top: int) -> Ints:
    """For each position, return the length of the longest repeated n-gram that begins there.

    An n-gram is repeated if the same n-gram begins at an earlier position of the same text. Lengths
    are at most `top`.
    """
    rank, where = text, np.arange(len(at))
    length = np.zeros(len(at), dtype=np.int64)
    for n in range(1, top + 1):
        last = tokens.ids[at + n - 1]
        go = np.flatnonzero(last != END)
        at, where = at[go], where[go]
        rank, again, shared = _dense_ranks(rank[go] * tokens.base + last[go])
        length[where[again]] = n
        at, rank, where = at[shared], rank[shared], where[shared]
    return length


def _dense_ranks(values: Ints) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return each value's dense rank, whether it occurs earlier, and whether it is repeated."""
    # Packing value and position into one number makes a plain sort, which is fast, stable.
    bits = len(values).bit_length()
    if int(values.max(initial=0)) >> (63 - bits):
        values = pd.factorize(values, sort=True)[0].astype(np.int64)
    both = np.sort(values << bits | np.arange(len(values)))
    place, value = both & ((1 << bits) - 1), both >> bits
    same = np.zeros(len(values) + 1, dtype=bool)
    same[1:-1] = value[1:] == value[:-1]
    rank = np.empty_like(values)
    again, shared = np.empty((2, len(values)), dtype=bool)
    rank[place] = np.cumsum(~same[:-1])
    again[place] = same[:-1]
    shared[place] = same[:-1] | same[1:]
    return rank, again, shared


def _at_least(text: Ints, length: Ints, n_texts: int, top: int) -> Ints:
    """Count, for each text, the positions with a length of at least 0, 1, ..., `top`."""
    table = np.bincount(text * (top + 1) + length, minlength=n_texts * (top + 1))
    return np.cumsum(table.reshape(n_texts, top + 1)[:, ::-1], axis=1)[:, ::-1]


def _first_longest(text: Ints, at: Ints, length: Ints, n_texts: int) -> tuple[Ints, Ints]:
    """Return, for each text, its largest length and the first position in `at` with this length."""
    run = np.zeros(n_texts, dtype=np.int64)
    np.maximum.at(run, text, length)
    best = np.flatnonzero(length == run[text])[::-1]
    begin = np.zeros(n_texts, dtype=np.int64)
    begin[text[best]] = at[best]
    return run, begin


def _extend_to_true_lengths(
    tokens: Tokens, top: int, text: Ints, shared: Ints, excluded: Ints, owners: tuple[Ints, Ints]
) -> Ints:
    """Return `shared` with the true length of each run that it cuts off at `top` tokens.

    `owners` has two arrays with one entry per text: the index of its source, and the index of its
    excluded text, among the documents.
    """
    place = np.arange(len(shared))
    begun = np.maximum.accumulate(np.where(shared == top, place, -top))
    end = np.flatnonzero(place - begun < top)  # positions inside matches of `top` tokens
    if not len(end):
        return shared
    at = end + len(tokens.ids) - len(text)
    source, banned = _longest_runs_ending(tokens, at, owners[0][text[end]]), np.zeros_like(end)
    if (excluded == top).any():
        banned = _longest_runs_ending(tokens, at, owners[1][text[end]])
    new = (source >= top) & (source > banned)
    longer = shared.copy()
    # Of the runs with the same beginning, the longest ends last and thus overwrites the others.
    longer[end[new] - source[new] + 1] = source[new]
    return longer


def _longest_runs_ending(tokens: Tokens, at: Ints, owner: Ints) -> Ints:
    """Return, for each position, the length of the longest run in its document that ends there."""
    length = np.zeros(len(at), dtype=np.int64)
    for doc in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == doc)
        # Insert an end mark where positions are missing, so that no run can cross the gap.
        gap = np.flatnonzero(np.diff(at[mine]) > 1) + 1
        piece = np.insert(tokens.ids[at[mine]], gap, END)
        runs = _longest_starts(piece[::-1], tokens.of(doc)[::-1])[::-1]
        length[mine] = np.delete(runs, gap + np.arange(len(gap)))
    return length


def _longest_starts(piece: Ints, source: Ints) -> Ints:
    """Return, for each position, the length of the longest run starting there in the source."""
    both = np.concatenate([piece, [END], source])
    n, size = len(both), 1
    ranks = [_dense_ranks(both)[0]]
    # Rank the runs of 1, 2, 4, ... tokens, up to the length of the longest possible match.
    most = min(int(np.diff(np.flatnonzero(both == END), prepend=-1).max()), len(source))
    while size <= most:
        # beyond the end, the value is 0, which is below all ranks
        after = np.append(ranks[-1][size:], np.zeros(size, dtype=np.int64))
        ranks.append(_dense_ranks(ranks[-1] * (n + 1) + after)[0])
        size *= 2
    order = np.argsort(ranks[-1])
    there = np.where(order > len(piece), np.arange(n), -1)
    below = np.maximum.accumulate(there)
    above = n - 1 - np.maximum.accumulate(np.where(there[::-1] >= 0, np.arange(n), -1))[::-1]
    longest = np.zeros(n, dtype=np.int64)
    # Among sorted suffixes, each has its longest match with one of its two neighbours.
    for near in (below, above):
        neighbours = np.flatnonzero((near >= 0) & (near < n))
        place, other = order[neighbours], order[near[neighbours]]
        length = np.zeros(len(neighbours), dtype=np.int64)
        for power, rank in reversed(list(enumerate(ranks))):
            x, y = place + length, other + length
            inside = np.maximum(x, y) < n
            same = rank[np.minimum(x, n - 1)] == rank[np.minimum(y, n - 1)]
            length += (inside & same) << power
        longest[place] = np.maximum(longest[place], length)
    return longest[: len(piece)]


def __dir__() -> list[str]:
    return __all__
