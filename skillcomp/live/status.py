"""The state of a study, read from its store."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skillcomp.errors import plural, without_control
from skillcomp.frames.estimates import ordered
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import PAID
from skillcomp.live.plan import Key, Tried, tries

# Matches the parts of a message that differ from try to try: ids, counts and times.
_NUMBER = re.compile(r"\b[\w-]*\d[\w.:-]*")
_Pair = tuple[str, str]  # an agent and a condition
_GraderVersion = tuple[str, str | None, int]  # name, version and round of a grader
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
        - n_failed: cells with only failed tries (run), malformed gradings (grade) or comparisons
          without a judgement (compare). The next call asks for them again. Malformed gradings by a
          grader without an agent, such as a `ReplayGrader`, count in n_not_ok instead.
        - n_open: wanted cells, answers or comparisons that are neither in n_ok nor in n_not_ok.
        - cost_usd: dollars of all recorded replies; NaN if no cost is known.
        - models: the models that answered, as the service names them.
        - gold_agreement: agreement with the gold answers in the last grading run; NaN without gold
          answers.
        - note: text about batches of an earlier version, empty answers and answers that address
          the grader.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(status(RunStore(folder)))
    0
    """
    rows = [*_run_rows(as_store(store)), *_grade_rows(store), *_comparison_rows(store)]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


@dataclass
class _RowTotals:
    """Data collected for one row of `status`: models, dollars and, for a grader, verdicts."""

    verdicts: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    models: set[str] = field(default_factory=set)
    cost_usd: float = math.nan

    def add(self, cost_usd: float | None, model: str | None) -> None:
        """Add cost and model of a reply; the total cost is NaN until a cost is known."""
        if cost_usd is not None:
            self.cost_usd = cost_usd + (0.0 if math.isnan(self.cost_usd) else self.cost_usd)
        if model:
            self.models.add(model)

    def row(self, stage: str, name: str, **more: Any) -> JsonObject:
        """Return a row of `status`; columns that are not passed are None."""
        totals = {"cost_usd": self.cost_usd, "models": ", ".join(sorted(self.models)) or None}
        return {"stage": stage, "name": name, **totals, **more}

    @property
    def malformed(self) -> set[str]:
        """The attempt_ids with a malformed verdict that no later verdict has replaced."""
        return {name for name, how in self.verdicts.items() if "malformed" in how.values()}

    @property
    def refused(self) -> set[str]:
        """The attempt_ids with a verdict of status refused or error."""
        items = self.verdicts.items()
        return {name for name, how in items if set(how.values()) - {"ok", "malformed"}}


def _run_rows(store: RunStore) -> Iterable[JsonObject]:
    done = tries(store)
    planned: Counter[_Pair] = Counter()
    for row in store.records("plan"):
        key = Key.of(row)
        planned[key.agent, key.condition] += 1
        done.setdefault(key, Tried())
    cells = defaultdict(list)
    for key, tried in done.items():
        cells[key.agent, key.condition].append(tried)
    seen: defaultdict[_Pair, _RowTotals] = defaultdict(_RowTotals)
    empty: Counter[_Pair] = Counter()
    addressing: Counter[_Pair] = Counter()
    columns = ["agent", "condition", "status", "answer", "cost_usd", "agent_model", "perturbation"]
    for row in store.rows("attempts", *columns):
        pair = (row["agent"] or "", row["condition"])
        is_own = row["perturbation"] is None
        seen[pair].add(row["cost_usd"] if is_own else None, row["agent_model"])
        answer = row["answer"] or ""
        empty[pair] += is_own and row["status"] == "ok" and not answer.strip()
        addressing[pair] += is_own and addresses_grader(answer) is not None
    for row in store.records("surplus"):
        seen[row["agent"], row["condition"]].add(row.get("cost_usd") or 0.0, None)
    batches, _ = uncollected_batches(store, "run")
    place = ordered(sorted({condition for _, condition in cells}))
    for pair in sorted(cells, key=lambda pair: (pair[0], place.index(pair[1]))):
        tries_of_pair = cells[pair]
        n_ok = sum("ok" in tried.paid for tried in tries_of_pair)
        n_paid = sum(bool(tried.paid) for tried in tries_of_pair)
        blank = f"{plural(empty[pair], 'empty answer')}, graded" if empty[pair] else None
        n = addressing[pair]
        to_grader = f"{plural(n, 'answer')} with words to the grader" if n else None
        yield seen[pair].row(
            "run",
            pair[0],
            condition=pair[1],
            n_wanted=planned[pair] or None,
            n_ok=n_ok,
            n_not_ok=n_paid - n_ok,
            n_failed=sum(bool(tried.n_errors and not tried.paid) for tried in tries_of_pair),
            n_open=planned[pair] - n_paid if planned[pair] else 0,
            note="; ".join(filter(None, (batches.get(pair[0]), blank, to_grader))) or None,
        )


