"""Effects of a document's content and form, scores for the form of a SKILL.md, and their link.

`factorial` analyses an experiment that crosses content and form. `score` scores the form of a
SKILL.md as document graders do, and `score_association` tests what such scores predict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from markdown_it import MarkdownIt
from markdown_it.token import Token

from skillcomp import deltas
from skillcomp.contrast import (
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    case_table,
    check_bounds,
    missing_note,
    within,
)
from skillcomp.errors import FrameError, require_known, suggest
from skillcomp.frames.check import as_list, check
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    groups,
    listed,
    prepared,
    refuse_different_checks,
    require_columns,
    require_reference,
    row,
)
from skillcomp.io.skills import require_skills, skill_of
from skillcomp.ngrams import count_words, split_sentences
from skillcomp.records import Skill
from skillcomp.removed_names import raise_missing_name
from skillcomp.stats.agreement import association, detectable_r_squared
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, Interval, join_notes, undefined

__all__ = ["factorial", "score", "score_association", "score_by_document"]

__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)

TOTAL = "total"
Outcome = Literal["rate", "delta"]


# Features that graders of documents count, each with the count that earns no points and the count
# that earns all; in between, points are linear. The ranges are a convention that was chosen before
# any answer was seen. This module tests whether such scores predict pass rates.
FEATURES: Mapping[str, tuple[float, float]] = {
    "words": (0, 500),  # front matter and code included, markup not
    "sections": (0, 5),  # headings with text of their own below them
    "headings": (0, 6),  # of any depth
    "list_items": (0, 10),  # numbered or not
    "tables": (0, 1),
    "code": (0, 3),  # blocks and spans
    "links": (0, 2),  # pictures included
    "front_matter_fields": (0, 6),  # that are not empty
    "bold": (0, 3),  # passages
    "readability": (20, 12),  # school years to read it (Automated Readability Index)
}

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_MAX_TEXT = 1 << 20  # maximum number of characters, as for a SKILL.md in a file


def score(skills: Mapping[str, Skill | str]) -> pd.DataFrame:
    r"""Score the form of each document as document graders do.

    Parameters
    ----------
    skills : mapping of str to Skill or str
        The documents by slug, such as ``store.skills``. A text must be a whole SKILL.md.

    Returns
    -------
    pandas.DataFrame
        Eleven rows per document, with the columns document (slug), feature, value and points.
        ``value`` is the count; for ``readability`` it is in school years, NaN without words.
        ``points`` is from 0 to 1, the share of the points that the feature can earn. The last
        feature is ``total``; its value is 100 times the mean of the points.

    Raises
    ------
    FrameError
        If `skills` is not a mapping of slugs to skills or texts, or a text is too long.
    SkillError
        If a text has a front matter that cannot be read.

    See Also
    --------
    score_association : How well such a score explains pass rates.

    Notes
    -----
    These counts earn all points: 500 ``words`` (with front matter and code, but without markup), 5
    ``sections`` (headings with text directly below them), 6 ``headings``, 10 ``list_items``, 1 of
    ``tables``, 3 of ``code`` (blocks and spans), 2 ``links``, 6 ``front_matter_fields`` (those that
    are not empty, with nested ones counted one by one), 3 of ``bold``, and a ``readability`` of 12
    school years (20 earn no points). Below these counts, points grow in proportion. The ranges are
    a convention, chosen before any answer was seen. Markdown is parsed as CommonMark with tables;
    markup inside code is text. Readability is the Automated Readability Index (Senter and Smith
    1967): ``4.71 letters / words + 0.5 words / sentences - 21.43``, over prose without code. The
    end of a paragraph, list item or table cell also ends a sentence.

    Examples
    --------
    >>> text = "---\nname: tea\ndescription: Brewing.\n---\n# Tea\n\n**Hot** water.\n\n- green\n"
    >>> values = score({"tea": text}).set_index("feature")["value"]
    >>> [int(values[name]) for name in ("words", "headings", "list_items", "bold")]
    [6, 1, 1, 1]
    """
    rows = []
    for slug, skill in _checked_documents(skills).items():
        counts = _feature_counts(skill)
        # a text without words has no readability, and no points for it
        points = {
            name: float(np.nan_to_num(np.clip((counts[name] - none) / (full - none), 0.0, 1.0)))
            for name, (none, full) in FEATURES.items()
        }
        rows += [(slug, name, counts[name], points[name]) for name in FEATURES]
        mean = float(np.mean(list(points.values())))
        rows.append((slug, TOTAL, 100.0 * mean, mean))
    frame = pd.DataFrame(rows, columns=["document", "feature", "value", "points"])
    return frame.astype({"document": "str", "feature": "str"} | dict.fromkeys(_NUMBERS, "float64"))


_NUMBERS = ("value", "points")


def _checked_documents(skills: Any) -> dict[str, Skill]:
    require_skills("structure.score: skills", skills, FrameError)
    if not skills:
        raise FrameError(
            "structure.score: there are no documents; add the skills to the store (add_skill), or "
            "give scores of documents as scores=."
        )
    documents = {}
    for slug, document in skills.items():
        skill = skill_of(document, slug, Path(slug)) if isinstance(document, str) else document
        if len(skill.text) + len(skill.body) > 2 * _MAX_TEXT:
            raise FrameError(
                f"structure.score: '{slug}' has {len(skill.text):,} characters; allowed: at most "
                f"{_MAX_TEXT:,}."
            )
        documents[slug] = skill
    return documents


def _feature_counts(skill: Skill) -> dict[str, float]:
    tokens = _MARKDOWN.parse(skill.body)
    inner = [child for token in tokens for child in token.children or ()]
    fields = list(_field_texts({"name": skill.name, "description": skill.description}))
    fields += [*_field_texts(skill.concept), *_field_texts(skill.metadata)]
    front = [token for text in fields for token in _MARKDOWN.parse(text)]
    breaks = {"softbreak": " ", "hardbreak": " "}
    blocks = [
        "".join(breaks.get(child.type, child.content) for child in token.children or ())
        for token in (*tokens, *front)
        if token.type == "inline"
    ]
    code = [token.content for token in tokens if token.type in ("fence", "code_block")]
    kinds = [token.type for token in tokens]
    spans = [token.type for token in inner]
    return {
        "words": sum(map(count_words, (*blocks, *code))),
        "sections": _n_filled_sections(tokens),
        "headings": kinds.count("heading_open"),
        "list_items": kinds.count("list_item_open"),
        "tables": kinds.count("table_open"),
        "code": len(code) + spans.count("code_inline"),
        "links": spans.count("link_open") + spans.count("image"),
        "front_matter_fields": len(fields),
        "bold": spans.count("strong_open"),
        "readability": _readability_index(blocks),
    }


def _field_texts(value: Any) -> Iterator[str]:
    """Yield the values of a front matter as texts that are not empty; a list becomes one text."""
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _field_texts(entry)
    elif isinstance(value, list | tuple):
        text = "\n\n".join(text for entry in value for text in _field_texts(entry))
        yield from [text] if text else []
    elif value is not None and str(value).strip():
        yield str(value)


def _n_filled_sections(tokens: Sequence[Token]) -> int:
    """Count the headings that are followed by text before the next heading."""
    count, waiting, inside = 0, False, False
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            inside = token.type == "heading_open"
            waiting = not inside
        elif waiting and not inside and token.content.strip():
            count, waiting = count + 1, False
    return count


def _readability_index(blocks: Sequence[str]) -> float:
    n_words = sum(map(count_words, blocks))
    if not n_words:
        return float("nan")
    letters = sum(sum(map(str.isalnum, text)) for text in blocks)
    # a text without a full stop also counts as a sentence
    n_sentences = sum(len(split_sentences(text)) for text in blocks)
    return 4.71 * letters / n_words + 0.5 * n_words / max(n_sentences, 1) - 21.43


def score_by_document(
    outcomes: pd.DataFrame,
    skills: Mapping[str, Skill | str] | None = None,
    *,
    scores: pd.DataFrame | None = None,
    attempts: pd.DataFrame | None = None,
    by: By = (),
    features: str | Sequence[str] = TOTAL,
    outcome: Outcome = "rate",
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Compare the score of each document with the pass rate of the agents that load it.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    skills : mapping of str to Skill or str, optional
        The documents by slug; :func:`score` is called on them.
    scores : pandas.DataFrame, optional
        Scores of any document grader, instead of `skills`: document, value and, if there are
        several features, feature.
    attempts : pandas.DataFrame, optional
        An attempts frame; its ``loaded_skill`` is the document of each attempt. Without this frame,
        the document of an attempt under the condition ``skill`` is the one with the slug of its
        skill.
    by : str or sequence of str
        Columns that group the rows.
    features : str or sequence of str, default "total"
        Names of the features to use.
    outcome : {"rate", "delta"}, default "rate"
        The pass rate with the document, or its paired difference from the rate under ``reference``.
    value, bounds
        As in :func:`skillcomp.deltas.paired`; amounts are not allowed.
    reference : str, default "baseline"
        The condition without a document, with which the others are compared for a delta.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill, condition and feature: document, feature and score (NaN for a
        document without a score). Then follow the columns of :func:`skillcomp.deltas.rates` or, for
        a delta, of :func:`skillcomp.deltas.paired`.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders would be pooled, a feature is unknown, no document
        has a score, or not exactly one of `skills` and `scores` is given.

    See Also
    --------
    score_association : Estimates how well the score explains pass rates.
    skillcomp.plots.scores : Draws the result.
    """
    require_known("outcome: found", outcome, get_args(Outcome))
    names = listed(by, "skill", "condition")
    if own := {"document", "feature", "score"} & set(names):
        raise FrameError(f"structure: by= names '{own.pop()}', a column of the result. Rename it.")
    table = _selected_scores(skills, scores, features)
    outcomes = check(outcomes, "outcomes")
    require_columns(outcomes, names, "structure")
    # the document that was loaded for the attempt of each outcome; NA if none was
    documents = outcomes["skill"].where(outcomes["condition"].eq("skill"))
    if attempts is not None:
        loaded = check(attempts, "attempts").set_index("attempt_id")["loaded_skill"]
        values = loaded.reindex(outcomes["attempt_id"]).to_numpy()
        documents = pd.Series(values, index=outcomes.index, dtype="str").fillna(documents)
        documents = documents.where(outcomes["condition"].ne(reference))
    outcomes = outcomes.assign(document=documents)
    pairs = outcomes.loc[outcomes["document"].notna(), ["skill", "condition", "document"]]
    pairs = pairs.drop_duplicates()
    repeated = pairs[pairs.duplicated(["skill", "condition"])]
    if len(repeated):
        raise FrameError(
            f"structure: skill '{repeated['skill'].iloc[0]}' has several documents under the "
            f"condition '{repeated['condition'].iloc[0]}'; keep them in conditions of their own."
        )
    slugs = set(table["document"])
    if len(pairs) and not slugs & set(pairs["document"]):
        first = str(pairs["document"].iloc[0])
        raise FrameError(
            f"structure: no document of the outcomes is among the skills: the first is '{first}'."
            + suggest(first, map(str, slugs))
        )
    keys = [*names, "skill"]
    check_bounds(outcomes, value, bounds)
    options: Fields = {"by": keys, "value": value, "bounds": bounds, "ci_level": ci_level}
    if outcome == "rate":
        refuse_different_checks(outcomes, "structure", value)
        rates = deltas.rates(outcomes, **options)
    else:
        rates = deltas.paired(outcomes, reference=reference, **options)
    by_feature = pd.DataFrame({"feature": table["feature"].unique()}).astype("str")
    rates = rates.merge(pairs, on=["skill", "condition"], validate="m:1")
    rates = rates.merge(by_feature, how="cross")
    scored = rates.merge(table, on=["document", "feature"], how="left", validate="m:1")
    leading = [*keys, "condition", "document", "feature", "score"]
    return scored[[*leading, *[name for name in scored if name not in leading]]]


