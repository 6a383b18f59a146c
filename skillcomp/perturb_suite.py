"""Make a private copy of a suite with other surface details, to see whether answers still hold.

A public suite may be in the training data of agents and graders. An unpublished copy asks the same
questions with other names. An agent that only remembers the suite does worse on it. The
comprehension report (8.1) calls this true validation.
"""

from __future__ import annotations

import re
import warnings
from calendar import isleap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

import pandas as pd

from skillcomp.errors import SuiteError, require_type, suggest
from skillcomp.io.files import checked_slug
from skillcomp.lint.lint_suite import suite_findings
from skillcomp.ngrams import tokenize
from skillcomp.records import Case, Skill, Suite

RECORD = "perturbation"  # key under which ``Suite.extra`` holds the record of the changes
_SHOWN = 12  # an error names at most this many candidates


class PerturbationWarning(UserWarning):
    """A private copy has prompts that are identical to those of the public suite."""


def perturb_suite(
    suite: Suite,
    *,
    skill: Skill | None = None,
    replacements: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    seed: int = 0,
    slug: str | None = None,
) -> Suite:
    """Copy a suite with other names, codes and dates but the same right answers.

    The same replacements are made in prompts, expected reasoning and descriptions of behaviours. A
    case thus stays consistent with its checks, and the two cases of a contrast pair still differ in
    only one detail.

    Parameters
    ----------
    suite : Suite
        The original; it is not changed.
    skill : Skill, optional
        The skill of the suite. Words of its text are never replaced. Without ``skill``, only the
        words in the suite's name, skill name, subject and adjacent concepts are protected.
    replacements : mapping of str to str, optional
        Further words or phrases with their replacements, for example to change a setting (a brewery
        into a dairy), a product or a number. A key matches whole words in the same spelling; a key
        that begins in lower case also replaces its capitalised form. `perturbation_candidates`
        lists words to choose from.
    keep : collection of str
        Words to keep although they look like names.
    seed : int, default 0
        The same seed gives the same copy.
    slug : str, optional
        Name of the copy and prefix of its case_ids. Default:
        ``<slug of the suite>-perturbed-<seed>``.

    Returns
    -------
    Suite
        The copy. It has the same cases and ids of behaviours in the same order.
        ``extra["perturbation"]`` holds the original's slug and sha256, the seed, all changes with
        their kinds, and the ids of the cases with an unchanged prompt. Write the copy with
        `skillcomp.io.write_suite`.

    Raises
    ------
    SuiteError
        If a word to replace is missing from the suite or belongs to the skill, if a replacement
        already occurs in the suite or skill, if nothing would change, or if the lint has a finding
        for the copy but not for the original.

    Warns
    -----
    PerturbationWarning
        If prompts are unchanged, because a model may remember them from its training. The message
        names these cases, and words in them that could be replaced.

    See Also
    --------
    skillcomp.perturb_suite.perturbation_table : Lists the changes, place by place.

    Notes
    -----
    These are changed automatically: common given names, into names with the same likely pronoun;
    names next to a word such as "team" or "Ltd"; the letters of codes such as PT-3390; types and
    functions declared in code, which get a prefix; and dates with a year, which all move by the
    same number of years. Dates are kept if the texts also contain a year outside a date, if a move
    would change a leap year or the days between two dates, or if the texts name days of the week
    that would no longer fit. Numbers, times, units, products and settings are kept, because a
    program cannot know whether the right answer depends on them. Ids of behaviours are kept even if
    they contain a replaced word, because they join verdicts to checks.

    A name can be the answer, so a person must read `perturbation_table` before the copy is used.
    Only the surface changes: a model that remembers the structure of a question is not detected.
    The method follows the contrast sets of doi:10.18653/v1/2020.findings-emnlp.117.

    Examples
    --------
    >>> from skillcomp.records import Case, Check, Suite
    >>> check = Check(check_id="says_no", description="Tells Ines not to seal PT-3390.")
    >>> case = Case(case_id="tide/1", prompt="May Ines seal PT-3390 at 14:10?", checks=(check,))
    >>> copy = perturb_suite(Suite(slug="tide", skill="tide", cases=(case,)))
    >>> "Ines" in copy.cases[0].prompt, "-3390 at 14:10?" in copy.cases[0].prompt
    (False, True)
    """
    require_type("perturb_suite: suite", suite, Suite, "sc.read_suite(path)", SuiteError)
    texts = [text for case in suite.cases for _, text in _case_texts(case)]
    protected = _protected_text(suite, skill)
    requested = _requested_changes(replacements or {}, texts, protected)
    changes = [*requested]
    replaced_words = {change.found for change in requested}
    automatic = find_changes(
        texts, protected=protected, keep={*keep, *replaced_words}, seed=f"{seed}:{suite.slug}"
    )
    # a requested phrase is replaced as a whole, so skip the words inside it
    changes += [
        c for c in automatic if not any(word_pattern([c.found]).search(g.found) for g in requested)
    ]
    if not changes:
        raise SuiteError(
            f"perturb_suite: suite '{suite.slug}' holds no name, code or date that a program can "
            f"change without changing an answer. {_replacement_hint(suite, skill)}"
        )
    name = checked_slug(slug or f"{suite.slug}-perturbed-{seed}", SuiteError)
    mapping = {change.found: change.replaced for change in changes}
    cases = tuple(_perturbed_case(case, mapping, suite.slug, name) for case in suite.cases)
    pairs = zip(suite.cases, cases, strict=True)
    record: dict[str, Any] = {
        "source": suite.slug,
        "source_sha256": suite.sha256,
        "seed": seed,
        "changes": [[c.kind, c.found, c.replaced] for c in changes],
        "unchanged": [new.case_id for old, new in pairs if old.prompt == new.prompt],
    }
    fresh = {"slug": name, "cases": cases, "extra": {**suite.extra, RECORD: record}}
    fresh |= {"sha256": "", "path": "", "problems": ()}
    copy = suite.model_copy(update=fresh)
    _check_lint(suite, copy, skill)
    if same := record["unchanged"]:
        same_ids = ", ".join(case_id.removeprefix(f"{name}/") for case_id in same)
        warnings.warn(
            f"perturb_suite: {len(same)} of {len(cases)} prompts of '{name}' are those of "
            f"'{suite.slug}' word for word ({same_ids}). {_replacement_hint(copy, skill, same)}",
            PerturbationWarning,
            stacklevel=2,
        )
    return copy


