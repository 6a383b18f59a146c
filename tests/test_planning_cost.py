"""What a study will cost: worked by hand, held against real prompts, honest when unknown."""

from datetime import date
from types import SimpleNamespace

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError
from skillcomp.live.agents.agent import skill_block
from skillcomp.live.graders.grader import (
    RUBRIC,
    STYLES,
    GraderForm,
    Shown,
)
from skillcomp.planning import cost_estimate, cost_total
from skillcomp.planning.cost import (
    SKILL_FRAME,
    case_data,
    frame_of_grader,
    minimum_prefix,
)
from skillcomp.pricing import Price
from skillcomp.records import Case, Check, Skill, Suite, TaskJudge

DAY = date(2026, 11, 21)
OPUS = "claude-opus-5-5"  # 4 in, 20 out, 5 write, 0.20 read
SKILL = Skill(slug="tea", text="s" * 7000, body="b" * 3500)
SKILLS = {"tea": SKILL}


def suite_of(n=1, checks=2):
    return Suite(
        slug="tea",
        skill="tea",
        cases=tuple(
            Case(
                case_id=f"tea/{i}",
                prompt="p" * 350,
                checks=tuple(Check(check_id=f"c{k}", description="d" * 33) for k in range(checks)),
            )
            for i in range(n)
        ),
    )


def estimate(suites=None, skills=None, agents=OPUS, **options):
    suites = suite_of() if suites is None else suites
    return cost_estimate(suites, skills or SKILLS, agents=agents, on=DAY, **options)


def cost(frame, **where):
    for name, value in where.items():
        frame = frame[frame[name].eq(value)]
    assert len(frame) == 1, frame
    return frame.iloc[0]


def test_an_agents_cost_worked_by_hand():
    frame = estimate(conditions=["baseline", "skill"], repeats=10, answer_tokens=100)
    # prompt 350 characters / 3.5 = 100 tokens + 8 for the message; answer 100
    # baseline: 10 * (108 * 4 + 100 * 20) / 1e6 = 0.02432
    row = cost(frame, condition="baseline", mode="plain")
    assert row.cost_usd == pytest.approx(0.02432)
    assert (row.n_calls, row.input_tokens, row.output_tokens) == (10, 1080, 1000)
    # nothing is loaded: caching changes nothing
    assert cost(frame, condition="baseline", mode="cached").cost_usd == row.cost_usd
    # skill: prefix (7000 + 64) / 3.5 = 2018.2857 tokens
    prefix = 7064 / 3.5
    plain = 10 * ((prefix + 108) * 4 + 2000) / 1e6
    assert cost(frame, condition="skill", mode="plain").cost_usd == pytest.approx(plain)
    # cached: written once at 5, read nine times at 0.20
    cached = (prefix * 5 + 9 * prefix * 0.20 + 10 * (108 * 4 + 2000)) / 1e6
    row = cost(frame, condition="skill", mode="cached")
    assert row.cost_usd == pytest.approx(cached)
    assert row.cache_write_tokens == pytest.approx(prefix)
    assert row.cached_tokens == pytest.approx(9 * prefix)


def test_a_grader_grades_every_answer_of_every_agent_and_shares_its_prefix():
    frame = estimate(
        suite_of(3), agents=[OPUS, "claude-haiku-4-5"], graders="claude-sonnet-5", repeats=2
    )
    grader = frame[frame.role.eq("grader") & frame["mode"].eq("cached")]
    assert grader.n_calls.tolist() == [12, 12]  # 3 cases * 2 repeats * 2 agents a condition
    prefix = (3500 + 3183 + 915) / 3.5
    # one skill: one write in all, in the first condition
    assert grader.cache_write_tokens.tolist() == pytest.approx([prefix, 0])
    assert grader.cached_tokens.tolist() == pytest.approx([11 * prefix, 12 * prefix])


