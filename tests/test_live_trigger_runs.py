"""skillcomp trigger: stand-ins for claude and codex, every artefact, resuming, the CLI's words."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest
from live_study import call, until

import skillcomp as sc
from skillcomp.io import RunStore, read_suite
from skillcomp.live import Reply, trigger_runs
from skillcomp.live.graders.traces import TraceReply
from skillcomp.records import Case, Skill

SKILL = (
    "---\nname: {0}\ndescription: How to read {0}. Use it for {0}.\n---\n# {0}\nRead the mark.\n"
)
HEAD = (
    "id,should_trigger,prompt,timeout_s,max_commands,max_total_tokens,output_schema,judge,"
    "require_files,must_include,must_not_include,fixture,required_steps"
)
ROWS = (
    "explicit-1,true,Use $tides: high water?,,3,500,,true,out/note.md,mark,panic,fixtures/a,ls|cat",
    "implicit-1,true,When is high water?,,,,,,,,,,",
    "negative-1,false,What is a mortgage?,,,,,,,,,,",
    "hang-1,true,Please hang now,1,,,,,,,,,",
    "wait-1,true,Wait for the service,1,,,,,,,,,",
    "quota-1,true,Run into the quota,,,,,,,,,,",
    "garbage-1,true,Say garbage,,,,,,,,,,",
    "kill-1,true,Be killed,,,,,,,,,,",
    "exit-1,true,Use $tides and exit badly,,,,,,,,,,",
    "schema-1,true,Use $tides in a shape,,,,schemas/s.json,,,,,,",
)
# what a program that is `claude` does: it reads the prompt, does as it says and tells its events
STAND_IN = """
import json, os, pathlib, sys, time
prompt = sys.stdin.read()
home = pathlib.Path(os.environ["HOME"])
skills = sorted(p.parent.name for p in home.glob(".claude/skills/*/SKILL.md"))
log = pathlib.Path({log!r})
with log.open("a") as stream:
    stream.write(json.dumps({{"prompt": prompt, "args": sys.argv[1:], "skills": skills,
        "work": sorted(str(p) for p in pathlib.Path().rglob("*")), "pid": os.getpid()}}) + "\\n")
def tell(**event):
    print(json.dumps(event), flush=True)
n = 0
def use(name, **given):
    global n
    n += 1
    block = {{"type": "tool_use", "id": f"t{{n}}", "name": name, "input": given}}
    usage = {{"input_tokens": 10, "output_tokens": 5}}
    tell(type="assistant", parent_tool_use_id=None,
         message={{"id": f"m{{n}}", "content": [block], "usage": usage}})
    tell(type="user", message={{"content": [{{"type": "tool_result", "tool_use_id": f"t{{n}}"}}]}})
def result(text, **more):
    used = {{"m": {{"inputTokens": 40, "outputTokens": 9, "costUSD": 0.01}}}}
    tell(type="result", subtype="success", stop_reason="end_turn", result=text, modelUsage=used,
         total_cost_usd=0.01, **more)
if "Judge the run" in prompt:
    assert pathlib.Path("run/trace.jsonl").is_file() and pathlib.Path("run/final.txt").is_file()
    if "Forge it" in prompt:
        tell(type="system", subtype="init", session_id="s", skills=[])
        result("no judgement")
        sys.exit()
    ids = ("trigger", "outcome", "process", "style", "efficiency")
    checks = [{{"id": i, "pass": True, "notes": "trace.jsonl line 2"}} for i in ids]
    shape = {{"overall_pass": True, "score": 90, "checks": checks}}
    tell(type="system", subtype="init", session_id="s", skills=[])
    result("", structured_output=shape)
    sys.exit()
if "garbage" in prompt:
    print("\\x00\\x01 not an event {{{{")
    sys.exit()
tell(type="system", subtype="init", session_id="s", model="m", skills=skills)
if "hang" in prompt:
    time.sleep(60)
if "Wait for" in prompt:
    tell(type="system", subtype="api_retry", error="overloaded")
    time.sleep(60)
