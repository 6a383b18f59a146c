"""What in an answer may sway a grader, and how far its verdicts depend on that, given gold.

First the form of an answer: length, hedging, lists, sentences. Then average marginal effects of it,
of the answer's family and of its condition on the pass rate, in percentage points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check
from skillcomp.frames.estimates import group_codes, prepared
from skillcomp.frames.reference_labels import join_gold, known_verdict, usable, without_checks
from skillcomp.stats.bounded import RATES
from skillcomp.stats.clusters import cr2
from skillcomp.stats.gaps import independent_difference
from skillcomp.stats.results import Interval, join_notes, undefined, within_range

# Words by which a writer takes back certainty. "may" only in small letters: May is a month.
_WORDS = (
    "perhaps|possibly|probably|maybe|might|seems?|seemed|seemingly|appears?|apparently|arguably|"
    "presumably|likely|unlikely|conceivably|supposedly|could be|not sure|not certain|unsure|"
    "i think|i believe|i guess|i suspect|i assume|as far as i|it depends|tends? to|sort of|kind of"
)
HEDGE = re.compile(rf"(?i:\b(?:{_WORDS})\b)|\bmay\b")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")
_MARK = re.compile(r"^\s*([-*+•]|\d+[.)])\s+")
Kind = Literal["blank", "fixed", "paragraph", "bullet", "number"]

FENCE = re.compile(r"\s*(```|~~~)")
_BULLET = re.compile(r"(?P<indent>\s*)[-*+•]\s+\S")
_NUMBER = re.compile(r"\s*\d+[.)]\s+\S")
# table, quotation, heading, rule
_FIXED = re.compile(r"\s*(\||>|#{1,6}\s|([-*_]\s*){3,}$)")


def features(attempts: pd.DataFrame) -> pd.DataFrame:
    r"""Return what in each answer may sway a grader, one row per attempt.

    Parameters
    ----------
    attempts : pandas.DataFrame
        An attempts frame; reads attempt_id, answer, n_words.

    Returns
    -------
    pandas.DataFrame
        attempt_id; n_words; log2_words (so that one more is a doubling); hedges_per_100 (hedge
        words and phrases per 100 words, outside code, tables and quotations); has_list (1 with at
        least two list items, else 0); words_per_sentence and its log2. NaN without an answer.

    Notes
    -----
    Hedges are counted from a fixed list of English words; it takes no account of what they qualify.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"attempt_id": ["a"], "skill": ["s"], "case_id": ["s/1"],
    ...     "condition": ["skill"], "answer": ["It may rain. Perhaps\n\n- today\n- tomorrow"]})
    >>> features(frame)[["n_words", "hedges_per_100", "has_list"]].round(1).to_dict("records")
    [{'n_words': 8.0, 'hedges_per_100': 25.0, 'has_list': 1.0}]
    """
    given = check(attempts, "attempts")
    rows = [_one(answer) for answer in given["answer"].to_numpy(object)]
    names = ["n_words", "hedges_per_100", "has_list", "words_per_sentence"]
    found = pd.DataFrame(rows, columns=names, dtype="float64")
    found["n_words"] = given["n_words"].astype("float64").fillna(found["n_words"])
    with np.errstate(divide="ignore"):
        found["log2_words"] = np.log2(found["n_words"].where(found["n_words"].gt(0)))
        found["log2_words_per_sentence"] = np.log2(found["words_per_sentence"])
    found.insert(0, "attempt_id", given["attempt_id"])
    return found


def _one(answer: object) -> tuple[float, float, float, float]:
    if not isinstance(answer, str):
        return (np.nan,) * 4
    n_words = len(answer.split())
    text = prose(answer)
    spoken = len(text.split())
    items = sum(one.kind in ("bullet", "number") for one in parts(answer))
    sentences = [s for s in (_MARK.sub("", p) for p in _SENTENCE.split(text)) if s.strip()]
    return (
        float(n_words),
        100.0 * len(HEDGE.findall(text)) / spoken if spoken else np.nan,
        float(items >= 2),
        spoken / len(sentences) if sentences else np.nan,
    )


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of an answer that belong together.

    Attributes
    ----------
    kind : str
        ``blank``; ``fixed`` (code, table, quotation, heading: never changed); ``paragraph``;
        ``bullet`` or ``number`` (one list item with the lines indented under it).
    lines : tuple of str
        The lines as they stand, without line ends.
    indent : int
        Blanks before the mark of a list item.
    """

    kind: Kind
    lines: tuple[str, ...]
    indent: int = 0

    @property
    def text(self) -> str:
        """The lines joined."""
        return "\n".join(self.lines)


