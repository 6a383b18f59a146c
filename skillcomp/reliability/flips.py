"""Which verdicts change with the grader, and how many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillcomp.reliability._common import reference_labels
from skillcomp.reliability._versions import (
    VERSION,
    Reference,
    given_versions,
    pairs,
    reference_version,
)
from skillcomp.stats.results import NAN

_REFERENCE = ["reference", "reference_version"]


def flipped(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference: Reference,
    exclude_checks: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the verdicts that change with the grader, one row per item and compared version.

    Parameters
    ----------
    verdicts, gold, reference, exclude_checks
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        skill, case_id, attempt_id, condition, repeat, check_id, check_kind, grader and
        grader_version (compared), reference, direction (``to PASS`` or ``to FAIL``), old and new
        (boolean), gold (boolean, NA without), evidence_quote, rationale (of the compared version)
        and old_rationale. Empty when nothing flipped.

    See Also
    --------
    flip_counts : How many flipped and how many stayed.
    """
    given = given_versions(verdicts, [], exclude_checks, None, "reliability.flipped")
    first = reference_version(given, reference)
    labels = None if gold is None else reference_labels(gold)
    parts = [pair.among()[0] for pair in pairs(given, first, labels)]
    every = pd.concat(parts, ignore_index=True)
    found = every[every["new"].ne(every["old"])].reset_index(drop=True)
    found = found.assign(
        reference=first[0],
        direction=np.where(found["new"].gt(found["old"]), "to PASS", "to FAIL"),
        **{name: found[name].astype("boolean") for name in ("old", "new", "gold")},
    )
    keys = ["skill", "case_id", "attempt_id", "condition", "repeat", "check_id", "check_kind"]
    texts = ["evidence_quote", "rationale", "old_rationale"]
    return found[[*keys, *VERSION, "reference", "direction", "old", "new", "gold", *texts]]


def flip_counts(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame | None = None,
    *,
    reference: Reference,
    exclude_checks: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Count the pairs of old and new verdict, among gold passes and gold fails where gold is given.

    Parameters
    ----------
    verdicts, gold, reference, exclude_checks
        As in :func:`drift`.

    Returns
    -------
    pandas.DataFrame
        One row per grader, grader_version (compared), gold (``PASS``, ``FAIL``; NA for items
        without a label) and pair: reference and reference_version (whose verdict is ``old``), old,
        new, count. All four pairs are there, with 0 too.

    See Also
    --------
    skillcomp.plots.flips : Draws the matrix of one version and gold label.
    """
    given = given_versions(verdicts, [], exclude_checks, None, "reliability.flip_counts")
    first = reference_version(given, reference)
    labels = None if gold is None else reference_labels(gold)
    rows = []
    for pair in pairs(given, first, labels):
        decided = pair.among()[0]
        for label, name in ((1.0, "PASS"), (0.0, "FAIL"), (NAN, None)):
            items = decided[decided["gold"].isna() if name is None else decided["gold"].eq(label)]
            if items.empty:
                continue
            rows += [
                {
                    "grader": pair.grader,
                    "grader_version": pair.version,
                    "reference": first[0],
                    "reference_version": first[1],
                    "gold": name,
                    "old": old,
                    "new": new,
                    "count": int((items["old"].eq(old) & items["new"].eq(new)).sum()),
                }
                for old in (True, False)
                for new in (True, False)
            ]
    return pd.DataFrame(rows, columns=[*VERSION, *_REFERENCE, "gold", "old", "new", "count"])
