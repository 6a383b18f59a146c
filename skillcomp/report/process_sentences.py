"""Sentences of the chapters on running a study and on triggers; every number is from a frame."""

from __future__ import annotations

import pandas as pd

from skillcomp.frames.estimates import require_columns
from skillcomp.report import phrases as say
from skillcomp.style import called

_CALLS = {"run": "answers", "grade": "gradings", "compare": "comparisons"}
_EXACT = "delta_exact"


def progress_sentences(progress: pd.DataFrame) -> list[str]:
    """Describe for each agent and grader how many calls are recorded, and how many are left.

    Parameters
    ----------
    progress : pandas.DataFrame
        State of a study, as :func:`skillcomp.run` and :func:`skillcomp.grade` return it: stage,
        name, n_wanted, n_not_ok, n_open.

    Returns
    -------
    list of str
        One sentence for each stage and name, or one for a study without a plan.

    Raises
    ------
    FrameError
        If a column is missing.
    """
    counts = ["n_wanted", "n_not_ok", "n_open"]
    require_columns(progress, ["stage", "name", *counts], "report.progress_sentences")
    sums = progress.groupby(["stage", "name"], sort=False)[counts].sum().reset_index()
    sentences = []
    for _, row in sums.iterrows():
        n, lost, left = (int(row[count]) for count in counts)
        calls = _CALLS.get(row["stage"], "calls")
        text = f"{row['name']}: {n - left:,} of {n:,} {calls} are recorded"
        text += f" ({lost:,} without a result)" if lost else ""
        then = f"{left:,} {'is' if left == 1 else 'are'} left, which the next call asks for"
        sentences.append(f"{text}; {then if left else 'the next call asks for none'}.")
    return sentences or ["Nothing is planned yet: add a skill and a suite, then call sc.run."]


def description_sentences(compared: pd.DataFrame, noise: pd.DataFrame | None = None) -> list[str]:
    """Describe the changes between the conditions of a trigger study, and the size of the noise.

    Parameters
    ----------
    compared : pandas.DataFrame
        Result of :func:`skillcomp.triggers.compare`.
    noise : pandas.DataFrame, optional
        Result of the same function for repeats of one condition, compared as if they were
        conditions.

    Returns
    -------
    list of str
        One sentence for each row with the measure ``delta_exact`` (the change in the share of
        prompts that invoke exactly the right skills), and one on the noise. Empty without such
        rows.

    Raises
    ------
    FrameError
        If a column is missing.
    """
    names = ["condition", "reference", "measure", "estimate", "ci_low", "ci_high"]
    require_columns(compared, names, "report.description_sentences")
    exact = say.rows_of(compared, _EXACT)
    sentences = []
    for _, row in exact.iterrows():
        pair = f"{called(row['condition'])} against {called(row['reference'])}"
        pair += f" ({row['agent']})" if "agent" in exact else ""
        if not say.has_estimate(row):
            sentences.append(f"{pair}: no comparison ({say.reason(row)}).")
            continue
        text = f"{pair}: the share of prompts that invoke exactly the right skills changes by "
        text += say.change(row)
        shown = row["ci_low"] > 0 or row["ci_high"] < 0
        sentences.append(f"{text}{'' if shown else ', which may be chance'}.")
    largest = _largest_change(exact)
    by_chance = float("nan") if noise is None else _largest_change(noise)
    if pd.notna(by_chance) and pd.notna(largest):
        text = f"Repeats of one condition differ by up to {say.size(by_chance)} although "
        text += "nothing changed; the largest difference between conditions is "
        sentences.append(f"{text}{say.size(largest)}.")
    return sentences


def _largest_change(compared: pd.DataFrame) -> float:
    """Return the largest absolute value of ``delta_exact``; NaN without rows."""
    return float(compared.loc[compared["measure"].eq(_EXACT), "estimate"].abs().max())
