"""Speed of the statistics beside pandas, statsmodels and a Python loop, in the same run.

``python -m benchmarks.stats`` prints three tables: paired deltas by skill from a million verdicts,
CR2 over ten thousand clusters, and 4,000 studies of 84 cases at once; ``--quick`` takes a tenth of
the verdicts. Results are compared before anything is printed. Seconds are those of the processor:
every way is one thread, and what else the machine does is not its own.
"""

from __future__ import annotations

import argparse
import os

# The arrays are small: a second BLAS thread would only add to the processor's time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit

from skillcomp import deltas, frames, simulate
from skillcomp.stats import DELTAS, bounded_mean, bounded_mean_many, cr2

R = TypeVar("R")
N_SKILLS, CASES_PER_SKILL, N_REPEATS, N_CHECKS = 100, 100, 5, 10
N_CLUSTERS, ROWS_PER_CLUSTER = 10_000, 5
N_STUDIES, CASES_PER_STUDY = 4_000, [14] * 6
MAX_GIB, MAX_SECONDS = 2.0, 1.0
# bare neither checks its frame nor has limits that hold; it is what such a way costs at least
MAX_OVER_BARE = 3.0
# of a loop: with one attempt the studies share few tables, with more the limits themselves cost
MIN_RATIO = {1: 50.0, 3: 10.0}
TOLERANCE = 1e-10
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Line:
    """One measured figure; ``reached`` is None where there is nothing to reach."""

    what: str
    figure: str
    target: str = ""
    reached: bool | None = None

    def __str__(self) -> str:
        """Return the line of the table."""
        verdict = {None: "", True: "reached", False: "NOT REACHED"}[self.reached]
        return f"  {self.what:<58} {self.figure:>12}   {self.target} {verdict}".rstrip()


def verdicts(n_skills: int = N_SKILLS, *, seed: int = 0) -> pd.DataFrame:
    """Return verdicts of ten checks on five attempts a case under two conditions."""
    rng = np.random.default_rng(seed)
    n_cases = n_skills * CASES_PER_SKILL
    shape = (n_cases, 2, N_REPEATS, N_CHECKS)
    case, condition, repeat, check = (axis.ravel() for axis in np.indices(shape))
    skills = _texts(f"skill-{s:03d}" for s in range(n_skills))
    case_ids = _texts(f"skill-{c // CASES_PER_SKILL:03d}/{c}" for c in range(n_cases))
    conditions, checks = (
        _texts(["baseline", "skill"]),
        _texts(f"check_{k}" for k in range(N_CHECKS)),
    )
    attempts = _texts(
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
            **{name: _texts([text]).take(same) for name, text in constant.items()},
            "grader_version": _texts(["1"]).take(same),
            "round": pd.array(np.ones(len(case), dtype=np.int64), dtype="Int64"),
            "passed": pd.array(rng.random(len(case)) < expit(logits), dtype="boolean"),
        }
    )


def _texts(values: Any) -> Any:
    return pd.array(list(values), dtype="str")


def ours(given: pd.DataFrame) -> pd.DataFrame:
    """Check, reduce and compare; ``outcomes`` calls ``frames.check`` on the verdicts."""
    return deltas.paired(frames.outcomes(given), by=["skill"])


def bare(given: pd.DataFrame, attempt: str = "attempt_id") -> pd.DataFrame:
    """Do the same with pandas groupby, and OLS with the case as cluster in each skill."""
    keys = ["skill", "case_id", "condition", attempt]
    attempts = given.groupby(keys)["passed"].all().reset_index()
    rows = []
    for skill, part in attempts.groupby("skill"):
        design = sm.add_constant(part["condition"].eq("skill").to_numpy(dtype=float))
        cluster = {"groups": pd.factorize(part["case_id"])[0]}
        model = sm.OLS(part["passed"].to_numpy(dtype=float), design)
        fit = model.fit(cov_type="cluster", cov_kwds=cluster, use_t=True)
        rows.append((skill, fit.params[1], *fit.conf_int()[1]))
    return pd.DataFrame(rows, columns=["skill", "estimate", "ci_low", "ci_high"])


def require_equal(found: Any, expected: Any) -> None:
    """Raise unless two ways agree to 1e-10."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def timed(work: Callable[[], R]) -> tuple[float, R]:
    """Return processor seconds and the result."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def peak_memory(n_skills: int) -> float:
    """Return the peak GiB of this process after our way, data and libraries included."""
    ours(verdicts(n_skills))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 2**30


