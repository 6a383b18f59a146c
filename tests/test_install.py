"""What an install brings: licences, the packages of the core and of each extra."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
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
            packages[name] = distribution(name)
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


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ("License-Expression: GPL-3.0-or-later", True),
        ("License-Expression: LGPL-2.1-only OR MIT", False),
        ("License-Expression: MIT AND LGPL-2.1-only", True),
        ("Classifier: License :: OSI Approved :: GNU Affero General Public License v3", True),
        ("License: AGPL-3.0", True),
        ("License: GPL-2.0 or BSD-3-Clause", False),
        ("License: BSD License\n        A library in this wheel is under the GPL", False),
    ],
)
def test_a_licence_is_read_from_any_of_three_fields(
    metadata: str, refused: bool, tmp_path: Path
) -> None:
    text = f"Metadata-Version: 2.4\nName: some\nVersion: 1\n{metadata}\n"
    (tmp_path / "METADATA").write_text(text, encoding="utf-8")
    package = Distribution.at(tmp_path)
    assert all(map(copyleft, licences(package))) == refused


def test_nothing_that_an_install_brings_is_available_only_under_a_copyleft_licence() -> None:
    brought = installed_with(*(set(EXTRAS) - TOOLS))
    named = {name: licences(package) for name, package in brought.items()}
    assert {name for name, choices in named.items() if not choices} == set(NO_METADATA)
    refused = {name: found for name, found in named.items() if found and all(map(copyleft, found))}
    assert refused == {}
