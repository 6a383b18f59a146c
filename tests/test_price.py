"""The price of a pass, and Fieller's interval of a ratio of two means."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from oracles import amounts
from scipy.stats import ttest_1samp

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.stats import cr2_mean
from skillcomp.stats.clusters_and_amounts import amount_change, log_ratio, ratio_of_means

SKILL = [2, 2, 1, 2, 2, 2, 1, 0, 2, 2]
BASELINE = [0, 1, 0, 0, 1, 1, 0, 0, 0, 1]


def study(skill: list[int] = SKILL, baseline: list[int] = BASELINE) -> pd.DataFrame:
    """Passes of two attempts per case, with amounts; both frames in one table."""
    rows = [
        {
            "attempt_id": f"{case}/{condition}/{repeat}",
            "skill": "s",
            "case_id": f"s/{case}",
            "condition": condition,
            "repeat": repeat + 1,
            "agent": "ada",
            "grader": "g",
            "status": "ok",
            "passed": repeat < n,
            "cost_usd": scale * (1 + (case * 7 + repeat * 3) % 5) / 100,
            "seconds": 30.0 * scale,
            "input_tokens": 100 * scale,
            "output_tokens": 10 + case,
        }
        for condition, passes, scale in (("baseline", baseline, 2), ("skill", skill, 3))
        for case, n in enumerate(passes)
        for repeat in range(2)
    ]
    return pd.DataFrame(rows)


def frames_of(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    amounts = ["status", "cost_usd", "seconds", "input_tokens", "output_tokens"]
    keys = ["attempt_id", "skill", "case_id", "condition", "repeat", "agent"]
    return table[[*keys, "grader", "passed"]], table[[*keys, *amounts]]


@pytest.mark.parametrize("clusters", [None, [0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]])
def test_the_limits_of_a_ratio_are_the_ratios_that_a_t_test_just_rejects(clusters) -> None:
    rng = np.random.default_rng(1)
    bottom = rng.normal(2.0, 1.0, 12)
    top = 3.0 * bottom + rng.normal(0.0, 1.0, 12)
    ratio = ratio_of_means(top, bottom, clusters)
    assert ratio.estimate == pytest.approx(top.mean() / bottom.mean())
    for limit in (ratio.low, ratio.high):
        if clusters is None:
            assert ttest_1samp(top - limit * bottom, 0.0).pvalue == pytest.approx(0.05)
        assert cr2_mean(top - limit * bottom, clusters).p_value == pytest.approx(0.05)
    # the unit of the numerator does not matter
    cents = ratio_of_means(100 * top, bottom, clusters)
    assert cents.high == pytest.approx(100 * ratio.high)


def drawn_amounts(n: int) -> Iterator[tuple[list[float], list[float]]]:
    """Pairs of skewed amounts, more or less alike within the case."""
    rng = np.random.default_rng(4)
    for _ in range(n):
        size = int(rng.integers(3, 30))
        new = np.exp(rng.normal(0.0, 1.0, size))
        yield new.tolist(), (np.exp(rng.normal(0.0, 0.8, size)) * new ** rng.random()).tolist()


def test_amounts_follow_the_plain_form_of_their_rule() -> None:
    for new, old in drawn_amounts(60):
        change, ratio = amount_change(new, old), ratio_of_means(new, old)
        expected = amounts.amount_change(new, old)
        assert [change.estimate, change.low, change.high] == pytest.approx(expected)
        expected = amounts.total_ratio(new, old)
        assert [ratio.estimate, ratio.low, ratio.high] == pytest.approx(expected, nan_ok=True)


def test_the_change_of_an_amount_has_the_p_value_of_its_interval_and_any_unit() -> None:
    for new, old in drawn_amounts(60):
        change, back = amount_change(new, old), amount_change(old, new)
        assert [back.low, back.high] == pytest.approx([-change.high, -change.low])
        cents = amount_change(np.multiply(new, 100), np.multiply(old, 100))
        assert [cents.low, cents.high] == pytest.approx([100 * change.low, 100 * change.high])
        assert cents.p_value == pytest.approx(change.p_value, rel=1e-3, abs=1e-9)
        if 1e-6 < change.p_value < 1.0:
            at = amount_change(new, old, ci_level=1.0 - change.p_value)
            nearest = min(abs(at.low), abs(at.high))
            assert nearest == pytest.approx(0.0, abs=1e-3 * max(abs(change.estimate), 1.0))
        assert (change.p_value < 0.05) == (change.low > 0 or change.high < 0)


def test_cases_of_a_cluster_count_by_their_total_and_a_zero_leaves_t() -> None:
    new, old = [2.0, 3.0, 9.0, 4.0], [1.0, 1.0, 2.0, 1.0]
    single = amount_change(new, old)
    # four clusters with two equal cases each: the same totals, twice
    twice = amount_change(np.repeat(new, 2), np.repeat(old, 2), np.repeat(list("abcd"), 2))
    assert [twice.estimate, twice.low] == pytest.approx([single.estimate, single.low])
    free = amount_change([0.0, *new], [1.0, *old])
    plain = cr2_mean(np.subtract([0.0, *new], [1.0, *old]))
    limits = (plain.low, plain.high, plain.p_value)
    assert (free.low, free.high, free.p_value) == pytest.approx(limits)
    assert "an amount of 0 has no logarithm: t alone" in free.note
    assert np.isnan(amount_change([1.0], [2.0]).low)


def test_amounts_of_zero_are_named_and_infinite_ones_are_refused() -> None:
    frame = pd.DataFrame({
        "attempt_id": [str(k) for k in range(12)], "skill": "s", "status": "ok",
        "case_id": [f"s/{k}" for k in range(6)] * 2,
        "condition": ["baseline"] * 6 + ["skill"] * 6,
        "cost_usd": [1.0, 2.0, 1.5, 0.0, 3.0, 1.0, 2.0, 5.0, 3.0, 4.0, 0.0, 0.0],
    })  # fmt: skip
    rows = sc.deltas.paired(frame, value="cost_usd").set_index("measure")
    assert (
        "amounts of 0 (unbilled?): 2 of 6 under skill, 1 of 6 under baseline"
        in (rows.loc["total_ratio_cost_usd", "note"])
    )
    assert rows.loc["total_ratio_cost_usd", "estimate"] == pytest.approx(14 / 8.5)
    assert rows.loc["total_ratio_cost_usd", "unit"] == "ratio"
    # a command or a word is not billed
    counted = frame.assign(n_commands=frame["cost_usd"].round())
    counts = sc.deltas.paired(counted, value="n_commands")
    assert "amounts of 0: 2 of 6 under skill" in counts["note"][0]
    frame.loc[0, "cost_usd"] = np.inf
    with pytest.raises(FrameError, match="cost_usd"):
        sc.deltas.paired(frame, value="cost_usd")
    with pytest.raises(FrameError, match="infinite"):
        sc.deltas.price(frame.assign(passed=True), frame)


def test_a_ratio_without_any_positive_pair_has_its_reason() -> None:
    frame = pd.DataFrame({
        "attempt_id": [str(k) for k in range(6)], "skill": "s", "status": "ok",
        "case_id": [f"s/{k}" for k in range(3)] * 2,
        "condition": ["baseline"] * 3 + ["skill"] * 3,
        "cost_usd": [1.0, 2.0, 4.0, 0.0, 0.0, 0.0],
    })  # fmt: skip
    notes = sc.deltas.paired(frame, value="cost_usd").set_index("measure")["note"]
    assert "3 cases with an amount of 0: no ratio" in notes["ratio_cost_usd"]
    nobody = frame.assign(cost_usd=frame["cost_usd"].where(frame["condition"].eq("skill")))
    notes = sc.deltas.paired(nobody, value="cost_usd").set_index("measure")["note"]
    assert notes["ratio_cost_usd"].startswith("no case has an amount in both conditions")


@pytest.mark.parametrize("rule", [amount_change, log_ratio, ratio_of_means])
def test_an_infinite_amount_is_not_a_missing_one(rule) -> None:
    kept = rule([1.0, 2.0, 3.0, np.nan], [1.0, 1.0, 2.0, 2.0])
    assert kept.n == 3 and "1 missing value left out" in kept.note
    with pytest.raises(ValueError, match="found 1 infinite amount; allowed: numbers, or NaN"):
        rule([1.0, 2.0, 3.0, np.inf], [1.0, 1.0, 2.0, 2.0])


def test_a_price_names_amounts_of_zero_and_refuses_infinite_ones() -> None:
    table = study()
    table.loc[[0, 2, 25], "cost_usd"] = 0.0
    rows = sc.deltas.price(*frames_of(table)).set_index(["measure", "condition"])["note"]
    assert "amounts of 0 (unbilled?): 2 of 20" in rows[("cost_usd_per_pass", "baseline")]
    assert "amounts of 0 (unbilled?): 1 of 20" in rows[("cost_usd_per_pass", "skill")]
    added = rows[("cost_usd_per_added_pass", "skill")]
    assert "amounts of 0 (unbilled?): 1 of 20 under skill, 2 of 20 under baseline" in added
    assert not rows["tokens_per_pass"].str.contains("unbilled").any()
    table["seconds"] = table["seconds"].where(table.index != 7, np.inf)
    with pytest.raises(FrameError, match=r"seconds: found an infinite amount in 1 attempt"):
        sc.deltas.price(*frames_of(table))


def test_the_p_value_of_a_ratio_of_totals_is_that_of_its_interval() -> None:
    for new, old in [*drawn_amounts(12), ([1.0, 2.0, 9.0], [0.1, 0.1, 30.0])]:
        n = len(new)
        frame = pd.DataFrame({
            "attempt_id": [str(k) for k in range(2 * n)], "skill": "s", "status": "ok",
            "case_id": [f"s/{k}" for k in range(n)] * 2,
            "condition": ["baseline"] * n + ["skill"] * n, "cost_usd": [*old, *new],
        })  # fmt: skip
        rows = sc.deltas.paired(frame, value="cost_usd").set_index("measure")
        total = rows.loc["total_ratio_cost_usd"]
        if np.isnan(total["ci_low"]):
            assert np.isnan(total["p_value"]) and "the ratio has no limits" in total["note"]
        else:
            excluded = total["ci_low"] > 1 or total["ci_high"] < 1
            assert (total["p_value"] < 0.05) == excluded
        back = frame.assign(
            condition=frame["condition"].map({"baseline": "skill", "skill": "baseline"})
        )
        swapped = sc.deltas.paired(back, value="cost_usd").set_index("measure")
        estimate = swapped.loc["total_ratio_cost_usd", "estimate"]
        assert estimate == pytest.approx(1 / total["estimate"])
    assert np.isnan(total["ci_low"])


def test_a_ratio_without_limits_says_why() -> None:
    unbounded = ratio_of_means([1.0, 2.0, 3.0], [1.0, -1.0, 0.3])
    assert np.isnan(unbounded.low) and "includes 0: the ratio has no limits" in unbounded.note
    assert "collapsed" in ratio_of_means([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]).note
    assert "one cluster" in ratio_of_means([1.0, 2.0], [2.0, 1.0], [0, 0]).note
    assert np.isnan(ratio_of_means([1.0, 2.0], [1.0, -1.0]).estimate)
    gap = ratio_of_means([1.0, 2.0, np.nan, 4.0], [1.0, 3.0, 2.0, 2.0])
    assert gap.n == 3 and "1 missing value left out" in gap.note


def test_fieller_covers_the_price_that_the_delta_method_misses() -> None:
    # 14 cases with 3 attempts; the skill costs 40 % more and passes 25 points more often
    rng = np.random.default_rng(2)
    hard = rng.beta(1.1, 1.5, (1000, 14))
    gain = rng.binomial(3, np.clip(hard + 0.3, 0, 1)) / 3 - rng.binomial(3, hard) / 3
    cost = rng.lognormal(0.0, 0.5, gain.shape)
    more = cost * (1.4 * rng.lognormal(0.0, 0.3, gain.shape) - 1.0)
    many = rng.beta(1.1, 1.5, 1_000_000)
    price = np.exp(0.125) * (1.4 * np.exp(0.045) - 1) / (np.clip(many + 0.3, 0, 1) - many).mean()
    ratios = [ratio_of_means(*study) for study in zip(more, gain, strict=True)]
    ratios = [ratio for ratio in ratios if np.isfinite(ratio.low)]
    covered = np.mean([ratio.low <= price <= ratio.high for ratio in ratios])
    assert len(ratios) > 700 and covered == pytest.approx(0.95, abs=0.02)
    plain = np.mean([abs(ratio.estimate - price) <= 2.16 * ratio.se for ratio in ratios])
    assert plain < 0.92


def test_a_price_is_the_total_amount_over_the_passes_and_the_change_over_the_change() -> None:
    table = study()
    outcomes, attempts = frames_of(table)
    rows = sc.deltas.price(outcomes, attempts).set_index(["condition", "measure"])
    spent = table.assign(tokens=table["input_tokens"] + table["output_tokens"])
    spent = spent.assign(minutes=spent["seconds"] / 60).groupby("condition")
    passes = spent["passed"].sum()
    for amount, unit in (("cost_usd", "dollars"), ("tokens", "tokens"), ("minutes", "minutes")):
        total = spent[amount].sum()
        for condition in ("baseline", "skill"):
            row = rows.loc[(condition, f"{amount}_per_pass")]
            assert row["estimate"] == pytest.approx(total[condition] / passes[condition])
            assert row["unit"] == unit and row["n"] == 10 and row["n_attempts"] == 20
        added = rows.loc[("skill", f"{amount}_per_added_pass")]
        more = (total["skill"] - total["baseline"]) / (passes["skill"] - passes["baseline"])
        assert added["estimate"] == pytest.approx(more)
        assert added["ci_low"] < added["estimate"] < added["ci_high"]
    added = rows.loc[("skill", "cost_usd_per_added_pass")]
    assert added["reference"] == "baseline" and added["rate"] == pytest.approx((16 - 4) / 20)
    by_case = spent_by_case(table)
    assert added["ci_high"] == pytest.approx(ratio_of_means(*by_case).high)


def spent_by_case(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the change of the cost and of the pass rate of each case."""
    wide = table.pivot_table(index="case_id", columns="condition", values=["cost_usd", "passed"])
    cost, passed = (wide[name]["skill"] - wide[name]["baseline"] for name in ("cost_usd", "passed"))
    return cost, passed


