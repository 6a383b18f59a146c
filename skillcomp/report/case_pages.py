"""Write pages of the cases behind a result: prompt, answers side by side, checks and graders."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from skillcomp import frames, reliability, skillverdicts
from skillcomp.errors import FrameError, SkillcompError, require_known, require_whole
from skillcomp.frames import Frames
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import ordered
from skillcomp.frames.outcomes import Checks
from skillcomp.grading_rules import normalise_quote
from skillcomp.io.files import replace_file
from skillcomp.io.redaction import with_fixed_secrets
from skillcomp.io.store import RECORDED, replayed_agents
from skillcomp.records import Skill
from skillcomp.report.escaped_text import (
    Piece,
    absent,
    copied_spans,
    pieces,
    quote_spans,
    render,
    template_text,
    text,
)
from skillcomp.report.phrases import bare, listing, main_rows, signed
from skillcomp.report.study_data import (
    Study,
    StudyOrPath,
    opened,
    study_data,
)
from skillcomp.style import CONDITION_LOOKS

_PAGE_SIZE = 800_000  # A file has at most this number of characters, unless one case needs more.
_ROW_SIZE = 700  # A row in the list of cases has about this number of characters.
_SHOWN = 1_500  # This number of characters of an answer is shown; the rest is folded.
_PROMPT_START = 160
_FACTS = ("comprehension_dimension", "transfer", "dimension", "criticality", "bloom")
_GENERATOR = b'<meta name="generator" content="skillcomp case pages">'
_STATES = {True: "p", False: "f"}
_OF_ANSWER = ("agent", "perturbation", "answer", "loaded_skill")
_OF_ATTEMPT = ("attempt_id", *CASE, "condition", "repeat", *_OF_ANSWER)
_OF_VERDICT = ("attempt_id", *CASE, "condition", "repeat", "check_id", "grader", "status")
_OF_VERDICT += ("passed", "score", "borderline", "evidence_quote", "rationale")
_OF_LABEL = ("attempt_id", "check_id", "labeller", "passed", "borderline", "note")
Item = tuple[Any, ...]
Row = dict[str, Any]
Key = tuple[str, str]
CaseValue = Literal["passed", "score"]


@with_fixed_secrets()
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
    Every text is escaped. The pages allow only their own script, which filters cases and keeps the
    reader's notes in the browser; a button saves the notes as csv. Nothing is sent anywhere.
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
    first = reliability.default_grader(verdicts, gold, grader=grader) if graders else ""
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
    if not isinstance(study, Frames) and replayed_agents(study):
        order += f"; {RECORDED}"
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
        reference = frames.default_reference(answered, reference)
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
    deltas = main.dropna(subset="delta").drop_duplicates(keys).set_index(keys)["delta"].to_dict()
    by_case: dict[Key, list[Row]] = {}
    rows: Any = wide.reindex(columns=conditions).fillna("–").itertuples()
    for (skill, case, agent), *passes in rows:
        delta = deltas.get((skill, case, agent))
        change = "" if delta is None else bare(signed(delta, unit=unit))
        line = {"agent": agent if several else None, "passes": passes, "change": change}
        by_case.setdefault((skill, case), []).append(line)
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
    columns: dict[str, list[Any]] = {}
    for panel in panels:
        panel["pieces"], panel["rest"] = _cut_pieces(panel["pieces"])
        columns.setdefault(panel["column"], []).append(panel)
    return render(
        "cases-article",
        **row,
        data=data,
        prompt=data.answers.prompt(*key),
        graders=graders,
        checks=data.answers.checks_of(*key, panels),
        panels=panels,
        columns=columns,
    )


def _cut_pieces(parts: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Divide a long answer into its start and the rest."""
    start, rest, left = [], [], _SHOWN
    if sum(len(words) for words, *_ in parts) <= _SHOWN * 1.2:
        return list(parts), []
    for words, quote, copy in parts:
        start.append((words[:left], quote, copy))
        rest.append((words[left:], quote, copy))
        left = max(0, left - len(words))
    return [piece for piece in start if piece[0]], [piece for piece in rest if piece[0]]


