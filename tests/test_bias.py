"""The bias audit: planted biases are recovered, and what cannot be known is NaN."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from oracles.widened_slopes import widened_slope

import skillcomp as sc
from benchmarks import simulated
from skillcomp.bias.features_and_perturbations import feature_effect, features
from skillcomp.errors import FrameError

PLANTED = {
    "verbosity": "verbosity_effect",
    "hedging": "hedging_effect",
    "model family": "family_effect",
    "polish: lists": "list_effect",
    "order in the batch": "order_effect",
}
CONDITIONS = ("baseline", "skill")
FAIR = simulated.Grader("fair", asks_evidence=False)
BIASED = simulated.Grader(
    "biased",
    sensitivity={"baseline": 0.85, "skill": 0.90},
    specificity={"baseline": 0.85, "skill": 0.70},
    verbosity_bias=1.2,
    hedging_bias=0.4,
    family_bias=1.0,
    list_bias=1.0,
    order_bias=1.0,
    position_bias=1.5,
    asks_evidence=False,
)


def planted_study(seed: int, **how: object) -> simulated.Study:
    return simulated.study(
        **{
            "n_skills": 4,
            "n_cases": 30,
            "n_repeats": 1,
            "listed_share": 0.4,
            "agent_families": ("family-a", "family-b"),
            "gold_fraction": 1.0,
            "graders": (FAIR, BIASED),
            "seed": seed,
            **how,
        }
    )


def audited(made: simulated.Study, **how: object) -> pd.DataFrame:
    return sc.bias.audit(
        made.verdicts, made.attempts, made.gold, by=["grader"], pairwise=made.pairwise, **how
    )


def true_points(made: simulated.Study, row: pd.Series) -> float:
    """What was planted, in percentage points, over the checks of this study."""
    where = {"grader": row["grader"], "target": "these_cases"}
    if row["bias"] in PLANTED:
        return 100 * made.true(PLANTED[row["bias"]], **where)
    measure = "sensitivity" if row["stratum"] == "gold pass" else "specificity"
    two = [made.true(measure, condition=c, **where) for c in ("skill", "baseline")]
    return 100 * (two[0] - two[1]) * (1 if measure == "sensitivity" else -1)


def effects(found: pd.DataFrame) -> pd.DataFrame:
    """Rows whose truth is known."""
    kept = found["measure"].eq("effect_points")
    lenient = found["bias"].eq("condition leniency") & found["stratum"].ne("all")
    return found[kept & (found["bias"].isin(PLANTED) | lenient)]


@pytest.fixture(scope="module")
def made() -> simulated.Study:
    return planted_study(3)


@pytest.fixture(scope="module")
def found(made: simulated.Study) -> pd.DataFrame:
    return audited(made)


def pick(found: pd.DataFrame, **where: object) -> pd.Series:
    for name, value in where.items():
        found = found[found[name].eq(value)]
    assert len(found) == 1
    return found.iloc[0]


def test_every_bias_has_a_row_for_every_grader(found: pd.DataFrame) -> None:
    rows = found[found["stratum"].eq("all")].groupby("grader")["bias"].apply(list)
    names = ["verbosity", "hedging", "model family", "order in the batch", "polish: lists"]
    names += ["polish: sentences", "condition leniency"]
    of_pairs = ["verbosity", "hedging", "model family", "polish: lists", "polish: sentences"]
    assert rows["fair"] == rows["biased"] == names + of_pairs
    pooled = found["note"].str.contains("2 agents together")
    assert pooled[found["bias"].eq("verbosity") & found["measure"].eq("effect_points")].all()
    assert not pooled[found["bias"].eq("model family")].any()


def test_planted_biases_lie_in_their_intervals(made: simulated.Study, found: pd.DataFrame) -> None:
    rows = effects(found)
    assert len(rows) == 14
    hit = [r["ci_low"] <= true_points(made, r) <= r["ci_high"] for _, r in rows.iterrows()]
    assert np.mean(hit) >= 12 / 14  # of 14 intervals at 95 %, three misses are rare


def test_a_biased_grader_is_told_from_a_fair_one(found: pd.DataFrame) -> None:
    for bias in ("verbosity", "hedging", "model family", "polish: lists"):
        row = pick(found, grader="biased", bias=bias, measure="effect_points")
        assert row["ci_low"] > 0
        assert row["p_adjusted"] >= row["p_value"]
    lenient = pick(found, grader="biased", bias="condition leniency", stratum="gold fail")
    assert lenient["ci_low"] > 0


def test_without_gold_only_paired_evidence_is_left(made: simulated.Study) -> None:
    found = sc.bias.audit(
        made.verdicts,
        made.attempts,
        sc.frames.empty("gold"),
        by=["grader"],
        pairwise=made.pairwise,
    )
    given_gold = found[found["measure"].eq("effect_points")]
    assert given_gold["estimate"].isna().all()
    assert given_gold["note"].str.startswith("not identified: ").all()
    assert set(found["measure"]) == {"effect_points", "pair_preference_points"}


def small(cells: dict[tuple[str, str], list[tuple[bool, bool]]]) -> tuple[pd.DataFrame, ...]:
    """Verdict and gold of single-check attempts by skill and condition, one case each."""
    rows = [
        (f"{skill}/{n}/{condition}", skill, f"{skill}/{n}", condition, passed, label)
        for (skill, condition), pairs in cells.items()
        for n, (passed, label) in enumerate(pairs)
    ]
    names = ["attempt_id", "skill", "case_id", "condition", "passed", "label"]
    frame = pd.DataFrame(rows, columns=names).assign(check_id="c")
    verdicts = frame.drop(columns="label").assign(grader="g")
    attempts = frame[names[:4]].assign(answer="one two three")
    return verdicts, attempts, frame[["attempt_id", "check_id"]].assign(passed=frame["label"])


def leniency(cells: dict[tuple[str, str], list[tuple[bool, bool]]], **how: object) -> pd.DataFrame:
    found = sc.bias.audit(*small(cells), **how)
    return found[found["bias"].eq("condition leniency")].set_index("stratum")


def with_copies(
    study: simulated.Study, *graders: simulated.Grader
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts and attempts of a study with padded copies."""
    copies = sc.bias.perturb(study.attempts, kind="pad")
    graded = [simulated.grade(study, grader, attempts=copies, seed=7) for grader in graders]
    verdicts = pd.concat([study.verdicts, *graded], ignore_index=True)
    return verdicts, pd.concat([study.attempts, copies], ignore_index=True)


