"""From which n on a shared n-gram means copying: two nulls, one limit, one choice.

A candidate is an n-gram length with a rule: any shared n-gram, or a share of the text's n-grams
that reaches a cut. It is judged by what it finds among passages that copy, and by what it flags
under each null: texts of which we know that they do not copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.model_selection import KFold

from skillcomp.errors import FrameError
from skillcomp.frames.check import check
from skillcomp.frames.estimates import By, check_settings, row
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.candidates import Chooser, Group, Sample, Settings, make_sample
from skillcomp.overlap.score import as_names, need, once, score
from skillcomp.records import Skill
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.detection import bootstrap_auc, clean_needed
from skillcomp.stats.results import NAN, Interval, join_notes, undefined

NEEDED = ["kind", "attempt_id", "passage_id", "skill", "case_id", "condition", "document"]
NEEDED += ["level", "n", "any_shared", "share", "n_tokens"]
_NUMBERS = ["estimate", "ci_low", "ci_high", "ci_level", "se", "df"]
_NUMBERS += ["n_texts", "n_clusters", "limit"]
COLUMNS = {
    **{"rule": "str", "n": "Int64", "cut": "float64", "measure": "str", "unit": "str"},
    **dict.fromkeys(_NUMBERS, "float64"),
    **{"chosen": "bool", "method": "str", "note": "str"},
}
N_SPLITS, N_REPEATS = 5, 10  # of the nested cross-validation
FEW_UNITS = 10  # documents or cases of a class below which resampling them shows too little
BLOCK = 250  # resamples worked on at once


def calibrate(
    shared: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    passages: pd.DataFrame,
    skills: Mapping[str, Skill | str],
    positive: str | Sequence[str] = ("verbatim", "near_copy"),
    nulls: str | Sequence[str] = ("baseline", "fresh"),
    max_false_flags: float = 0.05,
    by: By = (),
    tokenizer: Tokenizer | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Say from which n on a shared n-gram means copying, and how sure that is.

    Copies are passages labelled so by construction. Two nulls say what does not: answers that
    never saw the skill (coincidence) and passages written fresh from understanding (honest use of
    the proper terms). The limit on false flags applies under each of them.

    Parameters
    ----------
    shared : pandas.DataFrame
        Scored attempts, as returned by :func:`score`; its lengths n are the candidates.
    attempts : pandas.DataFrame
        The attempts that were scored. Only these take part, so a selection can be made here.
    passages : pandas.DataFrame
        Passages frame: passage_id, skill, document, level, text. Scored here; what stands in the
        question of a passage too does not count, as in :func:`score`.
    skills : mapping of str to Skill or str
        As in :func:`score`.
    positive : str or sequence of str
        Levels of passages that are copies.
    nulls : str or sequence of str
        Levels of passages, or conditions of attempts, that are not.
    max_false_flags : float, default 0.05
        Largest rate of flagged texts allowed under each null.
    by : str or sequence of str, default ()
        ``["skill"]`` calibrates each skill alone.
    tokenizer : callable, optional
        As in :func:`score`; give the one that scored the attempts.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Resamples of documents and cases behind the spread of the choice and the AUC; at least 1.

    Returns
    -------
    pandas.DataFrame
        Long, one row per ``by``, rule, n and measure.

        rule : str, ``any`` (a shared n-gram flags) or ``share`` (a share of at least ``cut`` flags)
        n : Int64, tokens of the n-gram (not a number of texts: that is ``n_texts``)
        cut : float64, for ``share``: the cut preferred for this n (see Notes); no row where none
            finds a copy within the limit
        measure : str
            ``sensitivity`` among the copies and ``specificity`` among the passages of the nulls,
            by document; ``false_flags_<null>`` for each null, with its upper bound and, where the
            data cannot bound it at the limit, how many clean texts would;
            ``false_flags_<null>_at_answer_length``, the same carried from short passages to texts
            as long as the answers; ``flagged_<name>`` for every other level and condition, where
            the truth is not known; ``auc`` of the share; ``nested_...``, the choice judged on
            documents and cases that it was not made on, without the folds in which nothing kept
            the limit; ``chosen_n_<null>``, the answer under one null alone; ``chosen_n``, the
            answer.
        estimate, ci_low, ci_high, ci_level : float64
        n_texts, n_clusters : float64, texts and documents or cases behind the row
        limit : float64, the limit where it applies
        chosen : bool, True in exactly one row (of each ``by``): measure ``chosen_n``, with the
            chosen n, rule and cut. Its interval is the spread of n over resamples, half a step
            wider on each side; NaN with a note when nothing keeps the limit, and without limits
            when a class has fewer than 10 documents or cases: so few hardly move the choice when
            they are resampled, however unsure it is.
        method, note : str

    Raises
    ------
    FrameError
        If a level, condition or column is not there, `shared` is empty, holds none of the
        attempts or one twice, ``by`` names something else than ``skill``, or a number is out of
        range.

    See Also
    --------
    flag : Applies the choice to verdicts.
    skillcomp.plots.threshold : Draws it.

    Notes
    -----
    Chosen is the candidate with the highest sensitivity among those within the limit under every
    null. Of equals, ``any`` comes before ``share``. Among rules of ``any`` the longer n-gram
    follows, which flags less; among those of ``share`` the lowest rate under the worst null, then
    the longer n-gram, then the middle one of the cuts that are left, as far from both classes as
    can be. The rows shown for each n are chosen by the same order.

    Documents (a skill and topic) are the units of passages, cases those of attempts. Carrying a
    rate to another length assumes the same chance at each place of a text.

    References
    ----------
    Levels of reuse as in Clough and Stevenson 2011, doi:10.1007/s10579-009-9112-1.
    """
    settings = settings_of(positive, nulls, max_false_flags, ci_level, n_resamples, seed)
    names = list(as_names(by))
    if names not in ([], ["skill"]):
        raise FrameError(f"overlap.calibrate: by= found {names}; allowed: [] or ['skill'].")
    kept = _scored(shared, attempts)
    lengths = sorted(int(n) for n in shared["n"].dropna().unique())
    passages = need(passages, ["passage_id", "text"], what="overlap.calibrate: passages")
    scored = score(passages, skills=skills, ngram=lengths, tokenizer=tokenizer)
    every = pd.concat([kept, scored], ignore_index=True)
    parts = []
    for slug, part in every.groupby("skill", sort=False) if names else [(None, every)]:
        rows = pd.DataFrame(_rows(make_sample(part, settings), settings))
        rows = rows.reindex(columns=list(COLUMNS)).astype(COLUMNS)
        if names:
            rows.insert(0, "skill", slug)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def settings_of(
    positive: str | Sequence[str],
    nulls: str | Sequence[str],
    max_false_flags: float,
    ci_level: float,
    n_resamples: int,
    seed: int,
) -> Settings:
    """Return the settings of a calibration; raise FrameError where one makes no sense."""
    for what, found in (("positive", positive), ("nulls", nulls)):
        if not as_names(found):
            raise FrameError(f"overlap.calibrate: {what}: found none; allowed: at least one name.")
    check_settings("overlap.calibrate", 0.95, n_resamples, seed)
    if seed >= 2**31:  # the folds are dealt by a generator that takes no larger one
        raise FrameError(f"overlap.calibrate: seed: found {seed}; allowed: below 2**31.")
    limit = _in_range(max_false_flags, "max_false_flags", low=0.0, allowed="0 to below 1")
    level = _in_range(ci_level, "ci_level", low=1e-9, allowed="above 0 and below 1, as 0.95")
    return Settings(as_names(positive), as_names(nulls), limit, level, n_resamples, seed)


