"""How an answer failed: the source report's six failure modes as labels of failed behaviours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, suggest
from skillcomp.frames.contracts import CASE, check
from skillcomp.frames.estimates import (
    GRADER,
    check_settings,
    estimates,
    groups,
    listed,
    refuse_pooling,
    row,
)
from skillcomp.frames.reference_labels import known_verdict
from skillcomp.reliability.integrity import KEYS, own_words, shared_of, verdicts_with
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.results import Interval, undefined

# Asked in this order: the first that fits is the label. Each with what it is decided by: where the
# data lack that, the mode stays unknown.
_NEEDS: Mapping[str, str] = {
    "verbatim_copying": "check_kind, and the overlap of the answer",
    "leading_prompt_capitulation": "check_kind and comprehension_dimension",
    "scope_reduction_softening": "check_kind and comprehension_dimension",
    "near_far_failure": "transfer, and near cases beside the far ones",
    "body_only_retrieval": "check_kind and bloom, and the overlap of the answer",
    "paraphrastic_regurgitation": "check_kind, and answers without the skill to compare with",
}
MODES = tuple(_NEEDS)
_NEEDS_SKILL = {*MODES} - {"leading_prompt_capitulation", "scope_reduction_softening"}
_BOUNDARY = ("C4", "C9")
_FACTS = ["comprehension_dimension", "transfer", "bloom", "contrast_of"]

_PREMISE = (
    r"(?:premise|claim|framing|misconception|myth|fallacy|assumption|presupposition|assertion|"
    r"belief|prompt|request|suggestion|proposal)"
)
_TASK = r"(?:does|performs|carries out|completes|answers|works|solves|writes|drafts|computes)"
_ADVERBS = (
    r"(?:(?:also|still|even|then|simply|just|instead|thus|thereby|effectively|wrongly|only) )*"
)
# where the answer is what acts: a clause starts, or names it
_ANSWER = (
    r"(?:^|[.;:,]\s*|\b(?:and|but|it|(?:the )?(?:answer|response|reply|agent|model|assistant)) )"
    + _ADVERBS
)
_NOT_DONE = r"(?! (?:not|never|no|nothing|none)\b|n't)"
# between the task and "itself": nothing that "itself" could belong to instead of the answer
_OBJECT = (
    r"(?:(?!\b(?:about|at|by|for|from|how|if|in|of|on|that|to|under|what|when|where|whether|"
    r"which|who|why|with)\b)[^.;:,]){0,40}?"
)
_TEXT = r"(?:skill|rules?|steps|checklist|principles?|definitions?|procedure|criteria|text|body)"
# What a grader writes of an answer that failed in one of the report's modes, in general English.
_MODE_WORDS: Mapping[str, re.Pattern[str]] = {
    "verbatim_copying": re.compile(
        r"\b(?:verbatim|copie[sd]|copying|copy of|word[- ]for[- ]word|lifted from)\b"
    ),
    "leading_prompt_capitulation": re.compile(
        r"(?<!\bwho )\b(?:accepts?|adopts?|grants?|endorses?|affirms?|confirms?|validates?|"
        r"echoe?s|follows?|goes along with|agrees (?:with|to)|takes? at face value|builds? on|"
        rf"complies with|defers? to|yields? to|gives? in to)\b.{{0,40}}?\b{_PREMISE}\b"
        r"|\b(?:capitulates?|concedes?|goes along|gives? in)\b"
        rf"|{_ANSWER}(?P<told>(?:allows|permits|lets)\b){_NOT_DONE}(?![^.;]*\bonly\b)"
        rf"|\b{_PREMISE}\b(?:(?!\b(?:not|never)\b).){{0,30}}?\b(?:accepted|granted|unchallenged|uncorrected|"
        r"left standing)\b"
        rf"|\b{_PREMISE}\b.{{0,20}}?\b(?:not|never) (?:rejected|contradicted|corrected|challenged)"
        r"|\b(?:not|never|without|fails to|n't) (?:reject|contradict|correct|challeng|question)"
        rf"\w*\b.{{0,40}}?\b{_PREMISE}\b"
    ),
    "scope_reduction_softening": re.compile(
        r"\b(?:partial(?:ly)? (?:compl|answer)\w*|half[- ]answers?|softens?|softened|"
        r"waters? down|watered down|as a (?:starting point|placeholder|rough guide)|"
        r"(?:narrows?|reduces?|shrinks?) (?:the )?(?:task|request|question|scope)|"
        r"before (?:refusing|declining|handing|referring|routing|deferring)|"
        rf"{_TASK}\b{_NOT_DONE}.{{0,40}}?\b(?:anyway|all the same|regardless|nonetheless))\b"
        rf"|{_ANSWER}(?P<told>{_TASK}\b{_NOT_DONE}{_OBJECT} itself\b)"
    ),
    "body_only_retrieval": re.compile(
        rf"\b(?:recites?|quotes?|lists?|repeats?|restates?)\b.{{0,30}}?\b{_TEXT}\b.{{0,40}}?"
        r"\b(?:without|never|not|but does not|rather than|instead of)\b.{0,20}?"
        r"\b(?:appl|us(?:e|ing)\b|work|relat|connect|tie|tying)"
        r"|\b(?:without|never|not|fails to)(?: actually)? appl(?:y|ies|ying) "
        r"(?:it|them|the|any|this|that|these|those|either|one|its)\b"
        r"|\b(?:is|are) (?:not|never) applied\b"
    ),
    "paraphrastic_regurgitation": re.compile(
        r"\b(?:merely|only|just|simply|largely) (?:paraphras|reword|restat|rephras|repeat)\w*"
        rf"|\b(?:paraphrases|rewords|restates|rephrases)\b.{{0,30}}?\b(?:{_TEXT}|question|term)\b"
        r"|\b(?:circular|vacuous|tautolog\w*)\b"
    ),
}
# What is denied, or said to be left out, before a phrase in its own clause.
_DENIED = re.compile(
    r"(?:\b(?:not|never|no|nor|neither|without|cannot|nothing|instead of|rather than|"
    r"fail(?:s|ed|ing)? to|miss(?:es|ed|ing)?|overlook(?:s|ed|ing)?|omit(?:s|ted|ting)?|"
    r"(?:leav(?:es?|ing)|left) out|skip(?:s|ped|ping)?|ignor(?:es?|ed|ing)|forg[eo]t(?:s|ting)?|"
    r"lack(?:s|ed|ing)?|neglect(?:s|ed|ing)?)"
    r"|n't)(?: (?!(?:and|but|because|since|so|while|whereas|yet|then|thus)\b)[\w'-]+)* ?$"
)
# The same after it.
_OF_NOTHING = re.compile(
    r" (?:no|nothing|none|neither|not)\b"
    r"|[^.;:,]*\b(?:is|are|was|were) (?:missing|absent|omitted|overlooked|skipped|left out)\b"
)


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
        where what it needs is not recorded (comprehension_dimension, transfer, bloom, check_kind,
        a row of ``shared``). Several may hold; ``mode`` is the first, in the order below.

    Raises
    ------
    FrameError
        If a frame breaks its contract, holds altered copies beside the answers, a case or an
        attempt is unknown, or ``shared`` lacks a length.

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

    Where none holds, the grader's own words, without quotations, are searched for the mode:
    English phrases, neither denied nor said to be left out, and each mode only where its definition
    allows it (capitulation in C7 except the contrast member, softening in C4 and C9, the three
    copying modes where the skill was loaded, and no copying where the overlap was counted and is
    none). What stays NA failed in another way, most often by not knowing. The rules of thumb are
    this library's reading of the report's list, which names the modes without defining them, and
    a label by words is a guess from general English: read the labelled rows before counting them.
    """
    known = _described(verdicts, attempts, shared, cases, n, short)
    failed = known[known["verdict"].eq(0.0)].reset_index(drop=True)
    near = _near_share(failed, known)
    passes_near = near.gt(0.5).astype("boolean").where(near.notna())
    data = _by_data(failed, passes_near, verbatim)
    told: list[tuple[str | None, str | None, str | None]] = []
    for said, words in zip(data.fillna(False).to_numpy(dtype=bool), _by_words(failed), strict=True):
        if said.any():
            first = MODES[int(np.argmax(said))]
            told.append((first, "data", _REASONS[first]))
        else:
            told.append((words[0], "rationale", words[1]) if words else (None, None, None))
    texts = pd.DataFrame(told, index=failed.index, columns=["mode", "basis", "why"], dtype="str")
    return pd.concat([failed[KEYS], texts, data], axis=1).reset_index(drop=True)


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
    given_verdicts = check(verdicts, "verdicts")
    known = given_verdicts.assign(verdict=known_verdict(given_verdicts))
    refuse_pooling(known, [], "failure_modes", graders=False)
    about = check(cases, "cases").set_index(CASE)
    place = pd.MultiIndex.from_frame(known[CASE])
    ids = about.index.get_level_values("case_id")
    _require_known(known["case_id"], place.isin(about.index), ids, "cases", "case")
    given = check(attempts, "attempts").set_index("attempt_id")
    answered = known["attempt_id"].isin(given.index).to_numpy()
    _require_known(known["attempt_id"], answered, given.index, "attempts", "attempt")
    loaded = _loaded(given)
    copied, close = _closeness(shared, loaded, n, short)
    columns = {name: about[name].reindex(place).array for name in _FACTS}
    columns |= {
        "agent": known["attempt_id"].map(given["agent"]),
        "loaded": known["attempt_id"].map(loaded),
        "copied": known["attempt_id"].map(copied).astype("boolean"),
        "close": known["attempt_id"].map(close).astype("boolean"),
    }
    return known.assign(**columns)