def parts(answer: str) -> list[Part]:
    """Split an answer into parts; joining their texts by line ends gives it back."""
    found: list[Part] = []
    fence = ""
    for line in answer.split("\n"):
        mark = FENCE.match(line)
        if fence or mark:
            started = not fence
            found.append(Part("fixed", (line,)))
            if mark and started:
                fence = mark.group(1)
            elif mark and line.strip() == fence:
                fence = ""
            continue
        kind = _kind(line)
        last = found[-1] if found else None
        indent = len(line) - len(line.lstrip())
        if last and kind == "fixed" and _goes_on(last, line, indent, kind):
            kind = "paragraph"
        if last and _goes_on(last, line, indent, kind):
            found[-1] = replace(last, lines=(*last.lines, line))
        else:
            found.append(Part(kind, (line,), indent))
    return found


def _kind(line: str) -> Kind:
    if not line.strip():
        return "blank"
    if _FIXED.match(line):
        return "fixed"
    if _BULLET.match(line):
        return "bullet"
    if _NUMBER.match(line):
        return "number"
    return "fixed" if re.match(r"( {4}|\t)", line) else "paragraph"


def _goes_on(last: Part, line: str, indent: int, kind: Kind) -> bool:
    """Whether a line belongs to the part before it."""
    if last.kind in ("bullet", "number"):
        return kind != "blank" and (indent > last.indent or kind == "paragraph")
    return last.kind == "paragraph" and kind == "paragraph"


def prose(answer: str) -> str:
    """Return the paragraphs and list items of an answer, without code, tables and quotations."""
    return "\n".join(one.text for one in parts(answer) if one.kind not in ("fixed", "blank"))


# How far verdicts depend on it, given gold

Floats = NDArray[np.float64]

POINTS = 100.0  # percentage points of a rate
NOT_IDENTIFIED = "not identified"
_METHOD = "linear probability, least squares"
_FEWEST_CLUSTERS = 5  # below, CR2 rests on one or two degrees of freedom
_REACH = 0.9  # share of a unit that the feature must span; labels may miss the ends of a batch
_LARGEST = 1_000_000  # numbers in a matrix of intercepts
_FLAT = 1e-10  # share of a feature's variance left after the others, below which it is theirs
ANSWER = ("log2_words", "hedges_per_100", "has_list", "log2_words_per_sentence")


