"""Conversion of a table of pairwise verdicts to frames with comparisons and gold."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pandas as pd

from skillcomp.errors import UNKNOWN, argument, plural
from skillcomp.frames.check import check, empty
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.from_store import n_words
from skillcomp.frames.reference_labels import ITEM
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import Change, TableReader
from skillcomp.frames.words import (
    ORDERS,
    PLAIN_WINNERS,
    SWAPS,
    SYSTEMS,
    TEXTS,
    WINNERS,
    as_literal,
    columns_of_answers,
    distinct_words,
    plain_label,
    plain_value,
    usual_condition,
    winner_word,
)

_LONG_NAME = 100  # A value with more characters is a text and not the name of a system.
_KEY = ["case_id", "grader", "first", "second", "repeat"]
_SIDES = ("first", "second")
_TEXTS = ("first_answer", "second_answer")
OF_PAIR = "better than "  # begins the id of a check that compares two answers


def frames_of_pairs(reader: TableReader, keep: str | None) -> Frames:
    """Return the frames of a table of pairwise verdicts, one row per shown pair."""
    _add_usual_columns(reader)
    has_answers = {*_SIDES} & set(reader.names) or "order" not in reader.names
    needed = ("case", *_SIDES, "winner") if has_answers else ("case", "winner")
    rows = reader.read(*needed)
    reader.convert_keys(rows)
    rows = reader.kept(rows.assign(passed=pd.Series(None, rows.index, dtype="boolean")), keep)
    pairs = rows[["skill", "case_id", "condition", "grader"]]
    nothing = pd.Series(None, pairs.index, dtype="object")
    for side, name in zip(_SIDES, "AB", strict=True):
        texts = reader.as_texts(rows[side], side) if side in rows else name
        pairs[side] = pd.Series(texts, pairs.index, dtype="str")
    for text in _TEXTS:
        pairs[text] = reader.as_texts(rows.get(text, nothing), text, needed=False)
    pairs["repeat"] = reader.as_tries(rows["repeat"]) if "repeat" in rows else 1
    swapped = _second_shown_first(rows, reader)
    winners, gold_winners = (
        _first_wins(rows.get(role, nothing), role, pairs, swapped, reader)
        for role in ("winner", "gold")
    )
    n_missing = int(winners.isna().sum())
    if n_missing:
        reader.add_change("winner", "no verdict", "missing, neither a tie nor a loss", n_missing)
    systems = _TEXTS[0] in rows or _hold_systems(pairs, reader)
    reader.raise_problems()
    pairs, attempts = _with_ids(pairs, swapped, systems)
    pairs = pairs.assign(gold_winner=with_winners(pairs, gold_winners)["winner"])
    pairs = with_winners(pairs, winners)
    pairs = _with_orders_and_gold(pairs, swapped if "order" in rows else None, reader)
    # pairs of identical answers look alike, whatever their order
    same = pairs["first"].eq(pairs["second"])
    again = pairs.groupby(_KEY[:4], dropna=False).cumcount() + 1
    pairs["repeat"] = again.where(same | (keep == "all"), pairs["repeat"])
    reader.ask_about_equal_rows(pairs.assign(passed=None), _KEY)
    reader.raise_problems()
    rows = _rows_by_side(pairs[~same])
    gold = rows[ITEM].assign(passed=rows["gold"], labeller="own").dropna(subset="passed")
    made = {
        "cases": attempts[["skill", "case_id"]].drop_duplicates(),
        "attempts": attempts,
        "verdicts": rows.drop(columns="gold"),
        "gold": gold.drop_duplicates(),
        "pairwise": pairs.drop(columns="condition"),
    }
    return Frames(**reader.checked(made), **reader.facts())


def _add_usual_columns(reader: TableReader) -> None:
    """Find columns by their usual names for arguments that are not given."""
    frame, names = reader.frame, reader.names
    if "skill" in frame and not any(map(usual_condition, distinct_words(frame["skill"]))):
        names["skill"] = "skill"
    reader.find(_SIDES, columns_of_answers(frame, names.values()))
    for role in ("case", "winner", "gold", "grader", "order"):
        labels = reader.usual(role)
        if role == "order":
            labels = [label for label in labels if _are_orders(frame[label], label)]
        reader.find([role], [[label] for label in labels])
    label = plain_label(names.get("first", TEXTS[0]))
    if not any(word in label for word in TEXTS):
        reader.find(_TEXTS, columns_of_answers(frame, names.values(), texts=True))


def _order_words(label: Hashable) -> Mapping[str, int | None]:
    return SWAPS if "swap" in str(label).casefold() else ORDERS


def _are_orders(values: pd.Series, label: Hashable) -> bool:
    """Return whether all words of a column are known words for an order of presentation."""
    words = distinct_words(values)
    return bool(words) and all(_order_words(label).get(winner_word(word)) for word in words)


def _second_shown_first(rows: pd.DataFrame, reader: TableReader) -> pd.Series:
    """Return for each row whether the answer in ``second`` was shown first."""
    if "order" not in rows:
        return pd.Series(False, index=rows.index)
    words, n_problems = _order_words(reader.names["order"]), len(reader.problems)
    meanings = reader.meanings_of(rows["order"], "order", words)
    orders = rows["order"].astype("object").map(meanings.get)
    if len(reader.problems) == n_problems:
        reader.require_values(orders.isna(), "order")
    return orders.eq(2)


def _first_wins(
    values: pd.Series,
    role: str,
    pairs: pd.DataFrame,
    swapped: pd.Series,
    reader: TableReader,
) -> pd.Series:
    """Return 1 for each row in which the answer shown first won, 0 if it lost, and .5 for a tie.

    A graded preference is between 0 and 1. Rows without a verdict have a missing value. The answers
    in the columns ``first`` and ``second`` are called A and B.
    """
    values, words = values.astype("object"), dict(WINNERS)
    answers = pd.Series(None, values.index, dtype="object")
    for side, name in zip(_SIDES, "AB", strict=True):
        if side in reader.names:
            texts = values.map(lambda value: str(value).strip(), na_action="ignore")
            answers = answers.mask(texts.eq(pairs[side].str.strip()), name)
            words.setdefault(winner_word(reader.names[side]), name)
    both = answers.notna() & pairs["first"].eq(pairs["second"])
    if both.any():
        reader.add_change(role, "the value of two equal answers", "no verdict", both.sum())
        answers, values = answers.mask(both, None), values.mask(both, None)
    if answers.isna().all() and (graded := _graded(values, role, swapped, reader)) is not None:
        return graded
    others = values.mask(answers.notna(), None)
    plain_words = {winner_word(word) for word in distinct_words(others)}
    if "0" in plain_words and "2" not in plain_words:
        # in a column of 0 and 1, a 1 may be the second answer or "yes, the first won"
        words.pop("1")
    own_words = {*map(winner_word, reader.own_words(role))}
    meaning_of = reader.meanings_of(others, role, words)
    meanings = others.map(meaning_of.get, na_action="ignore").astype("object").fillna(answers)
    plain_ties = {*PLAIN_WINNERS, *own_words}
    ties = [word for word, meaning in meaning_of.items() if meaning == "tie"]
    odd_ties = {word: "a tie" for word in ties if winner_word(word) not in plain_ties}
    reader.add_mapping(others, role, odd_ties)
    by_place, is_letter = meanings.isin(["first", "second"]), meanings.isin(["A", "B"])
    # A may be the answer in the column `first`, or the answer shown first
    unclear = {
        plain_value(word): meaning
        for word, meaning in meaning_of.items()
        if meaning in ("A", "B") and winner_word(word) in WINNERS.keys() - own_words
    }
    if role == "winner" and swapped.any() and unclear:
        places = {word: _SIDES["AB".index(meaning)] for word, meaning in unclear.items()}
        answer, place = (argument("words", {"winner": own}) for own in (unclear, places))
        reader.add_problem(
            "winner",
            f"with {argument('order')}, {as_literal(next(iter(unclear)))} may be an answer or a "
            f"place. {answer}: the answer in the first or second column, in both orders; "
            f"{place}: the answer shown first or second.",
        )
    wins = meanings.isin(["A", "first"]) ^ (swapped & ~by_place)
    return wins.astype("float64").where(by_place | is_letter).mask(meanings.eq("tie"), 0.5)


def _graded(
    values: pd.Series, role: str, swapped: pd.Series, reader: TableReader
) -> pd.Series | None:
    """Return graded preferences for the answer shown first, from 0 to 1; None if these are words.

    The ends of the scale are the numbers in ``words=``.
    """
    numbers = pd.to_numeric(values, errors="coerce").astype("float64")
    own = pd.Series(reader.own_words(role), dtype="object")
    if numbers.notna().ne(values.notna()).any():
        return None
    own.index = pd.to_numeric(own.index.to_series(), errors="coerce").to_numpy(float)
    known = [*own.index] if own.index.notna().any() else [1.0, 2.0]
    if numbers.dropna().isin(known).all():
        return None
    own = own[own.index.notna() & own.isin(["A", "B", *_SIDES]).to_numpy()]
    ends: dict[Any, str] = own.to_dict()
    least, most = numbers.min(), numbers.max()
    if not ends and least >= 1 and most <= 2 and not swapped.any():
        ends = {1.0: "A", 2.0: "B"}
    if set(ends.values()) in ({"A", "B"}, {*_SIDES}) and len(ends) == 2:
        low, high = sorted(ends)
        if least < low or most > high:
            reader.add_problem(role, f"found {least:g} to {most:g}, outside {low:g} to {high:g}.")
        wins = (numbers - low) / (high - low)
        wins = wins if ends[high] in ("A", "first") else 1.0 - wins
        found = f"graded preferences from {low:g} to {high:g}"
        done = f"{low:g} means {ends[low]}, {high:g} means {ends[high]}"
        reader.add_change(role, found, done, len(numbers), warns=False)
        return pd.Series(wins.where(~swapped | (ends[low] in _SIDES), 1.0 - wins))
    if not ends and numbers.nunique() > len(_SIDES):
        high = math.ceil(max(-least, most))
        scale = {-high if least < 0 else math.floor(least): "A", high: "B"}
        forms = (scale, dict(zip(scale, "BA", strict=True)))
        reader.add_problem(
            role,
            f"found numbers from {least:g} to {most:g}. For graded preferences, name the "
            f"ends of the scale, such as {' or '.join(argument('words', {role: f}) for f in forms)}"
            ". A and B are the columns first and second; for the places use first and second.",
        )
        return numbers
    return None


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


def _with_ids(
    pairs: pd.DataFrame, swapped: pd.Series, systems: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Replace the answers by ids, in the order shown; also return the attempts with these ids."""
    keys = ["skill", "case_id", "condition"]
    first, second = (
        pairs[[*keys, side, text]].set_axis([*keys, "value", "answer"], axis=1)
        for side, text in zip(_SIDES, _TEXTS, strict=True)
    )
    shown = [first.where(~swapped, second), second.where(~swapped, first)]
    answers = pd.concat(shown, keys=_SIDES, names=["side", "row"]).reset_index()
    answers = answers.sort_values("row", kind="stable", ignore_index=True)
    names = ["case_id", "value", "answer"]
    number = answers.groupby(names, dropna=False, sort=False).ngroup()
    attempts = answers[~number.duplicated()].drop(columns=["side", "row"]).reset_index(drop=True)
    value = attempts["value"]
    label = value.where(~value.str.isdigit(), "system " + value)  # a number is that of a text
    if not systems:
        label = (attempts.groupby("case_id", sort=False).cumcount() + 1).astype("str")
        attempts["answer"] = value
    ids = attempts["case_id"] + "/" + label
    again = ids.groupby(ids).cumcount() + 1  # texts of one system, or names that contain slashes
    ids = ids.where(again.eq(1), ids + "#" + again.astype("str"))
    shown_ids = ids.loc[number].to_numpy()
    pairs = pairs.assign(**{side: shown_ids[answers["side"].eq(side)] for side in _SIDES})
    same = pairs[_TEXTS[0]].eq(pairs[_TEXTS[1]])  # two systems with one answer
    pairs["second"] = pairs["second"].where(~same, pairs["first"])
    attempts = attempts.assign(attempt_id=ids, status="ok", repeat=again)
    attempts = attempts.assign(n_words=n_words(attempts["answer"]))
    attempts = attempts.assign(agent=value) if systems else attempts
    return pairs.drop(columns=list(_TEXTS)), attempts.drop(columns="value")


