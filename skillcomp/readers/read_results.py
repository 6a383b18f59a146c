"""Read the results of another tool, a table or a store as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from filecmp import cmp
from importlib.metadata import entry_points
from itertools import combinations
from os import PathLike
from os.path import exists
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import (
    FILE_FACTS,
    TABLE_OPTIONS,
    UNKNOWN,
    FrameError,
    argument,
    arguments_as,
    in_python,
    literal,
    require_known,
    shortened,
    suggest,
)
from skillcomp.frames.from_frame import ROLES
from skillcomp.frames.from_store import frames_of_store
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_files import (
    frames_of_table,
    json_table_at,
    longest_list,
    one_arm,
    one_table,
    table_at,
    table_in_python,
)
from skillcomp.frames.table_pairs import pairwise_of
from skillcomp.frames.table_reader import changes_frame, warn_of_changes
from skillcomp.frames.words import as_literal, distinct_words, truth_words
from skillcomp.io.files import (
    MAX_BYTES,
    MAX_RESULTS,
    as_path,
    forget_files,
    json_content,
    open_file,
    read_json,
    shown,
)
from skillcomp.io.journal import is_store
from skillcomp.readers.deepeval import DeepevalReader
from skillcomp.readers.harbor import HarborReader
from skillcomp.readers.inspect_log import InspectReader
from skillcomp.readers.plugin_eval import PluginEvalReader
from skillcomp.readers.promptfoo import PromptfooReader
from skillcomp.readers.reader import Problems, Reader
from skillcomp.readers.result_table import (
    frames_of,
    last_iteration,
    refuse_agents_by_arm,
    report_order,
    report_unshared_cases,
    with_arguments,
    with_case,
    with_conditions,
    with_equal_inputs,
)
from skillcomp.readers.skill_creator import BenchmarkReader, TriggerReader, WorkspaceReader

# formats in the order in which they are tried
_BUILT_IN: tuple[type[Reader], ...] = (
    PluginEvalReader,
    PromptfooReader,
    TriggerReader,
    BenchmarkReader,
    WorkspaceReader,
    DeepevalReader,
    HarborReader,
    InspectReader,
)
_DEPTH = 4  # Number of levels of folders in which results are looked for.
_SUFFIXES = (".json", ".jsonl", ".eval")  # Suffixes of the files that are tried inside a folder.


def as_columns(name: str, value: object) -> str:
    """Name an argument as `read_results` takes it: a role in ``columns=``."""
    if name not in ROLES:
        return in_python(name, value)
    if value is UNKNOWN:
        return f"'{name}' in columns="
    return f"columns={{{literal(value)}: {name!r}}}"


@arguments_as(as_columns)
def read_results(
    path: str | PathLike[str] | Mapping[str, str | PathLike[str]],
    *,
    words: Mapping[str, Mapping[Any, Any]] | None = None,
    columns: Mapping[str, str] | None = None,
    skill: str | None = None,
    case: str | None = None,
    agent: str | None = None,
    agent_model: str | None = None,
    grader_model: str | None = None,
    shared_cases: bool | None = None,
    checks: Literal["all", "shared"] | None = None,
    **options: Any,
) -> Frames:
    """Read the results of another tool as checked frames.

    The format is recognised by its content. If there are several iterations of a skill, which are
    versions and never repeats, the last one is read; give the path of another one to read it. The
    path may also be a store of skillcomp, or a table (csv, parquet, or JSON objects). The columns
    of a table are named like the arguments of :func:`skillcomp.from_frame` or, for pairs, have
    usual names. In a csv file, ids and words are text as they stand there, and an empty cell is a
    missing value.

    Parameters
    ----------
    path : path, or mapping of str to path
        A file or folder of results. If each file holds one arm, a mapping of condition to path.
    words : mapping of str to mapping, optional
        Meaning of words, as in :func:`skillcomp.from_frame`, such as
        ``{"condition": {"plain": "baseline", "tuned": "skill"}}``; for results of a tool, of the
        words for its arms.
    columns : mapping of str to str, optional
        Maps the name of a column of a table, or of a field of a tool's results, to its role, if
        they differ, such as ``{"task": "case"}`` or ``{"provider": "condition"}``. A role is an
        argument of :func:`skillcomp.from_frame` that names a column. If the table also has a
        column that is called ``case``, that column is left out, unless it is given a role, too.
    skill, agent, agent_model, grader_model : str, optional
        Facts that the files do not contain; each value applies to all rows. ``skill`` also selects
        one of several skills. If a file has another value, the argument replaces it, and
        ``problems`` lists the change.
    case : str, optional
        The field that names the case, or the case itself if the file names none.
    shared_cases : bool, optional
        Whether cases with the same name under several skills are the same task, as in
        :func:`skillcomp.from_frame`.
    checks : {"shared", "all"}, optional
        What to do with a check that was graded only in some arms of a case. Default: raise an
        error; ``"shared"`` leaves the check out, ``"all"`` keeps it.
    **options
        For a table: the other arguments of :func:`skillcomp.from_frame`, such as ``keep``,
        ``missing``, ``asked``, ``gold`` and ``skills``. ``asked`` and ``gold`` may be files.

    Returns
    -------
    Frames
        As :func:`skillcomp.from_frame` returns them. ``pairwise`` holds comparisons of two answers.
        ``problems`` lists values that were converted or left out, unknown facts, and the known
        distortions of the tool's results. Repeats are attempts of one case. If a judge failed, its
        verdict is missing and has the status ``error``; it is never a fail.

    Raises
    ------
    FrameError
        If the format is unknown, neither the file nor an argument names the arms and the case, or
        arms were graded on different checks.

    Warns
    -----
    FrameWarning
        One warning that lists the problems. ``warnings.simplefilter("error", FrameWarning)`` makes
        it an error.

    See Also
    --------
    skillcomp.from_frame : Reads a table of your own.
    skillcomp.frames.concat : Combines several studies.

    Examples
    --------
    A result of ``claude plugin eval`` with one case, which passes only with the skill.

    >>> import json, warnings
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> def arm(passed):
    ...     graders = [{"name": "names the rule", "type": "llm", "weight": 1}]
    ...     rows = [{"name": "names the rule", "passed": passed, "explanation": "", "scored": True}]
    ...     return [{"score": int(passed), "passed": passed, "error": None, "graders": rows}]
    >>> cases = [{"name": "tides", "arms": {"with": arm(True), "without": arm(False)}}]
    >>> content = {"schemaVersion": 1, "claudeVersion": "2", "suite": {}, "cases": cases}
    >>> with TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     file = Path(folder, "aggregate-result.json")
    ...     _ = file.write_text(json.dumps(content))
    ...     own = read_results(file, skill="sea", agent="claude", agent_model="m", grader_model="j")
    >>> own.outcomes[["case_id", "condition", "passed"]]
      case_id condition  passed
    0   tides     skill    True
    1   tides  baseline   False
    """
    arguments = dict(locals())
    if checks is not None:
        require_known("read_results: checks=:", checks, ("all", "shared"))
    for name in set(options) - set(TABLE_OPTIONS):
        raise TypeError(f"read_results: no argument '{name}'.{suggest(name, TABLE_OPTIONS)}")
    if not isinstance(words, Mapping | None):
        raise FrameError(f"read_results: {argument('words')}: found {literal(words)}; no mapping.")
    for name in ("asked", "gold"):
        if isinstance(options.get(name), str | PathLike):
            options[name] = table_at(_paths_by_condition(options[name])[None], needed=True)
    problems = Problems()
    facts = {name: arguments[name] for name in FILE_FACTS}
    paths = _paths_by_condition(path)
    place = ", ".join(shown(file) for file in paths.values())
    try:
        if None in paths and paths[None].is_dir() and is_store(paths[None]):
            named = [*facts, "words", "case", "columns", "shared_cases"]
            given = [n for n in named if arguments[n] not in (None, {})] + list(options)
            if listed := ", ".join(argument(f"fact {name}") for name in given):
                raise FrameError(f"{place}: a store of skillcomp, which needs no {listed}.")
            return _reported(frames_of_store(paths[None]), problems, place)
        columns = columns or {}
        own = one_table(paths, columns)
        readers = _readers() if own is None else []
        if None in paths and own is None and not any(r.recognises(paths[None]) for r in readers):
            own = json_table_at(paths[None], columns)
        if own is not None:
            made = frames_of_table(
                own,
                {**facts, "case": case},
                columns,
                words=words,
                shared_cases=shared_cases,
                checks=checks or "all",
                name=place,
                **options,
            )
            return _reported(made, problems, place)
        if options:
            listed = ", ".join(map(argument, options))
            raise FrameError(f"{place}: only a table has {listed}, and this is none.")
        tables, pairs = [], []
        for condition, file in paths.items():
            reader, file = _reader_and_file(file, readers)
            rows, compared = reader.table(file, problems), reader.pairs(file, problems)
            tables.append(one_arm(rows, condition, shown(file)))
            if rows.empty and condition is not None:
                problems.add(
                    "arms", f"{condition} has no results", "nothing is compared with it", 0
                )
            pairs.append(last_iteration(compared, Problems()))
        table = pd.concat(tables, ignore_index=True)
        if table.empty:
            raise FrameError(f"{place}: {reader.name}: there are no results in it.")
        table = last_iteration(table, problems)
        arms = (words or {}).get("condition") or {}
        if other := [role for role in words or {} if role != "condition"]:
            raise FrameError(f"{place}: only a table has words of {', '.join(other)}.")
        table = _with_fields(table, columns, arms, place)
        table = with_arguments(with_case(table, case, place), facts, problems)
        compared = pd.concat(pairs, ignore_index=True)
        sides = {*compared["first"], *compared["second"]}
        table, meanings = with_conditions(table, arms, place, sides)
        refuse_agents_by_arm(table, place)
        report_unshared_cases(table, problems)
        report_order(table, problems)
        table = with_equal_inputs(table, problems)
        table = table.assign(grader=table.get("grader", reader.name))
        made = frames_of(table, checks, problems, place, shared_cases)
        if len(compared):
            # a format that names no skill in its comparisons has a single skill
            skill_of_pair = compared.get("skill", table["skill"].iloc[0])
            compared = with_case(compared, case, place).assign(skill=skill_of_pair)
            pairwise = pairwise_of(compared, made.attempts, meanings, problems.add)
            made = replace(made, pairwise=pairwise)
        return _reported(made, problems, place)
    finally:
        forget_files()


def _with_fields(
    table: pd.DataFrame, columns: Mapping[str, str], words: Mapping[Any, Any], place: str
) -> pd.DataFrame:
    """Give fields of a tool's results the roles that the caller names."""
    for name, role in columns.items():
        require_known(f"{place}: columns: {name!r}: found no role", role, ROLES)
        known = list(map(str, table.columns))
        require_known(f"{place}: columns: found no field", name, known, label="there")
        open_ = truth_words(name, role, distinct_words(table[name])) if role == "condition" else {}
        if {word for word in open_ if word not in words and str(word) not in words}:
            found = " and ".join(map(as_literal, open_))
            meaning = argument("words", {role: dict.fromkeys(open_, UNKNOWN)})
            raise FrameError(f"{place}: {name}: found {found}; {meaning} says what they mean.")
        table = table.assign(**{role: table[name]})
        if name == "agent":
            table = table.assign(agent=None)  # it is only another name of the role
    return table


