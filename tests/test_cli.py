"""The command line: what it prints, where, and with which exit status; never a traceback."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
import yaml

import skillcomp as sc
from skillcomp import cli
from skillcomp.cli import STEPS
from skillcomp.io import RunStore

PILOT = Path(__file__).resolve().parent.parent / "data" / "pilot"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command as the installed program would; return status, stdout and stderr."""

    def _run(*args):
        monkeypatch.setattr(sys, "argv", ["skillcomp", *map(str, args)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
            raise SystemExit(0)  # a command that returns has ended well
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return caught.value.code or 0, said.out, said.err

    return _run


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A study with one skill of the pilot, its suite, and what grader g2 said."""
    pilot = RunStore(PILOT)
    store = RunStore(tmp_path_factory.mktemp("study") / "small")
    with store.writer():
        store.add_skill(PILOT / "skills" / "type-safety")
        store.add_suite(PILOT / "suites" / "type-safety.json")
        attempts = pilot.table("attempts").to_pylist()
        attempts = [row for row in attempts if row["skill"] == "type-safety"]
        ids = {row["attempt_id"] for row in attempts}
        verdicts = pilot.table("verdicts").to_pylist()
        store.append("attempts", attempts)
        store.append(
            "verdicts",
            [row for row in verdicts if row["attempt_id"] in ids and row["grader"] == "g2"],
        )
    return store.path


def test_check_of_the_pilot_prints_advice_when_asked_and_ends_well(run):
    summary = "study 'pilot': 6 skills, 84 cases, 480 attempts, 7,143 verdicts: 35 warnings"
    assert run("check", PILOT) == (0, f"{summary} (--advice shows them)\n", "")
    status, out, err = run("check", PILOT, "--advice")
    assert (status, err) == (0, "")
    *lines, last = out.splitlines()
    assert last == summary
    # every rule with its reason once, what it found below it
    heads = [line for line in lines if not line.startswith("  ")]
    assert all(line.startswith("warning: ") for line in heads)
    assert len(heads) == len(set(heads)) == 4
    at = lines.index(next(line for line in heads if line.endswith("[negative_missing]")))
    assert lines[at + 1].endswith(
        "braid-provenance.json: braid-provenance/11: expected_behaviors: none of the 5 is negative."
    )


def test_names_that_are_no_utf_8_are_shown_and_stop_no_command(run, small, tmp_path):
    odd = tmp_path / os.fsdecode(b"st\xffudy")
    shutil.copytree(small, odd)
    (odd / "skills" / "type-safety").rename(odd / "skills" / os.fsdecode(b"te\xff"))
    status, out, err = run("check", odd)
    assert (status, err) == (1, "") and "st\ufffdudy: skills/te\ufffd/SKILL.md is not in" in out
    assert run("status", odd)[0] == run("export", odd, odd / "out")[0] == 0


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # bytes: no file may be larger
from skillcomp import cli
cli.main()
"""


def test_on_a_full_disk_a_command_says_so_and_leaves_nothing_half_written(tmp_path):
    call = [sys.executable, "-c", FULL, "init", "out"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()[-1:]
    assert line.startswith("skillcomp: ") and "File too large" in line and "out" in line
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_check_tells_errors_first_and_the_same_thing_once(run, small, tmp_path):
    shutil.copytree(small, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "suites" / "type-safety.json"
    content = json.loads(file.read_text())
    for case in content["evals"][:3]:
        case["expected_behaviors"] = []
    file.write_text(json.dumps(content))
    status, out, _ = run("check", file, "--advice")
    *lines, _ = out.splitlines()
    severities = [line.split(":")[0] for line in lines if not line.startswith("  ")]
    assert status == 1 and set(severities) == {"error", "warning"}
    assert severities == sorted(severities)
    (line,) = [line for line in lines if "expected_behaviors: found none" in line]
    assert all(f"type-safety/{number}" in line for number in (1, 2, 3))
    assert "warning:" not in run("check", file)[1]


@pytest.mark.parametrize("place", ["texts/type-safety", "study/skills/type-safety"])
def test_check_of_a_study_lints_its_suites_with_the_skills_that_it_names(run, tmp_path, place):
    shutil.copytree(PILOT / "skills" / "type-safety", tmp_path / place)
    shutil.copy(PILOT / "suites" / "type-safety.json", tmp_path / "cases.json")
    study = tmp_path / "study.yaml"
    skills = "" if place.startswith("study/") else f"skills: [{place}]\n"
    study.write_text(f"store: study\n{skills}suites: [cases.json]\n")
    _, out, _ = run("check", study, "--advice")
    assert "suite 'cases': 14 cases" in out and "not at hand" not in out
    study.write_text("store: gone\nsuites: [cases.json]\n")
    assert "not at hand" in run("check", study, "--advice")[1]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("gone", None, "check: there is nothing at"),
        ("", None, "(a folder with manifest.json). --evals lints all skills below a folder."),
        ("a.json", b"\xff\xfe", "line 1: byte 0xff is not UTF-8"),
        ("SKILL.md", b"---\na: [\n---\n", "the front matter is not YAML"),
        ("manifest.json", b"{}", "not the manifest of a store"),
    ],
)
def test_check_of_unusable_input_exits_2_with_one_line_on_stderr(
    run, tmp_path, name, data, message
):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    status, out, err = run("check", tmp_path / ("" if name == "manifest.json" else name))
    assert (status, out) == (2, "")
    assert err.startswith("skillcomp: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("command", ["report", "export"])
def test_report_and_export_refuse_what_is_no_study_or_no_folder(run, small, tmp_path, command):
    def words(study, out):
        return ["--data", study, "--out", out, "--quiet"] if command == "report" else [study, out]

    status, out, err = run(command, *words(tmp_path / "gone", tmp_path / "out"))
    assert (status, out) == (2, "") and not (tmp_path / "out").exists()
    assert err == (
        f"skillcomp: {command}: {tmp_path / 'gone'} is not a recorded study: it has no "
        "manifest.json.\n"
    )
    (tmp_path / "file").write_bytes(b"")
    status, _, err = run(command, *words(small, tmp_path / "file" / "out"))
    assert status == 2 and err.startswith("skillcomp: ") and "Not a directory" in err


def test_export_writes_every_frame_twice_and_they_read_back(run, small, tmp_path):
    out = tmp_path / "frames"
    status, said, err = run("export", small, out)
    assert (status, err) == (0, "")
    names = ["attempts", "cases", "checks", "events", "gold", "invocations", "outcomes", "pairwise"]
    files = {f"{name}.{form}" for name in [*names, "verdicts"] for form in ("csv", "parquet")}
    assert {p.name for p in out.iterdir()} == files
    assert said == f"export: 18 files in {out}\n"
    cases = pd.read_parquet(out / "cases.parquet")
    assert len(cases) == len(pd.read_csv(out / "cases.csv")) == 14


def test_report_builds_the_page_from_the_study_that_was_named(run, monkeypatch, tmp_path):
    from skillcomp import report

    called = []

    def build(data, out, *, notebooks, parameters, progress, **_):
        numbers = None if notebooks is None else [path.stem[:2] for path in notebooks]
        called.append((data, out, numbers, parameters, progress))
        return out / "index.html"

    monkeypatch.setattr(report, "build", build)
    command = ("report", "--data", PILOT, "--out", tmp_path)
    status, out, _ = run(*command, "--quiet")
    assert (status, out) == (0, f"report: {tmp_path / 'index.html'}\n")
    assert called == [(PILOT, tmp_path, None, {}, False)]
    run(*command, "--set", "ROUND=2")
    assert called[-1][2:4] == (None, {"ROUND": 2})
    status, _, _ = run(
        *(*command, "--notebook", "03-near-vs-far", "--notebook", "02"),
        *("--set", "GRADER=forced:a=b", "--set", "MARGIN=0.2", "--set", "SKILLS=[a, b]"),
        *("--set", "MODEL={a: b}", "--set", "X=2026-01-01", "--set", "Y=[a"),
    )
    expected = {"GRADER": "forced:a=b", "MARGIN": 0.2, "SKILLS": ["a", "b"], "MODEL": "{a: b}"}
    expected |= {"X": "2026-01-01", "Y": "[a"}
    assert status == 0 and called[-1][2:] == (["02", "03"], expected, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--notebook", "12"], "there is no notebook '12'; there: 01-ngram-threshold, 02-"),
        (["--set", "OUT=a", "--set", "OUT=b"], "--set 'OUT=b': OUT is given twice"),
        (["--set", "GRADER"], "report: --set 'GRADER'; expected NAME=VALUE"),
        (["--set", "GRADR=g1"], "no notebook has a parameter 'GRADR'; there: "),
    ],
)
def test_report_names_what_it_does_not_know(run, tmp_path, args, message):
    status, _, err = run("report", "--data", PILOT, "--out", tmp_path / "out", *args)
    assert status == 2 and message in err
    assert ("Did you mean 'GRADER'?" in err) == ("GRADR'" in err)
    assert not (tmp_path / "out").exists()


# To begin with


def test_init_makes_a_study_that_runs_offline_to_a_delta_and_a_page(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    status, out, err = run("init", "mine")
    assert (status, err) == (0, "")
    assert run("--version") == (0, f"skillcomp {sc.__version__}\n", "")
    assert [line.strip() for line in out.splitlines()[1:]] == ["cd mine", *STEPS]
    monkeypatch.chdir(tmp_path / "mine")
    said = {}
    for step in STEPS:
        _, command, *words = step.split()
        status, said[command], err = run(command, *words)
        assert status == 0, (step, err)
        if command == "run":
            assert "holds no verdicts yet; run and grade" in run("answer", "study")[2]
    assert "error" not in said["check"]
    store, pilot = RunStore("study"), RunStore(PILOT)
    theirs = sc.frames.outcomes(sc.frames.verdicts(pilot), sc.frames.cases(pilot), grader="g2")
    mine = theirs[theirs["skill"].eq(next(iter(store.skills)))]
    (expected,) = sc.deltas.paired(mine).query("condition == 'skill'")["estimate"]
    assert f"{100 * expected:+.0f} points [" in said["answer"]
    assert len(store.skills) == 1 and store.table("attempts").num_rows == 56
    assert "teaches" in Path("page/index.html").read_text("utf-8")


SUITE = Path("suites/tidemark-reconciliation.json")


@pytest.fixture
def example(run, tmp_path, monkeypatch):
    """Work in the folder of the example; return how its suite and its study file are edited."""
    run("init", tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    def edit(change=None, **keys):
        suite, study = json.loads(SUITE.read_text()), yaml.safe_load(Path("study.yaml").read_text())
        if change:
            for case in suite["evals"]:
                change(case)
            SUITE.write_text(json.dumps(suite))
        Path("study.yaml").write_text(yaml.safe_dump(study | keys))

    return edit


def ask_about_capitals(case):
    case["prompt"] = f"What is the capital of country {case['id']}?"


def change_a_check(case):
    if case["id"] == 3:
        case["expected_behaviors"][0]["description"] += " At once."


def test_a_recording_answers_no_other_prompt_skill_or_suite(run, example):
    skill = next(Path("skills").glob("*/SKILL.md"))
    text = skill.read_text()
    skill.write_text(f"{text}One more line.\n")
    status, _, err = run("run", "study.yaml", "--quiet")
    assert status == 2 and "'claude' only has recorded answers, so nothing was asked" in err
    assert "- tidemark-reconciliation, condition 'skill': another text" in err
    assert "another prompt" not in err
    skill.write_text(text)
    example(ask_about_capitals)
    status, _, err = run("run", "study.yaml", "--quiet")
    assert status == 2 and err.count("another prompt") == 14 and "another text" not in err
    assert "- tidemark-reconciliation/14: another prompt" in err
    shutil.copyfile(SUITE, "suites/capitals.json")
    example(suites=["suites/capitals.json"])
    status, _, err = run("run", "study.yaml", "--quiet")
    assert status == 2 and "- capitals/1: no suite of recorded has this case" in err
    store = RunStore("study")
    assert not store.suites and not store.skills and not store.rows("attempts")
    assert not list(store.records("plan"))


def test_a_changed_check_asks_for_the_grading_only(run, example):
    example(change_a_check)
    assert run("run", "study.yaml", "--quiet")[0] == 0
    status, _, err = run("grade", "study.yaml", "--quiet")
    assert status == 1 and "a grader with a model can grade the recorded answers." in err
    rule = (
        "tidemark-reconciliation/3, check 'escalates_the_2_40': the check or its case has changed"
    )
    assert f"4 of 56 answers are not graded yet (4 gradings failed; not recorded: {rule})" in err
    verdicts = sc.frames.verdicts(RunStore("study"))
    of_case = verdicts[verdicts["case_id"].eq("tidemark-reconciliation/3")]
    assert len(of_case) > 4 and "escalates_the_2_40" not in set(of_case["check_id"])


def test_pages_and_tables_of_a_replayed_study_say_recorded_answers(run, example):
    for command in ("run", "grade"):
        assert run(command, "study.yaml", "--quiet")[0] == 0
    said = "recorded answers, nothing was asked anew"
    assert f"note: claude: {said}" in run("status", "study")[1]
    assert f"agents: claude; {said}." in run("answer", "study")[1]
    page = Path("page/index.html").read_text("utf-8")
    assert f" claude: {said}. Intervals" in page
    (cases,) = Path("page/cases").glob("*.html")
    assert said in cases.read_text("utf-8")
    assert sc.live.status(RunStore("study"))["note"].eq(said).sum() == 2


def test_the_files_of_the_example_say_what_belongs_to_the_recording(run, example, tmp_path):
    run("init", tmp_path / "other")
    lines = (tmp_path / "other" / "study.yaml").read_text()
    assert "a run with another prompt or skill text is refused" in lines
    assert "store: my-study" in lines and "store: study-2" in lines
    recorded = RunStore(tmp_path / "other" / "recorded")
    assert list(recorded.suites) == list(recorded.skills) == ["tidemark-reconciliation"]


def test_a_changed_suite_of_a_study_with_answers_is_refused_with_the_ways_out(run, example):
    assert run("run", "study.yaml", "--quiet")[0] == 0
    before = RunStore("study").fingerprint
    example(change_a_check)
    status, _, err = run("run", "study.yaml", "--quiet")
    assert status == 2 and "name another store in study.yaml (store: study-2)" in err
    assert "{kind: replay, store: study} takes over the answers" in err
    assert "'skillcomp drop study tidemark-reconciliation' removes it" in err
    assert "give the file of the suite another name" in err
    assert RunStore("study").fingerprint == before
    # the way that the message names for a changed check
    example(store="study-2", agents=[{"kind": "replay", "store": "study"}])
    assert run("run", "study.yaml", "--quiet")[0] == 0
    answers = [sc.frames.attempts(RunStore(name))["answer"] for name in ("study", "study-2")]
    assert sorted(answers[0]) == sorted(answers[1])


def test_a_run_that_fails_leaves_nothing_that_could_contradict_the_next(run, example):
    assert run("run", "study.yaml", "--quiet")[0] == 0
    before = RunStore("study").manifest["suites"]
    shutil.copyfile(SUITE, "suites/new.json")
    model = {"kind": "anthropic", "model": "claude-sonnet-5-5"}
    example(suites=["suites/new.json"], agents=[model])
    for effort in ("low", "high"):  # the settings of the agent may change, too
        status, _, err = run("run", "study.yaml", "--quiet")
        assert status == 2 and "has no credentials" in err
        example(agents=[model | {"effort": effort}])
    store = RunStore("study")
    assert store.manifest["suites"] == before and len(store.suites) == 1
    assert len(list(store.records("plan"))) == 56
    assert "without an answer" not in run("status", "study")[1]


def test_status_names_cases_without_an_answer_and_drop_removes_their_suite(run, example):
    assert run("run", "study.yaml", "--quiet")[0] == 0
    assert "without an answer" not in run("status", "study")[1]
    RunStore("study").add_suite(SUITE, slug="again")
    out = run("status", "study")[1]
    assert "14 cases without an answer: again/1, again/2" in out and "and 4 more" in out
    assert run("drop", "study", "again") == (0, "drop: suite again is removed from study\n", "")
    assert "without an answer" not in run("status", "study")[1]
    status, _, err = run("drop", "study", "tidemark-reconciliation")
    assert status == 2 and "has answers, which stay in the store" in err
    assert run("drop", "study", "agian")[0] == 2


@pytest.mark.parametrize("command", ["init", "notebooks"])
def test_init_and_notebooks_write_over_nothing(run, tmp_path, command):
    (tmp_path / "mine").write_text("kept")
    status, _, err = run(command, tmp_path / "mine")
    assert status == 2 and "is there already; name a folder that is not" in err
    assert (tmp_path / "mine").read_text() == "kept"


def test_notebooks_and_their_data_are_copied_with_whole_paths(run, tmp_path):
    status, out, err = run("notebooks", tmp_path / "mine")
    assert (status, err) == (0, "") and "jupyter lab" in out
    for file in (PILOT.parent.parent / "notebooks").glob("*.ipynb"):
        copy = tmp_path / "mine" / "notebooks" / file.name
        here = copy.read_text("utf-8").replace(f"{(tmp_path / 'mine').as_posix()}/", "../")
        assert here == file.read_text("utf-8")
        for place in re.findall(r"\.\./data/[\w./]+", file.read_text("utf-8")):
            assert (tmp_path / "mine" / "notebooks" / place).exists(), f"{file.name}: {place}"
    assert RunStore(tmp_path / "mine" / "data" / "pilot").fingerprint == RunStore(PILOT).fingerprint


def test_a_name_with_a_line_feed_starts_no_workflow_command(run, tmp_path):
    code, *printed = run("answer", tmp_path / "a\n::error::owned")
    assert code == 2 and "\n::error" not in "".join(printed) and "a ::error" in printed[1]


def test_every_option_of_every_command_has_a_help_text_and_no_docstring_shows():
    waiting, n_options = [typer.main.get_command(cli.app)], 0
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        assert "----" not in (command.help or ""), command.name
        for option in command.params:
            assert getattr(option, "help", ""), f"{command.name}: {option.name}"
            n_options += 1
    assert n_options > 100
