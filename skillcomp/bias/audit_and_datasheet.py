"""Audit of a grader for known biases, and the datasheet of a judge.

``audit`` has one or more rows for each bias. ``datasheet`` collects each property of a judge with
its interval, or the call that would measure it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import pandas as pd

from skillcomp.bias.features_and_perturbations import (
    ANSWER,
    Perturbation,
    feature_effect,
    known_attempts,
    labelled_verdicts,
    leniency,
    perturbed,
    sides_of_pairs,
)
from skillcomp.bias.position_and_win_rates import (
    INCLUDES_PLACE,
    first_win_rows,
    position,
    win_rates,
)
from skillcomp.contrast import Bounds
from skillcomp.errors import FrameError, plural, require_known, require_type
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
    require_reference,
    row,
    rows_of_group,
    sorted_by,
    with_adjusted_p,
)
from skillcomp.frames.from_frame import compare_answers
from skillcomp.frames.reference_labels import Drawn, labellers_said, strays_of
from skillcomp.reliability.grader_agreement_and_consistency import (
    GradedValue,
    agreement,
    consistency,
    graded_items,
)
from skillcomp.reliability.grader_drift_and_contrast import drift
from skillcomp.stats.results import Fields, Interval, join_notes

# for each bias, the column of its feature, and the meaning of one unit of the feature
_FEATURES = {
    "verbosity": ("log2_words", "doubling of the words"),
    "hedging": ("hedges_per_100", "hedge more in 100 words"),
    "model family": ("own_family", "answer of the grader's own family against another"),
    "order in the batch": ("place", "batch, from its first to its last verdict"),
    "polish: lists": ("has_list", "answer with a list against one without"),
    "polish: sentences": ("log2_words_per_sentence", "doubling of the words per sentence"),
}
# the answer that wins a pair if the difference of a feature is above 0
_PREFERRED = {
    "verbosity": "the longer answer",
    "hedging": "the answer with more hedges",
    "model family": "the answer of the grader's own family",
    "polish: lists": "the answer with a list",
    "polish: sentences": "the answer with the longer sentences",
}
_EFFECT = ("effect_points", "effect_score")  # the measure for verdicts and for scores
_STRATA = {"all": None, "gold pass": 1.0, "gold fail": 0.0}


def audit(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: GradedValue = "passed",
    bounds: Bounds = None,
    pairwise: pd.DataFrame | None = None,
    families: Mapping[str, str] | None = None,
    exclude_checks: str | Sequence[str] = (),
    reference: str = "baseline",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the effect of each known bias on a grader's verdicts.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame. Verdicts on perturbed copies are left out; :func:`perturbed` compares
        them with their originals.
    attempts : pandas.DataFrame
        The attempts of the verdicts.
    gold : pandas.DataFrame
        A gold frame. If a verdict has several labels, the adjudicated label is used. Without an
        adjudicated label, the label on which all labellers agree is used. The note of an estimate
        states how many labels of its group are of each kind. If gold is empty, only the rows of
        pairs have estimates.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``. Answers of several agents are pooled, which a
        note states, unless it names ``"agent"``.
    value : {"passed", "score"}, default "passed"
        Verdicts, or scores with their ``bounds``. For scores, gold needs a column ``score``.
    bounds : tuple of float, optional
        Lowest and highest possible score, such as ``(1, 5)``.
    pairwise : pandas.DataFrame, optional
        A pairwise frame, as in :func:`position`, for the effects of features on the choice
        between two answers. Its graders have separate rows. Verdicts of
        :func:`skillcomp.from_frame` on such pairs count once, as pairs.
    families : mapping of str to str, optional
        The model family of graders and agents by their names, such as ``{"judge": "a", "m1": "a",
        "m2": "b"}``. It takes precedence over ``grader_family`` and ``agent_family``.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id, such as checks that a grader cannot
        decide.
    reference : str, default "baseline"
        Condition with which the leniency under the other conditions is compared. If all verdicts
        are of one condition, there are no rows of leniency.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster, also in ``pairwise``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Per ``by``, one or several rows per bias:

        - bias: ``verbosity``, ``hedging``, ``model family``, ``condition leniency``,
          ``order in the batch``, ``polish: lists`` or ``polish: sentences``.
        - condition: the condition that is compared with the reference. Only for leniency.
        - stratum: ``all``. For leniency also ``gold pass`` and ``gold fail``: the effect among
          checks that pass or that fail by gold.
        - the estimates columns. The measure is ``effect_points`` (average marginal effect on the
          pass rate given gold) or, in pairs, ``pair_effect_points`` (given the gold winner) and,
          without gold, ``pair_preference_points``, which is no bias: the better answer may be the
          longer one. For scores it is ``effect_score``, in the unit of the scores; other estimates
          are in percentage points. They are positive if the feature makes a PASS (in pairs, a
          win) more likely, or the score higher. An effect that the data do not identify is NaN,
          with a note that begins "not identified". ``n`` counts verdicts or pairs.
        - p_adjusted: the p-value adjusted by Holm over all rows of the same measure and stratum,
          except those of a placebo.
        - per: what one unit of the feature means.
        - n_empty_strata: the number of combinations of skill and gold label that lack answers
          under one of the two conditions. Only for leniency.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds or labellers would be pooled, a verdict has
        no attempt, ``reference`` or an excluded check does not occur, ``by`` names a column of the
        result, or ``ci_level`` is not between 0 and 1.

    See Also
    --------
    perturbed : Verdicts on copies against those on the originals.
    position : Position bias in pairwise judgements.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    In pairs, a feature is the difference between the two answers, such as the logarithm of the
    ratio of their words, and the effect is the change of the win rate per unit. Judgements of a
    pair are averaged. The model is the same, with an intercept for answers that win and that lose
    by gold. It holds constant which answer was shown first. (If the answers of a pair were treated
    as single answers to questions of varied length, the effect of length would be several times too
    small.)

    ``effect_points`` is the slope of a linear probability model of the verdict. The model has an
    intercept for each combination of skill, condition and gold label, and the slope is adjusted for
    the other features. For scores, gold is one of the other features, with one slope. The model for
    leniency has an intercept for each combination of skill and gold label. Its slope is not
    adjusted for other features, because leniency distorts a delta, whatever the cause of the
    leniency.

    Cases are clusters. Leniency, model family and lists compare two groups of answers and have the
    interval of :func:`skillcomp.stats.gaps.bounded_slope`. Other features have the t interval of
    CR2, widened where a score test does not exclude a slope. Both are defined even if all verdicts
    are equal, as for a grader that is never fooled. If few answers fool the grader, t alone covers
    as little as 82 %, and the widened interval 95 % and more (``make validate``).

    The effects are associations among answers that differ in several ways, so prefer the test with
    copies if there is one. If errors of gold depend on a feature, they look like a bias of the
    grader.

    References
    ----------
    Wataoka et al. 2024, arXiv:2410.21819; Spiliopoulou et al. 2025, arXiv:2508.06709; Dubois et
    al. 2024, arXiv:2404.04475; Zheng et al. 2023, arXiv:2306.05685.
    """
    names, what = listed(by, "perturbation"), "bias.audit"
    pairwise = empty("pairwise") if pairwise is None else pairwise
    if taken := sorted({"bias", "condition", "stratum", "per"} & set(names)):
        raise FrameError(
            f"bias.audit: by= names '{taken[0]}', a column of the result. Drop it, or give the "
            "verdicts of one value only."
        )
    graded = graded_items(
        verdicts,
        gold,
        what,
        by=names,
        value=value,
        bounds=bounds,
        settings=(ci_level,),
        average=[] if "agent" in names else ["agent"],
        exclude_checks=exclude_checks,
        cases=cases,
        copies=False,
    )
    rows, is_score = graded.rows, value == "score"
    every = known_attempts(rows, attempts, what)
    if families is not None:
        rows, every, pairwise = with_families(rows, every, pairwise, families, what)
    if (in_pairs := compare_answers(rows, every)).any():
        if pairwise.empty:
            raise FrameError(
                f"{what}: {in_pairs.sum()} verdicts compare two answers. Give the comparisons, "
                "too: pairwise=made.pairwise of from_frame."
            )
        rows = rows[~in_pairs]
    compares = rows["condition"].nunique() > 1
    if compares:
        require_reference(rows["condition"], reference)
    labelled, strays = labelled_verdicts(rows, every, names), strays_of(rows, graded.labels)
    shared = [name for name in names if name in ("grader", "skill")]
    long = first_win_rows(pairwise, by=shared, cases=cases)
    known_attempts(long[["first", "second"]].melt(value_name="attempt_id"), every, what)
    sides = sides_of_pairs(long, every, shared)
    lines = []
    for values, part in groups(rows, names) if len(rows) or sides.empty else ():
        frame = rows_of_group(labelled, values)
        effects = _feature_rows(frame, ci_level, is_score)
        effects += _leniency_rows(frame, part, reference, ci_level, is_score) if compares else []
        settled = part.dropna(subset="settled_by")
        note = labellers_said(settled["settled_by"], settled["gold"])
        for effect in effects:
            known = note if not math.isnan(effect["estimate"]) else ""
            pooled = "" if effect["bias"] == "model family" else graded.note
            notes = [known, "" if len(frame) else strays, pooled]
            lines.append(effect | {"note": join_notes(effect["note"], *notes)} | values)
        of_group = {name: values[name] for name in shared}
        lines += [line | values for line in _pair_rows(sides, of_group, ci_level)]
    for values, _ in groups(sides, shared):
        if rows_of_group(rows, values).empty:
            found = _pair_rows(sides, values, ci_level)
            lines += [dict.fromkeys(names) | line | values for line in found]
    return graded._replace(note="").estimates(
        lines, ["per", "n_empty_strata"], by=["bias", "condition", "stratum"]
    )


