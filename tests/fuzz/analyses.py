"""Every public analysis, called once on the frames of a small simulated study."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd

import skillcomp as sc
from benchmarks import simulated

Frames = Mapping[str, pd.DataFrame]
N = 99  # resamples
LONG = os.environ.get("SKILLCOMP_FUZZ") == "long"  # as `make fuzz` sets it
GRADER = ["grader"]


DESIGN = [
    {"condition": f"{content} {form}", "content": content, "form": form}
    for content in ("full", "gutted")
    for form in ("structured", "flat")
]


def documents(forced: pd.DataFrame) -> pd.DataFrame:
    """The outcomes of one judge under a baseline and under four documents of two factors."""
    cells = {one["condition"]: ("placebo", "skill")[i < 2] for i, one in enumerate(DESIGN)}
    parts = [
        forced[forced["condition"].eq(old)].assign(
            condition=new, attempt_id=lambda f, new=new: f["attempt_id"] + new
        )
        for new, old in {"baseline": "baseline", **cells}.items()
    ]
    return pd.concat(parts, ignore_index=True)


@cache
def frames() -> dict[str, pd.DataFrame]:
    """Return the frames of a study as its readers would give them, and what is made of them."""
    judge = simulated.Grader("judge", rounds=2, quote_error_rate=0.1, failure_rate=0.02)
    strict = simulated.Grader("strict", sensitivity=0.7, drift=(0.5, 0.6, 0.95))
    made = simulated.study(
        n_skills=3,
        n_cases=18,
        contrast_pairs=2,
        conditions=("baseline", "skill", "placebo"),
        graders=(judge, strict),
        checks_per_case=3,
        copying={"baseline": 0.0, "skill": 0.2, "placebo": 0.0},
        labeller_error=0.1,
        agent_families=("family-a",),
        seed=4,
    )
    gold = made.gold[made.gold["labeller"].eq("adjudicated")].reset_index(drop=True)
    first = made.verdicts[made.verdicts["round"].eq(1)].reset_index(drop=True)
    one = first[first["grader"].eq("judge")].reset_index(drop=True)
    outcomes = sc.frames.outcomes(first, made.cases)
    copies = sc.bias.perturb(made.attempts, kind="hedge")
    both = pd.concat([made.attempts, copies], ignore_index=True)
    graded = simulated.grade(made, simulated.Grader("judge"), attempts=copies, seed=5)
    perturbed = pd.concat([one, graded], ignore_index=True)
    shared = sc.overlap.score(made.attempts, skills=made.skills, cases=made.cases, ngram=[3, 4, 6])
    passages = simulated.passages(made.skills, topics=5)
    scored = sc.overlap.score(passages, skills=made.skills, ngram=[3, 4, 6])
    chosen = sc.overlap.calibrate(
        shared,
        made.attempts,
        passages=passages,
        skills=made.skills,
        n_resamples=N,
        max_false_flags=0.3,
    )
    modes = sc.reliability.failure_modes(one, made.attempts, shared, made.cases)
    marks = sc.reliability.integrity(one, made.attempts, made.checks, shared=shared)
    forced = outcomes[outcomes["grader"].eq("judge")].reset_index(drop=True)
    scores = sc.structure.score(made.skills)
    skilled = forced[forced["condition"].eq("skill")].reset_index(drop=True)
    prompts = made.cases.assign(should_trigger=made.cases.index % 3 > 0)
    return {
        "cases": made.cases,
        "checks": made.checks,
        "attempts": made.attempts,
        "verdicts": first,
        "rounds": made.verdicts,
        "one": one,
        "gold": gold,
        "pairwise": made.pairwise,
        "compared": made.pairwise[made.pairwise["grader"].eq("judge")].reset_index(drop=True),
        "outcomes": outcomes,
        "forced": forced,
        "crossed": documents(forced),
        # two skills of each, because skills in general need five
        "many": forced.assign(
            skill=forced["skill"] + (forced.groupby("case_id").ngroup() % 2).astype("str")
        ),
        "scores": scores[scores["feature"].isin(["total", "words"])].reset_index(drop=True),
        "both": both,
        "perturbed": perturbed,
        "shared": shared,
        "passages": passages,
        "scored": scored,
        "cut": chosen,
        "modes": modes,
        "marks": marks,
        "prompts": prompts,
        "runs": skilled.assign(run="run " + skilled["repeat"].astype("str")),
        "invocations": invoked(made.attempts, prompts),
        "judged": sc.skillverdicts.dimensions(outcomes, by=["skill", "grader"]),
        "estimate": sc.deltas.paired(outcomes, by=["grader", "skill"]),
    }


def invoked(attempts: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """Every skill of the study on offer in every attempt; it fires as it should, but for some."""
    rows = attempts.merge(prompts[["skill", "case_id", "should_trigger"]])
    offered = pd.DataFrame({"offered": sorted(prompts["skill"].unique())})
    rows = rows.merge(offered, how="cross")
    should = rows["should_trigger"] & rows["offered"].eq(rows["skill"])
    odd = pd.util.hash_pandas_object(rows["answer"].fillna(""), index=False) % 7
    fired = should.mask(odd.eq(0) & rows["offered"].eq(rows["skill"]), ~should)
    kept = ["attempt_id", "skill", "case_id", "condition", "repeat", "agent", "offered"]
    return rows[kept].assign(
        invoked=fired.astype("boolean").mask(odd.eq(3)), should_invoke=should.astype("boolean")
    )


def two_judges(pairwise: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of one judge, and the same by another; what is broken stays as it is."""
    if not isinstance(pairwise, pd.DataFrame) or "grader" not in pairwise:
        return pairwise
    one = pairwise[
        pairwise["grader"].eq(min(pairwise["grader"].dropna().unique(), key=str, default=""))
    ]
    return pd.concat([one, one.assign(grader="other")], ignore_index=True)


