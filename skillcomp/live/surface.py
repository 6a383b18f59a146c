"""What in a suite's texts can be changed without a reader's judgement, and into what.

Only what a program can tell from its form is taken: given names of people, names that a word such
as "team" or "Ltd" marks as invented, running numbers with letters before them, types declared in
code, and dates with a year. Everything else may carry the answer.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random

__all__ = ["Change", "find_changes", "move_dates", "word_pattern"]

# Given names by the pronoun that a text is likely to use with them, so that it still agrees.
_SHE = """Agnes Aisha Alice Amara Ana Anita Anna Astrid Beatriz Carla Chiara Clara Dana
Elena Elif Emma Esther Fatima Freya Greta Hana Helen Ines Ingrid Irene Jana Karin
Laila Lena Leila Lucia Maja Maria Marta Mei Mina Miriam Nadia Nina Nora Olga Paula Petra Priya
Rosa Ruth Salma Sara Selma Sofia Tara Teresa Vera Yara Yuki Zoe"""
_HE = """Adam Ahmed Amir Anders Andrei Anton Arjun Ben Bjorn Boris Carlos Dario David
Diego Emil Eric Erik Felix Filip Gabriel Georg Hans Hassan Henrik Ivan Ivo Jakob James 
Jonas Karim Kenji Kofi Lars Leo Liam Luca Lukas Marco Mario Martin Mateo Miguel Nikolai
Noah Oliver Omar Oscar Otto Pablo Paul Pedro Rafael Ravi Rui Samir Sven Tariq Theo Tomas Yann"""
_INVENTED = """Alderway Birchfen Calderon Dunmere Eastvale Fennick Garrow Hollin Inverley Jasmond
Kestrow Larkmoor Marlund Nethercote Osmere Pellworth Quarrin Rookdale Silverne Tamsin Ulverton
Vintner Wexcombe Yarrowby Zelmar Ashbourn Brackley Corvane Dellmark Elmstead"""
# Names of products and languages that an answer may rest on; the list cannot be complete.
_PRODUCTS = """Airflow Amazon Android Angular Ansible Apache Apple Azure Bash Cassandra Celery
Chrome Cloudflare Datadog Django Docker Elixir Erlang Excel Express Facebook Firefox
Flask Git Google Grafana Hadoop Haskell Intel Java Jenkins Jira Jupyter Kafka Kotlin
Kubernetes Lambda Linux Mac Meta Microsoft Mongo Netflix Nginx Node Oracle Perl
Postgres Prometheus Python Rails React Redis Ruby Rust Salesforce Scala Sentry Slack
Spark Spring Stripe Swift Teams Terraform Twitter Unix Vault Windows Zoom"""
# Prefixes of standards and formats: their numbers mean something outside the suite.
_STANDARDS = """AES BS CVE CWE DIN DO EC EN FIPS GDPR HTTP IEC IEEE IPV ISO ITU JSR MD MIT NIST PEP
RFC RSA SAE SHA SOC SQL TCP TLS UTF UTC GMT US USB WCAG"""
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_ORGANIZED = (
    r"(?:team|crew|squad|service|project|Team|Ltd|Inc|Corp|GmbH|LLC|PLC|Co\.|Company|Group)"
)
_NAMED = (
    re.compile(rf"(?<=[a-z,;(] )([A-Z][a-z]{{2,}})(?= {_ORGANIZED}(?!\w))"),
    re.compile(r"\b(?:company|customer|vendor|supplier|service|project|team) ([A-Z][a-z]{2,})\b"),
    re.compile(r"\b(?:called|named) ([A-Z][a-z]{2,})\b"),
)
_CODE = re.compile(r"(?<![\w-])([A-Z]{1,6})-(\d{2,})(?![\w-])")
_DECLARED = re.compile(
    r"\b(?:type|class|interface|struct|enum|record)\s+([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+)\b"
    r"|\b(?:function|def|func|fn)\s+([a-z][a-z0-9]*(?:(?:[A-Z]|_[a-z0-9])[a-z0-9]*)+)\s*[(<]"
)
_ISO = re.compile(r"(?<![\d-])((?:19|20)\d\d)-(\d\d)-(\d\d)(?![\d-])")
_LONG = re.compile(rf"\b(\d{{1,2}}) ({_MONTHS}),? ((?:19|20)\d\d)\b")
_US = re.compile(rf"\b({_MONTHS}) (\d{{1,2}}),? ((?:19|20)\d\d)\b")
_FORMS = (_ISO, _LONG, _US)
_YEAR = re.compile(r"(?<![\w.,-])(?:19|20)\d\d(?![\w-]|[.,]\d)")
_WEEKDAY = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
# 28 years bring every date back to its day of the week, until the century ends
_SHIFTS = (*range(-12, -1), *range(2, 13), -28, 28)


@dataclass(frozen=True)
class Change:
    """One word or phrase and what stands in its place, everywhere in the suite.

    Attributes
    ----------
    kind : str
        ``person``, ``organization``, ``code``, ``identifier``, ``date`` or ``given``.
    found, replaced : str
        Before and after.
    """

    kind: str
    found: str
    replaced: str


def word_pattern(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern of whole words or phrases, the longer ones first, article included.

    Parameters
    ----------
    words : collection of str
        Matched as they are, where no letter or digit stands beside them.

    Returns
    -------
    re.Pattern
        Groups ``article`` (``a `` or ``an `` before the word, or None) and ``word``.
    """
    choices = "|".join(re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w)))
    return re.compile(rf"(?<!\w)(?P<article>[Aa]n? )?(?P<word>{choices})(?!\w)")


