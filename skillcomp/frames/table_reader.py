"""Reader of one table: it finds the columns, converts their values and collects the problems."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, combinations, takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillcomp.errors import (
    UNKNOWN,
    FrameError,
    argument,
    literal,
    plural,
    problem_list,
    require_known,
    shortened,
    suggest,
)
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
from skillcomp.frames.contracts import CELL, DIFFERENT_MODELS, REPLACED
from skillcomp.frames.estimates import columns_of, group_codes, reference_choices
from skillcomp.frames.words import (
    ARGUMENTS,
    COLUMN_OF,
    NO_ERROR,
    NO_VALUE,
    NUMBER_CODES,
    WORDS,
    ColumnName,
    Words,
    as_literal,
    as_name,
    columns_with_roles,
    condition_names,
    distinct_words,
    is_negated,
    literal_key,
    plain_value,
    plain_word,
    pooled_words,
    truth_words,
    usual_columns,
    usual_condition,
)
from skillcomp.io.files import whole_content
from skillcomp.io.study_overview import change_lines
from skillcomp.records import DIMENSIONS
from skillcomp.stats.results import is_number, join_notes

WHAT = "from_frame"
_MOST_WORDS = 5  # A problem lists at most this many distinct words.
UNNAMED = "unnamed condition"
# values of the keys of a row that the table lacks
_DEFAULTS = {
    "skill": "the skill",
    "condition": UNNAMED,
    "check": "passed",
    "grader": "unnamed grader",
}
# rows that differ in a column of these are never repeats
_APART = ("agent", "grader", "check", "labeller")
_APART_NAMED = ("agent_model", "grader_model", "labeller")
_MODELS = ("agent", "grader", "agent_model", "grader_model")
_UNEQUAL = 0.2  # a caution names shares of replaced failures that differ by at least this much
_COUNTS = re.compile(r"\s*([0-9]{1,4}) ?/ ?([0-9]{1,4})\s*")
# columns that counts of passes may stand beside
_OF_COUNTS = (*(r for r in ARGUMENTS["key"] if r != "check"), *ARGUMENTS["case"], "agent_model")
# forms of texts that are numbers; "1,000" can be one or a thousand
_FORMS = {
    "": r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?",
    "decimal commas": r"[+-]?(?![1-9][0-9]{0,2}(?:,[0-9]{3})+$)[0-9]+(?:,[0-9]+)?",
    "per cent": r"[+-]?[0-9]+(?:[.,][0-9]+)? ?%",
    "dollars": r"[+-]?(?:\$ ?[0-9]+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)? ?(?:\$|USD))",
}
TRY = [*CELL, "repeat"]
GRADED = [*CELL, "check_id", "grader", "grader_version"]  # rows of one repeat differ in these
_KINDS = ("cases", "attempts", "verdicts", "outcomes", "gold")  # frames that every table gives


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


def warn_of_changes(what: str, changes: pd.DataFrame, stacklevel: int) -> None:
    """Warn of changes if there are any; ``what`` says what was read."""
    if len(changes):
        lines = "".join(f"\n- {line}" for line in change_lines(changes.to_dict("records")))
        warnings.warn(f"{what} so:{lines}", FrameWarning, stacklevel=stacklevel)


class TableReader:
    """Reader of one table; it collects the problems that it finds and the changes that it makes."""

    def __init__(
        self,
        frame: pd.DataFrame,
        names: Mapping[str, ColumnName],
        *,
        place: str = WHAT,
        words: Mapping[str, Mapping[Any, Any]] | None = None,
        missing: Any = (),
    ) -> None:
        require_frame(frame, place)
        self.place, self.frame = place, frame
        for role, value in names.items():
            if not isinstance(value, Hashable):
                raise FrameError(
                    f"{place}: {argument(role)}: found a {type(value).__name__}; expected the name "
                    "of a column. If these are the values, assign them to a column first: "
                    f"table.assign({role}=...)."
                )
        self.roles = tuple(names)
        self.asks_roles = False  # whether a problem is that a role of a column is unclear
        self.meanings: dict[Any, str] = {}  # The condition that each word means.
        self.names = {role: name for role, name in names.items() if name is not None}
        self.words = self._own_words(words)
        self.missing = {}
        for value in as_list(missing):
            if not pd.api.types.is_scalar(value):
                raise FrameError(
                    f"{place}: {argument('missing')}: found {value!r}; allowed: single values, "
                    f"such as {argument('missing', [-1, 'n/a'])}."
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
        self.caution = ""  # a note that every result of the table carries

    def beside(
        self, what: str, frame: pd.DataFrame, names: Mapping[str, ColumnName]
    ) -> tuple[TableReader, pd.DataFrame]:
        """Read the keys of a second table, which has the same words and numbers of repeats."""
        words = {**self.words, "condition": self.meanings | self.own_words("condition")}
        words["passed"] = self.own_words("passed") | self.words.get("gold", {})
        try:
            other = TableReader(frame, names, words=words, missing=list(self.missing.values()))
            rows = other.read()
        except FrameError as error:
            raise FrameError(f"{what}: {error}") from None
        other.from_zero, other.tries = self.from_zero, self.tries
        self.unused = {key: value for key, value in self.unused.items() if key in other.unused}
        other.convert_keys(rows)
        if "repeat" in rows:
            rows["repeat"] = other.as_tries(rows["repeat"], again=True)
        return other, rows

    def _own_words(self, words: Any) -> dict[str, dict[Any, Any]]:
        """Return the meanings by column; raise FrameError for an unknown column or meaning."""
        example = argument("words", {"transfer": {"close": "near"}})
        if not isinstance(words, Mapping | None) or not all(
            isinstance(own, Mapping) for own in (words or {}).values()
        ):
            found = f"{argument('words')}: found {literal(words)}; expected such as {example}."
            raise FrameError(f"{self.place}: {found}")
        place = f"{self.place}: {argument('words')}: found"
        read: dict[str, dict[Any, Any]] = {}
        for role, own in (words or {}).items():
            require_known(place, role, WORDS, label="columns with words")
            known = self.known_words(role).meanings
            meanings = list(dict.fromkeys(known.values()))
            for word, meaning in own.items():
                named = known.get(meaning if meaning in meanings else plain_word(meaning), meaning)
                if (named not in meanings) if known else (not as_name(named)):
                    allowed = ", ".join(map(str, meanings)) or "a text"
                    said = f"{place} {literal(meaning)} for {as_literal(word)} of '{role}'"
                    raise FrameError(f"{said}; allowed: {allowed}.")
                read.setdefault(role, {})[word] = named
        return read

    def known_words(self, role: str) -> Words:
        """Return the words of a column; the gold of pairs has those of a winner."""
        return WORDS["winner" if role == "gold" and "winner" in self.roles else role]

    def own_words(self, role: str) -> dict[Any, Any]:
        """Return the meanings that the caller gave; gold has words of the verdicts, too.

        A known word of the verdicts may mean something else in the column of gold.
        """
        of_verdicts = "winner" if "winner" in self.names else "passed"
        more = self.words.get(of_verdicts, {}) if role == "gold" else {}
        known = {**WORDS["passed"].meanings, **WORDS["winner"].meanings}
        more = {word: m for word, m in more.items() if plain_word(word) not in known}
        return {**more, **self.words.get(role, {})}

    def require_direction(self, role: str, values: pd.Series, meanings: tuple[Any, Any]) -> bool:
        """Ask what True means if the name of the column may turn it, such as no_skill or failed.

        ``meanings`` are those of True and False if the name did not turn them. Return whether the
        question was asked.
        """
        own = set(map(plain_word, self.own_words(role)))
        kind = "passed" if role == "gold" else role
        truths = truth_words(self.names.get(role, role), kind, distinct_words(values))
        truths = {word: truth for word, truth in truths.items() if plain_word(word) not in own}
        if not truths:
            return False
        readings = [
            argument("words", {role: {plain_value(w): pair[not t] for w, t in truths.items()}})
            for pair in (meanings, meanings[::-1])
        ]
        found = f"found {' and '.join(map(as_literal, truths))}, and the name leaves open what "
        self.add_problem(role, f"{found}they mean: {' or '.join(readings)}?")
        return True

    def raise_problems(self) -> None:
        """Raise one error that lists the problems so far."""
        if self.problems:
            message = problem_list(self.place, self.problems)
            if self.asks_roles:
                arms = [name for name in self.frame if usual_condition(name)]
                if len(arms) > 1 and not set(arms) <= set(self.names.values()):
                    listed = " and ".join(map(literal, arms))
                    message += f"\n- {listed} are names of conditions; a row is one answer (melt)."
                message += f"\n{columns_with_roles(self.frame, self.names, self.roles)}"
            raise FrameError(message, self.problems)

    def facts(self) -> dict[str, Any]:
        """Return the columns and the changes for `Frames`; also list changes in a warning."""
        for value in self.unused.values():
            self.changes.append(Change("missing=", as_literal(value), "in no column", 0))
        for role, own in self.words.items():
            name = self.names.get(role)
            values = self.frame[name] if name in self.frame else pd.Series(dtype="str")
            if role == "gold" or "gold" in self.names:
                continue  # labels may have the words
            there = set(map(plain_word, distinct_words(values)))
            for word in [word for word in own if plain_word(word) not in there]:
                self.changes.append(Change(f"words= of {role}", as_literal(word), "in no row", 0))
        warn_of_changes(f"{self.place} read the table", changes_frame(self.changes), 4)
        columns = {role: str(name) for role, name in self.names.items()}
        return {"columns": columns, "problems": changes_frame([*self.changes, *self.declared])}

    def column_label(self, role: str) -> str:
        """Return a label of a column for messages: its name and the argument that names it."""
        name = self.names.get(role, role)
        return f"column '{name}' ({argument(role.partition(' ')[0], label=name)})"

    def add_problem(self, role: str, problem: str) -> None:
        """Record a problem with the column that the argument ``role`` names."""
        self.problems.append(f"{self.column_label(role)}: {problem}")

    def add_change(self, role: str, found: str, done: str, n: int, *, warns: bool = True) -> None:
        """Record a change to values of the column that the argument ``role`` names.

        What the caller declared is listed without a warning (not ``warns``).
        """
        changes = self.changes if warns else self.declared
        changes.append(Change(self.column_label(role), found, done, int(n)))

    def usual(self, role: str) -> list[Hashable]:
        """Return the columns with a usual name for an argument that no argument names."""
        return usual_columns(role, self.frame, self.names.values())

    def find(self, roles: Sequence[str], options: Sequence[Sequence[Hashable]]) -> None:
        """Name the columns that were found for arguments, unless one of these is given.

        If several fit, a problem asks which ones are meant.
        """
        if {*roles} & self.names.keys():
            return
        if len(options) > 1:
            listed = " or ".join(" and ".join(map(as_literal, labels)) for labels in options)
            column, it = ("column", "it") if len(roles) == 1 else ("columns", "them")
            ask = f"may be the {column} {listed}; name {it}."
            self.problems.append(f"{' and '.join(map(argument, roles))} {ask}")
        for labels in options[:1]:
            self.names |= dict(zip(roles, labels, strict=True))

    def read(self, *required: str) -> pd.DataFrame:
        """Return the columns that arguments name, as the frames call them; report missing ones."""
        frame = self.frame
        self._refuse_flags()
        for role in required:
            if role not in self.names:
                self.problems.append(f"{argument(role)} is needed: name the column of the table.")
                self.asks_roles = True
        words = [str(label) for label in frame]
        there = f"; there: {', '.join(words) or 'none'}"
        near = {word.casefold(): word for word in reversed(words)}
        for role, name in self.names.items():
            if name not in frame:
                hint = ""  # the list of columns has one with a usual name
                if similar := near.get(str(name).casefold()):
                    hint = f" Did you mean '{similar}'?"
                elif name != role or not self.usual(role):
                    hint = suggest(str(name), words)
                what = f"there is no column '{name}' ({argument(role.partition(' ')[0])})"
                self.problems.append(f"{what}{there}.{hint}")
                there = ""  # only the first problem lists the columns of the table
                self.asks_roles = True
        self.raise_problems()
        self.frame = frame.reset_index(drop=True)
        rows = {}
        for role, name in self.names.items():
            values = plain_values(self.frame[name])
            objects = values if values.dtype == object else ()
            odd = [value for value in objects if not pd.api.types.is_hashable(value)]
            if odd:
                found = type(odd[0]).__name__
                self.add_problem(role, f"found a {found}; expected plain values.")
            rows[COLUMN_OF.get(role, role)] = values
        self.raise_problems()
        for role in ARGUMENTS["missing="]:
            if self.missing and role in rows:
                rows[role] = self._without_missing(rows[role], role)
        return pd.DataFrame(rows, self.frame.index)

    def taken(self, rows: pd.DataFrame, which: Any) -> pd.DataFrame:
        """Keep only some rows of the table, and return the same rows of a frame."""
        self.frame = self.frame.loc[which].reset_index(drop=True)
        return pd.DataFrame(rows.loc[which]).reset_index(drop=True)

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
        is_code = scores.isin(NUMBER_CODES)
        others = scores[~is_code].dropna()
        for code in map(int, scores[is_code].unique()):
            outside = len(others) and (code < 0 <= others.min() or code > 2 * others.max())
            if outside and literal_key(code) not in self.missing:
                missing = argument("missing", [code])
                done = f"counted as a score; {missing} if it means that there is none"
                self.add_change("score", str(code), done, scores.eq(code).sum())

    def _refuse_flags(self) -> None:
        """Add a problem if the skill column says whether a skill was loaded, and not which one."""
        name = self.names.get("skill")
        words = distinct_words(self.frame[name]) if name in self.frame else []
        own = set(map(plain_word, self.own_words("skill")))
        meanings = set(condition_names(words).values())
        if meanings != {"baseline", "skill"} or own >= set(map(plain_word, words)):
            return
        both = " and ".join(sorted(map(as_literal, words)))
        why = f"found {both}, which tell the conditions apart and name no skill"
        as_skill = argument("words", {"skill": {plain_value(word): str(word) for word in words}})
        self.add_problem(
            "skill",
            f"{why}. Is this {argument('condition', plain_value(name))} of one skill, or "
            f"are these names of skills, {as_skill}?",
        )
        if self.names.get("condition") not in self.frame:
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
            fix = " (pandas.read_csv keeps ids with dtype=str)" if is_number(odd.iloc[0]) else fix
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

    def mapped(self, values: pd.Series, role: str) -> pd.Series:
        """Map words to meanings; record unknown words as problems and mapped words as changes."""
        meanings = self.meanings_of(values, role)
        given = set(map(plain_word, self.own_words(role)))
        listed = {word: m for word, m in meanings.items() if plain_word(word) not in given}
        if any(as_literal(word) != as_literal(meaning) for word, meaning in listed.items()):
            self.add_mapping(values, role, listed)
        return values.map(meanings.get, na_action="ignore").astype("object")

    def meanings_of(
        self, values: pd.Series, role: str, words: Mapping[Any, Any] | None = None
    ) -> dict[Any, Any]:
        """Return the meaning of each distinct word; record unknown words as problems.

        The words of the caller take precedence. If a word is unknown, the result is empty.
        ``words`` replaces the known words of the column.
        """
        known, allowed, plain = self.known_words(role)
        own = {plain(word): meaning for word, meaning in self.own_words(role).items()}
        words = {**(known if words is None else words), **own}
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
        named = dict.fromkeys(meaning for meaning in known.values() if meaning is not None)
        allowed = allowed or f"{', '.join(map(literal, named))} or missing"
        problem = f"found {odd}; allowed: {allowed}.{suggest(first, near)}"
        if are_scores:
            scores = argument("score", plain_value(self.names.get(role)))
            value = f"{argument('value', 'score')} and {argument('bounds')}"
            problem += (
                f" Scores are named by {scores} and compared by {value}; counts of passes are "
                "texts such as '3/5'."
            )
        else:
            open_ = {plain_value(word): UNKNOWN for word in list(unknown)[:_MOST_WORDS]}
            says = "says what they mean" if len(open_) > 1 else "says what it means"
            none = "; None: no value" if None in words.values() else ""
            problem += f" {argument('words', {role: open_})} {says}{none}."
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
        if role != "should_trigger" and self.require_direction(role, values, (True, False)):
            return pd.Series(pd.NA, index=values.index, dtype="boolean")
        is_plain = values.dtype.kind == "b" or str(values.dtype) == "boolean"
        if is_plain and not self.own_words(role):
            return values.astype("boolean")
        return self.mapped(values.astype("object"), role).astype("boolean")

    def convert_keys(self, rows: pd.DataFrame) -> None:
        """Convert the columns that identify a verdict to text; add those that the table lacks.

        They are skill, case_id, condition, agent, check_id, grader and grader_version.
        """
        for role in ARGUMENTS["key"]:
            column = COLUMN_OF.get(role, role)
            if role not in self.names:
                rows[column] = pd.Series(_DEFAULTS.get(role), rows.index, dtype="str")
            elif role == "condition":
                rows[column] = self.as_conditions(rows[column])
            else:
                rows[column] = self.as_texts(rows[column], role, needed=role != "grader_version")
        if "skill" in self.names:
            own = {str(word): name for word, name in self.own_words("skill").items()}
            self._ask_similar_skills(rows["skill"], {*own, *own.values()})
            rows["skill"] = rows["skill"].map(lambda name: own.get(name, name), na_action="ignore")

    def _ask_similar_skills(self, names: pd.Series, own: set[str]) -> None:
        """Add a problem if the names of two skills differ by case or blanks only."""
        for alike in _alike(names.dropna().unique()):
            if not own >= set(alike):
                first, *others = alike
                one = argument("words", {"skill": dict.fromkeys(others, first)})
                apart = argument("words", {"skill": {name: name for name in alike}})
                both = " and ".join(map(literal, alike))
                self.add_problem("skill", f"{both}: are they one skill ({one}) or not ({apart})?")

    def note_similar_cases(self, rows: pd.DataFrame) -> None:
        """Add a change for cases of other arms or repeats whose ids are spelled almost alike.

        Ids that differ by case, blanks or zeros may be one case that two files spell differently.
        """
        alike = _alike(rows["case_id"].dropna().unique())
        names = [name for group in alike for name in group]
        cases = rows[rows["case_id"].isin(names)]
        keys = ["condition", *columns_of(cases, "repeat")]
        cells = cases.groupby(keys, dropna=False, sort=False).ngroup()
        of_case = cells.groupby(cases["case_id"]).agg(set)
        pairs = [group for group in alike if not set.intersection(*(of_case[n] for n in group))]
        if pairs:
            examples = "; ".join(" and ".join(map(literal, group)) for group in pairs[:2])
            found = f"ids of different arms that differ by case, blanks or zeros only: {examples}"
            self.add_change("case", found, "different cases", len(cases))

    def as_statuses(self, rows: pd.DataFrame) -> pd.Series:
        """Return the status of each row's answer; NA if no column has a status or an error."""
        ends = pd.Series(pd.NA, rows.index, dtype="str")
        if "status" in rows:
            ends = self.mapped(rows["status"], "status").astype("str")
        if "error" in rows:
            words = rows["error"].map(plain_word, na_action="ignore")
            crashed = words.notna() & ~words.isin(NO_ERROR)
            ends = ends.fillna("ok").mask(crashed & ends.isin(["ok", pd.NA]), "error")
        return ends

    def asked_attempts(self, asked: pd.DataFrame) -> pd.DataFrame:
        """Read the planned attempts; each column has its name in the table or in the frames."""
        names = {}
        for role in ARGUMENTS["plan"]:
            column = COLUMN_OF.get(role, role)
            there = [n for n in (self.names.get(role), column) if n in asked]
            if there and (role != "agent" or role in self.names):
                names[role] = there[0]
        other, rows = self.beside("asked", asked, names)
        self.problems += [f"asked: {problem}" for problem in other.problems]
        # without a column of skills, all rows have the same skill
        made = {"skill"} - set(self.names)
        given = [role for role in ARGUMENTS["plan"] if role in {*names, *made}]
        return rows[[COLUMN_OF.get(role, role) for role in given]]

    def as_conditions(self, values: pd.Series) -> pd.Series:
        """Convert conditions to text; replace known words by the name of the condition."""
        words = distinct_words(values)
        known = {plain_word(word): name for word, name in self.own_words("condition").items()}
        own = {word: known[plain_word(word)] for word in words if plain_word(word) in known}
        names = condition_names(word for word in words if word not in own)
        if odd_words := [word for word, name in names.items() if name is None]:
            odd = values[[word in odd_words for word in values]]
            self.add_problem("condition", f"found {show(odd)}; expected text.")
            return values.map(as_literal).astype("str")
        if self.require_direction("condition", values, ("skill", "baseline")):
            return values.map(as_literal, na_action="ignore").astype("str")
        meanings = {word: str(own.get(word, names.get(word))) for word in words}
        for problem in pooled_words(meanings, own):
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
            self.changes.append(Change("condition", none, choices, len(values)))
        return values.map(meanings, na_action="ignore").astype("str")

    def with_counts(self, rows: pd.DataFrame, keep: str | None) -> tuple[pd.DataFrame, str | None]:
        """Replace counts such as "3/5" in ``passed`` by one row per attempt.

        Which of them passed is unknown. Also return what rows with equal keys are: ``keep`` or,
        after counts, ``"all"``.
        """
        present = rows.get("passed", pd.Series(dtype="str")).dropna()
        present = present[~present.map(plain_word).isin(NO_VALUE)] if len(present) else present
        counts = (_COUNTS.fullmatch(v) if isinstance(v, str) else None for v in present)
        matches = list(takewhile(bool, counts))
        if present.empty or len(matches) < len(present):
            return rows, keep
        parts = pd.DataFrame([m.groups() for m in matches if m], present.index).astype("int64")
        facts = ("cluster", "facts")
        of_cell = [r for r in self.names if r in _OF_COUNTS or r.partition(" ")[0] in facts]
        more = [r for r in self.names if r != "passed" and r not in of_cell]
        cells = rows[[COLUMN_OF.get(role, role) for role in of_cell]]
        problem = ""
        if parts[0].gt(parts[1]).any():
            problem = f"found {show(present[parts[0].gt(parts[1])])}: too many"
        elif more:
            problem = f"counts say nothing about {', '.join(map(argument, more))} of each attempt"
        elif cells.duplicated().any() and keep is None:
            both = f"{argument('keep', 'all')} adds them, {argument('keep', 'last')} takes the last"
            problem = f"several counts on the same thing: {both}"
        if problem:
            self.add_problem("passed", f"{problem}.")
        self.add_change(
            "passed", "counts such as '3/5'", "attempts, of which so many passed", len(present)
        )
        sizes = parts[1].reindex(rows.index).fillna(1).astype("int64")
        if keep == "last":
            sizes = sizes.mask(cells.duplicated(keep="last"), 0)
        if (n_none := int(sizes.eq(0).sum())) and keep != "last":
            self.add_change("passed", "0/0", "no attempt", n_none)
        at = rows.index.repeat(sizes)
        n_passed = parts[0].reindex(at).to_numpy()
        passed = pd.Series(pd.Series(at).groupby(at).cumcount().lt(n_passed), dtype="boolean")
        return self.taken(rows, at).assign(passed=passed.mask(np.isnan(n_passed))), "all"

    def kept(self, rows: pd.DataFrame, keep: str | None) -> pd.DataFrame:
        """Return the rows without those that a later row replaces.

        With ``keep="last"``, a later row replaces an earlier one if both have the same skill, case,
        condition, agent, check, grader, grader version, repeat, attempt and round (as far as there
        are columns). If one arm lost clearly more failed rows than another, `caution` says so.
        """
        require_known(
            f"{self.place}: {argument('keep')}: found", str(keep), ("None", "all", "last")
        )
        keys = rows[columns_of(rows, *ARGUMENTS["keep="])]
        earlier = keys.duplicated(keep="last")
        if keep != "last" or not earlier.any():
            return rows
        arms, failed = rows["condition"], earlier & rows["passed"].eq(False).fillna(False)
        if "status" in rows:
            failed &= ~rows["status"].isin(["error", "paused"])
        counts = pd.DataFrame({"rows": earlier, "failed": failed}).groupby(arms).sum()
        lines = [f"{arm} {n.rows} ({n.failed} failed)" for arm, n in counts.iterrows()]
        found = "rows that a later row replaced"
        done = ", ".join(lines) if "condition" in self.names else "left out"
        self.changes.append(Change(argument("keep"), found, done, int(earlier.sum())))
        retried = failed.groupby(keys.groupby(list(keys), dropna=False).ngroup()).transform("any")
        if _unequal(arms[~earlier], retried[~earlier]):
            self.caution = f"{REPLACED}: {', '.join(lines)}"
        return self.taken(rows, ~earlier)

    def ask_about_equal_rows(self, rows: pd.DataFrame, place: list[str]) -> None:
        """Add a problem if rows are verdicts on the same thing, with the effect of each remedy."""
        twice = rows.duplicated(place, keep=False)
        if not twice.any():
            return
        n, first = plural(int(twice.sum()), "row"), rows.loc[twice, place].iloc[0].dropna()
        earlier = rows.duplicated(place, keep="last")
        self.asks_roles = True
        differ = self._differences(rows[place], list(self.frame))
        text = differ or "No other column differs within them."
        last = f"with {argument('keep', 'last')}, a later row replaces an earlier one"
        if self._differences(rows[place], self._apart()):
            text += " Such rows are never repeats; name the column."
        elif "first" in place and "repeat" not in self.names and differ:
            text += f" {argument('repeat')} names the column of turns or repeated judgements."
        elif "attempt" in self.names or "first" in place:
            text += (
                f" {last[0].upper()}{last[1:]}, which drops {plural(int(earlier.sum()), 'row')}."
            )
        else:
            arms = list(dict.fromkeys(rows["condition"]))
            every, left, lost = (
                _pass_rates(part, arms) for part in (rows, rows[~earlier], rows[earlier])
            )
            text += (
                f" Repeats in this order are {argument('keep', 'all')}: {every}; {last}: {left}, "
                f"without {lost}."
            )
        names = {COLUMN_OF.get(role, role): str(name) for role, name in self.names.items()}
        parts = [
            f"{names.get(str(n), n)} {as_literal(value)}"
            for n, value in first.items()
            if n not in COLUMN_OF.values() or n in names
        ]
        self.problems.append(
            f"{n} are verdicts on the same thing; the first: {', '.join(parts)}. {text}"
        )

    def note_models(self, arms: pd.Series) -> None:
        """Caution if a column that no argument names, called as models are, differs by arm."""
        roles = [r for r in _MODELS if f"{r.removesuffix('_model')}_model" not in self.names]
        for label in chain.from_iterable(map(self.usual, roles)):
            models = self.frame[label].dropna().map(lambda model: " ".join(str(model).split()))
            pairs = pd.DataFrame({"arm": arms, "model": models}).dropna().drop_duplicates()
            pairs = pairs[pairs["model"].ne("") & pairs["model"].ne(pairs["arm"])]
            if pairs["arm"].nunique() > 1 and pairs["model"].is_unique:
                each = pairs.groupby("arm", sort=False)["model"].agg(" and ".join)
                listed = shortened((f"{arm} {names}" for arm, names in each.items()), _MOST_WORDS)
                found = f"{DIFFERENT_MODELS} by the column '{label}': {listed}"
                self.caution = join_notes(self.caution, found)

    def _apart(self) -> list[Hashable]:
        """Return the columns in which repeats never differ, such as the model or the judge."""
        named = [self.names[role] for role in _APART_NAMED if role in self.names]
        return [*chain.from_iterable(map(self.usual, _APART)), *named]

    def _differences(self, rows: pd.DataFrame, labels: list[Hashable]) -> str:
        """Name those of the columns that differ between rows with equal keys, and their roles."""
        known = [self.names.get(role) for role in (*ARGUMENTS["key"], "repeat", "passed", "order")]
        columns = self.frame[[label for label in labels if label not in known]]
        several = rows.duplicated(keep=False).to_numpy()
        code = rows[several].groupby(list(rows), dropna=False).ngroup()
        labels = [
            label
            for label, values in columns[several].map(repr).items()
            if values.groupby(code).nunique(dropna=False).gt(1).any()
        ]
        roles = {
            label: f" ({argument(role, label=label)})"
            for role in ARGUMENTS["apart"]
            for label in usual_columns(role, columns, ())
        }
        listed = [literal(label) + roles.get(label, "") for label in labels]
        return f"Within them differ {', '.join(listed)}." if listed else ""

    def repeats(self, rows: pd.DataFrame, keep: str | None) -> pd.Series:
        """Return each row's repeat, numbered from 1 within its case, condition and agent."""
        if "attempt_id" in rows and "repeat" not in rows:
            ids = self.as_texts(rows["attempt_id"], "attempt")
            first = ~ids.duplicated()
            numbers = rows[first].groupby(CELL, dropna=False).cumcount() + 1
            return ids.map(dict(zip(ids[first], numbers, strict=True))).astype("Int64")
        # rows of different rounds are not repeats
        keys = [*GRADED, *columns_of(rows, "round")]
        tries = pd.Series(1, index=rows.index, dtype="Int64")
        if "repeat" in rows:
            tries = self.as_tries(rows["repeat"])
        rows = rows.assign(repeat=tries)
        place = [*keys, "repeat"]
        again = rows.groupby(place, dropna=False).cumcount() + 1
        if self.problems or again.eq(1).all():
            return tries
        alike = not self._differences(rows[place], self._apart())
        cells = rows.groupby(keys, dropna=False)[place[0]].transform("size")
        alone = not {"repeat", "check"} & self.names.keys()
        if not alike or not (keep == "all" or (alone and cells.nunique() == 1)):
            self.ask_about_equal_rows(rows, place)
            return tries
        self.numbered = True
        done = f"numbered as repeats in their order up to {int(cells.max())}"
        others = [name for name in self.frame if name not in self.names.values()]
        done += f". {hint[:-1]}" if (hint := self._differences(rows[place], others)) else ""
        found = "rows that share " + ", ".join(dict.fromkeys([*CELL, *place[3:]]))
        place_of = argument("keep" if keep else "repeat")
        change = Change(place_of, found, done, int(again.gt(1).sum()))
        (self.declared if keep else self.changes).append(change)
        return (rows.groupby(keys, dropna=False).cumcount() + 1).astype("Int64")

    def take_usual_repeats(self, rows: pd.DataFrame) -> None:
        """Read the repeats from the only column with a usual name for them, if there is one.

        A column with more values than rows in any cell holds ids, and is not read.
        """
        sizes = rows.groupby(GRADED, dropna=False).size()
        labels = self.usual("repeat")
        known = {"repeat", "attempt", "round"} & self.names.keys()
        if known or not sizes.gt(1).any() or len(labels) != 1:
            return
        values = plain_values(self.frame[labels[0]])
        n = len(distinct_words(values))
        if values.notna().all() and 0 < n <= sizes.max():
            self.names["repeat"] = labels[0]
            rows["repeat"] = values
            self.add_change("repeat", plural(n, "value"), "read as the repeats", len(values))

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

    def attempt_ids(self, rows: pd.DataFrame) -> pd.Series:
        """Return each row's attempt id: the given id or one made of its keys."""
        if "attempt_id" not in rows:
            return made_ids(rows)
        ids = self.as_texts(rows["attempt_id"], "attempt")
        each = rows[CELL].assign(id=ids).drop_duplicates()["id"]
        twice = each[each.duplicated()]
        if len(twice):
            n = plural(len(twice), "such id")
            several = f"'{twice.iloc[0]}' stands for several cases or conditions ({n})"
            numbers = f"{argument('repeat', label=self.names['attempt'])} numbers repeats"
            self.add_problem("attempt", f"{several}; an answer has one of each ({numbers}).")
        return ids

    def as_numbers(self, values: pd.Series, role: str) -> pd.Series:
        """Convert a column to floats; report values that are not numbers.

        If all texts have one form, such as "0,5", "60 %", "$0.06" or, for seconds, "1m 30s", they
        are read, and a change says so.
        """
        read = None
        if not pd.api.types.is_numeric_dtype(values):
            words = values.map(plain_word, na_action="ignore")
            values = values.astype("object").mask(words.isin(NO_VALUE), None)
            texts = values.dropna()
            if len(texts) and all(isinstance(text, str) for text in texts):
                read = _numbers_in(texts.str.strip(), role)
        if read is not None:
            values = read[0].reindex(values.index)
            if read[1]:
                done = f"numbers: {literal(texts.iloc[0])} is {read[0].iloc[0]:g}"
                self.add_change(role, read[1], f"read as {done}", len(texts))
        try:
            numbers: pd.Series = convert(values, "float64")
        except ConversionError as error:
            self.add_problem(role, f"{error} Write every value as a plain number such as 1250.5.")
            return pd.Series(np.nan, index=values.index)
        odd = values[numbers.lt(0) | np.isinf(numbers)]
        if role == "check_weight" and len(odd):
            self.add_problem(role, f"found {show(odd)}; allowed: at least 0.")
        return numbers

    def converted(self, values: pd.Series, role: str) -> pd.Series:
        """Convert a column that is no key; the argument that names it decides how."""
        if role in ARGUMENTS["number"]:
            return self.as_numbers(values, role)
        if role in ("transfer", "check_kind"):
            return self.mapped(values, role).astype("str")
        if role == "should_trigger":
            return self.as_verdicts(values, role)
        if role.startswith("facts"):
            values = values.map(str, na_action="ignore")
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
    code, first = group_codes(rows, TRY)
    ids = []
    for skill, case, condition, agent, number in rows[TRY].iloc[first].itertuples(index=False):
        begun = case if str(case).startswith(f"{skill}/") else f"{skill}/{case}"
        who = condition if pd.isna(agent) else f"{condition}/{agent}"
        ids.append(f"{begun}/{who}/{number}")
    if len(set(ids)) < len(ids):  # names that contain slashes can give equal ids
        ids = [f"{name}#{at}" for at, name in enumerate(ids, start=1)]
    return pd.Series(ids, dtype="str").take(code).set_axis(rows.index)


