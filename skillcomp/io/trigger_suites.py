r"""Read prompts.csv: prompts on which a skill should trigger or should not, with their checks.

The format comes from trigger-evals.md, one of the documents that this package implements: one row
per case, in ``evals/skills/<slug>/prompts.csv``. A cell holds regular expressions separated by
``|``. To write a ``|`` inside an expression, where it means "or", escape it as ``\|``; to match the
character itself, write ``[\|]``. The program in trigger-evals.md splits at every ``|``, so a file
for both programs must not use ``\|``.

The suites of skill-creator are read here, too: ``evals/evals.json`` and sets of trigger queries.
Several tools use the same file names, so files are recognised by their content. The fields are from
``references/schemas.md`` and ``scripts/run_eval.py`` of the skill ``skill-creator`` in the
repository anthropics/skills, read in November 2026. A field or an assertion that has no counterpart
stays in the ``extra`` of its case and is listed in ``Suite.problems``.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import orjson
import regex

from skillcomp.errors import SkillcompError, SuiteError, literal, suggest
from skillcomp.io.bounded_patterns import (
    COMPILE_SECONDS,
    PatternError,
    PatternSearch,
    schema_problem,
)
from skillcomp.io.files import (
    INPUTS,
    MAX_FILES,
    JsonObject,
    as_object,
    bases_of,
    checked_slug,
    entry_problem,
    id_problem,
    inside,
    is_below,
    json_content,
    leaves,
    read_bytes,
    text_at,
)
from skillcomp.io.skills import FILE_NAME
from skillcomp.records import Case, Check, CheckKind, Goal, PromptKind, Suite

FILE = "prompts.csv"
PATTERN_FLAGS = regex.IGNORECASE | regex.MULTILINE
_LIMITS = ("max_commands", "max_input_tokens", "max_output_tokens", "max_total_tokens")
NUMBERS = {"timeout_s": 1, **dict.fromkeys(_LIMITS, 0)}
_PATTERNS = ("must_include", "must_not_include", "required_steps")
_NEEDED = ("id", "should_trigger", "prompt")
# ``kind``, ``right_skills`` and ``required_steps`` are additions of this package; the other columns
# are those of trigger-evals.md
COLUMNS = (
    *_NEEDED,
    *("sandbox", *NUMBERS, "output_schema", "judge", "require_files"),
    *("must_include", "must_not_include", "fixture", "kind", "required_steps", "right_skills"),
)
KINDS = get_args(PromptKind)
CONTROL = "control"  # Kind of a prompt that tests the detection of skill calls.
CONTROLS = "control-"  # The slug of a suite of control prompts starts with this.
# two control prompts: the first calls a skill by name, the second needs no skill
_CALL = "Use the skill ${} now. In one sentence, what is it for?"
_OTHER = "What is 7 times 8? Answer with the number only."


def read_prompts(text: str, file: Path, slug: str, skill: str) -> Suite:
    """Read the text of a prompts.csv into a suite; see `skillcomp.read_suite`.

    The ``extra`` of each case has the cells of its row by column name, converted to numbers, truth
    values and lists; ``schema`` is the content of ``output_schema`` and ``files`` lists the files
    of ``fixture``. The checks of a case follow from these values.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        # a cell can span several lines, so each row is kept with the number of its last line
        rows = [(cells, reader.line_num) for cells in reader]
    except csv.Error as cause:
        raise SuiteError(f"{file}, line {reader.line_num}: not CSV ({cause}).") from cause
    header = [name.strip() for name in rows[0][0]] if rows else []
    if lacking := [name for name in _NEEDED if name not in header]:
        other = [sign for sign in ";\t" if len(header) == 1 and sign in header[0]]
        hint = f" Write commas between the columns, not {other[0]!r}." if other else ""
        raise SuiteError(
            f"{file}: the first row has no column {', '.join(lacking)}; expected at least "
            f"{', '.join(_NEEDED)}.{hint or suggest(lacking[0], header)}"
        )
    others = [name for name in header if name not in COLUMNS]
    problems = [f"row 1, column {n}: is not a known column.{suggest(n, COLUMNS)}" for n in others]
    problems += repeats("row 1", header, "column")
    bases = base_folders(file, slug)
    cases = []
    for number, ((_, end), (cells, _)) in enumerate(pairwise(rows), start=2):
        if not any(cell.strip() for cell in cells):
            continue
        place = f"row {number}" + f", line {end + 1}" * (end + 1 != number)
        if len(cells) != len(header):
            problems.append(f"{place}: {len(cells)} cells; the first row has {len(header)}.")
        row = defaultdict(str, zip(header, map(str.strip, cells), strict=False))
        ident = row["id"]
        place += f" (id {ident})" if ident else ""
        cases.append(_Row(row, place, skill, bases, problems).case(slug, ident, number))
    problems += repeats("column id", (case.own_id for case in cases))
    if not cases:
        problems.append("there are no cases below the first row.")
    return Suite(slug=slug, skill=skill, cases=tuple(cases), problems=tuple(problems))


