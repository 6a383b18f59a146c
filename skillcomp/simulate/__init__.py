"""Studies with known truth, for checking every estimator.

``study`` gives frames and their truth, ``grade`` adds verdicts of one more simulated grader,
``counts`` gives thousands of studies as arrays, ``gold_stream`` gold checks for a control chart,
``passages`` labelled copies of the simulated skills.
"""

from __future__ import annotations

from skillcomp.simulate.arrays import Counts, counts
from skillcomp.simulate.design import Study, grade, study
from skillcomp.simulate.grading import Grader
from skillcomp.simulate.streams import gold_stream
from skillcomp.simulate.text import passages

__all__ = ["Counts", "Grader", "Study", "counts", "gold_stream", "grade", "passages", "study"]
