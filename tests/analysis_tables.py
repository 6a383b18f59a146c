"""The results of every analysis on the recorded studies and on three small ones, as csv files.

Usage: ``python tests/analysis_tables.py`` writes ``tests/analyses/<study>.<analysis>.csv`` anew.
``test_analysis_tables.py`` compares them with what the analyses return. A new analysis is one
line in a table below.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

import skillcomp as sc

FOLDER = Path(__file__).parent / "analyses"
Analysis = Callable[[SimpleNamespace], pd.DataFrame]
FEW = {"n_resamples": 199, "seed": 1}
MESSY = {
    **{"skill": "plugin", "case": "task", "condition": "setup", "repeat": "run"},
    **{"grader": "judge", "passed": "solved", "status": "ended", "gold": "by hand"},
    **{"seconds": "secs", "cost_usd": "usd", "missing": ["error"], "shared_cases": False},
    "words": {"condition": {"other doc": "placebo", "Other Doc": "placebo"}},
}


def recorded(name: str) -> SimpleNamespace:
    """Return the frames of a recorded study; ``one`` and ``graded`` are those of one grader."""
    store = sc.datasets.load(name)
    names = ("attempts", "cases", "checks", "gold", "pairwise", "invocations", "verdicts")
    frames = {name: getattr(sc.frames, name)(store) for name in names}
    return _with_one_grader(SimpleNamespace(store=store, skills=store.skills, **frames))


def _with_one_grader(study: SimpleNamespace) -> SimpleNamespace:
    if len(study.verdicts):
        grader = study.verdicts["grader"].dropna().max()
        study.graded = study.verdicts[study.verdicts["grader"].eq(grader)]
        study.outcomes = sc.frames.outcomes(study.verdicts, study.cases)
        study.one = study.outcomes[study.outcomes["grader"].eq(grader)]
        names = ("grader", "grader_version")
        study.sources = [name for name in names if study.outcomes[name].nunique() > 1]
        study.sources = study.sources[:1] or ["grader"]
    return study


def pilot() -> SimpleNamespace:
    """Return the pilot, with the words that answers share with the skills, and with its copies."""
    study = recorded("pilot")
    study.shared = sc.overlap.score(
        study.attempts, skills=study.skills, cases=study.cases, ngram=[3, 5, 6]
    )
    study.passages = sc.frames.passages(study.store)
    study.scored = sc.overlap.score(study.passages, skills=study.skills, ngram=[3, 5, 6])
    study.both = sc.frames.attempts(study.store, perturbation="all")
    verdicts = sc.frames.verdicts(study.store, perturbation="all")
    study.perturbed = verdicts[verdicts["grader"].eq("g2")]
    study.rounds = sc.frames.verdicts(study.store, round="all")
    return study


def execution() -> SimpleNamespace:
    """Return the study of content and form; ``one`` holds one version of its rubric."""
    study = recorded("execution")
    study.design = pd.DataFrame(study.store.manifest["design"])
    first = study.outcomes["grader_version"].min()
    study.one = study.outcomes[study.outcomes["grader_version"].eq(first)]
    return study


def of_table(table: pd.DataFrame, **roles: object) -> SimpleNamespace:
    """Return the frames of a table."""
    own = sc.from_frame(table, **roles)
    names = ("attempts", "cases", "verdicts", "gold")
    return _with_one_grader(SimpleNamespace(**{name: getattr(own, name) for name in names}))


def messy() -> SimpleNamespace:
    """Return the untidy table: unequal repeats, missing verdicts, two judges, some labels."""
    return of_table(pd.read_csv(sc.datasets.path("messy")), **MESSY)


def made_up_table() -> pd.DataFrame:
    """Return a made-up table with what the recorded studies do not have.

    Cases have one to three attempts and one to four checks, some attempts crashed, some verdicts
    are missing, two agents answer, one check is absent from one condition, pairs of cases contrast,
    cases have dimensions and distances, and a part is labelled.
    """
    rng = np.random.default_rng(20)
    return pd.DataFrame(
        row
        for number in range(20)
        for agent in ("large", "small")
        for condition in ("baseline", "skill", "placebo")
        for repeat in range(1, 2 + number % 3)
        for row in _answer_rows(rng, number, agent, condition, repeat)
    )


ROLES = ["repeat", "grader", "check", "agent", "status", "transfer", "contrast_of", "cost_usd"]
ROLES += ["seconds", "gold", "dimension", "answer"]


def uneven() -> SimpleNamespace:
    """Return the part of the made-up table on one agent, with equal checks."""
    table = made_up_table()
    table = table[table["agent"].eq("small") & table["check"].ne("k3")]
    return of_table(table, **{name: name for name in ROLES}, shared_cases=False)


def agents() -> SimpleNamespace:
    """Return the made-up table; its outcomes are over the checks of all conditions."""
    study = of_table(made_up_table(), **{name: name for name in ROLES}, shared_cases=False)
    grader = study.outcomes["grader"].max()
    study.outcomes = sc.frames.outcomes(study.verdicts, study.cases, checks="shared")
    study.one = study.outcomes[study.outcomes["grader"].eq(grader)]
    study.one = study.one.assign(worth=1 + study.one["case_id"].str.len() % 2)
    study.planned = sc.frames.outcomes(
        study.verdicts, study.cases, attempts=study.attempts, checks="shared"
    )
    return study


def _answer_rows(
    rng: np.random.Generator, number: int, agent: str, condition: str, repeat: int
) -> list[dict[str, object]]:
    rate = 0.35 + 0.3 * (condition == "skill") + 0.15 * (agent == "large") - 0.1 * (number % 2)
    crashed = rng.random() < 0.08
    about = {
        **{"skill": ("tea", "tide")[number % 2], "case": f"c{number}", "agent": agent},
        **{"condition": condition, "repeat": repeat},
        **{"status": "error" if crashed else "ok", "dimension": f"C{1 + number % 4}"},
        "transfer": ("near", "far")[number // 2 % 2],
        "contrast_of": f"c{number - 2}" if number % 4 in (2, 3) else None,
        "cost_usd": round(0.01 + 0.02 * rng.random() + 0.01 * (condition == "skill"), 4),
        "seconds": round(5 + 10 * rng.random(), 2),
        "answer": "It may be, perhaps, that it depends." if rng.random() < 0.3 else "It is so.",
    }
    rows = []
    for check in range(1 + number % 4):
        if condition == "placebo" and check == 3:
            continue
        right = bool(rng.random() < rate)
        for grader, error in (("exact", 0.05), ("loose", 0.3)):
            fooled = rng.random() < error and (grader == "exact" or not right)
            passed: bool | None = right ^ fooled
            if crashed or rng.random() < 0.03:
                passed = None
            gold = None if crashed or number > 11 else right
            row = {"check": f"k{check}", "grader": grader, "passed": passed, "gold": gold}
            rows.append(about | row)
    return rows


def corpus() -> SimpleNamespace:
    """Return the passages with five degrees of reuse and the words that they share."""
    passages, skills = sc.datasets.passages("copies"), sc.datasets.load("pilot").skills
    scored = sc.overlap.score(passages, skills=skills, ngram=[3, 5, 8])
    return SimpleNamespace(passages=passages, skills=skills, scored=scored)


def published() -> SimpleNamespace:
    """Return the published counts of judges and the rounds of one skill."""
    folder = sc.datasets.path("pilot").parent / "published"
    return SimpleNamespace(judges=pd.read_csv(folder / "judges.csv"))


def pairs() -> SimpleNamespace:
    """Return made-up comparisons of two systems by two judges, with ties and one that prefers."""
    rng = np.random.default_rng(7)
    rows = []
    for case in range(24):
        better = "x" if rng.random() < 0.65 else "y"
        for judge, first in (("fair", 0.1), ("first", 0.5)):
            for order in (("x", "y"), ("y", "x"))[: 1 + (case % 4 > 0)]:
                winner = order[0] if rng.random() < first else better
                winner = "tie" if rng.random() < 0.1 else winner
                rows.append((f"q{case}", judge, *order, winner, better, f"topic{case % 6}"))
    names = ["question_id", "judge", "model_a", "model_b", "winner", "gold", "cluster"]
    table = pd.DataFrame(rows, columns=names)
    own = sc.from_frame(table, gold="gold")
    names = ("pairwise", "attempts", "cases")
    return SimpleNamespace(**{name: getattr(own, name) for name in names})


def mean_of(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the means of the numbers of a long frame, and the rows of each group."""
    groups = frame.groupby(by, dropna=False, observed=True)
    means = groups.mean(numeric_only=True).add_prefix("mean_")
    return means.assign(rows=groups.size()).reset_index()


