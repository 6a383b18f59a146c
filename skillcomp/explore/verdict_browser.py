"""Read the answers of a case side by side, with their verdicts and gold labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
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

_FILTERS = {"skill": "Skill", "case_id": "Case", "condition": "Condition", "grader": "Grader"}
_FILTERS |= {"check_id": "Check", "passed": "Verdict", "gold": "Gold"}
# these filters offer only values of the verdicts that pass all earlier filters
_NARROWED = ("case_id", "check_id")
# these filters refer to single verdicts, so the verdicts that pass them are highlighted
_OF_VERDICTS = {"condition", "grader", "passed", "gold"}
_AGREES, _DISAGREES, _OPEN = "agrees", "disagrees", "not comparable"
_PASSED, _FAILED, _NONE = "passed", "failed", "no verdict"
_FIXED = {"passed": (_PASSED, _FAILED, _NONE), "gold": (_AGREES, _DISAGREES, _OPEN)}
_OF_ANSWER = ("agent", "perturbation", "answer", "loaded_skill")
Item = tuple[Any, ...]


class Answers:
    """Looks up and renders the answers of a case and repeat, with their verdicts and labels.

    Parameters
    ----------
    attempts, verdicts : pandas.DataFrame
        The answers and the verdicts on them.
    gold, cases, checks : pandas.DataFrame, optional
        The gold labels, the prompts of the cases, and the descriptions of the checks.
    skills : mapping of str to Skill or str, optional
        The texts of the skills; runs that an answer shares with its skill are marked.
    ngram : int
        Length in content words of a run that counts as shared.
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
        self._attempts_by_case = _positions_by_key(attempts, [*CASE, "repeat"])
        self._verdicts_by_attempt = _positions_by_key(verdicts, ["attempt_id"])
        self._verdicts_by_case = _positions_by_key(verdicts, [*CASE, "repeat"])
        self._labels = _positions_by_key(self._gold, ["attempt_id", "check_id"])
        self.graders = list(dict.fromkeys(self._verdicts["grader"]))
        cases = empty("cases") if cases is None else check(cases, "cases")
        keys = _row_keys(cases, CASE)
        self._prompts: dict[Item, Any] = dict(zip(keys, cases["prompt"], strict=True))
        checks = empty("checks") if checks is None else check(checks, "checks")
        descriptions = zip(checks["description"], checks["check_kind"], strict=True)
        keys = _row_keys(checks, [*CASE, "check_id"])
        self._descriptions = dict(zip(keys, descriptions, strict=True))
        self._skills, self._ngram = dict(skills or {}), ngram
        self._cached_spans = cache(self._copied_spans)

    def repeats(self, skill: str, case: str) -> list[int]:
        """Return those repeats of a case that have an answer or a verdict."""
        keys = [*self._attempts_by_case, *self._verdicts_by_case]
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
        """Render the answers of a case and repeat side by side as HTML.

        Parameters
        ----------
        skill, case, repeat
            The case and the repeat; 0 if the frames have no repeats.
        checks, graders : sequence of str, optional
            Show only verdicts on these checks by these graders; by default all.
        lit : collection of (str, str, str)
            Attempt, check and grader of each verdict to highlight.
        """
        attempts = self._attempts_of_case(skill, case, repeat)
        verdicts = [
            row
            for row in self._verdicts_of(attempts)
            if checks is None or row["check"] in checks
            if graders is None or row["grader"] in graders
        ]
        if checks is None:
            checks = list(dict.fromkeys(row["check"] for row in verdicts))
        used = {row["grader"] for row in verdicts}
        columns = [name for name in graders or self.graders if name in used]
        rows = []
        for name in checks:
            about, kind = self._descriptions.get((skill, case, name), (None, None))
            check: Any = {"text": ui.text(about) or name, "kind": ui.text(kind)}
            for attempt in attempts:
                # one cell for each grader, and one for the gold labels
                mine = [r for r in verdicts if (r["id"], r["check"]) == (attempt["id"], name)]
                cells = [[_verdict_cell(r, lit) for r in mine if r["grader"] == g] for g in columns]
                if self._labels:
                    cells.append(self._gold_cells(attempt["id"], name))
                rows.append({"check": check, "answer": attempt["name"], "cells": cells})
                check = None  # name the check only in the first of its rows
        several = len(checks) > 1
        answers = [self._answer_panel(a, verdicts, skill, case, several, lit) for a in attempts]
        pieces = [piece for attempt in answers for piece in attempt["pieces"]]
        return ui.render(
            "case",
            skill=skill,
            case=case,
            repeat=repeat or None,
            prompt=ui.text(self._prompts.get((skill, case))),
            graders=columns,
            with_gold=bool(self._labels),
            rows=rows,
            answers=answers,
            any_quote=any(quote for _, quote, _ in pieces),
            any_copy=any(copy for _, _, copy in pieces),
            n=self._ngram,
        )

    def _attempts_of_case(self, skill: str, case: str, repeat: int) -> list[dict[str, Any]]:
        """Return the attempts at a case in one repeat, baseline first."""
        key = skill, case, repeat
        attempts = _rows_at(self._attempts, self._attempts_by_case, key)
        ids = {attempt["attempt_id"] for attempt in attempts}
        for row in _rows_at(self._verdicts, self._verdicts_by_case, key):
            if row["attempt_id"] not in ids:  # the attempts frame lacks this attempt
                ids.add(row["attempt_id"])
                attempts.append(row | dict.fromkeys(_OF_ANSWER))
        rank = {condition: at for at, condition in enumerate(CONDITION_LOOKS)}
        attempts.sort(key=lambda a: (rank.get(a["condition"], len(rank)), a["condition"]))
        several = len({attempt["condition"] for attempt in attempts}) < len(attempts)
        for attempt in attempts:
            more = [ui.text(attempt["agent"]), ui.text(attempt["perturbation"])] if several else []
            loaded = ui.text(attempt["loaded_skill"])
            if loaded and str(attempt["condition"]) not in ("baseline", "skill"):
                more.append(f"loaded: {loaded}")
            attempt["id"] = attempt["attempt_id"]
            attempt["name"] = ", ".join([str(attempt["condition"]), *(m for m in more if m)])
        return attempts

    def _verdicts_of(self, attempts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for attempt in attempts:
            for row in _rows_at(self._verdicts, self._verdicts_by_attempt, (attempt["id"],)):
                yield row | {"id": row["attempt_id"], "check": row["check_id"]}

    def _gold_cells(self, attempt: str, name: str) -> list[dict[str, Any]]:
        cells = []
        for row in _rows_at(self._gold, self._labels, (attempt, name)):
            more = "borderline" if _is_true(row["borderline"]) else None
            who = [ui.text(row["labeller"]) or "no name", more, ui.text(row["note"])]
            about = {"about": ", ".join(filter(None, who)), "lit": False}
            cells.append(_verdict_word(row["passed"], "none") | about)
        return cells

    def _answer_panel(
        self,
        attempt: Mapping[str, Any],
        verdicts: Sequence[Mapping[str, Any]],
        skill: str,
        case: str,
        several: bool,
        lit: Collection[tuple[str, str, str]],
    ) -> dict[str, Any]:
        answer, notes, quotes = ui.text(attempt["answer"]), [], []
        for row in verdicts:
            if row["id"] != attempt["id"]:
                continue
            quote, why = ui.text(row["evidence_quote"]), ui.text(row["rationale"])
            if quote and answer:
                quotes.append(quote)
            if quote is None and why is None:
                continue
            lost = bool(quote and answer and not quote_occurs(quote, answer))
            entry = {"who": row["grader"], "check": row["check"] if several else None}
            is_lit = (row["id"], row["check"], row["grader"]) in lit
            entry |= {"quote": quote, "why": why, "lost": lost, "open": is_lit and not several}
            notes.append(entry | _verdict_word(row["passed"], row["status"]))
        cut: list[Any] = []
        if answer is not None:
            copies = self._cached_spans(answer, skill, case)
            cut = ui.pieces(answer, ui.quote_spans(answer, quotes), copies)
        return {"name": attempt["name"], "pieces": cut, "notes": notes}

    def _copied_spans(self, answer: str, skill: str, case: str) -> list[tuple[int, int]]:
        prompt = self._prompts.get((skill, case))
        return ui.copied_spans(answer, self._skills.get(skill), prompt, n=self._ngram)


def _rows_at(frame: pd.DataFrame, places: Mapping[Item, list[int]], key: Item) -> list[Any]:
    """Return the rows of `frame` with the given key, as dictionaries."""
    return frame.take(places.get(key, [])).to_dict("records")


def _row_keys(frame: pd.DataFrame, names: Sequence[str]) -> list[Item]:
    columns = [
        frame[name].fillna(0).astype("int64") if name == "repeat" else frame[name].astype("str")
        for name in names
    ]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _positions_by_key(frame: pd.DataFrame, names: Sequence[str]) -> dict[Item, list[int]]:
    """Map each key (the values in the columns `names`) to the positions of its rows."""
    positions: dict[Item, list[int]] = {}
    for at, key in enumerate(_row_keys(frame, names)):
        positions.setdefault(key, []).append(at)
    return positions


def _is_true(value: Any) -> bool:
    return not ui.absent(value) and bool(value)


def _verdict_word(passed: Any, status: Any) -> dict[str, Any]:
    """Return the word and look of a verdict; the word is "no verdict" if the grader failed."""
    if ui.absent(passed):
        has_reason = not ui.absent(status) and status not in ("ok", "none")
        return {"word": f"no verdict ({status})" if has_reason else "– none", "look": "none"}
    return {"word": "✓ pass", "look": "pass"} if passed else {"word": "✗ fail", "look": "fail"}


def _verdict_cell(row: Mapping[str, Any], lit: Collection[tuple[str, str, str]]) -> dict[str, Any]:
    about = "borderline" if _is_true(row["borderline"]) else ""
    is_lit = (row["id"], row["check"], row["grader"]) in lit
    return _verdict_word(row["passed"], row["status"]) | {"about": about, "lit": is_lit}


def grader_names(table: pd.DataFrame) -> NDArray[np.object_]:
    """Return each row's grader, with its version and round if the grader has several of them."""
    names = table["grader"].astype("object")
    for column, word in (("grader_version", "version"), ("round", "round")):
        several = table.groupby("grader")[column].transform("nunique") > 1
        if several.any():
            levels = table[column].astype("object").where(table[column].notna(), "unknown")
            names = names.where(~several, names + f", {word} " + levels.astype(str))
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
    store: RunStore | None = None,
    labeller: str | None = None,
) -> VerdictBrowser | LabelEditor:
    """Read verdicts next to the answers they are on, or give gold labels blind.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        The verdicts to read. To see only those behind one estimate, select their rows beforehand.
        Graders, versions and rounds are shown side by side and can be filtered.
    attempts : pandas.DataFrame
        The answers. Verdicts on attempts that are missing here are shown without an answer. With
        ``label``, these are the attempts to label; those without an answer are left out. If there
        is a column ``inclusion_probability`` (the probability that the attempt was drawn), its
        value is stored with the label.
    gold : pandas.DataFrame, optional
        Gold labels, shown next to the verdicts. A verdict disagrees with gold if the label of any
        labeller differs from it. Gold labels are not shown while labelling.
    cases, checks : pandas.DataFrame, optional
        The prompts, and the descriptions of the checks. With ``label``, every attempt is
        labelled on all checks of its case in ``checks``; if ``checks`` is not given, on the checks
        that have verdicts.
    skills : mapping of str to Skill or str, optional
        The texts of the skills; runs that an answer shares with its skill are marked.
    ngram : int, default 6
        Length in content words of a run that counts as shared.
    label : bool, default False
        Give labels instead of reading verdicts.
    store : RunStore, optional
        The store that receives the labels in its table ``gold``; required with ``label``. A
        separate store leaves the recorded study and its fingerprint unchanged.
    labeller : str, optional
        Name of the labeller; required with ``label``.

    Returns
    -------
    VerdictBrowser or LabelEditor
        A widget. For reading, it has filters, which at first let everything pass. It shows the
        answers of a case under all conditions side by side, with a table of the verdicts of each
        grader and the gold labels on one check. Quotes are marked in the answers.

        For labelling, it shows one answer and one check, but not the condition, repeat, grader or
        attempt. Attempts come in a random order that depends on the labeller. Pass, Fail and
        Undecided store a label before the next check appears. Labelling resumes at the first check
        without a label, and a second label replaces the first. The buttons show their keys.

        In code, ``choose(grader="g2", gold="disagrees")`` sets filters, and ``do("step", 1)`` goes
        to the next check. ``rows`` has the verdicts that pass the filters, and ``n_labelled`` is
        the number of labelled checks.

    Raises
    ------
    FrameError
        If a frame breaks its contract or ``ngram`` is not a whole number of at least 1.
    StudyError
        If ``label`` is set without a store or a labeller.
    StoreError
        If ``store`` is not a RunStore, or cannot be read.

    See Also
    --------
    skillcomp.reliability.label_sheet : Draw a random sample of attempts to label, so that estimates
        are valid; the key of the sheet lists the attempts and their inclusion_probability.
    skillcomp.frames.gold : The gold labels in a store.
    skillcomp.reliability.drift : How verdicts change between graders.

    Notes
    -----
    Every text is escaped: model output is shown and never interpreted. Characters that hide text or
    change its direction are replaced by their names, and a text longer than 100,000 characters is
    cut, with a remark.

    When labelling, judge by the wording of the check's description. Leave out checks that a program
    decides, such as verbatim copying. An answer may still reveal its condition by its content. The
    agreement of the graders with the labels is updated every ten labels, because after a single
    label it would reveal a verdict. If a label cannot be stored, a message appears and the check
    stays in view.
    """
    answers = Answers(attempts, verdicts, gold, cases, checks, skills, ngram)
    verdicts, attempts = check(verdicts, "verdicts"), check(attempts, "attempts")
    if label:
        return label_editor(verdicts, attempts, cases, checks, store, labeller)
    return VerdictBrowser(verdicts, None if gold is None else check(gold, "gold"), answers)


