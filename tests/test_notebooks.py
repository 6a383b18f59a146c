"""The rules of the notebooks, held on every one; their committed outputs are those of a run."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
from IPython.display import display

sys.path.insert(0, str(Path(__file__).parent))
from fake_anthropic import FakeAnthropic
from live_study import only_the_fake_key
from written_study import written

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import SkillcompError, StudyError
from skillcomp.report.chapters import find_notebooks
from skillcomp.report.execute_notebooks import execute

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = find_notebooks(ROOT / "notebooks", every=True)
FIGURE_FILES = {".pdf", ".png", ".svg", ".csv", ".json", ".tex", ".txt"}
MODEL_CALLS = ("AnthropicAgent", "OpenAIAgent", "CliAgent", "ComprehensionGrader")
# modules that reach the network, other processes or other paths
REFUSED_MODULES = {"httpx", "os", "requests", "shutil", "socket", "subprocess", "sys", "urllib"}
REFUSED_TEXTS = {
    "a magic or a shell line": r"(?m)^\s*[%!]",
    "an address": r"(?i)\b(https?|ftp|wss?)://",
    "a key": r"(?i)api_?key|\bsk-[a-z0-9]|_TOKEN\b|password",
    "an absolute path": r"""["'](/|~|[A-Za-z]:\\)""",
    "a path trick": r"__file__|chdir|sys\.path|getcwd|expanduser",
}
CELL_LINES = 12
SLUGS = sorted(folder.name for folder in (ROOT / "data" / "pilot" / "skills").iterdir())
MACHINE_PATHS = r"(?<![\w.])/(home|root|tmp|work|usr|var|opt|Users|private)/|[A-Z]:\\\\"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# `make outputs` runs the chapters anew, `make test` only my-study
each_new_run = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem == "my-study" else pytest.mark.slow)
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tagged(path: Path, tag: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in code_cells(path) if tag in cell.metadata.get("tags", [])]


