"""How much of what a document does is its content, and how much its form: two factors crossed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import pandas as pd

from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.case_table import (
    UNEQUAL_LOSS,
    Cluster,
    Value,
    case_table,
    check_cluster,
    claim,
    claimed,
    level_of,
)
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    estimates,
    groups,
    listed,
    prepared,
    require_reference,
    row,
)
from skillcomp.stats.bounded import DELTAS, Quantity, bounded_means
from skillcomp.stats.results import Interval


def factorial(
    outcomes: pd.DataFrame,
    design: pd.DataFrame | Sequence[Mapping[str, Any]],
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str | None = "baseline",
    cluster: Cluster = "case",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much of what a document does is its content and how much its form.

    Each case is its own comparison: all its conditions, repeats averaged. What a correlation over
    skills cannot tell apart, an experiment that changes one factor at a time can.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with the four conditions of the design and perhaps a baseline.
    design : pandas.DataFrame or sequence of mappings
        Four rows: condition and two further columns, the factors (such as ``content`` and
        ``form``), of two levels each in every combination. The level of the first row is the one
        whose effect is told.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    reference : str or None, default "baseline"
        The condition without any document; None where there is none.
    cluster : {"case", "skill"}, default "case"
        Whether the intervals speak of cases like these of these skills, or of skills; as in
        :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Per ``by`` nine rows (seven without ``reference``), named by ``effect`` and ``at`` (the
        level of the other factor at which it is taken; empty for the mean over both): ``total``
        (the first row's document against the reference), ``any document`` (the document with
        neither against the reference), one row for each factor, their interaction ``content x
        form`` (how much more form does with content than without), and each factor at each level
        of the other. Measure ``delta_passed``, of the interaction ``difference_passed``; estimate
        in rate units (0.1 is ten points) with the interval of a bounded mean over cases, p_value,
        n cases, n_clusters; rate and reference_rate (the means compared, NaN of the interaction),
        n_dropped (cases without all conditions of the row), n_missing (attempts without an
        outcome). NaN with a note where no case has them all.

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, or the design is not
        two factors of two levels, each once, with conditions that are there.

    See Also
    --------
    skillcomp.deltas.paired : Any condition against the baseline.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    On the cases that have all five conditions ``total = any document + first factor + second
    factor`` exactly. Main effects are the mean of the two simple ones. An interaction lies between
    -2 and 2. ``1 - reference_rate`` of a simple effect is the room that it had: at a ceiling an
    effect of form cannot show, whatever it is. Additive, in rate units.

    Examples
    --------
    >>> import pandas as pd
    >>> design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    >>> passed = {"Fs": 1, "Ff": 1, "Gs": 1, "Gf": 0}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": p}
    ...     for i in range(6) for c, p in passed.items()])
    >>> found = factorial(frame, design, reference=None)
    >>> found[["effect", "at", "estimate"]].head(3)
               effect at  estimate
    0         content          0.5
    1            form          0.5
    2  content x form         -1.0
    """
    check_cluster(cluster)
    require_known("value: found", value, get_args(Value))
    names = listed(by)
    what = "structure.factorial"
    if {"condition", "effect", "at"} & set(names):
        raise FrameError(f"{what}: by= names what the result tells apart; leave it out.")
    given = prepared(outcomes, "outcomes", names, what, agents=True)
    asked = _design(design, what)
    for condition in asked.conditions:
        require_reference(given["condition"], condition)
    require_reference(given["condition"], reference)
    if reference in asked.conditions:
        raise FrameError(f"{what}: the reference '{reference}' is a condition of the design.")
    kept = given[given["condition"].isin([*asked.conditions, reference])]
    table = case_table(kept, by=names)
    table["level"] = level_of(table, value)
    there = table["n"] if value == "passed" else table["n_shares"]
    table["missing"] = table["size"] - there
    effects = asked.effects(reference)
    rows = []
    for values, part in groups(table, names):
        rows += _effects(part, effects, value, values, cluster, ci_level)
    extra = ["rate", "reference_rate", "n_dropped", "n_missing"]
    return estimates(rows, by=[*names, "effect", "at"], extra=extra)


@dataclass(frozen=True)
class _Effect:
    """An effect, the level of the other factor at which it is taken, a weight per condition."""

    name: str
    at: str
    weights: Mapping[str, float]

    @property
    def crossed(self) -> bool:
        """Whether it is a difference of differences, which lies between -2 and 2."""
        return sum(map(abs, self.weights.values())) > 2


@dataclass(frozen=True)
class _Design:
    """Two factors of two levels; ``cell[i][j]`` is the condition of level i and level j."""

    factors: tuple[str, str]
    levels: tuple[tuple[str, str], tuple[str, str]]
    cell: tuple[tuple[str, str], tuple[str, str]]

    @property
    def conditions(self) -> list[str]:
        return [*self.cell[0], *self.cell[1]]

    def effects(self, reference: str | None) -> list[_Effect]:
        (both, one), (other, neither) = self.cell
        first, second = self.factors
        against: list[_Effect] = []
        if reference is not None:
            against = [
                _Effect("total", "", {both: 1.0, reference: -1.0}),
                _Effect("any document", "", {neither: 1.0, reference: -1.0}),
            ]
        return [
            *against,
            _Effect(first, "", {both: 0.5, one: 0.5, other: -0.5, neither: -0.5}),
            _Effect(second, "", {both: 0.5, one: -0.5, other: 0.5, neither: -0.5}),
            _Effect(f"{first} x {second}", "", {both: 1.0, one: -1.0, other: -1.0, neither: 1.0}),
            _Effect(first, self.levels[1][0], {both: 1.0, other: -1.0}),
            _Effect(first, self.levels[1][1], {one: 1.0, neither: -1.0}),
            _Effect(second, self.levels[0][0], {both: 1.0, one: -1.0}),
            _Effect(second, self.levels[0][1], {other: 1.0, neither: -1.0}),
        ]