def control_prompts(slug: str, *, with_other: bool = True) -> str:
    """Return a prompts.csv with prompts that test whether a call of a skill is detected."""
    rows = [("control-call", "true", _CALL.format(slug), CONTROL, slug)]
    rows += [("control-other", "false", _OTHER, CONTROL, "")] if with_other else []
    stream = io.StringIO(newline="")
    head = ("id", "should_trigger", "prompt", "kind", "right_skills")
    csv.writer(stream).writerows([head, *rows])
    return stream.getvalue()


def base_folders(file: Path, slug: str) -> list[Path]:
    """Return the folders in which to look for files: the folder of the table, then the repository.

    For a suite in a store, the only folder is the one with the recorded files.
    """
    if (recorded := file.parent.parent / INPUTS / slug).is_dir() and file.parent.name == "suites":
        return [recorded]
    return bases_of(file)


@dataclass(frozen=True)
class _Row:
    """Turn one row into a case, and collect its deviations from the format."""

    row: defaultdict[str, str]  # the cells by column; empty for a column that is not there
    place: str
    skill: str
    bases: list[Path]
    problems: list[str]

    def note(self, column: str, sentence: str) -> None:
        self.problems.append(f"{self.place}, column {column}: {sentence}")

    def case(self, slug: str, ident: str, number: int) -> Case:
        if not ident:
            ident = f"row-{number}"
            self.note("id", f"is empty; '{ident}' is taken.")
        else:
            try:
                checked_slug(ident, SuiteError)  # the id becomes the name of a folder
            except SuiteError as error:
                self.note("id", str(error))
        prompt = self.row["prompt"]
        if not prompt:
            self.note("prompt", "is empty; there is nothing to ask.")
        trigger = self.truth("should_trigger", needed=True)
        extra = {
            **{name: text or None for name, text in self.row.items() if name not in COLUMNS},
            "sandbox": self.word("sandbox", ("read-only", "workspace-write")),
            **{name: self.number(name, least) for name, least in NUMBERS.items()},
            "judge": self.truth("judge"),
            "require_files": self.files(),
            **{name: self.patterns(name) for name in _PATTERNS},
            **self.schema(),
            **self.fixture(),
        }
        extra = {name: value for name, value in extra.items() if value not in (None, [])}
        kind = self.kind(trigger, prompt)
        return Case(
            case_id=f"{slug}/{ident}",
            prompt=prompt,
            should_trigger=trigger,
            prompt_kind=kind,
            right_skills=self.right_skills(trigger),
            checks=() if kind == CONTROL else checks_of(trigger, extra),
            extra=extra,
        )

    def truth(self, column: str, *, needed: bool = False) -> bool | None:
        text = self.row[column]
        truth = {"true": True, "false": False}.get(text.lower())
        if truth is None and (text or needed):
            self.note(column, f"found '{text}'; allowed: true, false (in any case).")
        return truth

    def number(self, column: str, least: int) -> int | None:
        text = self.row[column]
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and least <= int(text[:19]) and len(text) < 19):
            self.note(column, f"found '{text:.40}'; allowed: a whole number from {least}.")
            return None
        return int(text)

    def word(self, column: str, allowed: tuple[str, ...]) -> str | None:
        text = self.row[column]
        if text and text.lower() not in allowed:
            sentence = f"found '{text}'; allowed: {', '.join(allowed)}.{suggest(text, allowed)}"
            self.note(column, sentence)
            return None
        return text.lower() or None

    def kind(self, trigger: bool | None, prompt: str) -> Any:
        kind = self.word("kind", KINDS)
        if kind not in (None, CONTROL) and trigger is not None and (kind == "negative") == trigger:
            self.note("kind", f"found '{kind}', but should_trigger is {str(trigger).lower()}.")
            kind = None
        return kind or kind_of_prompt(prompt, self.skill, trigger)

    def right_skills(self, trigger: bool | None) -> tuple[str, ...] | None:
        """Return the skills that should trigger; None if unknown or in conflict with `trigger`."""
        if "right_skills" not in self.row:
            return None
        slugs = tuple(dict.fromkeys(self.listed("right_skills")))
        if trigger is not None and (self.skill in slugs) != trigger:
            sentence = f"found '{'; '.join(slugs)}', but should_trigger is {str(trigger).lower()}."
            self.note("right_skills", sentence)
            return None
        return slugs

    def listed(self, column: str) -> list[str]:
        return [part.strip() for part in self.row[column].split(";") if part.strip()]

    def files(self) -> list[str]:
        names = self.listed("require_files")
        for name in filter(leaves, names):
            self.note("require_files", f"'{name}' leaves the working folder.")
        return [name for name in names if not leaves(name)]

    def patterns(self, column: str) -> list[str]:
        patterns = []
        for pattern in split_patterns(self.row[column]):
            try:
                PatternSearch(COMPILE_SECONDS).occurs(pattern, "", PATTERN_FLAGS)
            except PatternError as error:
                self.note(column, f"'{pattern:.80}' is no regular expression: {error}.")
            else:
                patterns.append(pattern)
        return patterns

    def schema(self) -> JsonObject:
        if not (name := self.row["output_schema"]):
            return {}
        place = inside(name, self.bases)
        fault = f"there is no file '{name}' in {_base_names(self.bases)}"
        if place is not None and place.is_file():
            try:
                root, what = place.parent, "JSON Schema"
                data = read_bytes(place, root=root, max_bytes=1 << 20, what=what, error=SuiteError)
                content = orjson.loads(data)
                why = schema_problem(content) if isinstance(content, dict) else "not an object"
                if not why:
                    return {"output_schema": name, "schema": content}
                fault = f"'{name}' is no JSON Schema ({why})"
            except (SkillcompError, orjson.JSONDecodeError) as cause:
                fault = f"'{name}' cannot be read as JSON ({cause})"
        self.note("output_schema", f"{fault}.")
        return {}

    def fixture(self) -> JsonObject:
        if not (name := self.row["fixture"]):
            return {}
        place = inside(name, self.bases[:1])
        if place is None:
            self.note("fixture", f"there is nothing at '{name}' in {_base_names(self.bases[:1])}.")
            return {}
        files = []
        for file in [place, *sorted(place.rglob("*"))]:
            if problem := entry_problem(file, self.bases[0]):
                self.note("fixture", f"{problem}.")
                return {}
            if file.is_file():
                files.append(file.relative_to(self.bases[0]).as_posix())
            if len(files) > MAX_FILES:
                self.note("fixture", f"'{name}' holds more than {MAX_FILES:,} files.")
                return {}
        return {"fixture": name, "files": files}


