"""Deltas corrected for the grader's errors, and the reasons for the verdicts based on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from skillcomp.errors import FrameError, plural
from skillcomp.frames.contracts import DIFFERENT_MODELS, REPLACED
from skillcomp.frames.estimates import interval_of, is_among, require_columns, rows_of_group
from skillcomp.stats.results import NAN, Fields, join_notes, p_value, quantile

WHAT = "skillverdicts.decide: corrected"
_KEPT_NOTES = (DIFFERENT_MODELS, REPLACED)  # starts of notes that a correction keeps
NAIVE = "naive"  # The estimator that uses the grader's verdicts without correction.
# With gold on fewer cases than this, no estimator is recommended (skillcomp.correction).
FEWEST_GOLD = 10
NEEDED = (
    "condition",
    "measure",
    "estimator",
    "recommended",
    "reference",
    "reason",
    "n_gold",
    "estimate",
    "ci_low",
    "ci_high",
    "ci_level",
    "n",
    "n_clusters",
    "method",
)
# If an estimator is recommended, the delta gets the estimator's values in these columns.
_REPLACED = ["estimate", "ci_low", "ci_high", "se", "df", "p_value", "p_adjusted", "method"]
MOVED = ["moved_estimate", "moved_low", "moved_high", "moved_rate", "moved_rate_low"]
# one-sided p-values on which the verdicts `ineffective` and `redundant` rest
MARGIN_P = ["p_no_loss", "p_no_gain", "p_passing"]
LIMITS = ["estimate", "ci_low", "ci_high"]


def with_corrections(
    deltas: pd.DataFrame,
    corrected: pd.DataFrame,
    by: Sequence[str],
    *,
    value: str,
    cluster: str,
    weight: str | None,
) -> pd.DataFrame:
    """Replace each delta by its corrected value, if an estimator is recommended.

    Parameters
    ----------
    deltas : pandas.DataFrame
        Rows of :func:`skillcomp.deltas.paired` with ``margin``, ``reference_rate``,
        ``reference_low``, ``verdict_uncorrected``, ``n_family`` (the number of rows over which
        p-values are adjusted) and the columns ``MARGIN_P``.
    corrected : pandas.DataFrame
        Rows of :func:`skillcomp.correction.delta` and, optionally, of
        :func:`skillcomp.correction.rate`.
    by, value, cluster, weight
        The arguments with which ``deltas`` was made.

    Returns
    -------
    pandas.DataFrame
        The rows of ``deltas``, in their order. ``estimator`` is the recommended estimator or, if
        none is recommended, ``naive``. The estimates columns and ``reference_low`` (lower limit of
        the rate under the reference) have the values of this estimator. If an estimator is
        recommended, ``reference_low`` is NaN without rows of ``correction.rate``.
        ``correction_reason`` explains why this estimator, or none, is recommended. ``n_gold``
        counts the labelled cases. ``labels_needed`` is the number of further labelled cases after
        which a verdict is expected (NaN if unknown, infinite if labels on all cases are too few).
        The columns with the prefix ``moved_`` are the corrected minus the uncorrected values;
        :class:`skillcomp.skillverdicts.decide_on_cases.Claim` needs them.
    """
    rows = _checked_rows(deltas, corrected, by, value)
    rates = rows[rows["measure"].eq(f"rate_{value}")]
    rows = rows[rows["measure"].eq(f"delta_{value}")]
    keys = [*by, "condition"]
    strays = rows[~is_among(rows, deltas, keys)]
    if len(strays):
        raise FrameError(
            f"{WHAT}: the outcomes have no {_name_of(strays.iloc[0], keys)}. Compute both from the "
            "verdicts of the same skills and conditions."
        )
    made = []
    for _, delta in deltas.iterrows():
        mine = rows_of_group(rows, dict(delta[keys]))
        base = rows_of_group(rates, {**delta[[*by]], "condition": delta["reference"]})
        _refuse_other_data(delta, mine, by, cluster, weight)
        made.append(_corrected_row(delta, mine, base))
    columns = [
        "estimator",
        "correction_reason",
        "n_gold",
        "labels_needed",
        *_REPLACED,
        "note",
        "reference_low",
        *MOVED,
        *MARGIN_P,
    ]
    frame = pd.DataFrame(made, columns=columns, index=deltas.index)
    floats = [name for name in columns if name in LIMITS or name.startswith(("moved_", "p_"))]
    return deltas.assign(**frame.astype(dict.fromkeys(floats, "float64")))


def _checked_rows(
    deltas: pd.DataFrame, corrected: pd.DataFrame, by: Sequence[str], value: str
) -> pd.DataFrame:
    """Return ``corrected``; raise FrameError if it does not fit ``deltas``, ``by`` or ``value``."""
    call = f"correction.delta(verdicts, gold, by={list(by)}, value='{value}')"
    require_columns(corrected, [*by, *NEEDED], WHAT)
    measures = [f"delta_{value}", f"rate_{value}"]
    others = sorted(set(corrected["measure"].dropna()) - set(measures))
    if others:
        raise FrameError(
            f"{WHAT}: measure: found '{others[0]}', but the verdicts are of value='{value}'. "
            f"Compute it with {call}."
        )
    keys = [*by, "condition", "measure", "estimator"]
    twice = corrected[corrected.duplicated(keys)]
    if len(twice):
        name = _name_of(twice.iloc[0], keys)
        raise FrameError(
            f"{WHAT}: several rows for {name}; the verdicts are by {list(by)}. Compute it with "
            f"{call}, of one grader."
        )
    is_delta = corrected["measure"].eq(measures[0])
    for column, source in (("ci_level", corrected), ("reference", corrected[is_delta])):
        wrong = source[~source[column].isin(deltas[column])] if len(deltas) else source.iloc[:0]
        if len(wrong):
            here = deltas[column].tolist()[0]
            raise FrameError(
                f"{WHAT}: {column}: found {wrong[column].iloc[0]}, but the verdicts are of "
                f"{here}. Compute it with {column}={here!r}."
            )
    return corrected


def _name_of(row: pd.Series, keys: Sequence[str]) -> str:
    return ", ".join(f"{name} '{row[name]}'" for name in keys)


def _refuse_other_data(
    delta: pd.Series, rows: pd.DataFrame, by: Sequence[str], cluster: str, weight: str | None
) -> None:
    """Raise FrameError if the rows correct a delta of other outcomes, weights, checks or clusters.

    In rows with the estimator ``naive``, the estimate must be the uncorrected delta.
    """
    name, method = _name_of(delta, [*by, "condition"]), " ".join(rows["method"].dropna())
    for argument, words, value in (
        ("weight", "; cases weighted by ", weight),
        ("cluster", "; clustered by ", None if cluster in ("case", "skill") else cluster),
    ):
        if rows["estimate"].notna().any() and (words in method) != (value is not None):
            raise FrameError(
                f"{WHAT}: {name} was not computed with {argument}={value!r}, as the verdicts are. "
                f"Compute it with correction.delta({argument}={value!r})."
            )
    own = rows[rows["estimator"].eq(NAIVE)]
    for _, row in own.iterrows():
        moved = abs(row["estimate"] - delta["estimate"])
        if moved > 1e-9 or _both_known_and_different(row["n"], delta["n"]):
            raise FrameError(
                f"{WHAT}: {name} has the uncorrected delta {row['estimate']:+.3f} on "
                f"{row['n']:.0f} cases, and the outcomes {delta['estimate']:+.3f} on "
                f"{delta['n']:.0f}. Compute both from the same verdicts (grader, round, agents) "
                "with the same weight=, checks= and average=."
            )
        if _both_known_and_different(row["n_clusters"], delta["n_clusters"]):
            raise FrameError(
                f"{WHAT}: {name} has {row['n_clusters']:.0f} clusters, and the outcomes have "
                f"{delta['n_clusters']:.0f}. Give correction.delta the same cluster= and the frame "
                "of cases, cases=."
            )


def _both_known_and_different(first: float, second: float) -> bool:
    return not (math.isnan(first) or math.isnan(second) or first == second)


def _corrected_row(delta: pd.Series, rows: pd.DataFrame, rates: pd.DataFrame) -> Fields:
    """Return the columns that :func:`with_corrections` sets, for one delta."""
    chosen, about = _recommended_row(rows), rows.iloc[0] if len(rows) else None
    n_gold = 0.0 if about is None else float(about["n_gold"])
    no_reason = "no row of the correction is about it"
    made = {
        "estimator": NAIVE,
        "correction_reason": no_reason if about is None else about["reason"],
        "n_gold": n_gold,
        **{name: delta.get(name) for name in (*_REPLACED, "note", "reference_low")},
        **dict.fromkeys(MOVED, 0.0),
        **delta[MARGIN_P],
    }
    base = _recommended_row(rates)
    if chosen is not None:
        made |= {name: chosen.get(name) for name in _REPLACED}
        kept = [part for part in delta["note"].split("; ") if part.startswith(_KEPT_NOTES)]
        note = join_notes(*kept, chosen.get("note", ""))
        made |= {"estimator": chosen["estimator"], "note": note}
        made |= {f"moved_{end.removeprefix('ci_')}": chosen[end] - delta[end] for end in LIMITS}
        made["reference_low"] = NAN
        if base is not None:
            made["reference_low"] = base["ci_low"]
            made["moved_rate"] = base["estimate"] - delta["reference_rate"]
            made["moved_rate_low"] = base["ci_low"] - delta["reference_low"]
            made["p_passing"] = interval_of(base).p_from_limits(1.0 - delta["margin"])
        interval = interval_of(chosen)
        made["p_no_loss"] = interval.p_from_limits(-delta["margin"])
        made["p_no_gain"] = 1.0 - interval.p_from_limits(delta["margin"])
    projected = rows[rows["estimator"].eq("ppi")] if chosen is None else chosen.to_frame().T
    gold = rows[rows["estimator"].eq("gold_only")]
    made["labels_needed"] = _labels_needed(delta, projected, gold, n_gold, base)
    return made


def _recommended_row(rows: pd.DataFrame) -> pd.Series | None:
    chosen = rows[rows["recommended"].fillna(False).astype(bool)]
    chosen = chosen.dropna(subset=LIMITS)
    return chosen.iloc[0] if len(chosen) else None


def _labels_needed(
    delta: pd.Series, rows: pd.DataFrame, gold: pd.DataFrame, n_gold: float, base: pd.Series | None
) -> float:
    """Estimate how many more labelled cases are needed to reach a verdict.

    The estimate is assumed to stay the same. The result is NaN if the number is unknown, and
    infinite if labels on all cases would not be enough.
    """
    rows, gold, n = rows.dropna(subset=LIMITS), gold.dropna(subset=LIMITS), delta["n"]
    if rows.empty or n_gold < 1:
        return NAN
    row, margin = rows.iloc[0], delta["margin"]
    alone = gold.iloc[0] if len(gold) else row
    estimate = row["estimate"]
    to_gain, to_loss = margin - estimate, estimate + margin
    if estimate > margin:
        claims = [{"low": -to_gain}]
    elif estimate < -margin:
        claims = [{"high": -to_loss}]
    else:
        claims = [{"low": to_loss, "high": to_gain}]
    if base is not None and base["ci_low"] >= 1.0 - margin and to_loss > 0:
        claims.append({"low": to_loss})
    if delta["verdict_uncorrected"] in ("helps", "hurts"):
        # p-values are adjusted for several rows, so a wider interval must exclude 0
        level = 1.0 - (1.0 - delta["ci_level"]) / max(delta["n_family"], 1)
        reach = quantile(level) / quantile(delta["ci_level"])
        claims.append({"low" if estimate > 0 else "high": abs(estimate) / reach})
    sizes = [
        max(
            _cases_needed(_distance(row, end), _distance(alone, end), distance, n_gold, n)
            for end, distance in claim.items()
        )
        for claim in claims
    ]
    size = max(min(sizes), FEWEST_GOLD)
    if size > n:  # with very few labels, it is unknown whether labels on all cases would be enough
        return math.inf if n_gold >= FEWEST_GOLD else NAN
    return float(max(math.ceil(size - n_gold), 1))


def _distance(row: pd.Series, end: str) -> float:
    return float(abs(row[f"ci_{end}"] - row["estimate"]))


def _cases_needed(now: float, alone: float, target: float, n_gold: float, n: float) -> float:
    """Return the number of labelled cases that brings a limit to the distance ``target``.

    The distance is measured between the estimate and a limit of its interval. Its square is assumed
    to be a constant plus a part proportional to 1 / (number of labelled cases). ``now`` is the
    distance with ``n_gold`` labelled cases, and ``alone`` the distance if only the gold labels are
    used. With labels on all ``n`` cases, the distance is assumed to be the smaller of the two,
    multiplied by sqrt(n_gold / n).
    """
    if n_gold >= n:
        return n_gold if now <= target else math.inf
    in_the_end = min(alone, now) ** 2 * n_gold / n
    part = (now**2 - in_the_end) / (1 / n_gold - 1 / n)
    room = target**2 - (now**2 - part / n_gold)
    return part / room if room > 0 else math.inf


def reasons_of_verdict(row: pd.Series) -> str:
    """Explain a verdict in one line: its interval, the missing attempts and the correction."""
    if pd.isna(row["ci_low"]):
        return join_notes("no interval", row["note"])
    text = _score_text if row["unit"] == "score" else _points_text
    limits = f"[{text(row['ci_low'])}, {text(row['ci_high'])}]"
    lost = [row[name] for name in ("n_missing", "n_missing_reference")]
    n_planned = [row[name] for name in ("n_attempts", "n_attempts_reference")]
    missing = f"{sum(lost):.0f} of {sum(n_planned):.0f} attempts are missing"
    if not sum(lost):
        missing = "no attempt is missing"
    elif row["overturned"]:
        missing += ", which could change it"
        missing += f"; assumed: {row['assume_missing']}" if row["assume_missing"] else ""
    place = _place_of_interval(row)
    return f"the interval {limits} {place}; {missing}; {_correction_in_words(row)}"


def _place_of_interval(row: pd.Series) -> str:
    """Describe where an interval is, relative to 0 and the margin."""
    low, high, margin = row["ci_low"], row["ci_high"], row["margin"]
    size, least = (
        f"{100 * margin:.0f} points",
        f"passes at least {100 * row['reference_low']:.0f} %",
    )
    if row["unit"] == "score":
        size, least = _score_text(margin), f"scores at least {_score_text(row['reference_low'])}"
    size = f"the margin of {size}"
    if row["verdict"] == "redundant":
        return f"excludes a loss beyond {size}, and '{row['reference']}' {least}"
    end = f"; {shown_alone(row)}"
    if row["p_adjusted"] < 1.0 - row["ci_level"]:
        end = f" ({p_value(row['p_adjusted'], 'adjusted p')} among {_family(row)})"
    same = "" if row["verdict"] == "ineffective" else f", but not once adjusted for {_family(row)}"
    places = {
        f"is above {size}{end}": low > margin,
        f"is below minus {size}{end}": high < -margin,
        f"is within {size}{same}": low > -margin and high < margin,
        f"is above 0, but reaches into {size}{end}": low > 0,
        f"is below 0, but reaches into {size}{end}": high < 0,
    }
    otherwise = f"includes no change and a change beyond {size}"
    return next((words for words, holds in places.items() if holds), otherwise)


def shown_alone(row: pd.Series) -> str:
    """Describe a gain or loss that a row's interval shows, but its adjusted p-value does not."""
    change = f"a {'gain' if row['ci_low'] > 0 else 'loss'} is shown by the interval alone"
    if pd.isna(row["p_adjusted"]):
        return f"{change}, without an adjusted p-value"
    return f"{change}, not among {_family(row)} ({p_value(row['p_adjusted'], 'adjusted p')})"


