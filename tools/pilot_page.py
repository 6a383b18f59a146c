"""Write docs/pilot.md: what the recorded studies show, with every number from their frames.

Usage: ``python -m tools.pilot_page`` in a checkout (about a minute).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pandas as pd

import skillcomp as sc
from benchmarks import simulated
from skillcomp.report import phrases as say

PAGE = Path(__file__).resolve().parent.parent / "docs" / "pilot.md"
HEAD = """\
# What the recorded studies show

This page collects the findings of the chapters on the recorded data: the pilot (six skills, three \
graders), the experiment on content and form, and the study of triggers. The chapters show the \
method, and run on any study. `python -m tools.pilot_page` writes this page; every number is \
computed. Intervals have a level of 95 %.
"""
ENDS = ["estimate", "ci_low", "ci_high"]
OF_THRESHOLD = {
    "sensitivity": "Copied passages that it flags",
    "false_flags_baseline": "Answers without the skill that it flags",
    "false_flags_fresh": "Passages written fresh that it flags",
    "false_flags_fresh_at_answer_length": "Fresh passages as long as answers that it flags",
    "flagged_skill": "Answers with the skill that it flags",
}
N_SKILLS, TRUE_SHARES, STUDIES = (40, 400), (0.0, 0.3), 120  # of the simulated studies of scores


def page() -> str:
    """Return the page as Markdown."""
    pilot = sc.datasets.load("pilot")
    sections = {
        "At which length does a shared n-gram mean copying?": copying_sentences(pilot),
        **answer_sections(pilot),
        "What else moves a grader?": bias_sentences(pilot),
        "Does the form of a document predict what an agent does?": structure_sentences(),
        "Do skills fire when they should?": trigger_sentences(),
    }
    parts = [
        f"## {title}\n\n" + "".join(f"- {escaped(text)}\n" for text in texts)
        for title, texts in sections.items()
    ]
    return "\n".join([HEAD, *parts])


def escaped(text: str) -> str:
    """Escape the brackets of intervals, which Markdown would read as links."""
    return re.sub(r"([\[\]<>_*|])", r"\\\1", " ".join(text.split()))


def copying_sentences(pilot: sc.RunStore) -> Iterable[str]:
    """Describe the threshold for copies that both sets of passages give, and its error rates."""
    attempts, cases = sc.frames.attempts(pilot), sc.frames.cases(pilot)
    paths = [sc.datasets.path(name) for name in ("copies", "copies_second")]
    how = {
        "passages": pd.concat(map(sc.frames.passages, paths), ignore_index=True),
        "skills": pilot.skills,
        "max_false_flags": 0.05,
    }
    shared = sc.overlap.score(attempts, skills=pilot.skills, cases=cases, ngram=range(3, 13))
    rows = sc.overlap.calibrate(shared, attempts, **how)
    chosen = rows[rows["measure"].eq("chosen_n")].iloc[0]
    if pd.isna(chosen["n"]):
        yield f"No threshold is chosen: {chosen['note']}."
        return
    yield (
        f"The threshold is a shared run of {chosen['n']} content tokens (rule '{chosen['rule']}'), "
        f"with an interval of {chosen['ci_low']:g} to {chosen['ci_high']:g}."
    )
    here = rows[rows["n"].eq(chosen["n"]) & rows["rule"].eq(chosen["rule"])].set_index("measure")
    for measure, text in OF_THRESHOLD.items():
        yield f"{text}: {say.share(here.loc[measure])}."


def answer_sections(pilot: sc.RunStore) -> dict[str, list[str]]:
    """Return the sentences of the answer page of the pilot by section."""
    answer = sc.report.answer(pilot)
    rows = answer.findings
    topics = {
        "Do the skills teach?": ("summary", "skill", "placebo"),
        "Do they transfer?": ("transfer", "distance"),
        "How many cases would decide?": ("limits",),
        "Did the grader drift?": ("grader", "drift"),
        "Does a correction for the grader change the answer?": ("correction",),
    }
    sections = {
        title: list(rows.loc[rows["topic"].isin(names), "sentence"])
        for title, names in topics.items()
    }
    sections["Did the grader drift?"] += strictness_sentences(pilot)
    return sections


def strictness_sentences(pilot: sc.RunStore) -> list[str]:
    """Describe how the share of checks passed falls from the first grader to the others."""
    verdicts, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    cases = sc.frames.cases(pilot)
    drift = sc.reliability.drift(verdicts, gold, cases=cases, reference_grader="g0")
    rows = drift[drift["measure"].eq("pass_rate_change") & drift["grader"].notna()]
    return [
        f"On the same answers the share of checks passed by {row['grader']} differs by "
        f"{say.change(row)} from that by {row['reference']}."
        for _, row in rows.iterrows()
    ]


def bias_sentences(pilot: sc.RunStore) -> Iterable[str]:
    """Count the biases that are shown, and name those with an interval off zero."""
    verdicts, attempts = sc.frames.verdicts(pilot), sc.frames.attempts(pilot)
    audit = sc.bias.audit(verdicts, attempts, sc.frames.gold(pilot), by=["grader"])
    rows = audit.dropna(subset=["estimate", "ci_low"])
    yield (
        f"Of {len(rows)} effects on the three graders that can be estimated, "
        f"{int(rows['p_adjusted'].lt(0.05).sum())} have an adjusted p-value below .05."
    )
    for _, row in rows[rows["ci_low"].gt(0) | rows["ci_high"].lt(0)].iterrows():
        yield (
            f"Taken alone, the interval of {row['bias']} for {row['grader']} ({row['stratum']}) "
            f"excludes zero: {say.change(row[ENDS] / 100)}, "
            f"{say.p_value(row['p_adjusted'], 'adjusted p')}."
        )


def structure_sentences() -> Iterable[str]:
    """Describe the experiment on content and form, and what a correlation could have shown."""
    store = sc.datasets.load("execution")
    attempts, verdicts = sc.frames.attempts(store), sc.frames.verdicts(store)
    outcomes = sc.frames.outcomes(verdicts, sc.frames.cases(store))
    by = ["grader_version"]
    effects = sc.structure.factorial(outcomes, store.manifest["design"], by=by)
    how = {"attempts": attempts, "by": by}
    explained = sc.structure.score_association(outcomes, store.skills, **how)
    yield from [*sc.report.sentences(effects), *sc.report.sentences(explained)]
    simulated = simulated_scores().groupby(["skills", "share"])
    for (skills, share), row in simulated.median(numeric_only=True).iterrows():
        shown = simulated["shown"].mean()[skills, share]
        yield (
            f"In simulated studies of {skills} skills whose score explains {100 * share:.0f} % of "
            f"the true rates, the median estimate of R squared is {row['estimate']:.2f} "
            f"[{row['low']:.2f} to {row['high']:.2f}], and {100 * shown:.0f} % have a p-value "
            "below .05."
        )


def simulated_scores() -> pd.DataFrame:
    """Return the estimated R squared of simulated studies, one row per study."""
    rows = []
    for skills, share, seed in product(N_SKILLS, TRUE_SHARES, range(STUDIES)):
        made = simulated.scored_documents(n_skills=skills, r_squared=share, seed=seed)
        rate = made.outcomes.groupby("skill")["passed"].mean().astype(float)
        fit = sc.stats.association(made.scores["value"], rate).r_squared
        about = {"skills": skills, "share": share, "shown": fit.p_value < 0.05}
        rows.append(about | {"estimate": fit.estimate, "low": fit.low, "high": fit.high})
    return pd.DataFrame(rows)


def trigger_sentences() -> Iterable[str]:
    """Describe how often the right skills fired, and what descriptions changed."""
    store = sc.datasets.load("triggers")
    invocations, cases = sc.frames.invocations(store), sc.frames.cases(store)
    detection = sc.triggers.detection(invocations, cases)
    yield from sc.report.sentences(detection)
    names = list(invocations["condition"].unique())
    compared = sc.triggers.compare(invocations, cases, reference=names[0])
    again = invocations[invocations["condition"].eq(names[-1])]
    again = again.assign(condition="repeat " + again["repeat"].astype("str"))
    noise = sc.triggers.compare(again, cases, reference="repeat 1")
    yield from sc.report.sentences(compared)
    yield f"Repeats of one condition: {sc.report.sentences(noise)[-1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
