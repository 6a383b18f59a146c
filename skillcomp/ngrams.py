"""Shared n-grams of a text and a source: tokens, counts for every n, and longest runs.

A text shares an n-gram with a source if n consecutive tokens of the text are n consecutive tokens
of the source. To count shared n-grams for every n, it is enough to find the longest match that
starts at each position of the text. Texts are normalised before they are split into tokens.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError

__all__ = [
    "match",
    "normalise",
    "shared_ngrams",
    "tokenize",
    "tokenize_unicode",
]

Tokenizer = Callable[[str], list[str]] | Literal["unicode"]
Ints = NDArray[np.int64]
Groups = Sequence[str | Sequence[str]]  # Texts, or groups of texts that count as one.
Word = TypeVar("Word", str, int)

# the initial list of stop words in the comprehension report, section A.3
_STOP = """
this that they them with from have will would could should their there where when what which while
about after before between into than then
"""
STOP_WORDS = frozenset(_STOP.split())
BATCH = 2**20  # Characters per batch, so that a batch fits into the cache of the processor.
END = 0  # Id of the mark after the last token of each document; it matches nothing.
# Shortest token in characters; the comprehension report keeps tokens longer than three.
MIN_LENGTH = 4

_WORD = re.compile(f"[a-z0-9]{{{MIN_LENGTH},}}")
# Translates bytes: letters to lower case, all bytes other than letters and digits to blanks.
_FOLD = bytes(ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else ord(" ") for b in range(256))
# The capital I with a dot. No other non-ASCII character of a normalised text gives an ASCII letter
# in lower case: str.lower turns this one into an i and a combining dot.
_DOTTED_I = "\u0130"

# Quotation marks and their plain forms. Each is one character, so positions do not change.
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
# Characters that nobody sees: soft hyphen, joiners, zero-width blanks, marks of direction,
# variation selectors, byte order mark. Also marks with which a word of Arabic or Hebrew may be
# written and usually is not: vowels, accents and the stroke that makes a word longer. The marks of
# hamza and madda belong to letters, and the vowels of all other scripts to words.
_UNSEEN = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u0652\u0656-\u0658\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8"
    "\u06ea-\u06ed\u08d3-\u08e1\u08e3-\u08ff"
)
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
# letters of Malayalam that may be written as another letter, a virama and a joiner
_CHILLUS = dict(
    zip("\u0d23\u0d28\u0d30\u0d32\u0d33\u0d15", "\u0d7a\u0d7b\u0d7c\u0d7d\u0d7e\u0d7f", strict=True)
)
# Scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese. In them,
# each character is a token.
NO_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Elements of HTML that mark up text. Other words in angle brackets, such as ``Array<string>``, are
# code. Elements named by one letter count only in lower case, because ``<T>`` is code.
_ELEMENTS = (
    "abbr|bdi|bdo|big|blockquote|br|center|cite|code|dd|del|details|dfn|div|dl|dt|em|figcaption"
    "|figure|font|hr|img|ins|kbd|li|mark|ol|pre|samp|section|small|span|strike|strong|sub|summary"
    "|sup|table|tbody|td|tfoot|th|thead|tr|tt|ul|var"
)
_TITLE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\))"
_TARGET = rf"\(\s*(?:<[^<>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+{_TITLE})?\s*\)"
_BRACKET = r"(?<![A-Za-z0-9_\\)\]])\["  # not an index, as in ``values[0](x)``
_SUPERSCRIPTS = "\u00b9\u00b2\u00b3\u2070\u2074-\u2079"
_MARKUP = re.compile(
    r"(?P<line_end>[-\u00ad\u2010\u2011](?<=[^\W\d_].)\r?\n[ \t]*(?=[^\W\d_]))"
    rf"|(?P<chillu>(?<=[{''.join(_CHILLUS)}]\u0d4d)\u200d)"
    rf"|(?P<unseen>[{_UNSEEN}]+|<wbr\s*/?>)"
    # marks of footnotes: after a word, a full stop and so on, because a unit may have an exponent
    rf"|(?P<note>\[\^[^\[\]\s]{{1,99}}\](?::(?=\s))?"
    rf"|(?:(?<=[^\W\d_]\s)|(?<=[.;!?]\s)|(?<=[.,;!?\"'\u3002\uff0c{NO_BLANKS}]))"
    r"\[\d{1,3}\](?:\[\d{1,3}\])*(?![(:])"
    rf"|(?:(?<=[^\W\d_]{{4}})|(?<=[.,;:!?)\"'\u3002\uff0c{NO_BLANKS}]))"
    rf"(?:[{_SUPERSCRIPTS}]+|<sup>\d{{1,3}}</sup>)(?!\w)"
    # images, addresses in angle brackets, and lines that give the address of a link
    rf"|!\[[^\[\]]{{0,500}}\](?:{_TARGET}|\[[^\[\]\n]{{0,200}}\])|<(?:https?|mailto):[^\s<>]*>"
    rf"|(?<![^\n])\[[^\[\]\n]{{1,200}}\]:[ \t]*(?:<[^<>\n]*>|[^\s/.#]*[/.#]\S*)"
    rf"(?:[ \t]+{_TITLE})?[ \t]*(?![^\n]))"
    rf"|(?P<link>{_BRACKET}(?=(?P<inner>(?:[^\[\]]|\[[^\[\]]{{0,200}}\]){{1,500}})"
    rf"(?P<target>\](?:{_TARGET}|\[(?P<label>[^\[\]\n]{{0,200}})\]))))"
    r"|(?P<emphasis>(?P<mark>\*{1,3}|`)(?P<body>[^\W_](?:[^*`\n]*[^\W_])?)(?P=mark))"
    rf"|(?P<tag></?(?:(?i:{_ELEMENTS})|h[1-6]|[abipqsu])"
    r"(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=]+))*\s*/?>"
    r"|<!--[^<>]{0,500}-->)"
    r"|(?P<entity>&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
)
# Every match of `_MARKUP` starts with a match of this pattern, which is much faster to find.
_MARKUP_START = re.compile(rf"[-<&\[\]!*`\u2010\u2011{_SUPERSCRIPTS}{_UNSEEN}]")
_MARK_IN_WORD = re.compile(r"[*`](?<=[^\W\d_].)\*{0,2}(?=[^\W\d_])")
# Consecutive non-ASCII characters, with the ASCII character before them.
_NON_ASCII_RUN = re.compile("[\x00-\x7f]?[^\x00-\x7f]+")
_OF_WORD = re.compile(rf"[^\W{NO_BLANKS}]")
_NO_BLANK = re.compile(f"[{NO_BLANKS}]")
# a character of a script without blanks, or a sequence of other characters; punctuation belongs to
# the word before or after it
_SPACED_WORD = re.compile(rf"[^\w\s]*[{NO_BLANKS}][^\w\s]*|[^\s{NO_BLANKS}]+")
# Marks that end a sentence if a blank or a script without blanks follows, and marks that always do.
# Thai and Lao have no such mark: a blank between two of their letters ends a sentence.
_STOPS = ".!?\u0589\u061f\u06d4\u0964\u0965\u1362\u1367\u203c\u2047-\u2049\uff0e"
_WIDE_STOPS = "\u0f0d\u104a\u104b\u17d4\u17d5\u3002\uff01\uff1f\uff61"
_CLOSING = "\"')\\]\u2019\u201d\u00bb\u300d\u300f\uff09"
_SENTENCE_END = re.compile(
    rf"(?<=[{_STOPS}])[{_CLOSING}]*(?:\s+|(?=[{NO_BLANKS}]))"
    rf"|(?<=[{_WIDE_STOPS}])(?![{_WIDE_STOPS}])[{_CLOSING}]*\s*"
    r"|(?<=[\u0e00-\u0eff])\s+(?=[\u0e00-\u0eff])|\n+"
)
Change = tuple[int, int, str]  # start and end of a part of a text, and what replaces it


def normalise(text: str) -> tuple[str, Ints | None]:
    r"""Normalise the characters of a text, so that equal sentences become equal strings.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    text : str
        The text in Unicode form NFKC, with plain quotation marks. Characters without width are
        removed, and so are the vowels and accents of Arabic and Hebrew, with which a word may be
        written and usually is not. Words broken at the end of a line are joined. HTML tags become
        blanks, and so do HTML entities that mean neither a letter nor a digit. Of a Markdown link,
        the text is kept; images, addresses and marks of footnotes become blanks. Marks of emphasis
        and code inside a word are removed.
    edges : ndarray of int64, shape (n_characters, 2), or None
        Start and end, in the original text, of each character; None if no position has changed.

    Notes
    -----
    A hyphen at the end of a line is removed if letters surround it and the next line begins with a
    lower-case letter. Only tags of elements that mark up text are removed, so ``Array<string>`` is
    unchanged. Letters of other alphabets that look like Latin ones are not replaced.

    Examples
    --------
    >>> normalise("de\u00adfine nar-\nrow <b>\ufb01elds</b>")[0]
    'define narrow  fields '
    """
    if not text.isascii():
        for mark, plain in _QUOTES.items():
            text = text.replace(mark, plain)
    edges, usual = None, _has_usual_characters(text)
    some = any(mark in text for mark in ("<", "&", "[", "-\n", "-\r\n"))
    if some or not usual or _MARK_IN_WORD.search(text):
        text, edges = _with_changes(text, edges, _markup_changes(text))
        usual = _has_usual_characters(text)
    return (text, edges) if usual else _with_changes(text, edges, _character_changes(text))


def _has_usual_characters(text: str) -> bool:
    """Check whether all non-ASCII characters of a text satisfy `_is_normal_character`."""
    return text.isascii() or all(map(_is_normal_character, set(_not_ascii(text))))


def _not_ascii(text: str, left_out: bytes = bytes(range(128))) -> str:
    """Return the characters of a text without those that are left out, by default ASCII."""
    # in bytes, this is many times as fast as a look at each character
    encoded = text.encode("utf-8", "surrogatepass").translate(None, left_out)
    return encoded.decode("utf-8", "surrogatepass")


@cache
def _is_normal_character(character: str) -> bool:
    """Check whether `normalise` keeps a non-ASCII character next to any other characters."""
    combines = unicodedata.category(character)[0] == "M" or "\u1100" <= character <= "\u11ff"
    changes = _plain_form(character) != character
    return not (combines or changes or character == "\u2010" or _MARKUP.match(character))


def _plain_form(text: str) -> str:
    return _UNSEEN_RUN.sub("", unicodedata.normalize("NFKC", text))


def _markup_changes(text: str) -> Iterator[Change]:
    """Yield hyphens at line ends, markup and invisible characters, and what replaces them."""
    labels = set(map(str.casefold, re.findall(r"(?m)^\[([^\[\]\n]+)\]:", text)))
    done = 0
    ends: dict[int, int] = {}  # start and end of marks that close a link or an emphasis
    for mark in _MARKUP_START.finditer(text):
        at = mark.start()
        if at < done:
            continue
        if at in ends:
            done = ends[at]
            yield at, done, ""
            continue
        part = _MARKUP.match(text, at)
        if part is None:
            continue
        kind, found, end = part.lastgroup, part.group(), part.end()
        if kind == "emphasis":
            n_inside = text[at - 1 : at].isalpha() + text[end : end + 1].isalpha()
            if not n_inside or (n_inside == 2 and re.search(r"\s", part["body"])):
                continue  # around whole words, the marks separate tokens anyway
            end = part.end("mark")
            ends[part.end("body")] = part.end()
        elif kind == "link":
            label = part["label"] or part["inner"]
            if part["target"][1] == "[" and label.casefold() not in labels:
                continue  # not a link, such as two sets of characters in a regular expression
            ends[part.end("inner")] = part.end("target")
        done = end
        new = " " if kind in ("tag", "note") else ""
        if kind == "chillu":
            at, new = at - 2, _CHILLUS[text[at - 2]]
        elif kind == "line_end" and not text[done].islower():
            if "\u00ad" not in found:
                continue
            new = found.replace("\u00ad", "")
        elif kind == "entity":
            meaning = html.unescape(found)
            if meaning == found:
                continue
            if not _UNSEEN_RUN.fullmatch(meaning):
                new = meaning if meaning.isalnum() else " "
        yield at, done, new


def _character_changes(text: str) -> Iterator[Change]:
    """Yield the parts of a text that `_plain_form` changes, and what replaces them."""
    for run in _NON_ASCII_RUN.finditer(text):
        piece = run.group()
        whole = _plain_form(piece)
        if whole == piece:
            continue
        starts = [at for at, c in enumerate(piece) if not at or not unicodedata.combining(c)]
        parts = [(a, b, piece[a:b]) for a, b in pairwise([*starts, len(piece)])]
        changed = [(a, b, _plain_form(part)) for a, b, part in parts]
        # In some scripts, such as Hangul, NFKC also joins characters for which `combining` is 0.
        if "".join(part for _, _, part in changed) != whole:
            changed, parts = [(0, len(piece), whole)], [(0, 0, "")]
        for (a, b, new), (_, _, old) in zip(changed, parts, strict=True):
            if new != old:
                yield run.start() + a, run.start() + b, new


def _with_changes(
    text: str, edges: Ints | None, changes: Iterable[Change]
) -> tuple[str, Ints | None]:
    """Replace parts of a text.

    The second result has, for each character of the new text, its start and end in the original.
    """
    pieces = []
    start = []
    end = []
    done = 0
    for a, b, new in changes:
        pieces += [text[done:a], new]
        start += [*range(done, a), *[a] * len(new)]
        end += [*range(done + 1, a + 1), *[b] * len(new)]
        done = b
    if not pieces:
        return text, edges
    start += range(done, len(text))
    end += range(done + 1, len(text) + 1)
    own = np.array([start, end], np.int64).T.reshape(-1, 2)
    if edges is not None:
        own = _in_original(own, edges)
    return "".join([*pieces, text[done:]]), own


def _in_original(spans: Ints, edges: Ints) -> Ints:
    """Return the places of spans of a normalised text in the original text."""
    return np.stack([edges[spans[:, 0], 0], edges[spans[:, 1] - 1, 1]], axis=1)


def tokenize(text: str) -> list[str]:
    """Split a text into content tokens by the rule of the comprehension report.

    The text is normalised and lower-cased. Every character outside ``[a-z0-9]`` separates tokens.
    Tokens of at most three characters and `STOP_WORDS` are dropped.

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
    Letters outside ASCII separate tokens, too, so the rule suits only English. Use
    `tokenize_unicode` (``tokenizer="unicode"``) for other languages.

    Examples
    --------
    >>> tokenize("The type-checker's 3rd PASS would narrow it.")
    ['type', 'checker', 'pass', 'narrow']
    """
    return [word for word in _WORD.findall(normalise(text)[0].lower()) if word not in STOP_WORDS]


def tokenize_unicode(text: str) -> list[str]:
    """Split a text in any language into words, or into characters where words have no blanks.

    The text is normalised. A token is a sequence of letters, digits and their marks, without
    regard to case. Chinese, Japanese, Thai, Lao, Burmese and Khmer are written without blanks
    between words, so each of their characters is a token. No word is dropped: copies share longer
    n-grams than with `tokenize`, so offer longer n to a calibration.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    list of str
        The tokens in order, repeats included.

    Examples
    --------
    A final sigma (ς) becomes an ordinary one (σ), because case is ignored.

    >>> tokenize_unicode("Η διδασκαλία, 2 φορές: 用Python教")
    ['η', 'διδασκαλία', '2', 'φορέσ', '用', 'python', '教']
    """
    return [word.group().casefold() for word in _unicode_word().finditer(normalise(text)[0])]


@cache
def _unicode_word() -> re.Pattern[str]:
    """Return the pattern of a token of `tokenize_unicode`; a letter includes marks after it."""
    codes = [*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)]
    marks = re.escape("".join(c for c in map(chr, codes) if unicodedata.category(c)[0] == "M"))
    letter = rf"[^\W_{NO_BLANKS}]"
    return re.compile(rf"(?=[^\W_])[{NO_BLANKS}][{marks}]*|{letter}(?:{letter}|[{marks}])*")


def count_words(text: str) -> int:
    """Count the words of a text in any script, marks of list items included.

    Words are separated by white space. In scripts without blanks between words, each character is a
    word, as in `tokenize_unicode`; punctuation is no word of its own there.

    >>> count_words("It may-be rain."), count_words("用Python教学。"), count_words("กินข้าว")
    (3, 4, 5)
    """
    # str.split takes a third of the time of a regular expression
    return len(_SPACED_WORD.findall(text) if _NO_BLANK.search(text) else text.split())


def split_sentences(text: str) -> list[str]:
    """Split a text in any script into sentences; a line end also ends a sentence.

    >>> split_sentences("Pour. Wait!"), split_sentences("教学。真的？！学习")
    (['Pour.', 'Wait!'], ['教学。', '真的？！', '学习'])
    """
    parts = map(str.strip, _SENTENCE_END.split(text))
    return [part for part in parts if any(map(str.isalnum, part))]


_ALL_BUT_ASCII_LETTERS = bytes(c for c in range(256) if c >= 128 or not chr(c).isalpha())


def share_not_ascii(text: str) -> float:
    """Return the share of the letters of a text that are not ASCII; 0 if it has no letters."""
    if text.isascii():
        return 0.0
    n_other = sum(map(str.isalpha, _not_ascii(text)))
    n_ascii = len(_not_ascii(text, _ALL_BUT_ASCII_LETTERS))
    return n_other / max(n_ascii + n_other, 1)


def _tokenizer_function(tokenizer: Tokenizer | None) -> Callable[[str], list[str]]:
    """Return the function of a tokenizer; raise FrameError if it is neither known nor callable."""
    if tokenizer is None:
        return tokenize
    if tokenizer == "unicode":
        return tokenize_unicode
    if isinstance(tokenizer, str) or not callable(tokenizer):
        raise FrameError(
            f"tokenizer: found {tokenizer!r}; allowed: 'unicode' for texts in any language, or a "
            "function from str to a list of str."
        )
    return tokenizer


def split_text(text: str, tokenizer: Tokenizer | None = None) -> list[str]:
    """Normalise a text and split it into tokens; raise FrameError if a token is not a str."""
    split = _tokenizer_function(tokenizer)
    if split in (tokenize, tokenize_unicode):
        return split(text)
    return _checked_tokens(split(normalise(text)[0]))


def _checked_tokens(tokens: Any) -> list[str]:
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        kind = type(tokens).__name__
        raise TypeError(f"tokenizer: found a {kind} returned; it must return a list of str.")
    words = list(tokens)
    if set(map(type, words)) <= {str}:
        return words
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise FrameError(
            f"tokenizer: found a token of type {type(wrong[0]).__name__} ({len(wrong)} of "
            f"{len(words)} tokens of a text); it must return a list of str. For spaCy use "
            "tokenizer=lambda text: [w.text for w in nlp(text)], for numbers "
            "lambda text: [str(i) for i in encode(text)], each with tokenizer_name=; drop None."
        )
    return words


def name_of_tokenizer(tokenizer: Tokenizer | None, name: str | None = None) -> str:
    """Return the name of a tokenizer in frames: ``name`` or, by default, module and qualname.

    Raise FrameError if two different tokenizers could have the same default name: lambdas, methods
    of an object and other callables need ``name``.
    """
    if name is not None:
        if not isinstance(name, str) or not name.strip():
            raise FrameError(f"tokenizer_name: found {name!r}; allowed: a text.")
        return name
    split = _tokenizer_function(tokenizer)
    owner = getattr(split, "__self__", None)
    qualname = getattr(split, "__qualname__", "")
    if not qualname or "<lambda>" in qualname or not (owner is None or isinstance(owner, type)):
        kind = "a lambda" if "<lambda>" in qualname else f"a {type(split).__name__}"
        raise FrameError(
            f"tokenizer: found {kind}, whose name does not tell it apart from others; "
            "name it by tokenizer_name=, such as tokenizer_name='spaCy en_core_web_sm 3.8'."
        )
    module = getattr(split, "__module__", None) or getattr(split, "__objclass__", str).__module__
    return f"{module}.{qualname}"


@dataclass(frozen=True)
class Tokens:
    """Documents as one array of integers; equal integers mean equal tokens.

    Document d is ``ids[bounds[d] : bounds[d + 1]]`` and ends with `END`. `start` and `end` are the
    character positions of each token in its document; -1 if it does not occur there, because your
    own tokenizer rewrites it. `words` has the tokens of each document of your own tokenizer.
    """

    ids: Ints
    bounds: Ints
    start: Ints
    end: Ints
    words: Sequence[list[str]] = ()

    def of(self, doc: int) -> Ints:
        """Return the integers of one document without its end mark."""
        return self.ids[self.bounds[doc] : self.bounds[doc + 1] - 1]

    @property
    def base(self) -> int:
        """Smallest integer above all of `ids`."""
        return int(self.ids.max(initial=END)) + 1

    def cut(self, text: str, doc: int, begin: int, run: int) -> str:
        """Return the text of the ``run`` tokens of a document that start at token ``begin``.

        It begins and ends with whole words. If the text lacks one of the tokens, return the tokens
        joined by blanks.
        """
        edges = self.edges(text, doc, begin, run)
        if edges is None:
            return " ".join(self.words[doc][begin : begin + run])
        return text[edges[0] : edges[1]]

    def edges(self, text: str, doc: int, begin: int, run: int) -> tuple[int, int] | None:
        """Return start and end of the text that `cut` returns; None if the text lacks a token."""
        first = int(self.bounds[doc]) + begin
        start, end = int(self.start[first]), int(self.end[first + run - 1])
        if min(start, end) < 0:
            return None
        while self.words and _splits_word(text, start):
            start -= 1
        while self.words and _splits_word(text, end):
            end += 1
        return start, end


def _spans_of_words(text: str, words: Sequence[str]) -> Ints:
    """Return start and end of each word in a text, in order; -1 from a word that the text lacks on.

    If all words occur as whole words, only whole words are matched. Otherwise a word may match a
    part of a word, as for a tokenizer that stems or a script without blanks.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    spans = np.full((len(words), 2), -1)
    for whole in (True, False):
        spans[:], cursor = -1, 0
        for row, word in enumerate(words):
            at = _find_word(folded, word, cursor, whole)
            if at < 0:
                break
            cursor = at + len(word)
            spans[row] = at, cursor
        else:
            break
    return spans


