"""Classes of texts for a calibration, candidate rules, and the choice of one candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, instead
from skillcomp.frames.case_table import clusters_of
from skillcomp.stats.results import NAN

Floats = NDArray[np.float64]
# Largest number of cuts that are tried for each n. A text is flagged if its share of shared n-grams
# is at least the cut.
MAX_CUTS = 200
TIE = 1e-12  # rates that differ by less than this count as equal


@dataclass(frozen=True)
class Settings:
    """Checked arguments of `calibrate`."""

    positive: tuple[str, ...]
    nulls: tuple[str, ...]
    max_false_flags: float
    ci_level: float
    n_resamples: int
    seed: int


@dataclass(frozen=True)
class Group:
    """Texts of one class, with their flags under each candidate.

    Attributes
    ----------
    name : str
        ``positive``, or the name of the level or condition.
    passages : bool
        True for passages (units are documents), False for attempts (units are cases).
    flags : ndarray of bool, shape (texts, candidates)
        Whether each candidate flags the text.
    share : ndarray of float, shape (texts, lengths)
        For each text and length, the share of its n-grams that are shared.
    units : ndarray of int, shape (texts,)
        Code of the document or case of each text.
    tokens : ndarray of float, shape (texts,)
        Number of content tokens of each text.
    """

    name: str
    passages: bool
    flags: NDArray[np.bool_]
    share: Floats
    units: NDArray[np.intp]
    tokens: Floats


@dataclass(frozen=True)
class Sample:
    """Rules that could flag copies, and groups of texts with the flags that each rule gives them.

    Attributes
    ----------
    candidates : pandas.DataFrame
        The candidate rules, in order of preference. Columns rule, n and cut; sorted by rule
        (``any`` before ``share``), n (descending) and cut (ascending).
    lengths : tuple of int
        Lengths of n-grams, ascending.
    positive : Group
        Passages that copy.
    nulls, others : tuple of Group
        The nulls are groups of texts that cannot have copied; the limit on false positives applies
        to them. The others are the groups of all remaining levels and conditions.
    n_documents, n_cases : int
        Number of documents of the passages, and number of cases of the attempts.
    answer_tokens : float
        Median number of content tokens of the answers that belong to no null group; NaN if there
        are no such answers.
    """

    candidates: pd.DataFrame
    lengths: tuple[int, ...]
    positive: Group
    nulls: tuple[Group, ...]
    others: tuple[Group, ...]
    n_documents: int
    n_cases: int
    answer_tokens: float

    def n_units(self, group: Group) -> int:
        """Return the number of documents (for passages) or of cases (for attempts)."""
        return self.n_documents if group.passages else self.n_cases


def make_sample(shared: pd.DataFrame, settings: Settings) -> Sample:
    """Sort scored attempts and passages into classes, and list the candidate rules.

    Parameters
    ----------
    shared : pandas.DataFrame
        Rows of :func:`skillcomp.overlap.score` for attempts and passages together.
    settings : Settings
        Settings with the levels that copy, and the levels or conditions that are nulls.

    Returns
    -------
    Sample
        Candidates, and the texts of every class.

    Raises
    ------
    FrameError
        If no text has a level or condition in the settings, or if one is both positive and a null.
    """
    names = shared["level"].where(shared["kind"].eq("passage"), shared["condition"])
    scored = shared[shared["any_shared"].notna() & names.notna()].assign(name=names)
    _require_names(settings, scored)
    scored = scored.assign(
        text=scored["passage_id"].where(scored["kind"].eq("passage"), scored["attempt_id"]),
        any=scored["any_shared"].astype("float64"),
        # a text without a share is too short for an n-gram, so it shares none
        share=scored["share"].fillna(0.0),
    )
    keys = ["kind", "name", "text"]
    wide = scored.pivot(index=keys, columns="n", values=["any", "share"])
    about = scored.drop_duplicates(keys).set_index(keys).loc[wide.index]
    lengths = tuple(int(n) for n in wide["any"].columns)
    positive = wide.index.get_level_values("name").isin(settings.positive)
    passages = wide.index.get_level_values("kind") == "passage"
    share, any_ = wide["share"].to_numpy(), wide["any"].to_numpy() > 0
    null = wide.index.get_level_values("name").isin(settings.nulls)
    candidates = _list_candidates(lengths, share, positive | null)
    flags = _flag_matrix(candidates, lengths, any_, share)
    document = about["document"].fillna(about["passage_id"])
    codes = pd.factorize(document)[0]
    codes[~passages] = clusters_of(about[~passages])
    tokens = about["n_tokens"].to_numpy(dtype=float)

    def group(name: str, mask: NDArray[np.bool_]) -> Group:
        of_passages = bool(passages[mask].all())
        return Group(name, of_passages, flags[mask], share[mask], codes[mask], tokens[mask])

    level = wide.index.get_level_values("name").to_numpy()
    rest = [n for n in dict.fromkeys(level) if n not in (*settings.nulls, *settings.positive)]
    answers = ~passages & ~np.isin(level, settings.nulls)
    return Sample(
        candidates,
        lengths,
        group("positive", positive),
        tuple(group(name, level == name) for name in settings.nulls),
        tuple(group(name, level == name) for name in rest),
        int(codes[passages].max(initial=-1)) + 1,
        int(codes[~passages].max(initial=-1)) + 1,
        float(np.median(tokens[answers])) if answers.any() else NAN,
    )


def _require_names(settings: Settings, scored: pd.DataFrame) -> None:
    levels = set(scored.loc[scored["kind"].eq("passage"), "name"])
    there = [*sorted(levels), *sorted(set(scored["name"]) - levels)]
    for what, names, allowed in (
        ("positive", settings.positive, sorted(levels)),
        ("nulls", settings.nulls, there),
    ):
        for name in names:
            if name not in allowed:
                raise FrameError(
                    f"overlap.calibrate: {what} names '{name}', which no text has"
                    + instead(name, allowed, label="there")
                )
    both = sorted(set(settings.positive) & set(settings.nulls))
    if both:
        raise FrameError(f"overlap.calibrate: '{both[0]}' is named as positive and as a null.")


def _list_candidates(
    lengths: Sequence[int], share: Floats, judged: NDArray[np.bool_]
) -> pd.DataFrame:
    """List the candidate rules in the order that `Sample.candidates` describes."""
    rows = [("any", n, NAN) for n in reversed(lengths)]
    for column, n in reversed(list(enumerate(lengths))):
        values = np.unique(share[judged, column])
        middle = (values[1:] + values[:-1]) / 2
        if len(middle) > MAX_CUTS:
            middle = np.unique(np.quantile(middle, np.linspace(0, 1, MAX_CUTS)))
        rows += [("share", n, float(cut)) for cut in middle]
    return pd.DataFrame(rows, columns=["rule", "n", "cut"])


def _flag_matrix(
    candidates: pd.DataFrame, lengths: Sequence[int], any_: NDArray[np.bool_], share: Floats
) -> NDArray[np.bool_]:
    column = np.searchsorted(lengths, candidates["n"].to_numpy())
    by_share = share[:, column] >= candidates["cut"].fillna(np.inf).to_numpy()
    return np.where(candidates["rule"].eq("any").to_numpy(), any_[:, column], by_share)


class Chooser:
    """Choice of a candidate rule, for given weights of documents and cases.

    A null is a group of texts that cannot have copied. The preferred candidate is the most
    sensitive of those that keep the limit on false flags in every null. If several tie, ``any`` is
    preferred to ``share``. Among tied ``any`` candidates, the one with the longest n is preferred.
    Among tied ``share`` candidates, the one with the lowest rate in its worst null is preferred,
    then the one with the longest n, then the middle of the remaining cuts.
    """

    def __init__(self, sample: Sample, nulls: Sequence[Group], limit: float) -> None:
        self.limit = limit
        self.groups = [sample.positive, *nulls]
        self.tables = [_counts_by_unit(group, sample.n_units(group)) for group in self.groups]
        self.is_any = sample.candidates["rule"].eq("any").to_numpy()
        self.n: NDArray[np.int64] = sample.candidates["n"].to_numpy(dtype=np.int64)

    def rates(self, documents: Floats, cases: Floats) -> list[Floats]:
        """For each group, return the share of flagged texts: weights x candidates.

        There is one row for each row of ``documents`` and ``cases``, which hold weights.
        """
        rates = []
        for group, (flagged, texts) in zip(self.groups, self.tables, strict=True):
            weights = documents if group.passages else cases
            with np.errstate(invalid="ignore", divide="ignore"):
                rates.append((weights @ flagged) / (weights @ texts)[:, None])
        return rates

    def choose(
        self, documents: Floats, cases: Floats, *, among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.intp]:
        """Return the preferred candidate for each row of weights.

        It is -1 if no candidate that keeps the limit finds a copy. `among` marks the candidates to
        choose from; by default all are.
        """
        sensitivity, *nulls = self.rates(documents, cases)
        worst = np.max(nulls, axis=0)
        allowed = (worst <= self.limit) & np.isfinite(sensitivity)
        if among is not None:
            allowed &= among
        gain = np.where(allowed, sensitivity, -1.0)
        usable = gain.max(axis=1) > 0
        tied = gain >= gain.max(axis=1, keepdims=True) - TIE
        # Of tied candidates, argmax takes the first, which has the longest n because of their
        # order.
        picked = np.argmax(tied & self.is_any, axis=1)
        by_share = np.flatnonzero(usable & ~(tied & self.is_any).any(axis=1))
        if by_share.size:
            picked[by_share] = self._middle_cut(tied[by_share], worst[by_share])
        return np.where(usable, picked, -1)

    def at_the_end(self, chosen: int) -> str:
        """Return a note if the longest n was chosen although a shorter one has equal rates."""
        if self.n[chosen] < self.n.max() or not self.is_any[chosen]:
            return ""
        sensitivity, *nulls = (flagged.sum(0) / texts.sum() for flagged, texts in self.tables)
        alike = self.is_any & (np.max(nulls, axis=0) <= self.limit)
        alike &= sensitivity >= sensitivity[chosen] - TIE
        shortest = int(self.n[alike].min())
        if shortest == self.n[chosen]:
            return ""
        return (
            f"n = {shortest} to {self.n[chosen]} do equally well, and the longest offered is "
            "taken: offer longer ones to see where copies are lost"
        )

    def _middle_cut(self, tied: NDArray[np.bool_], worst: Floats) -> NDArray[np.intp]:
        worst = np.where(tied, worst, np.inf)
        best = tied & (worst <= worst.min(axis=1, keepdims=True) + TIE)
        best &= self.n == np.where(best, self.n, 0).max(axis=1, keepdims=True)
        place = best.sum(axis=1, keepdims=True) // 2 + 1
        middle = best.cumsum(axis=1) == place
        return np.asarray(np.argmax(middle, axis=1))


def _counts_by_unit(group: Group, n_units: int) -> tuple[Floats, Floats]:
    flagged = np.zeros((n_units, group.flags.shape[1]))
    np.add.at(flagged, group.units, group.flags.astype(np.float64))
    return flagged, np.bincount(group.units, minlength=n_units).astype(np.float64)
