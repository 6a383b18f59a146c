"""The first screen of a grader study: trust, bias, drift, correction and missing gold labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from skillcomp import bias, correction, reliability
from skillcomp.frames.estimates import interval_of, ordered
from skillcomp.frames.reference_labels import ITEM, join_gold, reference_labels
from skillcomp.report import phrases as say
from skillcomp.report.about_graders import about_graders
from skillcomp.report.default_grader import first_grader
from skillcomp.report.grader_findings import (
    ESTIMATORS,
    addressing_sentences,
    drift_sentences,
    graders_compared,
    labeller_sentences,
    round_sentences,
    unusable_sentences,
)
from skillcomp.report.phrases import Row
from skillcomp.report.study_data import StudyData, StudyEstimates, in_order_of
from skillcomp.report.study_screen import StudyScreen, cell_table, draw_shares, topic_sentences
from skillcomp.stats.results import units_needed
from skillcomp.style import called
from skillcomp.table import Table

_MOST = 12  # The figure shows at most this number of graders.
_ERRORS = {"false_passes": "false passes", "false_fails": "false fails"}
_GOLD = "the labels of gold"  # Gold has this name where it is treated as a grader.
_UNNAMED = "unnamed condition"  # Rows of a table without conditions get this condition.
_HALF_WIDTHS = {
    "raw_agreement": 0.05,
    "cohen_kappa": 0.1,
    "false_passes": 0.05,
    "false_fails": 0.05,
}
_NAMES = {"raw_agreement": "agreement", "cohen_kappa": "kappa", **_ERRORS}
_LABELS = {"false_passes": "gold fails", "false_fails": "gold passes"}


def can_judge_graders(data: StudyData) -> bool:
    """Return whether verdicts can be compared with gold, or between graders, versions or rounds."""
    usable = data.verdicts[data.verdicts["passed"].notna()]
    if usable.empty or data.is_of_pairs:
        return False
    rounds = data.every["round"].fillna(1).nunique()
    return len(data.gold) > 0 or usable["grader"].nunique() > 1 or rounds > 1


def grader_headline(agreement: pd.DataFrame, grader: str, n_graders: int = 1) -> str:
    """Return one sentence on how often a grader, the best of `n_graders`, agrees with gold."""
    rows = say.of_grader(agreement, grader)
    raw = rows.get("raw_agreement")
    if not say.has_estimate(raw):
        reason = "it has no gold labels" if raw is None else say.reason(raw)
        return f"How often {grader} agrees with gold is not known: {reason}."
    start, link = f"{grader} agrees with gold on", " and"
    if n_graders > 1:
        start, link = f"Of {n_graders} graders, {grader} agrees with gold most often: on", "; it"
    passes = say.rate_text(rows.get("false_passes")) or "an unknown share"
    items = f"{raw['n']:,.0f} item{say.plural(raw['n'])}"
    return f"{start} {say.rate_text(raw)} of {items}{link} passes {passes} of what gold fails."


def grader_screen(
    data: StudyData, results: StudyEstimates, grader: str, *, design: Any, chosen: bool = False
) -> StudyScreen:
    """Assess the graders of a study by gold, and by comparison with each other.

    `results` has ``agreement`` if there is gold. The new estimates are added to `results`. The
    headline is about `grader`; `chosen` is True if the user chose it. `design` states how gold was
    drawn.
    """
    add_comparisons(data, results, grader)
    _add_errors(data, results, design)
    agreement, n = results.frames.get("agreement"), len(data.graders)
    if agreement is None:
        headline = results.missing.get("agreement", "there are no gold labels")
        headline = f"How often the graders err is not known: {headline}."
    else:
        headline = grader_headline(agreement, grader, 1 if chosen else n)
    makers = {
        "trust": _trust_sentences(results.frames),
        "bias": _bias_sentences(results.frames),
        "drift": drift_sentences_of(data, results.frames),
        "differences": difference_sentences(data, results.frames, grader),
        "correction": _correction_sentences(results.frames),
        "gold": gold_sentences(data, agreement, grader),
        "limits": _limit_sentences(data, results),
    }
    sentences = topic_sentences(makers, results.missing)
    rows = _rows_of_figure(agreement)
    caption = "Agreement of each grader with gold and both kinds of its errors, on items with gold."
    table = _table_of_graders(data, results.frames)
    draw = partial(draw_shares, label="Share of the items (95 % CI)")
    return StudyScreen("grader study", headline, table, sentences, rows, caption, draw)


def add_comparisons(data: StudyData, results: StudyEstimates, grader: str) -> None:
    """Add to `results` the differences between versions of a grader, and between graders."""
    labels = None if data.gold.empty else data.gold
    how: dict[str, Any] = {"average": data.agents, "cases": data.cases}
    versions = data.versions
    for name, part in versions.items():
        first = first_grader(part)
        compared = (reliability.drift, part, labels)
        results.add(f"drift of {name}", True, *compared, reference_grader=first, **how)
    several = len(data.graders) > 1
    apart = several and labels is None and set(data.base_names.values()) != set(versions)
    compared = (reliability.drift, data.verdicts, labels)
    results.add("drift", apart, *compared, reference_grader=grader, **how)
    graded = data.verdicts.assign(grader_version="")  # several versions already differ in name
    results.add(
        "ranks", several and labels is not None, reliability.contrast, graded, labels, **how
    )


def _add_errors(data: StudyData, results: StudyEstimates, design: Mapping[str, Any]) -> None:
    """Add biases, leniency against gold and corrected rates to `results`."""
    verdicts, gold, by = data.verdicts, data.gold, ["grader", *data.agents]
    first = ordered(verdicts["condition"])[0]
    how: dict[str, Any] = {"by": by, "cases": data.cases}
    audited = (bias.audit, verdicts, data.attempts, gold)
    results.add("biases", len(gold), *audited, reference=first, **how)
    random = len(gold) and design["gold_drawn"] == "random"
    results.add("leniency", random, _changes_against_gold, data)
    results.add("rates", len(gold), correction.rate, verdicts, gold, **how, **design)


def _changes_against_gold(data: StudyData) -> pd.DataFrame:
    """Estimate the pass rate of each grader minus that of gold, on the same items."""
    items = data.verdicts.drop_duplicates(ITEM)
    labels = join_gold(items, reference_labels(data.gold, "report"))
    labels = labels[labels["gold"].notna()]
    passed = labels["gold"].astype("boolean")
    labels = labels.assign(grader=_GOLD, grader_version="", status="ok", passed=passed)
    every = pd.concat([data.verdicts, labels[data.verdicts.columns]], ignore_index=True)
    rows = reliability.drift(every, reference_grader=_GOLD, average=data.agents, cases=data.cases)
    return say.rows_of(rows, "pass_rate_change")


def _table_of_graders(data: StudyData, estimates: Mapping[str, pd.DataFrame]) -> Table:
    """Return one row per grader with its agreement, its errors and its rank."""
    cells, agreement = [], estimates.get("agreement")
    ranks = ranks_in_words(estimates)
    parts = () if agreement is None else agreement.groupby("grader", sort=False)
    by_grader: dict[Any, dict[Any, Row]] = {name: say.by_measure(part) for name, part in parts}
    for grader in sorted(data.graders, key=lambda name: -_agreement_of(by_grader.get(name, {}))):
        passed = data.verdicts.loc[data.verdicts["grader"].eq(grader), "passed"]
        row = {"Grader": grader}
        if agreement is not None:
            rows = by_grader.get(grader, {})
            row["Agrees with gold"] = say.rate_text(rows.get("raw_agreement")) or "not known"
            row["Kappa"] = say.coefficient_text(rows.get("cohen_kappa"))
            row |= {t.capitalize(): say.rate_text(rows.get(m)) for m, t in _ERRORS.items()}
            row["Items"] = f"{rows['raw_agreement']['n']:,.0f}" if rows else "0"
        else:
            row["Items"] = f"{passed.notna().sum():,}"
        if ranks:
            row["Rank"] = ranks.get(grader, "")
        if data.verdicts["passed"].isna().any():
            row["No verdict"] = f"{passed.isna().sum():,}"
        cells.append(row)
    return cell_table(cells)


def _agreement_of(rows: Mapping[Any, Row]) -> float:
    raw = rows.get("raw_agreement")
    return float(raw["estimate"]) if say.has_estimate(raw) else -1.0


def ranks_in_words(estimates: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return the rank of each grader by agreement, with its interval, such as "1 [1, 3]"."""
    if "ranks" not in estimates:
        return {}
    rows = say.rows_of(estimates["ranks"], "agreement_rank")
    return {
        row["grader"]: f"{row['estimate']:.0f} [{row['ci_low']:.0f}, {row['ci_high']:.0f}]"
        for _, row in say.with_estimate(rows, "ci_low").iterrows()
    }