def with_winners(pairs: pd.DataFrame, wins: pd.Series) -> pd.DataFrame:
    """Add the id and the position of the winner.

    ``wins`` is 1 if the answer in ``first`` won, 0 if it lost, .5 for a tie, between these values
    for a graded preference, and missing without a verdict.
    """
    winner = pairs["first"].where(wins.gt(0.5), pairs["second"]).mask(wins.eq(0.5), "tie")
    winner = winner.where(wins.notna())
    position = (2 - wins.gt(0.5).astype("Int64")).where(wins.notna() & wins.ne(0.5))
    graded = None if wins.dropna().isin([0.0, 0.5, 1.0]).all() else wins
    return pairs.assign(winner=winner, winner_position=position, preference=graded)


def _with_orders_and_gold(
    pairs: pd.DataFrame, swapped: pd.Series | None, reader: TableReader
) -> pd.DataFrame:
    """Add the order of each row; copy the gold winner to all rows of its pair."""
    both = zip(pairs["first"], pairs["second"], strict=True)
    names = pd.Series(list(map(frozenset, both)), dtype="object")
    of_pair = pairs.groupby([names, pairs["repeat"]], sort=False)
    if swapped is None:
        swapped = pairs["first"].ne(of_pair["first"].transform("first"))
    pairs = pairs.assign(order=swapped.astype("Int64") + 1)
    several = of_pair["gold_winner"].transform("nunique").gt(1)
    if several.any():
        reader.add_problem(
            "gold",
            f"differs between the rows of a pair (case '{pairs.loc[several, 'case_id'].iloc[0]}')."
            " A and B are the first and the second column in both orders; for places as shown use "
            "the words first and second.",
        )
    return pairs.assign(gold_winner=of_pair["gold_winner"].transform("first"))


