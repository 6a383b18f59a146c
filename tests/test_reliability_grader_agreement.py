import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import agreement, consistency, flip_rates
from skillcomp.simulate import Grader
from skillcomp.stats.agreement import gwet_ac1
from skillcomp.stats.grader_errors import sensitivity

Passed = bool | None


def verdicts(passed: list[Passed], *, checks: int = 1, **columns: object) -> pd.DataFrame:
    """One row an entry; `checks` rows in a row share an attempt and a case."""
    case = [f"s/{k // checks}" for k in range(len(passed))]
    rows = pd.DataFrame(
        {
            "attempt_id": [f"{name}/skill/1" for name in case],
            "skill": "s",
            "case_id": case,
            "condition": "skill",
            "check_id": [f"c{k % checks}" for k in range(len(passed))],
            "grader": "g",
            "passed": pd.array(passed, dtype="boolean"),
            "status": ["malformed" if one is None else "ok" for one in passed],
        }
    )
    return rows.assign(**columns)


def gold(passed: list[Passed], *, checks: int = 1, labeller: str = "adjudicated") -> pd.DataFrame:
    rows = verdicts(passed, checks=checks)
    return rows[["attempt_id", "check_id", "passed"]].assign(labeller=labeller)


def by_measure(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index("measure")


def test_the_coefficients_are_those_of_the_counted_table() -> None:
    # 20 pass both, 6 pass by the grader only, 2 by gold only, 12 fail both: n = 40
    grader = [True] * 20 + [True] * 6 + [False] * 2 + [False] * 12
    truth = [True] * 20 + [False] * 6 + [True] * 2 + [False] * 12
    found = by_measure(agreement(verdicts(grader), gold(truth)))["estimate"]
    assert found["raw_agreement"] == pytest.approx(32 / 40)
    assert found["sensitivity"] == pytest.approx(20 / 22)
    assert found["specificity"] == pytest.approx(12 / 18)
    # pe = (26 * 22 + 14 * 18) / 1600 = 0.515; kappa = (0.8 - 0.515) / 0.485
    assert found["cohen_kappa"] == pytest.approx((0.8 - 0.515) / 0.485)
    assert found["gwet_ac1"] == pytest.approx(gwet_ac1([[20, 6], [2, 12]]).estimate)
    # alpha: 2 * 8 mixed pairs of 80 ratings, 48 PASS and 32 FAIL: 1 - 79 * 16 / (2 * 48 * 32)
    assert found["krippendorff_alpha"] == pytest.approx(1 - 79 * 16 / (2 * 48 * 32))


def test_checks_of_a_case_widen_the_interval_because_the_case_is_the_unit() -> None:
    # every case has five checks that are right or wrong together: 20 cases, 4 wrong
    grader, truth = [True] * 100, [True] * 80 + [False] * 20
    together = by_measure(agreement(verdicts(grader, checks=5), gold(truth, checks=5)))
    apart = by_measure(agreement(verdicts(grader), gold(truth)))
    for name in ("raw_agreement", "gwet_ac1", "specificity"):
        width = [f.loc[name, "ci_high"] - f.loc[name, "ci_low"] for f in (together, apart)]
        assert width[0] > 1.5 * width[1], name
    assert together.loc["raw_agreement", "n"] == 100
    assert together.loc["raw_agreement", "n_clusters"] == 20


def test_a_failed_grader_is_left_out_and_never_counted_as_a_fail() -> None:
    grader: list[Passed] = [True] * 10 + [None] * 4 + [False] * 6
    truth = [True] * 14 + [False] * 6
    found = by_measure(agreement(verdicts(grader), gold(truth)))
    assert found.loc["sensitivity", "estimate"] == 1.0
    assert found.loc["sensitivity", "n"] == 10
    assert "4 labels without a verdict left out" in found.loc["sensitivity", "note"]
    assert found.loc["failure_share", "estimate"] == pytest.approx(4 / 20)
    assert found.loc["failure_share", "note"] == "4 malformed"
    assert set(found["n_failed"]) == {4}


def test_a_verdict_with_a_failed_status_does_not_count_even_if_it_says_passed() -> None:
    rows = verdicts([True] * 12).assign(status=["refused"] * 3 + ["ok"] * 9)
    found = by_measure(agreement(rows, gold([True] * 12)))
    assert found.loc["sensitivity", "n"] == 9
    assert found.loc["failure_share", "note"] == "3 refused"


def test_an_interval_never_has_zero_width_where_everything_agrees() -> None:
    found = agreement(verdicts([True, False] * 10), gold([True, False] * 10))
    known = found[found["estimate"].notna()]
    assert (known["ci_high"] > known["ci_low"]).all()
    assert (known["estimate"].between(known["ci_low"], known["ci_high"])).all()


def test_what_cannot_be_told_is_nan_with_a_note() -> None:
    found = by_measure(agreement(verdicts([True] * 6), gold([True] * 6)))
    for name in ("cohen_kappa", "krippendorff_alpha", "specificity", "ceiling_gwet_ac1"):
        assert np.isnan(found.loc[name, "estimate"]) and found.loc[name, "note"], name
    assert "no gold label fails" in found.loc["specificity", "note"]
    none = by_measure(agreement(verdicts([True]), gold([True]).assign(attempt_id="elsewhere")))
    assert none.drop("failure_share")["estimate"].isna().all()
    assert "1 gold label without a verdict of this grader" in none.loc["gwet_ac1", "note"]


def test_the_ceiling_is_the_agreement_of_the_labellers_on_the_same_items() -> None:
    truth = [True] * 15 + [False] * 15
    second = [False] * 3 + truth[3:]
    labels = pd.concat(
        [
            gold(truth, labeller="adjudicated"),
            gold(truth, labeller="first"),
            gold(second, labeller="second"),
        ]
    )
    found = by_measure(agreement(verdicts(truth), labels))
    assert found.loc["ceiling_raw_agreement", "estimate"] == pytest.approx(27 / 30)
    assert found.loc["raw_agreement", "ceiling"] == pytest.approx(27 / 30)
    assert found.loc["raw_agreement", "estimate"] == 1.0
    assert "between first and second" in found.loc["ceiling_raw_agreement", "note"]
    half = by_measure(agreement(verdicts(truth)[:10], labels))
    assert half.loc["ceiling_raw_agreement", "n"] == 10


def test_without_every_labeller_the_note_says_how_to_get_the_ceiling() -> None:
    found = by_measure(agreement(verdicts([True, False] * 5), gold([True, False] * 5)))
    note = found.loc["ceiling_raw_agreement", "note"]
    assert "adjudicated labels only; frames.gold(store, labeller='all')" in note


def test_labellers_who_differ_without_an_adjudicated_label_are_refused() -> None:
    said = {"ann": [True] * 4, "ben": [True, True, False, True]}
    labels = pd.concat([gold(passed, labeller=name) for name, passed in said.items()])
    with pytest.raises(FrameError, match=r"none is 'adjudicated': ann, ben\. Select one"):
        agreement(verdicts([True] * 4), labels)


@pytest.mark.parametrize("name", ["grader", "grader_version", "round"])
def test_graders_versions_and_rounds_are_never_pooled(name: str) -> None:
    other: dict[str, object] = {"grader": "h", "grader_version": "2", "round": 2}
    base: dict[str, object] = {"grader": "g", "grader_version": "1", "round": 1}
    rows = pd.concat(
        [verdicts([True] * 4, **base), verdicts([True] * 4, **(base | {name: other[name]}))]
    )
    with pytest.raises(FrameError, match=f"more than one {name}"):
        agreement(rows, gold([True] * 4), by=[])
    kept = agreement(rows, gold([True] * 4), by=[name])
    assert kept[name].nunique() == 2


def test_the_members_of_a_contrast_pair_form_one_cluster() -> None:
    rows, labels = verdicts([True, False] * 10), gold([True, True] * 10)
    names = [f"s/{k}" for k in range(20)]
    # one direction only, as suites have it: s/19 contrasts with s/0, ten pairs in all
    twins = [None] * 10 + [f"s/{19 - k}" for k in range(10, 20)]
    cases = pd.DataFrame({"skill": "s", "case_id": names, "contrast_of": twins})
    mutual = cases.assign(contrast_of=[f"s/{19 - k}" for k in range(20)])
    for given_cases in (cases, mutual):
        found = by_measure(agreement(rows, labels, cases=given_cases))
        assert found.loc["sensitivity", "n_clusters"] == 10
        assert found.loc["sensitivity", "n"] == 20


def test_unequal_chances_of_being_labelled_are_told() -> None:
    labels = gold([True, False] * 6).assign(inclusion_probability=[0.5] * 6 + [0.25] * 6)
    found = by_measure(agreement(verdicts([True, False] * 6), labels))
    assert "drawn with unequal probabilities" in found.loc["sensitivity", "note"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30), st.randoms())