def _base_names(bases: list[Path]) -> str:
    return " or ".join(f"'{base.name}/'" for base in bases)


def split_patterns(cell: str) -> list[str]:
    r"""Split a cell into patterns at ``|``; ``\|`` is a ``|`` inside a pattern.

    Examples
    --------
    >>> split_patterns(r"base rate|a\|b| ")
    ['base rate', 'a|b']
    """
    parts = regex.split(r"(?<!\\)(?:\\\\)*\K\|", cell)
    return [part.replace("\\|", "|").strip() for part in parts if part.strip()]


def kind_of_prompt(prompt: str, skill: str, should_trigger: bool | None) -> PromptKind | None:
    """Return the kind of a prompt; None if it is not known whether the skill should trigger.

    A prompt is negative if the skill should not trigger, explicit if it should trigger and the
    prompt names ``$skill``, and implicit otherwise.

    Examples
    --------
    >>> kind_of_prompt("Use $tides, please", "tides", True), kind_of_prompt("When?", "tides", True)
    ('explicit', 'implicit')
    """
    if should_trigger is None:
        return None
    if not should_trigger:
        return "negative"
    match = regex.search(rf"\${regex.escape(skill)}(?![\w-])", prompt, regex.IGNORECASE)
    return "explicit" if match else "implicit"


