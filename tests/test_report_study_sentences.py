"""Sentences on a copy threshold and on the size of a planned study, from rows made by hand."""

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError


def cut(*rows: dict[str, object], **chosen: object) -> pd.DataFrame:
    about = {"rule": "any", "n": 4, "cut": np.nan, "limit": np.nan, "chosen": False, "note": ""}
    about |= {"ci_low": np.nan, "ci_high": np.nan, "n_texts": 50.0}
    end = {"measure": "chosen_n", "estimate": 4.0, "chosen": True, **chosen}
    return pd.DataFrame([about | row for row in (*rows, end)])


FOUND = {"measure": "sensitivity", "estimate": 0.9, "ci_low": 0.8, "ci_high": 0.95}
NULL = {"measure": "false_flags_baseline", "estimate": 0.02, "ci_low": 0.0, "ci_high": 0.04}


def test_a_threshold_is_described_with_what_it_finds_and_flags() -> None:
    longer = NULL | {"measure": "false_flags_fresh_at_answer_length", "limit": 0.05}
    own = {"measure": "flagged_v2", "estimate": 0.4, "ci_low": 0.3, "ci_high": 0.5}
    (text,) = sc.report.threshold_sentences(cut(FOUND, NULL | {"limit": 0.05}, longer, own))
    assert text == (
        "With copies, a text counts as a copy if it shares 4 content tokens in a row with its "
        "skill. This finds 90 % [80, 95] of 50 copies. It flags 2 % [0, 4] of "
        "50 baseline texts, which do not copy: within the limit of 5 %. It flags 40 % of "
        "v2 texts; how many of these texts copy is not known."
    )


def test_an_exceeded_limit_and_the_reason_of_no_threshold_are_named() -> None:
    found = FOUND | {"ci_low": np.nan, "ci_high": np.nan}
    frame = cut(found, NULL | {"limit": 0.025}, cut=0.25).assign(rule="share", skill="my_tea")
    (text,) = sc.report.threshold_sentences(frame, "made-up copies")
    assert "my tea: With made-up copies, a text counts as a copy if at least 25 % of" in text
    assert "which depends on how they were made" in text
    assert "not shown to be within the limit of 2.5 %" in text
    frame = cut(NULL | {"limit": 0.05}, estimate=np.nan, n=pd.NA, note="the data cannot support it")
    (text,) = sc.report.threshold_sentences(frame)
    assert text == "With copies, no threshold can be chosen: the data cannot support it."
    with pytest.raises(FrameError, match="threshold_sentences"):
        sc.report.threshold_sentences(frame.drop(columns="limit"))


def needed(*estimates: float, **about: object) -> pd.DataFrame:
    rows = {"condition": "skill", "effect": "delta", "cluster": "case", "size": 0.1, "power": 0.8}
    rows |= {"n_skills": 1, "measure": "cases_in_all", "note": "too few skills", **about}
    repeats = range(1, len(estimates) + 1)
    frame = pd.DataFrame({"n_repeats": repeats, "estimate": estimates}).assign(**rows)
    return pd.concat([frame, frame.assign(measure="attempts", estimate=9.0)])


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            needed(1200.0, 1.0),
            "To show a change of 10 points by the skill with 80 % power, a study "
            "needs 1,200 cases with 1 repeat and 1 case with 2 repeats of each condition.",
        ),
        (
            needed(np.nan, condition="v2", agent="a", cluster="skill", n_skills=6),
            "To show a change of 10 points by v2 (a) for skills in general with 80 % power, no "
            "number of cases can be given: too few skills.",
        ),
        (
            needed(np.nan, 30.0, effect="gap", size=-0.2, n_skills=2),
            "To show that the skill changes far cases by 20 points less than near cases over these "
            "2 skills with 80 % power, a study needs 30 cases with 2 repeats of each condition. "
            "With 1 repeat: too few skills.",
        ),
    ],
)
def test_a_plan_lists_the_cases_by_repeats_or_the_reason(rows: pd.DataFrame, sentence: str) -> None:
    assert sc.report.plan_sentences(rows) == [sentence]
    assert sc.report.plan_sentences(rows.iloc[:0]) == []


def test_shares_of_checks_are_not_called_answers() -> None:
    about = {"skill": "tea", "condition": "skill", "rate": 0.84, "reference_rate": 0.48}
    about |= {"estimate": 0.36, "ci_low": 0.29, "ci_high": 0.42, "n": 40.0, "margin": 0.1}
    about |= {"verdict": "teaching", "note": "", "measure": "delta_share_passed"}
    decided = pd.DataFrame([about])
    (text,) = sc.report.skill_sentences(decided, overall=decided, checked=True)[2:]
    assert "with the skill 84 % of the checks pass and without it 48 %" in text
    (text,) = sc.report.skill_sentences(decided, overall=decided, checked=True)[1:2]
    assert text.startswith("With the skill loaded 84 % of the checks pass and without 48 %")
    (_, text) = sc.report.skill_sentences(decided.assign(verdict="redundant"))
    assert "48 % of the checks pass without it" in text


def test_repeats_are_described_by_their_spread_and_their_standard_errors() -> None:
    names = ["repeat", "estimate", "ci_low", "ci_high", "se", "n"]
    rounds = pd.DataFrame(
        [(1, 0.3, 0.2, 0.4, 0.05, 40), (2, 0.4, 0.3, 0.5, 0.06, 40)], columns=names
    )
    every = pd.DataFrame([(0.35, 0.25, 0.45, 0.04, 40)], columns=names[1:])
    rows = every.assign(se=0.02, n=80)
    assert sc.report.repeat_sentences(rounds, every, rows=rows) == [
        "Taken alone, the 2 repeats give +30 to +40 points (standard deviation 7.1); together they "
        "give +35 points [25, 45].",
        "The standard error is 5.0 to 6.0 points with one repeat and 4.0 points with 2, because "
        "the 40 cases are the units. With every repeat of a case taken as a unit (80), it would "
        "be 2.0 points.",
    ]
    (lone,) = sc.report.repeat_sentences(rounds.head(1), every)
    assert lone == "The noise between repeats is not known: fewer than two have a change."
    assert sc.report.repeat_sentences(rounds.assign(estimate=np.nan), every) == [lone]
