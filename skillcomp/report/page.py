"""The page of a report: the answer first, the chapters below, every figure with its files."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import Any

import matplotlib.pyplot as plt
from jinja2 import Environment, PackageLoader, Template, select_autoescape
from tqdm.auto import tqdm

import skillcomp
from skillcomp import frames, style
from skillcomp.errors import SkillcompError, StudyError, instead
from skillcomp.frames import Frames
from skillcomp.io.files import replace_file
from skillcomp.io.store import RunStore
from skillcomp.report.answer import ON_FIRST_PAGE, Answer, answer, opened
from skillcomp.report.chapters import ENDINGS, Chapter, Figure, chapter_of, figure_of
from skillcomp.report.notebooks import NotebookError, execute, find_notebooks, named_parameters

ARCHIVE = "figures.zip"
_OWN_TABLE = "your table"  # what a study is called that has no folder
# what build says itself; NEEDS is the frame without whose rows a chapter keeps to its own data
# and to a page of its own
_OWN_PARAMETERS = {"DATA", "OUT", "PILOT", "NEEDS"}
_PACKAGES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn")
_MARKS = {"teaching": "▲", "harmful": "▼", "redundant": "●", "ineffective": "="}
# the findings that open a chapter when its own text is about another study
_TOPICS = {"02": ("summary", "skill"), "03": ("transfer",), "04": ("limits",)}
_TOPICS |= {"09": ("structure",)}
_TOPICS |= {"05": ("grader", "drift"), "07": ("correction",)}


def build(
    study: RunStore | str | PathLike[str] | Frames,
    out: str | PathLike[str],
    *,
    notebooks: Sequence[Path] | None = None,
    parameters: Mapping[str, object] | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    order: str = "effect",
    progress: bool = True,
) -> Path:
    """Write ``index.html``: the answer of a study, and the notebooks executed on a recorded one.

    Parameters
    ----------
    study : skillcomp.RunStore, its path or skillcomp.frames.Frames
        A recorded study, or the frames of your own table, which give the answer only.
    out : str or path
        Folder of the report; made when it is not there.
    notebooks : sequence of pathlib.Path, optional
        By default all notebooks, in order, those that need what this study lacks on pages of
        their own; with none, and for frames, the page is the answer.
    parameters : mapping of str to object, optional
        Other values for what the notebooks name in their cell of parameters, such as
        ``{"GRADER": "forced:claude-opus-5-5"}``; each goes to the notebooks that have it, and
        ``GRADER``, ``MARGIN`` and ``ROUND`` to the answer as well. A ``STORE`` is relative to the
        working directory, as `study` and `out` are.
    groups, margin, order
        As for :func:`answer`.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pathlib.Path
        The page. Beside it stand pdf, png, svg, csv and json of every figure, and all of them in
        ``figures.zip``. Of a chapter whose text was written about another study the headings,
        tables and figures are shown, and computed sentences in place of the text; where it needs
        what this study lacks it ends early and says so, unless its parameter ``NEEDS`` names that
        (a frame of its store, or ``design``): then it keeps to the recorded study it is about.

    Raises
    ------
    StudyError
        If the path holds no study, the notebooks are not there or no notebook has a parameter. If
        a cell of a chapter about this study fails, the page is written all the same, with what
        came before that cell and the chapters that did not fail; then the error names every cell
        that did.
    """
    if order not in ("effect", "name"):
        raise StudyError(f"report: order '{order}'; allowed: effect, name.")
    out = Path(out)
    study = opened(study)
    paths: list[Path] = []
    folder = Path(_OWN_TABLE)
    if isinstance(study, RunStore):
        paths = list(notebooks) if notebooks is not None else find_notebooks()
        folder = study.path
    elif notebooks:
        raise StudyError("report: the notebooks read a recorded study; frames give the answer.")
    named = {path: named_parameters(path) for path in paths}
    wanted = dict(parameters or {})
    _require_named(wanted, named.values())
    out.mkdir(parents=True, exist_ok=True)
    wanted |= {"DATA": str(folder.resolve()), "OUT": str(out.resolve())}
    if "STORE" in wanted:
        wanted["STORE"] = str(Path(str(wanted["STORE"])).resolve())
    grader = str(wanted["GRADER"]) if "GRADER" in wanted else None
    margin = _margin(wanted.get("MARGIN", margin))
    how = {"margin": margin, "round": _round(wanted.get("ROUND", 1), study)}
    said, unsaid = _answered(study, grader, {"groups": groups, "order": order, **how})
    fingerprint = study.fingerprint
    figures = _headline(said, out, fingerprint) if said else []
    every: list[Chapter] = []
    apart: dict[str, str] = {}  # chapters on pages of their own, and the studies that they show
    for path in tqdm(paths, desc="report", unit=" notebooks", disable=not (progress and paths)):
        own = {name: value for name, value in wanted.items() if name in named[path]}
        about = fingerprint
        if "NEEDS" in named[path] and not _has_rows(study, str(named[path]["NEEDS"])):
            own = {"OUT": wanted["OUT"]}  # what was asked of this study is not meant for another
            about = str(named[path]["PILOT"])
            apart[path.stem] = Path(str(named[path]["DATA"])).name
        elif said and said.grader and named[path].get("PILOT", fingerprint) != fingerprint:
            # the grader that a notebook names is of the study that it was written about
            grader_of = {"GRADER": said.grader.partition(" (")[0]}
            own = (grader_of if "GRADER" in named[path] else {}) | own
        every.append(_executed(path, own, named[path], folder, out, about, said, progress))
    drawn = [*figures, *(figure for chapter in every for figure in chapter.figures)]
    names = {name for figure in drawn for _, name in figure.files}
    zipped = _archive(out, names.union(*(chapter.files for chapter in every)))
    template = _template()
    common = {"study": folder.name, "archive": zipped, "version": skillcomp.__version__}
    chapters = [one for one in every if one.stem not in apart and not one.bare]
    held = _first_page(said, unsaid, fingerprint) | {"figures": figures, "chapters": chapters}
    page = out / "index.html"
    replace_file(page, template.render(**common, **held, every=every, apart=apart).encode())
    for one in (one for one in every if one.stem in apart):
        alone = template.render(**common, chapters=[one], alone=one, shows=apart[one.stem])
        replace_file(out / f"{one.stem}.html", alone.encode())
    told = [one.stopped for one in every if one.stopped and not one.elsewhere]
    if told:
        raise StudyError(
            f"{page} was built, but {len(told)} of {len(every)} chapters ended early. "
            + " ".join(told)
        )
    return page


def _has_rows(study: RunStore | Frames, kind: str) -> bool:
    """Tell whether a study has rows of the frame that a chapter is about, or the design."""
    if not isinstance(study, RunStore):
        return False
    if kind == "design":
        return bool(study.manifest.get(kind))
    return not getattr(frames, kind)(study).empty


def _margin(given: object) -> float:
    if isinstance(given, int | float) and 0 < given < 1:
        return float(given)
    raise StudyError(f"report: margin: found {given!r}; allowed: a number above 0 and below 1.")


def _round(given: object, study: RunStore | Frames) -> int:
    """Return which grading counts; refuse one that the study does not hold."""
    if isinstance(study, Frames) or given == 1:
        return 1
    there = sorted(set(study.table("verdicts").column("round").to_pylist()) - {None})
    if isinstance(given, int) and given in there:
        return given
    raise StudyError(
        f"report: there is no round {given}; there: {', '.join(map(str, there)) or 'none'}."
    )


def _answered(
    study: RunStore | Frames, grader: str | None, how: Mapping[str, Any]
) -> tuple[Answer | None, str]:
    """Return the answer, or why the study gives none.

    A grader that is not of this study may be one of a notebook's own: the default takes its place.
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


