"""The package as a whole: what it loads, what it exports, and that its papers tell the truth."""

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
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from machine import without

import skillcomp as sc
from skillcomp.removed_names import removed_names

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
SHORT = {"check.empty", "frames.empty"}  # one line says all there is to say of these


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


REFUSED = {
    "cost_estimate": (
        lambda: sc.planning.cost_estimate("path", {}, agents="m"),
        "suites: expected a Suite .*, found str 'path'",
    ),
    "run": (lambda: sc.run("folder", agents=[]), "store: expected a RunStore .* 'folder'"),
    "grade": (lambda: sc.grade("folder", graders=[]), "store: expected a RunStore .* 'folder'"),
    "compare": (lambda: sc.compare("folder", graders=[]), "store: expected a RunStore"),
    "status": (lambda: sc.live.status("folder"), "store: expected a RunStore .* 'folder'"),
    "ReplayAgent": (lambda: sc.ReplayAgent("folder"), "store: expected a RunStore .* 'folder'"),
    "read_study": (lambda: sc.live.read_study("no.yaml"), "no.yaml: there is no study here"),
    "lint_skill": (lambda: sc.lint.lint_skill("folder"), r"expected a Skill \(sc.read_skill"),
    "lint_suite": (lambda: sc.lint.lint_suite("x.json"), r"expected a Suite \(sc.read_suite"),
    "answer": (lambda: sc.report.answer(3), r"study: expected a path .* found int 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_of_another_type_is_named_with_the_call_that_makes_it(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(sc.errors.SkillcompError, match=message):
        call()


# What it loads and exports


def printed(code: str) -> list[list[str]]:
    """Return the words of each line that a program prints in a process of its own."""
    command = [sys.executable, "-c", f"import sys, skillcomp as sc; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_a_name_loads_only_what_it_needs_and_tab_shows_the_api_alone() -> None:
    steps = ("dir(sc)", "sc.table, sc.report, dir(sc.report), sc.deltas")
    refused: list[set[str]] = [HEAVY, {"nbconvert", "nbclient", "nh3", "jinja2"}]
    *loaded, tab = printed(
        "; ".join(f"{step}; print(*sys.modules)" for step in steps) + "; print(*dir(sc))"
    )
    for modules, names in zip(loaded, refused, strict=True):
        assert {name.split(".")[0] for name in modules} & names == set()
    assert [name for name in loaded[0] if name.startswith("skillcomp.")] == [
        "skillcomp.removed_names"
    ]
    assert tab == sorted(sc.__all__)


def test_every_name_resolves_and_a_wrong_one_is_an_attribute_error() -> None:
    for name in sc.__all__:
        assert getattr(sc, name) is not None and name in dir(sc)
    with pytest.raises(AttributeError, match="skillcomp attribute delta"):
        _ = sc.delta


@pytest.mark.parametrize("name", removed_names())
def test_a_removed_name_is_an_error_that_names_what_answers_now(name: str) -> None:
    place, _, last = name.rpartition(".")
    module = importlib.import_module(f"skillcomp.{place}".rstrip("."))
    assert last not in dir(module) and not hasattr(module, last)
    with pytest.raises(AttributeError) as raised:
        getattr(module, last)
    sentence = str(raised.value)
    assert sentence == f"sc.{name} is gone: {removed_names()[name]}."
    for answer in re.findall(r"\bsc\.([\w.]*\w)", removed_names()[name]):
        attrgetter(answer)(sc)
    for path in re.findall(r"[\w-]+/[\w./-]*\w", removed_names()[name]):
        assert (ROOT / path).exists(), path
    # Python writes its own text for this form, and offers no way to change it
    with pytest.raises(ImportError, match=f"cannot import name '{last}' from '{module.__name__}'"):
        exec(f"from {module.__name__} import {last}")


@pytest.mark.parametrize("name", MODULES)
def test_tab_shows_the_api_of_a_module_and_nothing_else(name: str) -> None:
    module = importlib.import_module(f"skillcomp.{name}")
    assert module.__doc__, f"{module.__name__} does not say what it is for"
    shown = {one for one in dir(module) if not one.startswith("_")}
    assert shown == set(module.__all__)
    assert not any(inspect.ismodule(getattr(module, one)) for one in shown)


@pytest.mark.parametrize("package", ["frames", "live", "stats"])
def test_a_catalogue_has_a_heading_for_each_file_with_its_public_names(package: str) -> None:
    stub = (PACKAGE / package / "__init__.pyi").read_text(encoding="utf-8")
    files: dict[str, set[str]] = {}
    for file, name in re.findall(r"(?m)^from \.([\w.]+) import \w+ as (\w+)$", stub):
        files.setdefault(file, set()).add(name)
    parts = re.split(r"(?m)^([\w.]+): .+$", getattr(sc, package).__doc__ or "")
    names = [set(re.findall(r"``(\w+)``", text)) for text in parts[2::2]]
    listed = dict(zip(parts[1::2], names, strict=True))
    assert {file: names for file, names in listed.items() if names} == files


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
def test_public_functions_describe_their_parameters_and_what_they_return(name: str) -> None:
    for label, thing in public(getattr(sc, name)):
        text = inspect.getdoc(thing) or ""
        summary = text.split("\n\n")[0]
        assert summary.endswith((".", ".)", "?")), f"{label}: no summary sentence"
        if not inspect.isfunction(thing):
            continue
        if "Parameters" in sections(text):
            listed = text.split("Parameters\n")[1].split("\n\n")[0]
            heads = re.findall(r"(?m)^(\*{0,2}\w.*?)(?: :|$)", listed)
            missing = set(inspect.signature(thing).parameters)
            missing -= set(re.findall(r"\w+", " ".join(heads)))
            assert missing == set(), f"{label}: {missing} not described"
        if label in SHORT:
            continue
        # a variant may leave the details to its sibling, which then has them
        sibling = re.search(r"see (?::\w+:)?`~?([\w.]+)`", summary)
        if sibling is not None:
            owner = sys.modules[thing.__module__]
            thing = getattr(owner, sibling.group(1).split(".")[-1])
        assert lacking(thing) == set(), f"{label}: no section {lacking(thing)}"


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
    assert not {"url", "repository", "repository-code"} & citation.keys()  # not known yet
    assert "urls" not in PYPROJECT["project"]
    assert citation["license"] == PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE") and "Version 2.0" in read("LICENSE")


def test_constraints_pin_every_dependency_by_name_only() -> None:
    lines = read("constraints.txt").splitlines()
    pin = r"([A-Za-z0-9][A-Za-z0-9._-]*)==[0-9][A-Za-z0-9.!+_-]*"
    assert [line for line in lines if not re.fullmatch(pin, line)] == []
    names = [canonical(line.split("==")[0]) for line in lines]
    assert len(names) == len(set(names))
    project = PYPROJECT["project"]
    needs = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    needed = {canonical(re.split(r"[\[<>=~! ]", need)[0]) for need in needs}
    assert needed - {"skillcomp"} <= set(names)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of its files")
    if shutil.which("git") is None:
        without("git", "no git here, which lists the files of the checkout")
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
    ci = re.findall(r"(?m)^make .*$", read(".ci/run"))
    assert ci == ["make report", "make test", "make bare", "make outputs"]
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
    if make := shutil.which("make"):
        # `make -j test` hands its own flags down, and a second make would warn about them
        env = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
        shown = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, env=env)
        assert all(f"make {name} " in shown.stdout for name in wanted) and shown.stderr == ""
