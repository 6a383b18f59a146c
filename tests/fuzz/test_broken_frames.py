"""Broken frames give an answer or one error of ours, from every public analysis."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pandas as pd
import pytest
from analyses import ANALYSES, LONG, frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated

from skillcomp.errors import SkillcompError


class Used(Mapping[str, Any]):
    """Frames of which one, among those that were asked for, is broken."""

    def __init__(self, broken: str | None = None, rng: random.Random | None = None) -> None:
        self.broken, self.rng, self.asked = broken, rng, []

    def __getitem__(self, name: str) -> Any:
        self.asked.append(name)
        frame = frames()[name]
        return mutated(frame, self.rng) if name == self.broken and self.rng else frame

    def __iter__(self) -> Iterator[str]:
        return iter(frames())

    def __len__(self) -> int:
        return len(frames())


@cache
def asked_by(name: str) -> list[str]:
    """Return the frames that an analysis asks for, in its order."""
    probe = Used()
    ANALYSES[name](probe)
    return probe.asked


def attempt(name: str, seed: int) -> str:
    """Ask an analysis once with a broken frame: ``answer``, ``told`` or what else came out."""
    rng = random.Random(f"{name} {seed}")
    broken = Used(rng.choice(asked_by(name)), rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ANALYSES[name](broken)
    except SkillcompError:
        return "told"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "answer" if isinstance(found, pd.DataFrame) else f"returned {type(found).__name__}"


@pytest.mark.parametrize("name", ANALYSES if LONG else list(ANALYSES)[::8])
def test_a_broken_frame_gives_an_answer_or_an_error_of_ours(name):
    @settings(
        max_examples=60 if LONG else 1,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        said = attempt(name, seed)
        assert said in ("answer", "told"), f"seed {seed}: {said}"

    run()