def _require_known(
    wanted: pd.Series, found: Any, there: Iterable[str], frame: str, what: str
) -> None:
    strange = wanted[~found]
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
    long_ = shared_of(shared, n, ["skill", "any_shared", "share"], "failure_modes")["any_shared"]
    brief = shared_of(shared, short, ["skill", "share"], "failure_modes").reset_index()
    without = brief[~brief["attempt_id"].map(loaded).fillna(True).astype(bool)]
    most = brief["skill"].map(without.groupby("skill")["share"].max())
    # without answers that lacked the skill there is nothing to call coincidence
    close = brief["share"].gt(most).astype("boolean").where(most.notna() & brief["share"].notna())
    return long_, close.set_axis(pd.Index(brief["attempt_id"]))


_SIDE = ["agent", "skill", "condition", *GRADER]


def _near_share(failed: pd.DataFrame, known: pd.DataFrame) -> pd.Series:
    """Return the share of behaviours that the same agent passes on near cases of the same kind."""
    near = known[known["transfer"].eq("near") & known["verdict"].notna()]
    shares = []
    for names in ([*_SIDE, "comprehension_dimension"], _SIDE):
        means = near.groupby(names, dropna=False, observed=True, as_index=False)["verdict"].mean()
        shares.append(failed[names].merge(means, on=names, how="left")["verdict"])
    return shares[0].fillna(shares[1])


