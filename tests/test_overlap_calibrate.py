import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

WORDS = [f"word{i:03d}" for i in range(400)]
SKILL = {"s": " ".join(WORDS[:200])}


def text(rng: np.random.Generator, run: int, length: int = 40) -> str:
    """Words that the skill does not have, with one run of `run` of its words in the middle."""
    start = int(rng.integers(0, 200 - run)) if run else 0
    own = [f"other{i:04d}" for i in rng.integers(0, 9999, length - run)]
    return " ".join([*own[:10], *WORDS[start : start + run], *own[10:]])


def corpus(runs: dict[str, list[int]]) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [
        {"passage_id": f"{level}/{i}", "skill": "s", "document": f"s/{i}", "level": level,
         "text": text(rng, run)}
        for level, each in runs.items()
        for i, run in enumerate(each)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def answers(runs: list[int], condition: str = "baseline") -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "attempt_id": [f"{condition}/{i}" for i in range(len(runs))],
            "skill": "s",
            "case_id": [f"s/{i}" for i in range(len(runs))],
            "condition": condition,
            "answer": [text(rng, run) for run in runs],
        }
    )


def calibrate(passages: pd.DataFrame, attempts: pd.DataFrame, **options: object) -> pd.DataFrame:
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, n=range(3, 9))
    return sc.overlap.calibrate(
        shared, attempts, passages=passages, skills=SKILL, n_resamples=200, **options
    )  # type: ignore[arg-type]


def only(frame: pd.DataFrame, measure: str, n: int, rule: str = "any") -> pd.Series:
    rows = frame[frame["measure"].eq(measure) & frame["n"].eq(n) & frame["rule"].eq(rule)]
    assert len(rows) == 1
    return rows.iloc[0]


LEVELS = {"verbatim": [12] * 20, "near_copy": [6] * 20, "fresh": [3] * 2 + [2] * 18}


def test_the_longest_n_that_finds_most_copies_within_both_limits_is_chosen() -> None:
    # baseline shares runs of 4 in 2 of 40 answers (5 %), of 3 in 8; fresh runs of 3 in 2 of 20
    attempts = answers([4] * 2 + [3] * 6 + [0] * 32)
    cut = calibrate(corpus(LEVELS), attempts)
    chosen = cut[cut["chosen"]]
    assert len(chosen) == 1
    row = chosen.iloc[0]
    assert (row["measure"], row["rule"], row["n"]) == ("chosen_n", "any", 6)
    assert row["ci_low"] < 6 < row["ci_high"]


def test_rates_are_counted_by_hand() -> None:
    cut = calibrate(corpus(LEVELS), answers([4] * 2 + [3] * 6 + [0] * 32))
    assert only(cut, "sensitivity", 7)["estimate"] == pytest.approx(20 / 40)
    assert only(cut, "false_flags_baseline", 3)["estimate"] == pytest.approx(8 / 40)
    assert only(cut, "false_flags_baseline", 4)["estimate"] == pytest.approx(2 / 40)
    assert only(cut, "false_flags_fresh", 3)["estimate"] == pytest.approx(2 / 20)
    assert only(cut, "specificity", 3)["estimate"] == pytest.approx(18 / 20)
    clean = only(cut, "false_flags_fresh", 6)
    assert clean["estimate"] == 0 < clean["ci_high"]
    assert "needs 72 independent texts with none flagged" in clean["note"]


def test_the_answer_under_each_null_alone_stands_beside() -> None:
    # baseline alone would allow 3; fresh passages use the proper terms and ask for 6
    passages = corpus({"verbatim": [12] * 20, "near_copy": [12] * 10 + [5] * 10, "fresh": [5] * 20})
    attempts = answers([0] * 40)
    cut = calibrate(passages, attempts)
    by = cut.drop_duplicates("measure").set_index("measure")
    assert by.loc["chosen_n_baseline", "estimate"] == 5
    assert by.loc["chosen_n_fresh", "estimate"] != 5 or by.loc["chosen_n_fresh", "rule"] == "share"
    assert not by.loc["chosen_n_baseline", "chosen"]