def parameters(path: Path) -> dict[str, object]:
    (cell,) = tagged(path, "parameters")
    body = ast.parse(cell.source).body
    return {node.targets[0].id: ast.literal_eval(node.value) for node in body}


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """Return what a cell printed and showed as text, without stderr and images."""
    outputs = cell.get("outputs", [])
    # an explorer is a copy for static pages, with text, and a widget without text
    return [
        output.text if output.output_type == "stream" else output.data["text/plain"]
        for output in outputs
        if output.get("name") == "stdout" or "text/plain" in output.get("data", {})
    ]


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that runs a notebook into a folder of its own, once a session."""

    @cache
    def once(path: Path) -> tuple[nbformat.NotebookNode, Path] | StudyError:
        out = tmp_path_factory.mktemp(path.stem)
        try:
            return execute(path, parameters={"OUT": str(out)}), out
        except StudyError as error:
            return error

    def run(path: Path) -> tuple[nbformat.NotebookNode, Path]:
        done = once(path)
        if isinstance(done, StudyError):
            pytest.fail(str(done))
        return done

    return run


# The rules


def test_the_notebooks_are_numbered_without_a_gap() -> None:
    *numbered, own = NOTEBOOKS
    assert [int(path.stem[:2]) for path in numbered] == list(range(len(numbered)))
    assert own.name == "my-study.ipynb"
    # the tutorial and the published studies have data of their own
    assert find_notebooks(ROOT / "notebooks") == numbered[1:-1]
    assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} == {
        path.name for path in NOTEBOOKS
    }


@each_notebook
def test_the_first_cell_is_the_question_with_its_answer_below(path: Path) -> None:
    prose = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    title, _, rest = read(path).cells[0].source.partition("\n")
    assert re.fullmatch(r"# \S.*\?", title), f"{path.name}: {title!r} is not a question"
    answer = rest.strip().split("\n\n")[0]
    assert answer.endswith(".") and not answer.startswith("#"), f"{path.name}: no answer below"
    assert re.findall(r"(?m)^# .+", "\n".join(prose)) == [title]


@each_notebook
def test_parameters_come_second_with_one_plain_value_a_line(path: Path) -> None:
    (cell,) = tagged(path, "parameters")
    assert read(path).cells[1] == cell
    for line in cell.source.splitlines():
        assert re.fullmatch(r"[A-Z][A-Z0-9_]* = \S.*", line), f"{path.name}: {line!r}"
    values = parameters(path)
    assert len(values) == len(cell.source.splitlines())
    assert values["OUT"] == "../report"
    assert str(values["DATA"]).startswith("../data/")
    if "LIVE" in values:
        assert isinstance(values["STORE"], str) and values["STORE"] != values["DATA"]
        assert isinstance(values["BUDGET"], float) and 0 < values["BUDGET"] <= 20


@each_notebook
def test_a_notebook_defines_no_function_and_stays_small(path: Path) -> None:
    for cell in code_cells(path):
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert not [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, defined)]
        assert len(cell.source.splitlines()) <= CELL_LINES, f"{path.name}: {cell.source}"
    assert path.stat().st_size <= 200_000


@each_notebook
def test_the_committed_outputs_are_those_of_one_clean_run(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    injected = [cell for cell in cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert injected == []
    assert nbformat.validate(read(path)) is None


@each_notebook
def test_no_magic_no_key_no_network_and_no_absolute_path(path: Path) -> None:
    for cell in code_cells(path):
        for what, pattern in REFUSED_TEXTS.items():
            assert not re.search(pattern, cell.source), f"{path.name}: {what}: {cell.source}"
        for node in ast.walk(ast.parse(cell.source)):
            names = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & REFUSED_MODULES
    for cell in code_cells(path):
        for output in cell.outputs:
            shown = json.dumps({k: v for k, v in output.get("data", {}).items() if "/png" not in k})
            assert not re.search(MACHINE_PATHS, shown + output.get("text", "")), shown


@each_notebook
def test_models_are_called_only_behind_live_which_is_false(path: Path) -> None:
    for cell in code_cells(path):
        tree = ast.parse(cell.source)
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "LIVE"
            for statement in node.body
            for inner in ast.walk(statement)
        }
        names = {f"sc.{name}" for name in MODEL_CALLS}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        calls = [call for call in calls if ast.unparse(call.func) in names]
        assert all(id(call) in guarded for call in calls), f"{path.name}: {cell.source}"
        if calls or guarded:
            assert parameters(path)["LIVE"] is False


# Prose

# what may hold a number: names, places in the report, a date, a level of significance, the zero
NO_RESULTS = (
    *(r"`[^`]*`", r"\]\([^)]*\)", r"\b[A-Za-z]\w*\d\w*", r"[Cc]hapters? \d(?: to \d)?"),
    *(r"\b\d-grams?\b", r"\d{4}-\d\d-\d\d", r"\b(?:above|below|of) 0\b", r"\.05\b"),
    *(r"\b95 %", r"\bten minutes\b", r"\bfour times in five\b"),
    *(r"\bet al\. \d{4}", r"\barXiv:[\d.]+\d"),  # sources
)


def numbers_set(path: Path) -> set[float]:
    """Return the numbers in the code of a chapter, also in percent and as a rest of 100."""
    numbers: set[float] = set()
    for cell in code_cells(path):
        values = (getattr(node, "value", None) for node in ast.walk(ast.parse(cell.source)))
        for value in values:
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers |= {float(value), round(100 * value, 6), round(100 - 100 * value, 6)}
    return numbers


def results_in(prose: str, settings: set[float]) -> list[str]:
    """Return the numbers of a text that can only come from results."""
    rest = re.sub("|".join(NO_RESULTS), " ", prose)
    digits = re.findall(r"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?|\.\d+)", rest)
    return [number for number in digits if float(number.replace(",", "")) not in settings]


@each_notebook
def test_no_result_is_typed_into_the_prose(path: Path) -> None:
    settings = numbers_set(path)
    typed = {
        cell.source.partition("\n")[0]: results
        for cell in read(path).cells
        if cell.cell_type == "markdown" and (results := results_in(cell.source, settings))
    }
    assert not typed, f"{path.name}: say it without, or print it from the frame: {typed}"


# Names that only the recorded study has: graders, skills, and the study itself
PILOT_NAMES = rf"\bg[012]\b|(?i:\bpilot\b)|{'|'.join(SLUGS)}"
# Chapters whose recorded study lacks data, with the start of the sentence that says so
NOT_SHOWN: dict[str, tuple[str, ...]] = {
    "10": ("no traces are here", "the study has no verdicts"),
}


@each_notebook
def test_a_chapter_is_an_instrument_and_not_a_paper(path: Path) -> None:
    cells = [c for c in read(path).cells if "parameters" not in c.metadata.get("tags", [])]
    for cell in cells:
        names = re.findall(PILOT_NAMES, cell.source)
        assert not names, f"{path.name}: {names} in: {cell.source}"
        assert "claims" not in cell.metadata.get("tags", [])
        assert not re.search(r"(?m)^\s*assert |fingerprint ==", cell.source), cell.source
    prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert len(prose.split()) <= 700


@each_notebook
def test_the_recorded_study_has_the_data_of_every_section(path: Path) -> None:
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    lacking = [output for output in outputs if output.output_type == "error"]
    reasons = NOT_SHOWN.get(path.stem[:2], ())
    assert [output for output in lacking if not output.evalue.startswith(reasons or "\0")] == []
    assert [output.traceback for output in lacking] == [[output.evalue] for output in lacking]


@each_notebook
def test_limits_come_before_the_versions_which_are_last(path: Path) -> None:
    cells = read(path).cells
    limits = [i for i, c in enumerate(cells) if re.search(r"(?m)^## Limits$", c.source)]
    assert len(limits) == 1 and limits[0] < len(cells) - 1
    text = cells[limits[0]].source.split("## Limits")[1]
    assert re.search(r"(?m)^- \S", text), f"{path.name}: Limits names no limit"
    assert cells[-1].cell_type == "code" and ".version(" in cells[-1].source
    assert "skillcomp" in texts(cells[-1])[0]


# The outputs


@each_new_run
def test_a_new_run_gives_the_committed_text_outputs(path: Path, executed) -> None:
    fresh, _ = executed(path)
    cells = [cell for cell in fresh.cells if cell.cell_type == "code"]
    again = [c for c in cells if "injected-parameters" not in c.metadata.get("tags", [])]
    committed = code_cells(path)
    assert [cell.source for cell in again] == [cell.source for cell in committed]
    # the last cell prints the versions of this machine
    for old, new in zip(committed[:-1], again[:-1], strict=True):
        assert texts(new) == texts(old), f"{path.name}: run `make notebooks`.\n{old.source}"


@each_new_run
def test_a_run_saves_every_figure_with_its_data_and_leaves_nothing_else(
    path: Path, executed
) -> None:
    fresh, out = executed(path)
    drawn = [
        cell
        for cell in fresh.cells
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
    ]
    saved = sorted(out.iterdir())
    assert {file.suffix for file in saved} <= FIGURE_FILES
    assert all(file.name.startswith(path.stem[:3]) for file in saved)
    pages = [file for file in saved if file.suffix == ".pdf"]
    assert len(pages) == len(drawn)
    assert pages or path.stem == "my-study"  # its figure is in the explorer
    for page in pages:
        beside = {file.suffix for file in saved if file.name.startswith(page.stem)}
        assert beside == FIGURE_FILES, f"{path.name}: {page.stem} lacks a file"
        study = path.parent / str(parameters(path)["DATA"])
        is_store = (study / "manifest.json").is_file()
        recorded = sc.RunStore(study).fingerprint if is_store else "of a table"
        beside_figure = page.with_suffix(".json").read_text("utf-8")
        assert (recorded in beside_figure) is not page.stem.startswith(MADE_UP)
    stray = [file.name for file in path.parent.iterdir() if file.name.startswith(("kernel", "."))]
    assert [name for name in stray if name not in STRAY_BEFORE] == []


# figures of a made-up table that stands for a researcher's own, and of published counts
MADE_UP = ("00-your-table", "11-")
STRAY_BEFORE = {file.name for file in (ROOT / "notebooks").iterdir()}


# The page that `make report` writes

# A reader's own data


def run_through(path: Path, monkeypatch: pytest.MonkeyPatch, **values: object) -> dict[str, object]:
    """Run a notebook's cells in this process with other parameters and return its names."""
    monkeypatch.chdir(path.parent)
    names: dict[str, object] = {"display": display}
    with mpl.rc_context():
        for cell in code_cells(path):
            tags = cell.metadata.get("tags", [])
            try:
                exec(compile(cell.source, path.name, "exec"), names)
            except SkillcompError as error:
                print(error)
                if "raises-exception" not in tags:
                    break
            if "parameters" in tags:
                names.update(values)
    plt.close("all")
    return names


