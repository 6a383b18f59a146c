"""Whether skills fire when they should: counted by hand, by sklearn, by properties, by coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from sklearn.metrics import precision_recall_fscore_support

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.records import Attempt
from skillcomp.stats import bounded_mean


def fired(
    should: Any, invoked: Any, *, case: Any = None, offered: Any = "tea", skill: Any = "tea"
) -> pd.DataFrame:
    """One attempt a row, each on its own prompt unless cases are named."""
    n = len(invoked)
    frame = pd.DataFrame({"attempt_id": [f"a{i}" for i in range(n)], "skill": skill})
    return frame.assign(
        case_id=[f"tea/{i}" for i in range(n)] if case is None else case,
        condition="skill",
        offered=offered,
        invoked=pd.array(list(invoked), dtype="boolean"),
        should_invoke=pd.array(list(should), dtype="boolean"),
    )


def pick(found: pd.DataFrame, measure: str, kind: str = "all") -> pd.Series:
    rows = found[found["measure"].eq(measure) & found["kind"].eq(kind)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_precision_recall_specificity_and_f1_as_counted_by_hand() -> None:
    # fires at 3 of 4 that should and 1 of 2 that should not: 3/4, 1/2, 3/(3+1), 6/(6+1+1)
    rows = fired([1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 1, 0])
    found = sc.triggers.detection(rows)
    values = found.set_index("measure")["estimate"].to_dict()
    assert values == pytest.approx(
        {"recall": 3 / 4, "specificity": 1 / 2, "precision": 3 / 4, "f1": 6 / 8, "exact": 4 / 6}
    )
    counts = found.set_index("measure")[["n_right", "n_asked"]].apply(tuple, axis=1).to_dict()
    assert counts["precision"] == (3, 4) and counts["f1"] == (6, 8) and counts["exact"] == (4, 6)
    assert found["unit"].eq("rate").all()


DECISIONS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25)


@given(DECISIONS)
@settings(max_examples=10, deadline=None)
def test_estimates_are_those_of_sklearn_and_limits_hold_them(rows: list[tuple[bool, bool]]) -> None:
    should, did = zip(*rows, strict=True)
    found = sc.triggers.detection(fired(should, did)).set_index("measure")
    precision, recall, f1, _ = precision_recall_fscore_support(
        should, did, average="binary", zero_division=np.nan
    )
    expected = {"precision": precision, "recall": recall, "f1": f1}
    for name, value in expected.items():
        assert found.loc[name, "estimate"] == pytest.approx(value, nan_ok=True)
    known = found[found["estimate"].notna()]
    assert (known["ci_low"] <= known["estimate"]).all()
    assert (known["estimate"] <= known["ci_high"]).all()
    assert (known["ci_high"] - known["ci_low"] > 0.01).all()
    assert known[["ci_low", "ci_high"]].stack().between(0, 1).all()
    assert found.loc[found["estimate"].isna(), "note"].ne("").all()


def test_all_right_is_called_a_ceiling_and_has_the_limit_of_fourteen_ones() -> None:
    found = sc.triggers.detection(fired([1] * 14, [1] * 14))
    for name in ("recall", "precision", "f1", "exact"):
        one = pick(found, name)
        assert (one["estimate"], one["ci_high"]) == (1, 1)
        assert one["ci_low"] == pytest.approx(0.79764, abs=1e-5)  # STATISTICS, section F, c = 3/4
        assert "a ceiling" in one["note"]
    assert np.isnan(pick(found, "specificity")["estimate"])
    assert "a floor" in pick(sc.triggers.detection(fired([1, 1], [0, 0])), "recall")["note"]


def test_unknown_invocations_are_counted_and_precision_is_unknown_where_nothing_fired() -> None:
    found = sc.triggers.detection(fired([1, 1, 0], [0, 0, 0])).set_index("measure")
    assert found.loc[["recall", "f1", "precision"], "estimate"].fillna(-1).tolist() == [0, 0, -1]
    assert found.loc["precision", "note"] == "nothing fired"
    found = sc.triggers.detection(fired([1, 1, 0], [True, None, False])).set_index("measure")
    assert found.loc["recall", ["estimate", "n", "n_missing"]].tolist() == [1, 1, 1]
    assert found.loc["precision", "n_missing"] == 1


def test_precision_is_the_ratio_of_sums_over_clusters() -> None:
    # a prompt asked three times fired 3, 1 and 2 times of 3; the middle one should not
    case = np.repeat(["x", "y", "z"], 3)
    rows = fired([1] * 3 + [0] * 3 + [1] * 3, [1, 1, 1, 1, 0, 0, 1, 1, 0], case=case)
    one = pick(sc.triggers.detection(rows), "precision")
    direct = bounded_mean([1, 0, 1], [0, 1, 2], weights=[1, 1 / 3, 2 / 3])
    assert one["estimate"] == pytest.approx(5 / 6)
    assert [one["ci_low"], one["ci_high"]] == pytest.approx([direct.low, direct.high])


CASES = pd.DataFrame(
    {
        "skill": ["tea", "tea", "tea", "coffee"],
        "case_id": ["tea/1", "tea/2", "tea/3", "coffee/1"],
        "should_trigger": [True, True, False, True],
        "prompt_kind": ["explicit", "implicit", "negative", "implicit"],
    }
)


def two_skills() -> pd.DataFrame:
    """Tea fires at all its prompts, even at the negative one, and at coffee's."""
    rows = CASES.merge(pd.DataFrame({"offered": ["tea", "coffee"]}), how="cross")
    invoked = rows["offered"].eq("tea") | rows["skill"].eq("coffee")
    ids = rows["case_id"] + "#1"
    return rows[["skill", "case_id", "offered"]].assign(
        attempt_id=ids, condition="skill", invoked=invoked
    )


