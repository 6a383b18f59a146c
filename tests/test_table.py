"""Tables set for people: one content in three formats, and nothing of it interpreted."""

import re

import pandas as pd
import pytest
from markdown_it import MarkdownIt

import skillcomp as sc
from skillcomp.errors import FrameError

NAN = float("nan")


def delta(**columns: object) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"skill": ["a", "b_x"], "measure": "delta_passed", "unit": "points",
         "estimate": [0.5, -0.071], "ci_low": [0.3, -0.35], "ci_high": [0.7, 0.2],
         "ci_level": 0.95, "n": [14.0, 12.0], "p_value": [0.0002, 0.6388],
         "p_adjusted": NAN, "method": "CR2", "note": ["", "few cases"]}
    )  # fmt: skip
    return frame.assign(**columns)


def test_the_same_cells_stand_in_all_three_formats() -> None:
    made = sc.table(delta())
    for text in (made.html(), made.markdown(), made.latex().replace("$-$", "−")):
        for cell in ("+50.0 [30.0, 70.0]", "−7.1 [−35.0, 20.0]", ".639", "14", "b x"):
            assert cell in text
        assert "few cases" in text and "CR2" in text
    assert made._repr_html_() == made.html() and str(made) == made.markdown()


def test_numbers_are_set_by_what_they_are() -> None:
    frame = pd.DataFrame(
        {"reference_rate": [0.333, NAN], "n_cases": [1234, 5], "p_value": [0.04999, 0.0004],
         "score": [0.12345, 2.0], "passed": [True, None], "input_tokens": [1469040.5, 12.0],
         "cost_usd": [6.9, 0.1], "change": ["+1.2 [−3, 4]", "n/a"], "name": ["a", "b"]}
    )  # fmt: skip
    made = sc.table(frame)
    assert made.cells.to_dict("list") == {
        "Reference rate": ["33.3 %", "n/a"], "Cases": ["1,234", "5"], "p": [".050", "< .001"],
        "Score": ["0.123", "2"], "Passed": ["yes", "n/a"], "Input tokens": ["1,469,040", "12"],
        "Cost (US$)": ["6.9", "0.1"], "Change": ["+1.2 [−3, 4]", "n/a"], "Name": ["a", "b"],
    }  # fmt: skip
    assert made.numeric[-2:] == (True, False)  # a quantity in words is set to the right as well


def test_numbers_of_a_row_have_the_unit_of_its_estimate_and_methods_no_constant() -> None:
    frame = pd.DataFrame(
        {"measure": ["delta_passed", "delta_cost_usd"], "unit": ["points", "dollars"],
         "estimate": [0.188, 0.15], "ci_low": [0.1, 0.1], "ci_high": [0.3, 0.2],
         "detectable": [0.15, NAN], "sensitivity": [0.9, NAN], "youden": [0.85, NAN],
         "method": ["bounded mean, c = 0.75; p: t", "bounded mean, c = 0.75"]}
    )  # fmt: skip
    made = sc.table(frame)
    assert made.cells.iloc[0].to_dict() == {
        "Measure": "change in pass rate", "Unit": "points", "Estimate [interval]":
        "+18.8 [10.0, 30.0]", "Detectable": "15.0", "Sensitivity": "90.0 %", "Youden": ".85",
        "Notes": "a",
    }  # fmt: skip
    assert made.cells["Measure"].iloc[1] == "change of cost, dollars"
    assert made.notes == ("bounded mean; p: t", "bounded mean")


def test_a_unit_that_was_left_out_is_that_of_the_measure() -> None:
    shown = ["skill", "measure", "estimate", "ci_low", "ci_high"]
    rate = {"measure": "raw_agreement", "estimate": [0.9, 1.0], "ci_low": 0.192, "ci_high": 1.0}
    made = sc.table(delta(**rate)[shown])
    assert made.about == "Raw agreement."
    assert made.cells["Estimate [interval]"].tolist() == [
        "90.0 % [19.2, 100.0]", "100.0 % [19.2, 100.0]",
    ]  # fmt: skip
    over = delta(over=0.2, over_low=-0.1, over_high=0.5).drop(columns="unit")
    assert sc.table(over).cells["Over [interval]"].tolist() == ["+20.0 [−10.0, 50.0]"] * 2
    mixed = sc.table(delta(measure=["cohen_kappa", "delta_passed"])[shown])
    assert mixed.cells["Measure"].tolist() == ["Cohen's kappa", "change in pass rate"]
    assert mixed.cells["Unit"].tolist() == ["coefficient", "points"]
    assert mixed.cells["Estimate [interval]"].tolist()[0] == ".50 [.30, .70]"


