"""Every chapter shows what a study has that its authors never saw, and ends in no error."""

from pathlib import Path

import pytest
from foreign_studies import NAMES, OTHER_VALUES, other_values, study
from IPython.utils.capture import capture_output
from test_notebooks import NOTEBOOKS, parameters, run_through

CHAPTERS = [path for path in NOTEBOOKS if "01" <= path.name[:2] <= "10"]
SHORT = ("03",)  # a chapter that takes a few seconds


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that writes a foreign study once a session."""
    made: dict[str, Path] = {}

    def place_of(name: str) -> Path:
        if name not in made:
            made[name] = study(name, tmp_path_factory.mktemp("foreign"))
        return made[name]

    return place_of


def pairs() -> list:
    """Return every chapter with every study; `make test` takes one study of a short chapter."""
    return [
        pytest.param(
            path, name, id=f"{path.stem}-{name}", marks=() if at == now else pytest.mark.slow
        )
        for number, path in enumerate(CHAPTERS)
        for at, name in enumerate(NAMES)
        for now in [number % len(NAMES) if path.name.startswith(SHORT) else -1]
    ]


# a chapter may leave a temporary folder to the end of its kernel
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
@pytest.mark.parametrize(("path", "name"), pairs())
def test_a_chapter_runs_on_a_foreign_study(path, name, written, tmp_path, monkeypatch):
    values: dict[str, object] = {"OUT": str(tmp_path)}
    if name == "other_values":  # of the study that the chapter was recorded on
        values |= {k: v for k, v in other_values(path.stem).items() if k in parameters(path)}
    else:
        values["DATA"] = str(written(name))
    with capture_output() as shown:
        run_through(path, monkeypatch, **values)
    assert shown.outputs or shown.stdout


def test_every_parameter_has_another_value() -> None:
    names = {name for path in CHAPTERS for name in parameters(path)}
    assert names - {"DATA", "OUT", "LIVE", "STORE"} <= set(OTHER_VALUES)
