"""Grader, pairwise and calibration studies of planted truth have first screens with it inside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from build import lenient_judge
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app
from skillcomp.errors import StudyError
from skillcomp.report import answer
from skillcomp.report.page import write_answer

HOSTILE = "<script>window.pwned=1</script>"


def judged(n: int = 160, **errors: tuple[float, float]) -> pd.DataFrame:
    """Two checks of each case, half of them passes by gold, with false passes and false fails."""
    draw = np.random.default_rng(5)
    gold = np.arange(n) % 2 == 0
    tables = []
    for name, (false_passes, false_fails) in errors.items():
        passed = np.where(gold, draw.random(n) >= false_fails, draw.random(n) < false_passes)
        about = {"case": [f"c{i // 2}" for i in range(n)], "check": [f"k{i % 2}" for i in range(n)]}
        tables.append(pd.DataFrame({**about, "judge": name, "passed": passed, "gold": gold}))
    return pd.concat(tables, ignore_index=True)


def graders(table: pd.DataFrame, **columns: Any) -> sc.frames.Frames:
    how: dict[str, Any] = {"check": "check", "grader": "judge", "gold": "gold", **columns}
    return sc.from_frame(table, skill=None, condition=None, **how)


def paired(first_bias: float, n: int = 120, **columns: Any) -> sc.frames.Frames:
    """Pairs in both orders; a judge that takes the first answer in a share of the cases."""
    draw = np.random.default_rng(0)
    rows = []
    for case in range(n):
        right = draw.integers(1, 3)
        for order, first in (("AB", 1), ("BA", 2)):
            choice = right if draw.random() < 0.8 else 3 - right
            winner = first if draw.random() < first_bias else choice
            rows.append((case, order, f"x{case}", f"y{case}", winner, right))
    names = ["case", "order", "output_1", "output_2", "winner", "label"]
    table = pd.DataFrame(rows, columns=names).assign(judge="eager", **columns)
    return sc.from_frame(table, gold="label", words={"winner": {1: "A", 2: "B"}})


def copied(share: float, n_sources: int = 70) -> sc.frames.Frames:
    """Texts of which a known share contains twelve words of its source, and texts of one's own."""
    draw = np.random.default_rng(2)
    letters = draw.integers(97, 123, (3000, 7)).astype(np.uint8)
    words = np.array(["w" + row.tobytes().decode() for row in letters])
    rows, sources = [], {}
    for k in range(n_sources):
        source, own = draw.choice(words, 60), draw.choice(words, (2, 30))
        sources[f"s{k}"] = " ".join(source)
        text = [*own[0], *(source[9:21] if draw.random() < share else [])]
        rows += [(" ".join(text), f"s{k}", "copied"), (" ".join(own[1]), f"s{k}", "fresh")]
    table = pd.DataFrame(rows, columns=["text", "source", "label"])
    return sc.from_frame(table, skills=sources)


PAIRS = pd.DataFrame({
    "id": [1, 1, 2, 2], "model_a": ["x", "y", "x", "y"], "model_b": ["y", "x", "y", "x"],
    "winner": ["model_a", "model_b", "model_a", "model_a"], "judge": "g"})  # fmt: skip
SOURCE = "Narrow unknown values early, before they are decoded, and keep the boundary visible."
TEXTS = pd.DataFrame({
    "text": [SOURCE[:60], "Something else about boiling water and dark leaves."] * 3,
    "source": SOURCE, "label": ["copied", "fresh"] * 3})  # fmt: skip


def row_of(frame: pd.DataFrame, **values: object) -> pd.Series:
    rows = frame[np.logical_and.reduce([frame[name].eq(value) for name, value in values.items()])]
    return rows.iloc[0]


def holds(row: pd.Series, truth: float) -> bool:
    return bool(row["ci_low"] <= truth <= row["ci_high"])


def test_a_lenient_judge_has_its_error_rates_inside_their_intervals(tmp_path: Path) -> None:
    study = graders(judged(lenient=(0.3, 0.05), fair=(0.1, 0.1)))
    result = answer(study)
    assert result.kinds == ["grader study"] and result.grader == "fair"
    of = {"frame": result.frames["agreement"], "grader": "lenient"}
    assert holds(row_of(**of, measure="raw_agreement"), 0.825)
    assert holds(row_of(**of, measure="false_passes"), 0.3)
    assert holds(row_of(**of, measure="false_fails"), 0.05)
    rates = result.frames["rates"]
    assert holds(row_of(rates, grader="lenient", recommended=True), 0.5)
    texts = " ".join(result.findings["sentence"])
    assert texts.startswith("fair agrees with gold on ")
    assert "lenient: " in texts and "corrected for its errors" in texts
    assert re.search(r"fair needs [\d,]+ labels for an agreement within 5 points\.", texts)
    asked = answer(study, grader="lenient").screens[0].headline
    assert asked.startswith("lenient agrees with gold on ")
    assert " of 160 checks, kappa " in asked and " of what gold fails (false passes)" in asked
    page = write_answer(result, study, tmp_path, None, "all").read_text("utf-8")
    assert "<h1>Can the grader be trusted?</h1>" in page and page.count("<figure") == 1
    assert "What this study cannot say" in page and "Skill by skill" not in page


