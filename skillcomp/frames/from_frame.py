"""Conversion of a researcher's own table to checked frames: ids are made and words mapped."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, plural, problem_list, suggest
from skillcomp.frames.case_table import tasks_of
from skillcomp.frames.check import as_list, empty, plain_values, require_frame, show
from skillcomp.frames.check import check as check_frame
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.outcomes import outcomes as outcomes_of
from skillcomp.frames.reference_labels import ITEM
from skillcomp.records import DIMENSIONS, dimension_family

_WHAT = "from_frame"
# Words that tables use for each condition. Comparison ignores case and reads "_" and "-" as blanks.
_CONDITIONS = {
    "baseline": "baseline|base|control|without|no|off|0|false|no skill|without skill"
    "|without the skill|without a skill|noskill|unassisted|w/o|w/o skill|w/o skill.md"
    "|without skill.md|no skill.md",
    "skill": "skill|with|treatment|treated|on|yes|1|true|with skill|with the skill|with a skill"
    "|withskill|skilled|w/|w/ skill|w/ skill.md|with skill.md|skill.md",
    "placebo": "placebo|sham|placebo skill|other skill",
    "previous": "previous|old|old skill|previous skill|previous version",
}
_TRUE = ("true", "t", "yes", "y", "1", "pass", "passed", "ok", "correct", "right", "success")
_FALSE = ("false", "f", "no", "n", "0", "fail", "failed", "incorrect", "wrong", "failure")
_NO_VALUE = ("", "na", "n/a", "nan", "none", "null", "missing", "error", "?", ".")
_TRUTHS: dict[str, bool | None] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NO_VALUE),
}
_DISTANCES: dict[str, str | None] = {"near": "near", "far": "far", **dict.fromkeys(_NO_VALUE)}
_CONDITION_OF = {word: name for name, words in _CONDITIONS.items() for word in words.split("|")}
_SHOWN = 5  # a warning lists at most this many names of repeats
_FACTS = ("prompt", "transfer", "dimension", "contrast_of")
_OF_ANSWERS = ("answer", "seconds", "cost_usd")
# argument, column of the frames, and the value of that column if the argument is not given
_NAMES: tuple[tuple[str, str, str | None], ...] = (
    ("skill", "skill", "the skill"),
    ("case", "case_id", None),
    ("condition", "condition", None),
    ("agent", "agent", None),
    ("check", "check_id", "passed"),
    ("grader", "grader", "own"),
    ("grader_version", "grader_version", None),
)
_CELL = [*CASE, "condition", "agent"]
_FEW_VALUES = 12  # a column with more distinct values is not taken for graders or repeats
_TRY = [*_CELL, "repeat"]
_Columns = dict[str, pd.Series]


class FrameWarning(UserWarning):
    """Warning that lists how the values of a table were converted or mapped."""


class Frames(NamedTuple):
    """The frames of one study, each checked against its contract.

    Attributes
    ----------
    cases, attempts, verdicts, outcomes, gold : pandas.DataFrame
        Frames like those that the readers of :mod:`skillcomp.frames` return. ``gold`` is empty if
        there are no labels.
    """

    cases: pd.DataFrame
    attempts: pd.DataFrame
    verdicts: pd.DataFrame
    outcomes: pd.DataFrame
    gold: pd.DataFrame

    @property
    def fingerprint(self) -> str:
        """The sha256 of the contents of the frames."""
        return sha256("\n".join(frame.to_csv(index=False) for frame in self).encode()).hexdigest()


def from_frame(
    frame: pd.DataFrame,
    *,
    skill: Hashable | None = "skill",
    case: Hashable = "case",
    condition: Hashable = "condition",
    passed: Hashable = "passed",
    repeat: Hashable | None = None,
    check: Hashable | None = None,
    check_kind: Hashable | None = None,
    grader: Hashable | None = None,
    grader_version: Hashable | None = None,
    agent: Hashable | None = None,
    attempt: Hashable | None = None,
    dimension: Hashable | None = None,
    transfer: Hashable | None = None,
    contrast_of: Hashable | None = None,
    cluster: Hashable | Sequence[Hashable] | None = None,
    prompt: Hashable | None = None,
    answer: Hashable | None = None,
    seconds: Hashable | None = None,
    cost_usd: Hashable | None = None,
    gold: Hashable | pd.DataFrame | None = None,
    labeller: Hashable | None = None,
    conditions: Mapping[Any, str] | None = None,
    shared_cases: bool | None = None,
) -> Frames:
    """Convert a researcher's own table, one row per verdict or per answer, to checked frames.

    Each argument names a column of the table; other columns are ignored. Analyses take the
    resulting frames: ``outcomes`` for deltas, skill verdicts and transfer, ``verdicts`` and
    ``gold`` for drift, bias and correction, all of them for the report.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per answer, or per answer, check and grader. Any dtypes.
    skill, case, condition, passed : hashable
        Columns of the table. With ``skill=None`` the table is about one skill, called "the skill".
        A case is identified by its skill and its name. Common words for the conditions baseline,
        skill, placebo and previous (such as "control" or "with skill") are replaced by these names;
        other conditions keep their names. ``passed`` holds truth values, 1 and 0, or words such as
        "yes" and "fail"; an empty value ("n/a", "", NaN) is a missing verdict, never a fail. Scores
        are not accepted: apply a cut-off first.
    repeat : hashable, optional
        Column that numbers the repeats of a case, from 0 or from 1, or names them. Without
        ``repeat`` and ``check``, rows with the same case, condition, agent and grader are
        repeats, numbered in the order of the rows.
    check, check_kind : hashable, optional
        Columns with the id of the check and with its kind, ``positive`` or ``negative``. Without
        ``check`` a row is the verdict on a whole answer.
    grader, grader_version, agent : hashable, optional
        Columns with the grader, its version, and the agent that answered. The default grader is
        "own".
    attempt : hashable, optional
        Column with the ids of the answers. Default: ids made of skill, case,
        condition, agent and repeat.
    dimension, transfer, contrast_of, prompt : hashable, optional
        Columns about the case, with one value in all rows of a case: its dimension, its transfer
        distance (near or far), the id of its twin, and its prompt. If all dimensions are among
        C1 to C9, or none is, they become the column ``comprehension_dimension``; a mixture stays in
        the column ``dimension``.
    cluster : hashable or sequence of hashable, optional
        Columns with one value in all rows of a case, which tie cases together: a video, a
        repository, a user. They keep their names in ``cases`` and ``outcomes``; name one in the
        ``cluster=`` of an analysis.
    answer, seconds, cost_usd : hashable, optional
        Columns about the answer, with one value in all rows of an answer.
    gold : hashable or pandas.DataFrame, optional
        Reference labels: a column of the table, or a frame of labels. Such a frame identifies each
        item by the same columns as the table: ``attempt`` or, without it, skill, case, condition,
        repeat and agent; and ``check``, if used. The column that ``passed`` names holds the label.
        The columns ``inclusion_probability``, ``borderline`` and ``note`` are optional.
    labeller : hashable, optional
        Column with the labeller, in the table or in the frame of labels. The default labeller is
        "own".
    conditions : mapping, optional
        Meaning of the table's words for conditions, such as ``{"v2": "skill"}``. It takes
        precedence over the built-in words and gives no warning.
    shared_cases : bool, optional
        Whether cases with the same name under several skills are the same task (column ``task``
        of ``cases`` and ``outcomes``). Default: yes if their prompts are equal, no if they
        differ, unknown without ``prompt``; an estimate over skills then covers both readings.

    Returns
    -------
    Frames
        cases, attempts, verdicts, outcomes and gold, each checked against its contract.

    Raises
    ------
    FrameError
        With one sentence per problem: a missing column (with the most similar name), a missing key,
        an unknown word, a value that differs between the rows of a case or an answer, or two
        verdicts of a grader on the same check of an answer.

    Warns
    -----
    FrameWarning
        One warning that lists the values that were converted or mapped, with the number of rows of
        each, and the labels that match no row.

    See Also
    --------
    check : Checks a frame that already has the columns of a contract.

    Examples
    --------
    >>> import pandas as pd
    >>> own = pd.DataFrame({
    ...     "task": [1, 1, 2, 2], "given": ["baseline", "skill"] * 2,
    ...     "ok": [False, True, True, True]})
    >>> made = from_frame(own, skill=None, case="task", condition="given", passed="ok")
    >>> made.outcomes[["attempt_id", "condition", "passed"]]
               attempt_id condition  passed
    0  the skill/1/baseline/1  baseline   False
    1     the skill/1/skill/1     skill    True
    2  the skill/2/baseline/1  baseline    True
    3     the skill/2/skill/1     skill    True
    """
    require_frame(frame, _WHAT)
    names = {
        **{"skill": skill, "case": case, "condition": condition, "passed": passed},
        **{"repeat": repeat, "check": check, "check_kind": check_kind, "agent": agent},
        **{"grader": grader, "grader_version": grader_version, "attempt": attempt},
        **{"dimension": dimension, "transfer": transfer, "contrast_of": contrast_of},
        **{"prompt": prompt, "answer": answer, "seconds": seconds, "cost_usd": cost_usd},
    }
    cluster_names = {
        f"cluster {at}": name for at, name in enumerate(dict.fromkeys(as_list(cluster)))
    }
    names |= cluster_names
    if labeller is not None and gold is None:
        raise FrameError(f"{_WHAT}: labeller= names who gave the labels, and there is no gold=.")
    if gold is not None and not isinstance(gold, pd.DataFrame):
        names |= {"gold": gold, "labeller": labeller}
    reader = _TableReader(names, dict(conditions or {}))
    columns = reader.columns(frame, required=("case", "condition", "passed"))
    rows = reader.keys(columns, len(frame))
    rows["repeat"] = reader.repeats(columns, rows)
    rows["attempt_id"] = reader.attempt_ids(columns, rows)
    rows["passed"] = reader.as_verdicts(columns["passed"], "passed")
    facts = {
        name: reader.case_column(columns[name], name)
        for name in (*_FACTS, *cluster_names)
        if name in columns
    }
    amounts = {name: columns[name] for name in _OF_ANSWERS if name in columns}
    reader.raise_problems()
    answers = rows[["attempt_id", *_TRY]].assign(**amounts)
    made = {
        "cases": _cases_frame(rows, facts, reader, shared_cases),
        "attempts": _one_each(answers, ["attempt_id"], amounts, reader, "answer"),
        "verdicts": _verdicts_frame(rows, columns, reader),
    }
    if isinstance(gold, pd.DataFrame):
        made["gold"] = _labels_beside(gold, labeller, rows, reader)
    else:
        made["gold"] = _labels_inside(columns, rows, reader)
    reader.raise_problems()
    made = {kind: reader.checked(rows_of_kind, kind) for kind, rows_of_kind in made.items()}
    reader.raise_problems()
    outcomes = outcomes_of(made["verdicts"], made["cases"])
    if made["cases"]["dimension"].notna().any():
        extra = made["cases"][[*CASE, "dimension"]]
        outcomes = outcomes.merge(extra, on=CASE, how="left", validate="many_to_one")
    reader.warn()
    return Frames(outcomes=outcomes, **made)


class _TableReader:
    """Reader of one table; it collects the problems that it finds and the changes that it makes."""

    def __init__(self, names: Mapping[str, Hashable | None], conditions: dict[Any, str]) -> None:
        self.names = {role: name for role, name in names.items() if name is not None}
        self.conditions = conditions
        self.problems: list[str] = []
        self.changes: list[str] = []
        # how the repeats were numbered, kept so that a gold frame gets the same numbers
        self.from_zero = False
        self.tries: dict[str, int] = {}
        self.numbered = False
        self.others: dict[Hashable, pd.Series] = {}  # text columns that no argument names

    def raise_problems(self) -> None:
        """Raise one error that lists the problems so far."""
        if self.problems:
            raise FrameError(problem_list(_WHAT, self.problems), self.problems)

    def warn(self) -> None:
        """Give one warning that lists all changes."""
        if self.changes:
            lines = "".join(f"\n- {change}" for change in self.changes)
            warnings.warn(f"{_WHAT} read the table so:{lines}", FrameWarning, stacklevel=3)

    def column_label(self, role: str) -> str:
        """Return the name of a column and its argument, for messages."""
        return f"column '{self.names.get(role, role)}' ({role.partition(' ')[0]}=)"

    def add_problem(self, role: str, problem: str) -> None:
        self.problems.append(f"{self.column_label(role)}: {problem}")

    def add_change(self, role: str, change: str) -> None:
        self.changes.append(f"{self.column_label(role)}: {change}")

    def columns(self, frame: pd.DataFrame, required: Iterable[str]) -> dict[str, pd.Series]:
        """Return a dict from each argument to the column it names; report missing columns."""
        for role in required:
            if role not in self.names:
                self.problems.append(f"{role}= is needed: name the column of the table.")
        words = [str(label) for label in frame.columns]
        there = f"; there: {', '.join(words) or 'none'}"
        near = {word.casefold(): word for word in reversed(words)}
        for role, name in self.names.items():
            if name not in frame.columns:
                similar = near.get(str(name).casefold())
                hint = f" Did you mean '{similar}'?" if similar else suggest(str(name), words)
                self.problems.append(f"there is no {self.column_label(role)}{there}.{hint}")
                there = ""  # list the columns only once
        self.raise_problems()
        source = frame.reset_index(drop=True)
        columns = {role: plain_values(source[name]) for role, name in self.names.items()}
        unnamed = source.drop(columns=list(self.names.values())).select_dtypes(["str", "category"])
        self.others = dict(unnamed.items())
        for role, values in columns.items():
            odd = values[[not isinstance(label, Hashable) for label in values]]
            if len(odd):
                name = type(odd.iloc[0]).__name__
                self.add_problem(role, f"found a {name}; expected plain values.")
        self.raise_problems()
        return columns

    def as_texts(self, values: pd.Series, role: str, *, needed: bool = True) -> pd.Series:
        """Convert names to text; whole numbers of any dtype are names, too."""
        texts = values.map(_as_name, na_action="ignore").astype("object")
        odd = values[values.notna() & texts.isna()]
        if len(odd):
            self.add_problem(role, f"found {show(odd)}; expected text.")
        missing = values.isna() | texts.eq("")
        if needed and missing.any():
            n, first = plural(int(missing.sum()), "row"), int(np.flatnonzero(missing)[0])
            self.add_problem(
                role, f"missing in {n}, the first is row {first}; every row needs one."
            )
        return texts.astype("str")

    def mapped(
        self, values: pd.Series, role: str, words: Mapping[Any, Any], allowed: str
    ) -> pd.Series:
        """Map words to meanings; report unknown words as problems, mapped words as changes."""
        plain = {word: _plain_word(word) for word in pd.unique(values[values.notna()])}
        meanings = {word: words.get(key) for word, key in plain.items()}
        unknown = [word for word, key in plain.items() if key not in words]
        if unknown:
            odd = values[values.isin(unknown)]
            hint = suggest(str(unknown[0]).casefold(), [str(word) for word in words if word])
            self.add_problem(role, f"found {show(odd)}; allowed: {allowed}.{hint}")
        elif any(_as_literal(word) != _as_literal(meaning) for word, meaning in meanings.items()):
            self.add_mapping(values, role, meanings)
        return values.map(meanings, na_action="ignore")

    def add_mapping(self, values: pd.Series, role: str, meanings: Mapping[Any, Any]) -> None:
        """Add a change that lists each mapped word and the number of rows that contain it."""
        n = values.map(_as_literal, na_action="ignore").value_counts()
        literals = {_as_literal(w): "missing" if m is None else m for w, m in meanings.items()}
        parts = [f"{w} as {m} ({plural(int(n[w]), 'row')})" for w, m in literals.items()]
        self.add_change(role, f"{', '.join(parts)}.")

    def checked(self, frame: pd.DataFrame, kind: str) -> pd.DataFrame:
        """Check a frame; its problems name the columns as the original table does."""
        try:
            return check_frame(frame, kind)
        except FrameError as error:
            before = "gold: " if kind == "gold" else ""
            for problem in error.problems:
                column = re.search(r"column '(\w+)'", problem)
                if column and column[1] in self.names:
                    problem = problem.replace(column[0], self.column_label(column[1]), 1)
                self.problems.append(before + problem)
            return frame

    def as_verdicts(self, values: pd.Series, role: str) -> pd.Series:
        """Convert verdicts to nullable truth values."""
        if values.dtype.kind == "b" or str(values.dtype) == "boolean":
            return values.astype("boolean")
        allowed = (
            "True, False, 1, 0, words such as 'yes' and 'fail', or missing; cut a score first, "
            "and put None where there is no verdict"
        )
        return self.mapped(values, role, _TRUTHS, allowed).astype("boolean")

    def keys(self, columns: dict[str, pd.Series], n: int) -> pd.DataFrame:
        """Return the skill, case, condition, agent, check and grader of n rows as text."""
        rows = pd.DataFrame(index=range(n))
        for role, column, otherwise in _NAMES:
            if role not in columns:
                rows[column] = pd.Series([otherwise] * n, dtype="str")
            elif role == "condition":
                rows[column] = self.as_conditions(columns[role])
            else:
                rows[column] = self.as_texts(columns[role], role, needed=role != "grader_version")
        return rows

    def as_conditions(self, values: pd.Series) -> pd.Series:
        """Convert conditions to text; replace known words by the name of the condition."""
        meanings: dict[Any, str] = {}
        meant: dict[str, Any] = {}
        plainly = True
        for word in pd.unique(values[values.notna()]):
            if word in self.conditions:
                meanings[word] = str(self.conditions[word])
                continue
            name = _CONDITION_OF.get(_plain_word(word)) or _as_name(word)
            if name is None:
                odd = show(values[values.eq(word)])
                self.add_problem("condition", f"found {odd}; expected text.")
                return values.astype("object")
            meanings[word] = name
            plainly &= _as_literal(word) == _as_literal(name)
        for word, name in meanings.items():
            if _plain_word(meant.setdefault(name, word)) != _plain_word(word) and not (
                word in self.conditions and meant[name] in self.conditions
            ):
                both = f"{_as_literal(meant[name])} and {_as_literal(word)} would both be '{name}'"
                self.add_problem("condition", f"{both}; say what they mean by conditions={{...}}.")
        if values.isna().any():
            self.as_texts(values, "condition")
        if not plainly:
            self.add_mapping(values, "condition", meanings)
        if meanings and "baseline" not in meanings.values():
            self.add_change(
                "condition",
                "none is 'baseline', with which analyses compare unless told otherwise; there: "
                f"{', '.join(dict.fromkeys(meanings.values()))}. Say which it is, as "
                f"conditions={{{_as_literal(next(iter(meanings)))}: 'baseline'}}, or name it to "
                "each analysis by reference=.",
            )
        return values.map(meanings, na_action="ignore").astype("str")

    def repeats(self, columns: dict[str, pd.Series], rows: pd.DataFrame) -> pd.Series:
        """Return each row's repeat, numbered from 1 within its case, condition and agent."""
        if "repeat" in columns:
            return self.as_tries(columns["repeat"])
        if "attempt" in columns:
            ids = self.as_texts(columns["attempt"], "attempt")
            first = ~ids.duplicated()
            numbers = rows[first].groupby(_CELL, dropna=False).cumcount() + 1
            return ids.map(dict(zip(ids[first], numbers, strict=True))).astype("Int64")
        if "check" in columns:
            return pd.Series(1, index=rows.index, dtype="Int64")
        numbers = rows.groupby([*_CELL, "grader", "grader_version"], dropna=False).cumcount() + 1
        if numbers.gt(1).any():
            self.numbered = True
            self.changes.append(
                "rows that share skill, case, condition and agent are repeats, numbered in their "
                f"order up to {int(numbers.max())}; name repeat= where a column says which."
                + self._hint_at_differing_columns(rows)
            )
        return numbers.astype("Int64")

    def _hint_at_differing_columns(self, rows: pd.DataFrame) -> str:
        """Return a hint that names the ignored columns in which supposed repeats differ."""
        place = rows.groupby(_CELL, dropna=False).ngroup()
        names = [
            f"'{name}'"
            for name, values in self.others.items()
            if 1 < values.nunique() <= _FEW_VALUES and values.groupby(place).nunique().gt(1).any()
        ]
        if not names:
            return ""
        return f" They differ in {', '.join(names)}: grader=, check=, agent= or repeat=?"

    def as_tries(self, values: pd.Series, *, again: bool = False) -> pd.Series:
        """Convert a column of repeats to numbers from 1."""
        if values.isna().any():
            self.as_texts(values, "repeat")
            return pd.Series(1, index=values.index, dtype="Int64")
        numbers = pd.to_numeric(values.astype("object"), errors="coerce").astype("float64")
        # from 2 ** 53 on, floats no longer hold every whole number
        if (numbers % 1 == 0).all() and numbers.between(0, 2**53).all():
            if not again:
                self.from_zero = bool((numbers == 0).any())
                if self.from_zero:
                    self.add_change("repeat", "counted from 0; 1 was added.")
            return (numbers + self.from_zero).astype("Int64")
        names = self.as_texts(values, "repeat")
        if again:
            return names.map(self.tries).astype("Int64")
        self.tries = {name: at for at, name in enumerate(sorted(names.dropna().unique()), start=1)}
        read = ", ".join(f"'{name}' as {at}" for name, at in list(self.tries.items())[:_SHOWN])
        more = ", ..." if len(self.tries) > _SHOWN else ""
        self.add_change("repeat", f"names of tries were numbered: {read}{more}.")
        return names.map(self.tries).astype("Int64")

    def attempt_ids(self, columns: dict[str, pd.Series], rows: pd.DataFrame) -> pd.Series:
        """Return each row's attempt id: the given id or one made of its keys."""
        if "attempt" not in columns:
            return _made_ids(rows)
        ids = self.as_texts(columns["attempt"], "attempt")
        cells = pd.DataFrame({"id": ids, "cell": _row_tuples(rows, _CELL)}).drop_duplicates()
        twice = cells.loc[cells["id"].duplicated(), "id"]
        if len(twice):
            n = plural(len(twice), "such id")
            several = f"'{twice.iloc[0]}' stands for several cases or conditions ({n})"
            self.add_problem("attempt", f"{several}; an answer has one of each.")
        return ids

    def case_column(self, values: pd.Series, role: str) -> pd.Series:
        """Convert a column that describes cases; its role decides which values are allowed."""
        if role == "transfer":
            return self.mapped(values, role, _DISTANCES, "'near', 'far' or missing").astype("str")
        texts = self.as_texts(values, role, needed=False)
        if role != "dimension":
            return texts
        upper = texts.str.strip().str.upper()
        if not upper.isin(DIMENSIONS).any():
            return texts.str.strip()
        if not upper.dropna().isin(DIMENSIONS).all():
            self.add_change(
                role,
                "not all are C1 to C9; the names stand in 'dimension', and analyses within the "
                "nine dimensions leave them out.",
            )
            return texts
        if texts.dropna().ne(upper.dropna()).any():
            present = texts.notna()
            self.add_mapping(texts, role, dict(zip(texts[present], upper[present], strict=True)))
        return upper


