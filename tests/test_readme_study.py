"""The README's way from nothing to a delta: its own blocks, its own commands."""

import copy
import json
import re
import shlex
from functools import partial
from pathlib import Path

import live_study
import pytest
from fake_anthropic import KEY, FakeAnthropic

import skillcomp as sc
from skillcomp.live.study_file import read_study

README = Path(__file__).resolve().parent.parent / "README.md"
DOCS = README.parent / "docs"
SECTION = (DOCS / "own-skill.md").read_text(encoding="utf-8")
N_CASES = 8


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found.group(1)


def write_files(folder: Path) -> None:
    """Write the study as the README shows it; its one case stands for eight."""
    (folder / "study.yaml").write_text(block("yaml"), encoding="utf-8")
    suite = json.loads(block("json"))
    (pattern,) = suite["evals"]
    suite["evals"] = [copy.deepcopy(pattern) | {"id": i + 1} for i in range(N_CASES)]
    for case in suite["evals"]:
        case["prompt"] = f"Question {case['id']}: what decides?"
        case["transfer"] = "far" if case["id"] % 2 else "near"
    for file, text in (
        ("suites/my-skill.json", json.dumps(suite)),
        ("skills/my-skill/SKILL.md", live_study.skill_text("tides").replace("tides", "my-skill")),
    ):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(text, encoding="utf-8")


def test_the_least_suite_passes_check_as_it_stands_and_advice_says_what_a_sound_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    (tmp_path / "suites" / "my-skill.json").write_text(block("json"), encoding="utf-8")
    check = partial(live_study.call, monkeypatch, capfd, "check", tmp_path / "study.yaml")
    (status, plain, _), (status_advised, advised, _) = check(), check("--advice")
    assert status == status_advised == 0, plain
    assert not any(line.startswith(("error", "warning", " ")) for line in plain.splitlines())
    assert "(--advice shows them)" in plain
    assert "missing dimension, substance, calibration" in advised
    assert "no case for C2 (" in advised
    assert check("--strict")[0] == 1


def test_the_commands_of_the_page_on_your_own_skill_end_in_a_delta_with_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    live_study.only_the_fake_key(monkeypatch, tmp_path)
    write_files(tmp_path)
    study = read_study(tmp_path / "study.yaml")
    assert (study.repeats, study.conditions) == (2, ("baseline", "skill"))
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True) for line in block("bash").splitlines()]
    names = ["check", "check", "run", "run", "status", "grade", "answer"]
    assert sorted(words[1] for words in commands) == sorted(names)
    printed = ""
    with FakeAnthropic() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        for program, *words in commands:
            code, out, err = live_study.call(monkeypatch, capfd, *words)
            assert (program, code) == ("skillcomp", 0), err
            printed += out + err
    assert words[0] == "answer"
    assert re.search(rf"my-skill.*[+−0]\d* points \[−?\d+, [+−]?\d+\] on {N_CASES} cases", out)
    store = sc.RunStore(tmp_path / "study")
    assert len(sc.frames.attempts(store)) == N_CASES * 2 * 2
    kept = (file.read_text("utf-8", "replace") for file in store.path.rglob("*") if file.is_file())
    assert not any(KEY in text for text in (printed, *kept))


def test_the_readme_is_one_screen_and_every_picture_is_shown_and_small() -> None:
    text = README.read_text(encoding="utf-8")
    everything = text.replace("(docs/", "(") + (DOCS / "overview.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[([^\]]+)\]\((pictures/[\w-]+\.png)\)", everything)
    assert {DOCS / name for _, name in shown} == set((DOCS / "pictures").glob("*.png"))
    assert all((DOCS / name).stat().st_size < 250_000 for _, name in shown)
    assert all(len(words.split()) > 5 for words, _ in shown)
    assert text.index("docs/pictures/page.png") < text.index("docs/pictures/cases.png")
    assert len(text.split()) < 600  # one screen beside its pictures
