"""Estimators and tests on arrays and small tables.

This package does not depend on frames or skills. Most functions return a frozen result, and all are
imported on first use. Each heading below is a file.

agreement: graders compared with each other, and two numbers per unit
    ``cohen_kappa``, ``krippendorff_alpha``: coefficients of agreement.
    ``association``: R squared of a straight line, and Spearman's correlation.
    ``detectable_r_squared``: the smallest R squared that a given number of units can detect.

bounded: means of bounded values, the interval of all analyses
    ``bounded_mean``: mean of rates, shares or differences, with limits valid near the bounds.
    ``bounded_means``: means of several samples in one computation.
    ``Sample``, ``Arm``: the cases of one mean, and the pass rates and attempts behind them.
    ``Quantity``, ``RATES``, ``SHARES``, ``DELTAS``: bounds of values, weight of a pseudo-case.
    ``sides_of_null``: whether intervals are above or below a value, without computing limits.

clusters_and_amounts: cases in clusters, and amounts of money
    ``cr2_mean``: a mean with CR2 standard error and Satterthwaite df.

detection: scores that flag texts, with documents as units
    ``bootstrap_auc``: area under the ROC curve, resampling documents.

gaps: two groups of different cases
    ``bounded_slope``: slope within levels; for a 0/1 column, the difference of two groups.

intervals: rates with Wilson's limits
    ``wilson``: Wilson's score interval of independent cases.

ppi: verdicts on all cases, gold on some
    ``ppi_mean``: prediction-powered mean of rates or of paired differences.

random_effects: effects that differ between units, such as skills
    ``random_effects``: their standard deviation, and partially pooled effects.
    ``prediction_interval``: the effect of the next unit.

repeats: several attempts per case
    ``pass_at_k``: chance that at least one of k attempts passes.
    ``pass_hat_k``: chance that all of k attempts pass.

results: the two result types, and the number of units for a target width
    ``Interval``: an estimate with its interval.
    ``HypothesisTest``: a test of one hypothesis.
    ``units_needed``: number of units at which an interval has a given half width.
    ``holm``: adjustment of p-values for several claims.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
