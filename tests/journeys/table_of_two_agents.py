"""A table with two agents and a column of repeats becomes a page: README, my-table, two-models."""

import random
from pathlib import Path

import pandas as pd

import skillcomp as sc

random.seed(3)
rows = [
    (f"task {task}", setup, model, run, random.random() < rate)
    for task in range(12)
    for model in ("small", "large")
    for setup, rate in (("plain", 0.2), ("v2", 0.9))
    for run in (1, 2)
]
table = pd.DataFrame(rows, columns=["task", "setup", "model", "run", "solved"])
own = sc.from_frame(
    table,
    skill=None,
    case="task",
    condition="setup",
    passed="solved",
    agent="model",
    repeat="run",
    words={"condition": {"plain": "baseline", "v2": "skill"}},
)
delta = sc.deltas.paired(own.outcomes, by=["agent"])
rates = table.groupby(["model", "setup"])["solved"].mean().unstack()
by_hand = (rates["v2"] - rates["plain"])[delta["agent"].tolist()]
assert abs(delta["estimate"].to_numpy() - by_hand.to_numpy()).max() < 1e-9
helps_more = sc.deltas.contrast(own.outcomes, between="agent")
assert abs(helps_more["estimate"].abs().iloc[0] - abs(by_hand.iloc[0] - by_hand.iloc[1])) < 1e-9
verdicts = sc.skillverdicts.decide(own.outcomes, by=["skill", "agent"])
assert verdicts["verdict"].eq("teaching").all()
sc.report.build(own, "page")
page = " ".join(Path("page/index.html").read_text(encoding="utf-8").split())
for row in delta.itertuples():
    assert f"{100 * row.estimate:+.0f} points [{100 * row.ci_low:.0f}, " in page
assert len(table) == 96 and "12 cases, 96 attempts" in page