class Answers:
    """Looks up and renders the answers to a case, with their verdicts and labels.

    Parameters
    ----------
    attempts, verdicts : pandas.DataFrame
        The answers and the verdicts on them.
    gold, cases, checks : pandas.DataFrame, optional
        The gold labels, the prompts of the cases, and the descriptions of the checks.
    skills : mapping of str to Skill or str, optional
        The texts of the skills. Sequences of words that an answer shares with its skill are marked.
    ngram : int
        Smallest length of a marked sequence, in content words.
    """

    def __init__(
        self,
        attempts: pd.DataFrame,
        verdicts: pd.DataFrame,
        gold: pd.DataFrame | None,
        cases: pd.DataFrame | None,
        checks: pd.DataFrame | None,
        skills: Mapping[str, Skill | str] | None,
        ngram: int,
    ) -> None:
        attempts, verdicts = check(attempts, "attempts"), check(verdicts, "verdicts")
        verdicts = verdicts.assign(grader=grader_names(verdicts))
        gold = empty("gold") if gold is None else check(gold, "gold")
        self._attempts = _Rows(attempts, CASE, _OF_ATTEMPT)
        self._verdicts = _Rows(verdicts, CASE, _OF_VERDICT)
        self._labels = _Rows(gold, ["attempt_id", "check_id"], _OF_LABEL)
        self.graders = list(dict.fromkeys(verdicts["grader"]))
        cases = empty("cases") if cases is None else check(cases, "cases")
        self._prompts = cases.set_index(CASE)["prompt"].to_dict()
        checks = empty("checks") if checks is None else check(checks, "checks")
        checks = checks.set_index([*CASE, "check_id"])
        self._descriptions = checks["description"].to_dict()
        self._kinds = checks["check_kind"].to_dict()
        self._skills, self._ngram = dict(skills or {}), require_whole("ngram", ngram, FrameError)
        self._cached_spans = cache(self._copied_spans)

    def repeats(self, skill: str, case: str) -> list[int]:
        """Return those repeats of a case that have an answer or a verdict."""
        rows = [*self._attempts.at((skill, case)), *self._verdicts.at((skill, case))]
        return sorted({_repeat_of(row) for row in rows})

    def prompt(self, skill: str, case: str) -> str | None:
        """Return the prompt of a case as text to show."""
        return text(self._prompts.get((skill, case)))

    def page(
        self,
        skill: str,
        case: str,
        repeat: int,
        checks: Sequence[str] | None = None,
        *,
        lit: Collection[Item] = (),
    ) -> Markup:
        """Render a case as HTML, with all answers of one repeat side by side.

        Parameters
        ----------
        skill, case, repeat
            The case and the repeat; 0 if the frames have no repeats.
        checks : sequence of str, optional
            Show only verdicts on these checks; by default all.
        lit : collection of (str, str, str)
            Attempt, check and grader of each verdict to highlight.
        """
        panels = self.panels(skill, case, repeat, checks, lit=lit)
        used = {grader for panel in panels for grader, _ in panel["verdicts"]}
        columns = [name for name in self.graders if name in used]
        return render(
            "explore-case",
            skill=skill,
            case=case,
            repeat=repeat,
            prompt=self.prompt(skill, case),
            graders=columns,
            with_gold=bool(self._labels),
            checks=self.checks_of(skill, case, panels, checks),
            answers=panels,
            n=self._ngram,
        )

    def checks_of(
        self, skill: str, case: str, panels: Sequence[Row], checks: Sequence[str] | None = None
    ) -> list[Row]:
        """Return id, text and kind of each check with a verdict, or of the given checks.

        ``gold`` has the gold labels on the check by the id of the panel.
        """
        present = (name for panel in panels for _, name in panel["verdicts"])
        about = []
        for name in dict.fromkeys(present) if checks is None else checks:
            key = skill, case, name
            words, kind = (text(of.get(key)) for of in (self._descriptions, self._kinds))
            gold = {panel["id"]: self._gold_cells(panel["id"], name) for panel in panels}
            about.append({"id": name, "text": words or name, "kind": kind, "gold": gold})
        return about

    def panels(
        self,
        skill: str,
        case: str,
        repeat: int | None = None,
        checks: Sequence[str] | None = None,
        *,
        lit: Collection[Item] = (),
    ) -> list[Row]:
        """Return one panel (a dictionary) for each answer to a case; by default, of all repeats.

        The baseline comes first. Each panel has id, condition, column (condition and agent), name
        (with the repeat), the pieces of the text, the notes of the verdicts (quote, rationale), and
        ``verdicts`` by grader and check.
        """
        attempts, verdicts = self._attempts.at((skill, case)), self._verdicts.at((skill, case))
        ids = {attempt["attempt_id"] for attempt in attempts}
        for row in verdicts:
            if row["attempt_id"] not in ids:  # the attempts frame lacks this attempt
                ids.add(row["attempt_id"])
                attempts.append(row | dict.fromkeys(_OF_ANSWER))
        attempts = [a for a in attempts if repeat is None or _repeat_of(a) == repeat]
        verdicts_of: dict[str, list[Row]] = {attempt["attempt_id"]: [] for attempt in attempts}
        for row in verdicts:
            mine = checks is None or row["check_id"] in checks
            if mine and row["attempt_id"] in verdicts_of:
                verdicts_of[row["attempt_id"]].append(row)
        used = {row["check_id"] for rows in verdicts_of.values() for row in rows}
        several = len(used if checks is None else checks) > 1
        return [
            self._answer_panel(attempt, verdicts_of[attempt["attempt_id"]], several, lit) | names
            for attempt, names in _named_attempts(attempts)
        ]

    def _answer_panel(
        self, attempt: Row, verdicts: Sequence[Row], several: bool, lit: Collection[Item]
    ) -> Row:
        answer, notes, quotes = text(attempt["answer"]), [], []
        normalised = normalise_quote(answer or "")
        cells: dict[Item, list[Row]] = {}
        for row in verdicts:
            word = _verdict_word(row["passed"], row["status"], row["score"])
            is_lit = (row["attempt_id"], row["check_id"], row["grader"]) in lit
            about = "borderline" if _is_true(row["borderline"]) else ""
            cell = word | {"about": about, "lit": is_lit}
            cells.setdefault((row["grader"], row["check_id"]), []).append(cell)
            quote, why = text(row["evidence_quote"]), text(row["rationale"])
            if quote and answer:
                quotes.append(quote)
            if quote is None and why is None:
                continue
            lost = bool(quote and answer and normalise_quote(quote) not in normalised)
            note = {
                "who": row["grader"],
                "check": row["check_id"] if several else None,
                "quote": quote,
                "why": why,
                "lost": lost,
                "open": is_lit and not several,
            }
            notes.append(note | word)
        parts = []
        if answer is not None:
            copies = self._cached_spans(answer, attempt["skill"], attempt["case_id"])
            parts = pieces(answer, quote_spans(answer, quotes), copies)
        return {
            "id": attempt["attempt_id"],
            "condition": str(attempt["condition"]),
            "pieces": parts,
            "notes": notes,
            "verdicts": cells,
        }

    def _gold_cells(self, attempt: str, name: str) -> list[Row]:
        """Return the gold labels of an attempt on a check in words, with their labellers."""
        cells = []
        for row in self._labels.at((attempt, name)):
            more = "borderline" if _is_true(row["borderline"]) else None
            who = [text(row["labeller"]) or "no name", more, text(row["note"])]
            about = {"about": ", ".join(filter(None, who)), "lit": False}
            cells.append(_verdict_word(row["passed"], "none") | about)
        return cells

    def _copied_spans(self, answer: str, skill: str, case: str) -> list[tuple[int, int]]:
        if skill not in self._skills:
            return []
        prompt = self._prompts.get((skill, case))
        return copied_spans(answer, self._skills[skill], prompt, n=self._ngram)


