"""Complete the table of a reader (arguments, iterations, checks, ids); convert it to frames."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, argument, literal, plural, shortened
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.from_frame import CARRIED, ROLES, frames_of_columns
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import WHAT, FrameWarning, TableReader
from skillcomp.frames.words import ARGUMENTS, condition_names, distinct_words, pooled_words
from skillcomp.readers.reader import Problems, in_one_line

CASE = ["skill", "case"]
_CELL = [*CASE, "condition", "agent"]
_NEEDED = ["case", "condition", "passed"]
_OF_CASES = ("prompt_kind", "right_skills")  # columns of cases that `from_frame` does not take
MECHANICAL = ("tests", "rules", "regex", "tool_used", "tool_order", "file_exists")
_SHOWN = 3  # maximum number of checks that an error message lists


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


def report_unshared_cases(table: pd.DataFrame, problems: Problems) -> None:
    """Report the cases that have no answers under an arm."""
    n_rows = table.groupby([*CASE, "condition"], dropna=False).size().unstack(fill_value=0)
    if len(n_rows.columns) > 1 and n_rows.gt(0).sum(axis=1).max() < 2:
        done = f"there is no delta; {argument('fact case')} names a field that the arms share"
        problems.add("cases", "none has answers of two arms", done, 0)
        return
    for condition in n_rows:
        lacking = n_rows.index[n_rows[condition].eq(0)].get_level_values("case")
        if len(lacking):
            found = f"{plural(len(lacking), 'case')} without answers under {condition}"
            done = "they count in no difference from it"
            problems.add("cases", f"{found}: {shortened(lacking, _SHOWN)}", done, 0)


def report_order(table: pd.DataFrame, problems: Problems) -> None:
    """Report an arm whose attempts all started before those of the next one."""
    if "started_at" in table:
        times = pd.to_datetime(table["started_at"], format="ISO8601", errors="coerce", utc=True)
        starts = times.dropna().groupby(table["condition"])
        spans = starts.agg(["min", "max", "nunique"]).query("nunique > 1").sort_values("min")
        if (spans["max"] < spans["min"].shift(-1)).any():
            done = "a change of the service over time looks like an effect of the skill"
            problems.add("order of the runs", "one arm before the other", done, 0)


def refuse_agents_by_arm(table: pd.DataFrame, place: str) -> None:
    """Raise if each arm was answered by agents of its own."""
    if "agent" not in table or table["agent"].isna().any():
        return
    pairs = table[["condition", "agent"]].drop_duplicates()
    if pairs["condition"].nunique() > 1 and pairs["agent"].is_unique:
        each = "; ".join(f"{c}: {a}" for c, a in pairs.itertuples(index=False, name=None))
        raise FrameError(
            f"{place}: each arm was answered by another agent ({each}), so a difference between "
            f"the arms would be one between agents. {argument('fact agent')} gives them one name."
        )


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
