"""The datasheet of a judge and its copies, with planted biases."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

BIASES = ("shown first", "first of identical answers wins", "copy as bullets in pairs",
          "length per doubling in pairs (a preference)",
          "own family in pairs (a preference)")  # fmt: skip


def judged(
    n: int, seed: int, *, place: float = 0.0, length: float = 0.0, family: float = 0.0,
    bullets: float = 0.0,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Draw the choices of a judge between two systems, an answer and itself, and its copy."""
    rng = np.random.default_rng(seed)
    case = pd.DataFrame({"skill": "s", "case_id": [f"c{i}" for i in range(n)], "grader": "j"})
    case["grader_family"] = "f"
    x, y, copy = (case["case_id"] + name for name in ("/x", "/y", "/x/bullets"))
    words = np.rint(2 ** rng.uniform(6, 10, n))
    other = np.rint(words * 2 ** rng.uniform(-1, 1, n))
    chances = ((x, y, length * np.log2(words / other) + family), (copy, x, bullets), (x, x, 0.0))
    rows = []
    for one, two, ahead in chances:
        for order in (1, -1) if one is not two else (1,):
            wins = rng.random(n) < np.clip(0.5 + ahead + order * place / 2, 0, 1)
            first, second = (one, two) if order == 1 else (two, one)
            won = np.where(wins == (order == 1), 1, 2)
            rows.append(case.assign(first=first, second=second, winner_position=won))
    attempts = [
        case[["skill", "case_id"]].assign(
            attempt_id=ids, agent=name, agent_family=own, condition="skill", n_words=size,
            perturbation=kind, source_attempt_id=source,
        )
        for ids, name, own, size, kind, source in (
            (x, "x", "f", words, None, None), (y, "y", "h", other, None, None),
            (copy, "x", "f", words, "bullets", x),
        )
    ]  # fmt: skip
    return pd.concat(attempts, ignore_index=True), pd.concat(rows, ignore_index=True)


def sheet_of(n: int = 200, seed: int = 0, **planted: float) -> pd.DataFrame:
    attempts, pairwise = judged(n, seed, **planted)
    return sc.bias.datasheet(None, attempts, pairwise=pairwise).set_index("property")


@pytest.mark.parametrize("size", [0.1, 0.3])
@pytest.mark.parametrize("bias", ["place", "length", "family", "bullets"])
def test_planted_biases_are_inside_their_intervals(bias: str, size: float) -> None:
    rows = sheet_of(**{bias: size}).loc[list(BIASES)]
    of = {"place": 100 * size, "length": 100 * size, "family": 100 * size, "bullets": size}
    own = dict.fromkeys(of, 0.0) | {bias: of[bias]}
    alike = size / 2 if bias == "place" else 0.0
    truth = [own["place"], 0.5 + alike, 0.5 + own["bullets"], own["length"], own["family"]]
    inside = (rows["ci_low"] <= truth) & (rows["ci_high"] >= truth)
    assert inside.sum() >= 4
    assert inside[rows.index[["place", "", "bullets", "length", "family"].index(bias)]]
    assert rows["shown"].any() or size < 0.3


def test_a_judge_without_bias_has_no_row_shown() -> None:
    shown = [sheet_of(60, seed)["shown"].fillna(False).any() for seed in range(4)]
    assert not any(shown)


def test_null_p_and_shown_are_those_of_biases_only() -> None:
    rows = sheet_of(100, 3, place=0.3)
    assert rows.loc["ties of identical answers", ["null", "p_value", "shown"]].isna().all()
    tested = rows[rows["p_value"].notna()]
    expected = sc.stats.holm(tested["p_value"])
    assert tested["p_adjusted"].tolist() == pytest.approx(list(expected))
    assert tested["null"].isin([0.0, 0.5]).all()
    assert rows.loc["shown first", "shown"]
    assert rows.loc["shown first", "n"] == 100


def test_each_row_is_that_of_its_analysis() -> None:
    store = sc.datasets.load("pilot")
    verdicts = sc.frames.verdicts(store, perturbation="all", round="all")
    attempts = sc.frames.attempts(store, perturbation="all")
    gold, pairs = sc.frames.gold(store), sc.frames.pairwise(store)
    sheet = sc.bias.datasheet(verdicts, attempts, gold, pairs)
    assert list(sheet["grader"].unique()) == ["g0", "g1", "g2", "pairwise"]
    g2 = sheet[sheet["grader"].eq("g2")].set_index(["property", "condition"])
    plain = sc.frames.verdicts(store)
    agreed = sc.reliability.agreement(plain, gold).set_index(["grader", "measure"])
    names = ["estimate", "ci_low", "ci_high"]
    whole = g2.xs("agreement with gold").iloc[0]
    assert whole[names].tolist() == agreed.loc[("g2", "raw_agreement"), names].tolist()
    by_arm = sc.reliability.agreement(plain, gold, by=["grader", "condition"])
    by_arm = by_arm.set_index(["grader", "condition", "measure"])
    for condition in ("skill", "baseline"):
        for title, measure in (("false passes", "false_passes"), ("false fails", "false_fails")):
            own = g2.loc[(title, condition), names].tolist()
            assert own == by_arm.loc[("g2", condition, measure), names].tolist()
    place = sc.bias.position(pairs, by="grader").set_index("measure")
    shown = sheet[sheet["grader"].eq("pairwise") & sheet["property"].eq("shown first")]
    assert shown["estimate"].item() == place.loc["position_points", "estimate"]
    open_ = sheet[sheet["estimate"].isna()]
    assert open_["note"].str.startswith("not measured").all()
    assert open_["note"].str.contains("to measure it").all()
    ax = sc.plots.datasheet(sheet)
    assert len(ax.figure.axes) == 2
    assert ax.figure.get_figwidth() == pytest.approx(3.25)


