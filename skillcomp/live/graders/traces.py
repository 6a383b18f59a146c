"""What can be checked of an answer and its trace without a model: the checks of a trigger suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import regex

from skillcomp.io.commands import opens_skill, thrashing, unwrapped
from skillcomp.io.prompts import PATTERN_FLAGS
from skillcomp.io.traces import Trace, read_trace
from skillcomp.live.agents.kept import left_in
from skillcomp.live.agents.reply import TIME_LIMIT, Reply, short_hash
from skillcomp.live.graders.comprehension import Grading
from skillcomp.records import Attempt, Case, Check, Skill, Verdict

RULES = "1"  # of the checks below; another number makes another version
SECONDS = 2.0  # that one pattern may take on one text
_Found = tuple[bool | None, str]
Done = Attempt | Reply


@dataclass(frozen=True)
class Checked:
    """What a check found: passed, failed, or None where it cannot be told, and why."""

    check: Check
    passed: bool | None
    note: str


def is_gradable(done: Done) -> bool:
    """Return whether there is something to grade: an answer, or a case that took too long.

    All else (a quota, a broken line, a refusal, another limit) says nothing of a skill.
    """
    return done.status == "ok" or done.stop_reason == TIME_LIMIT


def grade_trace(
    done: Done, case: Case, skill: str, files: Sequence[str] | None
) -> tuple[Checked, ...]:
    """Return what each check of a case finds in an answer and its trace.

    Parameters
    ----------
    done : Attempt or Reply
        The answer with its trace.
    case : Case
        Of a trigger suite.
    skill : str
        Name of the skill under test.
    files : sequence of str or None
        What the program left in its working folder; None where that is not known.

    Returns
    -------
    tuple of Checked
        In the order of the case's checks. All are None when the infrastructure failed. Of a case
        that took longer than it may, ``exit_code`` fails and what needs an answer is None.
    """
    if not is_gradable(done):
        why = f"no answer to grade ({done.status}): {done.error}"
        return tuple(Checked(check, None, why) for check in case.checks)
    about = _About(done, case, skill, files)
    return tuple(Checked(check, *about.found(check)) for check in case.checks)


class _About:
    """One answer with its trace read, and a method for each kind of check."""

    def __init__(self, done: Done, case: Case, skill: str, files: Sequence[str] | None) -> None:
        self.done, self.case, self.skill, self.files = done, case, skill, files
        self.trace = read_trace(done.trace) if done.trace else Trace()
        self.commands = commands_of(self.trace)
        self.ended = done.status == "ok"

    def found(self, check: Check) -> _Found:
        name, _, number = check.check_id.rpartition("-")
        if check.check_id in self.case.extra and check.check_id.startswith("max_"):
            return self.most(check.check_id, self.case.extra[check.check_id])
        ways: Mapping[str, Callable[[], _Found]] = {
            "exit_code": self.exit_code,
            "final_message": self.final_message,
            "thrashing": self.thrashing,
            "trigger": self.trigger,
            "output_schema": self.output_schema,
            "invoked_skills": self.invoked_skills,
            "required_steps": self.required_steps,
        }
        if check.check_id in ways:
            return ways[check.check_id]()
        if number.isdigit() and name == "require_files":
            return self.require_file(check.description)
        if number.isdigit() and name in ("must_include", "must_not_include"):
            return self.pattern(check.description, wanted=name == "must_include")
        return None, "no rule of this release"

    def exit_code(self) -> _Found:
        if not self.ended:
            return False, f"{self.done.error} (the case's own limit)"
        code = self.done.exit_code
        return (None, "not recorded") if code is None else (code == 0, f"exit code {code}")

    def final_message(self) -> _Found:
        if not self.ended:
            return None, "no end"
        return bool((self.done.answer or "").strip()), ""

    def thrashing(self) -> _Found:
        if self.commands is None:
            return None, "no trace"
        loop = thrashing(self.commands)
        return loop is None, "" if loop is None else f"again and again: {loop:.200}"

    def trigger(self) -> _Found:
        fired = self.done.triggered
        if fired is None:
            return None, "the program does not tell what it loads"
        if not (self.ended or fired):
            return None, "not invoked so far"
        return fired == self.case.should_trigger, "invoked" if fired else "not invoked"

    def most(self, column: str, limit: int) -> _Found:
        if column == "max_commands":
            if self.commands is None:
                return None, "no trace"
            n = len(effective(self.commands))
            return n <= limit, f"effective={n} total={len(self.commands)} max={limit}"
        spent = usage(self.done)[column.removeprefix("max_")]
        if spent is None:
            return None, "no usage is reported"
        return spent <= limit, f"{spent} of {limit}"

    def require_file(self, name: str) -> _Found:
        if self.files is None:
            return None, "what was left is not known"
        path = "/".join(part for part in name.split("/") if part not in ("", "."))
        there = any(one == path or one.startswith(f"{path}/") for one in self.files)
        return there, name

    def pattern(self, pattern: str, *, wanted: bool) -> _Found:
        if not self.ended:
            return None, "no answer"
        found = matches(pattern, self.done.answer or "")
        if found is None:
            return None, f"'{pattern}' took longer than {SECONDS:g} seconds"
        return found == wanted, pattern

    def output_schema(self) -> _Found:
        if not self.ended:
            return None, "no answer"
        content = _json(self.done.answer)
        if content is None:
            return False, "the final message is no JSON"
        try:
            wrong = misfit(content, self.case.extra["schema"])
        except Exception as error:  # a reference that leads elsewhere, for one
            return None, f"the schema cannot be used: {error!r:.300}"
        return wrong is None, wrong or ""

    def invoked_skills(self) -> _Found:
        if not self.ended:
            return None, "no answer"
        content = _json(self.done.answer)
        listed = content.get("invoked_skills") if isinstance(content, dict) else None
        named = isinstance(listed, list) and self.skill in listed
        wanted = "in" if self.case.should_trigger else "not in"
        return named == self.case.should_trigger, f"expected '{self.skill}' {wanted} invoked_skills"

    def required_steps(self) -> _Found:
        if self.commands is None:
            return None, "no trace"
        left = iter(unwrapped(command) for command in self.commands)
        for step in self.case.extra["required_steps"]:
            # the iterator goes on behind the command that matched, so that order counts
            if not any(matches(step, command) for command in left):
                return (False if self.ended else None), f"no command matches '{step}' in its turn"
        return True, ""


def matches(pattern: str, text: str) -> bool | None:
    """Return whether a pattern stands in a text, case aside and line by line; None: too slow."""
    try:
        return regex.search(pattern, text, PATTERN_FLAGS, timeout=SECONDS) is not None
    except TimeoutError:
        return None


def misfit(content: Any, schema: Mapping[str, Any]) -> str | None:
    """Return where content does not fit a JSON Schema, or None.

    No reference leads to a network, and patterns are searched as all others are.
    """
    import jsonschema
    from referencing import Registry

    def pattern(_: Any, wanted: str, text: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
        if isinstance(text, str):
            found = regex.search(wanted, text, timeout=SECONDS)
            if found is None:
                yield jsonschema.ValidationError(f"{text!r} does not match {wanted!r}")

    kind = jsonschema.validators.validator_for(schema)
    bounded = jsonschema.validators.extend(kind, {"pattern": pattern})
    error = next(bounded(schema, registry=Registry()).iter_errors(content), None)
    return None if error is None else f"{error.json_path}: {error.message:.300}"


def commands_of(trace: Trace) -> list[str] | None:
    """Return the commands that were run, in order; None of plain text."""
    if trace.kind == "text":
        return None
    ran = (s for s in trace.steps if s.kind == "command" and s.status != "declined")
    return [step.text or "" for step in ran]


def effective(commands: Sequence[str]) -> list[str]:
    """Return the commands that count: all but those that only read an installed SKILL.md."""
    return [command for command in commands if not opens_skill(command)]


def usage(done: Done) -> dict[str, int | None]:
    """Return the tokens of an answer, as far as they are reported."""
    spent, out = done.input_tokens, done.output_tokens
    whole = None if spent is None or out is None else spent + out
    return {"input_tokens": spent, "output_tokens": out, "total_tokens": whole}


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


def all_of(passed: Sequence[bool | None]) -> bool | None:
    """Return False as soon as one failed, else None where one is not known, else True.

    Examples
    --------
    >>> all_of([True, None, False]), all_of([True, None]), all_of([True, True])
    (False, None, True)
    """
    if False in passed:
        return False
    return None if None in passed else True


class TraceGrader:
    """A grader that asks nobody: the checks of a trigger suite, held against answer and trace.

    Parameters
    ----------
    folder : callable
        From skill and case_id to the folder in which what the program left is kept.

    Attributes
    ----------
    version : str
        Changes whenever a rule does.

    Notes
    -----
    A check that cannot be told (no trace, no usage, a pattern that takes too long) has a verdict
    without ``passed`` and its reason in ``rationale``; it is never a failed answer.
    """

    name, kind, family = "trace", "rules", "rules"
    model: str | None = None

    def __init__(self, folder: Callable[[str, str], Path]) -> None:
        self._folder = folder
        self.version: str | None = short_hash("trace", RULES)

    def checks_of(self, attempt: Attempt, case: Case) -> tuple[Check, ...]:
        """Return what this grader decides of an attempt."""
        return case.checks if is_gradable(attempt) else ()

    async def grade(
        self,
        attempt: Attempt,
        case: Case,
        skill: Skill,
        *,
        round: int = 1,
        batch: str | None = None,
        item: str | None = None,
        order: int = 1,
    ) -> Grading:
        """Return one verdict a check; see `grade_trace`."""
        files = left_in(self._folder(attempt.skill, attempt.case_id))
        found = grade_trace(attempt, case, skill.name or skill.slug, files)
        now = datetime.now(UTC)
        return Grading(
            tuple(
                Verdict(
                    attempt_id=attempt.attempt_id,
                    check_id=one.check.check_id,
                    check_kind=one.check.check_kind,
                    goal=one.check.goal,
                    grader=self.name,
                    grader_kind=self.kind,
                    grader_family=self.family,
                    grader_version=self.version,
                    round=round,
                    batch=batch,
                    item=item,
                    order=order + place,
                    passed=one.passed,
                    rationale=one.note or None,
                    graded_at=now,
                )
                for place, one in enumerate(found)
            )
        )

    async def aclose(self) -> None:
        """Do nothing; nothing is open."""
