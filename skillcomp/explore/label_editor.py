"""Giving gold labels in a notebook, blind to condition and grader, each in the store at once."""

from __future__ import annotations

from hashlib import sha256
from os import PathLike
from typing import Any

import pandas as pd
from markupsafe import Markup

from skillcomp.errors import FrameError, SkillcompError, StudyError, plural
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import empty
from skillcomp.frames.contracts import CASE
from skillcomp.frames.from_store import gold as read_gold
from skillcomp.io.store import RunStore
from skillcomp.records import GoldLabel
from skillcomp.reliability.grader_agreement import agreement
from skillcomp.table import table

_STATES = ("to label", "labelled")
# descriptions of negative behaviours say "does not": what passes is said without a second negation
_HINTS = {
    "positive": "passes only if the answer states or does this",
    "negative": "passes only if the unwanted thing stands nowhere in the answer",
}
_WORDS = {True: "PASS", False: "FAIL", None: "undecided"}
_SHOWN = ["raw_agreement", "sensitivity", "specificity"]
_EVERY = 10  # labels after which the agreement is told anew: one at a time would betray a verdict


class LabelEditor(ui.Explorer):
    """The widget that :func:`skillcomp.explore.verdicts` returns with ``label=True``.

    Attributes
    ----------
    choices : dict of str to Control
        Which checks to walk: of a skill, a check, or those still to label.
    note, borderline : str, bool
        Written with the next label.
    n_labelled : int
        How many of the checks have a label of this labeller in the store.
    """

    def __init__(
        self, items: pd.DataFrame, verdicts: pd.DataFrame, store: RunStore, labeller: str
    ) -> None:
        order = [sha256(f"{labeller}/{name}".encode()).hexdigest() for name in items["attempt_id"]]
        by_chance = pd.Series(order).argsort(kind="stable")
        self._items = items.iloc[by_chance].reset_index(drop=True)
        self._verdicts, self._store, self._labeller = verdicts, store, labeller
        self._names = list(zip(self._items["attempt_id"], self._items["check_id"], strict=True))
        self._done = _labels_of(store, labeller)
        self.choices = {
            "skill": ui.dropdown("Skill", self._items["skill"], key="/"),
            "check_id": ui.dropdown("Check", self._items["check_id"]),
            "state": ui.dropdown("State", _STATES),
        }
        self.note, self.borderline = "", False
        self._agreement: Markup | None = None
        self._told = 0
        self._kept = list(range(len(self._items)))
        self._at = 0
        self._arrive(self._next_open(0))
        self._measure()
        super().__init__("Labels")

    @property
    def n_labelled(self) -> int:
        """Return how many of the checks have a label of this labeller in the store."""
        return sum(name in self._done for name in self._names)

    # Where one is

    def _next_open(self, start: int) -> int:
        """Return the place of the first check without a label from a place on, going round."""
        order = [*range(start, len(self._kept)), *range(start)]
        left = (at for at in order if self._names[self._kept[at]] not in self._done)
        return next(left, max(min(start, len(self._kept)) - 1, 0))

    def _arrive(self, at: int) -> None:
        self._at = at
        old = self._done.get(self._name) if self._name else None
        self.note = (ui.text(old.note) or "") if old else ""
        self.borderline = bool(old and old.borderline)

    @property
    def _name(self) -> tuple[str, str] | None:
        return self._names[self._kept[self._at]] if self._kept else None

    def _chosen(self, name: str) -> None:
        wanted = {key: one.value for key, one in self.choices.items()}
        self._kept = [
            at
            for at, (skill, check_id) in enumerate(
                zip(self._items["skill"], self._items["check_id"], strict=True)
            )
            if wanted["skill"] in (None, skill)
            and wanted["check_id"] in (None, check_id)
            and wanted["state"] in (None, _STATES[self._names[at] in self._done])
        ]
        self._arrive(self._next_open(0))

    def _commands(self) -> dict[str, Any]:
        return {
            "step": lambda by: self._arrive(ui.stepped(self._at, by, len(self._kept))),
            "label": self._label,
            "borderline": self._turn,
        }

    def _turn(self, _: Any) -> None:
        self.borderline = not self.borderline

    def _noted(self, name: str, value: Any) -> None:
        if name == "note" and isinstance(value, str):
            self.note = value

    # Labels

    def _label(self, passed: Any) -> None:
        if self._name is None or passed not in (True, False, None):
            return
        item = self._items.iloc[self._kept[self._at]]
        chance = item["inclusion_probability"]
        label = GoldLabel(
            attempt_id=item["attempt_id"],
            check_id=item["check_id"],
            labeller=self._labeller,
            passed=passed,
            borderline=self.borderline,
            inclusion_probability=None if ui.absent(chance) else float(chance),
            note=" ".join(self.note.split()) or None,
        )
        try:
            self._store.append("gold", [label])
        except (SkillcompError, OSError) as cause:
            raise StudyError(f"Not saved: {cause}") from cause
        self._done[self._name] = label
        self._arrive(self._next_open(self._at + 1))
        n = self.n_labelled
        if n % _EVERY == 0 or n == len(self._names):
            self._later = self._measure  # when the next check is in view

    def _measure(self) -> None:
        """Hold the graders against what was labelled so far."""
        asked = set(self._names)
        mine = [one for name, one in self._done.items() if name in asked]
        mine = mine[: len(mine) // _EVERY * _EVERY] if len(mine) < len(self._names) else mine
        if not mine or self._verdicts.empty:
            return
        gold = pd.DataFrame([one.model_dump() for one in mine])
        try:
            found = agreement(self._verdicts, gold, by=["grader"], n_resamples=1)
        except FrameError as cause:  # such as two rounds of one grader
            self._agreement, self._told = Markup("<p>{}</p>").format(str(cause)), len(mine)
            return
        rows = found[found["measure"].isin(_SHOWN)].drop(columns=["method", "note"])
        columns = ["grader", "measure", "estimate", "ci_low", "ci_high", "n", "n_clusters"]
        self._agreement, self._told = Markup(table(rows, columns=columns).html()), len(mine)

    # What is seen

    def _state(self) -> dict[str, Any]:
        n, done, empty = len(self._names), self.n_labelled, not self._kept
        status = f"{done:,} of {n:,} labelled" + (", all done" if n and done == n else "")
        old = self._done.get(self._name) if self._name else None
        if old is not None:
            status += f"; this one: {_WORDS[old.passed]}"
        place = str(self._kept[self._at]) if self._kept else ""
        verdict = [
            ui.button("pass", "Pass", "label", True, key="p", look="scx-good", off=empty),
            ui.button("fail", "Fail", "label", False, key="f", look="scx-bad", off=empty),
            ui.button("undecided", "Undecided", "label", None, key="u", off=empty),
        ]
        note = {"name": "note", "kind": "text", "label": "Note", "value": self.note, "key": "c"}
        return {
            "controls": [
                *self._dropdowns(),
                *ui.walk(self._at, len(self._kept)),
                *verdict,
                ui.button("borderline", "Borderline", "borderline", key="b", on=self.borderline),
                note,
            ],
            "shortcuts": ui.STEPS
            | {
                "p": ("label", True),
                "f": ("label", False),
                "u": ("label", None),
                "b": ("borderline", None),
                "c": ("focus", "note"),
                "/": ("focus", "skill"),
            },
            "status": status,
            "place": place,
            "token": place,  # tells nothing of condition or attempt
        }

    def _view(self, *, live: bool) -> Markup:
        about: dict[str, Any] = {"answer": None, "agreement": self._agreement}
        about["labels"] = f"the first {plural(self._told, 'label')}"
        if self._name is not None:
            item = self._items.iloc[self._kept[self._at]]
            about |= {name: ui.text(item[name]) for name in ("skill", "prompt", "behaviour")}
            about["answer"] = ui.text(item["answer"]) or ""
            about["hint"] = _HINTS.get(str(item["check_kind"]), "")
        return ui.render("label", **about)


def label_editor(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    cases: pd.DataFrame | None,
    checks: pd.DataFrame | None,
    store: RunStore | str | PathLike[str] | None,
    labeller: str | None,
) -> LabelEditor:
    """Return the editor of :func:`skillcomp.explore.verdicts`, of checked frames."""
    if not isinstance(labeller, str) or not labeller.strip():
        raise StudyError(f"labeller: found {labeller!r}; allowed: a name.")
    if store is None:
        raise StudyError("store: labels need a RunStore, or the folder of one, to go to.")
    kept = store if isinstance(store, RunStore) else RunStore(store)
    given = attempts[attempts["answer"].fillna("").str.strip().ne("")]
    if checks is not None:
        about = checks[[*CASE, "check_id", "check_kind", "description"]]
        items = given.merge(about, on=CASE, how="inner")
    else:
        asked = verdicts[["attempt_id", "check_id", "check_kind"]]
        asked = asked.drop_duplicates(["attempt_id", "check_id"]).assign(description=None)
        items = given.merge(asked, on="attempt_id", how="inner")
    if cases is not None:
        items = items.merge(cases[[*CASE, "prompt"]], on=CASE, how="left")
    names = ["attempt_id", "check_id", "check_kind", "skill", "prompt", "answer"]
    items = items.assign(behaviour=items["description"].fillna(items["check_id"]))
    items = items.reindex(columns=[*names, "behaviour", "inclusion_probability"])
    return LabelEditor(items, verdicts, kept, labeller.strip())


def _labels_of(store: RunStore, labeller: str) -> dict[tuple[str, str], GoldLabel]:
    """Return what a labeller said before, the last word on each check."""
    # the first label makes the store
    frame = read_gold(store, labeller="all") if store.tables else empty("gold")
    mine = frame[frame["labeller"].eq(labeller)]
    rows = mine.astype("object").where(mine.notna(), None).to_dict("records")
    labels = [GoldLabel(**{str(name): value for name, value in row.items()}) for row in rows]
    return {(one.attempt_id, one.check_id): one for one in labels}
