"""Documents whose score explains a known share of their true pass rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from skillcomp.errors import StudyError
from skillcomp.frames.contract import check

# True rates lie at MEAN, give or take; no draw reaches 0 or 1, so that R squared is exact. Cases
# of a skill differ as a Beta of this weight does.
MEAN, SPREAD, WEIGHT = 0.6, 0.15, 4.0


@dataclass(frozen=True)
class ScoredDocuments:
    """A simulated study of documents with scores.

    Attributes
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame, condition ``skill``.
    scores : pandas.DataFrame
        document (the skill's slug) and value, 0 to 100.
    rates : pandas.DataFrame
        document and rate, the true pass rate.
    r_squared_observed : float
        The share that the score explains of the variance of observed rates in the population: less
        than of the true ones, since few attempts measure them with error.
    """

    outcomes: pd.DataFrame
    scores: pd.DataFrame
    rates: pd.DataFrame
    r_squared_observed: float


def scored_documents(
    n_skills: int,
    *,
    r_squared: float,
    n_cases: int = 8,
    n_repeats: int = 2,
    seed: int = 0,
) -> ScoredDocuments:
    """Simulate skills whose score explains a known share of the variance of their true pass rates.

    Parameters
    ----------
    n_skills : int
        How many, each with one document and cases of its own.
    r_squared : float
        The share in the population, 0 to 1.
    n_cases, n_repeats : int, default 8 and 2
        Cases a skill, attempts a case: few, so that observed rates are not the true ones.
    seed : int, default 0
        Of the random draws.

    Returns
    -------
    ScoredDocuments
        Outcomes, scores and the truth.

    Raises
    ------
    StudyError
        If a number makes no sense.

    See Also
    --------
    skillcomp.structure.against : What is to find the share again.

    Notes
    -----
    Scores are uniform from 0 to 100, what they do not explain is uniform too; true rates have mean
    0.6 and standard deviation 0.15. The rate of a case is drawn from a Beta distribution around
    that of its skill.

    Examples
    --------
    >>> made = scored_documents(50, r_squared=1.0)
    >>> round(float(np.corrcoef(made.scores["value"], made.rates["rate"])[0, 1]), 6)
    1.0
    """
    for name, size in (("n_skills", n_skills), ("n_cases", n_cases), ("n_repeats", n_repeats)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise StudyError(f"{name}: found {size!r}; allowed: a whole number of 1 or more.")
    if not 0.0 <= r_squared <= 1.0:
        raise StudyError(f"r_squared: found {r_squared!r}; allowed: 0 to 1.")
    rng = np.random.default_rng(seed)
    known, other = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (2, n_skills))  # variance 1
    rate = MEAN + SPREAD * (np.sqrt(r_squared) * known + np.sqrt(1.0 - r_squared) * other)
    shape = (n_skills, n_cases)
    wide = np.broadcast_to(rate[:, None], shape)
    case = rng.beta(WEIGHT * wide, WEIGHT * (1.0 - wide))
    passed = rng.random((*shape, n_repeats)) < case[:, :, None]
    skill, number, repeat = (grid.ravel() for grid in np.indices(passed.shape))
    slug = np.array([f"skill-{one + 1:04d}" for one in range(n_skills)])
    outcomes = pd.DataFrame(
        {
            "attempt_id": [f"a{one}" for one in range(passed.size)],
            "skill": slug[skill],
            "case_id": [f"{slug[s]}/{c + 1}" for s, c in zip(skill, number, strict=True)],
            "condition": "skill",
            "repeat": repeat + 1,
            "passed": passed.ravel(),
        }
    )
    scores = pd.DataFrame({"document": slug, "value": 50.0 * (1.0 + known / np.sqrt(3.0))})
    rates = pd.DataFrame({"document": slug, "rate": rate})
    spread = MEAN * (1.0 - MEAN) - SPREAD**2  # mean of p (1 - p) over skills
    error = spread / (WEIGHT + 1.0) * (1.0 + WEIGHT / n_repeats) / n_cases
    observed = r_squared * SPREAD**2 / (SPREAD**2 + error)
    return ScoredDocuments(check(outcomes, "outcomes"), scores, rates, observed)
