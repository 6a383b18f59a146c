"""Verdicts of two judges, and the labels of two people in a second table: trusted-grader."""

import random
from pathlib import Path

import pandas as pd

import skillcomp as sc

random.seed(4)
right = {f"q{number}": random.random() < 0.6 for number in range(60)}
verdicts = pd.DataFrame(
    [
        (item, judge, good != (random.random() < error))
        for item, good in right.items()
        for judge, error in (("careful", 0.05), ("hasty", 0.45))
    ],
    columns=["item", "judge", "passed"],
)
labels = pd.DataFrame(
    [
        (item, person, good != (random.random() < 0.03))
        for item, good in right.items()
        for person in ("first person", "second person")
    ],
    columns=["item", "person", "passed"],
)
# where the two differ, they settle on the label of the first: the adjudicated labels are the gold
settled = labels[labels["person"].eq("first person")].assign(person="adjudicated")
own = sc.from_frame(
    verdicts,
    skill=None,
    case="item",
    condition=None,
    grader="judge",
    passed="passed",
    gold=pd.concat([labels, settled]),
    labeller="person",
)
assert own.gold["labeller"].nunique() == 3 and len(own.gold) == 180
agreement = sc.reliability.agreement(own.verdicts, own.gold)
raw = agreement[agreement["measure"].eq("raw_agreement")].set_index("grader")["estimate"]
both = verdicts.merge(settled, on="item")
by_hand = both["passed_x"].eq(both["passed_y"]).groupby(both["judge"]).mean()
assert abs(raw[by_hand.index] - by_hand).max() < 1e-9
differences = sc.reliability.contrast(own.verdicts, own.gold)
assert differences["p_value"].min() < 0.01
sc.plots.ranks(differences)
sc.report.build(own, "page")
page = " ".join(Path("page/index.html").read_text(encoding="utf-8").split())
for judge, share in raw.items():
    assert judge in page and f"{100 * share:.0f} %" in page
assert "180 gold labels" in page and "more than one labeller" not in page
