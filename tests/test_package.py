"""The package as a whole: what it loads, what it exports, and that its papers tell the truth."""

import ast
import importlib
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import skillcomp as sc

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skillcomp"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PYPROJECT["tool"]["importlinter"]["contracts"]
LAYERS = [
    {name.strip() for name in layer.split(":")} for layer in CONTRACTS[0]["layers"]
]  # high to low
HEAVY = {
    *("pandas", "numpy", "scipy", "matplotlib", "anthropic", "statsmodels", "sklearn", "seaborn"),
    *("pydantic", "pyarrow", "ipywidgets", "nbclient", "nbconvert", "joblib", "dask"),
}
MODULES = [name for name in sc.__all__ if inspect.ismodule(getattr(sc, name))]
# one line says all there is to say of these
SHORT = {"check.empty", "frames.empty"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# What it loads and exports


def test_import_loads_none_of_the_heavy_parts() -> None:
    code = "import sys, skillcomp; dir(skillcomp); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "skillcomp" in loaded
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert [name for name in loaded if name.startswith("skillcomp.")] == []


def test_a_table_loads_no_part_of_the_page() -> None:
    code = "import sys, skillcomp as sc; sc.table, sc.report, dir(sc.report); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pandas" in loaded and not loaded & {"nbconvert", "nbclient", "nh3", "jinja2"}


def test_asking_loads_no_part_of_the_statistics() -> None:
    code = "import sys, skillcomp as sc; sc.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "pandas" in loaded and not loaded & {"scipy", "sklearn", "statsmodels", "matplotlib"}


@pytest.mark.parametrize("name", sc.__all__)
def test_every_name_of_the_package_resolves(name: str) -> None:
    assert getattr(sc, name) is not None
    assert name in dir(sc)


def test_a_name_that_is_not_there_is_an_attribute_error_like_any_other() -> None:
    with pytest.raises(AttributeError, match="skillcomp attribute delta"):
        _ = sc.delta
    assert not hasattr(sc, "_hidden")


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_lists_as_public_is_there(name: str) -> None:
    module = getattr(sc, name)
    assert module.__doc__, f"{module.__name__} does not say what it is for"
    assert [one for one in getattr(module, "__all__", []) if not hasattr(module, one)] == []


@pytest.mark.parametrize("name", MODULES)
def test_tab_shows_the_api_of_a_module_and_nothing_else(name: str) -> None:
    module = importlib.import_module(f"skillcomp.{name}")
    shown = {one for one in dir(module) if not one.startswith("_")}
    assert shown == set(module.__all__)
    assert not any(inspect.ismodule(getattr(module, one)) for one in shown)


def test_tab_on_the_package_shows_the_api_and_nothing_else() -> None:
    code = "import skillcomp as sc; sc.deltas, sc.run; print(*dir(sc))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == sorted(sc.__all__), done.stderr


@pytest.mark.parametrize(
    "name", ["bias", "frames", "io", "overlap", "reliability", "report", "simulate", "stats"]
)
def test_every_name_of_a_lazy_package_resolves_in_any_order(name: str) -> None:
    module = getattr(sc, name)
    for order in (module.__all__, module.__all__[::-1]):
        there = f"not ismodule(getattr(m, n)) for n in {order}"
        code = f"from inspect import ismodule; import skillcomp.{name} as m; print(*({there}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert set(done.stdout.split()) == {"True"}, done.stderr


@pytest.mark.parametrize("package", ["frames", "stats"])
def test_a_catalogue_has_a_heading_for_each_file_with_its_public_names(package: str) -> None:
    stub = (PACKAGE / package / "__init__.pyi").read_text(encoding="utf-8")
    files: dict[str, set[str]] = {}
    for file, name in re.findall(r"(?m)^from \.([\w.]+) import \w+ as (\w+)$", stub):
        files.setdefault(file, set()).add(name)
    parts = re.split(r"(?m)^([\w.]+): .+$", getattr(sc, package).__doc__ or "")
    names = [set(re.findall(r"``(\w+)``", text)) for text in parts[2::2]]
    assert dict(zip(parts[1::2], names, strict=True)) == files


# Docstrings


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name in getattr(module, "__all__", []):
        thing = getattr(module, name)
        if getattr(thing, "__module__", "").startswith("skillcomp") and callable(thing):
            yield f"{module.__name__.removeprefix('skillcomp.')}.{name}", thing


def sections(text: str) -> set[str]:
    return set(re.findall(r"(?m)^([A-Z][A-Za-z ]+)\n-{3,}$", text))


def lacking(function: Callable[..., object]) -> set[str]:
    """Return the numpydoc sections that the signature calls for and the docstring has not."""
    signature = inspect.signature(function)
    asked = {"Parameters"} if signature.parameters else set()
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        asked.add("Returns")
    there = sections(inspect.getdoc(function) or "")
    return asked - there - ({"Returns"} if "Yields" in there else set())


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_tell_their_parameters_and_what_they_return(name: str) -> None:
    module = getattr(sc, name)
    for label, thing in public(module):
        text = inspect.getdoc(thing) or ""
        summary = text.split("\n\n")[0]
        assert summary.endswith((".", ".)", "?")), f"{label}: no summary sentence"
        if not inspect.isfunction(thing) or label in SHORT:
            continue
        # a variant may leave the details to its sibling, which then has them
        sibling = re.search(r"see (?::\w+:)?`~?([\w.]+)`", summary)
        if sibling is not None:
            owner = sys.modules[thing.__module__]
            thing = getattr(owner, sibling.group(1).split(".")[-1])
        assert lacking(thing) == set(), f"{label}: no section {lacking(thing)}"


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_of_a_public_function_is_described(name: str) -> None:
    for label, thing in public(getattr(sc, name)):
        text = inspect.getdoc(thing) or ""
        if not inspect.isfunction(thing) or "Parameters" not in sections(text):
            continue
        told = text.split("Parameters\n")[1].split("\n\n")[0]
        named = set(re.findall(r"\w+", " ".join(re.findall(r"(?m)^(\*{0,2}\w.*?)(?: :|$)", told))))
        missing = set(inspect.signature(thing).parameters) - named
        assert missing == set(), f"{label}: {missing} not described"


# The layers


def modules() -> set[str]:
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    return found | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_layer_table_of_the_architecture_is_the_import_contract() -> None:
    table = re.findall(r"(?m)^\|[^|\n]*\| (`[^|]*`) \|", read("ARCHITECTURE.md"))
    assert [set(re.findall(r"`(\w+)`", row)) for row in table] == LAYERS


def test_every_module_has_its_place_in_the_import_contract() -> None:
    placed = [name for layer in LAYERS for name in layer]
    assert modules() - set(placed) == set()
    assert len(placed) == len(set(placed))


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return names | {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}


def test_analyses_neither_draw_nor_call_models_and_drawing_computes_nothing() -> None:
    (analyses,) = [layer for layer in LAYERS if "deltas" in layer]
    rules = {name: {"matplotlib", "seaborn", "anthropic", "ipywidgets"} for name in analyses}
    rules |= {name: {"scipy", "statsmodels", "sklearn"} for name in ("plots", "style")}
    for name, refused in rules.items():
        files = [PACKAGE / f"{name}.py", *(PACKAGE / name).rglob("*.py")]
        for path in filter(Path.is_file, files):
            assert {one.split(".")[0] for one in imported(path)} & refused == set(), path.name
    for path in (PACKAGE / "plots").rglob("*.py"):
        assert not any(one.startswith("skillcomp.stats") for one in imported(path)), path.name


# The papers


def test_the_citation_keeps_its_schema_and_names_this_version() -> None:
    spec = importlib.util.find_spec("cffconvert")
    if spec is None or importlib.util.find_spec("jsonschema") is None:
        reason = "cffconvert and jsonschema carry the schema: `make test` installs them"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    jsonschema = importlib.import_module("jsonschema")
    (folder,) = spec.submodule_search_locations or []
    schema = json.loads((Path(folder) / "schemas" / "1.2.0" / "schema.json").read_text("utf-8"))
    citation = yaml.safe_load(read("CITATION.cff"))
    jsonschema.Draft7Validator.check_schema(schema)
    found = [e.message for e in jsonschema.Draft7Validator(schema).iter_errors(citation)]
    assert found == []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**citation, "authors": []})
    assert citation["version"] == PYPROJECT["project"]["version"] == sc.__version__
    assert sc.__version__ in read("CHANGELOG.md")
    assert citation["license"] == PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE") and "Version 2.0" in read("LICENSE")


