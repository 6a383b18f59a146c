"""What keeps the house small: one word for an idea, one meaning for a name, short ways through."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

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
    written += [ROOT / "data" / "README.md"]
    for path in written:
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"image/png"' not in line:
                found = re.search(r"(?i)(?<![a-z])arms?(?![a-z])", re.sub(known, "", line))
                assert found is None, f"{path.relative_to(ROOT)}: {line.strip()}"