def test_without_a_shown_gain_an_additional_pass_has_no_price() -> None:
    for skill, note in (
        ([1, 1, 0, 0, 1, 1, 0, 1, 0, 1], "includes 0, +0.10"),
        (BASELINE, "includes 0, +0.00"),
    ):
        rows = sc.deltas.price(*frames_of(study(skill))).set_index(["condition", "measure"])
        added = rows.loc[("skill", "cost_usd_per_added_pass")]
        assert added[["estimate", "ci_low", "ci_high"]].isna().all() and note in added["note"]
        assert np.isfinite(rows.loc[("skill", "cost_usd_per_pass"), "estimate"])
    table = study(skill=[0] * 10, baseline=[2] * 9 + [1])
    rows = sc.deltas.price(*frames_of(table)).set_index(["condition", "measure"])
    assert "the pass rate falls" in rows.loc[("skill", "tokens_per_added_pass"), "note"]
    nothing = rows.loc[("skill", "cost_usd_per_pass")]
    assert np.isnan(nothing["estimate"]) and nothing["note"] == "no attempt passed"
    assert nothing["amount"] > 0
    same = sc.deltas.price(*frames_of(study(skill=[2] * 10, baseline=[0] * 10)))
    assert "the interval takes their rate as exact" in same.iloc[3]["note"]


