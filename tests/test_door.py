"""The door: meanings are declared by names and words, or asked for; values decide nothing."""

import inspect
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app
from skillcomp.errors import TABLE_OPTIONS, FrameError
from skillcomp.frames.from_frame import ROLES

HOW: dict[str, Any] = {"skill": None, "case": "task", "condition": "arm", "passed": "ok"}


def read(table: Any, **named: Any) -> sc.frames.Frames:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        return sc.from_frame(table, **HOW | named)


def asked(table: pd.DataFrame, **named: Any) -> str:
    with pytest.raises(FrameError) as caught:
        read(table, **named)
    return str(caught.value)


def answers(n: int = 20, repeats: int = 1, gain: float = 0.3, seed: int = 0, **columns: Any):
    """Answers to n tasks without and with a skill; the skill adds `gain` to the pass rate."""
    rng = np.random.default_rng(seed)
    rows = [
        {"task": f"t{i}", "arm": arm, "ok": bool(rng.random() < 0.4 + gain * (arm == "skill"))}
        for i in range(n)
        for arm in ("baseline", "skill")
        for _ in range(repeats)
    ]
    return pd.DataFrame(rows).assign(**columns)


def found(made: sc.frames.Frames, place: str) -> str:
    rows = made.problems[made.problems["place"].str.contains(place, regex=False)]
    return "; ".join(rows["found"] + ": " + rows["done"])


def test_a_flag_with_a_turning_name_is_asked_about_with_both_readings() -> None:
    table = answers(gain=0.5).assign(no_skill=lambda t: t["arm"].eq("baseline"))
    text = asked(table, condition="no_skill")
    one = "words={'condition': {True: 'skill', False: 'baseline'}}"
    other = "words={'condition': {True: 'baseline', False: 'skill'}}"
    assert one in text and other in text
    expected = sc.deltas.paired(read(table).outcomes)["estimate"].iloc[0]
    made = read(
        table, condition="no_skill", words={"condition": {True: "baseline", False: "skill"}}
    )
    assert sc.deltas.paired(made.outcomes)["estimate"].iloc[0] == expected > 0
    for name in ("without_plugin", "is_control", "disableSkill", "baseline", "skill_off", "NO_DOC"):
        for values in ([1, 0], ["yes", "no"], ["true", "false"]):
            flagged = table.assign(**{name: np.where(table["arm"].eq("baseline"), *values)})
            assert "leaves open what they mean" in asked(flagged, condition=name)
    for name in ("with_skill", "skill", "treated", "has_skill"):
        made = read(table.assign(**{name: table["arm"].eq("skill")}), condition=name)
        assert sc.deltas.paired(made.outcomes)["estimate"].iloc[0] == expected


@pytest.mark.parametrize(
    "name", ["hallucinated", "failed", "unsafe", "is_wrong", "hasError", "bad"]
)
def test_a_verdict_with_a_turning_name_is_asked_about(name: str) -> None:
    table = answers().rename(columns={"ok": name})
    text = asked(table, passed=name)
    assert "words={'passed': {True: True, False: False}}" in text.replace(
        "False: False, True: True", "True: True, False: False"
    )
    good = read(table, passed=name, words={"passed": {True: False, False: True}})
    assert good.outcomes["passed"].tolist() == (~table[name]).tolist()
    words = table.assign(**{name: table[name].map({True: "pass", False: "fail"})})
    assert read(words, passed=name).outcomes["passed"].tolist() == table[name].tolist()


def test_ids_and_words_of_files_are_text(tmp_path: Path) -> None:
    ids = ["1", "01", "001", "None", "NA", "null", "1e3", "1.0"]
    table = pd.DataFrame({"case": ids * 2, "condition": ["baseline"] * 8 + ["skill"] * 8,
                          "passed": [0] * 8 + [1] * 8, "seconds": "3"})  # fmt: skip
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(sc.frames.FrameWarning):
        made = sc.read_results(tmp_path / "a.csv")
    assert made.cases["case_id"].tolist() == ids and made.attempts["seconds"].eq(3).all()
    (tmp_path / "b.csv").write_text("case,condition,passed\na,skill,1\n,skill,1\n")
    with pytest.raises(FrameError, match="missing in 1 row"):
        sc.read_results(tmp_path / "b.csv")