def test_a_case_without_checks_is_answered_and_not_graded():
    frame = estimate(suite_of(2, checks=0), graders="claude-opus-5", conditions=["skill"])
    grader = cost(frame, role="grader", mode="plain")
    assert (grader.n_calls, grader.input_tokens, grader.cost_usd) == (0, 0, 0)


def test_an_unknown_model_costs_nan_with_a_note_and_so_does_the_total():
    frame = estimate(agents=[OPUS, "claude-opus-5-6"], conditions=["skill"])
    rows = frame[frame["name"].ne(OPUS)]
    assert rows.cost_usd.isna().all() and rows.input_tokens.gt(0).all()
    assert rows.note.str.contains("no price for model 'claude-opus-5-6'").all()
    total = cost_total(frame)
    assert total.cost_usd.isna().all() and total.ratio.isna().all()
    assert "no price for model 'claude-opus-5-6'" in total.note[0]
    assert cost_total(frame[frame["name"].eq(OPUS)]).ratio[0] == 1


def test_a_model_without_a_price_of_the_cache_is_unknown_only_where_it_is_cached():
    own = [Price("local", input=1, output=1)]
    frame = estimate(agents="local", conditions=["baseline"], prices=own)
    assert frame.cost_usd.notna().all()
    frame = estimate(agents="local", conditions=["skill"], prices=own)
    assert cost(frame, mode="plain").cost_usd > 0
    assert cost(frame, mode="cached").note.startswith("no price for cache_write_5m")


def test_a_prefix_below_the_models_minimum_is_not_cached():
    frame = estimate(agents="claude-haiku-4-5", conditions=["skill"], repeats=5)
    assert cost(frame, mode="cached").cached_tokens == 0
    assert "prefixes below 4,096 tokens are not cached" in cost(frame, mode="cached").note
    assert "not cached" not in cost(frame, mode="plain").note
    assert minimum_prefix("claude-haiku-4-5-20251001") == 4096
    assert (minimum_prefix("claude-opus-5"), minimum_prefix("another")) == (512, 1024)


def test_placebo_and_previous_are_as_given_or_as_long_as_the_skill():
    conditions = ["skill", "placebo", "previous"]
    loaded = {"placebo": "x" * 700, "previous": {"tea": Skill(slug="tea", text="y" * 1400)}}
    frame = estimate(conditions=conditions, loaded=loaded)
    plain = frame[frame["mode"].eq("plain")].set_index("condition").input_tokens
    # 700 and 1400 characters instead of 7000
    assert plain["skill"] - plain["placebo"] == pytest.approx(6300 / 3.5)
    assert plain["skill"] - plain["previous"] == pytest.approx(5600 / 3.5)
    frame = estimate(conditions=conditions)
    plain = frame[frame["mode"].eq("plain")].set_index("condition")
    assert plain.input_tokens["placebo"] == plain.input_tokens["skill"]
    assert "placebo: taken to be as long as the skill" in plain.note["placebo"]


def test_repeats_may_differ_by_condition():
    frame = estimate(suite_of(2), repeats={"baseline": 1, "skill": 3})
    assert frame[frame["mode"].eq("plain")].n_calls.tolist() == [2, 6]


def test_answers_of_a_pilot_take_the_place_of_the_assumed_length():
    attempts = pd.DataFrame(
        [("tea/0", "skill", "a" * 350), ("tea/0", "skill", "a" * 1050), ("x", "skill", None),
         ("other", "baseline", "a" * 35)],
        columns=["case_id", "condition", "answer"],
    )  # fmt: skip
    frame = estimate(conditions=["baseline", "skill", "placebo"], attempts=attempts)
    plain = frame[frame["mode"].eq("plain")].set_index("condition").output_tokens
    assert plain["skill"] == pytest.approx(200)  # mean of 350 and 1050 characters, by 3.5
    assert plain["baseline"] == pytest.approx(10)  # no such case: by condition
    assert plain["placebo"] == pytest.approx((350 + 1050 + 35) / 3 / 3.5)  # over all
    with pytest.raises(FrameError, match="attempts: there is no column 'answer'"):
        estimate(attempts=attempts.drop(columns="answer"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skills": {"te": SKILL}}, "about the skill 'tea', which is not given"),
        ({"conditions": ["skil"]}, "condition 'skil': found no text; .*'skill'?"),
        ({"repeats": 0}, "repeats: found 0; allowed: whole numbers"),
        ({"conditions": ["skill"], "repeats": {"baseline": 2}}, "repeats: found {'baseline'"),
        ({"agents": ()}, "nothing would be asked"),
        ({"suites": suite_of(0)}, "nothing would be asked"),
        ({"suites": "tea"}, "suites: expected a Suite .*, found str 'tea'"),
        ({"skills": SKILL}, "skills: found Skill.*allowed: a mapping of slug to Skill"),
    ],
)
def test_what_cannot_be_planned_is_named(options, message):
    with pytest.raises(StudyError, match=message):
        estimate(**options)


