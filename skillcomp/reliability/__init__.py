"""Can a grader be trusted: agreement with gold, drift between versions, integrity of verdicts."""

from skillcomp.reliability.agreeing import agreement
from skillcomp.reliability.charting import chart
from skillcomp.reliability.drifting import drift
from skillcomp.reliability.flips import flip_counts, flipped
from skillcomp.reliability.retest import consistency, flip_rates

__all__ = ["agreement", "chart", "consistency", "drift", "flip_counts", "flip_rates", "flipped"]
