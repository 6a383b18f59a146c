"""Conversion of a researcher's own table to checked frames: ids are made and words mapped."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import as_list, empty, require_frame
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.contracts import CASE, CONTRACTS, LINKED_BY, NAMED_REPEATS, PLANNED
from skillcomp.frames.estimates import copied_skills, is_among, refuse_ids_as_repeats
from skillcomp.frames.from_store import n_words, tasks_of, with_facts_of_cases
from skillcomp.frames.missing_attempts import (
    UNANSWERED,
    with_asked,
    with_cases,
    without_unanswered,
)
from skillcomp.frames.outcomes import outcomes as outcomes_of
from skillcomp.frames.reference_labels import ITEM, RESULTS, Drawn, check_draw
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import (
    TRY,
    WHAT,
    Change,
    Columns,
    TableReader,
    made_ids,
    row_tuples,
)
from skillcomp.frames.words import ARGUMENTS, ColumnName
from skillcomp.records import dimension_family

_OF_TABLE = [name for kind in ("row", "case", "answer", "verdict") for name in ARGUMENTS[kind]]
_CHECK = [*CASE, "check_id"]
# columns of a tool's results that keep their names in the frames, if the caller carries them
_OF_ATTEMPTS = [*CONTRACTS["attempts"].columns, "offered", "invoked"]
CARRIED = {
    "attempts": [n for n in _OF_ATTEMPTS if n not in {*_OF_TABLE, *TRY, "attempt_id", "n_words"}],
    "verdicts": ["rationale", "borderline", "grader_kind", "goal", "evidence_quote", "graded_at"],
}
ROLES = [*_OF_TABLE, "gold", *ARGUMENTS["label"], "cluster"]  # every argument that names a column


def from_frame(
    frame: pd.DataFrame,
    *,
    skill: ColumnName = "skill",
    case: Hashable = "case",
    condition: ColumnName = "condition",
    passed: ColumnName = "passed",
    repeat: ColumnName = None,
    check: ColumnName = None,
    check_kind: ColumnName = None,
    check_weight: ColumnName = None,
    grader: ColumnName = None,
    grader_version: ColumnName = None,
    grader_model: ColumnName = None,
    grader_family: ColumnName = None,
    round: ColumnName = None,
    score: ColumnName = None,
    agent: ColumnName = None,
    agent_model: ColumnName = None,
    agent_family: ColumnName = None,
    attempt: ColumnName = None,
    dimension: ColumnName = None,
    transfer: ColumnName = None,
    contrast_of: ColumnName = None,
    criticality: ColumnName = None,
    bloom: ColumnName = None,
    cluster: Hashable | Sequence[Hashable] | None = None,
    should_trigger: ColumnName = None,
    prompt: ColumnName = None,
    answer: ColumnName = None,
    seconds: ColumnName = None,
    cost_usd: ColumnName = None,
    input_tokens: ColumnName = None,
    output_tokens: ColumnName = None,
    status: ColumnName = None,
    error: ColumnName = None,
    asked: pd.DataFrame | None = None,
    gold: Hashable | pd.DataFrame | None = None,
    labeller: ColumnName = None,
    labeller_kind: ColumnName = None,
    labeller_family: ColumnName = None,
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    conditions: Mapping[Any, str] | None = None,
    missing: Any = (),
    keep: Literal["last"] | None = None,
    name: str | None = None,
    shared_cases: bool | None = None,
    checks: Checks = "all",
) -> Frames:
    """Convert a researcher's own table, one row per verdict or per answer, to checked frames.

    Each argument names a column of the table; other columns are ignored. Analyses take the
    resulting frames: ``outcomes`` for deltas, skill verdicts and transfer, ``verdicts`` and
    ``gold`` for drift, bias and correction, all of them for the report.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per answer, or per answer, check and grader. Any dtypes.
    skill, case, condition, passed : hashable
        Columns of the table. With ``skill=None`` the table is about one skill, called "the skill".
        A case is identified by its skill and its name. Common words for the conditions baseline,
        skill, placebo and previous are replaced by these names. Examples are "control", the pair
        "with plugin" and "without plugin", and the pair "v1" and "v2". Other conditions keep their
        names and are never used as the baseline. Verdicts with gold labels may have
        ``condition=None``. ``passed`` holds truth values, 1 and 0, or words such as "yes" and
        "fail"; an empty value ("n/a", "", NaN) is a missing verdict, never a fail. ``passed`` may
        be None if ``score`` is given.
    repeat : hashable, optional
        Column that numbers the repeats of a case, from 0 or from 1, or names them. Three or more
        named repeats are tested for what their attempts share. Without
        ``repeat`` and ``check``, rows with the same case, condition, agent and grader are
        repeats, numbered in the order of the rows.
    check, check_kind, check_weight : hashable, optional
        Columns with the id of the check, its kind (``positive`` or ``negative``) and its weight
        (at least 0; one value in all rows of a check). Without ``check`` a row is the verdict on a
        whole answer.
    grader, grader_version, grader_model, grader_family : hashable, optional
        Columns with the grader, its version, its model and the model's family. The default grader
        is "unnamed grader".
    round : hashable, optional
        Column that numbers the gradings, from 1; 2 and up are repeated gradings.
    score : hashable, optional
        Column with the score that the grader gave, on the grader's own scale.
    agent, agent_model, agent_family : hashable, optional
        Columns with the agent that answered, its model and the model's family.
    attempt : hashable, optional
        Column with the ids of the answers. Default: ids made of skill, case,
        condition, agent and repeat.
    dimension, transfer, contrast_of, prompt, criticality, bloom, should_trigger : hashable
        Optional columns about the case, with one value in all rows of a case: its dimension, its
        transfer distance (near or far), the id of the other case of its contrast pair, its prompt,
        its criticality, its level in Bloom's taxonomy, and whether it should trigger the skill. If
        all dimensions are among C1 to C9, or none is, they become the column
        ``comprehension_dimension``; a mixture stays in the column ``dimension``.
    cluster : hashable or sequence of hashable, optional
        Columns that link cases, such as a video, a repository or a user, with one value in all rows
        of a case. Cases with an equal value are one cluster in every analysis. The columns keep
        their names in ``cases``, ``attempts`` and ``outcomes``; ``linked_by`` there names them.
    answer, seconds, cost_usd, input_tokens, output_tokens : hashable, optional
        Columns about the answer, with one value in all rows of an answer.
    status, error : hashable, optional
        Columns about the end of the attempt. ``status`` is ok, error, paused, timeout, truncated
        or refused. ``error`` is the text of an error, empty if there was none. After an error or a
        pause, the answer is missing and never a fail, whatever ``passed`` holds. After a timeout, a
        truncation or a refusal, an answer without a verdict counts as a fail. If the agent ended
        normally and ``passed`` is empty, the verdict is missing, but not the answer.
    asked : pandas.DataFrame, optional
        The attempts that were planned, with the columns skill, case_id and condition and, if
        present, agent and repeat. The columns have these names or those of the table. A planned
        attempt without an answer is added with the status ``error``, and no other attempt is
        missing. Without a plan, the numbers of attempts show what was planned (see
        :func:`skillcomp.deltas.paired`).
    gold : hashable or pandas.DataFrame, optional
        Reference labels: a column of the table, or a frame of labels. Such a frame identifies each
        item by the same columns as the table: ``attempt`` or, without it, skill, case, condition,
        repeat and agent; and ``check``, if used. The labels are in the column named by ``passed``.
        The columns ``inclusion_probability``, ``borderline`` and ``note`` are optional.
    labeller, labeller_kind, labeller_family : hashable, optional
        Columns with the labeller, its kind (``person``, ``model`` or ``program``) and, for a model,
        its family, in the table or in the frame of labels. The default labeller is "own". The
        report states if a model gave the labels, and if its family also answered or graded.
    gold_drawn, drawn_by : optional
        How the labels were drawn, as in :func:`skillcomp.correction.delta`; the report uses it.
        ``"random"``, ``"chosen"`` or ``"verdict"``. For ``"verdict"``, ``drawn_by`` is the grader
        of the verdicts that decided the draw.
    conditions : mapping, optional
        Meaning of the table's words for conditions, such as ``{"v2": "skill"}``. It takes
        precedence over the built-in words and gives no warning.
    missing : sequence, optional
        Literal values of passed, gold and score that mean no value, such as ``[-1]`` if a judge
        that failed writes -1. They are removed before words are read, and counted in ``problems``.
        A number also matches its text, so -1 matches "-1". Without ``missing``, such a code in
        ``passed`` or ``gold`` is refused.
    keep : {"last"}, optional
        With "last", only the last of several rows with the same keys counts, as after a retry. By
        default, rows with the same keys are repeats; if ``repeat``, ``attempt`` or ``check`` is
        given, they are refused.
    name : str, optional
        Name of the table in messages, such as the name of its file.
    shared_cases : bool, optional
        Whether cases with the same name under several skills are the same task (column ``task``
        of ``cases`` and ``outcomes``). Default: yes if their prompts are equal, no if they
        differ, unknown without ``prompt``. If it is unknown, an estimate over skills is refused.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: the outcomes count only checks that the grader was asked about under every
        condition of the case, as in :func:`skillcomp.frames.outcomes`.

    Returns
    -------
    Frames
        cases, attempts, verdicts, outcomes and gold, each checked against its contract.

    Raises
    ------
    FrameError
        With one sentence per problem: a missing column (with the most similar name), a missing key,
        an unknown word, a value that differs between the rows of a case or an answer, or two
        verdicts of a grader on the same check of an answer. If a role is unclear, the
        message ends with all columns and the argument that the name of each stands for.

    Warns
    -----
    FrameWarning
        One warning that lists the values that were converted or mapped, with the number of rows of
        each, and the labels that match no row.

    See Also
    --------
    skillcomp.frames.check : Checks a frame that already has the columns of a contract.

    Examples
    --------
    >>> import pandas as pd
    >>> own = pd.DataFrame({
    ...     "task": [1, 1, 2, 2], "given": ["baseline", "skill"] * 2,
    ...     "ok": [False, True, True, True]})
    >>> made = from_frame(own, skill=None, case="task", condition="given", passed="ok")
    >>> made.outcomes[["attempt_id", "condition", "passed"]]
               attempt_id condition  passed
    0  the skill/1/baseline/1  baseline   False
    1     the skill/1/skill/1     skill    True
    2  the skill/2/baseline/1  baseline    True
    3     the skill/2/skill/1     skill    True
    """
    arguments = dict(locals())
    place = WHAT if name is None else f"{name} ({WHAT})"
    names = {role: arguments[role] for role in _OF_TABLE}
    labellers = {role: arguments[role] for role in ARGUMENTS["label"]}
    for role, column in labellers.items():
        if column is not None and gold is None:
            raise FrameError(f"{place}: {role}= names who gave the labels, and there is no gold=.")
    if gold is not None and not isinstance(gold, pd.DataFrame):
        names |= {"gold": gold, **labellers}
    names |= {f"cluster {name}": name for name in as_list(cluster)}
    reader = TableReader(frame, names, place=place, conditions=conditions, missing=missing)
    options = ["keep", "asked", "gold", "gold_drawn", "drawn_by", "shared_cases", "checks"]
    how = {name: arguments[name] for name in options}
    return frames_of_columns(reader, labellers=labellers, **how)


def frames_of_columns(
    reader: TableReader,
    *,
    carried: Iterable[str] = (),
    keep: str | None = None,
    asked: pd.DataFrame | None = None,
    gold: Any = None,
    labellers: Mapping[str, Any] | None = None,
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    shared_cases: bool | None = None,
    checks: Checks = "all",
) -> Frames:
    """Return the frames of the table of a reader.

    ``carried`` are columns of the table that no argument of `from_frame` names; they keep their
    names in attempts and verdicts. The other arguments are those of `from_frame`.
    """
    needed = ("case",) if "score" in reader.names else ("case", "passed")
    columns = reader.columns(required=needed, keep=keep)
    columns |= {name: reader.frame[name] for name in carried if name in reader.frame}
    if shared_cases is None and "skill" in reader.names:
        attempt = reader.names.get("attempt")
        copied = copied_skills(reader.frame, reader.names["skill"], [attempt])
        reader.problems += filter(None, [copied])
    rows = reader.keys(columns)
    rows["repeat"] = reader.repeats(columns, rows)
    rows["attempt_id"] = reader.attempt_ids(columns, rows)
    rows["passed"] = (
        reader.as_verdicts(columns["passed"], "passed")
        if "passed" in columns
        else pd.Series(pd.NA, index=rows.index, dtype="boolean")
    )
    rows["status"] = reader.as_statuses(columns)
    rows["passed"] = _without_crashes(rows, reader)
    if "score" in columns:
        reader.note_codes(columns["score"])
        columns["score"] = columns["score"].mask(rows["status"].isin(UNANSWERED))
        rows["passed"] = _with_failed_ends(rows, columns)
    facts = {
        name: reader.case_column(columns[name], name)
        for name in columns
        if name in ARGUMENTS["case"] or name.startswith("cluster ")
    }
    amounts = {name: columns[name] for name in CARRIED["attempts"] if name in columns}
    for name in [name for name in ARGUMENTS["answer"] if name in columns]:
        if name in ARGUMENTS["amount"]:
            amounts[name] = reader.as_numbers(columns[name], name)
        else:
            amounts[name] = reader.as_texts(columns[name], name, needed=False)
    amounts["status"] = rows.pop("status")
    if asked is not None:
        require_frame(asked, f"{WHAT}: asked")
        asked = reader.asked_attempts(asked)
    reader.raise_problems()
    answers = rows[["attempt_id", *TRY]].assign(**amounts)
    made: dict[str, Any] = {
        "cases": _cases_frame(rows, facts, reader, shared_cases),
        "attempts": _one_each(answers, ["attempt_id"], amounts, reader, "answer"),
        "verdicts": _verdicts_frame(rows, columns, reader),
    }
    if isinstance(gold, pd.DataFrame):
        made["gold"] = labels_beside(gold, labellers or {}, rows, reader)
    else:
        made["gold"] = labels_inside(columns, rows, reader)
    reader.raise_problems()
    made = reader.checked(made)
    if "repeat" in reader.names:
        refuse_ids_as_repeats(made["attempts"])
    made["attempts"] = with_asked(made["attempts"], asked, WHAT)
    made["cases"] = with_cases(made["cases"], made["attempts"])
    if "repeat" in reader.names:
        made["cases"][NAMED_REPEATS] = True
    if asked is not None:
        # a store keeps columns of cases
        made["cases"][PLANNED] = True
        del made["attempts"][PLANNED]
    made["attempts"]["n_words"] = n_words(made["attempts"]["answer"])
    made["attempts"] = with_facts_of_cases(made["attempts"], made["cases"])
    check_draw(gold_drawn, drawn_by, made["verdicts"]["grader"], reader.place)
    made["verdicts"] = without_unanswered(made["verdicts"], made["attempts"])
    made["outcomes"] = outcomes_of(
        made["verdicts"], made["cases"], attempts=made["attempts"], checks=checks
    )
    return Frames(**made, **reader.facts(), gold_drawn=gold_drawn, drawn_by=drawn_by)


def _without_crashes(rows: pd.DataFrame, reader: TableReader) -> pd.Series:
    """Return the verdicts; they become missing if the attempt ended with an error or a pause."""
    crashed = rows["status"].isin(UNANSWERED)
    if crashed.any():
        role = "error" if "error" in reader.names else "status"
        reader.add_change(role, "error or paused", "missing, not failed", crashed.sum())
    return rows["passed"].mask(crashed)


def _with_failed_ends(rows: pd.DataFrame, columns: Columns) -> pd.Series:
    """Return the verdicts; timeouts, truncations and refusals become fails.

    This concerns only answers that have a score but no verdict.
    """
    if "passed" not in columns:
        return rows["passed"]
    graded = rows["attempt_id"].isin(rows.loc[rows["passed"].notna(), "attempt_id"])
    failed = rows["status"].isin(RESULTS) & columns["score"].notna() & ~graded
    return rows["passed"].mask(failed, False)


def _cases_frame(
    rows: pd.DataFrame, facts: Columns, reader: TableReader, shared_cases: bool | None
) -> pd.DataFrame:
    cases = _one_each(rows[CASE].assign(**facts), CASE, facts, reader, "case")
    cases = cases.assign(task=tasks_of(cases.reindex(columns=[*CASE, "prompt"]), shared_cases))
    clusters = {
        role: str(name) for role, name in reader.names.items() if role.startswith("cluster ")
    }
    taken = {n for kind in ("cases", "attempts", "outcomes") for n in CONTRACTS[kind].columns}
    for role, name in clusters.items():
        if name in taken:
            reader.add_problem(role, "the frames have a column of that name. Rename yours.")
        n_values, done = plural(cases[role].nunique(), "value"), "linked cases are one cluster"
        change = Change(reader.column_label(role), n_values, done, int(cases[role].notna().sum()))
        reader.declared.append(change)
    cases = cases.rename(columns=clusters)
    if clusters:
        cases[LINKED_BY] = "\n".join(clusters.values())
    dimensions = set(facts["dimension"].dropna()) if "dimension" in facts else set()
    if dimensions and dimensions <= set(dimension_family(dimensions)):
        cases = cases.rename(columns={"dimension": "comprehension_dimension"})
    # graders may judge different numbers of checks: with the smallest, no grader lacks checks
    by_grader = rows.groupby([*CASE, "grader", "grader_version"], dropna=False)["check_id"]
    counted = by_grader.nunique().groupby(CASE).min().rename("n_checks").reset_index()
    return cases.merge(counted, on=CASE, how="left")


def _one_each(
    table: pd.DataFrame, unit: list[str], roles: Iterable[str], reader: TableReader, what: str
) -> pd.DataFrame:
    """Return one row per unit; report values that differ between the rows of a unit."""
    for role in roles:
        several = table.groupby(unit)[role].nunique().gt(1)
        if several.any():
            first = several.index[several][0]
            name = "/".join(first) if isinstance(first, tuple) else first
            count = f"{plural(int(several.sum()), what)}; the first: '{name}'"
            reader.add_problem(role, f"differs between the rows of one {what} ({count}).")
    # first() takes the first value that is not missing, which need not be in the first row
    return table.groupby(unit, sort=False, as_index=False).first()[list(table.columns)]


def _verdicts_frame(rows: pd.DataFrame, columns: Columns, reader: TableReader) -> pd.DataFrame:
    place = ["attempt_id", "check_id", "grader", "grader_version", *({"round"} & set(columns))]
    of_verdicts = (*ARGUMENTS["verdict"], *CARRIED["verdicts"])
    facts = {name: columns[name] for name in of_verdicts if name in columns}
    rows = rows.assign(round=1).assign(**facts)
    reader.refuse_equal_rows(rows[place])
    if "check_kind" in columns:
        words = {word: word for word in ("positive", "negative")}
        allowed = "'positive', 'negative' or missing"
        rows["check_kind"] = reader.mapped(rows["check_kind"], "check_kind", words, allowed)
    if "check_weight" in columns:
        rows["check_weight"] = reader.as_numbers(rows["check_weight"], "check_weight")
        _one_each(rows[[*_CHECK, "check_weight"]], _CHECK, ["check_weight"], reader, "check")
    # without `verdict_status`, the reason why a verdict is missing is unknown
    usable = rows["passed"].notna() | (rows["score"].notna() if "score" in rows else False)
    reasons = columns.get("verdict_status", pd.Series(None, rows.index, dtype="object"))
    return rows.assign(status=reasons.mask(usable, "ok"))


def labels_inside(columns: Columns, rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Return the labels in the gold column of the table, one row per item and labeller."""
    if "gold" not in columns:
        return empty("gold")
    labels = rows[ITEM].assign(passed=reader.as_verdicts(columns["gold"], "gold"))
    labels = labels.assign(**_labeller_facts(columns, reader, needed=False))
    labels["labeller"] = labels["labeller"].fillna("own")
    labels = labels[labels["passed"].notna()].drop_duplicates()
    twice = labels.loc[labels.duplicated([*ITEM, "labeller"]), ITEM]
    if len(twice):
        item = twice.iloc[0].to_dict()
        reader.add_problem("gold", f"differs between rows of one item; the first: {item}.")
    return labels


