"""Read the results of another tool, a table or a store as frames.

The table of a tool's reader is completed (arguments, iterations, checks, ids) and then converted.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from filecmp import cmp
from importlib.metadata import entry_points
from itertools import chain, combinations
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
    plural,
    require_known,
    shortened,
    suggest,
)
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.from_frame import CARRIED, ROLES, frames_of_columns, pairwise_of
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
from skillcomp.frames.table_reader import (
    WHAT,
    FrameWarning,
    TableReader,
    changes_frame,
    warn_of_changes,
)
from skillcomp.frames.words import (
    ARGUMENTS,
    as_literal,
    condition_names,
    distinct_words,
    pooled_words,
    truth_words,
)
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
from skillcomp.readers.reader import Problems, Reader, in_one_line
from skillcomp.readers.skill_creator import BenchmarkReader, TriggerReader, WorkspaceReader

CASE = ["skill", "case"]
_CELL = [*CASE, "condition", "agent"]
_NEEDED = ["case", "condition", "passed"]
_OF_CASES = ("prompt_kind", "right_skills")  # columns of cases that `from_frame` does not take
MECHANICAL = ("tests", "rules", "regex", "tool_used", "tool_order", "file_exists")
_SHOWN = 3  # maximum number of checks that an error message lists
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
        _report_arms(table, problems, place)
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


def last_iteration(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the rows of the last iteration, which is a version of the skill and no repeat."""
    if "iteration" not in table:
        return table
    number = table["iteration"]
    skill = table.get("skill", pd.Series("", table.index))
    is_last = number.eq(number.groupby(skill, dropna=False).transform("max"))
    if not is_last.all():
        listed, read = (", ".join(map(str, sorted(set(n)))) for n in (number, number[is_last]))
        done = f"{read} was read: they are versions of the skill and its checks, not repeats"
        problems.add("iterations", listed, done, int((~is_last).sum()))
    return table[is_last].drop(columns="iteration").reset_index(drop=True)


def with_arguments(
    table: pd.DataFrame, values: Mapping[str, str | None], problems: Problems
) -> pd.DataFrame:
    """Put the values of arguments into the table; report facts that remain unknown."""
    unknown = []
    for role, value in values.items():
        words = distinct_words(table[role]) if role in table else []
        if value is None:
            if not words and not (role == "grader_model" and _is_mechanical(table)):
                unknown.append(role)
        elif role == "skill" and len(words) > 1 and value in words:
            problems.add("skills", ", ".join(map(str, words)), f"{value} was read")
            table = table[table[role].eq(value)].reset_index(drop=True)
        else:
            for word in [word for word in words if word != value]:
                n = int(table[role].eq(word).sum())
                problems.add(role.replace("_", " "), literal(word), f"read as {value}", n)
            table = table.assign(**{role: value})
    if "skill" in unknown:
        table = table.assign(skill="the skill")
    if unknown:
        found = ", ".join(unknown).replace("_", " ")
        named = ", ".join(argument(f"fact {role}") for role in unknown)
        done = f"unknown; {named} {'names it' if len(unknown) == 1 else 'name them'}"
        problems.add("not in the file", found, done, len(table))
    return table


def _is_mechanical(table: pd.DataFrame) -> bool:
    """Return whether programs decided every check, so that the grader has no model."""
    if "grader_kind" not in table:
        return False
    kinds = table.loc[table["check"].notna(), "grader_kind"]
    return len(kinds) > 0 and bool(kinds.isin(MECHANICAL).all())


def with_case(table: pd.DataFrame, case: str | None, place: str) -> pd.DataFrame:
    """Add the column ``case``: a copy of the column named `case`, or the text `case` itself."""
    if case is None:
        if "case" in table:
            return table
        raise FrameError(
            f"{place}: the file does not name the case; {argument('fact case')} names it."
        )
    if case in table:
        return table.assign(case=table[case])
    if "case" not in table:
        return table.assign(case=case)
    words = ", ".join(str(name) for name in table if name not in ARGUMENTS["check"])
    raise FrameError(
        f"{place}: {argument('fact case')}: there is no field {literal(case)}; there: {words}."
    )


