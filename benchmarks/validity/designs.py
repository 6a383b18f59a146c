"""The designs of the coverage study: how studies are drawn, and the true value of each.

The first 342 designs draw logit-normal studies. The others are hard for intervals: agents that
always give the same answer, few flips, hopeless cases, an effect of few skills, twins, several
agents, unequal or missing repeats, unequal clusters, weights, four arms, shares with a ceiling. The
designs of the families in ``WEAKNESSES`` violate the assumption of the adaptive rule on purpose:
a few cases or skills are unlike all others, and the others have mixed outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks.simulated import counts
from skillcomp.stats.bounded import Arm

Floats = NDArray[np.float64]
Rng = np.random.Generator

DELTAS, RATES, SHARES, FOUR = "deltas", "rates", "shares", "four arms"


@dataclass(frozen=True, slots=True)
class Sample:
    """Simulated studies of one design.

    Attributes
    ----------
    arms : tuple of Arm
        Rates (or shares of checks) and attempts (or checks) of each arm; both have the shape
        (S, n), for S studies of n cases.
    truth : float
        The mean over the population of cases (or of skills).
    clusters, weights : ndarray, shape (n,), or None
        Skill or pair, and weight, of each case.
    """

    arms: tuple[Arm, ...]
    truth: float
    clusters: NDArray[Any] | None = None
    weights: Floats | None = None

    @property
    def values(self) -> Floats:
        """The delta, pass rate or share of checks of each case."""
        return np.asarray(sum(arm.sign * arm.rates for arm in self.arms))


@dataclass(frozen=True, slots=True)
class Design:
    """One cell of the study.

    Attributes
    ----------
    quantity : str
        ``deltas``, ``rates`` or ``shares``.
    family : str
        Group of designs in tables and in the figure.
    world : str
        Key of ``WORLDS``: the function that draws the studies.
    numbers : tuple of (name, value)
        The arguments of that function.
    runs : int
        Studies to simulate.
    """

    quantity: str
    family: str
    world: str
    numbers: tuple[tuple[str, Any], ...]
    runs: int

    def draw(self) -> Sample:
        """Simulate the studies, with a seed derived from the design."""
        return WORLDS[self.world](np.random.default_rng(self.seed), self.runs, **dict(self.numbers))

    @property
    def seed(self) -> int:
        """The seed of this cell, the same in every run of the study."""
        return int(digest(asdict(self))[:8], 16)

    @property
    def words(self) -> str:
        """The numbers of the design in one line."""
        parts = (f"{name.replace('_', ' ')} {_value_text(value)}" for name, value in self.numbers)
        return ", ".join(parts)

    @property
    def load(self) -> float:
        """A rough measure of the time to compute it: cases, attempts and clusters."""
        about = dict(self.numbers)
        size = about.get("size", about.get("cases", 30))
        nested = about.get("layout", INDEPENDENT) != INDEPENDENT
        return float(size * about.get("attempts", 1) * (8 if nested else 1))


def _value_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(_value_text(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def digest(about: object) -> str:
    """Return the hash of an object that can be written as JSON."""
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


# --- logit-normal studies ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Regime:
    """How hard the cases are and how much they differ (standard deviations in logits)."""

    baseline: float
    case_sd: float
    effect_sd: float


# near the ceiling, an effect lowers the baseline: the skill condition stays at 0.95
REGIMES = {
    "middle": Regime(0.40, 1.0, 0.5),
    "all or nothing": Regime(0.50, 2.5, 1.0),
    "near the ceiling": Regime(0.95, 1.0, 0.5),
}
EFFECTS = (0.0, 0.1, 0.3)
ATTEMPTS = (1, 3)
CASES = (10, 30, 100)
SKILLS = (3, 5, 10, 20)
TAUS = (0.0, 1.0)
# cases of the skills in turn; lopsided: one skill has 30, all others 4
EVEN_SIZES = (3, 12, 6, 9, 4, 11, 5, 10, 7, 8)
LOPSIDED_SIZES = (30, 4)
SKILL_LEVEL_SD = 0.5  # sd between skills of difficulty, logits
FEW_SKILLS = 5

INDEPENDENT, EVEN, LOPSIDED = "independent cases", "even skills", "lopsided skills"


def sizes(layout: str, size: int) -> list[int]:
    """Return the number of cases of each skill; independent cases are one skill."""
    if layout == INDEPENDENT:
        return [size]
    if layout == LOPSIDED:
        return [LOPSIDED_SIZES[0], *[LOPSIDED_SIZES[1]] * (size - 1)]
    return [EVEN_SIZES[k % len(EVEN_SIZES)] for k in range(size)]


def _arm(passed: Any, tries: Any, sign: float = 1.0) -> Arm:
    attempts = np.broadcast_to(np.asarray(tries, dtype=float), np.shape(passed))
    return Arm(passed / attempts, attempts, sign)


def logit_study(
    rng: Rng, runs: int, *, layout: str, size: int, attempts: int, regime: str, delta: float,
    tau: float,
) -> Sample:  # fmt: skip
    """Draw deltas of logit-normal cases, independent or in skills with effects of sd ``tau``."""
    about = REGIMES[regime]
    nested, per_skill = layout != INDEPENDENT, sizes(layout, size)
    lift = delta if regime == "near the ceiling" else 0.0
    # three skills without an effect: then no case has one
    alike = nested and size < FEW_SKILLS and delta == 0 and tau == 0
    drawn = counts(
        n_runs=runs,
        n_skills=len(per_skill),
        n_cases=per_skill,
        n_repeats=attempts,
        baseline_rate=about.baseline - lift,
        delta=delta,
        between_skill_sd=tau,
        between_case_sd=about.case_sd,
        case_effect_sd=0.0 if alike else about.effect_sd,
        skill_level_sd=SKILL_LEVEL_SD if nested else 0.0,
        seed=rng,
    )
    arms = _arm(drawn.skill, attempts), _arm(drawn.baseline, attempts, -1.0)
    return Sample(arms, delta, clusters=drawn.clusters if nested else None)


# --- studies that are hard for intervals -------------------------------------------------------

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def mean_rate(centre: float, sd: float) -> float:
    """Return the mean pass rate of cases with normal logits."""
    return float(_WEIGHTS @ expit(centre + sd * _NODES))


def centre_of(rate: float, sd: float) -> float:
    """Return the centre of normal logits with this mean pass rate; infinite for 0 and 1."""
    if rate in (0.0, 1.0):
        return np.inf if rate else -np.inf
    return float(brentq(lambda a: mean_rate(a, sd) - rate, -60, 60, xtol=1e-13))


def _draw_arms(rng: Rng, high: Floats, low: Floats, tries1: Any, tries0: Any) -> tuple[Arm, Arm]:
    many = [np.broadcast_to(np.asarray(t, dtype=np.int64), high.shape) for t in (tries1, tries0)]
    return (
        _arm(rng.binomial(many[0], high), many[0]),
        _arm(rng.binomial(many[1], low), many[1], -1.0),
    )


def flips(
    rng: Rng, runs: int, *, cases: int, up: float, down: float = 0.0, attempts: int = 3,
    passing: float = 0.5, noise: float = 0.0, alike: float = 0.0, unequal: bool = False,
) -> Sample:  # fmt: skip
    """Draw agents that answer a case the same way every time; few cases flip, up or down.

    ``noise`` is the probability that an attempt goes the other way. With ``alike``, cases come in
    pairs, and the second is a copy of the first with this probability.
    """
    kind = rng.random((runs, cases))
    if alike:
        copied = rng.random((runs, cases // 2)) < alike
        kind[:, 1::2] = np.where(copied, kind[:, ::2], kind[:, 1::2])
    rises, falls = kind < up, (kind >= up) & (kind < up + down)
    passes = kind >= 1 - passing * (1 - up - down)
    rates = [np.where(sure, 1 - noise, noise) for sure in (rises | passes, falls | passes)]
    tries = 1 + np.arange(cases) % (2 * attempts - 1) if unequal else attempts
    arms = _draw_arms(rng, rates[0], rates[1], tries, tries)
    pairs = np.arange(cases) // 2 if alike else None
    return Sample(arms, (up - down) * (1 - 2 * noise), clusters=pairs)


def _carried_effects(rng: Rng, runs: int, groups: int, share: float, effect: float) -> Floats:
    carried: Floats = np.where(rng.random((runs, groups)) < share, effect, 0.0)
    return carried


def few_carry(
    rng: Rng, runs: int, *, skills: int, share: float, effect: float, base: float = 0.05,
    cases: int = 8, attempts: int = 2, lopsided: bool = False,
) -> Sample:  # fmt: skip
    """Draw skills of which only a ``share`` has an effect; the claim is about skills."""
    per = [30, *[4] * (skills - 1)] if lopsided else [cases] * skills
    skill_of = np.repeat(np.arange(skills), per)
    gain = _carried_effects(rng, runs, skills, share, effect)[:, skill_of]
    low = np.full(gain.shape, base)
    arms = _draw_arms(rng, low + gain, low, attempts, attempts)
    return Sample(arms, share * effect, clusters=skill_of if per != [1] * skills else None)


UNEQUAL = (40, 24, 15, 10, 6, 4, 3, 2, 2, 1, 1, 1)  # twelve very unequal clusters


def lumps(
    rng: Rng, runs: int, *, sizes: Sequence[int], rate: float, gain: float, sd: float,
    attempts: int = 1, quantity: str = DELTAS, same: bool = False,
) -> Sample:  # fmt: skip
    """Draw clusters of given sizes with pass rates (or gains) of ``sd`` in logits.

    With ``same``, all attempts at a case have the same outcome.
    """
    of = np.repeat(np.arange(len(sizes)), sizes)
    about = rng.normal(0.0, sd, (runs, len(sizes)))[:, of]
    low = np.full(about.shape, rate) if quantity == DELTAS else expit(centre_of(rate, sd) + about)
    if same:
        arms = _draw_arms(rng, expit(centre_of(rate + gain, sd) + about), low, 1, 1)
        copies = np.full(about.shape, float(attempts))
        return Sample(tuple(replace(arm, attempts=copies) for arm in arms), gain, clusters=of)
    if quantity == RATES:
        return Sample((_arm(rng.binomial(attempts, low), attempts),), rate, clusters=of)
    high = expit(centre_of(rate + gain, sd) + about)
    return Sample(_draw_arms(rng, high, low, attempts, attempts), gain, clusters=of)


def cases_of(
    rng: Rng, runs: int, *, cases: int, baseline: float, skill: float, attempts: int,
    sd: float = 1.0, effect_sd: float = 0.5, alike: float = 0.0, unequal: bool = False,
    lost: float = 0.0, heavy: float = 0.0,
) -> Sample:  # fmt: skip
    """Draw deltas of logit-normal cases: twins, unequal or missing repeats, weights.

    ``alike`` is the share of variance that twins have in common. With ``unequal``, cases have one
    to ten attempts with the skill, and ten to one in the baseline. ``lost`` is the share of missing
    attempts; each case keeps one or more. ``heavy`` is the sd of the log weights.
    """
    hard = _draw_logits(rng, runs, cases, sd, alike)
    more = _draw_logits(rng, runs, cases, effect_sd, alike)
    low = expit(centre_of(baseline, sd) + hard)
    high = expit(centre_of(skill, float(np.hypot(sd, effect_sd))) + hard + more)
    tries = 1 + np.arange(cases) % 10 if unequal else np.full(cases, attempts)
    left = [_remaining_attempts(rng, each, runs, lost) for each in (tries, tries[::-1])]
    return Sample(
        _draw_arms(rng, high, low, *left),
        skill - baseline,
        clusters=np.arange(cases) // 2 if alike else None,
        weights=_lognormal_weights(cases, heavy),
    )


def _remaining_attempts(rng: Rng, tries: Any, runs: int, lost: float) -> Any:
    if not lost:
        return tries
    return np.maximum(1, rng.binomial(np.broadcast_to(tries, (runs, len(tries))), 1.0 - lost))


def agents_of(
    rng: Rng, runs: int, *, cases: int, agents: int, baseline: float, skill: float, attempts: int,
    own: float = 0.5, copied: float = 0.0,
) -> Sample:  # fmt: skip
    """Draw deltas of several agents on the same cases; each has one attempt more than the last.

    A case has the mean rate of its agents and the smallest number of attempts. ``own`` is the share
    of the variance of difficulty that agents do not have in common. An agent's answers at a case
    copy those of the first with the probability ``copied``.
    """
    shape = (runs, cases)
    shared = rng.normal(0.0, 1.0, shape)
    copying = rng.random((agents, *shape)) < copied
    rates: list[list[Floats]] = [[], []]
    for agent in range(agents):
        hard = np.sqrt(1 - own) * shared + np.sqrt(own) * rng.normal(0.0, 1.0, shape)
        high, low = (expit(centre_of(rate, 1.0) + hard) for rate in (skill, baseline))
        arms = _draw_arms(rng, high, low, attempts + agent, attempts + agent)
        for side, arm in zip(rates, arms, strict=True):
            side.append(np.where(copying[agent], side[0], arm.rates) if agent else arm.rates)
    tries = np.full(shape, float(attempts))
    means = [np.mean(side, axis=0) for side in rates]
    return Sample((Arm(means[0], tries), Arm(means[1], tries, -1.0)), skill - baseline)


def four_arms(
    rng: Rng, runs: int, *, cases: int, rates: Sequence[float], attempts: int, sd: float = 1.0,
    effect_sd: float = 0.3, skills: int = 0, same: float = 0.0,
) -> Sample:  # fmt: skip
    """Draw differences of two deltas; with ``skills``, in clusters of ``cases`` each.

    A share ``same`` of the cases has the same outcome at every attempt.
    """
    n = cases * max(skills, 1)
    of = np.repeat(np.arange(skills), cases) if skills else np.arange(n)
    hard = rng.normal(0.0, sd, (runs, n))
    arms = []
    for rate, sign in zip(rates, (1.0, -1.0, -1.0, 1.0), strict=True):
        own = rng.normal(0.0, effect_sd, (runs, skills or n))[:, of]
        chance = expit(centre_of(rate, float(np.hypot(sd, effect_sd))) + hard + own)
        alike = attempts * (rng.random((runs, n)) < chance)
        fixed = rng.random((runs, n)) < same
        arms.append(_arm(np.where(fixed, alike, rng.binomial(attempts, chance)), attempts, sign))
    truth = rates[0] - rates[1] - rates[2] + rates[3]
    return Sample(tuple(arms), truth, clusters=of if skills else None)


def _draw_logits(rng: Rng, runs: int, cases: int, sd: float, alike: float) -> Floats:
    own = rng.normal(0.0, 1.0, (runs, cases))
    if alike:
        pair = np.repeat(rng.normal(0.0, 1.0, (runs, (cases + 1) // 2)), 2, axis=1)[:, :cases]
        own = np.sqrt(alike) * pair + np.sqrt(1 - alike) * own
    logits: Floats = sd * own
    return logits


def _lognormal_weights(cases: int, heavy: float) -> Floats | None:
    """Return weights at the quantiles of a lognormal distribution, in a fixed order."""
    if not heavy:
        return None
    from scipy.stats import norm

    ranks = (np.arange(cases) * 7 % cases + 0.5) / cases
    weights: Floats = np.exp(heavy * norm.ppf(ranks))
    return weights


def rates_of(
    rng: Rng, runs: int, *, cases: int, rate: float, attempts: int, hopeless: float = 0.0,
    sd: float = 0.0, alike: float = 0.0, unequal: bool = False, lost: float = 0.0,
    heavy: float = 0.0,
) -> Sample:  # fmt: skip
    """Draw pass rates: a share ``hopeless`` of the cases never passes, the others at ``rate``."""
    able = rng.random((runs, cases)) >= hopeless
    chance = able * expit(centre_of(rate, sd) + _draw_logits(rng, runs, cases, sd, alike))
    tries = 1 + np.arange(cases) % 10 if unequal else np.full(cases, attempts)
    left = _remaining_attempts(rng, tries, runs, lost)
    return Sample(
        (_arm(rng.binomial(left, chance), left),),
        rate * (1 - hopeless),
        clusters=np.arange(cases) // 2 if alike else None,
        weights=_lognormal_weights(cases, heavy),
    )


def _draw_shares(
    rng: Rng, chance: Floats, capped: NDArray[np.bool_], attempts: int, sign: float = 1.0
) -> Arm:
    """Draw the share passed of three to five checks per case; if capped, one never passes."""
    checks = 3 + np.arange(chance.shape[1]) % 3
    passed = sum(rng.binomial(checks - capped, chance) for _ in range(attempts))
    shares = np.asarray(passed) / (attempts * checks)
    return Arm(shares, None, sign, np.broadcast_to(checks.astype(float), shares.shape))


def shares_of(
    rng: Rng, runs: int, *, cases: int, rate: float, attempts: int, sd: float = 0.0,
    capped: float = 0.0, alike: float = 0.0, heavy: float = 0.0,
) -> Sample:  # fmt: skip
    """Draw shares of three to five checks; in a share ``capped`` of cases one never passes."""
    chance = expit(centre_of(rate, sd) + _draw_logits(rng, runs, cases, sd, alike))
    stuck = rng.random(chance.shape) < capped
    shares = _draw_shares(rng, chance, stuck, attempts)
    weights = _lognormal_weights(cases, heavy)
    checks = 3 + np.arange(cases) % 3
    possible = np.average(1 - capped / checks, weights=weights)
    return Sample(
        (shares,),
        rate * float(possible),
        clusters=np.arange(cases) // 2 if alike else None,
        weights=weights,
    )


def shares_in_skills(
    rng: Rng, runs: int, *, skills: int, rate: float, sd: float, cases: int = 8, attempts: int = 2
) -> Sample:
    """Draw shares of checks in skills with levels of ``sd`` in logits."""
    of = np.repeat(np.arange(skills), cases)
    chance = expit(centre_of(rate, sd) + rng.normal(0.0, sd, (runs, skills))[:, of])
    never = np.zeros(chance.shape, dtype=bool)
    return Sample((_draw_shares(rng, chance, never, attempts),), rate, clusters=of)


def share_deltas(
    rng: Rng, runs: int, *, cases: int, baseline: float, skill: float, attempts: int,
    sd: float = 1.0,
) -> Sample:  # fmt: skip
    """Draw deltas of shares of checks."""
    hard = _draw_logits(rng, runs, cases, sd, 0.0)
    never = np.zeros(hard.shape, dtype=bool)
    arms = tuple(
        _draw_shares(rng, expit(centre_of(rate, sd) + hard), never, attempts, sign)
        for rate, sign in ((skill, 1.0), (baseline, -1.0))
    )
    return Sample(arms, skill - baseline)


WORLDS: dict[str, Callable[..., Sample]] = {
    draw_studies.__name__: draw_studies
    for draw_studies in (
        logit_study, flips, few_carry, lumps, cases_of, agents_of, four_arms, rates_of, shares_of,
        shares_in_skills, share_deltas,
    )
}  # fmt: skip


# --- list of designs ---------------------------------------------------------------------------


def designs(runs: int) -> list[Design]:
    """List all cells, the largest first, so that the cores finish together."""
    cells = [
        Design(quantity, family, world, tuple(numbers.items()), runs)
        for quantity, parts in (
            (DELTAS, (_logit_studies(), _delta_designs(), _repeat_designs(), _skill_designs())),
            (FOUR, (_four_arm_designs(),)),
            (RATES, (_rate_designs(),)),
            (SHARES, (_share_designs(),)),
        )
        for part in parts
        for family, world, numbers in part
    ]
    return sorted(cells, key=lambda cell: -cell.load)


Cell = tuple[str, str, dict[str, Any]]

WEAK_HOPELESS = "hopeless cases among middling ones"
WEAK_SKILLS = "few skills have an effect, middling base"
WEAK_CASES = "few cases have an effect, middling base"
WEAKNESSES = (WEAK_HOPELESS, WEAK_SKILLS, WEAK_CASES)


def _logit_studies() -> Iterator[Cell]:
    names = ("layout", "size", "attempts", "regime", "delta", "tau")
    for n, attempts, regime, delta in product(CASES, ATTEMPTS, REGIMES, EFFECTS):
        values = (INDEPENDENT, n, attempts, regime, delta, 0.0)
        yield INDEPENDENT, "logit_study", dict(zip(names, values, strict=True))
    for n, attempts, delta in ((20, 3, 0.3), (20, 3, 0.1), (14, 5, 0.27)):
        values = (INDEPENDENT, n, attempts, "middle", delta, 0.0)
        yield INDEPENDENT, "logit_study", dict(zip(names, values, strict=True))
    for values in product((EVEN, LOPSIDED), SKILLS, ATTEMPTS, REGIMES, EFFECTS, TAUS):
        yield values[0], "logit_study", dict(zip(names, values, strict=True))


def _delta_designs() -> Iterator[Cell]:
    few = "few flips, same answer every time"
    for cases, up, down in (
        (100, 0.03, 0.0), (100, 0.01, 0.0), (100, 0.03, 0.03), (60, 0.05, 0.0), (40, 0.08, 0.0),
        (40, 0.1, 0.0), (32, 0.08, 0.0), (32, 0.1, 0.0), (25, 0.1, 0.1), (25, 0.05, 0.05),
        (25, 0.3, 0.3), (14, 0.25, 0.0), (14, 0.5, 0.0), (14, 0.0, 0.2), (10, 0.9, 0.0),
        (8, 0.5, 0.5), (14, 0.9, 0.05), (200, 0.02, 0.0),
    ):  # fmt: skip
        yield few, "flips", {"cases": cases, "up": up, "down": down}
    for cases, up in ((100, 0.03), (32, 0.1), (14, 0.25)):
        yield few, "flips", {"cases": cases, "up": up, "noise": 0.02}
    near = "near 0 or 1, ten attempts"
    for cases, low, high in product((10, 14, 30), (0.93, 0.98), (0.99, 0.995)):
        numbers = {"cases": cases, "baseline": low, "skill": high, "attempts": 10}
        yield near, "cases_of", numbers
    for cases, rate in product((14, 30), (0.02, 0.97)):
        numbers = {"cases": cases, "baseline": rate, "skill": rate, "attempts": 10}
        yield near, "cases_of", numbers
    for cases, attempts, alike in product((14, 30, 100), (1, 3), (0.5, 1.0)):
        numbers = {"baseline": 0.4, "skill": 0.6, "attempts": attempts, "alike": alike, "sd": 2.0}
        yield "twins", "cases_of", {"cases": cases, **numbers}
    for cases, up in product((14, 40, 100), (0.05, 0.2)):
        yield "twins", "flips", {"cases": cases, "up": up, "alike": 0.8}
    for cases, heavy, (low, high) in product((14, 40), (0.5, 1.0), ((0.3, 0.5), (0.9, 0.95))):
        numbers = {"baseline": low, "skill": high, "attempts": 2, "heavy": heavy}
        yield "weights", "cases_of", {"cases": cases, **numbers}
    for cases, (low, high) in product((30, 60, 100), ((0.98, 0.96), (0.5, 0.8), (0.97, 0.97))):
        numbers = {"baseline": low, "skill": high, "attempts": 2}
        yield "deltas of shares", "share_deltas", {"cases": cases, **numbers}


LEVELS_OF_RATES = ((0.4, 0.4), (0.4, 0.7), (0.9, 0.95))


def _repeat_designs() -> Iterator[Cell]:
    for cases, (low, high) in product((10, 30, 100), LEVELS_OF_RATES):
        numbers = {"baseline": low, "skill": high, "attempts": 0, "unequal": True}
        yield "unequal repeats", "cases_of", {"cases": cases, **numbers}
    yield "unequal repeats", "flips", {"cases": 40, "up": 0.08, "unequal": True}
    for cases, attempts, lost in product((10, 30), (3, 5), (0.2, 0.5)):
        for low, high in LEVELS_OF_RATES:
            numbers = {"baseline": low, "skill": high, "attempts": attempts, "lost": lost}
            yield "missing attempts", "cases_of", {"cases": cases, **numbers}
    for cases, agents, (low, high) in product((10, 30), (2, 4), LEVELS_OF_RATES):
        for attempts, copied in ((1, 0.0), (2, 0.0), (2, 0.8), (3, 0.3)):
            numbers = {"agents": agents, "baseline": low, "skill": high, "attempts": attempts}
            yield "several agents", "agents_of", {"cases": cases, **numbers, "copied": copied}


def _four_arm_designs() -> Iterator[Cell]:
    levels = ((0.5, 0.5, 0.5, 0.5), (0.8, 0.4, 0.5, 0.4), (0.97, 0.9, 0.93, 0.9))
    for cases, attempts, rates in product((10, 24, 60), (1, 2, 5), levels):
        numbers = {"cases": cases, "rates": rates, "attempts": attempts}
        yield INDEPENDENT, "four_arms", numbers
    for same, rates in product((0.5, 1.0), levels):
        numbers = {"cases": 24, "rates": rates, "attempts": 3, "same": same}
        yield "same answer every time", "four_arms", numbers
    for skills, rates in product((5, 10, 20), levels):
        numbers = {"cases": 6, "rates": rates, "attempts": 3, "effect_sd": 0.8, "skills": skills}
        yield EVEN, "four_arms", numbers


def _skill_designs() -> Iterator[Cell]:
    few = "few skills carry the effect"
    for skills, share in product((6, 10, 20), (0.1, 0.25)):
        yield few, "few_carry", {"skills": skills, "share": share, "effect": 0.6}
    for skills in (6, 10, 20):
        yield few, "few_carry", {"skills": skills, "share": 0.25, "effect": -0.6, "base": 0.8}
        yield few, "few_carry", {"skills": skills, "share": 0.5, "effect": 0.9, "base": 0.02}
    for skills in (10, 20):
        numbers = {"skills": skills, "share": 0.25, "effect": 0.6, "lopsided": True}
        yield few, "few_carry", numbers
    for rate, gain, sd in ((0.4, 0.2, 1.5), (0.1, 0.05, 2.0), (0.5, 0.0, 0.0), (0.05, 0.3, 3.0)):
        numbers = {"sizes": UNEQUAL, "rate": rate, "gain": gain, "sd": sd, "attempts": 2}
        yield "twelve unequal clusters", "lumps", numbers
        yield "twelve unequal clusters", "lumps", numbers | {"attempts": 5}
    for groups, gain, sd in product((5, 10, 20), (0.0, 0.2), (0.0, 1.5)):
        numbers = {"sizes": (8,) * groups, "rate": 0.4, "gain": gain, "sd": sd, "attempts": 3}
        yield "skills, same answer every time", "lumps", numbers | {"same": True}
    # few cases or skills have an effect, and the others have mixed outcomes
    for skills, share, attempts in product((6, 10, 20), (0.1, 0.25), (2, 5)):
        numbers = {"skills": skills, "share": share, "effect": 0.5, "base": 0.45}
        yield WEAK_SKILLS, "few_carry", numbers | {"attempts": attempts}
    for cases, share, attempts in product((14, 30), (0.1, 0.25), (3, 10)):
        numbers = {"skills": cases, "share": share, "effect": 0.5, "base": 0.45, "cases": 1}
        yield WEAK_CASES, "few_carry", numbers | {"attempts": attempts}


def _rate_designs() -> Iterator[Cell]:
    for cases, attempts, hopeless in product((14, 30, 60, 100), (1, 10), (0.11, 0.13, 0.15)):
        numbers = {"rate": 0.98, "attempts": attempts, "hopeless": hopeless}
        yield "hopeless cases", "rates_of", {"cases": cases, **numbers}
    for cases, attempts, hopeless in product((14, 30), (3, 10), (0.1, 0.2, 0.4)):
        for rate in (0.5, 0.7):
            numbers = {"rate": rate, "attempts": attempts, "hopeless": hopeless}
            yield WEAK_HOPELESS, "rates_of", {"cases": cases, **numbers}
    for cases, lost, rate in product((10, 40), (0.2, 0.5), (0.1, 0.6, 0.97)):
        numbers = {"rate": rate, "attempts": 4, "sd": 1.5, "lost": lost}
        yield "missing attempts", "rates_of", {"cases": cases, **numbers}
    for cases, hopeless in product((14, 30), (0.13, 0.5)):
        numbers = {"rate": 1.0, "attempts": 10, "hopeless": hopeless}
        yield "hopeless cases", "rates_of", {"cases": cases, **numbers}
    for cases, attempts, rate, sd in product((10, 30, 84), (1, 3), (0.02, 0.3, 0.95), (0.0, 2.0)):
        numbers = {"rate": rate, "attempts": attempts, "sd": sd}
        yield INDEPENDENT, "rates_of", {"cases": cases, **numbers}
    yield INDEPENDENT, "rates_of", {"cases": 8, "rate": 0.5, "attempts": 1}
    for cases, attempts, rate in product((14, 40), (1, 3), (0.05, 0.5, 0.9)):
        numbers = {"rate": rate, "attempts": attempts, "sd": 3.0, "alike": 0.9}
        yield "twins", "rates_of", {"cases": cases, **numbers}
    for cases, rate in product((10, 40), (0.1, 0.6, 0.97)):
        numbers = {"rate": rate, "attempts": 0, "sd": 1.5, "unequal": True}
        yield "unequal repeats", "rates_of", {"cases": cases, **numbers}
    for cases, heavy, rate in product((14, 40), (0.5, 1.0), (0.1, 0.6)):
        numbers = {"rate": rate, "attempts": 2, "sd": 1.5, "heavy": heavy}
        yield "weights", "rates_of", {"cases": cases, **numbers}
    for rate, sd in product((0.1, 0.5, 0.9), (0.5, 2.0)):
        numbers = {"sizes": UNEQUAL, "rate": rate, "gain": 0.0, "sd": sd, "quantity": RATES}
        yield "twelve unequal clusters", "lumps", numbers
        for layout, size in product((EVEN, LOPSIDED), (5, 10, 20)):
            yield layout, "lumps", numbers | {"sizes": tuple(sizes(layout, size))}


def _share_designs() -> Iterator[Cell]:
    for cases, attempts, rate in product((30, 60, 100), (1, 2), (0.01, 0.02, 0.97, 0.98, 0.99)):
        yield "near 0 or 1", "shares_of", {"cases": cases, "rate": rate, "attempts": attempts}
    for cases, rate, sd in product((10, 30, 100), (0.1, 0.5, 0.9), (0.0, 2.0)):
        numbers = {"rate": rate, "attempts": 2, "sd": sd}
        yield INDEPENDENT, "shares_of", {"cases": cases, **numbers}
    for cases, capped, rate in product((14, 30, 60), (0.03, 0.1, 0.3), (0.99, 1.0)):
        numbers = {"rate": rate, "attempts": 2, "capped": capped}
        yield "with a ceiling", "shares_of", {"cases": cases, **numbers}
    for cases, rate in product((14, 40), (0.05, 0.5, 0.95)):
        numbers = {"rate": rate, "attempts": 2, "sd": 3.0}
        yield "twins", "shares_of", {"cases": cases, **numbers, "alike": 0.9}
        yield "weights", "shares_of", {"cases": cases, **numbers, "heavy": 1.0}
    for skills, rate, sd in product((6, 10, 20), (0.5, 0.9), (1.0, 3.0)):
        numbers = {"skills": skills, "rate": rate, "sd": sd}
        yield EVEN, "shares_in_skills", numbers
