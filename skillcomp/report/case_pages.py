"""Write pages of the cases behind a result: prompt, answers side by side, checks and graders."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from markupsafe import Markup

from skillcomp import frames, skillverdicts
from skillcomp.errors import SkillcompError, require_known
from skillcomp.frames import Frames
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import ordered
from skillcomp.io.files import replace_file
from skillcomp.report.case_answers import Answers, Row
from skillcomp.report.default_grader import default_grader, default_reference
from skillcomp.report.escaped_text import Piece, absent, render, template_text
from skillcomp.report.phrases import bare, listing, signed
from skillcomp.report.study_data import Study, StudyOrPath, opened, study_data
from skillcomp.report.verdict_sentences import main_rows

_PAGE_SIZE = 800_000  # A file has at most this number of characters, unless one case needs more.
_ROW_SIZE = 700  # A row in the list of cases has about this number of characters.
_SHOWN = 1_500  # This number of characters of an answer is shown; the rest is folded.
_PROMPT_START = 160
_FACTS = ("comprehension_dimension", "transfer", "dimension", "criticality", "bloom")
_GENERATOR = b'<meta name="generator" content="skillcomp case pages">'
_STATES = {True: "p", False: "f"}
Key = tuple[str, str]
CaseValue = Literal["passed", "score"]


def write_case_pages(
    study: StudyOrPath,
    out: str | PathLike[str],
    *,
    grader: str | None = None,
    reference: str | None = None,
    round: int = 1,
    checks: Checks = "all",
    value: CaseValue = "passed",
    report: str | None = None,
) -> pd.DataFrame:
    """Write the cases of each skill as static pages, the largest loss first.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table, even without answers and prompts.
    out : str or path
        Folder of the pages; it is created if missing. Case pages of an earlier call are removed.
    grader, reference, round, checks : optional
        As for :func:`skillcomp.report.answer`. The grader comes first, and cases are sorted by
        its verdicts.
    value : {"passed", "score"}, default "passed"
        What is counted for each case: passes, or the mean score.
    report : str, optional
        Address of a page that the pages link back to, relative to `out`.

    Returns
    -------
    pandas.DataFrame
        One row per skill: ``skill``, ``n_cases``, and ``page``, the name of its first file in
        `out`. Further files of the skill are linked from it. There are no rows, and no files, if
        the study has neither answers nor verdicts.

    See Also
    --------
    skillcomp.report.build : Writes these pages next to the answer of a study.
    skillcomp.explore.verdicts : Read and label the same answers in JupyterLab.

    Notes
    -----
    Every text is escaped. The pages allow only their own script, which filters cases.
    A text longer than 100,000 characters is cut, with a remark.
    """
    require_known("value: found", value, get_args(CaseValue))
    data = _read_study(opened(study), grader, reference, round, checks, value)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for old in filter(Path.is_file, folder.glob("*.html")):
        with old.open("rb") as file:
            if _GENERATOR in file.read(400):
                old.unlink()
    keys_of: dict[str, list[Key]] = {}
    for key in data.keys:
        keys_of.setdefault(key[0], []).append(key)
    stems = dict(zip(keys_of, _file_stems(keys_of), strict=True))
    shared = {"report": report, "pages_of": {name: f"{stems[name]}.html" for name in keys_of}}
    rows = []
    for skill, keys in keys_of.items():
        for name, html in _pages_of_skill(data, keys, stems[skill], shared):
            replace_file(folder / name, html.encode())
        rows.append({"skill": skill, "n_cases": len(keys), "page": f"{stems[skill]}.html"})
    columns = {"skill": "str", "n_cases": "int64", "page": "str"}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


@dataclass(frozen=True)
class _CaseData:
    """The content of the pages by skill and case, with the worst case first."""

    answers: Answers
    keys: list[Key]
    facts: Mapping[Key, list[str]]
    lines: Mapping[Key, list[Row]]  # Per agent: passes or scores by condition, and the change.
    # Filter codes, such as 0.1.n for condition 0, grader 1 and the state n (unknown).
    hits: Mapping[Key, list[str]]
    graders: list[str]
    conditions: list[str]
    order: str
    problem: str
    absent_texts: list[str]
    value: CaseValue


def _read_study(
    study: Study,
    grader: str | None,
    reference: str | None,
    round: int,
    checks: Checks,
    value: CaseValue,
) -> _CaseData:
    data = study_data(study, round)
    cases, attempts, gold = data.cases, data.attempts, data.gold
    described = None if isinstance(study, Frames) else frames.checks(study)
    verdicts = data.every if data.verdicts.empty else data.verdicts
    graders = ordered(verdicts["grader"].dropna())
    first = default_grader(verdicts, grader, gold=gold) if graders else ""
    graders = list(dict.fromkeys([first, *graders])) if graders else []
    conditions = ordered(pd.concat([attempts["condition"], verdicts["condition"]]))
    answers = Answers(attempts, verdicts, gold, cases, described, None, 6)
    compared = _changes(verdicts, cases, attempts, first, reference, checks, value)
    rates, deltas, unknown, problem = compared
    mine = deltas[deltas["grader"].eq(first)]
    main = main_rows(mine) if len(mine) else mine
    keys = _worst_first([cases, attempts, verdicts], main, rates)
    lines = _lines_by_case(rates, main, conditions, value)
    changed = deltas[deltas["delta"].fillna(0).ne(0)].assign(state="c")
    state = verdicts["passed"].map(_STATES)
    states = verdicts.assign(state=state.where(verdicts["score"].notna(), state.fillna("n")))
    hits = _hits_by_case([states, unknown, changed], conditions, graders)
    facts = {
        (row["skill"], row["case_id"]): [str(row[n]) for n in _FACTS if not absent(row[n])]
        for row in cases[[*CASE, *_FACTS]].to_dict("records")
    }
    lacking = {"prompts": cases["prompt"], "answers": attempts["answer"]}
    absent_texts = [name for name, texts in lacking.items() if texts.isna().all()]
    order = "in the order of the study"
    if len(main):
        others = listing(main["condition"].unique())
        order = f"the largest loss of {others} against {main['reference'].iloc[0]} first"
    elif len(rates):
        order = f"those with the {'most failures' if value == 'passed' else 'lowest scores'} first"
    if verdicts.empty and "answers" in absent_texts:
        keys = []  # there are only prompts, as in a study that records only which skills fired
    return _CaseData(
        answers, keys, facts, lines, hits, graders, conditions, order, problem, absent_texts, value
    )


def _changes(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame,
    attempts: pd.DataFrame,
    grader: str,
    reference: str | None,
    checks: Checks,
    value: CaseValue,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, str]:
    """Return rates, deltas and unknown outcomes of cases, and a message if there are no deltas."""
    keys = [*CASE, "agent", "condition"]
    rates = pd.DataFrame(columns=[*keys, "n", "rate"])
    deltas = pd.DataFrame(columns=["grader", *keys, "reference", "delta"])
    unknown = pd.DataFrame(columns=[*CASE, "condition", "grader", "state"])
    if verdicts.empty:
        return rates, deltas, unknown, "There are no verdicts yet."
    try:
        outcomes = frames.outcomes(verdicts, cases, attempts=attempts, checks=checks)
        outcomes = outcomes.fillna({"agent": "unnamed agent"})
        unknown = outcomes[outcomes[value].isna() & outcomes["grader"].notna()].assign(state="n")
        mine = outcomes[outcomes["grader"].eq(grader)]
        numbers = outcomes.assign(number=outcomes[value].astype("float64"))
        cells = numbers.groupby(["grader", *keys])["number"].agg(n="count", rate="mean")
        rates = cells.loc[[grader]].reset_index()
        answered = mine if value == "passed" else mine[mine["score"].notna()][["condition"]]
        reference = default_reference(answered, reference)
        if value == "score":
            wide = cells["rate"].unstack("condition")
            changes = wide.drop(columns=reference).sub(wide[reference], axis=0)
            deltas = changes.stack().rename("delta").reset_index()
        else:
            deltas = skillverdicts.cases(outcomes, by=["grader", "agent"], reference=reference)
    except SkillcompError as error:
        return rates, deltas, unknown, f"Conditions are not compared: {error}"
    return rates, deltas.assign(reference=reference), unknown, ""


def _hits_by_case(
    tables: Sequence[pd.DataFrame], conditions: list[str], graders: list[str]
) -> dict[Key, list[str]]:
    """Return the filter codes of each case; `_CaseData` has an example of a code."""
    names = [*CASE, "condition", "grader", "state"]
    rows = pd.concat([table[names].dropna().astype("str") for table in tables]).drop_duplicates()
    places = rows["condition"].map(conditions.index), rows["grader"].map(graders.index)
    codes = [".".join(map(str, code)) for code in zip(*places, rows["state"], strict=True)]
    hits: Any = rows.assign(codes=codes).groupby(CASE)["codes"].agg(list)
    return dict(hits)


def _worst_first(
    tables: Sequence[pd.DataFrame], main: pd.DataFrame, rates: pd.DataFrame
) -> list[Key]:
    """Return the cases: the largest loss first, then those with the most failures."""
    keys = pd.concat([table[CASE].astype("str") for table in tables]).drop_duplicates()
    of_main = rates[rates["condition"].isin(main["condition"])] if len(main) else rates
    values = {
        "delta": main.groupby(CASE)["delta"].min(),
        "rate": of_main.groupby(CASE)["rate"].mean(),
    }
    order = pd.DataFrame(values, dtype="float64").reindex(pd.MultiIndex.from_frame(keys))
    return list(order.sort_values(["delta", "rate"], kind="stable").index)


def _lines_by_case(
    rates: pd.DataFrame, main: pd.DataFrame, conditions: list[str], value: CaseValue
) -> dict[Key, list[Row]]:
    """Return for each case a line per agent: passes or scores by condition, and the change."""
    keys = [*CASE, "agent"]
    several = rates["agent"].nunique() > 1
    counts = zip(rates["n"], rates["rate"], strict=True)
    unit = "points" if value == "passed" else "score"
    texts = [
        "NA" if not n else f"{n * rate:.0f} of {n}" if value == "passed" else f"{rate:.3g}"
        for n, rate in counts
    ]
    wide = rates.assign(passes=texts).pivot(index=keys, columns="condition", values="passes")
    deltas = main.dropna(subset="delta").drop_duplicates(keys).set_index(keys)["delta"]
    by_case: dict[Key, list[Row]] = {}
    rows: Any = wide.reindex(columns=conditions).fillna("–").iterrows()
    for (skill, case, agent), passes in rows:
        line: Row = {"agent": agent if several else None, "passes": list(passes)}
        delta = deltas.get((skill, case, agent), None)
        change = "" if delta is None else bare(signed(delta, unit=unit))
        look = {-1: "fail", 1: "pass"}.get(np.sign(delta or 0), "none") if change else ""
        by_case.setdefault((skill, case), []).append(line | {"change": change, "look": look})
    return by_case


def _file_stems(skills: Iterable[str]) -> list[str]:
    """Return a lowercase file stem for each skill; stems differ and are valid on every system."""
    stems: list[str] = []
    for skill in skills:
        stem = re.sub(r"[^a-z0-9_-]+", "-", skill.lower())[:60].strip("-") or "skill"
        number = sum(re.fullmatch(rf"{stem}(_\d+)?", other) is not None for other in stems)
        stems.append(f"{stem}_{number + 1}" if number else stem)
    return stems


def _pages_of_skill(
    data: _CaseData, keys: Sequence[Key], stem: str, shared: Mapping[str, Any]
) -> Iterator[tuple[str, Markup]]:
    """Yield name and HTML of each page of a skill."""
    pages: list[list[Markup]] = [[]]
    rows, size = [], _ROW_SIZE * len(keys)
    for number, key in enumerate(keys, 1):
        row = {
            "number": number,
            "case": key[1],
            "facts": data.facts.get(key, []),
            "hits": " ".join(data.hits.get(key, [])),
            "lines": data.lines.get(key, []),
        }
        article = _case_article(data, key, row)
        if size + len(article) > _PAGE_SIZE and pages[-1]:
            pages.append([])
            size = 0
        pages[-1].append(article)
        size += len(article)
        prompt = " ".join((data.answers.prompt(*key) or "")[: 2 * _PROMPT_START].split())
        rows.append(row | {"page": len(pages), "prompt": prompt[:_PROMPT_START]})
    names = [f"{stem}.html", *(f"{stem}.{number}.html" for number in range(2, len(pages) + 1))]
    script = template_text("cases.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    for number, articles in enumerate(pages, 1):
        html = render(
            "cases",
            rows=rows if number == 1 else [],
            articles=articles,
            number=number,
            skill=keys[0][0],
            n_cases=len(keys),
            names=names,
            data=data,
            script=Markup(script),
            style=Markup(template_text("explore.css")),
            digest=digest,
            **shared,
        )
        yield names[number - 1], html


def _case_article(data: _CaseData, key: Key, row: Mapping[str, Any]) -> Markup:
    """Render a case: its prompt, the verdict of each grader on each check, and the answers."""
    panels = data.answers.panels(*key)
    used = {grader for panel in panels for grader, _ in panel["verdicts"]}
    graders = [name for name in data.graders if name in used]
    answers: dict[str, list[Any]] = {}
    for panel in panels:
        panel["pieces"], panel["rest"] = _cut_pieces(panel["pieces"])
        answers.setdefault(panel["condition"], []).append(panel)
    return render(
        "cases-article",
        **row,
        data=data,
        prompt=data.answers.prompt(*key),
        graders=graders,
        checks=data.answers.checks_of(*key, panels),
        panels=panels,
        answers=answers,
    )


def _cut_pieces(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Divide a long answer into its start and the rest."""
    start, rest, left = [], [], _SHOWN
    if sum(len(text) for text, *_ in pieces) <= _SHOWN * 1.2:
        return list(pieces), []
    for text, quote, copy in pieces:
        start.append((text[:left], quote, copy))
        rest.append((text[left:], quote, copy))
        left = max(0, left - len(text))
    return [piece for piece in start if piece[0]], [piece for piece in rest if piece[0]]