def test_the_order_of_the_rows_does_not_matter(pairs: list[tuple[bool, bool]], rnd: object) -> None:
    rows, labels = verdicts([a for a, _ in pairs]), gold([b for _, b in pairs])
    order = list(range(len(pairs)))
    rnd.shuffle(order)  # type: ignore[attr-defined]
    first = by_measure(agreement(rows, labels, n_resamples=49))
    again = by_measure(agreement(rows.iloc[order], labels.iloc[order[::-1]], n_resamples=49))
    np.testing.assert_allclose(first["estimate"], again["estimate"], atol=1e-12)
    known = first["estimate"].dropna()
    assert known.between(-1, 1).all()


def test_the_pilot_graders_rank_as_recorded(pilot: sc.RunStore) -> None:
    labels = sc.frames.gold(pilot, labeller="all")
    found = agreement(sc.frames.verdicts(pilot), labels, by=["grader"])
    table = found.pivot(index="measure", columns="grader", values="estimate")
    assert table.loc["specificity"].round(3).to_dict() == {"g0": 0.72, "g1": 0.891, "g2": 0.971}
    assert table.loc["sensitivity"].round(3).to_dict() == {"g0": 0.997, "g1": 0.998, "g2": 0.992}
    assert table.loc["ceiling_raw_agreement"].round(4).unique().tolist() == [0.9878]
    assert (table.loc["failure_share"] == 0).all()


