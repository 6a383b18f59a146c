"""A study whose process is killed with -9, again and again, loses no answer and pays none twice.

Each process is a real one (forked from a server that has the imports done, so that it starts in
milliseconds) and is ended by SIGKILL at a random moment.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
import warnings

import live_study
import pytest
from fake_anthropic import KEY, FakeAnthropic
from live_study import N_CELLS, graded, make_store, ok_cells, rows
from tqdm.auto import tqdm

import skillcomp as sc
from skillcomp.io.store import RunStore

WIDTH = 4  # questions under way
N_GOLD = 2
_FORK = multiprocessing.get_context("forkserver")
_FORK.set_forkserver_preload(
    ["anthropic", "skillcomp.frames", "skillcomp.live.run", "skillcomp.live.agents"]
)


def work(path, url):
    """What the process does: the whole study, from where it stands."""
    os.environ |= {"ANTHROPIC_API_KEY": KEY, "SSL_CERT_FILE": "", "SSL_CERT_DIR": str(path)}
    tqdm.set_lock(threading.RLock())  # its default lock would outlive the process
    warnings.simplefilter("ignore")
    store = RunStore(path)
    options = {"progress": False, "concurrency": WIDTH}
    sc.run(store, agents=[live_study.agent(url)], repeats=2, **options)
    sc.grade(store, graders=[live_study.grader(url)], **options)


def start(store, server):
    process = _FORK.Process(target=work, args=(store.path, server.url), daemon=True)
    process.start()
    return process


def finish(store, server, **options):
    process = start(store, server, **options)
    process.join(60)
    assert process.exitcode == 0


def kill_at_random(store, server, draw, **options):
    """Return whether the process was alive when it was killed, somewhere within its work.

    Moments are counted in exchanges with the service and not in seconds, so that they fall into
    the work on a machine of any speed; a few fall before it.
    """
    process = start(store, server, **options)
    further = draw.randint(0, 4 if options else 14)
    target = server.n_exchanges + further
    while server.n_exchanges < target and process.exitcode is None:
        process.join(0.001)
    process.join(draw.uniform(0, 0.03 if further else 0.3))
    alive = process.exitcode is None
    process.kill()
    process.join(10)
    while server.in_flight:  # what it had asked for is answered, and paid for, all the same
        time.sleep(0.002)
    return alive


def n_stored(store):
    """Count the replies that the store has: answers and gradings."""
    again = RunStore(store.path)
    return again.table("attempts").num_rows + sum(1 for _ in again.records("replies"))


def assert_whole(store):
    cells, verdicts = ok_cells(store), graded(store)
    assert len(cells) == N_CELLS and set(cells.values()) == {1}
    assert len(verdicts) == 2 * N_CELLS and set(verdicts.values()) == {1}
    assert {row["status"] for row in rows(store, "attempts")} == {"ok"}
    assert {row["attempt_id"] for row in rows(store, "verdicts")} == {
        row["attempt_id"] for row in rows(store, "attempts")
    }
    assert sum(1 for _ in store.records("gold_verdicts")) == 2 * N_GOLD
    sc.frames.outcomes(sc.frames.verdicts(store), sc.frames.cases(store))  # the contracts hold


@pytest.mark.filterwarnings("ignore::skillcomp.io.journal.StoreWarning")  # a torn line
@pytest.mark.parametrize("n_kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_again_and_again_every_cell_is_answered_and_graded_once(tmp_path, n_kills):
    draw, kills, studies = random.Random(20261121), 0, 0
    while kills < n_kills:
        store = make_store(tmp_path / str(studies), gold=True)
        with FakeAnthropic(latency=0.02, keep=False) as server:
            lost = 0
            while kills < n_kills and kill_at_random(store, server, draw):
                kills += 1
                paid, stored = server.log["POST /v1/messages 200"], n_stored(store)
                # what is lost was between the service and the disk when the process died:
                # never more than was under way, and nothing that was there before
                assert 0 <= paid - stored - lost <= WIDTH
                lost = paid - stored
                assert max(ok_cells(store).values(), default=1) == 1
            finish(store, server)
            paid = server.log["POST /v1/messages 200"]
        assert paid == n_stored(store) + lost
        # nothing that the store had was paid for again
        assert n_stored(store) == 2 * N_CELLS + N_GOLD
        assert_whole(store)
        studies += 1
