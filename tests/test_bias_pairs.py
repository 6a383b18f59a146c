"""Effects of features on the choice between two answers, identical answers, votes and grades."""

import numpy as np
import pandas as pd
import pytest
from oracles.pairs import effect_of_a_difference

import skillcomp as sc
from skillcomp.errors import FrameError

pytestmark = pytest.mark.filterwarnings("ignore::skillcomp.frames.FrameWarning")
FAMILIES = {"j": "one", "x": "one", "y": "other"}


def text(n_words: float) -> str:
    """An answer in sentences of eight words."""
    words = np.array(["word"] * max(int(n_words), 1), dtype=object)
    words[7::8] = "word."
    return " ".join(words)


def pairs_of(rng, n, length=0.2, own=0.1, gold=0.2, first=0.0, longer=0.0) -> pd.DataFrame:
    """Pairs of two systems; the questions vary in length, and each effect adds to the chance."""
    typical, ratio = 2 ** rng.uniform(5, 9, n), rng.normal(0, 0.6, n)
    model, better, swap = rng.choice(["x", "y"], n), rng.random(n) < 0.5, rng.random(n) < 0.5
    ratio += longer * np.where(model == "x", 1, -1)
    texts = [[text(size) for size in typical * 2 ** (way * ratio / 2)] for way in (1, -1)]
    real = np.log2([len(a.split()) / len(b.split()) for a, b in zip(*texts, strict=True)])
    chance = 0.5 + gold * (2 * better - 1) + length * real + own * np.where(model == "x", 1, -1)
    chance += first * np.where(swap, -1, 1)
    return pd.DataFrame({
        "case": [f"q{i}" for i in range(n)], "judge": "j",
        "model_a": model, "model_b": np.where(model == "x", "y", "x"),
        "response_a": texts[0], "response_b": texts[1], "order": np.where(swap, "BA", "AB"),
        "winner": np.where(rng.random(n) < chance, "A", "B"), "gold": np.where(better, "A", "B"),
    })  # fmt: skip


def read(table: pd.DataFrame) -> sc.frames.Frames:
    words = {"winner": {"A": "A", "B": "B"}}
    return sc.from_frame(
        table, grader="judge", gold="gold" if "gold" in table else None, words=words
    )


def audited(made, **how) -> pd.DataFrame:
    found = sc.bias.audit(
        made.verdicts, made.attempts, made.gold, pairwise=made.pairwise, families=FAMILIES, **how
    )
    return found.set_index("bias")


def test_a_table_has_names_of_systems_and_texts() -> None:
    made = read(pairs_of(np.random.default_rng(0), 20))
    assert set(made.attempts["agent"]) == {"x", "y"}
    assert made.attempts["answer"].notna().all() and made.attempts["n_words"].gt(0).all()
    assert made.columns["first_answer"] == "response_a" and made.columns["first"] == "model_a"
    again = made.pairwise.merge(made.attempts, left_on="first", right_on="attempt_id")
    table = pairs_of(np.random.default_rng(0), 20)
    shown = table["response_a"].where(table["order"].eq("AB"), table["response_b"])
    assert again["answer"].tolist() == shown.tolist()


def test_effects_of_pairs_are_those_of_the_oracle_and_near_the_truth() -> None:
    table = pairs_of(np.random.default_rng(1), 2000, first=0.05)
    found = audited(read(table))
    for bias, truth in (("verbosity", 20), ("model family", 10)):
        row = found.loc[bias]
        assert (
            row["measure"] == "pair_effect_points" and row["n"] > 1950
        )  # the others have equal texts
        assert row["ci_low"] < truth < row["ci_high"] and row["ci_high"] - row["ci_low"] < 15
    made = read(table)
    form = sc.bias.features(made.attempts).set_index("attempt_id")
    names = ["log2_words", "log2_words_per_sentence"]
    shown = made.pairwise[made.pairwise["first"].ne(made.pairwise["second"])]
    first, second = (form[names].loc[shown[side]].to_numpy() for side in ("first", "second"))
    wins = [shown[w].eq(shown["first"]) for w in ("winner", "gold_winner")]
    rows = np.column_stack([*wins, first - second, np.full(len(first), 0.5)])
    alone = sc.bias.audit(made.verdicts, made.attempts, made.gold, pairwise=made.pairwise)
    estimates = alone.set_index("bias")["estimate"]
    assert estimates["verbosity"] == pytest.approx(effect_of_a_difference(rows), abs=1e-9)


