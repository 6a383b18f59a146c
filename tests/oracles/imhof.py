"""Imhof's integral for linear combinations of chi-squares, by adaptive quadrature."""

import numpy as np
from scipy.integrate import quad


def chance_at_most_zero(coefficients: list[float], df: list[float]) -> float:
    """P(sum a_j chi2(df_j) <= 0), Imhof 1961, on the real axis: good to about 1e-9."""
    a, h = np.asarray(coefficients), np.asarray(df)
    a = a / np.abs(a).max()

    def integrand(u: float) -> float:
        theta = 0.5 * float((h * np.arctan(a * u)).sum())
        log_rho = 0.25 * float((h * np.log1p((a * u) ** 2)).sum())
        return np.sin(theta) * np.exp(-log_rho) / u

    # u = exp(v): the algebraic tail becomes an exponential one
    value = sum(
        quad(lambda v: integrand(np.exp(v)) * np.exp(v), low, low + 4, limit=400, epsabs=1e-12)[0]
        for low in range(-40, 40, 4)
    )
    return 0.5 - value / np.pi


def chance_below(values: list[float], at: float, bound: float, c: float) -> float:
    """P that the mean of the values and a pseudo-case at the bound lies at or below ``at``."""
    coefficients = [x - at for x in values] + [bound - at]
    return chance_at_most_zero(coefficients, [2.0] * len(values) + [2.0 * c])
