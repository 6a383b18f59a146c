"""Replace secrets in everything that is written, in whatever common encoding they occur.

Secrets are values of environment variables with names such as ``MY_API_KEY``, passwords in URLs,
and values that agents report with `hide`. Escapes in a text are resolved, separators are left out,
and the result is searched for all forms of all secrets. docs/study-file.md lists the forms.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from html import escape
from html.entities import html5
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
import orjson

_Span = tuple[int, int, str]  # Start, end and label of a place with secrets.
# These parts of a name need not be whole words, as in APIKEY and PGPASSWORD.
_PARTS = r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTHORIZATION|AUTH$"
# These are whole words of a name, since COMPASS, PATTERN and BYPASS are names of no secrets.
_WORDS = r"(?<![A-Z])(?:PASS|PWD|PAT|DSN|WEBHOOK|COOKIE|SESSION)S?(?![A-Z])"
_SECRET_NAME = re.compile(f"{_PARTS}|{_WORDS}", re.IGNORECASE)
# Variables of shells, desktops and terminals that have one of these words but hold no secret.
_ORDINARY_NAME = re.compile(
    "(?:OLD)?PWD|SESSION_MANAGER|(?:XDG|DBUS|DESKTOP|TERM|ITERM|WT)_SESSION.*", re.IGNORECASE
)
# Match secrets inside a value: the password of a URL (or a long user name without a password), the
# token of a header, and the value of a field such as ``api_key=``.
_INSIDE = re.compile(
    r"://[^/@\s:]*:([^/@\s]+)@|://([^/@\s:]{16,})@|\b(?:Bearer|Basic)\s+(\S+)"
    r"|(?:^|[;?&\s])[\w.-]*(?:pass\w*|pwd|key|token|secret|session\w*)=([^;&\s]+)",
    re.IGNORECASE,
)
# A password may contain these characters without escapes; digits before a slash are a port.
_RAW_PASSWORD = re.compile(r"://[^/?#\s:@]{0,999}:(?!\d{1,5}/)(\S{1,999})@[\w.\[-]")
_MIN_SECRET = 8  # Minimum length of a secret; a shorter value, such as "true", is not hidden.
_UNSAFE = re.compile(r"[^\w ().,-]")  # Characters that a placeholder must not contain.

BLOCK = 1 << 16  # Number of bytes that are searched at once; they fit into the processor's cache.
# A form of a secret with its separators is at most this many times as long as the secret.
_EXPANSION, _MARGIN = 24, 1024
_ANCHOR, _STEP = 8, 4  # Length of the parts of forms that are looked up, and their distance.
_SHIFT = np.uint64(64 - 17)  # The lookup table has 2**17 entries.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, for multiplicative hashing
_ROUNDS = 3  # Maximum number of encodings inside one another that are resolved.


class _Rule(NamedTuple):
    """An escape: bytes of which it contains at least one, its pattern, and the byte for a match."""

    markers: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    # without a function, the markers are the escapes, and they stand for blanks
    value: Callable[[re.Match[bytes]], bytes] | None = None

    def applied(self, data: bytes) -> bytes:
        for marker in self.markers:
            if marker in data:
                if self.value is not None:
                    return self.pattern.sub(self.value, data)
                data = data.replace(marker, b" ")
        return data


_ENTITIES = {
    f"&{name}".encode(): text.encode()
    for name, text in html5.items()
    if name.endswith(";") and len(text) == 1 and " " <= text <= "~"
}


def _byte_of_hex(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[match.lastindex or 0], 16),))


def _byte_of_entity(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return bytes((int(match[1]),))
    return bytes((int(match[2], 16),)) if match[2] else _ENTITIES[match[0]]


# Backslashes are left out, so the other escapes with a backslash need no rule, at any depth of JSON
# inside JSON. Signs that replace control characters stand for blanks, too.
_LINE_BREAKS = _Rule(
    (b"\\n", b"\\r", b"\\t", "\u2400".encode(), "\ufffd".encode()),
    re.compile(rb"\\[nrt]|\xe2\x90\x80|\xef\xbf\xbd"),
)
_CODES = (
    _Rule(
        (b"\\u", b"\\U"),
        # all backslashes belong to the escape: two of them before u006e must not leave \n behind
        re.compile(
            rb"(?<!\\)\\++(?:u00([0-7][0-9A-Fa-f])|U000000([0-7][0-9A-Fa-f])"
            rb"|u\{0*([0-7]?[0-9A-Fa-f])\})"
        ),
        _byte_of_hex,
    ),
    _Rule((b"\\x",), re.compile(rb"(?<!\\)\\++x([0-9A-Fa-f]{2})"), _byte_of_hex),
    _Rule((b"%",), re.compile(rb"%(?:u00)?([0-9A-Fa-f]{2})"), _byte_of_hex),
    _Rule(
        (b"&",),
        re.compile(
            rb"&(?=[#A-Za-z])(?:#0*(3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6])"
            rb"|#[xX]0*([2-7][0-9A-Fa-f])|"
            + b"|".join(re.escape(name[1:-1]) for name in sorted(_ENTITIES, reverse=True))
            + b");"
        ),
        _byte_of_entity,
    ),
)
# In a dump of bytes, each can have a prefix, as in ``0x73, 0x6b``.
_PREFIX = _Rule((b"0x",), re.compile(b"0x"))
# Bytes that are left out before a text is searched: blanks, separators between encoded bytes, and
# NUL, which is every second byte of English text in UTF-16.
_DROPPED = b" \t\n\r\f\v\0\\:,+-"
_IS_KEPT = ~np.isin(np.arange(256), np.frombuffer(_DROPPED, np.uint8))
# Capitals do not matter in hexadecimal. base64 for URLs has - and _ instead of + and /.
_FOLDED = bytes(range(256)).lower().replace(b"_", b"/")


def _squeezed(data: bytes) -> bytes:
    return data.translate(_FOLDED, _DROPPED)


class _Mapped:
    """Bytes, and the place in the original where each of them begins and ends."""

    def __init__(self, data: bytes, starts: Any = None, ends: Any = None) -> None:
        self.data = data
        self.starts = np.arange(len(data), dtype=np.int32) if starts is None else starts
        self.ends = self.starts + 1 if ends is None else ends

    def decoded(self, rule: _Rule) -> _Mapped:
        matches = list(rule.pattern.finditer(self.data))
        if not matches:
            return self
        array, ends = np.frombuffer(self.data, np.uint8).copy(), self.ends.copy()
        first = np.array([match.start() for match in matches])
        last = np.array([match.end() - 1 for match in matches])
        values = b" " if rule.value is None else b"".join(map(rule.value, matches))
        array[first] = np.frombuffer(values, np.uint8)
        ends[first] = ends[last]
        # the first byte of each escape stands for the escape; the others are left out
        change = np.zeros(len(array) + 1, np.int8)
        change[first + 1] += 1
        change[last + 1] -= 1
        kept = np.flatnonzero(np.cumsum(change[:-1], dtype=np.int8) == 0)
        return _Mapped(array[kept].tobytes(), self.starts[kept], ends[kept])

    def squeezed(self) -> _Mapped:
        kept = np.flatnonzero(_IS_KEPT[np.frombuffer(self.data, np.uint8)])
        return _Mapped(_squeezed(self.data), self.starts[kept], self.ends[kept])


class _Needles:
    """Forms of secrets, with an index that finds them in a text in a few passes over it."""

    def __init__(self, labels: Mapping[bytes, str]) -> None:
        self.labels = labels
        # A form of this length has a part that begins at a multiple of _STEP, wherever it occurs.
        shortest = _ANCHOR + _STEP - 1
        self.short = [form for form in labels if len(form) < shortest]
        self.forms: defaultdict[int, list[bytes]] = defaultdict(list)
        for form in labels:
            for start in range(_STEP if len(form) >= shortest else 0):
                part = int.from_bytes(form[start : start + _ANCHOR], sys.byteorder)
                self.forms[part].append(form)
        self.parts = np.array(list(self.forms), np.uint64)
        self.table = np.zeros(1 << 17, bool)
        self.table[(self.parts * _FACTOR) >> _SHIFT] = True

    def present(self, data: bytes) -> set[bytes]:
        """Return the forms that occur in a text."""
        present = {form for form in self.short if form in data}
        for start in range(0, _ANCHOR, _STEP):
            n_words = max(len(data) - start, 0) // _ANCHOR
            words = np.frombuffer(data, np.uint64, n_words, start) if n_words else self.parts[:0]
            # numpy indexes faster by signed integers
            places = ((words * _FACTOR) >> _SHIFT).view(np.int64)
            likely = words[self.table[places]]
            for part in self.forms.keys() & set(likely.tolist()):
                present.update(form for form in self.forms[part] if form in data)
        return present


class _Secrets:
    """The secrets of a process and all their forms."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        longest = max(
            (len(secret.encode("utf-8", "surrogatepass")) for secret in labels), default=0
        )
        self.overlap = _EXPANSION * longest + _MARGIN
        forms: dict[bytes, str] = {}
        # a form of which little is left without separators, such as "1-2-3-4-5", keeps them
        self.plain: dict[bytes, str] = {}
        for secret, label in labels.items():
            for form in _forms(secret):
                squeezed = _squeezed(form)
                if len(squeezed) >= _MIN_SECRET:
                    forms.setdefault(squeezed, label)
                elif len(form) >= _MIN_SECRET:
                    self.plain.setdefault(form, label)
        self.needles = _Needles(forms)

    def replaced(self, data: bytes) -> bytes:
        """Return a text with placeholders for the secrets; the same object if it has none."""
        pieces, end = [], 0
        for start, stop, label in self.spans(data):
            pieces += [data[end:start], f"[{label}]".encode()]
            end = stop
        return b"".join([*pieces, data[end:]]) if pieces else data

    def spans(self, data: bytes) -> list[_Span]:
        """Return start, end and label of each place with secrets, in order."""
        if not (self.plain or self.needles.labels):
            return []
        spans = [span for at in range(0, len(data), BLOCK) for span in self._spans_from(data, at)]
        for form, label in self.plain.items():
            if form in data:
                found = re.finditer(re.escape(form), data)
                spans += [(match.start(), match.end(), label) for match in found]
        return list(_merged(spans))

    def _spans_from(self, data: bytes, at: int) -> Iterator[_Span]:
        """Yield start, end and label of the forms that begin in a block."""
        block = data[at : at + BLOCK + self.overlap]
        # The block is searched before and after each rule: in a path, \n may be no escape.
        counts: dict[bytes, int] = {}
        rules = []
        for rule, text in _stages(block):
            rules += [rule] if rule else []
            text = _squeezed(text)
            before = counts
            counts = {form: text.count(form) for form in self.needles.present(text)}
            forms = {form for form, count in counts.items() if count != before.get(form)}
            if not forms:
                continue
            mapped = _Mapped(block)
            for each in rules:
                mapped = mapped.decoded(each)
            mapped = mapped.squeezed()
            for form in forms:
                for match in re.finditer(re.escape(form), mapped.data):
                    start = int(mapped.starts[match.start()])
                    # a backslash would otherwise be left in front of the placeholder
                    while start and block[start - 1 : start] == b"\\":
                        start -= 1
                    end = int(mapped.ends[match.end() - 1])
                    yield at + start, at + end, self.needles.labels[form]


