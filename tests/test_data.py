"""The recorded data is what data/README.md says it is."""

import asyncio
import re
import shutil
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.io import RunStore, read_suite
from skillcomp.io.json_lines import read_lines
from skillcomp.lint import store_problems
from skillcomp.live import Contains, Pytest
from skillcomp.records import CONCEPT_FIELDS

DATA = Path(__file__).parents[1] / "data"


def test_every_file_has_the_hash_that_the_readme_gives():
    files = [
        path
        for folder in DATA.glob("*/")
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]
    hashes = {p.relative_to(DATA).as_posix(): sha256(p.read_bytes()).hexdigest() for p in files}
    text = (DATA / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([0-9a-f]{64})  (\S+)$", text, re.M)
    assert hashes == {name: value for value, name in listed}


def test_the_pilot_has_no_problems_and_its_suites_are_strict(pilot):
    assert pilot.problems == ()
    for slug, suite in pilot.suites.items():
        assert read_suite(pilot.path / suite.path, strict=True).skill == slug
    assert all(tuple(skill.concept) == CONCEPT_FIELDS for skill in pilot.skills.values())
    assert [len(suite.cases) for suite in pilot.suites.values()] == [14] * 6
    cases = [case for suite in pilot.suites.values() for case in suite.cases]
    assert sum(len(case.checks) for case in cases) == 410
    assert sum(case.contrast_of is not None for case in cases) == 12
    assert Counter(case.transfer for case in cases) == {"near": 46, "far": 38}


def test_grader_versions_name_the_hash_of_the_prompt(pilot):
    verdicts = pilot.table("verdicts").to_pylist()
    expected = set()
    for grader, style in {"g0": "impression", "g1": "evidence", "g2": "forced"}.items():
        prompt = pilot.path / "prompts" / f"{grader}-{style}.md"
        version = f"{style}@{sha256(prompt.read_bytes()).hexdigest()[:8]}"
        expected.add((grader, version, "llm"))
    keys = ("grader", "grader_version", "grader_kind")
    assert {tuple(row[key] for key in keys) for row in verdicts} == expected


def test_gold_holds_820_labels_of_two_labellers_and_the_adjudicated_one(pilot):
    gold = pilot.table("gold").to_pylist()
    names = ("labeller-1", "labeller-2", "adjudicated")
    assert Counter(g["labeller"] for g in gold) == dict.fromkeys(names, 820)
    assert {g["inclusion_probability"] for g in gold} == {0.5}
    first, second, _ = (
        {(g["attempt_id"], g["check_id"]): g["passed"] for g in gold if g["labeller"] == name}
        for name in names
    )
    assert sum(first[key] != second[key] for key in first) == 10


def test_the_corpora_have_180_passages_in_36_documents_each_about_other_topics():
    corpora = [
        read_lines(DATA / "corpus" / f"{name}.jsonl", "passages")[0].to_pylist()
        for name in ("copies", "copies_second")
    ]
    for passages in corpora:
        assert len(passages) == 180
        assert set(Counter(p["level"] for p in passages).values()) == {36}
        assert set(Counter(p["document"] for p in passages).values()) == {5}
        assert all(p["document"] == f"{p['skill']}/{p['topic']}" for p in passages)
    first, second = corpora
    for key in ("passage_id", "document", "text"):
        assert {p[key] for p in first} & {p[key] for p in second} == set()
    assert {p["skill"] for p in first} == {p["skill"] for p in second}


# The experiment on content and form


@pytest.fixture(scope="module")
def execution() -> RunStore:
    return RunStore(DATA / "execution")


@pytest.fixture(scope="module")
def judged(execution) -> dict[str, dict]:
    """Verdicts of the first version of the suite's grader, by attempt."""
    return {
        row["attempt_id"]: row
        for row in execution.table("verdicts").to_pylist()
        if row["grader_version"].startswith("rubric-1@")
    }


def test_deterministic_judges_pass_what_the_record_counts(execution, judged):
    condition = {a["attempt_id"]: a["condition"] for a in execution.table("attempts").to_pylist()}
    rows = [row for row in judged.values() if row["check_id"] != "llm-rubric"]
    assert len(rows) == 420
    passed = Counter(condition[row["attempt_id"]] for row in rows if row["passed"])
    assert passed == {
        **{"skill": 83, "full-flat": 82, "gutted-structured": 39, "gutted-flat": 29},
        "baseline": 32,
    }


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("contains", slice(None)),
        ("pytest", slice(3, None, 59)),
        pytest.param("pytest", slice(None), marks=pytest.mark.slow),
    ],
)
def test_judges_give_the_recorded_verdicts_again(execution, judged, kind, some):
    # the recorded answers are our own, so that a machine without a sandbox may run the tests
    judge = {"contains": Contains, "pytest": lambda: Pytest(execution, trust=True)}[kind]()
    cases = {case.case_id: case for s in execution.suites.values() for case in s.cases}
    rows = [
        (row, cases[row["case_id"]])
        for row in execution.table("attempts").to_pylist()
        if cases[row["case_id"]].checks[0].check_id == kind
    ][some]

    async def verdicts() -> list[tuple]:
        asked = (judge.judge(case, case.checks[0], row["answer"]) for row, case in rows)
        return [(verdict.status, verdict.passed) for verdict in await asyncio.gather(*asked)]

    assert rows
    recorded = [("ok", judged[row["attempt_id"]]["passed"]) for row, _ in rows]
    assert asyncio.run(verdicts()) == recorded


