"""Perturbed copies keep the content, touch no code and are the same every time."""

from __future__ import annotations

import hashlib
import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillcomp as sc
from benchmarks import simulated
from skillcomp.bias import features_and_perturbations as module
from skillcomp.bias.features_and_perturbations import ORIGINAL, parts
from skillcomp.errors import FrameError

KINDS = ["pad", "hedge", "reorder", "confident", "approve", "disapprove", "bullets", "identical"]
# for each kind, the copies of the pilot before `bullets` was added: their number and a hash
RECORDED = {
    "pad": (420, "8c2ae8531ced96bb"),
    "hedge": (420, "619aab888798fb8d"),
    "reorder": (264, "10815e42d96f6c1b"),
    "confident": (420, "47b68d7fee8a11e4"),
    "approve": (420, "66249690f210d312"),
    "disapprove": (420, "8245b48ff0e9d9b8"),
}
ADDED = (
    "perhaps|I think|it seems|probably|certainly|without question|beyond any doubt|"
    "of that there is no doubt"
)
ANSWER = """The key is the row. It is stored once. Look at `a. B` here.

# Parts

- Cost is low.
- Risk is high, e.g. on Mondays.
  It falls later.
- Time is short.

```python
x = 1. # Keep. This
- not a bullet
```

1. First, stop.
2. Then start.

> Quoted. Never changed.

| a. | B. |
"""


def attempts(*answers: str | None) -> pd.DataFrame:
    frame = pd.DataFrame({"answer": answers, "skill": "s", "condition": "skill"}, dtype=object)
    numbers = frame.index.astype(str)
    status = np.where(frame["answer"].isna(), "error", "ok")
    calls = {"output_tokens": 10, "cost_usd": 0.1}
    return frame.assign(attempt_id="a" + numbers, case_id="s/" + numbers, status=status, **calls)