def with_families(
    graded: pd.DataFrame,
    attempts: pd.DataFrame,
    pairwise: pd.DataFrame,
    families: Mapping[str, str],
    what: str,
) -> list[Any]:
    """Return the verdicts, attempts and pairs with the families of their graders and agents."""
    require_type(f"{what}: families", families, Mapping, "{'judge': 'family', ...}", FrameError)
    frames = ((graded, "grader"), (attempts, "agent"), (check(pairwise, "pairwise"), "grader"))
    names = [frame[name] for frame, name in frames]
    present = sorted({name for values in names for name in values.dropna()})
    for name in families:
        require_known(f"{what}: families: found", str(name), present)
    made: list[Any] = []
    for frame, name in frames:
        family = frame[name].map({str(word): str(value) for word, value in families.items()})
        family = family.astype("str").fillna(frame[f"{name}_family"])
        made.append(frame.assign(**{f"{name}_family": family}))
    return made


def _bias_columns(
    bias: str, per: str, condition: str | None = None, stratum: str = "all"
) -> Fields:
    return {"bias": bias, "per": per, "condition": condition, "stratum": stratum}


def _feature_rows(frame: pd.DataFrame, ci_level: float, is_score: bool) -> list[Fields]:
    """Estimate the effect of each feature of the answers on the verdict, given the gold label."""
    how: Fields = {"strata": ["skill", "condition"], "more": ["gold"]} if is_score else {}
    return [
        row(_EFFECT[is_score], _effect_of(frame, bias, ci_level, **how)) | _bias_columns(bias, per)
        for bias, (_, per) in _FEATURES.items()
    ]


