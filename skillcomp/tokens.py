"""Tokens: the default tokenizer, and whole batches of documents as integers.

The integers are exact: equal integers mean equal tokens, nothing rests on a hash alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Tokenizer = Callable[[str], list[str]]
Ints = NDArray[np.int64]

# The starting list of the source report, section A.3.
STOP_WORDS = frozenset(
    {
        "this",
        "that",
        "they",
        "them",
        "with",
        "from",
        "have",
        "will",
        "would",
        "could",
        "should",
        "their",
        "there",
        "where",
        "when",
        "what",
        "which",
        "while",
        "about",
        "after",
        "before",
        "between",
        "into",
        "than",
        "then",
    }
)
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


END = 0  # stands after the last token of each document and matches nothing


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
    """Return documents as integers, one for each token.

    Parameters
    ----------
    docs : list of str
        The documents.
    tokenizer : callable, optional
        From str to list of str; `tokenize`, done for all documents at once, when not given.

    Returns
    -------
    Tokens
        The documents in the given order.

    Raises
    ------
    TypeError
        When the tokenizer returns a str, whose letters would be taken for tokens.

    Examples
    --------
    >>> tokens = intern(["Type checker", "the checker"])
    >>> bool(tokens.of(0)[1] == tokens.of(1)[0])
    True
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