if "quota" in prompt:
    tell(type="result", subtype="success", is_error=True, result="You've hit your usage limit.")
    sys.exit(1)
if "killed" in prompt:
    os.kill(os.getpid(), 9)
if "7 times 8" in prompt:
    result("56")
    sys.exit()
while pathlib.Path({hold!r}).exists() and "implicit" not in prompt and "mortgage" in prompt:
    time.sleep(0.02)
if "mortgage" not in prompt:
    use("Skill", skill="tides")
use("Bash", command="ls")
use("Bash", command="cat given.txt")
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out/note.md").write_text("noted " + os.environ.get("ANTHROPIC_API_KEY", ""))
pathlib.Path("grade.json").write_text("mine")
pathlib.Path("leak").symlink_to("/etc/passwd")
shape = {{"invoked_skills": ["tides"]}}
if "Forge it" in prompt:
    pathlib.Path("judge.json").write_text('{{"overall_pass": true}}')
result("The mark is read.", **({{"structured_output": shape}} if "shape" in prompt else {{}}))
sys.exit(3 if "exit badly" in prompt else 0)
"""
KEY = "sk-ant-0123456789abcdef"


@pytest.fixture
def repo(tmp_path, monkeypatch):
    for slug in ("tides", "ebbs"):
        (tmp_path / "skills" / slug).mkdir(parents=True)
        (tmp_path / "skills" / slug / "SKILL.md").write_text(SKILL.format(slug))
    folder = tmp_path / "evals" / "skills" / "tides"
    (folder / "fixtures" / "a").mkdir(parents=True)
    (folder / "fixtures" / "a" / "given.txt").write_text("given")
    (folder / "prompts.csv").write_text("\n".join([HEAD, *ROWS]) + "\n")
    (folder / "schemas").mkdir()
    shape = {"type": "object", "properties": {"invoked_skills": {"type": "array"}}}
    (folder / "schemas" / "s.json").write_text(json.dumps(shape))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "claude"
    code = STAND_IN.format(log=str(tmp_path / "log"), hold=str(tmp_path / "hold"))
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trigger(monkeypatch, capsys):
    """Return the command ``skillcomp trigger``: exit status, stdout and stderr."""
    return partial(call, monkeypatch, capsys, "trigger")


def asked(repo):
    log = repo / "log"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    controls = ("7 times 8", "In one sentence, what is it for?")  # two in every run
    return [row for row in rows if not any(words in row["prompt"] for words in controls)]


def folder_of(run_id):
    return Path("artifacts") / "skill-evals" / run_id


def load(path):
    return json.loads(path.read_text())


@pytest.mark.filterwarnings("ignore:.*of one family")
def test_a_run_leaves_every_artefact_and_resumes_without_asking_anything_twice(repo, trigger):
    args = ("run", "--suite", "all", "--run-id", "r1", "--quiet", "--write-progress")
    code, out, err = trigger(*args)
    assert code == 1, err
    assert "run r1: 4 passed, 2 failed, 4 unknown, of 10 cases" in out
    run = folder_of("r1")
    assert (run.parent / ".gitignore").read_text() == "*\n"
    case = run / "work" / "tides" / "explicit-1"
    names = {"trace.jsonl", "final.txt", "stderr.txt", "grade.json", "judge.json", "meta.json"}
    assert names <= {path.name for path in case.iterdir()}
    # what the program left is kept, without its link, its key, and with our files over its own
    assert (case / "out" / "note.md").read_text() == "noted [ANTHROPIC_API_KEY]"
    assert not (case / "leak").exists()
    assert load(case / "left.json") == ["given.txt", "grade.json", "out/note.md"]
    assert (case / "final.txt").read_text() == "The mark is read."
    meta = load(case / "meta.json")
    assert meta["skill"] == {"name": "tides", "slug": "tides"} and meta["suite"] == "all"
    assert meta["case"]["id"] == "explicit-1" and meta["case"]["should_trigger"] is True
    assert meta["run"]["offered"] == ["tides", "ebbs"] and meta["run"]["invoked"] == ["tides"]
    graded = load(case / "grade.json")
    ids = "exit_code final_message thrashing trigger max_commands max_total_tokens require_files-1"
    ids += " must_include-1 must_not_include-1 required_steps"
    assert [check["id"] for check in graded["case_checks"]] == ids.split()
    assert all(check["pass"] for check in graded["case_checks"])
    measured = graded["deterministic"]
    assert (measured["exit_code"], measured["command_count_total"]) == (0, 2)
    assert measured["usage"] == {"input_tokens": 40, "output_tokens": 9, "total_tokens": 49}
    judge = load(case / "judge.json")
    assert judge["overall_pass"] is True and judge["score"] == 90 and len(judge["checks"]) == 5
    summary = load(run / "summary.json")
    rows = {row["case_id"]: row for row in summary["rows"]}
    # wait-1 waited for its service, hang-1 for itself; the others were lost by the infrastructure
    unknown = dict.fromkeys(("wait-1", "quota-1", "garbage-1", "kill-1"))
    passed = dict.fromkeys(("explicit-1", "implicit-1", "negative-1", "schema-1"), True)
    failed = dict.fromkeys(("hang-1", "exit-1"), False)
    assert {name: row["pass"] for name, row in rows.items()} == passed | failed | unknown
    assert "usage limit" in rows["quota-1"]["notes"]
    assert "| tides | hang-1 | FAIL | exit_code |" in (run / "summary.md").read_text()
    progress = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    assert [row["status"] for row in progress].count("completed") == len(progress) / 2 == 10
    assert progress[-1].keys() >= {"ts", "skill", "case_id", "case_dir", "pass"}
    assert summary["dead"] == [] and not any(row["note"] for row in summary["controls"])
    assert KEY.encode() not in b"".join(f.read_bytes() for f in run.rglob("*") if f.is_file())

    first = asked(repo)
    assert first[0]["skills"] == ["ebbs", "tides"]  # beside its neighbour
    by_prompt = {one["prompt"]: one for one in first}
    assert by_prompt["Use $tides: high water?"]["work"] == ["given.txt"]
    assert "acceptEdits" in by_prompt["When is high water?"]["args"]
    assert "--json-schema" in by_prompt["Use $tides in a shape"]["args"]
    judging = next(one for one in first if "Judge the run" in one["prompt"])
    assert "default" in judging["args"] and "run/out/note.md" in judging["work"]

    # what the infrastructure lost is asked again, nothing else; the judging is not repeated
    trigger("run", "--resume", "--run-id", "r1", "--quiet")
    again = [one["prompt"] for one in asked(repo)[len(first) :]]
    lost = ["Be killed", "Run into the quota", "Say garbage", "Wait for the service"]
    assert sorted(again) == lost

    store = RunStore(run / "store")
    verdicts = sc.frames.verdicts(store)
    by_grader = verdicts.groupby("grader")["attempt_id"].nunique().to_dict()
    assert by_grader == {"rubric:claude": 1, "trace": 6}
    outcomes = sc.frames.outcomes(verdicts[verdicts["grader"].eq("trace")], sc.frames.cases(store))
    passed = outcomes.set_index("case_id")["passed"].to_dict()
    assert not passed["tides/hang-1"] and passed["tides/explicit-1"]
    fired = sc.frames.invocations(store).query("offered == 'tides'")
    assert fired.set_index("case_id")["invoked"].to_dict()["tides/explicit-1"]
    assert sc.frames.commands(store)["text"].isin(["ls", "cat given.txt"]).all()

    code, out, _ = trigger("status", "--run-id", "r1", "--json")
    state = json.loads(out)
    assert code == 0 and (state["answered"], state["judged"]) == (6, "1 of 1")
    assert (state["state"], state["at_work"]) == ("stopped", None)


def test_a_run_from_somebody_else_empties_no_folder_when_it_is_resumed(repo, trigger):
    trigger("run", "--suite", "explicit", "--max-cases", "1", "--run-id", "r1", "--no-judge")
    prey = repo / "thesis"
    prey.mkdir()
    (prey / "chapter.txt").write_text("three years")
    run = folder_of("r1")
    # the id of the case is an absolute path in the plan and in the suite, and the hash fits again
    for file in [run / "run.json", *(run / "store" / "suites").glob("*")]:
        file.write_text(file.read_text().replace("explicit-1", str(prey)))
    manifest = run / "store" / "manifest.json"
    content = load(manifest)
    for slug, entry in content["suites"].items():
        (file,) = (run / "store" / "suites").glob(f"{slug}.*")
        content["suites"][slug] = entry | {"sha256": sha256(file.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(content))
    for table in (run / "store").glob("*.jsonl"):
        table.write_text("")
    code, _, err = trigger("run", "--resume", "--run-id", "r1", "--quiet")
    assert code == 2 and "ids become names of files" in err and "Traceback" not in err
    assert (prey / "chapter.txt").read_text() == "three years"


def test_a_schema_from_a_file_decides_what_the_judge_is_asked(repo, trigger):
    program = repo / "bin" / "claude"
    rubric = TraceReply.model_json_schema()
    rubric["$defs"]["TraceCheck"]["properties"]["id"] = {"enum": ["style-paths"]}
    (repo / "rubric.json").write_text(json.dumps(rubric))
    args = ("run", "--case", "explicit-1", "--run-id", "own", "--rubric-schema", "rubric.json")
    code, _, err = trigger(*args, "--no-judge")
    assert code == 2 and "no case is judged; --judge judges all" in err
    ids = '("trigger", "outcome", "process", "style", "efficiency")'
    program.write_text(program.read_text().replace(ids, '("style-paths",)'))
    assert trigger(*args, "--judge")[0] == 0
    verdicts = sc.frames.verdicts(RunStore(folder_of("own") / "store"))
    judged = verdicts[verdicts.grader.str.startswith("rubric")].set_index("check_id")
    assert judged.goal.to_dict() == {"rubric-style-paths": "style", "rubric-overall": "outcome"}
    (seen,) = [row for row in asked(repo) if "Judge the run" in row["prompt"]]
    assert json.loads(seen["args"][seen["args"].index("--json-schema") + 1]) == rubric


def test_a_broken_harness_is_reported_as_dead_and_no_recall_of_it(repo, trigger):
    program = repo / "bin" / "claude"
    program.write_text(program.read_text().replace('use("Skill", skill="tides")', "pass"))
    args = ["run", "--suite", "explicit", "--run-id", "d", "--max-cases", "1", "--no-judge"]
    code, out, err = trigger(*args)
    line = "the instrument is dead for tides: an explicit call did not fire it"
    assert code == 1 and out.startswith(line), out
    assert "tides/explicit-1: FAIL; fired: none; " in err  # one line per case while it runs
    assert "tides/control-call: control; fired: none; " in err
    run = folder_of("d")
    summary = (run / "summary.md").read_text()
    assert summary.splitlines()[2].startswith(f"**The{line[3:]}")
    assert "0 passed, 0 failed, 1 unknown, of 1 cases." in summary and "did not fire" in summary
    assert trigger("status", "--run-id", "d")[1].startswith(line)
    store = RunStore(run / "store")
    fired, cases = sc.frames.invocations(store), sc.frames.cases(store)
    rates = sc.triggers.detection(fired, cases, by=["offered"]).set_index("offered").loc["tides"]
    assert rates["estimate"].isna().all() and rates["note"].str.startswith(line).all()
    answer = sc.report.answer(store)
    assert answer.findings["sentence"].iloc[0].startswith("The instrument is dead")
    assert not answer.findings["sentence"].str.startswith(("Goals met", "Triggering")).any()
    assert sc.frames.attempts(store)["exit_code"].eq(0).all()


def test_a_program_that_fires_at_everything_is_reported(repo, trigger):
    program = repo / "bin" / "claude"
    fires = 'use("Skill", skill="tides"); use("Skill", skill="ebbs")'
    code = program.read_text().replace('    result("56")', f'    {fires}\n    result("56")')
    code = code.replace('if "mortgage" not in prompt:\n    use("Skill", skill="tides")', fires)
    program.write_text(code)
    code, out, _ = trigger("run", "--suite", "smoke", "--run-id", "e", "--no-judge", "--quiet")
    lines = [f"{slug} fired at a prompt that no skill should answer" for slug in ("tides", "ebbs")]
    assert code == 1 and out.splitlines()[:2] == lines
    text = (folder_of("e") / "summary.md").read_text()
    assert all(f"**{line[0].upper()}{line[1:]}.**" in text for line in lines)
    assert trigger("status", "--run-id", "e")[1].splitlines()[:2] == lines
    sentences = sc.report.answer(RunStore(folder_of("e") / "store")).findings["sentence"]
    assert sentences.str.contains("tides fired at a prompt that no skill should answer").any()


def test_the_summary_and_the_frames_agree_on_calls_and_on_which_cases_count(repo, trigger):
    """A call that ended early is unknown, and prompts of the kind control are no cases."""
    folder = repo / "evals" / "skills" / "tides"
    rows = ["explicit-1,true,Use $tides: high water?,explicit", "own-1,true,Call $tides,control"]
    (folder / "prompts.csv").write_text("\n".join(["id,should_trigger,prompt,kind", *rows]) + "\n")
    program = repo / "bin" / "claude"
    early = 'if "In one sentence" in prompt:\n    use("Skill", skill="ebbs")\n    sys.exit(1)\n'
    early += 'if "Call $tides" in prompt:\n    sys.exit(1)\n'
    text = program.read_text().replace('if "hang" in prompt:', f'{early}if "hang" in prompt:')
    program.write_text(text)
    _, out, _ = trigger("run", "--suite", "all", "--run-id", "c", "--no-judge", "--quiet")
    summary, store = load(folder_of("c") / "summary.json"), RunStore(folder_of("c") / "store")
    controls = sc.triggers.controls(sc.frames.invocations(store), sc.frames.cases(store))
    controls = controls.set_index("offered")
    assert (
        summary["cases"] == 1 and summary["dead"] == [] and pd.isna(controls.loc["tides", "dead"])
    )
    line = "it is not known whether an explicit call fires tides"
    assert controls["note"].to_dict() == {"tides": line, "ebbs": ""}  # ebbs is never called
    assert (
        out.startswith(f"{line} (the event stream ends without a result") and len(asked(repo)) == 2
    )


def test_a_duration_of_nothing_has_no_sign():
    case = Case(case_id="tides/a", prompt="a")
    line = trigger_runs.case_line(Skill(slug="tides", text="a"), case, Reply(seconds=-0.0), True)
    assert line.endswith("; 0 s")


def process_id(out):
    return int(re.search(r"goes on in process (\d+)", out)[1])


def test_a_killed_background_run_resumes_and_repeats_nothing(repo, trigger):
    (repo / "hold").touch()
    args = ["run", "--background", "--suite", "all", "--run-id", "b1", "--max-cases", "3"]
    code, out, err = trigger(*args)
    assert code == 0 and "skillcomp trigger status --run-id b1" in out, err
    run = folder_of("b1")
    pid = process_id(out)
    assert os.getsid(pid) != os.getsid(0)  # it has no terminal to lose
    store = RunStore(run / "store")
    until(lambda: len(asked(repo)) == 3 and store.table("attempts").num_rows == 4)
    state = json.loads(trigger("status", "--run-id", "b1", "--json")[1])
    assert (state["state"], state["answered"], state["cases"]) == ("running", 2, 3)
    again = ["run", "--resume", "--background", "--run-id", "b1"]
    code, _, err = trigger(*again)
    assert code == 2 and f"is at work already: process {pid}" in err
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)  # our own child: no zombie is left that looks alive
    held = next(one["pid"] for one in asked(repo) if "mortgage" in one["prompt"])

    def is_gone():
        state = Path(f"/proc/{held}/stat")
        return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"

    until(is_gone)  # the program of a killed runner does not live on
    (repo / "hold").unlink()
    state = json.loads(trigger("status", "--run-id", "b1", "--json")[1])
    assert (state["state"], state["at_work"]) == ("stopped", None)
    code, out, _ = trigger(*again)
    assert code == 0
    until((run / "summary.json").exists)
    os.waitpid(process_id(out), 0)
    prompts = [one["prompt"] for one in asked(repo) if "Judge the run" not in one["prompt"]]
    # only the question that was under way was put again
    assert sorted(prompts) == sorted(
        ["Use $tides: high water?", "When is high water?", *["What is a mortgage?"] * 2]
    )
    assert sum("Judge the run" in one["prompt"] for one in asked(repo)) == 1
    summary = load(run / "summary.json")
    assert (summary["pass_count"], summary["cases"]) == (3, 3)
    code, out, _ = trigger("status", "--run-id", "b1")
    assert code == 0 and "state: done" in out and "at_work: nobody" in out
    assert (run / "progress.jsonl").read_text().count('"completed"') == 3


CODEX = """
import json, os, pathlib, sys
prompt = sys.stdin.read()
home = pathlib.Path(os.environ["HOME"])
args = sys.argv[1:]
skills = sorted(p.parent.name for p in home.glob(".codex/skills/*/SKILL.md"))
schema = args[args.index("--output-schema") + 1] if "--output-schema" in args else None
with pathlib.Path({log!r}).open("a") as stream:
    stream.write(json.dumps({{"args": args, "skills": skills, "prompt": prompt,
        "schema": json.load(open(schema)) if schema else None}}) + "\\n")
