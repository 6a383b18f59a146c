"""One row for each way in which a grader may be swayed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from skillcomp.bias.feature_effects import (
    ANSWER,
    checked_verdicts,
    feature_effect,
    known_attempts,
    labelled_verdicts,
    leniency,
    not_identified,
)
from skillcomp.bias.perturb import EXTRA, compared, paired_verdicts
from skillcomp.bias.position import first_wins, position_intervals
from skillcomp.errors import FrameError
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    group_codes,
    groups,
    listed,
    ordered,
    require_reference,
    row,
    rows_of_group,
)
from skillcomp.frames.reference_labels import (
    ITEM,
    join_gold,
    labellers_said,
    reference_labels,
    strays_of,
)
from skillcomp.stats.results import join_notes
from skillcomp.stats.significance import holm

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
_POSITION = ("position", "answer shown first against second")


def audit(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    pairwise: pd.DataFrame | None = None,
    exclude_checks: str | Sequence[str] = (),
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
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id, such as checks that the grader could
        not decide.
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
          without answers under one of the two); n_to_pass, n_to_fail, p_mcnemar, n_dropped for
          copies.

        Where the data cannot tell, NaN and a note that begins "not identified".

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds or labellers would be pooled, a verdict's
        attempt is missing, ``reference`` or an excluded check is not there, ``by`` names a column
        of the result, or ``ci_level`` is no level.

    See Also
    --------
    perturbed : Copies against originals. position : Pairwise judgements.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    ``effect_points`` is the slope of a linear probability model of the verdict with an intercept
    for each combination of skill, condition and gold label, the other features held constant,
    CR2 by case; for leniency the intercepts are those of skill and gold label, and nothing is held
    constant, since every difference between the conditions distorts a delta. Association in answers
    that differ in more than one thing: where copies exist, trust the perturbation test. A grader
    that is swayed by gold's own errors looks biased.

    References
    ----------
    Wataoka et al. 2024, arXiv:2410.21819; Spiliopoulou et al. 2025, arXiv:2508.06709; Dubois et
    al. 2024, arXiv:2404.04475; Zheng et al. 2023, arXiv:2306.05685.
    """
    names, what = [name for name in listed(by) if name != "perturbation"], "bias.audit"
    check_settings(what, ci_level)
    if taken := sorted({"bias", "condition", "stratum", "per"} & set(names)):
        raise FrameError(
            f"bias.audit: by= names '{taken[0]}', a column of the result. Drop it, or give the "
            "verdicts of one value only."
        )
    given = checked_verdicts(
        verdicts, by=names, exclude_checks=exclude_checks, cases=cases, what=what
    )
    every = known_attempts(given, attempts, what)
    require_reference(given["condition"], reference)
    labels = reference_labels(gold, what)
    given = given.reset_index(drop=True).assign(_group=group_codes(given, names)[0])
    labelled, copies = labelled_verdicts(given, every, labels), paired_verdicts(given, every, what)
    labelled_of, copies_of = (f.groupby("_group").indices for f in (labelled, copies))
    items = join_gold(given[ITEM], labels)
    strays = strays_of(given, labels)
    shared = [name for name in names if name in ("grader", "skill")]
    if pairwise is not None:
        require_frame(pairwise, "pairwise")
    shown = None if pairwise is None else _Shown.of(pairwise, shared, cases, ci_level)
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        number = part["_group"].iloc[0] if len(part) else -1
        frame = labelled.iloc[labelled_of.get(number, [])]
        own = _adjusted(_effects(frame, ci_level) + _leniencies(frame, part, reference, ci_level))
        note = _settled(items.iloc[part.index])
        own = [one if math.isnan(one["estimate"]) else _noted(one, note) for one in own]
        rows += [_noted(one, "" if len(frame) else strays) | values for one in own]
        for kind, pairs in groups(copies.iloc[copies_of.get(number, [])], ["perturbation"]):
            bias, per = _COPIES.get(kind["perturbation"], (kind["perturbation"], ""))
            named = _named(bias, per or f"copy: {bias}")
            rows.append(compared(pairs, ci_level) | named | values)
        if shown is None:
            nothing = not_identified("no pairwise judgements were given", ci_level)
            rows.append(row("position_points", nothing) | _named(*_POSITION) | values)
        else:
            rows.append(shown.row({name: values[name] for name in shared}) | values)
    if shown is not None and shared:
        # groups that made pairwise judgements only
        rows += [
            dict.fromkeys(names) | shown.row(values) | values
            for values, _ in groups(shown.pairs, shared)
            if rows_of_group(given, values).empty
        ]
    extra = ["per", "n_empty_strata", *EXTRA]
    return estimates(rows, by=[*names, "bias", "condition", "stratum"], extra=extra)


