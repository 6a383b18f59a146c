"""What attempts and passages share with their skill, as a frame."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from skillcomp.errors import FrameError
from skillcomp.overlap import score

SKILLS = {
    "types": "Always narrow unknown values before they leak further inside.",
    "retry": "Once.",
}
COLUMNS = [
    *("kind", "attempt_id", "passage_id", "skill", "case_id", "condition", "repeat", "document"),
    *("level", "made_up", "n", "any_shared", "n_shared", "n_distinct", "share", "longest_run"),
    *("longest_text", "n_tokens", "not_ascii", "tokenizer"),
]


def attempts(*answers: str | None, **other: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"answer": answers}, dtype=object).rename_axis("row").reset_index()
    names = "types/1/skill/" + (frame["row"] + 1).astype(str)
    same = {"skill": "types", "case_id": "types/1", "condition": "skill", **other}
    return frame.assign(attempt_id=names, repeat=frame.pop("row") + 1, **same)


def cases(prompt: str | None = "What is it?") -> pd.DataFrame:
    return pd.DataFrame({"skill": ["types"], "case_id": ["types/1"], "prompt": [prompt]})


def test_one_row_per_text_and_length_with_the_columns_of_the_docstring() -> None:
    found = score(
        attempts("Narrow the unknown values!", "No."), skills=SKILLS, cases=cases(), ngram=[2, 3]
    )
    assert found.columns.tolist() == COLUMNS
    assert found["n"].tolist() == [2, 3, 2, 3]
    assert found["kind"].eq("attempt").all()
    assert found["passage_id"].isna().all() and found["level"].isna().all()
    assert found["any_shared"].tolist() == [True, True, pd.NA, pd.NA]
    assert found["n_shared"].tolist() == [2, 1, pd.NA, pd.NA]
    assert found["n_distinct"].tolist() == [2, 1, 0, 0]
    assert found["longest_run"].tolist() == [3, 3, 0, 0]
    assert found["longest_text"].tolist() == ["Narrow the unknown values"] * 2 + [""] * 2


def test_a_text_without_ngrams_is_too_short_to_judge() -> None:
    found = score(attempts("narrow"), skills=SKILLS, cases=cases(), ngram=[1, 2])
    assert found["share"].iloc[0] == 1.0
    assert pd.isna(found["share"].iloc[1])
    assert found["any_shared"].tolist() == [True, pd.NA]
    found = score(attempts("42;", "x <- 1"), skills=SKILLS, cases=cases(), ngram=[1])
    assert found["any_shared"].isna().all() and found["n_tokens"].eq(0).all()


def test_a_missing_answer_is_unknown_and_never_false() -> None:
    found = score(attempts(None, ""), skills=SKILLS, cases=cases(), ngram=[3])
    counted = ["any_shared", "n_shared", "n_distinct", "share", "longest_run", "longest_text"]
    assert found.loc[0, [*counted, "n_tokens"]].isna().all()
    assert pd.isna(found.loc[1, "any_shared"])
    assert found.loc[1, "n_tokens"] == 0


def test_dtypes_are_the_same_when_there_are_no_texts_or_answers() -> None:
    dtypes = score(attempts("narrow"), skills=SKILLS, cases=cases()).dtypes.to_dict()
    for texts in (attempts("narrow").iloc[:0], attempts(None)):
        assert score(texts, skills=SKILLS, cases=cases()).dtypes.to_dict() == dtypes


def test_what_stands_in_the_prompt_does_not_count() -> None:
    # Shared 2-grams: narrow unknown, unknown values, values leak. The prompt holds the first two.
    answer = attempts("narrow unknown values leak")
    asked = cases("Why narrow unknown values?")
    found = score(answer, skills=SKILLS, cases=asked, ngram=[2, 3, 4])
    assert found["n_shared"].tolist() == [1, 1, 1]
    # The denominator stays the whole text: 3 distinct 2-grams.
    assert found["share"].iloc[0] == pytest.approx(1 / 3)
    # The run as a whole is longer than what the prompt holds.
    assert found["longest_run"].iloc[0] == 4
    counted = score(answer, skills=SKILLS, ngram=[2], exclude_prompt=False)
    assert counted["n_shared"].tolist() == [3]


def test_a_placebo_answer_is_compared_with_its_cases_skill_not_the_one_loaded() -> None:
    skills = {**SKILLS, "retry": "repeat safely after failure"}
    texts = attempts("repeat safely after failure", condition="placebo", loaded_skill="retry")
    assert not score(texts, skills=skills, cases=cases(), ngram=[2])["any_shared"].any()


def test_passages_need_no_prompt_and_keep_document_and_level() -> None:
    passages = pd.DataFrame(
        {
            "passage_id": ["p1"], "skill": ["types"], "document": ["types/what"],
            "level": ["verbatim"], "text": [SKILLS["types"]],
        }
    )  # fmt: skip
    found = score(passages, skills=SKILLS)
    assert found["kind"].eq("passage").all() and found["attempt_id"].isna().all()
    assert found[["document", "level"]].drop_duplicates().values.tolist() == [
        ["types/what", "verbatim"]
    ]
    # narrow unknown values leak further inside always: 7 content tokens, all shared.
    assert found["n_tokens"].eq(7).all() and found["longest_run"].eq(7).all()
    assert found.loc[found["n"].le(7), "share"].eq(1.0).all()
    assert found.loc[found["n"].gt(7), "share"].isna().all()


def test_what_stands_in_a_passages_question_does_not_count() -> None:
    passages = pd.DataFrame(
        {
            "passage_id": ["p1", "p2"], "skill": "types", "level": "fresh",
            "text": ["narrow unknown values leak"] * 2,
            "question": ["Why narrow unknown values?", None],
        }
    )  # fmt: skip
    # Shared 2-grams: narrow unknown, unknown values, values leak. The question holds the first two.
    found = score(passages, skills=SKILLS, ngram=2)
    assert found["n_shared"].tolist() == [1, 3]
    assert found["share"].tolist() == pytest.approx([1 / 3, 1])
    counted = score(passages, skills=SKILLS, ngram=2, exclude_prompt=False)
    assert counted["n_shared"].tolist() == [3, 3]
    without = score(passages.drop(columns="question"), skills=SKILLS, ngram=2)
    pd.testing.assert_frame_equal(without, counted)
    with pytest.raises(FrameError, match="column 'question': found 7; allowed: text, or missing"):
        score(passages.assign(question=7), skills=SKILLS, ngram=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cases": None}, r"exclude_prompt=True .* give cases=, or exclude_prompt=False"),
        ({"cases": cases(None)}, r"'types/1' has no prompt in cases"),
        (
            {"skills": {"typos": "a"}},
            r"'types' \(1 row\), which is not in skills; there: typos. Did",
        ),
        ({"skills": {"types": __file__}}, r"names a file or folder; .* pathlib\.Path\("),
        ({"skills": {"types": " "}}, r"skills\['types'\]: found str without text"),
        ({"texts": cases()}, r"found none of the two among: skill, case_id, prompt"),
        ({"texts": attempts("a").assign(passage_id="p")}, r"found both among"),
        ({"texts": attempts("a").drop(columns="answer")}, r"attempts: there is no column 'answer'"),
        ({"texts": attempts("a").assign(case_id="types/01")}, r"'types/01' is not in cases .* Did"),
        ({"texts": pd.concat([attempts("a")] * 2)}, r"2 rows share a key"),
        ({"ngram": "3"}, r"ngram: found '3'; allowed are whole numbers of at least 1"),
        ({"ngram": 3.5}, r"ngram: found 3.5; allowed are whole numbers of at least 1"),
        ({"texts": ["a text"]}, r"expected a pandas DataFrame, found list"),
    ],
)
def test_what_cannot_be_scored_is_named(change: dict[str, Any], message: str) -> None:
    given = {"texts": attempts("a"), "skills": SKILLS, "cases": cases(), **change}
    with pytest.raises(FrameError, match=message):
        score(given.pop("texts"), **given)
