"""Sentences on rows of estimates: the phrases, what is said of several rows, and their numbers."""

import re

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.report import sentences
from skillcomp.report.phrases import Field, direction, fields_of, filled, plural
from skillcomp.report.sentences import PHRASES

NAN = float("nan")


def rows(*values: tuple[object, float, float, float], **columns: object) -> pd.DataFrame:
    """Rows of measure, estimate and limits, with further columns."""
    names = ["measure", "estimate", "ci_low", "ci_high"]
    common = {"n": 100.0, "ci_level": 0.95, "unit": "points", "note": ""}
    return pd.DataFrame(values, columns=names).assign(**(common | columns))


def audit(**columns: object) -> pd.DataFrame:
    frame = rows(("effect_points", 4.0, 1.0, 6.0), grader="a", bias="verbosity", condition=None)
    about = {"stratum": "all", "shown": False, "per": "doubling of the words"}
    return frame.assign(**(about | {"unit": "percentage points"} | columns))


LENIENT = {"bias": "condition leniency", "condition": "skill"}
LACKS = {"estimate": NAN, "ci_low": NAN, "note": "not identified: one family"}
AGREE = rows(
    ("raw_agreement", 0.9, 0.85, 0.94),
    ("raw_agreement", 0.7, 0.6, 0.8),
    ("raw_agreement", 0.92, 0.88, 0.96),
    grader=["a", "b", "c"],
)
KAPPA = rows(*[("cohen_kappa", v, NAN, NAN) for v in (0.5, 0.4, 0.45)], grader=["a", "b", "c"])
CEILING = rows(("ceiling_gwet_ac1", 0.96, 0.9, 0.98), grader="a", labeller=None)
OWN = rows(("gwet_ac1", 0.8, 0.7, 0.9), ("gwet_ac1", 0.93, 0.9, 0.95), grader=["a", "b"])
DRIFT = rows(
    ("agreement_change", -0.02, -0.05, 0.01),
    ("specificity_change", -0.25, -0.34, -0.18),
    ("sensitivity_change", 0.2, 0.1, 0.3),
    ("severity_shift", 0.4, -0.1, 0.9),
    grader="new",
    reference="old",
    n_gained=3,
    n_lost=5,
)
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
)
AMOUNTS = rows(
    ("total_ratio_cost_usd", 2.04, 1.8, 2.31),
    ("delta_cost_usd", 0.5, 0.4, 0.6),
    ("ratio_cost_usd", 1.9, 1.7, 2.2),
    condition="skill",
    reference="baseline",
)
COPIES = rows(
    ("perturbation_points", -3.0, -5.0, -1.0),
    **{"grader": "a", "perturbation": "pad", "n": 50, "n_to_pass": 0, "n_to_fail": 2},
)
ORDERS = rows(("position_consistency", 0.9, 0.8, 0.95), ("position_points", 2.0, -1.0, 5.0))
ERRORS = rows(
    ("delta_sensitivity", 0.0, -0.1, 0.1),
    ("delta_specificity", -0.3, -0.5, -0.1),
    ("delta_youden", -0.3, -0.5, -0.1),
    grader="a",
    condition="skill",
)
CORRECTIONS = rows(
    ("delta_share_passed", 0.2, 0.1, 0.3),
    ("delta_share_passed", 0.05, -0.1, 0.2),
    ("delta_share_passed", 0.1, 0.05, 0.2),
    ("delta_share_passed", 0.11, 0.06, 0.21),
    ("delta_share_passed", 0.1, 0.05, 0.2),
    grader=["a", "a", "b", "b", "c"],
    estimator=["naive", "ppi", "naive", "ppi", "naive"],
    recommended=[False, True, False, True, False],
    reason=["", "", "", "", "too few labels"],
    condition="skill",
)
PAIRED = rows(
    ("delta_share_passed", 0.36, 0.29, 0.42),
    **{"skill": "tea", "condition": "skill", "reference": "baseline"},
    **{"rate": 0.84, "reference_rate": 0.48, "n": 40.0},
)
CHANGES = rows(
    ("delta_exact", -0.02, -0.07, 0.02),
    ("delta_exact", -0.11, -0.19, -0.05),
    condition=["vague", "opaque"],
    reference="precise",
)


