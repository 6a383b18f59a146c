"""A skill against its task suite and against its original: a rate, a delta and a verdict.

The rules are those of the source system (its execution evaluator); what they do not say, how sure
one can be, stands beside them in fields of our own.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os.path import exists
from pathlib import Path
from typing import Any

import orjson

from skillcomp.errors import StudyError, SuiteError, plural, require_known
from skillcomp.io.files import checked_slug, digest, read_bytes, write_json
from skillcomp.io.skills import FILE_NAME, read_skill
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.live.agents.agent import Agent, Reply, agent_version, settings_json, whole_hash
from skillcomp.live.grade import grade
from skillcomp.live.graders.task_graders import SuiteGrader
from skillcomp.live.run import run
from skillcomp.planning.cost import cost_estimate, cost_total
from skillcomp.records import Skill, Suite
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.passk import any_of_k, pass_at_k, pass_hat_k
from skillcomp.stats.results import Interval

SCHEMA_VERSION = "1.0"
FEWEST_PASSES = 0.2  # of the baseline; below it the suite counts as broken
ENOUGH = 0.5  # pass rate of a skill that is compared with nothing
AGE = timedelta(days=7)  # from which a kept baseline is stale
_MAX_JSON = 1 << 26  # bytes of a ranking artefact or a kept baseline
_DIGITS = 4  # of rates, as in the source
_MAIN = ("skill", "previous")  # conditions of the candidate and of its baseline
Results = Mapping[str, Mapping[str, Any]]  # what each task came to
_CONTENT = ("content", "skill_content", "body")  # names of a candidate's text


@dataclass(frozen=True)
class Candidate:
    """What is evaluated, against what.

    Attributes
    ----------
    run_id : str
        Names the artefact.
    skill : Skill or Path
        The text, or the SKILL.md or its folder.
    original : Skill or None
        The skill as it was before.
    told : dict
        What of it goes into the artefact: candidate_id, candidate_score, target and the like.
    score : float or None
        Of the discriminator; None in standalone mode, which never skips.
    """

    run_id: str
    skill: Skill | Path
    original: Skill | None
    told: dict[str, Any]
    score: float | None = None


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def read_tasks_of(path: Path) -> Suite:
    """Return the task suite of an evaluation, or raise in the words of the source."""
    if not path.exists():
        raise SuiteError(f"Task suite not found: {path}")
    suite = read_suite(path)
    if suite.kind != "tasks":
        raise SuiteError(f"{path}: not a task suite; expected skill_id, version and tasks.")
    return suite


def read_ranking(path: Path, candidate_id: str, slug: str) -> Candidate:
    """Return a candidate of a ranking artefact, its score and its original.

    Raises
    ------
    StudyError
        When the file, the candidate, its text, its score or the target's SKILL.md is not there.
    """
    data = read_bytes(path, root=path.parent, max_bytes=_MAX_JSON, what="ranking", error=StudyError)
    try:
        ranking = orjson.loads(data)
    except orjson.JSONDecodeError as cause:
        raise StudyError(f"{path}, line {cause.lineno}: not JSON ({cause.msg}).") from cause
    rows = ranking.get("scored_candidates") if isinstance(ranking, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise StudyError(f"{path}: expected an object with a list 'scored_candidates'.")
    ids = [str(row.get("id")) for row in rows]
    require_known(f"{path}: there is no candidate", candidate_id, ids, StudyError, label="there")
    row = rows[ids.index(candidate_id)]
    place, score = f"{path}: candidate '{candidate_id}'", row.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise StudyError(f"{place}: score: found {score!r}; expected a number.")
    text = next((row[name] for name in _CONTENT if isinstance(row.get(name), str)), "")
    if not text.strip():
        raise StudyError(f"{place}: content: missing or empty; expected the text of a SKILL.md.")
    target = ranking.get("target")
    named = target.get("path") if isinstance(target, dict) else target
    if not isinstance(named, str) or not named:
        raise StudyError(f"{path}: target: found {target!r}; expected the path of the original.")
    places = [Path(named), path.parent / named]
    found = next(filter(exists, places), places[0])
    told = {
        "lane": ranking.get("lane", "generic-skill"),
        "source_ranking_artifact": str(path),
        "candidate_id": candidate_id,
        "candidate_score": score,
        "target": target,
        "next_step": "gate_decision",
        "next_owner": "gate",
    }
    run_id = checked_slug(str(ranking.get("run_id") or path.stem), StudyError)
    original = read_skill(found).model_copy(update={"slug": slug})
    return Candidate(run_id, Skill(slug=slug, text=text, body=text), original, told, float(score))


def standalone(suite: Suite, skill: Path, original: Path | None) -> Candidate:
    """Return what standalone mode evaluates: a skill, and its original where one is given."""
    before = None
    if original is not None:
        before = read_skill(original).model_copy(update={"slug": suite.skill})
    run_id = checked_slug(f"standalone-{suite.skill}", StudyError)
    return Candidate(run_id, skill, before, {"lane": "standalone", "skill_path": str(skill)})


class MockAgent:
    """An agent that nobody answers for: to try the wiring out."""

    name: str = "mock"
    model: str | None = "mock"
    family: str | None = "mock"
    settings: str = settings_json(mock=True)
    is_recording = True  # it costs nothing

    async def ask(self, prompt: str, **about: Any) -> Reply:
        """Return an answer that says what it is."""
        return Reply(answer="mock: nothing was asked", model="mock", cost_usd=0.0, seconds=0.0)

    async def aclose(self) -> None:
        """Do nothing; there is no connection."""


class Evaluation:
    """One evaluation: its study in a store, its results, its artefact.

    Parameters
    ----------
    path : Path
        The task suite.
    candidate : Candidate
        What is evaluated.
    agent, judge : Agent
        Who carries out the tasks, and who scores by rubric.
    state_root : Path
        Folder of the state; the study stands in ``evaluations/<run_id>-<hash>`` below it, so that
        the same evaluation goes on where it was broken off.
    pass_k : int
        Attempts of each task.
    cache : Path or None
        Folder of kept baselines.
    mock, trust, without_skill : bool
        Judge nothing; run answers without a sandbox; ask without any skill, too.
    options : dict
        For `skillcomp.run` and `skillcomp.grade`: budget_usd, concurrency, progress.
    """

    def __init__(
        self,
        path: Path,
        candidate: Candidate,
        *,
        agent: Agent,
        judge: Agent,
        state_root: Path,
        pass_k: int = 1,
        cache: Path | None = None,
        mock: bool = False,
        trust: bool = False,
        without_skill: bool = False,
        **options: Any,
    ) -> None:
        self.path, self.candidate, self.pass_k, self.cache = path, candidate, pass_k, cache
        self.agent: Agent = MockAgent() if mock else agent
        self.mock, self.options = mock, options
        self.conditions = ["skill", *(["baseline"] if without_skill else [])]
        self.grader = SuiteGrader(path, judge, trust=trust, mock=mock)
        self.suite = read_tasks_of(path)
        self.tasks = [case.case_id.partition("/")[2] for case in self.suite.cases]
        self.notes: list[str] = []
        # everything but the skills that decides what comes out
        settings = getattr(self.grader.agent, "settings", None)
        made_by = {
            "suite": self.suite.sha256,
            "judges": [self.grader.judges, self.grader.version, self.grader.model, settings],
            "agent": [self.agent.name, self.agent.model, self.agent.settings, agent_version()],
            "pass_k": self.pass_k,
            "mock": self.mock,
        }
        who, before = json.dumps(made_by, sort_keys=True), candidate.original
        key = whole_hash(who, _text_of(candidate.skill), before.text if before else "")
        self.store = RunStore(state_root / "evaluations" / f"{candidate.run_id}-{key[:12]}")
        self.key = whole_hash(who, before.text) if before else ""  # of the kept baseline
        self._kept_name = f"baseline_{self.key[:32]}.json"

    def estimate(self) -> str:
        """Return in one line what all this may cost, before anything is asked."""
        conditions = list(self.conditions)
        if self.candidate.original is not None and self._kept() is None:
            conditions.insert(0, "previous")
        n_rubrics = sum(c.checks[0].check_id == "llm-rubric" for c in self.suite.cases)
        n_asked = len(conditions) * self.pass_k
        answers = plural(n_asked * len(self.suite.cases), "answer")
        told = f"estimate: {answers}, {plural(n_asked * n_rubrics, 'score')}"
        if self.mock:
            return f"{told} by rubric, all of them mocked: nothing is spent"
        plan = cost_estimate(
            self.suite,
            {self.suite.skill: _text_of(self.candidate.skill)},
            agents=self.agent,
            graders=self.grader if self.grader.agent is not None else (),
            conditions=conditions,
            repeats=self.pass_k,
            loaded={"previous": self.candidate.original} if self.candidate.original else None,
        )
        total = cost_total(plan)
        usd, why = total.loc[total["planned"], ["cost_usd", "note"]].iloc[0]
        cost = f"about {usd:.2f} USD" if math.isfinite(usd) else f"at a cost not known ({why})"
        return f"{told} by rubric, {cost}"

    def skipped(self, threshold: float) -> dict[str, Any] | None:
        """Return the artefact of a candidate whose score is too low, None where it is not."""
        score = self.candidate.score
        if score is None or score >= threshold:
            return None
        return self._artefact("skipped", f"score {score} < threshold {threshold}", {})

    def evaluate(self) -> dict[str, Any]:
        """Ask and judge, the baseline first, and return the artefact."""
        self._prepare()
        under: dict[str, Results] = {}  # by condition
        told: dict[str, Any] = {"store": str(self.store.path)}
        if self.candidate.original is not None:
            kept = self._kept()
            if kept is None:
                self._ask(["previous"])
                under["previous"] = self._results("previous")
                self._keep(under["previous"])
            else:
                under["previous"] = {row["task_id"]: row for row in kept["results"]}
            if self.cache is not None:
                age = (now() - datetime.fromisoformat(kept["created_at"])) if kept else None
                seconds = None if age is None else age.total_seconds()
                told["baseline_cache"] = {"reused": kept is not None, "age_seconds": seconds}
            rate = _rate(under["previous"], self.tasks)
            if rate is None or rate < FEWEST_PASSES:
                reason = f"baseline pass rate {rate} < {FEWEST_PASSES}"
                reason = "no task of the baseline has a verdict" if rate is None else reason
                return self._artefact("error", reason, under, told)
        self._ask(self.conditions)
        under |= {condition: self._results(condition) for condition in self.conditions}
        if not self._common(under, [name for name in _MAIN if name in under])[0]:
            reason = "no task has a verdict under every condition"
            return self._artefact("error", reason, under, told)
        return self._artefact("", None, under, told)

    def _prepare(self) -> None:
        """Put suite and skill into the store, once."""
        skill, slug = self.candidate.skill, self.suite.skill
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(skill, Skill):
                place = Path(folder) / FILE_NAME
                place.write_text(skill.text, encoding="utf-8")
                skill = place
            self.store.add_suite(self.path, slug=self.suite.slug)
            self.store.add_skill(skill, slug=slug)
        if self.mock:
            self.store.annotate(mock=True)

    def _ask(self, conditions: Sequence[str]) -> None:
        previous = self.candidate.original if "previous" in conditions else None
        run(
            self.store,
            [self.store.suites[self.suite.slug]],
            agents=[self.agent],
            conditions=conditions,
            repeats=self.pass_k,
            previous=previous,
            **self.options,
        )
        grade(self.store, graders=[self.grader], **self.options)

    def _results(self, condition: str) -> dict[str, dict[str, Any]]:
        """Return what each task came to under a condition, by the any-of-k rule."""
        verdicts = {
            row["attempt_id"]: row
            for row in self.store.table("verdicts").to_pylist()
            if (row["grader"], row["grader_version"]) == (self.grader.name, self.grader.version)
        }
        tries: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        for row in self.store.table("attempts").to_pylist():
            last = tries[row["case_id"]].get(row["repeat"])
            if row["condition"] == condition and (last is None or last["status"] != "ok"):
                tries[row["case_id"]][row["repeat"]] = row
        ids = zip(self.tasks, (case.case_id for case in self.suite.cases), strict=True)
        return {task: self._result(task, tries[case_id], verdicts) for task, case_id in ids}

    def _result(
        self,
        task: str,
        tries: Mapping[int, Mapping[str, Any]],
        verdicts: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        attempts: list[bool | None] = []
        scores, said, wrong, seconds = [], [], [], 0.0
        for repeat in range(1, self.pass_k + 1):
            row: Mapping[str, Any] = tries.get(repeat, {"attempt_id": None, "status": None})
            found = verdicts.get(row["attempt_id"], {"passed": None, "rationale": None})
            attempts.append(found["passed"])
            seconds += row.get("seconds") or 0.0
            if found["passed"] is not None:
                scores.append(found["score"])
                said.append(found["rationale"] or "")
            elif row["status"] is None:
                wrong.append("not asked")
            elif row["status"] != "ok":
                wrong.append(f"{row['status']}: {row['error'] or 'no answer'}")
            else:
                told = found["rationale"]
                wrong.append(told or self.grader.errors.get(row["attempt_id"], "not judged"))
        values = [math.nan if one is None else float(one) for one in attempts]
        passed = float(any_of_k([values], self.pass_k)[0])
        known = not math.isnan(passed)
        return {
            "task_id": task,
            "passed": bool(passed) if known else None,
            "score": max(scores, default=None) if known else None,
            "details": next((one for one in said if one), ""),
            "duration_ms": round(1000 * seconds),
            "error": "; ".join(dict.fromkeys(wrong)) or None,
            "attempts": attempts,
        }

    # -- the artefact -------------------------------------------------------------------------

    def _artefact(
        self,
        verdict: str,
        reason: str | None,
        under: Mapping[str, Results],
        told: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        compared = [name for name in _MAIN if name in under]
        kept, missing = self._common(under, compared)
        rates = {name: _rate(under[name], kept) for name in compared}
        rate, before = rates.get("skill"), rates.get("previous")
        delta = None
        if rate is not None and before is not None:
            # of the counts, so that rounding cannot make a delta
            passes = [sum(under[name][task]["passed"] for task in kept) for name in compared]
            delta = round((passes[0] - passes[1]) / len(kept), _DIGITS)
        if not verdict:
            good = delta >= 0 if delta is not None else (rate or 0.0) >= ENOUGH
            verdict = "pass" if good else "fail"
        main = {
            "execution_pass_rate": rate,
            "baseline_pass_rate": before,
            "delta": delta,
            "verdict": verdict,
            **({"reason": reason} if reason else {}),
        }
        rows = {name: [dict(under[name][task]) for task in self.tasks] for name in under}
        found: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.candidate.run_id,
            "stage": "evaluated",
            "status": "success" if verdict in ("pass", "fail") else verdict,
            "created_at": now().isoformat(),
            **self.candidate.told,
            "task_suite": str(self.path.resolve()),
            "task_suite_skill_id": self.suite.skill,
            "pass_k": self.pass_k,
            **main,
            "evaluation": main,
            "candidate_results": rows.get("skill", []),
            "baseline_results": rows.get("previous"),
            # from here on our own
            "mock": self.mock,
            "agent": {"name": self.agent.name, "model": self.agent.model},
            "judge": {"version": self.grader.version, "model": self.grader.model},
            "answers_trusted": self.grader.trusted,
            "n_tasks": len(kept),
            "missing_tasks": missing,
            "several_attempts": {name: _attempts(under[name], kept, self.pass_k) for name in under},
            "notes": self.notes,
            **(told or {}),
        }
        if self.mock:
            return found  # there is nothing to be sure of
        if kept and "skill" in under:
            found["interval"] = _interval(under, kept, compared[1:])
        if "baseline" in under:
            common, left_out = self._common(under, ["skill", "baseline"])
            found["no_skill_results"] = rows["baseline"]
            found["no_skill_pass_rate"] = _rate(under["baseline"], common)
            found["no_skill_missing_tasks"] = left_out
            if common:
                found["no_skill_interval"] = _interval(under, common, ["baseline"])
        return found

    def _common(
        self, under: Mapping[str, Results], names: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Return the tasks with a verdict under all of some conditions, and the others."""
        if not names:
            return [], []
        unknown = {task for task in self.tasks for n in names if under[n][task]["passed"] is None}
        kept = [task for task in self.tasks if task not in unknown]
        return kept, [task for task in self.tasks if task in unknown]

    # -- kept baselines -----------------------------------------------------------------------

    def _kept(self) -> dict[str, Any] | None:
        """Return a kept baseline of this very evaluation that is whole and younger than a week."""
        if self.cache is None or not (file := self.cache / self._kept_name).exists():
            return None
        try:
            data = read_bytes(
                file, root=self.cache, max_bytes=_MAX_JSON, what="baseline", error=StudyError
            )
            entry = orjson.loads(data)
            body = entry["body"]
            age = now() - datetime.fromisoformat(body["created_at"])
            whole = entry["sha256"] == digest(_packed(body)) and body["key"] == self.key
            whole &= [row["task_id"] for row in body["results"]] == self.tasks
        except (StudyError, ValueError, KeyError, TypeError, AttributeError):
            whole, age, body = False, timedelta(0), {}
        if whole and timedelta(0) <= age < AGE:
            return dict(body)
        why = f"is {age / timedelta(days=1):.1f} days old" if whole else "is damaged"
        told = f"baseline cache: {file.name} {why}; it is not used and made anew"
        if told not in self.notes:
            self.notes.append(told)
        return None

    def _keep(self, results: Results) -> None:
        """Keep a baseline in which every task has its verdict."""
        if self.cache is None or any(row["passed"] is None for row in results.values()):
            return
        body = {
            "key": self.key,
            "created_at": now().isoformat(),
            "mock": self.mock,
            "results": list(results.values()),
        }
        entry = {"sha256": digest(_packed(body)), "body": body}
        write_json(self.cache / self._kept_name, entry)


