"""H9 by plain loops: a mean of scores, or a difference of two, with the attempts' own variance.

``arms`` has one list of cases for each arm; a case is a list of scores from 0 to 1. ``clusters``
has the cluster of each case; all its attempts then count as those of one case, as in rule G.
"""

import numpy as np

from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    ContrastTerms,
    Sample,
    bounded_means,
    placed_cases,
)

PHI = 0.05


def score_interval(arms, signs, clusters=None, level=0.95):
    """Return the interval of the sum of signs times the mean scores of the arms."""
    n = len(arms[0])
    clusters = np.arange(n) if clusters is None else np.asarray(clusters)
    names = sorted(set(clusters.tolist()))
    share = np.array([(clusters == name).sum() / n for name in names])
    value, terms = np.zeros(len(names)), ContrastTerms(0.0, 0.0, 0.0)
    means_of_cases = np.zeros(n)
    for sign, arm in zip(signs, arms, strict=True):
        means_of_cases += sign * np.array([np.mean(case) for case in arm])
        of_cases = np.mean([4 * np.var(case, ddof=1) if len(case) > 1 else 0.0 for case in arm])
        every = [
            np.concatenate([arm[i] for i in np.flatnonzero(clusters == name)]) for name in names
        ]
        means = np.array([own.mean() for own in every])
        mixed = np.array([4 * own.var(ddof=1) if len(own) > 1 else 0.0 for own in every])
        w = share @ mixed
        # attempts at a case that always has the same score add no information
        ratio = min(1.0, of_cases / w) if w > 0 else 0.0
        noise = []
        for name, own in zip(names, every, strict=True):
            k, m = len(own), (clusters == name).sum()
            effective = m + (k - m) * ratio if m > 1 else k
            noise.append(own.var() / max(effective - 1, 1) if k > 1 else 0.0)
        w, noise = min(1.0, w), np.array(noise)
        part = PHI + (1 - PHI) * (1 - w)
        mean = share @ means
        ends = (part * mean, part * (1 - mean))
        terms = terms.plus(ContrastTerms(share**2 @ noise, *(ends if sign > 0 else ends[::-1])))
        value += sign * means
    quantity = RATES if len(arms) == 1 else DELTAS
    bounds = (0.0, 1.0) if len(arms) == 1 else (-1.0, 1.0)
    places = placed_cases(terms, value[None], share[None], bounds)
    sample = Sample(means_of_cases, clusters, None, (), places)
    null = {} if len(arms) == 1 else {"null": 0.0}
    return bounded_means([sample], quantity=quantity, ci_level=level, **null)[0]
