"""Datasheet of a judge: each property with its interval, or the call that would measure it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from skillcomp.bias.audit import audit
from skillcomp.bias.features_and_perturbations import known_attempts, perturbed
from skillcomp.bias.position_and_win_rates import position, win_rates
from skillcomp.errors import FrameError
from skillcomp.frames.check import empty
from skillcomp.frames.estimates import (
    By,
    check_settings,
    columns_of,
    estimates,
    groups,
    listed,
    null_values,
    ordered,
    prepared,
    refuse_names,
    rows_of_group,
    sorted_by,
    with_adjusted_p,
)
from skillcomp.frames.table_pairs import compare_answers
from skillcomp.reliability.grader_agreement_and_consistency import agreement, consistency
from skillcomp.reliability.grader_drift_and_contrast import drift
from skillcomp.stats.results import NAN, Fields, join_notes

ORIGINAL = "original"  # agent of the original answers in pairs of originals with copies
_WHAT = "bias.datasheet"
_RATES = ["false_passes", "false_fails"]
_AGREEMENT = ["raw_agreement", "ceiling_raw_agreement"]
NOT_MEASURED = "not measured"


class _Property(NamedTuple):
    """What measures a property, and its rows: by analysis, the values of columns of its result."""

    needed: str
    rows: dict[str, Fields]


_COPIES = {
    "pad": "padded copy",
    "bullets": "copy in bullets",
    "reorder": "reordered copy",
    "hedge": "hedged copy (tone)",
    "confident": "confident copy (tone)",
    "approve": "copy with a pleased user",
    "disapprove": "copy with a displeased user",
}
_IDENTICAL = "give pairwise= with the pairs of bias.copy_pairs(attempts, kind='identical')"
_PROPERTIES = {
    "ties, identical answers": _Property(
        _IDENTICAL, {"position": {"measure": "ties_if_identical"}}
    ),
    "first wins, identical answers": _Property(
        _IDENTICAL, {"position": {"measure": "first_wins_if_identical"}}
    ),
    "first answer wins": _Property(
        "give pairwise= with each pair in both orders",
        {"position": {"measure": "position_points"}},
    ),
    **{
        words: _Property(
            f"have the copies of bias.perturb(attempts, kind='{kind}') graded, or the pairs of "
            f"bias.copy_pairs(attempts, kind='{kind}') compared",
            {
                "perturbed": {"perturbation": kind},
                "win_rates": {"side": kind, "measure": "win_rate"},
            },
        )
        for kind, words in _COPIES.items()
    },
    "length, per doubling": _Property(
        "give verdicts= and gold=, or pairwise=, on answers of different lengths",
        {"audit": {"bias": "verbosity"}},
    ),
    "own family": _Property(
        "give verdicts= and gold=, or pairwise=, on answers of several model families, named by "
        "grader_family= and agent_family= of from_frame",
        {"audit": {"bias": "model family"}},
    ),
    "agreement with gold": _Property("give gold=", {"agreement": {"measure": _AGREEMENT[0]}}),
    "agreement of two labellers": _Property(
        "give gold= with the labels of both, as frames.gold(store, labeller='all') does",
        {"agreement": {"measure": _AGREEMENT[1]}},
    ),
    "false passes": _Property(
        "give gold= with answers that fail", {"errors": {"measure": _RATES[0]}}
    ),
    "false fails": _Property(
        "give gold= with answers that pass", {"errors": {"measure": _RATES[1]}}
    ),
    "agreement with itself": _Property(
        "give verdicts= of two rounds, as frames.verdicts(store, round='all') does",
        {"consistency": {"measure": _AGREEMENT[0]}},
    ),
    "change from the version before": _Property(
        "give verdicts= of two values of grader_version on the same answers",
        {"drift": {"measure": "pass_rate_change"}},
    ),
}
# measure -> how it changes the name of the property
_IN_PAIRS = dict.fromkeys(("win_rate", "pair_effect_points"), "{}, in pairs")
_IN_PAIRS["pair_preference_points"] = "preference: {}"


def datasheet(
    verdicts: pd.DataFrame | None = None,
    attempts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    pairwise: pd.DataFrame | None = None,
    *,
    by: By = ("grader",),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """DOC"""
    names = listed(by)
    check_settings(_WHAT, ci_level)
    if verdicts is None and pairwise is None:
        raise FrameError(
            f"{_WHAT}: found neither verdicts nor pairwise judgements. Give verdicts= for a judge "
            "of single answers, pairwise= for a judge of pairs, or both, such as made.verdicts and "
            "made.pairwise of from_frame."
        )
    taken = {"property", "condition", "null"}
    refuse_names({"by": names}, [(taken, "a column of the result. Leave it out")], _WHAT)
    graded, judged = (
        empty(kind)
        if frame is None
        else prepared(
            frame, kind, names, _WHAT, compared=["grader_version", "round"], copies=False
        )
        for frame, kind in ((verdicts, "verdicts"), (pairwise, "pairwise"))
    )
    if verdicts is not None and "agent" not in names:
        graded = graded.assign(agent=pd.array([None] * len(graded), dtype="str"))
    sources = _sources(graded, attempts, gold, judged, names, cases=cases, ci_level=ci_level)
    judges = pd.concat([frame.reindex(columns=names) for frame in (graded, judged)])
    rows = [
        line | judge
        for judge, _ in groups(judges, names)
        for name, about in _PROPERTIES.items()
        for line in _rows_of_property(sources, judge, name, about)
    ]
    columns = [*names, "property", "condition"]
    sheet = estimates(rows, by=columns, extra=["null"]).fillna({"ci_level": ci_level})
    null = pd.Series(null_values(sheet), sheet.index).where(sheet["p_value"].notna())
    return with_adjusted_p(sheet.assign(null=null), names)


def _rows_of_property(
    sources: dict[str, pd.DataFrame], judge: Fields, name: str, about: _Property
) -> Iterator[Fields]:
    """Yield the rows of a property of a judge; if no analysis has one, a row without a value."""
    lines = [
        line
        for source, values in about.rows.items()
        if source in sources
        for line in rows_of_group(sources[source], judge | values).to_dict("records")
    ]
    for line in lines or [{"note": "", "estimate": NAN, "n": NAN, "n_clusters": NAN}]:
        n, note = line["n_clusters"], line["note"]
        if pd.isna(line["estimate"]):
            why = f"{NOT_MEASURED}: {note}" if note else NOT_MEASURED
            note = join_notes(why, f"to measure it, {about.needed}")
        elif pd.isna(n):
            n = line["n"]
        words = _IN_PAIRS.get(line.get("measure"), "{}").format(name)
        yield line | {"property": words, "n": n, "note": note}


def _sources(
    graded: pd.DataFrame,
    attempts: pd.DataFrame | None,
    gold: pd.DataFrame | None,
    judged: pd.DataFrame,
    names: list[str],
    **how: Any,
) -> dict[str, pd.DataFrame]:
    """Return the results of the analyses that the data allow, by the name of the analysis."""
    sources: dict[str, pd.DataFrame] = {}
    by_judge: Fields = {"by": names, **how}
    first, changes, rounds = [graded.head(0)], [], [graded.head(0)]
    for judge, versions in _versions(graded, names):
        first.append(_first_round(versions[0]))
        rounds.append(_originals(versions[0]))
        if len(versions) > 1:
            two = pd.concat(_first_round(_originals(rows)) for rows in versions[:2])
            before = tuple(versions[1].iloc[0][["grader", "grader_version"]])
            changes.append(drift(two, reference_grader=before, **how).assign(**judge))
    newest = pd.concat(first)
    plain = _originals(newest)
    if changes:
        sources["drift"] = pd.concat(changes)
    if len(plain):
        sources["consistency"] = consistency(pd.concat(rounds), **by_judge)
    if len(plain) and gold is not None:
        sources["agreement"] = agreement(plain, gold, quantities=_AGREEMENT, **by_judge)
        conditions: Fields = by_judge | {"by": [*names, "condition"]}
        sources["errors"] = agreement(plain, gold, quantities=_RATES, **conditions)
    if len(judged):
        judged = pd.concat(versions[0] for _, versions in _versions(judged, names))
        sources["position"] = position(judged, **by_judge)
    if attempts is None:
        return sources
    if len(newest):
        sources["perturbed"] = perturbed(newest, attempts, **by_judge)
    known = known_attempts(judged[["first", "second"]].melt(value_name="attempt_id"), attempts, _WHAT)
    originals = known.loc[known["agent"].eq(ORIGINAL), "attempt_id"]
    of_copies = judged[["first", "second"]].isin([*originals]).any(axis=1)
    if of_copies.any():
        sources["win_rates"] = win_rates(
            judged[of_copies], attempts, reference=ORIGINAL, **by_judge
        )
    judged = judged[~of_copies]
    if len(judged):  # audit takes verdicts on pairs from the pairs
        plain = plain[~compare_answers(plain, known)]
    if len(plain) or len(judged):
        used = {*plain["attempt_id"], *judged["first"], *judged["second"]}
        sources["audit"] = audit(
            plain,
            known[known["attempt_id"].isin(used)],
            empty("gold") if gold is None else gold,
            pairwise=judged,
            reference=next(iter(ordered(plain["condition"])), "baseline"),
            **by_judge,
        )
    return sources


def _originals(verdicts: pd.DataFrame) -> pd.DataFrame:
    return verdicts[verdicts["perturbation"].fillna("none").isin(["", "none"])]


def _versions(
    frame: pd.DataFrame, names: Sequence[str]
) -> Iterator[tuple[Fields, list[pd.DataFrame]]]:
    """Yield the values of each judge, and its rows by version of the grader, the newest first."""
    for judge, rows in groups(frame, names):
        order = sorted_by(rows, columns_of(rows, "graded_at"))["grader_version"].dropna()
        named = [rows[rows["grader_version"].eq(name)] for name in order[::-1].unique()]
        yield judge, named or [rows]


def _first_round(rows: pd.DataFrame) -> pd.DataFrame:
    number = rows["round"].fillna(1)
    return rows[number.eq(number.min())]
