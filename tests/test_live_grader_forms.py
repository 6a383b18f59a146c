"""What a grader is told can be switched, replaced and answered in the report's own JSON."""

from __future__ import annotations

import json

import pytest
from fake_anthropic import FakeAnthropic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_live_graders import (
    CASE,
    RUN,
    SKILL,
    attempt,
    grade,
    scripted,
)
from test_live_graders import told as prompt_of

from skillcomp.errors import GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent, ComprehensionGrader, read_reply
from skillcomp.live.graders.grader import SWITCHES, GraderForm
from skillcomp.live.study_file import read_study

pytestmark = pytest.mark.usefixtures("fake_key")
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


AGENT = AnthropicAgent("claude-haiku-5-5")


@pytest.fixture
def template(tmp_path):
    (tmp_path / "mine.txt").write_text(TEMPLATE)
    return tmp_path / "mine.txt"


def a1(*, case_id="i1", dimension="C1", marks=None, overall="PASS", shared=(), **more):
    """Write a reply in the shape of the report's appendix A.1."""
    marks = marks or {}
    rows = [
        {
            "id": check.check_id,
            "kind": check.check_kind,
            "verdict": marks.get(check.check_id, "PASS"),
            "evidence_quote": "It is a practice",
            "rationale": "The span shows it.",
        }
        for check in CASE.checks
    ]
    report = {
        "case_id": case_id,
        "dimension": dimension,
        "behavior_verdicts": rows,
        "dimension_verdict": overall,
        "verbatim_overlap_check": {"passed": not shared, "overlap_ngrams": list(shared)},
        **more,
    }
    return json.dumps(report)


def told(server, n=0):
    """Return system and user of the n-th question."""
    body = server.bodies[n]
    system = "".join(part["text"] for part in body.get("system", []))
    return system, body["messages"][0]["content"]


# -- the report's own JSON -------------------------------------------------------------------


def test_a_live_grader_answers_in_the_reports_json_and_is_held_to_it():
    with FakeAnthropic(answer=scripted(a1(dimension="C2"), a1())) as server:
        found = grade(server, style="evidence", reply="report")
    assert [v.status for v in found.verdicts] == ["ok"] * 3
    assert all(v.passed and v.dimension_passed for v in found.verdicts)
    assert found.verdicts[0].grader_version == GraderForm("evidence", reply="report").version
    assert "verbatim_overlap_check" in told(server)[1]
    assert "dimension must be 'C1'" in told(server, 1)[1]


@pytest.mark.parametrize("case_id", [1, "tides/1"])
def test_a_recorded_reply_becomes_verdict_records(tmp_path, case_id):
    text = a1(case_id=case_id, marks={"says_who": "FAIL"}, overall="FAIL")
    file = tmp_path / "verdict.json"
    file.write_text(f"<verdict>\n{text}\n</verdict>\n")
    found = read_reply(file, attempt(), CASE, SKILL, grader="report", model="m-1", version="v1")
    assert [v.check_id for v in found.verdicts] == [c.check_id for c in CASE.checks]
    assert [v.passed for v in found.verdicts] == [True, False, True]
    assert {v.dimension_passed for v in found.verdicts} == {False}
    assert found.verdicts[0].evidence_quote == "It is a practice"
    store = RunStore(tmp_path / "study")
    with store.writer():
        store.append("attempts", [attempt()])
        store.append("verdicts", found.verdicts)
    assert store.table("verdicts").column("grader_version").to_pylist() == ["v1"] * 3
    with pytest.raises(GraderError, match=r"nothing\.json: there is no reply here"):
        read_reply(tmp_path / "nothing.json", attempt(), CASE, SKILL, grader="report")


COPY = attempt(f"It is a practice: {RUN}.")
HEDGE = ("The span shows it.", "It could be improved.")


@pytest.mark.parametrize(
    ("answer", "edit", "problem"),
    [
        (None, {"case_id": 9}, "case_id must be 'tides/1'."),
        (None, {"case_id": "1", "overall": "FAIL"}, "dimension_verdict must be PASS"),
        (
            COPY,
            {"shared": ["a b"]},
            "no_verbatim_span: the overlap check is final, so this must be",
        ),
        (COPY, {}, "verbatim_overlap_check: passed must be false: the answer shares '"),
        (None, {"marks": {"says_who": "FAIL"}, "overall": "FAIL", "swap": HEDGE}, "RULE-6: says_w"),
        (None, {"swap": ('"negative"', '"positive"')}, "kind must be 'negative'"),
        (None, {"verbatim_overlap_check": {"passed": False, "overlap_ngrams": []}}, "is true exac"),
    ],
)
def test_a_recorded_reply_is_held_to_the_rules_of_a_live_grading(answer, edit, problem):
    edit = {"case_id": "tides/1", **edit}
    swap = edit.pop("swap", ("", ""))
    text = a1(**edit).replace(*swap)
    grading = read_reply(text, answer or attempt(), CASE, SKILL, grader="report")
    assert {(v.status, v.passed, v.raw) for v in grading.verdicts} == {("malformed", None, text)}
    assert any(problem in line for line in grading.problems), grading.problems
    assert not (edit["case_id"] == 1 and "case_id" in " ".join(grading.problems))


