"""Distribution of a mean with random weights, computed along a contour in the complex plane.

The weights are gamma variables. :mod:`skillcomp.stats.bounded` takes its limits and p-values from
this distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

# Settings of the trapezoid rule for the integral along the contour: the step in v (y = sd sinh(v)),
# the number of nodes per block, and the largest number of blocks. With two or more cases, fewer
# blocks are enough.
_STEP, _NODES, _BLOCKS = 0.12, 20, 14
_BEND = 0.5  # Largest angle between the contour and the vertical. The bend damps slow oscillations.
_CHUNK = 1_000_000  # Maximum number of array elements in memory at a time.
_ENOUGH = 1e-15  # The trapezoid sum ends at a node that adds less than this share of the sum.


def chance_below(
    value: Floats, weight: Floats, count: Floats, at: Floats, *, slope: bool = False
) -> tuple[Floats, Floats]:
    """Compute the probability that a randomly weighted mean is below ``at``, and its density.

    ``value``, ``weight`` and ``count`` have one row per study; ``at`` has one entry per study. The
    result is the probability of ``sum g w (at - value) > 0``, where g is gamma-distributed with
    shape ``count``. The sum is a linear combination of chi-square variables. Its distribution
    function is an inversion integral. The integral is computed along a hyperbola through the
    saddlepoint, where the integrand neither oscillates nor cancels. The tail that does not contain
    the mean is computed, so that small probabilities keep their precision. The density is 0 unless
    ``slope`` is True.
    """
    reach = np.where(count > 0, weight * (at[:, None] - value), 0.0)
    most, least = reach.max(1), reach.min(1)
    chance, density = (most > 0).astype(float), np.zeros(len(at))
    open_ = np.flatnonzero((most > 0) & (least < 0))
    rows = max(1, _CHUNK // (reach.shape[1] * _NODES))
    for start in range(0, len(open_), rows):
        k = open_[start : start + rows]
        over = (count[k] * reach[k]).sum(1) > 0
        # Where `over` is True, most of the probability is below ``at``. The scale is then negative.
        # This reverses the sign of the sum, so that the small probability above ``at`` is computed.
        scale = np.where(over, least[k], most[k])[:, None]
        lam, change = reach[k] / scale, weight[k] / scale
        beyond, change = _path_integral(lam, count[k], change, slope)
        chance[k] = np.where(over, 1.0 - beyond, beyond)
        density[k] = np.where(over, -change, change)
    return chance, density


def _saddle_point(lam: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the s in (0, 1) that minimises ``exp(K(s)) / s``, and ``1 - lam s``.

    K is the cumulant generating function of ``sum lam g``. Newton steps on the logit of s stay
    inside a bracket. An approximate s is enough.
    """
    start = 1.0 / (1.0 + (count * np.maximum(lam, 0.0)).sum(1))
    low = np.log(start) - np.log1p(-start) - 1e-9
    high, u = np.full(len(lam), 60.0), low + 0.5
    for _ in range(100):
        s, rest = expit(u), expit(-u)
        ratio = lam / ((1.0 - lam) + lam * rest[:, None])
        first, second = (count * ratio).sum(1), (count * ratio * ratio).sum(1)
        value = s * first - 1.0
        up = value > 0
        high, low = np.where(up, u, high), np.where(up, low, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = u - value / ((s * first + s * s * second) * rest)
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        moved = np.abs(new - u)
        u = new
        if (moved < 1e-3).all():
            break
    return expit(u), (1.0 - lam) + lam * expit(-u)[:, None]


def _path_integral(lam: Floats, count: Floats, shift: Floats, slope: bool) -> tuple[Floats, Floats]:
    """Return the probability that ``sum lam g > 0``, and its slope along ``shift``.

    The largest ``lam`` must be 1.
    """
    s, rest = _saddle_point(lam, count)
    ratio = lam / rest
    sd = 1.0 / np.sqrt((count * ratio * ratio).sum(1) + 1.0 / s**2)
    height = np.exp(-(count * np.log(rest)).sum(1) - np.log(s)) * sd * _STEP / np.pi
    # Bend the contour only so far that the integrand does not grow along it. The limit depends on
    # the number of terms with a positive lam.
    bend = np.minimum(_BEND, 1.0 / np.sqrt((count * (lam > 0)).sum(1)))
    across, along = np.cos(bend), np.sin(bend)
    total = 0.5 * across
    steep = shift / rest
    tilt = total * s * (count * steep).sum(1) if slope else np.zeros(len(s))
    live = np.arange(len(s))
    for block in range(_BLOCKS):
        v = _STEP * (np.arange(_NODES) + 1.0 + block * _NODES)
        up, right = across[live][:, None], along[live][:, None]
        speed = up * np.cosh(v) - 1j * right * np.sinh(v)
        y = sd[live][:, None] * (right * (np.cosh(v) - 1.0) + 1j * up * np.sinh(v))
        # Store the complex factors 1 - ratio y as two real arrays, because the logarithm of complex
        # numbers takes five times as long.
        each, shape = ratio[live][:, :, None], count[live][:, :, None]
        real, imaginary = 1.0 - each * y.real[:, None, :], -each * y.imag[:, None, :]
        square = real * real + imaginary * imaginary
        size = 0.5 * (shape * np.log(square)).sum(1)
        turn = (shape * np.arctan2(imaginary, real)).sum(1)
        place = 1.0 + y / s[live][:, None]
        node = np.exp(-size - 1j * turn) / place * speed
        total[live] += node.real.sum(1)
        if slope:
            weight = shape * steep[live][:, :, None] / square
            change = (weight * real).sum(1) - 1j * (weight * imaginary).sum(1)
            tilt[live] += (node * change * place * s[live][:, None]).real.sum(1)
        live = live[np.abs(node[:, -1]) > _ENOUGH * np.abs(total[live])]
        if not len(live):
            break
    return height * total, height * tilt
