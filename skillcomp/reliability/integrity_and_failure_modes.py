"""Verdicts that break mechanical rules, and the six failure modes of the comprehension report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    By,
    check_settings,
    estimates,
    groups,
    is_among,
    listed,
    require_rows,
    row,
)
from skillcomp.frames.reference_labels import clustered_verdicts, usable
from skillcomp.grading_rules import (
    HEDGES_ON_FAIL,
    HEDGES_ON_PASS,
    contradicts_verdict,
    hedges,
    is_valid_quote,
    normalise_quote,
    undecided,
)
from skillcomp.overlap.score_spans_and_positives import (
    checked_columns,
    common_tokenizer,
    require_one_row_per_attempt,
)
from skillcomp.reliability.grader_agreement_and_consistency import verdicts_with
from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.results import Fields, Interval, undefined

# for each rule, the units that are counted in the denominator of its rate
RULES: Mapping[str, str] = {
    "count_differs": "attempts",
    "ids_differ": "attempts",
    "quote_empty": "verdicts",
    "quote_not_found": "quotes",
    "quote_short": "quotes that show a behaviour",
    "hedged_fail": "FAILs with a rationale",
    "softened_pass": "PASSes with a rationale",
    "overlap_contradicted": "verdicts on verbatim checks",
    "dimension_inconsistent": "attempts",
    "undecided_fail": "FAILs with a rationale",
    "rationale_contradicted": "verdicts with a rationale",
}
VERBATIM = "verbatim"  # a negative check with this text in its id forbids copying
_NO_USE = "this rule does not apply here, or what it needs was not recorded"
_WHY_NOT = {
    "dimension_inconsistent": "no dimension_passed was recorded: the dimension is then what the "
    "behaviours say, so the two cannot differ",
    "overlap_contradicted": f"{_NO_USE}: it needs shared= and a check against copying",
}
_BY_ATTEMPT = [name for name, counted in RULES.items() if counted == "attempts"]
_REPLY = ["attempt_id", *GRADER]
KEYS = ["attempt_id", *CASE, "condition", "repeat", "check_id", "check_kind", *GRADER]


def integrity(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    checks: pd.DataFrame,
    *,
    shared: pd.DataFrame | None = None,
    ngram: int = 6,
) -> pd.DataFrame:
    """Check every verdict against the mechanical rules of the comprehension report.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame of any number of graders, versions and rounds.
    attempts : pandas.DataFrame
        An attempts frame with the answers from which evidence is quoted.
    checks : pandas.DataFrame
        A checks frame: the expected behaviours of every case.
    shared : pandas.DataFrame, optional
        Result of :func:`skillcomp.overlap.score` on these attempts, for the overlap rule.
    ngram : int, default 6
        Length in tokens of the n-grams that decide the overlap check; the comprehension report
        suggests 6.

    Returns
    -------
    pandas.DataFrame
        One row per verdict, with attempt_id, skill, case_id, condition, repeat, check_id,
        check_kind, grader, grader_version, round and passed. An expected behaviour that a reply
        left out has a row with ``passed`` NA. Then follow boolean columns that are true if a rule
        is broken (RULE-1 and so on are the numbers in the report):

        - ``count_differs`` (RULE-1): the number of verdicts in the reply is not the number of
          expected behaviours;
        - ``ids_differ`` (RULE-9): the ids in the reply are not those of the behaviours;
        - ``quote_empty`` (RULE-2): no evidence quote;
        - ``quote_not_found``: the quote is not part of the answer, with white space and quotation
          marks normalised;
        - ``quote_short``: the quote of a passed positive or failed negative behaviour has fewer
          than three words and is not a whole sentence, line or answer;
        - ``hedged_fail`` (RULE-6): a FAIL with a hedge in its rationale;
        - ``softened_pass``: a PASS with a hedge in its rationale; it may be a softened FAIL, so
          read the rationale;
        - ``overlap_contradicted``: a verdict on a verbatim check that contradicts the n-gram
          overlap;
        - ``dimension_inconsistent``: ``dimension_passed``, the grader's verdict on all behaviours
          together, contradicts the single verdicts. NA if it was not recorded, or if no behaviour
          failed and one has no verdict. No analysis uses ``dimension_passed``;
        - ``undecided_fail``: a FAIL because the grader could not decide. RULE-9 asks for a FAIL
          then, so the rate is information, not an error;
        - ``rationale_contradicted``: the rationale states the opposite of the verdict, such as
          "does not meet this requirement" for a PASS.

        ``count_differs``, ``ids_differ`` and ``dimension_inconsistent`` have the same value in all
        rows of a reply. A value is NA if the rule does not apply: the grader version never gave a
        quote or a rationale; the rationale, the answer, the dimension verdict or ``shared`` is
        missing; or the grader failed to give a verdict.

        The last column, ``closest_spot``, is true if the verdict is a FAIL or the behaviour is
        negative. The quote then shows the passage of the answer that comes closest to the
        behaviour, not the behaviour itself. The exception is a failed negative behaviour, which
        the quote shows.

    Raises
    ------
    FrameError
        If a frame breaks its contract, a case has no checks, an attempt of the verdicts is not
        in the attempts frame, or ``shared`` lacks n-grams of length ``ngram``.

    See Also
    --------
    integrity_rates : The rate of each rule by grader.

    Notes
    -----
    Hedge words are the English ones of the comprehension report (A.4 for FAIL, 8.9 for PASS). They
    are matched as whole words outside the quotations of a rationale. A reply without any usable
    verdict breaks no rule; :func:`skillcomp.reliability.agreement` counts such failures.
    """
    verdicts, attempts = check(verdicts, "verdicts"), check(attempts, "attempts")
    checks = check(checks, "checks")
    require_rows(verdicts, attempts, ["attempt_id"], "integrity", "attempts")
    replies = _with_absent_behaviours(verdicts, checks)
    marks = replies[[*KEYS, "passed"]].copy()
    marks[["count_differs", "ids_differ"]] = _behaviours_differ(replies)
    quotes = ["quote_empty", "quote_not_found", "quote_short"]
    marks[quotes] = _quote_marks(replies, attempts)
    has_rationale = _has_text(replies["rationale"])
    for name, verdicts_of_rule, breaks in (
        ("hedged_fail", [False], lambda text, *_: hedges(text, HEDGES_ON_FAIL) is not None),
        ("softened_pass", [True], lambda text, *_: hedges(text, HEDGES_ON_PASS) is not None),
        ("undecided_fail", [False], lambda text, *_: undecided(text)),
        ("rationale_contradicted", [True, False], contradicts_verdict),
    ):
        applies = replies["passed"].isin(verdicts_of_rule) & has_rationale
        rows = applies.fillna(False).to_numpy(bool)
        facts = replies.loc[rows, ["rationale", "passed", "check_kind"]].itertuples(index=False)
        broken = [breaks(text, bool(passed), kind) for text, passed, kind in facts]
        marks[name] = _marks_at(rows, broken)
    marks["overlap_contradicted"] = pd.Series(pd.NA, index=replies.index, dtype="boolean")
    if shared is not None:
        any_shared = shared_of(shared, ngram, ["any_shared"], "integrity")["any_shared"]
        copied = replies["attempt_id"].map(any_shared).astype("boolean")
        is_verbatim = replies["check_id"].str.contains(VERBATIM, regex=False)
        applies = replies["check_kind"].eq("negative") & is_verbatim
        applies &= replies["passed"].notna() & copied.notna()
        marks["overlap_contradicted"] = replies["passed"].eq(copied).where(applies)
    marks["dimension_inconsistent"] = _dimension_differs(replies)
    close = replies["passed"].eq(False) | replies["check_kind"].eq("negative")
    marks["closest_spot"] = close.where(replies["passed"].notna()).astype("boolean")
    return marks[[*KEYS, "passed", *RULES, "closest_spot"]]


def _with_absent_behaviours(verdicts: pd.DataFrame, checks: pd.DataFrame) -> pd.DataFrame:
    """Add a row for each expected behaviour that a reply left out."""
    require_rows(verdicts, checks, CASE, "integrity", "checks")
    verdicts = verdicts.assign(there=True, usable=usable(verdicts))
    verdicts["passed"] = verdicts["passed"].where(verdicts["usable"])
    replies = verdicts[[*_REPLY, *CASE, "condition", "repeat"]].drop_duplicates(_REPLY)
    behaviours = replies.merge(checks[[*CASE, "check_id", "check_kind"]], on=CASE, how="left")
    item = [*_REPLY, "check_id"]
    kinds = behaviours[[*item, "check_kind"]].assign(expected=True)
    graded = verdicts.merge(kinds, on=item, how="left", suffixes=("", "_expected"))
    graded["check_kind"] = graded["check_kind"].fillna(graded["check_kind_expected"])
    absent = behaviours[~is_among(behaviours, verdicts, item)].assign(expected=True)
    rows = pd.concat([graded, absent], ignore_index=True) if len(absent) else graded
    flags = ("there", "usable", "expected")
    return rows.assign(**{name: rows[name].astype("boolean").fillna(False) for name in flags})


def _over_reply(values: Any, replies: pd.DataFrame, how: Any) -> Any:
    """Return, for each row, a function such as "any" of the values of its reply."""
    return values.groupby([replies[name] for name in _REPLY], dropna=False).transform(how)


def _behaviours_differ(replies: pd.DataFrame) -> pd.DataFrame:
    """Mark the replies with a wrong number of verdicts, and the replies with wrong check ids."""
    flags = replies[["there", "expected", "usable"]]
    flags = flags.assign(mismatch=flags["there"] ^ flags["expected"])
    counts = _over_reply(flags.astype("int64"), replies, "sum")
    differs = {
        "count": counts["there"].ne(counts["expected"]),
        "ids": counts["mismatch"].gt(0),
    }
    return pd.DataFrame(differs).astype("boolean").where(counts["usable"].gt(0))


def _has_text(values: pd.Series) -> pd.Series:
    return values.str.strip().fillna("").ne("")


def _marks_at(rows: Any, marks: list[bool]) -> pd.Series:
    """Return the marks of the rows to which a rule applies; the others are NA."""
    every = pd.Series(pd.NA, index=range(len(rows)), dtype="boolean")
    every[rows] = marks
    return every


def _quote_marks(replies: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return three columns: the quote is empty, it is not in the answer, or it is too short."""
    has_quote = _has_text(replies["evidence_quote"])
    gives_evidence = has_quote | _has_text(replies["rationale"])
    version = [replies["grader"], replies["grader_version"]]
    asked_for = gives_evidence.groupby(version, dropna=False).transform("any")
    answer = replies["attempt_id"].map(attempts.set_index("attempt_id")["answer"])
    answer = answer.astype("str")  # `map` returns another dtype for an empty column
    # An empty answer has nothing to quote, so leave it out.
    applies = asked_for & replies["usable"] & _has_text(answer)
    empty = (~has_quote).astype("boolean").where(applies.astype(bool))
    rows = (applies & has_quote).to_numpy(bool)
    plain = {text: normalise_quote(text) for text in answer[rows].unique()}
    quotes = zip(replies.loc[rows, "evidence_quote"], answer[rows], strict=True)
    not_found = _marks_at(
        rows, [normalise_quote(quote) not in plain[text] for quote, text in quotes]
    )
    shows = replies["passed"].ne(replies["check_kind"].eq("negative")).fillna(False)
    rows &= (shows & ~not_found.fillna(True)).to_numpy(bool)
    quotes = zip(replies.loc[rows, "evidence_quote"], answer[rows], strict=True)
    short = _marks_at(rows, [not is_valid_quote(quote, text) for quote, text in quotes])
    return pd.DataFrame({"empty": empty, "not_found": not_found, "short": short})


