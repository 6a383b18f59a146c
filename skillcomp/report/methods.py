"""The methods paragraph of a paper, from the columns of estimates."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version

import pandas as pd

from skillcomp.errors import plural
from skillcomp.frames.estimates import columns_of, require_columns
from skillcomp.report.phrases import listing, with_estimate
from skillcomp.style import called

PACKAGES = ("numpy", "pandas", "scipy", "statsmodels")
_NEEDED = ["measure", "estimate", "ci_level", "method"]
_GROUPS = ("skill", "agent", "grader", "condition", "comprehension_dimension")


def methods(*frames: pd.DataFrame) -> str:
    """Describe how estimates were made, as a paragraph for the methods section of a paper.

    Parameters
    ----------
    *frames : pandas.DataFrame
        Results of analyses, such as :func:`skillcomp.deltas.paired` or
        :func:`skillcomp.reliability.agreement`.

    Returns
    -------
    str
        One sentence for each frame with an estimate: the measures, the groups, the reference, the
        ranges of ``n`` and ``n_clusters``, the level of the intervals, and the methods with the
        adjustment of p-values. A note that all its rows share follows. The last sentence has the
        versions of skillcomp, Python and the packages that compute. Empty if no frame has an
        estimate.

    Raises
    ------
    FrameError
        If a frame lacks one of the columns of estimates.

    Examples
    --------
    >>> import pandas as pd
    >>> delta = pd.DataFrame({"skill": ["tea", "jam"], "measure": "delta_passed", "ci_level": 0.95,
    ...     "estimate": [0.4, 0.1], "n": [14.0, 12.0], "n_clusters": 12.0, "reference": "baseline",
    ...     "method": "CR2 t; p adjusted by Holm over 2 rows", "note": ""})
    >>> print(methods(delta).split(". ")[0])
    We estimated change in pass rate, averaged over attempts and then over cases, for 2 skills,
    compared with baseline, from n = 12 to 14 in 12 clusters, with 95 % intervals: CR2 t; p adjusted
    by Holm over 2 rows
    """
    sentences = []
    for frame in frames:
        require_columns(frame, _NEEDED, "report.methods")
        rows = with_estimate(frame)
        if rows.empty:
            continue
        text = f"We estimated {listing(dict.fromkeys(map(called, rows['measure'])))}"
        if rows["measure"].str.startswith(("delta_", "rate_")).any():
            text += ", averaged over attempts and then over cases,"
        groups = [_group_in_words(name, rows[name]) for name in columns_of(rows, *_GROUPS)]
        text += f" for {listing(groups)}" if groups else ""
        if "reference" in rows and rows["reference"].notna().any():
            text += f", compared with {listing(rows['reference'].dropna().unique())}"
        counts = rows.get("n_texts", rows.get("n"))  # `n` of a calibration is the n-gram length
        text += _range(", from n = {}", counts) + _range(" in {} clusters", rows.get("n_clusters"))
        levels = [f"{100 * level:.3g} %" for level in rows["ci_level"].dropna().unique()]
        text += f", with {listing(levels)} intervals" if levels else ""
        names = rows["method"].dropna().str.replace(r", lambda=[\d.]+", "", regex=True)
        parts = dict.fromkeys(part for name in names for part in called(name).split("; "))
        notes = rows.get("note", pd.Series("", rows.index)).unique()
        shared = f" ({notes[0]})" if len(notes) == 1 and notes[0] else ""
        sentences.append(f"{text}: {'; '.join(parts)}{shared}.")
    if not sentences:
        return ""
    packages = listing(f"{name} {version(name)}" for name in PACKAGES)
    made = f"Estimates were computed by skillcomp {version('skillcomp')} with Python"
    return " ".join([*dict.fromkeys(sentences), f"{made} {python_version()}, {packages}."])


def _group_in_words(column: str, values: pd.Series) -> str:
    """Return the only value of a column, or the number of its values."""
    kind, names = column.split("_")[-1], values.dropna().unique()
    return f"the {kind} {called(names[0])}" if len(names) == 1 else plural(len(names), kind)


def _range(phrase: str, counts: pd.Series | None) -> str:
    """Put the lowest and the highest count above 0 into a phrase; empty if there is none."""
    known = [] if counts is None else counts[counts.gt(0)].tolist()
    ends = dict.fromkeys(f"{end:,.0f}" for end in (min(known), max(known))) if known else ()
    return phrase.format(" to ".join(ends)) if ends else ""
