"""Trigger runs: each prompt asked of a program with skills installed, graded, and kept as files.

A run is a folder with ``run.json`` (what was asked for), ``store/`` (a `RunStore`, which says what
is done) and the source's tree of artefacts: ``work/<skill>/<case>/`` for each case,
``summary.json`` and ``summary.md`` for all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Unpack

import orjson

from skillcomp.errors import SkillcompError, StoreError, StudyError, SuiteError, require_known
from skillcomp.io.files import checked_slug, json_or_none, write_json
from skillcomp.io.skills import FILE_NAME
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.io.trigger_suites import FILE
from skillcomp.live.agents.agent import PAID, Asked, Bounds, Reply, settings_json
from skillcomp.live.agents.cli import CliAgent
from skillcomp.live.agents.process import files_left, remove_entry, write_file
from skillcomp.live.concurrency import run_sync
from skillcomp.live.engine import Options
from skillcomp.live.grade import grade
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
from skillcomp.live.plan import make_plan
from skillcomp.live.run import AnswerWork
from skillcomp.live.status import writer
from skillcomp.records import Case, Skill, Suite

Which = Literal["smoke", "explicit", "implicit", "negative", "all"]
Program = Literal["claude", "codex"]
SANDBOX = "workspace-write"  # of a case that names none, as in the source
_UNKNOWN_COLUMN = "is not a known column"


@dataclass(frozen=True)
class TriggerPlan:
    """What a trigger run asks for; a run's ``run.json``.

    Attributes
    ----------
    run_id, suite : str
        Name of the run; which of the prompts.
    cases : dict of str to str
        Skill of each selected case_id.
    judged : tuple of str
        The case_ids that the rubric judge looks at.
    neighbours : tuple of str
        Skills that are installed beside the one under test.
    program, model, judge_program, judge_model : str or None
        Who is asked, and who judges.
    timeout_s, judge_timeout_s : float
        Seconds of a case that names none, and of a judging.
    concurrency : int
        Programs at once.
    write_progress : bool
        Whether ``progress.jsonl``, ``current.json`` and ``summary.partial.json`` are written.
    """

    run_id: str
    suite: Which
    cases: dict[str, str]
    judged: tuple[str, ...]
    neighbours: tuple[str, ...]
    program: Program
    model: str | None = None
    judge_program: Program | None = None
    judge_model: str | None = None
    timeout_s: float = 180.0
    judge_timeout_s: float = 180.0
    concurrency: int = 2
    write_progress: bool = False


def chosen_cases(suite: Suite, which: Which, only: Sequence[str], most: int | None) -> list[Case]:
    """Return the cases of a suite that a run asks, in their order.

    ``smoke`` is the first explicit and the first negative one.
    """
    cases = list(suite.cases)
    if which == "smoke":
        kinds = ("explicit", "negative")
        firsts = (next((c for c in cases if c.prompt_kind == kind), None) for kind in kinds)
        cases = [case for case in firsts if case is not None]
    elif which != "all":
        cases = [case for case in cases if case.prompt_kind == which]
    if only:
        cases = [case for case in cases if case.case_id.partition("/")[2] in only]
    return cases if most is None else cases[:most]


def prepare_run(
    folder: Path,
    skills: Path,
    evals: Path,
    *,
    which: Which = "smoke",
    only_skills: Sequence[str] = (),
    only_cases: Sequence[str] = (),
    max_cases: int | None = None,
    judge: bool | None = None,
    neighbours: Sequence[str] | None = None,
    program: Program = "claude",
    **options: Any,
) -> TriggerPlan:
    """Write down what a run asks for, with copies of its skills and prompts; nothing is asked.

    Parameters
    ----------
    folder : path
        Of the run; its name is the run-id. It may not be there yet.
    skills, evals : path
        Where folders with a SKILL.md and folders with a prompts.csv stand.
    which : str
        Which prompts: smoke, explicit, implicit, negative or all.
    only_skills, only_cases : sequence of str
        Slugs and case ids; all when empty.
    max_cases : int, optional
        Of each skill.
    judge : bool, optional
        Whether the rubric judge looks at all cases or at none; as the column says when not given.
    neighbours : sequence of str, optional
        Slugs of skills installed beside; all others of `skills` when not given.
    program : str
        Who is asked.
    **options
        Further fields of `TriggerPlan`.

    Raises
    ------
    StudyError
        When the run is there already, or nothing is selected.
    SuiteError
        When a prompts.csv has problems other than unknown columns: a check that was not read would
        pass in silence.
    """
    if (folder / "run.json").exists():
        raise StudyError(f"trigger: the run '{folder.name}' is there already; --resume goes on.")
    if (folder / "store").exists():
        raise StudyError(
            f"trigger: {folder} was broken off before anything was asked; remove it, or give "
            "another --run-id."
        )
    found = {file.parent.name: file for file in sorted(skills.rglob(FILE_NAME))}
    suites = {file.parent.name: file for file in sorted(evals.glob(f"*/{FILE}"))}
    wanted = only_skills or suites
    asked = {slug: read_suite(file) for slug, file in suites.items() if slug in wanted}
    ids = [case.case_id.partition("/")[2] for suite in asked.values() for case in suite.cases]
    for what, names, there in (
        ("skill", only_skills, suites),
        ("neighbour", neighbours or (), found),
        ("case", only_cases, ids),
    ):
        for name in names:
            require_known(f"trigger: there is no {what}", name, there, StudyError, label="there")
    store, picked = RunStore(folder / "store"), dict[str, list[Case]]()
    for slug, suite in asked.items():
        if not (some := chosen_cases(suite, which, only_cases, max_cases)):
            continue
        _require_sound(suite, some, suites[slug])
        what = f"trigger: {suites[slug]}: {skills} has no skill"
        require_known(what, slug, found, StudyError, label="there")
        picked[slug] = some
    if not picked:
        hint = " --case chooses among those of --suite; --suite all holds every case."
        raise StudyError(
            f"trigger: no case is selected (suite {which}, {len(suites)} prompts.csv in {evals})."
            + hint * bool(only_cases)
        )
    beside = tuple(found) if neighbours is None else tuple(neighbours)
    with store.writer():
        try:
            for slug in dict.fromkeys((*picked, *beside)):
                store.add_skill(found[slug])
            for slug in picked:
                store.add_suite(suites[slug])
        except SkillcompError:
            shutil.rmtree(folder / "store")  # the name stays free
            raise
    cases = [(slug, case) for slug, some in picked.items() for case in some]
    judged = tuple(
        c.case_id for _, c in cases if (c.extra.get("judge", False) if judge is None else judge)
    )
    skill_of = {case.case_id: slug for slug, case in cases}
    plan = TriggerPlan(folder.name, which, skill_of, judged, beside, program, **options)
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    write_json(folder / "run.json", {**asdict(plan), "skillcomp": version("skillcomp")})
    return plan


def _require_sound(suite: Suite, cases: Sequence[Case], file: Path) -> None:
    wrong = [one for one in suite.problems if _UNKNOWN_COLUMN not in one]
    if wrong:
        listed = "\n".join(f"- {one}" for one in wrong)
        raise SuiteError(f"{file}: what cannot be read cannot be checked:\n{listed}")
    for case in cases:
        checked_slug(case.case_id.partition("/")[2], SuiteError)


def read_run(folder: Path) -> TriggerPlan:
    """Return what a run asked for."""
    file = folder / "run.json"
    there = sorted(one.parent.name for one in folder.parent.glob("*/run.json"))
    told = f"there in {folder.parent}"
    require_known("trigger: there is no run", folder.name, there, StudyError, label=told)
    try:
        given = orjson.loads(file.read_bytes())
        given.pop("skillcomp", None)
        lists = {name: tuple(given[name]) for name in ("judged", "neighbours")}
        return TriggerPlan(**{**given, **lists})
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as cause:
        raise StoreError(f"{file}: not the description of a run ({cause!r}).") from cause


def work_run(folder: Path, *, progress: bool = True) -> dict[str, Any]:
    """Ask what is open, grade it, have it judged, and write the summary; return the summary.

    Called again after an error, Ctrl-C or a crash it goes on where it was: no case with an answer
    is asked again, and no judging that was paid for is repeated.

    Raises
    ------
    AgentError
        When no further question could succeed.
    StoreError
        When another process is at work on the run.
    """
    plan, store = read_run(folder), RunStore(folder / "store")
    agent = _CaseAgent(folder, plan, store)
    suites = [
        suite.model_copy(update={"cases": tuple(c for c in suite.cases if c.case_id in plan.cases)})
        for suite in store.suites.values()
    ]
    options = Options(plan.concurrency, None, progress)
    try:
        with store.writer():
            settings: dict[str, Any] = {"conditions": ["skill"], "repeats": 1, "seed": 0}
            cells = make_plan(store, suites, [agent], **settings)
            work = AnswerWork(store, cells, [agent], frozenset(), settings, options)
            run_sync(partial(work.main, None))
        work.warn()
        if store.table("attempts").num_rows:
            place = partial(case_folder, folder)
            graders: list[Any] = [TraceGrader(place)]
            if plan.judged:
                who = plan.judge_program or plan.program
                model = plan.judge_model or (plan.model if who == plan.program else None)
                asked, seconds = _program(who, model), plan.judge_timeout_s
                graders.append(TraceJudge(asked, place, plan.judged, timeout=seconds))
            grade(store, graders=graders, concurrency=plan.concurrency, progress=progress)
    finally:
        summary = summarise(folder, plan)
        write_json(folder / "summary.json", summary)
        (folder / "summary.md").write_text(_markdown(summary), encoding="utf-8")
    return summary


def _program(name: Program, model: str | None) -> CliAgent:
    if name == "claude":
        return CliAgent.claude(model)
    # what codex 0.169 reads; it finds the same skills in the home as in the working folder
    return CliAgent.codex(model, skill_in="home", skills_folder=".codex/skills")


def case_folder(run: Path, skill: str, case_id: str) -> Path:
    """Return where the artefacts of a case stand."""
    return run / "work" / skill / case_id.partition("/")[2]


class _CaseAgent:
    """A program that is asked each case within the case's bounds, and whose work is kept."""

    def __init__(self, run: Path, plan: TriggerPlan, store: RunStore) -> None:
        self._run, self._plan = run, plan
        self._program = _program(plan.program, plan.model)
        self._cases = {c.case_id: c for suite in store.suites.values() for c in suite.cases}
        self.name, self.model = self._program.name, self._program.model
        self.family = self._program.family
        known = json.loads(self._program.settings)
        self.settings = settings_json(
            **known, neighbours=list(plan.neighbours), timeout_s=plan.timeout_s
        )
        self.takes_files, self.installs_folders = True, True
        self._beside: dict[str, Skill] = {}
        for slug in plan.neighbours:
            path = (store.path / store.skills[slug].path).resolve()
            self._beside[slug] = store.skills[slug].model_copy(update={"path": str(path)})

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Ask one case, grade what came by its checks, and keep all of it; see `Agent.ask`."""
        cell, skill = about.get("cell"), about.get("skill")
        assert cell is not None and skill is not None
        case = self._cases[cell.case_id]
        folder = case_folder(self._run, skill.slug, case.case_id)
        self._current(case, skill, folder, "running")
        bounds = Bounds(
            sandbox=case.extra.get("sandbox", SANDBOX),
            timeout=case.extra.get("timeout_s", self._plan.timeout_s),
            schema=case.extra.get("schema"),
            neighbours=tuple(s for slug, s in self._beside.items() if slug != skill.slug),
            keep=folder,
        )
        reply = await self._program.ask(prompt, skill=skill, cell=cell._replace(bounds=bounds))
        folder.mkdir(parents=True, exist_ok=True)
        write_case(folder, case, skill, reply, self._plan, bounds)
        self._current(case, skill, folder, "completed")
        return reply

    def _current(self, case: Case, skill: Skill, folder: Path, status: str) -> None:
        if not self._plan.write_progress:
            return
        row = {
            "ts": datetime.now(UTC).isoformat(),
            "skill": skill.name or skill.slug,
            "skill_slug": skill.slug,
            "case_id": case.case_id.partition("/")[2],
            "case_dir": str(folder),
        }
        if status == "completed":
            row["pass"] = _load(folder / "grade.json")["deterministic"]["pass"]
            with (self._run / "progress.jsonl").open("ab") as stream:
                stream.write(orjson.dumps(row) + b"\n")
            done = {k: v for k, v in summarise(self._run, self._plan).items() if k != "rows"}
            write_json(self._run / "summary.partial.json", {**done, "last": row})
        write_json(self._run / "current.json", {**row, "status": status})

    async def aclose(self) -> None:
        """Close the program's connections."""
        await self._program.aclose()


