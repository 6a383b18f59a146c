"""The six failure modes of the comprehension report, as labels of failed behaviours."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    estimates,
    groups,
    listed,
    require_rows,
    row,
)
from skillcomp.frames.reference_labels import clustered_verdicts
from skillcomp.reliability.graded_items import verdicts_with
from skillcomp.reliability.integrity import KEYS, VERBATIM, shared_of
from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.results import Fields, Interval, undefined

# The modes in order of precedence, each with the data that it needs. Without these data, it is
# unknown whether the mode applies.
_NEEDS: Mapping[str, str] = {
    "verbatim_copying": "check_kind, and the overlap of the answer",
    "leading_prompt_capitulation": "check_kind and comprehension_dimension",
    "scope_reduction_softening": "check_kind and comprehension_dimension",
    "near_far_failure": "transfer, and near cases beside the far ones",
    "body_only_retrieval": "check_kind and bloom, and the overlap of the answer",
    "paraphrastic_regurgitation": "check_kind, and answers without the skill to compare with",
}
MODES = tuple(_NEEDS)
_REASONS = {
    "verbatim_copying": "the answer shares a run of tokens with the loaded skill",
    "leading_prompt_capitulation": "what the misleading prompt asks for is in the answer",
    "scope_reduction_softening": "part of what belongs elsewhere is answered all the same",
    "near_far_failure": "near cases of the same kind pass",
    "body_only_retrieval": "the skill's words are there, what is asked of them is not",
    "paraphrastic_regurgitation": "closer to the skill's wording than answers without it",
}
_NEEDS_SKILL = {*MODES} - {"leading_prompt_capitulation", "scope_reduction_softening"}
_BOUNDARY = ("C4", "C9")
_SHORT = 3  # N-grams of this length distinguish a close paraphrase from coincidence.
_FACTS = ["comprehension_dimension", "transfer", "bloom", "contrast_of"]


def failure_modes(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    shared: pd.DataFrame,
    cases: pd.DataFrame,
    *,
    ngram: int = 6,
) -> pd.DataFrame:
    """Label each failed behaviour with the way in which the answer failed.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame. Only FAILs are labelled. A missing verdict is not a FAIL.
    attempts : pandas.DataFrame
        An attempts frame, which shows the skill that was loaded.
    shared : pandas.DataFrame
        Result of :func:`skillcomp.overlap.score` on these attempts, with the lengths ``ngram``
        and 3.
    cases : pandas.DataFrame
        A cases frame with comprehension_dimension, transfer, bloom and contrast_of.
    ngram : int, default 6
        Length in tokens of the n-grams that count as copying.

    Returns
    -------
    pandas.DataFrame
        One row per failed verdict, with attempt_id, skill, case_id, condition, repeat, check_id,
        check_kind, grader, grader_version and round. ``mode`` is the first of the six modes below
        that applies, NA if none does. ``why`` gives the reason in words. Every mode has a boolean
        column that states whether it applies; several may apply. The column is NA where the mode
        needs data that are missing: comprehension_dimension, transfer, bloom, check_kind or a row
        of ``shared``.

    Raises
    ------
    FrameError
        If a frame breaks its contract or mixes perturbed copies with original answers, a case or an
        attempt is unknown, or ``shared`` lacks a length.

    See Also
    --------
    failure_mode_rates : The share of each mode, such as by skill and condition.

    Notes
    -----
    The modes, in order of precedence:

    - verbatim_copying: a check against copying failed and the answer shares an n-gram of ``ngram``
      tokens with the loaded skill;
    - leading_prompt_capitulation: a negative check failed in a case of C7, where prompts state a
      misconception; in a contrast pair, the case with the correct prompt does not count;
    - scope_reduction_softening: a negative check failed in a case of C4 or C9, where such checks
      forbid partial compliance;
    - near_far_failure: the skill was loaded and the case is far, but the same agent passes more
      than half of the behaviours on near cases of the same dimension, skill and condition; if the
      dimension has no near case, near cases of all dimensions count;
    - body_only_retrieval: the skill was loaded, the answer shares an n-gram of ``ngram`` tokens
      with it, and a positive check failed in a case that asks for more than understanding (its
      ``bloom`` is not ``understand``);
    - paraphrastic_regurgitation: the skill was loaded, a positive check failed, the
      answer shares no n-gram of ``ngram`` tokens with the skill, but shares a larger part of its
      n-grams of three tokens than every answer about the skill that was given without it.

    Behaviours without a mode failed for another reason, most often a lack of knowledge. The
    comprehension report names the modes but does not define them; the rules are this library's
    interpretation. Read the labelled rows before you count them.
    """
    facts = _verdicts_with_facts(verdicts, attempts, shared, cases, ngram)
    failed = facts[facts["verdict"].eq(0.0)].reset_index(drop=True)
    applies = _modes_that_apply(failed, _passes_near_cases(failed, facts))
    modes = pd.Series(pd.NA, index=failed.index, dtype="str", name="mode")
    for mode in reversed(MODES):
        modes = modes.mask(applies[mode].fillna(False).astype(bool), mode)
    labels = pd.DataFrame({"mode": modes, "why": modes.map(_REASONS).astype("str")})
    return pd.concat([failed[KEYS], labels, applies], axis=1)


def _verdicts_with_facts(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    shared: pd.DataFrame,
    cases: pd.DataFrame,
    ngram: int,
) -> pd.DataFrame:
    """Add to each verdict the facts about its case and answer that decide its failure mode."""
    verdicts, _ = clustered_verdicts(
        verdicts, (), "failure_modes", cases=None, agents=False, graders=False
    )
    cases = check(cases, "cases")
    facts, case = cases.set_index(CASE), pd.MultiIndex.from_frame(verdicts[CASE])
    attempts = check(attempts, "attempts")
    require_rows(verdicts, cases, CASE, "failure_modes", "cases")
    require_rows(verdicts, attempts, ["attempt_id"], "failure_modes", "attempts")
    attempts = attempts.set_index("attempt_id")
    own = attempts["condition"].isin(["skill", "previous"]) & attempts["loaded_skill"].isna()
    loaded = (own | attempts["loaded_skill"].eq(attempts["skill"])).astype(bool)
    columns = ["skill", "any_shared", "share"]
    copied = shared_of(shared, ngram, columns, "failure_modes")["any_shared"]
    # Answers without the skill show how much is shared by coincidence: an answer is close to the
    # skill if it shares a larger part of its short n-grams than all of them. Without such answers,
    # this is unknown.
    brief = shared_of(shared, _SHORT, ["skill", "share"], "failure_modes")
    without = brief[~brief.index.to_series().map(loaded).fillna(True).astype(bool)]
    largest = brief["skill"].map(without.groupby("skill")["share"].max())
    recorded = largest.notna() & brief["share"].notna()
    close = brief["share"].gt(largest).astype("boolean").where(recorded)
    added = {name: facts[name].reindex(case).array for name in _FACTS}
    added |= {
        "agent": verdicts["attempt_id"].map(attempts["agent"]),
        "loaded": verdicts["attempt_id"].map(loaded),
        "copied": verdicts["attempt_id"].map(copied).astype("boolean"),
        "close": verdicts["attempt_id"].map(close).astype("boolean"),
    }
    return verdicts.assign(**added)


def _passes_near_cases(failed: pd.DataFrame, facts: pd.DataFrame) -> pd.Series:
    """Return whether the agent passes more than half of the behaviours in near cases.

    These are the near cases of the same skill, condition and dimension. If the dimension has no
    near case, near cases of all dimensions count; NA if there are none of these, either.
    """
    near = facts[facts["transfer"].eq("near") & facts["verdict"].notna()]
    same = ["agent", "skill", "condition", *GRADER]
    shares = []
    for names in ([*same, "comprehension_dimension"], same):
        means = near.groupby(names, dropna=False, observed=True, as_index=False)["verdict"].mean()
        shares.append(failed[names].merge(means, on=names, how="left")["verdict"])
    share = shares[0].fillna(shares[1])
    return share.gt(0.5).astype("boolean").where(share.notna())


def _modes_that_apply(failed: pd.DataFrame, passes_near: pd.Series) -> pd.DataFrame:
    """Return whether each mode applies to each failure; NA if data that the mode needs are missing.

    Columns are modes, rows are failures.
    """
    kind, dimension = failed["check_kind"], failed["comprehension_dimension"]
    negative, loaded = kind.eq("negative"), failed["loaded"].astype(bool)
    against_copying = failed["check_id"].str.contains(VERBATIM, regex=False)
    forbidden = negative & ~against_copying
    states_misconception = dimension.eq("C7") & failed["contrast_of"].isna()
    asks_more = failed["bloom"].notna() & failed["bloom"].ne("understand")
    copied, far = failed["copied"], failed["transfer"].eq("far")
    retrieved = ~negative & asks_more & loaded & copied
    reworded = ~negative & loaded & ~copied & failed["close"]
    of_dimension = ["check_kind", "comprehension_dimension"]
    rules = {
        "verbatim_copying": (negative & against_copying & loaded & copied, ["check_kind"]),
        "leading_prompt_capitulation": (forbidden & states_misconception, of_dimension),
        "scope_reduction_softening": (forbidden & dimension.isin(_BOUNDARY), of_dimension),
        "near_far_failure": (far & loaded & passes_near, ["transfer"]),
        "body_only_retrieval": (retrieved, ["check_kind", "bloom"]),
        "paraphrastic_regurgitation": (reworded, ["check_kind"]),
    }
    columns = {}
    for mode in MODES:
        applies, needed = rules[mode]
        recorded = failed[needed].notna().all(axis=1)
        # A mode that needs a loaded skill does not apply to an answer given without the skill. This
        # is certain even if other data are missing.
        decided = recorded | ~loaded if mode in _NEEDS_SKILL else recorded
        columns[mode] = applies.astype("boolean").where(decided)
    return pd.DataFrame(columns)


def failure_mode_rates(
    modes: pd.DataFrame,
    *,
    by: By = ("grader", "skill", "condition"),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the share of each failure mode among the failed behaviours.

    Parameters
    ----------
    modes : pandas.DataFrame
        Result of :func:`failure_modes`.
    by : str or sequence of str, default ("grader", "skill", "condition")
        Columns to group by.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Seven rows per ``by``, with the estimates columns. ``measure`` is a mode or
        ``none_of_these``. ``estimate`` is its share of the failed behaviours, with the interval of
        :func:`skillcomp.stats.bounded.bounded_mean` and cases as clusters. ``n`` counts the failed
        behaviours, ``count`` those with this mode. ``n_undecided`` counts the failures that could
        get this mode if the missing data were known. For ``none_of_these``, it counts the failures
        that could lose this label.

        If a mode is unknown for every failure, its share is NaN with a note. The note also states
        if missing data make the share a lower bound (some failures could get this mode) or an upper
        bound (some failures could get an earlier mode instead). The share of ``none_of_these`` is
        an upper bound if any mode is unknown for some of its failures.

    Raises
    ------
    FrameError
        If columns are missing, or several graders, versions, rounds or agents would be pooled.
    """
    names, what = listed(by), "reliability.failure_mode_rates"
    check_settings(what, ci_level)
    made = {"mode": "str"} | dict.fromkeys(MODES, "boolean")
    labels = verdicts_with(modes, "modes", [*names, *KEYS], made, by=names, cases=cases, what=what)
    rows = []
    for values, part in groups(labels, names):
        for mode in (*MODES, None):
            interval, counts = _mode_share(part, mode, ci_level)
            rows.append(row(mode or "none_of_these", interval, unit="rate", **values, **counts))
    return estimates(rows, by=names, extra=["count", "n_undecided"])