def find_changes(
    texts: Sequence[str], *, protected: str, keep: Collection[str] = (), seed: int | str = 0
) -> list[Change]:
    """Return what can be changed in the texts of a suite, each word once.

    Parameters
    ----------
    texts : sequence of str
        All texts of the suite.
    protected : str
        The skill's text and the like; what stands in it is left alone.
    keep : collection of str
        Words to leave alone.
    seed : int or str
        Decides among the possible new words.

    Returns
    -------
    list of Change
        In order of first appearance, dates last.
    """
    random = Random(f"skillcomp:{seed}")
    whole = "\n".join(texts)
    taken = f"{whole}\n{protected}"

    def free(word: str) -> bool:
        return word not in keep and not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", protected)

    changes = [change for change in _names(whole, taken, random) if free(change.found)]
    known = {change.found for change in changes}
    for change in (*_codes(whole, taken, random), *_identifiers(whole, taken, random)):
        if free(change.found) and change.found not in known:
            changes.append(change)
    changes.sort(key=lambda change: whole.index(change.found))
    return changes + _dates(texts, protected, keep, random)


def _names(whole: str, taken: str, random: Random) -> Iterator[Change]:
    used = set(re.findall(r"\w+", taken))
    for names in (_SHE.split(), _HE.split()):
        unused = [name for name in names if name not in used]
        random.shuffle(unused)
        found = [name for name in names if re.search(rf"\b{name}\b", whole)]
        for name, new in zip(found, unused, strict=False):
            yield Change("person", name, new)
    known = {*_SHE.split(), *_HE.split(), *_PRODUCTS.split()}
    unused = [name for name in _INVENTED.split() if name not in used]
    random.shuffle(unused)
    marked = dict.fromkeys(m for pattern in _NAMED for m in pattern.findall(whole))
    # a word that also stands in small letters is a word and not only a name
    names = [n for n in marked if n not in known and n not in _MONTHS.split("|")]
    names = [name for name in names if not _WEEKDAY.fullmatch(name)]
    names = [name for name in names if not re.search(rf"\b{name.lower()}\b", taken)]
    for name, new in zip(names, unused, strict=False):
        yield Change("organization", name, new)


