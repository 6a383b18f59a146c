"""Batches that an earlier process left with the service: each is collected, and paid for, once."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anthropic
import fake_rules as rules
import live_study
import pytest
from fake_anthropic import KEY
from live_study import (
    AGENT,
    GRADER,
    N_CELLS,
    QUICK,
    Dated,
    grade_batches,
    graded,
    make_store,
    ok_cells,
    rows,
    run_batches,
)

import skillcomp as sc
from skillcomp.errors import AgentError
from skillcomp.live import AnthropicAgent
from skillcomp.live.agents.agent import StudyWarning
from skillcomp.live.batches import Batches, open_batches
from skillcomp.live.concurrency import StoppedError
from skillcomp.live.graders.grader import GraderWarning
from skillcomp.live.status import status

pytestmark = pytest.mark.usefixtures("fake_key")
SINGLE = "POST /v1/messages 200"
OTHER_KEY = "sk-fake-of-another-workspace-77"
FOREIGN = 10**9  # looks at a batch that never ends


def leave(work, *args, **more):
    """Do work until it waits for its batches, then stop as Ctrl-C does."""

    async def ended(self, batch_id):
        self.stop.ask("interrupted")
        raise StoppedError("interrupted")

    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        warnings.simplefilter("ignore", GraderWarning)
        patched.setattr(Batches, "await_end", ended)
        work(*args, **more)


class KilledError(Exception):
    """Stands for the end of the process."""


def die_after_the_post(store, server):
    """Send a batch and die before its name is noted."""
    service = anthropic.resources.messages.AsyncBatches
    real = service.create

    async def create(self, **body):
        await real(self, **body)
        raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(service, "create", create)
        with pytest.raises(KilledError):
            run_batches(store, server)


def n_sent(server):
    return sum(len(batch["requests"]) for batch in server.batches.values())


def complete(store):
    return len(ok_cells(store)) == N_CELLS and set(ok_cells(store).values()) == {1}


# Going on without batches


def test_a_run_without_batches_collects_what_is_under_way_first(store, caplog):
    seen = Counter()

    def fate(name):
        seen["n"] += 1
        return "errored" if seen["n"] in (3, 9) else "ok"

    with Dated(batch_faults=fate) as server:
        leave(run_batches, store, server)
        assert status(store)["note"].dropna().tolist() == ["1 batch with 32 requests"] * 2
        run_batches(store, server, False)
        assert server.log[SINGLE] == 2  # what came back with an error
        run_batches(store, server)
        assert n_sent(server) == N_CELLS
    assert complete(store)
    assert "agent 'claude-sonnet-5-5' has a batch under way; it is collected before" in caplog.text


@pytest.mark.parametrize(("gold", "n_asked"), [(False, 0), (True, N_CELLS)])
def test_grading_without_batches_collects_what_is_under_way_first(tmp_path, gold, n_asked, caplog):
    store = make_store(tmp_path, gold=gold)
    with Dated() as server:
        run_batches(store, server)
        leave(grade_batches, store, server)  # with gold, its gradings are the first batch
        assert not graded(store)
        n_before = n_sent(server)
        grade_batches(store, server, False)
        assert server.log[SINGLE] == n_asked
        grade_batches(store, server)
        assert n_sent(server) == n_before
    assert len(graded(store)) == 2 * N_CELLS and set(graded(store).values()) == {1}
    assert "has a batch under way" in caplog.text


def test_a_second_answer_to_a_cell_is_laid_aside(store):
    with Dated() as server:
        leave(run_batches, store, server)
        cell = next(row for row in store.records("plan") if row["repeat"] == 2)
        found = {k: cell[k] for k in ("attempt_id", "case_id", "condition", "repeat", "skill")}
        own = {**found, "agent": AGENT, "status": "ok", "answer": "Paid singly.", "cost_usd": 0.5}
        store.append("attempts", [own])
        run_batches(store, server, repeats=1)  # the cell is not of this run
        assert n_sent(server) == N_CELLS
        more = list(store.records("surplus"))
        assert [row["attempt_id"] for row in more] == [cell["attempt_id"]]
        run_batches(store, server)  # and it is not asked for, or kept, once more
        assert len(list(store.records("surplus"))) == 1
    assert complete(store)
    spent = status(store)["cost_usd"].sum()
    paid = sum(row["cost_usd"] for row in rows(store, "attempts"))
    assert spent == pytest.approx(paid + more[0]["cost_usd"]) and more[0]["cost_usd"] > 0


def test_a_budget_counts_what_other_batches_under_way_may_cost(store):
    with Dated() as server:
        leave(run_batches, store, server)
        usd = next(row["usd"] for row in store.records("batches") if row["event"] == "intent")
        other = live_study.agent(server.url, name="other")
        with pytest.warns(StudyWarning, match="32 of 32 cells .*budget_usd"):
            run_batches(store, server, False, agents=[other], budget_usd=usd)
        assert server.log[SINGLE] == 0
        run_batches(store, server, False, agents=[other], budget_usd=2.5 * usd)
        assert server.log[SINGLE] == N_CELLS


# Several graders

BUDGET = 0.2505  # what the second grader's batch may cost, and one request of the first


def two_graders(server):
    asked = [
        AnthropicAgent(GRADER, base_url=server.url, max_tokens=most, **live_study.FAST)
        for most in (2000, 60_000)
    ]
    return [sc.ComprehensionGrader(one, name=name) for one, name in zip(asked, "AB", strict=True)]


def grade_by_two(store, server, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraderWarning)
        sc.grade(store, graders=two_graders(server), **{"batch": QUICK, "progress": False, **more})


def leave_the_second(store, server):
    """Let the first grader end its batch, and stop while the second one's is under way."""
    real = Batches.await_end

    async def ended(self, batch_id):
        if "60000" not in self.agent.settings:
            return await real(self, batch_id)
        self.stop.ask("interrupted")
        raise StoppedError("interrupted")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batches, "await_end", ended)
        grade_by_two(store, server, budget_usd=BUDGET)
    assert [purpose[:8] for purpose, _ in open_batches(store)] == ["grade:B#"]


