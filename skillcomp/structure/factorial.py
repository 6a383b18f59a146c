"""Effects of a document's content and of its form, from an experiment that crosses the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    case_table,
    check_bounds,
    within,
)
from skillcomp.errors import FrameError
from skillcomp.frames.estimates import (
    By,
    estimates,
    listed,
    prepared,
    refuse_different_checks,
    require_reference,
    row,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields


def factorial(
    outcomes: pd.DataFrame,
    design: pd.DataFrame | Sequence[Mapping[str, Any]],
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str | None = "baseline",
    cluster: str = "case",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the effects of a document's content and of its form on the pass rate.

    Conditions are compared within each case, with repeats averaged. Unlike a correlation over
    skills, an experiment that changes one factor at a time separates content from form.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with the four conditions of the design and, if there is one, the
        reference.
    design : pandas.DataFrame or sequence of mappings
        Four rows with the column condition and two factors, such as ``content`` and ``form``. Each
        factor has two levels, and every combination of levels occurs once. The effect of a factor
        compares its level in the first row with its other level.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    reference : str or None, default "baseline"
        The condition without a document; None if the study has no such condition.
    cluster, average, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Nine rows per ``by`` (seven without ``reference``), with the estimates columns. ``effect``
        names the effect:

        - ``total``: the document of the first row of the design against the reference;
        - ``any document``: the document that differs from the first row in both factors, against
          the reference;
        - the name of a factor: its effect. ``at`` is the level of the other factor at which it is
          estimated; ``at`` is empty for the mean over both levels;
        - the interaction, such as ``content x form``: the effect of form at the first level of
          content minus its effect at the other level.

        The measure is ``delta_passed`` or, for the interaction, ``difference_passed``; with
        ``value="share_passed"``, it is ``delta_share_passed`` or ``difference_share_passed``.
        Estimates are in rate units, with the interval of a bounded mean over cases. ``rate`` and
        ``reference_rate`` are the two means compared, NaN for the interaction. For a factor,
        ``reference_rate`` is the mean at its other level, not that of ``reference``. ``n_dropped``
        counts the cases that lack a condition of the row. ``n_missing`` counts the attempts without
        an outcome. NaN with a note if no case has all conditions.

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, the design does not have
        each combination of two levels of two factors once, or a condition has no outcomes.

    See Also
    --------
    skillcomp.deltas.paired : Estimates the change from the baseline for any condition.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    If all cases have all five conditions, ``total`` is the sum of ``any document`` and the effects
    of both factors. The effect of a factor with empty ``at`` is the mean of its effects at the two
    levels of the other factor. An interaction is between -2 and 2. Any other effect is ``rate``
    minus ``reference_rate`` of its row, so it cannot exceed ``1 - reference_rate``: if that rate is
    near 1, no large positive effect can show.

    Examples
    --------
    The content is F or G, the form s or f. All cases pass, except under the condition Gf (content G
    and form f), under which none passes.

    >>> import pandas as pd
    >>> design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    >>> passed = {"Fs": 1, "Ff": 1, "Gs": 1, "Gf": 0}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": p}
    ...     for i in range(6) for c, p in passed.items()])
    >>> effects = factorial(frame, design, reference=None)
    >>> effects[["effect", "at", "estimate"]].head(3)
               effect at  estimate
    0         content          0.5
    1            form          0.5
    2  content x form         -1.0
    """
    names, averaged = listed(by), listed(average)
    what = "structure.factorial"
    if {"condition", "effect", "at"} & set(names):
        raise FrameError(f"{what}: by= names what the result tells apart; leave it out.")
    outcomes = prepared(outcomes, "outcomes", names, what, average=averaged, agents=True)
    crossed = _checked_design(design, what)
    conditions = [*crossed["condition"], reference]
    for condition in conditions:
        require_reference(outcomes["condition"], condition)
    if reference in conditions[:-1]:
        raise FrameError(f"{what}: the reference '{reference}' is a condition of the design.")
    check_bounds(outcomes, value, bounds)
    outcomes = outcomes[outcomes["condition"].isin(conditions)]
    refuse_different_checks(outcomes, what, value)
    how: Fields = {"value": value, "bounds": bounds}
    table = case_table(outcomes, by=[*names, *averaged], **how)
    units = Units.of(table, names, average=averaged, **how)
    contrasts = [
        Contrast(
            about | {"effect": effect, "at": at},
            group,
            {(condition,): weight for condition, weight in weights.items()},
            sides=tuple(weights),
            nothing="no case has outcomes in all conditions compared",
        )
        for group, about in enumerate(units.groups)
        for effect, at, weights in _effects(crossed, reference)
    ]
    rows = []
    means = within(units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval)
    for contrast, mean in zip(contrasts, means, strict=True):
        columns = contrast.about | {"n_missing": sum(mean.missing[::2])}
        columns["n_dropped"] = mean.n_dropped
        weights = np.array([*contrast.weights.values()])
        # an interaction is a difference of differences, which is between -2 and 2
        is_interaction = np.abs(weights).sum() > 2
        if not is_interaction:
            for name, side in (("rate", weights > 0), ("reference_rate", weights < 0)):
                columns[name] = float(np.mean(np.array(mean.levels)[side]))
        kind = "difference" if is_interaction else "delta"
        rows.append(row(f"{kind}_{value}", mean.interval, **columns))
    extra = ["rate", "reference_rate", "n_dropped", "n_missing"]
    return estimates(rows, by=[*names, "effect", "at"], extra=extra, outcomes=outcomes)


