import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from build import verdicts as judged

import skillcomp as sc
from skillcomp.errors import FrameError, StoreError
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.records import Attempt, GoldLabel, Verdict


@pytest.mark.parametrize(
    ("passed", "whole", "share", "missing"),
    [
        ([True, True], True, 1.0, 0),
        ([True, False], False, 0.5, 0),
        ([False, None], pd.NA, 0.0, 1),  # a verdict is missing, whatever the others say
        ([True, None], pd.NA, 1.0, 1),  # none failed, one missing: unknown
        ([None, None], pd.NA, np.nan, 2),  # pandas' groupby.all() would say True
        ([True, None, None], pd.NA, np.nan, 2),  # fewer than half have a verdict
    ],
)
def test_an_outcome_follows_from_its_verdicts(passed, whole, share, missing):
    rows = judged(passed, checks=len(passed))
    # a failed grader's verdict does not count even if it has a value
    rows["passed"] = rows["passed"].fillna(False)
    outcome = sc.frames.outcomes(rows).iloc[0]
    assert outcome["passed"] is whole or bool(outcome["passed"]) is whole
    np.testing.assert_equal(outcome["share_passed"], share)
    assert outcome["n_missing"] == missing


def test_checks_that_no_verdict_names_are_missing_when_the_cases_say_how_many_there_are() -> None:
    rows = judged([True, True], checks=2)
    cases = pd.DataFrame({"skill": ["s"], "case_id": ["s/0"], "n_checks": [3]})
    outcome = sc.frames.outcomes(rows, cases).iloc[0]
    assert outcome["passed"] is pd.NA
    assert (outcome["n_missing"], outcome["share_passed"]) == (1, 1.0)
    with pytest.raises(FrameError, match=r"'s/0' .*Did you mean 's/00'"):
        sc.frames.outcomes(rows, cases.assign(case_id="s/00"))


def test_outcomes_without_cases_count_the_checks_of_each_skill_alone() -> None:
    rows = judged([True, True]).assign(skill=["s", "t"], case_id="1", check_id=["x", "y"])
    outcomes = sc.frames.outcomes(rows)
    assert outcomes["n_checks"].tolist() == [1, 1]
    assert outcomes["passed"].tolist() == [True, True]


def test_outcomes_of_one_grader_are_those_rows_and_no_others(pilot: sc.RunStore) -> None:
    verdicts, cases = sc.frames.verdicts(pilot), sc.frames.cases(pilot)
    every = sc.frames.outcomes(verdicts, cases)
    for asked in ("g2", ["g0", "g2"]):
        own = sc.frames.outcomes(verdicts, cases, grader=asked)
        kept = every[every["grader"].isin([asked] if isinstance(asked, str) else asked)]
        pd.testing.assert_frame_equal(own, kept.reset_index(drop=True))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("gg", r"no verdict by a grader 'gg'; there: g\. Did you mean 'g'\?"),
        (["g", "nope"], r"no verdict by a grader 'nope'; there: g\.$"),
        (2, r"no verdict by a grader 2"),
    ],
)
def test_a_grader_without_verdicts_is_named_with_those_there_are(asked, message):
    with pytest.raises(FrameError, match=message):
        sc.frames.outcomes(judged([True]), grader=asked)
    with pytest.raises(FrameError, match=r"there: none\."):
        sc.frames.outcomes(sc.frames.empty("verdicts"), grader="g")


def test_an_empty_store_gives_empty_frames_of_stable_dtypes(tmp_path: Path) -> None:
    store = sc.RunStore(tmp_path)
    frames = {
        kind: getattr(sc.frames, kind)(store)
        for kind in ("cases", "checks", "attempts", "verdicts", "gold", "pairwise")
    }
    frames["outcomes"] = sc.frames.outcomes(frames["verdicts"])
    for kind, frame in frames.items():
        assert frame.empty
        assert frame.dtypes.astype(str).to_dict() == dict(CONTRACTS[kind].columns), kind


def test_a_verdict_of_an_unknown_attempt_raises(tmp_path: Path) -> None:
    store = sc.RunStore(tmp_path)
    store.append("verdicts", [Verdict(attempt_id="gone", check_id="c", grader="g", passed=True)])
    with pytest.raises(FrameError, match="attempts that the store does not hold: gone"):
        sc.frames.verdicts(store)


