"""Calibration of the overlap rule: the n-gram length from which a shared n-gram means copying.

A candidate is an n-gram length n with one of two rules. The rule ``any`` flags a text if it shares
at least one n-gram with its skill. The rule ``share`` flags a text if the share of its n-grams that
also occur in the skill is at least a cut. A null is a class of texts that are known not to copy. A
candidate is evaluated by its sensitivity, the rate of flags among passages that copy, and by its
false flags, the rate of flags in each null. The upper limit of the false flags, not their estimate,
must be at most the allowed rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import check
from skillcomp.frames.estimates import By, listed, row
from skillcomp.ngrams import Tokenizer, check_n, name_of_tokenizer
from skillcomp.overlap.candidates import (
    COPIES,
    NULLS,
    Chooser,
    Group,
    Sample,
    Settings,
    carried_rate,
    existing_names,
    make_sample,
)
from skillcomp.overlap.positives import MADE_UP, positives
from skillcomp.overlap.score import (
    FEW_LOST,
    Skills,
    checked_columns,
    common_tokenizer,
    lost_letters_note,
    require_one_row_per_attempt,
    score,
)
from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.detection import bootstrap_auc, clean_needed
from skillcomp.stats.results import NAN, Fields, Indices, Interval, join_notes, undefined

NEEDED = ["kind", "attempt_id", "passage_id", "skill", "case_id", "condition", "document"]
NEEDED += ["level", "n", "any_shared", "share", "n_tokens"]
SCORED = [*NEEDED, "not_ascii"]
_NUMBERS = ["estimate", "ci_low", "ci_high", "ci_level", "se", "df"]
_NUMBERS += ["n_texts", "n_clusters", "limit"]
COLUMNS = {
    "rule": "str",
    "n": "Int64",
    "cut": "float64",
    "measure": "str",
    "unit": "str",
    **dict.fromkeys(_NUMBERS, "float64"),
    "keeps_limit": "boolean",
    "n_short": "float64",
    "chosen": "bool",
    **dict.fromkeys(["method", "note", "tokenizer"], "str"),
    "answer_tokens": "float64",
}
N_SPLITS, N_REPEATS = 5, 10  # Numbers of folds and repeats of the nested cross-validation.
FEW_UNITS = 10  # With fewer documents or cases than this, a bootstrap is not reliable.
BLOCK = 250  # Number of resamples that are computed together; a small number saves memory.


def calibrate(
    shared: pd.DataFrame | None = None,
    attempts: pd.DataFrame | None = None,
    *,
    passages: pd.DataFrame | None = None,
    skills: Skills,
    positive: str | Sequence[str] | None = None,
    nulls: str | Sequence[str] | None = None,
    max_false_flags: float = 0.05,
    ngram: Iterable[int] | int | None = None,
    by: By = (),
    boilerplate: str | Sequence[str] = (),
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate the n-gram length from which a shared n-gram means copying.

    Copies are passages that were written by copying. Nulls are texts that do not copy. By default
    there are two nulls: answers without the skill, which share n-grams by coincidence, and passages
    written fresh from understanding, which share technical terms. The limit on false flags applies
    under each null and, if answers are given, at their length (see Notes). Labelled passages alone
    suffice, and so do answers alone. A skill may be any text.

    Parameters
    ----------
    shared : pandas.DataFrame, optional
        Scored attempts, as returned by :func:`score`.
    attempts : pandas.DataFrame, optional
        A selection of the attempts that were scored. Rows of ``shared`` for other attempts are
        ignored.
    passages : pandas.DataFrame, optional
        A passages frame: passage_id, skill, document, level, text. Passages are scored as by
        :func:`score`, which leaves out n-grams of a passage's question. With ``made_up`` copies
        (from :func:`positives`), the choice depends only on the nulls (see Notes).
    skills : mapping of str to Skill, str or path, or path
        As in :func:`score`.
    positive : str or sequence of str, optional
        Levels of the passages that are copies. Default: those of ``verbatim``, ``near_copy`` and
        ``copied`` that exist; without any, copies are made up from the skills by :func:`positives`.
    nulls : str or sequence of str, optional
        Levels of the passages, or conditions of the attempts, that are not copies. Default: those
        of ``baseline`` and ``fresh`` that exist.
    max_false_flags : float, default 0.05
        Largest rate of flagged texts that is allowed under each null. The upper limit of the rate
        must not exceed it. With the default, each null needs at least 62 documents or cases.
    ngram : int or iterable of int, optional
        Lengths n to choose among. Default: those in ``shared``; without it, 3 to 12.
    by : str or sequence of str, default ()
        ``"skill"`` calibrates each skill separately.
    boilerplate : str or sequence of str, optional
        As in :func:`score`, for the passages.
    tokenizer, tokenizer_name : optional
        As in :func:`score`. It must be the tokenizer that scored the attempts.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Number of resamples of documents and cases (at least 1), and seed of the random generator.
        They serve the intervals of the chosen n and of the AUC.

    Returns
    -------
    pandas.DataFrame
        Long table with one row per ``by``, rule, n and measure.

        rule : str, ``any`` (flag a shared n-gram) or ``share`` (flag a share of at least ``cut``)
        n : Int64, number of tokens in an n-gram
        cut : float64, the preferred cut for this n (see Notes); only for ``share``.
            If no cut keeps the limit, the cut is chosen among those with an estimated rate within
            the limit. If none of these finds a copy, this n has no rows for ``share``.
        measure : str
            ``sensitivity``: share of the copies that are flagged.
            ``specificity``: share of the null passages that are not flagged.
            ``false_flags_<null>``: share of the texts of a null that are flagged. If the upper
            limit of its interval exceeds ``limit``, the note states how many clean texts would be
            needed.
            ``false_flags_<null>_at_answer_length``: this rate extrapolated from short passages to
            texts as long as the answers.
            ``flagged_<name>``: share of the texts of another level or condition that are flagged.
            It is unknown whether these texts copy.
            ``auc``: area under the ROC curve of the share.
            ``nested_...``: the rates on documents and cases that were not used to choose the
            candidate. Folds in which no candidate kept the limit are left out.
            ``chosen_n_<null>``: the n chosen under one null alone.
            ``chosen_n``: the n chosen under all nulls.
            ``estimated_n``: only if no n is chosen. The n that would be chosen if the estimates of
            the false flags, instead of their upper limits, had to keep the limit.
        estimate, ci_low, ci_high, ci_level : float64, the measure with its interval
        n_texts, n_clusters : float64, numbers of texts and of their documents or cases
        limit : float64, the limit on false flags; NaN in rows to which it does not apply
        keeps_limit : boolean, whether the upper limit of false flags is at most ``limit``.
            NA where ``limit`` is NaN.
        n_short : float64, number of texts with fewer than n tokens, among the texts of the row.
            Short copies count as missed. Other short texts are left out. NaN where no n applies.
        chosen : bool, True in the row with the measure ``chosen_n``, one per ``by``.
            This row has the chosen n, rule and cut. Its interval is the range of n over resamples,
            widened by 0.5 on each side. The row is NaN with a note if no candidate keeps the limit;
            the note gives the limit that the data support and the number of texts needed. The row
            has no interval if a class has fewer than 10 documents or cases, because resamples of so
            few hardly change the choice.
        method, note : str, method of the interval, and a caution or reason
        tokenizer : str, name of the tokenizer
        answer_tokens : float64, only in the chosen row: the length in content tokens at which the
            limit is kept, which is the mean of the answers or, without longer answers, of the null
            with the longest texts

    Raises
    ------
    FrameError
        If there are neither scored attempts nor passages; if there is no null; if a level,
        condition or column is missing; if ``shared`` is empty, has none of the attempts
        or has an attempt twice; if it was scored with another tokenizer; if ``by`` names a column
        other than ``skill``; or if a number is out of range.

    See Also
    --------
    positives : Makes copies out of the text of a skill.
    flag : Marks the verdicts on answers that copy by the chosen rule.
    skillcomp.plots.threshold : Draws the calibration.

    Notes
    -----
    Candidates are tried from the longest n down (with rule ``share``, the strictest cut first),
    until the upper limit of the false flags exceeds ``max_false_flags`` under a null. With a level
    of 0.95, each rule then exceeds ``max_false_flags`` in at most about 2.5 % of calibrations,
    however many candidates there are. If the estimate decided instead of the upper limit, the
    choice would exceed it in 31-54 % of calibrations with 40 texts in a null.

    The chosen candidate is the most sensitive of those that kept the limit. If several tie, ``any``
    is preferred to ``share``. Among tied ``any`` candidates, the longest n-gram is preferred,
    because it flags least. Among tied ``share`` candidates, the one with the lowest rate under its
    worst null is preferred, then the one with the longest n-gram, then the middle of the remaining
    cuts, which is farthest from both classes. The cut for each n is chosen in the same way.
    Resamples and folds are judged as if they had the size of the whole sample.

    Made-up copies show how detection depends on edits and length, not how agents copy. Their rates
    and the AUC have no interval. Only the rule ``any`` is tried, and the shortest n that keeps the
    limit is chosen, because any copy shares more short n-grams than long ones.

    Passages are clustered by document (a skill and topic), attempts by case.

    A longer text shares more by chance: a rule that flags 2 % of texts of 40 tokens flags 40 % of
    texts of 900. The choice is therefore made at the length of the answers that are no null. If all
    nulls have shorter texts, the null with the longest texts must keep a stricter limit: the one
    from which the rate grows to ``max_false_flags`` if every position has the same chance of a
    match. This is on the safe side for texts that differ in this chance, for matches that occur
    together, and for the rule ``share``. Few short passages cannot show such a limit; answers
    without the skill can, because they have the length of the answers. Without answers, the choice
    is for texts as long as those of the nulls, and :func:`flag` warns of longer answers.

    References
    ----------
    Levels of reuse as in Clough and Stevenson 2011, doi:10.1007/s10579-009-9112-1.
    """
    names = listed(by)
    if names not in ([], ["skill"]):
        raise FrameError(f"overlap.calibrate: by= found {names}; allowed: [] or ['skill'].")
    if shared is None and passages is None:
        raise FrameError(
            "overlap.calibrate: found no texts; give passages=, or answers that overlap.score "
            "scored, or both."
        )
    label = name_of_tokenizer(tokenizer, tokenizer_name)
    answers = pd.DataFrame(columns=SCORED) if shared is None else _scored_attempts(shared, attempts)
    common_tokenizer({"shared": answers}, what="overlap.calibrate", label=label)
    lengths = _offered_lengths(ngram, shared)
    answers = answers[answers["n"].isin(lengths)]
    if passages is not None:
        needed = ["passage_id", "level", "text"]
        passages = checked_columns(passages, needed, what="overlap.calibrate: passages")
    levels = set() if passages is None else set(passages["level"].dropna())
    copies = existing_names(positive, COPIES, levels)
    if passages is None or not (copies or positive is not None):
        made = positives(skills, seed=seed)
        passages = made if passages is None else pd.concat([passages, made], ignore_index=True)
        copies = existing_names(positive, COPIES, set(made["level"]))
    clean = existing_names(nulls, NULLS, levels | set(answers["condition"].dropna()))
    settings = Settings(copies, clean, max_false_flags, ci_level, n_resamples, seed)
    scored = score(
        passages,
        skills=skills,
        ngram=lengths,
        boilerplate=boilerplate,
        tokenizer=tokenizer,
        tokenizer_name=tokenizer_name,
    )
    every = pd.concat([answers, scored], ignore_index=True) if len(answers) else scored
    parts = []
    for slug, part in every.groupby("skill", sort=False) if names else [(None, every)]:
        rows = pd.DataFrame(_calibration_rows(make_sample(part, settings)))
        lost = part.drop_duplicates(["attempt_id", "passage_id"])["not_ascii"].mean()
        if label == name_of_tokenizer(None) and lost >= FEW_LOST:
            rows.loc[rows["chosen"], "note"] += f"; {lost_letters_note(lost)}"
        rows = rows.reindex(columns=list(COLUMNS)).assign(tokenizer=label).astype(COLUMNS)
        if names:
            rows.insert(0, "skill", slug)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _offered_lengths(ngram: Iterable[int] | int | None, shared: pd.DataFrame | None) -> list[int]:
    """Return the n to choose among: the requested ones, else the scored ones, else 3 to 12."""
    scored = None if shared is None else sorted(int(n) for n in shared["n"].dropna().unique())
    if ngram is None:
        return list(range(3, 13)) if scored is None else scored
    lengths: list[int] = check_n(ngram, "overlap.calibrate: ngram").tolist()
    lacking = [n for n in lengths if scored is not None and n not in scored]
    if lacking:
        known = ", ".join(map(str, scored or []))
        raise FrameError(
            f"overlap.calibrate: ngram: shared was not scored for n = {lacking[0]}; there: {known}."
        )
    return lengths


