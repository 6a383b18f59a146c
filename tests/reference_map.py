"""Which public function of skillcomp.stats answers each entry of stats_reference.json.

``source_of`` gives an entry its :class:`Source`: the public functions it proves, as
"module.name", and a function from the entry's inputs to the values under the keys of its
``expected``. ``LEFT_OUT`` gives keys inside an entry that are not compared (a value of None stands
at such a place of a list), ``EXEMPT`` whole entries, each with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from oracles import paired
from scipy.stats import t as student_t

from skillcomp.stats import (
    agreement,
    clusters,
    cusum,
    detection,
    grader_errors,
    intervals,
    passk,
    ppi,
    sample_size,
    significance,
)
from skillcomp.stats.results import Interval

ENTRIES: dict[str, dict[str, Any]] = {
    entry["name"]: entry
    for entry in json.loads(
        (Path(__file__).parent / "reference" / "stats_reference.json").read_text("utf-8")
    )
}

Inputs = Mapping[str, Any]
Values = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """The public functions an entry proves, and how to get its values from them."""

    functions: tuple[str, ...]
    values: Callable[[Inputs], Values]


def _limits(found: Interval) -> list[float]:
    return [found.low, found.high]


def _ends(found: Interval) -> Values:
    return {"lower": found.low, "upper": found.high}


# Paired intervals: the end of the entry's name tells the method -----------------------------------


def _newcombe(method: int) -> Callable[[Inputs], Values]:
    return lambda i: _ends(intervals.newcombe_paired(*i["abcd"], method=method))


def _on_discordant(function: Callable[..., Interval], **options: Any) -> Callable[[Inputs], Values]:
    def values(i: Inputs) -> Values:
        _, b, c, _ = i["abcd"]
        return _ends(function(b, c, sum(i["abcd"]), **options))

    return values


def _by_oracle(function: Callable[..., tuple[float, float]]) -> Callable[[Inputs], Values]:
    def values(i: Inputs) -> Values:
        _, b, c, _ = i["abcd"]
        return dict(zip(("lower", "upper"), function(b, c, sum(i["abcd"])), strict=True))

    return values


PAIRED = {
    "newcombe8_ratesci": Source(("intervals.newcombe_paired",), _newcombe(8)),
    "newcombe9": Source(("intervals.newcombe_paired",), _newcombe(9)),
    "newcombe10": Source(("intervals.newcombe_paired",), _newcombe(10)),
    "m8": Source(("intervals.newcombe_paired",), _newcombe(8)),
    "m10": Source(("intervals.newcombe_paired",), _newcombe(10)),
    "tango": Source(("intervals.tango",), _on_discordant(intervals.tango)),
    "table7": Source(("intervals.tango",), _on_discordant(intervals.tango)),
    "bonett_price": Source(("intervals.bonett_price",), _on_discordant(intervals.bonett_price)),
    "agresti_min": Source(("intervals.agresti_min",), _on_discordant(intervals.agresti_min)),
    "wald": Source(("paired.wald",), _by_oracle(paired.wald)),
    "fay_lumbard_exactDP": Source(("paired.fay_lumbard",), _by_oracle(paired.fay_lumbard)),
}


def _mcnemar(i: Inputs) -> Values:
    _, b, c, _ = i["abcd"]
    return {
        "exact": significance.mcnemar_exact(b, c).p_value,
        "midp": significance.mcnemar_midp(b, c).p_value,
        "asymptotic": significance.mcnemar_asymptotic(b, c).p_value,
        "asymptotic_cc": significance.mcnemar_asymptotic(b, c, continuity=True).p_value,
    }


def _one_rate(i: Inputs) -> Values:
    x, n = i["x"], i["n"]
    return {
        "wilson": _limits(intervals.wilson(x, n)),
        "wilson_cc": _limits(intervals.wilson(x, n, continuity=True)),
        "clopper_pearson": _limits(intervals.clopper_pearson(x, n)),
        "jeffreys": _limits(intervals.jeffreys(x, n)),
    }


def _beta_posterior(_: Inputs) -> Values:
    return {
        "uniform": _limits(intervals.jeffreys(9, 10, prior=1)),
        "jeffreys": _limits(intervals.jeffreys(9, 10)),
        "zero_of_20_uniform": _limits(intervals.jeffreys(0, 20, prior=1)),
    }


def _dirichlet(i: Inputs) -> Values:
    mean, low, high, above = paired.dirichlet(*i["abcd"])
    return {"mean": mean, "interval": [low, high], "prob_gt_0": above}


def _mover(i: Inputs) -> Values:
    near, far = i["near_abcd"], i["far_abcd"]
    newcombe = intervals.mover_difference(
        intervals.newcombe_paired(*near), intervals.newcombe_paired(*far)
    )
    by_tango = intervals.mover_difference(
        *(intervals.tango(t[1], t[2], sum(t)) for t in (near, far))
    )
    return {
        "did": newcombe.estimate,
        "newcombe10_ci": _limits(newcombe),
        "tango_ci": _limits(by_tango),
    }


# Clusters -----------------------------------------------------------------------------------------


def _clustered_tests(i: Inputs) -> Values:
    b, c = np.array(i["b"]), np.array(i["c"])
    pairs = np.array(i["a"]) + b + c + np.array(i["d"])
    obuchowski, durkalski = significance.obuchowski(b, c), significance.durkalski(b, c, pairs)
    return {
        "mcnemar": significance.mcnemar_asymptotic(b.sum(), c.sum()).statistic,
        "obuchowski": obuchowski.statistic,
        "durkalski": durkalski.statistic,
        "p_obuchowski": obuchowski.p_value,
        "p_durkalski": durkalski.p_value,
    }


def _cr2_mean(i: Inputs) -> Values:
    counts = np.array([i["a"], i["b"], i["c"], i["d"]]).T
    groups = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    d = np.concatenate([np.repeat([0.0, 1.0, -1.0, 0.0], row) for row in counts])
    found = clusters.cr2_mean(d, groups)
    values: Values = {"mean": found.estimate, "CR2_p": found.p_value, "CR2_ci": _limits(found)}
    for kind in ("CR0", "CR1", "CR2", "CR3"):
        fit = clusters.cr2(d, np.ones(len(d)), groups, kind=kind).interval(0)
        values[kind] = [fit.se, fit.df]
    return values


def _differences(i: Inputs) -> Any:
    return (np.array(i["passes_skill_of_3"]) - i["passes_baseline_of_3"]) / i["attempts"]


def _far_design(i: Inputs) -> Any:
    return np.column_stack([np.ones(len(i["far"])), i["far"]])


def _did_by_skill(i: Inputs) -> Values:
    fit = clusters.cr2(_differences(i), _far_design(i), i["skill"])
    near, gap = fit.interval(0), fit.interval(1)
    values: Values = {
        "cond": near.estimate,
        "cond_CR2": [near.se, near.df],
        "interaction": gap.estimate,
        "CR2_ci": _limits(gap),
        "CR2_p": gap.p_value,
    }
    for kind in ("CR1", "CR2", "CR3"):
        other = clusters.cr2(_differences(i), _far_design(i), i["skill"], kind=kind).interval(1)
        values[f"interaction_{kind}"] = [other.se, other.df]
    return values


def _did_by_case(i: Inputs) -> Values:
    cases = np.arange(len(i["far"]))
    gap = clusters.cr2(_differences(i), _far_design(i), cases).interval(1)
    return {"interaction": gap.estimate, "CR2": [gap.se, gap.df], "CR2_ci": _limits(gap)}


def _sign_flip(i: Inputs) -> Values:
    d, groups = _differences(i), i["skill"]
    found, count = clusters.sign_flip(d, groups), len(set(groups))
    nulls = np.arange(-0.1, 0.5, 0.0005)
    kept = [v for v in nulls if clusters.sign_flip(d, groups, null=v).p_value > 0.05]
    return {
        "t_cr0": found.statistic,
        "p_ge": found.p_value,
        "t_cr1": found.statistic * np.sqrt((count - 1) / count),
        "ci_p_gt_05": [min(kept), max(kept)],
    }


# Grader agreement, error, detection, charts -------------------------------------------------------


def _ratings(table: Any) -> Any:
    counts = np.asarray(table)
    return np.repeat(np.argwhere(np.ones_like(counts)), counts.ravel(), axis=0).astype(float)


def _agreement(i: Inputs) -> Values:
    table = i["table"]
    kappa, ac1 = agreement.cohen_kappa(table), agreement.gwet_ac1(table)
    alpha = agreement.krippendorff_alpha(_ratings(table), n_resamples=99)
    raw = agreement.bootstrap_agreement(_ratings(table), "raw_agreement")
    # irrCAC divides a table's variance by n, where ratings are divided by n - 1.
    n = np.sum(table)
    return {
        "cohen_kappa": [kappa.estimate, kappa.se],
        "gwet_ac1": [ac1.estimate, ac1.se],
        "krippendorff": [alpha.estimate, alpha.se * np.sqrt((n - 1) / n)],
        "percent": [raw.estimate, None],
    }


def _four_raters(i: Inputs) -> Values:
    ratings = np.array(i["ratings_units_by_raters"], float)
    ac1 = agreement.bootstrap_agreement(ratings, "gwet_ac1", n_resamples=99)
    alpha = agreement.krippendorff_alpha(ratings, n_resamples=99)
    return {"gwet_ac1": [ac1.estimate, ac1.se], "krippendorff": [alpha.estimate, None]}


def _krippendorff(i: Inputs) -> Values:
    ratings = np.array(i["ratings_units_by_raters"], float)
    return {"nominal": agreement.krippendorff_alpha(ratings, n_resamples=99).estimate}


def _rogan_gladen(i: Inputs) -> Values:
    found = grader_errors.rogan_gladen(
        i["apparent"], i["n"], i["sens"], i["n_sens"], i["spec"], i["n_spec"]
    )
    return {"estimate": found.estimate} | _ends(found)


def _ppi(lam: float | None) -> Callable[[Inputs], Values]:
    def values(i: Inputs) -> Values:
        ones, n = i["F_unlabelled_ones"], i["F_unlabelled_n"]
        gold = np.concatenate([i["Y"], np.full(n, np.nan)])
        predicted = np.concatenate([i["F_labelled"], np.repeat([1, 0], [ones, n - ones])])
        found = ppi.ppi_mean(gold, predicted, lam=lam, reference="normal")
        return {"estimate": found.estimate} | _ends(found)

    return values


def _delong(i: Inputs) -> Values:
    y, values = i["y"], {}
    for marker in ("s100b", "ndka", "wfns"):
        found = detection.delong(y, i[marker])
        values |= {f"auc_{marker}": found.estimate, f"ci_{marker}": _limits(found)}
        values[f"var_{marker}"] = found.se**2
    first = detection.delong_paired(y, i["s100b"], i["ndka"])
    second = detection.delong_paired(y, i["s100b"], i["wfns"])
    return values | {
        "cov": (values["var_s100b"] + values["var_ndka"] - first.se**2) / 2,
        "z_s100b_vs_ndka": first.estimate / first.se,
        "p": first.p_value,
        "ci_diff": _limits(first),
        "z_s100b_vs_wfns": second.estimate / second.se,
        "p_s100b_vs_wfns": second.p_value,
    }


def _bernoulli_cusum(i: Inputs) -> Values:
    up = i["m"] - 1
    return {
        f"H{limit}": [cusum.cusum_run_length(p, up=up, down=1, limit=limit) for p in i["p"]]
        for limit in i["H"]
    }


def _severity_of_two(i: Inputs) -> Values:
    both, second, first, neither = i["abcd"]
    rows = [[1, 1]] * both + [[0, 1]] * second + [[1, 0]] * first + [[0, 0]] * neither
    found = significance.severity_shift(rows)
    # clogit speaks of the logit of a PASS, from which severity is taken away
    return {"logit_shift": -found.estimate, "se": found.se, "p_wald": found.p_value}


def _versions_of_three(i: Inputs) -> Values:
    rows = [[int(v) for v in p] for p, count in i["pattern_counts"].items() for _ in range(count)]
    q = significance.cochran_q(rows)
    return {"cochran_q": q.statistic, "cochran_p": q.p_value}


# pass@k, several claims, power --------------------------------------------------------------------


def _pass_k(i: Inputs) -> Values:
    return {
        "pass_at_k": float(passk.pass_at_k(i["n"], i["c"], i["k"])),
        "pass_hat_k": float(passk.pass_hat_k(i["n"], i["c"], i["k"])),
    }


def _pass_hat_k_ci(i: Inputs) -> Values:
    found = passk.pooled_pass_hat_k(i["n"], i["c"], i["k"])
    reach = student_t.isf(0.025, found.df) * found.se
    by_t = [found.estimate - reach, found.estimate + reach]
    return {"mean": found.estimate, "se": found.se, "ci": by_t}


def _nine_dimensions(i: Inputs) -> Values:
    p = i["p"]
    others = {key: significance.adjust(p, method=key) for key in ("by", "hochberg", "hommel")}
    return {"holm": significance.holm(p), "bh": significance.benjamini_hochberg(p), **others}


def _fifteen_p_values(i: Inputs) -> Values:
    bh = significance.benjamini_hochberg(i["p"])
    bonferroni = significance.adjust(i["p"], method="bonferroni")
    return {
        "bh": bh,
        "holm_first4": significance.holm(i["p"])[:4],
        "bh_rejections_at_05": int((bh <= 0.05).sum()),
        "bonferroni_rejections_at_05": int((bonferroni <= 0.05).sum()),
    }


def _mcnemar_power(i: Inputs) -> Values:
    return {
        test: sample_size.mcnemar_power(
            i["pairs"], i["p_improve"], i["p_regress"], test=test, alpha=i["alpha"]
        )
        for test in ("exact", "midp")
    }


def _connor(i: Inputs) -> Values:
    return {
        f"n{percent}": sample_size.connor(i["p10"], i["p01"], power=percent / 100, alpha=i["alpha"])
        for percent in (80, 90)
    }


def _miller_mde(i: Inputs) -> Values:
    return {
        f"K{attempts}": sample_size.miller_mde(
            i["n"],
            omega2=i["omega2"],
            sigma2_skill=i["sigma2A"],
            sigma2_baseline=i["sigma2B"],
            attempts_skill=attempts,
            attempts_baseline=attempts,
            power=i["power"],
            alpha=i["alpha"],
        )
        for attempts in (1, 10)
    }


def _miller_cases(i: Inputs) -> Values:
    n = sample_size.miller_cases(
        i["delta"],
        omega2=i["omega2"],
        sigma2_skill=i["sigma2"],
        sigma2_baseline=i["sigma2"],
        power=i["power"],
        alpha=i["alpha"],
    )
    return {"n": n, "n_ceiling": int(np.ceil(n))}


_CLUSTERED = Source(
    ("significance.obuchowski", "significance.durkalski", "significance.mcnemar_asymptotic"),
    _clustered_tests,
)
_CR2_MEAN = Source(("clusters.cr2_mean", "clusters.cr2"), _cr2_mean)
_MCNEMAR = Source(
    ("significance.mcnemar_exact", "significance.mcnemar_midp", "significance.mcnemar_asymptotic"),
    _mcnemar,
)
_ONE_RATE = Source(
    ("intervals.wilson", "intervals.clopper_pearson", "intervals.jeffreys"), _one_rate
)
_AGREEMENT = Source(
    (
        "agreement.cohen_kappa",
        "agreement.gwet_ac1",
        "agreement.krippendorff_alpha",
        "agreement.bootstrap_agreement",
    ),
    _agreement,
)

NAMED = {
    "clustered_mcnemar_thyroids": _CLUSTERED,
    "clustered_mcnemar_psychiatry": _CLUSTERED,
    "cr2_mean_thyroids": _CR2_MEAN,
    "cr2_mean_psychiatry": _CR2_MEAN,
    "did_near_far_fixture": Source(("clusters.cr2",), _did_by_skill),
    "did_case_cluster_fixture": Source(("clusters.cr2",), _did_by_case),
    "wild_cluster_enumerated": Source(("clusters.sign_flip",), _sign_flip),
    "mover_did": Source(("intervals.mover_difference",), _mover),
    "beta_posterior_9_10": Source(("intervals.jeffreys",), _beta_posterior),
    "bayes_dirichlet_jeffreys": Source(("paired.dirichlet",), _dirichlet),
    "agreement_gwet_raw4raters": Source(
        ("agreement.bootstrap_agreement", "agreement.krippendorff_alpha"), _four_raters
    ),
    "krippendorff_canonical": Source(("agreement.krippendorff_alpha",), _krippendorff),
    "ppi_mean_lambda1": Source(("ppi.ppi_mean",), _ppi(1.0)),
    "ppi_plusplus_mean": Source(("ppi.ppi_mean",), _ppi(None)),
    "delong_aSAH": Source(("detection.delong", "detection.delong_paired"), _delong),
    "bernoulli_cusum_arl": Source(("cusum.cusum_run_length",), _bernoulli_cusum),
    "severity_drift_2versions": Source(("significance.severity_shift",), _severity_of_two),
    "severity_drift_3graders": Source(("significance.cochran_q",), _versions_of_three),
    "pass_hat_k_ci": Source(("passk.pooled_pass_hat_k",), _pass_hat_k_ci),
    "miller_mde": Source(("sample_size.miller_mde",), _miller_mde),
    "miller_n": Source(("sample_size.miller_cases",), _miller_cases),
    "holm_bh_9dims": Source(
        ("significance.holm", "significance.benjamini_hochberg", "significance.adjust"),
        _nine_dimensions,
    ),
    "bh_1995_thrombolysis": Source(
        ("significance.holm", "significance.benjamini_hochberg", "significance.adjust"),
        _fifteen_p_values,
    ),
}

BY_PREFIX = {
    "mcnemar_": _MCNEMAR,
    "binom_ci_": _ONE_RATE,
    "agreement_": _AGREEMENT,
    "rogan_gladen_": Source(("grader_errors.rogan_gladen",), _rogan_gladen),
    "power_mcnemar_": Source(("sample_size.mcnemar_power",), _mcnemar_power),
    "sample_size_connor_": Source(("sample_size.connor",), _connor),
    "pass_at_k_": Source(("passk.pass_at_k", "passk.pass_hat_k"), _pass_k),
}


def source_of(name: str) -> Source | None:
    """Return the source of an entry, None when nothing answers it."""
    if name in NAMED:
        return NAMED[name]
    if name.startswith(("paired_rd_", "published_")):
        ends = [end for end in PAIRED if name.endswith("_" + end)]
        return PAIRED[max(ends, key=len)] if ends else None
    prefixes = [prefix for prefix in BY_PREFIX if name.startswith(prefix)]
    return BY_PREFIX[prefixes[0]] if prefixes else None


_SCAS = "SCAS: the skewness-corrected score is not offered; Tango and Newcombe 10 are"
EXEMPT = {name: _SCAS for name in ENTRIES if name.endswith("_scas")} | {
    "gee_logit_fixture": "GEE: by statsmodels where an analysis needs it, no function of ours",
    "gee_ohio": "GEE: by statsmodels where an analysis needs it, no function of ours",
    "newcombe10_neff_fixture": "effective n: the bounded mean takes the place of both intervals",
    "tango_neff_fixture": "effective n: the bounded mean takes the place of both intervals",
    "glmm_fixture": "GLMM: not offered; the linear model with CR2 has the same estimand",
    "rao_scott_fixture": "Rao-Scott: not offered; CR2 and the score intervals take its place",
    "bayes_bowyer_probit_small": "Bowyer's posterior: an optional display, not offered",
    "ewma_arl": "EWMA of batches: no analysis draws one; the Bernoulli CUSUM is offered",
    "cusum_arl": "tabular CUSUM: verdicts are binary, the Bernoulli CUSUM is offered",
    "fleiss_1971_diagnoses": "no data: irr::diagnoses is not embedded in the file",
    "miller_table_ratio": "no data: ratios quoted from a paper, for context",
}

_SAME_CLAIM = "tests what Obuchowski and Durkalski test, not offered"
_OTHER_KAPPA = "another chance correction, not offered: kappa, AC1 and alpha are"
_OTHERS = ("scott_pi", "brennan_prediger", "conger_kappa")
_CASES = "the standard error of raw agreement is that of cases, which divides by n - 1"
_JOINT = "three versions in one conditional logit: not offered, each is held against the first"
LEFT_OUT: dict[str, dict[str, str]] = {
    "delong_aSAH": dict.fromkeys(
        (
            "youden_threshold_s100b",
            "youden_sens_s100b",
            "youden_spec_s100b",
            "youden_threshold_ndka",
        ),
        "Youden's cut: not offered; sc.overlap.calibrate picks its cut under a limit",
    ),
    "severity_drift_3graders": {"coef": _JOINT, "se": _JOINT},
    "clustered_mcnemar_thyroids": {"eliasziw": _SAME_CLAIM, "yang": _SAME_CLAIM},
    "clustered_mcnemar_psychiatry": {"eliasziw": _SAME_CLAIM, "yang": _SAME_CLAIM},
    **{
        name: {key: _OTHER_KAPPA for key in _OTHERS if key in entry["expected"]}
        | ({"percent[1]": _CASES} if "percent" in entry["expected"] else {})
        for name, entry in ENTRIES.items()
        if "table" in entry["inputs"]
    },
    "agreement_gwet_raw4raters": dict.fromkeys(
        ("brennan_prediger", "conger_kappa", "fleiss_kappa"), _OTHER_KAPPA
    )
    | {"krippendorff[1]": "irrCAC's variance of alpha for gaps differs by 6e-4 of its value"},
    "krippendorff_canonical": dict.fromkeys(
        ("ordinal", "interval", "ratio"), "verdicts are nominal: alpha is offered for those only"
    ),
    "did_near_far_fixture": {
        "statsmodels_crv3_use_correction_true": "statsmodels' factor, which clubSandwich lacks"
    },
    "wild_cluster_enumerated": {
        "p_strict": "the count without ties, which is what wildboottest gets wrong",
    },
    "mover_did": dict.fromkeys(
        ("welch_ci", "welch_t", "welch_df", "welch_p"), "scipy's ttest_ind, no function of ours"
    ),
}
