"""Trigger behaviour of skills (precision, recall, confusion), and how often goals are met.

The unit of evidence is the case, and repeats are averaged within a case. Precision and F1 are
ratios of sums over cases, so the interval for means of clusters (:mod:`skillcomp.stats.bounded`)
applies to them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from skillcomp import deltas
from skillcomp.contrast import Contrast, Units
from skillcomp.deltas import contrast_rows
from skillcomp.errors import FrameError, require_known
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    check_settings,
    clusters_of,
    estimates,
    group_codes,
    grouped,
    groups,
    listed,
    ordered,
    prepared,
    row,
    sorted_by,
)
from skillcomp.frames.outcomes import outcomes
from skillcomp.stats.bounded import RATES, Arm, Sample, bounded_means, mixed_of_case
from skillcomp.stats.results import join_notes

__all__ = ["compare", "confusion", "controls", "detection", "goals"]

GOALS = ("outcome", "process", "style", "efficiency")
OTHER = "other"  # Kind of a prompt that belongs to the suite of another skill.
NOTHING = "none"  # Word in `fired` if no skill fired, and in `expected` if none should.
CONTROL = "control"  # Kind of a prompt that tests whether firing is detected; see `controls`.
_KINDS = ("all", "explicit", "implicit", "negative", OTHER)
_MADE = ("kind", "expected", "fired", "should", "did", "size", "reference", "dead", "alarm")
_DEAD = "the instrument is dead for {}: an explicit call did not fire it"
UNKNOWN_CALL = "it is not known whether an explicit call fires {}"
_ALARM = "{} fired at a prompt that no skill should answer, so recall may show only that it fires"
_NOTHING = {
    "recall": "no prompt that should fire it",
    "specificity": "no prompt that should not fire it",
    "exact": "of no attempt is it known of every skill on offer whether it should have fired",
}
CEILING = "all right: a ceiling, which shows no more than the lower limit"
FLOOR = "none right: a floor, which shows no more than the upper limit"

__dir__ = __all__.copy  # so that dir() lists the public names


def detection(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate recall, specificity, precision and F1 of the invocation of skills.

    Repeats are averaged within a prompt, and every prompt has the same weight. With
    ``by=["offered"]`` each skill on offer has its own rows; otherwise all skills are counted
    together.

    Parameters
    ----------
    invocations : pandas.DataFrame
        An invocations frame with attempt_id, skill, case_id, condition, offered, invoked and
        should_invoke.
    cases : pandas.DataFrame, optional
        A cases frame with prompt_kind, contrast_of and should_trigger. For the skill of the case's
        own suite, ``should_trigger`` is used where ``should_invoke`` is missing.
    by : str or sequence of str
        Columns that group the rows, such as ``["offered"]``, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, measure and kind, with the estimates columns. The measures
        are:

        - ``recall``: among prompts that should fire the skill, the share that did;
        - ``specificity``: among prompts that should not fire the skill, the share that did not;
        - ``precision`` and ``f1`` (see Notes), only with kind ``all``;
        - ``exact``: the share of attempts in which exactly the right skills fired, only with kind
          ``all``. It uses only attempts for which the right behaviour of every skill on offer is
          known. It is left out if ``by`` contains ``offered``.

        ``kind`` is the kind of a prompt in the skill's own suite (``explicit``, ``implicit`` or
        ``negative``), ``other`` for the prompts of other suites, or ``all``. Estimates are from 0
        to 1; they are NaN with a note if there is no such prompt or, for precision, if nothing
        fired. ``n`` counts pairs of a prompt and a skill. ``n_right`` and ``n_asked`` are the
        numerator and the denominator of the estimate, counted over attempts instead of prompts.
        ``n_missing`` counts the unknown invocations, which are left out.

    Raises
    ------
    FrameError
        If a frame breaks its contract, several agents or altered copies would be pooled, or the
        right skill is unknown for all prompts.

    See Also
    --------
    confusion : Which skills fired instead of the right ones.
    compare : Changes between two descriptions of a skill on the same prompts.

    Notes
    -----
    Recall, specificity and exact are bounded means over prompts, by the adaptive rule where each
    prompt has one skill and no contrast pair: in 144 simulated designs it covered at least 94.4 %
    of recalls, and 95.0 % of their changes. Other measures have the ``"bounded"`` rule. Precision
    is the number of right invocations divided by the number of invocations. F1 is ``2 TP / (2 TP +
    FP + FN)``. Both are weighted means of bounded values, with weights that depend on how often the
    skill fired. They have the ``"bounded"`` interval for clusters of different sizes; the size of a
    cluster is its sum of weights. The conjecture behind that interval does not cover random
    weights; a simulation in ``tests/test_triggers.py`` measures its coverage. All skills at one
    prompt are one cluster, and so are the prompts of a contrast pair. The interval never has zero
    width. If everything is right, only its lower limit is informative, as ``note`` states.

    Precision, F1 and specificity depend on the choice of prompts. Easy prompts of other suites
    raise specificity, so read it by kind. A prompt does not count for a skill if it is unknown
    whether the skill should fire, as for prompts of other suites without ``right_skills``.

    Prompts of the kind ``control`` test the instrument, that is, whether invocations are detected
    at all. No measure includes them. If the explicit call of a skill did not fire it, the
    instrument is dead for this skill: all its invocations count as unknown, and ``note`` says so.
    ``note`` also names a skill that fired at a control prompt that no skill should answer; this
    happens if a program fires every skill. See :func:`controls`.

    Examples
    --------
    A skill should fire at the first three of four prompts. It fires at all but the third.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({
    ...     "attempt_id": list("abcd"), "skill": "s", "case_id": list("1234"), "condition": "skill",
    ...     "offered": "s", "invoked": [True, True, False, True],
    ...     "should_invoke": [True, True, True, False]})
    >>> found = detection(rows)
    >>> found.loc[found["kind"].eq("all"), ["measure", "estimate", "n_right", "n_asked"]].round(3)
           measure  estimate  n_right  n_asked
    0       recall     0.667      2.0      3.0
    1  specificity     0.000      0.0      1.0
    2    precision     0.667      2.0      3.0
    3           f1     0.667      4.0      6.0
    4        exact     0.500      2.0      4.0
    """
    names = _grouping_columns(by)
    check_settings("triggers.detection", ci_level)
    checked = _checked_invocations(invocations, cases, names, "triggers.detection")
    table = _prompts_by_measure(checked, names)
    instruments = []  # for each group, a note that names the skills with failed controls
    for _, group in groups(table, names):
        failed = {_DEAD: group["dead"], _ALARM: group["alarm"]}
        skills = {text: ", ".join(ordered(group.loc[at, "offered"])) for text, at in failed.items()}
        instruments.append(join_notes(*(text.format(s) for text, s in skills.items() if s)))
    parts = list(groups(table, [*names, "measure", "kind"]))
    samples = []
    for values, part in parts:
        known = part.dropna(subset="_level")
        # of several skills at a prompt, one that always errs is no sign of mixed outcomes
        is_plain = values["measure"] not in ("precision", "f1") and known["cluster"].is_unique
        arms = (Arm(known["_level"], known["n"]),) if is_plain else ()
        samples.append(Sample(known["_level"], known["cluster"], known["_weight"], arms))
    counts, rows = ["n_right", "n_asked", "n_missing"], []
    intervals = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    for (values, part), interval in zip(parts, intervals, strict=True):
        note = instruments[part["_order"].iloc[0]]
        if interval.n:
            edge = {0.0: FLOOR, 1.0: CEILING}.get(interval.estimate, "")
            note = join_notes(note, interval.note, edge)
        elif not note:
            note = _NOTHING.get(values["measure"], "nothing fired")
        about = values | {name: part[name].sum() for name in counts}
        rows.append(row(interval=replace(interval, note=note), **about))
    return estimates(rows, by=[*names, "kind"], extra=counts)


