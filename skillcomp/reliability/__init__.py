"""Can a grader be trusted: agreement with gold, drift between versions, integrity of verdicts."""

from skillcomp.reliability.agreeing import agreement
from skillcomp.reliability.charting import chart
from skillcomp.reliability.drifting import drift
from skillcomp.reliability.flips import flip_counts, flipped
from skillcomp.reliability.joining import join_batches
from skillcomp.reliability.labelling import label_sheet, read_labels
from skillcomp.reliability.modes import failure_mode_rates, failure_modes
from skillcomp.reliability.retest import consistency, flip_rates
from skillcomp.reliability.rules import integrity, integrity_rates

__all__ = [
    "agreement",
    "chart",
    "consistency",
    "drift",
    "failure_mode_rates",
    "failure_modes",
    "flip_counts",
    "flip_rates",
    "flipped",
    "integrity",
    "integrity_rates",
    "join_batches",
    "label_sheet",
    "read_labels",
]
