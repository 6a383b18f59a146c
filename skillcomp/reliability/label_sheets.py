"""Label sheets: draw what to label, write it as a blinded csv, and read it back as gold."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from os.path import exists, isfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import (
    FrameError,
    plural,
    problem_list,
    require_known,
    require_whole,
    suggest,
)
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import require_columns
from skillcomp.frames.reference_labels import ITEM, usable
from skillcomp.frames.table_files import csv_table
from skillcomp.io.files import read_own
from skillcomp.io.redaction import redact_bytes
from skillcomp.io.spreadsheet_cells import as_cell, from_cell
from skillcomp.stats.results import Bools

COLUMNS = ["row", "skill", "prompt", "answer", "behaviour", "kind", "label", "borderline", "note"]
KEY_COLUMNS = ["row", "attempt_id", "check_id", "inclusion_probability"]
_LABELS = {"pass": True, "p": True, "fail": False, "f": False, "": None}
_BORDERLINE = {"yes": True, "y": True, "x": True, "no": False, "n": False, "": None}


def label_sheet(
    attempts: pd.DataFrame,
    cases: pd.DataFrame,
    checks: pd.DataFrame,
    *,
    path: str | PathLike[str],
    n_cases: int,
    conditions: Sequence[str] = ("baseline", "skill"),
    gold: pd.DataFrame | None = None,
    key: str | PathLike[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Draw cases to label and write them as a blinded csv to fill in by hand.

    Cases are drawn at random within each skill, in proportion to its number of cases. One repeat of
    each drawn case is labelled under every condition, as prediction-powered estimates require.

    Parameters
    ----------
    attempts, cases, checks : pandas.DataFrame
        Frames of the study; the attempts must be of one agent. A case can be drawn if it has an
        answer under every condition. For several agents, write a sheet for each and concatenate the
        gold frames.
    path : str or path
        The csv to write; an existing file is not overwritten.
    n_cases : int
        Number of further cases to label, such as the ``gold_cases`` of
        :func:`skillcomp.planning.gold_needed` minus the cases that have labels. Each skill without
        labels gets at least one case, so the number must not be smaller than the number of such
        skills.
    conditions : sequence of str, default ("baseline", "skill")
        The conditions under which a case is labelled.
    gold : pandas.DataFrame, optional
        Existing labels. Their cases are not drawn again. Join these labels and the new ones with
        :func:`join_labels`, which updates the probabilities of the earlier labels.
    key : str or path, optional
        File for the key, which maps rows of the sheet to attempts. By default it is next to the
        sheet, with the ending ``.key.csv``. Keep it away from the labeller.
    seed : int, default 0
        Seed of the draw.

    Returns
    -------
    pandas.DataFrame
        The sheet as written, with one row per attempt and check, and attempts in random order: row
        (an anonymous id), skill, prompt, answer, behaviour and kind (``must be there`` or
        ``must be absent``). The columns label, borderline and note are empty. Case, condition,
        repeat and grader are not in the sheet, so the labeller may see it.

    Raises
    ------
    FrameError
        If a frame breaks its contract, there are answers of several agents, a file exists already,
        ``n_cases`` is not a positive whole number, or fewer cases can be drawn than are needed.

    See Also
    --------
    read_labels : Reads the filled sheet as a gold frame.
    join_labels : Joins the labels of several sheets in one gold frame.

    Notes
    -----
    ``inclusion_probability`` in the key is the chance that an attempt has been labelled by now. It
    is the share of the skill's drawable cases that are labelled, in this sheet or in ``gold``,
    divided by the number of repeats with an answer. Earlier sheets have smaller values in their
    keys; :func:`join_labels` updates them. The probability is valid if the earlier cases were also
    drawn at random within skill.

    A cell that a spreadsheet would take for a formula is written with a leading apostrophe. Control
    characters are removed. An answer about an invented skill may reveal its condition by not
    knowing the term; no sheet can hide this.
    """
    attempts, cases = check(attempts, "attempts"), check(cases, "cases")
    checks = check(checks, "checks")
    sheet_path, key_path = _sheet_and_key_paths(path, key)
    for target in (sheet_path, key_path):
        if exists(target):
            raise FrameError(f"{target} is there already and may hold labels; give another path.")
    if sheet_path.resolve() == key_path.resolve():
        raise FrameError(f"key: '{key_path}' is the sheet itself; give another path.")
    rng = np.random.default_rng(seed)
    pool = drawable(attempts, cases, conditions)
    ids = pd.Series(dtype="str") if gold is None else check(gold, "gold")["attempt_id"]
    labelled = set(_case_index(attempts[attempts["attempt_id"].isin(ids)])) & set(_case_index(pool))
    drawn = draw_cases(pool, labelled, require_whole("n_cases", n_cases, FrameError), rng)
    sheet, secret = _sheet_and_key(drawn, cases, checks, rng)
    _write_csv(sheet_path, sheet)
    _write_csv(key_path, secret)
    return sheet


