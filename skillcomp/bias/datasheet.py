"""Datasheet of a judge: each property with its interval, or the call that would measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import pandas as pd

from skillcomp.bias.audit import audit, with_families
from skillcomp.bias.features_and_perturbations import (
    Perturbation,
    known_attempts,
    perturbed,
)
from skillcomp.bias.position_and_win_rates import INCLUDES_PLACE, position, win_rates
from skillcomp.errors import FrameError
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import ORIGINAL
from skillcomp.frames.estimates import (
    By,
    check_settings,
    columns_of,
    estimates,
    grouped,
    groups,
    listed,
    null_values,
    ordered,
    prepared,
    sorted_by,
    with_adjusted_p,
)
from skillcomp.frames.from_frame import compare_answers
from skillcomp.frames.reference_labels import Drawn
from skillcomp.reliability.grader_agreement_and_consistency import agreement, consistency
from skillcomp.reliability.grader_drift_and_contrast import drift
from skillcomp.stats.results import Fields, join_notes

_WHAT = "bias.datasheet"
_NUMBERS = ["estimate", "ci_low", "ci_high", "p_value"]
_RATES = ["false_passes", "false_fails"]
_AGREEMENT = ["raw_agreement", "ceiling_raw_agreement"]
_NOT_POOLED = {"position", "win_rates", "audit"}  # audit has a note of its own on agents
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
    "ties of identical answers": _Property(
        _IDENTICAL, {"position": {"measure": "ties_if_identical"}}
    ),
    "first of identical answers wins": _Property(
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
    "length per doubling": _Property(
        "give verdicts= and gold=, or pairwise=, on answers of different lengths",
        {"audit": {"bias": "verbosity"}},
    ),
    "own family": _Property(
        "give verdicts= and gold=, or pairwise=, on answers of several model families, and name "
        "the families in families=",
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
_IN_PAIRS = dict.fromkeys(("win_rate", "pair_effect_points"), "{} in pairs")
_IN_PAIRS["pair_preference_points"] = "preference for {}"


def datasheet(
    verdicts: pd.DataFrame | None = None,
    attempts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    pairwise: pd.DataFrame | None = None,
    *,
    by: By = ("grader",),
    families: Mapping[str, str] | None = None,
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate each known property of a judge, or name the call that would measure it.

    The rows are those of :func:`position`, :func:`win_rates`, :func:`perturbed` and :func:`audit`,
    and of :func:`skillcomp.reliability.agreement`, :func:`skillcomp.reliability.consistency` and
    :func:`skillcomp.reliability.drift`. Use these functions for details, such as counts.

    Parameters
    ----------
    verdicts : pandas.DataFrame, optional
        A verdicts frame of judges of single answers, with all versions and rounds, and with the
        verdicts on copies (``perturbation="all"``). The answers of all agents are pooled, which
        the notes state, unless `by` names ``"agent"``.
    attempts : pandas.DataFrame, optional
        The attempts of the verdicts and of the pairs, including copies. Required for copies,
        length and family.
    gold : pandas.DataFrame, optional
        A gold frame. With the labels of every labeller (``labeller="all"``), it also gives the
        agreement of labellers, the ceiling for a judge.
    pairwise : pandas.DataFrame, optional
        A pairwise frame of judges of pairs. Pairs of an answer with its copy have attempts with the
        agent ``original``, and the kind of the copy as the other agent.
    by : str or sequence of str, default ("grader",)
        Columns that identify a judge; not ``"grader_version"`` or ``"round"``, which are compared.
    families : mapping of str to str, optional
        The model family of judges and agents by their names, as in :func:`audit`.
    gold_drawn, drawn_by : str, optional
        How gold was drawn, as in :func:`skillcomp.reliability.agreement`, for the agreement with
        gold, false passes and false fails.
    cases : pandas.DataFrame, optional
        A cases frame; linked cases, such as a contrast pair, then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per judge and property:

        - property: the name of the property. ``in pairs`` follows if it was measured in pairs.
          Without a gold winner, length and family begin with ``preference for``, because the longer
          answer may be the better one.
        - condition: the condition of the answers. Only for false passes and false fails, if there
          are several.
        - the estimates columns. Estimate, interval and ``method`` are those of the analysis.
          Estimates are in percentage points for the place, copies graded alone, length and family;
          in points for the change between versions; otherwise they are rates. ``n`` counts cases
          (linked cases count once). ``p_adjusted`` is adjusted by Holm over all rows of the judge
          that have a ``null``, and ``shown`` follows from it and the interval. Both are NA in other
          rows.
        - n_judged: what the analysis counts, such as verdicts, pairs or labels.
        - null: the value of an unbiased judge, 0 or, for a share of wins, 0.5. NaN for agreement,
          ties and error rates.

        A property without data has a row with NaN. Its note begins with "not measured", gives the
        reason if the analysis has one, and ends with the data or the call that would measure it.

    Raises
    ------
    FrameError
        If there are neither verdicts nor pairwise judgements, a frame breaks its contract, several
        judges would be pooled, or `by` names the version, round or condition.

    See Also
    --------
    audit : All effects of features, with the leniency under each condition.

    Notes
    -----
    The newest version of each grader counts, and its first round: that graded last by
    ``graded_at`` or, without times, the one of the last row. The rounds of the newest version are
    compared for the agreement with itself, and the two newest versions, in their first rounds and
    on the same answers, for the change.

    Intervals take cases as clusters, and cases as independent of each other. The adjustment holds
    for one judge: with many judges, some will show a bias by chance. A copy changes only the form,
    the tone or the framing of an answer, so its effect is one of the judge; length and family
    are associations among answers that also differ in other ways. A bias that is not shown is not
    excluded: the interval gives the size that may have been missed.

    References
    ----------
    Zheng et al. 2023, arXiv:2306.05685; Wataoka et al. 2024, arXiv:2410.21819.

    Examples
    --------
    A judge compares ten answers with themselves. The answer shown first wins nine times.

    >>> import pandas as pd
    >>> import skillcomp as sc
    >>> pairs = pd.DataFrame({"case_id": [f"s/{i}" for i in range(10)], "grader": "j",
    ...     "first": [f"a{i}" for i in range(10)], "winner_position": [1] * 9 + [2]})
    >>> sheet = datasheet(pairwise=pairs.assign(second=pairs["first"]))
    >>> sheet[["property", "estimate", "null", "shown"]].head(3)
                              property  estimate  null  shown
    0        ties of identical answers       0.0   NaN   <NA>
    1  first of identical answers wins       0.9   0.5   True
    2                first answer wins      80.0   0.0   True
    """
    names = listed(by)
    check_settings(_WHAT, ci_level)
    if verdicts is None and pairwise is None:
        raise FrameError(
            f"{_WHAT}: found neither verdicts nor pairwise judgements. Give verdicts= for a judge "
            "of single answers, pairwise= for a judge of pairs, or both, such as made.verdicts and "
            "made.pairwise of from_frame."
        )
    compared = ["grader_version", "round", "condition"]
    graded, judged = (
        empty(kind)
        if frame is None
        else prepared(frame, kind, names, _WHAT, compared=compared, copies=False)
        for frame, kind in ((verdicts, "verdicts"), (pairwise, "pairwise"))
    )
    n_agents = 0
    if "agent" not in names:
        n_agents = graded["agent"].nunique()
        graded = graded.assign(agent=pd.array([None] * len(graded), dtype="str"))
    if attempts is not None:  # verdicts without the column perturbation
        kinds = check(attempts, "attempts").set_index("attempt_id")["perturbation"]
        graded["perturbation"] = graded["attempt_id"].map(kinds)
    how: Fields = {"by": names, "cases": cases, "ci_level": ci_level}
    drawn: Fields = {"gold_drawn": gold_drawn, "drawn_by": drawn_by}
    graded, results = _results_of_verdicts(graded, gold, drawn, **how)
    if len(judged):
        judged = pd.concat(versions[0] for _, versions in _versions(judged, names))
    if attempts is not None:
        known = _with_forms(judged, attempts)
        copies = known.loc[known["_form"].eq("identical"), "source_attempt_id"]
        pairs = judged[["first", "second"]].to_numpy()
        other = dict([*pairs, *pairs[:, ::-1]])  # a table of pairs does not name the sources
        same = copies.fillna(copies.index.to_series().map(other)).dropna().to_dict()
        for side in ("first", "second", "winner"):
            judged[side] = judged[side].replace(same)
        results |= _results_of_answers(graded, known, gold, judged, families, **how)
    if len(judged):
        results["position"] = position(judged, **how)
    for name in results.keys() - _NOT_POOLED if n_agents > 1 else ():
        pooled = f"pools the answers of {n_agents} agents"
        notes = [join_notes(note, pooled) for note in results[name]["note"]]
        results[name] = results[name].assign(note=notes)
    lines = {name: _records(result) for name, result in results.items()}
    judges = pd.concat([frame.reindex(columns=names) for frame in (graded, judged)])
    rows = [
        line | judge
        for judge in (_records(judges.drop_duplicates()) if names else [{}])
        for name, about in _PROPERTIES.items()
        for line in _rows_of_property(lines, judge, name, about)
    ]
    sheet = estimates(rows, by=[*names, "property", "condition"], extra=["null", "n_judged"])
    sheet = sheet.fillna({"ci_level": ci_level})
    null = pd.Series(null_values(sheet), sheet.index).where(sheet["p_value"].notna())
    return with_adjusted_p(sheet.assign(null=null), names)


