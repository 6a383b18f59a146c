"""What besides the content moves a grader: verbosity, hedging, family, condition, order, polish.

``audit`` puts every bias side by side; ``perturb`` makes copies of answers with one thing changed
and ``perturbed`` compares their verdicts with those on the originals; ``position`` reads pairwise
judgements in both orders and ``position_change`` compares two judges; ``features`` is what the
audit measures in an answer.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
