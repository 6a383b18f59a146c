"""``skillcomp evaluate``: both modes with all three judges, on the loopback service and mocked."""

from __future__ import annotations

import json
from datetime import timedelta

import live_study
import pytest
from fake_anthropic import FakeAnthropic

import skillcomp as sc
from skillcomp.errors import FrameError, StudyError
from skillcomp.live import evaluate as evaluation
from skillcomp.live.graders import sandbox, task_graders
from skillcomp.live.study_file import read_agent

SUITE = """
skill_id: tide
version: "1.0"
tasks:
  - {id: run, prompt: Write code., judge: {type: pytest, test_file: fixtures/test_run.py}}
  - {id: words, prompt: Say it., judge: {type: contains, expected: [water]}}
  - {id: why, prompt: Give a reason., judge: {type: llm-rubric, rubric: Names a reason.}}
"""
TEST = """
import os


def test_it():
    with open(os.environ["AI_OUTPUT_FILE"], encoding="utf-8") as stream:
        assert "right" in stream.read()
"""
GOOD, OLD = "# Tide\nThe GOOD text.\n", "# Tide\nThe OLD text.\n"
RIGHT = {"Write code.": "right", "Say it.": "the water", "Give a reason.": "because"}


async def quick_tests(files, test, answer, **_):
    """Stand for the test in a sandbox, which `test_live_task_graders` tries."""
    passed = {"t"} if "right" in answer else set()
    return sandbox.Report(["t"], {} if passed else {"t": "AssertionError"}, passed)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, fake_key):
    monkeypatch.setattr(task_graders, "run_tests", quick_tests)
    for name, text in {
        "suite/task_suite.yaml": SUITE,
        "suite/fixtures/test_run.py": TEST,
        "suite/reference/run.txt": "right",
        "original/SKILL.md": OLD,
        "new/SKILL.md": GOOD,
        "ranking.json": json.dumps(
            {
                "run_id": "run-7",
                "target": {"path": str(tmp_path / "original")},
                "scored_candidates": [
                    {"id": "c1", "score": 7.5, "content": GOOD},
                    {"id": "c2", "score": 5.9, "content": GOOD},
                    {"id": "c3", "score": 9, "content": ""},
                ],
            }
        ),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def text_of(body):
    parts = [body.get("system") or "", *(one["content"] for one in body["messages"])]
    return "\n".join(
        part if isinstance(part, str) else "".join(one["text"] for one in part) for part in parts
    )


def whose(body):
    """Return whose question it is: of the candidate, its original, none, or the judge's."""
    text = text_of(body)
    if "<rubric>" in text:
        return "judge"
    return "GOOD" if "The GOOD text" in text else "OLD" if "The OLD text" in text else "none"


def service(wrong=(), **more):
    """Return a service that answers rightly but where (whose, prompt) stands in `wrong`."""
    wrong = list(wrong)

    def answer(body):
        text = text_of(body)
        if "<rubric>" in text:
            item = text.split('<item id="')[1].split('"')[0]
            score = 0.9 if "because" in text.split("<agent-answer>")[1] else 0.1
            return json.dumps({"item": item, "reason": "So it is.", "score": score})
        prompt = next(prompt for prompt in RIGHT if prompt in text)
        if (whose(body), prompt) in wrong:
            wrong.remove((whose(body), prompt))
            return "nothing of the kind"
        return RIGHT[prompt]

    return FakeAnthropic(answer=answer, **more)


ALL_OLD = [("OLD", prompt) for prompt in RIGHT]
PIPELINE = ["--input", "ranking.json", "--candidate-id", "c1"]
STANDALONE = ["--standalone", "--skill-path", "new"]


@pytest.fixture
def call(place, monkeypatch, capfd):
    """Return how the command is called: exit code, JSON line, artefact and what was said."""

    def _call(*arguments, server=None, state="state", suite="suite/task_suite.yaml", trust=True):
        monkeypatch.chdir(place)
        given = ["--task-suite", suite, "--state-root", state, "--quiet"]
        given += ["--trust-answers"] if trust else []
        if server is not None:
            spec = {"kind": "anthropic", "model": "claude-haiku-5-5", "base_url": server.url}
            given += ["--agent", json.dumps(spec)]
        code, out, err = live_study.call(monkeypatch, capfd, "evaluate", *given, *arguments)
        files = sorted((place / state / "evaluations").glob("*.json"))
        artefact = json.loads(files[-1].read_text()) if files else None
        return code, json.loads(out) if out else None, artefact, err

    return _call


def test_the_replies_to_rubrics_are_stored_and_paid_once(call, place):
    with service([("OLD", "Say it.")]) as server:
        call(*PIPELINE, server=server)
    stores = [sc.RunStore(path.parent) for path in place.rglob("manifest.json")]
    replies = [row for store in stores for row in store.rows("replies")]
    asked = sum(whose(body) == "judge" for body in server.bodies)
    assert len(replies) == asked == 2
    assert all(row["cost_usd"] > 0 for row in replies)


def test_a_better_candidate_passes_and_the_artefact_says_all(call, place, monkeypatch):
    monkeypatch.setattr(task_graders, "run_tests", sandbox.run_tests)
    with service([("OLD", "Say it.")]) as server:
        code, line, artefact, err = call(*PIPELINE, server=server)
    rates = {"execution_pass_rate": 1.0, "baseline_pass_rate": 0.6667, "delta": 0.3333}
    interval = [artefact["interval"][name] for name in ("ci_low", "ci_high")]
    assert (code, line) == (0, {**rates, "interval": interval, "verdict": "pass"})
    assert -1 < interval[0] < 0.3333 < interval[1] < 1
    assert artefact["truth_anchor"] == str(place / "state" / "evaluations" / "run-7.json")
    assert artefact["evaluation"] == {**rates, "verdict": "pass"}
    assert artefact["candidate_id"] == "c1"
    results = {row["task_id"]: row for row in artefact["baseline_results"]}
    assert [results[task]["passed"] for task in ("run", "words", "why")] == [True, False, True]
    assert results["words"]["details"] == "missing: 'water'" and results["words"]["score"] == 0.0
    assert results["why"]["score"] == 0.9 and isinstance(results["why"]["duration_ms"], int)
    interval = artefact["interval"]
    assert interval["n"] == 3 and interval["ci_low"] < 0 < interval["ci_high"] <= 1
    assert interval["supports"].startswith("neither better nor worse")
    assert "with 3 tasks this supports: neither better nor worse" in err
    assert "estimate: 6 answers, 2 scores by rubric, about 0." in err
    assert artefact["mock"] is False and artefact["missing_tasks"] == []
    assert artefact["answers_trusted"] == (sandbox.why_no_sandbox() is not None)
    # the baseline goes first, answers and scores, then the candidate
    order = ["OLD", "OLD", "OLD", "judge", "GOOD", "GOOD", "GOOD", "judge"]
    assert [whose(body) for body in server.bodies] == order
    store = sc.RunStore(artefact["store"])
    outcomes = sc.frames.outcomes(sc.frames.verdicts(store), sc.frames.cases(store))
    assert outcomes.groupby("condition")["passed"].sum().to_dict() == {"previous": 2, "skill": 3}


def test_a_low_score_is_skipped_and_the_suite_is_looked_at_first(call):
    with service() as server:
        given = ["--input", "ranking.json", "--candidate-id", "c2"]
        code, line, artefact, _ = call(*given, server=server)
        assert (code, line["verdict"], artefact["status"]) == (3, "skipped", "skipped")
        assert line["reason"] == "score 5.9 < threshold 6.0" and line["delta"] is None
        assert server.bodies == []
        assert "every task passes" not in call(*given, "--mock", server=server)[3]
        code, line, _, _ = call(*given, "--eval-threshold", "5.9", server=server)
        assert (code, line["verdict"]) == (0, "pass")
        code, line, _, err = call(*given, server=server, suite="nothing.yaml")
        assert code == 2 and line is None and "Task suite not found: nothing.yaml" in err


def test_a_broken_suite_costs_the_baseline_only(call):
    with service(ALL_OLD) as server:
        code, line, artefact, _ = call(*PIPELINE, server=server)
    assert (code, line["verdict"]) == (2, "error")
    assert line["reason"] == "baseline pass rate 0.0 < 0.2"
    assert line["baseline_pass_rate"] == 0.0 and line["execution_pass_rate"] is None
    assert {whose(body) for body in server.bodies} == {"OLD", "judge"}
    assert len(artefact["baseline_results"]) == 3 and artefact["candidate_results"] == []


def test_standalone_has_no_original_unless_one_is_given(call):
    with service([("GOOD", "Say it.")]) as server:
        code, line, artefact, _ = call(*STANDALONE, server=server)
    rates = {"execution_pass_rate": 0.6667, "baseline_pass_rate": None, "delta": None}
    assert code == 0 and {**line, "interval": 0} == {**rates, "interval": 0, "verdict": "pass"}
    assert artefact["pass_rate_needed"] == 0.5
    assert artefact["baseline_results"] is None and artefact["lane"] == "standalone"
    assert artefact["interval"]["of"] == "execution_pass_rate"
    assert artefact["truth_anchor"].endswith("standalone-tide.json")
    with service([("GOOD", "Say it.")]) as server:
        need = ["--min-pass-rate", "0.7"]
        assert call(*STANDALONE, *need, server=server, state="d")[1]["verdict"] == "fail"
    with service([("GOOD", "Say it.")]) as server:
        code, line, _, _ = call(*STANDALONE, "--original", "original", server=server, state="c")
    assert (code, line["baseline_pass_rate"], line["delta"]) == (1, 1.0, -0.3333)


@pytest.mark.parametrize(("who", "key"), [("GOOD", "candidate"), ("OLD", "baseline")])
def test_a_task_that_is_missing_under_one_condition_leaves_both_rates_and_is_listed(
    call, place, who, key
):
    def fault(_, body):
        return "refusal" if (whose(body), "Say it." in text_of(body)) == (who, True) else "ok"

    with service(faults=fault) as server:
        code, line, artefact, _ = call(*PIPELINE, "--baseline-cache-dir", "cache", server=server)
    assert (code, line["execution_pass_rate"], line["baseline_pass_rate"]) == (0, 1.0, 1.0)
    assert artefact["missing_tasks"] == ["words"] and artefact["n_tasks"] == 2
    (row,) = (row for row in artefact[f"{key}_results"] if row["task_id"] == "words")
    assert row["passed"] is None and row["error"].startswith("refused")
    assert artefact["interval"]["n"] == 2
    # a baseline with a missing task is not cached
    assert (place / "cache").exists() == (who == "GOOD")


def test_a_task_passes_if_any_of_k_attempts_does(call):
    with service([("GOOD", "Say it."), ("OLD", "Say it."), ("OLD", "Say it.")]) as server:
        _, line, artefact, err = call(*PIPELINE, "--pass-k", "2", server=server)
    assert line["execution_pass_rate"] == 1.0 and line["baseline_pass_rate"] == 0.6667
    words = next(one for one in artefact["candidate_results"] if one["task_id"] == "words")
    assert sorted(words["attempts"]) == [False, True] and words["score"] == 1.0
    assert "estimate: 12 answers, 4 scores by rubric" in err


def test_asking_without_any_skill_is_ours(call):
    with service([("none", "Say it.")]) as server:
        _, line, artefact, _ = call(*PIPELINE, "--no-skill", server=server)
    assert line["delta"] == 0.0 and artefact["no_skill_pass_rate"] == 0.6667
    assert line["no_skill_pass_rate"] == 0.6667
    assert artefact["no_skill_interval"]["estimate"] == 0.3333


# -- kept baselines -------------------------------------------------------------------------------


def n_asked(server, who):
    return sum(whose(body) == who for body in server.bodies)


def test_a_kept_baseline_is_used_for_less_than_seven_days(call, monkeypatch, place):
    cache = ["--baseline-cache-dir", "cache"]
    with service([("OLD", "Say it.")]) as server:
        first = call(*PIPELINE, *cache, server=server, state="a")
        assert first[2]["baseline_cache"] == {"reused": False, "age_seconds": None}
        assert n_asked(server, "OLD") == 3
        (file,) = (place / "cache").iterdir()
        made = evaluation.datetime.fromisoformat(json.loads(file.read_text())["body"]["created_at"])
        later = timedelta(days=7) - timedelta(seconds=1)
        monkeypatch.setattr(evaluation, "now", lambda: made + later)
        again = call(*PIPELINE, *cache, server=server, state="b")
        assert again[1] == first[1] and n_asked(server, "OLD") == 3
        assert again[2]["baseline_cache"] == {"reused": True, "age_seconds": later.total_seconds()}
        assert again[2]["baseline_results"] == first[2]["baseline_results"]
        assert "estimate: 3 answers, 1 score by" in again[3]
        monkeypatch.setattr(evaluation, "now", lambda: made + timedelta(days=7))
        stale = call(*PIPELINE, *cache, server=server, state="c")
        assert n_asked(server, "OLD") == 6 and stale[2]["baseline_cache"]["reused"] is False
        assert "is 7.0 days old; it is not used and made anew" in stale[3]
        # the new one stands in its place
        assert call(*PIPELINE, *cache, server=server, state="d")[2]["baseline_cache"]["reused"]
        assert list((place / "cache").iterdir()) == [file]


def test_a_damaged_baseline_is_refused_and_made_anew(call, place):
    cache = ["--baseline-cache-dir", "cache", "--mock"]
    call(*PIPELINE, *cache, state="a")
    (file,) = (place / "cache").iterdir()
    whole = file.read_text()
    for state, text in {"b": whole.replace("true", "false", 1), "c": whole[:300]}.items():
        file.write_text(text)
        _, _, artefact, err = call(*PIPELINE, *cache, state=state)
        assert "is damaged; it is not used and made anew" in err
        assert artefact["baseline_cache"]["reused"] is False
    assert json.loads(file.read_text())["body"]["results"] == json.loads(whole)["body"]["results"]


def test_a_baseline_is_kept_for_one_suite_one_skill_and_one_way_of_asking(call, place):
    cache = ["--baseline-cache-dir", "cache", "--mock"]
    call(*PIPELINE, *cache, state="a")
    call(*PIPELINE, *cache, "--pass-k", "2", state="b")
    for n, (name, text) in enumerate(
        {
            "suite/task_suite.yaml": SUITE.replace("water", "line"),
            "suite/fixtures/test_run.py": TEST + "\n",
            "original/SKILL.md": OLD + "More.\n",
        }.items(),
        start=2,
    ):
        assert len(list((place / "cache").iterdir())) == n
        (place / name).write_text(text)
        call(*PIPELINE, *cache, state="c")
    assert len(list((place / "cache").iterdir())) == 5


# -- mock -----------------------------------------------------------------------------------------


def test_a_mock_needs_nobody_passes_everything_and_is_never_taken_for_real(
    call, place, monkeypatch
):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: "there is none")
    text = SUITE.replace("Names a reason.}", "Names a reason., pass_threshold: 1.0}")
    (place / "suite" / "task_suite.yaml").write_text(text)
    code, line, artefact, err = call(*PIPELINE, "--baseline-cache-dir", "cache", "--mock")
    assert (code, line["execution_pass_rate"], line["verdict"]) == (0, 1.0, "pass")
    assert line["mock"] is True
    assert artefact["mock"] is True and "interval" not in artefact
    assert artefact["agent"]["model"] == "mock" and artefact["judge"]["version"] == "mock"
    assert "mock: nothing was asked" in err
    store = sc.RunStore(artefact["store"])
    for read in (sc.frames.attempts, sc.frames.verdicts):
        with pytest.raises(FrameError, match="trial of the wiring"):
            read(store)
    for file in (place / "cache").glob("*.json"):
        assert json.loads(file.read_text())["body"]["mock"] is True