def shared_of(shared: pd.DataFrame, ngram: int, columns: Sequence[str], what: str) -> pd.DataFrame:
    """Return the overlap of each attempt at one n-gram length, indexed by attempt_id."""
    place = f"{what}: shared"
    shared = checked_columns(shared, ["attempt_id", "n", *columns], what=place)
    common_tokenizer({"shared": shared}, what=what)
    attempts = shared.dropna(subset="attempt_id")
    lengths = sorted(set(attempts["n"]))
    if ngram not in lengths:
        raise FrameError(f"{what}: shared has no n-grams of length {ngram}; there: {lengths}.")
    rows = attempts[attempts["n"].eq(ngram)]
    require_one_row_per_attempt(rows, what=place)
    return rows.set_index("attempt_id")


def _dimension_differs(replies: pd.DataFrame) -> Any:
    """Return whether a reply's verdict on the dimension contradicts those on the behaviours."""
    passed = replies["passed"].astype("boolean")
    failed = _over_reply(passed.eq(False).fillna(False), replies, "any")
    unknown = _over_reply(passed.isna(), replies, "any")
    every_passed = (~failed).astype("boolean").where(failed | ~unknown)
    differs = replies["dimension_passed"].astype("boolean").ne(every_passed)
    # The mark of a reply is True if any of its rows contradicts the dimension verdict, and NA only
    # if all its rows are NA.
    return _over_reply(differs.astype("Int64"), replies, "max").astype("boolean")


