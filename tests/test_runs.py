"""Runs one after another: what changed, and a paired test of what it did."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

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
    common = {"skill": "tea", "condition": "skill", "offered": ("tea",)}
    common |= {"agent": f"claude:{model}", "agent_model": model}
    for i, passed in enumerate(PASSED[name]):
        about = {"attempt_id": str(i), "case_id": f"tea/{i}", "invoked": ("tea",) * passed}
        store.append("attempts", [Attempt(**common, **about)])
        verdict = {"attempt_id": str(i), "check_id": "trigger", "grader": "trace"}
        store.append("verdicts", [Verdict(**verdict, passed=bool(passed))])
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
    direct = ttest_1samp([0, 0, 1, 1, 1, 0], 0)
    assert delta.loc["reworded", "estimate"] == pytest.approx(0.5)
    assert delta.loc["reworded", "p_value"] == pytest.approx(direct.pvalue)
    assert delta["changed"].tolist() == ["", ", ".join(CHANGED)]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda rows: rows.assign(condition=["baseline", "skill"] * 9),
            {},
            "the conditions baseline, skill; select one",
        ),
        (lambda rows: rows, {"by": "run"}, "by= names 'run', which is compared"),
        (lambda rows: rows.assign(agent=["a", "b"] * 9), {}, "of more than one agent: a, b"),
    ],
)
def test_what_cannot_be_compared_over_time_is_refused(stores, change, options, message) -> None:
    with pytest.raises(FrameError, match=message):
        sc.deltas.over_time(change(outcomes_of(stores)), **options)


def test_runs_with_different_checks_are_refused_or_noted(stores: dict[str, sc.RunStore]) -> None:
    outcomes = outcomes_of(stores).assign(checks_differ=True)
    # checks that differ between conditions say nothing of two runs of one condition
    assert len(sc.deltas.over_time(outcomes)) == 5
    more = outcomes["run"].eq("again")
    message = r"6 of 6 cases have another number of checks for the run 'again'.*tea/0' \(1 and 2\)"
    with pytest.raises(FrameError, match=message):
        sc.deltas.over_time(outcomes.assign(n_checks=more.astype("Int64") + 1))
    few = outcomes.assign(n_checks=(more & outcomes["case_id"].eq("tea/3")).astype("Int64") + 1)
    notes = sc.deltas.over_time(few).set_index(["run", "measure"])["note"]
    assert "1 of 6 cases have another number" in notes["again", "delta_passed"]
