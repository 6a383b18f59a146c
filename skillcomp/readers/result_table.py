"""Complete the table of a reader (arguments, iterations, checks, ids); convert it to frames."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, literal, plural, shortened
from skillcomp.frames.check import check as checked_frame
from skillcomp.frames.check import empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.from_frame import from_frame
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import FrameWarning, made_ids
from skillcomp.frames.words import distinct_words
from skillcomp.readers.reader import (
    ARM_WORDS,
    Problems,
)

CASE = ["skill", "case"]
_CELL = [*CASE, "condition", "agent"]
_OF_CHECK = [
    *("check", "check_kind", "check_weight", "grader", "grader_kind", "grader_model"),
    *("grader_family", "grader_version"),
]
_OF_VERDICTS = ("rationale", "borderline", "grader_kind", "goal", "evidence_quote", "graded_at")
_NO_COLUMNS = {
    *("frame", "asked", "gold_drawn", "drawn_by", "conditions", "missing", "keep", "name"),
    *("shared_cases", "checks"),
}
ROLES = [name for name in inspect.signature(from_frame).parameters if name not in _NO_COLUMNS]
_NEEDED = ("case", "condition", "passed")
_OF_TRIGGERS = ("offered", "invoked")  # columns of attempts that only `frames.invocations` reads
MECHANICAL = ("tests", "rules", "regex", "tool_used", "tool_order", "file_exists")
_SHOWN = 3  # maximum number of checks that an error message lists


def one_iteration(
    table: pd.DataFrame, iteration: int | Literal["last"], problems: Problems, place: str
) -> pd.DataFrame:
    """Return the rows of one iteration: iterations are versions of the skill, never repeats."""
    if "iteration" not in table.columns:
        return table
    if iteration == "last" and "skill" in table and table["skill"].nunique() > 1:
        parts = [rows for _, rows in table.groupby("skill", dropna=False, sort=False)]
        parts = [one_iteration(rows, iteration, problems, place) for rows in parts]
        return pd.concat(parts, ignore_index=True)
    numbers = sorted(table["iteration"].dropna().unique().tolist())
    chosen = numbers[-1] if iteration == "last" and numbers else iteration
    if chosen not in numbers:
        raise FrameError(
            f"{place}: iteration=: found {literal(iteration)}; there: "
            f"{', '.join(map(str, numbers)) or 'none'}; allowed: one of them or 'last'."
        )
    if len(numbers) > 1:
        what = f"iterations {', '.join(map(str, numbers))}"
        done = f"{chosen} was read: they are versions of the skill and its checks, not repeats"
        problems.add("iteration=", what, done, int(table["iteration"].ne(chosen).sum()))
    return table[table["iteration"].eq(chosen)].drop(columns="iteration").reset_index(drop=True)


def with_arguments(
    table: pd.DataFrame, values: Mapping[str, str | None], problems: Problems
) -> pd.DataFrame:
    """Put the values of arguments into the table; report facts that remain unknown."""
    for role, value in values.items():
        column = table[role] if role in table.columns else pd.Series(None, table.index)
        words = distinct_words(column)
        if value is None:
            if not words and not (role == "grader_model" and _is_mechanical(table)):
                done = f"unknown; {role}= names it" if role != "skill" else "called 'the skill'"
                problems.add(f"{role}=", "not in the file", done, len(table))
                table = table.assign(skill="the skill") if role == "skill" else table
            continue
        if role == "skill" and len(words) > 1 and value in words:
            problems.add("skill=", f"skills {', '.join(map(str, words))}", f"{value} was read")
            table = table[column.eq(value)].reset_index(drop=True)
            continue
        for word in words:
            if word != value:
                n = int(column.eq(word).sum())
                problems.add(f"{role}=", f"the file has {literal(word)}", f"read as {value}", n)
        table = table.assign(**{role: value})
    return table


def _is_mechanical(table: pd.DataFrame) -> bool:
    """Return whether programs decided every check, so that the grader has no model."""
    if "grader_kind" not in table.columns:
        return False
    kinds = table.loc[table["check"].notna(), "grader_kind"]
    return len(kinds) > 0 and bool(kinds.isin(MECHANICAL).all())


def with_case(table: pd.DataFrame, case: str | None, place: str) -> pd.DataFrame:
    """Add the column ``case``: a copy of the column named `case`, or the text `case` itself."""
    if case is None and "case" in table.columns:
        return table
    if case is None:
        raise FrameError(f"{place}: the file does not name the case; case= names it.")
    if case in table.columns:
        return table.assign(case=table[case])
    if "case" not in table.columns:
        return table.assign(case=case)
    words = ", ".join(str(name) for name in table.columns if name not in _OF_CHECK)
    raise FrameError(f"{place}: case=: there is no field {literal(case)}; there: {words}.")


def report_unshared_cases(table: pd.DataFrame, problems: Problems) -> None:
    """Report if no case has answers of two arms, so that there is no delta."""
    if table["condition"].nunique() < 2:
        return
    if table.groupby(CASE, dropna=False)["condition"].nunique().max() < 2:
        done = "there is no delta; case= names a field that the arms share"
        problems.add("case=", "no case has answers of two arms", done, 0)


def with_equal_inputs(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with one prompt per case; report cases with different prompts or files."""
    for name in [n for n in ("prompt", "files") if n in table]:
        of_case = table.groupby(CASE, dropna=False)[name]
        of_arm = table.groupby([*CASE, "condition"], dropna=False)[name]
        several = of_arm.transform("nunique").gt(1)
        # several prompts under one condition mean different cases, which are refused later, so skip
        # them here
        keys = [table[column] for column in CASE]
        mixed = several.groupby(keys, dropna=False).transform("any")
        differ = of_case.transform("nunique").gt(1) & ~mixed
        if cases := distinct_words(table.loc[differ, "case"]):
            what = f"differs between the attempts of {plural(len(cases), 'case')}"
            done = f"the delta is that of the {name} too, and not of the skill alone"
            problems.add(name, f"{what}, such as '{cases[0]}'", done, 0)
            table = table.assign(**{name: table[name].mask(differ, of_case.transform("first"))})
    return table


