"""How far a study has come, read from its store and from nothing else."""

from __future__ import annotations

import math
import os
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skillcomp.errors import plural, without_control
from skillcomp.frames.estimates import ordered
from skillcomp.io import journal
from skillcomp.io.files import json_or_none
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import PAID
from skillcomp.live.batches import under_way
from skillcomp.live.plan import Key, Tried, tries

_REASON = 200  # characters of a reason that are shown
_NUMBER = re.compile(r"\b[\w-]*\d[\w.:-]*")  # ids, counts and times: what differs between two tries
_Grader = tuple[str, str | None, int]  # name, version, round
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
    """Return how far a study has come, also while another process is at work on it.

    Parameters
    ----------
    store : RunStore
        The study; it is only read (a line that a crash has torn is mended by opening the store).

    Returns
    -------
    pandas.DataFrame
        One row per agent and condition (``stage`` run), then one per grader version and round
        (``stage`` grade), then one per comparator version and two conditions (``stage`` compare;
        a pair counts twice, once for each order): name, condition, round, n_wanted (cells of the
        plan, or answers to grade; NA where the store holds no plan), n_ok (answers, or answers
        graded in full), n_not_ok (paid for and no answer: refused, truncated, paused; or refused
        gradings), n_failed (only tries that brought nothing, or a malformed grading; asked again at
        the next start; NA where nobody is asked any more, and malformed gradings are then
        n_not_ok),
        n_open (wanted, and neither ok nor not_ok), cost_usd (of what is recorded; NaN when none is
        known), models (as reported), gold_agreement (of the last grading run, NaN without gold
        answers) and note (batches under way, empty answers).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(status(RunStore(folder)))
    0
    """
    rows = [*_runs(store), *_grades(store), *_comparisons(store)]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


@dataclass
class _Seen:
    """What the store holds of one row: models, dollars and, of a grader, the verdicts."""

    verdicts: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    models: set[str] = field(default_factory=set)
    cost_usd: float = math.nan

    def add(self, cost_usd: float | None, model: str | None) -> None:
        """Count a reply; no dollars are known before the first that are."""
        if cost_usd is not None:
            self.cost_usd = cost_usd + (0.0 if math.isnan(self.cost_usd) else self.cost_usd)
        if model:
            self.models.add(model)

    def row(self, stage: str, name: str, **more: Any) -> dict[str, Any]:
        """Return it as a row of `status`; what is not given is not known."""
        known = {"cost_usd": self.cost_usd, "models": ", ".join(sorted(self.models)) or None}
        return {**dict.fromkeys(_COLUMNS), "stage": stage, "name": name, **known, **more}

    @property
    def malformed(self) -> set[str]:
        """Answers with a verdict that could not be read, not followed by one that could."""
        return {name for name, said in self.verdicts.items() if "malformed" in said.values()}

    @property
    def refused(self) -> set[str]:
        """Answers with a verdict that is neither ok nor malformed."""
        other = {"ok", "malformed"}
        return {name for name, said in self.verdicts.items() if set(said.values()) - other}


def _runs(store: RunStore) -> Iterable[dict[str, Any]]:
    done = tries(store)
    planned: Counter[tuple[str, str]] = Counter()
    for row in store.records("plan"):
        key = Key.of(row)
        planned[key.agent, key.condition] += 1
        done.setdefault(key, Tried())
    cells: defaultdict[tuple[str, str], list[Tried]] = defaultdict(list)
    for key, tried in done.items():
        cells[key.agent, key.condition].append(tried)
    seen: defaultdict[tuple[str, str], _Seen] = defaultdict(_Seen)
    empty: Counter[tuple[str, str]] = Counter()
    columns = ["agent", "condition", "status", "answer", "cost_usd", "agent_model", "perturbation"]
    for row in store.table("attempts").select(columns).to_pylist():
        pair = (row["agent"] or "", row["condition"])
        is_own = row["perturbation"] is None
        seen[pair].add(row["cost_usd"] if is_own else None, row["agent_model"])
        empty[pair] += is_own and row["status"] == "ok" and not (row["answer"] or "").strip()
    for row in store.records("surplus"):
        seen[row["agent"], row["condition"]].add(row.get("cost_usd") or 0.0, None)
    batches = under_way(store, "run")
    place = ordered(sorted({condition for _, condition in cells}))
    for pair, found in sorted(cells.items(), key=lambda one: (one[0][0], place.index(one[0][1]))):
        n_ok = sum("ok" in tried.paid for tried in found)
        n_paid = sum(bool(tried.paid) for tried in found)
        blank = f"{plural(empty[pair], 'empty answer')}, graded" if empty[pair] else None
        yield seen[pair].row(
            "run",
            pair[0],
            condition=pair[1],
            n_wanted=planned[pair] or None,
            n_ok=n_ok,
            n_not_ok=n_paid - n_ok,
            n_failed=sum(bool(tried.n_errors and not tried.paid) for tried in found),
            n_open=planned[pair] - n_paid if planned[pair] else 0,
            note="; ".join(filter(None, (batches.get(pair[0]), blank))) or None,
        )


