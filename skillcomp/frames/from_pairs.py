"""Conversion of a plain table of pairwise verdicts to frames with comparisons and gold."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, literal, plural, require_known, suggest
from skillcomp.frames.check import check, empty, require_frame
from skillcomp.frames.from_store import n_words
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import (
    Change,
    Columns,
    TableReader,
    words_with_counts,
)
from skillcomp.frames.usual_columns import differing_columns, usual_columns
from skillcomp.frames.words import NO_VALUE, as_literal, distinct_words, plain_word

WHAT = "from_pairs"
# Names of columns such as model_a and output_1 consist of a word and a side. The words in _SYSTEMS
# mean that the column holds names of systems, those in _TEXTS that it holds texts.
_SYSTEMS = ("model", "system", "agent")
_TEXTS = ("output", "response", "answer", "completion", "text", "candidate")
_SIDES = (("a", "b"), ("1", "2"), ("first", "second"), ("left", "right"))
# A word for the winner, also in a mapping `winner_names`, can mean the answer in the first or
# second column (A, B), the answer shown first or second, or a tie.
_MEANINGS = ("A", "B", "first", "second", "tie")
_PLAIN_TIES = ("tie", "tied", "draw", "equal", "same", "c", "a=b", "a~=b", "b=a")
_TIES = (
    *_PLAIN_TIES,
    *("both", "both bad", "bothbad", "both good", "neither"),
    *("tie (bothbad)", "tie (both bad)", "tie (inconsistent)"),
)
_NOUNS = ("", "model ", "system ", "output ", "response ", "answer ", "assistant ", "candidate ")
_WORDS = {f"{noun}{side}": name for noun, side, name in (
    (noun, side, name) for noun in _NOUNS for name, sides in (("A", "a1"), ("B", "b2"))
    for side in sides)}  # fmt: skip
_WORDS |= dict.fromkeys(("a>b", "a>>b", "b<a", "b<<a", "1.0", "1>2"), "A")
_WORDS |= dict.fromkeys(("b>a", "b>>a", "a<b", "a<<b", "2.0", "2>1"), "B")
_WORDS |= {"first": "first", "second": "second", **dict.fromkeys(_TIES, "tie")}
_ALLOWED = (
    "the value of the first or the second column, A and B, 1 and 2, model_a and model_b, A>B, "
    "first and second, tie, or missing"
)
_ORDERS = {
    **dict.fromkeys(("ab", "1", "1.0", "original", "swap = false", "swap=false", "not swapped"), 1),
    **dict.fromkeys(("ba", "2", "2.0", "swapped", "reversed", "swap = true", "swap=true"), 2),
}
# For each word in a column called swap or swapped, the order that it means (2: swapped).
_SWAPS = {"false": 1, "0": 1, "no": 1, "true": 2, "1": 2, "yes": 2}
_LONG_NAME = 100  # A value with more characters is a text and not the name of a system.
_KEY = ["case_id", "grader", "first", "second"]


def from_pairs(
    table: pd.DataFrame,
    *,
    case: Hashable | None = None,
    first: Hashable | None = None,
    second: Hashable | None = None,
    winner: Hashable | None = None,
    winner_names: Literal["answer", "position"] | Mapping[Any, str | None] | None = None,
    order: Hashable | None = None,
    gold: Hashable | None = None,
    grader: Hashable | None = None,
) -> Frames:
    """Convert a table of pairwise verdicts, one row per shown pair, to checked frames.

    Each argument names a column of the table. Columns with usual names, such as question_id,
    model_a, model_b, winner and judge, are recognised; other columns are ignored.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per pair as it was shown to a grader: a judge or a person. A pair in both orders has
        two rows.
    case : hashable, optional
        Column with the case (prompt, question) that both answers answer.
    first, second : hashable, optional
        Columns with the two answers: names of systems (model_a, model_1, system_a) or texts
        (output_1, response_a). Columns with other names hold texts if a value has a line break or
        more than 100 characters, or if no value occurs in two cases. Without ``order``, the answer
        in ``first`` was shown first. With ``order``, both arguments may be left out: the answers
        are then called A and B.
    winner : hashable, optional
        Column with the verdict: a value of the two columns, the name of a column, or a word: A and
        B, 1 and 2, model_a and model_b, ``A>B``, ``A=B``, ``[[A]]``, first and second, tie. A
        missing value or a word for it ("na", "error") is no verdict.
    winner_names : {"answer", "position"} or mapping, optional
        Needed with ``order`` if winners are words such as A or 1. ``"answer"``: A is the answer in
        ``first``, in both orders. ``"position"``: A is the answer shown first. A mapping gives the
        meaning of other words, such as ``{"left": "first", "same": "tie", "?": None}``. In it,
        ``"first"`` and ``"second"`` are the answers shown first and second; ``"A"`` and ``"B"`` are
        the answers in the columns ``first`` and ``second``.
    order : hashable, optional
        Column with the order of presentation: AB and BA, 1 and 2, original and swapped, or truth
        values in a column called swap or swapped. In order 2 the answer in ``second`` was shown
        first.
    gold : hashable, optional
        Column with the better answer of the pair, in the same words as ``winner``. A and B always
        mean the columns ``first`` and ``second``. A value in one row of each pair is enough.
    grader : hashable, optional
        Column with the grader. The default grader is "unnamed grader".

    Returns
    -------
    Frames
        - ``pairwise``: one row per row of the table; ``first`` and ``second`` are the attempts in
          the order shown, ``winner`` and ``gold_winner`` an attempt, ``"tie"`` or missing.
          ``order`` is 1 in the first order of a pair in the table and 2 in the other.
        - ``attempts``: one row per case and answer. Names of systems are in ``agent``, texts in
          ``answer``.
        - ``verdicts``: two rows per row of the table, one for each answer. ``passed`` is True if
          the answer won, and False for both answers of a tie. The check names the other answer and
          the order.
        - ``gold``: for each of these checks, whether the answer is the better one.
        - ``cases``; ``outcomes`` is empty.

    Raises
    ------
    FrameError
        With one sentence per problem: a missing column, columns that cannot be distinguished, an
        unknown word, a gold winner that differs between the rows of a pair, an answer compared with
        itself, or two rows of a grader on one pair in one order. If a role is unclear, the
        message ends with all columns and the argument that the name of each stands for.

    Warns
    -----
    FrameWarning
        One warning that lists rows without a verdict, words for ties other than tie, and how
        columns of unknown names were read.

    See Also
    --------
    from_frame : Converts a table with one row per verdict on one answer.
    skillcomp.bias.position : Estimates the position bias.

    Notes
    -----
    In ``reliability.agreement(made.verdicts, made.gold)`` an item is an answer in a comparison.
    Without ties the agreement is the accuracy; a tie against a gold winner counts one half. False
    passes are losers that the grader prefers, false fails are winners that it does not prefer. Each
    comparison has two items, so count cases, not items.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "question_id": [1, 1, 2], "model_a": ["x", "y", "x"], "model_b": ["y", "x", "y"],
    ...     "winner": ["model_a", "model_b", "tie"], "judge": "g"})
    >>> from_pairs(table).pairwise[["case_id", "order", "first", "second", "winner"]]
      case_id  order first second winner
    0       1      1   1/x    1/y    1/x
    1       1      2   1/y    1/x    1/x
    2       2      1   2/x    2/y    tie
    """
    require_frame(table, WHAT)
    names = {
        "case": case,
        "first": first,
        "second": second,
        "winner": winner,
        "order": order,
        "gold": gold,
        "grader": grader,
    }
    _require_meanings(winner_names)
    reader = TableReader(names, {}, place=WHAT)
    _add_usual_columns(reader, table)
    has_answers = {"first", "second"} & set(reader.names) or "order" not in reader.names
    needed = ("case", "first", "second", "winner") if has_answers else ("case", "winner")
    columns = reader.columns(table, required=needed)
    pairs = _ordered_pairs(columns, reader, winner_names)
    reader.raise_problems()
    pairs = _with_gold(pairs, reader)
    attempts = _attempts_frame(pairs)
    pairs = _with_ids(pairs, attempts)
    _refuse_copies(pairs, reader)
    reader.raise_problems()
    verdicts, labels = _verdicts_and_gold(pairs)
    frames = {
        "cases": attempts[["skill", "case_id"]].drop_duplicates(),
        "attempts": attempts.drop(columns="value"),
        "verdicts": verdicts,
        "outcomes": empty("outcomes"),
        "gold": labels,
        "pairwise": pairs,
    }
    about: dict[str, Any] = {
        name: check(frame.reset_index(drop=True), name) for name, frame in frames.items()
    }
    about["columns"] = {role: str(name) for role, name in reader.names.items()}
    return Frames(**about, problems=reader.listed_changes())


def _require_meanings(winner_names: Any) -> None:
    """Raise FrameError if ``winner_names`` or a meaning in it is not allowed."""
    if winner_names is None or winner_names in ("answer", "position"):
        return
    if not isinstance(winner_names, Mapping):
        hint = suggest(str(winner_names), ["answer", "position"])
        raise FrameError(
            f"{WHAT}: winner_names=: found {literal(winner_names)}; allowed: 'answer', 'position' "
            f"or a mapping of words to meanings.{hint}"
        )
    for word, meaning in winner_names.items():
        if meaning is not None:
            what = f"{WHAT}: winner_names=: {as_literal(word)} means"
            require_known(what, meaning, _MEANINGS, label="allowed (or None)")


def _add_usual_columns(reader: TableReader, table: pd.DataFrame) -> None:
    """Find columns by their usual names for arguments that are not given.

    If several columns fit an argument, record a problem.
    """
    if not {"first", "second"} & set(reader.names):
        _add_columns_of_answers(reader, table)
    for role in ("case", "winner", "gold", "grader", "order"):
        if role in reader.names:
            continue
        labels = usual_columns(role, table, list(reader.names.values()))
        if role == "order":
            labels = [label for label in labels if _are_orders(table[label], label)]
        if len(labels) > 1:
            both = " or ".join(map(as_literal, labels))
            reader.problems.append(f"{role}= may be the column {both}; name it.")
            reader.ambiguous.add(role)
        reader.names |= dict(zip([role], labels, strict=False))


def _add_columns_of_answers(reader: TableReader, table: pd.DataFrame) -> None:
    """Find the two columns of answers; prefer columns of system names to columns of texts."""
    labels = {re.sub(r"[\s_.-]", "", str(label).casefold()): label for label in table.columns}
    sides = [("first", "second")]
    for nouns in (("",), _SYSTEMS, _TEXTS):
        if nouns != ("",):
            sides = [(f"{n}{a}", f"{n}{b}") for n, (a, b) in product(nouns, _SIDES)]
            sides += [(f"{a}{n}", f"{b}{n}") for n, (a, b) in product(nouns, _SIDES)]
        both = [(labels[a], labels[b]) for a, b in sides if a in labels and b in labels]
        both = [two for two in both if not set(two) & set(reader.names.values())]
        if len(both) > 1:
            listed = " or ".join(" and ".join(map(as_literal, two)) for two in both)
            reader.problems.append(f"first= and second= may be {listed}; name them.")
        if both:
            two = dict(zip(("first", "second"), both[0], strict=True))
            reader.names |= two
            return


def _are_orders(values: pd.Series, label: Hashable) -> bool:
    """Return whether all words of a column are known words for an order of presentation."""
    words = [plain_word(word) for word in distinct_words(values)]
    return bool(words) and set(words) <= set(_order_words(label))


def _order_words(label: Hashable) -> dict[str, int]:
    return _ORDERS | (_SWAPS if "swap" in str(label).casefold() else {})


def _ordered_pairs(columns: Columns, reader: TableReader, winner_names: Any) -> pd.DataFrame:
    """Return the pairs in the order shown.

    ``winner`` and ``gold`` are 1 if the answer shown first is the better one, 0 if the second is,
    and .5 for a tie.
    """
    n = len(reader.frame)
    pairs = pd.DataFrame({"case_id": reader.as_texts(columns["case"], "case")})
    pairs["grader"] = (
        reader.as_texts(columns["grader"], "grader")
        if "grader" in columns
        else pd.Series(["unnamed grader"] * n, dtype="str")
    )
    for role, name in (("first", "A"), ("second", "B")):
        texts = reader.as_texts(columns[role], role) if role in columns else [name] * n
        pairs[role] = pd.Series(texts, dtype="str")
    swapped = _second_shown_first(columns, reader)
    alike = pairs["first"].eq(pairs["second"])
    if alike.any():
        first, second = (as_literal(reader.names.get(r, r)) for r in ("first", "second"))
        reader.problems.append(
            f"{plural(int(alike.sum()), 'row')} compare an answer with itself, the first is row "
            f"{int(np.flatnonzero(alike)[0])}; leave them out: "
            f"table[table[{first}] != table[{second}]]."
        )
    roles = [role for role in ("winner", "gold") if role in columns]
    wins = {r: _first_wins(columns[r], r, pairs, swapped, winner_names, reader) for r in roles}
    n_missing = int(wins["winner"].isna().sum())
    if n_missing:
        reader.add_change("winner", "no verdict", "missing, neither a tie nor a loss", n_missing)
    systems = _hold_systems(pairs, reader)
    in_order = pairs.assign(
        first=pairs["first"].where(~swapped, pairs["second"]),
        second=pairs["second"].where(~swapped, pairs["first"]),
    )
    order = swapped.astype("Int64") + 1
    order = order if "order" in columns else order.mask(order.notna())
    return in_order.assign(**wins, order=order, systems=systems)


def _second_shown_first(columns: Columns, reader: TableReader) -> pd.Series:
    """Return for each row whether the answer in ``second`` was shown first."""
    if "order" not in columns:
        return pd.Series(False, index=reader.frame.index)
    allowed, words = "AB and BA, 1 and 2, original and swapped", _order_words(reader.names["order"])
    orders = _read_words(columns["order"].astype("object"), "order", words, allowed, reader)
    n_missing, odd = int(orders.isna().sum()), any("(order=)" in p for p in reader.problems)
    if n_missing and not odd:
        reader.add_problem("order", f"missing in {plural(n_missing, 'row')}; every row needs one.")
    return orders.eq(2)


def _first_wins(
    values: pd.Series,
    role: str,
    pairs: pd.DataFrame,
    swapped: pd.Series,
    winner_names: Any,
    reader: TableReader,
) -> pd.Series:
    """Return 1 for each row in which the answer shown first won, 0 if it lost, and .5 for a tie.

    Rows without a verdict have a missing value.
    """
    own_words = winner_names if isinstance(winner_names, Mapping) else {}
    meanings = _winner_meanings(values, role, pairs, own_words, reader)
    if role == "winner":
        _require_reading(meanings, swapped, winner_names, values, reader)
    by_place = meanings.isin(["first", "second"])
    if role == "winner" and winner_names == "position":
        by_place |= meanings.isin(["A", "B"]) & ~(
            _are_value(values, pairs["first"]) | (_are_value(values, pairs["second"]))
        )
    wins = meanings.isin(["A", "first"]) ^ (swapped & ~by_place)
    decided = meanings.isin(["A", "B", "first", "second"])
    return wins.astype("float64").where(decided).mask(meanings.eq("tie"), 0.5)


def _are_value(values: pd.Series, answers: pd.Series) -> pd.Series:
    """Return whether each winner equals the answer in the same row of ``answers``."""
    texts = values.map(lambda value: str(value).strip(), na_action="ignore")
    return texts.eq(answers.str.strip()).fillna(False).astype(bool)


def _winner_meanings(
    values: pd.Series,
    role: str,
    pairs: pd.DataFrame,
    own_words: Mapping[Any, str | None],
    reader: TableReader,
) -> pd.Series:
    """Return the meaning of each winner: A, B, first, second, tie or missing."""
    is_a, is_b = (_are_value(values, pairs[name]) for name in ("first", "second"))
    others = values.astype("object").mask(is_a | is_b, None)
    words: dict[str, str | None] = dict(_WORDS)
    for side, name in (("first", "A"), ("second", "B")):
        if side in reader.names:
            words.setdefault(plain_word(reader.names[side]), name)
    plain = {_verdict_word(word) for word in distinct_words(others)}
    if "0" in plain and "2" not in plain:
        # in a column of 0 and 1, a 1 may be the second answer or "yes, the first won"
        words.pop("1")
    words |= {_verdict_word(word): meaning for word, meaning in own_words.items()}
    meanings = _read_words(others, role, words, _ALLOWED, reader)
    tied = others[meanings.eq("tie").to_numpy(dtype=bool, na_value=False)]
    for word, n in tied.map(_verdict_word).value_counts().items():
        if word not in (*_PLAIN_TIES, *map(_verdict_word, own_words)):
            reader.add_change(role, as_literal(word), "read as a tie", n)
    return meanings.mask(is_a, "A").mask(is_b, "B")


def _read_words(
    values: pd.Series, role: str, words: Mapping[str, Any], allowed: str, reader: TableReader
) -> pd.Series:
    """Return the meaning of each word; report unknown words."""
    plain = {word: _verdict_word(word) for word in distinct_words(values)}
    unknown = [word for word, key in plain.items() if key not in words and key not in NO_VALUE]
    if unknown:
        listed = words_with_counts(values[values.isin(unknown)])
        near = [word.replace(" ", "_") for word in words]
        hint = suggest(plain[unknown[0]].replace(" ", "_"), near)
        hint = "" if plain[unknown[0]].isdigit() else hint
        reader.add_problem(role, f"found {listed}; allowed: {allowed}.{hint}")
        if role in ("winner", "gold"):
            example = "{" + f"{as_literal(unknown[0])}: 'first'" + "}"
            reader.problems[-1] += f" winner_names={example} says what a word means."
    return values.map({word: words.get(key) for word, key in plain.items()}).astype("object")


def _verdict_word(value: Any) -> str:
    """Return a word without brackets, and without spaces around ">" or "=": "[[A]]" becomes "a"."""
    word = plain_word(float(value) if isinstance(value, np.floating) else value)
    word = re.sub(r"(?<=\w)-(?=\w)", " ", re.sub(r"^\[+(.*?)\]+$", r"\1", word))
    return re.sub(r"\s*([<>=~]+)\s*", r"\1", word)


def _require_reading(
    meanings: pd.Series,
    swapped: pd.Series,
    winner_names: Any,
    values: pd.Series,
    reader: TableReader,
) -> None:
    """Report a problem if some pairs are swapped and a winner such as A is ambiguous.

    With swapped pairs, A may be the answer in the column ``first`` or the answer shown first. It is
    not ambiguous if ``winner_names`` defines its meaning.
    """
    if not swapped.any() or winner_names in ("answer", "position"):
        return
    own = {_verdict_word(word) for word in winner_names or ()}
    plain = values.astype("object").map(_verdict_word, na_action="ignore")
    unclear = meanings.isin(["A", "B"]) & plain.isin(set(_WORDS) - own)
    if not unclear.any():
        return
    word = as_literal(values[unclear].iloc[0])
    reader.add_problem(
        "winner",
        f"with order=, the winner {word} may be an answer or a place. winner_names='answer': the "
        "answer in first= or second=, in both orders; winner_names='position': the answer shown "
        "first or second.",
    )


def _hold_systems(pairs: pd.DataFrame, reader: TableReader) -> bool:
    """Return whether the answers are names of systems and not texts."""
    if "first" not in reader.names:
        return True
    label = re.sub(r"[\s_.-]", "", str(reader.names["first"]).casefold())
    if any(word in label for word in _SYSTEMS):
        return True
    if any(word in label for word in _TEXTS):
        return False
    values = pd.concat([pairs["first"], pairs["second"]])
    cases = pd.concat([pairs["case_id"]] * 2)
    is_long = values.str.len().gt(_LONG_NAME).any() or values.str.contains("\n", regex=False).any()
    systems = not is_long and bool(cases.groupby(values).nunique().gt(1).any())
    kind = f"names of {plural(values.nunique(), 'system')}" if systems else "texts of answers"
    done = f"{kind}; rename the columns to model_a and model_b, or output_a and output_b, to decide"
    reader.changes.append(Change("first=, second=", "read by their values", done, len(pairs)))
    return systems


def _with_gold(pairs: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Add the pair and the order of each row; copy the gold winner to all rows of its pair."""
    low = np.minimum(pairs["first"].to_numpy(object), pairs["second"].to_numpy(object))
    high = np.maximum(pairs["first"].to_numpy(object), pairs["second"].to_numpy(object))
    keys = pd.DataFrame({"case_id": pairs["case_id"], "low": low, "high": high})
    pair = keys.groupby(list(keys), sort=False).ngroup()
    low_first = pairs["first"].eq(low)
    order = (low_first != low_first.groupby(pair).transform("first")).astype("Int64") + 1
    pairs = pairs.assign(pair=pair, order=pairs["order"].fillna(order))
    if "gold" not in pairs:
        return pairs
    low_wins = pairs["gold"].where(low_first, 1 - pairs["gold"])
    several = low_wins.groupby(pair).transform("nunique").gt(1)
    if several.any():
        odd = pairs[several].iloc[0]
        reader.add_problem(
            "gold",
            f"differs between the rows of a pair (case '{odd['case_id']}'). A and B are the columns"
            " first= and second= in both orders; for places as shown use the words first and "
            "second.",
        )
    low_wins = low_wins.groupby(pair).transform("first")
    return pairs.assign(gold=low_wins.where(low_first, 1 - low_wins))


