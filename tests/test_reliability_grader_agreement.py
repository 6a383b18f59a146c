import build
import krippendorff
import numpy as np
import pandas as pd
import pytest
from build import gold, verdicts
from oracles.agreement_tables import gwet_ac1
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, precision_score

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import agreement
from skillcomp.reliability.grader_agreement_and_consistency import COEFFICIENTS
from skillcomp.stats import bounded_mean

CEILINGS = ["ceiling_raw_agreement", "ceiling_gwet_ac1"]


def measures(rows: pd.DataFrame, labels: pd.DataFrame, **options: object) -> pd.DataFrame:
    how = {"n_resamples": 99, "quantities": ["all", *CEILINGS]} | options
    frame = agreement(rows, labels, **how)  # type: ignore[arg-type]
    return frame.set_index("measure")


# 20 pass both, 6 pass by the grader only, 2 by gold only, 12 fail both: n = 40
GRADER = [True] * 20 + [True] * 6 + [False] * 2 + [False] * 12
TRUTH = [True] * 20 + [False] * 6 + [True] * 2 + [False] * 12


def test_every_measure_is_that_of_the_counted_table() -> None:
    table = measures(verdicts(GRADER), gold(TRUTH))
    estimate = table["estimate"]
    assert estimate["sensitivity"] == pytest.approx(20 / 22)
    assert estimate["specificity"] == pytest.approx(12 / 18)
    assert estimate["gwet_ac1"] == pytest.approx(gwet_ac1([[20, 6], [2, 12]])[0])
    # alpha: 2 * 8 mixed pairs of 80 ratings, 48 PASS and 32 FAIL: 1 - 79 * 16 / (2 * 48 * 32)
    assert estimate["krippendorff_alpha"] == pytest.approx(1 - 79 * 16 / (2 * 48 * 32))
    assert estimate["precision"] == pytest.approx(precision_score(TRUTH, GRADER))
    assert estimate["f1"] == pytest.approx(f1_score(TRUTH, GRADER))
    # F1 is 2 J / (1 + J) for the share J of 20 in 28, so its limits are those of J
    jaccard = bounded_mean([1.0] * 20 + [0.0] * 8)
    limits = [2 * x / (1 + x) for x in (jaccard.low, jaccard.high)]
    assert table.loc["f1", ["ci_low", "ci_high"]].tolist() == pytest.approx(limits)
    nothing = measures(verdicts([False] * 8), gold([False] * 8))
    assert nothing.loc[["precision", "f1"], "estimate"].isna().all()
    assert "passes no labelled item" in nothing.loc["precision", "note"]


def test_there_are_four_measures_unless_more_are_asked_for() -> None:
    rows, labels = verdicts(GRADER), gold(TRUTH)
    four = agreement(rows, labels, n_resamples=99).set_index("measure")
    assert four.index.tolist() == ["raw_agreement", "cohen_kappa", "false_passes", "false_fails"]
    # pe = (26 * 22 + 14 * 18) / 1600 = 0.515; kappa = (0.8 - 0.515) / 0.485
    assert four["estimate"].tolist() == pytest.approx([0.8, (0.8 - 0.515) / 0.485, 6 / 18, 2 / 22])
    assert four["n"].tolist() == [40, 40, 18, 22]
    assert four["unit"].tolist() == ["rate", "coefficient", "rate", "rate"]
    every = agreement(rows, labels, quantities="all", n_resamples=99).set_index("measure")
    assert not every.index.str.startswith("ceiling").any()  # there is one labeller
    assert every["estimate"].notna().all()
    columns = ["ci_low", "ci_high"]
    mirrored = 1 - every.loc["specificity", columns[::-1]].to_numpy(dtype=float)
    assert four.loc["false_passes", columns].to_numpy(dtype=float) == pytest.approx(mirrored)
    counts = agreement(rows, labels, quantities="confusion")
    assert counts["estimate"].tolist() == [20, 6, 2, 12]
    assert set(counts["unit"]) == {"count"} and counts["ci_low"].isna().all()
    with pytest.raises(FrameError, match=r"quantities: found 'kappa'.*Did you mean"):
        agreement(rows, labels, quantities="kappa")


