"""Changes of verdicts over the same items, amounts, and run effects: coverage, errors, power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.validity.claims import deviations
from benchmarks.validity.designs import Rng, digest
from benchmarks.validity.methods import Rows
from skillcomp import triggers
from skillcomp.contrast import changes_over_items
from skillcomp.deltas import paired, rates, unpaired
from skillcomp.frames.contracts import NAMED_REPEATS
from skillcomp.stats.clusters_and_amounts import amount_change, cr2_mean, ratio_of_means
from skillcomp.stats.repeats import RUNS_DIFFER
from skillcomp.stats.significance_and_grader_errors import clustered_midp

MOST_RUNS = 1000  # studies of a design
COVERAGE, MOST_SHOWN = 0.94, 0.05
FALSE_ALARMS = 0.012  # of run effects
OF_VERDICTS = ("single", "clumped", "whole")
OF_AMOUNTS = ("amounts", "alike", "clusters", "zeros")
CORRELATION = 0.1  # of the errors of a version on two items of a case, if they are clumped
ZEROS = 0.89  # lowest coverage of a difference of amounts if some are 0: its limits are those of t


@dataclass(frozen=True, slots=True)
class Change:
    """Studies of ``cases``, each with ``size`` items (verdicts) or answers (amounts).

    ``old`` and ``new`` are error rates of two versions, or the means of two amounts. ``kind`` is
    ``"single"`` (errors come singly), ``"clumped"`` (errors of a version on items of one case have
    a correlation of .1), ``"whole"`` (the new version errs in whole cases), ``"amounts"``,
    ``"alike"`` (the two amounts of a case share most of their variation), ``"clusters"`` (the
    answers of a case share an effect) or ``"zeros"`` (a fifth of the amounts of the reference is
    0). With ``"scores"`` there are ``size`` cases per cluster, each with three scores from 0 to 1;
    ``old`` is the share of clusters that break to 0 under the skill, and ``new`` the standard
    deviation of the scores of a case. With ``"prompts"`` there are ``size`` attempts, and ``old``
    and ``new`` are the recalls of two descriptions. With ``"unpaired"`` the two conditions have
    different clusters of ``size`` cases, with pass rates ``old`` and ``new``.
    With ``"runs"`` there are ``size`` repeats, ``old`` is the pass rate under both conditions,
    and ``new`` the standard deviation of the effect that all cases share in a repeat.
    """

    design: str
    cases: int
    size: int
    old: float
    new: float
    kind: str
    runs: int


def cells(runs: int) -> list[Change]:
    """List the designs with a change of verdicts, those without, and those of amounts."""
    n = min(runs, MOST_RUNS)
    return [
        Change("40 cases of 5 checks, errors of 5 and 12 %", 40, 5, 0.05, 0.12, "single", n),
        Change("72 cases of 11 checks, errors of 1 and 6 %", 72, 11, 0.01, 0.06, "single", n),
        Change("30 cases of 1 check, errors of 5 and 30 %", 30, 1, 0.05, 0.3, "single", n),
        Change("40 cases of 5 checks, errors of 5 and 12 %, clumped", 40, 5, 0.05, 0.12, "clumped",
               n),
        Change("84 cases of 10 checks, errors of 3 and 6 %, clumped", 84, 10, 0.03, 0.06,
               "clumped", n),
        Change("40 cases of 5 checks, one version errs in whole cases", 40, 5, 0.1, 0.1, "whole",
               n),
        Change("84 cases of 10 checks, one version errs in whole cases", 84, 10, 0.05, 0.05,
               "whole", n),
        Change("14 cases, twice the amount", 14, 1, 1.0, 2.0, "amounts", n),
        Change("84 cases, twice the amount", 84, 1, 1.0, 2.0, "amounts", n),
        Change("14 cases, alike in both conditions", 14, 1, 1.0, 2.0, "alike", n),
        Change("84 cases, alike in both conditions", 84, 1, 1.0, 2.0, "alike", n),
        Change("20 clusters of 4 cases, twice the amount", 20, 4, 1.0, 2.0, "clusters", n),
        Change("8 clusters of 5 cases, twice the amount", 8, 5, 1.0, 2.0, "clusters", n),
        *(
            Change(f"{cases} cases x {repeats} repeats, run effect {100 * sd:.0f} points",
                   cases, repeats, 0.5, sd, "runs", n)
            for cases, repeats in ((14, 3), (30, 3), (30, 5))
            for sd in (0.0, 0.1, 0.25)
        ),
        *(
            Change(f"{clusters} clusters of {size}, {broken:.0%} break to 0, spread {sd:g}",
                   clusters, size, broken, sd, "scores", min(n, 400))
            for clusters, size in ((14, 1), (14, 3), (30, 3))
            for broken, sd in ((0.0, 0.03), (0.0, 0.2), (0.07, 0.03))
        ),
        *(
            Change(f"{prompts} prompts x {attempts} attempts, recall {old:.0%} and {new:.0%}",
                   prompts, attempts, old, new, "prompts", min(n, 200))
            for prompts, attempts, old, new in ((10, 3, 0.5, 0.8), (20, 2, 0.6, 0.6),
                                                (20, 3, 0.85, 0.7), (40, 1, 0.5, 0.7))
        ),
        *(
            Change(f"{clusters} clusters of {size} under each condition, rates {old:.0%} and "
                   f"{new:.0%}", clusters, size, old, new, "unpaired", min(n, 100))
            for clusters, size, old, new in ((8, 3, 0.3, 0.7), (15, 3, 0.5, 0.5), (15, 5, 0.2, 0.4))
        ),
        Change("14 cases, twice the amount, a fifth is 0", 14, 1, 1.0, 2.0, "zeros", n),
        Change("84 cases, twice the amount, a fifth is 0", 84, 1, 1.0, 2.0, "zeros", n),
    ]  # fmt: skip


def run(cell: Change) -> Rows:
    """Return the share of studies with a shown change, and the coverage of each interval."""
    rng = np.random.default_rng(int(digest(asdict(cell))[:8], 16))
    of_frames = {"runs": _with_runs, "scores": _scores, "prompts": _prompts, "unpaired": _unpaired}
    if cell.kind in of_frames:
        studies = of_frames[cell.kind](rng, cell)
    else:
        of_kind = _verdicts if cell.kind in OF_VERDICTS else _amounts
        studies = pd.DataFrame([of_kind(rng, cell) for _ in range(cell.runs)], dtype=float)
    shares = studies.mean()
    names = ("shown", "shown_before", "coverage", "coverage_before", "coverage_ratio")
    return [
        {"design": cell.design, "kind": cell.kind, "studies": cell.runs}
        | dict(zip(names, map(float, shares), strict=True))
    ]


def _verdicts(rng: Rng, cell: Change) -> tuple[float, ...]:
    """Draw a study of verdicts; before, only the test that exchanges versions decided."""
    shape, case = (cell.cases, cell.size), np.repeat(np.arange(cell.cases), cell.size)
    chances: list[Any] = [cell.old, cell.new]
    if cell.kind == "clumped":  # the error rate of each version differs from case to case
        spread = 1 / CORRELATION - 1
        chances = [rng.beta(p * spread, (1 - p) * spread, (cell.cases, 1)) for p in chances]
    old, new = (rng.random(shape) < chance for chance in chances)
    if cell.kind == "whole":
        new = np.broadcast_to(rng.random((cell.cases, 1)) < cell.new, shape)
    sides = {"new": new.ravel().astype(float), "old": old.ravel().astype(float)}
    (change,) = changes_over_items([pd.DataFrame(sides | {"cluster": case})], ci_level=0.95)
    midp = clustered_midp(new.ravel() & ~old.ravel(), old.ravel() & ~new.ravel(), case).p_value
    covers = change.low <= cell.new - cell.old <= change.high
    return change.p_value < 0.05, midp < 0.05, covers, np.nan, np.nan


def _amounts(rng: Rng, cell: Change) -> tuple[float, ...]:
    """Draw a study of lognormal amounts; the interval before is that of t."""
    n, clusters = cell.cases * cell.size, np.repeat(np.arange(cell.cases), cell.size)
    # standard deviations, on the log scale, of what the amounts of a case share, and of the rest
    sd, own_sd = {"clusters": (0.7, 1.0), "alike": (1.0, 0.3)}.get(cell.kind, (0.0, 1.0))
    shared = sd * rng.normal(size=cell.cases)[clusters]
    noise = own_sd * rng.normal(size=(2, n))
    level = np.exp(-(sd**2 + own_sd**2) / 2)  # so that the mean amounts are `old` and `new`
    old, new = (mean * level * np.exp(shared + part)
                for mean, part in zip((cell.old, cell.new), noise, strict=True))  # fmt: skip
    mean_old = cell.old
    if cell.kind == "zeros":
        old, mean_old = np.where(rng.random(n) < 0.2, 0.0, old), 0.8 * cell.old
    change, plain = amount_change(new, old, clusters), cr2_mean(new - old, clusters)
    ratio = ratio_of_means(new, old, clusters)
    true = cell.new - mean_old
    covers = [float(i.low <= true <= i.high) for i in (change, plain)]
    right = float(ratio.low <= cell.new / mean_old <= ratio.high)
    return (change.p_value < 0.05, plain.p_value < 0.05, *covers,
            np.nan if np.isnan(ratio.low) else right)  # fmt: skip


def _with_runs(rng: Rng, cell: Change) -> pd.DataFrame:
    """Draw studies without an effect of the skill; ``shown`` is a run effect that was found."""
    shape = (cell.runs, cell.cases, 2, cell.size)
    chance = cell.old + 0.15 * rng.normal(size=(cell.runs, cell.cases, 1, 1))
    chance = chance + cell.new * rng.normal(size=(cell.runs, 1, 2, cell.size))
    outcomes = _outcomes(rng.random(shape) < chance).assign(**{NAMED_REPEATS: True})
    after, before = (
        paired(frame, by="skill") for frame in (outcomes, outcomes.drop(columns=NAMED_REPEATS))
    )
    covers = [each["ci_low"].le(0) & each["ci_high"].ge(0) for each in (after, before)]
    found = after["note"].str.contains(RUNS_DIFFER, regex=False)
    nothing = pd.Series(np.nan, found.index)
    return pd.concat([found, nothing, *covers, nothing], axis=1).astype(float)


def _outcomes(values: Any, clusters: int | None = None) -> pd.DataFrame:
    """Return an outcomes frame of values by study, case, condition and repeat.

    Values are passes or, if they are not truth values, scores. With ``clusters``, as many clusters
    have equal numbers of cases.
    """
    study, case, arm, repeat = (axis.ravel() for axis in np.indices(values.shape))
    flat = values.ravel()
    is_score = values.dtype != bool
    passed = pd.Series(pd.NA, range(len(flat))) if is_score else pd.Series(flat)
    facts = {} if clusters is None else {"family": (case * clusters // values.shape[1]).astype(str)}
    return pd.DataFrame(
        {
            "skill": pd.Series(study).astype("str"),
            "case_id": pd.Series(case).astype("str"),
            "condition": np.where(arm, "skill", "baseline"),
            "repeat": repeat + 1,
            "passed": passed.astype("boolean"),
            "score": flat if is_score else np.nan,
            "share_passed": passed.astype("Float64").astype("float64"),
            "n_checks": 1,
            "n_passed": passed.astype("boolean").fillna(False).astype(int),
            "n_missing": int(is_score),
            **facts,
        }
    )


def _covered(rows: pd.DataFrame, true: float) -> pd.Series:
    return (rows["ci_low"].le(true + 1e-12) & rows["ci_high"].ge(true - 1e-12)).astype(float)


def _scores(rng: Rng, cell: Change) -> pd.DataFrame:
    """Draw studies of scores; the interval before, and the ratio's, are of the mean of the skill.

    That mean is the ratio's column; before, it had a t interval.
    """
    shape = (cell.runs, cell.cases, cell.size, 2, 3)
    level = 0.5 + 0.1 * rng.uniform(-1, 1, (cell.runs, cell.cases, 1, 1, 1))
    # a spread without values beyond the bounds, so that the mean is known
    scores = level + cell.new * math.sqrt(3) * rng.uniform(-1, 1, shape)
    whole = rng.random((cell.runs, cell.cases)) < cell.old
    scores[whole, :, 1] = 0.0
    flat = scores.reshape(cell.runs, cell.cases * cell.size, 2, 3)
    outcomes = _outcomes(flat, cell.cases).assign(linked_by="family")
    how: dict[str, Any] = {"by": "skill", "value": "score", "bounds": (0, 1)}
    change = paired(outcomes, **how)
    means, by_t = (
        rates(outcomes[outcomes["condition"].eq("skill")], **how, interval=rule)
        for rule in ("adaptive", "t")
    )
    true = 0.5 * (1 - cell.old)
    return pd.concat(
        [
            change["p_value"].lt(0.05).astype(float),
            pd.Series(np.nan, change.index),
            _covered(change, true - 0.5),
            _covered(by_t, true),
            _covered(means, true),
        ],
        axis=1,
    )


def _prompts(rng: Rng, cell: Change) -> pd.DataFrame:
    """Draw studies of two descriptions of a skill; the ratio's column is the recall of the new."""
    shape = (cell.runs, cell.cases, 2, cell.size)
    chance = np.array([cell.old, cell.new])[:, None] + 0.15 * rng.uniform(
        -1, 1, (cell.runs, cell.cases, 1, 1)
    )
    fired = _outcomes(rng.random(shape) < chance)
    calls = pd.DataFrame(
        {
            "attempt_id": fired.index.astype("str"),
            **{name: fired[name] for name in ("skill", "case_id", "condition")},
            "offered": fired["skill"],
            "invoked": fired["passed"],
            "should_invoke": True,
        }
    )
    change = triggers.compare(calls, by="offered", reference="baseline")
    recall = triggers.detection(calls, by="offered")
    change = change[change["kind"].eq("all") & change["measure"].eq("delta_recall")]
    recall = recall[recall["kind"].eq("all") & recall["measure"].eq("recall")]
    recall = recall[recall["condition"].eq("skill")].reset_index(drop=True)
    change = change.reset_index(drop=True)
    nothing = pd.Series(np.nan, change.index)
    shown = change["p_value"].lt(0.05).astype(float)
    covers = [_covered(change, cell.new - cell.old), nothing, _covered(recall, cell.new)]
    return pd.concat([shown, nothing, *covers], axis=1)


