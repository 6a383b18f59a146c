"""The first screen of a study without a skill: a headline, a table, a figure and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from skillcomp import plots, style
from skillcomp.table import Table

# title of the sentences on each topic, in the order of the screen
TITLES = {
    "trust": "Can it be trusted?",
    "bias": "Is it biased?",
    "wins": "Which system wins?",
    "drift": "Has it drifted?",
    "differences": "How do the graders differ?",
    "correction": "What does the correction change?",
    "gold": "How many gold labels are missing?",
    "choice": "What is chosen?",
    "copies": "Which texts are flagged?",
    "limits": "What this study cannot say",
}


@dataclass(frozen=True)
class StudyScreen:
    """The content of the first screen of one kind of study.

    Attributes
    ----------
    kind : str
        The kind, such as ``"grader study"``.
    headline : str
        One sentence with the main numbers.
    table : skillcomp.table.Table
        The same numbers for every grader, or for every kind of text.
    sentences : list of tuple of str
        Topic (a key of ``TITLES``) and sentence.
    drawn : pandas.DataFrame
        The rows of the figure.
    caption : str
        What the figure shows.
    draw_rows : callable
        Draws the rows and returns the axes.
    """

    kind: str
    headline: str
    table: Table
    sentences: Sequence[tuple[str, str]]
    drawn: pd.DataFrame
    caption: str
    draw_rows: Callable[[pd.DataFrame], Any]

    @property
    def stem(self) -> str:
        """The file stem of the figure."""
        return f"00-answer-{self.kind.partition(' ')[0]}"

    @property
    def findings(self) -> pd.DataFrame:
        """The sentences, in the columns of :func:`skillcomp.report.findings`."""
        order = list(TITLES)
        parts = sorted(self.sentences, key=lambda part: order.index(part[0]))
        rows = [("summary", self.headline), *dict.fromkeys(parts)]
        columns = {"about": None, "verdict": None, "why": None}
        frame = pd.DataFrame(rows, columns=["topic", "sentence"]).assign(**columns)
        return frame[["topic", "about", "verdict", "sentence", "why"]].astype("str")

    @property
    def boxes(self) -> list[tuple[str, list[str]]]:
        """The title and the sentences of each topic except the limits."""
        frame = self.findings
        frame = frame[~frame["topic"].isin(["summary", "limits"])]
        topics = dict.fromkeys(frame["topic"])
        return [(TITLES[t], list(frame.loc[frame["topic"].eq(t), "sentence"])) for t in topics]

    @property
    def _sections(self) -> list[tuple[str, list[str]]]:
        return [*self.boxes, (TITLES["limits"], self.limits)]

    def draw(self) -> Any:
        """Draw the figure of the screen."""
        with style.use():
            return self.draw_rows(self.drawn).figure

    def lines(self) -> list[str]:
        """Return the screen as lines of text."""
        cells = self.table.cells
        rows = ["", *cells.to_string(index=False).split("\n")] if len(cells) else []
        lines = [self.headline, *rows]
        for title, sentences in self._sections:
            if sentences:
                lines += ["", title, *(f"- {sentence}" for sentence in sentences)]
        return lines

    @property
    def limits(self) -> list[str]:
        """The sentences on what the study cannot show."""
        return [text for topic, text in self.sentences if topic == "limits"]

    def html(self) -> str:
        """Return the screen as escaped HTML, without its figure."""
        parts = [Markup("<p><b>{}</b></p>").format(self.headline), Markup(self.table.html())]
        for title, sentences in self._sections:
            items = Markup("").join(Markup("<li>{}</li>").format(text) for text in sentences)
            parts.append(Markup("<p>{}</p><ul>{}</ul>").format(title, items))
        return str(Markup("").join(parts))


def topic_sentences(
    texts: Mapping[str, Iterable[str]], missing: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return topic and text of each sentence; each missing estimate has one with its reason."""
    sentences = [(topic, text) for topic, own in texts.items() for text in own]
    return sentences + [("limits", f"{n.capitalize()}: {why}") for n, why in missing.items()]


def draw_shares(rows: pd.DataFrame, label: str) -> Any:
    """Draw shares by grader and measure."""
    return plots.estimates(rows, y="grader", hue="measure", label=label)


def cell_table(rows: Sequence[dict[str, str]]) -> Table:
    """Return a table of formatted cells; all columns but the first are aligned as numbers."""
    cells = pd.DataFrame(rows, dtype="str")
    numeric = (False, *[True] * (len(cells.columns) - 1))
    return Table(cells, about="", notes=(), numeric=numeric, frame=cells)


def with_sentence(findings: pd.DataFrame, topic: str, sentence: str) -> pd.DataFrame:
    """Add a sentence after the last one on its topic, or at the end."""
    row = pd.DataFrame([{"topic": topic, "sentence": sentence}]).reindex(columns=findings.columns)
    own = findings.index[findings["topic"].eq(topic)]
    at = own[-1] + 1 if len(own) else len(findings)
    parts = [findings.iloc[:at], row.astype("str"), findings.iloc[at:]]
    return pd.concat(parts, ignore_index=True)