# of every study with outcomes under a baseline and with the skill
OUTCOMES: Mapping[str, Analysis] = {
    "frames.outcomes": lambda s: mean_of(
        s.outcomes.drop(columns=["repeat", "round"]), ["skill", "condition", "grader", "agent"]
    ),
    "deltas.rates": lambda s: sc.deltas.rates(s.one),
    "deltas.rates by grader and skill": lambda s: sc.deltas.rates(
        s.outcomes, by=[*s.sources, "skill"]
    ),
    "deltas.unpaired": lambda s: sc.deltas.unpaired(s.one, by=["skill"]),
    "deltas.rates shares": lambda s: sc.deltas.rates(s.one, value="share_passed", ci_level=0.9),
    "deltas.rates skills": lambda s: sc.deltas.rates(s.one, cluster="skill"),
    "deltas.paired": lambda s: sc.deltas.paired(s.one),
    "deltas.paired by skill": lambda s: sc.deltas.paired(s.one, by=["skill"]),
    "deltas.paired values": lambda s: sc.deltas.paired(s.one, value=["passed", "share_passed"]),
    "deltas.paired skills": lambda s: sc.deltas.paired(s.one, cluster="skill"),
    "deltas.paired t": lambda s: sc.deltas.paired(s.one, interval="t", by=["skill"]),
    "deltas.paired graders": lambda s: sc.deltas.paired(
        s.outcomes, by=[*s.sources, "skill"], value="share_passed"
    ),
    "deltas.pass_at_k": lambda s: sc.deltas.pass_at_k(s.one, k=2),
    "deltas.pass_at_k paired": lambda s: sc.deltas.pass_at_k(s.one, k=2, reference="baseline"),
    "deltas.pass_hat_k": lambda s: sc.deltas.pass_hat_k(s.one, k=2, by=["skill"]),
    "deltas.pass_hat_k paired": lambda s: sc.deltas.pass_hat_k(s.one, k=2, reference="baseline"),
    "skillverdicts.decide": lambda s: sc.skillverdicts.decide(s.one),
    "skillverdicts.decide margin": lambda s: sc.skillverdicts.decide(
        s.outcomes, by=s.sources, margin=0.2, value="share_passed"
    ),
    "skillverdicts.cases": lambda s: mean_of(
        sc.skillverdicts.cases(s.one, by=["skill"]), ["skill", "condition", "verdict"]
    ),
    "planning.variance_components": lambda s: sc.planning.variance_components(s.one),
}
# of every study whose attempts have amounts, or whose cases have dimensions and distances
AMOUNTS: Mapping[str, Analysis] = {
    "deltas.paired amounts": lambda s: sc.deltas.paired(
        s.one, s.attempts, value=["seconds", "cost_usd"]
    ),
    "deltas.paired limit": lambda s: sc.deltas.paired(
        s.one, s.attempts, value="seconds", limit=100.0, by=["skill"]
    ),
    "deltas.price": lambda s: sc.deltas.price(s.one, s.attempts),
    "deltas.price by skill": lambda s: sc.deltas.price(s.one, s.attempts, by=["skill"]),
    "skillverdicts.compare": lambda s: sc.skillverdicts.compare(
        s.one, s.attempts, reference="baseline", limit=1.0
    ),
    "skillverdicts.compare seconds": lambda s: sc.skillverdicts.compare(
        s.one, s.attempts, reference="placebo", amount="seconds", limit=100.0, by=[], margin=0.2
    ),
}
DISTANCES: Mapping[str, Analysis] = {
    "deltas.paired dimensions": lambda s: sc.deltas.paired(s.one, by=["comprehension_dimension"]),
    "deltas.paired dimensions shares": lambda s: sc.deltas.paired(
        s.outcomes, by=["grader", "comprehension_dimension"], value="share_passed"
    ),
    "deltas.rates dimensions": lambda s: sc.deltas.rates(s.one, by=["comprehension_dimension"]),
    "transfer.gap": lambda s: sc.transfer.gap(s.one),
    "transfer.gap shares": lambda s: sc.transfer.gap(
        s.outcomes, by=["grader"], value="share_passed"
    ),
    "transfer.gap by skill": lambda s: sc.transfer.gap(s.one, by=["skill"], interval="t"),
    "transfer.contrast": lambda s: sc.transfer.contrast(s.one),
    "transfer.hedging": lambda s: sc.transfer.hedging(s.one, s.attempts),
    "skillverdicts.dimensions": lambda s: sc.skillverdicts.dimensions(s.one),
    "skillverdicts.aggregate": lambda s: sc.skillverdicts.aggregate(
        sc.skillverdicts.dimensions(s.one), by=["skill", "condition"]
    ),
    "skillverdicts.aggregate weighted": lambda s: sc.skillverdicts.aggregate(
        sc.skillverdicts.dimensions(s.one),
        by=["skill", "condition"],
        policy="weighted",
        threshold=0.5,
    ),
    "skillverdicts.together": lambda s: sc.skillverdicts.together(
        sc.skillverdicts.dimensions(s.outcomes, by=["skill", "grader"]), by=["grader"]
    ),
}
GRADERS: Mapping[str, Analysis] = {
    "deltas.contrast graders": lambda s: sc.deltas.contrast(s.outcomes, between="grader"),
    "deltas.contrast under the skill": lambda s: sc.deltas.contrast(
        s.outcomes, between="grader", condition="skill", by=["skill"]
    ),
    "reliability.contrast": lambda s: sc.reliability.contrast(s.verdicts, s.gold, cases=s.cases),
    "reliability.contrast by condition": lambda s: sc.reliability.contrast(
        s.verdicts, s.gold, by=["condition"], cases=s.cases, interval="t"
    ),
    "reliability.drift": lambda s: sc.reliability.drift(
        s.verdicts, s.gold, reference_grader=s.verdicts["grader"].min(), cases=s.cases, **FEW
    ),
}
GOLD: Mapping[str, Analysis] = {
    "reliability.agreement": lambda s: sc.reliability.agreement(
        s.verdicts, s.gold, cases=s.cases, **FEW
    ),
    "reliability.agreement all": lambda s: sc.reliability.agreement(
        s.graded, s.gold, quantities="all", by=["grader", "condition"], cases=s.cases, **FEW
    ),
    "bias.audit": lambda s: sc.bias.audit(
        s.verdicts, s.attempts, s.gold, by=["grader"], cases=s.cases
    ),
    "correction.rate": lambda s: sc.correction.rate(
        s.verdicts, s.gold, by=["grader", "condition"], cases=s.cases
    ),
    "correction.rate passed": lambda s: sc.correction.rate(
        s.graded, s.gold, by=["condition"], value="passed", cases=s.cases, estimator="ppi"
    ),
    "correction.delta": lambda s: sc.correction.delta(
        s.verdicts, s.gold, by=["grader"], cases=s.cases
    ),
    "correction.delta passed": lambda s: sc.correction.delta(
        s.graded, s.gold, by=["skill"], value="passed", cases=s.cases
    ),
    "correction.delta shared": lambda s: sc.correction.delta(
        s.graded, s.gold, cases=s.cases, checks="shared", interval="t"
    ),
    "correction.differential": lambda s: sc.correction.differential(
        s.verdicts, s.gold, by=["grader"], cases=s.cases
    ),
    "skillverdicts.decide corrected": lambda s: sc.skillverdicts.decide(
        s.one,
        corrected=sc.correction.delta(
            s.graded, s.gold, value="passed", by=["skill"], cases=s.cases
        ),
    ),
    "planning.gold_needed": lambda s: sc.planning.gold_needed(
        s.verdicts, s.gold, width=0.2, by=["grader"], cases=s.cases
    ),
}
PILOT: Mapping[str, Analysis] = {
    "skillverdicts.across": lambda s: sc.skillverdicts.across(s.outcomes, by=["grader"]),
    "deltas.over_time": lambda s: sc.deltas.over_time(
        s.one[s.one["condition"].eq("skill")].assign(run=lambda f: f["repeat"].astype("str"))
    ),
    "deltas.paired placebo": lambda s: sc.deltas.paired(
        s.outcomes, by=["grader", "skill"], reference="placebo"
    ),
    "frames.outcomes flagged": lambda s: mean_of(
        sc.overlap.flag(s.graded, s.shared, calibrated(s)).drop(columns=["repeat", "round"]),
        ["skill", "condition"],
    ),
    "reliability.consistency": lambda s: sc.reliability.consistency(s.rounds, cases=s.cases, **FEW),
    "reliability.contrast rounds": lambda s: sc.reliability.contrast(
        s.rounds[s.rounds["grader"].eq("g2")], s.gold, between="round", cases=s.cases
    ),
    "reliability.agreement labellers": lambda s: sc.reliability.agreement(
        s.graded,
        sc.frames.gold(s.store, labeller="labeller-1"),
        quantities=["all", "ceiling_gwet_ac1"],
        cases=s.cases,
        **FEW,
    ),
    "reliability.failure_mode_rates": lambda s: sc.reliability.failure_mode_rates(
        sc.reliability.failure_modes(s.graded, s.attempts, s.shared, s.cases), cases=s.cases
    ),
    "reliability.integrity_rates": lambda s: sc.reliability.integrity_rates(
        sc.reliability.integrity(s.verdicts, s.attempts, s.checks, shared=s.shared), cases=s.cases
    ),
    "bias.audit pairs": lambda s: sc.bias.audit(
        s.graded, s.attempts, s.gold, pairwise=s.pairwise, cases=s.cases
    ),
    "bias.features": lambda s: mean_of(
        sc.bias.features(s.attempts).merge(s.attempts[["attempt_id", "skill", "condition"]]),
        ["skill", "condition"],
    ),
    "bias.perturbed": lambda s: sc.bias.perturbed(s.perturbed, s.both, cases=s.cases),
    "overlap.score": lambda s: mean_of(s.shared, ["condition", "n"]),
    "overlap.calibrate": lambda s: calibrated(s),
    "structure.score": lambda s: sc.structure.score(s.skills),
    "planning.cases_needed": lambda s: sc.planning.cases_needed(
        s.one, size=[0.1, 0.2], n_studies=100, seed=1
    ),
    "planning.cases_needed gap": lambda s: sc.planning.cases_needed(
        s.one, size=-0.2, effect="gap", n_studies=100, seed=1
    ),
    "planning.power_curve": lambda s: sc.planning.power_curve(
        s.one, sizes=[0.1, 0.2], n_cases=[10, 20], n_studies=100, seed=1
    ),
}


