"""H4 by plain loops: deltas with error rates pooled over skills, and who may borrow them.

``table`` has skill, case_id, condition, passed (the grader) and gold (missing without a label).
"""

import math

import numpy as np
from scipy.stats import beta, hypergeom

ARMS = {"skill": 1, "baseline": -1}


def labelled(table, arm, truth, skill=None):
    """Return the verdicts of one arm on answers with this gold label."""
    rows = table[table["condition"].eq(arm) & table["gold"].eq(truth)]
    return rows["passed"] if skill is None else rows.loc[rows["skill"].eq(skill), "passed"]


def pooled_delta(table, limits):
    """Return estimate and limits of each skill; ``limits`` are those of the grader's own delta."""
    results = []
    for skill, (low, high) in limits.iterrows():
        estimate, naive, down, up, youdens = 0.0, 0.0, 0.0, 0.0, []
        for arm, sign in ARMS.items():
            cases = table[table["skill"].eq(skill) & table["condition"].eq(arm)]
            share = cases.groupby("case_id")["passed"].mean().mean()
            errors = []
            for truth in (True, False):
                verdicts = labelled(table, arm, truth)
                n, x = len(verdicts), int(verdicts.ne(truth).sum())
                least = beta.ppf(0.025, x + 0.5, n - x + 0.5) if x else 0.0
                most = beta.ppf(0.975, x + 0.5, n - x + 0.5) if x < n else 1.0
                errors.append((x / n, least, most))
            (fn, fn_low, fn_high), (fp, fp_low, fp_high) = errors
            youden = max(1 - fn - fp, 0.2)
            true = min(max((share - fp) / youden, 0), 1)
            more = [true / youden * (fn_high - fn), (1 - true) / youden * (fp - fp_low)]
            less = [true / youden * (fn - fn_low), (1 - true) / youden * (fp_high - fp)]
            up += sum(d**2 for d in (more if sign > 0 else less))
            down += sum(d**2 for d in (less if sign > 0 else more))
            estimate, naive = estimate + sign * true, naive + sign * share
            youdens.append(youden)
        j = np.mean(youdens)
        low = max(estimate - math.sqrt(((naive - low) / j) ** 2 + down), -1)
        high = min(estimate + math.sqrt(((high - naive) / j) ** 2 + up), 1)
        results.append((estimate, low, high))
    return np.array(results)


def borrowing_p(table):
    """Return for each skill twice the smallest mid-p of its four counts of errors."""
    p_values = []
    for skill in sorted(table["skill"].unique()):
        smallest = 1.0
        for arm in ARMS:
            for truth in (True, False):
                every, own = labelled(table, arm, truth), labelled(table, arm, truth, skill)
                x = int(own.ne(truth).sum())
                h = hypergeom(len(every), int(every.ne(truth).sum()), len(own))
                below = h.cdf(x) - h.pmf(x) / 2
                smallest = min(smallest, 2 * min(below, 1 - below))
        p_values.append(min(1.0, 2 * smallest))
    return np.array(p_values)
