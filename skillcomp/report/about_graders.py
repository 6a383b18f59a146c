"""Sentences of the chapters on graders: versions, rules, biases and corrections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from skillcomp.frames.reference_labels import ADJUDICATED
from skillcomp.report import phrases as say
from skillcomp.report.grader_findings import agent_start, graders_compared
from skillcomp.report.phrases import Row
from skillcomp.style import called

_AC1 = "gwet_ac1"
_NONE = "none_of_these"
# ``undecided_fail`` is no breach: the rules tell a grader that cannot decide to answer FAIL.
_NO_BREACH = ("undecided_fail",)
_MOST = 3  # A sentence names at most this number of rules.


def about_graders(**results: pd.DataFrame) -> list[str]:
    """Summarise results on graders in sentences, in the order of the arguments.

    Parameters
    ----------
    **results : pandas.DataFrame
        One result per topic, named by the topic:

        - ranking: :func:`skillcomp.reliability.agreement` by grader
        - ceiling: concatenated results of :func:`skillcomp.reliability.agreement` by grader: first
          with all labels, then with the labels of each labeller alone. An added column
          ``labeller`` names this labeller and is NaN in the rows with all labels.
        - chance: the same frame as ``ranking``; each grader is compared with a constant grader,
          which passes (or fails) every item
        - unpaired: :func:`skillcomp.reliability.contrast_counts`
        - errors: the changes of :func:`skillcomp.reliability.drift`
        - flips: :func:`skillcomp.reliability.flip_counts`
        - rules: :func:`skillcomp.reliability.integrity_rates`
        - modes: :func:`skillcomp.reliability.failure_mode_rates` by condition
        - biases, leniency: :func:`skillcomp.bias.audit` by grader
        - copies: :func:`skillcomp.bias.perturbed`
        - position: :func:`skillcomp.bias.position`
        - differences: :func:`skillcomp.correction.differential`
        - corrections: :func:`skillcomp.correction.delta` by grader or by skill

    Returns
    -------
    list of str
        Sentences. A change counts as shown if its interval excludes zero. A p-value that is
        adjusted for several questions must also be below ``1 - ci_level``. If a result is unknown,
        a sentence gives the reason.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame({"grader": "new", "reference": "old", "gold": ["PASS", "FAIL"],
    ...     "old": True, "new": False, "count": [1, 3]})
    >>> print(about_graders(flips=counts)[0])
    new and old differ on 4 of 4 checks: 0 flipped to PASS and 4 to FAIL. Of the 4 flips with a
    gold label, 3 are right by gold.
    """
    return [text for topic, frame in results.items() for text in _TOPICS[topic](frame)]


def _ranking_sentences(agreement: pd.DataFrame) -> Iterator[str]:
    """Name the graders that agree most and least with gold."""
    raw = say.with_estimate(say.rows_of(agreement, "raw_agreement"))
    raw = raw.sort_values("estimate", ascending=False, kind="stable")
    if raw.empty:
        yield "No agreement is known: sc.reliability.label_sheet draws checks to label."
    if raw["estimate"].nunique() > 1:
        best, second, last = raw.iloc[0], raw.iloc[1], raw.iloc[-1]
        text = f"Of {len(raw)} graders, {best['grader']} agrees with gold most often and "
        text += f"{last['grader']} least"
        if best["ci_low"] <= second["ci_high"]:
            text += f"; the intervals of {best['grader']} and {second['grader']} overlap"
        yield f"{text}."


def _chance_sentences(agreement: pd.DataFrame) -> Iterator[str]:
    """Name the graders that are not shown to beat a constant grader.

    Also name the graders that rank lower by kappa than by agreement.
    """
    raw = say.with_estimate(say.rows_of(agreement, "raw_agreement"), "ci_low")
    if raw.empty:
        return
    passes = raw["prevalence"].median() >= 0.5
    alike = raw["prevalence"] if passes else 1 - raw["prevalence"]
    verb = "passes" if passes else "fails"
    text = f"By gold {say.count_range(100 * alike)} % of the items {'pass' if passes else 'fail'}, "
    text += f"so a grader that {verb} every item agrees on as many and has kappa 0."
    lower = raw[raw["ci_low"] <= alike]
    names = [f"{row['grader']} ({say.share(row)})" for _, row in lower.iterrows()]
    others = f"Not shown to agree more often than that: {say.listing(names)}" if names else ""
    yield f"{text} {others or 'Every grader is shown to agree more often than that'}."
    kappa = say.with_estimate(say.rows_of(agreement, "cohen_kappa"))
    both = raw.merge(kappa, on="grader", suffixes=("", "_kappa"))
    for name in ("estimate", "estimate_kappa"):
        both[f"{name}_place"] = both[name].rank(method="min", ascending=False)
    both["fall"] = both["estimate_kappa_place"] - both["estimate_place"]
    lower = both[both["fall"] > 0].sort_values("fall", ascending=False)
    falls = [
        f"{row['grader']} from place {row['estimate_place']:.0f} ({say.rate(row['estimate'])}) to "
        f"{row['estimate_kappa_place']:.0f} (kappa {say.coefficient(row['estimate_kappa'])})"
        for _, row in lower.iterrows()
    ]
    if falls:
        yield f"Kappa gives another order than agreement. These graders fall: {say.listing(falls)}."
    elif len(both):
        yield "Kappa gives the same order as agreement."


def _unpaired_sentences(pairs: pd.DataFrame) -> Iterator[str]:
    """Count the pairs of graders that differ significantly in agreement; list the other pairs."""
    if pairs.empty:
        return
    ranks = say.with_estimate(say.rows_of(pairs, "agreement_rank"))
    pairs = say.rows_of(pairs, "agreement_difference")
    rows = say.with_estimate(pairs, "p_adjusted")
    alike = rows[rows["p_adjusted"] > 1 - rows["ci_level"]]
    n, differ = len(pairs), len(rows) - len(alike)
    text = f"{differ} of {n} pair{say.plural(n)} of graders "
    text += f"{'differs' if differ == 1 else 'differ'} in agreement, compared as unpaired"
    text += " and adjusted for the number of pairs." if n > 1 else "."
    if len(alike):
        widest = max(alike["ci_high"].max(), -alike["ci_low"].min())
        text += f" Not shown to differ: {_pairs_in_words(alike)}; their intervals allow "
        text += f"differences of up to {say.size(widest)}."
    unknown = pairs[~pairs.index.isin(rows.index)]
    yield text + (f" Not known: {_pairs_in_words(unknown)}." if len(unknown) else "")
    ends = zip(ranks["grader"], ranks["ci_low"], ranks["ci_high"], strict=True)
    places = [f"{g} {a:.0f}" + (f" to {b:.0f}" if b > a else "") for g, a, b in ends]
    if places:
        level = f"{100 * ranks['ci_level'].iloc[0]:g} % certain for all together"
        yield f"Ranks that these pairs allow ({level}): {say.listing(places)}."


def _pairs_in_words(pairs: pd.DataFrame) -> str:
    return ", ".join(f"{row['grader']} and {row['reference']}" for _, row in pairs.iterrows())


def _ceiling_sentences(agreement: pd.DataFrame) -> Iterator[str]:
    """Compare the agreement of graders with a labeller to the agreement between labellers."""
    columns = dict.fromkeys([*agreement.columns, "labeller"])
    agreement = agreement.reindex(columns=list(columns))
    ceilings = agreement[agreement["labeller"].isna() & agreement["measure"].eq(f"ceiling_{_AC1}")]
    known = say.with_estimate(ceilings, "ci_low").set_index("grader")
    if known.empty:
        why = say.reason(ceilings.iloc[0]) if len(ceilings) else "there are no gold labels"
        yield f"How closely a grader could agree is not known: {why}."
        return
    rows = agreement[agreement["measure"].eq(_AC1) & agreement["labeller"].ne(ADJUDICATED)]
    rows = rows[rows["grader"].isin(known.index)].dropna(subset=["labeller", "estimate"])
    first = known.iloc[0]
    yield f"The labellers agree with each other by AC1 {say.coefficient_text(first)}."
    for labeller, part in rows.groupby("labeller", sort=False):
        limits = known.loc[part["grader"], ["ci_low", "ci_high"]].to_numpy()
        places = pd.Series("within", index=part["grader"])
        places = places.mask(part["estimate"].to_numpy() < limits[:, 0], "below")
        places = places.mask(part["estimate"].to_numpy() > limits[:, 1], "above")
        words = [
            f"{say.listing(map(str, names.index))} {'lie' if len(names) > 1 else 'lies'} {where}"
            for where, names in places.groupby(places, sort=False)
        ]
        yield f"By agreement with {labeller}, {' and '.join(words)} this interval."


def _error_sentences(drift: pd.DataFrame) -> Iterator[str]:
    """For each pair of graders, compare their false fails, and name the stricter grader."""
    rows = drift.dropna(subset=["grader", "estimate", "ci_low"])
    for _, row in say.rows_of(rows, "sensitivity_change").iterrows():
        yield f"{graders_compared(row)}."
    for _, row in say.rows_of(rows, "severity_shift").iterrows():
        reference = row["reference"]
        text = say.direction(
            row,
            f"is stricter than {reference} on the same checks",
            f"is more lenient than {reference} on the same checks",
            f"is not shown to be stricter or more lenient than {reference}",
        )
        yield f"{agent_start(row)}{row['grader']} {text}."


def _flip_sentences(counts: pd.DataFrame) -> Iterator[str]:
    """Count the flips (verdicts that differ from the reference) and those that gold confirms."""
    for (name, reference), part in counts.groupby(["grader", "reference"], sort=False):
        flips = part[part["old"].ne(part["new"])]
        up = flips.loc[flips["new"].astype(bool), "count"].sum()
        down, n = flips["count"].sum() - up, part["count"].sum()
        text = f"{name} and {reference} differ on {up + down:,} of {n:,} check{say.plural(n)}: "
        text += f"{up:,} flipped to PASS and {down:,} to FAIL."
        known = flips[flips["gold"].notna()]
        if total := known["count"].sum():
            right = known.loc[known["gold"].eq("PASS") == known["new"].astype(bool), "count"].sum()
            text += f" Of the {total:,} flip{say.plural(total)} with a gold label, {right:,} "
            text += f"{'is' if right == 1 else 'are'} right by gold."
        yield text


def _rule_sentences(rates: pd.DataFrame) -> Iterator[str]:
    """Name the mechanical rules that each grader breaks most often."""
    for keys, part in say.parts_by(rates, "grader", "agent"):
        name = _source_text(keys) + ("," if len(keys) > 1 else "")
        rows = say.with_estimate(part)
        rows = rows[~rows["measure"].isin(_NO_BREACH)]
        broken = rows[rows["estimate"].gt(0)].sort_values("estimate", ascending=False)
        if rows.empty:
            yield f"{name}: no rule applies to what was recorded."
            continue
        text = f"{name} breaks {len(broken) or 'none'} of {len(rows)} applicable rule"
        text += say.plural(len(rows))
        shares = [
            f"{called(row['measure'])} ({say.share(row, row['counted'])})"
            for _, row in broken.head(_MOST).iterrows()
        ]
        more = ", most often" if len(broken) > _MOST else ""
        yield f"{text}{more}: {say.listing(shares)}." if shares else f"{text}."


def _mode_sentences(rates: pd.DataFrame) -> Iterator[str]:
    """Name the most frequent failure mode under each condition."""
    if rates.empty:
        yield "No check failed, so there are no failure modes."
    for (condition, *agent), part in say.parts_by(rates, "condition", "agent"):
        row = say.by_measure(part)
        rest = row.pop(_NONE, None)
        n = part["n"].max()
        start = f"Under {_source_text([called(condition), *agent])}, "
        start += f"{n:,.0f} check{say.plural(n)} failed"
        counts = {mode: r["count"] for mode, r in row.items() if say.has_estimate(r)}
        if not n or not counts:
            yield f"{start}; no failure mode can be decided."
            continue
        most = max(counts, key=lambda mode: counts[mode])
        text = f"{start}: none is known to have one of the six failure modes"
        if counts[most]:
            text = f"{start}, most often by {called(most)} ({say.rate(row[most]['estimate'])})"
        if counts[most] and say.has_estimate(rest):
            most_of = "at most " if rest.get("n_undecided", 0) else ""
            text += f"; {most_of}{say.rate(rest['estimate'])} have none of the six modes"
        yield f"{text}."


def _bias_sentences(audit: pd.DataFrame) -> Iterator[str]:
    """List effects of biases: significant after adjustment, significant only before, unknown."""
    rows = audit[audit["measure"].eq("effect_points") & audit["stratum"].eq("all")]
    effects = say.with_estimate(rows, "ci_low")
    alpha = 1 - effects["ci_level"]
    apart = effects["ci_low"].gt(0) | effects["ci_high"].lt(0)
    shown = apart & effects["p_adjusted"].lt(alpha)
    if effects.empty:
        yield "No effect on a grader can be estimated from these data."
    elif not shown.any():
        n = len(effects)
        start = f"None of {n} effects" if n > 1 else "The only effect that is estimated"
        start += " on the graders is" if n > 1 else " on a grader is not"
        yield f"{start} shown once the p-values are adjusted for all questions asked of a grader."
    for _, row in effects[shown].iterrows():
        yield f"Shown for {_effect_text(row)} ({say.p_value(row['p_adjusted'], 'adjusted p')})."
    if (apart & ~shown).any():
        hints = [_effect_text(row) for _, row in effects[apart & ~shown].iterrows()]
        yield f"Apart from zero when taken alone, but not once adjusted: {'; '.join(hints)}."
    unknown = rows[rows["estimate"].isna()]
    for note, part in unknown.groupby("note", sort=False):
        names = [called(name) for name in dict.fromkeys(_bias_name(r) for _, r in part.iterrows())]
        yield f"{say.listing(names).capitalize()}: {note}."


def _lenience_sentences(audit: pd.DataFrame) -> Iterator[str]:
    """For checks with the same gold label, compare a grader's pass rates by condition."""
    rows = audit[audit["bias"].eq("condition leniency") & audit["stratum"].ne("all")]
    rows = say.with_estimate(rows, "ci_low")
    for (*who, condition), part in say.parts_by(rows, "grader", "agent", "condition"):
        parts = []
        for _, row in part.iterrows():
            gold = "gold passes" if row["stratum"] == "gold pass" else "gold fails"
            word = say.direction(row, "more lenient", "stricter", "no difference is shown")
            parts.append(f"of checks that {gold} {say.points(row)} ({word})")
        start = f"{_source_text(who)}, {say.treatment(condition)} against the reference"
        yield f"{start}: share passed {', '.join(parts)}."


