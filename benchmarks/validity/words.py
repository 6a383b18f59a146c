"""Words for several skills: how often a study shows gains, and how often it has a false word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.validity.claims import deviations
from benchmarks.validity.designs import Floats, Rng, digest
from benchmarks.validity.methods import Rows
from benchmarks.validity.next_skill import centres_of_logits
from skillcomp.frames.estimates import with_adjusted_p
from skillcomp.skillverdicts import first_that_holds, verdicts_of_rows
from skillcomp.stats import DELTAS, RATES, Arm
from skillcomp.stats.bounded import Sample, bounded_means, share_mixed
from skillcomp.stats.clusters_and_amounts import p_of_rows

MARGIN = 0.1
MOST_RUNS = 1000  # studies of a design
MOST_FALSE = {"six agents on the same eight cases": 0.09}  # highest error where it is not _MOST
_MOST = 0.07
_CASE_SD = 1.0  # of logits
# The effects of the cases differ by this, in logits. Agents that share cases with very different
# effects are the hardest design without an effect.
_EFFECT_SD, _SHARED_EFFECT_SD = 0.5, 5.0
GAINS = ("teaching", "helps")
LOSSES = ("harmful", "hurts")


@dataclass(frozen=True, slots=True)
class Words:
    """Studies of several rows: their cases and attempts, base rate, gains, and kind of answers.

    ``cases`` has the number of cases of each row, or one number for all ``rows``. The first rows
    have the ``gains``, the others the gain ``rest``. ``kind`` is ``"cases"`` (attempts differ),
    ``"copies"`` (all attempts of a case are the same), ``"agents"`` (the rows are agents that
    answer the same cases), ``"families"`` (five tasks share an effect) or ``"flips"`` (copies, and
    all cases have the same pass rate).
    """

    design: str
    rows: int
    cases: tuple[int, ...]
    attempts: int
    base: float
    gains: tuple[float, ...] = ()
    rest: float = 0.0
    kind: str = "cases"
    runs: int = MOST_RUNS


def cells(runs: int) -> list[Words]:
    """List the designs with gains in four of ten rows, those without, and those at the margin."""
    n = min(runs, MOST_RUNS)
    four = [
        Words(f"ten skills of {cases} x {attempts}, four gain {100 * gain:.0f} points", 10,
              (cases,), attempts, base, (gain,) * 4, kind=kind, runs=n)
        for cases, attempts, base, gain, kind in (
            (14, 2, 0.3, 0.31, "cases"), (8, 3, 0.3, 0.37, "cases"), (20, 3, 0.3, 0.25, "cases"),
            (30, 2, 0.3, 0.17, "cases"), (14, 2, 0.3, 0.51, "cases"),
            (40, 1, 0.3, 0.25, "cases"), (14, 3, 0.3, 0.4, "copies"),
        )
    ]  # fmt: skip
    nothing = [
        Words("thirty skills of 14 x 2", 30, (14,), 2, 0.3, runs=n),
        Words("thirty skills of 8 x 3, copies", 30, (8,), 3, 0.3, kind="copies", runs=n),
        Words("ten skills of 20 x 1", 10, (20,), 1, 0.5, runs=n),
        Words("ten skills of 14 x 3, near 0", 10, (14,), 3, 0.05, runs=n),
        Words("five skills of 6 x 2 beside five of 60 x 2", 10, (6,) * 5 + (60,) * 5, 2, 0.3,
              runs=n),
        Words("ten skills of eight families of five tasks", 10, (40,), 2, 0.3, kind="families",
              runs=n),
        Words("six agents on the same eight cases", 6, (8,), 3, 0.5, kind="agents", runs=n),
    ]  # fmt: skip
    at_margin = [
        Words("ten skills of 42 x 3, copies, a gain of the margin", 10, (42,), 3, 0.9, rest=MARGIN,
              kind="flips", runs=n),
        Words("ten skills of 84 x 2, a gain of the margin", 10, (84,), 2, 0.3, rest=MARGIN, runs=n),
        Words("ten skills of 150 x 2, a gain of the margin", 10, (150,), 2, 0.1, rest=MARGIN,
              runs=n),
        Words("ten skills of 40 x 3, copies, a reference at the margin", 10, (40,), 3, 0.9,
              kind="flips", runs=n),
    ]  # fmt: skip
    return [*four, *nothing, *at_margin]


def run(cell: Words) -> Rows:
    """Return the shares of a design: of gains that are shown, of studies with a false word."""
    rng = np.random.default_rng(int(digest(asdict(cell))[:8], 16))
    table = pd.concat(_studies(rng, cell), ignore_index=True)
    gained = table["truth"].gt(MARGIN)
    word = table["verdict"]
    wrong = word.isin([*GAINS, *LOSSES]) & table["truth"].eq(0)
    wrong |= word.isin(LOSSES) & table["truth"].gt(0)
    changed, passing = table["truth"].ge(MARGIN), cell.base > 1.0 - MARGIN + 1e-9
    false = {"false_claim": wrong}
    for name in ("", "_by_interval"):
        said = table[f"verdict{name}"]
        same = said.eq("ineffective") & changed
        false[f"false_same{name}"] = same if passing else same | said.eq("redundant")
    beyond = word.eq("teaching") & table["truth"].le(MARGIN)
    of_study = pd.DataFrame(false | {"false_beyond": beyond}).groupby(table["study"]).any()
    shown = {"shown": word, "shown_by_interval": table["verdict_by_interval"]}
    return [
        {"design": cell.design, "studies": cell.runs}
        | {name: float(words[gained].isin(GAINS).mean()) for name, words in shown.items()}
        | of_study.mean().to_dict()
    ]


def one_sided(p_value: float, as_claimed: bool) -> float:
    """Return a one-sided p-value; ``as_claimed``: whether the estimate is on the claimed side."""
    return p_value / 2.0 if as_claimed else 1.0 - p_value / 2.0


def _studies(rng: Rng, cell: Words) -> Iterator[pd.DataFrame]:
    """Yield the rows of each study with their verdicts and true gains."""
    truth = np.full(cell.rows, cell.rest)
    truth[: len(cell.gains)] = cell.gains
    drawn = [_rates_of_study(rng, cell, truth) for _ in range(cell.runs)]
    pairs = [pair for study in drawn for pair in study]
    deltas = [
        Sample.of_arms(
            Arm(rates[1], np.full(len(clusters), cell.attempts), 1.0),
            Arm(rates[0], np.full(len(clusters), cell.attempts), -1.0),
            clusters=clusters,
        )
        for rates, clusters in pairs
    ]
    bases = [
        Sample.of_arms(Arm(rates[0], np.full(len(clusters), cell.attempts)), clusters=clusters)
        for rates, clusters in pairs
    ]
    means = bounded_means(deltas, quantity=DELTAS, null=0.0)
    mixed = np.array([share_mixed(sample) for sample in deltas])
    frame = pd.DataFrame([{"estimate": m.estimate, "ci_low": m.low, "ci_high": m.high, "se": m.se,
                           "df": m.df, "p_value": m.p_value} for m in means])  # fmt: skip
    same = {"measure": "delta_passed", "unit": "points", "ci_level": 0.95, "condition": "skill"}
    frame = frame.assign(
        **same, method="", margin=MARGIN, highest=1.0, truth=np.tile(truth, cell.runs)
    )
    frame["study"] = np.repeat(np.arange(cell.runs), cell.rows)
    rates = bounded_means(bases, quantity=RATES, null=1.0 - MARGIN)
    frame["reference_low"] = [mean.low for mean in rates]
    frame["p_passing"] = [one_sided(m.p_value, m.estimate > 1.0 - MARGIN) for m in rates]
    for name, null in (("p_no_loss", -MARGIN), ("p_no_gain", MARGIN)):
        frame[name] = [
            one_sided(mean.p_value, np.sign(null) * (null - mean.estimate) > 0)
            for mean in bounded_means(deltas, quantity=DELTAS, null=null)
        ]
    for study, rows in frame.groupby("study"):
        p_values = p_of_rows(rows["estimate"], rows["se"], rows["df"], mixed[rows.index])
        before = _verdicts_by_interval(with_adjusted_p(rows))
        rows = rows.assign(p_value=np.where(np.isnan(p_values), rows["p_value"], p_values))
        rows = with_adjusted_p(rows)
        yield rows.assign(verdict=verdicts_of_rows(rows), verdict_by_interval=before, study=study)


def _verdicts_by_interval(rows: pd.DataFrame) -> Any:
    """Return the verdicts by the rule before: only ``helps`` and ``hurts`` need a p-value."""
    low, high, small = rows["ci_low"], rows["ci_high"], rows["p_adjusted"].lt(0.05)
    words = {
        "redundant": (rows["reference_low"] >= 1.0 - MARGIN) & (low > -MARGIN),
        "ineffective": (low > -MARGIN) & (high < MARGIN),
        "teaching": low > MARGIN,
        "harmful": high < -MARGIN,
        "helps": small & (low > 0),
        "hurts": small & (high < 0),
    }
    return first_that_holds(words, "undetermined")


def _rates_of_study(
    rng: Rng, cell: Words, truth: Floats
) -> list[tuple[Floats, np.ndarray[Any, Any]]]:
    """Draw the pass rates of cases without and with the skill, and their clusters, by row."""
    sizes = cell.cases * (cell.rows if len(cell.cases) == 1 else 1)
    shared = rng.normal(size=(2, max(sizes)))
    pairs = []
    for n, gain in zip(sizes, truth, strict=True):
        clusters = np.arange(n)
        normals = rng.normal(size=(2, n))
        if cell.kind == "agents":
            normals = shared[:, :n]
        if cell.kind == "families":
            clusters = np.arange(n) // 5
            normals = rng.normal(size=(2, n // 5))[:, clusters]
        if cell.kind == "flips":
            chances = np.full((2, n), [[cell.base], [cell.base + gain]])
        else:
            effect_sd = _SHARED_EFFECT_SD if cell.kind == "agents" else _EFFECT_SD
            chances = _chances(cell.base, gain, normals, effect_sd)
        if cell.kind in ("copies", "flips"):
            passed = rng.binomial(1, chances).astype(float)
        else:
            passed = rng.binomial(cell.attempts, chances) / cell.attempts
        pairs.append((passed, clusters))
    return pairs


def _chances(base: float, gain: float, normals: Floats, effect_sd: float) -> Floats:
    """Return the chances of the cases to pass; their means are the base rate and base plus gain."""
    hard, more = _CASE_SD * normals[0], effect_sd * normals[1]
    total = float(np.hypot(_CASE_SD, effect_sd))
    first = centres_of_logits(np.array([base]), _CASE_SD)[0]
    second = centres_of_logits(np.array([base + gain]), total)[0]
    return np.stack([expit(first + hard), expit(second + hard + more)])


def table(results: Sequence[tuple[Words, Rows]]) -> pd.DataFrame:
    """Tabulate the designs; ``fails`` marks those with too many false words."""
    frame = pd.DataFrame([row for _, rows in results for row in rows])
    most = frame["design"].map(MOST_FALSE).fillna(_MOST)
    wide = deviations(2 * len(frame)) * np.sqrt(most * (1 - most) / frame["studies"])
    false = frame[["false_claim", "false_same"]].max(axis=1)
    return frame.assign(most=most, fails=false > most + wide)


def study(runs: int, out: Path, *, jobs: int = -1, docs: Path | None = None) -> pd.DataFrame:
    """Run all designs and write their table, into the docs as well if there are any."""
    from benchmarks.validity.cells import work  # which knows this kind of cell

    results, _ = work(cells(runs), run, out / "cells", jobs=jobs, title="words")
    designs = table(results)
    designs.to_csv(out / "words.csv", index=False)
    if docs is not None:
        folder = docs / "intervals"
        folder.mkdir(parents=True, exist_ok=True)
        designs.to_csv(folder / "words.csv", index=False, float_format="%.5g")
    return designs


def report(designs: pd.DataFrame) -> int:
    """Print whether false words are as rare as promised; return 1 if not."""
    worst = designs.loc[(designs["false_claim"] - designs["most"]).idxmax()]
    failing = designs.loc[designs["fails"], "design"].tolist()
    print(
        f"{'FAILS' if failing else 'holds'}: studies with a false claim: at most "
        f"{worst['false_claim']:.1%} ({worst['design']}); fail: {'; '.join(failing) or 'none'}"
    )
    return int(bool(failing))
