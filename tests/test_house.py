"""The structure of the package: names, files, layers and short ways through the code."""

import ast
import importlib
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from types import FrameType

import pandas as pd

import skillcomp as sc
from tools import size

PACKAGE = Path(sc.__file__).parent
ROOT = PACKAGE.parent
# packages whose docstring lists the files with their names, one heading each
CATALOGUES = ("frames", "live", "plots", "stats")
# public names that no word of their file announces, outside the catalogues
UNANNOUNCED = {
    "bias.copy_pairs",
    "overlap.flag",
    "overlap.roc",
    "planning.cases_needed",
    "readers.Problems",
    "reliability.flipped",
    "report.build",
    "skillverdicts.together",
}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def stubs() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each package with a stub, and the module (relative to it) of each public name."""
    for path in sorted(PACKAGE.rglob("__init__.pyi")):
        package = path.parent.relative_to(PACKAGE).as_posix().replace("/", ".")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        names = {alias.name: node.module or "" for node in nodes for alias in node.names}
        yield package if package != "." else "", names


def public_names(package: str) -> dict[str, str]:
    """Public names of a package and the file of each, also where it has no stub."""
    for name, names in stubs():
        if name == package:
            return names
    module = importlib.import_module(f"skillcomp.{package}")
    prefix = f"skillcomp.{package}."
    objects = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value.__module__.removeprefix(prefix)
        for name, value in objects.items()
        if hasattr(value, "__module__")
    }


def words(name: str) -> set[str]:
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)
    return {part.lower()[:4] for part in parts}


PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_a_public_name_is_announced_by_a_word_of_its_file() -> None:
    missing = set()
    for package in set(PACKAGES) - {*CATALOGUES, "cli"}:
        names = {name: file for name, file in public_names(package).items() if file}
        if len(set(names.values())) > 1:
            missing |= {
                f"{package}.{name}"
                for name, file in names.items()
                if not words(name) & words(file.rpartition(".")[2])
            }
    assert missing <= UNANNOUNCED


def test_every_file_has_a_name_of_its_own() -> None:
    count = Counter(Path(path).stem for path, _ in sources())
    assert {stem for stem, n in count.items() if n > 1} == {"__init__"}


def test_no_file_has_the_name_that_another_file_of_its_package_defines() -> None:
    for package, names in stubs():
        for name, file in names.items():
            place = PACKAGE / package.replace(".", "/") / f"{name}.py"
            assert not file or not place.exists() or file == name, f"{package}.{name}: {file}"


def private(name: str) -> bool:
    """Whether a name is nobody else's: not what Python, IPython or a front end ask for."""
    return name.startswith("_") and not name.endswith("_") and not name.startswith("_repr_")


