"""The answers to a case side by side, with their verdicts and gold labels, as HTML."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from skillcomp.errors import FrameError, require_whole
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CASE
from skillcomp.grading_rules import normalise_quote
from skillcomp.records import Skill
from skillcomp.report import escaped_text as html
from skillcomp.style import CONDITION_LOOKS

_OF_ANSWER = ("agent", "perturbation", "answer", "loaded_skill")
_OF_ATTEMPT = ("attempt_id", *CASE, "condition", "repeat", *_OF_ANSWER)
_OF_VERDICT = ("attempt_id", *CASE, "condition", "repeat", "check_id", "grader", "status")
_OF_VERDICT += ("passed", "score", "borderline", "evidence_quote", "rationale")
_OF_LABEL = ("attempt_id", "check_id", "labeller", "passed", "borderline", "note")
Item = tuple[Any, ...]
Row = dict[str, Any]


class Answers:
    """Looks up and renders the answers to a case, with their verdicts and labels.

    Parameters
    ----------
    attempts, verdicts : pandas.DataFrame
        The answers and the verdicts on them.
    gold, cases, checks : pandas.DataFrame, optional
        The gold labels, the prompts of the cases, and the descriptions of the checks.
    skills : mapping of str to Skill or str, optional
        The texts of the skills. Sequences of words that an answer shares with its skill are marked.
    ngram : int
        Smallest length of a marked sequence, in content words.
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
        attempts, verdicts = check(attempts, "attempts"), check(verdicts, "verdicts")
        verdicts = verdicts.assign(grader=grader_names(verdicts))
        gold = empty("gold") if gold is None else check(gold, "gold")
        self._attempts = _Rows(attempts, CASE, _OF_ATTEMPT)
        self._verdicts = _Rows(verdicts, CASE, _OF_VERDICT)
        self._labels = _Rows(gold, ["attempt_id", "check_id"], _OF_LABEL)
        self.graders = list(dict.fromkeys(verdicts["grader"]))
        cases = empty("cases") if cases is None else check(cases, "cases")
        self._prompts = cases.set_index(CASE)["prompt"].to_dict()
        checks = empty("checks") if checks is None else check(checks, "checks")
        checks = checks.set_index([*CASE, "check_id"])
        self._descriptions = checks["description"].to_dict()
        self._kinds = checks["check_kind"].to_dict()
        self._skills, self._ngram = dict(skills or {}), require_whole("ngram", ngram, FrameError)
        self._cached_spans = cache(self._copied_spans)

    def repeats(self, skill: str, case: str) -> list[int]:
        """Return those repeats of a case that have an answer or a verdict."""
        rows = [*self._attempts.at((skill, case)), *self._verdicts.at((skill, case))]
        return sorted({_repeat_of(row) for row in rows})

    def prompt(self, skill: str, case: str) -> str | None:
        """Return the prompt of a case as text to show."""
        return html.text(self._prompts.get((skill, case)))

    def page(
        self,
        skill: str,
        case: str,
        repeat: int,
        checks: Sequence[str] | None = None,
        *,
        lit: Collection[Item] = (),
    ) -> Markup:
        """Render a case as HTML, with all answers of one repeat side by side.

        Parameters
        ----------
        skill, case, repeat
            The case and the repeat; 0 if the frames have no repeats.
        checks : sequence of str, optional
            Show only verdicts on these checks; by default all.
        lit : collection of (str, str, str)
            Attempt, check and grader of each verdict to highlight.
        """
        panels = self.panels(skill, case, repeat, checks, lit=lit)
        used = {grader for panel in panels for grader, _ in panel["verdicts"]}
        columns = [name for name in self.graders if name in used]
        return html.render(
            "explore-case",
            skill=skill,
            case=case,
            repeat=repeat or None,
            prompt=self.prompt(skill, case),
            graders=columns,
            with_gold=bool(self._labels),
            checks=self.checks_of(skill, case, panels, checks),
            answers=panels,
            n=self._ngram,
        )

    def checks_of(
        self, skill: str, case: str, panels: Sequence[Row], checks: Sequence[str] | None = None
    ) -> list[Row]:
        """Return id, text and kind of each check with a verdict, or of the given checks.

        ``gold`` has the gold labels on the check for each panel.
        """
        present = (name for panel in panels for _, name in panel["verdicts"])
        about = []
        for name in dict.fromkeys(present) if checks is None else checks:
            key = skill, case, name
            text, kind = (html.text(of.get(key)) for of in (self._descriptions, self._kinds))
            gold = [self._gold_cells(panel["id"], name) for panel in panels]
            about.append({"id": name, "text": text or name, "kind": kind, "gold": gold})
        return about

    def panels(
        self,
        skill: str,
        case: str,
        repeat: int | None = None,
        checks: Sequence[str] | None = None,
        *,
        lit: Collection[Item] = (),
    ) -> list[Row]:
        """Return one panel (a dictionary) for each answer to a case; by default, of all repeats.

        The baseline comes first. Each panel has id, condition, agent, repeat and name, the pieces
        of the text, the notes of the verdicts (quote, rationale), and ``verdicts`` by grader and
        check.
        """
        attempts, verdicts = self._attempts.at((skill, case)), self._verdicts.at((skill, case))
        ids = {attempt["attempt_id"] for attempt in attempts}
        for row in verdicts:
            if row["attempt_id"] not in ids:  # the attempts frame lacks this attempt
                ids.add(row["attempt_id"])
                attempts.append(row | dict.fromkeys(_OF_ANSWER))
        attempts = [a for a in attempts if repeat is None or _repeat_of(a) == repeat]
        verdicts_of: dict[str, list[Row]] = {attempt["attempt_id"]: [] for attempt in attempts}
        for row in verdicts:
            mine = checks is None or row["check_id"] in checks
            if mine and row["attempt_id"] in verdicts_of:
                verdicts_of[row["attempt_id"]].append(row)
        used = {row["check_id"] for rows in verdicts_of.values() for row in rows}
        several = len(used if checks is None else checks) > 1
        return [
            self._answer_panel(attempt, name, verdicts_of[attempt["attempt_id"]], several, lit)
            for attempt, name in _named_attempts(attempts)
        ]

    def _answer_panel(
        self,
        attempt: Row,
        name: str,
        verdicts: Sequence[Row],
        several: bool,
        lit: Collection[Item],
    ) -> Row:
        answer, notes, quotes = html.text(attempt["answer"]), [], []
        normalised = normalise_quote(answer or "")
        cells: dict[Item, list[Row]] = {}
        for row in verdicts:
            word = _verdict_word(row["passed"], row["status"], row["score"])
            is_lit = (row["attempt_id"], row["check_id"], row["grader"]) in lit
            about = "borderline" if _is_true(row["borderline"]) else ""
            cell = word | {"about": about, "lit": is_lit}
            cells.setdefault((row["grader"], row["check_id"]), []).append(cell)
            quote, why = html.text(row["evidence_quote"]), html.text(row["rationale"])
            if quote and answer:
                quotes.append(quote)
            if quote is None and why is None:
                continue
            lost = bool(quote and answer and normalise_quote(quote) not in normalised)
            note = {
                "who": row["grader"],
                "check": row["check_id"] if several else None,
                "quote": quote,
                "why": why,
                "lost": lost,
                "open": is_lit and not several,
            }
            notes.append(note | word)
        parts = []
        if answer is not None:
            copies = self._cached_spans(answer, attempt["skill"], attempt["case_id"])
            parts = html.pieces(answer, html.quote_spans(answer, quotes), copies)
        return {
            "id": attempt["attempt_id"],
            "condition": str(attempt["condition"]),
            "name": name,
            "agent": html.text(attempt["agent"]),
            "repeat": _repeat_of(attempt),
            "pieces": parts,
            "notes": notes,
            "verdicts": cells,
        }

    def _gold_cells(self, attempt: str, name: str) -> list[Row]:
        """Return the gold labels of an attempt on a check in words, with their labellers."""
        cells = []
        for row in self._labels.at((attempt, name)):
            more = "borderline" if _is_true(row["borderline"]) else None
            who = [html.text(row["labeller"]) or "no name", more, html.text(row["note"])]
            about = {"about": ", ".join(filter(None, who)), "lit": False}
            cells.append(_verdict_word(row["passed"], "none") | about)
        return cells

    def _copied_spans(self, answer: str, skill: str, case: str) -> list[tuple[int, int]]:
        if skill not in self._skills:
            return []
        prompt = self._prompts.get((skill, case))
        return html.copied_spans(answer, self._skills[skill], prompt, n=self._ngram)


