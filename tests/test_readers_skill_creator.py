"""Workspaces, benchmarks, comparisons and trigger results of skill-creator, written by tests."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from build import problems, results

import skillcomp as sc
from skillcomp.errors import FrameError

KNOWN = {"agent": "claude", "agent_model": "m", "grader_model": "j"}


def put(place: Path, content: Any) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(content))
    return place


def grading(*passed: bool | None, texts: str = "abc", key: str = "expectations") -> dict[str, Any]:
    pairs = zip(texts, passed, strict=False)
    return {key: [{"text": text, "passed": p, "evidence": "seen"} for text, p in pairs]}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Three evals with two runs per arm; the skill passes all, the baseline one run in two."""
    root = tmp_path / "sea-workspace"
    for case in ("one", "two", "three"):
        folder = root / "iteration-1" / f"eval-{case}"
        put(folder / "eval_metadata.json", {"eval_id": 1, "eval_name": case, "prompt": "?"})
        for arm in ("with_skill", "without_skill"):
            for run in (1, 2):
                passed = arm == "with_skill" or run == 1
                put(folder / arm / f"run-{run}" / "grading.json", grading(True, passed))
                put(folder / arm / f"run-{run}" / "timing.json", {"total_duration_seconds": 9.0})
    return root


def test_runs_are_attempts_of_one_case_and_an_unknown_arm_needs_a_word(workspace):
    made = results(workspace, **KNOWN)
    delta = sc.deltas.paired(made.outcomes).iloc[0]
    assert (delta["estimate"], delta["n_clusters"], len(made.attempts)) == (0.5, 3, 12)
    assert made.cases["skill"].unique().tolist() == ["sea"]
    assert made.attempts["seconds"].eq(9).all() and made.verdicts["check_id"].nunique() == 2
    assert made.attempts["input_tokens"].isna().all()
    place = workspace / "iteration-1" / "eval-one" / "with_mcp" / "grading.json"
    put(place, grading(True, True))
    assert "with_mcp" in set(results(workspace, **KNOWN).attempts["condition"])
    made = results(workspace, words={"condition": {"with_mcp": "mcp"}}, **KNOWN)
    assert set(made.attempts["condition"]) == {"baseline", "skill", "mcp"}


def test_every_trap_of_a_grading_keeps_its_meaning(workspace, tmp_path):
    put(workspace / "meta.json", {"target": "m", "judge": "j", "modes": ["with_skill"]})
    first = workspace / "iteration-1/eval-one/with_skill"
    (first / "run-1/grading.json").unlink()  # no grading
    (first / "run-2/grading.json").unlink()  # one outside is not read
    secret = put(tmp_path / "secret.json", grading(False, False))
    (first / "run-2/grading.json").symlink_to(secret)
    for run in (1, 2):
        file = workspace / f"iteration-1/eval-two/with_skill/run-{run}/grading.json"
        put(file, grading(True, True, texts="aB"))  # another wording
    lost = ["judge returned unparseable output: {", "judge omitted this assertion", "gate failed"]
    for run, evidence in enumerate(lost, start=1):
        content = grading(True, None if run == 3 else False)
        content["expectations"][1] |= {"evidence": evidence, "skipped": run == 3}
        put(workspace / f"iteration-1/eval-three/with_skill/run-{run}/grading.json", content)
    made = results(workspace, **KNOWN)
    passed = made.outcomes[made.outcomes["condition"].eq("skill")].groupby("case_id")["passed"]
    assert passed.agg(["size", "count", "sum"]).loc["one"].tolist() == [1, 0, 0]
    assert passed.agg(["size", "count", "sum"]).loc["two"].tolist() == [2, 2, 2]
    assert passed.agg(["size", "count"]).loc["three"].tolist() == [3, 0]
    assert set(made.verdicts.loc[made.verdicts["passed"].isna(), "status"]) == {"error"}
    assert "wording of a check: differs in case 'two'" in problems(made)
    assert "input files and a system message only with the skill" in problems(made)