def _cases_frame(
    rows: pd.DataFrame, facts: _Columns, reader: _TableReader, shared_cases: bool | None
) -> pd.DataFrame:
    cases = _one_each(rows[CASE].assign(**facts), CASE, facts, reader, "case")
    cases = cases.assign(task=tasks_of(cases.reindex(columns=[*CASE, "prompt"]), shared_cases))
    clusters = {
        role: str(name) for role, name in reader.names.items() if role.startswith("cluster ")
    }
    for role, name in clusters.items():
        if name in CONTRACTS["cases"].columns or name in CONTRACTS["outcomes"].columns:
            reader.add_problem(role, "the frames have a column of that name. Rename yours.")
    cases = cases.rename(columns=clusters)
    dimensions = set(facts["dimension"].dropna()) if "dimension" in facts else set()
    if dimensions and dimensions <= set(dimension_family(dimensions)):
        cases = cases.rename(columns={"dimension": "comprehension_dimension"})
    counted = rows.groupby(CASE)["check_id"].nunique().rename("n_checks").reset_index()
    return cases.merge(counted, on=CASE, how="left")


def _one_each(
    table: pd.DataFrame, unit: list[str], roles: Iterable[str], reader: _TableReader, what: str
) -> pd.DataFrame:
    """Return one row per unit; report values that differ between the rows of a unit."""
    for role in roles:
        several = table.groupby(unit)[role].nunique().gt(1)
        if several.any():
            first = several.index[several][0]
            name = "/".join(first) if isinstance(first, tuple) else first
            count = f"{plural(int(several.sum()), what)}; the first: '{name}'"
            reader.add_problem(role, f"differs between the rows of one {what} ({count}).")
    # first() takes the first value that is not missing, which need not be in the first row
    return table.groupby(unit, sort=False, as_index=False).first()[list(table.columns)]


