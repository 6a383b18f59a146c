"""What a study was begun with stays: graders under their name, and the text of its suites."""

from __future__ import annotations

import json
import warnings

import live_study
import pytest
from fake_anthropic import FakeAnthropic
from live_study import FAST, GRADER, graded, make_store, rows

import skillcomp as sc
from skillcomp.errors import StudyError
from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent
from skillcomp.live.graders.comprehension import ComprehensionGrader
from skillcomp.live.graders.grader import GraderWarning

pytestmark = pytest.mark.usefixtures("fake_key")
SENTENCE = "Verdicts of two settings are two graders: give this one another name="


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path, n_cases=1)


def run(store, server, **more):
    return sc.run(store, agents=[live_study.agent(server.url)], progress=False, **more)


def grader(server, model=GRADER, name=None, **settings):
    asked = AnthropicAgent(model, base_url=server.url, max_tokens=2000, **FAST, **settings)
    return ComprehensionGrader(asked, name=name)


def grade(store, *graders, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraderWarning)
        return sc.grade(store, graders=graders, **{"progress": False, "concurrency": 1, **more})


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ({"name": "g"}, {"name": "g", "model": "claude-opus-5-5"}, "grader 'g': model is now "),
        (
            {"effort": "low"},
            {"effort": "max"},
            r"""'forced:claude-haiku-5-5': settings is now .*"effort": "max".* begun with .*"low""",
        ),
    ],
)
def test_a_grader_changed_under_its_name_is_refused_before_it_asks(store, first, then, said):
    with FakeAnthropic() as server:
        run(store, server)
        grade(store, grader(server, **first), budget_usd=0.012)
        before, lines = server.log["POST /v1/messages 200"], len(rows(store, "verdicts"))
        for round in (1, 2):
            with pytest.raises(StudyError, match=f"(?s){said}.*{SENTENCE}"):
                grade(store, grader(server, **then), round=round)
        assert server.log["POST /v1/messages 200"] == before
        assert len(rows(store, "verdicts")) == lines
        grade(store, grader(server, **{**then, "name": "h"}))
    assert [row["grader"] for row in store.records("graders")][1:] == ["h"]


def test_the_same_grader_goes_on_grades_again_and_is_written_down_once(store):
    with FakeAnthropic(["ok"] * 6 + ["401"]) as server:
        run(store, server)
        with pytest.raises(sc.errors.AgentError):
            grade(store, grader(server))
    with FakeAnthropic() as server:
        grade(store, grader(server))
        grade(store, grader(server), round=2)
    assert len(graded(store)) == 2 * 8 and set(graded(store).values()) == {1}
    (line,) = store.records("graders")
    assert (line["grader"], line["model"]) == ("forced:claude-haiku-5-5", GRADER)
    assert json.loads(line["settings"])["effort"] == "default"


def test_a_text_edited_inside_the_store_is_refused_by_run_and_grade(store):
    with FakeAnthropic() as server:
        run(store, server, suites=["tides"])
        before = sum(server.log.values())
        for name, old in (("suites/tides.json", "decides?"), ("skills/tides/SKILL.md", "once")):
            file = store.path / name
            whole = file.read_text()
            file.write_text(whole.replace(old, "now?"))
            edited = RunStore(store.path)
            for call in (run, lambda s, _: grade(s, grader(server))):
                said = r"tide.* was edited after it was recorded .*store\.add_(suite|skill)\("
                with pytest.raises(StudyError, match=said):
                    call(edited, server)
            file.write_text(whole)
        assert sum(server.log.values()) == before
        # one that is not asked holds nothing up
        file = store.path / "suites" / "lanterns.json"
        file.write_text(file.read_text().replace("decides?", "decides now?"))
        grade(RunStore(store.path), grader(server))
    assert len(graded(store)) == 4


def test_a_selection_of_the_cases_of_a_suite_is_asked_with_the_recorded_prompts(tmp_path):
    store = make_store(tmp_path, n_cases=3)
    chosen, _ = store.suites.values()
    first = chosen.cases[0]
    new = chosen.model_copy(update={"cases": (first.model_copy(update={"case_id": "tides/new"}),)})
    with pytest.raises(StudyError, match=r"the store has no case 'tides/new'; add the edited"):
        sc.run(store, suites=[new], agents=[], progress=False)
    part = chosen.model_copy(update={"cases": (first.model_copy(update={"prompt": "Another?"}),)})
    with FakeAnthropic() as server:
        assert len(run(store, server, suites=[part])) == 2  # conditions
    assert {row["case_id"] for row in rows(store, "attempts")} == {first.case_id}
    assert all("Another?" not in str(body) and first.prompt in str(body) for body in server.bodies)