def _scored(shared: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `shared` for the attempts given."""
    what = "overlap.calibrate: shared"
    shared = need(shared, NEEDED, what=what)
    if shared.empty:
        raise FrameError(f"{what} has no rows; allowed: the rows of overlap.score for attempts.")
    wanted = shared["attempt_id"].isin(check(attempts, "attempts")["attempt_id"])
    if shared["attempt_id"].notna().any() and not wanted.any():
        raise FrameError(f"{what} holds none of the attempts.")
    kept = shared[wanted]
    once(kept, what=what)
    held = kept.groupby("attempt_id")["n"].size()
    if len(held) and held.min() < shared["n"].nunique():
        raise FrameError(
            f"{what}: attempt '{held.idxmin()}' was not scored for every n; "
            "allowed: the same n for all attempts."
        )
    return kept


def _in_range(value: Any, name: str, *, low: float, allowed: str) -> float:
    """Return a number from ``low`` to below 1, else raise FrameError that says what is allowed."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not low <= value < 1:
        raise FrameError(f"overlap.calibrate: {name}: found {value!r}; allowed: {allowed}.")
    return float(value)


def _rows(sample: Sample, settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of `calibrate` for one sample; one has ``chosen`` True."""
    chooser = Chooser(sample, sample.nulls, settings.max_false_flags)
    ones = np.ones((1, sample.n_documents)), np.ones((1, sample.n_cases))
    chosen = int(chooser.choose(*ones)[0])
    rows: list[dict[str, Any]] = []
    for candidate in _shown(sample, chooser, ones):
        rows += performance(sample, settings, candidate)
    for column, n in enumerate(sample.lengths):
        rows.append(_area(sample, settings, column, n))
    rows += _nested_validation(sample, settings, chooser, chosen)
    rows += _by_null(sample, settings, ones)
    said = f"under {' and '.join(settings.nulls)} together"
    answer = _answer(sample, settings, chooser, chosen, "chosen_n", said)
    return [*rows, answer | {"chosen": True}]


def _shown(sample: Sample, chooser: Chooser, ones: Any) -> list[int]:
    """Pick, for each n, the rule ``any`` and the preferred cut of the share."""
    picked = []
    for n in sample.lengths:
        here = chooser.n == n
        picked.append(int(np.flatnonzero(here & chooser.is_any)[0]))
        by_share = int(chooser.choose(*ones, among=here & ~chooser.is_any)[0])
        if by_share >= 0:
            picked.append(by_share)
    return picked


def _row(
    sample: Sample,
    candidate: int | None,
    measure: str,
    value: Interval,
    *,
    limit: float = NAN,
    note: str = "",
) -> dict[str, Any]:
    about: dict[Any, Any] = {}
    if candidate is not None and candidate >= 0:
        about = sample.candidates.iloc[candidate].to_dict()
    # n is that of the n-gram
    told = row(measure, replace(value, note=join_notes(note, value.note)))
    return told | {"n_texts": value.n, "n": None, "limit": limit, "chosen": False} | about


def performance(sample: Sample, settings: Settings, candidate: int) -> list[dict[str, Any]]:
    """Judge one candidate: what it finds, what it flags under each null, and the other texts.

    Parameters
    ----------
    sample : Sample
        The texts by class, with their flags under every candidate.
    settings : Settings
        Limit and level.
    candidate : int
        Row of ``sample.candidates``.

    Returns
    -------
    list of dict
        Rows of :func:`calibrate`: measures ``sensitivity``, ``specificity``, ``false_flags_...``
        and ``flagged_...``.
    """
    copies = _rate(settings, sample.positive, sample.positive.flags[:, candidate])
    rows = [_row(sample, candidate, "sensitivity", copies)]
    clean = [group for group in sample.nulls if group.passages]
    if clean:
        passed = ~np.concatenate([group.flags[:, candidate] for group in clean])
        units = np.concatenate([group.units for group in clean])
        kept = bounded_mean(passed, units, quantity=RATES, ci_level=settings.ci_level)
        rows.append(_row(sample, candidate, "specificity", kept))
    for group in sample.nulls:
        rows += _false_flags(sample, settings, candidate, group)
    for group in sample.others:
        flagged = _rate(settings, group, group.flags[:, candidate])
        rows.append(_row(sample, candidate, f"flagged_{group.name}", flagged))
    return rows


def _rate(settings: Settings, group: Group, values: NDArray[Any]) -> Interval:
    return bounded_mean(values, group.units, quantity=RATES, ci_level=settings.ci_level)


def _false_flags(
    sample: Sample, settings: Settings, candidate: int, group: Group
) -> list[dict[str, Any]]:
    """Judge one candidate under one null; for passages, at the length of the answers too."""
    flagged = _rate(settings, group, group.flags[:, candidate])
    measure, limit = f"false_flags_{group.name}", settings.max_false_flags
    note = _enough(flagged, settings)
    rows = [_row(sample, candidate, measure, flagged, limit=limit, note=note)]
    if group.passages and sample.candidates["rule"].iloc[candidate] == "any":
        longer = _at_length(sample, group, candidate, flagged)
        rows.append(_row(sample, candidate, f"{measure}_at_answer_length", longer, limit=limit))
    return rows


def _enough(flagged: Interval, settings: Settings) -> str:
    """Say whether the data bound the rate at the limit, and how many clean texts would."""
    limit = settings.max_false_flags
    if not np.isfinite(flagged.high) or flagged.high <= limit or not 0 < limit < 1:
        return ""
    needed = clean_needed(limit, ci_level=settings.ci_level)
    return (
        f"{flagged.n:.0f} texts bound the rate only at {flagged.high:.1%}: a bound of {limit:.0%} "
        f"needs {needed} independent texts with none flagged"
    )


def _at_length(sample: Sample, group: Group, candidate: int, flagged: Interval) -> Interval:
    """Carry a rate from short passages to texts as long as the answers.

    Each place in a text where an n-gram can begin is given the same chance of being shared, so
    that P(flag) = 1 - exp(-chance x places); the limits are carried over in the same way.
    """
    n = int(sample.candidates["n"].iloc[candidate])
    places = np.maximum(group.tokens - n + 1, 0.0)
    target = max(sample.answer_tokens - n + 1, 0.0)
    method = f"constant chance a place, to {sample.answer_tokens:.0f} tokens; {flagged.method}"
    why = ""
    if not np.isfinite(target) or not (places > 0).any():
        why = "no answers whose length could be matched"
    elif flagged.high >= np.mean(places > 0):
        why = "passages too short to carry the rate over"
    if why:
        return undefined(method, why, ci_level=flagged.ci_level, n=flagged.n)

    def carried(rate: float) -> float:
        if rate <= 0:
            return 0.0
        top = 50.0 / places[places > 0].min()
        chance = brentq(lambda c: np.mean(-np.expm1(-c * places)) - rate, 0.0, top)
        return float(-np.expm1(-chance * target))

    estimate, low, high = map(carried, (flagged.estimate, flagged.low, flagged.high))
    note, counts = "modelled: longer texts share more", (flagged.n, flagged.n_clusters)
    return Interval(estimate, low, high, flagged.ci_level, method, note, *counts)


def _area(sample: Sample, settings: Settings, column: int, n: int) -> dict[str, Any]:
    """Area under the ROC curve of the share, copies against the passages of the nulls."""
    clean = [group for group in sample.nulls if group.passages] or list(sample.nulls)
    groups = [sample.positive, *clean]
    labels = np.repeat([1, *[0] * len(clean)], [len(g.units) for g in groups])
    share = np.concatenate([g.share[:, column] for g in groups])
    units = np.concatenate([g.units if g.passages else g.units + sample.n_documents
                            for g in groups])  # fmt: skip
    value = bootstrap_auc(
        labels, share, clusters=units, n_resamples=settings.n_resamples, seed=settings.seed,
        ci_level=settings.ci_level,
    )  # fmt: skip
    return _row(sample, None, "auc", value) | {"rule": "share", "n": n}


def _nested_validation(
    sample: Sample, settings: Settings, chooser: Chooser, chosen: int
) -> list[dict[str, Any]]:
    """Judge the choice on documents and cases that it was not made on (nested, repeated)."""
    few = min(sample.n_documents, *([sample.n_cases] if sample.n_cases else []))
    names = ["sensitivity", *(f"false_flags_{group.name}" for group in sample.nulls)]
    method = f"nested cross-validation, {N_SPLITS} folds of documents and of cases, "
    method += f"{N_REPEATS} repeats, seed {settings.seed}"
    if few < 2 * N_SPLITS:
        note = f"{few} documents or cases are too few for {N_SPLITS} folds"
        none = undefined(method, note, ci_level=settings.ci_level)
        return [_row(sample, chosen, f"nested_{name}", none) for name in names]
    flagged, judged, left_out = _held_out(sample, settings, chooser)
    note = f"{left_out} of {N_SPLITS * N_REPEATS} folds left out: no candidate kept the limit"
    rows = []
    for name, found, times, group in zip(names, flagged, judged, chooser.groups, strict=True):
        some = times > 0
        shares, units = found[some] / times[some], group.units[some]
        value = bounded_mean(shares, units, quantity=RATES, ci_level=settings.ci_level)
        words = f"{method}; {note}" if left_out else method
        rows.append(_row(sample, chosen, f"nested_{name}", value, note=words))
    return rows


def _held_out(
    sample: Sample, settings: Settings, chooser: Chooser
) -> tuple[list[NDArray[Any]], list[NDArray[Any]], int]:
    """Return, by group, how often each text was flagged and judged while left out of the choice.

    The third is the number of folds in which no candidate kept the limit; they judge nothing.
    """
    flagged = [np.zeros(len(group.units)) for group in chooser.groups]
    judged = [np.zeros(len(group.units)) for group in chooser.groups]
    left_out = 0
    for repeat in range(N_REPEATS):
        seed = settings.seed + repeat
        folds = [_folds(sample.n_documents, seed), _folds(sample.n_cases, seed)]
        for fold in range(N_SPLITS):
            train = [(f != fold).astype(float)[None, :] for f in folds]
            picked = int(chooser.choose(*train)[0])
            if picked < 0:
                left_out += 1
                continue
            for index, group in enumerate(chooser.groups):
                held = (folds[0] if group.passages else folds[1])[group.units] == fold
                flagged[index][held] += group.flags[held, picked]
                judged[index][held] += 1
    return flagged, judged, left_out


def _folds(n_units: int, seed: int) -> NDArray[np.intp]:
    fold = np.zeros(n_units, dtype=np.intp)
    if n_units >= N_SPLITS:
        splitter = KFold(N_SPLITS, shuffle=True, random_state=seed)
        for number, (_, held) in enumerate(splitter.split(np.zeros((n_units, 1)))):
            fold[held] = number
    return fold


def _by_null(sample: Sample, settings: Settings, ones: Any) -> list[dict[str, Any]]:
    """Say what the answer would be under each null alone."""
    rows = []
    for group in sample.nulls:
        alone = Chooser(sample, [group], settings.max_false_flags)
        chosen, said = int(alone.choose(*ones)[0]), f"under the null '{group.name}' alone"
        rows.append(_answer(sample, settings, alone, chosen, f"chosen_n_{group.name}", said))
    return rows


def _answer(
    sample: Sample, settings: Settings, chooser: Chooser, chosen: int, measure: str, note: str
) -> dict[str, Any]:
    """One choice with the spread of n over resampled documents and cases."""
    limit, level = settings.max_false_flags, settings.ci_level
    method = f"most sensitivity with false flags at most {limit:g} under each null; bootstrap of "
    method += f"documents and cases, {settings.n_resamples} resamples, seed {settings.seed}"
    if chosen < 0:
        why = f"{note}: no n and rule keeps the false flags within {limit:g} and finds a copy"
        return _row(sample, None, measure, undefined(method, why, ci_level=level))
    picked = _again(sample, settings, chooser)
    kept = picked[picked >= 0]
    again = chooser.n[kept]
    low = high = NAN
    words, few = [note, chooser.at_the_end(chosen)], _few(chooser)
    if kept.size:
        same = float(np.mean(again == chooser.n[chosen]))
        any_share = float(np.mean(chooser.is_any[kept]))
        words.append(f"chosen again in {same:.0%} of the resamples (rule 'any' in {any_share:.0%})")
    if kept.size and not few:
        tail = (1 - level) / 2
        low, high = np.quantile(again, [tail, 1 - tail], method="inverted_cdf")
    if kept.size < picked.size:
        words.append(f"{picked.size - kept.size} resamples in which nothing kept the limit")
    # n is a whole number: half a step to each side, so that the interval never has zero width
    value = Interval(
        float(chooser.n[chosen]), float(low) - 0.5, float(high) + 0.5, ci_level=level,
        method=method, n=float(sum(len(g.units) for g in chooser.groups)),
        n_clusters=float(sample.n_documents + sample.n_cases),
    )  # fmt: skip
    return _row(sample, chosen, measure, value, note=join_notes(*words, few))


def _again(sample: Sample, settings: Settings, chooser: Chooser) -> NDArray[np.intp]:
    """Choose again in every resample of documents and cases."""
    rng = np.random.default_rng(settings.seed)
    draws = [
        rng.multinomial(size, np.full(size, 1 / size), settings.n_resamples).astype(float)
        if size else np.zeros((settings.n_resamples, 0))
        for size in (sample.n_documents, sample.n_cases)
    ]  # fmt: skip
    starts = range(0, settings.n_resamples, BLOCK)
    return np.concatenate(
        [chooser.choose(draws[0][at : at + BLOCK], draws[1][at : at + BLOCK]) for at in starts]
    )


def _few(chooser: Chooser) -> str:
    """Name the class with too few units for the bootstrap to show how unsure the choice is."""
    counts = [len(np.unique(group.units)) for group in chooser.groups]
    fewest = int(np.argmin(counts))
    if counts[fewest] >= FEW_UNITS:
        return ""
    group = chooser.groups[fewest]
    unit = "documents" if group.passages else "cases"
    name = "copies" if fewest == 0 else f"'{group.name}'"
    return (
        f"no limits: {name} come from {counts[fewest]} {unit}, and a bootstrap of fewer than "
        f"{FEW_UNITS} is falsely sure"
    )