def _attempts_frame(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and answer, with an id made of both."""
    both = pairs[["first", "second"]].to_numpy(object).ravel()
    answers = pd.DataFrame({"case_id": pairs["case_id"].repeat(2).array, "value": both})
    answers = answers.drop_duplicates().reset_index(drop=True)
    systems = bool(pairs["systems"].all())
    number = answers.groupby("case_id", sort=False).cumcount() + 1
    name = answers["value"] if systems else number.astype("str")
    ids = answers["case_id"] + "/" + name
    if ids.duplicated().any():  # names that contain slashes can give equal ids
        ids = ids + "#" + (answers.index + 1).astype("str")
    attempts = answers.assign(
        attempt_id=ids, status="ok", skill="the skill", condition="unnamed condition", repeat=1
    )
    column = "agent" if systems else "answer"
    attempts = attempts.assign(**{column: attempts["value"]})
    return attempts if systems else attempts.assign(n_words=n_words(attempts["answer"]))


def _with_ids(pairs: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Replace the answers and the winners of the pairs by the ids of their attempts."""
    keys = pd.MultiIndex.from_frame(attempts[["case_id", "value"]])
    for side in ("first", "second"):
        where = keys.get_indexer(pd.MultiIndex.from_frame(pairs[["case_id", side]]))
        pairs = pairs.assign(**{side: attempts["attempt_id"].array.take(where)})
    made: dict[str, Any] = {"skill": "the skill"}
    for role, column in (("winner", "winner"), ("gold", "gold_winner")):
        if role in pairs:
            won = pairs[role]
            ids = pairs["first"].where(won.eq(1), pairs["second"]).mask(won.eq(0.5), "tie")
            made[column] = ids.where(won.notna())
            if role == "winner":
                made["winner_position"] = (2 - won.where(won.ne(0.5))).astype("Int64")
    return pairs[["case_id", "grader", "order", "first", "second"]].assign(**made)


def _refuse_copies(pairs: pd.DataFrame, reader: TableReader) -> None:
    """Report rows of the same grader on the same pair in the same order."""
    twice = pairs.duplicated(_KEY, keep=False)
    if not twice.any():
        return
    odd = pairs[twice].iloc[0]
    who = "" if "grader" not in reader.names else f" of grader '{odd['grader']}'"
    message = (
        f"{plural(int(twice.sum()), 'row')}{who} show the same pair in the same order; the first: "
        f"case '{odd['case_id']}', row {int(np.flatnonzero(twice)[0])}. "
    )
    place = pairs.groupby(_KEY, dropna=False).ngroup()
    listed = differing_columns(reader.unnamed_columns(), place)
    if listed:
        reader.asks_roles = True
        message += (
            f"They differ in {listed}: name the column of the graders by grader=, that of the "
            "order by order=, or make it part of the case."
        )
    else:
        message += "If they are copies, drop them: table.drop_duplicates()."
    reader.problems.append(message)


def _verdicts_and_gold(pairs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two verdicts per shown pair, one for each answer, and their gold labels."""
    sides = pd.concat(_rows_by_side(pairs)).sort_index(kind="stable")
    decided = sides["winner"].notna()
    verdicts = sides.assign(
        condition="unnamed condition",
        repeat=1,
        round=1,
        passed=sides["winner"].eq(sides["attempt_id"]).astype("boolean").where(decided),
        status=decided.map({True: "ok", False: None}),
    )
    if "gold_winner" not in sides:
        return verdicts.drop(columns="winner"), empty("gold")
    labels = sides[sides["gold_winner"].notna()]
    labels = labels.assign(
        passed=labels["gold_winner"].eq(labels["attempt_id"]), labeller="own"
    ).drop_duplicates(["attempt_id", "check_id"])
    columns = ["attempt_id", "check_id", "labeller", "passed"]
    return verdicts.drop(columns=["winner", "gold_winner"]), labels[columns]


def _rows_by_side(pairs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of the answers shown first, then the rows of those shown second."""
    keep = [n for n in ("skill", "case_id", "grader", "winner", "gold_winner") if n in pairs]
    for own, other in (("first", "second"), ("second", "first")):
        check_id = "better than " + pairs[other]
        check_id = check_id.where(pairs["order"].eq(1), check_id + ", order 2")
        yield pairs[keep].assign(attempt_id=pairs[own], check_id=check_id)
