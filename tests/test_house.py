"""What keeps the house small: one word for an idea, one meaning for a name, short ways through."""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import FrameType

import pandas as pd

import skillcomp as sc

PACKAGE = Path(sc.__file__).parent
ROOT = PACKAGE.parent
# names that stand twice for one thing, with the reason
TWICE = {"estimates": "frames.estimates.estimates makes the frame that sc.plots.estimates draws"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def api(name: str) -> set[str]:
    """The modules (as files) whose function of this name the reader reaches from ``sc``."""
    places = [sc, *(getattr(sc, one) for one in sc.__all__)]
    found = (
        getattr(place, name, None) for place in places if name in getattr(place, "__all__", ())
    )
    modules = {getattr(one, "__module__", "") or "" for one in found}
    return {f"{one.removeprefix('skillcomp.').replace('.', '/')}.py" for one in modules}


def test_no_function_or_class_has_the_name_of_another() -> None:
    # sc.frames.cases and sc.skillverdicts.cases differ by what stands before the dot, and a command
    # of the shell has the name of what it calls; anything else is one name for two things.
    where = defaultdict(set)
    for path, tree in sources():
        for node in tree.body:
            made = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if made and not node.name.startswith("_") and not path.startswith("cli/"):
                where[node.name].add(path)
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert {
        name: paths for name, paths in twice.items() if paths - api(name)
    }.keys() == TWICE.keys()


def test_a_condition_is_never_called_an_arm() -> None:
    # the value stands in results, the table of texts in stores that were written before
    known = r"rogan_gladen_by_arm|[\"']arms[\"']"
    written = [path for path in PACKAGE.rglob("*.py*") if path.suffix in {".py", ".pyi"}]
    written += [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    written += [ROOT / "data" / "README.md", *ROOT.glob("benchmarks/**/*.py")]
    written += [path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)]
    for path in written:
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"image/png"' not in line:
                found = re.search(r"(?i)(?<![a-z])arms?(?![a-z])", re.sub(known, "", line))
                assert found is None, f"{path.relative_to(ROOT)}: {line.strip()}"


def test_every_import_of_the_package_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    declared = {re.split(r"[\[<>=~! ]", one)[0].lower().replace("-", "_") for one in asked}
    called = {"python_frontmatter": "frontmatter", "pyyaml": "yaml", "scikit_learn": "sklearn"}
    called["markdown_it_py"] = "markdown_it"
    declared = {called.get(one, one) for one in declared} | {"PIL", "IPython", "skillcomp"}
    for path, tree in sources():
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        tops = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
        assert tops <= declared, path


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
    for path in chain.from_iterable(ROOT.glob(f"{one}/**/*.py") for one in ("tests", "benchmarks")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillcomp"):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
                given = [one.value for one in node.args if isinstance(one, ast.Constant)]
                names = [one.rpartition(".")[2] for one in given if isinstance(one, str)]
            else:
                continue
            found = [one for one in names if private(one) and one in ours]
            assert not found, f"{path.relative_to(ROOT)}: {found[0]}"


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


def test_a_paired_delta_comes_about_in_at_most_8_files(forced: pd.DataFrame) -> None:
    files = reached(lambda: sc.deltas.paired(forced, by=["skill"]))
    assert "deltas.py" in files and len(files) <= 8, sorted(files)


def test_a_corrected_delta_comes_about_in_at_most_12_files(pilot: sc.RunStore) -> None:
    verdicts, gold, cases = (
        sc.frames.verdicts(pilot),
        sc.frames.gold(pilot),
        sc.frames.cases(pilot),
    )
    verdicts = verdicts[verdicts["grader"].eq("g2")]
    for question in (sc.correction.delta, sc.correction.rate):
        files = reached(lambda asked=question: asked(verdicts, gold, cases=cases))
        assert "correction/corrected.py" in files and len(files) <= 12, sorted(files)
