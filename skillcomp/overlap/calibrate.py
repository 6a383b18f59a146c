"""Calibration of the overlap rule: the n-gram length from which a shared n-gram means copying.

A candidate is an n-gram length n with one of two rules. The rule ``any`` flags a text if it shares
at least one n-gram with its skill. The rule ``share`` flags a text if the share of its n-grams that
also occur in the skill is at least a cut. A null is a class of texts that are known not to copy. A
candidate is evaluated by its sensitivity, the rate of flags among passages that copy, and by its
false flags, the rate of flags in each null. The upper limit of the false flags, not their estimate,
must be at most the allowed rate.

A text with fewer than n tokens is too short to judge at this n. If it is a copy, it counts as
missed. Otherwise it is left out of the rates at this n.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from skillcomp.errors import FrameError, instead, plural
from skillcomp.frames.check import check
from skillcomp.frames.estimates import By, check_settings, clusters_of, listed, row
from skillcomp.ngrams import Tokenizer, check_n, name_of_tokenizer
from skillcomp.overlap.score_spans_and_positives import (
    FEW_LOST,
    MADE_UP,
    Skills,
    checked_columns,
    common_tokenizer,
    lost_letters_note,
    positives,
    require_one_row_per_attempt,
    score,
)
from skillcomp.stats.bounded import bounded_mean, upper_limits_of_rates
from skillcomp.stats.detection import bootstrap_auc, clean_needed
from skillcomp.stats.results import (
    NAN,
    Bools,
    Fields,
    Floats,
    Indices,
    Interval,
    join_notes,
    undefined,
)

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
    every, _, copies, clean = classed_texts(
        shared,
        passages,
        what="overlap.calibrate",
        attempts=attempts,
        positive=positive,
        nulls=nulls,
        ngram=ngram,
        seed=seed,
        skills=skills,
        boilerplate=boilerplate,
        tokenizer=tokenizer,
        tokenizer_name=tokenizer_name,
    )
    settings = Settings(copies, clean, max_false_flags, ci_level, n_resamples, seed)
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


def classed_texts(
    shared: pd.DataFrame | None,
    passages: pd.DataFrame | None,
    *,
    what: str,
    attempts: pd.DataFrame | None,
    positive: str | Sequence[str] | None,
    nulls: str | Sequence[str] | None,
    ngram: Iterable[int] | int | None = None,
    seed: int = 0,
    **how: Any,
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Return scored texts, the passages among them, and the classes of copies and of clean texts.

    Without copies among the passages, copies are made up. ``how`` has the arguments of
    :func:`skillcomp.overlap.score`.
    """
    label = name_of_tokenizer(how["tokenizer"], how["tokenizer_name"])
    answers = pd.DataFrame(columns=SCORED)
    if shared is not None:
        answers = _scored_attempts(shared, attempts, f"{what}: shared")
    common_tokenizer({"shared": answers}, what=what, label=label)
    lengths = _offered_lengths(ngram, shared)
    answers = answers[answers["n"].isin(lengths)]
    if passages is not None:
        needed = ["passage_id", "level", "text"]
        passages = checked_columns(passages, needed, what=f"{what}: passages")
    levels = set() if passages is None else set(passages["level"].dropna())
    copies = existing_names(positive, COPIES, levels)
    if passages is None or not (copies or positive is not None):
        made = positives(how["skills"], seed=seed)
        passages = made if passages is None else pd.concat([passages, made], ignore_index=True)
        copies = existing_names(positive, COPIES, set(made["level"]))
    clean = existing_names(nulls, NULLS, levels | set(answers["condition"].dropna()))
    scored = score(passages, ngram=lengths, **how)
    every = pd.concat([answers, scored], ignore_index=True) if len(answers) else scored
    return every, passages, copies, clean


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


def _scored_attempts(
    shared: pd.DataFrame, attempts: pd.DataFrame | None, what: str
) -> pd.DataFrame:
    """Select the rows of ``shared`` for ``attempts``; if ``attempts`` is None, for all attempts."""
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
        reason += f"; the data support a limit of {np.ceil(high * 1000) / 10:g} %"
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
