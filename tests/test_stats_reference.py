"""Every published or recomputed number of the reference file, at its own tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from reference_map import ANSWERS, ENTRIES, EXEMPT, PARTLY, longest_prefix


@pytest.mark.parametrize("name", sorted(n for n in ENTRIES if longest_prefix(n, ANSWERS)))
def test_the_entry_holds_at_its_own_tolerance(name: str) -> None:
    entry = ENTRIES[name]
    values, expected = longest_prefix(name, ANSWERS)(entry["inputs"]), dict(entry["expected"])
    tolerance = expected.pop("tol")
    compared = 0
    for key, published in expected.items():
        value = values.get(key)
        if isinstance(value, list) and None in value:
            value, published = value[: value.index(None)], published[: value.index(None)]
        if value is None:
            continue
        compared += 1
        np.testing.assert_allclose(value, published, rtol=0, atol=tolerance, err_msg=key)
    complete = compared == len(expected) and not any(None in np.ravel(v) for v in values.values())
    assert compared and complete == (longest_prefix(name, PARTLY) is None)


def test_every_entry_is_answered_or_exempt_with_a_reason() -> None:
    assert len(ENTRIES) == 114
    for name in ENTRIES:
        assert (longest_prefix(name, ANSWERS) is None) != (longest_prefix(name, EXEMPT) is None)
    for prefix in (*ANSWERS, *EXEMPT, *PARTLY):
        assert any(name.startswith(prefix) for name in ENTRIES), prefix
