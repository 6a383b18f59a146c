"""`skillcomp check --evals`: every rule alone, in a repository that is sound but for it."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from skillcomp.cli import main
from skillcomp.cli.terminal import github, sarif
from skillcomp.errors import StudyError
from skillcomp.io.store import RunStore
from skillcomp.lint import lint_path
from skillcomp.lint.lint_path import lint_places
from skillcomp.lint.lint_rules import RULES, finding, findings_frame
from skillcomp.lint.lint_skill import untestable_messages
from skillcomp.records import Skill

SKILL = """---
name: tea
description: Brews tea; use it for leaves. Do not use it for coffee.
---
# Tea

1. Boil.
2. Pour, see [times](references/times.md).

With `--dry-run` it names the steps without executing anything. Optional: `git clone a`.

## Definition of done

```bash
test -f cup
```
"""
HOME = "/" + "home"  # the house allows no path of a machine in its files
PROMPTS = """id,should_trigger,prompt
explicit-1,true,Use $tea for two cups
implicit-1,TRUE,How long does oolong steep?
negative-1,false,Grind these beans
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    put(tmp_path, "skills/tea/references/times.md", "Three minutes.")
    put(tmp_path, "evals/skills/tea/prompts.csv", PROMPTS)
    put(tmp_path, "artifacts/skills/old/SKILL.md", "none")
    put(tmp_path, ".hidden/tea/SKILL.md", SKILL)
    return tmp_path


def put(root: Path, name: str, text: str) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def rules(root: Path) -> list[str]:
    return lint_path(root, evals=True)["rule"].tolist()


def test_a_sound_repository_has_nothing_to_say_about(repository: Path) -> None:
    (linted,) = lint_places(repository, evals=True)
    assert linted.findings.empty
    assert linted.description == f"'{repository}': 1 skill, 3 prompts"


WITHOUT = {
    "done_none": ("## Definition of done", "## Cups"),
    "dry_run_none": ("With `--dry-run` it names the steps without executing anything. ", ""),
    "not_when_none": (" Do not use it for coffee.", ""),
    "download": ("Optional: `git clone a`.", "First: `git clone a`."),
    "unbounded": ("1. Boil.", "1. Do everything."),
    "machine_path": ("test -f cup", "test -f " + HOME + "/bob/cup"),
    "link_missing": ("references/times.md", "references/time.md"),
    "link_outside": ("references/times.md", "../../../times.md"),
    "reading": ("name: tea", "name: coffee"),
}


@pytest.mark.parametrize("rule", WITHOUT)
def test_a_skill_that_lacks_one_thing_has_one_finding(rule: str, repository: Path) -> None:
    old, new = WITHOUT[rule]
    assert old in SKILL
    file = put(repository, "skills/tea/SKILL.md", SKILL.replace(old, new))
    (row,) = lint_path(repository, evals=True).itertuples()
    assert (row.rule, row.severity, row.file) == (rule, RULES[rule][0], str(file))


@pytest.mark.parametrize("name", ["a" * 300 + ".md", "a\0b.md"])
def test_a_link_to_what_no_file_can_be_called_leads_nowhere(name: str, repository: Path) -> None:
    put(repository, "skills/tea/SKILL.md", SKILL.replace("references/times.md", name))
    assert rules(repository) == ["link_missing"]


def test_a_link_may_be_percent_encoded(repository: Path) -> None:
    put(repository, "skills/tea/my notes.md", "Hot.")
    file = put(
        repository, "skills/tea/SKILL.md", SKILL.replace("references/times.md", "my%20notes.md")
    )
    assert rules(repository) == []
    file.write_text(SKILL.replace("references/times.md", "%2E%2E/../../times.md"))
    assert rules(repository) == ["link_outside"]


def test_a_long_list_of_steps_is_no_bounded_workflow(repository: Path) -> None:
    steps = "\n".join(f"{n}. Step." for n in range(1, 20))
    put(repository, "skills/tea/SKILL.md", SKILL.replace("1. Boil.\n2.", f"{steps}\n20."))
    assert rules(repository) == ["unbounded"]


@pytest.mark.parametrize("kind", ["explicit", "implicit", "negative"])
def test_a_kind_of_prompt_that_is_missing_is_named(kind: str, repository: Path) -> None:
    kept = [line for line in PROMPTS.splitlines() if not line.startswith(kind)]
    put(repository, "evals/skills/tea/prompts.csv", "\n".join(kept) + "\n")
    found = lint_path(repository, evals=True)
    assert found["message"].tolist() == [f"no {kind} prompt among 2."]


def test_prompts_that_stand_twice_or_have_no_skill_are_told(repository: Path) -> None:
    put(repository, "evals/skills/tea/prompts.csv", f"{PROMPTS}again,true,use  $TEA for two cups\n")
    put(repository, "evals/skills/milk/prompts.csv", PROMPTS.replace("cups", "jugs"))
    assert rules(repository) == ["skill_none", "prompt_twice", "prompt_twice", "prompt_twice"]


def test_skills_of_one_slug_name_or_description_are_told(repository: Path) -> None:
    put(repository, "more/Tea/SKILL.md", SKILL.replace("references/times.md", "SKILL.md"))
    assert {"slug_twice", "description_twice"} <= set(rules(repository))
    other = SKILL.replace("name: tea", "name: green-tea").replace("references/times.md", "SKILL.md")
    put(repository, "more/Tea/SKILL.md", "none")
    put(repository, "more/green-tea/SKILL.md", other)
    messages = lint_path(repository, evals=True)["message"]
    assert any("there is no evals/skills/green-tea/prompts.csv" in one for one in messages)


