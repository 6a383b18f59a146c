"""Analysis, agent, grader and reader of another package, as CONTRIBUTING.md shows them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import live_study
import pytest

import skillcomp as sc
from skillcomp.errors import StudyError
from skillcomp.live.study_file import StudyFile, read_agent, read_study

ROOT = Path(sc.__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.S)
COMMANDS = """
import sys
from skillcomp.cli import main

for command in ("check", "run", "grade", "status"):
    sys.argv = ["skillcomp", command, "study.yaml"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""

ANALYSIS = """
from guests.analysis import brevity
import matplotlib
import skillcomp as sc

matplotlib.use("agg")
store = sc.RunStore({store!r})
found = brevity(sc.frames.attempts(store), words=150)
assert found["unit"].eq("points").all() and found["estimate"].abs().between(0.01, 0.99).any()
assert (found["ci_low"] <= found["estimate"]).all() and (found["n_clusters"] > 1).all()
_, axes = sc.style.figure("column")
rows = found.assign(group=found["skill"] + " " + found["condition"])
sc.plots.estimates(rows, y="group", ax=axes)
assert len(axes.get_yticklabels()) == len(found)
assert "brief" in str(sc.table(found))
"""
STUDY = """
store: study
skills: [tides]
suites: [tides.json]
agents:
- {kind: echo, name: installed}
- {kind: python, target: "guests.agent:EchoAgent", loud: true}
graders:
- {kind: length, words: 3}
- {kind: python, target: "guests.grader:LengthGrader", words: 1000}
repeats: 1
"""


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package of the four guests, as pip leaves it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "guests").mkdir()
    for name, block in zip(("analysis", "agent", "grader", "reader"), BLOCKS, strict=True):
        assert "._" not in block and "import skillcomp as sc" in block
        (folder / "guests" / f"{name}.py").write_text(block)
    (folder / "guests-1.dist-info").mkdir()
    (folder / "guests-1.dist-info" / "METADATA").write_text("Name: guests\nVersion: 1\n")
    (folder / "guests-1.dist-info" / "entry_points.txt").write_text(
        "[skillcomp.agents]\necho = guests.agent:EchoAgent\nbroken = guests.nothing:Agent\n"
        "[skillcomp.graders]\nlength = guests.grader:LengthGrader\n"
        "[skillcomp.readers]\ntally = guests.reader:TallyReader\n"
    )
    return folder


def call(folder: Path, guests: Path, *arguments: str) -> str:
    """Run Python where only the installed packages and the guests can be imported."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(guests), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.integration
def test_a_study_file_names_agents_and_graders_of_guests(guests: Path, tmp_path: Path) -> None:
    live_study.make_files(tmp_path, n_cases=2)
    for place in ("skills/tides", "suites/tides.json"):
        (tmp_path / place).rename(tmp_path / Path(place).name)
    (tmp_path / "study.yaml").write_text(STUDY)
    printed = call(tmp_path, guests, "-c", COMMANDS)
    rows = [line.split() for line in printed.splitlines() if line.split()[:1] == ["run"]]
    assert [row[1] for row in rows[-4:]] == ["echo", "echo", "installed", "installed"]
    store = sc.RunStore(tmp_path / "study")
    attempts = sc.frames.attempts(store).set_index(["agent", "case_id", "condition"])["answer"]
    assert attempts["echo", "tides/1", "skill"] == "QUESTION 1 ABOUT TIDES: WHAT DECIDES?"
    passed = sc.frames.verdicts(store).groupby("grader_version")["passed"].agg(["mean", "size"])
    assert passed.loc["at least 3"].tolist() == [1, 16]
    assert passed.loc["at least 1000"].tolist() == [0, 16]


READER = """
with __import__("warnings").catch_warnings(record=True) as warned:
    __import__("warnings").simplefilter("always")
    own = sc.read_results("tally.json", skill="tea", agent="a", agent_model="m", grader_model="g")