def test_length_does_not_take_over_the_effect_of_a_family_with_longer_answers() -> None:
    table = pairs_of(np.random.default_rng(5), 1500, length=0.0, own=0.3, gold=0.1, longer=0.5)
    found = audited(read(table)).loc["verbosity"]
    assert found["ci_low"] < 0 < found["ci_high"] < 12  # 25 points without adjustment
    assert "own_family" in found["method"]


def test_without_gold_they_are_preferences_and_say_who_wins() -> None:
    table = pairs_of(np.random.default_rng(2), 400).drop(columns="gold")
    found = audited(read(table), by="grader").loc["verbosity"]
    assert found["measure"] == "pair_preference_points"
    longer = table["response_a"].str.len() > table["response_b"].str.len()
    differ = table["response_a"].str.len() != table["response_b"].str.len()
    share = (longer == table["winner"].eq("A"))[differ].mean()
    assert f"the longer answer wins {100 * share:.0f} % of {differ.sum()} pairs" in found["note"]


def test_verdicts_on_pairs_are_never_read_as_single_answers() -> None:
    made = read(pairs_of(np.random.default_rng(3), 30))
    with pytest.raises(FrameError, match=r"60 verdicts compare two answers.*pairwise=made\.pairw"):
        sc.bias.audit(made.verdicts, made.attempts, made.gold)
    assert set(audited(made)["measure"]) == {"pair_effect_points"}


def identical(n: int, first: float) -> pd.DataFrame:
    ties = n // 4
    firsts = round(first * (n - ties))
    winner = ["tie"] * ties + ["first"] * firsts + ["second"] * (n - ties - firsts)
    cases = [f"i{k}" for k in range(n)]
    return pd.DataFrame({"case": cases, "output_1": "same", "output_2": "same", "winner": winner})


def test_identical_answers_test_the_place_and_count_nowhere_else() -> None:
    others = pd.DataFrame({"case": [f"c{k}" for k in range(20)], "output_1": "a", "output_2": "b",
                           "winner": "first"})  # fmt: skip
    made = sc.from_frame(pd.concat([others, identical(40, 0.8)], ignore_index=True))
    found = sc.bias.position(made.pairwise).set_index("measure")
    assert found["estimate"]["ties_if_identical"] == pytest.approx(10 / 40)
    assert found["estimate"]["first_wins_if_identical"] == pytest.approx((24 + 5) / 40)
    assert found["p_value"]["first_wins_if_identical"] < 0.05
    assert len(made.verdicts) == 2 * 20 and len(made.pairwise) == 60
    alone = sc.from_frame(identical(40, 0.8))
    row = sc.bias.position(alone.pairwise).set_index("measure").loc["position_points"]
    assert row["estimate"] == pytest.approx(100 * (24 - 6) / 40)
    assert row["note"].startswith("from identical answers")