def perturbation_table(original: Suite, perturbed: Suite) -> pd.DataFrame:
    """List the changes that `perturb_suite` made, place by place; read it before using the copy.

    Parameters
    ----------
    original, perturbed : Suite
        A suite and its copy.

    Returns
    -------
    pandas.DataFrame
        One row per place and word: ``case_id`` (in the copy), ``place`` (``prompt``,
        ``expected_reasoning``, ``extra`` or the id of a behaviour), ``kind`` of change, ``found``
        (the original word), ``replaced`` (the new word) and ``n`` (the number of occurrences). A
        case with an unchanged prompt has an additional row with ``n`` 0, in which ``place``,
        ``kind``, ``found`` and ``replaced`` are missing.

    Raises
    ------
    SuiteError
        If the copy was not made from this suite.
    """
    record = perturbed.extra.get(RECORD)
    if not isinstance(record, dict) or record["source"] != original.slug:
        raise SuiteError(
            f"perturbation_table: '{perturbed.slug}' is no copy of '{original.slug}' made by "
            "perturb_suite."
        )
    kinds = {word: (kind, new) for kind, word, new in record["changes"]}
    pattern = word_pattern(kinds)
    rows: list[tuple[Any, ...]] = []
    for old, new in zip(original.cases, perturbed.cases, strict=True):
        if old.prompt == new.prompt:
            rows.append((new.case_id, None, None, None, None, 0))
        for place, text in _case_texts(old):
            for word, n in Counter(m["word"] for m in pattern.finditer(text)).items():
                kind, replaced = kinds[word]
                rows.append((new.case_id, place, kind, word, replaced, n))
    columns = ["case_id", "place", "kind", "found", "replaced"]
    table = pd.DataFrame(rows, columns=[*columns, "n"])
    return table.astype({**dict.fromkeys(columns, "str"), "n": "int64"})


def perturbation_candidates(suite: Suite, *, skill: Skill | None = None) -> pd.DataFrame:
    """List words of the prompts that the skill does not use, as candidates for `replacements`.

    Parameters
    ----------
    suite : Suite
        The suite.
    skill : Skill, optional
        The skill of the suite. If it is omitted, the words of the skill are listed as well.

    Returns
    -------
    pandas.DataFrame
        One row per content word that occurs in prompts but not in the skill, the most frequent
        first: ``word`` (in lower case), ``n_cases`` (the number of prompts with the word) and
        ``n_places`` (the number of prompts, reasonings and behaviours with it). A person has to
        decide whether the right answer depends on a word.
    """
    own = set(tokenize(_protected_text(suite, skill)))
    prompts = Counter(
        word for case in suite.cases for word in set(tokenize(case.prompt)) if word not in own
    )
    places = Counter(
        word
        for case in suite.cases
        for _, text in _case_texts(case)
        for word in set(tokenize(text))
    )
    rows = [(word, n, places[word]) for word, n in prompts.items() if not word.isdecimal()]
    rows.sort(key=lambda row: (-row[1], -row[2], row[0]))
    table = pd.DataFrame(rows, columns=["word", "n_cases", "n_places"])
    return table.astype({"word": "str", "n_cases": "int64", "n_places": "int64"})