def _require_named(wanted: Mapping[str, object], named: Iterable[Mapping[str, object]]) -> None:
    known = sorted({name for own in named for name in own} - _OWN_PARAMETERS)
    for name in wanted:
        if name not in (*known, "GRADER", "MARGIN", "ROUND"):
            told = instead(name, known)
            raise StudyError(f"report: no notebook has a parameter '{name}'{told}")


def _executed(
    path: Path,
    own: dict[str, object],
    named: Mapping[str, object],
    data: Path,
    out: Path,
    study: str,
    said: Answer | None,
    progress: bool,
) -> Chapter:
    """Run one notebook and make a chapter of it, however far it came."""
    stopped = ""
    try:
        notebook = execute(path, parameters=own, progress=progress, for_page=True)
    except NotebookError as error:
        notebook, stopped = error.notebook, str(error)
    values = {**named, **own}
    elsewhere = data.name if values.get("PILOT", study) != study else ""
    if values.get("LIVE"):
        elsewhere = Path(str(values.get("STORE", "a live study"))).name
    told: list[str] = []
    if elsewhere and said is not None:
        topics = _TOPICS.get(path.stem[:2], ())
        told = list(said.findings.loc[said.findings["topic"].isin(topics), "sentence"])
    return chapter_of(notebook, path, out, tuple(told), stopped, elsewhere)


