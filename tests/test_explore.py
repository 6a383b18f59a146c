"""Widgets over finished frames, driven as a reader's clicks would drive them."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd
import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError, StoreError, StudyError
from skillcomp.explore import labelling
from skillcomp.explore._texts import MOST, pieces
from skillcomp.frames.readers import normalise_quote

HOSTILE = """</div></mark><script>alert(1)</script><img src=x onerror="alert('2')">&lt;b&gt;"""


def study() -> dict[str, pd.DataFrame]:
    """Two skills, a case each, two conditions, two checks, two graders."""
    attempts = pd.DataFrame(
        [(f"{s}/1/{c}", s, f"{s}/1", c, f"The answer of {s}: it's “fine”\nby now.") for s in "ab"
         for c in ("baseline", "skill")],
        columns=["attempt_id", "skill", "case_id", "condition", "answer"],
    )  # fmt: skip
    keys = attempts.drop(columns="answer")
    checks = pd.DataFrame(
        {
            "skill": ["a", "a", "b", "b"],
            "case_id": ["a/1", "a/1", "b/1", "b/1"],
            "check_id": ["x", "y", "x", "z"],
            "check_kind": ["positive", "negative", "positive", "positive"],
            "description": ["Says x.", "Avoids y.", "Says x.", "Says z."],
        }
    )
    asked = keys.merge(checks[["case_id", "check_id", "check_kind"]], on="case_id")
    verdicts = pd.concat(
        [asked.assign(grader=g, passed=p, status="ok") for g, p in (("g0", True), ("g2", False))],
        ignore_index=True,
    ).assign(evidence_quote='it\'s "fine" by', rationale="Because.")
    cases = pd.DataFrame({"skill": ["a", "b"], "case_id": ["a/1", "b/1"], "prompt": ["A?", "B?"]})
    return {"attempts": attempts, "checks": checks, "verdicts": verdicts, "cases": cases}


class Tags(HTMLParser):
    """Collects elements and attributes, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.said = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.said += data


def browser(frames: dict[str, pd.DataFrame], gold: pd.DataFrame | None = None) -> Any:
    return sc.explore.verdicts(
        frames["verdicts"],
        frames["attempts"],
        gold,
        cases=frames["cases"],
        checks=frames["checks"],
    )


# Reading verdicts


def test_the_first_verdict_is_shown_with_all_that_belongs_to_it() -> None:
    reader = browser(study())
    assert isinstance(reader, widgets.Widget)
    said = Tags(reader.view.value).said
    for words in ("A?", "Says x.", "(positive)", "Verdict of g0: PASS", "Because.", "baseline"):
        assert words in said
    assert reader.place.value == 1 and reader.count.value == "of 16"
    assert reader.previous.disabled and not reader.next.disabled


def test_the_quote_is_marked_where_it_stands_in_the_answer() -> None:
    reader = browser(study())
    (marked,) = re.findall(r"<mark>(.*?)</mark>", reader.view.value, flags=re.DOTALL)
    assert html.unescape(marked) == "it's “fine”\nby"


def test_a_quote_that_is_not_in_the_answer_is_said_to_be_missing() -> None:
    frames = study()
    frames["verdicts"]["evidence_quote"] = "never said"
    page = browser(frames).view.value
    assert "does not stand in the answer" in page and "<mark>" not in page


def test_filters_leave_the_rows_they_name_and_offer_only_what_is_left() -> None:
    reader = browser(study())
    reader.filters["skill"].value = "b"
    reader.filters["grader"].value = "g2"
    assert set(reader.rows["skill"]) == {"b"} and set(reader.rows["grader"]) == {"g2"}
    assert [value for _, value in reader.filters["check_id"].options] == [None, "x", "z"]
    reader.filters["check_id"].value = "z"
    assert reader.count.value == "of 2"
    reader.filters["skill"].value = "a"  # has no check z: back to all checks
    assert reader.filters["check_id"].value is None and reader.count.value == "of 4"