def _scored_attempts(shared: pd.DataFrame, attempts: pd.DataFrame | None) -> pd.DataFrame:
    """Select the rows of ``shared`` for ``attempts``; if ``attempts`` is None, for all attempts."""
    what = "overlap.calibrate: shared"
    shared = checked_columns(shared, NEEDED, what=what)
    if shared.empty:
        raise FrameError(f"{what} has no rows; allowed: the rows of overlap.score for attempts.")
    selected = shared["attempt_id"].notna()
    if attempts is not None:
        selected = shared["attempt_id"].isin(check(attempts, "attempts")["attempt_id"])
    if shared["attempt_id"].notna().any() and not selected.any():
        raise FrameError(f"{what} holds none of the attempts.")
    rows = shared[selected]
    require_one_row_per_attempt(rows, what=what)
    lengths = rows.groupby("attempt_id")["n"].size()
    if len(lengths) and lengths.min() < shared["n"].nunique():
        raise FrameError(
            f"{what}: attempt '{lengths.idxmin()}' was not scored for every n; "
            "allowed: the same n for all attempts."
        )
    return rows


def _calibration_rows(sample: Sample) -> list[Fields]:
    """Return the rows of `calibrate` for one sample; one of them is marked as chosen."""
    chooser, settings = Chooser(sample, sample.nulls), sample.settings
    rows = []
    for candidate in _candidates_by_length(chooser):
        rows += performance(sample, settings, candidate)
    rows += [_auc_row(sample, *place) for place in enumerate(sample.lengths)]
    rows += _nested_validation(chooser)
    for group in sample.nulls:
        note = f"under the null '{group.name}' alone"
        rows.append(_choice_row(Chooser(sample, [group]), f"chosen_n_{group.name}", note))
    note = f"under {' and '.join(settings.nulls)} together"
    answer = _choice_row(chooser, "chosen_n", note)
    candidate = chooser.best(by_estimate=True) if chooser.chosen < 0 else -1
    if candidate >= 0:  # a choice by estimates instead of upper limits
        note = "the estimates keep the limit; their intervals do not show it"
        value = undefined("choice by the estimates", note, settings.ci_level)
        value = replace(value, estimate=chooser.n[candidate])
        rows.append(_measure_row(sample, candidate, "estimated_n", value))
    return [*rows, answer | {"chosen": True, "answer_tokens": sample.at_tokens}]