def _selected_scores(
    skills: Mapping[str, Skill | str] | None,
    scores: pd.DataFrame | None,
    features: str | Sequence[str],
) -> pd.DataFrame:
    """Return the document, feature and score of the requested features."""
    if (skills is None) == (scores is None):
        raise FrameError("structure: give either skills, the documents by slug, or scores=.")
    if isinstance(skills, pd.DataFrame):
        raise FrameError("structure: skills: found a DataFrame; give a frame of scores as scores=.")
    frame: Any = scores if skills is None else score(skills)
    require_columns(frame, ["document", "value"], "structure: scores")
    if "feature" not in frame:
        frame = frame.assign(feature=TOTAL)
    try:
        numbers = pd.to_numeric(frame["value"]).astype("float64")
    except (TypeError, ValueError):
        raise FrameError(
            "structure: scores: column 'value' has a value that is not a number."
        ) from None
    table: pd.DataFrame = frame[["document", "feature"]].astype("str").reset_index(drop=True)
    table["score"] = numbers.where(np.isfinite(numbers)).to_numpy()
    repeated = table.loc[table.duplicated(["document", "feature"]), "document"]
    if len(repeated):
        raise FrameError(f"structure: scores: '{repeated.iloc[0]}' has two values of one feature.")
    choices = list(table["feature"].unique())
    names = as_list(features)
    for name in names:
        require_known("features: there is no", name, choices, label="there")
    return table[table["feature"].isin(names)].reset_index(drop=True)


