"""The answer of a study: what is computed of a store for the first page of its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from skillcomp import (
    correction,
    deltas,
    frames,
    planning,
    plots,
    reliability,
    skillverdicts,
    structure,
    style,
    transfer,
    triggers,
)
from skillcomp.errors import SkillcompError, StudyError, instead
from skillcomp.frames import Frames
from skillcomp.frames.estimates import group_codes
from skillcomp.io.store import RunStore
from skillcomp.report.findings import findings

ON_FIRST_PAGE = 12  # skills; more are behind a fold
GROUPS_FILE = "groups.json"


@dataclass(frozen=True)
class Answer:
    """What a study says, ready to be shown.

    Attributes
    ----------
    findings : pandas.DataFrame
        The sentences, as of :func:`skillcomp.report.findings`.
    frames : dict of str to pandas.DataFrame
        The estimates behind them: decided, overall, placebo, gap, effects, explained, triggers,
        goals, agreement, unusable, drift, corrected, needed, as far as the study allows them.
    groups : dict of str to str
        The group of each skill, where the study names groups.
    grader : str
        Whose verdicts the sentences about skills rest on.
    facts : dict of str to int
        How many skills, cases, attempts, verdicts, gold labels and graders there are.
    """

    findings: pd.DataFrame
    frames: dict[str, pd.DataFrame]
    groups: dict[str, str]
    grader: str
    facts: dict[str, int]

    def headline(self) -> pd.DataFrame:
        """Return the rows of the headline figure: skills in order, group beside group."""
        if "decided" not in self.frames:
            return pd.DataFrame(columns=["skill", "condition", "group"])
        decided = self.frames["decided"]
        rows = decided.assign(group=[self.groups.get(name, "") for name in decided["skill"]])
        places = {name: place for place, name in enumerate(dict.fromkeys(rows["group"]))}
        return rows.sort_values("group", key=lambda column: column.map(places), kind="stable")

    def draw(self, skills: list[str]) -> Any:
        """Draw the headline figure of some skills and return the figure."""
        rows = self.headline()
        rows = rows[rows["skill"].isin(skills)]
        group = "group" if rows["group"].ne("").any() else None
        with style.use():
            ax = plots.estimates(rows, y="skill", group=group, null=0)
        return ax.figure


@dataclass
class _Parts:
    """Estimates as far as the study allows them; why not is kept."""

    found: dict[str, pd.DataFrame] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def take(
        self, name: str, needs: object, make: Callable[..., pd.DataFrame], *given: Any, **how: Any
    ) -> None:
        if not needs:
            return
        try:
            self.found[name] = make(*given, **how)
        except SkillcompError as error:
            self.missing[name] = str(error)


def answer(
    study: RunStore | str | PathLike[str] | Frames,
    *,
    grader: str | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    order: str = "effect",
    round: int = 1,
) -> Answer:
    """Compute what a study says of its skills and its graders.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table.
    grader : str, optional
        Whose verdicts count. By default the one that agrees best with gold, without gold the
        first by name.
    groups : mapping of str to str, optional
        The group of each skill; groups are kept together. By default what ``groups.json`` in the
        study's folder says (group to list of skills), or none.
    margin : float, default 0.1
        The largest change that counts as none, in rate units.
    order : {"effect", "name"}, default "effect"
        Skills inside a group by their effect, the largest gain first, or by name.
    round : int, default 1
        Which grading counts; 2 and up are gradings repeated later. Frames hold what they hold.

    Returns
    -------
    Answer
        The sentences and the estimates behind them.

    Raises
    ------
    StudyError
        If the path holds no study, or the study has no verdicts, no baseline (unless it records
        which skills fired: the answer is then about that alone), or no such grader.
    """
    if order not in ("effect", "name"):
        raise StudyError(f"report: order '{order}'; allowed: effect, name.")
    study = opened(study)
    if isinstance(study, Frames):
        cases, attempts, verdicts, gold = study.cases, study.attempts, study.verdicts, study.gold
    else:
        cases, attempts = frames.cases(study), frames.attempts(study)
        verdicts, gold = frames.verdicts(study, round=round), frames.gold(study)
    verdicts = _with_style_and_version(verdicts)
    parts = _Parts()
    if not isinstance(study, Frames):
        _about_triggers(parts, frames.invocations(study), verdicts, cases)
    asked_once = "baseline" not in set(verdicts["condition"])
    if asked_once and "triggers" in parts.found and grader is None:
        facts = {"skills": cases["skill"].nunique(), "cases": len(cases)}
        facts |= {"attempts": len(attempts), "verdicts": len(verdicts)}
        facts = {name: count for name, count in facts.items() if count}
        return Answer(findings(None, **parts.found), parts.found, {}, "", facts)
    if verdicts.empty:
        raise StudyError("report: the study holds no verdicts yet; run and grade it first.")
    outcomes = _skill_per_agent(frames.outcomes(verdicts, cases))
    graders = list(dict.fromkeys(verdicts["grader"]))
    of_graders: dict[str, Any] = {"by": ["grader"], "cases": cases}
    parts.take("agreement", len(gold), reliability.agreement, verdicts, gold, **of_graders)
    chosen = _chosen(graders, grader, parts.found.get("agreement"))
    mine = outcomes[outcomes["grader"].eq(chosen)]
    if "baseline" not in set(mine["condition"]):
        raise StudyError("report: there are no answers under baseline to compare with.")
    parts.take("decided", True, skillverdicts.decide, mine, margin=margin)
    if "decided" not in parts.found:
        raise StudyError(f"report: {parts.missing['decided']}")
    parts.found["decided"] = _ordered(parts.found["decided"], order)
    _about_skills(parts, mine)
    if not isinstance(study, Frames) and (design := study.manifest.get("design")):
        parts.take("effects", True, structure.factorial, mine, design)
        parts.take(
            "explained", True, structure.score_association, mine, study.skills, attempts=attempts
        )
    unusable = _unusable(verdicts)
    if len(unusable):
        parts.found["unusable"] = unusable
    labels = None if gold.empty else gold
    against: dict[str, Any] = {"reference": chosen, "cases": cases}
    parts.take("drift", len(graders) > 1, reliability.drift, verdicts, labels, **against)
    compared = verdicts[verdicts["condition"].isin(["baseline", "skill"])]
    parts.take("corrected", len(gold), correction.delta, compared, gold, **of_graders)
    _what_would_settle(parts, mine, margin)
    facts = {"skills": mine["skill"].nunique(), "cases": len(cases), "answers": len(attempts)}
    facts |= {"graders": len(graders), "verdicts": len(verdicts), "gold labels": len(gold)}
    if groups is None:
        groups = {} if isinstance(study, Frames) else _groups(study.path)
    told = findings(**parts.found)
    return Answer(told, parts.found, dict(groups), chosen, facts)


def opened(study: RunStore | str | PathLike[str] | Frames) -> RunStore | Frames:
    """Open a study named by its path; a store and frames pass unchanged."""
    if isinstance(study, RunStore | Frames):
        return study
    folder = Path(study)
    if not (folder / "manifest.json").is_file():
        hint = " For a table of your own: sc.report.build(sc.from_frame(table, ...), out)."
        raise StudyError(
            f"report: {folder} is not a recorded study: it has no manifest.json."
            + (hint if folder.is_file() else "")
        )
    return RunStore(folder)


def _about_triggers(
    parts: _Parts, invocations: pd.DataFrame, verdicts: pd.DataFrame, cases: pd.DataFrame
) -> None:
    agents = ["agent"] if invocations["agent"].nunique(dropna=False) > 1 else []
    there = not invocations.empty
    parts.take("triggers", there, triggers.detection, invocations, cases, by=agents)
    with_goals = there and verdicts["goal"].notna().any()
    parts.take("goals", with_goals, triggers.goals, verdicts, cases, by=["grader", *agents])


def _about_skills(parts: _Parts, mine: pd.DataFrame) -> None:
    conditions = set(mine["condition"])
    parts.take("overall", mine["skill"].nunique() > 1, deltas.paired, mine)
    others = mine[mine["condition"].ne("baseline")]
    beside: dict[str, Any] = {"by": ["skill"], "reference": "placebo"}
    with_placebo = "placebo" in conditions and len(conditions) > 2
    parts.take("placebo", with_placebo, deltas.paired, others, **beside)
    parts.take("gap", mine["transfer"].notna().any(), transfer.gap, mine)


def _what_would_settle(parts: _Parts, mine: pd.DataFrame, margin: float) -> None:
    decided = parts.found["decided"]
    open_ = decided.loc[decided["verdict"].eq("undetermined"), "skill"].unique()
    kept = mine[mine["skill"].isin(open_) & mine["condition"].isin(["baseline", "skill"])]
    repeats = kept.groupby(["skill", "case_id", "condition"], observed=True).size()

    def needed() -> pd.DataFrame:
        pilot = planning.variance_components(kept, by=["skill"])
        each: dict[str, Any] = {"n_skills": 1, "n_repeats": max(int(repeats.median()), 1)}
        return planning.cases_needed(pilot, by=["skill"], size=margin, **each)

    parts.take("needed", len(repeats), needed)


def _unusable(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Count the verdicts of each grader that say neither pass nor fail, by the reason."""
    of_n = verdicts.groupby("grader", sort=False).size()
    lacking = verdicts[verdicts["passed"].isna() | verdicts["status"].fillna("ok").ne("ok")]
    reason = lacking["status"].fillna("ok").replace({"ok": "without a verdict"})
    found = lacking.groupby(["grader", reason.rename("reason")], sort=False).size()
    return found.rename("n").reset_index().assign(of_n=lambda rows: rows["grader"].map(of_n))