def _verdicts_frame(rows: pd.DataFrame, columns: _Columns, reader: _TableReader) -> pd.DataFrame:
    place = ["attempt_id", "check_id", "grader", "grader_version"]
    twice = rows.loc[rows.duplicated(place, keep=False), place]
    if len(twice):
        n, first = plural(len(twice), "row"), twice.iloc[0].dropna().to_dict()
        lacking = [r for r in ("repeat", "check", "grader", "grader_version") if r not in columns]
        hint = f" Does a column say {', '.join(f'{r}=' for r in lacking)}?" if lacking else ""
        reader.problems.append(f"{n} are verdicts on the same thing; the first: {first}.{hint}")
    verdicts = rows.assign(round=1)
    if (kinds := columns.get("check_kind")) is not None:
        words = {word: word for word in ("positive", "negative")}
        allowed = "'positive', 'negative' or missing"
        verdicts["check_kind"] = reader.mapped(kinds, "check_kind", words, allowed)
    # a missing verdict gets no status, because the reason why it is missing is unknown
    return verdicts.assign(status=rows["passed"].notna().map({True: "ok", False: None}))


def _labels_inside(columns: _Columns, rows: pd.DataFrame, reader: _TableReader) -> pd.DataFrame:
    if "gold" not in columns:
        return empty("gold")
    labels = rows[ITEM].assign(passed=reader.as_verdicts(columns["gold"], "gold"), labeller="own")
    if "labeller" in columns:
        labels["labeller"] = reader.as_texts(columns["labeller"], "labeller", needed=False)
    labels = labels[labels["passed"].notna()].drop_duplicates()
    twice = labels.loc[labels.duplicated([*ITEM, "labeller"]), ITEM]
    if len(twice):
        item = twice.iloc[0].to_dict()
        reader.add_problem("gold", f"differs between rows of one item; the first: {item}.")
    return labels