def changed(answer: str, kind: str) -> str:
    return sc.bias.perturb(attempts(answer), kind=kind)["answer"].iloc[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_names_its_source_and_carries_no_cost(kind: str) -> None:
    frame = sc.bias.perturb(attempts(ANSWER), kind=kind)
    row = frame.iloc[0]
    assert row["attempt_id"] == f"a0/{kind}"
    assert row["source_attempt_id"] == "a0" and row["perturbation"] == kind
    assert row["n_words"] == len(row["answer"].split())
    assert pd.isna(row["output_tokens"]) and pd.isna(row["cost_usd"])
    pd.testing.assert_frame_equal(frame, sc.frames.check(frame, "attempts"))


@pytest.mark.parametrize("kind", KINDS)
def test_code_quotations_and_tables_stay_as_they_are(kind: str) -> None:
    answer = changed(ANSWER, kind)
    for block in (
        "```python\nx = 1. # Keep. This\n- not a bullet\n```",
        "> Quoted. Never changed.",
        "| a. | B. |",
        "`a. B`",
        "1. First, stop",
    ):
        assert block in answer


def test_every_other_sentence_is_marked_and_abbreviations_are_none() -> None:
    answer = changed("One is. Two are, e.g. Three. Four sit. Five go. It is 2.5 long", "hedge")
    # sentences end after is, Three, sit and go; the first and third are marked
    assert len(re.findall(ADDED, answer)) == 2
    assert re.match(
        rf"One is, (?:{ADDED})\. Two are, e\.g\. Three\. Four sit, (?:{ADDED})\.", answer
    )


def test_bullets_are_reversed_with_the_lines_under_them() -> None:
    lines = changed(ANSWER, "reorder").split("\n")
    at = lines.index("- Time is short.")
    assert lines[at + 1 : at + 4] == [
        "- Risk is high, e.g. on Mondays.",
        "  It falls later.",
        "- Cost is low.",
    ]
    assert sorted(lines) == sorted(ANSWER.split("\n"))


def test_what_leans_on_its_neighbour_keeps_its_place() -> None:
    assert sc.bias.perturb(attempts("- Stop.\n- Then go."), kind="reorder").empty
    assert sc.bias.perturb(attempts("1. Stop.\n2. Go."), kind="reorder").empty
    assert sc.bias.perturb(attempts("One.\n\nTwo.\n\nThree."), kind="reorder").empty


def test_labelled_paragraphs_are_reversed_where_no_list_can_be() -> None:
    answer = changed("So.\n\n**Cost.** It is low.\n\n**Risk.** It is high.\n\nDone.", "reorder")
    assert answer == "So.\n\n**Risk.** It is high.\n\n**Cost.** It is low.\n\nDone."


LINE = st.sampled_from(
    ["", "- one item.", "  under it.", "* Star", "1. First.", "Plain text. More.", "```", "# Head",
     "> said. So", "    code. Here", "**Cost.** Low. It is.", "| a | b |", "- then last.", "~~~"]
)  # fmt: skip


@settings(max_examples=5, deadline=None)
@given(st.lists(LINE, min_size=1, max_size=14))
def test_parts_join_to_the_answer_and_changes_lose_nothing(lines: list[str]) -> None:
    answer = "\n".join(lines)
    assert "\n".join(part.text for part in parts(answer)) == answer
    fixed = [part.text for part in parts(answer) if part.kind == "fixed"]
    for kind in KINDS:
        frame = sc.bias.perturb(attempts(answer), kind=kind)
        pd.testing.assert_frame_equal(frame, sc.bias.perturb(attempts(answer), kind=kind))
        for new in frame["answer"]:
            plain = re.sub(f", (?:{ADDED})(?=\\.)", "", new)
            if kind in ("pad", "approve", "disapprove", "identical"):
                assert answer in plain
            elif kind == "bullets":
                assert new != answer and [p.text for p in parts(new) if p.kind == "fixed"] == fixed
                assert re.sub(r"[-\s]", "", new) == re.sub(r"[-\s]", "", answer)
            else:
                assert sorted(plain.split("\n")) == sorted(lines)
            if kind in ("hedge", "confident"):
                assert plain == answer
                assert [p.text for p in parts(new) if p.kind == "fixed"] == fixed


def words(text: str) -> list[str]:
    return sorted(re.findall(r"\w+", text))


def without_phrases(answer: str, kind: str) -> str:
    for phrase in module.INSERTED.get(kind, ()):
        answer = answer.replace(phrase, "")
    return answer


@pytest.fixture(scope="module")
def pilot() -> pd.DataFrame:
    return sc.frames.attempts(sc.datasets.load("pilot"), perturbation="all")


def test_recorded_copies_are_made_again_byte_for_byte() -> None:
    frame = sc.frames.attempts(sc.datasets.load("worked_example"), perturbation="all")
    for kind in ("approve", "disapprove"):
        recorded = frame[frame["perturbation"].eq(kind)].set_index("source_attempt_id")["answer"]
        made = sc.bias.perturb(frame, kind=kind).set_index("source_attempt_id")["answer"]
        assert made.to_dict() == recorded.to_dict() and len(made) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_the_pilot_have_the_words_of_their_originals(
    kind: str, pilot: pd.DataFrame
) -> None:
    copies = sc.bias.perturb(pilot, kind=kind)
    texts = "\0".join(copies["answer"])
    found = (len(copies), hashlib.sha256(texts.encode()).hexdigest()[:16])
    assert found == RECORDED.get(kind, found)
    originals = pilot.set_index("attempt_id")["answer"]
    for source, copy in zip(copies["source_attempt_id"], copies["answer"], strict=True):
        original = originals[source]
        assert words(without_phrases(copy, kind)) == words(without_phrases(original, kind))
        assert kind != "identical" or copy == original
    if kind == "bullets":
        assert len(copies) > 300


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80) | st.lists(LINE | st.text(max_size=12), max_size=12).map("\n".join))
def test_no_copy_of_any_text_fails_the_check(answer: str) -> None:
    for kind in KINDS:
        copy = module.CHANGES[kind](answer, len(answer))
        assert module.keeps_words(answer, copy, kind)
        if kind in ("bullets", "reorder", "identical"):
            assert words(copy) == words(answer)


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("It does cost 2.5, says Ann.", "bullets"),
        ("It does not cost 3.5, says Ann.", "hedge"),
        ("It does not cost 2.5, says Bob.", "reorder"),
        ("It does not cost 2.5, says Ann, without a doubt.", "confident"),
        ("It does not cost 2.5,  says Ann.", "identical"),
    ],
)
def test_a_copy_with_other_words_is_left_out_with_a_warning(
    copy: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.CHANGES, kind, lambda answer, seed: copy)
    frame = attempts("It does not cost 2.5, says Ann.")
    with pytest.warns(sc.frames.FrameWarning, match="1 answer without a copy .* 'a0'"):
        assert sc.bias.perturb(frame, kind=kind).empty


