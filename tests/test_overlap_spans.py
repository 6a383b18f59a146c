"""Shared spans with their places, skills of several files, boilerplate, and other scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.shared_spans import shared_spans

import skillcomp as sc
from skillcomp.errors import FrameError, SkillError
from skillcomp.ngrams import match, tokenize, tokenize_unicode

TEA = "Pour the water over the leaves. Wait for\nfour more minutes, or the tea is weak."


def passages(*texts: str | None, **other: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"text": texts}, dtype="object").assign(skill="tea", level="x", **other)
    return frame.assign(passage_id=[f"p{at}" for at in range(len(texts))])


def test_spans_are_quoted_next_to_their_source_the_longest_first() -> None:
    texts = passages("wait for four more minutes.", "nothing alike", "Pour WATER over all leaves")
    spans = sc.overlap.spans(texts, skills={"tea": TEA}, ngram=2)
    assert spans["passage_id"].tolist() == ["p0", "p2"]
    assert spans["n_tokens"].tolist() == [4, 4]
    assert spans["source"].tolist() == [
        "Wait for\nfour more minutes",
        "Pour the water over the leaves",
    ]
    row = spans.iloc[0]
    assert (row["start"], row["end"], row["source_start"], row["source_end"]) == (0, 26, 32, 58)
    assert pd.isna(row["file"]) and pd.isna(row["attempt_id"])
    assert len(sc.overlap.spans(texts, skills={"tea": TEA}, ngram=2, most=1)) == 1
    nothing = sc.overlap.spans(texts.iloc[[1]], skills={"tea": TEA})
    assert nothing.empty and nothing.dtypes.equals(spans.dtypes)
    with pytest.raises(FrameError, match=r"'tea' .* is not in skills; there: coffee"):
        sc.overlap.spans(texts, skills={"coffee": TEA})
    with pytest.raises(FrameError, match="most: found 0"):
        sc.overlap.spans(texts, skills={"tea": TEA}, most=0)


WORDS = st.sampled_from(["alpha", "Beta", "gamma", "the", "na\u00efve", "\ufb01elds", "x"])
TEXTS = st.lists(WORDS, max_size=14).map(" ".join)


@pytest.mark.filterwarnings("ignore::skillcomp.frames.FrameWarning")
@settings(max_examples=60, deadline=None)
@given(
    own=st.lists(TEXTS, min_size=1, max_size=3),
    files=st.lists(TEXTS.filter(bool), min_size=1, max_size=3),
    prompt=TEXTS,
    form=TEXTS,
    n=st.integers(1, 4),
    tokenizer=st.sampled_from([None, "unicode", str.split]),
)
@example(["alpha alpha alpha"], ["alpha alpha", "alpha alpha alpha"], "", "alpha alpha", 2, None)
def test_spans_are_those_of_every_sequence(
    tmp_path_factory: pytest.TempPathFactory,
    own: list[str],
    files: list[str],
    prompt: str,
    form: str,
    n: int,
    tokenizer: Any,
) -> None:
    folder = tmp_path_factory.mktemp("skill")
    whole = {f"{number}.md": text for number, text in enumerate(files)}
    for name, text in whole.items():
        (folder / name).write_text(text, "utf-8")
    split = {None: tokenize, "unicode": tokenize_unicode}.get(tokenizer, tokenizer)
    frame = passages(*own, question=prompt)
    how: dict[str, Any] = {"skills": {"tea": folder}, "ngram": n, "boilerplate": form}
    spans = sc.overlap.spans(frame, **how, tokenizer=tokenizer)
    shared = sc.overlap.score(frame, **how, tokenizer=tokenizer).set_index("passage_id")
    for number, text in enumerate(own):
        mine = spans[spans["passage_id"].eq(f"p{number}")]
        assert shared["any_shared"].fillna(False)[f"p{number}"] == (len(mine) > 0)
        rows = []
        for row in mine.itertuples():
            assert text[row.start : row.end] == row.span
            assert whole[row.file][row.source_start : row.source_end] == row.source
            assert split(row.span) == split(row.source) and len(split(row.span)) == row.n_tokens
            begin = len(split(text[: row.start]))
            other = len(split(whole[row.file][: row.source_start]))
            rows.append((begin, row.n_tokens, int(row.file[0]), other))
        excluded = [split(prompt), split(form)]
        assert sorted(rows) == sorted(shared_spans(split(text), [*map(split, files)], excluded, n))


def test_long_repeated_texts_are_listed_without_blowing_up() -> None:
    texts = passages("word " * 20_000, "leaf " * 9 + "word " * 20_000)
    spans = sc.overlap.spans(texts, skills={"tea": "word " * 10_000 + "leaf " * 10})
    assert spans["n_tokens"].tolist() == [10_000] * 4 + [9]


def test_a_skill_is_its_whole_folder(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    for name, text in {
        "tea/SKILL.md": "---\nname: tea\n---\nAlways warm the pot first.",
        "tea/references/water.md": "Soft water gives clearer colours than hard water.",
        "tea/evals/answers.md": "Secret answers stand inside this file.",
        "tea/picture.bin": "\0\0\0 binary",
    }.items():
        (skills / name).parent.mkdir(parents=True, exist_ok=True)
        (skills / name).write_text(text)
    (skills / "tea" / "latin.txt").write_bytes(b"\xe9\xe8")
    (skills / "tea" / "utf16.txt").write_bytes("Pour quickly, stir twice.".encode("utf-16"))
    texts = passages("Soft water gives clearer colours.", "Secret answers stand inside this file.",
                     "Warm the pot. Soft water.", "Pour quickly, stir twice.")  # fmt: skip
    how: dict[str, Any] = {"ngram": 3}
    for given_as in (skills, {"tea": skills / "tea"}, skills / "tea"):
        spans = sc.overlap.spans(texts, skills=given_as, **how)
        files = [["p0", "references/water.md"], ["p3", "utf16.txt"]]
        assert spans[["passage_id", "file"]].values.tolist() == files
        assert sc.overlap.score(texts, skills=given_as, **how)["any_shared"].tolist() == [
            *(True, False, False, True)
        ]
    alone = {"tea": skills / "tea" / "SKILL.md"}  # the switch: a file stands for itself
    assert sc.overlap.spans(texts, skills=alone, **how).empty
    read = {"tea": sc.read_skill(skills / "tea")}
    assert sc.overlap.spans(texts, skills=read, **how).empty
    assert sc.overlap.spans(texts, skills=read, ngram=1)["file"].unique().tolist() == ["SKILL.md"]
    made = sc.overlap.positives(skills)
    assert made["text"].str.contains("Soft water").any()
    (tmp_path / "outside.md").write_text("Private words of another file.")
    (skills / "tea" / "link.md").symlink_to(tmp_path / "outside.md")
    with pytest.raises(SkillError, match="the link leads out of tea/"):
        sc.overlap.score(texts, skills=skills)
    with pytest.raises(SkillError, match=r"found no SKILL\.md"):
        sc.overlap.score(texts, skills=tmp_path)
    (skills / "tea" / "link.md").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "SKILL.md").write_text("Private words.")
    (skills / "other").symlink_to(tmp_path / "other")
    with pytest.raises(SkillError, match="the link leads out of skills/"):
        sc.overlap.score(texts, skills=skills)
    with pytest.raises(FrameError, match="skills: found str; allowed: a mapping of slug"):
        sc.overlap.score(texts, skills=str(skills))  # type: ignore[arg-type]


def test_what_everybody_was_given_does_not_count() -> None:
    form = "Answer with evidence from the leaves and name the water."
    skill = {"tea": f"{form} Pour the boiling water over dark leaves slowly."}
    texts = passages(form, f"{form} Pour the boiling water over dark leaves.")
    how: dict[str, Any] = {"skills": skill, "ngram": 3}
    assert sc.overlap.score(texts, **how)["any_shared"].tolist() == [True, True]
    shared = sc.overlap.score(texts, **how, boilerplate=form)
    assert shared["any_shared"].tolist() == [False, True]
    assert sc.overlap.spans(texts, **how, boilerplate=[form])["passage_id"].tolist() == ["p1"]
    answers = pd.DataFrame(
        {"attempt_id": ["a"], "skill": "tea", "case_id": "1", "condition": "skill", "answer": form}
    )
    cases = pd.DataFrame({"skill": ["tea"], "case_id": "1", "prompt": "Why?"})
    how["cases"] = cases
    assert sc.overlap.score(answers, **how)["any_shared"].tolist() == [True]
    assert sc.overlap.score(answers, **how, boilerplate=form)["any_shared"].tolist() == [False]
    with pytest.raises(FrameError, match="boilerplate: found int; allowed: texts"):
        sc.overlap.score(texts, skills=skill, boilerplate=[1])  # type: ignore[list-item]


GREEK = "η θάλασσα είναι βαθιά"
THAI = "น้ำร้อน"
HINDI = "नमस्ते दुनिया"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (GREEK.upper(), 4),
        ("用Python教学。", 4),
        (THAI, 5),  # marks belong to the consonant before
        (HINDI, 2),
        ("… —", 0),
    ],
)
def test_tokens_of_every_script_have_their_places(text: str, tokens: int) -> None:
    words = tokenize_unicode(text)
    assert len(words) == tokens
    assert tokenize_unicode(text.upper()) == tokenize_unicode(text.lower())
    if words:
        found = match([f"abc ­{text} xyz"], [text], [0], n=[tokens], tokenizer="unicode")
        assert found.n_shared.tolist() == [[1]] and found.longest_run.tolist() == [tokens]
        assert tokenize_unicode(found.longest_text[0]) == words


# letters of Greek words, and Chinese characters, to write texts with planted copies
SCRIPTS = {
    "greek": [chr(code) for code in range(0x3B1, 0x3C9) if code != 0x3C2],
    "chinese": [chr(code) for code in range(0x4E00, 0x4E00 + 2000)],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_copies_in_another_script_are_found_and_calibrated(script: str) -> None:
    rng = np.random.default_rng(3)
    letters, blank = SCRIPTS[script], " " if script == "greek" else ""

    def words(n: int) -> list[str]:
        size = 6 if script == "greek" else 1
        return ["".join(rng.choice(letters, size)) for _ in range(n)]

    source = words(400)
    rows = []
    for number in range(140):
        start, copies = int(rng.integers(0, 380)), number % 2
        run = source[start : start + (12 if copies else 2)]
        rows.append([blank.join([*words(15), *run, *words(15)]), number, copies])
    table = pd.DataFrame(rows, columns=["text", "document", "label"]).assign(source="s")
    with pytest.warns(sc.frames.FrameWarning, match="label"):
        own = sc.from_frame(table, document="document", skills={"s": blank.join(source)})
    how: dict[str, Any] = {"passages": own.passages, "skills": own.skills, "n_resamples": 10}
    cut = sc.overlap.calibrate(**how, tokenizer="unicode")
    chosen = cut.query("chosen").iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("any", 12)
    rates = cut[cut["n"].eq(12) & cut["rule"].eq("any")].set_index("measure")["estimate"]
    assert rates["sensitivity"] == 1 and rates["false_flags_fresh"] == 0
    assert cut["tokenizer"].eq("skillcomp.ngrams.tokenize_unicode").all()
    with pytest.warns(sc.frames.FrameWarning, match="100 % of the letters are not ASCII: nothing"):
        lost = sc.overlap.calibrate(**how).query("chosen").iloc[0]
    assert np.isnan(lost["estimate"])
    assert "nothing can be found with this tokenizer; tokenizer='unicode' reads" in lost["note"]
    spans = sc.overlap.spans(own.passages, skills=own.skills, ngram=3, tokenizer="unicode")
    assert spans["passage_id"].nunique() == 70 and spans["n_tokens"].eq(12).all()


def test_texts_with_some_letters_outside_ascii_are_reported_with_their_share() -> None:
    texts = passages("crème brûlée et thé glacé", "plain words", None)
    with pytest.warns(sc.frames.FrameWarning, match="texts: [0-9]+ % .*: words with these letters"):
        shared = sc.overlap.score(texts, skills={"tea": TEA}, ngram=3)
    assert shared["not_ascii"].tolist() == pytest.approx([5 / 21, 0, np.nan], nan_ok=True)
    with pytest.raises(FrameError, match="tokenizer: found 'unicod'; allowed: 'unicode' for"):
        sc.overlap.score(texts, skills={"tea": TEA}, tokenizer="unicod")  # type: ignore[arg-type]