def _by_data(failed: pd.DataFrame, passes_near: pd.Series, verbatim: str) -> pd.DataFrame:
    """Return which mode each failure is by the data, NA where what it needs is not recorded."""
    kind, dimension = failed["check_kind"], failed["comprehension_dimension"]
    negative, loaded = kind.eq("negative"), failed["loaded"].astype(bool)
    against_copying = failed["check_id"].str.contains(verbatim, regex=False)
    other = negative & ~against_copying
    copied, far = failed["copied"], failed["transfer"].eq("far")
    retrieved = ~negative & _asks_more(failed) & loaded & copied
    reworded = ~negative & loaded & ~copied & failed["close"]
    of_dimension = ["check_kind", "comprehension_dimension"]
    rules = {
        "verbatim_copying": (negative & against_copying & loaded & copied, ["check_kind"]),
        "leading_prompt_capitulation": (other & _states_misconception(failed), of_dimension),
        "scope_reduction_softening": (other & dimension.isin(_BOUNDARY), of_dimension),
        "near_far_failure": (far & loaded & passes_near, ["transfer"]),
        "body_only_retrieval": (retrieved, ["check_kind", "bloom"]),
        "paraphrastic_regurgitation": (reworded, ["check_kind"]),
    }
    told = {}
    for mode, (found, needed) in rules.items():
        recorded = failed[needed].notna().all(axis=1)
        # an answer without the skill cannot have failed in a way that needs it
        known = recorded | ~loaded if mode in _NEEDS_SKILL else recorded
        told[mode] = found.astype("boolean").where(known)
    return pd.DataFrame({mode: told[mode] for mode in MODES})


def _states_misconception(failed: pd.DataFrame) -> pd.Series:
    """Return which prompts state a misconception: those of C7, not their contrast members."""
    return failed["comprehension_dimension"].eq("C7") & failed["contrast_of"].isna()


def _asks_more(failed: pd.DataFrame) -> pd.Series:
    return failed["bloom"].notna() & failed["bloom"].ne("understand")


