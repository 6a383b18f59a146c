"""Whether a new version of a skill is as good as the old one, and cheaper."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

CHEAP = "as good and cheaper"
TYPICAL = "as good and cheaper for a typical answer, total not bounded"


def two_versions(
    n: int, passed: tuple[int, int], cost: tuple[Any, Any], skill: str = "tea"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcomes and attempts of ``n`` cases under the previous version and the new one.

    The first ``passed`` cases pass; ``cost`` is in dollars per answer, about which cases vary.
    """
    around = 1.0 + 0.2 * np.sin(np.arange(n))
    rows = [
        pd.DataFrame(
            {
                "attempt_id": [f"{skill}/{condition}/{k}" for k in range(n)],
                "skill": skill,
                "case_id": [f"{skill}/{k}" for k in range(n)],
                "condition": condition,
                "repeat": 1,
                "agent": "a",
                "passed": pd.array(np.arange(n) < n_passed, dtype="boolean"),
                "cost_usd": price * (around if condition == "previous" else around[::-1]),
                "seconds": 10 * price * around,
                "input_tokens": 100,
                "output_tokens": 50 if condition == "previous" else 40,
            }
        )
        for condition, n_passed, price in zip(("previous", "skill"), passed, cost, strict=True)
    ]
    table = pd.concat(rows, ignore_index=True)
    amounts = ["cost_usd", "seconds", "input_tokens", "output_tokens"]
    return table.drop(columns=amounts), table.drop(columns="passed")


def joined(studies: list[tuple[pd.DataFrame, pd.DataFrame]]) -> list[pd.DataFrame]:
    return [pd.concat(frames, ignore_index=True) for frames in zip(*studies, strict=True)]


@pytest.mark.parametrize(
    ("passed", "cost", "limit", "verdict"),
    [
        ((50, 20), (1.0, 0.5), 2.0, "worse"),  # a saving does not matter then
        ((40, 40), (1.0, 0.5), 2.0, CHEAP),
        ((40, 40), (1.0, 0.5), None, TYPICAL),
        ((20, 50), (1.0, 0.5), 2.0, CHEAP),  # better, too; the first rule that applies
        ((20, 50), (1.0, 1.0), 2.0, "better"),
        ((40, 40), (1.0, 1.0), 2.0, "as good"),
        ((40, 40), (1.0, 1.5), None, "as good"),
        ((40, 38), (1.0, 0.5), 2.0, "not shown"),
    ],
)
def test_the_first_rule_that_applies_gives_the_verdict(
    passed: tuple[int, int], cost: tuple[float, float], limit: float | None, verdict: str
) -> None:
    outcomes, attempts = two_versions(60, passed, cost)
    row = sc.skillverdicts.compare(outcomes, attempts, limit=limit).iloc[0]
    assert row["verdict"] == verdict, row.to_dict()
    assert row["condition"] == "skill" and row["reference"] == "previous"
    assert row["estimate"] == pytest.approx((passed[1] - passed[0]) / 60)
    assert row["saved"] == row["saved_cost_usd"]
    assert row["saved_cost_usd"] == pytest.approx(cost[0] - cost[1], abs=0.01)
    assert row["saved_seconds"] == pytest.approx(10 * (cost[0] - cost[1]), abs=0.1)
    assert row["saved_tokens"] == 10
    assert row["saved_low"] < row["saved"] < row["saved_high"]


def test_worse_and_better_need_the_p_value_that_is_adjusted_for_all_rows() -> None:
    parts = [two_versions(60, (40, 33), (1.0, 1.0), "tea")]
    alone = sc.skillverdicts.compare(*parts[0]).iloc[0]
    assert alone["ci_high"] < 0 and alone["verdict"] == "worse"
    for k in range(9):  # half of these cases change, as many for the better as for the worse
        outcomes, attempts = two_versions(60, (30, 30), (1.0, 1.0), f"s{k}")
        new = outcomes["condition"].eq("skill")
        outcomes.loc[new, "passed"] = outcomes.loc[new, "passed"].to_numpy()[::-1]
        parts.append((outcomes, attempts))
    rows = sc.skillverdicts.compare(*joined(parts)).set_index("skill")
    assert rows.loc["tea", "ci_high"] == alone["ci_high"] and not rows.loc["tea", "shown"]
    assert set(rows["verdict"]) == {"not shown"}


def test_a_cheaper_typical_answer_with_a_dearer_total_is_not_cheaper() -> None:
    price = np.full(60, 0.5)
    price[3] = 60.0  # one loop
    outcomes, attempts = two_versions(60, (40, 40), (1.0, price))
    row = sc.skillverdicts.compare(outcomes, attempts).iloc[0]
    assert row["verdict"] == "as good" and row["ratio_high"] < 1 and row["saved"] < 0
    assert "the total over these cases is not lower" in row["note"]
    bounded = sc.skillverdicts.compare(outcomes, attempts, limit=100.0).iloc[0]
    assert bounded["verdict"] == "as good" and bounded["limit"] == 100


