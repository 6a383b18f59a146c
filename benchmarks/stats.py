"""Compare the speed of the statistics with pandas, statsmodels and a Python loop.

``python -m benchmarks.stats`` prints five tables: paired deltas by skill from a million verdicts,
CR2 over ten thousand clusters, 4,000 studies of 84 cases at once, win rates from 50,000 votes, and
all pairs of ten graders; ``--quick`` takes a tenth of the verdicts and votes. The results must
agree before anything is printed. Times are CPU seconds; every method uses one thread.
"""

from __future__ import annotations

import argparse
import os

# the arrays are small: a second BLAS thread would only add CPU time
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.weightstats import DescrStatsW

from benchmarks import simulated
from benchmarks.many_studies import bounded_mean_many
from skillcomp import bias, deltas, frames, from_frame, reliability
from skillcomp.stats import DELTAS, bounded_mean
from skillcomp.stats.clusters_and_amounts import cr2

R = TypeVar("R")
N_SKILLS, CASES_PER_SKILL, N_REPEATS, N_CHECKS = 100, 100, 5, 10
N_CLUSTERS, ROWS_PER_CLUSTER = 10_000, 5
N_VOTES, MAX_VOTES = 50_000, 20.0
N_STUDIES, CASES_PER_STUDY = 4_000, [14] * 6
MAX_GIB, MAX_SECONDS, MAX_CONTRAST = 2.0, 1.0, 5.0
# the bare way checks no frame and its limits are too narrow: it is a lower bound of the cost
MAX_OVER_BARE = 2.5
# over a loop; with one attempt per case many studies share a table, which saves more
MIN_RATIO = {1: 50.0, 3: 10.0}
TOLERANCE = 1e-10
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Line:
    """One measured figure; ``reached`` is None if it has no target."""

    what: str
    figure: str
    target: str = ""
    reached: bool | None = None

    def __str__(self) -> str:
        """Format the line of the table."""
        verdict = {None: "", True: "reached", False: "NOT REACHED"}[self.reached]
        return f"  {self.what:<58} {self.figure:>12}   {self.target} {verdict}".rstrip()


