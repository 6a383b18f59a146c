"""The judges of task suites as graders: words that must occur, tests that must pass, a rubric."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from skillcomp.errors import GraderError
from skillcomp.io.files import digest
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.io.task_suites import FIXTURES, reference_of, task_files
from skillcomp.live.agents.agent import Agent, Reply, short_hash, whole_text
from skillcomp.live.graders.grader import (
    BaseGrader,
    Grading,
    Place,
    answer_of,
    ask_until_read,
    blind,
    cost_of,
    failure,
    on_check,
)
from skillcomp.live.graders.prompts import RUBRIC, RubricReply
from skillcomp.live.graders.reply import gives_condition_away, read_item
from skillcomp.live.graders.sandbox import Report, require_sandbox, run_tests
from skillcomp.records import JUDGES, Attempt, Case, Check, Skill, Suite, Verdict, VerdictStatus

TIMEOUT = 60.0  # seconds for one test file
_RULES = "1"  # of this module; another number makes other versions of every judge
_MAX_SAID = 1000  # characters of a reason

Source = RunStore | str | Path

_slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one answer; ``passed`` and ``score`` are None unless ``ok``."""

    passed: bool | None = None
    score: float | None = None
    said: str = ""
    status: VerdictStatus = "ok"
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()


class _TaskGrader(BaseGrader):
    """What the three judges share: tasks of their kind, one verdict each."""

    kinds: tuple[str, ...] = ()  # of judges; that of the grader where there are none

    async def judge(self, case: Case, check: Check, answer: str, item: str) -> Judgement:
        """Return what is to be said of an answer to a task."""
        raise NotImplementedError

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return one verdict a check of this kind; see `ComprehensionGrader.grade`."""
        answer = answer_of(attempt, case, skill)
        item = place.get("item") or blind({attempt.attempt_id: 1}, seed=0)[0].item
        about = {**self.about(attempt, place), "item": item}
        verdicts: list[Verdict] = []
        replies: list[Reply] = []
        problems: list[str] = []
        for position, check in enumerate(case.checks):
            if check.judge is None or check.judge.type not in (self.kinds or (self.kind,)):
                continue
            found = await self.judge(case, check, answer, item)
            replies += found.replies
            problems += found.problems
            last = found.replies[-1] if found.replies else None
            verdicts.append(
                on_check(
                    check,
                    position,
                    about,
                    status=found.status,
                    passed=found.passed,
                    score=found.score,
                    rationale=whole_text(found.said)[:_MAX_SAID] or None,
                    cost_usd=cost_of(found.replies),
                    graded_at=datetime.now(UTC),
                    raw=(last.answer or last.error) if last and found.status != "ok" else None,
                )
            )
        given = gives_condition_away(answer) if replies else None
        return Grading(tuple(verdicts), tuple(replies), tuple(problems), given)


class Contains(_TaskGrader):
    """The judge ``contains``: every expected text occurs in the answer, without regard to case.

    The score is the share of the texts that occur. Part of a word is an occurrence.

    Examples
    --------
    >>> import asyncio
    >>> from skillcomp.records import Case, Check, TaskJudge
    >>> check = Check(check_id="contains", judge=TaskJudge(type="contains", expected=("ab", "c")))
    >>> case = Case(case_id="s/1", prompt="?", checks=(check,))
    >>> found = asyncio.run(Contains().judge(case, check, "xABx"))
    >>> found.passed, found.score, found.said
    (False, 0.5, "missing: 'c'")
    """

    kind = name = "contains"
    version = short_hash("contains", _RULES)

    async def judge(self, case: Case, check: Check, answer: str, item: str = "") -> Judgement:
        """Return whether the texts occur."""
        assert check.judge is not None
        text, expected = answer.casefold(), check.judge.expected
        missing = [one for one in expected if one.casefold() not in text]
        said = f"missing: {', '.join(map(repr, missing))}" if missing else ""
        return Judgement(not missing, 1 - len(missing) / len(expected), said)


class Pytest(_TaskGrader):
    """The judge ``pytest``: every test of the task's file passes on the answer.

    The file runs in a process of its own, in a sandbox (see Notes), and finds the answer in the
    file that the environment variable ``AI_OUTPUT_FILE`` names. The score is the share of its tests
    that pass.

    Parameters
    ----------
    source : RunStore or path
        The store that holds the suites, or one ``task_suite.yaml``.
    trust : bool, default False
        Run answers without a sandbox where there is none; without it that is refused. A version
        that ends in ``-trusted`` says so with every verdict.
    timeout : float, default 60
        Seconds for one test file.

    Raises
    ------
    GraderError
        When there is no sandbox and answers are not trusted.

    Notes
    -----
    A pass needs a report in which every collected test passed, and an ordered end; exit code 0 by
    itself proves nothing, since an answer can call ``os._exit(0)``. A test that fails is a fail. A
    crash or time-out once a test runs, a test that is skipped, and a fixture that fails, are a fail
    if the suite's reference answer passes; else, and before any test runs, the verdict is
    ``error``: nothing is known of the answer.

    The sandbox is bubblewrap: read-only Python and fixtures, no other file of the machine, no
    network, an empty environment, and its own processes, which all end with it. Limits hold with
    and without it: the time, 2 GiB of memory, 64 processes, 16 MiB a file. Root is given up first,
    since it would be bound by none of them. Trusted answers can read and send what this user can,
    and leave processes behind unless root started them. The suite's own ``conftest.py`` counts;
    nothing that an answer writes is loaded as one, and no plugin or settings of the machine are.

    What cannot be prevented: a test that executes the answer in its own process gives it the
    means to forge the report (to replace ``pytest``'s functions, or to write to the open report).
    Tests that parse the answer, or run it as a program of its own, cannot be cheated so.
    """

    kind = name = "pytest"

    def __init__(self, source: Source, *, trust: bool = False, timeout: float = TIMEOUT) -> None:
        self._suites = _found(source)
        self._timeout = timeout
        self._reference: dict[str, bool] = {}
        self._files: dict[str, dict[str, bytes]] = {}
        self.trusted = require_sandbox(trust)
        self.version = _version(self._suites, ("pytest",)) + "-trusted" * self.trusted

    async def judge(self, case: Case, check: Check, answer: str, item: str = "") -> Judgement:
        """Return whether the tests pass."""
        report = await self._run(case, check, answer)
        n_tests, n_passed = len(report.collected), len(report.passed)
        said = f"{n_passed} of {n_tests} tests pass"
        reasons = [f"{name.partition('::')[2]}: {why}" for name, why in report.failed.items()]
        said = "; ".join(filter(None, [said, *reasons, report.said]))
        if report.is_pass:
            return Judgement(True, 1.0, said)
        if not report.collected:
            return Judgement(said=report.said or "no test was collected", status="error")
        if report.failed:
            return Judgement(False, n_passed / n_tests, said)
        known = await self._reference_passes(case, check)
        if known:
            return Judgement(False, min(n_passed / n_tests, 1 - 1 / n_tests), said)
        why = "there is no reference answer" if known is None else "the reference answer fails too"
        return Judgement(said=f"{said}; {why}", status="error")

    async def _reference_passes(self, case: Case, check: Check) -> bool | None:
        """Return whether the suite's own ideal answer passes, None where there is none."""
        if case.case_id not in self._reference:
            answer = reference_of(self._folder(case), case)
            if answer is None:
                return None
            self._reference[case.case_id] = (await self._run(case, check, answer)).is_pass
        return self._reference[case.case_id]

    async def _run(self, case: Case, check: Check, answer: str) -> Report:
        assert check.judge is not None and check.judge.test_file is not None
        files = self._fixtures(case)
        loop = asyncio.get_running_loop()
        if loop not in _slots:
            for old in [one for one in list(_slots) if one.is_closed()]:
                _slots.pop(old, None)
        # more tests at once than processors would make time-outs of good answers
        async with _slots.setdefault(loop, asyncio.Semaphore(os.cpu_count() or 1)):
            return await run_tests(
                files, check.judge.test_file, answer, timeout=self._timeout, trusted=self.trusted
            )

    def _folder(self, case: Case) -> Path:
        slug = case.case_id.partition("/")[0]
        if slug not in self._suites:
            known = ", ".join(self._suites) or "none"
            raise GraderError(f"case '{case.case_id}': its suite is not at hand; there: {known}.")
        return self._suites[slug][1]

    def _fixtures(self, case: Case) -> dict[str, bytes]:
        folder = self._folder(case)
        slug = case.case_id.partition("/")[0]
        if slug not in self._files:
            names = [name for name in task_files(folder) if name.startswith(f"{FIXTURES}/")]
            self._files[slug] = {name: (folder / name).read_bytes() for name in names}
        return self._files[slug]


class LlmRubric(_TaskGrader):
    """The judge ``llm-rubric``: a model scores the answer from 0 to 1, against a threshold.

    It is shown the task, the rubric and the answer, each delimited and escaped, and neither skill
    nor condition. A score that cannot be read, or is no number from 0 to 1, is asked for again at
    most twice; then the verdict is ``malformed``.

    Parameters
    ----------
    agent : Agent
        Who is asked; best a model of another family than the agent under test.
    """

    kind = name = "llm-rubric"
    agent: Agent

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.model, self.family = agent.model, agent.family
        self.version = RUBRIC.version

    async def judge(self, case: Case, check: Check, answer: str, item: str) -> Judgement:
        """Return the score and whether it reaches the threshold."""
        judge = check.judge
        assert judge is not None and judge.rubric is not None and judge.pass_threshold is not None
        prompt = partial(
            RUBRIC.about, question=case.prompt, rubric=judge.rubric, answer=answer, item=item
        )
        found, replies, problems = await ask_until_read(
            self.agent, prompt, RUBRIC.reply, partial(_scored, item=item)
        )
        about: dict[str, Any] = {"replies": tuple(replies), "problems": tuple(problems)}
        if found is not None:
            passed = found.score >= judge.pass_threshold
            return Judgement(passed, found.score, found.rationale, **about)
        said = " ".join(problems) or replies[-1].error or ""
        return Judgement(
            said=said, status="malformed" if problems else failure(replies[-1]), **about
        )


def _scored(text: str, item: str) -> tuple[RubricReply | None, list[str]]:
    """Return what a reply says, and why it cannot be used where it cannot."""
    found, problems = read_item(text, RUBRIC.reply, item)
    if found is not None and not 0 <= found.score <= 1:  # nor is NaN
        problems.append("score must be a number from 0 to 1.")
    return (None if problems else found), problems


class SuiteGrader(_TaskGrader):
    """All judges of task suites as one grader, so that an attempt has one outcome.

    Parameters
    ----------
    source : RunStore or path
        The store that holds the suites, or one ``task_suite.yaml``.
    agent : Agent, optional
        Who scores by rubric; needed where a task has one.
    trust : bool, default False
        As for `Pytest`.
    timeout : float, default 60
        Seconds for one test file.
    name : str, default "suite"
        The label in the frames.
    mock : bool, default False
        Let everything pass and judge nothing, to try the wiring out. The kind, the model and the
        version of such a grader are ``mock``.

    Attributes
    ----------
    version : str
        Hash of every judge of the suites, of their fixtures and reference answers and, where a
        task has a rubric, of the prompt; then ``-trusted`` where answers run without a sandbox.
    judges : str
        The same hash without what the version adds, for a mock as well.
    errors : dict of str to str
        Why an attempt has no verdict, by attempt_id.

    Raises
    ------
    GraderError
        When there are no tasks, a task needs an agent and there is none, or answers cannot be run.
    """

    kinds = JUDGES

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
        suites = _found(source)
        cases = [case for suite, _ in suites.values() for case in suite.cases]
        kinds = {check.judge.type for case in cases for check in case.checks if check.judge}
        if not kinds:
            raise GraderError(f"SuiteGrader: {source} holds no task suite.")
        self.name, self.kind = name, "mock" if mock else "suite"
        self.errors: dict[str, str] = {}
        self.agent = agent if "llm-rubric" in kinds and not mock else None
        self.style = "rubric"  # how a plan counts what it asks
        self.judges = _version(suites, sorted(kinds))
        if "llm-rubric" in kinds and self.agent is None and not mock:
            raise GraderError("SuiteGrader: tasks are scored by a rubric; give agent=, a model.")
        if mock:
            self.model = self.family = self.version = "mock"
            return
        self.model = self.agent.model if self.agent else None
        self.family = self.agent.family if self.agent else None
        self._pytest = Pytest(source, trust=trust, timeout=timeout) if "pytest" in kinds else None
        trusted = self._pytest is not None and self._pytest.trusted
        self.version = self.judges + "-trusted" * trusted

    @property
    def trusted(self) -> bool:
        """Whether answers run without a sandbox."""
        return str(self.version).endswith("-trusted")

    async def grade(self, attempt: Attempt, case: Case, skill: Skill, **options: Any) -> Grading:
        """Return the verdict of the task's judge; see `ComprehensionGrader.grade`."""
        if any(check.judge is None for check in case.checks):
            raise GraderError(f"case '{case.case_id}' is no task: it has checks without a judge.")
        found = await super().grade(attempt, case, skill, **options)
        for verdict in found.verdicts:
            if verdict.status == "error":
                self.errors[attempt.attempt_id] = verdict.rationale or "no reason is known"
        return found

    async def judge(self, case: Case, check: Check, answer: str, item: str) -> Judgement:
        """Return what the judge of a task says."""
        assert check.judge is not None
        if self.kind == "mock":
            return Judgement(True, 1.0, "mock: nothing was judged")
        if check.judge.type == "contains":
            return await Contains().judge(case, check, answer)
        if check.judge.type == "pytest":
            assert self._pytest is not None
            return await self._pytest.judge(case, check, answer)
        assert self.agent is not None
        return await LlmRubric(self.agent).judge(case, check, answer, item)


def _found(source: Source) -> dict[str, tuple[Suite, Path]]:
    """Return task suites by slug, each with its folder."""
    if isinstance(source, RunStore):
        suites = (suite for suite in source.suites.values() if suite.kind == "tasks")
        return {one.slug: (one, (source.path / one.path).parent) for one in suites}
    suite, path = read_suite(source), Path(source)
    return {suite.slug: (suite, path if path.is_dir() else path.parent)}


def _version(suites: Mapping[str, tuple[Suite, Path]], kinds: Sequence[str]) -> str:
    """Return the hash of all judges of some kinds, and of the files that they need."""
    parts = [_RULES, *kinds]
    for slug, (suite, folder) in sorted(suites.items()):
        for case in suite.cases:
            parts += [
                f"{case.case_id} {check.judge.model_dump_json()}"
                for check in case.checks
                if check.judge and check.judge.type in kinds
            ]
        if "pytest" in kinds:
            for name in task_files(folder):
                parts.append(f"{slug} {name} {digest((folder / name).read_bytes())}")
    return short_hash(*parts, *([RUBRIC.version] if "llm-rubric" in kinds else []))
