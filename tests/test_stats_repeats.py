"""Repeats that share a run are recognised, and their intervals are wide enough."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.frames import FrameWarning
from skillcomp.report.study_sentences import findings
from skillcomp.stats.repeats import Runs, for_other_runs
from skillcomp.stats.results import Interval
from tests.oracles import repeats as oracle

ALPHA = 0.01 / 4


def attempts(rng, n: int, k: int, effects, size: int = 1):
    """Draw passes of cases with rates of their own; runs have an effect on all cases."""
    rates = 0.5 + 0.15 * rng.normal(size=n)[np.repeat(np.arange(n), size)]
    chance = np.clip(rates[:, None] + np.asarray(effects), 0, 1)
    return (rng.random((n * size, k)) < chance).astype(float), np.repeat(np.arange(n), size)


def table(skill, baseline) -> pd.DataFrame:
    """Lay out attempts (cases by runs) as a table of a stranger."""
    return pd.DataFrame(
        [
            {"skill": "s", "case": f"c{case}", "condition": arm, "try": run + 1, "passed": bool(v)}
            for arm, values in {"skill": skill, "baseline": baseline}.items()
            for case, row in enumerate(values)
            for run, v in enumerate(row)
        ]
    )


def outcomes(rows: pd.DataFrame, **roles: str) -> pd.DataFrame:
    made = sc.from_frame(rows, **roles)
    return sc.frames.outcomes(made.verdicts, made.cases)


@pytest.mark.parametrize("size", [1, 4])
def test_p_values_and_variances_are_those_of_the_oracle(size: int) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        values, cluster = attempts(rng, 8, 4, [0, 0.1, 0.2, 0], size)
        runs = Runs.of(values, cluster, np.ones(len(values)), ALPHA)
        names = list(map(str, cluster))
        between, within = oracle.variances(values.tolist(), names)
        if between > within:
            p_value = min(oracle.p_values(values.tolist(), names))
            assert runs.p_value == pytest.approx(p_value) or ALPHA > p_value < runs.p_value
        assert runs.between / runs.noise == pytest.approx(between / within)
        np.testing.assert_allclose(runs.rates, values.mean(axis=0))


def test_a_run_effect_widens_the_interval_as_the_oracle_does() -> None:
    rng = np.random.default_rng(1)
    arms = [attempts(rng, 30, 5, effects)[0] for effects in ([0.4, -0.4, 0, 0.3, -0.3], [0] * 5)]
    plain = Interval(0.1, -0.05, 0.24, se=0.07, df=29.0)
    pairs = [("skill", 1.0, arms[0]), ("baseline", -1.0, arms[1])]
    mean = for_other_runs(plain, pairs, np.arange(30), None, (-1.0, 1.0))
    assert (mean.low, mean.high) == pytest.approx(oracle.widened(0.1, -0.05, 0.24, arms))
    assert mean.se > plain.se
    assert mean.df < plain.df
    assert "under skill" in mean.note
    assert "under baseline" not in mean.note


def test_runs_without_an_effect_are_rarely_flagged_and_true_effects_as_often_as_planned() -> None:
    rng = np.random.default_rng(2)

    def flagged(n: int, k: int, sd: float, size: int = 1, studies: int = 300) -> float:
        found = 0
        for _ in range(studies):
            arms = [attempts(rng, n, k, sd * rng.normal(size=k), size) for _ in range(2)]
            runs = [Runs.of(v, c, np.ones(len(v)), ALPHA) for v, c in arms]
            found += any(run.p_value < ALPHA for run in runs)
        return found / studies

    assert flagged(14, 3, 0.0) < 0.03
    assert flagged(4, 5, 0.0) < 0.03
    assert flagged(10, 5, 0.0, size=4) < 0.03
    near, found = np.array([1.0, 1.01, 0.99]), 0
    for _ in range(300):  # weights that are nearly equal: the sums of no two clusters are
        values = (rng.random((3, 3)) < 0.5).astype(float)
        found += Runs.of(values, range(3), near, ALPHA).p_value < ALPHA
    assert found < 6
    assert flagged(30, 5, 0.25) == pytest.approx(0.96, abs=0.05)
    assert flagged(30, 3, 0.25) == pytest.approx(0.80, abs=0.09)


def test_the_effect_that_goes_unseen_is_found_in_four_of_five_studies() -> None:
    rng, found = np.random.default_rng(3), []
    for _ in range(400):
        sd = Runs.of(attempts(rng, 40, 6, [0] * 6)[0], range(40), np.ones(40), ALPHA).unseen
        values, cluster = attempts(rng, 40, 6, sd * rng.normal(size=6))
        found.append(Runs.of(values, cluster, np.ones(40), ALPHA).p_value < ALPHA)
    assert np.mean(found) == pytest.approx(0.8, abs=0.08)


def test_two_cases_that_fail_in_the_same_run_prove_nothing() -> None:
    values = np.array([[1.0, 0, 1], [1, 0, 1]])
    assert Runs.of(values, [0, 1], np.ones(2), ALPHA).p_value == pytest.approx(1 / 3, abs=0.05)
    assert Runs.of(np.repeat(values, 5, axis=0), range(10), np.ones(10), ALPHA).p_value < ALPHA
    assert Runs.of(np.ones((9, 4)), range(9), np.ones(9), ALPHA).p_value == 1.0
    assert Runs.of(values[:1], [0], np.ones(1), ALPHA) is None


def test_attempts_that_stop_at_a_pass_and_runs_of_few_cases_are_not_tested() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):  # without an effect: up to three tries, until one passes
        values = (rng.random((40, 3)) < 0.5).astype(float)
        values[np.cumsum(values, axis=1) - values > 0] = np.nan
        assert Runs.of(values, range(40), np.ones(40), ALPHA) is None
    values, _ = attempts(rng, 20, 5, np.linspace(-0.4, 0.4, 5))
    more = np.column_stack([values, np.full(20, np.nan)])
    more[0, 5] = 1.0
    runs = [Runs.of(each, range(20), np.ones(20), ALPHA) for each in (values, more)]
    assert runs[0].p_value == runs[1].p_value < ALPHA
    sites = np.full((20, 8), np.nan)
    sites[:10, :4], sites[10:, 4:] = values[:10, :4], values[10:, :4]
    arms = [("skill", 1.0, sites), ("baseline", -1.0, values * 0)]
    mean = for_other_runs(Interval(0.1, 0.0, 0.2), arms, range(20), None, (-1.0, 1.0))
    assert "of any size may go unseen" in mean.note


def test_a_widened_row_has_a_p_value_of_its_own_and_leaves_those_of_others_alone() -> None:
    rng = np.random.default_rng(8)
    equal = table(np.tile([1.0, 0, 1], (12, 1)), np.zeros((12, 3)))
    assert sc.deltas.paired(outcomes(equal, repeat="try")).iloc[0]["p_value"] > 0.05
    skills = [
        table(*(attempts(rng, 20, 4, effects)[0] for effects in (skill, [0] * 4))).assign(
            skill=f"s{at}"
        )
        for at, skill in enumerate([[0.45, 0.45, 0.3, -0.5], *[[0.0] * 4] * 4])
    ]
    named = outcomes(pd.concat(skills), repeat="try")
    after = sc.deltas.paired(named, by="skill").set_index("skill")
    before = sc.deltas.paired(named.drop(columns="named_repeats"), by="skill").set_index("skill")
    assert after.loc["s0", "p_value"] > before.loc["s0", "p_value"]
    assert "repeats differ" in after.loc["s0", "note"]
    pd.testing.assert_series_equal(after["p_value"].drop("s0"), before["p_value"].drop("s0"))


def test_the_page_names_the_repeats_that_differ_and_what_would_help() -> None:
    rng = np.random.default_rng(4)
    skill, _ = attempts(rng, 20, 5, np.linspace(0.12, 0.96, 5) - 0.5)
    baseline, _ = attempts(rng, 20, 5, [-0.25] * 5)
    decided = sc.skillverdicts.decide(outcomes(table(skill, baseline), repeat="try"))
    text = " ".join(findings(decided)["sentence"])
    assert "repeats differ more than chance allows" in text
    assert "more repeats would make it narrower" in text
    assert "cases would show" not in text
    plain = sc.skillverdicts.decide(outcomes(table(baseline, baseline), repeat="try"))
    text = " ".join(findings(plain)["sentence"])
    assert "an effect with a standard deviation below 3" in text


def test_an_arm_that_learns_is_not_said_to_be_taught_by_the_skill() -> None:
    rng = np.random.default_rng(4)
    skill, _ = attempts(rng, 20, 5, np.linspace(0.12, 0.96, 5) - 0.5)
    baseline, _ = attempts(rng, 20, 5, [-0.25] * 5)
    rows = table(skill, baseline)
    verdict = sc.skillverdicts.decide(outcomes(rows, repeat="try")).iloc[0]
    assert "widened by the variance between repeats" in verdict["method"]
    assert "repeats differ more than chance allows" in verdict["note"]
    assert verdict["verdict"] == "undetermined"
    with pytest.warns(FrameWarning, match="numbered as repeats in their order"):
        unnamed = outcomes(rows.drop(columns="try"))
    assert "repeats" not in sc.deltas.paired(unnamed).iloc[0]["note"]


def test_named_repeats_that_show_nothing_say_what_could_be_seen() -> None:
    rng = np.random.default_rng(6)
    arms = [attempts(rng, 20, 4, [0] * 4)[0] for _ in range(2)]
    rows = table(*arms)
    named = outcomes(rows, repeat="try")
    tested = sc.deltas.paired(named).iloc[0]
    assert "may go unseen" in tested["note"]
    plain = sc.deltas.paired(named.drop(columns="named_repeats")).iloc[0]
    same = ["estimate", "ci_low", "ci_high", "p_value"]
    assert tested[same].tolist() == plain[same].tolist()
    shuffled = outcomes(rows.sample(frac=1, random_state=0), repeat="try")
    assert sc.deltas.paired(shuffled).iloc[0]["note"] == tested["note"]
    two = outcomes(rows[rows["try"] < 3], repeat="try")
    assert "go unseen" not in sc.deltas.paired(two).iloc[0]["note"]
