"""The designs of the coverage study: what is drawn, and what each interval should hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import product

from skillcomp.simulate import Counts, counts


@dataclass(frozen=True, slots=True)
class Regime:
    """How hard the cases are and how much they differ (standard deviations in logits)."""

    baseline: float
    case_sd: float
    effect_sd: float


# name -> baseline rate at no effect; near the ceiling the skill arm stays at 0.95
REGIMES = {
    "middle": Regime(0.40, 1.0, 0.5),
    "all or nothing": Regime(0.50, 2.5, 1.0),
    "near the ceiling": Regime(0.95, 1.0, 0.5),
}
DELTAS = (0.0, 0.1, 0.3)
ATTEMPTS = (1, 3)
CASES = (10, 30, 100)
SKILLS = (3, 5, 10, 20)
TAUS = (0.0, 1.0)
# Cases of the skills in turn; lopsided: one skill has 30, every other 4.
EVEN_SIZES = (3, 12, 6, 9, 4, 11, 5, 10, 7, 8)
LOPSIDED_SIZES = (30, 4)
SKILL_LEVEL_SD = 0.5  # how much skills differ in difficulty, in logits
SKILLS_FOR_CLAIM = 5  # below, the interval is for the cases drawn (STATISTICS, rule 4)

INDEPENDENT, EVEN, LOPSIDED = "independent cases", "even skills", "lopsided skills"


@dataclass(frozen=True, slots=True)
class Design:
    """One cell: studies of one shape with one true delta.

    Attributes
    ----------
    layout : str
        Independent cases, or cases nested in even or lopsided skills.
    size : int
        Number of cases, or of skills where cases are nested.
    attempts : int
        Attempts per case and arm.
    regime : str
        Key of ``REGIMES``.
    delta : float
        True marginal difference.
    tau : float
        Standard deviation of the effect between skills, in logits.
    runs : int
        Studies to simulate.
    """

    layout: str
    size: int
    attempts: int
    regime: str
    delta: float
    tau: float
    runs: int

    @property
    def nested(self) -> bool:
        """Whether the cases belong to skills."""
        return self.layout != INDEPENDENT

    @property
    def sizes(self) -> list[int]:
        """Cases of each skill; one skill for independent cases."""
        if not self.nested:
            return [self.size]
        if self.layout == LOPSIDED:
            return [LOPSIDED_SIZES[0], *[LOPSIDED_SIZES[1]] * (self.size - 1)]
        return [EVEN_SIZES[k % len(EVEN_SIZES)] for k in range(self.size)]

    @property
    def these_cases(self) -> bool:
        """Whether the interval is for the cases drawn and not for skills in general."""
        return self.nested and self.size < SKILLS_FOR_CLAIM

    @property
    def null_for_rule(self) -> bool:
        """Whether "no difference" is true of what the rule speaks of."""
        return self.delta == 0 and not (self.these_cases and self.tau > 0)

    def draw(self) -> Counts:
        """Simulate the studies; the seed comes from the design."""
        regime = REGIMES[self.regime]
        lift = self.delta if self.regime == "near the ceiling" else 0.0
        # With few skills the null is about the cases drawn: the arms must then be alike in each.
        alike = self.these_cases and self.null_for_rule
        return counts(
            n_runs=self.runs,
            n_skills=len(self.sizes),
            n_cases=self.sizes,
            n_repeats=self.attempts,
            baseline_rate=regime.baseline - lift,
            delta=self.delta,
            between_skill_sd=self.tau,
            between_case_sd=regime.case_sd,
            case_effect_sd=0.0 if alike else regime.effect_sd,
            skill_level_sd=SKILL_LEVEL_SD if self.nested else 0.0,
            seed=self.seed,
        )

    @property
    def seed(self) -> int:
        """Seed of this cell, the same in every run of the study."""
        return int(digest(asdict(self))[:8], 16)


def designs(runs: int) -> list[Design]:
    """Return every cell, the largest first, so that the cores finish together."""
    found = [*_independent(runs), *_nested(runs)]
    return sorted(found, key=lambda d: -sum(d.sizes) * d.attempts)


def _independent(runs: int) -> Iterator[Design]:
    for n, attempts, regime, delta in product(CASES, ATTEMPTS, REGIMES, DELTAS):
        yield Design(INDEPENDENT, n, attempts, regime, delta, 0.0, runs)


def _nested(runs: int) -> Iterator[Design]:
    for layout, size, attempts, regime, delta, tau in product(
        (EVEN, LOPSIDED), SKILLS, ATTEMPTS, REGIMES, DELTAS, TAUS
    ):
        yield Design(layout, size, attempts, regime, delta, tau, runs)


def digest(about: object) -> str:
    """Return a hash of anything that can be written as JSON."""
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