# Triggers


@pytest.fixture(scope="module")
def triggers() -> RunStore:
    return RunStore(DATA / "triggers")


def test_the_study_of_triggering_has_84_prompts_of_three_kinds_and_no_problems(triggers):
    assert triggers.problems == () and store_problems(triggers) == []
    cases = sc.frames.cases(triggers)
    assert cases.groupby("skill").size().tolist() == [14] * 6
    kinds = cases["case_id"].str.split("-").str[-2]
    assert cases["prompt_kind"].tolist() == kinds.tolist()
    assert Counter(kinds) == {"explicit": 18, "implicit": 36, "negative": 30}


# counted independently of this package: invoked of asked by kind of prompt, exact sets of skills
COUNTED = {
    "precise": ((54, 54), (108, 108), (0, 90), (252, 252)),
    "vague": ((54, 54), (108, 108), (5, 90), (247, 252)),
    "opaque": ((54, 54), (96, 108), (14, 90), (224, 252)),
}


def test_the_counts_of_the_study_of_triggering_are_those_made_independently(triggers):
    cases, every = sc.frames.cases(triggers), sc.frames.invocations(triggers)
    own = sc.triggers.detection(every[every["offered"].eq(every["skill"])], cases)
    found = own.set_index(["condition", "measure", "kind"])[["n_right", "n_asked"]]
    exact = sc.triggers.detection(every, cases).set_index(["condition", "measure"])
    for condition, (explicit, implicit, negative, sets) in COUNTED.items():
        assert tuple(found.loc[(condition, "recall", "explicit")]) == explicit
        assert tuple(found.loc[(condition, "recall", "implicit")]) == implicit
        right, asked = found.loc[(condition, "specificity", "negative")]
        assert (asked - right, asked) == negative
        assert tuple(exact.loc[(condition, "exact"), ["n_right", "n_asked"]]) == sets


def test_the_scripted_traces_are_of_both_programs_and_name_no_place_of_a_machine():
    store = sc.datasets.load("process")
    assert store.problems == () and store_problems(store) == []
    attempts = sc.frames.attempts(store)
    assert attempts["agent"].value_counts().tolist() == [4, 4]
    assert attempts["status"].eq("ok").all()
    steps = sc.frames.events(store)
    assert set(steps["agent"]) == {"claude:claude-opus-5-5", "codex:gpt-6"}
    assert sc.frames.commands(store)["exit_code"].eq(0).all()
    fired = sc.frames.invocations(store).groupby("case_id")["invoked"].sum()
    expected = {"explicit": 2, "implicit": 2, "negative": 0, "shape": 2}
    assert fired.to_dict() == {f"tides/{kind}-1": n for kind, n in expected.items()}
    text = "".join(f.read_text() for f in store.path.rglob("*.jsonl"))
    assert not re.search(r"/tmp/|/home/[a-z]|/root|127\.0\.0\.1:\d|sk-", text)


def test_the_published_counts_give_the_values_worked_by_hand() -> None:
    judges = pd.read_csv(DATA / "published" / "judges.csv").set_index(["version", "judge"])
    assert judges.index.is_unique and len(judges) == 20
    assert judges.groupby("version").sum().sum(axis=1).to_dict() == {"V1": 39_415, "V2": 28_800}
    # GPT-4 on V1: agreement 3,277 / 3,595; by chance (2,560 x 2,506 + 1,035 x 1,089) / 3,595^2
    both, missed, wrong, neither = judges.loc[("V1", "GPT-4")]
    agreement = sc.stats.wilson(both + neither, both + missed + wrong + neither)
    assert agreement.estimate == pytest.approx(0.91154, abs=1e-5)
    kappa = sc.stats.cohen_kappa([[both, missed], [wrong, neither]])
    assert kappa.estimate == pytest.approx((0.911544 - 0.583602) / (1 - 0.583602), abs=1e-5)


