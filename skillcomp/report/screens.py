"""First screens of a study by kind: a headline, a table, sentences and a figure, from its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillcomp import bias, correction, overlap, plots, reliability, style
from skillcomp.frames.estimates import interval_of, ordered
from skillcomp.frames.reference_labels import ITEM
from skillcomp.frames.study_defaults import first_grader
from skillcomp.overlap.calibrate import COPIES
from skillcomp.report.phrases import (
    LIMITS,
    Sentence,
    count_range,
    listing,
    rows_of,
    share,
    with_estimate,
)
from skillcomp.report.sentences import (
    flagged_texts,
    in_its_unit,
    property_in_words,
    sentences_about,
)
from skillcomp.report.study_data import StudyData, StudyEstimates, in_order_of
from skillcomp.report.study_sentences import findings_of, sentences_by_topic
from skillcomp.stats.results import Fields, units_needed
from skillcomp.style import called
from skillcomp.table import Table, table

SKILL_QUESTION = "Does the skill teach the agent, and can the grader be trusted?"
_SKILL_NEEDS = "answers to the same cases under two conditions, one of them the reference"
# title of the sentences on each topic, in the order of a screen
TITLES = {
    "skill": "Skill by skill",
    "condition": "Other conditions",
    "placebo": "With a placebo",
    "transfer": "Near against far",
    "dimension": "By dimension",
    "structure": "Content and form",
    "trigger": "Does it fire when it should?",
    "grader": "The graders",
    "trust": "Can it be trusted?",
    "bias": "Is it biased?",
    "wins": "Which system wins?",
    "drift": "Has it drifted?",
    "differences": "How do the graders differ?",
    "correction": "What does the correction change?",
    "gold": "How many gold labels are missing?",
    "limits": "What this study cannot say",
    "reading": "How the results came about and were read",
}
_NO_ROWS = pd.DataFrame(columns=["grader", "measure", "property", "estimate", "ci_low", "n"])
_IN_SHEET = ["verbosity", "model family"]  # biases of an audit that are rows of a datasheet
_CHANGE_OF_VERSION = "change from the version before"
_MOST_DRAWN = 6  # A figure shows at most this number of judges.
_MOST = 12  # A screen shows at most this number of win rates.
_CHOICES = ["winner", "winner_position"]
_HALF_WIDTH = 0.05  # of the interval of the agreement for which labels are counted
# name of a frame -> topic of the sentences on it; * stands for the name of a grader
_ON_GRADERS = {
    **dict.fromkeys(("labellers", "agreement", "unusable", "addressing"), "trust"),
    "biases": "bias",
    **dict.fromkeys(("drift of *", "rounds"), "drift"),
    **dict.fromkeys(("ranks", "drift"), "differences"),
    "rates": "correction",
}
_ON_PAIRS = {
    **dict.fromkeys(("position", "audit"), "bias"),
    "win_rates": "wins",
    **dict.fromkeys(("drift of *", "rounds"), "drift"),
    "ranks": "differences",
}
_OF_TEXTS = ["kind", *LIMITS, "n_texts", "documents", "limit", "keeps_limit"]
_NO_TABLE = table(pd.DataFrame())


@dataclass(frozen=True)
class StudyScreen:
    """The content of the first screen of one kind of study.

    Attributes
    ----------
    kind, question : str
        The kind, such as ``"grader study"``, and the question that it answers.
    headline : str
        One sentence with the main numbers.
    table : skillcomp.table.Table
        The same numbers for every grader, or for every kind of text.
    texts : dict of str to list of str
        The sentences by topic (a key of ``TITLES``).
    drawn : pandas.DataFrame
        The rows of the figure.
    caption : str
        What the figure shows.
    draw_rows : callable
        Draws the rows and returns the axes.
    """

    kind: str
    question: str
    headline: str
    table: Table
    texts: dict[str, list[str]]
    drawn: pd.DataFrame
    caption: str
    draw_rows: Callable[[pd.DataFrame], Any]

    @property
    def stem(self) -> str:
        """The file stem of the figure."""
        return f"00-answer-{self.kind.partition(' ')[0]}"

    @property
    def findings(self) -> pd.DataFrame:
        """The sentences, in the columns of :func:`~skillcomp.report.study_sentences.findings`."""
        every = {"summary": [self.headline], **self.texts}
        return findings_of((topic, Sentence(text)) for topic, ts in every.items() for text in ts)

    def draw(self) -> Any:
        """Draw the figure of the screen."""
        with style.use():
            return self.draw_rows(self.drawn).figure

    def lines(self) -> list[str]:
        """Return the screen as lines of text."""
        cells = self.table.cells
        rows = ["", *cells.to_string(index=False).split("\n")] if len(cells) else []
        rows += [self.table.about] if self.table.about else []
        lines = [self.headline, *rows]
        for topic, texts in self.texts.items():
            lines += ["", TITLES[topic], *(f"- {text}" for text in texts)]
        return lines


def judge_table(rows: pd.DataFrame) -> Table:
    """Return a table of judges with one row per property and one column per judge.

    Parameters
    ----------
    rows : pandas.DataFrame
        The result of :func:`skillcomp.bias.datasheet`, or rows of the same kind: the columns before
        ``property`` identify a judge. Properties that no judge has are left out.
    """
    rows = rows.reset_index(drop=True)
    names = list(rows.columns[: rows.columns.get_loc("property")])
    known = with_estimate(rows)
    if known.empty:
        return _NO_TABLE
    marks = known["shown"].map({True: " *"}).fillna("")
    texts = pd.Series([re.sub(" points?", "", in_its_unit(row)) for _, row in known.iterrows()])
    every = rows.assign(
        judge=[", ".join(map(called, judge)) for judge in rows[names].itertuples(index=False)],
        property=[property_in_words(row) for _, row in rows.iterrows()],
        text=texts.set_axis(known.index) + marks,
    )
    cells = every.set_index(["property", "judge"])["text"].unstack(sort=False).dropna(how="all")
    n = every.loc[known.index].groupby("property")["n"].agg(count_range)
    cells = cells.assign(Cases=n).rename_axis(None, axis="columns").reset_index(names="Property")
    about = f"{100 * rows['ci_level'].iloc[0]:g} % intervals"
    about += "; differences in points" if known["unit"].str.endswith("points").any() else ""
    about += "; n/a: not measured" if cells.isna().any(axis=None) else ""
    about += "; *: shown to differ from an unbiased judge, p adjusted" if marks.any() else ""
    numeric = (False, *[True] * (cells.shape[1] - 1))
    return Table(cells.fillna("n/a"), about=f"{about}.", notes=(), numeric=numeric, frame=rows)


def _sheet_on_screen(sheet: pd.DataFrame) -> Fields:
    """Return the table and the figure of a datasheet."""
    return {
        "table": judge_table(sheet),
        "drawn": sheet if len(with_estimate(sheet)) else sheet[:0],
        "caption": "Properties of each judge, with the value of a judge without bias.",
        "draw_rows": _draw_sheet,
    }


def _draw_sheet(sheet: pd.DataFrame) -> Any:
    judges = sheet.iloc[:, : sheet.columns.get_loc("property")]
    return plots.datasheet(sheet[sheet.groupby(list(judges), sort=False).ngroup() < _MOST_DRAWN])


def _not_measured(sheet: pd.DataFrame) -> Iterator[str]:
    """List the properties that no judge has."""
    known = sheet["estimate"].notna().groupby(sheet["property"], sort=False).any()
    if not known.all():
        yield (
            f"Not measured: {listing(known.index[~known])}. The datasheet names the call that "
            "would measure each."
        )


# Grader studies


def _can_judge_graders(data: StudyData) -> bool:
    """Return whether verdicts can be compared with gold, or between graders, versions or rounds."""
    usable = data.verdicts[data.verdicts["passed"].notna()]
    if usable.empty or data.is_of_pairs:
        return False
    rounds = data.every["round"].fillna(1).nunique()
    return len(data.gold) > 0 or usable["grader"].nunique() > 1 or rounds > 1


def _grader_screen(
    data: StudyData, results: StudyEstimates, grader: str, design: Mapping[str, Any]
) -> Fields:
    """Assess the graders of a study by gold, and by comparison with each other."""
    _add_comparisons(data, results, grader)
    verdicts, gold, frames = data.verdicts, data.gold, results.frames
    how: Fields = {"by": ["grader", *data.agents], "cases": data.cases}
    results.add("datasheet", True, _datasheet, data, **how, **design)
    first = ordered(verdicts["condition"])[0]
    audited = verdicts, data.attempts, gold
    results.add("biases", len(gold), bias.audit, *audited, reference=first, **how)
    results.add("rates", len(gold), correction.rate, verdicts, gold, **how, **design)
    rows = frames.get("agreement", _NO_ROWS)
    unknown = f"How often {grader} errs is not known: it has no gold labels."
    if rows.empty:
        why = results.missing.get("agreement", "there are no gold labels")
        unknown = f"How often the graders err is not known: {why}."
    order = rows_of(rows, "raw_agreement").sort_values("estimate", ascending=False)["grader"]
    rows = in_order_of(rows, "grader", order)
    sheet = in_order_of(frames.get("datasheet", _NO_ROWS), "grader", order)
    # the table has the agreement of each grader
    own = {one.about: one.text for one in sentences_about(rows) if one.about}
    topics = _ON_GRADERS
    if len(set(data.base_names.values())) < 2:  # the sentences on drift compare the versions
        topics = {name: topic for name, topic in topics.items() if topic != "differences"}
    texts = [each for each in _texts_on(frames, topics) if each[1] not in own.values()]
    texts += [("gold", text) for text in _gold_sentences(data, rows, grader)]
    texts += [("limits", text) for text in _not_measured(sheet)]
    if len(gold):
        shared = "Errors that the labellers share with a grader are not seen: gold has them too."
        texts.append(("limits", shared))
    return {"headline": own.get(grader, unknown), "texts": texts, **_sheet_on_screen(sheet)}


def _datasheet(data: StudyData, pairwise: pd.DataFrame | None = None, **how: Any) -> pd.DataFrame:
    """Return the datasheet of the judges; the sentences on drift compare versions in its place."""
    verdicts, attempts = data.verdicts_and_attempts()
    graded = verdicts if pairwise is None or data.is_of_pairs else None
    labels = None if graded is None or data.labels.empty else data.labels
    sheet = bias.datasheet(graded, attempts, labels, pairwise, **how)
    named = [] if pairwise is None else ["false passes", "false fails"]  # these are equal in pairs
    left_out = sheet["property"].isin(named)
    left_out |= sheet["property"].eq(_CHANGE_OF_VERSION) & bool(data.versions)
    return sheet[~left_out].reset_index(drop=True)


def _texts_on(
    frames: Mapping[str, pd.DataFrame], topics: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return topics and sentences on frames; effects of length and family are in the table."""
    frames = {
        name: frame[~frame["bias"].isin(_IN_SHEET)] if "bias" in frame else frame
        for name, frame in frames.items()
    }
    return [(topic, one.text) for topic, one in sentences_by_topic(frames, topics)]