class VerdictBrowser(ui.Explorer):
    """The widget that :func:`skillcomp.explore.verdicts` returns without ``label``.

    Attributes
    ----------
    choices : dict of str to Control
        The filters, by column. A filter with ``value`` None keeps every row.
    at : int
        Position of the check in view among those that pass the filters, from 0.
    """

    def __init__(self, table: pd.DataFrame, gold: pd.DataFrame | None, answers: Answers) -> None:
        self._table, self._answers = table, answers
        self._filter_levels = _filter_levels(table, gold)
        keys = [*CASE, "check_id", "repeat"]
        self._item = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
        self.choices = {
            name: ui.dropdown(_FILTERS[name], _FIXED.get(name, values), key="/" * (name == "skill"))
            for name, values in self._filter_levels.items()
        }
        self.at = 0
        self._apply_filters()
        super().__init__("Verdicts")

    @property
    def rows(self) -> pd.DataFrame:
        """Return the verdicts that pass the filters."""
        return self._table.iloc[self._selected]

    def _apply_filters(self) -> None:
        before = self._items[self.at] if len(self._items) else None
        keep = np.ones(len(self._table), dtype=bool)
        for name, values in self._filter_levels.items():
            control = self.choices[name]
            if name in _NARROWED:
                left = sorted(pd.unique(values[keep]), key=_numbers_in_order)
                control.offer([None, *left], [ui.EVERY, *map(str, left)])
            if control.value is not None:
                keep &= np.asarray(values == control.value, dtype=bool)
        self._selected = np.flatnonzero(keep)
        self._items, self._firsts = np.unique(self._item[self._selected], return_index=True)
        # keep the current check in view if it still passes the filters
        hit = np.flatnonzero(self._items == (-1 if before is None else before))
        self.at = int(hit[0]) if len(hit) else 0

    _items: NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def _control_changed(self, name: str) -> None:
        self._apply_filters()

    def _command_handlers(self) -> dict[str, Any]:
        return {"step": self._step_check, "first": lambda _: self._step_check(0)}

    def _step_check(self, by: Any) -> None:
        self.at = ui.next_position(self.at, by, len(self._items)) if by else 0

    def _widget_state(self) -> dict[str, Any]:
        n = len(self._items)
        status = "No verdict is left by these filters."
        if n:
            verdicts = f"{len(self._selected):,} verdict{'s' * (len(self._selected) != 1)}"
            status = f"Check {self.at + 1:,} of {n:,} ({verdicts})"
        shortcuts = ui.STEPS | {"/": ("focus", "skill")}
        return {"shortcuts": shortcuts, "status": status, "place": str(self.at)}

    def _step_position(self) -> tuple[int, int]:
        return self.at, len(self._items)

    def _render_view(self, *, live: bool) -> Markup:
        if not len(self._items):
            return Markup("<p><i>Widen a filter to see verdicts.</i></p>")
        rows = self._selected[self._item[self._selected] == self._items[self.at]]
        first, graders = self._table.iloc[rows[0]], self._filter_levels["grader"]
        name, attempts = first["check_id"], self._table["attempt_id"]
        lit = {(attempts.iloc[at], name, graders[at]) for at in rows}
        chosen = [self.choices[name].value for name in _OF_VERDICTS & {*self.choices}]
        repeat = 0 if ui.absent(first["repeat"]) else int(first["repeat"])
        highlighted = lit if any(value is not None for value in chosen) else ()
        return self._answers.page(first["skill"], first["case_id"], repeat, [name], lit=highlighted)


