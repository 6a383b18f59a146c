"""Tables of pairwise verdicts, one row per shown pair, become comparisons, verdicts and gold."""

import pandas as pd
import pytest
from build import pair_table
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError

WINS = {1.0: "first", 0.0: "second", 0.5: "tie"}


def places(made):
    """The winner of each row as a place, or tie."""
    rows = made.pairwise
    named = rows["winner"].mask(rows["winner"].eq(rows["first"]), "first")
    return named.mask(rows["winner"].eq(rows["second"]), "second").tolist()


def llmbar(**columns):
    """Two of 419 pairs in both orders by two judges, as in LLMBar: label 1 or 2, output_1, ..."""
    pairs = pd.DataFrame({
        "id": [1, 1, 2, 2], "order": ["AB", "BA"] * 2, "label": [1, 1, 2, 2],
        "output_1": ["Tea.", "Tea.", "A b c", "A b c"], "output_2": ["No", "No", "a b c", "a b c"],
    })  # fmt: skip
    right = pairs.assign(judge="right", winner=pairs["label"])
    first = pairs.assign(judge="first", winner=[1, 2, 1, 2])
    return pd.concat([right, first], ignore_index=True).assign(**columns)


def test_a_file_with_labels_and_both_orders_needs_three_lines():
    made = sc.from_frame(llmbar(), gold="label", words={"winner": {1: "A", 2: "B"}})
    agree = sc.reliability.agreement(made.verdicts, made.gold).set_index(["grader", "measure"])
    bias = sc.bias.position(made.pairwise, by="grader").set_index(["grader", "measure"])
    assert agree["estimate"]["right", "raw_agreement"] == 1
    assert agree["estimate"]["first", "raw_agreement"] == 0.5
    assert bias["estimate"]["first", "position_points"] == 100
    assert bias["estimate"]["right", "position_consistency"] == 1
    assert made.attempts["answer"].tolist() == ["Tea.", "No", "A b c", "a b c"]
    assert made.attempts["agent"].isna().all()
    assert made.columns["case"] == "id" and made.columns["first"] == "output_1"


def test_winners_as_places_give_the_same_frames_as_winners_as_answers():
    places = llmbar()
    places["winner"] = places["winner"].where(places["order"].eq("AB"), 3 - places["winner"])
    one = sc.from_frame(llmbar(), gold="label", words={"winner": {1: "A", 2: "B"}})
    two = sc.from_frame(places, gold="label", words={"winner": {1: "first", 2: "second"}})
    pd.testing.assert_frame_equal(one.pairwise, two.pairwise)
    pd.testing.assert_frame_equal(one.verdicts, two.verdicts)


def test_human_votes_on_named_systems_are_recognised():
    votes = pd.DataFrame({
        "question_id": [81, 81, 82, 83], "model_a": ["gpt", "vicuna", "gpt", "llama"],
        "model_b": ["vicuna", "gpt", "llama", "gpt"], "turn": 1,
        "winner": ["model_a", "model_a", "tie (bothbad)", None], "judge": ["p1", "p2", "p1", "p1"],
    })  # fmt: skip
    with pytest.warns(sc.frames.FrameWarning) as notes:
        made = sc.from_frame(votes)
    assert made.pairwise["winner"].tolist()[:3] == ["81/gpt", "81/vicuna", "tie"]
    assert made.pairwise["winner"].isna().tolist() == [False] * 3 + [True]
    assert made.pairwise["order"].tolist() == [1, 2, 1, 1]
    assert made.attempts["agent"].tolist() == ["gpt", "vicuna", "gpt", "llama", "llama", "gpt"]
    assert made.verdicts["passed"].isna().sum() == 2  # a missing verdict is not a loss
    assert "no verdict; missing, neither a tie nor a loss (1 row)" in str(notes[0].message)
    assert "'tie (bothbad)' as a tie (1 row)" in str(notes[0].message)