def test_the_published_skill_has_the_published_delta_and_standard_error() -> None:
    counts = pd.read_csv(DATA / "published" / "skill_delta_counts.csv")
    checks = counts.loc[counts.index.repeat(counts["total"])].assign(skill="gke")
    checks["number"] = checks.groupby(level=0).cumcount()
    own = sc.from_frame(
        checks.assign(met=checks["number"] < checks["passed"]),
        case="eval_id",
        condition="arm",
        repeat="iteration",
        check="number",
        passed="met",
        words={"condition": {"without_skill": "baseline", "with_skill": "skill"}},
    )
    delta = sc.deltas.paired(own.outcomes, value="share_passed", interval="t").iloc[0]
    assert (delta["n"], len(own.attempts)) == (40, 560)
    assert round(delta["estimate"], 4) == 0.3564
    assert round(delta["se"], 4) == 0.0276


def test_the_worked_example_of_the_report_covers_every_dimension_and_passes_check() -> None:
    store = sc.datasets.load("worked_example")
    assert store.problems == () and store_problems(store) == []
    findings = sc.lint.lint_path(store.path)
    assert not findings["severity"].eq("error").any()
    coverage = sc.frames.coverage(sc.frames.cases(store))  # section 6.3
    assert coverage["dimension"].tolist() == [f"C{number}" for number in range(1, 10)]
    assert coverage["n_cases"].tolist() == [1, 1, 1, 1, 1, 1, 2, 1, 1]
    assert coverage[["n_near", "n_far"]].sum().tolist() == [6, 4]
    checks = sc.frames.checks(store)
    assert len(checks) == 45  # section 7.10


def test_a_replayed_grader_that_agrees_with_the_user_is_named_by_its_copies(tmp_path) -> None:
    recorded = sc.datasets.load("worked_example")
    store = shutil.copytree(recorded.path, tmp_path / "again")
    (store / "verdicts.jsonl").unlink()
    sc.grade(sc.RunStore(store), graders=[sc.ReplayGrader(recorded)], progress=False)
    verdicts = sc.frames.verdicts(sc.RunStore(store), perturbation="all")
    attempts = sc.frames.attempts(recorded, perturbation="all")
    assert len(verdicts) == 270 and verdicts["passed"].notna().all()
    plain = verdicts[~verdicts["attempt_id"].str.endswith("approve")]
    right = plain.merge(sc.frames.gold(recorded), on=["attempt_id", "check_id"])
    assert len(plain) == 90 and right["passed_x"].eq(right["passed_y"]).all()
    framed = verdicts["attempt_id"].str.endswith("/approve")
    assert verdicts.loc[framed, "passed"].all()
    framing = sc.bias.perturbed(verdicts, attempts, by=["grader"])
    pleased, displeased = framing.to_dict("records")
    assert pleased["perturbation"] == "approve" and pleased["ci_low"] > 0
    assert displeased["estimate"] < displeased["ci_high"] < 0


def test_deltas_by_kind_of_knowledge_are_of_its_cases_alone() -> None:
    store = sc.datasets.load("worked_example")
    cases = sc.frames.cases(store)
    outcomes = sc.frames.outcomes(sc.frames.verdicts(store), cases)
    counts = cases["knowledge"].value_counts().to_dict()
    assert counts == {"conceptual": 6, "factual": 2, "procedural": 1, "metacognitive": 1}
    deltas = sc.deltas.paired(outcomes, by=["knowledge"], value="share_passed")
    assert dict(zip(deltas["knowledge"], deltas["n"], strict=True)) == counts
    alone = cases.loc[cases["knowledge"].eq("conceptual"), "case_id"]
    expected = sc.deltas.paired(outcomes[outcomes["case_id"].isin(alone)], value="share_passed")
    conceptual = deltas[deltas["knowledge"].eq("conceptual")]
    columns = ["estimate", "ci_low", "ci_high"]
    assert conceptual[columns].to_numpy().tolist() == expected[columns].to_numpy().tolist()
