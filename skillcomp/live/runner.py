"""Running a study: every planned cell asked once, every answer on the disk before the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from skillcomp.errors import StudyError, suggest
from skillcomp.io.store import RunStore
from skillcomp.live.arms import Text
from skillcomp.live.batches import BatchLimits, batch_agent
from skillcomp.live.grading import grade, regrade
from skillcomp.live.loop import run_sync
from skillcomp.live.plan import make_plan, tries
from skillcomp.live.reply import Agent
from skillcomp.live.runwork import RunWork, StudyWarning
from skillcomp.live.status import status
from skillcomp.records import Suite

__all__ = ["StudyWarning", "grade", "regrade", "run", "status"]

_AGAIN = ("refused", "truncated", "paused")


def run(
    store: RunStore,
    suites: Iterable[Suite | str | Path] | Mapping[str, Suite] | None = None,
    *,
    agents: Sequence[Agent],
    conditions: Sequence[str] = ("baseline", "skill"),
    repeats: int = 1,
    placebo: Text | Mapping[str, Text] | None = None,
    previous: Text | Mapping[str, Text] | None = None,
    seed: int = 0,
    concurrency: int = 8,
    budget_usd: float | None = None,
    batch: bool | BatchLimits = False,
    again: Collection[str] = (),
    progress: bool = True,
) -> pd.DataFrame:
    """Ask agents the cases of a study with and without the skill, and lose no answer.

    Every cell (agent, case, condition, repeat) is asked until it has an answer, and then never
    again: called once more with the same arguments, after an error, Ctrl-C or a crash, the run
    goes on where it was.

    Parameters
    ----------
    store : RunStore
        Where the study stands; nothing else may write to it meanwhile.
    suites : iterable or mapping, optional
        Suites of the store, their slugs, or files, which are added. All of the store's when not
        given. Each suite's skill must be in the store (`RunStore.add_skill`).
    agents : sequence of Agent
        Who is asked; answers are told apart by the agent's name.
    conditions : sequence of str, default ("baseline", "skill")
        Also ``placebo`` (another text of about the same length) and ``previous`` (an older
        SKILL.md).
    repeats : int, default 1
        How often each cell is asked.
    placebo : str, path, Skill or mapping, optional
        A text, a file or a slug of the store, or one for each skill; the store's other skill of
        the nearest length when not given. Kept with the study and named in ``loaded_skill``.
    previous : path, Skill or mapping, optional
        The older SKILL.md, or one for each skill.
    seed : int, default 0
        Of the order: interleaved over the arms, so that time does not confound them.
    concurrency : int, default 8
        Questions under way at once.
    budget_usd : float, optional
        Dollars that the answers of this store may cost in all, earlier ones included. Each call
        under way has its highest cost put aside, so the run stops before the limit is passed.
        Calls whose highest cost is not known (programs, models without a price) go one at a time,
        and the last of them can pass it.
    batch : bool or BatchLimits, default False
        Ask through the Message Batches API: half the price, within a day. Batches that an earlier
        call left under way are collected first in any case, before anything is asked.
    again : collection of str, optional
        Statuses among ``refused``, ``truncated`` and ``paused`` that are asked anew; without it
        what has been paid for is not asked for twice.
    progress : bool, default True
        Show a progress bar.

    Returns
    -------
    pandas.DataFrame
        The state of the study, as `skillcomp.live.status.status` gives it.

    Raises
    ------
    StudyError
        When something is missing or differs from what the study was begun with; nothing is asked.
    StoreError
        When another process writes to the store; it is named.
    AgentError
        When no further question could succeed (no key, no money) or twenty failed in a row. What
        was answered is kept.

    Warns
    -----
    StudyWarning
        When cells are left open: after errors, or at the end of the budget.

    Notes
    -----
    ``attempt_id`` is ``case_id/condition/repeat``, with the agent's name behind it in a study of
    several. A try that brought no answer is recorded with its error under ``.../error-1``, a
    question asked anew under ``.../again-1``. What a killed process can lose is what was under way
    between the service and the disk: at most `concurrency` replies, and none in a batch. A reply
    that arrives broken (half a body) is asked for again by the agent's retries; it cannot be kept
    and its cost is not known here.

    The first Ctrl-C, or SIGTERM, begins nothing new and no further try, and waits for what is under
    way; the second gives that up too.
    """
    found = _suites(store, suites)
    wanted_again = _again(again)
    _check_width(concurrency)
    limits = BatchLimits() if batch is True else batch or None
    for agent in agents if limits else ():
        batch_agent(agent)
    with store.writer():
        plan = make_plan(
            store,
            found,
            agents,
            conditions=conditions,
            repeats=repeats,
            placebo=placebo,
            previous=previous,
            seed=seed,
        )
        done = tries(store)
        settings = {"conditions": list(conditions), "repeats": repeats, "seed": seed}
        one = RunWork(store, plan, agents, done, wanted_again, settings, progress)
        run_sync(partial(one.main, budget_usd, concurrency, limits))
    one.warn()
    return status(store)


def _suites(
    store: RunStore, suites: Iterable[Suite | str | Path] | Mapping[str, Suite] | None
) -> list[Suite]:
    if suites is None:
        return list(store.suites.values())
    listed = suites.values() if isinstance(suites, Mapping) else suites
    if isinstance(listed, str | Path):
        raise StudyError(f"suites is {str(listed)!r}; give a list of suites, slugs or files.")
    return [_suite(store, one) for one in listed]


def _suite(store: RunStore, one: Suite | str | Path) -> Suite:
    if isinstance(one, Suite):
        inside = store.suites.get(one.slug)
        if inside is not None and inside.sha256 == one.sha256:
            return inside
        if one.path and Path(one.path).is_file():
            return store.add_suite(one.path, slug=one.slug)
        raise StudyError(
            f"suite '{one.slug}' is not in the store and its file is not known; add it with "
            "store.add_suite(path)."
        )
    if isinstance(one, str) and one in store.suites:
        return store.suites[one]
    if not Path(one).is_file():
        raise StudyError(
            f"suite '{one}': no file and no suite of the store "
            f"({', '.join(store.suites) or 'which has none'}).{suggest(str(one), store.suites)}"
        )
    return store.add_suite(one)


def _again(again: Collection[str]) -> frozenset[str]:
    for found in [again] if isinstance(again, str) else again:
        if found not in _AGAIN:
            raise StudyError(
                f"again: found '{found}'; allowed: {', '.join(_AGAIN)}.{suggest(found, _AGAIN)}"
            )
    return frozenset([again] if isinstance(again, str) else again)


def _check_width(concurrency: int) -> None:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise StudyError(f"concurrency is {concurrency!r}; allowed: a whole number from 1.")
