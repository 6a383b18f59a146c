"""One label per item out of several labellers', and that every analysis keeps what is agreed."""

from pathlib import Path

import pandas as pd
import pytest

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import FrameError
from skillcomp.frames.reference_labels import labellers_said as said
from skillcomp.frames.reference_labels import one_label, without_checks
from skillcomp.records import GoldLabel

Label = bool | None


def people(*, chance: float | None = None, **labels: dict[str, Label]) -> pd.DataFrame:
    """Return a gold frame: one argument a labeller, one entry an attempt of one check."""
    rows = [
        {"attempt_id": a, "check_id": "c", "labeller": who, "passed": passed}
        for who, told_ in labels.items()
        for a, passed in told_.items()
    ]
    frame = pd.DataFrame(rows)
    frame["inclusion_probability"] = float("nan") if chance is None else chance
    return sc.frames.check(frame, "gold")


def test_one_label_an_item_says_how_it_was_settled() -> None:
    gold = people(
        ann={"alike": True, "settled": True, "open": True, "hers": False, "half": True, "no": None},
        ben={"alike": True, "settled": False, "open": False, "half": None, "no": None},
        adjudicated={"settled": False},
    )
    found = one_label(gold, "test").set_index("attempt_id")
    assert found["labeller"].to_dict() == {
        "alike": "agreed",
        "settled": "adjudicated",
        "open": "disputed",
        "hers": "ann",
        "half": "ann",
        "no": "ann",
    }
    assert found["passed"].dropna().to_dict() == {
        "alike": True, "settled": False, "hers": False, "half": True
    }  # fmt: skip
    assert said(found["labeller"], found["passed"]) == (
        "gold: 1 label adjudicated, 1 agreed, 2 by ann, 1 disputed and left out, 1 without a label"
    )


def test_an_adjudicated_row_without_a_label_leaves_what_the_others_say() -> None:
    gold = people(
        ann={"a": True, "b": True, "c": True, "d": None, "e": False},
        ben={"a": True, "b": False, "c": True, "d": None},
        adjudicated={"a": None, "b": None, "c": False, "d": None, "e": None},
    )
    found = one_label(gold, "test")
    assert found["labeller"].tolist() == ["agreed", "disputed", "ann", "adjudicated", "adjudicated"]
    assert found["attempt_id"].tolist() == ["a", "b", "e", "c", "d"]
    assert found["passed"].astype("object").fillna("none").tolist() == [
        True, "none", False, False, "none"
    ]  # fmt: skip
    assert said(found["labeller"], found["passed"]) == (
        "gold: 1 label adjudicated, 1 agreed, 1 by ann, 1 disputed and left out, 1 without a label"
    )


def test_a_settled_label_keeps_the_chance_and_the_doubt_of_its_item() -> None:
    first = people(ann={"a": True, "b": True}, ben={"a": True, "b": False}, chance=0.25)
    first["borderline"] = pd.array([False, False, True, True], dtype="boolean")
    found = one_label(
        sc.frames.check(pd.concat([first, people(adjudicated={"b": True})]), "gold"), "test"
    )
    assert found["inclusion_probability"].tolist() == [0.25, 0.25]
    assert found.set_index("attempt_id")["borderline"].dropna().to_dict() == {"a": True}


def test_labels_of_one_labeller_and_full_adjudication_stay_as_they_are() -> None:
    alone = people(ann={"a": True, "b": None})
    assert one_label(alone, "test") is alone and not said(alone["labeller"], alone["passed"])
    full = people(ann={"a": True, "b": True}, adjudicated={"b": False, "a": True})
    own = full[full["labeller"].eq("adjudicated")].reset_index(drop=True)
    pd.testing.assert_frame_equal(one_label(full, "test"), own)
    again = one_label(people(ann={"a": True}, ben={"a": True}, adjudicated={"b": True}), "test")
    pd.testing.assert_frame_equal(one_label(again, "test"), again)
    with pytest.raises(FrameError, match=r"none is 'adjudicated': ann, ben\..* \(1 items\)"):
        one_label(people(ann={"a": True, "b": True}, ben={"a": True, "b": False}), "test")
    # a part of a settled frame is settled, too
    assert len(one_label(again[again["labeller"].eq("agreed")], "test")) == 1


