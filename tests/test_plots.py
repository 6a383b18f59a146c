import itertools
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from test_style import luminance

from skillcomp import plots, style
from skillcomp.errors import FrameError
from skillcomp.reliability import contrast_counts

mpl.use("agg")
NAN = float("nan")
HOSTILE = "_$x_{1}$ costs $5\nand \\frac{ " + "long " * 40 + "🙂\x00"


@pytest.fixture(autouse=True)
def _styled():
    with style.use():
        yield
    plt.close("all")


def delta(**columns):
    frame = pd.DataFrame(
        {"skill": ["a", "a", "b", "b"], "condition": ["skill", "placebo"] * 2,
         "estimate": [0.5, 0.1, 0.25, -0.05], "ci_low": [0.3, -0.1, 0.0, -0.2],
         "ci_high": [0.7, 0.3, 0.5, 0.1], "n": [14.0, 14.0, 14.0, 12.0], "note": [""] * 4}
    )  # fmt: skip
    return frame.assign(**columns)


def gids(ax, name):
    return [a for a in ax.findobj(lambda artist: artist.get_gid() == name)]


def drawn_points(ax, gid="estimate"):
    return {
        line.get_label(): np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        for line in gids(ax, gid)
    }


def segments(ax):
    parts = [s for lines in gids(ax, "interval") for s in lines.get_segments()]
    return np.array(parts)  # line, end, (x, y)


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def legend_texts(ax):
    return [text.get_text() for text in ax.figure.legends[0].get_texts()]


def draw(ax):
    ax.figure.draw_without_rendering()
    return ax.figure.canvas.get_renderer()


# estimates -------------------------------------------------------------------------------------


def test_every_row_is_a_point_with_its_interval_beside_those_of_other_conditions():
    ax = plots.estimates(delta(), y="skill")
    points = drawn_points(ax)
    assert points["skill"][:, 0].tolist() == [0.5, 0.25]
    assert points["placebo"][:, 0].tolist() == [0.1, -0.05]
    spans = sorted(map(tuple, segments(ax)[:, :, 0].tolist()))
    assert spans == sorted(zip([0.3, -0.1, 0.0, -0.2], [0.7, 0.3, 0.5, 0.1], strict=True))
    heights = np.sort(np.concatenate([rows[:, 1] for rows in points.values()]))
    assert np.sort(segments(ax)[:, 0, 1]) == pytest.approx(heights)
    assert np.all(points["skill"][:, 1] < points["placebo"][:, 1])
    assert np.all(np.abs(points["skill"][:, 1] - [0, 1]) < 0.5)
    looks = {
        line.get_label(): (line.get_color(), line.get_marker()) for line in gids(ax, "estimate")
    }
    assert looks == {"skill": ("#0072B2", "s"), "placebo": ("#D55E00", "^")}
    assert [text.replace("\n", " ") for text in ticks(ax.yaxis)] == ["a (n = 14)", "b (n = 14, 12)"]
    ax = plots.estimates(delta()[::-1].query("condition == 'skill'"), y="skill")
    assert ticks(ax.yaxis) == ["b (n = 14)", "a (n = 14)"]  # the order of the frame
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


POINTS = "Difference (points)"


@pytest.mark.parametrize(
    ("columns", "options", "label", "tick"),
    [
        ({"measure": "accuracy"}, {}, "Estimate", "0.4"),
        ({"unit": "points"}, {}, POINTS, "+40"),
        ({"measure": "delta_share_passed"}, {},
         "Change in share of checks passed (points)", "+40"),
        ({"measure": ["delta_passed", "delta_share_passed"] * 2}, {}, POINTS, "+40"),
        ({"ci_level": 0.9, "unit": "points"}, {}, f"{POINTS}, 90 % CI", "\N{MINUS SIGN}20"),
        ({"unit": "logits"}, {}, "Difference (logits)", "+0.4"),
        ({"unit": "percentage points"}, {}, POINTS, "+0.4"),
        ({"unit": "dollars"}, {"null": None}, "Estimate (US dollars)", "0.4"),
    ],
)  # fmt: skip
def test_unit_and_measure_decide_label_and_ticks_of_the_axis(columns, options, label, tick):
    ax = plots.estimates(delta(**columns), y="skill", **options)
    draw(ax)
    assert ax.get_xlabel() == label
    assert tick in ticks(ax.xaxis) and {"0", "0.0"} & set(ticks(ax.xaxis))
    assert bool(gids(ax, "reference")) == label.startswith(("Difference", "Change"))


def test_a_row_without_estimate_limits_or_end_is_marked_as_such():
    frame = delta(estimate=[0.5, NAN, 0.25, -np.inf], ci_low=[NAN, NAN, 0.0, NAN])
    frame = frame.assign(ci_high=[0.7, NAN, np.inf, NAN], n_clusters=[5, 5, 14, 12])
    frame["note"] = ["", "no case has both", "", "not identified: one family"]
    ax = plots.estimates(frame, y="skill")
    notes = {text.get_text(): text.get_position()[1] for text in gids(ax, "note")}
    assert list(notes) == ["undefined: no case has both", "not identified: one family"]
    places = [line.get_ydata()[0] for line in gids(ax, "unknown")]
    assert places == list(notes.values())
    assert all(line.get_color() == "#D55E00" for line in gids(ax, "unknown"))
    hollow = gids(ax, "no interval")[0]
    assert hollow.get_xdata().tolist() == [0.5] and hollow.get_markerfacecolor() == "white"
    assert legend_texts(ax) == ["skill", "placebo", "hollow: no interval"]
    assert ticks(ax.yaxis)[0].replace("\n", " ") == "a (n = 14 in 5 cases)"
    (arrow,) = gids(ax, "goes on")
    assert arrow.get_marker() == ">" and len(segments(ax)) == 1
    assert arrow.get_xdata()[0] == ax.get_xlim()[1] == segments(ax)[0, 1, 0]
    draw(ax)


