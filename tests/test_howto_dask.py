"""Copied text per partition of a dask.dataframe: the rows of one call, in flat memory."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import skillcomp as sc

distributed = pytest.importorskip("distributed")
# of the cluster: on ports, its scratch folder, and workers that a busy machine starts slowly
pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "howto" / "million-rows.md"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The client of a cluster of one worker."""
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    folder = str(tmp_path_factory.mktemp("cluster"))
    with (
        distributed.LocalCluster(local_directory=folder, **settings) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def scored(parts: list[pd.DataFrame], folder: Path, monkeypatch: Any, **names: Any) -> pd.DataFrame:
    """Run the code of the page on parts of an attempts frame, and read its result."""
    (folder / "answers").mkdir(parents=True)
    monkeypatch.chdir(folder)
    for at, part in enumerate(parts):
        part.to_parquet(f"answers/{at:03d}.parquet")
    code = re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[-1]
    exec(compile(code, str(PAGE), "exec"), dict(names))
    return pd.read_parquet("shared/")


def test_the_rows_of_the_page_are_those_of_one_call_bit_by_bit(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sc.datasets.load("pilot")
    attempts, cases = sc.frames.attempts(store), sc.frames.cases(store)
    attempts.loc[3, "answer"] = pd.NA
    parts = [attempts.iloc[at : at + 50] for at in range(0, len(attempts), 50)]
    assert 1 < len(parts) < 10  # the files of the result are then read in the order of the parts
    rows = scored(parts, tmp_path, monkeypatch, skills=store.skills, cases=cases)
    whole = sc.overlap.score(attempts, skills=store.skills, cases=cases, ngram=[3, 6])
    pd.testing.assert_frame_equal(rows, whole, check_exact=True)


@pytest.mark.slow  # `make outputs` runs it
def test_the_memory_of_a_worker_does_not_grow_with_the_number_of_answers(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(5000)])
    skills = {"s": " ".join(rng.choice(words, 1000))}
    answers = [" ".join(row) for row in rng.choice(words, (2000, 200))]
    part = pd.DataFrame({"skill": "s", "case_id": "s/1", "condition": "skill", "answer": answers})
    cases = pd.DataFrame({"skill": ["s"], "case_id": ["s/1"], "prompt": ["Which words?"]})
    parts = [part.assign(attempt_id=[f"{at}/{k}" for k in range(2000)]) for at in range(40)]
    text = sum(part["answer"].str.len().sum() for part in parts) / 2**20
    peaks = []
    for n in (8, 40):
        rows = scored(parts[:n], tmp_path / str(n), monkeypatch, skills=skills, cases=cases)
        assert len(rows) == 2 * 2000 * n
        (peak,) = client.run(worker_peak).values()
        peaks.append(peak)
    # the text of 32 more parts alone would be four fifths of all text
    assert text > 50 and peaks[1] - peaks[0] < text / 4


def worker_peak() -> float:
    """Return the peak memory of a worker in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def test_the_workers_of_a_cluster_plan_as_one_process_does(client: Any) -> None:
    stated = {"omega2": 0.05, "sigma2": 0.15, "baseline_rate": 0.4, "n_studies": 200}
    alone = sc.planning.power_curve(sizes=[0.1, 0.2], n_cases=[14, 28], **stated)
    with joblib.parallel_config(backend="dask"):
        spread = sc.planning.power_curve(sizes=[0.1, 0.2], n_cases=[14, 28], **stated)
    pd.testing.assert_frame_equal(spread, alone, check_exact=True)
