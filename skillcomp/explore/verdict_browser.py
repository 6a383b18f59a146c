"""Reading the cases behind a number: the answers of a case side by side, with what was said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from skillcomp.errors import FrameError
from skillcomp.explore import explorer as ui
from skillcomp.explore.label_editor import LabelEditor, label_editor
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CASE
from skillcomp.grading_rules import quote_occurs
from skillcomp.io.store import RunStore
from skillcomp.records import Skill
from skillcomp.style import CONDITION_LOOKS

_FILTERS = {
    "skill": "Skill",
    "case_id": "Case",
    "condition": "Condition",
    "grader": "Grader",
    "check_id": "Check",
    "passed": "Verdict",
    "gold": "Gold",
}
_NARROWED = ("case_id", "check_id")  # offered only as far as the filters before them leave rows
_OF_VERDICTS = {"condition", "grader", "passed", "gold"}  # these pick some of a check's verdicts
_AGREES, _DISAGREES, _OPEN = "agrees", "disagrees", "not comparable"
_PASSED, _FAILED, _NONE = "passed", "failed", "no verdict"
_FIXED = {"passed": (_PASSED, _FAILED, _NONE), "gold": (_AGREES, _DISAGREES, _OPEN)}
_OF_ANSWER = ("agent", "perturbation", "answer", "loaded_skill")
Item = tuple[Any, ...]


class Answers:
    """Answers with all that was said of them, found by case and repeat.

    Parameters
    ----------
    attempts, verdicts : pandas.DataFrame
        The answers, and what was said of them.
    gold, cases, checks : pandas.DataFrame, optional
        Reference labels, prompts and descriptions.
    skills : mapping of str to Skill or str, optional
        The skills' texts: what answers share with them is marked.
    ngram : int
        Content words in a row that count as shared.
    """

    def __init__(
        self,
        attempts: pd.DataFrame,
        verdicts: pd.DataFrame,
        gold: pd.DataFrame | None,
        cases: pd.DataFrame | None,
        checks: pd.DataFrame | None,
        skills: Mapping[str, Skill | str] | None,
        ngram: int,
    ) -> None:
        if not isinstance(ngram, int) or isinstance(ngram, bool) or ngram < 1:
            raise FrameError(f"ngram: found {ngram!r}; allowed: whole numbers of at least 1.")
        attempts, verdicts = check(attempts, "attempts"), check(verdicts, "verdicts")
        self._attempts = attempts
        self._verdicts = verdicts.assign(grader=grader_names(verdicts))
        self._gold = empty("gold") if gold is None else check(gold, "gold")
        self._of_case = _places(attempts, [*CASE, "repeat"])
        self._of_attempt = _places(verdicts, ["attempt_id"])
        self._by_case = _places(verdicts, [*CASE, "repeat"])
        self._labels = _places(self._gold, ["attempt_id", "check_id"])
        self.graders = list(dict.fromkeys(self._verdicts["grader"]))
        asked = empty("cases") if cases is None else check(cases, "cases")
        self._prompts: dict[Item, Any] = dict(zip(_keys(asked, CASE), asked["prompt"], strict=True))
        known = empty("checks") if checks is None else check(checks, "checks")
        told = zip(known["description"], known["check_kind"], strict=True)
        self._about = dict(zip(_keys(known, [*CASE, "check_id"]), told, strict=True))
        self._skills, self._ngram = dict(skills or {}), ngram
        self._shared = cache(self._copies)

    def repeats(self, skill: str, case: str) -> list[int]:
        """Return the repeats of a case that have an answer or a verdict."""
        keys = [*self._of_case, *self._by_case]
        return sorted({key[2] for key in keys if key[:2] == (skill, case)})

    def page(
        self,
        skill: str,
        case: str,
        repeat: int,
        checks: Sequence[str] | None = None,
        *,
        graders: Sequence[str] | None = None,
        lit: Collection[tuple[str, str, str]] = (),
    ) -> Markup:
        """Return the answers of a case and repeat side by side as HTML.

        Parameters
        ----------
        skill, case, repeat
            Which; repeat 0 where the frame has none.
        checks, graders : sequence of str, optional
            Of which checks and graders verdicts are shown; all by default.
        lit : collection of (str, str, str)
            Attempt, check and grader of verdicts to point out.
        """
        found = self._found(skill, case, repeat)
        said = self._said(found, checks, graders)
        wanted = list(dict.fromkeys(row["check"] for row in said)) if checks is None else checks
        shown = [name for name in graders or self.graders if name in {r["grader"] for r in said}]
        rows, previous = [], None
        for name in wanted:
            about, kind = self._about.get((skill, case, name), (None, None))
            told = {"text": ui.text(about) or name, "kind": ui.text(kind)}
            for one in found:
                mine = [row for row in said if (row["id"], row["check"]) == (one["id"], name)]
                cells = [[_cell(r, lit) for r in mine if r["grader"] == who] for who in shown]
                if self._labels:
                    cells.append(self._labelled(one["id"], name))
                head = told if name != previous else None
                rows.append({"check": head, "answer": one["name"], "cells": cells})
                previous = name
        answers = [self._answer(one, said, skill, case, len(wanted) > 1, lit) for one in found]
        flat = [piece for one in answers for piece in one["pieces"]]
        return ui.render(
            "case",
            skill=skill,
            case=case,
            repeat=repeat or None,
            prompt=ui.text(self._prompts.get((skill, case))),
            graders=shown,
            with_gold=bool(self._labels),
            rows=rows,
            answers=answers,
            any_quote=any(quote for _, quote, _ in flat),
            any_copy=any(copy for _, _, copy in flat),
            n=self._ngram,
        )

    def _found(self, skill: str, case: str, repeat: int) -> list[dict[str, Any]]:
        """Return the attempts of a case and repeat, the baseline first."""
        key = skill, case, repeat
        found = _rows(self._attempts, self._of_case, key)
        there = {one["attempt_id"] for one in found}
        for row in _rows(self._verdicts, self._by_case, key):
            if row["attempt_id"] not in there:  # a verdict on an answer that is not given
                there.add(row["attempt_id"])
                found.append(row | dict.fromkeys(_OF_ANSWER))
        order = [*CONDITION_LOOKS]
        place = {one: at for at, one in enumerate(order)}
        found.sort(key=lambda one: (place.get(one["condition"], len(order)), one["condition"]))
        twice = {one["condition"] for one in found}
        several = len(twice) < len(found)
        for one in found:
            more = [ui.text(one["agent"]), ui.text(one["perturbation"])] if several else []
            loaded = ui.text(one["loaded_skill"])
            if loaded and str(one["condition"]) not in ("baseline", "skill"):
                more.append(f"loaded: {loaded}")
            one["id"] = one["attempt_id"]
            one["name"] = ", ".join([str(one["condition"]), *(m for m in more if m)])
        return found

    def _said(
        self,
        found: Iterable[Mapping[str, Any]],
        checks: Sequence[str] | None,
        graders: Sequence[str] | None,
    ) -> list[dict[str, Any]]:
        rows = []
        for one in found:
            for row in _rows(self._verdicts, self._of_attempt, (one["id"],)):
                row |= {"id": row["attempt_id"], "check": row["check_id"]}
                wanted = checks is None or row["check"] in checks
                if wanted and (graders is None or row["grader"] in graders):
                    rows.append(row)
        return rows

    def _labelled(self, attempt: str, name: str) -> list[dict[str, Any]]:
        found = []
        for row in _rows(self._gold, self._labels, (attempt, name)):
            note = ui.text(row["note"])
            more = ["borderline"] if _yes(row["borderline"]) else []
            who = [ui.text(row["labeller"]) or "no name", *more, *([note] if note else [])]
            told = {"about": ", ".join(who), "lit": False}
            found.append(_word(row["passed"], "none") | told)
        return found

    def _answer(
        self,
        one: Mapping[str, Any],
        said: Sequence[Mapping[str, Any]],
        skill: str,
        case: str,
        several: bool,
        lit: Collection[tuple[str, str, str]],
    ) -> dict[str, Any]:
        answer, notes, quotes = ui.text(one["answer"]), [], []
        for row in said:
            if row["id"] != one["id"]:
                continue
            quote, why = ui.text(row["evidence_quote"]), ui.text(row["rationale"])
            if quote and answer:
                quotes.append(quote)
            if quote is None and why is None:
                continue
            lost = bool(quote and answer and not quote_occurs(quote, answer))
            told = {"who": row["grader"], "check": row["check"] if several else None}
            is_lit = (row["id"], row["check"], row["grader"]) in lit
            told |= {"quote": quote, "why": why, "lost": lost, "open": is_lit and not several}
            notes.append(told | _word(row["passed"], row["status"]))
        cut: list[Any] = []
        if answer is not None:
            cut = ui.pieces(answer, ui.quoted(answer, quotes), self._shared(answer, skill, case))
        return {"name": one["name"], "pieces": cut, "notes": notes}

    def _copies(self, answer: str, skill: str, case: str) -> list[tuple[int, int]]:
        prompt = self._prompts.get((skill, case))
        return ui.shared(answer, self._skills.get(skill), prompt, n=self._ngram)


def _rows(frame: pd.DataFrame, places: Mapping[Item, list[int]], key: Item) -> list[dict[str, Any]]:
    """Return the rows that stand under a key."""
    found: list[Any] = frame.take(places.get(key, [])).to_dict("records")
    return found


def _keys(frame: pd.DataFrame, names: Sequence[str]) -> list[Item]:
    columns = [
        frame[name].fillna(0).astype("int64") if name == "repeat" else frame[name].astype("str")
        for name in names
    ]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _places(frame: pd.DataFrame, names: Sequence[str]) -> dict[Item, list[int]]:
    """Return the rows of each key, in their order."""
    found: dict[Item, list[int]] = {}
    for at, key in enumerate(_keys(frame, names)):
        found.setdefault(key, []).append(at)
    return found


def _yes(value: Any) -> bool:
    return not ui.absent(value) and bool(value)


def _word(passed: Any, status: Any) -> dict[str, Any]:
    """Return a verdict as a word and how it looks; a failed grader is no verdict, never a fail."""
    if ui.absent(passed):
        known = not ui.absent(status) and status not in ("ok", "none")
        return {"word": f"no verdict ({status})" if known else "– none", "look": "none"}
    return {"word": "✓ pass", "look": "pass"} if passed else {"word": "✗ fail", "look": "fail"}


def _cell(row: Mapping[str, Any], lit: Collection[tuple[str, str, str]]) -> dict[str, Any]:
    told: dict[str, Any] = {"about": "borderline" if _yes(row["borderline"]) else ""}
    told |= {"lit": (row["id"], row["check"], row["grader"]) in lit}
    return _word(row["passed"], row["status"]) | told


def grader_names(table: pd.DataFrame) -> NDArray[np.object_]:
    """Return each row's grader, with version and round where one grader has several."""
    names = table["grader"].astype("object")
    for column, word in (("grader_version", "version"), ("round", "round")):
        several = table.groupby("grader")[column].transform("nunique") > 1
        if several.any():
            told = table[column].astype("object").where(table[column].notna(), "unknown")
            names = names.where(~several, names + f", {word} " + told.astype(str))
    return np.asarray([str(name) for name in names], dtype=object)


