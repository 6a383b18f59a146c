"""The price of a pass: what a solved case costs, and what each additional pass costs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillcomp.contrast import (
    MISSING,
    ONE_SKILL,
    UNEQUAL_LOSS,
    arms_of,
    case_table,
    claim,
    compared_outcomes,
    missing_note,
)
from skillcomp.deltas.amounts import heavy_cases, refuse_infinite, zeros_note
from skillcomp.deltas.paired_deltas import attempts_of_outcomes, no_attempt_of_these
from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    estimates,
    grouped,
    groups,
    listed,
    ordered,
    row,
    with_method,
)
from skillcomp.frames.reference_labels import RESULTS, usable
from skillcomp.stats.bounded import DELTAS, IntervalRule, Sample, bounded_means
from skillcomp.stats.ratios import ratio_of_means
from skillcomp.stats.results import Fields, join_notes, undefined

_WHAT = "deltas.price"
_AMOUNTS = ("cost_usd", "tokens", "minutes")
_EXTRA = ["reference", "amount", "rate", "n_dropped", *MISSING[:4]]


def price(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: By = (),
    reference: str = "baseline",
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate what a pass costs under each condition, and what each additional pass costs.

    A condition may cost more per attempt and less per pass. Amounts are dollars, tokens (input and
    output) and minutes. For the change of an amount itself use :func:`skillcomp.deltas.paired`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    attempts : pandas.DataFrame
        An attempts frame with cost_usd, input_tokens, output_tokens and seconds, as far as they
        were recorded. Only rows with an attempt_id of the outcomes are used. If the outcomes have
        no attempt_id, only rows with the same case, condition, repeat and agent are used.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    reference : str, default "baseline"
        The condition from which additional passes are counted.
    cluster : {"case", "skill"} or str, default "case"
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for the interval of the change in the pass rate, which decides whether an additional
        pass has a price.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition with the estimates columns. The measures are
        ``cost_usd_per_pass``, ``tokens_per_pass`` and ``minutes_per_pass``: the total amount
        divided by the number of passes. Each condition other than the reference has three further
        rows, ``cost_usd_per_added_pass``, ``tokens_per_added_pass`` and
        ``minutes_per_added_pass``: the change in the amount divided by the change in the pass rate,
        over the same cases. ``amount`` and ``rate`` are the mean amount of an attempt and the pass
        rate, or the changes of both. They use only attempts with an outcome and an amount. ``n``
        counts the cases with such attempts, ``n_dropped`` the other cases. ``n_missing`` of
        ``n_attempts`` attempts at the cases asked have no outcome or no amount; the columns that
        end in ``_reference`` count those of the reference. The estimate is NaN with a note if 5 %
        or more of the attempts with an outcome lack the amount, under the condition or the
        reference, because these may be the failed attempts.

        An additional pass has no price, and its row is NaN with a note, if the interval of the
        change in the pass rate includes 0 or is below it. Limits are NaN with a note if the ratio
        is unbounded.

    Raises
    ------
    FrameError
        If a frame breaks its contract, an amount is infinite, agents or graders would be pooled,
        the reference is not among the conditions, or no attempt belongs to these outcomes.

    See Also
    --------
    skillcomp.deltas.paired : The changes of the pass rate and of each amount.
    skillcomp.plots.estimates : Draws the result, one measure at a time.

    Notes
    -----
    Repeats are averaged within a case, and each case has the same weight. With the same number of
    attempts at each case, the amount per pass is the total amount over the number of passes. The
    interval is Fieller's (:func:`skillcomp.stats.ratios.ratio_of_means`). In simulated studies of
    14 to 84 cases it covered the price in 93 to 96 %, the delta method in 75 to 94 %. Both cover
    too seldom if few cases hold most of an amount (72 % with 20 cases, if one case in twenty costs
    20 times as much). ``note`` warns if the sample has such a case, but it may have none by chance.
    Attempts that ended in an error or a pause have no amount, as in
    :func:`skillcomp.deltas.paired`. Amounts of 0 are counted in ``note``, because they may be
    unbilled; infinite ones are refused.

    Examples
    --------
    The skill raises the cost of an attempt from $0.010 to $0.016, and the pass rate from 1/4 to
    3/4.

    >>> import pandas as pd
    >>> rows = [(f"s/{i}", c, 0.01 if c == "baseline" else 0.016, i % 4 < n)
    ...     for c, n in (("baseline", 1), ("skill", 3)) for i in range(20)]
    >>> frame = pd.DataFrame(rows, columns=["case_id", "condition", "cost_usd", "passed"])
    >>> frame = frame.assign(skill="s", attempt_id=range(40))
    >>> table = price(frame, frame).dropna(subset="estimate")
    >>> table[["condition", "measure", "estimate"]].round(3)
      condition                  measure  estimate
    0  baseline        cost_usd_per_pass     0.040
    3     skill        cost_usd_per_pass     0.021
    6     skill  cost_usd_per_added_pass     0.012
    """
    names = listed(by)
    checked = compared_outcomes(outcomes, names, _WHAT, reference=reference)
    table = case_table(checked, by=names, cluster=cluster)
    table = _with_amounts(table, checked, attempts, names)
    rows = []
    for about, part in groups(table, names):
        sides = {name: part[part["condition"].eq(name)] for name in ordered(part["condition"])}
        for name, side in sides.items():
            for amount in _AMOUNTS:
                place = about | {"condition": name}
                rows.append(place | _price_row(amount, _of_amount(side, amount), cluster, ci_level))
        for name in [name for name in sides if name != reference and reference in sides]:
            for amount in _AMOUNTS:
                own, base = (_of_amount(sides[n], amount) for n in (name, reference))
                pairs = own.merge(base, on=CASE, suffixes=("", "_reference"), how="outer")
                for column in ("value", "passes"):
                    pairs[column] -= pairs[f"{column}_reference"]
                reason = _reason_without_price(pairs, cluster, ci_level, interval)
                place = about | {"condition": name, "reference": reference}
                rows.append(place | _price_row(amount, pairs, cluster, ci_level, reason))
    keys = [*names, "condition"]
    prices = estimates(rows, by=keys, extra=_EXTRA, outcomes=checked, reference=reference)
    return with_method(prices, cluster, None)


