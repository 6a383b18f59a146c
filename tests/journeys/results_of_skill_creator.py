"""A result folder of skill-creator becomes a page: docs/results/skill-creator."""

import json
from pathlib import Path

import skillcomp as sc

for number in range(16):
    folder = Path(f"my-skill-workspace/iteration-1/eval-{number}")
    for arm in ("with_skill", "without_skill"):
        for run in (1, 2):
            place = folder / arm / f"run-{run}"
            place.mkdir(parents=True)
            good = arm == "with_skill" or (number + run) % 4 == 0
            pairs = {"states the rule": True, "names the limit": good}
            expectations = [
                {"text": text, "passed": passed, "evidence": "seen"}
                for text, passed in pairs.items()
            ]
            (place / "grading.json").write_text(json.dumps({"expectations": expectations}))
    about = {"eval_id": number, "eval_name": f"eval {number}", "prompt": f"Question {number}?"}
    (folder / "eval_metadata.json").write_text(json.dumps(about))

own = sc.read_results(
    "my-skill-workspace",
    agent="claude-code",
    agent_model="claude-sonnet-5-5",
    grader_model="claude-opus-5-5",
)
delta = sc.deltas.paired(own.outcomes, by=["skill"])
verdicts = sc.skillverdicts.decide(own.outcomes)
assert delta["n"].tolist() == [16] and len(own.attempts) == 64
assert delta["estimate"].tolist() == [0.75]  # one run in four passes without the skill
assert verdicts["verdict"].tolist() == ["teaching"]
sc.plots.estimates(delta, y="skill", null=0)
sc.report.build(own, "page")
page = " ".join(Path("page/index.html").read_text(encoding="utf-8").split())
assert "+75 points" in page and "16 cases, 64 attempts" in page
