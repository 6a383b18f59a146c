"""Estimators and tests on arrays and small tables; each returns a frozen result.

This package does not depend on frames or skills. Each docstring names sources, defaults and limits.
Functions load on first use. Each heading below is a file.

agreement: graders compared with each other
    ``cohen_kappa``, ``gwet_ac1``, ``krippendorff_alpha``: coefficients.
    ``bootstrap_agreement``: any of them for ratings in clusters.

association: association of two numbers per unit
    ``association``, ``Association``: R squared, plain, adjusted and cross-validated; Spearman.
    ``detectable_r_squared``: the smallest R squared that a number of units can detect.

bounded: means of bounded values, the interval of all analyses
    ``bounded_mean``: mean of rates, shares or differences, with limits valid near the bounds.
    ``bounded_means``, ``BoundedMeans``: many means in one computation, and their arrays.
    ``bounded_mean_many``, ``bounded_mean_counts``: many studies, from values or from counts.
    ``Quantity``, ``RATES``, ``SHARES``, ``DELTAS``: bounds of a quantity and its pseudo-case.

clusters: cases in clusters
    ``cr2``, ``ClusteredFit``: linear model with CR2 errors and Satterthwaite degrees of freedom.
    ``cr2_mean``: the same for a mean.
    ``log_ratio``: ratio of two paired amounts without an upper bound.
    ``sign_flip``: test of a mean by flipping the signs of whole clusters.

cusum: a control chart of single verdicts
    ``bernoulli_cusum``, ``BernoulliCusum``: the chart.
    ``cusum_limit``, ``cusum_steps``: its settings.

detection: scores that flag texts, by document
    ``bootstrap_auc``: area under the ROC curve, resampling documents.
    ``clean_needed``: negatives needed to bound the false-flag rate.

gaps: two groups of different cases
    ``independent_difference``: difference of two bounded means.

grader_errors: a grader compared with gold
    ``sensitivity``, ``specificity``: share of gold passes, and of gold fails, that it gets right.
    ``youden``, ``youden_difference``: Youden's J of a grader, and the difference of two.
    ``differential_misclassification``, ``DifferentialTests``: tests of equal errors.

intervals: a rate of independent cases
    ``wilson``: Wilson's score interval.

passk: several attempts per case
    ``pass_at_k``, ``pass_hat_k``: chance that one, or all, of k attempts pass.
    ``any_of_k``: whether one of the first k passed, the rule of task suites.
    ``pooled_pass_at_k``, ``pooled_pass_hat_k``: their means over cases, with intervals.

ppi: verdicts on all cases, gold on some
    ``ppi_mean``, ``ppi_paired``: prediction-powered mean and paired difference.

results: the two result types
    ``Interval``: an estimate with its interval.
    ``HypothesisTest``: a test of one hypothesis.

significance: the same items judged by two or more versions
    ``mcnemar_midp``: test of two paired rates.
    ``clustered_midp``, ``clustered_cochran``: test of two, or more, versions over cases.
    ``severity_shift``: how much more severe one version is.
    ``holm``: adjustment of p-values for several claims.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