def test_several_columns_name_a_row_and_coefficients_share_an_axis_with_rates():
    frame = delta().assign(measure=["x", "x", "y", "y"]).drop(columns="n")
    ax = plots.estimates(frame, y=["skill", "measure"])
    assert ticks(ax.yaxis) == ["a · x", "b · y"]
    frame = delta(measure=["raw_agreement", "cohen_kappa"] * 2, unit=["rate", "coefficient"] * 2)
    ax = plots.estimates(frame[:2], y="measure", null=None)
    assert [text.split(" (n")[0] for text in ticks(ax.yaxis)] == ["raw agreement", "Cohen's kappa"]
    with pytest.raises(FrameError, match="several units"):
        plots.estimates(frame.assign(unit=["rate", "points"] * 2), y="measure")


def hues(number):
    return pd.DataFrame({"skill": range(number), "estimate": 0.1, "ci_low": 0, "ci_high": 1})


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (pd.concat([delta().assign(scope="within"), delta().assign(scope="pooled")]), {},
         r"2 rows stand in one place with y=skill and hue=condition; .*apart: scope\. Name"),
        (delta(), {"y": "skil"}, r"estimates: there is no column 'skil'.*Did you mean 'skill'\?"),
        (delta(estimate=["much"] * 4), {}, r"column 'estimate': found 'much'.*expected numbers"),
        (hues(7), {"hue": "skill"}, r"found 7 levels.*Facet"),
        (delta(), {"null": "none"}, r"null=: found 'none'"),
        (delta(unit=["points", "points", "logits", "logits"]), {},
         r"plots\.estimates: the rows have several units \(points, logits\).*one axis"),
        ([1, 2], {}, "expected a pandas DataFrame, found list"),
    ],
)  # fmt: skip
def test_a_frame_that_no_forest_can_show_is_refused(frame, options, message):
    with pytest.raises(FrameError, match=message):
        plots.estimates(frame, **{"y": "skill"} | options)


def test_the_key_stands_outside_the_data():
    ax = plots.estimates(delta(), y="skill")
    renderer = draw(ax)
    box = ax.figure.legends[0].get_window_extent(renderer)
    assert not box.overlaps(ax.get_window_extent()) and box.y0 >= 0
    assert box.x1 <= ax.figure.bbox.x1
    assert not box.overlaps(ax.xaxis.get_tightbbox(renderer))
    assert legend_texts(ax) == ["skill", "placebo"]


def test_frames_may_be_categorical_nullable_or_indexed_and_stay_unchanged():
    frame = delta().astype({"condition": "category", "skill": "string", "estimate": "Float64"})
    frame["n"] = frame["n"].astype("Int64")
    frame.loc[1, "estimate"] = pd.NA
    frame.index = [5, 5, 7, 9]
    before = frame.copy(deep=True)
    assert len(gids(plots.estimates(frame, y="skill"), "note")) == 1
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    "names",
    [
        [f"a-skill-with-a-name-that-is-longer-than-a-label-and-ends-in-{end}" for end in "xy"],
        ["x" * 200, "x" * 100 + "y" + "x" * 99],
        ["a_b", "a b", "a b (1)"],
        ["missing", None],
        [
            f"enterprise-data-warehouse-{x}-guide-for-database-administrators"
            for x in ("planning", "rollback")
        ],
    ],
)
def test_different_rows_have_different_labels(names):
    rows = pd.DataFrame({"skill": names, "group": "g", "estimate": 0.5}).assign(
        ci_low=0.1, ci_high=0.9, unit="rate", n=range(5, 5 + len(names))
    )
    labels = []
    for group in (None, "group"):
        ax = plots.estimates(rows, y="skill", group=group)
        labels.append([tick.get_text() for tick in ax.get_yticklabels()][-len(names) :])
    assert labels[0] == labels[1] and len({x.partition(" (n =")[0] for x in labels[0]}) == len(
        names
    )
    assert all(len(text) < 60 for text in labels[0])
    assert "data-warehouse" not in str(names) or "planning" in labels[0][0]
    long = plots.estimates(rows, y="skill", hue="skill").figure.legends[0]
    assert len({text.get_text() for text in long.get_texts()}) == len(names)


def test_each_verdict_has_a_sign_at_the_edge_that_the_key_explains():
    words = list(style.VERDICT_LOOKS)
    rows = pd.DataFrame({"skill": list("abcdefgh"), "estimate": 0.1, "ci_low": 0.0, "ci_high": 0.2})
    ax = plots.estimates(rows.assign(verdict=[*words, None]), y="skill", null=0)
    signs = {line.get_label(): line for line in gids(ax, "verdict")}
    assert list(signs) == words == legend_texts(ax)
    assert len({(line.get_color(), line.get_marker()) for line in signs.values()}) == 7
    assert [line.get_ydata().tolist() for line in signs.values()] == [[at] for at in range(7)]
    assert ax.get_xlim()[1] < 0.3, "the signs do not widen the axis"
    own = plots.estimates(rows[:7].assign(verdict=words), y="skill", hue="verdict")
    assert not gids(own, "verdict")