def test_filters_that_leave_nothing_say_so_and_can_be_taken_back() -> None:
    reader = browser(study())
    reader.filters["grader"].value, reader.filters["passed"].value = "g0", "failed"
    assert "No verdict is left" in reader.view.value
    assert reader.previous.disabled and reader.next.disabled and reader.place.value == 0
    reader.filters["passed"].value = "passed"
    assert reader.place.value == 1 and "PASS" in reader.view.value


def test_next_and_previous_walk_and_stop_at_the_ends() -> None:
    reader = browser(study())
    first = reader.view.value
    reader.next.click()
    assert reader.place.value == 2 and reader.view.value != first
    reader.previous.click()
    reader.previous.click()
    assert reader.view.value == first
    reader.place.value = 16
    assert reader.next.disabled
    reader.next.click()
    assert reader.place.value == 16


def test_disagreement_with_gold_is_a_filter_and_the_labels_are_shown() -> None:
    frames = study()
    gold = pd.DataFrame(
        {
            "attempt_id": ["a/1/skill", "a/1/skill", "b/1/skill"],
            "check_id": ["x", "y", "x"],
            "labeller": ["ann", "ann", "ann"],
            "passed": [True, False, None],
            "note": ["clear", None, None],
        }
    )
    reader = browser(frames, gold)
    reader.filters["gold"].value = "disagrees"
    # g0 passes everything and misses the FAIL; g2 fails everything and misses the PASS
    assert reader.rows[["grader", "check_id"]].values.tolist() == [["g0", "y"], ["g2", "x"]]
    reader.next.click()
    assert "Gold of ann: PASS: clear" in Tags(reader.view.value).said
    reader.filters["gold"].value = "agrees"
    assert len(reader.rows) == 2
    reader.filters["gold"].value = "not comparable"
    assert len(reader.rows) == 12


def test_one_of_two_labellers_differing_is_a_disagreement() -> None:
    gold = pd.DataFrame(
        {
            "attempt_id": ["a/1/skill"] * 2,
            "check_id": ["x"] * 2,
            "labeller": ["ann", "bob"],
            "passed": [True, False],
        }
    )
    reader = browser(study(), gold)
    reader.filters["gold"].value = "disagrees"
    assert reader.rows["grader"].tolist() == ["g0", "g2"]
    reader.filters["gold"].value = "agrees"
    assert reader.rows.empty


def test_a_failed_grader_is_no_verdict_and_never_a_fail() -> None:
    frames = study()
    frames["verdicts"] = frames["verdicts"].assign(status="malformed", passed=None)
    reader = browser(frames)
    said = Tags(reader.view.value).said
    assert "none (status malformed)" in said and "FAIL" not in said
    reader.filters["passed"].value = "no verdict"
    assert reader.count.value == "of 16"


def test_versions_and_rounds_of_one_grader_are_told_apart() -> None:
    frames = study()
    again = frames["verdicts"].assign(round=2)
    frames["verdicts"] = pd.concat([frames["verdicts"].assign(round=1), again], ignore_index=True)
    reader = browser(frames)
    names = [value for _, value in reader.filters["grader"].options]
    assert names == [None, "g0, round 1", "g2, round 1", "g0, round 2", "g2, round 2"]
    reader.filters["grader"].value = "g2, round 2"
    assert len(reader.rows) == 8 and "g2, round 2" in reader.view.value


def test_a_verdict_without_its_attempt_is_shown_without_an_answer() -> None:
    frames = study()
    frames["attempts"] = frames["attempts"].iloc[1:]
    assert "none recorded" in browser(frames).view.value


def test_an_empty_frame_of_verdicts_is_not_an_error() -> None:
    frames = study()
    reader = sc.explore.verdicts(frames["verdicts"].iloc[:0], frames["attempts"])
    assert "No verdict is left" in reader.view.value and reader.count.value == "of 0"