def test_tests_and_benchmarks_reach_in_through_public_names() -> None:
    ours = set()
    for _, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
    ours = {name for name in ours if private(name)}
    for path in chain.from_iterable(ROOT.glob(f"{one}/**/*.py") for one in ("tests", "benchmarks")):
        text = path.read_text(encoding="utf-8")
        if ours.isdisjoint(re.findall(r"\w+", text)):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
                names = [] if own else [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillcomp"):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
                given = [one.value for one in node.args if isinstance(one, ast.Constant)]
                names = [one.rpartition(".")[2] for one in given if isinstance(one, str)]
            else:
                continue
            assert ours.isdisjoint(names), f"{path.relative_to(ROOT)}: {names}"


def test_a_run_of_recorded_answers_loads_no_sdk_and_no_statistics_before_it(tmp_path: Path) -> None:
    code = f"""
        import sys
        import skillcomp as sc
        sc.run
        assert not {{"scipy", "sklearn", "statsmodels", "matplotlib"}} & set(sys.modules)
        pilot, store = sc.RunStore({str(ROOT / "data" / "pilot")!r}), sc.RunStore({str(tmp_path)!r})
        store.add_skill(pilot.path / "skills" / "type-safety")
        store.add_suite(pilot.path / "suites" / "type-safety.json")
        table = sc.run(store, agents=[sc.ReplayAgent(pilot)], progress=False)
        assert table["n_ok"].gt(0).all()
        sys.exit(", ".join({{"anthropic", "openai"}} & set(sys.modules)) or None)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def reached(question: Callable[[], object]) -> set[str]:
    """The files of the package whose code runs for a question that was asked before."""
    question()  # what loads on first use is loaded
    files: set[str] = set()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    outer = sys.getprofile()
    sys.setprofile(seen)
    try:
        question()
    finally:
        sys.setprofile(outer)
    return {Path(name).relative_to(PACKAGE).as_posix() for name in files if str(PACKAGE) in name}


# the texts of messages and the class of an interval, which every file knows
NOUNS = {"errors.py", "stats/results.py"}


def test_a_paired_delta_comes_about_in_at_most_6_files(forced: pd.DataFrame) -> None:
    files = reached(lambda: sc.deltas.paired(forced, by=["skill"])) - NOUNS
    assert "deltas.py" in files and len(files) <= 6, sorted(files)


# functions that compute missing attempts, check sets, weights, averages and clusters, with the
# files outside the door and the engine that use them: corrections, and pairs of cases or of graders
POLICIES = {
    *("attempt_bounds", "attempt_cells", "average_note", "check_cluster", "check_sets"),
    *("unanswered_outcomes", "with_asked", "without_unanswered"),
}


def test_missing_attempts_check_sets_weights_averages_and_clusters_have_one_home() -> None:
    homes = {"contrast.py", "frames", "readers"}
    defined, users = set(), set()
    for path, tree in sources():
        of_home = path in homes or path.split("/")[0] in homes
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and of_home:
                defined.add(node.name)
            elif isinstance(node, ast.FunctionDef):
                assert node.name not in {*POLICIES, "_missing_attempts"}, f"{path}: {node.name}"
            if isinstance(node, ast.ImportFrom) and not of_home:
                users |= {(path, one.name) for one in node.names if one.name in POLICIES}
    assert defined >= POLICIES
    assert not users


def test_arms_pairs_and_groups_of_cases_are_compared_by_the_engine() -> None:
    imported: dict[str, set[str]] = {}
    for path, tree in sources():
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported[path] = {one.name for node in nodes for one in node.names}
    assert "between" in imported["transfer.py"]
    for path in ("reliability/grader_drift_and_contrast.py", "bias/features_and_perturbations.py"):
        assert imported[path] & {"within", "changes_over_items"}, path
    # two graders are compared by the pipeline of drift
    (tree,) = (t for path, t in sources() if path == "reliability/grader_drift_and_contrast.py")
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    reached, new = set[str](), {"contrast"}
    while new:
        reached |= new
        nodes = chain.from_iterable(ast.walk(functions[name]) for name in new)
        called = {node.id for node in nodes if isinstance(node, ast.Name)}
        new = called & functions.keys() - reached
    assert "paired_changes" in reached


def test_a_corrected_delta_comes_about_in_at_most_13_files(pilot: sc.RunStore) -> None:
    verdicts, gold, cases = (
        read(pilot) for read in (sc.frames.verdicts, sc.frames.gold, sc.frames.cases)
    )
    verdicts = verdicts[verdicts["grader"].eq("g2")]
    for question in (sc.correction.delta, sc.correction.rate):
        files = reached(lambda asked=question: asked(verdicts, gold, cases=cases))
        assert "correction/delta_and_rate.py" in files and len(files) <= 13, sorted(files)


def test_a_size_counts_no_comment_docstring_or_layout(tmp_path: Path) -> None:
    source = '''
        """A docstring
        of two lines."""

        def double(x):  # a comment
            """Another docstring."""
            text = """two
            lines"""
            return 2 * x
    '''
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one.py").write_text(textwrap.dedent(source), encoding="utf-8")
    # def double ( x ) : text = """...""" return 2 * x; the text is on two lines
    assert size.size_of_files(tmp_path) == {"tokens": 13, "lines": 4, "files": 1}


def test_public_names_are_those_of_modules_and_not_the_modules() -> None:
    names = set(size.public_names(sc))
    assert {"RunStore", "deltas.paired", "live.BaseAgent"} <= names
    assert not {"deltas", "live", "__version__"} & names


def test_no_file_of_the_frames_imports_itself_by_way_of_others() -> None:
    imports: dict[str, set[str]] = {}
    for path, tree in sources():
        if path.startswith("frames/"):
            # imports inside functions and for type checkers count, too
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            places = [f"{node.module}.{alias.name}" for node in nodes for alias in node.names]
            names = [place.split(".") for place in places if place.startswith("skillcomp.frames.")]
            imports[Path(path).stem] = {name[2] for name in names}
    assert "from_frame" in TopologicalSorter(imports).static_order()
