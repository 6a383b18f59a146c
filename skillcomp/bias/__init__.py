"""What besides the content moves a grader: verbosity, hedging, family, condition, order, polish.

``audit`` puts every bias side by side; ``perturb`` makes copies of answers with one thing changed
and ``perturbed`` compares their verdicts with those on the originals; ``position`` reads pairwise
judgements in both orders; ``features`` is what the audit measures in an answer.
"""

from __future__ import annotations

from skillcomp.bias.auditing import audit
from skillcomp.bias.copies import perturb
from skillcomp.bias.features import features
from skillcomp.bias.pairs import perturbed
from skillcomp.bias.positions import position

__all__ = ["audit", "features", "perturb", "perturbed", "position"]
