"""The grader of task suites and its judges: expected texts, tests, and a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Unpack, cast

from skillcomp.errors import GraderError
from skillcomp.io.files import JsonObject, digest, read_own, whole_text
from skillcomp.io.redaction import redacted_start
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.io.task_suites import FIXTURES, reference_of, task_files
from skillcomp.lint import places_in_process
from skillcomp.live.agents.agent import Agent, Reply, short_hash
from skillcomp.live.graders.comprehension import gives_condition_away
from skillcomp.live.graders.grader import (
    RUBRIC,
    BaseGrader,
    Grading,
    Place,
    answer_of,
    cost_of,
    failure,
    item_of,
    on_check,
)
from skillcomp.live.graders.sandbox import Report, require_sandbox, run_tests
from skillcomp.records import Attempt, Case, Check, Skill, Suite, VerdictStatus

TIMEOUT = 60.0  # Default time limit of one test file, in seconds.
_RULES = "1"  # Version of the rules in this file.
_MAX_REASON = 1000  # Maximum length of a stored reason, in characters.

Source = RunStore | str | Path


@dataclass(frozen=True)
class Judgement:
    """The result of judging one answer; ``passed`` and ``score`` are None if judging failed."""

    passed: bool | None = None
    score: float | None = None
    reason: str = ""
    status: VerdictStatus = "ok"
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    def outcome(self) -> JsonObject:
        """Return the verdict's fields, except those that identify the attempt and the grader."""
        last = self.replies[-1] if self.replies and self.status != "ok" else Reply()
        return {
            "status": self.status,
            "passed": self.passed,
            "score": self.score,
            "rationale": redacted_start(whole_text(self.reason), _MAX_REASON) or None,
            "raw": last.answer or last.error,
            "cost_usd": cost_of(self.replies),
        }


class Contains:
    """The judge ``contains``: an answer passes if it contains every expected text, ignoring case.

    The score is the share of the expected texts that the answer contains. A text may also occur as
    part of a word.

    Examples
    --------
    >>> import asyncio
    >>> from skillcomp.records import Case, Check, TaskJudge
    >>> check = Check(check_id="contains", judge=TaskJudge(type="contains", expected=("ab", "c")))
    >>> case = Case(case_id="s/1", prompt="?", checks=(check,))
    >>> judgement = asyncio.run(Contains().judge(case, check, "xABx"))
    >>> judgement.passed, judgement.score, judgement.reason
    (False, 0.5, "missing: 'c'")
    """

    async def judge(self, case: Case, check: Check, answer: str, item: str = "") -> Judgement:
        """Judge whether the answer contains every expected text."""
        assert check.judge is not None
        text, expected = answer.casefold(), check.judge.expected
        missing = [words for words in expected if words.casefold() not in text]
        reason = f"missing: {', '.join(map(repr, missing))}" if missing else ""
        return Judgement(not missing, 1 - len(missing) / len(expected), reason)


