"""Estimators and tests on arrays and small tables; each returns a frozen result.

This package knows nothing of frames or skills. The docstring of every function names its sources,
defaults and limits. Functions load on first use. Headings are the files.

agreement: graders compared with each other
    ``cohen_kappa``, ``gwet_ac1``, ``krippendorff_alpha``: coefficients.
    ``bootstrap_agreement``: any of them for ratings in clusters.

association: how much of one number another explains
    ``association``, ``Association``: R squared, adjusted and cross-validated; Spearman.
    ``detectable_r_squared``: the smallest R squared that a number of units can show.

bounded: means of bounded values, the interval of every analysis
    ``bounded_mean``: mean of rates, shares or differences, with limits that hold near the bounds.
    ``bounded_means``, ``BoundedMeans``: many means at once, and their arrays.
    ``bounded_mean_many``, ``bounded_mean_counts``: many studies of the same cases, value by value
    or counted.
    ``Quantity``, ``RATES``, ``SHARES``, ``DELTAS``: bounds and pseudo-case of what is averaged.

clusters: cases in clusters
    ``cr2``, ``ClusteredFit``: linear model with CR2 errors and Satterthwaite degrees of freedom.
    ``cr2_mean``: the same for a mean.
    ``log_ratio``: ratio of two paired amounts without an upper bound.
    ``sign_flip``: test of a mean by flipping the signs of whole clusters.

cusum: a control chart of single verdicts
    ``bernoulli_cusum``, ``BernoulliCusum``: the chart.
    ``cusum_limit``, ``cusum_steps``: its settings.

detection: scores that flag a text, by document
    ``bootstrap_auc``: area under the ROC curve, resampling documents.
    ``clean_needed``: negatives needed to bound the rate of false flags.

gaps: two groups of different cases
    ``independent_difference``: difference of two bounded means.

grader_errors: a grader compared with gold
    ``sensitivity``, ``specificity``: how often it agrees with gold passes and gold fails.
    ``youden``, ``youden_difference``: both in one number, J, and the difference of two.
    ``differential_misclassification``, ``DifferentialTests``: tests of equal errors.

intervals: one rate of independent cases
    ``wilson``: Wilson's score interval.

passk: several attempts a case
    ``pass_at_k``, ``pass_hat_k``: chance that one, or all, of k attempts pass.
    ``any_of_k``: whether one of the first k passed, the rule of task suites.
    ``pooled_pass_at_k``, ``pooled_pass_hat_k``: their means over cases, with intervals.

ppi: gold on some cases, a grader on all
    ``ppi_mean``, ``ppi_paired``: prediction-powered mean and paired difference.

results: the two shapes of a result
    ``Interval``: an estimate with its interval.
    ``HypothesisTest``: a test of one hypothesis.

significance: the same items judged twice or more often
    ``mcnemar_midp``: test of two paired rates.
    ``clustered_midp``, ``clustered_cochran``: two, or more, versions on the answers of cases.
    ``severity_shift``: how much stricter one version is.
    ``holm``: p-values adjusted for several claims.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