def test_a_simulated_grader_is_recovered_and_the_truth_lies_inside() -> None:
    made = sc.simulate.study(
        n_cases=20, graders=(Grader("j", 0.93, 0.7, failure_rate=0.05),), gold_fraction=1.0, seed=4
    )
    found = by_measure(agreement(made.verdicts, made.gold))
    for name, truth in (("sensitivity", 0.93), ("specificity", 0.7), ("failure_share", 0.05)):
        assert found.loc[name, "ci_low"] < truth < found.loc[name, "ci_high"], name


@pytest.mark.slow
def test_the_clustered_interval_of_specificity_covers_where_errors_come_in_cases() -> None:
    rng = np.random.default_rng(0)
    hits, plain, trials, rate = 0, 0, 400, 0.8
    for _ in range(trials):
        chance = rng.beta(rate * 2, (1 - rate) * 2, size=60)  # errors of a case come together
        right = (rng.random((60, 5)) < chance[:, None]).ravel()
        found = by_measure(
            agreement(
                verdicts(list(~right), checks=5), gold([False] * 300, checks=5), n_resamples=1
            )
        )
        one = found.loc["specificity"]
        hits += one["ci_low"] < rate < one["ci_high"]
        naive = sensitivity(right, np.ones(300))
        plain += naive.low < rate < naive.high
    assert hits / trials > 0.92
    assert plain / trials < 0.85  # items taken as independent


def regraded(first: list[Passed], second: list[Passed], **columns: object) -> pd.DataFrame:
    both = [verdicts(first, **columns), verdicts(second, **columns)]
    return pd.concat([part.assign(round=k) for k, part in enumerate(both, start=1)])


def test_the_flip_rate_counts_verdicts_that_changed_on_a_second_grading() -> None:
    rows = regraded([True] * 12 + [False] * 8, [True] * 9 + [False] * 11, checks=2)
    found = by_measure(consistency(rows))
    assert found.loc["flip_rate", "estimate"] == pytest.approx(3 / 20)
    # flips at items 9, 10, 11: one of two checks in case 4, both in case 5; 10 cases
    assert found.loc["case_flip_rate", "estimate"] == pytest.approx((0.5 + 1.0) / 10)
    # the attempts of cases 4 and 5 passed before and fail now
    assert found.loc["attempt_flip_rate", "estimate"] == pytest.approx(2 / 10)
    assert found.loc["pass_rate_change", "estimate"] == pytest.approx(-3 / 20)
    assert found.loc["raw_agreement", "estimate"] == pytest.approx(17 / 20)
    assert set(found["n_rounds"]) == {2}


def test_the_flip_rate_of_every_case_is_one_call_away() -> None:
    rows = regraded([True] * 6, [True] * 3 + [False] * 3, checks=2)
    found = flip_rates(rows).set_index("case_id")
    assert found["estimate"].to_dict() == {"s/0": 0.0, "s/1": 0.5, "s/2": 1.0}
    assert found["n_flipped"].tolist() == [0, 1, 2]
    assert (found["ci_high"] > found["ci_low"]).all()


def test_a_grader_without_a_second_grading_has_nan_and_a_note() -> None:
    found = consistency(verdicts([True] * 4))
    assert found["estimate"].isna().all()
    assert found["note"].str.contains("nothing was graded twice").all()
    assert flip_rates(verdicts([True] * 4)).empty


def test_three_rounds_have_alpha_and_no_kappa() -> None:
    rows = pd.concat(
        [regraded([True, False] * 8, [True, True] * 8), verdicts([False, False] * 8, round=3)]
    )
    found = by_measure(consistency(rows))
    assert "kappa compares two raters" in found.loc["cohen_kappa", "note"]
    assert found.loc["flip_rate", "estimate"] == 1.0
    assert found["n_rounds"].unique().tolist() == [3]


