import csv
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.io.spreadsheet_cells import as_cell, from_cell
from skillcomp.reliability import join_labels, label_sheet, read_labels

Frames = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def study(sizes: dict[str, int], *, repeats: int = 2, answer: str = "An answer.") -> Frames:
    """Cases of each skill under three conditions, two checks a case."""
    keys = [(skill, f"{skill}/{k}") for skill, size in sizes.items() for k in range(size)]
    cases = pd.DataFrame(keys, columns=["skill", "case_id"])
    kinds = [("says_it", "positive", "Says it."), ("no_copy", "negative", "Does not copy.")]
    checks = pd.DataFrame(kinds, columns=["check_id", "check_kind", "description"])
    sides = product(("baseline", "skill", "placebo"), range(1, repeats + 1))
    attempts = cases.merge(pd.DataFrame(sides, columns=["condition", "repeat"]), how="cross")
    name = attempts["case_id"] + "/" + attempts["condition"] + "/" + attempts["repeat"].astype(str)
    prompts = "What is " + cases["case_id"] + "?"
    return (
        attempts.assign(attempt_id=name, answer=answer),
        cases.assign(prompt=prompts),
        cases.merge(checks, how="cross"),
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def key_of(path: Path) -> pd.DataFrame:
    key = pd.DataFrame(rows_of(path))
    parts = key["attempt_id"].str.rsplit("/", n=2, expand=True)
    return key.assign(case_id=parts[0], condition=parts[1], repeat=parts[2])


def test_each_drawn_case_has_one_repeat_of_both_conditions(tmp_path: Path) -> None:
    frames = study({"a": 10, "b": 10})
    sheet = label_sheet(*frames, path=tmp_path / "s.csv", n_cases=8, seed=1)
    key = key_of(tmp_path / "s.key.csv")
    attempts = key.drop_duplicates("attempt_id")
    assert len(sheet) == len(key) == 8 * 2 * 2
    assert attempts.groupby("case_id")["condition"].agg(set).eq({"baseline", "skill"}).all()
    assert len(attempts) == 16
    assert set(attempts["repeat"]) == {"1", "2"}
    assert attempts["case_id"].str[0].value_counts().to_dict() == {"a": 8, "b": 8}


def test_cases_are_shared_out_over_the_skills_in_proportion(tmp_path: Path) -> None:
    frames = study({"a": 20, "b": 10, "c": 2})
    label_sheet(*frames, path=tmp_path / "s.csv", n_cases=16)
    key = key_of(tmp_path / "s.key.csv").drop_duplicates("case_id")
    assert key["case_id"].str[0].value_counts().to_dict() == {"a": 10, "b": 5, "c": 1}
    # chance of the case in its skill, times one of two repeats
    assert key["inclusion_probability"].astype(float).unique().tolist() == [0.25]


def test_the_sheet_is_blind_and_shuffled(tmp_path: Path) -> None:
    frames = study({"a": 12})
    sheet = label_sheet(*frames, path=tmp_path / "s.csv", n_cases=12, seed=3)
    text = (tmp_path / "s.csv").read_text(encoding="utf-8-sig")
    for word in ("baseline", "placebo", "repeat", "condition", "grader", "/skill/", "case_id"):
        assert word not in text, word
    assert sheet.columns.tolist() == list(rows_of(tmp_path / "s.csv")[0])
    key = key_of(tmp_path / "s.key.csv").drop_duplicates("attempt_id")
    assert key["condition"].tolist() != sorted(key["condition"])
    assert not key["case_id"].is_monotonic_increasing
    assert set(sheet["kind"]) == {"must be there", "must be absent"}
    assert sheet[["label", "borderline", "note"]].eq("").all(axis=None)


def test_a_filled_sheet_comes_back_as_gold(tmp_path: Path) -> None:
    frames = study({"a": 4})
    label_sheet(*frames, path=tmp_path / "s.csv", n_cases=4)
    filled = pd.DataFrame(rows_of(tmp_path / "s.csv"))
    filled["label"] = ["PASS", "fail", "", " p "] * 4
    filled["borderline"] = ["", "yes", "x", "no"] * 4
    filled["note"] = ["plain", "=gap", "", "- dash"] * 4
    # as a spreadsheet with semicolons saves it, rows in another order and prompts dropped
    filled[::-1].drop(columns="prompt").to_csv(tmp_path / "s.csv", sep=";", index=False)
    gold = read_labels(tmp_path / "s.csv", labeller="ann")
    key = key_of(tmp_path / "s.key.csv")
    assert gold["attempt_id"].tolist() == key["attempt_id"].tolist()
    assert gold["passed"].tolist() == [True, False, pd.NA, True] * 4
    assert gold["borderline"].fillna(False).tolist() == [False, True, True, False] * 4
    assert gold["note"].fillna("").tolist() == ["plain", "=gap", "", "- dash"] * 4
    assert gold["labeller"].unique().tolist() == ["ann"]
    assert gold["inclusion_probability"].unique().tolist() == [0.5]
    assert sc.frames.check(gold, "gold").equals(gold)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="'=+-@|\t ab＝", max_size=8))
