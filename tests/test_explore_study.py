"""The explorer of a whole study without a browser: its controls, tabs and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import StudyError
from skillcomp.explore import study_explorer

HOSTILE = "<img src=x onerror=alert(1)>"


def table(**changed: Any) -> pd.DataFrame:
    """Two skills with eight cases each; skill a teaches, skill b harms."""
    rows = [
        (skill, f"case {k}", condition, grader, (condition == "skill") == (skill == "a"), k > 2)
        for skill in "ab"
        for k in range(8)
        for condition in ("baseline", "skill", "placebo")
        for grader in ("g1", "g2")
    ]
    columns = ["skill", "case", "condition", "grader", "passed", "label"]
    return pd.DataFrame(rows, columns=columns).assign(**changed)


def own(**changed: Any) -> Any:
    # a case has the same name under both skills and is another one
    return sc.from_frame(table(**changed), grader="grader", shared_cases=False)


def shown(explorer: Any) -> str:
    return re.sub(r"data:image[^']*", "", explorer.still())


def controls(explorer: Any) -> set[str]:
    widgets = [control.widget for control in explorer.choices.values()]
    return {one.description for one in widgets if one.layout.display != "none"} - {"Tab"}


@pytest.fixture(scope="module")
def study() -> Any:
    return sc.explore.study(own())


def test_a_control_with_one_value_is_hidden(study: Any) -> None:
    assert controls(study) == {"Skill", "Condition", "Grader", "Margin"}
    single = sc.explore.study(sc.from_frame(table().query("grader == 'g1' and skill == 'a'")))
    assert controls(single) == {"Condition", "Margin"}


def test_the_tabs_follow_the_choices(study: Any) -> None:
    study.show("answer").choose(skill="a", condition="skill", grader="g2", margin=0.2)
    assert "a teaches" in shown(study) and "b harms" not in shown(study)
    assert "Grader: g2; Margin: 20 points" in shown(study)
    assert "<h3>Skill by skill</h3>" in shown(study) and "<h3>The graders</h3>" in shown(study)
    assert "Nobody has checked the grader" in shown(study)  # what holds for every skill stays
    study.show("forest")
    assert shown(study).count("<tr><td>") == 1 and "<img alt=" in shown(study)
    study.show("cases")
    assert shown(study).count("case ") >= 8 and "placebo" not in shown(study)
    study.show("forest").choose(skill=None, condition=None)
    assert shown(study).count("<tr><td>") == 4


def test_estimates_of_a_skill_are_those_of_the_whole_study(study: Any) -> None:
    study.show("forest").choose(skill="a", condition="skill", grader="g1", margin=0.1)
    outcomes = own().outcomes
    whole = sc.skillverdicts.decide(outcomes[outcomes["grader"].eq("g1")])
    row = whole[whole["skill"].eq("a") & whole["condition"].eq("skill")].iloc[0]
    assert sc.style.interval(row) in shown(study)


def test_an_answer_is_computed_once_per_grader(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, result = [], sc.report.answer(own(), grader="g1")

    def counted(*args: Any, **how: Any) -> Any:
        calls.append(how)
        return result

    monkeypatch.setattr(study_explorer, "answer", counted)
    study = sc.explore.study(own())
    for skill in ("a", "b", None):
        study.choose(skill=skill).show("forest").show("answer")
    study.choose(margin=0.2).choose(margin=0.1)
    assert calls == [{"grader": "g1"}]
    study.choose(grader="g2")
    assert len(calls) == 2


def test_another_margin_gives_the_answer_that_is_computed_with_it() -> None:
    few = table().query("grader == 'g1'")
    made = sc.from_frame(few, grader="grader", gold="label", shared_cases=False)
    again = sc.report.answer(made).with_margin(0.9)
    anew = sc.report.answer(made, margin=0.9)
    pd.testing.assert_frame_equal(again.findings, anew.findings)
    assert list(again.frames) == list(anew.frames)
    for name, frame in anew.frames.items():
        pd.testing.assert_frame_equal(again.frames[name], frame)
    assert again.with_margin(0.9) is again


def test_a_row_opens_its_cases_and_a_case_its_answers(pilot: sc.RunStore) -> None:
    explorer = sc.explore.study(pilot).choose(grader="g2").show("cases")
    page = explorer.page
    n_rows = page.view.count('data-do="row"')
    assert n_rows == 12 and 'data-do="case"' not in page.view
    explorer.do("step", 1)  # no row is open
    assert 'data-do="case"' not in page.view
    explorer.do("row", n_rows - 1)
    assert page.view.count('data-do="case"') == 14 and "scx-answer" not in page.view
    assert "−100.0" in page.view and "points" in page.view, "changes have the unit of the table"
    explorer.do("case", "0")  # the browser sends text
    assert page.view.count('class="scx-answer"') == 3
    assert "data-do" not in explorer.still() and 'class="scx-answer"' in explorer.still()
    explorer.choices["repeat"].at = 1
    assert "repeat 2" in page.view
    before = page.view
    for sent in ("99", -1, None, "x", "0; drop"):
        page._handle_custom_msg({"do": "row", "value": sent}, [])
        page._handle_custom_msg({"do": "case", "value": sent}, [])
        page._handle_custom_msg({"do": sent}, [])
    assert page.view == before
    page._handle_custom_msg({"do": "step", "value": 1}, [])
    assert page.view.index('aria-current="true"', page.view.index('data-do="case"')) > 0
    assert page.view != before
    explorer.choose(grader="g1")  # other rows: nothing is open
    assert "scx-answer" not in page.view and 'data-do="case"' not in page.view
    explorer.choose(skill="braid-provenance", condition="skill")  # the only row is open
    assert page.view.count('data-do="case"') == 14


def test_what_a_study_lacks_is_a_sentence(study: Any) -> None:
    for tab, words in (("graders", "has no gold labels"), ("cost", "cost_usd=")):
        assert "Not shown: The study" in shown(study.show(tab)) and words in shown(study)
    answers = table().query("condition == 'skill'")
    named = {"condition": None, "grader": "grader", "gold": "label"}
    graders = sc.from_frame(answers, shared_cases=False, **named)
    explorer = sc.explore.study(graders)
    assert "g1 agrees with gold" in shown(explorer.show("answer"))
    for tab in ("forest", "cases", "cost"):
        assert "Not shown: " in shown(explorer.show(tab)), tab
    assert "raw agreement" in shown(explorer.show("graders"))


def test_names_from_outside_are_escaped() -> None:
    frame = table().replace({"skill": {"a": HOSTILE}, "grader": {"g1": HOSTILE}})
    explorer = sc.explore.study(sc.from_frame(frame, grader="grader", shared_cases=False))
    for tab in ("answer", "forest", "cases", "graders", "cost"):
        page = shown(explorer.choose(grader=HOSTILE).show(tab))
        assert HOSTILE not in page and "&lt;img src=x" in page


def test_wrong_arguments_are_named(study: Any, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no control 'skil'"):
        study.choose(skil="a")
    with pytest.raises(StudyError, match="grader: found 'g3'; allowed: g1, g2"):
        study.choose(grader="g3")
    with pytest.raises(StudyError, match="no tab 'forrest'"):
        study.show("forrest")
    with pytest.raises(StudyError, match="is not a recorded study"):
        sc.explore.study(tmp_path)
