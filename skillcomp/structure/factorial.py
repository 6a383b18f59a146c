"""Effects of a document's content and of its form, from an experiment that crosses the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import pandas as pd

from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.case_table import (
    ONE_SKILL,
    UNEQUAL_LOSS,
    Value,
    arms_of,
    case_table,
    claim,
    claimed,
    covering_means,
    level_of,
)
from skillcomp.frames.check import check_cluster
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    estimates,
    groups,
    listed,
    means_of_cases,
    prepared,
    refuse_different_checks,
    require_reference,
    row,
)
from skillcomp.stats.bounded import DELTAS, IntervalRule, Quantity, Sample, mixed_of_case
from skillcomp.stats.results import Interval, join_notes


def factorial(
    outcomes: pd.DataFrame,
    design: pd.DataFrame | Sequence[Mapping[str, Any]],
    *,
    by: By = (),
    value: Value = "passed",
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
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
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
        - ``any document``: the document with neither level of the first row against the reference;
        - the name of a factor: its effect. ``at`` is the level of the other factor at which it is
          estimated; it is empty for the mean over both levels;
        - the interaction, such as ``content x form``: the effect of form at the first level of
          content minus its effect at the other level.

        The measure is ``delta_passed`` or, for the interaction, ``difference_passed``; with
        ``value="share_passed"``, it is ``delta_share_passed`` or ``difference_share_passed``.
        Estimates are in rate units, with the interval of a bounded mean over cases. ``rate`` and
        ``reference_rate`` are the two means compared, NaN for the interaction. ``n_dropped`` counts
        the cases that lack a condition of the row. ``n_missing`` counts the attempts without an
        outcome. NaN with a note if no case has all conditions.

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
    levels of the other factor. An interaction is between -2 and 2. Apart from the interaction, no
    effect can exceed ``1 - reference_rate``: if the reference rate is near 1, no positive effect
    can show. Effects are differences of rates.

    Examples
    --------
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
    require_known("value: found", value, get_args(Value))
    names, averaged = listed(by), listed(average)
    what = "structure.factorial"
    if {"condition", "effect", "at"} & set(names):
        raise FrameError(f"{what}: by= names what the result tells apart; leave it out.")
    outcomes = prepared(outcomes, "outcomes", names, what, average=averaged, agents=True)
    crossed = _checked_design(design, what)
    for condition in crossed.conditions:
        require_reference(outcomes["condition"], condition)
    require_reference(outcomes["condition"], reference)
    if reference in crossed.conditions:
        raise FrameError(f"{what}: the reference '{reference}' is a condition of the design.")
    in_design = outcomes["condition"].isin([*crossed.conditions, reference])
    outcomes = outcomes[in_design]
    refuse_different_checks(outcomes, what, value)
    column = check_cluster(cluster, outcomes)
    table = case_table(outcomes, by=[*names, *averaged], column=column)
    table["level"] = level_of(table, value)
    table["missing"] = table["size"] - (table["n"] if value == "passed" else table["n_shares"])
    effects = crossed.effects(reference)
    rows = []
    for values, part in groups(table, names):
        how: dict[str, Any] = {"cluster": cluster, "average": averaged, "ci_level": ci_level}
        how["interval"] = interval
        rows += _effect_rows(part, effects, value, values, **how)
    extra = ["rate", "reference_rate", "n_dropped", "n_missing"]
    return estimates(rows, by=[*names, "effect", "at"], extra=extra, outcomes=outcomes)


@dataclass(frozen=True)
class _Effect:
    """An effect as weights of conditions; `at` is the level of the other factor, if it is fixed."""

    name: str
    at: str
    weights: Mapping[str, float]

    @property
    def is_interaction(self) -> bool:
        """Whether the effect is a difference of differences, which is between -2 and 2."""
        return sum(map(abs, self.weights.values())) > 2


@dataclass(frozen=True)
class _Design:
    """Two factors of two levels.

    ``cell[i][j]`` is the condition with level i of the first factor and level j of the second.
    """

    factors: tuple[str, str]
    levels: tuple[tuple[str, str], tuple[str, str]]
    cell: tuple[tuple[str, str], tuple[str, str]]

    @property
    def conditions(self) -> list[str]:
        return [*self.cell[0], *self.cell[1]]

    def effects(self, reference: str | None) -> list[_Effect]:
        (both, only_first), (only_second, neither) = self.cell
        first, second = self.factors
        interaction = {both: 1.0, only_first: -1.0, only_second: -1.0, neither: 1.0}
        effects: list[_Effect] = []
        if reference is not None:
            effects = [
                _Effect("total", "", {both: 1.0, reference: -1.0}),
                _Effect("any document", "", {neither: 1.0, reference: -1.0}),
            ]
        return [
            *effects,
            _Effect(first, "", {both: 0.5, only_first: 0.5, only_second: -0.5, neither: -0.5}),
            _Effect(second, "", {both: 0.5, only_first: -0.5, only_second: 0.5, neither: -0.5}),
            _Effect(f"{first} x {second}", "", interaction),
            _Effect(first, self.levels[1][0], {both: 1.0, only_second: -1.0}),
            _Effect(first, self.levels[1][1], {only_first: 1.0, neither: -1.0}),
            _Effect(second, self.levels[0][0], {both: 1.0, only_first: -1.0}),
            _Effect(second, self.levels[0][1], {only_second: 1.0, neither: -1.0}),
        ]


def _checked_design(design: Any, what: str) -> _Design:
    expected = (
        "expected four rows of condition and two factors with two levels each, every combination "
        "once"
    )
    try:
        frame = pd.DataFrame(design if isinstance(design, pd.DataFrame) else list(design))
    except (TypeError, ValueError, AttributeError):
        raise FrameError(f"{what}: design: found {type(design).__name__}; {expected}.") from None
    if "condition" not in frame.columns or len(frame.columns) != 3:
        columns = ", ".join(map(str, frame.columns)) or "no columns"
        raise FrameError(f"{what}: design: found the columns {columns}; {expected}.")
    factors = [name for name in frame.columns if name != "condition"]
    if frame.isna().any(axis=None) or not all(isinstance(name, str) for name in factors):
        raise FrameError(f"{what}: design: a value is missing; {expected}.")
    frame = frame.astype("str")
    first, second = ([*frame[name].unique()] for name in factors)
    cells = frame.set_index(factors)["condition"].to_dict()
    crossed = set(cells) == set(product(first, second)) and len(first) == len(second) == 2
    if not (crossed and len(frame) == 4 and frame["condition"].is_unique):
        levels_found = f"{factors[0]}: {'/'.join(first)}; {factors[1]}: {'/'.join(second)}"
        raise FrameError(f"{what}: design: found {len(frame)} rows ({levels_found}); {expected}.")
    rows = [(cells[level, second[0]], cells[level, second[1]]) for level in first]
    levels = ((first[0], first[1]), (second[0], second[1]))
    return _Design((factors[0], factors[1]), levels, (rows[0], rows[1]))


def _effect_rows(
    part: pd.DataFrame,
    effects: Sequence[_Effect],
    value: str,
    about: dict[str, Any],
    cluster: str,
    average: list[str],
    ci_level: float,
    interval: IntervalRule,
) -> list[dict[str, Any]]:
    """Return the rows of one group: the mean over cases of each effect."""
    keys = [*CASE, "cluster", "cluster_by_name"]
    wide, n, n_checks = (
        part.pivot(index=[*keys, *average], columns="condition", values=name)
        for name in ("level", "n", "n_checks")
    )
    n_cases = len(part.drop_duplicates(CASE))
    counts = part.groupby("condition")[["missing", "size"]].sum()
    samples: list[Any] = []
    by_name: list[Any] = []
    notes: list[str] = []
    levels: list[dict[str, float]] = []
    for effect in effects:
        cells = wide.reindex(columns=list(effect.weights))
        whole = cells[cells.notna().all(axis=1)]
        fewest, checks = (
            table.reindex(index=whole.index, columns=whole.columns) for table in (n, n_checks)
        )
        _, means_note = means_of_cases(whole.index.to_frame(index=False), [], average)
        of_arm = None if value != "passed" else fewest
        mixed = pd.DataFrame(mixed_of_case(whole, of_arm), whole.index, whole.columns)
        if average:
            mixed = mixed.groupby(level=keys, sort=False).mean()
            whole = whole.groupby(level=keys, sort=False).mean()
            by_case = (table.groupby(level=keys, sort=False) for table in (fewest, checks))
            fewest, checks = (table.min() for table in by_case)
        weight = pd.Series(effect.weights)
        sides = [
            (whole[name], fewest[name], checks[name], sign, mixed[name])
            for name, sign in effect.weights.items()
        ]
        skill, _, label, shared = (whole.index.get_level_values(name) for name in keys)
        clusters, note = claim(skill, label, cluster, delta=True, rule=interval)
        by_name.append(claim(skill, shared, cluster)[0])
        arms = arms_of(sides, is_share=value != "passed")
        samples.append(Sample((whole * weight).sum(axis=1).to_numpy(), clusters, None, arms))
        notes.append(note if note == ONE_SKILL else join_notes(means_note, note))
        means = whole.mean()
        rates = {"rate": means[weight > 0].mean(), "reference_rate": means[weight < 0].mean()}
        levels.append({} if effect.is_interaction else rates)
    interactions = [effect.is_interaction for effect in effects]
    estimated = _effect_means(samples, by_name, interactions, ci_level, interval)
    rows = []
    for effect, mean, note, rates in zip(effects, estimated, notes, levels, strict=True):
        n_missing, loss = _missing_attempts(list(effect.weights), counts)
        n_dropped = n_cases - int(mean.n)
        few = f"{plural(n_dropped, 'case')} dropped: not all conditions have an outcome"
        nothing = "no case has outcomes in all conditions compared"
        mean = claimed(mean, note, nothing, few if n_dropped else "", loss)
        columns = {**about, **rates, "effect": effect.name, "at": effect.at}
        columns |= {"n_dropped": n_dropped, "n_missing": n_missing}
        measure = f"{'difference' if effect.is_interaction else 'delta'}_{value}"
        rows.append(row(measure, mean, **columns))
    return rows


def _missing_attempts(conditions: list[str], counts: pd.DataFrame) -> tuple[int, str]:
    """Count attempts without an outcome; add a note if their share differs by condition."""
    compared = counts.reindex(conditions)
    share = compared["missing"] / compared["size"]
    n_missing = int(compared["missing"].sum())
    if not float(share.max() - share.min()) >= UNEQUAL_LOSS - 1e-9:
        return n_missing, ""
    return n_missing, (
        f"attempts missing: {share.min():.0%} to {share.max():.0%} by condition: if they differ "
        "from the others the effect is biased"
    )


def _effect_means(
    samples: Sequence[Sample],
    by_name: Sequence[Any],
    interactions: Sequence[bool],
    ci_level: float,
    rule: IntervalRule,
) -> list[Interval]:
    """Return bounded means; the bounds of an interaction are twice those of a difference."""
    twice = Quantity(2 * DELTAS.low, 2 * DELTAS.high, DELTAS.c)
    means: dict[int, Interval] = {}
    for quantity, is_interaction in ((DELTAS, False), (twice, True)):
        at = [i for i, kind in enumerate(interactions) if kind is is_interaction]
        selected, shared = ([values[i] for i in at] for values in (samples, by_name))
        how: dict[str, Any] = {"quantity": quantity, "null": 0.0, "ci_level": ci_level}
        intervals = covering_means(selected, shared, **how, interval=rule)
        means |= dict(zip(at, intervals, strict=True))
    return [means[i] for i in range(len(samples))]
