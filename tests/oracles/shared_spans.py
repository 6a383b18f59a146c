"""Shared spans by trying every sequence of tokens: the second implementation of overlap.spans."""

from __future__ import annotations

from collections.abc import Sequence


def _contains(words: Sequence[str], run: Sequence[str]) -> bool:
    size = len(run)
    return any(list(words[at : at + size]) == list(run) for at in range(len(words) - size + 1))


def shared_spans(
    text: Sequence[str], files: Sequence[Sequence[str]], excluded: Sequence[Sequence[str]], n: int
) -> list[tuple[int, int, int, int]]:
    """Return first token and length of each span, and its file and first token there."""
    runs = [
        (begin, size)
        for begin in range(len(text))
        for size in range(n, len(text) - begin + 1)
        if any(_contains(file, text[begin : begin + size]) for file in files)
    ]
    maximal = [
        (begin, size)
        for begin, size in runs
        if not {(begin - 1, size + 1), (begin, size + 1)} & set(runs)
    ]
    spans: list[tuple[int, int, int, int]] = []
    chain: set[tuple[str, ...]] = set()
    for begin, size in maximal:
        grams = [tuple(text[at : at + n]) for at in range(begin, begin + size - n + 1)]
        if all(any(_contains(words, gram) for words in excluded) for gram in grams):
            continue
        overlaps = bool(spans) and begin < spans[-1][0] + spans[-1][1]
        repeats = overlaps and set(grams) <= chain
        chain = chain | set(grams) if overlaps else set(grams)
        if repeats:
            continue
        run = list(text[begin : begin + size])
        file, place = next(
            (number, at)
            for number, words in enumerate(files)
            for at in range(len(words) - size + 1)
            if list(words[at : at + size]) == run
        )
        spans.append((begin, size, file, place))
    return spans
