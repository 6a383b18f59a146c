"""Readers: a store in, tidy frames under their contract out.

Each reader is named by its grain. By default it returns the plain study: unperturbed attempts,
first gradings, one gold label per item where labels were adjudicated. Perturbed copies, retests
and other labellers are asked for by argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from skillcomp.contracts import CONTRACTS, check, empty
from skillcomp.errors import FrameError, suggest
from skillcomp.io.store import RunStore
from skillcomp.io.tables import read_table
from skillcomp.labels import ADJUDICATED, one_label
from skillcomp.outcomes import outcomes
from skillcomp.records import BLOOM, SCHEMA_WEIGHTS, Suite

if TYPE_CHECKING:
    from skillcomp.records import Case

__all__ = [
    "attempts",
    "cases",
    "check",
    "checks",
    "empty",
    "gold",
    "outcomes",
    "pairwise",
    "passages",
    "verdicts",
]

PLAIN = "none"
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_ATTEMPT_KEYS = ["skill", "case_id", "condition", "repeat", "agent", "perturbation"]


def cases(store: RunStore) -> pd.DataFrame:
    """Return which cases the study asks, one row per case.

    Parameters
    ----------
    store : RunStore
        The recorded study; its suites are read.

    Returns
    -------
    pandas.DataFrame
        One row per case in suite order: skill, suite, case_id (``suite/id``), prompt, dimension,
        comprehension_dimension (C1 to C9), concept_field, transfer (near, far or NA), criticality,
        bloom, schema_weight (NaN for C7 to C9, which the source schema does not weight),
        contrast_of (case_id of the twin), should_trigger, n_checks. Words outside the vocabulary
        are NA here; they stand in ``store.suites[slug].problems``.
    """
    rows = [_case_row(suite, case) for suite in store.suites.values() for case in suite.cases]
    return check(pd.DataFrame(rows), "cases") if rows else empty("cases")


def _case_row(suite: Suite, case: Case) -> dict[str, object]:
    allowed = CONTRACTS["cases"].allowed
    known = {
        name: value if (value := getattr(case, name)) in words else None
        for name, words in allowed.items()
    }
    dimension = known["comprehension_dimension"]
    return {
        "skill": suite.skill,
        "suite": suite.slug,
        "case_id": case.case_id,
        "prompt": case.prompt,
        "dimension": case.dimension,
        **known,
        "criticality": case.criticality,
        "bloom": BLOOM.get(dimension or ""),
        "schema_weight": SCHEMA_WEIGHTS.get(dimension or "", np.nan),
        "contrast_of": case.contrast_of,
        "should_trigger": case.should_trigger,
        "n_checks": len(case.checks),
    }


def checks(store: RunStore) -> pd.DataFrame:
    """Return what is verified in each case, one row per check.

    Parameters
    ----------
    store : RunStore
        The recorded study; its suites are read.

    Returns
    -------
    pandas.DataFrame
        One row per check of a case: skill, case_id, check_id, check_kind (positive or negative),
        goal (outcome, process, style, efficiency), description.
    """
    rows = [
        {"skill": suite.skill, "case_id": case.case_id, **one.model_dump()}
        for suite in store.suites.values()
        for case in suite.cases
        for one in case.checks
    ]
    return check(pd.DataFrame(rows), "checks") if rows else empty("checks")


def attempts(
    store: RunStore,
    *,
    perturbation: str | Sequence[str] | Literal["all"] | None = None,
) -> pd.DataFrame:
    """Return the recorded answers, one row per attempt.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        None (default) gives the unperturbed attempts only; ``"all"`` everything; a name or several
        (such as ``"pad"``) only those perturbed copies; ``"none"`` within a sequence stands for the
        unperturbed ones.

    Returns
    -------
    pandas.DataFrame
        One row per attempt with the columns of the attempts contract. ``answer`` is NA where there
        is none (error, refusal); ``n_words`` counts white-space separated words of the answer, NA
        without one; ``status`` is ok, error, refused, truncated, paused or timeout.

    Raises
    ------
    FrameError
        If ``perturbation`` names a perturbation that the store does not hold.
    """
    frame = _frame(store.table("attempts"), "attempts")
    frame["n_words"] = _n_words(frame["answer"])
    frame = frame[_wanted(frame["perturbation"], perturbation)]
    return check(frame, "attempts")


def _n_words(answers: pd.Series) -> pd.Series:
    # str.split is a third of the time of a regular expression; both part at the same white space
    counts = [len(a.split()) if isinstance(a, str) else None for a in answers.to_numpy(object)]
    return pd.Series(counts, index=answers.index, dtype="Int64")


def _wanted(values: pd.Series, asked: str | Sequence[str] | None) -> pd.Series:
    if asked is None:
        return values.isna()
    if asked == "all":
        return pd.Series(True, index=values.index)
    names = _listed(asked, "perturbation")
    _known(names, [*values.dropna().unique(), PLAIN], "perturbation")
    return values.fillna(PLAIN).isin(names)


def verdicts(
    store: RunStore,
    *,
    perturbation: str | Sequence[str] | Literal["all"] | None = None,
    round: int | Sequence[int] | Literal["all"] = 1,
) -> pd.DataFrame:
    """Return what the graders said, one row per attempt, check, grader version and round.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        As in :func:`attempts`; None gives verdicts on unperturbed attempts.
    round : int or sequence of int or "all", default 1
        1 is the first grading; 2 and up are gradings repeated later.

    Returns
    -------
    pandas.DataFrame
        The columns of the verdicts contract. ``perturbation`` says which copies are altered, NA for
        the answers themselves; an analysis never takes copies for repeats: it wants the column in
        ``by``. ``passed`` is NA unless ``status`` is ok: a failed grader is never a failed agent.
        ``check_kind`` and ``goal`` come from the suite where the verdict does not carry them.
        ``evidence_found`` says whether the quote stands in the answer after white-space and
        quotation marks are normalised; NA without a quote or an answer.

    Raises
    ------
    FrameError
        If a verdict belongs to an attempt that the store does not hold, or if ``perturbation`` or
        ``round`` names what is not there.
    """
    frame = _frame(store.table("verdicts"), "verdicts")
    every = _frame(store.table("attempts"), "attempts")
    index = pd.Index(every["attempt_id"])
    position = index.get_indexer(pd.Index(frame["attempt_id"]))
    _orphans(frame.loc[position < 0, "attempt_id"], "verdicts")
    keep = _wanted(every["perturbation"], perturbation).to_numpy()[position]
    keep &= _rounds(frame["round"], round).to_numpy()
    frame, position = frame[keep].reset_index(drop=True), position[keep]
    for name in _ATTEMPT_KEYS:
        frame[name] = every[name].array.take(position)
    frame["passed"] = frame["passed"].where(frame["status"].eq("ok"))
    frame = _with_check_columns(frame, store)
    frame["evidence_found"] = _evidence_found(frame["evidence_quote"], every["answer"], position)
    return check(frame, "verdicts")


def _rounds(values: pd.Series, asked: int | Sequence[int] | str) -> pd.Series:
    if asked == "all":
        return pd.Series(True, index=values.index)
    names = [asked] if isinstance(asked, int) else list(asked)
    if not all(isinstance(name, int) for name in names):
        raise FrameError(f"round: found {asked!r}; allowed: a number, several numbers or 'all'.")
    return values.fillna(1).isin(names)


def _orphans(attempt_ids: pd.Series, kind: str) -> None:
    if len(attempt_ids):
        names = ", ".join(attempt_ids.unique()[:3])
        raise FrameError(
            f"{kind}: {len(attempt_ids)} rows belong to attempts that the store does not hold: "
            f"{names} ..."
        )


def _with_check_columns(frame: pd.DataFrame, store: RunStore) -> pd.DataFrame:
    if not frame[["check_kind", "goal"]].isna().any(axis=None):
        return frame
    known = checks(store).set_index(["case_id", "check_id"])[["check_kind", "goal"]]
    wanted = pd.MultiIndex.from_frame(frame[["case_id", "check_id"]])
    found = known.reindex(wanted).reset_index(drop=True)
    return frame.assign(
        check_kind=frame["check_kind"].fillna(found["check_kind"]),
        goal=frame["goal"].fillna(found["goal"]),
    )


def normalise_quote(text: str) -> str:
    """Return ``text`` with straight quotation marks and single blanks, for comparing quotes."""
    return " ".join(text.translate(_QUOTES).split())


def _evidence_found(quotes: pd.Series, answers: pd.Series, position: np.ndarray) -> pd.Series:
    found: list[bool | None] = [None] * len(quotes)
    texts, plain = answers.to_numpy(object), {}
    for row, (quote, at) in enumerate(zip(quotes.to_numpy(object), position, strict=True)):
        answer = texts[at]
        if not (isinstance(quote, str) and quote.strip() and isinstance(answer, str)):
            continue
        if quote in answer:  # then it stands in the normalised answer as well
            found[row] = True
            continue
        if at not in plain:
            plain[at] = normalise_quote(answer)
        found[row] = normalise_quote(quote) in plain[at]
    return pd.Series(found, index=quotes.index, dtype="boolean")


def gold(store: RunStore, *, labeller: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return the reference labels, one row per attempt, check and labeller.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    labeller : str or sequence of str, optional
        None (default) gives one label per item where the store has adjudicated ones: the
        adjudicated label, without one the label on which all labellers agree. A store in which
        nothing was adjudicated gives every labeller, as ``"all"`` does.

    Returns
    -------
    pandas.DataFrame
        attempt_id, check_id, labeller, passed (NA where the labeller gave none), borderline,
        inclusion_probability (chance that the attempt was drawn for labelling), note. Where one
        label per item is given, labeller says how it was settled: ``adjudicated``, ``agreed``,
        ``disputed`` (not adjudicated: passed is NA), or the name of the only one who gave a label.

    Raises
    ------
    FrameError
        If ``labeller`` is not in the store.
    """
    frame = check(_frame(store.table("gold"), "gold"), "gold")
    if labeller == "all":
        return frame
    if labeller is None:
        adjudicated = frame["labeller"].eq(ADJUDICATED).any()
        return one_label(frame, "frames.gold") if adjudicated else frame
    names = _listed(labeller, "labeller")
    _known(names, frame["labeller"].dropna().unique(), "labeller")
    return frame[frame["labeller"].isin(names)].reset_index(drop=True)