def by_grader(store):
    return Counter(row["grader"] for row in rows(store, "verdicts"))


def test_the_batches_of_all_graders_are_collected_before_anyone_is_asked(store):
    with Dated() as server:
        run_batches(store, server, False, repeats=1)
        leave_the_second(store, server)
        run_batches(store, server, False)  # the first grader has new answers
        grade_by_two(store, server, batch=False, budget_usd=BUDGET)
        assert not list(open_batches(store))
        assert by_grader(store) == {"A": 2 * N_CELLS, "B": 2 * N_CELLS}
        spent = sum(row["cost_usd"] for row in store.records("replies"))
        assert 0 < spent <= BUDGET


# A key of another workspace


def test_a_batch_of_another_workspace_is_not_paid_for_again_but_on_demand(store):
    with Dated() as server, Dated() as other:
        leave(run_batches, store, server)
        for limits in (QUICK, False):
            with pytest.raises(AgentError, match="likely of another workspace"):
                run_batches(store, other, limits)
        assert n_sent(other) == other.log[SINGLE] == 0
        run_batches(store, other, replace(QUICK, resend=True))
        assert n_sent(other) == N_CELLS
    assert complete(store)


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_without_a_name_is_looked_for_in_its_own_workspace(store, first):
    with Dated() as server, Dated() as other:
        add_foreign(other if first else server, n=3, age=timedelta(days=5), left=0)
        die_after_the_post(store, server)
        with pytest.raises(AgentError, match="the service lists neither it nor the one before it"):
            run_batches(store, other)
        run_batches(store, server)
        assert n_sent(server) == N_CELLS + (0 if first else 3)
    assert complete(store)