def _design(design: Any, what: str) -> _Design:
    expected = (
        "expected four rows of condition and two factors with two levels each, every combination "
        "once"
    )
    try:
        frame = pd.DataFrame(design if isinstance(design, pd.DataFrame) else list(design))
    except (TypeError, ValueError, AttributeError):
        raise FrameError(f"{what}: design: found {type(design).__name__}; {expected}.") from None
    if "condition" not in frame.columns or len(frame.columns) != 3:
        found = ", ".join(map(str, frame.columns)) or "no columns"
        raise FrameError(f"{what}: design: found the columns {found}; {expected}.")
    factors = [name for name in frame.columns if name != "condition"]
    if frame.isna().any(axis=None) or not all(isinstance(name, str) for name in factors):
        raise FrameError(f"{what}: design: a value is missing; {expected}.")
    frame = frame.astype("str")
    first, second = ([*frame[name].unique()] for name in factors)
    cells = dict(
        zip(zip(*(frame[n] for n in factors), strict=True), frame["condition"], strict=True)
    )
    crossed = set(cells) == set(product(first, second)) and len(first) == len(second) == 2
    if not (crossed and len(frame) == 4 and frame["condition"].is_unique):
        told = f"{factors[0]}: {'/'.join(first)}; {factors[1]}: {'/'.join(second)}"
        raise FrameError(f"{what}: design: found {len(frame)} rows ({told}); {expected}.")
    rows = [(cells[one, second[0]], cells[one, second[1]]) for one in first]
    levels = ((first[0], first[1]), (second[0], second[1]))
    return _Design((factors[0], factors[1]), levels, (rows[0], rows[1]))


def _effects(
    part: pd.DataFrame,
    effects: Sequence[_Effect],
    value: str,
    about: dict[str, Any],
    cluster: Cluster,
    ci_level: float,
) -> list[dict[str, Any]]:
    """Return the rows of one group: a mean over cases for each effect."""
    wide = part.pivot(index=[*CASE, "cluster"], columns="condition", values="level")
    counts = part.groupby("condition")[["missing", "size"]].sum()
    samples: list[Any] = []
    notes: list[str] = []
    sides: list[dict[str, float]] = []
    for effect in effects:
        cells = wide.reindex(columns=list(effect.weights))
        whole = cells[cells.notna().all(axis=1)]
        weight = pd.Series(effect.weights)
        skill, label = (whole.index.get_level_values(name) for name in ("skill", "cluster"))
        clusters, note = claim(skill, label, cluster, delta=True)
        samples.append(((whole * weight).sum(axis=1).to_numpy(), clusters, None))
        notes.append(note)
        means = whole.mean()
        two = {"rate": means[weight > 0].mean(), "reference_rate": means[weight < 0].mean()}
        sides.append({} if effect.crossed else two)
    found = _means(samples, [one.crossed for one in effects], ci_level)
    rows = []
    for effect, interval, note, rates in zip(effects, found, notes, sides, strict=True):
        n_missing, loss = _loss(list(effect.weights), counts)
        n_dropped = len(wide) - int(interval.n)
        few = f"{plural(n_dropped, 'case')} dropped: not all conditions have an outcome"
        nothing = "no case has outcomes in all conditions compared"
        told = claimed(interval, note, nothing, few if n_dropped else "", loss)
        columns = {**about, **rates, "effect": effect.name, "at": effect.at}
        columns |= {"n_dropped": n_dropped, "n_missing": n_missing}
        measure = f"{'difference' if effect.crossed else 'delta'}_{value}"
        rows.append(row(measure, told, **columns))
    return rows


def _loss(conditions: list[str], counts: pd.DataFrame) -> tuple[int, str]:
    """Count attempts without an outcome, and warn where conditions lost unlike shares of them."""
    mine = counts.reindex(conditions)
    share = mine["missing"] / mine["size"]
    n_missing = int(mine["missing"].sum())
    if not float(share.max() - share.min()) >= UNEQUAL_LOSS - 1e-9:
        return n_missing, ""
    return n_missing, (
        f"attempts missing: {share.min():.0%} to {share.max():.0%} by condition: if they differ "
        "from the others the effect is biased"
    )


def _means(samples: Sequence[Any], crossed: Sequence[bool], ci_level: float) -> list[Interval]:
    """Return bounded means; an interaction has twice the bounds of a difference."""
    wide = Quantity(2 * DELTAS.low, 2 * DELTAS.high, DELTAS.c)
    found: dict[int, Interval] = {}
    for quantity, wanted in ((DELTAS, False), (wide, True)):
        at = [i for i, one in enumerate(crossed) if one is wanted]
        given = [samples[i] for i in at]
        solved = bounded_means(given, quantity=quantity, null=0.0, ci_level=ci_level)
        found |= dict(zip(at, solved, strict=True))
    return [found[i] for i in range(len(samples))]
