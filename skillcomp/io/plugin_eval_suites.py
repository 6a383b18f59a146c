"""Read the cases of ``claude plugin eval``: a folder per case with prompt.md, case.yaml, graders.

The fields come from code.claude.com/docs/en/plugin-evals, read in November 2026. A suite has many
files; they are read into one JSON text, the bundle, from which a store reads the suite back. A
grader such as ``regex``, which a program can decide, becomes a check with a `Rule`. A rubric
becomes a check that one of skillcomp's graders judges. Anything else stays in the ``extra`` of its
case and is listed in ``Suite.problems``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import regex

from skillcomp.errors import SuiteError, literal
from skillcomp.io.bounded_patterns import COMPILE_SECONDS, PatternError, PatternSearch
from skillcomp.io.files import (
    MAX_FILES,
    MAX_YAML,
    decode,
    id_problem,
    json_or_none,
    open_file,
    read_bytes,
    read_yaml,
)
from skillcomp.io.skill_creator_suites import KEPT, NOT_MAPPED
from skillcomp.io.trigger_suites import kind_of_prompt
from skillcomp.records import Case, Check, Goal, Rule, Suite

BUNDLE = "claude_plugin_eval"  # JSON with this key is recognised as a bundle
CASE_FILES = ("prompt.md", "case.yaml")
_SKIPPED = ("results", "mocks", "node_modules", "graders")
_MANIFESTS = ("plugin.json", ".claude-plugin/plugin.json")
_FOR_PEOPLE = ("schema_version", "name", "description", "tags", "expected_outcome", "plugins")
_OF_EXECUTION = ("model", "max_turns", "allowed_tools", "append_system_prompt", "env", "runs")
_COMMON = ("name", "type", "weight", "arm")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "regex": ("pattern", "flags", "match", "target"),
    "tool_used": ("tool", "input_match", "min", "max"),
    "tool_order": ("before", "after"),
    "file_exists": ("path", "exists"),
    "llm": ("criteria", "focus"),
}
_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "v": regex.VERSION1}
# with the flag y, the first match must begin at the start of the text, and each further match at
# the end of the previous match
_STICKY = "y"
_IGNORED_FLAGS = "dgu"  # These flags do not change how often a pattern occurs.
_INLINE = re.compile(r"\(\?[a-z]+\)")  # JavaScript does not allow flags such as `(?i)`.
_COUNT = re.compile(r"count:(\d{1,6})")
_TARGETS = ("last_message", "trace", "files")


def case_folders(root: Path) -> list[Path]:
    """Return the folders of all cases in ``root``, which is a case, a suite or a plugin."""
    if _is_case(root):
        return [root]
    names = ["evals"]
    for manifest in _MANIFESTS:
        content = json_or_none(root / manifest)
        own = content.get("experimental") if isinstance(content, dict) else None
        if isinstance(own, dict) and isinstance(own.get("evals"), str):
            names.insert(0, own["evals"])
    safe = (n for n in names if ".." not in PurePosixPath(n).parts and not n.startswith("/"))
    base = next((root / name for name in safe if (root / name).is_dir()), root)
    folders: list[Path] = []
    for number, folder in enumerate(sorted(base.glob("*/")) + sorted(base.glob("*/*/"))):
        if number > MAX_FILES:
            raise SuiteError(f"{base}: more than {MAX_FILES:,} folders; name the folder of cases.")
        parts = folder.relative_to(base).parts
        hidden = any(part.startswith(".") or part in _SKIPPED for part in parts)
        if not hidden and folder.is_dir() and _is_case(folder):
            folders.append(folder)
    return folders


def _is_case(folder: Path) -> bool:
    """Return whether a folder holds a case; a prompt.md alone is not enough."""
    if (folder / "prompt.md").is_file() and (folder / "graders").is_dir():
        return True
    file = folder / "case.yaml"
    if not file.is_file():
        return False
    with open_file(file, what="case", error=SuiteError) as stream:
        text = stream.read(MAX_YAML)
    return b"schema_version" in text or (folder / "prompt.md").is_file()


def bundle_of(root: Path) -> bytes | None:
    """Return the files of all cases at a path as JSON; None if there is no case."""
    folders = case_folders(root)
    if not folders:
        return None
    plugin = _plugin_of(root)
    files: dict[str, dict[str, str]] = {}
    for folder in folders:
        places = [folder / name for name in CASE_FILES if (folder / name).is_file()]
        places += sorted((folder / "graders").glob("*.md"))
        if len(places) > MAX_FILES:
            raise SuiteError(f"{folder}: {len(places):,} graders; allowed are {MAX_FILES:,}.")
        name = folder.relative_to(root).as_posix() if folder != root else folder.name
        files[name.removeprefix("evals/")] = {
            place.relative_to(folder).as_posix(): _text_of(place, root) for place in places
        }
    skills = sorted(file.parent.name for file in plugin.glob("skills/*/SKILL.md"))
    skills = [plugin.name] if (plugin / "SKILL.md").is_file() else skills
    content = {BUNDLE: files, "plugin": plugin.name, "skills": skills}
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _plugin_of(root: Path) -> Path:
    """Return the folder of the plugin that contains a path; without a plugin, the path itself."""
    for folder in (root.resolve(), *root.resolve().parents[:4]):
        if any((folder / name).is_file() for name in (*_MANIFESTS, "SKILL.md")):
            return folder
    return root.resolve()


def _text_of(place: Path, root: Path) -> str:
    options: dict[str, Any] = {"max_bytes": MAX_YAML, "what": "case file", "error": SuiteError}
    return decode(read_bytes(place, root=root, **options), place, SuiteError)


def read_bundle(
    content: Mapping[str, Any], file: Path, slug: str | None, skill: str | None
) -> Suite:
    """Turn a parsed bundle into a suite; see `skillcomp.read_suite`."""
    plugin, skills = str(content.get("plugin") or file.stem), content.get("skills") or []
    problems: list[str] = []
    if skill is None and len(skills) != 1:
        there = ", ".join(map(str, skills)) or "none"
        problems.append(f"skill: the plugin has {there}; '{plugin}' is taken. Give skill=.")
    skill = skill or (str(skills[0]) if len(skills) == 1 else plugin)
    slug = slug or plugin
    folders = content[BUNDLE]
    if not isinstance(folders, dict) or not all(isinstance(f, dict) for f in folders.values()):
        raise SuiteError(f"{file}: '{BUNDLE}' is {literal(folders)}; expected cases with files.")
    cases = [
        _CaseReader(file, name, skill, problems, is_alone=len(skills) <= 1).case(slug, files)
        for name, files in folders.items()
    ]
    ids = [case.case_id for case in cases]
    problems += [
        f"the name '{name.partition('/')[2]}' stands {ids.count(name)} times."
        for name in dict.fromkeys(ids)
        if ids.count(name) > 1
    ]
    return Suite(
        slug=slug, skill=skill, kind="plugin-eval", cases=tuple(cases), problems=tuple(problems)
    )


class _CaseReader:
    """Turn the files of one case into a record, and collect the parts unknown to skillcomp."""

    def __init__(
        self, file: Path, name: str, skill: str, problems: list[str], *, is_alone: bool
    ) -> None:
        self.file, self.name, self.skill, self.problems = file, name, skill, problems
        self.is_alone = is_alone  # whether the skill is the only one of its plugin
        self.unmapped: list[dict[str, Any]] = []

    def note(self, place: str, sentence: str) -> None:
        self.problems.append(f"{self.name}: {place}: {sentence}")

    def case(self, slug: str, files: Mapping[str, str]) -> Case:
        fields: dict[str, Any] = {}
        listed: list[Any] = []
        if "case.yaml" in files:
            fields = self.yaml("case.yaml", files["case.yaml"])
            execution = fields.pop("execution", None)
            fields |= execution if isinstance(execution, dict) else {}
            graders = fields.pop("graders", None)
            listed = graders if isinstance(graders, list) else []
        if "prompt.md" in files:
            front, body = self.split("prompt.md", files["prompt.md"])
            fields |= {**front, "prompt": body.strip()}
        checks, trigger = self.checks(listed, files)
        prompt = fields.pop("prompt", None)
        if not isinstance(prompt, str) or not prompt.strip():
            self.note("prompt", "missing or empty; there is nothing to ask.")
            prompt = ""
        ident = str(fields.get("name") or "")
        if id_problem(ident):  # a name may be a sentence
            ident = PurePosixPath(self.name).name
        extra = self.extra(fields)
        return Case(
            case_id=f"{slug}/{ident}",
            prompt=prompt,
            checks=tuple(checks),
            should_trigger=trigger,
            prompt_kind=kind_of_prompt(prompt, self.skill, trigger),
            timeout_seconds=self.seconds(fields.get("timeout_seconds")),
            extra=extra | ({"unmapped": self.unmapped} if self.unmapped else {}),
        )

    def yaml(self, name: str, text: str) -> dict[str, Any]:
        place = self.file / self.name / name
        content, _ = read_yaml(place, what="case", error=SuiteError, data=text.encode())
        return {str(key): value for key, value in content.items()}

    def split(self, name: str, text: str) -> tuple[dict[str, Any], str]:
        """Return the front matter and the body of a Markdown file."""
        head, line, body = text.removeprefix("---").partition("\n---")
        if not text.startswith("---\n") or not line:
            return {}, text
        return (self.yaml(name, head) if head.strip() else {}), body.partition("\n")[2]

    def extra(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        others = {k: v for k, v in fields.items() if k not in ("name", "timeout_seconds")}
        context = others.get("context")
        for key in context if isinstance(context, dict) else ():
            sentence = f"{NOT_MAPPED}: it changes what the agent finds; it {KEPT}."
            self.note(f"context.{key}", sentence)
        for key in others:
            if key in _OF_EXECUTION:
                self.note(key, f"{literal(others[key])} {KEPT}; a study sets it for all cases.")
            elif key not in (*_FOR_PEOPLE, "context"):
                self.note(key, f"not a known key; it {KEPT}.")
        return others

    def seconds(self, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 3600:
            return float(value)
        self.note("timeout_seconds", f"found {literal(value)}; allowed: a number up to 3600.")
        return None

    def checks(
        self, listed: list[Any], files: Mapping[str, str]
    ) -> tuple[list[Check], bool | None]:
        """Return the checks, and whether the skill should trigger (None if unknown)."""
        graders = [row if isinstance(row, dict) else {"type": row} for row in listed]
        for name, text in files.items():
            if name.startswith("graders/"):
                front, body = self.split(name, text)
                body = body.strip()
                own = {"criteria": body} if body and front.get("type") == "llm" else {}
                graders.append({**own, **front, "name": PurePosixPath(name).stem})
        checks: list[Check] = []
        triggers: set[bool] = set()
        for number, row in enumerate(graders, start=1):
            name = str(row.get("name") or f"grader-{number}")
            if (row.get("type"), row.get("tool")) == ("tool_used", "Skill"):
                expected = self.expected_trigger(row)
                triggers |= set() if expected is None else {expected}
                if expected is None or (expected and row.get("min", 1) != 1):
                    self.unmapped.append({**row, "name": name})
                    about = "a check of other skills or of a number of calls, never of the outcome"
                    self.note(f"grader {name}", f"{about}; it {KEPT}.")
                continue
            check = self.check(name, row)
            if isinstance(check, Check):
                checks.append(check)
                continue
            self.unmapped.append({**row, "name": name})
            self.note(f"grader {name}", f"{check} {NOT_MAPPED}; it {KEPT}.")
        if not checks and not triggers:
            self.note("graders", "none that can be checked; a grader has nothing to decide.")
        if len(triggers) > 1:
            self.note("graders", "the skill should trigger and should not; neither is taken.")
        return checks, triggers.pop() if len(triggers) == 1 else None

    def expected_trigger(self, row: Mapping[str, Any]) -> bool | None:
        """Return True if a grader expects use of the skill under test, False if it forbids use.

        Return None if the grader checks something else.
        """
        least, most = row.get("min", 1), row.get("max")
        pattern = row.get("input_match")
        if most == 0:  # without a pattern, `max: 0` forbids all skills, so also the one tested
            is_about = pattern is None or self.matches_skill(pattern)
            return False if is_about else None
        is_about = self.is_alone if pattern is None else self.matches_skill(pattern)
        is_count = isinstance(least, int) and least >= 1
        return True if is_about and is_count and most is None else None

    def matches_skill(self, pattern: Any) -> bool:
        if not isinstance(pattern, str):
            return False
        text = orjson.dumps({"skill": self.skill}).decode()
        try:
            return PatternSearch(COMPILE_SECONDS).occurs(pattern, text)
        except PatternError:
            return False

    def check(self, name: str, row: Mapping[str, Any]) -> Check | str:
        """Return the check for a grader, or a phrase that names what skillcomp does not support."""
        kind = str(row.get("type"))
        if kind not in _OPTIONS:
            return f"the type {literal(row.get('type'))}"
        if row.get("arm") == "with-only":
            return "a grader of the arm with the plugin only (arm: with-only)"
        settings = {key: row[key] for key in _OPTIONS[kind] if key in row}
        if fault := _fault_of(kind, settings):
            return fault
        if row.get("weight", 1) != 1:
            self.note(
                f"grader {name}", f"weight {literal(row['weight'])} {KEPT}; checks count alike."
            )
            self.unmapped.append({"name": name, "weight": row["weight"]})
        for key in row:
            if key not in (*_COMMON, *_OPTIONS[kind]):
                self.note(f"grader {name}", f"'{key}' is not a known key; it is left out.")
        if kind == "llm":
            return Check(check_id=name, description=settings["criteria"].strip())
        goal, is_negative, description = _meaning_of(kind, settings)
        return Check(
            check_id=name,
            goal=goal,
            check_kind="negative" if is_negative else "positive",
            description=description,
            rule=Rule.model_validate({"type": kind, "settings": settings}),
        )


def _fault_of(kind: str, settings: Mapping[str, Any]) -> str | None:
    """Return the part of a grader that skillcomp does not support, in words; None if none."""
    if kind == "llm":
        focus = settings.get("focus", "last_message")
        if not str(settings.get("criteria") or "").strip():
            return "a rubric without criteria"
        return None if focus == "last_message" else f"a rubric on {literal(focus)}"
    if kind == "regex":
        return _fault_of_regex(settings)
    if kind == "file_exists":
        has_path = isinstance(settings.get("path"), str) and bool(settings["path"])
        return None if has_path else f"the path {literal(settings.get('path'))}"
    if kind == "tool_used":
        whole = all(isinstance(settings.get(k, 0), int) for k in ("min", "max"))
        if not isinstance(settings.get("tool"), str) or not whole:
            return f"the setting {literal(settings)}"
        return _fault_of_pattern(settings.get("input_match"), "")
    for side in ("before", "after"):
        call = settings.get(side)
        if isinstance(call, dict) and isinstance(call.get("tool"), str):
            if fault := _fault_of_pattern(call.get("input_match"), ""):
                return fault
        elif not isinstance(call, str):
            return f"{side} {literal(call)}"
    return None


def _fault_of_regex(settings: Mapping[str, Any]) -> str | None:
    match, target = settings.get("match", "contains"), settings.get("target", "last_message")
    if match not in ("contains", "not_contains") and not _COUNT.fullmatch(str(match)):
        return f"match {literal(match)}"
    is_file = isinstance(target, dict) and target.get("source") == "file"
    if not (target in _TARGETS if isinstance(target, str) else is_file):
        return f"the target {literal(target)}"
    if is_file and not isinstance(target.get("path"), str):
        return f"the target {literal(target)}"
    if not isinstance(settings.get("pattern"), str):
        return f"the pattern {literal(settings.get('pattern'))}"
    return _fault_of_pattern(settings["pattern"], settings.get("flags", ""))


def _fault_of_pattern(pattern: Any, flags: Any) -> str | None:
    """Return why a JavaScript pattern cannot be searched for; None if it can."""
    if pattern is None:
        return None
    if not isinstance(pattern, str) or _INLINE.match(pattern):
        return f"the pattern {literal(pattern)} is no JavaScript pattern, so it"
    if not isinstance(flags, str) or set(flags) - {*_FLAGS, *_IGNORED_FLAGS, _STICKY}:
        return f"flags {literal(flags)}"
    try:
        PatternSearch(COMPILE_SECONDS).require_compiled(*python_pattern(pattern, flags))
    except PatternError as error:
        return f"the pattern {literal(pattern)} ({error})"
    return None


def python_pattern(
    pattern: str, flags: str = "", *, ascii_letters: bool = False
) -> tuple[str, int]:
    r"""Return a JavaScript pattern as a pattern and flags of the package ``regex``.

    The package reads named groups as JavaScript does. In JavaScript, ``\w``, ``\d`` and ``\b`` are
    limited to ASCII, but ``\s`` and the flag ``i`` cover all of Unicode. Here, all five are limited
    to ASCII if ``ascii_letters`` is True; otherwise all five cover Unicode.
    """
    value = regex.ASCII if ascii_letters else 0
    for flag in flags:
        value |= _FLAGS.get(flag, 0)
    return (rf"\G(?:{pattern})" if _STICKY in flags else pattern), int(value)


def _meaning_of(kind: str, settings: Mapping[str, Any]) -> tuple[Goal, bool, str]:
    """Return the goal of a mechanical check, whether it is negative, and its description."""
    if kind == "regex":
        target, match = settings.get("target", "last_message"), settings.get("match", "contains")
        place = f"the file {target['path']}" if isinstance(target, dict) else target
        goal: Goal = "process" if target == "trace" else "outcome"
        text = f"{place} {match} /{settings['pattern']}/{settings.get('flags', '')}"
        return goal, match in ("not_contains", "count:0"), text
    if kind == "tool_used":
        least, most = settings.get("min", 1), settings.get("max")
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        text = f"{limits} calls of {settings['tool']}"
        text += f" with /{settings['input_match']}/" if settings.get("input_match") else ""
        is_limit = most is not None and most > 0
        return "efficiency" if is_limit else "process", most == 0, text
    if kind == "tool_order":
        return "process", False, f"{settings['before']} before {settings['after']}"
    exists = settings.get("exists", True)
    text = f"{'a' if exists else 'no'} created file matches {settings['path']}"
    return "outcome", exists is False, text