def _add_comparisons(data: StudyData, results: StudyEstimates, grader: str) -> None:
    """Add to `results` the differences between versions of a grader, and between graders."""
    labels = None if data.gold.empty else data.gold
    how: Fields = {"average": data.agents, "cases": data.cases}
    versions = data.versions
    for name, part in versions.items():
        compared = (reliability.drift, part, labels)
        results.add(f"drift of {name}", True, *compared, reference_grader=first_grader(part), **how)
    several = len(data.graders) > 1
    apart = several and labels is None and set(data.base_names.values()) != set(versions)
    compared = (reliability.drift, data.verdicts, labels)
    results.add("drift", apart, *compared, reference_grader=grader, **how)
    graded = data.verdicts.assign(grader_version="")  # several versions already differ in name
    contrasted = several and labels is not None
    results.add("ranks", contrasted, reliability.contrast, graded, labels, **how)


def _gold_sentences(
    data: StudyData, agreement: pd.DataFrame, grader: str, per_item: int = 1
) -> Iterator[str]:
    """Count the items of a grader without gold, and the labels that a narrow interval needs."""
    own = data.verdicts[data.verdicts["grader"].eq(grader)]
    labels = data.gold.loc[data.gold["passed"].notna(), ITEM].drop_duplicates()
    n, lacking = len(own) // per_item, (len(own) - len(own[ITEM].merge(labels))) // per_item
    units = f"{n:,} {'items' if per_item == 1 else 'comparisons'} of {grader}"
    yield f"{lacking:,} of {units} have no gold label." if lacking else f"All {units} have a label."
    raw = rows_of(agreement[agreement["grader"].eq(grader)], "raw_agreement")
    for _, row in with_estimate(raw, "ci_low").iterrows():
        needed = units_needed(interval_of(row), _HALF_WIDTH) / per_item
        yield f"{grader} needs {needed:,.0f} labels for an agreement within 5 points."


