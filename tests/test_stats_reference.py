"""Every published or recomputed number of the reference file, at its own tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracles import paired
from reference_map import ENTRIES, EXEMPT, LEFT_OUT, source_of

import skillcomp as sc

# What may have no function at all; anything else must be answered.
ALLOWED = (
    "SCAS",
    "effective n",
    "GEE",
    "GLMM",
    "Rao-Scott",
    "Bowyer's posterior",
    "tabular CUSUM",
    "EWMA",
    "no data",
)
ANSWERED = sorted(set(ENTRIES) - set(EXEMPT))


def _pairs(path: str, expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, dict):
        assert set(expected) == set(found), path
        for key in expected:
            yield from _pairs(f"{path}.{key}", expected[key], found[key])
    elif isinstance(expected, list):
        assert len(expected) == len(found), path
        for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
            yield f"{path}[{place}]", wanted, got
    else:
        yield path, expected, found


@pytest.mark.parametrize("name", ANSWERED)
def test_the_entry_holds_at_its_own_tolerance(name):
    source, entry = source_of(name), ENTRIES[name]
    assert source is not None, f"nothing answers {name}"
    found, expected = source.values(entry["inputs"]), dict(entry["expected"])
    tolerance = expected.pop("tol")
    left_out = LEFT_OUT.get(name, {})
    missing = set(expected) - set(found) - set(left_out)
    assert not missing, f"{name}: nothing answers {sorted(missing)}"
    compared = set(expected) & set(found)
    assert compared
    for key in sorted(compared):
        for path, wanted, got in _pairs(key, expected[key], found[key]):
            if got is None:
                assert path in left_out
                continue
            np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance, err_msg=path)


def test_every_entry_has_a_public_function_or_an_allowed_reason():
    assert len(ENTRIES) == 114
    unanswered = [name for name in ANSWERED if source_of(name) is None]
    assert not unanswered
    for name, reason in EXEMPT.items():
        assert name in ENTRIES
        assert reason.startswith(ALLOWED), (name, reason)


def test_the_functions_of_the_map_are_public():
    for name in ANSWERED:
        source = source_of(name)
        assert source is not None
        for function in source.functions:
            module, attribute = function.split(".")
            if module == "paired":  # what only the tests need
                assert callable(getattr(paired, attribute))
            else:
                assert getattr(sc.stats, attribute).__module__ == f"skillcomp.stats.{module}"


def test_a_key_left_out_is_in_its_entry_and_has_a_reason():
    for name, keys in LEFT_OUT.items():
        assert name in ANSWERED
        assert {key.split("[")[0] for key in keys} <= set(ENTRIES[name]["expected"])
        assert all(keys.values())
