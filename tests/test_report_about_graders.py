"""Sentences on graders for the chapters, on rows made by hand."""

import pandas as pd
import pytest

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import StudyError
from skillcomp.report import about_graders
from skillcomp.report.default_grader import best_grader

NAN = float("nan")


def rows(*values: tuple[object, float, float, float], **columns: object) -> pd.DataFrame:
    """Rows of measure, estimate and limits, with further columns."""
    names = ["measure", "estimate", "ci_low", "ci_high"]
    common = {"n": 100.0, "ci_level": 0.95, "note": ""}
    return pd.DataFrame(values, columns=names).assign(**(common | columns))


def audit(**columns: object) -> pd.DataFrame:
    frame = rows(("effect_points", 4.0, 1.0, 6.0), grader="a", bias="verbosity", condition=None)
    about = {"stratum": "all", "p_adjusted": 0.2, "per": "doubling of the words"}
    return frame.assign(**(about | columns))


LENIENT = {"bias": "condition leniency", "condition": "skill"}
LACKS = {"estimate": NAN, "ci_low": NAN, "note": "not identified: one family"}
AGREE = rows(
    ("raw_agreement", 0.9, 0.85, 0.94),
    ("raw_agreement", 0.7, 0.6, 0.8),
    ("raw_agreement", 0.92, 0.88, 0.96),
    grader=["a", "b", "c"],
)
CEILING = rows(*[("ceiling_gwet_ac1", 0.96, 0.9, 0.98)] * 2, grader=["a", "b"], labeller=None)
OWN = rows(("gwet_ac1", 0.8, 0.7, 0.9), ("gwet_ac1", 0.93, 0.9, 0.95), grader=["a", "b"])
ERRORS = rows(
    ("sensitivity_change", -0.2, -0.3, -0.1),
    ("severity_shift", 0.4, -0.1, 0.9),
    grader="new",
    reference="old",
)
FLIPS = pd.DataFrame({"old": [True, False], "new": [False, False], "count": [3, 7]})
RULES = rows(
    ("quote_empty", 0.1, 0.05, 0.2),
    ("undecided_fail", 0.5, 0.4, 0.6),
    ("quote_short", NAN, NAN, NAN),
    grader="a",
    counted="verdicts",
)
MODES = rows(
    ("near_far_failure", 0.3, 0.1, 0.5),
    ("body_only_retrieval", NAN, NAN, NAN),
    ("none_of_these", 0.7, 0.5, 0.9),
    condition="v2",
    count=[30, 0, 70],
    n_undecided=[0, 100, 5],
)
COPIES = rows(("perturbation_points", -3.0, -5.0, -1.0), grader="a", perturbation="pad",
              n_pairs=50, n_to_pass=0, n_to_fail=2)  # fmt: skip
PAIRS = rows(("position_consistency", 0.9, 0.8, 0.95), ("position_points", 2.0, -1.0, 5.0))
DIFFERENCES = rows(
    ("delta_sensitivity", 0.0, -0.1, 0.1),
    ("delta_specificity", -0.3, -0.5, -0.1),
    grader="a",
    condition="skill",
)
CORRECTIONS = rows(
    ("d", 0.2, 0.1, 0.3),
    ("d", 0.05, -0.1, 0.2),
    ("d", 0.1, 0.05, 0.2),
    grader=["a", "a", "b"],
    estimator=["naive", "ppi", "naive"],
    recommended=[False, True, False],
    reason=["", "", "too few labels"],
)