def checks_of(trigger: bool | None, extra: JsonObject) -> tuple[Check, ...]:
    """Return the checks of a case, with the goal of each.

    Every case checks that the program ended with exit code 0, wrote a final message and did not
    repeat commands in a loop. Whether the skill was invoked is checked if ``should_trigger`` is
    known. Each other check exists only if its column has a value.
    """
    checks = [
        _as_check("exit_code", "outcome", "the program ends with exit code 0, in time"),
        _as_check("final_message", "outcome", "there is a final message"),
        _as_check("thrashing", "efficiency", "no command three times running, and no loop of them"),
    ]
    if trigger is not None:
        checks.append(trigger_check(trigger))
    limits = [name for name in _LIMITS if name in extra]
    checks += [_as_check(name, "efficiency", f"{name} {extra[name]}") for name in limits]
    if "schema" in extra:
        checks.append(_as_check("output_schema", "style", str(extra["output_schema"])))
        if trigger is not None and "invoked_skills" in extra["schema"].get("properties", {}):
            text = f"invoked_skills {'names' if trigger else 'does not name'} the skill"
            sign: CheckKind = "positive" if trigger else "negative"
            checks.append(_as_check("invoked_skills", "process", text, sign))
    several: tuple[tuple[str, Goal, CheckKind], ...] = (
        ("require_files", "outcome", "positive"),
        ("must_include", "outcome", "positive"),
        ("must_not_include", "style", "negative"),
    )
    for name, goal, kind in several:
        for number, text in enumerate(extra.get(name, ()), start=1):
            checks.append(_as_check(f"{name}-{number}", goal, text, kind))
    if "required_steps" in extra:
        steps = " then ".join(extra["required_steps"])
        checks.append(_as_check("required_steps", "process", steps))
    return tuple(checks)


def trigger_check(should_trigger: bool) -> Check:
    """Return the check that the skill is invoked or, if it should not trigger, is not invoked."""
    if should_trigger:
        return _as_check("trigger", "process", "the skill is invoked")
    return _as_check("trigger", "outcome", "the skill is not invoked", "negative")


def _as_check(check_id: str, goal: Goal, description: str, kind: CheckKind = "positive") -> Check:
    return Check(check_id=check_id, goal=goal, check_kind=kind, description=description)