def test_kinds_come_from_the_cases_and_prompts_of_other_suites_stand_apart() -> None:
    rows = two_skills()
    rows["should_invoke"] = rows["offered"].eq(rows["skill"]) & rows["case_id"].ne("tea/3")
    found = sc.triggers.detection(rows, CASES, by=["offered"])
    tea = found[found["offered"].eq("tea")]
    assert pick(tea, "recall", "explicit")["n"] == pick(tea, "recall", "implicit")["n"] == 1
    assert pick(tea, "specificity", "negative")["estimate"] == 0
    assert pick(tea, "specificity", "other")["n"] == 1
    assert pick(tea, "precision")["estimate"] == pytest.approx(2 / 4)
    assert "exact" not in set(found["measure"])


def test_without_right_skills_only_the_suites_own_skill_is_judged() -> None:
    found = sc.triggers.detection(two_skills(), CASES, by=["offered"])
    tea = found[found["offered"].eq("tea")]
    assert pick(tea, "specificity")["n"] == 1 and pick(tea, "precision")["n_asked"] == 3
    with pytest.raises(FrameError, match="of no prompt is it known"):
        sc.triggers.detection(two_skills())


def test_exact_sets_are_not_judged_by_the_wrong_ones_alone() -> None:
    # as the source's prompts.csv gives it: of the neighbour nobody knows whether it should fire
    rows = pd.DataFrame(
        {
            "attempt_id": [f"a{i}" for i in range(10) for _ in "xy"],
            "skill": "tides",
            "case_id": [f"tides/{i}" for i in range(10) for _ in "xy"],
            "condition": "skill",
            "offered": ["tides", "ebbs"] * 10,
            "invoked": [i > 0 and own for i in range(10) for own in (True, False)],
            "should_invoke": [True, None] * 10,
        }
    )
    found = sc.triggers.detection(rows)
    assert pick(found, "recall")["estimate"] == pytest.approx(0.9)
    exact = pick(found, "exact")
    assert np.isnan(exact["estimate"]) and exact["n_missing"] == 10
    assert "is it known of every skill on offer" in exact["note"]
    known = sc.triggers.detection(rows.assign(should_invoke=[True, False] * 10))
    assert pick(known, "exact")["estimate"] == pytest.approx(0.9)


