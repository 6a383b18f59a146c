"""Coverage of prediction intervals for the effect of the next skill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import t as student_t

from benchmarks.validity.claims import deviations
from benchmarks.validity.designs import LOPSIDED_SIZES, Floats, Rng, digest, mean_rate
from benchmarks.validity.methods import Rows
from skillcomp.stats import prediction_interval, random_effects

NORMAL, LOPSIDED, CARRIERS, BOTH = (
    "normal", "lopsided", "few skills carry the effect", "few skills, in both directions",
)  # fmt: skip
OURS, PLAIN, DL, PM = (
    "t(k - 2) or range",
    "t(k - 1)",
    "DL, t(k - 2)",
    "Paule-Mandel and HK, t(k - 1)",
)
SD, POOLED, MEAN = "sd between skills", "pooled delta", "mean, t(k - 1)"
_OTHERS = {"sd": SD, "pooled": POOLED, "mean": MEAN}
FEWEST = 0.93  # least coverage in the families other than the last
SKILLS = (5, 8, 10, 15, 30)
LAYOUTS = ((20, 3), (8, 3), (0, 2))  # cases of a skill (0: one skill has many), attempts
MOST_RUNS = 2000  # studies of a design; each has many next skills
_NEXT = 200  # skills that could come next, per study
_COMPARED = 100  # studies sent through the public functions
_CASE_SD, _EFFECT_SD, _LEVEL_SD = 1.0, 0.5, 0.05  # of logits, logits, and rates


def _mixture(*parts: tuple[float, float, float]) -> Callable[[Rng, Any], Floats]:
    """Draw from normal distributions with given shares, means and standard deviations."""
    shares, means, sds = (np.array(column) for column in zip(*parts, strict=True))

    def draw(rng: Rng, shape: Any) -> Floats:
        part = rng.choice(len(shares), size=shape, p=shares)
        return rng.normal(means[part], sds[part])

    return draw


def _skewed(mean: float, sd: float) -> Callable[[Rng, Any], Floats]:
    return lambda rng, shape: mean + sd * (rng.exponential(1.0, shape) - 1.0)


# family, base rate, and the distribution of the deltas; rates are cut at 0.01 and 0.99
EFFECTS: dict[str, tuple[str, float, Callable[[Rng, Any], Floats]]] = {
    "sd 0": (NORMAL, 0.3, _mixture((1, 0.25, 0))),
    "sd 0.05": (NORMAL, 0.3, _mixture((1, 0.25, 0.05))),
    "sd 0.1": (NORMAL, 0.5, _mixture((1, 0, 0.1))),
    "sd 0.2": (NORMAL, 0.35, _mixture((1, 0.2, 0.2))),
    "sd 0.3": (NORMAL, 0.5, _mixture((1, 0, 0.3))),
    "skewed upwards": (LOPSIDED, 0.3, _skewed(0.15, 0.2)),
    "skewed downwards": (LOPSIDED, 0.35, _skewed(0.3, -0.2)),
    "one in ten harms": (LOPSIDED, 0.4, _mixture((0.9, 0.25, 0.05), (0.1, -0.3, 0.05))),
    "one in five harms": (LOPSIDED, 0.4, _mixture((0.8, 0.25, 0.05), (0.2, -0.2, 0.05))),
    "one in ten carries": (CARRIERS, 0.05, _mixture((0.9, 0, 0), (0.1, 0.6, 0))),
    "one in six carries": (CARRIERS, 0.05, _mixture((5 / 6, 0, 0), (1 / 6, 0.6, 0))),
    "one in four carries": (CARRIERS, 0.05, _mixture((0.75, 0, 0), (0.25, 0.6, 0))),
    "one in four, from the middle": (CARRIERS, 0.3, _mixture((0.75, 0, 0), (0.25, 0.4, 0))),
    "one in ten, differing": (CARRIERS, 0.2, _mixture((0.9, 0, 0.05), (0.1, 0.5, 0.1))),
    "one in eight up, one down": (
        BOTH, 0.5, _mixture((0.75, 0, 0), (0.125, 0.45, 0), (0.125, -0.45, 0))
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NextSkill:
    """Studies of one design: number of skills, cases (0: lopsided) and attempts, and effects."""

    skills: int
    cases: int
    attempts: int
    effects: str
    runs: int


def cells(runs: int) -> list[NextSkill]:
    """List all designs, the largest first."""
    return [
        NextSkill(k, cases, attempts, name, min(runs, MOST_RUNS))
        for k, (cases, attempts), name in product(reversed(SKILLS), LAYOUTS, EFFECTS)
    ]


def run(cell: NextSkill) -> Rows:
    """Simulate the studies of a design; return coverage and width, one row per interval."""
    rng = np.random.default_rng(int(digest(asdict(cell))[:8], 16))
    _, base, draw = EFFECTS[cell.effects]
    shape = (cell.runs, cell.skills)
    level, delta = _true_rates(rng, shape, base, draw)
    following = _true_rates(rng, (cell.runs, _NEXT), base, draw)[1]
    y, v = _estimates(rng, cell, level, delta)
    everything = _true_rates(rng, (100_000,), base, draw)[1]
    rows = []
    for method, low, high in _limits(y, v):
        covered = _within(low[:, None], following, high[:, None]).mean(axis=1)
        rows.append(_row(method, covered, high - low))
    h = student_t.isf(0.025, cell.skills - 1) * y.std(axis=1, ddof=1) / np.sqrt(cell.skills)
    covered = _within(y.mean(axis=1) - h, everything.mean(), y.mean(axis=1) + h)
    rows.append(_row(MEAN, covered, 2 * h))
    return [*rows, *_rows_of_random_effects(y, v, delta, float(everything.std()))]


def _row(method: str, covered: Any, width: Any) -> dict[str, Any]:
    covered = np.asarray(covered, dtype=float)
    error = covered.std() / np.sqrt(len(covered))
    return {"method": method, "rate": float(covered.mean()), "error": float(error),
            "width": float(np.nanmean(width))}  # fmt: skip


def _within(low: Any, value: Any, high: Any) -> Any:
    return (low <= value + 1e-9) & (value - 1e-9 <= high)


def _true_rates(
    rng: Rng, shape: Any, base: float, draw: Callable[[Rng, Any], Floats]
) -> tuple[Floats, Floats]:
    """Draw the rate of each skill without it, and the change of the rate with it."""
    level = np.clip(rng.normal(base, _LEVEL_SD if base > 0.1 else 0.0, shape), 0.02, 0.95)
    return level, np.clip(draw(rng, shape), 0.01 - level, 0.99 - level)


def _estimates(rng: Rng, cell: NextSkill, level: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """Draw the estimated delta of each skill, and its variance, pooled over the skills."""
    sizes = [cell.cases or LOPSIDED_SIZES[min(j, 1)] for j in range(cell.skills)]
    y, squares = np.empty(level.shape), np.zeros(cell.runs)
    for j, n in enumerate(sizes):
        hard = rng.normal(0.0, _CASE_SD, (cell.runs, n))
        more = rng.normal(0.0, _EFFECT_SD, (cell.runs, n))
        low = expit(centres_of_logits(level[:, j], _CASE_SD)[:, None] + hard)
        total_sd = float(np.hypot(_CASE_SD, _EFFECT_SD))
        high = expit(centres_of_logits(level[:, j] + delta[:, j], total_sd)[:, None] + hard + more)
        passed = rng.binomial(cell.attempts, high) - rng.binomial(cell.attempts, low)
        y[:, j] = passed.mean(axis=1) / cell.attempts
        squares += passed.var(axis=1) * n / cell.attempts**2
    within = squares / (sum(sizes) - cell.skills)
    return y, np.maximum(within, 1e-9)[:, None] / np.array(sizes)


def centres_of_logits(rates: Floats, sd: float) -> Floats:
    """Return the centres of normal logits with these mean pass rates, by interpolation."""
    grid = np.linspace(-12.0, 12.0, 481)
    centres: Floats = np.interp(rates, [mean_rate(float(centre), sd) for centre in grid], grid)
    return centres


def _limits(y: Floats, v: Floats) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the limits of each prediction interval, cut at -1 and 1."""
    k, mean, s = y.shape[1], y.mean(axis=1), y.std(axis=1, ddof=1)
    reach = student_t.isf(0.025, k - 2) * s * np.sqrt(1 + 1 / k)
    low, high = np.minimum(mean - reach, y.min(axis=1)), np.maximum(mean + reach, y.max(axis=1))
    yield OURS, *_cut(low, high)
    reach = student_t.isf(0.025, k - 1) * s * np.sqrt(1 + 1 / k)
    yield PLAIN, *_cut(mean - reach, mean + reach)
    w = 1 / v
    fixed = (w * y).sum(axis=1) / w.sum(axis=1)
    q = (w * (y - fixed[:, None]) ** 2).sum(axis=1)
    tau2 = (q - k + 1) / (w.sum(axis=1) - (w**2).sum(axis=1) / w.sum(axis=1))
    tau2 = np.maximum(tau2, 0.0)
    centre, precision, _ = _weighted(y, v, tau2)
    reach = student_t.isf(0.025, k - 2) * np.sqrt(tau2 + 1 / precision)
    yield DL, *_cut(centre - reach, centre + reach)
    tau2 = _paule_mandel(y, v)
    centre, precision, q = _weighted(y, v, tau2)
    reach = student_t.isf(0.025, k - 1) * np.sqrt(tau2 + q / (k - 1) / precision)
    yield PM, *_cut(centre - reach, centre + reach)


