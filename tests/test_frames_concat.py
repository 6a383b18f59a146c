"""Several studies in one set of frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import build
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError


@pytest.fixture(scope="module")
def own() -> sc.frames.Frames:
    return build.lenient_judge()


def test_each_study_keeps_its_estimate_and_nothing_is_pooled(own: sc.frames.Frames) -> None:
    half = own.outcomes["case_id"].astype(int).lt(30)
    part = replace(own, outcomes=own.outcomes[half])
    both = sc.frames.concat({"all": own, "half": part})
    deltas = sc.deltas.paired(both.outcomes, by=["study"]).set_index("study")
    for name, study in {"all": own, "half": part}.items():
        alone = sc.deltas.paired(study.outcomes).iloc[0]
        for column in ("estimate", "ci_low", "ci_high", "n_clusters"):
            assert deltas.loc[name, column] == pytest.approx(alone[column])
    with pytest.raises(FrameError, match=r"several studies: all, half. Add 'study' to by="):
        sc.deltas.paired(both.outcomes, by=["skill"])


def test_ids_have_the_study_and_all_frames_match(own: sc.frames.Frames, tmp_path: Path) -> None:
    ids = own.attempts["attempt_id"]
    pair = {"skill": "tea", "case_id": "0", "grader": "g", "first": ids[0], "second": ids[1]}
    rows = pd.DataFrame([pair, pair]).assign(winner=[ids[0], "tie"], order=[1, 2])
    mine = replace(own, pairwise=sc.frames.check(rows, "pairwise"))
    both = sc.frames.concat({"may": mine, "june": own})
    assert len(both.cases) == 2 * len(own.cases) and both.cases["case_id"].is_unique
    assert both.pairwise["winner"].tolist() == [f"may/{ids[0]}", "tie"]
    for frame in (both.verdicts, both.outcomes, both.gold):
        assert frame["attempt_id"].isin(both.attempts["attempt_id"]).all()
        assert frame["attempt_id"].str.partition("/")[0].equals(frame["study"].rename(0))
    again = sc.frames.outcomes(both.verdicts, both.cases, attempts=both.attempts)
    assert again["passed"].equals(both.outcomes["passed"]) and "study" in again
    store = sc.RunStore(both.save(tmp_path / "s"))
    assert sc.frames.cases(store)["study"].tolist() == both.cases["study"].tolist()


def test_what_cannot_be_combined_is_refused(own: sc.frames.Frames) -> None:
    with pytest.raises(FrameError, match="expected a mapping of names to frames"):
        sc.frames.concat([own])  # type: ignore[arg-type]
    with pytest.raises(FrameError, match=r"concat: 'a': expected a Frames"):
        sc.frames.concat({"a": own.outcomes})  # type: ignore[dict-item]
    once = sc.frames.concat({"a": own})
    with pytest.raises(FrameError, match="cases have a column 'study' already"):
        sc.frames.concat({"b": once})
    with pytest.raises(FrameError, match="drawn in different ways"):
        sc.frames.concat({"a": own, "b": replace(own, gold_drawn="chosen")})
