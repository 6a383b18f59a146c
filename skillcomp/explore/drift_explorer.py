"""Explore drift: the verdicts that flip between two graders, and their cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from skillcomp import plots, style
from skillcomp.errors import FrameError
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check
from skillcomp.records import Skill
from skillcomp.reliability.drift import drift as grader_drift
from skillcomp.reliability.drift import flip_counts, flipped
from skillcomp.report import escaped_text as html
from skillcomp.report.case_answers import Answers, grader_names
from skillcomp.table import Table, table

_FLIPS = ["case_id", "condition", "repeat", "check_id", "direction", "gold"]


def drift(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    attempts: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    checks: pd.DataFrame | None = None,
    skills: Mapping[str, Skill | str] | None = None,
    ngram: int = 6,
) -> DriftExplorer:
    """Show the verdicts that flip between two graders, and their cases.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As for :func:`skillcomp.reliability.drift`: verdicts of at least two grader versions, with
        one round of each.
    attempts : pandas.DataFrame, optional
        The answers to show with the flips. Without them, flips are shown without answers.
    cases, checks, skills, ngram
        As for :func:`skillcomp.explore.verdicts`.

    Returns
    -------
    DriftExplorer
        A widget with dropdowns for the two graders, the drift between them
        (:func:`skillcomp.reliability.drift`), a table of old by new verdicts for each gold label,
        and a list of the flips. The dropdowns, or a click on a cell of a table, filter the list. A
        click on a flip shows the answers with the quotes and reasons of both graders. In code,
        ``choose(reference="g0", grader="g2")`` sets the graders, ``frame`` has the flips shown, and
        ``do("step", 1)`` goes to the next flip.

    Raises
    ------
    FrameError
        As :func:`skillcomp.reliability.drift` does, for example if there is only one grader.
    """
    verdicts = check(verdicts, "verdicts")
    if verdicts.empty:
        raise FrameError("explore.drift: verdicts has no rows; grade the answers first.")
    labels = None if gold is None else check(gold, "gold")
    if attempts is None:
        columns = ["attempt_id", "skill", "case_id", "condition", "repeat", "agent"]
        attempts = verdicts[columns].drop_duplicates("attempt_id")
    answers = Answers(attempts, verdicts, labels, cases, checks, skills, ngram)
    return DriftExplorer(verdicts, labels, answers, cases)


class DriftExplorer(ui.Explorer):
    """The widget that :func:`drift` returns.

    Attributes
    ----------
    frame : pandas.DataFrame
        The flips shown, with the columns of :func:`skillcomp.reliability.flipped`.
    """

    frame: pd.DataFrame

    def __init__(
        self,
        verdicts: pd.DataFrame,
        gold: pd.DataFrame | None,
        answers: Answers,
        cases: pd.DataFrame | None,
    ) -> None:
        self._verdicts, self._gold, self._answers, self._cases = verdicts, gold, answers, cases
        self._names = pd.Series(grader_names(verdicts), index=verdicts.index)
        names = list(dict.fromkeys(self._names))
        self.choices = {
            "reference": ui.dropdown("From", names, every=False),
            "grader": ui.dropdown("To", names, every=False),
            "direction": ui.dropdown("Flips", ["to PASS", "to FAIL"], key="/"),
        }
        if gold is not None:
            self.choices["gold"] = ui.dropdown("Gold", ["PASS", "FAIL", "none"])
        self.choices["grader"].at = len(names) - 1
        self._results: dict[tuple[str, str], Any] = {}
        self._at: int | None = None
        self._update_flips()
        super().__init__("Drift")

    def _update_flips(self) -> None:
        """Compute the drift between the two chosen graders, and apply the filters to its flips."""
        pair = self.choices["reference"].value, self.choices["grader"].value
        if pair not in self._results:
            part = self._verdicts[self._names.isin(pair)]
            row = self._verdicts[self._names.eq(pair[0])].iloc[:1]
            version = row["grader_version"].fillna("").tolist()
            first = (str(row["grader"].iloc[0]), version[0]) if len(row) else ""
            how: dict[str, Any] = {"reference_grader": first}
            agents = ["agent"] if part["agent"].nunique() > 1 else []
            estimates = grader_drift(part, self._gold, **how, by=agents, cases=self._cases)
            columns = [*agents, "measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n"]
            columns += ["n_gained", "n_lost", "p_value", "p_adjusted", "method", "note"]
            estimates = estimates[estimates["estimate"].notna()][columns]
            counts = flip_counts(part, self._gold, **how)
            flips = flipped(part, self._gold, **how)
            self._results[pair] = table(estimates), _flip_matrices(counts), flips
        self._drift_table, self._pictures, flips = self._results[pair]
        direction = self.choices["direction"].value
        if direction is not None:
            flips = flips[flips["direction"].eq(direction)]
        label = self.choices["gold"].value if "gold" in self.choices else None
        self._cell = f"{direction}/{label}"
        if label is not None:
            selections = {"PASS": flips["gold"].eq(True), "FAIL": flips["gold"].eq(False)}
            flips = flips[selections.get(label, flips["gold"].isna()).fillna(False)]
        self.frame, self._at = flips.reset_index(drop=True), None

    def _control_changed(self, name: str) -> None:
        same = self.choices["reference"].value == self.choices["grader"].value
        if same and name in ("reference", "grader"):
            other = self.choices["grader" if name == "reference" else "reference"]
            other.at = (other.at + 1) % max(len(other.values), 1)
        self._update_flips()

    def _command_handlers(self) -> dict[str, Any]:
        return {"step": self._step_flip, "flip": self._open_flip, "cell": self._select_cell}

    def _select_cell(self, value: Any) -> None:
        direction, _, label = str(value).partition("/")
        for name, level in (("direction", direction), ("gold", label)):
            control = self.choices.get(name)
            if control is not None:
                control.at = control.values.index(level) if level in control.values else 0
        self._update_flips()

    def _open_flip(self, value: Any) -> None:
        at = ui.valid_position(value, len(self.frame))
        self._at = self._at if at is None else at

    def _step_flip(self, by: Any) -> None:
        self._open_flip(ui.next_position(self._at, by, len(self.frame)))

    def _widget_state(self) -> dict[str, Any]:
        n = len(self.frame)
        pair = f"{self.choices['reference'].value} to {self.choices['grader'].value}"
        status = f"{pair}: {n} flips" if self._at is None else f"{pair}: flip {self._at + 1} of {n}"
        shortcuts = ui.STEPS | {"/": ("focus", "direction")}
        return {"shortcuts": shortcuts, "status": status, "place": pair}

    def _step_position(self) -> tuple[int | None, int]:
        return self._at, len(self.frame)

    def _render_view(self, *, live: bool) -> Markup:
        flips: Table | None = None
        words = "No verdict flips here."
        if len(self.frame):
            labels = self.frame["gold"].map({True: "PASS", False: "FAIL"}).fillna("none")
            rows = self.frame.assign(gold=None if self._gold is None else labels)
            rows = rows[[column for column in _FLIPS if rows[column].notna().any()]]
            flips = table(rows if live else rows.head(8))
            words = "Flips; click one to read it." if live else f"The first of {len(rows)} flips."
        page = Markup("")
        if self._at is not None:
            row = self.frame.iloc[self._at]
            pair = [self.choices["reference"].value, self.choices["grader"].value]
            repeat = 0 if html.absent(row["repeat"]) else int(row["repeat"])
            lit = {(row["attempt_id"], row["check_id"], name) for name in pair}
            page = self._answers.page(
                row["skill"], row["case_id"], repeat, [row["check_id"]], graders=pair, lit=lit
            )
        return html.render(
            "explore-drift",
            table=self._drift_table,
            pictures=self._pictures if live else [],
            current=self._cell,
            flips=flips,
            flip=self._at,
            caption=words,
            page=page,
            live=live,
        )


def _flip_matrices(counts: pd.DataFrame) -> list[dict[str, Any]]:
    """Return, for each gold label, a clickable picture of the counts of old by new verdicts."""
    matrices = []
    for label, part in counts.groupby("gold", dropna=False, sort=False):
        name = "none" if html.absent(label) else str(label)
        with style.use():
            ax = plots.flips(part, legend=False, ax=style.figure("column", height=2.1)[1])
            drawn = ui.picture(ax)
        spots = []
        order = [tick.get_text() for tick in ax.get_xticklabels()]
        for row in part[part["old"].ne(part["new"])].to_dict("records"):
            old, new = ("PASS" if passed else "FAIL" for passed in (row["old"], row["new"]))
            x, y = order.index(new), order.index(old)
            left, top = drawn.at(x - 0.5, y - 0.5)
            right, bottom = drawn.at(x + 0.5, y + 0.5)
            box = min(left, right), min(top, bottom), abs(right - left), abs(bottom - top)
            spots.append(ui.spot(box, f"to {new}/{name}", f"{row['count']} flips to {new}"))
        title = f"Gold: {name}"
        alt = f"Verdicts of both graders, {title}; the same numbers are in the list of flips."
        matrices.append({"title": title, "picture": drawn, "alt": alt, "spots": spots})
    return matrices