def test_ids_that_differ_between_arms_by_case_blanks_or_zeros_are_named() -> None:
    table = answers(6)
    other = table["arm"].eq("skill")
    table.loc[other, "task"] = table.loc[other, "task"].str.upper().str.replace("T", "T 0")
    text = found(read(table), "column 'task'")
    assert "'t0' and 'T 00'; 't1' and 'T 01'" in text and "different cases" in text
    same = answers(4).assign(task=["1", "1", "01", "01", "2", "2", "3", "3"])
    assert "differ by case" not in found(read(same), "column 'task'")


def test_skills_whose_names_differ_by_case_or_blanks_are_asked_about() -> None:
    table = answers(8).assign(plugin=["Tea", "Tea", "tea ", "tea "] * 4)
    text = asked(table, skill="plugin")
    one, two = {"tea ": "Tea"}, {"Tea": "Tea", "tea ": "tea "}
    assert f"words={{'skill': {one}}}" in text and f"words={{'skill': {two}}}" in text
    assert read(table, skill="plugin", words={"skill": one}).cases["skill"].unique() == ["Tea"]
    assert read(table, skill="plugin", words={"skill": two}).cases["skill"].nunique() == 2


@pytest.mark.parametrize(
    ("name", "argument"),
    [("model", "agent="), ("judge", "grader="), ("model_name", "agent="), ("criterion", "check=")],
)
def test_rows_of_two_models_or_judges_are_never_repeats(name: str, argument: str) -> None:
    table = answers(repeats=2).assign(**{name: ["a", "b"] * 40})
    for keep in (None, "all"):
        assert f"'{name}' ({argument})" in asked(table, keep=keep)
    role = argument.rstrip("=")
    assert len(read(table, **{role: name}).verdicts) == 80


def test_rows_on_the_same_thing_are_asked_about_with_the_effect_of_both_readings() -> None:
    table = answers(4, language="en").drop(columns="ok").assign(ok=[0, 1] * 4)
    again = table.iloc[:3].assign(ok=[1, 0, 1], language="de", tries=2, who="ann")
    both = pd.concat([table, again], ignore_index=True)
    text = asked(both)
    assert "6 rows are verdicts on the same thing" in text
    for name in ("'language'", "'tries'", "'who'"):
        assert name in text.split("Within them differ ")[1].split("Repeats in this order")[0]
    assert "keep='all': 2 of 6 pass under baseline, 4 of 5 pass under skill" in text
    last = "replaces an earlier one: 2 of 4 pass under baseline, 3 of 4 pass under skill"
    assert f"{last}, without 0 of 2 pass under baseline, 1 of 1 pass under skill" in text
    assert len(read(both, keep="all").attempts) == 11
    assert len(read(both, keep="last").attempts) == 8
    assert "no role: language, tries, who" in text


def test_equal_numbers_of_rows_are_repeats_and_a_known_column_numbers_them() -> None:
    table = answers(repeats=3)
    made = read(table)
    assert made.attempts["repeat"].max() == 3 and "numbered as repeats" in found(made, "repeat=")
    for name in ("trial", "seed", "run", "replicate"):
        named = table.assign(**{name: [7, 8, 9] * 40})
        made = read(named.iloc[:-1])
        assert made.columns["repeat"] == name and "read as the repeats" in found(made, name)
    assert "are verdicts on the same thing" in asked(table.iloc[:-1])


