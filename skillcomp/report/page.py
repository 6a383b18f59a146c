"""Write the page about a study: first the answer, then the chapters, with files of figures."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
from jinja2 import Environment, PackageLoader, Template, select_autoescape
from tqdm.auto import tqdm

import skillcomp
from skillcomp import frames, style
from skillcomp.errors import SkillcompError, StudyError, instead
from skillcomp.frames import Frames
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.corrected_deltas import NAIVE
from skillcomp.frames.reference_labels import Drawn
from skillcomp.io.files import replace_file
from skillcomp.io.store import RunStore
from skillcomp.report.answer import ON_FIRST_PAGE, Answer, answer, opened
from skillcomp.report.chapters import ENDINGS, Chapter, Figure, chapter_of, figure_of
from skillcomp.report.notebooks import NotebookError, execute, find_notebooks, named_parameters
from skillcomp.report.notes import notes_of
from skillcomp.report.phrases import listing, treatment
from skillcomp.stats.bounded import IntervalRule

ARCHIVE = "figures.zip"
_OWN_TABLE = "your table"  # shown instead of the name of a folder if a study was given as frames
# Users cannot set these parameters of a notebook. NEEDS names a frame. If the study has no rows of
# this frame, the chapter shows the recorded study instead, on a separate page.
_OWN_PARAMETERS = {"DATA", "OUT", "PILOT", "NEEDS"}
_PACKAGES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn")
# Without gold the signs of verdicts are hollow.
_UNCHECKED_SIGNS = style.VERDICT_SIGNS | {"teaching": "△", "harmful": "▽", "redundant": "○"}
# For each chapter number: the topics of sentences that are shown at the start of the chapter if its
# text is about another study.
_TOPICS = {"02": ("summary", "skill", "condition"), "03": ("transfer",), "04": ("limits",)}
_TOPICS |= {"09": ("structure",)}
_TOPICS |= {"05": ("grader", "drift"), "07": ("correction",)}


def build(
    study: RunStore | str | PathLike[str] | Frames,
    out: str | PathLike[str],
    *,
    notebooks: Sequence[Path] | None = None,
    parameters: Mapping[str, object] | None = None,
    grader: str | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    interval: IntervalRule = "adaptive",
    order: str = "effect",
    round: int = 1,
    assume_missing: Literal["at random"] | None = None,
    asked: pd.DataFrame | None = None,
    checks: Checks = "all",
    reference: str | None = None,
    gold_drawn: Drawn | None = None,
    drawn_by: str | None = None,
    progress: bool = True,
) -> Path:
    """Write ``index.html``: the answer of a study and, if it is recorded, the executed notebooks.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table. With frames, the page has only the
        answer.
    out : str or path
        Folder for the page and its files; it is created if missing.
    notebooks : sequence of pathlib.Path, optional
        Notebooks to execute; by default all chapters, in order. If the sequence is empty, the page
        has only the answer.
    parameters : mapping of str to object, optional
        Values that replace those in the parameter cells of the notebooks, such as
        ``{"GRADER": "forced:claude-opus-5-5"}``. Each applies to the notebooks with that parameter;
        ``GRADER``, ``MARGIN`` and ``ROUND`` also apply to the answer, before the arguments of these
        names. A ``STORE`` is relative to
        the working directory, like `study` and `out`.
    grader, groups, margin, interval, order, round, assume_missing, asked, checks : optional
        As for :func:`answer`.
    reference, gold_drawn, drawn_by : optional
        As for :func:`answer`.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pathlib.Path
        The page. Its folder also holds every figure as pdf, png and svg with its data as csv and
        json, and all these files in ``figures.zip``.

    Raises
    ------
    StudyError
        If the path holds no study, there are no notebooks, or no notebook has a parameter of a
        given name. If a cell of a chapter about this study fails, the page is still written, with
        the cells before it and all other chapters; the error then lists every failed cell.

    Notes
    -----
    If the text of a chapter is about another study than `study`, the chapter shows headings,
    tables, figures and computed sentences, but not the text. If `study` lacks data that a chapter
    needs, the chapter ends early with a message. But if the chapter's parameter ``NEEDS`` names the
    missing data (a frame of the store, or ``design``), the chapter shows the recorded study that it
    was written about instead.
    """
    if order not in ("effect", "name"):
        raise StudyError(f"report: order '{order}'; allowed: effect, name.")
    study, out = opened(study), Path(out)
    paths = _notebooks_to_run(study, notebooks)
    defaults = {path: named_parameters(path) for path in paths}
    values = dict(parameters or {})
    _require_named(values, defaults.values())
    out.mkdir(parents=True, exist_ok=True)
    grader = str(values["GRADER"]) if "GRADER" in values else grader
    how: dict[str, Any] = {"groups": groups, "order": order, "reference": reference}
    how |= {"assume_missing": assume_missing, "asked": asked, "checks": checks}
    how |= {"gold_drawn": gold_drawn, "drawn_by": drawn_by, "interval": interval}
    how |= {"margin": _margin_of(values.get("MARGIN", margin))}
    how |= {"round": _round_of(values.get("ROUND", round), study)}
    result, problem = _answer_or_reason(study, grader, how)
    figures = _headline_figures(result, out, study.fingerprint) if result else []
    run = _Run(study, out, _with_paths(values, study, out), result, progress)
    bar = tqdm(paths, desc="report", unit=" notebooks", disable=not (progress and paths))
    chapters = [_execute_chapter(run, path, defaults[path]) for path in bar]
    page = _write_pages(run, problem, figures, chapters)
    failed = [chapter.stopped for chapter in chapters if chapter.stopped and not chapter.elsewhere]
    if failed:
        raise StudyError(
            f"{page} was built, but {len(failed)} of {len(chapters)} chapters ended early. "
            + " ".join(failed)
        )
    return page


@dataclass(frozen=True)
class _Run:
    """The study, folder, parameters and answer that all chapters share."""

    study: RunStore | Frames
    out: Path
    values: Mapping[str, object]  # values that replace those of notebook parameters
    result: Answer | None
    progress: bool

    @property
    def folder(self) -> Path:
        return self.study.path if isinstance(self.study, RunStore) else Path(_OWN_TABLE)


def _notebooks_to_run(study: RunStore | Frames, notebooks: Sequence[Path] | None) -> list[Path]:
    if isinstance(study, RunStore):
        return list(notebooks) if notebooks is not None else find_notebooks()
    if notebooks:
        raise StudyError("report: the notebooks read a recorded study; frames give the answer.")
    return []


def _with_paths(
    values: Mapping[str, object], study: RunStore | Frames, out: Path
) -> dict[str, object]:
    """Add DATA and OUT and make STORE absolute, because a notebook runs in its own folder."""
    paths: dict[str, object] = {"OUT": str(out.resolve())}
    if isinstance(study, RunStore):
        paths["DATA"] = str(study.path.resolve())
    if "STORE" in values:
        paths["STORE"] = str(Path(str(values["STORE"])).resolve())
    return {**values, **paths}


def _write_pages(run: _Run, problem: str, figures: list[Figure], chapters: list[Chapter]) -> Path:
    """Write the main page, and one per chapter about another study; return the main page."""
    drawn = [*figures, *(figure for chapter in chapters for figure in chapter.figures)]
    names = {name for figure in drawn for _, name in figure.files}
    archive = _write_archive(run.out, names.union(*(chapter.files for chapter in chapters)))
    template = _page_template()
    common = {"study": run.folder.name, "archive": archive, "version": skillcomp.__version__}
    apart = {made.stem: made.other_study for made in chapters if made.other_study}
    on_page = [made for made in chapters if made.stem not in apart and not made.bare]
    first = _first_page(run.result, problem, run.study.fingerprint)
    first |= {"figures": figures, "chapters": on_page, "every": chapters, "apart": apart}
    page = run.out / "index.html"
    replace_file(page, template.render(**common, **first).encode())
    for made in (made for made in chapters if made.stem in apart):
        html = template.render(**common, chapters=[made], alone=made, shows=apart[made.stem])
        replace_file(run.out / f"{made.stem}.html", html.encode())
    return page


def _has_rows(study: RunStore | Frames, kind: str) -> bool:
    """Return whether a study has rows of the frame `kind` or, for "design", has a design."""
    if not isinstance(study, RunStore):
        return False
    if kind == "design":
        return bool(study.manifest.get(kind))
    return not getattr(frames, kind)(study).empty


def _margin_of(value: object) -> float:
    if isinstance(value, int | float) and 0 < value < 1:
        return float(value)
    raise StudyError(f"report: margin: found {value!r}; allowed: a number above 0 and below 1.")


def _round_of(value: object, study: RunStore | Frames) -> int:
    """Return the grading round to use; raise StudyError if the study does not have it."""
    if value == 1:
        return 1
    if isinstance(study, Frames):
        rounds = sorted(study.verdicts["round"].dropna().unique().tolist())
    else:
        rounds = sorted(set(study.table("verdicts").column("round").to_pylist()) - {None})
    if isinstance(value, int) and value in rounds:
        return value
    raise StudyError(f"report: there is no round {value}{instead(value, rounds)}")


def _answer_or_reason(
    study: RunStore | Frames, grader: str | None, how: Mapping[str, Any]
) -> tuple[Answer | None, str]:
    """Return the answer and an empty text, or None and the reason why there is no answer.

    If the study has no grader with the name `grader`, the answer uses the default grader. The name
    may be meant for a notebook that shows another study.
    """
    try:
        try:
            return answer(study, grader=grader, **how), ""
        except StudyError:
            if grader is None:
                raise
            return answer(study, **how), ""
    except SkillcompError as error:
        return None, str(error)


def _require_named(values: Mapping[str, object], defaults: Iterable[Mapping[str, object]]) -> None:
    names = sorted({name for own in defaults for name in own} - _OWN_PARAMETERS)
    for name in values:
        if name not in (*names, "GRADER", "MARGIN", "ROUND"):
            raise StudyError(f"report: no notebook has a parameter '{name}'{instead(name, names)}")


def _execute_chapter(run: _Run, path: Path, defaults: Mapping[str, object]) -> Chapter:
    """Execute a notebook and make a chapter from its outputs, even if a cell fails."""
    own = {name: value for name, value in run.values.items() if name in defaults}
    about, other_study = run.study.fingerprint, ""
    if "NEEDS" in defaults and not _has_rows(run.study, str(defaults["NEEDS"])):
        own = {"OUT": run.values["OUT"]}  # the other values are meant for the study of the page
        about, other_study = str(defaults["PILOT"]), Path(str(defaults["DATA"])).name
    elif run.result and run.result.grader and defaults.get("PILOT", about) != about:
        # This study may lack the grader in the notebook's parameters, so use the grader of the
        # answer.
        grader = {"GRADER": run.result.grader.partition(" (")[0]}
        own = (grader if "GRADER" in defaults else {}) | own
    stopped = ""
    try:
        notebook = execute(path, parameters=own, progress=run.progress, for_page=True)
    except NotebookError as error:
        notebook, stopped = error.notebook, str(error)
    values = {**defaults, **own}
    elsewhere = run.folder.name if values.get("PILOT", about) != about else ""
    if values.get("LIVE"):
        elsewhere = Path(str(values.get("STORE", "a live study"))).name
    sentences: list[str] = []
    if elsewhere and run.result is not None:
        findings = run.result.findings
        topics = _TOPICS.get(path.stem[:2], ())
        sentences = list(findings.loc[findings["topic"].isin(topics), "sentence"])
    return chapter_of(notebook, path, run.out, tuple(sentences), stopped, elsewhere, other_study)


def _headline_figures(result: Answer, out: Path, fingerprint: str) -> list[Figure]:
    """Save and return the headline figure, divided into several if there are many skills."""
    rows = result.headline()
    skills = list(dict.fromkeys(rows["skill"]))
    reference = rows["reference"].iloc[0] if len(rows) else "baseline"
    against = "no skill" if reference == "baseline" else treatment(reference)
    lead = f"Change in the share of answers that pass, against {against}, on the same cases."
    lead += _source_of_estimates(rows)
    ours = re.compile(rf"00-answer(-.*)?\.({'|'.join(ENDINGS)})")
    for old in [f for f in out.iterdir() if ours.fullmatch(f.name) and f.is_file()]:
        old.unlink()  # an earlier page may have left more figures
    figures = []
    for start in range(0, len(skills), ON_FIRST_PAGE):
        some = skills[start : start + ON_FIRST_PAGE]
        stem = f"00-answer-{start // ON_FIRST_PAGE + 1}" if start else "00-answer"
        data, fig = {"delta": rows[rows["skill"].isin(some)]}, result.draw(some)
        paths = style.save(fig, out / stem, data=data, caption=lead, fingerprint=fingerprint)
        plt.close(fig)
        figures.append(figure_of(paths[1].read_bytes(), stem, out))
    return figures


def _source_of_estimates(rows: pd.DataFrame) -> str:
    """Name the conditions that are corrected by gold, and those by the grader alone."""
    if "estimator" not in rows.columns or rows["estimator"].eq(NAIVE).all():
        return ""
    alone = rows["estimator"].eq(NAIVE).groupby(rows["condition"], sort=False)
    kinds = {"Corrected by gold": ~alone.any(), "By the grader alone": alone.all()}
    parts = [f"{word}: {listing(kind.index[kind])}." for word, kind in kinds.items() if kind.any()]
    return f" {' '.join(parts)}" if parts else ""


def _write_archive(out: Path, names: Iterable[str]) -> str:
    """Zip the named files and their captions, without dates; return the name of the archive.

    If none of the files exists, an earlier archive is removed and the result is an empty text.
    """
    paths = {file for name in names for file in (out / name, (out / name).with_suffix(".txt"))}
    files = sorted(file for file in paths if file.is_file())
    if not files:
        (out / ARCHIVE).unlink(missing_ok=True)
        return ""
    with zipfile.ZipFile(out / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    return ARCHIVE


_ADAPTIVE = (
    "The adaptive intervals assume no cases unlike those observed, as far as attempts at a case "
    "have mixed outcomes. They show a gain a little less often than a t interval does (55 % "
    "against 61 % of studies, for 30 points with 10 cases of 3 attempts). A t interval misses the "
    "truth in 23 % of studies where agents always give the same answer and few cases change."
)


def _assumption_of_intervals(result: Answer | None) -> str:
    """Say what the adaptive intervals assume; return "" if there are none."""
    frames_of_result = {} if result is None else result.frames
    methods = [frame["method"] for frame in frames_of_result.values() if "method" in frame]
    adaptive = any(names.astype("str").str.startswith("adaptive").any() for names in methods)
    return _ADAPTIVE if adaptive else ""


def _provenance_rows(result: Answer | None, fingerprint: str) -> list[Any]:
    """Return pairs of name and value: versions, hash of the study, seeds and methods."""
    rows = [("Study, sha256", fingerprint), ("Python", python_version())]
    rows += [("skillcomp", skillcomp.__version__)]
    rows += [(name, version(name)) for name in _PACKAGES]
    if result is not None:
        with_method = [frame for frame in result.frames.values() if "method" in frame]
        methods = [method for frame in with_method for method in frame["method"].dropna()]
        seeds = {seed for m in methods for seed in re.findall(r"seed (\d+)", str(m))}
        rows += [("Seeds", ", ".join(sorted(seeds)) or "no resampling behind these numbers")]
        rows += [("Method", str(name)) for name in dict.fromkeys(methods)]
    return rows


def _page_template() -> Template:
    environment = Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["figure"] = lambda part: isinstance(part, Figure)
    return environment.get_template("report.html")


def _about_skill(
    name: str,
    group_of: Mapping[str, str],
    topics: Mapping[str, list[dict[str, Any]]],
    notes: pd.DataFrame,
) -> dict[str, Any]:
    """Return the sentences on a skill; those on its placebo and its notes are shown on request."""
    sentences = {
        topic: [row for row in topics.get(topic, []) if row["about"] == name]
        for topic in ("skill", "condition", "placebo")
    }
    of_skill = notes["topic"].eq("skill") & notes["about"].eq(name)
    folded = [row["sentence"] for row in sentences["placebo"]] + list(notes.loc[of_skill, "text"])
    rows = sentences["skill"] + sentences["condition"]
    return {"group": group_of.get(name, ""), "rows": rows, "folded": folded}


def _first_page(result: Answer | None, problem: str, fingerprint: str) -> dict[str, Any]:
    """Return the variables of the template of the first page."""
    rows: list[Any] = [] if result is None else result.findings.to_dict("records")
    skills = [] if result is None else list(dict.fromkeys(result.headline()["skill"]))
    group_of = {} if result is None else result.groups
    topics: dict[str, list[dict[str, Any]]] = {}
    checked = result is not None and "agreement" in result.frames
    signs = style.VERDICT_SIGNS if checked else _UNCHECKED_SIGNS
    for row in rows:
        sentence = str(row["sentence"]).replace(" %", "\N{NO-BREAK SPACE}%")
        why = row["why"] if isinstance(row["why"], str) else ""
        mark = signs.get(str(row["verdict"]), "?")
        marked = row | {"mark": mark, "sentence": sentence, "why": why}
        topics.setdefault(row["topic"], []).append(marked)
    notes = notes_of({} if result is None else result.frames)
    subjects = dict.fromkeys([*skills, *(row["about"] for row in topics.get("skill", []))])
    digest = hashlib.sha256(json.dumps(rows, default=str).encode()).hexdigest()
    return {
        "topics": topics,
        "notes": {name: list(part["text"]) for name, part in notes.groupby("topic", sort=False)},
        "skills": [_about_skill(name, group_of, topics, notes) for name in subjects],
        "answered": result,
        "problem": problem,
        "first": ON_FIRST_PAGE,
        "intervals": _assumption_of_intervals(result),
        "provenance": [*_provenance_rows(result, fingerprint), ("Sentences, sha256", digest)],
    }