def test_too_wide_an_interval_says_how_many_labels_it_needs() -> None:
    rng = np.random.default_rng(3)

    def rows(n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        truth = rng.random(n) < 0.6
        right = rng.random(n) < 0.85
        return verdicts(list(truth == right)), gold(list(truth))

    few = agreement(*rows(25), n_resamples=999).set_index("measure").loc["cohen_kappa"]
    assert few["ci_high"] - few["ci_low"] > 0.4
    wide, narrow = few[["n_for_half_width_20", "n_for_half_width_10"]]
    assert 25 < wide < 100 and narrow == pytest.approx(4 * wide, abs=4)
    assert f"about {wide:,.0f} labels would bring it to .2, and {narrow:,.0f} to .1" in few["note"]
    many = agreement(*rows(int(narrow)), n_resamples=999).set_index("measure").loc["cohen_kappa"]
    assert (many["ci_high"] - many["ci_low"]) / 2 < 0.12
    assert "would bring it" not in many["note"]
    errors = agreement(*rows(25), quantities="false_passes").iloc[0]
    assert "gold fails would bring it to 20 points" in errors["note"]


def test_checks_of_a_case_widen_the_interval_because_the_case_is_the_unit() -> None:
    # every case has five checks that are right or wrong together: 20 cases, 4 wrong
    grader, truth = [True] * 100, [True] * 80 + [False] * 20
    together = measures(verdicts(grader, checks=5), gold(truth, checks=5), n_resamples=1999)
    apart = measures(verdicts(grader), gold(truth), n_resamples=1999)
    for name in ("raw_agreement", "gwet_ac1", "specificity"):
        wide, narrow = (f.loc[name, "ci_high"] - f.loc[name, "ci_low"] for f in (together, apart))
        assert wide > 1.5 * narrow, name
    assert together.loc["raw_agreement", ["n", "n_clusters"]].tolist() == [100, 20]


def test_a_failed_grader_is_left_out_and_never_counted_as_a_fail() -> None:
    grader = [True] * 10 + [None] * 4 + [False] * 6
    table = measures(verdicts(grader), gold([True] * 14 + [False] * 6))
    assert table.loc["sensitivity", ["estimate", "n"]].tolist() == [1, 10]
    assert "4 labels without a verdict left out" in table.loc["sensitivity", "note"]
    assert table.loc["failure_share", "estimate"] == pytest.approx(4 / 20)
    assert table.loc["failure_share", "note"] == "4 malformed"
    assert set(table["n_failed"]) == {4}


def test_undefined_coefficients_are_nan_with_a_note() -> None:
    table = measures(verdicts([True] * 6), gold([True] * 6))
    for name in ("cohen_kappa", "krippendorff_alpha", "specificity", "ceiling_gwet_ac1"):
        assert np.isnan(table.loc[name, "estimate"]) and table.loc[name, "note"], name
    assert "no gold label fails" in table.loc["specificity", "note"]
    none = measures(verdicts([True]), gold([True]).assign(attempt_id="elsewhere"))
    shares = none[none["unit"].ne("count")].drop("failure_share")
    assert shares["estimate"].isna().all() and shares["note"].ne("").all()
    assert "1 gold label without a verdict of this grader" in none.loc["gwet_ac1", "note"]


def test_the_ceiling_is_the_agreement_of_the_labellers_on_the_same_items() -> None:
    truth = [True] * 15 + [False] * 15
    sheets = {"adjudicated": truth, "first": truth, "second": [False] * 3 + truth[3:]}
    labels = pd.concat([gold(passed, labeller=name) for name, passed in sheets.items()])
    table = measures(verdicts(truth), labels)
    assert table.loc["ceiling_raw_agreement", "estimate"] == pytest.approx(27 / 30)
    assert table.loc["raw_agreement", "ceiling"] == pytest.approx(27 / 30)
    assert table.loc["raw_agreement", "estimate"] == 1.0
    assert "between first and second" in table.loc["ceiling_raw_agreement", "note"]
    assert measures(verdicts(truth)[:10], labels).loc["ceiling_raw_agreement", "n"] == 10


def test_the_ceiling_is_that_of_the_items_that_count_or_there_is_none() -> None:
    # two labellers agree on 70 of 100 items; 5 of the 30 disputes are adjudicated
    truth = [True] * 100
    other = [True] * 70 + [False] * 30
    sheets = [gold(truth, labeller="ann"), gold(other, labeller="ben")]
    sheets.append(gold(truth, labeller="adjudicated").iloc[70:75])
    table = measures(verdicts(truth), pd.concat(sheets))
    ceiling = table.loc["ceiling_raw_agreement"]
    assert (ceiling["estimate"], ceiling["n"]) == (pytest.approx(70 / 75), 75)
    assert table.loc["raw_agreement", "n"] == 75
    # a grader without a verdict on 10 of the items
    failed = measures(verdicts([None] * 10 + truth[10:]), pd.concat(sheets))
    assert failed.loc[["raw_agreement", "ceiling_raw_agreement"], "n"].tolist() == [65, 65]
    # ben labelled only 20 of the items
    sheets[1] = sheets[1].iloc[:20]
    table_of = measures(verdicts(truth), pd.concat(sheets))
    assert table_of["ceiling"].isna().all()
    note = table_of.loc["ceiling_raw_agreement", "note"]
    assert note.startswith("no ceiling: 20 of the 100 items with a verdict and gold have")


def test_the_note_says_why_there_is_no_ceiling() -> None:
    for labeller in ("adjudicated", None, "agreed", "anna"):
        table = measures(verdicts([True] * 2), gold([True, False], labeller=labeller))
        note = table.loc["ceiling_raw_agreement", "note"]
        assert "names fewer than two labellers; frames.gold(store, labeller='all')" in note


@pytest.mark.parametrize(
    ("name", "other"), [("grader", "h"), ("grader_version", "2"), ("round", 2)]
)
def test_graders_versions_and_rounds_are_never_pooled(name: str, other: object) -> None:
    rows = verdicts([True] * 4, grader_version="1", round=1)
    rows = pd.concat([rows, rows.assign(**{name: other})])
    with pytest.raises(FrameError, match=f"more than one {name}") as refused:
        agreement(rows, gold([True] * 4), by=[])
    assert "average=" not in str(refused.value)
    assert measures(rows, gold([True] * 4), by=name)[name].nunique() == 2


def test_unequal_chances_of_being_labelled_are_noted() -> None:
    labels = gold([True, False] * 6).assign(inclusion_probability=[0.5] * 6 + [0.25] * 6)
    table = measures(verdicts([True, False] * 6), labels)
    assert "drawn with unequal probabilities" in table.loc["sensitivity", "note"]


def test_the_pilot_graders_rank_as_recorded(pilot: sc.RunStore) -> None:
    labels = sc.frames.gold(pilot, labeller="all")
    how = {"quantities": "all", "n_resamples": 99}
    frame = agreement(sc.frames.verdicts(pilot), labels, by="grader", **how)  # type: ignore[arg-type]
    table = frame.pivot(index="measure", columns="grader", values="estimate")
    assert table.loc["specificity"].round(3).to_dict() == {"g0": 0.72, "g1": 0.891, "g2": 0.971}
    assert table.loc["sensitivity"].round(3).to_dict() == {"g0": 0.997, "g1": 0.998, "g2": 0.992}
    assert table.loc["ceiling_raw_agreement"].round(4).unique().tolist() == [0.9878]
    assert (table.loc["failure_share"] == 0).all()


def test_limits_depend_neither_on_the_names_nor_on_the_order_of_the_cases() -> None:
    rows, labels = verdicts([True] * 24 + [False] * 16), gold([True] * 18 + [False] * 22)
    names = rows["case_id"].unique()
    new = dict(zip(names, np.random.default_rng(1).permutation(names), strict=True))
    renamed = rows.assign(case_id=rows["case_id"].map(new))
    columns = ["estimate", "ci_low", "ci_high", "se"]
    first, second = (measures(frame, labels)[columns] for frame in (rows, renamed))
    pd.testing.assert_frame_equal(first, second)
    pd.testing.assert_frame_equal(
        first, measures(rows.sample(frac=1, random_state=2), labels)[columns]
    )


def test_missing_verdicts_bound_every_measure() -> None:
    grader = [True] * 10 + [None] * 4 + [False] * 8 + [None] * 2 + [True]
    truth = [True] * 14 + [False] * 11
    table = measures(verdicts(grader), gold(truth))
    completions = [
        measures(verdicts([True] * (10 + k) + [False] * (12 - k) + [True] * j + [False] * (2 - j)
                          + [True]), gold(truth), n_resamples=1)["estimate"]
        for k in (0, 2, 4) for j in (0, 2)
    ]  # fmt: skip
    extremes = pd.concat(completions, axis=1).agg(["min", "max"], axis=1)
    names = ["raw_agreement", "gwet_ac1", "cohen_kappa", "krippendorff_alpha"]
    for name in [*names, "sensitivity", "false_fails", "false_passes", "precision", "f1"]:
        ends = table.loc[name, ["worst_low", "worst_high"]].tolist()
        assert ends == pytest.approx(extremes.loc[name].tolist()), name
    assert table["n_missing"][[*names, "sensitivity", "specificity"]].tolist() == [6] * 4 + [4, 2]
    note = table.loc["gwet_ac1", "note"]
    assert "6 labels without a verdict left out; verdicts missing: 6 malformed; in the wor" in note
    none = measures(verdicts([True, False] * 10), gold([True, False] * 9 + [False, True]))
    rates = none.loc[names]
    assert rates["worst_low"].to_numpy() == pytest.approx(rates["estimate"].to_numpy())


def test_agents_and_the_same_tasks_of_several_skills_are_never_pooled_as_independent() -> None:
    rows, labels = verdicts([True, False] * 10), gold([True, False] * 8 + [False, True] * 2)
    first, gold_a = (f.assign(attempt_id=f["attempt_id"] + "a") for f in (rows, labels))
    second, gold_b = (f.assign(attempt_id=f["attempt_id"] + "b") for f in (rows, labels))
    both, every = pd.concat([first, second]), pd.concat([gold_a, gold_b])
    agents = both.assign(agent=both["attempt_id"].str[-1])
    with pytest.raises(FrameError, match=r"more than one agent: a, b.*average=\['agent'\]"):
        measures(agents, every)
    assert measures(agents, every, by=["grader", "agent"])["agent"].nunique() == 2
    together = measures(agents, every, average=["agent"]).loc["raw_agreement"]
    assert together[["n", "n_clusters"]].tolist() == [40, 20]
    assert "2 agents together" in together["note"]
    skills = both.assign(skill=both["attempt_id"].str[-1], rationale=both["attempt_id"])
    cases = skills[["skill", "case_id"]].drop_duplicates()
    same = measures(skills, every, cases=cases.assign(task=cases["case_id"])).loc["sensitivity"]
    assert same["n_clusters"] == 10
    with pytest.raises(FrameError, match="skills 'a' and 'b' both have a case"):
        measures(skills, every)


def judges(marks: dict[str, list], **columns: object) -> pd.DataFrame:
    """Verdicts, or scores, of several graders on the same answers."""
    scores = any(isinstance(x, float) for values in marks.values() for x in values)
    parts = [
        build.verdicts([None] * len(values) if scores else values, grader=name)
        .assign(status="ok", score=values if scores else None)
        for name, values in marks.items()
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).assign(**columns)


def marks_of(n: int, raters: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip((3 + rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, raters))).round(), 1, 5)