@pytest.mark.parametrize(
    ("frame", "texts"),
    [
        (AGREE, [
            "a agrees with gold on 90 % [85, 94] of 100 checks.",
            "b agrees with gold on 70 % [60, 80] of 100 checks.",
            "c agrees with gold on 92 % [88, 96] of 100 checks."]),
        (pd.concat([AGREE, KAPPA]).assign(prevalence=0.7), [
            "a agrees with gold on 90 % [85, 94] of 100 checks, kappa .50.",
            "kappa .40", "kappa .45",
            "By gold 70 % of the items pass, so a grader that passes every item agrees on as many "
            "and has kappa 0; not shown to agree more often than that: b (70 % [60, 80]).",
            "Kappa gives another order: a, c and b."]),
        (pd.concat([AGREE, KAPPA]).assign(prevalence=0.3), [
            "a agrees", "b agrees", "c agrees",
            "By gold 70 % of the items fail, so a grader that fails every item agrees on as many ",
            "Kappa"]),
        (AGREE.head(1).assign(estimate=NAN, note="no label"), [
            "a: agreement with gold cannot be given (no label)."]),
        (pd.concat([CEILING, OWN.assign(labeller="Kim")]), [
            "The labellers agree with each other by AC1 .96 [.90, .98].",
            "With Kim, the graders agree by AC1: a .80 [.70, .90] and b .93 [.90, .95]."]),
        (CEILING.assign(**LACKS), ["is not known: not identified: one family."]),
        (DRIFT, [
            "new is not shown to agree with gold more or less often than old: −2 points [−5, 1]; "
            "of 100 checks 3 are right only by new and 5 only by old; more false passes (fails "
            "among gold fails −25 points [−34, −18]); fewer false fails (passes among gold passes "
            "+20 points [10, 30])."]),
        (DRIFT.assign(agent="x").head(1), ["Answers by x: new is not shown"]),
        (RULES, ["Rules broken most often (a): quote empty 10 % [5, 20]."]),
        (pd.concat([RULES.assign(agent=agent) for agent in "xy"]), [
            f"Rules broken most often (a, {agent}): quote" for agent in "xy"]),
        (RULES.assign(estimate=0.0).head(1), ["Rules broken most often (a): none."]),
        (MODES, ["Failure modes of checks (v2): near-far failure 30 % [10, 50]."]),
        (audit(), ["An effect on a grader is shown only before p is adjusted, for verbosity per "
         "doubling of the words in a (+4 points [1, 6])."]),
        (audit(shown=True), [
            "An effect on a grader is shown for verbosity per doubling of the words in a (+4 "
            "points [1, 6])."]),
        (audit(**LACKS), ["Effects not known (verbosity): not identified: one family."]),
        (pd.concat([audit(stratum="gold pass", shown=None, per=None, **LENIENT),
                    audit(stratum="gold fail", per=None, ci_low=-9.0, **LENIENT)]), [
            "An effect on a grader on checks with gold pass is shown for condition leniency "
            "under skill in a (+4 points [1, 6]).",
            "An effect on a grader on checks with gold fail is not shown for condition "
            "leniency under skill in a."]),
        (AMOUNTS, [
            "The skill changes the cost by +104 % [80, 131] of the total on 100 cases."]),
        (COPIES, ["On copies of the kind 'pad', a changed 0 of 50 verdicts to PASS and 2 to FAIL; "
         "−3 points [−5, −1], a shift to FAIL."]),
        (ORDERS, ["The grader makes the same choice in both orders in 90 % [80, 95] of 100 pairs; "
         "being shown first is worth +2 points [−1, 5]: no preference for a place is shown."]),
        (ERRORS, ["a, the skill against baseline: passes among gold passes 0 points [−10, 10] "
         "(no difference is shown), fails among gold fails −30 points [−50, −10] (more false "
         "passes)."]),
        (CORRECTIONS, [
            "a: the skill changes the share of checks that pass by +20 points [10, 30]; corrected "
            "for its errors, by +5 points [−10, 20].",
            "b: the skill changes",
            "c, the skill: a corrected number cannot be given (too few labels).",
            "The correction moves 2 estimates of the share of checks that pass by 1 to 15 points "
            "and changes the conclusion for a, skill (a gain before, no change shown after)."]),
        (CORRECTIONS.replace({"ci_low": {-0.1: 0.01}}).assign(shown=[True, False] * 2 + [True]),
         ["a: the skill", "b: the skill", "c, the skill", "The correction moves 2 estimates of the "
          "share of checks that pass by 1 to 15 points and changes the conclusion for a, skill (a "
          "gain before, no change shown after, as p is adjusted) and b, skill"]),
        (PAIRED, ["tea: with the skill 84 % of the checks pass and without it 48 %, +36 points "
         "[29, 42] on 40 cases."]),
        (PAIRED.drop(columns="skill"), ["With the skill 84 % of the checks pass"]),
        (CHANGES, [
            "vague against precise: the share of prompts that invoke exactly the right skills "
            "changes by −2 points [−7, 2], which may be chance.",
            "changes by −11 points [−19, −5].",
            "The largest of these differences is 11 points."]),
        (pd.concat([CHANGES.head(1), rows(("delta_specificity", 0.1, 0.0, 0.2),
                    condition="vague", reference="precise")]), ["vague against precise: the"]),
    ],
)  # fmt: skip
def test_each_frame_has_its_sentences(frame: pd.DataFrame, texts: list[str]) -> None:
    written = sentences(frame)
    assert len(written) == len(texts), written
    for text, sentence in zip(texts, written, strict=True):
        assert text in sentence
    assert sentences(frame.iloc[:0]) == []