def test_a_text_that_all_attempts_repeat_is_no_other_wording(workspace: Path) -> None:
    for arm in ("with_skill", "without_skill"):
        for run in (1, 2, 3):
            file = workspace / f"iteration-1/eval-two/{arm}/run-{run}/grading.json"
            put(file, grading(True, False, texts="aa"))
    made = results(workspace, **KNOWN)
    assert "worded differently" not in made.problems.to_csv()
    checks = made.verdicts.loc[made.verdicts["case_id"].eq("two"), "check_id"]
    assert checks.value_counts().tolist() == [6, 6]


def test_iterations_are_versions_and_never_repeats(workspace: Path) -> None:
    for arm in ("with_skill", "without_skill"):
        place = workspace / "iteration-2" / "eval-one" / arm / "grading.json"
        put(place, grading(True, True, True))
    last = results(workspace, **KNOWN)
    assert last.attempts["repeat"].max() == 1 and len(last.attempts) == 2
    assert "2 was read: they are versions" in problems(last)
    first = results(workspace / "iteration-1", **KNOWN)
    assert len(first.attempts) == 12


def test_workspaces_of_several_skills_are_read_together_each_in_its_last_iteration(workspace):
    for iteration in (1, 2):
        for arm in ("with_skill", "without_skill"):
            folder = workspace.parent / "tea-workspace" / f"iteration-{iteration}" / "eval-one"
            put(folder / arm / "run-1" / "grading.json", grading(True, arm == "with_skill"))
            put(folder / arm / "run-2" / "timing.json", {"total_duration_seconds": 1.0})
    made = results(workspace.parent, **KNOWN)  # an error on equal rows, before
    deltas = sc.deltas.paired(made.outcomes, by=["skill"]).set_index("skill")
    assert deltas["n"].to_dict() == {"sea": 3, "tea": 1}
    assert deltas["estimate"].to_dict() == {"sea": 0.5, "tea": 1}
    # a run without a grading is missing, whatever other iterations have
    assert made.outcomes.loc[made.outcomes["skill"].eq("tea"), "passed"].isna().sum() == 2


def test_arms_graded_on_other_checks_are_refused_or_share_some(workspace: Path) -> None:
    for run in (1, 2):
        file = workspace / "iteration-1" / "eval-two" / "with_skill" / f"run-{run}" / "grading.json"
        put(file, grading(True, True, True, texts="abc"))
    with pytest.raises(FrameError, match=r"1 check that not every arm has: case 'two', check 'c'"):
        results(workspace, **KNOWN)
    shared = results(workspace, checks="shared", **KNOWN)
    assert shared.verdicts.groupby("case_id")["check_id"].nunique().eq(2).all()
    assert "left out" in problems(shared)


def test_flat_folders_with_other_keys_and_old_versions(tmp_path: Path) -> None:
    for arm, passed in {"old_skill": False, "with_skill": True}.items():
        place = tmp_path / "iteration-1" / "eval-tea" / arm / "grading.json"
        put(place, grading(passed, key="assertion_results"))
    made = results(tmp_path, skill="tea", **KNOWN)
    assert sorted(made.attempts["condition"]) == ["previous", "skill"]
    assert "none is 'baseline'" in problems(made)
    delta = sc.deltas.paired(made.outcomes, reference="previous")
    assert delta["estimate"].tolist() == [1]


def comparison(winner: str = "A", **facts: Any) -> dict[str, Any]:
    rubric = {side: {"overall_score": 8} for side in "AB"}
    return {"winner": winner, "reasoning": "clearer", "rubric": rubric, **facts}


def test_comparisons_are_pairs_of_attempts(workspace: Path) -> None:
    folder = workspace / "iteration-1" / "eval-one"
    put(folder / "comparison-1.json", comparison())
    put(folder / "comparison-2.json", comparison("TIE"))
    unnamed = results(workspace, **KNOWN)
    assert unnamed.pairwise.empty and "'A': ..." in problems(unnamed)
    made = results(workspace, words={"condition": {"A": "skill", "B": "baseline"}}, **KNOWN)
    assert made.pairwise["winner"].tolist() == ["sea/one/skill/claude/1", "tie"]
    assert made.pairwise["first"].isin(made.attempts["attempt_id"]).all()
    assert "one order only" in problems(made)


