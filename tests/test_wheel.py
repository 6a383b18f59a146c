"""Whoever installs the wheel has the recorded data, the notebooks and the report."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from test_journeys import JOURNEYS, make_journey

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 8_000_000
RECORDED = ("data/README.md", "data/corpus/copies.jsonl", "data/corpus/copies_second.jsonl")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built offline by the backend that the dev extra brings."""
    out = tmp_path_factory.mktemp("dist")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(out), versions=["standard"])))


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


USE = """
import sys
import skillcomp as sc
from skillcomp.cli import main

print(sc.__file__, sc.datasets.load("pilot").fingerprint)
study = sc.datasets.path("triggers")
print(sc.datasets.load("triggers").fingerprint)
for words in (["report", "--data", str(study), "--out", "page", "--quiet", "--notebook", "10"],
              ["--version"], ["notebooks", "mine"]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


@pytest.mark.slow  # `make outputs` runs it
def test_the_wheel_builds_a_report_and_hands_out_its_notebooks(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    (entries,) = place.glob("*.dist-info/entry_points.txt")
    assert "skillcomp = skillcomp.cli:main" in entries.read_text("utf-8")
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(place)},  # before an editable install of the checkout
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    where, pilot, fingerprint, *_ = done.stdout.split()
    assert where.startswith(str(place)) and pilot
    assert "report: " in done.stdout and "\nskillcomp " in done.stdout
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert fingerprint in page and "10-triggers-and-process" in page
    assert (tmp_path / "page" / "10-detection.svg").is_file()
    names = {file.name for file in (ROOT / "notebooks").glob("*.ipynb")}
    assert {file.name for file in (tmp_path / "mine" / "notebooks").iterdir()} == names
    for name in RECORDED[1:]:
        assert (tmp_path / "mine" / name).read_bytes() == (ROOT / name).read_bytes()
    assert (tmp_path / "mine" / "data" / "pilot" / "manifest.json").is_file()


@pytest.mark.slow  # `make outputs` runs it
@pytest.mark.parametrize("script", JOURNEYS, ids=lambda script: script.stem)
def test_a_stranger_reaches_a_page_with_the_wheel(
    script: Path, wheel: Path, tmp_path: Path
) -> None:
    place, away = tmp_path / "installed", tmp_path / "away"
    away.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    make_journey(script, away, place, PYTHONPATH=str(place))
