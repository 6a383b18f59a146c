"""Shared n-grams: tokens, exact and vectorised matching for every n in one pass, longest runs.

A text shares an n-gram with a source when n consecutive tokens of the text are n consecutive
tokens of the source. All n are answered together by one number for each position of the text:
the length of the longest match that starts there.
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

# The starting list of the source report, section A.3.
_STOP = """
this that they them with from have will would could should their there where when what which while
about after before between into than then
"""
STOP_WORDS = frozenset(_STOP.split())
BATCH = 2**20  # characters worked on at once: keeps the arrays inside the processor's cache
END = 0  # stands after the last token of each document and matches nothing
MIN_LENGTH = 4  # characters; the report keeps tokens longer than three

_WORD = re.compile(f"[a-z0-9]{{{MIN_LENGTH},}}")
# Every byte but a letter or digit becomes a blank, capitals become small: one table lookup a byte.
_FOLD = bytes(ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else ord(" ") for b in range(256))
_KELVIN, _DOTTED_I = "\u212a", "\u0130"  # the only others whose lower case holds an ASCII letter
_WORD_BYTES = 8  # a token is compared eight bytes at a time
_LONG_TOKEN = 64  # bytes; beyond this the tail of a token is compared as one object


def tokenize(text: str) -> list[str]:
    """Return the content tokens of a text by the rule of the source report.

    Lower case, every character outside ``[a-z0-9]`` separates, tokens of at most three
    characters and the words of `STOP_WORDS` are dropped.

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
    Letters outside ASCII separate too, so the rule fits English only; give another tokenizer
    for other languages.

    Examples
    --------
    >>> tokenize("The type-checker's 3rd PASS would narrow it.")
    ['type', 'checker', 'pass', 'narrow']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


@dataclass(frozen=True)
class Tokens:
    """Documents as one array of integers, equal where and only where the tokens are equal.

    Document d is ``ids[bounds[d] : bounds[d + 1]]`` and ends with `END`. `start` and `end` are
    places in the characters of the document, `words` the tokens themselves: one of both is kept.
    """

    ids: Ints
    bounds: Ints
    start: Ints | None = None
    end: Ints | None = None
    words: list[list[str]] | None = None

    def of(self, doc: int) -> Ints:
        """Return the tokens of one document without its end mark."""
        return self.ids[self.bounds[doc] : self.bounds[doc + 1] - 1]

    @property
    def base(self) -> int:
        """Return a number above all integers in `ids`."""
        return int(self.ids.max(initial=END)) + 1

    def cut(self, text: str, doc: int, begin: int, run: int) -> str:
        """Return the piece of the text that holds a run of tokens.

        `begin` counts tokens from the start of the document, whose text is given.
        """
        if self.words is not None:
            return _find_run(text, self.words[doc][: begin + run], begin)
        assert self.start is not None and self.end is not None
        first = int(self.bounds[doc]) + begin
        return text[self.start[first] : self.end[first + run - 1]]


def _find_run(text: str, words: list[str], k: int) -> str:
    """Return the part of a text from the k-th to the last of the words, found by search.

    A tokenizer that rewrites (stems) leaves tokens that are not in the text: then the tokens
    themselves are the answer.
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
    """Return documents as integers, one for each token; equal integers for equal tokens only.

    Without a tokenizer of one's own all documents are done at once by the rule of `tokenize`.
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
    return Tokens(_spread(ids, place, bounds), bounds, words=words)


def _with_ends(count: Ints) -> tuple[Ints, Ints]:
    """Return the bounds of documents with an end mark each, and the place of every token."""
    bounds = np.concatenate([[0], np.cumsum(count + 1)])
    return bounds, np.arange(count.sum()) + np.repeat(np.arange(len(count)), count)


def _spread(values: Ints, place: Ints, bounds: Ints) -> Ints:
    out = np.zeros(bounds[-1], dtype=np.int64)
    out[place] = values
    return out