# -- what cannot be evaluated ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--input and --candidate-id are needed in pipeline mode"),
        (["--standalone"], "evaluate: --standalone needs --skill-path"),
        ([*PIPELINE, "--skill-path", "new"], "--skill-path belongs to --standalone"),
        (["--input", "ranking.json", "--candidate-id", "c9"], "no candidate 'c9'; there: c1, c2"),
        (["--input", "ranking.json", "--candidate-id", "c3"], "content: missing or empty"),
        (["--input", "new/SKILL.md", "--candidate-id", "c1"], "not JSON ("),
    ],
)
def test_what_cannot_be_evaluated_is_told_with_status_2(call, arguments, message):
    code, line, artefact, err = call(*arguments, "--mock")
    assert (code, line, artefact) == (2, None, None)
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_id": "../../out"}, "'../../out' cannot be a slug"),
        ({"target": None}, "target: found None; expected the path of the original"),
        ({"scored_candidates": {}}, "expected an object with a list 'scored_candidates'"),
        ({"target": "a\0b"}, "there is no SKILL.md here"),
        ({"scored_candidates": [{"id": "c1", "score": "7", "content": "x"}]}, "score: found '7'"),
        ({"scored_candidates": [{"id": "c1", "score": 7, "content": 8}]}, "content: missing"),
    ],
)
def test_a_ranking_of_strangers_is_told_and_leaves_nothing(call, place, change, message):
    ranking = json.loads((place / "ranking.json").read_text())
    (place / "ranking.json").write_text(json.dumps({**ranking, **change}))
    code, line, artefact, err = call(*PIPELINE, "--mock")
    assert (code, line, artefact) == (2, None, None)
    assert message in err and "Traceback" not in err


