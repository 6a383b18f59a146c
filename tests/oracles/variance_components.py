"""A second way to the components of a paired study: from counts of passes, group by group."""

from __future__ import annotations

import numpy as np


def paired_components(passes1, passes0, attempts, skills):
    """Return tau2, omega2, sigma2_skill and sigma2_baseline, negative ones set to 0.

    Passes of each case under both conditions, attempts of every case (one number), skill of each
    case. Mean squares between and within skills, set equal to their expectations.
    """
    x1, x0, labels = np.asarray(passes1, float), np.asarray(passes0, float), np.asarray(skills)
    k = float(attempts)
    sigma1, sigma0 = (float((x * (k - x) / (k * (k - 1))).mean()) for x in (x1, x0))
    delta = (x1 - x0) / k
    groups = [delta[labels == one] for one in np.unique(labels)]
    sizes = np.array([len(one) for one in groups], float)
    total, g = sizes.sum(), len(groups)
    within = sum(((one - one.mean()) ** 2).sum() for one in groups) / (total - g)
    between = sum(len(one) * (one.mean() - delta.mean()) ** 2 for one in groups) / (g - 1)
    typical = (total - (sizes**2).sum() / total) / (g - 1)
    return {
        "tau2": max((between - within) / typical, 0.0),
        "omega2": max(within - (sigma1 + sigma0) / k, 0.0),
        "sigma2_skill": sigma1,
        "sigma2_baseline": sigma0,
    }