def _report_arms(table: pd.DataFrame, problems: Problems, place: str) -> None:
    """Raise if each arm has agents of its own; report lone cases, and arms one after the other."""
    pairs = table.reindex(columns=["condition", "agent"]).drop_duplicates()
    arms = pairs["condition"].unique()
    if pairs["agent"].notna().all() and len(arms) > 1 and pairs["agent"].is_unique:
        each = "; ".join(f"{c}: {a}" for c, a in pairs.itertuples(index=False, name=None))
        raise FrameError(
            f"{place}: each arm was answered by another agent ({each}), so a difference between "
            f"the arms would be one between agents. {argument('fact agent')} gives them one name."
        )
    n_rows = table.groupby([*CASE, "condition"], dropna=False).size().unstack(fill_value=0)
    lone = len(arms) > 1 and n_rows.gt(0).sum(axis=1).max() < 2
    if lone:
        done = f"there is no delta; {argument('fact case')} names a field that the arms share"
        problems.add("cases", "none has answers of two arms", done, 0)
    for condition in () if lone else n_rows:
        lacking = n_rows.index[n_rows[condition].eq(0)].get_level_values("case")
        if len(lacking):
            found = f"{plural(len(lacking), 'case')} without answers under {condition}"
            done = "they count in no difference from it"
            problems.add("cases", f"{found}: {shortened(lacking, _SHOWN)}", done, 0)
    if "started_at" in table:
        times = pd.to_datetime(table["started_at"], format="ISO8601", errors="coerce", utc=True)
        starts = times.dropna().groupby(table["condition"])
        spans = starts.agg(["min", "max", "nunique"]).query("nunique > 1").sort_values("min")
        if (spans["max"] < spans["min"].shift(-1)).any():
            done = "a change of the service over time looks like an effect of the skill"
            problems.add("order of the runs", "one arm before the other", done, 0)