def _grades(store: RunStore) -> Iterable[dict[str, Any]]:
    table = store.table("attempts").select(["attempt_id", "case_id", "status"]).to_pylist()
    n_checks = {case.case_id: len(case.checks) for s in store.suites.values() for case in s.cases}
    needs = {
        row["attempt_id"]: n_checks.get(row["case_id"], 0) for row in table if row["status"] == "ok"
    }
    to_grade = {name for name, n in needs.items() if n}
    said = _said(store)
    # the last: the end of a run carries what its beginning could not know
    receipts = {
        (row["name"], row["prompt_version"], row["study"]["round"]): row
        for row in store.records("receipts")
        if row["stage"] == "grade"
    }
    batches = under_way(store, "grade")
    recordings = {
        (row["grader"], row.get("version"))
        for row in store.records("graders")
        if row.get("round") is not None
    }
    # a grader that was begun and has said nothing yet is shown as well
    for key in [*said, *(key for key in receipts if key not in said)]:
        found, live = said.get(key, _Seen()), receipts.get(key)
        # of those who choose their own checks only the receipt knows what was wanted
        chooses = bool(live and live["study"].get("own_checks"))
        least = {} if chooses else needs
        whole = {name for name, n in found.verdicts.items() if len(n) >= least.get(name, 1)}
        unread = found.malformed & whole
        asked_again = unread if live and key[:2] not in recordings else set()
        n_wanted, n_open = len(to_grade), len((to_grade - whole) | asked_again)
        if live and chooses:
            n_wanted, n_open = live["n_wanted"], max(live["n_wanted"] - len(whole - asked_again), 0)
        yield found.row(
            "grade",
            key[0],
            round=key[2],
            n_wanted=n_wanted if live else None,
            n_ok=len(whole - found.refused - unread),
            n_not_ok=len((whole & (found.refused | unread)) - asked_again),
            n_failed=len(asked_again) if live else None,
            n_open=n_open if live else 0,
            gold_agreement=((live or {}).get("gold") or {}).get("agreement"),
            note=batches.get(f"{key[0]}#{key[1]}/{key[2]}"),
        )


def _comparisons(store: RunStore) -> Iterable[dict[str, Any]]:
    receipts = [row for row in store.records("receipts") if row["stage"] == "compare"]
    if not receipts:
        return
    columns = ["attempt_id", "condition"]
    table = store.table("attempts").select(columns).to_pylist()
    condition = {row["attempt_id"]: row["condition"] for row in table}
    ok: defaultdict[Any, set[_Order]] = defaultdict(set)
    tried: defaultdict[Any, dict[_Order, str]] = defaultdict(dict)
    seen: defaultdict[Any, _Seen] = defaultdict(_Seen)
    for row in store.table("pairwise").to_pylist():
        ok[_comparing(row, condition)].add(_order(row))
    for row in store.records("comparisons"):
        key = _comparing(row, condition)
        tried[key][_order(row)] = row["status"]
        seen[key].add(row.get("cost_usd"), row.get("model"))
    batches = under_way(store, "compare")
    last = {}
    for row in receipts:
        two = (row["study"]["condition"], row["study"]["against"])
        last[row["name"], row["prompt_version"], frozenset(two)] = (two, row)
    for key, (two, row) in last.items():
        refused = {one for one, how in tried[key].items() if how == "refused"} - ok[key]
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


_Order = tuple[int, str, str]


def _order(row: Mapping[str, Any]) -> _Order:
    return row["order"], row["first"], row["second"]


def _comparing(row: Mapping[str, Any], condition: Mapping[str, str]) -> tuple[Any, ...]:
    """Return who compares which two conditions in a judgement or a reply."""
    two = frozenset(condition.get(row[side], "") for side in ("first", "second"))
    return row["grader"], row.get("grader_version"), two


def _said(store: RunStore) -> dict[_Grader, _Seen]:
    found: defaultdict[_Grader, _Seen] = defaultdict(_Seen)
    columns = ["attempt_id", "check_id", "grader", "grader_version", "round", "status", "cost_usd"]
    for row in store.table("verdicts").select([*columns, "grader_model"]).to_pylist():
        one = found[row["grader"], row["grader_version"], row["round"]]
        one.verdicts[row["attempt_id"]][row["check_id"]] = row["status"]  # the last one counts
        one.add(row["cost_usd"], row["grader_model"])
    return dict(found)


