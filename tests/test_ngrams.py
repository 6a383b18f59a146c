"""The tokenizer and the n-gram engine, against sets of tuples."""

from __future__ import annotations

import functools
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillcomp import ngrams
from skillcomp.errors import FrameError
from skillcomp.ngrams import (
    STOP_WORDS,
    Matches,
    Tokenizer,
    match,
    name_of_tokenizer,
    normalise,
    shared_ngrams,
    tokenize,
    tokenize_unicode,
)

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
    def tokens(text: str) -> list[str]:
        return split(normalise(text)[0])

    body, asked = tokens(source), tokens(prompt)
    for i, text in enumerate(texts):
        own = tokens(text)
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
        assert tokens(found.longest_text[i]) == own[first : first + longest]


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


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=80))
@example("\u0130\u0130abcd\u0130 efgh")
@example("\ud800\0word\U0001f600word")
@example("")
def test_any_text_is_split_as_the_report_says_by_both_implementations(text: str) -> None:
    assert tokenize(text) == split_by_the_report(normalise(text)[0])
    batch = ngrams.intern([text, "other words", text])
    cut = [batch.cut(text, 0, i, 1) for i in range(len(tokenize(text)))]
    assert [tokenize(piece)[0] for piece in cut] == tokenize(text)
    assert batch.of(0).tolist() == batch.of(2).tolist()


def test_one_normal_letter_outside_ascii_holds_ascii_when_lowered() -> None:
    # The byte table relies on it.
    plain = set("abcdefghijklmnopqrstuvwxyz0123456789")
    every = map(chr, range(128, sys.maxunicode + 1))
    found = {c for c in every if plain & set(c.lower()) and unicodedata.is_normalized("NFKC", c)}
    assert found == {"\u0130"}


SENTENCE = "Define narrow fields before unknown values leak further."


@pytest.mark.parametrize(
    "copy",
    [
        "De\u00adfine nar\u00adrow fi\u00adelds be\u00adfore un\u00adknown va\u00adlues leak.",
        "De\ufb01ne narrow \ufb01elds before unknown values leak.",
        "Define nar-\nrow fields be-\r\n  fore unknown val\u00ad\nues leak.",
        'Define <em>narrow</em> fields <span class="x">before</span> unknown<br/>values leak.',
        "Define <STRONG>narrow</STRONG><!-- later --> fields before un<wbr>known values leak.",
        "Define&nbsp;narrow &ldquo;fields&rdquo;&mdash;before un&shy;known values leak.",
        "Ｄｅｆｉｎｅ narrow fie\u200blds\u00a0before un\u2060known valu\ufeffes leak.",
    ],
)
def test_the_same_sentence_in_other_bytes_shares_its_ngrams(copy: str) -> None:
    for tokenizer in (None, lambda text: text.lower().strip(".").split()):
        found = match([copy], [SENTENCE], [0], n=[4], tokenizer=tokenizer)
        assert found.longest_run[0] >= 6, (tokenizer, found)
        assert found.n_shared[0, 0] >= 3
        assert found.longest_text[0] in copy
    assert shared_ngrams(copy, SENTENCE, n=4)[0].startswith("define narrow fields")


@st.composite
def marked_up(draw: st.DrawFn) -> str:
    """Write SENTENCE in Markdown: links, images, emphasis, code and footnotes at any word."""
    marks = [
        *("{}", "[{}](https://a.b/c_(d)#e)", "[{}](<u v.md> 'leaks other words')", "[{}][ref]"),
        *("**{}**", "*{}*", "_{}_", "`{}`", "***{}***", "[**{}**](x.md)", "{}[^note]", "{}[^1]"),
        *("{} ![narrow icon](a.png)", "{} <https://x.yz/known>", "**{0[0]}**{0[1]}", "{}\u00b9"),
        *("{0[0]}*{0[1]}*", "`{0[0]}`{0[1]}", "[{0[0]}](u.v){0[1]}", "{}[^a].\u00b2"),
    ]
    words = []
    for word in SENTENCE[:-1].split():
        mark, cut = draw(st.sampled_from(marks)), draw(st.integers(1, len(word) - 1))
        words.append(mark.format((word[:cut], word[cut:]) if "{0" in mark else word))
    # two words in one link, whose own marks stay
    at = draw(st.integers(0, len(words) - 2))
    if not any("[" in word or "<" in word for word in words[at : at + 2]):
        words[at : at + 2] = [f"[{words[at]} {words[at + 1]}](https://other.words/leak)"]
    end = draw(st.sampled_from([".[^note]", ". [1][2]", ".\u00b9\u00b2", "."]))
    return " ".join(words) + end + '\n\n[ref]: https://a.b "Leak"\n[^note]: Other words.\n'


@settings(max_examples=150, deadline=None)
@given(marked_up())
def test_marks_of_markdown_do_not_cut_a_copy(copy: str) -> None:
    for split in (tokenize, tokenize_unicode):
        whole = len(split(SENTENCE))
        assert split(copy)[:whole] == split(SENTENCE)
        tokenizer = "unicode" if split is tokenize_unicode else None
        for text, source in ((copy, SENTENCE), (SENTENCE, copy)):
            found = match([text], [source], [0], n=[4], tokenizer=tokenizer)
            assert found.longest_run[0] == whole
            assert found.longest_text[0] in text


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("اَلسَّلَامُ عَلَيْكُمْ كـتـاب هٰذا", "السلام عليكم كتاب هذا"),
        ("ﺍﻟﺴﻼﻡ ﷲ", "السلام الله"),  # presentation forms
        ("בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים".replace("ב", "\ufb31", 1), "בראשית ברא אלהים"),
        ("می\u200cخواهم क\u094d\u200dष", "میخواهم क\u094dष"),
        ("ന\u0d4d\u200d", "\u0d7b"),
        ("ｆｕｌｌ ｶﾞ か\u3099", "full ガ が"),
    ],
)
def test_marks_that_do_not_change_a_word_are_left_out(marked: str, plain: str) -> None:
    assert tokenize_unicode(marked) == tokenize_unicode(plain)
    assert match([marked], [plain], [0], n=[1], tokenizer="unicode").longest_text == [marked]