def test_the_height_of_a_forest_follows_its_number_of_rows():
    rows = pd.DataFrame({"skill": [f"s{i}" for i in range(45)], "estimate": 0.5, "unit": "rate"})
    rows = rows.assign(ci_low=0.1, ci_high=0.9)
    ax = plots.estimates(rows, y="skill", ax=style.figure("text")[1])
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    assert all(lower.y1 <= upper.y0 + 1 for upper, lower in itertools.pairwise(boxes))
    (first, _) = style.figure("text", ncols=2)[1]
    for ax in (first, style.figure("text", height=3.0)[1]):
        before = ax.figure.get_figheight()
        assert plots.estimates(rows, y="skill", ax=ax).figure.get_figheight() == before


def test_groups_head_their_rows_which_stand_together():
    frame = delta(group=["known", "known", "invented", "invented"]).iloc[[0, 2, 1, 3]]
    ax = plots.estimates(frame, y="skill", group="group")
    assert [text.get_text() for text in gids(ax, "group")] == ["known", "invented"]
    assert [text.split("\n")[0].split(" (")[0] for text in ticks(ax.yaxis)] == ["", "a", "", "b"]
    assert np.round(drawn_points(ax)["skill"][:, 1]).tolist() == [1, 3]


def estimators(**columns):
    frame = delta().rename(columns={"condition": "estimator"})
    frame["estimator"] = ["naive", "ppi"] * 2
    # as the analysis writes it: long texts that are no hue
    return frame.assign(method=["a", "b", "c", "d"], recommended=[False, True, False, True]).assign(
        **columns
    )


def test_recommended_estimates_are_filled_and_the_key_says_so():
    ax = plots.corrected(estimators())
    assert legend_texts(ax) == ["naive", "prediction-powered (ppi)", "filled: recommended"]
    hollow = np.vstack([line.get_xydata() for line in gids(ax, "hollow")])
    assert sorted(hollow[:, 0]) == [0.25, 0.5]
    widths = {
        float(line.get_linewidths()[0]): len(line.get_segments()) for line in gids(ax, "interval")
    }
    assert widths == {0.8: 2, 1.8: 2}
    faces = [handle.get_markerfacecolor() for handle in ax.figure.legends[0].legend_handles]
    assert faces[0] == "white" and "white" not in faces[1:]
    for frame in (estimators().drop(columns="recommended"), estimators(recommended=False)):
        plain = plots.corrected(frame)
        assert legend_texts(plain) == ["naive", "prediction-powered (ppi)"]
    with pytest.raises(FrameError, match="column 'recommended': found 'maybe'"):
        plots.corrected(estimators(recommended="maybe"))


# datasheet --------------------------------------------------------------------------------------

SHEET = [  # property, condition, unit, and the estimate and `shown` of each judge
    ("first wins", None, "percentage points", 0.0, (8.0, True), (3.0, False)),
    ("own family", None, "percentage points", 0.0, (-5.0, False), None),
    ("padded copy in pairs", None, "rate", 0.5, (0.1, True), None),
    ("agreement with gold", None, "rate", NAN, (0.9, None), (0.95, None)),
    ("false passes", "skill", "rate", NAN, (0.2, None), None),
    ("false passes", "baseline", "rate", NAN, (0.3, None), None),
    ("ties", None, "rate", NAN, None, None),
]


def sheet(*judges, **columns):
    """Return a datasheet; judges after the first have no conditions where they have no estimate."""
    rows = []
    for i, judge in enumerate(judges):
        for name, condition, unit, null, *cells in SHEET:
            value, shown = cells[min(i, 1)] or (NAN, None)
            half = 10.0 if unit == "percentage points" else 0.1
            measured = np.isfinite(value)
            rows.append(
                {"grader": judge, "property": name, "condition": condition if measured else None,
                 "unit": unit if measured else None, "estimate": value, "ci_low": value - half,
                 "ci_high": value + half, "ci_level": 0.95, "n": 40.0 if measured else NAN,
                 "shown": shown, "null": null if measured else NAN, "note": "not measured; give x"}
            )  # fmt: skip
    frame = pd.DataFrame(rows).drop_duplicates(["grader", "property", "condition"])
    return frame.astype({"shown": "boolean", "condition": "str"}).assign(**columns)


def test_a_datasheet_has_points_above_shares_with_the_judges_of_a_row_side_by_side():
    ax = plots.datasheet(sheet("g1", "g2"))
    points, shares, rest = ax.figure.axes
    assert points is ax and points.get_xlabel() == "Difference (points), 95 % CI"
    assert shares.get_xlabel() == "Share (%), 95 % CI"
    assert ax.figure.get_figwidth() == style.WIDTHS["column"]
    assert [t.replace("\n", " ") for t in ticks(points.yaxis)] == [
        "first wins (n = 40)", "own family (n = 40)"]  # fmt: skip
    assert [t.split("\n")[0] for t in ticks(shares.yaxis)] == [
        "padded copy in pairs", "agreement with gold", "false passes, skill",
        "false passes, baseline"]  # fmt: skip
    marks = {name: at[:, 0].tolist() for name, at in drawn_points(points).items()}
    assert marks == {"g1": [0.08, -0.05], "g2": [0.03]}
    upper, lower = drawn_points(shares)["g1"][1, 1], drawn_points(shares)["g2"][0, 1]
    assert round(upper) == round(lower) == 1 and upper < lower
    looks = {(n.get_color(), n.get_marker()) for n in gids(ax, "estimate")}
    assert len({c for c, _ in looks}) == len({m for _, m in looks}) == 2
    (text,) = gids(rest, "note")
    assert text.get_text() == "not measured: ties" and text.get_color() == style.GREY
    (legend,) = ax.figure.legends
    assert [t.get_text() for t in legend.get_texts()] == [
        "g1", "g2", "hollow: no effect shown", "no effect"]  # fmt: skip
    draw(ax)
    assert legend.get_window_extent().x1 <= ax.figure.bbox.x1


