"""Win rates of systems: ties are half a win, cases are units."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from build import pair_table
from scipy.stats import beta

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import FrameError


def rates(table: pd.DataFrame, **how: object) -> pd.DataFrame:
    made = sc.from_frame(table)
    return sc.bias.win_rates(made.pairwise, made.attempts, **how)


def test_win_rate_by_hand_with_ties_and_both_orders() -> None:
    # 10 cases: 0 and 1 wrong (y, x win), 2 and 3 tie, 4 and 5 by place, 6 to 9 right (x, y, x, y)
    table = pair_table(10, wrong=2, first=2, ties=2)
    found = rates(table).iloc[0]
    # of x: 0 + 1 + (place) 1/2 + 1/2 + (tie) 1/2 + 1/2 + 1 + 0 + 1 + 0
    assert found["estimate"] == pytest.approx(5 / 10)
    assert found[["n_wins", "n_losses", "n_ties", "n_dropped"]].tolist() == [8, 8, 4, 0]
    assert found["n"] == 10 and found["n_clusters"] == 10
    # without ties and with one order: 3 of 10 with a pseudo-case of weight c at the bound
    once = pair_table(10, orders=1).assign(winner=["x"] * 3 + ["y"] * 7)
    plain = rates(once).iloc[0]
    c = sc.stats.RATES.c
    assert plain["ci_low"] == pytest.approx(beta.ppf(0.025, 3, 7 + c), abs=1e-9)
    assert plain["ci_high"] == pytest.approx(beta.ppf(0.975, 3 + c, 7), abs=1e-9)
    assert "assumes that the order was random" in plain["note"]
    assert "order" not in found["note"]


def test_the_rate_of_the_opponent_is_the_complement() -> None:
    table = pair_table(14, wrong=3, first=2, ties=3)
    x, y = rates(table).iloc[0], rates(table, reference="x").iloc[0]
    assert (y["side"], y["opponent"]) == ("y", "x")
    assert y["estimate"] == pytest.approx(1 - x["estimate"])
    assert y["ci_low"] == pytest.approx(1 - x["ci_high"])
    assert y["p_value"] == pytest.approx(x["p_value"])


def test_sign_test_is_the_exact_test_of_wins_against_losses() -> None:
    # scipy 1.x and R 4: binom.test(9, 10)$p.value = 0.0215; mid-p is 2 (10 + 1/2) / 2^10 - 9 / 2^10
    table = pair_table(10, orders=1).assign(winner=["x"] * 9 + ["y"])
    exact = 2 * sum(comb(10, k) for k in (9, 10)) / 2**10
    p_value = rates(table)["p_value"].iloc[0]
    assert exact / 2 < p_value <= exact * 1.05


def test_several_systems_have_a_row_for_each_two_and_graders_are_not_pooled() -> None:
    three = pd.DataFrame({
        "case": np.repeat(range(5), 3), "model_a": ["x", "y", "z"] * 5, "model_b": ["y", "z", "x"]
        * 5, "winner": ["x", "y", "z"] * 5})  # fmt: skip
    found = rates(three)
    pairs = found[["side", "opponent"]].values.tolist()
    assert pairs == [["x", "y"], ["x", "z"], ["y", "z"]]
    assert found["estimate"].tolist() == [1, 0, 1]
    table = pair_table(6)
    both = pd.concat([table, table.assign(judge="k", winner="x")])
    with pytest.raises(FrameError, match=r"bias.win_rates: .*more than one grader: j, k. Add 'gra"):
        rates(both)
    by = rates(both, by="grader").query("measure == 'win_rate'").set_index("grader")["estimate"]
    assert by.to_dict() == {"j": 0.5, "k": 1.0}


def test_conditions_can_be_compared_and_what_lacks_is_named() -> None:
    made = simulated.study(n_skills=2, n_cases=6, graders=[simulated.Grader("g", 0.9, 0.9)])
    rate = sc.bias.win_rates(
        made.pairwise, made.attempts, sides="condition", reference="baseline", cases=made.cases
    )
    assert rate["side"].tolist() == ["skill"] and rate["n"].iloc[0] == 12
    texts = pd.DataFrame({"case": [1, 2], "output_1": "a", "output_2": "b", "winner": [1, 2]})
    with pytest.raises(FrameError, match="no values in a column 'agent'"):
        rates(texts)
    with pytest.raises(FrameError, match=r"reference: found 'xx'"):
        rates(pair_table(4), reference="xx")
    with pytest.warns(sc.frames.FrameWarning, match="no verdict"):
        nothing = rates(pair_table(4).assign(winner=None))
    assert nothing["estimate"].isna().all() and nothing["n_dropped"].iloc[0] == 8


def test_a_system_that_is_always_shown_first_is_named_and_no_random_order_assumed() -> None:
    table = pair_table(20, orders=1)
    assert "order was random" in rates(table).iloc[0]["note"]
    table = table.assign(model_a="y", model_b="x")
    note = rates(table).iloc[0]["note"]
    assert note.startswith("'y' was shown first in 100 % of 20 comparisons")
    assert "random" not in note


@pytest.mark.parametrize(("wins", "losses", "ties", "percent", "standard_error"), [
    (642, 134, 25, 81.71036205, 1.330613333),  # gpt35_turbo_instruct
    (707, 89, 9, 88.38509317, 1.11448754),  # claude
    (436, 356, 13, 54.9689441, 1.740266793),  # oasst-sft-llama-33b
    (112, 672, 20, 15.17412935, 1.235107892),  # text_davinci_001
])  # fmt: skip
def test_published_win_rates_and_their_standard_errors(
    wins: int, losses: int, ties: int, percent: float, standard_error: float
) -> None:
    # AlpacaEval with text_davinci_003 as reference, judged by GPT-4 (method: arXiv:2305.14387):
    # tatsu-lab/alpaca_eval, leaderboards/data_AlpacaEval/alpaca_eval_gpt4_leaderboard.csv
    table = pair_table(wins + losses + ties, orders=1)
    table = table.assign(winner=["x"] * wins + ["y"] * losses + ["tie"] * ties)
    row = rates(table, interval="t").iloc[0]
    assert row[["n_wins", "n_losses", "n_ties"]].tolist() == [wins, losses, ties]
    assert 100 * row["estimate"] == pytest.approx(percent)
    assert 100 * row["se"] == pytest.approx(standard_error, rel=1e-6)
    default = rates(table).iloc[0]
    length = 2 * 1.96 * standard_error / 100
    assert default["ci_high"] - default["ci_low"] == pytest.approx(length, rel=0.03)