def _intern_default(docs: list[str]) -> Tokens:
    """Intern by the rule of `tokenize`, without making a Python object for each token."""
    docs = [" ".join(sorted(STOP_WORDS)), *docs]
    dotted = [d for d, doc in enumerate(docs) if _DOTTED_I in doc]
    plain = list(docs)
    for d in dotted:
        plain[d] = docs[d].replace(_DOTTED_I, _DOTTED_I.lower())
    joined = "\n".join(plain).replace(_KELVIN, "k")
    # One byte for each character, so that places in the bytes are places in the text.
    data = b" " + joined.encode("ascii", "replace").translate(_FOLD) + b" " * (1 + _WORD_BYTES)
    edge = np.frombuffer(data, dtype=np.uint8) != ord(" ")
    edges = np.flatnonzero(edge[1:] != edge[:-1]) + 1
    start, end = edges[0::2], edges[1::2]
    kept = np.flatnonzero(end - start >= MIN_LENGTH)
    start, end = start[kept], end[kept]
    ids = _intern_bytes(data, start, end - start)

    offset = 1 + np.concatenate(
        [[0], np.cumsum(np.fromiter(map(len, plain), dtype=np.int64, count=len(plain)) + 1)]
    )
    n_stop = int(np.searchsorted(start, offset[1]))
    stop = np.zeros(ids.max(initial=0) + 1, dtype=bool)
    stop[ids[:n_stop]] = True
    kept = np.flatnonzero(~stop[ids])
    start, end, ids = start[kept], end[kept], ids[kept]
    count = np.diff(np.searchsorted(start, offset[1:]))
    bounds, place = _with_ends(count)
    shift = np.repeat(offset[1:-1], count)
    start, end = start - shift, end - shift
    for d in dotted:
        mine = slice(bounds[d - 1] - d + 1, bounds[d] - d)
        origin = np.repeat(np.arange(len(docs[d])), [1 + (c == _DOTTED_I) for c in docs[d]])
        start[mine], end[mine] = origin[start[mine]], origin[end[mine] - 1] + 1
    return Tokens(
        _spread(ids + 1, place, bounds),
        bounds,
        _spread(start, place, bounds),
        _spread(end, place, bounds),
    )


def _intern_bytes(data: bytes, start: Ints, length: Ints) -> Ints:
    """Return an integer for each token: equal integers for equal bytes, and only for those."""
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
    allowed = set(grams(split(source), n)) - set(grams(split(exclude), n))
    return [" ".join(gram) for gram in dict.fromkeys(grams(words, n)) if gram in allowed]


def grams(words: Sequence[Word], n: int) -> list[tuple[Word, ...]]:
    """Return all runs of n neighbours, in order, repeats included."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


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
    wrong = [x for x in lengths if not isinstance(x, (int, np.integer)) or not 1 <= x < 2**63]
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
    largest n are measured by sorting the runs of both by prefix doubling (doi:10.1137/0222058), in
    time that hardly depends on how long they are.

    Without `excludes`, a text that shares an n-gram shares its shorter ones too. With them this
    need not hold: a run of four tokens can be new although both its runs of three stand in the
    prompt.

    Examples
    --------
    >>> found = match(["narrow unknown values"], ["unknown values leak"], [0], n=[1, 2, 3])
    >>> found.n_shared.tolist(), found.longest_text
    ([[2, 1, 0]], ['unknown values'])
    """
    source_index = np.asarray(source_of, dtype=np.int64)
    exclude_index = (
        np.full(len(texts), -1, dtype=np.int64)
        if exclude_of is None
        else np.asarray(exclude_of, dtype=np.int64)
    )
    job = _Job(texts, sources, source_index, excludes, exclude_index, check_n(n), tokenizer)
    # Texts of one source stand together, so that a batch needs few sources.
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
    """What `match` was asked."""

    texts: Sequence[str]
    sources: Sequence[str]
    source_of: Ints
    excludes: Sequence[str]
    exclude_of: Ints
    n: Ints
    tokenizer: Tokenizer | None


def _match_batch(job: _Job, rows: Ints) -> Matches:
    """Return the matches of some of the texts, in the order of `rows`."""
    used, source = np.unique(job.source_of[rows], return_inverse=True)
    banned, exclude = np.unique(job.exclude_of[rows], return_inverse=True)
    docs = [job.sources[i] for i in used]
    docs += ["" if i < 0 else job.excludes[i] for i in banned]
    texts = [job.texts[i] for i in rows]
    first = len(docs)  # the documents from here on are the texts
    tokens = intern(docs + texts, job.tokenizer)
    here = np.arange(tokens.bounds[first], tokens.bounds[-1])
    count = np.diff(tokens.bounds)[first:] - 1
    top = min(int(job.n[-1]), int(count.max(initial=0)) + 1)  # no text has a longer n-gram
    text = np.repeat(np.arange(len(rows)), count + 1)
    shared = _match_lengths(tokens, range(len(used)), here, source[text], top)
    known = np.zeros_like(shared)
    if job.excludes:
        some = np.flatnonzero(shared)
        owner = exclude[text[some]] + len(used)
        known[some] = _match_lengths(tokens, range(len(used), first), here[some], owner, top)
    repeated = _repeat_lengths(tokens, here, text, top)

    low = np.minimum(np.maximum(known, repeated), shared)
    at_least = [
        _at_least(text, x, len(rows), top)[:, np.minimum(job.n, top)]
        for x in (repeated, shared, low)
    ]
    shared = _lengthen(tokens, top, text, shared, known, (source, exclude + len(used)))
    at = np.flatnonzero(shared > known)
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
    """Return the length of the longest match, at most `top`, at each of some places.

    `owner` tells for each place which of the documents `docs` it is compared with.
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
        # Codes are given in order of appearance, the documents' n-grams first.
        code = pd.factorize(np.concatenate(pairs))[0]
        mine_rank, rank = code[: len(mine)], code[len(mine) :]
        go = np.flatnonzero(rank <= mine_rank.max())
        at, rank, where = at[go], rank[go], where[go]
        length[where] = n
    return length


def _repeat_lengths(tokens: Tokens, at: Ints, text: Ints, top: int) -> Ints:
    """Return the longest n-gram, at most `top`, at each place that its text had before."""
    rank, where = text, np.arange(len(at))
    length = np.zeros(len(at), dtype=np.int64)
    for n in range(1, top + 1):
        last = tokens.ids[at + n - 1]
        go = np.flatnonzero(last != END)
        at, where = at[go], where[go]
        rank, again, shared = _rank(rank[go] * tokens.base + last[go])
        length[where[again]] = n
        at, rank, where = at[shared], rank[shared], where[shared]
    return length


def _rank(values: Ints) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return ranks in order, which values stood before, and which stand more than once."""
    # Value and place in one number make a plain sort stable, and it is several times as fast.
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
    """Return how many places of each text have a length of at least 0, 1, ..., top."""
    table = np.bincount(text * (top + 1) + length, minlength=n_texts * (top + 1))
    return np.cumsum(table.reshape(n_texts, top + 1)[:, ::-1], axis=1)[:, ::-1]


