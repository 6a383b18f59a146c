"""Biases of a grader: length, hedging, model family, condition, order and polish of an answer.

``audit`` lists every bias in one frame. ``perturb`` copies answers with one change of form, tone or
remark, and ``perturbed`` compares the verdicts on the copies with those on the originals.
``copy_pairs`` pairs originals and copies for a grader that compares two answers. ``position``
estimates position bias from pairwise judgements in both orders or in one random order.
``win_rates`` estimates how often one system is preferred to another. ``features`` measures the form
of an answer.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
