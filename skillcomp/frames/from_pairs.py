"""Conversion of a plain table of pairwise verdicts to frames with comparisons and gold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import plural, require_known
from skillcomp.frames.from_frame import labels_inside
from skillcomp.frames.from_store import n_words
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import Change, Columns, TableReader
from skillcomp.frames.words import (
    ARGUMENTS,
    ORDERS,
    PLAIN_WINNERS,
    SWAPS,
    SYSTEMS,
    TEXTS,
    WINNERS,
    ColumnName,
    as_literal,
    columns_of_answers,
    distinct_words,
    plain_label,
    usual_columns,
    winner_word,
)

WHAT = "from_pairs"
_MEANINGS = ("A", "B", "first", "second", "tie")
_ALLOWED = (
    "the value of the first or the second column, A and B, 1 and 2, model_a and model_b, A>B, "
    "first and second, tie, or missing"
)
_LONG_NAME = 100  # A value with more characters is a text and not the name of a system.
_KEY = ["case_id", "grader", "first", "second"]
_SIDES = ("first", "second")


def from_pairs(
    table: pd.DataFrame,
    *,
    case: ColumnName = None,
    first: ColumnName = None,
    second: ColumnName = None,
    winner: ColumnName = None,
    winner_names: Literal["answer", "position"] | Mapping[Any, str | None] | None = None,
    order: ColumnName = None,
    gold: ColumnName = None,
    grader: ColumnName = None,
    missing: Any = (),
    keep: Literal["last"] | None = None,
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
    missing, keep : optional
        As in :func:`skillcomp.from_frame`: values of ``winner`` and ``gold`` that mean no value,
        and "last" if a later row of the same pair, order and grader replaces an earlier one.

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
    arguments = dict(locals())
    names = {role: arguments[role] for role in ARGUMENTS["pair"]}
    reader = TableReader(table, names, place=WHAT, missing=missing)
    own_words = _own_meanings(winner_names)
    _add_usual_columns(reader)
    has_answers = {*_SIDES} & set(reader.names) or "order" not in reader.names
    needed = ("case", *_SIDES, "winner") if has_answers else ("case", "winner")
    columns = reader.columns(required=needed, keep=keep)
    pairs = reader.keys({role: columns[role] for role in ("case", "grader") if role in columns})
    pairs = pairs[["skill", "case_id", "condition", "grader"]]
    for side, name in zip(_SIDES, "AB", strict=True):
        texts = reader.as_texts(columns[side], side) if side in columns else name
        pairs[side] = pd.Series(texts, pairs.index, dtype="str")
    _refuse_equal_answers(pairs, reader)
    swapped = _second_shown_first(columns, reader)
    nothing = pd.Series(None, pairs.index, dtype="object")
    winners, gold_winners = (
        _first_wins(
            columns.get(role, nothing), role, pairs, swapped, winner_names, own_words, reader
        )
        for role in ("winner", "gold")
    )
    n_missing = int(winners.isna().sum())
    if n_missing:
        reader.add_change("winner", "no verdict", "missing, neither a tie nor a loss", n_missing)
    systems = _hold_systems(pairs, reader)
    reader.raise_problems()
    pairs = pairs.assign(
        first=pairs["first"].where(~swapped, pairs["second"]),
        second=pairs["second"].where(~swapped, pairs["first"]),
    )
    attempts = _attempts_frame(pairs, systems)
    pairs = _with_ids(pairs, attempts)
    pairs = pairs.assign(gold_winner=with_winners(pairs, gold_winners)["winner"])
    pairs = with_winners(pairs, winners)
    pairs = _with_orders_and_gold(pairs, swapped if "order" in columns else None, reader)
    reader.refuse_equal_rows(pairs[_KEY])
    reader.raise_problems()
    rows = _rows_by_side(pairs)
    made = {
        "cases": attempts[["skill", "case_id"]].drop_duplicates(),
        "attempts": attempts.drop(columns="value"),
        "verdicts": rows.drop(columns="gold"),
        "gold": labels_inside({"gold": rows["gold"]}, rows, reader),
        "pairwise": pairs.drop(columns="condition"),
    }
    return Frames(**reader.checked(made), **reader.facts())


def _own_meanings(winner_names: Any) -> Mapping[Any, str | None]:
    """Return the meanings of words in ``winner_names``; raise FrameError if one is not allowed."""
    if not isinstance(winner_names, Mapping):
        if winner_names is not None:
            what = f"{WHAT}: winner_names=: no mapping of words to meanings, but"
            require_known(what, winner_names, ("answer", "position"))
        return {}
    for word, meaning in winner_names.items():
        if meaning is not None:
            what = f"{WHAT}: winner_names=: {as_literal(word)} means"
            require_known(what, meaning, _MEANINGS, label="allowed (or None)")
    return winner_names


def _add_usual_columns(reader: TableReader) -> None:
    """Find columns by their usual names for arguments that are not given.

    If several columns fit an argument, record a problem.
    """
    if not {*_SIDES} & set(reader.names):
        pairs = columns_of_answers(reader.frame, list(reader.names.values()))
        if len(pairs) > 1:
            listed = " or ".join(" and ".join(map(as_literal, pair)) for pair in pairs)
            reader.problems.append(f"first= and second= may be {listed}; name them.")
        if pairs:
            reader.names |= dict(zip(_SIDES, pairs[0], strict=True))
    for role in ("case", "winner", "gold", "grader", "order"):
        if role in reader.names:
            continue
        labels = usual_columns(role, reader.frame, list(reader.names.values()))
        if role == "order":
            labels = [label for label in labels if _are_orders(reader.frame[label], label)]
        if len(labels) > 1:
            both = " or ".join(map(as_literal, labels))
            reader.problems.append(f"{role}= may be the column {both}; name it.")
            reader.ambiguous.add(role)
        reader.names |= dict(zip([role], labels, strict=False))


def _order_words(label: Hashable) -> Mapping[str, int | None]:
    return SWAPS if "swap" in str(label).casefold() else ORDERS


def _are_orders(values: pd.Series, label: Hashable) -> bool:
    """Return whether all words of a column are known words for an order of presentation."""
    words = distinct_words(values)
    return bool(words) and all(_order_words(label).get(winner_word(word)) for word in words)


def _refuse_equal_answers(pairs: pd.DataFrame, reader: TableReader) -> None:
    alike = pairs["first"].eq(pairs["second"])
    if alike.any():
        first, second = (as_literal(reader.names.get(side, side)) for side in _SIDES)
        reader.problems.append(
            f"{plural(int(alike.sum()), 'row')} compare an answer with itself, the first is row "
            f"{alike.idxmax()}; leave them out: table[table[{first}] != table[{second}]]."
        )


def _second_shown_first(columns: Columns, reader: TableReader) -> pd.Series:
    """Return for each row whether the answer in ``second`` was shown first."""
    if "order" not in columns:
        return pd.Series(False, index=reader.frame.index)
    words, n_problems = _order_words(reader.names["order"]), len(reader.problems)
    allowed = "AB and BA, 1 and 2, original and swapped"
    meanings = reader.meanings_of(columns["order"], "order", words, allowed, plain=winner_word)
    orders = columns["order"].astype("object").map(meanings.get)
    if len(reader.problems) == n_problems:
        reader.require_values(orders.isna(), "order")
    return orders.eq(2)


def _first_wins(
    values: pd.Series,
    role: str,
    pairs: pd.DataFrame,
    swapped: pd.Series,
    winner_names: Any,
    own_words: Mapping[Any, str | None],
    reader: TableReader,
) -> pd.Series:
    """Return 1 for each row in which the answer shown first won, 0 if it lost, and .5 for a tie.

    Rows without a verdict have a missing value. The answers in the columns ``first`` and
    ``second`` are called A and B.
    """
    values, words = values.astype("object"), dict(WINNERS)
    answers = pd.Series(None, values.index, dtype="object")
    for side, name in zip(_SIDES, "AB", strict=True):
        if side in reader.names:
            texts = values.map(lambda value: str(value).strip(), na_action="ignore")
            answers = answers.mask(texts.eq(pairs[side].str.strip()), name)
            words.setdefault(winner_word(reader.names[side]), name)
    others = values.mask(answers.notna(), None)
    plain_words = {winner_word(word) for word in distinct_words(others)}
    if "0" in plain_words and "2" not in plain_words:
        # in a column of 0 and 1, a 1 may be the second answer or "yes, the first won"
        words.pop("1")
    about: dict[str, Any] = {"own": own_words, "argument": "winner_names", "plain": winner_word}
    meaning_of = reader.meanings_of(others, role, words, _ALLOWED, **about)
    meanings = others.map(meaning_of.get, na_action="ignore").astype("object").fillna(answers)
    plain_ties = {*PLAIN_WINNERS, *map(winner_word, own_words)}
    ties = [word for word, meaning in meaning_of.items() if meaning == "tie"]
    odd_ties = {word: "a tie" for word in ties if winner_word(word) not in plain_ties}
    reader.add_mapping(others, role, odd_ties)
    by_place, is_letter = meanings.isin(["first", "second"]), meanings.isin(["A", "B"])
    if role == "winner" and winner_names == "position":
        by_place |= is_letter & answers.isna()
    elif role == "winner" and winner_names != "answer" and swapped.any():
        # A may be the answer in the column `first`, or the answer shown first
        plain = values.map(winner_word, na_action="ignore")
        unclear = is_letter & plain.isin({*WINNERS} - {*map(winner_word, own_words)})
        if unclear.any():
            word = as_literal(values[unclear].iloc[0])
            reader.add_problem(
                "winner",
                f"with order=, the winner {word} may be an answer or a place. "
                "winner_names='answer': the answer in first= or second=, in both orders; "
                "winner_names='position': the answer shown first or second.",
            )
    wins = meanings.isin(["A", "first"]) ^ (swapped & ~by_place)
    return wins.astype("float64").where(by_place | is_letter).mask(meanings.eq("tie"), 0.5)


def _hold_systems(pairs: pd.DataFrame, reader: TableReader) -> bool:
    """Return whether the answers are names of systems and not texts."""
    if "first" not in reader.names:
        return True
    label = plain_label(reader.names["first"])
    if any(word in label for word in (*SYSTEMS, *TEXTS)):
        return any(word in label for word in SYSTEMS)
    sides = pairs.melt("case_id", list(_SIDES))
    values = sides["value"]
    is_long = values.str.len().gt(_LONG_NAME).any() or values.str.contains("\n", regex=False).any()
    systems = not is_long and bool(sides.groupby("value")["case_id"].nunique().gt(1).any())
    kind = f"names of {plural(values.nunique(), 'system')}" if systems else "texts of answers"
    done = f"{kind}; rename the columns to model_a and model_b, or output_a and output_b, to decide"
    reader.changes.append(Change("first=, second=", "read by their values", done, len(pairs)))
    return systems


def _attempts_frame(pairs: pd.DataFrame, systems: bool) -> pd.DataFrame:
    """Return one row per case and answer (``value``), with an id made of both."""
    keys = ["skill", "case_id", "condition"]
    answers = pairs.melt(keys, list(_SIDES), ignore_index=False)[[*keys, "value"]]
    answers = answers.sort_index(kind="stable").drop_duplicates(ignore_index=True)
    value = answers["value"]
    number = answers.groupby("case_id", sort=False).cumcount() + 1
    ids = answers["case_id"] + "/" + (value if systems else number.astype("str"))
    if ids.duplicated().any():  # names that contain slashes can give equal ids
        ids = ids + "#" + (answers.index + 1).astype("str")
    attempts = answers.assign(attempt_id=ids, status="ok", repeat=1)
    if systems:
        return attempts.assign(agent=value)
    return attempts.assign(answer=value, n_words=n_words(value))


def _with_ids(pairs: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Replace the answers by the ids of their attempts."""
    ids = attempts.set_index(["case_id", "value"])["attempt_id"]
    keys = {side: pd.MultiIndex.from_frame(pairs[["case_id", side]]) for side in _SIDES}
    return pairs.assign(**{side: ids.loc[key].array for side, key in keys.items()})