def _by_words(failed: pd.DataFrame) -> list[tuple[str, str] | None]:
    """Return what the rationale says of each failure, among the modes that it can be."""
    loaded, positive = failed["loaded"].astype(bool), failed["check_kind"].eq("positive")
    may = {
        # a shared run is counted, not judged: no grader's word stands against the count
        "verbatim_copying": loaded & failed["copied"].fillna(True).astype(bool),
        "leading_prompt_capitulation": _states_misconception(failed),
        "scope_reduction_softening": failed["comprehension_dimension"].isin(_BOUNDARY),
        "body_only_retrieval": loaded & positive & _asks_more(failed),
        "paraphrastic_regurgitation": loaded & positive,
    }
    names, table = list(may), np.column_stack([may[mode].to_numpy(dtype=bool) for mode in may])
    return [
        failure_told(rationale, [names[k] for k in np.flatnonzero(row)])
        for rationale, row in zip(failed["rationale"], table, strict=True)
    ]


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
        estimate its share of the failed behaviours (n) with the interval of
        :func:`skillcomp.stats.bounded.bounded_mean`, cases as clusters. Extra: count,
        n_by_rationale (labels that rest on the grader's
        words), n_undecided (failures that may be of this mode: the data could not tell it, and
        they have no label, one of a mode that comes later, or one by words; for
        ``none_of_these``, failures without a label for which some mode could not be told). A mode
        that could be told for no failure is NaN with a note. Where it could not be told for some,
        the share is a lower bound (for ``none_of_these`` an upper one); where a mode that goes
        first could not be told for some of its labels, an upper bound; the note says so.

    Raises
    ------
    FrameError
        If columns are missing or several graders, versions or rounds would be pooled.
    """
    names, what = listed(by), "reliability.failure_mode_rates"
    check_settings(what, ci_level)
    made = dict.fromkeys(["mode", "basis"], "str") | dict.fromkeys(MODES, "boolean")
    given = verdicts_with(modes, "modes", [*names, *KEYS], made, by=names, cases=cases, what=what)
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        cluster = part["cluster"].to_numpy()
        for mode in (*MODES, None):
            found = _share(part, mode, cluster, ci_level)
            rows.append(row(mode or "none_of_these", found[0], **values, **found[1]))
    return estimates(rows, by=names, extra=["count", "n_by_rationale", "n_undecided"])


def _share(
    part: pd.DataFrame, mode: str | None, cluster: Any, ci_level: float
) -> tuple[Interval, dict[str, int]]:
    """Return the share of a mode among failures, or of none of the six, with its counts."""
    free = part["mode"].isna()
    hit = free if mode is None else part["mode"].eq(mode)
    may_gain, may_lose = _may_change(part, mode, hit)
    undecided = int(may_gain.sum())
    by_words = int((hit & part["basis"].eq("rationale")).sum())
    counts = {"count": int(hit.sum()), "n_by_rationale": by_words, "n_undecided": undecided}
    if mode is not None and part[mode].isna().all() and not hit.any():
        note = f"cannot be told for any failure: it needs {_NEEDS[mode]}"
        return undefined("", note, ci_level=ci_level, n=0.0), counts
    found = bounded_mean(hit.to_numpy(), cluster, quantity=RATES, ci_level=ci_level)
    remarks = filter(None, [found.note, *_bounds(part, mode, undecided, may_lose)])
    return replace(found, note="; ".join(remarks)), counts


def _may_change(
    part: pd.DataFrame, mode: str | None, hit: pd.Series
) -> tuple[pd.Series, pd.Series]:
    """Return which failures might be this mode after all, and which labels of it another mode."""
    unknown = part[list(MODES)].isna()
    if mode is None:
        return hit & unknown.any(axis=1), hit & False
    earlier = list(MODES[: MODES.index(mode)])
    by_words = part["basis"].eq("rationale")
    # what the data tell goes before every label by words
    sure = part["mode"].isin(earlier) & ~by_words
    first = unknown[earlier].any(axis=1)
    other = unknown.drop(columns=mode).any(axis=1)
    return ~hit & ~sure & unknown[mode], hit & first.mask(by_words, other)


def _bounds(part: pd.DataFrame, mode: str | None, undecided: int, may_lose: pd.Series) -> list[str]:
    """Say for how many failures a mode cannot be told, and which bound the share then is."""
    lost, remarks = int(may_lose.sum()), []
    both = "the share may be higher or lower" if undecided and lost else ""
    if undecided:
        what = "a mode cannot be told" if mode is None else f"it cannot be told ({_NEEDS[mode]})"
        bound = both or ("at most this share" if mode is None else "at least this share")
        remarks.append(f"for {undecided} of {len(part)} failures {what}: {bound}")
    if lost:
        by_words = part.loc[may_lose, "basis"].eq("rationale").any()
        earlier = MODES if mode is None or by_words else MODES[: MODES.index(mode)]
        gaps = part.loc[may_lose, [name for name in earlier if name != mode]].isna().any()
        what = f"a mode that goes first cannot be told ({', '.join(gaps.index[gaps])})"
        remarks.append(f"for {lost} of its labels {what}: {both or 'at most this share'}")
    return remarks


def failure_told(rationale: object, modes: Sequence[str]) -> tuple[str, str] | None:
    """Return the first of ``modes`` that a rationale tells in the grader's own words."""
    if not isinstance(rationale, str):
        return None
    own = own_words(rationale)
    for mode in modes:
        for hit in _MODE_WORDS[mode].finditer(own) if mode in _MODE_WORDS else ():
            # an answer named before the phrase belongs to neither the phrase nor its denial
            start = max(hit.start(), hit.start("told") if "told" in hit.re.groupindex else 0)
            if not (_DENIED.search(own[:start]) or _OF_NOTHING.match(own, hit.end())):
                return mode, own[start : hit.end()]
    return None
