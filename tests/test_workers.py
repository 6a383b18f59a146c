"""Long computations go to any backend of joblib, and their results do not depend on it."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pandas as pd

import skillcomp as sc

ROOT = Path(__file__).resolve().parent.parent


def computed() -> list[pd.DataFrame]:
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 600), rng.normal(size=600)
    ratings = rng.integers(0, 2, (400, 3))
    stated = {"omega2": 0.05, "sigma2": 0.15, "baseline_rate": 0.4, "n_studies": 200}
    intervals = [
        sc.stats.bootstrap_auc(labels, scores, clusters=np.arange(600) // 3, n_resamples=9000),
        sc.stats.krippendorff_alpha(ratings, n_resamples=9000),
    ]
    return [
        pd.DataFrame(intervals),
        sc.planning.power_curve(sizes=[0.1, 0.2], n_cases=[14, 28], **stated),
        sc.planning.cases_needed(size=[0.2, 0.3], **stated),
    ]


def test_results_do_not_depend_on_the_workers() -> None:
    alone = computed()
    with joblib.parallel_config(n_jobs=2):
        for frame, expected in zip(computed(), alone, strict=True):
            pd.testing.assert_frame_equal(frame, expected, check_exact=True)


def test_no_computation_names_a_backend() -> None:
    files = [path for name in ("skillcomp", "benchmarks") for path in (ROOT / name).rglob("*.py")]
    lines = [line for path in files for line in path.read_text("utf-8").splitlines()]
    assert [line for line in lines if "backend=" in line and "`" not in line] == []