def verdicts(n_skills: int = N_SKILLS, *, seed: int = 0) -> pd.DataFrame:
    """Simulate verdicts: ten checks, five attempts per case, two conditions."""
    rng = np.random.default_rng(seed)
    n_cases = n_skills * CASES_PER_SKILL
    shape = (n_cases, 2, N_REPEATS, N_CHECKS)
    case, condition, repeat, check = (axis.ravel() for axis in np.indices(shape))
    skills = _text_array(f"skill-{s:03d}" for s in range(n_skills))
    case_ids = _text_array(f"skill-{c // CASES_PER_SKILL:03d}/{c}" for c in range(n_cases))
    conditions, checks = (
        _text_array(["baseline", "skill"]),
        _text_array(f"check_{k}" for k in range(N_CHECKS)),
    )
    attempts = _text_array(
        f"{c}/{name}/{r + 1}" for c in case_ids for name in conditions for r in range(N_REPEATS)
    )
    logits = 2.5 + rng.normal(size=n_cases)[case] + 0.6 * condition
    same = np.zeros(len(case), dtype=np.intp)
    constant = {"check_kind": "positive", "goal": "outcome", "grader": "judge", "status": "ok"}
    return pd.DataFrame(
        {
            "attempt_id": attempts.take(np.arange(len(case)) // N_CHECKS),
            "skill": skills.take(case // CASES_PER_SKILL),
            "case_id": case_ids.take(case),
            "condition": conditions.take(condition),
            "repeat": pd.array(repeat + 1, dtype="Int64"),
            "check_id": checks.take(check),
            **{name: _text_array([text]).take(same) for name, text in constant.items()},
            "grader_version": _text_array(["1"]).take(same),
            "round": pd.array(np.ones(len(case), dtype=np.int64), dtype="Int64"),
            "passed": pd.array(rng.random(len(case)) < expit(logits), dtype="boolean"),
        }
    )


def _text_array(values: Any) -> Any:
    return pd.array(list(values), dtype="str")


def ours(judged: pd.DataFrame) -> pd.DataFrame:
    """Estimate deltas by skill; ``outcomes`` also checks the verdicts."""
    return deltas.paired(frames.outcomes(judged), by=["skill"])


def bare(judged: pd.DataFrame, attempt: str = "attempt_id") -> pd.DataFrame:
    """Estimate them with pandas groupby and, in each skill, OLS with cases as clusters."""
    keys = ["skill", "case_id", "condition", attempt]
    attempts = judged.groupby(keys)["passed"].all().reset_index()
    rows = []
    for skill, part in attempts.groupby("skill"):
        design = sm.add_constant(part["condition"].eq("skill").to_numpy(dtype=float))
        cluster = {"groups": pd.factorize(part["case_id"])[0]}
        model = sm.OLS(part["passed"].to_numpy(dtype=float), design)
        fit = model.fit(cov_type="cluster", cov_kwds=cluster, use_t=True)
        rows.append((skill, fit.params[1], *fit.conf_int()[1]))
    return pd.DataFrame(rows, columns=["skill", "estimate", "ci_low", "ci_high"])


def require_equal(actual: Any, expected: Any) -> None:
    """Raise AssertionError unless two results agree to 1e-10."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def timed(work: Callable[[], R]) -> tuple[float, R]:
    """Return CPU seconds and the result."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def peak_memory(n_skills: int) -> float:
    """Return the peak memory of this process in GiB, with data and libraries."""
    ours(verdicts(n_skills))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**30


def frames_to_deltas(n_skills: int = N_SKILLS) -> list[Line]:
    """Measure the steps from verdicts to deltas; the methods alternate."""
    # first, while this process is small: the peak of a child starts at that of its parent
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        peak = alone.submit(peak_memory, n_skills).result()
    judged = verdicts(n_skills)
    require_equal(ours(judged)["estimate"], bare(judged)["estimate"])
    ways: list[Callable[[], Any]] = [
        lambda: ours(judged),
        lambda: bare(judged),
        lambda: bare(judged, "repeat"),
        lambda: frames.check(judged, "verdicts"),
    ]
    spent = [[timed(way)[0] for way in ways] for _ in range(ROUNDS)]
    own, peer, quicker, checking = np.min(spent, axis=0).tolist()
    # with fewer verdicts the fixed costs of a call would dominate
    reached = own <= MAX_OVER_BARE * peer if n_skills >= N_SKILLS else None
    return [
        Line(f"{len(judged):,} verdicts to deltas of {n_skills} skills: skillcomp", f"{own:.3f} s"),
        Line("  of this the check of the verdicts", f"{checking:.3f} s"),
        Line("pandas groupby and statsmodels OLS, no check", f"{peer:.3f} s"),
        Line("  attempts told apart by repeat alone (one agent)", f"{quicker:.3f} s"),
        Line("  skillcomp over bare", f"{own / peer:.2f} x", f"at most {MAX_OVER_BARE:g}", reached),
        Line("  peak memory of a process", f"{peak:.2f} GiB", f"below {MAX_GIB:g}", peak < MAX_GIB),
    ]


Regression = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def regression(n_clusters: int = N_CLUSTERS, *, seed: int = 0) -> Regression:
    """Simulate response, design and clusters of a linear model with an effect per cluster."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), ROWS_PER_CLUSTER)
    far = rng.random(len(clusters)) < 0.5
    design = np.column_stack([np.ones(len(clusters)), far, rng.normal(size=len(clusters))])
    effect = rng.normal(size=n_clusters)[clusters]
    return design @ [0.2, -0.1, 0.05] + effect + rng.normal(size=len(clusters)), design, clusters


def many_clusters(n_clusters: int = N_CLUSTERS) -> list[Line]:
    """Compare CR2 and its degrees of freedom with the cluster covariance of statsmodels."""
    y, design, clusters = regression(n_clusters)
    kinds = {"cov_type": "cluster", "cov_kwds": {"groups": clusters, "use_correction": False}}
    fit = sm.OLS(y, design).fit(**kinds)
    require_equal([c.estimate for c in cr2(y, design, clusters)], fit.params)
    own = min(timed(lambda: cr2(y, design, clusters))[0] for _ in range(ROUNDS))
    peer = min(timed(lambda: sm.OLS(y, design).fit(**kinds))[0] for _ in range(ROUNDS))
    tracemalloc.start()
    cr2(y, design, clusters)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    square = len(y) ** 2 * 8 / 2**20
    return [
        Line(
            f"CR2 and Satterthwaite df, {n_clusters:,} clusters, {len(y):,} rows",
            f"{own:.3f} s",
            f"below {MAX_SECONDS:g}",
            own < MAX_SECONDS,
        ),
        Line(f"  memory taken (a square matrix: {square:,.0f} MiB)", f"{peak:.0f} MiB"),
        Line("statsmodels cluster covariance, neither CR2 nor df", f"{peer:.3f} s"),
    ]


def many_studies(n_studies: int = N_STUDIES) -> list[Line]:
    """Compare vectorised paired intervals with a loop over a tenth of the studies, scaled."""
    lines = []
    for attempts, nested in ((1, False), (3, False), (3, True)):
        drawn = simulated.counts(
            n_runs=n_studies, n_skills=6, n_cases=CASES_PER_STUDY, n_repeats=attempts, seed=1
        )
        clusters = drawn.clusters if nested else None
        tenth = range(0, n_studies, 10)

        def at_once(
            drawn: simulated.Counts = drawn, k: int = attempts, groups: Any = clusters
        ) -> NDArray[np.float64]:
            differences = (drawn.skill - drawn.baseline) / k
            many = bounded_mean_many(differences, groups, quantity=DELTAS, null=0.0)
            return np.column_stack([many.estimate, many.low, many.high, many.p_value])

        def loop(
            drawn: simulated.Counts = drawn,
            k: int = attempts,
            groups: Any = clusters,
            tenth: range = tenth,
        ) -> NDArray[np.float64]:
            rows = ((drawn.skill[tenth] - drawn.baseline[tenth]) / k).astype(float)
            intervals = (bounded_mean(row, groups, quantity=DELTAS, null=0.0) for row in rows)
            return np.array(
                [
                    (interval.estimate, interval.low, interval.high, interval.p_value)
                    for interval in intervals
                ]
            )

        seconds, one_by_one = timed(loop)
        require_equal(at_once()[:: tenth.step], one_by_one)
        own = min(timed(at_once)[0] for _ in range(ROUNDS))
        ratio = seconds * n_studies / len(tenth) / own
        unit = "6 skills as clusters" if nested else f"{attempts} attempt{'s' * (attempts > 1)}"
        lines.append(
            Line(
                f"{n_studies:,} x {sum(CASES_PER_STUDY)} paired intervals, {unit}: {own:.3f} s",
                f"{ratio:.0f} x",
                f"a loop; at least {MIN_RATIO[attempts]:g}",
                ratio >= MIN_RATIO[attempts],
            )
        )
    return lines


def votes(n: int) -> pd.DataFrame:
    """Draw votes on pairs of twenty systems, one pair per prompt, as an arena stores them."""
    rng = np.random.default_rng(0)
    sides = np.argsort(rng.random((n, 20)), axis=1)[:, :2]
    names = np.array([f"system-{number:02d}" for number in range(20)])
    winner = rng.choice(["model_a", "model_b", "tie"], n, p=[0.4, 0.4, 0.2])
    columns = {"question_id": np.arange(n), "model_a": names[sides[:, 0]]}
    return pd.DataFrame(columns | {"model_b": names[sides[:, 1]], "winner": winner, "judge": "g"})


def many_votes(n_votes: int) -> list[Line]:
    """Compare a table of votes to win rates with groupby and t intervals of statsmodels."""
    table = votes(n_votes)

    def own() -> pd.Series:
        made = from_frame(table)
        return bias.win_rates(made.pairwise, made.attempts).set_index(["side", "opponent"])[
            "estimate"
        ]

    def bare() -> pd.Series:
        result = table["winner"].map({"model_a": 1.0, "tie": 0.5, "model_b": 0.0})
        swap = table["model_a"] > table["model_b"]
        side, opponent = (table[name] for name in ("model_a", "model_b"))
        keys = [side.where(~swap, opponent), opponent.where(~swap, side)]
        parts = result.where(~swap, 1 - result).groupby(keys)
        return parts.apply(lambda x: (DescrStatsW(x).tconfint_mean(), x.mean())[1])

    seconds, ours = timed(own)
    peer, theirs = timed(bare)
    require_equal(ours, theirs)
    what = f"{n_votes:,} votes on 190 pairs of systems to win rates"
    return [
        Line(what, f"{seconds:.2f} s", f"below {MAX_VOTES:g}", seconds < MAX_VOTES),
        Line("groupby and t intervals, no checks, no bounds", f"{peer:.2f} s"),
    ]


def many_graders(n_items: int = 1_000, n_graders: int = 10) -> list[Line]:
    """Compare all pairs of graders with pandas and McNemar's test of statsmodels."""
    rng = np.random.default_rng(2)
    items = [f"s/{at}" for at in range(n_items)]
    truth = rng.random(n_items) < 0.6
    gold = pd.DataFrame({"attempt_id": items, "check_id": "c", "passed": truth})
    about = {"skill": "s", "condition": "skill", "check_id": "c"}
    right = rng.random((n_graders, n_items)) < np.linspace(0.7, 0.95, n_graders)[:, None]
    judged = pd.concat(
        gold.assign(**about, case_id=items, grader=f"g{k}", passed=truth == row)
        for k, row in enumerate(right)
    )

    def ours() -> pd.DataFrame:
        rows = reliability.contrast(judged, gold)
        return rows[rows["measure"].eq("agreement_difference")]

    def bare() -> NDArray[np.float64]:
        wide = judged.pivot(index="case_id", columns="grader", values="passed").loc[items]
        right, rows = wide.eq(truth, axis=0), []
        for first, second in combinations(right.columns, 2):
            table = pd.crosstab(right[first], right[second])
            test = mcnemar(table, exact=True)
            lost, gained = table.loc[True, False], table.loc[False, True]
            at = binom.pmf(lost, lost + gained, 0.5)
            midp = test.pvalue - (at / 2 if lost == gained else at)
            rows.append((right[second].mean() - right[first].mean(), midp))
        return np.array(rows)

    require_equal(ours()[["estimate", "p_value"]].to_numpy(dtype=float), bare())
    own, peer = (min(timed(way)[0] for _ in range(3)) for way in (ours, bare))
    return [
        Line(f"{n_graders} graders on {n_items:,} items, three measures and ranks",
             f"{own:.3f} s", f"below {MAX_CONTRAST:g}", own < MAX_CONTRAST),
        Line("pandas and statsmodels mcnemar, agreement only, no interval", f"{peer:.3f} s"),
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the five comparisons; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stats")
    parser.add_argument("--quick", action="store_true", help="a tenth of the verdicts")
    scale = 10 if parser.parse_args(argv).quick else 1
    print(f"stats: results equal to {TOLERANCE:g}; processor time, best of {ROUNDS}")
    reached = True
    deltas_by_skill, rates = frames_to_deltas(N_SKILLS // scale), many_votes(N_VOTES // scale)
    for lines in (deltas_by_skill, many_clusters(), many_studies(), rates, many_graders()):
        print("\n".join(map(str, lines)), flush=True)
        reached &= all(line.reached is not False for line in lines)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