def test_votes_and_turns_of_a_pair_are_averaged_and_the_question_is_the_unit() -> None:
    rng = np.random.default_rng(5)
    question = rng.normal(0, 0.4, 30)
    rows = [
        {"question_id": q, "turn": turn, "judge": f"p{voter}", "model_a": "x", "model_b": "y",
         "winner": "model_a" if rng.random() < 0.5 + question[q] else "model_b"}
        for q in range(30) for turn in (1, 2) for voter in range(4)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    with pytest.raises(FrameError, match=r"verdicts on the same thing.*'turn'"):
        sc.from_frame(table)
    made = sc.from_frame(table, repeat="turn")
    with pytest.raises(FrameError, match=r"judge|grader"):
        sc.bias.win_rates(made.pairwise, made.attempts)
    found = sc.bias.win_rates(made.pairwise, made.attempts, average="grader").iloc[0]
    means = table["winner"].eq("model_a").groupby(table["question_id"]).mean()
    assert found["estimate"] == pytest.approx(means.mean()) and found["n"] == 30
    naive = sc.from_frame(table.assign(case=range(len(table))), case="case")
    wrong = sc.bias.win_rates(naive.pairwise, naive.attempts, average="grader").iloc[0]
    assert found["ci_high"] - found["ci_low"] > 1.5 * (wrong["ci_high"] - wrong["ci_low"])
    assert sc.bias.position(made.pairwise, average="grader")["n"].notna().all()


@pytest.mark.parametrize(("values", "words", "first"), [
    ([1.0, 1.25, 1.5, 2.0], None, [1, 0.75, 0.5, 0]),
    ([-3, -1, 0, 3], {-3: "A", 3: "B"}, [1, 4 / 6, 0.5, 0]),
    ([-3, -1, 0, 2], {-3: "second", 3: "first"}, [0, 2 / 6, 0.5, 5 / 6]),
])  # fmt: skip
def test_graded_preferences_are_scores_of_a_pair(values, words, first) -> None:
    table = pd.DataFrame({"case": list("abcd"), "model_a": "x", "model_b": "y", "winner": values})
    made = sc.from_frame(table, words=words and {"winner": words})
    assert made.pairwise["preference"].tolist() == pytest.approx(first)
    rate = sc.bias.win_rates(made.pairwise, made.attempts).iloc[0]
    assert rate["estimate"] == pytest.approx(np.mean(first))


@pytest.mark.parametrize(("values", "message"), [
    ([-3, -1, 0, 2], r"found numbers from -3 to 2.*ends of the scale, such as words={'win"),
    ([0.1, 0.6, 0.7, 0.9], "found numbers from 0.1 to 0.9"),
])  # fmt: skip
def test_a_scale_without_known_ends_is_asked_for(values, message) -> None:
    table = pd.DataFrame({"case": list("abcd"), "model_a": "x", "model_b": "y", "winner": values})
    with pytest.raises(FrameError, match=message):
        sc.from_frame(table)


def test_win_rates_are_corrected_by_the_choices_of_people_on_a_subset() -> None:
    rng = np.random.default_rng(6)
    human = rng.random(400) < 0.61
    judge = np.where(human, rng.random(400) < 0.5, rng.random(400) < 0.15)
    table = pd.DataFrame({"case": range(400), "model_a": "x", "model_b": "y",
                          "winner": np.where(judge, "A", "B"), "gold": None})  # fmt: skip
    table["gold"] = pd.Series(np.where(human, "A", "B")).where(rng.random(400) < 0.35)
    made = sc.from_frame(table)
    found = sc.bias.win_rates(made.pairwise, made.attempts).set_index("measure")
    assert found["estimate"]["win_rate"] < 0.45
    row = found.loc["win_rate_corrected"]
    assert row["ci_low"] < human.mean() < row["ci_high"] and abs(row["estimate"] - 0.61) < 0.08
    assert "drawn at random" in row["note"]


def test_layouts_of_public_tables_are_pairs_and_numbers_may_be_names() -> None:
    grades = pd.DataFrame({"instruction": list("abcdefgh"), "output_1": "x", "output_2": "y z",
                           "preference": [1.1, 1.9] * 4, "annotator": "gpt"})  # fmt: skip
    made = sc.from_frame(grades, case="instruction")
    assert made.pairwise["preference"].notna().all() and made.attempts["n_words"].max() == 2
    named = pd.DataFrame({"case": range(8), "model_a": [1, 2] * 4, "model_b": [2, 1] * 4,
                          "winner": [1, 1, 2, 2] * 2})  # fmt: skip
    row = sc.bias.position(sc.from_frame(named).pairwise).iloc[0]
    assert row["estimate"] == 0 and set(sc.from_frame(named).attempts["agent"]) == {"1", "2"}


def test_equal_texts_of_two_systems_are_identical_also_in_a_store(tmp_path) -> None:
    table = pairs_of(np.random.default_rng(7), 20)
    made = read(table.assign(response_b=table["response_a"]))
    assert sc.bias.position(made.pairwise)["measure"].tolist()[1] == "ties_if_identical"
    assert made.verdicts.empty and len(made.attempts) == 40
    stored = sc.frames.pairwise(sc.RunStore(made.save(tmp_path / "x")))
    pd.testing.assert_frame_equal(stored, made.pairwise)


@pytest.mark.parametrize(("values", "ends", "first"), [
    ([0, 1, 2, 1, 0.5], {0: "A", 2: "B"}, [1, 0.5, 0, 0.5, 0.75]),
    ([1, 2, 5, 2, 3], {1: "A", 5: "B"}, [1, 0.75, 0, 0.75, 0.5]),
    ([1, 2, 3, -3, 0], {-3: "A", 3: "B"}, [2 / 6, 1 / 6, 0, 1, 0.5]),
])  # fmt: skip
def test_named_ends_of_a_scale_hold_for_one_and_two(values, ends, first) -> None:
    table = pd.DataFrame({"case": range(5), "model_a": "x", "model_b": "y", "winner": values})
    made = sc.from_frame(table, words={"winner": ends})
    assert made.pairwise["preference"].tolist() == pytest.approx(first)
    gold = sc.from_frame(table.assign(pref=values, winner="A"), gold="pref", words={"gold": ends})
    assert gold.pairwise["gold_winner"].eq("tie").tolist() == [value == 0.5 for value in first]


def test_three_systems_may_give_one_answer_and_a_table_may_be_empty() -> None:
    table = pd.DataFrame({"case": 1, "model_a": "x", "model_b": ["y", "z"], "response_a": "42",
                          "response_b": "42", "winner": "tie"})  # fmt: skip
    made = sc.from_frame(table)
    assert made.pairwise["repeat"].tolist() == [1, 2] and made.verdicts.empty
    assert sc.from_frame(table.head(0)).pairwise.empty


def test_notes_on_pairs_count_what_was_left_out() -> None:
    order = [("x", "y"), ("y", "x")]
    table = pd.DataFrame([
        {"case": q, "model_a": order[q % 2][0], "model_b": order[q % 2][1], "winner": "model_a",
         "turn": turn} for q in range(20) for turn in (1, 2)
    ])  # fmt: skip
    (note,) = sc.bias.position(sc.from_frame(table, repeat="turn").pairwise)["note"]
    assert "left out" not in note
    both = table[table["turn"].eq(1)].drop(columns="turn")
    swapped = both.head(5).rename(columns={"model_a": "model_b", "model_b": "model_a"})
    mixed = sc.from_frame(pd.concat([both, swapped], ignore_index=True))
    notes = sc.bias.position(mixed.pairwise)["note"]
    assert notes.str.contains("15 pairs shown in one order left out").all()


def test_few_choices_of_people_correct_no_rate_and_pairs_have_no_pass_rate() -> None:
    table = pd.DataFrame({"case": range(20), "model_a": "x", "model_b": "y", "winner": "model_a",
                          "gold": ["model_a"] * 3 + [None] * 17})  # fmt: skip
    made = sc.from_frame(table)
    found = sc.bias.win_rates(made.pairwise, made.attempts).set_index("measure")
    row = found.loc["win_rate_corrected"]
    assert np.isnan(row["estimate"]) and "gold on 3 cases" in row["note"]
    with pytest.raises(FrameError, match=r"compare two answers.*bias\.win_rates"):
        sc.correction.rate(made.verdicts, made.gold)
