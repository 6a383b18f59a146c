"""Sentences of the chapters on running a study, on structure and on triggers."""

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError

CHANGE = {"reference": "precise", "measure": "delta_exact", "note": ""}


def changes(*rows: tuple[str, float, float, float]) -> pd.DataFrame:
    names = ["condition", "estimate", "ci_low", "ci_high"]
    return pd.DataFrame([dict(zip(names, row, strict=True)) | CHANGE for row in rows])


def test_progress_counts_what_is_recorded_and_what_is_left() -> None:
    columns = ["stage", "name", "n_wanted", "n_not_ok", "n_open"]
    rows = [("run", "a", 4, 0, 0), ("run", "a", 4, 1, 2), ("grade", "judge", 6, 0, 0)]
    assert sc.report.progress_sentences(pd.DataFrame(rows, columns=columns)) == [
        "a: 6 of 8 answers are recorded (1 without a result); 2 are left, which the next call asks "
        "for.",
        "judge: 6 of 6 gradings are recorded; the next call asks for none.",
    ]
    (sentence,) = sc.report.progress_sentences(pd.DataFrame(columns=columns))
    assert sentence.startswith("Nothing is planned yet")
    with pytest.raises(FrameError, match="there is no column"):
        sc.report.progress_sentences(pd.DataFrame({"stage": ["run"]}))


def test_descriptions_are_compared_on_exact_sets_and_with_their_noise() -> None:
    compared = changes(("vague", -0.02, -0.07, 0.02), ("opaque", -0.11, -0.19, -0.05))
    noise = changes(("repeat 2", -0.07, -0.14, -0.01), ("repeat 3", 0.04, -0.1, 0.2))
    vague, opaque, chance = sc.report.description_sentences(compared, noise)
    start = "the share of prompts that invoke exactly the right skills changes by"
    assert vague == f"vague against precise: {start} −2 points [−7, 2], which may be chance."
    assert opaque == f"opaque against precise: {start} −11 points [−19, −5]."
    assert "by up to 7 points" in chance and chance.endswith("is 11 points.")
    unknown = changes(("vague", np.nan, np.nan, np.nan)).assign(note="no prompt", agent="claude")
    assert sc.report.description_sentences(unknown, noise) == [
        "vague against precise (claude): no comparison (no prompt)."
    ]
    assert sc.report.description_sentences(compared.iloc[:0]) == []


def test_effects_of_several_agents_or_versions_are_told_apart() -> None:
    design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    rows = [
        {"skill": "s", "case_id": f"s/{i}", "condition": d["condition"], "agent": agent}
        | {"passed": d["content"] == "F" or agent == "bob"}
        for i in range(6)
        for d in design
        for agent in ("ann", "bob")
    ]
    effects = sc.structure.factorial(pd.DataFrame(rows), design, by=["agent"], reference=None)
    sentences = sc.report.findings(None, effects=effects)["sentence"]
    starts = sentences[sentences.str.contains("The document")].str.partition(": ")[0]
    assert list(starts) == ["ann", "bob"]
    unknown = effects.assign(estimate=np.nan, note="too few cases")
    (sentence, _) = sc.report.findings(None, effects=unknown)["sentence"]
    assert sentence.endswith("What is content and what is form is not known: too few cases.")


def test_a_section_without_rows_says_what_is_lacking() -> None:
    frame = pd.DataFrame({"a": [1]})
    assert sc.report.section_rows(frame, "no row") is frame
    with pytest.raises(StudyError, match="no row: ask again"):
        sc.report.section_rows(frame.iloc[:0], "no row: ask again")


def test_goals_of_several_agents_are_told_apart() -> None:
    rows = pd.DataFrame({"goal": ["outcome"] * 2, "agent": ["ann", "bob"], "condition": "skill"})
    goals = rows.assign(grader="trace", estimate=1.0, ci_low=0.4, ci_high=1.0)
    assert list(sc.report.findings(None, goals=goals)["sentence"]) == [
        f"Goals met ({agent}, trace, skill): outcome 100 % [40, 100] of the attempts."
        for agent in ("ann", "bob")
    ]