def test_another_amount_decides_and_each_skill_has_its_own_row() -> None:
    parts = [
        two_versions(60, (40, 40), cost, skill)
        for skill, cost in (("tea", (1.0, 0.5)), ("coffee", (1.0, 1.0)))
    ]
    outcomes, attempts = joined(parts)
    rows = sc.skillverdicts.compare(outcomes, attempts).set_index("skill")
    assert rows["verdict"].to_dict() == {"tea": TYPICAL, "coffee": "as good"}
    by_seconds = sc.skillverdicts.compare(outcomes, attempts, amount="seconds", limit=60)
    assert by_seconds["verdict"].tolist() == [CHEAP, "as good"]
    # facts of the cases that only the outcomes have tie the amounts together, too
    numbers = outcomes["case_id"].str.extract(r"(\d+)")[0].astype(int)
    linked = outcomes.assign(video=numbers // 2, linked_by="video")
    tied = sc.skillverdicts.compare(linked, attempts)
    assert (
        tied["n_clusters"].tolist() == [30, 30]
        and (tied["saved_low"] != rows["saved_low"].to_numpy()).all()
    )
    # attempts of other skills and conditions do not count
    tea = outcomes["skill"].eq("tea")
    other = attempts.assign(condition="baseline", attempt_id="0" + attempts["attempt_id"])
    more = pd.concat([attempts, other], ignore_index=True)
    row = sc.skillverdicts.compare(outcomes[tea], more, by=[]).iloc[0]
    assert row["saved"] == pytest.approx(rows.loc["tea", "saved"])


def test_without_amounts_quality_alone_is_judged() -> None:
    outcomes, attempts = two_versions(60, (40, 40), (1.0, 0.5))
    row = sc.skillverdicts.compare(outcomes, attempts.drop(columns="cost_usd")).iloc[0]
    assert row["verdict"] == "as good" and np.isnan(row["saved"])
    assert "cost_usd is not recorded" in row["note"]
    assert row["saved_seconds"] == pytest.approx(5, abs=0.1)
    bare = attempts["case_id"].eq("tea/1") & attempts["condition"].eq("skill")
    gaps = attempts.assign(cost_usd=attempts["cost_usd"].mask(bare))
    note = sc.skillverdicts.compare(outcomes, gaps)["note"].item()
    assert "attempts without cost_usd: 1 of 60 under skill, 0 of 60 under previous" in note
    with pytest.raises(FrameError, match=r"skillverdicts.compare: .*more than one agent"):
        two = attempts.assign(agent=["a", "b"] * 60)
        sc.skillverdicts.compare(outcomes.assign(agent=None), two)
    same = attempts.assign(input_tokens=100, output_tokens=7)
    saved = sc.skillverdicts.compare(outcomes, same)["saved_tokens"].item()
    assert saved == 0 and not np.signbit(saved)


def test_many_missing_attempts_leave_the_verdict_open() -> None:
    outcomes, attempts = two_versions(60, (40, 40), (1.0, 0.5))
    lost = outcomes["condition"].eq("skill") & outcomes["case_id"].str.fullmatch("tea/[1-9]")
    outcomes.loc[lost, "passed"] = pd.NA
    row = sc.skillverdicts.compare(outcomes, attempts).iloc[0]
    assert row["verdict"] == "not shown" and row["overturned"] and row["n_missing"] == 9
    assert "too many attempts are missing" in row["note"]
    how: Any = {"assume_missing": "at random"}
    assert sc.skillverdicts.compare(outcomes, attempts, **how)["verdict"].item() == TYPICAL


def test_what_cannot_be_compared_is_refused_with_a_remedy() -> None:
    outcomes, attempts = two_versions(20, (10, 10), (1.0, 0.5))
    compare: Any = sc.skillverdicts.compare
    with pytest.raises(FrameError, match=r"condition: .*'skil'.*Did you mean 'skill'"):
        compare(outcomes, attempts, condition="skil")
    with pytest.raises(FrameError, match="condition and reference are both 'skill'"):
        compare(outcomes, attempts, reference="skill")
    with pytest.raises(FrameError, match=r"'cost'.*Did you mean 'cost_usd'"):
        compare(outcomes, attempts, amount="cost")
    assert compare(outcomes[:0], attempts).empty
    with pytest.raises(FrameError, match="no attempt of these outcomes"):
        compare(outcomes, attempts.assign(skill="milk"))
    second = {"agent": "b", "attempt_id": "b" + attempts["attempt_id"]}
    agents = [pd.concat([part, part.assign(**second)]) for part in (outcomes, attempts)]
    with pytest.raises(FrameError, match=r"skillverdicts.compare: .*more than one agent.*average="):
        compare(*agents)
    assert compare(*agents, by=["skill", "agent"])["n"].tolist() == [20, 20]
    assert compare(*agents, average=["agent"])["n"].tolist() == [20]


@pytest.mark.slow
def test_rare_loops_seldom_pass_as_cheaper() -> None:
    # The new version costs 0.6 in a typical answer, and 60 in a loop, which comes in 1.6 % of
    # answers: 0.984 * 0.6 + 0.016 * 60 = 1.55, so the true cost rises by 55 %.
    rng, n_studies = np.random.default_rng(1), 150
    studies = []
    for name in range(n_studies):  # each study as a skill, because one call is faster
        price = np.where(rng.random(30) < 0.016, 60.0, 0.6) * rng.lognormal(0, 0.2, 30)
        old = rng.lognormal(0, 0.2, 30)
        studies.append(two_versions(30, (30, 30), (old, price), str(name)))
    outcomes, attempts = joined(studies)
    free = sc.skillverdicts.compare(outcomes, attempts, margin=0.2)
    bounded = sc.skillverdicts.compare(outcomes, attempts, margin=0.2, limit=200.0)
    assert len(free) == len(bounded) == n_studies
    assert (free["ratio_high"] < 1).mean() > 0.75  # the geometric means alone
    # without a loop in the sample
    assert free["verdict"].eq(TYPICAL).mean() == pytest.approx(0.984**30, abs=0.1)
    assert bounded["verdict"].eq(CHEAP).mean() <= 0.03