def _find_word(text: str, word: str, cursor: int, whole: bool) -> int:
    """Return the position of the next occurrence of a word, as written or in lower case, or -1."""
    for spelling in dict.fromkeys([word, word.lower()]):
        at = text.find(spelling, cursor)
        while whole and at >= 0 and any(_splits_word(text, at + k) for k in (0, len(spelling))):
            at = text.find(spelling, at + 1)
        if at >= 0:
            return at
    return -1


def _splits_word(text: str, at: int) -> bool:
    """Check whether a position has characters of a word on both sides."""
    return 0 < at < len(text) and all(map(_OF_WORD.match, text[at - 1 : at + 1]))


def intern(docs: list[str], tokenizer: Tokenizer | None = None) -> Tokens:
    """Replace the tokens of documents by integers; equal integers mean equal tokens.

    With the default tokenizer, all documents are processed in one pass.
    """
    split = _tokenizer_function(tokenizer)
    if split is tokenize:
        return _intern_default(docs)
    words: list[list[str]] = []
    spans = [np.zeros((0, 2), np.int64)]
    for text, edges in map(normalise, docs):
        if split is tokenize_unicode:
            matches = list(_unicode_word().finditer(text))
            words.append([word.group().casefold() for word in matches])
            own = np.array([word.span() for word in matches], np.int64).reshape(-1, 2)
        else:
            words.append(_checked_tokens(split(text)))
            own = _spans_of_words(text, words[-1])
        if edges is not None:
            some = own[:, 0] < own[:, 1]
            own[some], own[~some] = _in_original(own[some], edges), -1
        spans.append(own)
    ids = pd.factorize(np.array([w for ws in words for w in ws], object))[0]
    columns = ids, *np.concatenate(spans).T
    return _placed_tokens(_sizes(words), *columns, words=() if split is tokenize_unicode else words)