def test_scores_agree_with_gold_in_difference_correlation_and_concordance() -> None:
    people, judge = marks_of(40, 2).T
    rows = judges({"judge": judge.tolist()})
    known = build.gold([True] * 40).assign(score=people, passed=None)
    how = {"value": "score", "bounds": (1, 5)}
    found = agreement(rows, known, **how).set_index("measure")
    d = judge - people
    expected = {
        "score_difference": d.mean(),
        "absolute_error": abs(d).mean(),
        "pearson": np.corrcoef(judge, people)[0, 1],
        "spearman": spearmanr(judge, people).statistic,
        # Lin 1989: 2 s_xy / (s_x^2 + s_y^2 + (x - y)^2)
        "concordance": 2 * np.cov(judge, people, bias=True)[0, 1]
        / (judge.var() + people.var() + d.mean() ** 2),
        "krippendorff_alpha": krippendorff.alpha([judge, people], level_of_measurement="interval"),
    }  # fmt: skip
    assert found["estimate"].to_dict() == pytest.approx(expected)
    assert (found["ci_low"] < found["estimate"]).all() and found["n"].eq(40).all()
    assert found["unit"].tolist() == ["score"] * 2 + ["coefficient"] * 4
    assert found.loc["score_difference", "rate"] == pytest.approx(judge.mean())
    assert found["reference"].eq("gold").all() and found["reference_rate"].count() == 1
    # the mean of two labellers is gold, an adjudicated score comes before it
    two = [known.assign(score=np.clip(people + k, 1, 5), labeller=f"l{k}") for k in (0, 1)]
    settled = known.head(1).assign(score=1.0)
    three = agreement(rows, pd.concat([*two, settled]), **how).set_index("measure")
    mean = np.append(1.0, np.mean([part["score"] for part in two], axis=0)[1:])
    assert three.loc["score_difference", "estimate"] == pytest.approx((judge - mean).mean())
    note = three.loc["score_difference", "note"]
    assert "1 label adjudicated, 39 by the mean of labellers" in note
    with pytest.raises(FrameError, match="quantities: found 'cohen_kappa'"):
        agreement(rows, known, quantities="cohen_kappa", **how)
    with pytest.raises(FrameError, match="needs a gold frame with verdicts"):
        agreement(rows, known, gold_drawn="verdict", **how)
    none = agreement(rows.assign(score=np.nan), known, **how)
    assert none["estimate"].isna().all() and none["note"].str.startswith("no item has both").all()


