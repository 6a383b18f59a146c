"""What analyses share: checks against pooling, groups, clusters of cases, rows of estimates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import (
    FrameError,
    argument,
    instead,
    literal,
    plural,
    require_whole,
    suggest,
)
from skillcomp.frames.check import as_list, check, require_frame, show
from skillcomp.frames.contracts import (
    CASE,
    CAUTION,
    CONTRACTS,
    DIFFERENT_MODELS,
    LINKED_BY,
    key_by_word,
)
from skillcomp.io.files import whole_content
from skillcomp.records import CONDITIONS
from skillcomp.stats.results import Fields, Floats, Interval, check_level, holm, join_notes

Ints = NDArray[np.int64]

# Columns that analyses add to their result or to a table of cases; `by` must not contain a column
# with one of these names.
RESERVED = frozenset(
    [
        *CONTRACTS["estimates"].columns,
        *("cluster", "n_passed", "share", "rate", "reference_rate"),
        *("size", "absent", "alone", "n_shares", "case", "gold", "n_gold", "settled_by"),
        *("_level", "_mixed", "_fewest", "_n_checks", "_n", "_size", "_low", "_high", "_absent"),
        *("is_scored", "retried", "first", "_retried", "_first"),
        *("_row", "_member", "_n_members", "_answered", "_weight", "_order"),
    ]
)
GRADER = ("grader", "grader_version", "round")
_HIDDEN, _NO_REPEATS = (
    "pooling them would hide their differences",
    "they are no repeats of each other",
)
# reasons why `average` cannot name a column
BY_NAMES_IT = "but by= names it, too. Leave it out"
NOT_AVERAGED = [(CASE, "but it names the cases. Leave it out")]
# Columns whose values are not pooled: the argument of `refuse_pooling`, what the frame holds, and
# why it is refused.
_POOLED = {
    **{name: ("graders", f"more than one {name}: {{}}", _HIDDEN) for name in GRADER},
    "perturbation": (
        "copies",
        "altered copies beside the answers (perturbation: {})",
        "a copy is no repeat of its answer",
    ),
    "agent": ("agents", "answers of more than one agent: {}", _NO_REPEATS),
    "run": ("agents", "more than one value of 'run': {}", _NO_REPEATS),
    "study": ("agents", "several studies: {}", "studies are not pooled"),
}
# Shares of checks are not compared if the grader stopped early in more than this share of attempts.
SOME_STOPPED = 0.05
# start of the note of an outcome if the conditions of its case have different checks
DIFFERENT_CHECKS = "conditions were asked different checks"
# Repeats are taken for ids of attempts if they have at least ten different values, and fewer than a
# tenth of these values occur in two or more cases. Only skills with at least three cases under a
# condition are examined.
_SEVERAL_CASES = 3
_FEWEST_IDS = 10
_SHARED_REPEATS = 0.1
_ROUNDING = 1e-12  # An estimate closer to 0 than this is a rounding error.
PLACEBO = "placebo"  # Rows of this condition make no claims: their p-values are not adjusted.
# Columns, if present, with the families of p-values that are adjusted together.
_FAMILY = ("measure", "estimator", "stratum", "scope")
_HALF = (
    "first_wins_if_inconsistent",
    "first_wins_if_identical",
    "win_rate",
)  # Their p-values test a half.
_MOST_NOTES = 5  # A row of estimates repeats at most this many notes of outcomes.
By = str | Sequence[str]  # Columns that group rows; one name counts as a list of one.
# A rate is a proportion. Points are a difference of two rates (0.1 is ten points), and percentage
# points are such a difference multiplied by 100.
_MEASURES_OF_UNIT = {
    "points": """
        delta delta_passed delta_share_passed difference_passed difference_share_passed
        delta_pass_at_k delta_pass_hat_k
        delta_exact delta_recall delta_sensitivity delta_specificity near_delta far_delta gap
        hedged_gap delta_slope reference_slope
        agreement_difference sensitivity_difference specificity_difference
        agreement_change pass_rate_change sensitivity_change specificity_change
        position_consistency_change
        position_reversals_change position_tie_differences_change
        pooled_delta mean_delta next_skill_delta""",
    "percentage points": """
        effect_points position_points perturbation_points
        pair_effect_points pair_preference_points""",
    "rate": """
        rate_passed rate_share_passed baseline_rate failure_share fired_share power
        flip_rate case_flip_rate attempt_flip_rate hedged_rate_right hedged_rate_wrong
        both_rate first_only_rate second_only_rate neither_rate
        raw_agreement ceiling_raw_agreement sensitivity specificity precision recall f1 exact auc
        false_passes false_fails
        pass_at_k pass_hat_k both_right one_right none_right only_original_right
        position_consistency position_reversals position_tie_differences
        first_wins_if_inconsistent first_wins_if_identical ties_if_identical win_rate
        win_rate_corrected""",
    "coefficient": """
        gwet_ac1 cohen_kappa krippendorff_alpha ceiling_gwet_ac1 ceiling_cohen_kappa
        ceiling_krippendorff_alpha youden delta_youden r_squared adjusted_r_squared
        cross_validated_r_squared detectable_r_squared ceiling_r_squared pearson
        spearman concordance""",
    "variance": "tau2 tau2_gap omega2 omega2_gap sigma2_baseline sigma2_skill",
    "standard deviation": "between_skill_sd",
    "logits": "severity_shift",
    "ratio": """
        ratio_cost_usd ratio_seconds ratio_input_tokens ratio_output_tokens ratio_n_words
        ratio_n_commands
        total_ratio_cost_usd total_ratio_seconds total_ratio_input_tokens total_ratio_output_tokens
        total_ratio_n_words total_ratio_n_commands""",
    "dollars": "delta_cost_usd cost_usd_per_pass cost_usd_per_added_pass",
    "seconds": "delta_seconds",
    "minutes": "minutes_per_pass minutes_per_added_pass",
    "tokens": "delta_input_tokens delta_output_tokens tokens_per_pass tokens_per_added_pass",
    "words": "delta_n_words",
    "commands": "delta_n_commands",
    "score": """
        delta_score rate_score difference_score near_delta_score far_delta_score gap_score
        delta_slope_score reference_slope_score
        score_difference score_change absolute_error absolute_error_difference
        absolute_error_change effect_score""",
    "statistic": "cochran_q",
    "rank": "agreement_rank",
    "count": """
        attempts cases_per_skill cases_in_all gold_labels gold_attempts gold_cases chosen_n
        true_pass_count false_pass_count false_fail_count true_fail_count
        cases_at_estimate cases_at_20th_percentile fewest_cases repeats_at_estimate
        estimated_n""",
}
UNITS: Mapping[str, str] = key_by_word(_MEASURES_OF_UNIT)


def listed(by: By | None, *without: str) -> list[str]:
    """Return ``by`` as a list of distinct names; a single name is a list of one."""
    names = as_list(by)
    if not all(isinstance(name, str) for name in names):
        raise FrameError(f"by=: found {by!r}; allowed: names of columns, such as ['skill'].")
    return [name for name in dict.fromkeys(names) if name not in without]


def require_columns(frame: pd.DataFrame, names: Sequence[str], what: str) -> None:
    """Raise FrameError if one of ``names`` is not a column of ``frame``."""
    require_frame(frame, what)
    for name in names:
        if name not in frame:
            message = f"{what}: there is no column {literal(name)}{instead(name, frame.columns)}"
            if "attempt_id" in frame:
                facts = argument("facts", name)
                message += f" {facts} of from_frame keeps a column of your table about the cases."
            raise FrameError(message)


def is_among(rows: pd.DataFrame, others: pd.DataFrame, keys: Iterable[str]) -> NDArray[np.bool_]:
    """Mark the rows whose keys are in another frame; missing values match each other."""
    names = list(keys)
    return pd.MultiIndex.from_frame(rows[names]).isin(pd.MultiIndex.from_frame(others[names]))


def require_rows(
    verdicts: pd.DataFrame,
    frame: pd.DataFrame,
    keys: Sequence[str],
    what: str,
    name: str,
    rows: str = "verdicts",
) -> None:
    """Raise FrameError if an attempt or case of the verdicts has no row in ``frame``.

    In the message, ``name`` is the kind of the frame, and ``rows`` are the verdicts. The last of
    the ``keys`` names the attempt or the case.
    """
    key = keys[-1]
    missing = verdicts.loc[~is_among(verdicts, frame, keys), key]
    if len(missing):
        noun, first = key.removesuffix("_id"), missing.iloc[0]
        raise FrameError(
            f"{what}: {noun} '{first}' of the {rows} is not in the {name} frame. Take both from "
            "one study, with the same perturbation=." + suggest(first, frame[key])
        )


def refuse_pooling(
    frame: pd.DataFrame,
    by: Sequence[str],
    what: str,
    *,
    graders: bool = True,
    agents: bool = False,
    copies: bool = True,
    average: Sequence[str] | None = None,
    compared: Sequence[str] = (),
) -> None:
    """Raise FrameError if an analysis would pool rows that are not repeats of each other.

    Each of three arguments selects what is refused:

    - ``graders``: several graders, grader versions or rounds, and columns in ``by`` that have the
      name of a column of the result.
    - ``agents``: several agents, several values of a column ``run``, several studies (of
      :func:`skillcomp.frames.concat`) in a group of ``by`` and, unless ``skill`` is in
      ``by``, two skills with identical rows.
    - ``copies``: altered copies of answers together with original answers. The ``perturbation`` of
      an original answer is missing, empty or ``none``.

    Columns that are in ``by``, ``average`` or ``compared`` may have several values.
    """
    refused = {"graders": graders, "copies": copies, "agents": agents}
    exempt = {*by, *(average or ()), *compared}
    if graders:
        added = "which is a column that the analysis adds. Rename yours"
        refuse_names({"by": by, "average": average or ()}, [(RESERVED, added)], what)
    for name, (kind, contents, why) in _POOLED.items():
        if not refused[kind] or name in exempt or name not in frame:
            continue
        values, groups_of = frame[name], list(by) if name == "study" else []
        if name == "perturbation":
            values = values.replace("", "none").fillna("none")
        if kind == "graders":
            before = GRADER[: GRADER.index(name)]
            groups_of = [n for n in before if n in exempt and n in frame]
        rows = values.groupby([frame[n] for n in groups_of], dropna=False) if groups_of else values
        if np.any(rows.nunique(dropna=name == "study") > 1):
            found = ", ".join(sorted(map(str, values.unique())))
            advice = f"Add '{name}' to by=, or select one first: {why}."
            whole = f" In full: by={[*by, name]}." if len(by) else ""
            if average is not None and name not in ("study", "perturbation"):
                whole += f" Or average them within each case: average={[*average, name]}."
            raise FrameError(f"{what}: the frame holds {contents.format(found)}. {advice}{whole}")
    if agents and "skill" not in exempt:
        _refuse_copied_skills(frame, what)


def _refuse_copied_skills(frame: pd.DataFrame, what: str) -> None:
    """Raise FrameError if two skills have equal rows, unless their tasks are known."""
    unknown = frame[frame["task"].isna()] if "task" in frame else frame
    if "passed" in unknown:  # skills without a verdict have equal rows but are not copies
        unknown = unknown[unknown.groupby("skill", observed=True)["passed"].transform("count") > 0]
    if not unknown[CASE].drop_duplicates()["case_id"].duplicated().any():
        return
    if problem := copied_skills(unknown, "skill", ["attempt_id", "source_attempt_id"]):
        raise FrameError(f"{what}: {problem}")


def copied_skills(frame: pd.DataFrame, skill: Any, ids: Sequence[Any] = ()) -> str:
    """Describe the problem that two skills have equal rows; return "" if there are no such skills.

    The column ``skill`` and the columns ``ids`` are not compared. The order of the rows does not
    matter.
    """
    frame = frame.apply(lambda cells: cells.map(whole_content) if cells.dtype == object else cells)
    labels = frame[skill].astype("str").to_numpy()
    if not pd.Series(labels).value_counts().duplicated().any():
        return ""
    content = frame.drop(columns=[skill, *ids], errors="ignore").astype("str").fillna("")
    rows = pd.Series(pd.util.hash_pandas_object(content, index=False).to_numpy())
    sums = rows.groupby(labels, sort=False).agg(["sum", "size"])
    first = sums[sums.duplicated(keep=False)].head(1)
    if first.empty:
        return ""
    same = sums.index[(sums == first.iloc[0]).all(axis=1)]
    return (
        f"The skills {same[0]!r} and {same[1]!r} have identical rows. If both were really tested: "
        f"{argument('shared_cases', True)} if they share the tasks, "
        f"{argument('shared_cases', False)} if the tasks only have the same names."
    )


def refuse_names(
    arguments: Mapping[str, Sequence[str]],
    excluded: Sequence[tuple[Collection[str], str]],
    what: str,
) -> None:
    """Raise FrameError if an argument names an excluded column; each pair has columns and why."""
    for argument_name, names in arguments.items():
        for name in names:
            for columns, why in excluded:
                if name in columns:
                    raise FrameError(f"{what}: {argument_name}= names '{name}', {why}.")


def prepared(
    frame: pd.DataFrame,
    kind: str,
    by: By,
    what: str,
    *,
    compared: Sequence[str] = (),
    average: Sequence[str] | None = None,
    **pooled: bool,
) -> pd.DataFrame:
    """Check a frame for an analysis: its contract, ``by``, and that nothing is pooled.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame that was passed to the analysis.
    kind : str
        The contract of the frame, see :func:`check`.
    by : str or sequence of str
        Columns that group the rows.
    what : str
        Name of the analysis, the first words of every error message.
    compared : sequence of str, optional
        Columns that hold what is compared, such as the condition; ``by`` cannot contain them, and
        their values are not pooled.
    average : sequence of str, optional
        Columns that the analysis averages within each case. Default: it averages none.
    **pooled : bool
        Kinds of pooling to refuse. ``graders`` (default True): several graders, grader versions or
        rounds, and columns in ``by`` that have the name of a column of the result. ``agents``
        (default False): several agents or values of ``run``, several studies in a group, and two
        skills with identical rows. ``copies`` (default True): altered copies of answers together
        with original answers. Columns in ``by`` and ``average`` are exempt, because their values
        are not pooled.

    Returns
    -------
    pandas.DataFrame
        The frame, converted to its contract.

    Raises
    ------
    FrameError
        If the frame breaks its contract, ``by`` contains an unusable column, or the analysis would
        pool groups that are not repeats of each other.
    """
    names, averaged = listed(by), listed(average)
    together = {"average": averaged}
    refuse_names({"by": names, **together}, [(compared, "which is compared. Leave it out")], what)
    checked = check(frame, kind)
    require_columns(checked, [*names, *averaged], what)
    refuse_names(together, [*NOT_AVERAGED, (names, BY_NAMES_IT)], what)
    averaged_or_none = None if average is None else averaged
    refuse_pooling(checked, names, what, average=averaged_or_none, compared=compared, **pooled)
    return checked


def require_reference(conditions: Iterable[str], reference: str | None) -> None:
    """Raise FrameError if there are conditions and the reference is not one of them."""
    present = ordered(conditions)
    if present and reference is not None and reference not in present:
        hint = instead(reference, present)
        explained = reference == "baseline" or len(present) < 2
        hint += f" {reference_choices(present)}." if explained else ""
        raise FrameError(f"reference: there is no condition '{reference}'{hint}")


def reference_choices(conditions: Sequence[str]) -> str:
    """Describe what a positive difference means for each choice of the reference."""
    if len(conditions) < 2:
        return "A comparison needs a second condition"
    choices = []
    for name in conditions[:3]:
        others = " or ".join(f"'{other}'" for other in conditions if other != name)
        choices.append(
            f"with {argument('reference', name)} a positive difference means that {others} is "
            f"above '{name}'"
        )
    return f"Choose one: {'; '.join(choices)}"


def ordered(
    names: Iterable[Any], reference: str | None = None, order: Sequence[str] = CONDITIONS
) -> list[Any]:
    """Return the distinct names except the reference: first those in ``order``, then the others."""
    distinct = names.unique() if isinstance(names, pd.Series) else dict.fromkeys(names)
    others = [name for name in distinct if reference is None or name != reference]
    first = [name for name in order if name in others]
    return first + [name for name in others if name not in order]


def check_settings(what: str, ci_level: float, n_resamples: int = 1, seed: int = 0) -> None:
    """Raise FrameError if ``ci_level``, ``n_resamples`` or ``seed`` is invalid."""
    try:
        check_level(ci_level)
    except (TypeError, ValueError):
        hint = " Did you mean 0.95?" if ci_level == 95 else ""
        raise FrameError(
            f"{what}: ci_level: found {ci_level!r}; allowed: a number strictly between 0 and 1."
            + hint
        ) from None
    require_whole(f"{what}: n_resamples", n_resamples, FrameError)
    require_whole(f"{what}: seed", seed, FrameError, least=0)


def groups(frame: pd.DataFrame, by: By) -> Iterator[tuple[Fields, pd.DataFrame]]:
    """Split a frame into groups, in order of first appearance.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame with the columns of ``by``.
    by : str or sequence of str
        Columns that group the rows; with none, the whole frame is one group.

    Yields
    ------
    dict
        The value of each ``by`` column; a missing value is a value of its own.
    pandas.DataFrame
        The rows of the group.
    """
    names = listed(by)
    if not names:
        yield {}, frame
        return
    for key, rows in grouped(frame, names):
        yield dict(zip(names, key, strict=True)), rows


def grouped(frame: pd.DataFrame, names: Iterable[str]) -> Any:
    """Group rows by columns, in order of appearance; a missing value is a value of its own."""
    return frame.groupby(list(dict.fromkeys(names)), sort=False, dropna=False, observed=True)


def sorted_by(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Sort the rows by the values of columns; missing values come first, numbers before text."""

    def codes(values: pd.Series) -> pd.Series:
        return pd.Series(pd.factorize(values.astype(object), sort=True)[0], values.index)

    return frame.sort_values(list(by), kind="stable", key=codes) if by else frame


