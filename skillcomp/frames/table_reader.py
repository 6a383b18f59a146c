"""Reader of one table: it finds the columns, converts their values and collects the problems."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, literal, plural, problem_list, suggest
from skillcomp.frames.check import (
    ConversionError,
    as_list,
    check,
    convert,
    empty,
    plain_values,
    require_frame,
    show,
)
from skillcomp.frames.contracts import CELL
from skillcomp.frames.estimates import reference_choices
from skillcomp.frames.words import (
    ARGUMENTS,
    COLUMN_OF,
    DISTANCES,
    NO_ERROR,
    STATUSES,
    TRUTHS,
    ColumnName,
    as_literal,
    as_name,
    code_number,
    columns_with_roles,
    condition_names,
    differing_columns,
    distinct_words,
    is_code,
    is_flag,
    is_negated,
    literal_key,
    plain_word,
    pooled_words,
)
from skillcomp.io.files import whole_content
from skillcomp.io.study_overview import change_lines
from skillcomp.records import DIMENSIONS, AttemptStatus

WHAT = "from_frame"
_MOST_WORDS = 5  # A problem lists at most this many distinct words.
# values of the keys of a row that the table lacks
_DEFAULTS = {
    "skill": "the skill",
    "condition": "unnamed condition",
    "check": "passed",
    "grader": "unnamed grader",
}
# a column with more values than this is not suggested as the column of graders or repeats
_FEW_VALUES = 12
TRY = [*CELL, "repeat"]
_KINDS = ("cases", "attempts", "verdicts", "outcomes", "gold")  # frames that every table gives
Columns = dict[str, pd.Series]


class Change(NamedTuple):
    """Values that the reader converted or dropped, and their number of rows."""

    place: str
    found: str
    done: str
    n: int


class FrameWarning(UserWarning):
    """Warning that lists how the values of a table were converted or mapped."""


def changes_frame(changes: Iterable[Change]) -> pd.DataFrame:
    """Return the changes as a frame with the columns place, found, done and n."""
    dtypes = dict.fromkeys(Change._fields, "str") | {"n": "Int64"}
    return pd.DataFrame(list(changes), columns=list(Change._fields)).astype(dtypes)


class TableReader:
    """Reader of one table; it collects the problems that it finds and the changes that it makes."""

    def __init__(
        self,
        frame: pd.DataFrame,
        names: Mapping[str, ColumnName],
        *,
        place: str = WHAT,
        conditions: Mapping[Any, str] | None = None,
        missing: Any = (),
    ) -> None:
        require_frame(frame, place)
        self.place, self.frame = place, frame
        for role, value in names.items():
            if not isinstance(value, Hashable):
                raise FrameError(
                    f"{place}: {role}=: found a {type(value).__name__}; expected the name of a "
                    "column. If these are the values, assign them to a column first: "
                    f"table.assign({role}=...)."
                )
        self.roles = tuple(names)
        self.asks_roles = False  # whether a problem is that a role of a column is unclear
        self.ambiguous: set[str] = set()  # arguments that several columns fit
        self.meanings: dict[Any, str] = {}  # The condition that each word means.
        self.names = {role: name for role, name in names.items() if name is not None}
        self.conditions = self.mapping("conditions", conditions)
        self.missing = {}
        for value in as_list(missing):
            if not pd.api.types.is_scalar(value):
                raise FrameError(
                    f"{place}: missing=: found {value!r}; allowed: single values, such as "
                    "missing=[-1, 'n/a']."
                )
            self.missing[literal_key(value)] = value
        self.unused = dict(self.missing)  # values of `missing` not found in a column so far
        self.problems: list[str] = []
        self.changes: list[Change] = []
        self.declared: list[Change] = []
        # whether repeats are numbered from 0; stored so that the gold frame is read in the same way
        self.from_zero = False
        self.tries: dict[str, int] = {}
        self.numbered = False

    def beside(self, frame: pd.DataFrame, names: Mapping[str, ColumnName]) -> TableReader:
        """Return a reader of a second table, which has the same words and numbers of repeats."""
        meanings = {**self.meanings, **self.conditions}
        other = TableReader(frame, names, conditions=meanings, missing=list(self.missing.values()))
        other.from_zero = self.from_zero
        other.tries = self.tries
        return other

    def mapping(self, argument: str, value: Any) -> Mapping[Any, Any]:
        """Return the mapping that an argument gives, {} for None; refuse other values."""
        if not isinstance(value, Mapping | None):
            found = f"{argument}=: found {literal(value)}; expected a mapping."
            raise FrameError(f"{self.place}: {found}")
        return value or {}

    def raise_problems(self) -> None:
        """Raise one error that lists the problems so far."""
        if self.problems:
            message = problem_list(self.place, self.problems)
            if self.asks_roles:
                message += f"\n{columns_with_roles(self.frame, self.names, self.roles)}"
            raise FrameError(message, self.problems)

    def facts(self) -> dict[str, Any]:
        """Return the columns and the changes for `Frames`; also list changes in a warning."""
        for value in self.unused.values():
            self.changes.append(Change("missing=", as_literal(value), "in no column", 0))
        changes = changes_frame(self.changes)
        if len(changes):
            lines = "".join(f"\n- {line}" for line in change_lines(changes.to_dict("records")))
            warnings.warn(f"{self.place} read the table so:{lines}", FrameWarning, stacklevel=3)
        columns = {role: str(name) for role, name in self.names.items()}
        # what was declared is listed without a warning
        return {"columns": columns, "problems": changes_frame([*self.changes, *self.declared])}

    def column_label(self, role: str) -> str:
        """Return a label of a column for messages: its name and the argument that names it."""
        return f"column '{self.names.get(role, role)}' ({role.partition(' ')[0]}=)"

    def add_problem(self, role: str, problem: str) -> None:
        """Record a problem with the column that the argument ``role`` names."""
        self.problems.append(f"{self.column_label(role)}: {problem}")

    def add_change(self, role: str, found: str, done: str, n: int) -> None:
        """Record a change to values of the column that the argument ``role`` names."""
        self.changes.append(Change(self.column_label(role), found, done, int(n)))

    def columns(self, *, required: Iterable[str] = (), keep: str | None = None) -> Columns:
        """Return a dict from each argument to the column it names; report missing columns.

        With ``keep="last"``, a later row replaces an earlier row with equal keys.
        """
        if keep not in (None, "last"):
            found = f"keep=: found {literal(keep)}; allowed: 'last' or None."
            raise FrameError(f"{self.place}: {found}")
        frame = self.frame
        self._refuse_flags()
        for role in required:
            if role not in self.names and role not in self.ambiguous:
                self.problems.append(f"{role}= is needed: name the column of the table.")
                self.asks_roles = True
        words = [str(label) for label in frame.columns]
        there = f"; there: {', '.join(words) or 'none'}"
        near = {word.casefold(): word for word in reversed(words)}
        for role, name in self.names.items():
            if name not in frame.columns:
                similar = near.get(str(name).casefold())
                hint = f" Did you mean '{similar}'?" if similar else suggest(str(name), words)
                self.problems.append(f"there is no {self.column_label(role)}{there}.{hint}")
                there = ""  # only the first problem lists the columns of the table
                self.asks_roles = True
        self.raise_problems()
        self.frame = source = frame.reset_index(drop=True)
        columns = {role: plain_values(source[name]) for role, name in self.names.items()}
        for role, values in columns.items():
            odd = values[[not pd.api.types.is_hashable(value) for value in values]]
            if len(odd):
                name = type(odd.iloc[0]).__name__
                self.add_problem(role, f"found a {name}; expected plain values.")
        self.raise_problems()
        if self.missing:
            for role in [role for role in ARGUMENTS["missing="] if role in columns]:
                columns[role] = self._without_missing(columns[role], role)
        return columns if keep is None else self._last_rows(columns)

    def _without_missing(self, values: pd.Series, role: str) -> pd.Series:
        """Remove from a column the values that `missing` lists; add a change for each of them."""
        keys = values.map(literal_key, na_action="ignore")
        for key in self.missing:
            same = keys.eq(key)
            if same.any():
                self.unused.pop(key, None)
                self.add_change(
                    role, as_literal(values[same].iloc[0]), "read as missing", same.sum()
                )
        return values.astype("object").mask(keys.isin(self.missing), None)

    def note_codes(self, scores: pd.Series) -> None:
        """Add a change for scores that look like missing values, such as 99 among 1 to 5."""
        codes = scores.map({score: code_number(score) for score in scores.dropna().unique()})
        others = pd.to_numeric(scores[codes.isna()], errors="coerce").dropna()
        for code in map(int, codes.dropna().unique()):
            outside = len(others) and (code < 0 <= others.min() or code > 2 * others.max())
            if outside and literal_key(code) not in self.missing:
                done = f"counted as a score; missing=[{code}] if it means that there is none"
                self.add_change("score", str(code), done, codes.eq(code).sum())

    def _refuse_flags(self) -> None:
        """Add a problem if the skill column says whether a skill was loaded, and not which one."""
        name = self.names.get("skill")
        words = distinct_words(self.frame[name]) if name in self.frame.columns else []
        if not is_flag(words):
            return
        both = " and ".join(sorted(map(as_literal, words)))
        why = f"found {both}, which tell the conditions apart and name no skill"
        self.add_problem("skill", f"{why}; use skill=None, condition={as_literal(name)}.")
        if self.names.get("condition") not in self.frame.columns:
            self.names.pop("condition", None)

    def as_texts(self, values: pd.Series, role: str, *, needed: bool = True) -> pd.Series:
        """Convert names to text; whole numbers of any dtype are names, too.

        If ``needed`` is False, the texts are not keys: they may be missing, and each half of a
        surrogate pair is replaced by U+FFFD.
        """
        if not needed:
            n = sum(whole_content(value) != value for value in values[values.notna()])
            if n:
                self.add_change(role, "half of a surrogate pair", "replaced by U+FFFD", n)
                values = values.map(whole_content, na_action="ignore")
        texts = values.map(as_name, na_action="ignore").astype("object")
        odd = values[values.notna() & texts.isna()]
        if len(odd):
            encode = ".str.encode('utf-8', 'replace').str.decode('utf-8')"
            fix = f" that UTF-8 can encode ({encode})" if isinstance(odd.iloc[0], str) else ""
            self.add_problem(role, f"found {show(odd)}; expected text{fix}.")
        if needed:
            self.require_values(values.isna() | texts.eq(""), role)
        return texts.astype("str")

    def require_values(self, missing: pd.Series, role: str) -> None:
        """Add a problem if a column that every row needs has missing values."""
        if missing.any():
            n, first = plural(int(missing.sum()), "row"), int(np.flatnonzero(missing)[0])
            self.add_problem(
                role, f"missing in {n}, the first is row {first}; every row needs one."
            )

    def mapped(
        self, values: pd.Series, role: str, words: Mapping[Any, Any], allowed: str, **own: Any
    ) -> pd.Series:
        """Map words to meanings; record unknown words as problems and mapped words as changes."""
        meanings = self.meanings_of(values, role, words, allowed, **own)
        given = set(map(plain_word, own.get("own", ())))
        listed = {word: m for word, m in meanings.items() if plain_word(word) not in given}
        if any(as_literal(word) != as_literal(meaning) for word, meaning in listed.items()):
            self.add_mapping(values, role, listed)
        return values.map(meanings.get, na_action="ignore").astype("object")

    def meanings_of(
        self,
        values: pd.Series,
        role: str,
        words: Mapping[Any, Any],
        allowed: str,
        *,
        own: Mapping[Any, Any] | None = None,
        argument: str = "",
        plain: Callable[[Any], str] = plain_word,
    ) -> dict[Any, Any]:
        """Return the meaning of each distinct word; record unknown words as problems.

        The user gave the meanings `own`, which take precedence, by an argument of that name. If a
        word is unknown, the result is empty. ``plain`` returns the form in which `words` has a
        word.
        """
        words = {**words, **{plain(word): meaning for word, meaning in (own or {}).items()}}
        texts = {word: plain(word) for word in distinct_words(values)}
        meanings = {word: words.get(text) for word, text in texts.items()}
        unknown = dict.fromkeys(word for word, text in texts.items() if text not in words)
        if not unknown:
            return meanings
        are_scores = role == "passed" and _are_scores(unknown)
        first = texts[next(iter(unknown))]
        no_hint = are_scores or is_negated(first) or first.isdigit()
        near = [] if no_hint else [str(word) for word in words if word]
        odd = words_with_counts(values[[value in unknown for value in values]])
        problem = f"found {odd}; allowed: {allowed}.{suggest(first, near)}"
        if argument:
            example = f"{{{as_literal(next(iter(unknown)))}: ...}}"
            problem += f" {argument}= gives the meaning of other words, as {example} (None: none)."
        if are_scores:
            problem += (
                " They look like scores: name the column by score= with passed=None, and read "
                "it by value='score', as sc.deltas.paired(made.outcomes, value='score') does."
            )
        codes = [word for word in unknown if is_code(word) and role in ARGUMENTS["missing="]]
        if are_scores:  # among scores, 9 and 99 may be scores, too: keep only negative codes
            codes = [word for word in codes if (code_number(word) or 0) < 0]
        if codes:
            # explain how to read missing values such as -1 or "n.a."
            problem += f" If no value is meant: missing=[{', '.join(map(as_literal, codes))}]."
            if False in words.values() and False not in meanings.values():
                problem += " If a fail is meant, put False in its place first."
        self.add_problem(role, problem)
        return {}

    def add_mapping(self, values: pd.Series, role: str, meanings: Mapping[Any, Any]) -> None:
        """Add a change for each mapped word."""
        n = values.map(as_literal, na_action="ignore").value_counts()
        literals = {as_literal(w): "missing" if m is None else m for w, m in meanings.items()}
        for word, meaning in literals.items():
            self.add_change(role, word, f"read as {meaning}", n[word])

    def checked(self, frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
        """Check frames by kind; raise their problems with the column names of the table.

        The frames of other kinds are empty.
        """
        made: dict[str, Any] = {kind: empty(kind) for kind in _KINDS}
        for kind, frame in frames.items():
            try:
                made[kind] = check(frame, kind)
            except FrameError as error:
                before = "gold: " if kind == "gold" else ""
                for problem in error.problems:
                    column = re.search(r"column '(\w+)'", problem)
                    if column and column[1] in self.names:
                        problem = problem.replace(column[0], self.column_label(column[1]), 1)
                    self.problems.append(before + problem)
        self.raise_problems()
        return made

    def as_verdicts(self, values: pd.Series, role: str) -> pd.Series:
        """Convert verdicts to nullable truth values."""
        if values.dtype.kind == "b" or str(values.dtype) == "boolean":
            return values.astype("boolean")
        is_listed = role in ARGUMENTS["missing="]
        way = "list in missing= what means" if is_listed else "put None where there is"
        allowed = (
            "True, False, 1, 0, words such as 'yes' and 'fail', or missing; cut a score first, "
            f"and {way} no verdict"
        )
        return self.mapped(values, role, TRUTHS, allowed).astype("boolean")

    def keys(self, columns: Columns) -> pd.DataFrame:
        """Return the key columns of the table as text.

        They are skill, case_id, condition, agent, check_id, grader and grader_version.
        """
        rows = pd.DataFrame(index=self.frame.index)
        for role in ARGUMENTS["key"]:
            column = COLUMN_OF.get(role, role)
            if role not in columns:
                rows[column] = pd.Series(_DEFAULTS.get(role), rows.index, dtype="str")
            elif role == "condition":
                rows[column] = self.as_conditions(columns[role])
            else:
                rows[column] = self.as_texts(columns[role], role, needed=role != "grader_version")
        return rows

    def as_statuses(self, columns: Columns) -> pd.Series:
        """Return the status of each row's answer; NA if no column has a status or an error."""
        ends = pd.Series(pd.NA, self.frame.index, dtype="str")
        if "status" in columns:
            allowed = ", ".join(get_args(AttemptStatus)) + ", or missing; replace other words first"
            ends = self.mapped(columns["status"], "status", STATUSES, allowed).astype("str")
        if "error" in columns:
            words = columns["error"].map(plain_word, na_action="ignore")
            crashed = words.notna() & ~words.isin(NO_ERROR)
            ends = ends.fillna("ok").mask(crashed & ends.isin(["ok", pd.NA]), "error")
        return ends

    def asked_attempts(self, asked: pd.DataFrame) -> pd.DataFrame:
        """Read the planned attempts; each column has its name in the table or in the frames."""
        names = {}
        for role in ARGUMENTS["plan"]:
            column = COLUMN_OF.get(role, role)
            there = [n for n in (self.names.get(role), column) if n in asked.columns]
            if there and (role != "agent" or role in self.names):
                names[role] = there[0]
        other = self.beside(asked, names)
        columns = other.columns()
        rows = other.keys(columns)
        if "repeat" in columns:
            rows["repeat"] = other.as_tries(columns["repeat"], again=True)
        self.problems += [f"asked: {problem}" for problem in other.problems]
        # without a column of skills, `keys` has given all rows the same skill
        made = {"skill"} - set(self.names)
        given = [role for role in ARGUMENTS["plan"] if role in {*names, *made}]
        return rows[[COLUMN_OF.get(role, role) for role in given]]

    def as_conditions(self, values: pd.Series) -> pd.Series:
        """Convert conditions to text; replace known words by the name of the condition."""
        words = distinct_words(values)
        names = condition_names(word for word in words if word not in self.conditions)
        if odd_words := [word for word, name in names.items() if name is None]:
            odd = values[[word in odd_words for word in values]]
            self.add_problem("condition", f"found {show(odd)}; expected text.")
            return values.map(as_literal).astype("str")
        meanings = {word: str(self.conditions.get(word, names.get(word))) for word in words}
        for problem in pooled_words(meanings, self.conditions):
            self.add_problem("condition", problem)
        self.meanings = meanings
        if values.isna().any():
            self.as_texts(values, "condition")
        if any(as_literal(word) != as_literal(meanings[word]) for word in names):
            self.add_mapping(values, "condition", meanings)
        if meanings and "baseline" not in meanings.values():
            present = list(dict.fromkeys(meanings.values()))
            none = f"none is 'baseline'; there: {', '.join(present)}"
            choices = reference_choices(present)
            self.changes.append(Change("conditions=", none, choices, len(values)))
        return values.map(meanings, na_action="ignore").astype("str")

    def _last_rows(self, columns: Columns) -> Columns:
        """Return the columns without the rows that a later row replaces.

        A later row replaces an earlier one if both have the same skill, case, condition, agent,
        check, grader, grader version, repeat, attempt and round (as far as there are columns).
        """
        place = [role for role in ARGUMENTS["keep="] if role in columns]
        earlier = pd.DataFrame({role: columns[role] for role in place}).duplicated(keep="last")
        if earlier.any():
            alike = f"rows with equal {', '.join(place)}"
            change = Change("keep=", alike, "only the last row kept", int(earlier.sum()))
            self.changes.append(change)
        self.frame = self.frame[~earlier].reset_index(drop=True)
        return {role: values[~earlier].reset_index(drop=True) for role, values in columns.items()}

    def refuse_equal_rows(self, rows: pd.DataFrame) -> None:
        """Add a problem if rows have equal keys, and name what could distinguish them."""
        twice = rows.duplicated(keep=False)
        if twice.any():
            n, first = plural(int(twice.sum()), "row"), rows[twice].iloc[0].dropna().to_dict()
            remedy = self._differences(rows, self._unnamed_columns())
            self.asks_roles = bool(remedy)
            remedy = remedy or (
                "No column tells them apart; keep='last' means that a later row replaces them."
            )
            self.problems.append(
                f"{n} are verdicts on the same thing; the first: {first}. {remedy}"
            )

    def _unnamed_columns(self) -> pd.DataFrame:
        """Return the columns of the table that no argument names."""
        return self.frame.drop(columns=list(self.names.values()))

    def _differences(self, rows: pd.DataFrame, columns: pd.DataFrame) -> str:
        """Name those of the columns that differ between rows with equal keys, and arguments."""
        listed = differing_columns(columns, rows.groupby(list(rows), dropna=False).ngroup())
        if not listed:
            return ""
        *roles, last = (f"{role}=" for role in ARGUMENTS["apart"] if role in self.roles)
        return f"They differ in {listed}: {', '.join(roles)} or {last}?"

    def repeats(self, columns: Columns, rows: pd.DataFrame) -> pd.Series:
        """Return each row's repeat, numbered from 1 within its case, condition and agent."""
        if "repeat" in columns:
            return self.as_tries(columns["repeat"])
        if "attempt" in columns:
            ids = self.as_texts(columns["attempt"], "attempt")
            first = ~ids.duplicated()
            numbers = rows[first].groupby(CELL, dropna=False).cumcount() + 1
            return ids.map(dict(zip(ids[first], numbers, strict=True))).astype("Int64")
        if "check" in columns:
            return pd.Series(1, index=rows.index, dtype="Int64")
        keys = [*CELL, "grader", "grader_version"]
        if "round" in columns:  # rows of different rounds are not repeats
            keys, rows = [*keys, "round"], rows.assign(round=columns["round"])
        numbers = rows.groupby(keys, dropna=False).cumcount() + 1
        if numbers.gt(1).any():
            self.numbered = True
            done = f"numbered as repeats in their order up to {int(numbers.max())}"
            words = self._unnamed_columns().select_dtypes(["str", "category"])
            hint = self._differences(rows[CELL], words.loc[:, words.nunique().le(_FEW_VALUES)])
            done += "; name repeat= where a column says which." + (hint and f" {hint}")
            alike = "rows that share skill, case, condition and agent"
            self.changes.append(Change("repeat=", alike, done, int(numbers.gt(1).sum())))
        return numbers.astype("Int64")

    def as_tries(self, values: pd.Series, *, again: bool = False) -> pd.Series:
        """Replace the repeats in a column by the numbers 1, 2 and so on.

        If the numbers start at 0, 1 is added; names are numbered in alphabetical order. With
        ``again``, a second column is numbered in the same way as the first.
        """
        if values.isna().any():
            self.as_texts(values, "repeat")
            return pd.Series(1, index=values.index, dtype="Int64")
        numbers = pd.to_numeric(values.astype("object"), errors="coerce").astype("float64")
        # from 2 ** 53 on, floats no longer hold every whole number
        if (numbers % 1 == 0).all() and numbers.between(0, 2**53).all():
            if not again:
                self.from_zero = bool((numbers == 0).any())
                if self.from_zero:
                    self.add_change("repeat", "counted from 0", "1 was added", len(numbers))
            return (numbers + self.from_zero).astype("Int64")
        names = self.as_texts(values, "repeat")
        if again:
            return names.map(self.tries).astype("Int64")
        self.tries = {name: at for at, name in enumerate(sorted(names.dropna().unique()), start=1)}
        self.add_mapping(names, "repeat", self.tries)
        return names.map(self.tries).astype("Int64")

    def attempt_ids(self, columns: Columns, rows: pd.DataFrame) -> pd.Series:
        """Return each row's attempt id: the given id or one made of its keys."""
        if "attempt" not in columns:
            return made_ids(rows)
        ids = self.as_texts(columns["attempt"], "attempt")
        each = rows[CELL].assign(id=ids).drop_duplicates()["id"]
        twice = each[each.duplicated()]
        if len(twice):
            n = plural(len(twice), "such id")
            several = f"'{twice.iloc[0]}' stands for several cases or conditions ({n})"
            self.add_problem("attempt", f"{several}; an answer has one of each.")
        return ids

    def as_numbers(self, values: pd.Series, role: str) -> pd.Series:
        """Convert a column to floats; report values that are not numbers."""
        try:
            numbers: pd.Series = convert(values, "float64")
        except ConversionError as error:
            self.add_problem(role, str(error))
            return pd.Series(np.nan, index=values.index)
        odd = values[numbers.lt(0) | np.isinf(numbers)]
        if role == "check_weight" and len(odd):
            self.add_problem(role, f"found {show(odd)}; allowed: at least 0.")
        return numbers

    def case_column(self, values: pd.Series, role: str) -> pd.Series:
        """Convert a column about cases; its argument ``role`` decides which values are allowed."""
        if role == "transfer":
            return self.mapped(values, role, DISTANCES, "'near', 'far' or missing").astype("str")
        if role == "should_trigger":
            return self.as_verdicts(values, role)
        texts = self.as_texts(values, role, needed=False)
        if role != "dimension":
            return texts
        upper = texts.str.strip().str.upper()
        if not upper.isin(DIMENSIONS).any():
            return texts.str.strip()
        if not upper.dropna().isin(DIMENSIONS).all():
            self.add_change(
                role,
                "not all are C1 to C9",
                "stored in 'dimension', which analyses within the nine dimensions leave out",
                int(texts.notna().sum()),
            )
            return texts
        if texts.dropna().ne(upper.dropna()).any():
            present = texts.notna()
            self.add_mapping(texts, role, dict(zip(texts[present], upper[present], strict=True)))
        return upper


