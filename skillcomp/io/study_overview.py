"""A study in a few lines: its skills, cases, answers, verdicts and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from skillcomp.errors import plural, shortened

if TYPE_CHECKING:
    import pandas as pd

_UNANSWERED = ("error", "paused")
_SHOWN = 6  # Maximum number of names or lines that are shown.
_MOST_TEXTS = 8  # Maximum number of changes shown for one column, field, file or argument.


def overview_facts(
    skills: Sequence[str],
    n_cases: int,
    attempts: pd.DataFrame,
    verdicts: pd.DataFrame,
    n_gold: int,
) -> dict[str, str]:
    """Count the skills, cases, answers, verdicts and labels of a study.

    ``attempts`` needs the columns condition, agent and status; ``verdicts`` needs grader, passed
    and score.
    """
    missing = attempts["status"].isin(_UNANSWERED)
    lacking = verdicts["passed"].isna() & verdicts["score"].isna()
    parts = [
        plural(int(missing.sum()), "answer") if missing.any() else "",
        plural(int(lacking.sum()), "verdict") if lacking.any() else "",
    ]
    agents = attempts["agent"].dropna().unique()
    return {
        "Skills": f"{len(skills)} ({shortened(skills, _SHOWN)})" if skills else "0",
        "Cases": f"{n_cases:,}",
        "Answers": _counts_by(attempts["condition"][~missing]),
        "Agents": shortened(agents, _SHOWN) if len(agents) else "unknown",
        "Verdicts": _counts_by(verdicts["grader"]),
        "Gold labels": f"{n_gold:,}",
        "Missing": " and ".join(filter(None, parts)) or "nothing",
    }


def _counts_by(values: pd.Series) -> str:
    """Return the number of values and, in parentheses, how often each value occurs."""
    counts = values.value_counts(sort=False)
    if not len(counts):
        return "0"
    listed = shortened((f"{n:,} {name}" for name, n in counts.items()), _SHOWN)
    return f"{len(values):,} ({listed})"


def _change_text(change: Mapping[Any, Any]) -> str:
    """Describe one change, with its number of rows unless the change concerns the whole study."""
    value, done, n = change["found"], change["done"], change["n"]
    words = f" {done.removeprefix('read ')}" if done.startswith("read as ") else f"; {done}"
    return f"{value}{words}" + (f" ({plural(n, 'row')})" if n else "")


def change_lines(changes: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Return one sentence for each place (column, field, file or argument), with its changes.

    Each change is a mapping with the keys ``place``, ``found``, ``done`` and ``n``. Changes of the
    whole study (``n`` is 0) come first.
    """
    lines = []
    in_order = sorted(changes, key=lambda change: bool(change["n"]))
    for place, group in groupby(in_order, key=itemgetter("place")):
        lines.append(f"{place}: {shortened(map(_change_text, group), _MOST_TEXTS)}.")
    return lines


def overview_html(
    title: str,
    facts: Mapping[str, str],
    *,
    columns: Mapping[str, str],
    changes: Sequence[Mapping[Any, Any]],
) -> str:
    """Return the facts, the columns of a table and its changed values as escaped HTML.

    For each changed value, ``changes`` has a mapping with the keys ``place``, ``found``, ``done``
    and ``n``.
    """
    pairs = [f"{argument} = {name}" for argument, name in columns.items()]
    read = {"Columns": ", ".join(pairs)} if pairs else {}
    rows = Markup("").join(
        Markup("<tr><th scope='row' style='text-align:left'>{}</th>"
               "<td style='text-align:left'>{}</td></tr>").format(name, text)
        for name, text in {**facts, **read}.items()
    )  # fmt: skip
    texts = change_lines(changes)
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    lines = Markup("").join(Markup("<li>{}</li>").format(t) for t in [*texts[:_SHOWN], *more])
    notes = Markup("<p>How values were read:</p><ul>{}</ul>").format(lines) if changes else ""
    return str(Markup("<b>{}</b><table><tbody>{}</tbody></table>{}").format(title, rows, notes))
