"""A small study of two skills for the tests of the runner, and what its store must show."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import fake_rules as rules
from fake_anthropic import KEY, FakeAnthropic

from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent
from skillcomp.live.graders.comprehension import ComprehensionGrader

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
    for sdk in ("anthropic", "openai"):
        monkeypatch.setattr(f"{sdk}._base_client.INITIAL_RETRY_DELAY", 0.005)  # seconds
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    # reading the list of authorities takes 50 ms a client; the loopback service needs none
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))


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
    asked = AnthropicAgent(GRADER, base_url=url, max_tokens=2000, **FAST)
    return ComprehensionGrader(asked, style=style, **more)


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


class Dated(FakeAnthropic):
    """Says when a batch was made, as the real service does, and can lose what it says.

    lose : numbers of the POSTs of batches whose answer is lost although the batch exists.
    """

    def __init__(self, *args, lose=(), refuse=(), **kw):
        super().__init__(*args, **kw)
        self.lose, self.refuse, self.n_posts = lose, refuse, 0

    def shown(self, batch):
        batch.setdefault("made", datetime.now(UTC).isoformat())
        return {**super().shown(batch), "created_at": batch["made"]}

    def _batch_route(self, method, path, target, body):
        if (method, path) != ("POST", "/v1/messages/batches"):
            return super()._batch_route(method, path, target, body)
        self.n_posts += 1
        if self.n_posts in self.refuse:
            raise rules.RefusedError(529, "overloaded_error", "Overloaded")
        found = super()._batch_route(method, path, target, body)
        return (*found[:3], "drop") if self.n_posts in self.lose else found