def test_people_who_labelled_different_items_or_agree_are_settled_item_by_item() -> None:
    gold = people(ann={"a": True, "b": False, "c": None}, ben={"c": True, "d": True, "b": False})
    found = one_label(gold, "test").set_index("attempt_id")
    assert found["labeller"].to_dict() == {"a": "ann", "b": "agreed", "c": "ben", "d": "ben"}
    assert found["passed"].to_dict() == {"a": True, "b": False, "c": True, "d": True}
    assert said(found["labeller"], found["passed"]) == "gold: 1 label agreed, 1 by ann, 2 by ben"
    crowd = pd.Series(["ann", "ben", "cem", "dia", "eva", "eva"])
    passed = pd.Series(True, index=crowd.index)
    assert said(crowd, passed) == "gold: 6 labels each by one of 5 labellers"
    assert said(crowd[:2].mask(crowd.eq("ben")), passed[:2]) == "gold: 1 label by ann, 1 by no name"
    disputed = pd.Series(["disputed"] * 2), pd.Series([pd.NA] * 2, dtype="boolean")
    assert said(*disputed) == "gold: 2 labels disputed and left out"


def test_two_people_with_a_batch_each_can_be_analysed() -> None:
    made = simulated.study(n_skills=1, n_cases=20, graders=(simulated.Grader("g"),), seed=1)
    own = made.gold[made.gold["labeller"].eq("adjudicated")]
    part = own["attempt_id"].isin(own["attempt_id"].unique()[::2])
    split = own.assign(labeller=part.map({True: "anna", False: "bob"}))
    twice = pd.concat([own.assign(labeller="anna"), own.assign(labeller="bob")])
    by_both = f"gold: {part.sum()} labels by anna, {(~part).sum()} by bob"
    columns = ["estimate", "ci_low", "ci_high", "n"]
    for analysis, text in (
        (sc.correction.delta, "reason"),
        (lambda v, g: sc.reliability.agreement(v, g, n_resamples=20), "note"),
    ):
        expected = analysis(made.verdicts, own)
        found = analysis(made.verdicts, split)
        pd.testing.assert_frame_equal(found[columns], expected[columns])
        assert found.loc[found["estimate"].notna(), text].str.contains(by_both).all()
    found = analysis(made.verdicts, twice)
    pd.testing.assert_frame_equal(found[columns], expected[columns])


def test_the_reader_gives_one_label_an_item_when_disputes_were_adjudicated(tmp_path: Path) -> None:
    store = sc.RunStore(tmp_path)
    labels = {"a": (True, True), "b": (True, False), "c": (False, True)}
    rows = [
        GoldLabel(attempt_id=a, check_id="x", labeller=who, passed=passed)
        for a, both in labels.items()
        for who, passed in zip(("ann", "ben"), both, strict=True)
    ]
    last = GoldLabel(attempt_id="b", check_id="x", labeller="adjudicated", passed=False)
    store.append("gold", [*rows, last])
    found = sc.frames.gold(store).set_index("attempt_id")
    assert found["labeller"].to_dict() == {"a": "agreed", "b": "adjudicated", "c": "disputed"}
    assert found["passed"].dropna().to_dict() == {"a": True, "b": False}
    assert len(sc.frames.gold(store, labeller="all")) == 7


def test_checks_to_leave_out_are_named_by_text() -> None:
    frame = pd.DataFrame({"check_id": ["a"]})
    with pytest.raises(FrameError, match="drift: exclude_checks: found 5; allowed: part of a"):
        without_checks(frame, 5, "drift")
    assert without_checks(frame, None, "drift").equals(frame)


def test_who_gave_a_label_is_read_from_tables_and_stores(tmp_path: Path) -> None:
    table = pd.DataFrame({"case": [1, 2, 1, 2], "condition": ["baseline"] * 2 + ["skill"] * 2})
    table = table.assign(passed=True, skill="s", check="c", right=True, who="m", by="model")
    inside = sc.from_frame(table, gold="right", labeller="who", labeller_kind="by")
    labels = table.drop(columns="passed").assign(passed=True, kin="claude")
    how = {"labeller": "who", "labeller_kind": "by", "labeller_family": "kin"}
    beside = sc.from_frame(table, gold=labels, **how)
    assert inside.gold["labeller_kind"].eq("model").all()
    assert beside.gold[["labeller_kind", "labeller_family"]].drop_duplicates().size == 2
    with pytest.raises(FrameError, match="labeller_kind= names who gave the labels"):
        sc.from_frame(table, labeller_kind="by")
    with pytest.raises(FrameError, match=r"labeller_kind.*person"):
        sc.from_frame(table.assign(by="human"), gold="right", labeller_kind="by")

    gold = sc.frames.gold(sc.datasets.load("pilot"), labeller="all")
    assert gold["labeller_kind"].eq("model").all() and gold["labeller_family"].eq("claude").all()
    two = pd.concat([inside.gold, inside.gold.assign(labeller="p", labeller_kind="person")])
    agreed = one_label(sc.frames.check(two, "gold"), "here")
    assert agreed["labeller_kind"].eq("person").all(), "a person agrees with the model"