def with_equal_inputs(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with one prompt per case; report cases with different prompts or files."""
    for name in columns_of(table, "prompt", "files"):
        of_case = table.groupby(CASE, dropna=False)[name]
        of_arm = table.groupby([*CASE, "condition"], dropna=False)[name]
        several = of_arm.transform("nunique").gt(1)
        # several prompts under one condition mean different cases, which are refused later, so skip
        # them here
        mixed = several.groupby([table[key] for key in CASE], dropna=False).transform("any")
        differ = of_case.transform("nunique").gt(1) & ~mixed
        if cases := distinct_words(table.loc[differ, "case"]):
            what = f"not the same in all answers of {plural(len(cases), 'case')}"
            done = f"the delta is that of the {name} too, and not of the skill alone"
            problems.add(name, f"{what}, such as '{cases[0]}'", done, 0)
            table = table.assign(**{name: table[name].mask(differ, of_case.transform("first"))})
    return table


def _counts_as_checks(table: pd.DataFrame, problems: Problems, place: str) -> pd.DataFrame:
    """Turn counts of checks into one row per check; refuse arms with different numbers of checks.

    Which check passed is unknown: the first ``n_passed`` of the numbered checks count as passed.
    """
    if "n_checks" not in table:
        return table
    counted = table["n_checks"].notna()
    rows = table[counted]
    for (_, case), here in rows.groupby(CASE):
        if here["n_checks"].nunique() > 1:
            sizes = here.groupby("condition", sort=False)["n_checks"].unique()
            each = "; ".join(f"{c}: {', '.join(map(str, n))}" for c, n in sizes.items())
            raise FrameError(
                f"{place}: case '{case}' was graded on different numbers of checks ({each}), and "
                "the file does not name them. Arms graded on different checks cannot be compared."
            )
    done = "checks are numbered: shares and passes are right, single checks mean nothing"
    problems.add("checks", "only counts of passed ones", done, len(rows))
    rows = rows.loc[rows.index.repeat(rows["n_checks"].astype(int))]
    number = rows.groupby(level=0).cumcount() + 1
    rows = rows.assign(check="check " + number.astype(str), passed=number.le(rows["n_passed"]))
    parts = [part for part in (rows, table[~counted]) if len(part)]
    return pd.concat(parts, ignore_index=True).drop(columns=["n_checks", "n_passed"])


def _on_shared_checks(
    table: pd.DataFrame, checks: Literal["all", "shared"] | None, problems: Problems, place: str
) -> pd.DataFrame:
    """Refuse or leave out checks that some conditions of a case lack, unless `checks` is "all"."""
    rows = table[table["check"].notna()]
    if checks == "all" or rows.empty:
        return table
    key = [*CASE, "grader"]
    n_arms = rows.groupby(key, dropna=False)["condition"].transform("nunique")
    of_check = rows.groupby([*key, "check"], dropna=False)["condition"]
    lone = rows[of_check.transform("nunique") < n_arms]
    lines = [
        f"case '{case}', check '{check}': only under {', '.join(arms.unique())}"
        for (_, case, _, check), arms in lone.groupby([*key, "check"], dropna=False)["condition"]
    ]
    if lines and checks is None:
        raise FrameError(
            f"{place}: {plural(len(lines), 'check')} that not every arm has: "
            f"{shortened(lines, _SHOWN, '; ')}. {argument('checks', 'shared')} compares on the "
            f"others; {argument('checks', 'all')} keeps them, for rates."
        )
    for line in lines:
        problems.add("checks of one arm", line, "left out")
    return table.drop(index=lone.index).reset_index(drop=True)


def _with_checks(table: pd.DataFrame) -> pd.DataFrame:
    """Give each attempt without a verdict a missing verdict on every check of its case."""
    without = table["check"].isna()
    if not without.any():
        return table
    facts = columns_of(table, *ARGUMENTS["check"])
    pairs = table.loc[~without, [*CASE, *facts]].drop_duplicates([*CASE, "check", "grader"])
    rows = table[without].drop(columns=facts).merge(pairs, on=CASE, how="left")
    rows["check"] = rows["check"].fillna("passed")
    if "check_weight" in rows and table["check_weight"].notna().any():
        rows["check_weight"] = rows["check_weight"].fillna(1)
    made = pd.concat([table[~without], rows], ignore_index=True)
    graders = distinct_words(made["grader"])
    lone = str(graders[0]) if len(graders) == 1 else "unnamed grader"
    return made.assign(grader=made["grader"].fillna(lone))


def _with_whole_graders(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one kind and one model per grader.

    An outcome belongs to one grader. Several kinds become "mixed", and several models a list.
    """
    for name in columns_of(table, "grader_kind", "grader_model"):
        whole = {}
        for grader, values in table.groupby("grader")[name]:
            words = distinct_words(values)
            several = name == "grader_kind" and len(words) > 1
            whole[grader] = "mixed" if several else ", ".join(map(str, words)) or None
        table = table.assign(**{name: table["grader"].map(whole)})
    return table


def _with_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column ``repeat``; rows with the same keys are repeats.

    Attempts without a check follow those with one.
    """
    if "repeat" in table:
        return table
    keys = columns_of(table, *_CELL, "check", "grader")
    repeat = table.groupby(keys, dropna=False).cumcount() + 1
    alone = table["check"].isna()
    graded = repeat.mask(alone, 0).groupby(
        [table[name] for name in columns_of(table, *_CELL)], dropna=False
    )
    return table.assign(repeat=repeat + graded.transform("max").where(alone, 0))


def _refuse_equal_rows(table: pd.DataFrame, place: str) -> None:
    """Raise if two rows are verdicts of one grader on the same check of an attempt."""
    keys = columns_of(table, *_CELL, "repeat", "check", "grader")
    if (twice := table.duplicated(keys)).any():
        first = ", ".join(f"{name} '{table.loc[twice, name].iloc[0]}'" for name in keys)
        raise FrameError(
            f"{place}: {plural(int(twice.sum()), 'row')} are second verdicts on the same check; "
            f"the first: {first}. The files have a run twice, or two cases or checks of one name. "
            "Name the part with each run once."
        )


def _with_invocations(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the skill on offer and the invoked one, if the format records them.

    The skill is on offer in every arm but the baseline. A prompt on which it should not fire is a
    negative one.
    """
    if "triggered" not in table or "offered" in table:
        return table
    known = table["triggered"].notna() & table["condition"].ne("baseline")
    fired = table["triggered"].eq(True)
    skills = pd.Series([(skill,) for skill in table["skill"]], table.index, dtype="object")
    table = table.assign(offered=skills.where(known, None))
    table["invoked"] = skills.where(fired, pd.Series([()] * len(table), table.index)).where(
        known, None
    )
    if "should_trigger" in table:
        table["prompt_kind"] = table["should_trigger"].map({False: "negative"})
    return table


def frames_of(
    table: pd.DataFrame,
    checks: Literal["all", "shared"] | None,
    problems: Problems,
    place: str,
    shared_cases: bool | None = None,
) -> Frames:
    """Complete the rows of a table and convert them to frames.

    A missing verdict has the status ``error`` unless ``verdict_status`` gives another.
    """
    table = _counts_as_checks(table, problems, place)
    if not columns_of(table, "passed", "score"):
        table = table.assign(passed=None, check=None)
    table = table.assign(check=table.get("check", "passed"))
    table = _on_shared_checks(_with_repeats(table), checks, problems, place)
    without = table.groupby(CASE, dropna=False)["check"].transform("count").eq(0)
    of_skill = table.get("triggered", pd.Series(None, table.index)).notna()
    unchecked = set(table.loc[without & of_skill, "case"].astype("str"))
    table = _with_invocations(_with_whole_graders(_with_checks(table)))
    _refuse_equal_rows(table, place)
    empty_columns = table.columns[table.isna().all()].difference(_NEEDED)
    reasons = table.get("verdict_status", pd.Series(None, table.index, dtype="object"))
    table = table.drop(columns=empty_columns).assign(verdict_status=reasons.fillna("error"))
    reader = TableReader(
        table,
        {role: role for role in columns_of(table, *ROLES)},
        place=f"{place} ({WHAT})",
        words={"condition": {name: name for name in table["condition"].unique()}},
    )
    carried = (*chain(*CARRIED.values()), "verdict_status")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)  # the caller warns about all problems
        made = frames_of_columns(reader, carried=carried, shared_cases=shared_cases)
    facts = columns_of(table, *_OF_CASES)
    of_case = table.groupby(CASE, sort=False)[facts].first().rename_axis(["skill", "case_id"])
    cases = made.cases.drop(columns=facts, errors="ignore").join(of_case, on=["skill", "case_id"])
    known = made.problems["found"].eq("error or paused")  # the reader says it in its own words
    if len(unchecked) == table["case"].nunique():
        known |= made.problems["place"].eq("condition")  # triggers need no second condition
    cases = reader.checked({"cases": cases})["cases"]
    # without the cases that only look at the use of the skill
    verdicts, results = (f[~f["case_id"].isin(unchecked)] for f in (made.verdicts, made.outcomes))
    problems_left = made.problems[~known]
    return replace(made, cases=cases, problems=problems_left, verdicts=verdicts, outcomes=results)


