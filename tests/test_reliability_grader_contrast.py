"""Contrasts of graders: pairs on the same items, ranks, published counts, odd studies."""

import numpy as np
import pandas as pd
import pytest
from build import gold, verdicts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact, rankdata

import skillcomp as sc
from skillcomp import RunStore, frames
from skillcomp.errors import FrameError
from skillcomp.reliability import contrast, contrast_counts, drift
from skillcomp.stats import holm, wilson
from skillcomp.stats.significance_and_grader_errors import rank_sets

TRUTH = [True] * 18 + [False] * 12


def graded(right: dict[str, list[bool | None]], **columns: object) -> pd.DataFrame:
    """Verdicts of graders that are right or wrong, or give none, on the items of TRUTH."""
    parts = [
        verdicts([None if x is None else x == t for x, t in zip(values, TRUTH, strict=False)])
        .assign(grader=name)
        for name, values in right.items()
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).assign(**columns)


def wrong_on(*items: int) -> list[bool | None]:
    return [i not in items for i in range(30)]


THREE = {"a": wrong_on(0), "b": wrong_on(1, 20), "c": wrong_on(*range(2, 15))}


def ranks(frame: pd.DataFrame, between: str = "grader") -> pd.DataFrame:
    rows = frame[frame["measure"].eq("agreement_rank")]
    return rows.set_index(between)[["estimate", "ci_low", "ci_high"]]


def test_pairs_are_compared_on_the_same_items_as_drift_does() -> None:
    rows, labels = graded(THREE), gold(TRUTH)
    found = contrast(rows, labels)
    names = ["agreement_difference", "sensitivity_difference", "specificity_difference"]
    assert found["measure"].drop_duplicates().tolist() == [*names, "agreement_rank"]
    assert found["unit"].drop_duplicates().tolist() == ["points", "rank"]
    pair = found[found["grader"].eq("c") & found["reference"].eq("a")].set_index("measure")
    # c errs on 13 items (all but items 2 to 14 right), a on one
    assert pair.loc["agreement_difference", "estimate"] == pytest.approx(-12 / 30)
    # of 18 gold passes c errs on 13, of ...: items 2 to 14 are gold passes
    assert pair.loc["sensitivity_difference", "estimate"] == pytest.approx(-12 / 18)
    assert pair.loc["specificity_difference", "estimate"] == 0
    counts = pair.loc["agreement_difference", ["n", "n_gained", "n_lost", "n_dropped"]]
    assert counts.tolist() == [30, 1, 13, 0]
    # McNemar's mid-p of 1 against 13: (2 (1 + 14) - 14) / 2 ** 14
    assert pair.loc["agreement_difference", "p_value"] == pytest.approx(16 / 2**14)
    changes = drift(rows, labels, reference_grader="a").query("grader == 'c'").set_index("measure")
    for ours, theirs in zip(names, ["agreement", "sensitivity", "specificity"], strict=True):
        columns = ["estimate", "ci_low", "ci_high", "p_value", "rate", "reference_rate"]
        expected = changes.loc[f"{theirs}_change", columns].tolist()
        assert pair.loc[ours, columns].tolist() == pytest.approx(expected)
    agreement = found[found["measure"].eq(names[0])]
    assert agreement["p_adjusted"].to_numpy() == pytest.approx(holm(agreement["p_value"]))
    assert ranks(found).to_numpy().tolist() == [[1, 1, 2], [2, 1, 2], [3, 3, 3]]


def test_identical_graders_share_their_ranks_and_have_no_interval_of_zero_width() -> None:
    found = contrast(graded({"a": wrong_on(3), "b": wrong_on(3)}), gold(TRUTH))
    pairs = found[found["measure"].ne("agreement_rank")]
    assert (pairs["estimate"].eq(0) & pairs["p_value"].eq(1)).all()
    assert (pairs["ci_high"] > 0).all() and (pairs["ci_low"] < 0).all()
    assert ranks(found).to_numpy().tolist() == [[1, 1, 2]] * 2


