"""Moving the threshold of copying by hand: what is found, what is flagged wrongly, which texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp import plots, style
from skillcomp.errors import FrameError
from skillcomp.explore import explorer as ui
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.overlap.calibrate import NEEDED, performance, settings_of
from skillcomp.overlap.candidates import make_sample
from skillcomp.overlap.score import as_names, need, once, roc, score
from skillcomp.records import Skill
from skillcomp.table import Table, table

_TEXTS = ["text", "class", "skill", "share", "longest_run", "longest_text"]
_RATES = ["measure", "unit", "estimate", "ci_low", "ci_high", "ci_level", "n_texts", "n_clusters"]
_FIRST = 6  # the length that the source report starts from
_LONG = 80  # characters of the longest run that the list shows
_MOST = 200  # texts in a list


def threshold(
    shared: pd.DataFrame,
    passages: pd.DataFrame,
    *,
    skills: Mapping[str, Skill | str],
    attempts: pd.DataFrame | None = None,
    cases: pd.DataFrame | None = None,
    cut: pd.DataFrame | None = None,
    positive: str | Sequence[str] = ("verbatim", "near_copy"),
    nulls: str | Sequence[str] = ("baseline", "fresh"),
) -> ThresholdExplorer:
    """Move the length n and the cut by hand and see what they find, flag wrongly and change.

    Parameters
    ----------
    shared, passages, skills, positive, nulls
        As for :func:`skillcomp.overlap.calibrate`: scored attempts, passages to score, and what
        counts as a copy and as clean.
    attempts : pandas.DataFrame, optional
        Gives the answers; without it only passages can be read.
    cases : pandas.DataFrame, optional
        Gives the prompts, which do not count as shared.
    cut : pandas.DataFrame, optional
        What :func:`skillcomp.overlap.calibrate` returned: its choice is where the sliders open.
        Otherwise they open on any shared n-gram of six tokens.

    Returns
    -------
    ThresholdExplorer
        A widget: a slider of n and one of the cut (the first place is any shared n-gram, the
        others the shares that calibration tries), every text with the cut, the point on the ROC
        curve of the passages, the rates with their intervals, the texts judged wrongly, and those
        that change sides against a point that was kept (key ``c``). In code:
        ``choose(n=4, cut=None)``, ``errors``, ``moved``.

    Raises
    ------
    FrameError
        As :func:`skillcomp.overlap.calibrate` does.

    Notes
    -----
    A threshold found by looking at these very texts is not calibrated: use
    :func:`skillcomp.overlap.calibrate` for what goes into a paper.
    """
    kept = need(shared, NEEDED, what="explore.threshold: shared")
    if kept.empty:
        raise FrameError("explore.threshold: shared has no rows; allowed: rows of overlap.score.")
    once(kept, what="explore.threshold: shared")
    lengths = sorted(kept["n"].astype("int64").unique().tolist())
    every = pd.concat([kept, score(passages, skills=skills, ngram=lengths)], ignore_index=True)
    given = check(passages, "passages")
    texts = dict(zip(given["passage_id"], given["text"], strict=True))
    asked: dict[Any, Any] = {}
    if "question" in given.columns:
        asked = dict(zip(given["passage_id"], given["question"], strict=True))
    if attempts is not None:
        known = check(attempts, "attempts")
        texts |= dict(zip(known["attempt_id"], known["answer"], strict=True))
        if cases is not None:
            prompts = known.merge(check(cases, "cases")[[*CASE, "prompt"]], on=CASE, how="left")
            asked |= dict(zip(prompts["attempt_id"], prompts["prompt"], strict=True))
    start: tuple[int, float | None] = (_FIRST if _FIRST in lengths else lengths[0], None)
    if cut is not None:
        chosen = need(cut, ["chosen", "n", "rule", "cut"], what="explore.threshold: cut")
        chosen = chosen[chosen["chosen"].fillna(False) & chosen["n"].notna()]
        if len(chosen):
            row: Any = chosen.iloc[0]
            start = int(row["n"]), None if row["rule"] == "any" else float(row["cut"])
    settings = settings_of(positive, nulls, 0.05, 0.95, 1, 0)
    return ThresholdExplorer(every, settings, skills, texts, asked, start)


class ThresholdExplorer(ui.Explorer):
    """The widget that :func:`threshold` returns.

    Attributes
    ----------
    choices : dict of str to Control
        ``n`` and ``cut`` (None is any shared n-gram).
    errors, moved : pandas.DataFrame
        The texts judged wrongly, and those that change sides against the point that was kept.
    """

    errors: pd.DataFrame
    moved: pd.DataFrame

    def __init__(
        self,
        every: pd.DataFrame,
        settings: Any,
        skills: Mapping[str, Skill | str],
        texts: Mapping[Any, Any],
        asked: Mapping[Any, Any],
        start: tuple[int, float | None],
    ) -> None:
        self._settings, self._skills = settings, skills
        self.texts, self._asked = texts, asked
        self._sample = make_sample(every, settings)
        known = every[every["any_shared"].notna()]
        passage = known["kind"].eq("passage")
        known = known.assign(
            text=known["passage_id"].where(passage, known["attempt_id"]),
            **{"class": known["level"].where(passage, known["condition"])},
            share=known["share"].fillna(0.0),
        )
        self._of_n = {
            n: part.reset_index(drop=True) for n, part in known.astype({"n": "int64"}).groupby("n")
        }
        self._level = list(dict.fromkeys(known.loc[passage, "level"]))
        lengths = [str(n) for n in self._sample.lengths]
        self.choices = {
            "n": ui.Control("n", list(self._sample.lengths), lengths, kind="slider", key="↓ ↑"),
            "cut": ui.Control("Cut", [], [], kind="slider", key="← →"),
        }
        self.choices["n"].at = self._sample.lengths.index(start[0])
        self._cuts(start[1])
        self._kept = self._point
        self._read: tuple[str, int] | None = None
        self._pictures = cache(self._drawn)
        self._rates = cache(self._rated)
        self._judge()
        super().__init__("Threshold")

    @property
    def _point(self) -> tuple[int, float | None]:
        return self.choices["n"].value, self.choices["cut"].value

    def _cuts(self, wanted: float | None) -> None:
        """Offer the cuts of the n that is chosen; the nearest to the one wanted is taken."""
        all_of = self._sample.candidates
        mine = all_of[all_of["n"].eq(self.choices["n"].value) & all_of["rule"].eq("share")]
        cuts = sorted(mine["cut"])
        one = self.choices["cut"]
        one.values = [None, *cuts]
        one.shown = ["any", *(f"{100 * cut:.1f} %" for cut in cuts)]
        one.at = 0
        if wanted is not None and cuts:
            one.at = 1 + int(np.argmin(np.abs(np.array(cuts) - wanted)))

    def _chosen(self, name: str) -> None:
        if name == "n":
            self._cuts(self.choices["cut"].value)
        self._judge()

    def _commands(self) -> dict[str, Any]:
        return {
            "keep": self._keep,
            "error": lambda value: self._open("error", value, self.errors),
            "move": lambda value: self._open("move", value, self.moved),
            "cut": lambda by: self._slide("cut", by),
            "n": lambda by: self._slide("n", by),
        }

    def _slide(self, name: str, by: Any) -> None:
        one = self.choices[name]
        one.at = ui.stepped(one.at, by, len(one.values))
        self._chosen(name)

    def _keep(self, _: Any) -> None:
        self._kept = self._point
        self._judge()

    def _open(self, what: str, value: Any, rows: pd.DataFrame) -> None:
        at = ui.place_of(value, len(rows))
        self._read = self._read if at is None else (what, at)

    def _flagged(self, point: tuple[int, float | None]) -> pd.Series:
        texts = self._of_n[point[0]]
        found = texts["any_shared"] if point[1] is None else texts["share"].ge(point[1])
        return found.astype(bool).set_axis(texts["text"])

    def _judge(self) -> None:
        """Find the texts judged wrongly, and those on another side than at the point kept."""
        self._read = None
        texts, flagged = self._of_n[self._point[0]], self._flagged(self._point)
        now = flagged.to_numpy()
        copies = texts["class"].isin(self._settings.positive)
        clean = texts["class"].isin(self._settings.nulls)
        wrong = np.select([copies & ~now, clean & now], ["copy missed", "false flag"], "")
        self.errors = texts.assign(what=wrong)[wrong != ""].reset_index(drop=True)
        before = self._flagged(self._kept).reindex(flagged.index)
        moved = np.where(now, "now flagged", "no longer flagged")
        apart = before.notna().to_numpy() & before.ne(flagged).to_numpy()
        self.moved = texts.assign(what=moved)[apart].reset_index(drop=True)

    # What is seen

    def _words(self, point: tuple[int, float | None]) -> str:
        how = "any shared" if point[1] is None else f"at least {100 * point[1]:.1f} % shared"
        return f"n = {point[0]}, {how}"

    def _state(self) -> dict[str, Any]:
        errors = f"{len(self.errors)} of these texts judged wrongly"
        keep = ui.button("keep", "Compare with this point", "keep", key="c")
        return {
            "controls": [*self._dropdowns(), keep],
            "shortcuts": {
                "ArrowRight": ("cut", 1),
                "ArrowLeft": ("cut", -1),
                "ArrowUp": ("n", 1),
                "ArrowDown": ("n", -1),
                "c": ("keep", None),
            },
            "status": f"{self._words(self._point)}: {errors}",
            "place": "",
        }

    def _rated(self, n: int, cut: float | None) -> tuple[Table, dict[str, float]]:
        all_of = self._sample.candidates
        here = all_of["n"].eq(n) & (all_of["rule"].eq("any") if cut is None else
                                    all_of["cut"].eq(cut))  # fmt: skip
        at = int(np.flatnonzero(here)[0])
        rows = pd.DataFrame(performance(self._sample, self._settings, at))
        shown = rows[~rows["measure"].str.endswith("_at_answer_length")]
        return table(shown[_RATES]), dict(zip(rows["measure"], rows["estimate"], strict=True))

    def _drawn(self, n: int) -> dict[str, ui.Picture]:
        texts = self._of_n[n]
        with style.use():
            height = min(0.3 * texts["class"].nunique() + 1.0, 4.0)
            ax = plots.overlap(
                texts[["share", "class"]], y="class", ax=style.figure("text", height=height)[1]
            )
            found = {"strip": ui.picture(ax)}
            clean = [name for name in self._settings.nulls if name in self._level]
            if clean:
                curve = roc(
                    texts.drop(columns=["text", "class"]),
                    positive=[p for p in as_names(self._settings.positive) if p in self._level],
                    negative=clean,
                )
                ax = plots.roc(curve, ax=style.figure("column", height=2.9)[1])
                found["curve"] = ui.picture(ax)
        return found

    def _view(self, *, live: bool) -> Markup:
        n, cut = self._point
        rates, told = self._rates(n, cut)
        strip = curve = None
        if live:
            drawn = self._pictures(n)
            share = self._of_n[n]["share"]
            least = share[share > 0].min() / 2 if cut is None and share.gt(0).any() else cut
            _, top, _, bottom = drawn["strip"].edges
            across = drawn["strip"].at(float(least or 0.0), 0)[0]
            line = [round(side, 3) for side in (across, top, bottom - top)]
            alt = "The share of shared n-grams of every text, by how it was made."
            strip = {"picture": drawn["strip"], "alt": alt, "line": line}
            if "curve" in drawn:
                where = 1 - told["specificity"], told["sensitivity"]
                ring = [round(side, 3) for side in drawn["curve"].at(*where)]
                alt = "ROC curve of the passages, with the point of these sliders."
                curve = {"picture": drawn["curve"], "alt": alt, "ring": ring}
        errors, head = self._list(self.errors, "Judged wrongly at this point")
        against = f"against {self._words(self._kept)}"
        moved, moved_head = self._list(self.moved, f"Change sides {against}")
        what, at = self._read or ("", None)
        return ui.render(
            "threshold",
            strip=strip,
            curve=curve,
            rates=rates,
            errors=errors,
            errors_head=head,
            error=at if what == "error" else None,
            moved=moved,
            moved_head=moved_head,
            move=at if what == "move" else None,
            text=self._whole() if live else None,
            live=live,
        )

    @staticmethod
    def _list(rows: pd.DataFrame, words: str) -> tuple[Table | None, str]:
        if rows.empty:
            return None, f"{words}: no text."
        cut = rows["longest_text"].str.slice(0, _LONG)
        shown = rows.assign(longest_text=cut)[["what", *_TEXTS]].head(_MOST)
        more = f", the first {_MOST} of them" if len(rows) > _MOST else ""
        return table(shown), f"{words}: {len(rows)}{more}"

    def _whole(self) -> dict[str, Any] | None:
        if self._read is None:
            return None
        row = (self.errors if self._read[0] == "error" else self.moved).iloc[self._read[1]]
        whole, prompt = ui.text(self.texts.get(row["text"])), self._asked.get(row["text"])
        if whole is None:
            return {"name": f"{row['text']}: no text is given", "pieces": [], "n": self._point[0]}
        places = ui.shared(whole, self._skills[row["skill"]], prompt, n=self._point[0])
        name = f"{row['text']} ({row['class']})"
        return {"name": name, "pieces": ui.pieces(whole, (), places), "n": self._point[0]}
