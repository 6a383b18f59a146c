"""The state of a study, read from its store."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd

from skillcomp.errors import plural, without_control
from skillcomp.frames.contracts import ORIGINAL
from skillcomp.frames.estimates import ordered
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RECORDED, RunStore, as_store, replayed_agents
from skillcomp.live.agents.agent import PAID
from skillcomp.live.plan import KEY, cases_by_id, key_of, own_attempts

# Matches the parts of a message that differ from try to try: ids, counts and times.
_NUMBER = re.compile(r"\b[\w-]*\d[\w.:-]*")
# parts of the name of a model that do not tell which model it is: provider, context and date
_NOT_MODEL = re.compile(r"^.*/|\[.*|[-@:](\d{8}|\d{4}(-\d\d-\d\d)?|latest)$")
_COLUMNS = {
    "stage": "str",
    "name": "str",
    "condition": "str",
    "round": "Int64",
    "n_wanted": "Int64",
    "n_ok": "Int64",
    "n_not_ok": "Int64",
    "n_failed": "Int64",
    "n_open": "Int64",
    "cost_usd": "float64",
    "models": "str",
    "gold_agreement": "float64",
    "note": "str",
}


def status(store: RunStore) -> pd.DataFrame:
    """Count what a study has answered, graded and compared so far, even while it runs.

    Parameters
    ----------
    store : RunStore
        The study, which is only read.

    Returns
    -------
    pandas.DataFrame
        One row per agent and condition (``stage`` run), then one per grader version and round
        (grade), then one per comparator version and pair of conditions (compare; a pair of answers
        counts twice, once in each order). Columns:

        - name: agent or grader.
        - condition, round: NA if the stage has none.
        - n_wanted: planned cells, answers to grade or comparisons; NA if the store has no plan, or
          no receipt of the grader.
        - n_ok: answers with status ok (run), answers with all verdicts (grade) or judgements
          (compare).
        - n_not_ok: paid answers, gradings or comparisons without a result (refused, truncated or
          paused).
        - n_failed: cells, gradings or comparisons with only failed tries, such as errors and
          malformed replies. The next call asks for them again. Malformed gradings by a grader
          without an agent, such as a `ReplayGrader`, count in n_not_ok instead.
        - n_open: wanted cells, answers or comparisons that are neither in n_ok nor in n_not_ok.
        - cost_usd: dollars of all recorded replies; NaN if no cost is known.
        - models: the models that answered, as the service names them.
        - gold_agreement: agreement with the gold answers in the last grading run; NaN without gold
          answers.
        - note: text about recorded answers (which a `ReplayAgent` returned), models that answered
          instead of the one asked for, empty answers and answers that address the grader.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(status(RunStore(folder)))
    0
    """
    rows = [work.row() for stage in _STAGES for work in stage(as_store(store)).values()]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


@dataclass
class _Work:
    """What one agent or grader did in a stage: the data for one row of `status`.

    A job is a cell, an answer to grade or an ordered pair of answers. `origin` is a note on
    recorded answers. `outcomes` holds the jobs of which a try had the outcome ``ok``, ``not_ok`` or
    ``failed``, and `failures` the tries that failed.
    """

    stage: str
    name: str
    condition: str | None = None
    round: int | None = None
    n_wanted: int | None = None
    gold_agreement: float | None = None
    origin: str | None = None
    asked: str | None = None
    n_empty: int = 0
    n_addressing: int = 0
    outcomes: defaultdict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    failures: list[_Failure] = field(default_factory=list)
    models: set[str] = field(default_factory=set)
    cost_usd: float = math.nan

    def add(self, cost_usd: float | None, model: str | None) -> None:
        """Add cost and model of a reply; the total cost is NaN until a cost is known."""
        if cost_usd is not None:
            self.cost_usd = cost_usd + (0.0 if math.isnan(self.cost_usd) else self.cost_usd)
        if model:
            self.models.add(model)

    def fail(self, job: Any, reason: str | None, place: str) -> None:
        """Add a try without a result."""
        self.outcomes["failed"].add(job)
        self.failures.append(_Failure(job, reason, place))

    @property
    def done(self) -> set[Any]:
        """The jobs that are not asked again."""
        return self.outcomes["ok"] | self.outcomes["not_ok"]

    @property
    def open_failures(self) -> list[_Failure]:
        """The failed tries of jobs that have no result."""
        done = self.done
        return [failure for failure in self.failures if failure.job not in done]

    @property
    def other_model(self) -> str | None:
        """A note on models that answered although the agent asked for another; else None."""
        others = sorted(name for name in self.models if is_other_model(self.asked or name, name))
        return f"{' and '.join(others)} answered, not {self.asked} as asked" if others else None

    def row(self) -> JsonObject:
        """Return the row; a job counts by its best outcome."""
        n_ok, n_done = len(self.outcomes["ok"]), len(self.done)
        notes = [self.origin, self.other_model]
        if self.n_empty:
            notes.append(f"{plural(self.n_empty, 'empty answer')}, graded")
        if self.n_addressing:
            notes.append(f"{plural(self.n_addressing, 'answer')} with words to the grader")
        return {
            **vars(self),
            "n_ok": n_ok,
            "n_not_ok": n_done - n_ok,
            "n_failed": len(self.outcomes["failed"] - self.done),
            "n_open": max((self.n_wanted or 0) - n_done, 0),
            "models": ", ".join(sorted(self.models)) or None,
            "note": "; ".join(filter(None, notes)) or None,
        }


class _Failure(NamedTuple):
    """A try without a result: its job, why it failed, and the attempts that it is about."""

    job: Any
    reason: str | None
    place: str


def run_works(store: RunStore) -> Mapping[tuple[str, str], _Work]:
    """Return the work of each agent under each condition."""
    works: dict[tuple[str, str], _Work] = {}
    origins = dict.fromkeys(replayed_agents(store), RECORDED)
    asked = {row["agent"]: row["model"] for row in store.records("agents")}

    def work_of(row: JsonObject) -> _Work:
        name, condition = row["agent"] or "", row["condition"]
        new = _Work("run", name, condition, origin=origins.get(name), asked=asked.get(name))
        return works.setdefault((name, condition), new)

    for row in store.records("plan"):
        work = work_of(row)
        work.n_wanted = (work.n_wanted or 0) + 1
    columns = ("attempt_id", *KEY, "status", "answer", "cost_usd", "agent_model", "error")
    for row in own_attempts(store, *columns):
        work, cell, answer = work_of(row), key_of(row), row["answer"] or ""
        is_ok = row["status"] == "ok"
        work.add(row["cost_usd"], row["agent_model"])
        work.n_empty += is_ok and not answer.strip()
        work.n_addressing += addresses_grader(answer) is not None
        if row["status"] in PAID:
            work.outcomes["ok" if is_ok else "not_ok"].add(cell)
        else:
            place = row["attempt_id"].rpartition("/error-")[0] or row["attempt_id"]
            work.fail(cell, row["error"], place)
    place_of = ordered(sorted({condition for _, condition in works})).index
    pairs = sorted(works, key=lambda pair: (pair[0], place_of(pair[1])))
    return {pair: works[pair] for pair in pairs}


def unanswered_cases(store: RunStore) -> list[str]:
    """Return the ids of the cases of the suites that have no answer."""
    answered = {case_id for work in run_works(store).values() for _, case_id, *_ in work.done}
    return [name for name in cases_by_id(store.suites.values()) if name not in answered]


def grade_works(store: RunStore) -> Mapping[tuple[str, str | None, int], _Work]:
    """Return the work of each version of a grader in each round."""
    works: dict[tuple[str, str | None, int], _Work] = {}

    def work_of(name: str, number: str | None, round: int) -> _Work:
        return works.setdefault((name, number, round), _Work("grade", name, round=round))

    # for each work and attempt: the status of the last verdict on each check
    statuses: defaultdict[Any, dict[str, str]] = defaultdict(dict)
    unread: dict[Any, str] = {}  # the first malformed reply
    who = ("grader", "grader_version", "round")
    columns = ("attempt_id", "check_id", "status", "cost_usd", "grader_model", "raw")
    for row in store.rows("verdicts", *who, *columns):
        key = tuple(map(row.get, who))
        work_of(*key).add(row["cost_usd"], row["grader_model"])
        statuses[key, row["attempt_id"]][row["check_id"]] = row["status"]
        if row["status"] == "malformed":
            unread.setdefault((key, row["attempt_id"]), row["raw"] or "an empty reply")
    cases = cases_by_id(store.suites.values())
    needs = {
        row["attempt_id"]: len(cases[row["case_id"]].checks)
        for row in store.rows("attempts", "attempt_id", "case_id", "status")
        if row["status"] == "ok" and row["case_id"] in cases
    }
    n_to_grade = sum(map(bool, needs.values()))
    choosing = set()
    for row in store.records("receipts"):
        if row["stage"] == "grade":
            key = (row["name"], row["prompt_version"], row["study"]["round"])
            work = work_of(*key)
            # if a grader chooses its own checks, only its receipt shows how many answers it grades
            choosing |= {key} if row["study"].get("own_checks") else set()
            work.n_wanted = row["n_wanted"] if key in choosing else n_to_grade
            work.gold_agreement = (row.get("gold") or {}).get("agreement")
    replied = set()
    for row in store.records("replies"):
        key, name = tuple(map(row.get, who)), row["attempt_id"]
        replied.add((key, name))
        if row["status"] not in PAID and (key, name) not in statuses:
            work_of(*key).fail(name, row.get("error"), name)
    for (key, name), by_check in statuses.items():
        work, values = works[key], {*by_check.values()}
        if "malformed" in values and (key, name) in replied:  # the grader is asked again
            work.fail(name, f"malformed: {unread[key, name]}", name)
        elif len(by_check) >= (1 if key in choosing else needs.get(name, 1)):
            work.outcomes["ok" if values == {"ok"} else "not_ok"].add(name)
    return works


def compare_works(store: RunStore) -> Mapping[tuple[str, str, frozenset[str]], _Work]:
    """Return the work of each version of a comparator on each two conditions."""
    rows = list(store.rows("attempts", "attempt_id", "condition", "perturbation"))
    condition = {row["attempt_id"]: row["condition"] for row in rows}
    kinds = {row["attempt_id"]: row["perturbation"] for row in rows if row["perturbation"]}
    works: dict[Any, _Work] = {}
    for row in store.records("receipts"):
        if row["stage"] == "compare":
            two = (row["study"]["condition"], row["study"]["against"])
            works[row["name"], row["prompt_version"], frozenset(two)] = _Work(
                "compare", row["name"], " against ".join(two), n_wanted=row["n_wanted"]
            )
    judged = ({**row, "status": "judged"} for row in store.rows("pairwise"))
    for row in chain(judged, store.records("comparisons")):
        first, second, status = row["first"], row["second"], row["status"]
        copied = {kinds[name] for name in (first, second) if name in kinds}
        conditions = frozenset(condition.get(name, "") for name in (first, second))
        conditions = frozenset({*copied, ORIGINAL}) if copied else conditions
        work = works.get((row["grader"], row.get("grader_version"), conditions))
        if work is None:
            continue
        pair = (row["order"], first, second)
        work.add(row.get("cost_usd"), row.get("model"))
        if outcome := _OF_COMPARISON.get(status):
            work.outcomes[outcome].add(pair)
        else:
            reason = row.get("error")
            if status in PAID and not reason:
                reason = f"malformed: {row.get('answer') or 'an empty reply'}"
            work.fail(pair, reason, f"{first} and {second}")
    return works


_STAGES = (run_works, grade_works, compare_works)
# the outcome of a comparison by the status of its reply, or for a judgement; else it has failed
_OF_COMPARISON = {"judged": "ok", "refused": "not_ok"}


def errors(store: RunStore) -> pd.DataFrame:
    """Count the errors that left cells, gradings and comparisons open, most frequent first.

    Parameters
    ----------
    store : RunStore
        The study.

    Returns
    -------
    pandas.DataFrame
        One row per reason: ``stage`` (run, grade or compare), ``name`` (agent or grader), ``round``
        (of a grader, otherwise NA), ``reason`` (the message; messages that differ only in numbers
        count as one), ``n`` (number of tries with this reason), ``first`` (attempt of the first
        such try). Tries are left out if their cell, grading or comparison has a result.
    """
    counts: dict[Any, list[Any]] = {}
    for work in (work for stage in _STAGES for work in stage(as_store(store)).values()):
        for failure in work.open_failures:
            reason = without_control(failure.reason or "no reason is known")
            line = " ".join(reason.split())[:200]
            key = (work.stage, work.name, work.round, _NUMBER.sub("#", line))
            counts.setdefault(key, [0, line, failure.place])[0] += 1
    rows = [(*key[:3], line, n, place) for key, (n, line, place) in counts.items()]
    rows.sort(key=lambda row: (row[0] != "run", -row[4]))
    table = pd.DataFrame(rows, columns=["stage", "name", "round", "reason", "n", "first"])
    text = dict.fromkeys(("stage", "name", "reason", "first"), "str")
    return table.astype({**text, "round": "Int64", "n": "int64"})


def most_frequent(store: RunStore, stage: str, name: str | None = None) -> str:
    """Return the most frequent error of a stage as the end of a sentence; "" without errors."""
    table = errors(store)
    mine = table[table["stage"].eq(stage) & (True if name is None else table["name"].eq(name))]
    if mine.empty:
        return ""
    first = mine.iloc[0]
    return f"; most often ({first['n']} times): {first['reason']}"


def is_other_model(asked: str, model: str) -> bool:
    """Return whether two names are of different models; providers and dates make no difference.

    An alias without digits, such as sonnet, is a part of the name of its model.
    """
    first, second = (_NOT_MODEL.sub("", name.lower()) for name in (asked, model))
    return first != second and (re.search(r"\d", first) is not None or first not in second)