def _headline(said: Answer, out: Path, fingerprint: str) -> list[Figure]:
    """Save and return the headline figure, in pieces where there are many skills."""
    rows = said.headline()
    skills = list(dict.fromkeys(rows["skill"]))
    lead = "Change in the share of answers that pass, against no skill, on the same cases."
    ours = re.compile(rf"00-answer(-.*)?\.({'|'.join(ENDINGS)})")
    for old in [f for f in out.iterdir() if ours.fullmatch(f.name) and f.is_file()]:
        old.unlink()  # of an earlier report
    figures = []
    for start in range(0, len(skills), ON_FIRST_PAGE):
        some = skills[start : start + ON_FIRST_PAGE]
        stem = f"00-answer-{start // ON_FIRST_PAGE + 1}" if start else "00-answer"
        data, fig = {"delta": rows[rows["skill"].isin(some)]}, said.draw(some)
        paths = style.save(fig, out / stem, data=data, caption=lead, fingerprint=fingerprint)
        plt.close(fig)
        figures.append(figure_of(paths[1].read_bytes(), stem, out))
    return figures


def _archive(out: Path, names: Iterable[str]) -> str:
    """Put files of this page and their captions into one, the same byte for byte for the same.

    Returns its name, or nothing where there are no files; an earlier one is then removed.
    """
    found = {file for name in names for file in (out / name, (out / name).with_suffix(".txt"))}
    files = sorted(file for file in found if file.is_file())
    if not files:
        (out / ARCHIVE).unlink(missing_ok=True)
        return ""
    with zipfile.ZipFile(out / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    return ARCHIVE


def _provenance(said: Answer | None, fingerprint: str) -> list[Any]:
    """Return versions, hashes and seeds, as pairs of what and which."""
    rows = [("Study, sha256", fingerprint), ("Python", python_version())]
    rows += [("skillcomp", skillcomp.__version__)]
    rows += [(name, version(name)) for name in _PACKAGES]
    if said is not None:
        methods = [m for f in said.frames.values() if "method" in f for m in f["method"].dropna()]
        seeds = {seed for m in methods for seed in re.findall(r"seed (\d+)", str(m))}
        rows += [("Seeds", ", ".join(sorted(seeds)) or "no resampling behind these numbers")]
        rows += [("Method", str(name)) for name in dict.fromkeys(methods)]
    return rows


def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["figure"] = lambda part: isinstance(part, Figure)
    return environment.get_template("report.html")


def _first_page(said: Answer | None, unsaid: str, fingerprint: str) -> dict[str, Any]:
    """Return what the first page says, for the template."""
    found: list[Any] = [] if said is None else said.findings.to_dict("records")
    skills = [] if said is None else list(dict.fromkeys(said.headline()["skill"]))
    group_of = {} if said is None else said.groups
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        sentence = str(row["sentence"]).replace(" %", "\N{NO-BREAK SPACE}%")
        marked = row | {"mark": _MARKS.get(str(row["verdict"]), "?"), "sentence": sentence}
        topics.setdefault(row["topic"], []).append(marked)
    of_skills = topics.get("skill", [])
    order = {name: place for place, name in enumerate(skills)}
    of_skills.sort(key=lambda row: order.get(row["about"], len(order)))
    digest = hashlib.sha256(json.dumps(found, default=str).encode()).hexdigest()
    return {
        "topics": topics,
        "answered": said,
        "unsaid": unsaid,
        "groups": [group_of.get(row["about"], "") for row in of_skills],
        "first": ON_FIRST_PAGE,
        "provenance": [*_provenance(said, fingerprint), ("Sentences, sha256", digest)],
    }