def test_constraints_pin_every_dependency_by_name_only() -> None:
    lines = read("constraints.txt").splitlines()
    pin = r"([A-Za-z0-9][A-Za-z0-9._-]*)==[0-9][A-Za-z0-9.!+_-]*"
    assert [line for line in lines if not re.fullmatch(pin, line)] == []
    names = [canonical(line.split("==")[0]) for line in lines]
    assert len(names) == len(set(names))
    project = PYPROJECT["project"]
    asked = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        asked += extra
    assert {canonical(re.split(r"[\[<>=~! ]", one)[0]) for one in asked} - set(names) == set()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def tracked() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of its files")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_no_file_names_an_index_a_machine_or_a_key() -> None:
    refused = {
        # the brackets keep the patterns from matching themselves
        "a package index": r"(?i)[-]-(extra-)?index-url|[p]ypi\.org/simple|[i]ndex-url *=",
        "a path of a machine": r"(?<![\w.])/([h]ome|[r]oot|[U]sers)/\w|[C]:\\\\?Users",
        "a key": r"\bs[k]-(ant-)?[A-Za-z0-9_-]{32}|\b[A]KIA[0-9A-Z]{16}|\bg[h][pousr]_\w{30}",
        "a private key": r"-----[B]EGIN [A-Z ]*PRIVATE KEY",
    }
    if len(ROOT.parts) > 2:
        refused["this checkout"] = re.escape(str(ROOT)) + r"\b"
    for path in tracked():
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for what, pattern in refused.items():
            hit = re.search(pattern, text)
            assert hit is None, f"{path.relative_to(ROOT)}: {what}: {hit.group()}"


