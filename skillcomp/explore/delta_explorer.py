"""From an estimate to its cases: paired deltas by row, and the answers behind each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp import deltas as paired_deltas
from skillcomp import plots, skillverdicts, style
from skillcomp.errors import StudyError
from skillcomp.explore import explorer as ui
from skillcomp.explore.verdict_browser import Answers
from skillcomp.frames.case_table import Value
from skillcomp.frames.check import check
from skillcomp.frames.estimates import listed, rows_of_group
from skillcomp.records import Skill
from skillcomp.table import table

_TABLE = ["condition", "measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n"]
_TABLE += ["p_value", "method", "note"]
_CASES = ["case_id", "comprehension_dimension", "transfer", "reference_rate", "rate", "verdict"]
_NO_ANSWERS = Markup("<p class='scx-key'>Give attempts= and verdicts= to read the answers.</p>")


def _spot(at: ui.Picture, x: float, y: float, value: Any, label: str) -> dict[str, Any]:
    """Return where one can click for a row of a forest: over its point, as wide as the axes."""
    right = at.edges[2]
    top = at.at(x, y)[1]
    high = at.percent_high(0.15)
    about = {"left": 0.0, "top": top - high / 2, "width": right, "height": high}
    return {name: round(side, 3) for name, side in about.items()} | {"value": value, "label": label}


def deltas(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = ("skill",),
    value: Value = "passed",
    reference: str = "baseline",
    attempts: pd.DataFrame | None = None,
    verdicts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    checks: pd.DataFrame | None = None,
    skills: Mapping[str, Skill | str] | None = None,
    ngram: int = 6,
) -> DeltaExplorer:
    """See paired deltas as a forest and a table, and open the cases behind a row.

    Parameters
    ----------
    outcomes, by, value, reference
        As for :func:`skillcomp.deltas.paired`, which gives the rows.
    attempts, verdicts : pandas.DataFrame, optional
        The answers and what was said of them: with both, a click on a case shows its answers side
        by side.
    gold, cases, checks, skills, ngram
        As for :func:`skillcomp.explore.verdicts`.

    Returns
    -------
    DeltaExplorer
        A widget. A click on a row or its point opens its cases
        (:func:`skillcomp.skillverdicts.cases`), a click on a case its answers; the arrow keys go
        from case to case. In code: ``frame`` (the rows), ``open_row(3)``, ``cases`` (of the open
        row), ``do("step", 1)``.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired` does.

    Notes
    -----
    A single case has few repeats: its rates are there to find cases, not to claim effects.
    """
    frame = paired_deltas.paired(outcomes, by=by, value=value, reference=reference)
    given = None
    if attempts is not None and verdicts is not None:
        given = Answers(attempts, verdicts, gold, cases, checks, skills, ngram)
    return DeltaExplorer(frame, check(outcomes, "outcomes"), listed(by), reference, given)


class DeltaExplorer(ui.Explorer):
    """The widget that :func:`deltas` returns.

    Attributes
    ----------
    frame : pandas.DataFrame
        The deltas, as drawn.
    cases : pandas.DataFrame or None
        The cases of the open row.
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
        self.choices = {"repeat": ui.Control("Repeat", [], [])}
        known = frame.dropna(subset=["estimate"])
        self._picture: ui.Picture | None = None
        self._spots: list[dict[str, Any]] = []
        if len(known):
            self._picture, self._spots = self._forest()
        self._table = table(frame[[*by, *(one for one in _TABLE if one in frame)]])
        super().__init__("Deltas")

    cases: pd.DataFrame | None

    def _forest(self) -> tuple[ui.Picture, list[dict[str, Any]]]:
        with style.use():
            ax = plots.estimates(
                self.frame, y=self._by or "condition", hue="condition", width="text"
            )
            points = [
                (line.get_label(), *where)
                for line in ax.lines
                if line.get_gid() == "estimate"
                for where in np.asarray(line.get_xydata(), dtype=float).tolist()
            ]
            drawn = ui.picture(ax)
        spots = []
        for at, row in enumerate(self.frame.to_dict("records")):
            look = style.plain(row["condition"])
            near = [p for p in points if p[0] == look and np.isclose(p[1], row["estimate"])]
            if near:
                points.remove(near[0])
                spots.append(_spot(drawn, near[0][1], near[0][2], at, self._name(at)))
        return drawn, spots

    def _name(self, at: int) -> str:
        row = self.frame.iloc[at]
        named = [*(str(row[name]) for name in self._by), str(row["condition"])]
        return ", ".join(named) + f" against {self._reference}"

    def open_row(self, at: int) -> DeltaExplorer:
        """Open the cases of a row of ``frame``, counted from 0, and return the explorer."""
        if ui.place_of(at, len(self.frame)) is None:
            raise StudyError(f"row: found {at!r}; allowed: 0 to {len(self.frame) - 1}.")
        self.do("row", at)
        return self

    def _commands(self) -> dict[str, Any]:
        return {"row": self._open, "case": self._read, "step": self._step}

    def _open(self, value: Any) -> None:
        at = ui.place_of(value, len(self.frame))
        if at is None:
            return
        row = self.frame.iloc[at]
        mine = rows_of_group(self._outcomes, {name: row[name] for name in self._by})
        found = skillverdicts.cases(mine, reference=self._reference)
        found = found[found["condition"].eq(row["condition"])]
        # those that changed most stand first
        found = found.iloc[(found["reference_rate"] - found["rate"]).argsort(kind="stable")]
        self._row, self._case, self.cases = at, None, found.reset_index(drop=True)

    def _read(self, value: Any) -> None:
        at = ui.place_of(value, 0 if self.cases is None else len(self.cases))
        if at is None or self.cases is None:
            return
        self._case = at
        if self._answers is not None:
            row = self.cases.iloc[at]
            repeats = self._answers.repeats(row["skill"], row["case_id"])
            self.choices["repeat"].offer(repeats, [str(one or 1) for one in repeats])

    def _step(self, by: Any) -> None:
        if self.cases is not None and len(self.cases):
            self._read(ui.stepped(self._case, by, len(self.cases)))

    def _state(self) -> dict[str, Any]:
        status = f"{len(self.frame)} deltas against {self._reference}"
        controls: list[dict[str, Any]] = []
        if self._row is not None and self.cases is not None:
            status = f"{self._name(self._row)}: {len(self.cases)} cases"
            controls = ui.walk(self._case, len(self.cases), " case")
            if self._case is not None and len(self.choices["repeat"].values) > 1:
                controls.append(self.choices["repeat"].control("repeat"))
        about = {"shortcuts": dict(ui.STEPS), "status": status, "place": f"{self._row}"}
        return {"controls": controls, **about}

    def _view(self, *, live: bool) -> Markup:
        cases, page = None, Markup("")
        if self.cases is not None:
            shown = self.cases[[name for name in _CASES if self.cases[name].notna().any()]]
            named = {"rate": f"{self.cases['condition'].iloc[0]}_rate"} if len(shown) else {}
            named |= {"reference_rate": f"{self._reference}_rate"}
            cases = table(shown.rename(columns=named))
            if self._case is not None:
                page = self._page(self.cases.iloc[self._case])
        return ui.render(
            "deltas",
            picture=self._picture if live else None,
            spots=self._spots,
            table=self._table,
            current=self._row,
            cases=cases,
            case=self._case,
            name="" if self._row is None else self._name(self._row),
            page=page,
            live=live,
        )

    def _page(self, row: pd.Series) -> Markup:
        repeat = self.choices["repeat"].value
        if self._answers is None or repeat is None:
            return _NO_ANSWERS
        return self._answers.page(row["skill"], row["case_id"], repeat)
