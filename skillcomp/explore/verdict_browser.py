"""Read the answers of a case side by side, with their verdicts and gold labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp.errors import plural
from skillcomp.explore import explorer as ui
from skillcomp.explore.label_editor import LabelEditor, label_editor
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import columns_of
from skillcomp.io.store import RunStore
from skillcomp.records import Skill
from skillcomp.report import escaped_text as html
from skillcomp.report.case_answers import Answers, grader_names
from skillcomp.stats.results import Fields, Indices

_FILTERS = {"skill": "Skill", "case_id": "Case", "condition": "Condition", "grader": "Grader"}
_FILTERS |= {"check_id": "Check", "passed": "Verdict", "gold": "Gold"}
# these filters offer only the values of verdicts that pass all earlier filters
_NARROWED = ("case_id", "check_id")
# these filters refer to single verdicts, so the verdicts that pass them are highlighted
_OF_VERDICTS = {"condition", "grader", "passed", "gold"}
_AGREES, _DISAGREES, _OPEN = "agrees", "disagrees", "not comparable"
_PASSED, _FAILED, _NONE = "passed", "failed", "no verdict"
_FIXED = {"passed": (_PASSED, _FAILED, _NONE), "gold": (_AGREES, _DISAGREES, _OPEN)}


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
    """Read verdicts next to the answers that they judge, or give gold labels blind.

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
        The texts of the skills. Sequences of words that an answer shares with its skill are marked.
    ngram : int, default 6
        Minimum length, in content words, of a shared sequence that is marked.
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
        answers of a case under all conditions side by side. A table has the verdicts of each grader
        on one check, and the gold labels. Quotes are marked in the answers.

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
        self._filter_levels = levels = _filter_levels(table, gold)
        keys = [*CASE, "check_id", "repeat"]
        self._item = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
        self.choices = {
            name: ui.dropdown(label, _FIXED.get(name, levels[name]), key="/" * (name == "skill"))
            for name, label in _FILTERS.items()
            if name in levels
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
        rows = self._filter_levels
        for name, control in self.choices.items():
            if name in _NARROWED:
                left = sorted(rows[name].unique(), key=_numbers_in_order)
                control.offer([None, *left], [ui.EVERY, *map(str, left)])
            rows = self.selected_rows(rows, name)
        self._selected = rows.index.to_numpy()
        self._items, self._firsts = np.unique(self._item[self._selected], return_index=True)
        # keep the current check in view if it still passes the filters
        hit = np.flatnonzero(self._items == (-1 if before is None else before))
        self.at = int(hit[0]) if len(hit) else 0

    _items: Indices = np.empty(0, dtype=np.intp)

    def _control_changed(self, name: str) -> None:
        self._apply_filters()

    def _command_handlers(self) -> Fields:
        return {"step": self._step_check, "first": lambda _: self._step_check(0)}

    def _step_check(self, by: Any) -> None:
        self.at = ui.next_position(self.at, by, len(self._items)) if by else 0

    def _widget_state(self) -> Fields:
        n = len(self._items)
        status = "No verdict is left by these filters."
        if n:
            verdicts = plural(len(self._selected), "verdict")
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
        repeat = 0 if html.absent(first["repeat"]) else int(first["repeat"])
        highlighted = lit if any(value is not None for value in chosen) else ()
        return self._answers.page(first["skill"], first["case_id"], repeat, [name], lit=highlighted)


def _numbers_in_order(name: Any) -> list[tuple[int, str]]:
    """Return a sort key by which s/2 comes before s/10."""
    parts = re.split(r"(\d+)", str(name))
    return [(int(part) if part.isdecimal() else -1, part) for part in parts]


def _filter_levels(table: pd.DataFrame, gold: pd.DataFrame | None) -> pd.DataFrame:
    """Return a column per filter with the values that it tests, one row per verdict."""
    passed = table["passed"].map({True: _PASSED, False: _FAILED}).fillna(_NONE)
    levels = table[["skill", "case_id", "condition", "check_id"]]
    levels = levels.assign(grader=grader_names(table), passed=passed)
    if gold is not None:
        keys = ["attempt_id", "check_id"]
        labels = gold.dropna(subset=["passed"]).astype({"passed": "float64"})
        limits = labels.groupby(keys)["passed"].agg(["min", "max"])
        own, mine = table[keys].join(limits, on=keys), table["passed"].astype("float64")
        unknown = own["min"].isna() | mine.isna()
        differs = own["min"].ne(mine) | own["max"].ne(mine)
        levels["gold"] = np.select([unknown, differs], [_OPEN, _DISAGREES], _AGREES)
    return levels[columns_of(levels, *_FILTERS)].reset_index(drop=True)