def _paths_by_condition(path: Any) -> dict[str | None, Path]:
    """Return the path of each condition; a single path has the key None."""
    parts = dict(path) if isinstance(path, Mapping) else {None: path}
    paths = {name: as_path(part, "read_results: path", FrameError) for name, part in parts.items()}
    for place in paths.values():
        if not exists(place):
            near = suggest(place.name, [other.name for other in place.parent.glob("*")])
            raise FrameError(f"{place}: there is no such file or folder.{near}")
    if not paths:
        raise FrameError("read_results: path: an empty mapping; expected condition: path.")
    for one, other in combinations(paths, 2):
        if paths[one].is_file() and paths[other].is_file() and cmp(paths[one], paths[other], False):
            raise FrameError(f"{paths[one]}: {one} and {other} are the same file.")
    # a link that the user names is followed; links inside a folder may not lead out of the folder
    return {name: place.resolve() for name, place in paths.items()}


def _readers() -> list[Reader]:
    """Return the readers of this package, then those of installed packages."""
    readers = [kind() for kind in _BUILT_IN]
    for entry in entry_points(group="skillcomp.readers"):
        try:
            guest = entry.load()
            readers.append(guest() if isinstance(guest, type) else guest)
        except Exception as cause:  # code of another package may raise any exception
            raise FrameError(
                f"reader '{entry.name}' ({entry.value}) of an installed package failed to load: "
                f"{type(cause).__name__}: {cause}"
            ) from cause
    return readers