def test_controls_count_for_no_measure_and_a_dead_instrument_reports_none() -> None:
    control = pd.DataFrame(
        {
            "skill": ["tea", "coffee", "tea"],
            "case_id": ["control-tea/a", "control-coffee/a", "control-tea/b"],
            "suite": "controls",
            "should_trigger": [True, True, False],
            "prompt_kind": "control",
        }
    )
    cases = pd.concat([CASES, control], ignore_index=True)
    calls = control.merge(pd.DataFrame({"offered": ["tea", "coffee"]}), how="cross")
    own = calls["offered"].eq(calls["skill"]) & calls["should_trigger"]
    calls = calls.assign(attempt_id=calls["case_id"], condition="skill", should_invoke=own)
    calls["invoked"] = calls["offered"].eq("tea") & ~calls["should_trigger"]
    calls.loc[own & calls["offered"].eq("coffee"), "invoked"] = True
    kept = ["attempt_id", "skill", "case_id", "condition", "offered", "invoked", "should_invoke"]
    rows = pd.concat([two_skills(), calls[kept]], ignore_index=True)
    rows["should_invoke"] = rows["offered"].eq(rows["skill"]) & ~rows["case_id"].isin(
        ["tea/3", "control-tea/b"]
    )
    controls = sc.triggers.controls(rows, cases)
    keys = ["condition", "offered"]
    merged = rows.merge(controls[[*keys, "dead"]], on=keys, how="left")
    plain, again = (sc.triggers.detection(frame, cases) for frame in (rows, merged))
    pd.testing.assert_frame_equal(plain, again)
    controls = controls.set_index("offered")
    assert controls["dead"].to_dict() == {"tea": True, "coffee": False}
    assert controls["n_false_alarms"].to_dict() == {"tea": 1, "coffee": 0}
    found = sc.triggers.detection(rows, cases, by=["offered"])
    tea, coffee = (found[found["offered"].eq(name)] for name in ("tea", "coffee"))
    assert tea["estimate"].isna().all() and tea["note"].str.contains("dead for tea").all()
    called = rows.assign(invoked=rows["invoked"] | rows["case_id"].eq("control-tea/a"))
    warned = sc.triggers.detection(called, cases, by=["offered"]).set_index("offered")
    alarm = "tea fired at a prompt that no skill should answer"  # as at any prompt
    assert warned.loc["tea", "note"].str.contains(alarm).all()
    assert warned.loc["tea", "estimate"].notna().any()
    assert not warned.loc["coffee", "note"].str.contains("no skill should").any()
    plain = sc.triggers.detection(two_skills().merge(rows), CASES, by=["offered"])
    plain = plain[plain["offered"].eq("coffee")]
    assert coffee["estimate"].tolist() == pytest.approx(plain["estimate"].tolist(), nan_ok=True)
    # prompts that should fire tea are left out, since it is not known what fired
    assert "tea" not in set(sc.triggers.confusion(rows, cases)["expected"])
    unknown = rows.assign(invoked=rows["invoked"].mask(rows["case_id"].eq("control-tea/a")))
    assert sc.triggers.controls(unknown, cases).set_index("offered")["dead"].isna()["tea"]
    assert sc.triggers.controls(two_skills(), CASES).empty


def test_confusion_says_which_other_skill_fired() -> None:
    rows = two_skills()
    rows["should_invoke"] = rows["offered"].eq(rows["skill"]) & rows["case_id"].ne("tea/3")
    found = sc.triggers.confusion(rows, CASES).set_index(["expected", "fired"])
    assert found["estimate"].to_dict() == {
        ("coffee", "coffee"): 1,
        ("coffee", "tea"): 1,
        ("none", "tea"): 1,
        ("tea", "tea"): 1,
    }
    assert found.loc[("tea", "tea"), "n"] == 2
    unknown = sc.triggers.confusion(two_skills(), CASES)
    assert set(unknown["expected"]) == {"tea", "coffee", "not tea"}
    silent = sc.triggers.confusion(fired([1, 1], [0, 1]))
    assert silent.set_index("fired")["estimate"].to_dict() == {"none": 0.5, "tea": 0.5}


