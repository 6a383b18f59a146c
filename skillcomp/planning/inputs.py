"""What a plan starts from: a pilot, its components, or stated assumptions; and the plans asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, StudyError, suggest
from skillcomp.estimates import listed
from skillcomp.planning.arguments import number, wholes
from skillcomp.planning.components import Value, variance_components
from skillcomp.stats.power import PairedComponents

Effect = Literal["delta", "gap"]
Cluster = Literal["case", "skill"]
Scope = Literal["within_dimensions", "pooled"]
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

    def paired(self, effect: Effect, cluster: Cluster, scope: Scope) -> PairedComponents:
        """Return the components of a delta, or of the cases of one distance for a gap."""
        tau2, omega2 = self.tau2, self.omega2
        if effect == "gap":
            # a skill's effect cancels in its own gap; halves of tau2_gap stand on either side
            tau2, omega2 = self.tau2_gap / 2, self.omega2_gap
            if scope == "pooled" and cluster == "case":
                # all near against all far cases: the interval takes skills for spread of cases
                omega2 += self.tau2
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
    scope: Scope = "within_dimensions"

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
            "scope": self.scope if self.effect == "gap" else None,
            "n_skills": self.n_skills,
            "n_cases": self.n_cases,
            "n_repeats": self.n_repeats,
            "skills": _counted(self.n_skills, "skill"),
            "cases": _counted(self.n_cases, "case"),
            "repeats": _counted(self.n_repeats, "repeat"),
        }


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def plans(
    n_skills: Counts,
    n_cases: Counts,
    n_repeats: Counts,
    effect: Effect,
    cluster: Cluster,
    far_share: float,
    scope: Scope,
) -> list[Plan]:
    """Return every combination asked for."""
    for name, word, allowed in (
        ("effect", effect, ("delta", "gap")),
        ("cluster", cluster, ("case", "skill")),
        ("scope", scope, ("within_dimensions", "pooled")),
    ):
        if word not in allowed:
            raise StudyError(
                f"{name}: found '{word}'; allowed: {', '.join(allowed)}."
                + suggest(str(word), allowed)
            )
    far_share = number("far_share", far_share, least=0, most=1, open_=True)
    skills, cases = wholes("n_skills", n_skills), wholes("n_cases", n_cases)
    repeats = wholes("n_repeats", n_repeats)
    return [
        Plan(s, c, r, effect, cluster, far_share, scope)
        for s, c, r in product(skills, cases, repeats)
    ]


def parts(
    pilot: pd.DataFrame | None,
    assumed: Mapping[str, float | None],
    *,
    by: Sequence[str],
    value: Value,
    reference: str,
    needed: Sequence[str],
) -> list[tuple[dict[str, Any], Parts, str]]:
    """Return the parts of each group of a pilot, with assumptions in place of what they name.

    The last of the three says what a group lacks: a plan for the others is made all the same.

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

    Raises
    ------
    StudyError
        If every group lacks something, or an assumption is out of its range.
    """
    stated = _stated(assumed)
    if pilot is None:
        found = Parts(**stated)
        lacking = _absent(found, needed)
        if lacking:
            raise StudyError(f"planning: stated assumptions {lacking}. State it.")
        return [({"condition": "skill"}, found, "")]
    names = listed(by)
    table = pilot
    if "measure" not in pilot.columns:
        table = variance_components(pilot, by=names, value=value, reference=reference)
    keys = [*names, "condition"]
    absent = [name for name in [*keys, "estimate"] if name not in table.columns]
    if absent:
        raise FrameError(f"planning: the frame of components has no column '{absent[0]}'.")
    out = []
    for key, rows in table.groupby(keys, sort=False, dropna=False):
        if rows["measure"].duplicated().any():
            raise FrameError(
                "planning: the frame of components holds several groups; name their columns in by=."
            )
        numbers = rows.set_index("measure")["estimate"].to_dict()
        known = {one.name: float(numbers.get(one.name, math.nan)) for one in fields(Parts)}
        found = Parts(**(known | stated))
        about = dict(zip(keys, key, strict=True))
        out.append((about, found, _absent(found, needed)))
    if out and all(lacking for *_, lacking in out):
        about, _, lacking = out[0]
        of = ", ".join(map(str, about.values()))
        raise StudyError(f"planning: the pilot ({of}) {lacking}. State it.")
    return out


def _stated(assumed: Mapping[str, float | None]) -> dict[str, float]:
    stated = {}
    for name, given in assumed.items():
        if given is None:
            continue
        if name == "baseline_rate":
            stated[name] = number(name, given, least=0, most=1)
        elif name == "delta":
            stated[name] = number(name, given, least=-1, most=1)
        else:
            asked = name.partition("_")[0]
            stated[name] = number(f"{asked}, a variance", given, least=0, most=math.inf)
    return stated


def _absent(found: Parts, needed: Sequence[str]) -> str:
    """Return what of the needed is unknown, in words, or an empty string."""
    absent = [name for name in needed if math.isnan(getattr(found, name))]
    return f"leaves unknown what is needed: {', '.join(absent)}" if absent else ""