def _rows_of_figure(agreement: pd.DataFrame | None) -> pd.DataFrame:
    """Return agreement, false passes and false fails of the graders that agree most with gold."""
    if agreement is None:
        return pd.DataFrame()
    raw = say.rows_of(agreement, "raw_agreement")
    order = raw.sort_values("estimate", ascending=False, kind="stable")["grader"].head(_MOST)
    rows = agreement[agreement["measure"].isin(["raw_agreement", *_ERRORS])]
    rows = rows[rows["grader"].isin(order)]
    return in_order_of(rows.assign(measure=rows["measure"].map(_NAMES)), "grader", order)


def _trust_sentences(estimates: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Describe the labellers, chance agreement, how gold was drawn, and missing verdicts."""
    agreement = estimates.get("agreement")
    if "labellers" in estimates:
        yield from say.texts(labeller_sentences(estimates["labellers"]))
    if agreement is not None:
        if agreement["grader"].nunique() > 1:
            yield from about_graders(chance=agreement)
        yield f"The gold labels are {agreement['gold_drawn'].iloc[0].removeprefix('were ')}."
    for name, sentences in (("unusable", unusable_sentences), ("addressing", addressing_sentences)):
        if name in estimates:
            yield from say.texts(sentences(estimates[name]))


def _bias_sentences(estimates: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Describe leniency against gold, and the biases that can be estimated."""
    leniency = estimates.get("leniency", pd.DataFrame({"estimate": []}))
    for _, row in say.with_estimate(leniency).iterrows():
        rates = f"it passes {say.rate(row['rate'])} of {row['n']:,.0f} items and gold "
        rates += f"{say.rate(row['reference_rate'])}, {say.change(row)}"
        words = "is lenient", "is strict", "is not shown to be lenient or strict"
        word = say.direction(row, *words)
        yield f"{row['grader']} {word}: {rates}."
    if "biases" in estimates:
        identified = say.with_estimate(estimates["biases"])
        if len(identified):
            yield from about_graders(biases=identified)


def drift_sentences_of(data: StudyData, estimates: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Describe the changes between the versions and between the rounds of a grader."""
    for name in data.versions:
        if f"drift of {name}" in estimates:
            yield from change_sentences(estimates[f"drift of {name}"], pairs=data.is_of_pairs)
    if "rounds" in estimates:
        yield from say.texts(round_sentences(estimates["rounds"]))


def change_sentences(drift: pd.DataFrame | None, *, pairs: bool = False) -> Iterator[str]:
    """Describe changes in agreement and in errors; in a study of pairs, only in agreement."""
    if drift is None:
        return
    rows = say.with_estimate(say.rows_of(drift, "agreement_change"), "ci_low")
    for _, row in rows.iterrows():
        n, unit = (row["n"] / 2, "comparisons") if pairs else (row["n"], "items")
        yield f"{graders_compared(row)} on {n:,.0f} {unit}."
    if not pairs:
        yield from say.texts(drift_sentences(drift))
        yield from about_graders(errors=drift)


def difference_sentences(
    data: StudyData, estimates: Mapping[str, pd.DataFrame], grader: str
) -> Iterator[str]:
    """Compare how often `grader` and each other grader agree with gold."""
    if len(set(data.base_names.values())) < 2:
        return
    if "ranks" not in estimates:
        yield from change_sentences(estimates.get("drift"))
        return
    rows = estimates["ranks"]
    rows = say.rows_of(rows, "agreement_difference")
    n = len(rows)
    own = rows[rows["grader"].eq(grader) | rows["reference"].eq(grader)]
    parts: dict[str, list[str]] = {"more": [], "less": [], "open": []}
    for _, row in say.with_estimate(own).iterrows():
        is_first = row["grader"] == grader
        change = row if is_first else say.complement_of(0, row)
        word = "more" if change["estimate"] > 0 else "less"
        shown = row["p_adjusted"] < 1 - row["ci_level"]
        other = row["reference"] if is_first else row["grader"]
        parts[word if shown else "open"].append(f"{other} ({say.change(change)})")
    for word in ("more", "less"):
        if parts[word]:
            yield f"{grader} agrees with gold {word} often than {say.listing(parts[word])}."
    if parts["open"]:
        yield f"Not shown to differ from {grader}: {say.listing(parts['open'])}."
    if n > 1:
        yield f"These p-values are adjusted for all {n} pairs; so are the limits of the ranks."


def _correction_sentences(estimates: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Describe the rate of passes before and after the correction, by grader and condition."""
    rates = estimates.get("rates", pd.DataFrame({"grader": []}))
    for key, part in say.parts_by(rates, "grader", "agent", "condition"):
        who, *rest = [name for name in key if name != _UNNAMED]
        raw, best = say.naive_and_best(part)
        text = f"{', '.join(map(called, rest))}: by {who}" if rest else f"By {who}"
        if best is None:
            yield f"{text}, no correction is recommended ({say.reason(part.iloc[0])})."
            continue
        name = ESTIMATORS.get(best["estimator"], best["estimator"])
        shares = say.rate_text(raw), say.rate_text(best)
        yield f"{text} {shares[0]} of the items pass; corrected by {name}, {shares[1]}."


def gold_sentences(
    data: StudyData, agreement: pd.DataFrame | None, grader: str, per_item: int = 1
) -> Iterator[str]:
    """Count the items of a grader without gold, and the labels that narrow intervals need."""
    own = data.verdicts[data.verdicts["grader"].eq(grader)]
    labels = data.gold.loc[data.gold["passed"].notna(), ITEM].drop_duplicates()
    n, lacking = len(own) // per_item, (len(own) - len(own[ITEM].merge(labels))) // per_item
    units = f"{n:,} {'items' if per_item == 1 else 'comparisons'} of {grader}"
    if agreement is None or lacking:
        count = f"{lacking:,} of the" if lacking < n else "All"
        yield f"{count} {units} have no gold label."
    else:
        yield f"All {units} have a gold label."
    rows = say.of_grader(agreement, grader)
    texts: list[str] = []
    for measure, half in _HALF_WIDTHS.items():
        if per_item > 1 and measure in _ERRORS:  # in pairs, false passes and false fails are equal
            continue
        if say.has_estimate(row := rows.get(measure)):
            needed = units_needed(interval_of(row), half) / per_item
            width = f"{half:g}" if measure == "cohen_kappa" else f"{100 * half:.0f} points"
            needs = "" if texts else f"{grader} needs "
            what = f"For {_NAMES[measure]} within {width}, {needs}{needed:,.0f} "
            what += f"{_LABELS.get(measure, 'labels')} ({row['n'] / per_item:,.0f} now)"
            texts.append(what if needs else what.replace("For", "for", 1))
    if texts:
        yield f"{'; '.join(texts)}."


def _limit_sentences(data: StudyData, results: StudyEstimates) -> Iterator[str]:
    """Name what the data cannot show, and each missing estimate with its reason."""
    audit = results.frames.get("biases", pd.DataFrame())
    if len(audit):
        unknown = audit[audit["estimate"].isna() & audit["measure"].eq("effect_points")]
        bare = unknown["note"].str.contains("not recorded")
        names = list(dict.fromkeys(unknown.loc[bare, "bias"].str.partition(":")[0]))
        if names:
            text = f"The effects of {say.listing(names)} are not known: the study does not "
            yield f"{text}record what they need."
        yield from about_graders(biases=unknown[~bare])[1:]
    if len(data.gold):
        if data.gold["labeller"].nunique() < 2:
            yield "How far labellers agree with each other is not known: there is one labeller."
        yield "Errors that the labellers share with a grader are not seen: gold has them too."
    if not data.versions and "rounds" not in results.frames:
        yield "Whether a grader drifts is not known: each has one version and one round."