def _numbers_in(texts: pd.Series, role: str) -> tuple[pd.Series, str] | None:
    """Return the numbers in texts of one form, and the form; None for another form."""
    for form, pattern in _FORMS.items():
        if (form != "dollars" or role == "cost_usd") and texts.str.fullmatch(pattern).all():
            digits = texts.str.replace(r"[^0-9.,e+-]", "", regex=True).str.replace(",", ".")
            numbers: pd.Series = pd.to_numeric(digits)
            return (numbers / 100 if form == "per cent" else numbers), form
    if role == "seconds" and texts.str.contains("[a-z:]").all():
        spans = pd.to_timedelta(texts, errors="coerce")
        if spans.notna().all():
            return spans.dt.total_seconds(), "durations"
    return None


def _pass_rates(rows: pd.DataFrame, arms: list[str]) -> str:
    """Return the passes and the number of rows by condition in one text."""
    verdicts = rows.assign(passed=rows["passed"].astype("float64"))
    by_arm = (
        verdicts.groupby("condition")["passed"].agg(["sum", "size"]).reindex(arms, fill_value=0)
    )
    return ", ".join(f"{int(k)} of {int(n)} pass under {arm}" for arm, k, n in by_arm.itertuples())


def _unequal(arms: pd.Series, marked: pd.Series) -> bool:
    """Return whether the shares of marked rows differ clearly between two arms."""
    from scipy.stats import fisher_exact

    table = pd.crosstab(arms, marked).reindex(columns=[False, True], fill_value=0)
    shares = table[True] / table.sum(axis=1)
    pairs = combinations(table.to_numpy(), 2)
    return bool(
        shares.max() - shares.min() >= _UNEQUAL
        or any(fisher_exact(np.array(pair))[1] < 0.05 for pair in pairs)
    )


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ by case, blanks or leading zeros only."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        key = re.sub(r"(?<!\d)0+(?=\d)", "", "".join(name.casefold().split()))
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _are_scores(values: Iterable[Any]) -> bool:
    """Return whether all values are numbers and one of them can only be a score.

    A number can only be a score if it is from 0 to 100, but not 0 or 1, which are verdicts, and
    not 9 or 99, which are codes for missing values.
    """
    plain = [v.rstrip(" %") if isinstance(v, str) else v for v in values]
    numbers = pd.to_numeric(pd.Series(plain, dtype="object"), errors="coerce")
    of_scores = numbers.between(0, 100) & ~numbers.isin([0, 1, 9, 99])
    return bool(of_scores.any() and numbers.notna().all())


def words_with_counts(values: pd.Series) -> str:
    """List the distinct values, each with its number of rows."""
    counts = values.map(as_literal).value_counts(sort=False)
    parts = [f"{word} ({plural(n, 'row')})" for word, n in counts.head(_MOST_WORDS).items()]
    n_more = len(counts) - _MOST_WORDS
    more = f" and {n_more} more ({plural(counts.iloc[_MOST_WORDS:].sum(), 'row')})"
    return ", ".join(parts) + (more if n_more > 0 else "")
