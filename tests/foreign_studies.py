"""Studies that are not the recorded pilot: every chapter has to run on each of them.

``study(name, folder)`` writes one below a folder.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skillcomp as sc
from skillcomp import cli

ROOT = Path(__file__).resolve().parent.parent
PILOT = ROOT / "data" / "pilot"
SLUGS = sorted(folder.name for folder in (PILOT / "skills").iterdir())
NEW_NAMES: Mapping[str, str] = {
    **{slug: f"s-{letter}" for slug, letter in zip(SLUGS, "abcdef", strict=True)},
    **{"g0": "old", "g1": "mid", "g2": "new", "skill": "v2", "placebo": "v3"},
    **{"adjudicated": "adjudicated", "labeller-1": "ann", "labeller-2": "bo"},
}
_NAMED = ("skill", "condition", "loaded_skill", "grader", "labeller")
_IDS = ("attempt_id", "case_id", "source_attempt_id", "first", "second", "winner", "sitting")

# For every parameter of a chapter, a value that a user would choose; by chapter where it matters.
# LIVE and STORE are tested with a service that answers (test_notebooks).
OTHER_VALUES: dict[str, object] = {
    "BUDGET": 2.0,
    "COMPARE_WITH": "placebo",
    "CONDITION": "vague",
    "DELTA": 0.2,
    "EXCLUDE": "copies",
    "GAP": 0.3,
    "GRADER": "g1",
    "GRADER_MODEL": "claude-haiku-5-5",
    "MARGIN": 0.3,
    "MAX_FALSE_FLAGS": 0.1,
    "MODEL": "claude-opus-5-5",
    "N_SKILLS": 12,
    "PASSAGES": str(ROOT / "data" / "corpus" / "copies_second.jsonl"),
    "POWER": 0.9,
    "REFERENCE": "g1",
    "REPEATS": 3,
    "ROUND": 1,
    "SEED": 7,
    "SKILLS": SLUGS[:2],
}
OF_CHAPTER: dict[str, dict[str, object]] = {
    "05": {"GRADER": "g0", "ROUND": 2},
    "07": {"GRADER": "g2"},
    "09": {"GRADER": "suite", "N_SKILLS": [5, 20]},
    "10": {"GRADER": None, "COMPARE_WITH": "precise"},
}


def other_values(chapter: str) -> dict[str, object]:
    """Return other values of the parameters of a chapter, such as "05-grader-drift"."""
    return OTHER_VALUES | OF_CHAPTER.get(chapter[:2], {})


def renamed(folder: Path) -> Path:
    """Write the pilot with other names of its graders, skills, labellers and conditions."""
    store = sc.RunStore(folder / "renamed")
    store.annotate(created="2026-11-21")
    for slug in SLUGS:
        new = NEW_NAMES[slug]
        place = folder / "sources" / new
        place.mkdir(parents=True)
        text = (PILOT / "skills" / slug / "SKILL.md").read_text("utf-8")
        (place / "SKILL.md").write_text(text.replace(slug, new), encoding="utf-8")
        store.add_skill(place)
        suite = (PILOT / "suites" / f"{slug}.json").read_text("utf-8").replace(slug, new)
        (place / f"{new}.json").write_text(suite, encoding="utf-8")
        store.add_suite(place / f"{new}.json")
    for table in ("attempts", "verdicts", "gold", "pairwise"):
        lines = (PILOT / f"{table}.jsonl").read_text("utf-8").splitlines()
        store.append(table, [_renamed_row(json.loads(line)) for line in lines])
    return store.path


def _renamed_row(row: dict[str, object]) -> dict[str, object]:
    names = {key: NEW_NAMES.get(str(row[key]), row[key]) for key in _NAMED if row.get(key)}
    ids = {key: _renamed_id(str(row[key])) for key in _IDS if row.get(key)}
    return row | names | ids


def _renamed_id(text: str) -> str:
    return "/".join(NEW_NAMES.get(part, part) for part in text.split("/"))


def saved(folder: Path) -> Path:
    """Write a researcher's table of single verdicts, without prompts, answers and SKILL.md."""
    store = sc.RunStore(PILOT)
    facts = sc.frames.cases(store)[["skill", "case_id", "transfer", "comprehension_dimension"]]
    rows = sc.frames.verdicts(store).merge(facts, on=["skill", "case_id"])
    labels = sc.frames.gold(store)[["attempt_id", "check_id", "passed"]]
    rows = rows.merge(labels, on=["attempt_id", "check_id"], how="left", suffixes=("", "_gold"))
    rows = rows[rows["skill"].isin(SLUGS[:3])].astype({"passed": "object", "grader": "object"})
    rows = rows.replace({"condition": {"baseline": "plain", "skill": "doc", "placebo": "other"}})
    rows = rows.replace({"grader": {"g0": "loose", "g1": "exact", "g2": "strict"}})
    rows["passed"] = rows["passed"].map({True: "yes", False: "no"}).fillna("n/a")
    own = sc.from_frame(
        rows.assign(skill=rows["skill"].str[:4]),
        **{name: name for name in ("skill", "condition", "passed", "repeat", "grader", "agent")},
        case="case_id",
        check="check_id",
        check_kind="check_kind",
        dimension="comprehension_dimension",
        transfer="transfer",
        gold="passed_gold",
        words={"condition": {"plain": "baseline", "doc": "skill", "other": "placebo"}},
    )
    return own.save(folder / "saved")


