"""Estimators and tests: arrays and small tables in, frozen results out.

This package knows no frames and no skills. Sources, defaults and traps of every estimator stand in
its docstring. Each public name below can be had from its module or straight from
``skillcomp.stats``; modules load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "results": (
        "HypothesisTest",
        "Interval",
    ),
    "intervals": (
        "agresti_min",
        "bonett_price",
        "clopper_pearson",
        "dirichlet_paired",
        "fay_lumbard",
        "jeffreys",
        "mcnemar_asymptotic",
        "mcnemar_exact",
        "mcnemar_midp",
        "mover_difference",
        "newcombe_paired",
        "tango",
        "wald_paired",
        "wilson",
    ),
    "clusters": (
        "ClusteredFit",
        "cr2",
        "cr2_mean",
        "durkalski",
        "newcombe_effective",
        "obuchowski",
        "sign_flip",
        "tango_effective",
        "wilson_effective",
    ),
    "switching": (
        "PairedDeltas",
        "paired_delta",
        "paired_delta_many",
    ),
    "passk": (
        "pass_at_k",
        "pass_hat_k",
        "pooled_pass_at_k",
        "pooled_pass_hat_k",
    ),
    "agreement": (
        "bootstrap_agreement",
        "cohen_kappa",
        "gwet_ac1",
        "krippendorff_alpha",
        "raw_agreement",
        "sensitivity",
        "specificity",
    ),
    "misclassification": (
        "DifferentialTests",
        "GoldAllocation",
        "differential_misclassification",
        "fisher_midp",
        "gold_allocation",
        "ppi_mean",
        "ppi_paired",
        "rogan_gladen",
        "youden",
        "youden_difference",
    ),
    "detection": (
        "Criterion",
        "OperatingPoint",
        "Threshold",
        "at_threshold",
        "bootstrap_auc",
        "choose_threshold",
        "clean_needed",
        "delong",
        "delong_paired",
    ),
    "crossvalidation": (
        "Corrected",
        "NestedResult",
        "OptimismResult",
        "nested_threshold",
        "optimism_bootstrap",
    ),
    "charts": (
        "BernoulliCusum",
        "Ewma",
        "bernoulli_cusum",
        "cusum_limit",
        "cusum_run_length",
        "cusum_steps",
        "ewma",
        "ewma_run_length",
        "ewma_width",
        "false_alarm_probability",
    ),
    "power": (
        "PairedComponents",
        "SimulatedPower",
        "clustered_cases",
        "clustered_df",
        "clustered_mde",
        "connor",
        "design_effect",
        "draw_paired_studies",
        "mcnemar_cases",
        "mcnemar_power",
        "miller_cases",
        "miller_mde",
        "paired_components",
        "paired_variance",
        "simulate_power",
        "t_mde",
        "t_power",
    ),
    "multiplicity": (
        "MaxT",
        "adjust",
        "bh",
        "holm",
        "max_t",
        "simultaneous_level",
    ),
    "severity": (
        "cochran_q",
        "severity_shift",
    ),
}
_OWNER = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted({*_PUBLIC, *_OWNER})


def __getattr__(name: str) -> Any:
    if name in _PUBLIC or name in _OWNER:
        module = import_module(f"{__name__}.{_OWNER.get(name, name)}")
        return module if name in _PUBLIC else getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
