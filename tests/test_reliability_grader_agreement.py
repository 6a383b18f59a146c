import numpy as np
import pandas as pd
import pytest
from build import gold, verdicts
from oracles.agreement_tables import gwet_ac1
from sklearn.metrics import f1_score, precision_score

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.reliability import agreement
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
    for labeller, available in (
        ("adjudicated", "adjudicated labels only"), (None, "labels without a labeller"),
        ("agreed", "settled labels only"), ("anna", "one labeller"),
    ):  # fmt: skip
        table = measures(verdicts([True] * 2), gold([True, False], labeller=labeller))
        note = table.loc["ceiling_raw_agreement", "note"]
        assert f"the gold frame holds {available}; frames.gold(store, labeller='all')" in note


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