def _protected_text(suite: Suite, skill: Skill | None) -> str:
    parts = [suite.slug, suite.skill, suite.subject or "", *suite.adjacent_concepts]
    if skill is not None:
        if skill.slug != suite.skill:
            raise SuiteError(
                f"perturb_suite: suite '{suite.slug}' is about the skill '{suite.skill}'; found "
                f"'{skill.slug}'."
            )
        parts += [skill.text or skill.body, *skill.concept.values()]
    return "\n".join(parts)


def _requested_changes(
    replacements: Mapping[str, str], texts: list[str], protected: str
) -> list[Change]:
    """Return the requested changes and their capitalised forms; raise if one cannot be made."""
    pairs: dict[str, str] = {}
    for old, new in replacements.items():
        if not old.strip() or not new.strip() or old == new:
            raise SuiteError(
                f"replacements: found {old!r}: {new!r}; expected two different words or phrases."
            )
        pairs[old] = new
        if old[:1].islower():
            pairs.setdefault(old[:1].upper() + old[1:], new[:1].upper() + new[1:])
    whole = "\n".join(texts)
    words = sorted({word for text in texts for word in text.split()})
    for old, new in replacements.items():
        if not word_pattern([old, old[:1].upper() + old[1:]]).search(whole):
            raise SuiteError(
                f"replacements: '{old}' stands in no text of the suite.{suggest(old, words)}"
            )
        if word_pattern([old.lower()]).search(protected.lower()):
            raise SuiteError(f"replacements: '{old}' is a word of the skill; it must stay.")
        if word_pattern([new.lower()]).search(protected.lower()):
            raise SuiteError(f"replacements: '{new}' is a word of the skill; choose another.")
        if new not in pairs and word_pattern([new]).search(whole):
            raise SuiteError(
                f"replacements: '{new}' stands in the suite already; '{old}' could no longer be "
                "told from it."
            )
    if len(set(pairs.values())) < len(pairs):
        raise SuiteError("replacements: two words have the same replacement; they would merge.")
    there = ((old, new) for old, new in pairs.items() if word_pattern([old]).search(whole))
    return [Change("given", old, new) for old, new in there]


def _case_texts(case: Case) -> Iterator[tuple[str, str]]:
    yield "prompt", case.prompt
    yield "expected_reasoning", case.expected_reasoning or ""
    for check in case.checks:
        yield check.check_id, check.description
    for text in _texts_in(case.extra):
        yield "extra", text


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(entry)


def _perturbed_case(case: Case, mapping: Mapping[str, str], old: str, new: str) -> Case:
    pattern = word_pattern(mapping)

    def put(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda m: _with_article(m["article"], mapping[m["word"]], m), value)
        if isinstance(value, dict):
            return {key: put(entry) for key, entry in value.items()}
        return [put(entry) for entry in value] if isinstance(value, list | tuple) else value

    def renamed(case_id: str | None) -> str | None:
        return None if case_id is None else f"{new}/{case_id.removeprefix(f'{old}/')}"

    return case.model_copy(
        update={
            "case_id": renamed(case.case_id),
            "contrast_of": renamed(case.contrast_of),
            "prompt": put(case.prompt),
            "expected_reasoning": put(case.expected_reasoning),
            "checks": tuple(
                c.model_copy(update={"description": put(c.description)}) for c in case.checks
            ),
            "extra": put(case.extra),
        }
    )


def _with_article(article: str | None, word: str, match: Any) -> str:
    """Return a new word after its article, with "a" and "an" exchanged if necessary."""
    if article is None:
        return word
    before, after = match["word"][0].lower() in "aeiou", word[0].lower() in "aeiou"
    if before == after:
        return f"{article}{word}"
    return f"{article[0]}{'n' if after else ''} {word}"