def test_what_does_not_vary_or_is_not_recorded_is_not_identified() -> None:
    side = [(True, True), (False, False)] * 4
    found = sc.bias.audit(*small({("a", "baseline"): side, ("a", "skill"): side}))
    for bias, reason in {
        "verbosity": "log2_words does not vary between answers of one skill",
        "polish: lists": "has_list does not vary",
        "order in the batch": "place is not recorded",
        "model family": "model family not recorded",
    }.items():
        row = pick(found, bias=bias)
        assert np.isnan(row["estimate"])
        assert row["note"].startswith("not identified") and reason in row["note"]


def test_one_case_identifies_no_bias() -> None:
    sides = {("a", condition): [(True, True)] for condition in CONDITIONS}
    found = sc.bias.audit(*small(sides))
    assert found["estimate"].isna().all()
    assert pick(found, bias="hedging")["note"] == "not identified: 1 case, fewer than 5"
    lenient = pick(found, bias="condition leniency", stratum="gold pass")
    assert lenient["note"] == "not identified: all labels of a condition are of one case"


def test_leniency_within_skill_is_the_weighted_difference_by_hand() -> None:
    # gold fails only. Skill a: 3 of 6 pass in the baseline, 2 of 2 with the skill; skill b: 1 of 4
    # and 2 of 4. Least squares weighs a stratum by n1 n0 / (n1 + n0): 1.5 and 2.
    rows = leniency(
        {
            ("a", "baseline"): [(True, False)] * 3 + [(False, False)] * 3,
            ("a", "skill"): [(True, False)] * 2,
            ("b", "baseline"): [(True, False)] + [(False, False)] * 3,
            ("b", "skill"): [(True, False)] * 2 + [(False, False)] * 2,
        }
    )
    weighted = 100 * (1.5 * 0.5 + 2 * 0.25) / 3.5
    assert rows.loc["gold fail", "estimate"] == pytest.approx(weighted)
    assert np.isnan(rows.loc["all", "estimate"])
    assert "not identified: no skill has gold passes in both" in rows.loc["all", "note"]