def test_without_gold_graders_and_rounds_are_compared_in_pairs_and_together() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random(60) < 0.6
    wrong = {"a": 0.1, "b": 0.2, "c": 0.3}
    verdicts = {name: (truth ^ (rng.random(60) < p)).tolist() for name, p in wrong.items()}
    rows = judges(verdicts)
    found = agreement(rows)
    table = pd.DataFrame(verdicts).astype(float)
    assert found[["reference", "grader"]].drop_duplicates().fillna("").to_numpy().tolist() == [
        ["a", "b"], ["a", "c"], ["b", "c"], ["", ""]]  # fmt: skip
    of_all = found[found["grader"].isna()].set_index("measure")
    every = krippendorff.alpha(table.T.to_numpy(), level_of_measurement="nominal")
    assert of_all.loc["krippendorff_alpha", "estimate"] == pytest.approx(every)
    assert "kappa compares two raters" in of_all.loc["cohen_kappa", "note"]
    pair = found[found["grader"].eq("c") & found["reference"].eq("b")].set_index("measure")
    assert pair.loc["raw_agreement", "estimate"] == (table["b"] == table["c"]).mean()
    known = build.gold(verdicts["b"])
    against = agreement(rows[rows["grader"].eq("c")], known, quantities=list(COEFFICIENTS))
    numbers = ["estimate", "ci_low", "ci_high"]
    assert pair.loc[against["measure"], numbers].to_numpy() == pytest.approx(
        against[numbers].to_numpy()
    )
    # rounds of one grader, of unequal length and with a missing verdict
    rounds = pd.concat([rows[rows["grader"].eq("a")].assign(round=1),
                        rows[rows["grader"].eq("b")].head(50).assign(round=2)])  # fmt: skip
    rounds = rounds.assign(
        grader="judge", passed=rounds["passed"].mask(rounds["case_id"].eq("s/0"))
    )
    again = agreement(rounds, quantities="raw_agreement").iloc[0]
    assert (again["reference"], again["grader"], again["n"]) == (
        "judge round 1",
        "judge round 2",
        49,
    )
    assert "10 items without a value of each" in again["note"]
    with pytest.raises(
        FrameError, match=r"only one grader\. Give gold, or the verdicts of a second"
    ):
        agreement(rows[rows["grader"].eq("a")])
    with pytest.raises(FrameError, match="needs a gold frame with verdicts"):
        agreement(rows, gold_drawn="verdict")