# folders in which repositories keep the trigger prompts of a skill; SKILL stands for its folder
PLACES = (
    *("evals/skills/SKILL", "evals/SKILL", "skills/SKILL/evals", "skills/SKILL"),
    *("SKILL/evals", "SKILL", "plugins/*/skills/SKILL/evals", "plugins/*/evals/SKILL"),
)
_MARKS = ("expectations", "assertions", "expected_output")
_COMPREHENSION = ("expected_behaviors", "comprehension_dimension", "concept_field", "truth_sources")
_KEYS = ("id", "prompt", "files", "expectations", "assertions", "should_trigger")
_PROSE = ("expected_output", "name", "slug", "eval_name", "description", "category", "tags")
# keys that other tools add to this format; each changes the question or the grading
_OTHERS = (
    *("turns", "responder", "codebase", "files_root", "isolation", "tools", "tool_choice"),
    *("tool_assertions", "params", "setup_files", "force_skill_invocation", "stage_files"),
    *("side_effect_level", "side_effect_contract", "forbidden_behaviors"),
)
_TEXTS = ("rubric", "text", "description", "assertion", "expectation", "name")
_JUDGED = (None, "llm_judge", "llm-judge", "llm")
_OF_QUERY = ("id", "category", "reason", "expected_skill", "name", "notes")
# phrases in the sentences of ``Suite.problems``; from them, `skillcomp check` infers how severe a
# problem is
NOT_MAPPED = "has no counterpart and is not checked"
KEPT = "is kept in extra"


def is_evals(content: Any) -> bool:
    """Return whether parsed JSON has the shape of skill-creator's evals.json."""
    rows = _rows_of(content, "evals")
    keys = {key for row in rows for key in row}
    return bool(rows) and bool(keys & {*_MARKS}) and not keys & {*_COMPREHENSION}


def is_trigger_set(content: Any) -> bool:
    """Return whether parsed JSON lists queries (``query``) with ``should_trigger``."""
    rows = _rows_of(content, "queries")
    is_set = bool(rows) and all("query" in row for row in rows) and "should_trigger" in rows[0]
    return is_set and not rows[0].keys() & {"triggers", "runs"}  # these are results


def trigger_set_in(folder: Path) -> Path | None:
    """Return the first JSON file of a folder that is a set of trigger queries, or None.

    Files with names that begin with "trigger" come first.
    """
    files = sorted(folder.glob("*.json"), key=lambda f: (not f.name.startswith("trigger"), f.name))
    for file in files:
        if is_trigger_set(json_content(file, folder)):
            return file
    return None


def prompts_by_skill(root: Path) -> dict[str, Path]:
    """Return the trigger prompts of each skill below a folder, from the first place that has any.

    The places are PLACES; a place holds a prompts.csv or a JSON set of trigger queries.
    """
    found: dict[str, Path] = {}
    for place in PLACES:
        at = place.split("/").index("SKILL")
        for folder in sorted(root.glob(f"{place.replace('SKILL', '*')}/")):
            table = folder / FILE
            file = table if table.is_file() else trigger_set_in(folder)
            slug = folder.relative_to(root).parts[at]
            if file is not None and is_below(file, root) and slug not in ("evals", "skills"):
                found.setdefault(slug, file)
    if (root / FILE_NAME).is_file() and (file := trigger_set_in(root / "evals")) is not None:
        found.setdefault(root.resolve().name, file)  # the repository is a skill
    return found


def suites_of_skill(folder: Path) -> list[Path]:
    """Return the suite files in the folder ``evals`` of a skill; `folder` is the skill's folder."""
    evals = folder / "evals"
    files = [evals / "evals.json", trigger_set_in(evals)]
    return [file for file in files if file is not None and file.is_file()]


def _rows_of(content: Any, key: str) -> list[JsonObject]:
    rows = content.get(key) if isinstance(content, dict) else content
    is_listed = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return rows if is_listed and rows is not None else []