def test_graders_with_equal_agreement_share_a_rank_whatever_the_rounding_errors() -> None:
    # two cases of three attempts: a is right on 2/3 and 2/3, b on 1 and 1/3
    rows = graded({"a": wrong_on(0, 3), "b": wrong_on(4, 5)})
    rows = rows[rows["case_id"].isin([f"s/{i}" for i in range(6)])]
    rows = rows.assign(case_id=rows["case_id"].map({f"s/{i}": f"s/{i // 3}" for i in range(6)}))
    found = contrast(rows, gold(TRUTH))
    assert found["rate"].tolist()[:1] == found["reference_rate"].tolist()[:1]
    assert ranks(found).to_numpy().tolist() == [[1, 1, 2]] * 2


def test_only_common_items_count_and_a_pair_without_any_is_unknown() -> None:
    none: list[bool | None] = [None] * 15
    halves = {"a": [*wrong_on(0)[:15], *none], "b": [*none, *wrong_on(20)[15:]]}
    found = contrast(graded({**halves, "c": wrong_on(1)}), gold(TRUTH))
    apart = found[found["grader"].eq("b") & found["reference"].eq("a")]
    assert apart["estimate"].isna().all()
    assert apart["note"].str.contains("no such item has gold and both verdicts; 30 items|").all()
    assert apart["n_dropped"].tolist() == [30, 18, 12]
    shared = found[found["grader"].eq("c") & found["reference"].eq("a")]
    assert shared["n"].iloc[0] == 15 and shared["n_dropped"].iloc[0] == 15
    of_a = found[found["measure"].eq("agreement_rank") & found["grader"].eq("a")].iloc[0]
    assert of_a["note"] == "not compared with 1 grader" and of_a["ci_high"] == 3
    # items that a grader never saw are as if it had no verdict
    seen = graded({**halves, "c": wrong_on(1)}).dropna(subset="passed")
    numbers = ["estimate", "ci_low", "ci_high", "n", "n_dropped", "p_adjusted"]
    pd.testing.assert_frame_equal(contrast(seen, gold(TRUTH))[numbers], found[numbers])


def test_cases_are_the_unit_and_the_column_of_the_levels_can_be_another() -> None:
    rows = graded(THREE)
    by_case = rows.assign(case_id=rows["case_id"].str[:-1])
    wide, narrow = (
        contrast(frame, gold(TRUTH)).set_index(["measure", "grader", "reference"]).iloc[1]
        for frame in (by_case, rows)
    )
    assert wide["n_clusters"] < narrow["n_clusters"] == 30
    assert wide["p_value"] > narrow["p_value"]
    versions = rows.assign(grader="judge", grader_version=rows["grader"])
    with pytest.raises(FrameError, match="more than one grader_version: a, b, c"):
        contrast(versions, gold(TRUTH))
    found = contrast(versions, gold(TRUTH), between="grader_version")
    assert ranks(found, "grader_version").to_numpy().tolist() == [[1, 1, 2], [2, 1, 2], [3, 3, 3]]
    with pytest.raises(FrameError, match="more than one agent"):
        contrast(pd.concat([rows, rows.assign(agent="x", attempt_id="x" + rows["attempt_id"])]),
                 gold(TRUTH))  # fmt: skip


def test_a_version_that_graded_twice_is_compared_with_itself(pilot: RunStore) -> None:
    rounds, cases = frames.verdicts(pilot, round="all"), frames.cases(pilot)
    twice = rounds[rounds["grader"].eq("g2")]
    rows = contrast(twice, frames.gold(pilot), between="round", cases=cases).set_index("measure")
    same = rows.loc["agreement_difference"]
    # of the 374 labelled checks of the retest, round 2 mends one and spoils two: (1 - 2) / 374
    assert (same["reference"], same["round"], same["n"]) == (1, 2, 374)
    assert "compared with 1.\n" in str(sc.table(rows.reset_index().iloc[:3]))
    assert (same["n_gained"], same["n_lost"]) == (1, 2)
    assert same["estimate"] == pytest.approx(-1 / 374)
    assert same["ci_low"] < 0 < same["ci_high"]


