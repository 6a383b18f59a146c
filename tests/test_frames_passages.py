import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

SOURCES = {"a": "Always narrow unknown values before they are decoded.",
           "b": "Pour the boiling water slowly over the dark leaves."}  # fmt: skip
NAMED = pd.DataFrame(
    {
        "id": ["a", "a", "b", "b"],
        "words": ["They narrow unknown values.", "None of it.", "Pour slowly.", "Leaves are dark."],
        "degree": ["cut", "non", "light", "heavy"],
    }
)
HOW: dict[str, Any] = {"text": "words", "source": "id", "level": "degree"}


def read(table: pd.DataFrame, **how: Any) -> sc.frames.Frames:
    with pytest.warns(sc.frames.FrameWarning):
        return sc.from_frame(table, **how)


def test_named_sources_and_the_words_of_clough_and_stevenson() -> None:
    own = read(NAMED, **HOW, skills=SOURCES)
    levels = ["near_copy", "fresh", "light_revision", "heavy_revision"]
    assert own.passages["level"].tolist() == levels
    assert own.passages["passage_id"].tolist() == ["a/1", "a/2", "b/3", "b/4"]
    assert own.passages["document"].tolist() == own.passages["skill"].tolist() == [*"aabb"]
    assert own.skills == SOURCES and repr(own) == "Frames(2 sources, 4 passages)"
    assert own.problems["found"].tolist() == ["'cut'", "'non'", "'light'", "'heavy'"]
    assert own.columns == HOW


def test_sources_may_be_texts_or_rows_of_the_table() -> None:
    texts = NAMED.assign(id=NAMED["id"].map(SOURCES))
    own = read(texts, **HOW)
    assert own.skills == {"source 1": SOURCES["a"], "source 2": SOURCES["b"]}
    assert own.passages["skill"].tolist() == ["source 1"] * 2 + ["source 2"] * 2
    rows = pd.DataFrame({"id": ["a", "b"], "words": SOURCES.values(), "degree": "orig"})
    own = read(pd.concat([NAMED, rows]), **HOW)
    assert own.skills == SOURCES and len(own.passages) == 4
    with pytest.raises(FrameError, match="several rows are the text of source 'a'"):
        sc.from_frame(pd.concat([NAMED, rows, rows]), **HOW)


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        (["copied", "fresh"] * 2, ["copied", "fresh"]),
        (["Yes", "no"] * 2, ["copied", "fresh"]),
        ([1, 0] * 2, ["copied", "fresh"]),
        ([True, False] * 2, ["copied", "fresh"]),
        (["plagiarised", "non-plagiarised"] * 2, ["copied", "fresh"]),
        (["near_copy", "heavy revision"] * 2, ["near_copy", "heavy_revision"]),
    ],
)
def test_usual_words_are_read(words: list[Any], levels: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        own = sc.from_frame(NAMED.assign(degree=words), **HOW, skills=SOURCES)
    assert own.passages["level"].tolist() == levels * 2


def test_your_words_need_a_meaning_that_only_you_know() -> None:
    table = NAMED.assign(degree=["borrowed", "own", "borrowed", "own"])
    with pytest.raises(FrameError) as error:
        sc.from_frame(table, **HOW, skills=SOURCES)
    assert "found 'borrowed' (2 rows), 'own' (2 rows); allowed: copied or fresh" in str(error.value)
    assert "words={'level': {'borrowed': ..., 'own': ...}} says what they mean" in str(error.value)
    names = {"borrowed": "copied", "own": "fresh"}
    own = sc.from_frame(table, **HOW, skills=SOURCES, words={"level": names})  # without a warning
    assert own.passages["level"].tolist() == ["copied", "fresh"] * 2
    own = read(table, **HOW, skills=SOURCES, words={"level": names | {"own": None}})
    assert len(own.passages) == 2
    none = NAMED.assign(degree=["cut", "none", "light", "none"])  # no copy, or no label?
    with pytest.raises(FrameError, match=r"found 'none'.*words=.* says what it means"):
        sc.from_frame(none, **HOW, skills=SOURCES)


def test_truth_values_are_not_read_against_the_name_of_their_column() -> None:
    table = NAMED.assign(is_original=[1, 0, 1, 0])
    with pytest.raises(
        FrameError,
        match=r"'is_original' \(level=\): found 1 and 0, and the name leaves open what they mean: "
        r"words={'level': {1: 'copied', 0: 'fresh'}} or words={'level': {1: 'fresh'",
    ):
        sc.from_frame(table, **HOW | {"level": "is_original"}, skills=SOURCES)


@pytest.mark.parametrize(
    ("table", "how", "message"),
    [
        (NAMED, {"level": "degre"}, "there is no column 'degre' (level=).*'degree'?.*Columns: "),
        (NAMED, {}, "found 2 names, such as 'a'; .*with skills=, the texts by name"),
        (NAMED, {"skills": {"a": "x", "bb": "y"}}, "'b' (2 rows) has no text in skills=; there"),
        (NAMED, {"skills": {"a": "x", "b": " "}}, "skills=: 'b' has no text"),
        (NAMED, {"skills": {"a": 1}}, "skills=: found 1 for 'a'"),
        (NAMED, {"text": ["a"]}, "text=: found a list; expected the name of a column"),
        (NAMED.assign(id=None), {"skills": SOURCES}, "missing in 4 rows"),
        (NAMED.assign(words=None), {"skills": SOURCES}, "no row has both a text and a level"),
        (NAMED, {"skills": SOURCES, "words": {"level": {"cut": "x"}}}, "words=: found 'x' for"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read_are_named(table, how, message):
    pattern = "(?s)" + re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(FrameError, match=pattern):
        sc.from_frame(table, **HOW | how)


def test_rows_without_text_or_label_are_left_out_and_counted() -> None:
    table = NAMED.assign(words=["x", None, "", "z"], degree=["cut", "non", "light", None])
    own = read(table, **HOW, skills=SOURCES)
    assert own.passages["passage_id"].tolist() == ["a/1"]
    rows = own.problems[own.problems["done"].eq("row left out")]
    assert rows[["found", "n"]].values.tolist() == [["missing", 2], ["missing", 1]]


def test_a_code_for_no_label_is_missing_if_the_argument_says_so() -> None:
    table = NAMED.assign(degree=["cut", "-9", "light", "heavy"])
    with pytest.raises(FrameError, match=r"words=.*'-9': .* says what it means"):
        sc.from_frame(table, **HOW, skills=SOURCES)
    assert len(read(table, **HOW, skills=SOURCES, missing=["-9"]).passages) == 3


def test_saved_passages_keep_their_sources(tmp_path: Path) -> None:
    own = read(NAMED.assign(topic=[1, 2, 1, 2]), **HOW, skills=SOURCES, document="topic")
    assert own.passages["document"].tolist() == ["a/1", "a/2", "b/1", "b/2"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        again = sc.read_results(own.save(tmp_path / "corpus"))
    pd.testing.assert_frame_equal(again.passages, own.passages)
    assert again.skills == SOURCES
    assert sc.RunStore(tmp_path / "corpus").skills["a"].text == SOURCES["a"]
    both = sc.frames.concat({"may": own, "june": own})
    assert both.skills == SOURCES and len(both.passages) == 8