@pytest.mark.parametrize("style", STYLES)
def test_the_frames_of_graders_agree_with_their_templates(pilot, style):
    frame = frame_of_grader(SimpleNamespace(style=style))
    form, answer = GraderForm(style), "word " * 180
    for suite in pilot.suites.values():
        skill = pilot.skills[suite.skill]
        real, planned = 0, 0.0
        for case in suite.cases:
            prompt = form.prompt(Shown(case, skill, answer, "abcdef12"))
            real += len(prompt.system) + len(prompt.user)
            planned += frame.system + frame.case + len(case.checks) * frame.check + len(answer)
            planned += len(case_data(case, skill, frame))
            planned += len(skill.body) if frame.sees_skill else 0
        # the schema goes over the wire beside the prompt
        real += len(suite.cases) * len(str(form.schema.model_json_schema()))
        assert planned == pytest.approx(real, rel=0.03)


def test_only_tasks_with_a_rubric_are_planned_for_and_their_frame_agrees_with_the_template():
    judge = TaskJudge(type="llm-rubric", rubric="Names a reason. " * 20, pass_threshold=0.7)
    tasks = [Check(check_id="llm-rubric", judge=judge), Check(check_id="contains")]
    cases = tuple(
        Case(case_id=f"tea/{i}", prompt="Why? " * 50, checks=(check,))
        for i, check in enumerate(tasks)
    )
    grader = SimpleNamespace(name="suite", model=OPUS, style="rubric")
    found = estimate(
        Suite(slug="tea", skill="tea", cases=cases), graders=grader, conditions=["skill"]
    )
    calls = found[found["mode"].eq("plain")].set_index("role")["n_calls"].to_dict()
    assert calls == {"agent": 2, "grader": 1}
    frame = frame_of_grader(grader)
    answer = "word " * 180
    told = {"question": cases[0].prompt, "rubric": judge.rubric, "answer": answer}
    prompt = RUBRIC.about(**told, item="abcdef12")
    real = len(prompt.system) + len(prompt.user) + len(str(RUBRIC.reply.model_json_schema()))
    planned = frame.system + frame.case + len(case_data(cases[0], SKILL, frame)) + len(answer)
    assert planned == pytest.approx(real, rel=0.03)


def test_the_frame_of_a_loaded_skill_agrees_with_the_agents(pilot):
    for skill in pilot.skills.values():
        assert len(skill_block(skill)) - len(skill.text) == pytest.approx(SKILL_FRAME, abs=15)


def test_the_cache_saves_four_tenths_of_the_pilots_design(pilot):
    frame = cost_estimate(
        pilot.suites,
        pilot.skills,
        agents="claude-sonnet-5-5",
        graders=SimpleNamespace(name="g2", model=OPUS, style="forced"),
        conditions=["baseline", "skill", "placebo"],
        repeats={"baseline": 2, "skill": 2, "placebo": 1},
        attempts=sc.frames.attempts(pilot),
        on=DAY,
    )
    total = cost_total(frame).set_index("mode")
    assert total.n_calls.unique().tolist() == [840]  # 420 answers and their gradings
    assert 0.55 < total.ratio["cached"] < 0.6