def _candidates_by_length(chooser: Chooser) -> list[int]:
    """Return two candidates per n, as row numbers: ``any``, and ``share`` with its best cut."""
    allowed = chooser.keeps_limit(*chooser.whole)[0]
    picked = []
    for n in chooser.sample.lengths:
        here = chooser.n == n
        picked.append(np.flatnonzero(here & chooser.is_any)[0])
        cuts = here & ~chooser.is_any
        among = cuts & allowed if (cuts & allowed).any() else cuts
        by_share = chooser.best(among=among, by_estimate=True)
        if by_share >= 0:
            picked.append(by_share)
    return picked


def _measure_row(
    sample: Sample,
    candidate: int | None,
    measure: str,
    value: Interval,
    *,
    limit: float = NAN,
    note: str = "",
    n_short: float = NAN,
) -> Fields:
    about: dict[Any, Any] = {}
    if candidate is not None and candidate >= 0:
        about = sample.candidates.iloc[candidate].to_dict()
    unit = "count" if measure.startswith(("chosen_n", "estimated_n")) else "rate"
    # the number of texts is in the column n_texts, because n is the length of the n-gram here
    estimate = row(measure, value.with_note(first=note), unit=unit)
    estimate |= {"n_texts": value.n, "n": None, "limit": limit, "n_short": n_short}
    keeps = bool(value.high <= limit) if np.isfinite([value.high, limit]).all() else None
    return estimate | {"keeps_limit": keeps, "chosen": False} | about