def controls(
    invocations: pd.DataFrame, cases: pd.DataFrame | None = None, *, by: By = ()
) -> pd.DataFrame:
    """Report for each skill whether the controls of the instrument worked.

    Parameters
    ----------
    invocations, cases : pandas.DataFrame
        As in :func:`detection`. Prompts with the prompt_kind ``control`` are the controls: an
        explicit call of a skill, and a prompt that no skill should answer.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition`` and ``offered``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and skill on offer with a control: ``n_calls`` and
        ``n_called`` (explicit calls with a known invocation, and those that fired the skill),
        ``n_others`` and ``n_false_alarms`` (prompts that no skill should answer, with a known
        invocation, and those that fired the skill all the same),
        ``dead`` (whether no explicit call fired the skill; NA if no invocation is known) and
        ``note``. Without controls the frame is empty.

    Raises
    ------
    FrameError
        If a frame breaks its contract or several agents or altered copies would be pooled.
    """
    names = [*listed(by, "condition", "offered"), "condition", "offered"]
    checked = _checked_invocations(
        invocations, cases, names, "triggers.controls", needs_truth=False, with_controls=True
    )
    table = _instruments(checked, names)
    dead, skill = table["dead"].fillna(False).astype(bool), table["offered"]
    # a skill that is only installed with others is not called
    states = {
        f"{_DEAD}, so its cases say nothing about it": dead,
        UNKNOWN_CALL: table["dead"].isna() & table["n_asked"].gt(0),
        "{} fired at a prompt that no skill should answer": table["alarm"],
    }
    notes = [
        join_notes(*(text.format(skill[at]) for text, is_so in states.items() if is_so[at]))
        for at in table.index
    ]
    made = table.drop(columns=["alarm", "n_asked"])
    return made.assign(note=pd.Series(notes, table.index, dtype="str"))