def _stages(block: bytes) -> Iterator[tuple[_Rule | None, bytes]]:
    """Yield a block, then each rule that changes it and the result, until no code is left."""
    yield None, block
    for _ in range(_ROUNDS):
        has_codes = False
        for rule in (_LINE_BREAKS, *_CODES):
            decoded = rule.applied(block)
            if decoded != block:
                has_codes |= rule in _CODES
                block = decoded
                yield rule, block
        # a code can stand for a part of another escape
        if not has_codes:
            break
    if (decoded := _PREFIX.applied(block)) != block:
        yield _PREFIX, decoded


def _decoded(block: bytes) -> bytes:
    """Resolve the escapes of a block."""
    return list(_stages(block))[-1][1]


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Yield spans in order; overlapping spans become one, with the label of the longest."""
    last_end = -1
    groups: list[list[_Span]] = []
    for span in sorted(set(spans)):
        if span[0] >= last_end:
            groups.append([])
        groups[-1].append(span)
        last_end = max(last_end, span[1])
    for group in groups:
        longest = max(group, key=lambda span: span[1] - span[0])
        yield group[0][0], max(end for _, end, _ in group), longest[2]


def _forms(secret: str) -> Iterator[bytes]:
    """Yield the forms of a secret, as they are after escapes are resolved."""
    for text in (secret, secret[::-1]):
        for plain in (text, json.dumps(text)[1:-1], text.replace('"', '""')):
            form = plain.encode("utf-8", "surrogatepass")
            yield from (form, _decoded(form))
    forward = secret.encode("utf-8", "surrogatepass")
    yield quote(forward, safe="").encode()
    yield escape(secret).encode("utf-8", "surrogatepass")
    wide = (secret.encode(f"utf-16-{order}", "surrogatepass") for order in ("le", "be"))
    plain_forms = dict.fromkeys((forward, json.dumps(secret)[1:-1].encode()))
    for data in (*plain_forms, forward[::-1], *wide):
        yield from (data, data.hex().encode())
        for encode, size, bits in ((base64.b64encode, 3, 6), (base64.b32encode, 5, 5)):
            for form in _cores(data, encode, size, bits):
                # an encoded text can by chance contain an escape
                yield from (form, _decoded(form))


def _cores(data: bytes, encode: Callable[[bytes], bytes], size: int, bits: int) -> Iterator[bytes]:
    """Yield the encoded forms of data inside a longer text.

    The encoding turns `size` bytes into letters of `bits` bits each. The data can begin at any of
    these bytes. Only letters of which all bits belong to the data are kept.
    """
    for start in range(size):
        whole = encode(b"\0" * start + data).rstrip(b"=")
        yield whole[-(-start * 8 // bits) : (start + len(data)) * 8 // bits]


# Secrets that agents reported, with their placeholders.
_hidden: dict[str, str] = {}


def hide(secrets: Mapping[str, str | None]) -> None:
    """Hide secrets that are in no environment variable of this process, from now on.

    The keys become the placeholders. As for variables, the name decides whether the whole value or
    only a password inside it is a secret.
    """
    global _hidden
    items = tuple((name, value) for name, value in secrets.items() if value)
    # replace the mapping, because another thread may be reading it
    _hidden = {**_hidden, **_labels_of(items)}


@lru_cache(maxsize=64)
def _labels_of(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Map the secrets among named values to their placeholders."""
    labels: dict[str, str] = {}
    for name, value in items:
        label = _UNSAFE.sub("", name)
        secrets = secrets_inside(value)
        if is_secret_name(name) and not (os.path.isabs(value) and os.path.exists(value)):
            secrets.append(value.strip())
        for secret in secrets:
            for text in (secret, unquote(secret)):
                if len(text) >= _MIN_SECRET:
                    labels.setdefault(text, label)
    return labels


