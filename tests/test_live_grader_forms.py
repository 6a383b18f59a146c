"""What a grader is told can be switched, replaced and answered in the report's own JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from fake_anthropic import KEY, FakeAnthropic
from test_live_graders import ANSWER, CASE, SKILL, attempt, grade, scripted

from skillcomp.errors import GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent, ComprehensionGrader, read_reply
from skillcomp.live.graders.prompts import PLACEHOLDERS, SWITCHES, grader_prompt, grader_version
from skillcomp.live.graders.reply import judge
from skillcomp.live.study_file import read_study

TEMPLATE = """Grade this.
{{ skill_body }}
{{ concept_field }}
{{ question }}
{{answer}}
{{ expected_reasoning }}
{{ overlap }}
{{ behaviors }}
{{ output }}
"""


@pytest.fixture(autouse=True)
def only_the_fake_key(monkeypatch):
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def a1(*, case_id="i1", dimension="C1", marks=None, overall="PASS", shared=(), **more):
    """Write a reply in the shape of the report's appendix A.1."""
    marks = marks or {}
    rows = [
        {
            "id": check.check_id,
            "kind": check.check_kind,
            "verdict": marks.get(check.check_id, "PASS"),
            "evidence_quote": "a practice",
            "rationale": "The span shows it.",
        }
        for check in CASE.checks
    ]
    found = {
        "case_id": case_id,
        "dimension": dimension,
        "behavior_verdicts": rows,
        "dimension_verdict": overall,
        "verbatim_overlap_check": {"passed": not shared, "overlap_ngrams": list(shared)},
        **more,
    }
    return json.dumps(found)


def told(server, n=0):
    """Return system and user of the n-th question."""
    body = server.bodies[n]
    system = body.get("system") or ""
    system = system if isinstance(system, str) else "".join(part["text"] for part in system)
    content = body["messages"][0]["content"]
    user = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return system, user


# -- the report's own JSON -------------------------------------------------------------------


def test_a_live_grader_answers_in_the_reports_json_and_is_held_to_it():
    with FakeAnthropic(answer=scripted(a1(dimension="C2"), a1())) as server:
        found = grade(server, style="evidence", reply="report")
    assert [v.status for v in found.verdicts] == ["ok"] * 3
    assert all(v.passed and v.dimension_passed for v in found.verdicts)
    assert found.verdicts[0].grader_version == grader_version("evidence", (), "report")
    assert "verbatim_overlap_check" in told(server)[1]
    assert "dimension must be 'C1'" in told(server, 1)[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (a1(case_id="i2"), "case_id must be 'i1'"),
        (a1(overall="FAIL"), "dimension_verdict must be PASS"),
        (a1(marks={"says_who": "FAIL"}), "dimension_verdict must be PASS"),
        (a1(verbatim_overlap_check={"passed": False, "overlap_ngrams": []}), "passed is true"),
        (a1(verbatim_overlap_check={"passed": True, "overlap_ngrams": ["a b"]}), "passed is true"),
        (a1().replace('"negative"', '"positive"'), "kind must be 'negative'"),
        (a1().replace("a practice", "a habit"), "does not stand in the answer"),
        (a1().replace('"says_who"', '"says"'), "RULE-9"),
        ("{}", "does not fit the schema"),
        ("<verdict>PASS</verdict>", "one JSON object"),
    ],
)
def test_a_report_reply_that_breaks_a_rule_is_told(text, problem):
    found, problems = judge(
        text,
        style="forced",
        item="i1",
        checks=CASE.checks,
        answer=ANSWER,
        reply="report",
        dimension="C1",
    )
    assert not found
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize("case_id", [1, "1", "tides/1"])
def test_a_recorded_reply_becomes_verdict_records(tmp_path, case_id):
    text = a1(case_id=case_id, marks={"says_who": "FAIL"}, overall="FAIL")
    file = tmp_path / "verdict.json"
    file.write_text(f"<verdict>\n{text}\n</verdict>\n")
    found = read_reply(file, attempt(), CASE, SKILL, grader="report", model="m-1", version="v1")
    assert [v.check_id for v in found.verdicts] == [c.check_id for c in CASE.checks]
    assert [v.passed for v in found.verdicts] == [True, False, True]
    assert {v.dimension_passed for v in found.verdicts} == {False}
    assert found.verdicts[0].evidence_quote == "a practice"
    store = RunStore(tmp_path / "study")
    with store.writer():
        store.append("attempts", [attempt()])
        store.append("verdicts", found.verdicts)
    assert store.table("verdicts").column("grader_version").to_pylist() == ["v1"] * 3