def test_files_that_cannot_be_read_are_findings_and_no_end(repository: Path) -> None:
    (repository / "skills/tea/SKILL.md").write_bytes(b"\xff\xfe")
    put(repository, "evals/skills/tea/prompts.csv", "no,columns\n")
    assert rules(repository) == ["reading", "reading"]
    empty = repository / "empty"
    empty.mkdir()
    with pytest.raises(StudyError, match=r"there is no SKILL\.md and no evals"):
        lint_path(empty, evals=True)


def test_a_link_to_another_folder_is_not_followed(repository: Path, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "SKILL.md", SKILL)
    (repository / "skills" / "linked").mkdir()
    (repository / "skills/linked/SKILL.md").symlink_to(outside / "SKILL.md")
    (linted,) = lint_places(repository, evals=True)
    assert linted.description.endswith("1 skill, 3 prompts")


@pytest.mark.parametrize(
    "text", ["curl " * 60_000, "](a" * 90_000, '](a "' * 60_000, "# " * 90_000]
)
def test_a_hostile_body_is_read_in_seconds(text: str) -> None:
    began = time.monotonic()
    list(untestable_messages(Skill(slug="s", name="s", description="d", body=text, text=text)))
    assert time.monotonic() - began < 10


def test_strict_fails_on_warnings_and_formats_are_for_machines(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*args: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["skillcomp", "check", "--evals", *args, "."])
        with pytest.raises(SystemExit) as end:
            main()
            raise SystemExit(0)  # a command that returns has ended well
        return int(end.value.code or 0), capsys.readouterr().out

    monkeypatch.chdir(repository)
    put(
        repository,
        "skills/tea/SKILL.md",
        SKILL.replace("test -f cup", "test -f " + HOME + "/bob/cup"),
    )
    assert run()[0] == 0
    assert run("--strict")[0] == 1
    _, said = run("--format", "github")
    assert said.startswith("::warning file=skills/tea/SKILL.md,line=15,title=machine_path::line 15")
    _, said = run("--format", "sarif")
    log = json.loads(said)
    (result,) = log["runs"][0]["results"]
    assert log["version"] == "2.1.0" and result["level"] == "warning"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "skills/tea/SKILL.md"
    assert place["region"]["startLine"] == 15
    assert log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "machine_path"


def test_sarif_has_what_its_schema_asks_for_wherever_the_files_lie(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fields that SARIF 2.1.0 and code scanning require; not the whole schema."""
    put(repository, "skills/my tea/SKILL.md", SKILL.replace("--dry-run", "-n"))
    rows = 'a,true,"one\ntwo"\nb,line 99,"x"\nb,false,y\n'
    put(repository, "evals/skills/tea/prompts.csv", f"id,should_trigger,prompt\n{rows}")
    suite = put(repository, "suite.json", '{"skill_name": "tea", "evals": [{"id": 1}]}')

    def results(*args: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["skillcomp", "check", "--format", "sarif", *args])
        with pytest.raises(SystemExit):
            main()
        log = json.loads(capsys.readouterr().out)
        assert log["version"] == "2.1.0" and len(log["runs"]) == 1
        driver = log["runs"][0]["tool"]["driver"]
        assert driver["name"] and all(rule["id"] for rule in driver["rules"])
        for one in log["runs"][0]["results"]:
            assert one["message"]["text"] and one["level"] in ("none", "note", "warning", "error")
            assert driver["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
            (place,) = one["locations"]
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9._~/%:-]+", uri), uri
            assert place["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
        return list(log["runs"][0]["results"])

    def uris(found: list[dict[str, Any]]) -> set[str]:
        places = [one["locations"][0]["physicalLocation"] for one in found]
        return {place["artifactLocation"]["uri"] for place in places}

    monkeypatch.chdir(repository)
    found = results("--evals", ".")
    inside = {"skills/my%20tea/SKILL.md", "skills/tea/SKILL.md", "evals/skills/tea/prompts.csv"}
    assert uris(found) == inside
    (odd,) = (one for one in found if "line 99" in one["message"]["text"])
    assert odd["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    assert uris(results(str(suite))) == {"suite.json"}
    monkeypatch.chdir(repository / "artifacts")
    assert uris(results("--evals", "..")) == {
        (repository / one).as_uri() for one in map(unquote, inside)
    }


def test_what_a_file_says_cannot_begin_a_command_of_the_workflow() -> None:
    hostile = findings_frame([finding("reading", "x", "a\n::error::b 100%\r", file="a,b:c.md")])
    (line,) = github(hostile)
    assert "\n" not in line and "\r" not in line
    assert line.startswith("::error file=a%2Cb%3Ac.md,title=reading::a%0A::error::b 100%25%0D")
    assert json.loads(sarif(hostile))["runs"][0]["results"][0]["message"]["text"].startswith("a\n")
    assert json.loads(sarif(findings_frame([])))["runs"][0]["results"] == []


def test_the_copies_of_a_recorded_study_are_no_skills_of_the_repository(repository: Path) -> None:
    whole = lint_path(repository, evals=True)
    store = RunStore(repository / "study")
    store.add_skill(repository / "skills" / "tea")
    assert lint_path(repository, evals=True).equals(whole)
    put(repository, "app/manifest.json", '{"name": "a web page"}')
    put(repository, "app/skills/tea/SKILL.md", SKILL)
    assert not lint_path(repository, evals=True).equals(whole)
