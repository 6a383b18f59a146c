"""Frames go to files and come back equal."""

import csv
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import skillcomp as sc
from skillcomp.errors import FrameError, SkillcompError
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.io.spreadsheet_cells import from_cell

ROOT = Path(__file__).resolve().parent.parent


def read(path: Path) -> pd.DataFrame:
    """Read a frame back as a user would, with the columns in their order."""
    frame = pd.read_parquet(path)
    return check(frame, path.stem)[list(frame)] if path.stem in CONTRACTS else frame


@pytest.fixture(scope="module")
def every_frame(pilot: sc.RunStore, pilot_cases: pd.DataFrame) -> dict[str, pd.DataFrame]:
    every = sc.frames.verdicts(pilot, perturbation="all", round="all")
    verdicts = every.iloc[::9].reset_index(drop=True)
    outcomes = sc.frames.outcomes(verdicts, pilot_cases)
    plain = sc.frames.outcomes(sc.frames.verdicts(pilot), pilot_cases)
    triggers, process = sc.datasets.load("triggers"), sc.datasets.load("process")
    return {
        "cases": pilot_cases,
        "checks": sc.frames.checks(pilot),
        "attempts": sc.frames.attempts(pilot, perturbation="all"),
        "verdicts": verdicts,
        "outcomes": outcomes,
        "gold": sc.frames.gold(pilot, labeller="all"),
        "pairwise": sc.frames.pairwise(pilot),
        "passages": sc.frames.passages(ROOT / "data" / "corpus" / "copies.jsonl"),
        "invocations": sc.frames.invocations(triggers),
        "events": sc.frames.events(process),
        "estimates": sc.deltas.paired(plain[plain["grader"].eq("g2")], by=["skill"]),
    }


def test_every_frame_of_the_pilot_comes_back_from_parquet_equal(every_frame, tmp_path):
    assert set(every_frame) == set(CONTRACTS)
    once = sc.export.write(every_frame, tmp_path)
    again = sc.export.write(every_frame, tmp_path / "again")
    assert [p.read_bytes() for p in once] == [p.read_bytes() for p in again]
    for name, frame in every_frame.items():
        assert_frame_equal(read(tmp_path / f"{name}.parquet"), frame)
        path, _ = sc.export.write({name: empty(name)}, tmp_path)
        assert_frame_equal(read(path), empty(name))


def test_every_frame_is_written_as_csv_with_its_rows_columns_and_gaps(every_frame, tmp_path):
    sc.export.write(every_frame, tmp_path)
    for name, frame in every_frame.items():
        with (tmp_path / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        assert header == list(frame.columns)
        assert len(rows) == len(frame)
        texts = [column for column in frame.columns if frame[column].dtype == "str"]
        for column in texts:
            at = header.index(column)
            assert [from_cell(row[at]) for row in rows] == frame[column].fillna("").tolist()


def test_no_text_in_a_csv_is_a_formula_of_a_spreadsheet(tmp_path: Path) -> None:
    texts = ["=HYPERLINK(1)", " @a", "-1", "plain", "'=x"]
    frame = pd.DataFrame({"text": texts, "delta": [-1.0, -2.0, 0.0, 1.0, 2.0]})
    parquet, plain = sc.export.write({"mine": frame}, tmp_path)
    assert pd.read_csv(plain)["text"].tolist() == ["'=HYPERLINK(1)", "' @a", "'-1", "plain", "''=x"]
    assert pd.read_csv(plain)["delta"].tolist() == frame["delta"].tolist()
    assert_frame_equal(read(parquet), frame)
    titled = pd.DataFrame({"=1+1": ["a\r=1"]})
    assert sc.export.write({"titled": titled}, tmp_path)[1].read_bytes() == (b'\'=1+1\n"a\n=1"\n')


def test_what_cannot_be_written_is_named_and_the_rest_is_written(tmp_path: Path) -> None:
    broken = pd.DataFrame(
        {"attempt_id": ["a/1", "a/2"], "text": ["x", "half \ud83d"]}, dtype=object
    )
    good = pd.DataFrame({"a": [1]})
    with pytest.raises(FrameError, match=r"2 files written, 2 problems") as error:
        sc.export.write({"mine": broken, "other": good}, tmp_path)
    assert "text, attempt a/2: half of a surrogate pair" in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"other.parquet", "other.csv"}


def test_columns_of_ones_own_are_kept_with_and_without_a_contract(tmp_path: Path) -> None:
    own = pd.DataFrame({"n": [1, 2], "when": pd.to_datetime(["2026-01-01", None], utc=True)})
    written = sc.export.write({"my_table-2": own}, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["my_table-2.parquet", "my_table-2.csv"]
    assert_frame_equal(read(written[0]), own)
    cases = pd.DataFrame({"skill": ["a"], "case_id": ["a/1"], "written_by": ["me"]})
    path, _ = sc.export.write({"cases": cases}, tmp_path)
    back = read(path)
    assert list(back.columns) == [*CONTRACTS["cases"].columns, "written_by"]
    assert list(cases.columns) == ["skill", "case_id", "written_by"]  # the argument is untouched


def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    frame = empty("cases")
    for name in ("../cases", "a/b", "", "a b"):
        with pytest.raises(FrameError, match="letters, digits, '-' and '_' only"):
            sc.export.write({name: frame}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_that_breaks_its_contract_is_neither_written_nor_read(tmp_path: Path) -> None:
    wrong = pd.DataFrame({"skill": ["a"], "case_id": ["a/1"], "transfer": ["distant"]})
    with pytest.raises(FrameError, match=r"column 'transfer': found 'distant'"):
        sc.export.write({"cases": wrong}, tmp_path)
    assert list(tmp_path.iterdir()) == []
    wrong.to_parquet(tmp_path / "cases.parquet")
    with pytest.raises(FrameError, match=r"column 'transfer': found 'distant'"):
        read(tmp_path / "cases.parquet")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1 + 2j], "complex128"),
        ([1, "x", [2]], "Could not convert 'x'"),
        ([10**400], "too large"),
        (pd.arrays.SparseArray([1.0]), "Sparse"),
    ],
)
def test_cells_that_no_file_takes_are_told_and_the_file_there_stays(tmp_path, cells, said):
    (before, _) = sc.export.write({"mine": pd.DataFrame({"a": [1]})}, tmp_path)
    kept = before.read_bytes()
    with pytest.raises(FrameError, match=rf"mine\.parquet: cannot be written as parquet .*{said}"):
        sc.export.write({"mine": pd.DataFrame({"a": cells})}, tmp_path)
    assert before.read_bytes() == kept


def test_what_is_no_frame_no_mapping_no_parquet_and_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "words.parquet").write_text("words", encoding="utf-8")
    for told, wrong in (
        ("found list", lambda: sc.export.write([], tmp_path)),  # type: ignore[arg-type]
        ("'a': expected a DataFrame", lambda: sc.export.write({"a": 3}, tmp_path / "new")),  # type: ignore[dict-item]
        ("the folder cannot be made", lambda: sc.export.write({}, tmp_path / "words.parquet")),
    ):
        with pytest.raises(SkillcompError, match=told):
            wrong()
    assert not (tmp_path / "new").exists()
