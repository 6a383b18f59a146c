"""Plans to be judged, and the ruler that judges them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, suggest
from skillcomp.estimates import listed, row
from skillcomp.planning import simulated
from skillcomp.planning.arguments import level, whole
from skillcomp.planning.components import Value
from skillcomp.planning.inputs import (
    Cluster,
    Counts,
    Effect,
    Method,
    Parts,
    Plan,
    Scope,
    parts,
    plans,
)
from skillcomp.stats.power import clustered_df, paired_variance, t_power
from skillcomp.stats.results import Interval, undefined

ONE_REPEAT = "the pilot has one repeat a case: further repeats are taken to gain nothing"
TOO_WILD = (
    "deltas vary more than simulated ones can at this size: the t formula instead, without limits"
)
KNOWN = "the components are taken as known: no limits"
MIN_SKILLS = 5  # below this the default interval refuses to speak of skills in general
CALM = "the components leave a delta no variance at all: nothing to plan with"
PLAN = ["effect", "cluster", "scope", "n_skills", "n_cases", "n_repeats"]
LABELS = ["skills", "cases", "repeats"]  # the same in words, for the key of a figure
_NOTHING = 1e-15  # a variance that is 0 up to rounding
_EDGE = 1e-3  # rates nearer than this to 0 or 1 are not simulated


@dataclass(frozen=True, slots=True)
class Ruler:
    """How the power of a plan is measured."""

    method: Method
    n_studies: int
    seed: int
    ci_level: float

    def power(self, plan: Plan, known: Parts, size: float) -> Interval:
        """Return the chance that the plan shows an effect of this size."""
        note = KNOWN
        if self.method == "simulation":
            found = simulated.power(
                plan, known, size, n_studies=self.n_studies, seed=self.seed, ci_level=self.ci_level
            )
            if found is not None:
                return found
            note = TOO_WILD
        variance, df = variance_and_df(plan, known)
        if not variance > _NOTHING:
            return undefined(self.name, CALM, ci_level=self.ci_level)
        reached = t_power(size, variance, df, alpha=1 - self.ci_level)
        formula = replace(self, method="formula").name
        return Interval(reached, math.nan, math.nan, self.ci_level, formula, note)

    @property
    def name(self) -> str:
        """Return the method in words."""
        if self.method == "formula":
            return f"t formula on the variance components at {self.ci_level:g}"
        return (
            f"simulation of {self.n_studies} studies a step, seed {self.seed}, with the default "
            f"interval at {self.ci_level:g}"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments that all three functions share."""

    groups: list[tuple[dict[str, Any], Parts, str]]
    ruler: Ruler
    names: list[str]
    effect: Effect
    cluster: Cluster
    far_share: float
    scope: Scope

    def cells(self, n_skills: Counts, n_cases: Counts, n_repeats: Counts) -> Iterator[Cell]:
        """Yield every group with every plan."""
        asked = plans(
            n_skills, n_cases, n_repeats, self.effect, self.cluster, self.far_share, self.scope
        )
        for about, known, absent in self.groups:
            own = f"the pilot {absent}" if absent else self._unusable(known)
            for plan in asked:
                problem = own or problem_of(plan)
                yield Cell(about, known, plan, problem, self._caveat(known, plan))

    def _unusable(self, known: Parts) -> str:
        """Return why studies with such rates cannot be simulated, or an empty string."""
        rates = {"baseline": known.baseline_rate}
        if self.effect == "gap":
            rates["rate with the skill"] = known.baseline_rate + known.delta
        for name, rate in rates.items():
            if self.ruler.method == "simulation" and not _EDGE < rate < 1 - _EDGE:
                return f"a {name} of {rate:.3g} cannot be simulated: state another"
        return ""

    def _caveat(self, known: Parts, plan: Plan) -> str:
        notes = []
        if known.one_repeat and plan.n_repeats > 1 and self.ruler.method == "formula":
            notes.append(ONE_REPEAT)
        if plan.cluster == "skill" and plan.n_skills < MIN_SKILLS:
            notes.append(
                f"fewer than {MIN_SKILLS} skills: the default interval speaks of these cases only"
            )
        return "; ".join(notes)


@dataclass(frozen=True, slots=True)
class Cell:
    """One group of the pilot with one plan, and why it cannot be judged, if so."""

    about: dict[str, Any]
    known: Parts
    plan: Plan
    problem: str
    caveat: str

    def row(self, measure: str, found: Interval, **extra: Any) -> dict[str, Any]:
        """Return a row of the estimates frame, with the notes of the plan."""
        note = "; ".join(filter(None, [found.note, self.caveat]))
        # the fields of an interval only: a simulated power carries more
        plain = Interval(found.estimate, found.low, found.high, found.ci_level, found.method, note)
        cases = float(self.plan.n_skills * self.plan.n_cases)
        return {
            **self.about,
            **self.plan.columns(),
            **row(measure, plain),
            "n": cases,
            "n_clusters": float(self.plan.n_skills),
            **extra,
        }