def _numbers_in_order(name: Any) -> list[tuple[int, str]]:
    """Return a sort key by which s/2 comes before s/10."""
    parts = re.split(r"(\d+)", str(name))
    return [(int(part) if part.isdecimal() else -1, part) for part in parts]


def _filter_levels(table: pd.DataFrame, gold: pd.DataFrame | None) -> dict[str, NDArray[Any]]:
    """Return the column that each filter tests, as an array with one value per verdict."""
    passed = table["passed"].map({True: _PASSED, False: _FAILED}).fillna(_NONE)
    keys = ["skill", "case_id", "condition", "check_id"]
    columns: dict[str, Any] = {name: table[name] for name in keys}
    columns |= {"grader": grader_names(table), "passed": passed}
    if gold is not None:
        columns["gold"] = _gold_agreement(table, gold)
    return {name: np.asarray(columns[name], dtype=object) for name in _FILTERS if name in columns}


def _gold_agreement(table: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    keys = ["attempt_id", "check_id"]
    labels = gold.dropna(subset=["passed"])
    labels = labels.assign(passed=labels["passed"].astype("float64"))
    limits = labels.groupby(keys)["passed"].agg(["min", "max"])
    own = limits.reindex(pd.MultiIndex.from_frame(table[keys])).reset_index(drop=True)
    mine = table["passed"].astype("Float64").astype("float64").reset_index(drop=True)
    agreement = pd.Series(_AGREES, index=own.index, dtype=object)
    agreement[own["min"].ne(mine) | own["max"].ne(mine)] = _DISAGREES
    agreement[own["min"].isna() | mine.isna()] = _OPEN
    return agreement