def test_what_a_model_wrote_is_shown_and_never_interpreted() -> None:
    frames = study()
    plain = Tags(browser(frames).view.value)
    for name in ("evidence_quote", "rationale", "grader", "check_id", "case_id", "skill"):
        frames["verdicts"][name] = HOSTILE
    frames["verdicts"] = frames["verdicts"].drop_duplicates("attempt_id")
    frames["attempts"]["answer"] = f"before {HOSTILE} after"
    gold = pd.DataFrame(
        {
            "attempt_id": frames["attempts"]["attempt_id"],
            "check_id": HOSTILE,
            "labeller": HOSTILE,
            "passed": True,
            "note": HOSTILE,
        }
    )
    page = browser(frames, gold).view.value
    shown = Tags(page)
    assert shown.tags <= plain.tags and shown.attributes == plain.attributes == {"style"}
    assert shown.said.count(HOSTILE) >= 8
    assert html.unescape(re.findall(r"<mark>(.*?)</mark>", page)[0]) == HOSTILE


def test_a_text_that_would_stall_a_browser_is_cut_and_says_so() -> None:
    frames = study()
    frames["attempts"]["answer"] = "x" * (MOST + 1234)
    page = browser(frames).view.value
    assert "(1,234 characters more)" in page and len(page) < MOST + 5_000


@settings(max_examples=200, deadline=None)
@given(
    st.text("ab \n'’\"“<.*", max_size=30),
    st.text("ab \n'’\"“<.*", max_size=6),
)
def test_a_quote_is_marked_iff_it_counts_as_found_and_nothing_is_lost(
    answer: str, quote: str
) -> None:
    parts = pieces(answer, quote)
    assert "".join(part for part, _ in parts) == answer
    wanted = normalise_quote(quote)
    found = bool(wanted) and wanted in normalise_quote(answer)
    assert any(marked for _, marked in parts) == found
    assert all(normalise_quote(part) == wanted for part, marked in parts if marked)


def test_broken_frames_are_refused_by_their_contract() -> None:
    frames = study()
    with pytest.raises(FrameError, match="column 'grader' is missing"):
        sc.explore.verdicts(frames["verdicts"].drop(columns="grader"), frames["attempts"])


# Labelling


def editor(path: Path, frames: dict[str, pd.DataFrame] | None = None, **changed: Any) -> Any:
    frames = frames or study()
    given = {"path": path, "labeller": "ann", "cases": frames["cases"]} | changed
    return sc.explore.label(frames["attempts"], frames["checks"], **given)


@pytest.mark.parametrize("name", ["gold.csv", "gold.jsonl"])
def test_each_label_is_in_the_file_before_the_next_is_asked(tmp_path: Path, name: str) -> None:
    one = editor(tmp_path / name)
    assert not (tmp_path / name).exists() and one.status.value == "0 of 8 labelled"
    one.note.value, one.borderline.value = 'a "quoted", note\nof two lines', True
    one.passed.click()
    first = sc.explore.labels(tmp_path / name)
    assert first[["labeller", "passed", "borderline"]].values.tolist() == [["ann", True, True]]
    assert first["note"].tolist() == ['a "quoted", note of two lines']
    assert one.note.value == "" and not one.borderline.value
    one.failed.click()
    one.undecided.click()
    kept = sc.explore.labels(tmp_path / name)
    assert kept["passed"].tolist() == [True, False, pd.NA]
    assert kept["inclusion_probability"].isna().all() and one.n_labelled == 3


@pytest.mark.parametrize("name", ["gold.csv", "gold.jsonl"])
def test_labelling_resumes_where_it_stopped_whatever_the_order_of_the_frame(
    tmp_path: Path, name: str
) -> None:
    path, frames = tmp_path / name, study()
    one = editor(path, frames)
    one.passed.click()
    one.failed.click()
    coming = one.view.value
    frames["attempts"] = frames["attempts"].iloc[::-1]
    again = editor(path, frames)
    assert again.view.value == coming and again.n_labelled == 2
    for _ in range(6):
        again.passed.click()
    assert again.status.value.startswith("8 of 8 labelled, all done")
    done = sc.explore.labels(path)
    wanted = frames["attempts"].merge(frames["checks"], on="case_id")
    assert set(zip(done["attempt_id"], done["check_id"], strict=True)) == set(
        zip(wanted["attempt_id"], wanted["check_id"], strict=True)
    )
    assert len(done) == 8