@pytest.mark.parametrize(
    ("topic", "frame", "texts"),
    [
        ("ranking", AGREE, ["Of 3 graders, c agrees with gold most often and b least; the "
         "intervals of c and a overlap."]),
        ("ranking", AGREE.head(1), []),
        ("ranking", AGREE.assign(estimate=NAN), ["sc.reliability.label_sheet"]),
        ("ceiling", pd.concat([CEILING, OWN.assign(labeller="Kim")]), [
            "The labellers agree with each other by AC1 .96 [.90, .98].",
            "By agreement with Kim, a lies below and b lies within this interval."]),
        ("ceiling", CEILING.assign(**LACKS), ["is not known: not identified: one family."]),
        ("errors", ERRORS, ["new makes more false fails than old: +20 points [10, 30].",
         "new is not shown to be stricter or more lenient than old."]),
        ("flips", FLIPS.assign(grader="new", reference="old", gold=None), [
            "new and old differ on 3 of 10 checks: 0 flipped to PASS and 3 to FAIL."]),
        ("rules", RULES, ["a breaks 1 of 1 applicable rule: quote empty (10 % [5, 20] of 100 "
         "verdicts)."]),
        ("rules", pd.concat([RULES.assign(agent=agent) for agent in "xy"]), [
            f"a, answers by {agent}, breaks 1 of 1 applicable rule" for agent in "xy"]),
        ("rules", RULES.tail(1), ["a: no rule applies to what was recorded."]),
        ("modes", MODES, ["Under v2, 100 checks failed, most often by near-far failure (30 %); at "
         "most 70 % have none of the six modes."]),
        ("modes", MODES.head(0), ["No check failed, so there are no failure modes."]),
        ("biases", audit(), ["The only effect that is estimated on a grader is not shown once",
         "a, verbosity: +4 points [1, 6] per doubling of the words."]),
        ("biases", audit(p_adjusted=0.01), ["Shown for a, verbosity: +4 points [1, 6] per doubling "
         "of the words (adjusted p = .01)."]),
        ("biases", audit(**LACKS), ["No effect on a grader can be estimated from these data.",
         "Verbosity: not identified: one family."]),
        ("leniency", pd.concat([audit(stratum="gold pass", **LENIENT),
                                audit(stratum="gold fail", ci_low=-9.0, **LENIENT)]), [
            "a, the skill against the reference: share passed of checks that gold passes +4 points "
            "[1, 6] (more lenient), of checks that gold fails +4 points [−9, 6] (no difference is "
            "shown)."]),
        ("copies", COPIES, ["On copies of the kind 'pad', a changed 2 of 50 verdicts: 0 to PASS, 2 "
         "to FAIL; −3 points [−5, −1], a shift to FAIL."]),
        ("copies", COPIES.head(0), ["sc.bias.perturb makes them"]),
        ("position", PAIRS, ["The grader keeps its choice in 90 % [80, 95] of 100 pairs; being "
         "shown first is worth +2 points [−1, 5]: no preference for a place is shown."]),
        ("position", PAIRS.head(0), ["sc.live.compare", "position bias is not known"]),
        ("differences", DIFFERENCES, ["a, the skill against the reference: false fails 0 points "
         "[−10, 10] (no difference is shown), false passes +30 points [10, 50] (more)."]),
        ("differences", DIFFERENCES.head(0), ["Whether the errors of a grader differ between"]),
        ("corrections", CORRECTIONS, ["The correction moves 1 estimate by 15 points and changes "
         "the conclusion for a (a gain before, no change shown after).",
         "No correction is recommended for b: too few labels."]),
    ],
)  # fmt: skip
def test_each_topic_has_its_sentences(topic: str, frame: pd.DataFrame, texts: list[str]) -> None:
    sentences = about_graders(**{topic: frame})
    assert len(sentences) == len(texts)
    assert all(text in sentence for text, sentence in zip(texts, sentences, strict=True))


def test_graders_are_compared_with_passing_everything_and_the_order_by_kappa() -> None:
    names = ["a", "b", "c"]
    raw = rows(
        *[("raw_agreement", *v) for v in [(0.8, 0.7, 0.9), (0.75, 0.71, 0.8), (0.9, 0.8, 1)]]
    )
    kappa = rows(*[("cohen_kappa", v, NAN, NAN) for v in (0.4, 0.5, 0.7)])
    frame = pd.concat([raw.assign(grader=names), kappa.assign(grader=names)])
    assert about_graders(chance=frame.assign(prevalence=0.7)) == [
        "By gold 70 % of the items pass, so a grader that passes every item agrees on as many and "
        "has kappa 0. Not shown to agree more often than that: a (80 % [70, 90]).",
        "Kappa gives another order than agreement. These graders fall: a from place 2 (80 %) to 3 "
        "(kappa .40).",
    ]
    first, second = about_graders(chance=frame.iloc[[0, 3]].assign(prevalence=0.4))
    assert first == (
        "By gold 60 % of the items fail, so a grader that fails every item agrees on as many and "
        "has kappa 0. Every grader is shown to agree more often than that."
    )
    assert second == "Kappa gives the same order as agreement."
    assert about_graders(chance=frame.iloc[:0]) == []