def write_case(
    folder: Path, case: Case, skill: Skill, reply: Reply, plan: TriggerPlan, bounds: Bounds
) -> None:
    """Write ``final.txt``, ``meta.json`` and ``grade.json`` of a case, in the source's shapes."""
    name = skill.name or skill.slug
    commands = commands_of(trace_of(reply))
    found = grade_trace(reply, case, name, files_left(folder))
    meta = {
        "skill": {"name": name, "slug": skill.slug},
        "case": {
            "id": case.case_id.partition("/")[2],
            "should_trigger": case.should_trigger,
            "prompt": case.prompt,
            "prompt_kind": case.prompt_kind,
        },
        "suite": plan.suite,
        "run": {
            "agent": plan.program,
            "model": reply.model,
            "status": reply.status,
            "error": reply.error,
            "offered": reply.offered,
            "invoked": reply.invoked,
            "sandbox": bounds.sandbox,
            "timeout_s": bounds.timeout,
        },
    }
    deterministic = {
        "exit_code": reply.exit_code,
        "duration_s": reply.seconds,
        "command_count_total": None if commands is None else len(commands),
        "command_count_effective": None if commands is None else len(effective(commands)),
        "usage": usage(reply),
        "has_final_message": bool((reply.answer or "").strip()),
        "pass": all_of([one.passed for one in found]),
    }
    checks = [
        {"id": c.check.check_id, "goal": c.check.goal, "pass": c.passed, "notes": c.note}
        for c in found
    ]
    graded = {"deterministic": deterministic, "case_checks": checks}
    remove_entry(folder, JUDGEMENT)  # what the program left under this name is none
    write_file(folder, "final.txt", (reply.answer or "").encode())
    for file, content in (("meta.json", meta), ("grade.json", graded)):
        write_file(folder, file, orjson.dumps(content, option=orjson.OPT_INDENT_2))


