"""Giving gold labels in a notebook, blind to condition and grader, each on disk at once."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import orjson
import pandas as pd
from filelock import FileLock, Timeout

from skillcomp.errors import FrameError, SkillcompError, StoreError, StudyError, suggest
from skillcomp.explore._texts import render, text
from skillcomp.frames.contract import CASE, CONTRACTS, check
from skillcomp.io.journal import append, keep_torn, replace, shorten

_Row = dict[str, Any]
_ENDINGS = (".csv", ".jsonl")
_PATIENCE = 5.0  # seconds; another editor holds the lock for moments
_WRITTEN = {"true": True, "false": False, "": None}
_SHEET = ("row", "behaviour", "answer")
_SHEET_FILE = ("row", "labeller", "label", "borderline", "note")
_KINDS = {"positive": "must be there", "negative": "must be absent"}
# descriptions of negative behaviours say "does not": what passes is said without a second negation
_HINTS = {
    "must be there": "passes only if the answer states or does this",
    "must be absent": "passes only if the unwanted thing stands nowhere in the answer",
}
_WORDS = {True: "PASS", False: "FAIL", None: "no label"}


def label(
    sheet_or_attempts: pd.DataFrame,
    checks: pd.DataFrame | None = None,
    *,
    path: str | PathLike[str],
    labeller: str,
    cases: pd.DataFrame | None = None,
    seed: int = 0,
) -> LabelEditor:
    """Give gold labels one by one; each is in the file before the next is asked.

    Parameters
    ----------
    sheet_or_attempts : pandas.DataFrame
        What :func:`skillcomp.reliability.label_sheet` drew (recommended: drawn at random, so that
        estimates with these labels stay valid), or the attempts to label, all their checks.
        Attempts without an answer are left out.
    checks : pandas.DataFrame, optional
        What is verified; needed with attempts. A sheet carries its own.
    path : str or path
        Where the labels go: ``.csv``, or ``.jsonl`` (attempts only). A file that is there is
        resumed. Labels of other labellers in it are kept and not shown; a sheet's file is for one
        labeller.
    labeller : str
        Who labels.
    cases : pandas.DataFrame, optional
        Gives the prompts, with attempts.
    seed : int, default 0
        With the labeller's name, the order: attempts are shuffled, and the checks of one stay
        together. The same on every resumption, whatever the order of the frame.

    Returns
    -------
    LabelEditor
        A widget that shows skill, prompt, answer and one check: nothing tells condition, repeat,
        grader or attempt. Pass, Fail and Undecided write a label with the note and whether it is
        borderline, and go to the next check without one; an earlier check can be gone back to, and
        a new label replaces the old. In code: ``passed``, ``failed``, ``undecided``, ``previous``,
        ``next`` (buttons), ``borderline``, ``note``, ``view``, ``status``, ``n_labelled``.

    Raises
    ------
    FrameError
        If a frame breaks its contract, or checks are missing.
    StudyError
        If ``labeller`` is empty or the file's ending is not allowed.
    StoreError
        If the file cannot be read, or is another labeller's.

    See Also
    --------
    labels : Labels of attempts as a gold frame.
    skillcomp.reliability.read_labels : Labels of a sheet as a gold frame, with the sheet's key.

    Notes
    -----
    Label by the letter of the description, with the SKILL.md at hand; leave out checks that a
    program decides, such as verbatim copying. Every text is escaped. An answer may still give its
    condition away by what it says. A label that cannot be written is said in ``status`` and the
    check stays in view. A last line cut off by a crash is put aside into a file ending in
    ``.torn`` and its check is asked again.
    """
    if not isinstance(labeller, str) or not labeller.strip():
        raise StudyError(f"labeller: found {labeller!r}; allowed: a name.")
    if not isinstance(sheet_or_attempts, pd.DataFrame):
        raise FrameError(
            f"explore.label: expected a DataFrame, found {type(sheet_or_attempts).__name__}."
        )
    is_sheet = "row" in sheet_or_attempts.columns and "attempt_id" not in sheet_or_attempts.columns
    if is_sheet:
        items, file = _from_sheet(sheet_or_attempts), _LabelFile(Path(path), _SHEET_FILE, ("row",))
        if file.path.suffix != ".csv":
            raise StudyError("path: the labels of a sheet go to a .csv, which read_labels reads.")
    else:
        items = _from_attempts(sheet_or_attempts, checks, cases)
        columns = tuple(CONTRACTS["gold"].columns)
        file = _LabelFile(Path(path), columns, ("attempt_id", "check_id", "labeller"))
    order = [_place(name, labeller, seed) for name in items["group"]]
    items = items.iloc[pd.Series(order).argsort(kind="stable")].reset_index(drop=True)
    return LabelEditor(items, file, labeller=labeller, is_sheet=is_sheet)


def _place(group: str, labeller: str, seed: int) -> str:
    return sha256(f"{seed}/{labeller}/{group}".encode()).hexdigest()


def _from_sheet(sheet: pd.DataFrame) -> pd.DataFrame:
    for name in _SHEET:
        if name not in sheet.columns:
            raise FrameError(
                f"explore.label: the sheet has no column '{name}'; there: "
                f"{', '.join(map(str, sheet.columns))}."
            )
    items = sheet.reindex(columns=["row", "skill", "prompt", "answer", "behaviour", "kind"])
    items = items.reset_index(drop=True)
    if items["row"].duplicated().any():
        twice = items.loc[items["row"].duplicated(), "row"].iloc[0]
        raise FrameError(f"explore.label: row '{twice}' stands more than once in the sheet.")
    # rows of one answer are named item.number
    return items.assign(group=items["row"].astype("str").str.rsplit(".", n=1).str[0])


def _from_attempts(
    attempts: pd.DataFrame, checks: pd.DataFrame | None, cases: pd.DataFrame | None
) -> pd.DataFrame:
    given = check(attempts, "attempts")
    if checks is None:
        raise FrameError("explore.label: attempts need checks=, which says what is to be labelled.")
    about = check(checks, "checks")[[*CASE, "check_id", "check_kind", "description"]]
    given = given[given["answer"].fillna("").str.strip().ne("")]
    if "inclusion_probability" not in given.columns:
        given = given.assign(inclusion_probability=float("nan"))
    items = given.merge(about, on=CASE, how="inner")
    if cases is not None:
        items = items.merge(check(cases, "cases")[[*CASE, "prompt"]], on=CASE, how="left")
    names = ["attempt_id", "check_id", "skill", "prompt", "answer", "inclusion_probability"]
    return items.reindex(columns=names).assign(
        behaviour=items["description"].fillna(items["check_id"]),
        kind=items["check_kind"].map(_KINDS),
        group=items["attempt_id"],
    )


class LabelEditor(widgets.VBox):  # type: ignore[misc]
    """The widget that :func:`label` returns.

    Attributes
    ----------
    passed, failed, undecided : ipywidgets.Button
        Write a label for the check in view.
    borderline, note : ipywidgets.Checkbox, ipywidgets.Text
        Written with it.
    previous, next : ipywidgets.Button
        Go one check back or on without a label.
    view, status : ipywidgets.HTML
        The check in view, and how far the work is.
    """

    def __init__(
        self, items: pd.DataFrame, file: _LabelFile, *, labeller: str, is_sheet: bool
    ) -> None:
        self._items, self._file = items, file
        self._labeller, self._is_sheet = labeller, is_sheet
        self._key = ("row",) if is_sheet else ("attempt_id", "check_id")
        self._done = self._resume()
        self._at = 0
        self.passed = widgets.Button(description="Pass", button_style="success")
        self.failed = widgets.Button(description="Fail", button_style="danger")
        self.undecided = widgets.Button(description="Undecided")
        self.previous = widgets.Button(description="Previous", icon="arrow-left")
        self.next = widgets.Button(description="Next", icon="arrow-right")
        self.borderline = widgets.Checkbox(description="Borderline", indent=False)
        self.note = widgets.Text(placeholder="Note", layout=widgets.Layout(width="40em"))
        self.view, self.status = widgets.HTML(), widgets.HTML()
        row = widgets.Layout(flex_flow="row wrap")
        answer = [self.passed, self.failed, self.undecided, self.previous, self.next]
        super().__init__(
            [
                self.status,
                self.view,
                widgets.Box([self.note, self.borderline], layout=row),
                widgets.Box(answer, layout=row),
            ]
        )
        self.passed.on_click(lambda _: self._save(True))
        self.failed.on_click(lambda _: self._save(False))
        self.undecided.on_click(lambda _: self._save(None))
        self.previous.on_click(lambda _: self._go(self._at - 1))
        self.next.on_click(lambda _: self._go(self._at + 1))
        self._go(self._next_open(0))

    @property
    def n_labelled(self) -> int:
        """Return how many of the checks have a row of this labeller in the file."""
        return sum(name in self._done for name in self._names())

    def _names(self) -> list[tuple[str, ...]]:
        return list(self._items[list(self._key)].astype("str").itertuples(index=False, name=None))

    def _resume(self) -> dict[tuple[str, ...], _Row]:
        rows = self._file.rows()
        others = [row["labeller"] for row in rows if row.get("labeller") != self._labeller]
        if self._is_sheet and others:
            raise StoreError(
                f"{self._file.path.name} holds labels of '{others[0]}'; give each labeller of a "
                "sheet a file."
            )
        mine = (row for row in rows if row.get("labeller") == self._labeller)
        return {tuple(str(row[name]) for name in self._key): row for row in mine}

    def _next_open(self, start: int) -> int:
        """Return the place of the first check without a label from a place on, going round."""
        names = self._names()
        order = [*range(start, len(names)), *range(start)]
        return next((at for at in order if names[at] not in self._done), max(start - 1, 0))

    def _go(self, at: int) -> None:
        self._at = min(max(at, 0), max(len(self._items) - 1, 0))
        empty = self._items.empty
        self.previous.disabled = self._at == 0
        self.next.disabled = empty or self._at == len(self._items) - 1
        for one in (self.passed, self.failed, self.undecided):
            one.disabled = empty
        if empty:
            self.view.value = "<i>There is nothing to label.</i>"
            self._say()
            return
        item = self._items.iloc[self._at]
        old = self._done.get(self._names()[self._at])
        self.note.value = text((old or {}).get("note")) or ""
        self.borderline.value = _meaning((old or {}).get("borderline")) is True
        names = ("skill", "prompt", "answer", "behaviour")
        shown = {name: text(item[name]) for name in names}
        hint = _HINTS.get(str(item["kind"]).strip(), "")
        self.view.value = render("label", **shown, hint=hint)
        self._say()

    def _say(self, problem: str = "") -> None:
        n, done = len(self._items), self.n_labelled
        words = f"{done:,} of {n:,} labelled" + (", all done" if n and done == n else "")
        old = self._done.get(self._names()[self._at]) if n else None
        if old is not None:
            given = old["label"] if self._is_sheet else old["passed"]
            words += f"; this one: {_WORDS[_meaning(given)]}"
        alarm = f'<br><b style="color:#c00000">Not saved: {html.escape(problem)}</b>'
        self.status.value = html.escape(words) + (alarm if problem else "")

    def _save(self, passed: bool | None) -> None:
        item = self._items.iloc[self._at]
        row = self._row(item, passed)
        try:
            self._file.write(row)
        except (SkillcompError, OSError) as cause:
            # an exception of a callback would end in a log that nobody reads
            self._say(str(cause))
            return
        self._done[self._names()[self._at]] = row
        self._go(self._next_open(self._at + 1))

    def _row(self, item: pd.Series, passed: bool | None) -> _Row:
        note = " ".join(self.note.value.split())
        if self._is_sheet:
            return {
                "row": str(item["row"]),
                "labeller": self._labeller,
                "label": "" if passed is None else _WORDS[passed],
                "borderline": "yes" if self.borderline.value else "no",
                "note": note,
            }
        chance = item["inclusion_probability"]
        return {
            "attempt_id": item["attempt_id"],
            "check_id": item["check_id"],
            "labeller": self._labeller,
            "passed": passed,
            "borderline": bool(self.borderline.value),
            "inclusion_probability": None if pd.isna(chance) else float(chance),
            "note": note or None,
        }


def _meaning(value: Any) -> bool | None:
    """Return a stored label as a truth value, None where there is none."""
    words = {"true": True, "pass": True, "yes": True, "false": False, "fail": False, "no": False}
    return value if isinstance(value, bool) else words.get(str(value).strip().lower())


def labels(
    path: str | PathLike[str], *, labeller: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the labels that were given to attempts as a gold frame.

    Parameters
    ----------
    path : str or path
        A file written by :func:`label` from attempts.
    labeller : str or sequence of str, optional
        Whose labels; all by default.

    Returns
    -------
    pandas.DataFrame
        attempt_id, check_id, labeller, passed (NA where undecided), borderline,
        inclusion_probability (NaN where the attempts did not say), note.

    Raises
    ------
    StoreError
        If the file is not there or cannot be read.
    FrameError
        If it breaks the contract of gold.

    See Also
    --------
    skillcomp.reliability.read_labels : For the labels of a sheet.
    """
    columns = tuple(CONTRACTS["gold"].columns)
    file = _LabelFile(Path(path), columns, ("attempt_id", "check_id", "labeller"))
    if not file.path.is_file():
        raise StoreError(f"{file.path.name}: there is no such file.")
    rows: list[_Row] = []
    for number, row in enumerate(file.rows(), 1):
        place = f"{file.path.name}, label {number}"
        truths = {name: _truth(row.get(name), place) for name in ("passed", "borderline")}
        rows.append({name: row.get(name) or None for name in columns} | truths)
    frame = pd.DataFrame(rows, columns=pd.Index(columns))
    chance = pd.to_numeric(frame["inclusion_probability"])
    gold = check(frame.assign(inclusion_probability=chance), "gold")
    if labeller is None:
        return gold
    wanted = [labeller] if isinstance(labeller, str) else list(labeller)
    return gold[gold["labeller"].isin(wanted)].reset_index(drop=True)


