"""A skill comes with its whole folder, a case with its input, and nothing else of a suite."""

from __future__ import annotations

import json

import pytest
from fake_anthropic import FakeAnthropic
from live_study import agent, rows, script, skill_text, suite_json

import skillcomp as sc
from skillcomp.errors import SkillError, StudyError, SuiteError
from skillcomp.io import skills as io_skills
from skillcomp.io.store import RunStore
from skillcomp.live import CliAgent
from skillcomp.live.agents.agent import StudyWarning

LIST = (
    "roots = (os.path.join(os.environ['HOME'], '.claude', 'skills'), '.')\n"
    "print(json.dumps([sorted(os.path.relpath(os.path.join(at, n), root)"
    " for at, _, names in os.walk(root) for n in names) for root in roots]))\n"
)


def program(folder):
    return CliAgent(script(folder, LIST, "lister"), skill_in="home", output="text")


def files(folder, **cases):
    """Make a skill with scripts and references, and a suite whose first case has input."""
    skill = folder / "tides"
    for name, text in {
        "SKILL.md": skill_text("tides", 3),
        "scripts/level.py": "print(1)",
        "references/marks.md": "# Marks",
        ".env": "KEY=secret",
        "evals/evals.json": "{}",
        "evals/notes.md": "The key is B.",
        "copy.json": json.dumps(suite_json("tides")),
    }.items():
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text(text)
    (skill / "scripts" / "level.py").chmod(0o755)
    suite = suite_json("tides", 2)
    suite["evals"][0]["files"] = ["data/levels.csv"]
    suite["evals"][0] |= cases
    (folder / "data").mkdir()
    (folder / "data" / "levels.csv").write_text("1,2")
    (folder / "data" / "answers.csv").write_text("secret")
    (folder / "tides.json").write_text(json.dumps(suite))
    return folder


def make(folder, **cases):
    files(folder, **cases)
    store = RunStore(folder / "study")
    store.add_skill(folder / "tides")
    store.add_suite(folder / "tides.json")
    return store


def test_a_program_gets_the_whole_skill_and_the_input_of_its_case_and_nothing_else(tmp_path):
    store = make(tmp_path)
    sc.run(store, agents=[program(tmp_path)], concurrency=1, progress=False)
    attempts = rows(store, "attempts")
    told = {(r["case_id"], r["condition"]): json.loads(r["answer"]) for r in attempts}
    whole = ["tides/SKILL.md", "tides/references/marks.md", "tides/scripts/level.py"]
    assert told["tides/1", "skill"] == [whole, ["data/levels.csv"]]
    assert told["tides/1", "baseline"] == [[], ["data/levels.csv"]]
    assert told["tides/2", "skill"] == [whole, []]
    tree = store.manifest["skills"]["tides"]["tree"]
    assert tree["n_files"] == 3 and len(tree["sha256"]) == 64
    assert set(store.manifest["suites"]["tides"]["files"]) == {"data/levels.csv"}


def test_files_that_were_edited_in_the_store_end_the_study(tmp_path):
    store = make(tmp_path)
    (store.path / "skills" / "tides" / "scripts" / "level.py").write_text("print(2)")
    with pytest.raises(StudyError, match="its files are not those that were recorded"):
        sc.run(store, agents=[program(tmp_path)], progress=False)
    (store.path / "skills" / "tides" / "scripts" / "level.py").write_text("print(1)")
    (store.path / "inputs" / "tides" / "data" / "levels.csv").write_text("3")
    with pytest.raises(StudyError, match=r"levels.csv is not the file that was recorded"):
        sc.run(store, agents=[program(tmp_path)], progress=False)


def test_an_agent_behind_a_service_warns_of_what_it_cannot_see(tmp_path, fake_key):
    store = make(tmp_path)
    told = "sees SKILL.md only of tides, none of its files and cannot read the files listed as"
    with FakeAnthropic() as server, pytest.warns(StudyWarning, match=told):
        sc.run(store, agents=[agent(server.url)], progress=False)


def test_links_that_lead_out_and_folders_without_end_are_refused(tmp_path, monkeypatch):
    folder = files(tmp_path) / "tides"
    (folder / "out.md").symlink_to(tmp_path / "data" / "answers.csv")
    with pytest.raises(SkillError, match="no file of the skill's own folder"):
        RunStore(tmp_path / "study").add_skill(folder)
    (folder / "out.md").unlink()
    (folder / "loop").symlink_to(folder)
    with pytest.raises(SkillError, match="a link to a folder"):
        RunStore(tmp_path / "study").add_skill(folder)
    (folder / "loop").unlink()
    monkeypatch.setattr(io_skills, "MAX_FILES", 2)
    with pytest.raises(SkillError, match="more than 2 files or 50 MB"):
        RunStore(tmp_path / "study").add_skill(folder)


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/hostname", "data/no.csv", "tides.json"])
def test_input_that_leads_elsewhere_or_is_not_there_is_refused(tmp_path, name):
    files(tmp_path, files=[name])
    text = r"case 'tides/1': files: (there is no|'.*leads elsewhere)"
    with pytest.raises(SuiteError, match=text):
        RunStore(tmp_path / "study").add_suite(tmp_path / "tides.json")
