"""Position bias: judgements of any layout are read as what they say, or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

import skillcomp as sc
from skillcomp.errors import FrameError


def test_position_by_hand_in_a_foreign_layout() -> None:
    # 6 pairs: 3 consistent, 2 won twice by the first shown, 1 twice by the second
    outcomes = ["AA", "BB", "AA", "AB", "AB", "BA"]
    frame = pd.DataFrame(
        [
            {"pair": n, "order": order, "winner": winner}
            for n, two in enumerate(outcomes)
            for order, winner in zip(("AB", "BA"), two, strict=True)
        ]
    )
    found = sc.bias.position(frame).set_index("measure")
    consistent = found.loc["position_consistency"]
    assert consistent["estimate"] == pytest.approx(3 / 6)
    # 3 of 6 with a pseudo-case of weight c at the bound: Beta(3, 3 + c) and Beta(3 + c, 3)
    c = sc.stats.RATES.c
    assert consistent["ci_low"] == pytest.approx(beta.ppf(0.025, 3, 3 + c), abs=1e-9)
    assert consistent["ci_high"] == pytest.approx(beta.ppf(0.975, 3 + c, 3), abs=1e-9)
    first = found.loc["first_wins_if_inconsistent"]
    assert first["estimate"] == pytest.approx(2 / 3)
    # twice the chance that Beta(2, 1 + c), the lower limit's, lies below 1/2
    assert first["p_value"] == pytest.approx(2 * beta.cdf(0.5, 2, 1 + c))
    assert found.loc["position_points", "estimate"] == pytest.approx(100 * (2 - 1) / 6)


def test_winners_named_by_position_and_numbered_orders_are_read() -> None:
    answers = pd.DataFrame(
        {"id": [1, 1, 2, 2], "order": [1, 2, 1, 2], "winner": ["A", "A", "A", "B"]}
    )
    places = answers.assign(winner=["A", "B", "A", "A"])
    by_answer = sc.bias.position(answers)
    by_place = sc.bias.position(places, winner_names="position")
    pd.testing.assert_frame_equal(by_answer, by_place)
    assert by_answer.loc[0, "estimate"] == pytest.approx(0.5)


def test_ties_and_single_orders_are_counted_and_left_out() -> None:
    frame = pd.DataFrame(
        {"pair": [1, 1, 2, 2, 3], "order": ["AB", "BA"] * 2 + ["AB"],
         "winner": ["A", "A", "tie", "A", "B"]}
    )  # fmt: skip
    found = sc.bias.position(frame)
    assert found["n"].iloc[0] == 1 and found["n_dropped"].iloc[0] == 2
    nothing = sc.bias.position(frame[frame["pair"].eq(3)])
    assert nothing["estimate"].isna().all()
    assert set(nothing["note"]) == {"no pair has a winner in both orders"}


def test_a_layout_that_cannot_be_read_says_what_is_needed() -> None:
    frame = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["A", "B"]})
    with pytest.raises(FrameError, match=r"missing: winner; there: pair, order"):
        sc.bias.position(frame.drop(columns="winner"))
    with pytest.raises(FrameError, match=r"missing: a pair column"):
        sc.bias.position(frame.rename(columns={"pair": "x"}))
    assert len(sc.bias.position(frame.rename(columns={"pair": "x"}), pair="x")) == 3
    with pytest.raises(FrameError, match="order 'XY'; allowed: AB and BA, or 1 and 2"):
        sc.bias.position(frame.assign(order="XY"))
    with pytest.raises(FrameError, match="has one order twice"):
        sc.bias.position(frame.assign(order="AB"))
    with pytest.raises(FrameError, match="winner_names: found 'answers'; allowed"):
        sc.bias.position(frame, winner_names="answers")


@pytest.mark.parametrize(
    ("a", "b"), [("model_a", "model_b"), ("Answer_A", "answer_b"), (1, 2), (1.0, 2.0), ("1", "2")]
)
def test_names_of_the_two_answers_in_other_tools_are_read(a: object, b: object) -> None:
    frame = pd.DataFrame({"pair": [1, 1, 2, 2], "order": ["AB", "BA"] * 2, "winner": list("AABA")})
    named = frame.assign(winner=frame["winner"].map({"A": a, "B": b}))
    pd.testing.assert_frame_equal(sc.bias.position(named), sc.bias.position(frame))


def test_a_winner_that_names_no_answer_is_refused_and_not_taken_for_a_tie() -> None:
    frame = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["gpt-x", "A"]})
    with pytest.raises(FrameError, match=r"1 of 2 rows name a winner that is not known: 'gpt-x'"):
        sc.bias.position(frame)
    told = sc.bias.position(frame, ties=["GPT-x"])
    assert set(told["note"]) == {"no pair has a winner in both orders"}
    ours = pd.DataFrame({"case_id": "s/1", "first": ["x", "y"], "second": ["y", "x"],
                         "winner": ["x", "model_a"]})  # fmt: skip
    with pytest.raises(FrameError, match=r"'model_a'; allowed: the first or the second"):
        sc.bias.position(ours)
    assert sc.bias.position(ours.assign(winner=["x", "Tie"]))["n_dropped"].iloc[0] == 1
    with pytest.raises(FrameError, match=r"winner 'x' and winner_position 2 of case 's/1' name"):
        sc.bias.position(ours.assign(winner="x", winner_position=[2, 2]))


@pytest.mark.parametrize("column", ["judge", "model", "grader", "grader_version"])
def test_one_order_by_one_judge_and_the_other_by_another_is_no_consistency(column: str) -> None:
    frame = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["A", "A"],
                          column: ["x", "y"]})  # fmt: skip
    with pytest.raises(FrameError, match=rf"more than one {column}: x, y. Add '{column}' to by="):
        sc.bias.position(frame)
    apart = sc.bias.position(frame, by=[column])
    assert apart["estimate"].isna().all() and set(apart["n_dropped"]) == {1}
    # a judge with one name in each group is kept apart by the group
    both = frame.assign(grader=frame[column], rater=frame[column])
    assert len(sc.bias.position(both, by=["grader", *({column} - {"grader"})])) == 6


def swapped(case_ids: list[str], winners: list[str]) -> pd.DataFrame:
    """Our frame of one pair a case; winners in both orders as shown places."""
    rows = [
        {"skill": "s", "case_id": case, "first": f"{case}/{a}", "second": f"{case}/{b}",
         "winner_position": int(place)}
        for case, two in zip(case_ids, winners, strict=True)
        for (a, b), place in zip((("x", "y"), ("y", "x")), two, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_members_of_a_contrast_pair_are_one_cluster_of_position() -> None:
    names = [f"s/{i}" for i in range(12)]
    frame = swapped(names, ["11", "11", "22", "12", "12", "21"] * 2)
    twins = [names[i + 1] if i % 2 == 0 and i < 6 else None for i in range(12)]
    cases = pd.DataFrame({"skill": "s", "case_id": names, "contrast_of": twins})
    alone = sc.bias.position(frame).set_index("measure")
    for given in (frame, frame.drop(columns="skill")):
        found = sc.bias.position(given, cases=cases).set_index("measure")
        points = found.loc["position_points"]
        assert points["n"] == 12 and points["n_clusters"] == 9
        assert points["estimate"] == alone.loc["position_points", "estimate"]
        assert found.loc["position_consistency", ["n", "n_clusters"]].tolist() == [12, 9]
    assert alone.loc["position_points", "n_clusters"] == 12
    foreign = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["A", "A"]})
    with pytest.raises(FrameError, match="cases= needs a column case_id in the judgements; there"):
        sc.bias.position(foreign, cases=cases)


def test_case_ids_may_repeat_between_skills_in_a_foreign_layout() -> None:
    rows = {"pair": [1, 1, 2, 2], "skill": ["s", "s", "t", "t"], "case_id": "1",
            "order": ["AB", "BA"] * 2, "winner": ["A", "B", "A", "A"]}  # fmt: skip
    found = sc.bias.position(pd.DataFrame(rows)).set_index("measure")
    assert found.loc["position_points", ["n", "n_clusters"]].tolist() == [2, 2]
    assert found.loc["position_consistency", "note"] == "only 2 cases: read with care"


def some_frames(pilot: sc.RunStore) -> tuple[pd.DataFrame, ...]:
    verdicts, attempts = sc.frames.verdicts(pilot).head(50), sc.frames.attempts(pilot)
    graded = attempts["attempt_id"].isin(verdicts["attempt_id"])
    return verdicts, attempts[graded], sc.frames.empty("gold")


def test_the_audit_clusters_position_by_contrast_pair(pilot: sc.RunStore) -> None:
    cases, pairwise = sc.frames.cases(pilot), sc.frames.pairwise(pilot)
    found = sc.bias.audit(*some_frames(pilot), by=["grader"], pairwise=pairwise, cases=cases)
    row = found[found["grader"].eq("pairwise")].iloc[0]
    alone = sc.bias.position(pairwise, cases=cases).set_index("measure").loc["position_points"]
    assert row["n_clusters"] == 72 and row["n"] == 84
    assert row["ci_low"] == alone["ci_low"] and np.isfinite(row["ci_low"])


def test_the_audit_takes_judgements_that_name_no_case_as_independent(pilot: sc.RunStore) -> None:
    frames, cases = some_frames(pilot), sc.frames.cases(pilot)
    foreign = pd.DataFrame({"pair": [1, 1, 2, 2, 3, 3], "order": ["AB", "BA"] * 3,
                            "winner": list("AAABBB")})  # fmt: skip
    found = sc.bias.audit(*frames, pairwise=foreign, cases=cases).set_index("bias")
    alone = sc.bias.position(foreign).set_index("measure").loc["position_points"]
    told = "contrast pairs taken as independent: no case_id"
    assert found.loc["position", "estimate"] == alone["estimate"]
    assert found.loc["position", "note"].split("; ")[-1] == told
    assert not found.drop("position")["note"].str.contains(told).any()
    # without contrast pairs there is nothing to say, nor is there where nothing was judged
    plain = sc.bias.audit(*frames, pairwise=foreign, cases=cases.assign(contrast_of=None))
    tied = sc.bias.audit(*frames, pairwise=foreign.assign(winner="tie"), cases=cases)
    for other in (plain, tied):
        assert told not in other.set_index("bias").loc["position", "note"]