def _grade_rows(store: RunStore) -> Iterable[JsonObject]:
    table = store.rows("attempts", "attempt_id", "case_id", "status")
    n_checks = {case.case_id: len(case.checks) for s in store.suites.values() for case in s.cases}
    needs = {r["attempt_id"]: n_checks.get(r["case_id"], 0) for r in table if r["status"] == "ok"}
    to_grade = {name for name, n in needs.items() if n}
    totals = _verdict_totals(store)
    # the last receipt of each grader has n_wanted and the agreement with gold answers
    rows = [row for row in store.records("receipts") if row["stage"] == "grade"]
    receipts = {(row["name"], row["prompt_version"], row["study"]["round"]): row for row in rows}
    batches, _ = uncollected_batches(store, "grade")
    recorded = (row for row in store.records("graders") if row.get("round") is not None)
    recordings = {(row["grader"], row.get("version")) for row in recorded}
    # include graders that have begun but have no verdict yet
    for key in [*totals, *(key for key in receipts if key not in totals)]:
        own, live = totals.get(key, _RowTotals()), receipts.get(key)
        # if a grader chooses its own checks, only its receipt shows how many answers it has to
        # grade
        chooses = bool(live and live["study"].get("own_checks"))
        least = {} if chooses else needs
        whole = {name for name, n in own.verdicts.items() if len(n) >= least.get(name, 1)}
        unread = own.malformed & whole
        asked_again = unread if live and key[:2] not in recordings else set()
        n_wanted, n_open = len(to_grade), len((to_grade - whole) | asked_again)
        if live and chooses:
            n_wanted, n_open = live["n_wanted"], max(live["n_wanted"] - len(whole - asked_again), 0)
        yield own.row(
            "grade",
            key[0],
            round=key[2],
            n_wanted=n_wanted if live else None,
            n_ok=len(whole - own.refused - unread),
            n_not_ok=len((whole & (own.refused | unread)) - asked_again),
            n_failed=len(asked_again) if live else None,
            n_open=n_open if live else 0,
            gold_agreement=((live or {}).get("gold") or {}).get("agreement"),
            note=batches.get(f"{key[0]}#{key[1]}/{key[2]}"),
        )


def _comparison_rows(store: RunStore) -> Iterable[JsonObject]:
    receipts = [row for row in store.records("receipts") if row["stage"] == "compare"]
    if not receipts:
        return
    table = store.rows("attempts", "attempt_id", "condition")
    condition = {row["attempt_id"]: row["condition"] for row in table}
    ok = defaultdict(set)
    tried: defaultdict[Any, dict[_PairOrder, str]] = defaultdict(dict)
    seen: defaultdict[Any, _RowTotals] = defaultdict(_RowTotals)
    for row in store.rows("pairwise"):
        ok[_comparison_key(row, condition)].add(_pair_order(row))
    for row in store.records("comparisons"):
        key = _comparison_key(row, condition)
        tried[key][_pair_order(row)] = row["status"]
        seen[key].add(row.get("cost_usd"), row.get("model"))
    batches, _ = uncollected_batches(store, "compare")
    last = {}
    for row in receipts:
        two = (row["study"]["condition"], row["study"]["against"])
        last[row["name"], row["prompt_version"], frozenset(two)] = (two, row)
    for key, (two, row) in last.items():
        refused = {place for place, how in tried[key].items() if how == "refused"} - ok[key]
        n_ok, n_refused = len(ok[key]), len(refused)
        yield seen[key].row(
            "compare",
            key[0],
            condition=" against ".join(two),
            n_wanted=row["n_wanted"],
            n_ok=n_ok,
            n_not_ok=n_refused,
            n_failed=len(tried[key].keys() - ok[key] - refused),
            n_open=max(row["n_wanted"] - n_ok - n_refused, 0),
            note=batches.get(f"{key[0]}#{key[1]}"),
        )


_PairOrder = tuple[int, str, str]


def _pair_order(row: JsonObject) -> _PairOrder:
    return row["order"], row["first"], row["second"]