def _with_amounts(
    table: pd.DataFrame, outcomes: pd.DataFrame, attempts: pd.DataFrame, by: Sequence[str]
) -> pd.DataFrame:
    """Add to each case and condition the means over its attempts with an outcome and an amount.

    For each amount there are four columns: the mean amount, the pass rate, the number of these
    attempts and how many of them have an amount of 0, such as "cost_usd", "rate of cost_usd",
    "n of cost_usd" and "n of cost_usd of 0".
    """
    keys = list(dict.fromkeys([*by, *CASE, "condition"]))
    passed = outcomes["passed"].astype("Float64").astype("float64")
    columns: dict[str, pd.Series] = {}
    for name, amount in _amounts_of_outcomes(outcomes, attempts).items():
        complete = amount.notna() & passed.notna()
        columns |= {str(name): amount.where(complete), f"rate of {name}": passed.where(complete)}
        columns[f"n of {name}"] = complete.astype("float64")
        columns[f"n of {name} of 0"] = (complete & amount.eq(0)).astype("float64")
    how = {name: "sum" if name.startswith("n of ") else "mean" for name in columns}
    cells = grouped(outcomes[keys].assign(**columns), keys).agg(how).reset_index()
    return table.merge(cells, on=keys, how="left", validate="m:1")


def _amounts_of_outcomes(outcomes: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the amounts of the attempt behind each outcome; NaN if there are none."""
    own = attempts_of_outcomes(outcomes, check(attempts, "attempts"), [], _WHAT)
    keys = ["attempt_id"]
    if outcomes["attempt_id"].isna().all():
        keys = [*CASE, "condition", "repeat"] + ["agent"] * bool(outcomes["agent"].notna().any())
    if own.duplicated(keys).any():
        raise FrameError(
            f"{_WHAT}: the outcomes have no attempt_id, and several attempts have the same "
            f"{', '.join(keys)}. Add attempt_id to the outcomes."
        )
    counts = usable(own) | own["status"].isin(RESULTS)
    for name in ("cost_usd", "seconds", "input_tokens", "output_tokens"):
        refuse_infinite(own[name].astype("float64").where(counts), name)
    tokens = own["input_tokens"] + own["output_tokens"]
    amounts = own.assign(tokens=tokens, minutes=own["seconds"] / 60.0)
    amounts[[*_AMOUNTS]] = amounts[[*_AMOUNTS]].astype("float64").where(counts)
    matched = outcomes[keys].merge(amounts[[*keys, *_AMOUNTS]], how="left", indicator=True)
    if len(outcomes) and not matched["_merge"].eq("both").any():
        raise no_attempt_of_these(keys, _WHAT)
    return matched[[*_AMOUNTS]].set_axis(outcomes.index)


def _of_amount(side: pd.DataFrame, amount: str) -> pd.DataFrame:
    """Add ``value`` (mean amount), ``passes`` and ``rate`` (both the pass rate), and counts.

    ``n_priced`` is the number of attempts with an outcome and an amount, and ``n_free`` of those
    with an amount of 0.
    """
    rate, n = side[f"rate of {amount}"], side[f"n of {amount}"].fillna(0.0)
    free = side[f"n of {amount} of 0"].fillna(0.0)
    return side.assign(value=side[amount], passes=rate, rate=rate, n_priced=n, n_free=free)


def _reason_without_price(
    pairs: pd.DataFrame, cluster: str, ci_level: float, interval: IntervalRule
) -> str:
    """Return the reason why an additional pass has no price; "" if the pass rate clearly rises.

    It is also "" if for no case both the change in the amount and the change in the pass rate are
    known; `_price_row` gives the reason then.
    """
    cases = pairs.dropna(subset=["value", "passes"])
    if cases.empty:
        return ""
    sides = [
        (cases["rate"], cases["n_priced"], None, 1.0),
        (cases["rate_reference"], cases["n_priced_reference"], None, -1.0),
    ]
    labels, _ = claim(cases["skill"], cases["cluster"], cluster)
    sample = Sample(cases["passes"].to_numpy(), labels, None, arms_of(sides, is_share=False))
    (delta,) = bounded_means([sample], quantity=DELTAS, ci_level=ci_level, interval=interval)
    if delta.low > 0:
        return ""
    limits = f"{delta.estimate:+.2f} [{delta.low:+.2f}, {delta.high:+.2f}]"
    if delta.high < 0:
        return f"the pass rate falls, {limits}: there is no additional pass"
    return f"the interval of the change in the pass rate includes 0, {limits}: no price"


def _price_row(
    amount: str, cases: pd.DataFrame, cluster: str, ci_level: float, reason: str = ""
) -> Fields:
    """Return the row of a price; if there is no price, its estimate is NaN with a note."""
    part = cases.dropna(subset=["value", "passes"])
    is_paired = "rate_reference" in part
    ends = ["", "_reference"][: 1 + is_paired]
    sides = ("the condition", "the reference") if is_paired else ("",)
    counts, lacking, bias = _missing_counts(cases, amount, ends, sides)
    labels, note = claim(part["skill"], part["cluster"], cluster)
    heavy = heavy_cases(*(part[f"{amount}{ends[at]}"] for at in (0, -1)))
    if part.empty:
        reason, lacking = f"no case has {amount} and an outcome", ""
    elif note == ONE_SKILL:
        reason, note = note, ""
    elif bias:
        reason = bias
    elif not is_paired and not part["passes"].any():
        reason = "no attempt passed"
    if reason:
        result = undefined("", reason, ci_level=ci_level, n=len(part))
    else:
        result = ratio_of_means(part["value"], part["passes"], labels, ci_level=ci_level)
        alike = "all cases pass alike: the interval takes their rate as exact"
        result = result.with_note("" if part["passes"].nunique() > 1 else alike, heavy)
    n_dropped = len(cases) - len(part)
    dropped = f"{plural(n_dropped, 'case')} dropped: no {amount} or no outcome"
    dropped = dropped if n_dropped and len(part) else ""
    free, known = (
        [int(part[f"{name}{end}"].sum()) for end in ends] for name in ("n_free", "n_priced")
    )
    unbilled = zeros_note(amount, free, known, sides)
    result = result.with_note(note, dropped, lacking, unbilled)
    columns = {"amount": part["value"].mean(), "rate": part["passes"].mean()}
    columns |= dict(zip(MISSING, counts, strict=False)) | {"n_dropped": n_dropped}
    return row(f"{amount}_per_{'added_' if is_paired else ''}pass", result, **columns)


def _missing_counts(
    cases: pd.DataFrame, amount: str, ends: Sequence[str], sides: Sequence[str]
) -> tuple[list[int], str, str]:
    """Return counts of attempts without outcome or amount, a note, and why there is no price.

    Only cases asked under each of the conditions count. If many of the attempts with an outcome
    lack the amount under one condition, there is no price, because attempts without an amount may
    be the failed ones.
    """
    complete = cases[cases[[f"size{end}" for end in ends]].notna().all(axis=1)]
    size, n, n_priced = (
        [int(complete[f"{name}{end}"].sum()) for end in ends] for name in ("size", "_n", "n_priced")
    )

    def pairs(whole: list[int], rest: list[int]) -> list[int]:
        return [x for a, b in zip(whole, rest, strict=True) for x in (a - b, a)]

    lost = missing_note(pairs(size, n), sides)
    lacking, _ = missing_note(pairs(n, n_priced), sides, f"attempts without {amount}")
    many = any(a - b >= UNEQUAL_LOSS * a - 1e-9 for a, b in zip(n, n_priced, strict=True) if a)
    bias = f"too many attempts lack {amount}, and they may be the failed ones: no price"
    return pairs(size, n_priced), join_notes(*lost, lacking), bias if many else ""
