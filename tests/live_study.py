"""A small study of two skills, programs as agents, and the content of a store, for tests."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from fake_anthropic import KEY

import skillcomp as sc
from skillcomp import cli
from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent
from skillcomp.live.graders.comprehension import ComprehensionGrader
from skillcomp.live.graders.grader import GraderWarning

SLUGS = ("tides", "lanterns")
AGENT, GRADER = "claude-sonnet-5-5", "claude-haiku-5-5"
N_CASES = 4
N_CELLS = 2 * N_CASES * 2 * 2  # skills, cases, conditions, repeats
N_TRIES = 4  # of a call
FAST = {"max_retries": N_TRIES - 1}
LINES = {
    "tides": "A tidemark is drawn once above the highest recorded water line. ",
    "lanterns": "A lantern is passed upwards until a hand holds it. ",
}


def only_the_fake_key(monkeypatch, folder):
    """Make an environment whose one key is the fake one, and in which a client is made quickly."""
    for name in ("AUTH_TOKEN", "PROFILE", "BASE_URL", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)  # goes before the folder below
    for sdk in ("anthropic", "openai"):
        monkeypatch.setattr(f"{sdk}._base_client.INITIAL_RETRY_DELAY", 0.005)  # seconds
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    # reading the list of authorities takes 50 ms a client; the loopback service needs none
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))


def call(monkeypatch, capture, *arguments):
    """Run a command in this process; return exit status, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["skillcomp", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capture.readouterr()
    logging.getLogger("skillcomp.tests").warning(err)  # pytest shows it if the test fails
    return ended.value.code or 0, out, err


def until(condition, seconds=120):
    """Wait until something holds."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds
        time.sleep(0.02)


def skill_text(slug, n=120):
    return f"---\nname: {slug}\ndescription: About {slug}.\n---\n# {slug}\n\n{LINES[slug] * n}\n"


def suite_json(slug, n_cases=N_CASES, gold=False):
    behaviours = [
        {"id": "names_practice", "kind": "positive", "description": "Names a practice."},
        {"id": "no_verbatim_span", "kind": "negative", "description": "Copies nothing."},
    ]
    evals = [
        {
            "id": i,
            "prompt": f"Question {i} about {slug}: what decides?",
            "comprehension_dimension": f"C{i % 9 + 1}",
            "expected_behaviors": behaviours,
        }
        for i in range(1, n_cases + 1)
    ]
    if gold:
        labels = {"names_practice": True, "no_verbatim_span": True}
        evals[0]["gold_answers"] = [{"id": "good", "answer": "It is a practice.", "labels": labels}]
    return {"skill_name": slug, "evals": evals}


def make_files(folder: Path, *, n_cases=N_CASES, gold=False):
    for slug in SLUGS:
        file = folder / "skills" / slug / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(skill_text(slug))
        suite = folder / "suites" / f"{slug}.json"
        suite.parent.mkdir(exist_ok=True)
        suite.write_text(json.dumps(suite_json(slug, n_cases, gold)))


def make_store(folder: Path, **options) -> RunStore:
    make_files(folder / "files", **options)
    store = RunStore(folder / "study")
    for slug in SLUGS:
        store.add_skill(folder / "files" / "skills" / slug)
        store.add_suite(folder / "files" / "suites" / f"{slug}.json")
    return store


def agent(url, **more):
    return AnthropicAgent(AGENT, **{"base_url": url, "max_tokens": 500, **FAST, **more})


def grader(url, style="forced", **more):
    model = AnthropicAgent(GRADER, base_url=url, max_tokens=2000, **FAST)
    return ComprehensionGrader(model, style=style, **more)


def run(store, server, **more):
    """Run the study twice over."""
    return sc.run(store, **{"agents": [agent(server.url)], "repeats": 2, "progress": False, **more})


def grade(store, server, **more):
    """Grade the study without the warning about a grader of the agent's family."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*of one family", category=GraderWarning)
        return sc.grade(store, **{"graders": [grader(server.url)], "progress": False, **more})


def ask(agent, prompt="What?", **options):
    """Return the reply of an agent to one prompt, in a new event loop."""

    async def main():
        try:
            return await agent.ask(prompt, **options)
        finally:
            await agent.aclose()

    return asyncio.run(main())


def script(folder, body, name="agent"):
    """Write a program and return its command."""
    file = folder / name
    file.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    file.chmod(0o755)
    return [str(file)]


def lines(*events):
    """Return events as JSON Lines, the output of a program."""
    return "\n".join(json.dumps(event) for event in events)


def rows(store, table):
    return RunStore(store.path).table(table).to_pylist()


def ok_cells(store):
    """Count the ok attempts of each cell."""
    return Counter(
        (row["agent"], row["case_id"], row["condition"], row["repeat"])
        for row in rows(store, "attempts")
        if row["status"] == "ok"
    )


def graded(store):
    """Count the verdicts of each attempt, check, grader and round."""
    return Counter(
        (row["attempt_id"], row["check_id"], row["grader"], row["round"])
        for row in rows(store, "verdicts")
    )