def begun(store, *, days=0, batch_id=None):
    """Note a batch as an earlier process did, some days ago."""
    about = {"nonce": "a", "at": (datetime.now(UTC) - timedelta(days=days)).isoformat()}
    keys = [row["attempt_id"] for row in store.records("plan")][:1] or ["tides/1/skill/1"]
    events = [about | {"event": "intent", "purpose": f"run:{AGENT}", "keys": keys}]
    events += [about | {"event": "created", "batch_id": batch_id}] * bool(batch_id)
    store.append("batches", events)


def test_a_batch_that_the_service_no_longer_keeps_is_sent_again(store, caplog):
    begun(store, days=30, batch_id="msgbatch_9999")
    with Dated() as server:
        run_batches(store, server)
    assert complete(store)
    assert "batch msgbatch_9999" in caplog.text and "they are sent again" in caplog.text


class Archived(Dated):
    """Deletes the results of some batches at once, or of all where `gone` is None."""

    gone = None

    def shown(self, batch):
        shown = super().shown(batch)
        if batch["left"] <= 0 and (self.gone is None or batch["id"] in self.gone):
            shown |= {"results_url": None, "archived_at": shown["created_at"]}
        return shown


def usd_sent(store):
    return sum(row["usd"] for row in store.records("batches") if row["event"] == "intent")


def test_results_that_are_deleted_at_once_are_paid_for_once_a_start(store):
    with Archived() as server:
        with pytest.raises(AgentError, match="deleted its results before they could be read"):
            run_batches(store, server, QUICK)
        assert n_sent(server) == N_CELLS
        budget = 1.5 * usd_sent(store)
        with pytest.raises(AgentError, match="may have been paid for"):
            run_batches(store, server, QUICK, budget_usd=budget)
        assert N_CELLS < n_sent(server) < 2 * N_CELLS and usd_sent(store) <= budget
        n_before = n_sent(server)
        for _ in range(2):
            with pytest.warns(StudyWarning, match="32 of 32 cells .*budget_usd"):
                run_batches(store, server, QUICK, budget_usd=budget)
        assert n_sent(server) == n_before
        server.gone = ()
        run_batches(store, server, QUICK)
    assert complete(store)


# Clocks, and batches of others


