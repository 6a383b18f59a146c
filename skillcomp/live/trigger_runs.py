"""Trigger runs: send the prompts of suites to a program with skills, and grade its work.

A run is a folder. It holds ``run.json`` (the `TriggerPlan`), ``store/`` (a `RunStore` with answers
and verdicts), and artefacts in the layout of trigger-evals.md: a folder ``work/<skill>/<case>/``
for each case, and ``summary.json`` and ``summary.md`` for the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any, Literal, Unpack

import orjson
from pydantic import ValidationError
from tqdm.auto import tqdm

from skillcomp import frames, triggers
from skillcomp.errors import SkillcompError, StoreError, StudyError, SuiteError, require_known
from skillcomp.io.files import (
    JsonObject,
    checked_slug,
    folder_below,
    json_object,
    read_own,
    replace_file,
    require_ids,
    write_json,
)
from skillcomp.io.journal import active_writer
from skillcomp.io.redaction import redact, redact_json
from skillcomp.io.skills import FILE_NAME
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.io.trigger_suites import (
    CONTROL,
    CONTROLS,
    FILE,
    KEPT,
    PLACES,
    control_prompts,
    prompts_by_skill,
)
from skillcomp.live.agents.agent import (
    Asked,
    BaseAgent,
    Bounds,
    Reply,
    first_fault,
    settings_json,
)
from skillcomp.live.agents.cli import CliAgent
from skillcomp.live.agents.process import files_left, remove_entry, write_file
from skillcomp.live.graders.traces import (
    JUDGEMENT,
    TraceGrader,
    TraceJudge,
    all_of,
    commands_of,
    effective,
    grade_trace,
    trace_of,
    usage,
)
from skillcomp.live.plan import cases_by_id, installed_skill
from skillcomp.live.run import grade, run
from skillcomp.live.status import unanswered_cases
from skillcomp.records import Case, Record, Skill, Suite

Which = Literal["smoke", "explicit", "implicit", "negative", "all"]
Program = Literal["claude", "codex"]
NOT_ASKED = "not asked yet"
NOT_FIRED = "unknown, because an explicit call did not fire the skill"
SANDBOX = "workspace-write"  # default sandbox of a case, as in trigger-evals.md
_WORDS = {True: "PASS", False: "FAIL", None: "unknown"}
# fields of the reply that are copied to meta.json
_FROM_REPLY = ("model", "status", "error", "offered", "invoked")


class TriggerSettings(Record):
    """Settings of a trigger run, as the command line gives them.

    Attributes
    ----------
    suite : str
        Which prompts to ask: smoke, explicit, implicit, negative or all.
    program, model : str, str or None
        The program to ask, and its model; None leaves the choice of a model to the program.
    judge_program, judge_model : str or None
        The program that judges by a rubric, and its model. The default program is `program`. The
        default model is `model` if both programs are the same.
    timeout_s, judge_timeout_s : float
        Time limits in seconds: of a case that has no limit of its own, and of one judgement.
    concurrency : int
        Maximum number of programs that run at the same time.
    write_progress : bool
        Whether to write ``progress.jsonl``, with a line when a case begins and when it is done.
    rubric_schema : dict or None
        JSON Schema of what the judge replies, from `read_rubric_schema`; None for the default.
    """

    suite: Which = "smoke"
    program: Program = "claude"
    model: str | None = None
    judge_program: Program | None = None
    judge_model: str | None = None
    timeout_s: float = 180.0
    judge_timeout_s: float = 180.0
    concurrency: int = 2
    write_progress: bool = False
    rubric_schema: JsonObject | None = None


class TriggerPlan(TriggerSettings):
    """The settings and the selected cases of a trigger run; the content of ``run.json``.

    Attributes
    ----------
    run_id : str
        Name of the run.
    cases : dict of str to str
        The selected cases: slug of the skill under test, by case_id.
    judged : tuple of str
        The case_ids of the cases to judge by the rubric.
    neighbours : tuple of str
        Slugs of the skills that are installed together with the skill under test.
    controls : dict of str to str
        Additional prompts that test whether calls of skills are detected: slug of the skill, by
        case_id.
    skillcomp : str or None
        Version of this library that made the plan.
    """

    run_id: str
    cases: dict[str, str]
    judged: tuple[str, ...]
    neighbours: tuple[str, ...]
    controls: dict[str, str] = {}
    skillcomp: str | None = None


def chosen_cases(suite: Suite, which: Which, only: Sequence[str], most: int | None) -> list[Case]:
    """Return the cases that a run asks from a suite.

    If `which` is ``smoke``, these are the first explicit and the first negative case. `only` lists
    the ids of the allowed cases (empty for all); `most` is the maximum number of cases.
    """
    cases = list(suite.cases)
    if which == "smoke":
        firsts = {case.prompt_kind: case for case in reversed(cases)}
        cases = [firsts[kind] for kind in ("explicit", "negative") if kind in firsts]
    elif which != "all":
        cases = [case for case in cases if case.prompt_kind == which]
    if only:
        cases = [case for case in cases if case.own_id in only]
    return cases if most is None else cases[:most]


def prepare_run(
    folder: Path,
    skills: Path,
    evals: Path,
    settings: TriggerSettings,
    *,
    only_skills: Sequence[str] = (),
    only_cases: Sequence[str] = (),
    max_cases: int | None = None,
    judge: bool | None = None,
    neighbours: Sequence[str] | None = None,
) -> TriggerPlan:
    """Make the folder of a run, with ``run.json`` and a store of skills and prompts; ask nothing.

    Parameters
    ----------
    folder : path
        The new folder of the run; its name is the run_id.
    skills : path
        Folder with one subfolder for each skill; the subfolder holds the SKILL.md.
    evals : path
        Folder with the prompts of each skill: a prompts.csv or a JSON set of trigger queries, in
        evals/skills/SKILL, evals/SKILL, skills/SKILL/evals, SKILL/evals or SKILL, where SKILL is
        the name of the skill's folder. The first place that has prompts of a skill counts.
    settings : TriggerSettings
        Settings of the run.
    only_skills, only_cases : sequence of str
        Slugs of the skills and ids of the cases to ask. Default: all.
    max_cases : int, optional
        Maximum number of cases of each skill.
    judge : bool, optional
        Whether to judge all cases by the rubric (True) or none (False). Default: the cases for
        which the column ``judge`` of the prompts.csv is true.
    neighbours : sequence of str, optional
        Slugs of the skills to install together with the skill under test. Default: all others in
        `skills`.

    Raises
    ------
    StudyError
        If the run exists already, no case is selected, or a skill or case is unknown.
    SuiteError
        If a prompts.csv has problems other than unknown columns, because a check that cannot be
        read would seem to pass.
    """
    if (folder / "run.json").exists():
        raise StudyError(f"trigger: the run '{folder.name}' exists already; --resume continues it.")
    if (folder / "store").exists():
        raise StudyError(
            f"trigger: {folder} was broken off before anything was asked; remove it, or give "
            "another --run-id."
        )
    files = sorted(skills.rglob(FILE_NAME))  # suites may have mock skills in a folder evals
    files = [file for file in files if "evals" not in file.relative_to(skills).parts]
    skill_files = {file.resolve().parent.name: file for file in files}
    suite_files = prompts_by_skill(evals)
    _require_names("skill", only_skills, suite_files)
    _require_names("neighbour", neighbours or (), skill_files)
    suites = {
        slug: read_suite(file, skill=slug)
        for slug, file in suite_files.items()
        if slug in (only_skills or suite_files)
    }
    _require_names("case", only_cases, [c.own_id for s in suites.values() for c in s.cases])
    selected = []
    for slug, suite in suites.items():
        chosen = chosen_cases(suite, settings.suite, only_cases, max_cases)
        harmless = ("is not a known column", KEPT)
        wrong = [p for p in suite.problems if not any(words in p for words in harmless)]
        if chosen and wrong:
            listed = "\n".join(f"- {problem}" for problem in wrong)
            raise SuiteError(
                f"{suite_files[slug]}: what cannot be read cannot be checked:\n{listed}"
            )
        _require_folders([case.case_id for case in chosen], SuiteError)
        selected += [(slug, case) for case in chosen]
    cases = [(slug, case) for slug, case in selected if case.prompt_kind != CONTROL]
    if not cases:
        hint = " --case chooses among those of --suite;" * bool(only_cases)
        hint += " --suite all holds every case." * (settings.suite != "all")
        raise StudyError(
            f"trigger: no case is selected (suite {settings.suite}, {len(suite_files)} sets of "
            f"prompts in {evals}: {', '.join(PLACES)}).{hint}"
        )
    tested = tuple(dict.fromkeys(slug for slug, _ in cases))
    for slug in tested:
        what = f"trigger: {suite_files[slug]}: {skills} has no skill"
        require_known(what, slug, skill_files, StudyError, label="there")
    judged = [c for _, c in cases if judge or (judge is None and c.extra.get("judge", False))]
    if settings.rubric_schema and not judged:
        raise StudyError("trigger: --rubric-schema, but no case is judged; --judge judges all.")
    beside = tuple(skill_files if neighbours is None else neighbours)
    controls = {case.case_id: slug for slug, case in selected if case.prompt_kind == CONTROL}
    store = RunStore(folder / "store")
    with store.writer():
        try:
            for slug in dict.fromkeys((*tested, *beside)):
                store.add_skill(skill_files[slug])
            for slug in tested:
                store.add_suite(suite_files[slug], skill=slug)
                # one prompt at which no skill should fire is enough for skills that are installed
                # together
                text = control_prompts(slug, with_other=slug == tested[0] or slug not in beside)
                file = folder / "controls" / slug / FILE
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", newline="")
                suite = store.add_suite(file, slug=f"{CONTROLS}{slug}", skill=slug)
                controls |= {case.case_id: slug for case in suite.cases}
        except SkillcompError:
            # if the store remained, the run_id could not be used again
            shutil.rmtree(store.path)
            raise
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    plan = TriggerPlan(
        **dict(settings),
        run_id=folder.name,
        cases={case.case_id: slug for slug, case in cases},
        judged=tuple(case.case_id for case in judged),
        neighbours=beside,
        controls=controls,
        skillcomp=version("skillcomp"),
    )
    write_json(folder / "run.json", plan.model_dump())
    return plan


def _require_names(what: str, names: Sequence[str], there: Collection[str]) -> None:
    for name in names:
        require_known(f"trigger: there is no {what}", name, there, StudyError, label="there")


def _require_folders(case_ids: Iterable[str], error: type[SkillcompError]) -> None:
    """Raise unless each case of a skill can have a folder of its own."""
    folders: dict[str, str] = {}
    for case_id in case_ids:
        checked_slug(case_id.partition("/")[2], error)
        # on some file systems, upper and lower case are the same name
        other = folders.setdefault(case_id.casefold(), case_id)
        if other != case_id:
            raise error(
                f"trigger: the ids of '{other}' and '{case_id}' differ only in upper and lower "
                "case, so they can share a folder; give one another id."
            )


def read_run(folder: Path) -> TriggerPlan:
    """Read the plan of a run from its ``run.json``; raise if there is no such run."""
    file = folder / "run.json"
    there = sorted(path.parent.name for path in folder.parent.glob("*/run.json"))
    allowed = f"there in {folder.parent}"
    require_known("trigger: there is no run", folder.name, there, StudyError, label=allowed)
    data = read_own(file, what="description of a run", error=StoreError)
    try:
        plan = TriggerPlan.model_validate_json(data)
    except ValidationError as cause:
        message = f"{file}: not the description of a run ({first_fault(cause)})."
        raise StoreError(message) from cause
    slugs = [*plan.cases.values(), *plan.controls.values(), *plan.neighbours]
    require_ids([*plan.cases, *plan.controls, *plan.judged, *slugs], str(file), StoreError)
    cases = plan.cases | plan.controls
    _require_folders(cases, StoreError)
    for case_id, skill in cases.items():
        case_folder(folder, skill, case_id)
    return plan


def work_run(folder: Path, *, progress: bool = True) -> JsonObject:
    """Ask, grade and judge the open cases of a run; write and return the summary.

    After an error, Ctrl-C or a crash, the same call resumes the run. It does not repeat
    questions that have an answer, and pays for no judgement twice.

    Raises
    ------
    AgentError
        If no further question could succeed.
    StoreError
        If another process is working on the run.
    """
    plan, store = read_run(folder), RunStore(folder / "store")
    agent = _CaseAgent(folder, plan, store, progress)
    options: Any = {"concurrency": plan.concurrency, "progress": progress}
    selected = plan.cases.keys() | plan.controls.keys()
    suites = [
        suite.model_copy(update={"cases": tuple(c for c in suite.cases if c.case_id in selected)})
        for suite in store.suites.values()
    ]
    with store.writer():
        try:
            run(store, suites, agents=[agent], conditions=["skill"], **options)
            place = partial(case_folder, folder)
            graders: list[Any] = [TraceGrader(place)]
            if plan.judged:
                who = plan.judge_program or plan.program
                model = plan.judge_model or (plan.model if who == plan.program else None)
                judge = TraceJudge(
                    _program_agent(who, model),
                    place,
                    plan.judged,
                    timeout=plan.judge_timeout_s,
                    rubric_schema=plan.rubric_schema,
                )
                graders.append(judge)
            grade(store, graders=graders, **options)
        finally:
            summary = summarise(folder, plan)
            write_json(folder / "summary.json", summary)
            replace_file(folder / "summary.md", _summary_markdown(summary).encode())
    return summary


def _program_agent(name: Program, model: str | None) -> CliAgent:
    if name == "claude":
        return CliAgent.claude(model)
    # codex 0.169 reads skills from `.codex/skills` in the home folder and in the working folder
    return CliAgent.codex(model, skill_in="home", skills_folder=".codex/skills")


def case_folder(run: Path, skill: str, case_id: str) -> Path:
    """Return the folder of a case, which holds its artefacts; it is always below ``work``.

    Raises
    ------
    StoreError
        If the skill or the case cannot name a folder, or a folder on the way is a link. A run from
        somebody else could otherwise empty any folder of this machine.
    """
    return folder_below(run, "work", skill, case_id.partition("/")[2], error=StoreError)


class _CaseAgent(BaseAgent):
    """An agent that runs a program within the limits of each case and keeps the program's files."""

    takes_files = installs_folders = True

    def __init__(self, run: Path, plan: TriggerPlan, store: RunStore, progress: bool) -> None:
        self._run, self._plan, self._progress = run, plan, progress
        self._agent = agent = _program_agent(plan.program, plan.model)
        self._cases = cases_by_id(store.suites.values())
        self.name, self.model, self.family = agent.name, agent.model, agent.family
        self.settings = settings_json(
            **json.loads(agent.settings), neighbours=list(plan.neighbours), timeout_s=plan.timeout_s
        )
        self._beside = [installed_skill(store, slug) for slug in plan.neighbours]

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Send the prompt of a case, write its artefacts and return the reply."""
        cell, skill = about.get("cell"), about.get("skill")
        assert cell is not None and skill is not None
        case = self._cases[cell.case_id]
        folder = case_folder(self._run, skill.slug, case.case_id)
        self._write_progress(case, skill, status="running")
        bounds = Bounds(
            sandbox=case.extra.get("sandbox", SANDBOX),
            timeout=case.extra.get("timeout_s") or case.timeout_seconds or self._plan.timeout_s,
            schema=case.extra.get("schema"),
            neighbours=tuple(other for other in self._beside if other.slug != skill.slug),
            keep=folder,
        )
        reply = await self._agent.ask(prompt, skill=skill, cell=cell._replace(bounds=bounds))
        # grade in a thread, because a slow regular expression would otherwise block the other cases
        passed = await asyncio.to_thread(write_case, folder, case, skill, reply, self._plan, bounds)
        self._write_progress(case, skill, status="completed", **{"pass": passed})
        if self._progress:
            tqdm.write(redact(case_line(skill, case, reply, passed)), file=sys.stderr)
        return reply

    def _write_progress(self, case: Case, skill: Skill, **state: Any) -> None:
        """Append a line to ``progress.jsonl``: a case has begun, or it is done."""
        if not self._plan.write_progress or case.case_id in self._plan.controls:
            return
        row = {
            "ts": datetime.now(UTC).isoformat(),
            "skill": skill.name or skill.slug,
            "skill_slug": skill.slug,
            "case_id": case.own_id,
            "case_dir": str(case_folder(self._run, skill.slug, case.case_id)),
            **state,
        }
        with _own_file(self._run / "progress.jsonl").open("ab") as stream:
            stream.write(redact_json(orjson.dumps(row)) + b"\n")

    async def aclose(self) -> None:
        await self._agent.aclose()


def case_line(skill: Skill, case: Case, reply: Reply, passed: bool | None) -> str:
    """Return one line on a case that is done: its result, the skills that fired and its time."""
    result = "control" if case.prompt_kind == CONTROL else _WORDS[passed]
    fired = "invocations unknown"
    if reply.invoked is not None:
        fired = f"fired: {', '.join(reply.invoked) or 'none'}"
    parts = [result, fired]
    parts += [f"{reply.seconds:z.0f} s"] if reply.seconds is not None else []
    parts += [" ".join(reply.error.split())[:200]] if reply.error else []
    return f"{skill.slug}/{case.own_id}: {'; '.join(parts)}"


def write_case(
    folder: Path, case: Case, skill: Skill, reply: Reply, plan: TriggerPlan, bounds: Bounds
) -> bool | None:
    """Grade a reply by rules; write ``final.txt``, ``meta.json`` and ``grade.json`` of its case.

    Return whether all checks of the case passed; None if this is unknown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = skill.name or skill.slug
    commands = commands_of(trace_of(reply))
    results = grade_trace(reply, case, name, files_left(folder))
    meta = {
        "skill": {"name": name, "slug": skill.slug},
        "case": {
            "id": case.own_id,
            **{name: getattr(case, name) for name in ("should_trigger", "prompt", "prompt_kind")},
        },
        "suite": plan.suite,
        "run": {
            "agent": plan.program,
            **{name: getattr(reply, name) for name in _FROM_REPLY},
            "sandbox": bounds.sandbox,
            "timeout_s": bounds.timeout,
        },
    }
    passed = all_of([result.passed for result in results])
    deterministic = {
        "exit_code": reply.exit_code,
        "duration_s": reply.seconds,
        "command_count_total": None if commands is None else len(commands),
        "command_count_effective": None if commands is None else len(effective(commands)),
        "usage": usage(reply),
        "has_final_message": bool((reply.answer or "").strip()),
        "pass": passed,
    }
    checks = [
        {"id": c.check.check_id, "goal": c.check.goal, "pass": c.passed, "notes": c.note}
        for c in results
    ]
    graded = {"deterministic": deterministic, "case_checks": checks}
    # the program under test may have written a judgement itself, which must not count
    remove_entry(folder, JUDGEMENT)
    write_file(folder, "final.txt", (reply.answer or "").encode())
    for file, content in (("meta.json", meta), ("grade.json", graded)):
        write_file(folder, file, orjson.dumps(content, option=orjson.OPT_INDENT_2))
    return passed