def with_winners(pairs: pd.DataFrame, wins: pd.Series) -> pd.DataFrame:
    """Add the id and the position of the winner.

    ``wins`` is 1 if the answer in ``first`` won, 0 if it lost, .5 for a tie, missing without one.
    """
    winner = pairs["first"].where(wins.eq(1), pairs["second"]).mask(wins.eq(0.5), "tie")
    position = (2 - wins.where(wins.ne(0.5))).astype("Int64")
    return pairs.assign(winner=winner.where(wins.notna()), winner_position=position)


def _with_orders_and_gold(
    pairs: pd.DataFrame, swapped: pd.Series | None, reader: TableReader
) -> pd.DataFrame:
    """Add the order of each row; copy the gold winner to all rows of its pair."""
    both = zip(pairs["first"], pairs["second"], strict=True)
    of_pair = pairs.groupby(pd.Series(list(map(frozenset, both)), dtype="object"), sort=False)
    if swapped is None:
        swapped = pairs["first"].ne(of_pair["first"].transform("first"))
    pairs = pairs.assign(order=swapped.astype("Int64") + 1)
    several = of_pair["gold_winner"].transform("nunique").gt(1)
    if several.any():
        reader.add_problem(
            "gold",
            f"differs between the rows of a pair (case '{pairs.loc[several, 'case_id'].iloc[0]}')."
            " A and B are the columns first= and second= in both orders; for places as shown use "
            "the words first and second.",
        )
    return pairs.assign(gold_winner=of_pair["gold_winner"].transform("first"))


def _rows_by_side(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return two verdicts per shown pair, one for each answer; ``gold`` is its label."""
    sides = []
    for own, other in (_SIDES, _SIDES[::-1]):
        check_id = "better than " + pairs[other]
        check_id = check_id.where(pairs["order"].eq(1), check_id + ", order 2")
        sides.append(pairs.assign(attempt_id=pairs[own], check_id=check_id))
    rows = pd.concat(sides).sort_index(kind="stable").reset_index(drop=True)
    for column, role in (("winner", "passed"), ("gold_winner", "gold")):
        is_winner = rows[column].eq(rows["attempt_id"]).astype("boolean")
        rows[role] = is_winner.where(rows[column].notna())
    status = rows["passed"].notna().map({True: "ok", False: None})
    rows = rows.drop(columns=[*_SIDES, "order", "winner", "winner_position", "gold_winner"])
    return rows.assign(repeat=1, round=1, status=status)
