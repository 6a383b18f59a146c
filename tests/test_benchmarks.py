"""The benchmarks and the coverage study run at tiny sizes; nothing here is timed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from benchmarks import stats
from benchmarks.validity import __main__ as validity
from benchmarks.validity import (
    analyses,
    available,
    cells,
    changes,
    claims,
    designs,
    instruments,
    methods,
    next_skill,
    page,
    scan,
    studies,
    words,
)
from skillcomp.contrast import AVAILABLE_DELTAS
from skillcomp.stats import bounded_mean, wilson

RUNS = 40


def logit(**changes: object) -> designs.Design:
    plain: dict[str, object] = {
        "layout": designs.EVEN, "size": 5, "attempts": 3, "regime": "middle", "delta": 0.1,
        "tau": 1.0,
    }  # fmt: skip
    return world("logit_study", **(plain | changes))


def world(name: str, quantity: str = designs.DELTAS, runs: int = RUNS, **numbers: object) -> designs.Design:  # fmt: skip  # noqa: E501
    return designs.Design(quantity, "a family", name, tuple(numbers.items()), runs)


@pytest.mark.parametrize("design", designs.designs(400)[::72], ids=lambda design: design.words)
def test_the_mean_over_many_studies_is_the_truth(design: designs.Design) -> None:
    sample = design.draw()
    bounds = methods.QUANTITIES[design.quantity]
    assert sample.values.min() >= bounds.low and sample.values.max() <= bounds.high
    means = np.average(sample.values, axis=1, weights=sample.weights)
    # five standard errors: fails for one of the designs in a million runs
    assert abs(means.mean() - sample.truth) < 5 * means.std() / np.sqrt(len(means)) + 1e-12


UNLIKE = [
    logit(),
    world("flips", cases=20, up=0.1),
    world("rates_of", designs.RATES, cases=14, rate=0.9, attempts=2, heavy=1.0),
    world("shares_of", designs.SHARES, cases=14, rate=0.98, attempts=1, capped=0.3),
    world("four_arms", designs.FOUR, cases=5, rates=(0.8, 0.4, 0.5, 0.4), attempts=2, skills=3),
]


@pytest.mark.parametrize("design", UNLIKE, ids=lambda design: design.world)
def test_coverage_is_that_of_the_public_functions_study_by_study(design: designs.Design) -> None:
    sample = design.draw()
    rows = [row for row in methods.run(design) if row["level"] == methods.LEVEL]
    for row in rows[:3]:
        rule = row["method"].split()[-1]
        intervals = [
            bounded_mean(
                values, sample.clusters, weights=sample.weights, interval=rule,
                arms=[arm.rows(at) for arm in sample.arms],
                quantity=methods.QUANTITIES[design.quantity],
            )
            for at, values in enumerate(sample.values)
        ]  # fmt: skip
        too_high = np.mean([interval.low > sample.truth for interval in intervals])
        too_low = np.mean([interval.high < sample.truth for interval in intervals])
        if rule != "t":
            assert row["mean_width"] == pytest.approx(
                np.mean([interval.high - interval.low for interval in intervals])
            )
        if not any(np.isnan(interval.low) for interval in intervals):
            assert (row["too_high"], row["too_low"]) == pytest.approx((too_high, too_low))


def test_the_scan_finds_the_worst_point_of_a_rate() -> None:
    # c = 1 is Clopper-Pearson: at 90 %, one case covers everything but the limits 1/20 and 19/20
    rows = {(row["method"], row["level"]): row for row in scan.run(scan.Scan(designs.RATES, 1))}
    assert rows[methods.ADAPTIVE, 0.9]["coverage"] == pytest.approx(0.95, abs=1e-6)
    rows = {(row["method"], row["level"]): row for row in scan.run(scan.Scan(designs.RATES, 14))}
    # exact minimum of STATISTICS, section F
    assert rows[methods.ADAPTIVE, 0.95]["coverage"] == pytest.approx(0.943, abs=6e-4)
    # beside the lower limit of 1 of 14 only 0 of 14 covers: Wilson .01272, Jeffreys .00782
    known = [rows[name, 0.95]["coverage"] for name in ("Wilson", "Jeffreys")]
    lows = wilson(1, 14).low, beta.ppf(0.025, 1.5, 13.5)
    assert known == pytest.approx([(1 - low) ** 14 for low in lows], abs=1e-6)


def test_a_design_fails_if_its_coverage_is_significantly_too_low() -> None:
    weak = replace(logit(delta=0.0), family=designs.WEAKNESSES[0])

    def row(method: str, rate: float, side: float = 0.02) -> dict[str, object]:
        errors = {"too_high": side, "too_low": 1 - rate - side}
        plain = {"level": 0.95, "runs": 4000, "mean_width": 0.5, "zero_width": 0.0}
        return {"method": method, "rate": rate, **errors, **plain}

    rows = [row(methods.ADAPTIVE, 0.93), row(methods.ADAPTIVE, 0.932), row(methods.CR2, 0.5)]
    rows.append(row(methods.ADAPTIVE, 0.94, 0.0599))
    table = claims.table([(logit(delta=0.0), rows), (weak, rows[:1])])
    # .94 - 2.326 sqrt(.94 .06 / 4000) = .9313; .05 + 2.326 sqrt(.05 .95 / 4000) = .0580
    assert table["limit"].round(4)[0] == 0.9313 and table["side_limit"].round(3)[0] == 0.058
    assert table["fails"].tolist() == [True, False, False, True, False]


def test_the_page_is_what_its_tables_give() -> None:
    text = (page.DOCS / "intervals.md").read_text(encoding="utf-8")
    assert text == page.render(page.DOCS / "intervals")
    stored = pd.read_csv(page.DOCS / "intervals" / "available.csv")
    claim = claims.available_claim(stored)
    assert claim.holds, claim.text
    assert (page.DOCS / "intervals" / "tradeoff.png").stat().st_size < 300_000


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
        (
            {
                designs.Design,
                available.Available,
                scan.Scan,
                studies.Batch,
                analyses.Analysis,
                words.Words,
                changes.Change,
            },
            "skillcomp/stats/bounded.py",
        ),
        (
            {designs.Design, available.Available, studies.Batch, analyses.Analysis},
            "benchmarks/simulated/design.py",
        ),
        ({studies.Batch, analyses.Analysis}, "skillcomp/bias/features_and_perturbations.py"),
    ],
)
def test_other_code_makes_other_files(kinds: set[type], name: str, tmp_path: Path) -> None:
    kept = (
        *cells.VECTORISED,
        *cells.SCAN,
        *cells.FRAMES,
        *cells.NEXT_SKILL,
        *cells.ANALYSES,
        *cells.WORDS,
        *cells.CHANGES,
    )
    for file in kept:
        copy = tmp_path / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((cells.ROOT / file).read_bytes())
    before = cells.code_version(tmp_path)
    with (tmp_path / name).open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    after = cells.code_version(tmp_path)
    assert {kind for kind in before if before[kind] != after[kind]} == kinds


@pytest.mark.slow  # 20 s; `make validate` takes the same path
def test_the_study_ends_in_tables_a_figure_a_page_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [cell for cell in designs.designs(10) if dict(cell.numbers).get("cases", 99) <= 14]
    few = list({(cell.quantity, cell.family): cell for cell in small}.values())[::9]
    few += [cell for cell in small if cell.family == designs.WEAK_CASES][:1]
    needed = {words for _, _, words, _ in page.POWER}
    few += [cell for cell in designs.designs(10) if cell.words in needed and cell not in few]
    monkeypatch.setattr(validity, "designs", lambda runs: few)
    scans = [scan.Scan(quantity, 3) for quantity in (designs.DELTAS, designs.RATES)]
    monkeypatch.setattr(validity.scan, "scans", lambda quick: scans)
    monkeypatch.setattr(available, "SKILLS", (8,))
    monkeypatch.setattr(validity, "AVAILABLE_RUNS", 10)
    drawn = [next_skill.NextSkill(5, 4, 2, name, 4) for name in next_skill.EFFECTS]
    monkeypatch.setattr(next_skill, "cells", lambda runs: drawn)
    following = next_skill.study(10, tmp_path, jobs=1, docs=tmp_path / "docs")
    assert next_skill.report(following) in (0, 1)
    named = [cell for cell in words.cells(4) if cell.kind in ("flips", "agents", "families")]
    monkeypatch.setattr(words, "cells", lambda runs: named)
    spoken = words.study(4, tmp_path, jobs=1, docs=tmp_path / "docs")
    assert len(spoken) == len(named) and words.report(spoken) in (0, 1)
    moved = changes.study(4, tmp_path, jobs=1, docs=tmp_path / "docs")
    assert changes.report(moved) in (0, 1) and moved["coverage"].gt(0.4).all()
    result = validity.intervals(10, tmp_path, jobs=1)
    short = list({cell.world: cell for cell in analyses.cells(2) if cell.runs}.values())
    short.append(analyses.Analysis("leniency_scan", "audit: leniency", "exact", (("n", 4),), 0))
    monkeypatch.setattr(analyses, "cells", lambda runs: short)
    audits = analyses.study(2, tmp_path, jobs=1, docs=tmp_path / "docs")
    assert {
        "drift",
        "drift and contrast",
        "planning.gold_needed",
        "perturbed",
        "structure.score_association",
        "audit: polish: sentences",
    } <= set(audits["analysis"])
    assert audits["length"].notna().eq(audits["analysis"].eq("planning.gold_needed")).all()
    exact = audits[audits["studies"].eq(0)].iloc[0]
    assert 0.931 <= exact["rate"] < 1 and exact["side"] <= 0.05 and not exact["fails"]
    status = validity.study(result, 2, tmp_path, jobs=1, audits=audits)
    printed = capsys.readouterr().out
    assert status == (1 if "FAILS" in printed else 0)
    assert "95%: lowest coverage of" in printed and "less the margin" in printed
    assert "transfer gap from 2 studies" in printed and "two cores" in printed
    assert "coverage of the next skill: lowest" in printed
    for name in ("table.csv", "scan.csv", "levels.csv", "available.csv", "recovery.csv",
                 "next_skill.csv", "validity.pdf", "validity.png", "validity.json"):  # fmt: skip
        assert (tmp_path / name).stat().st_size > 0
    assert set(pd.read_csv(tmp_path / "recovery.csv")["quantity"]) == {
        "delta over cases", "delta over skills", "transfer gap", "grader error",
        "gold drawn by the verdicts of 1 grader", "gold drawn by the verdicts of 2 graders",
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "table.csv")
    assert {*claims.KEYS, "method", "level", "rate", "limit", "fails"} <= set(table.columns)
    written = validity.write_page(result, tmp_path, tmp_path / "docs")
    assert "Why this interval" in written.read_text(encoding="utf-8")
    assert written.read_text(encoding="utf-8") == page.render(tmp_path / "docs" / "intervals")


@pytest.mark.parametrize("points", instruments.POINTS)
def test_a_judge_of_many_questions_shows_each_planted_effect(points: int) -> None:
    rows = list(instruments.judge(np.random.default_rng(1), 1, points=points, n=100))
    shown = [name for name, *_ in rows if name.endswith(instruments.POWER)]
    assert len(shown) == (8 if points else 0)
    intervals = [row for row in rows if not row[0].endswith((instruments.POWER, "shown"))]
    assert len(intervals) == 8
    for name, truth, low, high in intervals:
        assert abs(truth - (low + high) / 2) < (high - low), name


def test_effects_that_leave_the_range_of_chances_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(instruments.LENGTHS, 30, (1.5, 1.0, 0.8))
    with pytest.raises(ValueError, match="chances from"):
        list(instruments.judge(np.random.default_rng(1), 1, points=30, n=30))


def test_the_stored_power_is_that_of_the_page() -> None:
    rows = pd.read_csv(page.DOCS / "intervals" / "available.csv").set_index("skills")["delta"]
    assert rows.round(2).to_dict() == AVAILABLE_DELTAS


def test_the_ways_of_the_statistics_benchmark_agree() -> None:
    verdicts = stats.verdicts(1)
    assert len(verdicts) == 100 * 2 * 5 * 10
    ours, bare = stats.ours(verdicts), stats.bare(verdicts)
    assert ours["skill"].tolist() == bare["skill"].tolist()
    stats.require_equal(ours["estimate"], bare["estimate"])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        stats.require_equal(ours["estimate"] + 1e-9, bare["estimate"])


@pytest.mark.parametrize("part", ["many_clusters", "many_studies"])
def test_the_parts_of_the_statistics_benchmark_run(part: str) -> None:
    lines = getattr(stats, part)(20)
    assert any(line.reached is not None for line in lines)
    assert all(str(line).startswith("  ") for line in lines)
