"""The limit of a study in dollars, where calls cost more than plain English lets expect."""

from __future__ import annotations

import asyncio
import itertools
import warnings

import pytest
from fake_anthropic import FakeAnthropic
from fake_openai import FakeOpenAI
from live_study import agent, grader, make_store, rows, script

import skillcomp as sc
from skillcomp.errors import StudyError
from skillcomp.live import BaseAgent, CliAgent, ComprehensionGrader, OpenAIAgent, Reply
from skillcomp.live.agents.agent import UNREADABLE, StudyWarning
from skillcomp.live.engine import Budget, upper_tokens
from skillcomp.pricing import Price

pytestmark = pytest.mark.usefixtures("fake_key")


def spent(store):
    return sum(row["cost_usd"] or 0.0 for row in rows(store, "attempts"))


# tokens


@pytest.mark.parametrize(
    "text", ["潮汐標記", "🌊🌊", "é", "0123456789", "a|b|c||", "\t\t", "\ud83d"]
)
def test_no_text_has_more_tokens_than_are_put_aside(text):
    # byte by byte is the most that a tokenizer with a byte fallback makes of it
    letters = sum(char.isascii() and char.isalpha() for char in text)
    assert upper_tokens(text) >= len(text.encode("utf-8", "replace")) - letters * 0.6
    assert upper_tokens("word " * 100) == 200


# calls without a price


class Program(BaseAgent):
    """An agent like a program: what a call costs is known only afterwards."""

    name = "program"

    def __init__(self, costs):
        self.costs, self.n, self.under_way, self.most = iter(costs), 0, 0, 0

    async def ask(self, prompt, **_):
        self.n += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.005)
        self.under_way -= 1
        found = next(self.costs)
        return found if isinstance(found, Reply) else Reply(answer="a", cost_usd=found)


def test_calls_without_a_price_go_alone_so_that_one_at_most_passes_the_budget(tmp_path):
    store, one = make_store(tmp_path), Program(itertools.chain([0.01], itertools.repeat(1.0)))
    with pytest.warns(StudyWarning, match=r"budget_usd 0\.2: 1\.0100 are spent"):
        sc.run(store, agents=[one], budget_usd=0.2, progress=False, concurrency=8)
    assert (one.n, one.most) == (2, 1) and spent(store) == pytest.approx(1.01)


def test_a_model_without_a_price_is_refused_before_the_first_call_of_a_budget(tmp_path):
    store = make_store(tmp_path)
    given = {"budget_usd": 1.0, "progress": False}
    with FakeOpenAI(key="no-key") as server:
        local = OpenAIAgent("mine", base_url=server.url)
        program = CliAgent([*script(tmp_path, "open('asked', 'w')", "codex"), "exec", "--json"])
        for one, note in ((local, "no price for model 'mine'"), (program, "it names no model")):
            with pytest.raises(StudyError, match=f"'{one.name}' cannot keep budget_usd: {note}"):
                sc.run(store, agents=[one], **given)
        assert not server.bodies and not rows(store, "attempts")
        # the service reports tokens of its cache, which a free model does not charge for
        free = OpenAIAgent(
            "mine",
            name="free",
            base_url=server.url,
            prices=[Price("mine-2026", 0, 0), Price("mine", 0, 0)],
        )
        sc.run(store, agents=[free], **given)
    assert [row["cost_usd"] for row in rows(store, "attempts")] == [0.0] * 16


def test_a_grader_without_a_price_is_refused_before_the_first_call_of_a_budget(tmp_path):
    store = make_store(tmp_path)
    with FakeAnthropic() as server:
        sc.run(store, agents=[agent(server.url)], progress=False)
    with FakeOpenAI() as server:
        one = ComprehensionGrader(OpenAIAgent("mine", base_url=server.url))
        with pytest.raises(StudyError, match="'mine' cannot keep budget_usd: no price"):
            sc.grade(store, graders=[one], budget_usd=1.0, progress=False)
        assert not server.bodies


@pytest.mark.parametrize("said", ["NaN", "-5", "true"])
def test_a_cost_that_cannot_be_does_not_switch_the_budget_off(tmp_path, said):
    result = '{"type": "result", "subtype": "success", "result": "a", "total_cost_usd": '
    command = script(tmp_path, f"print('{result}{said}}}')", "claude")
    command += ["-p", "--output-format", "stream-json"]
    store = make_store(tmp_path)
    with pytest.warns(StudyWarning, match="15 of 16 cells .*the cost of an answer is not known"):
        sc.run(store, agents=[CliAgent(command, timeout=60)], budget_usd=0.01, progress=False)
    assert [row["answer"] for row in rows(store, "attempts")] == ["a"]


# replies whose cost is not known


def settled(budget, estimate, reply):
    async def main():
        aside = await budget.reserve(estimate)
        await budget.settle(aside, reply)

    asyncio.run(main())
    return budget


def test_a_reply_that_cannot_be_read_is_booked_at_its_highest_cost():
    lost = Reply(status="error", cost_note=UNREADABLE)
    known = lost.model_copy(update={"cost_upper_usd": 0.3})
    assert settled(Budget(1.0), 0.3, known).spent == 0.3
    assert settled(Budget(1.0), 0.3, known).exhausted is None
    assert "not known (unreadable)" in settled(Budget(1.0), float("nan"), lost).exhausted
    assert settled(Budget(1.0), 0.3, Reply(status="error")).spent == 0.0  # nothing came


class Spoilt(FakeAnthropic):
    """Gives messages that are charged for and cannot be read."""

    def message(self, body, **kw):
        return {**super().message(body, **kw), "content": [{"type": "text"}]}


def at_each_start(server, call):
    """Start three times; return how many messages were paid for by then."""
    found = []
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
        found.append(server.log["POST /v1/messages 200"])
    return found


def test_a_later_start_counts_what_unreadable_replies_can_have_cost(tmp_path):
    store, given = make_store(tmp_path), {"concurrency": 1, "progress": False}
    with Spoilt() as server:
        one = agent(server.url)
        with pytest.warns(StudyWarning):  # a start without a limit counts too
            sc.run(store, agents=[one], conditions=["baseline"], **given)
        n = at_each_start(server, lambda: sc.run(store, agents=[one], budget_usd=0.02, **given))
    assert len(set(n)) == 1 and n[0] > 0
    kept = list(store.records("unreadable"))
    assert {row["attempt_id"] for row in kept} == {r["attempt_id"] for r in rows(store, "attempts")}
    assert all(0 < row["cost_upper_usd"] < 0.03 for row in kept)


def test_a_later_start_counts_what_unreadable_gradings_can_have_cost(tmp_path):
    store = make_store(tmp_path)
    with FakeAnthropic() as server:
        sc.run(store, agents=[agent(server.url)], progress=False)
    given = {"budget_usd": 0.02, "concurrency": 1, "progress": False}
    with Spoilt() as server:
        one = grader(server.url)
        n = at_each_start(server, lambda: sc.grade(store, graders=[one], **given))
    assert len(set(n)) == 1 and n[0] > 0
    assert all(row["cost_upper_usd"] > 0 for row in store.records("replies"))
