"""What estimates say, in sentences: every number comes from a frame, none is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import pandas as pd

from skillcomp.frames.estimates import require_columns
from skillcomp.style import called, quantity

Row = pd.Series
Sentences = Iterator[dict[str, Any]]
_COUNTED = {
    "teaching": ("teaches", "teach"),
    "redundant": ("is redundant", "are redundant"),
    "ineffective": ("changes nothing", "change nothing"),
    "harmful": ("harms", "harm"),
    "undetermined": ("is undetermined", "are undetermined"),
}
_FEW = 4  # skills that are told one by one how many cases they lack
_COEFFICIENTS = {"cohen_kappa": "kappa", "gwet_ac1": "AC1"}
_ESTIMATORS = {
    "naive": "uncorrected",
    "gold_only": "gold alone",
    "ppi": "prediction-powered inference",
    "rogan_gladen_pooled": "Rogan-Gladen, pooled",
    "rogan_gladen_by_arm": "Rogan-Gladen by condition",
}


def findings(
    decided: pd.DataFrame | None,
    *,
    overall: pd.DataFrame | None = None,
    placebo: pd.DataFrame | None = None,
    gap: pd.DataFrame | None = None,
    agreement: pd.DataFrame | None = None,
    drift: pd.DataFrame | None = None,
    corrected: pd.DataFrame | None = None,
    needed: pd.DataFrame | None = None,
    effects: pd.DataFrame | None = None,
    explained: pd.DataFrame | None = None,
    triggers: pd.DataFrame | None = None,
    goals: pd.DataFrame | None = None,
    unusable: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Say in sentences what a study found, skill by skill, and how far its grader can be trusted.

    Parameters
    ----------
    decided : pandas.DataFrame or None
        What :func:`skillcomp.skillverdicts.decide` returns, by skill: gives each verdict. None of
        a study that asked only whether skills fire.
    overall : pandas.DataFrame, optional
        :func:`skillcomp.deltas.paired` over all skills.
    placebo : pandas.DataFrame, optional
        :func:`skillcomp.deltas.paired` by skill with ``reference="placebo"``.
    gap : pandas.DataFrame, optional
        :func:`skillcomp.transfer.gap` over all skills.
    agreement : pandas.DataFrame, optional
        :func:`skillcomp.reliability.agreement` by grader; without it there was no gold.
    drift : pandas.DataFrame, optional
        :func:`skillcomp.reliability.drift`; without it there was one grader in one version.
    corrected : pandas.DataFrame, optional
        :func:`skillcomp.correction.delta` by grader.
    needed : pandas.DataFrame, optional
        :func:`skillcomp.planning.cases_needed` by skill.
    effects : pandas.DataFrame, optional
        :func:`skillcomp.structure.factorial` over all skills.
    explained : pandas.DataFrame, optional
        :func:`skillcomp.structure.score_association` over all skills.
    triggers : pandas.DataFrame, optional
        :func:`skillcomp.triggers.detection` over all skills on offer.
    goals : pandas.DataFrame, optional
        :func:`skillcomp.triggers.goals` by grader.
    unusable : pandas.DataFrame, optional
        One row per grader and reason why a check has no verdict from it: grader, reason, n, of_n
        (verdicts asked of the grader).

    Returns
    -------
    pandas.DataFrame
        One row per sentence: topic (summary, skill, transfer, structure, trigger, grader, drift,
        correction or limits), about (the skill, grader or condition that it is about, NaN where it
        is about all), verdict (of a skill, else NaN), sentence.

    Raises
    ------
    FrameError
        If a frame lacks a column that its sentences read.

    Notes
    -----
    What is not known is said to be so. A skill that teaches is said to beat its placebo only
    where the whole interval of the difference lies above zero, and a gain whose interval reaches
    below the margin is said to. Intervals stand in brackets, differences in percentage points.

    Examples
    --------
    >>> import pandas as pd
    >>> decided = pd.DataFrame({"skill": ["tea"], "condition": ["skill"], "rate": [0.2],
    ...     "reference_rate": [0.6], "estimate": [-0.4], "ci_low": [-0.6], "ci_high": [-0.1],
    ...     "n": [14.0], "margin": [0.1], "verdict": ["harmful"], "note": [""]})
    >>> found = findings(decided)
    >>> print(found.loc[found["topic"].eq("skill"), "sentence"].item())
    tea harms: with the skill 20 % of the answers pass and without it 60 %, 40 points fewer [60 to
    10 fewer] on 14 cases.
    """
    rates, limits = ["rate", "reference_rate"], ["estimate", "ci_low", "ci_high"]
    for frame, names in (
        (decided, ["skill", "condition", *rates, *limits, "n", "margin", "verdict", "note"]),
        (placebo, ["skill", "condition", *limits]),
        (gap, ["measure", "scope", *limits]),
        (effects, ["effect", "at", "reference_rate", *limits]),
        (explained, ["feature", "measure", "estimate", "ci_low"]),
    ):
        if frame is not None:
            require_columns(frame, names, "report.findings")
    formed = [*_of(effects, _structure), *_of(explained, _explained)]
    formed += [*_of(triggers, _triggers), *_of(goals, _goals)]
    rows = formed
    if decided is not None:
        main = _main(decided)
        rows = [
            *_summary(main, overall),
            *(_skill(row, _same(placebo, row)) for _, row in main.iterrows()),
            *_transfer(gap, set(main["condition"])),
            *formed,
            *_graders(agreement),
            *_of(unusable, _unusable),
            *_drift(drift),
            *_of(corrected, _correction),
            # a document without the content is what a placebo would be
            *_unknown(main, effects if placebo is None else placebo, agreement, needed),
        ]
    return pd.DataFrame(rows, columns=["topic", "about", "verdict", "sentence"]).astype("str")