def errors(store: RunStore) -> pd.DataFrame:
    """Return why something is still open: one row per reason, the most frequent first.

    Parameters
    ----------
    store : RunStore
        The study.

    Returns
    -------
    pandas.DataFrame
        ``stage`` (run, grade or compare), ``name`` (agent or grader), ``round`` (of a grader),
        ``reason`` (numbers that differ are one reason; shown as it came first), ``n`` (tries that
        ended so), ``first`` (the attempt that it happened to first). Tries at what has been
        answered or graded since are left out.
    """
    found: dict[tuple[str, str, int | None, str], list[Any]] = {}
    failures = (*_failed_cells(store), *_failed_gradings(store), *_failed_comparisons(store))
    for stage, name, number, reason, place in failures:
        shown = _one_line(reason or "no reason is known")[:_REASON]
        key = (stage, name, number, _NUMBER.sub("#", shown))
        found.setdefault(key, [0, shown, place])[0] += 1
    rows = [(*key[:3], shown, n, place) for key, (n, shown, place) in found.items()]
    rows.sort(key=lambda row: (row[0] != "run", -row[4]))
    table = pd.DataFrame(rows, columns=["stage", "name", "round", "reason", "n", "first"])
    text = dict.fromkeys(("stage", "name", "reason", "first"), "str")
    return table.astype({**text, "round": "Int64", "n": "int64"})


_Failure = tuple[str, str, int | None, str | None, str]


def _failed_cells(store: RunStore) -> Iterable[_Failure]:
    columns = ["agent", "case_id", "condition", "repeat", "status", "error", "attempt_id"]
    table = store.table("attempts").select([*columns, "perturbation"]).to_pylist()
    rows = [(Key.of(row), row) for row in table]
    paid = {key for key, row in rows if row["status"] in PAID}
    for key, row in rows:
        if key not in paid and row["perturbation"] is None:
            place = row["attempt_id"].rpartition("/error-")[0] or row["attempt_id"]
            yield "run", key.agent, None, row["error"], place


def _failed_gradings(store: RunStore) -> Iterable[_Failure]:
    said = _said(store)
    for row in store.records("replies"):
        key = (row["grader"], row.get("grader_version"), row["round"])
        graded = key in said and row["attempt_id"] in said[key].verdicts
        if row["status"] not in PAID and not graded:
            yield "grade", key[0], key[2], row.get("error"), row["attempt_id"]
    unread = {(key, name) for key, one in said.items() for name in one.malformed}
    if not unread:
        return
    columns = ["attempt_id", "grader", "grader_version", "round", "status", "raw"]
    for row in store.table("verdicts").select(columns).to_pylist():
        place = ((row["grader"], row["grader_version"], row["round"]), row["attempt_id"])
        if row["status"] == "malformed" and place in unread:
            unread.discard(place)
            told = f"malformed: {row['raw'] or 'an empty reply'}"
            yield "grade", row["grader"], row["round"], told, row["attempt_id"]


def _failed_comparisons(store: RunStore) -> Iterable[_Failure]:
    columns = ["grader", "grader_version", "order", "first", "second"]
    table = store.table("pairwise").select(columns).to_pylist()
    judged = {(row["grader"], row["grader_version"], *_order(row)) for row in table}
    for row in store.records("comparisons"):
        one = (row["grader"], row.get("grader_version"), *_order(row))
        if row["status"] == "refused" or one in judged:
            continue
        told = row.get("error")
        if row["status"] in PAID and not told:
            told = f"malformed: {row.get('answer') or 'an empty reply'}"
        yield "compare", row["grader"], None, told, f"{row['first']} and {row['second']}"


def _one_line(text: str) -> str:
    return " ".join(without_control(text).split())


def most_frequent(store: RunStore, stage: str, name: str | None = None) -> str:
    """Return the most frequent reason for what is open, as the end of a sentence."""
    table = errors(store)
    mine = table[table["stage"].eq(stage) & (True if name is None else table["name"].eq(name))]
    if mine.empty:
        return ""
    first = mine.iloc[0]
    return f"; most often ({first['n']} times): {first['reason']}"


def writer(store: RunStore) -> str | None:
    """Return who is writing to a store, as far as can be seen without touching it."""
    who = json_or_none(store.path / journal.WHO)
    try:
        told = f"process {who['pid']} on {who['host']} since {who['since']}"
        if who["host"] == socket.gethostname():
            os.kill(who["pid"], 0)
    except PermissionError:
        pass  # it is alive and another user's
    except (OSError, KeyError, TypeError):
        return None
    return told
