"""Read the answers of a case side by side, or give gold labels blind to condition and grader."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp.errors import SkillcompError, StudyError, extra_imports, plural
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.from_store import gold as read_gold
from skillcomp.io.store import RunStore, as_store
from skillcomp.records import GoldLabel, Skill
from skillcomp.report import escaped_text as html
from skillcomp.report.case_pages import Answers, grader_names
from skillcomp.stats.results import Fields, Indices

with extra_imports("lab", "an explorer"):
    import ipywidgets as widgets

_FILTERS = {
    "skill": "Skill",
    "case_id": "Case",
    "condition": "Condition",
    "grader": "Grader",
    "check_id": "Check",
    "passed": "Verdict",
    "gold": "Gold",
}
# these filters offer only the values of verdicts that pass all earlier filters
_NARROWED = ("case_id", "check_id")
# these filters refer to single verdicts, so the verdicts that pass them are highlighted
_OF_VERDICTS = {"condition", "grader", "passed", "gold"}
_AGREES, _DISAGREES, _OPEN = "agrees", "disagrees", "not comparable"
_PASSED, _FAILED, _NONE = "passed", "failed", "no verdict"
_FIXED = {"passed": (_PASSED, _FAILED, _NONE), "gold": (_AGREES, _DISAGREES, _OPEN)}

_STATES = ("to label", "labelled")
# Hints that explain a pass: a negative check ("does not ...") passes if something is absent.
_HINTS = {
    "positive": "passes only if the answer states or does this",
    "negative": "passes only if the unwanted thing is nowhere in the answer",
}
_WORDS = {True: "PASS", False: "FAIL", None: "undecided"}
# A click on a button sends one of these words.
_BY_BUTTON = {"pass": True, "fail": False, "undecided": None}
_KEYS: ui.Keys = {
    "p": ("label", True),
    "f": ("label", False),
    "u": ("label", None),
    "b": ("borderline", None),
    "c": ("focus", "note"),
    "/": ("focus", "skill"),
}


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
    decides, such as verbatim copying. An answer may still reveal its condition by its content. No
    verdict of a grader is shown; :func:`skillcomp.reliability.agreement` compares the labels with
    them afterwards. If a label cannot be stored, a message appears and the check stays in view.
    """
    answers = Answers(attempts, verdicts, gold, cases, checks, skills, ngram)
    verdicts, attempts = check(verdicts, "verdicts"), check(attempts, "attempts")
    if not label:
        return VerdictBrowser(verdicts, None if gold is None else check(gold, "gold"), answers)
    if not isinstance(labeller, str) or not labeller.strip():
        raise StudyError(f"labeller: found {labeller!r}; allowed: a name.")
    if store is None:
        raise StudyError("store: found None; labels go to a RunStore, sc.RunStore(folder).")
    store = as_store(store)
    items = _items_to_label(verdicts, attempts, cases, checks)
    return LabelEditor(items, store, labeller.strip())


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
                # s/2 comes before s/10
                padded = partial(re.sub, r"\d+", lambda number: number[0].zfill(9))
                control.offer([None, *sorted(rows[name].unique(), key=padded)])
            rows = self.selected_rows(rows, name)
        self._selected = rows.index.to_numpy()
        self._items = np.unique(self._item[self._selected])
        # keep the current check in view if it still passes the filters
        hit = np.flatnonzero(self._items == (-1 if before is None else before))
        self.at = int(hit[0]) if len(hit) else 0

    _items: Indices = np.empty(0, dtype=np.intp)

    def _control_changed(self, name: str) -> None:
        self._apply_filters()

    @property
    def n_items(self) -> int:
        """Return the number of checks that pass the filters."""
        return len(self._items)

    def _widget_state(self) -> Fields:
        n = self.n_items
        status = "No verdict is left by these filters."
        if n:
            verdicts = plural(len(self._selected), "verdict")
            status = f"Check {self.at + 1:,} of {n:,} ({verdicts})"
        shortcuts = ui.STEPS | {"/": ("focus", "skill")}
        return {"shortcuts": shortcuts, "status": status, "place": str(self.at)}

    def _render_view(self, *, live: bool) -> Markup:
        if not len(self._items):
            return Markup("<p><i>Widen a filter to see verdicts.</i></p>")
        rows = self._selected[self._item[self._selected] == self._items[self.at]]
        first, graders = self._table.iloc[rows[0]], self._filter_levels["grader"]
        name, attempts = first["check_id"], self._table["attempt_id"]
        lit = {(attempts.iloc[at], name, graders[at]) for at in rows}
        chosen = [self.chosen(name) for name in _OF_VERDICTS & {*self.choices}]
        repeat = 0 if html.absent(first["repeat"]) else int(first["repeat"])
        highlighted = lit if any(value is not None for value in chosen) else ()
        return self._answers.page(first["skill"], first["case_id"], repeat, [name], lit=highlighted)


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