@pytest.mark.parametrize(
    "words",
    [
        "की को का कि",  # vowels of Hindi
        "ढ ढ़ क क़",  # with a dot below, another letter
        "กา กี กู เก",  # vowels of Thai
        "か が は ば ぱ",
        "ma mà má mả mã mạ schon schön",
        "أمر امر آمر سؤال سوال",  # hamza and madda belong to a letter
        "ന\u0d4d ന\u0d4d\u200d",  # the joiner makes another letter
        "m2 m3 x_1 x[0](y) x[1](y) [0-9][a-z] [0-9][a-f]",
    ],
)
def test_marks_that_tell_words_apart_are_kept(words: str) -> None:
    tokens = [tuple(tokenize_unicode(word)) for word in words.split()]
    assert len(set(tokens)) == len(tokens) and all(tokens)


@pytest.mark.parametrize(
    "text",
    [
        "x = values[0](other) + rows[i][j] * 2**k - a * b; r'[eE][+-]?[0-9]+'; {'a': [1]}",
        "an Array<string>, a Map<Otter> and x<y> where a < b and c > d; Set<T> and <S>",
        "List item\n- one\n-two, Anglo-\nSaxon, page 3-\n4, a dash --\nafter",
        "R&D; AT&T; &unknown; naïveté — 日本語, Straße, İstanbul",
    ],
)
def test_code_names_and_other_scripts_stay_as_they_are(text: str) -> None:
    assert normalise(text) == (text, None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*("word", " ", "ﬁ", "e\u0301", "\u1100\u1161", "İ", "\u00ad", "<b>", "</i>", "&nbsp;"),
             *("[", "](u)", "*", "`", "\u0301", "\u064e", "\u0640", "![x]", "][1]"),
             *("\u0d28\u0d4d\u200d", "<sup>1</sup>"),
             *("-\n", "½", "\u212a", "क्", "\u09c7\u09be", "“", "&#233;", "&lt;b&gt;", "x", "<T>")]
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_normalising_keeps_the_positions_of_the_original(text: str) -> None:
    normal, edges = normalise(text)
    assert unicodedata.is_normalized("NFKC", normal)
    if edges is None:
        assert len(normal) == len(text)
        return
    assert edges.shape == (len(normal), 2)
    assert (edges[:, 0] < edges[:, 1]).all() and (edges[1:, 0] >= edges[:-1, 0]).all()
    for c, (a, b) in zip(normal, edges.tolist(), strict=True):
        part = normalise(text[a:b])[0]
        assert c in part or c == " " or part in "'\"", (c, text[a:b])


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


def test_a_tokenizer_that_rewrites_gives_its_tokens_as_the_longest_text() -> None:
    def stems(text: str) -> list[str]:
        return [word[:3].upper() + "#" for word in text.split()]

    found = match(["narrowing unknowns leaks"], ["narrow unknown"], [0], n=[2], tokenizer=stems)
    assert found.longest_text == ["NAR# UNK#"]


def test_the_longest_text_quotes_whole_words() -> None:
    def split(text: str) -> list[str]:
        return [word for word in text.lower().split() if word != "this"]

    found = match(["This is it"], ["is it"], [0], n=[2], tokenizer=split)
    assert found.longest_text == ["is it"]

    def stems(text: str) -> list[str]:
        return [word[:5] for word in text.lower().split()]

    found = match(
        ["So narrowing unknowns\u00ad leaks"], ["narrow unknown"], [0], n=[2], tokenizer=stems
    )
    assert found.longest_text == ["narrowing unknowns"]
    found = match(["価値を絞る前に"], ["値を絞る"], [0], n=[2], tokenizer=list)
    assert found.longest_text == ["値を絞る"]


class SpacyToken:
    text = "word"


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [([SpacyToken()] * 3, "SpacyToken"), ([1, 2], "int"), (["a", None], "NoneType")],
)
def test_tokens_that_are_not_str_are_refused_with_the_fix(tokens: list, kind: str) -> None:
    for count in (
        lambda split: match(["a text"], ["a source"], [0], tokenizer=split),
        lambda split: shared_ngrams("a text", "a source", tokenizer=split),
    ):
        with pytest.raises(FrameError, match=rf"type {kind} .*\[w\.text for w in nlp\(text\)\]"):
            count(lambda text: tokens)


def test_tokenizers_have_a_name_that_tells_them_apart() -> None:
    assert name_of_tokenizer(None) == name_of_tokenizer(tokenize) == "skillcomp.ngrams.tokenize"
    assert name_of_tokenizer(str.split) == "builtins.str.split"
    assert name_of_tokenizer(split_by_the_report).endswith("test_ngrams.split_by_the_report")
    assert name_of_tokenizer(lambda text: [text], "mine") == "mine"
    for unnamed in (lambda text: [text], functools.partial(str.split), "a b".split):
        with pytest.raises(FrameError, match=r"name it by tokenizer_name="):
            name_of_tokenizer(unnamed)
    for wrong in ("", 3):
        with pytest.raises(FrameError, match="tokenizer_name: found"):
            name_of_tokenizer(None, wrong)  # type: ignore[arg-type]


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
