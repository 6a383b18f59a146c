"""Whether skills fire when they should: precision, recall, confusion, and goals of the work done.

The unit of evidence is the case; repeats are averaged inside it. What is counted is whether a
skill on offer was invoked, prompt by prompt, so that precision and F1 are ratios of sums over
cases and go through the one interval for means of clusters (:mod:`skillcomp.stats.bounded`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from skillcomp import deltas
from skillcomp.errors import FrameError, require_known
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    check_settings,
    estimates,
    groups,
    listed,
    ordered,
    prepared,
    row,
    rows_of_group,
)
from skillcomp.frames.outcomes import outcomes
from skillcomp.stats.bounded import DELTAS, RATES, bounded_means
from skillcomp.stats.results import Interval, join_notes

__all__ = ["compare", "confusion", "detection", "goals"]

GOALS = ("outcome", "process", "style", "efficiency")
OTHER = "other"  # a prompt from the suite of another skill than the one looked at
NOTHING = "none"  # no skill
_KINDS = ("all", "explicit", "implicit", "negative", OTHER)
_MADE = ("kind", "expected", "fired", "should", "did", "size", "reference")
CEILING = "all right: a ceiling, which shows no more than the lower limit"
FLOOR = "none right: a floor, which shows no more than the upper limit"


def __dir__() -> list[str]:
    return __all__


def detection(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often a skill fires where it should, and how rarely where it should not.

    Repeats are averaged inside a prompt; every prompt has one vote. ``by=["offered"]`` gives one
    skill at a time, no ``by`` all skills on offer together.

    Parameters
    ----------
    invocations : pandas.DataFrame
        An invocations frame: reads attempt_id, skill, case_id, condition, offered, invoked and
        should_invoke.
    cases : pandas.DataFrame, optional
        A cases frame. Gives the kind of each prompt, contrast pairs, and should_trigger of a
        case's own skill where ``should_invoke`` is missing.
    by : sequence of str
        Columns that keep rows apart, such as ``["offered"]``; ``condition`` always does.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, measure and kind. ``kind`` is the kind of the prompt
        (explicit, implicit, negative) where it is in the skill's own suite, ``other`` for prompts
        of other suites, ``all`` for all together. Measures: ``recall`` (of prompts that should
        fire the skill, the share that did), ``specificity`` (of those that should not, the share
        that did not), ``precision`` and ``f1`` (``all`` only), and, unless ``by`` names
        ``offered``, ``exact`` (attempts in which just the right skills fired, of those of which it
        is known of every skill on offer). Then the estimates
        columns (estimate from 0 to 1, n = prompts of a skill, n_clusters) and n_right, n_asked
        (the counts behind the estimate: attempts and skills), n_missing (invocations that are not
        known, left out). NaN with a note where there is no such prompt, and precision where
        nothing fired.

    Raises
    ------
    FrameError
        If a frame breaks its contract, several agents or altered copies would be pooled, or it is
        not known of any prompt what should fire.

    See Also
    --------
    confusion : Which other skill fired.
    compare : Two descriptions of a skill on the same prompts.

    Notes
    -----
    Recall and specificity are bounded means over prompts. Precision is the sum over prompts of
    true invocations over the sum of all, F1 ``2 TP / (2 TP + FP + FN)``: means of bounded values
    weighted by how often the skill fired, so that the same interval holds their cluster sums
    (``S_g - t m_g``). Weights that chance decides are outside the conjecture behind that interval;
    the coverage is measured in ``tests/test_triggers.py`` (slow). All prompts of a contrast pair
    and all skills of one prompt are one cluster. Never of zero width: where all is right the
    lower limit is what the study shows, which ``note`` says.

    Precision, F1 and specificity depend on which prompts were asked: easy prompts of other suites
    raise specificity, so read it by kind. A skill of which it is not known whether it should have
    fired (prompts of another suite without ``right_skills``) is left out there.

    Examples
    --------
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
    names = _names(by)
    check_settings("triggers.detection", ci_level)
    given = _prepared(invocations, cases, names, "triggers.detection")
    sums: list[_Sum] = []
    for values, group in groups(_pairs(given, names), names):
        sums += _sums(group, values)
        if "offered" not in names:
            sums.append(_exact(rows_of_group(given, values), values))
    found = bounded_means([sample for *_, sample in sums], quantity=RATES, ci_level=ci_level)
    rows = [
        row(measure, _noted(interval, nothing), **about)
        for (measure, about, nothing, _), interval in zip(sums, found, strict=True)
    ]
    return estimates(rows, by=[*names, "kind"], extra=["n_right", "n_asked", "n_missing"])


def confusion(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say which skill fired where another, or none, should have.

    Parameters
    ----------
    invocations, cases : pandas.DataFrame
        As in :func:`detection`.
    by : sequence of str
        Columns that keep rows apart; ``condition`` always does. ``offered`` is not among them.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, ``expected`` and ``fired`` that occurred. ``expected`` names
        the right skills of the prompt, joined by a comma; ``none`` where no skill on offer is
        right, and ``not <skill>`` where that is known of the suite's own skill alone. ``fired`` is
        a skill, or ``none`` where no skill fired. Measure ``fired_share``: of the attempts at such
        prompts the share in which it fired, averaged by case; shares of one ``expected`` add up to
        more than 1 where attempts fire several skills. Then the estimates columns and n_attempts
        (in which it fired) and n_asked. Attempts of which nothing is known are left out.

    Raises
    ------
    FrameError
        As in :func:`detection`.

    See Also
    --------
    skillcomp.plots.dimensions : Draws the result, with ``x="fired", y="expected"``.
    """
    names = _names(by)
    if "offered" in names:
        raise FrameError("triggers.confusion: by= names 'offered', which is what is confused.")
    check_settings("triggers.confusion", ci_level)
    given = _prepared(invocations, cases, names, "triggers.confusion", known=False)
    rows, samples = [], []
    for values, group in groups(given[given["invoked"].notna()], names):
        asked = _expected(group)
        words = sorted(asked["expected"].unique(), key=lambda word: (word == NOTHING, word))
        for expected in words:
            part = asked[asked["expected"].eq(expected)]
            ids = part["attempt_id"]
            hits = group[group["attempt_id"].isin(ids) & group["invoked"].astype(bool)]
            fired = {name: set(one["attempt_id"]) for name, one in hits.groupby("offered")}
            silent = set(ids) - set(hits["attempt_id"])
            for name, inside in [*fired.items(), *([(NOTHING, silent)] if silent else [])]:
                share = ids.isin(inside).groupby([part["skill"], part["case_id"]], sort=False)
                cluster = part.groupby(CASE, sort=False)["cluster"].first()
                samples.append((share.mean().to_numpy(dtype=float), cluster.to_numpy(), None))
                about = {"expected": expected, "fired": name, "n_attempts": len(inside)}
                rows.append(values | about | {"n_asked": len(part)})
    found = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    shares = [row("fired_share", one, **about) for about, one in zip(rows, found, strict=True)]
    return estimates(shares, by=[*names, "expected", "fired"], extra=["n_attempts", "n_asked"])


