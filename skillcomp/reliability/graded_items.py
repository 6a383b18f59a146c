"""The opening of all analyses of graders: verdicts or scores on items, and gold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from skillcomp.contrast import Bounds, check_bounds, ends_of
from skillcomp.errors import FrameError, argument, require_known
from skillcomp.frames.check import check, settle
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    group_codes,
    listed,
    require_columns,
)
from skillcomp.frames.reference_labels import (
    ADJUDICATED,
    DISPUTED,
    ITEM,
    clustered_verdicts,
    join_gold,
    reference_labels,
    require_scores,
    usable,
)
from skillcomp.stats.results import NAN, Fields, join_notes

GradedValue = Literal["passed", "score"]
_SPANS = ("estimate", "ci_low", "ci_high", "se", "worst_low", "worst_high")
LEVELS = ["rate", "reference_rate"]


class Graded(NamedTuple):
    """Verdicts that were opened for an analysis.

    Attributes
    ----------
    rows : pandas.DataFrame
        One row per verdict: its columns; ``cluster``; ``gold`` with the other columns of
        ``reference_labels``; and ``_check`` and ``_item``, the numbers of the check and the item.
        ``verdict`` and ``gold`` are 1, 0 or NaN, or scores on a scale from 0 to 1.
    labels : pandas.DataFrame
        The rows of ``reference_labels``.
    names : list of str
        The columns of ``by``.
    note : str
        A note on the averaged columns.
    lowest, span : float
        The lowest value, and the highest minus the lowest. For verdicts 0 and 1.
    """

    rows: pd.DataFrame
    labels: pd.DataFrame
    names: list[str]
    note: str
    lowest: float
    span: float

    def estimates(
        self, rows: Iterable[Fields], extra: Sequence[str], by: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Make the estimates frame of an analysis; results for scores get the unit of the scores.

        ``by`` names further columns that identify a row.
        """
        lines = []
        for line in rows:
            line = line | {"note": join_notes(line["note"], self.note)}
            if line["unit"] == "score":
                lowest = self.lowest if line["measure"].startswith("score") else 0.0
                line |= {name: self.span * line[name] for name in _SPANS if name in line}
                line |= {name: lowest + self.span * line[name] for name in LEVELS if name in line}
            lines.append(line)
        return estimates(lines, by=[*self.names, *by], extra=extra)


def graded_items(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | str | None,
    what: str,
    *,
    by: By,
    value: GradedValue = "passed",
    bounds: Bounds = None,
    settings: Sequence[Any] = (0.95,),
    **how: Any,
) -> Graded:
    """Open verdicts, or scores, and gold for an analysis.

    ``gold`` is a gold frame, ``"majority"`` or None. ``settings`` are those of
    :func:`skillcomp.frames.check_settings`. The arguments ``how`` are passed to
    ``clustered_verdicts``.
    """
    check_settings(what, *settings)
    require_known(f"{what}: value: found", value, ("passed", "score"))
    lowest, highest = ends_of(value, bounds)
    names, is_score = listed(by), value == "score"
    rows, note = clustered_verdicts(verdicts, names, what, **how)
    if is_score:
        rows["verdict"] = scaled_scores(rows, bounds)
    elif rows["verdict"].isna().all() and rows["score"].notna().any():
        remedy = f"{argument('value', 'score')} with {argument('bounds')} compares scores"
        note = join_notes(note, f"there are scores, but no verdicts: {remedy}")
    rows["gold"], labels = NAN, rows.head(0)
    if isinstance(gold, str):
        require_known(f"{what}: gold: found", gold, ("majority",))
        labels = _majority_labels(rows, what, is_score=is_score)
        rows = rows.drop(columns="gold").merge(labels, on=[*ITEM, "grader"], how="left")
    elif gold is not None:
        if is_score:
            labels = reference_scores(gold, bounds, what)
        else:
            labels = reference_labels(gold, "reliability")
        rows = join_gold(rows, labels)
    rows = rows.assign(
        _check=group_codes(rows, [*CASE, "check_id"])[0],
        _item=rows.groupby(ITEM, dropna=False).ngroup(),  # in the order of the ids
    )
    return Graded(rows, labels, names, note, lowest, highest - lowest)


def scaled_scores(verdicts: pd.DataFrame, bounds: Bounds) -> pd.Series:
    """Return the scores of usable verdicts on a scale from 0 to 1."""
    check_bounds(verdicts, "score", bounds)
    lowest, highest = ends_of("score", bounds)
    return (verdicts["score"].where(usable(verdicts)) - lowest) / (highest - lowest)


def reference_scores(gold: pd.DataFrame, bounds: Bounds, what: str) -> pd.DataFrame:
    """Return the reference score of each item: the adjudicated one, or the mean of the labellers.

    The scale is from 0 to 1. The columns are those of ``reference_labels``.
    """
    require_scores(gold, what)
    labels = check(settle(gold, {"score": "float64"}, f"{what}: gold"), "gold")
    check_bounds(labels, "score", bounds)
    lowest, highest = ends_of("score", bounds)
    labels["score"] = (labels["score"] - lowest) / (highest - lowest)
    settled = labels["labeller"].eq(ADJUDICATED) & labels["score"].notna()
    any_settled = settled.groupby([labels[name] for name in ITEM]).transform("any")
    labels = labels[settled | ~any_settled]
    several = labels.groupby(ITEM)["score"].transform("count").gt(1)
    by = labels["labeller"].astype("str").fillna("no name").mask(several, "the mean of labellers")
    items = labels.assign(settled_by=by).groupby(ITEM, sort=False)
    how = {"inclusion_probability": "first", "score": "mean", "settled_by": "first"}
    return items.agg(how).reset_index().rename(columns={"score": "gold"})


def _majority_labels(rows: pd.DataFrame, what: str, *, is_score: bool) -> pd.DataFrame:
    """Return a label of each item for each grader: the majority of the others, NaN for a tie.

    For scores, it is the mean of the others. The columns are those of ``reference_labels`` and
    ``grader``. All versions and rounds of a grader have one vote.
    """
    votes = rows.pivot_table(index=ITEM, columns="grader", values="verdict")
    if votes.shape[1] < 3:
        raise FrameError(
            f"{what}: {argument('gold', 'majority')} needs three or more graders; there: "
            f"{', '.join(map(str, votes.columns))}. Without gold, two graders are compared with "
            "each other."
        )
    known = votes.notna()
    sums, counts = votes.sum(axis=1), known.sum(axis=1)
    others = votes.fillna(0.0).rsub(sums, axis=0) / known.astype(int).rsub(counts, axis=0)
    label = others.stack(future_stack=True)
    by = pd.Series(f"a majority of the {votes.shape[1] - 1} other graders", label.index)
    if not is_score:
        tied = pd.Series(np.isclose(label, 0.5), label.index)
        label, by = label.round().mask(tied), by.mask(tied, DISPUTED)
    about = {"gold": label, "settled_by": by, "inclusion_probability": NAN}
    return pd.DataFrame(about).reset_index()


def verdicts_with(
    frame: pd.DataFrame,
    name: str,
    columns: Sequence[str],
    made: Fields,
    *,
    by: Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Open a frame of verdicts with extra columns, the result of another analysis.

    ``made`` maps each extra column to its dtype. The frame must have ``columns`` and all extra
    columns.
    """
    require_columns(frame, [*columns, *made], what)
    settled = settle(frame, {**CONTRACTS["verdicts"].columns, **made}, f"{what}: {name}")
    return clustered_verdicts(settled, by, what, cases=cases)[0]