def summarise(folder: Path, plan: TriggerPlan) -> JsonObject:
    """Summarise a run from its artefacts; the fields are those of trigger-evals.md.

    The field ``pass`` of a case is False if a check or the judgement failed, and None (unknown) if
    nothing failed but something is missing: the case was not asked, the infrastructure failed, a
    check could not be decided, or there is no judgement. ``controls`` has the rows of
    `skillcomp.triggers.controls`. If that finds the instrument dead for a skill, ``pass`` is None
    for all cases of the skill. ``unknown_count`` is the number of cases with None.
    """
    store = RunStore(folder / "store")
    table = triggers.controls(frames.invocations(store), frames.cases(store))
    table = table.astype(object).where(table.notna(), None)
    by_skill: dict[str, Any] = {row["offered"]: row for row in table.to_dict("records")}
    for case_id, slug in plan.controls.items():
        meta = json_object(case_folder(folder, slug, case_id) / "meta.json")
        if meta and case_id.endswith("/control-call"):
            unknown = {"offered": slug, "dead": None, "note": triggers.UNKNOWN_CALL.format(slug)}
            control = by_skill.setdefault(slug, unknown)
            if control["dead"] is None:  # say why it is unknown whether a call fired
                reason = meta.get("run", {}).get("error") or "the program does not report it"
                control["note"] += f" ({reason})"
    controls = list(by_skill.values())
    dead = [row["offered"] for row in controls if row["dead"]]
    rows = []
    for case_id, skill in plan.cases.items():
        place = case_folder(folder, skill, case_id)
        meta, graded = json_object(place / "meta.json"), json_object(place / "grade.json")
        judge = json_object(place / JUDGEMENT) if case_id in plan.judged else None
        deterministic = graded.get("deterministic")
        parts = [deterministic["pass"] if deterministic else None]
        notes = [meta.get("run", {}).get("error") if meta else NOT_ASKED]
        if judge is not None:
            parts.append(judge.get("overall_pass"))
            notes.append(f"judge score={judge['score']}" if judge else "not judged")
        notes += [NOT_FIRED] if skill in dead else []
        row = {
            "skill": meta.get("skill", {}).get("name", skill),
            "skill_slug": skill,
            "case_id": case_id.partition("/")[2],
            "should_trigger": meta.get("case", {}).get("should_trigger"),
            "pass": None if skill in dead else all_of(parts),
            "deterministic": deterministic,
            "judge": judge or None,
            "case_dir": str(place),
            "notes": "; ".join(filter(None, notes)),
        }
        rows.append(row)
    passed = [row["pass"] for row in rows]
    return {
        "run_id": plan.run_id,
        "suite": plan.suite,
        "judge": bool(plan.judged),
        "skills": len(set(plan.cases.values())),
        "cases": len(rows),
        "pass_count": passed.count(True),
        "fail_count": passed.count(False),
        "unknown_count": passed.count(None),
        "controls": controls,
        "dead": dead,
        # the controls that did not work or may not have worked
        "warnings": [control["note"] for control in controls if control["note"]],
        "rows": rows,
    }