def test_missing_outcomes_and_amounts_are_left_out_counted_and_noted() -> None:
    table = pd.concat([study(), study().assign(case_id=lambda f: f["case_id"] + "b")])
    table["attempt_id"] = table["attempt_id"].where(~table["case_id"].str.endswith("b"), "b") + [
        str(n) for n in range(len(table))
    ]
    lost = table["case_id"].eq("s/1") & table["condition"].eq("skill") & table["repeat"].eq(1)
    bare = table["case_id"].eq("s/2") & table["repeat"].eq(1)
    table["passed"] = table["passed"].astype("boolean").mask(lost)
    table = table.assign(cost_usd=table["cost_usd"].mask(bare), seconds=np.nan)
    rows = sc.deltas.price(*frames_of(table)).set_index(["condition", "measure"])
    row = rows.loc[("skill", "cost_usd_per_added_pass")]
    assert row[["n", "n_dropped", "n_missing", "n_missing_reference"]].to_list() == [20, 0, 2, 1]
    assert "attempts missing: 1 of 40 under skill" in row["note"]
    assert "attempts without cost_usd: 1 of 39 under skill, 1 of 40" in row["note"]
    # the pass rate and the amount are those of the same attempts
    used = table[~lost & ~bare]
    means = used.groupby(["condition", "case_id"])[["cost_usd", "passed"]].mean().astype(float)
    means = means.groupby("condition").mean()
    for condition, (cost, rate) in means.iterrows():
        price = rows.loc[(condition, "cost_usd_per_pass")]
        assert price["estimate"] == pytest.approx(cost / rate)
    minutes = rows.loc[("skill", "minutes_per_pass")]
    assert np.isnan(minutes["estimate"]) and "no case has minutes" in minutes["note"]