def _labels_beside(
    gold: pd.DataFrame, labeller: Hashable | None, rows: pd.DataFrame, reader: _TableReader
) -> pd.DataFrame:
    """Return the labels of a separate frame, matched by the columns that identify an item."""
    require_frame(gold, f"{_WHAT}: gold")
    keys: tuple[str, ...] = ("skill", "case", "condition", "agent", "repeat")
    if "attempt" in reader.names:
        keys = ("attempt",)
    elif reader.numbered:
        reader.problems.append(
            "gold: which of several repeats a label is of cannot be told; name repeat= or "
            "attempt=, a column of both."
        )
        return empty("gold")
    names = {r: reader.names[r] for r in (*keys, "check", "passed") if r in reader.names}
    other = _TableReader({**names, "labeller": labeller}, reader.conditions)
    other.from_zero, other.tries = reader.from_zero, reader.tries
    try:
        columns = other.columns(gold, required=())
    except FrameError as error:
        raise FrameError(f"gold: {error}") from None
    items = other.keys(columns, len(gold))
    items["repeat"] = other.as_tries(columns["repeat"], again=True) if "repeat" in columns else 1
    if "attempt" in columns:
        items["attempt_id"] = other.as_texts(columns["attempt"], "attempt")
    else:
        of_try = dict(zip(_row_tuples(rows, _TRY), rows["attempt_id"], strict=True))
        ids = map(of_try.get, _row_tuples(items, _TRY), _made_ids(items))
        items["attempt_id"] = pd.Series(list(ids), dtype="str")
    items = items.assign(passed=other.as_verdicts(columns["passed"], "passed"), labeller="own")
    if "labeller" in columns:
        items["labeller"] = other.as_texts(columns["labeller"], "labeller")
    for name in ("inclusion_probability", "borderline", "note"):
        if name in gold.columns:
            items[name] = gold[name].array
    reader.problems += [f"gold: {problem}" for problem in other.problems]
    # leave out the warning about a missing baseline: gold may cover a single condition
    changes = [change for change in other.changes if "none is 'baseline'" not in change]
    reader.changes += [f"gold: {change}" for change in changes]
    matches = pd.MultiIndex.from_frame(items[ITEM]).isin(pd.MultiIndex.from_frame(rows[ITEM]))
    strays = items.loc[~matches, ITEM]
    if len(strays):
        n, first = f"{len(strays)} of {plural(len(gold), 'label')}", strays.iloc[0].to_dict()
        reader.changes.append(f"gold: {n} match nothing in the table; the first: {first}.")
    return items[[c for c in items.columns if c in CONTRACTS["gold"].columns]]