@pytest.mark.parametrize("name", ["gold.csv", "gold.jsonl"])
def test_going_back_shows_the_label_and_a_new_one_replaces_it(tmp_path: Path, name: str) -> None:
    one = editor(tmp_path / name)
    one.note.value = "first thought"
    one.passed.click()
    one.failed.click()
    one.previous.click()
    one.previous.click()
    assert "this one: PASS" in one.status.value and one.note.value == "first thought"
    one.note.value = "second thought"
    one.failed.click()
    kept = sc.explore.labels(tmp_path / name)
    assert kept["passed"].tolist() == [False, False]
    assert kept["note"].iloc[0] == "second thought"
    again = editor(tmp_path / name)
    again.previous.click()
    assert "this one: FAIL" in again.status.value


def test_nothing_tells_condition_attempt_or_grader(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["loaded_skill"] = "placebo-text"
    one = editor(tmp_path / "gold.csv", frames)
    for _ in range(8):
        for word in ("baseline", "a/1/", "b/1/", "placebo-text", "g0", "g2"):
            assert word not in one.view.value + one.status.value
        assert "Says" in one.view.value or "Avoids" in one.view.value
        one.passed.click()


def test_what_passes_is_said_for_positive_and_for_negative_checks(tmp_path: Path) -> None:
    one = editor(tmp_path / "gold.csv")
    hints = {"Says": "passes only if the answer states", "Avoids": "passes only if the unwanted"}
    for _ in range(8):
        (word,) = [word for word in hints if word in one.view.value]
        assert hints[word] in one.view.value
        one.passed.click()


def test_checks_of_an_attempt_stay_together_and_labellers_have_orders_of_their_own(
    tmp_path: Path,
) -> None:
    frames = study()
    frames["attempts"] = pd.concat(
        [frames["attempts"].assign(attempt_id=lambda f, k=k: f["attempt_id"] + str(k))
         for k in range(10)]
    )  # fmt: skip
    orders = {}
    for name in ("ann", "bob"):
        one = editor(tmp_path / f"{name}.csv", frames, labeller=name)
        for _ in range(80):
            one.passed.click()
        orders[name] = sc.explore.labels(tmp_path / f"{name}.csv")["attempt_id"].tolist()
        assert orders[name][::2] == orders[name][1::2]
    assert orders["ann"] != orders["bob"] and sorted(orders["ann"]) == sorted(orders["bob"])


def test_two_labellers_share_a_file_and_do_not_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    ann = editor(path)
    ann.note.value = "a secret"
    ann.passed.click()
    bob = editor(path, labeller="bob")
    assert bob.n_labelled == 0
    bob.failed.click()
    ann.passed.click()
    assert sc.explore.labels(path)["labeller"].tolist() == ["ann", "bob", "ann"]
    assert sc.explore.labels(path, labeller="bob")["passed"].tolist() == [False]


def test_inclusion_probability_of_the_attempts_is_written_with_the_label(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["inclusion_probability"] = 0.25
    editor(tmp_path / "gold.csv", frames).passed.click()
    assert sc.explore.labels(tmp_path / "gold.csv")["inclusion_probability"].tolist() == [0.25]


def test_attempts_without_an_answer_are_not_asked(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["answer"] = [None, " ", "x", "y"]
    assert editor(tmp_path / "gold.csv", frames).status.value == "0 of 4 labelled"
    frames["attempts"]["answer"] = None
    none = editor(tmp_path / "gold.csv", frames)
    assert "nothing to label" in none.view.value and none.passed.disabled


def test_hostile_answers_are_escaped_in_the_editor(tmp_path: Path) -> None:
    frames = study()
    plain = Tags(editor(tmp_path / "a.csv", frames).view.value)
    frames["attempts"]["answer"] = HOSTILE
    frames["checks"]["description"] = HOSTILE
    frames["cases"]["prompt"] = HOSTILE
    shown = Tags(editor(tmp_path / "b.csv", frames).view.value)
    assert shown.tags == plain.tags and shown.said.count(HOSTILE) == 3


@pytest.mark.parametrize(
    ("name", "torn"),
    [("gold.csv", b"a/1/skill,x,an"), ("gold.jsonl", b'{"attempt_id":"a/1/skill","che')],
)
def test_a_line_cut_off_by_a_crash_is_put_aside_and_asked_again(
    tmp_path: Path, name: str, torn: bytes
) -> None:
    path = tmp_path / name
    editor(path).passed.click()
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    again = editor(path)
    assert again.n_labelled == 1 and path.read_bytes() == whole
    assert path.with_suffix(".torn").read_bytes() == torn + b"\n"
    again.passed.click()
    assert len(sc.explore.labels(path)) == 2


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_feeds_in_any_field_of_a_label_survive(tmp_path: Path, end: str) -> None:
    path, frames = tmp_path / "gold.csv", study()
    for name in ("attempts", "checks"):
        ids = frames[name].columns.intersection(["attempt_id", "check_id"])
        frames[name][ids] = frames[name][ids] + f"{end}x"
    one = editor(path, frames)
    one.passed.click()
    again = editor(path, frames)
    assert again.n_labelled == 1
    found = sc.explore.labels(path)
    assert found["attempt_id"].str.endswith(f"{end}x").all()


def test_a_row_torn_off_inside_a_field_of_several_lines_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    editor(path).passed.click()
    whole = path.read_bytes()
    path.write_bytes(whole + b'a/1/skill,x,anna,true,,"a note\nof two li')
    assert editor(path).n_labelled == 1 and path.read_bytes() == whole


def test_a_quote_left_open_further_up_is_told_and_nothing_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    editor(path).passed.click()
    head, row = path.read_bytes().splitlines()
    broken = b"\n".join([head, b'"' + row, row, row])
    path.write_bytes(broken)
    with pytest.raises(sc.errors.StoreError, match="csv"):
        editor(path)
    assert path.read_bytes() == broken


def test_a_last_line_without_its_line_feed_is_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    editor(path).passed.click()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    again = editor(path)
    again.failed.click()
    assert sc.explore.labels(path)["passed"].tolist() == [True, False]


def test_columns_that_a_labeller_added_by_hand_survive(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    one = editor(path)
    one.passed.click()
    head, row = path.read_text().splitlines()
    path.write_text(f"{head},who\n{row},me\n")
    one.failed.click()
    one.previous.click()
    one.failed.click()
    lines = path.read_text().splitlines()
    assert lines[0].endswith(",who") and lines[2].endswith(",") and len(lines) == 3
    assert sc.explore.labels(path)["passed"].tolist() == [True, False]


def test_a_label_that_cannot_be_written_is_said_and_its_check_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gold.csv"
    one = editor(path)
    before = one.view.value
    monkeypatch.setattr(labelling, "_PATIENCE", 0.05)
    with FileLock(f"{path}.lock"):
        one.passed.click()
    assert "Not saved: gold.csv is held by another editor" in one.status.value
    assert one.view.value == before and one.n_labelled == 0 and not path.exists()
    one.passed.click()
    assert one.n_labelled == 1 and "Not saved" not in one.status.value


def test_files_that_are_not_labels_are_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text("attempt,check_id\n")
    with pytest.raises(StoreError, match=r"gold.csv, line 1: there is no column 'attempt_id'; .*"
                       r"Did you mean 'attempt'\?"):  # fmt: skip
        editor(path)
    lines = tmp_path / "gold.jsonl"
    lines.write_text('{"attempt_id": "a"}\n')
    with pytest.raises(StoreError, match=r"gold.jsonl, line 1: expected an object with attempt_id"):
        editor(lines)
    lines.write_text("no json\n{}\n")
    with pytest.raises(StoreError, match=r"line 1: not JSON"):
        editor(lines)


def test_a_word_that_is_no_label_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    editor(path).passed.click()
    path.write_text(path.read_text().replace("true", "ture"))
    with pytest.raises(StoreError, match=r"found 'ture'; allowed: true, false or empty\. Did you"):
        sc.explore.labels(path)
    with pytest.raises(StoreError, match="there is no such file"):
        sc.explore.labels(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"labeller": " "}, StudyError, "labeller: found ' '; allowed: a name."),
        ({"path": "gold.cvs"}, StudyError, r"allowed: a file ending in .csv or .jsonl. Did you"),
    ],
)
def test_wrong_arguments_are_named(
    tmp_path: Path, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        editor(**{"path": tmp_path / "gold.csv"} | changed)


def test_attempts_need_checks(tmp_path: Path) -> None:
    with pytest.raises(FrameError, match="attempts need checks="):
        sc.explore.label(study()["attempts"], path=tmp_path / "g.csv", labeller="ann")


# Sheets


def sheet() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": ["item-1.1", "item-1.2", "item-2.1"],
            "skill": "a",
            "prompt": "A?",
            "answer": ["one", "one", "two"],
            "behaviour": ["Says x.", "Avoids y.", "Says x."],
            "kind": ["must be there", "must be absent", ""],
            "label": "",
            "borderline": "",
            "note": "",
        }
    )