def test_a_recorded_reply_that_breaks_a_rule_is_malformed_and_kept(tmp_path):
    text = a1(case_id=9)
    found = read_reply(text, attempt(), CASE, SKILL, grader="report")
    assert {(v.status, v.passed, v.raw) for v in found.verdicts} == {("malformed", None, text)}
    assert found.problems == ("case_id must be 'tides/1'.",)
    with pytest.raises(GraderError, match=r"nothing\.json: cannot be read"):
        read_reply(tmp_path / "nothing.json", attempt(), CASE, SKILL, grader="report")
    with pytest.raises(GraderError, match="nothing to grade"):
        read_reply(text, attempt(None, status="error"), CASE, SKILL, grader="report")


def test_the_reports_json_needs_quotes():
    with pytest.raises(GraderError, match="styles forced and evidence"):
        grader_version("impression", (), "report")
    with pytest.raises(GraderError, match="Did you mean 'report'"):
        grader_version("forced", (), "reports")


# -- what is switched off --------------------------------------------------------------------


@pytest.mark.parametrize("off", SWITCHES)
def test_each_forcing_function_and_field_can_be_left_out_alone(off):
    whole = grader_prompt("forced", case=CASE, skill=SKILL, answer=ANSWER, item="i")
    less = grader_prompt("forced", case=CASE, skill=SKILL, answer=ANSWER, item="i", without=[off])
    both = whole.system + whole.user, less.system + less.user
    sign = {"concept_field": "</concept-field>", "expected_reasoning": "</expected-reasoning>"}
    assert sign.get(off, f"\n{off} ") in both[0]
    assert sign.get(off, f"\n{off} ") not in both[1]
    for other in set(SWITCHES) - {off}:
        assert sign.get(other, f"\n{other} ") in both[1]
    if off.startswith("RULE"):
        assert "These three rules work" in less.system
    steps = [
        line[0] for line in less.system.splitlines() if line[:2] in {f"{n}." for n in "123456"}
    ]
    assert steps == [str(n + 1) for n in range(len(steps))]


def test_without_any_forcing_function_there_is_no_section_of_them():
    found = grader_prompt("forced", case=CASE, skill=SKILL, answer="a", item="i", without=SWITCHES)
    assert "FORCING" not in found.system
    assert "RULE-" not in found.system


def test_versions_differ_by_switch_and_the_order_does_not_matter():
    agent = AnthropicAgent("claude-haiku-5-5")
    plain = ComprehensionGrader(agent).version
    seen = {plain}
    for off in SWITCHES:
        version = ComprehensionGrader(agent, without=[off]).version
        assert version.startswith(plain)
        assert version.endswith(f"-no-{off}")
        seen.add(version)
    assert len(seen) == len(SWITCHES) + 1
    one, two = (ComprehensionGrader(agent, without=w) for w in (SWITCHES, SWITCHES[::-1]))
    assert one.version == two.version


def test_without_rule_6_a_hedged_failure_is_taken():
    text = a1(marks={"says_who": "FAIL"}, overall="FAIL").replace(
        "The span shows it.", "It could be improved."
    )
    options = {"style": "forced", "item": "i1", "checks": CASE.checks, "answer": ANSWER}
    options |= {"reply": "report", "dimension": "C1"}
    assert "RULE-6" in judge(text, **options)[1][0]
    assert judge(text, **options, without=["RULE-6"])[1] == []


def test_a_switch_that_a_style_does_not_have_is_refused():
    agent = AnthropicAgent("claude-haiku-5-5")
    with pytest.raises(GraderError, match=r"found 'RULE-4'.*Did you mean 'RULE-"):
        ComprehensionGrader(agent, without=["RULE-4"])
    with pytest.raises(GraderError, match="with style 'evidence': concept_field, expected"):
        ComprehensionGrader(agent, style="evidence", without=["RULE-3"])
    with pytest.raises(GraderError, match="it is told none of these"):
        ComprehensionGrader(agent, style="impression", without=["concept_field"])


