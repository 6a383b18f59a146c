"""Position bias: judgements of any layout are read as what they say, or refused."""

from __future__ import annotations

import pandas as pd
import pytest
from build import pair_table
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
    # twice the chance that Beta(2, 1 + 1), the lower limit's, lies below 1/2; c is 1 above p = 0.1
    assert first["p_value"] == pytest.approx(2 * beta.cdf(0.5, 2, 2))
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


def judged(patterns: list[str], names: str = "AB", **columns: object) -> pd.DataFrame:
    """Winners of pairs in both orders; "t" is a tie, "-" no verdict."""
    words = {"A": names[0], "B": names[1], "t": "tie", "-": None}
    rows = [
        {"pair": n, "order": order, "winner": words[letter]}
        for n, two in enumerate(patterns)
        for order, letter in zip(("AB", "BA"), two, strict=True)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_a_tie_is_a_verdict_and_consistent_with_a_tie_only() -> None:
    # the first order names A each time, the second A in 10 of 100 pairs and a tie in 90
    found = sc.bias.position(judged(["AA"] * 10 + ["At"] * 90)).set_index("measure")
    shares = ["position_reversals", "position_tie_differences", "position_consistency"]
    assert found.loc[shares, "estimate"].tolist() == pytest.approx([0, 0.9, 0.1])
    first = found.iloc[0]
    assert first[["n", "n_ties", "n_tie_differs", "n_dropped"]].tolist() == [100, 90, 90, 0]
    # a tie is half a win: (1 + .5 - 1) of each of the 90 pairs
    assert found.loc["position_points", "estimate"] == pytest.approx(100 * 0.9 * 0.5)
    assert found.loc["first_wins_if_inconsistent", "note"].startswith("no pair is reversed")
    tied = sc.bias.position(judged(["tt"] * 4 + ["AB"])).set_index("measure")
    assert tied.loc[shares, "estimate"].tolist() == pytest.approx([0.2, 0, 0.8])
    assert tied["n_ties"].iloc[0] == 8
    assert tied.loc["position_points", "estimate"] == pytest.approx(100 / 5)


def test_pairs_without_a_verdict_are_left_out_and_counted() -> None:
    frame = judged(["AA", "tA", "-A", "B-"])
    for nothing in (None, "None", "n/a", "error"):
        found = sc.bias.position(frame.assign(winner=frame["winner"].fillna(nothing)))
        assert found["n"].iloc[0] == 2 and set(found["n_dropped"]) == {2}
        assert "2 of 4 pairs without a verdict in an order left out" in found["note"].iloc[0]
    alone = sc.bias.position(frame[frame["pair"].ge(2) & frame["winner"].notna()])
    # shown in one order: A lost as the second, and B won as the first
    assert alone["measure"].tolist() == ["first_wins", "position_points"]
    few = sc.bias.position(frame[frame["pair"].ge(1) & frame["winner"].notna()])
    assert few["measure"].tolist()[-1] == "first_wins" and few["n"].tolist()[-1] == 2
    half = sc.bias.position(frame[frame["pair"].ne(2)])
    assert "first_wins" not in set(half["measure"]) and set(half["n_dropped"]) == {1}


def test_a_winner_of_our_frame_is_an_answer_a_place_a_tie_or_missing() -> None:
    ids = {"case_id": [f"s/{n}" for n in (1, 1, 2, 2, 3, 3, 4, 4)], "first": ["x", "y"] * 4}
    frame = pd.DataFrame(ids | {"second": ["y", "x"] * 4})
    frame["winner"] = ["first", "x", "Tie", "tie", "x", "tie", "y", None]
    found = sc.bias.position(frame).set_index("measure")
    counts = ["n", "n_consistent", "n_tie_differs", "n_ties", "n_dropped"]
    assert found.loc["position_consistency", counts].tolist() == [3, 2, 1, 3, 1]
    with pytest.raises(FrameError, match="winner 'tie' and winner_position 1 of case 's/1' contra"):
        sc.bias.position(frame.assign(winner="tie", winner_position=1))


@pytest.mark.parametrize("reading", ["answer", "position"])
def test_places_read_as_answers_are_noted(reading: str) -> None:
    # 92 of 100 pairs keep their winner; as names of the other kind, 92 reverse, both ways
    right = ["AA"] * 44 + ["BB"] * 48 + ["AB"] * 5 + ["BA"] * 3
    places = [two[0] + {"A": "B", "B": "A"}[two[1]] for two in right]
    other = {"answer": "position", "position": "answer"}[reading]
    frame = judged(places if reading == "answer" else right)
    found = sc.bias.position(frame, winner_names=reading)
    assert found["estimate"].iloc[0] == pytest.approx(0.08)
    assert found["note"].str.contains(f"probably name the {other}, not .*='{other}'$").all()
    fixed = sc.bias.position(frame, winner_names=other)
    assert fixed["estimate"].iloc[0] == pytest.approx(0.92)
    assert not fixed["note"].str.contains("winner_names").any()


@pytest.mark.parametrize("patterns", [["AA"] * 97 + ["BB"] * 3, ["AB"] * 97 + ["BB"] * 3])
@pytest.mark.parametrize("reading", ["answer", "position"])
def test_one_answer_that_nearly_always_wins_cannot_be_told_from_one_place(
    patterns: list[str], reading: str
) -> None:
    found = sc.bias.position(judged(patterns), winner_names=reading)
    assert found["note"].str.contains("nearly always wins: the data cannot tell").all()


def test_meaning_of_winners_is_not_questioned_without_reason() -> None:
    # by chance alone, a strong bias to the first place, few pairs, places named as such
    for patterns in (["AA", "BB", "AB", "BA"] * 10, ["AA"] * 12 + ["BB"] * 10 + ["AB"] * 8,
                     ["AB", "BA"]):  # fmt: skip
        assert not sc.bias.position(judged(patterns))["note"].str.contains("winner_names").any()
    named = judged(["AA"] * 50 + ["BB"] * 50)
    named["winner"] = named["winner"].map({"A": "first", "B": "second"})
    found = sc.bias.position(named)
    assert found["estimate"].iloc[0] == 0 and not found["note"].str.contains("_names").any()
    mostly = sc.bias.position(judged(["AB"] * 70 + ["AA"] * 15 + ["BB"] * 15))
    assert mostly["note"].str.contains("mostly wins: the data cannot tell").all()


def test_consistency_is_compared_only_at_similar_tie_rates() -> None:
    # the new judge has ties in place of all reversals
    old = judged(["AA"] * 12 + ["AB"] * 8, grader="old")
    new = judged(["AA"] * 12 + ["tt"] * 8, grader="new")
    both = pd.concat([old, new])
    change = sc.bias.position_change(both, reference_grader="old").set_index("measure")
    assert change["estimate"].tolist() == pytest.approx([0.4, -0.4, 0])
    assert change["rate"].tolist() == pytest.approx([1, 0, 0])
    assert change[["n_ties", "reference_n_ties"]].iloc[0].tolist() == [16, 0]
    told = "ties are 0% to 40% of the verdicts: compare consistency only at similar tie rates"
    assert change["note"].str.contains(told).all()
    rows = sc.bias.position(both, by=["grader"])
    compared = rows["measure"].isin(["position_consistency", "position_reversals"])
    assert rows["note"].str.contains(told).eq(compared).all()
    same = pd.concat([old, old.assign(grader="new")])
    alike = sc.bias.position_change(same, reference_grader="old")
    assert not alike["note"].str.contains("ties").any()


def test_a_layout_that_cannot_be_read_says_what_is_needed() -> None:
    frame = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["A", "B"]})
    with pytest.raises(FrameError, match=r"missing: winner; there: pair, order"):
        sc.bias.position(frame.drop(columns="winner"))
    with pytest.raises(FrameError, match=r"missing: a pair column"):
        sc.bias.position(frame.rename(columns={"pair": "x"}))
    assert len(sc.bias.position(frame.rename(columns={"pair": "x"}), pair="x")) == 5
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
    assert sc.bias.position(frame, ties=["GPT-x"])["n_tie_differs"].iloc[0] == 1
    ours = pd.DataFrame({"case_id": "s/1", "first": ["x", "y"], "second": ["y", "x"],
                         "winner": ["x", "model_a"]})  # fmt: skip
    with pytest.raises(FrameError, match=r"'model_a'; allowed: the id of the first or the second"):
        sc.bias.position(ours)
    with pytest.raises(FrameError, match=r"winner 'x' and winner_position 2 of case 's/1' contrad"):
        sc.bias.position(ours.assign(winner="x", winner_position=[2, 2]))


