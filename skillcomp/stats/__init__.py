"""Estimators and tests that stand alone: arrays and small tables in, frozen results out.

This package knows no frames and no skills; the analyses of :mod:`skillcomp` rest on it. Sources,
defaults and traps of every function stand in its docstring. All of it loads on first use.

Results
    ``Interval``, ``HypothesisTest``: an estimate with its interval; a test of one hypothesis.

Means of bounded values, in clusters or not (the interval of every analysis)
    ``bounded_mean``: mean of rates, shares or differences, with limits that hold near the bounds.
    ``bounded_means``, ``bounded_mean_many``, ``bounded_mean_counts``: many means at once; many
    studies of the same cases, value by value or counted. ``BoundedMeans``: what these give.
    ``Quantity``, ``RATES``, ``SHARES``, ``DELTAS``: bounds and pseudo-case of what is averaged.
    ``independent_difference``: difference of two bounded means whose cases are different ones.

One rate of independent cases
    ``wilson``: Wilson's score interval.
    ``clopper_pearson``: exact interval.
    ``jeffreys``: Beta posterior.

Two paired rates of independent cases, one attempt each
    ``newcombe_paired``: Newcombe's square-and-add interval, methods 8, 9 and 10.
    ``tango``: score interval that agrees with the asymptotic McNemar test.
    ``bonett_price``, ``agresti_min``: adjusted Wald intervals.
    ``mcnemar_exact``, ``mcnemar_midp``, ``mcnemar_asymptotic``: tests of equal rates.
    ``mover_difference``: difference of two independent estimates from their intervals.

Cases in clusters
    ``cr2``, ``ClusteredFit``: linear model with CR2 errors and Satterthwaite degrees of freedom.
    ``cr2_mean``: the same for a mean. ``log_ratio``: ratio of two paired amounts without bound.
    ``sign_flip``: test of a mean by flipping the signs of whole clusters.
    ``obuchowski``, ``durkalski``: McNemar's test for pairs in clusters.

Several attempts a case
    ``pass_at_k``, ``pass_hat_k``: chance that one, or all, of k attempts pass.
    ``any_of_k``: whether one of the first k passed, the rule of task suites.
    ``pooled_pass_at_k``, ``pooled_pass_hat_k``: their means over cases, with intervals.

Agreement of graders
    ``cohen_kappa``, ``gwet_ac1``, ``krippendorff_alpha``: coefficients.
    ``bootstrap_agreement``: any of them for ratings in clusters.
    ``sensitivity``, ``specificity``: a grader against gold.
    ``cochran_q``, ``severity_shift``: versions of a grader on the same answers.
    ``clustered_cochran``, ``clustered_midp``: the same for answers in clusters.

Correction for a grader's errors
    ``rogan_gladen``: true rate from an apparent one. ``youden``, ``youden_difference``: J.
    ``ppi_mean``, ``ppi_paired``: prediction-powered mean and paired difference.
    ``differential_misclassification``, ``DifferentialTests``, ``fisher_midp``: equal errors?

Detection, by document
    ``delong``, ``delong_paired``: area under the ROC curve; difference of two areas.
    ``bootstrap_auc``: area under the ROC curve, resampling documents.
    ``clean_needed``: negatives that bound the rate of false flags.

Charts over time
    ``bernoulli_cusum``, ``BernoulliCusum``: chart of single verdicts.
    ``cusum_limit``, ``cusum_steps``, ``cusum_run_length``: its settings.
    ``false_alarm_probability``: chance of an alarm within a number of verdicts.

How much one number explains of another
    ``association``, ``Association``: R squared, adjusted and cross-validated; Spearman.
    ``detectable_r_squared``: the smallest that so many units show.

Several claims at once
    ``holm``, ``benjamini_hochberg``, ``adjust``: adjusted p-values.

Cases needed, by formula (for the project's own interval see :mod:`skillcomp.planning`)
    ``mcnemar_power``, ``mcnemar_cases``, ``connor``: one attempt a case.
    ``miller_cases``, ``miller_mde``: means of cases with known variance.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
