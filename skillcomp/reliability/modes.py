"""How an answer failed: the source report's six failure modes as labels of failed behaviours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import (
    estimates,
    groups,
    listed,
    require_columns,
    require_one_grader,
    row,
)
from skillcomp.reliability._common import GRADER_COLUMNS, check_settings, clusters_of, with_known
from skillcomp.reliability._words import own_words
from skillcomp.stats.clusters import wilson_effective

# In the order in which they are asked: the first that fits is the label.
MODES = (
    "verbatim_copying",
    "leading_prompt_capitulation",
    "scope_reduction_softening",
    "near_far_failure",
    "body_only_retrieval",
    "paraphrastic_regurgitation",
)
# What a grader writes of such an answer; read only where the data do not decide.
_WORDS: Mapping[str, re.Pattern[str]] = {
    "verbatim_copying": re.compile(r"\b(?:verbatim|copie[sd]|copying|word for word)\b"),
    "leading_prompt_capitulation": re.compile(
        r"\b(?:accepts?|adopts?|grants?|endorses?|validates?|goes along with|agrees? (?:with|to)|"
        r"takes? (?:over|at face value)|builds? on|complies with)\b.{0,60}?"
        r"\b(?:premise|claim|framing|misconception|assumption|statement|prompt|request)\b"
        r"|\bpremise\b.{0,30}\b(?:accepted|granted|unchallenged|not (?:rejected|contradicted))\b"
    ),
    "scope_reduction_softening": re.compile(
        r"\b(?:partial(?:ly)? (?:compl|answer)\w*|half-answer|as a (?:starting point|placeholder)|"
        r"softens?|softened|waters? down|narrows? (?:the (?:task|request|question|scope)|it down)|"
        r"only (?:floats|hints|gestures|touches|postpones)|"
        r"only (?:part|some|half) of|(?:half|rest) is (?:absent|missing)|hedged with|"
        r"leaves? .{0,30}?\b(?:open|unsettled|undecided|to the user))\b"
    ),
    "body_only_retrieval": re.compile(
        r"\b(?:(?:recites|quotes|lists|states|gives|repeats) (?:only )?the (?:general )?"
        r"(?:rules?|skill|steps|checklist|principles?|definitions?)\b.{0,60}?"
        r"\b(?:without|never|not|but)\b|(?:without|never|not) appl(?:y|ies|ied|ying)\b)"
    ),
    "paraphrastic_regurgitation": re.compile(
        r"\b(?:paraphrases?|rewords?|rewording|restates?|restatement|rephrases?|circular|vacuous)\b"
    ),
}
# In C7, where the prompt asks for something on a false premise, giving it is giving in.
_GIVES_IN = re.compile(
    r"\b(?:allows?|permits?|concedes?|drafts|supplies|reissues?|hands over|"
    r"opens with a (?:note|draft))\b"
)
_NEEDS_SKILL = ("verbatim_copying", "body_only_retrieval", "paraphrastic_regurgitation")
_KEYS = [
    *("attempt_id", "skill", "case_id", "condition", "repeat"),
    *("check_id", "check_kind", *GRADER_COLUMNS),
]
_CASE = ["comprehension_dimension", "transfer", "bloom", "contrast_of"]


def failure_modes(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    shared: pd.DataFrame,
    cases: pd.DataFrame,
    *,
    n: int = 6,
    short: int = 3,
    verbatim: str = "verbatim",
) -> pd.DataFrame:
    """Label each failed behaviour with the way in which the answer failed.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame. Only FAILs are labelled; a failed grader is none.
    attempts : pandas.DataFrame
        An attempts frame: which skill was loaded.
    shared : pandas.DataFrame
        Result of :func:`skillcomp.overlap.score` on these attempts, with the lengths ``n`` and
        ``short``.
    cases : pandas.DataFrame
        A cases frame: comprehension_dimension, transfer, bloom, contrast_of.
    n : int, default 6
        Tokens of a copied run.
    short : int, default 3
        Tokens of the runs by which a close paraphrase is told from coincidence.
    verbatim : str, default "verbatim"
        Negative checks whose id contains this text forbid copying.

    Returns
    -------
    pandas.DataFrame
        One row per failed verdict: attempt_id, skill, case_id, condition, repeat, check_id,
        check_kind, grader, grader_version, round, then mode (one of the six, NA where none fits),
        basis (``data``, ``rationale``; NA without a mode), why (what decided, or the words of the
        rationale that did), and one boolean column for each mode: whether the data say so, NA
        where what it needs is not recorded. Several may hold; ``mode`` is the first, in the order
        below.

    Raises
    ------
    FrameError
        If a frame breaks its contract, a case or an attempt is unknown, or ``shared`` lacks a
        length.

    See Also
    --------
    failure_mode_rates : The modes counted by skill and condition.

    Notes
    -----
    The data decide, in this order:

    - verbatim_copying: a check against copying failed and the answer shares a run of ``n`` tokens
      with the skill it had loaded;
    - leading_prompt_capitulation: in C7, whose prompts state a misconception, the forbidden thing
      is there (negative check); not in the contrast member, whose prompt is right;
    - scope_reduction_softening: in C4 or C9 the forbidden partial compliance is there (negative
      check);
    - near_far_failure: the skill was loaded and the case is far, while the same agent passes more
      than half of the behaviours on the near cases of the dimension in that skill and condition
      (of all dimensions, where this one has no near case);
    - body_only_retrieval: the skill was loaded, its words are in the answer (a run of ``n``
      tokens), and a positive check of a case that asks for more than understanding failed;
    - paraphrastic_regurgitation: the skill was loaded, a positive check failed, no run of ``n``
      tokens is shared, and the share of runs of ``short`` tokens is above that of every answer
      about the skill that did not have it loaded.

    Where none holds, the grader's own words are searched for the mode (English; quotations left
    out; the copying modes only where the skill was loaded). What stays NA failed in another way,
    most often by not knowing. The rules of thumb are this library's reading of the report's list,
    which names the modes without defining them: read the labelled rows before you count them.
    """
    known = _described(verdicts, attempts, shared, cases, n, short)
    failed = known[known["verdict"].eq(0.0)].reset_index(drop=True)
    near = _near_share(failed, known)
    passes_near = near.gt(0.5).astype("boolean").where(near.notna())
    data = _by_data(failed, passes_near, verbatim)
    label: list[str | None] = []
    basis: list[str | None] = []
    why: list[str | None] = []
    said = data.fillna(False).to_numpy(dtype=bool)
    misled = failed["comprehension_dimension"].eq("C7") & failed["contrast_of"].isna()
    for place, (loaded, c7, rationale) in enumerate(
        zip(failed["loaded"], misled, failed["rationale"], strict=True)
    ):
        hit = np.flatnonzero(said[place])
        found = (
            (MODES[hit[0]], "data", None)
            if len(hit)
            else _by_words(rationale, loaded=bool(loaded), misled=bool(c7))
        )
        label.append(found[0])
        basis.append(found[1])
        why.append(_REASONS[found[0]] if found[1] == "data" and found[0] else found[2])
    told = {"mode": label, "basis": basis, "why": why}
    texts = {
        name: pd.Series(values, index=failed.index, dtype="str") for name, values in told.items()
    }
    return pd.concat([failed[_KEYS].assign(**texts), data], axis=1).reset_index(drop=True)


_REASONS = {
    "verbatim_copying": "the answer shares a run of tokens with the loaded skill",
    "leading_prompt_capitulation": "what the misleading prompt asks for is in the answer",
    "scope_reduction_softening": "part of what belongs elsewhere is answered all the same",
    "near_far_failure": "near cases of the same kind pass",
    "body_only_retrieval": "the skill's words are there, what is asked of them is not",
    "paraphrastic_regurgitation": "closer to the skill's wording than answers without it",
}


def _described(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    shared: pd.DataFrame,
    cases: pd.DataFrame,
    n: int,
    short: int,
) -> pd.DataFrame:
    """Return the verdicts with all that the rules ask about."""
    known = with_known(check(verdicts, "verdicts"))
    about = check(cases, "cases").set_index("case_id")
    _known(known["case_id"], about.index, "cases", "case")
    given = check(attempts, "attempts").set_index("attempt_id")
    _known(known["attempt_id"], given.index, "attempts", "attempt")
    loaded = _loaded(given)
    copied, close = _closeness(shared, loaded, n, short)
    columns = {name: known["case_id"].map(about[name]) for name in _CASE}
    columns |= {
        "agent": known["attempt_id"].map(given["agent"]),
        "loaded": known["attempt_id"].map(loaded),
        "copied": known["attempt_id"].map(copied).astype("boolean"),
        "close": known["attempt_id"].map(close).astype("boolean"),
    }
    return known.assign(**columns)


def _known(wanted: pd.Series, there: pd.Index, frame: str, what: str) -> None:
    strange = wanted[~wanted.isin(there)]
    if len(strange):
        raise FrameError(
            f"failure_modes: {what} '{strange.iloc[0]}' of the verdicts is not in the {frame} "
            "frame." + suggest(strange.iloc[0], map(str, there))
        )


def _loaded(attempts: pd.DataFrame) -> pd.Series:
    """Return whether the agent had the skill that it is judged on, by attempt."""
    had = attempts["condition"].isin(["skill", "previous"]) & attempts["loaded_skill"].isna()
    return (had | attempts["loaded_skill"].eq(attempts["skill"])).astype(bool)


def _closeness(
    shared: pd.DataFrame, loaded: pd.Series, n: int, short: int
) -> tuple[pd.Series, pd.Series]:
    """Return which attempts share a long run, and which are closer than any without the skill."""
    require_columns(shared, ["attempt_id", "skill", "n", "any_shared", "share"], "failure_modes")
    lengths = sorted(set(shared["n"]))
    for length in (n, short):
        if length not in lengths:
            raise FrameError(
                f"failure_modes: shared has no n-grams of length {length}; there: {lengths}."
            )
    long_ = shared[shared["n"].eq(n)].set_index("attempt_id")["any_shared"].astype("boolean")
    brief = shared[shared["n"].eq(short)]
    without = brief[~brief["attempt_id"].map(loaded).fillna(True).astype(bool)]
    most = brief["skill"].map(without.groupby("skill")["share"].max())
    # without answers that lacked the skill there is nothing to call coincidence
    close = brief["share"].gt(most).astype("boolean").where(most.notna() & brief["share"].notna())
    return long_, close.set_axis(pd.Index(brief["attempt_id"]))


_SIDE = ["agent", "skill", "condition", *GRADER_COLUMNS]


def _near_share(failed: pd.DataFrame, known: pd.DataFrame) -> pd.Series:
    """Return the share of behaviours that the same agent passes on near cases of the same kind."""
    near = known[known["transfer"].eq("near") & known["verdict"].notna()]
    shares = []
    for names in ([*_SIDE, "comprehension_dimension"], _SIDE):
        means = near.groupby(names, dropna=False, observed=True, as_index=False)["verdict"].mean()
        shares.append(failed[names].merge(means, on=names, how="left")["verdict"])
    return shares[0].fillna(shares[1])


def _by_data(failed: pd.DataFrame, passes_near: pd.Series, verbatim: str) -> pd.DataFrame:
    negative = failed["check_kind"].eq("negative")
    against_copying = negative & failed["check_id"].str.contains(verbatim, regex=False)
    dimension, loaded = failed["comprehension_dimension"], failed["loaded"].astype(bool)
    other = negative & ~against_copying
    asks_more = failed["bloom"].notna() & failed["bloom"].ne("understand")
    rules = {
        "verbatim_copying": against_copying & loaded & failed["copied"],
        "leading_prompt_capitulation": other & dimension.eq("C7") & failed["contrast_of"].isna(),
        "scope_reduction_softening": other & dimension.isin(["C4", "C9"]),
        "near_far_failure": failed["transfer"].eq("far") & loaded & passes_near,
        "body_only_retrieval": ~negative & asks_more & loaded & failed["copied"],
        "paraphrastic_regurgitation": ~negative & loaded & ~failed["copied"] & failed["close"],
    }
    return pd.DataFrame({name: rules[name].astype("boolean") for name in MODES})


def _by_words(
    rationale: Any, *, loaded: bool, misled: bool
) -> tuple[str | None, str | None, str | None]:
    if not isinstance(rationale, str):
        return None, None, None
    own = own_words(rationale)
    for mode, pattern in _WORDS.items():
        if mode in _NEEDS_SKILL and not loaded:
            continue
        hit = pattern.search(own)
        if hit is None and misled and mode == "leading_prompt_capitulation":
            hit = _GIVES_IN.search(own)
        if hit:
            return mode, "rationale", hit.group(0)
    return None, None, None


def failure_mode_rates(
    modes: pd.DataFrame,
    *,
    by: Sequence[str] = ("grader", "skill", "condition"),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Count the failure modes, by skill and condition unless asked otherwise.

    Parameters
    ----------
    modes : pandas.DataFrame
        Result of :func:`failure_modes`.
    by : sequence of str, default ("grader", "skill", "condition")
        Columns that keep rows apart.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Seven rows per ``by``, in the estimates shape: measure is a mode or ``none_of_these``,
        estimate its share of the failed behaviours (n), Wilson's interval on the effective number
        with cases as clusters. Extra: count, n_by_rationale (labels that rest on the grader's
        words).

    Raises
    ------
    FrameError
        If columns are missing or several graders, versions or rounds would be pooled.
    """
    check_settings("reliability.failure_mode_rates", ci_level)
    names = listed(by)
    require_columns(modes, [*names, *_KEYS, "mode", "basis"], "reliability.failure_mode_rates")
    require_one_grader(modes, names, "reliability.failure_mode_rates")
    given = modes.assign(cluster=clusters_of(modes["case_id"], cases))
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        cluster = pd.factorize(part["cluster"])[0]
        for mode in (*MODES, None):
            hit = part["mode"].isna() if mode is None else part["mode"].eq(mode)
            found = wilson_effective(hit.to_numpy(dtype=float), cluster, ci_level=ci_level)
            told = int((hit & part["basis"].eq("rationale")).sum())
            about = {**values, "count": int(hit.sum()), "n_by_rationale": told}
            rows.append(row(mode or "none_of_these", found, **about))
    return estimates(rows, by=names, extra=["count", "n_by_rationale"])