def test_no_candidate_within_the_limit_is_said_and_cannot_be_applied() -> None:
    passages = corpus({"verbatim": [12] * 20, "fresh": [12] * 20})
    attempts = answers([12] * 20)
    cut = calibrate(passages, attempts, positive=["verbatim"], max_false_flags=0.0)
    row = cut[cut["chosen"]].iloc[0]
    if np.isnan(row["estimate"]):
        assert "no n and rule keeps the false flags" in row["note"]
        shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, n=[3])
        with pytest.raises(FrameError, match="no cut to apply"):
            sc.overlap.flag(attempts.assign(passed=True), shared, cut)


def test_longer_answers_are_held_to_a_higher_rate() -> None:
    cut = calibrate(corpus(LEVELS), answers([0] * 40).assign(condition="skill"), nulls=["fresh"])
    short = only(cut, "false_flags_fresh", 3)
    same = only(cut, "false_flags_fresh_at_answer_length", 3)
    assert same["estimate"] == pytest.approx(short["estimate"], abs=0.01)  # like lengths here


def test_nested_rates_are_judged_on_documents_that_were_left_out() -> None:
    cut = calibrate(corpus(LEVELS), answers([0] * 40))
    nested = cut[cut["measure"].str.startswith("nested")].set_index("measure")
    assert nested.loc["nested_sensitivity", "estimate"] == pytest.approx(1)
    assert nested.loc["nested_false_flags_fresh", "estimate"] == 0


def test_words_that_no_text_has_are_named() -> None:
    with pytest.raises(FrameError, match=r"nulls names 'frsh'.*Did you mean 'fresh'"):
        calibrate(corpus(LEVELS), answers([0] * 10), nulls=["frsh"])
    with pytest.raises(FrameError, match="named as positive and as a null"):
        calibrate(corpus(LEVELS), answers([0] * 10), nulls=["verbatim"])


def test_copied_answers_are_marked_and_never_dropped() -> None:
    attempts = answers([12, 0, 12, 0], "skill")
    attempts.loc[3, "answer"] = None
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, n=[6])
    cut = pd.DataFrame({"chosen": [True], "n": [6], "rule": ["any"], "cut": [np.nan], "note": ""})
    verdicts = attempts[["attempt_id"]].assign(passed=[True, True, None, True])
    verdicts = pd.concat([verdicts, verdicts.head(1).assign(attempt_id="unscored")])
    marked = sc.overlap.flag(verdicts, shared, cut)
    assert len(marked) == 5
    assert marked["copied"].tolist() == [True, False, True, pd.NA, pd.NA]
    assert marked["passed_own_words"].tolist() == [False, True, False, pd.NA, pd.NA]


def test_on_the_pilot_both_nulls_choose_four(pilot: sc.RunStore) -> None:
    attempts, cases = sc.frames.attempts(pilot), sc.frames.cases(pilot)
    passages = sc.frames.passages(pilot.path.parent / "corpus" / "copies.jsonl")
    shared = sc.overlap.score(attempts, skills=pilot.skills, cases=cases)
    cut = sc.overlap.calibrate(shared, attempts, passages=passages, skills=pilot.skills)
    row = cut[cut["chosen"]].iloc[0]
    assert (row["rule"], row["n"]) == ("any", 4)
    assert only(cut, "false_flags_baseline", 4)["estimate"] == pytest.approx(1 / 168)
    assert only(cut, "flagged_skill", 6)["estimate"] == pytest.approx(27 / 168)
    by = sc.overlap.calibrate(
        shared, attempts, passages=passages, skills=pilot.skills, by=["skill"], n_resamples=50
    )
    assert by.groupby("skill")["chosen"].sum().eq(1).all()


def test_roc_points_are_counted_by_hand_and_end_in_the_corners() -> None:
    shared = sc.overlap.score(corpus({"verbatim": [12, 6], "fresh": [6, 0]}), skills=SKILL, n=[4])
    points = sc.overlap.roc(shared, positive=["verbatim"], negative=["fresh"])
    # shares of 37 4-grams: 9/37 and 3/37 copy, 3/37 and 0 do not
    assert points["true_positive_rate"].tolist() == [0, 0.5, 1, 1]
    assert points["false_positive_rate"].tolist() == [0, 0, 0.5, 1]
    assert points["precision"].iloc[1:].tolist() == pytest.approx([1, 2 / 3, 1 / 2])
    assert np.isnan(points["precision"].iloc[0])
    with pytest.raises(FrameError, match="no passage has the level 'frsh'"):
        sc.overlap.roc(shared, positive=["verbatim"], negative=["frsh"])
