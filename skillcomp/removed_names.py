"""Removed public names, and what answers their question now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

# a dotted name without the package, and the rest of the sentence "sc.<name> is gone: ..."
REMOVED = {
    "overlap.score_files": "call sc.overlap.score on each partition of a dask.dataframe, "
    "as docs/howto/million-rows.md shows",
    "plots.cusum": "draw the changes of sc.reliability.drift or of sc.reliability.contrast with "
    "sc.plots.estimates",
    "plots.severity": "sc.plots.estimates draws the rows of sc.reliability.drift",
    "reliability.chart": "compare versions by sc.reliability.drift, and a version that graded "
    "twice by sc.reliability.contrast with between='round'",
    "simulate": "compute the size of a study with sc.planning.power_curve; the simulated studies "
    "of the tests are in benchmarks/simulated of the repository",
    "stats.BernoulliCusum": "compare two rounds by sc.reliability.contrast",
    "stats.bernoulli_cusum": "compare two rounds by sc.reliability.contrast",
    "stats.cusum_limit": "compare two rounds by sc.reliability.contrast",
    "stats.cusum_steps": "compare two rounds by sc.reliability.contrast",
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


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not have, with its answer if it had it once."""
    dotted = f"{module}.{name}".removeprefix("skillcomp.")
    if dotted in REMOVED:
        return AttributeError(f"sc.{dotted} is gone: {REMOVED[dotted]}.")
    return AttributeError(f"No {module} attribute {name}")