def test_an_informative_index_becomes_columns_and_two_that_read_alike_are_kept() -> None:
    pivot = delta().pivot(index="skill", columns="measure", values=["estimate", "n"])
    assert list(sc.table(pivot).cells) == ["Skill", "Estimate delta passed", "N delta passed"]
    assert list(sc.table(delta()[["skill"]].iloc[[1]]).cells) == ["Skill"]
    runs = pd.DataFrame({"skill": ["a", "a"], "condition": ["skill", "baseline"]})
    cells = sc.table(runs.groupby(["skill", "condition"]).size().unstack()).cells
    assert cells.columns.tolist() == ["Skill", "Baseline", "Skill"]
    assert cells.iloc[0].tolist() == ["a", "1", "1"]


def test_what_a_model_wrote_is_text_in_every_format() -> None:
    hostile = "<script>x</script>|**b** \\input{/etc/passwd} $1 & 50%"
    made = sc.table(delta(skill=[hostile, "b"], note=[hostile, ""]))
    assert "<script>" not in made.html() and "&lt;script&gt;" in made.html()
    assert r"\<script\>" in made.markdown() or r"\<script>" in made.markdown()
    assert r"\|\*\*b\*\*" in made.markdown()
    assert r"\textbackslash{}input\{/etc/passwd\} \$1 \& 50\%" in made.latex()


def test_long_tables_fold_and_lose_nothing() -> None:
    frame = pd.DataFrame({"case": [f"c{n}" for n in range(30)]})
    html = sc.table(frame).html(most=8)
    assert "<summary>22 more rows</summary>" in html
    assert all(f"<td>c{n}</td>" in html for n in range(30))
    assert "<details>" not in sc.table(frame).html()


def test_a_table_without_rows_says_so_and_a_level_that_is_not_known_stays() -> None:
    assert sc.table(delta().iloc[:0]).html() == "<p class='note'>No rows.</p>"
    spread = pd.DataFrame({"skills": [6, 6], "measure": ["a", "b"], "estimate": [NAN, NAN]})
    made = sc.table(spread.pivot(index="skills", columns="measure", values="estimate"))
    assert made.cells.values.tolist() == [["6", "n/a", "n/a"]]


def test_columns_can_be_chosen_and_a_wrong_one_is_named() -> None:
    assert list(sc.table(delta(), columns=["n", "skill"]).cells) == ["Cases", "Skill"]
    assert "n" in sc.table(delta(measure="raw_agreement")).cells
    with pytest.raises(FrameError, match=r"there is no column 'skil'.*Did you mean 'skill'\?"):
        sc.table(delta(), columns=["skil"])
    with pytest.raises(FrameError, match="expected a DataFrame, found list"):
        sc.table([1])


def test_a_table_of_estimates_is_short_and_shows_missing_attempts_if_there_are_any() -> None:
    row = {"skill": "a", "estimate": 0.1, "ci_low": 0.0, "ci_high": 0.2, "unit": "points", "n": 9}
    row |= {"se": 0.1, "df": 3.0, "n_clusters": 9, "p_value": 0.04, "n_missing": 0, "why": "w"}
    row |= {"n_dropped": 2, "worst_low": 0.0, "estimate_uncorrected": 0.3, "verdict": "helps"}
    made = sc.table(pd.DataFrame([row, row | {"skill": "b"}]))
    heads = ["Skill", "Estimate [interval]", "n", "p", "Dropped", "Verdict"]
    assert list(made.cells) == heads
    tex = made.latex(caption="50 % of \\input{x}", label="skills")
    assert tex.startswith(
        "\\begin{table}[tbp]\n\\centering\n\\caption{50 \\% of \\textbackslash{}input"
    )
    assert "\n\\label{tab:skills}\n\\begin{tabular}{lrrrrl}" in tex and "\\end{table}" in tex


def test_a_note_has_its_letter_only_where_a_row_names_it_however_many_there_are() -> None:
    names = [f"n{i}" for i in range(60)]
    made = sc.table(pd.DataFrame({"skill": names, "note": names}))
    assert len(set(made.cells["Notes"])) == 60
    assert made.cells["Notes"].tolist()[25:53:27] == ["z", "aaa"]
    assert "<sup>aaa</sup> n52</p>" in made.html() and "hhh: n59" in made.markdown()
    assert r"\par hhh: n59" in made.latex()
    common = sc.table(pd.DataFrame({"skill": ["a", "b"], "estimate": [0.1, 0.2], "method": "m"}))
    assert common.lettered == [("", "all rows: m")]
    assert "<p class='note'>all rows: m</p>" in common.html()
    assert "\n\nall rows: m\n" in common.markdown() and r"\par all rows: m" in common.latex()