@cache
def skills() -> dict[str, sc.records.Skill]:
    """Return the skills of the study."""
    return simulated.study(n_skills=3, n_cases=18, contrast_pairs=2, seed=4).skills


# what each public analysis is asked; the frames come in whatever dtype the caller makes of them
ANALYSES: dict[str, Callable[[Frames], pd.DataFrame]] = {
    "frames.outcomes": lambda f: sc.frames.outcomes(f["verdicts"], f["cases"]),
    "overlap.case_distance": lambda f: sc.overlap.case_distance(f["cases"], skills()),
    "overlap.score": lambda f: sc.overlap.score(
        f["attempts"], skills=skills(), cases=f["cases"], ngram=[3, 6]
    ),
    "overlap.score passages": lambda f: sc.overlap.score(f["passages"], skills=skills(), ngram=[3]),
    "overlap.calibrate": lambda f: sc.overlap.calibrate(
        f["shared"], f["attempts"], passages=f["passages"], skills=skills(), n_resamples=N
    ),
    "overlap.flag": lambda f: sc.overlap.flag(f["verdicts"], f["shared"], f["cut"]),
    "overlap.roc": lambda f: sc.overlap.roc(f["scored"]),
    "deltas.paired": lambda f: sc.deltas.paired(f["outcomes"], by=["grader", "skill"]),
    "deltas.paired share": lambda f: sc.deltas.paired(
        f["forced"], value="share_passed", cluster="skill"
    ),
    "deltas.contrast": lambda f: sc.deltas.contrast(
        f["outcomes"], between="grader", condition="skill", by="skill"
    ),
    "deltas.price": lambda f: sc.deltas.price(f["outcomes"], f["attempts"], by=GRADER),
    "deltas.pass_at_k paired": lambda f: sc.deltas.pass_at_k(
        f["outcomes"], k=2, by=GRADER, reference="baseline"
    ),
    "deltas.unpaired": lambda f: sc.deltas.unpaired(f["outcomes"], by=GRADER),
    "deltas.over_time": lambda f: sc.deltas.over_time(f["runs"]),
    "deltas.rates": lambda f: sc.deltas.rates(f["outcomes"], by=["grader", "skill"]),
    "deltas.paired by dimension": lambda f: sc.deltas.paired(
        f["outcomes"], by=[*GRADER, "comprehension_dimension"]
    ),
    "deltas.pass_at_k": lambda f: sc.deltas.pass_at_k(f["outcomes"], k=1, by=GRADER),
    "deltas.pass_hat_k": lambda f: sc.deltas.pass_hat_k(f["outcomes"], k=1, by=GRADER),
    "transfer.gap": lambda f: sc.transfer.gap(f["outcomes"], by=GRADER),
    "transfer.curve": lambda f: sc.transfer.curve(f["outcomes"], distance="n_checks", by=GRADER),
    "transfer.contrast": lambda f: sc.transfer.contrast(f["outcomes"], by=GRADER),
    "transfer.hedging": lambda f: sc.transfer.hedging(f["outcomes"], f["attempts"], by=GRADER),
    "skillverdicts.cases": lambda f: sc.skillverdicts.cases(f["outcomes"], by=GRADER),
    "skillverdicts.dimensions": lambda f: sc.skillverdicts.dimensions(
        f["outcomes"], by=["skill", "grader"]
    ),
    "skillverdicts.decide": lambda f: sc.skillverdicts.decide(
        f["outcomes"], by=["skill", "grader"]
    ),
    "skillverdicts.across": lambda f: sc.skillverdicts.across(f["many"]),
    "skillverdicts.compare": lambda f: sc.skillverdicts.compare(
        f["outcomes"], f["attempts"], by=["skill", "grader"], reference="baseline", limit=1000.0
    ),
    "skillverdicts.together": lambda f: sc.skillverdicts.together(f["judged"], by=GRADER),
    "skillverdicts.aggregate": lambda f: sc.skillverdicts.aggregate(
        f["judged"], by=["skill", "grader", "condition"]
    ),
    "structure.score_by_document": lambda f: sc.structure.score_by_document(
        f["outcomes"], scores=f["scores"], attempts=f["attempts"], by=GRADER
    ),
    "structure.score_association": lambda f: sc.structure.score_association(
        f["outcomes"], scores=f["scores"], by=GRADER, outcome="delta"
    ),
    "structure.factorial": lambda f: sc.structure.factorial(f["crossed"], DESIGN),
    "reliability.agreement": lambda f: sc.reliability.agreement(
        f["verdicts"], f["gold"], quantities="all", cases=f["cases"], n_resamples=N
    ),
    "reliability.contrast": lambda f: sc.reliability.contrast(
        f["verdicts"], f["gold"], cases=f["cases"]
    ),
    "reliability.consistency": lambda f: sc.reliability.consistency(
        f["rounds"], cases=f["cases"], n_resamples=N
    ),
    "reliability.drift": lambda f: sc.reliability.drift(
        f["verdicts"], f["gold"], reference_grader="judge", cases=f["cases"], n_resamples=N
    ),
    "reliability.flipped": lambda f: sc.reliability.flipped(
        f["verdicts"], f["gold"], reference_grader="judge"
    ),
    "reliability.failure_modes": lambda f: sc.reliability.failure_modes(
        f["one"], f["attempts"], f["shared"], f["cases"]
    ),
    "reliability.failure_mode_rates": lambda f: sc.reliability.failure_mode_rates(
        f["modes"], cases=f["cases"]
    ),
    "reliability.integrity": lambda f: sc.reliability.integrity(
        f["one"], f["attempts"], f["checks"], shared=f["shared"]
    ),
    "reliability.integrity_rates": lambda f: sc.reliability.integrity_rates(
        f["marks"], cases=f["cases"]
    ),
    "bias.audit": lambda f: sc.bias.audit(
        f["one"], f["attempts"], f["gold"], pairwise=f["compared"], cases=f["cases"]
    ),
    "bias.datasheet": lambda f: sc.bias.datasheet(
        f["perturbed"], f["both"], f["gold"], f["compared"], cases=f["cases"]
    ),
    "bias.copy_pairs": lambda f: sc.bias.copy_pairs(f["attempts"], kind="bullets"),
    "bias.features": lambda f: sc.bias.features(f["attempts"]),
    "bias.perturb": lambda f: sc.bias.perturb(f["attempts"], kind="pad"),
    "bias.perturbed": lambda f: sc.bias.perturbed(f["perturbed"], f["both"], cases=f["cases"]),
    "bias.position": lambda f: sc.bias.position(f["pairwise"], by=GRADER, cases=f["cases"]),
    "bias.win_rates": lambda f: sc.bias.win_rates(
        f["pairwise"], f["attempts"], by=GRADER, sides="condition", cases=f["cases"]
    ),
    "correction.rate": lambda f: sc.correction.rate(
        f["verdicts"], f["gold"], by=["grader", "condition"], cases=f["cases"]
    ),
    "correction.delta": lambda f: sc.correction.delta(
        f["verdicts"], f["gold"], by=GRADER, cases=f["cases"]
    ),
    "correction.differential": lambda f: sc.correction.differential(
        f["verdicts"], f["gold"], by=GRADER, cases=f["cases"]
    ),
    "triggers.detection": lambda f: sc.triggers.detection(
        f["invocations"], f["prompts"], by=["offered"]
    ),
    "triggers.controls": lambda f: sc.triggers.controls(f["invocations"], f["prompts"]),
    "triggers.confusion": lambda f: sc.triggers.confusion(f["invocations"], f["prompts"]),
    "triggers.compare": lambda f: sc.triggers.compare(
        f["invocations"], f["prompts"], reference="baseline"
    ),
    "triggers.goals": lambda f: sc.triggers.goals(f["one"], f["cases"], by=["skill"]),
    "planning.variance_components": lambda f: sc.planning.variance_components(
        f["outcomes"], by=GRADER
    ),
    "planning.cases_needed": lambda f: sc.planning.cases_needed(f["forced"], n_studies=40),
    "planning.power_curve": lambda f: sc.planning.power_curve(
        f["forced"], sizes=[0.1, 0.2], n_studies=40
    ),
    "planning.gold_needed": lambda f: sc.planning.gold_needed(f["one"], f["gold"], width=0.3),
}


@cache
def plain(name: str) -> pd.DataFrame:
    """Return the result of an analysis on the unchanged frames."""
    return ANALYSES[name](frames())


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame's values without their dtypes: floats, texts, None where nothing is."""
    plain = {}
    for name, values in frame.reset_index(drop=True).items():
        objects = values.astype("object").where(values.notna(), None)
        kinds = {type(value) for value in objects.dropna()}
        numeric = bool(kinds) and all(
            issubclass(kind, int | float | np.number | np.bool_) for kind in kinds
        )
        plain[name] = objects.astype("float64") if numeric else objects
    return pd.DataFrame(plain)