def _comparison_key(row: JsonObject, condition: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the grader, its version and the two conditions of a judgement or a reply."""
    two = frozenset(condition.get(row[side], "") for side in ("first", "second"))
    return row["grader"], row.get("grader_version"), two


def _verdict_totals(store: RunStore) -> dict[_GraderVersion, _RowTotals]:
    totals: defaultdict[_GraderVersion, _RowTotals] = defaultdict(_RowTotals)
    columns = ["attempt_id", "check_id", "grader", "grader_version", "round", "status", "cost_usd"]
    for row in store.rows("verdicts", *columns, "grader_model"):
        own = totals[row["grader"], row["grader_version"], row["round"]]
        # a later verdict replaces an earlier one
        own.verdicts[row["attempt_id"]][row["check_id"]] = row["status"]
        own.add(row["cost_usd"], row["grader_model"])
    return dict(totals)


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
    counts: dict[tuple[str, str, int | None, str], list[Any]] = {}
    failures = (*_failed_cells(store), *_failed_gradings(store), *_failed_comparisons(store))
    for stage, name, number, reason, place in failures:
        line = " ".join(without_control(reason or "no reason is known").split())[:200]
        key = (stage, name, number, _NUMBER.sub("#", line))
        counts.setdefault(key, [0, line, place])[0] += 1
    rows = [(*key[:3], line, n, place) for key, (n, line, place) in counts.items()]
    rows.sort(key=lambda row: (row[0] != "run", -row[4]))
    table = pd.DataFrame(rows, columns=["stage", "name", "round", "reason", "n", "first"])
    text = dict.fromkeys(("stage", "name", "reason", "first"), "str")
    return table.astype({**text, "round": "Int64", "n": "int64"})


_Failure = tuple[str, str, int | None, str | None, str]


def _failed_cells(store: RunStore) -> Iterable[_Failure]:
    done = tries(store)
    columns = [*Key._fields, "error", "attempt_id", "perturbation"]
    for row in store.rows("attempts", *columns):
        key = Key.of(row)
        if row["perturbation"] is None and not done.get(key, Tried()).paid:
            place = row["attempt_id"].rpartition("/error-")[0] or row["attempt_id"]
            yield "run", key.agent, None, row["error"], place


def _failed_gradings(store: RunStore) -> Iterable[_Failure]:
    totals = _verdict_totals(store)
    for row in store.records("replies"):
        key = (row["grader"], row.get("grader_version"), row["round"])
        graded = key in totals and row["attempt_id"] in totals[key].verdicts
        if row["status"] not in PAID and not graded:
            yield "grade", key[0], key[2], row.get("error"), row["attempt_id"]
    unread = {(key, name) for key, own in totals.items() for name in own.malformed}
    if not unread:
        return
    columns = ["attempt_id", "grader", "grader_version", "round", "status", "raw"]
    for row in store.rows("verdicts", *columns):
        place = ((row["grader"], row["grader_version"], row["round"]), row["attempt_id"])
        if row["status"] == "malformed" and place in unread:
            unread.discard(place)
            reason = f"malformed: {row['raw'] or 'an empty reply'}"
            yield "grade", row["grader"], row["round"], reason, row["attempt_id"]


def _failed_comparisons(store: RunStore) -> Iterable[_Failure]:
    table = store.rows("pairwise", "grader", "grader_version", "order", "first", "second")
    judged = {(row["grader"], row["grader_version"], *_pair_order(row)) for row in table}
    for row in store.records("comparisons"):
        comparison = (row["grader"], row.get("grader_version"), *_pair_order(row))
        if row["status"] == "refused" or comparison in judged:
            continue
        reason = row.get("error")
        if row["status"] in PAID and not reason:
            reason = f"malformed: {row.get('answer') or 'an empty reply'}"
        yield "compare", row["grader"], None, reason, f"{row['first']} and {row['second']}"


def most_frequent(store: RunStore, stage: str, name: str | None = None) -> str:
    """Return the most frequent error of a stage as the end of a sentence; "" without errors."""
    table = errors(store)
    mine = table[table["stage"].eq(stage) & (True if name is None else table["name"].eq(name))]
    if mine.empty:
        return ""
    first = mine.iloc[0]
    return f"; most often ({first['n']} times): {first['reason']}"


def uncollected_batches(store: RunStore, stage: str) -> tuple[dict[str, str], float]:
    """Describe the batches of a stage whose answers were never collected, and price them.

    Up to version 3, a study could send batches, which the table ``batches`` records. The answers
    of a batch that was still under way are not collected any more. They may have been paid for, so
    the budget counts their highest possible cost.

    Returns
    -------
    dict of str to str
        A note for each agent or grader. The name of a grader includes version and round.
    float
        Dollars, including batches that were given up. Batches of unknown cost count as 0.
    """
    under_way = {}
    usd = 0.0
    for row in store.records("batches"):
        if row["event"] == "intent" and row["purpose"].startswith(f"{stage}:"):
            under_way[row["nonce"]] = row
        elif row["event"] in ("collected", "dropped") and under_way.pop(row["nonce"], {}):
            usd += row.get("usd") or 0.0
    sizes = defaultdict(list)
    for row in under_way.values():
        usd += row.get("usd") or 0.0
        name = row["purpose"].partition(":")[2]
        # for a grading, the name ends with a slash and the name of a table
        sizes[name.rsplit("/", 1)[0] if stage == "grade" else name].append(len(row["keys"]))
    notes = {}
    for name, n in sizes.items():
        batches = "1 batch" if len(n) == 1 else f"{len(n)} batches"
        notes[name] = (
            f"{batches} with {plural(sum(n), 'request')} of an earlier version: the answers are "
            "not collected any more; open questions are asked, and paid for, again"
        )
    return notes, usd