def test_frames_that_do_not_belong_together_are_refused(made: simulated.Study) -> None:
    with pytest.raises(FrameError, match="not in the attempts frame"):
        sc.bias.audit(made.verdicts, made.attempts.head(3), made.gold, by=["grader"])
    with pytest.raises(FrameError, match="more than one grader: biased, fair"):
        sc.bias.audit(made.verdicts, made.attempts, made.gold)
    with pytest.raises(FrameError, match="reference: there is no condition 'base'"):
        audited(made, reference="base")


def test_a_grader_that_passes_everything_is_lenient_to_no_condition() -> None:
    # gold: 8 of 40 in the baseline, 31 of 40 with the skill; verdicts all PASS. 31/40 - 8/40 is
    # what gold says of the conditions and no leniency.
    sides = {
        ("a", "baseline"): [(True, True)] * 8 + [(True, False)] * 32,
        ("a", "skill"): [(True, True)] * 31 + [(True, False)] * 9,
    }
    for _, row in leniency(sides).iterrows():
        assert row["estimate"] == pytest.approx(0) and row["p_value"] == 1
        assert row["ci_low"] < 0 < row["ci_high"]
        assert "no verdict varies within a skill and gold label" in row["note"]


def test_leniency_rises_with_each_answer_that_fools_the_grader() -> None:
    # two skills with 40 gold fails under each condition, of which 0, 1, 2, ... pass with the skill
    limits = []
    for fooled in (0, 1, 2, 3, 6):
        cells = {(s, c): [(False, False), (True, True)] * 40 for s in "ab" for c in CONDITIONS}
        side = [(k < fooled, False) for k in range(40)]
        cells["a", "skill"] = side + [(True, True)] * 40
        rows = leniency(cells).loc[["all", "gold fail"]]
        limits.append(rows[["ci_low", "ci_high"]].to_numpy().ravel())
        assert rows.loc["gold fail", "estimate"] == pytest.approx(100 * fooled / 80)
    assert (np.diff(limits, axis=0) > 0).all()
    assert -5 < limits[0][2] < 0 < limits[0][3] < 5


def test_a_grader_that_is_never_fooled_gets_a_bound_for_every_bias() -> None:
    grader = simulated.Grader("sure", sensitivity=1.0, specificity=1.0, asks_evidence=False)
    study = planted_study(5, n_skills=2, n_cases=12, graders=(grader,))
    rows = sc.bias.audit(study.verdicts, study.attempts, study.gold)
    rows = rows[rows["bias"].isin(PLANTED) | rows["bias"].eq("condition leniency")]
    assert len(rows) == 8
    assert rows["estimate"].abs().max() < 1e-9 and rows["p_value"].eq(1).all()
    assert rows["ci_low"].lt(0).all() and rows["ci_high"].gt(0).all()
    narrow = rows[rows["bias"].eq("condition leniency")]
    assert narrow["ci_high"].max() < 25


