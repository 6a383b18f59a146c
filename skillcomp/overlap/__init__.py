"""Copying: how much of a text stands word for word in the skill it should have learned from."""

from skillcomp.overlap.calibration import calibrate
from skillcomp.overlap.curves import roc
from skillcomp.overlap.flagging import flag
from skillcomp.overlap.scoring import score

__all__ = ["calibrate", "flag", "roc", "score"]