def official(arm: str, run: int, *passed: bool, **facts: Any) -> dict[str, Any]:
    run_facts = {"eval_id": 1, "configuration": arm, "run_number": run}
    return {**run_facts, "result": {"pass_rate": 0.5, "tokens": 3000}, **grading(*passed), **facts}


def test_the_official_benchmark(tmp_path: Path) -> None:
    metadata = {"skill_name": "<skill-name>", "executor_model": "<model-name>"}
    arms = {"old_skill": False, "with_skill": True}
    runs = [official(arm, run, True, passed) for arm, passed in arms.items() for run in (1, 2)]
    summary = {"delta": {"pass_rate": "-0.5"}}
    content = {"metadata": metadata, "runs": runs, "run_summary": summary}
    made = results(put(tmp_path / "benchmark.json", content))
    delta = sc.deltas.paired(made.outcomes, reference="previous").iloc[0]
    assert delta["estimate"] == 1  # -1 in the file
    assert made.attempts["agent_model"].isna().all() and made.attempts["repeat"].max() == 2
    assert made.attempts["output_tokens"].isna().all()  # `tokens` may count characters
    assert re.search(r"not in the file: skill.*grader_model= name them", problems(made))


def test_counts_give_shares_and_other_counts_are_refused(tmp_path: Path) -> None:
    runs = [
        {"case_id": case, "skill": skill, "condition": arm, "passed": n, "total": 4}
        | {"pass_rate": 25 * n, "model": "m", "cost_usd": 0.5, "exit_code": 0}
        for skill in ("sea", "tea")
        for case in ("a", "b")
        for arm, n in {"with_skill": 3 if case == "a" else 4, "baseline": 1}.items()
        if skill == "sea" or case == "a"
    ]
    file = put(tmp_path / "b.json", {"metadata": {}, "runs": runs})
    made = results(file, grader_model="j", agent="c")
    delta = sc.deltas.paired(made.outcomes, by=["skill"], value="share_passed")
    assert delta["estimate"].tolist() == [0.625, 0.5] and made.outcomes["n_checks"].eq(4).all()
    assert "single checks mean nothing" in problems(made)
    assert results(file, skill="tea").cases["skill"].unique().tolist() == ["tea"]
    counts = {"with_skill": 6, "baseline": 2}
    unequal = [{"name": "a", "config": a, "passed": n, "total": n} for a, n in counts.items()]
    other = put(tmp_path / "other.json", {"runs": unequal})
    with pytest.raises(FrameError, match=r"different numbers of checks \(skill: 6; baseline: 2\)"):
        results(other, skill="sea")


def test_counts_of_runs_that_do_not_count_prevent_nothing(tmp_path: Path) -> None:
    def run(arm: str, passed: int | None, total: int, **facts: Any) -> dict[str, Any]:
        return {"case_id": "a", "condition": arm, "passed": passed, "total": total, **facts}

    whole = [run("with_skill", 3, 4), run("without_skill", 1, 4)]
    lost = [{"exit_code": 1}, {"error": "boom"}, {"passed": None}, {"passed": 6}]
    for number, facts in enumerate(lost):
        broken = run("without_skill", 0, 5) | facts
        file = put(tmp_path / f"{number}.json", {"runs": [*whole, broken]})
        made = results(file, skill="sea")
        assert made.outcomes["share_passed"].dropna().tolist() == [0.75, 0.25]
    same = [
        {"eval_name": "n", "eval_id": i, "configuration": arm, "result": {"passed": 1, "total": n}}
        for i, n in ((1, 4), (2, 5))
        for arm in ("with_skill", "without_skill")
    ]
    made = results(put(tmp_path / "same.json", {"runs": same}), skill="sea")
    assert made.cases["case_id"].nunique() == 2
    for name, total in (("one", 4), ("two", 5)):
        put(tmp_path / f"{name}.json", {"runs": [run("x", 3, total)]})
    arms = {"baseline": tmp_path / "one.json", "skill": tmp_path / "two.json"}
    for checks in (None, "all", "shared"):
        with pytest.raises(FrameError, match="different numbers of checks"):
            results(arms, skill="sea", checks=checks)


