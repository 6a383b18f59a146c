"""Position bias: pairwise judgements are read as what they say, or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from build import pair_table
from oracles.pairs import difference_of_orders
from scipy.stats import beta

import skillcomp as sc
from skillcomp.errors import FrameError


def judged(patterns: list[str], **columns: object) -> pd.DataFrame:
    """Winners of pairs in both orders; "t" is a tie, "-" no verdict."""
    words = {"A": "x", "B": "y", "t": "tie", "-": None}
    rows = [
        {"case_id": str(n), "first": order[0], "second": order[1], "winner": words[letter]}
        for n, two in enumerate(patterns)
        for order, letter in zip(("xy", "yx"), two, strict=True)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_position_by_hand_and_from_a_table_of_another_layout() -> None:
    # 6 pairs: 3 consistent, 2 won twice by the first shown, 1 twice by the second
    patterns = ["AA", "BB", "AA", "AB", "AB", "BA"]
    rows = sc.bias.position(judged(patterns))
    found = rows.set_index("measure")
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
    table = pd.DataFrame(
        {"id": [str(n) for n in range(6) for _ in "AB"], "order": ["AB", "BA"] * 6,
         "winner": list("".join(patterns))}
    )  # fmt: skip
    for named in (
        table,
        table.assign(winner=table["winner"].map({"A": "model_a", "B": "model_b"})),
    ):
        made = sc.from_frame(
            named,
            case="id",
            words={"winner": {word: word[-1].upper() for word in named["winner"].unique()}},
        )
        pd.testing.assert_frame_equal(sc.bias.position(made.pairwise), rows)
    with pytest.raises(FrameError, match="have no case_id and no first and no second"):
        sc.bias.position(table)


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
    for nothing in (None, "None", "error"):
        found = sc.bias.position(frame.assign(winner=frame["winner"].fillna(nothing)))
        assert found["n"].iloc[0] == 2 and set(found["n_dropped"]) == {2}
        assert "2 of 4 pairs without a verdict in an order left out" in found["note"].iloc[0]
    number = frame["case_id"].astype(int)
    alone = sc.bias.position(frame[number.ge(2) & frame["winner"].notna()])
    # shown in one order: A lost as the second, and B won as the first
    assert alone["measure"].tolist() == ["position_points"]
    few = sc.bias.position(frame[number.ge(1) & frame["winner"].notna()])
    assert few["n"].tolist()[0] == 1 and len(few) == 5
    half = sc.bias.position(frame[number.ne(2)])
    assert set(half["n_dropped"]) == {1}


def test_a_winner_of_our_frame_is_an_answer_a_place_a_tie_or_missing() -> None:
    ids = {"case_id": [f"s/{n}" for n in (1, 1, 2, 2, 3, 3, 4, 4)], "first": ["x", "y"] * 4}
    frame = pd.DataFrame(ids | {"second": ["y", "x"] * 4})
    frame["winner"] = ["first", "x", "Tie", "tie", "x", "tie", "y", None]
    found = sc.bias.position(frame).set_index("measure")
    counts = ["n", "n_consistent", "n_tie_differs", "n_ties", "n_dropped"]
    assert found.loc["position_consistency", counts].tolist() == [3, 2, 1, 3, 1]
    with pytest.raises(FrameError, match="winner 'tie' and winner_position 1 of case 's/1' contra"):
        sc.bias.position(frame.assign(winner="tie", winner_position=1))


def test_consistency_is_compared_only_at_similar_tie_rates() -> None:
    # the new judge has ties in place of all reversals
    old = judged(["AA"] * 12 + ["AB"] * 8, grader="old")
    new = judged(["AA"] * 12 + ["tt"] * 8, grader="new")
    both = pd.concat([old, new])
    told = "ties are 0 % to 40 % of the verdicts: compare consistency only at similar tie rates"
    rows = sc.bias.position(both, by=["grader"])
    compared = rows["measure"].isin(["position_consistency", "position_reversals"])
    assert rows["note"].str.contains(told).eq(compared).all()
    same = pd.concat([old, old.assign(grader="new")])
    alike = sc.bias.position(same, by=["grader"])
    assert not alike["note"].str.contains("ties").any()


def test_a_winner_that_names_no_answer_is_refused_and_not_taken_for_a_tie() -> None:
    ours = pd.DataFrame({"case_id": "s/1", "first": ["x", "y"], "second": ["y", "x"],
                         "winner": ["x", "model_a"]})  # fmt: skip
    with pytest.raises(FrameError, match=r"1 of 2 rows name a winner that is not known: 'model_a'"):
        sc.bias.position(ours)
    with pytest.raises(FrameError, match=r"winner 'x' and winner_position 2 of case 's/1' contrad"):
        sc.bias.position(ours.assign(winner="x", winner_position=[2, 2]))


@pytest.mark.parametrize("name", ["pair", "n_ties"])
def test_columns_of_the_result_are_no_groups(name: str) -> None:
    with pytest.raises(FrameError, match=f"by= names '{name}', "):
        sc.bias.position(judged(["AA", "AB"]).assign(**{name: "x"}), by=[name])


@pytest.mark.parametrize("column", ["grader", "grader_version"])
def test_one_order_by_one_judge_and_the_other_by_another_is_no_consistency(column: str) -> None:
    frame = judged(["AA"]).assign(**{column: ["x", "y"]})
    with pytest.raises(FrameError, match=rf"more than one {column}: x, y. Add '{column}' to by="):
        sc.bias.position(frame)
    apart = sc.bias.position(frame, by=[column])
    assert set(apart["measure"]) == {"position_points"}  # nothing about consistency
    assert apart["note"].str.contains("the systems have no names").all()


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


def test_one_order_gives_the_difference_of_a_system_shown_first_and_second() -> None:
    # 40 cases: 10 won by the place, the rest by the better system, shown first in every second pair
    table = pair_table(40, first=10, ties=4, orders=1)
    (row,) = sc.bias.position(sc.from_frame(table).pairwise).to_dict("records")
    pairs = [
        (a, b, {a: 1.0, b: 0.0}.get(winner, 0.5))
        for a, b, winner in table[["model_a", "model_b", "winner"]].to_numpy()
    ]
    assert row["estimate"] == pytest.approx(difference_of_orders(pairs))
    assert row["ci_low"] < 25 < row["ci_high"] and row["n_ties"] == 4
    assert "assumes that the order was random" in row["note"]
    # where one system is better and is first in 6 of 10 pairs, the share of first wins is no bias
    better = pair_table(50, orders=1).assign(winner="x")
    shown = better["model_a"].eq("x")
    part = better[shown | (shown.cumsum() % 3 > 0)]
    (row,) = sc.bias.position(sc.from_frame(part).pairwise).to_dict("records")
    assert row["estimate"] == 0 and row["ci_low"] < 0 < row["ci_high"] and not row["shown"]
    # three systems
    frame = pd.concat(
        [table, table.replace({"y": "z"}).assign(question_id=lambda t: t["question_id"] + "z")]
    )
    pairs += [(a.replace("y", "z"), b.replace("y", "z"), result) for a, b, result in pairs[::2]]
    frame = pd.concat([table, frame[40:].iloc[::2]])
    (row,) = sc.bias.position(sc.from_frame(frame).pairwise).to_dict("records")
    assert row["estimate"] == pytest.approx(difference_of_orders(pairs))


@pytest.mark.parametrize("n", [5, 40])
def test_a_system_that_is_always_shown_first_shows_no_position_bias(n: int) -> None:
    table = pair_table(n, orders=2).query("model_a == 'x'")
    (row,) = sc.bias.position(sc.from_frame(table).pairwise).to_dict("records")
    assert np.isnan([row["estimate"], row["ci_low"], row["p_value"]]).all()
    said = {5: "each system always in the same place", 40: "'x' was shown first in 100 %"}[n]
    assert said in row["note"]
    assert "worth" not in " ".join(sc.report.sentences(pd.DataFrame([row]).assign(grader="j")))


@pytest.mark.filterwarnings("ignore::skillcomp.frames.FrameWarning")
def test_texts_without_names_of_systems_show_no_position_bias_in_one_order() -> None:
    table = pair_table(40, orders=1)
    texts = {"model_a": "output_1", "model_b": "output_2"}
    for names in (texts, {"model_a": "chosen", "model_b": "rejected"}):
        named = table.rename(columns=names)
        for name in names.values():
            named[name] = [f"The answer {i} of {name} is long enough.\nIt is." for i in range(40)]
        how = dict(zip(("first", "second"), names.values(), strict=True))
        one, other = (named[name] for name in how.values())
        winner = one.where(table["winner"].eq(table["model_a"]), other)
        made = sc.from_frame(named.drop(columns="gold").assign(winner=winner), **how)
        (row,) = sc.bias.position(made.pairwise).to_dict("records")
        assert np.isnan(row["estimate"]) and "the systems have no names" in row["note"]


def test_self_preference_where_the_families_are_arguments() -> None:
    # j is of the family of x: in 6 cases with y better it prefers x in both orders; k is fair
    table = pair_table(40)
    loyal = table.assign(winner=table["winner"].mask(table["question_id"].isin(list("13579")), "x"))
    made = sc.from_frame(pd.concat([loyal, table.assign(judge="k")]))
    frames = made.verdicts, made.attempts, made.gold
    how = {"by": "grader", "pairwise": made.pairwise}
    families = {"j": "ours", "k": "others", "x": "ours", "y": "theirs"}
    audit = sc.bias.audit(*frames, families=families, **how).set_index(["grader", "bias"])
    own = audit.loc[("j", "model family")]
    # x wins all 20 pairs in which it is better and 5 of the other 20: its win rate is 62.5 %
    assert own["estimate"] == pytest.approx(12.5)
    assert own["ci_low"] > 0 and own["n_clusters"] == 40
    why = "not identified: no answer is of the grader's family (others)"
    assert audit.loc[("k", "model family"), "note"].startswith(why)
    plain = sc.bias.audit(*frames, **how).set_index(["grader", "bias"])
    assert "model family not recorded" in plain.loc[("j", "model family"), "note"]
    with pytest.raises(FrameError, match=r"families: found 'jj'; allowed: j, k, x, y"):
        sc.bias.audit(*frames, families={"jj": "ours"}, **how)