def _summary_markdown(summary: JsonObject) -> str:
    lines = [
        f"# Trigger run {summary['run_id']} ({summary['suite']})",
        "",
        *(f"**{_escaped(line[:1].upper() + line[1:])}.**\n" for line in summary["warnings"]),
        f"{summary['pass_count']} passed, {summary['fail_count']} failed, "
        f"{summary['unknown_count']} unknown, of {summary['cases']} cases.",
        "",
        "| skill | case | result | failed checks | notes |",
        "|---|---|---|---|---|",
    ]
    for row in summary["rows"]:
        graded = json_object(Path(row["case_dir"]) / "grade.json").get("case_checks", [])
        failed = ", ".join(check["id"] for check in graded if check["pass"] is False)
        cells = (row["skill_slug"], row["case_id"], _WORDS[row["pass"]], failed, row["notes"])
        lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def run_state(folder: Path) -> JsonObject:
    """Return the progress of a run, even while it is running; write nothing.

    Returns
    -------
    dict
        - run_id, suite: name of the run, and its set of prompts.
        - cases, answered, pass_count, fail_count, unknown_count: numbers of cases.
        - dead: skills that did not fire although a prompt called them by name.
        - warnings: messages about control prompts that did not work, or may not have worked.
        - judged: number of judged cases, such as "2 of 3".
        - state: running, done or stopped.
        - at_work: the process that is working on the run, or None.
    """
    plan, store = read_run(folder), RunStore(folder / "store")
    answered = plan.cases.keys() - unanswered_cases(store)
    summary = summarise(folder, plan)
    judged = sum(row["judge"] is not None for row in summary["rows"])
    who = active_writer(store.path)
    is_done = len(answered) == len(plan.cases) and judged == len(plan.judged)
    names = ("run_id", "suite", "cases", "pass_count", "fail_count", "unknown_count")
    return {
        **{name: summary[name] for name in (*names, "dead", "warnings")},
        "answered": len(answered),
        "judged": f"{judged} of {len(plan.judged)}",
        "state": "running" if who else "done" if is_done else "stopped",
        "at_work": who,
    }


def start_in_background(folder: Path) -> int:
    """Resume a run in a process that survives the end of the terminal; return its process id."""
    read_run(folder)
    store = folder / "store"
    if who := active_writer(store):
        raise StudyError(f"trigger: the run '{folder.name}' is at work already: {who}.")
    # -P keeps Python from importing from the working folder, which may hold untrusted code.
    command = [sys.executable, "-P", "-c", "from skillcomp.cli import main; main()"]
    command += ["trigger", "run", "--resume", "--run-id", folder.name, "--quiet"]
    command += ["--artifacts", str(folder.parent.resolve())]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with _own_file(folder / "runner.log").open("ab") as log:
        process = Popen(
            command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True, env=env
        )
    # from the moment at which it holds the store, the process is shown to be at work
    while process.poll() is None and not active_writer(store):
        time.sleep(0.05)
    # without a returncode, Popen would warn that the process is still running
    process.returncode = 0
    return process.pid


def _own_file(file: Path) -> Path:
    """Return a path to append to; raise if another file would grow, because it is a link."""
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise StoreError(f"{file}: not a regular file; remove it to go on.")
    return file