@dataclass(frozen=True)
class _LabelFile:
    """A csv or JSON Lines file of labels.

    Attributes
    ----------
    path : pathlib.Path
        The file; its ending says which kind. Made with the first label.
    columns : tuple of str
        What a row holds, in the order of a new csv.
    key : tuple of str
        The columns that name a label.
    """

    path: Path
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.path.suffix not in _ENDINGS:
            raise StudyError(
                f"path: found '{self.path.name}'; allowed: a file ending in .csv or .jsonl."
                + suggest(self.path.suffix, _ENDINGS)
            )

    def rows(self) -> list[_Row]:
        """Return every row, a half-written last line put aside into ``<name>.torn``."""
        with self._locked():
            return self._read()[1]

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row, or put it in the place of the row with its key."""
        with self._locked():
            header, rows = self._read()
            name = [row[one] for one in self.key]
            same = [k for k, old in enumerate(rows) if [old.get(one) for one in self.key] == name]
            if not same:
                lines = [] if self.path.exists() and self.path.stat().st_size else self._head()
                # an empty line first closes a last line that lacks its line feed
                lines = lines or ([b""] if self._open_end() else [])
                append(self.path, [*lines, self._line(row, header)], sync=True)
                return
            rows[same[-1]] = {**rows[same[-1]], **row}
            lines = [*self._head(header), *(self._line(one, header) for one in rows)]
            replace(self.path, b"".join(line + b"\n" for line in lines))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.path}.lock", timeout=_PATIENCE):
                yield
        except Timeout as cause:
            raise StoreError(
                f"{self.path.name} is held by another editor; nothing was written. Try again."
            ) from cause

    def _head(self, header: Sequence[str] | None = None) -> list[bytes]:
        if self.path.suffix == ".jsonl":
            return []
        return [_csv_line(header or self.columns)]

    def _line(self, row: Mapping[str, Any], header: Sequence[str]) -> bytes:
        if self.path.suffix == ".jsonl":
            return orjson.dumps(dict(row))
        return _csv_line([_cell(row.get(name)) for name in header])

    def _open_end(self) -> bool:
        data = self.path.read_bytes() if self.path.exists() else b""
        return bool(data) and not data.endswith(b"\n")

    def _before_open_quote(self, data: bytes) -> int:
        """Return where the last row begins that a quote leaves open to the end; 0 without one.

        A quote that is open further up swallows whole rows: that was no torn row.
        """
        if self.path.suffix != ".csv":
            return 0
        end = len(data)
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            with suppress(_Unreadable):
                self._parse_csv(data[: end + 1])
                later = data[end + 1 :].decode(errors="replace").split("\n")[1:]
                whole = any(
                    len(next(csv.reader([line]), [])) >= len(self.columns) for line in later
                )
                return 0 if whole else end + 1
        return 0

    def _read(self) -> tuple[Sequence[str], list[_Row]]:
        data = self.path.read_bytes() if self.path.exists() else b""
        parse = self._parse_json if self.path.suffix == ".jsonl" else self._parse_csv
        try:
            return parse(data)
        except _Unreadable as cause:
            whole = data.rfind(b"\n") + 1
            if whole == len(data):
                raise StoreError(f"{self.path.name}, {cause}") from None
            try:
                found = parse(data[:whole])
            except _Unreadable as earlier:
                # a row that was torn off may hold line feeds itself
                whole = self._before_open_quote(data)
                if not whole:
                    raise StoreError(f"{self.path.name}, {earlier}") from None
                found = parse(data[:whole])
            keep_torn(self.path, data[whole:])
            shorten(self.path, whole)
            return found

    def _parse_json(self, data: bytes) -> tuple[Sequence[str], list[_Row]]:
        rows = []
        for number, line in enumerate(data.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as cause:
                raise _Unreadable(f"line {number}: not JSON ({cause}).") from None
            if not isinstance(row, dict) or any(name not in row for name in self.key):
                raise _Unreadable(
                    f"line {number}: expected an object with {', '.join(self.key)}; found "
                    f"{line[:60].decode(errors='replace')}."
                )
            rows.append(row)
        return self.columns, rows

    def _parse_csv(self, data: bytes) -> tuple[Sequence[str], list[_Row]]:
        if not data.strip():
            return self.columns, []
        try:
            text = data.decode("utf-8-sig")
            lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as cause:
            raise _Unreadable(f"not a csv file in UTF-8 ({cause}).") from None
        header = lines[0]
        for name in self.columns:
            if name not in header:
                raise _Unreadable(
                    f"line 1: there is no column '{name}'; there: {', '.join(header)}."
                    + suggest(name, header)
                )
        rows = []
        for number, cells in enumerate(lines[1:], 2):
            if not cells:
                continue
            if len(cells) != len(header):
                raise _Unreadable(
                    f"row {number}: {len(cells)} fields, the header has {len(header)}."
                )
            rows.append(dict(zip(header, cells, strict=True)))
        return header, rows


class _Unreadable(Exception):
    """Why a file of labels cannot be read."""


def _csv_line(cells: Sequence[str]) -> bytes:
    out = io.StringIO()
    # a field is quoted where a character of the line's end stands in it
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n").encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _truth(value: Any, place: str) -> bool | None:
    """Return a label as it was written to a csv or JSON Lines file."""
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _WRITTEN:
        raise StoreError(
            f"{place}: found '{value}'; allowed: true, false or empty."
            + suggest(word, [one for one in _WRITTEN if one])
        )
    return _WRITTEN[word]
