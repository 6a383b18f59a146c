"""Suite out: a file in the report's shape that reads back as the same suite."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from skillcomp.errors import SuiteError
from skillcomp.io import _journal
from skillcomp.io._files import checked_slug
from skillcomp.io.suites import VOCABULARY, read_suite
from skillcomp.records import Case, Check, Suite

__all__ = ["write_suite"]

# what reading finds out about the file itself
_OF_THE_FILE = {"path", "sha256", "problems"}
_NUMBER = re.compile(r"0|[1-9]\d{0,17}")


def write_suite(suite: Suite, path: str | PathLike[str], *, overwrite: bool = False) -> Suite:
    """Write a suite as a comprehension JSON and return it as it reads back.

    Parameters
    ----------
    suite : Suite
        Its ``case_id`` all begin with its slug.
    path : str or path
        The file, named ``<slug>.json``, or a folder that is there and in which a file of that name
        is written.
    overwrite : bool, default False
        Replace a file that is there already.

    Returns
    -------
    Suite
        What `read_suite` makes of the file: equal to the suite given but for ``path``, ``sha256``
        and ``problems``, which belong to the file.

    Raises
    ------
    SuiteError
        When the file is there already, is not called like the suite, its folder is not there, or
        what would be written does not read back the same (a suite read from a file with problems
        may hold what the shape cannot carry). Nothing is written then.

    Notes
    -----
    Written in the order of the report's shape (6.1), indented, UTF-8; fields that are None are left
    out. A reader sees the old file or the new one, never half of one.
    """
    file = Path(path)
    slug = checked_slug(suite.slug, SuiteError)
    file = file / f"{slug}.json" if file.is_dir() else file
    if file.name != f"{slug}.json":
        raise SuiteError(
            f"{file}: the cases of this suite are called '{slug}/...'; expected the name "
            f"{slug}.json, from which they are read back."
        )
    if not file.parent.is_dir():
        raise SuiteError(f"{file}: there is no folder {file.parent}.")
    if file.exists() and not overwrite:
        raise SuiteError(f"{file}: is there already; give overwrite=True to replace it.")
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        data = orjson.dumps(_suite(suite), option=options)
    except orjson.JSONEncodeError as cause:
        raise SuiteError(f"{file}: cannot be written as JSON ({cause}).") from cause
    trial = file.with_name(f".{file.name}.trial")
    try:
        trial.write_bytes(data)
        back = read_suite(trial, slug=slug)
    finally:
        trial.unlink(missing_ok=True)
    if wrong := _differing(suite, back):
        raise SuiteError(
            f"{file}: would not read back the same ({', '.join(wrong)} would change); mend what "
            "the suite's problems say first."
        )
    _journal.replace(file, data)
    return read_suite(file)


def _differing(suite: Suite, back: Suite) -> list[str]:
    given, found = (one.model_dump(exclude=_OF_THE_FILE | {"cases"}) for one in (suite, back))
    wrong = [name for name in given if given[name] != found[name]]
    if len(suite.cases) != len(back.cases):
        return [*wrong, "the number of cases"]
    pairs = zip(suite.cases, back.cases, strict=True)
    return wrong + [mine.case_id for mine, other in pairs if mine != other]


def _suite(suite: Suite) -> dict[str, Any]:
    head = {
        "skill_name": suite.skill,
        "subject": suite.subject,
        "adjacent_concepts": list(suite.adjacent_concepts) or None,
        "grounding_note": suite.grounding_note,
        **suite.extra,
        "evals": [_case(case, suite.slug) for case in suite.cases],
    }
    return _given(head)


def _case(case: Case, slug: str) -> dict[str, Any]:
    odd = case.extra.get("checks", {})
    odd = odd if isinstance(odd, dict) else {}
    row: dict[str, Any] = {"id": _ident(case.case_id, slug), "prompt": case.prompt}
    row |= {key: getattr(case, key) for key in VOCABULARY}
    row |= {
        "truth_sources": list(case.truth_sources),
        "expected_behaviors": [_check(check, odd.get(check.check_id, {})) for check in case.checks]
        or None,
        "expected_reasoning": case.expected_reasoning,
        "contrast_of": None if case.contrast_of is None else _ident(case.contrast_of, slug),
        "should_trigger": case.should_trigger,
    }
    return _given(row) | {key: value for key, value in case.extra.items() if key != "checks"}


def _check(check: Check, odd: dict[str, Any]) -> dict[str, Any]:
    row = {"id": check.check_id, "kind": check.check_kind, "description": check.description}
    if check.goal != "outcome":
        row["goal"] = check.goal
    return row | odd


def _given(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


def _ident(case_id: str, slug: str) -> str | int:
    """Return the id inside the suite; a number where it is written as one."""
    ident = case_id.removeprefix(f"{slug}/")
    return int(ident) if _NUMBER.fullmatch(ident) else ident