# -- what is switched off --------------------------------------------------------------------


@pytest.mark.parametrize("off", SWITCHES)
def test_each_forcing_function_and_field_can_be_left_out_alone(off):
    whole, less = prompt_of(), prompt_of(without=[off])
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


def test_versions_differ_by_switch_and_the_order_does_not_matter():
    prompt = prompt_of(without=SWITCHES)
    assert "FORCING" not in prompt.system and "RULE-" not in prompt.system
    plain = ComprehensionGrader(AGENT).version
    versions = [ComprehensionGrader(AGENT, without=[off]).version for off in SWITCHES]
    assert versions == [f"{plain}-no-{off}" for off in SWITCHES]
    one, two = (ComprehensionGrader(AGENT, without=w) for w in (SWITCHES, SWITCHES[::-1]))
    assert one.version == two.version


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "force"}, r"style 'force'; allowed: forced.*mean 'forced'\?"),
        ({"without": ["RULE-4"]}, r"found 'RULE-4'.*Did you mean 'RULE-"),
        (
            {"style": "evidence", "without": ["RULE-3"]},
            "with style 'evidence': concept_field, expected",
        ),
        ({"style": "impression", "without": ["concept_field"]}, "it is told none of these"),
        ({"style": "impression", "reply": "report"}, "styles forced and evidence"),
    ],
)
def test_what_a_grader_does_not_have_is_refused(options, message):
    with pytest.raises(GraderError, match=message):
        ComprehensionGrader(AGENT, **options)


# -- a prompt of one's own -------------------------------------------------------------------


def test_ones_own_template_is_what_the_grader_is_told_and_its_hash_the_version(template):
    with FakeAnthropic(answer=scripted(a1())) as server:
        found = grade(server, style="evidence", reply="report", template=template)
    system, user = told(server)
    assert (system, user[:11]) == ("", "Grade this.")
    assert "</agent-answer>" in user
    assert "</skill-body>" in user
    assert found.verdicts[0].status == "ok"
    version = found.verdicts[0].grader_version
    assert version == GraderForm("evidence", reply="report", template=TEMPLATE).version
    template.write_text(TEMPLATE.replace("Grade", "Judge"))
    assert ComprehensionGrader(AGENT, style="evidence", template=template).version != version


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEMPLATE + "{{ answr }}", "no placeholder 'answr'; allowed: skill_body.*'answer'"),
        (TEMPLATE.replace("{{answer}}", ""), r"\{\{ answer \}\} is missing"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_a_template_that_cannot_work_is_refused(template, text, message):
    template.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GraderError, match=message):
        ComprehensionGrader(AGENT, template=template)


def test_a_template_says_by_itself_which_rules_it_tells(template):
    with pytest.raises(GraderError, match="says by itself which rules"):
        ComprehensionGrader(AGENT, template=template, without=["RULE-3"])
    whole = prompt_of(template=TEMPLATE).user
    less = prompt_of(template=TEMPLATE, without=["concept_field"]).user
    assert "<concept-field" in whole
    assert "<concept-field" not in less


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=40) | st.sampled_from(["{{ output }}", "</agent-answer>", "\n# OUTPUT\n"]))
def test_no_answer_leaves_its_block_in_a_template_of_ones_own(text):
    user = prompt_of(answer=f"x{text}y", template=TEMPLATE).user
    assert user.count("</agent-answer>") == 1
    assert user.count("\n# OUTPUT\n\nOne JSON object") == 1
    inside = user.partition("<agent-answer>")[2].partition("</agent-answer>")[0].strip()
    assert inside.startswith("x")
    assert inside.endswith("y")


# -- in a study file -------------------------------------------------------------------------


@pytest.mark.usefixtures("template")
def test_a_study_file_switches_and_replaces(tmp_path):
    file = tmp_path / "STUDY.yaml"
    agent = "agent: {kind: anthropic, model: claude-haiku-5-5}"
    file.write_text(
        "store: s\ngraders:\n"
        f"- {{{agent}, without: [RULE-3, concept_field], name: a}}\n"
        f"- {{{agent}, reply: report, template: mine.txt, style: evidence, name: b}}\n"
    )
    one, two = read_study(file).build("graders")
    assert one.version.endswith("-no-RULE-3-no-concept_field")
    assert two.version == GraderForm("evidence", reply="report", template=TEMPLATE).version
    file.write_text(f"store: s\ngraders:\n- {{{agent}, without: [RULE-33]}}\n")
    with pytest.raises(StudyError, match=r"line 3: graders\[0\].*allowed: RULE-1.*Did you mean"):
        read_study(file)
    file.write_text(f"store: s\ngraders:\n- {{{agent}, template: min.txt}}\n")
    with pytest.raises(StudyError, match=r"nothing at .*min\.txt.*Did you mean 'mine\.txt'"):
        read_study(file).build("graders")
