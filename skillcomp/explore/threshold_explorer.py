"""Explore thresholds for copying: their error rates, and the texts that they judge wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp import plots, style
from skillcomp.errors import extra_imports
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.calibrate import (
    Chooser,
    Settings,
    classed_texts,
    make_sample,
    performance,
)
from skillcomp.overlap.score_spans_and_positives import (
    Skills,
    roc,
    skills_by_slug,
    source_files,
)
from skillcomp.report import escaped_text as html
from skillcomp.stats.results import Fields
from skillcomp.table import Table, table

with extra_imports("lab", "an explorer"):
    import ipywidgets as widgets

_TEXTS = ["text", "class", "skill", "share", "longest_run", "longest_text"]
_RATES = ["measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n_texts", "n_clusters"]
_Point = tuple[int, float | None]  # n and the cut; a cut of None flags any shared n-gram.
_LONG = 80  # Maximum number of characters shown of the longest sequence of shared words.
_MOST = 200  # A list shows at most this number of texts.


def threshold(
    shared: pd.DataFrame,
    passages: pd.DataFrame,
    *,
    skills: Skills,
    attempts: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    max_false_flags: float = 0.05,
    positive: str | Sequence[str] | None = None,
    nulls: str | Sequence[str] | None = None,
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
) -> ThresholdExplorer:
    """Set the length n and the cut by hand, and see which texts they flag rightly or wrongly.

    Parameters
    ----------
    shared, passages, skills, max_false_flags, positive, nulls, tokenizer, tokenizer_name
        As for :func:`skillcomp.overlap.calibrate`: the scored attempts, the passages to score, the
        skills, the limit of false flags, the classes that count as copies, those that count as
        clean, and the tokenizer that scored the attempts. The sliders start at the threshold that
        ``calibrate`` chooses with them or, if it chooses none, at its choice by the estimates.
    attempts : pandas.DataFrame, optional
        The answers. Without them, you can read only the passages.
    cases : pandas.DataFrame, optional
        The prompts. Text that is also in the prompt is not marked as copied.

    Returns
    -------
    ThresholdExplorer
        A widget with a slider for n and a slider for the cut. The first position of the cut flags
        any shared n-gram; the other positions are the shares that calibration tries. One plot shows
        the share of shared n-grams in every text, with the cut. Another shows the ROC curve of the
        passages, with the chosen point. The widget also has the rates with their intervals, the
        texts judged wrongly, and the texts that are flagged at the chosen point but not at the
        first one, or the reverse. In code, ``choose(n=4, cut=None)`` sets the sliders, ``errors``
        has the texts judged wrongly, and ``moved`` has the texts flagged at only one of the two
        points.

    Raises
    ------
    FrameError
        As :func:`skillcomp.overlap.calibrate` does.

    Notes
    -----
    A threshold chosen by looking at these texts is not calibrated. For a paper, use
    :func:`skillcomp.overlap.calibrate`. Copies with fewer than n tokens count as missed; other
    texts with fewer than n tokens are left out at this n.
    """
    every, passages, copies, clean = classed_texts(
        shared,
        passages,
        what="explore.threshold",
        attempts=attempts,
        positive=positive,
        nulls=nulls,
        skills=skills,
        tokenizer=tokenizer,
        tokenizer_name=tokenizer_name,
    )
    by_id = passages.set_index("passage_id")
    texts = by_id["text"].to_dict()
    prompts = by_id["question"].to_dict() if "question" in by_id else {}
    if attempts is not None:
        attempts = check(attempts, "attempts")
        texts |= attempts.set_index("attempt_id")["answer"].to_dict()
        if cases is not None:
            cases = check(cases, "cases")[[*CASE, "prompt"]]
            rows = attempts.merge(cases, on=CASE, how="left")
            prompts |= rows.set_index("attempt_id")["prompt"].to_dict()
    settings = Settings(copies, clean, max_false_flags)
    return ThresholdExplorer(every, settings, skills, texts, prompts, tokenizer)


def _cut_text(cut: float | None) -> str:
    return "any" if cut is None else f"{100 * cut:.1f} %"


class ThresholdExplorer(ui.Explorer):
    """The widget that :func:`threshold` returns.

    Attributes
    ----------
    choices : dict of str to Control
        The sliders ``n`` and ``cut``; a cut of None flags any shared n-gram.
    errors, moved : pandas.DataFrame
        ``errors`` has the texts that the chosen n and cut judge wrongly. ``moved`` has the texts
        that are flagged with the chosen n and cut but not with the first ones, or the reverse.
    """

    errors: pd.DataFrame
    moved: pd.DataFrame
    _open_row: tuple[str, int] | None

    def __init__(
        self,
        every: pd.DataFrame,
        settings: Any,
        skills: Skills,
        texts: Mapping[Any, Any],
        prompts: Mapping[Any, Any],
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self._settings, self._tokenizer = settings, tokenizer
        self._skills = skills_by_slug(skills)
        self.texts, self._prompts = texts, prompts
        self._sample = make_sample(every, settings)
        copies = every["kind"].eq("passage") & every["level"].isin(settings.positive)
        judged = every["any_shared"].notna() & every["n_tokens"].ge(every["n"]).fillna(False)
        scored = every[judged | (copies & every["n_tokens"].notna())]
        passage = scored["kind"].eq("passage")
        scored = scored.assign(
            any_shared=scored["any_shared"].fillna(False) & judged,
            text=scored["passage_id"].where(passage, scored["attempt_id"]),
            **{"class": scored["level"].where(passage, scored["condition"])},
            share=scored["share"].fillna(0.0),
        )
        groups = scored.astype({"n": "int64"}).groupby("n")
        self._texts_by_n = {n: part.reset_index(drop=True) for n, part in groups}
        self._levels = list(dict.fromkeys(scored.loc[passage, "level"]))
        # a figure takes longer to draw than a slider to move, so draw where the slider is released
        slider: Fields = {"kind": widgets.SelectionSlider, "continuous_update": False}
        self.choices = {
            "n": ui.Control("n", self._sample.lengths, **slider),
            "cut": ui.Control("Cut", [None], _cut_text, **slider),
        }
        n, cut = self._calibrated_point()
        self.choices["n"].at = self._sample.lengths.index(n)
        self._offer_cuts(cut)
        self._first_point = self._chosen_point
        self._rates = cache(self._rates_at)
        self._picture = cache(self._picture_of)
        self._update_lists()
        super().__init__("Threshold")

    @property
    def _chosen_point(self) -> _Point:
        return self.chosen("n"), self.chosen("cut")

    def _calibrated_point(self) -> _Point:
        """Return the point that `calibrate` chooses; if it cannot, the smallest n and no cut."""
        chooser = Chooser(self._sample, self._sample.nulls)
        at = chooser.chosen if chooser.chosen >= 0 else chooser.best(by_estimate=True)
        if at < 0:
            return self._sample.lengths[0], None
        chosen = self._sample.candidates.iloc[at]
        return int(chosen["n"]), None if chosen["rule"] == "any" else float(chosen["cut"])

    def _offer_cuts(self, nearest: float | None) -> None:
        """Offer the cuts that exist for the chosen n, and choose the one nearest to `nearest`."""
        candidates, n = self._sample.candidates, self.chosen("n")
        cuts = sorted(candidates.loc[candidates["n"].eq(n) & candidates["rule"].eq("share"), "cut"])
        control = self.choices["cut"]
        control.offer([None, *cuts])
        control.at = 0
        if nearest is not None and cuts:
            control.at = 1 + int(np.argmin(np.abs(np.array(cuts) - nearest)))

    def _control_changed(self, name: str) -> None:
        if name == "n":
            self._offer_cuts(self.chosen("cut"))
        self._update_lists()

    def _do_error(self, value: Any) -> None:
        self._open_text("errors", value)

    def _do_move(self, value: Any) -> None:
        self._open_text("moved", value)

    def _open_text(self, what: str, value: Any) -> None:
        at = ui.valid_position(value, len(getattr(self, what)))
        if at is not None:
            self._open_row = what, at

    def _flags_at(self, point: _Point) -> pd.Series:
        texts = self._texts_by_n[point[0]]
        flags = texts["any_shared"] if point[1] is None else texts["share"].ge(point[1])
        return flags.astype(bool).set_axis(texts["text"])

    def _update_lists(self) -> None:
        """Find the texts judged wrongly, and those that the first threshold flags differently."""
        self._open_row = None
        point = self._chosen_point
        texts, flagged = self._texts_by_n[point[0]], self._flags_at(point)
        now = flagged.to_numpy()
        copies = texts["class"].isin(self._settings.positive)
        clean = texts["class"].isin(self._settings.nulls)
        wrong = np.select([copies & ~now, clean & now], ["copy missed", "false flag"], "")
        self.errors = texts.assign(what=wrong)[wrong != ""].reset_index(drop=True)
        before = self._flags_at(self._first_point).reindex(flagged.index)
        moved = np.where(now, "now flagged", "no longer flagged")
        apart = before.notna().to_numpy() & before.ne(flagged).to_numpy()
        self.moved = texts.assign(what=moved)[apart].reset_index(drop=True)

    def _point_label(self, point: _Point) -> str:
        least = "" if point[1] is None else "at least "
        return f"n = {point[0]}, {least}{_cut_text(point[1])} shared"

    def _widget_state(self) -> Fields:
        point = self._point_label(self._chosen_point)
        status = f"{point}: {len(self.errors)} of these texts judged wrongly"
        return {"status": status}

    def _rates_at(self, n: int, cut: float | None) -> tuple[Table, dict[Any, float]]:
        candidates = self._sample.candidates
        rule = candidates["rule"].eq("any") if cut is None else candidates["cut"].eq(cut)
        at = int(np.flatnonzero(candidates["n"].eq(n) & rule)[0])
        rows = pd.DataFrame(performance(self._sample, self._settings, at))
        return table(rows[_RATES]), rows.set_index("measure")["estimate"].to_dict()

    def _picture_of(self, n: int, cut: float | None) -> Fields:
        """Draw the share of every text with the cut, and the ROC curve with the chosen point.

        There is no curve unless there are copies and clean passages.
        """
        texts, estimates = self._texts_by_n[n], self._rates(n, cut)[1]
        there = set(self._levels) & set(texts["class"])
        clean = [name for name in self._settings.nulls if name in there]
        copies = [name for name in self._settings.positive if name in there]
        with style.use():
            height = min(max(0.3 * texts["class"].nunique() + 1.0, 2.9), 4.0)
            fig, (left, right) = style.figure("page", ncols=2, height=height)
            plots.overlap(texts[["share", "class"]], y="class", limit=cut, ax=left)
            if clean and copies:
                rows = texts.drop(columns=["text", "class"])
                plots.roc(roc(rows, positive=copies, negative=clean), ax=right)
                point = [1 - estimates["specificity"]], [estimates["sensitivity"]]
                right.plot(*point, "o", markersize=9, markerfacecolor="none", color=style.INK)
            else:
                right.remove()
            return ui.picture(fig)

    def _render_view(self, *, live: bool) -> Markup:
        n, cut = self._chosen_point
        against = f"against {self._point_label(self._first_point)}"
        what, at = self._open_row or ("", None)
        return html.render(
            "explore-threshold",
            picture=self._picture(n, cut) if live else None,
            rates=self._rates(n, cut)[0],
            errors=self._text_table(self.errors, "Judged wrongly at this point"),
            error=at if what == "errors" else None,
            moved=self._text_table(self.moved, f"Change sides {against}"),
            move=at if what == "moved" else None,
            text=self._open_text_view() if live else None,
            live=live,
        )

    @staticmethod
    def _text_table(rows: pd.DataFrame, words: str) -> tuple[Table | None, str]:
        if rows.empty:
            return None, f"{words}: no text."
        cut = rows["longest_text"].str.slice(0, _LONG)
        first_rows = rows.assign(longest_text=cut)[["what", *_TEXTS]].head(_MOST)
        more = f", the first {_MOST} of them" if len(rows) > _MOST else ""
        return table(first_rows), f"{words}: {len(rows)}{more}"

    def _open_text_view(self) -> Fields | None:
        if self._open_row is None:
            return None
        what, at = self._open_row
        row, n = getattr(self, what).iloc[at], self._chosen_point[0]
        whole, prompt = html.text(self.texts.get(row["text"])), self._prompts.get(row["text"])
        if whole is None:
            return {"name": f"{row['text']}: no text is given", "pieces": [], "n": n}
        source = "\n\n".join(source_files(self._skills, row["skill"]).values())
        places = html.copied_spans(whole, source, prompt, n=n, tokenizer=self._tokenizer)
        name = f"{row['text']} ({row['class']})"
        return {"name": name, "pieces": html.pieces(whole, (), places), "n": n}
