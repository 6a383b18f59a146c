"""What an install brings: licences, the packages of the core and of each extra."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# tools of the developers, which no install of skillcomp brings
TOOLS = {"dev", "docs"}

# Packages whose metadata names no licence, with the licence that their files hold.
NO_METADATA = {"agent-client-protocol": "Apache-2.0, as its file LICENSE says"}


def applies(need: Requirement, extras: Iterable[str]) -> bool:
    marker = need.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


package = cache(distribution)
owners_of_modules = cache(packages_distributions)


def installed_with(*extras: str) -> dict[str, Distribution]:
    """Return the packages that `pip install skillcomp[extras]` brings, direct and transitive."""
    lists = [PROJECT["dependencies"], *(EXTRAS[extra] for extra in extras)]
    waiting = [Requirement(need) for needs in lists for need in needs]
    seen: set[tuple[str, frozenset[str]]] = set()
    packages: dict[str, Distribution] = {}
    while waiting:
        need = waiting.pop()
        name, more = canonicalize_name(need.name), frozenset(need.extras)
        if (name, more) in seen:
            continue
        seen.add((name, more))
        if name == "skillcomp":
            waiting += [Requirement(text) for extra in more for text in EXTRAS[extra]]
            continue
        try:
            packages[name] = package(name)
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed; `make test` installs every extra")
        wanted = map(Requirement, packages[name].requires or [])
        waiting += [other for other in wanted if applies(other, more)]
    return packages


# Licences


def licences(package: Distribution) -> list[str]:
    """Return the licences to choose from, as the metadata names them."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return re.split(r"\s+OR\s+", expression)
    of_classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License :: ") and line != "License :: OSI Approved"
    ]
    # some packages put the whole text of the licence here; its first line names it
    of_text = (metadata.get("License") or "").strip().splitlines()[:1]
    return of_classifiers or [part for line in of_text for part in re.split(r"\s+or\s+", line)]


def copyleft(licence: str) -> bool:
    return re.search(r"GPL|General Public", licence) is not None


def test_nothing_that_an_install_brings_is_available_only_under_a_copyleft_licence() -> None:
    brought = installed_with(*(set(EXTRAS) - TOOLS))
    named = {name: licences(package) for name, package in brought.items()}
    assert {name for name, choices in named.items() if not choices} == set(NO_METADATA)
    refused = {name: found for name, found in named.items() if found and all(map(copyleft, found))}
    assert refused == {}


# The core and its extras

# Hides packages that are installed here, as if they were not.
HIDE = """
import json, os, sys
from pathlib import Path

hidden = set(json.loads(sys.argv.pop(1)))

class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *more):
        if name.partition(".")[0] not in hidden:
            return self.finder.find_spec(name, *more)

sys.meta_path[:] = map(Without, sys.meta_path)
import pandas as pd
import skillcomp as sc
from skillcomp.cli import main

def command(*words):
    sys.argv[1:] = map(str, words)
    try:
        main()
    except SystemExit as end:
        print("exit", end.code or 0, flush=True)
"""


def modules_outside(*extras: str) -> list[str]:
    """Return the modules that are installed here and that an install with `extras` lacks."""
    brought = {*installed_with(*extras), "skillcomp"}
    return [
        module
        for module, owners in owners_of_modules().items()
        if not brought & set(map(canonicalize_name, owners)) and "skillcomp" not in module
    ]


