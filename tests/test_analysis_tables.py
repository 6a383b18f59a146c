"""Every analysis gives the numbers in `tests/analyses`: a rewrite must not change them.

Where a change is meant, ``python tests/analysis_tables.py`` writes the files anew; the commit shows
which numbers changed.
"""

import pytest
from analysis_tables import FOLDER, NAMES, path_of, read_table, table_of
from pandas.testing import assert_frame_equal


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_gives_the_recorded_numbers(name: str) -> None:
    recorded = read_table(path_of(name).read_text(encoding="utf-8"))
    # NaN equals NaN; the order of columns does not matter, that of rows does
    how = {"check_exact": False, "rtol": 1e-9, "atol": 1e-12}
    assert_frame_equal(read_table(table_of(name)), recorded, check_like=True, **how)


def test_exactly_the_rows_with_a_p_value_and_no_placebo_have_an_adjusted_one() -> None:
    n_rows = 0
    for path in FOLDER.iterdir():
        rows = read_table(path.read_text(encoding="utf-8"))
        if not {"p_value", "p_adjusted", "shown"} <= set(rows.columns):
            continue
        claims = rows["p_value"].notna()
        if "condition" in rows:
            claims &= rows["condition"].ne("placebo")
        assert rows["p_adjusted"].notna().equals(claims), path.name
        limits = rows[["ci_low", "ci_high"]].notna().all(axis=1)
        assert rows["shown"].notna().equals(claims & limits), path.name
        n_rows += int(claims.sum())
    assert n_rows > 1000


def test_every_recorded_table_belongs_to_an_analysis() -> None:
    assert {path_of(name) for name in NAMES} == set(FOLDER.iterdir())
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_500_000
