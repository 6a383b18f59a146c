"""The benchmarks and the coverage study run at tiny sizes; nothing here is timed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, chi2

from benchmarks import __main__ as bench
from benchmarks import stats
from benchmarks.validity import __main__ as validity
from benchmarks.validity import cells, claims, designs, methods, page, scan, studies
from skillcomp.stats import bounded_mean, cr2_mean, sign_flip, wilson
from skillcomp.stats.clusters import Clusters

RUNS = 40


def logit(**changes: object) -> designs.Design:
    plain: dict[str, object] = {
        "layout": designs.EVEN, "size": 5, "attempts": 3, "regime": "middle", "delta": 0.1,
        "tau": 1.0,
    }  # fmt: skip
    return world("logit_study", **(plain | changes))


def world(name: str, quantity: str = designs.DELTAS, runs: int = RUNS, **numbers: object) -> designs.Design:  # fmt: skip  # noqa: E501
    return designs.Design(quantity, "a family", name, tuple(numbers.items()), runs)


def test_the_designs_are_logit_normal_studies_and_studies_meant_to_break_intervals() -> None:
    cells = designs.designs(RUNS)
    assert len(cells) == len({(cell.quantity, cell.family, cell.words) for cell in cells})
    first = [dict(cell.numbers) for cell in cells if cell.world == "logit_study"]
    assert len(first) == 3 * 2 * 3 * 3 + 2 * 4 * 2 * 3 * 3 * 2
    assert {numbers["delta"] for numbers in first} == {0.0, 0.1, 0.3}
    others = {cell.family for cell in cells if cell.world != "logit_study"}
    assert others == set(claims.FAMILIES)
    assert designs.sizes(designs.LOPSIDED, 4) == [30, 4, 4, 4]


@pytest.mark.parametrize("design", designs.designs(400)[::18], ids=lambda design: design.words)
def test_the_mean_over_many_studies_is_the_truth(design: designs.Design) -> None:
    sample = design.draw()
    bounds = methods.QUANTITIES[design.quantity]
    assert sample.values.min() >= bounds.low and sample.values.max() <= bounds.high
    means = np.average(sample.values, axis=1, weights=sample.weights)
    # five standard errors: fails for one of the designs in a million runs
    assert abs(means.mean() - sample.truth) < 5 * means.std() / np.sqrt(len(means)) + 1e-12


def test_a_cell_holds_every_interval_test_and_c() -> None:
    rows = pd.DataFrame(methods.run(logit(delta=0.0)))
    covered = rows[rows["kind"].eq("coverage")]
    assert list(covered["method"]) == list(methods.METHODS)
    assert covered["rate"].between(0, 1).all()
    tests = set(rows.loc[rows["kind"].eq("error"), "method"])
    assert tests == {
        methods.OURS, methods.CR2, "Obuchowski", "Durkalski", "sign flip",
    }  # fmt: skip
    assert rows.loc[rows["kind"].eq("grid"), "method"].astype(float).tolist() == list(methods.GRID)
    alone = logit(layout=designs.INDEPENDENT, size=10, attempts=1, delta=0.0, tau=0.0)
    more = {str(row["method"]) for row in methods.run(alone) if row["kind"] == "error"}
    assert more - tests == {"mid-p McNemar", "exact McNemar"}
    assert all(row["kind"] != "error" for row in methods.run(logit(delta=0.3)))


UNLIKE = [
    logit(),
    world("flips", cases=20, up=0.1),
    world("rates_of", designs.RATES, cases=14, rate=0.9, attempts=2, heavy=1.0),
    world("shares_of", designs.SHARES, cases=14, rate=0.98, attempts=1, capped=0.3),
]


@pytest.mark.parametrize("design", UNLIKE, ids=lambda design: design.world)
def test_the_grid_of_c_covers_as_the_interval_does(design: designs.Design) -> None:
    rows = {(row["kind"], row["method"]): row for row in methods.run(design)}
    c = f"{methods.QUANTITIES[design.quantity].c:g}"
    interval, grid = rows["coverage", methods.OURS], rows["grid", c]
    for what in ("rate", "too_high", "too_low"):
        assert interval[what] == pytest.approx(grid[what])


def test_coverage_is_that_of_the_public_functions_study_by_study() -> None:
    design = world("rates_of", designs.RATES, cases=14, rate=0.5, attempts=2, sd=2.0, heavy=1.0)
    sample = design.draw()
    intervals = [bounded_mean(values, weights=sample.weights) for values in sample.values]
    row = methods.run(design)[0]
    assert row["method"] == methods.OURS
    covers = [interval.low <= sample.truth <= interval.high for interval in intervals]
    assert row["rate"] == pytest.approx(np.mean(covers))


def test_vectorised_arithmetic_equals_the_public_functions() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-3, 4, (6, 60)) / 3
    labels = np.arange(60) % 25
    clusters = Clusters.of(labels, 60)
    mean, se, df = methods.cr2_errors(values, clusters)
    one = cr2_mean(values[2], labels)
    assert (mean[2], se[2], df) == pytest.approx((one.estimate, one.se, one.df), abs=1e-10)
    result = methods.sign_flips(values, clusters, labels)
    expected = [sign_flip(v, labels, n_resamples=methods.PATTERNS).p_value for v in values]
    assert result == pytest.approx(expected, abs=1e-10)


def test_clustered_mcnemar_agrees_with_the_arithmetic_by_hand() -> None:
    # b - c = 2, 1, -1, 2: sum 4, squares 10. Obuchowski 3/4 * 16 / 10 = 1.2;
    # over n = 4, 2, 4, 8: .5, .5, -.25, .25: sum 1, squares .625. Durkalski 1 / .625 = 1.6
    totals = np.array([[2.0, 1, -1, 2], [0, 0, 0, 0]])
    expected = pytest.approx([chi2.sf(1.2, 1), 1.0])
    assert methods.clustered_mcnemar(totals, 3 / 4) == expected
    expected = pytest.approx([chi2.sf(1.6, 1), 1.0])
    assert methods.clustered_mcnemar(totals / [4, 2, 4, 8]) == expected


def test_the_scan_finds_the_worst_point_of_a_rate() -> None:
    # c = 1 is Clopper-Pearson: one case covers everything but the limits 1/40 and 39/40
    rows = {(row["method"], row["c"]): row for row in scan.run(scan.Scan(designs.RATES, 1))}
    assert rows["bounded mean", 1.0]["coverage"] == pytest.approx(0.975, abs=1e-6)
    assert rows["bounded mean", 1.0]["side"] == pytest.approx(0.025, abs=1e-6)
    for row in (scan.run(scan.Scan(designs.RATES, 14))[i] for i in (0, 5, 10)):
        # exact minima of STATISTICS, section F
        expected = {0.5: 0.903, 0.75: 0.943, 1.0: 0.955}[row["c"]]
        assert row["coverage"] == pytest.approx(expected, abs=6e-4)
    # beside the lower limit of 1 of 14 only 0 of 14 covers: Wilson .01272, Jeffreys .00782
    known = {row["method"]: row["coverage"] for row in scan.run(scan.Scan(designs.RATES, 14))}
    lows = wilson(1, 14).low, beta.ppf(0.025, 1.5, 13.5)
    expected = tuple((1 - low) ** 14 for low in lows)
    assert (known["Wilson"], known["Jeffreys"]) == pytest.approx(expected, abs=1e-6)


def test_a_cell_below_the_margin_fails_its_claim_and_one_inside_does_not() -> None:
    cell = logit(delta=0.0)

    def row(kind: str, method: str, rate: float) -> dict[str, object]:
        return {"kind": kind, "method": method, "rate": rate, "runs": 4000, "mean_width": 0.5}

    rows = [
        row("coverage", methods.OURS, 0.92),
        row("coverage", methods.PLAIN, 0.5),
        row("error", methods.OURS, 0.065),
        row("error", "Obuchowski", 0.08),
    ]
    table = claims.table([(cell, rows)])
    # .94 - 1.645 sqrt(.94 .06 / 4000) = .9338; .06 + 1.960 sqrt(.06 .94 / 4000) = .0674
    assert table["limit"].round(4).tolist()[:3:2] == [0.9338, 0.0674]
    assert table["fails"].tolist() == [True, False, False, True]
    assert np.isnan(table["limit"][1])


def test_the_chosen_c_is_the_smallest_that_designs_and_scan_allow() -> None:
    def grid(rates: dict[float, float]) -> list[dict[str, object]]:
        return [
            {"kind": "grid", "method": f"{c:g}", "rate": rate, "runs": 4000}
            for c, rate in rates.items()
        ]

    easy, hard = {0.5: 0.95, 0.7: 0.95, 1.0: 0.96}, {0.5: 0.92, 0.7: 0.939, 1.0: 0.96}
    cells = [
        (world("flips", name, cases=n, up=0.1, noise=0.1), grid(rates))
        for name in claims.ORDER
        for n, rates in ((10, easy), (20, hard))
    ]
    worst = {0.5: (0.91, 0.08), 0.7: (0.93, 0.049), 1.0: (0.95, 0.025)}
    points = pd.DataFrame(
        [
            {"quantity": q, "n": 14, "c": c, "coverage": low, "side": side}
            for q in ("deltas", "rates")
            for c, (low, side) in worst.items()
        ]
    )
    result = claims.choice(cells, points)
    assert result["below"].tolist() == [1, 0, 0] * 3
    assert result.loc[result["chosen"], "c"].tolist() == [0.7] * 3
    points.loc[points["c"].eq(0.7) & points["quantity"].eq("rates"), "side"] = 0.051
    again = claims.choice(cells, points)
    assert again.loc[again["chosen"], "c"].tolist() == [0.7, 1.0, 1.0]  # shares read the rates


def test_the_page_is_what_its_tables_give() -> None:
    text = (page.DOCS / "intervals.md").read_text(encoding="utf-8")
    assert text == page.render(page.DOCS / "intervals")
    chosen = pd.read_csv(page.DOCS / "intervals" / "choice.csv")
    for name, one in methods.QUANTITIES.items():
        mine = chosen[chosen["quantity"].eq(name)]
        assert (
            np.isclose(mine["c"], one.c).any() and f"**{name.capitalize()}: c = {one.c:g}**" in text
        )
    assert (page.DOCS / "intervals" / "coverage.png").stat().st_size < 300_000


def test_bias_and_lost_coverage_fail_recovery_unless_only_shown() -> None:
    error = np.random.default_rng(0).normal(0, 0.02, 200)
    rows = []
    for name, checked, shift in (
        ("good", True, 0.0), ("biased", True, 0.03), ("naive", False, 0.1),
    ):  # fmt: skip
        estimate = 0.2 + error - error.mean() + shift
        columns = {"estimate": estimate, "low": estimate - 0.05, "high": estimate + 0.05}
        about = {"quantity": "delta", "truth": 0.2, "estimator": name, "checked": checked}
        rows.append(pd.DataFrame({**about, **columns}))
    recovered = claims.recovery(pd.concat(rows)).set_index("estimator")
    assert recovered["fails"].to_dict() == {"good": False, "biased": True, "naive": False}


def test_finished_cells_are_kept_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = [logit(size=size) for size in (3, 5)]
    first, seconds = cells.work(planned, methods.run, tmp_path, jobs=1, title="designs")
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) == 2 and not list(tmp_path.glob("*.part")) and seconds > 0
    files[0].write_text(json.dumps({"seconds": 60, "rows": [{"kept": True}]}), encoding="utf-8")
    again, more = cells.work(planned, methods.run, tmp_path, jobs=1, title="designs")
    assert [{"kept": True}] in [rows for _, rows in again] and more > 60
    assert [cell for cell, _ in again] == [cell for cell, _ in first] == planned
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ({designs.Design, scan.Scan, studies.Batch}, "skillcomp/stats/bounded.py"),
        ({designs.Design, studies.Batch}, "skillcomp/stats/significance.py"),
        ({designs.Design, scan.Scan}, "benchmarks/validity/methods.py"),
        ({studies.Batch}, "skillcomp/bias/feature_effects.py"),
    ],
)
def test_other_code_makes_other_files(kinds: set[type], name: str, tmp_path: Path) -> None:
    for file in (*cells.VECTORISED, *cells.SCAN, *cells.FRAMES):
        copy = tmp_path / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((cells.ROOT / file).read_bytes())
    before = cells.code_version(tmp_path)
    with (tmp_path / name).open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    after = cells.code_version(tmp_path)
    assert {kind for kind in before if before[kind] != after[kind]} == kinds


def test_the_study_ends_in_tables_a_figure_a_page_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [cell for cell in designs.designs(10) if dict(cell.numbers).get("cases", 99) <= 14]
    few = list({(cell.quantity, cell.family): cell for cell in small}.values())
    few.append(replace(logit(layout=designs.INDEPENDENT, size=10), family=designs.INDEPENDENT))
    monkeypatch.setattr(validity, "designs", lambda runs: few)
    monkeypatch.setattr(scan, "LARGER", scan.LARGER[:2])
    monkeypatch.setattr(
        validity.scan,
        "scans",
        lambda quick: [scan.Scan(q, 3) for q in (designs.DELTAS, designs.RATES)],
    )
    result = validity.intervals(10, tmp_path, jobs=1)
    status = validity.study(result, 2, tmp_path, jobs=1)
    printed = capsys.readouterr().out
    assert status == (1 if "FAILS" in printed else 0)
    assert "coverage of deltas: lowest" in printed and "with the margin" in printed
    assert "transfer gap from 2 studies" in printed and "two cores" in printed
    assert "deltas: c in use" in validity.choice_text(result)
    for name in ("table.csv", "scan.csv", "choice.csv", "recovery.csv", "validity.pdf",
                 "validity.png", "validity.json"):  # fmt: skip
        assert (tmp_path / name).stat().st_size > 0
    assert set(pd.read_csv(tmp_path / "recovery.csv")["quantity"]) == {
        "delta over cases", "delta over skills", "transfer gap", "grader error",
        "gold drawn by the verdicts of 1 grader", "gold drawn by the verdicts of 2 graders",
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "table.csv")
    assert {*claims.KEYS, "kind", "method", "rate", "limit", "fails"} <= set(table.columns)
    written = validity.write_page(result, tmp_path, tmp_path / "docs")
    assert "Why this interval" in written.read_text(encoding="utf-8")
    assert written.read_text(encoding="utf-8") == page.render(tmp_path / "docs" / "intervals")


def test_the_ways_of_the_statistics_benchmark_agree() -> None:
    verdicts = stats.verdicts(1)
    assert len(verdicts) == 100 * 2 * 5 * 10
    ours, bare = stats.ours(verdicts), stats.bare(verdicts)
    assert ours["skill"].tolist() == bare["skill"].tolist()
    stats.require_equal(ours["estimate"], bare["estimate"])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        stats.require_equal(ours["estimate"] + 1e-9, bare["estimate"])


@pytest.mark.parametrize(("part", "size"), [("many_clusters", 20), ("many_studies", 20)])
def test_the_parts_of_the_statistics_benchmark_run(part: str, size: int) -> None:
    lines = getattr(stats, part)(size)
    assert any(line.reached is not None for line in lines)
    assert all(str(line).startswith("  ") for line in lines)


def test_the_overall_line_names_what_was_missed_and_an_unknown_benchmark_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = bench.overall({"overlap": "reached", "store": "1 missed", "stats": "reached"})
    assert line == "every target reached: overlap, stats; not reached: store (1 missed)"
    with pytest.raises(SystemExit):
        bench.main(["statistics"])
    assert "there is no benchmark 'statistics'; there: overlap, store" in capsys.readouterr().err


def test_a_stopped_study_says_where_its_cells_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(validity, "intervals", stopped)
    assert validity.main(["--out", str(tmp_path)]) == 130
    assert f"finished cells are kept in {tmp_path / 'cells'}" in capsys.readouterr().out