def integrity_rates(
    marks: pd.DataFrame,
    *,
    by: By = ("grader",),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often each grader breaks each mechanical rule.

    Parameters
    ----------
    marks : pandas.DataFrame
        Result of :func:`integrity`.
    by : str or sequence of str, default ("grader",)
        Columns to group by.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and rule, with the estimates columns. ``measure`` is the rule.
        ``estimate`` is the share that breaks it, with the interval of
        :func:`skillcomp.stats.bounded.bounded_mean` and cases as clusters; NaN with a note if the
        rule does not apply to the grader. ``n`` is the denominator of the share, and ``counted``
        states what it counts, such as attempts or quotes. ``n_broken`` is the numerator.

    Raises
    ------
    FrameError
        If columns are missing, or several graders, versions, rounds or agents would be pooled.
    """
    names, what = listed(by), "reliability.integrity_rates"
    check_settings(what, ci_level)
    made = dict.fromkeys(RULES, "boolean")
    columns = [*names, *KEYS, "passed"]
    marks = verdicts_with(marks, "marks", columns, made, by=names, cases=cases, what=what)
    rows = []
    for values, part in groups(marks, names):
        replies = part.drop_duplicates(_REPLY)
        for rule, counted in RULES.items():
            units = replies if rule in _BY_ATTEMPT else part
            units = units[units[rule].notna()]
            broken = units[rule].astype("float64")
            rate = bounded_mean(broken, units["cluster"], ci_level=ci_level)
            if units.empty:
                rate = undefined("", _WHY_NOT.get(rule, _NO_USE), ci_level, 0.0)
            n_broken = int(broken.sum())
            rows.append(row(rule, rate, unit="rate", counted=counted, n_broken=n_broken, **values))
    return estimates(rows, by=names, extra=["counted", "n_broken"])


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