def init(folder: Path) -> Path:
    """Make the study of ``skillcomp init`` and take its recorded answers and verdicts."""
    _call("init", folder / "init")
    for command in ("run", "grade"):
        _call(command, folder / "init" / "study.yaml")
    return folder / "init" / "study"


def _call(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["skillcomp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert not ended.value.code


def graders(folder: Path) -> Path:
    """Write a table of two graders with labels of a person, and no conditions."""
    rng = np.random.default_rng(5)
    right = rng.random(60) < 0.6
    rows = pd.DataFrame(
        {
            "item": [f"q{at}" for at in range(60)] * 2,
            "judge": ["first"] * 60 + ["second"] * 60,
            "verdict": np.concatenate([right ^ (rng.random(60) < p) for p in (0.1, 0.25)]),
            "label": np.tile(np.where(np.arange(60) < 50, right, None), 2),
        }
    )
    roles = {"case": "item", "passed": "verdict", "grader": "judge", "gold": "label"}
    own = sc.from_frame(rows, skill=None, condition=None, **roles)
    return own.save(folder / "graders")


def two_agents(folder: Path) -> Path:
    """Write a table in which two agents answer the same cases, with answers and costs."""
    rng = np.random.default_rng(6)
    levels = {
        "skill": ["tea", "tide"],
        "case": [f"c{at}" for at in range(12)],
        "condition": ["baseline", "skill"],
        "agent": ["small", "large"],
        "repeat": [1, 2],
    }
    rows = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    rate = 0.3 + 0.3 * rows["condition"].eq("skill") + 0.2 * rows["agent"].eq("large")
    rows["passed"] = rng.random(len(rows)) < rate
    rows["transfer"] = np.where(rows["case"].str[1:].astype(int) % 2, "near", "far")
    rows["prompt"] = "Why " + rows["skill"] + " " + rows["case"] + "?"
    words = ["it", "is", "steeped", "at", "ninety", "degrees", "since", "leaves", "open"]
    rows["answer"] = [" ".join(rng.choice(words, 30)) for _ in range(len(rows))]
    rows["cost_usd"] = rng.uniform(0.01, 0.02, len(rows))
    rows["seconds"] = rng.uniform(5, 20, len(rows))
    names = ("repeat", "agent", "transfer", "prompt", "answer", "cost_usd", "seconds")
    return sc.from_frame(rows, **{name: name for name in names}).save(folder / "two_agents")


STUDIES: Mapping[str, Callable[[Path], Path]] = {
    make.__name__: make for make in (renamed, saved, init, graders, two_agents)
}
NAMES = (*STUDIES, "other_values")


def study(name: str, folder: Path) -> Path:
    """Write a foreign study below a folder; return its store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        return STUDIES[name](folder)