def performance(sample: Sample, settings: Settings, candidate: int) -> list[Fields]:
    """Estimate the flag rates of one candidate among copies, nulls and other texts.

    Parameters
    ----------
    sample : Sample
        Texts by class, with their flags under every candidate.
    settings : Settings
        Settings; only the limit and the confidence level are used.
    candidate : int
        Row number of the candidate in ``sample.candidates``.

    Returns
    -------
    list of dict
        Rows of :func:`calibrate` with the measures ``sensitivity``, ``specificity``,
        ``false_flags_...`` and ``flagged_...``.
    """
    copies, n_short = _flag_rate(sample, sample.positive, candidate)
    note = f"{n_short} copies are too short for this n and count as missed" if n_short else ""
    made = partial(_measure_row, sample, candidate)
    rows = [made("sensitivity", copies, n_short=n_short, note=note)]
    clean = [group for group in sample.nulls if group.passages]
    if clean:
        column = sample.column(candidate)
        passed = ~_of_judged(clean, column, lambda group: group.flags[:, candidate])
        units = _of_judged(clean, column, lambda group: group.units)
        specificity = bounded_mean(passed, units, ci_level=settings.ci_level)
        n_short = sum((~group.judged[:, column]).sum() for group in clean)
        rows.append(made("specificity", specificity, n_short=n_short))
    by_any = sample.candidates["rule"].iloc[candidate] == "any"
    for group in sample.nulls:
        flagged, n_short = _flag_rate(sample, group, candidate)
        measure = f"false_flags_{group.name}"
        note = join_notes(_short_texts_note(n_short), _texts_needed_note(flagged, settings, group))
        how: Fields = {"limit": settings.max_false_flags, "n_short": n_short}
        rows.append(made(measure, flagged, **how, note=note))
        stricter = sample.limit_of(group, sample.candidates["n"].iloc[candidate])
        carried = group.passages and by_any and sample.n_cases
        if carried or stricter < settings.max_false_flags:
            longer = _rate_at_answer_length(sample, group, candidate, flagged)
            rows.append(made(f"{measure}_at_answer_length", longer, **how))
    for group in sample.others:
        flagged, n_short = _flag_rate(sample, group, candidate)
        note = _short_texts_note(n_short)
        rows.append(made(f"flagged_{group.name}", flagged, n_short=n_short, note=note))
    return rows