def test_answers_that_nobody_trusts_are_not_run_and_nothing_is_asked(call, place, monkeypatch):
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: "bubblewrap is not installed")
    with service() as server:
        code, _, _, err = call(*STANDALONE, server=server, trust=False)
        assert code == 2 and server.bodies == []
    assert "--trust-answers" in err and not (place / "state").exists()
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, _, err = call(*STANDALONE)
    assert code == 2 and "claude is not in PATH" in err


def test_an_agent_is_a_model_or_a_mapping():
    assert read_agent("claude-haiku-5-5", key="--agent").model == "claude-haiku-5-5"
    program = read_agent("{kind: cli, program: claude}", key="--agent", timeout=30)
    assert json.loads(program.settings)["timeout"] == 30
    for text, message in (
        ("[a]", r"--agent: found '\[a\]'; expected the name of a model"),
        ("{kind: clii}", "--agent: kind: found 'clii'; allowed: "),
    ):
        with pytest.raises(StudyError, match=message):
            read_agent(text, key="--agent")


def test_a_ranking_reads_no_original_outside_its_folder_unless_that_is_allowed(call, place):
    (place / "rank").mkdir()
    ranking = json.loads((place / "ranking.json").read_text())
    (place / "rank" / "link").symlink_to(place / "original")
    pipeline = ["--input", "rank/ranking.json", "--candidate-id", "c1", "--mock"]
    for target in (str(place / "original"), "../original", "original", "link", "/etc/passwd"):
        (place / "rank" / "ranking.json").write_text(
            json.dumps({**ranking, "target": {"path": target}})
        )
        code, _, artefact, err = call(*pipeline)
        assert code == 2 and artefact is None
        assert "is outside the folder of the ranking; nothing was read" in err
        if target != "/etc/passwd":
            code, line, _, err = call(*pipeline, "--original-anywhere", state=f"s{len(target)}")
            assert code == 0 and line["verdict"] == "pass", err
