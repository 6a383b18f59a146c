"""Every analysis says the same of the same data: other numbering of cases, other order, names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from analyses import invoked

import skillcomp as sc
from skillcomp.simulate import Grader

STRICT = Grader("judge", 0.9, 0.8, failure_rate=0.03, position_bias=0.5, rounds=2)
MILD = Grader("mild", 0.95, 0.6)
PLAIN = Grader("plain", 0.85, 0.85)


@dataclass(frozen=True)
class Data:
    """The frames of one study, and what its graders are called."""

    cases: pd.DataFrame
    checks: pd.DataFrame
    attempts: pd.DataFrame
    verdicts: pd.DataFrame
    copies: pd.DataFrame
    graded_copies: pd.DataFrame
    gold: pd.DataFrame
    pairwise: pd.DataFrame
    passages: pd.DataFrame
    invocations: pd.DataFrame
    skills: dict[str, Any]
    reference: str = "judge"

    @property
    def first(self) -> pd.DataFrame:
        return self.verdicts[self.verdicts["round"].eq(1)]

    @property
    def one(self) -> pd.DataFrame:
        return self.first[self.first["grader"].eq(self.reference)]

    @property
    def outcomes(self) -> pd.DataFrame:
        return sc.frames.outcomes(self.first, self.cases)

    @property
    def shared(self) -> pd.DataFrame:
        settings: dict[str, Any] = {"skills": self.skills, "ngram": [3, 6], "cases": self.cases}
        return sc.overlap.score(self.attempts, **settings)

    @property
    def everything(self) -> dict[str, pd.DataFrame]:
        there = {"attempts": [self.attempts, self.copies], "verdicts": [self.first]}
        there["verdicts"].append(self.graded_copies)
        return {name: pd.concat(parts, ignore_index=True) for name, parts in there.items()}


def frames_of(data: Data) -> dict[str, pd.DataFrame]:
    values = {one.name: getattr(data, one.name) for one in fields(data)}
    return {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}


@pytest.fixture(scope="module")
def unique() -> Data:
    made = sc.simulate.study(
        n_skills=3,
        n_cases=12,
        n_repeats=2,
        conditions=["baseline", "skill", "placebo"],
        contrast_pairs=2,
        checks_per_case=3,
        graders=[STRICT, MILD, PLAIN],
        labeller_error=0.1,
        copying=0.3,
        seed=3,
    )
    copies = sc.bias.perturb(made.attempts, kind="pad")
    return Data(
        made.cases,
        made.checks,
        made.attempts,
        made.verdicts,
        copies,
        sc.simulate.grade(made, MILD, attempts=copies, seed=7),
        pd.concat([made.gold, made.labels]).drop_duplicates(["attempt_id", "check_id", "labeller"]),
        made.pairwise,
        sc.simulate.passages(made.skills, topics=12, seed=1),
        invoked(made.attempts, made.cases.assign(should_trigger=made.cases.index % 3 > 0)),
        made.skills,
    )


def _mapped(data: Data, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Data:
    return replace(data, **{name: change(frame) for name, frame in frames_of(data).items()})


def numbered_alike(data: Data) -> Data:
    """Number the cases of every skill from 1, as suites do."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        names = [name for name in ("case_id", "contrast_of") if name in frame.columns]
        return frame.assign(**{name: frame[name].str.split("/").str[-1] for name in names})

    return _mapped(data, change)


def shuffled(data: Data) -> Data:
    return _mapped(data, lambda frame: frame.sample(frac=1, random_state=8).reset_index(drop=True))


def renamed(data: Data) -> Data:
    """Give skills, cases and graders names that sort as the old ones do."""
    names = ["skill", "case_id", "contrast_of", "grader", "loaded_skill", "offered"]

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        there = [name for name in names if name in frame.columns]
        return frame.assign(**{name: "new-" + frame[name].astype("str") for name in there})

    skills = {f"new-{name}": skill.text for name, skill in data.skills.items()}
    return replace(_mapped(data, change), skills=skills, reference=f"new-{data.reference}")


def both_numbered_alike_and_shuffled(data: Data) -> Data:
    return shuffled(numbered_alike(data))


CHANGES = [numbered_alike, shuffled, renamed, both_numbered_alike_and_shuffled]
FEW: dict[str, Any] = {"n_resamples": 99}


def integrity(d: Data) -> pd.DataFrame:
    return sc.reliability.integrity(d.first, d.attempts, d.checks, shared=d.shared)


def modes(d: Data) -> pd.DataFrame:
    return sc.reliability.failure_modes(d.first, d.attempts, d.shared, d.cases)


def batches(d: Data) -> pd.DataFrame:
    gold = d.gold[d.gold["labeller"].eq("adjudicated")]
    conditions = ["baseline", "skill", "placebo"]
    return sc.reliability.join_labels([gold], d.attempts, d.cases, conditions=conditions)