def test_compare_pairs_prompts_and_swapping_descriptions_flips_the_sign() -> None:
    old = fired([1, 1, 1, 0], [1, 1, 1, 0]).assign(condition="precise")
    new = fired([1, 1, 1, 0], [1, 0, 0, 1]).assign(condition="vague")
    new["attempt_id"] = "v" + new["attempt_id"]
    both = pd.concat([old, new.iloc[:3]], ignore_index=True)
    there = sc.triggers.compare(both, reference="precise")
    back = sc.triggers.compare(both, reference="vague")
    recall = pick(there, "delta_recall")
    assert recall["estimate"] == pytest.approx(-2 / 3) and recall["n"] == 3
    assert pick(there, "delta_specificity")["n_dropped"] == 1
    assert np.isnan(pick(there, "delta_specificity")["estimate"])
    assert pick(there, "delta_exact")["estimate"] == pytest.approx(-2 / 3)
    assert there["estimate"].tolist() == pytest.approx((-back["estimate"]).tolist(), nan_ok=True)
    assert there["ci_low"].tolist() == pytest.approx((-back["ci_high"]).tolist(), nan_ok=True)
    direct = ttest_1samp([0, -1, -1], 0)
    assert recall["p_value"] == recall["p_adjusted"] == pytest.approx(direct.pvalue)


def verdict_rows() -> pd.DataFrame:
    checks = {"exit": "outcome", "files": "outcome", "loops": "efficiency"}
    passed = {"a0": [1, 1, 0], "a1": [1, 0, 1], "a2": [1, None, 1]}
    return pd.DataFrame(
        [
            {"attempt_id": a, "skill": "tea", "case_id": f"tea/{a}", "condition": "skill"}
            | {"check_id": c, "goal": goal, "grader": "rules", "passed": value}
            | {"status": "ok" if value is not None else "error"}
            for a, values in passed.items()
            for (c, goal), value in zip(checks.items(), values, strict=True)
        ]
    )


def test_a_goal_is_met_when_every_check_of_it_passed() -> None:
    found = sc.triggers.goals(verdict_rows()).set_index("goal")
    assert list(found.index) == ["outcome", "efficiency"]
    assert found.loc["outcome", ["estimate", "n", "n_missing"]].tolist() == [0.5, 2, 1]
    assert found.loc["efficiency", "estimate"] == pytest.approx(2 / 3)
    twins = pd.DataFrame({"skill": "tea", "case_id": [f"tea/a{i}" for i in range(3)]}).assign(
        contrast_of=["tea/a1", None, None]
    )
    paired = sc.triggers.goals(verdict_rows(), twins).set_index("goal")
    assert paired.loc["efficiency", "n_clusters"] == 2
    with pytest.raises(FrameError, match="no verdict has a goal"):
        sc.triggers.goals(verdict_rows().assign(goal=None))


def test_the_reader_gives_a_row_for_each_skill_on_offer(tmp_path: Any) -> None:
    store = sc.RunStore(tmp_path / "study")
    about: dict[str, Any] = {"skill": "tea", "condition": "skill", "offered": ("tea", "coffee")}
    store.append(
        "attempts",
        [
            Attempt(attempt_id="1", case_id="tea/1", invoked=("tea",), **about),
            Attempt(attempt_id="2", case_id="tea/2", invoked=("tea",), status="timeout", **about),
            Attempt(attempt_id="3", case_id="tea/3", **about),
            Attempt(attempt_id="4", case_id="tea/4", skill="tea", condition="baseline"),
            Attempt(attempt_id="5", case_id="tea/5", invoked=("milk",), **about),
        ],
    )
    suite = tmp_path / "tea.json"
    suite.write_text(
        '{"skill_name": "tea", "evals": [{"id": 1, "prompt": "Use $tea.", "should_trigger": true},'
        '{"id": 2, "prompt": "$teapot?", "should_trigger": true, "right_skills": ["coffee"]},'
        '{"id": 3, "prompt": "Brew.", "should_trigger": true, "prompt_kind": "explicit"},'
        '{"id": 4, "prompt": "No.", "should_trigger": false, "prompt_kind": "odd"},'
        '{"id": 5, "prompt": "No."}]}'
    )
    assert "prompt_kind: found 'odd'" in " ".join(store.add_suite(suite).problems)
    kinds = sc.frames.cases(store)["prompt_kind"]
    assert kinds.fillna("?").tolist() == ["explicit", "implicit", "explicit", "negative", "?"]
    found = sc.frames.invocations(store).set_index(["attempt_id", "offered"])
    text = found[["invoked", "should_invoke"]].astype("object").where(found.notna(), None)
    assert text.apply(tuple, axis=1).to_dict() == {
        ("1", "tea"): (True, True),
        ("1", "coffee"): (False, None),
        ("2", "tea"): (True, False),
        ("2", "coffee"): (None, True),  # it was stopped before it could
        ("3", "tea"): (None, True),
        ("3", "coffee"): (None, None),
        ("5", "tea"): (False, None),
        ("5", "coffee"): (False, None),
        ("5", "milk"): (True, None),
    }