class _Rows:
    """Looks up rows of a frame by key, as dictionaries of some of the columns."""

    def __init__(self, frame: pd.DataFrame, keys: Sequence[str], columns: Sequence[str]) -> None:
        self._columns = {name: frame[name].to_numpy(object) for name in columns}
        self._positions = frame.groupby(list(keys)).indices

    def __bool__(self) -> bool:
        return bool(self._positions)

    def at(self, key: Item) -> list[Row]:
        columns = self._columns.items()
        return [{n: values[at] for n, values in columns} for at in self._positions.get(key, ())]


def _repeat_of(row: Row) -> int:
    return 0 if absent(row["repeat"]) else int(row["repeat"])


def _named_attempts(attempts: Sequence[Row]) -> list[tuple[Row, dict[str, str]]]:
    """Return each attempt, baseline first, with the name of its column, and with its own name."""
    rank = {condition: at for at, condition in enumerate(CONDITION_LOOKS)}
    rows = sorted(
        attempts,
        key=lambda a: (rank.get(a["condition"], len(rank)), str(a["condition"]), _repeat_of(a)),
    )
    several_repeats = len({_repeat_of(row) for row in rows}) > 1
    several_agents = len({text(row["agent"]) for row in rows}) > 1
    named = []
    for row in rows:
        more = [text(row["agent"]) if several_agents else None, text(row["perturbation"])]
        loaded = text(row["loaded_skill"])
        if loaded and str(row["condition"]) not in ("baseline", "skill"):
            more.append(f"loaded: {loaded}")
        column = ", ".join([str(row["condition"]), *filter(None, more)])
        end = f", repeat {_repeat_of(row) or 1}" if several_repeats else ""
        named.append((row, {"column": column, "name": f"{column}{end}"}))
    return named


def _is_true(value: Any) -> bool:
    return not absent(value) and bool(value)


def _verdict_word(passed: Any, status: Any, score: Any = None) -> Row:
    """Return the word and the CSS style of a verdict; a failed grader has "no verdict"."""
    if absent(passed):
        if not absent(score):
            return {"word": f"{score:.3g}", "look": "none"}
        has_reason = not absent(status) and status not in ("ok", "none")
        return {"word": f"no verdict ({status})" if has_reason else "– none", "look": "none"}
    return {"word": "✓ pass", "look": "pass"} if passed else {"word": "✗ fail", "look": "fail"}


def grader_names(table: pd.DataFrame) -> NDArray[np.object_]:
    """Return the grader of each row, with its version or round if the grader has several."""
    names = table["grader"].astype("object")
    for column, word in (("grader_version", "version"), ("round", "round")):
        several = table.groupby("grader")[column].transform("nunique") > 1
        if several.any():
            levels = table[column].astype("object").where(table[column].notna(), "unknown")
            names = names.where(~several, names + f", {word} " + levels.astype(str))
    return np.asarray([str(name) for name in names], object)
