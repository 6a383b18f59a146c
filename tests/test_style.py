import hashlib
import json
import os
import re
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from PIL import Image

from skillcomp import plots, style
from skillcomp.errors import FrameError, SkillcompError

mpl.use("agg")
NAN = float("nan")


@pytest.fixture(autouse=True)
def _clean():
    with mpl.rc_context():
        yield
    plt.close("all")


@pytest.fixture
def frame():
    return pd.DataFrame({"skill": ["a", "b"], "estimate": [0.1, 1 / 3]})


def drawn(width="column"):
    fig, ax = style.figure(width, height=2.0)
    ax.plot([0, 1], [0, 1], label="costs $5")
    ax.set_xlabel("Difference − points")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig


def luminance(color):
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_use_sets_printed_sizes_embedded_fonts_and_a_cycle_of_colour_and_marker():
    style.use()
    assert mpl.rcParams["axes.labelsize"] == 8
    assert mpl.rcParams["xtick.labelsize"] == mpl.rcParams["ytick.labelsize"] == 7
    assert mpl.rcParams["pdf.fonttype"] == mpl.rcParams["ps.fonttype"] == 42
    assert mpl.rcParams["figure.constrained_layout.use"]
    cycle = list(mpl.rcParams["axes.prop_cycle"])
    assert len({look["marker"] for look in cycle}) == len({look["color"] for look in cycle}) == 6


def test_as_a_context_the_settings_from_before_come_back_also_after_an_error():
    mpl.rcParams["pdf.fonttype"] = 3
    mpl.rcParams["font.size"] = 13
    with pytest.raises(KeyError), style.use():
        assert mpl.rcParams["pdf.fonttype"] == 42
        raise KeyError
    assert (mpl.rcParams["pdf.fonttype"], mpl.rcParams["font.size"]) == (3, 13)


@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("text", 5.5), ("page", 6.75)])
def test_a_figure_has_its_printed_width_and_is_never_higher_than_a_page(width, inches):
    fig, ax = style.figure(width)
    assert fig.get_size_inches()[0] == inches and isinstance(ax, mpl.axes.Axes)
    fig, (a, b) = style.figure(width, ncols=2, height=2.5)
    assert fig.axes == [a, b] and fig.get_size_inches()[1] == 2.5
    assert style.figure(width, nrows=9)[0].get_size_inches()[1] == 9.0


def test_an_unknown_width_and_a_height_of_nothing_are_refused():
    message = r"no width 'colum'; allowed: column, text, page\. Did you mean 'column'\?"
    with pytest.raises(SkillcompError, match=message):
        style.figure("colum")
    with pytest.raises(SkillcompError, match=r"height is 0; allowed: above 0"):
        style.figure(height=0)


def test_conditions_keep_their_looks_whatever_is_drawn():
    assert style.looks(["placebo", "baseline", "skill"]) == {
        "placebo": ("#D55E00", "^"),
        "baseline": ("#767676", "o"),
        "skill": ("#0072B2", "s"),
    }
    assert style.looks(["baseline", "skill", "previous"])["previous"] == ("#D55E00", "^")
    more = style.looks(["baseline", "skill", "placebo", "previous", "other", "more"]).values()
    assert len({look.color for look in more}) == len({look.marker for look in more}) == 6
    with pytest.raises(FrameError, match=r"found 7 levels .*allowed: at most 6\. Facet instead"):
        style.looks([f"C{i}" for i in range(1, 8)])


def test_the_conditions_stand_out_from_white():
    # contrast by WCAG 2: (1 + 0.05) / (L + 0.05), L the relative luminance
    contrast = [1.05 / (luminance(look.color) + 0.05) for look in style.CONDITION_LOOKS.values()]
    assert min(contrast) >= 3.7


