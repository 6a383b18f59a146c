"""Write the page about a study: the answer, then the chapters; also write the figure files."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import product
from os import PathLike
from pathlib import Path
from platform import python_version
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
from joblib import cpu_count
from markupsafe import Markup
from tqdm.auto import tqdm

import skillcomp
from skillcomp import plots, style
from skillcomp.contrast import BoundedValue, Bounds, ends_of
from skillcomp.errors import ExtraError, SkillcompError, StudyError, instead
from skillcomp.frames import Frames
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.outcomes import Checks
from skillcomp.frames.probes import probe_rates, probed_checks, probes, untested_reasons
from skillcomp.frames.reference_labels import Drawn
from skillcomp.io.files import replace_file
from skillcomp.io.store import RunStore
from skillcomp.live.status import run_works
from skillcomp.ngrams import Tokenizer
from skillcomp.report import phrases as say
from skillcomp.report.answer import ON_FIRST_PAGE, Answer, answer, draw_headline
from skillcomp.report.case_pages import write_case_pages
from skillcomp.report.chapters import (
    ENDINGS,
    Chapter,
    Figure,
    chapter_of,
    figure_of,
    find_notebooks,
)
from skillcomp.report.escaped_text import render
from skillcomp.report.methods import PACKAGES, methods
from skillcomp.report.phrases import listing, main_rows, treatment, unit_of
from skillcomp.report.screens import SKILL_QUESTION, STUDY_KINDS, TITLES, judge_table
from skillcomp.report.study_data import Study, StudyOrPath, frame_of, opened
from skillcomp.report.study_sentences import findings
from skillcomp.skillverdicts import NAIVE, check_margin
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields
from skillcomp.table import table

ARCHIVE = "figures.zip"
CASES = "cases"  # This folder has the pages of the cases.
_OWN_TABLE = "your table"  # This is the name of a study that was given as frames.
_OWN_PARAMETERS = {"DATA", "OUT"}  # `build` sets these parameters of notebooks.
_SAVED = "study"  # Frames are saved in this folder, so that chapters can read them as a store.
_GUIDES = {"04", "08"}  # These notebooks are about planning and running any study.
_NOT_TEXT = re.compile(r"(<(?:pre|code|style|svg)\b.*?</(?:pre|code|style|svg)>|<[^>]*>)", re.S)
# a line must not break at the blanks in "52 %", "+52 points", "[37, 64]", "n = 14", "p = .03"
_BLANKS = re.compile(
    r"(?<=\d) (?=%|points?\b)|(?<=\d,) (?=[^\s\[\]]{1,12}\])|(?<=\b[np]) (?==)|(?<=\b[np] =) (?=\S)"
)
# verdicts whose cells are enough; the page shows the reason for all others
_CLEAR = ("teaching", "redundant", "ineffective", "harmful")
_AMOUNTS = {"cost_usd": "Dollars", "minutes": "Seconds", "tokens": "Tokens"}
_PER = {"attempt": "an attempt", "pass": "a pass", "added_pass": "a further pass"}
# measure -> row of the table of graders
_OF_GRADERS = {
    "raw_agreement": "agreement with gold",
    "false_passes": "false passes",
    "false_fails": "false fails",
    "naive": "change in checks passed",
    "corrected": "the same, corrected",
}


def build(
    study: StudyOrPath,
    out: str | PathLike[str],
    *,
    notebooks: Sequence[Path] | None = None,
    parameters: Mapping[str, object] | None = None,
    grader: str | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    interval: IntervalRule = "adaptive",
    round: int = 1,
    assume_missing: Literal["at random"] | None = None,
    asked: pd.DataFrame | None = None,
    checks: Checks = "all",
    reference: str | None = None,
    gold_drawn: Drawn | None = None,
    drawn_by: str | None = None,
    tokenizer: Tokenizer | None = None,
    progress: bool = True,
) -> Path:
    """Write ``index.html``: the answer of a study, and the notebooks executed on its data.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table.
    out : str or path
        Folder for the page and its files; it is created if missing.
    notebooks : sequence of pathlib.Path, optional
        Notebooks to execute, in order. If the sequence is empty, the page has only the answer.
        Default for a recorded study: the chapters that it has data for, without those on how a
        study is planned and run. Default for frames: no notebooks. For
        notebooks, frames are saved as a store in the folder ``study`` of `out`. Notebooks need the
        extra ``lab``; without it, the default is the answer alone, with a warning.
    parameters : mapping of str to object, optional
        Values that replace those in the parameter cells of the notebooks, such as
        ``{"GRADER": "forced:claude-opus-5-5"}``. Each applies to the notebooks with that parameter;
        values of None are ignored. ``GRADER``, ``MARGIN`` and ``ROUND`` replace the arguments
        `grader`, `margin` and `round`, which apply to the answer and to the notebooks. A ``STORE``
        is relative to the working directory, like `study` and `out`.
    grader, groups, margin, value, bounds, interval, round : optional
        As for :func:`answer`. The chapters are about passes, whatever the value.
    assume_missing, asked, checks : optional
        As for :func:`answer`.
    reference, gold_drawn, drawn_by, tokenizer : optional
        As for :func:`answer`.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pathlib.Path
        The page. Its folder also holds every figure as pdf, png and svg with its data as csv and
        json, all these files in ``figures.zip``, and in ``cases`` the cases of each skill
        (:func:`write_case_pages`), which the page links to.

    Raises
    ------
    ExtraError
        If `notebooks` are given and the extra ``lab`` is not installed.
    StudyError
        If the path holds no study, there are no notebooks, or no notebook has a parameter of a
        given name. If a cell of a chapter about this study fails, the page is still written, with
        the cells before it and all other chapters; the error then lists every failed cell.

    Notes
    -----
    If the study has no data for an analysis, the chapter shows one sentence with the remedy
    instead. There is one kernel per core. The chapters share these kernels, and each chapter begins
    with an empty namespace; each of your own `notebooks` has a kernel of its own.
    """
    study, out = opened(study), Path(out)
    name = _name_of(study)
    paths = list(notebooks or [])
    lacking: list[str] = []
    if notebooks is None and isinstance(study, RunStore):
        paths, lacking = _chapters_about(study)
    defaults = _defaults_by_notebook(paths, may_skip=notebooks is None)
    named = sorted({n for own in defaults.values() for n in own} - _OWN_PARAMETERS)
    for n in parameters or ():
        if n not in (*named, "GRADER", "MARGIN", "ROUND"):
            raise StudyError(f"report: no notebook has a parameter '{n}'{instead(n, named)}")
    out.mkdir(parents=True, exist_ok=True)
    if isinstance(study, Frames) and paths:
        study = RunStore(study.save(out / _SAVED, overwrite=True))
    values: dict[str, object] = {"GRADER": grader, "MARGIN": margin, "ROUND": round}
    values |= {n: value for n, value in (parameters or {}).items() if value is not None}
    grader = None if values["GRADER"] is None else str(values["GRADER"])
    limit: Any = values["MARGIN"]
    try:
        check_margin(limit, None, ends_of(value, bounds))
    except SkillcompError as error:
        raise StudyError(f"report: {error}") from error
    how: Fields = {
        "groups": groups,
        "margin": float(limit),
        "value": value,
        "bounds": bounds,
        "interval": interval,
        "round": _round_of(values["ROUND"], study),
        "assume_missing": assume_missing,
        "asked": asked,
        "checks": checks,
        "reference": reference,
        "gold_drawn": gold_drawn,
        "drawn_by": drawn_by,
        "tokenizer": tokenizer,
    }
    todo: SimpleQueue[Any] = SimpleQueue()
    own = notebooks is None
    with _executed_chapters(todo, list(defaults), share_kernel=own, progress=progress) as books:
        problem = ""
        try:
            result = answer(study, grader=grader, **how)
        except SkillcompError as error:
            result, problem = Answer(findings(None), {}, {}, "", {}), str(error)
        if result.screens and "decided" not in result.frames and own:
            used = {n for kind in STUDY_KINDS if kind.name in result.kinds for n in kind.chapters}
            defaults, lacking = {p: d for p, d in defaults.items() if p.stem[:2] in used}, []
        if values["GRADER"] is None:
            values["GRADER"] = _recorded_name(result, study)
        # a notebook runs in its own folder, where a relative path would lead elsewhere
        values["OUT"] = str(out.resolve())
        if isinstance(study, RunStore):
            values["DATA"] = str(study.path.resolve())
        if "STORE" in values:
            values["STORE"] = str(Path(str(values["STORE"])).resolve())
        for path, names in defaults.items():
            todo.put((path, {n: v for n, v in values.items() if n in names and v is not None}))
        parts = _cases_and_figures(study, out, result, reference, how["round"], checks)
    chapters = [chapter_of(books[p][0], p, out, books[p][1]) for p in defaults]
    page = _write_page(
        study, name, out, result, **parts, chapters=chapters, problem=problem, lacking=lacking
    )
    failed = [chapter.stopped for chapter in chapters if chapter.stopped]
    if failed:
        raise StudyError(
            f"{page} was built, but {len(failed)} of {len(chapters)} chapters ended early. "
            + " ".join(failed)
        )
    return page


def _defaults_by_notebook(
    paths: Sequence[Path], *, may_skip: bool
) -> dict[Path, Mapping[str, object]]:
    """Return the parameters of each notebook; if the extra ``lab`` is missing, warn or raise."""
    if not paths:
        return {}
    try:
        from skillcomp.report.execute_notebooks import named_parameters
    except ExtraError as error:
        if not may_skip:
            raise
        warnings.warn(f"report: the page has the answer and no chapters: {error}", stacklevel=3)
        return {}
    return {path: named_parameters(path) for path in paths}


def write_answer(
    result: Answer, study: Study, out: Path, reference: str | None, checks: Checks
) -> Path:
    """Write the page of an answer without chapters; `reference` and `checks` are as in `answer`."""
    out.mkdir(parents=True, exist_ok=True)
    parts = _cases_and_figures(study, out, result, reference, 1, checks)
    return _write_page(study, _name_of(study), out, result, **parts)


def _cases_and_figures(
    study: Study, out: Path, result: Answer, reference: str | None, round: int, checks: Checks
) -> Fields:
    """Write the case pages and the headline figures; return what the page needs of both."""
    decided = result.frames.get("decided", pd.DataFrame())
    try:
        pages = write_case_pages(
            study,
            out / CASES,
            grader=result.grader or None,
            report="../index.html",
            reference=reference,
            round=round,
            checks=checks,
            value="score" if "score" in set(decided.get("unit", ())) else "passed",
        )
    except SkillcompError:  # the page says why the study cannot be read
        pages = pd.DataFrame()
    fingerprint = study.fingerprint  # which takes time
    figures = _headline_figures(result, out, fingerprint)
    rows = pages.to_dict("records")
    return {"case_pages": rows, "figures": figures, "fingerprint": fingerprint}


def _name_of(study: Study) -> str:
    return study.path.name if isinstance(study, RunStore) else _OWN_TABLE


def _write_page(
    study: Study,
    name: str,
    out: Path,
    result: Answer,
    *,
    case_pages: Sequence[Mapping[Any, Any]],
    figures: Sequence[Figure],
    fingerprint: str,
    chapters: Sequence[Chapter] = (),
    problem: str = "",
    lacking: Sequence[str] = (),
) -> Path:
    probe = _probe_box(study, out)
    drawn = [*figures, *probe["figures"], *(f for chapter in chapters for f in chapter.figures)]
    names = {name for figure in drawn for _, name in figure.files}
    archive = _write_archive(out, names.union(*(chapter.files for chapter in chapters)))
    lacking = [*lacking, *(f"{c.title} Not shown: {c.lacking}" for c in chapters if c.lacking)]
    html: str = render(
        "report",
        **_first_page(result, problem, fingerprint),
        case_pages=case_pages,
        study=name,
        archive=archive,
        version=skillcomp.__version__,
        probe=probe,
        figures=figures,
        chapters=chapters,
        lacking=lacking,
        agents=run_works(study).values() if isinstance(study, RunStore) else (),
    )
    page = out / "index.html"
    # make links to files of the chapters relative to the page
    html = _with_unbroken_numbers(html.replace(f"{out.resolve().as_posix()}/", ""))
    replace_file(page, html.encode())
    return page


def _with_unbroken_numbers(html: str) -> str:
    """Put no-break blanks into intervals and before units, so that lines do not end there."""
    parts = _NOT_TEXT.split(html)
    parts[::2] = [_BLANKS.sub("\N{NO-BREAK SPACE}", text) for text in parts[::2]]
    return "".join(parts)


def _probe_box(study: Study, out: Path) -> Fields:
    """Return a figure and a table of the last probe (a test of the checks), and which failed it.

    Without a probe, the list of figures is empty.
    """
    probed = probes(study) if isinstance(study, RunStore) else pd.DataFrame()
    if probed.empty:
        return {"figures": []}
    at_fault = probed[probed["finding"].ne("")].drop(columns="skill")
    rows = table(at_fault).linked(out / "probe.csv").html(most=5) if len(at_fault) else ""
    rates = probe_rates(probed)
    rates = rates.assign(answer=rates["answer"].str.replace("_", " "))
    fig: Any = plots.dimensions(rates, x="answer", y="skill", label="Checks passed (%)").figure
    lead = (
        "Share of checks (%) that answers of known quality pass. The reference should pass all, "
        "the others few, except checks that forbid something."
    )
    figure = _saved_figure(fig, out / "00-probe", study.fingerprint, lead, rates=rates)
    untested = untested_reasons(probed) or "all were tested"
    failed = probed_checks(probed)["at_fault"]
    return {"figures": [figure], "at_fault": failed, "untested": untested, "rows": Markup(rows)}


def _round_of(value: object, study: Study) -> int:
    """Return the grading round to use; raise StudyError if the study does not have it."""
    if value == 1:
        return 1
    rounds = sorted(frame_of(study, "verdicts", round="all")["round"].dropna().unique().tolist())
    if isinstance(value, int) and value in rounds:
        return value
    raise StudyError(f"report: there is no round {value}{instead(value, rounds)}")


def _chapters_about(study: RunStore) -> tuple[list[Path], list[str]]:
    """Return the chapters about a study, and one sentence for each chapter without data."""
    lacking = {}
    if not study.manifest.get("design"):
        lacking["09"] = (
            "What is content and what is form is not known: no documents cross the two (design in "
            "the manifest)."
        )
    if not any(len(study.table(name)) for name in ("invocations", "events")):
        lacking["10"] = "Whether the skills fire when they should is not known: nothing records it."
    without = {*_GUIDES, *lacking}
    return [p for p in find_notebooks() if p.stem[:2] not in without], list(lacking.values())


def _recorded_name(result: Answer, study: Study) -> str | None:
    """Return the name under which the store records the grader of the answer, for notebooks.

    None for frames, or if a grader has several versions.
    """
    if isinstance(study, Frames) or not result.grader:
        return None
    names = set(study.table("verdicts").column("grader").to_pylist())
    fitting = [n for n in names if result.grader == n or result.grader.startswith(f"{n} (")]
    # if a grader has several versions, its name does not identify one of them
    return fitting[0] if len(fitting) == 1 and len(names) == result.facts["graders"] else None


@contextmanager
def _executed_chapters(
    todo: SimpleQueue[Any], paths: Sequence[Path], *, share_kernel: bool, progress: bool
) -> Iterator[dict[Path, tuple[Any, str]]]:
    """Run the notebooks of a queue during the block; the result is complete when the block ends."""
    books: dict[Path, tuple[Any, str]] = {}
    if not paths:
        yield books
        return
    from skillcomp.report.execute_notebooks import execute_chapters  # needs skillcomp[lab]

    n = min(cpu_count(), len(paths))
    bar = tqdm(desc="report", total=len(paths), unit="chapter", disable=not progress)
    execute = partial(execute_chapters, share_kernel=share_kernel, done=bar.update)
    with bar, ThreadPoolExecutor(n) as pool:
        parts = [pool.submit(execute, todo, paths[0].parent) for _ in range(n)]
        try:
            yield books
            todo.put(None)
            for part in parts:
                books.update(part.result())
        except BaseException:
            with suppress(Empty):  # drop the notebooks that no kernel has started
                while True:
                    todo.get_nowait()
            raise
        finally:
            todo.put(None)


def _headline_figures(result: Answer, out: Path, fingerprint: str) -> list[Figure]:
    """Save and return the figures of the answer."""
    ours = re.compile(rf"00-answer(-.*)?\.({'|'.join(ENDINGS)})")
    for old in [f for f in out.iterdir() if ours.fullmatch(f.name) and f.is_file()]:
        old.unlink()  # an earlier page may have left more figures
    figures = []
    with style.use():
        for stem, lead, data, draw in _figure_rows(result):
            figure = _saved_figure(draw(), out / stem, fingerprint, lead, **data)
            if "delta" in data:
                # the page embeds the narrow figure, so its files are temporary
                with TemporaryDirectory() as folder:
                    file, drawn = Path(folder, f"{stem}-narrow"), draw(width="column")
                    narrow = _saved_figure(drawn, file, fingerprint, lead, **data)
                figure = replace(figure, narrow=narrow)
            figures.append(figure)
    return figures


def _figure_rows(
    result: Answer,
) -> Iterator[tuple[str, str, dict[str, pd.DataFrame], Callable[..., Any]]]:
    """Yield the file stem of each figure, its caption, its rows by name, and how to draw them."""
    frames, cases = result.frames, result.cases
    if "decided" not in frames:
        for screen in result.screens:
            if len(screen.drawn):
                yield screen.stem, screen.caption, {screen.stem[10:]: screen.drawn}, screen.draw
        return
    rows = result.headline()
    skills, lead = list(dict.fromkeys(rows["skill"])), _caption_of_changes(rows)
    for start in range(0, len(skills), ON_FIRST_PAGE):
        some = rows[rows["skill"].isin(skills[start : start + ON_FIRST_PAGE])]
        stem = f"00-answer-{start // ON_FIRST_PAGE + 1}" if start else "00-answer"
        yield stem, lead, {"delta": some}, partial(draw_headline, some, cases)
    if "gap" in frames:
        known = say.with_estimate(frames["gap"])
        known = known[known["condition"].isin(main_rows(rows)["condition"])]
        within = known[known["scope"].eq("within_dimensions")]
        gap = known if within.empty else within
        lead = "Change of near and of far cases, and far minus near."
        how: Fields = {"y": "measure", "hue": "condition", "null": 0, "width": "column"}
        if len(gap):
            yield "00-answer-gap", lead, {"gap": gap}, lambda: plots.estimates(gap, **how).figure
    if "curve" in frames and cases is not None:
        curve, shown = frames["curve"], cases.merge(frames["distances"])
        lead = "Change by the distance from the skill, with single cases; below, the pass rates."
        draw = partial(plots.transfer_curve, curve, shown)
        yield "00-answer-curve", lead, {"curve": curve}, lambda: draw().figure


def _saved_figure(
    fig: Any, path: Path, fingerprint: str, caption: str, **data: pd.DataFrame
) -> Figure:
    paths = style.save(fig, path, fingerprint=fingerprint, caption=caption, data=data)
    plt.close(fig)
    return figure_of(paths[1].read_bytes(), path.name, path.parent)


def _caption_of_changes(rows: pd.DataFrame) -> str:
    """Name the reference, the margin, and the conditions with and without a corrected change."""
    reference = rows["reference"].iloc[0]
    against = "no skill" if reference == "baseline" else treatment(reference)
    unit = unit_of(rows.iloc[0])
    what = "mean score" if unit == "score" else "pass rate"
    text = f"Change in the {what}, against {against}, on the same cases."
    if "estimator" in rows.columns and rows["estimator"].ne(NAIVE).any():
        alone = rows["estimator"].eq(NAIVE).groupby(rows["condition"], sort=False)
        kinds = {"Corrected by gold": ~alone.any(), "By the grader alone": alone.all()}
        for word, kind in kinds.items():
            text += f" {word}: {listing(kind.index[kind])}." if kind.any() else ""
    return f"{text} Dashed: the margin of {say.size(rows['margin'].iloc[0], unit=unit)}."


def _write_archive(out: Path, names: Iterable[str]) -> str:
    """Zip the named files and their captions; return the name of the archive.

    The archive has no dates, so that equal files give an equal archive. If none of the files
    exists, an earlier archive is removed and the result is an empty text.
    """
    ends = ("", ".txt", ".tex")
    paths = {(out / n).with_suffix(end) if end else out / n for n in names for end in ends}
    files = sorted(file for file in paths if file.is_file())
    if not files:
        (out / ARCHIVE).unlink(missing_ok=True)
        return ""
    with zipfile.ZipFile(out / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    return ARCHIVE


def _about_skill(name: str, result: Answer, topics: Mapping[str, list[Fields]]) -> Fields:
    """Return what the page shows on a skill; the sentences on its placebo are folded."""
    skill, condition, placebo = (
        [row for row in topics[topic] if row["about"] == name]
        for topic in ("skill", "condition", "placebo")
    )
    rows = skill + condition
    decided = result.frames["decided"]
    main = main_rows(decided)
    arms = decided.drop(main.index)
    both = pd.concat([main, arms[arms["condition"].ne("placebo")]])
    both = both[both["skill"].eq(name)]
    if len(both) == len(rows):
        others = result.frames.get("placebo")
        for row, (_, of) in zip(rows, both.iterrows(), strict=True):
            is_clear, note = say.state_of(of) in _CLEAR, say.lost(of).strip(" ()")
            if pd.isna(of["estimate"]) or (is_clear and of.get("overturned", False)):
                note = row["sentence"]
            elif not is_clear:
                note = row["why"]
            row |= {"of": of, "placebo": say.matching_row(others, of), "note": note}
    folded = [row["sentence"] for row in placebo]
    return {"name": name, "group": result.groups.get(name, ""), "rows": rows, "folded": folded}


def _grader_table(frames: Mapping[str, pd.DataFrame]) -> str:
    """Return a table of the graders: agreement, errors, and the change as it is and corrected."""
    rows = frames.get("agreement", pd.DataFrame())
    if len(rows) and not rows["measure"].eq("raw_agreement").any():
        return ""  # the agreement of scores is said in sentences
    corrected = frames.get("corrected", rows[:0])
    if len(corrected) and "agent" not in corrected:
        first = corrected["condition"].eq(corrected["condition"].iloc[0])
        changes = corrected[first & corrected["measure"].str.startswith("delta")]
        naive = changes["estimator"].eq(NAIVE)
        kept = changes[naive | changes["recommended"]]
        rows = pd.concat([rows, kept.assign(measure=naive.map({True: NAIVE, False: "corrected"}))])
    if rows.empty:
        return ""
    rows = rows.assign(property=rows["measure"].map(_OF_GRADERS), n=rows["n_clusters"])
    names = ["grader", "property", "unit", *say.LIMITS, "ci_level", "n"]
    return judge_table(rows.dropna(subset="property")[names].assign(shown=None)).html()


def price_table(price: pd.DataFrame) -> str:
    """Return a table of what an attempt, a pass and a further pass cost, by agent and condition."""
    rows = say.with_estimate(price)
    if rows.empty:
        return ""
    rows[["amount_of", "per"]] = rows["measure"].str.split("_per_", expand=True)
    once = rows[rows["per"].eq("pass")]
    rows = pd.concat([once.assign(per="attempt", estimate=once["amount"]), rows])
    keys = [*columns_of(rows, "agent"), "condition"]
    wide = rows.pivot(index=keys, columns=["amount_of", "per"], values="estimate")
    heads = [head for head in product(_AMOUNTS, _PER) if head in wide]
    factor = {"minutes": 60}
    columns = {
        f"{_AMOUNTS[amount]} {_PER[per]}": wide[amount, per] * factor.get(amount, 1)
        for amount, per in heads
    }
    return table(pd.DataFrame(columns).reset_index()).html()


def _first_page(result: Answer, problem: str, fingerprint: str) -> Fields:
    """Return the variables of the template of the first page."""
    rows: list[Any] = result.findings.to_dict("records")
    estimates = result.frames
    paragraph = methods(
        *(frame for frame in estimates.values() if {"measure", "method"} <= {*frame})
    )
    versions = {name: version(name) for name in ("skillcomp", *PACKAGES, "matplotlib", "seaborn")}
    topics = defaultdict[str, list[Fields]](list)  # the template asks for any topic
    for row in rows:
        why = row["why"] if isinstance(row["why"], str) else ""
        mark = style.VERDICT_SIGNS.get(str(row["verdict"]), "?")
        topics[row["topic"]].append(row | {"mark": mark, "why": why})
    graders = _grader_table(estimates) if "decided" in estimates else ""
    grid, skills = dict[Any, pd.Series](), []
    topics["grader"] += topics.pop("drift", []) + topics.pop("correction", [])
    if graders:  # the tables have what is about single graders
        of_several = [row for row in topics["grader"] if not isinstance(row["about"], str)]
        topics["grader"] = of_several
    if "decided" in estimates:
        headlines = {screen.headline for screen in result.screens}
        topics["summary"] = [row for row in topics["summary"] if row["sentence"] not in headlines]
        decided = estimates["decided"]
        for _, row in main_rows(decided).iterrows() if "agent" in decided else ():
            grid.setdefault((style.called(row["skill"]), style.called(row["agent"])), row)
        names = dict.fromkeys([*result.headline()["skill"], *(r["about"] for r in topics["skill"])])
        skills = [_about_skill(name, result, topics) for name in names]
    is_score = bool(skills) and unit_of(decided.iloc[0]) == "score"
    price = price_table(estimates["price"]) if "price" in estimates else ""
    tables = []
    for name, frame in estimates.items():
        if name == "needed" and len(frame):
            points = {f"{part}_in_points": 100 * frame[part] for part in ("size", "margin")}
            frame = frame.assign(**points).drop(columns=["size", "margin"])
        if "note" in frame and len(frame):
            tables.append((style.called(name), table(frame)))
    screens = result.screens
    question = screens[0].question if screens and "decided" not in estimates else SKILL_QUESTION
    digest = hashlib.sha256(json.dumps(rows, default=str).encode()).hexdigest()
    return {
        "topics": topics,
        "tables": tables,
        "skills": skills,
        "graders": graders,
        "grid": grid,
        "price": price,
        "answered": not problem and result,
        "question": question,
        "is_score": is_score,
        "screens": screens,
        "titles": TITLES,
        "say": say,
        "called": style.called,
        "signs": style.VERDICT_SIGNS,
        "level": style.quantity if is_score else say.rate,
        "problem": problem,
        "first": ON_FIRST_PAGE,
        "adaptive": "adaptive" in paragraph,
        "methods": paragraph,
        "provenance": {"Study, sha256": fingerprint, "Sentences, sha256": digest}
        | {"Python": python_version(), **versions},
    }
