"""Sentences on graders: agreement with gold, missing verdicts, rounds, drift and correction."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.style import called

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
        fails, passes = _error_share(row.get("false_passes")), _error_share(row.get("false_fails"))
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


def _error_share(row: Row | None) -> str:
    """Format an error rate; "an unknown share" if it has no estimate."""
    return say.share(row) if say.has_estimate(row) else "an unknown share"


def drift_sentences(drift: pd.DataFrame | None) -> Sentences:
    """For each pair of graders, compare the false passes or, without gold, the pass rates."""
    if drift is None:
        yield Sentence("One grader in one version: no drift between graders can be seen.")
        return
    pairs = drift[drift["measure"].isin(["specificity_change", "pass_rate_change"])]
    keys = ["grader", "reference", *(name for name in ("agent",) if name in pairs)]
    for (name, reference, *agent), part in pairs.groupby(keys, sort=False):
        by_measure, start = say.by_measure(part), "".join(f"Answers by {a}: " for a in agent)
        if say.has_estimate(row := by_measure.get("specificity_change")):
            false_passes = say.complement_of(0, row)
            yield Sentence(start + _false_pass_text(name, reference, false_passes), name)
        elif say.has_estimate(row := by_measure.get("pass_rate_change")):
            yield Sentence(start + _pass_rate_text(name, reference, row), name)


def _false_pass_text(name: Any, reference: Any, row: Row) -> str:
    """Return a sentence that compares the false passes of two graders."""
    if row["ci_low"] <= 0 <= row["ci_high"]:
        start = f"{name} and {reference} are not shown to differ in false passes"
    else:
        more = "more" if row["estimate"] > 0 else "fewer"
        start = f"{name} makes {more} false passes than {reference}"
    return f"{start}: {say.change(row)}."


def _pass_rate_text(name: Any, reference: Any, row: Row) -> str:
    """Return a sentence that compares the pass rates of two graders, for studies without gold."""
    text = f"{name} and {reference} are not shown to differ in the share of checks passed"
    if row["ci_low"] > 0 or row["ci_high"] < 0:
        word = "larger" if row["estimate"] > 0 else "smaller"
        text = f"{name} passes a {word} share of checks than {reference}"
    return f"{text}: {say.change(row)}."


def correction_sentences(corrected: pd.DataFrame) -> Sentences:
    """Describe the change under each grader before and after correction for the grader's errors."""
    by_condition: dict[tuple[str, str], list[float]] = {}
    by = [name for name in ("grader", "agent", "condition") if name in corrected.columns]
    for _, part in corrected.groupby(by, sort=False):
        row, about = say.by_measure(part, "estimator"), part.iloc[0]
        name = about["grader"]
        treatment = say.treatment(about.get("condition", "skill"), about.get("reference"))
        agent = f" with {about['agent']}" if "agent" in by else ""
        chosen = part[part["recommended"].fillna(False).astype(bool)]
        if "naive" not in row or chosen.empty or pd.isna(chosen["estimate"].iloc[0]):
            why = say.reason(about, "reason")
            yield Sentence(f"{name}{agent}: no correction is recommended ({why}).", name)
            continue
        raw, best = row["naive"], chosen.iloc[0]
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
