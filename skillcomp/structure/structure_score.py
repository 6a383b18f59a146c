"""What graders of documents count in a SKILL.md, and how much of its worth that explains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from markdown_it import MarkdownIt
from markdown_it.token import Token

from skillcomp import deltas
from skillcomp.errors import FrameError, require_known, suggest
from skillcomp.frames.case_table import Value
from skillcomp.frames.check import check
from skillcomp.frames.estimates import (
    check_settings,
    estimates,
    groups,
    listed,
    require_columns,
    row,
)
from skillcomp.io.skills import skill_of
from skillcomp.records import Skill
from skillcomp.stats.association import association, detectable_r_squared
from skillcomp.stats.results import join_notes, undefined
from skillcomp.stats.significance import holm

TOTAL = "total"
Outcome = Literal["rate", "delta"]


@dataclass(frozen=True, slots=True)
class Feature:
    """What is counted in a document, and from where to where it earns its points.

    Attributes
    ----------
    what : str
        What is counted.
    none, full : float
        Where it earns nothing and where everything; in between in proportion. ``none`` may be the
        larger one.
    """

    what: str
    none: float
    full: float


# What graders of documents look at. The marks are a convention, settled before any answer was
# looked at: nothing says that they are worth anything, which is what this module is for.
FEATURES: Mapping[str, Feature] = {
    "words": Feature("words, front matter and code included, markup not", 0, 500),
    "sections": Feature("headings with text of their own below them", 0, 5),
    "headings": Feature("headings of any depth", 0, 6),
    "list_items": Feature("items of lists, numbered or not", 0, 10),
    "tables": Feature("tables", 0, 1),
    "code": Feature("blocks and spans of code", 0, 3),
    "links": Feature("links, pictures included", 0, 2),
    "front_matter_fields": Feature("fields of the front matter that hold something", 0, 6),
    "bold": Feature("passages in bold", 0, 3),
    "readability": Feature("school years to read it (Automated Readability Index)", 20, 12),
}

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_SENTENCE = re.compile(r"[.!?]+[\"')\]]*(?:\s|$)")
_MAX_TEXT = 1 << 20  # characters; as of a SKILL.md that is read from a file


def score(skills: Skill | Mapping[str, Skill | str] | Iterable[Skill]) -> pd.DataFrame:
    r"""Count in each document what graders of documents count, and add up a score.

    Parameters
    ----------
    skills : Skill, mapping of str to Skill or str, or iterable of Skill
        The documents, such as ``store.skills``; a text is that of a whole SKILL.md.

    Returns
    -------
    pandas.DataFrame
        Eleven rows per document: document (slug), feature, value (the count; ``readability`` in
        school years, NaN without words), points (0 to 1: the share of what the feature can earn).
        The last feature is ``total``, 100 times the mean of the points.

    Raises
    ------
    FrameError
        If something is no skill, or two have the same slug.
    SkillError
        If a text has a front matter that cannot be read.

    See Also
    --------
    against : What such a score says of the pass rates.

    Notes
    -----
    Features: ``words`` (front matter and code included, markup not; all points from 500 on),
    ``sections`` (headings with text of their own below them; 5), ``headings`` (6), ``list_items``
    (10), ``tables`` (1), ``code`` (blocks and spans; 3), ``links`` (2), ``front_matter_fields``
    (fields that hold something, nested ones each by itself; 6), ``bold`` (3), ``readability`` (none
    at 20 school years, all at 12). In between in proportion. The marks are a convention, settled
    before any answer was looked at. Markdown is parsed as CommonMark with tables; markup inside
    code is text. Readability is the Automated Readability Index (Senter and Smith 1967): ``4.71
    letters / words + 0.5 words / sentences - 21.43``, over prose without code; a paragraph, item
    or cell ends its sentence.

    Examples
    --------
    >>> text = "---\nname: tea\ndescription: Brewing.\n---\n# Tea\n\n**Hot** water.\n\n- green\n"
    >>> found = score({"tea": text}).set_index("feature")["value"]
    >>> [int(found[name]) for name in ("words", "headings", "list_items", "bold")]
    [6, 1, 1, 1]
    """
    rows = []
    for slug, skill in _documents_of(skills).items():
        counted = _counted(skill)
        points = {name: _points(counted[name], one) for name, one in FEATURES.items()}
        rows += [(slug, name, counted[name], points[name]) for name in FEATURES]
        whole = float(np.mean(list(points.values())))
        rows.append((slug, TOTAL, 100.0 * whole, whole))
    frame = pd.DataFrame(rows, columns=["document", "feature", "value", "points"])
    return frame.astype({"document": "str", "feature": "str"} | dict.fromkeys(_NUMBERS, "float64"))


_NUMBERS = ("value", "points")


def _documents_of(skills: Any) -> dict[str, Skill]:
    if isinstance(skills, Mapping):
        pairs: list[tuple[Any, Any]] = list(skills.items())
    elif isinstance(skills, Skill):
        pairs = [(skills.slug, skills)]
    elif isinstance(skills, Iterable) and not isinstance(skills, str | pd.DataFrame):
        pairs = [(getattr(one, "slug", None), one) for one in skills]
    else:
        pairs = [(None, skills)]
    found: dict[str, Skill] = {}
    for slug, one in pairs:
        if not isinstance(slug, str) or not isinstance(one, Skill | str):
            raise FrameError(
                f"structure.score: found {type(one).__name__}; allowed: a Skill, several, or a "
                "mapping of slug to Skill or to the text of a SKILL.md, such as store.skills."
            )
        if slug in found:
            raise FrameError(f"structure.score: two documents are called '{slug}'.")
        skill = skill_of(one, slug, Path(slug)) if isinstance(one, str) else one
        if len(skill.text) + len(skill.body) > 2 * _MAX_TEXT:
            raise FrameError(
                f"structure.score: '{slug}' has {len(skill.text):,} characters; allowed: at most "
                f"{_MAX_TEXT:,}."
            )
        found[slug] = skill
    return found


def _points(value: float, feature: Feature) -> float:
    if np.isnan(value):
        return 0.0
    return float(np.clip((value - feature.none) / (feature.full - feature.none), 0.0, 1.0))


def _counted(skill: Skill) -> dict[str, float]:
    """Return the features of one document."""
    tokens = _MARKDOWN.parse(skill.body)
    inner = [child for token in tokens for child in token.children or ()]
    fields = list(_fields({"name": skill.name, "description": skill.description}))
    fields += [*_fields(skill.concept), *_fields(skill.metadata)]
    front = [token for text in fields for token in _MARKDOWN.parse(text)]
    blocks = [_text(token) for token in (*tokens, *front) if token.type == "inline"]
    code = [token.content for token in tokens if token.type in ("fence", "code_block")]
    kinds = [token.type for token in tokens]
    spans = [token.type for token in inner]
    return {
        "words": float(sum(len(text.split()) for text in (*blocks, *code))),
        "sections": float(_sections(tokens)),
        "headings": float(kinds.count("heading_open")),
        "list_items": float(kinds.count("list_item_open")),
        "tables": float(kinds.count("table_open")),
        "code": float(len(code) + spans.count("code_inline")),
        "links": float(spans.count("link_open") + spans.count("image")),
        "front_matter_fields": float(len(fields)),
        "bold": float(spans.count("strong_open")),
        "readability": _readability(blocks),
    }


def _fields(value: Any) -> Iterator[str]:
    """Yield the values of a front matter as texts, those that hold nothing left out."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _fields(one)
    elif isinstance(value, list | tuple):
        text = "\n\n".join(one for part in value for one in _fields(part))
        yield from [text] if text else []
    elif value is not None and str(value).strip():
        yield str(value)


