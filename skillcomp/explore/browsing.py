"""Reading the cases behind a number: one verdict at a time, filtered and in its context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.explore._texts import pieces, render, text
from skillcomp.frames.contract import CASE, check

_FILTERS = {
    "skill": "Skill",
    "case_id": "Case",
    "condition": "Condition",
    "grader": "Grader",
    "check_id": "Check",
    "passed": "Verdict",
    "gold": "Gold",
}
_NARROWED = ("case_id", "check_id")  # offered only as far as the filters before them leave rows
_EVERY = "all"
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
) -> VerdictBrowser:
    """Read the verdicts behind a number, one at a time, beside the answers they judge.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        The verdicts to read; select rows beforehand to see those behind one estimate. Graders,
        versions and rounds stand side by side and can be filtered.
    attempts : pandas.DataFrame
        Gives the answers. Verdicts on attempts that are not in it are shown without one.
    gold : pandas.DataFrame, optional
        Reference labels. A verdict disagrees when any labeller differs from it.
    cases, checks : pandas.DataFrame, optional
        Give the prompts, and the descriptions of the checks.

    Returns
    -------
    VerdictBrowser
        A widget: filters by skill, case, condition, grader, check, verdict and (with ``gold``)
        agreement; previous, next and the place among the rows left; and the verdict in view:
        prompt, check, verdict, gold labels, rationale, evidence quote, and the answer with the
        quote marked wherever it stands. In code: ``filters`` (dict of dropdowns by column, of
        which ``value`` None is all), ``place``, ``previous``, ``next``, ``view`` and ``rows``, the
        frame of verdicts that the filters leave.

    Raises
    ------
    FrameError
        If a frame breaks its contract.

    See Also
    --------
    label : Gives gold labels, blind to condition and grader.
    skillcomp.reliability.drift : Says which verdicts flipped between graders.

    Notes
    -----
    Every text is escaped: what a model wrote is shown and never interpreted. A text longer than
    100,000 characters is cut, and says so.
    """
    given = check(verdicts, "verdicts")
    return VerdictBrowser(
        given,
        check(attempts, "attempts"),
        None if gold is None else check(gold, "gold"),
        prompts={} if cases is None else _prompts(check(cases, "cases")),
        descriptions={} if checks is None else _descriptions(check(checks, "checks")),
    )


def _prompts(cases: pd.DataFrame) -> dict[tuple[str, str], Any]:
    return dict(
        zip(zip(*(cases[name] for name in CASE), strict=True), cases["prompt"], strict=True)
    )


def _descriptions(checks: pd.DataFrame) -> dict[tuple[str, str, str], Any]:
    keys = zip(*(checks[name] for name in (*CASE, "check_id")), strict=True)
    return dict(zip(keys, checks["description"], strict=True))


class VerdictBrowser(widgets.VBox):  # type: ignore[misc]
    """The widget that :func:`verdicts` returns.

    Attributes
    ----------
    filters : dict of str to ipywidgets.Dropdown
        By column; ``value`` None leaves every row.
    place : ipywidgets.BoundedIntText
        Place of the verdict in view among those left, from 1.
    previous, next : ipywidgets.Button
        Go one verdict back or on.
    view : ipywidgets.HTML
        The verdict in view.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        attempts: pd.DataFrame,
        gold: pd.DataFrame | None,
        *,
        prompts: dict[tuple[str, str], Any],
        descriptions: dict[tuple[str, str, str], Any],
    ) -> None:
        self._table, self._gold = table, gold
        self._attempts, self._prompts, self._descriptions = attempts, prompts, descriptions
        self._position = pd.Index(attempts["attempt_id"])
        self._levels = _levels(table, gold)
        self._kept = np.arange(len(table))
        self._busy = False
        self.filters = {
            name: widgets.Dropdown(
                options=_options(_FIXED.get(name, values)), description=_FILTERS[name]
            )
            for name, values in self._levels.items()
        }
        self.place = widgets.BoundedIntText(min=0, max=0, description="Verdict")
        self.count = widgets.Label()
        self.previous = widgets.Button(description="Previous", icon="arrow-left")
        self.next = widgets.Button(description="Next", icon="arrow-right")
        self.view = widgets.HTML()
        row = widgets.Layout(flex_flow="row wrap")
        walk = [self.previous, self.next, self.place, self.count]
        super().__init__(
            [
                widgets.Box([*self.filters.values()], layout=row),
                widgets.Box(walk, layout=row),
                self.view,
            ]
        )
        for one in self.filters.values():
            one.observe(lambda _: self._filter(), names="value")
        self.place.observe(lambda _: self._show(), names="value")
        self.previous.on_click(lambda _: self._step(-1))
        self.next.on_click(lambda _: self._step(1))
        self._filter()

    @property
    def rows(self) -> pd.DataFrame:
        """Return the verdicts that the filters leave, in the order in which they are walked."""
        return self._table.iloc[self._kept]

    def _filter(self) -> None:
        if self._busy:  # the options below change values, which would come back here
            return
        self._busy = True
        try:
            keep = np.ones(len(self._table), dtype=bool)
            for name, values in self._levels.items():
                one = self.filters[name]
                if name in _NARROWED:
                    _offer(one, values[keep])
                if one.value is not None:
                    keep &= np.asarray(values == one.value, dtype=bool)
            self._kept = np.flatnonzero(keep)
            last = len(self._kept)
            self.place.min = 0  # no bound may pass the other, not even for a moment
            self.place.max = last
            self.place.min = min(1, last)
            self.place.value = min(1, last)
            self.count.value = f"of {last:,}"
        finally:
            self._busy = False
        self._show()

    def _step(self, by: int) -> None:
        self.place.value = min(max(self.place.value + by, self.place.min), self.place.max)

    def _show(self) -> None:
        if self._busy:
            return
        at, last = self.place.value, len(self._kept)
        self.previous.disabled, self.next.disabled = at <= 1, at >= last
        if not last:
            self.view.value = "<i>No verdict is left by these filters.</i>"
            return
        self.view.value = self._page(int(self._kept[at - 1]))

    def _page(self, at: int) -> str:
        row = self._table.iloc[at]
        place = self._position.get_indexer([row["attempt_id"]])[0]
        attempt = None if place < 0 else self._attempts.iloc[place]
        answer = None if attempt is None else text(attempt["answer"])
        quote = text(row["evidence_quote"])
        shown = pieces(answer, quote) if answer is not None else []
        return render(
            "verdict",
            attempt=row["attempt_id"],
            skill=row["skill"],
            case=row["case_id"],
            condition=row["condition"],
            repeat=text(row["repeat"]),
            loaded=None if attempt is None else text(attempt["loaded_skill"]),
            prompt=text(self._prompts.get((row["skill"], row["case_id"]))),
            check=row["check_id"],
            kind=text(row["check_kind"]),
            description=text(
                self._descriptions.get((row["skill"], row["case_id"], row["check_id"]))
            ),
            grader=self._levels["grader"][at],
            verdict=_word(row["passed"]) or f"none (status {text(row['status']) or 'unknown'})",
            borderline=_yes(row["borderline"]),
            labels=self._labels(row),
            rationale=text(row["rationale"]),
            quote=quote,
            found=any(marked for _, marked in shown),
            answer=shown,
        )

    def _labels(self, row: pd.Series) -> list[dict[str, Any]]:
        if self._gold is None:
            return []
        same = self._gold["attempt_id"].eq(row["attempt_id"])
        own = self._gold[same & self._gold["check_id"].eq(row["check_id"])]
        return [
            {
                "labeller": text(one.labeller) or "an unnamed labeller",
                "passed": _word(one.passed) or "none",
                "borderline": _yes(one.borderline),
                "note": text(one.note),
            }
            for one in own.itertuples()
        ]