def tell(**event):
    print(json.dumps(event), flush=True)
tell(type="thread.started", thread_id="t")
tell(type="turn.started")
if "quota" in prompt:
    tell(type="error", message="You've hit your usage limit.")
    tell(type="turn.failed", error={{"message": "You've hit your usage limit."}})
    sys.exit(1)
def ran(ident, command):
    tell(type="item.completed", item={{"id": ident, "type": "command_execution",
        "command": f"/bin/bash -lc '{{command}}'", "exit_code": 0, "status": "completed"}})
if "mortgage" not in prompt:
    ran("c1", f"cat {{home}}/.codex/skills/tides/SKILL.md")
for i in range(3):
    ran(f"d{{i}}", "make check")
answer = json.dumps({{"invoked_skills": []}}) if schema else "The mark is read."
tell(type="item.completed", item={{"id": "a", "type": "agent_message", "text": answer}})
tell(type="turn.completed", usage={{"input_tokens": 9, "output_tokens": 2}})
"""


def test_codex_is_asked_in_its_own_way(repo, trigger, monkeypatch):
    program = repo / "bin" / "codex"
    program.write_text(f"#!{sys.executable}\n{CODEX.format(log=str(repo / 'log'))}")
    program.chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    args = ["run", "--program", "codex", "--suite", "all", "--run-id", "c", "--no-judge", "--quiet"]
    for case in ("implicit-1", "negative-1", "quota-1", "schema-1"):
        args += ["--case", case]
    code, _, err = trigger(*args, "--neighbour", "none")
    assert code == 1, err
    work = folder_of("c") / "work" / "tides"
    graded = load(work / "implicit-1" / "grade.json")
    measured = graded["deterministic"]
    assert (measured["command_count_total"], measured["command_count_effective"]) == (4, 3)
    checks = {check["id"]: (check["pass"], check["notes"]) for check in graded["case_checks"]}
    assert checks["trigger"] == (True, "invoked")
    assert checks["thrashing"] == (False, "again and again: make check")
    negative = load(work / "negative-1" / "grade.json")["case_checks"]
    assert {one["id"]: one["pass"] for one in negative}["trigger"] is True  # it stayed away
    shaped = {one["id"]: one for one in load(work / "schema-1" / "grade.json")["case_checks"]}
    assert shaped["output_schema"]["pass"] is True
    assert shaped["invoked_skills"]["pass"] is False
    quota = load(work / "quota-1" / "grade.json")
    assert quota["deterministic"]["pass"] is None
    assert all(one["pass"] is None for one in quota["case_checks"])
    assert "usage limit" in quota["case_checks"][0]["notes"]
    log = asked(repo)
    assert all(one["skills"] == ["tides"] for one in log)
    assert all(one["args"][one["args"].index("--sandbox") + 1] == "workspace-write" for one in log)
    assert [one["schema"] is not None for one in log].count(True) == 1


def test_the_flags_choose_cases_and_judgings(repo):
    suite = read_suite(repo / "evals" / "skills" / "tides")
    for which, only, most, names in (
        ("smoke", [], None, ["explicit-1", "negative-1"]),
        ("implicit", [], 2, ["implicit-1", "hang-1"]),
        ("negative", [], None, ["negative-1"]),
        ("explicit", ["exit-1"], None, ["exit-1"]),
    ):
        cases = trigger_runs.chosen_cases(suite, which, only, most)
        assert [case.case_id for case in cases] == [f"tides/{name}" for name in names]
    settings = trigger_runs.TriggerSettings(suite="all")
    for judge, n_judged in ((None, 1), (True, 10), (False, 0)):
        folder = repo / "runs" / str(judge)
        evals = repo / "evals" / "skills"
        plan = trigger_runs.prepare_run(folder, repo / "skills", evals, settings, judge=judge)
        assert len(plan.judged) == n_judged and trigger_runs.read_run(folder) == plan


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--suite", "smoek"], "--suite.*'smoek' is not one of"),
        (["--skill", "tide"], "there is no skill 'tide'; there: tides.*Did you mean 'tides'"),
        (["--neighbour", "ebb"], "there is no neighbour 'ebb'; there: ebbs, tides"),
        (["--case", "explicit-1", "--case", "implict-1"], "no case 'implict-1'; .*'implicit-1'"),
        (["--case", "implicit-1"], "no case is selected .suite smoke.*--suite all holds every"),
        (["--resume"], "trigger: --resume needs --run-id"),
        (["--resume", "--run-id", "r9"], "there is no run 'r9'"),
        (["--run-id", "../x"], "'../x' cannot be a slug"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_asked(repo, trigger, args, message):
    code, out, err = trigger("run", *args)
    assert code == 2 and not out
    assert re.search(message, " ".join(err.split()))
    assert asked(repo) == []


@pytest.mark.filterwarnings("ignore:.*of one family")
def test_a_judgement_that_the_program_left_itself_is_none(repo, trigger):
    table = repo / "evals" / "skills" / "tides" / "prompts.csv"
    table.write_text(f"{HEAD}\nforge-1,true,Forge it,,,,,true,,,,,\n")
    args = ("run", "--suite", "all", "--run-id", "r1", "--quiet")
    code, out, err = trigger(*args)
    assert code == 1 and "0 passed, 0 failed, 1 unknown, of 1 cases" in out, err
    run = folder_of("r1")
    (row,) = load(run / "summary.json")["rows"]
    assert (row["pass"], row["judge"], row["notes"]) == (None, None, "not judged")
    assert "judge.json" in load(run / "work" / "tides" / "forge-1" / "left.json")


def test_a_refused_run_leaves_its_name_free_and_a_run_takes_it(repo, trigger):
    table = repo / "evals" / "skills" / "tides" / "prompts.csv"
    sound = table.read_text()
    args = ("run", "--case", "negative-1", "--suite", "all", "--run-id", "x", "--quiet")
    table.write_text(f"{HEAD}\nnegative-1,false,Ask,,,,,,,(,,,\n")
    assert trigger(*args)[0] == 2
    table.write_text(sound)
    neighbour = repo / "skills" / "ebbs" / "SKILL.md"
    neighbour.write_text("---\nname: [\n---\n")
    code, _, err = trigger(*args)
    assert code == 2 and "front matter" in err
    neighbour.write_text(SKILL.format("ebbs"))
    code, out, err = trigger(*args)
    assert code == 0 and "1 passed, 0 failed" in out, err
    code, _, err = trigger(*args)
    assert code == 2 and "the run 'x' exists already; --resume continues it" in err