def counts_as_checks(table: pd.DataFrame, problems: Problems, place: str) -> pd.DataFrame:
    """Turn counts of checks into one row per check; refuse arms with different numbers of checks.

    Which check passed is unknown: the first ``n_passed`` of the numbered checks count as passed.
    """
    if "n_checks" not in table.columns:
        return table
    counted = table["n_checks"].notna()
    rows = table[counted]
    totals = rows.groupby(CASE)["n_checks"].nunique()
    if totals.gt(1).any():
        first = totals.index[totals.gt(1)][0]
        here = rows[rows["skill"].eq(first[0]) & rows["case"].eq(first[1])]
        sizes = here.groupby("condition", sort=False)["n_checks"].unique()
        each = "; ".join(f"{c}: {', '.join(map(str, n))}" for c, n in sizes.items())
        raise FrameError(
            f"{place}: case '{first[1]}' was graded on different numbers of checks ({each}), and "
            "the file does not name them. Arms graded on different checks cannot be compared."
        )
    problems.add(
        "checks",
        "only counts of passed checks",
        "checks are numbered: shares and passes are right, single checks mean nothing",
        len(rows),
    )
    rows = rows.loc[rows.index.repeat(rows["n_checks"].astype(int))]
    number = rows.groupby(level=0).cumcount() + 1
    rows = rows.assign(check="check " + number.astype(str), passed=number.le(rows["n_passed"]))
    parts = [part for part in (rows, table[~counted]) if len(part)]
    return pd.concat(parts, ignore_index=True).drop(columns=["n_checks", "n_passed"])


