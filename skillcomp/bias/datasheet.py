"""The datasheet of a judge: one small table of its biases, its errors and its consistency."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skillcomp import reliability
from skillcomp.bias.audit import COPIES, audit
from skillcomp.bias.features_and_perturbations import FORMS, ORIGINAL
from skillcomp.bias.position_and_win_rates import position, win_rates
from skillcomp.errors import FrameError, argument
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import (
    By,
    check_settings,
    columns_of,
    estimates,
    groups,
    listed,
    row,
    rows_of_group,
)
from skillcomp.stats.results import NAN, Fields, holm, join_notes, undefined

_WHAT = "bias.datasheet"
_GOLD = "give gold labels (gold=)"
_ALIKE = "show the judge pairs of identical answers: sc.bias.copy_pairs(attempts, kind='identical')"
_COPY = "let the judge grade copies: sc.bias.perturb(attempts, kind='{}')"
# property -> its analysis, its rows there, the value of an unbiased judge (None if there is no such
# value), and what would measure it
_PROPERTIES: dict[str, tuple[str, Fields, float | None, str]] = {
    "ties of identical answers": ("position", {"measure": "ties_if_identical"}, None, _ALIKE),
    "first of identical answers wins": (
        "position", {"measure": "first_wins_if_identical"}, 0.5, _ALIKE,
    ),
    "shown first": (
        "position", {"measure": "position_points"}, 0.0, "give pairs in both orders (pairwise=)",
    ),
    **{
        form: ("audit", {"per": COPIES[kind][1]}, 0.0, _COPY.format(kind))
        for kind, form in FORMS.items() if kind in COPIES
    },
    **{
        f"{form} in pairs": ("copies", {"side": kind}, 0.5, "")
        for kind, form in FORMS.items() if kind in COPIES
    },
    "length per doubling": ("audit", {"bias": "verbosity"}, 0.0, f"{_GOLD}, or pairs with texts"),
    "own family": (
        "audit", {"bias": "model family"}, 0.0, f"{_GOLD} and families (families= of bias.audit)",
    ),
    "agreement with gold": ("agreement", {"measure": "raw_agreement"}, None, _GOLD),
    "agreement of two people": (
        "agreement", {"measure": "ceiling_raw_agreement"}, None,
        "give the labels of two people on the same checks",
    ),
    "false passes": ("errors", {"measure": "false_passes"}, None, _GOLD),
    "false fails": ("errors", {"measure": "false_fails"}, None, _GOLD),
    "agreement with itself": (
        "rounds", {"measure": "raw_agreement"}, None,
        "grade the same answers again and give all rounds",
    ),
    "new version": (
        "versions", {"measure": "pass_rate_change"}, 0.0,
        "grade the same answers with both versions",
    ),
}  # fmt: skip
_OF_PAIRS = {
    "pair_effect_points": " in pairs",
    "pair_preference_points": " in pairs (a preference)",
}


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
    """Collect what is known of each judge: its biases, its errors, and how consistent it is.

    Parameters
    ----------
    verdicts : pandas.DataFrame, optional
        A verdicts frame, with copies, rounds and versions if there are any
        (``frames.verdicts(store, perturbation="all", round="all")``).
    attempts : pandas.DataFrame, optional
        The attempts of the verdicts and of the pairs, with copies. Required.
    gold : pandas.DataFrame, optional
        A gold frame. Without it, length and family are preferences, not biases.
    pairwise : pandas.DataFrame, optional
        A pairwise frame, such as ``made.pairwise`` of :func:`skillcomp.from_frame`.
    by : str or sequence of str, default ("grader",)
        Columns that identify a judge; ``grader`` is one of them.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and property, with the estimates columns and the interval of the analysis
        that measures it (``method``):

        - :func:`position`: ties, and wins of the answer shown first, in pairs of identical answers;
          the points that being shown first is worth
        - :func:`audit`: the change in the pass rate for each kind of copy; length per doubling;
          answers of the judge's own family
        - :func:`win_rates`: wins of each kind of copy beside its original (:func:`copy_pairs`)
        - :func:`skillcomp.reliability.agreement`: agreement with gold, and of two people with each
          other; false passes and false fails, one row per ``condition``
        - :func:`skillcomp.reliability.consistency`: agreement with itself over rounds
        - :func:`skillcomp.reliability.drift`: change of the pass rate from the version before

        ``n`` counts cases. ``null`` is the value of an unbiased judge: a half for wins, 0 for other
        biases, NA for ties, agreement and errors, which have no p-value and no ``shown``.
        ``p_adjusted`` is adjusted by Holm over the rows of the judge that have a ``null``. If a
        property was not measured, the estimate is NaN, and the note says what would measure it.

    Raises
    ------
    FrameError
        If there are neither verdicts nor pairs, ``attempts`` is missing, or ``by`` lacks
        ``grader``.

    See Also
    --------
    audit, position : The analyses, with all of their rows.
    skillcomp.plots.datasheet : Draws the result.

    Notes
    -----
    Hedges and assurances change how strongly a claim is made: they are changes of tone, not of
    form. If a grader has several versions, all properties but the last are those of its newest
    version, the last in the order of numbers and letters, in the first round.
    """
    names = listed(by)
    check_settings(_WHAT, ci_level)
    if "grader" not in names:
        raise FrameError(
            f"{_WHAT}: {argument('by', names)} lacks 'grader': a row is about a judge."
        )
    judged = [frame for frame in (verdicts, pairwise) if frame is not None and len(frame)]
    if not judged or attempts is None:
        lacking = f"{argument('attempts')} is missing" if judged else "there is nothing to judge by"
        raise FrameError(f"{_WHAT}: {lacking}; give verdicts or pairs, and their attempts.")
    attempts = check(attempts, "attempts")
    found: dict[str, Any] = {}
    for name, run in _analyses(verdicts, attempts, gold, pairwise, names, cases, ci_level).items():
        try:
            found[name] = run()
        except FrameError as error:
            found[name] = str(error)
    rows = []
    for values, _ in groups(pd.concat([frame[names] for frame in judged]), names):
        for title, (name, where, null, needs) in _PROPERTIES.items():
            own = _rows_of_property(found.get(name), values, where, needs)
            for each in own:
                ending = _OF_PAIRS.get(str(each["measure"]), "")
                p_value = NAN if null is None else each.get("p_value", NAN)
                about = {"property": title + ending, "null": null, "p_value": p_value}
                rows.append(each | values | about)
    sheet = estimates(rows, by=[*names, "property", "condition"], extra=["null"])
    tested = sheet["p_value"].notna()
    sheet["p_adjusted"] = (
        sheet["p_value"][tested]
        .groupby([sheet[name] for name in names], dropna=False)
        .transform(holm)
    )
    excluded = (sheet["ci_low"] > sheet["null"]) | (sheet["ci_high"] < sheet["null"])
    shown = excluded & sheet["p_adjusted"].lt(1 - ci_level)
    return sheet.assign(shown=shown.astype("boolean").where(tested))


def _rows_of_property(
    frame: pd.DataFrame | str | None, values: Fields, where: Fields, needs: str
) -> list[Fields]:
    """Return the rows of a judge's property, with n in cases; one without estimate if it has none.

    A property that only copies beside their originals have (``needs`` is empty) may have no row.
    """
    why = frame if isinstance(frame, str) else ""
    part = pd.DataFrame()
    if isinstance(frame, pd.DataFrame):
        part = rows_of_group(frame, {k: v for k, v in (values | where).items() if k in frame})
        if "stratum" in part:
            of_copies = part["measure"].eq("perturbation_points")
            part = part[part["stratum"].eq("all") & (of_copies == ("per" in where))]
        known = part["estimate"].notna()
        why = "; ".join(part["note"][~known].drop_duplicates()) if not known.any() else ""
        part = part[known]
    if part.empty:
        note = join_notes("not measured", why, needs and f"to measure it, {needs}")
        nothing = undefined("", note, ci_level=np.nan)
        return [row(where.get("measure", "effect_points"), nothing)] if needs else []
    part = part.assign(n=part["n_clusters"].fillna(part["n"]))
    keep = columns_of(part, *CONTRACTS["estimates"].columns, "condition")
    return [{str(k): v for k, v in each.items()} for each in part[keep].to_dict("records")]


def _analyses(
    verdicts: pd.DataFrame | None,
    attempts: pd.DataFrame,
    gold: pd.DataFrame | None,
    pairwise: pd.DataFrame | None,
    names: list[str],
    cases: pd.DataFrame | None,
    ci_level: float,
) -> dict[str, Callable[[], pd.DataFrame]]:
    """Return the analyses that the frames allow, by the names in ``_PROPERTIES``."""
    how: Fields = {"by": names, "cases": cases, "ci_level": ci_level}
    pooled = [name for name in ("agent",) if name in attempts and name not in names]
    labels = empty("gold") if gold is None else gold
    runs: dict[str, Callable[[], pd.DataFrame]] = {}
    if pairwise is not None and len(pairwise):
        form = attempts["perturbation"].fillna(attempts["agent"])
        form = form.where(form.isin([*FORMS]), ORIGINAL)
        copies = attempts["attempt_id"][form.ne(ORIGINAL)]
        identical = attempts[form.eq("identical") & attempts["source_attempt_id"].notna()]
        source = identical.set_index("attempt_id")["source_attempt_id"]
        pairwise = pairwise.replace({"first": source.to_dict(), "second": source.to_dict()})
        is_copy = pairwise[["first", "second"]].isin([*copies]).any(axis=1)
        formed, beside = attempts.assign(perturbation=form), pairwise[is_copy]
        sides: Fields = {"sides": "perturbation", "reference": ORIGINAL}
        runs["position"] = partial(position, pairwise, **how)
        if is_copy.any():
            runs["copies"] = partial(win_rates, beside, formed, **sides, **how)
    if verdicts is None or verdicts.empty:
        nothing = empty("verdicts") if verdicts is None else verdicts
        runs["audit"] = partial(audit, nothing, attempts, labels, pairwise=pairwise, **how)
        return runs
    verdicts = check(verdicts, "verdicts")
    order = sorted(verdicts["grader_version"].dropna().unique(), key=_natural)
    place = verdicts["grader_version"].map({name: at for at, name in enumerate(order)}).fillna(-1)
    place = place.where(verdicts["passed"].notna(), -1)
    rank = place.groupby([verdicts[name] for name in names], dropna=False)
    first_round = verdicts["round"].fillna(1).eq(1)
    newest = place.eq(rank.transform("max")) | verdicts["grader_version"].isna()
    current = verdicts[newest & first_round]
    runs["audit"] = partial(audit, current, attempts, labels, pairwise=pairwise, **how)
    originals = ~verdicts["attempt_id"].isin(
        attempts["attempt_id"][attempts["perturbation"].notna()]
    )
    current, rounds = verdicts[newest & first_round & originals], verdicts[newest & originals]
    if len(labels):
        how_far = partial(reliability.agreement, current, labels, average=pooled)
        kinds = ["raw_agreement", "ceiling_raw_agreement"]
        runs["agreement"] = partial(how_far, quantities=kinds, **how)
        by_arm = how | {"by": [*names, "condition"]}
        runs["errors"] = partial(how_far, quantities=["false_passes", "false_fails"], **by_arm)
    runs["rounds"] = partial(reliability.consistency, rounds, average=pooled, **how)
    if "grader_version" not in names and len(order) > 1:
        compared = verdicts[first_round & originals]
        runs["versions"] = partial(_changes_of_version, compared, order, average=pooled, **how)
    return runs


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which version 10 comes after version 9."""
    return [(int(part or 0), text) for text, part in re.findall(r"(\D*)(\d*)", name)]


def _changes_of_version(
    verdicts: pd.DataFrame, order: list[str], *, by: list[str], **how: Any
) -> pd.DataFrame:
    """Estimate the change of each grader from its last but one version to its newest."""
    others = [name for name in by if name != "grader"]
    parts = []
    for grader, own in verdicts.groupby("grader"):
        versions = [name for name in order if own["grader_version"].eq(name).any()][-2:]
        if len(versions) == 2:
            both = own[own["grader_version"].isin(versions)]
            reference = (str(grader), versions[0])
            parts.append(reliability.drift(both, reference_grader=reference, by=others, **how))
            note = f"version {versions[1]} against {versions[0]}"
            parts[-1]["note"] = [join_notes(note, own_note) for own_note in parts[-1]["note"]]
    return pd.concat(parts) if parts else estimates([], by=by)