def with_conditions(
    table: pd.DataFrame, own: Mapping[Any, str], place: str, sides: Collection[str] = ()
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table with a condition in each row, and the condition that each word means.

    The caller gave the meanings `own`. `sides` are the words for the arms in comparisons.
    """
    if "condition" not in table:
        raise FrameError(_arms_unknown(table, place))
    words = list(map(str, distinct_words(table["condition"])))
    lines = in_one_line([*words, *sides])  # a condition and what a message lists take one line
    own = {lines.get(str(word), str(word)): str(name) for word, name in own.items()}
    if table["condition"].isna().any():
        raise FrameError(f"{place}: some rows name no arm.")
    strange = [word for word in own if word not in lines.values()]
    if strange:
        what = f"{place}: {argument('words')}: there is no arm {literal(strange[0])}"
        raise FrameError(f"{what}; there: {', '.join(map(literal, lines.values()))}.")
    names = condition_names(line for line in lines.values() if line not in own)
    of_line = {line: str(name) for line, name in names.items()} | own
    for problem in pooled_words({lines[word]: of_line[lines[word]] for word in words}, own):
        raise FrameError(f"{place}: {problem}")
    known = {word: of_line[line] for word, line in lines.items()}
    return table.assign(condition=table["condition"].astype("str").map(known)), known


def _arms_unknown(table: pd.DataFrame, place: str) -> str:
    """Return the message on a file that does not say which answers had the skill."""
    words = {
        name: list(map(str, found))
        for name in table
        if name not in _NO_ARMS and (found := distinct_words(table[name]))
    }
    several = {name: found for name, found in words.items() if len(found) > 1} or words
    listed = "; ".join(
        f"{name}: {shortened(map(literal, in_one_line(found).values()), _FEW)}"
        for name, found in several.items()
    )
    return (
        f"{place}: the file does not say which answers had the skill. Name the field of the arms, "
        f"{argument('condition', 'FIELD')}, or give one file per arm, as baseline and "
        f"skill. Fields: {listed or 'none'}."
    )


_FEW = 12  # a message lists at most this many words of a field
# columns that never name the arms
_NO_ARMS = {*ROLES, *chain(*CARRIED.values()), "verdict_status"}
_NO_ARMS -= {"skill", "loaded_skill", "agent", "agent_model", "agent_family"}