def _sizes(parts: Sequence[Sequence[Any] | Ints]) -> Ints:
    return np.fromiter(map(len, parts), np.int64, count=len(parts))


def _placed_tokens(count: Ints, *columns: Ints, words: Sequence[list[str]] = ()) -> Tokens:
    """Put an end mark after each document.

    ``count`` has the number of tokens of each document; the columns have the number (from 0), the
    start and the end of each token.
    """
    ids, start, end = values = np.zeros((3, count.sum() + len(count)), np.int64)
    place = np.arange(count.sum()) + np.repeat(np.arange(len(count)), count)
    values[:, place] = columns
    ids[place] += 1
    return Tokens(ids, np.concatenate([[0], np.cumsum(count + 1)]), start, end, words)


def _intern_default(docs: list[str]) -> Tokens:
    """Tokenize by the default rule, and number the tokens without creating a str for each."""
    plain = []
    moved = []
    for text, edges in map(normalise, docs):
        dots = ((*dot.span(), "i\u0307") for dot in re.finditer(_DOTTED_I, text))
        text, edges = _with_changes(text, edges, dots)
        plain.append(text)
        moved.append(edges)
    # Each character must become one byte, so that positions in bytes are positions in the text.
    data = "\n".join(plain).encode("ascii", "replace").translate(_FOLD)
    data = b" " + data + b" " * 8
    edge = np.frombuffer(data, np.uint8) != ord(" ")
    edges = np.flatnonzero(edge[1:] != edge[:-1]) + 1
    start, end = edges[0::2], edges[1::2]
    # Up to 8 bytes of a token are compared as one integer; longer tokens are objects.
    head = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))[start]
    head &= np.array([256**k - 1 for k in range(9)], np.uint64)[np.minimum(end - start, 8)]
    stop_words = [int.from_bytes(word.encode(), "little") for word in STOP_WORDS]
    is_content = (end - start >= MIN_LENGTH) & ~np.isin(head, np.array(stop_words, np.uint64))
    start, end, head = start[is_content], end[is_content], head[is_content]
    ids = pd.factorize(head)[0]
    long = np.flatnonzero(end - start > 8)
    tokens = [data[a:b] for a, b in zip(start[long], end[long], strict=True)]
    ids[long] = len(ids) + pd.factorize(np.array(tokens, object))[0]
    offset = 1 + np.concatenate([[0], np.cumsum(_sizes(plain) + 1)])
    count = np.diff(np.searchsorted(start, offset))
    last = np.cumsum(count)
    shift = np.repeat(offset[:-1], count)
    start, end = start - shift, end - shift
    for edges, n, stop in zip(moved, count, last, strict=True):
        if edges is not None:
            mine = slice(stop - n, stop)
            start[mine], end[mine] = edges[start[mine], 0], edges[end[mine] - 1, 1]
    return _placed_tokens(count, ids, start, end)


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
    tokenizer : callable or "unicode", optional
        A function from str to list of str, or `tokenize_unicode`; `tokenize` if omitted.

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
    words = split_text(text, tokenizer)
    allowed = set(grams(split_text(source, tokenizer), n))
    allowed -= set(grams(split_text(exclude, tokenizer), n))
    return [" ".join(gram) for gram in dict.fromkeys(grams(words, n)) if gram in allowed]


