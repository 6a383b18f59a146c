"""Comprehension JSON in, Suite out: every field of the source report, deviations listed.

The vocabulary is that of the source report (2.1 and 6.1). Public files use other words as well;
these are kept, listed in ``Suite.problems`` and, where a published schema knows them, explained.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from skillcomp.errors import SuiteError, suggest
from skillcomp.io._files import decode, digest, read_bytes, shown
from skillcomp.records import CONCEPT_FIELDS, DIMENSIONS, Case, Check, Suite

MAX_BYTES = 1 << 24  # 16 MiB: thousands of cases

# closed vocabularies of the source report, field by field
VOCABULARY: Mapping[str, tuple[str, ...]] = {
    "dimension": (
        "definition",
        "mental_model",
        "purpose",
        "boundary",
        "application",
        "rule_conflict",
        "anti_pattern",
    ),
    "comprehension_dimension": DIMENSIONS,
    "concept_field": CONCEPT_FIELDS,
    "transfer": ("near", "far"),
    "substance": ("domain", "contradiction-check"),
    "calibration": ("semantic", "process"),
    "truth_mode": (
        "code_verification",
        "conceptual_correctness_plus_repo_application",
        "process_correctness",
    ),
    "skill_type": ("concept", "workflow"),
    "criticality": ("normal", "high", "critical"),
}
# words outside the report that public files or the later comprehension schema use on purpose
ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "dimension": ("taxonomy", "analogy", "misconception"),
    "substance": ("concept", "procedure", "boundary"),
    "calibration": ("exact-match", "structural"),
    "truth_mode": (
        "output_correctness",
        "conceptual_correctness",
        "spec_grounded",
        "principle_grounded",
    ),
    "skill_type": ("procedure", "router", "overlay"),
    "criticality": ("low", "medium"),
}
_KINDS = ("positive", "negative")
_GOALS = ("outcome", "process", "style", "efficiency")
# "required, de facto" in the report; the extensions are optional there
_EXPECTED = (
    "dimension",
    "substance",
    "calibration",
    "truth_mode",
    "skill_type",
    "criticality",
    "truth_sources",
)
_CASE_KEYS = (
    "id",
    "prompt",
    *VOCABULARY,
    "truth_sources",
    "expected_reasoning",
    "expected_behaviors",
    "contrast_of",
    "should_trigger",
)
_SUITE_KEYS = ("skill_name", "subject", "adjacent_concepts", "grounding_note")
# what skillcomp itself writes beside the report's keys; it stands in ``extra``
_OURS = ("perturbation",)
_CASE_OURS = ("gold_answers",)  # answers with known verdicts: skillcomp.live.gold
_CHECK_KEYS = ("id", "kind", "description", "goal")
_ROUTING = "routing_cases"


def read_suite(
    path: str | PathLike[str], *, strict: bool = False, slug: str | None = None
) -> Suite:
    """Read one comprehension suite: its cases, their checks, and every deviation.

    Parameters
    ----------
    path : str or path
        A JSON file with ``skill_name`` and ``evals`` (or ``routing_cases``).
    strict : bool, default False
        Raise one error that lists every problem instead of keeping them in ``problems``.
    slug : str, optional
        The first half of every ``case_id``; the file's stem when not given. Give it for files that
        are all called ``comprehension.json``.

    Returns
    -------
    Suite
        Cases in file order with ``case_id`` = ``slug/id``, the id as in the file; ``contrast_of``
        is a full case_id as well. Words outside the report's vocabulary are kept in their field,
        unknown keys in ``extra``, and both are listed in ``problems``: the place, what was found,
        what is allowed, the nearest match. A behaviour of unknown kind counts as positive; what its
        check cannot hold stands in the case's ``extra`` under ``checks``, by check id.

    Raises
    ------
    SuiteError
        If the file is missing, larger than 16 MiB, not JSON (with the line), or has no list of
        cases; with ``strict`` also if there is any problem, all in one message.

    Notes
    -----
    Ids that stand twice and check ids that stand twice in a case are problems; the cases are kept
    as they are, and the frames refuse them. A file of ``routing_cases`` asks a router and not an
    agent: its cases are read with their description as prompt and no checks.
    """
    file = Path(path)
    data = read_bytes(
        file, root=file.parent, max_bytes=MAX_BYTES, what="suite (JSON)", error=SuiteError
    )
    problems: list[str] = []
    content = _load(decode(data, file, SuiteError), file, problems)
    suite = (
        _Reader(slug or file.stem, problems)
        .suite(content, file)
        .model_copy(update={"sha256": digest(data), "path": shown(file)})
    )
    if strict and suite.problems:
        many = "1 problem" if len(suite.problems) == 1 else f"{len(suite.problems)} problems"
        listed = "\n".join(f"- {problem}" for problem in suite.problems)
        raise SuiteError(f"{shown(file)}, {many}:\n{listed}")
    return suite


def _load(text: str, file: Path, problems: list[str]) -> dict[str, Any]:
    try:
        orjson.loads(text)  # also refuses NaN, lone surrogates and bottomless nesting
    except orjson.JSONDecodeError as cause:
        raise SuiteError(
            f"{file}, line {cause.lineno}, column {cause.colno}: not JSON ({cause.msg})."
        ) from cause

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, n in Counter(key for key, _ in items).items():
            if n > 1:
                problems.append(f"the key '{key}' stands {n} times in one object; the last counts.")
        return dict(items)

    content = json.loads(text, object_pairs_hook=pairs)
    if not isinstance(content, dict):
        raise SuiteError(
            f"{file}: the JSON holds {_kind(content)}; expected an object with 'evals'."
        )
    return content


class _Reader:
    """Turns the parsed file into records and collects what deviates."""

    def __init__(self, slug: str, problems: list[str]) -> None:
        self.slug = slug
        self.problems = problems

    def suite(self, content: dict[str, Any], file: Path) -> Suite:
        key = _ROUTING if "evals" not in content and _ROUTING in content else "evals"
        rows = content.get(key)
        if not isinstance(rows, list):
            found = f"'evals' is {_kind(rows)}" if "evals" in content else "'evals' is missing"
            raise SuiteError(f"{file}: {found}; expected a list of cases.{suggest(key, content)}")
        if key == _ROUTING:
            self.problems.append(
                f"{_ROUTING}: these cases ask a router, not an agent; they are read without checks."
            )
        elif not rows:
            self.problems.append("evals: the list is empty.")
        cases = [self.case(row, f"{key}[{i}]", i, key == _ROUTING) for i, row in enumerate(rows)]
        self.references(cases, key)
        skill = self.text(content, "skill_name", "")
        if skill is None:
            self.problems.append(f"skill_name: missing; '{self.slug}' is taken.")
        return Suite(
            slug=self.slug,
            skill=skill or self.slug,
            cases=tuple(cases),
            subject=self.text(content, "subject", ""),
            adjacent_concepts=self.texts(content, "adjacent_concepts", ""),
            grounding_note=self.text(content, "grounding_note", ""),
            extra=self.extra(content, (*_SUITE_KEYS, key), "", quiet=key == _ROUTING, kept=_OURS),
            problems=tuple(self.problems),
        )

    def case(self, row: Any, place: str, index: int, routing: bool) -> Case:
        if not isinstance(row, dict):
            self.problems.append(f"{place}: {_kind(row)}; expected an object.")
            row = {}
        ident = self.ident(row.get("id"), place, index)
        place = f"{place} (id {ident})"
        if routing:
            row = {"prompt": row.get("description"), **row}
        elif missing := [key for key in _EXPECTED if key not in row]:
            self.problems.append(f"{place}: missing {', '.join(missing)}.")
        prompt = self.text(row, "prompt", place)
        if not (prompt or "").strip():
            self.problems.append(f"{place}: prompt: missing or empty; there is nothing to ask.")
        words = {key: self.word(row, key, place) for key in VOCABULARY}
        self.pairing(words, place)
        checks, odd = self.checks(row, place)
        extra = self.extra(row, _CASE_KEYS, place, quiet=routing, kept=_CASE_OURS)
        trigger = row.get("should_trigger")
        if not isinstance(trigger, bool | None):
            self.problems.append(
                f"{place}: should_trigger: found {trigger!r}; allowed: true, false."
            )
            trigger = None
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt or "",
            checks=checks,
            truth_sources=self.texts(row, "truth_sources", place),
            expected_reasoning=self.text(row, "expected_reasoning", place),
            contrast_of=self.contrast(row.get("contrast_of"), place),
            should_trigger=trigger,
            extra={**extra, "checks": odd} if odd else extra,
            **words,
        )

    def ident(self, value: Any, place: str, index: int) -> str:
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        self.problems.append(
            f"{place}: id: found {value!r}; expected a number or text; 'case-{index + 1}' is taken."
        )
        return f"case-{index + 1}"

    def contrast(self, value: Any, place: str) -> str | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.problems.append(f"{place}: contrast_of: found {value!r}; expected an id.")
            return None
        full = str(value).startswith(f"{self.slug}/")
        return str(value) if full else f"{self.slug}/{value}"

    def references(self, cases: list[Case], key: str) -> None:
        ids = Counter(case.case_id for case in cases)
        for case_id, n in ids.items():
            if n > 1:
                self.problems.append(
                    f"{key}: the id '{case_id.split('/', 1)[1]}' stands {n} times."
                )
        for i, case in enumerate(cases):
            twin = case.contrast_of
            if twin is not None and (twin not in ids or twin == case.case_id):
                what = "the case itself" if twin == case.case_id else "no case of this suite"
                self.problems.append(
                    f"{key}[{i}] (id {case.case_id.split('/', 1)[1]}): contrast_of: "
                    f"'{twin}' is {what}."
                )

    def word(self, row: dict[str, Any], key: str, place: str) -> str | None:
        value = self.text(row, key, place)
        if value is None or value in VOCABULARY[key]:
            return value
        allowed = ", ".join(VOCABULARY[key])
        hint = (
            " A word of other published files, kept."
            if value in ELSEWHERE.get(key, ())
            else suggest(value, VOCABULARY[key])
        )
        self.problems.append(f"{place}: {key}: found '{value}'; allowed: {allowed}.{hint}")
        return value

    def pairing(self, words: Mapping[str, str | None], place: str) -> None:
        """C1 to C7 each ask about one concept field; C8 and C9 about none."""
        dimension, field = words["comprehension_dimension"], words["concept_field"]
        fields = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
        if dimension in fields and field in CONCEPT_FIELDS and field != fields[dimension]:
            self.problems.append(
                f"{place}: concept_field: found '{field}'; {dimension} asks about "
                f"'{fields[dimension]}'."
            )

    def checks(self, row: dict[str, Any], place: str) -> tuple[tuple[Check, ...], dict[str, Any]]:
        listed = row.get("expected_behaviors")
        if listed is None:
            return (), {}
        if not isinstance(listed, list):
            self.problems.append(f"{place}: expected_behaviors: {_kind(listed)}; expected a list.")
            return (), {}
        checks: list[Check] = []
        odd: dict[str, Any] = {}
        for i, item in enumerate(listed):
            spot = f"{place}: expected_behaviors[{i}]"
            check, others = self.check(item, spot, i)
            checks.append(check)
            if others:
                odd[check.check_id] = others
        for check_id, n in Counter(check.check_id for check in checks).items():
            if n > 1:
                self.problems.append(
                    f"{place}: expected_behaviors: the id '{check_id}' stands {n} times."
                )
        return tuple(checks), odd

    def check(self, item: Any, place: str, index: int) -> tuple[Check, dict[str, Any]]:
        if isinstance(item, str):
            self.problems.append(f"{place}: plain text; expected an object with id and kind.")
            return Check(check_id=f"behavior-{index + 1}", description=item), {}
        if not isinstance(item, dict):
            self.problems.append(f"{place}: {_kind(item)}; expected an object.")
            item = {}
        ident = item.get("id")
        if not isinstance(ident, str) or not ident.strip():
            self.problems.append(
                f"{place}: id: found {ident!r}; expected text; 'behavior-{index + 1}' is taken."
            )
            ident = f"behavior-{index + 1}"
        kind, goal = item.get("kind"), item.get("goal", "outcome")
        if kind not in _KINDS:
            self.problems.append(
                f"{place} ({ident}): kind: found {kind!r}; allowed: positive, negative; taken as "
                f"positive.{suggest(str(kind), _KINDS)}"
            )
        if goal not in _GOALS:
            self.problems.append(
                f"{place} ({ident}): goal: found {goal!r}; allowed: {', '.join(_GOALS)}; taken as "
                f"outcome.{suggest(str(goal), _GOALS)}"
            )
        odd = self.extra(item, _CHECK_KEYS, f"{place} ({ident})")
        odd |= {"kind": kind} if kind is not None and kind not in _KINDS else {}
        odd |= {"goal": goal} if goal not in _GOALS else {}
        check = Check(
            check_id=ident,
            check_kind=kind if kind in _KINDS else "positive",
            goal=goal if goal in _GOALS else "outcome",
            description=self.text(item, "description", f"{place} ({ident})") or "",
        )
        return check, odd

    def text(self, row: dict[str, Any], key: str, place: str) -> str | None:
        value = row.get(key)
        if value is None or isinstance(value, str):
            return value
        self.problems.append(_at(place, f"{key}: found {_short(value)}; expected text."))
        return str(value) if isinstance(value, int | float) else None

    def texts(self, row: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
        value = row.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        self.problems.append(_at(place, f"{key}: found {_short(value)}; expected a list of texts."))
        items = value if isinstance(value, list) else [value]
        return tuple(one for one in items if isinstance(one, str))

    def extra(
        self,
        row: dict[str, Any],
        known: Iterable[str],
        place: str,
        *,
        quiet: bool = False,
        kept: Iterable[str] = (),
    ) -> dict[str, Any]:
        known = tuple(known)
        others = {key: value for key, value in row.items() if key not in known}
        for key in (key for key in others if not quiet and key not in kept):
            self.problems.append(_at(place, f"'{key}' is not a known key.{suggest(key, known)}"))
        return others


def _at(place: str, sentence: str) -> str:
    return f"{place}: {sentence}" if place else sentence


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")