def test_what_cannot_be_analysed_is_refused_by_name() -> None:
    rows = fired([1, 0], [1, 0])
    with pytest.raises(FrameError, match="more than one agent"):
        sc.triggers.detection(rows.assign(agent=["x", "y"]))
    with pytest.raises(FrameError, match="reference: found 'presice'"):
        sc.triggers.compare(rows.assign(condition="precise"), reference="presice")
    with pytest.raises(FrameError, match="names 'offered'"):
        sc.triggers.confusion(rows, by=["offered"])
    with pytest.raises(FrameError, match="by= names 'kind', which is a column of the result"):
        sc.triggers.confusion(rows.assign(kind="x"), by=["kind"])
    for empty in (sc.triggers.detection, sc.triggers.confusion):
        assert len(empty(sc.frames.empty("invocations"))) == 0 or empty is sc.triggers.detection


# n prompts that should and should not fire, repeats, mean rates of firing, spread between prompts
DESIGNS = {
    "as recorded": (9, 5, 3, 0.9, 0.15, 0.3),
    "near a ceiling": (30, 30, 3, 0.97, 0.03, 0.3),
    "many prompts": (60, 60, 1, 0.8, 0.2, 0.0),
    "prompts that differ": (20, 20, 3, 0.6, 0.4, 0.9),
    "rare": (10, 60, 2, 0.7, 0.05, 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_of_precision_and_f1_hold_what_they_should(design: str) -> None:
    yes, no, repeats, hit, alarm, spread = DESIGNS[design]
    rng = np.random.default_rng(5)
    n_studies = 2000

    def firing(mean: float, n: int) -> np.ndarray:
        if not spread:
            p = np.full((n_studies, n), mean)
        else:  # a beta of this mean, the wider the larger the spread
            size = 1 / spread - 0.9
            p = rng.beta(mean * size, (1 - mean) * size, (n_studies, n))
        return rng.binomial(repeats, p) / repeats

    true = {"precision": yes * hit / (yes * hit + no * alarm)}
    true["f1"] = 2 * yes * hit / (yes * hit + no * alarm + yes)
    should = np.repeat([1.0, 0.0], [yes, no])
    share = np.hstack([firing(hit, yes), firing(alarm, no)])
    value = {"precision": np.broadcast_to(should, share.shape)}
    value["f1"] = 2 * should * share / np.where(share + should > 0, share + should, 1)
    weight = {"precision": share, "f1": share + should}
    for measure, target in true.items():
        samples = [
            (v[w > 0], None, w[w > 0])
            for v, w in zip(value[measure], weight[measure], strict=True)
            if w.any()
        ]
        found = sc.stats.bounded_means(samples, quantity=sc.stats.RATES)
        held = np.mean([one.low <= target <= one.high for one in found])
        print(f"{design}, {measure}: coverage {held:.3f}")
        assert held >= 0.93
        assert all(one.high > one.low for one in found)


def test_a_dead_instrument_is_noted_also_where_every_control_has_a_known_call() -> None:
    about = {"attempt_id": "a", "case_id": "1", "condition": "x", "invoked": False}
    rows = pd.DataFrame([about | {"skill": "s", "offered": "s", "should_invoke": True}])
    cases = pd.DataFrame([{"skill": "s", "case_id": "1", "prompt_kind": "control"}])
    (row,) = sc.triggers.controls(rows, cases.assign(should_trigger=True)).itertuples()
    assert row.dead and "the instrument is dead for s" in row.note
