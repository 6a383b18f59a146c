"""Rows of estimates in words: one phrase for each measure, and what is said of several rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.reference_labels import ADJUDICATED
from skillcomp.frames.table_reader import UNNAMED
from skillcomp.io.study_overview import change_lines
from skillcomp.report.phrases import (
    RATES,
    Phrase,
    Row,
    Sentence,
    Sentences,
    bare,
    change,
    coefficient_text,
    count_range,
    direction,
    fields_of,
    filled,
    has_estimate,
    listing,
    listing_of_rows,
    marked,
    on_cases,
    parts_by,
    plural,
    points,
    rate,
    reason,
    rows_of,
    share,
    signed,
    size,
    treatment,
    unit_of,
    verdict_sentences,
    with_estimate,
)
from skillcomp.stats.results import Fields
from skillcomp.style import AMOUNTS, called

# Columns that identify a sentence; the first of them in a frame is what the sentence is about.
_SUBJECTS = ("skill", "grader", "side")
_KEYS = [*_SUBJECTS, "feature", "condition", "reference", "grader_version", "agent", "opponent"]
_KEYS += ["perturbation"]
# Of frames with one of these columns, there are only sentences on several rows.
_ONLY_TOGETHER = {"verdict", "at", "bias", "comprehension_dimension", "labeller", "repeat"}
_ONLY_TOGETHER |= {"property"}
_REPEATS = "{n_repeats:#repeat}"
_FLAGGED = "It flags {row:share} of {n_texts:,.0f} {texts} texts"
# start of a measure of a threshold -> its phrase
_FLAGS = {
    "sensitivity": (_FLAGGED,),
    "false_flags": (f"{_FLAGGED}, which do not copy", ": {kept} the limit of {limit:rate}"),
    "flagged": (f"{_FLAGGED}; how many of these copy is not known",),
}
_KEPT = {True: "within", False: "not shown to be within"}
_MOST_NAMES = 9  # A list of what is not shown has at most this number of names.
_MOST = 3  # A list of the largest shares has at most this number.
_GAP = (
    "{subject:s}on near cases {how} changes the pass rate by {near_delta%s:change}, on far cases "
    "by {far_delta%s:change}; {gap%s:far cases change more|far cases change less|no difference is "
    "shown}: far minus near {gap%s:change} (",
    "compared within {dimensions:names}, ",
    "{n_near:,.0f} near and {n_far:,.0f} far cases){gap%s:lost}",
)
_NEITHER = "no difference is shown"
_UNKNOWN = ("{who:s}: {what_is:s} cannot be given ({reason:s})",)
_LEVEL = "{row:share} of the {what:s} pass"
_LEVEL_OF_SCORES = "the mean score is {row:share}"
_WINS = r"(the longer answer wins [^;]*)"  # the part of a note that says which answers win
_OF_PAIRS = {
    "pair_effect_points": "An effect on the choice between two answers, given gold,",
    "pair_preference_points": "A preference, which is no bias if such answers are better,",
}
_PLACE = (
    "being shown first is worth {position_points:points}: {position_points:the answer shown first "
    "is preferred|the answer shown second is preferred|no preference for a place is shown}"
)
_IDENTICAL = "; of two identical answers, the one shown first wins {first_wins_if_identical:share}"
_CHANGES: dict[str, Callable[[Row], str]] = {
    "percentage points": points,
    "rate": share,
    "coefficient": coefficient_text,
}
_SHOWN = ["shown for", "shown only before p is adjusted, for", "not shown for", "not known for"]
_DIFFERS = "shown to differ from an unbiased judge"
_OF_JUDGES = (_DIFFERS, f"not {_DIFFERS}", "measured", "not measured")
_PHRASES_OF_AMOUNTS: list[tuple[str, dict[str, Phrase]]] = [
    (
        f"the change in {words}",
        {
            f"total_ratio_{amount}": (
                f"{{subject:s}}{{how}} changes the {words} by {{row:percent}} of the total",
                "{row:cases}",
            )
        },
    )
    for amount, words in AMOUNTS.items()
]
# What is estimated, and its phrases by measure; the first measure with an estimate is said. The
# first part of a phrase must be known; a further part is left out if a number in it is unknown. Of
# a part with several texts, the first without an unknown number is said.
# A field is a column, a word of `fields_of`, or the row of another measure of the same subject. Its
# form follows the colon; three texts are for an increase, a decrease, and neither.
PHRASES: tuple[tuple[str, dict[str, Phrase]], ...] = (
    ("agreement with gold", {"raw_agreement": (
        "{agrees} on {raw_agreement:of checks}",
        ", kappa {cohen_kappa:coefficient}",
        ", AC1 {gwet_ac1:coefficient}",
        ", alpha {alpha:coefficient}",
        "; it passes {false_passes:share} of what gold fails (false passes)",
        "; it fails {false_fails:share} of what gold passes (false fails)",
    )}),
    ("the scores of graders", {"score_difference": (
        "The scores of {grader} minus those of {against}: {score_difference:change}",
        ", mean distance {absolute_error:share}",
        ", concordance {concordance:coefficient}",
    ), "score_change": (
        "The scores of {grader} minus those of {reference}: {score_change:change} ("
        "{score_change:higher|lower|no change is shown})",
    )}),
    ("the change", dict.fromkeys(("delta_passed", "delta_share_passed"), ((
        f"{{subject:s}}{RATES}, {{row:change}}{{row:cases}}",
        "{subject:s}{how:s} changes {mean:s} by {row:change}{row:cases}",
    ),))),
    *_PHRASES_OF_AMOUNTS,
    ("the rate of changed verdicts", {"flip_rate": (
        "{grader} graded in {n_rounds:,.0f} rounds, which disagree on "
        "{flip_rate:of checks graded again}",
        " ({worst_low:rate} to {worst_high:rate}, whatever the {n_missing:#check} without a "
        "verdict in some round would have been)",
        " and on {attempt_flip_rate:of attempts}",
        "; the results are those of round {round}",
    )}),
    ("the difference between the graders", {
        "agreement_change": (
            "{grader} {agreement_change:agrees with gold more often than|agrees with gold less "
            "often than|is not shown to agree with gold more or less often than} {reference}: "
            "{agreement_change:change}",
            "; of {n:#check} {n_gained:,.0f} are right only by {grader} and {n_lost:,.0f} only by "
            "{reference}",
            "; {specificity_change:fewer false passes|more false passes|no difference is shown in "
            "false passes} (fails among gold fails {specificity_change:change})",
            "; {sensitivity_change:fewer false fails|more false fails|no difference is shown in "
            "false fails} (passes among gold passes {sensitivity_change:change})",
            "; checks passed {pass_rate_change:change}",
        ),
        "pass_rate_change": (
            "{grader} {pass_rate_change:passes a larger share of checks than|passes a smaller "
            "share of checks than|is not shown to pass another share of checks than} {reference}: ",
            "{rate:rate} against {reference_rate:rate}, ",
            "{pass_rate_change:change}",
            " on {n:#check} that both decided",
        ),
    }),
    ("a corrected number", {"naive": ((
        "{subject:s}{how} changes {mean:s} by {naive:change}; corrected for its errors"
        "{best:source}, by {best:change}",
        "{subject:s}{how} changes {mean:s} by {naive:change}; not corrected: {plain:reason}",
    ),), "naive_rate": ((
        "{subject:s}{under:s}{level:s}; corrected for its errors{best_rate:source}, "
        "{best_rate:share}",
        "{subject:s}{under:s}{level:s}; not corrected: {plain_rate:reason}",
    ),)}),
    ("the difference in errors between conditions", {"delta_youden": (
        "{grader}, {how} against {against:s}: passes among gold passes "
        "{delta_sensitivity:change} ({delta_sensitivity:fewer false fails|more false fails|"
        f"{_NEITHER}}}), fails among gold fails {{delta_specificity:change}} "
        f"({{delta_specificity:fewer false passes|more false passes|{_NEITHER}}})",
    )}),
    ("position bias", {"position_consistency": (
        "{grader} makes the same choice in both orders in {position_consistency:of pairs}",
        "; " + _PLACE, _IDENTICAL,
    ), "position_points": ("{grader} saw each pair in one order; " + _PLACE, _IDENTICAL)}),
    ("the win rate", {"win_rate": (
        "{by:s}{side} against {opponent}: {win_rate:of cases} won, a tie as half a win{place:s}",
        "; corrected by gold {win_rate_corrected:share}",
    )}),
    ("the effect on verdicts", {"perturbation_points": (
        "On copies of the kind '{perturbation}', {grader} changed {n_to_pass:,.0f} of "
        "{n:,.0f} verdicts to PASS and {n_to_fail:,.0f} to FAIL",
        "; {perturbation_points:points}, {perturbation_points:a shift to PASS|a shift to FAIL|no "
        "shift is shown}",
    )}),
    ("the difference between near and far cases", {
        "gap": tuple(part.replace("%s", "") for part in _GAP),
        "gap_pooled": (
            *(_GAP[at].replace("%s", "_pooled") for at in (0, 2)),
            ". Within dimensions: {note_on_gap:s}",
            ". Here {note_on_gap_pooled:s}",
        ),
    }),
    ("how the effect changes", dict.fromkeys(("delta_slope", "delta_slope_score"), (
        "{subject:s}the effect of {how} {row:grows|falls|is not shown to grow or fall} from the "
        "nearest to the farthest case: {row:change}{row:cases}",
        "; nearest {delta_nearest:change}, farthest {delta_farthest:change}",
        "; {without}, far cases are {reference_slope:easier, so distance and difficulty cannot be "
        "separated|harder, so distance and difficulty cannot be separated|not shown to be harder "
        "or easier}: {reference_slope:change}",
    ))),
    ("what the score explains", {"r_squared": (
        "The {feature} structure score explains {r_squared:share} of the differences between "
        "{n:#document} of {n_clusters:#skill} in what passes (R squared; "
        "{cross_validated_r_squared:rate} cross-validated)",
        ". With {n_clusters:#skill}, {detectable_r_squared:rate} or more would be detected in four "
        "of five studies",
    )}),
    ("triggering", {"exact": (
        "{subject:s}triggering ({condition}): just the right skills are invoked at {exact:share} "
        "of the prompts",
        "; a skill that should fire does at {recall:share}",
        " (named {recall_explicit:rate}, only meant {recall_implicit:rate})",
        "; the skill tested stays silent at {specificity_negative:share} of its negative prompts",
        "; {precision:share} of the invocations are right",
        "; {exact:clusters} prompts",
    ), "recall": (
        "{subject:s}triggering ({condition}): a skill that should fire does at {recall:share}",
        " (named {recall_explicit:rate}, only meant {recall_implicit:rate})",
        "; the skill tested stays silent at {specificity_negative:share} of its negative prompts",
        "; {precision:share} of the invocations are right",
        "; {recall:clusters} prompts",
    )}),
    ("the change of exact choices", {"delta_exact": (
        "{subject:s}{condition} against {reference}: the share of prompts that invoke exactly the "
        "right skills changes by {delta_exact:change}{delta_exact:||, which may be chance}",
    )}),
)  # fmt: skip


class Paragraphs(list[str]):
    """Sentences; a notebook shows each as a paragraph."""

    def _repr_markdown_(self) -> str:
        """Return the sentences with escaped markup, because names in them may be anything."""
        lines = (" ".join(sentence.split()) for sentence in self)
        return "\n\n".join(re.sub(r"([\\`*_{}\[\]<>#|!$])", r"\\\1", line) for line in lines)


def sentences(frame: pd.DataFrame) -> list[str]:
    """Summarise the rows of an analysis in sentences.

    Parameters
    ----------
    frame : pandas.DataFrame
        The result of an analysis, such as :func:`skillcomp.deltas.paired`,
        :func:`skillcomp.skillverdicts.decide`, :func:`skillcomp.transfer.gap`,
        :func:`skillcomp.reliability.agreement`, :func:`skillcomp.reliability.drift`,
        :func:`skillcomp.correction.delta`, :func:`skillcomp.bias.audit`,
        :func:`skillcomp.overlap.calibrate` or :func:`skillcomp.planning.cases_needed`.

    Returns
    -------
    list of str
        First a sentence for each subject (skill, grader, condition, agent), with the estimate and
        its interval; then sentences on several rows together, such as the order of graders. If an
        estimate is unknown, its sentence gives the reason. Empty for a frame without rows, or if
        there are no words for its measures. A notebook shows the list as paragraphs.

    Raises
    ------
    FrameError
        If `frame` is not a DataFrame, or if it lacks a column that its sentences need.

    Notes
    -----
    Every number is a number of the row that the sentence is about, with its sign. A difference is
    called shown if the column ``shown`` is True. If this column is missing or NA, it is shown if
    the interval excludes zero.

    Examples
    --------
    >>> import pandas as pd
    >>> drift = pd.DataFrame({"grader": ["new"], "reference": "old", "estimate": -0.12,
    ...     "measure": "pass_rate_change", "ci_low": -0.19, "ci_high": -0.05})
    >>> print(sentences(drift)[0])
    new passes a smaller share of checks than old: −12 points [−19, −5].
    """
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"report.sentences: expected a DataFrame, found {type(frame).__name__}.")
    return Paragraphs(sentence.text for sentence in sentences_about(frame))


def sentences_about(frame: pd.DataFrame, name: str = "") -> Sentences:
    """Yield the sentences of a frame, each with what it is about.

    Frames of counts are recognised by their `name` among the frames of an answer.
    """
    if frame.empty:
        return
    try:
        if "measure" in frame and not _ONLY_TOGETHER & set(frame):
            yield from _sentences_on_rows(frame)
        names = {name, *frame.columns, *frame.get("measure", ())}
        names = {"property"} if "property" in names else names
        for key, build in _SEVERAL.items():
            if key in names:
                for one in build(frame):
                    yield Sentence(one) if isinstance(one, str) else one
    except KeyError as error:
        raise FrameError(f"report.sentences: there is no column {error}.") from error


def rows_by_name(rows: pd.DataFrame) -> dict[str, Row]:
    """Return rows by measure, those of a correction by estimator.

    The recommended row is "best" if it is corrected, otherwise "plain".
    """
    rows = rows.reset_index(drop=True)
    best = with_estimate(marked(rows)).index.tolist() if "estimator" in rows else []
    ends = {1: "nearest", rows["bin"].max(): "farthest"} if "bin" in rows else {}
    by_name = {}
    for at, row in rows.iterrows():
        name = str(row.get("measure", ""))
        if isinstance(estimator := row.get("estimator"), str):
            end = "_rate" if name.startswith("rate") else ""
            name = f"{estimator}{end}"
            if at in best:
                by_name[f"{'plain' if estimator == 'naive' else 'best'}{end}"] = row
        for column, plain in (("kind", "all"), ("scope", "within_dimensions")):
            if row.get(column, plain) != plain:
                name += f"_{row[column]}"
        if pd.notna(row.get("bin")):
            name = f"{name.partition('_')[0]}_{ends.get(row['bin'], 'between')}"
        by_name[name] = row
    return by_name


def _sentences_on_rows(frame: pd.DataFrame) -> Sentences:
    for keys, part in parts_by(frame, *_KEYS):
        row, rows = part.iloc[0], rows_by_name(part)
        if "flip_rate" in rows:  # here agreement is that of rounds, not with gold
            rows = {name: row for name, row in rows.items() if name.endswith("flip_rate")}
        agent = f"Answers by {row['agent']}: " if isinstance(row.get("agent"), str) else ""
        if "grader" not in row and isinstance(row.get("grader_version"), str):
            agent += f"{called(row['grader_version'])}: "
        words = _words_of(row, rows)
        for what, phrases in PHRASES:
            options = [(phrases[name], rows[name]) for name in phrases if name in rows]
            if options:
                options.append((_UNKNOWN, options[0][1]))
            for phrase, own in options:
                with suppress(LookupError):
                    text = filled(phrase, fields_of(own, rows | words | {"what_is": what}))
                    starts = text.startswith(("with ", "the ", "on ", "triggering "))
                    start = text[:1].upper() if starts else text[:1]
                    yield Sentence(f"{agent}{start}{text[1:]}.", keys[0] if keys else None)
                    break


def _words_of(row: Row, rows: Mapping[str, Row]) -> Fields:
    """Return words on a row and its estimates; None for words that are unknown."""
    condition, rate_row = row.get("condition"), rows.get("naive_rate")
    is_named = isinstance(condition, str) and condition != UNNAMED
    treated = [treatment(condition)] if is_named else []
    named = [str(row[key]) for key in columns_of(row, *_SUBJECTS) if pd.notna(row[key])]
    copies = row[columns_of(row, "perturbation")].dropna()
    fixed = re.search("[^;]* was shown first in [^;:]*", str(row.get("note")))
    level = _LEVEL_OF_SCORES if unit_of(row) == "score" else _LEVEL
    gaps = {n: rows[n].get("note") or None for n in ("gap", "gap_pooled") if n in rows}
    if "no case has a dimension" in str(gaps.get("gap")):
        gaps = {}
    return {
        "subject": "".join(f"{called(name)}: " for name in named),
        "who": ", ".join([*map(called, [*named, *copies]), *treated]) or "The data",
        "under": f"under {called(condition)}, " if treated else "",
        "place": f" ({fixed[0].strip()})" if fixed else "",
        "alpha": rows.get("krippendorff_alpha") if "reference" in row else None,
        "by": f"By {row['grader']}, " if isinstance(row.get("grader"), str) else "",
        "level": None if rate_row is None else level.format_map(fields_of(rate_row)),
        "note_on_gap": gaps.get("gap"),
        "note_on_gap_pooled": gaps.get("gap_pooled"),
    }


# What is said of several rows


def _order_of_graders(agreement: pd.DataFrame) -> Iterator[str]:
    """Name the graders that are not better than chance, and the order by kappa if it differs."""
    raw = with_estimate(rows_of(agreement, "raw_agreement"), "ci_low")
    raw = raw.sort_values("estimate", ascending=False, kind="stable")
    of_rounds = agreement["measure"].eq("flip_rate").any()
    among = "reference" in raw or raw["note"].str.contains("gold is a majority").any()
    unlike = "labeller" in raw or of_rounds or among or "prevalence" not in raw
    if unlike or raw["grader"].nunique() < 2:
        return
    many, verb = "pass", "passes"
    alike = raw["prevalence"]
    if alike.median() < 0.5:
        many, verb = "fail", "fails"
        alike = 1 - alike
    text = f"By gold {count_range(100 * alike)} % of the items {many}, so a grader that "
    text += f"{verb} every item agrees on as many and has kappa 0"
    lower = raw[raw["ci_low"] <= alike]
    others = "every grader is shown to agree more often than that"
    if len(lower):
        names = listing_of_rows(lower, "{grader:s} ({row:share})")
        others = f"not shown to agree more often than that: {names}"
    yield f"{text}; {others}."
    kappa = with_estimate(rows_of(agreement, "cohen_kappa"))
    order = list(kappa.sort_values("estimate", ascending=False, kind="stable")["grader"])
    if order and order != list(raw["grader"]):
        yield f"Kappa gives another order: {listing(order)}."


def _sorted_by_shown(
    rows: pd.DataFrame, what: str, family: str, label: Callable[[Row], str]
) -> Iterator[str]:
    """List the rows for which a difference is shown, only shown before adjustment, or not shown."""
    texts: dict[str, list[str]] = {}
    for _, row in rows.iterrows():
        text, start = label(row), "not shown for"
        if pd.isna(row["estimate"]):
            start = "not known for"
        elif row["ci_low"] > 0 or row["ci_high"] < 0:
            start = _SHOWN[1]
            start = direction(row, "shown for", "shown for", start)
            text += f" ({in_its_unit(row)})"
        texts.setdefault(start, []).append(text)
    if len(others := texts.get("not shown for", [])) > _MOST_NAMES:
        texts["not shown for"] = [
            f"any of the {len(others)}{' others' if len(texts) > 1 else ' measured'}"
        ]
    parts = [f"{start} {listing(texts[start])}" for start in sorted(texts, key=_SHOWN.index)]
    is_adjusted = "p_adjusted" in rows and rows["p_adjusted"].notna().any()
    adjusted = f" (p adjusted for {family})" if is_adjusted else ""
    if parts:
        yield f"{what} is {'; '.join(parts)}{adjusted}."


def _pairs_of_graders(pairs: pd.DataFrame) -> Iterator[str]:
    """List the pairs of graders that differ in agreement."""
    level = next(
        (str(n) for n in pairs if n not in (*_SUBJECTS, "reference", "measure")), "measure"
    )
    level = "grader" if "grader" in pairs and pairs["grader"].nunique() > 1 else level
    rows = rows_of(pairs, "agreement_difference")
    pair = (f"{{{level}}}" + " against {reference}").format_map
    yield from _sorted_by_shown(rows, "A difference in agreement", "all pairs", pair)


def _agreement_of_labellers(agreement: pd.DataFrame) -> Iterator[str]:
    """Compare the agreement of graders with a labeller to the agreement between labellers."""
    ceilings = rows_of(agreement[agreement["labeller"].isna()], "ceiling_gwet_ac1")
    known = with_estimate(ceilings, "ci_low")
    if known.empty:
        why = reason(ceilings.iloc[0]) if len(ceilings) else "there are no gold labels"
        yield f"How closely a grader could agree is not known: {why}."
        return
    yield f"The labellers agree with each other by AC1 {coefficient_text(known.iloc[0])}."
    rows = with_estimate(rows_of(agreement, "gwet_ac1"), "labeller")
    for labeller, part in rows[rows["labeller"].ne(ADJUDICATED)].groupby("labeller", sort=False):
        values = listing_of_rows(part, "{grader:s} {row:kappa}")
        yield f"With {labeller}, the graders agree by AC1: {values}."


def _shares_in_words(start: str, names: str, rates: pd.DataFrame) -> Sentences:
    """List the largest shares of each subject, named by a column."""
    # ``undecided_fail`` is no breach: the rules tell a grader that cannot decide to fail
    rows = with_estimate(rates[~rates[names].isin(["undecided_fail", "none_of_these"])])
    for keys, part in parts_by(rows, "grader", "condition", "grader_version", "agent"):
        order = part.sort_values("estimate", ascending=False, kind="stable")
        if names != "goal":
            order = order[order["estimate"].gt(0)].head(_MOST)
        shares = listing_of_rows(order, f"{{{names}}} {{row:share}}") if len(order) else "none"
        who = ", ".join(map(called, keys))
        yield Sentence(f"{start} ({who}): {shares}.", keys[0])


def _biases_in_words(audit: pd.DataFrame) -> Iterator[str]:
    """List the effects on graders and, by gold label, how lenient a grader is to a condition."""
    for measure, what in _OF_PAIRS.items():
        known = with_estimate(rows_of(audit, measure), "ci_low")
        yield from _sorted_by_shown(known, what, "these effects on all graders", _effect_in_words)
        for _, row in known.iterrows():
            if wins := re.search(_WINS, row["note"]):
                yield f"By {row.get('grader', 'the grader')}, {wins[1]}."
    effects = audit[audit["measure"].isin(["effect_points", "effect_score"])]
    for stratum in ("all", "gold pass", "gold fail"):
        rows = effects[effects["stratum"].eq(stratum)]
        if stratum != "all":
            rows = rows[rows["bias"].eq("condition leniency")]
        end = "" if stratum == "all" else f" on checks with {stratum}"
        known = with_estimate(rows, "ci_low")
        what, family = f"An effect on a grader{end}", "the effects on all graders"
        yield from _sorted_by_shown(known, what, family, _effect_in_words)
    unknown = effects[effects["estimate"].isna() & effects["stratum"].eq("all")]
    unrecorded = unknown["note"].str.contains("not recorded")
    notes = unknown["note"].mask(unrecorded, "the study does not record what they need")
    for note, part in unknown.groupby(notes, sort=False):
        names = [_effect_in_words(row, of_grader=False) for _, row in part.iterrows()]
        yield f"Effects not known ({listing(dict.fromkeys(names))}): {note}."


def _datasheet_in_words(sheet: pd.DataFrame) -> Sentences:
    """List which differences from an unbiased judge are shown, and what was not measured."""
    for keys, part in parts_by(sheet, *sheet.columns[: sheet.columns.get_loc("property")]):
        texts: dict[str, list[str]] = {start: [] for start in _OF_JUDGES}
        for _, row in part.iterrows():
            text, start = property_in_words(row), _OF_JUDGES[3]
            if has_estimate(row):
                text += f" ({in_its_unit(row)})"
                start = _OF_JUDGES[2 if pd.isna(row["shown"]) else 1 - row["shown"]]
            texts[start].append(text)
        who = ", ".join(map(called, keys)) or "The judge"
        for start, named in texts.items():
            if named:
                yield Sentence(f"{who}, {start}: {listing(named)}.", keys[0] if keys else None)


def property_in_words(row: Row) -> str:
    """Name a property of a judge, such as "false passes under skill"."""
    under = f" under {called(row['condition'])}" if isinstance(row.get("condition"), str) else ""
    return f"{row['property']}{under}"


def in_its_unit(row: Row) -> str:
    """Format an estimate with its interval: a rate, a coefficient, or a difference in points."""
    return _CHANGES.get(row["unit"], change)(row)


def _effect_in_words(row: Row, of_grader: bool = True) -> str:
    """Name an effect, such as "verbosity in g2" or "condition leniency under skill"."""
    text = str(row["bias"])
    if isinstance(row.get("condition"), str):
        text += f" under {called(row['condition'])}"
    elif of_grader and isinstance(row.get("per"), str) and row["per"]:
        text += f" per {row['per']}"
    return f"{text} in {row.get('grader', 'the grader')}" if of_grader else text


def _corrections_in_words(corrected: pd.DataFrame) -> Iterator[str]:
    """Summarise how far corrections move estimates, and which conclusions they change."""
    moves, changes = list[float](), list[str]()
    corrected = corrected[corrected["unit"].ne("score")]
    words = "a gain", "a loss", "no change shown"
    for _, part in parts_by(corrected, *_KEYS):
        rows = rows_by_name(part)
        raw, best = rows.get("naive"), rows.get("best", rows.get("plain"))
        if not has_estimate(raw) or best is None:
            continue
        moves.append(100 * abs(best["estimate"] - raw["estimate"]))
        before, after = direction(raw, *words), direction(best, *words)
        if before != after:
            subject = ", ".join(called(raw[n]) for n in columns_of(raw, *_SUBJECTS, "condition"))
            excludes_zero = best["ci_low"] > 0 or best["ci_high"] < 0
            why = ", as p is adjusted" if after == words[2] and excludes_zero else ""
            changes.append(f"{subject} ({before} before, {after} after{why})")
        mean = fields_of(raw)["mean"].value
    if len(moves) > 1:
        text = f"The correction moves {len(moves)} estimates of {mean} by "
        what = f"the conclusion for {listing(changes)}" if changes else "no conclusion"
        yield f"{text}{count_range(pd.Series(moves))} points and changes {what}."


def _dimensions_in_words(rows: pd.DataFrame) -> Sentences:
    """Name the dimensions in which a change is shown, then the others."""
    for (condition,), part in parts_by(with_estimate(rows), "condition"):
        what = f"A change by {treatment(condition)}"
        label = "{comprehension_dimension}".format_map
        for text in _sorted_by_shown(part, what, "all dimensions", label):
            yield Sentence(text, condition)


def _factors_in_words(effects: pd.DataFrame) -> Iterator[str]:
    """Describe the effects of the two factors of a factorial study, such as content and form."""
    for keys, part in parts_by(effects, "agent", "grader", "grader_version"):
        start = f"{', '.join(map(called, keys))}: " if keys else ""
        of = {(row["effect"], row["at"]): row for _, row in part.iterrows()}
        factors = [name for name, at in of if not at and any(a for n, a in of if n == name)]
        if len(factors) != 2 or pd.isna(of[factors[0], ""]["estimate"]):
            why = reason(part.iloc[0])
            yield f"{start}What is content and what is form is not known: {why}."
            continue
        parts = [f"its {name} by {change(of[name, ''])}" for name in factors]
        document = "The document changes the pass rate"
        if has_estimate(total := of.get(("total", ""))):
            parts.append(f"any document by {change(of['any document', ''])}")
            document += f" by {change(total)}"
        yield f"{start}{document}: {listing(parts)}{on_cases(of[factors[0], ''])}."


def _controls_in_words(controls: pd.DataFrame) -> Sentences:
    """Name the skills that did not fire when called, and those that fired when none should."""
    for _, row in controls[controls["note"].ne("")].iterrows():
        agent = f" ({called(row['agent'])})" if "agent" in row else ""
        note = row["note"]
        if not note.startswith(row["offered"]):
            note = f"{note[0].upper()}{note[1:]}"
        yield Sentence(f"{note}{agent}.", row["offered"])


def _thresholds_in_words(cut: pd.DataFrame) -> Iterator[str]:
    """Describe the chosen n-gram threshold, the copies that it finds, and its false flags."""
    for keys, part in parts_by(cut, "skill"):
        start = "".join(f"{called(key)}: " for key in keys)
        chosen, text = marked(part, "chosen"), "A text"
        rules = with_estimate(chosen)
        if rules.empty:
            why = reason(chosen.iloc[0]) if len(chosen) else "no row is marked as chosen"
            yield f"{start}No threshold can be chosen: {why}."
            rules, text = (
                rows_of(part, "estimated_n").dropna(subset="n"),
                "By the estimates alone, a text",
            )
        for _, rule in rules.head(1).iterrows():
            yield f"{start}{text} counts as a copy if it {_copy_rule(rule)}."
            for _, row in flagged_texts(part, rule).iterrows():
                yield f"{start}{filled(_FLAGS[row['found']], fields_of(row))}."


def flagged_texts(cut: pd.DataFrame, chosen: Row) -> pd.DataFrame:
    """Return the rows on flagged texts at the chosen length, with the kind of texts in words."""
    rows = with_estimate(cut[cut["rule"].eq(chosen["rule"]) & cut["n"].eq(chosen["n"])])
    pattern = r"^(?P<found>sensitivity|false_flags|flagged)_?(?P<texts>.*)$"
    words = rows["measure"].str.extract(pattern).replace({"texts": {"": "copied"}})
    rows = rows.assign(**words, kept=rows["keeps_limit"].map(_KEPT))
    return rows[words["found"].notna() & ~words["texts"].str.endswith("_at_answer_length")]


def _copy_rule(chosen: Row) -> str:
    """Describe the rule by which a text counts as a copy."""
    n = int(chosen["n"])
    if chosen["rule"] == "share":
        return f"has {rate(chosen['cut'])} of its runs of {n} content tokens in its source"
    return f"shares {n} content tokens in a row with its source"


def _plans_in_words(needed: pd.DataFrame) -> Iterator[str]:
    """Describe how many cases a study needs for each change that it should show."""
    rows = rows_of(needed, "cases_in_all")
    by = "effect", "cluster", "size", "power", "n_skills"
    for _, part in parts_by(rows, *_KEYS, *by):
        row = part.iloc[0]
        how = treatment(row["condition"])
        what = f"a change of {size(row['size'])} by {how}"
        if row["effect"] == "gap":
            what = f"that {how} changes far cases by {size(row['size'])} "
            what += "more than near cases" if row["size"] > 0 else "less than near cases"
        what += "".join(f" ({called(row[name])})" for name in ("skill", "agent") if name in row)
        skills, general = plural(row["n_skills"], "skill"), row.get("cluster") == "skill"
        over = "" if "skill" in row else f" over {skills}"
        what += " for skills in general" if general else over
        known = with_estimate(part)
        reasons = [
            f" With {_REPEATS.format_map(fields_of(each))}: {reason(each)}."
            for _, each in part[part["estimate"].isna()].iterrows()
        ]
        text = f"To show {what} with {rate(row['power'])} power"
        study = "no number of cases can be given"
        if len(known):
            counts = listing_of_rows(known, f"{{row:#case}} with {_REPEATS}")
            study = (
                f"a study needs {counts} of each condition{f' from {skills}' if general else ''}"
            )
        yield f"{text}, {study}.{''.join(reasons)}"


def _repeats_in_words(repeats: pd.DataFrame) -> Iterator[str]:
    """Describe the noise between repeats of the same comparison."""
    if not repeats["unit"].eq("points").all():
        return
    rows = with_estimate(repeats, "se")
    if len(rows) < 2:
        yield "The noise between repeats is not known: fewer than two have a change."
        return
    low, high = (signed(rows["estimate"].agg(end)) for end in ("min", "max"))
    least, most = (size(rows["se"].agg(end), 1) for end in ("min", "max"))
    yield (
        f"Taken alone, the {len(rows)} repeats give {bare(low)} to {high} (standard deviation "
        f"{bare(size(rows['estimate'].std(), 1))}), each with a standard error of "
        f"{bare(least)} to {most}."
    )


def _largest_change(compared: pd.DataFrame) -> Iterator[str]:
    changes = rows_of(compared, "delta_exact")["estimate"].dropna().abs()
    if len(changes) > 1:
        yield f"The largest of these differences is {size(changes.max())}."


# Frames of counts


def _progress_in_words(progress: pd.DataFrame) -> Iterator[str]:
    counts = ["n_wanted", "n_not_ok", "n_open"]
    sums = progress.groupby(["stage", "name"], sort=False)[counts].sum().reset_index()
    calls = {"run": "answers", "grade": "gradings", "compare": "comparisons"}
    for stage, name, n, lost, left in sums.itertuples(index=False, name=None):
        text = f"{name}: {n - left:,} of {n:,} {calls.get(stage, 'calls')} are recorded"
        text += f" ({lost:,} without a result)" if lost else ""
        yield f"{text}; the next call asks for {left or 'none'}."


def _draw_of_gold(agreement: pd.DataFrame) -> Iterator[str]:
    words = str(agreement["gold_drawn"].iloc[0])
    elsewhere = {"recommended", "labeller"} & {*agreement.columns}
    if (
        elsewhere
        or agreement["note"].str.contains("gold is a majority").any()
        or agreement["estimate"].isna().all()
    ):
        return
    weighted = ": the shares are weighted by the verdicts" if "verdict" in words else ""
    verb = "are" if words.startswith("taken") else "were"
    yield f"The gold labels {verb} {words.removeprefix('were ')}{weighted}."


def _labellers_in_words(labellers: pd.DataFrame) -> Sentences:
    """Describe who labelled, how often labellers disagree, and labels that are not independent."""
    for _, row in labellers.iterrows():
        kind, family = row["labeller_kind"], row["labeller_family"]
        shared = [verb for verb in ("answered", "graded") if row[verb]]
        impersonal = kind in ("model", "program")
        if not impersonal and not shared:
            continue
        who = f"a {kind}" if pd.notna(kind) else "a labeller"
        who += f" ({called(family)})" if pd.notna(family) else ""
        text = f"{plural(row['n'], 'gold label')} {'is' if row['n'] == 1 else 'are'} by {who}"
        text += ", not by a person" if impersonal else ""
        text += f"; its family also {listing(shared)}" if shared else ""
        yield Sentence(f"{text}.")
    if len(labellers) and (n := labellers["n_labellers"].iloc[0]) > 1:
        who = "people" if labellers["labeller_kind"].eq("person").all() else "labellers"
        n_twice, n_apart = (labellers[name].iloc[0] for name in ("n_twice", "n_apart"))
        text = f"they disagree on {n_apart:,} of the {n_twice:,} checks that several of them judged"
        text = text if n_twice else "no check was judged by two of them"
        yield Sentence(f"Gold is by {n} {who}; {text}.")


def _counts_in_words(by: Sequence[str], part: str, phrase: str, counts: pd.DataFrame) -> Sentences:
    """Say `phrase` of the counts of each value of the columns `by`, with `part` for each row."""
    for about, rows in parts_by(counts, *by):
        n, of_n = rows["n"].sum(), rows["of_n"].iloc[0]
        words = {"n": n, "of_n": of_n, "share": n / of_n, "parts": listing_of_rows(rows, part)}
        yield Sentence(filled([phrase], fields_of(rows.iloc[0], words)), *about[:1])


# a measure, a column or the name of a frame -> the function for frames with it
_SEVERAL: dict[str, Callable[[pd.DataFrame], Iterable[str | Sentence]]] = {
    "verdict": verdict_sentences,
    "raw_agreement": _order_of_graders,
    "gold_drawn": _draw_of_gold,
    "labeller": _agreement_of_labellers,
    "agreement_difference": _pairs_of_graders,
    "counted": partial(_shares_in_words, "Rules broken most often", "measure"),
    "none_of_these": partial(_shares_in_words, "Failure modes of checks", "measure"),
    "goal": partial(_shares_in_words, "Goals met", "goal"),
    "bias": _biases_in_words,
    "property": _datasheet_in_words,
    "recommended": _corrections_in_words,
    "comprehension_dimension": _dimensions_in_words,
    "at": _factors_in_words,
    "offered": _controls_in_words,
    "keeps_limit": _thresholds_in_words,
    "cases_in_all": _plans_in_words,
    "repeat": _repeats_in_words,
    "delta_exact": _largest_change,
    "n_wanted": _progress_in_words,
    "labellers": _labellers_in_words,
    "unanswered": partial(
        _counts_in_words,
        ["condition", "counts_as"],
        "{n:,} with status {status:s}",
        "Under {condition}, {n:,} of {of_n:,} attempts have no verdict ({parts:s}): they count as "
        "{counts_as}.",
    ),
    "problems": lambda problems: change_lines(problems.to_dict("records")),
    "unusable": partial(
        _counts_in_words,
        ["grader"],
        "{n:,} {reason:s}",
        "{n:,} of {of_n:,} verdicts by {grader:s} cannot be used ({parts:s}): {share:rate} of the "
        "checks are unknown, and none of them counts as failed.",
    ),
    "addressing": partial(
        _counts_in_words,
        [],
        "{n:,} under {condition:s}",
        "Sentences to the grader, such as 'ignore the rubric', are in {n:#answer} ({parts:s}): a "
        "person should read the verdicts.",
    ),
}