def compare_answers(verdicts: pd.DataFrame, attempts: pd.DataFrame) -> pd.Series:
    """Return for each verdict whether its check compares the answer with another attempt."""
    others = verdicts["check_id"].str.extract(rf"^{OF_PAIR}(.*?)(?:, order 2)?(?:, repeat \d+)?$")
    return others[0].isin(attempts["attempt_id"]) & others[0].notna()


def _rows_by_side(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return two verdicts per shown pair, one for each answer; ``gold`` is its label."""
    sides = []
    for own, other in (_SIDES, _SIDES[::-1]):
        check_id = OF_PAIR + pairs[other]
        check_id = check_id.where(pairs["order"].eq(1), check_id + ", order 2")
        again = check_id + ", repeat " + pairs["repeat"].astype("str")
        check_id = check_id.where(pairs["repeat"].eq(1), again)
        sides.append(pairs.assign(attempt_id=pairs[own], check_id=check_id))
    rows = pd.concat(sides).sort_index(kind="stable").reset_index(drop=True)
    for column, role in (("winner", "passed"), ("gold_winner", "gold")):
        is_winner = rows[column].eq(rows["attempt_id"]).astype("boolean")
        rows[role] = is_winner.where(rows[column].notna())
    status = rows["passed"].notna().map({True: "ok", False: None})
    taken = ["order", "winner", "winner_position", "gold_winner", "preference"]
    rows = rows.drop(columns=[*_SIDES, *taken])
    return rows.assign(repeat=1, round=1, status=status)


def pairwise_of(
    pairs: pd.DataFrame,
    attempts: pd.DataFrame,
    meanings: Mapping[str, str],
    report: Callable[[str, str, str], None],
) -> pd.DataFrame:
    """Return comparisons as a pairwise frame, with the ids of the attempts compared.

    ``meanings`` has the condition of each word for an arm. A comparison is left out and reported if
    one of its two answers has no results.
    """
    key = ["skill", "case_id", "condition", "repeat"]
    ids = attempts.drop_duplicates(key).set_index(key)["attempt_id"].to_dict()
    pairs = pairs.assign(case_id=pairs["case"].astype("str"), repeat=pairs.get("repeat", 1))
    pairs["grader"] = pairs.get("grader", pd.Series(None, pairs.index)).fillna("comparator")
    for side in ("first", "second"):
        words = pairs[side].astype("str")
        pairs["condition"] = words.map(meanings).fillna(words)
        cells = list(pairs[key].itertuples(index=False, name=None))
        pairs[side] = [ids.get(cell) for cell in cells]
        for _, case, condition, _ in (cell for cell in cells if cell not in ids):
            what = f"of case '{case}', which has no answer under '{condition}'"
            arms = argument("words", {"condition": dict.fromkeys(words.unique(), UNKNOWN)})
            report("comparisons", what, f"left out; {arms} names the arm of each side")
        pairs = pairs[pairs[side].notna()]
    if pairs.empty:
        return empty("pairwise")
    wins = pairs["winner"].map({"first": 1.0, "second": 0.0, "tie": 0.5})
    pairs = with_winners(pairs, wins)
    place = ["skill", "case_id", "grader", "first", "second"]
    pairs = pairs.assign(order=pairs.groupby(place).cumcount() + 1)
    return check(pairs[columns_of(pairs, *CONTRACTS["pairwise"].columns)], "pairwise")