class LabelEditor(ui.Explorer):
    """The widget that :func:`skillcomp.explore.verdicts` returns with ``label=True``.

    Attributes
    ----------
    choices : dict of str to Control
        Filters of the checks to label: by skill, by check, and by whether they are labelled.
    note, borderline : str, bool
        Note and borderline mark to store with the next label.
    n_labelled : int
        Number of checks that have a label by this labeller.
    """

    def __init__(self, items: pd.DataFrame, store: RunStore, labeller: str) -> None:
        order = [sha256(f"{labeller}/{name}".encode()).hexdigest() for name in items["attempt_id"]]
        by_chance = pd.Series(order).argsort(kind="stable")
        self._items = items.iloc[by_chance].reset_index(drop=True)
        self._store, self._labeller = store, labeller
        self._names = list(zip(self._items["attempt_id"], self._items["check_id"], strict=True))
        self._labels: dict[Any, GoldLabel] = _labels_of(store, labeller)
        self.choices = {
            "skill": ui.dropdown("Skill", self._items["skill"], key="/"),
            "check_id": ui.dropdown("Check", self._items["check_id"]),
            "state": ui.dropdown("State", _STATES),
        }
        self.borderline = False
        self._note = widgets.Text(description="Note", continuous_update=False, tooltip="key c")
        self._note.add_class("scx-note")
        self._selected = list(range(len(self._items)))
        self._go_to(self._next_open(0))
        super().__init__("Labels", self._note)

    @property
    def note(self) -> str:
        """Return the note for the next label."""
        return str(self._note.value)

    @note.setter
    def note(self, text: str) -> None:
        self._note.value = text

    @property
    def n_labelled(self) -> int:
        """Return the number of checks that have a label by this labeller."""
        return sum(name in self._labels for name in self._names)

    def _next_open(self, start: int) -> int:
        """Return the position of the next unlabelled check, from `start` to the end, then from 0.

        If all checks have a label, return the position before `start`.
        """
        order = [*range(start, len(self._selected)), *range(start)]
        left = (at for at in order if self._names[self._selected[at]] not in self._labels)
        return next(left, max(min(start, len(self._selected)) - 1, 0))

    def _go_to(self, at: int) -> None:
        self.at = at
        old = self._labels.get(self._item_name)
        self.note = (html.text(old.note) or "") if old else ""
        self.borderline = bool(old and old.borderline)

    @property
    def _item_name(self) -> tuple[str, str] | None:
        return self._names[self._selected[self.at]] if self._selected else None

    def _control_changed(self, name: str) -> None:
        items = self._items.assign(state=[_STATES[key in self._labels] for key in self._names])
        self._selected = self.selected_rows(items, *self.choices).index.tolist()
        self._go_to(self._next_open(0))

    @property
    def n_items(self) -> int:
        """Return the number of checks that pass the filters."""
        return len(self._selected)

    def hear(self, _: Any, content: Any, buffers: Any = None) -> None:
        """Run a command from the browser; a label gets the note that the browser shows."""
        shown_note = content.get("note") if isinstance(content, dict) else None
        if isinstance(shown_note, str) and content.get("token") == self.page.token:
            self.note = shown_note
        super().hear(_, content, buffers)

    def _do_borderline(self, _: Any) -> None:
        self.borderline = not self.borderline

    def _do_label(self, passed: Any) -> None:
        passed = _BY_BUTTON.get(passed, passed) if isinstance(passed, str) else passed
        if self._item_name is None or passed not in (True, False, None):
            return
        item = self._items.iloc[self._selected[self.at]]
        chance = item["inclusion_probability"]
        label = GoldLabel(
            attempt_id=item["attempt_id"],
            check_id=item["check_id"],
            labeller=self._labeller,
            labeller_kind="person",
            passed=passed,
            borderline=self.borderline,
            inclusion_probability=None if html.absent(chance) else float(chance),
            note=" ".join(self.note.split()) or None,
            replaces=True if self._item_name in self._labels else None,
        )
        try:
            self._store.append("gold", [label])
        except (SkillcompError, OSError) as cause:
            raise StudyError(f"Not saved: {cause}") from cause
        self._labels[self._item_name] = label
        self._go_to(self._next_open(self.at + 1))

    def _widget_state(self) -> Fields:
        n, done = len(self._names), self.n_labelled
        status = f"{done:,} of {n:,} labelled" + (", all done" if n and done == n else "")
        old = self._labels.get(self._item_name)
        if old is not None:
            status += f"; this one: {_WORDS[old.passed]}"
        place = str(self._selected[self.at]) if self._selected else ""
        return {
            "shortcuts": ui.STEPS | _KEYS,
            "status": status,
            "place": place,
            # the token is only a position, because an id would reveal condition and attempt
            "token": place,
        }

    def _render_view(self, *, live: bool) -> Markup:
        about: Fields = {
            "answer": None,
            "live": live,
            "borderline": self.borderline,
        }
        if self._item_name is not None:
            item = self._items.iloc[self._selected[self.at]]
            about |= {name: html.text(item[name]) for name in ("skill", "prompt", "behaviour")}
            about["answer"] = html.text(item["answer"]) or ""
            about["hint"] = _HINTS.get(str(item["check_kind"]), "")
        return html.render("explore-label", **about)


