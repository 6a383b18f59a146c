"""What every analysis shares: one grader at a time, groups of ``by``, rows of estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contracts import CONTRACTS, check
from skillcomp.errors import FrameError, suggest
from skillcomp.stats.results import Interval, check_level

# columns that analyses make themselves; in by= they would be written over
RESERVED = frozenset(
    (*CONTRACTS["estimates"].columns, "cluster", "n_passed", "share", "rate", "reference_rate")
)
GRADER = ("grader", "grader_version", "round")


def listed(by: str | Sequence[str] | None) -> list[str]:
    """Return ``by`` as a list; a single name is taken as a list of one."""
    if by is None:
        return []
    return [by] if isinstance(by, str) else list(by)


def require_columns(frame: pd.DataFrame, names: Sequence[str], what: str) -> None:
    """Raise FrameError when one of ``names`` is not a column of ``frame``."""
    for name in names:
        if name not in frame.columns:
            raise FrameError(
                f"{what}: there is no column '{name}'; there: {', '.join(map(str, frame.columns))}."
                + suggest(name, [str(c) for c in frame.columns])
            )


def require_one_grader(
    frame: pd.DataFrame, by: Sequence[str], what: str, *, copies: bool = False
) -> None:
    """Raise FrameError when graders, versions, rounds or altered copies would be pooled silently.

    Parameters
    ----------
    frame : pandas.DataFrame
        A verdicts or outcomes frame.
    by : sequence of str
        The columns by which the analysis keeps rows apart.
    what : str
        The analysis, for the message.
    copies : bool, default False
        Whether the analysis needs altered copies beside the answers and keeps them apart itself.
    """
    for name in by:
        if name in RESERVED:
            raise FrameError(
                f"{what}: by= names '{name}', which is a column of the result. Rename yours."
            )
    kept: list[str] = []
    for name in GRADER:
        if name not in frame.columns:
            continue
        if name in by:
            kept.append(name)
            continue
        several = (
            frame.groupby(kept, dropna=False)[name].nunique(dropna=False)
            if kept
            else pd.Series([frame[name].nunique(dropna=False)])
        )
        if (several > 1).any():
            found = sorted(map(str, frame[name].unique()))
            raise FrameError(
                f"{what}: the frame holds more than one {name}: {', '.join(found)}. "
                f"Add '{name}' to by=, or select one first: pooling them would hide their "
                "differences."
            )
    if not copies:
        require_no_copies(frame, by, what)


def require_no_copies(frame: pd.DataFrame, by: Sequence[str], what: str) -> None:
    """Raise FrameError when altered copies of answers would be taken for repeats of them.

    Parameters
    ----------
    frame : pandas.DataFrame
        A verdicts or outcomes frame; without a column ``perturbation`` all is as given. A missing
        value, ``none`` and an empty text are the answer itself.
    by : sequence of str
        The columns by which the analysis keeps rows apart.
    what : str
        The analysis, for the message.
    """
    if "perturbation" in by or "perturbation" not in frame.columns:
        return
    names = frame["perturbation"].unique()
    found = sorted({"none" if pd.isna(name) or name == "" else str(name) for name in names})
    if len(found) > 1:
        raise FrameError(
            f"{what}: the frame holds altered copies beside the answers (perturbation: "
            f"{', '.join(found)}). Add 'perturbation' to by=, or select one first: a copy is no "
            "repeat of its answer."
        )


def require_one_agent(frame: pd.DataFrame, by: Sequence[str], what: str) -> None:
    """Raise FrameError when answers of several agents would be taken for repeats of one.

    Parameters
    ----------
    frame : pandas.DataFrame
        An outcomes frame.
    by : sequence of str
        The columns by which the analysis keeps rows apart.
    what : str
        The analysis, for the message.
    """
    if "agent" in by or "agent" not in frame.columns:
        return
    found = sorted(map(str, frame["agent"].unique()))
    if len(found) > 1:
        raise FrameError(
            f"{what}: the frame holds answers of more than one agent: {', '.join(found)}. "
            "Add 'agent' to by=, or select one first: they are no repeats of each other."
        )


def check_settings(what: str, ci_level: float, n_resamples: int | None = None) -> None:
    """Refuse a level or a number of resamples that no interval can be made with.

    Parameters
    ----------
    what : str
        The analysis, for the message.
    ci_level : float
        Confidence level, strictly between 0 and 1.
    n_resamples : int, optional
        Resamples, at least 1.

    Raises
    ------
    FrameError
        With what was found and what is allowed.
    """
    try:
        check_level(ci_level)
    except (TypeError, ValueError):
        hint = " Did you mean 0.95?" if ci_level == 95 else ""
        raise FrameError(
            f"{what}: ci_level: found {ci_level!r}; allowed: a number strictly between 0 and 1."
            + hint
        ) from None
    whole = isinstance(n_resamples, int) and not isinstance(n_resamples, bool)
    if n_resamples is not None and not (whole and n_resamples >= 1):
        raise FrameError(
            f"{what}: n_resamples: found {n_resamples!r}; allowed: a whole number of 1 or more."
        )


def groups(frame: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the ``by`` values and the rows of each group, in order of first appearance."""
    if not by:
        yield {}, frame
        return
    for key, rows in frame.groupby(list(by), sort=False, dropna=False, observed=True):
        yield dict(zip(by, key, strict=True)), rows


def row(measure: str, interval: Interval, **columns: Any) -> dict[str, Any]:
    """Return one row of an estimates frame from an interval and further columns."""
    return {
        **columns,
        "measure": measure,
        "estimate": interval.estimate,
        "ci_low": interval.low,
        "ci_high": interval.high,
        "ci_level": interval.ci_level,
        "n": interval.n,
        "n_clusters": interval.n_clusters,
        "p_value": interval.p_value,
        "p_adjusted": np.nan,
        "method": interval.method,
        "note": interval.note,
    }


def estimates(
    rows: Sequence[Mapping[str, Any]], *, by: Sequence[str], extra: Sequence[str] = ()
) -> pd.DataFrame:
    """Return rows as an estimates frame: ``by``, the contract's columns, then ``extra``.

    Parameters
    ----------
    rows : sequence of mapping
        As made by :func:`row`.
    by : sequence of str
        Columns that name the row; they come first.
    extra : sequence of str
        Named diagnostics that come last.
    """
    shape = list(CONTRACTS["estimates"].columns)
    names = [*by, *shape, *extra]
    frame = pd.DataFrame([dict(one) for one in rows], columns=pd.Index(names))
    checked = check(frame, "estimates")
    checked["note"] = checked["note"].fillna("")
    return checked[names]
