"""Results of a probe: whether answers of known quality pass the checks of a study."""

from __future__ import annotations

import pandas as pd

from skillcomp.io.store import RunStore, as_store

PROBE = "probe"  # table of a store, written by `skillcomp.live.probe`
ANSWERS = {
    "empty": "the empty answer",
    "skill_text": "the skill's text",
    "other_reference": "a reference answer about another skill",
    "reference": "the reference answer",
    "refusal": "a refusal",
}
NO_VERDICT = "no verdict: "  # a note begins so, if it says why an answer has no verdict
_COLUMNS = ["skill", "case_id", "check_id", "grader", *ANSWERS, "finding", "note"]
_TYPES = dict.fromkeys(_COLUMNS, "str") | dict.fromkeys(ANSWERS, "boolean")


def probes(store: RunStore) -> pd.DataFrame:
    """Return the result of the last probe of a store; without rows if there was none.

    Parameters
    ----------
    store : RunStore
        The study.

    Returns
    -------
    pandas.DataFrame
        One row per check and grader, as :func:`skillcomp.live.probe` returns it.
    """
    rows = as_store(store).table(PROBE).to_pandas()
    last = rows if rows.empty else rows[rows["probed_at"].eq(rows["probed_at"].max())]
    return probed_frame(last.to_dict("records"))


def probed_frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Convert the rows of a probe to a frame with fixed columns and dtypes."""
    return pd.DataFrame(rows, columns=_COLUMNS).astype(_TYPES)


def probed_checks(probed: pd.DataFrame) -> pd.DataFrame:
    """Return for each check whether the probe found a fault in it, and whether it was tested.

    A check was tested if there is a verdict on it for at least one answer of the probe.
    """
    rows = probed.assign(at_fault=probed["finding"].ne(""))
    rows["tested"] = probed[list(ANSWERS)].notna().any(axis=1)
    return rows.groupby(["case_id", "check_id"])[["at_fault", "tested"]].any()


def untested_reasons(probed: pd.DataFrame) -> str:
    """Return in one line how many checks were not tested and why; empty if all were tested."""
    checks = probed_checks(probed)
    notes = probed.set_index(checks.index.names)["note"].loc[checks.index[~checks["tested"]]]
    reasons = notes.str.removeprefix(NO_VERDICT).value_counts()
    return "; ".join(f"{n} not tested: {reason}" for reason, n in reasons.items())


def probe_rates(probed: pd.DataFrame) -> pd.DataFrame:
    """Return the share of checks that each answer of a probe passes, for `plots.dimensions`.

    Parameters
    ----------
    probed : pandas.DataFrame
        The result of :func:`probes` or :func:`skillcomp.live.probe`.

    Returns
    -------
    pandas.DataFrame
        One row per skill and ``answer``: ``estimate`` (the share; NaN without a verdict),
        ``n_checks`` (the number of checks with a verdict) and ``unit`` (``rate``).
    """
    long = probed.melt(["skill", "check_id"], list(ANSWERS), "answer", "passed")
    shares = long["passed"].astype("boolean").astype("float64")
    passed = shares.groupby([long["skill"], long["answer"]], sort=False)
    return passed.agg(estimate="mean", n_checks="count").reset_index().assign(unit="rate")