@pytest.mark.parametrize("words", [
    ("A", "B", "tie"), ("[[A]]", "[[B]]", "[[C]]"), (1, 2, "tie"), ("1.0", "2.0", "Tie"),
    ("A>B", "B>A", "A=B"), ("A >> B", "A<B", "A = B"), ("model_a", "model_b", "draw"),
    ("first", "second", "equal"), ("output_1", "output_2", "same"), ("x", "y", "tie"),
    ("Model 1", "model-2", "TIE"), ("chat one", "chat two", "tie"),
])  # fmt: skip
def test_usual_words_for_winners(words):
    table = pd.DataFrame({"case": [1, 2, 3], "chat_one": "x", "chat_two": "y", "winner": words})
    table = table.assign(case=["a", "b", "c"])
    with pytest.warns(sc.frames.FrameWarning, match="names of 2 systems"):
        made = sc.from_frame(table, first="chat_one", second="chat_two")
    assert places(made) == ["first", "second", "tie"]


def test_a_tie_against_a_gold_winner_counts_one_half_and_a_gold_tie_is_a_tie():
    made = sc.from_frame(pair_table(10, ties=4, wrong=1))
    agree = sc.reliability.agreement(made.verdicts, made.gold).set_index("measure")["estimate"]
    assert agree["raw_agreement"] == pytest.approx((5 + 4 / 2) / 10)
    assert agree["false_fails"] == pytest.approx(5 / 10)  # the winner is not picked
    assert agree["false_passes"] == pytest.approx(1 / 10)  # the loser is picked
    tied = sc.from_frame(pair_table(4, ties=4).assign(gold="tie"))
    assert tied.gold["passed"].eq(False).all() and tied.pairwise["gold_winner"].eq("tie").all()
    assert tied.verdicts["passed"].eq(False).all()


def test_gold_in_one_row_of_a_pair_holds_in_all_its_rows():
    table = pair_table(6)
    table.loc[table["model_a"].eq("y"), "gold"] = None
    pd.testing.assert_frame_equal(sc.from_frame(table).gold, sc.from_frame(pair_table(6)).gold)
    contradicting = pair_table(6).assign(gold="A")
    with pytest.raises(FrameError, match=r"'gold' \(gold=\): differs between the rows of a pair"):
        sc.from_frame(contradicting)


@pytest.mark.parametrize(("change", "message"), [
    ({"winner": ["model_a", "modl_b", "left"]}, r"'modl_b' \(1 row\), 'left' \(1 row\).*Did you "
     "mean 'model b'.*words={'winner': {'modl_b': ..., 'left': ...}} says what they mean"),
    ({"winner": [1, 0, 1]}, r"found 1 \(2 rows\), 0 \(1 row\)"),
    ({"winner": [True, False, True]}, "found True"),
    ({"id": [1, 2, 3]}, "case= may be the column 'question_id' or 'id'; name it"),
    ({"question_id": [1, 1, None]}, "'question_id' .case=.: missing in 1 row, the first is row 2"),
])  # fmt: skip
def test_unclear_tables_are_refused_with_a_remedy(change, message):
    names = {"model_a": ["x", "y", "x"], "model_b": ["y", "x", "y"]}
    table = pd.DataFrame({"question_id": [1, 1, 2], **names, "winner": "tie"}).assign(**change)
    with pytest.raises(FrameError, match=f"(?s){message}"):
        sc.from_frame(table)


def test_messages_name_the_nearest_column_and_the_roles_of_all():
    with pytest.raises(FrameError, match=r"no column 'winer'.*Did you mean 'winner'") as error:
        sc.from_frame(pair_table(2), winner="winer")
    assert "gold='gold', grader='judge', winner='winner'" in str(error.value)
    with pytest.raises(FrameError, match="first= is needed"):
        sc.from_frame(pair_table(2).rename(columns={"model_a": "ours"}))
    with pytest.raises(
        FrameError, match=r"words=: found 'frist' for 'x' of 'winner'; allowed: A, B, first"
    ):
        sc.from_frame(pair_table(2), words={"winner": {"x": "frist"}})


def test_copied_rows_are_refused_and_raters_are_told_apart():
    table = pair_table(4)
    message = r"(?s)16 rows are verdicts on the same.*judge 'j'.*With keep='last', a later row"
    with pytest.raises(FrameError, match=message):
        sc.from_frame(pd.concat([table, table]))
    raters = pd.concat([table, table.assign(judge="k")]).rename(columns={"judge": "person"})
    with pytest.raises(FrameError, match="Within them differ 'person'"):
        sc.from_frame(raters)
    assert sc.from_frame(raters, grader="person").verdicts["grader"].nunique() == 2


