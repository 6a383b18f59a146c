"""Explore a study: choose skill, agent, grader, condition and margin, and read the results."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, cached_property
from os import PathLike
from typing import Any

import pandas as pd
from markupsafe import Markup

from skillcomp import frames, reliability, style
from skillcomp.errors import SkillcompError, StudyError, extra_imports, require_known
from skillcomp.explore import explorer as ui
from skillcomp.frames import Frames
from skillcomp.frames.estimates import columns_of, ordered, rows_of_group
from skillcomp.io.store import RunStore
from skillcomp.report import escaped_text as html
from skillcomp.report.answer import Answer, answer, draw_headline
from skillcomp.report.case_pages import Answers
from skillcomp.report.chapters import NOT_SHOWN
from skillcomp.report.page import price_table
from skillcomp.report.phrases import size
from skillcomp.report.screens import TITLES
from skillcomp.report.study_data import frame_of, opened
from skillcomp.stats.results import Fields
from skillcomp.table import Table, table

with extra_imports("lab", "an explorer"):
    import ipywidgets as widgets

TABS = ("answer", "forest", "cases", "graders", "cost")
_FRAMES = ("cases", "attempts", "gold", "verdicts")
_MOST_ROWS = 30
_NGRAM = 6  # the default of `ngram` in the other explorers
_CASES = [
    "case_id",
    "comprehension_dimension",
    "transfer",
    "reference_rate",
    "rate",
    "delta",
    "verdict",
]
# what the study lacks if the answer has no rows for a tab
_LACKING = {
    "cases": "The study compares no conditions, so no case has a change.",
    "graders": "The study has no gold labels, so nobody knows how often a grader errs; name their "
    "column by gold= of sc.from_frame, or label answers with sc.explore.verdicts.",
    "cost": "The study records no dollars, seconds or tokens; name their columns by cost_usd=, "
    "seconds=, input_tokens= and output_tokens= of sc.from_frame.",
}
# columns of deltas and prices
_SHOWN = [
    *("skill", "agent", "condition", "reference", "measure", "reference_rate", "rate"),
    *("estimate", "ci_low", "ci_high", "ci_level", "unit", "n", "verdict", "method", "note"),
]
_RATES = {"rate": "condition", "reference_rate": "reference"}


def study(own: Frames | RunStore | str | PathLike[str]) -> StudyExplorer:
    """Explore a study with controls for skill, agent, grader, condition and margin.

    Parameters
    ----------
    own : Frames, RunStore or path
        The frames of your own table (:func:`skillcomp.from_frame`), or a recorded study.

    Returns
    -------
    StudyExplorer
        A widget with five tabs. ``answer`` has the sentences of :func:`skillcomp.report.answer`,
        ``forest`` the figure of the paired deltas, ``cases`` the cases behind each delta and their
        answers side by side, ``graders`` the agreement of the graders with gold, and ``cost`` what
        an attempt and each pass cost; :func:`skillcomp.report.build` writes all of these as a page.
        A control is hidden if the study has only one value for it. In the tab ``cases`` a click on
        a row opens
        its cases (:func:`skillcomp.skillverdicts.cases`), a click on a case opens its answers with
        the quotes and reasons of all graders, and the arrow keys step through the cases. In code,
        ``choose(grader="g2", margin=0.2)`` sets the controls, ``show("forest")`` opens a tab, and
        ``do("row", 3)``, ``do("case", 0)`` and ``do("step", 1)`` act as the clicks and keys do.

    Raises
    ------
    StudyError
        If the path holds no study.

    Notes
    -----
    Skill, agent and condition select rows; estimates, intervals and adjusted p-values are those of
    the whole study. The answer for each new grader or margin is computed once and then kept. If
    the study lacks the data for a tab, the tab shows a sentence instead. A single case has few
    repeats: use its rates to find cases worth reading, not to claim effects.
    """
    return StudyExplorer(opened(own))


class StudyExplorer(ui.Explorer):
    """The widget that :func:`study` returns.

    Attributes
    ----------
    choices : dict of str to Control
        The controls tab, skill, agent, condition, grader, margin and repeat by name; the value
        None means all. The repeat is that of the open case, with its answers.
    """

    def __init__(self, own: RunStore | Frames) -> None:
        self._study = own
        self._cases, self._attempts, self._gold, verdicts = (
            frame_of(own, name) for name in _FRAMES
        )
        rounds = verdicts["round"].fillna(1)
        self._verdicts = verdicts[rounds.eq(rounds.min())]
        self.choices = self._make_controls()
        self._result = cache(lambda grader: answer(own, grader=grader))
        self._shown = cache(lambda tab, *_: self._tab_html(tab))
        self._row: int | None = None
        super().__init__("Study")

    @property
    def tab(self) -> str:
        """Return the name of the open tab."""
        return str(self.chosen("tab"))

    def choose(self, **settings: Any) -> StudyExplorer:
        """Set controls by name, as in ``choose(skill="a", margin=0.2)``; None means all.

        Raises
        ------
        StudyError
            If there is no such control or value.
        """
        margin, control = settings.get("margin"), self.choices["margin"]
        if isinstance(margin, float) and 0 < margin < 1:
            control.offer(sorted({*control.values, margin}))
        super().choose(**settings)
        return self

    def show(self, tab: str) -> StudyExplorer:
        """Open a tab: answer, forest, cases, graders or cost."""
        require_known("show: there is no tab", tab, TABS, StudyError, label="there")
        return self.choose(tab=tab)

    # The controls

    def _make_controls(self) -> dict[str, ui.Control]:
        conditions = ordered(self._attempts["condition"])
        references = [name for name in ("baseline", "previous") if name in conditions]
        conditions = [name for name in conditions if name not in references[:1]]
        graders = ordered(self._verdicts["grader"])
        controls = {
            "tab": ui.Control("Tab", TABS, kind=widgets.ToggleButtons),
            "skill": ui.dropdown("Skill", ordered(self._attempts["skill"])),
            "agent": ui.dropdown("Agent", ordered(self._attempts["agent"].dropna())),
            "condition": ui.dropdown("Condition", conditions),
            "grader": ui.Control("Grader", graders),
            "margin": ui.Control(
                "Margin", [at / 100 for at in range(51)], size, kind=widgets.SelectionSlider
            ),
            "repeat": ui.Control("Repeat", [1], lambda repeat: str(repeat or 1)),
        }
        controls["margin"].at = 10
        with suppress(SkillcompError):  # the tab `graders` shows the error
            best = reliability.default_grader(self._verdicts, self._gold)
            controls["grader"].at = graders.index(best)
        return controls

    def _control_changed(self, name: str) -> None:
        if name not in ("tab", "repeat"):
            self._row, self.at = None, -1

    def _widget_state(self) -> Fields:
        for name, control in self.choices.items():
            several = len({*control.values} - {None}) > 1
            shown = several and (name != "repeat" or self.at >= 0)
            control.widget.layout.display = None if shown else "none"
        shortcuts = dict(ui.STEPS) if self.tab == "cases" else {}
        return {"shortcuts": shortcuts, "status": "", "place": str(self._row)}

    # What the tabs show

    def _current_answer(self) -> Answer:
        return self._result(self.chosen("grader")).with_margin(self.chosen("margin"))

    def _headline_rows(self) -> pd.DataFrame:
        rows = self._current_answer().headline()
        rows = self.selected_rows(rows, "skill", "agent", "condition")
        if rows.empty or rows["estimate"].isna().all():
            raise StudyError(
                "There is no estimate for this choice; choose all skills or conditions."
            )
        return rows

    def _sentence_rows(self) -> pd.DataFrame:
        rows = self._current_answer().findings
        for name in ("skill", "condition"):
            value = self.chosen(name)
            others = {*self.choices[name].values} - {value, None}
            if value is not None:
                rows = rows[~rows["about"].isin(others) & ~rows["topic"].isin(others)]
        return rows

    def _rows_of_tab(self, tab: str) -> pd.DataFrame:
        """Return the rows behind a tab: those of the answer that have the chosen values."""
        if tab == "answer":
            return self._sentence_rows()
        result = self._current_answer()
        frames_of = {
            "cases": result.cases,
            "graders": result.frames.get("agreement"),
            "cost": result.frames.get("price"),
        }
        rows = frames_of[tab]
        if rows is None:
            raise StudyError(_LACKING[tab])
        if tab == "cost":
            rows = rows.dropna(subset="estimate")
        return self.selected_rows(rows, "skill", "agent", "condition")

    # Drawing

    def _render_view(self, *, live: bool) -> Markup:
        """Return the HTML of the open tab; unless `live`, its rows cannot be clicked."""
        try:
            if self.tab == "cases":
                return self._cases_html(live=live)
            return self._shown(*(c.value for n, c in self.choices.items() if n != "repeat"))
        except SkillcompError as error:
            return _html_paragraph(NOT_SHOWN + str(error))

    def _tab_html(self, tab: str) -> Markup:
        """Return the HTML of a tab that has no state of its own."""
        if tab == "forest":
            rows = self._headline_rows()
            drawn = ui.picture(draw_headline(rows))
            caption = style.describe({"delta": rows}, lead="Change on the same cases.")
            rows_html = Markup(_delta_table(rows).html(most=_MOST_ROWS))
            return html.render("explore-forest", picture=drawn, caption=caption, table=rows_html)
        rows = self._rows_of_tab(tab)
        if tab == "answer":
            parts = rows.groupby("topic", sort=False)["sentence"]
            return Markup("").join(_html_section(str(topic), texts) for topic, texts in parts)
        prices, columns = Markup(""), None
        if tab == "cost":
            prices, columns = Markup(price_table(rows)), columns_of(rows, *_SHOWN)
        return prices + Markup(table(rows, columns=columns).html(most=_MOST_ROWS))

    # The tab `cases`

    @cached_property
    def _answers(self) -> Answers:
        skills = self._study.skills if isinstance(self._study, RunStore) else {}
        checks = frames.checks(self._study) if isinstance(self._study, RunStore) else None
        gold = None if self._gold.empty else self._gold
        return Answers(self._attempts, self._verdicts, gold, self._cases, checks, skills, _NGRAM)

    def _delta_rows(self) -> pd.DataFrame:
        """Return the rows of the tab, and open the row if it is the only one."""
        rows = self._headline_rows().reset_index(drop=True)
        if len(rows) == 1:
            self._row = 0
        return rows

    def _open_cases(self) -> pd.DataFrame:
        """Return the cases of the open row; no rows if no row is open."""
        rows = self._delta_rows()
        if self._row is None:
            return pd.DataFrame()
        row = rows.iloc[self._row]
        by = columns_of(rows, "skill", "agent", "condition")
        cases = rows_of_group(self._rows_of_tab("cases"), {name: row[name] for name in by})
        return cases.reset_index(drop=True)

    def _do_row(self, value: Any) -> None:
        at = ui.valid_position(value, len(self._delta_rows()))
        if at is not None:
            self._row, self.at = at, -1

    def _do_case(self, value: Any) -> None:
        cases = self._open_cases()
        at = ui.valid_position(value, len(cases))
        if at is not None:
            self.at, case = at, cases.iloc[at]
            self.choices["repeat"].offer(self._answers.repeats(case["skill"], case["case_id"]))

    def _do_step(self, by: Any) -> None:
        cases = self._open_cases()
        self._do_case(ui.next_position(self.at, by, len(cases)))

    def _cases_html(self, *, live: bool) -> Markup:
        rows = self._delta_rows()
        row, shown, page = None, None, ""
        if self._row is not None:
            row, cases = rows.iloc[self._row], self._open_cases()
            heads = {name: f"{row[of]}_rate" for name, of in _RATES.items()}
            columns = [column for column in _CASES if cases[column].notna().any()]
            own = cases[columns].rename(columns=heads)
            names = [str(name) for name in own]
            shown = table(own.assign(unit=row["unit"]), columns=names)
            repeat = self.chosen("repeat")
            if self.at >= 0 and repeat is not None:
                case = cases.iloc[self.at]
                page = self._answers.page(case["skill"], case["case_id"], repeat)
        return html.render(
            "explore-cases",
            table=_delta_table(rows),
            current=self._row,
            row=row,
            cases=shown,
            case=self.at,
            page=page,
            live=live,
        )


def _delta_table(rows: pd.DataFrame) -> Table:
    return table(rows[columns_of(rows, *_SHOWN)])


def _html_section(topic: str, texts: pd.Series) -> Markup:
    """Return the sentences on a topic under its title; the summary has no title."""
    title = Markup("<h3>{}</h3>").format(TITLES[topic]) if topic in TITLES else Markup("")
    return title + Markup("").join(map(_html_paragraph, texts))


def _html_paragraph(text: str) -> Markup:
    return Markup("<p>{}</p>").format(html.visible(text))
