"""Integrity of verdicts: find verdicts that break mechanical rules of the comprehension report."""

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
from skillcomp.frames.reference_labels import usable
from skillcomp.grading_rules import (
    HEDGES_ON_FAIL,
    HEDGES_ON_PASS,
    contradicts_verdict,
    hedges,
    is_valid_quote,
    normalise_quote,
    undecided,
)
from skillcomp.overlap.score import (
    checked_columns,
    common_tokenizer,
    require_one_row_per_attempt,
)
from skillcomp.reliability.graded_items import verdicts_with
from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.results import undefined

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