def _effect_of(
    frame: pd.DataFrame, bias: str, ci_level: float, more: Sequence[str] = (), **how: Any
) -> Interval:
    """Estimate the effect of the feature of a bias, with the others and ``more`` held constant."""
    name = _FEATURES[bias][0]
    others = [*sorted({*ANSWER, "place", "own_family"} - {name}), *more]
    effect = feature_effect(frame, name, others, ci_level, **how)
    if name == "own_family" and math.isnan(effect.estimate) and len(frame):
        effect = replace(effect, note=_why_no_family_effect(frame))
    return effect


def _why_no_family_effect(frame: pd.DataFrame) -> str:
    families = sorted(map(str, frame["agent_family"].dropna().unique()))
    if not families or frame["grader_family"].isna().all():
        return "not identified: model family not recorded"
    if len(families) == 1:
        return (
            f"not identified: every answer is of one model family ({families[0]}), so leniency to "
            "the own family cannot be distinguished from that to all"
        )
    if frame["agent_family"].ne(frame["grader_family"]).all():
        own = ", ".join(sorted(map(str, frame["grader_family"].dropna().unique())))
        return f"not identified: no answer is of the grader's family ({own})"
    return (
        "not identified: no two answers of one skill, condition and gold label differ in being "
        "of the grader's own family"
    )