def crossed(d: Data) -> pd.DataFrame:
    """The four documents of an experiment: what two graders say of two conditions."""
    kept = d.outcomes[d.outcomes["condition"].isin(["skill", "placebo"])]
    strict = kept["grader"].eq(d.reference)
    form = pd.Series(np.where(strict, " strict", " mild"), kept.index)
    one = {"grader": "one", "grader_version": "1", "attempt_id": kept["attempt_id"] + form}
    kept = kept.assign(condition=kept["condition"] + form, **one)
    return kept[strict | d.outcomes["grader"].loc[kept.index].str.endswith("mild")]


DESIGN = [
    {"condition": f"{content} {form}", "content": content, "form": form}
    for content in ("skill", "placebo")
    for form in ("strict", "mild")
]
BY = ["grader"]
ANALYSES: dict[str, Callable[[Data], pd.DataFrame]] = {
    "outcomes with cases": lambda d: d.outcomes,
    "outcomes without cases": lambda d: sc.frames.outcomes(d.first),
    "deltas.paired": lambda d: sc.deltas.paired(d.outcomes, by=BY),
    "deltas.paired of shares": lambda d: sc.deltas.paired(d.outcomes, by=BY, value="share_passed"),
    "deltas.paired by skill": lambda d: sc.deltas.paired(d.outcomes, by=[*BY, "skill"]),
    "deltas.paired over skills": lambda d: sc.deltas.paired(d.outcomes, by=BY, cluster="skill"),
    "deltas.by_dimension": lambda d: sc.deltas.by_dimension(d.outcomes, by=BY),
    "deltas.over_time": lambda d: sc.deltas.over_time(
        d.outcomes[d.outcomes["condition"].eq("skill")]
        .assign(run="run " + d.outcomes["repeat"].astype("str"))
        .sort_values("run", kind="stable"),
        by=BY,
    ),
    "deltas.rates": lambda d: sc.deltas.rates(d.outcomes, by=BY),
    "deltas.rates of shares": lambda d: sc.deltas.rates(d.outcomes, by=BY, value="share_passed"),
    "deltas.pass_at_k": lambda d: sc.deltas.pass_at_k(known(d), k=2, by=BY),
    "deltas.pass_hat_k": lambda d: sc.deltas.pass_hat_k(known(d), k=2, by=BY),
    "transfer.rates": lambda d: sc.transfer.rates(d.outcomes, by=BY),
    "transfer.gap": lambda d: sc.transfer.gap(d.outcomes, by=BY),
    "transfer.gap of shares": lambda d: sc.transfer.gap(d.outcomes, by=BY, value="share_passed"),
    "transfer.contrast": lambda d: sc.transfer.contrast(d.outcomes, by=BY),
    "skillverdicts.decide": lambda d: sc.skillverdicts.decide(d.outcomes, by=BY),
    "skillverdicts.cases": lambda d: sc.skillverdicts.cases(d.outcomes, by=BY),
    "skillverdicts.dimensions": lambda d: sc.skillverdicts.dimensions(d.outcomes, by=BY),
    "skillverdicts.aggregate": lambda d: sc.skillverdicts.aggregate(
        sc.skillverdicts.dimensions(d.outcomes, by=BY), by=BY
    ),
    "structure.score_by_document": lambda d: sc.structure.score_by_document(
        d.outcomes, d.skills, attempts=d.attempts, by=BY, features=["total", "words"]
    ),
    "structure.score_association": lambda d: sc.structure.score_association(
        d.outcomes, d.skills, by=BY
    ),
    "structure.factorial": lambda d: sc.structure.factorial(crossed(d), DESIGN, reference=None),
    "structure.factorial over skills": lambda d: sc.structure.factorial(
        crossed(d), DESIGN, reference=None, cluster="skill"
    ),
    "reliability.agreement": lambda d: sc.reliability.agreement(d.first, d.gold, **FEW),
    "reliability.agreement with twins": lambda d: sc.reliability.agreement(
        d.first, d.gold, cases=d.cases, **FEW
    ),
    "reliability.consistency": lambda d: sc.reliability.consistency(
        d.verdicts, cases=d.cases, **FEW
    ),
    "reliability.flip_rates": lambda d: sc.reliability.flip_rates(d.verdicts),
    "reliability.drift": lambda d: sc.reliability.drift(
        d.first, d.gold, reference_grader=d.reference, cases=d.cases, **FEW
    ),
    "reliability.drift without twins": lambda d: sc.reliability.drift(
        d.first, d.gold, reference_grader=d.reference, **FEW
    ),
    "reliability.flipped": lambda d: sc.reliability.flipped(
        d.first, d.gold, reference_grader=d.reference
    ),
    "reliability.flip_counts": lambda d: sc.reliability.flip_counts(
        d.first, d.gold, reference_grader=d.reference
    ),
    "reliability.integrity": integrity,
    "reliability.integrity_rates": lambda d: sc.reliability.integrity_rates(integrity(d)),
    "reliability.integrity_rates with twins": lambda d: sc.reliability.integrity_rates(
        integrity(d), cases=d.cases
    ),
    "reliability.failure_modes": modes,
    "reliability.failure_mode_rates": lambda d: sc.reliability.failure_mode_rates(
        modes(d), by=BY, cases=d.cases
    ),
    "reliability.join_labels": batches,
    "correction.rate": lambda d: sc.correction.rate(d.first, d.gold, by=BY, cases=d.cases),
    "correction.delta": lambda d: sc.correction.delta(d.first, d.gold, by=BY),
    "correction.delta with twins": lambda d: sc.correction.delta(
        d.first, d.gold, by=BY, cases=d.cases
    ),
    "correction.delta of attempts": lambda d: sc.correction.delta(
        d.first, d.gold, by=BY, value="passed"
    ),
    "correction.differential": lambda d: sc.correction.differential(d.first, d.gold, by=BY),
    "bias.audit": lambda d: sc.bias.audit(
        **d.everything, gold=d.gold, by=BY, pairwise=d.pairwise, cases=d.cases
    ),
    "bias.perturbed": lambda d: sc.bias.perturbed(**d.everything, by=BY, cases=d.cases),
    "bias.position": lambda d: sc.bias.position(d.pairwise, by=BY),
    "bias.position with twins": lambda d: sc.bias.position(d.pairwise, by=BY, cases=d.cases),
    "bias.position_change": lambda d: sc.bias.position_change(
        d.pairwise, reference_grader=d.reference, cases=d.cases
    ),
    "bias.features": lambda d: sc.bias.features(d.attempts),
    "overlap.score": lambda d: d.shared,
    "overlap.calibrate": lambda d: sc.overlap.calibrate(
        d.shared, d.attempts, passages=d.passages, skills=d.skills, n_resamples=50
    ),
    "triggers.detection": lambda d: sc.triggers.detection(d.invocations, d.cases),
    "triggers.detection by skill": lambda d: sc.triggers.detection(
        d.invocations, d.cases, by=["offered"]
    ),
    "triggers.confusion": lambda d: sc.triggers.confusion(d.invocations, d.cases),
    "triggers.compare": lambda d: sc.triggers.compare(d.invocations, d.cases, reference="baseline"),
    "triggers.goals": lambda d: sc.triggers.goals(d.first, d.cases, by=BY),
    "planning.variance_components": lambda d: sc.planning.variance_components(d.outcomes, by=BY),
    "planning.gold_needed": lambda d: sc.planning.gold_needed(d.one, d.gold, n_resamples=50),
}


