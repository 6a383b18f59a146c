"""How far a study has come, read from its store and from nothing else."""

from __future__ import annotations

import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pandas as pd

from skillcomp.io import _journal
from skillcomp.io.store import RunStore
from skillcomp.live.batchnotes import under_way
from skillcomp.live.plan import Key, Tried, tries
from skillcomp.records import CONDITIONS

__all__ = ["status", "writer"]

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
        (``stage`` grade): name, condition, round, n_wanted (cells of the plan, or answers to
        grade; NA where the store holds no plan), n_ok (answers, or answers graded in full),
        n_not_ok (paid for and no answer: refused, truncated, paused; or malformed and refused
        gradings), n_failed (only tries that brought nothing; asked again at the next start),
        n_open (wanted, and neither ok nor not_ok), cost_usd (of what is recorded; NaN when none is
        known), models (as reported), gold_agreement (of the last grading run, NaN without gold
        answers) and note (batches under way).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     len(status(RunStore(folder)))
    0
    """
    rows = [*_runs(store), *_grades(store)]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    return frame.astype(_COLUMNS)


def _runs(store: RunStore) -> Iterable[dict[str, Any]]:
    done = tries(store)
    planned: Counter[tuple[str, str]] = Counter()
    for row in store.records("plan"):
        key = Key(row["agent"], row["case_id"], row["condition"], row["repeat"])
        planned[key.agent, key.condition] += 1
        done.setdefault(key, Tried())
    cells: defaultdict[tuple[str, str], list[Tried]] = defaultdict(list)
    for key, tried in done.items():
        cells[key.agent, key.condition].append(tried)
    spent, models = _spent(store)
    batches = under_way(store, "run")
    for arm, found in sorted(cells.items(), key=lambda item: _place(item[0])):
        n_ok = sum("ok" in tried.paid for tried in found)
        n_paid = sum(bool(tried.paid) for tried in found)
        wanted = planned.get(arm)
        yield {
            "stage": "run",
            "name": arm[0],
            "condition": arm[1],
            "round": pd.NA,
            "n_wanted": wanted if wanted else pd.NA,
            "n_ok": n_ok,
            "n_not_ok": n_paid - n_ok,
            "n_failed": sum(bool(tried.n_errors and not tried.paid) for tried in found),
            "n_open": wanted - n_paid if wanted else 0,
            "cost_usd": spent.get(arm, float("nan")),
            "models": ", ".join(sorted(models[arm])) or None,
            "gold_agreement": float("nan"),
            "note": batches.get(arm[0]),
        }


def _place(arm: tuple[str, str]) -> tuple[str, int, str]:
    known = CONDITIONS.index(arm[1]) if arm[1] in CONDITIONS else len(CONDITIONS)
    return arm[0], known, arm[1]


def _spent(
    store: RunStore,
) -> tuple[dict[tuple[str, str], float], defaultdict[tuple[str, str], set[str]]]:
    spent: dict[tuple[str, str], float] = {}
    models: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    columns = ["agent", "condition", "cost_usd", "agent_model", "perturbation"]
    for row in store.table("attempts").select(columns).to_pylist():
        arm = (row["agent"] or "", row["condition"])
        if row["cost_usd"] is not None and row["perturbation"] is None:
            spent[arm] = spent.get(arm, 0.0) + row["cost_usd"]
        if row["agent_model"]:
            models[arm].add(row["agent_model"])
    for row in store.records("surplus"):
        arm = (row["agent"], row["condition"])
        spent[arm] = spent.get(arm, 0.0) + (row.get("cost_usd") or 0.0)
    return spent, models


def _grades(store: RunStore) -> Iterable[dict[str, Any]]:
    table = store.table("attempts").select(["attempt_id", "case_id", "status"]).to_pylist()
    n_checks = {case.case_id: len(case.checks) for s in store.suites.values() for case in s.cases}
    needs = {
        row["attempt_id"]: n_checks.get(row["case_id"], 0) for row in table if row["status"] == "ok"
    }
    to_grade = {name for name, n in needs.items() if n}
    seen: defaultdict[tuple[str, str | None, int], Counter[str]] = defaultdict(Counter)
    broken: defaultdict[tuple[str, str | None, int], set[str]] = defaultdict(set)
    spent: dict[tuple[str, str | None, int], float] = {}
    models: defaultdict[tuple[str, str | None, int], set[str]] = defaultdict(set)
    columns = ["attempt_id", "grader", "grader_version", "round", "status", "cost_usd"]
    columns += ["grader_model"]
    for row in store.table("verdicts").select(columns).to_pylist():
        key = (row["grader"], row["grader_version"], row["round"])
        seen[key][row["attempt_id"]] += 1
        if row["status"] != "ok":
            broken[key].add(row["attempt_id"])
        if row["cost_usd"] is not None:
            spent[key] = spent.get(key, 0.0) + row["cost_usd"]
        if row["grader_model"]:
            models[key].add(row["grader_model"])
    receipts, batches = _last_receipts(store), under_way(store, "grade")
    # a grader that was begun and has said nothing yet is shown as well
    for key in [*seen, *(key for key in receipts if key not in seen)]:
        whole = {name for name, n in seen[key].items() if n >= needs.get(name, 1)}
        live = receipts.get(key)
        yield {
            "stage": "grade",
            "name": key[0],
            "condition": None,
            "round": key[2],
            "n_wanted": len(to_grade) if live else pd.NA,
            "n_ok": len(whole - broken[key]),
            "n_not_ok": len(whole & broken[key]),
            "n_failed": pd.NA,
            "n_open": len(to_grade - whole) if live else 0,
            "cost_usd": spent.get(key, float("nan")),
            "models": ", ".join(sorted(models[key])) or None,
            "gold_agreement": ((live or {}).get("gold") or {}).get("agreement"),
            "note": batches.get(f"{key[0]}#{key[1]}/{key[2]}"),
        }


def _last_receipts(store: RunStore) -> dict[tuple[str, str | None, int], Mapping[str, Any]]:
    found: dict[tuple[str, str | None, int], Mapping[str, Any]] = {}
    for row in store.records("receipts"):
        if row["stage"] == "grade":
            key = (row["name"], row["prompt_version"], row["study"]["round"])
            # the end of a run carries what its beginning could not know
            found[key] = row
    return found


def writer(store: RunStore) -> str | None:
    """Return who is writing to a store, as far as can be seen without touching it.

    Parameters
    ----------
    store : RunStore
        The study.

    Returns
    -------
    str or None
        Process, host and start of the writer; None when there is none. A process of another host
        is taken to be alive.
    """
    try:
        who = orjson.loads((store.path / _journal.WHO).read_bytes())
        if who["host"] == socket.gethostname():
            os.kill(who["pid"], 0)
    except PermissionError:
        pass  # it is alive and another user's
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return f"process {who['pid']} on {who['host']} since {who['since']}"
