"""Explore paired deltas: go from an estimate to its cases, and from a case to its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp import plots, skillverdicts, style
from skillcomp.contrast.case_table import Value
from skillcomp.errors import StudyError
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check
from skillcomp.frames.estimates import By, listed, rows_of_group
from skillcomp.records import Skill
from skillcomp.report import escaped_text as html
from skillcomp.report.case_answers import Answers
from skillcomp.table import table

_TABLE = ["condition", "verdict", "measure", "unit", "estimate", "ci_low", "ci_high", "ci_level"]
_TABLE += ["n"]
_TABLE += ["p_value", "p_adjusted", "method", "note"]
_CASES = ["case_id", "comprehension_dimension", "transfer", "reference_rate", "rate", "delta"]
_CASES += ["verdict"]
_NO_ANSWERS = Markup("<p class='scx-key'>Give attempts= and verdicts= to read the answers.</p>")


def deltas(
    outcomes: pd.DataFrame,
    *,
    by: By = ("skill",),
    value: Value = "passed",
    reference: str = "baseline",
    margin: float = 0.1,
    attempts: pd.DataFrame | None = None,
    verdicts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    checks: pd.DataFrame | None = None,
    skills: Mapping[str, Skill | str] | None = None,
    ngram: int = 6,
) -> DeltaExplorer:
    """Show paired deltas as a forest plot and a table, and open the cases behind a row.

    Parameters
    ----------
    outcomes, by, value, reference, margin
        As for :func:`skillcomp.skillverdicts.decide`, which computes the rows of the table. The
        largest gain comes first.
    attempts, verdicts : pandas.DataFrame, optional
        The answers and the verdicts on them. With both, a click on a case shows its answers side
        by side.
    gold, cases, checks, skills, ngram
        As for :func:`skillcomp.explore.verdicts`.

    Returns
    -------
    DeltaExplorer
        A widget. A click on a row, or on its point in the plot, opens the cases of the row
        (:func:`skillcomp.skillverdicts.cases`). A click on a case opens its answers. The arrow keys
        step through the cases. In code, ``frame`` has the rows, ``open_row(3)`` opens a row,
        ``cases`` has the cases of the open row, and ``do("step", 1)`` goes to the next case.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired` does.
    StudyError
        If there is nothing to compare with the reference.

    Notes
    -----
    A single case has few repeats. Use the rates of single cases to find cases worth reading, not to
    claim effects.
    """
    decide = skillverdicts.decide
    frame = decide(outcomes, by=by, margin=margin, value=value, reference=reference)
    if frame.empty:
        raise StudyError("explore.deltas: no two conditions have graded answers to compare.")
    frame = frame.sort_values("estimate", ascending=False, kind="stable", ignore_index=True)
    answers = None
    if attempts is not None and verdicts is not None:
        answers = Answers(attempts, verdicts, gold, cases, checks, skills, ngram)
    return DeltaExplorer(frame, check(outcomes, "outcomes"), listed(by), reference, answers)


class DeltaExplorer(ui.Explorer):
    """The widget that :func:`deltas` returns.

    Attributes
    ----------
    frame : pandas.DataFrame
        The deltas, in the order of the rows shown.
    cases : pandas.DataFrame or None
        The cases of the open row; None before a row is opened.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        outcomes: pd.DataFrame,
        by: list[str],
        reference: str,
        answers: Answers | None,
    ) -> None:
        self.frame, self.cases = frame, None
        self._outcomes, self._by, self._reference = outcomes, by, reference
        self._answers = answers
        self._row: int | None = None
        self._case: int | None = None
        self.choices = {"repeat": ui.Control("Repeat")}
        self._picture: ui.Picture | None = None
        self._spots: list[dict[str, Any]] = []
        if frame["estimate"].notna().any():
            self._picture, self._spots = self._draw_forest()
        self._table = table(frame[[*by, *(column for column in _TABLE if column in frame)]])
        super().__init__("Deltas")

    cases: pd.DataFrame | None

    def _draw_forest(self) -> tuple[ui.Picture, list[dict[str, Any]]]:
        with style.use():
            y = self._by or "condition"
            ax = plots.estimates(self.frame, y=y, hue="condition", width="text")
            points = [
                (line.get_label(), *where)
                for line in ax.lines
                if line.get_gid() == "estimate"
                for where in np.asarray(line.get_xydata(), dtype=float).tolist()
            ]
            drawn = ui.picture(ax)
        spots = []
        high = drawn.percent_high(0.15)
        for at, row in enumerate(self.frame.to_dict("records")):
            look = style.plain(row["condition"])
            near = [p for p in points if p[0] == look and np.isclose(p[1], row["estimate"])]
            if near:
                points.remove(near[0])
                middle = drawn.at(near[0][1], near[0][2])[1]
                # The clickable area is as high as the point. It extends from the left edge of the
                # picture to the right edge of the axes.
                box = 0.0, middle - high / 2, drawn.edges[2], high
                spots.append(ui.spot(box, at, self._row_label(at)))
        return drawn, spots

    def _row_label(self, at: int) -> str:
        row = self.frame.iloc[at]
        labels = [*(str(row[name]) for name in self._by), str(row["condition"])]
        return ", ".join(labels) + f" against {self._reference}"

    def open_row(self, at: int) -> DeltaExplorer:
        """Open the cases of row `at` of ``frame``, counted from 0, and return the explorer."""
        if ui.valid_position(at, len(self.frame)) is None:
            raise StudyError(f"row: found {at!r}; allowed: 0 to {len(self.frame) - 1}.")
        self.do("row", at)
        return self

    def _command_handlers(self) -> dict[str, Any]:
        return {"row": self._open_cases, "case": self._open_case, "step": self._step_case}

    def _open_cases(self, value: Any) -> None:
        at = ui.valid_position(value, len(self.frame))
        if at is None:
            return
        row = self.frame.iloc[at]
        outcomes = rows_of_group(self._outcomes, {name: row[name] for name in self._by})
        rows = skillverdicts.cases(outcomes, reference=self._reference)
        rows = rows[rows["condition"].eq(row["condition"])]
        self._row, self._case, self.cases = at, None, rows.reset_index(drop=True)

    def _open_case(self, value: Any) -> None:
        at = ui.valid_position(value, 0 if self.cases is None else len(self.cases))
        if at is None or self.cases is None:
            return
        self._case = at
        if self._answers is not None:
            row = self.cases.iloc[at]
            repeats = self._answers.repeats(row["skill"], row["case_id"])
            self.choices["repeat"].offer(repeats, [str(repeat or 1) for repeat in repeats])

    def _step_case(self, by: Any) -> None:
        if self.cases is not None and len(self.cases):
            self._open_case(ui.next_position(self._case, by, len(self.cases)))

    def _widget_state(self) -> dict[str, Any]:
        status = f"{len(self.frame)} deltas against {self._reference}"
        if self._row is not None and self.cases is not None:
            status = f"{self._row_label(self._row)}: {len(self.cases)} cases"
        repeat = self.choices["repeat"]
        several = self._case is not None and len(repeat.values) > 1
        repeat.widget.layout.display = None if several else "none"
        return {"shortcuts": dict(ui.STEPS), "status": status, "place": f"{self._row}"}

    def _step_position(self) -> tuple[int | None, int] | None:
        return None if self.cases is None else (self._case, len(self.cases))

    def _render_view(self, *, live: bool) -> Markup:
        cases, page = None, Markup("")
        if self.cases is not None:
            rows = self.cases[[name for name in _CASES if self.cases[name].notna().any()]]
            column_names = {"rate": f"{self.cases['condition'].iloc[0]}_rate"} if len(rows) else {}
            column_names |= {"reference_rate": f"{self._reference}_rate"}
            cases = table(rows.rename(columns=column_names))
            if self._case is not None:
                page = self._case_page(self.cases.iloc[self._case])
        return html.render(
            "explore-deltas",
            picture=self._picture if live else None,
            spots=self._spots,
            table=self._table,
            current=self._row,
            cases=cases,
            case=self._case,
            name="" if self._row is None else self._row_label(self._row),
            page=page,
            live=live,
        )

    def _case_page(self, row: pd.Series) -> Markup:
        repeat = self.choices["repeat"].value
        if self._answers is None or repeat is None:
            return _NO_ANSWERS
        return self._answers.page(row["skill"], row["case_id"], repeat)