def _copy_sentences(copies: pd.DataFrame) -> Iterator[str]:
    """Count the verdicts that changed when the form of an answer was changed."""
    if copies.empty:
        yield (
            "No copies were graded: sc.bias.perturb makes them, and grade() grades them, without "
            "a model for the change."
        )
    for _, row in copies.iterrows():
        who, n = row.get("grader", "The grader"), row["n_pairs"]
        changed = row["n_to_pass"] + row["n_to_fail"]
        text = f"On copies of the kind '{row['perturbation']}', {who} changed {changed:,.0f} of "
        text += f"{n:,.0f} verdicts: {row['n_to_pass']:,.0f} to PASS, "
        text += f"{row['n_to_fail']:,.0f} to FAIL"
        if say.has_estimate(row):
            word = say.direction(row, "a shift to PASS", "a shift to FAIL", "no shift is shown")
            text += f"; {say.points(row)}, {word}"
        yield f"{text}."


def _position_sentences(position: pd.DataFrame) -> Iterator[str]:
    """Describe how often a pairwise judge keeps its choice when the order is swapped."""
    if position.empty:
        yield "There are no pairwise judgements: sc.live.compare makes them, in both orders."
    for keys, part in say.parts_by(position, "grader"):
        name, row = _source_text(keys), say.by_measure(part)
        kept, first = row.get("position_consistency"), row.get("position_points")
        once = row.get("first_wins")
        if kept is None and say.has_estimate(once):
            yield (
                f"{name} prefers the answer shown first in {say.share(once)} of {once['n']:,.0f} "
                "pairs, each shown in one order that is assumed to be random."
            )
            continue
        if not say.has_estimate(kept):
            lacking = once if kept is None else kept
            why = "no pair was judged in both orders" if lacking is None else say.reason(lacking)
            yield f"{name}: position bias is not known ({why})."
            continue
        text = f"{name} keeps its choice in {say.share(kept, 'pairs')}"
        if say.has_estimate(first):
            word = say.direction(
                first,
                "the answer shown first is preferred",
                "the answer shown second is preferred",
                "no preference for a place is shown",
            )
            text += f"; being shown first is worth {say.points(first)}: {word}"
        yield f"{text}."


