"""Grader versions beside each other: which is the reference, and the items that both decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import require_columns, require_no_copies
from skillcomp.reliability._common import GRADER_COLUMNS, ITEM, with_known
from skillcomp.selection import without_checks

VERSION = ["grader", "grader_version"]
Version = tuple[str, str]
Reference = str | tuple[str, str]


@dataclass(frozen=True)
class Pair:
    """The items that a version or the reference decided; ``both`` says whether both did."""

    grader: str
    version: str
    items: pd.DataFrame

    def among(self, label: float | None = None) -> tuple[pd.DataFrame, int]:
        """Return the items that both decided, of one gold label or all, and how many are lost."""
        items = self.items if label is None else self.items[self.items["gold"].eq(label)]
        return items[items["both"]].reset_index(drop=True), int((~items["both"]).sum())


def given_versions(
    verdicts: pd.DataFrame,
    names: list[str],
    exclude: str | Sequence[str] | None,
    cases: pd.DataFrame | None,
    what: str,
) -> pd.DataFrame:
    """Return checked verdicts of one round a version, with ``verdict`` and ``cluster``."""
    given = check(verdicts, "verdicts")
    require_columns(given, names, what)
    require_no_copies(given, names, what)
    for name in names:
        if name in GRADER_COLUMNS:
            raise FrameError(
                f"{what}: by= names '{name}', which is what is compared. Leave it out."
            )
    rounds = given.groupby(VERSION, dropna=False, observed=True)["round"].nunique()
    if (rounds > 1).any():
        who = rounds.index[rounds.to_numpy() > 1][0]
        raise FrameError(
            f"{what}: grader '{who[0]}' has several rounds; select one "
            "(frames.verdicts(store, round=1)), or ask consistency() about them."
        )
    if given.empty:
        raise FrameError(f"{what}: the verdicts frame has no rows: nothing to compare.")
    known = with_known(without_checks(given, exclude, what), cases)
    return known.assign(grader_version=known["grader_version"].fillna(""))


def reference_version(given: pd.DataFrame, reference: Reference) -> Version:
    """Return name and version of the reference, or say why it cannot be one."""
    if given.empty:
        raise FrameError("exclude_checks: every check is left out: nothing to compare.")
    there = [(str(g), str(v)) for g, v in given[VERSION].drop_duplicates().to_numpy()]
    name, version = _wanted(reference)
    hits = [one for one in there if one[0] == name and version in (None, one[1])]
    graders = list(dict.fromkeys(one[0] for one in there))
    if not hits:
        shown = ", ".join(f"{g} {v}".strip() for g, v in there)
        raise FrameError(
            f"reference: there is no grader {reference!r}; there: {shown}."
            + suggest(str(name), graders)
        )
    if len(hits) > 1:
        shown = ", ".join(v for _, v in hits)
        raise FrameError(
            f"reference: grader '{name}' has several versions: {shown}. "
            f"Give name and version, such as ('{name}', '{hits[0][1]}')."
        )
    if len(there) < 2:
        raise FrameError(f"reference: '{name}' is the only grader there: nothing to compare.")
    return hits[0]


def _wanted(reference: Reference) -> tuple[str, str | None]:
    """Return name and version asked for; a list, as JSON writes a tuple, is one."""
    if isinstance(reference, str):
        return reference, None
    given = list(reference) if isinstance(reference, Sequence) else []
    if len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise FrameError(
            f"reference: found {reference!r}; allowed: the name of a grader, such as 'g1', or its "
            "name and version, such as ('g1', '2')."
        )
    return given[0], given[1]


def pairs(part: pd.DataFrame, first: Version, labels: pd.DataFrame | None) -> Iterator[Pair]:
    """Give the items of each other version beside the reference's, gold labels joined."""
    old = part[part["grader"].eq(first[0]) & part["grader_version"].eq(first[1])]
    beside = old[[*ITEM, "verdict", "rationale"]].rename(
        columns={"verdict": "old", "rationale": "old_rationale"}
    )
    for (grader, version), rows in part.groupby(VERSION, sort=False, observed=True):
        if (grader, version) == first:
            continue
        new = rows.rename(columns={"verdict": "new"})
        both = new.merge(beside, on=ITEM, how="outer")
        if labels is not None:
            both = both.merge(labels[[*ITEM, "gold"]], on=ITEM, how="left")
        else:
            both["gold"] = np.nan
        known = both[["old", "new"]].notna()
        both["both"] = known.all(axis=1)
        yield Pair(str(grader), str(version), both[known.any(axis=1)].reset_index(drop=True))