def add_foreign(server, *, n=N_CELLS, age=timedelta(0), left=FOREIGN):
    name = f"msgbatch_{len(server.batches) + 1:04d}"
    body = {"model": AGENT, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    requests = [{"custom_id": f"f{i}", "params": body} for i in range(n)]
    made = (datetime.now(UTC) - age).isoformat()
    server.batches[name] = {
        "id": name, "requests": requests, "left": left, "canceled": False, "made": made,
    }  # fmt: skip


@pytest.mark.parametrize(("days", "n_looks"), [(3, 0), (0, 1)])
def test_an_intent_without_a_list_waits_for_batches_of_its_day_only(store, days, n_looks):
    with Dated() as server:
        add_foreign(server, n=1, age=timedelta(days=days), left=1)
        begun(store)  # by this machine's clock, and with nothing of the list before it
        run_batches(store, server)
        assert (server.batches["msgbatch_0001"]["left"] < 1) == n_looks
    assert complete(store)


class Late(Dated):
    """Has a clock that is days behind, and tells it in every answer."""

    now = datetime.now(UTC) - timedelta(days=3)

    def shown(self, batch):
        batch.setdefault("made", self.now.isoformat())
        return super().shown(batch)

    async def _route(self, *request):
        status, out, extra, cut = await super()._route(*request)
        return status, out, {**extra, "date": format_datetime(self.now, usegmt=True)}, cut


def test_a_batch_whose_answer_was_lost_is_paid_for_once_whatever_the_clock(store):
    with Late(lose=(1,)) as server:
        run_batches(store, server)
        assert len(server.batches) == 1
    assert complete(store)


@pytest.mark.parametrize("ended", [True, False])
def test_a_batch_of_others_is_not_waited_for(store, ended):
    with Dated() as server:
        # as many requests as ours and never over: one before ours, one long after it
        add_foreign(server, age=timedelta(hours=2))
        die_after_the_post(store, server)
        server.batches["msgbatch_0002"]["left"] *= not ended
        add_foreign(server, age=timedelta(hours=0 if ended else -7))
        run_batches(store, server)
        looks = [FOREIGN - batch["left"] for batch in server.batches.values()]
        assert looks[0] == looks[2] == 0 and len(looks) == 3
    assert complete(store)


# A service that fails


class Failing(Dated):
    """Answers some of its GETs as `fault` says: a status, ``drop``, ``half`` or ``short``."""

    def __init__(self, where, fault, *, times=FOREIGN, **kw):
        super().__init__(**kw)
        self.where, self.fault, self.times, self.n = where, fault, times, 0

    async def _route(self, method, path, *request):
        found = await super()._route(method, path, *request)
        parts = path.split("/")[4:]
        place = "list" if not parts else "results" if len(parts) == 2 else "look"
        if method != "GET" or place != self.where or self.n >= self.times:
            return found
        self.n += 1
        if isinstance(self.fault, int):
            raise rules.RefusedError(self.fault, "api_error", "by schedule")
        if self.fault == "short":
            return (found[0], b"\n".join(found[1].splitlines()[:5]), *found[2:])
        return (*found[:3], self.fault)


@pytest.mark.parametrize(
    ("place", "fault", "times"),
    [("look", 503, 11), ("results", "half", 2), ("results", "short", 2), ("list", 404, FOREIGN)],
)
def test_a_service_that_is_gone_for_a_while_does_not_end_the_wait(
    store, place, fault, times, caplog
):
    with Failing(place, fault, times=times, batch_polls=2) as server:
        run_batches(store, server)
        assert n_sent(server) == N_CELLS
    assert complete(store) and len(rows(store, "attempts")) == N_CELLS
    assert caplog.text.count("batch msgbatch_0001: no word") == (place == "look")


@pytest.mark.parametrize(
    ("place", "fault", "n_calls"),
    [("look", 503, 1), ("results", "half", 6), ("results", 403, 1)],
)
def test_after_a_failure_that_lasts_the_batch_is_kept(store, place, fault, n_calls):
    text = {"look": "cannot be looked at", "results": ".* cannot be read"}[place]
    with Failing(place, fault) as server:
        with pytest.raises(AgentError, match=rf"batch msgbatch_0001 {text} \(.*continues"):
            run_batches(store, server, replace(QUICK, longest_silence=0.0))
        assert server.n == n_calls
        server.times = 0
        run_batches(store, server)
        assert n_sent(server) == N_CELLS
    assert complete(store)


# Keys


@pytest.mark.parametrize("named", [True, False])
def test_a_wrong_key_at_the_resume_is_told_without_the_key(
    store, named, monkeypatch, capsys, caplog
):
    caplog.set_level(logging.DEBUG, "skillcomp")
    with Dated() as server:
        if named:
            leave(run_batches, store, server)
        else:
            die_after_the_post(store, server)
        monkeypatch.setenv("ANTHROPIC_API_KEY", OTHER_KEY)
        with pytest.raises(AgentError) as told:
            run_batches(store, server)
        files = (p.read_text() for p in store.path.rglob("*") if p.is_file())
        texts = [*traceback.format_exception(told.value), *capsys.readouterr(), *files, caplog.text]
        assert not any(key in text for text in texts for key in (KEY, OTHER_KEY))
        assert "AuthenticationError 401" in str(told.value)
        assert "invalid x-api-key [ANTHROPIC_API_KEY]" in str(told.value)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        run_batches(store, server)
        assert n_sent(server) == N_CELLS
    assert complete(store)
