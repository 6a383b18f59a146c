"""Arguments that make no sense give an answer or one error of ours."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analyses import ANALYSES, LONG, frames

import skillcomp as sc
from skillcomp.errors import SkillcompError
from skillcomp.lint import lint_path

ODD: dict[str, list[Any]] = {
    "by": [
        *([], ["condition"], ["case_id"], ["attempt_id"], ["estimate"], ["nothing"], "skill"),
        *([3], [None], ["skill", "skill"], [["skill"]], ["grader", "condition", "repeat"], [""], 5),
    ],
    "ci_level": [0, 1, 95, -1, "x", None, np.nan, 0.5],
    "n_resamples": [0, -1, 1.5, "x", 2],
    "seed": [-1, "x", 1.5, 2**70],
    "value": ["nothing", None, 3],
    "estimator": ["nothing", None, 3],
    "reference": ["nothing", "skill", None, 3],
    "reference_grader": ["nothing", "skill", None, 3],
    "cluster": ["nothing", None],
    "exclude_checks": ["nothing", [""], [3], "check"],
    "cases": [None, 3],
    "gold": [None, 3],
    "n": [0, -1, 1.5, "x", None, [], [0], 10**9, 2**70],
    "ngram": [0, -1, 1.5, "x", None, [], [0], 10**9, 2**70],
    "k": [0, -1, 1.5, "x", 10**6, None],
    "width": [0, -1, "x", np.nan, 2],
    "size": [0, -1, "x", np.nan, 2],
    "p0": [0, 1, "x", np.nan],
    "arl": [0, "x", np.nan],
    "kind": ["nothing", None],
    "policy": ["nothing", None],
    "features": ["nothing", [], 3, None, [3]],
    "outcome": ["nothing", None, 3],
    "design": ["nothing", None, 3, [], [{"condition": "skill"}]],
    "skills": ["nothing", None, 3, {}, {"a": 3}],
    "margin": [-1, "x", np.nan, 2],
    "max_false_flags": [-1, 1, "x", np.nan],
    "positive": ["nothing", [], 3],
    "nulls": ["nothing", [], 3],
}
TRIED = [
    (name, key)
    for name in ANALYSES
    for key in inspect.signature(
        getattr(getattr(sc, name.split(".")[0]), name.split()[0].split(".")[1])
    ).parameters
    if key in ODD
]


@pytest.mark.parametrize(("name", "key"), TRIED if LONG else TRIED[::40])
def test_an_argument_that_makes_no_sense_is_told(name, key, monkeypatch):
    module, function = getattr(sc, name.split(".")[0]), name.split()[0].split(".")[1]
    whole = getattr(module, function)
    given = frames()  # made (and kept) before a function that makes them is replaced
    positional = list(inspect.signature(whole).parameters)
    wrong = []
    for value in ODD[key]:

        def asked(*args: Any, value: Any = value, **options: Any) -> Any:
            if key in positional[: len(args)]:
                at = positional.index(key)
                args = (*args[:at], value, *args[at + 1 :])
            else:
                options[key] = value
            return whole(*args, **options)

        monkeypatch.setattr(module, function, asked)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ANALYSES[name](given)
        except SkillcompError:
            pass
        except Exception as error:
            wrong.append(f"{key}={value!r}: {type(error).__name__}: {error}")
    assert not wrong


PLACES = ["x" * 5000, "a\0b", "\ud800", ""]
READERS: dict[str, Callable[[str, Path], Any]] = {
    "read_skill": lambda name, _: sc.read_skill(name),
    **{
        f"read_suite {form}": lambda name, _, form=form: sc.read_suite(name + form)
        for form in (".json", ".csv", ".yaml", "")
    },
    "RunStore": lambda name, _: sc.RunStore(name).problems,
    "table": lambda name, folder: sc.RunStore(folder).table(name),
    "append": lambda name, folder: sc.RunStore(folder).append(name, [{"a": 1}]),
    "add_skill": lambda name, folder: sc.RunStore(folder).add_skill(name),
    "add_suite": lambda name, folder: sc.RunStore(folder).add_suite(name),
    "lint_path": lambda name, _: lint_path(name),
    "lint_path evals": lambda name, folder: lint_path(folder / "none" / name, evals=True),
    "passages": lambda name, _: sc.frames.passages(name),
    "read_labels": lambda name, _: sc.reliability.read_labels(name, labeller="me"),
    "export.write": lambda name, folder: sc.export.write({}, folder / name),
    "datasets": lambda name, _: sc.datasets.load(name),
}


@pytest.mark.parametrize("name", READERS)
def test_a_place_that_no_disk_knows_is_told(name: str, tmp_path: Path) -> None:
    wrong = []
    for place in PLACES:
        try:
            READERS[name](place, tmp_path)
        except SkillcompError as error:
            str(error)
        except Exception as error:
            wrong.append(f"{place[:9]!r}: {type(error).__name__}: {error}")
    assert not wrong
