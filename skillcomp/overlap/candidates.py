"""Classes of texts for a calibration, candidate rules, and the choice of one candidate.

A text with fewer than n tokens is too short to judge at this n. If it is a copy, it counts as
missed. Otherwise it is left out of the rates at this n.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from skillcomp.errors import FrameError, instead
from skillcomp.frames.estimates import check_settings, clusters_of, listed
from skillcomp.stats.bounded_studies import upper_limits_of_rates
from skillcomp.stats.results import NAN, Bools, Floats, Indices

# Largest number of cuts that are tried for each n. A text is flagged if its share of shared n-grams
# is at least the cut.
MAX_CUTS = 200
# default levels of passages that copy, and default classes of texts that do not copy
COPIES, NULLS = ("verbatim", "near_copy", "copied"), ("baseline", "fresh")
TIE = 1e-12  # rates that differ by less than this count as equal


@dataclass(frozen=True)
class Settings:
    """Arguments of `calibrate`; FrameError is raised if a value is not allowed."""

    positive: tuple[str, ...]
    nulls: tuple[str, ...]
    max_false_flags: float = 0.05
    ci_level: float = 0.95
    n_resamples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        for what, names in (("positive", self.positive), ("nulls", self.nulls)):
            if not names:
                raise FrameError(
                    f"overlap.calibrate: {what}: found none; allowed: at least one name of a level "
                    "or condition of these texts."
                )
        check_settings("overlap.calibrate", self.ci_level, self.n_resamples, self.seed)
        if self.seed >= 2**31:  # the folds accept no larger seed
            raise FrameError(f"overlap.calibrate: seed: found {self.seed}; allowed: below 2**31.")
        limit: Any = self.max_false_flags
        number = isinstance(limit, Real) and not isinstance(limit, bool)
        if not number or not 0 <= limit < 1:
            place = "overlap.calibrate: max_false_flags"
            raise FrameError(f"{place}: found {limit!r}; allowed: 0 to below 1.")


class Group(NamedTuple):
    """Texts of one class, with their flags under each candidate.

    Attributes
    ----------
    name : str
        ``positive``, or the name of the level or condition.
    passages : bool
        True for passages (units are documents), False for attempts (units are cases).
    flags : ndarray of bool, shape (texts, candidates)
        Whether each candidate flags the text; False if the text is too short.
    share : ndarray of float, shape (texts, lengths)
        For each text and length, the share of the text's n-grams that also occur in the skill; 0 if
        the text has no n-gram.
    judged : ndarray of bool, shape (texts, lengths)
        Whether the text counts in a rate at this length. A copy always counts.
    units : ndarray of int, shape (texts,)
        Code of the document or case of each text.
    tokens : ndarray of float, shape (texts,)
        Number of content tokens of each text.
    made_up : bool
        True if some texts are made up by :func:`skillcomp.overlap.positives`.
    """

    name: str
    passages: bool
    flags: Bools
    share: Floats
    judged: Bools
    units: Indices
    tokens: Floats
    made_up: bool = False


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
    settings : Settings
        The arguments of the calibration.
    positive : Group
        Passages that copy.
    nulls, others : tuple of Group
        The nulls are groups of texts that do not copy; the limit on false flags applies to them.
        The others are the groups of all remaining levels and conditions.
    n_documents, n_cases : int
        Number of documents of the passages, and number of cases of the attempts.
    answers : ndarray of float
        Number of content tokens of each answer that belongs to no null group.
    limits : dict of bytes to float
        Cache of the upper limits of rates of false flags. A key is the bytes of two arrays: the
        kinds of units, and the number of units of each kind (see `Chooser._upper_limits`).
    """

    candidates: pd.DataFrame
    lengths: tuple[int, ...]
    settings: Settings
    positive: Group
    nulls: tuple[Group, ...]
    others: tuple[Group, ...]
    n_documents: int
    n_cases: int
    answers: Floats
    limits: dict[bytes, float] = field(default_factory=dict)

    def column(self, candidate: int) -> int:
        """Return the position of the candidate's n among the lengths."""
        return self.lengths.index(self.candidates["n"].iloc[candidate])

    @cached_property
    def longest(self) -> Group:
        """The null with the longest texts."""
        return max(self.nulls, key=lambda group: group.tokens.mean())

    @property
    def at_tokens(self) -> float:
        """Mean number of tokens of the texts at whose length the limit on false flags is kept."""
        return float(
            max(group.mean() for group in (self.longest.tokens, self.answers) if len(group))
        )

    def places(self, tokens: Floats, n: int) -> Floats:
        """Return the number of n-grams of each text that is long enough to have one."""
        return tokens[tokens >= n] - n + 1

    def limit_of(self, group: Group, n: int) -> float:
        """Return the largest rate of false flags that is allowed among the texts of a null.

        The limit is meant for texts as long as the answers, and the null with the longest texts has
        to show that it is kept there. If the answers are longer, the rate of this null must be so
        small that it grows only to the limit (see `carried_rate`).
        """
        limit: float = self.settings.max_false_flags
        longer, own = self.places(self.answers, n), self.places(group.tokens, n)
        if group.name != self.longest.name or not len(longer) or not len(own):
            return limit
        return min(limit, carried_rate(limit, longer, own))