def _text(token: Token) -> str:
    """Return what an inline token says, without its markup."""
    breaks = {"softbreak": " ", "hardbreak": " "}
    return "".join(breaks.get(one.type, one.content) for one in token.children or ())


def _sections(tokens: Sequence[Token]) -> int:
    """Count the headings below which something stands before the next one."""
    count, waiting, inside = 0, False, False
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            inside = token.type == "heading_open"
            waiting = not inside
        elif waiting and not inside and token.content.strip():
            count, waiting = count + 1, False
    return count


def _readability(blocks: Sequence[str]) -> float:
    n_words = sum(len(text.split()) for text in blocks)
    if not n_words:
        return float("nan")
    letters = sum(sum(map(str.isalnum, text)) for text in blocks)
    # what stands after the last full stop is a sentence too
    sentences = sum(sum(1 for s in _SENTENCE.split(text) if s.strip()) for text in blocks)
    return 4.71 * letters / n_words + 0.5 * n_words / max(sentences, 1) - 21.43


# What a score says of the pass rates


def documents(
    outcomes: pd.DataFrame,
    skills: Mapping[str, Skill | str] | pd.DataFrame,
    *,
    attempts: pd.DataFrame | None = None,
    by: Sequence[str] = (),
    features: str | Sequence[str] = TOTAL,
    outcome: Outcome = "rate",
    value: Value = "passed",
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Return the score of each document beside what agents do with it.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    skills : mapping of str to Skill or str, or pandas.DataFrame
        The documents by slug, or scores of any grader of documents: a frame with document, value
        and, where there are several, feature (as :func:`score` returns it).
    attempts : pandas.DataFrame, optional
        An attempts frame, whose ``loaded_skill`` says which document each attempt had. Without it
        the document of a skill is the one of its name, under the condition ``skill``.
    by : sequence of str
        Columns that keep rows apart.
    features : str or sequence of str, default "total"
        Which scores.
    outcome : {"rate", "delta"}, default "rate"
        The pass rate under the document, or the paired difference to ``reference``.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    reference : str, default "baseline"
        The condition without a document; of a delta the one to compare with.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill, condition and feature: document, feature, score, then the
        estimates columns of the rate or delta, as of :func:`skillcomp.deltas.rates`. A document
        without a score has NaN there.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders would be pooled, there is no such feature, or no
        document is among the skills.

    See Also
    --------
    against : How much the score explains.
    skillcomp.plots.scores : Draws the result.
    """
    require_known("outcome: found", outcome, get_args(Outcome))
    names = [name for name in listed(by) if name not in ("skill", "condition")]
    if own := {"document", "feature", "score"} & set(names):
        raise FrameError(f"structure: by= names '{own.pop()}', a column of the result. Rename it.")
    scores = _scores(skills, features)
    given = check(outcomes, "outcomes")
    require_columns(given, names, "structure")
    given = given.assign(document=_loaded(given, attempts, reference))
    pairs = given.loc[given["document"].notna(), ["skill", "condition", "document"]]
    pairs = pairs.drop_duplicates()
    twice = pairs[pairs.duplicated(["skill", "condition"])]
    if len(twice):
        raise FrameError(
            f"structure: skill '{twice['skill'].iloc[0]}' has several documents under the "
            f"condition '{twice['condition'].iloc[0]}'; keep them in conditions of their own."
        )
    known = set(scores["document"])
    if len(pairs) and not known & set(pairs["document"]):
        first = str(pairs["document"].iloc[0])
        raise FrameError(
            f"structure: no document of the outcomes is among the skills: the first is '{first}'."
            + suggest(first, map(str, known))
        )
    keys = [*names, "skill"]
    if outcome == "rate":
        found = deltas.rates(given, by=keys, value=value, ci_level=ci_level)
    else:
        found = deltas.paired(given, by=keys, value=value, reference=reference, ci_level=ci_level)
    placed = found.merge(pairs, on=["skill", "condition"], validate="m:1")
    wide = pd.DataFrame({"feature": scores["feature"].unique()}).astype("str")
    whole = placed.merge(wide, how="cross").merge(
        scores, on=["document", "feature"], how="left", validate="m:1"
    )
    leading = [*keys, "condition", "document", "feature", "score"]
    return whole[[*leading, *[name for name in whole.columns if name not in leading]]]


def _scores(skills: Any, features: str | Sequence[str]) -> pd.DataFrame:
    """Return document, feature and score of the features asked for."""
    frame = skills if isinstance(skills, pd.DataFrame) else score(skills)
    require_columns(frame, ["document", "value"], "structure: scores")
    if "feature" not in frame.columns:
        frame = frame.assign(feature=TOTAL)
    try:
        numbers = pd.to_numeric(frame["value"]).astype("float64")
    except (TypeError, ValueError):
        raise FrameError("structure: scores: column 'value' holds what is no number.") from None
    made = pd.DataFrame(
        {
            "document": frame["document"].astype("str").to_numpy(),
            "feature": frame["feature"].astype("str").to_numpy(),
            "score": numbers.where(np.isfinite(numbers)).to_numpy(),
        }
    )
    if made.duplicated(["document", "feature"]).any():
        name = made.loc[made.duplicated(["document", "feature"]), "document"].iloc[0]
        raise FrameError(f"structure: scores: '{name}' has two values of one feature.")
    there = list(made["feature"].unique())
    wanted = [features] if isinstance(features, str) else features
    if not isinstance(wanted, Sequence):
        raise FrameError(f"features: found {wanted!r}; allowed: names such as {', '.join(there)}.")
    for name in wanted:
        if name not in there:
            raise FrameError(
                f"features: there is no '{name}'; there: {', '.join(there)}."
                + suggest(str(name), there)
            )
    return made[made["feature"].isin(wanted)].reset_index(drop=True)


def _loaded(given: pd.DataFrame, attempts: pd.DataFrame | None, reference: str) -> pd.Series:
    """Return the document of each outcome, NA without one."""
    if attempts is None:
        return given["skill"].where(given["condition"].eq("skill"))
    known = check(attempts, "attempts").set_index("attempt_id")["loaded_skill"]
    loaded = known.reindex(given["attempt_id"]).to_numpy()
    own = given["skill"].where(given["condition"].eq("skill"))
    found = pd.Series(loaded, index=given.index, dtype="str").fillna(own)
    return found.where(given["condition"].ne(reference))


def against(
    outcomes: pd.DataFrame,
    skills: Mapping[str, Skill | str] | pd.DataFrame,
    *,
    attempts: pd.DataFrame | None = None,
    by: Sequence[str] = (),
    features: str | Sequence[str] = TOTAL,
    outcome: Outcome = "rate",
    value: Value = "passed",
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much of the differences between documents their score explains.

    Each document has one vote: its score, and its pass rate (or delta) over its cases. Documents of
    one skill share its cases and are one cluster: the claim is about skills.

    Parameters
    ----------
    outcomes, skills, attempts, by, features, outcome, value, reference
        As in :func:`documents`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Six rows per ``by`` and feature: measure ``r_squared``, ``adjusted_r_squared``,
        ``cross_validated_r_squared`` (leaving out one skill at a time; below 0 where the score
        predicts worse than the mean), ``spearman`` (-1 to 1), ``detectable_r_squared`` (the
        smallest that so many skills show with 80 % power) and ``ceiling_r_squared`` (what a score
        that knew the true rates would have shown, since few cases measure them with error); n
        documents, n_clusters skills, n_dropped documents without a score or an outcome,
        ``p_adjusted`` over the features (Holm). NaN with a note where nothing can be said; with
        fewer than ten skills no limits.

    Raises
    ------
    FrameError
        As :func:`documents`.

    See Also
    --------
    factorial : What an experiment says and a correlation cannot.
    skillcomp.plots.scores : Draws the documents behind it.

    Notes
    -----
    ``sc.stats.association``: a jackknife over skills, no permutation and no
    seed. R squared of a small sample lies above the truth; the adjusted and the cross-validated one
    do not. A ceiling of 0.5 means that no score can be expected to show more. A low R squared of
    documents that hardly differ, or all pass, says little about documents that do.

    References
    ----------
    Cohen 1992, doi:10.1037/0033-2909.112.1.155 (what so many units show).

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"skill": list("abcd") * 2, "case_id": ["1"] * 4 + ["2"] * 4,
    ...     "condition": "skill", "passed": [0, 0, 1, 1, 0, 1, 0, 1]})
    >>> scores = pd.DataFrame({"document": list("abcd"), "value": [10, 20, 30, 40]})
    >>> found = against(frame, scores).set_index("measure")
    >>> round(float(found.loc["r_squared", "estimate"]), 2), found.loc["r_squared", "note"]
    (0.9, '4 clusters are too few for limits (at least 10)')
    """
    check_settings("structure.against", ci_level)
    names = [name for name in listed(by) if name not in ("skill", "condition")]
    how: dict[str, Any] = {"value": value, "reference": reference, "ci_level": ci_level}
    how |= {"attempts": attempts, "by": names, "features": features, "outcome": outcome}
    placed = documents(outcomes, skills, **how)
    rows: list[dict[str, Any]] = []
    for values, part in groups(placed, [*names, "feature"]):
        rows += _explained(part, values, ci_level)
    frame = estimates(rows, by=[*names, "feature"], extra=["n_dropped"])
    for _, part in groups(frame, [*names, "measure"]):
        frame.loc[part.index, "p_adjusted"] = holm(part["p_value"])
    return frame


def _explained(part: pd.DataFrame, about: dict[str, Any], ci_level: float) -> list[dict[str, Any]]:
    known = part[part["score"].notna() & part["estimate"].notna()]
    about = about | {"n_dropped": len(part) - len(known)}
    x, y = known["score"].to_numpy(), known["estimate"].to_numpy()
    found = association(x, y, known["skill"].to_numpy(), ci_level=ci_level)
    n_skills, n = known["skill"].nunique(), float(len(known))
    bare = replace(undefined("", "", ci_level=ci_level, n=n), n_clusters=float(n_skills))
    told = "no property of these documents: what so many skills show" if n_skills > 3 else _FEW
    method = "Fisher's z, 80 % power, 5 % level"
    detectable = replace(bare, estimate=detectable_r_squared(n_skills), method=method, note=told)
    error = known["se"].fillna(0.0)  # 0 where cases are all alike, or one: then it is not known
    n_unknown = int(error.eq(0).sum())
    spread = float(np.var(y, ddof=1)) if len(known) > 1 else 0.0
    if spread > 0 and n_unknown == len(known):
        told = "cases of a document are all alike: how well they measure is not known"
        ceiling = undefined("", told, ci_level=ci_level, n=n)
    elif spread > 0:
        high = f"rather too high: {n_unknown} of {len(known)} documents, whose cases are all alike,"
        high = f"{high} count as measured without error" if n_unknown else ""
        told = join_notes("no limits: an estimate of how well so few cases measure", high)
        share = float(np.clip(1.0 - float(error.pow(2).mean()) / spread, 0.0, 1.0))
        method = "one minus error variance over variance"
        ceiling = replace(bare, estimate=share, method=method, note=told)
    else:
        ceiling = undefined("", found.r_squared.note or _SAME, ci_level=ci_level, n=n)
    measures = {
        "r_squared": found.r_squared,
        "adjusted_r_squared": found.adjusted,
        "cross_validated_r_squared": found.cross_validated,
        "spearman": found.spearman,
        "detectable_r_squared": detectable,
        "ceiling_r_squared": ceiling,
    }
    return [row(measure, one, **about) for measure, one in measures.items()]


_FEW = "at least 4 skills are needed"
_SAME = "all documents have the same rate"