def test_a_missing_grading_is_no_zero_and_a_crash_no_fail(tmp_path: Path) -> None:
    runs = [
        {"case_id": case, "condition": arm, "passed": n, "total": 4, "exit_code": code}
        for case, arm, n, code in [
            *[("a", "with_skill", 4, 0), ("a", "baseline", 0, 1)],
            *[("b", "with_skill", 4, 0), ("b", "baseline", 2, 0)],
        ]
    ]
    runs.append({"case_id": "b", "condition": "with_skill", "passed": 0, "total": 0})
    made = results(put(tmp_path / "b.json", {"runs": runs}), skill="sea")
    outcomes = made.outcomes.set_index(["case_id", "condition", "repeat"])["passed"]
    assert outcomes.isna().sum() == 2
    assert outcomes.dropna().to_dict() == {
        ("a", "skill", 1): True,
        ("b", "skill", 1): True,
        ("b", "baseline", 1): False,
    }


@pytest.mark.parametrize(
    "content",
    [
        {"cases": 9, "graded": 9, "avg_score": 0.9, "verdict": "good", "detail": []},
        {"mode": "new-skill", "conditions_compared": [1, 2], "run_summary": {}},
        {"run_summary": {"with_skill": {"pass_rate": 1}, "without_skill": {}, "delta": {}}},
        [1, 2],
    ],
)
def test_other_files_of_the_same_name_are_refused(tmp_path: Path, content: Any) -> None:
    file = put(tmp_path / "benchmark.json", content)
    with pytest.raises(FrameError, match=r"no known format|holds averages only"):
        sc.read_results(file)


def test_trigger_results_count_attempts_and_errors_are_missing(tmp_path: Path) -> None:
    rows = [
        {"query": "tide?", "should_trigger": True, "triggers": 2, "runs": 3},
        {"query": "tea?", "should_trigger": False, "triggers": 0, "runs": 3},
    ]
    rows[1]["attempts"] = [{"triggered": False}, {"triggered": None, "error": "429"}]
    made = results(put(tmp_path / "t.json", {"skill_name": "sea", "results": rows}))
    assert made.attempts["triggered"].sum() == 2 and len(made.attempts) == 5
    assert made.attempts["status"].eq("error").sum() == 1
    passed = made.outcomes.groupby("case_id")["passed"].agg(["sum", "count"])
    assert passed.loc["tea?"].tolist() == [1, 1] and passed.loc["tide?"].tolist() == [2, 3]
    assert "negatives pass" in problems(made)
    broken = [{**row, "triggers": 0, "attempts": []} for row in rows]
    made = results(put(tmp_path / "t.json", {"results": broken}), skill="sea")
    assert "a broken probe looks the same" in problems(made)


def test_the_how_to_leads_from_trigger_results_to_recall_and_precision(tmp_path, monkeypatch):
    rows = [
        {"query": f"q{at}", "should_trigger": at < 5, "triggers": 2 if at < 5 else 1, "runs": 3}
        for at in range(10)
    ]
    put(tmp_path / "results.json", {"skill_name": "tea", "results": rows})
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs/results/skill-creator.md").read_text("utf-8")
    names: dict[str, Any] = {"sc": sc}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        exec(re.findall(r"```python\n(.*?)```", text, re.S)[1], names)
    rows = names["detection"]
    estimates = rows[rows["kind"].eq("all")].set_index("measure")["estimate"]
    # 10 of 15 positive attempts fire and 5 of 15 negative ones
    for measure in ("recall", "precision", "specificity"):
        assert estimates[measure] == pytest.approx(2 / 3)


