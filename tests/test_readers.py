"""What read_results does whatever the format: tables, stores, arms, arguments and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from build import problems, results
from test_readers_deepeval import a_case as deepeval_case
from test_readers_deepeval import metric
from test_readers_deepeval import written as run_file

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.readers.reader import Problems, rows_of_attempt

TABLE = pd.DataFrame({"case": ["a", "a", "b", "b"], "passed": [True, False, True, True]})
TABLE["condition"] = ["skill", "baseline"] * 2


def trial(folder: Path, name: str, arm: str, *passed: bool) -> Path:
    """A small file of plugin-eval with one arm."""
    runs = {
        case: [{"error": None, "graders": [{"name": "g", "passed": p, "scored": True}]}]
        for case, p in zip("abc", passed, strict=False)
    }
    cases = [{"name": case, "arms": {arm: run}} for case, run in runs.items()]
    content = {"schemaVersion": 1, "claudeVersion": "2", "suite": {}, "cases": cases}
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_table_whose_columns_are_arguments(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"answers.{suffix}"
    if suffix == "parquet":
        TABLE.to_parquet(file)
    else:
        TABLE.to_csv(file, index=False, sep="\t" if suffix == "tsv" else ",")
    made = results(file, skill="tea")
    assert made.outcomes["passed"].tolist() == [True, False, True, True]
    assert made.cases["skill"].unique().tolist() == ["tea"]


def test_another_table_gives_its_columns_with_their_roles(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    TABLE.rename(columns={"case": "task", "passed": "ok"}).to_csv(file, index=False)
    with pytest.raises(FrameError, match=r"answers.csv(.|\n)*'task': 'case'"):
        sc.read_results(file)


def test_messages_and_columns_call_a_column_as_the_file_does(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    TABLE.rename(columns={"case": "task"}).assign(case="x").to_csv(file, index=False)
    made = results(file, columns={"task": "case"}, skill="tea")
    assert made.cases["case_id"].tolist() == ["a", "b"] and made.columns["case"] == "task"
    TABLE.assign(ok="maybe").to_csv(file, index=False)
    with pytest.raises(
        FrameError, match=r"column 'ok' \(columns=\{'ok': 'passed'\}\): found 'maybe'"
    ):
        sc.read_results(file, columns={"ok": "passed"})


def test_a_store_gives_its_frames(tmp_path: Path) -> None:
    own = sc.from_frame(TABLE.assign(skill="tea"))
    made = sc.read_results(own.save(tmp_path / "s"))
    with pytest.raises(FrameError, match="a store of skillcomp, which needs no skill="):
        sc.read_results(tmp_path / "s", skill="sea")
    assert made.outcomes.drop(columns="note").equals(own.outcomes.drop(columns="note"))


def test_one_file_per_arm(tmp_path: Path) -> None:
    files = {"skill": trial(tmp_path, "s", "with", True, True)}
    files["baseline"] = trial(tmp_path, "b", "with", False, True)
    made = results(files, skill="tea")
    assert sc.deltas.paired(made.outcomes)["estimate"].tolist() == [0.5]
    content = json.loads(files["skill"].read_text())
    content["cases"][0]["arms"]["without"] = content["cases"][0]["arms"]["with"]
    files["skill"].write_text(json.dumps(content))
    with pytest.raises(FrameError, match=r"s.json: holds several arms \(with, without\)"):
        results(files, skill="tea")


def test_known_confounds_stand_next_to_the_delta(tmp_path: Path) -> None:
    skilled = [
        deepeval_case(name, metric(True), input=f"Use the skill. What about {name}?")
        for name in "abc"
    ]
    plain = [deepeval_case(name, metric(name == "a")) for name in "abc"]
    files = {"baseline": run_file(tmp_path / "b.json", *plain)}
    files["skill"] = run_file(tmp_path / "s.json", *skilled)
    made = results(files, skill="tea", agent_model="m")
    confound = (
        "prompt: not the same in all answers of 3 cases, such as 'a'; the delta is that of the "
        "prompt too, and not of the skill alone."
    )
    assert made.cases["prompt"].tolist() == [f"What about {name}?" for name in "abc"]
    again = results(made.save(tmp_path / "saved"))
    both = sc.frames.concat({"may": made, "june": again})
    answer = sc.report.answer(again)
    rows = answer.findings
    sentences = rows["sentence"].tolist()
    of_skill = rows.index[rows["topic"].eq("skill")]
    assert rows.index[rows["topic"].eq("reading")][0] == of_skill[-1] + 1
    assert sentences[of_skill[-1] + 1] == confound and "agent=" in sentences[of_skill[-1] + 2]
    assert "and not of the skill alone" in answer._repr_html_()
    page = sc.report.build(made, tmp_path / "page", progress=False).read_text("utf-8")
    left_column = page.split("<h2>Skill by skill</h2>")[1].split("<figure>")[0]
    assert "the delta is that of the prompt too" in left_column
    origins = both.problems.loc[both.problems["done"].str.contains("skill alone"), "place"]
    assert origins.tolist() == ["may: prompt", "june: prompt"]


def arms(folder: Path, *names: str) -> Path:
    """A file of plugin-eval with one case that only the last arm passes."""
    runs = {
        name: [{"error": None, "graders": [{"name": "g", "passed": p, "scored": True}]}]
        for name, p in zip(names, [False, True], strict=True)
    }
    content = {"schemaVersion": 1, "claudeVersion": "2", "suite": {}}
    file = folder / "arms.json"
    file.write_text(json.dumps({**content, "cases": [{"name": "a", "arms": runs}]}))
    return file


@pytest.mark.parametrize(
    ("words", "conditions"),
    [
        (("control", "treatment"), ["baseline", "skill"]),
        (("without skills", "with-skills"), ["baseline", "skill"]),
        (("vanilla", "skilledIsolated"), ["baseline", "skill"]),
        (("no tools", "tools"), ["baseline", "skill"]),
        (("old skill", "new skill"), ["previous", "skill"]),
        (("base", "candidate"), ["baseline", "skill"]),
    ],
)
def test_arms_and_conditions_have_the_same_words(
    tmp_path: Path, words: tuple[str, str], conditions: list[str]
) -> None:
    made = results(arms(tmp_path, *words), skill="tea")
    assert made.outcomes["condition"].tolist() == conditions
    assert made.outcomes["passed"].tolist() == [False, True]
    table = pd.DataFrame({"case": "a", "condition": words, "passed": [False, True]})
    with pytest.warns(sc.frames.FrameWarning):
        own = sc.from_frame(table, skill=None)
    assert own.outcomes["condition"].tolist() == conditions


def test_two_words_for_one_condition_are_refused_as_in_a_table(tmp_path: Path) -> None:
    file = arms(tmp_path, "with", "treatment")
    with pytest.raises(FrameError, match=r"arms.json: .*'treatment' would both be 'skill'"):
        results(file, skill="tea")
    both = results(file, skill="tea", words={"condition": {"with": "terse", "treatment": "skill"}})
    assert both.outcomes["condition"].tolist() == ["terse", "skill"]
    other = results(arms(tmp_path, "x", "y"), skill="tea")
    assert "none is 'baseline'; there: x, y" in problems(other)


def test_an_attempt_without_verdicts_is_one_row_and_a_missing_verdict_has_a_reason() -> None:
    about = {"case": "a", "repeat": 1}
    verdicts = [{"check": "x", "passed": True}, {"check": "y", "passed": None}]
    assert rows_of_attempt(about, verdicts) == [about | verdict for verdict in verdicts]
    assert rows_of_attempt(about, []) == [about]


def test_rows_of_missing_verdicts_and_ids_are_made_for_every_reader_alike(tmp_path: Path) -> None:
    file = arms(tmp_path, "without", "with")
    content = json.loads(file.read_text())
    runs = content["cases"][0]["arms"]["with"]
    runs += [{"error": None, "graders": []}, {"error": "quota", "graders": []}]
    file.write_text(json.dumps(content))
    made = results(file, skill="tea")
    rows = made.verdicts.set_index("attempt_id")[["check_id", "status"]]
    assert rows.loc["tea/a/skill/claude-code/2"].tolist() == ["g", "error"]
    assert made.attempts["attempt_id"].tolist() == [
        *("tea/a/baseline/claude-code/1", "tea/a/skill/claude-code/1"),
        *("tea/a/skill/claude-code/2", "tea/a/skill/claude-code/3"),
    ]
    assert made.outcomes["passed"].tolist()[:2] == [False, True]
    assert made.outcomes["passed"].isna().tolist() == [False, False, True, True]


def test_arguments_name_what_the_file_cannot_say(tmp_path: Path) -> None:
    file = trial(tmp_path, "s", "with", True)
    made = results(file)
    assert "unknown; skill=, agent_model=, grader_model= name them" in problems(made)
    assert "none is 'baseline'" in problems(made)
    assert "read as codex" in problems(results(file, agent="codex"))
    with pytest.raises(FrameError, match=r"no arm 'wiht'; there: 'with'"):
        results(file, words={"condition": {"wiht": "skill"}})
    with pytest.raises(FrameError, match=r"checks=: 'shard'.*Did you mean 'shared'"):
        results(file, checks="shard")


def test_a_folder_with_several_files_names_them(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    trial(tmp_path / "later", "two", "with", True)
    assert len(results(tmp_path).attempts) == 1
    trial(tmp_path, "one", "with", True)
    with pytest.raises(FrameError, match=r"2 files of results: later/two.json, one.json"):
        results(tmp_path)


def test_formats_are_recognised_by_content(tmp_path: Path) -> None:
    file = trial(tmp_path, "benchmark", "with", True)
    assert results(file).attempts["condition"].tolist() == ["skill"]
    for text in ("", "null", "\0\1"):
        file.write_text(text)
        with pytest.raises(FrameError, match=r"no known format; known: .*promptfoo"):
            results(file)
    with pytest.raises(FrameError, match=f"no such file or folder. Did you mean '{file.name}'"):
        results(file.with_name(file.name[1:]))


BROKEN_TABLES = [
    ("a.parquet", "PAR1 none", "the table cannot be read"),
    ("a.csv", "case,passed\na,1\nb,1,0", "the table cannot be read"),
    ("a.csv", "case,condition,passed\na,skill,1,\nb,skill,0,", "more values than the header"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN_TABLES)
def test_a_broken_table_is_an_error_with_its_name(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(FrameError, match=f"{name}: .*{message}"):
        sc.read_results(tmp_path / name)


def test_the_message_on_another_tools_file_has_python_that_reads_it(tmp_path, capsys):
    rows = [
        {"task": {"id": f"t{at}"}, "arm": arm, "ok": arm == "skill", "latency": 3}
        for at in range(4)
        for arm in ("baseline", "skill")
    ]
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"version": 2, "run": {"tests": rows}}))
    with pytest.raises(FrameError) as caught:
        sc.read_results(file)
    message = str(caught.value)
    assert "'task.id' as case" in message and "no role: latency" in message
    exec(message[message.index("import json") :], {})
    assert "+100 points" in capsys.readouterr().out


def test_each_kind_of_problem_has_one_row_with_a_number(tmp_path: Path) -> None:
    found = Problems()
    for at in range(5):
        found.add("runs with an error", f"exit {at}", "missing, not failed", 2)
    (change,) = found.changes
    assert change == ("runs with an error", "exit 0, exit 1, exit 2 and 2 more", change.done, 10)