def _unpaired(rng: Rng, cell: Change) -> pd.DataFrame:
    """Draw studies whose conditions have different clusters of cases, with two attempts each."""
    n = cell.cases * cell.size
    spread = 0.15 * rng.uniform(-1, 1, (cell.runs, 2 * cell.cases, 1))
    chance = np.repeat(spread, cell.size, axis=1)
    chance = chance + np.repeat([cell.old, cell.new], n)[None, :, None]
    passed = rng.random((cell.runs, 2 * n, 2)) < chance
    outcomes = _outcomes(passed[:, :, None, :], 2 * cell.cases)
    is_new = outcomes["case_id"].astype(int) >= n
    outcomes["condition"] = np.where(is_new, "skill", "baseline")
    change = unpaired(outcomes.assign(linked_by="family"), by="skill")
    nothing = pd.Series(np.nan, change.index)
    shown = change["p_value"].lt(0.05).astype(float)
    covers = _covered(change, cell.new - cell.old)
    return pd.concat([shown, nothing, covers, nothing, nothing], axis=1)


def table(results: Sequence[tuple[Change, Rows]]) -> pd.DataFrame:
    """Tabulate the designs; ``fails`` marks too low coverage and too many false changes."""
    frame = pd.DataFrame([row for _, rows in results for row in rows])
    least = np.where(frame["kind"].eq("zeros"), ZEROS, COVERAGE)
    many = deviations(3 * len(frame)) / np.sqrt(frame["studies"])
    low = frame["coverage"] < least - many * np.sqrt(least * (1 - least))
    ratio = frame["coverage_ratio"] < COVERAGE - many * np.sqrt(COVERAGE * (1 - COVERAGE))
    most = MOST_SHOWN + many * np.sqrt(MOST_SHOWN * (1 - MOST_SHOWN))
    # a run effect that is not found is not allowed for: only too many false alarms fail
    runs = frame["kind"].eq("runs")
    alarms = FALSE_ALARMS + many * np.sqrt(FALSE_ALARMS * (1 - FALSE_ALARMS))
    false = frame["design"].str.endswith("run effect 0 points") & (frame["shown"] > alarms)
    false |= frame["kind"].eq("whole") & (frame["shown"] > most)
    return frame.assign(fails=(low & ~runs) | ratio | false)


def study(runs: int, out: Path, *, jobs: int = -1, docs: Path | None = None) -> pd.DataFrame:
    """Run all designs and write their table, into the docs as well if there are any."""
    from benchmarks.validity.cells import work  # which knows this kind of cell

    results, _ = work(cells(runs), run, out / "cells", jobs=jobs, title="changes")
    designs = table(results)
    for folder in [out, *([docs / "intervals"] if docs is not None else [])]:
        folder.mkdir(parents=True, exist_ok=True)
        designs.to_csv(folder / "changes.csv", index=False, float_format="%.5g")
    return designs


def report(designs: pd.DataFrame) -> int:
    """Print whether intervals cover and changes are rarely shown by mistake; return 1 if not."""
    failing = designs.loc[designs["fails"], "design"].tolist()
    lowest = designs.loc[designs["kind"].ne("runs"), "coverage"].min()
    print(
        f"{'FAILS' if failing else 'holds'}: changes of verdicts and amounts: lowest coverage "
        f"{lowest:.1%}; fail: {'; '.join(failing) or 'none'}"
    )
    return int(bool(failing))
