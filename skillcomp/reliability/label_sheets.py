"""What to label next: a blinded sheet to fill in by hand, and back again as gold."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from os.path import exists, isfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, plural, problem_list, suggest
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.reference_labels import ITEM, usable

COLUMNS = ["row", "skill", "prompt", "answer", "behaviour", "kind", "label", "borderline", "note"]
KEY_COLUMNS = ["row", "attempt_id", "check_id", "inclusion_probability"]
_LABELS = {"pass": True, "p": True, "fail": False, "f": False, "": None}
_BORDERLINE = {"yes": True, "y": True, "x": True, "no": False, "n": False, "": None}
# A cell that begins with one of these is a formula to a spreadsheet (OWASP, CSV injection); the
# last four are full-width forms that some programs take for the same. An apostrophe before it is
# matched too, so that what is written can be read back exactly.
_ESCAPED = re.compile(r"'*\s*[=+\-@|＝＋－＠]|'*[\t\n]")
_CONTROL = {code: None for code in range(32) if code not in (9, 10)} | {127: None}


def label_sheet(
    attempts: pd.DataFrame,
    cases: pd.DataFrame,
    checks: pd.DataFrame,
    *,
    path: str | PathLike[str],
    n_cases: int | pd.DataFrame,
    conditions: Sequence[str] = ("baseline", "skill"),
    gold: pd.DataFrame | None = None,
    key: str | PathLike[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Draw what to label next and write it as a blinded csv that is filled in by hand.

    Cases are drawn at random within each skill, in proportion to its cases; of each drawn case one
    repeat of every condition, so that a case is labelled in all of them and prediction-powered
    estimates stay valid.

    Parameters
    ----------
    attempts, cases, checks : pandas.DataFrame
        Frames of the study, the attempts of one agent. A case can be drawn when it has an answer
        in every condition. Gold of several agents' sheets can be put in one frame afterwards.
    path : str or path
        The csv to write; a file that is there is not overwritten.
    n_cases : int or pandas.DataFrame
        How many further cases to label, at least one for each skill without labels. Or the result
        of :func:`skillcomp.planning.gold_needed` with one row of measure ``gold_cases`` for these
        conditions: that many in total, so that the cases of ``gold`` are taken off.
    conditions : sequence of str, default ("baseline", "skill")
        The conditions in which a case is labelled.
    gold : pandas.DataFrame, optional
        Labels there are already: their cases are not drawn again. Join both with
        :func:`join_batches`, which gives the earlier labels the new probabilities too.
    key : str or path, optional
        Where the key goes that says which attempt a row is; by default beside the sheet, with
        ``.key.csv`` as its ending. Keep it away from the labeller.
    seed : int, default 0
        Source of the draw.

    Returns
    -------
    pandas.DataFrame
        The sheet as written, one row per attempt and check in random order of attempts: row (an
        anonymous id), skill, prompt, answer, behaviour, kind (``must be there`` or ``must be
        absent``), and empty label, borderline and note. Nothing in it tells case, condition,
        repeat or grader, so that it is safe to show.

    Raises
    ------
    FrameError
        If a frame breaks its contract, there are answers of several agents, a file is there
        already, ``n_cases`` is no usable number or a plan that is met, or there are fewer
        cases to draw from than asked for.

    See Also
    --------
    read_labels : The filled sheet as a gold frame.
    join_batches : Labels of several sheets as one gold frame.

    Notes
    -----
    ``inclusion_probability`` stands in the key: cases labelled by now (those of ``gold``
    included) over the cases of the skill that could be drawn, times one over the repeats with an
    answer. It is the chance of being labelled by now: earlier labels still carry the smaller one
    of their own key until :func:`join_batches` has joined them with these. Valid if the earlier
    ones were drawn at random within skill too. A cell that a spreadsheet would take for a formula
    is written with a leading apostrophe; control characters are left out. An answer about an
    invented skill may give its condition away by not knowing the term: no sheet can hide that.
    """
    study = check(attempts, "attempts"), check(cases, "cases"), check(checks, "checks")
    sheet_path, key_path = _places(path, key)
    for target in (sheet_path, key_path):
        if exists(target):
            raise FrameError(f"{target} is there already and may hold labels; give another path.")
    if sheet_path.resolve() == key_path.resolve():
        raise FrameError(f"key: '{key_path}' is the sheet itself; give another path.")
    rng = np.random.default_rng(seed)
    pool = drawable(study[0], study[1], conditions)
    done = _labelled(study[0], gold) & set(_named(pool))
    drawn = draw_cases(pool, done, _count(n_cases, conditions, len(done)), rng)
    sheet, secret = _sheet(drawn, study, rng)
    _write(sheet_path, sheet)
    _write(key_path, secret)
    return sheet