def read_listed(
    content: Any, file: Path, slug: str | None, skill: str | None, *, is_set: bool
) -> Suite:
    """Turn a parsed evals.json, or set of trigger queries, into a suite; see `read_suite`."""
    top, key = as_object(content), "queries" if is_set else "evals"
    if not skill:
        # the name in the file, else that of the folder above `evals`, else the stem of the file
        name, folder = top.get("skill_name"), file.resolve().parent
        skill = name.strip() if isinstance(name, str) else ""
        skill = skill or (folder.parent.name if folder.name == "evals" else file.stem)
    slug = slug or skill + "-triggers" * is_set
    reader = _Reader(slug, skill, base_folders(file, slug))
    extra = reader.others(top, ("skill_name", key), "", sentence=KEPT)
    read = reader.query if is_set else reader.case
    cases = tuple(read(row, number) for number, row in enumerate(_rows_of(content, key)))
    if is_set:
        reader.problems += repeats(key, (case.prompt for case in cases), "query")
    reader.problems += repeats(key, (case.own_id for case in cases))
    return Suite(
        slug=slug,
        skill=skill,
        kind="trigger-set" if is_set else "skill-creator",
        cases=cases,
        extra=extra,
        problems=tuple(reader.problems),
    )


def repeats(place: str, names: Iterable[str], what: str = "id") -> list[str]:
    """Return a problem for each name that occurs more than once."""
    counts = Counter(names).items()
    return [f"{place}: the {what} '{name:.60}' stands {n} times." for name, n in counts if n > 1]