def score_association(
    outcomes: pd.DataFrame,
    skills: Mapping[str, Skill | str] | None = None,
    *,
    by: By = (),
    ci_level: float = 0.95,
    **words: Any,
) -> pd.DataFrame:
    """Estimate how well the score of a document explains its pass rate.

    Each document counts once, with its score and its pass rate (or delta) over cases. The documents
    of a skill have the same cases and form one cluster, so the result is about skills.

    Parameters
    ----------
    outcomes, skills, by
        As in :func:`score_by_document`.
    ci_level : float, default 0.95
        Level of the intervals.
    **words
        The other keywords of :func:`score_by_document`: ``scores``, ``attempts``, ``features``,
        ``outcome``, ``value``, ``bounds`` and ``reference``.

    Returns
    -------
    pandas.DataFrame
        Six rows per ``by`` and feature, with the estimates columns. The measures are:

        - ``r_squared`` and ``adjusted_r_squared``;
        - ``cross_validated_r_squared``: leaves out one skill at a time. Below 0 if the score
          predicts worse than the mean;
        - ``spearman``: the correlation of ranks, from -1 to 1;
        - ``detectable_r_squared``: the smallest R squared that this number of skills detects with
          80 % power;
        - ``ceiling_r_squared``: the R squared of a score that equals the true rates. It is below 1,
          because rates observed on few cases contain random error.

        ``n`` counts documents and ``n_clusters`` skills. ``n_dropped`` counts documents without a
        score or an outcome, ``n_missing`` the missing attempts (the note counts them by condition).
        ``p_adjusted`` is adjusted by Holm over the rows of a measure. An undefined estimate is NaN
        with a note. There are no limits with fewer than ten skills.

    Raises
    ------
    FrameError
        As in :func:`score_by_document`.

    See Also
    --------
    factorial : Analyses an experiment that separates content from form.
    skillcomp.plots.scores : Draws the documents.

    Notes
    -----
    The limits are those of :func:`skillcomp.stats.association`, by a jackknife over skills. R
    squared is biased upwards in small samples; the adjusted and the cross-validated R squared are
    not. A ceiling of 0.5 means that no score is expected to exceed an R squared of 0.5. If
    documents hardly differ or all pass, a low R squared says little about other documents.

    References
    ----------
    Cohen 1992, doi:10.1037/0033-2909.112.1.155 (the smallest R squared that can be detected).

    Examples
    --------
    Four documents pass 0, 1, 1 and 2 of two cases.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"skill": list("abcd") * 2, "case_id": ["1"] * 4 + ["2"] * 4,
    ...     "condition": "skill", "passed": [0, 0, 1, 1, 0, 1, 0, 1]})
    >>> scores = pd.DataFrame({"document": list("abcd"), "value": [10, 20, 30, 40]})
    >>> row = score_association(frame, scores=scores).set_index("measure").loc["r_squared"]
    >>> round(float(row["estimate"]), 2), row["note"]
    (0.9, '4 clusters are too few for limits (at least 10)')
    """
    check_settings("structure.score_association", ci_level)
    names = listed(by, "skill", "condition")
    documents = score_by_document(outcomes, skills, by=names, ci_level=ci_level, **words)
    rows = []
    for values, part in groups(documents, [*names, "feature"]):
        rows += _association_rows(part, values, ci_level)
    return estimates(rows, by=[*names, "feature"], extra=["n_dropped", "n_missing"])