def _leniency_rows(
    frame: pd.DataFrame, verdicts: pd.DataFrame, reference: str, ci_level: float, is_score: bool
) -> list[Fields]:
    rows = []
    how: Fields = {"ci_level": ci_level, "strata": ["skill"]}
    for condition in ordered(verdicts["condition"], reference):
        per = f"answer under {condition} against {reference}"
        if is_score:
            two = frame[frame["condition"].isin([condition, reference])]
            two = two.assign(condition=two["condition"].eq(condition).astype("float64"))
            effect = feature_effect(two, "condition", ["gold"], **how)
            about = _bias_columns("condition leniency", per, condition)
            rows.append(row(_EFFECT[True], effect) | about)
            continue
        for stratum, gold in _STRATA.items():
            effect, n_empty = leniency(frame, condition, reference, gold, ci_level)
            about = _bias_columns("condition leniency", per, condition, stratum)
            rows.append(row("effect_points", effect, n_empty_strata=n_empty) | about)
    return rows


def _pair_rows(sides: pd.DataFrame, values: Fields, ci_level: float) -> list[Fields]:
    """Return the row of each feature of pairs, if there are judgements."""
    rows: list[Fields] = []
    if (sides := rows_of_group(sides, values)).empty:
        return rows
    has_gold = sides["gold"].notna()
    frame = sides[has_gold] if has_gold.any() else sides.assign(gold=0.5)
    measure = "pair_effect_points" if has_gold.any() else "pair_preference_points"
    for bias, preferred in _PREFERRED.items():
        name, per = _FEATURES[bias]
        per += "" if "against" in per else " against the other answer"
        effect = _effect_of(frame, bias, ci_level)
        wins = frame.loc[frame[name].gt(0), "verdict"]
        if len(wins):
            said = f"{preferred} wins {100 * wins.mean():.0f} % of {plural(len(wins), 'pair')}"
            effect = effect.with_note(said)
        rows.append(row(measure, effect) | _bias_columns(bias, per))
    return rows


_WHAT = "bias.datasheet"
_NUMBERS = ["estimate", "ci_low", "ci_high", "p_value"]
_SIDES = ["first", "second"]
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
    if attempts is not None:  # verdicts without the column perturbation
        kinds = check(attempts, "attempts").set_index("attempt_id")["perturbation"]
        graded["perturbation"] = graded["attempt_id"].map(kinds)
    how: Fields = {"cases": cases, "ci_level": ci_level}
    drawn: Fields = {"gold_drawn": gold_drawn, "drawn_by": drawn_by}
    results = _results(graded, judged, attempts, gold, families, drawn, names, **how)
    lines = {name: _records(result) for name, result in results}
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