def _reader_and_file(path: Path, readers: Sequence[Reader]) -> tuple[Reader, Path]:
    """Return the reader that recognises a path, and the file or folder that it reads."""
    if first := next((r for r in readers if r.recognises(path)), None):
        return first, path
    matches = [(r, place) for place in _files_inside(path) for r in readers if r.recognises(place)]
    files = list(dict.fromkeys(place for _, place in matches))
    if len(files) > 1:
        listing = shortened((place.relative_to(path).as_posix() for place in files), 5)
        raise FrameError(
            f"{path}: {len(files)} files of results: {listing}. Name one of them, or one per "
            "arm: {'baseline': path, 'skill': path}. sc.frames.concat combines studies."
        )
    if matches:
        return matches[0]
    raise FrameError(_unknown_format(path, readers))


def _files_inside(folder: Path) -> list[Path]:
    """Return the files that may hold results, from a folder and its subfolders; none of a file."""
    pattern = [folder.glob("/".join(["*"] * depth)) for depth in range(1, _DEPTH + 1)]
    files = [file for level in pattern for file in level if file.suffix in _SUFFIXES]
    if len(files) > MAX_RESULTS:
        raise FrameError(f"{folder}: {len(files):,} files; name the file of results.")
    return sorted(file for file in files if file.is_file())