def _association_rows(part: pd.DataFrame, about: Fields, ci_level: float) -> list[Fields]:
    complete = part.dropna(subset=["score", "estimate"])
    names, sides = ["n_missing", "n_attempts"], ["the documents"]
    counts = [int(part[name].sum()) for name in names]
    if "n_missing_reference" in part:
        # count the reference of a skill once, even if the skill has several documents
        base = part.drop_duplicates("skill")
        counts += [int(base[f"{name}_reference"].sum()) for name in names]
        sides.append("the reference")
    note_on_missing = join_notes(*missing_note(counts, sides))
    about = about | {"n_dropped": len(part) - len(complete), "n_missing": sum(counts[::2])}
    x, y = complete["score"].to_numpy(), complete["estimate"].to_numpy()
    fit = association(x, y, complete["skill"].to_numpy(), ci_level=ci_level)
    n_skills, n = complete["skill"].nunique(), len(complete)
    bare = replace(undefined("", "", ci_level=ci_level, n=n), n_clusters=n_skills)
    note = "no property of these documents: what so many skills show" if n_skills > 3 else _FEW
    method = "Fisher's z, 80 % power, 5 % level"
    detectable = replace(bare, estimate=detectable_r_squared(n_skills), method=method, note=note)
    measures = {
        "r_squared": fit.r_squared,
        "adjusted_r_squared": fit.adjusted,
        "cross_validated_r_squared": fit.cross_validated,
        "spearman": fit.spearman,
        "detectable_r_squared": detectable,
        "ceiling_r_squared": _ceiling_interval(complete, bare, fit.r_squared.note),
    }
    return [
        row(measure, estimate.with_note(note_on_missing), **about)
        for measure, estimate in measures.items()
    ]