def test_a_price_is_unknown_if_failed_answers_have_no_cost() -> None:
    table = study()
    table["cost_usd"] = table["cost_usd"].where(table["passed"])
    rows = sc.deltas.price(*frames_of(table)).set_index(["condition", "measure"])
    for condition, n, size in (("baseline", 16, 20), ("skill", 4, 20)):
        row = rows.loc[(condition, "cost_usd_per_pass")]
        assert row[["estimate", "ci_low", "ci_high"]].isna().all()
        assert row[["n_missing", "n_attempts"]].to_list() == [n, size]
        assert f"attempts without cost_usd: {n} of {size}" in row["note"]
    added = rows.loc[("skill", "cost_usd_per_added_pass")]
    assert np.isnan(added["estimate"]) and "may be the failed ones: no price" in added["note"]
    assert np.isfinite(rows.loc[("skill", "tokens_per_pass"), "estimate"])


def test_attempts_of_other_agents_or_answers_are_refused_with_a_remedy() -> None:
    outcomes, attempts = frames_of(study())
    with pytest.raises(FrameError, match=r"no attempt of these outcomes \(equal attempt_id"):
        sc.deltas.price(outcomes.assign(attempt_id=range(40)), attempts)
    other, bare = attempts.assign(agent="bo"), outcomes.drop(columns="attempt_id")
    pd.testing.assert_frame_equal(
        sc.deltas.price(bare, attempts), sc.deltas.price(outcomes, attempts)
    )
    with pytest.raises(FrameError, match=r"Add attempt_id to the outcomes"):
        sc.deltas.price(bare.drop(columns="repeat"), attempts.drop(columns="repeat"))
    message = "attempts: no attempt of these outcomes .*agent.*Pass the attempts from which"
    for rows in (outcomes, bare):
        with pytest.raises(FrameError, match=f"deltas.price: {message}"):
            sc.deltas.price(rows, other)
        with pytest.raises(FrameError, match=f"skillverdicts.compare: {message}"):
            sc.skillverdicts.compare(rows, other, reference="baseline")


