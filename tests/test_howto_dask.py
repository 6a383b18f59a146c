"""Scores of texts in parquet parts: those of one call, with any workers and flat memory."""

from __future__ import annotations

from pathlib import Path

import joblib
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

STORE = sc.datasets.load("pilot")


@pytest.fixture(scope="module")
def pilot() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    attempts, cases = sc.frames.attempts(STORE), sc.frames.cases(STORE)
    attempts.loc[3, "answer"] = pd.NA
    how = {"skills": STORE.skills, "cases": cases}
    return attempts, cases, sc.overlap.score(attempts, **how)


def parts_of(attempts: pd.DataFrame, folder: Path, n: int) -> Path:
    folder.mkdir()
    for at in range(n):
        size = -(-len(attempts) // n)
        attempts.iloc[at * size : (at + 1) * size].to_parquet(folder / f"{at}.parquet")
    return folder


def test_parts_give_the_frame_of_one_call_bit_by_bit(
    pilot: tuple[pd.DataFrame, ...], tmp_path: Path
) -> None:
    attempts, cases, whole = pilot
    how = {"skills": STORE.skills, "cases": cases}
    files = sc.overlap.score_files(
        parts_of(attempts, tmp_path / "in", 3), out=tmp_path / "a", **how
    )
    assert [file.name for file in files] == [f"part-00000{at}.parquet" for at in range(3)]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a"), whole, check_exact=True)
    with pytest.raises(FrameError, match=r"part-000000\.parquet is no result of these parts and"):
        sc.overlap.score_files(tmp_path / "in", out=tmp_path / "a", ngram=3, **how)
    with pytest.raises(FrameError, match=r"is not empty: 0\.parquet is no result"):
        sc.overlap.score_files(tmp_path / "in", out=tmp_path / "in", **how)
    with pytest.raises(FrameError, match=r"0\.parquet: texts, column 'skill'.*not in skills"):
        sc.overlap.score_files(tmp_path / "in", out=tmp_path / "b", **{**how, "skills": {}})
    with pytest.raises(FrameError, match="with no parquet file"):
        sc.overlap.score_files([], out=tmp_path / "c", **how)
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(FrameError, match=r"x\.parquet: "):
        sc.overlap.score_files(tmp_path / "x.parquet", out=tmp_path / "d", **how)


def test_a_call_that_was_stopped_goes_on_with_the_parts_that_are_missing(
    pilot: tuple[pd.DataFrame, ...], tmp_path: Path
) -> None:
    attempts, cases, whole = pilot
    parts, out = parts_of(attempts, tmp_path / "in", 3), tmp_path / "a"
    broken = attempts.iloc[-5:].assign(skill="unknown")
    last = pd.read_parquet(parts / "2.parquet")
    broken.to_parquet(parts / "2.parquet")
    how = {"skills": STORE.skills, "cases": cases, "out": out}
    with pytest.raises(FrameError, match=r"2\.parquet: texts, column 'skill'"):
        sc.overlap.score_files(parts, **how)
    finished = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    assert sorted(file.name for file in finished) == [f"part-00000{at}.parquet" for at in (0, 1)]
    (out / ".unfinished-part-000002-x").write_text("cut off by a ki")
    pd.read_parquet(out)  # passes over the file of a worker that was killed
    last.to_parquet(parts / "2.parquet")
    sc.overlap.score_files(parts, **how)
    assert len(list(out.iterdir())) == 3
    assert {file: file.stat().st_mtime_ns for file in finished} == finished
    pd.testing.assert_frame_equal(pd.read_parquet(out), whole, check_exact=True)
    pd.concat([last, attempts.iloc[:1]]).to_parquet(parts / "2.parquet")
    with pytest.raises(FrameError, match=r"attempt_id '.*' occurs twice, in .*0\.par.*2\.parquet;"):
        sc.overlap.score_files(parts, **how)
    pd.DataFrame({"passage_id": ["p"], "text": "t"}).to_parquet(parts / "2.parquet")
    with pytest.raises(FrameError, match=r"attempt_id in .*0\.parquet, passage_id in .*2\.parq"):
        sc.overlap.score_files(parts, **how)


def test_a_part_of_many_texts_is_read_in_batches(tmp_path: Path) -> None:
    texts = pd.DataFrame({"passage_id": [f"p{at}" for at in range(10_050)]})
    texts = texts.assign(
        skill="s", level="fresh", text="Narrow unknown values, " + texts["passage_id"]
    )
    texts.loc[10_040, "text"] = "Say unknown."
    texts.to_parquet(tmp_path / "x.parquet")
    how = {"skills": {"s": "Always narrow unknown values."}, "ngram": 3}
    (file,) = sc.overlap.score_files(tmp_path / "x.parquet", out=tmp_path / "a", **how)
    whole = sc.overlap.score(texts, **how)
    pd.testing.assert_frame_equal(pd.read_parquet(file), whole, check_exact=True)


@pytest.mark.filterwarnings("ignore")  # of the cluster, about ports and its scratch folder
def test_the_workers_of_a_cluster_return_the_same_rows(
    pilot: tuple[pd.DataFrame, ...], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    attempts, cases, whole = pilot
    parts = parts_of(attempts, tmp_path / "in", 4)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(local_directory=str(tmp_path), **settings) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        sc.overlap.score_files(parts, skills=STORE.skills, cases=cases, out=tmp_path / "a")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a"), whole, check_exact=True)