def _unknown_format(path: Path, readers: Sequence[Reader]) -> str:
    """Return the error message for a path that no reader recognises; raise for broken JSON."""
    names = ", ".join(reader.name for reader in readers)
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        return f"{path}: more than {MAX_BYTES:,} bytes; a file of results may have at most these."
    for file in [path] if path.is_file() else _files_inside(path):
        with open_file(file, what="file of results", error=FrameError) as stream:
            head = stream.read(100).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head.startswith((b"{", b"[")):  # it looks like JSON
            read_json(file)
    content = json_content(path)
    keys, rows = longest_list(content, ())
    if not rows and isinstance(content, dict) and "run_summary" in content:
        return (
            f"{path}: run_summary holds averages only, which have no cases. Read the folder with "
            "the grading of each run."
        )
    known = f"{path}: the content has no known format; known: {names}, a store, csv and parquet."
    python = table_in_python(path, keys, rows)
    other = " Read any other file with pandas and convert it: sc.from_frame(table, ...)."
    return known + (python or other)


def _reported(made: Frames, problems: Problems, place: str) -> Frames:
    """Add the problems of the reader to the frames, and warn of all of them."""
    every = pd.concat([changes_frame(problems.changes), made.problems], ignore_index=True)
    warn_of_changes(f"{place} was read", every, 4)
    return replace(made, problems=every)