def _difference_sentences(errors: pd.DataFrame) -> Iterator[str]:
    """Describe whether the errors of each grader differ between conditions."""
    measures = {"delta_sensitivity": "false fails", "delta_specificity": "false passes"}
    rows = errors[errors["measure"].isin(list(measures))].dropna(subset=["estimate", "ci_low"])
    if rows.empty:
        yield "Whether the errors of a grader differ between conditions is not known."
    for (*who, condition), part in say.parts_by(rows, "grader", "agent", "condition"):
        parts = []
        for _, row in part.iterrows():
            reverse = say.complement_of(0, row)
            word = say.direction(reverse, "more", "fewer", "no difference is shown")
            parts.append(f"{measures[row['measure']]} {say.change(reverse)} ({word})")
        start = f"{_source_text(who)}, {say.treatment(condition)} against the reference"
        yield f"{start}: {', '.join(parts)}."


def _correction_sentences(corrected: pd.DataFrame) -> Iterator[str]:
    """Compare the conclusions before and after the correction, by grader or by skill."""
    columns = say.columns_of(corrected, "skill", "grader", "agent", "condition")
    by = [name for name in columns if corrected[name].nunique() > 1] or columns[:1]
    changes, moved = list[str](), list[float]()
    why: dict[tuple[str, str], list[str]] = {}
    for keys, part in corrected.groupby(by, sort=False):
        first, *others = map(called, keys)
        condition = f" under {others.pop()}" if others and by[-1] == "condition" else ""
        label = ", ".join([first, *others])
        raw, best = say.naive_and_best(part)
        if raw is None or best is None:
            reason = say.reason(part.iloc[0])
            why.setdefault((condition, reason), []).append(label)
            continue
        before, after = (
            say.direction(row, "a gain", "a loss", "no change shown") for row in (raw, best)
        )
        moved.append(float(abs(best["estimate"] - raw["estimate"])))
        if before != after:
            changes.append(f"{label}{condition} ({before} before, {after} after)")
    if moved:
        span = say.count_range(100 * pd.Series(moved))
        n = len(moved)
        yield (
            f"The correction moves {n} estimate{say.plural(n)} by {span} points and changes "
            f"{'the conclusion for ' + say.listing(changes) if changes else 'no conclusion'}."
        )
    for (condition, reason), labels in why.items():
        start = f"No correction is recommended{condition} for {say.listing(labels)}"
        yield f"{start}: {reason}."