def _mode_share(part: pd.DataFrame, mode: str | None, ci_level: float) -> tuple[Interval, Fields]:
    """Return the share of failures with ``mode`` (None: without a mode), and two counts.

    ``count`` counts these failures. ``n_undecided`` is as in :func:`failure_mode_rates`.
    """
    hit = part["mode"].isna() if mode is None else part["mode"].eq(mode)
    # the failures that might gain the mode if data were complete, and those that might lose it
    unknown = part[list(MODES)].isna()
    may_gain, may_lose = hit & unknown.any(axis=1), hit & False
    if mode is not None:
        earlier = list(MODES[: MODES.index(mode)])
        may_gain = ~hit & ~part["mode"].isin(earlier) & unknown[mode]
        may_lose = hit & unknown[earlier].any(axis=1)
    counts = {"count": hit.sum(), "n_undecided": may_gain.sum()}
    if mode is not None and part[mode].isna().all() and not hit.any():
        note = f"unknown for every failure: it needs {_NEEDS[mode]}"
        return undefined("", note, ci_level, 0.0), counts
    share = bounded_mean(hit, part["cluster"], ci_level=ci_level)
    undecided, lost, notes = counts["n_undecided"], may_lose.sum(), []
    both = "the share may be higher or lower" if undecided and lost else ""
    if undecided:
        unknown_mode = "a mode is unknown" if mode is None else f"it is unknown ({_NEEDS[mode]})"
        bound = both or ("at most this share" if mode is None else "at least this share")
        notes.append(f"for {undecided} of {len(part)} failures {unknown_mode}: {bound}")
    if mode is not None and lost:
        gaps = unknown.loc[may_lose, earlier].any()
        higher = f"a mode of higher rank is unknown ({', '.join(gaps.index[gaps])})"
        notes.append(f"for {lost} of its labels {higher}: {both or 'at most this share'}")
    return share.with_note(*notes), counts
