"""From an estimate to its cases: deltas by row, and the flips between two graders."""

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
from skillcomp.explore.verdict_browser import Answers, grader_names
from skillcomp.frames.case_table import Value
from skillcomp.frames.contracts import check
from skillcomp.frames.estimates import listed, rows_of_group
from skillcomp.records import Skill
from skillcomp.reliability.drift import drift as grader_drift
from skillcomp.reliability.drift import flip_counts, flipped
from skillcomp.table import Table, table

_TABLE = ["condition", "measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n"]
_TABLE += ["p_value", "method", "note"]
_CASES = ["case_id", "comprehension_dimension", "transfer", "reference_rate", "rate", "verdict"]
_FLIPS = ["case_id", "condition", "repeat", "check_id", "direction", "gold"]
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
    n: int = 6,
) -> DeltaExplorer:
    """See paired deltas as a forest and a table, and open the cases behind a row.

    Parameters
    ----------
    outcomes, by, value, reference
        As for :func:`skillcomp.deltas.paired`, which gives the rows.
    attempts, verdicts : pandas.DataFrame, optional
        The answers and what was said of them: with both, a click on a case shows its answers side
        by side.
    gold, cases, checks, skills, n
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
        given = Answers(attempts, verdicts, gold, cases, checks, skills, n)
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


def drift(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    attempts: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    checks: pd.DataFrame | None = None,
    skills: Mapping[str, Skill | str] | None = None,
    n: int = 6,
) -> DriftExplorer:
    """See which verdicts flip between two graders, and the cases behind the flips.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As for :func:`skillcomp.reliability.drift`: two grader versions or more, one round of each.
    attempts : pandas.DataFrame, optional
        The answers.
    cases, checks, skills, n
        As for :func:`skillcomp.explore.verdicts`.

    Returns
    -------
    DriftExplorer
        A widget: dropdowns of the two graders, the drift between them
        (:func:`skillcomp.reliability.drift`), the flips by gold label, and the list of flips,
        narrowed by a click on a cell or by the dropdowns; a click on one shows the answers with
        the quotes and reasons of both graders. In code: ``choose(reference="g0", grader="g2")``,
        ``frame`` (the flips shown), ``do("step", 1)``.

    Raises
    ------
    FrameError
        As :func:`skillcomp.reliability.drift` does, such as when there is only one grader.
    """
    given = check(verdicts, "verdicts")
    labels = None if gold is None else check(gold, "gold")
    told = given.iloc[:0] if attempts is None else attempts
    if attempts is None:
        named = ["attempt_id", "skill", "case_id", "condition", "repeat", "agent"]
        told = given[named].drop_duplicates("attempt_id")
    answers = Answers(told, given, labels, cases, checks, skills, n)
    return DriftExplorer(given, labels, answers, cases)


class DriftExplorer(ui.Explorer):
    """The widget that :func:`drift` returns.

    Attributes
    ----------
    frame : pandas.DataFrame
        The flips that are shown, as :func:`skillcomp.reliability.flipped` has them.
    """

    frame: pd.DataFrame

    def __init__(
        self,
        verdicts: pd.DataFrame,
        gold: pd.DataFrame | None,
        answers: Answers,
        cases: pd.DataFrame | None,
    ) -> None:
        self._given, self._gold, self._answers, self._cases = verdicts, gold, answers, cases
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
        self._known: dict[tuple[str, str], Any] = {}
        self._at: int | None = None
        self._compare()
        super().__init__("Drift")

    def _compare(self) -> None:
        """Hold the two graders against each other; of one alone there is nothing to compare."""
        pair = self.choices["reference"].value, self.choices["grader"].value
        if pair not in self._known:
            part = self._given[self._names.isin(pair)]
            row = self._given[self._names.eq(pair[0])].iloc[:1]
            version = row["grader_version"].fillna("").tolist()
            first = (str(row["grader"].iloc[0]), version[0]) if len(row) else ""
            how: dict[str, Any] = {"reference": first}
            found = grader_drift(part, self._gold, **how, cases=self._cases)
            columns = ["measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n"]
            columns += ["n_gained", "n_lost", "p_value", "p_adjusted", "method", "note"]
            found = found[found["estimate"].notna()][columns]
            counts = flip_counts(part, self._gold, **how)
            flips = flipped(part, self._gold, **how)
            self._known[pair] = table(found), _matrices(counts), flips
        self._shown, self._pictures, flips = self._known[pair]
        direction = self.choices["direction"].value
        if direction is not None:
            flips = flips[flips["direction"].eq(direction)]
        label = self.choices["gold"].value if "gold" in self.choices else None
        if label is not None:
            wanted = {"PASS": flips["gold"].eq(True), "FAIL": flips["gold"].eq(False)}
            flips = flips[wanted.get(label, flips["gold"].isna()).fillna(False)]
        self.frame, self._at = flips.reset_index(drop=True), None

    def _chosen(self, name: str) -> None:
        before = {key: one.at for key, one in self.choices.items()}
        same = self.choices["reference"].value == self.choices["grader"].value
        if same and name in ("reference", "grader"):
            other = self.choices["grader" if name == "reference" else "reference"]
            other.at = (before[name] + 1) % max(len(other.values), 1)
        self._compare()

    def _commands(self) -> dict[str, Any]:
        return {"step": self._step, "flip": self._read, "cell": self._cell}

    def _cell(self, value: Any) -> None:
        direction, _, label = str(value).partition("/")
        for name, wanted in (("direction", direction), ("gold", label)):
            one = self.choices.get(name)
            if one is not None:
                one.at = one.values.index(wanted) if wanted in one.values else 0
        self._compare()

    def _read(self, value: Any) -> None:
        at = ui.place_of(value, len(self.frame))
        self._at = self._at if at is None else at

    def _step(self, by: Any) -> None:
        self._read(ui.stepped(self._at, by, len(self.frame)))

    def _state(self) -> dict[str, Any]:
        n = len(self.frame)
        pair = f"{self.choices['reference'].value} to {self.choices['grader'].value}"
        status = f"{pair}: {n} flips" if self._at is None else f"{pair}: flip {self._at + 1} of {n}"
        return {
            "controls": [*self._dropdowns(), *ui.walk(self._at, n)],
            "shortcuts": ui.STEPS | {"/": ("focus", "direction")},
            "status": status,
            "place": pair,
        }

    def _view(self, *, live: bool) -> Markup:
        flips: Table | None = None
        words = "No verdict flips here."
        if len(self.frame):
            said = self.frame["gold"].map({True: "PASS", False: "FAIL"}).fillna("none")
            columns = [one for one in _FLIPS if self.frame[one].notna().any() or one == "gold"]
            columns = [one for one in columns if one != "gold" or self._gold is not None]
            shown = self.frame.assign(gold=said)[columns]
            flips = table(shown if live else shown.head(8))
            words = "Flips; click one to read it." if live else f"The first of {len(shown)} flips."
        page = Markup("")
        if self._at is not None:
            row = self.frame.iloc[self._at]
            pair = [self.choices["reference"].value, self.choices["grader"].value]
            repeat = 0 if ui.absent(row["repeat"]) else int(row["repeat"])
            lit = {(row["attempt_id"], row["check_id"], name) for name in pair}
            page = self._answers.page(
                row["skill"], row["case_id"], repeat, [row["check_id"]], graders=pair, lit=lit
            )
        return ui.render(
            "drift",
            table=self._shown,
            pictures=self._pictures if live else [],
            current=self._current(),
            flips=flips,
            flip=self._at,
            caption=words,
            page=page,
            live=live,
        )

    def _current(self) -> str:
        label = self.choices["gold"].value if "gold" in self.choices else None
        return f"{self.choices['direction'].value}/{label}"


def _matrices(counts: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the matrix of old and new verdict for every gold label, its flips to click on."""
    found = []
    for label, part in counts.groupby("gold", dropna=False, sort=False):
        name = "none" if ui.absent(label) else str(label)
        with style.use():
            ax = plots.flips(part, legend=False, ax=style.figure("column", height=2.1)[1])
            drawn = ui.picture(ax)
        spots = []
        order = [tick.get_text() for tick in ax.get_xticklabels()]
        for row in part.to_dict("records"):
            if row["old"] == row["new"]:
                continue
            old, new = ("PASS" if one else "FAIL" for one in (row["old"], row["new"]))
            x, y = order.index(new), order.index(old)
            left, top = drawn.at(x - 0.5, y - 0.5)
            right, bottom = drawn.at(x + 0.5, y + 0.5)
            box = {"left": min(left, right), "top": min(top, bottom)}
            box |= {"width": abs(right - left), "height": abs(bottom - top)}
            about = {"value": f"to {new}/{name}", "label": f"{row['count']} flips to {new}"}
            spots.append({side: round(at, 3) for side, at in box.items()} | about)
        title = "Gold: none" if name == "none" else f"Gold: {name}"
        alt = f"Verdicts of both graders, {title}; the same numbers stand in the list of flips."
        found.append({"title": title, "picture": drawn, "alt": alt, "spots": spots})
    return found