def _made_ids(rows: pd.DataFrame) -> pd.Series:
    """Return unique ids ``skill/case/condition/repeat``, with the agent if there is one."""
    tries = _row_tuples(rows, _TRY)
    ids = {}
    for skill, case, condition, agent, number in dict.fromkeys(tries):
        begun = case if str(case).startswith(f"{skill}/") else f"{skill}/{case}"
        who = condition if agent is None else f"{condition}/{agent}"
        ids[skill, case, condition, agent, number] = f"{begun}/{who}/{number}"
    if len(set(ids.values())) < len(ids):  # names that contain slashes can give equal ids
        ids = {key: f"{name}#{at}" for at, (key, name) in enumerate(ids.items(), start=1)}
    return pd.Series([ids[key] for key in tries], index=rows.index, dtype="str")


def _row_tuples(rows: pd.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the columns ``names`` as one tuple per row, with None for a missing value."""
    columns = [rows[name].astype("object").where(rows[name].notna(), None) for name in names]
    return list(zip(*columns, strict=True))


def _as_name(value: Any) -> str | None:
    """Return text, or a whole number as text; None for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return str(int(value)) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _plain_word(value: Any) -> str:
    """Return a word in lower case, with one blank for each run of blanks, ``_`` and ``-``."""
    text = str(value) if isinstance(value, bool | np.bool_) else _as_name(value)
    if text is None:
        return "\0"  # matches no known word
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def _as_literal(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
