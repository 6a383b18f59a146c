"""What a plan starts from: a pilot, its components, or stated assumptions; and the plans asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, StudyError, suggest
from skillcomp.estimates import listed
from skillcomp.planning.components import Value, variance_components
from skillcomp.stats.power import PairedComponents

Effect = Literal["delta", "gap"]
Cluster = Literal["case", "skill"]
Method = Literal["simulation", "formula"]
Counts = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Parts:
    """Rates and variance components behind a plan; NaN where unknown.

    Attributes
    ----------
    baseline_rate, delta : float
        Mean pass rate of the baseline, and what the condition adds.
    tau2, tau2_gap, omega2, omega2_gap, sigma2_baseline, sigma2_skill : float
        As :func:`skillcomp.planning.variance_components` names them.
    """

    baseline_rate: float = math.nan
    delta: float = math.nan
    tau2: float = math.nan
    tau2_gap: float = math.nan
    omega2: float = math.nan
    omega2_gap: float = math.nan
    sigma2_baseline: float = math.nan
    sigma2_skill: float = math.nan

    def paired(self, effect: Effect, cluster: Cluster) -> PairedComponents:
        """Return the components of a delta, or of the cases of one distance for a gap."""
        tau2, omega2 = self.tau2, self.omega2
        if effect == "gap":
            # a skill's effect cancels in its own gap; halves of tau2_gap stand on either side
            tau2, omega2 = self.tau2_gap / 2, self.omega2_gap
        elif cluster == "case" and not math.isnan(tau2):
            # an interval by case takes the spread between skills for spread between cases
            omega2 += tau2
        return PairedComponents(
            tau2 if cluster == "skill" else 0.0,
            omega2,
            0.0 if math.isnan(self.sigma2_skill) else self.sigma2_skill,
            0.0 if math.isnan(self.sigma2_baseline) else self.sigma2_baseline,
        )

    @property
    def one_repeat(self) -> bool:
        """Return whether repeats and cases could not be told apart."""
        return math.isnan(self.sigma2_skill) or math.isnan(self.sigma2_baseline)


@dataclass(frozen=True, slots=True)
class Plan:
    """One study to be planned."""

    n_skills: int
    n_cases: int
    n_repeats: int
    effect: Effect
    cluster: Cluster
    far_share: float = 0.5

    @property
    def sizes(self) -> list[int]:
        """Return the cases of each skill."""
        return [self.n_cases] * self.n_skills

    def split(self) -> tuple[list[int], list[int]]:
        """Return near and far cases of each skill."""
        far = round(self.n_cases * self.far_share)
        return [self.n_cases - far] * self.n_skills, [far] * self.n_skills

    def columns(self) -> dict[str, Any]:
        """Return what names the plan in a frame."""
        return {
            "effect": self.effect,
            "cluster": self.cluster,
            "n_skills": self.n_skills,
            "n_cases": self.n_cases,
            "n_repeats": self.n_repeats,
        }


def plans(
    n_skills: Counts,
    n_cases: Counts,
    n_repeats: Counts,
    effect: Effect,
    cluster: Cluster,
    far_share: float,
) -> list[Plan]:
    """Return every combination asked for."""
    for name, word, allowed in (
        ("effect", effect, ("delta", "gap")),
        ("cluster", cluster, ("case", "skill")),
    ):
        if word not in allowed:
            raise StudyError(
                f"{name}: found '{word}'; allowed: {', '.join(allowed)}."
                + suggest(str(word), allowed)
            )
    if not 0 < far_share < 1:
        raise StudyError(f"far_share: found {far_share}; allowed: strictly between 0 and 1.")
    skills, cases = _counts("n_skills", n_skills), _counts("n_cases", n_cases)
    repeats = _counts("n_repeats", n_repeats)
    return [
        Plan(s, c, r, effect, cluster, far_share) for s, c, r in product(skills, cases, repeats)
    ]


def _counts(name: str, values: Counts) -> list[int]:
    numbers = [values] if isinstance(values, int) else list(values)
    if not numbers or min(numbers) < 1:
        raise StudyError(f"{name}: found {values!r}; allowed: whole numbers of at least 1.")
    return numbers


def parts(
    pilot: pd.DataFrame | None,
    assumed: Mapping[str, float | None],
    *,
    by: Sequence[str],
    value: Value,
    reference: str,
    needed: Sequence[str],
) -> Iterator[tuple[dict[str, Any], Parts]]:
    """Yield the parts of each group of a pilot, with assumptions in place of what they name.

    Parameters
    ----------
    pilot : pandas.DataFrame or None
        An outcomes frame, or what :func:`skillcomp.planning.variance_components` returned.
    assumed : mapping of str to float or None
        Stated values by the names of `Parts`; None leaves the pilot's.
    by, value, reference
        As in :func:`skillcomp.planning.variance_components`.
    needed : sequence of str
        Parts without which nothing can be planned.
    """
    stated = {name: float(number) for name, number in assumed.items() if number is not None}
    for name, number in stated.items():
        if name not in ("baseline_rate", "delta") and not number >= 0:
            raise StudyError(f"{name}: found {number}; allowed: 0 or more, a variance.")
    if pilot is None:
        found = Parts(**stated)
        _complete(found, needed, "stated assumptions")
        yield {"condition": "skill"}, found
        return
    names = listed(by)
    table = pilot
    if "measure" not in pilot.columns:
        table = variance_components(pilot, by=names, value=value, reference=reference)
    keys = [*names, "condition"]
    absent = [name for name in [*keys, "estimate"] if name not in table.columns]
    if absent:
        raise FrameError(f"planning: the frame of components has no column '{absent[0]}'.")
    for key, rows in table.groupby(keys, sort=False, dropna=False):
        if rows["measure"].duplicated().any():
            raise FrameError(
                "planning: the frame of components holds several groups; name their columns in by=."
            )
        numbers = rows.set_index("measure")["estimate"].to_dict()
        known = {one.name: float(numbers.get(one.name, math.nan)) for one in fields(Parts)}
        found = Parts(**(known | stated))
        about = dict(zip(keys, key, strict=True))
        _complete(found, needed, f"the pilot ({', '.join(map(str, key))})")
        yield about, found


def _complete(found: Parts, needed: Sequence[str], source: str) -> None:
    absent = [name for name in needed if math.isnan(getattr(found, name))]
    if absent:
        raise StudyError(
            f"planning: {source} leaves unknown what is needed: {', '.join(absent)}. State it."
        )
