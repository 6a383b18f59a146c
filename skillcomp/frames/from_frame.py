"""A researcher's own table as checked frames: ids made, words mapped, and told how."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, plural, problem_list, suggest
from skillcomp.frames.check import check as check_frame
from skillcomp.frames.check import empty, plain_values, require_frame, show
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.outcomes import outcomes as outcomes_of
from skillcomp.frames.reference_labels import ITEM
from skillcomp.records import DIMENSIONS, dimension_family

_WHAT = "from_frame"
# Words of tables in the wild, by what they mean here; compared without case, blanks, "_" and "-".
_CONDITIONS = {
    "baseline": (
        *("baseline", "base", "control", "without", "no", "off", "0", "false", "no skill"),
        *("without skill", "without the skill", "without a skill", "noskill", "unassisted"),
        *("w/o", "w/o skill", "w/o skill.md", "without skill.md", "no skill.md"),
    ),
    "skill": (
        *("skill", "with", "treatment", "treated", "on", "yes", "1", "true", "with skill"),
        *("with the skill", "with a skill", "withskill", "skilled"),
        *("w/", "w/ skill", "w/ skill.md", "with skill.md", "skill.md"),
    ),
    "placebo": ("placebo", "sham", "placebo skill", "other skill"),
    "previous": ("previous", "old", "old skill", "previous skill", "previous version"),
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
_CONDITION_OF = {word: name for name, words in _CONDITIONS.items() for word in words}
_SHOWN = 5  # names of tries told in a warning
_FACTS = ("prompt", "transfer", "dimension", "contrast_of")
_OF_ANSWERS = ("answer", "seconds", "cost_usd")
# role, column, and what stands there when no column was named
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
_FEW_VALUES = 12  # of a column that may name graders or tries
_TRY = [*_CELL, "repeat"]
_KEYS = ["attempt_id", *_TRY]


class FrameWarning(UserWarning):
    """What was read of a researcher's own table in another way than it stands there."""