def _instruments(invocations: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return one row per group of controls: counts, ``dead`` and ``alarm``; see `controls`."""
    controls = invocations[invocations["prompt_kind"].eq(CONTROL).fillna(False).astype(bool)]
    for_no_skill = controls["should_trigger"].eq(False).fillna(False).astype(bool)
    asked = controls["should"].eq(1.0)
    sides = {"call": asked, "other": for_no_skill}
    did = {name: controls["did"].where(at) for name, at in sides.items()}
    table: pd.DataFrame = (
        grouped(controls.assign(asked=asked, **did), names)
        .agg(
            n_asked=("asked", "sum"),
            n_calls=("call", "count"),
            n_called=("call", "sum"),
            n_others=("other", "count"),
            n_false_alarms=("other", "sum"),
        )
        .astype("int64")
    )
    dead = table["n_called"].eq(0).astype("boolean").where(table["n_calls"].gt(0))
    return table.assign(dead=dead, alarm=table["n_false_alarms"].gt(0)).reset_index()


def confusion(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often each skill fired at prompts for another skill, or for none.

    Parameters
    ----------
    invocations, cases : pandas.DataFrame
        As in :func:`detection`.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``; not ``offered``.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, and pair of ``expected`` and ``fired`` that occurred, with
        the estimates columns. ``expected`` lists the skills that should fire at a prompt, joined by
        a comma. It is ``none`` if no skill on offer should fire, and ``not <skill>`` if it is only
        known that the skill of the prompt's own suite should not fire. ``fired`` is a skill, or
        ``none`` if no skill fired. ``fired_share`` is the share of the attempts at such prompts in
        which this skill fired, averaged by case. The shares of one ``expected`` add up to more than
        1 if attempts fire several skills. ``n_attempts`` counts the attempts in which the skill
        fired, ``n_asked`` all attempts at such prompts. Attempts with unknown invocations are left
        out.

    Raises
    ------
    FrameError
        As in :func:`detection`.

    See Also
    --------
    skillcomp.plots.dimensions : Draws the result, with ``x="fired", y="expected"``.
    """
    names, what = _grouping_columns(by), "triggers.confusion"
    if "offered" in names:
        raise FrameError("triggers.confusion: by= names 'offered', which is compared.")
    check_settings(what, ci_level)
    checked = _checked_invocations(invocations, cases, names, what, needs_truth=False)
    lost = checked.loc[checked["dead"] & checked["should"].eq(1.0), "attempt_id"]
    checked = checked[checked["invoked"].notna() & ~checked["attempt_id"].isin(lost)]
    rows, samples = [], []
    for values, group in groups(checked, names):
        attempts = _expected_skills(group)
        hits = group[group["invoked"].astype(bool)].sort_values("offered", kind="stable")
        silent = attempts[~attempts["attempt_id"].isin(hits["attempt_id"])]
        hits = pd.concat([hits, silent.assign(offered=NOTHING)])
        words = sorted(attempts["expected"].unique(), key=lambda word: (word == NOTHING, word))
        for expected in words:
            asked = attempts[attempts["expected"].eq(expected)]
            inside = hits[hits["attempt_id"].isin(asked["attempt_id"])]
            for fired, hit in inside.groupby("offered", sort=False)["attempt_id"]:
                of_case = grouped(asked.assign(hit=asked["attempt_id"].isin(hit)), CASE)
                samples.append((of_case["hit"].mean(), of_case["cluster"].first(), None))
                about = {"expected": expected, "fired": fired, "n_attempts": len(hit)}
                rows.append(values | about | {"n_asked": len(asked)})
    intervals = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    shares = [row("fired_share", i, **about) for about, i in zip(rows, intervals, strict=True)]
    return estimates(shares, by=[*names, "expected", "fired"], extra=["n_attempts", "n_asked"])


def compare(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: By = (),
    reference: str,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the paired change in recall and specificity between two descriptions of a skill.

    Parameters
    ----------
    invocations, cases : pandas.DataFrame
        As in :func:`detection`, with one condition for each description.
    by : str or sequence of str
        Columns that group the rows, such as ``["offered"]``.
    reference : str
        The condition that the others are compared with.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition other than the reference, kind of prompt and measure. The
        measures are ``delta_recall``, ``delta_specificity`` and, unless ``by`` contains
        ``offered``, ``delta_exact``. Each is the mean difference of rates, from -1 to 1, over the
        prompts with a rate under both conditions. The p-value tests that there is no difference.
        ``reference`` is the reference condition. ``rate`` and ``reference_rate`` are the means of
        the two conditions over these prompts. ``n_dropped`` counts the prompts with a rate under
        only one of the two.

    Raises
    ------
    FrameError
        As in :func:`detection`, or if no row has the reference condition.

    Notes
    -----
    The interval is that of a bounded mean of paired differences (adaptive rule). Precision and F1
    have no paired mean, because the weight of a prompt depends on its invocations, which differ
    between the conditions. Compare them by condition with :func:`detection`. ``p_adjusted`` is
    adjusted by Holm over the rows of a measure. If a second condition has the same description
    (A/A), its rows show the differences due to chance.
    """
    names = _grouping_columns(by)[:-1]
    check_settings("triggers.compare", ci_level)
    checked = _checked_invocations(invocations, cases, [*names, "condition"], "triggers.compare")
    conditions = ordered(checked["condition"])
    require_known("triggers.compare: reference: found", reference, conditions)
    # the groups of `by` in alphabetical order
    table = _prompts_by_measure(sorted_by(checked, names), names, without=("precision", "f1"))
    table["measure"] = "delta_" + table["measure"]
    table["_fewest"], table["_mixed"] = table["n"], mixed_of_case(table["_level"], table["n"])
    units = Units.of(
        table,
        ["_order", *names, "measure", "kind"],
        unit=[*CASE, "offered", "should"],
        value="level",
    )
    contrasts = [
        Contrast(
            values | {"condition": condition, "reference": reference},
            group,
            {(condition,): 1.0, (reference,): -1.0},
            sides=(condition, reference),
        )
        for condition in ordered(conditions, reference)
        for group, values in enumerate(units.groups)
    ]
    contrasts.sort(key=lambda each: (each.about["measure"] == "delta_exact", each.about["_order"]))
    rows = contrast_rows("delta_recall", units, contrasts, ci_level=ci_level, notes=False)
    return estimates(
        rows,
        by=[*names, "condition", "kind"],
        extra=["reference", "rate", "reference_rate", "n_dropped"],
    )


def goals(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often each of the four goals is met: outcome, process, style, efficiency.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame of one grader, with the column goal.
    cases : pandas.DataFrame, optional
        A cases frame with contrast_of; the cases of a contrast pair form one cluster.
    by : str or sequence of str
        Columns of the outcomes that group the rows, such as ``["skill"]``, in addition to
        ``condition`` and ``goal``.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and goal that has a check, with the columns of
        :func:`skillcomp.deltas.rates`. An attempt meets a goal if every check of the goal passed.
        The outcome is missing if a check of the goal has no usable verdict.

    Raises
    ------
    FrameError
        If a frame breaks its contract, no check has a goal, or graders would be pooled.
    """
    check_settings("triggers.goals", ci_level)
    checked = check(verdicts, "verdicts")
    names = listed(by, "goal")
    if len(checked) and checked["goal"].isna().all():
        raise FrameError(f"triggers.goals: no verdict has a goal; allowed: {', '.join(GOALS)}.")
    contrasts = None if cases is None else check(cases, "cases")[[*CASE, "contrast_of"]]
    parts: list[pd.DataFrame] = []
    for goal in GOALS:
        reached = outcomes(checked[checked["goal"].eq(goal)])
        if reached.empty and (parts or goal != GOALS[-1]):
            continue
        if contrasts is not None:
            reached = reached.drop(columns="contrast_of").merge(contrasts, on=CASE, how="left")
        reached = reached.assign(goal=goal)
        parts.append(deltas.rates(reached, by=["goal", *names], ci_level=ci_level))
    return pd.concat(parts, ignore_index=True)


def _grouping_columns(by: By) -> list[str]:
    return [*listed(by, "condition"), "condition"]


def _checked_invocations(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None,
    names: list[str],
    what: str,
    *,
    needs_truth: bool = True,
    with_controls: bool = False,
) -> pd.DataFrame:
    """Check the invocations; add the columns ``kind``, ``cluster``, ``should`` and ``did``.

    ``should`` and ``did`` are NaN if unknown. Unless ``with_controls`` is True, the controls are
    left out, and ``dead`` and ``alarm`` are added. ``dead`` marks a skill that did not fire even
    when it was called explicitly; all its invocations count as unknown. ``alarm`` marks a skill
    that fired at a control prompt that no skill should answer.
    """
    checked = prepared(invocations, "invocations", names, what, agents=True)
    for name in names:
        if name in _MADE:
            raise FrameError(f"{what}: by= names '{name}', which is a column of the result.")
    facts = ["prompt_kind", "should_trigger", "contrast_of"]
    checked = checked.drop(columns=facts, errors="ignore")
    if cases is None:
        checked = checked.assign(prompt_kind=None, should_trigger=None, contrast_of=None)
    else:
        checked = checked.merge(check(cases, "cases")[[*CASE, *facts]], on=CASE, how="left")
    own = checked["offered"].eq(checked["skill"])
    should = checked["should_invoke"].astype("Float64")
    from_case = checked["should_trigger"].astype("Float64").where(own)
    if needs_truth and len(checked) and should.fillna(from_case).isna().all():
        raise FrameError(
            f"{what}: of no prompt is it known which skill should fire; give should_invoke, or "
            "cases with should_trigger."
        )
    checked = checked.assign(
        should=should.fillna(from_case).astype("float64"),
        did=checked["invoked"].astype("Float64").astype("float64"),
        kind=checked["prompt_kind"].astype("object").where(own, OTHER),
        cluster=clusters_of(checked),
    )
    if with_controls:
        return checked
    instrument = ["agent", "condition", "offered"]
    states = _instruments(checked, instrument)[[*instrument, "dead", "alarm"]]
    checked = checked.drop(columns=["dead", "alarm"], errors="ignore")
    checked = checked.merge(states, on=instrument, how="left")
    for name in ("dead", "alarm"):
        checked[name] = checked[name].eq(True).fillna(False).astype(bool)
    for name in ("did", "invoked"):
        checked[name] = checked[name].mask(checked["dead"])
    return checked[checked["prompt_kind"].ne(CONTROL).fillna(True).astype(bool)]


def _prompts_by_measure(
    invocations: pd.DataFrame, names: list[str], without: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row per group, measure, kind of prompts, condition, prompt and skill on offer.

    ``_level`` is the value of the prompt, NaN if it is unknown or the prompt does not count;
    ``_weight`` is its weight. ``n_right``, ``n_asked`` and ``n_missing`` count attempts, and
    ``_order`` is the number of the group. With kind ``all``, there are rows for all prompts.
    """
    keys = list(dict.fromkeys([*names, "condition", *CASE, "cluster"]))
    wrong = (invocations["did"] - invocations["should"]).abs()
    attempts = grouped(invocations.assign(did=1.0 - wrong), [*keys, "attempt_id"])
    exact = attempts["did"].agg(did="min", n="count", size="size").reset_index()
    # Leave out every attempt in which it is unknown for some skill whether it fired, even if
    # another skill fired wrongly. Otherwise such an attempt could count as wrong but never as
    # right.
    exact["did"] = exact["did"].where(exact["n"].eq(exact["size"]))
    exact = exact.assign(should=1.0, kind="exact", dead=False, alarm=False)
    rows = [invocations.dropna(subset="should"), exact]
    facts = [*keys, "offered", "should", "kind", "dead", "alarm"]
    sizes = grouped(pd.concat(rows[: 2 - ("offered" in names)]), facts)["did"]
    table = sizes.agg(n="count", n_attempts="size", share="mean").reset_index()
    table["_order"] = group_codes(table, names)[0]
    share, should, is_exact = table["share"], table["should"], table["kind"].eq("exact")
    right, total = share.where(should.eq(1.0), 1.0 - share), share + should
    measures = [
        ("recall", should.eq(1.0), right, 1.0),
        ("specificity", should.eq(0.0), right, 1.0),
        ("precision", True, should, share),
        ("f1", True, 2.0 * should * share / total, total),
        ("exact", True, share, 1.0),
    ]
    parts: list[pd.DataFrame] = []
    for measure, which, level, weight in measures:
        if measure in without:
            continue
        own = is_exact.eq(measure == "exact")
        for kind in _KINDS if measure in ("recall", "specificity") else _KINDS[:1]:
            some = which & (table["kind"].eq(kind) | (kind == "all"))
            value = level.where(some & (weight > 0))
            n_asked = (table["n"] * weight).where(value.notna())
            n_missing = (table["n_attempts"] - table["n"]).where(some, 0)
            part = table.assign(
                measure=measure, kind=kind, _level=value, _weight=weight, n_asked=n_asked,
                n_right=value * n_asked, n_missing=n_missing,
            )  # fmt: skip
            parts.append(part[own & (some | (kind == "all"))])
    return pd.concat(parts).sort_values("_order", kind="stable")


def _expected_skills(group: pd.DataFrame) -> pd.DataFrame:
    """Return the first row of each attempt; ``expected`` names the skills that should fire."""
    right = group[group["should"].eq(1.0)].sort_values("offered")
    names = grouped(right, ["attempt_id"])["offered"].agg(", ".join)
    unknown = group.loc[group["should"].isna(), "attempt_id"]
    attempts = group.drop_duplicates("attempt_id")
    other = ("not " + attempts["skill"]).where(attempts["attempt_id"].isin(unknown), NOTHING)
    return attempts.assign(expected=attempts["attempt_id"].map(names).astype("str").fillna(other))