def known(data: Data) -> pd.DataFrame:
    """Return the outcomes of graders that never failed, so that each case has its repeats."""
    outcomes = data.outcomes
    return outcomes[outcomes["grader"].ne(data.reference)]


def plain(found: pd.DataFrame) -> pd.DataFrame:
    """Undo the names and the order of a result, and leave out what only says them."""
    texts = [name for name in found.columns if isinstance(found[name].dtype, pd.StringDtype)]
    result = found.drop(columns=["note", "method", "reason"], errors="ignore")
    for name in [name for name in texts if name in result.columns]:
        result[name] = result[name].str.replace("new-", "", regex=False).astype("object")
    for name in [name for name in ("case_id", "contrast_of") if name in result.columns]:
        result[name] = result[name].str.split("/").str[-1]
    keys = [name for name in result.columns if result[name].dtype == object]
    keys += [name for name in ("n", "repeat", "round", "k", "cut") if name in result.columns]
    keys += [name for name in ("old", "new") if name in result.columns]
    return result.sort_values(keys, ignore_index=True)


@pytest.fixture(scope="module")
def before(unique: Data) -> dict[str, pd.DataFrame]:
    return {}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", ANALYSES)
def test_numbers_do_not_depend_on_numbering_order_or_names(
    name: str,
    change: Callable[[Data], Data],
    unique: Data,
    before: dict[str, pd.DataFrame],
) -> None:
    if name not in before:
        before[name] = plain(ANALYSES[name](unique))
    after = plain(ANALYSES[name](change(unique)))
    assert len(after)
    pd.testing.assert_frame_equal(after, before[name], rtol=1e-6, atol=1e-9)


def test_cases_numbered_alike_in_three_skills_are_36_clusters(unique: Data) -> None:
    outcomes = numbered_alike(replace(unique, cases=unique.cases.assign(contrast_of=None))).outcomes
    rows = sc.deltas.paired(outcomes[outcomes["grader"].eq("mild")])
    assert rows["n"].eq(36).all() and rows["n_clusters"].eq(36).all()


def test_outcomes_without_cases_count_the_checks_of_each_skill_alone() -> None:
    verdicts = pd.DataFrame(
        {
            "attempt_id": ["a", "b"],
            "skill": ["s", "t"],
            "case_id": "1",
            "condition": "skill",
            "check_id": ["x", "y"],
            "grader": "g",
            "passed": True,
        }
    )
    outcomes = sc.frames.outcomes(verdicts)
    assert outcomes["n_checks"].tolist() == [1, 1]
    assert outcomes["passed"].tolist() == [True, True]
    assert np.allclose(sc.deltas.rates(outcomes)["estimate"], 1.0)
