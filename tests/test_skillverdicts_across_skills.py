"""Skills in general: mean, spread, the next skill and partial pooling."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError


def skills(deltas: Sequence[float], *, cases: int = 20, start: int = 5) -> pd.DataFrame:
    """The first ``start`` cases of each skill pass without it, and more (or fewer) with it."""
    rows = [
        {
            "attempt_id": f"{condition}/{i}/{k}",
            "skill": f"s{i}",
            "case_id": f"s{i}/{k}",
            "condition": condition,
            "agent": "a",
            "passed": k < start + (round(delta * cases) if condition == "skill" else 0),
        }
        for i, delta in enumerate(deltas)
        for condition in ("baseline", "skill")
        for k in range(cases)
    ]
    return pd.DataFrame(rows).astype({"passed": "boolean"})


DELTAS = [0.1, 0.2, 0.3, 0.4, 0.5]


def test_raw_and_pooled_deltas_mean_next_skill_and_spread() -> None:
    rows = sc.skillverdicts.across(skills(DELTAS))
    assert list(rows["measure"]) == [
        *["delta_passed", "pooled_delta"] * 5, "mean_delta", "next_skill_delta", "between_skill_sd",
    ]  # fmt: skip
    raw = rows[rows["measure"].eq("delta_passed")]
    paired = sc.deltas.paired(skills(DELTAS), by=["skill"])
    np.testing.assert_allclose(raw["ci_low"], paired["ci_low"])
    pooled = rows[rows["measure"].eq("pooled_delta")]
    # pooled deltas keep the order and are nearer to the mean, with narrower intervals
    assert pooled["estimate"].is_monotonic_increasing
    assert np.ptp(pooled["estimate"]) < np.ptp(raw["estimate"])
    width = [(part["ci_high"] - part["ci_low"]).mean() for part in (pooled, raw)]
    assert width[0] < width[1]
    of = rows.set_index("measure").loc[["mean_delta", "next_skill_delta", "between_skill_sd"]]
    assert of["skill"].tolist() == ["all skills", "next skill", "all skills"]
    assert of["n"].eq(5).all()
    # s = sqrt(.025), t(3) = 3.1824: .3 +- 3.1824 * .15811 * sqrt(1.2)
    assert of.loc["next_skill_delta", ["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [0.3, -0.25121, 0.85121], abs=1e-5
    )
    # deltas of a skill with d: variance d(1-d)/19 of its mean; pooled .19/19 = .01; .025 - .01
    assert of.loc["between_skill_sd", "estimate"] == pytest.approx(0.015**0.5, abs=1e-4)


def test_each_skill_counts_equally_whatever_its_number_of_cases() -> None:
    frame = pd.concat([skills([0.5], cases=60), skills([0, 0.1, 0.1, 0.2, 0.2]).assign(
        skill=lambda f: "t" + f["skill"], attempt_id=lambda f: "t" + f["attempt_id"],
        case_id=lambda f: "t" + f["case_id"])])  # fmt: skip
    rows = sc.skillverdicts.across(frame).set_index("measure")
    for measure in ("mean_delta", "next_skill_delta"):
        assert rows.loc[measure, "estimate"] == pytest.approx(1.1 / 6)
    assert rows.loc["mean_delta", "ci_low"] < 1.1 / 6 < rows.loc["mean_delta", "ci_high"]


def test_skills_without_spread_or_cases_do_not_break_the_others() -> None:
    # one skill passes everywhere: its standard error is NaN, so the variance is pooled
    frame = skills([0.75, 0.2, 0.3, 0.2, 0.3, 0.4], start=5)
    saturated = frame["skill"].eq("s0")
    frame.loc[saturated, "passed"] = frame["condition"].eq("skill")
    lost = frame["skill"].eq("s5") & frame["condition"].eq("skill")
    frame.loc[lost, "passed"] = pd.NA
    rows = sc.skillverdicts.across(frame)
    first = rows[rows["skill"].eq("s0")].set_index("measure")
    assert np.isnan(first.loc["delta_passed", "se"])
    assert first.loc["pooled_delta", "ci_low"] < first.loc["pooled_delta", "ci_high"]
    last = rows[rows["skill"].eq("s5")]
    assert last["measure"].tolist() == ["delta_passed"] and last["estimate"].isna().all()
    assert rows.set_index("measure").loc["next_skill_delta", "n"] == 5
    # where all skills are the same, nothing is claimed about their spread
    flat = sc.skillverdicts.across(skills([0.0] * 5, start=0)).set_index("measure")
    assert flat.loc[["next_skill_delta", "between_skill_sd"], "ci_low"].isna().all()
    assert flat.loc[["next_skill_delta", "pooled_delta"], "note"].str.contains("spread").all()
    assert (flat["ci_high"] - flat["ci_low"]).ne(0).all()


def test_what_says_nothing_about_skills_in_general_is_refused_with_a_remedy() -> None:
    across: Any = sc.skillverdicts.across
    frame = skills(DELTAS)
    with pytest.raises(FrameError, match=r"4 skills are too few.*decide\(outcomes\)"):
        across(frame[frame["skill"].ne("s0")])
    with pytest.raises(FrameError, match="by= names 'skill'"):
        across(frame, by=["skill"])
    second = frame.assign(agent="b", attempt_id="b" + frame["attempt_id"])
    two = pd.concat([frame, second[second["skill"].ne("s4")]])
    with pytest.raises(FrameError, match=r"skillverdicts.across: .*more than one agent.*average="):
        across(two)
    with pytest.raises(
        FrameError, match=r"across: value: found 'cost_usd'; allowed: passed, share_passed"
    ):
        across(frame, value="cost_usd")
    by_agent = across(two, by=["agent"]).set_index(["agent", "measure"])
    assert by_agent.loc[("b", "mean_delta"), "note"].startswith("4 skills are too few")
    assert by_agent.loc[("b", ["mean_delta", "next_skill_delta"]), "estimate"].isna().all()
    assert across(pd.concat([frame, second]), average=["agent"])["estimate"].equals(
        across(frame)["estimate"]
    )


def test_a_condition_without_any_pair_has_unknown_rows() -> None:
    rows = []
    for skill in "abcde":
        for case in range(2):
            rows.append((skill, f"{skill}/{case}", "baseline", case == 0))
            rows.append((skill, f"{skill}/{case}", "skill", True))
        rows.append((skill, f"{skill}/0", "placebo", None))
    columns = ["skill", "case_id", "condition", "passed"]
    frame = pd.DataFrame(rows, columns=columns).astype({"passed": "boolean"})
    found = sc.skillverdicts.across(frame)
    placebo = found[found["condition"].eq("placebo") & found["measure"].ne("delta_passed")]
    assert placebo["estimate"].isna().all() and placebo["note"].ne("").all()
