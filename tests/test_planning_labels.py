"""Gold labels for an interval of agreement, kappa or error rates, of one grader or of two."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from build import lenient_judge
from statsmodels.stats.inter_rater import cohens_kappa

import skillcomp as sc
from skillcomp.errors import StudyError

needed = sc.planning.gold_needed
STATED = {"sensitivity": 0.9, "specificity": 0.8, "baseline_rate": 0.6}


@pytest.mark.parametrize(("measure", "share", "rate"), [
    ("agreement", 1.0, 0.86), ("sensitivity", 0.6, 0.9), ("specificity", 0.4, 0.8),
    ("false_passes", 0.4, 0.2), ("false_fails", 0.6, 0.1),
])  # fmt: skip
def test_the_expected_interval_has_the_width(measure: str, share: float, rate: float) -> None:
    plan = needed(measure=measure, width=[0.4, 0.2], **STATED)
    assert plan["rate"].tolist() == pytest.approx([rate] * 2)
    for _, row in plan.iterrows():
        units = round(row["estimate"] * share)
        interval = sc.stats.bounded_mean(np.arange(units) < round(rate * units))
        assert interval.high - interval.low == pytest.approx(row["width"], rel=0.12)


def test_kappa_has_the_standard_error_of_statsmodels() -> None:
    # gold passes .6: .54 right, .06 wrong; gold fails .4: .08 wrong, .32 right
    other = cohens_kappa(np.array([[54, 6], [8, 32]]))
    plan = needed(measure="kappa", width=0.2, **STATED).iloc[0]
    assert plan["rate"] == pytest.approx(other.kappa)
    assert plan["estimate"] == np.ceil(100 * (1.959964 * other.std_kappa / 0.1) ** 2)


def test_a_grader_that_almost_never_errs_needs_labels_for_the_interval_without_errors() -> None:
    how = {"sensitivity": 0.99, "specificity": 0.99, "baseline_rate": 0.5}
    n = int(needed(measure="kappa", width=0.2, **how).iloc[0]["estimate"])
    # with fewer than five errors, agreement() rescales the interval of the raw agreement
    cases = [f"s/{k}" for k in range(n)]
    rows = pd.DataFrame({"attempt_id": cases, "case_id": cases, "skill": "s", "check_id": "c",
                         "condition": "skill", "grader": "g", "passed": [True, False] * (n // 2)
                         + [True] * (n % 2)})  # fmt: skip
    kappa = sc.reliability.agreement(rows, rows[["attempt_id", "check_id", "passed"]]).iloc[1]
    assert kappa["measure"] == "cohen_kappa"
    assert kappa["ci_high"] - kappa["ci_low"] == pytest.approx(0.2, rel=0.05)


def test_the_difference_of_two_graders_by_hand() -> None:
    two = {"sensitivity": {"new": 0.9, "old": 0.8}, "specificity": {"new": 0.9, "old": 0.8}}
    how = {"measure": "agreement", "reference_grader": "old", "baseline_rate": 0.5}
    plan = needed(width=0.1, **two, **how).iloc[0]
    # better .9 * .2 = .18, worse .1 * .8 = .08: variance .26 - .1^2 = .25, n = .25 (1.96 / .05)^2
    assert plan["grader"] == "new" and plan["rate"] == pytest.approx(0.1)
    assert plan["estimate"] == pytest.approx(0.25 * (1.96 / 0.05) ** 2, rel=0.1)
    passes = needed(width=0.2, **two, **how | {"measure": "false_passes"}).iloc[0]
    assert passes["rate"] == pytest.approx(-0.1)
    again = needed(width=0.2, **two, **how).iloc[0]
    assert passes["estimate"] == pytest.approx(2 * again["estimate"], rel=0.02)  # half are fails


def test_a_pilot_plans_with_its_own_interval() -> None:
    made = lenient_judge()
    plan = needed(made.verdicts, made.gold, measure="kappa", by="grader", width=[0.4, 0.1])
    kappa = sc.reliability.agreement(made.verdicts, made.gold, n_resamples=500)
    row = kappa.set_index("measure").loc["cohen_kappa"]
    interval = sc.stats.Interval(0.0, row["ci_low"], row["ci_high"], n=row["n"])
    assert plan["estimate"].tolist() == [sc.stats.units_needed(interval, h) for h in (0.2, 0.05)]
    assert plan["n_pilot"].tolist() == [80, 80]
    fails = needed(made.verdicts, made.gold, measure="false_passes", by="grader", width=0.2)
    assert fails["rate"].iloc[0] == pytest.approx(18 / 48)
    assert fails["n_pilot"].iloc[0] == 48


def test_a_pilot_of_two_graders_plans_their_difference() -> None:
    made = lenient_judge()
    strict = made.verdicts.assign(grader="strict", passed=made.verdicts["passed"] & False)
    both = pd.concat([made.verdicts, strict])
    how = {"reference_grader": "unnamed grader", "width": 0.2}
    plan = needed(both, made.gold, measure="agreement", **how).iloc[0]
    change = sc.reliability.drift(both, made.gold, reference_grader="unnamed grader")
    row = change.set_index("measure").loc["agreement_change"]
    half = (row["ci_high"] - row["ci_low"]) / 2
    assert plan["grader"] == "strict" and plan["rate"] == pytest.approx(row["estimate"])
    assert plan["estimate"] == np.ceil(row["n"] * (half / 0.1) ** 2)


@pytest.mark.parametrize(("how", "message"), [
    ({"measure": "kapa"}, "measure: found 'kapa'.*Did you mean 'kappa'"),
    ({"measure": "agreement"}, "missing: baseline_rate"),
    ({"reference_grader": "old"}, "needs a measure, such as 'agreement'"),
    ({"measure": "agreement", "baseline_rate": 0.5, "reference_grader": "old",
      "sensitivity": 0.9}, "sensitivity needs the rates of two graders, such as"),
    ({"measure": "kappa", "baseline_rate": 0.5, "reference_grader": "o",
      "sensitivity": {"n": 0.9, "o": 0.8}, "specificity": {"n": 0.9, "o": 0.8}},
     "'kappa' is not compared between graders"),
])  # fmt: skip
def test_what_cannot_be_planned_is_named(how: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        needed(**how)


@pytest.mark.parametrize(("measure", "note"), [
    ("kappa", "gold labels do not vary"), ("specificity", "no labelled item counts"),
])  # fmt: skip
def test_gold_that_always_passes_plans_no_kappa_and_no_specificity(measure: Any, note: str) -> None:
    plan = needed(measure=measure, baseline_rate=1.0, sensitivity=0.9, specificity=0.9).iloc[0]
    assert np.isnan(plan["estimate"]) and note in plan["note"]


def test_corrections_say_how_many_cases_with_gold_would_do() -> None:
    made = lenient_judge(n_gold=14)
    rows = sc.correction.delta(made.verdicts, made.gold, value="passed").set_index("estimator")
    gold_only = rows.loc["gold_only"]
    half = (gold_only["ci_high"] - gold_only["ci_low"]) / 2
    assert gold_only["n_gold"] == 14 and half > 0.2
    expected = [np.ceil(14 * (half / h) ** 2) for h in (0.2, 0.1)]
    assert gold_only[["n_for_half_width_20", "n_for_half_width_10"]].tolist() == expected
    words = f"width is {100 * half:.0f} points: about {expected[0]:,.0f} cases with gold"
    assert words in gold_only["note"]
    assert np.isnan(rows.loc["naive", "n_for_half_width_20"])
    rate = sc.correction.rate(made.verdicts, made.gold, value="passed")
    assert rate.loc[rate["estimator"].eq("ppi"), "n_for_half_width_10"].notna().all()