def made_ids(rows: pd.DataFrame) -> pd.Series:
    """Return unique ids ``skill/case/condition/repeat``, with the agent if there is one."""
    tries = row_tuples(rows, TRY)
    ids = {}
    for skill, case, condition, agent, number in dict.fromkeys(tries):
        begun = case if str(case).startswith(f"{skill}/") else f"{skill}/{case}"
        who = condition if agent is None else f"{condition}/{agent}"
        ids[skill, case, condition, agent, number] = f"{begun}/{who}/{number}"
    if len(set(ids.values())) < len(ids):  # names that contain slashes can give equal ids
        ids = {key: f"{name}#{at}" for at, (key, name) in enumerate(ids.items(), start=1)}
    return pd.Series([ids[key] for key in tries], index=rows.index, dtype="str")


def row_tuples(rows: pd.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the columns ``names`` as one tuple per row, with None for a missing value."""
    columns = [rows[name].astype("object").where(rows[name].notna(), None) for name in names]
    return list(zip(*columns, strict=True))


def _are_scores(values: Iterable[Any]) -> bool:
    """Return whether all values are numbers and one of them can only be a score.

    A number can only be a score if it is from 0 to 100, but not 0 or 1, which are verdicts, and
    not 9 or 99, which are codes for missing values.
    """
    numbers = pd.to_numeric(pd.Series(list(values), dtype="object"), errors="coerce")
    of_scores = numbers.between(0, 100) & ~numbers.isin([0, 1, 9, 99])
    return bool(of_scores.any() and numbers.notna().all())


def words_with_counts(values: pd.Series) -> str:
    """List the distinct values, each with its number of rows."""
    counts = values.map(as_literal).value_counts(sort=False)
    parts = [f"{word} ({plural(n, 'row')})" for word, n in counts.head(_MOST_WORDS).items()]
    n_more = len(counts) - _MOST_WORDS
    more = f" and {n_more} more ({plural(counts.iloc[_MOST_WORDS:].sum(), 'row')})"
    return ", ".join(parts) + (more if n_more > 0 else "")
