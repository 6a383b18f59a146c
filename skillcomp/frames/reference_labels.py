"""Reference labels: combine several into one, join them to verdicts, test how they were drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, argument, plural, require_known, suggest
from skillcomp.frames.check import as_list, check
from skillcomp.frames.estimates import (
    BY_NAMES_IT,
    GRADER,
    NOT_AVERAGED,
    By,
    clusters_of,
    group_codes,
    grouped,
    listed,
    prepared,
    refuse_names,
    refuse_pooling,
    with_case_facts,
)
from skillcomp.stats.results import Floats, Indices

ITEM = ["attempt_id", "check_id"]
# values of `labeller` that show how the label of an item was chosen (see `one_label`)
ADJUDICATED, AGREED, DISPUTED = SETTLED = ("adjudicated", "agreed", "disputed")
# if there are more labellers than this, a note gives their number instead of their names
_NAMED = 4


def one_label(gold: pd.DataFrame, what: str) -> pd.DataFrame:
    """Combine the labels of each item in a checked gold frame to one reference label.

    The column ``labeller`` of the result shows how the label was found:

    - ``adjudicated``: the adjudicator's label. A row of the adjudicator without a label is
      ignored, because adjudicators usually leave undisputed items blank;
    - ``agreed``: there is no adjudicated label, but several labels, and all of them are equal;
    - ``disputed``: there is no adjudicated label, and labels of the item differ; ``passed`` is NA;
    - a name: the only labeller with a label. If nobody gave a label, ``passed`` is NA, and the name
      is that of one of the labellers.

    The ``labeller_kind`` of an agreed or disputed label is ``person`` if one of its labellers is a
    person. Its ``borderline`` is True if it is True for one of the labellers.
    ``inclusion_probability`` comes from the chosen row or, if it is missing there, from another row
    of the item. Labels of a single labeller are returned unchanged. Raise FrameError if labels
    differ and no item of the frame was adjudicated, because the analysis cannot choose between the
    labels. It would be wrong to keep only adjudicated labels: usually only disputed items are
    adjudicated, and error rates would then be those of difficult items.
    """
    # unique() includes the missing name, so labels without a name count as one more labeller
    names = list(gold["labeller"].unique())
    if len(names) <= 1:
        return gold
    labelled = gold["passed"].notna()
    if not set(SETTLED) & set(names):
        n_labels = gold[labelled].groupby(ITEM)["passed"].nunique()
        if n_labels.gt(1).any():
            who = ", ".join(sorted("no name" if pd.isna(name) else str(name) for name in names))
            raise FrameError(
                f"{what}: gold holds more than one labeller and none is '{ADJUDICATED}': {who}. "
                f"Add labels by '{ADJUDICATED}' where they differ "
                f"({int(n_labels.gt(1).sum())} items)."
            )
    last = np.where(gold["labeller"].eq(ADJUDICATED), 0, 1)
    rank = np.where(labelled, last, last + 2)
    ordered = gold.loc[np.argsort(rank, kind="stable")]
    first = ordered.drop_duplicates(ITEM).sort_index()
    items = ordered.assign(person=ordered["labeller_kind"].eq("person")).groupby(ITEM)
    about = items.agg(
        n=("passed", "count"),
        n_values=("passed", "nunique"),
        borderline=("borderline", "max"),
        chance=("inclusion_probability", "first"),
        by_person=("person", "any"),
    )
    about = about.loc[pd.MultiIndex.from_frame(first[ITEM])].set_index(first.index)
    several = about["n"].gt(1) & first["labeller"].ne(ADJUDICATED)
    disputed = several & about["n_values"].gt(1)
    return first.assign(
        labeller=first["labeller"].mask(several, AGREED).mask(disputed, DISPUTED),
        labeller_kind=first["labeller_kind"].mask(several & about["by_person"], "person"),
        passed=first["passed"].mask(disputed),
        borderline=first["borderline"].mask(several, about["borderline"]),
        inclusion_probability=first["inclusion_probability"].fillna(about["chance"]),
    ).reset_index(drop=True)


def reference_labels(gold: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the reference label of each item as a number; :func:`one_label` chooses the label.

    Columns: attempt_id, check_id, inclusion_probability, gold (1, 0, NaN without a label) and
    settled_by (adjudicated, agreed, disputed, a name or ``no name``; never NA).
    """
    labels = one_label(check(gold, "gold"), what)
    return labels[[*ITEM, "inclusion_probability"]].assign(
        gold=labels["passed"].astype("float64"),
        settled_by=labels["labeller"].astype("str").fillna("no name"),
    )