def run_in(code: str, folder: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the packages of `skillcomp[extras]` and no others."""
    hidden = json.dumps(modules_outside(*extras))
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code, hidden],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_core_is_small() -> None:
    assert len(installed_with()) <= 55
    parts = [installed_with(extra).keys() for extra in set(EXTRAS) - TOOLS]
    assert installed_with("all").keys() == set().union(*parts)


MISSING = {
    "sc.explore.verdicts": "lab",
    "sc.explore.study": "lab",
    "sc.explore.threshold": "lab",
    "sc.report.build('study/recorded', 'p')": "lab",
    "command('report', '--notebook', '02')": "lab",
    "sc.CliAgent": "live",
    "sc.SuiteGrader": "live",
    "sc.live.TraceGrader": "live",
    "command('run', 'live/study.yaml')": "live",
    "command('trigger', 'status', '--run-id', 'x')": "live",
    "sc.AnthropicAgent('m')": "live",
    "sc.OpenAIAgent('m')": "openai",
    "sc.inspect_task": "inspect",
}
CORE = f"""
words = ("baseline", "skill")
rows = [("a", c, w, n % 2 < (w == "skill")) for n, c in enumerate("klmno") for w in words]
own = sc.from_frame(pd.DataFrame(rows, columns=["skill", "case", "condition", "passed"]))
deltas = sc.skillverdicts.decide(own.outcomes)
fig, ax = sc.style.figure("text")
sc.plots.estimates(deltas, y="skill", ax=ax)
sc.style.save(fig, "figure", data={{"deltas": deltas}})
command("init", "study")
command("init", "live")
file = Path("live/study.yaml")
replay = "{{kind: replay, store: recorded}}"
file.write_text(file.read_text().replace(replay, "{{kind: anthropic, model: claude-sonnet-5-5}}"))
for code in {list(MISSING)}:
    try:
        eval(code)
    except sc.errors.ExtraError as error:
        assert isinstance(error, ImportError)
        print(error, file=sys.stderr, flush=True)
os.chdir("study")
for words in (
    "check study.yaml", "run study.yaml --quiet", "grade study.yaml --quiet", "status study",
    "answer study", "report --data study --quiet", "export study frames", "notebooks mine",
):
    command(*words.split())
"""


@pytest.mark.slow  # `make outputs` runs it
def test_the_core_does_all_but_what_a_missing_extra_names_in_one_sentence(tmp_path: Path) -> None:
    done = run_in(CORE, tmp_path)
    lines = done.stdout.splitlines()
    ends = [line for line in lines if line.startswith("exit")]
    assert ends == ["exit 0"] * 2 + ["exit 2"] * 3 + ["exit 0"] * 8
    for name in ("figure.pdf", "study/report/index.html"):
        assert (tmp_path / name).is_file()
    assert lines[-3:-1] == ['  pip install "skillcomp[lab]"', "  jupyter lab mine/notebooks"]
    *lines, last = [line for line in done.stderr.splitlines() if "pip install" in line]
    assert "the page has the answer and no chapters: " in last and "skillcomp[lab]" in last
    sentence = r'.+ needs the package (\w+), .+ installed: pip install "skillcomp\[(.+)\]"\.'
    parts = [re.fullmatch(sentence, line) for line in lines]
    assert [part and part[2] for part in parts] == list(MISSING.values()), lines
    assert "Traceback" not in done.stderr
    for module, extra in (part.groups() for part in parts if part):
        assert canonicalize_name(owners_of_modules()[module][0]) in declared_in(EXTRAS[extra])


@pytest.mark.slow  # `make outputs` runs it
def test_an_extra_alone_brings_what_its_names_need(tmp_path: Path) -> None:
    """Each extra is tried in a fork of a process that has loaded the core."""
    names = {
        extra: [name for name, needed in MISSING.items() if needed == extra and "(" not in name]
        for extra in ("lab", "live", "inspect")
    }
    code = f"""
hidden_with = { ({extra: modules_outside(extra) for extra in names})!r}
for extra, names in {names!r}.items():
    child = os.fork()
    if not child:
        hidden.clear()
        hidden.update(hidden_with[extra])
        [eval(name) for name in names]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, extra
"""
    run_in(code, tmp_path)


# Declared and used

# Packages that are started, or loaded by a tool, and never imported: the file and its words.
STARTED = {
    "jupyterlab": ("Makefile", "jupyter lab"),
    "hatchling": ("pyproject.toml", 'build-backend = "hatchling.build"'),
    "import-linter": ("Makefile", "lint-imports"),
    "ruff": ("Makefile", "ruff check"),
    "mypy": ("Makefile", "/mypy"),
    "pandas-stubs": ("pyproject.toml", "[tool.mypy]"),
    "scipy-stubs": ("pyproject.toml", "[tool.mypy]"),
    "types-pyyaml": ("pyproject.toml", "[tool.mypy]"),
    "types-tqdm": ("pyproject.toml", "[tool.mypy]"),
    "pytest-socket": ("pyproject.toml", "--disable-socket"),
    "pytest-timeout": ("pyproject.toml", "timeout = "),
    "pytest-xdist": ("Makefile", "-n 2"),
    "notebook": ("tests/test_explore_jupyter.py", "notebook"),
    "voila": ("tests/test_explore_jupyter.py", "voila"),
    "duckdb": ("tests/test_results_howtos.py", '"duckdb"'),
    "polars": ("tests/test_results_howtos.py", '"polars"'),
    "sphinx": ("Makefile", "-m sphinx"),
    "furo": ("docs/conf.py", 'html_theme = "furo"'),
    "myst-nb": ("docs/conf.py", "myst_nb"),
    "sphinx-copybutton": ("docs/conf.py", "sphinx_copybutton"),
}

# Extras that an install of skillcomp only makes room for, with what they are there for.
ROUTES = {
    "dask": "a backend of joblib, the way to a cluster",
}


def imported_in(*folders: str) -> set[str]:
    """Return the packages outside the standard library that the code of folders imports."""
    owners, names = owners_of_modules(), set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        names |= set(re.findall(r"(?m)^ *(?:from|import) (\w+)", code))
    return {canonicalize_name(owners[name][0]) for name in names & set(owners)}


def declared_in(needs: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(need).name) for need in needs} - {"skillcomp"}


def brought_by_installs() -> set[str]:
    of_extras = (need for extra in set(EXTRAS) - TOOLS for need in EXTRAS[extra])
    return declared_in(PROJECT["dependencies"]) | declared_in(of_extras)


def test_what_the_package_imports_is_declared() -> None:
    assert imported_in("skillcomp") - brought_by_installs() == {"skillcomp"}


def test_what_is_declared_is_imported_or_started() -> None:
    for name, (file, words) in STARTED.items():
        assert words in (ROOT / file).read_text(encoding="utf-8"), name
    assert brought_by_installs() - imported_in("skillcomp") - set(STARTED) == set(ROUTES)
    tools = declared_in(need for extra in TOOLS for need in EXTRAS[extra])
    used = imported_in("skillcomp", "tests", "benchmarks", "docs", "tools")
    assert tools - used - set(STARTED) == set()


def test_a_library_has_an_upper_bound_only_with_its_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    bounded = [line for line in lines if re.match(r'\s+"[\w.-]+(\[\w+\])?[^"]*<', line)]
    assert [line for line in bounded if "#" not in line] == []