def _ceiling_interval(complete: pd.DataFrame, bare: Interval, note: str) -> Interval:
    """Estimate the R squared of a hypothetical score that equals the true rates."""
    rates = complete["estimate"].to_numpy()
    # If a document has only one case, or if all its cases have the same rate, the error of this
    # rate is unknown (se is missing or 0).
    error = complete["se"].fillna(0.0)
    n_unknown = int(error.eq(0).sum())
    spread = float(np.var(rates, ddof=1)) if len(complete) > 1 else 0.0
    undefined_ceiling = undefined("", note or _SAME, ci_level=bare.ci_level, n=bare.n)
    if not spread > 0:
        return undefined_ceiling
    if n_unknown == len(complete):
        note = "cases of a document are all alike: how well they measure is not known"
        return replace(undefined_ceiling, note=note)
    high = f"rather too high: {n_unknown} of {len(complete)} documents, whose cases are all alike,"
    high = f"{high} count as measured without error" if n_unknown else ""
    return replace(
        bare,
        estimate=float(np.clip(1.0 - float(error.pow(2).mean()) / spread, 0.0, 1.0)),
        method="one minus error variance over variance",
        note=join_notes("no limits: an estimate of how well so few cases measure", high),
    )


_FEW = "at least 4 skills are needed"
_SAME = "all documents have the same rate"