class _Rows:
    """Looks up rows of a frame by key, as dictionaries of some of the columns."""

    def __init__(self, frame: pd.DataFrame, keys: Sequence[str], columns: Sequence[str]) -> None:
        self._columns = {name: frame[name].to_numpy(object) for name in columns}
        self._positions = frame.groupby(list(keys)).indices

    def __bool__(self) -> bool:
        return bool(self._positions)

    def at(self, key: Item) -> list[Row]:
        columns = self._columns.items()
        return [{n: values[at] for n, values in columns} for at in self._positions.get(key, ())]


def _repeat_of(row: Row) -> int:
    return 0 if html.absent(row["repeat"]) else int(row["repeat"])


def _named_attempts(attempts: Sequence[Row]) -> list[tuple[Row, str]]:
    """Return each attempt with a name, baseline first; the names differ where possible."""
    rank = {condition: at for at, condition in enumerate(CONDITION_LOOKS)}
    rows = sorted(
        attempts,
        key=lambda a: (rank.get(a["condition"], len(rank)), str(a["condition"]), _repeat_of(a)),
    )
    several_repeats = len({_repeat_of(row) for row in rows}) > 1
    places = {(str(row["condition"]), _repeat_of(row)) for row in rows}
    named = []
    for row in rows:
        more = [f"repeat {_repeat_of(row) or 1}"] if several_repeats else []
        if len(places) < len(rows):
            more += filter(None, [html.text(row["agent"]), html.text(row["perturbation"])])
        loaded = html.text(row["loaded_skill"])
        if loaded and str(row["condition"]) not in ("baseline", "skill"):
            more.append(f"loaded: {loaded}")
        named.append((row, ", ".join([str(row["condition"]), *more])))
    return named


def _is_true(value: Any) -> bool:
    return not html.absent(value) and bool(value)


def _verdict_word(passed: Any, status: Any, score: Any = None) -> Row:
    """Return the word and the CSS style of a verdict; a failed grader has "no verdict"."""
    if html.absent(passed):
        if not html.absent(score):
            return {"word": f"{score:.3g}", "look": "none"}
        has_reason = not html.absent(status) and status not in ("ok", "none")
        return {"word": f"no verdict ({status})" if has_reason else "– none", "look": "none"}
    return {"word": "✓ pass", "look": "pass"} if passed else {"word": "✗ fail", "look": "fail"}


def grader_names(table: pd.DataFrame) -> NDArray[np.object_]:
    """Return the grader of each row, with its version or round if the grader has several."""
    names = table["grader"].astype("object")
    for column, word in (("grader_version", "version"), ("round", "round")):
        several = table.groupby("grader")[column].transform("nunique") > 1
        if several.any():
            levels = table[column].astype("object").where(table[column].notna(), "unknown")
            names = names.where(~several, names + f", {word} " + levels.astype(str))
    return np.asarray([str(name) for name in names], object)
