"""Sentences on skills, on a copy threshold and on the size of a planned study."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from skillcomp.frames.estimates import require_columns
from skillcomp.report import phrases as say
from skillcomp.report.findings import findings
from skillcomp.report.phrases import Row
from skillcomp.style import called

_PLAN = ["agent", "skill", "grader", "condition", "effect", "cluster", "size", "power", "n_skills"]


def skill_sentences(
    decided: pd.DataFrame,
    *,
    overall: pd.DataFrame | None = None,
    placebo: pd.DataFrame | None = None,
    checked: bool = True,
) -> list[str]:
    """Summarise the verdicts on skills in sentences, without sentences on the graders.

    Parameters
    ----------
    decided, overall, placebo
        As in :func:`skillcomp.report.findings`.
    checked : bool, default True
        Whether there are gold labels. If not, the sentences say that the verdicts are by the grader
        alone.

    Returns
    -------
    list of str
        Sentences on the counts of the verdicts, the effect over all skills, and each skill and
        condition.
    """
    missing = {"agreement": "not shown here"} if checked else {}
    rows = findings(decided, overall=overall, placebo=placebo, missing=missing)
    topics = ["summary", "skill", "condition", "placebo"]
    return rows.loc[rows["topic"].isin(topics), "sentence"].tolist()


def repeat_sentences(
    repeats: pd.DataFrame, every: pd.DataFrame, *, rows: pd.DataFrame | None = None
) -> list[str]:
    """Describe the noise between repeats of the same comparison in sentences.

    Parameters
    ----------
    repeats, every : pandas.DataFrame
        Results of :func:`skillcomp.deltas.paired` for one condition: `repeats` has one row per
        repeat, `every` has one row for all repeats together.
    rows : pandas.DataFrame, optional
        Like `every`, but with each repeat counted as a case of its own. A sentence then shows how
        this mistake changes the standard error.

    Returns
    -------
    list of str
        The range of the changes, and the standard errors of one and of all repeats.
    """
    changes, whole = say.with_estimate(repeats, "se"), every.iloc[0]
    if len(changes) < 2:
        return ["The noise between repeats is not known: fewer than two have a change."]
    low, high = (say.signed(changes["estimate"].agg(end)) for end in ("min", "max"))
    text = f"Taken alone, the {len(changes)} repeats give {say.bare(low)} to {high} (standard "
    text += f"deviation {say.bare(say.size(changes['estimate'].std(), 1))}); together they give "
    sentences = [f"{text}{say.change(whole)}."]
    least, most = (say.size(end, 1) for end in (changes["se"].min(), changes["se"].max()))
    text = f"The standard error is {say.bare(least)} to {most} with one repeat and "
    text += f"{say.size(whole['se'], 1)} with {len(changes)}, because the "
    text += f"{whole['n']:,.0f} cases are the units."
    if rows is not None and say.has_estimate(rows.iloc[0]):
        text += f" With every repeat of a case taken as a unit ({rows['n'].iloc[0]:,.0f}), it "
        text += f"would be {say.size(rows['se'].iloc[0], 1)}."
    return [*sentences, text]


def threshold_sentences(cut: pd.DataFrame, copies: str = "copies") -> list[str]:
    """Summarise a calibration of the n-gram threshold in sentences.

    Parameters
    ----------
    cut : pandas.DataFrame
        Result of :func:`skillcomp.overlap.calibrate`, of all skills or by skill.
    copies : str, default "copies"
        What the copies are called, such as "made-up copies".

    Returns
    -------
    list of str
        For each skill: the threshold, the copies that it finds, the false flags in each null (a
        group of texts that do not copy), and the answers that it flags. Without a threshold, the
        reason.

    Raises
    ------
    FrameError
        If a column is missing.
    """
    columns = ["rule", "n", "cut", "measure", "estimate", "ci_low", "ci_high", "n_texts", "limit"]
    require_columns(cut, [*columns, "chosen", "note"], "report.threshold_sentences")
    return [
        " ".join([*(f"{called(name)}:" for name in skill), *_sentences_of_threshold(part, copies)])
        for skill, part in say.parts_by(cut, "skill")
    ]


def _sentences_of_threshold(cut: pd.DataFrame, copies: str) -> Iterator[str]:
    chosen = say.marked(cut, "chosen")
    if chosen.empty or pd.isna(chosen["estimate"].iloc[0]):
        why = say.reason(chosen.iloc[0]) if len(chosen) else "no row is marked as chosen"
        yield f"With {copies}, no threshold can be chosen: {why}."
        return
    rule, n = chosen["rule"].iloc[0], int(chosen["n"].iloc[0])
    rows = cut[cut["rule"].eq(rule) & cut["n"].eq(n)].dropna(subset=["estimate"])
    how = f"it shares {n} content tokens in a row with its skill"
    if rule == "share":
        share = say.rate(chosen["cut"].iloc[0])
        how = f"at least {share} of its sequences of {n} content tokens are in its skill"
    yield f"With {copies}, a text counts as a copy if {how}."
    for _, row in say.rows_of(rows, "sensitivity").iterrows():
        text = f"This finds {say.share(row)} of {row['n_texts']:,.0f} {copies}"
        edits = pd.isna(row["ci_low"])
        yield f"{text}, which depends on how they were made." if edits else f"{text}."
    null_rows = rows["measure"].str.startswith("false_flags_") & rows["limit"].notna()
    for _, row in rows[null_rows & ~rows["measure"].str.endswith("_at_answer_length")].iterrows():
        name = row["measure"].removeprefix("false_flags_")
        keeps = row["ci_high"] <= row["limit"]
        end = f"{'within' if keeps else 'not shown to be within'} the limit of "
        end += f"{100 * row['limit']:g} %"
        text = (
            f"It flags {say.share(row)} of {row['n_texts']:,.0f} {called(name)} texts, which do not"
        )
        yield f"{text} copy: {end}."
    flagged = rows[rows["measure"].str.startswith("flagged_")]
    parts = [
        f"{say.rate(row['estimate'])} of {called(row['measure'].removeprefix('flagged_'))} texts"
        for _, row in flagged.iterrows()
    ]
    if parts:
        yield f"It flags {say.listing(parts)}; how many of these texts copy is not known."


def plan_sentences(needed: pd.DataFrame) -> list[str]:
    """Summarise in sentences how many cases a study needs.

    Parameters
    ----------
    needed : pandas.DataFrame
        Result of :func:`skillcomp.planning.cases_needed`.

    Returns
    -------
    list of str
        One sentence for each condition, effect, effect size, power and number of skills (and each
        agent, skill, grader and kind of cluster, if there are several). It gives the number of
        cases for each number of repeats, or the reason why this number is not known.

    Raises
    ------
    FrameError
        If a column is missing.
    """
    columns = ["condition", "effect", "size", "power", "n_skills", "n_repeats", "measure"]
    require_columns(needed, [*columns, "estimate", "note"], "report.plan_sentences")
    rows = say.rows_of(needed, "cases_in_all")
    by = say.columns_of(rows, *_PLAN)
    return [_plan_sentence(part) for _, part in rows.groupby(by, sort=False, dropna=False)]


def _plan_sentence(rows: pd.DataFrame) -> str:
    row, known = rows.iloc[0], say.with_estimate(rows)
    what = f"a change of {say.size(row['size'])} by {say.treatment(row['condition'])}"
    if row["effect"] == "gap":
        more = "more" if row["size"] > 0 else "less"
        what = f"that {say.treatment(row['condition'])} changes far cases by "
        what += f"{say.size(row['size'])} {more} than near cases"
    what += "".join(f" ({called(row[name])})" for name in ("skill", "agent") if name in row)
    skills = f"{row['n_skills']:,.0f} skill{say.plural(row['n_skills'])}"
    claim = "" if row["n_skills"] == 1 else f" over these {skills}"
    claim = " for skills in general" if row.get("cluster") == "skill" else claim
    text = f"To show {what}{claim} with {say.rate(row['power'])} power"
    if known.empty:
        return f"{text}, no number of cases can be given: {say.reason(row)}."
    counts = [
        f"{each['estimate']:,.0f} case{say.plural(each['estimate'])} with {_repeats(each)}"
        for _, each in known.iterrows()
    ]
    unknown = rows[rows["estimate"].isna()]
    reasons = [f" With {_repeats(each)}: {say.reason(each)}." for _, each in unknown.iterrows()]
    from_skills = f" from {skills}" if row.get("cluster") == "skill" else ""
    text += f", a study needs {say.listing(counts)} of each condition{from_skills}."
    return text + "".join(reasons)


def _repeats(row: Row) -> str:
    return f"{row['n_repeats']:,.0f} repeat{say.plural(row['n_repeats'])}"
