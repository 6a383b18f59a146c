"""Whether a new version of a skill is as good as the old one, and cheaper."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.contrast import MISSING, BoundedValue, Bounds, ends_of, missing_note
from skillcomp.deltas.amounts import amount_deltas
from skillcomp.deltas.paired_deltas import attempts_of_outcomes, deltas_and_units
from skillcomp.errors import FrameError, require_known
from skillcomp.frames.check import check
from skillcomp.frames.contracts import AMOUNTS, CASE, GRADER_KEYS, Amount
from skillcomp.frames.estimates import By, columns_of, listed, prepared, require_reference
from skillcomp.skillverdicts.decide_on_cases import (
    check_margin,
    first_that_holds,
    with_missing_attempts,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, join_notes

WHAT = "skillverdicts.compare"
CHEAPER = "as good and cheaper"
CHEAPER_TYPICALLY = f"{CHEAPER} for a typical answer, total not bounded"
NOT_SHOWN = "not shown"
_SAVED = ("cost_usd", "seconds", "input_tokens", "output_tokens")


def compare(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    condition: str = "skill",
    reference: str = "previous",
    by: By = ("skill",),
    margin: float = 0.1,
    amount: Amount = "cost_usd",
    limit: float | None = None,
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    cluster: str = "case",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    assume_missing: Literal["at random"] | None = None,
) -> pd.DataFrame:
    """Decide whether a version of a skill is as good as another one, and cheaper.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    attempts : pandas.DataFrame
        The attempts frame of the same answers, with the amounts. Attempts at other cases, or of
        other agents or conditions, are left out.
    condition, reference : str, default "skill" and "previous"
        The new and the old version.
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group.
    margin : float, default 0.1
        The largest loss that counts as "as good", in rate units (0.1 is ten points) or, for scores,
        in their unit. Choose it before you see the data.
    amount : str, default "cost_usd"
        The amount that must fall: ``cost_usd``, ``seconds``, ``input_tokens``, ``output_tokens``,
        ``n_words`` or ``n_commands``.
    limit : float, optional
        The largest ``amount`` that an attempt can have, as in :func:`skillcomp.deltas.paired`.
        Only with a limit can the total be shown to fall.
    value, bounds, cluster, average, ci_level, interval
        As in :func:`skillcomp.deltas.paired`; ``interval`` is for the difference in quality.
    assume_missing : {"at random"}, optional
        As in :func:`skillcomp.skillverdicts.decide`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, with the columns of :func:`skillcomp.deltas.paired`: the difference in
        quality between condition and reference, on the same cases. ``margin``, ``amount`` and
        ``limit`` are the arguments. ``saved`` is the mean saving per answer in ``amount``, above 0
        if the condition needs less, with the limits ``saved_low`` and ``saved_high``. ``ratio`` is
        the geometric mean of the ratios of the cases, condition to reference, with ``ratio_low``
        and ``ratio_high``. ``saved_cost_usd``, ``saved_seconds`` and ``saved_tokens`` (input and
        output) are mean savings per answer, NaN if they are not recorded. ``overturned`` and
        ``assume_missing`` are as in :func:`skillcomp.skillverdicts.decide`. ``verdict`` is the
        first of these that applies:

        ``worse``
            A loss of quality is shown: ``shown`` is True, and the interval is below 0.
        ``as good and cheaper``
            The interval is above ``-margin``, and ``saved_low`` is above 0 with a ``limit``.
        ``as good and cheaper for a typical answer, total not bounded``
            The interval is above ``-margin``, there is no ``limit``, ``ratio_high`` is below 1, and
            the total over the cases is lower.
        ``better``
            A gain in quality is shown.
        ``as good``
            The interval is above ``-margin``.
        ``not shown``
            Anything else: the data do not decide, or too many attempts are missing.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, for an unknown condition or amount, if ``margin`` is
        not between 0 and 1 (for scores, their range), or if no attempt belongs to these outcomes.

    See Also
    --------
    decide : Whether a skill teaches, with a margin for the gain.

    Notes
    -----
    Savings are those of the attempts with the amount; ``note`` counts the attempts without it. If
    the failed answers have no amount, the savings are biased.

    "Worse" and "better" need a difference that is shown, as in
    :func:`skillcomp.skillverdicts.decide`: the p-value, adjusted for all rows of the call, and the
    interval. "As good" rests on the interval of its row alone: a loss of exactly the margin is
    called "as good" in nominally 2.5 % of rows.

    Without a limit no method can bound a total: a sample without a loop does not show how often an
    agent loops. In a simulation with 30 cases, a version costs 0.6 times as much in a typical
    answer, but loops in 1.6 % of the answers, so that its true cost rises by 55 %. The interval of
    the ratio alone is below 1 in 82 % of 20,000 studies. In 62 %, the total is lower as well,
    because no answer loops in these studies. With a limit, none of 150 studies had the verdict "as
    good and cheaper".
    """
    check_margin(margin, assume_missing, ends_of(value, bounds))
    require_known("amount: found", amount, [name for name in AMOUNTS if name != "score"])
    names, levels = listed(by), listed(average)
    outcomes = check(outcomes, "outcomes")
    require_reference(outcomes["condition"], reference)
    if condition == reference:
        raise FrameError(f"{WHAT}: condition and reference are both '{condition}'.")
    if len(outcomes):
        require_known(f"{WHAT}: condition: found", condition, outcomes["condition"].unique())
    two = outcomes["condition"].isin([condition, reference])
    outcomes = outcomes[two].reset_index(drop=True)
    facts = [name for name in (*names, *levels, cluster) if name not in GRADER_KEYS]
    keys = [*CASE, "condition"] + ["agent"] * bool(outcomes["agent"].notna().any())
    matched = check(attempts, "attempts").merge(outcomes[keys].drop_duplicates(), on=keys)
    attempts = attempts_of_outcomes(outcomes, matched, facts, WHAT)
    how: Fields = {
        "by": names,
        "average": levels,
        "reference": reference,
        "cluster": cluster,
        "ci_level": ci_level,
        "interval": interval,
    }
    rows, units, contrasts = deltas_and_units(outcomes, WHAT, value=value, bounds=bounds, **how)
    rows = rows.assign(margin=margin, amount=amount)
    rows["limit"] = np.nan if limit is None else limit
    for argument in ("by", "average"):
        how[argument] = columns_of(attempts, *how[argument])
    attempts = prepared(
        attempts,
        "attempts",
        how["by"],
        WHAT,
        compared=["condition"],
        average=how["average"],
        agents=True,
    )
    rows = _with_savings(rows, attempts, amount, limit, how)
    rows["verdict"] = _comparison_verdicts(rows)
    rows = with_missing_attempts(
        rows, units, contrasts, assume_missing, cluster=cluster, interval=interval
    )
    return rows.assign(verdict=rows["verdict"].replace("undetermined", NOT_SHOWN))


def _with_savings(
    rows: pd.DataFrame, attempts: pd.DataFrame, amount: str, limit: float | None, how: Fields
) -> pd.DataFrame:
    """Add the savings of each group, and notes: amounts are missing, or a total is not lower."""
    keys = [*how["by"], "condition"]
    for name in dict.fromkeys([amount, *_SAVED]):
        table = amount_deltas(attempts, name, limit if name == amount else None, **how)
        delta, ratio = (table[table["measure"].eq(f"{m}_{name}")] for m in ("delta", "ratio"))
        # a difference from 0.0 is never -0.0
        saved = 0.0 - delta[["estimate", "ci_high", "ci_low"]]
        columns = delta[keys].assign(**{f"saved_{name}": saved["estimate"]})
        if name == amount:
            columns[["saved", "saved_low", "saved_high"]] = saved
            limits = ratio[[*keys, "estimate", "ci_low", "ci_high"]]
            limits = limits.set_axis([*keys, "ratio", "ratio_low", "ratio_high"], axis=1)
            columns = columns.merge(limits, on=keys)
            sides = zip(delta[MISSING[:4]].to_numpy().tolist(), delta["condition"], strict=True)
            columns["lacking"] = [
                missing_note(counts, [condition, how["reference"]], f"attempts without {name}")[0]
                for counts, condition in sides
            ]
        rows = rows.merge(columns, on=keys, how="left")
    rows["saved_tokens"] = rows.pop("saved_input_tokens") + rows.pop("saved_output_tokens")
    remarks = {
        f"{amount} is not recorded, so that nothing can be shown to be cheaper": rows[
            "saved"
        ].isna(),
        f"a typical answer has less {amount}, but the total over these cases is not lower": (
            rows["ratio_high"].lt(1) & rows["saved"].le(0)
        ),
    }
    remark = first_that_holds(remarks, "")
    lacking = rows.pop("lacking").fillna("").where(rows["saved"].notna(), "")
    return rows.assign(note=list(map(join_notes, rows["note"], remark, lacking)))


def _comparison_verdicts(rows: pd.DataFrame) -> Any:
    low, high, shown = rows["ci_low"], rows["ci_high"], rows["shown"].fillna(False).astype(bool)
    as_good = low > -rows["margin"]
    return first_that_holds(
        {
            "worse": shown & (high < 0),
            CHEAPER: as_good & rows["limit"].notna() & rows["saved_low"].gt(0),
            CHEAPER_TYPICALLY: (
                as_good & rows["limit"].isna() & rows["ratio_high"].lt(1) & rows["saved"].gt(0)
            ),
            "better": shown & (low > 0),
            "as good": as_good,
        },
        NOT_SHOWN,
    )