def drawable(
    attempts: pd.DataFrame, cases: pd.DataFrame, conditions: Sequence[str]
) -> pd.DataFrame:
    """Return the answered attempts of cases that have one in every condition."""
    wanted = list(dict.fromkeys(conditions))
    there = list(attempts["condition"].unique())
    for name in wanted:
        if name not in there:
            raise FrameError(
                f"conditions: there is no '{name}'; there: {', '.join(there)}."
                + suggest(name, there)
            )
    rows = attempts[
        usable(attempts)
        & attempts["answer"].str.strip().fillna("").ne("")
        & attempts["perturbation"].isna()
        & attempts["condition"].isin(wanted)
        & _named(attempts).isin(_named(cases))
    ]
    agents = sorted(map(str, rows["agent"].unique()))
    if len(agents) > 1:
        raise FrameError(
            f"attempts: answers of more than one agent: {', '.join(agents)}. Select one: each has "
            "its own sheet, or a case would be labelled on different agents' answers."
        )
    complete = rows.groupby(CASE)["condition"].transform("nunique").eq(len(wanted))
    return rows[complete].reset_index(drop=True)


def _named(frame: pd.DataFrame) -> pd.MultiIndex:
    """Return skill and case_id of each row."""
    return pd.MultiIndex.from_frame(frame[CASE])


def _labelled(attempts: pd.DataFrame, gold: pd.DataFrame | None) -> set[tuple[str, str]]:
    if gold is None:
        return set()
    ids = set(check(gold, "gold")["attempt_id"])
    return set(_named(attempts[attempts["attempt_id"].isin(ids)]))


def _count(n_cases: int | pd.DataFrame, conditions: Sequence[str], n_done: int) -> int:
    """Return how many further cases to draw: the number itself, or what a plan still lacks."""
    if isinstance(n_cases, pd.DataFrame):
        if "measure" not in n_cases.columns:
            raise FrameError("n_cases: expected the result of planning.gold_needed.")
        rows = n_cases[n_cases["measure"].eq("gold_cases")]
        if "condition" in rows.columns:
            rows = rows[rows["condition"].isin(conditions)]
        plan = rows["estimate"]
        if len(plan) != 1 or plan.isna().any():
            raise FrameError(
                f"n_cases: the plan has {len(plan)} rows of measure 'gold_cases' "
                f"({int(plan.isna().sum())} without a number); exactly one with a number is needed."
            )
        total = int(plan.iloc[0])
        if n_done >= total:
            raise FrameError(
                f"n_cases: the plan of {total} cases is met: {n_done} are labelled. For more give "
                "a number of further cases."
            )
        n_cases = total - n_done
    if isinstance(n_cases, bool) or not isinstance(n_cases, int | np.integer) or n_cases < 1:
        raise FrameError(f"n_cases: found {n_cases!r}; allowed: a whole number of 1 or more.")
    return int(n_cases)


