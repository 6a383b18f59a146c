"""Sentences on graders: agreement with gold, missing verdicts, rounds, drift and correction."""

from __future__ import annotations

import pandas as pd

from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.style import called

# measure of `reliability.drift` -> what it is about, and what it says of a grader if the
# interval is above zero and if it is below zero
_CHANGES = {
    "agreement_change": (
        "agreement with gold",
        "agrees with gold more often than",
        "agrees with gold less often than",
    ),
    "pass_rate_change": (
        "the share of checks passed",
        "passes a larger share of checks than",
        "passes a smaller share of checks than",
    ),
    "specificity_change": (
        "false passes",
        "makes fewer false passes than",
        "makes more false passes than",
    ),
    "sensitivity_change": (
        "false fails",
        "makes fewer false fails than",
        "makes more false fails than",
    ),
}
_COEFFICIENTS = {"cohen_kappa": "kappa", "gwet_ac1": "AC1"}
ESTIMATORS = {
    "naive": "uncorrected",
    "gold_only": "gold alone",
    "ppi": "prediction-powered inference",
    "rogan_gladen_pooled": "Rogan-Gladen, pooled",
    "rogan_gladen_by_arm": "Rogan-Gladen by condition",
}


def grader_sentences(agreement: pd.DataFrame | None) -> Sentences:
    """Describe how often each grader agrees with gold, and its two kinds of errors."""
    if agreement is None:
        yield Sentence("There are no gold labels: how often the grader errs is not known.")
        return
    for name, part in agreement.groupby("grader", sort=False):
        row = say.by_measure(part)
        raw = row.get("raw_agreement")
        if not say.has_estimate(raw):
            why = "" if raw is None else f": {say.reason(raw)}"
            yield Sentence(f"{name}: agreement with gold is not known{why}.", name)
            continue
        coefficients = [
            f"{short} {say.coefficient(row[measure]['estimate'])}"
            for measure, short in _COEFFICIENTS.items()
            if say.has_estimate(row.get(measure))
        ]
        brackets = f" ({', '.join(coefficients)})" if coefficients else ""
        agrees = f"{say.rate(raw['estimate'])} of {raw['n']:,.0f} checks{brackets}"
        fails = say.rate_text(row.get("false_passes")) or "an unknown share"
        passes = say.rate_text(row.get("false_fails")) or "an unknown share"
        errors = f"It passes {fails} of what gold fails (false passes)"
        errors += f" and it fails {passes} of what gold passes (false fails)"
        yield Sentence(f"{name} agrees with gold on {agrees}. {errors}.", name)
    raw = agreement.loc[agreement["measure"].eq("raw_agreement"), "estimate"]
    if "gold_drawn" in agreement and raw.notna().any():
        words = str(agreement["gold_drawn"].iloc[0])
        verb = "are" if words.startswith("taken") else "were"
        weighted = ": the shares are weighted by the verdicts" if "verdict" in words else ""
        yield Sentence(f"The gold labels {verb} {words}{weighted}.")


def labeller_sentences(labellers: pd.DataFrame) -> Sentences:
    """Count gold labels by models, by programs, and by the model families of agents or graders."""
    for _, row in labellers.iterrows():
        kind, family = row["labeller_kind"], row["labeller_family"]
        shared = [verb for verb in ("answered", "graded") if row[verb]]
        if kind not in ("model", "program") and not shared:
            continue
        who = f"a {kind}" if pd.notna(kind) else "a labeller"
        who += f" ({called(family)})" if pd.notna(family) else ""
        n = row["n"]
        text = f"{n:,} gold label{say.plural(n)} {'is' if n == 1 else 'are'} by {who}"
        text += ", not by a person" if kind in ("model", "program") else ""
        if shared:
            text += f"; its family also {say.listing(shared)}"
        yield Sentence(f"{text}.")


def unusable_sentences(unusable: pd.DataFrame) -> Sentences:
    """Describe for each grader how many verdicts are missing, and for which reasons."""
    for name, part in unusable.groupby("grader", sort=False):
        n, of_n = part["n"].sum(), part["of_n"].iloc[0]
        reasons = ", ".join(f"{row['n']:,} {called(row['reason'])}" for _, row in part.iterrows())
        text = f"{n:,} of {of_n:,} verdicts by {name} cannot be used ({reasons}): "
        text += (
            f"{say.rate(n / of_n)} of the checks are unknown, and none of them counts as failed."
        )
        yield Sentence(text, name)