def _yes(value: Any) -> bool:
    return not pd.isna(value) and bool(value)


def _word(passed: Any) -> str:
    """Return a truth value in words, nothing where it is missing."""
    return "" if pd.isna(passed) else "PASS" if passed else "FAIL"


def _graders(table: pd.DataFrame) -> list[str]:
    """Return each row's grader, with version and round where one grader has several."""
    names = table["grader"].astype("object")
    for column, word in (("grader_version", "version"), ("round", "round")):
        several = table.groupby("grader")[column].transform("nunique") > 1
        told = table[column].astype("object").where(table[column].notna(), "unknown").astype(str)
        names = names.where(~several, names + f", {word} " + told)
    return [str(name) for name in names]


def _levels(table: pd.DataFrame, gold: pd.DataFrame | None) -> dict[str, NDArray[np.object_]]:
    """Return for every filter the level of every verdict."""
    passed = table["passed"].map({True: _PASSED, False: _FAILED}).fillna(_NONE)
    columns: dict[str, Any] = {
        name: table[name] for name in ("skill", "case_id", "condition", "check_id")
    }
    columns |= {"grader": _graders(table), "passed": passed}
    if gold is not None:
        columns["gold"] = _agreement(table, gold)
    return {name: np.asarray(columns[name], dtype=object) for name in _FILTERS if name in columns}


def _agreement(table: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    keys = ["attempt_id", "check_id"]
    known = gold.dropna(subset=["passed"])
    known = known.assign(passed=known["passed"].astype("float64"))
    limits = known.groupby(keys)["passed"].agg(["min", "max"])
    own = limits.reindex(pd.MultiIndex.from_frame(table[keys])).reset_index(drop=True)
    mine = table["passed"].astype("Float64").astype("float64").reset_index(drop=True)
    found = pd.Series(_AGREES, index=own.index, dtype=object)
    found[own["min"].ne(mine) | own["max"].ne(mine)] = _DISAGREES
    found[own["min"].isna() | mine.isna()] = _OPEN
    return found


def _options(values: Iterable[Any]) -> list[tuple[str, str | None]]:
    return [(_EVERY, None), *((str(value), value) for value in dict.fromkeys(values))]


def _offer(one: widgets.Dropdown, values: Iterable[Any]) -> None:
    """Put the levels that are left into a dropdown; a value that is gone becomes all."""
    options = _options(values)
    kept = one.value if one.value in {value for _, value in options} else None
    one.options, one.value = options, kept