assert "null; a missing verdict: the judge crashed (1 row)" in str(warned[-1].message)
assert own.outcomes["passed"].isna().sum() == 1 and len(own.outcomes) == 4
assert list(sc.deltas.paired(own.outcomes)["n_clusters"]) == [1]
"""


@pytest.mark.integration
def test_an_analysis_and_a_reader_of_guests_work(guests: Path, tmp_path: Path) -> None:
    passed = {("a", "with"): True, ("a", "without"): False, ("b", "with"): None}
    passed["b", "without"] = True
    rows = [{"case": c, "condition": arm, "passed": p} for (c, arm), p in passed.items()]
    (tmp_path / "tally.json").write_text(json.dumps({"tally": 1, "rows": rows}))
    call(tmp_path, guests, "-c", ANALYSIS.format(store=str(ROOT / "data" / "pilot")) + READER)


MODULES = {
    "mine.py": """
from pathlib import Path
class Agent:
    name, model, family, settings = "mine", None, None, "{}"
    def __init__(self, *, heat=0):
        if heat > 1:
            raise ValueError("too hot")
    async def ask(self, prompt, **options): ...
    async def aclose(self): ...

class Grader(Agent):
    kind, version = "rules", None
    def __init__(self, agent):
        self.agent = agent
    async def grade(self, *parts, **place): ...

NUMBER = 3
""",
    "broken.py": "import nothing_of_that_name",
    "json.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules next to a study file."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    sys.modules.pop("mine", None)


def study_of(folder: Path, agent: str = "", grader: str = "") -> StudyFile:
    file = folder / "study.yaml"
    file.write_text(f"store: s\nagents: [{agent}]\ngraders: [{grader}]\n")
    return read_study(file)


def test_the_keys_of_an_entry_are_arguments_and_nothing_is_imported_before(folder: Path) -> None:
    file = study_of(
        folder,
        "{kind: python, target: 'mine:Agent', heat: 1}",
        "{kind: python, target: 'mine:Grader', agent: {kind: python, target: 'mine:Agent'}}",
    )
    assert "mine" not in sys.modules
    (agent,), (grader,) = file.build("agents"), file.build("graders")
    assert agent.name == "mine" and isinstance(grader.agent, type(agent))  # type: ignore[attr-defined]
    with chdir(folder):
        assert read_agent("{kind: python, target: 'mine:Agent'}", key="--agent").name == "mine"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("target: mine", r"line 2: agents\[0\].target: found 'mine'; allowed: 'module:name', such"),
        (
            "target: 'mein:Agent'",
            r"agents\[0\].target: found 'mein:Agent': there is no module 'mein'; allowed: .* Did "
            r"you mean 'mine'\?",
        ),
        ("target: 'mine:Agnt'", r"mine has no 'Agnt'; there: Agent, Grader\. Did you mean 'Agent'"),
        (
            "target: 'broken:Agent'",
            "importing broken failed: ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ("target: 'json:Agent'", r"module 'json' is already .*json.__init__.py, not .*json\.py"),
        (
            "target: 'mine:Agent', haet: 1",
            r"agents\[0\].haet: not a known key; allowed: kind, target, heat. Did you mean 'heat'",
        ),
        ("target: 'mine:NUMBER'", r"which is 3; allowed: a class, or a function that returns one"),
        ("target: 'mine:Grader'", r"agents\[0\].agent: missing"),
        ("target: 'mine:Agent', heat: 2", r"agents\[0\]: Agent raised ValueError: too hot"),
        ("target: 'pathlib:Path'", r"without model, family, .*allowed: .* such as a .*BaseAgent"),
    ],
)
def test_an_entry_that_builds_no_agent_is_refused(folder: Path, entry: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study_of(folder, f"{{kind: python, {entry}}}").build("agents")


def test_unknown_kinds_list_the_installed_ones(
    folder: Path, guests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(guests)
    with pytest.raises(StudyError, match=r"replay, python, broken, echo. Did you mean 'echo'\?"):
        study_of(folder, "{kind: ecko}")
    with pytest.raises(StudyError, match=r"suite, python, length. Did you mean 'length'\?"):
        study_of(folder, grader="{kind: lenght}")
    with pytest.raises(StudyError, match=r"agents\[0\].laud: .*kind, name, loud. Did you mean"):
        study_of(folder, "{kind: echo, laud: true}").build("agents")
    with pytest.raises(StudyError, match=r"kind: found 'broken': importing guests.nothing:Agent f"):
        study_of(folder, "{kind: broken}").build("agents")