def _adjusted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add Holm's p-values over the biases of a group, all gold labels together."""
    family = [one for one in rows if one["stratum"] == "all"]
    adjusted = holm([one["p_value"] for one in family])
    for one, p_value in zip(family, adjusted, strict=True):
        one["p_adjusted"] = float(p_value)
    return rows


def _noted(one: dict[str, Any], what: str) -> dict[str, Any]:
    return one | {"note": join_notes(one["note"], what)}


def _settled(items: pd.DataFrame) -> str:
    """Say how the labels of a group's verdicts were settled."""
    items = items[items["settled_by"].notna()]
    return labellers_said(items["settled_by"], items["gold"])


def _named(
    bias: str, per: str, condition: str | None = None, stratum: str = "all"
) -> dict[str, Any]:
    return {"bias": bias, "per": per, "condition": condition, "stratum": stratum}


def _effects(frame: pd.DataFrame, ci_level: float) -> list[dict[str, Any]]:
    """Return the effects of the answer's features given gold."""
    rows = []
    for bias, (name, per) in _FEATURES.items():
        others = sorted({*ANSWER, "place"} - {name})
        found = feature_effect(frame, name, others, ci_level)
        if name == "own_family" and math.isnan(found.estimate) and len(frame):
            found = replace(found, note=_one_family(frame))
        rows.append(row("effect_points", found) | _named(bias, per))
    return rows


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
    for condition in ordered(verdicts["condition"], reference):
        per = f"answer under {condition} against {reference}"
        for stratum, gold in _STRATA.items():
            found, n_empty = leniency(frame, condition, reference, gold, ci_level)
            about = _named("condition leniency", per, condition, stratum)
            rows.append(row("effect_points", found, n_empty_strata=n_empty) | about)
    return rows


@dataclass(frozen=True)
class _Shown:
    """Pairwise judgements, read: who won in each order, and what holds for every row of theirs."""

    pairs: pd.DataFrame
    note: str
    ci_level: float

    @classmethod
    def of(
        cls, pairwise: pd.DataFrame, by: list[str], cases: pd.DataFrame | None, ci_level: float
    ) -> _Shown:
        """Read judgements; the note says where no case_id tells contrast pairs apart."""
        if cases is None or "case_id" in pairwise.columns:
            return cls(first_wins(pairwise, by=by, cases=cases), "", ci_level)
        contrasts = check(cases, "cases")["contrast_of"].notna().any()
        note = "contrast pairs taken as independent: no case_id" if contrasts else ""
        return cls(first_wins(pairwise, by=by), note, ci_level)

    def row(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the position row of one group."""
        pairs = rows_of_group(self.pairs, values)
        found, dropped = not_identified("no pairwise judgements of this group", self.ci_level), {}
        if len(pairs):
            intervals, counts = position_intervals(pairs, self.ci_level)
            found = intervals["position_points"]
            dropped = {"n_dropped": counts["n_dropped"]}
        one = row("position_points", found, **dropped) | _named(*_POSITION)
        return one if math.isnan(found.estimate) else _noted(one, self.note)