def group_codes(frame: pd.DataFrame, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Assign a code to each distinct combination of values in the columns ``names``.

    Returns the code of each row, and the position of the first row with each code. Codes start at
    0, in order of first appearance; a missing value counts as a value of its own.
    """
    code = np.zeros(len(frame), np.int64)
    if names:
        code = grouped(frame, names).ngroup().to_numpy()
    return code, np.unique(code, return_index=True)[1]


def rows_of_group(frame: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with the given value in each column; missing values match each other."""
    for name, value in values.items():
        same = frame[name].isna() if pd.isna(value) else frame[name].eq(value)
        frame = frame[same]
    return frame


def clusters_of(
    frame: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    by: By | None = None,
) -> pd.Series:
    """Assign each row to a cluster: its case and all cases linked to it.

    Two cases are linked if one names the other in ``contrast_of`` (a contrast pair within a skill),
    if they have the same ``task`` under several skills, or if they have the same value of a column
    that the table declared (``cluster=`` of :func:`skillcomp.from_frame`; a column ``linked_by``
    has its name), such as the repository of the case. A missing value links a case to no other
    case. Clusters are connected components of these links, so it does not matter which case of a
    pair names the other. Cases that name the same third case are in one cluster, even if the third
    case is not in the frame. All rows of a case are in its cluster, whatever their agent, grader,
    round or repeat. Clusters are numbered in the order of the sorted skills and cases, so
    resampling does not depend on the order of the rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cases, attempts, verdicts or outcomes; columns ``skill``, ``case_id`` and, if there are
        any, ``contrast_of`` and ``task``.
    cases : pandas.DataFrame, optional
        A cases frame; its links between cases are used, too.
    by : str or sequence of str, optional
        The columns that group the rows of an analysis. Cases of equal names under several skills
        of a group are then refused if no ``task`` says whether they are the same, because their
        clusters are unknown.

    Returns
    -------
    pandas.Series
        Cluster numbers from 0, with the index of ``frame``.

    Raises
    ------
    FrameError
        See ``by``.

    Examples
    --------
    >>> frame = pd.DataFrame({"skill": "s", "case_id": ["a", "b", "c"],
    ...                       "contrast_of": ["b", "a", None]})
    >>> clusters_of(frame).tolist()
    [0, 0, 1]
    """
    # imported here, because scipy takes half of the time of `skillcomp check`
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if by is not None:
        _refuse_equal_names(frame, listed(by))
    frames = [frame] if cases is None else [frame, check(cases, "cases")]
    declared = [name for each in frames for name in linking_columns(each)]
    names = listed(["task", *declared])
    columns = listed([*CASE, "contrast_of", *names])  # absent columns become missing values
    rows = pd.concat([each.reindex(columns=columns) for each in frames], ignore_index=True)
    rows = rows.astype("str")
    twins = rows[["skill", "contrast_of"]].set_axis(CASE, axis=1).dropna(subset="case_id")
    node = pd.concat([rows[CASE], twins]).groupby(CASE, dropna=False).ngroup().to_numpy()
    of_row, n_nodes = node[: len(rows)], int(node.max(initial=-1)) + 1
    edges = [(of_row[twins.index], node[len(rows) :])]
    # in the graph of links, each distinct value of the column (such as a task) is a node of its own
    for name in names:
        value = pd.factorize(rows[name])[0]
        linked = value >= 0
        edges.append((of_row[linked], n_nodes + value[linked]))
        n_nodes += int(value.max(initial=-1)) + 1
    ends = np.hstack(edges)
    graph = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n_nodes, n_nodes))
    label = connected_components(graph, directed=False)[1] if n_nodes else node
    # number components by their first case; leave out components without a row in `frame`
    first = np.unique(label, return_index=True)[1][label] if n_nodes else node
    numbers = np.unique(first[node[: len(frame)]], return_inverse=True)[1]
    return pd.Series(numbers.astype(np.int64), index=frame.index, name="cluster")


