"""The tokenizer and the n-gram engine, against sets of tuples."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillcomp import ngrams
from skillcomp.ngrams import STOP_WORDS, Matches, Tokenizer, match, shared_ngrams, tokenize

LONG = "deltas" * 20
WORDS = [
    *("alpha", "Beta", "gammagamma", "gammagammagamma", "this", "x", LONG, LONG + "x", "1234"),
    *("\u212aelvin", "abc\u0130stanbul", "naïveté", "the\U0001f600", "\ud800lone", "NUL\0NULL\0"),
]


def grams(words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def split_by_the_report(text: str) -> list[str]:
    """Split a text character by character: a second implementation of the tokenizer."""
    words, word = [], ""
    for c in text.lower() + " ":
        if c in "abcdefghijklmnopqrstuvwxyz0123456789":
            word += c
        else:
            words.append(word)
            word = ""
    return [w for w in words if len(w) > 3 and w not in STOP_WORDS]


def check_against_sets(
    found: Matches, texts: list[str], source: str, prompt: str, split: Tokenizer
) -> None:
    body, asked = split(source), split(prompt)
    for i, text in enumerate(texts):
        own = split(text)
        assert found.n_tokens[i] == len(own)
        for k, n in enumerate(found.n.tolist()):
            counted = (grams(own, n) & grams(body, n)) - grams(asked, n)
            assert found.n_distinct[i, k] == len(grams(own, n))
            assert found.n_shared[i, k] == len(counted)
        runs = [
            (n, j)
            for n in range(1, len(own) + 1)
            for j in range(len(own) - n + 1)
            if tuple(own[j : j + n]) in grams(body, n) - grams(asked, n)
        ]
        longest = max((n for n, _ in runs), default=0)
        first = min((j for n, j in runs if n == longest), default=0)
        assert found.longest_run[i] == longest
        assert found.longest_text[i] in text
        assert split(found.longest_text[i]) == own[first : first + longest]


def documents(max_size: int) -> st.SearchStrategy[str]:
    separators = st.sampled_from([" ", ", ", "\n", " — ", "-", "\0", "\u2003"])
    piece = st.tuples(st.sampled_from(WORDS), separators).map("".join)
    return st.lists(piece, max_size=max_size).map("".join)


@settings(max_examples=50, deadline=None)
@given(
    source=documents(40),
    prompt=documents(12),
    own=st.lists(documents(20), max_size=4),
    cut=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    n=st.sampled_from([[1], [6], [2, 5], [1, 2, 3], list(range(3, 13)), [2, 10**12]]),
    split=st.sampled_from([None, str.split]),
)
def test_every_count_is_that_of_sets(source, prompt, own, cut, n, split) -> None:
    copied = source[min(cut) : max(cut)]
    texts = [*own, *(copied + text for text in own), prompt + copied, source]
    zeros = [0] * len(texts)
    found = match(texts, [source], zeros, excludes=[prompt], exclude_of=zeros, n=n, tokenizer=split)
    check_against_sets(found, texts, source, prompt, split or tokenize)


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(st.sampled_from(["alpha ", "beta1 ", "gamma "]), min_size=1, max_size=60),
    prompt=st.lists(st.sampled_from(["alpha ", "beta1 ", "gamma "]), max_size=30),
)
def test_few_words_repeated_often_are_counted_right(parts: list[str], prompt: list[str]) -> None:
    text, source = "".join(parts), "".join(parts[::-1] + parts[: len(parts) // 2])
    texts = [text, source, text * 2]
    found = match(
        texts, [source], [0] * 3, excludes=["".join(prompt)], exclude_of=[0] * 3, n=[2, 4]
    )
    check_against_sets(found, texts, source, "".join(prompt), tokenize)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=80))
@example("\u0130\u0130abcd\u0130 efgh")
@example("\ud800\0word\U0001f600word")
@example("")
def test_any_text_is_split_as_the_report_says_by_both_implementations(text: str) -> None:
    assert tokenize(text) == split_by_the_report(text)
    batch = ngrams.intern([text, "other words", text])
    cut = [batch.cut(text, 0, i, 1) for i in range(len(tokenize(text)))]
    assert [tokenize(piece)[0] for piece in cut] == tokenize(text)
    assert batch.of(0).tolist() == batch.of(2).tolist()


def test_only_two_letters_outside_ascii_hold_ascii_when_lowered() -> None:
    # The byte table relies on it.
    plain = set("abcdefghijklmnopqrstuvwxyz0123456789")
    found = {chr(c) for c in range(128, sys.maxunicode + 1) if plain & set(chr(c).lower())}
    assert found == {"\u212a", "\u0130"}


def test_the_tokenizer_drops_short_words_stop_words_and_everything_but_letters_and_digits() -> None:
    assert tokenize("This DATA flows; it's re-checked — naïveté, 2026!") == [
        "data", "flows", "checked", "2026",
    ]  # fmt: skip


def test_a_hand_worked_text_gives_its_numbers() -> None:
    # Tokens: narrow unknown values early narrow unknown values leak (8).
    # 2-grams: nu uv ve en nu uv vl = 5 distinct; the source has nu uv vl -> 3.
    # 3-grams: nuv uve ven enu nuv uvl = 5 distinct; the source has nuv uvl -> 2.
    # Longest: narrow unknown values leak, 4 tokens.
    text = "Narrow unknown values early; narrow unknown values leak."
    found = match([text], ["Always: narrow the unknown values, leak"], [0], n=[2, 3])
    assert found.n_tokens.tolist() == [8]
    assert found.n_distinct.tolist() == [[5, 5]]
    assert found.n_shared.tolist() == [[3, 2]]
    assert found.longest_run.tolist() == [4]
    assert found.longest_text == ["narrow unknown values leak"]


def test_results_do_not_depend_on_how_the_texts_fall_into_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = ["alpha beta1 gamma " * 9, "delta1 alpha gamma beta1 " * 8 + "omega"]
    texts = [sources[i % 2][i : 40 + 9 * i] + " sigma" * (i % 3) for i in range(20)]
    asked = {
        "source_of": [i % 2 for i in range(20)],
        "excludes": ["gamma alpha beta1", "omega"],
        "exclude_of": [i % 3 - 1 for i in range(20)],
        "n": [2, 3, 5],
    }
    whole = match(texts, sources, **asked)
    monkeypatch.setattr(ngrams, "BATCH", 60)
    parts = match(texts, sources, **asked)
    for name in ("n_tokens", "n_distinct", "n_shared", "longest_run"):
        assert (getattr(whole, name) == getattr(parts, name)).all(), name
    assert whole.longest_text == parts.longest_text


def test_hostile_texts_are_measured_without_blowing_up() -> None:
    # A level-by-level search for the longest run would take the square of these lengths.
    texts = ["word " * 50_000, "x" * 1_000_000, "\0" * 10_000, "", "\U0001f600" * 10_000, "\ud800"]
    found = match(texts, ["word " * 20_000 + "x" * 1_000_000], [0] * 6, n=[6])
    assert found.n_tokens.tolist() == [50_000, 1, 0, 0, 0, 0]
    assert found.longest_run.tolist() == [20_000, 1, 0, 0, 0, 0]
    assert found.n_shared.tolist() == [[1], [0], [0], [0], [0], [0]]


def test_no_texts_give_empty_arrays() -> None:
    found = match([], ["some source"], [])
    assert found.n_shared.shape == (0, 10)
    assert found.longest_text == []


def test_a_longest_run_that_stands_in_the_prompt_gives_way_to_the_next() -> None:
    source = "one1 two2 three four five5 six6 seven; sources alpha beta1 gamma delta1"
    text = "one1 two2 three four five5 six6 seven; however alpha beta1 gamma delta1"
    asked = {"excludes": ["one1 two2 three four five5 six6 seven"], "exclude_of": [0]}
    for n in ([2], [3], [5], [20]):
        assert match([text], [source], [0], n=n, **asked).longest_text == [
            "alpha beta1 gamma delta1"
        ]


def test_a_tokenizer_that_rewrites_gives_its_tokens_as_the_longest_text() -> None:
    def stems(text: str) -> list[str]:
        return [word[:3].upper() + "#" for word in text.split()]

    found = match(["narrowing unknowns leaks"], ["narrow unknown"], [0], n=[2], tokenizer=stems)
    assert found.longest_text == ["NAR# UNK#"]


def test_a_tokenizer_that_returns_text_is_refused() -> None:
    with pytest.raises(TypeError, match="must return a list of str"):
        match(["a text"], ["a source"], [0], tokenizer=str.lower)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [[], [0], [3, -1], [2.5], 0])
def test_lengths_that_are_none_are_refused(n: object) -> None:
    with pytest.raises(ValueError, match=r"whole numbers of at least 1, as range\(3, 13\)"):
        match(["a"], ["b"], [0], n=n)  # type: ignore[arg-type]


def test_the_shared_ngrams_of_one_pair_are_named_in_order_and_once() -> None:
    text = "values leak early, values leak early again"
    source = "leak early values leak early"
    assert shared_ngrams(text, source, n=2) == ["values leak", "leak early", "early values"]
    assert shared_ngrams(text, source, n=2, exclude="values leak") == [
        "leak early",
        "early values",
    ]
    assert shared_ngrams(text, source) == []
