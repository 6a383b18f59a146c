"""Removed public names, and what answers their question now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import lazy_loader

# a dotted name without the package, and the rest of the sentence "sc.<name> is gone: ..."
REMOVED = {
    "bias.position_change": "sc.bias.position with by=['grader'] gives the position effect of "
    "each version",
    "deltas.by_dimension": "call sc.deltas.paired with by=['comprehension_dimension'], which "
    "adjusts for the number of dimensions",
    "explore.deltas": "sc.explore.study shows the deltas of a study and the cases behind them",
    "explore.drift": "sc.reliability.flipped lists the changed items, and sc.plots.flips draws "
    "their counts",
    "export.read": "read the files with pandas.read_parquet",
    "live.BatchLimits": "ask a suite at half the price on Inspect, as docs/howto/thousands.md "
    "shows",
    "overlap.score_files": "call sc.overlap.score on each partition of a dask.dataframe, as "
    "docs/howto/million-rows.md shows",
    "planning.cases_to_settle": "call sc.planning.cases_needed with size= as observed, once with "
    "margin=0 and once with the margin",
    "plots.cusum": "draw the changes of sc.reliability.drift or of sc.reliability.contrast with "
    "sc.plots.estimates",
    "plots.severity": "sc.plots.estimates draws the rows of sc.reliability.drift",
    "pricing.PRICES": "sc.pricing.cost knows the list prices; your own come first by prices=",
    "pricing.READ_ON": "list prices are those of the installed package genai-prices",
    "pricing.price": "sc.pricing.cost knows the list prices; your own come first by prices=",
    "pricing.price_table": "sc.pricing.cost knows the list prices; your own come first by prices=",
    "records.Rule": "Check.rule is a dict in old stores; no grader decides it",
    "reliability.chart": "compare versions by sc.reliability.drift, and a version that graded "
    "twice by sc.reliability.contrast with between='round'",
    "reliability.flip_rates": "sc.reliability.consistency gives the rates and "
    "sc.reliability.flipped the items",
    "report.NotebookError": "it is skillcomp.report.notebooks.NotebookError, a StudyError",
    **dict.fromkeys(
        (
            *("report.about_graders", "report.description_sentences", "report.plan_sentences"),
            *("report.progress_sentences", "report.repeat_sentences", "report.skill_sentences"),
            "report.threshold_sentences",
        ),
        "sc.report.sentences gives the sentences on the result of any analysis",
    ),
    "report.execute": "call skillcomp.report.execute_notebooks.execute",
    "report.find_notebooks": "call skillcomp.report.notebooks.find_notebooks",
    "report.write_notebooks": "run make notebooks in the repository, or nbclient on your own",
    "simulate": "compute the size of a study with sc.planning.power_curve; the simulated studies "
    "of the tests are in benchmarks/simulated of the repository",
    "stats.Association": "sc.stats.association returns it",
    "stats.BernoulliCusum": "compare two rounds by sc.reliability.contrast",
    "stats.BoundedMeans": "sc.stats.bounded_means computes several means at once",
    "stats.bounded_mean_counts": "sc.stats.bounded_means computes several means at once",
    "stats.ClusteredFit": "sc.stats.cr2_mean gives the interval of a mean",
    "stats.RandomEffects": "sc.stats.random_effects returns it",
    "stats.bernoulli_cusum": "compare two rounds by sc.reliability.contrast",
    "stats.cr2": "use sc.stats.cr2_mean for a mean and sc.stats.bounded_slope for two groups",
    "stats.cusum_limit": "compare two rounds by sc.reliability.contrast",
    "stats.cusum_steps": "compare two rounds by sc.reliability.contrast",
    "stats.sign_flip": "sc.stats.bounded_mean with null=0 gives a p-value",
    "stats.DifferentialTests": "sc.correction.differential gives the tests",
    "stats.differential_misclassification": "sc.correction.differential "
    "tests equal errors of a grader",
    "stats.youden": "sc.correction.differential gives Youden's J of each condition",
    "stats.youden_difference": "sc.correction.differential gives the change of Youden's J",
    "stats.clustered_cochran": "sc.reliability.drift compares three or more versions",
    "stats.clustered_midp": "sc.reliability.drift compares two versions with cases as units",
    "stats.rank_sets": "sc.reliability.contrast gives the ranks of graders",
    "stats.severity_shift": "sc.reliability.drift gives the shift of severity",
    "stats.clean_needed": "sc.overlap.calibrate says how many clean documents are needed",
    "stats.sensitivity": "sc.reliability.agreement gives it with quantities=['sensitivity']",
    "stats.specificity": "sc.reliability.agreement gives it with quantities=['specificity']",
    "stats.any_of_k": "sc.stats.pass_at_k gives the chance that one of k attempts passes",
    "stats.weighted_rate": "sc.correction.rate computes rates from gold of unequal shares",
    "stats.log_ratio": "sc.deltas.paired compares amounts by their ratios",
    "stats.ratio_of_means": "sc.deltas.price compares the prices of a pass",
    "stats.bootstrap_agreement": "sc.reliability.agreement gives the coefficients with intervals",
    "stats.pooled_pass_at_k": "call sc.stats.bounded_mean on the values of "
    "sc.stats.pass_at_k, with quantity=sc.stats.RATES",
    "stats.pooled_pass_hat_k": "call sc.stats.bounded_mean on the values of "
    "sc.stats.pass_hat_k, with quantity=sc.stats.RATES",
}


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that loads names by its stub."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def load_name(name: str) -> Any:
        if name not in names:
            raise missing_name(package, name)
        return load(name)

    return load_name, listed, names


def raise_missing_name(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module in a single file."""

    def raise_error(name: str) -> NoReturn:
        raise missing_name(module, name)

    return raise_error


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not have, with its answer if it had it once."""
    dotted = f"{module}.{name}".removeprefix("skillcomp.")
    if dotted in REMOVED:
        return AttributeError(f"sc.{dotted} is gone: {REMOVED[dotted]}.")
    return AttributeError(f"No {module} attribute {name}")
