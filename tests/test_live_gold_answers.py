"""Gold answers: graded first, apart from the study, which waits for their verdicts."""

from __future__ import annotations

import json

import pytest
from fake_anthropic import FakeAnthropic
from live_study import grade, graded, make_store, rows, run

from skillcomp.errors import GraderError, StudyError
from skillcomp.live.graders.gold_answers import GoldAnswer, gold_answers
from skillcomp.live.graders.grader import GraderWarning

pytestmark = pytest.mark.usefixtures("fake_key")


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path, n_cases=1)


def gold(text, **more):
    labels = {"names_practice": True}
    return {"case_id": "tides/1", "id": "a", "answer": text, "labels": labels, **more}


def last_agreement(store):
    return list(store.records("receipts"))[-1]["gold"]


def test_gold_answers_of_a_suite_come_first_and_stand_apart(tmp_path):
    store = make_store(tmp_path, gold=True)
    with FakeAnthropic() as server:
        run(store, server, repeats=1)
        n = len(server.bodies)
        table = grade(store, server, min_gold_agreement=0.9)
        first = [body["messages"][0]["content"] for body in server.bodies[n : n + 2]]
    assert all("It is a practice." in text for text in first)
    row = table[table["stage"].eq("grade")].iloc[0]
    assert row["gold_agreement"] == 1.0 and row["n_ok"] == 16
    assert all(not row["attempt_id"].startswith("gold/") for row in rows(store, "verdicts"))
    assert sum(1 for _ in store.records("gold_verdicts")) == 4
    found = last_agreement(store)
    assert (found["n"], found["n_agree"], found["n_missing"]) == (4, 4, 0)


def test_a_grader_that_disagrees_with_gold_grades_nothing(store):
    # the service's grader passes this answer on both checks
    wrong = {"names_practice": False, "no_verbatim_span": True}
    answers = [gold("It is a practice.", labels=wrong)]
    with FakeAnthropic() as server:
        run(store, server, repeats=1)
        with pytest.raises(StudyError, match="there are no gold answers"):
            grade(store, server, min_gold_agreement=0.8)
        with pytest.raises(GraderError, match=r"agreement with gold 0.500 \(1 of 2.*at least 0.8"):
            grade(store, server, gold=answers, min_gold_agreement=0.8)
        assert not rows(store, "verdicts")
        n = sum(server.log.values())
        with pytest.raises(GraderError, match=r"differs at: tides/1 \(a\) names_practice"):
            grade(store, server, gold=answers, min_gold_agreement=0.8)
        assert sum(server.log.values()) == n  # the gold verdicts are paid for
        # a new text does not pass on the verdict of the old one
        right = dict.fromkeys(wrong, True)
        answers = [gold("It is one practice.", labels=right)]
        grade(store, server, gold=answers, min_gold_agreement=1.0)
        assert "It is one practice." in server.bodies[-5]["messages"][0]["content"]
    assert len(graded(store)) == 8


def test_the_name_of_a_gold_answer_holds_its_text_so_a_changed_one_is_asked_again(store):
    one, other = (GoldAnswer(**gold(text)) for text in ("One.", "Other \ud800."))
    # printf One. | sha256sum
    assert one.attempt("tides").attempt_id == one.attempt_id == "gold/tides/1/a@70277bfc"
    assert other.attempt_id != one.attempt_id
    assert GoldAnswer(**gold("One.", labels={"names_practice": False})).attempt_id == one.attempt_id
    asked = []
    with FakeAnthropic() as server:
        run(store, server, repeats=1)
        for text in ("Wrong.", "Wrong.", "It is a practice."):
            n = len(server.bodies)
            labels = {"names_practice": text != "Wrong."}
            grade(store, server, gold=[gold(text, labels=labels)])
            prompts = [body["messages"][0]["content"] for body in server.bodies[n:]]
            asked.append(sum(f"<agent-answer>{text}<" in p.replace("\n", "") for p in prompts))
    assert asked == [1, 0, 1] and last_agreement(store)["n"] == 1


def test_a_budget_too_small_for_the_gold_answers_is_named(store):
    about = {"gold": [gold("It is a practice.")], "min_gold_agreement": 0.9}
    with FakeAnthropic() as server:
        run(store, server, repeats=1)
        n = sum(server.log.values())
        with pytest.warns(GraderWarning, match=r"4 of 4 answers are not graded yet \(budget_usd"):
            grade(store, server, budget_usd=1e-6, **about)
        assert sum(server.log.values()) == n and not rows(store, "verdicts")
        grade(store, server, **about)
    assert last_agreement(store)["agreement"] == 1.0


def test_a_grader_that_paused_is_asked_again(store):
    with FakeAnthropic() as server:
        run(store, server, repeats=1)
    with FakeAnthropic(["pause_turn"]) as server:
        with pytest.warns(GraderWarning, match="1 of 4 answers are not graded yet"):
            grade(store, server)
        assert grade(store, server)["n_open"].tolist()[-1] == 0
    statuses = [row["status"] for row in store.records("replies")]
    assert sorted(statuses) == ["ok"] * 4 + ["paused"]
    assert set(graded(store).values()) == {1} and len(graded(store)) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "gold.jsonl, line 1: not JSON"),
        (json.dumps({"case_id": "tides/1", "id": "a", "answer": "x"}), "labels: Field required"),
        (
            json.dumps(gold("x", case_id="tide/1")),
            r"no case 'tide/1' in the store. Did you mean 'tides/1'\?",
        ),
        (
            json.dumps(gold("x", labels={"names_practise": True})),
            r"no check 'names_practise'.*Did you mean 'names_practice'\?",
        ),
    ],
)
def test_gold_that_does_not_fit_is_refused_with_its_place(store, tmp_path, text, message):
    file = tmp_path / "gold.jsonl"
    file.write_text(text)
    with pytest.raises(StudyError, match=message):
        gold_answers(store.suites.values(), file)
    file.write_text(json.dumps(gold("One.")) + "\n", encoding="utf-8-sig")
    assert gold_answers(store.suites.values(), file) == [GoldAnswer(**gold("One."))]