def test_without_gold_scores_of_several_graders_have_an_alpha() -> None:
    marks = marks_of(30, 3)
    rows = judges({name: column.tolist() for name, column in zip("abc", marks.T, strict=True)})
    found = agreement(rows, value="score", bounds=(1, 5))
    of_all = found[found["grader"].isna()]
    assert of_all["measure"].tolist() == ["krippendorff_alpha"]
    expected = krippendorff.alpha(marks.T, level_of_measurement="interval")
    assert of_all["estimate"].iloc[0] == pytest.approx(expected)
    pair = found[found["grader"].eq("b")].set_index("measure")
    assert pair.loc["score_difference", "estimate"] == pytest.approx(
        (marks[:, 1] - marks[:, 0]).mean()
    )


def test_a_majority_leaves_out_the_grader_under_test_and_counts_ties() -> None:
    a, b, c = [True, True, False, None], [True, False, False, True], [True, True, True, True]
    rows = judges({"a": a, "b": b, "c": c})
    found = agreement(rows, "majority", quantities=["raw_agreement", "confusion"])
    table = found.set_index(["grader", "measure"])
    # of b and c: T, tie, tie, T; of a and c: T, T, tie, T; of a and b: T, tie, F, T
    agreed = {
        name: table.loc[(name, "raw_agreement"), ["estimate", "n"]].tolist() for name in "abc"
    }
    assert agreed == {"a": [1, 1], "b": [pytest.approx(2 / 3), 3], "c": [pytest.approx(2 / 3), 3]}
    note = table.loc[("a", "raw_agreement"), "note"]
    assert "2 labels by a majority of the 2 other graders, 2 disputed and left out" in note
    assert "errors that the graders share look like truth" in note
    assert table.loc[("a", "raw_agreement"), "n_missing"] == 1
    # five judges of whom one errs in other places than the rest
    rng = np.random.default_rng(0)
    truth = rng.random(200) < 0.5
    five = {str(k): (truth ^ (rng.random(200) < (0.4 if k == 4 else 0.02))).tolist()
            for k in range(5)}  # fmt: skip
    votes = np.array([five[str(k)] for k in range(4)]).sum(axis=0)
    clear = votes != 2
    raw = agreement(judges(five), "majority", quantities="raw_agreement").set_index("grader")
    assert raw.loc["4", "estimate"] == (np.array(five["4"]) == (votes > 2))[clear].mean()
    with pytest.raises(FrameError, match="needs three or more graders; there: a, b"):
        agreement(rows[rows["grader"].ne("c")], "majority")
    with pytest.raises(FrameError, match="gold: found 'most'"):
        agreement(rows, "most")
    scores = judges({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 5.0]})
    found = agreement(scores, "majority", value="score", bounds=(1, 5)).set_index(
        ["grader", "measure"]
    )
    assert found.loc[("a", "score_difference"), "estimate"] == pytest.approx(1.5 - 4.25)
