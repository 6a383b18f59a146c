"""The how-tos on formats without a reader: their code runs on files of the shapes described."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from test_bias_pairs import pairs_of

import skillcomp as sc
from skillcomp.report.chapters import find_notebooks

DOCS = Path(__file__).resolve().parent.parent / "docs"
N = 6  # cases


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that executes the code of a how-to and returns its names."""

    def page(own: Any, folder: str) -> None:  # test_report builds pages
        Path(folder).mkdir()
        (Path(folder) / "index.html").write_text(repr(own))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sc.report, "build", page)

    def _executed(name: str) -> dict[str, Any]:
        (code,) = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text("utf-8"), re.S)
        names: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sc.frames.FrameWarning)
            exec(compile(code, name, "exec"), names)
        plt.close("all")
        return names

    return _executed


def lines(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def lm_eval(folder: Path) -> None:
    """The arms have the documents in another order, and a second filter passes everything."""
    for arm, order in (("plain", range(N)), ("skilled", reversed(range(N)))):
        rows = [
            {"doc_id": at, "doc": {"q": doc}, "target": "4", "resps": [["4"]]}
            | {"filter": name, "metrics": ["exact_match"], "doc_hash": f"h{doc}"}
            | {"exact_match": float(arm == "skilled" or doc == 0 or name != "strict-match")}
            for at, doc in enumerate(order)
            for name in ("strict-match", "flexible-extract")
        ]
        lines(folder / arm / "samples.jsonl", *rows)


def waza(folder: Path) -> None:
    """Two checks in two runs; the flag is_baseline is on the arm with the skill."""

    def task(at: int, skill: bool) -> dict[str, Any]:
        check = {"type": "text", "score": 1.0, "feedback": ""}
        checks = {"a": check | {"passed": True}, "b": check | {"passed": skill or at == 0}}
        runs = [{"run_number": number, "validations": checks} for number in (1, 2)]
        return {"test_id": f"t{at}", "runs": runs}

    def tasks(skill: bool) -> list[dict[str, Any]]:
        return [task(at, skill) for at in range(N)]

    document = {"eval_id": "e", "skill": "tea", "tasks": tasks(True), "is_baseline": True}
    document["baseline_outcome"] = {"tasks": tasks(False)}
    (folder / "results.json").write_text(json.dumps(document), encoding="utf-8")


def vally(folder: Path) -> None:
    """One executor error (null grade) and one judge that crashed (passed is false)."""
    rows = []
    for variant in ("plain", "skilled"):
        for at in range(N):
            for trial in (0, 1):
                passed, error = variant == "skilled" or at == 0, (variant, at, trial)
                grade: dict[str, Any] | None = {"name": "g", "kind": "llm", "passed": passed}
                grade |= {"details": [{"name": "d", "passed": passed}]}
                if error == ("skilled", 1, 0):
                    crash = {"metadata": {"error": "timeout"}, "passed": False}
                    grade |= {"passed": False, "details": [crash]}
                if error == ("skilled", 2, 0):
                    grade = None
                row = {"type": "trial-result", "variant": variant, "stimulus": f"s{at // 2}"}
                row |= {"evalFilePath": f"{at % 2}.yaml", "model": "m", "trialIndex": trial}
                rows.append(row | {"gradeResult": grade, "status": "success"})
    lines(folder / "results.jsonl", *rows, {"type": "run-summary", "total": len(rows)})


@pytest.mark.parametrize(
    ("name", "write", "n_attempts", "n_missing"),
    [("lm-eval", lm_eval, 12, 0), ("waza", waza, 24, 0), ("vally", vally, 24, 2)],
)
def test_the_code_of_a_how_to_gives_the_planted_delta_and_a_page(
    executed: Any, name: str, write: Any, n_attempts: int, n_missing: int
) -> None:
    write(Path())
    names = executed(f"results/{name}")
    (row,) = names["delta"].to_dict("records")
    # all N cases pass with the skill, and one of them without it
    assert (row["n"], row["rate"], row["reference_rate"]) == (N, 1, pytest.approx(1 / N))
    own = names["own"]
    assert (len(own.attempts), own.outcomes["passed"].isna().sum()) == (n_attempts, n_missing)
    assert len(names["verdicts"]) == 1 and Path("page/index.html").is_file()


def answers(*conditions: str, **levels: list[Any]) -> None:
    """Write answers to 40 cases: the second condition solves all, the first one every other."""
    rows = [
        {"task": case, "setup": condition, "version": condition, "usd": 1 + 1 / (at + 1)}
        | {"model": model, "solved": bool(at) or case % 2 == 0 or "new" in conditions}
        for case in range(40)
        for at, condition in enumerate(conditions)
        for model in levels.get("model", ["a"])
    ]
    pd.DataFrame(rows).to_csv("answers.csv", index=False)


def test_a_table_leads_to_delta_verdict_and_page(executed: Any) -> None:
    answers("without skill", "with skill")
    names = executed("howto/my-table")
    assert names["delta"]["estimate"].tolist() == [0.5]
    assert len(names["verdicts"]) == 1 and Path("page/index.html").is_file()


def test_two_labellers_are_compared_with_the_judge_and_each_other(executed: Any) -> None:
    items = range(40)
    verdicts = pd.DataFrame({"item": items, "judge": "g", "passed": [i % 4 > 0 for i in items]})
    verdicts.to_csv("verdicts.csv", index=False)
    people = [(i, who, i % 2 == 0 or who == "ben") for i in items for who in ("ann", "ben")]
    pd.DataFrame(people, columns=["item", "who", "passed"]).to_csv("labels.csv", index=False)
    names = executed("howto/two-labellers")
    raw = names["judge"].query("measure == 'raw_agreement'").set_index("labeller")["estimate"]
    assert raw.to_dict() == {"ann": 0.25, "ben": 0.75}
    between = names["between"].set_index("measure").loc["raw_agreement"]
    assert (between["grader"], between["estimate"]) == ("ben", 0.5)


def test_two_answers_side_by_side(executed: Any) -> None:
    pairs_of(np.random.default_rng(0), 60).drop(columns="order").to_csv("pairs.csv", index=False)
    table = pd.read_csv("pairs.csv").rename(columns={"case": "question_id"})
    table.replace({"A": "model_a", "B": "model_b"}).to_csv("pairs.csv", index=False)
    names = executed("howto/pairs")
    assert set(names["wins"]["measure"]) == {"win_rate", "win_rate_corrected"}
    assert names["effects"].query("bias == 'verbosity'")["estimate"].notna().all()
    assert names["place"]["measure"].tolist() == ["position_points"]


def test_two_models_are_compared_by_deltas_and_by_rates(executed: Any) -> None:
    answers("without skill", "with skill", model=["a", "b"])
    names = executed("howto/two-models")
    assert names["delta"]["estimate"].tolist() == [0.5, 0.5]
    for frame in (names["helps_more"], names["passes_more"]):
        assert (frame["agent"].tolist(), frame["estimate"].tolist()) == (["b"], [0.0])


def test_a_cheaper_version_saves_what_was_planted(executed: Any) -> None:
    answers("old", "new")
    (row,) = executed("howto/as-good-and-cheaper")["verdicts"].to_dict("records")
    assert row["saved"] == pytest.approx(0.5) and row["estimate"] == 0


def test_the_suite_of_another_tool_is_added_to_a_store(executed: Any) -> None:
    row = {"id": 1, "prompt": "Q?", "expected_output": "x", "expectations": ["Says a", "Says b"]}
    Path("my-skill/evals").mkdir(parents=True)
    text = "---\nname: my-skill\ndescription: D.\n---\n# S\nBoil.\n"
    Path("my-skill/SKILL.md").write_text(text)
    lines(Path("my-skill/evals/evals.json"), {"skill_name": "my-skill", "evals": [row]})
    store = executed("howto/other-suite")["store"]
    assert sc.frames.checks(store)["check_id"].tolist() == ["expectation-1", "expectation-2"]


def test_the_cost_of_five_thousand_answers_is_that_of_the_table(executed: Any) -> None:
    names = executed("howto/thousands")
    total, page = names["total"], (DOCS / "howto/thousands.md").read_text("utf-8")
    assert total["n_calls"].unique().tolist() == [2 * 5040]
    assert names["hours"].round(1).unique().tolist() == [2.1]
    plain, cached = total["cost_usd"]
    assert all(f"{usd:.2f}" in page for usd in (plain, cached, plain / 2))


def test_a_table_of_labelled_texts_leads_to_a_calibration_and_to_chapter_01(executed: Any) -> None:
    words = [[f"source{number}word{at}" for at in range(30)] for number in range(40)]
    rows = [
        (
            " ".join(source[5:20] if copies else [*("other " * 20).split(), *source[:2]]),
            " ".join(source),
            "copied" if copies else "fresh",
        )
        for source in words
        for copies in (True, False)
    ]
    table = pd.DataFrame(rows, columns=["text", "original", "category"])
    table.to_csv("texts.csv", index=False)
    names = executed("howto/own-corpus")
    assert names["cut"].query("chosen")["n"].tolist() == [12]
    assert names["spans"]["n_tokens"].tolist() == [15] * 40
    chapter = next(path for path in find_notebooks() if path.name.startswith("01"))
    code = [c for c in json.loads(chapter.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    cells = ["".join(cell["source"]) for cell in code[1:4]]
    where = {"DATA": "corpus", "PASSAGES": None, "MAX_FALSE_FLAGS": 0.1, "SEED": 0}
    for cell in cells:
        exec(compile(cell, chapter.name, "exec"), where)
    cut = where["cuts"]["written copies"]
    assert cut.query("chosen")["n"].tolist() == [12]


def judged() -> None:
    """Four judges on 40 answers: three err on different answers, the last passes everything."""
    human = [at % 4 > 0 for at in range(40)]
    wrong = {"a": range(0, 6), "b": range(6, 12), "c": range(12, 16)}
    rows = [
        {"item": at, "judge": judge, "human": int(label)}
        | {"passed": int(judge == "d" or label != (at in wrong[judge]))}
        for judge in "abcd"
        for at, label in enumerate(human)
    ]
    pd.DataFrame(rows).to_csv("verdicts.csv", index=False)


def test_a_judge_that_passes_everything_is_not_trusted(executed: Any) -> None:
    judged()
    names = executed("howto/trusted-grader")
    estimate = names["agreement"].set_index(["grader", "measure"])["estimate"]
    assert estimate["d", "raw_agreement"] == pytest.approx(0.75)
    assert estimate["d", "false_passes"] == 1 and estimate["d", "cohen_kappa"] == 0
    assert estimate["c", "raw_agreement"] == pytest.approx(0.9)
    ranks = names["differences"].query("measure == 'agreement_rank'").set_index("grader")
    assert ranks["estimate"].to_dict() == {"c": 1, "a": 2, "b": 2, "d": 4}


def test_a_majority_looks_better_if_its_ties_are_dropped(executed: Any) -> None:
    judged()
    rows = executed("howto/majority-of-judges")["rows"]
    rows = rows[rows["grader"].eq("majority")].set_index("measure")
    # two of four judges are wrong on the answers 0, 4, 8 and 12, which people fail
    agreement = rows.loc["raw_agreement"]
    assert (agreement["estimate"], agreement["n"]) == (1, 36)
    assert (agreement["worst_low"], agreement["worst_high"]) == (pytest.approx(0.9), 1)
    assert rows.loc["failure_share", "estimate"] == pytest.approx(0.1)


def test_marks_have_a_weighted_kappa_and_an_ordinal_alpha(executed: Any) -> None:
    human = [1 + at % 5 for at in range(30)]
    judge = [min(mark + (at % 3 == 0), 5) for at, mark in enumerate(human)]
    marks = pd.DataFrame({"item": range(30), "judge": judge, "human": human}, dtype="Int64")
    marks.loc[29, "judge"] = pd.NA
    marks.to_csv("scores.csv", index=False)
    names = executed("howto/scores-of-judges")
    both = marks.dropna()
    squares = ((both["judge"] - both["human"]) ** 2).mean()
    chance = ((both["judge"].to_numpy()[:, None] - both["human"].to_numpy()) ** 2).mean()
    assert names["kappa"] == pytest.approx(1 - squares / chance)
    assert names["alpha"].n == 29 and names["alpha"].low < names["alpha"].estimate < 1


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_a_query_of_rates_per_case_has_the_delta_of_all_rows(engine: str, executed: Any) -> None:
    database = pytest.importorskip(engine)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"task": rng.integers(40, size=6000), "setup": rng.random(6000) < 0.5})
    chance = rows["task"] / 80 + rows["setup"] * 0.1
    rows["solved"] = pd.array(rng.random(6000) < chance, dtype="boolean")
    rows.loc[rng.random(6000) < 0.05, "solved"] = pd.NA
    rows["setup"] = np.where(rows["setup"], "skill", "baseline")
    Path("answers").mkdir()
    for at in range(3):
        rows[at::3].to_parquet(f"answers/{at}.parquet")
    page = (DOCS / "howto/million-rows.md").read_text("utf-8")
    if engine == "duckdb":
        database.sql("".join(re.findall(r"```sql\n(.*?)```", page, re.DOTALL)))
    else:
        exec(re.findall(r"```py\n(.*?)```", page, re.DOTALL)[0], {"pl": database})
    (row,) = executed("howto/million-rows")["delta"].to_dict("records")
    rows["at"] = rows.groupby(["task", "setup"]).cumcount() + 1
    names = {"skill": None, "case": "task", "condition": "setup", "repeat": "at"}
    own = sc.from_frame(rows, passed="solved", **names)
    (expected,) = sc.deltas.paired(own.outcomes).to_dict("records")
    shown = ("estimate", "rate", "reference_rate", "n")
    assert [round(row[n], 5) for n in shown] == [round(expected[n], 5) for n in shown]
    assert pd.read_parquet("cases.parquet")["answers"].sum() == rows["solved"].notna().sum()


def test_the_execution_study_notices_the_gutted_documents(executed: Any) -> None:
    names = executed("howto/gutted")
    (row,) = names["noticed"].to_dict("records")
    assert row["reference"] == "gutted-structured" and row["ci_low"] > 0
    passed = names["cases"]
    both = passed[["rate", "reference_rate"]].gt(0.5).all(axis=1)
    assert passed["verdict"].eq("already_passes").equals(both)


def test_the_curve_of_the_pilot_is_drawn_over_all_cases(executed: Any) -> None:
    names = executed("howto/distance")
    slope = names["curve"].set_index("measure").loc["delta_slope"]
    assert slope["n"] == 84 and slope["ci_low"] < 0 < slope["ci_high"]
    distances = names["distances"].merge(sc.frames.cases(sc.datasets.load("pilot")))
    means = distances.groupby("transfer")["distance"].mean()
    assert means["far"] > means["near"]


def test_the_datasheet_of_a_judge_shows_what_was_planted(executed: Any) -> None:
    answers, wins = sc.frames.attempts(sc.datasets.load("pilot")), {"pad": 0.2, "bullets": 0.8}
    tables = []
    for kind in ("identical", "pad", "bullets", "reorder"):
        table = sc.bias.copy_pairs(answers, kind=kind)
        won = np.random.default_rng(1).random(len(table)) < wins.get(kind, 0.5)
        tables.append(table.assign(winner=np.where(won, kind, "original")))
        if kind == "identical":
            tables[-1]["winner"] = np.where(won, "tie", "model_b")
    pd.concat(tables).assign(judge="j").to_csv("judged.csv", index=False)
    rows = executed("howto/datasheet")["sheet"].set_index("property")
    assert len(pd.read_csv("pairs.csv")) == len(pd.read_csv("judged.csv"))
    shown = rows.index[rows["shown"].fillna(False)]
    assert {"padded copy in pairs", "copy in bullets in pairs"} <= set(shown)
    assert 0.4 < rows.loc["ties of identical answers", "estimate"] < 0.6
    assert rows.loc["first of identical answers wins", "ci_high"] < 0.5
    unknown = rows.loc["agreement with gold"]
    assert np.isnan(unknown["estimate"]) and unknown["note"].startswith("not measured")


def test_the_how_to_quotes_the_datasheet_of_the_pilot() -> None:
    page = (DOCS / "howto/datasheet.md").read_text("utf-8")
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"sc": sc}
    exec(code, names)
    sheet = names["sheet"]
    assert not sheet["shown"].fillna(False).any()
    rows = sheet.dropna(subset="estimate").set_index(["property", "grader"])
    padded = rows.loc["padded copy"]
    assert sorted(padded.index) == ["g0", "g2"]
    assert padded["ci_low"].round().tolist() == [-3, -3]
    assert padded["ci_high"].round().tolist() == [6, 6]
    passes = rows.loc["false passes"].query("condition == 'skill'")
    for grader in ("g0", "g2"):
        rate, low, high = (100 * passes.loc[grader, ["estimate", "ci_low", "ci_high"]]).round()
        assert f"{rate:.0f} % [{low:.0f}, {high:.0f}]" in page