def test_pairs_of_graders_that_cannot_be_distinguished_are_listed() -> None:
    counts = pd.DataFrame({"grader": ["a", "b", "c"], "agreed": [90, 86, 60], "n": 100})
    pairs = sc.reliability.contrast_counts(counts)
    assert about_graders(unpaired=pairs) == [
        "2 of 3 pairs of graders differ in agreement, compared as unpaired and adjusted for the "
        "number of pairs. Not shown to differ: b and a; their intervals allow differences of up "
        "to 13 points.",
        "Ranks that these pairs allow (95 % certain for all together): a 1 to 2, b 1 to 2 and c 3.",
    ]
    pairs = rows(("x", 0.1, 0.05, 0.2), ("x", 0.01, -0.05, 0.07), ("x", NAN, NAN, NAN))
    pairs = pairs.assign(grader=["a", "a", "b"], reference=["b", "c", "c"])
    pairs = pairs.assign(measure="agreement_difference", p_adjusted=[0.01, 0.8, NAN])
    assert about_graders(unpaired=pairs) == [
        "1 of 3 pairs of graders differs in agreement, compared as unpaired and adjusted for the "
        "number of pairs. Not shown to differ: a and c; their intervals allow differences of up "
        "to 7 points. Not known: b and c."
    ]
    assert about_graders(unpaired=pairs.head(1)) == [
        "1 of 1 pair of graders differs in agreement, compared as unpaired."
    ]
    assert about_graders(unpaired=pairs.iloc[:0]) == []


# The graders and the reference that a chapter takes


def graded(**columns: object) -> pd.DataFrame:
    frame = pd.DataFrame({"grader": ["z", "a"], "grader_version": [None, None], "passed": True})
    return frame.assign(graded_at=pd.NaT).assign(**columns)


def test_the_first_grader_is_that_of_the_earliest_time_or_name() -> None:
    times = pd.to_datetime(["2026-01-01", "2026-02-01"])
    assert sc.report.first_grader(graded(graded_at=times)) == "z"
    assert sc.report.first_grader(graded()) == "a"
    assert sc.report.first_grader(graded(), "z") == "z"
    with pytest.raises(StudyError, match="no grader 'b'; there: a, z"):
        sc.report.first_grader(graded(), "b")
    with pytest.raises(StudyError, match="grade it with"):
        sc.report.first_grader(graded().head(0))


def test_versions_of_a_grader_have_names_and_a_plain_name_finds_its_style() -> None:
    named = sc.report.grader_versions(graded(grader="g", grader_version=["1", "2"]))
    assert named["grader"].tolist() == ["g (version 1)", "g (version 2)"]
    styled = sc.report.grader_versions(graded(grader_version=["new@1a", "old@2b"]))
    assert styled["grader"].tolist() == ["z (new)", "a (old)"]
    assert sc.report.first_grader(styled, "z") == "z (new)"


def test_in_a_tie_the_default_grader_is_the_first_by_name() -> None:
    names = ["b", "a", "c"]
    agreement = pd.DataFrame({"measure": "raw_agreement", "grader": names})
    assert best_grader(agreement.assign(estimate=[0.9, 0.9, 0.1]), names) == "a"
    assert best_grader(agreement.assign(estimate=[0.8, 0.1, 0.9]), names) == "c"


def test_the_default_grader_of_verdicts_agrees_best_and_of_no_version_is_lost() -> None:
    study = simulated.study(
        n_skills=1,
        n_cases=8,
        agent_families=("north", "south"),
        graders=[
            simulated.Grader("judge", specificity=0.6, version="1"),
            simulated.Grader("judge", specificity=0.99, version="2"),
        ],
        gold_fraction=1.0,
    )
    verdicts = sc.report.grader_versions(study.verdicts)
    assert sc.report.default_grader(verdicts, gold=study.gold) == "judge (version 2)"
    assert sc.report.default_grader(verdicts) == "judge (version 1)"


def test_the_default_reference_is_the_baseline_or_the_previous_version() -> None:
    conditions = pd.DataFrame({"condition": ["skill", "previous"]})
    assert sc.report.default_reference(conditions) == "previous"
    assert sc.report.default_reference(conditions, "skill") == "skill"
    with pytest.raises(StudyError, match="Choose one: with reference='v1'"):
        sc.report.default_reference(pd.DataFrame({"condition": ["v1", "v2"]}))
    alone = conditions.iloc[1:]
    assert sc.report.default_reference(alone, alone=True) == "previous"
    with pytest.raises(StudyError, match=r"all answers are under previous\. A comparison needs"):
        sc.report.default_reference(alone)
    with pytest.raises(StudyError, match="none of 2 verdicts says pass or fail"):
        sc.report.default_reference(conditions.assign(passed=pd.NA))