def verdicts(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    cases: pd.DataFrame | None = None,
    checks: pd.DataFrame | None = None,
    skills: Mapping[str, Skill | str] | None = None,
    ngram: int = 6,
    label: bool = False,
    store: RunStore | str | PathLike[str] | None = None,
    labeller: str | None = None,
) -> VerdictBrowser | LabelEditor:
    """Read the verdicts behind a number beside the answers, or give gold labels, blind.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        The verdicts to read; select rows beforehand to see those behind one estimate. Graders,
        versions and rounds stand side by side and can be filtered.
    attempts : pandas.DataFrame
        Gives the answers. Verdicts on attempts that are not in it are shown without one. With
        ``label`` the attempts to label; those without an answer are left out, and
        ``inclusion_probability`` (the chance of being drawn) goes into the label where it is there.
    gold : pandas.DataFrame, optional
        Reference labels, to read beside the verdicts. A verdict disagrees when any labeller
        differs from it. Not shown while labelling.
    cases, checks : pandas.DataFrame, optional
        Give the prompts, and the descriptions of the checks. With ``label`` every check of an
        attempt is asked; without ``checks`` those that the verdicts are about.
    skills : mapping of str to Skill or str, optional
        The skills' texts: what an answer shares with its skill is marked.
    ngram : int, default 6
        Content words in a row that count as shared.
    label : bool, default False
        Label instead of reading.
    store : RunStore or path, optional
        Where labels go (its table ``gold``), needed with ``label``. One of its own keeps the
        recorded study, and its fingerprint, as they are.
    labeller : str, optional
        Who labels, needed with ``label``.

    Returns
    -------
    VerdictBrowser or LabelEditor
        A widget. Reading: filters that open on all; the answers of a case under every condition
        side by side, with a table of what each grader, and gold, says of the check; quotes marked
        in the answers. Labelling: one answer and one check, without condition, repeat, grader or
        attempt, in a random order of attempts that is the labeller's own; Pass, Fail and Undecided
        write a label before the next is asked. Work is resumed where it stopped, and a label given
        again takes the place of the earlier one. Keys stand on the buttons.

        In code: ``choose(grader="g2", gold="disagrees")`` sets filters, ``do("step", 1)`` walks,
        ``rows`` are the verdicts that the filters leave; ``n_labelled`` counts labels.

    Raises
    ------
    FrameError
        If a frame breaks its contract or ``ngram`` is no whole number of at least 1.
    StudyError
        If labelling lacks a store or a labeller.
    StoreError
        If the store cannot be read.

    See Also
    --------
    skillcomp.reliability.label_sheet : Draws at random what to label, so that estimates are valid;
        its key names the attempts and their inclusion_probability.
    skillcomp.frames.gold : The labels of a store.
    skillcomp.reliability.drift : Says which verdicts flipped between graders.

    Notes
    -----
    Every text is escaped: what a model wrote is shown and never interpreted; characters that hide
    or turn text round are named, and a text longer than 100,000 characters is cut, and says so.
    Label by the letter of the description; leave out checks that a program decides, such as
    verbatim copying. An answer may still give its condition away by what it says. How the graders
    agree with the labels so far is told every ten labels: one at a time it would betray a verdict.
    A label that cannot be written is told, and its check stays in view.
    """
    answers = Answers(attempts, verdicts, gold, cases, checks, skills, ngram)
    given, known = check(verdicts, "verdicts"), check(attempts, "attempts")
    if label:
        about = None if cases is None else check(cases, "cases")
        asked = None if checks is None else check(checks, "checks")
        return label_editor(given, known, about, asked, store, labeller)
    return VerdictBrowser(given, None if gold is None else check(gold, "gold"), answers)