def calibrated(study: SimpleNamespace) -> pd.DataFrame:
    """Return the calibration of the n-gram rules on written copies."""
    return sc.overlap.calibrate(
        study.shared, study.attempts, passages=study.passages, skills=study.skills, **FEW
    )


EXECUTION: Mapping[str, Analysis] = {
    "structure.factorial": lambda s: sc.structure.factorial(s.one, s.design),
    "structure.factorial by skill": lambda s: sc.structure.factorial(
        s.outcomes, s.design, by=["skill", "grader_version"], value="share_passed", interval="t"
    ),
    "structure.factorial skills": lambda s: sc.structure.factorial(
        s.one, s.design, cluster="skill"
    ),
    "structure.score_association": lambda s: sc.structure.score_association(
        s.outcomes, s.skills, attempts=s.attempts, by=["grader_version"]
    ),
    "structure.score_association delta": lambda s: sc.structure.score_association(
        s.one, s.skills, attempts=s.attempts, features=["total", "words"], outcome="delta"
    ),
    "structure.score_by_document": lambda s: sc.structure.score_by_document(
        s.one, s.skills, attempts=s.attempts
    ),
    "structure.score": lambda s: sc.structure.score(s.skills),
    "deltas.contrast versions": lambda s: sc.deltas.contrast(s.outcomes, between="grader_version"),
    "deltas.contrast shares": lambda s: sc.deltas.contrast(
        s.outcomes, between="grader_version", condition="skill", value="share_passed"
    ),
    "deltas.paired scores": lambda s: sc.deltas.paired(s.one, value="score", by=["skill"]),
    "skillverdicts.across": lambda s: sc.skillverdicts.across(s.one),
}
TRIGGERS: Mapping[str, Analysis] = {
    "triggers.detection": lambda s: sc.triggers.detection(s.invocations, s.cases),
    "triggers.detection by skill": lambda s: sc.triggers.detection(
        s.invocations[s.invocations["condition"].eq("vague")], s.cases, by=["offered"]
    ),
    "triggers.controls": lambda s: sc.triggers.controls(s.invocations, s.cases),
    "triggers.confusion": lambda s: sc.triggers.confusion(s.invocations, s.cases),
    "triggers.compare": lambda s: sc.triggers.compare(
        s.invocations, s.cases, reference="precise", by=["agent"]
    ),
}
PROCESS: Mapping[str, Analysis] = {
    "triggers.detection": lambda s: sc.triggers.detection(s.invocations, s.cases, by=["agent"]),
    "triggers.compare": lambda s: sc.triggers.compare(
        s.invocations.assign(condition=s.invocations["agent"], agent=None),
        s.cases,
        reference=s.invocations["agent"].min(),
    ),
    "triggers.goals": lambda s: sc.triggers.goals(s.graded, s.cases, by=["grader", "agent"]),
    "frames.events": lambda s: mean_of(sc.frames.events(s.store), ["agent", "kind"]),
    "frames.commands": lambda s: mean_of(sc.frames.commands(s.store), ["agent", "condition"]),
}
TWO = {"by": ["grader", "agent"]}
BOTH_AGENTS: Mapping[str, Analysis] = {
    "deltas.contrast": lambda s: sc.deltas.contrast(s.one, between="agent"),
    "deltas.contrast under the skill": lambda s: sc.deltas.contrast(
        s.one, between="agent", condition="skill", value="share_passed", by=["skill"]
    ),
    "deltas.contrast weighted": lambda s: sc.deltas.contrast(
        s.one, between="agent", weight="worth"
    ),
    "deltas.contrast averaged": lambda s: sc.deltas.contrast(
        s.outcomes, between="agent", average=["grader"]
    ),
    "deltas.contrast skills": lambda s: sc.deltas.contrast(
        s.one, between="agent", cluster="skill", interval="t"
    ),
    "deltas.paired": lambda s: sc.deltas.paired(
        s.outcomes, **TWO, value=["passed", "share_passed"]
    ),
    "deltas.paired weighted": lambda s: sc.deltas.paired(s.one, by=["agent"], weight="worth"),
    "deltas.paired averaged": lambda s: sc.deltas.paired(
        s.outcomes, average=["grader", "agent"], by=["skill"]
    ),
    "deltas.paired amounts": lambda s: sc.deltas.paired(
        s.one, s.attempts, by=["agent"], value=["seconds", "cost_usd"]
    ),
    "deltas.paired planned": lambda s: sc.deltas.paired(s.planned, **TWO),
    "deltas.rates": lambda s: sc.deltas.rates(s.outcomes, **TWO),
    "deltas.rates planned": lambda s: sc.deltas.rates(s.planned, **TWO, value="share_passed"),
    "deltas.rates averaged": lambda s: sc.deltas.rates(s.one, average=["agent"]),
    "deltas.rates weighted": lambda s: sc.deltas.rates(s.one, weight="worth", by=["agent"]),
    "deltas.paired dimensions": lambda s: sc.deltas.paired(
        s.one, by=["agent", "comprehension_dimension"], weight="worth"
    ),
    "deltas.price": lambda s: sc.deltas.price(s.one, s.attempts, by=["agent"]),
    "skillverdicts.decide": lambda s: sc.skillverdicts.decide(s.one, by=["skill", "agent"]),
    "skillverdicts.decide averaged": lambda s: sc.skillverdicts.decide(
        s.planned, by=["grader"], average=["agent"], assume_missing="at random"
    ),
    "skillverdicts.compare": lambda s: sc.skillverdicts.compare(
        s.one, s.attempts, by=["agent"], reference="baseline", limit=1.0
    ),
    "transfer.gap": lambda s: sc.transfer.gap(s.outcomes, **TWO),
    "transfer.gap averaged": lambda s: sc.transfer.gap(s.one, average=["agent"]),
    "transfer.contrast": lambda s: sc.transfer.contrast(s.one, by=["agent"]),
    "transfer.hedging": lambda s: sc.transfer.hedging(s.one, s.attempts, by=["agent"]),
    "reliability.agreement averaged": lambda s: sc.reliability.agreement(
        s.verdicts, s.gold, average=["agent"], cases=s.cases, **FEW
    ),
    "reliability.contrast averaged": lambda s: sc.reliability.contrast(
        s.verdicts, s.gold, average=["agent"], cases=s.cases
    ),
    "correction.delta shared": lambda s: sc.correction.delta(
        s.verdicts, s.gold, **TWO, cases=s.cases, checks="shared"
    ),
    "correction.rate shared": lambda s: sc.correction.rate(
        s.graded, s.gold, by=["agent", "condition"], cases=s.cases, checks="shared"
    ),
    "planning.variance_components": lambda s: sc.planning.variance_components(s.one, by=["agent"]),
}
PAIRS: Mapping[str, Analysis] = {
    "bias.win_rates": lambda s: sc.bias.win_rates(
        s.pairwise, s.attempts, by=["grader"], cases=s.cases
    ),
    "bias.position": lambda s: sc.bias.position(s.pairwise, by=["grader"], cases=s.cases),
    "bias.position pooled": lambda s: sc.bias.position(
        s.pairwise[s.pairwise["grader"].eq("first")], cases=s.cases, ci_level=0.9
    ),
}
CORPUS: Mapping[str, Analysis] = {
    "overlap.score": lambda s: mean_of(s.scored, ["level", "n"]),
    "overlap.roc": lambda s: sc.overlap.roc(s.scored),
    "overlap.calibrate": lambda s: sc.overlap.calibrate(
        passages=s.passages, skills=s.skills, ngram=[3, 5, 8], **FEW
    ),
    "overlap.positives_found": lambda s: sc.overlap.positives_found(
        sc.overlap.positives(s.skills, n_each=4), skills=s.skills, ngram=[3, 6]
    ),
}
PUBLISHED: Mapping[str, Analysis] = {
    "reliability.contrast_counts": lambda s: sc.reliability.contrast_counts(
        s.judges[s.judges["version"].eq("V2")].rename(columns={"judge": "grader"})
    ),
}
STUDIES: Mapping[str, tuple[Callable[[], SimpleNamespace], Mapping[str, Analysis]]] = {
    "pilot": (pilot, OUTCOMES | DISTANCES | GRADERS | GOLD | PILOT),
    "execution": (execution, OUTCOMES | EXECUTION),
    "triggers": (partial(recorded, "triggers"), TRIGGERS),
    "process": (partial(recorded, "process"), PROCESS),
    "worked_example": (partial(recorded, "worked_example"), OUTCOMES | GOLD),
    "messy": (messy, OUTCOMES | AMOUNTS | GRADERS | GOLD),
    "uneven": (uneven, OUTCOMES | AMOUNTS | DISTANCES | GRADERS | GOLD),
    "agents": (agents, BOTH_AGENTS),
    "pairs": (pairs, PAIRS),
    "corpus": (corpus, CORPUS),
    "published": (published, PUBLISHED),
}
NAMES = [f"{study}.{name}" for study, (_, analyses) in STUDIES.items() for name in analyses]


@cache
def frames_of(study: str) -> SimpleNamespace:
    """Return the frames of a study, read once."""
    with warnings.catch_warnings(action="ignore", category=sc.frames.FrameWarning):
        return STUDIES[study][0]()


def table_of(name: str) -> str:
    """Return what an analysis of a study gives, as the text of a csv file.

    A note is words, which may improve: only its presence is kept.
    """
    study, _, analysis = name.partition(".")
    rows = STUDIES[study][1][analysis](frames_of(study))
    if "note" in rows:
        rows = rows.assign(note=rows["note"].fillna("").ne(""))
    return rows.to_csv(index=False, float_format="%.12g", lineterminator="\n")


def path_of(name: str) -> Path:
    """Return the file of a table."""
    return FOLDER / f"{name.replace(' ', '-')}.csv"


def read_table(text: str) -> pd.DataFrame:
    """Return the frame of the text of a csv file."""
    return pd.read_csv(io.StringIO(text))


if __name__ == "__main__":
    for old in FOLDER.glob("*.csv"):
        old.unlink()
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        path_of(name).write_text(table_of(name), encoding="utf-8")