def test_a_sheet_is_labelled_row_by_row_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "ann.csv"
    one = sc.explore.label(sheet(), path=path, labeller="ann")
    one.borderline.value = True
    one.passed.click()
    one.failed.click()
    again = sc.explore.label(sheet(), path=path, labeller="ann")
    assert again.n_labelled == 2
    again.undecided.click()
    kept = pd.read_csv(path, dtype="str", keep_default_na=False).set_index("row")
    assert set(kept.index) == set(sheet()["row"])
    assert kept["label"].tolist() == ["PASS", "FAIL", ""]
    assert kept["borderline"].tolist() == ["yes", "no", "no"]


def test_the_labels_of_a_drawn_sheet_come_back_as_gold(tmp_path: Path) -> None:
    frames = study()
    drawn = sc.reliability.label_sheet(
        frames["attempts"], frames["cases"], frames["checks"], path=tmp_path / "s.csv", n_cases=2
    )
    one = sc.explore.label(drawn, path=tmp_path / "filled.csv", labeller="ann")
    for _ in range(8):
        one.passed.click()
    gold = sc.reliability.read_labels(
        tmp_path / "filled.csv", labeller="ann", key=tmp_path / "s.key.csv"
    )
    assert len(gold) == 8 and gold["passed"].all()
    assert gold["inclusion_probability"].eq(1.0).all()