def _check_lint(original: Suite, copy: Suite, skill: Skill | None) -> None:
    """Raise SuiteError if the lint finds something in the copy but not in the original."""

    def findings_by_place(suite: Suite) -> dict[tuple[str, str], str]:
        # Where truth sources are looked up depends on the path of a suite. The copy has no path
        # yet, so both suites are compared without one.
        findings = suite_findings(suite.model_copy(update={"path": ""}), skill)
        return {
            (f.rule, (f.case_id or "").removeprefix(f"{suite.slug}/")): str(f) for f in findings
        }

    before, after = findings_by_place(original), findings_by_place(copy)
    worse = [text for key, text in after.items() if key not in before]
    if worse:
        raise SuiteError(
            "perturb_suite: the copy breaks rules that the original keeps:\n"
            + "\n".join(f"- {text}" for text in worse)
        )


def _replacement_hint(
    suite: Suite, skill: Skill | None, cases: Collection[str] | None = None
) -> str:
    cases_left = [case for case in suite.cases if cases is None or case.case_id in cases]
    part = suite.model_copy(update={"cases": tuple(cases_left)})
    words = perturbation_candidates(part, skill=skill)["word"].tolist()[:_SHOWN]
    return (
        "Give replacements=; words of the prompts that are not the skill's: "
        f"{', '.join(words) or 'none'}."
    )


# Given names by their likely pronoun, so that a new name fits the pronouns in the text.
SHE = """Agnes Aisha Alice Amara Ana Anita Anna Astrid Beatriz Carla Chiara Clara Dana
Elena Elif Emma Esther Fatima Freya Greta Hana Helen Ines Ingrid Irene Jana Karin
Laila Lena Leila Lucia Maja Maria Marta Mei Mina Miriam Nadia Nina Nora Olga Paula Petra Priya
Rosa Ruth Salma Sara Selma Sofia Tara Teresa Vera Yara Yuki Zoe"""
HE = """Adam Ahmed Amir Anders Andrei Anton Arjun Ben Bjorn Boris Carlos Dario David
Diego Emil Eric Erik Felix Filip Gabriel Georg Hans Hassan Henrik Ivan Ivo Jakob James 
Jonas Karim Kenji Kofi Lars Leo Liam Luca Lukas Marco Mario Martin Mateo Miguel Nikolai
Noah Oliver Omar Oscar Otto Pablo Paul Pedro Rafael Ravi Rui Samir Sven Tariq Theo Tomas Yann"""
_INVENTED = """Alderway Birchfen Calderon Dunmere Eastvale Fennick Garrow Hollin Inverley Jasmond
Kestrow Larkmoor Marlund Nethercote Osmere Pellworth Quarrin Rookdale Silverne Tamsin Ulverton
Vintner Wexcombe Yarrowby Zelmar Ashbourn Brackley Corvane Dellmark Elmstead"""
# Names of products and languages, which stay because an answer may depend on them. The list cannot
# be complete.
_PRODUCTS = """Airflow Amazon Android Angular Ansible Apache Apple Azure Bash Cassandra Celery
Chrome Cloudflare Datadog Django Docker Elixir Erlang Excel Express Facebook Firefox
Flask Git Google Grafana Hadoop Haskell Intel Java Jenkins Jira Jupyter Kafka Kotlin
Kubernetes Lambda Linux Mac Meta Microsoft Mongo Netflix Nginx Node Oracle Perl
Postgres Prometheus Python Rails React Redis Ruby Rust Salesforce Scala Sentry Slack
Spark Spring Stripe Swift Teams Terraform Twitter Unix Vault Windows Zoom"""
# Prefixes of standards and formats. A code with such a prefix must not change.
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
_YEARS, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", rf"(?P<month>{_MONTHS})", r"(?P<day>\d{1,2})"
_FORMS = (
    re.compile(rf"(?<![\d-]){_YEARS}-(?P<month>\d\d)-(?P<day>\d\d)(?![\d-])"),
    re.compile(rf"\b{_DAY} {_MONTH},? {_YEARS}\b"),
    re.compile(rf"\b{_MONTH} {_DAY},? {_YEARS}\b"),
)
_YEAR = re.compile(r"(?<![\w.,-])(?:19|20)\d\d(?![\w-]|[.,]\d)")
_WEEKDAY = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
# A shift by 28 years keeps the day of the week within a century.
_SHIFTS = (*range(-12, -1), *range(2, 13), -28, 28)