def addressing_sentences(addressing: pd.DataFrame) -> Sentences:
    """Describe how many answers address their grader."""
    counts = [f"{row['n']:,} under {row['condition']}" for _, row in addressing.iterrows()]
    n = addressing["n"].sum()
    yield Sentence(
        f"{n:,} answer{say.plural(n)} {'addresses' if n == 1 else 'address'} the grader, such as "
        f"by 'ignore the rubric' ({say.listing(counts)}): a person should read the verdicts."
    )


def round_sentences(rounds: pd.DataFrame) -> Sentences:
    """Describe how often the rounds of each grader disagree, and which round is reported."""
    for name, part in rounds.groupby("grader", sort=False):
        row = say.by_measure(part)
        checks, attempts = row["flip_rate"], row["attempt_flip_rate"]
        text = f"{name} graded in {checks['n_rounds']:.0f} rounds; the results are those of round "
        text += f"{checks['round']}. The rounds disagree on "
        shares = [say.share(checks, "checks graded again")]
        if not say.has_estimate(checks):
            yield Sentence(f"{name}: no check has verdicts in two rounds.", name)
            continue
        if n := checks.get("n_missing", 0):
            ends = " to ".join(say.rate(checks[end]) for end in ("worst_low", "worst_high"))
            lacking = f"{n:,.0f} check{say.plural(n)} without a verdict in some round"
            shares[0] += f" ({ends}, whatever the {lacking} would have been)"
        if say.has_estimate(attempts):
            shares.append(f"on {say.share(attempts, 'attempts')}")
        yield Sentence(f"{text}{say.listing(shares)}.", name)


def drift_sentences(drift: pd.DataFrame | None) -> Sentences:
    """For each pair of graders, compare the false passes or, without gold, the pass rates."""
    if drift is None:
        yield Sentence("One grader in one version: no drift between graders can be seen.")
        return
    pairs = drift[drift["measure"].isin(["specificity_change", "pass_rate_change"])]
    for (name, *_), part in say.parts_by(pairs, "grader", "reference", "agent"):
        rows = say.by_measure(say.with_estimate(part))
        for measure in ("specificity_change", "pass_rate_change"):
            if measure in rows:
                yield Sentence(f"{graders_compared(rows[measure])}.", name)
                break


def graders_compared(row: Row) -> str:
    """Compare two graders by one measure, such as the change in agreement; without a full stop."""
    what, more, less = _CHANGES[row["measure"]]
    grader, reference = row["grader"], row["reference"]
    other = f"{grader} and {reference} are not shown to differ in {what}"
    text = say.direction(row, f"{grader} {more} {reference}", f"{grader} {less} {reference}", other)
    # the share of errors falls by as much as the share of correct verdicts rises
    change = say.complement_of(0, row) if what.startswith("false") else row
    return f"{agent_start(row)}{text}: {say.change(change)}"


def agent_start(row: Row) -> str:
    """Return the start of a sentence on the answers of one agent; empty without agents."""
    return f"Answers by {row['agent']}: " if "agent" in row else ""


def correction_sentences(corrected: pd.DataFrame) -> Sentences:
    """Describe the change under each grader before and after correction for the grader's errors."""
    by_condition: dict[tuple[str, str], list[float]] = {}
    for _, part in say.parts_by(corrected, "grader", "agent", "condition"):
        about = part.iloc[0]
        name = about["grader"]
        treatment = say.treatment(about.get("condition", "skill"), about.get("reference"))
        agent = f" with {about['agent']}" if "agent" in about else ""
        raw, best = say.naive_and_best(part)
        if raw is None or best is None:
            why = say.reason(about)
            yield Sentence(f"{name}{agent}: no correction is recommended ({why}).", name)
            continue
        by_condition.setdefault((treatment, agent), []).append(float(best["estimate"]))
        estimator = ESTIMATORS.get(best["estimator"], best["estimator"])
        text = f"By {name}{agent} {treatment} changes the share of checks passed by "
        text += f"{say.change(raw)}; corrected for its errors by {estimator}, "
        yield Sentence(f"{text}by {say.change(best)}.", name)
    for (treatment, agent), estimates in by_condition.items():
        if len(estimates) > 1:
            points = say.size(max(estimates) - min(estimates))
            several = len({name for name, _ in by_condition}) > 1
            end = f" on {treatment}{agent}" if several else agent
            yield Sentence(f"Corrected, the {len(estimates)} graders are {points} apart{end}.")