def on_shared_checks(
    table: pd.DataFrame, checks: Literal["all", "shared"] | None, problems: Problems, place: str
) -> pd.DataFrame:
    """Refuse or leave out checks that some conditions of a case lack, unless `checks` is "all"."""
    rows = table[table["check"].notna()]
    if checks == "all" or rows.empty:
        return table
    key = [*CASE, "grader"]
    arms = rows.groupby(key, dropna=False)["condition"].nunique().rename("n_arms")
    of_check = rows.groupby([*key, "check"], dropna=False)["condition"].agg(["nunique", "unique"])
    of_check = of_check.reset_index().merge(arms.reset_index(), on=key)
    lone = of_check[of_check["nunique"] < of_check["n_arms"]]
    if lone.empty:
        return table
    lines = [
        f"case '{row['case']}', check '{row['check']}': only under {', '.join(row['unique'])}"
        for row in lone.to_dict("records")
    ]
    if checks is None:
        raise FrameError(
            f"{place}: {plural(len(lone), 'check')} that not every arm has: "
            f"{shortened(lines, _SHOWN, '; ')}. checks='shared' compares on the others; "
            "checks='all' keeps them, for rates."
        )
    marked = table.merge(lone[[*key, "check"]].assign(lone=True), on=[*key, "check"], how="left")
    drop = marked["lone"].notna().to_numpy()
    for line in lines[:_SHOWN]:
        problems.add("checks=", line, "left out")
    if len(lone) > _SHOWN:
        problems.add("checks=", "further checks of one arm", "left out", len(lone) - _SHOWN)
    left = set(map(tuple, table.loc[~drop, CASE].to_numpy()))
    lost = set(map(tuple, rows[CASE].to_numpy())) - left
    for _, case in sorted(lost):
        problems.add("checks=", f"case '{case}'", "left out: its arms share no check")
    return table[~drop].reset_index(drop=True)


def with_checks(table: pd.DataFrame) -> pd.DataFrame:
    """Give each attempt without a verdict a missing verdict on every check of its case."""
    without = table["check"].isna()
    if not without.any():
        return table
    facts = [name for name in _OF_CHECK if name in table.columns]
    pairs = table.loc[~without, [*CASE, *facts]].drop_duplicates([*CASE, "check", "grader"])
    rows = table[without].drop(columns=facts).merge(pairs, on=CASE, how="left")
    rows["check"] = rows["check"].fillna("passed")
    made = pd.concat([table[~without], rows], ignore_index=True)
    return made.assign(grader=made["grader"].fillna("unnamed grader"))