def test_the_agreement_of_rounds_is_not_called_agreement_with_gold() -> None:
    frame = rows(
        ("raw_agreement", 0.99, 0.9, 1.0),
        ("flip_rate", 0.01, 0.0, 0.1),
        ("attempt_flip_rate", 0.02, 0.01, 0.1),
        **{"grader": "a", "n_rounds": 2.0, "n_missing": 0, "round": 1},
        **{"worst_low": 0.01, "worst_high": 0.2},
    )
    both = pd.concat([frame, frame.assign(grader="b")])
    first, second = sentences(both)
    assert first == (
        "a graded in 2 rounds, which disagree on 1 % [0, 10] of 100 checks graded again and on "
        "2 % [1, 10] of 100 attempts; the results are those of round 1."
    )
    assert second.startswith("b graded in 2 rounds")


def test_a_phrase_leaves_out_unknown_numbers_and_counts_nouns() -> None:
    row = pd.Series({"estimate": 0.25, "ci_low": 0.1, "ci_high": 0.4, "n": 8.0, "n_lost": 0})
    phrase = ("It is {row:share}", ", kappa {kappa:coefficient}", "; {n_lost:#check} lost")
    assert filled(phrase, fields_of(row)) == "It is 25 % [10, 40]"
    assert filled(phrase, fields_of(row) | {"kappa": Field(0.5)}).endswith(", kappa .50")
    assert filled([("{kappa:coefficient}", "none")], fields_of(row)) == "none"
    assert filled(["{row:more/fewer}"], fields_of(row)) == "more"
    with pytest.raises(LookupError):
        filled(["{row:share}"], fields_of(row.replace(0.25, NAN)))
    assert (plural(1, "case"), plural(2000, "gold label")) == ("1 case", "2,000 gold labels")


def test_shown_is_read_from_its_column_and_without_it_from_the_interval() -> None:
    row = pd.Series({"estimate": -0.2, "ci_low": -0.3, "ci_high": -0.1})
    words = "more", "fewer", "neither"
    assert direction(row, *words) == "fewer"
    for shown, word in ((True, "fewer"), (False, "neither"), (pd.NA, "fewer"), (None, "fewer")):
        assert direction(pd.concat([row, pd.Series({"shown": shown})]), *words) == word
    assert direction(row.replace(-0.1, 0.1), *words) == "neither"
    (text,) = sentences(DRIFT.head(2).assign(shown=False))
    assert "no difference is shown in false passes" in text