def _labeller_facts(columns: Columns, reader: TableReader, *, needed: bool) -> dict[str, Any]:
    """Return the labellers ("own" without a column of them), and their kind and family."""
    facts: dict[str, Any] = {"labeller": "own"}
    for name in ARGUMENTS["label"]:
        if name in columns:
            is_needed = needed and name == "labeller"
            facts[name] = reader.as_texts(columns[name], name, needed=is_needed)
    return facts


def labels_beside(
    gold: pd.DataFrame,
    labellers: Mapping[str, ColumnName],
    rows: pd.DataFrame,
    reader: TableReader,
) -> pd.DataFrame:
    """Return the labels of a separate frame, matched by the columns that identify an item."""
    keys: tuple[str, ...] = ("skill", "case", "condition", "agent", "repeat")
    if "attempt" in reader.names:
        keys = ("attempt",)
    elif reader.numbered:
        reader.problems.append(
            "gold: several repeats could have this label; name repeat= or "
            "attempt=, a column of both."
        )
        return empty("gold")
    names = {r: reader.names[r] for r in (*keys, "check", "passed") if r in reader.names}
    try:
        other = reader.beside(gold, {**names, **labellers})
        columns = other.columns()
    except FrameError as error:
        raise FrameError(f"gold: {error}") from None
    items = other.keys(columns)
    items["repeat"] = other.as_tries(columns["repeat"], again=True) if "repeat" in columns else 1
    if "attempt" in columns:
        items["attempt_id"] = other.as_texts(columns["attempt"], "attempt")
    else:
        of_try = dict(zip(row_tuples(rows, TRY), rows["attempt_id"], strict=True))
        ids = map(of_try.get, row_tuples(items, TRY), made_ids(items))
        items["attempt_id"] = pd.Series(list(ids), dtype="str")
    items = items.assign(passed=other.as_verdicts(columns["passed"], "passed"))
    items = items.assign(**_labeller_facts(columns, other, needed=True))
    for name in ("inclusion_probability", "borderline", "note"):
        if name in gold.columns:
            items[name] = gold[name].array
    reader.problems += [f"gold: {problem}" for problem in other.problems]
    reader.unused = {key: value for key, value in reader.unused.items() if key in other.unused}
    # gold may cover a single condition, so leave out the warning that no condition is the baseline
    changes = [change for change in other.changes if "none is 'baseline'" not in change.found]
    reader.changes += [c._replace(place=f"gold: {c.place}") for c in changes]
    strays = items.loc[~is_among(items, rows, ITEM), ITEM]
    if len(strays):
        n, first = f"{len(strays)} of {plural(len(gold), 'label')}", strays.iloc[0].to_dict()
        stray = f"{n} match nothing in the table"
        reader.changes.append(Change("gold", stray, f"the first: {first}", len(strays)))
    return items[[c for c in items.columns if c in CONTRACTS["gold"].columns]]