def problem_of(plan: Plan) -> str:
    """Return why a plan cannot be judged at all, or an empty string."""
    if plan.cluster == "skill" and plan.n_skills < 2:
        return "one skill says nothing of skills in general"
    if plan.effect == "gap" and min(min(one) for one in plan.split()) < 1:
        return "each skill needs a near and a far case"
    if plan.n_skills * plan.n_cases < (4 if plan.effect == "gap" else 2):
        return "too few cases"
    return ""


def variance_and_df(plan: Plan, known: Parts) -> tuple[float, float]:
    """Return variance and degrees of freedom of the planned delta or gap, by formula."""
    found = known.paired(plan.effect, plan.cluster, plan.scope)
    groups = [plan.sizes] if plan.effect == "delta" else list(plan.split())
    repeats = {"attempts_skill": plan.n_repeats, "attempts_baseline": plan.n_repeats}
    if known.one_repeat:
        repeats = {}
    variance = sum(paired_variance(sizes, found, **repeats) for sizes in groups)
    if plan.cluster == "skill":
        return variance, clustered_df(plan.sizes)
    totals = [float(sum(sizes)) for sizes in groups]
    if plan.effect == "delta":
        return variance, totals[0] - 1
    return variance, sum(1 / n for n in totals) ** 2 / sum(1 / (n**2 * (n - 1)) for n in totals)


def ask(
    pilot: pd.DataFrame | None,
    *,
    effect: Effect,
    cluster: Cluster,
    method: Method,
    by: Sequence[str],
    value: Value,
    reference: str,
    stated: dict[str, float | None],
    far_share: float,
    scope: Scope,
    n_studies: int,
    seed: int,
    ci_level: float,
) -> Asked:
    """Check the shared arguments and read pilot and assumptions."""
    level(ci_level)
    n_studies, seed = whole("n_studies", n_studies), whole("seed", seed, least=0)
    if method not in ("simulation", "formula"):
        raise StudyError(
            f"method: found '{method}'; allowed: simulation, formula."
            + suggest(str(method), ["simulation", "formula"])
        )
    if method == "simulation" and value != "passed":
        raise StudyError(
            "method='simulation' draws attempts that pass or fail; for value='share_passed' use "
            "method='formula'."
        )
    suffix = "_gap" if effect == "gap" else ""
    needed = [f"omega2{suffix}"] + ([f"tau2{suffix}"] if cluster == "skill" else [])
    if effect == "gap" and scope == "pooled" and cluster == "case":
        needed += ["tau2"]
    needed += ["sigma2_skill", "sigma2_baseline"] if pilot is None else []
    if method == "simulation":
        needed += ["baseline_rate"] + (["delta"] if effect == "gap" else [])
    known = {
        "baseline_rate": stated["baseline_rate"],
        "delta": stated["delta"],
        **{f"tau2{end}": stated["tau2"] for end in ("", "_gap")},
        **{f"omega2{end}": stated["omega2"] for end in ("", "_gap")},
        **{f"sigma2_{arm}": stated["sigma2"] for arm in ("skill", "baseline")},
    }
    groups = parts(pilot, known, by=by, value=value, reference=reference, needed=needed)
    ruler = Ruler(method, n_studies, seed, ci_level)
    return Asked(groups, ruler, listed(by), effect, cluster, far_share, scope)


def stated_parts(
    baseline_rate: float | None,
    delta: float | None,
    tau2: float | None,
    omega2: float | None,
    sigma2: float | None,
) -> dict[str, float | None]:
    """Return the stated values by name."""
    return {
        "baseline_rate": baseline_rate,
        "delta": delta,
        "tau2": tau2,
        "omega2": omega2,
        "sigma2": sigma2,
    }


def room(cell: Cell, sign: float) -> float:
    """Return the largest effect in this direction that keeps every rate inside 0 to 1."""
    base = cell.known.baseline_rate
    if cell.plan.effect == "delta":
        return (1 - base if sign > 0 else base) - _EDGE
    near, far = (sum(one) for one in cell.plan.split())
    share = far / (near + far)
    middle = base + cell.known.delta
    # far moves by (1 - share) of the gap, near the other way by share of it
    up, down = 1 - middle, middle
    far_room, near_room = (up, down) if sign > 0 else (down, up)
    return min(far_room / (1 - share), near_room / share) - _EDGE


def outside(cell: Cell, size: float, ruler: Ruler) -> str:
    """Return why an effect of this size is impossible, or an empty string."""
    if ruler.method == "formula":
        return ""
    most = room(cell, math.copysign(1.0, size))
    if abs(size) <= most:
        return ""
    return f"a {cell.plan.effect} of {size:g} needs a rate outside 0 to 1; at most {most:.3f}"
