"""The verdicts on skills in words: counts, evidence, reasons, and what would settle them."""

from __future__ import annotations

import re

import pandas as pd

from skillcomp.frames.contracts import DIFFERENT_MODELS, REPLACED
from skillcomp.frames.estimates import columns_of
from skillcomp.report.phrases import (
    Row,
    Sentence,
    Sentences,
    change,
    count_range,
    direction,
    fields_of,
    filled,
    has_estimate,
    listing,
    marked,
    matching_row,
    on_cases,
    p_value,
    plural,
    rate,
    reason,
    signed,
    size,
    skill_and_agent,
    treatment,
    unit_of,
    unit_of_rows,
    with_estimate,
    without,
)
from skillcomp.skillverdicts.corrected_deltas import FEWEST_GOLD, NAIVE
from skillcomp.style import called

RATES = "with {how} {rate:rate} of the {what} pass and {without} {reference_rate:rate}"
_MEAN_SCORES = "the mean score with {how} is {rate:rate} and {without} {reference_rate:rate}"
# verdict -> its verb for one and for several skills, and its reason
_VERDICTS = {
    "teaching": ("teaches", "teach", "{row:limits} is above the margin of {margin:size}"),
    "helps": ("helps", "help", "{row:limits} excludes 0, but not a gain within the margin"),
    "redundant": (
        "is redundant",
        "are redundant",
        "{row:limits} adds little to {reference_rate:rate}",
    ),
    "ineffective": (
        "changes nothing",
        "change nothing",
        "{row:limits} is within the margin of {margin:size}",
    ),
    "hurts": ("hurts", "hurt", "{row:limits} excludes 0, but not a loss within the margin"),
    "harmful": ("harms", "harm", "{row:limits} is below a loss of {margin:size}"),
    "undetermined": (
        "is undetermined",
        "are undetermined",
        "{row:limits}; a change below {detectable:size} may go unseen",
    ),
}
_LOSSES = ["hurts", "harmful"]
_UNSEEN = "even the largest possible change may go unseen"
_FEW = 4  # With more undetermined skills than this, there are no sentences on single skills.
FIXED_IN_ADVANCE = (
    "A number of cases that rests on the change observed can be too small or too large by chance. "
    "Fix the number of cases in advance: a t test looked at after 20, 40, 80 and 160 cases errs in "
    "14 % of null studies, not 5 %."
)


