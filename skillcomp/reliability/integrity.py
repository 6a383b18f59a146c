"""The mechanical rules of the source report, checked on verdicts as they were recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, plural, suggest
from skillcomp.frames.contracts import CASE, CONTRACTS, check, settle
from skillcomp.frames.estimates import (
    GRADER,
    check_settings,
    estimates,
    groups,
    listed,
    refuse_pooling,
    require_columns,
    row,
)
from skillcomp.frames.from_store import normalise_quote
from skillcomp.frames.reference_labels import usable
from skillcomp.stats.results import undefined

# The source report's own lists: A.4 (RULE-6) and 8.9.
HEDGES_ON_FAIL = (
    "could be improved",
    "worth reviewing",
    "could be strengthened",
    "might be",
    "perhaps",
)
HEDGES_ON_PASS = ("could be", "would benefit", "consider", "perhaps", "might be")

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_JUDGE = r"(?:evaluat|decid|judg|grad|assess|determin|verif)\w*"
# "It says that it cannot tell" is about the answer; only the grader's own indecision counts.
_UNDECIDED = re.compile(
    rf"(?:^|[.;:]\s*|\b(?:i|we|the grader)\s+)(?:could|can)(?:not|n't| not)\s+(?:be\s+)?{_JUDGE}"
    rf"|\b(?:could|can)(?:not|n't| not)\s+be\s+(?:evaluated|judged|graded|assessed)\b"
    rf"|(?:^|[.;:]\s*|\b(?:i am|i'm|we are|the grader is)\s+)unable to {_JUDGE}"
    r"|^undecid(?:ed|able)\b",
)

# rule -> what its rate is a share of
RULES: Mapping[str, str] = {
    "count_differs": "attempts",
    "ids_differ": "attempts",
    "quote_empty": "verdicts",
    "quote_not_found": "quotes",
    "hedged_fail": "FAILs with a rationale",
    "softened_pass": "PASSes with a rationale",
    "overlap_contradicted": "verdicts on verbatim checks",
    "dimension_inconsistent": "attempts",
    "undecided_fail": "FAILs with a rationale",
}
_NO_USE = "this rule does not apply here, or what it needs was not recorded"
_WHY_NOT = {
    "dimension_inconsistent": "no dimension_passed was recorded: the dimension is then what the "
    "behaviours say, so the two cannot differ",
    "overlap_contradicted": f"{_NO_USE}: it needs shared= and a check against copying",
}
_BY_ATTEMPT = [name for name, counted in RULES.items() if counted == "attempts"]
_REPLY = ["attempt_id", *GRADER]
KEYS = ["attempt_id", *CASE, "condition", "repeat", "check_id", "check_kind", *GRADER]
_SHARED = {
    **{"attempt_id": "str", "skill": "str", "n": "Int64"},
    **{"any_shared": "boolean", "share": "float64"},
}


def integrity(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    checks: pd.DataFrame,
    *,
    shared: pd.DataFrame | None = None,
    n: int = 6,
    verbatim: str = "verbatim",
    asks_evidence: Mapping[str, bool] | None = None,
) -> pd.DataFrame:
    """Hold every verdict against the rules that a program can check.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame of any number of graders, versions and rounds.
    attempts : pandas.DataFrame
        An attempts frame; its answers are what quotes must stand in.
    checks : pandas.DataFrame
        A checks frame: the expected behaviours of every case.
    shared : pandas.DataFrame, optional
        Result of :func:`skillcomp.overlap.score` on these attempts, for the overlap rule.
    n : int, default 6
        Length of n-gram at which the overlap check decides; the source report starts with 6.
    verbatim : str, default "verbatim"
        Negative checks whose id contains this text are decided by the overlap check.
    asks_evidence : mapping of str to bool, optional
        Whether a grader was asked for evidence, by its name. Where not told, a version that never
        gave a quote or a rationale counts as not asked.

    Returns
    -------
    pandas.DataFrame
        One row per verdict, and one with ``passed`` NA for each expected behaviour that a reply
        left out: attempt_id, skill, case_id, condition, repeat, check_id, check_kind, grader,
        grader_version, round, passed, then booleans, true where a rule is broken:

        - ``count_differs`` (RULE-1): the reply has another number of verdicts than behaviours;
        - ``ids_differ`` (RULE-9): its ids are not those of the behaviours;
        - ``quote_empty`` (RULE-2): no evidence quote;
        - ``quote_not_found``: the quote is no part of the answer after white space and quotation
          marks are made alike;
        - ``hedged_fail`` (RULE-6): a FAIL whose rationale hedges;
        - ``softened_pass``: a PASS whose rationale hedges, which may be a softened FAIL: read it;
        - ``overlap_contradicted``: a verbatim check decided against the n-gram overlap;
        - ``dimension_inconsistent``: what the reply says of all behaviours together
          (``dimension_passed``) is not "every behaviour passed"; NA where it was not recorded, or
          where no behaviour failed and one has no verdict. An analysis never uses
          ``dimension_passed``: its outcomes follow from the behaviours;
        - ``undecided_fail``: a FAIL given because the grader could not decide. RULE-9 asks for it;
          its rate says how often.

        The first two and the dimension rule concern a whole reply and stand in each of its rows.
        NA where a rule does not apply: evidence rules for a grader that was not asked for any,
        rules on rationales without one, an answer that is missing or empty, a failed verdict, no
        ``shared``, no dimension verdict. Last, ``closest_spot`` (boolean): the quote need only be
        the closest spot, because the verdict is a FAIL or the behaviour a negative one; such a
        quote is not expected to show the behaviour, only to stand in the answer.

    Raises
    ------
    FrameError
        If a frame breaks its contract, a case has no checks, an attempt of the verdicts is not
        in the attempts frame, or ``shared`` lacks n-grams of length ``n``.

    See Also
    --------
    integrity_rates : The rate of each rule by grader.

    Notes
    -----
    Hedge words are those of the source report (A.4 for FAIL, 8.9 for PASS), as whole words, in
    the grader's own wording: what a rationale quotes is left out. English only. A reply all of
    whose verdicts failed has broken no rule; its failures are counted by
    :func:`skillcomp.reliability.agreement`.
    """
    given, answers = check(verdicts, "verdicts"), check(attempts, "attempts")
    expected = check(checks, "checks")
    _require_attempts(given, answers)
    known = _with_absent_behaviours(given, expected)
    marks = known[[*KEYS, "passed"]].copy()
    marks[["count_differs", "ids_differ"]] = _counts(known)
    marks[["quote_empty", "quote_not_found"]] = _quotes(known, answers, asks_evidence or {})
    for name, words, on in (
        ("hedged_fail", HEDGES_ON_FAIL, False),
        ("softened_pass", HEDGES_ON_PASS, True),
        ("undecided_fail", None, False),
    ):
        applies = known["passed"].eq(on) & _has_text(known["rationale"])
        marks[name] = _by_wording(known["rationale"], applies, words)
    marks["overlap_contradicted"] = _against_overlap(known, shared, n, verbatim)
    marks["dimension_inconsistent"] = _dimension(known)
    close = known["passed"].eq(False) | known["check_kind"].eq("negative")
    marks["closest_spot"] = close.where(known["passed"].notna()).astype("boolean")
    return marks[[*KEYS, "passed", *RULES, "closest_spot"]]


def _require_attempts(given: pd.DataFrame, attempts: pd.DataFrame) -> None:
    unknown = given.loc[~given["attempt_id"].isin(attempts["attempt_id"]), "attempt_id"]
    if len(unknown):
        raise FrameError(
            f"integrity: {plural(len(unknown), 'verdict')} of attempts that are not in the "
            f"attempts frame, the first is '{unknown.iloc[0]}'. Read both with the same "
            "perturbation=." + suggest(unknown.iloc[0], map(str, attempts["attempt_id"]))
        )


def _with_absent_behaviours(given: pd.DataFrame, expected: pd.DataFrame) -> pd.DataFrame:
    """Add a row for each behaviour that a reply should have decided and left out."""
    known = pd.MultiIndex.from_frame(expected[CASE])
    unknown = sorted(set(given.loc[~pd.MultiIndex.from_frame(given[CASE]).isin(known), "case_id"]))
    if unknown:
        raise FrameError(
            f"integrity: {plural(len(unknown), 'case')} of the verdicts without checks, the first "
            f"is '{unknown[0]}'."
        )
    given = given.assign(there=True, usable=usable(given))
    given["passed"] = given["passed"].where(given["usable"])
    keys = [*CASE, "condition", "repeat"]
    replies = given[[*_REPLY, *keys]].drop_duplicates(_REPLY)
    wanted = replies.merge(expected[[*CASE, "check_id", "check_kind"]], on=CASE, how="left")
    item = [*_REPLY, "check_id"]
    named = given.merge(
        wanted[[*item, "check_kind"]].assign(expected=True),
        on=item,
        how="left",
        suffixes=("", "_wanted"),
    )
    named["check_kind"] = named["check_kind"].fillna(named["check_kind_wanted"])
    told = wanted.merge(given[item].assign(there=True), on=item, how="left")
    absent = told[told["there"].isna()].assign(expected=True)
    both = pd.concat([named, absent], ignore_index=True) if len(absent) else named
    flags = {
        name: both[name].astype("boolean").fillna(False) for name in ("there", "usable", "expected")
    }
    return both.assign(**flags)


def _counts(known: pd.DataFrame) -> pd.DataFrame:
    reply = [known[name] for name in _REPLY]
    told = {
        name: known[name].astype("int64").groupby(reply, dropna=False).transform("sum")
        for name in ("there", "expected", "usable")
    }
    strange = (known["there"] ^ known["expected"]).groupby(reply, dropna=False).transform("any")
    found = pd.DataFrame(
        {"count": told["there"].ne(told["expected"]), "ids": strange}, index=known.index
    )
    return found.astype("boolean").where(told["usable"].gt(0))


def _has_text(values: pd.Series) -> pd.Series:
    return values.str.strip().fillna("").ne("")


def _quotes(known: pd.DataFrame, attempts: pd.DataFrame, asked: Mapping[str, bool]) -> pd.DataFrame:
    has_quote = _has_text(known["evidence_quote"])
    gives = has_quote | _has_text(known["rationale"])
    version = [known["grader"], known["grader_version"]]
    inferred = gives.groupby(version, dropna=False).transform("any")
    wanted = known["grader"].map(dict(asked)).astype("boolean").fillna(inferred)
    answer = known["attempt_id"].map(attempts.set_index("attempt_id")["answer"])
    # mapped over no rows the answers would lose their type
    answer = answer.astype("str")
    # an empty answer has nothing to quote
    applies = wanted & known["usable"] & _has_text(answer)
    missing = (~has_quote).astype("boolean").where(applies.astype(bool))
    lost = pd.Series(pd.NA, index=known.index, dtype="boolean")
    rows = (applies & has_quote).to_numpy(dtype=bool)
    plain = {text: normalise_quote(text) for text in answer[rows].unique()}
    lost[rows] = [
        normalise_quote(quote) not in plain[text]
        for quote, text in zip(known.loc[rows, "evidence_quote"], answer[rows], strict=True)
    ]
    return pd.DataFrame({"empty": missing, "lost": lost})


def _by_wording(rationale: pd.Series, applies: pd.Series, words: Sequence[str] | None) -> pd.Series:
    rows = applies.fillna(False).to_numpy(dtype=bool)
    found = pd.Series(pd.NA, index=rationale.index, dtype="boolean")
    found[rows] = [
        undecided(text) if words is None else hedges(text, words) is not None
        for text in rationale[rows]
    ]
    return found


def _against_overlap(
    known: pd.DataFrame, shared: pd.DataFrame | None, n: int, verbatim: str
) -> pd.Series:
    if shared is None:
        return pd.Series(pd.NA, index=known.index, dtype="boolean")
    copied = shared_of(shared, n, ["any_shared"], "integrity")["any_shared"]
    found = known["attempt_id"].map(copied).astype("boolean")
    bound = known["check_kind"].eq("negative") & known["check_id"].str.contains(
        verbatim, regex=False
    )
    return known["passed"].eq(found).where(bound & known["passed"].notna() & found.notna(), pd.NA)


def shared_of(shared: pd.DataFrame, n: int, needed: Sequence[str], what: str) -> pd.DataFrame:
    """Return what each attempt shares by n-grams of one length, attempts in the index."""
    require_columns(shared, ["attempt_id", "n", *needed], f"{what}: shared")
    shared = settle(shared, _SHARED, f"{what}: shared")
    here = shared[shared["attempt_id"].notna()]
    lengths = sorted(set(here["n"]))
    if n not in lengths:
        raise FrameError(f"{what}: shared has no n-grams of length {n}; there: {lengths}.")
    found = here[here["n"].eq(n)].set_index("attempt_id")
    if not found.index.is_unique:
        twice = found.index[found.index.duplicated()][0]
        raise FrameError(f"{what}: shared has attempt '{twice}' twice for n = {n}.")
    return found.astype({name: dtype for name, dtype in _SHARED.items() if name in needed})


def _dimension(known: pd.DataFrame) -> pd.Series:
    reply = [known[name] for name in _REPLY]
    passed = known["passed"].astype("boolean")
    failed = passed.eq(False).fillna(False).groupby(reply, dropna=False).transform("any")
    open_ = passed.isna().groupby(reply, dropna=False).transform("any")
    whole = (~failed).astype("boolean").where(failed | ~open_)
    differs = known["dimension_passed"].astype("boolean").ne(whole)
    # the largest of a reply: true where one of its verdicts differs, NA where none is known
    found = differs.astype("Int64").groupby(reply, dropna=False).transform("max")
    return found.astype("boolean")


def integrity_rates(
    marks: pd.DataFrame,
    *,
    by: Sequence[str] = ("grader",),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often each grader breaks each mechanical rule.

    Parameters
    ----------
    marks : pandas.DataFrame
        Result of :func:`integrity`.
    by : sequence of str, default ("grader",)
        Columns that keep rows apart.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and rule (measure), in the estimates shape: estimate is the share that
        breaks it, n what it is a share of, the interval that of
        :func:`skillcomp.stats.bounded.bounded_mean` with cases as clusters. Extra: counted
        (what n counts: attempts, verdicts, quotes ...), n_broken. NaN with a note where the
        rule does not apply to this grader.

    Raises
    ------
    FrameError
        If columns are missing or several graders, versions or rounds would be pooled.
    """
    from skillcomp.stats.bounded import RATES, bounded_mean  # a grader that asks needs none of it

    names, what = listed(by), "reliability.integrity_rates"
    check_settings(what, ci_level)
    made = dict.fromkeys(RULES, "boolean")
    needed = [*names, *KEYS, "passed"]
    given = verdicts_with(marks, "marks", needed, made, by=names, cases=cases, what=what)
    rows: list[dict[str, Any]] = []
    for values, part in groups(given, names):
        replies = part.drop_duplicates(_REPLY)
        for rule, counted in RULES.items():
            units = replies if rule in _BY_ATTEMPT else part
            known = units[units[rule].notna()]
            broken = known[rule].astype("float64")
            found = bounded_mean(broken, known["cluster"], quantity=RATES, ci_level=ci_level)
            if known.empty:
                found = undefined("", _WHY_NOT.get(rule, _NO_USE), ci_level=ci_level, n=0.0)
            about = {"counted": counted, "n_broken": int(broken.sum())}
            rows.append(row(rule, found, unit="rate", **about, **values))
    return estimates(rows, by=names, extra=["counted", "n_broken"])


def verdicts_with(
    frame: pd.DataFrame,
    argument: str,
    needed: Sequence[str],
    made: Mapping[str, str],
    *,
    by: Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Return verdicts with what was ``made`` of them (column: dtype), and the cluster of each."""
    from skillcomp.frames.case_table import clusters_of  # likewise

    require_columns(frame, [*needed, *made], what)
    known = settle(frame, {**CONTRACTS["verdicts"].columns, **made}, f"{what}: {argument}")
    refuse_pooling(known, by, what)
    return known.assign(cluster=clusters_of(known, cases))


def own_words(rationale: str) -> str:
    """Return a rationale in lower case without what it quotes."""
    return " ".join(_QUOTED.sub(" ", rationale).lower().replace("’", "'").split())


def hedges(rationale: str, words: Sequence[str]) -> str | None:
    """Return the first hedge that the grader itself uses, or None."""
    found = _any_of(tuple(words)).search(own_words(rationale))
    return found.group(0) if found else None


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")


def undecided(rationale: str) -> bool:
    """Return whether a FAIL was given because the grader could not decide."""
    return _UNDECIDED.search(own_words(rationale)) is not None