# Pairwise studies


def _pairwise_screen(
    data: StudyData, results: StudyEstimates, grader: str, design: Mapping[str, Any]
) -> Fields:
    """Describe position bias and, for a table of pairs, win rates and agreement."""
    decided = data.pairwise[data.pairwise[_CHOICES].notna().any(axis=1)]
    graders = list(dict.fromkeys(decided["grader"].dropna()))
    judge = grader if grader in graders else [*graders, ""][0]
    how: Fields = {"by": ["grader"], "cases": data.cases}
    results.add("datasheet of pairs", True, _datasheet, data, data.pairwise, **how, **design)
    results.add("position", True, bias.position, data.pairwise, **how)
    answers = (data.verdicts, data.attempts, data.gold)
    has_texts = data.is_of_pairs and data.attempts["answer"].notna().any()
    results.add("audit", has_texts, bias.audit, *answers, pairwise=data.pairwise, **how)
    frames, wins, agreement = results.frames, _NO_ROWS, _NO_ROWS
    if data.is_of_pairs:
        _add_comparisons(data, results, judge)
        systems = data.attempts["agent"].nunique() > 1
        results.add("win_rates", systems, bias.win_rates, data.pairwise, data.attempts, **how)
        agreement, wins = (frames.get(name, _NO_ROWS) for name in ("agreement", "win_rates"))
        wins = wins[wins["grader"].eq(judge)].head(_MOST)
    # in pairs, false passes and false fails are equal
    said = {
        n: rows_of(f, "agreement_change") for n, f in frames.items() if n.startswith("drift of")
    }
    position = sentences_about(frames.get("position", _NO_ROWS))
    unknown = f"Whether {judge} prefers a place is not known."
    headline = next((one.text for one in position if one.about == judge), unknown)
    texts = _texts_on(frames | said | {"win_rates": wins}, _ON_PAIRS)
    if data.is_of_pairs:
        gold = _gold_sentences(data, agreement, judge, per_item=2)
        texts += [("gold", text) for text in gold]
    else:  # the other topics are those of the skills
        texts = [each for each in texts if each[0] == "bias"]
    texts = [each for each in texts if each[1] != headline]
    sheet = frames.get("datasheet of pairs", _NO_ROWS)
    limits = [*_limits_of_pairs(data), *_not_measured(sheet)]
    texts += [("limits", text) for text in limits]
    raw = rows_of(agreement[agreement["grader"].eq(judge)], "raw_agreement")
    # a comparison has two items: "is the first better?" and "is the second better?"
    for _, row in with_estimate(raw.assign(n=raw["n"] / 2)).iterrows():
        agrees = share(row, "comparisons")
        headline = f"{headline.removesuffix('.')}; it agrees with gold in {agrees}."
    return {"headline": headline, "texts": texts, **_sheet_on_screen(sheet)}


