"""How skillcomp.stats answers each entry of stats_reference.json.

``ANSWERS`` gives a function from the inputs of an entry to the values under the keys of its
``expected`` (None: not compared), ``PARTLY`` why some keys are not answered, and ``EXEMPT`` why a
whole entry is not. Keys are names of entries or the start of several names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from skillcomp.stats import (
    agreement,
    detection,
    intervals,
    pass_at_k,
    pass_hat_k,
    ppi,
    results,
)
from skillcomp.stats import (
    clusters_and_amounts as clusters,
)
from skillcomp.stats import (
    significance_and_grader_errors as significance,
)
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.results import Interval

ENTRIES: dict[str, dict[str, Any]] = {
    entry["name"]: entry
    for entry in json.loads(
        (Path(__file__).parent / "reference" / "stats_reference.json").read_text("utf-8")
    )
}

Inputs = Mapping[str, Any]
Values = dict[str, Any]


def _limits(found: Interval) -> list[float]:
    return [found.low, found.high]


# Clusters -----------------------------------------------------------------------------------------


def _cr2_mean(i: Inputs) -> Values:
    counts = np.array([i["a"], i["b"], i["c"], i["d"]]).T
    groups = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    d = np.concatenate([np.repeat([0.0, 1.0, -1.0, 0.0], row) for row in counts])
    found = clusters.cr2_mean(d, groups)
    values: Values = {"mean": found.estimate, "CR2_p": found.p_value, "CR2_ci": _limits(found)}
    fit = clusters.cr2(d, np.ones((len(d), 1)), groups)[0]
    return values | {"CR2": [fit.se, fit.df]}


def _one_flip_per_case(i: Inputs) -> Values:
    up, down = i["abcd"][1:3]
    gained = np.repeat([1, 0], [up, down])
    return {"midp": significance.clustered_midp(gained, 1 - gained, range(up + down)).p_value}


def _differences(i: Inputs) -> Any:
    return (np.array(i["passes_skill_of_3"]) - i["passes_baseline_of_3"]) / i["attempts"]


def _far_design(i: Inputs) -> Any:
    return np.column_stack([np.ones(len(i["far"])), i["far"]])


def _did_by_skill(i: Inputs) -> Values:
    fit = clusters.cr2(_differences(i), _far_design(i), i["skill"])
    near, gap = fit[0], fit[1]
    return {
        "cond": near.estimate,
        "cond_CR2": [near.se, near.df],
        "interaction": gap.estimate,
        "CR2_ci": _limits(gap),
        "CR2_p": gap.p_value,
        "interaction_CR2": [gap.se, gap.df],
    }


def _did_by_case(i: Inputs) -> Values:
    cases = np.arange(len(i["far"]))
    gap = clusters.cr2(_differences(i), _far_design(i), cases)[1]
    return {"interaction": gap.estimate, "CR2": [gap.se, gap.df], "CR2_ci": _limits(gap)}


# Grader agreement, error, detection, charts -------------------------------------------------------


def _ratings(table: Any) -> Any:
    counts = np.asarray(table)
    return np.repeat(np.argwhere(np.ones_like(counts)), counts.ravel(), axis=0).astype(float)


def _agreement(i: Inputs) -> Values:
    table = i["table"]
    kappa = agreement.cohen_kappa(table)
    ac1 = agreement.bootstrap_agreement(_ratings(table), "gwet_ac1", n_resamples=99)
    alpha = agreement.krippendorff_alpha(_ratings(table), n_resamples=99)
    raw = agreement.bootstrap_agreement(_ratings(table), "raw_agreement")
    # irrCAC divides a table's variance by n, where ratings are divided by n - 1.
    n = np.sum(table)
    of_table = np.sqrt((n - 1) / n)
    return {
        "cohen_kappa": [kappa.estimate, kappa.se],
        "gwet_ac1": [ac1.estimate, ac1.se * of_table],
        "krippendorff": [alpha.estimate, alpha.se * of_table],
        "percent": [raw.estimate, None],
    }


def _four_raters(i: Inputs) -> Values:
    ratings = np.array(i["ratings_units_by_raters"], float)
    ac1 = agreement.bootstrap_agreement(ratings, "gwet_ac1", n_resamples=99)
    alpha = agreement.krippendorff_alpha(ratings, n_resamples=99)
    return {"gwet_ac1": [ac1.estimate, ac1.se], "krippendorff": [alpha.estimate, None]}


def _krippendorff(i: Inputs) -> Values:
    ratings = np.array(i["ratings_units_by_raters"], float)
    return {
        level: agreement.krippendorff_alpha(ratings, level=level, n_resamples=99).estimate
        for level in ("nominal", "ordinal")
    }


def _ppi(lam: float | None) -> Callable[[Inputs], Values]:
    def values(i: Inputs) -> Values:
        ones, n = i["F_unlabelled_ones"], i["F_unlabelled_n"]
        gold = np.concatenate([i["Y"], np.full(n, np.nan)])
        predicted = np.concatenate([i["F_labelled"], np.repeat([1, 0], [ones, n - ones])])
        weight = lam
        data = ppi.collect_cases((gold, predicted, *[None] * 4), RATES)
        if weight is None:
            weight = ppi.tuned_weight(data)
        _, fit = ppi.fit_design(data, weight)
        # ppi-python divides variances by n and has a normal quantile
        parts = fit.error, weight * data.predicted[~data.labelled]
        variance = sum(part.var() / part.size for part in parts)
        reach = norm.isf(0.025) * variance**0.5
        ends = {"lower": fit.estimate - reach, "upper": fit.estimate + reach}
        return {"estimate": ppi.ppi_mean(gold, predicted, lam=lam).estimate} | ends

    return values


def _severity_of_two(i: Inputs) -> Values:
    both, second, first, neither = i["abcd"]
    rows = [[1, 1]] * both + [[0, 1]] * second + [[1, 0]] * first + [[0, 0]] * neither
    found = significance.severity_shift(rows)
    # clogit speaks of the logit of a PASS, from which severity is taken away
    return {"logit_shift": -found.estimate, "se": found.se, "p_wald": found.p_value}


# pass@k, several claims, power --------------------------------------------------------------------


def _pass_k(i: Inputs) -> Values:
    return {
        "pass_at_k": float(pass_at_k(i["n"], i["c"], i["k"])),
        "pass_hat_k": float(pass_hat_k(i["n"], i["c"], i["k"])),
    }


def _pass_hat_k_ci(i: Inputs) -> Values:
    found = bounded_mean(np.broadcast_to(pass_hat_k(i["n"], i["c"], i["k"]), np.shape(i["c"])))
    reach = student_t.isf(0.025, found.df) * found.se
    by_t = [found.estimate - reach, found.estimate + reach]
    return {"mean": found.estimate, "se": found.se, "ci": by_t}


def _roc_areas(i: Inputs) -> Values:
    markers = ("s100b", "ndka", "wfns")
    return {
        f"auc_{marker}": detection.bootstrap_auc(i["y"], i[marker], n_resamples=9).estimate
        for marker in markers
    }


def _cochran(i: Inputs) -> Values:
    rows = [[int(v) for v in p] for p, count in i["pattern_counts"].items() for _ in range(count)]
    test = significance.cochran_q(rows)
    return {"cochran_q": test.statistic, "cochran_p": test.p_value}


# The function of an entry, by its name or the start of it.
ANSWERS: dict[str, Callable[[Inputs], Values]] = {
    "agreement_gwet_raw4raters": _four_raters,
    "agreement_": _agreement,
    "bh_1995_thrombolysis": lambda i: {"holm_first4": results.holm(i["p"])[:4]},
    "binom_ci_": lambda i: {"wilson": _limits(intervals.wilson(i["x"], i["n"]))},
    "cr2_mean_": _cr2_mean,
    "delong_aSAH": _roc_areas,
    "did_case_cluster_fixture": _did_by_case,
    "did_near_far_fixture": _did_by_skill,
    "holm_bh_9dims": lambda i: {"holm": results.holm(i["p"])},
    "krippendorff_canonical": _krippendorff,
    "mcnemar_": _one_flip_per_case,
    "pass_at_k_": _pass_k,
    "pass_hat_k_ci": _pass_hat_k_ci,
    "ppi_mean_lambda1": _ppi(1.0),
    "ppi_plusplus_mean": _ppi(None),
    "severity_drift_2versions": _severity_of_two,
    "severity_drift_3graders": _cochran,
}

_INDEPENDENT = "independent cases with one attempt: the bounded mean takes its place"
# Entries, by the start of their name, that no function answers, each with the reason.
EXEMPT = {
    "bayes_": "Bayesian posteriors are not offered",
    "beta_posterior_": "Bayesian posteriors are not offered",
    "clustered_mcnemar_": "the bounded mean and CR2 test the same claim",
    "bernoulli_cusum_arl": "control charts are not offered: two rounds are compared",
    "cusum_arl": "control charts are not offered: two rounds are compared",
    "ewma_arl": "control charts are not offered: two rounds are compared",
    "fleiss_1971_diagnoses": "no data: irr::diagnoses is not embedded in the file",
    "gee_": "GEE: by statsmodels where an analysis needs it",
    "glmm_": "GLMM: not offered; the linear model with CR2 has the same estimand",
    "miller_": "power by formula is not offered: skillcomp.planning simulates the own interval",
    "mover_did": "Newcombe and Tango are not offered; bounded_slope compares bounded means",
    "newcombe10_neff_fixture": _INDEPENDENT,
    "paired_rd_": _INDEPENDENT,
    "power_mcnemar_": "power by formula is not offered: skillcomp.planning simulates it",
    "published_": _INDEPENDENT,
    "rao_scott_": "Rao-Scott: not offered; CR2 and the bounded mean take its place",
    "rogan_gladen_": "external gold only; correction.rate has its own Rogan-Gladen interval",
    "sample_size_connor_": "power by formula is not offered: skillcomp.planning simulates it",
    "tango_neff_fixture": _INDEPENDENT,
    "wild_cluster_enumerated": "signs of cases are flipped, not of clusters of several cases",
}

# Entries of which some values are not compared, each with the reason.
PARTLY = {
    "agreement_gwet_raw4raters": "kappa, AC1 and alpha are offered; irrCAC's variance of alpha "
    "for gaps differs by 6e-4 of its value",
    "agreement_": "kappa, AC1 and alpha are offered; the error of raw agreement is that of cases",
    "bh_1995_thrombolysis": "Holm's method is the one offered",
    "binom_ci_": "Wilson's interval is the one offered",
    "cr2_mean_": "CR2 is the adjustment offered",
    "delong_aSAH": "the areas: limits are by bootstrap",
    "did_near_far_fixture": "CR2 is the adjustment offered",
    "holm_bh_9dims": "Holm's method is the one offered",
    "krippendorff_canonical": "alpha is offered for nominal and ordinal ratings",
    "mcnemar_": "the mid-p test is the one offered",
    "severity_drift_3graders": "Cochran's Q: each version is compared with the first",
}


def longest_prefix(name: str, table: Mapping[str, Any]) -> Any:
    """Return the value of the longest key that the name starts with, None without one."""
    keys = [key for key in table if name.startswith(key)]
    return table[max(keys, key=len)] if keys else None