def test_text_from_outside_is_shown_as_it_stands():
    fig = plt.figure()
    for text in ("$x_{1}$", "costs $5 and $6", "_hidden", "a\\$b", r"\frac{", "$$$"):
        shown = fig.text(0.5, 0.5, style.plain(text))
        drawn_text, math = shown._preprocess_math(shown.get_text())
        assert (drawn_text, math) == (text, False)


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        *((value, 40, "missing") for value in (None, NAN, pd.NA, pd.NaT)),
        ("a\n\tb\x00\x1b[31mc\u202e", 40, "a b [31mc"),
        ("word " * 50, 12, "word word w…"),
        ("x" * 90, 12, "xxxxxxxxxxx…"),
    ],
)
def test_plain_text_is_one_line_of_known_characters(value, width, text):
    assert style.plain(value, width=width) == text


def test_characters_are_replaced_only_if_no_font_has_them():
    # matplotlib brings both fonts; only the second has this character
    only_stix = "\N{MATHEMATICAL SCRIPT CAPITAL A}"
    with style.use():
        # a warning comes once for each choice of fonts, and other tests may have had the default
        mpl.rcParams["font.family"] = ["DejaVu Sans", "cmr10"]
        with pytest.warns(UserWarning, match=r"has '𝒜' .*font.family'\] = \['DejaVu Sans', '") as w:
            assert style.plain(f"{only_stix}{only_stix} ok") == "\ufffd\ufffd ok"
        assert style.plain(f"{only_stix} 漢") == "\ufffd \ufffd" and len(w) == 1
        mpl.rcParams["font.family"] = ["DejaVu Sans", "STIXGeneral"]
        assert style.plain(f"{only_stix} ok") == f"{only_stix} ok"
        mpl.rcParams["font.family"] = ["DejaVu Sans", "STIXGeneral", "cmr10"]
        with pytest.warns(UserWarning, match=r"has '漢' \(U\+6F22\).*install a font"):
            style.plain("漢")
    with mpl.rc_context({"font.family": ["STIXGeneral"]}), style.use():
        assert mpl.rcParams["font.family"] == ["DejaVu Sans", "STIXGeneral"]


@pytest.mark.parametrize("foreign", ["dark_background", "ggplot", "Solarize_Light2", "grayscale"])
def test_a_foreign_style_leaves_no_trace(foreign, frame, tmp_path):
    frame = frame.assign(ci_low=0.0, ci_high=0.5)

    def pixels(name: str) -> bytes:
        plots.estimates(frame, y="skill", null=0, ax=style.figure("text")[1])
        plt.savefig(tmp_path / name)
        plt.close("all")
        return (tmp_path / name).read_bytes()

    with style.use():
        expected = pixels("own.png")
    with plt.style.context(foreign), style.use():
        assert pixels("after.png") == expected


@pytest.mark.filterwarnings("ignore:style. no font")
@settings(max_examples=20, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_drawn(text):
    fig = plt.figure(figsize=(2, 1))
    fig.text(0.1, 0.5, style.plain(text, width=30))
    fig.draw_without_rendering()
    plt.close(fig)


def test_save_refuses_to_run_without_the_frames(tmp_path, frame):
    fig = drawn()
    with pytest.raises(TypeError, match="data"):
        style.save(fig, tmp_path / "fig")
    with pytest.raises(FrameError, match=r"no frames given; allowed: data=\{name: frame\}"):
        style.save(fig, tmp_path / "fig", data={})
    with pytest.raises(FrameError, match=r"data\['a'\]: expected a DataFrame .*found list"):
        style.save(fig, tmp_path / "fig", data={"a": [1]})
    with pytest.raises(FrameError, match=r"'\.\./x' is no name for a file"):
        style.save(fig, tmp_path / "fig", data={"../x": frame})
    assert list(tmp_path.iterdir()) == []


def test_save_writes_files_of_printed_size_without_dates_twice_the_same(tmp_path, frame):
    fig = drawn()
    engine, size = fig.get_layout_engine(), mpl.rcParams["font.size"]
    frames = {"delta": frame, "gap": frame.set_index("skill")}
    paths = style.save(fig, tmp_path / "new" / "fig2.pdf", data=frames)
    assert [path.name for path in paths] == [
        "fig2.pdf", "fig2.png", "fig2-delta.csv", "fig2-gap.csv", "fig2.svg", "fig2.tex",
        "fig2.txt", "fig2.json",
    ]  # fmt: skip
    again = style.save(fig, tmp_path / "again" / "fig2", data=frames)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]
    assert fig.get_layout_engine() is engine and mpl.rcParams["font.size"] == size
    pd.testing.assert_frame_equal(pd.read_csv(paths[2]), frame)
    assert paths[3].read_text().startswith("skill,estimate\na,0.1\n")
    assert paths[5].read_text().splitlines()[2:5:2] == [
        r"\includegraphics[width=3.25in]{\detokenize{fig2.pdf}}", r"\label{fig:fig2}",
    ]  # fmt: skip
    pdf = paths[0].read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", pdf)
    assert [float(side) / 72 for side in box.groups()] == [3.25, 2.0]
    with Image.open(paths[1]) as png:
        assert png.size == (975, 600)  # 3.25 and 2 inches at 300 dpi
        assert set(png.info) <= {"dpi"}