def test_trigger_results_are_answered_as_triggers_also_as_an_array_or_lines(tmp_path: Path) -> None:
    rows = [
        {"query": f"q{at}", "should_trigger": at < 5, "triggers": 2 if at < 5 else 1, "runs": 3}
        for at in range(10)
    ]
    files = [put(tmp_path / "results.json", {"results": rows}), put(tmp_path / "rows.json", rows)]
    files.append(tmp_path / "rows.jsonl")
    files[-1].write_text("\n".join(map(json.dumps, rows)))
    answers = [sc.report.answer(results(file, skill="tea")) for file in files]
    assert answers[0].lines() == answers[1].lines() == answers[2].lines()
    (line,) = (line for line in answers[0].lines() if line.startswith("Triggering"))
    assert line.count("67 %") == 4  # exact, recall, silence on negative prompts, precision


def test_assertions_of_a_benchmark_are_verdicts_and_a_failed_grading_is_missing(tmp_path):
    def run(case: str, arm: str, passed: bool | None, evidence: str = "seen") -> dict[str, Any]:
        rows = [{"text": "high tide", "passed": passed, "evidence": evidence}]
        return {"eval_id": case, "configuration": arm, "assertions": rows, "pass_rate": 0}

    runs = [run(case, "with_skill", True) for case in "ab"]
    runs += [run("c", "with_skill", False, "Grading parse error: no JSON")]
    runs += [run(case, "without_skill", False) for case in "abc"]
    content = {"skill_name": "sea", "model": "m-1", "runs": runs, "run_summary": {}}
    made = results(put(tmp_path / "benchmark.json", content), agent="claude")
    own = made.outcomes[made.outcomes["condition"].eq("skill")]
    assert own["passed"].isna().tolist() == [False, False, True]
    assert made.attempts["agent_model"].unique().tolist() == ["m-1"]
    assert "Grading parse error" in problems(made)


def test_averages_are_blamed_only_where_there_is_nothing_else(tmp_path: Path) -> None:
    runs = [{"eval": "a", "arm": "with_skill", "grade": 1}]
    file = put(tmp_path / "benchmark.json", {"run_summary": {}, "runs": runs})
    with pytest.raises(FrameError, match=r"no known format") as caught:
        sc.read_results(file)
    assert "averages only" not in str(caught.value)


def test_of_two_layouts_of_the_same_runs_one_is_read_and_the_other_named(workspace: Path) -> None:
    first = results(workspace, **KNOWN)
    for case in ("one", "two", "three"):
        for arm in ("with_skill", "without_skill"):
            file = workspace / "iteration-1" / case / arm / "grading.json"
            put(file, grading(True, arm == "with_skill"))
    made = results(workspace, **KNOWN)
    assert made.outcomes.equals(first.outcomes)
    assert "second layout of the same runs: one, three, two: left out" in problems(made)
    number = workspace.parent / "number-workspace" / "iteration-1"
    for folder in ("eval-1", "tides"):  # no file says that they are the same
        for arm in ("with_skill", "without_skill"):
            put(number / folder / arm / "grading.json", grading(True, arm == "with_skill"))
    made = results(number.parent, **KNOWN)
    assert made.cases["case_id"].tolist() == ["1"] and "layout" in problems(made)