def with_whole_graders(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one kind and one model per grader.

    An outcome belongs to one grader. Several kinds become "mixed", and several models a list.
    """
    for name in {"grader_kind", "grader_model"} & set(table.columns):
        words = {grader: distinct_words(values) for grader, values in table.groupby("grader")[name]}
        is_mixed = name == "grader_kind"
        whole = {
            grader: "mixed" if is_mixed and len(kinds) > 1 else ", ".join(map(str, kinds))
            for grader, kinds in words.items()
            if kinds
        }
        table = table.assign(**{name: table["grader"].map(whole)})
    return table


def with_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the columns ``repeat`` and ``attempt`` (ids of attempts).

    Without a column ``repeat``, rows with the same skill, case, condition, agent, check and grader
    are repeats.
    """
    if "agent" not in table.columns:
        table = table.assign(agent=None)
    if "repeat" not in table.columns:
        keys = [*_CELL, "check", "grader"]
        table = table.assign(repeat=table.groupby(keys, dropna=False).cumcount() + 1)
    if "attempt" in table.columns:
        return table
    names = {"case": "case_id"}
    return table.assign(attempt=made_ids(table.rename(columns=names)))


def frames_of(table: pd.DataFrame, place: str) -> Frames:
    """Convert a completed table to frames; add the columns that `from_frame` does not take."""
    empty = [name for name in table if name not in _NEEDED and table[name].isna().all()]
    table = table.drop(columns=empty)
    names: dict[str, Any] = {role: role if role in table.columns else None for role in ROLES}
    names["conditions"] = {name: name for name in table["condition"].unique()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)
        made = from_frame(table, name=place, **names)
    try:
        of_cases, of_attempts = ("prompt_kind", "right_skills"), CONTRACTS["attempts"].columns
        cases = _with_columns("cases", made.cases, table, of_cases)
        attempts = _with_columns("attempts", made.attempts, table, [*of_attempts, *_OF_TRIGGERS])
        verdicts = _with_columns_of_verdicts(made.verdicts, table)
    except FrameError as error:
        raise FrameError(f"{place}: {error}") from error
    return replace(made, cases=cases, attempts=attempts, verdicts=verdicts)


# kind of frame -> column of the table that identifies a row of the frame -> its name in the frame
_KEYS = {"cases": {"skill": "skill", "case": "case_id"}, "attempts": {"attempt": "attempt_id"}}


def _with_columns(
    kind: str, frame: pd.DataFrame, table: pd.DataFrame, columns: Iterable[str]
) -> pd.DataFrame:
    """Add those of the columns to a frame of cases or attempts that `from_frame` does not take."""
    present = [name for name in columns if name in table and name not in ROLES]
    if not present:
        return frame
    values = table.groupby(list(_KEYS[kind]), sort=False)[present].first()
    rest = frame.drop(columns=present, errors="ignore")
    return checked_frame(rest.join(values, on=list(_KEYS[kind].values())), kind)


def _with_columns_of_verdicts(verdicts: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    columns = [name for name in _OF_VERDICTS if name in table]
    key = ["attempt_id", "check_id", "grader"]
    names = {"attempt": "attempt_id", "check": "check_id"}
    values = table.rename(columns=names)
    columns += ["verdict_status"] if "verdict_status" in table else []
    if not columns:
        return verdicts
    values = values[[*key, *columns]].drop_duplicates(key)
    values = values.assign(**{name: values[name].astype("str") for name in key})
    rows = verdicts.drop(columns=columns, errors="ignore").merge(values, on=key, how="left")
    if "verdict_status" in rows:
        rows["status"] = rows["status"].where(rows["passed"].notna(), rows.pop("verdict_status"))
    return checked_frame(rows, "verdicts")


_PAIR_FACTS = ("rationale", "grader_family", "grader_version", "order")


def pairwise_of(
    pairs: pd.DataFrame,
    attempts: pd.DataFrame,
    conditions: Mapping[Any, str] | None,
    problems: Problems,
) -> pd.DataFrame:
    """Return comparisons as a pairwise frame, with the ids of the attempts compared.

    A comparison is left out and reported if one of its two answers has no results.
    """
    names = {**ARM_WORDS, **{str(word): name for word, name in (conditions or {}).items()}}
    pairs = pairs.assign(repeat=pairs.get("repeat", 1))
    key = ["skill", "case_id", "condition", "repeat"]
    ids = attempts.drop_duplicates(key).set_index(key)["attempt_id"].to_dict()
    made = []
    for row in pairs.to_dict("records"):
        arms = [names.get(str(row[side]), str(row[side])) for side in ("first", "second")]
        cells = [(row["skill"], str(row["case"]), arm, row["repeat"]) for arm in arms]
        missing = next((cell for cell in cells if cell not in ids), None)
        if missing is not None:
            what = f"case '{missing[1]}': no answer under '{missing[2]}'"
            done = "left out; conditions={'A': 'skill', 'B': 'baseline'} names the arm of each side"
            problems.add("comparison", what, done)
            continue
        first, second = (ids[cell] for cell in cells)
        winner = {"first": first, "second": second, "tie": "tie"}.get(row["winner"])
        position = {"first": 1, "second": 2}.get(row["winner"])
        made.append(
            {
                "skill": row["skill"],
                "case_id": str(row["case"]),
                "first": first,
                "second": second,
                "winner": winner,
                "winner_position": position,
                "grader": row.get("grader") or "comparator",
                **{name: row[name] for name in _PAIR_FACTS if name in row},
            }
        )
    if not made:
        return empty("pairwise")
    rows = pd.DataFrame(made)
    if "order" not in rows:
        rows["order"] = (
            rows.groupby(["skill", "case_id", "grader", "first", "second"]).cumcount() + 1
        )
    return checked_frame(rows, "pairwise")