def test_records_of_stale_failures_are_asked_about() -> None:
    # 39 records of 20 tasks: 19 stale failures of the skill come first
    table = answers(20, gain=0.25, seed=3)
    stale = table[table["arm"].eq("skill")].iloc[:19].assign(ok=False)
    both = pd.concat([stale, table], ignore_index=True)
    assert "keep='last', a later row replaces" in asked(both)
    made = read(both, keep="last")
    expected = sc.deltas.paired(read(table).outcomes)["estimate"].iloc[0]
    row = sc.skillverdicts.decide(made.outcomes).iloc[0]
    assert row["estimate"] == expected
    replaced = "baseline 0 (0 failed), skill 19 (19 failed)"
    assert f"failed rows were replaced more often in one arm: {replaced}" in row["note"]
    assert "rows that a later row replaced: baseline 0 (0 failed), skill 19 (19 failed)" in found(
        made, "keep="
    )
    fair = pd.concat([table.assign(ok=False), table], ignore_index=True)
    note = sc.skillverdicts.decide(read(fair, keep="last").outcomes)["note"].iloc[0]
    assert "replaced" not in note
    saved = sc.frames.outcomes(made.verdicts, made.cases, attempts=made.attempts)
    assert saved["note"].str.contains("replaced more often").all()


def test_numbers_of_one_form_are_read_and_others_refused() -> None:
    counts = answers(10).drop(columns="ok").assign(ok=["1/5", "3/5"] * 10)
    made = read(counts)
    assert len(made.attempts) == 100 and "so many passed" in found(made, "column 'ok'")
    assert sc.deltas.paired(made.outcomes)["estimate"].iloc[0] == pytest.approx(0.4)
    assert "too many" in asked(counts.assign(ok=["7/5", "3/5"] * 10))
    forms = {"score": ["60 %", "85%"], "cost_usd": ["$0.06", "$1.20"], "seconds": ["1m 30s", "90s"]}
    numbers = {"score": [0.6, 0.85], "cost_usd": [0.06, 1.2], "seconds": [90, 90]}
    for role, texts in forms.items():
        made = read(answers(10, x=texts * 10), **{role: "x"})
        values = made.verdicts["score"] if role == "score" else made.attempts[role]
        assert values.tolist() == pytest.approx(numbers[role] * 10)
        assert f"read as numbers: '{texts[0]}' is {numbers[role][0]:g}" in found(made, "column 'x'")
        mixed = [texts[0], "much"] * 10
        assert "expected numbers" in asked(answers(10, x=mixed), **{role: "x"})
    made = read(answers(2, x=["0,5", "1,25", "n/a", "3,0"]), score="x")
    assert made.verdicts["score"].fillna(-1).tolist() == [0.5, 1.25, -1, 3]
    assert "expected numbers" in asked(answers(2, x="1,000"), score="x")
    assert "counts of passes are texts such as '3/5'" in asked(answers(4).assign(ok=[1, 5] * 4))


def test_a_frame_of_polars_is_read() -> None:
    table = answers()
    pd.testing.assert_frame_equal(read(pl.from_pandas(table)).outcomes, read(table).outcomes)
    lazy = pl.from_pandas(table).lazy()
    pd.testing.assert_frame_equal(read(lazy).outcomes, read(table).outcomes)
    assert len(read(table, gold=lazy).gold) == len(table)


@pytest.mark.parametrize("text", ["9/10", "1:30", "1,250", "high"])
def test_numbers_of_another_form_are_refused_with_a_remedy(text: str) -> None:
    for role in ("score", "input_tokens"):
        said = asked(answers(4, x=text), **{role: "x"})
        assert f"found '{text}' (8 rows); expected numbers." in said
        assert "Write every value as a plain number such as 1250.5." in said


def test_columns_of_a_table_may_be_called_as_methods_of_polars_are() -> None:
    plan = answers()[["task", "arm"]]
    table = answers(collect=1, to_pandas=2)
    made = read(table, asked=plan.assign(collect=1))
    pd.testing.assert_frame_equal(made.outcomes[["passed"]], read(answers()).outcomes[["passed"]])
    noted = answers(caution="x", model=table["arm"].map({"baseline": "a", "skill": "b"}))
    assert "have a column of that name. Rename yours" in asked(noted, facts=["caution"])


