"""What each attempt and each case shows: by the grader, by gold, by the grader where gold is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import require_one_of
from skillcomp.frames.casetable import clusters_of
from skillcomp.frames.contract import CASE, check
from skillcomp.frames.estimates import (
    groups,
    refuse_pooling,
    require_columns,
)
from skillcomp.frames.labels import (
    join_gold,
    known_verdict,
    labellers_said,
    reference_labels,
    strays_of,
)

Unit = Literal["behaviour", "attempt"]
Floats = NDArray[np.float64]

# name of the column of an outcomes frame that holds the unit
VALUES = {"behaviour": "share_passed", "attempt": "passed"}
_PLACE = [*CASE, "condition", "attempt_id"]


@dataclass(frozen=True)
class Tables:
    """Verdicts joined with gold, and what follows from them for attempts and cases.

    ``items``, one row per verdict: ``by``, skill, case_id, cluster, condition, attempt_id,
    check_id, verdict and gold as 0, 1 or NaN, chance, settled_by (NA without a row).

    ``attempts``, one row per attempt: ``by``, the keys, cluster, passed and share_passed by the
    grader; gold_passed and gold_share; verdict and gold in the asked unit; seen, the grader's value
    on just what carries gold.

    ``cases``, one row per ``by``, case and condition: means over the attempts of the case in the
    asked unit (verdict, gold, seen), size and n (attempts, those with a verdict), n_gold, n_whole
    and n_sparse (attempts with gold; on all their checks; on fewer than half of them, or for whole
    attempts on not all, which counts as none), chance (with which the case was drawn for gold; NaN
    where not recorded), n_unknown (attempts with gold without it), case and cluster as numbers.

    ``strays`` says how many gold labels match no verdict; empty where none is lost.
    """

    items: pd.DataFrame
    attempts: pd.DataFrame
    cases: pd.DataFrame
    by: list[str]
    unit: Unit
    strays: str = ""

    def settled(self, values: Mapping[str, Any], conditions: Sequence[str]) -> str:
        """Say how the labels of a group's conditions were settled, "" where all in one way."""
        kept = self._settled.get(key_of(values, self.by))
        if kept is None:
            return ""
        kept = kept[kept["condition"].isin(conditions)]
        return labellers_said(kept["settled_by"], kept["gold"])

    @cached_property
    def _settled(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        kept = self.items[self.items["settled_by"].notna()]
        return {key_of(values, self.by): part for values, part in groups(kept, self.by)}

    def labelled(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        """Return verdict, gold, cluster and condition of each unit with gold, by group."""
        frame = self.items if self.unit == "behaviour" else self.attempts
        kept = frame[frame["gold"].notna()]
        columns = list(dict.fromkeys([*self.by, "condition", "verdict", "gold"]))
        small = kept[columns].assign(cluster=pd.factorize(kept["cluster"])[0])
        return {key_of(values, self.by): part for values, part in groups(small, self.by)}


def key_of(values: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return the values that name a group, None where one is missing."""
    return tuple(None if pd.isna(values[name]) else values[name] for name in names)


def tables(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str],
    unit: Unit,
    cases: pd.DataFrame | None,
    what: str,
) -> Tables:
    """Join verdicts with gold and sum up attempts and cases.

    The frames are under their contracts or a researcher's own; ``by`` keeps rows apart, ``cases``
    tells which cases are contrast pairs, ``what`` names the analysis in messages. Raises FrameError
    where a frame breaks its contract, graders, agents or labellers would be pooled, or the unit is
    unknown.
    """
    require_one_of("unit", unit, VALUES)
    given = check(verdicts, "verdicts")
    require_columns(given, by, what)
    refuse_pooling(given, by, what, agents=True)
    labels = reference_labels(gold, what)
    joined = join_gold(given.assign(verdict=known_verdict(given)), labels)
    joined = joined.rename(columns={"inclusion_probability": "chance"})
    joined["cluster"] = clusters_of(joined, cases)
    keys = [*by, *_PLACE, "cluster", "check_id", "verdict", "gold", "chance"]
    keys.append("settled_by")
    items = joined[list(dict.fromkeys(keys))]
    attempts = _attempts(items, list(by), unit)
    strays = strays_of(given, labels)
    return Tables(items, attempts, _cases(attempts, list(by)), list(by), unit, strays)


def _attempts(items: pd.DataFrame, by: list[str], unit: Unit) -> pd.DataFrame:
    has, seen = items["gold"].notna(), items["verdict"].notna()
    counted = items.assign(
        _seen=seen,
        _met=items["verdict"].eq(1),
        _gold=has,
        _gold_met=items["gold"].eq(1),
        _both=has & seen,
        _both_met=has & items["verdict"].eq(1),
    )
    keys = list(dict.fromkeys([*by, *_PLACE]))
    sums = ["_seen", "_met", "_gold", "_gold_met", "_both", "_both_met"]
    grouped = counted.groupby(keys, sort=False, dropna=False, observed=True)
    frame = grouped[sums].sum().join(grouped[["cluster", "chance"]].first())
    frame = frame.reset_index()
    of_case = list(dict.fromkeys([*by, *CASE]))
    size = items.groupby(of_case, sort=False, dropna=False, observed=True)["check_id"].nunique()
    frame = frame.merge(size.rename("n_checks").reset_index(), on=of_case, how="left")
    frame["share_passed"] = _share(frame["_met"], frame["_seen"]).where(
        2 * frame["_seen"] >= frame["n_checks"]
    )
    frame["passed"] = _whole(frame["_met"], frame["_seen"], frame["n_checks"])
    frame["gold_share"] = _share(frame["_gold_met"], frame["_gold"]).where(
        2 * frame["_gold"] >= frame["n_checks"]
    )
    # Gold on a part of the checks settles an attempt only where it fails: to count those alone
    # would choose attempts by their outcome. So gold on all checks or none.
    whole = frame["_gold"].eq(frame["n_checks"])
    frame["gold_passed"] = frame["_gold_met"].eq(frame["_gold"]).astype("float64").where(whole)
    if unit == "behaviour":
        own = (frame["share_passed"], frame["gold_share"])
        on_gold = _share(frame["_both_met"], frame["_both"]).where(own[1].notna())
    else:
        own = (frame["passed"], frame["gold_passed"])
        on_gold = frame["passed"].where(frame["gold_passed"].notna())
    sparse = frame["_gold"].gt(0) & own[1].isna()
    return frame.assign(verdict=own[0], gold=own[1], seen=on_gold, sparse=sparse, whole=whole)


def _share(met: pd.Series, n: pd.Series) -> pd.Series:
    return met / n.where(n.gt(0))


def _whole(met: pd.Series, seen: pd.Series, n_checks: pd.Series) -> pd.Series:
    """Return 1 where every check passed, 0 as soon as one failed, NaN where one is missing."""
    known = met.lt(seen) | seen.eq(n_checks)
    return met.eq(seen).astype("float64").where(known & seen.gt(0))


def _cases(attempts: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    keys = list(dict.fromkeys([*by, *CASE, "cluster", "condition"]))
    labelled = attempts["gold"].notna()
    frame = attempts.assign(
        _n=attempts["verdict"].notna(),
        _chance=attempts["chance"].where(labelled),
        _unknown=labelled & attempts["chance"].isna(),
        seen=attempts["seen"].where(labelled),
    )
    grouped = frame.groupby(keys, sort=False, dropna=False, observed=True)
    table = grouped.agg(
        verdict=("verdict", "mean"),
        gold=("gold", "mean"),
        seen=("seen", "mean"),
        n=("_n", "sum"),
        n_gold=("gold", "count"),
        n_whole=("whole", "sum"),
        n_sparse=("sparse", "sum"),
        n_unknown=("_unknown", "sum"),
        chance=("_chance", "mean"),
        size=("attempt_id", "size"),
    ).reset_index()
    # One of several repeats is drawn: the case itself had as many chances as it has attempts.
    drawn = table["chance"] * table["size"] / table["n_gold"].where(table["n_gold"].gt(0))
    case = table.groupby(CASE, sort=False, dropna=False, observed=True).ngroup()
    return table.assign(
        chance=drawn.clip(upper=1.0),
        case=case.to_numpy(),
        cluster=pd.factorize(table["cluster"])[0],
    )