def test_an_inserted_without_question_is_no_negation() -> None:
    original = "It works. It stays, without a change."
    assert module.keeps_words(
        original, original.replace("ks.", "ks, without question."), "confident"
    )


@pytest.mark.parametrize(
    ("answer", "copy"),
    [
        ("It is. No. Is it? Yes!", "- It is.\n- No.\n- Is it?\n- Yes!"),
        ("# A. B\nIt is, e.g. Two\nlines. Three.", "# A. B\n- It is, e.g. Two\n  lines.\n- Three."),
        ('A "B. C" (D. E) `f. G` **H. I** so. No.', '- A "B. C" (D. E) `f. G` **H. I** so.\n- No.'),
        ("A is 2.5. B", "- A is 2.5.\n- B"),
        ("水很高。使用 Python！", "- 水很高。\n- 使用 Python！"),
        ("Es gilt z. B. Das bzw. Dies. Über uns.", "- Es gilt z. B. Das bzw. Dies.\n- Über uns."),
    ],
)  # fmt: skip
def test_a_paragraph_becomes_a_list_with_one_sentence_an_item(answer: str, copy: str) -> None:
    assert changed(answer, "bullets") == copy


@pytest.mark.parametrize(
    "answer",
    ["One sentence.", "- A. B.\n- C. D.", "> A. B.", "```\nA. B.\n```", "| A. | B. C. |", "# A. B.",
     "Go on. Do this:\n\n```\nx\n```", "So. It is.\n\n- cost", "- cost\n\nSo. It is.",
     "1. a\n\n   So. It is.\n\n   And. It was.", "Go on. Look.\n| a |", ""],
)  # fmt: skip
def test_other_text_gets_no_list(answer: str) -> None:
    assert sc.bias.perturb(attempts(answer), kind="bullets").empty


GERMAN = "Der Preis ist hoch, und das Risiko wird nicht kleiner. Es hilft aber auch sonst."
FRENCH = "Le prix est haut, et les risques ne sont pas petits. Il faut une clé dans la table."
SPANISH = "El precio es alto y los riesgos no son pequeños. Se guarda una clave por fila."
CHINESE = "价格很高，风险也不小。使用 `key` 和 Python 来保存。"


@pytest.mark.parametrize("answer", [GERMAN, FRENCH, SPANISH, CHINESE])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_that_insert_english_are_refused_for_other_languages(answer: str, kind: str) -> None:
    frame = attempts("It is a key.", answer, "Yes.", answer)
    if kind in ("reorder", "bullets", "identical"):
        sc.bias.perturb(frame, kind=kind)
        return
    told = r"2 of 4 answers .* attempt 'a1'.*: reorder, bullets, identical\."
    with pytest.raises(FrameError, match=told):
        sc.bias.perturb(frame, kind=kind)


def test_short_english_code_and_recorded_answers_are_not_refused(pilot: pd.DataFrame) -> None:
    code = "```python\nder = das + und + ist + ein\n```\nRun it."
    short = ["Yes.", "Los Angeles", "The MIT license of Smith et al.", "x = 1", "", "42", code]
    assert len(sc.bias.perturb(attempts(*short), kind="pad")) == len(short)
    execution = sc.frames.attempts(sc.datasets.load("execution"))
    assert len(sc.bias.perturb(execution, kind="pad")) == execution["answer"].notna().sum()