@dataclass(frozen=True)
class Change:
    """The replacement of one word or phrase throughout the suite.

    Attributes
    ----------
    kind : str
        ``person``, ``organization``, ``code``, ``identifier``, ``date`` or ``given`` (from
        `replacements`).
    found, replaced : str
        The original and the new text.
    """

    kind: str
    found: str
    replaced: str


def word_pattern(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern for whole words or phrases, which also matches an "a" or "an" before them.

    Longer words or phrases match first.
    """
    choices = "|".join(re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w)))
    return re.compile(rf"(?<!\w)(?P<article>[Aa]n? )?(?P<word>{choices})(?!\w)")


def find_changes(
    texts: Sequence[str], *, protected: str, keep: Collection[str] = (), seed: int | str = 0
) -> list[Change]:
    """Return the automatic changes to the texts of a suite, one per word to replace."""
    random = Random(f"skillcomp:{seed}")
    whole = "\n".join(texts)
    taken = f"{whole}\n{protected}"

    def free(word: str) -> bool:
        return word not in keep and not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", protected)

    by_word: dict[str, Change] = {}
    for kind in (_name_changes, _code_changes, _identifier_changes):
        for change in kind(whole, taken, random):
            if free(change.found):
                by_word.setdefault(change.found, change)
    changes = sorted(by_word.values(), key=lambda change: whole.index(change.found))
    return changes + _date_changes(texts, protected, keep, random)


def _name_changes(whole: str, taken: str, random: Random) -> Iterator[Change]:
    used = set(re.findall(r"\w+", taken))
    for names in (SHE.split(), HE.split()):
        unused = [name for name in names if name not in used]
        random.shuffle(unused)
        present = [name for name in names if re.search(rf"\b{name}\b", whole)]
        for name, new in zip(present, unused, strict=False):
            yield Change("person", name, new)
    own_names = {*SHE.split(), *HE.split(), *_PRODUCTS.split()}
    unused = [name for name in _INVENTED.split() if name not in used]
    random.shuffle(unused)
    marked = dict.fromkeys(m for pattern in _NAMED for m in pattern.findall(whole))
    # skip the names of months and days, and words that also occur in lower case
    names = [n for n in marked if n not in own_names and n not in _MONTHS.split("|")]
    names = [name for name in names if not _WEEKDAY.fullmatch(name)]
    names = [name for name in names if not re.search(rf"\b{name.lower()}\b", taken)]
    for name, new in zip(names, unused, strict=False):
        yield Change("organization", name, new)


def _code_changes(whole: str, taken: str, random: Random) -> Iterator[Change]:
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


def _identifier_changes(whole: str, taken: str, random: Random) -> Iterator[Change]:
    declared = list(dict.fromkeys(m[1] or m[2] for m in _DECLARED.finditer(whole)))
    # keep the name and only add a prefix, because the words in the name carry meaning
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


def _date_changes(
    texts: Sequence[str], protected: str, keep: Collection[str], random: Random
) -> list[Change]:
    """Move all dates by the same number of years; return [] if that could change an answer."""
    whole = "\n".join(texts)
    written = list(dict.fromkeys(m[0] for form in _FORMS for m in form.finditer(whole)))
    rest = whole
    for form in _FORMS:
        rest = form.sub(" ", rest)
    # A year outside a date may be a plain number and cannot be moved; then move no date at all.
    if not written or _YEAR.search(rest) or any(t in protected or t in keep for t in written):
        return []
    shifts = list(_SHIFTS)
    random.shuffle(shifts)
    for years in shifts:
        if new := move_dates(written, years, same_weekday=bool(_WEEKDAY.search(whole))):
            return [Change("date", old, moved) for old, moved in zip(written, new, strict=True)]
    return []


def move_dates(
    written: Sequence[str], years: int, *, same_weekday: bool = False
) -> list[str] | None:
    """Move dates by some years; return None if this would change more than the years.

    The move must keep the days between dates, must not exchange leap years with other years and,
    with `same_weekday`, must keep the weekdays.

    Examples
    --------
    >>> move_dates(["31 March 2025", "2025-04-02"], 2)
    ['31 March 2027', '2027-04-02']
    >>> move_dates(["2024-02-20", "2024-03-05"], 1) is None
    True
    """
    try:
        before = [_parse_date(text) for text in written]
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


def _parse_date(text: str) -> date:
    months = {name: i for i, name in enumerate(_MONTHS.split("|"), start=1)}
    for form in _FORMS:
        if match := form.fullmatch(text):
            month = months.get(match["month"]) or int(match["month"])
            return date(int(match["year"]), month, int(match["day"]))
    raise ValueError(f"'{text}' is no date.")