def _effects(
    design: pd.DataFrame, reference: str | None
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield each effect: its name, the fixed level of the other factor, and weights of conditions.

    The level is empty if the other factor is not fixed.
    """
    both, only_first, only_second, neither = design["condition"]
    first, second = design.columns[1:]
    if reference is not None:
        yield "total", "", {both: 1.0, reference: -1.0}
        yield "any document", "", {neither: 1.0, reference: -1.0}
    yield first, "", {both: 0.5, only_first: 0.5, only_second: -0.5, neither: -0.5}
    yield second, "", {both: 0.5, only_first: -0.5, only_second: 0.5, neither: -0.5}
    signs = {both: 1.0, only_first: -1.0, only_second: -1.0, neither: 1.0}
    yield f"{first} x {second}", "", signs
    yield first, design[second].iloc[0], {both: 1.0, only_second: -1.0}
    yield first, design[second].iloc[1], {only_first: 1.0, neither: -1.0}
    yield second, design[first].iloc[0], {both: 1.0, only_first: -1.0}
    yield second, design[first].iloc[2], {only_second: 1.0, neither: -1.0}


def _checked_design(design: Any, what: str) -> pd.DataFrame:
    """Return condition and two factors, sorted by factors; levels are in order of occurrence."""
    try:
        frame = pd.DataFrame(design if isinstance(design, pd.DataFrame) else list(design))
    except (TypeError, ValueError, AttributeError):
        frame = pd.DataFrame()
    is_missing, frame = frame.isna().any(axis=None), frame.astype("str")
    factors = [name for name in frame.columns if name != "condition"]
    levels = {str(name): [*frame[name].unique()] for name in frame}
    if (
        is_missing
        or [len(frame), len(factors), len(levels.get("condition", ()))] != [4, 2, 4]
        or not all(isinstance(name, str) and len(levels[name]) == 2 for name in factors)
        or frame.duplicated(factors).any()
    ):
        listed_levels = "; ".join(
            f"{name}: {'/'.join(map(str, words))}" for name, words in levels.items()
        )
        raise FrameError(
            f"{what}: design: found {len(frame)} rows ({listed_levels or type(design).__name__}); "
            "expected four rows of condition and two factors with two levels each, every "
            "combination once."
        )
    in_order = frame.sort_values(
        factors, key=lambda column: column.map(levels[str(column.name)].index)
    )
    return in_order[["condition", *factors]].reset_index(drop=True)