def test_with_an_order_a_letter_may_be_an_answer_or_a_place():
    with pytest.raises(FrameError, match="may be an answer or a place") as error:
        sc.from_frame(llmbar(), gold="label")
    assert "words={'winner': {1: 'first', 2: 'second'}}: the answer shown" in str(error.value)
    own = sc.from_frame(llmbar(), gold="label", words={"winner": {1: "A", 2: "B"}})
    assert own.pairwise["winner"].tolist()[:2] == ["1/1", "1/1"]
    swapped = llmbar(swap=[False, True] * 4).drop(columns=["order", "output_1", "output_2"])
    made = sc.from_frame(swapped, gold="label", words={"winner": {1: "A", 2: "B"}}, order="swap")
    assert made.pairwise["first"].tolist()[:2] == ["1/A", "1/B"]


def test_missing_and_keep_mean_the_same_as_in_a_table_of_verdicts():
    table = pair_table(4)
    silent = table.assign(winner=table["winner"].where(table.index > 0, "-1"))
    with pytest.raises(
        FrameError, match=r"found '-1' .*words={'winner': {'-1': ...}} says what it means; None"
    ):
        sc.from_frame(silent)
    with pytest.warns(sc.frames.FrameWarning, match="'-1' as missing"):
        made = sc.from_frame(silent, missing=[-1])
    assert made.pairwise["winner"].isna().sum() == 1
    retried = pd.concat([silent, table.iloc[:1]])
    with pytest.warns(sc.frames.FrameWarning, match="rows that a later row replaced"):
        made = sc.from_frame(retried, keep="last")
    assert len(made.pairwise) == len(table) and made.pairwise["winner"].notna().all()


def test_a_usual_column_of_orders_is_found_with_spaces_in_its_words():
    table = pair_table(4, orders=1).assign(presentation_order=["swap = true", "swap=false"] * 2)
    made = sc.from_frame(table)
    assert made.columns["order"] == "presentation_order"
    assert made.pairwise["order"].tolist() == [2, 1] * 2


def test_with_positions_and_no_columns_of_answers_a_letter_is_a_place():
    table = pd.DataFrame({"case": [1, 1], "order": ["AB", "BA"], "winner": ["A", "A"]})
    answers, shown = (
        sc.from_frame(table, words={"winner": {"A": meaning}}) for meaning in ("A", "first")
    )
    assert places(answers) == ["first", "second"] and places(shown) == ["first", "first"]


def test_frames_survive_a_store_and_a_combination_of_studies(tmp_path):
    made = sc.from_frame(pair_table(6, ties=2))
    store = sc.RunStore(made.save(tmp_path / "study"))
    pd.testing.assert_frame_equal(sc.frames.pairwise(store), made.pairwise)
    both = sc.frames.concat({"may": made, "june": made}).pairwise
    assert both["gold_winner"].iloc[0].startswith("may/")
    assert set(both["winner"].iloc[::12]) <= {"tie", "may/0/x", "june/0/x"}


@settings(max_examples=4, deadline=None)
@given(st.lists(st.sampled_from(sorted(WINS)), min_size=2, max_size=12), st.randoms())
def test_swapping_the_columns_of_rows_changes_no_winner(wins, random):
    """Rows may name the two systems in any order if the order says so."""
    table = pd.DataFrame({"case": range(len(wins)), "model_a": "x", "model_b": "y",
                          "winner": [WINS[win] for win in wins]})  # fmt: skip
    straight = sc.from_frame(table)
    swap = [random.random() < 0.5 for _ in wins]
    other = table.assign(
        model_a=["y" if s else "x" for s in swap], model_b=["x" if s else "y" for s in swap],
        order=["BA" if s else "AB" for s in swap],
    )  # fmt: skip
    again = sc.from_frame(other, order="order")
    columns = ["case_id", "first", "second", "winner"]
    pd.testing.assert_frame_equal(straight.pairwise[columns], again.pairwise[columns])