def test_every_number_of_a_sentence_is_a_number_of_its_rows() -> None:
    """A planted row of each measure: no sentence rounds, negates or invents a number."""
    columns = {
        "grader": "a", "reference": "b", "condition": "skill", "side": "x", "opponent": "y",
        "feature": "total", "perturbation": "pad", "rate": 0.84, "reference_rate": 0.48,
        "n_near": 15.0, "n_far": 26.0, "dimensions": "K", "n_rounds": 3.0, "round": "7",
        "n_clusters": 6.0, "n_to_pass": 9.0, "n_to_fail": 2.0, "n_gained": 31.0,
        "n_lost": 32.0, "n_missing": 12.0, "n_missing_reference": 14.0,
    }  # fmt: skip
    names = {"row", "grader", "how", "without", "what", "subject", *columns, "n"}
    words = {"subject": "", "under": "", "by": "", "against": "b"}
    words |= {
        "agrees": "a agrees with gold",
        "mean": "the share",
        "level": "",
        "place": "",
    }
    words |= {"note_on_gap": "no", "note_on_gap_pooled": "no"}
    names |= {*words}
    for _, phrases in PHRASES:
        for name, phrase in phrases.items():
            texts = [t for part in phrase for t in ([part] if isinstance(part, str) else part)]
            fields = {f for text in texts for f in re.findall(r"\{(\w+)", text)} - names
            # a ratio is said as the change that it is
            one = 1.0 if name.startswith("total_ratio") else 0.0
            values = [
                (f, one - 0.11 - k / 50, one - 0.3, one - 0.01)
                for k, f in enumerate(sorted(fields | {name}))
            ]
            frame = rows(*values, **columns)
            own = fields_of(frame.iloc[0], {r["measure"]: r for _, r in frame.iterrows()})
            own |= {name: Field(word) for name, word in words.items()}
            text = "".join(filled([part], own) for part in texts)  # each is said
            allowed = {*columns.values(), 100.0, 30.0, 0.3, 1.0, 0.01}
            allowed |= {abs(v - one) for row in values for v in row[1:]}
            allowed = {a for a in allowed if isinstance(a, float)} | {0.0, 7.0}
            for number in re.findall(r"[−+]?\d+(?:\.\d+)?|\.\d+", text):
                value = abs(float(number.replace("−", "-")))
                assert any(
                    value == pytest.approx(form, abs=0.006)
                    for a in allowed for form in (a, round(100 * a), round(a, 2), round(100 * a, 1))
                ), (name, number, text)  # fmt: skip
                if number[0] in "+−":
                    assert number[0] == "−", (name, text)


def test_text_table_and_figure_agree_in_sign_and_in_name() -> None:
    (text,) = sentences(DRIFT)
    table = sc.table(
        DRIFT.assign(unit="points"), columns=["measure", "estimate", "ci_low", "ci_high"]
    )
    ax = sc.plots.estimates(DRIFT.head(3), y="grader", hue="measure")
    legend = [entry.get_text() for entry in ax.figure.legends[0].texts]
    cells = table.cells.iloc[:, 0].str.lower().tolist()
    for row, name in zip(DRIFT.iloc[1:3].itertuples(), cells[1:3], strict=True):
        number = f"{100 * row.estimate:+.0f} points".replace("-", "−")
        assert f"{name} {number}" in text
        assert name in legend
        shown = table.cells.set_index(table.cells.columns[0]).iloc[:, 0]
        assert shown[name[:1].upper() + name[1:] if name not in shown else name][0] == number[0]


# The number of cases, thresholds, repeats and progress


def cut(*rows: dict[str, object], **chosen: object) -> pd.DataFrame:
    about = {"rule": "any", "n": 4, "cut": np.nan, "limit": np.nan, "chosen": False, "note": ""}
    about |= {"ci_low": np.nan, "ci_high": np.nan, "n_texts": 50.0, "keeps_limit": None}
    end = {"measure": "chosen_n", "estimate": 4.0, "chosen": True, **chosen}
    return pd.DataFrame([about | row for row in (*rows, end)])


FOUND = {"measure": "sensitivity", "estimate": 0.9, "ci_low": 0.8, "ci_high": 0.95}
NULL = {"measure": "false_flags_baseline", "estimate": 0.02, "ci_low": 0.0, "ci_high": 0.04}
NULL |= {"limit": 0.05, "keeps_limit": True}


def test_a_threshold_is_described_with_what_it_finds_and_flags() -> None:
    longer = NULL | {"measure": "false_flags_fresh_at_answer_length"}
    own = {"measure": "flagged_v2", "estimate": 0.4, "ci_low": 0.3, "ci_high": 0.5}
    assert sentences(cut(FOUND, NULL, longer, own)) == [
        "A text counts as a copy if it shares 4 content tokens in a row with its source.",
        "It flags 90 % [80, 95] of 50 copied texts.",
        "It flags 2 % [0, 4] of 50 baseline texts, which do not copy: within the limit of 5 %.",
        "It flags 40 % [30, 50] of 50 v2 texts; how many of these copy is not known.",
    ]


def test_an_exceeded_limit_and_the_reason_of_no_threshold_are_named() -> None:
    null = NULL | {"keeps_limit": False}
    frame = cut(FOUND, null, cut=0.25).assign(rule="share", skill="my_tea")
    first, _, last = sentences(frame)
    assert first.startswith("my tea: A text counts as a copy if it has 25 % of its runs of 4")
    assert last.endswith("not shown to be within the limit of 5 %.")
    frame = cut(NULL, estimate=np.nan, n=pd.NA, note="the data cannot support it")
    assert sentences(frame) == ["No threshold can be chosen: the data cannot support it."]
    with pytest.raises(FrameError, match=r"report\.sentences: there is no column 'n_texts'"):
        sentences(cut(FOUND, NULL).drop(columns="n_texts"))
    with pytest.raises(FrameError, match="expected a DataFrame, found list"):
        sentences([])