def test_quotes_are_found_after_white_space_and_quotation_marks_are_normalised(tmp_path):
    store = sc.RunStore(tmp_path)
    about = {"skill": "s", "case_id": "s/1", "condition": "skill"}
    store.append("attempts", [Attempt(attempt_id="a", answer="It\u2019s  a\nrule.", **about)])
    store.append("attempts", [Attempt(attempt_id="b", status="error", **about)])
    quotes = {"x": "It's a rule", "y": "no such words", "z": None, "w": "  "}
    store.append(
        "verdicts",
        [
            Verdict(attempt_id=a, check_id=k, grader="g", passed=True, evidence_quote=q)
            for a in "ab"
            for k, q in quotes.items()
        ],
    )
    found = sc.frames.verdicts(store).set_index(["attempt_id", "check_id"])["evidence_found"]
    assert found["a"][["x", "y"]].tolist() == [True, False]
    assert found["a"][["z", "w"]].isna().all()
    assert found["b"].isna().all()


def test_gold_falls_back_on_all_labellers_where_none_is_adjudicated(tmp_path: Path) -> None:
    store = sc.RunStore(tmp_path)
    store.append(
        "gold",
        [GoldLabel(attempt_id="a", check_id="c", labeller=name, passed=True) for name in "uv"],
    )
    assert sc.frames.gold(store)["labeller"].tolist() == ["u", "v"]
    assert sc.frames.gold(store, labeller="u")["labeller"].tolist() == ["u"]
    with pytest.raises(FrameError, match="labeller 'w' is not in the store; there: u, v"):
        sc.frames.gold(store, labeller="w")


def test_the_list_of_labellers_may_be_a_link_and_must_be_an_object(tmp_path: Path) -> None:
    store, there = sc.RunStore(tmp_path / "study"), tmp_path / "labellers.json"
    store.append("gold", [GoldLabel(attempt_id="a", check_id="c", labeller="u", passed=True)])
    there.write_text('{"u": {"kind": "person"}}')
    (store.path / "labellers.json").symlink_to(there)
    assert sc.frames.gold(store)["labeller_kind"].tolist() == ["person"]
    for text, message in (("{", "not JSON"), ("[]", "expected an object")):
        there.write_text(text)
        with pytest.raises(FrameError, match=rf"labellers\.json: {message}"):
            sc.frames.gold(store)


def test_the_pilot_has_the_rows_that_were_counted_independently(pilot: sc.RunStore) -> None:
    attempts, verdicts = sc.frames.attempts(pilot), sc.frames.verdicts(pilot)
    assert len(attempts) == 420
    assert len(verdicts) == 5740
    assert verdicts["grader"].value_counts().to_dict() == {"g0": 2050, "g2": 2050, "g1": 1640}
    gold = sc.frames.gold(pilot)
    assert len(gold) == 820
    assert set(gold["labeller"]) == {"adjudicated"}
    assert len(sc.frames.gold(pilot, labeller="all")) == 2460
    assert len(sc.frames.attempts(pilot, perturbation="all")) == 480
    assert len(sc.frames.verdicts(pilot, perturbation="all", round="all")) == 7143
    assert len(sc.frames.attempts(pilot, perturbation="pad")) == 60
    assert len(sc.frames.verdicts(pilot, round=2)) == 817
    assert len(sc.frames.pairwise(pilot)) == 168
    assert len(sc.frames.cases(pilot)) == 84
    assert len(sc.frames.checks(pilot)) == 410


def test_rounds_and_perturbations_that_are_not_there(pilot: sc.RunStore) -> None:
    assert len(sc.frames.verdicts(pilot, round=np.int64(2))) == 817
    assert sc.frames.verdicts(pilot, round=7).empty
    for odd in (True, "two", [1, 2.5]):
        with pytest.raises(FrameError, match=r"round: found .*; allowed: a number"):
            sc.frames.verdicts(pilot, round=odd)
    with pytest.raises(FrameError, match="'pat' is not in the store; there: none, pad"):
        sc.frames.attempts(pilot, perturbation="pat")
    with pytest.raises(FrameError, match="runs: expected a mapping of names to stores"):
        sc.frames.runs(pilot)