def factorial(
    outcomes: pd.DataFrame,
    design: pd.DataFrame | Sequence[Mapping[str, Any]],
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str | None = "baseline",
    cluster: str = "case",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the effects of a document's content and of its form on the pass rate.

    Conditions are compared within each case, with repeats averaged. Unlike a correlation over
    skills, an experiment that changes one factor at a time separates content from form.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with the four conditions of the design and, if there is one, the
        reference.
    design : pandas.DataFrame or sequence of mappings
        Four rows with the column condition and two factors, such as ``content`` and ``form``. Each
        factor has two levels, and every combination of levels occurs once. The effect of a factor
        compares its level in the first row with its other level.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    reference : str or None, default "baseline"
        The condition without a document; None if the study has no such condition.
    cluster, average, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Nine rows per ``by`` (seven without ``reference``), with the estimates columns. ``effect``
        names the effect:

        - ``total``: the document of the first row of the design against the reference;
        - ``any document``: the document that differs from the first row in both factors, against
          the reference;
        - the name of a factor: its effect. ``at`` is the level of the other factor at which it is
          estimated; ``at`` is empty for the mean over both levels;
        - the interaction, such as ``content x form``: the effect of form at the first level of
          content minus its effect at the other level.

        The measure is ``delta_passed`` or, for the interaction, ``difference_passed``; with
        ``value="share_passed"``, it is ``delta_share_passed`` or ``difference_share_passed``.
        Estimates are in rate units, with the interval of a bounded mean over cases. ``rate`` and
        ``reference_rate`` are the two means compared, NaN for the interaction. For a factor,
        ``reference_rate`` is the mean at its other level, not that of ``reference``. ``n_dropped``
        counts the cases that lack a condition of the row. ``n_missing`` counts the attempts without
        an outcome. NaN with a note if no case has all conditions.

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, the design does not have
        each combination of two levels of two factors once, or a condition has no outcomes.

    See Also
    --------
    skillcomp.deltas.paired : Estimates the change from the baseline for any condition.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    If all cases have all five conditions, ``total`` is the sum of ``any document`` and the effects
    of both factors. The effect of a factor with empty ``at`` is the mean of its effects at the two
    levels of the other factor. An interaction is between -2 and 2. Any other effect is ``rate``
    minus ``reference_rate`` of its row, so it cannot exceed ``1 - reference_rate``: if that rate is
    near 1, no large positive effect can show.

    Examples
    --------
    The content is F or G, the form s or f. All cases pass, except under the condition Gf (content G
    and form f), under which none passes.

    >>> import pandas as pd
    >>> design = [{"condition": c + f, "content": c, "form": f} for c in "FG" for f in "sf"]
    >>> passed = {"Fs": 1, "Ff": 1, "Gs": 1, "Gf": 0}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": p}
    ...     for i in range(6) for c, p in passed.items()])
    >>> effects = factorial(frame, design, reference=None)
    >>> effects[["effect", "at", "estimate"]].head(3)
               effect at  estimate
    0         content          0.5
    1            form          0.5
    2  content x form         -1.0
    """
    names, averaged = listed(by), listed(average)
    what = "structure.factorial"
    if {"condition", "effect", "at"} & set(names):
        raise FrameError(f"{what}: by= names what the result tells apart; leave it out.")
    outcomes = prepared(outcomes, "outcomes", names, what, average=averaged, agents=True)
    crossed = _checked_design(design, what)
    conditions = [*crossed["condition"], reference]
    for condition in conditions:
        require_reference(outcomes["condition"], condition)
    if reference in conditions[:-1]:
        raise FrameError(f"{what}: the reference '{reference}' is a condition of the design.")
    check_bounds(outcomes, value, bounds)
    outcomes = outcomes[outcomes["condition"].isin(conditions)]
    refuse_different_checks(outcomes, what, value)
    how: Fields = {"value": value, "bounds": bounds}
    table = case_table(outcomes, by=[*names, *averaged], **how)
    units = Units.of(table, names, average=averaged, **how)
    contrasts = [
        Contrast(
            about | {"effect": effect, "at": at},
            group,
            {(condition,): weight for condition, weight in weights.items()},
            sides=tuple(weights),
            nothing="no case has outcomes in all conditions compared",
        )
        for group, about in enumerate(units.groups)
        for effect, at, weights in _effects(crossed, reference)
    ]
    rows = []
    means = within(units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval)
    for contrast, mean in zip(contrasts, means, strict=True):
        columns = contrast.about | {"n_missing": sum(mean.missing[::2])}
        columns["n_dropped"] = mean.n_dropped
        weights = np.array([*contrast.weights.values()])
        # an interaction is a difference of differences, which is between -2 and 2
        is_interaction = np.abs(weights).sum() > 2
        if not is_interaction:
            for name, side in (("rate", weights > 0), ("reference_rate", weights < 0)):
                columns[name] = float(np.mean(np.array(mean.levels)[side]))
        kind = "difference" if is_interaction else "delta"
        rows.append(row(f"{kind}_{value}", mean.interval, **columns))
    extra = ["rate", "reference_rate", "n_dropped", "n_missing"]
    return estimates(rows, by=[*names, "effect", "at"], extra=extra, outcomes=outcomes)


def _effects(
    design: pd.DataFrame, reference: str | None
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield each effect: its name, the fixed level of the other factor, and weights of conditions.

    The level is empty if the other factor is not fixed.
    """
    both, only_first, only_second, neither = design["condition"]
    first, second = design.columns[1:]
    if reference is not None:
        yield "total", "", {both: 1.0, reference: -1.0}
        yield "any document", "", {neither: 1.0, reference: -1.0}
    yield first, "", {both: 0.5, only_first: 0.5, only_second: -0.5, neither: -0.5}
    yield second, "", {both: 0.5, only_first: -0.5, only_second: 0.5, neither: -0.5}
    signs = {both: 1.0, only_first: -1.0, only_second: -1.0, neither: 1.0}
    yield f"{first} x {second}", "", signs
    yield first, design[second].iloc[0], {both: 1.0, only_second: -1.0}
    yield first, design[second].iloc[1], {only_first: 1.0, neither: -1.0}
    yield second, design[first].iloc[0], {both: 1.0, only_first: -1.0}
    yield second, design[first].iloc[2], {only_second: 1.0, neither: -1.0}


