"""One row for each way in which a grader may be swayed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from skillcomp.bias.effects import feature_effect, leniency, refused
from skillcomp.bias.graded import ANSWER, chosen, graded, known_attempts
from skillcomp.bias.judgements import first_wins
from skillcomp.bias.pairs import EXTRA, compared, paired_verdicts
from skillcomp.bias.positions import of_pairs
from skillcomp.contracts import check
from skillcomp.correction.tables import strays_of
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import check_settings, estimates, groups, listed, row
from skillcomp.labels import ITEM, one_label, told
from skillcomp.records import CONDITIONS
from skillcomp.stats.multiplicity import holm

__all__ = ["audit"]

# bias: the feature it is read from, and one unit of that
_FEATURES = {
    "verbosity": ("log2_words", "doubling of the words"),
    "hedging": ("hedges_per_100", "hedge more in 100 words"),
    "model family": ("own_family", "answer of the grader's own family against another"),
    "order in the batch": ("place", "way from the first to the last verdict of a batch"),
    "polish: lists": ("has_list", "answer with a list against one without"),
    "polish: sentences": ("log2_words_per_sentence", "doubling of the words per sentence"),
}
_COPIES = {  # perturbation: the bias it tests, and what was done
    "pad": ("verbosity", "copy padded with filler"),
    "hedge": ("hedging", "copy with hedges added"),
    "confident": ("hedging", "copy with assurances added"),
    "reorder": ("order in the answer", "copy with list items or paragraphs in another order"),
}
_STRATA = {"all": None, "gold pass": 1.0, "gold fail": 0.0}
_LENIENT, _POSITION = "condition leniency", "position"
_SHOWN = "answer shown first against second"


def audit(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    pairwise: pd.DataFrame | None = None,
    exclude_checks: Sequence[str] = (),
    reference: str = "baseline",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say what besides the content moves a grader's verdicts, one row for each bias.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame. With verdicts on perturbed copies in it (``perturbation="all"``) the
        paired tests are added.
    attempts : pandas.DataFrame
        The attempts, copies included where the verdicts hold them.
    gold : pandas.DataFrame
        A gold frame. Adjudicated labels stand; where nobody adjudicated, what the labellers agree
        on; the note of a row with a number counts both for its group. May be empty: then only
        the perturbation and position rows can tell anything.
    by : sequence of str
        Columns of the verdicts that keep rows apart, such as ``["grader"]``; ``perturbation``
        always does.
    pairwise : pandas.DataFrame, optional
        A pairwise frame or one of another layout as in :func:`position`, for the position bias.
        Its graders get rows of their own.
    exclude_checks : sequence of str
        Texts; every check whose id contains one is left out, as in ``reliability``, such as
        those the grader could not check.
    reference : str, default "baseline"
        Condition that leniency is measured against.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster; for position only where ``pairwise``
        has case_id, else the note says that it does not.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Per ``by``, one row per bias or several:

        - bias: ``verbosity``, ``hedging``, ``model family``, ``condition leniency``,
          ``order in the batch``, ``position``, ``polish: lists``, ``polish: sentences``, and
          ``order in the answer`` where reordered copies were graded;
        - condition: for leniency, the condition compared with the reference;
        - stratum: ``all``, or for leniency also ``gold pass`` (its sensitivity is higher) and
          ``gold fail`` (it lets more failing behaviours pass);
        - the estimates columns: measure ``effect_points`` (average marginal effect on the pass
          rate given gold), ``perturbation_points`` (copy minus original) or ``position_points``;
          estimate in percentage points, positive where the grader is more lenient; n (verdicts;
          for paired tests cases), p_adjusted by Holm over the ``effect_points`` of all gold
          labels together, those that are not identified counted;
        - per: what one unit of the feature is; n_empty_strata (leniency: skill and gold label
          without answers of an arm); n_to_pass, n_to_fail, p_mcnemar, n_dropped for copies.

        Where the data cannot tell, NaN and a note that begins "not identified".

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds or labellers would be pooled, a verdict's
        attempt is missing, ``reference`` or an excluded check is not there, or ``ci_level`` is no
        level.

    See Also
    --------
    perturbed : Copies against originals. position : Pairwise judgements.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    ``effect_points`` is the slope of a linear probability model of the verdict with an intercept
    for each combination of skill, condition and gold label, the other features held constant,
    CR2 by case; for leniency the intercepts are those of skill and gold label, and nothing is held
    constant, since every difference between the arms distorts a delta. Association in answers that
    differ in more than one thing: where copies exist, trust the perturbation test. A grader that is
    swayed by gold's own errors looks biased.

    References
    ----------
    Wataoka et al. 2024, arXiv:2410.21819; Spiliopoulou et al. 2025, arXiv:2508.06709; Dubois et
    al. 2024, arXiv:2404.04475; Zheng et al. 2023, arXiv:2306.05685.
    """
    names, what = [name for name in listed(by) if name != "perturbation"], "bias.audit"
    check_settings(what, ci_level)
    given = chosen(verdicts, by=names, exclude_checks=exclude_checks, cases=cases, what=what)
    every = known_attempts(given, attempts, what)
    _require_reference(given, reference)
    copies = paired_verdicts(given, every, what)
    labels = one_label(check(gold, "gold"), what)
    labelled = graded(given, every, labels, what)
    strays = strays_of(given, labels)
    frames = {_key(values, names): part for values, part in groups(labelled, names)}
    paired: dict[tuple[Any, ...], dict[str, pd.DataFrame]] = {}
    for values, part in groups(copies, [*names, "perturbation"]):
        paired.setdefault(_key(values, names), {})[str(values["perturbation"])] = part
    shared = [] if pairwise is None else [n for n in names if n in ("grader", "skill")]
    shown, apart = _shown(pairwise, shared, cases)
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        frame = frames.get(_key(values, names), labelled.iloc[:0])
        own = _one_grader(frame, part, reference, ci_level)
        if frame.empty and strays:
            own = _noted(own, strays)
        rows += [one | values for one in _adjusted(_settled(own, part, labels))]
        for kind, pairs in paired.get(_key(values, names), {}).items():
            bias, per = _COPIES.get(kind, (kind, f"copy: {kind}"))
            rows.append(compared(pairs, ci_level) | _named(bias, per) | values)
        rows.append(_position(shown, shared, values, ci_level) | values)
    if shown is not None:
        rows += _other_graders(shown, given, shared, names, ci_level)
    place = [one["bias"] == _POSITION and not math.isnan(one["estimate"]) for one in rows]
    rows = [_noted([one], apart if n else "")[0] for one, n in zip(rows, place, strict=True)]
    extra = ["per", "n_empty_strata", *EXTRA]
    return estimates(rows, by=[*names, "bias", "condition", "stratum"], extra=extra)