def _source_text(names: Sequence[object]) -> str:
    """Name the grader and, if there are several agents, the agent that answered."""
    return ", answers by ".join(map(str, names)) or "The grader"


def _bias_name(row: Row) -> str:
    condition = row.get("condition")
    return f"{row['bias']} ({called(condition)})" if isinstance(condition, str) else row["bias"]


def _effect_text(row: Row) -> str:
    """Describe an effect: grader, bias, size and what one unit of the feature means."""
    start = ", ".join(str(row[name]) for name in say.columns_of(row, "grader", "agent"))
    text = f"{start}, {_bias_name(row)}: {say.points(row)}"
    return text if not isinstance(row.get("per"), str) else f"{text} per {row['per']}"


_TOPICS: dict[str, Callable[[pd.DataFrame], Iterator[str]]] = {
    "ranking": _ranking_sentences,
    "ceiling": _ceiling_sentences,
    "chance": _chance_sentences,
    "unpaired": _unpaired_sentences,
    "errors": _error_sentences,
    "flips": _flip_sentences,
    "rules": _rule_sentences,
    "modes": _mode_sentences,
    "biases": _bias_sentences,
    "leniency": _lenience_sentences,
    "copies": _copy_sentences,
    "position": _position_sentences,
    "differences": _difference_sentences,
    "corrections": _correction_sentences,
}