def test_nothing_is_tracked_that_a_build_makes() -> None:
    names = [path.relative_to(ROOT).as_posix() for path in tracked()]
    made = r"^report/|(^|/)(__pycache__|\.venv|\.ipynb_checkpoints|[^/]*\.egg-info)/|\.pyc$|kernel-"
    assert [name for name in names if re.search(made, name)] == []


def test_the_first_two_commands_of_the_readme_are_report_and_test() -> None:
    commands = re.findall(r"(?m)^(?:\$ )?((?:make|skillcomp|python|pip) [\w-]+)", read("README.md"))
    assert commands[:2] == ["make report", "make test"]
    assert [line for line in read(".ci/run").splitlines() if line.startswith("make ")] == [
        *("make report", "make test")
    ]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"]
)
def test_links_lead_to_files_and_named_functions_exist(name: str) -> None:
    text = read(name)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith(("https://", "http://")):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"
    for path in re.findall(r"`([\w-]+(?:/[\w.-]+)+/?)`", text):
        top = path.split("/")[0]
        if (ROOT / top).is_dir() and top not in {"report"}:
            assert (ROOT / path).exists() or "<" in path, f"{name}: {path}"
    for dotted in set(re.findall(r"\bsc\.((?:\w+\.)*\w+)", text)):
        thing: object = sc
        for part in dotted.split("."):
            thing = getattr(thing, part)


def test_the_makefile_has_its_targets_and_lists_them() -> None:
    wanted = {"help", "lab", "report", "test", "check", "notebooks", "bench", "validate"}
    documented = dict(re.findall(r"(?m)^([a-z]+):.*?## (.+)$", read("Makefile")))
    assert wanted <= set(documented)
    phony = re.search(r"(?m)^\.PHONY: (.+)$", read("Makefile"))
    assert phony is not None and wanted <= set(phony.group(1).split())
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here: its help cannot be shown")
    shown = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(f"make {name} " in shown.stdout for name in wanted)
    assert shown.stderr == ""


def test_help_needs_nothing_but_make_and_what_every_system_has(tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here: its help cannot be shown")
    for name in ("sh", "grep", "sed", "awk", "sort", "cut", "printf", "python3"):
        if path := shutil.which(name):
            (tmp_path / name).symlink_to(path)
    bare = {"PATH": str(tmp_path)}
    shown = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, env=bare)
    assert "make report" in shown.stdout, shown.stderr
