"""What the tables of a store say of each other: contracts kept, and no reference leads nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from skillcomp.errors import SkillcompError
from skillcomp.frames import readers
from skillcomp.io.store import RunStore

__all__ = ["problems"]


def problems(store: RunStore) -> tuple[str, ...]:
    """Return everything for which an analysis would refuse a store or count it wrongly.

    Parameters
    ----------
    store : RunStore
        The recorded study, with every copy, round and labeller in it.

    Returns
    -------
    tuple of str
        One sentence each. First what breaks a contract, in the words in which an analysis refuses
        it; then rows that name an attempt, a case or a check that is not there, a verdict on an
        attempt without an answer, and a winner that was not compared. A table that breaks its
        contract is not held against the others.
    """
    found: list[str] = []
    frames: dict[str, pd.DataFrame] = {}
    ways: dict[str, Callable[[], pd.DataFrame]] = {
        "cases": lambda: readers.cases(store),
        "checks": lambda: readers.checks(store),
        "attempts": lambda: readers.attempts(store, perturbation="all"),
        "verdicts": lambda: readers.verdicts(store, perturbation="all", round="all"),
        "gold": lambda: readers.gold(store, labeller="all"),
        "pairwise": lambda: readers.pairwise(store),
        "invocations": lambda: readers.invocations(store, perturbation="all"),
    }
    for kind, read in ways.items():
        try:
            frames[kind] = read()
        except SkillcompError as error:
            said = str(error)
            # verdicts cannot be read where attempts cannot: that was said
            found += [said] if said not in found else []
    for look in (_attempts, _verdicts, _gold, _pairwise):
        found += look(frames)
    return tuple(found)


def _told(kind: str, rows: pd.DataFrame, names: list[str], what: str) -> Iterator[str]:
    """Say how many rows are at fault, and which is the first."""
    if len(rows):
        first = ", ".join(f"{name} '{rows[name].iloc[0]}'" for name in names)
        yield f"{kind}: rows that {what}: {len(rows)}; the first: {first}."


def _is_among(frame: pd.DataFrame, known: pd.DataFrame, on: list[str]) -> pd.Series:
    keys = pd.MultiIndex.from_frame(frame[on])
    return pd.Series(keys.isin(pd.MultiIndex.from_frame(known[on])), index=frame.index)


def _attempts(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    attempts, cases = frames.get("attempts"), frames.get("cases")
    if attempts is None or cases is None:
        return
    asked = attempts["case_id"].isin(cases["case_id"])
    what = "answer a case that no suite has"
    yield from _told("attempts", attempts[~asked], ["attempt_id", "case_id"], what)
    own = _is_among(attempts, cases, ["skill", "case_id"])
    what = "name another skill than their case"
    yield from _told("attempts", attempts[asked & ~own], ["attempt_id", "skill", "case_id"], what)
    source = attempts["source_attempt_id"]
    lost = attempts[source.notna() & ~source.isin(attempts["attempt_id"])]
    what = "are copies of an attempt that is not there"
    yield from _told("attempts", lost, ["attempt_id", "source_attempt_id"], what)


def _verdicts(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    verdicts, attempts = frames.get("verdicts"), frames.get("attempts")
    if verdicts is None or attempts is None:
        return
    status = verdicts["attempt_id"].map(attempts.set_index("attempt_id")["status"])
    none = verdicts[status.notna() & status.ne("ok") & verdicts["passed"].notna()]
    what = "judge an attempt whose status is not ok"
    yield from _told("verdicts", none, ["attempt_id", "check_id"], what)
    if "checks" in frames:
        strange = verdicts[~_is_among(verdicts, frames["checks"], ["skill", "case_id", "check_id"])]
        what = "judge a check that their case does not have"
        yield from _told("verdicts", strange, ["attempt_id", "check_id"], what)


def _gold(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    gold, attempts, checks = frames.get("gold"), frames.get("attempts"), frames.get("checks")
    if gold is None or attempts is None:
        return
    known = gold["attempt_id"].isin(attempts["attempt_id"])
    what = "label an attempt that is not there"
    yield from _told("gold", gold[~known], ["attempt_id", "check_id"], what)
    if checks is None:
        return
    about = gold[known].merge(attempts[["attempt_id", "skill", "case_id"]], on="attempt_id")
    strange = about[~_is_among(about, checks, ["skill", "case_id", "check_id"])]
    what = "label a check that their case does not have"
    yield from _told("gold", strange, ["attempt_id", "check_id"], what)


def _pairwise(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    pairwise, attempts = frames.get("pairwise"), frames.get("attempts")
    if pairwise is None or attempts is None:
        return
    for name in ("first", "second"):
        lost = pairwise[~pairwise[name].isin(attempts["attempt_id"])]
        what = "compare an attempt that is not there"
        yield from _told("pairwise", lost, ["case_id", name], what)
    winner = pairwise["winner"]
    neither = winner.notna() & winner.ne(pairwise["first"]) & winner.ne(pairwise["second"])
    what = "name a winner that is neither of the two compared"
    yield from _told("pairwise", pairwise[neither], ["case_id", "winner"], what)