def test_copies_that_were_read_too_are_refused_where_they_would_be_repeats(pilot):
    every = sc.frames.verdicts(pilot, perturbation="all")
    assert set(every["perturbation"].dropna()) == {"pad"}
    assert sc.frames.verdicts(pilot)["perturbation"].isna().all()
    g0, gold, cases = every[every["grader"].eq("g0")], sc.frames.gold(pilot), sc.frames.cases(pilot)
    outcomes = sc.frames.outcomes(g0, cases)
    assert outcomes["perturbation"].value_counts(dropna=False).tolist() == [420, 60]
    refused = (
        lambda: sc.correction.delta(g0, gold),
        lambda: sc.reliability.agreement(g0, gold),
        lambda: sc.reliability.drift(every, gold, reference_grader="g0"),
        lambda: sc.deltas.paired(outcomes),
        lambda: sc.transfer.gap(outcomes),
    )
    for analysis in refused:
        with pytest.raises(FrameError, match=r"altered copies .* \(perturbation: none, pad\)"):
            analysis()


@pytest.mark.parametrize(
    "read",
    [getattr(sc.frames, name) for name in ("cases", "checks", "attempts", "verdicts", "gold")]
    + [getattr(sc.frames, name) for name in ("pairwise", "invocations", "events", "commands")]
    + [lambda given: sc.frames.runs({"first": given})],
)
def test_a_folder_in_the_place_of_a_store_is_told(read):
    with pytest.raises(StoreError, match=r"store: expected a RunStore .*, found str 'data/pilot'"):
        read("data/pilot")


@pytest.mark.parametrize("made", [False, True])
def test_a_mistyped_place_is_no_empty_study(tmp_path: Path, made: bool) -> None:
    place = tmp_path / "pilto"
    if made:
        place.mkdir()
        (place / "notes.txt").write_text("no store")
    store = sc.RunStore(place)
    for kind in ("cases", "checks", "attempts", "verdicts", "gold", "pairwise", "invocations"):
        with pytest.raises(StoreError, match=r"pilto: there is no study here.*load\('pilot'\)"):
            getattr(sc.frames, kind)(store)


def test_attempts_that_were_asked_for_and_never_made_end_in_an_error(pilot: sc.RunStore) -> None:
    made = sc.frames.attempts(pilot)
    asked = made[["skill", "case_id", "condition", "repeat"]]
    later = asked.head(2).assign(repeat=9)
    planned = sc.frames.attempts(pilot, asked=pd.concat([asked, later]))
    assert planned["status"].tail(2).tolist() == ["error", "error"]
    assert planned["in_plan"].all()
    pd.testing.assert_frame_equal(planned.head(len(made))[made.columns], made)
    # the pilot has no plan, so nothing is added
    pd.testing.assert_frame_equal(sc.frames.attempts(pilot, asked="plan"), made)
    frames = sc.read_results(pilot.path)
    pd.testing.assert_frame_equal(sc.frames.attempts(frames, asked="plan"), frames.attempts)


def test_coverage_counts_the_cases_of_each_dimension_and_knowledge_is_carried(tmp_path):
    facts = [("C1", "near", "conceptual"), ("C7", "near", None), ("C7", "far", "lore")]
    keys = ("comprehension_dimension", "transfer", "knowledge")
    evals: list[dict[str, Any]] = [
        {"id": i, "prompt": f"{i}?", **dict(zip(keys, values, strict=True))}
        for i, values in enumerate(facts)
    ]
    (tmp_path / "s.json").write_text(json.dumps({"skill_name": "tea", "evals": evals}))
    store = sc.RunStore(tmp_path / "study")
    suite = store.add_suite(tmp_path / "s.json")
    assert any("knowledge: found 'lore'; allowed: factual, concept" in p for p in suite.problems)
    cases = sc.frames.cases(store)
    assert cases["knowledge"].fillna("").tolist() == ["conceptual", "", ""]
    table = sc.frames.coverage(cases).set_index("dimension")
    assert table.index.tolist() == [f"C{i}" for i in range(1, 10)]
    assert table.loc["C7", ["case_ids", "n_cases", "n_near", "n_far"]].tolist() == [
        *("s/1, s/2", 2, 1, 1),
    ]
    assert table.loc["C2", "n_cases"] == 0 and table.loc["C1", "share"] == 1 / 3


def test_checks_without_weight_give_no_share() -> None:
    rows = pd.DataFrame(
        {
            "attempt_id": ["a", "a"],
            "skill": "s",
            "case_id": "c",
            "condition": "skill",
            "check_id": ["x", "y"],
            "grader": "g",
            "status": "ok",
            "passed": [True, False],
        }
    )
    assert sc.frames.outcomes(rows.assign(check_weight=0.0))["share_passed"].isna().all()
    assert sc.frames.outcomes(rows.assign(check_weight=2.0))["share_passed"].tolist() == [0.5]
