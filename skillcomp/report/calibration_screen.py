"""The first screen of a calibration study: which texts copy, and from which length on."""

from __future__ import annotations

from typing import Any

from skillcomp.report.study_data import StudyData, StudyEstimates
from skillcomp.report.study_screen import StudyScreen


def can_calibrate(data: StudyData) -> bool:
    """Return whether there are labelled passages and the texts that they may copy."""
    return False


def calibration_screen(
    data: StudyData, results: StudyEstimates, grader: str = "", **how: Any
) -> StudyScreen:
    """Calibrate the length of shared n-grams on labelled passages."""
    raise NotImplementedError
