"""Decide the checks that have a `Rule` by an attempt's answer, trace and files, without a model.

The rules are those of the graders of ``claude plugin eval`` (code.claude.com/docs/en/plugin-evals).
If the evidence for a rule is not recorded, its result is unknown: neither a pass nor a fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import regex

from skillcomp.errors import SkillcompError, StudyError
from skillcomp.io.bounded_patterns import PatternError, PatternSearch
from skillcomp.io.event_streams import tool_calls
from skillcomp.io.files import leaves, read_bytes
from skillcomp.io.plugin_eval_suites import python_pattern
from skillcomp.live.agents.agent import Reply
from skillcomp.records import Attempt, Rule

SECONDS = 2.0  # Time limit for all patterns of an attempt together.
_MAX_FILE = 16_000_000  # Maximum size in bytes of a file in which a pattern is searched for.
_Result = tuple[bool | None, str]
_LETTER_CLASS = regex.compile(r"\\[wWdDbB]")  # In JavaScript, these know only ASCII.
_NO_FILES = "the files that the agent left are not recorded"
_NO_CALLS = "no trace of Claude Code, whose tools the check names"


class RuleChecker:
    """Applies rules to the evidence of one attempt: its answer, trace and files.

    Parameters
    ----------
    done : Attempt or Reply
        The attempt, with its answer and trace.
    files : sequence of str or None
        Names of the files that the agent created; None if unknown.
    folder : path or None
        The folder with these files; None if they are not kept.
    """

    def __init__(
        self,
        done: Attempt | Reply,
        files: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.done, self.files, self.folder = done, files, folder
        self.patterns = PatternSearch(SECONDS)

    def result_of(self, rule: Rule) -> _Result:
        """Return whether a rule passes (None if unknown), and a note."""
        decide: Callable[[Mapping[str, Any]], _Result] = getattr(self, f"_{rule.type}")
        try:
            return decide(rule.settings)
        except PatternError as error:
            return None, str(error)

    def _regex(self, settings: Mapping[str, Any]) -> _Result:
        match = settings.get("match", "contains")
        text, note = self._target_text(settings.get("target", "last_message"))
        if text is None:
            is_missing_file = note.startswith("there is no file")
            return (False if is_missing_file and match == "contains" else None), note
        expected = match.removeprefix("count:")
        results: dict[bool, str] = {}
        source, flags = settings["pattern"], settings.get("flags", "")
        is_clear = text.isascii() or not _LETTER_CLASS.search(source)
        for ascii_letters in [False] if is_clear else [False, True]:
            pattern, options = python_pattern(source, flags, ascii_letters=ascii_letters)
            n = self.patterns.count(pattern, text, options)
            passed = n == int(expected) if expected.isdigit() else (n > 0) == (match == "contains")
            results[passed] = f"{n} matches"
        if len(results) > 1:
            return None, "JavaScript may match this pattern differently next to letters like é"
        return next(iter(results.items()))

    def _target_text(self, target: Any) -> tuple[str | None, str]:
        """Return the text in which to search for a pattern, or None and the reason."""
        if target == "last_message":
            return self.done.answer, "no answer"
        if target == "trace":
            return self.done.trace, "no trace"
        if self.files is None:
            return None, _NO_FILES
        if target == "files":
            return "\n".join(self.files), ""
        name = PurePosixPath(target["path"]).as_posix()
        if leaves(name) or name not in self.files:
            return None, f"there is no file {name}"
        if self.folder is None:
            return None, _NO_FILES
        options: dict[str, Any] = {"max_bytes": _MAX_FILE, "what": "file", "error": StudyError}
        try:
            data = read_bytes(self.folder / name, root=self.folder, **options)
        except SkillcompError as error:
            return None, str(error)
        return data.decode("utf-8", "replace"), ""

    def _tool_used(self, settings: Mapping[str, Any]) -> _Result:
        calls = tool_calls(self.done.trace or "")
        if calls is None:
            return None, _NO_CALLS
        n = len(self._matching_positions(calls, settings))
        most = settings.get("max")
        return settings.get("min", 1) <= n and (most is None or n <= most), f"{n} calls"

    def _tool_order(self, settings: Mapping[str, Any]) -> _Result:
        calls = tool_calls(self.done.trace or "")
        if calls is None:
            return None, _NO_CALLS
        sides = [settings["before"], settings["after"]]
        sides = [{"tool": side} if isinstance(side, str) else side for side in sides]
        before, after = (self._matching_positions(calls, side) for side in sides)
        if not before or not after:
            return False, "one of the tools was not called"
        return before[0] < after[0], f"calls {before[0] + 1} and {after[0] + 1}"

    def _matching_positions(
        self, calls: Sequence[tuple[str, str]], settings: Mapping[str, Any]
    ) -> list[int]:
        """Return the positions of tool calls that fit the rule's ``tool`` and ``input_match``."""
        pattern, _ = python_pattern(settings.get("input_match") or "")
        return [
            position
            for position, (tool, text) in enumerate(calls)
            if tool == settings["tool"] and self.patterns.occurs(pattern, text)
        ]

    def _file_exists(self, settings: Mapping[str, Any]) -> _Result:
        if self.files is None:
            return None, _NO_FILES
        pattern = _glob_pattern(settings["path"])
        matches = [file for file in self.files if self.patterns.fits(pattern, file)]
        return bool(matches) == settings.get("exists", True), ", ".join(matches)[:200]


def _glob_pattern(glob: str) -> str:
    """Return a regular expression for a glob with ``**``, ``*``, ``?`` and ``{a,b}``."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = regex.split(r"(\*\*/|\*\*|\*|\?|\{[^{}]*\})", glob.removeprefix("./"))
    patterns = []
    for part in parts:
        if part.startswith("{") and part.endswith("}"):
            words = part[1:-1].split(",")
            patterns.append(f"(?:{'|'.join(map(_glob_pattern, words))})")
        else:
            patterns.append(signs.get(part) or regex.escape(part))
    return "".join(patterns)