def _codes(whole: str, taken: str, random: Random) -> Iterator[Change]:
    standards = _STANDARDS.split()
    codes = list(dict.fromkeys(_CODE.findall(whole)))
    prefixes = [p for p in dict.fromkeys(prefix for prefix, _ in codes) if p not in standards]
    new: dict[str, str] = {}
    for prefix in prefixes:
        for _ in range(100):
            made = "".join(random.choices("BDFGHJKLMNPRTVWZ", k=len(prefix)))
            if f"{made}-" not in taken and made not in new.values() and made not in standards:
                new[prefix] = made
                break
    for prefix, number in codes:
        if prefix in new:
            yield Change("code", f"{prefix}-{number}", f"{new[prefix]}-{number}")


def _identifiers(whole: str, taken: str, random: Random) -> Iterator[Change]:
    declared = list(dict.fromkeys(m[1] or m[2] for m in _DECLARED.finditer(whole)))
    # the words inside a name carry meaning, so they stay and get a mark in front
    marks = [m for m in ("Kv", "Nt", "Rx", "Zu", "Bq", "Wm") if m.lower() not in taken.lower()]
    if not declared or not marks:
        return
    mark = random.choice(marks)
    for name in declared:
        if name[0].isupper():
            yield Change("identifier", name, f"{mark}{name}")
        elif "_" in name:
            yield Change("identifier", name, f"{mark.lower()}_{name}")
        else:
            yield Change("identifier", name, f"{mark.lower()}{name[0].upper()}{name[1:]}")


def _dates(
    texts: Sequence[str], protected: str, keep: Collection[str], random: Random
) -> list[Change]:
    """Return all dates moved by one number of years, or none where that could change an answer."""
    whole = "\n".join(texts)
    written = list(dict.fromkeys(m[0] for form in _FORMS for m in form.finditer(whole)))
    rest = "\n".join(texts)
    for form in _FORMS:
        rest = form.sub(" ", rest)
    # a year that stands alone may be a number, and moving the rest would move it against them
    if not written or _YEAR.search(rest) or any(t in protected or t in keep for t in written):
        return []
    shifts = list(_SHIFTS)
    random.shuffle(shifts)
    for years in shifts:
        if new := move_dates(written, years, same_weekday=bool(_WEEKDAY.search(whole))):
            return [Change("date", old, one) for old, one in zip(written, new, strict=True)]
    return []


def move_dates(
    written: Sequence[str], years: int, *, same_weekday: bool = False
) -> list[str] | None:
    """Return dates some years away, or None where anything but the year would change.

    Parameters
    ----------
    written : sequence of str
        In the forms ``2024-03-31``, ``31 March 2024`` and ``March 31, 2024``.
    years : int
        Added to each year; day and month stay, so that month ends stay month ends.
    same_weekday : bool, default False
        Only if the days of the week stay as well.

    Returns
    -------
    list of str, or None
        In the forms they were written in. None when one is no date, a day does not exist in its
        new year, the number of days between two of them would change, or a leap year would become
        a common one or the other way round.

    Examples
    --------
    >>> move_dates(["31 March 2025", "2025-04-02"], 2)
    ['31 March 2027', '2027-04-02']
    >>> move_dates(["2024-02-20", "2024-03-05"], 1) is None
    True
    """
    try:
        before = [_parse(text) for text in written]
        after = [day.replace(year=day.year + years) for day in before]
    except ValueError:
        return None
    moved = {(new - old).days for old, new in zip(before, after, strict=True)}
    leap = [isleap(old.year) == isleap(old.year + years) for old in before]
    if len(moved) != 1 or not all(leap) or (same_weekday and moved.pop() % 7):
        return None
    return [
        text.replace(f"{old.year:04}", f"{new.year:04}")
        for text, old, new in zip(written, before, after, strict=True)
    ]


def _parse(text: str) -> date:
    months = {name: i for i, name in enumerate(_MONTHS.split("|"), start=1)}
    if found := _ISO.fullmatch(text):
        return date(*(int(part) for part in found.groups()))
    if found := _LONG.fullmatch(text):
        return date(int(found[3]), months[found[2]], int(found[1]))
    if found := _US.fullmatch(text):
        return date(int(found[3]), months[found[1]], int(found[2]))
    raise ValueError(f"'{text}' is no date.")
