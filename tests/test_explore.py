"""The explorers without a browser: what they show, and what they keep."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError
from skillcomp.explore import explorer
from skillcomp.grading_rules import normalise_quote
from skillcomp.report.escaped_text import MOST, copied_spans, pieces, quote_spans, visible

HOSTILE = """</div></mark><script>alert(1)</script><img src=x onerror="alert('2')">&lt;b&gt;"""
HOSTILE += " **bold** [link](javascript:alert(3)) $x^2$ {{ 7 * 7 }}"


def study() -> dict[str, pd.DataFrame]:
    """Two skills, a case each, three conditions, two checks, two graders."""
    attempts = pd.DataFrame(
        [(f"{s}/1/{c}", s, f"{s}/1", c, f"The answer of {s}: it's “fine”\nby now.") for s in "ab"
         for c in ("baseline", "placebo", "skill")],
        columns=["attempt_id", "skill", "case_id", "condition", "answer"],
    )  # fmt: skip
    checks = pd.DataFrame(
        [("a", "a/1", "x", "positive", "Says x."), ("a", "a/1", "y", "negative", "Avoids y."),
         ("b", "b/1", "x", "positive", "Says x."), ("b", "b/1", "z", "positive", "Says z.")],
        columns=["skill", "case_id", "check_id", "check_kind", "description"],
    )  # fmt: skip
    asked = attempts.drop(columns="answer").merge(
        checks[["case_id", "check_id", "check_kind"]], on="case_id"
    )
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


def reader_of(
    frames: dict[str, pd.DataFrame], gold: pd.DataFrame | None = None, **more: Any
) -> Any:
    return sc.explore.verdicts(gold=gold, **frames, **more)


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", page.split("</thead>")[1], flags=re.DOTALL)
    texts = [re.findall(r"<td>(.*?)</td>", row, flags=re.DOTALL) for row in rows]
    return [[" ".join(Tags(cell).said.split()) for cell in row] for row in texts]


# Reading verdicts


def labels_of(labeller: str, labels: dict[str, bool | None]) -> pd.DataFrame:
    return pd.DataFrame(
        {"attempt_id": "a/1/skill", "check_id": list(labels), "labeller": labeller,
         "passed": list(labels.values())}
    )  # fmt: skip


def test_the_answers_of_a_case_stand_side_by_side_with_graders_and_gold_as_columns() -> None:
    reader = reader_of(study(), gold=labels_of("ann", {"x": True}))
    assert re.findall(r"<h3><bdi>(\w+)</bdi></h3>", reader.view) == ["baseline", "skill", "placebo"]
    heads = re.findall(r'<th scope="col">(.*?)</th>', reader.view)
    assert [Tags(head).said for head in heads] == ["Check", "Answer", "g0", "g2", "Gold"]
    assert cells(reader.view) == [
        ["Says x. (positive)", "baseline", "✓ pass", "✗ fail", "·"],
        ["", "skill", "✓ pass", "✗ fail", "✓ pass (ann)"],
        ["", "placebo", "✓ pass", "✗ fail", "·"],
    ]
    assert "A?" in reader.view and "Because." in reader.view


def test_the_quote_and_what_stands_in_the_skill_are_marked_in_the_answer() -> None:
    frames = study()
    frames["attempts"]["answer"] = "Before all, “fine” words of careful wisdom count double here."
    frames["verdicts"]["evidence_quote"] = '"fine"  words of careful'
    frames["cases"]["prompt"] = "count double"
    skills = {"a": "Words of careful wisdom count double.", "b": "Other."}
    page = reader_of(frames, skills=skills, ngram=2).view
    answer = page.split("<h3>")[1]
    marked = [
        (kind.split(), html.unescape(text))
        for kind, text in re.findall(r'<mark class="(.*?)">(.*?)</mark>', answer, flags=re.DOTALL)
    ]
    assert marked == [
        (["q"], "“fine” "),
        (["q", "s"], "words of careful"),
        (["s"], " wisdom count"),  # "count double" stands in the prompt
    ]
    assert "2 content words in a row" in page
    frames["verdicts"]["evidence_quote"] = "never said"
    page = reader_of(frames).view
    assert "its quote is not in the answer" in page and "<mark" not in page


def test_filters_leave_the_rows_they_name_and_offer_only_what_is_left() -> None:
    reader = reader_of(study()).choose(skill="b", grader="g2")
    assert set(reader.rows["skill"]) == {"b"} and set(reader.rows["grader"]) == {"g2"}
    assert reader.choices["check_id"].values == [None, "x", "z"]
    reader.choose(check_id="z")
    assert reader.status == "Check 1 of 1 (3 verdicts)"
    reader.choose(skill="a")  # has no check z: back to all checks
    assert reader.choices["check_id"].value is None
    assert reader.status == "Check 1 of 2 (6 verdicts)"


def test_case_10_is_offered_after_case_2() -> None:
    frames = study()
    names = {"a/1": "a/10", "b/1": "a/2"}
    renamed = {k: f.replace({"case_id": names}).assign(skill="a") for k, f in frames.items()}
    assert reader_of(renamed).choices["case_id"].values == [None, "a/2", "a/10"]


def test_filters_that_leave_nothing_say_so_and_can_be_taken_back() -> None:
    reader = reader_of(study()).choose(grader="g0", passed="failed")
    assert "No verdict is left" in reader.status and reader.rows.empty
    reader.do("step", 1)
    reader.choose(passed="passed")
    assert reader.at == 0 and "pass" in reader.view


def test_a_filter_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(StudyError, match=r"no control 'graders'.*Did you mean 'grader'"):
        reader_of(study()).choose(graders="g0")
    with pytest.raises(StudyError, match=r"grader: found 'g3'; allowed: all, g0, g2"):
        reader_of(study()).choose(grader="g3")


def test_what_the_browser_sends_is_not_trusted() -> None:
    reader = reader_of(study())
    before = reader.view
    for sent in (
        None, 1, {}, {"do": 5}, {"do": "no such"}, {"do": "set", "value": "x"},
        {"do": "set", "value": {"name": "skill", "value": 99}},
        {"do": "set", "value": {"name": "skill", "value": "__class__"}},
        {"do": "set", "value": {"name": "nothing", "value": 0}},
    ):  # fmt: skip
        reader.hear(reader, sent)
    assert reader.view == before and not reader.page.alarm


def test_disagreement_with_any_gold_label_is_a_filter() -> None:
    gold = labels_of("ann", {"x": True, "y": False})
    reader = reader_of(study(), gold).choose(gold="disagrees")
    # g0 passes everything and misses the FAIL; g2 fails everything and misses the PASS
    assert sorted(reader.rows[["grader", "check_id"]].values.tolist()) == [["g0", "y"], ["g2", "x"]]
    assert len(reader.choose(gold="agrees").rows) == 2
    assert len(reader.choose(gold="not comparable").rows) == 20
    reader = reader_of(study(), pd.concat([gold, labels_of("bob", {"x": False, "y": True})]))
    assert len(reader.choose(gold="disagrees").rows) == 4
    assert "ann" in reader.view and "bob" in reader.view


def test_a_failed_grader_is_no_verdict_and_never_a_fail() -> None:
    frames = study()
    frames["verdicts"] = frames["verdicts"].assign(status="malformed", passed=None)
    reader = reader_of(frames)
    assert "no verdict (malformed)" in reader.view and "fail" not in Tags(reader.view).said
    assert len(reader.choose(passed="no verdict").rows) == 24


def test_versions_and_rounds_of_one_grader_are_told_apart() -> None:
    frames = study()
    again = frames["verdicts"].assign(round=2)
    frames["verdicts"] = pd.concat([frames["verdicts"].assign(round=1), again], ignore_index=True)
    reader = reader_of(frames)
    names = reader.choices["grader"].values
    assert names == [None, "g0, round 1", "g2, round 1", "g0, round 2", "g2, round 2"]
    reader.choose(grader="g2, round 2")
    assert len(reader.rows) == 12 and "g2, round 2" in reader.view


def test_a_verdict_without_its_attempt_is_shown_without_an_answer() -> None:
    frames = study()
    frames["attempts"] = frames["attempts"].iloc[1:]
    page = reader_of(frames).view
    assert "no answer recorded" in page and len(re.findall("<h3>", page)) == 3


def test_broken_frames_are_refused_by_their_contract() -> None:
    frames = study()
    with pytest.raises(FrameError, match="column 'grader' is missing"):
        sc.explore.verdicts(frames["verdicts"].drop(columns="grader"), frames["attempts"])
    with pytest.raises(FrameError, match="ngram: found 0"):
        reader_of(frames, ngram=0)


# Hostile text


def test_what_a_model_wrote_is_shown_and_never_interpreted() -> None:
    frames = study()
    plain = Tags(reader_of(frames, gold=labels_of("ann", {"x": True})).view)
    for name in ("evidence_quote", "rationale", "grader", "check_id", "case_id", "skill"):
        frames["verdicts"][name] = HOSTILE
    for name in ("case_id", "skill"):
        frames["attempts"][name] = HOSTILE
    frames["verdicts"] = frames["verdicts"].drop_duplicates("attempt_id")
    frames["attempts"]["answer"] = f"before {HOSTILE} after"
    gold = frames["attempts"][["attempt_id"]].assign(
        check_id=HOSTILE, labeller=HOSTILE, passed=True, note=HOSTILE
    )
    reader = reader_of(frames, gold)
    for page in (reader.view, reader.still()):
        shown = Tags(page)
        assert shown.tags <= {*plain.tags, "p"} and shown.attributes <= plain.attributes
        assert "onerror" not in shown.attributes and "href" not in shown.attributes
        assert shown.said.count(HOSTILE) >= 8
    marked = "".join(re.findall(r'<mark class="q ">(.*?)</mark>', reader.view, flags=re.DOTALL))
    assert HOSTILE in html.unescape(marked)


def test_characters_that_hide_or_turn_text_are_named() -> None:
    bad = "a\x00b\x1b[31mc\u202ed\u200be\ufefff\r\ng\rh\ud800i\x7f\x85"
    assert visible(bad) == "a␀b␛[31mc[U+202E]d[U+200B]e[U+FEFF]f\ng\nh\ufffdi␡[U+0085]"
    frames = study()
    frames["attempts"]["answer"] = bad.replace("\ud800", "")
    view = reader_of(frames).view
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b\ufeff]", view)
    json.dumps(view).encode()


def test_a_text_that_would_stall_a_browser_is_cut_and_says_so() -> None:
    frames = study()
    frames["attempts"]["answer"] = "x " * (MOST // 2) + "y" * 1234
    frames["verdicts"]["evidence_quote"] = "x"
    page = reader_of(frames).view
    assert "(1,234 characters more)" in page and page.count("<mark") <= 3 * 500 + 9
    assert len(page) < 4 * MOST


@settings(max_examples=30, deadline=None)
@given(
    st.text("ab \n'’\"“<.*", max_size=30),
    st.text("ab \n'’\"“<.*", max_size=6),
    st.text("ab <", max_size=4),
)
def test_a_quote_is_marked_iff_it_counts_as_found_and_nothing_is_lost(
    answer: str, quote: str, other: str
) -> None:
    parts = pieces(answer, quote_spans(answer, [quote]), quote_spans(answer, [other]))
    assert "".join(part for part, *_ in parts) == answer
    wanted = normalise_quote(quote)
    found = bool(wanted) and wanted in normalise_quote(answer)
    assert any(marked for _, marked, _ in parts) == found
    plain = pieces(answer, quote_spans(answer, [quote]))
    assert all(wanted in normalise_quote(part) for part, marked, _ in plain if marked)


WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "of", "İx", "kilo"]), max_size=12
)


@settings(max_examples=20, deadline=None)
@given(WORDS, WORDS, WORDS, st.integers(1, 4))
def test_what_is_marked_as_shared_is_what_the_overlap_counts(
    answer: list[str], skill: list[str], prompt: list[str], n: int
) -> None:
    text, source, asked = (", ".join(words) for words in (answer, skill, prompt))
    places = copied_spans(text, source, asked, n=n)
    grams = {" ".join(sc.ngrams.tokenize(text[start:end])) for start, end in places}
    assert grams == set(sc.ngrams.shared_ngrams(text, source, n=n, exclude=asked))


# Labelling


def editor(path: Path, frames: dict[str, pd.DataFrame] | None = None, **changed: Any) -> Any:
    given = {"label": True, "store": sc.RunStore(path), "labeller": "ann"} | changed
    return reader_of(frames or study(), **given)


def stored(path: Path, labeller: str = "all") -> pd.DataFrame:
    return sc.frames.gold(sc.RunStore(path), labeller=labeller)


def test_each_label_is_in_the_store_before_the_next_is_asked(tmp_path: Path) -> None:
    one = editor(tmp_path / "labels")
    assert one.status == "0 of 12 labelled"
    one.note = 'a "quoted", note\nof two lines'
    one.do("borderline")
    one.do("label", True)
    first = stored(tmp_path / "labels")
    assert first[["labeller", "passed", "borderline"]].values.tolist() == [["ann", True, True]]
    assert first["note"].tolist() == ['a "quoted", note of two lines']
    assert one.note == "" and not one.borderline
    one.do("label", False)
    one.do("label", None)
    kept = stored(tmp_path / "labels")
    assert kept["passed"].tolist() == [True, False, pd.NA]
    assert kept["inclusion_probability"].isna().all() and one.n_labelled == 3


def test_labelling_resumes_where_it_stopped_whatever_the_order_of_the_frame(
    tmp_path: Path,
) -> None:
    frames = study()
    one = editor(tmp_path, frames)
    one.do("label", True)
    one.do("label", False)
    coming = one.view
    frames["attempts"] = frames["attempts"].iloc[::-1]
    again = editor(tmp_path, frames)
    assert again.view == coming and again.n_labelled == 2
    for _ in range(10):
        again.do("label", True)
    assert again.status.startswith("12 of 12 labelled, all done")
    keys = ["attempt_id", "check_id"]
    items = frames["attempts"].merge(frames["checks"], on="case_id")[keys]
    assert sorted(stored(tmp_path)[keys].values.tolist()) == sorted(items.values.tolist())


def texts_of(widget: Any) -> list[Any]:
    """Return what the browser holds of a widget and of the widgets in it."""
    hidden = ("layout", "comm", "style", "children")
    own = [getattr(widget, name) for name in widget.keys if name[0] != "_" and name not in hidden]
    return own + [text for child in getattr(widget, "children", ()) for text in texts_of(child)]


def test_nothing_tells_condition_attempt_or_grader(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["loaded_skill"] = "placebo-text"
    one = editor(tmp_path, frames)
    for _ in range(9):
        told = json.dumps(texts_of(one), default=str)
        for word in ("baseline", "a/1", "b/1", "placebo", "g0", "g2"):
            assert word not in told
        assert "Says" in one.view or "Avoids" in one.view
        one.do("label", True)


def test_a_label_for_a_check_that_is_no_longer_in_view_is_not_taken(tmp_path: Path) -> None:
    one = editor(tmp_path)
    told = {"do": "label", "value": True, "token": one.page.token, "note": "clear"}
    one.hear(one, told)
    one.hear(one, told)  # the same key again before the next check was drawn
    assert one.n_labelled == 1 and one.note == ""
    assert stored(tmp_path)["note"].tolist() == ["clear"]
    one.hear(one, told | {"value": "yes", "token": one.page.token})
    assert one.n_labelled == 1


def test_filters_narrow_what_is_asked(tmp_path: Path) -> None:
    one = editor(tmp_path).choose(skill="b", check_id="z")
    for _ in range(3):
        one.do("label", True)
    assert set(stored(tmp_path)["check_id"]) == {"z"} and one.n_labelled == 3
    one.choose(state="to label")
    assert "nothing to label" in one.view
    one.do("label", True)
    assert one.n_labelled == 3


def test_two_labellers_share_a_store_and_do_not_see_each_other(tmp_path: Path) -> None:
    ann = editor(tmp_path)
    ann.note = "a secret"
    ann.do("label", True)
    bob = editor(tmp_path, labeller="bob")
    assert bob.n_labelled == 0
    bob.do("label", False)
    ann.do("label", True)
    assert stored(tmp_path)["labeller"].tolist() == ["ann", "bob", "ann"]
    assert stored(tmp_path, "bob")["passed"].tolist() == [False]


def test_the_inclusion_probability_of_an_attempt_is_stored_with_its_label(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["inclusion_probability"] = 0.25
    editor(tmp_path, frames).do("label", True)
    assert stored(tmp_path)["inclusion_probability"].tolist() == [0.25]


def test_attempts_without_an_answer_are_not_asked(tmp_path: Path) -> None:
    frames = study()
    frames["attempts"]["answer"] = [None, " ", "x", "y", None, None]
    assert editor(tmp_path, frames).status == "0 of 4 labelled"
    without_checks = {name: frames[name] for name in ("verdicts", "attempts")}
    assert editor(tmp_path, without_checks).status == "0 of 4 labelled"
    frames["attempts"]["answer"] = None
    none = editor(tmp_path, frames)
    assert "nothing to label" in none.view
    assert "data-do" not in none.view


def test_hostile_answers_are_escaped_in_the_editor(tmp_path: Path) -> None:
    frames = study()
    plain = Tags(editor(tmp_path / "a", frames).view)
    frames["attempts"]["answer"] = HOSTILE
    frames["checks"]["description"] = HOSTILE
    frames["cases"]["prompt"] = HOSTILE
    shown = Tags(editor(tmp_path / "b", frames).view)
    assert shown.tags == plain.tags and shown.said.count(HOSTILE) == 3


def test_a_label_that_cannot_be_written_is_said_and_its_check_stays(tmp_path: Path) -> None:
    one = editor(tmp_path)
    before = one.view
    with sc.RunStore(tmp_path).writer():
        one.do("label", True)
    assert one.page.alarm and one.status.startswith("Not saved: ")
    assert one.view == before and one.n_labelled == 0
    one.do("label", True)
    assert one.n_labelled == 1 and not one.page.alarm


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labeller": " "}, "labeller: found ' '; allowed: a name."),
        ({"labeller": None}, "labeller: found None"),
        ({"store": None}, "store: found None; labels go to a RunStore"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        editor(tmp_path, **changed)


# The threshold on the pilot


@pytest.fixture(scope="module")
def frames(pilot: sc.RunStore, pilot_cases: pd.DataFrame) -> dict[str, Any]:
    return {
        "verdicts": sc.frames.verdicts(pilot),
        "attempts": sc.frames.attempts(pilot),
        "gold": sc.frames.gold(pilot),
        "cases": pilot_cases,
        "checks": sc.frames.checks(pilot),
        "skills": pilot.skills,
    }


@pytest.fixture(scope="module")
def copying(pilot: sc.RunStore, frames: dict[str, Any]) -> dict[str, Any]:
    passages = sc.frames.passages(pilot.path.parent / "corpus" / "copies.jsonl")
    passages = passages[passages["skill"].isin(list(pilot.skills))]
    shared = sc.overlap.score(
        frames["attempts"], skills=pilot.skills, cases=frames["cases"], ngram=[3, 4, 6]
    )
    return {"shared": shared, "passages": passages, "skills": pilot.skills}


def test_the_threshold_shows_the_rates_that_calibrate_gives(
    copying: dict[str, Any], frames: dict[str, Any]
) -> None:
    how = {"attempts": frames["attempts"], "max_false_flags": 0.1}
    cut = sc.overlap.calibrate(**how, n_resamples=5, **copying)
    one = sc.explore.threshold(**how, **copying)
    chosen = cut[cut["chosen"]].iloc[0]
    assert one.choices["n"].value == chosen["n"] and one.choices["cut"].value is None
    rows = cut[cut["rule"].eq("any") & cut["n"].eq(chosen["n"])].set_index("measure")
    for measure in ("sensitivity", "false_flags_baseline", "false_flags_fresh"):
        assert sc.style.interval(rows.loc[measure]) in Tags(one.view).said
    assert one.moved.empty
    before = one.view
    one.choose(n=6)
    assert one.choices["n"].value == 6 and one.view != before and len(one.moved)
    one.do("move", 0)
    assert 'class="s"' in one.view
    one.choose(n=chosen["n"])
    assert one.moved.empty
    one.choose(cut=one.choices["cut"].values[-1]).choose(n=6)
    assert one.choices["cut"].value == max(one.choices["cut"].values[1:])


def characters(text: str) -> list[str]:
    return [c for c in text if not c.isspace()]


def test_the_threshold_keeps_a_tokenizer_of_ones_own() -> None:
    # No text has a token of the default tokenizer.
    skill = "値を絞ってから使うこと。失敗は早く知らせ、記録を残す。"
    passages = pd.DataFrame(
        {
            "passage_id": [f"p{i}" for i in range(40)], "skill": "s",
            "level": ["verbatim"] * 20 + ["fresh"] * 20,
            "text": ["値を絞ってから使う"] * 20 + ["型を決めて渡す方がよい"] * 20,
        }
    )  # fmt: skip
    attempts = pd.DataFrame(
        {
            "attempt_id": [f"a{i}" for i in range(20)], "skill": "s",
            "case_id": [f"s/{i}" for i in range(20)], "condition": "baseline",
            "answer": ["わかりません、難しい問いです"] * 19 + ["いや"],
        }
    )  # fmt: skip
    how = {"skills": {"s": skill}, "tokenizer": characters}
    shared = sc.overlap.score(attempts, ngram=[4, 6], exclude_prompt=False, **how)
    about = {"attempts": attempts, "positive": "verbatim"}
    one = sc.explore.threshold(shared, passages, **how, **about)
    assert one.errors.empty and len(one.texts) == 60
    one.choose(n=6)
    assert one.errors.empty
    with pytest.raises(FrameError, match=r"explore\.threshold: found two tokenizers"):
        sc.explore.threshold(shared, passages, skills=how["skills"], **about)
    spans = copied_spans("まず値を絞ってから。", skill, None, n=4, tokenizer=characters)
    assert spans[0] == (2, 6) and spans[-1][1] == 9


def test_the_threshold_needs_texts(copying: dict[str, Any]) -> None:
    with pytest.raises(FrameError, match="shared has no rows"):
        sc.explore.threshold(**copying | {"shared": copying["shared"].iloc[:0]})
    with pytest.raises(FrameError, match="nulls names 'nope'"):
        sc.explore.threshold(**copying, nulls="nope")


# What stands in a notebook that is not run


def test_a_notebook_that_is_not_run_shows_the_view_without_what_cannot_be_clicked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorers = [reader_of(study()), editor(tmp_path)]
    displayed: list[dict[str, str]] = []
    monkeypatch.setattr(explorer, "display", lambda data, **_: displayed.append(data))
    for one in explorers:
        displayed.clear()
        one._ipython_display_()
        copy, widget = displayed
        assert set(widget) == {"application/vnd.jupyter.widget-view+json"}
        assert copy == {"text/plain": f"{one.title}: {one.status}", "text/html": one.still()}
        shown = Tags(one.still())
        assert not {"button", "select", "input", "img"} & shown.tags
        assert not {"data-do", "style", "tabindex"} & shown.attributes
        assert len(shown.said.split()) > 20 and len(one.still()) < 30_000


def test_the_front_end_asks_nothing_of_the_network() -> None:
    sent = reader_of(study()).page.get_state()
    for text in (sent["_esm"], sent["_css"]):
        assert len(str(text)) > 500
        assert not re.search(r"https?://|//cdn|\bimport\b|fetch\(|XMLHttp|url\(|eval\(", str(text))
