"""The graders and the reference that a study is compared by, if none is named."""

import pandas as pd
import pytest

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import StudyError


def graded(**columns: object) -> pd.DataFrame:
    frame = pd.DataFrame({"grader": ["z", "a"], "grader_version": [None, None], "passed": True})
    return frame.assign(graded_at=pd.NaT).assign(**columns)


def test_the_first_grader_is_that_of_the_earliest_time_or_name() -> None:
    times = pd.to_datetime(["2026-01-01", "2026-02-01"])
    assert sc.frames.first_grader(graded(graded_at=times)) == "z"
    assert sc.frames.first_grader(graded()) == "a"
    assert sc.frames.first_grader(graded(), "z") == "z"
    with pytest.raises(StudyError, match="no grader 'b'; there: a, z"):
        sc.frames.first_grader(graded(), "b")
    with pytest.raises(StudyError, match="grade it with"):
        sc.frames.first_grader(graded().head(0))


def test_versions_of_a_grader_have_names_and_a_plain_name_finds_its_style() -> None:
    named = sc.frames.grader_versions(graded(grader="g", grader_version=["1", "2"]))
    assert named["grader"].tolist() == ["g (version 1)", "g (version 2)"]
    styled = sc.frames.grader_versions(graded(grader_version=["new@1a", "old@2b"]))
    assert styled["grader"].tolist() == ["z (new)", "a (old)"]
    assert sc.frames.first_grader(styled, "z") == "z (new)"


def test_in_a_tie_the_default_grader_is_the_first_by_name() -> None:
    cases = [f"c{at}" for at in range(10)]
    items = pd.DataFrame({"case": cases, "gold": [at % 2 == 0 for at in range(10)]})
    errors = {"b": 1, "a": 1, "c": 8}
    wrong = [
        items.assign(judge=name, passed=items["gold"] ^ (items.index < n))
        for name, n in errors.items()
    ]
    how = {"skill": None, "condition": None, "gold": "gold", "grader": "judge"}
    own = sc.from_frame(pd.concat(wrong), **how)
    assert sc.reliability.default_grader(own.verdicts, own.gold) == "a"
    best = pd.concat([*wrong[:2], items.assign(judge="c", passed=items["gold"])])
    own = sc.from_frame(best, **how)
    assert sc.reliability.default_grader(own.verdicts, own.gold) == "c"
    assert sc.reliability.default_grader(own.verdicts, own.gold, grader="b") == "b"


def test_the_default_grader_of_verdicts_agrees_best_and_of_no_version_is_lost() -> None:
    study = simulated.study(
        n_skills=1,
        n_cases=8,
        agent_families=("north", "south"),
        graders=[
            simulated.Grader("judge", specificity=0.6, version="1"),
            simulated.Grader("judge", specificity=0.99, version="2"),
        ],
        gold_fraction=1.0,
    )
    verdicts = sc.frames.grader_versions(study.verdicts)
    assert sc.reliability.default_grader(verdicts, gold=study.gold) == "judge (version 2)"
    assert sc.reliability.default_grader(verdicts) == "judge (version 1)"


def test_the_default_reference_is_the_baseline_or_the_previous_version() -> None:
    conditions = pd.DataFrame({"condition": ["skill", "previous"]})
    assert sc.frames.default_reference(conditions) == "previous"
    assert sc.frames.default_reference(conditions, "skill") == "skill"
    with pytest.raises(StudyError, match="Choose one: with reference='v1'"):
        sc.frames.default_reference(pd.DataFrame({"condition": ["v1", "v2"]}))
    alone = conditions.iloc[1:]
    assert sc.frames.default_reference(alone, alone=True) == "previous"
    with pytest.raises(StudyError, match=r"all answers are under previous\. A comparison needs"):
        sc.frames.default_reference(alone)
    with pytest.raises(StudyError, match="none of 2 verdicts says pass or fail"):
        sc.frames.default_reference(conditions.assign(passed=pd.NA))