def test_the_provenance_names_frames_hashes_and_versions(tmp_path, frame):
    paths = style.save(drawn(), tmp_path / "fig.v1", data={"delta": frame}, fingerprint="abc")
    note = json.loads(paths[-1].read_text())
    assert note["frames"]["delta"] == {
        "file": "fig.v1-delta.csv",
        "rows": 2,
        "columns": ["skill", "estimate"],
        "sha256": hashlib.sha256(paths[2].read_bytes()).hexdigest(),
    }
    assert note["versions"]["matplotlib"] == mpl.__version__
    assert note["store"] == "abc"
    assert note["size_inches"] == [3.25, 2.0]
    assert str(tmp_path) not in paths[-1].read_text()


def test_the_caption_stands_beside_the_figure_and_is_made_from_the_frames(tmp_path):
    delta = pd.DataFrame(
        {"skill": ["a", "b_c"], "measure": "delta_passed", "unit": "points",
         "estimate": [0.5, -0.071], "ci_low": [0.3, NAN], "ci_high": [0.7, NAN],
         "ci_level": 0.95, "n": [14, 12], "n_clusters": 12, "method": "CR2"}
    )  # fmt: skip
    fig = drawn()
    frames = {"delta": delta, "raw_rows": delta[["skill"]]}
    paths = style.save(fig, tmp_path / "fig", data=frames, caption="What the skill changes.")
    words = paths[-2].read_text()
    assert words == "What the skill changes. 12 to 14 cases, 95 % intervals.\n"
    note = json.loads(paths[-1].read_text())
    assert note["caption"] + "\n" == words
    assert note["alt"].startswith("Figure: Difference − points. Key: costs $5.")
    assert (
        "a, change in pass rate +50.0 [30.0, 70.0]; b c, change in pass rate −7.1." in note["alt"]
    )


def test_numbers_are_set_for_people():
    assert style.quantity(0.5, "rate", digits=0) == "50 %"
    assert style.quantity(-0.0004, "points", signed=True) == "0.0"
    assert style.quantity(1234.0, "count") == "1,234"
    assert style.quantity(-3.0, "percentage points") == "\N{MINUS SIGN}3.0"
    assert style.quantity(2.8619, "logits", signed=True) == "+2.86"
    assert style.quantity(NAN, "rate") == "n/a"
    assert style.interval({"estimate": 0.5, "ci_low": 0.4, "ci_high": 0.6, "unit": "rate"}) == (
        "50.0 % [40.0, 60.0]"
    )