class SuiteReader:
    """Base class of the readers of a suite, which collect deviations from the format."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.problems: list[str] = []

    def note(self, place: str, sentence: str) -> None:
        """Add a problem; `place` is empty for a problem of the whole suite."""
        self.problems.append(f"{place}: {sentence}" if place else sentence)

    def trigger(self, row: JsonObject, place: str, key: str = "should_trigger") -> bool | None:
        """Return whether the skill should trigger; None if it is unknown, or no truth value."""
        value = row.get(key)
        if not isinstance(value, bool | None):
            self.note(place, f"{key}: found {literal(value)}; allowed: true, false.")
            return None
        return value

    def text(self, row: JsonObject, key: str, place: str) -> str | None:
        """Return the text at a key; None if there is none, or no text."""
        value = row.get(key)
        if value is None or isinstance(value, str):
            return value
        self.note(place, f"{key}: found {literal(value)}; expected text.")
        return str(value) if isinstance(value, int | float) else None

    def prompt(self, row: JsonObject, place: str, key: str = "prompt") -> str:
        """Return the prompt of a case; report a prompt that asks nothing."""
        prompt = self.text(row, key, place) or ""
        if not prompt.strip():
            self.note(place, f"{key}: missing or empty; there is nothing to ask.")
        return prompt

    def items(self, row: JsonObject, key: str, place: str) -> list[Any]:
        """Return the entries of the list at a key; none if there is no list."""
        value = row.get(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self.note(place, f"{key}: found {literal(value)}; expected a list.")
        return []

    def others(
        self,
        row: JsonObject,
        keys: Sequence[str],
        place: str,
        unnoted: Iterable[str] = (),
        sentence: str = "is not a known key",
    ) -> JsonObject:
        """Return the entries with unknown keys; report each such key unless it is in `unnoted`."""
        others = {key: value for key, value in row.items() if key not in keys}
        for key in (key for key in others if key not in unnoted):
            self.note(place, f"'{key}' {sentence}.{suggest(key, keys)}")
        return others


class _Reader(SuiteReader):
    """Turn the rows of a file into cases, and collect the parts unknown to skillcomp."""

    def __init__(self, slug: str, skill: str, bases: list[Path]) -> None:
        super().__init__(slug)
        self.skill, self.bases = skill, bases

    def ident(self, row: JsonObject, fields: Sequence[str], otherwise: str) -> str:
        return next(filter(None, (text_at(row, field) for field in fields)), otherwise)

    def case(self, row: JsonObject, number: int) -> Case:
        ident, otherwise = self.ident(row, ("id",), ""), f"case-{number + 1}"
        if not ident:
            ident = self.ident(row, ("eval_name", "name", "slug"), otherwise)
            ident = otherwise if id_problem(ident) else ident  # a name may be a sentence
        place = f"evals[{number}] (id {ident})"
        prompt = self.prompt(row, place)
        trigger_key = "skill_should_trigger" if "skill_should_trigger" in row else "should_trigger"
        checks, unmapped = self.checks(row, place)
        extra = self.others(row, (*_KEYS, trigger_key), place, (*_PROSE, *_OTHERS), KEPT)
        for key in (key for key in extra if key in _OTHERS):
            self.note(place, f"'{key}' {NOT_MAPPED}; it {KEPT}.")
        names = self.files(row, place)
        extra |= {"files": names} if names else {}
        extra |= {"unmapped": unmapped} if unmapped else {}
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt,
            checks=checks,
            should_trigger=self.trigger(row, place, trigger_key),
            extra=extra,
        )

    def checks(self, row: JsonObject, place: str) -> tuple[tuple[Check, ...], list[JsonObject]]:
        """Return the checks that a grader can judge, and the expectations that have no check."""
        unmapped = []
        key = "expectations" if row.get("expectations") else "assertions"
        if key == "expectations" and row.get("assertions"):
            both = f"'assertions' {NOT_MAPPED}, since there are expectations too; it {KEPT}."
            self.note(place, both)
            unmapped.append({"assertions": row["assertions"]})
        listed = self.items(row, key, place)
        if not listed:
            expected = "expected_output is prose for people" if row.get("expected_output") else ""
            sentence = "no expectations; a grader has nothing to decide."
            self.note(place, f"{sentence} {expected}".strip())
        checks = []
        for number, item in enumerate(listed, start=1):
            check = self.check(item, number)
            if check is not None:
                checks.append(check)
                continue
            unmapped.append(item if isinstance(item, dict) else {key: item})
            kind = as_object(item).get("type")
            what = f"the type '{kind}'" if kind else literal(item)
            self.note(f"{place}: {key}[{number - 1}]", f"{what} {NOT_MAPPED}; it {KEPT}.")
        self.problems += repeats(f"{place}: {key}", [check.check_id for check in checks])
        return tuple(checks), unmapped

    def check(self, item: Any, number: int) -> Check | None:
        """Return the check for an expectation; None if a grader cannot judge it."""
        row = {"text": item} if isinstance(item, str) else item
        if not isinstance(row, dict) or row.get("type") not in _JUDGED:
            return None
        texts = (row.get(key) for key in _TEXTS)
        text = next((text for text in texts if isinstance(text, str) and text.strip()), None)
        if text is None:
            return None
        fields = ("id",) if text == row.get("name") else ("id", "name")
        return Check(check_id=self.ident(row, fields, f"expectation-{number}"), description=text)

    def files(self, row: JsonObject, place: str) -> list[str]:
        """Return the names of a case's files; a folder is replaced by its files."""
        names = []
        for name in self.items(row, "files", place):
            at = inside(name, self.bases) if isinstance(name, str) else None
            if at is None:
                self.note(place, f"files: there is no file {literal(name)} in the skill's folder.")
                continue
            if at.is_dir():
                names += [
                    f"{name.rstrip('/')}/{file.relative_to(at).as_posix()}"
                    for file in sorted(at.rglob("*"))
                    if file.is_file() and is_below(file, self.bases[-1])
                ]
            else:
                names.append(name)
        if len(names) > MAX_FILES:
            raise SuiteError(f"{place}: {len(names):,} files; allowed are {MAX_FILES:,}.")
        return names

    def query(self, row: JsonObject, number: int) -> Case:
        ident = self.ident(row, ("id",), f"query-{number + 1}")
        place = f"queries[{number}] (id {ident})"
        prompt = self.prompt(row, place, "query")
        trigger = self.trigger(row, place)
        if row.get("should_trigger") is None:
            self.note(place, "should_trigger: missing; allowed: true, false.")
        right = row.get("expected_skill")
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt,
            checks=() if trigger is None else (trigger_check(trigger),),
            should_trigger=trigger,
            prompt_kind=kind_of_prompt(prompt, self.skill, trigger),
            right_skills=(right,) if isinstance(right, str) and right else None,
            extra=self.others(row, ("query", "should_trigger"), place, _OF_QUERY, KEPT),
        )