def compare(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    reference: str,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say what another description does to the same prompts: paired, condition by condition.

    Parameters
    ----------
    invocations, cases : pandas.DataFrame
        As in :func:`detection`, one condition for each description.
    by : sequence of str
        Columns that keep rows apart, such as ``["offered"]``.
    reference : str
        The condition that the others are compared with.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, other condition, measure and kind: ``delta_recall``,
        ``delta_specificity`` and, unless ``by`` names ``offered``, ``delta_exact``, each the mean
        over the prompts asked under both conditions of the difference of their rates (-1 to 1),
        with a p-value for no difference; then reference, rate, reference_rate and n_dropped
        (prompts without a partner).

    Raises
    ------
    FrameError
        As in :func:`detection`, or if there is no such reference.

    Notes
    -----
    The interval of a bounded mean of paired differences. Precision and F1 weigh prompts by what
    fired, which differs between the conditions, and have no paired mean: read them by condition
    in :func:`detection`. Rows answer separate questions; p-values are not adjusted. The same study
    under two names (A/A) gives what differs by chance alone.
    """
    names = [name for name in _names(by) if name != "condition"]
    check_settings("triggers.compare", ci_level)
    given = _prepared(invocations, cases, [*names, "condition"], "triggers.compare")
    require_known("triggers.compare: reference: found", reference, ordered(given["condition"]))
    tables = {"": _pairs(given, [*names, "condition"])}
    if "offered" not in names:
        tables["exact"] = _exact_cases(given, [*names, "condition"])
    rows, samples = [], []
    for measure, table in tables.items():
        keys = [*names, *CASE, "cluster", "should", "kind", *([] if measure else ["offered"])]
        keys = list(dict.fromkeys(keys))
        table = table.assign(right=_right(table))
        wide = table.set_index([*keys, "condition"])["right"].unstack("condition")
        wide = wide.reindex(columns=given["condition"].unique())  # of some nothing may be known
        for values, group in groups(wide.add_prefix("of ").reset_index(), names):
            for condition in ordered(given["condition"].unique(), reference):
                for name, kind, part in _slices(group, measure):
                    one, base = part[f"of {condition}"], part[f"of {reference}"]
                    both = one.notna() & base.notna()
                    samples.append(((one - base)[both], part.loc[both, "cluster"], None))
                    about = {"condition": condition, "kind": kind, "reference": reference}
                    about |= {"rate": one[both].mean(), "reference_rate": base[both].mean()}
                    about |= {"n_dropped": int((one.notna() ^ base.notna()).sum())}
                    rows.append((f"delta_{name}", values | about))
    found = bounded_means(samples, quantity=DELTAS, null=0.0, ci_level=ci_level)
    return estimates(
        [row(name, one, **about) for (name, about), one in zip(rows, found, strict=True)],
        by=[*names, "condition", "kind"],
        extra=["reference", "rate", "reference_rate", "n_dropped"],
    )


def goals(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often each of the four goals is met: outcome, process, style, efficiency.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame of one grader; reads goal beside what an outcome needs.
    cases : pandas.DataFrame, optional
        A cases frame: tells of contrast pairs, which form one cluster.
    by : sequence of str
        Columns of the outcomes that keep rows apart, such as ``["skill"]``; ``condition`` and
        ``goal`` always do.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per goal with a check, ``by`` and condition: as :func:`skillcomp.deltas.rates`. A
        goal is met by an attempt when every check of it passed, and not known when none failed
        and one has no verdict.

    Raises
    ------
    FrameError
        If a frame breaks its contract, no check has a goal, or graders would be pooled.
    """
    check_settings("triggers.goals", ci_level)
    given = check(verdicts, "verdicts")
    names = [name for name in listed(by) if name != "goal"]
    if len(given) and given["goal"].isna().all():
        raise FrameError(f"triggers.goals: no verdict has a goal; allowed: {', '.join(GOALS)}.")
    contrasts = None if cases is None else check(cases, "cases")[[*CASE, "contrast_of"]]
    found: list[pd.DataFrame] = []
    for goal in GOALS:
        reached = outcomes(given[given["goal"].eq(goal)])
        if reached.empty and (found or goal != GOALS[-1]):
            continue
        if contrasts is not None:
            reached = reached.drop(columns="contrast_of").merge(contrasts, on=CASE, how="left")
        reached = reached.assign(goal=goal)
        found.append(deltas.rates(reached, by=["goal", *names], ci_level=ci_level))
    return pd.concat(found, ignore_index=True)


# What was asked and what fired


def _names(by: Sequence[str]) -> list[str]:
    return [name for name in listed(by) if name != "condition"] + ["condition"]


def _prepared(
    invocations: pd.DataFrame,
    cases: pd.DataFrame | None,
    names: list[str],
    what: str,
    *,
    known: bool = True,
) -> pd.DataFrame:
    """Return checked invocations with kind, should (float, NaN unknown), did and cluster."""
    given = prepared(invocations, "invocations", names, what, agents=True)
    for name in names:
        if name in _MADE:
            raise FrameError(f"{what}: by= names '{name}', which is a column of the result.")
    facts = ["prompt_kind", "should_trigger", "contrast_of"]
    given = given.drop(columns=[name for name in facts if name in given.columns])
    if cases is None:
        given = given.assign(prompt_kind=None, should_trigger=None, contrast_of=None)
    else:
        given = given.merge(check(cases, "cases")[[*CASE, *facts]], on=CASE, how="left")
    own = given["offered"].eq(given["skill"])
    should = given["should_invoke"].astype("Float64")
    told = given["should_trigger"].astype("Float64").where(own)
    if known and len(given) and should.fillna(told).isna().all():
        raise FrameError(
            f"{what}: of no prompt is it known which skill should fire; give should_invoke, or "
            "cases with should_trigger."
        )
    return given.assign(
        should=should.fillna(told).astype("float64"),
        did=given["invoked"].astype("Float64").astype("float64"),
        kind=given["prompt_kind"].astype("object").where(own, OTHER),
        cluster=clusters_of(given),
    )


def _pairs(given: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return one row per ``by``, case and skill on offer: how often it fired, of how many."""
    keys = [*names, *CASE, "offered", "cluster", "should", "kind"]
    known = given[given["should"].notna()]
    found = known.groupby(list(dict.fromkeys(keys)), sort=False, dropna=False, observed=True)["did"]
    table = found.agg(n="count", size="size", fired="sum").reset_index()
    return table.assign(share=table["fired"] / table["n"].where(table["n"] > 0))


def _right(table: pd.DataFrame) -> pd.Series:
    """Return how often the skill did what it should."""
    return table["share"].where(table["should"].eq(1.0), 1.0 - table["share"])


# What an interval is computed from: the measure, the row's other columns, the note where there is
# nothing, and of each prompt the value, the cluster and the weight.
_Sum = tuple[str, dict[str, Any], str, tuple[pd.Series, pd.Series, pd.Series | None]]


def _slices(group: pd.DataFrame, measure: str = "") -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield measure, kind and the prompts behind it; kinds without a prompt are left out."""
    if measure:
        yield measure, "all", group
        return
    for name, should in (("recall", 1.0), ("specificity", 0.0)):
        part = group[group["should"].eq(should)]
        for kind in _KINDS:
            some = part if kind == "all" else part[part["kind"].eq(kind)]
            if kind == "all" or len(some):
                yield name, kind, some


def _sums(group: pd.DataFrame, values: dict[str, Any]) -> Iterator[_Sum]:
    for measure, kind, part in _slices(group):
        known = part[part["n"] > 0]
        right = _right(known)
        counts = {"n_right": (right * known["n"]).sum(), "n_asked": known["n"].sum()}
        counts["n_missing"] = (part["size"] - part["n"]).sum()
        about = values | {"kind": kind} | counts
        nothing = "no prompt that should" + " not" * (measure != "recall") + " fire it"
        yield measure, about, nothing, (right, known["cluster"], None)
    known = group[group["n"] > 0]
    should, share, n = known["should"], known["share"], known["n"]
    missing = (group["size"] - group["n"]).sum()
    for measure, value, weight in (
        ("precision", should, share),
        ("f1", 2 * should * share / (share + should).where(lambda one: one > 0), share + should),
    ):
        some = weight > 0
        about = values | {"kind": "all", "n_missing": missing}
        about |= {"n_right": (value * weight * n)[some].sum(), "n_asked": (weight * n)[some].sum()}
        sample = (value[some], known["cluster"][some], weight[some])
        yield measure, about, "nothing fired", sample


def _expected(group: pd.DataFrame) -> pd.DataFrame:
    """Return one row per attempt: case, cluster and which skills should have fired."""
    rows = []
    for attempt, part in group.groupby("attempt_id", sort=False):
        first = part.iloc[0]
        right = sorted(part.loc[part["should"].eq(1.0), "offered"])
        unknown = part["should"].isna().any()
        word = ", ".join(right) or (f"not {first['skill']}" if unknown else NOTHING)
        about = {name: first[name] for name in (*CASE, "cluster")}
        rows.append({"attempt_id": attempt, "expected": word, **about})
    return pd.DataFrame(rows, columns=["attempt_id", "expected", *CASE, "cluster"])


def _exact_cases(given: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return one row per ``by`` and case: the share of attempts in which just the right fired."""
    keys = list(dict.fromkeys([*names, *CASE, "cluster"]))
    wrong = (given["did"] - given["should"]).abs()
    each = given.assign(wrong=wrong, open=wrong.isna()).groupby(
        list(dict.fromkeys([*keys, "attempt_id"])), sort=False, dropna=False, observed=True
    )
    attempts = each.agg(worst=("wrong", "max"), open=("open", "any")).reset_index()
    # one wrong skill settles an attempt, but to count those alone would keep only failures: every
    # skill must be known
    exact = (1.0 - attempts["worst"]).where(~attempts["open"])
    found = attempts.assign(exact=exact).groupby(keys, sort=False, dropna=False, observed=True)
    table = found["exact"].agg(n="count", size="size", fired="sum").reset_index()
    share = table["fired"] / table["n"].where(table["n"] > 0)
    return table.assign(share=share, should=1.0, kind="all")


def _exact(given: pd.DataFrame, values: dict[str, Any]) -> _Sum:
    table = _exact_cases(given, [])
    known = table[table["n"] > 0]
    about = values | {"kind": "all", "n_right": known["fired"].sum(), "n_asked": known["n"].sum()}
    about["n_missing"] = (table["size"] - table["n"]).sum()
    nothing = "of no attempt is it known of every skill on offer whether it should have fired"
    return "exact", about, nothing, (known["share"], known["cluster"], None)


def _noted(found: Interval, nothing: str) -> Interval:
    if not found.n:
        return replace(found, note=nothing)
    edge = CEILING if found.estimate == 1 else FLOOR if found.estimate == 0 else ""
    return replace(found, note=join_notes(found.note, edge)) if edge else found