def _of_judged(groups: Iterable[Group], column: int, values: Callable[[Group], Any]) -> Any:
    """Join the values of the texts in several groups that are judged at the n of a column."""
    return np.concatenate([values(group)[group.judged[:, column]] for group in groups])


def _flag_rate(sample: Sample, group: Group, candidate: int) -> tuple[Interval, int]:
    """Return the share of texts that a candidate flags, and the number of texts that are too short.

    A text is too short if it has fewer tokens than the n of the candidate.
    """
    column = sample.column(candidate)
    judged = group.judged[:, column]
    flags, units = group.flags[judged, candidate], group.units[judged]
    rate = bounded_mean(flags, units, ci_level=sample.settings.ci_level)
    return _without_interval(rate, group), (group.tokens < sample.lengths[column]).sum()


def _without_interval(value: Interval, group: Group) -> Interval:
    """Remove the interval if the group has made-up texts, because the rate depends on the edits."""
    if not group.made_up:
        return value
    note, how = join_notes(MADE_UP, value.note), "share of made-up texts"
    return replace(value, low=NAN, high=NAN, se=NAN, df=NAN, note=note, method=how)


def _short_texts_note(n_short: int) -> str:
    return f"{plural(n_short, 'text')} too short for this n left out" if n_short else ""


def _texts_needed_note(flagged: Interval, settings: Settings, group: Group) -> str:
    """Return a note on how many clean texts are needed to show that the limit is kept.

    The note is empty if the limit on false flags is shown to be kept.
    """
    limit = settings.max_false_flags
    if not np.isfinite(flagged.high) or flagged.high <= limit or not 0 < limit < 1:
        return ""
    needed = clean_needed(limit, ci_level=settings.ci_level)
    related, unit = _related_texts(flagged, group)
    return (
        f"{related}{flagged.n:.0f} texts bound the rate only at {100 * flagged.high:.1f} %: a "
        f"bound of {100 * limit:.0f} % needs {needed} {unit} with none flagged"
    )


