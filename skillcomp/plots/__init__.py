"""Plots of finished frames: every function draws the rows of a frame and returns the axes.

The plots compute no statistics. The frames come from the analyses, which document the meaning of a
row.

Estimates with intervals (forest)
    estimates : any estimates frame, with one row per estimate
    corrected : naive and corrected estimates
    ranks : ranks of graders by agreement with gold
    transfer : rates or deltas of near and far cases, and the gap between them

Grids of cells and panels, and single cases (grids)
    cases : intervals, and below each of them the deltas of its cases
    case_map : pass rate of each case under each condition
    datasheet : properties of judges, in a column of a paper
    dimensions : heat map of dimensions and conditions
    facet : any of these plots, one panel per level of a column

Charts of numbers (charts)
    overlap : overlap of each text with its skill
    threshold : detection and false flags at each threshold
    roc : true against false positives, as a curve over all thresholds
    power : power against the size of a study
    scores : structure score of each document against the results of agents
    transfer_curve : deltas and rates by the distance of cases from the skill
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