def test_a_sheet_is_one_labellers_and_goes_to_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "ann.csv"
    sc.explore.label(sheet(), path=path, labeller="ann").passed.click()
    with pytest.raises(StoreError, match="holds labels of 'ann'; give each labeller of a sheet"):
        sc.explore.label(sheet(), path=path, labeller="bob")
    with pytest.raises(StudyError, match=r"labels of a sheet go to a \.csv"):
        sc.explore.label(sheet(), path=tmp_path / "x.jsonl", labeller="ann")
    with pytest.raises(FrameError, match="the sheet has no column 'behaviour'"):
        sc.explore.label(sheet().drop(columns="behaviour"), path=path, labeller="ann")
    with pytest.raises(FrameError, match=r"row 'item-1.1' stands more than once"):
        sc.explore.label(sheet().assign(row="item-1.1"), path=path, labeller="ann")


# The pilot


def test_the_pilots_disagreements_with_gold_can_be_read(pilot: sc.RunStore) -> None:
    verdicts, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    reader = sc.explore.verdicts(verdicts, sc.frames.attempts(pilot), gold)
    reader.filters["gold"].value = "disagrees"
    joined = verdicts.merge(gold, on=["attempt_id", "check_id"], suffixes=("", "_gold"))
    apart = joined[joined["passed"].ne(joined["passed_gold"])]
    assert len(reader.rows) == len(apart) > 0
    reader.filters["grader"].value = "g2"
    assert len(reader.rows) == int(apart["grader"].eq("g2").sum())


def test_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    browser(study()).next.click()
    editor(tmp_path / "gold.csv").passed.click()
    assert capsys.readouterr() == ("", "")