def write_artefact(artefact: dict[str, Any], path: Path) -> None:
    """Write an artefact whole; it names the place where it lies."""
    place = path.expanduser().resolve()
    write_json(place, {**artefact, "truth_anchor": str(place)})


def _text_of(skill: Skill | Path) -> str:
    return skill.text if isinstance(skill, Skill) else read_skill(skill).text


def _packed(body: Mapping[str, Any]) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def _rate(results: Results, tasks: Sequence[str]) -> float | None:
    """Return the share of tasks that passed, of those with a verdict."""
    passed = [results[task]["passed"] for task in tasks if results[task]["passed"] is not None]
    return round(sum(passed) / len(passed), _DIGITS) if passed else None


def _attempts(results: Results, tasks: Sequence[str], k: int) -> dict[str, float | None]:
    """Return the three ways to sum up k attempts, over tasks whose attempts all have verdicts."""
    rows = [results[task]["attempts"] for task in tasks]
    whole = [row for row in rows if len(row) == k and None not in row]
    if not whole:
        return dict.fromkeys((f"any_of_{k}", f"pass_at_{k}", f"pass_hat_{k}", "pass_at_1"), None)
    n, passes = [k] * len(whole), [sum(row) for row in whole]
    return {
        f"any_of_{k}": round(float(any_of_k(whole, k).mean()), _DIGITS),
        f"pass_at_{k}": round(float(pass_at_k(n, passes, k).mean()), _DIGITS),
        f"pass_hat_{k}": round(float(pass_hat_k(n, passes, k).mean()), _DIGITS),
        "pass_at_1": round(float(pass_at_k(n, passes, 1).mean()), _DIGITS),
    }