def _said(topic: str, sentence: str, about: Any = None, verdict: Any = None) -> dict[str, Any]:
    return {"topic": topic, "about": about, "verdict": verdict, "sentence": sentence}


def _main(decided: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose verdicts are told: those of the skill, or of what stands for it."""
    conditions = list(decided["condition"].unique())
    told = [c for c in conditions if c == "skill"] or [c for c in conditions if c != "placebo"]
    return decided[decided["condition"].isin(told)]


def _of(frame: pd.DataFrame | None, say: Callable[[pd.DataFrame], Sentences]) -> Sentences:
    """Return what a frame says, nothing where there is none."""
    return iter(()) if frame is None else say(frame)


def _same(frame: pd.DataFrame | None, row: Row) -> Row | None:
    """Return the known row of a frame about the skill and condition of another's."""
    if frame is None:
        return None
    same = frame[frame["skill"].eq(row["skill"]) & frame["condition"].eq(row["condition"])]
    return same.iloc[0] if len(same) == 1 and _known(same.iloc[0]) else None


def _known(row: Row | None) -> TypeGuard[Row]:
    return row is not None and bool(pd.notna(row["estimate"]))


def _by_measure(frame: pd.DataFrame, name: str = "measure") -> dict[Any, Row]:
    return {row[name]: row for _, row in frame.iterrows()}


def _by_grader(frame: pd.DataFrame) -> Iterable[tuple[Any, pd.DataFrame]]:
    one = [("The grader", frame)]
    return frame.groupby("grader", sort=False) if "grader" in frame.columns else one


def _left(total: float, row: Row) -> Row:
    """Return a total minus an estimate, with the interval's ends swapped."""
    ends = {"estimate": "estimate", "ci_low": "ci_high", "ci_high": "ci_low"}
    return pd.Series({name: total - row[other] for name, other in ends.items()})


# Words


def _rate(value: float) -> str:
    return quantity(value, "rate", digits=0 if 0.01 <= value <= 0.99 or value in (0, 1) else 1)


def _points(value: float) -> str:
    return quantity(abs(value), "points", digits=0)


def _signed(value: float) -> str:
    return quantity(value, "points", signed=True, digits=0)


def _limit(value: float) -> str:
    if not float(_points(value)):
        return "0"
    return f"{_points(value)} {'more' if value > 0 else 'fewer'}"


def _range(row: Row) -> str:
    """Return an interval in words: 2 to 49 more, 12 fewer to 45 more."""
    low, high = row["ci_low"], row["ci_high"]
    if pd.isna(low) or pd.isna(high):
        return "no interval"
    if low > 0 or high < 0:
        return f"{_points(low)} to {_limit(high)}"
    return f"{_limit(low)} to {_limit(high)}"


def _limits(row: Row) -> str:
    return f"[{_signed(row['ci_low'])}, {_signed(row['ci_high'])}]"


def _changed(row: Row, unit: str = "") -> str:
    return f"{_signed(row['estimate'])}{unit} {_limits(row)}"


def _share(row: Row, say: Callable[[float], str] = _rate) -> str:
    limits = f" [{say(row['ci_low'])} to {say(row['ci_high'])}]"
    return say(row["estimate"]) + ("" if pd.isna(row["ci_low"]) else limits)


def _percent(value: float) -> str:
    return quantity(value, "rate")


def _change(row: Row) -> str:
    value = row["estimate"]
    if not float(_points(value)):
        return f"no change on average [{_range(row)}]"
    size, word = _points(value), "more" if value > 0 else "fewer"
    return f"{size} point{_s(float(size))} {word} [{_range(row)}]"


def _cases(row: Row) -> str:
    n = row["n"]
    return "" if pd.isna(n) else f" on {n:,.0f} case{_s(n)}"


def _s(count: float) -> str:
    return "" if count == 1 else "s"


def _list(names: Iterable[str]) -> str:
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


# Skills


def _summary(main: pd.DataFrame, overall: pd.DataFrame | None) -> Sentences:
    counts, n = main["verdict"].value_counts(), len(main)
    rows = "skills" if n == main["skill"].nunique() else "conditions"
    found = [(name, words) for name, words in _COUNTED.items() if name in counts]
    parts = [f"{counts[name]} {words[int(counts[name] > 1)]}" for name, words in found]
    if found and counts[found[0][0]] == n:
        verb = found[0][1][int(n > 1)]
        all_ = f"Both {rows}" if n == 2 else f"All {n} {rows}"
        who = all_ if n > 1 else called(main["skill"].iloc[0])
        yield _said("summary", f"{who} {verb}.")
    elif parts:
        yield _said("summary", f"Of {n} {rows} {_list(parts)}.")
    if overall is None:
        return
    for _, row in overall.iterrows():
        what = {"skill": "their skill loaded", "placebo": "a placebo loaded instead"}
        how = what.get(str(row["condition"]), f"the condition {row['condition']}")
        if pd.isna(row["estimate"]):
            yield _said("summary", f"With {how}: not known, {_why(row)}.", row["condition"])
            continue
        without = _rate(row["reference_rate"])
        rates = f"{_rate(row['rate'])} of the answers pass and without {without}"
        sentence = f"Over all skills, with {how} {rates}: {_change(row)}{_cases(row)}."
        yield _said("summary", sentence, row["condition"])


def _why(row: Row, *columns: str) -> str:
    """Return the first reason that a row gives in some columns, else in its note."""
    told = (row.get(column) for column in (*columns, "note"))
    texts = (one.strip() for one in told if isinstance(one, str))
    return next(filter(None, texts), "no reason was recorded")


def _skill(row: Row, beside: Row | None) -> dict[str, Any]:
    name, verdict = called(row["skill"]), row["verdict"]
    if row["condition"] != "skill":
        name = f"{name} ({row['condition']})"
    if pd.isna(row["estimate"]):
        return _said("skill", f"{name} cannot be judged: {_why(row)}.", row["skill"], verdict)
    without, margin = _rate(row["reference_rate"]), _points(row["margin"])
    rates = f"with the skill {_rate(row['rate'])} of the answers pass and without it {without}"
    told = f"{rates}, {_change(row)}"
    if verdict == "redundant":
        told = f"{without} of the answers pass without it; with it {_change(row)}"
    elif verdict == "ineffective":
        told = f"{rates}; the whole interval [{_range(row)}] lies within {margin} points"
    known = verdict if verdict in _COUNTED else "undetermined"
    said = f"{name} {_COUNTED[known][0]}: {told}{_cases(row)}."
    if known == "teaching" and row["ci_low"] <= row["margin"]:
        said += f" A gain within the margin of {margin} points is not excluded."
    elif known == "undetermined":
        said += _open(row, margin)
    return _said("skill", said + _against_placebo(verdict, beside), row["skill"], verdict)


def _open(row: Row, margin: str) -> str:
    """Say what an interval that decides nothing still rules out."""
    low, high, size = row["ci_low"], row["ci_high"], row["margin"]
    if pd.isna(low) or pd.isna(high):
        return ""
    if low > 0 or high < 0:
        if min(abs(low), abs(high)) <= size:
            word = "gain" if low > 0 else "loss"
            return f" A {word} is shown, but perhaps one within the margin of {margin} points."
        return f" Too few cases for a verdict ({_why(row)})."
    ruled = [f"a loss of {margin} points"] if low > -size else []
    ruled += [f"a gain of {margin} points"] if high < size else []
    return f" Ruled out: {_list(ruled)}." if ruled else " Neither a gain nor a loss is ruled out."


def _against_placebo(verdict: str, beside: Row | None) -> str:
    if beside is None:
        return ""
    if beside["ci_low"] > 0:
        return f" Against its placebo: {_change(beside)}."
    if beside["ci_high"] < 0:
        return f" It does worse than its placebo: {_change(beside)}."
    if verdict == "teaching":
        return f" But it is not shown to beat its placebo: {_change(beside)}."
    return f" Against its placebo: {_change(beside)}, which may be chance."


# Near and far


def _transfer(gap: pd.DataFrame | None, conditions: set[Any]) -> Sentences:
    if gap is None:
        yield _said("transfer", "The cases are not marked as near or far: transfer is not known.")
        return
    rows = gap[gap["scope"].eq("within_dimensions")]
    if "condition" in rows.columns:
        rows = rows[rows["condition"].isin(conditions)]
    by_measure = _by_measure(rows)
    found = by_measure.get("gap")
    if not _known(found):
        why = "" if found is None else f": {_why(found)}"
        yield _said("transfer", f"Near and far cases cannot be compared{why}.")
        return
    near, far = by_measure["near_delta"], by_measure["far_delta"]
    text = (
        f"On near cases the skill changes the pass rate by {_changed(near, ' points')}, on far "
        f"cases by {_changed(far)}"
    )
    end = f"no difference is shown: far minus near {_changed(found)}"
    if found["ci_low"] > 0 or found["ci_high"] < 0:
        word = "more" if found["ci_low"] > 0 else "less"
        end = f"far cases change {word}, by {_points(found['estimate'])} points {_limits(found)}"
    about = f" Compared within {found['dimensions']}" if found.get("dimensions") else ""
    cases = f" on {found['n_near']:.0f} near and {found['n_far']:.0f} far cases." if about else ""
    yield _said("transfer", f"{text}; {end}.{about}{cases}")


# Content and form


def _structure(effects: pd.DataFrame) -> Sentences:
    """Say how much of what a document does is one factor and how much the other."""
    of = {(one["effect"], one["at"]): one for _, one in effects.iterrows()}
    factors = [name for name, at in of if not at and any(a for n, a in of if n == name)]
    total = of.get(("total", ""))
    if len(factors) != 2 or pd.isna(of[factors[0], ""]["estimate"]):
        why = _why(next(iter(of.values()))) if of else "no effects were given"
        yield _said("structure", f"What is content and what is form is not known: {why}.")
        return
    first, second = factors
    parts = [f"its {name} by {_changed(of[name, ''])}" for name in factors]
    if _known(total):
        parts.append(f"any document by {_changed(of['any document', ''])}")
        start = f"The document changes the share of answers that pass by {_changed(total)} points: "
    else:
        start = "The document changes the share of answers that pass, in points: "
    yield _said("structure", f"{start}{_list(parts)}{_cases(of[first, ''])}.")
    told = [
        f"where {first} is {at}, {second} changes it by {_changed(row)} points of a room of "
        f"{_points(1.0 - row['reference_rate'])}"
        for (name, at), row in of.items()
        if name == second and at and pd.notna(row["estimate"])
    ]
    if told:
        said = "; ".join(told)
        yield _said("structure", f"{said[:1].upper()}{said[1:]}.")


def _explained(explained: pd.DataFrame) -> Sentences:
    """Say how much a score explains, and how much it would have to explain to be seen."""
    for name, part in explained.groupby("feature", sort=False):
        row = _by_measure(part)
        found = row["r_squared"]
        what = "The structure score" if name == "total" else f"The score {name}"
        if not _known(found):
            yield _said("structure", f"{what} cannot be held against results: {_why(found)}.", name)
            continue
        n, n_skills = f"{found['n']:,.0f} documents", f"{found['n_clusters']:,.0f} skills"
        crossed = row["cross_validated_r_squared"]["estimate"]
        text = (
            f"{what} explains {_share(found, _percent)} of the differences between {n} of "
            f"{n_skills} in what passes (R squared; {_percent(crossed)} cross-validated)."
        )
        least = row["detectable_r_squared"]["estimate"]
        if pd.notna(least):
            text += f" {n_skills} show {_rate(least)} or more, four times in five."
        yield _said("structure", text, name)


# Triggers


def _triggers(found: pd.DataFrame) -> Sentences:
    """Say of each condition how often the right skills fired, and how often a wrong one did."""
    by = [name for name in ("agent", "condition") if name in found.columns]
    for key, part in found[found["estimate"].notna()].groupby(by, sort=False):
        name = ", ".join(map(str, key))
        row = {(one["measure"], one["kind"]): one for _, one in part.iterrows()}
        said = []
        if (exact := row.get(("exact", "all"))) is not None:
            said.append(f"just the right skills are invoked at {_share(exact)} of the prompts")
        if (recall := row.get(("recall", "all"))) is not None:
            kinds = [
                f"{word} {_rate(row['recall', kind]['estimate'])}"
                for kind, word in (("explicit", "named"), ("implicit", "only meant"))
                if ("recall", kind) in row
            ]
            told = f" ({', '.join(kinds)})" if kinds else ""
            said.append(f"a skill that should fire does at {_share(recall)}{told}")
        if (negative := row.get(("specificity", "negative"))) is not None:
            wrong = _share(_left(1, negative))
            said.append(f"the skill tested fires at {wrong} of its negative prompts")
        if not said:
            continue
        n = max(one["n_clusters"] for one in row.values())
        text = f"Triggering ({name}): {'; '.join(said)}; {n:,.0f} prompt{_s(n)}."
        if all(one["estimate"] == 1 for one in (exact, recall, negative) if one is not None):
            text += " All are right: a ceiling, which shows no more than the intervals."
        yield _said("trigger", text, key[-1])


def _goals(found: pd.DataFrame) -> Sentences:
    by = [name for name in ("grader", "condition") if name in found.columns]
    for key, part in found[found["estimate"].notna()].groupby(by, sort=False):
        told = [f"{one['goal']} {_share(one)}" for _, one in part.iterrows()]
        text = f"Goals met ({', '.join(map(str, key))}): {', '.join(told)} of the attempts."
        yield _said("trigger", text, key[-1])


# Graders


def _graders(agreement: pd.DataFrame | None) -> Sentences:
    if agreement is None:
        yield _said("grader", "There are no gold labels: how often the grader errs is not known.")
        return
    for name, part in _by_grader(agreement):
        row = _by_measure(part)
        raw = row.get("raw_agreement")
        if not _known(raw):
            why = "" if raw is None else f": {_why(raw)}"
            yield _said("grader", f"{name}: agreement with gold is not known{why}.", name)
            continue
        coefficients = [
            f"{short} {quantity(row[measure]['estimate'])}"
            for measure, short in _COEFFICIENTS.items()
            if _known(row.get(measure))
        ]
        told = f" ({', '.join(coefficients)})" if coefficients else ""
        said = f"agrees with gold on {_rate(raw['estimate'])} of {raw['n']:,.0f} checks{told}"
        fails, passes = _errors(row.get("specificity")), _errors(row.get("sensitivity"))
        wrong = f"It passes {fails} of what gold fails (false passes)"
        wrong += f" and it fails {passes} of what gold passes (false fails)"
        yield _said("grader", f"{name} {said}. {wrong}.", name)


def _unusable(unusable: pd.DataFrame) -> Sentences:
    """Say how many checks a grader was asked about and has no verdict on."""
    for name, part in _by_grader(unusable):
        n, of_n = part["n"].sum(), part["of_n"].iloc[0]
        reasons = ", ".join(f"{row['n']:,} {called(row['reason'])}" for _, row in part.iterrows())
        text = (
            f"{n:,} of {of_n:,} verdicts by {name} cannot be used ({reasons}): "
            f"{_rate(n / of_n)} of the checks are unknown, and none of them counts as failed."
        )
        yield _said("grader", text, name)


def _errors(row: Row | None) -> str:
    """Return the errors in one direction; sensitivity and specificity are what is left of them."""
    return _share(_left(1, row)) if _known(row) else "an unknown share"


def _drift(drift: pd.DataFrame | None) -> Sentences:
    if drift is None:
        yield _said("drift", "One grader in one version: no drift between graders can be seen.")
        return
    pairs = drift[drift["grader"].notna()] if "grader" in drift.columns else drift.iloc[:0]
    pairs = pairs[pairs["measure"].isin(["specificity_change", "pass_rate_change"])]
    for (name, reference), part in pairs.groupby(["grader", "reference"], sort=False):
        row = _by_measure(part)
        if _known(one := row.get("specificity_change")):
            yield _said("drift", _specificity(name, reference, _left(0, one)), name)
        elif _known(change := row.get("pass_rate_change")):
            yield _said("drift", _pass_rate(name, reference, change), name)


def _specificity(name: Any, reference: Any, row: Row) -> str:
    """Say how many more false passes one grader lets through than another."""
    if row["ci_low"] <= 0 <= row["ci_high"]:
        told = _changed(row, " points")
        return f"{name} and {reference} are not shown to differ in false passes: {told}."
    size = f"{_points(row['estimate'])} points {'more' if row['estimate'] > 0 else 'fewer'}"
    return f"{name} lets through {size} false passes than {reference} {_limits(row)}."


def _pass_rate(name: Any, reference: Any, row: Row) -> str:
    """Say how much larger or smaller the share is that one grader passes, where no gold is."""
    if row["ci_low"] > 0 or row["ci_high"] < 0:
        word = "larger" if row["estimate"] > 0 else "smaller"
        said = f"{name} passes a {word} share of the checks than {reference}"
    else:
        said = f"{name} and {reference} are not shown to differ in the share of checks they pass"
    return f"{said}: {_changed(row)} points."


def _correction(corrected: pd.DataFrame) -> Sentences:
    best: list[float] = []
    for name, part in _by_grader(corrected):
        row = _by_measure(part, "estimator")
        chosen = part[part["recommended"].fillna(False).astype(bool)]
        if "naive" not in row or chosen.empty or pd.isna(chosen["estimate"].iloc[0]):
            why = _why(part.iloc[0], "reason") if len(part) else "no estimate"
            yield _said("correction", f"{name}: no correction is recommended ({why}).", name)
            continue
        raw, kept = row["naive"], chosen.iloc[0]
        best.append(float(kept["estimate"]))
        text = (
            f"By {name} the skill changes the share of checks met by {_changed(raw, ' points')}; "
            f"corrected for its errors by {_ESTIMATORS.get(kept['estimator'], kept['estimator'])}, "
            f"by {_changed(kept)}."
        )
        yield _said("correction", text, name)
    if len(best) > 1:
        spread = _points(max(best) - min(best))
        points = f"{spread} point{_s(float(spread))}"
        yield _said("correction", f"Corrected, the {len(best)} graders lie {points} apart.")


# What the study cannot say


def _unknown(
    main: pd.DataFrame,
    placebo: pd.DataFrame | None,
    agreement: pd.DataFrame | None,
    needed: pd.DataFrame | None,
) -> Sentences:
    undecided = main.loc[main["verdict"].eq("undetermined"), "skill"].drop_duplicates()
    counts = needed[needed["measure"].eq("cases_per_skill")] if needed is not None else None
    if counts is not None and len(undecided) > _FEW and counts["estimate"].notna().any():
        yield _said("limits", _range_of_cases(counts, len(undecided), main["n"]))
        undecided = undecided.iloc[:0]
    for name in undecided:
        mine = counts[counts["skill"].eq(name)] if counts is not None else None
        if mine is None or mine.empty or pd.isna(mine["estimate"].iloc[0]):
            said = f"{called(name)}: how many cases would settle it is not known."
            yield _said("limits", said, name)
            continue
        row, have = mine.iloc[0], main.loc[main["skill"].eq(name), "n"].iloc[0]
        would = f"{row['estimate']:,.0f} cases {_would_show(row)}"
        yield _said("limits", f"{called(name)}: {would}; the study has {have:,.0f}.", name)
    if placebo is None:
        yield _said("limits", "Without a placebo, what any text of that length would do is open.")
    if agreement is None:
        yield _said("limits", "Without gold labels nothing here is corrected for the grader.")
    if main["skill"].nunique() < 20:
        n = main["skill"].nunique()
        verb = "says" if n == 1 else "say"
        yield _said("limits", f"{n} skill{_s(n)} {verb} nothing of skills in general.")


def _span(counts: pd.Series) -> str:
    ends = (f"{counts.min():,.0f}", f"{counts.max():,.0f}")
    return " to ".join(dict.fromkeys(ends))


def _range_of_cases(counts: pd.DataFrame, n_skills: int, have: pd.Series) -> str:
    """Say for many skills at once how many cases would settle them."""
    known, row = counts["estimate"].dropna(), counts.iloc[0]
    would = f"{_span(known)} cases each {_would_show(row)}"
    return f"{n_skills} skills are undetermined: {would}; they have {_span(have)}."


def _would_show(row: Row) -> str:
    return (
        f"of {row['n_repeats']:.0f} repeat{_s(row['n_repeats'])} would show a change of "
        f"{_points(row['size'])} points with {_rate(row['power'])} power"
    )