class Pytest:
    """The judge ``pytest``: an answer passes if every test in the task's test file passes on it.

    The test file runs in its own process, in a sandbox (see Notes). The environment variable
    ``AI_OUTPUT_FILE`` names the file with the answer. The score is the share of tests that pass.

    Parameters
    ----------
    source : RunStore or path
        The store that holds the suites, or the path of one ``task_suite.yaml``.
    trust : bool, default False
        Whether to run answers even if no sandbox is available.
    timeout : float, default 60
        Time limit of one test file, in seconds.

    Raises
    ------
    GraderError
        If there is no sandbox and `trust` is False, or if a trial run without a sandbox fails.

    Notes
    -----
    An answer passes if the report shows that every collected test passed and if the run ended
    normally. Exit code 0 alone proves nothing, because an answer can call ``os._exit(0)``. If a
    test fails, the answer fails. After a crash, a time-out, a skipped test or a failed fixture, the
    answer fails if the suite's reference answer passes the same tests. If the reference answer does
    not pass or is missing, or if no test was collected, the verdict has status ``error``, because
    the run shows nothing about the answer.

    bubblewrap makes the sandbox. Inside, the system's programs, Python and the fixtures are
    read-only, and there are no other files of the machine, no network and no variables of the
    user's environment. All processes of a sandbox end with it. Each of its four writable folders is
    in memory and holds at most 64 MiB. Pytest loads the ``conftest.py`` of the suite, but no file
    written by an answer, and no plugins or settings of the machine.

    With and without a sandbox, a run is limited to `timeout` by the clock and in processor time, to
    2 GiB of memory, to 64 processes, and to 16 MiB for each file. Processor time and memory are
    added up over all processes ten times a second. If root starts a run, the run first changes to
    another user, because the limit on processes does not apply to root.

    Some things are not limited: what a run uses within a tenth of a second, the kernel's memory for
    it (pipes, file systems), and the bandwidth of memory and disk. If bubblewrap cannot disable
    user namespaces, a test can use more memory by making a file system in a user namespace. Without
    a sandbox, an answer can read and send whatever its user can, and can leave processes behind
    unless root started the run.

    A program that a test starts with ``subprocess`` is separated from the test. It finds the answer
    and the fixtures that its arguments name, but no other file of the test, and cannot reach the
    test's process. After it has started, a run that ends early counts as failed even without a
    reference answer, unless a test was skipped. Without a sandbox, it can still read the suite
    itself where its user can; the reason of the verdict says so.

    A test that executes the answer in its own process cannot be protected. The answer can read the
    test, replace functions of ``pytest`` and write to the report. ``skillcomp check`` names such
    tests, and the reason of each of their verdicts says it.
    """

    def __init__(self, source: Source, *, trust: bool = False, timeout: float = TIMEOUT) -> None:
        self._suites = _suites_of(source)
        self._timeout = timeout
        self._reference: dict[str, bool] = {}
        self._fixtures = cache(_judge_files)
        self.trusted = require_sandbox(trust)

    async def judge(self, case: Case, check: Check, answer: str, item: str = "") -> Judgement:
        """Judge whether every test passes on the answer."""
        report = await self._run_test(case, check, answer)
        return replace(await self._judgement(case, check, report), seconds=report.seconds)

    async def _judgement(self, case: Case, check: Check, report: Report) -> Judgement:
        n_tests, n_passed = len(report.collected), len(report.passed)
        reason = f"{n_passed} of {n_tests} tests pass"
        reasons = [f"{name.partition('::')[2]}: {why}" for name, why in report.failed.items()]
        reason = "; ".join(filter(None, [reason, *report.notes, *reasons, report.reason]))
        if report.is_pass:
            return Judgement(True, 1.0, reason)
        # the answer can end the test early from the moment at which the test starts a program
        may_blame = report.has_started and not report.is_skipped
        if not report.collected and not may_blame:
            return Judgement(reason=report.reason or "no test was collected", status="error")
        if report.failed:
            return Judgement(False, n_passed / n_tests, reason)
        passes = self._reference.get(case.case_id)
        answer = reference_of(self._suite_folder(case), case) if passes is None else None
        if answer is not None:
            passes = (await self._run_test(case, check, answer)).is_pass
            self._reference[case.case_id] = passes
        if passes or (passes is None and may_blame):
            score = min(n_passed / n_tests, 1 - 1 / n_tests) if n_tests else 0.0
            return Judgement(False, score, reason)
        why = "there is no reference answer" if passes is None else "the reference answer fails too"
        return Judgement(reason=f"{reason}; {why}", status="error")

    async def _run_test(self, case: Case, check: Check, answer: str) -> Report:
        assert check.judge is not None and check.judge.test_file is not None
        files = self._fixtures(self._suite_folder(case), FIXTURES)
        return await run_tests(
            files,
            check.judge.test_file,
            answer,
            timeout=self._timeout,
            trusted=self.trusted,
            separate=not any(places_in_process(files, check.judge.test_file)),
        )

    def _suite_folder(self, case: Case) -> Path:
        slug = case.case_id.partition("/")[0]
        if slug not in self._suites:
            slugs = ", ".join(self._suites) or "none"
            raise GraderError(f"case '{case.case_id}': its suite is not at hand; there: {slugs}.")
        return self._suites[slug][1]


class LlmRubric:
    """The judge ``llm-rubric``: an answer passes if a model's score for it reaches a threshold.

    The model sees the task, the rubric and the answer, each delimited and escaped, but neither the
    skill nor the condition. If the score cannot be read or is not a number from 0 to 1, the model
    is asked again, at most twice. If the last reply is still unusable, the verdict is
    ``malformed``.

    Parameters
    ----------
    agent : Agent
        The model, preferably of another family than the agent under test.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def judge(self, case: Case, check: Check, answer: str, item: str) -> Judgement:
        """Judge whether the model's score for the answer reaches the threshold of the check."""
        judge = check.judge
        assert judge is not None and judge.rubric is not None and judge.pass_threshold is not None
        reply, replies, problems = await RUBRIC.ask(
            self.agent, item, question=case.prompt, rubric=judge.rubric, answer=answer
        )
        about: JsonObject = {"replies": replies, "problems": problems}
        about["seconds"] = sum(reply.seconds or 0.0 for reply in replies)
        if reply is not None:
            passed = reply.score >= judge.pass_threshold
            return Judgement(passed, reply.score, reply.rationale, **about)
        reason = " ".join(problems) or replies[-1].error or ""
        return Judgement(reason=reason, status=failure(replies[-1]), **about)