@pytest.mark.parametrize("base", [0.0, 0.03, 0.5, 1.0])
def test_the_slope_of_a_feature_is_that_of_the_oracle(base: float) -> None:
    rng = np.random.default_rng(7)
    n = 40
    strata, clusters = rng.integers(0, 3, n), rng.integers(0, 12, n)
    feature, control = rng.normal(size=n), rng.normal(size=n)
    verdict = (rng.random(n) < np.clip(base + 0.1 * feature * (0 < base < 1), 0, 1)).astype(float)
    frame = pd.DataFrame({
        "skill": strata.astype(str), "condition": "skill", "gold": 0.0, "check_id": "c",
        "cluster": clusters, "verdict": verdict, "log2_words": feature, "place": control,
    })  # fmt: skip
    made = feature_effect(frame, "log2_words", ["place"], 0.95)
    slope, low, high = widened_slope(verdict, feature, strata, clusters, control)
    assert made.estimate / 100 == pytest.approx(slope, abs=1e-9)
    assert [made.low / 100, made.high / 100] == pytest.approx([low, high], abs=2e-4)
    assert (made.p_value < 0.05) == (made.low > 0 or made.high < 0)
    assert "score test" in made.method


SCRIPTS = {
    "Chinese": ("教学很重要。真的吗？！我们用 Python 学习。", 14, 3),
    "Japanese": ("今日は良い天気です。「行こう。」そう言った。", 17, 3),
    "Thai": ("ไปกินข้าว วันนี้ฝนตก", 14, 2),
    "Arabic": ("هل فهمت؟ نعم، فهمت الدرس. شكرا", 6, 3),
    "Urdu": ("یہ کتاب ہے۔ وہ قلم ہے۔", 6, 2),
    "Hebrew": ("הבנת? כן, הבנתי.", 3, 2),
    "Hindi": ("यह किताब है। वह कलम है।", 6, 2),
    "Korean": ("이해했어요? 네, 이해했습니다.", 3, 2),
    "English": ('He said "go." Then it may-be rained!', 7, 2),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_and_sentences_are_counted_in_every_script(script: str) -> None:
    text, n_words, n_sentences = SCRIPTS[script]
    rows = {
        "attempt_id": ["a", "b"],
        "case_id": ["s/1", "s/2"],
        "answer": [text, f"{text}\n{text}"],
    }
    frame = pd.DataFrame(rows).assign(skill="s", condition="skill", n_words=1)
    found = features(frame)
    assert found["n_words"].tolist() == [n_words, 2 * n_words]
    assert found["words_per_sentence"].tolist() == [n_words / n_sentences] * 2
    # the hedges are English words: in another script their number is unknown
    assert found["hedges_per_100"].isna().all() == (script != "English")


def test_twelve_points_per_doubling_are_found_in_chinese_answers() -> None:
    rng = np.random.default_rng(6)
    n = 600
    doublings = rng.uniform(-1.5, 1.5, n)
    answers = []
    for size in (80 * 2**doublings).round().astype(int):
        text = "".join(rng.choice(list("教学很重要我们用心习天地人"), size))
        # a full stop now and then, and blanks around names, whose number says little of the length
        text = "。".join(text[at : at + 14] for at in range(0, size, 14))
        answers.append(text + " Python 模型" * int(rng.integers(1, 7)))
    keys = {"attempt_id": [f"a{i}" for i in range(n)], "case_id": [f"s/{i}" for i in range(n)]}
    attempts = pd.DataFrame(keys).assign(skill="s", condition="skill", answer=answers)
    verdicts = attempts.drop(columns="answer").assign(check_id="c", grader="g")
    gold = rng.random(n) < 0.5
    verdicts["passed"] = rng.random(n) < 0.3 + 0.3 * gold + 0.12 * doublings
    labels = verdicts[["attempt_id", "check_id"]].assign(passed=gold)
    found = sc.bias.audit(verdicts, attempts, labels, by=["grader"])
    row = pick(found, bias="verbosity", measure="effect_points")
    assert row["ci_low"] <= 12 <= row["ci_high"] and row["ci_low"] > 4


def test_a_feature_that_spans_less_than_its_unit_is_not_identified() -> None:
    # log2(120 / 100) = 0.26 of a doubling: the slope per doubling would be an extrapolation
    side = [(i % 3 == 0, False) for i in range(40)]
    verdicts, attempts, gold = small({("a", "baseline"): side})
    attempts["answer"] = [" ".join(["word"] * (100 + i % 21)) for i in range(40)]
    row = pick(sc.bias.audit(verdicts, attempts, gold), bias="verbosity")
    assert np.isnan(row["estimate"])
    assert row["note"] == (
        "not identified: log2_words spans 0.26, less than the unit of the effect"
    )


def test_rows_without_a_feature_held_constant_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"skill": "s", "condition": "skill", "check_id": "c", "gold": 0.0, "cluster": range(60),
         "x": rng.normal(0, 1, 60), "z": rng.normal(0, 1, 60), "rare": np.nan}
    )  # fmt: skip
    frame["verdict"] = (frame["x"] + 2 * frame["z"] + rng.normal(0, 1, 60) > 0).astype(float)
    frame.loc[:3, "z"], frame.loc[:9, "rare"] = np.nan, 1.0
    row = feature_effect(frame, "x", ["rare", "z"], 0.95)
    whole = feature_effect(frame[4:].drop(columns="rare"), "x", ["z"], 0.95)
    assert (row.estimate, row.low, row.n) == (whole.estimate, whole.low, 56)
    assert row.method.endswith(", holding z")
    assert "4 of 60 rows lack a feature held constant and are left out" in row.note
    assert "rare is known for 10 of 60 rows: not held constant" in row.note