def test_strangers_tables_are_refused_or_read_with_a_remedy() -> None:
    outcomes, attempts = frames_of(study())
    two = pd.concat([outcomes, outcomes.assign(grader="h")])
    by_grader = sc.deltas.price(two, attempts, by=["grader"])
    assert by_grader.groupby("measure")["estimate"].nunique().max() <= 2
    for frame, costs, how, message in (
        (two, attempts, {}, "more than one grader: g, h"),
        (outcomes, pd.concat([attempts, attempts]), {}, "attempt_id"),
        (outcomes, attempts, {"reference": "base"}, "no condition 'base'"),
        (outcomes.assign(checks_differ=True, note=""), attempts, {}, "different checks"),
    ):
        with pytest.raises(FrameError, match=message):
            sc.deltas.price(frame, costs, **how)
    agents = pd.concat([study(), study().assign(agent="bo").assign(attempt_id=range(40))])
    with pytest.raises(FrameError, match="more than one agent"):
        sc.deltas.price(*frames_of(agents))
    assert len(sc.deltas.price(*frames_of(agents), by=["agent"])) == 18
    empty = sc.deltas.price(outcomes.head(0), attempts.head(0))
    assert empty.empty and list(empty.columns) == list(by_grader.columns.drop("grader"))


def test_a_page_shows_the_skills_by_agent_and_what_a_pass_costs(tmp_path) -> None:
    table = pd.concat(
        [study().assign(agent="ada <b>"), study(skill=BASELINE).assign(agent="bob")]
    ).drop(columns=["attempt_id", "status"])
    columns = {"skill": "skill", "case": "case_id", "passed": "passed", "repeat": "repeat"}
    same = ("agent", "condition", "cost_usd", "seconds")
    study_frames = sc.from_frame(table, **columns, **dict(zip(same, same, strict=True)))
    page = sc.report.build(study_frames, tmp_path, notebooks=[], progress=False)
    text = re.sub(r"(?s)<(svg|style|script).*?</\1>|<[^>]+>", " ", page.read_text("utf-8"))
    words = " ".join(text.split())
    assert "Skill by agent: change in points ada &lt;b&gt; bob s ▲ +60 ? 0" in words, words
    heads = "Dollars an attempt Dollars a pass Dollars a further pass Seconds an attempt Seconds a"
    assert f"What a pass costs Agent Condition {heads} pass Seconds a further pass" in words, words
    assert "ada &lt;b&gt; baseline 0.0" in words and " n/a 60 300 n/a " in words, words
