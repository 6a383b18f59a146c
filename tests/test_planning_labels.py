"""Gold labels for an interval of agreement, kappa or error rates."""

from typing import Any

import numpy as np
import pytest
from build import lenient_judge

import skillcomp as sc
from skillcomp.errors import StudyError

needed = sc.planning.gold_needed


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


def test_a_measure_that_cannot_be_planned_is_named() -> None:
    made = lenient_judge()
    with pytest.raises(StudyError, match=r"measure: found 'kapa'.*Did you mean 'kappa'"):
        needed(made.verdicts, made.gold, measure="kapa")


@pytest.mark.parametrize(("measure", "label", "note"), [
    ("sensitivity", False, "no gold label passes"), ("specificity", True, "no gold label fails"),
])  # fmt: skip
def test_gold_without_items_of_a_kind_plans_nothing(measure: Any, label: bool, note: str) -> None:
    made = lenient_judge()
    plan = needed(made.verdicts, made.gold.assign(passed=label), measure=measure).iloc[0]
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
