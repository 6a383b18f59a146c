"""Summarise the estimates of a study in sentences; every number is taken from a frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pandas as pd

from skillcomp.contrast import MIN_SKILLS
from skillcomp.frames.estimates import require_columns
from skillcomp.io.study_overview import change_lines
from skillcomp.report import phrases as say
from skillcomp.report.first_screen import dimension_sentences, price_sentences
from skillcomp.report.grader_findings import (
    addressing_sentences,
    correction_sentences,
    drift_sentences,
    grader_sentences,
    labeller_sentences,
    round_sentences,
    unusable_sentences,
)
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.report.settling_findings import settling_sentences
from skillcomp.skillverdicts.corrected_deltas import FEWEST_GOLD, NAIVE
from skillcomp.style import called

_VERDICTS = {
    "teaching": ("teaches", "teach"),
    "helps": ("helps", "help"),
    "redundant": ("is redundant", "are redundant"),
    "ineffective": ("changes nothing", "change nothing"),
    "hurts": ("hurts", "hurt"),
    "harmful": ("harms", "harm"),
    "undetermined": ("is undetermined", "are undetermined"),
}
_RESULTS = {
    "timeout": "ran out of time",
    "truncated": "were cut off",
    "refused": "were refused",
}
_LOSSES = ["hurts", "harmful"]
_LIMITS = ["estimate", "ci_low", "ci_high"]
# topic of sentences, the frame that they are about, and the function that writes them
_Topic: TypeAlias = tuple[str, pd.DataFrame | None, Callable[[Any], Sentences]]
# If there are verdicts on skills, a sentence also says that there is no gold, or only one grader.
_ALSO_WITHOUT = (grader_sentences, drift_sentences)
# required columns of the frames decided, placebo, gap, effects and explained, in this order
_COLUMNS = (
    ["skill", "condition", "rate", "reference_rate", *_LIMITS, "n", "margin", "verdict", "note"],
    ["skill", "condition", *_LIMITS],
    ["measure", "scope", *_LIMITS],
    ["effect", "at", "reference_rate", *_LIMITS],
    ["feature", "measure", "estimate", "ci_low"],
)
# parameter of `findings` -> name of this estimate in sentences, if it has another name there
_ESTIMATES = {
    "overall": "effect of all skills",
    "placebo": "comparison with the placebo",
    "previous": "comparison with the previous version",
    "gap": "transfer gap",
    "effects": "effects of the factors",
    "explained": "association with the scores",
    "corrected": "correction",
    "corrections": "correction of the verdicts",
    "overall_corrected": "correction of the effect of all skills",
    "needed": "cases needed",
    "dimensions": "effect by dimension",
    "price": "price of a pass",
}


def findings(
    decided: pd.DataFrame | None,
    *,
    overall: pd.DataFrame | None = None,
    placebo: pd.DataFrame | None = None,
    previous: pd.DataFrame | None = None,
    gap: pd.DataFrame | None = None,
    agreement: pd.DataFrame | None = None,
    drift: pd.DataFrame | None = None,
    corrected: pd.DataFrame | None = None,
    needed: pd.DataFrame | None = None,
    effects: pd.DataFrame | None = None,
    explained: pd.DataFrame | None = None,
    controls: pd.DataFrame | None = None,
    triggers: pd.DataFrame | None = None,
    goals: pd.DataFrame | None = None,
    unusable: pd.DataFrame | None = None,
    unanswered: pd.DataFrame | None = None,
    addressing: pd.DataFrame | None = None,
    rounds: pd.DataFrame | None = None,
    overall_corrected: pd.DataFrame | None = None,
    labellers: pd.DataFrame | None = None,
    problems: pd.DataFrame | None = None,
    dimensions: pd.DataFrame | None = None,
    price: pd.DataFrame | None = None,
    missing: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Summarise the estimates of a study in sentences.

    Parameters
    ----------
    decided : pandas.DataFrame or None
        The verdict on each skill, from :func:`skillcomp.skillverdicts.decide`. None if
        the study only records whether skills fire, or to summarise only the other frames.
    overall : pandas.DataFrame, optional
        Result of :func:`skillcomp.deltas.paired` over all skills.
    placebo : pandas.DataFrame, optional
        Result of :func:`skillcomp.deltas.paired` by skill with ``reference="placebo"``.
    previous : pandas.DataFrame, optional
        Result of :func:`skillcomp.deltas.paired` by skill with ``reference="previous"``.
    gap : pandas.DataFrame, optional
        Result of :func:`skillcomp.transfer.gap` over all skills.
    agreement : pandas.DataFrame, optional
        Result of :func:`skillcomp.reliability.agreement` by grader. None means that there are no
        gold labels.
    drift : pandas.DataFrame, optional
        Result of :func:`skillcomp.reliability.drift`. None means that there is only one grader, in
        one version.
    corrected : pandas.DataFrame, optional
        Result of :func:`skillcomp.correction.delta` by grader.
    needed : pandas.DataFrame, optional
        Rows of :func:`skillcomp.planning.cases_needed` for the undetermined skills, with an added
        column ``margin``.
    effects : pandas.DataFrame, optional
        Result of :func:`skillcomp.structure.factorial` over all skills.
    explained : pandas.DataFrame, optional
        Result of :func:`skillcomp.structure.score_association` over all skills.
    controls : pandas.DataFrame, optional
        Result of :func:`skillcomp.triggers.controls`.
    triggers : pandas.DataFrame, optional
        Result of :func:`skillcomp.triggers.detection` over all skills that the agent could invoke.
    goals : pandas.DataFrame, optional
        Result of :func:`skillcomp.triggers.goals` by grader.
    unusable : pandas.DataFrame, optional
        Missing verdicts, one row per grader and reason: grader, reason, n (missing verdicts), of_n
        (requested verdicts of the grader).
    unanswered : pandas.DataFrame, optional
        Attempts that ended without an answer, one row per condition and status: condition, status,
        n, of_n (attempts of the condition).
    addressing : pandas.DataFrame, optional
        Answers that address their grader, one row per condition: condition, n (such answers), of_n
        (answers under the condition).
    rounds : pandas.DataFrame, optional
        Flip rates of graders with several rounds, from :func:`skillcomp.reliability.consistency`,
        with an added column ``round``: the round that the results are based on.
    overall_corrected : pandas.DataFrame, optional
        Result of :func:`skillcomp.correction.delta` over all skills, for the same value as
        ``overall``.
    labellers : pandas.DataFrame, optional
        Gold labels, one row per kind and family of labeller: labeller_kind, labeller_family, n,
        answered (whether an agent is of the family), graded (whether a grader is of the family).
    problems : pandas.DataFrame, optional
        The ``problems`` of :func:`skillcomp.read_results` or :func:`skillcomp.from_frame`.
    dimensions : pandas.DataFrame, optional
        Result of :func:`skillcomp.deltas.paired` by ``comprehension_dimension``.
    price : pandas.DataFrame, optional
        Result of :func:`skillcomp.deltas.price` over all skills.
    missing : mapping of str to str, optional
        For each estimate that could not be computed, the name of its parameter and the reason.

    Returns
    -------
    pandas.DataFrame
        One row per sentence: topic (summary, skill, condition, placebo, reading, transfer,
        dimension, price, structure, trigger, grader, drift, correction or limits), about (skill,
        grader or condition; NaN if the sentence is not about a single one), verdict (of the skill;
        NaN if the sentence gives none), sentence, why (the reasons for the verdict in one line; NaN
        without a verdict). Sentences of the topics condition and placebo are about the other
        conditions of a skill; those of the topic reading are about ``problems``.

    Raises
    ------
    FrameError
        If a frame lacks a column that its sentences need.

    Notes
    -----
    If a result is unknown, a sentence says so. A skill beats its placebo only if the whole interval
    of the difference between them is above zero. If a skill helps or hurts, a further sentence says
    that the change may be smaller than the margin. The sentence on all skills names the skills with
    a loss. Intervals are given in brackets, and differences in percentage points.

    Examples
    --------
    >>> import pandas as pd
    >>> decided = pd.DataFrame({"skill": ["tea"], "condition": ["skill"], "rate": [0.2],
    ...     "reference_rate": [0.6], "estimate": [-0.4], "ci_low": [-0.6], "ci_high": [-0.1],
    ...     "n": [14.0], "margin": [0.1], "verdict": ["harmful"], "note": [""]})
    >>> rows = findings(decided)
    >>> print(rows.loc[rows["topic"].eq("skill"), "sentence"].item())
    tea harms by the grader alone: with the skill 20 % of the answers pass and without it 60 %,
    −40 points [−60, −10] on 14 cases.
    """
    for frame, names in zip((decided, placebo, gap, effects, explained), _COLUMNS, strict=True):
        if frame is not None:
            require_columns(frame, names, "report.findings")
    reading: _Topic = ("reading", problems, _problem_sentences)
    topics: list[_Topic] = [
        ("structure", effects, _factor_sentences),
        ("structure", explained, _score_sentences),
        ("trigger", controls, _control_sentences),
        ("trigger", triggers, _trigger_sentences),
        ("trigger", goals, _goal_sentences),
    ]
    graders: list[_Topic] = [
        ("grader", agreement, grader_sentences),
        ("grader", unusable, unusable_sentences),
        ("grader", addressing, addressing_sentences),
        ("grader", rounds, round_sentences),
        ("drift", drift, drift_sentences),
        ("correction", corrected, correction_sentences),
    ]
    if decided is None:
        topics += [reading, ("transfer", gap, partial(_transfer_sentences, gap)), *graders]
    else:
        main = main_rows(decided)
        others = decided.drop(main.index)
        arms = others[others["condition"].ne("placebo")]
        unchecked = agreement is None and "agreement" not in (missing or {})
        summary = partial(_summary_sentences, overall, overall_corrected, unchecked)
        verdicts = partial(_verdict_sentences, placebo, previous, unchecked)
        # in a factorial study, the document without the content serves as placebo
        control = effects if placebo is None else placebo
        topics = [
            ("summary", main, summary),
            ("summary", labellers, labeller_sentences),
            ("skill", main, verdicts),
            ("skill", unanswered, _unanswered_sentences),
            ("condition", arms, verdicts),
            ("placebo", others.drop(arms.index), _placebo_sentences),
            reading,
            ("transfer", main, partial(_transfer_sentences, gap)),
            ("dimension", dimensions, partial(dimension_sentences, main)),
            ("price", price, price_sentences),
            *topics,
            *graders,
            ("limits", main, partial(_limit_sentences, control, agreement, needed)),
        ]
    rows = [
        (topic, s.about, s.verdict, s.text, s.why)
        for topic, frame, build in topics
        if frame is not None or (decided is not None and build in _ALSO_WITHOUT)
        for s in build(frame)
    ]
    for name, reason in (missing or {}).items():
        text = f"Not computed: {_ESTIMATES.get(name, name)} ({reason.rstrip('.')})."
        rows.append(("limits", None, None, text, None))
    return (
        pd.DataFrame(rows, columns=["topic", "about", "verdict", "sentence", "why"])
        .astype("str")
        .drop_duplicates(ignore_index=True)
    )


