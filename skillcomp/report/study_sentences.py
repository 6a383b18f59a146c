"""Summarise the estimates of a study in sentences; every number is taken from a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import filter as names_like

import pandas as pd

from skillcomp.frames.estimates import columns_of, require_columns
from skillcomp.report.phrases import (
    LIMITS,
    Sentence,
    Sentences,
    headline_sentences,
    main_rows,
    overall_sentences,
    row_sentences,
    settling_sentences,
    skill_and_agent,
    undetermined_rows,
    unit_of,
)
from skillcomp.report.sentences import sentences_about
from skillcomp.report.study_data import in_order_of
from skillcomp.stats.repeats import RUNS_DIFFER

_DECIDED = ["skill", "condition", "rate", "reference_rate", *LIMITS, "n", "margin", "verdict"]
# name of a frame -> the sentence if a study of skills lacks the frame
_LACKING = {
    "gap": "The cases are not marked as near or far: transfer is not known.",
    "agreement": "There are no gold labels: how often the grader errs is not known.",
    "drift": "One grader in one version: no drift between graders can be seen.",
}
# name of a frame -> topic of the sentences on it, in their order
_TOPICS = {
    "labellers": "summary",
    "unanswered": "skill",
    "gap": "transfer",
    "curve": "distance",
    "dimensions": "dimension",
    "effects": "structure",
    "explained": "structure",
    "controls": "trigger",
    "triggers": "trigger",
    "goals": "trigger",
    "agreement": "grader",
    "addressing": "grader",
    "rounds": "grader",
    "drift": "drift",
    "corrected": "correction",
    "unusable": "limits",
    "problems": "reading",
}
# name of a frame -> its name in sentences, if it has another name there
_ESTIMATES = {
    "overall": "effect of all skills",
    "placebo": "comparison with the placebo",
    "previous": "comparison with the previous version",
    "gap": "transfer gap",
    "effects": "effects of the factors",
    "explained": "association with the scores",
    "corrected": "correction",
    "corrections": "correction of the verdicts",
    "overall_corrected": "correction of the effect of all skills",
    "needed": "cases needed",
    "dimensions": "effect by dimension",
    "price": "price of a pass",
}


def findings(
    decided: pd.DataFrame | None,
    *,
    missing: Mapping[str, str] | None = None,
    **frames: pd.DataFrame | None,
) -> pd.DataFrame:
    """Summarise the estimates of a study in sentences.

    Parameters
    ----------
    decided : pandas.DataFrame or None
        The verdict on each skill, from :func:`skillcomp.skillverdicts.decide`. None if
        the study only records whether skills fire, or to summarise only the other frames.
    missing : mapping of str to str, optional
        For each estimate that could not be computed, its name and the reason.
    **frames : pandas.DataFrame
        Further estimates by name:

        - overall: :func:`skillcomp.deltas.paired` over all skills
        - placebo, previous: :func:`skillcomp.deltas.paired` by skill with ``reference="placebo"``
          or ``reference="previous"``
        - gap: :func:`skillcomp.transfer.gap` over all skills; curve:
          :func:`skillcomp.transfer.curve` over all skills
        - dimensions: :func:`skillcomp.deltas.paired` by ``comprehension_dimension``
        - effects: :func:`skillcomp.structure.factorial`; explained:
          :func:`skillcomp.structure.score_association`
        - controls, triggers, goals: :func:`skillcomp.triggers.controls`,
          :func:`skillcomp.triggers.detection` and :func:`skillcomp.triggers.goals`
        - agreement: :func:`skillcomp.reliability.agreement` by grader; without it, there is no gold
        - drift: :func:`skillcomp.reliability.drift`
        - corrected, overall_corrected: :func:`skillcomp.correction.delta` by grader, or over all
          skills for the same value as ``overall``
        - needed: :func:`skillcomp.planning.cases_needed` for the undetermined skills, with an added
          column ``margin``
        - rounds: :func:`skillcomp.reliability.consistency`, with an added column ``round``: the
          round that the results are based on
        - unusable: missing verdicts (grader, reason, n, of_n); unanswered: attempts without an
          answer (condition, status, counts_as, n, of_n); addressing: answers that address their
          grader (condition, n, of_n); labellers: gold labels (labeller_kind, labeller_family, n,
          answered, graded); problems: those of :func:`skillcomp.from_frame`

        Frames with other names have no sentences here.

    Returns
    -------
    pandas.DataFrame
        One row per sentence: topic (summary, skill, condition, placebo, reading, transfer,
        distance, dimension, price, structure, trigger, grader, drift, correction or limits), about
        (skill, grader or condition; NaN if the sentence is not about a single one), verdict (of the
        skill; NaN if the sentence gives none), sentence, why (the reasons for the verdict in one
        line; NaN without a verdict). Sentences of the topics condition and placebo are about the
        other conditions of a skill; those of the topic distance are about ``curve``, and those of
        the topic reading about ``problems``.

    Raises
    ------
    FrameError
        If a frame lacks a column that its sentences need.

    Notes
    -----
    If a result is unknown, a sentence says so. A skill beats its placebo only if the whole interval
    of the difference between them is above zero. If a skill helps or hurts, a further sentence says
    that the change may be smaller than the margin. The sentence on all skills names the skills with
    a loss. Intervals are given in brackets, and differences in percentage points.

    Examples
    --------
    >>> import pandas as pd
    >>> decided = pd.DataFrame({"skill": ["tea"], "condition": ["skill"], "rate": [0.2],
    ...     "reference_rate": [0.6], "estimate": [-0.4], "ci_low": [-0.6], "ci_high": [-0.1],
    ...     "n": [14.0], "margin": [0.1], "verdict": ["harmful"], "note": [""]})
    >>> rows = findings(decided)
    >>> print(rows.loc[rows["topic"].eq("skill"), "sentence"].item())
    tea harms by the grader alone: with the skill 20 % of the answers pass and without it 60 %,
    −40 points [−60, −10] on 14 cases.
    """
    missing = missing or {}
    present = {name: frame for name, frame in frames.items() if frame is not None}
    topics = list[tuple[str, Sentence]]()
    if decided is None:
        topics += sentences_by_topic(present, _TOPICS)
    else:
        main = main_rows(decided)
        # an effect of the placebo by distance or dimension is not of interest
        for name in {"gap", "curve", "dimensions"} & present.keys():
            effects = present[name]
            present[name] = effects[effects["condition"].isin(main["condition"])]
        unchecked = not {"agreement"} & {*present, *missing}
        topics += _sentences_on_verdicts(decided, main, present, unchecked)
        topics += sentences_by_topic(present, _TOPICS)
        # the measured distance shows how far the skill reaches
        known = {*present, *missing, *(["gap"] if "curve" in present else [])}
        topics += [
            (_TOPICS[name], Sentence(text)) for name, text in _LACKING.items() if name not in known
        ]
        topics += [("limits", one) for one in _limit_sentences(main, present, unchecked)]
    for name, reason in missing.items():
        text = f"Not computed: {_ESTIMATES.get(name, name)} ({reason.rstrip('.')})."
        topics.append(("limits", Sentence(text)))
    return findings_of(topics)


def sentences_by_topic(
    frames: Mapping[str, pd.DataFrame], topics: Mapping[str, str]
) -> Iterator[tuple[str, Sentence]]:
    """Yield each sentence on `frames` with its topic, which `topics` has by name of the frame.

    In `topics`, an asterisk stands for any text in the name of a frame.
    """
    for pattern, topic in topics.items():
        for name in names_like(frames, pattern):
            yield from ((topic, one) for one in sentences_about(frames[name], name))


def findings_of(topics: Iterable[tuple[str, Sentence]]) -> pd.DataFrame:
    """Return sentences with their topics as a frame, with the sentences of a topic together."""
    rows = [(topic, one.about, one.verdict, one.text, one.why) for topic, one in topics]
    columns = ["topic", "about", "verdict", "sentence", "why"]
    frame = pd.DataFrame(rows, columns=columns).astype("str").drop_duplicates()
    return in_order_of(frame, "topic", frame["topic"]).reset_index(drop=True)


def _sentences_on_verdicts(
    decided: pd.DataFrame, main: pd.DataFrame, frames: Mapping[str, pd.DataFrame], unchecked: bool
) -> Iterator[tuple[str, Sentence]]:
    """Yield topics and sentences on the verdicts; ``unchecked`` means that there is no gold."""
    require_columns(decided, _DECIDED, "report.answer")
    others = decided.drop(main.index)
    of_placebo = others["condition"].eq("placebo")
    compared = frames.get("placebo"), frames.get("previous")
    overall = frames.get("overall", pd.DataFrame())
    parts = (
        ("summary", headline_sentences(main, unchecked)),
        ("summary", overall_sentences(overall, frames.get("overall_corrected"), main, unchecked)),
        ("skill", row_sentences(main, unchecked, *compared)),
        ("condition", row_sentences(others[~of_placebo], unchecked, *compared)),
        ("placebo", row_sentences(others[of_placebo], unchecked)),
    )
    for topic, part in parts:
        yield from ((topic, one) for one in part)


def _limit_sentences(
    main: pd.DataFrame, frames: Mapping[str, pd.DataFrame], unchecked: bool
) -> Sentences:
    """Name what would settle the open verdicts, and what the study cannot show."""
    by = columns_of(main, "skill", "agent")
    for _, row in undetermined_rows(main, "overturned").drop_duplicates(by).iterrows():
        text = "more cases would not settle this; the missing answers would."
        yield Sentence(f"{skill_and_agent(row)}: {text}", row["skill"])
    runs = main["note"].str.extract(f"({RUNS_DIFFER}.*?of this kind)")[0]
    for _, row in main.assign(runs=runs)[runs.notna()].iterrows():
        text = f"{row['runs']}: more repeats would make it narrower."
        yield Sentence(f"{skill_and_agent(row)}: {text}", row["skill"])
    rest = undetermined_rows(main[runs.isna()])
    yield from settling_sentences(rest.drop_duplicates(by), frames.get("needed"))
    sizes = main["note"].str.extract(r"deviation (of any size|below \d+ points) may go unseen")[0]
    if sizes.notna().any():
        unseen = sorted(sizes.dropna(), key=lambda size: ("below" not in size, len(size), size))[-1]
        yield Sentence(
            "If the attempts of one repeat share something, such as a day or a server, an effect "
            f"with a standard deviation {unseen} may go unseen."
        )
    # in a factorial study, the document without the content serves as placebo
    if not {"placebo", "effects"} & frames.keys():
        yield Sentence(
            "Without a placebo, it is unknown whether another text of the same length would have "
            "the same effect."
        )
    if unit_of(main.iloc[0]) == "score":
        yield Sentence("Scores are not corrected for the errors of the grader.")
    elif unchecked:
        yield Sentence("Without gold labels nothing here is corrected for the grader.")
    n = main["skill"].nunique()
    these = "this skill" if n == 1 else f"these {n} skills"
    yield Sentence(f"The intervals are about {these}, not about skills in general.")