def _interval(
    under: Mapping[str, Results], tasks: Sequence[str], other: Sequence[str]
) -> dict[str, Any]:
    """Return the interval of a delta over tasks, or of a rate where nothing is compared."""
    values = [float(under["skill"][task]["passed"]) for task in tasks]
    if not other:
        found = bounded_mean(values, quantity=RATES)
        supports = f"a pass rate from {found.low:.2f} to {found.high:.2f}"
        return {"of": "execution_pass_rate", **_fields(found), "supports": supports}
    before = [float(under[other[0]][task]["passed"]) for task in tasks]
    changes = [new - old for new, old in zip(values, before, strict=True)]
    found = bounded_mean(changes, quantity=DELTAS, null=0.0)
    supports = f"neither better nor worse: a delta from {found.low:+.2f} to {found.high:+.2f}"
    if found.low > 0:
        supports = f"better, by {found.low:+.2f} to {found.high:+.2f}"
    elif found.high < 0:
        supports = f"worse, by {found.low:+.2f} to {found.high:+.2f}"
    name = "delta" if other[0] == "previous" else "execution_pass_rate minus no_skill_pass_rate"
    return {"of": name, **_fields(found), "p_value": found.p_value, "supports": supports}


def _fields(found: Interval) -> dict[str, Any]:
    return {
        "estimate": round(found.estimate, _DIGITS),
        "ci_low": round(found.low, _DIGITS),
        "ci_high": round(found.high, _DIGITS),
        "ci_level": found.ci_level,
        "n": int(found.n),
        "method": found.method,
        "note": found.note or None,
    }