def test_a_model_that_changed_under_its_name_differs_in_the_later_round() -> None:
    rounds = graded({"first": wrong_on(0), "second": wrong_on(*range(18, 30))})
    rounds = rounds.assign(round=rounds["grader"].eq("second") + 1, grader="judge")
    rows = contrast(rounds, gold(TRUTH), between="round", by=["grader"]).set_index("measure")
    # round 1 errs on one item of 30, round 2 on the 12 gold fails
    assert rows.loc["agreement_difference", "estimate"] == pytest.approx((1 - 12) / 30)
    assert rows.loc["agreement_difference", "ci_high"] < 0
    assert rows.loc["specificity_difference", "estimate"] == -1
    # another grader with one round changes nothing
    other = rounds[rounds["round"].eq(1)].assign(grader="other")
    both = contrast(pd.concat([other, rounds]), gold(TRUTH), between="round", by=["grader"])
    mine = both[both["grader"].eq("judge")].set_index("measure")
    assert mine["estimate"].equals(rows["estimate"])
    assert both.loc[both["grader"].eq("other"), "estimate"].isna().all()
    with pytest.raises(FrameError, match=r"only round: nothing to compare.* with a second round"):
        contrast(rounds[rounds["round"].eq(1)], gold(TRUTH), between="round")


@pytest.mark.parametrize(
    "levels",
    [
        ["a", "b", "c"],
        [2, 10, 30],
        [0.5, 1.5, 2.5],
        pd.to_datetime(["2026-01-01", "2026-02-01", "2026-03-01"]),
        pd.period_range("2026-01", periods=3, freq="M"),
        pd.Categorical(["a", "b", "c"]),
    ],
)
@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("column", ["month", "batch"])
def test_any_column_of_verdicts_has_the_compared_levels(
    levels: object, rounds: bool, column: str
) -> None:
    rows, known = graded(THREE), gold(TRUTH)
    place = rows["grader"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
    own = rows.assign(grader="judge", **{column: pd.Series(levels).take(place).array})
    own = own.assign(round=place + 1) if rounds else own
    found, expected = contrast(own, known, between=column), contrast(rows, known)
    numbers = ["measure", "estimate", "ci_low", "ci_high", "p_adjusted", "n", "n_gained", "note"]
    pd.testing.assert_frame_equal(found[numbers], expected[numbers])
    pairs = found[found["measure"].eq("agreement_difference")]
    assert pairs[column].tolist() == [levels[i] for i in (1, 2, 2)]  # type: ignore[index]
    assert pairs["reference"].tolist() == [levels[i] for i in (0, 0, 1)]  # type: ignore[index]


def test_missing_levels_and_what_else_differs_are_named() -> None:
    rows = graded(THREE).assign(month=lambda rows: rows["grader"].mask(rows["grader"].eq("c")))
    rows = rows.assign(grader_version="v" + rows["grader"], grader="judge")
    found = contrast(rows, gold(TRUTH), between="month")
    assert set(found["month"]) == {"a", "b"}
    assert found["note"].str.contains("30 verdicts without a month left out").all()
    assert found["note"].str.contains("grader_version differs with month").all()
    families = graded(THREE).assign(grader_family=lambda rows: "family of " + rows["grader"])
    found = contrast(families, gold(TRUTH), between="grader_family")
    assert found["note"].str.contains("grader differs with grader_family").all()
    pooled = families.assign(grader_family=families["grader"].replace("b", "a"))
    with pytest.raises(FrameError, match="more than one grader: a, b, c"):
        contrast(pooled, gold(TRUTH), between="grader_family")


def test_levels_that_never_share_an_answer_are_refused_with_the_cause() -> None:
    rows = graded({"a": wrong_on(0)}).assign(month=["may"] * 15 + ["june"] * 15)
    with pytest.raises(FrameError, match=r"not only the grading differs.*agreement\(by=\['month'"):
        contrast(rows, gold(TRUTH), between="month")
    # where one pair of levels shares none, the row says so
    again = rows.tail(15).assign(month="july", round=2)
    found = contrast(pd.concat([rows.assign(round=1), again]), gold(TRUTH), between="month")
    apart = found[found["month"].eq("may") | found["reference"].eq("may")]
    assert apart["estimate"].iloc[:-1].isna().all()
    assert apart["note"].iloc[0].startswith("no answer with gold was graded under both")
    # a group with one level has nothing to compare
    lone = contrast(graded(THREE).assign(part=lambda rows: np.where(
        rows["grader"].eq("c"), "x", "y")), gold(TRUTH), by="part")  # fmt: skip
    assert lone.loc[lone["part"].eq("x"), "note"].tolist() == ["the only grader here"]


def test_scores_are_contrasted_in_their_unit() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(1, 6, 30).astype(float)
    marks = {"a": truth, "b": np.clip(truth + 1, 1, 5), "c": 6 - truth}
    rows = graded({name: wrong_on() for name in marks}).assign(passed=None)
    rows["score"] = np.concatenate(list(marks.values()))
    known = gold(TRUTH).assign(score=truth, passed=None)
    how = {"value": "score", "bounds": (1, 5)}
    found = contrast(rows, known, **how)  # type: ignore[arg-type]
    pair = found[found["grader"].eq("b") & found["reference"].eq("a")].set_index("measure")
    raised = (marks["b"] - truth).mean()
    assert pair["estimate"].tolist() == pytest.approx([raised, raised])
    assert pair.loc["score_difference", "rate"] == pytest.approx(marks["b"].mean())
    assert pair["unit"].tolist() == ["score", "score"]
    assert ranks(found)["estimate"].tolist() == [1, 2, 3]
    changes = drift(rows, known, reference_grader="a", **how)  # type: ignore[arg-type]
    changes = changes[changes["grader"].eq("b")].set_index("measure")
    for ours, theirs in (("absolute_error_difference", "absolute_error_change"),
                         ("score_difference", "score_change")):  # fmt: skip
        columns = ["estimate", "ci_low", "ci_high", "p_value", "rate", "reference_rate"]
        expected = changes.loc[theirs, columns].tolist()
        assert pair.loc[ours, columns].tolist() == pytest.approx(expected)
    with pytest.raises(FrameError, match="there is no column 'score'"):
        contrast(rows, gold(TRUTH), **how)  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="bounds= is missing"):
        contrast(rows, known, value="score")


