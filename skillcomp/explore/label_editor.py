"""Give gold labels in a notebook, blind to condition and grader; store each label at once."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pandas as pd
from markupsafe import Markup

from skillcomp.errors import FrameError, SkillcompError, StudyError, extra_imports, plural
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CASE
from skillcomp.frames.from_store import gold as read_gold
from skillcomp.io.store import RunStore, as_store
from skillcomp.records import GoldLabel
from skillcomp.reliability.grader_agreement import agreement
from skillcomp.report import escaped_text as html
from skillcomp.stats.results import Fields
from skillcomp.table import table

with extra_imports("lab", "an explorer"):
    import ipywidgets as widgets

_STATES = ("to label", "labelled")
# Hints that explain a pass: a negative check ("does not ...") passes if something is absent.
_HINTS = {
    "positive": "passes only if the answer states or does this",
    "negative": "passes only if the unwanted thing is nowhere in the answer",
}
_WORDS = {True: "PASS", False: "FAIL", None: "undecided"}
# A click on a button sends one of these words.
_BY_BUTTON = {"pass": True, "fail": False, "undecided": None}
_KEYS: ui.Keys = {"p": ("label", True), "f": ("label", False), "u": ("label", None)}
_KEYS |= {"b": ("borderline", None), "c": ("focus", "note"), "/": ("focus", "skill")}
_SHOWN = ["raw_agreement", "false_passes", "false_fails"]
# number of labels between updates of the agreement; updating it after each label would reveal the
# grader's verdict
_EVERY = 10


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

    def __init__(
        self, items: pd.DataFrame, verdicts: pd.DataFrame, store: RunStore, labeller: str
    ) -> None:
        order = [sha256(f"{labeller}/{name}".encode()).hexdigest() for name in items["attempt_id"]]
        by_chance = pd.Series(order).argsort(kind="stable")
        self._items = items.iloc[by_chance].reset_index(drop=True)
        self._verdicts, self._store, self._labeller = verdicts, store, labeller
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
        self._agreement: Markup | None = None
        self._n_agreement_labels = 0
        self._selected = list(range(len(self._items)))
        self._at = 0
        self._show_item(self._next_open(0))
        self._update_agreement()
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

    def _show_item(self, at: int) -> None:
        self._at = at
        old = self._labels.get(self._item_name)
        self.note = (html.text(old.note) or "") if old else ""
        self.borderline = bool(old and old.borderline)

    @property
    def _item_name(self) -> tuple[str, str] | None:
        return self._names[self._selected[self._at]] if self._selected else None

    def _control_changed(self, name: str) -> None:
        items = self._items.assign(state=[_STATES[key in self._labels] for key in self._names])
        self._selected = self.selected_rows(items, *self.choices).index.tolist()
        self._show_item(self._next_open(0))

    def _command_handlers(self) -> Fields:
        return {
            "step": lambda by: self._show_item(ui.next_position(self._at, by, len(self._selected))),
            "label": self._save_label,
            "borderline": self._toggle_borderline,
        }

    def hear(self, _: Any, content: Any, buffers: Any = None) -> None:
        """Run a command from the browser; a label gets the note that the browser shows."""
        shown_note = content.get("note") if isinstance(content, dict) else None
        if isinstance(shown_note, str) and content.get("token") == self.page.token:
            self.note = shown_note
        super().hear(_, content, buffers)

    def _toggle_borderline(self, _: Any) -> None:
        self.borderline = not self.borderline

    def _save_label(self, passed: Any) -> None:
        passed = _BY_BUTTON.get(passed, passed) if isinstance(passed, str) else passed
        if self._item_name is None or passed not in (True, False, None):
            return
        item = self._items.iloc[self._selected[self._at]]
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
        self._show_item(self._next_open(self._at + 1))
        n = self.n_labelled
        if n % _EVERY == 0 or n == len(self._names):
            # show the next check before the agreement is computed
            self._after_redraw = self._update_agreement

    def _update_agreement(self) -> None:
        """Estimate the agreement of graders with labels.

        Until every item has a label, the estimate is updated only after every tenth label. If the
        estimate changed after each label, it would reveal whether the grader agrees with that
        label.
        """
        items = set(self._names)
        labels = [label for name, label in self._labels.items() if name in items]
        if len(labels) < len(self._names):
            labels = labels[: len(labels) // _EVERY * _EVERY]
        if not labels or self._verdicts.empty:
            return
        gold = pd.DataFrame([label.model_dump() for label in labels])
        how: Fields = {"by": ["grader"], "average": ["agent"], "n_resamples": 1}
        try:
            rows = agreement(self._verdicts, gold, quantities=_SHOWN, **how)
        except FrameError as cause:  # raised, for example, if a grader has two rounds
            self._agreement = Markup("<p>{}</p>").format(str(cause))
        else:
            rows = rows.drop(columns=["method", "note"])
            columns = ["grader", "measure", "estimate", "ci_low", "ci_high", "n", "n_clusters"]
            self._agreement = Markup(table(rows, columns=columns).html())
        self._n_agreement_labels = len(labels)

    def _widget_state(self) -> Fields:
        n, done = len(self._names), self.n_labelled
        status = f"{done:,} of {n:,} labelled" + (", all done" if n and done == n else "")
        old = self._labels.get(self._item_name)
        if old is not None:
            status += f"; this one: {_WORDS[old.passed]}"
        place = str(self._selected[self._at]) if self._selected else ""
        return {
            "shortcuts": ui.STEPS | _KEYS,
            "status": status,
            "place": place,
            # the token is only a position, because an id would reveal condition and attempt
            "token": place,
        }

    def _step_position(self) -> tuple[int, int]:
        return self._at, len(self._selected)

    def _render_view(self, *, live: bool) -> Markup:
        about: Fields = {"answer": None, "agreement": self._agreement, "live": live}
        about["borderline"] = self.borderline
        about["labels"] = f"the first {plural(self._n_agreement_labels, 'label')}"
        if self._item_name is not None:
            item = self._items.iloc[self._selected[self._at]]
            about |= {name: html.text(item[name]) for name in ("skill", "prompt", "behaviour")}
            about["answer"] = html.text(item["answer"]) or ""
            about["hint"] = _HINTS.get(str(item["check_kind"]), "")
        return html.render("explore-label", **about)


def label_editor(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    cases: pd.DataFrame | None,
    checks: pd.DataFrame | None,
    store: RunStore | None,
    labeller: str | None,
) -> LabelEditor:
    """Build the label editor from verdicts and attempts that have already been validated."""
    if not isinstance(labeller, str) or not labeller.strip():
        raise StudyError(f"labeller: found {labeller!r}; allowed: a name.")
    if store is None:
        raise StudyError("store: found None; labels go to a RunStore, sc.RunStore(folder).")
    store = as_store(store)
    answered = attempts[attempts["answer"].fillna("").str.strip().ne("")]
    if checks is not None:
        about = check(checks, "checks")[[*CASE, "check_id", "check_kind", "description"]]
        items = answered.merge(about, on=CASE, how="inner")
    else:
        judged = verdicts[["attempt_id", "check_id", "check_kind"]]
        judged = judged.drop_duplicates(["attempt_id", "check_id"]).assign(description=None)
        items = answered.merge(judged, on="attempt_id", how="inner")
    if cases is not None:
        prompts = check(cases, "cases")[[*CASE, "prompt"]]
        items = items.merge(prompts, on=CASE, how="left")
    names = ["attempt_id", "check_id", "check_kind", "skill", "prompt", "answer"]
    items = items.assign(behaviour=items["description"].fillna(items["check_id"]))
    items = items.reindex(columns=[*names, "behaviour", "inclusion_probability"])
    return LabelEditor(items, verdicts, store, labeller.strip())


def _labels_of(store: RunStore, labeller: str) -> dict[tuple[str, str], GoldLabel]:
    """Return a labeller's latest stored label for each attempt and check."""
    # a new store has no tables to read before its first label
    frame = read_gold(store, labeller="all") if store.tables else empty("gold")
    mine = frame[frame["labeller"].eq(labeller)]
    rows = mine.astype("object").where(mine.notna(), None).to_dict("records")
    labels = [GoldLabel(**{str(name): value for name, value in row.items()}) for row in rows]
    return {(label.attempt_id, label.check_id): label for label in labels}