def main_rows(decided: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the condition ``skill``; if there are none, of all except the placebo."""
    for chosen in (decided["condition"].eq("skill"), decided["condition"].ne("placebo")):
        if chosen.any():
            return decided[chosen]
    return decided


def is_unchecked(decided: pd.DataFrame) -> bool:
    """Return whether no verdict is corrected or could be confirmed by gold."""
    return "n_gold" not in decided or not decided["n_gold"].gt(0).any()


def verdict_sentences(decided: pd.DataFrame) -> Sentences:
    """Count the verdicts, and describe each."""
    unchecked = is_unchecked(decided)
    yield from headline_sentences(main_rows(decided), unchecked)
    yield from row_sentences(decided, unchecked)


# start of a note that the page says first -> what it means for the result
_CAUTIONS = {
    DIFFERENT_MODELS: "a change may be that of the models",
    REPLACED: "this alone changes the pass rates",
}


def headline_sentences(main: pd.DataFrame, unchecked: bool) -> Sentences:
    """Count the verdicts; ``unchecked`` means that the study has no gold."""
    for start, end in _CAUTIONS.items():
        for text in main["note"].str.extract(f"({start}[^;]*)")[0].dropna().unique():
            yield Sentence(f"{text[:1].upper()}{text[1:]}; {end}.")
    n, rows = len(main), unit_of_rows(main)
    if n > len(main.drop_duplicates(columns_of(main, "skill", "agent"))):
        rows = "conditions" if main["skill"].nunique() == 1 else "pairs of skill and condition"
    parts = _counts_in_words(main["verdict"])
    if not parts:
        return
    text = f"Of {n} {rows}, {listing(parts)}"
    if len(parts) == 1 and main["verdict"].isin(list(_VERDICTS)).all():
        everyone = f"Both {rows}" if n == 2 else f"All {n} {rows}"
        text = everyone if n > 1 else called(main["skill"].iloc[0])
        text += f" {parts[0].split(' ', 1)[1]}"
    if unchecked:
        first = text[:1].lower() if n > 1 else text[:1]
        what = "scores" if unit_of(main.iloc[0]) == "score" else "grader"
        text = f"Nobody has checked the {what}. By the grader alone: {first}{text[1:]}"
    open_ = main[main["verdict"].eq("undetermined")]
    alone = [row["verdict_uncorrected"] for _, row in open_.iterrows() if is_unconfirmed(row)]
    if alone:
        n_open = len(open_)
        parts = _counts_in_words(pd.Series(alone + ["undetermined"] * (n_open - len(alone))))
        words = listing(parts)
        if len(parts) == 1:
            words = f"{'it' if n_open == 1 else 'they'} {parts[0].split(' ', 1)[1]}"
        of_these = "of these, " if 1 < n_open < n and len(parts) > 1 else ""
        text += f"; {of_these}by the grader alone {words}"
    yield Sentence(f"{text}.")


def _counts_in_words(verdicts: pd.Series) -> list[str]:
    counts = verdicts.value_counts()
    words = {name: forms for name, forms in _VERDICTS.items() if name in counts}
    return [f"{counts[name]} {forms[int(counts[name] > 1)]}" for name, forms in words.items()]


def overall_sentences(
    overall: pd.DataFrame, corrected: pd.DataFrame | None, main: pd.DataFrame
) -> Sentences:
    """Describe the change over all skills, its correction, and name the skills with a loss."""
    single = main["skill"].nunique() == 1
    several_agents = "agent" in main and main["agent"].nunique() > 1
    for _, row in overall.iterrows():
        condition = row["condition"]
        how = treatment(condition, row.get("reference"))
        loaded = "the skill loaded" if single else "their skill loaded"
        how = {"the skill": loaded, "a placebo": "a placebo loaded instead"}.get(how, how)
        others = without(row.get("reference", "baseline")).removesuffix(" it")
        fields = fields_of(row, {"how": how, "without": others})
        over = "agents" if single else "skills"
        if several_agents:
            over = "agents" if single else "skills and agents"
            over += " (agents averaged within each case)"
        text = f"With {how}: not known, {reason(row)}."
        if has_estimate(row):
            text = filled([_levels_of(row) + ": {row:change}{row:cases}"], fields)
            lone = single and not several_agents
            text = f"{text[0].upper()}{text[1:]}" if lone else f"Over all {over}, {text}"
            if corrected is not None:
                best = marked(corrected[corrected["condition"].eq(condition)])
                best = with_estimate(best, "ci_low")
                if best.empty or not _is_corrected(best.iloc[0]):
                    text += "; not corrected"
                else:
                    text += f"; corrected for the grader's errors, {change(best.iloc[0])}"
            text += "."
        yield Sentence(text + _losses_in_words(main[main["condition"].eq(condition)]), condition)


def _losses_in_words(main: pd.DataFrame) -> str:
    """Name the skills with a loss, then those with an unconfirmed loss."""
    rows = [row for _, row in main.iterrows()]
    open_ = [row for row in rows if is_unconfirmed(row)]
    losses = {
        "A loss is": [row for row in rows if row["verdict"] in _LOSSES],
        "A loss by the grader alone, not confirmed, is": [
            row for row in open_ if row["verdict_uncorrected"] in _LOSSES
        ],
    }
    texts = [
        f" {start} shown for {listing(map(skill_and_agent, part))}."
        for start, part in losses.items()
        if part
    ]
    return "".join(texts)


def row_sentences(
    rows: pd.DataFrame,
    unchecked: bool,
    placebo: pd.DataFrame | None = None,
    previous: pd.DataFrame | None = None,
) -> Sentences:
    """Describe each verdict and its evidence; a placebo has only evidence."""
    for _, row in rows.iterrows():
        name = skill_and_agent(row)
        name += f" ({row['condition']})" if row["condition"] != "skill" else ""
        if pd.isna(row["estimate"]):
            text = f"{name} cannot be judged: {reason(row)}."
        elif row["condition"] == "placebo":
            text = f"{name}: {_evidence(row)}{on_cases(row)}."
            yield Sentence(text, row["skill"])
            continue
        else:
            others = matching_row(placebo, row), matching_row(previous, row)
            text = _verdict_in_words(name, row, *others, unchecked)
        yield Sentence(text, row["skill"], row["verdict"], _reason_of_verdict(row))


def _verdict_in_words(
    name: str, row: Row, placebo: Row | None, previous: Row | None, unchecked: bool
) -> str:
    """Describe the verdict on a skill, the evidence for it, and what limits it."""
    verdict = row["verdict"] if row["verdict"] in _VERDICTS else "undetermined"
    claim, overturned = _VERDICTS[verdict][0], row.get("overturned", False)
    if unconfirmed := is_unconfirmed(row):
        n, alone = row["n_gold"], row["verdict_uncorrected"]
        claim = alone if alone in ("helps", "hurts") else f"is {alone}"
        claim += " by the grader, not confirmed"
        claim += f" by labels on {plural(n, 'case')}" if n else ", as no case has a label"
    elif unchecked and verdict != "undetermined":
        claim += " by the grader alone"
    counts = row.drop(["n_missing", "n_missing_reference"]) if overturned else row
    text = f"{name} {claim}: {_evidence(row)}{on_cases(counts)}."
    if unconfirmed:
        alone = _shown_alone_in_words(row, "Corrected and taken alone it")
        return f"{text}{alone} {_labels_in_words(row)}"
    if overturned:
        text += _missing_answers_in_words(row)
        if verdict == "undetermined" and not row["assume_missing"]:
            return text
    margin = size(row["margin"], unit=unit_of(row))
    if verdict in ("helps", "hurts"):
        effect = "gain" if verdict == "helps" else "loss"
        text += f" The {effect} may be smaller than the margin of {margin}."
    elif verdict == "undetermined":
        text += _what_is_ruled_out(row, margin)
    alone = " (grader alone)" if _is_corrected(row) else ""
    text += _comparison_in_words(verdict, placebo, f"its placebo{alone}")
    return text + _comparison_in_words("", previous, f"the previous version{alone}")


def _levels_of(row: Row) -> str:
    return _MEAN_SCORES if unit_of(row) == "score" else RATES


def _evidence(row: Row) -> str:
    """Describe the rates and the change (corrected, if there is a correction) behind a verdict."""
    within = row.get("verdict") == "ineffective"
    effect = "the whole interval {row:limits} is within {margin:size}" if within else "{row:change}"
    phrase = f"{_levels_of(row)}{'; ' if within else ', '}{effect}"
    if _is_corrected(row):
        phrase = f"{RATES} by the grader; corrected, {effect}"
    elif row.get("verdict") == "redundant" and unit_of(row) != "score":
        phrase = "{reference_rate:rate} of the {what} pass {without}; with it {row:change}"
    return filled([phrase], fields_of(row))


def _is_corrected(row: Row) -> bool:
    return row.get("estimator") not in (None, "", NAIVE)


def is_unconfirmed(row: Row) -> bool:
    """Return whether the grader alone gives a verdict that the correction does not confirm."""
    alone = row.get("verdict_uncorrected", "undetermined")
    return bool(row["verdict"] == "undetermined" != alone and not is_overturned(row))


def is_overturned(row: Row) -> bool:
    """Return whether the missing answers could overturn a verdict, and nothing is assumed."""
    return bool(row.get("overturned", False) and not row.get("assume_missing", ""))


def is_short_of_cases(row: Row) -> bool:
    """Return whether more cases could settle a verdict: not labels, and not missing answers."""
    return row["verdict"] == "undetermined" and not (is_unconfirmed(row) or is_overturned(row))


def _reason_of_verdict(row: Row) -> str | None:
    """Give the reason for a verdict in at most twelve words; None without a verdict."""
    if row["verdict"] not in _VERDICTS:
        return None
    if pd.isna(row["ci_low"]):
        return "there is no interval"
    if is_overturned(row):
        return "the missing answers could overturn it"
    if is_unconfirmed(row):
        return f"labels on {plural(row['n_gold'], 'case')} do not confirm the grader's verdict"
    phrase = _VERDICTS[row["verdict"]][2]
    if row["verdict"] == "undetermined":
        inside = row["ci_low"] > -row["margin"] and row["ci_high"] < row["margin"]
        if row["ci_low"] > 0 or row["ci_high"] < 0:
            phrase = "{row:limits} excludes 0, but not once adjusted for all verdicts"
        elif inside:
            phrase = "{row:limits} is within the margin, but not once adjusted"
        elif row.get("detectable") == float("inf"):
            phrase = f"{{row:limits}}; {_UNSEEN}"
        elif pd.isna(row.get("detectable")):  # rows saved before there was this column
            phrase = "{row:limits} includes 0 and changes beyond the margin"
    return filled([phrase], fields_of(row))


def _labels_in_words(row: Row) -> str:
    """Describe how many more labelled cases would decide the verdict."""
    n, more = int(row["n_gold"]), row["labels_needed"]
    if more == float("inf"):
        cases = plural(row["n"], "case")
        return f"Labels on all {cases} would not decide; more cases are needed."
    if pd.notna(more):
        return f"Labels on about {plural(more, 'more case')} would decide."
    if n < FEWEST_GOLD:
        return f"Labels on at least {plural(FEWEST_GOLD - n, 'more case')} are needed."
    return "How many more labels would decide is not known."


def _shown_alone_in_words(row: Row, subject: str) -> str:
    """Describe a gain or loss that is significant before p-values are adjusted, if there is one."""
    low, high, p = row["ci_low"], row["ci_high"], row.get("p_adjusted", float("nan"))
    if not (low > 0 or high < 0) or (is_unconfirmed(row) and not _is_corrected(row)):
        return ""
    text = f" {subject} shows a {'gain' if low > 0 else 'loss'}"
    if pd.isna(p):
        return f"{text}, without an adjusted p-value."
    if verdicts := _adjusted_verdicts(row):
        return f"{text}; adjusted for {verdicts} it does not ({p_value(p, 'adjusted p')})."
    return f"{text} by its interval, but not by its p-value ({p_value(p)})."


def _adjusted_verdicts(row: Row) -> str:
    """Name the number of verdicts over which p-values are adjusted; "" if there is one."""
    family = re.search(r"by Holm over (\d+)", str(row.get("method", "")))
    return f"the {plural(int(family[1]), 'verdict')}" if family else ""


def _missing_answers_in_words(row: Row) -> str:
    """Describe the missing answers that could overturn a verdict, and what is assumed of them."""
    phrase = (
        " {n_missing:,.0f} of {n_attempts:,.0f} answers under {condition} and "
        "{n_missing_reference:,.0f} of {n_attempts_reference:,.0f} answers under {reference} are "
        "missing: if all had gone against {condition}, the change would be {worst_low:signed}; if "
        "all for it, {worst_high:signed}. The verdict "
    )
    end = "therefore stays open."
    if row["assume_missing"]:
        end = f"assumes that they are missing {row['assume_missing']}."
    return filled([phrase], fields_of(row)) + end


def _what_is_ruled_out(row: Row, margin: str) -> str:
    """Describe the gains or losses that the interval of an undetermined skill excludes."""
    low, high, most = row["ci_low"], row["ci_high"], row["margin"]
    if pd.isna(low) or pd.isna(high):
        return ""
    if low > 0 or high < 0:
        return _shown_alone_in_words(row, "Taken alone this row")
    if low > -most and high < most:
        verdicts = _adjusted_verdicts(row) or "several verdicts"
        return f" The interval is within {margin}, but not once adjusted for {verdicts}."
    ruled = [f"a loss of {margin}"] if low > -most else []
    ruled += [f"a gain of {margin}"] if high < most else []
    text = " Neither a gain nor a loss is ruled out."
    if ruled:
        text = f" Ruled out: {listing(ruled)}."
    if pd.isna(row.get("detectable")):
        return text
    if row["detectable"] == float("inf"):
        return f"{text} In such a study {_UNSEEN}."
    effect = f"A change of {size(row['detectable'], unit=unit_of(row))}"
    return f"{text} {effect} would have been shown in 8 of 10 such studies."


def _comparison_in_words(verdict: str, row: Row | None, other: str) -> str:
    if row is None:
        return ""
    lost = f"But it is not shown to beat {other}" if verdict in ("teaching", "helps") else ""
    start = direction(row, f"Against {other}", f"It does worse than {other}", lost)
    end = "" if start else ", which may be chance"
    return f" {start or f'Against {other}'}: {change(row)}{end}."


# The number of cases that would settle a verdict


def settling_sentences(undecided: pd.DataFrame, needed: pd.DataFrame | None) -> Sentences:
    """Describe how many cases each undetermined skill needs."""
    open_ = [row for _, row in undecided.iterrows()]
    parts = [_rows_needed(needed, row) for row in open_]
    any_known = any(map(len, parts))
    corrected = list(map(_is_corrected, open_))
    if len(undecided) > 1 and any_known:
        firsts = pd.DataFrame([rows.iloc[0] for rows in parts if len(rows)])
        counts, n = firsts["estimate"].dropna(), len(undecided)
        n_settled = len(counts) or len(firsts)
        text = (
            f"{n} {unit_of_rows(undecided)} are undetermined, with {count_range(undecided['n'])} "
            "cases each. If the changes are as estimated, it takes "
            f"{count_range(counts) if len(counts) else 'more than 2,000'} cases to settle "
            f"{'all' if n_settled == n else n_settled} of them"
        )
        text += " by the grader alone" if any(corrected) else ""
        yield Sentence(f"{text}, {_plan_in_words(firsts.iloc[0])}.")
    if len(undecided) <= _FEW or not any_known:
        for rows, alone, row in zip(parts, corrected, open_, strict=True):
            text = f"{skill_and_agent(row)}: how many cases would settle it is not known."
            if len(rows):
                how = "estimated" if alone else "observed"
                text = f"{skill_and_agent(row)}: if the change is as {how} "
                text += f"({signed(rows['size'].iloc[0])}), "
                text += "by the grader alone, " if alone else ""
                pairs = [(_count_needed(each), _shown_by(each)) for _, each in rows.iterrows()]
                first = f"{pairs[0][0]} cases would show {pairs[0][1]}"
                words = [first, *(" ".join(pair) for pair in pairs[1:])]
                text += f"{listing(words)}, {_plan_in_words(rows.iloc[0])}."
            yield Sentence(text, row["skill"])
    if any_known:
        yield Sentence(FIXED_IN_ADVANCE)


def _rows_needed(needed: pd.DataFrame | None, row: Row) -> pd.DataFrame:
    """Return the rows of `needed` for one skill that have a number of cases."""
    if needed is None or needed.empty:
        return pd.DataFrame()
    keys = columns_of(row, "skill", "agent", "condition")
    rows = needed[needed[keys].eq(row[keys]).all(axis=1)]
    return rows[rows["estimate"].notna() | rows["note"].str.startswith("more than ")]


def _count_needed(row: Row) -> str:
    if has_estimate(row):
        return f"{row['estimate']:,.0f}"
    return f"more than {int(str(row['note']).split()[2]):,}"


def _shown_by(row: Row) -> str:
    """Name what a study with this number of cases would show."""
    if abs(row["size"]) < row["margin"]:
        return "no change beyond the margin"
    effect = "a gain" if row["size"] > 0 else "a loss"
    return f"{effect} beyond the margin" if row["margin"] else effect


def _plan_in_words(row: Row) -> str:
    return f"with {rate(row['power'])} power and {plural(row['n_repeats'], 'repeat')}"
