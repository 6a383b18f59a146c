from collections.abc import Iterator
from itertools import product
from typing import Any

import build
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.item_changes import change_over_items
from statsmodels.stats.contingency_tables import cochrans_q

import skillcomp as sc
from skillcomp.contrast import changes_over_items
from skillcomp.errors import FrameError
from skillcomp.reliability import drift, flipped
from skillcomp.stats.significance_and_grader_errors import clustered_cochran, clustered_midp

Versions = dict[str, list[bool | None]]


def graded(versions: Versions, *, checks: int = 1, **columns: object) -> pd.DataFrame:
    parts = [
        build.verdicts(passed, checks=checks, grader=grader, rationale=f"said by {grader}")
        for grader, passed in versions.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(
        **{"grader_version": "1", "round": 1, "status": "ok", **columns}
    )


def labels(passed: list[bool], *, checks: int = 1) -> pd.DataFrame:
    return build.gold(passed, checks=checks)


def changes(
    versions: pd.DataFrame | Versions, gold: pd.DataFrame | None = None, **how: object
) -> pd.DataFrame:
    """Drift by measure, old being the reference."""
    rows = graded(versions) if isinstance(versions, dict) else versions
    return drift(rows, gold, **{"reference_grader": "old", **how}).set_index("measure")


# 40 items: gold passes 20, fails 20. The old version is right on all passes and on 8 fails;
# the new one loses 2 of the passes and fails 9 more of the fails, and passes one it failed.
GOLD = [True] * 20 + [False] * 20
OLD: list[bool | None] = [True] * 20 + [True] * 12 + [False] * 8
NEW: list[bool | None] = [True] * 18 + [False] * 2 + [True] * 3 + [False] * 9 + [True] + [False] * 7
ROWS, LABELS = graded({"old": OLD, "new": NEW}), build.gold(GOLD)


def test_a_reference_is_named_by_the_label_that_messages_print() -> None:
    by_label = drift(ROWS, LABELS, reference_grader="old 1")
    pd.testing.assert_frame_equal(by_label, drift(ROWS, LABELS, reference_grader="old"))


def test_changes_are_counted_among_gold_passes_and_gold_fails() -> None:
    found = changes(ROWS, LABELS)
    assert set(found["grader"]) == {"new"} and set(found["reference"]) == {"old"}
    assert found.loc["pass_rate_change", "estimate"] == pytest.approx((22 - 32) / 40)
    one = found.loc["sensitivity_change"]
    assert (one["estimate"], one["n_gained"], one["n_lost"]) == (pytest.approx(-2 / 20), 0, 2)
    assert (one["rate"], one["reference_rate"]) == (pytest.approx(0.9), pytest.approx(1.0))
    two = found.loc["specificity_change"]
    assert (two["estimate"], two["n_gained"], two["n_lost"]) == (pytest.approx(8 / 20), 1, 9)
    assert (two["rate"], two["reference_rate"]) == (pytest.approx(16 / 20), pytest.approx(8 / 20))


def test_the_change_in_agreement_with_gold_is_paired_and_comes_first() -> None:
    unlabelled = graded({"old": [True, None], "new": [False, True]})
    unlabelled["attempt_id"] += " without gold"
    found = changes(pd.concat([ROWS, unlabelled]), LABELS)
    assert found.index[0] == "agreement_change"
    # the old version is right on 20 + 8 items, the new one on 18 + 16
    row = found.loc["agreement_change"]
    assert row[["estimate", "rate", "reference_rate"]].tolist() == pytest.approx([0.15, 0.85, 0.7])
    assert (row["n"], row["n_gained"], row["n_lost"], row["unit"]) == (40, 9, 3, "points")
    # one item per case: mid-p of 3 against 9 alone, (2 (1 + 12 + 66) + 220) / 4096
    assert row["p_value"] == pytest.approx(378 / 4096)
    lacking = changes(graded({"old": [None, *OLD[1:]], "new": NEW}), LABELS)
    ends = lacking.loc["agreement_change", ["worst_low", "worst_high"]].tolist()
    assert ends == pytest.approx([0.15, 0.175])
    assert "agreement_change" not in changes(ROWS).index


def test_with_one_item_per_case_the_p_value_is_mid_p_mcnemar_s() -> None:
    # mid-p of 0 against 2: 2 * (1/4) - 1/4 = 1/4; of 1 against 9: 2 * 11/1024 - 10/1024
    for rule in ("adaptive", "bounded", "t"):
        rows = changes(ROWS, LABELS, interval=rule).loc[
            ["sensitivity_change", "specificity_change"]
        ]
        assert rows["p_value"].tolist() == pytest.approx([0.25, 12 / 1024])
        # each measure of this call has one row, so that nothing is adjusted
        assert rows["p_adjusted"].tolist() == rows["p_value"].tolist()
        assert rows["method"].str.contains("; p: mid-p McNemar").all()


def of_five_checks(verdicts: dict[str, list[bool | None]]) -> pd.Series:
    """The change in agreement where each case has five checks, all of which should pass."""
    n = len(next(iter(verdicts.values())))
    rows = graded(verdicts, checks=5)
    return changes(rows, labels([True] * n, checks=5)).loc["agreement_change"]


def test_errors_of_whole_cases_widen_the_interval_and_single_errors_do_not() -> None:
    right: list[bool | None] = [True] * 200
    # 40 cases of five checks: the old version errs on 20 items, in 20 cases or in four
    single: list[bool | None] = [k % 10 > 0 for k in range(200)]
    whole: list[bool | None] = [k % 50 >= 5 for k in range(200)]
    shown, clumped = (of_five_checks({"old": old, "new": right}) for old in (single, whole))
    assert shown["estimate"] == clumped["estimate"] == pytest.approx(0.1)
    assert shown["p_value"] < 0.03 and shown["ci_low"] > 0.01 and shown["shown"]
    assert clumped["p_value"] > 0.05 and clumped["ci_low"] < 0 and not clumped["shown"]
    assert "p: at least that of mid-p McNemar" in clumped["method"]


def tables(n: int) -> Iterator[pd.DataFrame]:
    """Random verdicts of two versions on cases with one to six items; few errors in some."""
    rng = np.random.default_rng(11)
    for _ in range(n):
        sizes = rng.integers(1, rng.integers(2, 7), rng.integers(2, 13))
        case = np.repeat([f"c{k}" for k in range(len(sizes))], sizes)
        chance = rng.choice([0.02, 0.2, 0.5, 0.9], 2)
        of_case = np.clip(chance + rng.choice([-0.5, 0.0, 0.5], (len(sizes), 2)), 0.0, 1.0)
        verdicts = rng.random((len(case), 2)) < np.repeat(of_case, sizes, axis=0)
        yield pd.DataFrame(verdicts.astype(float), columns=["new", "old"]).assign(cluster=case)


def numbers(interval: Any) -> list[float]:
    return [interval.estimate, interval.low, interval.high, interval.p_value]


def test_changes_over_items_follow_the_rule_for_random_tables() -> None:
    every = list(tables(200))
    found = changes_over_items(every, ci_level=0.95)
    for table, interval in zip(every, found, strict=True):
        expected = change_over_items(*(table[n].astype(int).tolist() for n in ("new", "old")),
                                     table["cluster"].tolist())  # fmt: skip
        np.testing.assert_allclose(numbers(interval), expected, rtol=0, atol=1e-9)
        assert interval.low < interval.high


def test_changes_of_scores_follow_the_rule_and_have_their_unit() -> None:
    every = [
        table.assign(**{name: (table[name] + rng.integers(0, 5, len(table))) / 5
                        for name in ("new", "old")})
        for rng, table in zip(np.random.default_rng(1).spawn(30), tables(30), strict=True)
    ]  # fmt: skip
    for table, interval in zip(every, changes_over_items(every, ci_level=0.95), strict=True):
        columns = (table[name].tolist() for name in ("new", "old", "cluster"))
        np.testing.assert_allclose(numbers(interval), change_over_items(*columns), atol=1e-9)
    table = every[0]
    n = len(table)
    rows = graded({"old": [True] * n, "new": [True] * n}).assign(passed=None)
    rows["case_id"] = np.tile("s/" + table["cluster"].astype(str), 2)
    rows["score"] = np.concatenate([1 + 9 * table[name] for name in ("old", "new")])
    rows.loc[0, "score"] = None
    row = changes(rows, value="score", bounds=(1, 10)).loc["score_change"]
    decided = table.iloc[1:]
    expected = 9 * change_over_items(*(decided[n].tolist() for n in ("new", "old", "cluster")))
    assert row[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(expected[:3].tolist())
    assert (row["unit"], row["n"], row["n_missing_reference"]) == ("score", n - 1, 1)
    assert row["reference_rate"] == pytest.approx(1 + 9 * decided["old"].mean())
    assert row["worst_high"] - row["worst_low"] == pytest.approx(9 / n)
    assert f"{row['worst_low']:+.2f} or {row['worst_high']:+.2f}" in row["note"]
    known = build.gold([True] * n).assign(score=5.5)
    found = changes(rows, known, value="score", bounds=(1, 10))
    errors = (9 * decided[["new", "old"]] - 4.5).abs().mean()
    assert found.index.tolist() == ["absolute_error_change", "score_change"]
    assert found["estimate"].iloc[0] == pytest.approx(errors["new"] - errors["old"])
    assert found["rate"].iloc[0] == pytest.approx(errors["new"])
    assert changes(rows)["note"].str.contains("value='score' with bounds= compares scores").all()
    with pytest.raises(FrameError, match="scores run from"):
        changes(rows, value="score", bounds=(1, 3))


def test_an_exchange_of_versions_turns_the_sign_and_the_order_of_items_does_not_matter() -> None:
    every = list(tables(40))
    plain = changes_over_items(every, ci_level=0.9)
    turned = changes_over_items(
        [t.rename(columns={"new": "old", "old": "new"}) for t in every], ci_level=0.9
    )
    mixed = changes_over_items([t.sample(frac=1, random_state=1) for t in every], ci_level=0.9)
    for one, other, same in zip(plain, turned, mixed, strict=True):
        a, low, high, p = numbers(one)
        assert numbers(other) == pytest.approx([-a, -high, -low, p], abs=1e-9)
        assert numbers(same) == pytest.approx([a, low, high, p], abs=1e-9)


def test_items_that_one_version_did_not_decide_change_no_number() -> None:
    old, new = ([k % n > 0 for k in range(60)] for n in (10, 4))
    lacking = {k for k in range(60) if k % 7 == 0}
    holes: Versions = {"old": old, "new": [None if k in lacking else v for k, v in enumerate(new)]}
    known = build.gold([k % 3 > 0 for k in range(60)], checks=5)
    found = changes(graded(holes, checks=5), known)
    rows = graded({"old": old, "new": new}, checks=5)
    without = rows[~rows.groupby("grader").cumcount().isin(lacking)]
    expected = changes(without, known)
    columns = ["estimate", "ci_low", "ci_high", "p_value", "n", "n_clusters", "n_gained", "n_lost"]
    pd.testing.assert_frame_equal(found[columns], expected[columns])
    assert (found.loc["agreement_change", ["n", "n_dropped"]] == [51, 9]).all()
    # the slow form knows only the 51 decided items
    both = pd.DataFrame(holes).assign(cluster=[f"c{k // 5}" for k in range(60)]).dropna()
    slow = change_over_items(*(both[n].astype(int).tolist() for n in ("new", "old")),
                             both["cluster"].tolist())  # fmt: skip
    row = found.loc["pass_rate_change", ["estimate", "ci_low", "ci_high", "p_value"]]
    assert row.tolist() == pytest.approx(slow.tolist(), abs=1e-9)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("verdict", [0.0, 1.0])
def test_verdicts_that_are_all_equal_show_no_change_and_exclude_none(
    verdict: float, size: int
) -> None:
    items = pd.DataFrame({"new": verdict, "old": verdict, "cluster": np.repeat(range(12), size)})
    (found,) = changes_over_items([items], ci_level=0.95)
    assert (found.estimate, found.p_value, found.n) == (0, 1, 12 * size)
    # 12 cases without a change say little about other cases, however many checks they have
    assert -0.5 < found.low < -0.05 and found.high == pytest.approx(-found.low)
    (one,) = changes_over_items([items.drop_duplicates("cluster")], ci_level=0.95)
    assert (found.low, found.high) == pytest.approx((one.low, one.high))


def test_the_specificity_of_the_pilot_differs_between_two_versions(pilot: sc.RunStore) -> None:
    rows, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    for cases, expected in (
        (sc.frames.cases(pilot), [62, -0.080, -0.149, -0.007, 0.035]),
        (None, [68, -0.080, -0.142, -0.022, 0.011]),
    ):
        found = drift(rows, gold, reference_grader="g2", cases=cases)
        found = found.set_index(["grader", "measure"]).loc[("g1", "specificity_change")]
        columns = ["n_clusters", "estimate", "ci_low", "ci_high", "p_value"]
        assert found[columns].astype(float).round(3).tolist() == expected
        assert found[["n", "n_gained", "n_lost", "shown"]].tolist() == [175, 14, 0, True]


@pytest.mark.parametrize("reference", [("old",), ("old", "1", "x"), 3, ("old", None)])
def test_a_reference_that_is_no_name_and_version_is_refused(reference: object) -> None:
    with pytest.raises(FrameError, match=r"reference_grader: found .*; allowed: the name"):
        drift(ROWS, reference_grader=reference)  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="allowed: the name of a grader"):
        flipped(ROWS, reference_grader=reference)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9))
