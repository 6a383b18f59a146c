"""Plots of single cases: strips below intervals, maps, and titles in the svg."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def cases_of(rates, *, condition="skill", skill="tea", names=None):
    """Build rows of skillverdicts.cases from pairs of rates: reference, condition."""
    base, rate = (np.array(side, dtype=float) for side in zip(*rates, strict=True))
    names = [f"{skill}/{i}" for i in range(len(rates))] if names is None else names
    columns = {"skill": skill, "case_id": names, "condition": condition, "note": ""}
    columns["reference"] = "baseline"
    numbers = {"rate": rate, "reference_rate": base, "delta": rate - base}
    return pd.DataFrame(columns | numbers)


def delta(skill="tea", condition="skill"):
    row = {"skill": skill, "condition": condition, "estimate": 0.2, "ci_low": -0.1}
    return pd.DataFrame([row | {"ci_high": 0.4, "unit": "points", "n": 4, "note": ""}])


def marks(ax, gid):
    return [line for line in ax.lines if line.get_gid() == gid]


def test_a_strip_has_one_mark_per_case_at_its_delta_below_the_interval():
    frame = cases_of([(0, 1), (1, 0), (0, 0), (1, 1), (0.5, 0.5), (np.nan, 1)])
    ax = sc.plots.cases(frame, delta())
    strip = marks(ax, "case")
    looks = {(m.get_color(), m.get_marker(), m.get_markerfacecolor() == "white") for m in strip}
    assert len(strip) == 5 and len(looks) == 5  # the case without a delta is not drawn
    assert sorted(round(float(m.get_xdata()[0])) for m in strip) == [-1, 0, 0, 0, 1]
    assert all(0.0 < float(m.get_ydata()[0]) < 0.5 for m in strip)
    texts = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert texts[:2] == ["case lost", "case passes, no change"]


def test_cases_with_the_same_delta_do_not_overlap_and_marks_too_small_are_left_out():
    many = cases_of([(0, 1)] * 40)
    places = [(float(m.get_xdata()[0]), float(m.get_ydata()[0])) for m in
              marks(sc.plots.cases(many, delta()), "case")]  # fmt: skip
    assert len(set(places)) == 40 and np.mean([x for x, _ in places]) == pytest.approx(1, abs=0.02)
    crowded = sc.plots.cases(cases_of([(0, 1)] * 3000), delta())
    assert not marks(crowded, "case") and not crowded.figure.legends


def test_the_svg_names_each_case_and_escapes_what_it_names(tmp_path):
    frame = cases_of([(0, 1), (1, 0)], names=["<script>alert(1)</script>", "b&c"])
    for name, ax in {
        "strip": sc.plots.cases(frame, delta()),
        "map": sc.plots.case_map(frame),
    }.items():
        files = sc.style.save(ax.figure, tmp_path / name, data={"cases": frame})
        (svg,) = [file for file in files if file.suffix == ".svg"]
        text = svg.read_text()
        assert "<script" not in text and "<title>&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "b&amp;c" in text
        assert ("100 % passed under skill, 0 % under baseline" in text) == (name == "strip")


def test_a_map_sorts_cases_by_the_delta_and_leaves_unknown_ones_white(tmp_path):
    frame = cases_of([(0, 1), (1, 0), (np.nan, 1)])
    ax = sc.plots.case_map(pd.concat([frame, cases_of([(0, 0)] * 3, condition="placebo")]))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["tea · baseline", "skill", "placebo"]
    colors = [patch.get_facecolor() for patch in ax.patches]
    assert len(colors) == 9 and colors[2] == (1, 1, 1, 1)  # reference of the unknown case, last
    assert colors[0] != colors[1] and colors[3] == colors[1]  # the lost case is first
    # a case that two agents answer is one case
    agents = pd.concat([frame.assign(agent=name) for name in "ab"])
    fig = sc.plots.case_map(agents, y=["skill", "agent"]).figure
    caption = sc.style.save(fig, tmp_path / "map", data={"cases": agents})[-2].read_text()
    assert "Pass rate of each of 3 cases" in caption


def test_groups_keep_their_rows_together_under_their_names():
    rows = pd.concat([delta(name).assign(g=g) for name, g in (("a", "x"), ("b", "y"), ("c", "x"))])
    ax = sc.plots.cases(cases_of([(0, 1)], skill="a"), rows, group="g")
    texts = [(text.get_text(), round(text.get_position()[1])) for text in ax.texts]
    assert texts == [("x", 0), ("y", 2)]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert [label[0] for label in labels] == ["a", "c", "b"]


def test_missing_columns_and_rows_in_one_place_are_refused():
    with pytest.raises(FrameError, match="delta"):
        sc.plots.cases(cases_of([(0, 1)]).drop(columns="delta"), delta())
    with pytest.raises(FrameError, match="stand in one place"):
        sc.plots.cases(cases_of([(0, 1)]), pd.concat([delta(), delta()]))
    assert not marks(sc.plots.cases(cases_of([(0, 1)]).iloc[:0], delta()), "case")
    many = pd.concat([cases_of([(0, 1)], skill=f"s{i}") for i in range(21)])
    for frame, n in ((many, 42), (many.iloc[:0], 0)):
        with pytest.raises(FrameError, match=f"has {n} rows; allowed: 1 to 40"):
            sc.plots.case_map(frame)
    with pytest.raises(FrameError, match="no case has an outcome"):
        sc.plots.case_map(cases_of([(np.nan, np.nan)]))