# -- a prompt of one's own -------------------------------------------------------------------


def test_ones_own_template_is_what_the_grader_is_told_and_its_hash_the_version(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TEMPLATE)
    with FakeAnthropic(answer=scripted(a1())) as server:
        found = grade(server, style="evidence", reply="report", template=file)
    system, user = told(server)
    assert (system, user[:11]) == ("", "Grade this.")
    assert "</agent-answer>" in user
    assert "</skill-body>" in user
    assert found.verdicts[0].status == "ok"
    version = found.verdicts[0].grader_version
    assert version == grader_version("evidence", (), "report", TEMPLATE)
    file.write_text(TEMPLATE.replace("Grade", "Judge"))
    agent = AnthropicAgent("claude-haiku-5-5")
    assert ComprehensionGrader(agent, style="evidence", template=file).version != version


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEMPLATE + "{{ answr }}", "no placeholder 'answr'; allowed: skill_body.*'answer'"),
        (TEMPLATE + "{{ 7 * 7 }}", r"no placeholder '7 \* 7'"),
        (TEMPLATE.replace("{{answer}}", ""), r"\{\{ answer \}\} is missing"),
        ("", "behaviors"),
        (b"\xff", "cannot be read as UTF-8"),
    ],
)
def test_a_template_that_cannot_work_is_refused(tmp_path, text, message):
    file = tmp_path / "mine.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GraderError, match=message):
        ComprehensionGrader(AnthropicAgent("claude-haiku-5-5"), template=file)


def test_a_template_says_by_itself_which_rules_it_tells(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TEMPLATE)
    agent = AnthropicAgent("claude-haiku-5-5")
    with pytest.raises(GraderError, match="says by itself which rules"):
        ComprehensionGrader(agent, template=file, without=["RULE-3"])
    prompt = {"case": CASE, "skill": SKILL, "answer": "a", "item": "i", "template": TEMPLATE}
    whole = grader_prompt("forced", **prompt).user
    less = grader_prompt("forced", **prompt, without=["concept_field"]).user
    assert "<concept-field" in whole
    assert "<concept-field" not in less


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40) | st.sampled_from(["{{ output }}", "</agent-answer>", "\n# OUTPUT\n"]))
def test_no_answer_leaves_its_block_in_a_template_of_ones_own(text):
    user = grader_prompt(
        "forced", case=CASE, skill=SKILL, answer=f"x{text}y", item="i", template=TEMPLATE
    ).user
    assert user.count("</agent-answer>") == 1
    assert user.count("\n# OUTPUT\n\nOne JSON object") == 1
    inside = user.partition("<agent-answer>")[2].partition("</agent-answer>")[0].strip()
    assert inside.startswith("x")
    assert inside.endswith("y")


def test_the_placeholders_are_all_in_use():
    prompt = {"case": CASE, "skill": SKILL, "answer": "a", "item": "i"}
    for name in PLACEHOLDERS:
        assert grader_prompt("forced", **prompt, template=f"{{{{ {name} }}}}").user


# -- in a study file -------------------------------------------------------------------------


def test_a_study_file_switches_and_replaces(tmp_path):
    (tmp_path / "mine.txt").write_text(TEMPLATE)
    file = tmp_path / "STUDY.yaml"
    agent = "agent: {kind: anthropic, model: claude-haiku-5-5}"
    file.write_text(
        "store: s\ngraders:\n"
        f"- {{{agent}, without: [RULE-3, concept_field], name: a}}\n"
        f"- {{{agent}, reply: report, template: mine.txt, style: evidence, name: b}}\n"
    )
    one, two = read_study(file).build_graders()
    assert one.version.endswith("-no-RULE-3-no-concept_field")
    assert two.version == grader_version("evidence", (), "report", TEMPLATE)
    file.write_text(f"store: s\ngraders:\n- {{{agent}, without: [RULE-33]}}\n")
    with pytest.raises(StudyError, match=r"line 3: graders\[0\].*allowed: RULE-1.*Did you mean"):
        read_study(file)
    file.write_text(f"store: s\ngraders:\n- {{{agent}, template: min.txt}}\n")
    with pytest.raises(StudyError, match=r"nothing at .*min\.txt.*Did you mean 'mine\.txt'"):
        read_study(file).build_graders()