def checked_verdicts(
    verdicts: pd.DataFrame,
    *,
    by: Sequence[str],
    exclude_checks: str | Sequence[str],
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Return the verdicts under their contract, without the excluded checks."""
    given = prepared(verdicts, "verdicts", by, what, copies=False)
    if len(given):
        given = without_checks(given, exclude_checks, what).reset_index(drop=True)
    return given.assign(
        passed=given["passed"].where(usable(given)), cluster=clusters_of(given, cases)
    )


def known_attempts(
    frame: pd.DataFrame, attempts: pd.DataFrame, what: str, rows: str = "verdicts"
) -> pd.DataFrame:
    """Return the attempts under their contract, or raise where that of a row is not there."""
    given = check(attempts, "attempts")
    unknown = frame.loc[~frame["attempt_id"].isin(given["attempt_id"]), "attempt_id"]
    if len(unknown):
        raise FrameError(
            f"{what}: {len(unknown)} {rows} belong to attempts that are not in the attempts "
            f"frame; the first is '{unknown.iloc[0]}'. Read both with the same perturbation=."
        )
    return given


_TEXTS = ["attempt_id", "check_id", "skill", "condition", "grader_family"]
_READ = [*_TEXTS, "cluster"]


def labelled_verdicts(
    verdicts: pd.DataFrame, attempts: pd.DataFrame, labels: pd.DataFrame
) -> pd.DataFrame:
    """Return verdicts on the plain answers with gold and features."""
    place = _place(verdicts)
    plain = attempts[attempts["perturbation"].isna() & attempts["source_attempt_id"].isna()]
    about = features(plain).set_index("attempt_id")[list(ANSWER)]
    about["agent_family"] = plain.set_index("attempt_id")["agent_family"]
    names = [*_READ, *verdicts.columns.intersection(["_group"])]
    # many small parts are taken of it: plain objects are the fastest there
    slim = verdicts[names].astype(dict.fromkeys(_TEXTS, object))
    joined = join_gold(slim.assign(place=place, verdict=known_verdict(verdicts)), labels)
    joined = joined[joined["gold"].notna() & joined["verdict"].notna()]
    joined = joined[joined["attempt_id"].isin(about.index)]
    joined = joined.join(about.astype({"agent_family": object}), on="attempt_id")
    families = joined["agent_family"].notna() & joined["grader_family"].notna()
    own = joined["agent_family"].eq(joined["grader_family"]).astype("float64")
    return joined.assign(own_family=own.where(families)).reset_index(drop=True)


def _place(verdicts: pd.DataFrame) -> pd.Series:
    keys = ["grader", "grader_version", "round", "batch"]
    order = verdicts["order"].astype("float64")
    grouped = order.groupby([verdicts[name] for name in keys], sort=False, dropna=False)
    first, last = grouped.transform("min"), grouped.transform("max")
    span = (last - first).where(verdicts["batch"].notna())
    return (order - first) / span.where(span.gt(0))


def in_points(found: Interval) -> Interval:
    """Return an interval on rates in percentage points."""
    names = ("estimate", "low", "high", "se")
    return replace(found, **{name: getattr(found, name) * POINTS for name in names})


def not_identified(reason: str, ci_level: float, n: float = 0.0) -> Interval:
    """Return NaN with a note that begins with "not identified"."""
    return undefined(_METHOD, f"{NOT_IDENTIFIED}: {reason}", ci_level=ci_level, n=n)


def _dummies(codes: NDArray[np.intp]) -> Floats:
    found, codes = np.unique(codes, return_inverse=True)
    return np.eye(len(found))[codes]


def _centred(values: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return values less the mean of their stratum."""
    codes = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(codes)
    return values - (np.bincount(codes, weights=values) / size)[codes]


def feature_effect(frame: pd.DataFrame, name: str, others: list[str], ci_level: float) -> Interval:
    """Effect of one feature of an answer, given gold, skill, condition and the other features.

    Linear probability model with one intercept for every combination of skill, condition and gold
    label; CR2 by case. The slope is the average marginal effect where the effect is the same in
    every cell, and its precision-weighted mean otherwise.
    """
    if frame.empty:
        return not_identified("no verdict with a gold label", ci_level)
    known = frame[frame[name].notna()]
    if known.empty:
        return not_identified(f"{name} is not recorded", ci_level)
    if few := _few_cases(known["cluster"].to_numpy()):
        return not_identified(few, ci_level, float(len(known)))
    held = [other for other in others if 2 * known[other].notna().sum() >= len(known)]
    whole = known.dropna(subset=held)
    note = _left_out(known, len(known) - len(whole), others, held)
    known = whole
    codes = group_codes(known, ["skill", "condition", "gold"])[0]
    given = known[name].to_numpy(dtype=float)
    value, span, reason = _centred(given, codes), float(np.ptp(given)), ""
    total = float(value @ value)
    names, columns = _varying(known, held, codes)
    if total <= _FLAT * len(known):
        reason = f"{name} does not vary between answers of one skill, condition and gold label"
    elif span < _REACH:
        reason = f"{name} spans {span:.2g}, less than the unit of the effect"
    elif columns and _rest(value, columns) <= _FLAT * total:
        reason = f"{name} cannot be told apart from {', '.join(others)}"
    if reason:
        return not_identified(reason, ci_level, float(len(known)))
    found = _fitted(known, np.column_stack([value, *columns]), codes, ci_level)
    if math.isnan(found.low):
        return found
    if np.isin(given, (0.0, 1.0)).all():
        found = _cut(found)
    constant = f", holding {', '.join(names)}" if names else ""
    said = join_notes(note, found.note)
    return replace(found, method=f"{found.method}{constant}", note=said)


def _few_cases(clusters: NDArray[Any]) -> str:
    """Say that cases are too few for a slope, "" where they are not."""
    n_clusters = len(pd.unique(clusters))
    return f"{n_clusters} cases, fewer than {_FEWEST_CLUSTERS}" * (n_clusters < _FEWEST_CLUSTERS)


def _left_out(known: pd.DataFrame, n_lost: int, others: list[str], held: list[str]) -> str:
    """Say which rows, and which features known for few rows, play no part."""
    said = []
    if n_lost:
        said.append(f"{n_lost} of {len(known)} rows lack a feature held constant and are left out")
    for other in others:
        n_known = int(known[other].notna().sum())
        if other not in held and n_known:
            said.append(f"{other} is known for {n_known} of {len(known)} rows: not held constant")
    return "; ".join(said)


def _varying(
    known: pd.DataFrame, held: list[str], codes: NDArray[np.intp]
) -> tuple[list[str], list[Floats]]:
    """Return the features held constant, one after the other, so that no two say the same."""
    names: list[str] = []
    columns: list[Floats] = []
    for other in held:
        column = _centred(known[other].to_numpy(dtype=float), codes)
        if _rest(column, columns) > _FLAT * len(known):
            names.append(other)
            columns.append(column)
    return names, columns


def _rest(column: Floats, others: list[Floats]) -> float:
    """Return the sum of squares that the other columns leave of one."""
    rest = column
    if others:
        basis = np.column_stack(others)
        rest = column - basis @ np.linalg.lstsq(basis, column, rcond=None)[0]
    return float(rest @ rest)


def _fitted(
    frame: pd.DataFrame, columns: Floats, codes: NDArray[np.intp], ci_level: float
) -> Interval:
    """Return the first slope within strata, clustered by case."""
    if few := _few_cases(frame["cluster"].to_numpy()):
        return not_identified(few, ci_level, float(len(frame)))
    clusters = pd.factorize(frame["cluster"])[0]
    n_clusters = len(np.unique(clusters))
    verdict = frame["verdict"].to_numpy(dtype=float)
    if len(frame) * (int(codes.max()) + 1) <= _LARGEST:
        design, how = np.column_stack([columns, _dummies(codes)]), ""
    else:
        # the intercepts of large studies are swept out; their leverage is then next to nothing
        verdict, design = _centred(verdict, codes), columns
        how = ", intercepts swept out"
    fit = cr2(verdict, design, clusters, ci_level=ci_level)
    found = fit.interval(0)
    method = f"{_METHOD}{how}, {found.method} over {n_clusters} cases"
    # of a slope with limits the fit's note is about intercepts of strata where all verdicts agree
    note = found.note if math.isnan(found.low) else ""
    return in_points(replace(found, method=method, note=note))


def _cut(found: Interval) -> Interval:
    """Cut limits in points to the range of a difference of rates."""
    most = (-POINTS, POINTS)
    if math.isnan(found.low) or (found.low >= most[0] and found.high <= most[1]):
        return found
    _, low, high, _ = within_range(found.estimate, found.low, found.high, most)
    note = join_notes(found.note, "limits cut to -100 and 100")
    return replace(found, low=low, high=high, note=note)


def leniency(
    frame: pd.DataFrame, condition: str, reference: str, gold: float | None, ci_level: float
) -> tuple[Interval, int]:
    """Return how much more often the condition's answers of the same gold label pass, in points.

    With it comes the number of strata (skill and gold label) that lack answers under one of the
    two conditions and so tell nothing.
    """
    compared = frame["condition"].eq(condition).to_numpy(dtype=bool)
    rows = compared | frame["condition"].eq(reference).to_numpy(dtype=bool)
    n_skills = frame["skill"][rows].nunique()
    wanted = [0.0, 1.0] if gold is None else [gold]
    labels = frame["gold"].to_numpy(dtype=float)
    rows &= np.isin(labels, wanted)
    # a stratum, a skill and a gold label, with answers under one condition only tells nothing
    strata = 2 * pd.factorize(frame["skill"])[0] + labels
    usable = np.intersect1d(strata[rows & compared], strata[rows & ~compared])
    n_empty = n_skills * len(wanted) - len(usable)
    lacking = [_LABEL[label] for label in wanted if not (usable % 2 == label).any()]
    if lacking:
        reason = f"no skill has {' and '.join(lacking)} in both '{condition}' and '{reference}'"
        return not_identified(reason, ci_level, float(rows.sum())), n_empty
    rows &= np.isin(strata, usable)
    kept = frame[["verdict", "cluster"]].assign(compared=compared, stratum=strata)[rows]
    return _difference(kept.reset_index(drop=True), len(usable), n_empty, ci_level), n_empty


_LABEL = {1.0: "gold passes", 0.0: "gold fails"}


def _difference(kept: pd.DataFrame, n_strata: int, n_empty: int, ci_level: float) -> Interval:
    flat = len(kept[["stratum", "verdict"]].drop_duplicates()) == n_strata
    if n_strata == 1 or flat:
        found = _by_condition(kept, flat, ci_level)
    else:
        codes = pd.factorize(kept["stratum"])[0]
        compared = _centred(kept["compared"].to_numpy(dtype=float), codes)
        found = _cut(_fitted(kept, compared[:, None], codes, ci_level))
    if n_empty:
        note = f"strata of skill and gold label that lack a condition and tell nothing: {n_empty}"
        found = replace(found, note=join_notes(note, found.note))
    return found


def _by_condition(kept: pd.DataFrame, flat: bool, ci_level: float) -> Interval:
    """Return the difference of the two conditions from the bounded interval of each.

    For one stratum, where least squares would rest on a few cases with a failing behaviour, and
    for verdicts that do not vary within a stratum.
    """
    values = kept["verdict"].to_numpy(dtype=float)
    if flat:
        # No verdict leaves the one its stratum always gets: none of n in either condition.
        # Rates of the verdicts themselves would compare how often gold passes.
        values = np.zeros(len(kept))
    cluster, compared = kept["cluster"].to_numpy(), kept["compared"].to_numpy(dtype=bool)
    parts = [(values[at], cluster[at], None) for at in (~compared, compared)]
    if min(len(np.unique(one[1])) for one in parts) < 2:
        return not_identified(
            "all labels of a condition are of one case", ci_level, float(len(kept))
        )
    found = in_points(independent_difference(*parts, quantity=RATES, ci_level=ci_level))
    note = "no verdict varies within a skill and gold label" if flat else ""
    n_clusters = float(len(np.unique(cluster)))
    return replace(found, note=join_notes(found.note, note), n_clusters=n_clusters)