def test_models_of_one_study_are_not_said_of_another() -> None:
    table = answers(dollars=range(1, 41), gold=True)
    table["m"] = table["arm"].map({"baseline": "small", "skill": "large"})
    how = {"gold": "gold", "cost_usd": "dollars"}
    made = {"a": read(table, agent_model="m", **how), "b": read(table.drop(columns="m"), **how)}
    both = sc.frames.concat(made)
    found = sc.deltas.paired(both.outcomes, both.attempts, value=["cost_usd"], by=["study"])
    corrected = sc.correction.delta(both.verdicts, both.gold, by=["study"])
    for rows in (found, corrected):
        said = rows.groupby("study")["note"].agg(lambda n: n.str.contains("different models").all())
        assert said.to_dict() == {"a": True, "b": False}


def test_the_command_takes_the_options_of_one_list() -> None:
    python = inspect.signature(sc.read_results).parameters
    command = typer.main.get_command(app).commands["answer"].params  # type: ignore[attr-defined]
    options = {option.name for option in command}
    of_files = set(python) - {"path", "columns", "options"}
    assert of_files | set(TABLE_OPTIONS) | {"column"} <= options
    of_tables = set(inspect.signature(sc.from_frame).parameters) - {"frame", "name", *ROLES}
    assert of_tables <= set(python) | set(TABLE_OPTIONS)
    with pytest.raises(TypeError, match=r"no argument 'kep'. Did you mean 'keep'"):
        sc.read_results("x.csv", kep="last")


def test_a_further_column_of_the_cases_is_kept() -> None:
    table = answers(language=["en", "en", "de", "de"] * 10)
    made = read(table)
    with pytest.raises(FrameError, match=r"'language'.*facts='language' of from_frame keeps"):
        sc.deltas.paired(made.outcomes, by=["language"])
    made = read(table, facts="language")
    assert sc.deltas.paired(made.outcomes, by=["language"])["language"].tolist() == ["en", "de"]
    assert "differs between the rows of one case" in asked(answers(x=range(40)), facts="x")


@pytest.mark.parametrize("role", ["agent", "grader"])
def test_different_models_under_the_conditions_are_said_first(role: str, tmp_path: Path) -> None:
    table = answers().assign(m=lambda t: t["arm"].map({"baseline": "small", "skill": "large"}))
    made = read(table, **{f"{role}_model": "m"})
    said = f"the conditions have different models of the {role}: baseline small, skill large"
    for rows in (sc.deltas.paired(made.outcomes), sc.skillverdicts.decide(made.outcomes)):
        assert said in rows["note"].iloc[0]
    result = sc.report.answer(made)
    assert result.lines()[0].lower().startswith(said)
    page = sc.report.build(made, tmp_path, notebooks=[], progress=False).read_text()
    assert re.search(said, page, re.IGNORECASE)
    same = read(table.assign(m="small"), **{f"{role}_model": "m"})
    assert "different models" not in sc.deltas.paired(same.outcomes)["note"].iloc[0]


@pytest.mark.parametrize("name", ["model", "agent_model", "llm", "judge_model", "grader_model"])
def test_models_in_a_column_that_nobody_names_are_said_first_too(name: str, tmp_path) -> None:
    models = answers()["arm"].map({"baseline": "small", "skill": "large"})
    made = read(answers(gold=True, **{name: models}), gold="gold")
    said = f"the conditions have different models by the column '{name}': baseline small, skill "
    assert said in sc.deltas.paired(made.outcomes)["note"].iloc[0]
    assert sc.report.answer(made).lines()[0].startswith(f"T{said[1:]}large; a change may be that")
    made.save(tmp_path / "saved")
    again = sc.read_results(tmp_path / "saved")
    for verdicts in (made.verdicts, again.verdicts):
        corrected = sc.correction.delta(verdicts, made.gold)
        assert corrected["note"].str.contains(said).all()
    names = {"baseline": "m1", "skill": "m1 "}
    harmless = [models.where(models.index > 5, "tiny"), "small", models.where(models.eq("large"))]
    harmless += [answers()["arm"], answers()["arm"].map(names), models.replace("small", "")]
    for same in harmless:
        other = read(answers(**{name: same}))
        assert "different" not in sc.deltas.paired(other.outcomes)["note"].iloc[0]