def draw_cases(
    pool: pd.DataFrame, done: set[tuple[str, str]], n_cases: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Return one attempt per drawn case and condition, with its chance of being drawn."""
    unique = pool.drop_duplicates(CASE).groupby("skill", sort=False)["case_id"]
    every = {str(skill): list(ids) for skill, ids in unique}
    free = {skill: [one for one in ids if (skill, one) not in done] for skill, ids in every.items()}
    left = sum(map(len, free.values()))
    if n_cases > left:
        raise FrameError(
            f"n_cases: {n_cases} asked for, {left} cases are left that have an answer in every "
            "condition and no label."
        )
    bare = {skill for skill, ids in every.items() if len(ids) == len(free[skill])}
    if n_cases < len(bare):
        what = "skills without labels" if len(bare) < len(every) else "skills"
        raise FrameError(
            f"n_cases: {n_cases} cases are fewer than the {len(bare)} {what}: a skill without "
            "labels could not be corrected."
        )
    shares = _allocate(n_cases, {skill: len(ids) for skill, ids in free.items()}, bare, rng)
    chosen: list[tuple[str, str]] = []
    for skill, ids in free.items():
        chosen += [(skill, one) for one in rng.permutation(ids)[: shares[skill]].tolist()]
    named = _named(pool)
    chances = _chances(pool, named.isin([*done, *chosen]))
    rows = pool.assign(inclusion_probability=chances)[named.isin(chosen)]
    rows = rows.assign(_lot=rng.random(len(rows)))
    first = rows.groupby([*CASE, "condition"], sort=False)["_lot"].idxmin()
    return rows.loc[first].drop(columns="_lot")


def _chances(pool: pd.DataFrame, labelled: NDArray[np.bool_] | pd.Series) -> pd.Series:
    """Return each attempt's chance of a label: that of its case, spread over its repeats."""
    share = pool.assign(labelled=labelled).drop_duplicates(CASE).groupby("skill")["labelled"].mean()
    repeats = pool.groupby([*CASE, "condition"], sort=False)["attempt_id"].transform("count")
    return (pool["skill"].map(share) / repeats).astype("float64")


def _allocate(
    total: int, sizes: Mapping[Any, int], bare: Collection[Any], rng: np.random.Generator
) -> dict[Any, int]:
    """Share a number out in proportion to sizes, largest remainders first, none bare left empty."""
    exact = {name: total * size / sum(sizes.values()) for name, size in sizes.items()}
    found = {name: max(int(value), int(name in bare)) for name, value in exact.items()}
    while sum(found.values()) > total:  # minimum of one exceeded the total: take from the largest
        spare = (name for name in found if found[name] > int(name in bare))
        most = max(spare, key=lambda name: found[name] - exact[name])
        found[most] -= 1
    # equal remainders are settled by lot, so that no skill comes first by its place in the frame
    order = rng.permutation(len(exact))
    names = sorted(
        exact, key=lambda name: (found[name] - exact[name], order[list(exact).index(name)])
    )
    for name in names[: total - sum(found.values())]:
        found[name] += 1
    return found


def _sheet(
    drawn: pd.DataFrame,
    study: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    _, cases, checks = study
    shuffled = drawn.iloc[rng.permutation(len(drawn))].reset_index(drop=True)
    width = len(str(len(shuffled)))
    shuffled["item"] = [f"item-{k + 1:0{width}d}" for k in range(len(shuffled))]
    about = checks[[*CASE, "check_id", "check_kind", "description"]]
    rows = shuffled.merge(about, on=CASE, how="left")
    rows = rows.merge(cases[[*CASE, "prompt"]], on=CASE, how="left")
    bare = rows["check_id"].isna()
    if bare.any():
        raise FrameError(f"checks: case '{rows.loc[bare, 'case_id'].iloc[0]}' has none to label.")
    number = (rows.groupby("item").cumcount() + 1).astype(str)
    rows["row"] = rows["item"] + "." + number
    kinds = {"positive": "must be there", "negative": "must be absent"}
    sheet = rows.assign(
        behaviour=rows["description"].fillna(rows["check_id"]),
        kind=rows["check_kind"].map(kinds).fillna(""),
        **dict.fromkeys(("label", "borderline", "note"), ""),
    )
    return sheet[COLUMNS], rows[KEY_COLUMNS]


def as_cell(value: Any) -> str:
    """Return a value as the text of a cell that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return "" if pd.isna(value) else str(value)
    text = value.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROL)
    # a spreadsheet may drop leading blanks before it looks for a formula
    risky = _ESCAPED.match(text) is not None
    return f"'{text}" if risky else text


def from_cell(text: str) -> str:
    """Take back the apostrophe that :func:`as_cell` put before what looks like a formula."""
    return text[1:] if text.startswith("'") and _ESCAPED.match(text[1:]) else text


def _places(path: str | PathLike[str], key: str | PathLike[str] | None) -> tuple[Path, Path]:
    sheet = Path(path)
    if not sheet.name:
        raise FrameError(f"path: '{path}' names no file; give that of the sheet.")
    return sheet, sheet.with_suffix(".key.csv") if key is None else Path(key)


def _write(path: Path, frame: pd.DataFrame) -> None:
    cells = frame.map(as_cell)
    text = cells.to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")  # refuses a file that came in between
    except OSError as cause:
        raise FrameError(f"{path}: cannot be written ({cause.strerror}).") from cause
    try:
        with file:
            # the byte order mark makes a spreadsheet read UTF-8
            file.write(text.encode("utf-8-sig"))
    except OSError as cause:
        path.unlink()
        raise FrameError(f"{path}: cannot be written ({cause.strerror}).") from cause


def read_labels(
    path: str | PathLike[str],
    *,
    labeller: str,
    key: str | PathLike[str] | None = None,
) -> pd.DataFrame:
    """Read a filled label sheet as gold.

    Parameters
    ----------
    path : str or path
        The filled csv, comma, semicolon or tab separated, as a spreadsheet saved it. Read: row,
        label (``PASS`` or ``FAIL``, ``p`` or ``f``; empty where undecided), borderline (``yes``,
        ``no``, ``x`` or empty) and note. Other columns may have been changed or dropped.
    labeller : str
        Who filled it in.
    key : str or path, optional
        The key of the sheet; by default the one beside it.

    Returns
    -------
    pandas.DataFrame
        A gold frame, one row per row of the key: attempt_id, check_id, labeller, passed (NA where
        there is no label or the row was lost), borderline, inclusion_probability, note.

    Raises
    ------
    FrameError
        With every problem at once: labels that are not allowed, rows that the key does not have,
        rows that stand twice. Before that when a file is not there or is not a csv: an open quote,
        lines of more cells than the head, a column that stands twice, a chance that is no number.

    See Also
    --------
    label_sheet : Writes the sheet and its key.
    """
    sheet_path, key_path = _places(path, key)
    secret = _read(key_path, KEY_COLUMNS)
    chance = pd.to_numeric(secret["inclusion_probability"].replace("", "nan"), errors="coerce")
    odd = secret[chance.isna() & ~secret["inclusion_probability"].str.lower().isin(["", "nan"])]
    wrong = "a row stands more than once." if secret["row"].duplicated().any() else ""
    if len(odd):
        row, found = odd[["row", "inclusion_probability"]].iloc[0]
        wrong = f"inclusion_probability of row '{row}' is '{found}'; allowed: a number."
    if wrong:
        raise FrameError(f"{key_path.name}: not a key that label_sheet wrote: {wrong}")
    filled = _read(sheet_path, ["row", "label"])
    filled = filled[filled[["row", "label"]].apply("".join, axis=1).ne("")]
    problems = _problems(filled, secret)
    if problems:
        raise FrameError(problem_list(sheet_path.name, problems), problems)
    told = secret.merge(filled.reindex(columns=["row", "label", "borderline", "note"]), how="left")
    note = told["note"].fillna("")
    gold = pd.DataFrame(
        {
            "attempt_id": told["attempt_id"],
            "check_id": told["check_id"],
            "labeller": labeller,
            "passed": _meaning(told["label"], _LABELS),
            "borderline": _meaning(told["borderline"], _BORDERLINE),
            "inclusion_probability": told["row"].map(dict(zip(secret["row"], chance, strict=True))),
            "note": note.mask(note.eq("")),
        }
    )
    return check(gold, "gold")


def _read(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    if not isfile(path):
        raise FrameError(f"{path}: there is no such file.")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")  # what a spreadsheet on Windows may save
    head = text.split("\n", 1)[0]
    separator = max(",;\t", key=head.count)
    try:
        # without header= every line is held against the cells of the first one
        lines = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype="str", na_filter=False
        ).fillna("")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as cause:
        why = str(cause).removeprefix("Error tokenizing data. C error: ").strip()
        raise FrameError(
            f"{path.name}: cannot be read as a csv file separated by {separator!r} ({why}). A text "
            "with a separator, a quote or a line feed in it stands in quotes."
        ) from None
    frame = lines.iloc[1:].reset_index(drop=True)
    frame.columns = lines.iloc[0]
    frame.columns = frame.columns.str.strip()
    for name in needed:
        if name not in frame.columns:
            raise FrameError(
                f"{path.name}: there is no column '{name}'; there: {', '.join(frame.columns)}."
                + suggest(name, list(frame.columns))
            )
    known = frame.columns[frame.columns.isin([*COLUMNS, *KEY_COLUMNS])]
    if known.has_duplicates:
        twice = known[known.duplicated()][0]
        raise FrameError(f"{path.name}: the column '{twice}' stands more than once.")
    for name in frame.columns.intersection(["row", "label", "borderline", "note"]):
        frame[name] = frame[name].str.strip()
    for name in frame.columns.intersection(["attempt_id", "check_id", "note"]):
        frame[name] = frame[name].map(from_cell)
    return frame


def _problems(filled: pd.DataFrame, secret: pd.DataFrame) -> list[str]:
    problems = []
    strange = filled.loc[~filled["row"].isin(secret["row"]), "row"]
    if len(strange):
        problems.append(
            f"{plural(len(strange), 'row')} not in the key, the first is '{strange.iloc[0]}'."
            + suggest(strange.iloc[0], secret["row"])
        )
    twice = filled.loc[filled["row"].duplicated(), "row"]
    if len(twice):
        problems.append(f"row '{twice.iloc[0]}' stands more than once.")
    for name, words in (("label", _LABELS), ("borderline", _BORDERLINE)):
        if name not in filled.columns:
            continue
        bad = filled[~filled[name].str.lower().isin(words)]
        problems += [
            f"row '{where}': {name} is '{value}'; allowed: {_allowed(words)}."
            + suggest(value.lower(), [word for word in words if word])
            for where, value in zip(bad["row"], bad[name], strict=True)
        ]
    return problems


def _allowed(words: Mapping[str, bool | None]) -> str:
    return ", ".join(word.upper() for word in words if word) + " or empty"


def _meaning(values: pd.Series, words: Mapping[str, bool | None]) -> pd.Series:
    known = values.fillna("").str.lower()
    return pd.Series([words[value] for value in known], index=values.index, dtype="boolean")


def join_batches(
    batches: Sequence[pd.DataFrame],
    attempts: pd.DataFrame,
    cases: pd.DataFrame,
    *,
    conditions: Sequence[str] = ("baseline", "skill"),
) -> pd.DataFrame:
    """Join batches of labels; every label gets its chance of being labelled by now.

    A batch that was drawn from what earlier ones left over has another inclusion probability in
    its key than they have. Together they are one random sample of cases, and weighing them by the
    probabilities of their own keys would be wrong.

    Parameters
    ----------
    batches : sequence of pandas.DataFrame
        Gold frames as :func:`read_labels` gives them, each drawn with
        ``label_sheet(..., gold=)`` from what the earlier ones left over.
    attempts, cases : pandas.DataFrame
        The frames that the sheets were drawn from: the attempts of one agent.
    conditions : sequence of str, default ("baseline", "skill")
        As given to :func:`label_sheet`.

    Returns
    -------
    pandas.DataFrame
        A gold frame with every row of the batches, in their order. inclusion_probability: cases
        drawn by now over cases that could be drawn, by skill, times one over the answers that the
        case has in the condition. Rows without a label (``passed`` NA) were drawn and count.

    Raises
    ------
    FrameError
        If there is no batch, the attempts are of several agents, an item was labelled twice by one
        labeller, or a label belongs to an attempt that could not be drawn.

    See Also
    --------
    label_sheet : Draws a batch.

    Notes
    -----
    Valid when each batch was drawn at random within skill and its size did not depend on what the
    earlier labels said. Horvitz and Thompson 1952, doi:10.1080/01621459.1952.10483446.
    """
    parts = [check(one, "gold") for one in batches]
    if not parts:
        raise FrameError("join_batches: found no batch; give one gold frame or more.")
    joined = pd.concat(parts, ignore_index=True)
    twice = joined.duplicated([*ITEM, "labeller"])
    if twice.any():
        item = joined.loc[twice, ITEM].iloc[0]
        raise FrameError(
            f"join_batches: check '{item['check_id']}' of attempt '{item['attempt_id']}' stands in "
            "two batches by one labeller; leave one out."
        )
    pool = drawable(check(attempts, "attempts"), check(cases, "cases"), conditions)
    strange = joined.loc[~joined["attempt_id"].isin(pool["attempt_id"]), "attempt_id"]
    if len(strange):
        raise FrameError(
            f"join_batches: attempt '{strange.iloc[0]}' has labels but could not be drawn: it has "
            "no answer, is altered or of another condition, or its case lacks an answer in one "
            "condition. Leave its labels out, or name the conditions it was drawn with."
        )
    pool["drawn"] = pool["attempt_id"].isin(joined["attempt_id"])
    labelled = pool.groupby(CASE)["drawn"].transform("any")
    chance = _chances(pool, labelled).set_axis(pool["attempt_id"])
    probability = joined["attempt_id"].map(chance).astype("float64")
    return check(joined.assign(inclusion_probability=probability), "gold")