def grams(words: Sequence[Word], n: int) -> list[tuple[Word, ...]]:
    """Return all n-grams in order, repeats included."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def check_n(n: Iterable[int] | int, what: str = "n") -> Ints:
    """Check lengths of n-grams and return them sorted and distinct.

    Parameters
    ----------
    n : iterable of int, or one int
        Lengths in tokens.
    what : str, default "n"
        Start of an error message.

    Returns
    -------
    ndarray of int64
        Ascending, without repeats.

    Raises
    ------
    FrameError
        If no length is given, or a length is not a whole number of at least 1.

    Examples
    --------
    >>> check_n([6, 3, 6]).tolist()
    [3, 6]
    """
    lengths = list(n) if isinstance(n, Iterable) else [n]
    wrong = [x for x in lengths if not isinstance(x, (int, np.integer)) or not 1 <= x < 2**63]
    if wrong or not lengths:
        problem = f"found {wrong[0]!r}" if wrong else "found none"
        rule = "whole numbers of at least 1, as range(3, 13)"
        raise FrameError(f"{what}: {problem}; allowed are {rule}.")
    return np.unique(np.asarray(lengths, np.int64))


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
        The longest shared run as written in the text; empty if no token is shared. Of several
        runs with the same length, the first.
    """

    n: Ints
    n_tokens: Ints
    n_distinct: Ints
    n_shared: Ints
    longest_run: Ints
    longest_text: list[str]