def drawable(
    attempts: pd.DataFrame, cases: pd.DataFrame, conditions: Sequence[str]
) -> pd.DataFrame:
    """Return the answered attempts of cases that have an answer under every condition."""
    conditions = list(dict.fromkeys(conditions))
    there = attempts["condition"].unique()
    for name in conditions:
        require_known("conditions: there is no", name, there, label="there")
    rows = attempts[
        usable(attempts)
        & attempts["answer"].str.strip().fillna("").ne("")
        & attempts["perturbation"].isna()
        & attempts["condition"].isin(conditions)
        & _case_index(attempts).isin(_case_index(cases))
    ]
    agents = sorted(map(str, rows["agent"].unique()))
    if len(agents) > 1:
        raise FrameError(
            f"attempts: answers of more than one agent: {', '.join(agents)}. Select one: each has "
            "its own sheet, or a case would be labelled on different agents' answers."
        )
    complete = rows.groupby(CASE)["condition"].transform("nunique").eq(len(conditions))
    return rows[complete].reset_index(drop=True)


def _case_index(frame: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(frame[CASE])


def draw_cases(
    pool: pd.DataFrame, labelled: set[tuple[str, str]], n_cases: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draw ``n_cases`` unlabelled cases, and one attempt of each case under each condition.

    The result has the additional column ``inclusion_probability``.
    """
    unique = pool.drop_duplicates(CASE).groupby("skill", sort=False)["case_id"]
    every = {str(skill): list(ids) for skill, ids in unique}
    free = {
        skill: [case_id for case_id in ids if (skill, case_id) not in labelled]
        for skill, ids in every.items()
    }
    sizes = {skill: len(ids) for skill, ids in free.items()}
    if n_cases > sum(sizes.values()):
        raise FrameError(
            f"n_cases: {n_cases} asked for, {sum(sizes.values())} cases are left that have an "
            "answer in every condition and no label."
        )
    unlabelled = {skill for skill, ids in every.items() if len(ids) == sizes[skill]}
    if n_cases < len(unlabelled):
        skills = "skills without labels" if len(unlabelled) < len(every) else "skills"
        raise FrameError(
            f"n_cases: {n_cases} cases are fewer than the {len(unlabelled)} {skills}: a skill "
            "without labels could not be corrected."
        )
    shares = _proportional_shares(n_cases, sizes, unlabelled, rng)
    chosen = []
    for skill, ids in free.items():
        chosen += [(skill, one) for one in rng.permutation(ids)[: shares[skill]].tolist()]
    index = _case_index(pool)
    chances = _inclusion_probability(pool, index.isin([*labelled, *chosen]))
    rows = pool.assign(inclusion_probability=chances)[index.isin(chosen)]
    rows = rows.assign(_lot=rng.random(len(rows)))
    first = rows.groupby([*CASE, "condition"], sort=False)["_lot"].idxmin()
    return rows.loc[first].drop(columns="_lot")


def _inclusion_probability(pool: pd.DataFrame, labelled: Bools | pd.Series) -> pd.Series:
    """Return for each attempt the probability that it is drawn for labelling.

    This is the share of the skill's cases that are labelled, divided by the number of repeats of
    the case under the condition.
    """
    share = pool.assign(labelled=labelled).drop_duplicates(CASE).groupby("skill")["labelled"].mean()
    repeats = pool.groupby([*CASE, "condition"], sort=False)["attempt_id"].transform("count")
    return (pool["skill"].map(share) / repeats).astype("float64")


def _proportional_shares(
    total: int, sizes: Mapping[Any, int], unlabelled: Collection[Any], rng: np.random.Generator
) -> dict[Any, int]:
    """Divide ``total`` in proportion to ``sizes``; a name in ``unlabelled`` gets at least 1."""
    exact = {name: total * size / sum(sizes.values()) for name, size in sizes.items()}
    shares = {name: int(name in unlabelled) for name in sizes}
    # break ties at random, because the order of the frame must not matter
    lot = dict(zip(exact, rng.permutation(len(exact)), strict=True))
    while sum(shares.values()) < total:
        least = min(shares, key=lambda name: (shares[name] - exact[name], lot[name]))
        shares[least] += 1
    return shares


def _sheet_and_key(
    drawn: pd.DataFrame, cases: pd.DataFrame, checks: pd.DataFrame, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    shuffled = drawn.iloc[rng.permutation(len(drawn))].reset_index(drop=True)
    width = len(str(len(shuffled)))
    shuffled["item"] = [f"item-{k + 1:0{width}d}" for k in range(len(shuffled))]
    rows = shuffled.merge(
        checks[[*CASE, "check_id", "check_kind", "description"]], on=CASE, how="left"
    )
    rows = rows.merge(cases[[*CASE, "prompt"]], on=CASE, how="left")
    without = rows["check_id"].isna()
    if without.any():
        raise FrameError(
            f"checks: case '{rows.loc[without, 'case_id'].iloc[0]}' has none to label."
        )
    rows["row"] = rows["item"] + "." + (rows.groupby("item").cumcount() + 1).astype(str)
    kinds = {"positive": "must be there", "negative": "must be absent"}
    sheet = rows.assign(
        behaviour=rows["description"].fillna(rows["check_id"]),
        kind=rows["check_kind"].map(kinds).fillna(""),
        **dict.fromkeys(("label", "borderline", "note"), ""),
    )
    return sheet[COLUMNS], rows[KEY_COLUMNS]


def _sheet_and_key_paths(
    path: str | PathLike[str], key: str | PathLike[str] | None
) -> tuple[Path, Path]:
    sheet = Path(path)
    if not sheet.name:
        raise FrameError(f"path: '{path}' names no file; give that of the sheet.")
    return sheet, sheet.with_suffix(".key.csv") if key is None else Path(key)


def _write_csv(path: Path, frame: pd.DataFrame) -> None:
    text = frame.map(as_cell).to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")  # mode "x" fails if the file was created in the meantime
    except OSError as cause:
        raise FrameError(f"{path}: cannot be written ({cause.strerror}).") from cause
    try:
        with file:
            # write a byte order mark, by which spreadsheets recognise UTF-8
            file.write(redact_bytes(text.encode("utf-8-sig")))
    except OSError as cause:
        path.unlink()
        raise FrameError(f"{path}: cannot be written ({cause.strerror}).") from cause


def read_labels(
    path: str | PathLike[str], *, labeller: str, key: str | PathLike[str] | None = None
) -> pd.DataFrame:
    """Read a filled label sheet as gold.

    Parameters
    ----------
    path : str or path
        The filled csv as a spreadsheet saved it, separated by commas, semicolons or tabs. These
        columns are read: row, label (``PASS`` or ``FAIL``, ``p`` or ``f``; empty if undecided),
        borderline (``yes``, ``no``, ``x`` or empty) and note. Other columns may be changed or
        missing.
    labeller : str
        Name of the person who filled in the sheet.
    key : str or path, optional
        The key of the sheet; by default the key next to the sheet.

    Returns
    -------
    pandas.DataFrame
        A gold frame with one row per row of the key: attempt_id, check_id, labeller, passed,
        borderline, inclusion_probability and note. ``passed`` is NA if there is no label or the
        sheet lacks the row.

    Raises
    ------
    FrameError
        If a label is not allowed, a row is not in the key, or a row occurs twice; the message lists
        all such problems. Also if a file is missing or cannot be read as csv, because of an
        unclosed quote, a line with more cells than the header, a duplicate column, or a
        probability that is not a number.

    See Also
    --------
    label_sheet : Writes the sheet and its key.
    """
    sheet_path, key_path = _sheet_and_key_paths(path, key)
    secret = _read_csv(key_path, KEY_COLUMNS)
    chance = pd.to_numeric(secret["inclusion_probability"].replace("", "nan"), errors="coerce")
    odd = secret[chance.isna() & ~secret["inclusion_probability"].str.lower().isin(["", "nan"])]
    problem = "a row occurs more than once." if secret["row"].duplicated().any() else ""
    if len(odd):
        row, value = odd[["row", "inclusion_probability"]].iloc[0]
        problem = f"inclusion_probability of row '{row}' is '{value}'; allowed: a number."
    if problem:
        raise FrameError(f"{key_path.name}: not a key that label_sheet wrote: {problem}")
    filled = _read_csv(sheet_path, ["row", "label"])
    filled = filled[(filled["row"] + filled["label"]).ne("")]
    problems = _sheet_problems(filled, secret)
    if problems:
        raise FrameError(problem_list(sheet_path.name, problems), problems)
    columns = ["row", "label", "borderline", "note"]
    rows = secret.merge(filled.reindex(columns=columns), how="left")
    note = rows["note"].fillna("")
    gold = rows[ITEM].assign(
        labeller=labeller,
        labeller_kind="person",
        passed=_as_boolean(rows["label"], _LABELS),
        borderline=_as_boolean(rows["borderline"], _BORDERLINE),
        inclusion_probability=chance,  # the rows are those of the key, in its order
        note=note.mask(note.eq("")),
    )
    return check(gold, "gold")


def _read_csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a csv as text; raise FrameError if one of ``columns`` is missing.

    The separator is the comma, semicolon or tab, whichever is most frequent in the first line.
    """
    if not isfile(path):
        raise FrameError(f"{path}: there is no such file.")
    data = read_own(path, what="sheet", error=FrameError)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # some spreadsheets on Windows write cp1252
        text = data.decode("cp1252", errors="replace")
    separator = max(",;\t", key=text.split("\n", 1)[0].count)
    frame = csv_table(text, separator, path).fillna("").rename(columns=str.strip)
    require_columns(frame, columns, path.name)
    for name in frame.columns.intersection(["row", "label", "borderline", "note"]):
        frame[name] = frame[name].str.strip()
    for name in frame.columns.intersection(["attempt_id", "check_id", "note"]):
        frame[name] = frame[name].map(from_cell)
    return frame


def _sheet_problems(filled: pd.DataFrame, secret: pd.DataFrame) -> list[str]:
    """List the problems of a sheet: rows not in the key, duplicate rows and unknown words."""
    problems = []
    unknown = filled.loc[~filled["row"].isin(secret["row"]), "row"]
    if len(unknown):
        problems.append(
            f"{plural(len(unknown), 'row')} not in the key, the first is '{unknown.iloc[0]}'."
            + suggest(unknown.iloc[0], secret["row"])
        )
    twice = filled.loc[filled["row"].duplicated(), "row"]
    if len(twice):
        problems.append(f"row '{twice.iloc[0]}' occurs more than once.")
    for name, words in (("label", _LABELS), ("borderline", _BORDERLINE)):
        if name not in filled.columns:
            continue
        bad = filled[~filled[name].str.lower().isin(words)]
        allowed = ", ".join(word.upper() for word in words if word) + " or empty"
        problems += [
            f"row '{row}': {name} is '{value}'; allowed: {allowed}."
            + suggest(value.lower(), [word for word in words if word])
            for row, value in zip(bad["row"], bad[name], strict=True)
        ]
    return problems


def _as_boolean(values: pd.Series, words: Mapping[str, bool | None]) -> pd.Series:
    return values.fillna("").str.lower().map(words).astype("boolean")


def join_labels(
    batches: Sequence[pd.DataFrame],
    attempts: pd.DataFrame,
    cases: pd.DataFrame,
    *,
    conditions: Sequence[str] = ("baseline", "skill"),
) -> pd.DataFrame:
    """Join the labels of several sheets and update their inclusion probabilities.

    If a sheet was drawn from the cases that earlier sheets left over, the probabilities in its key
    differ from those in the earlier keys. Together, the sheets are one random sample of cases, so
    the labels must not be weighted by the probabilities in their own keys.

    Parameters
    ----------
    batches : sequence of pandas.DataFrame
        Gold frames from :func:`read_labels`. Each sheet after the first was drawn with
        ``label_sheet(..., gold=)`` from the cases that the earlier sheets left over.
    attempts, cases : pandas.DataFrame
        The frames from which the sheets were drawn, with the attempts of one agent.
    conditions : sequence of str, default ("baseline", "skill")
        As given to :func:`label_sheet`.

    Returns
    -------
    pandas.DataFrame
        A gold frame with every row of the batches, in their order. ``inclusion_probability`` is the
        share of the skill's drawable cases that were drawn in any batch, divided by the number of
        answers to the case under the condition. Rows without a label (``passed`` NA) were drawn, so
        they count.

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
    The probabilities are valid if each batch was drawn at random within skill and its size did not
    depend on earlier labels. Horvitz and Thompson 1952, doi:10.1080/01621459.1952.10483446.
    """
    parts = [check(batch, "gold") for batch in batches]
    if not parts:
        raise FrameError("join_labels: found no batch; give one gold frame or more.")
    gold = pd.concat(parts, ignore_index=True)
    twice = gold.duplicated([*ITEM, "labeller"])
    if twice.any():
        item = gold.loc[twice, ITEM].iloc[0]
        raise FrameError(
            f"join_labels: check '{item['check_id']}' of attempt '{item['attempt_id']}' stands in "
            "two batches by one labeller; leave one out."
        )
    pool = drawable(check(attempts, "attempts"), check(cases, "cases"), conditions)
    strange = gold.loc[~gold["attempt_id"].isin(pool["attempt_id"]), "attempt_id"]
    if len(strange):
        raise FrameError(
            f"join_labels: attempt '{strange.iloc[0]}' has labels but could not be drawn: it has "
            "no answer, is altered or of another condition, or its case lacks an answer in one "
            "condition. Leave its labels out, or name the conditions it was drawn with."
        )
    pool["drawn"] = pool["attempt_id"].isin(gold["attempt_id"])
    labelled = pool.groupby(CASE)["drawn"].transform("any")
    chance = _inclusion_probability(pool, labelled).set_axis(pool["attempt_id"])
    probability = gold["attempt_id"].map(chance).astype("float64")
    return check(gold.assign(inclusion_probability=probability), "gold")