def linking_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that a table has declared to link cases, see `LINKED_BY`."""
    if LINKED_BY not in frame:
        return []
    return [name for text in frame[LINKED_BY].dropna().unique() for name in text.split("\n")]


def _refuse_equal_names(frame: pd.DataFrame, by: Sequence[str]) -> None:
    names = listed([*by, "case_id"])
    known = frame["task"].notna() if "task" in frame else False
    places = frame[listed([*names, "skill"])].assign(known=known)
    places = places.drop_duplicates([*names, "skill"])
    twins = places[places.duplicated(names, keep=False)]
    if len(twins):
        twins = twins[~grouped(twins, names)["known"].transform("all")]
    if len(twins):
        first, second = grouped(twins, names)["skill"].unique().iloc[0][:2]
        raise FrameError(
            f"skills {first!r} and {second!r} both have a case {twins['case_id'].iloc[0]!r}, and "
            "neither prompts nor tasks say whether it is the same task. State it when the table is "
            f"read: {argument('shared_cases', True)} (the same tasks) or "
            f"{argument('shared_cases', False)} (different ones); or in a column 'task' of the "
            "cases, which analyses of verdicts read from cases=. Or add 'skill' to by=."
        )


def with_case_facts(
    frame: pd.DataFrame, cases: pd.DataFrame | None, columns: Sequence[str | None]
) -> pd.DataFrame:
    """Add columns of ``cases`` that ``frame`` lacks: links, cautions and ``columns``."""
    if cases is None:
        return frame
    checked = check(cases, "cases")
    names = dict.fromkeys(["task", CAUTION, LINKED_BY, *linking_columns(checked), *columns])
    facts = [n for n in names if n in checked and n not in frame]
    return frame.merge(checked[[*CASE, *facts]], on=CASE, how="left", validate="m:1")


def columns_of(frame: Any, *names: str) -> list[str]:
    """Return those of ``names`` that a frame or row has."""
    return [name for name in names if name in frame]


def n_distinct(values: Any) -> int:
    """Return the number of distinct values; for short arrays, this is faster than pandas."""
    values = np.asarray(values)
    return len(pd.unique(values) if values.dtype == object else np.unique(values))


def row(measure: str, interval: Interval, *, unit: Any = None, **columns: Any) -> Fields:
    """Make one row of an estimates frame from an interval.

    Parameters
    ----------
    measure : str
        Name of the quantity that is estimated.
    interval : skillcomp.stats.Interval
        The estimate with its limits, counts, method and note.
    unit : str, optional
        Unit of the measure, such as ``rate``, ``points``, ``dollars`` or ``count``. Required for a
        measure that is not in ``UNITS``, the table of skillcomp's own measures.
    **columns
        Further columns, such as the values of ``by``; they come first.

    Returns
    -------
    dict
        The columns of the contract ``"estimates"`` but ``shown``; ``p_adjusted`` is NaN.

    Raises
    ------
    FrameError
        If ``unit`` is missing and skillcomp has no measure of this name.
    """
    unit = unit or UNITS.get(measure)
    if unit is None:
        raise FrameError(
            f"row: the measure '{measure}' has no unit. Name it, such as unit='rate' for a "
            "proportion or unit='points' for a difference of two proportions."
        )
    fields = asdict(interval)
    for end in ("low", "high"):
        fields[f"ci_{end}"] = fields.pop(end)
    # subtracting equal rates can leave a rounding error of about 1e-17
    if abs(interval.estimate) < _ROUNDING:
        fields["estimate"] = 0.0
    return {**columns, "measure": measure, "unit": unit, **fields, "p_adjusted": np.nan}


def interval_of(estimate: pd.Series) -> Interval:
    """Return the estimate, limits, level, note and n of a row as an `Interval`."""
    columns = ("estimate", "ci_low", "ci_high", "ci_level", "n")
    value, low, high, ci_level, n = (float(estimate[name]) for name in columns)
    return Interval(value, low, high, ci_level, note=str(estimate["note"] or ""), n=n)


def estimates(
    rows: Sequence[Mapping[str, Any]],
    *,
    by: By,
    extra: Sequence[str] = (),
    outcomes: pd.DataFrame | None = None,
    reference: str | None = None,
) -> pd.DataFrame:
    """Make an estimates frame from rows of :func:`row`.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :func:`row`.
    by : str or sequence of str
        Names of the first columns.
    extra : sequence of str, optional
        Names of the last columns; further keys of the rows are left out.
    outcomes : pandas.DataFrame, optional
        The outcomes from which the rows were computed. Their notes are appended to the notes of
        the rows. An outcome belongs to a row if both have the same values in the columns of ``by``
        that are columns of the outcomes. If ``by`` has ``condition``, an outcome of ``reference``
        belongs to the row, too.
    reference : str, optional
        The condition that others are compared with.

    Returns
    -------
    pandas.DataFrame
        One row per item of ``rows``: ``by``, the columns of the contract ``"estimates"``, then
        ``extra``. A missing ``note`` is an empty text. ``p_adjusted`` and ``shown`` are those of
        ``with_adjusted_p``.
    """
    names = [*listed(by), *CONTRACTS["estimates"].columns, *extra]
    frame = pd.DataFrame([dict(fields) for fields in rows], columns=pd.Index(names))
    unknown = [name for name in listed(by) if len(frame) and frame[name].isna().all()]
    frame = frame.astype(dict.fromkeys(unknown, "str"))
    checked = check(frame, "estimates")
    checked["note"] = checked["note"].fillna("")
    checked = with_adjusted_p(checked)
    if outcomes is not None:
        checked = with_notes_of(checked, outcomes, listed(by), reference)
    return checked[names]


def null_values(frame: pd.DataFrame) -> Floats:
    """Return the value of no change of each row: 0; 1 for a ratio; a half for a share of wins."""
    return np.select([frame["unit"].eq("ratio"), frame["measure"].isin(_HALF)], [1.0, 0.5], 0.0)


def with_adjusted_p(frame: pd.DataFrame, together: Sequence[str] = _FAMILY) -> pd.DataFrame:
    """Add adjusted p-values to an estimates frame, and whether a difference is shown.

    ``p_adjusted`` is adjusted by Holm over all rows of the frame that have the same measure, a
    p-value and a condition other than a placebo; it is NaN in all other rows. Rows of different
    estimators, strata or scopes of a quantity are not adjusted for each other. ``together`` names
    other columns, with equal values in rows that are adjusted together. ``method`` names the
    number of rows. ``shown`` is True if a row shows a difference: its adjusted p-value is below 1 -
    ``ci_level``, and its interval excludes its value of `null_values`. It is NA without an adjusted
    p-value or limits.
    """
    is_tested = frame["p_value"].notna()
    if "condition" in frame:
        is_tested &= frame["condition"].ne(PLACEBO).fillna(True).astype(bool)
    adjusted = pd.Series(np.nan, frame.index)
    family = pd.Series("", frame.index)
    for _, rows in groups(frame[is_tested], columns_of(frame, *together)):
        adjusted[rows.index] = holm(rows["p_value"])
        if len(rows) > 1:
            family[rows.index] = f"; p adjusted by Holm over {len(rows)} rows"
    low, high, null = frame["ci_low"], frame["ci_high"], null_values(frame)
    shown = adjusted.lt(1.0 - frame["ci_level"]) & ((low > null) | (high < null))
    known = adjusted.notna() & low.notna() & high.notna()
    # a frame may be adjusted again, such as with further rows
    method = (
        frame["method"]
        .astype("str")
        .str.replace(r"; p adjusted by Holm over [0-9]+ rows", "", regex=True)
    )
    return frame.assign(
        p_adjusted=adjusted,
        shown=shown.astype("boolean").where(known),
        method=(method + family).where(frame["method"].notna()),
    )


_MODELLED = ("grader", "agent")


def with_cautions(table: pd.DataFrame, *frames: pd.DataFrame | None) -> pd.DataFrame:
    """Append to the notes of outcomes their caution, and which models depend on the condition.

    The models of graders and agents are those of the last of ``frames`` that has them.
    """
    known = {who: f for f in frames if f is not None for who in _MODELLED if f"{who}_model" in f}
    notes = [_different_models(table, who, rows) for who, rows in known.items()]
    for texts in (*notes, table.get(CAUTION)):
        if texts is not None:
            noted = table["note"].fillna("") + ("; " + texts.astype("str")).fillna("")
            table = table.assign(note=noted.str.removeprefix("; "))
    return table


def with_agent_models(verdicts: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Add the agent's model to verdicts if it depends on the condition."""
    if _different_models(attempts, "agent", attempts) is None:
        return verdicts
    models = attempts.set_index("attempt_id")["agent_model"]
    return verdicts.assign(agent_model=verdicts["attempt_id"].map(models))