def through_csv(table: pd.DataFrame) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_come_back_through_a_csv_file_and_the_door(kind: str, pilot: pd.DataFrame) -> None:
    cases = sc.frames.cases(sc.datasets.load("pilot"))
    some = pilot[pilot["repeat"].eq(1)].merge(cases[["skill", "case_id", "prompt"]])
    table = through_csv(sc.bias.copy_pairs(some, kind=kind))
    copies = sc.bias.perturb(some, kind=kind)
    assert len(table) == 2 * len(copies) and table["winner"].isna().all()
    assert table["row_id"].tolist()[:2] == [copies["attempt_id"].iloc[0] + e for e in ("/1", "/2")]
    assert table["prompt"].notna().all()
    # one judge prefers the copies, the other what is shown first
    own = table.assign(winner=kind, judge="own")
    first = table.assign(winner="model_a", judge="first")
    made = sc.from_frame(through_csv(pd.concat([own, first])))
    assert set(made.pairwise["skill"]) == set(copies["skill"])
    assert set(made.pairwise["case_id"]) == set(copies["case_id"])
    rates = sc.bias.win_rates(made.pairwise, made.attempts, by="grader", reference=ORIGINAL)
    found = sc.bias.position(made.pairwise, by="grader", cases=cases)
    found = found.set_index(["grader", "measure"])["estimate"]
    if kind == "identical":
        assert rates.empty
        assert found["first", "first_wins_if_identical"] == 1
        assert found["own", "first_wins_if_identical"] == 0.5
        assert found["own", "ties_if_identical"] == 0
    else:
        assert rates["side"].eq(kind).all() and rates["opponent"].eq(ORIGINAL).all()
        assert rates.set_index("grader")["estimate"].to_dict() == {"first": 0.5, "own": 1}
        assert found["first", "position_points"] == 100 and found["own", "position_points"] == 0


def test_equal_pairs_of_a_case_are_compared_once() -> None:
    frame = attempts("A is. B is.", "A is. B is.", "C is. D is.").assign(case_id="s/1")
    frame["repeat"] = [1, 2, 3]
    table = sc.bias.copy_pairs(frame, kind="bullets")
    assert table["row_id"].str[:2].tolist() == ["a0", "a0", "a2", "a2"] and "prompt" not in table
    made = sc.from_frame(table.assign(winner="tie"))
    assert sc.bias.position(made.pairwise)["n"].iloc[0] == 2


def test_features_of_an_answer_by_hand() -> None:
    # prose: 12 words with two bullets, the code is left out; "may" is a hedge and "May" is not
    text = "In May it may rain. Perhaps not.\n\n- sun here\n- snow\n\n```\nperhaps maybe\n```"
    row = sc.bias.features(attempts(text, None)).iloc[0]
    assert row["n_words"] == 16
    # marks count as words of the prose: 7 + 3 + 2
    assert row["hedges_per_100"] == pytest.approx(100 * 2 / 12)
    assert row["has_list"] == 1
    # sentences: "In May it may rain.", "Perhaps not.", "sun here", "snow"
    assert row["words_per_sentence"] == pytest.approx(12 / 4)
    assert sc.bias.features(attempts(None)).iloc[0].drop("attempt_id").isna().all()


