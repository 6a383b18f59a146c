"""The methods paragraph says how the estimates of frames were made, from their columns alone."""

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError

NAN = float("nan")


def delta(**columns: object) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"skill": ["tea", "jam"], "condition": "skill", "measure": "delta_passed",
         "estimate": [0.4, 0.1], "ci_level": 0.95, "n": [14.0, 1200.0], "n_clusters": 12.0,
         "reference": "baseline", "method": ["t; p adjusted by Holm over 2 rows", "t"], "note": ""}
    )  # fmt: skip
    return frame.assign(**columns)


def test_the_paragraph_names_what_was_averaged_against_what_and_how() -> None:
    first, last = sc.report.methods(delta()).split(". Estimates ")
    assert first == (
        "We estimated change in pass rate, averaged over attempts and then over cases, for 2 "
        "skills and the condition skill, compared with baseline, from n = 14 to 1,200 in 12 "
        "clusters, with 95 % intervals: t; p adjusted by Holm over 2 rows"
    )
    assert last.startswith(f"were computed by skillcomp {sc.__version__} with Python")
    assert f"pandas {pd.__version__}" in last


def test_each_frame_has_a_sentence_and_rows_without_an_estimate_have_none() -> None:
    agreement = delta(measure="raw_agreement", note="cases of 2 skills").drop(columns="reference")
    text = sc.report.methods(delta(), delta(), agreement, delta(estimate=NAN))
    assert text.count("We estimated") == 2
    assert "raw agreement for 2 skills" in text and "(cases of 2 skills). Est" in text
    assert sc.report.methods() == sc.report.methods(delta(estimate=NAN)) == ""
    one = sc.report.methods(delta().head(1).assign(n=NAN, method="ppi, lambda=0.31, t"))
    assert "for the skill tea and the condition skill" in one and "ppi, t." in one
    assert "n = " not in one


def test_a_frame_that_is_no_result_is_named() -> None:
    with pytest.raises(FrameError, match=r"report.methods.*method"):
        sc.report.methods(delta().drop(columns="method"))