def match(
    texts: Sequence[str],
    sources: Groups,
    source_of: Sequence[int] | Ints,
    *,
    excludes: Groups = (),
    exclude_of: Sequence[int] | Ints | None = None,
    n: Iterable[int] | int = range(3, 13),
    tokenizer: Tokenizer | None = None,
) -> Matches:
    """Count the distinct n-grams that each text shares with its source, for every n at once.

    Parameters
    ----------
    texts : sequence of str
        The texts to examine.
    sources : sequence of str or of sequences of str
        The texts that may be copied, such as skills. Several texts, such as the files of a skill,
        are one source; no n-gram crosses the end of a text.
    source_of : sequence of int
        For each text, the index of its source in `sources`.
    excludes : sequence of str or of sequences of str, optional
        Texts, such as prompts, with n-grams that do not count as shared.
    exclude_of : sequence of int, optional
        For each text, the index in `excludes` of the text to exclude; -1 for none.
    n : iterable of int, or one int
        Lengths of n-grams in tokens.
    tokenizer : callable or "unicode", optional
        A function from str to list of str, or `tokenize_unicode`; `tokenize` if omitted.

    Returns
    -------
    Matches
        Arrays in the order of `texts`.

    Notes
    -----
    Every n-gram has a number, which depends on the number of its first n - 1 tokens and on its last
    token. Equal numbers thus mean equal n-grams, and no hash can collide. A position is compared
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
    source_index = np.asarray(source_of, np.int64)
    excluded = np.full(len(texts), -1) if exclude_of is None else exclude_of
    exclude_index = np.asarray(excluded, np.int64)
    lengths = check_n(n)
    # sort the texts by source, so that a batch needs few sources
    order = np.argsort(source_index, kind="stable")
    batch_of = np.cumsum(_sizes([texts[i] for i in order]) + 1) // BATCH
    batches = np.split(order, np.flatnonzero(np.diff(batch_of)) + 1)
    parts = [
        _match_batch(
            [texts[i] for i in rows], sources, source_index[rows], excludes, exclude_index[rows],
            lengths, tokenizer,
        )
        for rows in batches
    ]  # fmt: skip
    back = np.argsort(order, kind="stable")
    longest = [text for part in parts for text in part.longest_text]
    counts = {
        name: np.concatenate([getattr(part, name) for part in parts])[back]
        for name in ("n_tokens", "n_distinct", "n_shared", "longest_run")
    }
    return Matches(n=lengths, longest_text=[longest[i] for i in back], **counts)


def _match_batch(
    texts: Sequence[str], sources: Groups, source_of: Ints, excludes: Groups, exclude_of: Ints,
    lengths: Ints, tokenizer: Tokenizer | None,
) -> Matches:  # fmt: skip
    """Return the matches of the texts of one batch, as `match` does."""
    used, source = np.unique(source_of, return_inverse=True)
    banned, exclude = np.unique(exclude_of, return_inverse=True)
    groups = [sources[i] for i in used]
    groups += ["" if i < 0 else excludes[i] for i in banned]
    tokens, owned, first = intern_groups(groups, texts, tokenizer)
    here = np.arange(tokens.bounds[first], tokens.bounds[-1])
    count = np.diff(tokens.bounds)[first:] - 1
    top = min(int(lengths[-1]), int(count.max(initial=0)) + 1)  # no match is longer than a text
    text = np.repeat(np.arange(len(texts)), count + 1)
    of_sources, of_excludes = owned[: len(used) + 1], owned[len(used) :]
    shared = match_lengths(tokens, of_sources, here, source[text], top)
    excluded = np.zeros_like(shared)
    if excludes:
        some = np.flatnonzero(shared)
        excluded[some] = match_lengths(tokens, of_excludes, here[some], exclude[text[some]], top)
    repeated = _repeat_lengths(tokens, here, text, top)

    low = np.minimum(np.maximum(excluded, repeated), shared)
    n = np.minimum(lengths, top)
    at_least = [_at_least(text, x, len(texts), top)[:, n] for x in (repeated, shared, low)]
    shared = _true_lengths(tokens, of_sources, here, source[text], shared, top)
    excluded = _true_lengths(tokens, of_excludes, here, exclude[text], excluded, top)
    at = np.flatnonzero(shared > excluded)
    # for each text, the longest run and the first place where it begins
    run, begin = np.zeros((2, len(texts)), np.int64)
    np.maximum.at(run, text[at], shared[at])
    best = at[shared[at] == run[text[at]]][::-1]
    begin[text[best]] = best
    begin -= tokens.bounds[first:-1] - tokens.bounds[first]
    return Matches(
        n=lengths,
        n_tokens=count,
        n_distinct=np.maximum(count[:, None] - lengths + 1, 0) - at_least[0],
        n_shared=at_least[1] - at_least[2],
        longest_run=run,
        longest_text=[
            tokens.cut(text, first + i, int(begin[i]), int(run[i])) if run[i] else ""
            for i, text in enumerate(texts)
        ],
    )


def intern_groups(
    groups: Groups, texts: Sequence[str], tokenizer: Tokenizer | None
) -> tuple[Tokens, Ints, int]:
    """Replace tokens by integers, first in groups of documents, then in texts.

    Also return the bounds of each group in the array of integers, and the number of documents,
    which is the index of the first text.
    """
    parts = [[group] if isinstance(group, str) else list(group) or [""] for group in groups]
    docs = [doc for part in parts for doc in part]
    tokens = intern([*docs, *texts], tokenizer)
    return tokens, tokens.bounds[np.cumsum([0, *map(len, parts)])], len(docs)


def match_lengths(tokens: Tokens, owned: Ints, at: Ints, owner: Ints, top: int) -> Ints:
    """Return the length of the longest match (at most `top`) that starts at each position.

    Each position is compared with one group of documents. `owner` holds the index of this group,
    and `owned` the bounds of all groups.
    """
    ids, base = tokens.ids, tokens.base
    mine = np.arange(owned[0], owned[-1])
    mine_rank = np.repeat(np.arange(len(owned) - 1), np.diff(owned))
    rank, where = owner, np.arange(len(at))
    in_docs = np.zeros(base, bool)
    in_docs[ids[mine]] = True
    in_docs[END] = False
    length = np.zeros(len(at), np.int64)
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
    length = np.zeros(len(at), np.int64)
    for n in range(1, top + 1):
        last = tokens.ids[at + n - 1]
        go = np.flatnonzero(last != END)
        at, where = at[go], where[go]
        rank = pd.factorize(rank[go] * tokens.base + last[go])[0]
        length[where[pd.Series(rank).duplicated()]] = n
        shared = np.bincount(rank)[rank] > 1
        at, rank, where = at[shared], rank[shared], where[shared]
    return length


def _at_least(text: Ints, length: Ints, n_texts: int, top: int) -> Ints:
    """Count, for each text, the positions with a length of at least 0, 1, ..., `top`."""
    table = np.bincount(text * (top + 1) + length, minlength=n_texts * (top + 1))
    return np.cumsum(table.reshape(n_texts, top + 1)[:, ::-1], axis=1)[:, ::-1]


def _true_lengths(
    tokens: Tokens, owned: Ints, at: Ints, owner: Ints, length: Ints, top: int
) -> Ints:
    """Return `length` with the true length of each match that it cuts off at `top` tokens.

    The other arguments are as in :func:`match_lengths`, and `length` is its result.
    """
    place = np.arange(len(length))
    begun = np.maximum.accumulate(np.where(length == top, place, -top))
    # positions inside a match of `top` tokens
    inside = np.flatnonzero(place - begun < top)
    longer = length.copy()
    # The matches that begin at the last of these positions may go on beyond them, but all that are
    # longer than `top` are inside.
    runs = run_lengths(tokens, owned, at[inside], owner[inside])
    longer[inside] = np.maximum(length[inside], runs)
    return longer


def run_lengths(tokens: Tokens, owned: Ints, at: Ints, owner: Ints) -> Ints:
    """Return the length of the longest match that starts at each position.

    This is :func:`match_lengths` without a limit; its time hardly depends on the length of the
    matches. No match goes on after a position that is followed by a gap.
    """
    length = np.zeros(len(at), np.int64)
    for doc in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == doc)
        # Insert an end mark where positions are missing, so that no run can cross the gap.
        gap = np.flatnonzero(np.diff(at[mine]) > 1) + 1
        piece = np.insert(tokens.ids[at[mine]], gap, END)
        source = tokens.ids[owned[doc] : owned[doc + 1] - 1]
        source = np.where(source == END, tokens.base, source)  # no run crosses the end of a text
        length[mine] = np.delete(_longest_starts(piece, source), gap + np.arange(len(gap)))
    return length


def _longest_starts(piece: Ints, source: Ints) -> Ints:
    """Return, for each position of ``piece``, the length of the longest match that starts there."""
    both = np.concatenate([piece, [END], source])
    n, size = len(both), 1
    ranks = [np.unique(both, return_inverse=True)[1] + 1]
    # Rank the runs of 1, 2, 4, ... tokens, up to the length of the longest possible match.
    most = min(int(np.diff(np.flatnonzero(both == END), prepend=-1).max()), len(source))
    while size <= most:
        # beyond the end, the value is 0, which is below all ranks
        after = np.append(ranks[-1][size:], np.zeros(size, np.int64))
        ranks.append(np.unique(ranks[-1] * (n + 1) + after, return_inverse=True)[1] + 1)
        size *= 2
    order = np.argsort(ranks[-1])
    there = np.where(order > len(piece), np.arange(n), -1)
    below = np.maximum.accumulate(there)
    above = n - 1 - np.maximum.accumulate(np.where(there[::-1] >= 0, np.arange(n), -1))[::-1]
    longest = np.zeros(n, np.int64)
    # In sorted order, the source's suffix with the longest match is the nearest one before or after
    # the suffix of the text.
    for near in (below, above):
        neighbours = np.flatnonzero((near >= 0) & (near < n))
        place, other = order[neighbours], order[near[neighbours]]
        length = np.zeros(len(neighbours), np.int64)
        for power, rank in reversed(list(enumerate(ranks))):
            x, y = place + length, other + length
            inside = np.maximum(x, y) < n
            same = rank[np.minimum(x, n - 1)] == rank[np.minimum(y, n - 1)]
            length += (inside & same) << power
        longest[place] = np.maximum(longest[place], length)
    return longest[: len(piece)]


__dir__ = __all__.copy  # so that dir() lists the public names