def _limits_of_pairs(data: StudyData) -> Iterator[str]:
    pairs = data.pairwise
    lacking = int(pairs["winner"].isna().sum()) if "winner" in pairs else 0
    if lacking:
        yield f"{lacking:,} of {len(pairs):,} comparisons have no verdict and are left out."


# Calibration studies


def _can_calibrate(data: StudyData) -> bool:
    """Return whether the study has copied passages, fresh passages, and their sources."""
    texts = data.passages[data.passages["text"].notna() & data.passages["skill"].isin(data.skills)]
    levels = set(texts["level"])
    return "fresh" in levels and bool(levels & set(COPIES))


def _calibration_screen(
    data: StudyData, results: StudyEstimates, grader: str, design: Mapping[str, Any]
) -> Fields:
    """Calibrate the length of shared n-grams on labelled passages."""
    # in a skill study, a chapter calibrates on the answers, so leave the answers out here
    alone = data.attempts["answer"].notna().any() and "decided" not in results.frames
    results.add("calibration", True, _calibration, data, with_answers=alone)
    cut = results.frames.get("calibration", pd.DataFrame(columns=["measure", "n"]))
    limits = ["Copied ideas, rephrased copies and translations are missed: they share no n-gram."]
    if data.attempts.empty:
        text = "How often answers copy is not known: there are no answers, only passages."
        limits.insert(0, text)
    elif not alone and "answer_tokens" in cut:
        tokens = cut["answer_tokens"].max()
        limits.append(
            f"The rule is for texts of about {tokens:.0f} content tokens, as these passages have: "
            "of longer texts, it flags more that do not copy."
        )
    unknown = f"No threshold can be chosen: {results.missing.get('calibration')}"
    labelled = cut[~cut["measure"].astype("str").str.startswith("flagged")]
    texts = [one.text for one in sentences_about(labelled)]
    # the row of the chosen length or, if none was chosen, of the estimated length
    lengths = pd.concat([rows_of(cut, name) for name in ("chosen_n", "estimated_n")])
    shown, known = _NO_TABLE, lengths.dropna(subset="n")
    if len(known):
        rows = flagged_texts(cut, known.iloc[0])
        named = rows.rename(columns={"texts": "kind", "n_clusters": "documents"})
        shown = table(named, columns=_OF_TEXTS)
        if known["measure"].iloc[0] == "estimated_n":
            limits.insert(0, texts.pop(0))  # no length could be chosen
    return {
        "headline": " ".join(texts) or unknown,
        "table": shown,
        "texts": [("limits", text) for text in limits],
        "drawn": cut,
        "caption": "Copies found and texts flagged falsely, by length of the n-gram.",
        "draw_rows": plots.threshold,
    }


