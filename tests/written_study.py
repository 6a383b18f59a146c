"""A simulated study written to disk as a researcher's own store."""

import json
from pathlib import Path

import pandas as pd

import skillcomp as sc
from benchmarks import simulated


def written(folder: Path, study: simulated.Study) -> Path:
    """Write skills, suites, attempts, verdicts and gold of a simulated study into a store."""
    store = sc.RunStore(folder / "study")
    for slug, skill in study.skills.items():
        (folder / slug).mkdir(parents=True)
        (folder / slug / "SKILL.md").write_text(skill.text, encoding="utf-8")
        store.add_skill(folder / slug)
        suite = {"skill_name": slug, "evals": suite_cases(study, slug)}
        (folder / f"{slug}.json").write_text(json.dumps(suite), encoding="utf-8")
        store.add_suite(folder / f"{slug}.json")
    attempts = study.attempts.drop(columns=["n_words", "started_at"])
    store.append("attempts", rows_of(attempts))
    drop = ["skill", "case_id", "condition", "repeat", "agent", "evidence_found", "graded_at"]
    store.append("verdicts", rows_of(study.verdicts.drop(columns=drop)))
    if len(study.gold):
        store.append("gold", rows_of(study.gold))
    return store.path


def suite_cases(study: simulated.Study, slug: str) -> list[dict[str, object]]:
    """Return the cases of a skill as a suite file holds them."""
    keep = ["prompt", "dimension", "comprehension_dimension", "concept_field", "transfer"]
    mine = study.cases[study.cases["skill"].eq(slug)]
    made = []
    for one in rows_of(mine):
        checks = study.checks[study.checks["case_id"].eq(one["case_id"])]
        behaviours = [
            {"id": c["check_id"], "kind": c["check_kind"], "description": "Does what is asked."}
            for c in rows_of(checks)
        ]
        case = {key: one[key] for key in keep if key in one}
        number = str(one["case_id"]).split("/")[1]
        made.append({"id": number, **case, "expected_behaviors": behaviours})
        if "contrast_of" in one:
            made[-1]["contrast_of"] = str(one["contrast_of"]).split("/")[-1]
    return made


def rows_of(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows as mappings without what is missing."""
    rows = frame.astype(object).to_dict("records")
    return [{str(k): v for k, v in one.items() if not pd.isna(v)} for one in rows]