def join_gold(verdicts: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Join the columns of :func:`reference_labels` to verdicts, or to other rows with item keys.

    All rows stay, in their order; ``settled_by`` is NA if gold has no row for the item.
    """
    # drop columns of the verdicts that have the same name as a column of the labels
    own = verdicts.drop(columns=labels.columns.difference(ITEM), errors="ignore")
    return own.merge(labels, on=ITEM, how="left", validate="many_to_one")


# statuses of attempts in which the agent itself, not the service, failed to give an answer
RESULTS = ("timeout", "truncated", "refused")


def usable(rows: pd.DataFrame) -> pd.Series:
    """Check which answers or verdicts are usable: their status is ``ok`` or missing."""
    return rows["status"].isna() | rows["status"].eq("ok")


def known_verdict(verdicts: pd.DataFrame) -> pd.Series:
    """Return each verdict as 1 or 0; NaN (never 0) if the grader gave none."""
    return verdicts["passed"].where(usable(verdicts)).astype("float64")


def missing_reasons(status: pd.Series) -> str:
    """Count the reasons why there is no verdict, such as ``3 malformed, 1 no verdict``."""
    kinds = status.replace("ok", None).fillna("no verdict").value_counts()
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def clustered_verdicts(
    verdicts: pd.DataFrame,
    by: By,
    what: str,
    *,
    cases: pd.DataFrame | None,
    average: By = (),
    agents: bool = True,
    **pooled: Any,
) -> tuple[pd.DataFrame, str]:
    """Check verdicts for an analysis of graders; add ``verdict``, ``task`` and the clusters.

    ``verdict`` is 1, 0 or NaN. ``cluster`` is that of
    :func:`skillcomp.frames.clusters_of`. With ``agents``, several agents are
    refused unless ``by`` or ``average`` names them. The arguments ``pooled`` are passed to
    :func:`skillcomp.frames.prepared`. Also return a note on the columns in ``average``.
    """
    names, together = listed(by), listed(average)
    graders = (GRADER, "but graders are not averaged. Leave it out")
    refuse_names({"average": together}, [*NOT_AVERAGED, graders, (names, BY_NAMES_IT)], what)
    # leave out average=, because an error about several graders must not advise averaging them
    checked = prepared(verdicts, "verdicts", [*names, *together], what, **pooled)
    checked = with_case_facts(checked, cases, [])
    refuse_pooling(
        checked, names, what, graders=False, agents=agents, copies=False, average=together
    )
    n_values = len(group_codes(checked, together)[1])
    note = f"{n_values} {' and '.join(together)}s together: every check has the same weight"
    cluster = clusters_of(checked, cases, by=names) if agents else 0
    checked = checked.assign(verdict=known_verdict(checked), cluster=cluster)
    return checked, note if n_values > 1 else ""


def attempt_passed(n_passed: Any, n_seen: Any, n_checks: Any) -> Any:
    """Return 1 if all checks passed, else 0; NaN if a check has no verdict, even if one failed."""
    decided = (n_seen == n_checks) & (n_seen > 0)
    return np.where(decided, n_passed == n_seen, np.nan)


def share_of_checks(n_passed: Any, n_seen: Any, n_checks: Any) -> Any:
    """Return the share of passes among checks with a verdict, NaN if fewer than half have one."""
    enough = (2 * n_seen >= n_checks) & (n_seen > 0)
    return np.where(enough, n_passed / np.maximum(n_seen, 1), np.nan)


def strays_of(verdicts: pd.DataFrame, labels: pd.DataFrame) -> str:
    """Return a note on the number of labels for attempts without a verdict row; "" if none."""
    matched = labels["attempt_id"].isin(verdicts["attempt_id"])
    if matched.all():
        return ""
    return f"{int((~matched).sum())} of {len(labels)} gold labels match no attempt of the verdicts"


def labellers_said(labellers: pd.Series, passed: pd.Series) -> str:
    """Return a note on how reference labels were chosen.

    The note is empty if all labels were chosen in the same way and none is disputed.

    Examples: ``gold: 10 labels adjudicated, 805 agreed, 5 disputed and left out``, or ``gold: 100
    labels by anna, 95 by bob`` if people labelled different items.
    """
    disputed = labellers.eq(DISPUTED)
    if labellers.nunique(dropna=False) <= 1 and not disputed.any():
        return ""
    names = labellers[passed.notna() & ~disputed].astype("str").fillna("no name")
    count = {str(name): n for name, n in names.value_counts().items()}
    parts = [(count.pop(name, 0), name) for name in (ADJUDICATED, AGREED)]
    if len(count) > _NAMED:
        parts.append((sum(count.values()), f"each by one of {len(count)} labellers"))
    else:
        parts += [(count[name], f"by {name}") for name in sorted(count)]
    parts += [
        (int(disputed.sum()), "disputed and left out"),
        (int((passed.isna() & ~disputed).sum()), "without a label"),
    ]
    (n, how), *others = [part for part in parts if part[0]]
    return ", ".join([f"gold: {plural(n, 'label')} {how}", *(f"{n} {how}" for n, how in others)])


def without_checks(
    frame: pd.DataFrame, exclude: str | Sequence[str] | None, what: str
) -> pd.DataFrame:
    """Leave out checks with an id that contains one of the texts ``exclude``; letter case matters.

    Examples
    --------
    >>> frame = pd.DataFrame({"check_id": ["no_verbatim_copy", "states_rule"]})
    >>> without_checks(frame, exclude="verbatim", what="drift")["check_id"].tolist()
    ['states_rule']
    """
    texts = as_list(exclude)
    if texts and "check_id" not in frame:
        raise FrameError(f"{what}: exclude_checks needs the column 'check_id', which is not there.")
    left_out = pd.Series(False, index=frame.index)
    for text in texts:
        if not isinstance(text, str) or not text:
            expected = f"found {text!r}; allowed: part of a check id."
            raise FrameError(f"{what}: exclude_checks: {expected}")
        hit = frame["check_id"].str.contains(text, regex=False, na=False)
        if not hit.any():
            hint = suggest(text, map(str, frame["check_id"].dropna().unique()))
            remedy = hint or " Give a text that is part of an id, or exclude nothing."
            raise FrameError(f"{what}: exclude_checks '{text}' is in no check id.{remedy}")
        left_out |= hit
    return frame[~left_out]


Drawn = Literal["random", "chosen", "verdict", "separate"]
# The condition of the answers of a calibration set, with gold that is "separate": it is not
# compared with the others.
CALIBRATION = "calibration"
_NO_VERDICT = "no verdict"
NAME_DRAWN_BY = "label some there or name the grader by whose verdict gold was drawn: drawn_by="
# A test checks whether gold was drawn as `gold_drawn` and `drawn_by` state. This is its level for
# all groups together: how often a true statement is doubted by chance. It is low, because a table
# of results can have many rows.
DOUBTED = 0.001


def compared_rows(rows: pd.DataFrame, gold_drawn: str) -> pd.DataFrame:
    """Leave out the answers of a calibration set: they are not compared with the others."""
    return rows[rows["condition"].ne(CALIBRATION)] if gold_drawn == "separate" else rows


def check_draw(gold_drawn: str, drawn_by: str | None, graders: pd.Series, what: str) -> None:
    """Raise FrameError if ``gold_drawn`` is unknown or ``drawn_by`` is not a grader."""
    require_known("gold_drawn: found", gold_drawn, get_args(Drawn))
    if drawn_by is None:
        return
    if gold_drawn != "verdict":
        raise FrameError(
            f"{what}: {argument('drawn_by')} names the grader by whose verdict gold was drawn, but "
            f"{argument('gold_drawn', gold_drawn)}. That needs {argument('gold_drawn', 'verdict')}."
        )
    if not graders.eq(drawn_by).any():
        names = sorted(map(str, graders.dropna().unique()))
        require_known(f"{what}: drawn_by: there is no grader", drawn_by, names, label="there")


def draw_words(gold_drawn: str, drawn_by: str | None) -> str:
    """Describe how gold was drawn."""
    if gold_drawn == "verdict":
        return f"drawn by the verdict of {drawn_by}" if drawn_by else "drawn by the verdicts"
    words = {"chosen": "chosen, not drawn", "separate": "a calibration set of its own"}
    return words.get(gold_drawn, "taken as drawn at random")


def drawn_strata(
    rows: pd.DataFrame, drawn_by: str | None, *, of_attempts: bool = False
) -> pd.Series:
    """Return the stratum of each verdict within its condition, for gold that was drawn by verdict.

    A stratum is a pattern of verdicts, such as "g1 pass, g2 fail". It has the verdicts of all
    graders or, with ``drawn_by``, of one grader. If every attempt with gold has gold on all its
    checks, gold was drawn by attempt, and the pattern consists of verdicts on whole attempts.
    Otherwise it consists of verdicts on single checks or, with ``of_attempts``, of the number of
    checks that the attempt passed. The stratum is NA for an item that has neither a verdict nor
    gold.

    ``rows`` has the columns of verdicts, ``verdict`` (1, 0 or NaN) and ``gold``.
    """
    labelled = rows["gold"].notna()
    of_attempt = rows.assign(_has=labelled).groupby("attempt_id", sort=False)["_has"]
    any_gold, all_gold = of_attempt.transform("any"), of_attempt.transform("all")
    by_attempt = bool(all_gold[any_gold].all())
    unit = ["attempt_id"] if by_attempt or of_attempts else ITEM
    drawing = rows if drawn_by is None else rows[rows["grader"].eq(drawn_by)]
    if drawn_by is not None and drawing["verdict"].isna().all():
        raise FrameError(
            f"drawn_by: the grader '{drawn_by}' has no usable verdict, so gold cannot have been "
            "drawn by its verdicts. Name the grader that drew."
        )
    number, place = group_codes(drawing, GRADER)
    names = grader_names(drawing[list(GRADER)].take(place))
    of_unit = grouped(drawing.assign(_grader=number), [*unit, "_grader"])
    counts = of_unit["verdict"].agg(["sum", "count", "size"])
    n_passed, n_seen, n = (counts[name].to_numpy() for name in ("sum", "count", "size"))
    text = np.where(n_passed == n, "pass", "fail").astype(object)
    if of_attempts and not by_attempt:
        text = np.array([f"{p:.0f} of {k}" for p, k in zip(n_passed, n, strict=True)], object)
    words = pd.Series(np.where(n_seen < n, _NO_VERDICT, text), counts.index)
    wide = words.unstack("_grader").fillna(_NO_VERDICT)
    by_grader = [name + " " + wide[number] for number, name in enumerate(names)]
    texts = [", ".join(pattern) for pattern in zip(*by_grader, strict=True)]
    stratum = pd.Series(texts, wide.index, dtype="str")
    keys = rows[unit[0]] if len(unit) == 1 else pd.MultiIndex.from_frame(rows[unit])
    of_row = pd.Series(stratum.reindex(keys).to_numpy(), rows.index)
    nothing = ", ".join(f"{name} {_NO_VERDICT}" for name in names)
    of_row = of_row.fillna(nothing)
    has = any_gold if by_attempt or of_attempts else labelled
    return of_row.where(of_row.ne(nothing) | has)


def grader_names(graders: pd.DataFrame) -> list[str]:
    """Return the names of the graders, with the version or round if a grader has several."""
    names = graders["grader"].astype("str").fillna("the grader")
    for column in ("grader_version", "round"):
        several = graders.groupby("grader", dropna=False)[column].transform("nunique").gt(1)
        more = " " + column.removeprefix("grader_") + " " + graders[column].astype("str").fillna("")
        names = names.where(~several, names + more)
    return [str(name) for name in names]


def labelled_shares(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Compare, in each group of ``keys``, which shares of the passes and of the fails have gold.

    ``rows`` has verdict and gold (1, 0 or NaN) and cluster. Columns: ``keys``, passes and fails
    (shares with gold), and p_value. The hypothesis is that passes and fails have gold with the same
    probability. The test is Fisher's exact test if each cluster has one verdict, otherwise a score
    test with the correlations of verdicts and of labels within clusters.
    """
    rows = rows[rows["verdict"].notna()]
    code, first = group_codes(rows, keys)
    verdict, has = rows["verdict"].to_numpy(float), rows["gold"].notna().to_numpy(float)
    sizes = {"n": np.ones(len(rows)), "passes": verdict, "labelled": has, "both": has * verdict}
    counts = pd.DataFrame({name: np.bincount(code, values) for name, values in sizes.items()})
    fails = (counts["labelled"] - counts["both"]) / (counts["n"] - counts["passes"])
    cluster = pd.factorize(rows["cluster"])[0]
    p_values = [
        _p_of_equal_shares(verdict[of_group], has[of_group], cluster[of_group])
        for of_group in (code == number for number in range(len(counts)))
    ]
    about = rows[list(keys)].take(first).reset_index(drop=True)
    return about.assign(passes=counts["both"] / counts["passes"], fails=fails, p_value=p_values)


def _p_of_equal_shares(verdict: Floats, has: Floats, cluster: Indices) -> float:
    """Return the p-value of the hypothesis that labels do not depend on the verdict."""
    # import scipy here, because importing it takes half of the time of `skillcomp check`
    from scipy.stats import fisher_exact, norm

    cluster = pd.factorize(cluster)[0]
    size = np.bincount(cluster)
    if size.max(initial=0) <= 1:
        table = np.bincount((2 * verdict + has).astype(np.intp), minlength=4).reshape(2, 2)
        return float(fisher_exact(table).pvalue)
    centred = [values - values.mean() for values in (verdict, has)]
    sums = [np.bincount(cluster, values) for values in centred]
    squares = [float(values @ values) for values in centred]
    n_pairs = float(size @ (size - 1))
    within = [(float(total @ total) - square) for total, square in zip(sums, squares, strict=True)]
    variance = squares[0] * squares[1] / len(verdict) + within[0] * within[1] / n_pairs
    if not variance > 1e-12:
        return 1.0
    return float(2.0 * norm.sf(abs(float(centred[0] @ centred[1])) / math.sqrt(variance)))


def one_draw(shares: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Give all graders the same shares, because there is one draw of gold for all of them.

    ``shares`` has the rows of :func:`labelled_shares` for ``keys``. All graders get the shares and
    the p-value of the grader with the smallest p-value. This p-value is multiplied by the number of
    graders. The column ``by`` names this grader, or is empty if there is only one grader.
    """
    graders = [name for name in GRADER if name in keys]
    others = [name for name in keys if name not in graders]
    if not graders or shares.empty:
        return shares.assign(by="")
    of_all = grouped(shares, others)["p_value"]
    n_graders, least = of_all.transform("size"), of_all.transform("idxmin")
    facts = shares.loc[least, ["passes", "fails", "p_value"]].set_axis(shares.index)
    facts["p_value"] = (facts["p_value"] * n_graders).clip(upper=1.0)
    names = shares.loc[least, graders[0]].astype("str").set_axis(shares.index)
    return shares.assign(**facts, by=names.where(n_graders > 1, ""))


def refuted_draw(rows: pd.DataFrame, keys: Sequence[str], drawn_by: str | None) -> str:
    """Return a note if the labels were evidently not drawn by the verdicts of ``drawn_by``.

    ``rows`` has verdict, gold, cluster and stratum. If gold was drawn by these verdicts, the labels
    of each stratum are a random draw and do not depend on the verdicts of any grader.
    """
    if drawn_by is None or rows.empty:
        return ""
    shares = labelled_shares(rows[rows["stratum"].notna()], [*keys, "stratum"])
    refuted = shares[shares["p_value"] <= DOUBTED / max(len(shares), 1)]
    if refuted.empty:
        return ""
    row = refuted.iloc[0]
    of = f" of '{row['grader']}'" if "grader" in refuted else ""
    return (
        f"{argument('drawn_by', drawn_by)} does not hold: among the answers with "
        f"'{row['stratum']}', gold is on {100 * row['passes']:.0f} % of the passes and "
        f"{100 * row['fails']:.0f} % of the fails{of}. Name the grader that drew, or none for the "
        "verdicts of all"
    )


def unequal_shares(shares: Mapping[str, Any], gold_drawn: str = "random") -> str:
    """Return a note on the conditions in which the labelled shares of passes and fails differ.

    ``shares`` maps each condition to its row of :func:`labelled_shares`. If gold was drawn at
    random, about one study in a thousand gets a note by chance. The note names other draws unless
    ``gold_drawn`` is one of them.
    """
    unequal = [
        f"{100 * row['passes']:.0f} % of the passes and {100 * row['fails']:.0f} % of the fails"
        f"{' of ' + row['by'] if row['by'] else ''} ('{name}')"
        for name, row in shares.items()
        if row["p_value"] <= DOUBTED / len(shares)
    ]
    if not unequal:
        return ""
    text = f"gold on {', '.join(unequal)}: such shares are no random draw"
    if gold_drawn != "random":
        return text
    separate = f"a calibration set of its own, {argument('gold_drawn', 'separate')}"
    by_verdict = argument("gold_drawn", "verdict")
    return f"{text}. If it is {separate}; if it was drawn by the verdicts, state {by_verdict}"