@pytest.mark.parametrize("name", ["pair", "case", "cluster", "first_1", "winner_names", "n_ties"])
def test_columns_of_the_result_are_no_groups(name: str) -> None:
    frame = judged(["AA", "AB"]).rename(columns={"pair": "id"}).assign(**{name: "x"})
    with pytest.raises(FrameError, match=f"by= names '{name}', a column of the result"):
        sc.bias.position(frame, by=[name])


@pytest.mark.parametrize("column", ["judge", "model", "grader", "grader_version"])
def test_one_order_by_one_judge_and_the_other_by_another_is_no_consistency(column: str) -> None:
    frame = pd.DataFrame({"pair": [1, 1], "order": ["AB", "BA"], "winner": ["A", "A"],
                          column: ["x", "y"]})  # fmt: skip
    with pytest.raises(FrameError, match=rf"more than one {column}: x, y. Add '{column}' to by="):
        sc.bias.position(frame)
    apart = sc.bias.position(frame, by=[column])
    assert set(apart["measure"]) == {"first_wins", "position_points"}  # nothing about consistency
    # a judge with one name in each group is kept apart by the group
    both = frame.assign(grader=frame[column], rater=frame[column])
    assert len(sc.bias.position(both, by=["grader", *({column} - {"grader"})])) == 4


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
    tied = sc.bias.audit(*frames, pairwise=foreign.assign(winner=None), cases=cases)
    for other in (plain, tied):
        assert told not in other.set_index("bias").loc["position", "note"]


