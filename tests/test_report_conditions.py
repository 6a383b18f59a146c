"""The page mentions every condition, every note, and what was dropped or is missing."""

import html
import re
from pathlib import Path

import pandas as pd
import pytest
from build import frames_of, sentences_on

import skillcomp as sc
from benchmarks import simulated
from skillcomp.report import answer
from skillcomp.report.page import write_answer


def own_table(n: int = 20, **passed: int) -> pd.DataFrame:
    """Build a table in which the first cases pass: so many as the condition's number says."""
    rows = [
        {"case": case, "condition": condition, "skill": "tea", "passed": case < number}
        for condition, number in passed.items()
        for case in range(n)
    ]
    return pd.DataFrame(rows).astype({"passed": "boolean"})


pytestmark = pytest.mark.filterwarnings("ignore::skillcomp.frames.FrameWarning")


def own_answer(table: pd.DataFrame, **how: object) -> sc.report.Answer:
    return answer(sc.from_frame(table), **how)


def test_every_condition_has_a_row_and_a_sentence_in_its_own_words() -> None:
    table = own_table(baseline=12, skill=8, guidelines=1, previous=16, placebo=5)
    result = own_answer(table)
    names = {"skill", "guidelines", "previous", "placebo"}
    assert set(result.headline()["condition"]) == names
    text = sentences_on(result.findings, "condition")
    for name, words in (
        ("guidelines", "guidelines 5 %"),
        ("previous", "the previous version 80 %"),
    ):
        assert f"tea ({name}) " in text and f"with {words} of the answers pass and" in text
    assert "with the skill" not in text
    worse = "It does worse than the previous version: −40 points"
    assert worse in sentences_on(result.findings, "skill")
    text = sentences_on(result.findings, "placebo")  # without a verdict
    assert text.startswith("tea (placebo): with a placebo 25 % of the answers pass and without it")


def test_only_the_condition_skill_is_called_the_skill() -> None:
    table = own_table(baseline=4, tool_a=18, tool_b=6).assign(transfer=["near", "far"] * 30)
    result = answer(sc.from_frame(table, transfer="transfer"))
    every = " ".join(result.findings["sentence"])
    assert "with tool a 90 % of the answers pass and without it 20 %" in every
    assert "On near cases tool a changes" in every and "On near cases tool b changes" in every
    assert "the skill" not in every


@pytest.mark.parametrize(
    ("names", "reference", "words"),
    [
        (("previous", "skill"), None, "with the new version 90 % of the answers pass and with the "
         "previous version 20 %"),
        (("tool_a", "tool_b"), "tool_a", "with tool b 90 % of the answers pass and with tool a"),
    ],
)  # fmt: skip
def test_another_reference_is_named(
    names: tuple[str, str], reference: str | None, words: str
) -> None:
    table = own_table(**dict(zip(names, (4, 18), strict=True)))
    result = own_answer(table, reference=reference)
    assert words in sentences_on(result.findings, "skill")
    assert "without it" not in " ".join(result.findings["sentence"])


def test_a_reference_that_the_study_lacks_is_refused() -> None:
    with pytest.raises(sc.errors.StudyError, match=r"'tool_c'.*there: tool_a, tool_b"):
        own_answer(own_table(tool_a=4, tool_b=18), reference="tool_c")
    with pytest.raises(sc.errors.StudyError, match=r"with reference='tool_a' a positive"):
        own_answer(own_table(tool_a=4, tool_b=18))


def test_the_page_has_every_note_of_every_frame_and_what_is_missing(tmp_path: Path) -> None:
    # a placebo, gold, two graders, near and far cases, and lost verdicts
    made = simulated.study(
        n_skills=2, n_cases=10, n_repeats=1, seed=3, conditions=("baseline", "skill", "placebo"),
        graders=(simulated.Grader("judge", failure_rate=0.05), simulated.Grader("strict")),
        gold_fraction=0.3,
    )  # fmt: skip
    with_skill = made.verdicts["condition"].eq("skill")
    lost = with_skill & made.verdicts["case_id"].str.endswith(("1", "2"))
    made.verdicts.loc[lost, "passed"] = pd.NA
    noted = frames_of(made)
    result = answer(noted)
    written = write_answer(result, noted, tmp_path, None, "all")
    page = html.unescape(written.read_text(encoding="utf-8"))
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    notes = {
        note
        for frame in result.frames.values()
        if "note" in frame.columns
        for note in frame["note"].dropna()
    }
    assert len(notes) > 5
    assert [note for note in notes if note not in page] == []
    row = result.frames["decided"].query("condition == 'skill'").iloc[0]
    text = sentences_on(result.findings, "skill")
    assert row["n_missing"] > 0
    assert f"on {row['n']:.0f} cases ({row['n_dropped']:.0f} dropped; attempts missing: " in text
    assert re.search(rf"{row['n_missing']:.0f}( of \d+)? under skill and", text)