class VerdictBrowser(ui.Explorer):
    """The widget that :func:`skillcomp.explore.verdicts` returns for reading.

    Attributes
    ----------
    choices : dict of str to Control
        The filters by column; ``value`` None leaves every row.
    at : int
        Place of the check in view among those left, from 0.
    """

    def __init__(self, table: pd.DataFrame, gold: pd.DataFrame | None, answers: Answers) -> None:
        self._table, self._answers = table, answers
        self._levels = _levels(table, gold)
        keys = [*CASE, "check_id", "repeat"]
        self._item = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
        self.choices = {
            name: ui.dropdown(_FILTERS[name], _FIXED.get(name, values), key="/" * (name == "skill"))
            for name, values in self._levels.items()
        }
        self.at = 0
        self._filter()
        super().__init__("Verdicts")

    @property
    def rows(self) -> pd.DataFrame:
        """Return the verdicts that the filters leave."""
        return self._table.iloc[self._kept]

    def _filter(self) -> None:
        before = self._items[self.at] if len(self._items) else None
        keep = np.ones(len(self._table), dtype=bool)
        for name, values in self._levels.items():
            one = self.choices[name]
            if name in _NARROWED:
                left = dict.fromkeys(values[keep])
                one.offer([None, *left], [ui.EVERY, *map(str, left)])
            if one.value is not None:
                keep &= np.asarray(values == one.value, dtype=bool)
        self._kept = np.flatnonzero(keep)
        self._items, self._firsts = np.unique(self._item[self._kept], return_index=True)
        # who widens a filter stays with what is in view
        hit = np.flatnonzero(self._items == (-1 if before is None else before))
        self.at = int(hit[0]) if len(hit) else 0

    _items: NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def _chosen(self, name: str) -> None:
        self._filter()

    def _commands(self) -> dict[str, Any]:
        return {"step": self._step, "first": lambda _: self._step(0)}

    def _step(self, by: Any) -> None:
        self.at = ui.stepped(self.at, by, len(self._items)) if by else 0

    def _state(self) -> dict[str, Any]:
        n = len(self._items)
        status = "No verdict is left by these filters."
        if n:
            verdicts = f"{len(self._kept):,} verdict{'s' * (len(self._kept) != 1)}"
            status = f"Check {self.at + 1:,} of {n:,} ({verdicts})"
        return {
            "controls": [*self._dropdowns(), *ui.walk(self.at, n)],
            "shortcuts": ui.STEPS | {"/": ("focus", "skill")},
            "status": status,
            "place": str(self.at),
        }

    def _view(self, *, live: bool) -> Markup:
        if not len(self._items):
            return Markup("<p><i>Widen a filter to see verdicts.</i></p>")
        rows = self._kept[self._item[self._kept] == self._items[self.at]]
        first, graders = self._table.iloc[rows[0]], self._levels["grader"]
        name, attempts = first["check_id"], self._table["attempt_id"]
        lit = {(attempts.iloc[at], name, graders[at]) for at in rows}
        narrowed = any(
            self.choices[name].value is not None for name in _OF_VERDICTS & {*self.choices}
        )
        repeat = 0 if ui.absent(first["repeat"]) else int(first["repeat"])
        shown = lit if narrowed else ()
        return self._answers.page(first["skill"], first["case_id"], repeat, [name], lit=shown)