def test_the_newest_version_is_compared_with_the_one_before() -> None:
    cases = [f"c{i}" for i in range(30)]
    verdicts = pd.concat([
        pd.DataFrame({"attempt_id": cases, "skill": "s", "case_id": cases, "condition": "skill",
                      "check_id": "a", "grader": "j", "grader_version": version,
                      "passed": [i >= fails for i in range(30)]})
        for version, fails in (("v9", 6), ("v10", 0), ("v2", 20))
    ])  # fmt: skip
    attempts = verdicts.drop_duplicates("attempt_id")[
        ["attempt_id", "skill", "case_id", "condition"]
    ]
    rows = sc.bias.datasheet(verdicts, attempts).set_index("property")
    assert rows.loc["new version", "estimate"] == pytest.approx(0.2)
    assert "version v10 against v9" in rows.loc["new version", "note"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "nothing to judge by"),
        ({"verdicts": pd.DataFrame({"grader": ["g"]})}, "attempts.*is missing"),
        ({"by": ["skill"]}, "lacks 'grader'"),
    ],
)
def test_lacking_frames_are_named(args: dict[str, Any], message: str) -> None:
    with pytest.raises(FrameError, match=message):
        sc.bias.datasheet(**args)


TEXT = (
    "The price is 1,200 euros, and Anna does not agree. It will not change this year.\n\n"
    "```\ncode. Stays.\n```\n\n- kept. As it is\n\nThe rest of it is in the book, and you can read "
    "it there."
)


def answers(*texts: str) -> pd.DataFrame:
    ids = [f"a{i}" for i in range(len(texts))]
    return pd.DataFrame({"attempt_id": ids, "skill": "s", "case_id": ids, "condition": "skill",
                         "answer": texts})  # fmt: skip


def test_bullets_hold_one_sentence_each_and_leave_code_and_lists() -> None:
    (text,) = sc.bias.perturb(answers(TEXT), kind="bullets")["answer"]
    assert text.startswith(
        "- The price is 1,200 euros, and Anna does not agree.\n- It will not change this year.\n"
    )
    assert "```\ncode. Stays.\n```" in text
    assert "\n- kept. As it is\n" in text


def test_identical_copies_have_the_same_bytes() -> None:
    copies = sc.bias.perturb(answers(TEXT, "Yes."), kind="identical")
    assert copies["answer"].tolist() == [TEXT, "Yes."]
    assert copies["perturbation"].tolist() == ["identical"] * 2


@pytest.mark.parametrize("kind", ["bullets", "pad", "reorder", "hedge", "confident", "approve"])
def test_copies_have_the_numbers_names_and_negations_of_their_original(kind: Any) -> None:
    attempts = sc.frames.attempts(sc.datasets.load("pilot")).head(40)
    texts = attempts.set_index("attempt_id")["answer"]
    for _, copy in sc.bias.perturb(attempts, kind=kind).iterrows():
        old = texts[copy["source_attempt_id"]]
        for form in (r"\d+", r"\b(?:not|no|never|cannot|\w+n't)\b"):
            if kind in ("approve", "pad", "confident") and "not" in form:
                continue  # these kinds insert such words themselves
            assert sorted(re.findall(form, old)) == sorted(re.findall(form, copy["answer"]))


def test_kinds_that_insert_english_words_are_refused_for_other_languages() -> None:
    german = answers(*[
        "Der Preis beträgt zwölf Euro, und Anna ist damit nicht einverstanden, weil ihr das zu "
        "teuer ist. Sie möchte deshalb noch einmal mit dem Verkäufer sprechen und warten."
    ] * 3)  # fmt: skip
    for kind in ("pad", "hedge", "confident", "approve", "disapprove"):
        with pytest.raises(FrameError, match="inserts English words, and 3 of 3 answers"):
            sc.bias.perturb(german, kind=kind)  # type: ignore[arg-type]
    assert len(sc.bias.perturb(german, kind="bullets")) == 3
    with pytest.raises(FrameError, match="English"):
        sc.bias.perturb(answers("価格は十二ユーロです。アンナは同意しません。"), kind="pad")


def test_pairs_of_copies_are_read_back_by_the_door() -> None:
    attempts = answers(*[TEXT.replace("1,200", str(i)) for i in range(20)])
    pairs = sc.bias.copy_pairs(attempts, kind="bullets")
    assert len(pairs) == 40
    pairs["winner"] = np.where(pairs["model_a"].eq("bullets"), "bullets", "original")
    pairs.loc[pairs["question_id"].isin(["a0", "a1"]), "winner"] = "original"
    made = sc.from_frame(pairs.assign(judge="j"))
    rows = sc.bias.datasheet(made.verdicts, made.attempts, pairwise=made.pairwise)
    rows = rows.set_index("property")
    assert rows.loc["copy as bullets in pairs", "null"] == 0.5
    assert rows.loc["shown first", "estimate"] > 50
    same = sc.bias.copy_pairs(attempts, kind="identical").assign(winner="tie", judge="j")
    made = sc.from_frame(same)
    rows = sc.bias.datasheet(made.verdicts, made.attempts, pairwise=made.pairwise)
    assert rows.set_index("property").loc["ties of identical answers", "estimate"] == 1.0