def test_a_failed_regrade_is_no_flip() -> None:
    second: list[Passed] = [None] * 4 + [True] * 8
    found = by_measure(consistency(regraded([True] * 12, second)))
    assert found.loc["flip_rate", "estimate"] == 0.0
    assert found.loc["flip_rate", "n"] == 8


def test_versions_are_not_taken_for_rounds() -> None:
    rows = pd.concat(
        [
            verdicts([True] * 4, grader_version="1", round=1),
            verdicts([True] * 4, grader_version="2", round=2),
        ]
    )
    with pytest.raises(FrameError, match="more than one grader_version"):
        consistency(rows)
    with pytest.raises(FrameError, match="by= names 'round'"):
        consistency(rows, by=["round"])


def test_the_pilot_retest_flips_four_of_817_verdicts(pilot: sc.RunStore) -> None:
    rows = sc.frames.verdicts(pilot, round="all")
    found = consistency(rows[rows["grader"].eq("g2")])
    one = by_measure(found).loc["flip_rate"]
    assert (one["n"], round(one["estimate"] * one["n"])) == (817, 4)
    assert flip_rates(rows[rows["grader"].eq("g2")])["n_flipped"].sum() == 4


def test_the_limits_of_a_flip_rate_are_those_of_the_case_means() -> None:
    # four checks each: 2, 0 and 0 of them flip; as many checks in every case weigh alike
    cases = [f"s/{k}" for k in range(3) for _ in range(4)]
    frame = pd.DataFrame(
        {
            "attempt_id": cases,
            "skill": "s",
            "case_id": cases,
            "condition": "skill",
            "check_id": [f"c{k}" for k in range(4)] * 3,
            "grader": "g",
            "passed": True,
        }
    )
    again = frame.assign(round=2, passed=[False, False] + [True] * 10)
    found = consistency(pd.concat([frame.assign(round=1), again])).set_index("measure")
    limits = sc.stats.bounded_mean([0.5, 0, 0])
    for name in ("flip_rate", "case_flip_rate"):
        assert found.loc[name, ["ci_low", "ci_high"]].tolist() == pytest.approx(
            [limits.low, limits.high]
        )
    assert found.loc["flip_rate", ["n", "n_clusters"]].tolist() == [12, 3]
    assert found.loc["case_flip_rate", ["n", "n_clusters"]].tolist() == [3, 3]


@pytest.mark.slow
@pytest.mark.parametrize(("n_cases", "rate"), [(14, 0.02), (40, 0.01), (84, 0.005)])
def test_a_flip_rate_near_zero_is_covered(n_cases: int, rate: float) -> None:
    # ten verdicts a case; in one case in five all flips of the study happen
    rng = np.random.default_rng(31)
    case, hits, trials = np.repeat(np.arange(n_cases), 10), 0, 2000
    for _ in range(trials):
        each = np.where(rng.random(n_cases) < 0.2, 5 * rate, 0.0)
        flips = rng.random(len(case)) < each[case]
        found = sc.stats.bounded_mean(flips, case)
        hits += found.low <= rate <= found.high
    assert hits / trials >= 0.935


def test_gold_is_called_adjudicated_only_where_it_is() -> None:
    ids = [f"s/{i}" for i in range(6)]
    verdicts = pd.DataFrame(
        {"attempt_id": ids, "skill": "s", "case_id": ids, "condition": "skill", "check_id": "c"}
    ).assign(grader="g", passed=True)
    gold = verdicts[["attempt_id", "check_id"]].assign(passed=[True] * 4 + [False] * 2)
    for labeller, said in (
        ("adjudicated", "adjudicated labels only"),
        (None, "labels without a labeller"),
        ("agreed", "settled labels only"),
        ("anna", "one labeller"),
    ):
        found = agreement(verdicts, gold.assign(labeller=labeller))
        notes = found.loc[found["measure"].eq("ceiling_raw_agreement"), "note"]
        assert notes.str.contains(f"the gold frame holds {said};").all()


@pytest.mark.parametrize("n_resamples", [None, 0, 2.5, True, "99"])
def test_no_number_of_resamples_is_told_in_one_sentence(n_resamples):
    rows = pd.concat([verdicts([True, False] * 3, round=r) for r in (1, 2)], ignore_index=True)
    for call in (consistency, lambda v, **how: agreement(v, gold([True, False] * 3), **how)):
        with pytest.raises(FrameError, match=r"n_resamples: found .*; allowed: a whole number"):
            call(rows, n_resamples=n_resamples)