def _levels(table: pd.DataFrame, gold: pd.DataFrame | None) -> dict[str, NDArray[np.object_]]:
    """Return for every filter the level of every verdict."""
    passed = table["passed"].map({True: _PASSED, False: _FAILED}).fillna(_NONE)
    columns: dict[str, Any] = {
        name: table[name] for name in ("skill", "case_id", "condition", "check_id")
    }
    columns |= {"grader": grader_names(table), "passed": passed}
    if gold is not None:
        columns["gold"] = _agreement(table, gold)
    return {name: np.asarray(columns[name], dtype=object) for name in _FILTERS if name in columns}


def _agreement(table: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    keys = ["attempt_id", "check_id"]
    known = gold.dropna(subset=["passed"])
    known = known.assign(passed=known["passed"].astype("float64"))
    limits = known.groupby(keys)["passed"].agg(["min", "max"])
    own = limits.reindex(pd.MultiIndex.from_frame(table[keys])).reset_index(drop=True)
    mine = table["passed"].astype("Float64").astype("float64").reset_index(drop=True)
    found = pd.Series(_AGREES, index=own.index, dtype=object)
    found[own["min"].ne(mine) | own["max"].ne(mine)] = _DISAGREES
    found[own["min"].isna() | mine.isna()] = _OPEN
    return found