def test_what_is_made_harmless_is_read_back_exactly(text: str) -> None:
    written = as_cell(text)
    assert from_cell(written) == text
    assert not written.lstrip().startswith(("=", "+", "-", "@", "|", "＝"))


def test_a_sheet_with_labels_in_it_is_not_overwritten(tmp_path: Path) -> None:
    frames = study({"a": 3})
    label_sheet(*frames, path=tmp_path / "s.csv", n_cases=2)
    with pytest.raises(FrameError, match=r"s\.csv is there already and may hold labels"):
        label_sheet(*frames, path=tmp_path / "s.csv", n_cases=2)
    with pytest.raises(FrameError, match=r"s\.key\.csv is there already"):
        label_sheet(*frames, path=tmp_path / "t.csv", key=tmp_path / "s.key.csv", n_cases=2)


def test_every_mistake_in_a_sheet_is_told_at_once(tmp_path: Path) -> None:
    label_sheet(*study({"a": 2}), path=tmp_path / "s.csv", n_cases=2)
    filled = pd.DataFrame(rows_of(tmp_path / "s.csv"))
    filled.loc[0, "label"] = "PASSS"
    filled.loc[1, "borderline"] = "perhaps"
    filled.loc[2, "row"] = "item-9.1"
    filled.loc[4, "row"] = filled.loc[3, "row"]
    filled.to_csv(tmp_path / "s.csv", index=False)
    with pytest.raises(FrameError) as caught:
        read_labels(tmp_path / "s.csv", labeller="ann")
    problems = "\n".join(caught.value.problems)
    assert "label is 'PASSS'; allowed: PASS, P, FAIL, F or empty. Did you mean 'pass'?" in problems
    assert "borderline is 'perhaps'" in problems
    assert "1 row not in the key, the first is 'item-9.1'." in problems
    assert "occurs more than once" in problems
    filled.drop(columns="label").to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FrameError, match="there is no column 'label'"):
        read_labels(tmp_path / "t.csv", labeller="ann", key=tmp_path / "s.key.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("none.csv", "folder.csv"):
        with pytest.raises(FrameError, match="there is no such file"):
            read_labels(tmp_path / name, labeller="ann", key=tmp_path / "s.key.csv")


def test_cases_with_labels_are_not_drawn_again_and_the_chance_counts_both_draws(
    tmp_path: Path,
) -> None:
    frames = study({"a": 10})
    first = labelled(frames, tmp_path / "one.csv", 4, None, 1)
    second = labelled(frames, tmp_path / "two.csv", 3, first, 2)
    case = [set(part["attempt_id"].str.rsplit("/", n=2).str[0]) for part in (first, second)]
    assert not case[0] & case[1]
    assert second["inclusion_probability"].unique().tolist() == [pytest.approx(7 / 10 / 2)]
    with pytest.raises(FrameError, match="7 asked for, 6 cases are left"):
        label_sheet(*frames, path=tmp_path / "three.csv", n_cases=7, gold=first)


def labelled(
    frames: Frames, path: Path, n_cases: int, gold: pd.DataFrame | None, seed: int
) -> pd.DataFrame:
    sheet = label_sheet(*frames, path=path, n_cases=n_cases, gold=gold, seed=seed)
    sheet.assign(label="PASS").to_csv(path, index=False)
    return read_labels(path, labeller="alice")


def test_joined_batches_weigh_alike(tmp_path: Path) -> None:
    frames = study({"a": 20, "b": 10})
    first = labelled(frames, tmp_path / "1.csv", 6, None, 1)
    second = labelled(frames, tmp_path / "2.csv", 9, first, 2)
    assert first["inclusion_probability"].max() < second["inclusion_probability"].min()
    gold = join_labels([first, second], *frames[:2])
    assert len(gold) == len(first) + len(second)
    # 6 + 9 of 30 cases in proportion to the skills, one of two repeats
    assert gold["inclusion_probability"].unique().tolist() == [pytest.approx(0.5 / 2)]
    # Horvitz and Thompson: the labels stand for all 30 cases x 2 conditions x 2 repeats x 2 checks
    assert (1 / gold["inclusion_probability"]).sum() == pytest.approx(240)


def test_batches_that_do_not_join_are_refused(tmp_path: Path) -> None:
    frames = study({"a": 6})
    first = labelled(frames, tmp_path / "1.csv", 2, None, 1)
    with pytest.raises(FrameError, match="found no batch"):
        join_labels([], *frames[:2])
    with pytest.raises(FrameError, match="stands in two batches by one labeller"):
        join_labels([first, first], *frames[:2])
    with pytest.raises(FrameError, match="has labels but could not be drawn"):
        join_labels([first.assign(attempt_id="x")[:1]], *frames[:2])


def test_only_answered_cases_can_be_drawn(tmp_path: Path) -> None:
    attempts, cases, checks = study({"a": 4})
    lost = attempts["case_id"].eq("a/0") & attempts["condition"].eq("skill")
    attempts["status"] = "ok"
    attempts.loc[lost, ["status", "answer"]] = ["error", None]
    attempts.loc[attempts["case_id"].eq("a/1") & attempts["repeat"].eq(1), "answer"] = None
    label_sheet(attempts, cases, checks, path=tmp_path / "s.csv", n_cases=3)
    key = key_of(tmp_path / "s.key.csv").drop_duplicates("attempt_id").set_index("case_id")
    assert "a/0" not in key.index
    assert key.loc["a/1", "repeat"].tolist() == ["2", "2"]
    # its only answered repeat is certain to be taken
    assert key.loc["a/1", "inclusion_probability"].astype(float).tolist() == [1.0, 1.0]


def test_further_cases_are_drawn_from_those_without_labels(tmp_path: Path) -> None:
    frames = study({"a": 12, "b": 12, "c": 12})
    label_sheet(*frames, path=tmp_path / "one.csv", n_cases=20, seed=1)
    first = read_labels(tmp_path / "one.csv", labeller="ann")
    # labels of another study lie outside what can be drawn
    stray = first.head(1).assign(attempt_id="elsewhere")
    first = pd.concat([first, stray], ignore_index=True)
    # two further cases for three skills: each has labels already
    label_sheet(*frames, path=tmp_path / "two.csv", n_cases=2, gold=first, seed=2)
    drawn = set(key_of(tmp_path / "two.key.csv")["case_id"])
    assert len(drawn) == 2 and not drawn & set(key_of(tmp_path / "one.key.csv")["case_id"])


def test_a_skill_without_labels_is_never_left_out(tmp_path: Path) -> None:
    frames = study({"a": 12, "b": 12, "c": 2, "d": 2})
    keys = tmp_path / "one.csv"
    first_two = (frame[frame["skill"].isin(["a", "b"])] for frame in frames)
    label_sheet(*first_two, path=keys, n_cases=4, seed=1)
    first = read_labels(keys, labeller="ann")
    with pytest.raises(FrameError, match="1 cases are fewer than the 2 skills without labels"):
        label_sheet(*frames, path=tmp_path / "two.csv", n_cases=1, gold=first)
    label_sheet(*frames, path=tmp_path / "two.csv", n_cases=2, gold=first, seed=2)
    assert set(key_of(tmp_path / "two.key.csv")["case_id"].str[0]) == {"c", "d"}


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"n_cases": 0}, "n_cases: found 0; allowed: a whole number of at least 1"),
        ({"n_cases": pd.DataFrame()}, r"(?s)n_cases: found .*; allowed: a whole number"),
        ({"n_cases": 1}, "1 cases are fewer than the 2 skills"),
        ({"n_cases": 9}, "9 asked for, 8 cases are left"),
        ({"n_cases": 2, "conditions": ["basline"]}, "no 'basline'; .*Did you mean 'baseline'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, settings_: dict[str, object], message: str
) -> None:
    with pytest.raises(FrameError, match=message):
        label_sheet(*study({"a": 4, "b": 4}), path=tmp_path / "s.csv", **settings_)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_conditions_of_a_case_never_come_from_different_agents(tmp_path: Path) -> None:
    attempts, cases, checks = study({"a": 4})
    first = attempts.assign(agent="A")
    other = attempts.assign(agent="B", attempt_id="B/" + attempts["attempt_id"])
    both = pd.concat([first, other], ignore_index=True)
    with pytest.raises(FrameError, match="more than one agent: A, B"):
        label_sheet(both, cases, checks, path=tmp_path / "s.csv", n_cases=2)
    assert not list(tmp_path.iterdir())
    frames = first, cases, checks
    gold = labelled(frames, tmp_path / "A.csv", 4, None, 1)
    with pytest.raises(FrameError, match="more than one agent"):
        join_labels([gold], both, cases)
    # a sheet for the other agent may hold the same cases
    again = labelled((other, cases, checks), tmp_path / "B.csv", 4, gold, 1)
    assert again["attempt_id"].str.startswith("B/").all()


KEY = "row,attempt_id,check_id,inclusion_probability\n1,a,x,0.5\n2,a,y,0.5\n"


@pytest.mark.parametrize(
    ("sheet", "key", "message"),
    [
        ("row,label\n1,PASS,a,b\n2,FAIL\n", KEY, "rows have more values than the header"),
        ('row,label\n1,"PASS\n2,FAIL\n', KEY, "EOF inside string"),
        ("", KEY, "No columns to parse"),
        (bytes(range(256)).decode("latin1"), KEY, "s.csv: "),
        ("row,label,label\n1,PASS,FAIL\n", KEY, "columns stand twice: label"),
        ("row,label\n1,PASS\n", KEY.replace("0.5", "half"), "key.csv.*row '1' is 'half'"),
        ("row,label\n1,PASS\n", KEY + "1,b,x,1\n", "key.csv.*a row occurs more than once"),
    ],
)
def test_a_sheet_that_is_no_csv_is_one_clear_error(tmp_path, sheet, key, message):
    (tmp_path / "s.csv").write_text(sheet, encoding="latin1")
    (tmp_path / "s.key.csv").write_text(key)
    with pytest.raises(FrameError, match=message):
        read_labels(tmp_path / "s.csv", labeller="me")