def test_frames_that_are_no_estimates_are_shown_too() -> None:
    endless = pd.DataFrame({"a": [float("inf"), 1.0], "estimate": [1.0, float("-inf")]})
    cells = sc.table(endless).cells
    assert cells["A"].tolist() == ["∞", "1"] and cells["Estimate"].tolist() == ["1", "−∞"]
    arrays = pd.DataFrame({"a": [pd.Series([1, 2]).to_numpy(), [3, 4]], "b": 1})
    assert sc.table(arrays).cells["A"].tolist() == ["[1 2]", "[3, 4]"]
    twice = pd.DataFrame([["x", 1, 2, 3]], columns=["skill", "n", "n", "n"])
    assert sc.table(twice).cells.iloc[0].tolist() == ["x", "1", "2", "3"]
    twice.index = pd.Index(["y"], name="skill")
    assert list(sc.table(twice).cells) == ["Skill", "Skill", "n", "N", "N"]
    units = pd.DataFrame([["rate", "rate", 0.5]], columns=["unit", "unit", "estimate"])
    assert sc.table(units).cells["Estimate"].tolist() == ["50.0 %"]


def test_a_long_table_shows_its_first_rows_and_a_link_to_all(tmp_path) -> None:
    file = tmp_path / "all rows.csv"
    short = sc.table(pd.DataFrame({"a": range(30)})).linked(file)
    assert not file.exists() and short.html().count("<tr>") == 31
    html = sc.table(pd.DataFrame({"a": range(31)})).linked(file).html()
    assert html.count("<tr>") == 31
    assert f"All 31 rows: <a href='{file.as_posix()}'>all rows.csv</a>" in html
    assert len(pd.read_csv(file)) == 31


def test_markdown_has_no_live_link_or_image():
    texts = [
        "![a](http://h/x.png)", "[a](javascript:x)", "[a][b]", "[b]: http://h", "<http://h>",
        "see http://h/x and https://h", "WWW.h.org", "me@h.org", "<img src=x>", "a\n[b]: //h",
    ]  # fmt: skip
    frame = pd.DataFrame({"name": texts, "note": [f"n{i} {t}" for i, t in enumerate(texts)]})
    rendered = MarkdownIt("commonmark").enable("table")
    for text in (sc.table(frame).markdown(), sc.table(frame.head(1)).markdown()):
        html = rendered.render(text)
        assert "<a" not in html and "<img" not in html, html
        # addresses that GitHub makes links of
        assert not re.search(r"[^\\]://|(?i:www)[.]|[^\\]@", text)
    assert sc.table(pd.DataFrame({"x": ["[1, 2]"]})).markdown().count("\\") == 0


def test_rates_spread_over_a_table_stay_percentages() -> None:
    long = pd.DataFrame(
        {"measure": ["raw_agreement", "cohen_kappa"] * 2, "grader": ["g0", "g0", "g1", "g1"],
         "estimate": [0.9381, 0.8, 0.98, 0.95], "n": 820.0}
    )  # fmt: skip
    down = sc.table(long.pivot(index="measure", columns="grader", values="estimate")).cells
    assert list(down) == ["Measure", "g0", "g1"]
    assert down.set_index("Measure")["g0"].to_dict() == {
        "raw agreement": "93.8 %", "Cohen's kappa": "0.8",
    }  # fmt: skip
    across = sc.table(long.pivot(index="grader", columns="measure", values=["estimate", "n"])).cells
    assert across["Estimate raw agreement"].tolist() == ["93.8 %", "98.0 %"]
    assert across["N raw agreement"].tolist() == ["820", "820"]


def test_a_distance_has_the_scale_of_its_axis_beside_changes_in_points():
    limits = {"ci_low": 0.2, "ci_high": 0.7, "distance": 0.47, "distance_low": 0.31}
    frame = pd.DataFrame({"bin": [1], "estimate": 0.5, **limits, "distance_high": 0.64})
    cells = sc.table(frame.assign(unit="points")).cells
    assert cells["Distance [interval]"].tolist() == ["0.47 [0.31, 0.64]"]
    assert cells["Estimate [interval]"].tolist() == ["+50.0 [20.0, 70.0]"]