def test_versions_drift_missing_verdicts_are_counted_and_names_are_escaped(tmp_path: Path) -> None:
    table = judged(old=(0.05, 0.05), new=(0.4, 0.05))
    table = table.assign(version=table["judge"], judge=f"Prüfer {HOSTILE}")
    table["passed"] = table["passed"].astype("object").mask(table.index % 40 == 3, None)
    result = answer(graders(table, grader_version="version"))
    assert result.facts["graders"] == 2
    texts = list(result.findings["sentence"])
    assert any("(version old) agrees with gold more often than" in text for text in texts)
    assert any(text.startswith("4 of 160 verdicts") for text in texts)
    versions = [f"Prüfer {HOSTILE} (version {name})" for name in ("old", "new")]
    assert list(result.screens[0].table.cells) == ["Property", *versions, "Cases"]
    assert "change from the version before" not in set(result.frames["datasheet"]["property"])
    page = write_answer(result, graders(table, grader_version="version"), tmp_path, None, "all")
    for html in (page.read_text("utf-8"), result._repr_html_()):
        assert HOSTILE not in html and "Prüfer &lt;script&gt;" in html


def test_without_gold_graders_are_compared_and_one_grader_alone_is_no_study() -> None:
    table = judged(lenient=(0.5, 0.05), fair=(0.1, 0.1)).assign(arm="plain")
    how: dict[str, Any] = {"skill": None, "condition": "arm", "check": "check", "grader": "judge"}
    with pytest.warns(sc.frames.FrameWarning, match="A comparison needs a second condition"):
        study = sc.from_frame(table, **how)
    result = answer(study)
    texts = " ".join(result.findings["sentence"])
    assert texts.startswith("How often the graders err is not known: there are no gold labels.")
    assert "lenient passes a larger share of checks than fair" in texts
    fair = replace(study, verdicts=study.verdicts[study.verdicts["grader"].eq("fair")])
    with pytest.raises(StudyError) as error:
        answer(fair)
    message = str(error.value)
    assert message.startswith("report: all answers are under plain.")
    for kind in ("skill", "grader", "pairwise", "calibration"):
        assert f"A {kind} study needs " in message


def test_a_judge_that_prefers_the_first_answer(tmp_path: Path) -> None:
    study = paired(0.3)
    result = answer(study)
    assert result.kinds == ["pairwise study"]
    assert holds(row_of(result.frames["position"], measure="position_points"), 30)
    assert holds(row_of(result.frames["agreement"], measure="raw_agreement"), 0.71)
    headline = result.screens[0].headline
    assert "of 120 pairs; being shown first is worth +" in headline
    assert result.screens[0].table.cells["Property"].tolist() == [
        "first answer wins",
        "agreement with gold",
    ]
    assert headline.endswith(" of 240 comparisons.")
    page = write_answer(result, study, tmp_path, None, "all").read_text("utf-8")
    assert "Does the judge choose the better answer" in page and page.count("<figure") == 1


@pytest.mark.parametrize("kind", ["grader", "pairwise"])
def test_table_figure_and_files_have_the_numbers_of_the_datasheet(
    kind: str, tmp_path: Path
) -> None:
    study = paired(0.3) if kind == "pairwise" else graders(judged(b=(0.3, 0.05), a=(0.1, 0.1)))
    pairwise = study.pairwise if kind == "pairwise" else None
    sheet = sc.bias.datasheet(
        study.verdicts, study.attempts, study.gold, pairwise, cases=study.cases
    )
    if kind == "pairwise":  # in pairs, both kinds of errors are 1 minus the agreement
        sheet = sheet[~sheet["property"].isin(["false passes", "false fails"])]
    order = ["grader", "property", "estimate", "ci_low", "ci_high", "n", "shown", "note"]
    sheet = sheet[order].sort_values("grader", kind="stable").reset_index(drop=True)
    result = answer(study)
    screen = result.screens[0]
    assert screen.drawn[order].reset_index(drop=True).equals(sheet)
    page = write_answer(result, study, tmp_path, None, "all").read_text("utf-8")
    saved = pd.read_csv(tmp_path / f"00-answer-{kind}-{kind}.csv")
    assert saved["estimate"].to_numpy() == pytest.approx(sheet["estimate"], nan_ok=True)
    measured = sheet.dropna(subset="estimate")
    assert len(screen.table.cells) == measured["property"].nunique()
    cells = screen.table.cells.set_index("Property")
    drawn = [x for ax in screen.draw().axes for line in ax.lines for x in line.get_xdata()]
    for _, row in measured.iterrows():
        text = cells.at[row["property"], row["grader"]]
        scale = 1 if row["property"] == "first answer wins" else 100
        numbers = [float(n.replace("−", "-")) for n in re.findall(r"[−\d.]+", text)]
        assert numbers == pytest.approx([scale * row[n] for n in order[2:5]], abs=0.5)
        assert text.endswith(" *") == (row["shown"] is True)
        assert text.replace(" ", "") in page.replace("\xa0", "").replace(" ", "")
        assert np.isclose(drawn, row["estimate"] * scale / 100).any()
    (line,) = (text for text in screen.texts["limits"] if text.startswith("Not measured: "))
    for name in set(sheet["property"]) - set(measured["property"]):
        assert name in line