def test_a_datasheet_marks_what_is_shown_the_value_without_bias_and_what_was_not_measured():
    points, shares, _ = plots.datasheet(sheet("g1", "g2")).figure.axes
    hollow = sorted(x for at in drawn_points(points, "hollow").values() for x in at[:, 0])
    assert hollow == [-0.05, 0.03] and not gids(shares, "hollow")
    assert [line.get_xdata() for line in gids(points, "reference")] == [[0, 0]]
    (half,) = gids(shares, "reference")  # only in the row of the wins
    ends = [part.tolist() for part in half.get_segments() if len(part)]
    assert ends == [[[0.5, -0.5], [0.5, 0.5]]]
    # a judge without a point was not measured
    assert len(drawn_points(points)["g2"]) == 1 and not gids(points, "note")


def test_a_datasheet_may_have_one_judge_one_kind_of_row_or_no_estimate(tmp_path):
    frame = sheet("g1").query("property != 'ties'")
    one = plots.datasheet(frame)
    assert len(one.figure.axes) == 2 and len(gids(one, "interval")) == 2
    style.save(one.figure, tmp_path / "one", data={"sheet": frame})
    caption = (tmp_path / "one.txt").read_text()
    assert caption.startswith("Difference (points) for each property and judge; Share (%) for each")
    alt = style.alt_text(one.figure, {})
    assert "Difference (points), 95 % CI" in alt and "g1" in alt
    shares = plots.datasheet(sheet("g1", "g2").query("unit == 'rate'"))
    assert shares.get_xlabel().startswith("Share") and len(shares.figure.axes) == 1
    for rows in (sheet("g1").query("property == 'ties'"), sheet("g1").iloc[:0]):
        draw(plots.datasheet(rows))
    by_two = sheet("g1", "g2")
    by_two.insert(1, "agent", "a")
    assert plots.datasheet(by_two).figure.legends[0].get_texts()[0].get_text() == "g1 · a"
    with pytest.raises(FrameError, match="'g1' has several rows of the property 'first wins'"):
        plots.datasheet(pd.concat([sheet("g1"), sheet("g1", study="b")]))
    with pytest.raises(FrameError, match="found 7 levels"):
        plots.datasheet(sheet(*"abcdefg"))
    with pytest.raises(FrameError, match="no column 'null'"):
        plots.datasheet(sheet("g1").drop(columns="null"))


# threshold, roc, precision and recall -----------------------------------------------------------


