"""The frames that a report reads from a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import pandas as pd

from skillcomp import frames
from skillcomp.errors import SkillcompError, StudyError
from skillcomp.frames import Frames
from skillcomp.frames.contracts import CASE
from skillcomp.frames.from_frame import OF_PAIR
from skillcomp.frames.reference_labels import ITEM, RESULTS, SETTLED, Drawn, check_draw
from skillcomp.frames.save_frames import saved_facts
from skillcomp.frames.study_defaults import grader_named, grader_versions
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import as_path
from skillcomp.io.store import RunStore
from skillcomp.ngrams import Tokenizer
from skillcomp.reliability.grader_agreement_and_consistency import round_flips


def frame_of(study: RunStore | frames.Frames, name: str, **how: Any) -> Any:
    """Return a frame of a study by its name; `how` are arguments for reading it from a store."""
    if isinstance(study, frames.Frames):
        return vars(study)[name]
    return getattr(frames, name)(study, **how)


Study = RunStore | Frames
StudyOrPath = Study | str | PathLike[str]  # A study, or the folder of a recorded one.


@dataclass(frozen=True)
class StudyData:
    """The frames of a study, with one name for each version of a grader.

    Attributes
    ----------
    cases, attempts, gold, pairwise, passages : pandas.DataFrame
        The frames of the study.
    labels : pandas.DataFrame
        The gold labels of each labeller, also if ``gold`` has only the adjudicated ones.
    verdicts, every : pandas.DataFrame
        The verdicts of the round that is reported, and those of all rounds.
    skills : mapping
        The skills of a store, or the sources of passages, by name.
    facts : mapping
        Recorded facts on how gold was drawn and how a table was read.
    base_names : mapping of str to str
        The name of each grader without its version.
    study : skillcomp.RunStore or skillcomp.frames.Frames
        The study that the frames were read from.
    round : int
        The round that is reported.
    tokenizer : callable, str or None
        How texts become tokens; None for the default of the package.
    """

    cases: pd.DataFrame
    attempts: pd.DataFrame
    gold: pd.DataFrame
    labels: pd.DataFrame
    pairwise: pd.DataFrame
    passages: pd.DataFrame
    verdicts: pd.DataFrame
    every: pd.DataFrame
    skills: Mapping[str, Any]
    facts: Mapping[str, Any]
    base_names: Mapping[str, str]
    study: Study
    round: int
    tokenizer: Tokenizer | None = None

    @property
    def graders(self) -> list[str]:
        """The names of the graders, in the order of their verdicts."""
        return list(dict.fromkeys(self.verdicts["grader"]))

    @property
    def agents(self) -> list[str]:
        """``["agent"]`` if several agents answered; otherwise empty."""
        return ["agent"] if self.verdicts["agent"].nunique() > 1 else []

    @property
    def labels_by_hand(self) -> pd.DataFrame:
        """The labels that say pass or fail, without those that settle differences."""
        return self.labels[self.labels["passed"].notna() & ~self.labels["labeller"].isin(SETTLED)]

    @property
    def is_of_pairs(self) -> bool:
        """Whether the verdicts come from comparisons, as in a table of pairs."""
        checks = self.verdicts["check_id"]
        return len(self.pairwise) > 0 and bool(checks.str.startswith(OF_PAIR).all())

    @property
    def versions(self) -> dict[str, pd.DataFrame]:
        """The verdicts of each grader with several versions; keys are names without versions."""
        names = self.verdicts["grader"].map(self.base_names)
        parts = dict(iter(self.verdicts.groupby(names, sort=False)))
        return {name: part for name, part in parts.items() if part["grader"].nunique() > 1}

    def verdicts_and_attempts(self) -> list[pd.DataFrame]:
        """Return verdicts and attempts with copies, for :func:`skillcomp.bias.datasheet`.

        The round that is reported has the number 1, because the first round counts there.
        """
        verdicts, attempts = (
            frame_of(self.study, name, perturbation="all", **how)
            for name, how in (("verdicts", {"round": "all"}), ("attempts", {}))
        )
        rounds = verdicts["round"].replace({self.round: 1, 1: self.round})
        return [grader_versions(verdicts.assign(round=rounds)), attempts]

    def sizes(self) -> dict[str, int]:
        """Count the skills, cases, attempts, graders, verdicts, labels, comparisons, passages."""
        n_skills = self.cases["skill"].nunique()
        own = not self.is_of_pairs  # in pairs, verdicts and labels repeat the comparisons
        sizes = {
            "skills": n_skills if n_skills > 1 else 0,  # a table need not name its only skill
            "cases": len(self.cases),
            "attempts": len(self.attempts),
            "graders": len(self.graders),
            "verdicts": own * len(self.verdicts),
            "gold labels": own * len(self.gold),
            "comparisons": len(self.pairwise),
            "passages": len(self.passages),
        }
        return {name: n for name, n in sizes.items() if n}

    def gold_design(self, gold_drawn: Drawn | None, drawn_by: str | None) -> dict[str, Any]:
        """Return `gold_drawn` and `drawn_by`; if neither is given, return those of the study."""
        if gold_drawn is None and drawn_by is None:
            gold_drawn, drawn_by = self.facts.get("gold_drawn"), self.facts.get("drawn_by")
        name = None if drawn_by is None else grader_named(drawn_by, self.graders)
        check_draw(gold_drawn or "random", name, pd.Series(self.graders), "report")
        return {"gold_drawn": gold_drawn or "random", "drawn_by": name}


@dataclass
class StudyEstimates:
    """Estimates by name, and for each missing estimate the reason."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(
        self, name: str, needed: object, run: Callable[..., pd.DataFrame], *args: Any, **how: Any
    ) -> None:
        """Run an analysis if `needed` is true; store its frame or, if it fails, its error."""
        if not needed:
            return
        try:
            self.frames[name] = run(*args, **how)
        except SkillcompError as error:
            self.missing[name] = str(error)