def test_another_process_writes_the_same_bytes(tmp_path):
    script = (
        "import sys, matplotlib as mpl; mpl.use('agg')\n"
        "import pandas as pd\n"
        "from skillcomp import plots, style\n"
        "style.use()\n"
        "frame = pd.DataFrame({'skill': ['a', 'b'], 'estimate': [.1, .2], 'ci_low': [0, .1],"
        " 'ci_high': [.2, .3]})\n"
        "ax = plots.estimates(frame, y='skill')\n"
        "style.save(ax.figure, FOLDER + '/fig', data={'delta': frame})\n"
    )
    exec(script, {"FOLDER": str(tmp_path / "here")})
    # another hash seed shows any order that comes from a set
    command = [sys.executable, "-c", f"FOLDER = {str(tmp_path / 'there')!r}\n{script}"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    here, there = (sorted((tmp_path / name).iterdir()) for name in ("here", "there"))
    assert [path.name for path in here] == [
        "fig-delta.csv", "fig.json", "fig.pdf", "fig.png", "fig.svg", "fig.tex", "fig.txt",
    ]  # fmt: skip
    assert [path.read_bytes() for path in here] == [path.read_bytes() for path in there]


def test_rows_that_share_their_names_are_told_apart_by_what_stands_behind():
    frame = pd.DataFrame(
        {"measure": "power", "unit": "rate", "estimate": [0.1, 0.2], "ci_low": [0.0, 0.1],
         "ci_high": [0.2, 0.3], "method": ["a", "b"], "repeats": ["1 repeat", "2 repeats"],
         "estimator": ["gold_only", "ppi"]}
    )  # fmt: skip
    fig, _ = style.figure("column")
    said = style.alt_text(fig, {"power": frame})
    assert "power, 1 repeat, gold only 10.0 % [0.0, 20.0]" in said
    assert "power, 2 repeats, prediction-powered (ppi) 20.0 %" in said


def test_caption_and_alternative_text_say_what_a_figure_without_estimates_shows(tmp_path):
    shared = pd.DataFrame({"condition": ["skill", "skill", "baseline"], "share": [0.2, 0.1, 0.0]})
    ax = plots.overlap(shared)
    paths = style.save(ax.figure, tmp_path / "shared", data={"shared": shared})
    note = json.loads(paths[-1].read_text(encoding="utf-8"))
    assert note["caption"].startswith(
        "N-grams shared with the skill, one mark a text, for each condition."
    )
    assert "baseline (n = 1); skill (n = 2)" in note["alt"]
    curve = pd.DataFrame(
        {"n": [4, 4, 8, 8], "true_positive_rate": [0.9, 1.0, 0.6, 0.7],
         "false_positive_rate": [0.0, 0.1, 0.0, 0.1]}
    )  # fmt: skip
    ax = plots.roc(curve, hue="n")
    alt = style.alt_text(ax.figure, {"roc": curve})
    assert "length of n-gram 4: true positive rate 90 % at no false positive" in alt


def test_a_caption_names_no_frame_and_no_method() -> None:
    one = pd.DataFrame({"estimate": [0.5], "n": 84, "method": "bounded mean, c = 0.75"})
    assert style.describe({"delta": one, "gap": one}, lead="What it is.") == "What it is. n = 84."
    assert style.describe({"found": pd.DataFrame({"estimate": [0.1]})}) == ""


def test_an_alternative_text_names_the_place_on_the_axis_and_leaves_out_what_is_not_known():
    rows = {"rule": "any", "measure": "any", "n": [3, 4], "estimate": [0.9, 0.8], "unit": "rate"}
    cut = pd.DataFrame(rows | {"n_texts": 50, "ci_low": [0.8, 0.7], "ci_high": [0.95, 0.9]})
    unknown = cut.head(1).assign(n=5, estimate=None)
    fig = plt.figure()
    fig.subplots().set_xlabel("Length")
    style.describe_axes(beside := fig.add_axes((0, 0, 0.1, 0.1)), "", "not measured: ties")
    beside.axis("off")
    text = style.alt_text(fig, {"cut": pd.concat([unknown, cut])})
    values = "any, n = 3 90.0 % [80.0, 95.0]; any, n = 4 80.0 % [70.0, 90.0]."
    assert text == f"Figure: Length. not measured: ties. {values}"
