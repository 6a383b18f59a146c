"""What a calibration says of each candidate: rates with intervals, nested checks, the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.model_selection import KFold

from skillcomp.overlap.sample import Chooser, Group, Sample, Settings
from skillcomp.stats.detection import bootstrap_auc
from skillcomp.stats.results import NAN, Interval, undefined
from skillcomp.stats.thresholds import clean_needed, rate_by_document

__all__ = ["calibration_rows"]

N_SPLITS, N_REPEATS = 5, 10  # of the nested cross-validation
FEW_UNITS = 10  # documents or cases of a class below which resampling them shows too little
BLOCK = 250  # resamples worked on at once


def calibration_rows(sample: Sample, settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of :func:`skillcomp.overlap.calibrate` for one sample.

    Parameters
    ----------
    sample : Sample
    settings : Settings

    Returns
    -------
    list of dict
        In the shape of :data:`skillcomp.overlap.calibration.COLUMNS`; one has ``chosen`` True.
    """
    chooser = Chooser(sample, sample.nulls, settings.max_false_flags)
    ones = np.ones((1, sample.n_documents)), np.ones((1, sample.n_cases))
    chosen = int(chooser.choose(*ones)[0])
    rows: list[dict[str, Any]] = []
    for candidate in _shown(sample, chooser, ones):
        rows += _performance(sample, settings, candidate)
    for column, n in enumerate(sample.lengths):
        rows.append(_area(sample, settings, column, n))
    rows += _optimism(sample, settings, chooser, chosen)
    rows += _by_null(sample, settings, ones)
    rows.append(_chosen(sample, settings, chooser, chosen))
    return rows


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
    chosen: bool = False,
    note: str = "",
) -> dict[str, Any]:
    about: dict[Any, Any] = {"rule": None, "n": None, "cut": NAN}
    if candidate is not None and candidate >= 0:
        about = sample.candidates.iloc[candidate].to_dict()
    return {
        **about,
        "measure": measure,
        "estimate": value.estimate,
        "ci_low": value.low,
        "ci_high": value.high,
        "ci_level": value.ci_level,
        "n_texts": value.n,
        "n_clusters": value.n_clusters,
        "limit": limit,
        "chosen": chosen,
        "method": value.method,
        "note": "; ".join(filter(None, [note, value.note])),
    }


def _performance(sample: Sample, settings: Settings, candidate: int) -> list[dict[str, Any]]:
    """Judge one candidate: what it finds, what it flags under each null, and the other texts."""
    copies = _rate(settings, sample.positive, sample.positive.flags[:, candidate])
    rows = [_row(sample, candidate, "sensitivity", copies)]
    clean = [group for group in sample.nulls if group.passages]
    if clean:
        joined = Group(
            "negative", True, *(np.concatenate([getattr(g, name) for g in clean])
                                for name in ("flags", "share", "units", "tokens"))
        )  # fmt: skip
        kept = _rate(settings, joined, ~joined.flags[:, candidate])
        rows.append(_row(sample, candidate, "specificity", kept))
    for group in sample.nulls:
        rows += _false_flags(sample, settings, candidate, group)
    for group in sample.others:
        flagged = _rate(settings, group, group.flags[:, candidate])
        rows.append(_row(sample, candidate, f"flagged_{group.name}", flagged))
    return rows


def _rate(settings: Settings, group: Group, values: NDArray[Any]) -> Interval:
    return rate_by_document(values.astype(float), group.units, ci_level=settings.ci_level)


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
    if not np.isfinite(target) or not (places > 0).any():
        return undefined(
            method,
            "no answers whose length could be matched",
            ci_level=flagged.ci_level,
            n=flagged.n,
        )
    if places.max() <= 0 or flagged.high >= np.mean(places > 0):
        return undefined(
            method,
            "passages too short to carry the rate over",
            ci_level=flagged.ci_level,
            n=flagged.n,
        )

    def carried(rate: float) -> float:
        if rate <= 0:
            return 0.0
        top = 50.0 / places[places > 0].min()
        chance = brentq(lambda c: np.mean(-np.expm1(-c * places)) - rate, 0.0, top)
        return float(-np.expm1(-chance * target))

    return Interval(
        carried(flagged.estimate),
        carried(flagged.low),
        carried(flagged.high),
        ci_level=flagged.ci_level,
        method=method,
        note="modelled: longer texts share more",
        n=flagged.n,
        n_clusters=flagged.n_clusters,
    )


def _area(sample: Sample, settings: Settings, column: int, n: int) -> dict[str, Any]:
    """Area under the ROC curve of the share, copies against the passages of the nulls."""
    clean = [group for group in sample.nulls if group.passages] or list(sample.nulls)
    groups = [sample.positive, *clean]
    labels = np.repeat([1, *[0] * len(clean)], [len(g.units) for g in groups])
    share = np.concatenate([g.share[:, column] for g in groups])
    units = np.concatenate([g.units if g.passages else g.units + sample.n_documents
                            for g in groups])  # fmt: skip
    value = bootstrap_auc(
        labels, share, groups=units, n_resamples=settings.n_resamples, seed=settings.seed,
        ci_level=settings.ci_level,
    )  # fmt: skip
    return _row(sample, None, "auc", value) | {"rule": "share", "n": n}


def _optimism(
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
        value = rate_by_document(
            found[some] / times[some], group.units[some], ci_level=settings.ci_level
        )
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
        rows.append(
            _answer(
                sample,
                settings,
                alone,
                int(alone.choose(*ones)[0]),
                f"chosen_n_{group.name}",
                f"under the null '{group.name}' alone",
            )
        )
    return rows


def _chosen(sample: Sample, settings: Settings, chooser: Chooser, chosen: int) -> dict[str, Any]:
    names = " and ".join(settings.nulls)
    row = _answer(sample, settings, chooser, chosen, "chosen_n", f"under {names} together")
    return row | {"chosen": True}


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
    words, few = [note], _few(chooser)
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
    return _row(sample, chosen, measure, value, note="; ".join(filter(None, [*words, few])))


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