def test_copies_at_a_known_rate_are_found_at_that_rate(tmp_path: Path) -> None:
    study = copied(0.8)
    result = answer(study)
    assert result.kinds == ["calibration study"]
    cut = result.frames["calibration"]
    chosen = cut[cut["chosen"]].iloc[0]
    found = row_of(cut, measure="sensitivity", rule=chosen["rule"], n=chosen["n"])
    assert holds(found, 0.8)
    headline = result.screens[0].headline
    assert headline.startswith("A text counts as a copy if it shares ")
    assert " of 70 copied texts. It flags 0 % [0, 4] of 70 fresh texts" in headline
    assert headline.endswith(": within the limit of 5 %.")
    page = write_answer(result, study, tmp_path, None, "all").read_text("utf-8")
    assert "mean copying?" in page and page.count("<figure") == 1
    assert "n\xa0=\xa070 to 140, 95\xa0% intervals." in page  # texts; the length is in the column n
    assert "by document" in page
    assert result.screens[0].texts["limits"] == [
        "How often answers copy is not known: there are no answers, only passages.",
        "Copied ideas, rephrased copies and translations are missed: they share no n-gram.",
        "Whether a skill helps is not known: no conditions are compared.",
    ]
    few = answer(copied(0.8, n_sources=12)).screens[0]
    assert few.headline.startswith("By the estimates alone, ")
    assert any("flagged bound the false flags only at" in text for text in few.texts["limits"])


def test_without_a_length_to_choose_the_screen_has_the_reason_and_no_table() -> None:
    table = TEXTS.assign(
        text="Θερμό νερό, πράσινα φύλλα.", source="Θερμό νερό, πράσινα φύλλα και υπομονή."
    )
    with pytest.warns(sc.frames.FrameWarning, match="not ASCII"):
        lines = answer(sc.from_frame(table)).lines()
    assert lines[0].startswith("No threshold can be chosen: ")
    assert lines[0].endswith("; tokenizer='unicode' reads every script.")
    assert lines[1:3] == ["", "What this study cannot say"]
    read = answer(sc.from_frame(table), tokenizer="unicode").frames["calibration"]
    assert read["tokenizer"].str.endswith("unicode").all() and read["estimate"].notna().any()


def test_a_skill_study_keeps_its_headline_and_adds_pairs_and_copies(tmp_path: Path) -> None:
    skills, texts, pairs = lenient_judge(), copied(0.8), paired(0.3)
    study = replace(skills, passages=texts.passages, skills=texts.skills, pairwise=pairs.pairwise)
    result = answer(study)
    assert result.kinds == ["skill study", "pairwise study", "calibration study"]
    summary = result.findings.query("topic == 'summary'")["sentence"].tolist()
    assert summary[0] == "tea changes nothing."
    assert summary[-2].startswith("eager makes the same choice")
    assert summary[-1].startswith("A text counts as a copy")
    page = write_answer(result, study, tmp_path, None, "all").read_text("utf-8")
    assert "Skill by skill" in page and "mean copying?" in page and page.count("<figure") == 1


ARENA = pd.DataFrame({
    "question_id": range(40), "model_a": ["x", "y"] * 20, "model_b": ["y", "x"] * 20,
    "winner": ["model_a", "model_a", "tie (bothbad)", "model_b"] * 10, "judge": "g"})  # fmt: skip


def test_pairs_of_systems_have_win_rates_and_a_judge_without_verdicts_no_headline() -> None:
    silent = ARENA.assign(judge="absent", winner=None)
    with pytest.warns(sc.frames.FrameWarning):
        result = answer(sc.from_frame(pd.concat([ARENA, silent])))
    screen = result.screens[0]
    assert screen.headline == (
        "g saw each pair in one order; being shown first is worth +25 points [−2, 51]: no "
        "preference for a place is shown."
    )
    (wins,) = screen.texts["wins"]
    assert wins.startswith("By g, x against y: 62 % [") and " of 40 cases won" in wins
    assert wins.count("tie") == 1


TABLES = {
    "judged.csv": (judged(n=40, lenient=(0.3, 0.05)), "lenient agrees with gold on "),
    "pairs.json": (PAIRS, "g makes the same choice in both orders in 50 % "),
    "texts.jsonl": (TEXTS, "By the estimates alone, a text counts as a copy if it shares "),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_any_kind_is_answered_in_the_terminal(name: str, tmp_path: Path) -> None:
    table, start = TABLES[name]
    file = tmp_path / name
    table = table.rename(columns={"judge": "grader"})
    if name.endswith("csv"):
        table.to_csv(file, index=False)
    else:
        table.to_json(file, orient="records", lines=name.endswith("l"))
    run = CliRunner().invoke(app, ["answer", str(file), "--out", str(tmp_path / "page")])
    assert run.exit_code == 0, run.exception
    assert run.output.startswith(start)
    assert "What this study cannot say\n- " in run.output and (tmp_path / "page").exists()