def _related_texts(flagged: Interval, group: Group) -> tuple[str, str]:
    """Return the start of a note on related texts, and the noun for the independent units.

    Texts are related if they have the same document or case. If no texts are related, the start of
    the note is empty, and the noun is "independent texts".
    """
    unit = "document" if group.passages else "case"
    if flagged.n_clusters >= flagged.n:
        return "", "independent texts"
    n = int(flagged.n_clusters)
    limit = "limits" if n == 1 else "limit"
    return f"the {plural(n, unit)} {limit} this, because their texts are related: ", f"{unit}s"


def _rate_at_answer_length(
    sample: Sample, group: Group, candidate: int, flagged: Interval
) -> Interval:
    """Extrapolate a rate from short passages to texts of the length of the answers.

    The limits of the interval are extrapolated in the same way.
    """
    n = sample.candidates["n"].iloc[candidate]
    # texts that are too short are not judged
    places, target = sample.places(group.tokens, n), sample.places(sample.answers, n)
    method = f"constant chance a place, to the length of the answers; {flagged.method}"
    if not (len(target) and flagged.high < 1):
        why = "passages too short to carry the rate over"
        if not len(target):
            why = "no answers whose length could be matched"
        return undefined(method, why, flagged.ci_level, flagged.n)
    note = "modelled: longer texts share more"
    longer = flagged.mapped(partial(carried_rate, places=places, target=target))
    longer = replace(longer, method=method, note=note)
    return replace(longer, se=NAN, df=NAN, p_value=NAN)


def _auc_row(sample: Sample, column: int, n: int) -> Fields:
    """Return a row with the AUC of the share of shared n-grams, for copies against nulls.

    AUC is the area under the ROC curve. Nulls are texts that do not copy.
    """
    clean = [group for group in sample.nulls if group.passages] or list(sample.nulls)
    groups = [sample.positive, *clean]
    labels = _of_judged(groups, column, lambda g: np.full(len(g.units), g is sample.positive))
    share = _of_judged(groups, column, lambda g: g.share[:, column])
    # the numbers of cases follow those of documents
    first = {True: 0, False: sample.n_documents}
    units = _of_judged(groups, column, lambda g: g.units + first[g.passages])
    # one resample is enough for made-up copies, because they get no interval
    settings = sample.settings
    n_resamples = 1 if sample.positive.made_up else settings.n_resamples
    value = bootstrap_auc(
        labels, share, clusters=units, n_resamples=n_resamples, seed=settings.seed,
        ci_level=settings.ci_level,
    )  # fmt: skip
    value = _without_interval(value, sample.positive)
    return _measure_row(sample, None, "auc", value) | {"rule": "share", "n": n}