def _checked_design(design: Any, what: str) -> pd.DataFrame:
    """Return condition and two factors, sorted by factors; levels are in order of occurrence."""
    try:
        frame = pd.DataFrame(design if isinstance(design, pd.DataFrame) else list(design))
    except (TypeError, ValueError, AttributeError):
        frame = pd.DataFrame()
    is_missing, frame = frame.isna().any(axis=None), frame.astype("str")
    factors = [name for name in frame.columns if name != "condition"]
    levels = {str(name): [*frame[name].unique()] for name in frame}
    if (
        is_missing
        or [len(frame), len(factors), len(levels.get("condition", ()))] != [4, 2, 4]
        or not all(isinstance(name, str) and len(levels[name]) == 2 for name in factors)
        or frame.duplicated(factors).any()
    ):
        listed_levels = "; ".join(
            f"{name}: {'/'.join(map(str, words))}" for name, words in levels.items()
        )
        raise FrameError(
            f"{what}: design: found {len(frame)} rows ({listed_levels or type(design).__name__}); "
            "expected four rows of condition and two factors with two levels each, every "
            "combination once."
        )
    in_order = frame.sort_values(
        factors, key=lambda column: column.map(levels[str(column.name)].index)
    )
    return in_order[["condition", *factors]].reset_index(drop=True)
