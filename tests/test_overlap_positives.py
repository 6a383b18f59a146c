"""Made-up copies of a skill, and what a calibration on them claims."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from skillcomp.errors import FrameError

TEA = """---
name: tea
description: Brewing of green tea, for people who like it mild.
---

# Tea

Pour the water over the leaves. Wait! Then wait for
four more minutes.

| Table | of | temperatures | here |

- [ ] Warm every cup before the guests arrive.

```
pour --water 80 --into the --pot now
```
"""


def verbatim(copies: pd.DataFrame, n_sentences: int) -> list[str]:
    rows = copies[copies["edit"].eq("none") & copies["n_sentences"].eq(n_sentences)]
    return rows["text"].tolist()


def test_sentences_are_quoted_whole_and_in_order_without_tables_headings_and_code() -> None:
    copies = sc.overlap.positives({"tea": TEA})
    assert verbatim(copies, 1) == [
        "Brewing of green tea, for people who like it mild.",
        "Pour the water over the leaves.",
        "Then wait for four more minutes.",  # "Wait!" alone has fewer than four words
        "Warm every cup before the guests arrive.",
    ]
    assert verbatim(copies, 2) == [
        "Pour the water over the leaves. Wait!",
        "Wait! Then wait for four more minutes.",
    ]


def test_a_stated_share_of_the_words_is_dropped_or_swapped() -> None:
    skill = {"s": " ".join(f"word{i:02d}" for i in range(20)) + "."}
    copies = sc.overlap.positives(skill).set_index(["edit", "edit_rate"])
    source = copies["source_text"].iloc[0].split()
    for rate, n_edited in ((0.1, 2), (0.3, 6)):
        dropped = copies.loc[("dropped", rate), "text"].split()
        assert dropped == [word for word in source if word in dropped]
        assert len(dropped) == 20 - n_edited
        swapped = copies.loc[("swapped", rate), "text"].split()
        assert sorted(swapped) == sorted(source)
        assert sum(a != b for a, b in zip(swapped, source, strict=True)) == n_edited
    assert copies["level"].tolist() == ["verbatim", *["near_copy"] * 4]
    assert copies["made_up"].all() and copies["passage_id"].is_unique


words = st.lists(st.text("abcdeé茶", min_size=1, max_size=9), min_size=4, max_size=30)


@settings(max_examples=40, deadline=None)
@given(words=words, seed=st.integers(0, 10**6))
def test_any_text_gives_the_same_copies_again_and_no_new_word(words: list[str], seed: int) -> None:
    skill = {"s": " ".join(words) + "."}
    copies = sc.overlap.positives(skill, seed=seed)
    pd.testing.assert_frame_equal(copies, sc.overlap.positives(skill, seed=seed))
    for row in copies.itertuples():
        assert row.text and not set(row.text) - set(row.source_text)
        assert row.edit != "none" or row.text == row.source_text


def test_the_copies_of_a_skill_do_not_depend_on_the_other_skills() -> None:
    one, both = (sc.overlap.positives(skills) for skills in ({"t": TEA}, {"s": TEA, "t": TEA}))
    pd.testing.assert_frame_equal(one, both[both["skill"].eq("t")].reset_index(drop=True))


def test_scripts_without_blanks_are_edited_by_character() -> None:
    copies = sc.overlap.positives({"cha": "请把水倒在茶叶上面。等四分钟再喝。"})
    copies = copies[copies["edit_rate"].ne(0.1)]
    assert set(verbatim(copies, 1)) == {"请把水倒在茶叶上面。", "等四分钟再喝。"}
    longer = copies[copies["source_text"].str.len().eq(10)].set_index("edit")["text"]
    assert len(longer["dropped"]) == 7 and sorted(longer["swapped"]) == sorted(longer["none"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skill": {"s": "# Only a heading here\n"}}, "'s' has no sentence .* written by hand"),
        ({"skill": {}}, "there is no skill; give the text of its SKILL.md"),
        ({"skill": "some text"}, "found str; allowed: a mapping of slug"),
        ({"skill": {"s": TEA}, "n_each": 0}, "n_each: found 0; allowed: a whole number"),
        (
            {"skill": {"s": TEA}, "seed": None},
            "seed: found None; allowed: a whole number of at least 0",
        ),
    ],
)
def test_what_cannot_be_quoted_is_named(arguments: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(FrameError, match=message):
        sc.overlap.positives(arguments.pop("skill"), **arguments)


WORDS = [f"word{i:03d}" for i in range(400)]
SKILL = {"s": " ".join(" ".join(WORDS[i : i + 10]) + "." for i in range(0, 400, 10))}


def calibration(shared_words: list[int]) -> pd.DataFrame:
    """Calibrate on made-up copies and baseline answers that share sequences of these lengths."""
    rng = np.random.default_rng(0)
    own = [[f"other{i:04d}" for i in rng.integers(0, 9999, 40)] for _ in shared_words]
    pairs = zip(own, shared_words, strict=True)
    texts = [[*text[:20], *WORDS[3 : 3 + n], *text[20:]] for text, n in pairs]
    attempts = pd.DataFrame({"answer": [" ".join(words) for words in texts]})
    attempts["attempt_id"] = attempts["case_id"] = attempts.index.map("s/{}".format)
    attempts = attempts.assign(skill="s", condition="baseline")
    shared = sc.overlap.score(attempts, skills=SKILL, exclude_prompt=False, ngram=range(3, 9))
    passages = sc.overlap.positives(SKILL)
    passages = passages[passages["n_sentences"].eq(1)]
    how = {"passages": passages, "skills": SKILL, "nulls": "baseline", "n_resamples": 50}
    return sc.overlap.calibrate(shared, attempts, **how)  # type: ignore[arg-type]


def test_the_choice_on_made_up_copies_is_the_shortest_n_that_the_nulls_allow() -> None:
    # 10 of 100 answers share 4 words, which a limit of 5 % refuses; none shares 5
    cut = calibration([4] * 10 + [0] * 90)
    chosen = cut[cut["chosen"]].iloc[0]
    assert (chosen["rule"], chosen["n"]) == ("any", 5) and chosen["ci_low"] < 5
    assert chosen["method"].startswith("shortest n with the upper limit")
    assert set(cut.loc[cut["measure"].ne("auc"), "rule"]) == {"any"}


def test_rates_of_made_up_copies_have_no_interval_and_a_note() -> None:
    cut = calibration([0] * 100)
    found = cut["measure"].isin(["sensitivity", "nested_sensitivity", "auc"])
    rows, nulls = cut[found], cut[cut["measure"].eq("false_flags_baseline")]
    assert rows["estimate"].notna().all() and rows[["ci_low", "ci_high", "se"]].isna().all(
        axis=None
    )
    assert rows["note"].str.contains("made-up copies").all()
    assert nulls["ci_high"].notna().all() and not nulls["note"].str.contains("made-up").any()


def test_the_detection_curve_has_one_row_per_length_and_edit_without_an_interval() -> None:
    skill = {"s": " ".join(WORDS[:8]) + "."}  # eight tokens: one dropped word leaves seven
    copies = sc.overlap.positives(skill)
    copies = copies[copies["edit_rate"].ne(0.3)]
    curve = sc.overlap.positives_found(copies, skills=skill, ngram=[7, 8])
    curve = curve.set_index(["edit", "n"])
    assert curve.loc["none", "estimate"].tolist() == [1, 1]
    assert curve.loc[("dropped", 8), "estimate"] == 0  # too short counts as missed
    names = ["quoted whole", "10 % of words dropped", "10 % of words swapped"]
    assert curve["copy"].unique().tolist() == names
    assert curve[["ci_low", "ci_high"]].isna().all(axis=None)
    with pytest.raises(FrameError, match="there is no column 'n_sentences'"):
        sc.overlap.positives_found(
            pd.DataFrame({"passage_id": ["p"], "skill": "s", "level": "v", "text": "t"}),
            skills=skill,
        )


def test_the_passages_of_a_study_are_in_its_folder_or_next_to_it(tmp_path: Path) -> None:
    store = sc.datasets.load("pilot")
    beside = sc.frames.passages(store)
    assert len(beside) == 360 and set(beside["skill"]) == set(store.skills)
    folder = tmp_path / "own"
    shutil.copytree(store.path, folder)
    assert sc.frames.passages(sc.RunStore(folder)).empty
    row = {"passage_id": "1", "skill": "type-safety", "document": "d", "level": "fresh"}
    (folder / "passages.jsonl").write_text(json.dumps({**row, "text": "Own words."}) + "\n")
    assert sc.frames.passages(sc.RunStore(folder))["passage_id"].tolist() == ["1"]


def test_a_skill_in_another_alphabet_needs_a_tokenizer() -> None:
    skills = {"cha": "# 茶\n\n将热水倒在茶叶上。等待四分钟。茶叶会在水中慢慢展开！"}
    rows = {"attempt_id": ["a", "b"], "skill": "cha", "case_id": ["1", "2"]}
    answers = pd.DataFrame(rows).assign(condition="baseline", answer="等待四分钟。")
    made = sc.overlap.positives(skills, n_each=2)
    lost = "texts: 100 % of the letters are not ASCII: nothing can be found"
    with pytest.warns(sc.frames.FrameWarning, match=lost):
        shared = sc.overlap.score(answers, skills=skills, exclude_prompt=False, ngram=[3, 6])
    how = {"skills": skills, "nulls": "baseline", "n_resamples": 20}
    with pytest.warns(sc.frames.FrameWarning, match="skills: 100 % of the letters"):
        cut = sc.overlap.calibrate(shared, answers, passages=made, **how)
    (sentence,) = sc.report.sentences(cut)
    assert (
        "every copy has fewer than 3 tokens" in sentence and "tokenizer='unicode' here" in sentence
    )
