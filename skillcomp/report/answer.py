"""The answer of a study: the estimates and sentences on the first page of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from warnings import catch_warnings

import pandas as pd

from skillcomp import (
    correction,
    deltas,
    frames,
    overlap,
    planning,
    plots,
    reliability,
    skillverdicts,
    structure,
    style,
    transfer,
    triggers,
)
from skillcomp.contrast import BoundedValue, Bounds
from skillcomp.correction.delta_and_rate import delta_with_rates
from skillcomp.deltas import has_single_checks
from skillcomp.errors import SkillcompError, StudyError, require_known
from skillcomp.frames.estimates import ordered
from skillcomp.frames.outcomes import UNANSWERED, Checks
from skillcomp.frames.reference_labels import CALIBRATION, RESULTS, Drawn, compared_rows
from skillcomp.frames.study_defaults import default_reference
from skillcomp.frames.table_reader import UNNAMED, Change, changes_frame
from skillcomp.frames.words import condition_names, distinct_words
from skillcomp.io.files import read_json
from skillcomp.io.store import RunStore
from skillcomp.ngrams import Tokenizer
from skillcomp.reliability.grader_agreement_and_consistency import FOUR
from skillcomp.report.escaped_text import render
from skillcomp.report.phrases import main_rows, rows_of, undetermined_rows
from skillcomp.report.screens import StudyScreen, needs_in_words, study_screens
from skillcomp.report.study_data import (
    StudyData,
    StudyEstimates,
    StudyOrPath,
    add_facts_on_grading,
    in_order_of,
    opened,
    study_data,
    with_failed_ends,
)
from skillcomp.report.study_sentences import findings
from skillcomp.skillverdicts import NEEDED
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields

ON_FIRST_PAGE = 12  # number of skills that are shown at once; the others are folded
_AMOUNTS = ["cost_usd", "input_tokens", "output_tokens", "seconds"]
GROUPS_FILE = "groups.json"
_NO_VERDICTS = "the study holds no verdicts yet; run and grade it first."
# number of simulated studies: the standard error of a power of 80 % is then 2 points
_N_STUDIES = 400
_MOST_MARKS = 100  # with more cases in a row, the marks of single cases cannot be distinguished


@dataclass(frozen=True)
class Answer:
    """The results of a study, ready to be shown.

    Attributes
    ----------
    findings : pandas.DataFrame
        The sentences, with topic, subject and verdict.
    frames : dict of str to pandas.DataFrame
        The estimates that the sentences report, by name: decided, overall, placebo, previous, gap,
        curve, effects, explained, controls, triggers, goals, agreement, unusable, unanswered,
        addressing, rounds, drift, corrected, overall_corrected, labellers, needed, dimensions,
        price, and the estimates of the screens. A name is absent if the study does not allow the
        estimate. ``distances`` has the distances behind the curve, and ``problems`` the problems
        that were found in the frames, if any.
    groups : dict of str to str
        The group of each skill; empty if no groups are given.
    grader : str
        The grader that the results are based on; empty if the study reports only triggers or has no
        verdicts.
    facts : dict of str to int
        Sizes of the study that are not 0, such as the numbers of cases, graders, verdicts and gold
        labels.
    screens : tuple of StudyScreen
        A screen on pairs and a screen on copies, each if the study has the data for it. A study
        that compares no conditions also has a screen on its graders.
    cases : pandas.DataFrame or None
        The cases behind the results of the skills, from :func:`skillcomp.skillverdicts.cases`; None
        if the study compares no conditions.
    """

    findings: pd.DataFrame
    frames: dict[str, pd.DataFrame]
    groups: dict[str, str]
    grader: str
    facts: dict[str, int]
    screens: tuple[StudyScreen, ...] = ()
    cases: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    _of_margin: Callable[[float], Answer] | None = field(default=None, repr=False, compare=False)

    @property
    def kinds(self) -> list[str]:
        """The kinds of study that were recognised, such as "grader study"."""
        skill = ["skill study"] if "decided" in self.frames else []
        return skill + [screen.kind for screen in self.screens]

    def with_margin(self, margin: float) -> Answer:
        """Return the answer for another margin; recompute only what depends on the margin."""
        return self if self._of_margin is None else self._of_margin(margin)

    def __repr__(self) -> str:
        """Return one line with the grader and the size of the study."""
        facts = ", ".join(f"{n:,} {name}" for name, n in self.facts.items())
        return f"Answer({f'grader {self.grader}: ' if self.grader else ''}{facts})"

    def _repr_html_(self) -> str:
        """Return sentences as an escaped HTML list: the first 12, and all those on ``problems``."""
        of_data = self.findings["topic"].eq("reading")
        sentences = self.findings["sentence"]
        shown = [*sentences[~of_data][:ON_FIRST_PAGE], *sentences[of_data]]
        return render("answer", answer=self, shown=shown, more=len(sentences) - len(shown))

    def lines(self) -> list[str]:
        """Return the sentences of ``findings``.

        If the study compares no conditions, return the lines of its ``screens`` instead.
        """
        if self.screens and "decided" not in self.frames:
            return [line for screen in self.screens for line in screen.lines()]
        return list(self.findings["sentence"])

    def headline(self) -> pd.DataFrame:
        """Return the rows of the headline figure, with the skills of each group together."""
        if "decided" not in self.frames:
            return pd.DataFrame(columns=["skill", "condition", "group"])
        decided = self.frames["decided"]
        rows = decided.assign(group=[self.groups.get(name, "") for name in decided["skill"]])
        return in_order_of(rows, "group", rows["group"])


def draw_headline(
    rows: pd.DataFrame, cases: pd.DataFrame | None = None, width: str = "text"
) -> Any:
    """Draw rows of :meth:`Answer.headline`, with their `cases` if they are few."""
    rows = rows.assign(verdict=rows["verdict"].where(rows["condition"].ne("placebo")))
    group = "group" if rows["group"].ne("").any() else None
    with style.use():
        y = ["skill", "agent"] if "agent" in rows else ["skill"]
        if cases is None or cases.groupby([*y, "condition"]).size().max() > _MOST_MARKS:
            ax = plots.estimates(rows, y=y, group=group, null=0, width=width)
        else:
            ax = plots.cases(cases, rows, y=y, group=group, width=width)
        for margin in rows["margin"].unique():
            for limit in (-margin, margin):  # draw the margin, because verdicts depend on it
                ax.axvline(limit, color="#999999", linewidth=0.7, linestyle=(0, (3, 3)), zorder=0)
    return ax.figure


def answer(
    study: StudyOrPath,
    *,
    grader: str | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    interval: IntervalRule = "adaptive",
    round: int = 1,
    assume_missing: Literal["at random"] | None = None,
    asked: pd.DataFrame | None = None,
    checks: Checks = "all",
    reference: str | None = None,
    gold_drawn: Drawn | None = None,
    drawn_by: str | None = None,
    tokenizer: Tokenizer | None = None,
) -> Answer:
    """Compute the results of a study for its skills and graders.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table.
    grader : str, optional
        The grader that the results of the skills are based on. By default the grader that agrees
        best with gold or, without gold, the first by name.
    groups : mapping of str to str, optional
        The group of each skill; skills of a group are shown together. By default the groups are
        read from the file ``groups.json`` (group to list of skills) in the folder of the study, if
        it exists.
    margin : float, default 0.1
        The largest change that counts as no change, in rate units or, for scores, in their unit.
    value : {"passed", "share_passed", "score"}, default "passed"
        What the verdicts are about, as in :func:`skillcomp.skillverdicts.decide`. With ``"score"``,
        the answer has the verdicts, the change over all skills, and the comparisons with a placebo
        and with the previous version.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for the intervals of changes that are not corrected by gold, as in
        :func:`skillcomp.deltas.paired`.
    round : int, default 1
        The grading round to use; 2 and higher are repeated gradings. Ignored for frames with one
        round.
    assume_missing : {"at random"}, optional
        As in :func:`skillcomp.skillverdicts.decide`.
    asked : pandas.DataFrame, optional
        The attempts that were planned, as in :func:`skillcomp.from_frame`. Default: the plan of
        the store, if there is one.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: count only checks that all conditions of the case have, as in
        :func:`skillcomp.frames.outcomes`.
    reference : str, optional
        The condition that the others are compared with. By default "baseline" or, in a study
        without one, "previous".
    gold_drawn, drawn_by : str, optional
        How gold was drawn, as in :func:`skillcomp.correction.delta`. Default: as it was given to
        :func:`skillcomp.from_frame`; if it was not given there, at random.
    tokenizer : callable or "unicode", optional
        For a calibration study, as in :func:`skillcomp.overlap.calibrate`.

    Returns
    -------
    Answer
        The sentences, and the estimates that they report.

    Raises
    ------
    StudyError
        If the path holds no study, `grader` or `drawn_by` is unknown, `asked` names a condition
        without attempts, there are no answers under `reference`, or the study has data for no kind
        of report. A study without baseline that records which skills fired raises no error if no
        `grader` is given: its answer is about triggers only.
    """
    study = opened(study)
    data = replace(study_data(study, round), tokenizer=tokenizer)
    cases, verdicts, gold = data.cases, data.verdicts, data.gold
    attempts = frames.attempts(study, asked=_with_conditions_named(asked, data.attempts))
    estimates, is_score = StudyEstimates(), value == "score"
    found = estimates.frames
    if len(data.facts.get("problems", ())):
        found["problems"] = data.facts["problems"]
    _add_triggers(estimates, frames.invocations(study), verdicts, cases)
    judged = verdicts[verdicts["passed"].notna() | verdicts["score"].notna()]
    if "baseline" not in set(judged["condition"]) and "triggers" in found and grader is None:
        sentences = findings(None, missing=estimates.missing, **found)
        return Answer(sentences, found, {}, "", data.sizes())
    draw = data.gold_design(gold_drawn, drawn_by)
    of_value: Fields = {"value": value, "bounds": bounds}
    of_gold: Fields = {"quantities": [*FOUR, "gwet_ac1"], **draw}
    labels = gold
    if is_score:
        of_gold, labels = of_value, gold[gold["score"].notna()]
    of_gold = {"by": ["grader"], "cases": cases, "average": ["agent"], **of_gold}
    labelled = len(labels) and len(verdicts)
    estimates.add("agreement", labelled, reliability.agreement, verdicts, labels, **of_gold)
    if is_score and grader is None:
        grader = next(iter(sorted(verdicts.loc[verdicts["score"].notna(), "grader"])), None)
    chosen = (
        reliability.default_grader(verdicts, gold, grader=grader) if grader or data.graders else ""
    )
    if grader is None and not labelled and len(data.graders) > 1:
        done = f"no gold says which is right: {chosen} counts"
        change = Change("graders", ", ".join(data.graders), done, 0)
        found["problems"] = pd.concat([changes_frame([change]), found.get("problems")])
    add_facts_on_grading(estimates, data, round)
    on_screens = partial(_answer_on_screens, estimates, data, chosen, draw)
    if verdicts.empty or data.is_of_pairs:
        return on_screens(_NO_VERDICTS if verdicts.empty else "there are only comparisons.")
    outcomes = frames.outcomes(verdicts, cases, attempts=attempts, checks=checks)
    outcomes, verdicts = _with_agents_named(outcomes), _with_agents_named(verdicts)
    outcomes, attempts = (compared_rows(f, draw["gold_drawn"]) for f in (outcomes, attempts))
    mine = outcomes[outcomes["grader"].eq(chosen)]
    if is_score:
        gold = gold.iloc[:0]
        found.pop("unusable", None)  # verdicts without pass or fail have scores
        if mine["transfer"].notna().any():
            estimates.missing["gap"] = "near and far cases are compared by what passes"
    try:
        reference = default_reference(mine.drop(columns="passed") if is_score else mine, reference)
    except StudyError as error:
        if reference is not None:
            raise
        return on_screens(str(error))
    agents = ["agent"] if mine["agent"].nunique() > 1 else []
    by = ["skill", *agents]
    shared: Fields = {"cases": cases, "checks": checks, **draw}
    of_passes: Fields = {"reference": reference, "value": "passed", **shared}
    # gold drawn by verdict needs the verdicts of all graders
    needed = verdicts["grader"].eq(chosen) | (draw["gold_drawn"] == "verdict")
    corrected = with_failed_ends(verdicts[needed], mine, attempts)
    attempt, keys = StudyEstimates(), ["grader", *by]
    attempt.add("corrections", len(gold), delta_with_rates, corrected, gold, by=keys, **of_passes)
    rates = attempt.frames.get("corrections", pd.DataFrame(columns=[*keys, *NEEDED]))
    rates = rates[rates["grader"].eq(chosen)].drop(columns="grader")

    def decide(results: StudyEstimates, other: float) -> None:
        """Decide with the corrected rates; if that fails, decide without them."""
        how: Fields = {"by": by, "reference": reference, "margin": other, **of_value}
        how |= {"assume_missing": assume_missing, "interval": interval}
        results.missing |= attempt.missing
        try:
            try:
                decided = skillverdicts.decide(mine, corrected=rates if len(gold) else None, **how)
            except SkillcompError as error:
                if rates.empty:
                    raise
                results.missing["corrections"] = str(error)
                decided = skillverdicts.decide(mine, corrected=rates.iloc[:0], **how)
        except SkillcompError as error:
            raise StudyError(f"report: {error}") from error
        results.frames["decided"] = _skills_by_effect(decided)

    decide(estimates, margin)
    _add_skills(estimates, mine, reference, agents, interval=interval, **of_value)
    if not is_score:
        _add_passes(estimates, mine, attempts, reference, agents, data)
    whole = len(gold) and "overall" in found and not agents  # correction.delta averages no agents
    estimates.add(
        "overall_corrected", whole, correction.delta, corrected, gold, by=["grader"], **of_passes
    )
    if "overall_corrected" in found:
        rows = found["overall_corrected"]
        found["overall_corrected"] = rows[rows["grader"].eq(chosen)]
    if not is_score and isinstance(study, RunStore) and (design := study.manifest.get("design")):
        estimates.add("effects", True, structure.factorial, mine, design, average=agents)
        explain = partial(structure.score_association, attempts=attempts)
        estimates.add("explained", True, explain, mine, study.skills)
    # an attempt that ran out of time has failed, but it has no score
    if not is_score and len(unanswered := _unanswered_attempts(mine, attempts)):
        found["unanswered"] = unanswered
    compared = [reference, *main_rows(found["decided"])["condition"].unique()]
    if not is_score:
        # a share of one check is a pass
        checked = "passed" if has_single_checks(outcomes) else "share_passed"
        _add_graders(estimates, verdicts, gold, chosen, compared, agents, checked, **shared)
    further = StudyEstimates({**found})
    screens = study_screens(data, further, chosen, draw, skip="grader study")
    if groups is None:
        groups = _groups_of_skills(study.path) if isinstance(study, RunStore) else {}

    by_case = None if is_score else skillverdicts.cases(mine, by=by, reference=reference)

    @cache
    def with_margin(other: float) -> Answer:
        results = StudyEstimates({**found}, {**estimates.missing})
        if other != margin:
            decide(results, other)
        if not is_score:
            _add_cases_needed(results, mine, by, compared, interval)
        sentences = findings(missing=results.missing, **results.frames)
        # leave out the limits, because each screen on the page shows its own
        own = [s.findings[s.findings["topic"].ne("limits")] for s in screens]
        sentences = pd.concat([sentences, *own], ignore_index=True)
        named = dict(groups or {})
        every = {**further.frames, **results.frames}
        sizes = data.sizes()
        return Answer(sentences, every, named, chosen, sizes, screens, by_case, with_margin)

    return with_margin(margin)


def _answer_on_screens(
    estimates: StudyEstimates, data: StudyData, grader: str, design: Mapping[str, Any], reason: str
) -> Answer:
    """Return the answer that the screens give; `reason` states why no conditions are compared."""
    reason = reason.removeprefix("report: ")
    unnamed = data.verdicts["condition"].eq(UNNAMED).all()
    why = "no conditions are compared." if unnamed else reason
    estimates.missing["whether a skill helps is not known"] = why
    screens = study_screens(data, estimates, grader, design)
    if not screens:
        raise StudyError(f"report: {reason} {needs_in_words()}")
    reading = findings(None, problems=estimates.frames.get("problems"))
    sentences = pd.concat([*(s.findings for s in screens), reading], ignore_index=True)
    return Answer(sentences, estimates.frames, {}, grader, data.sizes(), screens)


def _with_conditions_named(asked: Any, attempts: pd.DataFrame) -> Any:
    """Rename conditions in `asked` as `from_frame` does; refuse a condition without attempts."""
    if not isinstance(asked, pd.DataFrame) or "condition" not in asked.columns:
        return "plan" if asked is None else asked
    present = ordered(attempts["condition"])
    words = distinct_words(asked["condition"])
    names = {w: w if w in present else name for w, name in condition_names(words).items()}
    for word, name in names.items():
        if name not in present:
            what = "report: asked: there are no attempts under the condition"
            require_known(what, word, present, StudyError, label="there")
    return asked.assign(condition=asked["condition"].astype("object").map(names))


def _add_triggers(
    into: StudyEstimates, invocations: pd.DataFrame, verdicts: pd.DataFrame, cases: pd.DataFrame
) -> None:
    agents = ["agent"] if invocations["agent"].nunique(dropna=False) > 1 else []
    recorded = not invocations.empty
    controls = triggers.controls(invocations, cases, by=agents) if recorded else None
    if controls is not None and len(controls):
        into.frames["controls"] = controls
        keys = ["condition", *agents]
        dead = controls.loc[controls["dead"], ["offered", *keys]]
        of_dead = pd.MultiIndex.from_frame(verdicts[["skill", *keys]]).isin(
            dead.to_numpy().tolist()
        )
        verdicts = verdicts[~of_dead]
    into.add("triggers", recorded, triggers.detection, invocations, cases, by=agents)
    with_goals = recorded and verdicts["goal"].notna().any()
    into.add("goals", with_goals, triggers.goals, verdicts, cases, by=["grader", *agents])


def _add_graders(
    into: StudyEstimates,
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    chosen: str,
    conditions: list[str],
    agents: list[str],
    value: str,
    **how: Any,
) -> None:
    labels = None if gold.empty else gold
    several = verdicts["grader"].nunique() > 1
    by = ["agent"] if verdicts["agent"].nunique() > 1 else []
    into.add(
        "drift",
        several,
        reliability.drift,
        verdicts,
        labels,
        reference_grader=chosen,
        cases=how["cases"],
        by=by,
    )
    together = [*conditions, CALIBRATION] if how["gold_drawn"] == "separate" else conditions
    compared = verdicts[verdicts["condition"].isin(together)]
    how |= {"by": ["grader", *agents], "reference": conditions[0], "value": value}
    into.add("corrected", len(gold), correction.delta, compared, gold, **how)


def _add_skills(
    into: StudyEstimates, mine: pd.DataFrame, reference: str, agents: list[str], **how: Any
) -> None:
    """Add the change over all skills, and the comparisons with a placebo and an old version."""
    several = bool(agents) or mine["skill"].nunique() > 1
    into.add("overall", several, deltas.paired, mine, reference=reference, average=agents, **how)
    others = mine[mine["condition"].ne(reference)]
    for name in ("placebo", "previous"):
        possible = name in set(others["condition"]) and others["condition"].nunique() > 1
        into.add(
            name, possible, deltas.paired, others, by=["skill", *agents], reference=name, **how
        )


def _add_passes(
    into: StudyEstimates,
    mine: pd.DataFrame,
    attempts: pd.DataFrame,
    reference: str,
    agents: list[str],
    data: StudyData,
) -> None:
    """Add what is estimated from passes only: distance, dimensions and what a pass costs."""
    how: Fields = {"reference": reference, "average": agents}
    into.add("gap", mine["transfer"].notna().any(), transfer.gap, mine, **how)
    cases = data.cases[data.cases["skill"].isin(data.skills)]
    # the warnings are about words that are not English, the errors about texts that are missing
    with catch_warnings(action="ignore"), suppress(SkillcompError):
        distances = overlap.case_distance(cases, data.skills, tokenizer=data.tokenizer)
        rows = distances.merge(mine, on=["skill", "case_id"], suffixes=("", "_own"))
        curve = transfer.curve(rows, distance="distance", **how)
        if rows_of(curve, "delta_slope")["estimate"].notna().any():
            into.frames |= {"curve": curve, "distances": distances}
    tagged = mine["comprehension_dimension"].notna().any()
    into.add(
        "dimensions",
        tagged and not agents,
        deltas.paired,
        mine,
        by=["comprehension_dimension"],
        reference=reference,
    )
    spent = attempts[_AMOUNTS].notna().any(axis=None)
    into.add("price", spent, deltas.price, mine, attempts, by=agents, reference=reference)


def _add_cases_needed(
    into: StudyEstimates,
    mine: pd.DataFrame,
    by: list[str],
    conditions: list[str],
    interval: IntervalRule,
) -> None:
    """Add the number of cases that would settle the verdict of each undetermined skill.

    Skills are left out if only missing attempts or the correction make them undetermined.
    """
    decided = main_rows(into.frames["decided"])
    undecided = undetermined_rows(decided)
    skills = undecided["skill"].unique()
    outcomes = mine[mine["skill"].isin(skills) & mine["condition"].isin(conditions)]
    into.add(
        "needed",
        len(outcomes),
        _cases_for_verdicts,
        undecided,
        outcomes,
        by=by,
        n_open=max((decided["p_adjusted"] >= 1.0 - decided["ci_level"]).sum(), 1),
        reference=conditions[0],
        n_studies=_N_STUDIES,
        interval=interval,
    )


def _cases_for_verdicts(
    undecided: pd.DataFrame, outcomes: pd.DataFrame, *, by: list[str], n_open: int, **how: Any
) -> pd.DataFrame:
    """Estimate how many cases would settle each verdict if the true change is as observed.

    The rows with a margin of 0 are about a gain or loss, at the level that Holm's method asks of
    the smallest of the ``n_open`` p-values that are not yet small enough. The other rows are about
    a change beyond the margin or, if the observed change is smaller, within it.
    """
    pilot = planning.variance_components(outcomes, by=by, reference=how["reference"])
    repeats = outcomes.groupby([*by, "case_id", "condition"], observed=True).size()
    how["n_repeats"] = max(int(repeats.median()), 1)
    frames = []
    for _, verdict in undecided.iterrows():
        keys = [*by, "condition"]
        part = pilot[pilot[keys].eq(verdict[keys]).all(axis=1)]
        size, margin = verdict["estimate"], verdict["margin"]
        if part.empty or pd.isna(size):
            continue
        levels = {margin: verdict["ci_level"]}
        if abs(size) >= margin and pd.notna(verdict["p_adjusted"]):
            levels = {0.0: 1.0 - (1.0 - verdict["ci_level"]) / n_open, **levels}
        for beyond, ci_level in levels.items():
            frame = planning.cases_needed(
                part, by=by, size=size, n_skills=1, margin=beyond, ci_level=ci_level, **how
            )
            frames.append(rows_of(frame, "cases_per_skill").assign(margin=beyond))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _unanswered_attempts(mine: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Count the attempts that ended without an answer, by condition and status."""
    ends = mine.merge(attempts[["attempt_id", "status"]], on="attempt_id", how="left")
    ended = ends[ends["status"].isin([*UNANSWERED, *RESULTS]) & ends["n_passed"].eq(0)]
    counts = ended.groupby(["condition", "status"], sort=False).size().reset_index(name="n")
    counts_as = counts["status"].isin(UNANSWERED).map({True: "missing", False: "failed"})
    of_n = counts["condition"].map(mine.groupby("condition").size())
    return counts.assign(counts_as=counts_as, of_n=of_n)


def _with_agents_named(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Name agents that have no name, because groupby would drop their rows."""
    several = outcomes["agent"].nunique(dropna=False) > 1
    return outcomes.fillna({"agent": "unnamed agent"}) if several else outcomes


def _skills_by_effect(decided: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows so that the skill with the largest gain comes first."""
    main = decided[decided["condition"].eq("skill")]
    main = main if len(main) else decided
    names = main.sort_values("estimate", ascending=False, kind="stable")["skill"]
    order = [*names, *decided["skill"]]
    return in_order_of(decided, "skill", order).reset_index(drop=True)


def _groups_of_skills(folder: Path) -> dict[str, str]:
    """Read the group of each skill from the folder of the study."""
    file = folder / GROUPS_FILE
    if not file.is_file():
        return {}
    skills_of = read_json(file.resolve(), error=StudyError)
    try:
        return {str(skill): str(group) for group, skills in skills_of.items() for skill in skills}
    except (AttributeError, TypeError):
        raise StudyError(
            f"{GROUPS_FILE}: expected an object of group to list of skills, such as "
            '{"invented": ["tea", "tide"]}.'
        ) from None