def _different_models(table: pd.DataFrame, who: str, rows: pd.DataFrame) -> pd.Series | None:
    """Return a note for each outcome if the model of its agent or grader depends on the arm."""
    name = f"{who}_model"
    keys = [n for n in ("study", "skill", who) if n in rows and n in table]
    named = rows[[*keys, "condition", name]].dropna(subset=name).drop_duplicates().sort_values(name)
    each = named.groupby([*keys, "condition"], dropna=False)[name].agg(" and ".join).reset_index()
    notes = []
    for key, arms in each.groupby(keys, dropna=False):
        if arms[name].nunique() > 1:
            listed = ", ".join(
                f"{arm} {models}" for arm, models in arms[["condition", name]].values
            )
            notes.append([*key, f"{DIFFERENT_MODELS} of the {who}: {listed}"])
    if not notes:
        return None
    texts = pd.DataFrame(notes, columns=[*keys, name]).astype("str")
    found = table[keys].astype("str").merge(texts, on=keys, how="left")
    return found[name].set_axis(table.index)


def with_notes_of(
    frame: pd.DataFrame, outcomes: pd.DataFrame, by: Sequence[str], reference: str | None
) -> pd.DataFrame:
    """Append to each row of an estimates frame the distinct notes of its outcomes."""
    if "note" not in outcomes:
        return frame
    keys = [name for name in by if name in outcomes and name != "condition"]
    noted = outcomes.loc[outcomes["note"].fillna("").ne(""), [*keys, "condition", "note"]]
    if noted.empty:
        return frame
    texts = []
    distinct = noted.drop_duplicates()
    for position, note in enumerate(frame["note"]):
        values = frame.iloc[position]
        rows = rows_of_group(distinct, {name: values[name] for name in keys})
        if "condition" in by:
            rows = rows[rows["condition"].isin([values["condition"], reference])]
        new = dict.fromkeys("; ".join(rows["note"]).split("; "))
        parts = [part for part in new if part not in note]
        more = len(parts) - _MOST_NOTES
        rest = f"{more} more notes in the outcomes" if more > 0 else ""
        texts.append(join_notes(note, *parts[:_MOST_NOTES], rest))
    return frame.assign(note=pd.array(texts, dtype="str"))


