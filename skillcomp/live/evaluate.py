"""Evaluate a skill on its task suite: its pass rate, the change from its original, and a verdict.

The result is a file, called the artefact. Its fields and rules come from execution-evaluator.md,
one of the documents that this package implements; intervals and some other fields are additions.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from os.path import exists, isdir
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from skillcomp.errors import StudyError, SuiteError, literal, plural, require_known
from skillcomp.io.files import (
    JsonObject,
    as_number,
    as_object,
    checked_slug,
    digest,
    is_below,
    json_object,
    object_at,
    read_json,
    write_json,
)
from skillcomp.io.skills import FILE_NAME, read_skill
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.live.agents.agent import (
    Agent,
    BaseAgent,
    Reply,
    agent_version,
    settings_json,
    whole_hash,
)
from skillcomp.live.graders.task_graders import SuiteGrader
from skillcomp.live.run import grade, run
from skillcomp.planning.cost import cost_estimate, cost_total
from skillcomp.records import Skill, Suite
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.results import Interval

SCHEMA_VERSION = "1.0"
# If the baseline passes a smaller share of the tasks than this, the verdict is ``error``.
FEWEST_PASSES = 0.2
AGE = timedelta(days=7)  # A cached baseline is used only if it is younger than this.
_DIGITS = 4  # Rates are rounded to this number of decimals, as in execution-evaluator.md.
_MAIN = ("skill", "previous")  # The conditions of the candidate and of the baseline.
Results = Mapping[str, JsonObject]  # The result of each task, by task id.


@dataclass(frozen=True)
class Candidate:
    """The skill to evaluate, its original, and fields for the artefact (the file with the result).

    Attributes
    ----------
    run_id : str
        Name of the evaluation; the artefact's file is named after it.
    skill : Skill
        The skill; its path is empty if it has no file.
    original : Skill or None
        The skill before the change; None if there is no skill to compare with.
    fields : dict
        Fields that are copied to the artefact, such as candidate_id, candidate_score and target.
    score : float or None
        Score of the candidate in the ranking; a candidate with a score below a threshold is
        skipped. It is None without a ranking (standalone mode); no skill is skipped then.
    """

    run_id: str
    skill: Skill
    original: Skill | None
    fields: JsonObject
    score: float | None = None


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def read_task_suite(path: Path) -> Suite:
    """Read the task suite of an evaluation; raise if the file is missing or not a task suite."""
    if not path.exists():
        raise SuiteError(f"Task suite not found: {path}")
    suite = read_suite(path)
    if suite.kind != "tasks":
        raise SuiteError(f"{path}: not a task suite; expected skill_id, version and tasks.")
    return suite


def read_ranking(
    path: Path, candidate_id: str, slug: str, *, original_anywhere: bool = False
) -> Candidate:
    """Read a candidate from a ranking artefact, with its score and its original.

    Parameters
    ----------
    path : Path
        The ranking artefact.
    candidate_id : str
        The id of the candidate.
    slug : str
        The slug of the skill.
    original_anywhere : bool
        Whether the original may be outside the folder of the artefact. Its text is sent to the
        agent, so a ranking from somebody else could otherwise send any file of this machine.

    Raises
    ------
    StudyError
        If a file cannot be read; if the candidate, its text, its score or the path of its original
        is missing; or if the original is outside the folder of the artefact and
        `original_anywhere` is False.
    """
    ranking = read_json(path, error=StudyError)
    rows = as_object(ranking).get("scored_candidates")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise StudyError(f"{path}: expected an object with a list 'scored_candidates'.")
    ids = [str(row.get("id")) for row in rows]
    require_known(f"{path}: there is no candidate", candidate_id, ids, StudyError, label="there")
    row = rows[ids.index(candidate_id)]
    what, score = f"{path}: candidate '{candidate_id}'", row.get("score")
    if as_number(score) is None:
        raise StudyError(f"{what}: score: found {score!r}; expected a number.")
    text = row.get("content")
    if not isinstance(text, str) or not text.strip():
        raise StudyError(f"{what}: content: missing or empty; expected the text of a SKILL.md.")
    target = ranking.get("target")
    path_text = target.get("path") if isinstance(target, dict) else target
    if not isinstance(path_text, str) or not path_text:
        raise StudyError(f"{path}: target: found {target!r}; expected the path of the original.")
    places = [Path(path_text), path.parent / path_text]
    place = next(filter(exists, places), places[0])
    original_file = place / FILE_NAME if isdir(place) else place
    # `read_skill` reports a missing file
    if exists(original_file) and not (original_anywhere or is_below(original_file, path.parent)):
        raise StudyError(
            f"{path}: target: {literal(path_text)} is outside the folder of the ranking; nothing "
            "was read. --original-anywhere allows it."
        )
    fields = {
        "lane": ranking.get("lane", "generic-skill"),
        "source_ranking_artifact": str(path),
        "candidate_id": candidate_id,
        "candidate_score": score,
        "target": target,
        "next_step": "gate_decision",
        "next_owner": "gate",
    }
    run_id = checked_slug(str(ranking.get("run_id") or path.stem), StudyError)
    original = read_skill(original_file).model_copy(update={"slug": slug})
    return Candidate(run_id, Skill(slug=slug, text=text, body=text), original, fields, float(score))


def standalone(suite: Suite, skill: Path, original: Path | None) -> Candidate:
    """Return a candidate without a ranking: a skill and, optionally, its original."""
    before = read_skill(original).model_copy(update={"slug": suite.skill}) if original else None
    run_id = checked_slug(f"standalone-{suite.skill}", StudyError)
    fields = {"lane": "standalone", "skill_path": str(skill)}
    return Candidate(run_id, read_skill(skill), before, fields)


class MockAgent(BaseAgent):
    """An agent with a fixed answer, to test a setup without asking a model."""

    name = "mock"
    model: str | None = "mock"
    family: str | None = "mock"
    settings = settings_json(mock=True)
    is_recording = True  # no budget counts fixed answers, because they are free

    async def ask(self, prompt: str, **about: Any) -> Reply:
        """Return the fixed answer."""
        return Reply(answer="mock: nothing was asked", model="mock", cost_usd=0.0, seconds=0.0)


@dataclass
class Evaluation:
    """One evaluation, which runs a study in a store of its own and makes the artefact.

    Parameters
    ----------
    path : Path
        File of the task suite.
    candidate : Candidate
        The skill to evaluate.
    agent, judge : Agent
        The agent that does the tasks, and the agent that scores answers by a rubric. To test a
        setup, both are a `MockAgent`.
    state_root : Path
        Folder for stores. The study is stored below it in ``evaluations/<run_id>-<hash>``; the hash
        covers all settings and skills, so the same evaluation resumes after an interruption.
    pass_k : int
        Number of attempts for each task and condition.
    cache : Path or None
        Folder for cached baselines; None to cache none.
    mock : bool
        Whether to give fixed answers and pass all of them, to test a setup.
    trust : bool
        Whether to run tests without a sandbox if no sandbox is available.
    without_skill : bool
        Whether the agent also does the tasks without any skill.
    min_pass_rate : float
        The smallest pass rate, from 0 to 1, with which a skill without an original passes.
    options : dict
        Arguments for `skillcomp.run` and `skillcomp.grade`: budget_usd, concurrency, progress.
    """

    path: Path
    candidate: Candidate
    agent: Agent
    judge: Agent
    state_root: Path
    pass_k: int
    cache: Path | None
    mock: bool
    trust: bool
    without_skill: bool
    min_pass_rate: float
    options: JsonObject

    def __post_init__(self) -> None:
        """Read the suite and open the store; the name of the store depends on all settings."""
        candidate = self.candidate
        self.conditions = ["skill", *(["baseline"] if self.without_skill else [])]
        self.grader = SuiteGrader(self.path, self.judge, trust=self.trust, mock=self.mock)
        self.suite = read_task_suite(self.path)
        self.tasks = [case.own_id for case in self.suite.cases]
        self.notes: list[str] = []
        # all settings that affect the results; the hashes below add the texts of the skills
        settings = getattr(self.grader.agent, "settings", None)
        made_by = {
            "suite": self.suite.sha256,
            "judges": [self.grader.judges, self.grader.version, self.grader.model, settings],
            "agent": [self.agent.name, self.agent.model, self.agent.settings, agent_version()],
            "pass_k": self.pass_k,
            "mock": self.mock,
        }
        who, before = json.dumps(made_by, sort_keys=True), candidate.original
        key = whole_hash(who, candidate.skill.text, before.text if before else "")
        self.store = RunStore(self.state_root / "evaluations" / f"{candidate.run_id}-{key[:12]}")
        self.key = whole_hash(who, before.text) if before else ""  # key of the cached baseline
        self._baseline_name = f"baseline_{self.key[:32]}.json"

    def estimate(self) -> str:
        """Return one line with the number of answers and rubric scores and their estimated cost."""
        conditions, original = list(self.conditions), self.candidate.original
        if original is not None and self._kept_baseline is None:
            conditions.insert(0, "previous")
        plan = cost_estimate(
            self.suite,
            {self.suite.skill: self.candidate.skill.text},
            agents=self.agent,
            graders=self.grader,
            conditions=conditions,
            repeats=self.pass_k,
            loaded={"previous": original} if original else None,
        )
        _, cached = cost_total(plan).to_dict("records")
        n_calls = plan[plan["mode"].eq("cached")].groupby("role")["n_calls"].sum()
        counts = f"{plural(n_calls['agent'], 'answer')}, {plural(n_calls['grader'], 'score')}"
        cost = f"at a cost not known ({cached['note']})"
        if self.mock:
            cost = "all of them mocked: nothing is spent"
        elif math.isfinite(cached["cost_usd"]):
            cost = f"about {cached['cost_usd']:.2f} USD"
        return f"estimate: {counts} by rubric, {cost}"

    def skipped(self, threshold: float) -> JsonObject | None:
        """Return the artefact if the candidate's score is below the threshold, else None."""
        score = self.candidate.score
        if score is None or score >= threshold:
            return None
        return self._make_artefact({}, {}, "skipped", f"score {score} < threshold {threshold}")

    def evaluate(self) -> JsonObject:
        """Get and grade answers to the tasks, first for the baseline; return the artefact.

        The ``duration_ms`` of a result is the time that its answers and their judges took. Judging
        in an earlier, interrupted call is not counted. There is one exception: if this call uses
        stored model replies of that call, the time of these replies is counted.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(self.candidate.skill.path or f"{folder}/{FILE_NAME}")
            if not self.candidate.skill.path:
                file.write_text(self.candidate.skill.text, encoding="utf-8")
            self.store.add_suite(self.path, slug=self.suite.slug)
            self.store.add_skill(file, slug=self.suite.skill)
        if self.mock:
            self.store.annotate(mock=True)
        under: dict[str, Results] = {}  # results by condition and task
        extra: JsonObject = {"store": str(self.store.path)}
        if self.candidate.original is not None:
            kept = self._kept_baseline
            body = kept or self._make_baseline()
            under["previous"] = {row["task_id"]: row for row in body["results"]}
            if self.cache is not None:
                age = now() - datetime.fromisoformat(body["created_at"])
                seconds = age.total_seconds() if kept else None
                extra["baseline_cache"] = {"reused": kept is not None, "age_seconds": seconds}
            rate = _pass_rate(_passed_frame(under)["previous"])
            if rate is None or rate < FEWEST_PASSES:
                reason = f"baseline pass rate {rate} < {FEWEST_PASSES}"
                reason = "no task of the baseline has a verdict" if rate is None else reason
                return self._make_artefact(under, extra, "error", reason)
        under |= self._measure(self.conditions)
        return self._make_artefact(under, extra)

    def _make_baseline(self) -> JsonObject:
        """Measure the baseline; keep it in the cache if every task has a result."""
        rows = list(self._measure(["previous"])["previous"].values())
        body = {
            "key": self.key,
            "created_at": now().isoformat(),
            "mock": self.mock,
            "results": rows,
        }
        if self.cache is not None and not any(row["passed"] is None for row in rows):
            write_json(self.cache / self._baseline_name, {"sha256": _hash_of(body), "body": body})
        return body

    def _measure(self, conditions: Sequence[str]) -> dict[str, Results]:
        """Ask, grade and return the result of each task under each condition."""
        run(
            self.store,
            [self.store.suites[self.suite.slug]],
            agents=[self.agent],
            conditions=conditions,
            repeats=self.pass_k,
            previous=self.candidate.original if "previous" in conditions else None,
            **self.options,
        )
        grade(self.store, graders=[self.grader], **self.options)
        return {condition: self._results_by_task(condition) for condition in conditions}

    def _results_by_task(self, condition: str) -> Results:
        """Return the result of each task; a task passes if one of its attempts does."""
        # the last row counts: an answer or a verdict that is asked for again replaces the first
        verdicts = {row["attempt_id"]: row for row in self.store.rows("verdicts")}
        tries = {
            (row["case_id"], row["repeat"]): row
            for row in self.store.rows("attempts")
            if row["condition"] == condition
        }
        results = {}
        for case in self.suite.cases:
            rows = [tries.get((case.case_id, n), {}) for n in range(1, self.pass_k + 1)]
            judged = [verdicts.get(row.get("attempt_id"), {}) for row in rows]
            attempts = [verdict.get("passed") for verdict in judged]
            known = [verdict for verdict in judged if verdict.get("passed") is not None]
            passed = None if None in attempts and True not in attempts else True in attempts
            wrong = [
                self._why_unknown(row, verdict)
                for row, verdict in zip(rows, judged, strict=True)
                if verdict.get("passed") is None
            ]
            answering = sum(row.get("seconds") or 0.0 for row in rows)
            judging = sum(self.grader.seconds.get(row.get("attempt_id"), 0.0) for row in rows)
            results[case.own_id] = {
                "task_id": case.own_id,
                "passed": passed,
                "score": None if passed is None else max(verdict["score"] for verdict in known),
                "details": next((v["rationale"] for v in known if v["rationale"]), ""),
                "duration_ms": round(1000 * (answering + judging)),
                "error": "; ".join(dict.fromkeys(wrong)) or None,
                "attempts": attempts,
            }
        return results

    def _why_unknown(self, row: JsonObject, verdict: JsonObject) -> str:
        """Return why an attempt has no verdict; `row` is empty if there is no attempt."""
        if not row:
            return "not asked"
        if row["status"] != "ok":
            return f"{row['status']}: {row['error'] or 'no answer'}"
        return verdict.get("rationale") or self.grader.errors.get(row["attempt_id"], "not judged")

    def _make_artefact(
        self, under: Mapping[str, Results], extra: JsonObject, verdict: str = "", reason: str = ""
    ) -> JsonObject:
        """Return the artefact. If `verdict` is empty, the delta or the rate decides it."""
        passed = _passed_frame(under)
        compared = [name for name in _MAIN if name in under]
        complete = passed[compared].dropna()  # the tasks with a result under these conditions
        tasks = list(complete.index)
        if not (verdict or tasks):
            verdict, reason = "error", "no task has a verdict under every condition"
        main = _main_fields(verdict, reason, complete, self.min_pass_rate)
        verdict = main["verdict"]
        rows = {name: list(results.values()) for name, results in under.items()}
        artefact = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.candidate.run_id,
            "stage": "evaluated",
            "status": "success" if verdict in ("pass", "fail") else verdict,
            "created_at": now().isoformat(),
            **self.candidate.fields,
            "task_suite": str(self.path.resolve()),
            "task_suite_skill_id": self.suite.skill,
            "pass_k": self.pass_k,
            **main,
            "evaluation": main,
            "candidate_results": rows.get("skill", []),
            "baseline_results": rows.get("previous"),
            # The following fields are additions: execution-evaluator.md does not have them.
            "mock": self.mock,
            "agent": {"name": self.agent.name, "model": self.agent.model},
            "judge": {"version": self.grader.version, "model": self.grader.model},
            "answers_trusted": self.grader.trusted,
            "pass_rate_needed": None if "previous" in under else self.min_pass_rate,
            "n_tasks": len(tasks),
            "missing_tasks": list(passed.index.difference(tasks, sort=False)),
            "notes": self.notes,
            **extra,
        }
        if self.mock:
            return artefact  # mock results are fixed, so an interval would mean nothing
        if tasks and "skill" in under:
            artefact["interval"] = _interval_fields(complete)
        if "baseline" in under:
            common = passed[["skill", "baseline"]].dropna()
            missing = passed.index.difference(common.index, sort=False)
            artefact |= {
                "no_skill_results": rows["baseline"],
                "no_skill_pass_rate": _pass_rate(common["baseline"]),
                "no_skill_missing_tasks": list(missing),
            }
            if len(common):
                artefact["no_skill_interval"] = _interval_fields(common)
        return artefact

    @cached_property
    def _kept_baseline(self) -> JsonObject | None:
        """The cached baseline; None if it is missing, damaged or too old (see `AGE`)."""
        if self.cache is None or not (file := self.cache / self._baseline_name).exists():
            return None
        entry = json_object(file, self.cache)
        body, age = object_at(entry, "body"), timedelta(0)
        whole = entry.get("sha256") == _hash_of(body) and body.get("key") == self.key
        if whole:
            age = now() - datetime.fromisoformat(body["created_at"])
            if timedelta(0) <= age < AGE:
                return body
        why = f"is {age / timedelta(days=1):z.1f} days old" if whole else "is damaged"
        note = f"baseline cache: {file.name} {why}; it is not used and made anew"
        self.notes.append(note)
        return None


def _hash_of(body: JsonObject) -> str:
    return digest(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))


def _passed_frame(under: Mapping[str, Results]) -> pd.DataFrame:
    """Return whether tasks passed: one row per task, one column per condition; NaN if unknown."""
    columns = {
        name: {task: row["passed"] for task, row in results.items()}
        for name, results in under.items()
    }
    return pd.DataFrame(columns).astype(float)


def _main_fields(
    verdict: str, reason: str, complete: pd.DataFrame, min_pass_rate: float
) -> JsonObject:
    """Return rates, delta and verdict. If `verdict` is empty, the delta or the rate decides it."""
    rates = {name: _pass_rate(passed) for name, passed in complete.items()}
    rate, before = rates.get("skill"), rates.get("previous")
    delta = None
    if rate is not None and before is not None:
        # the mean of the differences; rounding the rates first could change its last digit
        delta = _pass_rate(complete["skill"] - complete["previous"])
    if not verdict:
        good = delta >= 0 if delta is not None else (rate or 0.0) >= min_pass_rate
        verdict = "pass" if good else "fail"
    return {
        "execution_pass_rate": rate,
        "baseline_pass_rate": before,
        "delta": delta,
        "verdict": verdict,
        **({"reason": reason} if reason else {}),
    }


def _pass_rate(passed: pd.Series) -> float | None:
    """Return the share of passed tasks among those with a result; None if no task has one."""
    return round(float(passed.mean()), _DIGITS) if passed.notna().any() else None


def _interval_fields(complete: pd.DataFrame) -> JsonObject:
    """Return the interval of the change in pass rate from the condition next to ``skill``.

    Without such a condition, return the interval of the pass rate itself.
    """
    passed, others = complete["skill"], complete.columns.drop("skill")
    if others.empty:
        interval = bounded_mean(passed.to_numpy(), quantity=RATES)
        supports = f"a pass rate from {interval.low:.2f} to {interval.high:.2f}"
        return {"of": "execution_pass_rate", **_estimate_fields(interval), "supports": supports}
    interval = bounded_mean((passed - complete[others[0]]).to_numpy(), quantity=DELTAS, null=0.0)
    change = "neither better nor worse: a delta from"
    if interval.low > 0 or interval.high < 0:
        change = "better, by" if interval.low > 0 else "worse, by"
    supports = f"{change} {interval.low:+z.2f} to {interval.high:+z.2f}"
    name = "delta" if others[0] == "previous" else "execution_pass_rate minus no_skill_pass_rate"
    estimate = _estimate_fields(interval)
    return {"of": name, **estimate, "p_value": interval.p_value, "supports": supports}


def _estimate_fields(interval: Interval) -> JsonObject:
    return {
        "estimate": round(interval.estimate, _DIGITS),
        "ci_low": round(interval.low, _DIGITS),
        "ci_high": round(interval.high, _DIGITS),
        "ci_level": interval.ci_level,
        "n": int(interval.n),
        "method": interval.method,
        "note": interval.note or None,
    }