def _calibration(data: StudyData, *, with_answers: bool) -> pd.DataFrame:
    """Calibrate on the passages and, if ``with_answers`` is true, on the answers."""
    how: Fields = {"skills": data.skills, "tokenizer": data.tokenizer}
    answers = []
    if with_answers:
        shared = overlap.score(data.attempts, cases=data.cases, ngram=range(3, 13), **how)
        answers = [shared, data.attempts]
    return overlap.calibrate(*answers, passages=data.passages, n_resamples=200, **how)


# All kinds


@dataclass(frozen=True)
class StudyKind:
    """A kind of study: its question, what it needs, its chapters, and how its screen is made."""

    name: str
    question: str
    needs: str
    chapters: frozenset[str]
    is_possible: Callable[[StudyData], Any]
    make: Callable[..., Fields]


STUDY_KINDS = (
    StudyKind(
        "grader study",
        "Can the grader be trusted?",
        "verdicts with gold labels (from_frame with gold=), or verdicts of two graders, versions "
        "or rounds on the same answers",
        frozenset({"05", "06"}),
        _can_judge_graders,
        _grader_screen,
    ),
    StudyKind(
        "pairwise study",
        "Does the judge choose the better answer, wherever it is shown?",
        "preferences between two answers",
        frozenset({"06"}),
        lambda data: data.pairwise[_CHOICES].notna().any(axis=None),
        _pairwise_screen,
    ),
    StudyKind(
        "calibration study",
        "From which length on does a shared n-gram mean copying?",
        "passages that are labelled as copies or as original texts, with their sources",
        frozenset({"01"}),
        _can_calibrate,
        _calibration_screen,
    ),
)


def study_screens(
    data: StudyData, results: StudyEstimates, grader: str, design: Mapping[str, Any], skip: str = ""
) -> tuple[StudyScreen, ...]:
    """Return the first screen of each kind that the study has data for, except the kind `skip`.

    The estimates of the screens are added to `results`. The headlines are about `grader`. `design`
    states how gold was drawn.
    """
    screens = []
    for kind in STUDY_KINDS:
        if kind.name != skip and kind.is_possible(data):
            made = kind.make(data, results, grader, design)
            missing = [f"{name.capitalize()}: {why}" for name, why in results.missing.items()]
            rows = dict.fromkeys([*made["texts"], *(("limits", text) for text in missing)])
            texts = {topic: [text for t, text in rows if t == topic] for topic in TITLES}
            made["texts"] = {topic: own for topic, own in texts.items() if own}
            screens.append(StudyScreen(kind.name, kind.question, **made))
    return tuple(screens)


def needs_in_words() -> str:
    """Return one sentence per kind of study, which names the data that this kind needs."""
    needs = {"skill study": _SKILL_NEEDS} | {kind.name: kind.needs for kind in STUDY_KINDS}
    return " ".join(f"A {name} needs {what}." for name, what in needs.items())