def _nested_validation(chooser: Chooser) -> list[Fields]:
    """Evaluate the choice of a rule by repeated cross-validation over documents and cases."""
    sample, chosen = chooser.sample, chooser.chosen
    few = min([sample.n_documents, *([sample.n_cases] if sample.n_cases else [])])
    names = ["sensitivity", *(f"false_flags_{group.name}" for group in sample.nulls)]
    method = f"nested cross-validation, {N_SPLITS} folds of documents and of cases, "
    method += f"{N_REPEATS} repeats, seed {sample.settings.seed}"
    if few < 2 * N_SPLITS:
        note = f"{few} documents or cases are too few for {N_SPLITS} folds"
        none = undefined(method, note, sample.settings.ci_level)
        return [_measure_row(sample, chosen, f"nested_{name}", none) for name in names]
    flagged, judged, left_out = _held_out_flags(chooser)
    note = f"{left_out} of {N_SPLITS * N_REPEATS} folds left out: no candidate kept the limit"
    rows = []
    for name, hits, times, group in zip(names, flagged, judged, chooser.groups, strict=True):
        some = times > 0
        shares, units = hits[some] / times[some], group.units[some]
        value = bounded_mean(shares, units, ci_level=sample.settings.ci_level)
        value = _without_interval(value, group)
        words = f"{method}; {note}" if left_out else method
        rows.append(_measure_row(sample, chosen, f"nested_{name}", value, note=words))
    return rows


def _held_out_flags(
    chooser: Chooser,
) -> tuple[list[NDArray[Any]], list[NDArray[Any]], int]:
    """Count the folds in which each held-out text was flagged, and those in which it was judged.

    A held-out text is judged if it is long enough for the chosen n; copies are always judged. Both
    results have one array per group. The third result is the number of folds that were left out
    because no candidate rule stayed within the limit on false flags.
    """
    flagged = [np.zeros(len(group.units)) for group in chooser.groups]
    judged = [np.zeros(len(group.units)) for group in chooser.groups]
    sample = chooser.sample
    seeds = [sample.settings.seed + repeat for repeat in range(N_REPEATS)]
    folds = [
        np.repeat([_fold_numbers(size, seed) for seed in seeds], N_SPLITS, axis=0)
        for size in (sample.n_documents, sample.n_cases)
    ]
    fold = np.tile(np.arange(N_SPLITS), N_REPEATS)[:, None]
    picked = chooser.choose(*((numbers != fold).astype(float) for numbers in folds))
    for at in np.flatnonzero(picked >= 0):
        for index, group in enumerate(chooser.groups):
            test = (folds[0] if group.passages else folds[1])[at][group.units] == fold[at]
            test &= group.judged[:, chooser.column[picked[at]]]
            flagged[index][test] += group.flags[test, picked[at]]
            judged[index][test] += 1
    left_out = (picked < 0).sum()
    return flagged, judged, left_out


def _fold_numbers(n_units: int, seed: int) -> Indices:
    fold = np.zeros(n_units, dtype=np.intp)
    if n_units >= N_SPLITS:
        # the folds of scikit-learn's KFold with shuffle=True
        order = np.random.RandomState(seed).permutation(n_units)
        fold[order] = np.sort(np.arange(n_units) % N_SPLITS)
    return fold


def _choice_row(chooser: Chooser, measure: str, note: str) -> Fields:
    """Return the row of a chosen n, with the range of n over resamples of documents and cases."""
    sample, chosen = chooser.sample, chooser.chosen
    settings, level = sample.settings, sample.settings.ci_level
    best = "shortest n" if sample.positive.made_up else "most sensitivity"
    method = f"{best} with the upper limit of false flags at most {chooser.limit:g} under each "
    method += "null, from the longest n down; bootstrap of documents and cases, "
    method += f"{settings.n_resamples} resamples, seed {settings.seed}"
    if chosen < 0:
        why = f"{note}: {_reason_without_choice(chooser)}"
        return _measure_row(sample, None, measure, undefined(method, why, level))
    picked = _choices_on_resamples(chooser)
    resampled = picked[picked >= 0]
    again = chooser.n[resampled]
    low = high = NAN
    words, few = [note, chooser.at_the_end()], _few_units_note(chooser)
    if resampled.size:
        same = np.mean(again == chooser.n[chosen])
        any_share = np.mean(chooser.is_any[resampled])
        again_text = f"chosen again in {100 * same:.0f} % of the resamples"
        words.append(f"{again_text} (rule 'any' in {100 * any_share:.0f} %)")
    if resampled.size and not few:
        tail = (1 - level) / 2
        low, high = np.quantile(again, [tail, 1 - tail], method="inverted_cdf")
    if resampled.size < picked.size:
        words.append(f"{picked.size - resampled.size} resamples in which nothing kept the limit")
    # Widen the interval by 0.5 on each side, because n is a whole number and the width could be 0.
    value = Interval(
        chooser.n[chosen], low - 0.5, high + 0.5, ci_level=level,
        method=method, n=sum(len(g.units) for g in chooser.groups),
        n_clusters=sample.n_documents + sample.n_cases,
    )  # fmt: skip
    return _measure_row(sample, chosen, measure, value, note=join_notes(*words, few))