def refuse_different_checks(outcomes: pd.DataFrame, what: str, value: str = "passed") -> None:
    """Raise FrameError if the checks of several conditions cannot be compared.

    There are two reasons. Either the grader was asked about different checks under different
    conditions. Or ``value`` is the share of checks passed and the grader often stopped at the first
    fail, so that the share depends on the order of the checks.
    """
    if outcomes["condition"].nunique() < 2:
        return
    differ = outcomes["checks_differ"].to_numpy(bool, na_value=False)
    if differ.any():
        parts = [
            part for note in outcomes["note"][differ].dropna().unique() for part in note.split("; ")
        ]
        reasons = [part for part in dict.fromkeys(parts) if part.startswith(DIFFERENT_CHECKS)]
        cases = plural(len(outcomes.loc[differ, CASE].drop_duplicates()), "case")
        if len(reasons) > _MOST_NOTES:
            reasons[_MOST_NOTES:] = [f"{len(reasons) - _MOST_NOTES} more notes in the outcomes"]
        reason = "; ".join(reasons) or f"{DIFFERENT_CHECKS} in {cases}"
        shared = argument("checks", "shared")
        raise FrameError(
            f"{what}: {reason}. When the table is read and reported, {shared} compares only the "
            "checks that every condition was asked."
        )
    if value == "share_passed":
        stopped = (outcomes["passed"].eq(False) & outcomes["n_missing"].gt(0)).fillna(False)
        if stopped.mean() > SOME_STOPPED:
            n = plural(int(stopped.sum()), "attempt")
            raise FrameError(
                f"{what}: the grader stopped at the first fail in {n}, so that share_passed "
                "depends on the order of the checks. Use value='passed'."
            )


def refuse_ids_as_repeats(attempts: pd.DataFrame, by: Sequence[str] = ("agent",)) -> None:
    """Raise FrameError if the repeats of the attempts look like ids of attempts."""
    repeat = attempts["repeat"]
    if repeat.nunique() < _FEWEST_IDS:
        return
    keys = listed([*by, "skill", "condition"])
    cells = attempts[listed([*keys, "case_id", "repeat"])].drop_duplicates()
    several = grouped(cells, keys)["case_id"].transform("nunique").ge(_SEVERAL_CASES)
    numbered = cells[several & cells["repeat"].notna()]
    shared = grouped(numbered, [*keys, "repeat"]).size().gt(1)
    if len(shared) >= _FEWEST_IDS and shared.mean() < _SHARED_REPEATS:
        raise FrameError(
            f"repeat: {len(shared)} values, nearly all of a single case, such as "
            f"{show(repeat)}; a repeat counts the attempts at a case (1, 2, 3). These look like "
            f"ids of attempts: name their column by {argument('attempt')}, not by "
            f"{argument('repeat')}."
        )


def with_method(result: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Append the name of the weight column to the text in ``method``."""
    if weight is None:
        return result
    return result.assign(method=result["method"] + f"; cases weighted by {weight}")