def opened(study: StudyOrPath) -> Study:
    """Open the study at a path; return a store or frames unchanged."""
    if isinstance(study, Study):
        return study
    folder = as_path(study, "report: study", StudyError)
    if not (folder / "manifest.json").is_file():
        hint = " For a table of your own: sc.report.build(sc.from_frame(table, ...), out)."
        raise StudyError(
            f"report: {folder} is not a recorded study: it has no manifest.json."
            + (hint if folder.is_file() else "")
        )
    return RunStore(folder)


def study_data(study: Study, round: int) -> StudyData:
    """Read the frames of a study with the verdicts of a round.

    Frames with a single round are read whole.
    """
    names = ("cases", "attempts", "gold", "pairwise", "passages")
    read = {name: frame_of(study, name) for name in names}
    read["labels"] = frame_of(study, "gold", labeller="all")
    own = frame_of(study, "verdicts", round="all")
    facts = vars(study) if isinstance(study, Frames) else saved_facts(study)
    every = grader_versions(own)
    base_names = dict(zip(every["grader"], own["grader"], strict=True))
    rounds = every["round"].fillna(1)
    verdicts = every
    if not (isinstance(study, Frames) and rounds.nunique() == 1):
        verdicts = every[rounds.eq(round)].reset_index(drop=True)
    skills = getattr(study, "skills", {})
    return StudyData(
        **read,
        verdicts=verdicts,
        every=every,
        skills=skills,
        facts=facts,
        base_names=base_names,
        study=study,
        round=round,
    )


def in_order_of(rows: pd.DataFrame, column: str, values: Iterable[Any]) -> pd.DataFrame:
    """Sort rows by the first place that the value of a column has among `values`."""
    place = {value: at for at, value in enumerate(dict.fromkeys(values))}
    return rows.sort_values(column, key=lambda cells: cells.map(place), kind="stable")


def add_facts_on_grading(into: StudyEstimates, data: StudyData, round: int) -> None:
    """Add frames to `into`, if they have rows: labellers, unusable, rounds and addressing."""
    for name, rows in (("labellers", _labellers(data)), ("unusable", _unusable_verdicts(data))):
        if len(rows):
            into.frames[name] = rows
    if len(flips := round_flips(data.every, cases=data.cases)):
        into.frames["rounds"] = flips.assign(round=round)
    answers = data.attempts[data.attempts["answer"].notna()]
    addresses = answers["answer"].map(addresses_grader).notna()
    counts = addresses.groupby(answers["condition"], sort=False).agg(n="sum", of_n="size")
    if addresses.any():
        into.frames["addressing"] = counts[counts["n"].gt(0)].reset_index()


def _labellers(data: StudyData) -> pd.DataFrame:
    """Count gold labels by kind and model family; mark families that also answered or graded.

    Also count the labellers, the checks that several of them labelled, and their disagreements.
    """
    keys = ["labeller_kind", "labeller_family"]
    by_hand = data.labels_by_hand
    items = by_hand.groupby(ITEM)["passed"].agg(["size", "nunique"])
    labels = data.gold[data.gold["passed"].notna()]
    counts = labels.groupby(keys, dropna=False, sort=False).size().reset_index(name="n")
    family = counts["labeller_family"]
    return counts.assign(
        answered=family.isin(data.attempts["agent_family"].dropna()),
        graded=family.isin(data.verdicts["grader_family"].dropna()),
        n_labellers=by_hand["labeller"].nunique(),
        n_twice=int(items["size"].gt(1).sum()),
        n_apart=int(items["nunique"].gt(1).sum()),
    )


def _unusable_verdicts(data: StudyData) -> pd.DataFrame:
    """Count the unusable verdicts of each grader by reason."""
    verdicts = data.verdicts
    of_n = verdicts.groupby("grader", sort=False).size()
    lacking = verdicts[verdicts["passed"].isna() | verdicts["status"].fillna("ok").ne("ok")]
    reason = lacking["status"].fillna("ok").replace({"ok": "without a verdict"})
    counts = lacking.groupby(["grader", reason.rename("reason")], sort=False).size()
    return counts.reset_index(name="n").assign(of_n=lambda rows: rows["grader"].map(of_n))


def with_failed_ends(
    verdicts: pd.DataFrame, outcomes: pd.DataFrame, attempts: pd.DataFrame
) -> pd.DataFrame:
    """Add failed verdicts for attempts with status timeout, truncated or refused but no verdict."""
    ended = attempts.loc[attempts["status"].isin(RESULTS), "attempt_id"]
    judged = verdicts.loc[verdicts["passed"].notna(), "attempt_id"]
    fails = outcomes[outcomes["attempt_id"].isin(ended) & ~outcomes["attempt_id"].isin(judged)]
    fails = fails.dropna(subset="passed")
    if fails.empty:
        return verdicts
    shared = [name for name in verdicts.columns if name in fails.columns and name != "score"]
    checks = verdicts[[*CASE, "check_id"]].drop_duplicates()
    rows = fails[shared].merge(checks, on=CASE).assign(status="ok", passed=False)
    kept = verdicts[~verdicts["attempt_id"].isin(fails["attempt_id"])]
    return pd.concat([kept, rows.astype({"passed": "boolean"})], ignore_index=True)