class Frames(NamedTuple):
    """The frames of one study, each under its contract.

    Attributes
    ----------
    cases, attempts, verdicts, outcomes, gold : pandas.DataFrame
        As :mod:`skillcomp.frames` would read them from a store; gold is empty where none is given.
    """

    cases: pd.DataFrame
    attempts: pd.DataFrame
    verdicts: pd.DataFrame
    outcomes: pd.DataFrame
    gold: pd.DataFrame

    @property
    def fingerprint(self) -> str:
        """The sha256 of what the frames hold."""
        return sha256("\n".join(one.to_csv(index=False) for one in self).encode()).hexdigest()


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
    prompt: Hashable | None = None,
    answer: Hashable | None = None,
    seconds: Hashable | None = None,
    cost_usd: Hashable | None = None,
    gold: Hashable | pd.DataFrame | None = None,
    labeller: Hashable | None = None,
    conditions: Mapping[Any, str] | None = None,
) -> Frames:
    """Make checked frames of a researcher's own table, one row per verdict or per answer.

    What a column is, is said by its name; nothing is taken from a column that is not named. Every
    analysis then takes the frames: ``outcomes`` for deltas, skill verdicts and transfer,
    ``verdicts`` and ``gold`` for drift, bias and correction, and the report all of them.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per answer, or per answer, check and grader. Any dtypes.
    skill, case, condition, passed : hashable
        Columns of the table. ``skill=None`` for a table about one skill only, which is then called
        "the skill". A case is its skill and its name. Conditions are kept, but for words that mean
        baseline, skill, placebo or previous ("with skill", "control", 1 ...), which become those.
        Passed may hold truth values, 1 and 0, or words such as "yes" and "fail"; what has no value
        there ("n/a", "", NaN) is a verdict that is missing, never a fail. A score is none of
        these: cut it first.
    repeat : hashable, optional
        Which try at the case, from 0 or from 1, or any names of tries. Without it, and without
        ``check``, rows that share case, condition, agent and grader are numbered in their order.
    check, check_kind : hashable, optional
        What was verified, and whether it is ``positive`` or ``negative``. Without ``check`` a row
        is the verdict on a whole answer.
    grader, grader_version, agent : hashable, optional
        Who judged, in which version, and who answered. Without ``grader`` it is called "own".
    attempt : hashable, optional
        Ids of the answers. Made of skill, case, condition, agent and repeat when not given.
    dimension, transfer, contrast_of, prompt : hashable, optional
        What is known of the case, the same in each of its rows: a dimension (C1 to C9, or names
        of one's own, are taken as ``comprehension_dimension``; where both are there, all stay in
        ``dimension``), near or far, the case it is the twin of, its text.
    answer, seconds, cost_usd : hashable, optional
        Of the answer, the same in each of its rows.
    gold : hashable or pandas.DataFrame, optional
        Reference labels: a column of the table, or a frame with the columns that name an item in
        the table (``attempt``, or skill, case, condition, repeat and agent; ``check`` where there
        is one), the label in the column that ``passed`` names and, where they are there,
        ``inclusion_probability``, ``borderline`` and ``note``.
    labeller : hashable, optional
        Who gave the label: a column of where the labels are. "own" when not given.
    conditions : mapping, optional
        What the table's words for conditions mean, such as ``{"v2": "skill"}``; before any other
        rule, and without a warning.

    Returns
    -------
    Frames
        cases, attempts, verdicts, outcomes and gold, each under its contract.

    Raises
    ------
    FrameError
        With one sentence a problem: a column that is not there (and the nearest that is), a key
        that is missing, a word that has no meaning, a fact that differs between the rows of a case
        or an answer, two rows that say the same thing.

    Warns
    -----
    FrameWarning
        Once, of everything that was read in another way than it stands in the table, with the
        number of rows; and of labels that belong to nothing in it.

    See Also
    --------
    check : Holds a frame that has the contract's columns already against it.

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
    named = {
        **{"skill": skill, "case": case, "condition": condition, "passed": passed},
        **{"repeat": repeat, "check": check, "check_kind": check_kind, "agent": agent},
        **{"grader": grader, "grader_version": grader_version, "attempt": attempt},
        **{"dimension": dimension, "transfer": transfer, "contrast_of": contrast_of},
        **{"prompt": prompt, "answer": answer, "seconds": seconds, "cost_usd": cost_usd},
    }
    if labeller is not None and gold is None:
        raise FrameError(f"{_WHAT}: labeller= names who gave the labels, and there is no gold=.")
    if gold is not None and not isinstance(gold, pd.DataFrame):
        named |= {"gold": gold, "labeller": labeller}
    read = _Reading(named, dict(conditions or {}))
    given = read.columns(frame, required=("case", "condition", "passed"))
    rows = read.keys(given, len(frame))
    rows["repeat"] = read.repeats(given, rows)
    rows["attempt_id"] = read.attempt_ids(given, rows)
    rows["passed"] = read.truths(given["passed"], "passed")
    facts = {name: read.fact(given[name], name) for name in _FACTS if name in given}
    amounts = {name: given[name] for name in _OF_ANSWERS if name in given}
    read.refuse()
    answers = rows[_KEYS].assign(**amounts)
    made = {
        "cases": _cases(rows, facts, read),
        "attempts": _one_each(answers, ["attempt_id"], amounts, read, "answer"),
        "verdicts": _verdicts(rows, given, read),
        "gold": _labels_beside(gold, labeller, rows, read)
        if isinstance(gold, pd.DataFrame)
        else _labels_inside(given, rows, read),
    }
    read.refuse()
    made = {kind: read.checked(one, kind) for kind, one in made.items()}
    read.refuse()
    outcomes = outcomes_of(made["verdicts"], made["cases"])
    if made["cases"]["dimension"].notna().any():
        extra = made["cases"][[*CASE, "dimension"]]
        outcomes = outcomes.merge(extra, on=CASE, how="left", validate="many_to_one")
    read.warn()
    return Frames(outcomes=outcomes, **made)


class _Reading:
    """Reads the columns of one table; what is wrong with it and what was mapped is collected."""

    def __init__(self, named: Mapping[str, Hashable | None], conditions: dict[Any, str]) -> None:
        self.named = {role: name for role, name in named.items() if name is not None}
        self.conditions = conditions
        self.problems: list[str] = []
        self.told: list[str] = []
        # what the table's repeats turned out to be, for the gold frame read after it
        self.from_zero = False
        self.tries: dict[str, int] = {}
        self.numbered = False
        self.others: dict[Hashable, pd.Series] = {}  # unnamed columns of text

    def refuse(self) -> None:
        """Raise one error of all that is wrong so far."""
        if self.problems:
            raise FrameError(problem_list(_WHAT, self.problems), self.problems)

    def warn(self) -> None:
        """Warn once of all that was read in another way than it stands there."""
        if self.told:
            lines = "".join(f"\n- {one}" for one in self.told)
            warnings.warn(f"{_WHAT} read the table so:{lines}", FrameWarning, stacklevel=3)

    def place(self, role: str) -> str:
        """Name a column with what it was given for."""
        return f"column '{self.named.get(role, role)}' ({role}=)"

    def fault(self, role: str, said: str) -> None:
        self.problems.append(f"{self.place(role)}: {said}")

    def tell(self, role: str, said: str) -> None:
        self.told.append(f"{self.place(role)}: {said}")

    def columns(self, frame: pd.DataFrame, required: Iterable[str]) -> dict[str, pd.Series]:
        """Return the named columns by what they are; every one that is not there is a problem."""
        for role in required:
            if role not in self.named:
                self.problems.append(f"{role}= is needed: name the column of the table.")
        words = [str(one) for one in frame.columns]
        there = f"; there: {', '.join(words) or 'none'}"
        near = {word.casefold(): word for word in reversed(words)}
        for role, name in self.named.items():
            if name not in frame.columns:
                found = near.get(str(name).casefold())
                hint = f" Did you mean '{found}'?" if found else suggest(str(name), words)
                self.problems.append(f"there is no {self.place(role)}{there}.{hint}")
                there = ""  # once is enough
        self.refuse()
        source = frame.reset_index(drop=True)
        held = {role: plain_values(source[name]) for role, name in self.named.items()}
        unnamed = source.drop(columns=list(self.named.values())).select_dtypes(["str", "category"])
        self.others = dict(unnamed.items())
        for role, values in held.items():
            odd = values[[not isinstance(one, Hashable) for one in values]]
            if len(odd):
                self.fault(role, f"found a {type(odd.iloc[0]).__name__}; expected plain values.")
        self.refuse()
        return held

    def texts(self, values: pd.Series, role: str, *, needed: bool = True) -> pd.Series:
        """Return names as text; whole numbers are names as well, in whatever dtype."""
        texts = values.map(_name, na_action="ignore").astype("object")
        odd = values[values.notna() & texts.isna()]
        if len(odd):
            self.fault(role, f"found {show(odd)}; expected text.")
        missing = values.isna() | texts.eq("")
        if needed and missing.any():
            n, first = plural(int(missing.sum()), "row"), int(np.flatnonzero(missing)[0])
            self.fault(role, f"missing in {n}, the first is row {first}; every row needs one.")
        return texts.astype("str")

    def mapped(
        self, values: pd.Series, role: str, words: Mapping[Any, Any], allowed: str
    ) -> pd.Series:
        """Return what words mean; a word without a meaning is a problem, a mapping is told."""
        plain = {word: _plain_word(word) for word in pd.unique(values[values.notna()])}
        found = {word: words.get(key) for word, key in plain.items()}
        unknown = [word for word, key in plain.items() if key not in words]
        if unknown:
            odd = values[values.isin(unknown)]
            hint = suggest(str(unknown[0]).casefold(), [str(word) for word in words if word])
            self.fault(role, f"found {show(odd)}; allowed: {allowed}.{hint}")
        elif any(_literal(word) != _literal(meaning) for word, meaning in found.items()):
            self.tell_words(values, role, found)
        return values.map(found, na_action="ignore")

    def tell_words(self, values: pd.Series, role: str, found: Mapping[Any, Any]) -> None:
        """Say which words were taken for what, with their rows."""
        n = values.map(_literal, na_action="ignore").value_counts()
        read = {_literal(word): meaning for word, meaning in found.items()}
        parts = [
            f"{word} as {'missing' if meaning is None else meaning} ({plural(int(n[word]), 'row')})"
            for word, meaning in read.items()
        ]
        self.tell(role, f"{', '.join(parts)}.")

    def checked(self, frame: pd.DataFrame, kind: str) -> pd.DataFrame:
        """Return a frame under its contract; a problem is told of the column in the table."""
        try:
            return check_frame(frame, kind)
        except FrameError as error:
            before = "gold: " if kind == "gold" else ""
            for one in error.problems:
                told = re.sub(
                    r"column '(\w+)'",
                    lambda found: self.place(found[1]) if found[1] in self.named else found[0],
                    one,
                    count=1,
                )
                self.problems.append(before + told)
            return frame

    def truths(self, values: pd.Series, role: str) -> pd.Series:
        """Return PASS or FAIL as nullable truth values."""
        if values.dtype.kind == "b" or str(values.dtype) == "boolean":
            return values.astype("boolean")
        allowed = (
            "True, False, 1, 0, words such as 'yes' and 'fail', or missing; cut a score first, "
            "and put None where there is no verdict"
        )
        return self.mapped(values, role, _TRUTHS, allowed).astype("boolean")

    def keys(self, given: dict[str, pd.Series], n: int) -> pd.DataFrame:
        """Return skill, case, condition, agent, check and grader of each of n rows as text."""
        rows = pd.DataFrame(index=range(n))
        for role, column, otherwise in _NAMES:
            if role not in given:
                rows[column] = pd.Series([otherwise] * n, dtype="str")
            elif role == "condition":
                rows[column] = self.as_conditions(given[role])
            else:
                rows[column] = self.texts(given[role], role, needed=role != "grader_version")
        return rows

    def as_conditions(self, values: pd.Series) -> pd.Series:
        """Return conditions, those of fixed meaning under their names."""
        found: dict[Any, str] = {}
        meant: dict[str, Any] = {}
        plainly = True
        for word in pd.unique(values[values.notna()]):
            if word in self.conditions:
                found[word] = str(self.conditions[word])
                continue
            name = _CONDITION_OF.get(_plain_word(word)) or _name(word)
            if name is None:
                self.fault("condition", f"found {show(values[values.eq(word)])}; expected text.")
                return values.astype("object")
            found[word] = name
            plainly &= _literal(word) == _literal(name)
        for word, name in found.items():
            if _plain_word(meant.setdefault(name, word)) != _plain_word(word) and not (
                word in self.conditions and meant[name] in self.conditions
            ):
                both = f"{_literal(meant[name])} and {_literal(word)} would both be '{name}'"
                self.fault("condition", f"{both}; say what they mean by conditions={{...}}.")
        if values.isna().any():
            self.texts(values, "condition")
        if not plainly:
            self.tell_words(values, "condition", found)
        if found and "baseline" not in found.values():
            self.tell(
                "condition",
                "none is 'baseline', with which analyses compare unless told otherwise; there: "
                f"{', '.join(dict.fromkeys(found.values()))}. Say which it is, as "
                f"conditions={{{_literal(next(iter(found)))}: 'baseline'}}, or name it to each "
                "analysis by reference=.",
            )
        return values.map(found, na_action="ignore").astype("str")

    def repeats(self, given: dict[str, pd.Series], rows: pd.DataFrame) -> pd.Series:
        """Return tries counted from 1."""
        if "repeat" in given:
            return self.as_tries(given["repeat"])
        if "attempt" in given:
            ids = self.texts(given["attempt"], "attempt")
            first = ~ids.duplicated()
            numbers = rows[first].groupby([*_CELL], dropna=False).cumcount() + 1
            return ids.map(dict(zip(ids[first], numbers, strict=True))).astype("Int64")
        if "check" in given:
            return pd.Series(1, index=rows.index, dtype="Int64")
        numbers = rows.groupby([*_CELL, "grader", "grader_version"], dropna=False).cumcount() + 1
        if numbers.gt(1).any():
            self.numbered = True
            self.told.append(
                "rows that share skill, case, condition and agent are repeats, numbered in their "
                f"order up to {int(numbers.max())}; name repeat= where a column says which."
                + self._that_differ(rows)
            )
        return numbers.astype("Int64")

    def _that_differ(self, rows: pd.DataFrame) -> str:
        """Name the unnamed columns in which rows numbered as repeats differ."""
        place = rows.groupby([*_CELL], dropna=False).ngroup()
        found = [
            f"'{name}'"
            for name, values in self.others.items()
            if 1 < values.nunique() <= _FEW_VALUES and values.groupby(place).nunique().gt(1).any()
        ]
        if not found:
            return ""
        return f" They differ in {', '.join(found)}: grader=, check=, agent= or repeat=?"

    def as_tries(self, values: pd.Series, *, again: bool = False) -> pd.Series:
        """Return a column of repeats as numbers from 1."""
        if values.isna().any():
            self.texts(values, "repeat")
            return pd.Series(1, index=values.index, dtype="Int64")
        numbers = pd.to_numeric(values.astype("object"), errors="coerce").astype("float64")
        if numbers.notna().all() and (numbers % 1 == 0).all() and (numbers >= 0).all():
            if not again:
                self.from_zero = bool((numbers == 0).any())
                if self.from_zero:
                    self.tell("repeat", "counted from 0; 1 was added.")
            return (numbers + self.from_zero).astype("Int64")
        names = self.texts(values, "repeat")
        if again:
            return names.map(self.tries).astype("Int64")
        self.tries = {name: at for at, name in enumerate(sorted(names.unique()), start=1)}
        read = ", ".join(f"'{name}' as {at}" for name, at in list(self.tries.items())[:_SHOWN])
        more = ", ..." if len(self.tries) > _SHOWN else ""
        self.tell("repeat", f"names of tries were numbered: {read}{more}.")
        return names.map(self.tries).astype("Int64")

    def attempt_ids(self, given: dict[str, pd.Series], rows: pd.DataFrame) -> pd.Series:
        """Return the ids of answers: those given, else made of what names an answer."""
        if "attempt" not in given:
            return _made_ids(rows)
        ids = self.texts(given["attempt"], "attempt")
        cells = pd.DataFrame({"id": ids, "cell": _tuples(rows, _CELL)}).drop_duplicates()
        twice = cells.loc[cells["id"].duplicated(), "id"]
        if len(twice):
            several = f"'{twice.iloc[0]}' stands for several cases or conditions"
            n = plural(len(twice), "such id")
            self.fault("attempt", f"{several} ({n}); an answer has one of each.")
        return ids

    def fact(self, values: pd.Series, role: str) -> pd.Series:
        """Return what is said of a case, row by row."""
        if role == "transfer":
            return self.mapped(values, role, _DISTANCES, "'near', 'far' or missing").astype("str")
        texts = self.texts(values, role, needed=False)
        if role != "dimension":
            return texts
        upper = texts.str.strip().str.upper()
        if not upper.isin(DIMENSIONS).any():
            return texts.str.strip()
        if not upper.dropna().isin(DIMENSIONS).all():
            self.tell(
                role,
                "not all are C1 to C9; the names stand in 'dimension', and analyses within the "
                "nine dimensions leave them out.",
            )
            return texts
        if texts.dropna().ne(upper.dropna()).any():
            known = texts.notna()
            self.tell_words(texts, role, dict(zip(texts[known], upper[known], strict=True)))
        return upper


def _cases(rows: pd.DataFrame, facts: dict[str, pd.Series], read: _Reading) -> pd.DataFrame:
    cases = _one_each(rows[CASE].assign(**facts), CASE, facts, read, "case")
    named = set(facts["dimension"].dropna()) if "dimension" in facts else set()
    if named and named <= set(dimension_family(named)):
        cases = cases.rename(columns={"dimension": "comprehension_dimension"})
    counted = rows.groupby(CASE)["check_id"].nunique().rename("n_checks").reset_index()
    return cases.merge(counted, on=CASE, how="left")


def _one_each(
    table: pd.DataFrame, unit: list[str], roles: Iterable[str], read: _Reading, what: str
) -> pd.DataFrame:
    """Return one row per unit with what is said of it; saying two things is a problem."""
    for role in roles:
        several = table.groupby(unit)[role].nunique().gt(1)
        if several.any():
            first = several.index[several][0]
            name = "/".join(first) if isinstance(first, tuple) else first
            n = plural(int(several.sum()), what)
            read.fault(role, f"differs between the rows of one {what} ({n}; the first: '{name}').")
    # the first value that is there, not the value of the first row
    return table.groupby(unit, sort=False, as_index=False).first()[list(table.columns)]


def _verdicts(rows: pd.DataFrame, given: dict[str, pd.Series], read: _Reading) -> pd.DataFrame:
    place = ["attempt_id", "check_id", "grader", "grader_version"]
    twice = rows.loc[rows.duplicated(place, keep=False), place]
    if len(twice):
        n, first = plural(len(twice), "row"), twice.iloc[0].dropna().to_dict()
        lacking = [r for r in ("repeat", "check", "grader", "grader_version") if r not in given]
        hint = f" Does a column say {', '.join(f'{r}=' for r in lacking)}?" if lacking else ""
        read.problems.append(f"{n} are verdicts on the same thing; the first: {first}.{hint}")
    verdicts = rows.assign(round=1)
    if "check_kind" in given:
        allowed, kinds = "'positive', 'negative' or missing", given["check_kind"]
        words = {"positive": "positive", "negative": "negative"}
        verdicts["check_kind"] = read.mapped(kinds, "check_kind", words, allowed)
    # why a verdict is missing is not known: no status is claimed for it
    return verdicts.assign(status=rows["passed"].notna().map({True: "ok", False: None}))


def _labels_inside(given: dict[str, pd.Series], rows: pd.DataFrame, read: _Reading) -> pd.DataFrame:
    if "gold" not in given:
        return empty("gold")
    labels = rows[ITEM].assign(passed=read.truths(given["gold"], "gold"))
    labels["labeller"] = "own"
    if "labeller" in given:
        labels["labeller"] = read.texts(given["labeller"], "labeller", needed=False)
    labels = labels[labels["passed"].notna()].drop_duplicates()
    twice = labels.loc[labels.duplicated([*ITEM, "labeller"]), ITEM]
    if len(twice):
        item = twice.iloc[0].to_dict()
        read.fault("gold", f"differs between rows of one item; the first: {item}.")
    return labels


def _labels_beside(
    gold: pd.DataFrame, labeller: Hashable | None, rows: pd.DataFrame, read: _Reading
) -> pd.DataFrame:
    """Return labels of a frame of their own, joined by what names an item in the table."""
    require_frame(gold, f"{_WHAT}: gold")
    keys: tuple[str, ...] = ("skill", "case", "condition", "agent", "repeat")
    if "attempt" in read.named:
        keys = ("attempt",)
    elif read.numbered:
        read.problems.append(
            "gold: which of several repeats a label is of cannot be told; name repeat= or "
            "attempt=, a column of both."
        )
        return empty("gold")
    wanted = {r: read.named[r] for r in (*keys, "check", "passed") if r in read.named}
    other = _Reading({**wanted, "labeller": labeller}, read.conditions)
    other.from_zero, other.tries = read.from_zero, read.tries
    try:
        given = other.columns(gold, required=())
    except FrameError as error:
        raise FrameError(f"gold: {error}") from None
    items = other.keys(given, len(gold))
    items["repeat"] = other.as_tries(given["repeat"], again=True) if "repeat" in given else 1
    if "attempt" in given:
        items["attempt_id"] = other.texts(given["attempt"], "attempt")
    else:
        of_try = dict(zip(_tuples(rows, _TRY), rows["attempt_id"], strict=True))
        made = zip(_tuples(items, _TRY), _made_ids(items), strict=True)
        items["attempt_id"] = pd.Series([of_try.get(one, own) for one, own in made], dtype="str")
    items["passed"] = other.truths(given["passed"], "passed")
    items["labeller"] = other.texts(given["labeller"], "labeller") if "labeller" in given else "own"
    for name in ("inclusion_probability", "borderline", "note"):
        if name in gold.columns:
            items[name] = gold[name].array
    read.problems += [f"gold: {one}" for one in other.problems]
    # a gold frame may well hold one condition only
    read.told += [f"gold: {one}" for one in other.told if "none is 'baseline'" not in one]
    known = pd.MultiIndex.from_frame(items[ITEM]).isin(pd.MultiIndex.from_frame(rows[ITEM]))
    strays = items.loc[~known, ITEM]
    if len(strays):
        n, first = f"{len(strays)} of {plural(len(gold), 'label')}", strays.iloc[0].to_dict()
        read.told.append(f"gold: {n} match nothing in the table; the first: {first}.")
    return items[[c for c in items.columns if c in CONTRACTS["gold"].columns]]


def _made_ids(rows: pd.DataFrame) -> pd.Series:
    """Return skill/case/condition/repeat, with the agent where there is one; never twice."""
    tries = _tuples(rows, _TRY)
    ids = {}
    for skill, case, condition, agent, number in dict.fromkeys(tries):
        begun = case if str(case).startswith(f"{skill}/") else f"{skill}/{case}"
        who = condition if agent is None else f"{condition}/{agent}"
        ids[skill, case, condition, agent, number] = f"{begun}/{who}/{number}"
    if len(set(ids.values())) < len(ids):  # slashes inside names
        ids = {one: f"{name}#{at}" for at, (one, name) in enumerate(ids.items(), start=1)}
    return pd.Series([ids[one] for one in tries], index=rows.index, dtype="str")


def _tuples(rows: pd.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the values of some columns row by row, None where one is missing."""
    columns = [rows[name].astype("object").where(rows[name].notna(), None) for name in names]
    return list(zip(*columns, strict=True))


def _name(value: Any) -> str | None:
    """Return a value as a name: text, or a whole number of any kind."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return str(int(value)) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _plain_word(value: Any) -> str:
    """Return a word without case, blanks at its ends, and the signs that join words."""
    text = str(value) if isinstance(value, bool | np.bool_) else _name(value)
    if text is None:
        return "\0"  # no word
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def _literal(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