def test_a_grader_that_agrees_with_the_user_shows_framing() -> None:
    made = simulated.study(n_skills=2, n_cases=20, n_repeats=1, delta=0.1, seed=4)
    answered = made.attempts.assign(answer="The mark is read at high water.")
    rng = np.random.default_rng(2)
    copies, verdicts = [answered], [made.verdicts]
    for kind, to in (("approve", True), ("disapprove", False)):
        copy = sc.bias.perturb(answered, kind=kind)
        assert copy["answer"].str.contains("[The user replied: ", regex=False).all()
        sources = made.verdicts.merge(
            copy[["attempt_id", "source_attempt_id"]].rename(
                columns={"attempt_id": "copy_id", "source_attempt_id": "attempt_id"}
            )
        )
        flips = rng.random(len(sources)) < 0.5
        verdicts.append(
            sources.assign(
                attempt_id=sources["copy_id"],
                perturbation=kind,
                passed=sources["passed"].mask(flips, to),
            ).drop(columns="copy_id")
        )
        copies.append(copy)
    framing = sc.bias.perturbed(pd.concat(verdicts), pd.concat(copies))
    framing = framing.set_index("perturbation")
    assert framing.at["approve", "ci_low"] > 0 > framing.at["disapprove", "ci_high"]


def test_identical_copies_show_repeats_and_lists_a_bias() -> None:
    made = simulated.study(n_skills=2, n_cases=20, n_repeats=1, delta=0.1, seed=4)
    answered = made.attempts.assign(answer="The mark is read. It is high water.")
    copies, verdicts = [answered], [made.verdicts]
    for kind in ("identical", "bullets"):
        copy = sc.bias.perturb(answered, kind=kind)
        ids = copy.set_index("source_attempt_id")["attempt_id"]
        passed = made.verdicts["passed"] | (kind == "bullets")
        own = made.verdicts["attempt_id"].map(ids)
        verdicts.append(made.verdicts.assign(attempt_id=own, perturbation=kind, passed=passed))
        copies.append(copy)
    graded, every = pd.concat(verdicts), pd.concat(copies)
    found = sc.bias.perturbed(graded, every).set_index("perturbation")
    assert found.at["identical", "estimate"] == 0 < found.at["bullets", "ci_low"]


@pytest.mark.parametrize(
    ("answer", "copy"),
    [
        ("It isn't. It can't be.", "- It isn't.\n- It can't be."),
        ("See [a link. Here](x). Go.", "- See [a link. Here](x).\n- Go."),
        ("Er sagte „Ja. Gut.“. Das ist so. Ja.", "- Er sagte „Ja. Gut.“.\n- Das ist so.\n- Ja."),
        ("「良い。安い。」と言った。安い。", "- 「良い。安い。」と言った。\n- 安い。"),
        ("هذا جيد. آمن؟ نعم.", "- هذا جيد.\n- آمن؟\n- نعم."),
    ],
)
def test_sentences_end_outside_links_and_quotations(answer: str, copy: str) -> None:
    assert module.CHANGES["bullets"](answer, 0) == copy


@pytest.mark.parametrize(
    "answer",
    [
        "It is a title. Yes.\n=====",
        "a | b\n--- | ---\nIt is. Yes | No. Yes",
        "<p>It is. It was.</p>",
        "[^1]: It is. It was.",
    ],
)
def test_headings_tables_html_and_notes_get_no_list(answer: str) -> None:
    assert module.CHANGES["bullets"](answer, 0) == answer


def test_an_answer_in_a_further_language_is_not_english() -> None:
    assert not module.is_english("Ini adalah rencana yang baik untuk perusahaan kecil.")


def test_scores_are_not_told_of_an_argument_that_perturbed_lacks():
    made = simulated.study(n_skills=1, n_cases=6, seed=2)
    copies = sc.bias.perturb(made.attempts, kind="pad")
    graded = simulated.grade(made, simulated.Grader("judge"), attempts=copies, seed=5)
    scored = pd.concat([made.verdicts, graded], ignore_index=True)
    scored["score"] = scored["passed"].astype("Float64").astype("float64")
    scored["passed"] = pd.Series(pd.NA, index=scored.index, dtype="boolean")
    both = pd.concat([made.attempts, copies], ignore_index=True)
    notes = sc.bias.perturbed(scored, both, by=["grader"], cases=made.cases)["note"]
    assert notes.str.contains("there are scores, but no verdicts").all()
    assert not notes.str.contains("value=").any()