def calibration(**columns):
    rows = [
        {"rule": "any", "n": n, "measure": m, "estimate": e / n, "ci_low": e / n - 0.05,
         "ci_high": e / n + 0.05, "chosen": n == 5, "limit": 0.05}
        for n in (4, 5, 6)
        for m, e in (("sensitivity", 4.0), ("false_flags_baseline", 1.0))
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


def test_threshold_draws_a_curve_a_measure_and_marks_choice_and_limit():
    spread = calibration().iloc[:1].assign(measure="chosen_n", ci_low=3.5, ci_high=6.5)
    ax = plots.threshold(pd.concat([calibration(), spread]))
    found = drawn_points(ax)
    assert found["sensitivity"][:, 1] == pytest.approx([4 / 4, 4 / 5, 4 / 6])
    assert found["sensitivity"][:, 0] == pytest.approx([4, 5, 6], abs=0.25)
    assert len(found) == 2 and len(segments(ax)) == 6 and {"4", "5", "6"} < {*ticks(ax.xaxis)}
    rings = [a for a in gids(ax, "chosen") if isinstance(a, mpl.lines.Line2D)]
    assert sorted(float(r.get_ydata()[0]) for r in rings) == pytest.approx([0.2, 0.8])
    (line,) = gids(ax, "reference")
    assert line.get_ydata() == [0.05, 0.05]
    assert legend_texts(ax) == [
        "copies found", "false flags (baseline)", "limit (5 %)", "chosen (n = 5)",
        "n chosen over resamples",
    ]  # fmt: skip
    (bracket,) = gids(ax, "spread")
    assert list(bracket.get_xdata()) == [4, 6]  # whole lengths
    assert ax.get_ylim()[0] < -0.05  # no point lies on the bracket


def test_estimators_and_measures_keep_their_looks_whichever_are_drawn():
    flags = calibration().query("measure == 'false_flags_baseline'")
    for both, alone, name in (
        (plots.threshold(calibration()), plots.threshold(flags), "false_flags_baseline"),
        (plots.corrected(estimators()), plots.corrected(estimators().iloc[[1, 3]]), "ppi"),
    ):
        first, second = (
            {line.get_label(): line.get_color() for line in gids(ax, "estimate")}
            for ax in (both, alone)
        )
        assert first[style.plain(name)] == second[style.plain(name)]


def test_several_rules_are_refused_because_a_line_would_join_them():
    two = pd.concat([calibration(), calibration(rule="share", chosen=False)])
    with pytest.raises(FrameError, match=r"several rules \(any, share\).*facet by rule"):
        plots.threshold(two)


def test_threshold_needs_neither_rule_chosen_nor_limit_and_an_undefined_rate_is_a_gap():
    ax = plots.threshold(calibration().drop(columns=["rule", "chosen", "limit"]))
    assert gids(ax, "reference") == gids(ax, "chosen") == []
    draw(ax)
    frame = calibration()
    frame.loc[2, "estimate"] = NAN
    points = drawn_points(plots.threshold(frame))["sensitivity"][:, 1]
    assert np.isnan(points).tolist() == [False, True, False]
    with pytest.raises(FrameError, match=r"column 'chosen': found 'perhaps'.*allowed: True, False"):
        plots.threshold(calibration(chosen="perhaps"))


def test_roc_draws_the_rates_in_the_order_given_with_a_visible_mark_a_curve():
    frame = pd.DataFrame(
        {"false_positive_rate": [1.0, 0.2, 0.0], "true_positive_rate": [1.0, 0.7, 0.0],
         "n": 4}
    )  # fmt: skip
    ax = plots.roc(frame)
    (line,) = gids(ax, "estimate")
    assert line.get_xydata().tolist() == [[1.0, 1.0], [0.2, 0.7], [0.0, 0.0]]
    assert line.get_drawstyle() == "default"  # as scikit-learn counts ties
    assert legend_texts(ax) == ["thresholds", "chance"]
    assert ax.get_aspect() == 1.0
    two = plots.roc(pd.concat([frame, frame.assign(n=6)]), hue="n")
    assert legend_texts(two) == ["length of n-gram 4", "length of n-gram 6", "chance"]
    starts = [line.get_markevery()[0] for line in gids(two, "estimate")]
    assert len(set(starts)) == 2  # equal curves have their marks in other places


# strips -----------------------------------------------------------------------------------------


def test_overlap_draws_one_mark_for_every_text():
    frame = pd.DataFrame(
        {"condition": ["skill", "baseline", "skill", "skill"], "share": [0.2, 0.0, 0.1, NAN]}
    )
    ax = plots.overlap(frame, limit=0.05)
    found = drawn_points(ax)
    assert found["baseline"][:, 0].tolist() == [0.0]
    assert found["skill"][:, 0].tolist() == [0.2, 0.1]  # the undefined one is counted in the label
    assert np.all(np.abs(found["skill"][:, 1] - 1) < 0.5)
    assert ticks(ax.yaxis) == ["baseline\n(n = 1)", "skill\n(n = 3, 1 undefined)"]
    assert legend_texts(ax) == ["limit (5 %)"]


def test_overlap_by_level_has_the_same_jitter_again_and_refuses_scores_of_several_n():
    frame = pd.DataFrame({"level": ["near_copy", "fresh"], "share": [0.5, 0.1]})
    ax = plots.overlap(frame, y="level")
    draw(ax)
    assert ticks(ax.yaxis) == ["near copy\n(n = 1)", "fresh\n(n = 1)"]
    frame = pd.DataFrame(
        {"skill": ["a"] * 40, "condition": ["baseline", "skill"] * 20, "share": np.arange(40) / 80}
    )
    before = np.random.get_state()[1].copy()
    marks, again = (drawn_points(plots.overlap(frame)) for _ in "ab")
    assert np.array_equal(marks["skill"], again["skill"])  # the same jitter
    assert np.array_equal(np.random.get_state()[1], before)
    frame = frame.iloc[:2].assign(n=[5, 6])
    with pytest.raises(FrameError, match=r"scores of several n \(5, 6\)"):
        plots.overlap(frame)
    assert len(plots.overlap(frame, y="n").get_yticks()) == 2


# transfer ---------------------------------------------------------------------------------------


def near_far():
    return pd.DataFrame(
        {"transfer": ["far", "near", "near", "far", "gap"],
         "condition": ["skill", "skill", "baseline", "baseline", "skill"],
         "estimate": [0.7, 0.9, 0.2, 0.1, -0.2], "ci_low": [0.6, 0.8, 0.1, 0.0, -0.4],
         "ci_high": [0.8, 1.0, 0.3, 0.2, 0.0]}
    )  # fmt: skip


def test_transfer_draws_near_far_and_the_gap_with_a_line_at_zero():
    ax = plots.transfer(near_far())
    points = drawn_points(ax)
    assert np.round(points["skill"][:, 1]).tolist() == [1, 0, 2]
    assert points["skill"][:, 0].tolist() == [0.7, 0.9, -0.2]
    assert points["baseline"][:, 0].tolist() == [0.2, 0.1]
    assert len(segments(ax)) == 5
    assert ticks(ax.yaxis) == ["near", "far", "gap (far \N{MINUS SIGN} near)"]
    assert ax.get_xlabel() == "Rate (%) or difference (points)"
    (zero,) = gids(ax, "reference")
    assert zero.get_xdata() == [0, 0]
    rates = plots.transfer(near_far().query("transfer != 'gap'"))
    assert gids(rates, "reference") == [] and rates.get_xlabel() == "Rate (%)"


def test_transfer_takes_the_frame_of_the_gap_analysis_with_both_scopes():
    rows = [
        {"condition": "skill", "measure": m, "unit": "points", "scope": s, "estimate": e,
         "ci_low": e - 0.1, "ci_high": e + 0.1, "n": n, "ci_level": 0.95}
        for s, n in (("within_dimensions", 20), ("pooled", 50))
        for m, e in (("near_delta", 0.6), ("far_delta", 0.4), ("gap", -0.2))
    ]  # fmt: skip
    ax = plots.transfer(pd.DataFrame(rows))
    assert ticks(ax.yaxis)[1:3] == ["near (delta) (20 cases)", "far (delta) (20 cases)"]
    assert [text.get_text() for text in gids(ax, "group")] == ["within dimensions", "pooled"]
    assert ax.get_xlabel() == "Difference (points), 95 % CI" and len(segments(ax)) == 6
    both = plots.transfer(pd.concat([near_far().query("transfer != 'gap'"), pd.DataFrame(rows)]))
    assert gids(both, "group")[0].get_text() == "all cases"


def test_the_reason_of_an_unknown_gap_stands_in_its_place():
    frame = near_far().assign(note=["", "", "", "", "too few far cases"])
    frame.loc[4, ["estimate", "ci_low", "ci_high"]] = NAN
    ax = plots.transfer(frame)
    (note,) = gids(ax, "note")
    assert note.get_text() == "undefined: too few far cases"
    assert round(note.get_position()[1]) == 2


def test_transfer_refuses_other_places_and_double_rows():
    with pytest.raises(FrameError, match=r"holds 'middle'; allowed: near, far"):
        plots.transfer(near_far().assign(transfer="middle"))
    with pytest.raises(FrameError, match=r"2 rows stand in one place .*alike\. Keep"):
        plots.transfer(pd.concat([near_far(), near_far()]))
    graders = [near_far().assign(grader=grader, se=at) for at, grader in enumerate(["g1", "g2"])]
    with pytest.raises(FrameError, match=r"that tell them apart: grader\. .*or facet"):
        plots.transfer(pd.concat(graders))


# heat map -----------------------------------------------------------------------------


def rated():
    return pd.DataFrame(
        {"comprehension_dimension": ["C9", "C1", "C9", "C1"],
         "condition": ["skill", "skill", "baseline", "baseline"],
         "estimate": [1.0, 0.25, NAN, 0.0], "unit": "rate"}
    )  # fmt: skip


def test_dimensions_stand_in_their_order_and_values_are_printed():
    ax = plots.dimensions(rated())
    draw(ax)
    assert ticks(ax.yaxis) == ["C1 Definitional precision", "C9 Negative-boundary refusal"]
    assert ticks(ax.xaxis) == ["baseline", "skill"]
    texts = {t.get_position(): t.get_text() for t in gids(ax, "value")}
    assert texts == {(0.5, 0.5): "0", (1.5, 0.5): "25", (1.5, 1.5): "100"}
    mesh = ax.collections[0].get_array()
    np.testing.assert_array_equal(mesh.filled(NAN), [[0.0, 0.25], [NAN, 1.0]])


def test_intervals_stand_in_the_cells_n_in_the_rows_and_an_undefined_cell_is_hatched():
    frame = rated().assign(
        ci_low=[0.8, 0.1, NAN, 0.0], ci_high=[1.0, 0.5, NAN, 0.2], n=[6, 9, 6, 9]
    )
    ax = plots.dimensions(frame)
    assert "25\n[10, 50]" in [t.get_text() for t in gids(ax, "value")]
    assert ticks(ax.yaxis)[0] == "C1 Definitional precision\n(n = 9)"
    (patch,) = gids(ax, "undefined")
    assert patch.get_xy() == (0, 1) and patch.get_hatch()
    assert gids(plots.dimensions(rated().dropna()), "undefined") == []  # no row: white
    unknown = plots.dimensions(rated().assign(estimate=NAN, unit="points"))
    draw(unknown)
    assert len(gids(unknown, "undefined")) == 4
    with pytest.raises(FrameError, match=r"share a cell of condition and comprehension_dimension"):
        plots.dimensions(pd.concat([rated(), rated()]))


def test_the_unit_says_what_a_heat_map_shows():
    rates = plots.dimensions(rated()).collections[0]
    assert (rates.norm.vmin, rates.norm.vmax, rates.cmap.name) == (0, 1, "cividis")
    differences = rated().assign(estimate=[0.5, -0.1, 0.2, 0.0])
    ax = plots.dimensions(differences.assign(unit="points"))
    mesh = ax.collections[0]
    assert (mesh.norm.vmin, mesh.norm.vcenter, mesh.norm.vmax) == (-0.5, 0, 0.5)
    texts = {text.get_text() for text in gids(ax, "value")}
    assert texts == {"+50", "\N{MINUS SIGN}10", "+20", "0"}
    assert mesh.colorbar.ax.get_ylabel().split() == ["Difference", "(points)"]
    many = [rated().assign(condition=f"otherconditions{at}").iloc[:2] for at in range(14)]
    assert {
        tick.get_rotation() for tick in plots.dimensions(pd.concat(many)).get_xticklabels()
    } == {35}
    scores = plots.dimensions(rated().assign(estimate=[4.5, 2.0, 1.0, 3.0], unit="score"))
    assert {text.get_text() for text in gids(scores, "value")} == {"4.5", "2", "1", "3"}


def test_printed_values_stand_out_from_their_cell():
    frame = pd.DataFrame(
        {"comprehension_dimension": [f"C{i}" for i in range(1, 10)], "condition": "skill",
         "estimate": np.linspace(0, 1, 9)}
    )  # fmt: skip
    ax = plots.dimensions(frame)
    mesh = ax.collections[0]
    for text, value in zip(gids(ax, "value"), frame["estimate"], strict=True):
        lights = luminance(mesh.cmap(mesh.norm(value))[:3]), luminance(text.get_color())
        assert (max(lights) + 0.05) / (min(lights) + 0.05) >= 4.5


# curves -----------------------------------------------------------------------------------------


def test_power_draws_a_curve_for_each_effect():
    frame = pd.DataFrame(
        {"n_cases": [10, 20] * 2, "effect": [0.1, 0.1, 0.2, 0.2], "power": [0.2, 0.4, 0.5, 0.9]}
    )
    ax = plots.power(frame, hue="effect")
    found = [line.get_ydata().tolist() for line in gids(ax, "estimate")]
    assert found == [[0.2, 0.4], [0.5, 0.9]]
    assert legend_texts(ax) == ["effect 0.1", "effect 0.2", "target (80 %)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Number of cases", "Power (%)")
    sizes = legend_texts(plots.power(frame.rename(columns={"effect": "size"}), hue="size"))
    assert sizes[:2] == ["size 10 points", "size 20 points"]
    assert len(segments(ax)) == 0
    for effect, size, text in (("delta", 0.1, "gain of 10"), ("delta", -0.2, "loss of 20"),
                               ("gap", -0.2, "gap of −20")):  # fmt: skip
        planned = plots.power(frame.assign(effect=effect, size=size))
        assert planned.get_ylabel().replace("\n", " ") == f"Power to show a {text} points (%)"


def test_scores_draw_every_document_with_its_interval():
    frame = pd.DataFrame(
        {"score": [20.0, 80.0, 22.0, 79.0], "estimate": [0.4, 0.45, 0.95, NAN],
         "ci_low": [0.2, 0.3, 0.8, NAN], "ci_high": [0.6, 0.6, 1.0, NAN],
         "content": ["gutted", "gutted", "full", "full"], "unit": "rate"}
    )  # fmt: skip
    ax = plots.scores(frame, hue="content")
    points = drawn_points(ax)
    assert points["gutted"].tolist() == [
        pytest.approx([20.0, 0.4], abs=2.0), pytest.approx([80.0, 0.45], abs=2.0)
    ]  # fmt: skip
    assert points["full"][0].tolist() == pytest.approx([22.0, 0.95], abs=2.0)
    assert legend_texts(ax) == ["gutted", "full"]
    assert ax.get_ylabel() == "Pass rate (%)"
    assert len(segments(ax)) == 3
    plain = plots.scores(frame.assign(unit="points"))
    assert not plain.figure.legends and plain.get_ylabel() == POINTS
    assert len(gids(plain, "reference")) == 1
    with pytest.raises(FrameError, match="there is no column 'score'"):
        plots.scores(frame.drop(columns="score"))
    # documents of equal scores do not cover each other
    alike = frame.assign(score=[20.0, 20.0, 20.0, 80.0], estimate=[0.4, 0.4, 0.5, 0.6])
    (points,) = drawn_points(plots.scores(alike)).values()
    assert len(set(points[:, 0])) == 4 and points[:3, 0] == pytest.approx(20.0, abs=2.0)


# facets -----------------------------------------------------------------------------------------


def test_the_key_of_facets_is_as_wide_as_the_figure_and_a_level_stays_on_one_line() -> None:
    frame = pd.concat([delta(ci_level=0.95, unit="points").assign(panel=name) for name in "ab"])
    frame["skill"] = [f"a name of about thirty letters {i % 4}" for i in range(len(frame))]
    fig, _ = plots.facet(frame, plots.estimates, by="panel", y="condition", hue="skill")
    fig.draw_without_rendering()
    box = fig.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= fig.bbox.width
    ax = plots.estimates(delta(), y="skill", hue="condition", label="a " * 45 + "95 % CI")
    assert ax.get_xlabel().endswith("95 % CI") and "\n" in ax.get_xlabel()


def test_facets_draw_each_row_once_with_one_key():
    frame = pd.concat([near_far().assign(skill=s) for s in ("b", "a")])
    fig, axes = plots.facet(frame, plots.transfer, by="skill", title="skill {}")
    assert [ax.get_title() for ax in axes] == ["skill b", "skill a"]
    assert sum(len(p) for ax in axes for p in drawn_points(ax).values()) == len(frame)
    assert [ax.get_legend() for ax in axes] == [None, None]
    assert [t.get_text() for t in fig.legends[0].get_texts()] == ["baseline", "skill"]
    fig.draw_without_rendering()
    with pytest.raises(FrameError, match=r"'skill' has 0 levels; allowed: 1 to 24"):
        plots.facet(delta().iloc[:0], plots.estimates, by="skill", y="skill")


def test_a_level_keeps_its_colour_in_every_facet():
    frame = delta().drop(columns="condition").assign(grader=["g0", "g1", "g1", "g0"])
    frame = frame.drop(index=0)
    _, axes = plots.facet(frame, plots.estimates, by="skill", y="skill", hue="grader")
    colors = [{n.get_label(): n.get_color() for n in gids(ax, "estimate")} for ax in axes]
    assert colors[0]["g1"] == colors[1]["g1"]


# everything -------------------------------------------------------------------------------------


def every_plot(text):
    """Return one call a plot whose labels all come from outside."""
    one = delta().drop(columns="condition").iloc[:1].assign(skill=text, g=text, note=text)
    unknown = one.assign(estimate=NAN)
    two = pd.DataFrame({"x": [0.1, 0.2], "y": [0.3, 0.4], "g": text})
    near = near_far().assign(condition=[text] * 4 + [f"{text} 2"])
    near = near.drop_duplicates(["transfer", "condition"])
    cell = pd.DataFrame({"a": [text], "b": [text], "estimate": [0.5]})
    rates = {"x": "false_positive_rate", "y": "true_positive_rate"}
    return {
        "estimates": lambda: plots.estimates(one, y="skill", hue="g", label=style.plain(text)),
        "unknown": lambda: plots.estimates(unknown, y="skill", hue="g"),
        "threshold": lambda: plots.threshold(calibration(measure=text, rule=text)[:3]),
        "roc": lambda: plots.roc(two.rename(columns=rates), hue="g"),
        "overlap": lambda: plots.overlap(two.assign(share=two["x"]), y="g"),
        "transfer": lambda: plots.transfer(near.assign(note=text)),
        "dimensions": lambda: plots.dimensions(cell, x="a", y="b"),
        "datasheet": lambda: plots.datasheet(
            sheet(text, "g2").assign(property=lambda rows: text + rows["property"])
        ),
        "power": lambda: plots.power(two, x="x", y="y", hue="g"),
        "facet": lambda: plots.facet(two, plots.power, by="g", x="x", y="y")[1][0],
    }


@pytest.mark.parametrize("name", list(every_plot("x")))
def test_hostile_labels_are_shown_and_neither_parsed_nor_clipped(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "style: no font")
        ax = every_plot(HOSTILE)[name]()
        draw(ax)
    for text in ax.figure.findobj(mpl.text.Text):
        assert text._preprocess_math(text.get_text())[1] is False, text.get_text()
    if ax.figure.legends and name != "facet":
        assert any("x {1}" in t or "x_{1}" in t for t in legend_texts(ax))


@pytest.mark.parametrize(
    ("plot", "frame", "options"),
    [
        (plots.estimates, delta(), {"y": "skill"}),
        (plots.overlap, pd.DataFrame({"condition": ["skill"], "share": [0.1]}), {}),
        (plots.transfer, near_far(), {}),
        (plots.dimensions, rated(), {}),
        (plots.threshold, calibration(), {}),
    ],
)
def test_an_empty_frame_gives_empty_axes_and_no_warning(plot, frame, options):
    _, ax = style.figure("text")
    assert plot(frame.iloc[:0], ax=ax, **options) is ax
    draw(ax)


def test_a_whole_calibration_is_drawn_as_it_comes():
    places = {"n": [3, 4, 5], "unit": "rate", "ci_low": 0.1, "ci_high": 0.9, "limit": 0.05}
    rows = [
        pd.DataFrame({"rule": rule, "measure": measure, "estimate": [0.2, 0.5, 0.4], **places})
        for rule in ("any", "share")
        for measure in ("sensitivity", "false_flags_baseline", "false_flags_fresh", "auc",
                        "flagged_skill", "flagged_placebo", "specificity", "flagged_light")
    ]  # fmt: skip
    chosen = pd.DataFrame(
        {"rule": "any", "n": 4, "unit": "count", "estimate": 4.0, "ci_low": 3.5, "ci_high": 4.5,
         "measure": ["chosen_n_baseline", "chosen_n_fresh", "chosen_n"]}
    )  # fmt: skip
    ax = plots.threshold(pd.concat([*rows, chosen], ignore_index=True))
    shown = legend_texts(ax)
    assert shown[:3] == ["copies found", "false flags (baseline)", "false flags (fresh)"]
    assert not [text for text in shown if "AUC" in text or "flagged" in text]
    assert "chosen (n = 4)" in shown


def test_ranks_are_drawn_in_their_order_with_the_agreement_as_a_number():
    counts = pd.DataFrame({"grader": ["a", "b", "c"], "agreed": [60, 90, 86], "n": 100})
    frame = contrast_counts(counts)
    ax = plots.ranks(frame)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["b: 90 %", "c: 86 %", "a: 60 %"]
    assert {1, 2, 3} < {*ax.get_xticks()} and ax.get_xlim() == (0.5, 3.5)
    assert ax.get_xlabel() == "Rank by agreement with gold, 95 % sets, all graders together"
    (lines,) = (drawn for drawn in ax.collections if drawn.get_gid() == "interval")
    assert [line[:, 0].tolist() for line in lines.get_segments()] == [[1, 2], [1, 2], [3, 3]]
    by = contrast_counts(pd.concat([counts.assign(version=v) for v in "xy"]), by=["version"])
    assert "x" in [text.get_text() for text in plots.ranks(by, group="version").texts]
    with pytest.raises(FrameError, match="no rows with the measure 'agreement_rank'"):
        plots.ranks(frame[frame["measure"].ne("agreement_rank")])