@pytest.fixture(scope="module")
def own_study(tmp_path_factory: pytest.TempPathFactory) -> sc.RunStore:
    study = simulated.study(
        n_skills=3, n_cases=[9, 6, 12], conditions=("baseline", "skill"), contrast_pairs=1, seed=3
    )
    return sc.RunStore(written(tmp_path_factory.mktemp("own"), study))


def test_a_study_of_ones_own_without_a_placebo_runs_through(
    own_study: sc.RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "notebooks" / "03-near-vs-far.ipynb"
    given = {"DATA": str(own_study.path), "OUT": str(tmp_path), "GRADER": "judge"}
    run_through(path, monkeypatch, **given)
    assert list(tmp_path.glob("*.pdf"))


# A live study


LIVE = ROOT / "notebooks" / "08-run-a-study.ipynb"


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAnthropic]:
    """A service that the environment names, as a user of another endpoint would."""
    only_the_fake_key(monkeypatch, tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    with FakeAnthropic(keep=False) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


def test_live_the_paid_answers_stay_and_a_second_run_asks_nothing(
    live: FakeAnthropic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, out = tmp_path / "mine", tmp_path / "out"
    given = {"LIVE": True, "STORE": str(place), "OUT": str(out), "SKILLS": ["type-safety"]}
    out.mkdir()
    names = run_through(LIVE, monkeypatch, **given)
    n_asked = live.log["POST /v1/messages 200"]
    assert n_asked == 56 + 56 and sum(live.log.values()) == n_asked
    store = sc.RunStore(place)
    assert (store.table("attempts").num_rows, store.table("verdicts").num_rows > 56) == (56, True)
    assert set(sc.frames.attempts(store)["agent_model"]) == {names["MODEL"]}
    # a figure of live answers says so, and is of the live store
    assert {file.name.split(".")[0].split("-delta")[0] for file in out.iterdir()} == {"08-live"}
    beside = (out / "08-live.json").read_text("utf-8")
    assert store.fingerprint in beside and names["recorded"].fingerprint not in beside
    again = run_through(LIVE, monkeypatch, **given)
    assert live.log["POST /v1/messages 200"] == n_asked == sum(live.log.values())
    progress = again["again"]
    assert progress["n_open"].eq(0).all()
    assert progress.loc[progress["stage"].eq("run"), "n_ok"].sum() == 56
    pd.testing.assert_frame_equal(again["delta"], names["delta"])


@pytest.fixture(scope="module")
def less_of_the_pilot(tmp_path_factory: pytest.TempPathFactory, pilot: sc.RunStore) -> sc.RunStore:
    """Four of the six skills, and every fifth attempt lost."""
    less = sc.RunStore(tmp_path_factory.mktemp("less") / "study")
    for slug in list(pilot.skills)[:4]:
        less.add_skill(pilot.path / "skills" / slug)
        less.add_suite(pilot.path / "suites" / f"{slug}.json")
    rows = pilot.table("attempts").to_pylist()
    kept = {r["attempt_id"] for i, r in enumerate(rows) if r["skill"] in less.skills and i % 5}
    for table in ("attempts", "verdicts"):
        lines = [r for r in pilot.table(table).to_pylist() if r["attempt_id"] in kept]
        less.append(table, [{k: v for k, v in r.items() if v is not None} for r in lines])
    return less


def test_the_pilot_with_attempts_missing_runs_through(
    less_of_the_pilot: sc.RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "notebooks" / "02-skill-vs-baseline.ipynb"
    given = {"DATA": str(less_of_the_pilot.path), "OUT": str(tmp_path)}
    run_through(path, monkeypatch, **given)
    assert list(tmp_path.glob("*.pdf"))