def _with_style_and_version(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Name graders by the style that their version states, and versions of one apart."""
    if verdicts.empty:
        return verdicts
    code, first = group_codes(verdicts, ["grader", "grader_version"])
    pairs = verdicts[["grader", "grader_version"]].iloc[first].fillna({"grader_version": ""})
    names: list[str] = []
    for grader, version in zip(pairs["grader"], pairs["grader_version"], strict=True):
        name, sign, _ = version.partition("@")
        text = f"{grader} ({name})" if sign else grader
        if not sign and int(pairs["grader"].eq(grader).sum()) > 1:
            text = f"{grader} (version {version or 'unknown'})"
        names.append(f"{text} {version}" if text in names else text)
    told = pd.Series(names, dtype="str").array.take(code)
    return verdicts.assign(grader=told)


def _skill_per_agent(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Tell the answers of several agents apart as if each had skills of its own."""
    if outcomes["agent"].nunique(dropna=False) < 2:
        return outcomes
    agent = outcomes["agent"].fillna("unnamed agent")
    return outcomes.assign(skill=outcomes["skill"] + ", " + agent, agent="")


def _chosen(graders: list[str], wanted: str | None, agreement: pd.DataFrame | None) -> str:
    if wanted is not None:
        for name in graders:
            if wanted == name or name.startswith(f"{wanted} ("):
                return name
        raise StudyError(f"report: there is no grader '{wanted}'{instead(wanted, graders)}")
    if agreement is not None:
        raw = agreement[agreement["measure"].eq("raw_agreement")].dropna(subset=["estimate"])
        if len(raw):
            return str(raw.sort_values("estimate", kind="stable")["grader"].iloc[-1])
    return sorted(graders)[0]


def _ordered(decided: pd.DataFrame, order: str) -> pd.DataFrame:
    if order == "name":
        names = sorted(decided["skill"].unique())
    else:
        main = decided[decided["condition"].eq("skill")]
        main = main if len(main) else decided
        names = list(main.sort_values("estimate", ascending=False, kind="stable")["skill"])
    place = {name: at for at, name in enumerate(dict.fromkeys([*names, *decided["skill"]]))}
    return decided.sort_values("skill", key=lambda s: s.map(place), kind="stable").reset_index(
        drop=True
    )


def _groups(folder: Path) -> dict[str, str]:
    """Return the group of each skill that the study's folder names."""
    file = folder / GROUPS_FILE
    if not file.is_file():
        return {}
    try:
        named = orjson.loads(file.read_bytes())
        return {str(skill): str(group) for group, skills in named.items() for skill in skills}
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        raise StudyError(
            f"{GROUPS_FILE}: expected an object of group to list of skills, such as "
            '{"invented": ["tea", "tide"]}.'
        ) from None