def pairwise(store: RunStore) -> pd.DataFrame:
    """Return pairwise judgements, one row per comparison in one order.

    Parameters
    ----------
    store : RunStore
        The recorded study.

    Returns
    -------
    pandas.DataFrame
        skill, case_id, grader, grader_family, order, first and second (attempt ids as shown),
        winner (attempt id), winner_position (1 or 2), rationale. NA where the grader named none.
    """
    return check(_frame(store.table("pairwise"), "pairwise"), "pairwise")


def passages(path: str | PathLike[str]) -> pd.DataFrame:
    """Return texts labelled by construction with their degree of copying, one row per passage.

    Parameters
    ----------
    path : str or path
        A JSON Lines file of passages.

    Returns
    -------
    pandas.DataFrame
        passage_id, skill, document (skill and topic: passages of one document are related), level
        (such as verbatim or fresh), text; then topic and question where the file has them.
    """
    table = read_table(Path(path), "passages")
    return check(table.to_pandas(types_mapper=_TYPES.get), "passages")


_TYPES = {
    pa.string(): pd.StringDtype(na_value=np.nan),
    pa.bool_(): pd.BooleanDtype(),
    pa.int64(): pd.Int64Dtype(),
}


def _frame(table: pa.Table, kind: str) -> pd.DataFrame:
    """Bring a stored table to the columns and dtypes of its contract, unchecked as yet."""
    columns = CONTRACTS[kind].columns
    kept = table.select([name for name in columns if name in table.column_names])
    frame: pd.DataFrame = kept.to_pandas(types_mapper=_TYPES.get)
    types: Any = dict(columns)
    return frame.reindex(columns=list(columns)).astype(types)


def _listed(asked: str | Iterable[str], what: str) -> list[str]:
    names = [asked] if isinstance(asked, str) else list(asked)
    if not all(isinstance(name, str) for name in names):
        raise FrameError(f"{what}: found {asked!r}; allowed: a name, several names or 'all'.")
    return names


def _known(names: Sequence[str], present: Iterable[str], what: str) -> None:
    there = sorted(set(present))
    for name in names:
        if name not in there:
            words = ", ".join(there) if there else "none"
            raise FrameError(
                f"{what} '{name}' is not in the store; there: {words}." + suggest(name, there)
            )
