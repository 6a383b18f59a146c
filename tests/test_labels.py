"""One label per item out of several labellers', and that every analysis keeps what is agreed."""

from pathlib import Path

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.labels import one_label, told
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
    assert told(found["labeller"]) == (
        "gold: 1 labels adjudicated, 1 agreed, 3 of one labeller alone, 1 disputed and left out"
    )


def test_an_adjudicator_who_could_not_decide_is_not_overruled() -> None:
    gold = people(ann={"a": True, "b": True}, ben={"a": True, "b": True}, adjudicated={"a": None})
    found = one_label(gold, "test").set_index("attempt_id")
    assert found.loc["a", "labeller"] == "adjudicated" and pd.isna(found.loc["a", "passed"])


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
    assert one_label(alone, "test") is alone and told(alone["labeller"]) == ""
    full = people(ann={"a": True, "b": True}, adjudicated={"b": False, "a": True})
    own = full[full["labeller"].eq("adjudicated")].reset_index(drop=True)
    pd.testing.assert_frame_equal(one_label(full, "test"), own)
    again = one_label(people(ann={"a": True}, ben={"a": True}, adjudicated={"b": True}), "test")
    pd.testing.assert_frame_equal(one_label(again, "test"), again)
    # a part of a settled frame is settled, too
    assert len(one_label(again[again["labeller"].eq("agreed")], "test")) == 1


def test_labellers_of_whom_nothing_was_adjudicated_are_not_taken_for_one() -> None:
    gold = people(ann={"a": True, "b": True}, ben={"a": True, "b": False})
    with pytest.raises(FrameError, match=r"none is 'adjudicated': ann, ben\..* \(1 items\)"):
        one_label(gold, "test")


@pytest.fixture(scope="module")
def disputes_adjudicated(pilot: sc.RunStore) -> pd.DataFrame:
    """The pilot's labels with an adjudicated one only where the two labellers differ."""
    every = sc.frames.gold(pilot, labeller="all")
    single = every[every["labeller"].ne("adjudicated")]
    n = single.groupby(["attempt_id", "check_id"])["passed"].transform("nunique")
    disputed = single.loc[n > 1, ["attempt_id", "check_id"]].drop_duplicates()
    settled = every[every["labeller"].eq("adjudicated")].merge(disputed)
    assert len(settled) == 10
    return pd.concat([single, settled], ignore_index=True)


def test_adjudicating_disputes_alone_gives_what_adjudicating_everything_gives(
    pilot: sc.RunStore, disputes_adjudicated: pd.DataFrame
) -> None:
    verdicts = sc.frames.verdicts(pilot)
    given = verdicts[verdicts["grader"].eq("g2")]
    full = sc.frames.gold(pilot)
    columns = ["estimate", "ci_low", "ci_high", "n"]
    for analysis, how in (
        (sc.reliability.agreement, {"n_resamples": 20}),
        (sc.correction.delta, {}),
    ):
        found = analysis(given, disputes_adjudicated, **how)
        expected = analysis(given, full, **how)
        known = ~found["measure"].str.startswith("ceiling")
        pd.testing.assert_frame_equal(found.loc[known, columns], expected.loc[known, columns])
        text = "reason" if "reason" in found else "note"
        shown = found[text].str.contains("gold: 10 labels adjudicated, 810 agreed")
        assert shown[known & found["measure"].ne("failure_share")].all()
    both = verdicts[verdicts["grader"].isin(["g0", "g2"])]
    drift = sc.reliability.drift(both, disputes_adjudicated, reference="g0", n_resamples=20)
    expected = sc.reliability.drift(both, full, reference="g0", n_resamples=20)
    pd.testing.assert_frame_equal(drift[columns], expected[columns])


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