def _cut(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def _weighted(y: Floats, v: Floats, tau2: Floats) -> tuple[Floats, Floats, Floats]:
    w = 1 / (v + tau2[:, None])
    mean = (w * y).sum(axis=1) / w.sum(axis=1)
    return mean, w.sum(axis=1), (w * (y - mean[:, None]) ** 2).sum(axis=1)


def _paule_mandel(y: Floats, v: Floats) -> Floats:
    low, high = np.zeros(len(y)), np.full(len(y), 4.0)
    for _ in range(40):
        middle = (low + high) / 2
        above = _weighted(y, v, middle)[2] > y.shape[1] - 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def _rows_of_random_effects(y: Floats, v: Floats, delta: Floats, sd: float) -> Rows:
    """Return the coverage of the public functions on the first studies."""
    held, pooled, width = [], [], []
    for effects, variances, truth in zip(y[:_COMPARED], v, delta, strict=False):
        if np.ptp(effects):
            interval = prediction_interval(effects, bounds=(-1.0, 1.0))
            ((_, low, high), *_) = _limits(effects[None], variances[None])
            np.testing.assert_allclose([interval.low, interval.high], [low[0], high[0]], atol=1e-9)
        result = random_effects(effects, variances)
        held.append(_within(result.sd.low, sd, result.sd.high))
        ends = np.array([[unit.low, unit.high] for unit in result.pooled])
        pooled.append(np.mean(_within(ends[:, 0], truth, ends[:, 1])))
        width.append([result.sd.high - result.sd.low, np.mean(ends[:, 1] - ends[:, 0])])
    widths = np.array(width)
    return [_row(SD, held, widths[:, 0]), _row(POOLED, pooled, widths[:, 1])]


def table(results: list[tuple[NextSkill, Rows]]) -> pd.DataFrame:
    """Tabulate all intervals: one row per design and interval."""
    rows = [
        {"family": EFFECTS[cell.effects][0], **asdict(cell), **row}
        for cell, rows_of_cell in results
        for row in rows_of_cell
    ]
    return pd.DataFrame(rows)


def summary(designs: pd.DataFrame) -> pd.DataFrame:
    """Summarise each interval, one row per family and number of skills."""
    place = {name: i for i, name in enumerate((NORMAL, LOPSIDED, CARRIERS, BOTH))}
    groups = designs.groupby(["family", "skills", "method"], sort=False)
    rows = groups.agg(lowest=("rate", "min"), mean=("rate", "mean"), width=("width", "mean"))
    ranked = rows.reset_index().assign(place=lambda frame: frame["family"].map(place))
    return ranked.sort_values(["place", "skills"], kind="stable", ignore_index=True).drop(
        columns="place"
    )


def page_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per family and number of skills, with a key for each number of the page."""
    lowest = {"ours": OURS, "plain": PLAIN, "dl": DL, "pm": PM}
    of_row = []
    for (family, skills), part in rows.groupby(["family", "skills"], sort=False):
        of = part.set_index("method")
        row = {key: of.loc[method, "lowest"] for key, method in lowest.items()}
        row |= {f"{key}_mean": of.loc[name, "mean"] for key, name in _OTHERS.items()}
        widths = {f"{key}_width": of.loc[lowest[key], "width"] for key in ("ours", "dl")}
        of_row.append({"family": family, "skills": skills, **row, **widths})
    return of_row


def study(runs: int, out: Path, *, jobs: int = -1, docs: Path | None = None) -> pd.DataFrame:
    """Run all designs and write their table, and that of the page if ``docs`` is given."""
    from benchmarks.validity.cells import work  # which knows this kind of cell

    results, _ = work(cells(runs), run, out / "cells", jobs=jobs, title="next skill")
    designs = table(results)
    designs.to_csv(out / "next_skill.csv", index=False)
    if docs is not None:
        folder = docs / "intervals"
        folder.mkdir(parents=True, exist_ok=True)
        summary(designs).to_csv(folder / "next_skill.csv", index=False, float_format="%.5g")
    return designs


def report(designs: pd.DataFrame) -> int:
    """Print whether the prediction interval keeps its level; return 1 if it does not."""
    ours = designs[designs["method"].eq(OURS) & designs["family"].ne(BOTH)]
    worst = ours.loc[ours["rate"].idxmin()]
    limit = FEWEST - deviations(len(ours)) * ours["error"]
    holds = not (ours["rate"] < limit).any()
    print(
        f"{'holds' if holds else 'FAILS'}: coverage of the next skill: lowest {worst['rate']:.2%} "
        f"({worst['skills']} skills, {worst['effects']}); at least {FEWEST:.0%}, less the margin "
        f"of {deviations(len(ours)) * ours['error'].max():.1%}"
    )
    return int(not holds)
