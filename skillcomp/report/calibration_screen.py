"""The first screen of a calibration study: the copies that are found, and the false flags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from skillcomp import overlap, plots
from skillcomp.overlap.candidates import COPIES
from skillcomp.report import phrases as say
from skillcomp.report.study_data import StudyData, StudyEstimates
from skillcomp.report.study_screen import StudyScreen, cell_table, topic_sentences
from skillcomp.style import called


def can_calibrate(data: StudyData) -> bool:
    """Return whether the study has copied passages, fresh passages, and their sources."""
    texts = data.passages[data.passages["text"].notna() & data.passages["skill"].isin(data.skills)]
    levels = set(texts["level"])
    return "fresh" in levels and bool(levels & set(COPIES))


def calibration_screen(
    data: StudyData, results: StudyEstimates, grader: str = "", **how: Any
) -> StudyScreen:
    """Calibrate the length of shared n-grams on labelled passages.

    The estimates are added to `results` as ``calibration``.
    """
    # in a skill study, a chapter calibrates on the answers, so leave the answers out here
    alone = data.attempts["answer"].notna().any() and "decided" not in results.frames
    results.add("calibration", True, _calibration, data, with_answers=alone)
    cut = results.frames.get("calibration", pd.DataFrame(columns=["chosen", "measure"]))
    chosen = _chosen_row(cut)
    rows = cut.iloc[:0]
    if chosen is not None:
        rows = cut[cut["rule"].eq(chosen["rule"]) & cut["n"].eq(chosen["n"])]
        rows = say.with_estimate(rows).assign(name=_names_of(rows))
        rows = rows.dropna(subset=["name"]).assign(n=rows["n_texts"])
    headline = _headline(cut, chosen, rows, results)
    limits = _limit_sentences(data, cut, chosen)
    sentences = topic_sentences({"limits": limits}, results.missing)
    table = cell_table([_cells(row) for _, row in rows.iterrows()])
    caption = "Copies found and texts flagged falsely, by length of the n-gram."
    return StudyScreen(
        "calibration study", headline, table, sentences, cut, caption, plots.threshold
    )


def _calibration(data: StudyData, *, with_answers: bool) -> pd.DataFrame:
    """Calibrate on the passages and, if ``with_answers`` is true, on the answers."""
    how: dict[str, Any] = {"skills": data.skills, "tokenizer": data.tokenizer}
    answers: list[pd.DataFrame] = []
    if with_answers:
        shared = overlap.score(data.attempts, cases=data.cases, ngram=range(3, 13), **how)
        answers = [shared, data.attempts]
    return overlap.calibrate(*answers, passages=data.passages, n_resamples=200, **how)


def _chosen_row(cut: pd.DataFrame) -> say.Row | None:
    """Return the row of the chosen length or, if none was chosen, of the estimated length."""
    for measure in ("chosen_n", "estimated_n"):
        rows = say.rows_of(cut, measure)
        if len(rows) and pd.notna(rows["n"].iloc[0]):
            return rows.iloc[0]
    return None


def _names_of(rows: pd.DataFrame) -> pd.Series:
    """Return which texts each row is about, such as copies; NaN for rows that are not shown."""
    name = rows["measure"].str.extract(r"^(?:false_flags|flagged)_(.+)$", expand=False)
    name = name.mask(rows["measure"].eq("sensitivity"), "copies")
    return name.mask(rows["measure"].str.endswith("_at_answer_length"))


def _headline(
    cut: pd.DataFrame, chosen: say.Row | None, rows: pd.DataFrame, results: StudyEstimates
) -> str:
    """Return a sentence on the chosen threshold, the copies that it finds, and its false flags."""
    if chosen is None:
        why = results.missing.get("calibration") or say.reason(cut[cut["chosen"]].iloc[0])
        return f"No length of shared n-grams can be chosen: {why.removesuffix('.')}."
    n, unit = int(chosen["n"]), "content tokens in a row with its source"
    rule = f"shares {n} {unit}"
    if chosen["rule"] == "share":
        rule = f"has {say.rate(chosen['cut'])} of its runs of {n} content tokens in its source"
    of = say.by_measure(rows)
    parts = []
    if say.has_estimate(found := of.get("sensitivity")):
        parts.append(f"this finds {say.share(found, 'copies')}")
    nulls = rows[rows["measure"].str.startswith("false_flags_")]
    flags = [say.share(row, f"{called(row['name'])} texts") for _, row in nulls.iterrows()]
    parts += [f"flags {say.listing(flags)}"] if flags else []
    sure = chosen["measure"] == "chosen_n"
    text = f"A text counts as a copy if it {rule}: {' and '.join(parts)}."
    return text if sure else text.replace("A text counts", "By the estimates alone, a text counts")


def _cells(row: say.Row) -> dict[str, str]:
    flagged = say.rate_text(row)
    cells = {"Texts": called(row["name"]), "Flagged": flagged, "Number": f"{row['n']:,.0f}"}
    cells["Documents"] = f"{row['n_clusters']:,.0f}"
    limit = "" if pd.isna(row["limit"]) else f"at most {say.rate(row['limit'])}"
    return cells | {"Limit": f"{limit}, kept" if row["keeps_limit"] is True else limit}


def _limit_sentences(data: StudyData, cut: pd.DataFrame, chosen: say.Row | None) -> Iterator[str]:
    """Name what limits the calibration, and what shared n-grams cannot show."""
    rows = say.rows_of(cut, "chosen_n")
    if len(rows) and pd.isna(rows["n"].iloc[0]) and chosen is not None:
        yield f"Whether the limit of false flags is kept is not known: {say.reason(rows.iloc[0])}."
    if data.attempts.empty:
        yield "How often answers copy is not known: there are no answers, only passages."
    yield "Copied ideas, rephrased copies and translations are missed: they share no n-gram."