def needed(*estimates: float, **about: object) -> pd.DataFrame:
    row = {"condition": "skill", "effect": "delta", "cluster": "case", "size": 0.1, "power": 0.8}
    row |= {"n_skills": 1, "measure": "cases_in_all", "note": "too few skills", **about}
    repeats = range(1, len(estimates) + 1)
    frame = pd.DataFrame({"n_repeats": repeats, "estimate": estimates}).assign(**row)
    return pd.concat([frame, frame.assign(measure="attempts", estimate=9.0)])


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            needed(1200.0, 1.0),
            "To show a change of 10 points by the skill over 1 skill with 80 % power, a study "
            "needs 1,200 cases with 1 repeat and 1 case with 2 repeats of each condition.",
        ),
        (
            needed(np.nan, condition="v2", agent="a", cluster="skill", n_skills=6),
            "To show a change of 10 points by v2 (a) for skills in general with 80 % power, no "
            "number of cases can be given. With 1 repeat: too few skills.",
        ),
        (
            needed(np.nan, 30.0, effect="gap", size=-0.2, n_skills=2),
            "To show that the skill changes far cases by 20 points less than near cases over "
            "2 skills with 80 % power, a study needs 30 cases with 2 repeats of each condition. "
            "With 1 repeat: too few skills.",
        ),
    ],
)
def test_a_plan_lists_the_cases_by_repeats_or_the_reason(
    frame: pd.DataFrame, sentence: str
) -> None:
    assert sentences(frame) == [sentence]


def test_repeats_are_described_by_their_spread_and_their_standard_errors() -> None:
    frame = rows(("d", 0.3, 0.2, 0.4), ("d", 0.4, 0.3, 0.5), repeat=[1, 2], se=[0.05, 0.06])
    assert sentences(frame) == [
        "Taken alone, the 2 repeats give +30 to +40 points (standard deviation 7.1), each with a "
        "standard error of 5.0 to 6.0 points."
    ]
    assert sentences(frame.head(1)) == [
        "The noise between repeats is not known: fewer than two have a change."
    ]


def test_progress_counts_what_is_recorded_and_what_is_left() -> None:
    columns = ["stage", "name", "n_wanted", "n_not_ok", "n_open"]
    counts = [("run", "a", 4, 0, 0), ("run", "a", 4, 1, 2), ("grade", "judge", 6, 0, 0)]
    assert sentences(pd.DataFrame(counts, columns=columns)) == [
        "a: 6 of 8 answers are recorded (1 without a result); the next call asks for 2.",
        "judge: 6 of 6 gradings are recorded; the next call asks for none.",
    ]


def test_goals_and_effects_of_several_agents_are_told_apart() -> None:
    frame = pd.DataFrame({"goal": ["outcome"] * 2, "agent": ["ann", "bob"], "condition": "skill"})
    goals = frame.assign(grader="trace", estimate=1.0, ci_low=0.4, ci_high=1.0)
    assert sentences(goals) == [
        f"Goals met (trace, skill, {agent}): outcome 100 % [40, 100]." for agent in ("ann", "bob")
    ]
    design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    answers = [
        {"skill": "s", "case_id": f"s/{i}", "condition": d["condition"], "agent": agent}
        | {"passed": d["content"] == "F" or agent == "bob"}
        for i in range(6)
        for d in design
        for agent in ("ann", "bob")
    ]
    effects = sc.structure.factorial(pd.DataFrame(answers), design, by=["agent"], reference=None)
    starts = [text.partition(": ")[0] for text in sentences(effects) if "The document" in text]
    assert starts == ["ann", "bob"]
    unknown = effects.assign(estimate=np.nan, note="too few cases")
    assert all(text.endswith("is not known: too few cases.") for text in sentences(unknown))


def test_pairs_of_graders_that_cannot_be_distinguished_are_listed() -> None:
    counts = pd.DataFrame({"grader": ["a", "b", "c"], "agreed": [90, 86, 60], "n": 100})
    (pairs,) = sentences(sc.reliability.contrast_counts(counts))
    assert re.fullmatch(
        r"A difference in agreement is shown for [abc] against [abc] \([+−]\d+ points \[.*\]\) and "
        r"[abc] against [abc] \(.*\); not shown for b against a \(p adjusted for all pairs\)\.",
        pairs
    ), pairs  # fmt: skip