def _reason_without_choice(chooser: Chooser) -> str:
    """Explain why no length was chosen, and which limit or number of texts would allow a choice."""
    sample, limit = chooser.sample, chooser.limit
    by_estimate = chooser.best(by_estimate=True)
    if (sample.positive.tokens < min(sample.lengths)).all():
        return (
            f"every copy has fewer than {min(sample.lengths)} tokens; offer shorter n or, for "
            "texts in other scripts, tokenizer='unicode' here and in overlap.score"
        )
    n, rates = chooser.n[by_estimate], []
    for group in chooser.groups[1:]:
        rate, allowed = _flag_rate(sample, group, by_estimate)[0], sample.limit_of(group, n)
        longer = (
            rate if allowed == limit else _rate_at_answer_length(sample, group, by_estimate, rate)
        )
        rates.append((np.nan_to_num(longer.high, nan=1.0), allowed, rate, group))
    high, allowed, worst, group = max(rates, key=lambda rate: rate[0])
    where = ""
    if allowed < limit:
        own = group.tokens.mean()
        where = f" in answers of {sample.at_tokens:.0f} content tokens (these texts have {own:.0f})"
    if by_estimate < 0:
        return (
            f"no n and rule keeps the false flags within {100 * limit:g} %{where} and finds a copy"
        )
    rule = sample.candidates["rule"].iloc[by_estimate]
    flagged = round(worst.estimate * worst.n)
    reason = (
        f"the data cannot support a limit of {100 * limit:.0f} %: by their estimates, n = {n} "
        f"with the rule '{rule}' would be chosen, but {flagged} of {worst.n:.0f} texts of "
        f"'{group.name}' flagged bound the false flags only at {100 * high:.1f} %{where}"
    )
    related, unit = _related_texts(worst, group)
    if limit > 0:
        needed = clean_needed(allowed, ci_level=sample.settings.ci_level)
        reason += f"; {related}{needed} {unit} of each null with none flagged would support it"
    if where:
        reason += ", or fewer that are as long as the answers, such as answers without the skill"
    if high < 1:
        reason += f", or choose max_false_flags={np.ceil(high * 1000) / 1000:g}"
    return reason


def _choices_on_resamples(chooser: Chooser) -> Indices:
    """Return the rule that is chosen on each resample of documents and cases."""
    sample, settings = chooser.sample, chooser.sample.settings
    rng = np.random.default_rng(settings.seed)
    draws = [
        rng.multinomial(size, np.full(size, 1 / size), settings.n_resamples).astype(float)
        if size else np.zeros((settings.n_resamples, 0))
        for size in (sample.n_documents, sample.n_cases)
    ]  # fmt: skip
    starts = range(0, settings.n_resamples, BLOCK)
    blocks = ([draw[at : at + BLOCK] for draw in draws] for at in starts)
    return np.concatenate(
        joblib.Parallel()(joblib.delayed(chooser.choose)(*block) for block in blocks)
    )


def _few_units_note(chooser: Chooser) -> str:
    """Return a note if the class with the fewest units has too few for a bootstrap, else ""."""
    groups = [group for group in chooser.groups if not group.made_up]
    counts = [len(np.unique(group.units)) for group in groups]
    fewest = np.argmin(counts)
    if counts[fewest] >= FEW_UNITS:
        return ""
    group = groups[fewest]
    unit = "documents" if group.passages else "cases"
    name = "copies" if group.name == "positive" else f"'{group.name}'"
    return (
        f"no limits: {name} come from {counts[fewest]} {unit}, and a bootstrap of fewer than "
        f"{FEW_UNITS} is falsely sure"
    )