def test_first_wins_of_one_random_order_by_hand_and_within_both_orders() -> None:
    # 40 cases: 10 won by the place, the rest by the better system, shown first in every second pair
    once = sc.from_pairs(pair_table(40, first=10, orders=1))
    rows = sc.bias.position(once.pairwise).set_index("measure")
    # 10 + 15 of 40 (cases 10 to 39 alternate); half of the ties would count
    share = rows.loc["first_wins"]
    assert share["estimate"] == pytest.approx(25 / 40)
    expected = sc.stats.bounded_mean([1] * 25 + [0] * 15, null=0.5)
    assert share["ci_low"] == pytest.approx(expected.low)
    assert share["p_value"] == pytest.approx(expected.p_value)
    assert rows.loc["position_points", "estimate"] == pytest.approx(100 * (2 * 25 / 40 - 1))
    assert rows["note"].str.contains("assumes that the order was random").all()
    tied = sc.bias.position(sc.from_pairs(pair_table(8, ties=8, orders=1)).pairwise)
    assert tied["estimate"].iloc[0] == 0.5 and tied["n_ties"].iloc[0] == 8
    # all pairs in both orders: 10 of 40 answers win only by the place
    both = sc.bias.position(sc.from_pairs(pair_table(40, first=10)).pairwise).set_index("measure")
    assert both.loc["position_points", "estimate"] == pytest.approx(25)
    assert "first_wins" not in both.index


def test_a_system_that_is_always_shown_first_shows_no_position_bias() -> None:
    table = pair_table(40, orders=2).query("model_a == 'x'")
    rows = sc.bias.position(sc.from_pairs(table).pairwise)
    assert rows["estimate"].isna().all()
    assert rows["note"].str.contains("'x' was shown first in 100% of its 40 pairs with 'y'").all()


def test_self_preference_where_the_families_are_arguments() -> None:
    # j is of the family of x: in 6 cases with y better it prefers x in both orders; k is fair
    table = pair_table(40)
    loyal = table.assign(winner=table["winner"].mask(table["question_id"].isin(list("13579")), "x"))
    made = sc.from_pairs(pd.concat([loyal, table.assign(judge="k")]))
    frames = made.verdicts, made.attempts, made.gold
    how = {"by": "grader", "pairwise": made.pairwise}
    families = {"j": "ours", "k": "others", "x": "ours", "y": "theirs"}
    audit = sc.bias.audit(*frames, families=families, **how).set_index(["grader", "bias"])
    own = audit.loc[("j", "model family")]
    # 5 of 20 answers of x that are worse win, and 5 of 20 better ones of y lose: 25 points each
    assert own["estimate"] == pytest.approx(25)
    assert own["ci_low"] > 0 and own["n_clusters"] == 40
    why = "not identified: no answer is of the grader's family (others)"
    assert audit.loc[("k", "model family"), "note"].startswith(why)
    assert audit.loc[("j", "position"), "estimate"] == 0
    plain = sc.bias.audit(*frames, **how).set_index(["grader", "bias"])
    assert "families= names them" in plain.loc[("j", "model family"), "note"]
    with pytest.raises(FrameError, match=r"families: found 'jj'; allowed: j, k, x, y"):
        sc.bias.audit(*frames, families={"jj": "ours"}, **how)