def test_a_grading_one_folder_too_high_is_named_with_its_place(workspace, tmp_path):
    put(workspace / "iteration-1" / "eval-two" / "grading.json", grading(True, True))
    put(workspace / "iteration-1" / "with_skill" / "grading.json", grading(True, True))
    put(workspace / "iteration-1/eval-one/with_skill/grading.json", grading(True, True))
    made = results(workspace, **KNOWN)
    rows = made.problems[made.problems["place"].eq("grading.json in the wrong folder")]
    assert rows["n"].tolist() == [3]
    assert rows["found"].tolist() == [
        "in iteration-1/eval-one/with_skill/ instead of with_skill/run-K/, "
        "in iteration-1/eval-two/ instead of eval-two/with_skill/, "
        "in iteration-1/with_skill/ instead of eval-NAME/with_skill/"
    ]
    first = workspace / "arms-workspace"  # the folders of the arms are above those of the cases
    for arm in ("with_skill", "without_skill"):
        put(first / arm / "eval-1" / "grading.json", grading(True))
    with pytest.raises(FrameError, match=r"eval-1/with_skill/, in without_skill/eval-1/ instead"):
        results(first, **KNOWN)
    low = workspace.parent / "low-workspace" / "iteration-1" / "eval-1"
    put(low / "with_skill" / "outputs" / "grading.json", grading(True))
    with pytest.raises(FrameError, match=r"outputs/ instead of eval-1/with_skill/"):
        results(low.parents[1], **KNOWN)
    for agent in ("codex", "claude-code"):  # the layout of agent-skill-eval
        for arm in ("with_skill", "without_skill"):
            put(tmp_path / "iteration-1/eval-1" / agent / arm / "grading.json", grading(True))
    made = results(tmp_path / "iteration-1", skill="sea", agent_model="m", grader_model="j")
    assert made.attempts.groupby(["agent", "condition"]).size().eq(1).all()
    assert made.cases["case_id"].tolist() == ["1"] and made.attempts["agent"].nunique() == 2
    lone = put(workspace.parent / "other" / "eval-1" / "grading.json", grading(True))
    with pytest.raises(FrameError, match=r"no grading.json is in the folder.*eval-1/ARM"):
        results(lone.parents[1], **KNOWN)


def test_runs_of_a_benchmark_that_failed_are_missing_and_named(tmp_path: Path) -> None:
    runs = [official("with_skill", 1, True), official("with_skill", 2), official("with_skill", 3)]
    runs[1]["error"] = "crash"
    runs[2]["expectations"] = [{"text": "a"}]
    runs += [official("without_skill", run, False) for run in (1, 2, 3)]
    made = results(put(tmp_path / "benchmark.json", {"runs": runs}), skill="sea", **KNOWN)
    own = made.outcomes[made.outcomes["condition"].eq("skill")]
    assert len(own) == 3 and own["passed"].isna().sum() == 2
    assert "runs with an error: 'crash'" in problems(made)


def test_cases_of_one_name_stay_apart_by_their_ids(tmp_path: Path) -> None:
    runs = [
        official(arm, 1, arm == "with_skill", eval_id=case, eval_name="eval")
        for case in (1, 2, 3)
        for arm in ("with_skill", "without_skill")
    ]
    made = results(put(tmp_path / "benchmark.json", {"runs": runs}), skill="sea", **KNOWN)
    assert made.cases["case_id"].tolist() == ["eval (1)", "eval (2)", "eval (3)"]
    assert "names that several cases have: eval" in problems(made)


def test_equal_gradings_of_other_cases_are_no_second_layout(tmp_path: Path) -> None:
    for case in ("eval-1", "csv", "eval-2", "xls"):
        for arm in ("with_skill", "without_skill"):
            content = {"expectations": [{"text": "tests pass", "passed": True, "evidence": ""}]}
            put(tmp_path / "iteration-1" / case / arm / "grading.json", content)
    made = results(tmp_path, skill="sea", **KNOWN)
    assert len(made.cases) == 4 and "layout" not in problems(made)


def test_a_fail_about_parse_errors_is_a_fail(workspace: Path) -> None:
    evidence = "Parse error in output line 3: the CSV is broken"
    content = {"expectations": [{"text": "parses", "passed": False, "evidence": evidence}]}
    for arm in ("with_skill", "without_skill"):
        for run in (1, 2):
            put(workspace / f"iteration-1/eval-two/{arm}/run-{run}/grading.json", content)
    made = results(workspace, **KNOWN)
    assert made.outcomes.loc[made.outcomes["case_id"].eq("two"), "passed"].eq(False).all()