@pytest.mark.parametrize("role", ["agent", "grader"])
def test_a_correction_and_a_change_of_amounts_say_it_too(role: str, tmp_path: Path) -> None:
    table = answers(24).assign(m=lambda t: t["arm"].map({"baseline": "small", "skill": "large"}))
    table = table.assign(gold=table["ok"], dollars=range(1, 49))
    made = read(table, gold="gold", cost_usd="dollars", **{f"{role}_model": "m"})
    made.save(tmp_path / "saved")
    again = sc.read_results(tmp_path / "saved")
    said = f"the conditions have different models of the {role}: baseline small, skill large"
    for own in (made, again):
        corrected = sc.correction.delta(own.verdicts, own.gold)
        assert corrected["note"].str.contains(said).all()
        if role == "agent":
            changes = sc.deltas.paired(own.outcomes, own.attempts, value=["cost_usd"])
            assert changes["note"].str.contains(said).all()
            assert sc.deltas.paired(own.attempts, value="cost_usd")["note"].str.contains(said).all()
    same = read(table.assign(m="small"), gold="gold", cost_usd="dollars", **{f"{role}_model": "m"})
    assert "agent_model" not in same.verdicts
    changes = sc.deltas.paired(same.outcomes, same.attempts, value=["cost_usd"])
    corrected = sc.correction.delta(same.verdicts, same.gold)
    assert not pd.concat([changes, corrected])["note"].str.contains("different models").any()


def test_equal_verdicts_of_two_versions_and_one_file_for_both_arms_are_named(tmp_path) -> None:
    table = answers()
    both = pd.concat([table.assign(judge="a"), table.assign(judge="b")])
    text = found(read(both, grader="judge"), "grader")
    assert "all 40 verdicts of a and b are equal" in text
    file = tmp_path / "run.json"
    cases = [{"name": "c", "input": "?", "metricsData": [{"name": "g", "success": True}]}]
    file.write_text(json.dumps({"testRunData": {"testCases": cases}}))
    with pytest.raises(FrameError, match="baseline and skill are the same file"):
        sc.read_results({"baseline": file, "skill": file})
    (tmp_path / "copy.json").write_bytes(file.read_bytes())
    with pytest.raises(FrameError, match="baseline and skill are the same file"):
        sc.read_results({"baseline": file, "skill": tmp_path / "copy.json"})


def test_texts_of_skills_come_with_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "tea"
    folder.mkdir()
    text = "---\nname: tea\ndescription: How to pour tea.\n---\nPour the water slowly.\n"
    (folder / "SKILL.md").write_text(text)
    table = answers(said="Pour the water slowly.", asked="How is tea served?")
    for skills in (folder / "SKILL.md", [str(folder / "SKILL.md")], {"the skill": text}):
        made = read(table, skills=skills, answer="said", prompt="asked")
        assert "Pour the water slowly" in made.skills["the skill"]
    store = sc.RunStore(made.save(tmp_path / "study"))
    assert list(store.skills) == ["the skill"]
    texts = {"skills": store.skills, "cases": sc.frames.cases(store)}
    spans = sc.overlap.spans(sc.frames.attempts(store), **texts, ngram=3)
    assert spans["span"].str.casefold().eq("pour the water slowly").all() and len(spans) == 40
    two = table.assign(plugin=["tea", "oak"] * 20)
    assert "no skill is called 'ta'; there: tea, oak. Did you mean 'tea'?" in asked(
        two, skill="plugin", skills={"ta": "x"}
    )