def _results(
    graded: pd.DataFrame,
    judged: pd.DataFrame,
    attempts: pd.DataFrame | None,
    gold: pd.DataFrame | None,
    families: Mapping[str, str] | None,
    drawn: Fields,
    by: list[str],
    **how: Any,
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the result of each analysis: of verdicts, and then of answers."""
    pooled: Fields = {**how, "average": [] if "agent" in by else ["agent"]}
    judges = list(_versions(graded, by))
    newest = pd.concat([graded.head(0), *(versions[0] for _, versions in judges)])
    first = _first_round(newest, by)
    plain = _originals(first)
    changes = []
    for judge, versions in judges:
        if len(versions) > 1:
            two = _first_round(_originals(pd.concat(versions[:2])), by)
            before = tuple(versions[1].iloc[0][["grader", "grader_version"]])
            changes.append(drift(two, reference_grader=before, **pooled).assign(**judge))
    if changes:
        yield "drift", pd.concat(changes)
    if len(plain):
        yield "consistency", consistency(_originals(newest), by=by, **pooled)
    if len(plain) and gold is not None:
        drawn |= pooled
        yield "agreement", agreement(plain, gold, quantities=_AGREEMENT, by=by, **drawn)
        several = ["condition"] if plain["condition"].nunique() > 1 else []
        yield "errors", agreement(plain, gold, quantities=_RATES, by=[*by, *several], **drawn)
    if len(judged):
        judged = pd.concat(versions[0] for _, versions in _versions(judged, by))
    if attempts is not None:
        known = _with_forms(judged, attempts)
        copies = known.loc[known["_form"].eq("identical"), "source_attempt_id"]
        pairs = judged[_SIDES].to_numpy()
        other = dict([*pairs, *pairs[:, ::-1]])  # a table of pairs does not name the sources
        same = copies.fillna(copies.index.to_series().map(other)).dropna().to_dict()
        for side in (*_SIDES, "winner"):
            judged[side] = judged[side].replace(same)
        if len(first):
            yield "perturbed", perturbed(first, known, by=by, **pooled)
        if families is not None:
            plain, known, judged = with_families(plain, known, judged, families, _WHAT)
        yield from _results_of_answers(plain, known, gold, judged, by=by, **how)
    if len(judged):
        yield "position", position(judged, by=by, **how)


def _with_forms(judged: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the attempts by id, with the kind of a copy, or ``original``, in ``_form``."""
    ids = judged[["first", "second"]].melt(value_name="attempt_id")
    known = known_attempts(ids, attempts, _WHAT, "answers").set_index("attempt_id", drop=False)
    agent = known["agent"].where(known["agent"].isin(get_args(Perturbation)))
    return known.assign(_form=agent.fillna(known["perturbation"]).fillna(ORIGINAL))


def _results_of_answers(
    plain: pd.DataFrame,
    known: pd.DataFrame,
    gold: pd.DataFrame | None,
    judged: pd.DataFrame,
    **how: Any,
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the results on pairs of copies and on features, which need the attempts."""
    first, second = (judged[side].map(known["_form"]).eq(ORIGINAL) for side in _SIDES)
    of_copies = first ^ second
    if of_copies.any():
        copied = judged[of_copies]
        wins = win_rates(copied, known, sides="_form", reference=ORIGINAL, **how)
        of_place = wins["note"].str.contains(INCLUDES_PLACE)
        wins[_NUMBERS] = wins[_NUMBERS].mask(of_place)
        yield "win_rates", wins
    if len(judged):  # audit takes verdicts on pairs from the pairs
        plain = plain[~compare_answers(plain, known)]
    judged = judged[~of_copies]
    if len(plain) or len(judged):
        gold = empty("gold") if gold is None else gold
        reference = next(iter(ordered(plain["condition"])), "baseline")
        found = audit(plain, known, gold, pairwise=judged, reference=reference, **how)
        yield "audit", found


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