def test_the_clustered_test_enumerates_the_signs_of_the_cases(flips: list[tuple[int, int]]) -> None:
    gained = np.concatenate([[1] * b + [0] * c for b, c in flips] or [[]])
    lost = np.concatenate([[0] * b + [1] * c for b, c in flips])
    case = np.repeat(np.arange(len(flips)), [b + c for b, c in flips])
    if not len(case):
        return
    sums = np.array([b - c for b, c in flips])
    observed = abs(sums.sum())
    every = np.array([abs((np.array(s) * sums).sum()) for s in product((1, -1), repeat=len(sums))])
    exact = (every > observed).mean() + 0.5 * (every == observed).mean()
    assert clustered_midp(gained, lost, case).p_value == pytest.approx(min(exact, 1.0))


def test_a_few_cases_with_many_checks_are_still_few() -> None:
    # three cases of ten checks: 6, 5 and 1 of them lost
    new: list[bool | None] = [k >= lost for lost in (6, 5, 1) for k in range(10)]
    rows = graded({"old": [True] * 30, "new": new}, checks=10)
    found = changes(rows).loc["pass_rate_change"]
    assert found["estimate"] == pytest.approx(-0.4)
    # ten checks a case are no ten cases: mid-p of three changes with one sign is 1/8
    assert found["ci_low"] < -0.75 and found["ci_high"] > 0.15
    assert found["p_value"] > 1 / 8
    assert "only 3.0 effective clusters: read with care" in found["note"]


