"""Gwet's AC1 of two raters with its standard error, from a table of counts."""

from __future__ import annotations

from typing import Any

import numpy as np


def gwet_ac1(table: Any) -> tuple[float, float]:
    """Gwet 2008; the variance is divided by n, as by irrCAC for a table."""
    cells = np.asarray(table, float)
    q, p, total = len(cells), cells / cells.sum(), cells.sum()
    share = (p.sum(axis=0) + p.sum(axis=1)) / 2
    observed, expected = np.trace(p), (share * (1 - share)).sum() / (q - 1)
    estimate = 1 - (1 - observed) / (1 - expected)
    terms = np.eye(q) - 2 * (1 - estimate) * (1 - (share[:, None] + share) / 2) / (q - 1)
    centre = observed - 2 * (1 - estimate) * expected
    variance = ((p * terms**2).sum() - centre**2) / (total * (1 - expected) ** 2)
    return float(estimate), float(np.sqrt(max(variance, 0)))