def frames_to_deltas(n_skills: int = N_SKILLS) -> list[Line]:
    """Measure the way from verdicts to deltas; the two take turns."""
    # First, while this process is small: a child's peak starts from its parent's.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        peak = alone.submit(peak_memory, n_skills).result()
    given = verdicts(n_skills)
    require_equal(ours(given)["estimate"], bare(given)["estimate"])
    ways: list[Callable[[], Any]] = [
        lambda: ours(given),
        lambda: bare(given),
        lambda: bare(given, "repeat"),
        lambda: frames.check(given, "verdicts"),
    ]
    spent = [[timed(way)[0] for way in ways] for _ in range(ROUNDS)]
    own, peer, quicker, checking = np.min(spent, axis=0).tolist()
    # what a call costs whatever the data would decide about fewer verdicts than those asked for
    reached = own <= MAX_OVER_BARE * peer if n_skills >= N_SKILLS else None
    return [
        Line(f"{len(given):,} verdicts to deltas of {n_skills} skills: skillcomp", f"{own:.3f} s"),
        Line("  of this the check of the verdicts", f"{checking:.3f} s"),
        Line("pandas groupby and statsmodels OLS, no check", f"{peer:.3f} s"),
        Line("  attempts told apart by repeat alone (one agent)", f"{quicker:.3f} s"),
        Line("  skillcomp over bare", f"{own / peer:.2f} x", f"at most {MAX_OVER_BARE:g}", reached),
        Line("  peak memory of a process", f"{peak:.2f} GiB", f"below {MAX_GIB:g}", peak < MAX_GIB),
    ]


Regression = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def regression(n_clusters: int = N_CLUSTERS, *, seed: int = 0) -> Regression:
    """Return response, design and clusters of a linear model with an effect per cluster."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), ROWS_PER_CLUSTER)
    far = rng.random(len(clusters)) < 0.5
    design = np.column_stack([np.ones(len(clusters)), far, rng.normal(size=len(clusters))])
    effect = rng.normal(size=n_clusters)[clusters]
    return design @ [0.2, -0.1, 0.05] + effect + rng.normal(size=len(clusters)), design, clusters


def many_clusters(n_clusters: int = N_CLUSTERS) -> list[Line]:
    """Measure CR2 with its degrees of freedom beside the cluster covariance of statsmodels."""
    y, design, clusters = regression(n_clusters)
    kinds = {"cov_type": "cluster", "cov_kwds": {"groups": clusters, "use_correction": False}}
    fit = sm.OLS(y, design).fit(**kinds)
    require_equal(cr2(y, design, clusters).coefficients, fit.params)
    require_equal(cr2(y, design, clusters, kind="CR0").se, fit.bse)
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
    """Measure vectorised paired intervals beside a loop over a tenth of the studies, scaled."""
    lines = []
    for attempts, nested in ((1, False), (3, False), (3, True)):
        drawn = simulate.counts(
            n_runs=n_studies, n_skills=6, n_cases=CASES_PER_STUDY, n_repeats=attempts, seed=1
        )
        clusters = drawn.clusters if nested else None
        tenth = range(0, n_studies, 10)

        def at_once(
            drawn: simulate.Counts = drawn, k: int = attempts, groups: Any = clusters
        ) -> NDArray[np.float64]:
            differences = (drawn.skill - drawn.baseline) / k
            many = bounded_mean_many(differences, groups, quantity=DELTAS, null=0.0)
            return np.column_stack([many.estimate, many.low, many.high, many.p_value])

        def loop(
            drawn: simulate.Counts = drawn,
            k: int = attempts,
            groups: Any = clusters,
            tenth: range = tenth,
        ) -> NDArray[np.float64]:
            rows = ((drawn.skill[tenth] - drawn.baseline[tenth]) / k).astype(float)
            found = (bounded_mean(row, groups, quantity=DELTAS, null=0.0) for row in rows)
            return np.array([(one.estimate, one.low, one.high, one.p_value) for one in found])

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three comparisons; 1 when a target was not reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stats")
    parser.add_argument("--quick", action="store_true", help="a tenth of the verdicts")
    scale = 10 if parser.parse_args(argv).quick else 1
    print(f"stats: results equal to {TOLERANCE:g}; processor time, best of {ROUNDS}")
    reached = True
    for lines in (frames_to_deltas(N_SKILLS // scale), many_clusters(), many_studies()):
        print("\n".join(map(str, lines)), flush=True)
        reached &= all(line.reached is not False for line in lines)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