def main_rows(decided: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the condition ``skill``; if there are none, of all except the placebo."""
    for chosen in (decided["condition"].eq("skill"), decided["condition"].ne("placebo")):
        if chosen.any():
            return decided[chosen]
    return decided


def _problem_sentences(problems: pd.DataFrame) -> Sentences:
    return map(Sentence, change_lines(problems.to_dict("records")))


def _verdict_sentences(
    placebo: pd.DataFrame | None,
    previous: pd.DataFrame | None,
    unchecked: bool,
    rows: pd.DataFrame,
) -> Sentences:
    """Describe the verdict of each row; ``unchecked`` means that the study has no gold."""
    for _, row in rows.iterrows():
        others = say.matching_row(placebo, row), say.matching_row(previous, row)
        text = _skill_text(row, *others, unchecked)
        yield Sentence(text, row["skill"], row["verdict"], row.get("why"))


def _summary_sentences(
    overall: pd.DataFrame | None,
    corrected: pd.DataFrame | None,
    unchecked: bool,
    main: pd.DataFrame,
) -> Sentences:
    if (headline := _headline(main)) and unchecked:
        first = headline[:1].lower() if len(main) > 1 else headline[:1]
        headline = f"Nobody has checked the grader. By the grader alone: {first}{headline[1:]}"
    if headline:
        yield Sentence(headline)
    n_agents = main["agent"].nunique() if "agent" in main else 1
    for _, row in overall.iterrows() if overall is not None else ():
        reference = row.get("reference", "baseline")
        how = say.treatment(row["condition"], reference)
        single = main["skill"].nunique() == 1
        whose = "the" if single else "their"
        what = {"the skill": f"{whose} skill loaded", "a placebo": "a placebo loaded instead"}
        how = what.get(how, how)
        if pd.isna(row["estimate"]):
            text = f"With {how}: not known, {say.reason(row)}.{_losses(main, row['condition'])}"
            yield Sentence(text, row["condition"])
            continue
        without = f"{say.without(reference, '')} {say.rate(row['reference_rate'])}"
        rates = f"{say.rate(row['rate'])} of the {_what_passes(row)} pass and {without}"
        over = "skills"
        if n_agents > 1:
            over = "agents" if single else "skills and agents"
            over += " (agents averaged within each case)"
        lead = "With" if single and n_agents == 1 else f"Over all {over}, with"
        text = f"{lead} {how} {rates}: {say.change(row)}{say.on_cases(row)}"
        text += f"{_corrected_change(corrected, row)}.{_losses(main, row['condition'])}"
        yield Sentence(text, row["condition"])


def _headline(main: pd.DataFrame) -> str:
    """Return the counts of the verdicts in words; empty if there are no verdicts.

    The text ends with the counts of the grader's verdicts that the correction does not confirm.
    """
    n, rows = len(main), say.unit_of_rows(main)
    if n > len(main.drop_duplicates(say.columns_of(main, "skill", "agent"))):
        rows = "conditions" if main["skill"].nunique() == 1 else "pairs of skill and condition"
    parts = _counts_in_words(main["verdict"])
    if not parts:
        return ""
    if len(parts) == 1 and main["verdict"].isin(list(_VERDICTS)).all():
        everyone = f"Both {rows}" if n == 2 else f"All {n} {rows}"
        verb = parts[0].split(" ", 1)[1]
        headline = f"{everyone if n > 1 else called(main['skill'].iloc[0])} {verb}"
    else:
        headline = f"Of {n} {rows}, {say.listing(parts)}"
    return f"{headline}{_unconfirmed_counts(main)}."


def _unconfirmed_counts(main: pd.DataFrame) -> str:
    """Return words that count the verdicts by the grader alone on the undetermined rows."""
    open_ = main[main["verdict"].eq("undetermined")]
    alone = [row["verdict_uncorrected"] for _, row in open_.iterrows() if is_unconfirmed(row)]
    if not alone:
        return ""
    n, n_alone = len(open_), len(alone)
    parts = _counts_in_words(pd.Series(alone + ["undetermined"] * (n - n_alone)))
    text = say.listing(parts)
    if len(parts) == 1:
        text = f"{'it' if n == 1 else 'they'} {parts[0].split(' ', 1)[1]}"
    of_these = "of these, " if 1 < n < len(main) and len(parts) > 1 else ""
    return f"; {of_these}by the grader alone {text}"


def _counts_in_words(verdicts: pd.Series) -> list[str]:
    """Return words such as "2 teach" for each verdict."""
    counts = verdicts.value_counts()
    words = {name: forms for name, forms in _VERDICTS.items() if name in counts}
    return [f"{counts[name]} {forms[int(counts[name] > 1)]}" for name, forms in words.items()]


def _losses(main: pd.DataFrame, condition: Any) -> str:
    """Name the skills with a loss under a condition, then those with an unconfirmed loss."""
    rows = [row for _, row in main[main["condition"].eq(condition)].iterrows()]
    names = [say.skill_and_agent(row) for row in rows if row["verdict"] in _LOSSES]
    text = f" A loss is shown for {say.listing(names)}." if names else ""
    open_ = [row for row in rows if is_unconfirmed(row) and row["verdict_uncorrected"] in _LOSSES]
    names = [say.skill_and_agent(row) for row in open_]
    unconfirmed = " A loss by the grader alone, not confirmed, is shown for"
    return f"{text}{unconfirmed} {say.listing(names)}." if names else text


def _corrected_change(corrected: pd.DataFrame | None, row: Row) -> str:
    """Describe the recommended correction of an effect over all skills, if there is one."""
    if corrected is None:
        return ""
    own = corrected[corrected["condition"].eq(row["condition"])]
    recommended = say.marked(own).dropna(subset=_LIMITS)
    if recommended.empty:
        return "; not corrected"
    return f"; corrected for the grader's errors, {say.change(recommended.iloc[0])}"


def _skill_text(
    row: Row, against_placebo: Row | None, against_previous: Row | None, unchecked: bool
) -> str:
    """Describe the verdict on a skill, the evidence for it, and what limits it."""
    name, verdict = say.skill_and_agent(row), row["verdict"]
    if row["condition"] != "skill":
        name = f"{name} ({row['condition']})"
    if pd.isna(row["estimate"]):
        return f"{name} cannot be judged: {say.reason(row)}."
    margin, evidence = say.size(row["margin"]), _evidence(row)
    word = verdict if verdict in _VERDICTS else "undetermined"
    overturned = row.get("overturned", False)
    counts = row.drop(["n_missing", "n_missing_reference"]) if overturned else row
    claim = _VERDICTS[word][0]
    if is_unconfirmed(row):
        n = row["n_gold"]
        labels = f"by labels on {n:,.0f} case{say.plural(n)}" if n else "as no case has a label"
        alone = row["verdict_uncorrected"]
        claim = alone if alone in ("helps", "hurts") else f"is {alone}"
        claim += f" by the grader, not confirmed{'' if n else ','} {labels}"
    elif unchecked and word != "undetermined":
        claim += " by the grader alone"
    text = f"{name} {claim}: {evidence}{say.on_cases(counts)}."
    if is_unconfirmed(row):
        alone = _shown_alone_in_words(row, "Corrected and taken alone it")
        return f"{text}{alone} {_labels_in_words(row)}"
    if overturned:
        text += _missing_answers(row)
        if verdict == "undetermined" and not row["assume_missing"]:
            return text
    if word in ("helps", "hurts"):
        change = "gain" if word == "helps" else "loss"
        text += f" The {change} may be smaller than the margin of {margin}."
    elif word == "undetermined":
        text += _what_is_ruled_out(row, margin)
    alone = " (grader alone)" if row.get("estimator") not in (None, "", "naive") else ""
    text += _comparison(verdict, against_placebo, f"its placebo{alone}")
    return text + _comparison("", against_previous, f"the previous version{alone}")


def is_unconfirmed(row: Row) -> bool:
    """Return whether the grader alone gives a verdict that the correction does not confirm."""
    alone = row.get("verdict_uncorrected", "undetermined")
    return bool(row["verdict"] == "undetermined" != alone and not _is_overturned(row))


def _is_overturned(row: Row) -> bool:
    """Return whether the missing answers could overturn a verdict, and nothing is assumed."""
    return bool(row.get("overturned", False) and not row.get("assume_missing", ""))


def _labels_in_words(row: Row) -> str:
    """Describe how many more labelled cases would decide the verdict."""
    n, more = int(row["n_gold"]), row["labels_needed"]
    if more == float("inf"):
        n_cases = f"{row['n']:,.0f} case{say.plural(row['n'])}"
        return f"Labels on all {n_cases} would not decide; more cases are needed."
    if pd.notna(more):
        return f"Labels on about {more:,.0f} more case{say.plural(more)} would decide."
    if n < FEWEST_GOLD:
        left = FEWEST_GOLD - n
        return f"Labels on at least {left} more case{say.plural(left)} are needed."
    return "How many more labels would decide is not known."


def _shown_alone_in_words(row: Row, subject: str) -> str:
    """Describe a gain or loss that is significant before p-values are adjusted, if there is one."""
    low, high, p = row["ci_low"], row["ci_high"], row.get("p_adjusted", float("nan"))
    corrected = row.get("estimator", NAIVE) != NAIVE
    if not (low > 0 or high < 0) or (is_unconfirmed(row) and not corrected):
        return ""
    text = f" {subject} shows a {'gain' if low > 0 else 'loss'}"
    if pd.isna(p):
        return f"{text}, without an adjusted p-value."
    family = re.search(r"by Holm over (\d+)", str(row.get("method", "")))
    verdicts = f"{family[1]} verdict{say.plural(int(family[1]))}" if family else "other verdicts"
    return f"{text}; adjusted for the {verdicts} it does not ({say.p_value(p, 'adjusted p')})."


def _evidence(row: Row) -> str:
    """Describe the rates and the change (corrected, if there is a correction) behind a verdict."""
    reference, change = row.get("reference", "baseline"), say.change(row)
    if row["verdict"] == "ineffective":
        change = f"the whole interval {say.limits(row)} is within {say.size(row['margin'])}"
    if row.get("estimator", NAIVE) != NAIVE:
        return f"{_rates_of_conditions(row)} by the grader; corrected, {change}"
    if row["verdict"] == "redundant":
        rates = f"{say.rate(row['reference_rate'])} of the {_what_passes(row)} pass "
        rates += say.without(reference)
        return f"{rates}; with it {change}"
    end = "; " if row["verdict"] == "ineffective" else ", "
    return f"{_rates_of_conditions(row)}{end}{change}"


def _rates_of_conditions(row: Row) -> str:
    reference = row.get("reference", "baseline")
    text = f"with {say.treatment(row['condition'], reference)} {say.rate(row['rate'])} of the "
    text += f"{_what_passes(row)} pass and {say.without(reference)} "
    return text + say.rate(row["reference_rate"])


def _what_passes(row: Row) -> str:
    """Return "checks" if the rates of the row are shares of checks; otherwise "answers"."""
    return "checks" if row.get("measure") == "delta_share_passed" else "answers"


def _placebo_sentences(rows: pd.DataFrame) -> Sentences:
    """Describe the rates and the change of each placebo; a placebo gets no verdict."""
    for _, row in rows.assign(verdict="").iterrows():
        text = f": {_evidence(row)}{say.on_cases(row)}"
        if pd.isna(row["estimate"]):
            text = f" cannot be judged: {say.reason(row)}"
        yield Sentence(f"{say.skill_and_agent(row)} ({row['condition']}){text}.", row["skill"])


def _missing_answers(row: Row) -> str:
    """Describe the missing answers that could overturn a verdict, and what is assumed of them."""
    sides = (
        (row["condition"], "n_missing", "n_attempts"),
        (row["reference"], "n_missing_reference", "n_attempts_reference"),
    )
    counts = [f"{row[n]:,.0f} of {row[of]:,.0f} answers under {name}" for name, n, of in sides]
    worst = [say.signed(row[name]) for name in ("worst_low", "worst_high")]
    text = f" {say.listing(counts)} are missing: if all had gone against {row['condition']}, "
    text += f"the change would be {worst[0]}; if all for it, {worst[1]}."
    if row["assume_missing"]:
        return f"{text} The verdict assumes that they are missing {row['assume_missing']}."
    return f"{text} The verdict therefore stays open."


def _unanswered_sentences(unanswered: pd.DataFrame) -> Sentences:
    """Count the missing attempts, and those that ended with a status such as timeout."""
    for condition, part in unanswered.groupby("condition", sort=False):
        n_of = part.set_index("status")["n"]
        lost, of_n = int(n_of.reindex(["error", "paused"]).sum()), part["of_n"].iloc[0]
        if lost:
            text = f"Under {condition} the agent gave no answer in {lost:,} of {of_n:,} attempts "
            text += "(it crashed, paused or never started): these are missing, not failed."
            yield Sentence(text, condition)
        results = n_of[[name for name in _RESULTS if name in n_of]]
        if len(results):
            how = say.listing([f"{n:,} {_RESULTS[str(name)]}" for name, n in results.items()])
            text = f"Under {condition}, of {of_n:,} attempts {how}: without a verdict these count "
            yield Sentence(text + "as failed.", condition)


def _what_is_ruled_out(row: Row, margin: str) -> str:
    """Describe the gains or losses that the interval of an undetermined skill excludes."""
    low, high, size = row["ci_low"], row["ci_high"], row["margin"]
    if pd.isna(low) or pd.isna(high):
        return ""
    if low > 0 or high < 0:
        if min(abs(low), abs(high)) <= size:
            return _shown_alone_in_words(row, "Taken alone this row")
        return f" Too few cases for a verdict ({say.reason(row)})."
    ruled = [f"a loss of {margin}"] if low > -size else []
    ruled += [f"a gain of {margin}"] if high < size else []
    if ruled:
        return f" Ruled out: {say.listing(ruled)}."
    return " Neither a gain nor a loss is ruled out."


def _comparison(verdict: str, row: Row | None, other: str) -> str:
    if row is None:
        return ""
    if row["ci_low"] > 0:
        return f" Against {other}: {say.change(row)}."
    if row["ci_high"] < 0:
        return f" It does worse than {other}: {say.change(row)}."
    if verdict in ("teaching", "helps"):
        return f" But it is not shown to beat {other}: {say.change(row)}."
    return f" Against {other}: {say.change(row)}, which may be chance."


def _transfer_sentences(gap: pd.DataFrame | None, main: pd.DataFrame) -> Sentences:
    if gap is None:
        yield Sentence("The cases are not marked as near or far: transfer is not known.")
        return
    for _, row in main.drop_duplicates("condition").iterrows():
        rows = gap[gap["condition"].eq(row["condition"])]
        yield Sentence(_gap_text(rows, say.treatment(row["condition"], row.get("reference"))))


def _gap_text(rows: pd.DataFrame, treatment: str) -> str:
    """Compare the change on near and far cases, within dimensions if possible."""
    within, pooled = (
        say.by_measure(rows[rows["scope"].eq(scope)]) for scope in ("within_dimensions", "pooled")
    )
    by_measure = within if say.has_estimate(within.get("gap")) else pooled
    row = by_measure.get("gap")
    if not say.has_estimate(row):
        row = within.get("gap")
        why = "" if row is None else f": {say.reason(row)}"
        return f"Near and far cases cannot be compared{why}."
    near, far = by_measure["near_delta"], by_measure["far_delta"]
    text = f"On near cases {treatment} changes the pass rate by {say.change(near)}"
    text += f", on far cases by {say.change(far)}"
    changes = "far cases change more", "far cases change less", "no difference is shown"
    text += f"; {say.direction(row, *changes)}: far minus near {say.change(row)}"
    # a pooled row also lists dimensions, but it does not compare cases within each dimension
    is_within = by_measure is within and row.get("dimensions")
    about = ""
    if is_within:
        about = f" Compared within {say.listing(row['dimensions'].split(', '))}"
    counts = f"{row['n_near']:.0f} near and {row['n_far']:.0f} far cases{say.lost(row)}"
    cases = f" on {counts}." if about else ""
    if by_measure is pooled:
        cases = f" Within dimensions: {say.reason(within['gap'])}." if "gap" in within else ""
        cases += f" Here {row['note']}."
    return f"{text}.{about}{cases}"


def _factor_sentences(effects: pd.DataFrame) -> Sentences:
    """Describe the effects of the two factors of a factorial study, such as content and form."""
    for start, part in _parts_by_source(effects):
        for text in _effect_texts(part):
            yield Sentence(start + text)


def _parts_by_source(frame: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    """Return, for each agent and grader version, the start of a sentence, and the rows."""
    by = say.columns_of(frame, "agent", "grader", "grader_version")
    if not by:
        return [("", frame)]
    parts = frame.groupby(by, sort=False, dropna=False)
    return [(f"{', '.join(map(called, key))}: ", part) for key, part in parts]


def _effect_texts(effects: pd.DataFrame) -> Iterator[str]:
    """Describe the effects of the two factors for one agent and one grader version."""
    of = {(row["effect"], row["at"]): row for _, row in effects.iterrows()}
    factors = [name for name, at in of if not at and any(a for n, a in of if n == name)]
    total = of.get(("total", ""))
    if len(factors) != 2 or pd.isna(of[factors[0], ""]["estimate"]):
        why = say.reason(next(iter(of.values()))) if of else "no effects were given"
        yield f"What is content and what is form is not known: {why}."
        return
    first, second = factors
    parts = [f"its {name} by {say.change(of[name, ''])}" for name in factors]
    start = "The document changes the pass rate: "
    if say.has_estimate(total):
        parts.append(f"any document by {say.change(of['any document', ''])}")
        start = f"The document changes the pass rate by {say.change(total)}: "
    yield f"{start}{say.listing(parts)}{say.on_cases(of[first, ''])}."
    at_levels = [
        f"where {first} is {at}, {second} changes it by {say.change(row)} of a room of "
        f"{say.size(1.0 - row['reference_rate'])}"
        for (name, at), row in of.items()
        if name == second and at and pd.notna(row["estimate"])
    ]
    if at_levels:
        text = "; ".join(at_levels)
        yield f"{text[:1].upper()}{text[1:]}."


def _score_sentences(explained: pd.DataFrame) -> Sentences:
    """Describe how much each score explains, and the smallest R squared that could be detected."""
    parts = [
        (start, name, part)
        for start, source in _parts_by_source(explained)
        for name, part in source.groupby("feature", sort=False)
    ]
    for start, name, part in parts:
        by_measure = say.by_measure(part)
        row = by_measure["r_squared"]
        what = start + ("The structure score" if name == "total" else f"The score {name}")
        if not say.has_estimate(row):
            yield Sentence(f"{what} cannot be held against results: {say.reason(row)}.", name)
            continue
        n, n_skills = f"{row['n']:,.0f} documents", f"{row['n_clusters']:,.0f} skills"
        crossed = by_measure["cross_validated_r_squared"]["estimate"]
        text = f"{what} explains {say.share(row)} of the differences between {n} of "
        text += f"{n_skills} in what passes (R squared; {say.rate(crossed)} cross-validated)."
        least = by_measure["detectable_r_squared"]["estimate"]
        if pd.notna(least):
            text += f" {n_skills} show {say.rate(least)} or more, four times in five."
        yield Sentence(text, name)


def _control_sentences(controls: pd.DataFrame) -> Sentences:
    """Name the skills that did not fire when called, and those that fired when none should."""
    for _, row in controls[controls["note"].ne("")].iterrows():
        agent = f" ({called(row['agent'])})" if "agent" in row else ""
        skill = f"{called(row['offered'])}{agent}"
        if pd.notna(row["dead"]) and row["dead"]:
            text = (
                f"The instrument is dead for {skill}: an explicit call did not fire it, so its "
                "cases say nothing about it."
            )
        elif row["n_false_alarms"]:
            text = f"{skill} fired at a prompt that no skill should answer."
        else:
            text = f"It is not known whether an explicit call fires {skill}."
        yield Sentence(text, row["offered"])


def _trigger_sentences(detection: pd.DataFrame) -> Sentences:
    """Describe by condition how often the right skills fired, and how often a wrong one did."""
    for key, part in say.parts_by(say.with_estimate(detection), "agent", "condition"):
        row = {(estimate["measure"], estimate["kind"]): estimate for _, estimate in part.iterrows()}
        clauses = []
        if (exact := row.get(("exact", "all"))) is not None:
            right = "just the right skills are invoked at"
            clauses.append(f"{right} {say.share(exact)} of the prompts")
        if (recall := row.get(("recall", "all"))) is not None:
            kinds = [
                f"{word} {say.rate(row['recall', kind]['estimate'])}"
                for kind, word in (("explicit", "named"), ("implicit", "only meant"))
                if ("recall", kind) in row
            ]
            by_kind = f" ({', '.join(kinds)})" if kinds else ""
            clauses.append(f"a skill that should fire does at {say.share(recall)}{by_kind}")
        if (negative := row.get(("specificity", "negative"))) is not None:
            wrong = say.share(say.complement_of(1, negative))
            clauses.append(f"the skill tested fires at {wrong} of its negative prompts")
        if not clauses:
            continue
        n, name = part["n_clusters"].max(), ", ".join(map(str, key))
        text = f"Triggering ({name}): {'; '.join(clauses)}; {n:,.0f} prompt{say.plural(n)}."
        present = [rate for rate in (exact, recall, negative) if rate is not None]
        if all(rate["estimate"] == 1 for rate in present):
            text += " All are right: a ceiling, which shows no more than the intervals."
        yield Sentence(text, key[-1])


def _goal_sentences(goals: pd.DataFrame) -> Sentences:
    by = "agent", "grader", "grader_version", "condition"
    for key, part in say.parts_by(say.with_estimate(goals), *by):
        shares = [f"{row['goal']} {say.share(row)}" for _, row in part.iterrows()]
        text = f"Goals met ({', '.join(map(str, key))}): {', '.join(shares)} of the attempts."
        yield Sentence(text, key[-1])


def _limit_sentences(
    placebo: pd.DataFrame | None,
    agreement: pd.DataFrame | None,
    needed: pd.DataFrame | None,
    main: pd.DataFrame,
) -> Sentences:
    by = say.columns_of(main, "skill", "agent")
    undecided = main[main["verdict"].eq("undetermined")]
    undecided = undecided[~undecided.apply(is_unconfirmed, axis=1).astype(bool)]
    overturned = undecided.apply(_is_overturned, axis=1).astype(bool)
    for _, row in undecided[overturned].drop_duplicates(by).iterrows():
        text = "more cases would not settle this; the missing answers would."
        yield Sentence(f"{say.skill_and_agent(row)}: {text}", row["skill"])
    yield from settling_sentences(undecided[~overturned].drop_duplicates(by), needed)
    if placebo is None:
        yield Sentence(
            "Without a placebo, it is unknown whether another text of the same length would have "
            "the same effect."
        )
    if agreement is None:
        yield Sentence("Without gold labels nothing here is corrected for the grader.")
    n = main["skill"].nunique()
    if n < MIN_SKILLS:
        verb = "says" if n == 1 else "say"
        yield Sentence(f"{n} skill{say.plural(n)} {verb} nothing of skills in general.")
    else:
        about = "sc.skillverdicts.across estimates skills in general"
        yield Sentence(f"The intervals are about these {n} skills; {about}.")