@pytest.fixture(scope="module")
def padded(made: simulated.Study) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The study with padded copies, graded by a biased and a fair grader."""
    return with_copies(made, FAIR, BIASED)


def test_padded_copies_show_the_verbosity_bias_without_gold(
    made: simulated.Study, padded: tuple[pd.DataFrame, pd.DataFrame]
) -> None:
    with pytest.raises(FrameError, match="more than one agent"):
        sc.bias.perturbed(*padded, by=["grader"])
    by = ["grader", "agent"]
    rows = sc.bias.perturbed(*padded, by=by)
    assert rows.groupby("grader")["n"].sum().tolist() == [len(made.labels)] * 2
    fair, biased = (rows[rows["grader"].eq(name)] for name in ("fair", "biased"))
    assert fair["ci_low"].lt(0).all() and fair["ci_high"].gt(0).all()
    assert biased["ci_low"].gt(0).all()
    assert biased["p_value"].lt(0.01).all() and biased["n_to_pass"].gt(biased["n_to_fail"]).all()
    assert sc.bias.perturbed(made.verdicts, made.attempts, by=by).empty
    none = (frame.iloc[:0].copy() for frame in (made.verdicts, made.attempts))
    assert sc.bias.perturbed(*none, by=by).empty


def test_the_audit_keeps_copies_out_of_the_effect(
    found: pd.DataFrame, padded: tuple[pd.DataFrame, pd.DataFrame], made: simulated.Study
) -> None:
    verdicts, attempts = padded
    both = sc.bias.audit(verdicts, attempts, made.gold, by=["grader"])
    with_copies, alone = (
        pick(rows, grader="biased", bias="verbosity", measure="effect_points")
        for rows in (both, found)
    )
    assert with_copies["estimate"] == pytest.approx(alone["estimate"])


def test_pairs_by_hand() -> None:
    # case 1: two checks, one turns to PASS; case 2: one check, unchanged; case 3: turns to FAIL,
    # and a check whose original has no verdict. Verdicts weigh alike: (1 + 0 + 0 - 1) / 4
    rows = [("1", "x", 0, 1), ("1", "y", 1, 1), ("2", "x", 1, 1), ("3", "x", 1, 0),
            ("3", "y", None, 1)]  # fmt: skip
    values = [
        (f"{case}{end}", case, check, bool(value), case if end else None, "pad" if end else None)
        for case, check, before, after in rows
        for end, value in (("", before), ("+", after))
        if value is not None
    ]
    names = ["attempt_id", "case_id", "check_id", "passed", "source_attempt_id", "perturbation"]
    frame = pd.DataFrame(values, columns=names).assign(skill="s", condition="skill", grader="g")
    verdicts = frame.drop(columns=names[4:])
    attempts = frame.drop(columns=["check_id", "passed", "grader"]).drop_duplicates("attempt_id")
    row = sc.bias.perturbed(verdicts, attempts).iloc[0]
    assert row["estimate"] == 0
    assert (row["n_to_pass"], row["n_to_fail"], row["n_dropped"]) == (1, 1, 1)
    assert (row["n"], row["n_clusters"]) == (4, 3)
    # mid-p McNemar of 1 against 1 is .75, but the interval around 0 has no smaller p-value than 1
    assert row["p_value"] == pytest.approx(1.0)
    with pytest.raises(FrameError, match="no source_attempt_id; the first is '1\\+'"):
        sc.bias.perturbed(verdicts, attempts.assign(source_attempt_id=pd.NA))


def test_the_members_of_a_contrast_pair_are_one_cluster() -> None:
    plan = {"n_cases": 8, "contrast_pairs": 2, "graders": (FAIR,)}
    study = planted_study(2, **plan, agent_families=("family-a",))
    verdicts, attempts = with_copies(study, FAIR)
    for cases, clusters in ((None, 32), (study.cases, 24)):
        found = sc.bias.audit(verdicts, attempts, study.gold, cases=cases)
        assert pick(found, bias="hedging")["n_clusters"] == clusters
        pads = sc.bias.perturbed(verdicts, attempts, cases=cases).iloc[0]
        assert pads["n_clusters"] == clusters


def test_the_pilot_audit(pilot: sc.RunStore) -> None:
    verdicts = sc.frames.verdicts(pilot, perturbation="all")
    attempts = sc.frames.attempts(pilot, perturbation="all")
    copying = verdicts["check_id"].str.contains("no_verbatim_span")
    found = sc.bias.audit(
        verdicts[verdicts["grader"].isin(["g0", "g2"]) & ~copying],
        attempts,
        sc.frames.gold(pilot),
        by=["grader"],
        pairwise=sc.frames.pairwise(pilot),
    )
    assert found.loc[found["bias"].eq("model family"), "estimate"].isna().all()
    lenient = pick(found, grader="g0", bias="condition leniency", condition="skill",
                   stratum="gold fail")  # fmt: skip
    # within skills and without the verbatim behaviours nothing speaks for leniency to the skill
    assert lenient["ci_low"] < 0 < lenient["estimate"] < lenient["ci_high"]
    pads = sc.bias.perturbed(verdicts[~copying], attempts, by=["grader"]).set_index("grader")
    assert pads.loc["g0", ["n", "n_to_pass", "n_to_fail"]].tolist() == [293, 6, 1]
    assert pads.loc["g2", ["n", "n_to_pass", "n_to_fail"]].tolist() == [293, 4, 0]
    shown = sc.bias.position(sc.frames.pairwise(pilot)).set_index("measure")
    # 73 of 84 pairs keep their winner
    assert shown.loc["position_consistency", "estimate"] == pytest.approx(73 / 84)
    assert shown.loc["position_points", "estimate"] == pytest.approx(100 * (7 - 4) / 84)


@pytest.mark.parametrize("name", ["condition", "bias", "stratum"])
def test_an_audit_by_a_column_of_its_result_is_refused(name: str) -> None:
    verdicts, *rest = small({("a", "baseline"): [(True, True)], ("a", "skill"): [(True, True)]})
    with pytest.raises(FrameError, match=f"bias.audit: by= names '{name}', a column of the result"):
        sc.bias.audit(verdicts.assign(**{name: verdicts["condition"]}), *rest, by=["grader", name])