def carried_rate(rate: float, places: Floats, target: Floats) -> float:
    """Carry the rate of flagged texts over to texts of another length.

    Every place at which an n-gram can begin is assumed to flag a text with the same chance, so that
    P(flag) = 1 - exp(-chance x places). `places` and `target` have the number of places of each
    text. If texts differ in their chances, or if flags at near places go together, longer texts are
    flagged less often than this; so they are by a cut of the share.
    """
    if rate <= 0:
        return 0.0
    top = 50.0 / places.min()
    chance = brentq(lambda c: np.mean(-np.expm1(-c * places)) - rate, 0.0, top)
    return float(np.mean(-np.expm1(-chance * target)))


def existing_names(
    names: str | Sequence[str] | None, defaults: Sequence[str], there: Collection[str]
) -> tuple[str, ...]:
    """Return ``names`` as a tuple; if ``names`` is None, return the defaults that exist."""
    if names is None:
        return tuple(name for name in defaults if name in there)
    return tuple(listed(names))


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
        If no text has a level or condition in the settings, or if a name in the settings is both
        positive and a null.
    """
    names = shared["level"].where(shared["kind"].eq("passage"), shared["condition"])
    scored = shared[shared["n_tokens"].notna() & names.notna()].assign(name=names)
    _require_names(settings, scored)
    scored = scored.assign(
        text=scored["passage_id"].where(scored["kind"].eq("passage"), scored["attempt_id"]),
        any=scored["any_shared"].fillna(False).astype("float64"),
        share=scored["share"].fillna(0.0),
        long=(scored["any_shared"].notna() & scored["n_tokens"].ge(scored["n"])).astype("float64"),
    )
    keys = ["kind", "name", "text"]
    wide = scored.pivot(index=keys, columns="n", values=["any", "share", "long"])
    about = scored.drop_duplicates(keys).set_index(keys).loc[wide.index]
    lengths = tuple(int(n) for n in wide["any"].columns)
    level = wide.index.get_level_values("name").to_numpy()
    positive, null = np.isin(level, settings.positive), np.isin(level, settings.nulls)
    passages = wide.index.get_level_values("kind") == "passage"
    long = wide["long"].to_numpy() > 0
    share, any_ = np.where(long, wide["share"].to_numpy(), 0.0), (wide["any"].to_numpy() > 0) & long
    made_up = about["made_up"].eq(True).fillna(False).to_numpy(bool)
    candidates = _list_candidates(lengths, share, positive | null)
    if (made_up & positive).any():
        # drop the rule `share`: its best cut would reflect how the made-up copies were generated
        candidates = candidates[candidates["rule"].eq("any")]
    column = np.searchsorted(lengths, candidates["n"])
    by_share = share[:, column] >= candidates["cut"].fillna(np.inf).to_numpy()
    flags = np.where(candidates["rule"].eq("any"), any_[:, column], by_share)
    codes = pd.factorize(about["document"].fillna(about["passage_id"]))[0]
    codes[~passages] = clusters_of(about[~passages])
    tokens = about["n_tokens"].to_numpy(float)

    def group(name: str, mask: Bools) -> Group:
        of_passages = bool(passages[mask].all())
        judged = long[mask] | (name == "positive")
        facts = flags[mask], share[mask], judged, codes[mask], tokens[mask]
        return Group(name, of_passages, *facts, bool(made_up[mask].any()))

    rest = [n for n in dict.fromkeys(level) if n not in (*settings.nulls, *settings.positive)]
    return Sample(
        candidates,
        lengths,
        settings,
        group("positive", positive),
        tuple(group(name, level == name) for name in settings.nulls),
        tuple(group(name, level == name) for name in rest),
        codes[passages].max(initial=-1) + 1,
        codes[~passages].max(initial=-1) + 1,
        tokens[~passages & ~null],
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
                    + instead(name, allowed)
                )
    both = sorted(set(settings.positive) & set(settings.nulls))
    if both:
        raise FrameError(f"overlap.calibrate: '{both[0]}' is named as positive and as a null.")


def _list_candidates(lengths: Sequence[int], share: Floats, judged: Bools) -> pd.DataFrame:
    """List the candidate rules in the order that `Sample.candidates` describes."""
    rows = [("any", n, NAN) for n in reversed(lengths)]
    for column, n in reversed(list(enumerate(lengths))):
        values = np.unique(share[judged, column])
        middle = (values[1:] + values[:-1]) / 2
        if len(middle) > MAX_CUTS:
            middle = np.unique(np.quantile(middle, np.linspace(0, 1, MAX_CUTS)))
        rows += [("share", n, cut) for cut in middle]
    return pd.DataFrame(rows, columns=["rule", "n", "cut"])


class Chooser:
    """Choice of a candidate rule, for given weights of documents and cases.

    A null is a group of texts that do not copy. The limit is the largest allowed rate of false
    flags (``limit``). A candidate keeps the limit if, in every null, the upper end of the
    confidence interval of its rate of false flags is not above the limit of this null, which is
    smaller if its texts are shorter than the answers (`Sample.limit_of`). The candidates of each
    rule (``any``, ``share``) are tried from the longest n down, and the strictest cut first, until
    one does not keep the limit; the candidates before it are allowed. Because of this order, the
    number of candidates does not matter: a rule exceeds the limit as rarely as if only one interval
    were computed.

    The preferred candidate is the most sensitive of those allowed. If several tie, ``any`` is
    preferred to ``share``. Among tied ``any`` candidates, the one with the longest n is preferred.
    Among tied ``share`` candidates, the one with the lowest rate in its worst null is preferred,
    then the one with the longest n, then the middle of the remaining cuts.

    With made-up copies, the shortest n that keeps the limit is preferred, regardless of the share
    of copies that it finds: the choice depends only on the nulls.
    """

    def __init__(self, sample: Sample, nulls: Sequence[Group]) -> None:
        self.sample, self.limit = sample, sample.settings.max_false_flags
        self.groups = [sample.positive, *nulls]
        self.is_any = sample.candidates["rule"].eq("any").to_numpy()
        self.n: NDArray[np.int64] = sample.candidates["n"].to_numpy(dtype=np.int64)
        self.column = np.searchsorted(sample.lengths, self.n)
        self.tables = [
            _counts_by_unit(
                group, self.column, sample.n_documents if group.passages else sample.n_cases
            )
            for group in self.groups
        ]
        self.limits = np.array([[sample.limit_of(g, n) for n in sample.lengths] for g in nulls])
        self.whole = np.ones((1, sample.n_documents)), np.ones((1, sample.n_cases))
        cut = sample.candidates["cut"].fillna(np.inf).to_numpy()
        order = np.lexsort([-cut, -self.n])
        self.steps = [self._equal_candidates(order[self.is_any[order] == r]) for r in (True, False)]

    def _equal_candidates(self, order: Indices) -> list[Indices]:
        """Group neighbouring candidates if they have the same n and the same flags in all nulls."""
        if not len(order):
            return []
        facts = [self.n[None, order], *(flagged[:, order] for flagged, _ in self.tables[1:])]
        columns = np.concatenate(facts)
        new = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
        return list(np.split(order, np.flatnonzero(new) + 1))

    def rates(self, documents: Floats, cases: Floats) -> list[Floats]:
        """For each group, return the share of flagged texts, one column per candidate.

        ``documents`` and ``cases`` hold weights, one row per resample. Row i of the result uses
        row i of ``documents`` for passages and of ``cases`` for attempts. A rate is NaN if the
        group has no text that is long enough.
        """
        rates = []
        for group, (flagged, texts) in zip(self.groups, self.tables, strict=True):
            weights = documents if group.passages else cases
            with np.errstate(invalid="ignore", divide="ignore"):
                rates.append((weights @ flagged) / (weights @ texts)[:, self.column])
        return rates

    def keeps_limit(self, documents: Floats, cases: Floats) -> Bools:
        """Return a table: whether a candidate (column) is allowed in a resample (row).

        A row of ``documents`` and ``cases`` has the weights of one resample. The upper limits of a
        resample are computed for as many documents and cases as the whole sample has, even if the
        resample leaves some of them out.
        """
        allowed = np.zeros((len(documents), len(self.n)), dtype=bool)
        for steps in self.steps:
            going = np.arange(len(documents))
            for candidates in steps:
                column = self.column[candidates[0]]
                if not all(texts[:, column].any() for _, texts in self.tables[1:]):
                    continue  # every text of a null is too short for this n
                keeps = self._keep_alone(documents[going], cases[going], candidates[0])
                going = going[keeps]
                if not len(going):
                    break
                allowed[going[:, None], candidates] = True
        return allowed

    def _keep_alone(self, documents: Floats, cases: Floats, candidate: int) -> Bools:
        """Return, for each row of weights, whether a candidate keeps the limit in every null."""
        keeps = np.ones(len(documents), dtype=bool)
        column = self.column[candidate]
        limits = self.limits[:, column] + TIE
        for group, limit, table in zip(self.groups[1:], limits, self.tables[1:], strict=True):
            flagged, texts = table
            weights = documents if group.passages else cases
            sizes = texts[:, column]
            used = np.flatnonzero(sizes)
            kinds = np.stack([flagged[used, candidate], sizes[used]], axis=1)
            kinds, kind_of = np.unique(kinds, axis=0, return_inverse=True)
            counts = weights[:, used] @ np.eye(len(kinds))[kind_of.ravel()]
            total = counts.sum(axis=1, keepdims=True)
            rate = (counts @ kinds[:, 0]) / np.maximum(counts @ kinds[:, 1], TIE)
            at = np.flatnonzero(keeps & (total[:, 0] > 0) & (rate <= limit))
            keeps[:] = False
            if len(at):
                high = self._upper_limits(kinds, counts[at] * (len(used) / total[at]))
                keeps[at] = high <= limit
        return keeps

    def _upper_limits(self, kinds: Floats, counts: Floats) -> Floats:
        """Return the upper limit of a rate for each row of counts.

        Two units are of one kind if they have the same number of texts and the same number of
        flagged texts. ``kinds`` has these two numbers of each kind, flagged texts first.
        ``counts`` has the number of units of each kind. Limits are stored, because many resamples
        have equal rows of ``counts``.
        """
        known = self.sample.limits
        rows, row_of = np.unique(counts.round(9), axis=0, return_inverse=True)
        keys = [kinds.tobytes() + row.tobytes() for row in rows]
        new = [at for at, key in enumerate(keys) if key not in known]
        if new:
            ci_level = self.sample.settings.ci_level
            rates = kinds[:, 0] / kinds[:, 1]
            limits = upper_limits_of_rates(rates, rows[new], kinds[:, 1], ci_level)
            known |= {keys[at]: high for at, high in zip(new, limits, strict=True)}
        return np.array([known[key] for key in keys])[row_of.ravel()]

    def choose(
        self,
        documents: Floats,
        cases: Floats,
        *,
        among: Bools | None = None,
        by_estimate: bool = False,
    ) -> Indices:
        """Return the preferred candidate for each row of weights.

        The result is -1 if no candidate that keeps the limit finds a copy. `among` marks the
        candidates to choose from (default: all of them). With `by_estimate`, estimates instead
        of upper limits are compared with the limit.
        """
        sensitivity, *nulls = self.rates(documents, cases)
        worst = np.max(nulls, axis=0)
        allowed = np.isfinite(sensitivity)
        for rate, limits in zip(nulls, self.limits, strict=True):
            allowed &= rate <= limits[self.column]
        if not by_estimate:
            allowed &= self.keeps_limit(documents, cases)
        if among is not None:
            allowed &= among
        # for made-up copies, prefer a short n: any copy shares more short n-grams than long ones
        gain = 1.0 / self.n if self.groups[0].made_up else sensitivity
        gain = np.where(allowed, gain, -1.0)
        usable = gain.max(axis=1) > 0
        tied = gain >= gain.max(axis=1, keepdims=True) - TIE
        # Of tied candidates, argmax takes the first. It has the longest n, because candidates are
        # sorted by descending n.
        picked = np.argmax(tied & self.is_any, axis=1)
        by_share = np.flatnonzero(usable & ~(tied & self.is_any).any(axis=1))
        if by_share.size:
            picked[by_share] = self._middle_cut(tied[by_share], worst[by_share])
        return np.where(usable, picked, -1)

    def best(self, **how: Any) -> int:
        """Return the preferred candidate for the whole sample, as :meth:`choose` does."""
        return int(self.choose(*self.whole, **how)[0])

    @cached_property
    def chosen(self) -> int:
        """The preferred candidate for the whole sample, or -1."""
        return self.best()

    def at_the_end(self) -> str:
        """Return a note if the chosen n is at the end of the offered range, else an empty text.

        With made-up copies, this end is the shortest n. Otherwise it is the longest n, and there is
        a note only if a shorter n is equally sensitive.
        """
        chosen = self.chosen
        end = self.n.min() if self.groups[0].made_up else self.n.max()
        if self.n[chosen] != end or not self.is_any[chosen]:
            return ""
        if self.groups[0].made_up:
            return "the shortest n offered is taken: offer shorter ones"
        sensitivity = self.rates(*self.whole)[0][0]
        alike = self.is_any & self.keeps_limit(*self.whole)[0]
        alike &= sensitivity >= sensitivity[chosen] - TIE
        shortest = self.n[alike].min()
        if shortest == self.n[chosen]:
            return ""
        return (
            f"n = {shortest} to {self.n[chosen]} do equally well, and the longest offered is "
            "taken: offer longer ones to see where copies are lost"
        )

    def _middle_cut(self, tied: Bools, worst: Floats) -> Indices:
        worst = np.where(tied, worst, np.inf)
        best = tied & (worst <= worst.min(axis=1, keepdims=True) + TIE)
        best &= self.n == np.where(best, self.n, 0).max(axis=1, keepdims=True)
        middle = best.cumsum(axis=1) == best.sum(axis=1, keepdims=True) // 2 + 1
        return np.asarray(np.argmax(middle, axis=1))


def _counts_by_unit(group: Group, column: Indices, n_units: int) -> tuple[Floats, Floats]:
    """Return two tables of counts with one row per unit (a document or a case).

    The first counts flagged texts, with one column per candidate. The second counts the texts on
    which a rate is based, with one column per n-gram length.
    """
    flagged = np.zeros((n_units, group.flags.shape[1]))
    texts = np.zeros((n_units, group.judged.shape[1]))
    flags = group.flags & group.judged[:, column]
    np.add.at(flagged, group.units, flags.astype(float))
    np.add.at(texts, group.units, group.judged.astype(float))
    return flagged, texts
