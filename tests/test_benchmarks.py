"""The benchmarks and the coverage study run at tiny sizes; nothing here is timed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import __main__ as bench
from benchmarks import stats
from benchmarks.validity import __main__ as validity
from benchmarks.validity import cells, claims, designs, methods, studies
from skillcomp.stats import cr2_mean, paired_delta, sign_flip
from skillcomp.stats.moments import Clusters

RUNS = 40


def design(**changes: object) -> designs.Design:
    plain = designs.Design(designs.EVEN, 5, 3, "middle", 0.1, 1.0, RUNS)
    return replace(plain, **changes)


def test_the_designs_are_those_of_the_study() -> None:
    found = pd.DataFrame([vars_of(one) for one in designs.designs(RUNS)])
    assert len(found) == len(found.drop_duplicates()) == 3 * 2 * 3 * 3 + 2 * 4 * 2 * 3 * 3 * 2
    assert set(found["delta"]) == {0.0, 0.1, 0.3}
    alone = found[found["layout"].eq(designs.INDEPENDENT)]
    assert set(alone["size"]) == {10, 30, 100}
    nested = found[~found["layout"].eq(designs.INDEPENDENT)]
    assert (nested["size"].min(), nested["size"].max()) == (3, 20)
    assert set(nested["tau"]) == {0.0, 1.0}
    assert set(found["attempts"]) == {1, 3}


def vars_of(one: designs.Design) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__}


def test_a_lopsided_design_has_one_large_skill() -> None:
    assert design(layout=designs.LOPSIDED, size=4).sizes == [30, 4, 4, 4]


@pytest.mark.parametrize("regime", designs.REGIMES)
def test_the_marginal_delta_is_the_one_asked_for(regime: str) -> None:
    drawn = design(regime=regime, delta=0.3, size=20, runs=400).draw()
    found = (drawn.skill - drawn.baseline).mean() / drawn.n_repeats
    assert found == pytest.approx(0.3, abs=0.02)


def test_with_under_five_skills_the_target_is_the_cases_drawn() -> None:
    few = design(size=3)
    assert few.these_cases and not few.null_for_rule
    drawn = few.draw()
    assert np.ptp(drawn.realised) > 0.05
    null = design(size=3, delta=0.0, tau=0.0)
    # no effect in any case, so that "no difference in these cases" is true
    assert null.null_for_rule and np.abs(null.draw().realised).max() < 1e-12


def test_a_cell_holds_the_rule_naive_intervals_and_every_test() -> None:
    rows = pd.DataFrame(methods.run(design(delta=0.0)))
    covered = rows[rows["kind"].eq("coverage")]
    assert set(covered["method"]) == set(claims.METHODS)
    assert covered["rate"].between(0, 1).all()
    tests = set(rows.loc[rows["kind"].eq("error"), "method"])
    assert tests == {methods.RULE, methods.CR2, "Obuchowski", "Durkalski", "sign flip"}
    alone = design(layout=designs.INDEPENDENT, size=10, attempts=1, delta=0.0, tau=0.0)
    more = {str(row["method"]) for row in methods.run(alone) if row["kind"] == "error"}
    assert more - tests == {"mid-p McNemar", "exact McNemar"}
    assert all(row["kind"] == "coverage" for row in methods.run(design(delta=0.3)))


def test_coverage_of_the_rule_is_that_of_paired_delta_study_by_study() -> None:
    one = design()
    drawn = one.draw()
    held = []
    for skill, baseline in zip(drawn.skill, drawn.baseline, strict=True):
        ci = paired_delta(skill, 3, baseline, 3, drawn.clusters)
        held.append(ci.low <= one.delta <= ci.high)
    row = methods.run(one)[0]
    assert row["method"] == methods.RULE
    assert row["rate"] == pytest.approx(np.mean(held))


def test_vectorised_arithmetic_equals_the_public_functions() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-3, 4, (6, 60)) / 3
    labels = np.arange(60) % 25
    clusters = Clusters.of(labels, 60)
    se, df = methods.cr2_errors(values, clusters)
    one = cr2_mean(values[2], labels)
    assert (se[2], df) == pytest.approx((one.se, one.df), abs=1e-10)
    found = methods.sign_flips(values, clusters, labels)
    expected = [sign_flip(v, labels, n_resamples=methods.PATTERNS).p_value for v in values]
    assert found == pytest.approx(expected, abs=1e-10)


def test_the_bootstrap_resamples_whole_clusters() -> None:
    # two clusters of equal values: a resample holds 0, 1 or 2 of the second
    values = np.array([[0.0, 0.0, 1.0, 1.0]])
    low, high = methods.bootstrap(values, Clusters.of(["a", "a", "b", "b"], 4), 0)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_a_margin_grows_with_the_number_of_cells() -> None:
    # one-sided 5 % of one cell, and 5 % shared by ten cells: normal quantiles of .95 and .995
    assert claims.deviations(1) == pytest.approx(1.644854, abs=1e-6)
    assert claims.deviations(10) == pytest.approx(2.575829, abs=1e-6)


def test_a_cell_below_the_margin_fails_its_claim_and_one_inside_does_not() -> None:
    cell = design(runs=4000, delta=0.0)

    def row(kind: str, method: str, rate: float) -> dict[str, object]:
        return {"kind": kind, "method": method, "rate": rate, "runs": 4000}

    rows = [
        row("coverage", methods.RULE, 0.92),
        row("coverage", "plain CLT, z", 0.5),
        row("error", methods.RULE, 0.065),
        row("error", "Obuchowski", 0.08),
    ]
    table = claims.table([(cell, rows)])
    # .94 - 1.645 sqrt(.94 .06 / 4000) = .9338; .06 + 1.960 sqrt(.06 .94 / 4000) = .0674
    assert table["limit"].round(4).tolist()[::2] == [0.9338, 0.0674]
    assert table["fails"].tolist() == [True, False, False, True]
    assert np.isnan(table["limit"][1])


def test_bias_and_lost_coverage_fail_recovery_unless_only_shown() -> None:
    rng = np.random.default_rng(0)
    error = rng.normal(0, 0.02, 200)
    base = {"quantity": "delta", "truth": 0.2}

    def rows(label: str, checked: bool, shift: float) -> pd.DataFrame:
        estimate = 0.2 + error - error.mean() + shift
        ends = {"low": estimate - 0.05, "high": estimate + 0.05}
        return pd.DataFrame(
            {**base, "estimator": label, "checked": checked, "estimate": estimate, **ends}
        )

    found = claims.recovery(
        pd.concat([rows("good", True, 0.0), rows("biased", True, 0.03), rows("naive", False, 0.1)])
    )
    assert found.set_index("estimator")["fails"].to_dict() == {
        "good": False,
        "biased": True,
        "naive": False,
    }


def test_a_batch_of_studies_finds_what_was_planted_through_the_frames() -> None:
    rows = pd.DataFrame(
        studies.run(studies.Batch(0, 1, False)) + studies.run(studies.Batch(0, 1, True))
    )
    assert set(rows["quantity"]) == {
        "delta over cases", "delta over skills", "transfer gap", "grader error",
    }  # fmt: skip
    assert (rows["low"] < rows["high"]).all()
    assert (rows["estimate"] - rows["truth"]).abs().max() < 0.4


def test_finished_cells_are_kept_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [design(size=size) for size in (3, 5)]
    first = cells.work(asked, methods.run, tmp_path, jobs=1, title="designs")
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) == 2 and not list(tmp_path.glob("*.part"))
    files[0].write_text(json.dumps([{"kept": True}]), encoding="utf-8")
    again = cells.work(asked, methods.run, tmp_path, jobs=1, title="designs")
    kept = [rows for _, rows in again]
    assert [{"kept": True}] in kept
    assert [one for one, _ in again] == [one for one, _ in first] == asked
    assert "2/2" in capsys.readouterr().err


def test_other_code_makes_other_files(tmp_path: Path) -> None:
    for name in (*cells._VECTORISED, *cells._FRAMES):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((cells.ROOT / name).read_bytes())
    before = cells.code_version(tmp_path)
    switching = tmp_path / "skillcomp/stats/switching.py"
    switching.write_text(switching.read_text() + "\n# changed\n", encoding="utf-8")
    after = cells.code_version(tmp_path)
    assert before[designs.Design] != after[designs.Design]


def test_the_study_ends_in_a_table_a_figure_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = validity.study(20, 2, tmp_path, jobs=1, only=20)
    printed = capsys.readouterr().out
    assert status == (1 if "FAILS" in printed else 0)
    assert "coverage of the rule: lowest" in printed and "with the margin" in printed
    assert "transfer gap from 2 studies" in printed
    for name in ("table.csv", "recovery.csv", "validity.pdf", "validity.png", "validity.json"):
        assert (tmp_path / name).stat().st_size > 0
    table = pd.read_csv(tmp_path / "table.csv")
    assert {*claims.KEYS, "kind", "method", "rate", "limit", "fails"} <= set(table.columns)


def test_the_ways_of_the_statistics_benchmark_agree() -> None:
    given = stats.verdicts(3)
    assert len(given) == 3 * 100 * 2 * 5 * 10
    ours, bare = stats.ours(given), stats.bare(given)
    assert ours["skill"].tolist() == bare["skill"].tolist()
    stats.require_equal(ours["estimate"], bare["estimate"])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        stats.require_equal(ours["estimate"] + 1e-9, bare["estimate"])


@pytest.mark.parametrize(("part", "size"), [("many_clusters", 20), ("many_studies", 20)])
def test_the_parts_of_the_statistics_benchmark_run(part: str, size: int) -> None:
    lines = getattr(stats, part)(size)
    assert any(line.reached is not None for line in lines)
    assert all(str(line).startswith("  ") for line in lines)


def test_the_overall_line_names_what_was_reached_and_what_was_not() -> None:
    line = bench.overall({"overlap": "reached", "store": "1 missed", "stats": "reached"})
    assert line == "every target reached: overlap, stats; not reached: store (1 missed)"
    assert bench.overall({"live": "reached"}) == "every target reached: live"


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["statistics"])
    assert "there is no benchmark 'statistics'; there: overlap, store" in capsys.readouterr().err


def test_a_stopped_study_says_where_its_cells_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(validity, "study", stopped)
    assert validity.main(["--out", str(tmp_path)]) == 130
    assert f"finished cells are kept in {tmp_path / 'cells'}" in capsys.readouterr().out
