"""Files that an author of a skill or suite may not write: one clear error from every command."""

from __future__ import annotations

import os

import live_study
import pytest

from skillcomp.errors import SkillcompError
from skillcomp.io import read_skill, read_suite
from skillcomp.io.skills import tree_of
from skillcomp.live.study_file import read_agent

SKILL = "---\nname: tide\ndescription: Reads tides.\n---\n# Tide\n\nRead the mark.\n"
TASKS = """skill_id: tide
version: "1.0"
tasks:
  - {id: words, prompt: Say it., judge: {type: contains, expected: [water]}}
"""
PROMPTS = "id,should_trigger,prompt,fixture\na,true,Use $tide,fixtures\nb,false,Hello,fixtures\n"

MAKERS = {
    "fixtures/loop': a link that leads to no file": lambda at: (at / "loop").symlink_to("loop"),
    "fixtures/gone': a link that leads to no file": lambda at: (at / "gone").symlink_to("none"),
    "fixtures/out': the link leads out of": lambda at: (at / "out").symlink_to("/etc/passwd"),
    "fixtures/pipe': not a regular file": lambda at: os.mkfifo(at / "pipe"),
    r"fixtures/a\xff.txt': the name is not UTF-8": lambda at: open(
        os.fsencode(at) + b"/a\xff.txt", "wb"
    ).close(),
}


@pytest.fixture
def repo(tmp_path, monkeypatch):
    live_study.only_the_fake_key(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "skills/tide/SKILL.md": SKILL,
        "suite/task_suite.yaml": TASKS,
        "suite/fixtures/data.txt": "water",
        "evals/skills/tide/prompts.csv": PROMPTS,
        "evals/skills/tide/fixtures/data.txt": "water",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def outputs(monkeypatch, capfd):
    """Return a call of all commands that read a skill or suite: exit code and output of each."""

    def _outputs(checked):
        evaluate = ["evaluate", "--mock", "--standalone", "--skill-path", "skills/tide", "--quiet"]
        calls = [
            ["check", checked],
            [*evaluate, "--task-suite", "suite/task_suite.yaml", "--state-root", "state"],
            ["check", "--evals", "."],
            ["trigger", "run", "--run-id", "r1", "--quiet"],
        ]
        rows = [live_study.call(monkeypatch, capfd, *arguments) for arguments in calls]
        return [(code, out + err) for code, out, err in rows]

    return _outputs


@pytest.mark.parametrize(
    ("message", "place"),
    [*((message, "fixtures") for message in MAKERS), *((m, "skill") for m in [*MAKERS][::2])],
)
def test_a_hostile_file_is_one_clear_error_of_every_command(repo, outputs, message, place):
    folders = ["suite/fixtures", "evals/skills/tide/fixtures"]
    for folder in folders if place == "fixtures" else ["skills/tide"]:
        MAKERS[message](repo / folder)
    checked = "suite/task_suite.yaml" if place == "fixtures" else "skills/tide"
    message = message if place == "fixtures" else message.replace("fixtures/", "tide/")
    for code, text in outputs(checked):
        assert code != 0 and message in text, text
        assert "Traceback" not in text and text.count(message) <= 2  # each row with the fixture


def test_a_pipe_or_a_link_to_itself_in_the_place_of_a_suite_or_a_test_is_a_fault(repo):
    os.mkfifo(repo / "skills" / "tide" / "cases.json")
    with pytest.raises(SkillcompError, match=r"tide/cases\.json': not a regular file"):
        tree_of(repo / "skills" / "tide")
    suite = repo / "suite" / "task_suite.yaml"
    judge = "{type: pytest, test_file: fixtures/test_a.py}"
    suite.write_text(TASKS.replace("{type: contains, expected: [water]}", judge))
    (repo / "suite" / "fixtures" / "test_a.py").symlink_to("test_a.py")
    with pytest.raises(SkillcompError, match="expected a file that is there"):
        read_suite(suite)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("!!bool abc", "bool"), ("!!int ''", "int"), ("2026-13-40", "timestamp")],
)
def test_a_value_that_does_not_fit_its_tag_names_file_and_line(repo, outputs, value, kind):
    suite, skill = repo / "suite" / "task_suite.yaml", repo / "skills" / "tide" / "SKILL.md"
    suite.write_text(TASKS.replace("tasks:", f"x: {value}\ntasks:"))
    with pytest.raises(SkillcompError, match=f"task_suite.yaml, line 3: .* type {kind}"):
        read_suite(suite)
    skill.write_text(SKILL.replace("description", f"x: {value}\ndescription"))
    with pytest.raises(SkillcompError, match=f"SKILL.md, line 3: .* type {kind}"):
        read_skill(skill)
    for code, text in outputs("skills/tide"):
        assert code != 0 and ", line 3: " in text and f"of the type {kind}" in text, text
        assert "Traceback" not in text
    with pytest.raises(SkillcompError, match="expected the name of a model"):
        read_agent(f"x: {value}", key="--agent")
