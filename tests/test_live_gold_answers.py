"""Gold answers: a changed text is another answer, and a study waits for their verdicts."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import live_study
from fake_anthropic import FakeAnthropic
from live_study import graded, make_store, rows

import skillcomp as sc
from skillcomp.errors import GraderError
from skillcomp.live.batches import BatchLimits
from skillcomp.live.graders.gold_answers import GoldAnswer, gold_answers
from skillcomp.live.graders.grader import GraderWarning

FAST_BATCH = BatchLimits(max_requests=20, first_wait=0.01, longest_wait=0.02)


@pytest.fixture(autouse=True)
def only_the_fake_key(monkeypatch, tmp_path):
    live_study.only_the_fake_key(monkeypatch, tmp_path)


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path, n_cases=1)


def run(store, server):
    return sc.run(store, agents=[live_study.agent(server.url)], progress=False)


def grade(store, server, **more):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*of one family", category=GraderWarning)
        return sc.grade(store, graders=[live_study.grader(server.url)], progress=False, **more)


def gold(text, **more):
    labels = {"names_practice": True}
    return {"case_id": "tides/1", "id": "a", "answer": text, "labels": labels, **more}


def test_the_name_of_a_gold_answer_holds_its_text():
    one, other = (GoldAnswer(**gold(text)) for text in ("One.", "Other \ud800."))
    # printf One. | sha256sum
    assert one.attempt("tides").attempt_id == one.attempt_id == "gold/tides/1/a@70277bfc"
    assert other.attempt_id != one.attempt_id
    assert GoldAnswer(**gold("One.", labels={"names_practice": False})).attempt_id == one.attempt_id


def test_a_gold_answer_whose_text_was_changed_is_asked_again_and_judged_by_it(store):
    asked = []
    with FakeAnthropic() as server:
        run(store, server)
        for text in ("Wrong.", "Wrong.", "It is a practice."):
            n = len(server.bodies)
            labels = {"names_practice": text != "Wrong."}
            grade(store, server, gold=[gold(text, labels=labels)])
            told = [body["messages"][0]["content"] for body in server.bodies[n:]]
            asked.append(sum(f"<agent-answer>{text}<" in one.replace("\n", "") for one in told))
    assert asked == [1, 0, 1]
    (last,) = [list(store.records("receipts"))[-1]["gold"]]
    assert last["n"] == 1


def test_the_gate_does_not_let_a_new_text_pass_on_the_verdict_of_the_old(store):
    right, wrong = (dict.fromkeys(["names_practice", "no_verbatim_span"], x) for x in (True, False))
    with FakeAnthropic() as server:
        run(store, server)
        answers = [gold("It is a practice.", labels=wrong)]
        with pytest.raises(GraderError, match="No answer of the study was graded"):
            grade(store, server, gold=answers, min_gold_agreement=1.0)
        n = len(server.bodies)
        answers = [gold("It is one practice.", labels=right)]
        grade(store, server, gold=answers, min_gold_agreement=1.0)
        assert "It is one practice." in server.bodies[n]["messages"][0]["content"]
    assert len(graded(store)) == 8


@pytest.mark.parametrize("batch", [False, FAST_BATCH])
def test_a_budget_too_small_for_the_gold_answers_is_named(store, batch):
    with FakeAnthropic() as server:
        run(store, server)
        n = sum(server.log.values())
        with pytest.warns(GraderWarning, match=r"4 of 4 answers are not graded yet \(budget_usd"):
            grade(store, server, gold=[gold("It is a practice.")], min_gold_agreement=0.9,
                  budget_usd=1e-6, batch=batch)  # fmt: skip
        assert sum(server.log.values()) == n and not rows(store, "verdicts")
        grade(store, server, gold=[gold("It is a practice.")], min_gold_agreement=0.9)
    assert list(store.records("receipts"))[-1]["gold"]["agreement"] == 1.0


@pytest.mark.parametrize("batch", [False, FAST_BATCH])
def test_a_grader_that_paused_is_asked_again(store, batch):
    with FakeAnthropic() as server:
        run(store, server)
    fates = iter(["pause_turn"])
    faults = {"batch_faults": lambda _: next(fates, "ok")} if batch else {"faults": ["pause_turn"]}
    with FakeAnthropic(**faults) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", GraderWarning)
        table = grade(store, server, batch=batch)
        assert table["n_open"].tolist()[-1] == (0 if batch else 1)  # a batch has further rounds
        table = grade(store, server, batch=batch)
    assert table["n_open"].tolist()[-1] == 0
    statuses = [row["status"] for row in store.records("replies")]
    assert sorted(statuses) == ["ok"] * 4 + ["paused"]
    assert set(graded(store).values()) == {1} and len(graded(store)) == 8


def test_a_gold_file_may_begin_with_a_byte_order_mark(store, tmp_path):
    file = tmp_path / "gold.jsonl"
    file.write_text(json.dumps(gold("One.")) + "\n", encoding="utf-8-sig")
    assert gold_answers(store.suites.values(), file) == [GoldAnswer(**gold("One."))]