def test_a_merged_table_has_a_row_for_each_labeller() -> None:
    table = answers(8).assign(judge="g")
    rows = pd.concat([table.assign(who=who, human=table["ok"] ^ (who == "b")) for who in "ab"])
    made = read(rows, grader="judge", gold="human", labeller="who")
    assert len(made.verdicts) == 16 and len(made.gold) == 32
    assert made.gold["labeller"].value_counts().to_dict() == {"a": 16, "b": 16}
    label = made.gold.merge(made.verdicts, on=["attempt_id", "check_id"])
    assert label.groupby("labeller").apply(
        lambda r: (r["passed_x"] == r["passed_y"]).mean()
    ).tolist() == [1, 0]


ROWS = "task,arm,solved,close\n" + "".join(
    f"{i},{arm},{int(arm == 'tuned' or i % 2)},{'close' if i < 5 else 'far'}\n"
    for i in range(10)
    for arm in ("plain", "tuned")
)


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["answer", *map(str, arguments)])


def test_messages_of_the_command_name_options_that_it_has(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text(ROWS)
    named = ["--column=task=case", "--column=arm=condition", "--column=solved=passed"]
    named += ["--column=close=transfer", "--out", tmp_path / "page"]
    text = str(command(file, *named).exception)
    assert "found 'close' (10 rows)" in text and "--words transfer:close=... says" in text
    words = ["--words", "transfer:close=near"]
    text = str(command(file, *named, *words).exception)
    assert "- --reference plain\n- --reference tuned" in text
    words += ["--words", "condition:plain=baseline", "--words", "condition:tuned=skill"]
    done = command(file, *named, *words)
    assert done.exit_code == 0, done.output
    assert "near" in done.output
    file.write_text(ROWS + "1,plain,1,close\n")
    text = str(command(file, *named, *words).exception)
    assert "--keep all" in text and "--keep last" in text and "keep=" not in text
    assert command(file, *named, *words, "--keep", "last").exit_code == 0
    help_text = command("--help").output
    options = {re.sub(r"[^a-z-]", "", part) for part in re.findall(r"--[a-z-]+", text)}
    assert all(option in help_text for option in options)


def test_scores_labels_and_plans_are_options_of_the_command(tmp_path: Path) -> None:
    table = answers(20, repeats=1).rename(
        columns={"task": "case", "arm": "condition", "ok": "passed"}
    )
    table.to_csv(tmp_path / "a.csv", index=False)
    labels = table.iloc[::4].assign(who="ann", passed=True)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    out = ["--out", tmp_path / "page"]
    done = command(tmp_path / "a.csv", "--gold", tmp_path / "labels.csv", *out)
    assert (
        done.exit_code == 0
        and "10 gold labels" in done.output + (tmp_path / "page" / "index.html").read_text()
    )
    table.assign(score=[1.5, 4.5] * 20).drop(columns="passed").to_csv(
        tmp_path / "s.csv", index=False
    )
    text = str(command(tmp_path / "s.csv", *out).exception)
    assert "--value score and --bounds" in text
    done = command(tmp_path / "s.csv", "--value", "score", "--bounds", "1", "5", *out)
    assert done.exit_code == 0 and "+3" in done.output
    plan = pd.concat([table, table.assign(case="new")])[["case", "condition"]].drop_duplicates()
    plan.assign(skill="the skill").to_csv(tmp_path / "plan.csv", index=False)
    done = command(tmp_path / "a.csv", "--asked", tmp_path / "plan.csv", *out)
    assert done.exit_code == 0, done.exception


def test_three_lines_work_on_tables_without_further_words() -> None:
    """One row a cell, a column of repeats, or equal numbers of rows in all cells."""
    table = answers(gain=0.5)
    trial = answers(repeats=3, gain=0.5).assign(trial=[1, 2, 3] * 40)
    for own in (table, trial, answers(repeats=3, gain=0.5), trial.drop(index=[3, 50])):
        made = read(own)
        assert len(sc.skillverdicts.decide(made.outcomes)) == 1
        assert len(sc.deltas.paired(made.outcomes)) == 1


def test_words_of_verdicts_do_not_turn_a_column_of_gold() -> None:
    table = answers().assign(failed=lambda t: ~t["ok"], correct=lambda t: t["ok"])
    turned = {"passed": {True: False, False: True}}
    made = read(table, passed="failed", gold="correct", words=turned)
    assert made.gold["passed"].tolist() == table["correct"].tolist()
    assert made.verdicts["passed"].tolist() == table["ok"].tolist()
    labels = table[["task", "arm"]].assign(ok=table["ok"].map({True: "gut", False: "schlecht"}))
    words = {"gold": {"gut": True, "schlecht": False}}
    made = read(table, gold=labels, words=words)
    assert made.gold["passed"].tolist() == table["ok"].tolist()


def test_counts_on_one_cell_are_one_row_or_asked_about() -> None:
    rows = [("a", "baseline", "2/4"), ("a", "skill", "0/5"), ("a", "skill", "4/5")]
    table = pd.DataFrame(rows, columns=["task", "arm", "ok"])
    assert "several counts on the same thing: keep='all' adds them, keep='last'" in asked(table)
    made = read(table, keep="last")
    assert made.outcomes.groupby("condition")["passed"].mean().to_dict() == {
        "baseline": 0.5,
        "skill": 0.8,
    }
    assert len(read(table, keep="all").attempts) == 14
    for role in ("cost_usd", "gold", "attempt", "repeat"):
        assert f"counts say nothing about {role}= of" in asked(table.assign(x=1), **{role: "x"})
    made = read(
        pd.DataFrame(
            [*rows[:2], ("b", "skill", "n/a"), ("b", "baseline", "0/0")], columns=list(table)
        )
    )
    assert made.outcomes["passed"].isna().sum() == 1 and "0/0: no attempt" in found(made, "'ok'")


def test_rows_of_two_labellers_are_no_repeats_and_the_message_names_the_argument() -> None:
    rows = pd.concat([answers(8, labeller=who, human=True) for who in ("ann", "bob")])
    for keep in (None, "all"):
        text = asked(rows, keep=keep)
        assert "'labeller' (labeller=)" in text and "are never repeats; name the column" in text
        assert "labeller='labeller'" in text
    assert len(read(rows, gold="human", labeller="labeller").gold) == 32


def test_numbers_of_two_labellers_are_verdicts_where_the_table_has_verdicts() -> None:
    rows = pd.concat([answers(8, labeller=who, human=1) for who in ("ann", "bob")])
    made = read(rows, gold="human", labeller="labeller")
    assert made.gold["passed"].eq(True).all() and made.gold["score"].isna().all()


def test_repeats_of_two_labellers_stay_repeats() -> None:
    table = pd.concat([answers(6, repeats=2).assign(who=w, human=True) for w in "ab"])
    made = read(table, gold="human", labeller="who")
    assert len(made.attempts) == 24 and len(made.gold) == 48
    runs = table.assign(run=[*[1, 2] * 12] * 2)
    assert len(read(runs, gold="human", labeller="who").attempts) == 24


@pytest.mark.parametrize("role", ["agent_model", "grader_model"])
def test_models_that_are_named_are_never_pooled(role: str) -> None:
    table = answers(repeats=2).assign(m=["a", "b"] * 40)
    for keep in (None, "all"):
        text = asked(table, **{role: "m"}, keep=keep)
        assert "Within them differ 'm'. Such rows are never repeats" in text and "keep=" not in text


def test_repeats_are_found_before_a_later_row_replaces_one() -> None:
    table = answers(4, repeats=3).assign(run=[1, 2, 3] * 8)
    stale = table.iloc[[0]].assign(ok=False)
    made = read(pd.concat([stale, table], ignore_index=True), keep="last")
    assert len(made.attempts) == 24 and made.outcomes["passed"].tolist() == table["ok"].tolist()
    ids = answers(repeats=2).assign(seed=range(80))
    assert "repeat" not in read(ids).columns and len(read(ids).attempts) == 80


def test_a_crash_that_was_repeated_is_no_failure_that_was_replaced() -> None:
    table = answers(20).assign(end="ok")
    crashed = table[table["arm"].eq("skill")].iloc[:8].assign(ok=False, end="error")
    made = read(pd.concat([crashed, table], ignore_index=True), status="end", keep="last")
    assert "skill 8 (0 failed)" in found(made, "keep=")
    assert "replaced" not in sc.deltas.paired(made.outcomes)["note"].iloc[0]


def test_corrected_verdicts_keep_the_word_on_models() -> None:
    table = answers(40).assign(m=lambda t: t["arm"].map({"baseline": "small", "skill": "large"}))
    result = sc.report.answer(read(table, agent_model="m", gold="ok"))
    assert "different models of the agent" in result.lines()[0]
    assert "different models of the agent" in result.frames["decided"]["note"].iloc[0]


def test_a_table_for_each_arm_is_one_study(tmp_path: Path) -> None:
    table = answers().rename(columns={"task": "case", "ok": "passed"})
    files = {}
    for arm, rows in table.groupby("arm"):
        files[arm] = tmp_path / f"{arm}.csv"
        rows.drop(columns="arm").to_csv(files[arm], index=False)
    with warnings.catch_warnings(action="ignore"):
        made = sc.read_results(files)
    assert made.attempts["condition"].value_counts().to_dict() == {"baseline": 20, "skill": 20}
    (tmp_path / "twice.csv").write_text("case,condition,passed,passed\na,skill,1,0\n")
    with pytest.raises(FrameError, match="columns stand twice: passed"):
        sc.read_results(tmp_path / "twice.csv")


def test_a_file_of_labels_may_name_its_labellers(tmp_path: Path) -> None:
    table = answers(10).rename(columns={"task": "case", "arm": "condition", "ok": "passed"})
    table.to_csv(tmp_path / "a.csv", index=False)
    labels = pd.concat([table.assign(labeller=who) for who in ("ann", "ben")])
    labels.to_csv(tmp_path / "labels.csv", index=False)
    with warnings.catch_warnings(action="ignore"):
        made = sc.read_results(tmp_path / "a.csv", gold=tmp_path / "labels.csv")
        assert made.gold["labeller"].nunique() == 2 and len(made.gold) == 40
        labels.rename(columns={"labeller": "who"}).to_csv(tmp_path / "labels.csv", index=False)
        how = {"gold": tmp_path / "labels.csv", "columns": {"who": "labeller"}}
        assert sc.read_results(tmp_path / "a.csv", **how).gold["labeller"].nunique() == 2


@pytest.mark.parametrize(
    "name",
    ["gave_up", "exit_code", "needs_fix", "reward_hack", "noncompliant", "insecure", "abstained"],
)
def test_further_names_of_bad_verdicts_are_asked_about(name: str) -> None:
    assert "leaves open what they mean" in asked(
        answers().rename(columns={"ok": name}), passed=name
    )


@pytest.mark.parametrize(
    "name", ["old", "zero_shot", "withheld", "reference", "skillless", "x", "tea"]
)
def test_a_flag_of_conditions_needs_a_name_that_says_what_true_means(name: str) -> None:
    table = answers().assign(**{name: lambda t: t["arm"].eq("skill")})
    assert "leaves open what they mean" in asked(table, condition=name)


def test_odd_cells_are_refused_in_our_own_words_or_read() -> None:
    table = answers(2)
    assert len(read(table.assign(run=[[1], [2], [1], [2]])).attempts) == 4
    assert "expected numbers" in asked(table.assign(s=[10**400] * 4), score="s")
    assert "expected numbers" in asked(table.assign(s="٣"), score="s")
    odd = pd.concat([table, table.iloc[:1]]).reset_index(drop=True)
    odd["text"] = pd.Series(["cut \ud83d"] * 5, dtype=object)
    assert "are verdicts on the same thing" in asked(odd)
    wide = pd.DataFrame({"task": ["a"], "without_skill": [0], "with_skill": [1]})
    assert "'without_skill' and 'with_skill' are names of conditions; a row is one" in asked(wide)
    assert "Scores are named by score='x'" in asked(
        table.assign(x=["67 %", "50 %"] * 2), passed="x"
    )
