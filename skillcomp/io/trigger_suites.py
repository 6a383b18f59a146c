r"""Read prompts.csv: prompts on which a skill should trigger or should not, with their checks.

The format comes from trigger-evals.md, one of the documents that this package implements: one row
per case, in ``evals/skills/<slug>/prompts.csv``. A cell holds regular expressions separated by
``|``. To write a ``|`` inside an expression, where it means "or", escape it as ``\|``; to match the
character itself, write ``[\|]``. The program in trigger-evals.md splits at every ``|``, so a file
for both programs must not use ``\|``.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import orjson
import regex

from skillcomp.errors import SkillcompError, SuiteError, suggest
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
    bases_of,
    checked_slug,
    entry_problem,
    inside,
    leaves,
    read_bytes,
)
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
    counts = Counter(header).items()
    problems += [f"row 1, column {name}: stands {n} times." for name, n in counts if n > 1]
    bases = base_folders(file, slug)
    cases = []
    for number, ((_, end), (cells, _)) in enumerate(pairwise(rows), start=2):
        if not any(cell.strip() for cell in cells):
            continue
        place = f"row {number}" + f", line {end + 1}" * (end + 1 != number)
        if len(cells) != len(header):
            problems.append(f"{place}: {len(cells)} cells; the first row has {len(header)}.")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        ident = row.get("id", "")
        place += f" (id {ident})" if ident else ""
        cases.append(_Row(row, place, skill, bases, problems).case(slug, ident, number))
    ids = Counter(case.own_id for case in cases).items()
    problems += [f"column id: '{name}' stands {n} times." for name, n in ids if n > 1]
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

    row: Mapping[str, str]
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
        prompt = self.row.get("prompt", "")
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
        text = self.row.get(column, "")
        truth = {"true": True, "false": False}.get(text.lower())
        if truth is None and (text or needed):
            self.note(column, f"found '{text}'; allowed: true, false (in any case).")
        return truth

    def number(self, column: str, least: int) -> int | None:
        text = self.row.get(column, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and least <= int(text[:19]) and len(text) < 19):
            self.note(column, f"found '{text:.40}'; allowed: a whole number from {least}.")
            return None
        return int(text)

    def word(self, column: str, allowed: tuple[str, ...]) -> str | None:
        text = self.row.get(column, "")
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
        return [part.strip() for part in self.row.get(column, "").split(";") if part.strip()]

    def files(self) -> list[str]:
        names = self.listed("require_files")
        for name in filter(leaves, names):
            self.note("require_files", f"'{name}' leaves the working folder.")
        return [name for name in names if not leaves(name)]

    def patterns(self, column: str) -> list[str]:
        patterns = []
        for pattern in split_patterns(self.row.get(column, "")):
            try:
                PatternSearch(COMPILE_SECONDS).occurs(pattern, "", PATTERN_FLAGS)
            except PatternError as error:
                self.note(column, f"'{pattern:.80}' is no regular expression: {error}.")
            else:
                patterns.append(pattern)
        return patterns

    def schema(self) -> JsonObject:
        if not (name := self.row.get("output_schema", "")):
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
        if not (name := self.row.get("fixture", "")):
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