def _records(frame: pd.DataFrame) -> list[Fields]:
    """Return the rows as dictionaries; missing values are None, which equal each other."""
    records: list[Any] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return records


def _rows_of_property(
    lines: dict[str, list[Fields]], judge: Fields, name: str, about: _Property
) -> Iterator[Fields]:
    """Yield the rows of a property of a judge; if no analysis has one, a row without a value."""
    own = [
        line
        for analysis, values in about.rows.items()
        for line in lines.get(analysis, ())
        if (judge | values).items() <= line.items()
    ]
    for line in own or [dict.fromkeys(("estimate", "note", "measure", "n", "n_clusters"))]:
        n, note = line["n_clusters"] or line["n"], line["note"]
        if line["estimate"] is None:
            why = f"{NOT_MEASURED}: {note}" if note else NOT_MEASURED
            n, note = None, f"{why}; to measure it, {about.needed}"
        words = _IN_PAIRS.get(line["measure"], "{}").format(name)
        yield line | {"property": words, "n": n, "n_judged": line["n"], "note": note}


def _results_of_verdicts(
    graded: pd.DataFrame, gold: pd.DataFrame | None, drawn: Fields, *, by: list[str], **how: Any
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the verdicts of the newest versions in their first round, and results without texts.

    The keys are the names of the analyses.
    """
    results: dict[str, pd.DataFrame] = {}
    judges = list(_versions(graded, by))
    newest = pd.concat([graded.head(0), *(versions[0] for _, versions in judges)])
    first = _first_round(newest, by)
    plain = _originals(first)
    changes = []
    for judge, versions in judges:
        if len(versions) > 1:
            two = _first_round(_originals(pd.concat(versions[:2])), by)
            before = tuple(versions[1].iloc[0][["grader", "grader_version"]])
            changes.append(drift(two, reference_grader=before, **how).assign(**judge))
    if changes:
        results["drift"] = pd.concat(changes)
    if len(plain):
        results["consistency"] = consistency(_originals(newest), by=by, **how)
    if len(plain) and gold is not None:
        drawn = {**drawn, **how}
        results["agreement"] = agreement(plain, gold, quantities=_AGREEMENT, by=by, **drawn)
        several = ["condition"] if plain["condition"].nunique() > 1 else []
        results["errors"] = agreement(plain, gold, quantities=_RATES, by=[*by, *several], **drawn)
    return first, results


def _with_forms(judged: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the attempts by id, with the kind of a copy, or ``original``, in ``_form``."""
    ids = judged[["first", "second"]].melt(value_name="attempt_id")
    known = known_attempts(ids, attempts, _WHAT, rows="answers").set_index("attempt_id", drop=False)
    agent = known["agent"].where(known["agent"].isin(get_args(Perturbation)))
    return known.assign(_form=agent.fillna(known["perturbation"]).fillna(ORIGINAL))


def _results_of_answers(
    graded: pd.DataFrame,
    known: pd.DataFrame,
    gold: pd.DataFrame | None,
    judged: pd.DataFrame,
    families: Mapping[str, str] | None,
    **how: Any,
) -> dict[str, pd.DataFrame]:
    """Return the results on copies and features, which need the attempts."""
    results: dict[str, pd.DataFrame] = {}
    plain = _originals(graded)
    if len(graded):
        results["perturbed"] = perturbed(graded, known, **how)
    if families is not None:
        plain, known, judged = with_families(plain, known, judged, families, _WHAT)
    first, second = (judged[side].map(known["_form"]).eq(ORIGINAL) for side in ("first", "second"))
    of_copies = first ^ second
    if of_copies.any():
        copied = judged[of_copies]
        wins = win_rates(copied, known, sides="_form", reference=ORIGINAL, **how)
        of_place = wins["note"].str.contains(INCLUDES_PLACE)
        wins[_NUMBERS] = wins[_NUMBERS].mask(of_place)
        results["win_rates"] = wins
    if len(judged):  # audit takes verdicts on pairs from the pairs
        plain = plain[~compare_answers(plain, known)]
    judged = judged[~of_copies]
    if len(plain) or len(judged):
        used = {*plain["attempt_id"], *judged["first"], *judged["second"]}
        results["audit"] = audit(
            plain,
            known[known["attempt_id"].isin(used)],
            empty("gold") if gold is None else gold,
            pairwise=judged,
            reference=next(iter(ordered(plain["condition"])), "baseline"),
            **how,
        )
    return results


def _originals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts that are not on copies; pairs are returned as they are."""
    if "perturbation" not in rows:
        return rows
    return rows[rows["perturbation"].fillna("none").isin(["", "none"])]


def _versions(
    frame: pd.DataFrame, names: Sequence[str]
) -> Iterator[tuple[Fields, list[pd.DataFrame]]]:
    """Yield the values of each judge, and its rows by version of the grader, the newest first."""
    for judge, rows in groups(frame, names):
        named = rows["grader_version"]
        if named.notna().any():
            rows = rows.assign(grader_version=named.fillna("(no version)"))
        order = sorted_by(_originals(rows), columns_of(rows, "graded_at"))["grader_version"]
        versions = order.dropna()[::-1].unique()
        yield judge, [rows[rows["grader_version"].eq(name)] for name in versions] or [rows]


def _first_round(verdicts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the verdicts of each judge and version in its first round."""
    rounds = verdicts.assign(round=verdicts["round"].fillna(1))
    first = grouped(rounds, [*by, "grader_version"])["round"].transform("min")
    return verdicts[rounds["round"].eq(first)]