def summarise(folder: Path, plan: TriggerPlan) -> dict[str, Any]:
    """Return the summary of a run from its artefacts, in the source's shape.

    ``pass`` of a case is null where it has not been asked, the infrastructure failed, a check
    cannot be told, or a judging is missing; such cases are counted in ``unknown_count``.
    """
    rows = []
    for case_id, skill in plan.cases.items():
        place = case_folder(folder, skill, case_id)
        meta, graded = _load(place / "meta.json"), _load(place / "grade.json")
        judge = _load(place / JUDGEMENT) if case_id in plan.judged else None
        deterministic = graded.get("deterministic")
        parts = [deterministic["pass"] if deterministic else None]
        notes = (meta.get("run", {}).get("error") or "") if meta else "not asked yet"
        if judge is not None:
            parts.append(judge.get("overall_pass"))
            told = f"judge score={judge['score']}" if judge else "not judged"
            notes = "; ".join(filter(None, (notes, told)))
        rows.append(
            {
                "skill": meta.get("skill", {}).get("name", skill),
                "skill_slug": skill,
                "case_id": case_id.partition("/")[2],
                "should_trigger": meta.get("case", {}).get("should_trigger"),
                "pass": all_of(parts),
                "deterministic": deterministic,
                "judge": judge or None,
                "case_dir": str(place),
                "notes": notes,
            }
        )
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
        "rows": rows,
    }