def _family(row: pd.Series) -> str:
    return plural(int(row["n_family"]), "row")


def _correction_in_words(row: pd.Series) -> str:
    alone, p = f"by the grader alone {row['verdict_uncorrected']}", row["p_adjusted_uncorrected"]
    if pd.isna(row["n_gold"]):
        return "no correction: no labels were given"
    if row["estimator"] == NAIVE:
        return f"not corrected: {row['correction_reason']}"
    low, high = (_points_text(row[f"{name}_uncorrected"]) for name in ("ci_low", "ci_high"))
    gold = plural(int(row["n_gold"]), "labelled case")
    excludes_0 = row["ci_low_uncorrected"] > 0 or row["ci_high_uncorrected"] < 0
    reason = ""
    if row["verdict_uncorrected"] == "undetermined" and excludes_0 and pd.notna(p):
        reason = f" ({p_value(p, 'adjusted p')})"
    if pd.isna(row["ci_low_uncorrected"]):
        return f"corrected by {row['estimator']} with {gold} (the grader alone gives no interval)"
    return f"corrected by {row['estimator']} with {gold} ({alone}, [{low}, {high}]{reason})"


def _score_text(value: float) -> str:
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def _points_text(value: float) -> str:
    # a number other than 0 must not appear as 0, so it may get decimals
    text = f"{100 * value:.0f}"
    text = text if float(text) or not value else f"{100 * value:.1g}"
    return text.replace("-", "\N{MINUS SIGN}")