def _key(values: dict[str, Any], names: list[str]) -> tuple[Any, ...]:
    return tuple(None if pd.isna(values[name]) else values[name] for name in names)


def _noted(rows: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [one | {"note": "; ".join(filter(None, (one["note"], what)))} for one in rows]


def _shown(
    pairwise: pd.DataFrame | None, by: list[str], cases: pd.DataFrame | None
) -> tuple[pd.DataFrame | None, str]:
    """Return who won in each order, and a note where contrast pairs cannot be told."""
    if pairwise is None:
        return None, ""
    if cases is None or "case_id" in pairwise.columns:
        return first_wins(pairwise, by=by, cases=cases), ""
    twins = check(cases, "cases")["contrast_of"].notna().any()
    apart = "contrast pairs taken as independent: no case_id" if twins else ""
    return first_wins(pairwise, by=by), apart


def _settled(
    rows: list[dict[str, Any]], verdicts: pd.DataFrame, labels: pd.DataFrame
) -> list[dict[str, Any]]:
    """Say in every row with a number how the labels of its group were settled."""
    gold = labels[[*ITEM, "labeller", "passed"]].rename(columns={"passed": "gold"})
    items = verdicts[ITEM].merge(gold, on=ITEM)
    how = told(items["labeller"], items["gold"])
    return [one if math.isnan(one["estimate"]) else _noted([one], how)[0] for one in rows]


def _named(
    bias: str, per: str, condition: str | None = None, stratum: str = "all"
) -> dict[str, Any]:
    return {"bias": bias, "per": per, "condition": condition, "stratum": stratum}


def _require_reference(verdicts: pd.DataFrame, reference: str) -> None:
    found = list(verdicts["condition"].unique())
    if found and reference not in found:
        raise FrameError(
            f"reference: there is no condition '{reference}'; there: {', '.join(found)}."
            + suggest(reference, found)
        )


def _one_grader(
    frame: pd.DataFrame, verdicts: pd.DataFrame, reference: str, ci_level: float
) -> list[dict[str, Any]]:
    """Return the rows of effects given gold for one group."""
    rows = []
    columns = {*ANSWER, "place"}
    for bias, (name, per) in _FEATURES.items():
        others = sorted(columns - {name})
        found = feature_effect(frame, name, others, ci_level)
        if name == "own_family" and math.isnan(found.estimate) and len(frame):
            found = replace(found, note=_one_family(frame))
        rows.append(row("effect_points", found) | _named(bias, per))
    return rows + _leniencies(frame, verdicts, reference, ci_level)


def _one_family(frame: pd.DataFrame) -> str:
    families = sorted(map(str, frame["agent_family"].dropna().unique()))
    if not families or frame["grader_family"].isna().all():
        return "not identified: model family not recorded"
    if len(families) == 1:
        return (
            f"not identified: every answer is of one model family ({families[0]}), so leniency to "
            "the own family cannot be told from leniency to all"
        )
    return (
        "not identified: no two answers of one skill, condition and gold label differ in being "
        "of the grader's own family"
    )


def _leniencies(
    frame: pd.DataFrame, verdicts: pd.DataFrame, reference: str, ci_level: float
) -> list[dict[str, Any]]:
    rows = []
    found = list(verdicts["condition"].unique())
    ordered = [c for c in CONDITIONS if c in found] + [c for c in found if c not in CONDITIONS]
    for condition in [c for c in ordered if c != reference]:
        for stratum, gold in _STRATA.items():
            effect = leniency(frame, condition, reference, gold, ci_level)
            per = f"answer under {condition} against {reference}"
            rows.append(
                row("effect_points", effect.interval, n_empty_strata=effect.n_empty)
                | _named(_LENIENT, per, condition, stratum)
            )
    return rows


def _adjusted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add Holm's p-values over the biases of a group, all gold labels together."""
    family = [one for one in rows if one["stratum"] == "all"]
    adjusted = holm([one["p_value"] for one in family])
    for one, p_value in zip(family, adjusted, strict=True):
        one["p_adjusted"] = float(p_value)
    return rows


def _position(
    shown: pd.DataFrame | None, names: list[str], values: dict[str, Any], ci_level: float
) -> dict[str, Any]:
    """Return the position row of one group of verdicts."""
    if shown is None:
        nothing = refused("no pairwise judgements were given", ci_level)
        return row("position_points", nothing) | _named(_POSITION, _SHOWN)
    pairs = shown
    for name in names:
        pairs = pairs[pairs[name].eq(values[name])]
    if pairs.empty:
        nothing = refused("no pairwise judgements of this group", ci_level)
        return row("position_points", nothing) | _named(_POSITION, _SHOWN)
    return _position_row(pairs, ci_level)


def _position_row(pairs: pd.DataFrame, ci_level: float) -> dict[str, Any]:
    measure, interval, counts = of_pairs(pairs, ci_level)[2]
    return row(measure, interval, n_dropped=counts["n_dropped"]) | _named(_POSITION, _SHOWN)


def _other_graders(
    shown: pd.DataFrame, verdicts: pd.DataFrame, names: list[str], by: list[str], ci_level: float
) -> list[dict[str, Any]]:
    """Return position rows of groups that made pairwise judgements only."""
    seen = {_key(values, names) for values, _ in groups(verdicts, names)}
    return [
        _position_row(pairs, ci_level) | {name: values.get(name) for name in by}
        for values, pairs in groups(shown, names)
        if names and _key(values, names) not in seen
    ]
