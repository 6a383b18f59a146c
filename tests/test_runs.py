"""Runs one after another: what changed, and a paired test of what it did."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.records import Attempt, Verdict

PASSED = {"first": [1, 1, 0, 0, 0, 0], "again": [1, 1, 0, 0, 0, 0], "reworded": [1, 1, 1, 1, 1, 0]}


# a program has the name of its model, as `skillcomp trigger` gives it
CHANGED = ("text of tea", "description of tea", "agent", "model")


def store_of(folder: Path, name: str, text: str, model: str = "m-1") -> sc.RunStore:
    """A trigger run as the harness leaves it: a store of its own, skills, prompts and verdicts."""
    skill = folder / name / "skills" / "tea" / "SKILL.md"
    suite = folder / name / "evals" / "skills" / "tea" / "prompts.csv"
    for file in (skill, suite):
        file.parent.mkdir(parents=True)
    skill.write_text(f"---\nname: tea\ndescription: {text}\n---\n# Tea\n")
    rows = "".join(f"{i},true,Prompt {i}\n" for i in range(6))
    suite.write_text(f"id,should_trigger,prompt\n{rows}")
    store = sc.RunStore(folder / name / "store")
    store.add_skill(skill)
    store.add_suite(suite)
    for i, passed in enumerate(PASSED[name]):
        about = {"attempt_id": str(i), "agent": f"claude:{model}", "agent_model": model}
        about |= {"offered": ("tea",), "invoked": ("tea",) * passed}
        one = Attempt(skill="tea", case_id=f"tea/{i}", condition="skill", **about)
        store.append("attempts", [one])
        verdict = Verdict(
            attempt_id=str(i), check_id="trigger", grader="trace", passed=bool(passed)
        )
        store.append("verdicts", [verdict])
    return store


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, sc.RunStore]:
    return {
        "first": store_of(tmp_path, "first", "Brews."),
        "again": store_of(tmp_path, "again", "Brews."),
        "reworded": store_of(tmp_path, "reworded", "Use it to brew tea.", model="m-2"),
    }


def outcomes_of(stores: dict[str, sc.RunStore]) -> pd.DataFrame:
    frames = {name: sc.frames.outcomes(sc.frames.verdicts(one)) for name, one in stores.items()}
    return pd.concat([one.assign(run=name) for name, one in frames.items()], ignore_index=True)


def test_what_changed_between_runs_is_named(stores: dict[str, sc.RunStore]) -> None:
    made = sc.frames.runs(stores)
    changed = made[made["changed"]].groupby("run")["what"].agg(list).to_dict()
    assert changed == {"reworded": [*CHANGED]}
    whats = set(made["what"])
    assert {"prompts of tea", "skills on offer", "agent", "grader trace"} <= whats
    nothing = stores["first"].path.parent / "nothing"
    nothing.mkdir()
    less = sc.frames.runs({"first": stores["first"], "none": sc.RunStore(nothing)})
    assert less.loc[less["run"].eq("none"), "value"].isna().all()
    assert less.loc[less["run"].eq("none"), "changed"].all()


def test_runs_stand_in_order_with_paired_tests_and_the_same_again_shows_no_difference(
    stores: dict[str, sc.RunStore],
) -> None:
    outcomes = outcomes_of(stores)
    found = sc.deltas.over_time(outcomes, sc.frames.runs(stores), by=["skill"])
    assert found["run"].tolist() == ["first", "again", "again", "reworded", "reworded"]
    rates = found[found["measure"].eq("rate_passed")].set_index("run")["estimate"]
    assert rates.to_dict() == pytest.approx({"first": 1 / 3, "again": 1 / 3, "reworded": 5 / 6})
    delta = found[found["measure"].eq("delta_passed")].set_index("run")
    assert delta.loc["again", ["estimate", "p_value", "reference"]].tolist() == [0, 1, "first"]
    assert delta.loc["again", "ci_low"] < -0.2 < 0.2 < delta.loc["again", "ci_high"]
    direct = sc.stats.bounded_mean([0, 0, 1, 1, 1, 0], quantity=sc.stats.DELTAS, null=0.0)
    assert delta.loc["reworded", "estimate"] == pytest.approx(0.5)
    assert delta.loc["reworded", "p_value"] == pytest.approx(direct.p_value)
    assert delta["changed"].tolist() == ["", ", ".join(CHANGED)]


def test_runs_are_drawn_in_one_figure(stores: dict[str, sc.RunStore]) -> None:
    found = sc.deltas.over_time(outcomes_of(stores), sc.frames.runs(stores))
    _, (left, right) = sc.style.figure("page", ncols=2)
    sc.plots.estimates(found[found["measure"].eq("rate_passed")], y="run", null=None, ax=left)
    steps = found[found["measure"].eq("delta_passed")]
    sc.plots.estimates(
        steps.assign(step=steps["run"] + ": " + steps["changed"]), y="step", ax=right
    )
    assert len(left.get_yticklabels()) == 3 and len(right.get_yticklabels()) == 2


def test_what_cannot_be_compared_over_time_is_refused(stores: dict[str, sc.RunStore]) -> None:
    outcomes = outcomes_of(stores)
    with pytest.raises(FrameError, match="no column 'run'"):
        sc.deltas.over_time(outcomes.drop(columns="run"))
    two = pd.concat([outcomes, outcomes.assign(condition="baseline", attempt_id="b")])
    with pytest.raises(FrameError):
        sc.deltas.over_time(two)
    half = outcomes.assign(condition=["baseline", "skill"] * 9)
    with pytest.raises(FrameError, match="the conditions baseline, skill; select one"):
        sc.deltas.over_time(half)
    with pytest.raises(FrameError, match="by= names 'run', which is compared"):
        sc.deltas.over_time(outcomes, by=["run"])
    mixed = outcomes.assign(agent=["a", "b"] * 9)
    with pytest.raises(FrameError, match="answers of more than one agent: a, b"):
        sc.deltas.over_time(mixed)
    unnamed = pd.DataFrame({"run": ["again"], "what": [None], "changed": [True]})
    assert sc.deltas.over_time(outcomes, unnamed)["changed"].eq("").all()