def _markdown(summary: Mapping[str, Any]) -> str:
    words = {True: "PASS", False: "FAIL", None: "unknown"}
    lines = [
        f"# Trigger run {summary['run_id']} ({summary['suite']})",
        "",
        f"{summary['pass_count']} passed, {summary['fail_count']} failed, "
        f"{summary['unknown_count']} unknown, of {summary['cases']} cases.",
        "",
        "| skill | case | result | failed checks | notes |",
        "|---|---|---|---|---|",
    ]
    for row in summary["rows"]:
        graded = _load(Path(row["case_dir"]) / "grade.json").get("case_checks", [])
        failed = ", ".join(check["id"] for check in graded if check["pass"] is False)
        cells = (row["skill_slug"], row["case_id"], words[row["pass"]], failed, row["notes"])
        lines.append("| " + " | ".join(_cell(one) for one in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def run_state(folder: Path) -> dict[str, Any]:
    """Return how far a run has come, also while it runs; nothing is written.

    Returns
    -------
    dict
        run_id, suite, cases, answered, pass_count, fail_count, unknown_count, judged (of the
        judgings wanted, how many are there), state (running, done, stopped) and who is at work.
    """
    plan, store = read_run(folder), RunStore(folder / "store")
    rows = store.table("attempts").select(["case_id", "status"]).to_pylist()
    answered = {row["case_id"] for row in rows if row["status"] in PAID}
    summary = summarise(folder, plan)
    judged = sum(row["judge"] is not None for row in summary["rows"])
    who = writer(store) or _background(folder)
    open_ = len(plan.cases) - len(answered) + len(plan.judged) - judged
    names = ("run_id", "suite", "cases", "pass_count", "fail_count", "unknown_count")
    return {
        **{name: summary[name] for name in names},
        "answered": len(answered),
        "judged": f"{judged} of {len(plan.judged)}",
        "state": "running" if who else "stopped" if open_ else "done",
        "at_work": who,
    }


def start_in_background(folder: Path) -> int:
    """Go on with a run in a process that outlives the terminal; return its number."""
    read_run(folder)
    if who := _background(folder):
        raise StudyError(f"trigger: the run '{folder.name}' is at work already: {who}.")
    # -P: no module is taken from the working folder, which may be a stranger's
    command = [sys.executable, "-P", "-c", "from skillcomp.cli import main; main()"]
    command += ["trigger", "run", "--resume", "--run-id", folder.name, "--quiet"]
    command += ["--artifacts", str(folder.parent.resolve())]
    with (folder / "runner.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    process.returncode = 0  # it outlives us: nobody here waits for it
    (folder / "runner.pid").write_text(f"{process.pid}\n", encoding="utf-8")
    return process.pid


def _background(folder: Path) -> str | None:
    """Return the process that goes on with a run in the background, if it is still there."""
    try:
        pid = int((folder / "runner.pid").read_text())
        os.kill(pid, 0)
        said = Path(f"/proc/{pid}/cmdline")
        if said.exists() and folder.name.encode() not in said.read_bytes():
            return None  # the number belongs to another process by now
    except (OSError, ValueError):
        return None
    return f"process {pid}"


def _load(file: Path) -> dict[str, Any]:
    found = json_or_none(file)
    return found if isinstance(found, dict) else {}
