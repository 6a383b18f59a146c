"""Studies through the Message Batches API of the loopback service."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from dataclasses import replace

import fake_rules as rules
import pytest
from fake_anthropic import FakeAnthropic
from live_study import (
    N_CELLS,
    QUICK,
    Dated,
    agent,
    grade_batches,
    graded,
    make_store,
    ok_cells,
    rows,
    run_batches,
)

import skillcomp as sc
from skillcomp.errors import AgentError
from skillcomp.live import CliAgent
from skillcomp.live.agents.agent import StudyWarning
from skillcomp.live.graders.grader import GraderWarning
from skillcomp.live.status import status

pytestmark = pytest.mark.usefixtures("fake_key")
CREATED = "POST /v1/messages/batches 200"


def n_paid(server):
    return sum(
        json.loads(line)["result"]["type"] == "succeeded"
        for batch in server.batches.values()
        for line in batch.get("rows", b"").splitlines()
    )


def test_the_whole_study_goes_through_batches_at_half_the_price(store, tmp_path):
    with Dated(batch_polls=3) as server:
        table = run_batches(store, server)
        assert table["n_ok"].tolist() == [16, 16]
        table = grade_batches(store, server)
        assert server.log["POST /v1/messages 200"] == 0 and server.log[CREATED] == 2
        assert n_paid(server) == 2 * N_CELLS
    assert set(ok_cells(store).values()) == {1} and len(graded(store)) == 2 * N_CELLS
    assert table[table["stage"].eq("grade")]["n_open"].tolist() == [0]
    found = rows(store, "attempts")
    assert all(row["request_id"].startswith("msgbatch_0001/") for row in found)
    other = make_store(tmp_path / "other")
    with FakeAnthropic() as server:
        sc.run(other, agents=[agent(server.url)], repeats=2, progress=False)
    half = sum(row["cost_usd"] for row in found if row["condition"] == "baseline")
    full = sum(r["cost_usd"] for r in rows(other, "attempts") if r["condition"] == "baseline")
    assert half == pytest.approx(full / 2)


def test_batches_are_cut_by_count_and_by_size(store):
    with Dated() as server:
        run_batches(store, server, replace(QUICK, max_requests=10))
        sizes = [len(batch["requests"]) for batch in server.batches.values()]
        assert sizes == [10, 10, 10, 2]
    with Dated() as server:
        # a request with a skill has about 9 kB, one without about 200 bytes
        grade_batches(store, server, replace(QUICK, max_bytes=100_000))
        lengths = [len(json.dumps(batch["requests"])) for batch in server.batches.values()]
        assert len(lengths) > 2 and max(lengths) <= 100_000
    assert len(graded(store)) == 2 * N_CELLS


def test_what_fails_or_is_malformed_is_sent_again_and_what_is_invalid_is_not(store):
    fates = {3: "errored", 5: "expired", 7: "invalid", 9: "refusal", 35: "garbage", 36: "garbage"}
    fates[37] = "errored"
    numbers = itertools.count(1)
    with Dated(batch_faults=lambda _: fates.get(next(numbers), "ok")) as server:
        with pytest.warns(StudyWarning, match="1 of 32 cells have no answer yet"):
            run_batches(store, server)
        statuses = Counter(row["status"] for row in rows(store, "attempts"))
        assert statuses == {"ok": 30, "error": 3, "refused": 1}
        errors = sorted(r["error"] for r in rows(store, "attempts") if r["status"] == "error")
        assert [error.split(":")[0] for error in errors] == [
            *("api_error", "expired in its batch", "invalid_request_error"),
        ]
        grade_batches(store, server)
        run_batches(store, server)
        sizes = [len(batch["requests"]) for batch in server.batches.values()]
    assert sizes == [32, 2, 30, 3, 1]
    assert len(ok_cells(store)) == N_CELLS - 1 and set(ok_cells(store).values()) == {1}
    assert {row["status"] for row in rows(store, "verdicts")} == {"ok"}
    assert sum(1 for _ in store.records("replies")) == 33


def test_ctrl_c_leaves_a_batch_with_the_service_and_finds_it_again(store):
    class Slow(Dated):
        def shown(self, batch):
            if batch["left"] == 10**6 - 3:
                os.kill(os.getpid(), signal.SIGINT)
            return super().shown(batch)

    with Slow(batch_polls=10**6) as server:
        with pytest.raises(KeyboardInterrupt):
            run_batches(store, server)
        assert status(store)["note"].dropna().tolist() == ["1 batch with 32 requests"] * 2
        for batch in server.batches.values():
            batch["left"] = 1
        run_batches(store, server)
        assert len(server.batches) == 1
    assert len(ok_cells(store)) == N_CELLS


def test_a_batch_that_is_refused_is_told_and_forgotten(store):
    with Dated() as server:
        server.create_batch = lambda _: (_ for _ in ()).throw(rules.bad("requests: too many"))
        with pytest.raises(AgentError, match=r"32 requests was not taken .*requests: too many"):
            run_batches(store, server)
    assert [row["event"] for row in store.records("batches")] == ["intent", "dropped"]


def test_a_budget_cuts_the_batch(store):
    with Dated() as server:
        with pytest.warns(StudyWarning, match="budget_usd"):
            run_batches(store, server, budget_usd=0.01)
        spent = sum(row["cost_usd"] for row in rows(store, "attempts"))
        # a batched call may cost at most 0.0088, half of a plain one
        assert 0.01 - 0.0088 < spent <= 0.01 and len(ok_cells(store)) < N_CELLS
        run_batches(store, server)
        with pytest.warns(GraderWarning, match="budget_usd"):
            grade_batches(store, server, budget_usd=0.0015)
        assert 0 < sum(row["cost_usd"] for row in store.records("replies")) <= 0.0015
        grade_batches(store, server)
    assert len(ok_cells(store)) == N_CELLS and len(graded(store)) == 2 * N_CELLS


def test_only_the_messages_api_has_batches(store):
    other = sc.OpenAIAgent("m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(AgentError, match=r"agent 'm' \(OpenAIAgent\) cannot be asked in batches"):
        sc.run(store, agents=[other], batch=True)
    with pytest.raises(AgentError, match=r"agent 'cat' \(CliAgent\) cannot be asked in batches"):
        sc.run(store, agents=[CliAgent(["cat"])], batch=True, progress=False)