def secrets_inside(value: str) -> list[str]:
    """Return the secrets inside a value, such as the password of a URL."""
    inside = [text for groups in _INSIDE.findall(value) for text in groups if text]
    return [*inside, *_RAW_PASSWORD.findall(value)]


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _ORDINARY_NAME.fullmatch(name)


@lru_cache(maxsize=32)
def _compiled(labels: tuple[tuple[str, str], ...]) -> _Secrets:
    return _Secrets(dict(labels))


_fixed: ContextVar[_Secrets | None] = ContextVar("fixed", default=None)


@contextmanager
def with_fixed_secrets() -> Iterator[None]:
    """Look up secrets once for the whole ``with`` block, which saves time for many short texts."""
    token = _fixed.set(_secrets())
    try:
        yield
    finally:
        _fixed.reset(token)


def _secrets(environment: Mapping[str, str] | None = None) -> _Secrets:
    """Return the secrets of an environment; by default with those that agents reported."""
    if environment is None and (fixed := _fixed.get()):
        return fixed
    labels = _labels_of(tuple((os.environ if environment is None else environment).items()))
    if environment is None:
        labels = {**_hidden, **labels}
    return _compiled(tuple(labels.items()))


def redact_bytes(data: bytes, environment: Mapping[str, str] | None = None) -> bytes:
    """Replace secrets in the content of a file; see `redact`."""
    return _secrets(environment).replaced(data)


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace secrets in a text by the names of their variables.

    Parameters
    ----------
    text : str
        Any text.
    environment : mapping, optional
        Names and values of variables. Default: the environment of this process, and the secrets
        that agents reported with `hide`.

    Examples
    --------
    >>> redact("401: key sk-12345678 is wrong", {"A_KEY": "sk-12345678"})
    '401: key [A_KEY] is wrong'
    """
    data = text.encode("utf-8", "surrogatepass")
    redacted = redact_bytes(data, environment)
    if redacted is data:
        return text
    try:
        return redacted.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return redacted.decode("utf-8", "replace")


def redacted_start(text: str, most: int) -> str:
    """Return the first characters of a text, without a secret that is cut in two.

    Half a secret is not recognised later. Whole secrets are left to the store, which redacts
    everything that it writes.
    """
    if len(text) <= most:
        return text
    secrets = _secrets()
    begin = max(most - secrets.overlap, 0)
    before = text[begin:most].encode("utf-8", "surrogatepass")
    after = text[most : most + secrets.overlap].encode("utf-8", "surrogatepass")
    cut = len(before)
    for start, end, _ in secrets.spans(before + after):
        if start < cut < end:
            cut = start
    return text[:begin] + before[:cut].decode("utf-8", "surrogatepass")


def redacted_content(content: Any) -> Any:
    """Return content with secrets replaced in all its texts, also in the keys of objects."""
    if isinstance(content, str):
        return redact(content)
    if isinstance(content, dict):
        return {redacted_content(key): redacted_content(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(redacted_content(entry) for entry in content)
    if isinstance(content, bytes):
        return redact_bytes(content)
    if isinstance(content, np.ndarray) and content.dtype.kind in "OSU":
        redacted = np.empty(content.shape, object)
        for place, entry in np.ndenumerate(content):
            redacted[place] = redacted_content(entry)
        return redacted
    return content


def redact_json(data: bytes, option: int = 0) -> bytes:
    """Replace secrets in the texts of a JSON document; `option` is that of orjson."""
    redacted = redact_bytes(data)
    if redacted is data:
        return data
    try:
        return orjson.dumps(redacted_content(orjson.loads(data)), option=option)
    except (RecursionError, TypeError):  # orjson writes at most 254 levels
        return redacted


def redact_lines(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Replace secrets in the texts of JSON lines."""
    whole = b"\n".join(lines)
    return lines if redact_bytes(whole) is whole else [redact_json(line) for line in lines]