class SuiteGrader(BaseGrader):
    """One grader that runs all judges of task suites, so that an attempt has a single outcome.

    Parameters
    ----------
    source : RunStore or path
        The store that holds the suites, or the path of one ``task_suite.yaml``.
    agent : Agent, optional
        The model that scores answers by a rubric; required if a task has a rubric and `mock` is
        False.
    trust : bool, default False
        Whether to run answers even if no sandbox is available; see `Pytest`.
    timeout : float, default 60
        Time limit of one test file, in seconds.
    name : str, default "suite"
        Label of the grader in the frames.
    mock : bool, default False
        Whether to pass every answer without judging it, to test a setup. Kind, model and version of
        such a grader are ``mock``.

    Attributes
    ----------
    version : str
        The hash `judges`, followed by ``-trusted`` if answers run without a sandbox; ``mock`` if
        `mock` is True.
    judges : str
        Hash of all judges of the suites. It covers the files of the suites if a task has tests, and
        the prompt if a task has a rubric.
    errors : dict of str to str
        Reasons why verdicts have status ``error``, by attempt_id.
    seconds : dict of str to float
        Seconds that the judges of an attempt took, by attempt_id: duration of the tests and of the
        replies of the model.
    trusted : bool
        Whether the tests of a task are executed outside the sandbox.

    Raises
    ------
    GraderError
        If there are no tasks, `agent` is required but missing, or answers cannot be run.
    """

    trusted = False

    def __init__(
        self,
        source: Source,
        agent: Agent | None = None,
        *,
        trust: bool = False,
        timeout: float = TIMEOUT,
        name: str = "suite",
        mock: bool = False,
    ) -> None:
        suites = _suites_of(source)
        checks = (c for suite, _ in suites.values() for case in suite.cases for c in case.checks)
        kinds = {check.judge.type for check in checks if check.judge}
        if not kinds:
            raise GraderError(f"SuiteGrader: {source} holds no task suite.")
        self.name, self.kind = name, "suite"
        self.errors: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.style = "rubric"  # a cost plan reads `style` to estimate the prompts' length
        self.judges = self.version = _judges_version(suites, sorted(kinds))
        self._judges: dict[str, Any] = {"contains": Contains()}
        if mock:
            self.kind = self.model = self.family = self.version = "mock"
            return
        if "llm-rubric" in kinds:
            if agent is None:
                raise GraderError(
                    "SuiteGrader: tasks are scored by a rubric; give agent=, a model."
                )
            self.set_agent(agent)
        if "pytest" in kinds:
            judge = Pytest(source, trust=trust, timeout=timeout)
            self._judges["pytest"] = judge
            self.trusted = judge.trusted
            self.version += "-trusted" * judge.trusted

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the verdict of each judge of the task; see `ComprehensionGrader.grade`."""
        if any(check.judge is None for check in case.checks):
            raise GraderError(f"case '{case.case_id}' is no task: it has checks without a judge.")
        answer, item = answer_of(attempt, case, skill), item_of(attempt, place)
        judged = [await self.judge(case, check, answer, item) for check in case.checks]
        about = {**self.about(attempt, place), "item": item}
        verdicts = tuple(
            on_check(check, position, about, **judgement.outcome())
            for position, (check, judgement) in enumerate(zip(case.checks, judged, strict=True))
        )
        for verdict in verdicts:
            if verdict.status == "error":
                self.errors[attempt.attempt_id] = verdict.rationale or "no reason is known"
        self.seconds[attempt.attempt_id] = sum(judgement.seconds for judgement in judged)
        replies = tuple(reply for judgement in judged for reply in judgement.replies)
        problems = tuple(problem for judgement in judged for problem in judgement.problems)
        telltale = gives_condition_away(answer) if replies else None
        return Grading(verdicts, replies, problems, telltale)

    async def judge(self, case: Case, check: Check, answer: str, item: str) -> Judgement:
        """Judge an answer with the judge that the check names."""
        if self.kind == "mock":
            return Judgement(True, 1.0, "mock: nothing was judged")
        assert check.judge is not None
        kind = check.judge.type
        # the agent may be that of a copy of this grader, which records the replies
        is_rubric = kind == "llm-rubric"
        judge = LlmRubric(cast(Agent, self.agent)) if is_rubric else self._judges[kind]
        judgement: Judgement = await judge.judge(case, check, answer, item)
        return judgement


def _judge_files(folder: Path, *parts: str) -> dict[str, bytes]:
    """Return the contents of the files of a suite, by name; by default of all."""
    what = "file of a judge"
    names = task_files(folder, *parts)
    return {name: read_own(folder / name, what=what, error=GraderError) for name in names}


def _suites_of(source: Source) -> dict[str, tuple[Suite, Path]]:
    """Return each task suite and its folder, by slug."""
    if isinstance(source, RunStore):
        suites = (suite for suite in source.suites.values() if suite.kind == "tasks")
        return {suite.slug: (suite, (source.path / suite.path).parent) for suite in suites}
    suite, path = read_suite(source), Path(source)
    return {suite.slug: (suite, path if path.is_dir() else path.parent)}


def _judges_version(suites: Mapping[str, tuple[Suite, Path]], kinds: Sequence[str]) -> str:
    """Return a hash that covers the judges of the given kinds, their test files and prompt."""
    parts = [_RULES, *kinds]
    for slug, (suite, folder) in sorted(suites.items()):
        judges = ((case.case_id, check.judge) for case in suite.cases for check in case.checks)
        parts += [f"{name} {j.model_dump_json()}" for name, j in judges if j and j.type in kinds]
        if "pytest" in kinds:
            files = _judge_files(folder)
            parts += [f"{slug} {name} {digest(data)}" for name, data in files.items()]
    return short_hash(*parts, *([RUBRIC.version] if "llm-rubric" in kinds else []))