@pytest.mark.parametrize(
    ("change", "how", "message"),
    [
        ({"grader": "a"}, {}, "'a' is the only grader: nothing to compare. Grade the same"),
        ({}, {"between": "month"}, "there is no column 'month'"),
        ({"grader": "a"}, {"between": "round"}, "there is no round: nothing to compare"),
        ({"n": 1}, {"between": "n"}, "between= names 'n', which the analysis adds"),
        ({"batch": 1}, {"between": "batch"}, "more than one grader: a, b, c"),
        ({"grader": "a"}, {"between": "case_id"}, "no answer has verdicts under two values of"),
        ({}, {"by": ["grader"]}, "grader"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_remedy(
    change: dict[str, str], how: dict[str, object], message: str
) -> None:
    rows = graded(THREE).assign(**change).drop_duplicates(["attempt_id", "check_id", "grader"])
    with pytest.raises(FrameError, match=message):
        contrast(rows, gold(TRUTH), **how)  # type: ignore[arg-type]


def test_published_counts_give_the_same_ranks_as_their_pairs() -> None:
    numbers = {"true_pass": [50, 48, 30], "false_fail": [10, 12, 30], "false_pass": [2, 3, 20]}
    counts = pd.DataFrame({"grader": ["a", "b", "c"], **numbers, "true_fail": [38, 37, 20]})
    found = contrast_counts(counts)
    row = found[found["grader"].eq("c") & found["reference"].eq("a")].set_index("measure")
    expected = wilson(50, 100).minus(wilson(88, 100))
    one = row.loc["agreement_difference"]
    assert one[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [expected.estimate, expected.low, expected.high]
    )
    assert one["p_value"] == pytest.approx(fisher_exact([[50, 50], [88, 12]]).pvalue)
    assert row.loc["sensitivity_difference", "estimate"] == pytest.approx(30 / 60 - 50 / 60)
    assert row.loc["specificity_difference", "rate"] == pytest.approx(20 / 40)
    assert ranks(found).to_numpy().tolist() == [[1, 1, 2], [2, 1, 2], [3, 3, 3]]
    plain = counts.assign(agreed=[88, 85, 50], n=100)[["grader", "agreed", "n"]]
    agreed = contrast_counts(plain)
    pd.testing.assert_frame_equal(ranks(agreed), ranks(found))
    with pytest.raises(FrameError, match="'a' has several rows"):
        contrast_counts(pd.concat([plain, plain]))
    with pytest.raises(FrameError, match="agreed is larger than n"):
        contrast_counts(plain.assign(n=60))
    with pytest.raises(FrameError, match="must be whole numbers"):
        contrast_counts(plain.assign(agreed=0.9))
    with pytest.raises(FrameError, match="a row has no name"):
        contrast_counts(plain.assign(grader=plain["grader"].mask(plain["grader"].eq("b"))))
    with pytest.raises(FrameError, match="there is no column 'agreed'"):
        contrast_counts(plain.drop(columns="agreed"))


def test_newcombe_s_published_paired_and_unpaired_differences() -> None:
    # Newcombe 1998 (Stat Med 17:873), method 10: 56/70 against 48/80: .2 [.0524, .3339]
    found = contrast_counts(pd.DataFrame({"grader": ["y", "x"], "agreed": [56, 48], "n": [70, 80]}))
    row = found.iloc[0]
    assert row[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [0.2, 0.0524, 0.3339], abs=1e-4
    )
    # Fagerland et al. 2013: airway hyper-responsiveness, 1 against 7 of 21 pairs: mid-p .039
    pair = {"a": [True] * 22 + [False] * 8, "b": [False] * 7 + [True] * 15 + [True] + [False] * 7}
    p = contrast(graded(pair), gold(TRUTH)).iloc[0]["p_value"]
    assert p == pytest.approx(0.0390625)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=6), st.integers(0, 2**16))
def test_rank_sets_hold_the_order_of_the_estimates_and_shrink_with_the_level(
    values: list[int], seed: int
) -> None:
    x = np.array(values, dtype=float)
    p = np.random.default_rng(seed).random((len(x), len(x)))
    p = np.maximum(p, p.T)
    low, high = rank_sets(x[:, None] - x, p)
    place = rankdata(-x, method="min")
    assert (low <= place).all() and (high >= len(x) + 1 - rankdata(x, method="min")).all()
    narrow = rank_sets(x[:, None] - x, p, ci_level=0.5)
    assert (narrow[0] >= low).all() and (narrow[1] <= high).all()
    back = rank_sets(x - x[:, None], p)
    assert (back[0] == len(x) + 1 - high).all() and (back[1] == len(x) + 1 - low).all()


@pytest.mark.parametrize("between", ["month", "round"])
def test_the_levels_of_any_column_are_named_in_sentences(between: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"case": [*range(30)] * 2, "passed": rng.random(60) < 0.6,
                          "nr": np.repeat([1, 2], 30)})  # fmt: skip
    table["gold"] = [*(rng.random(30) < 0.5)] * 2
    made = sc.from_frame(table, skill=None, condition=None, round="nr", gold="gold")
    verdicts = made.verdicts.assign(month=made.verdicts["round"].map({1: "jan", 2: "feb"}))
    found = sc.reliability.contrast(verdicts, made.gold, between=between)
    text = " ".join(sc.report.sentences(found))
    assert ("jan" in text and "feb" in text) if between == "month" else "2 against 1" in text
    with pytest.raises(FrameError, match="the name of one column"):
        sc.reliability.contrast(verdicts, made.gold, between=["month"])