def _first_longest(text: Ints, at: Ints, length: Ints, n_texts: int) -> tuple[Ints, Ints]:
    """Return the largest length of each text and the first of the places `at` that has it."""
    run = np.zeros(n_texts, dtype=np.int64)
    np.maximum.at(run, text, length)
    best = np.flatnonzero(length == run[text])[::-1]
    begin = np.zeros(n_texts, dtype=np.int64)
    begin[text[best]] = at[best]
    return run, begin


def _lengthen(
    tokens: Tokens, top: int, text: Ints, shared: Ints, known: Ints, owners: tuple[Ints, Ints]
) -> Ints:
    """Return `shared` with true lengths; `owners` are the source and the exclude of each text."""
    place = np.arange(len(shared))
    begun = np.maximum.accumulate(np.where(shared == top, place, -top))
    end = np.flatnonzero(place - begun < top)  # all places of a match of `top` tokens
    if not len(end):
        return shared
    at = end + len(tokens.ids) - len(text)
    source, banned = _runs(tokens, at, owners[0][text[end]]), np.zeros_like(end)
    if (known == top).any():
        banned = _runs(tokens, at, owners[1][text[end]])
    new = (source >= top) & (source > banned)
    longer = shared.copy()
    # Ends ascend, so the longest of the runs with one beginning is written last.
    longer[end[new] - source[new] + 1] = source[new]
    return longer


def _runs(tokens: Tokens, at: Ints, owner: Ints) -> Ints:
    """Return the longest run of neighbouring places ending at each that stands in its document."""
    length = np.zeros(len(at), dtype=np.int64)
    for doc in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == doc)
        # an end mark stands in no document: nothing runs across it
        gap = np.flatnonzero(np.diff(at[mine]) > 1) + 1
        piece = np.insert(tokens.ids[at[mine]], gap, END)
        runs = _longest_starts(piece[::-1], tokens.of(doc)[::-1])[::-1]
        length[mine] = np.delete(runs, gap + np.arange(len(gap)))
    return length


def _longest_starts(piece: Ints, source: Ints) -> Ints:
    """Return for each place of a piece the longest run of a source that starts there."""
    both = np.concatenate([piece, [END], source])
    n, size = len(both), 1
    ranks = [_rank(both)[0]]
    # runs of 1, 2, 4, ... tokens are numbered in their order, until no run can be as long
    most = min(int(np.diff(np.flatnonzero(both == END), prepend=-1).max()), len(source))
    while size <= most:
        after = np.append(ranks[-1][size:], np.zeros(size, dtype=np.int64))  # ranks begin at 1
        ranks.append(_rank(ranks[-1] * (n + 1) + after)[0])
        size *= 2
    order = np.argsort(ranks[-1])
    there = np.where(order > len(piece), np.arange(n), -1)
    below = np.maximum.accumulate(there)
    above = n - 1 - np.maximum.accumulate(np.where(there[::-1] >= 0, np.arange(n), -1))[::-1]
    longest = np.zeros(n, dtype=np.int64)
    # what agrees longest with a place is its neighbour in the order
    for near in (below, above):
        known = np.flatnonzero((near >= 0) & (near < n))
        one, other = order[known], order[near[known]]
        length = np.zeros(len(known), dtype=np.int64)
        for power, rank in reversed(list(enumerate(ranks))):
            x, y = one + length, other + length
            inside = np.maximum(x, y) < n
            same = rank[np.minimum(x, n - 1)] == rank[np.minimum(y, n - 1)]
            length += (inside & same) << power
        longest[one] = np.maximum(longest[one], length)
    return longest[: len(piece)]


def __dir__() -> list[str]:
    return __all__
