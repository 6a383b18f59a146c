"""Whoever installs the wheel has the recorded data, the notebooks and the report."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 8_000_000
RECORDED = ("data/README.md", "data/corpus/copies.jsonl", "data/corpus/copies_second.jsonl")


def pip(*args: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline by the backend that the dev extra brings."""
    out = tmp_path_factory.mktemp("dist")
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", out, ROOT)
    (found,) = out.glob("skillcomp-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a fresh environment with the wheel, its dependencies lent by this one."""
    place = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    scripts = place / ("Scripts" if os.name == "nt" else "bin")
    pip("--python", scripts / "python", "install", "--no-deps", "--no-index", "--no-compile", wheel)
    (site,) = place.glob("lib/*/site-packages")
    # a path file in turn is not read: an editable install of the checkout stays out of sight
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"], encoding="utf-8")
    return scripts


def run(scripts: Path, folder: Path, *command: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(scripts / command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_recorded_data_and_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"skillcomp/shipped/{name}" for name in RECORDED} <= names
    held = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "data").rglob("*")]
    wanted = {file.relative_to(ROOT).as_posix() for file in held if file.is_file()}
    visible = {name for name in wanted if "/." not in name}
    assert {f"skillcomp/shipped/{name}" for name in visible} <= names
    assert "skillcomp/py.typed" in names and "skillcomp/templates/report.html" in names
    assert not any(name.startswith(("tests/", "benchmarks/", "data/")) for name in names)


def test_the_wheel_loads_the_pilot_and_builds_a_report(installed: Path, tmp_path: Path) -> None:
    code = (
        "import skillcomp as sc; print(sc.__file__, sc.datasets.load('pilot').fingerprint); "
        "print(sc.datasets.path('triggers'), sc.datasets.load('triggers').fingerprint)"
    )
    where, pilot, study, fingerprint = run(installed, tmp_path, "python", "-c", code).split()
    assert str(installed.parent) in where and pilot
    command = ["skillcomp", "report", "--data", study, "--out", "page", "--quiet"]
    assert "report: " in run(installed, tmp_path, *command, "--notebook", "10")
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert fingerprint in page and "10-triggers-and-process" in page
    assert (tmp_path / "page" / "10-detection.svg").is_file()


def test_the_wheel_hands_out_its_notebooks(installed: Path, tmp_path: Path) -> None:
    assert "skillcomp " in run(installed, tmp_path, "skillcomp", "--version")
    run(installed, tmp_path, "skillcomp", "notebooks", "mine")
    names = {file.name for file in (ROOT / "notebooks").glob("*.ipynb")}
    assert {file.name for file in (tmp_path / "mine" / "notebooks").iterdir()} == names
    for name in RECORDED[1:]:
        assert (tmp_path / "mine" / name).read_bytes() == (ROOT / name).read_bytes()
    assert (tmp_path / "mine" / "data" / "pilot" / "manifest.json").is_file()