def _items_to_label(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    cases: pd.DataFrame | None,
    checks: pd.DataFrame | None,
) -> pd.DataFrame:
    """Return a row for each attempt with an answer and each of its checks."""
    answered = attempts[attempts["answer"].fillna("").str.strip().ne("")]
    about, on = verdicts.assign(description=None), ["attempt_id"]
    if checks is not None:
        about, on = check(checks, "checks"), [*CASE]
    about = about.reindex(columns=[*on, "check_id", "check_kind", "description"])
    items = answered.merge(about.drop_duplicates([*on, "check_id"]), on=on)
    if cases is not None:
        prompts = check(cases, "cases")[[*CASE, "prompt"]]
        items = items.merge(prompts, on=CASE, how="left")
    names = ["attempt_id", "check_id", "check_kind", "skill", "prompt", "answer"]
    items = items.assign(behaviour=items["description"].fillna(items["check_id"]))
    return items.reindex(columns=[*names, "behaviour", "inclusion_probability"])


def _labels_of(store: RunStore, labeller: str) -> dict[tuple[str, str], GoldLabel]:
    """Return a labeller's latest stored label for each attempt and check."""
    # a new store has no tables to read before its first label
    frame = read_gold(store, labeller="all") if store.tables else empty("gold")
    mine = frame[frame["labeller"].eq(labeller)]
    rows = mine.astype("object").where(mine.notna(), None).to_dict("records")
    labels = map(GoldLabel.model_validate, rows)
    return {(label.attempt_id, label.check_id): label for label in labels}