def test_swapping_the_reference_turns_the_sign_of_every_change() -> None:
    rows = graded({"old": OLD, "new": NEW}, checks=2)
    there = changes(rows, labels(GOLD, checks=2))
    back = changes(rows, labels(GOLD, checks=2), reference_grader="new")
    np.testing.assert_allclose(there["estimate"], -back["estimate"])
    np.testing.assert_allclose(there["ci_low"], -back["ci_high"])
    np.testing.assert_allclose(there["p_value"], back["p_value"])


def test_without_gold_the_changes_given_gold_are_nan_with_a_note() -> None:
    found = changes(ROWS)
    assert found.loc["specificity_change", "note"] == "no gold given"
    assert np.isnan(found.loc["specificity_change", "estimate"])
    assert np.isfinite(found.loc["pass_rate_change", "estimate"])
    passes = changes(ROWS, LABELS[:20])
    assert passes.loc["specificity_change", "note"] == "no such gold label among these items"
    assert np.isnan(passes.loc["specificity_change", "p_adjusted"])


def test_versions_of_one_grader_are_told_apart_by_name_and_version() -> None:
    old, new = graded({"g": OLD}), graded({"g": NEW}, grader_version="2")
    rows = pd.concat([old, new], ignore_index=True)
    with pytest.raises(FrameError, match=r"grader 'g' has several versions: 1, 2\. Give name and"):
        drift(rows, LABELS, reference_grader="g")
    found = changes(rows, LABELS, reference_grader=("g", "1"))
    assert set(found["grader_version"]) == {"2"}
    assert set(found["reference_version"]) == {"1"}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"reference_grader": None},
            r"is missing; there: old 1, new 1\. .*reference_grader='old 1'",
        ),
        ({"reference_grader": "odl"}, r"no grader 'odl'; there: old 1, new 1\. Did you mean"),
        ({"by": ["grader"]}, "by= names 'grader', which is compared"),
        ({"exclude_checks": "verbatm"}, "exclude_checks 'verbatm' is in no check id"),
        ({"exclude_checks": "c0"}, "exclude_checks leaves out every check: nothing to compare"),
        ({"ci_level": 95}, r"ci_level: found 95; .* Did you mean 0.95"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(how: dict, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        changes(ROWS, **how)


def test_what_cannot_be_compared_is_refused_with_the_reason() -> None:
    for rows, message in (
        (graded({"old": OLD}), "'old' is the only grader there: nothing to compare"),
        (
            pd.concat([ROWS, graded({"old": OLD}, round=2)]),
            "more than one round: 1, 2. Add 'round' to by=, or select one",
        ),
        (ROWS.head(0), "the verdicts frame has no rows"),
    ):
        with pytest.raises(FrameError, match=message):
            changes(rows)


def test_three_versions_get_cochrans_q_beside_the_pairs() -> None:
    third: list[bool | None] = [True] * 30 + [False] * 10
    found = drift(graded({"a": OLD, "b": NEW, "c": third}), LABELS, reference_grader="a")
    row = found[found["measure"].eq("cochran_q")].iloc[0]
    table = np.column_stack([OLD, NEW, third]).astype(float)
    plain = cochrans_q(table)
    assert row["estimate"] == pytest.approx(plain.statistic)
    # one item a case: exchanging versions within cases is the permutation form of the same test
    assert row["p_value"] == pytest.approx(plain.pvalue, abs=0.01)
    assert pd.isna(row["grader"]) and "versions of a, b, c" in row["note"]
    assert set(found["grader"].dropna()) == {"b", "c"}


def test_cochrans_q_by_case_does_not_believe_many_checks_of_few_cases() -> None:
    one = np.repeat([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 1, 0]], 10, axis=0)
    case = np.repeat(np.arange(6), 10)
    by_case, plain = clustered_cochran(one, case, n_resamples=999, seed=0), cochrans_q(one)
    assert plain.pvalue < 1e-4
    assert by_case.p_value > 0.02
    assert by_case.statistic == pytest.approx(plain.statistic)
    same = clustered_cochran(np.ones((4, 3)), list("abcd"), n_resamples=9, seed=0)
    assert same.p_value == 1.0 and "agree on every item" in same.note


def test_which_verdicts_flipped_is_one_call_away_and_adds_up() -> None:
    items = flipped(ROWS, LABELS, reference_grader="old")
    assert items["direction"].value_counts().to_dict() == {"to FAIL": 11, "to PASS": 1}
    assert set(items["rationale"]) == {"said by new"}
    assert set(items["old_rationale"]) == {"said by old"}
    by_gold = items.groupby("gold")["direction"].value_counts().to_dict()
    assert by_gold == {(False, "to FAIL"): 9, (False, "to PASS"): 1, (True, "to FAIL"): 2}
    none = flipped(graded({"old": OLD, "new": OLD}), reference_grader="old")
    assert none.empty and "direction" in none.columns


def test_the_pilot_graders_became_stricter_on_gold_fails_only(pilot: sc.RunStore) -> None:
    rows, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    every, plain = (
        drift(rows, gold, reference_grader="g0", **how).set_index(["grader", "measure"])
        for how in ({}, {"exclude_checks": "verbatim"})
    )
    for found in (every, plain):
        for grader in ("g1", "g2"):
            assert found.loc[(grader, "specificity_change"), "ci_low"] > 0.06
            assert found.loc[(grader, "specificity_change"), "p_adjusted"] < 0.01
            assert abs(found.loc[(grader, "sensitivity_change"), "estimate"]) < 0.01
            assert found.loc[(grader, "severity_shift"), "ci_low"] > 1
    assert every.loc[("g2", "specificity_change"), "estimate"] == pytest.approx(44 / 175)
    assert plain.loc[("g2", "specificity_change"), "estimate"] == pytest.approx(42 / 172)


def of_two_agents(second: list[bool | None]) -> pd.DataFrame:
    """The old version passes all; the new one fails 6 of 40 of one agent, then `second`."""
    first: list[bool | None] = [False] * 6 + [True] * 34
    parts = [graded({"old": [True] * 40, "new": first}).assign(agent="a")]
    parts += [graded({"old": [False] * 40, "new": second}).assign(agent="b")]
    for part in parts:
        part["attempt_id"] += part["agent"]
    return pd.concat(parts, ignore_index=True)


def test_agents_are_refused_have_rows_of_their_own_or_are_averaged_on_request() -> None:
    rows = of_two_agents([True] * 9 + [False] * 31)
    with pytest.raises(FrameError, match=r"more than one agent: a, b\. Add 'agent' to by=.*aver"):
        changes(rows)
    own = changes(rows, by=["agent"]).loc["pass_rate_change"]
    assert own.set_index("agent")["estimate"].to_dict() == pytest.approx({"a": -0.15, "b": 0.225})
    both = changes(rows, average=["agent"]).loc["pass_rate_change"]
    assert (both["estimate"], both["n_clusters"]) == (pytest.approx(3 / 80), 40)
    assert "2 agents together: every check has the same weight" in both["note"]
    assert len(flipped(rows, reference_grader="old")) == 15
    for name, why in (("grader", "graders are not averaged"), ("case_id", "it names the cases")):
        with pytest.raises(FrameError, match=f"average= names '{name}', but {why}"):
            changes(rows, average=["agent", name])
    with pytest.raises(FrameError, match="there is no column 'angent'"):
        changes(rows, average=["angent"])


def test_missing_verdicts_are_counted_with_reasons_and_bound_the_change() -> None:
    # of 20 items new leaves 4 undecided and old 2 others; one is not graded by old
    old: list[bool | None] = [True] * 10 + [False] * 8 + [None] * 2
    new: list[bool | None] = [None] * 4 + [True] * 8 + [False] * 8
    rows = graded({"old": old, "new": new})
    lost = ["error", "error", "malformed", "refused", "error", "error"]
    rows.loc[rows["passed"].isna(), "status"] = lost
    rows = rows[~(rows["grader"].eq("old") & rows["case_id"].eq("s/17"))]
    found = changes(rows, labels([True] * 12 + [False] * 8))
    row = found.loc["pass_rate_change"]
    # decided by both: 6 of 10 passes kept, 2 of 7 fails passed by new: (8 - 6) / 13
    assert (row["estimate"], row["n"]) == (pytest.approx(2 / 13), 13)
    assert row[["n_missing", "n_missing_reference", "n_dropped"]].tolist() == [4, 2, 7]
    # 19 items graded by both; old fails 7 + 2 open, passes 10; new passes 8 of 15, 4 open
    assert row["worst_low"] == pytest.approx((8 - 12) / 19)
    assert row["worst_high"] == pytest.approx((12 - 10) / 19)
    assert "7 items decided by one of the two only" in row["note"]
    assert "without a verdict of new: 2 error, 1 malformed, 1 refused" in row["note"]
    assert "without a verdict of old: 2 error, 1 not graded" in row["note"]
    assert "in the worst case the change is -0.21 or +0.11" in row["note"]
    right, severity = found.loc["specificity_change"], found.loc["severity_shift"]
    # gold fails: new fails all 8, old is open on 2, not graded on 1, and fails the other 5
    assert (right["worst_low"], right["worst_high"]) == (0, pytest.approx(2 / 7))
    assert severity["worst_low"] == severity["estimate"] < 0 < severity["worst_high"]
    whole = changes(ROWS, LABELS).loc["pass_rate_change"]
    assert whole["worst_low"] == whole["worst_high"] == pytest.approx(whole["estimate"])


def test_the_same_tasks_of_several_skills_are_one_cluster_if_that_is_stated() -> None:
    one = graded({"old": OLD, "new": NEW}, checks=2)
    parts = [one.assign(skill=s, attempt_id=s + "/" + one["attempt_id"]) for s in ("s", "t", "u")]
    rows = pd.concat(parts, ignore_index=True)
    rows["rationale"] = rows["skill"]  # no copies of one another
    cases = rows[["skill", "case_id"]].drop_duplicates()
    tasks = (cases["case_id"], cases.agg("/".join, axis=1))
    results = [changes(rows, cases=cases.assign(task=task)) for task in tasks]
    same, different = (r.loc["pass_rate_change"] for r in results)
    assert (same["n_clusters"], different["n_clusters"]) == (20, 60)
    assert not different["note"]
    with pytest.raises(FrameError, match="skills 's' and 't' both have a case"):
        changes(rows)


def test_the_drift_of_the_pilot_has_the_interval_of_the_statistics_notes() -> None:
    verdicts = sc.frames.verdicts(sc.datasets.load("pilot"))
    rows = drift(verdicts, reference_grader="g0")
    found = rows[rows["grader"].eq("g2") & rows["measure"].eq("pass_rate_change")].iloc[0]
    ends = ["estimate", "ci_low", "ci_high"]
    assert found[ends].round(3).tolist() == [-0.057, -0.076, -0.037]
    # an agent that is a copy changes almost nothing
    copy = verdicts.assign(agent="copy", attempt_id="copy of " + verdicts["attempt_id"])
    twice = pd.concat([verdicts, copy], ignore_index=True)
    copied = drift(twice, reference_grader="g0", average=["agent"])
    again = copied[copied["grader"].eq("g2") & copied["measure"].eq("pass_rate_change")].iloc[0]
    assert again[ends].tolist() == pytest.approx(found[ends].tolist(), abs=3e-4)
