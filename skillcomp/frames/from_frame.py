"""Conversion of a researcher's own table to checked frames: ids are made and words mapped."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from os import PathLike
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import UNKNOWN, FrameError, argument, instead, literal, plural, require_known
from skillcomp.frames.check import as_list, check, empty, require_frame
from skillcomp.frames.contracts import CASE, CAUTION, CONTRACTS, LINKED_BY, NAMED_REPEATS, PLANNED
from skillcomp.frames.estimates import (
    columns_of,
    copied_skills,
    is_among,
    refuse_ids_as_repeats,
    with_agent_models,
)
from skillcomp.frames.from_store import n_words, tasks_of, with_facts_of_cases
from skillcomp.frames.outcomes import UNANSWERED, Checks, with_asked, with_cases, without_unanswered
from skillcomp.frames.outcomes import outcomes as outcomes_of
from skillcomp.frames.reference_labels import ITEM, RESULTS, Drawn, check_draw, compared_rows
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import GRADED, TRY, WHAT, Change, TableReader, made_ids
from skillcomp.frames.words import (
    ARGUMENTS,
    ORDERS,
    PLAIN_WINNERS,
    SWAPS,
    SYSTEMS,
    TEXTS,
    WINNERS,
    ColumnName,
    as_literal,
    columns_of_answers,
    distinct_words,
    kind_of_table,
    plain_label,
    plain_value,
    usual_condition,
    winner_word,
)
from skillcomp.io.skills import read_skill
from skillcomp.io.store import SOURCE
from skillcomp.records import Skill, dimension_family

# graders are compared up to this number; equal verdicts on fewer items may be a coincidence
_MOST_GRADERS, _MANY_EQUAL = 10, 20
Documents = (
    Mapping[str, Skill | str | PathLike[str]] | str | PathLike[str] | Sequence[str | PathLike[str]]
)

_OF_TABLE = [name for kind in ("row", "case", "answer", "verdict") for name in ARGUMENTS[kind]]
_CHECK = [*CASE, "check_id"]
_VERDICT = "number of the verdict"  # a column that links labels to the verdicts of a table
# columns of a tool's results that keep their names in the frames, if the caller carries them
_OF_ATTEMPTS = [*CONTRACTS["attempts"].columns, "offered", "invoked"]
CARRIED = {
    "attempts": [n for n in _OF_ATTEMPTS if n not in {*_OF_TABLE, *TRY, "attempt_id", "n_words"}],
    "verdicts": ["rationale", "borderline", "grader_kind", "goal", "evidence_quote", "graded_at"],
}
_DEFAULTS = {name: name for name in ("skill", "case", "condition", "passed")}
_ROLES_OF = {
    "pairs": ["case", *ARGUMENTS["pair"], "gold", "grader"],
    "passages": ARGUMENTS["passage"],
}
# every argument that names a column
ROLES = list(
    dict.fromkeys(
        [
            *_OF_TABLE,
            *_ROLES_OF["pairs"],
            *ARGUMENTS["label"],
            *_ROLES_OF["passages"],
            "cluster",
            "facts",
        ]
    )
)


def from_frame(
    frame: Any,
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
    facts: Hashable | Sequence[Hashable] | None = None,
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
    winner: ColumnName = None,
    first: ColumnName = None,
    second: ColumnName = None,
    order: ColumnName = None,
    first_answer: ColumnName = None,
    second_answer: ColumnName = None,
    text: ColumnName = None,
    source: ColumnName = None,
    level: ColumnName = None,
    document: ColumnName = None,
    question: ColumnName = None,
    skills: Documents | None = None,
    words: Mapping[str, Mapping[Any, Any]] | None = None,
    missing: Any = (),
    keep: Literal["all", "last"] | None = None,
    name: str | None = None,
    shared_cases: bool | None = None,
    checks: Checks = "all",
) -> Frames:
    """Convert a researcher's own table of answers, pairs or passages to checked frames.

    Each argument names a column of the table; other columns are ignored. Analyses take the
    resulting frames: ``outcomes`` for deltas, skill verdicts and transfer, ``verdicts`` and
    ``gold`` for drift, bias and correction, all of them for the report. A table with a column
    ``winner`` has pairwise verdicts, a table with the columns ``text``, ``source`` and ``level``
    (or ``label``) has passages; neither may have a column ``passed``, unless an argument names
    the winner or the level. In a table of pairs, columns with usual names, such as question_id,
    model_a, model_b, winner and judge, are recognised.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        One row per answer, or per answer, check and grader; one row per pair as it was shown to a
        grader (a pair in both orders has two rows); or one row per passage. Any dtypes.
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
        named repeats are tested for what their attempts share. Without ``repeat``, a single column
        called repeat, trial, run, seed, sample or the like has the repeats if there are any.
        Without one, and without ``check``, rows with the same case, condition, agent and grader
        are repeats in the order of the rows, if every such group has the same number of rows.
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
    facts : hashable or sequence of hashable, optional
        Further columns about the case that analyses may group by, such as its language, with one
        value in all rows of a case. They keep their names, as those of ``cluster`` do.
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
        repeat and agent; and ``check``, if used. The labels are in the column named by ``passed``
        or, for a table of scores, in that named by ``score`` or in a column "score". The columns
        ``inclusion_probability``, ``borderline`` and ``note`` are optional.
    labeller, labeller_kind, labeller_family : hashable, optional
        Columns with the labeller, its kind (``person``, ``model`` or ``program``) and, for a model,
        its family, in the table or in the frame of labels. The default labeller is "own". The
        report states if a model gave the labels, and if its family also answered or graded.
    gold_drawn, drawn_by : optional
        How the labels were drawn, as in :func:`skillcomp.correction.delta`; the report uses it. If
        they are ``"separate"``, ``outcomes`` lacks the condition ``calibration``.
        ``"random"``, ``"chosen"`` or ``"verdict"``. For ``"verdict"``, ``drawn_by`` is the grader
        of the verdicts that decided the draw.
    winner : hashable, optional
        Column with the better answer of a pair: a value of the columns ``first`` and ``second``,
        the name of one of them, or a word: A and B, 1 and 2, model_a and model_b, ``A>B``,
        ``A=B``, ``[[A]]``, first and second, tie. A missing value is no verdict. ``gold`` has the
        same words, where A and B always mean the columns; a value in one row of a pair is enough.
        Numbers between two ends are graded preferences; ``words={"winner": {-3: "A", 3: "B"}}``
        names the ends of the scale (1 to 2 with fractions needs no words).
    first, second : hashable, optional
        Columns with the two answers: names of systems (model_a, system_1) or texts (output_1,
        response_a). Columns with other names hold texts if a value has a line break or more than
        100 characters, or if no value occurs in two cases. Without ``order``, the answer in
        ``first`` was shown first; with it, both may be left out: the answers are A and B. Rows
        with equal answers are kept: they test the preference for a place, and count nowhere else.
    first_answer, second_answer : hashable, optional
        Columns with the texts of the answers, if ``first`` and ``second`` hold names of systems.
        Columns called output_1, response_a and the like are found. For turns of a conversation or
        repeated judgements of a pair, ``repeat`` names the column that tells them apart.
    order : hashable, optional
        Column with the order of presentation: AB and BA, 1 and 2, original and swapped, or truth
        values in a column called swap or swapped. In order 2 the answer in ``second`` was shown
        first. With it, ``words=`` says what winners such as A and 1 mean: ``{"winner": {"A": "A",
        "B": "B"}}`` the answers in ``first`` and ``second``, in both orders; ``{"winner": {"A":
        "first", "B": "second"}}`` the answers shown first and second.
    text, source, level : hashable, optional
        Columns with a passage, with its source (its text, or its name), and with the degree of
        copying: a level (verbatim, near_copy, light_revision, heavy_revision, fresh), a word of
        Clough and Stevenson (cut, light, heavy, non), copied or fresh, yes or no. Rows without a
        text or a level are left out and counted. Rows with the level "source" or "original" are
        the texts of the sources.
    document, question : hashable, optional
        Columns with the topic or writer of a passage (passages about one source with the same
        value are related; default: all of a source) and with the question that it answers, whose
        words do not count as copied.
    skills : mapping, path or sequence of paths, optional
        The texts of the skills, or of the sources of passages: texts, Skills or paths of SKILL.md
        by name, or the paths alone. The chapter on copying needs them.
    words : mapping of str to mapping, optional
        Meaning of the table's words, by argument, such as ``{"condition": {"v2": "skill"},
        "transfer": {"close": "near"}, "passed": {"gut": True}}``; None means no value. It takes
        precedence over the words that skillcomp knows, and gives no warning. The page
        docs/howto/my-table.md has words of other languages. The arguments are skill, condition,
        passed, gold, transfer, status, should_trigger, check_kind, winner, order and level. A truth
        value in a column with a name such as "no_skill" or "failed" needs it.
    missing : sequence, optional
        Literal values of passed, gold and score that mean no value, such as ``[-1]`` if a judge
        that failed writes -1. They are removed before words are read, and counted in ``problems``.
        A number also matches its text, so -1 matches "-1". Without ``missing``, such a code in
        ``passed`` or ``gold`` is refused.
    keep : {"all", "last"}, optional
        What several rows with the same keys are. "all": repeats in the order of the rows. "last":
        a later row replaces an earlier one, as after a retry; if this hides clearly more fails of
        one condition, every result says so. By default, they are refused, unless they are repeats
        (see ``repeat``). Rows of different agents are never repeats.
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
        cases, attempts, verdicts, outcomes and gold, each checked against its contract. For pairs,
        also ``pairwise``, one row per row of the table: ``first`` and ``second`` are the attempts
        in the order shown, ``winner`` and ``gold_winner`` an attempt, ``"tie"`` or missing, and
        ``order`` is 1 in the first order of a pair and 2 in the other. ``verdicts`` then has two
        rows per pair, one for each answer: ``passed`` is True if the answer won, and False for
        both answers of a tie; ``outcomes`` is empty. For passages, ``passages`` has passage_id,
        skill (name of the source), document, level (``copied``: to an unknown degree) and text.

    Raises
    ------
    FrameError
        With one sentence per problem: a missing column (with the most similar name), a missing key,
        an unknown word, a value that differs between the rows of a case or an answer, or two
        verdicts of a grader on the same check of an answer or on a pair in one order, a gold winner
        that differs within a pair, a source without a text. If a role is unclear, the
        message ends with all columns and the argument that the name of each stands for.

    Warns
    -----
    FrameWarning
        One warning that lists the values that were converted or mapped, with the number of rows of
        each, and the labels that match no row.

    See Also
    --------
    skillcomp.frames.check : Checks a frame that already has the columns of a contract.
    skillcomp.read_results : Reads a file of such a table, or the results of another tool.
    skillcomp.bias.position : Estimates the position bias of pairs.
    skillcomp.overlap.calibrate : Estimates the length from which a shared n-gram means copying.

    Notes
    -----
    In ``reliability.agreement(made.verdicts, made.gold)`` of pairs, an item is an answer in a
    comparison: count cases, not items. Without ties the agreement is the accuracy; a tie against a
    gold winner counts one half.

    References
    ----------
    Degrees of reuse as in Clough and Stevenson 2011, doi:10.1007/s10579-009-9112-1.

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

    >>> pairs = pd.DataFrame({
    ...     "question_id": [1, 1, 2], "model_a": ["x", "y", "x"], "model_b": ["y", "x", "y"],
    ...     "winner": ["model_a", "model_b", "tie"], "judge": "g"})
    >>> from_frame(pairs).pairwise[["case_id", "order", "first", "second", "winner"]]
      case_id  order first second winner
    0       1      1   1/x    1/y    1/x
    1       1      2   1/y    1/x    1/x
    2       2      1   2/x    2/y    tie
    """
    frame, gold, asked = map(_as_pandas, (frame, gold, asked))
    arguments = dict(locals())
    place = WHAT if name is None else f"{name} ({WHAT})"
    require_frame(frame, place)
    documents = _documents(skills, place)
    how = {"place": place, "words": words, "missing": missing}
    given = [
        role
        for role in ROLES
        if arguments[role] is not None and arguments[role] is not _DEFAULTS.get(role)
    ]
    kind = kind_of_table(frame, given, frame.columns)
    if kind != "answers":
        roles = _ROLES_OF[kind]
        for role in [role for role in given if role not in roles]:
            raise FrameError(f"{place}: a table of {kind} has no {argument(role)}.")
        names = {role: arguments[role] if role in given else None for role in roles}
        reader = TableReader(frame, names, **how)
        if kind == "pairs":
            return frames_of_pairs(reader, keep)
        return frames_of_passages(reader, documents)
    names = {role: arguments[role] for role in _OF_TABLE}
    labellers = {role: arguments[role] for role in ARGUMENTS["label"]}
    if isinstance(gold, pd.DataFrame):
        labellers |= {r: r for r, name in labellers.items() if name is None and r in gold}
    for role, column in labellers.items():
        if column is not None and gold is None:
            who = f"{argument(role)} names who gave the labels"
            raise FrameError(f"{place}: {who}, and there is no {argument('gold')}.")
    if not isinstance(gold, pd.DataFrame):
        names |= {"gold": gold, **labellers}
    names |= {f"cluster {name}": name for name in as_list(cluster)}
    more = [name for name in as_list(facts) if name not in as_list(cluster)]
    names |= {f"facts {name}": name for name in more}
    reader = TableReader(frame, names, **how)
    made = frames_of_columns(
        reader,
        labellers=labellers,
        keep=keep,
        asked=asked,
        gold=gold,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        shared_cases=shared_cases,
        checks=checks,
    )
    return replace(made, skills=_texts_of_skills(documents, made.cases["skill"].unique(), place))


def _as_pandas(frame: Any) -> Any:
    """Convert a frame of polars, which may be lazy; return anything else as it is."""
    if isinstance(frame, pd.DataFrame):  # which may have columns of these names
        return frame
    if hasattr(frame, "collect") and not hasattr(frame, "to_pandas"):
        frame = frame.collect()
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


def _documents(skills: Documents | None, place: str) -> dict[str, str]:
    """Return the texts of skills by name."""
    if isinstance(skills, Mapping):
        named = dict(skills)
    else:
        read = [read_skill(path) for path in as_list(skills)]
        named = {skill.slug: skill for skill in read}
    texts: dict[str, str] = {}
    for name, given in named.items():
        document = given
        if isinstance(given, PathLike) or (isinstance(given, str) and given.endswith(".md")):
            document = read_skill(given)
        text = document.text if isinstance(document, Skill) else document
        if not isinstance(text, str):
            found = f"{argument('skills')}: found {literal(text)} for {literal(name)}"
            raise FrameError(f"{place}: {found}; expected a text, a Skill or a path.")
        texts[str(name)] = text
    return texts


def _texts_of_skills(documents: dict[str, str], names: Iterable[str], place: str) -> dict[str, str]:
    """Return the texts of the skills of a table; refuse a text of no skill."""
    names = list(names)
    if len(names) == len(documents) == 1:
        return dict(zip(names, documents.values(), strict=True))
    for name in documents:
        require_known(
            f"{place}: {argument('skills')}: no skill is called", name, names, label="there"
        )
    return documents


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
    rows = reader.read(*needed)
    rows = rows.assign(**{name: reader.frame[name] for name in columns_of(reader.frame, *carried)})
    rows, keep = reader.with_counts(rows, keep)
    if shared_cases is None and "skill" in reader.names:
        attempt = reader.names.get("attempt")
        copied = copied_skills(reader.frame, reader.names["skill"], [attempt])
        reader.problems += filter(None, [copied])
    rows, labels = _without_copies(rows, reader)
    reader.convert_keys(rows)
    rows["passed"] = (
        reader.as_verdicts(rows["passed"], "passed")
        if "passed" in rows
        else pd.Series(pd.NA, index=rows.index, dtype="boolean")
    )
    rows["status"] = reader.as_statuses(rows)
    reader.take_usual_repeats(rows)
    reader.note_similar_cases(rows)
    rows = reader.kept(rows, keep)
    reader.note_models(rows["condition"])
    rows["repeat"] = reader.repeats(rows, keep)
    rows["attempt_id"] = reader.attempt_ids(rows)
    crashed = rows["status"].isin(UNANSWERED)
    if crashed.any():
        role = "error" if "error" in reader.names else "status"
        reader.add_change(role, "error or paused", "missing, not failed", crashed.sum())
    rows["passed"] = rows["passed"].mask(crashed)
    if "score" in rows:
        rows["score"] = reader.converted(rows["score"], "score")
        reader.note_codes(rows["score"])
        rows["score"] = rows["score"].mask(crashed)
    if {"score", "passed"} <= reader.names.keys():
        # a timeout, truncation or refusal with a score and without a verdict is a fail
        judged = rows["attempt_id"].isin(rows.loc[rows["passed"].notna(), "attempt_id"])
        failed = rows["status"].isin(RESULTS) & rows["score"].notna() & ~judged
        rows["passed"] = rows["passed"].mask(failed, False)
    facts = [name for name in reader.names if name in ARGUMENTS["case"] or " " in name]
    of_answer = columns_of(rows, *ARGUMENTS["answer"])
    for name in [*facts, *of_answer, *columns_of(rows, "check_kind", "check_weight")]:
        rows[name] = reader.converted(rows[name], name)
    if asked is not None:
        require_frame(asked, f"{WHAT}: asked")
        asked = reader.asked_attempts(asked)
    reader.raise_problems()
    amounts = [*columns_of(rows, *CARRIED["attempts"]), *of_answer, "status"]
    made: dict[str, Any] = {
        "cases": _cases_frame(rows, facts, reader, shared_cases),
        "attempts": _one_each(rows, ["attempt_id"], amounts, reader, "answer", TRY),
        "verdicts": _verdicts_frame(rows, reader),
    }
    if isinstance(gold, pd.DataFrame):
        made["gold"] = labels_beside(gold, labellers or {}, rows, reader)
    elif labels is None:
        made["gold"] = labels_inside(rows, reader)
    else:
        others = rows.drop(columns=labels.columns.drop(_VERDICT))
        made["gold"] = labels_inside(labels.merge(others, on=_VERDICT), reader)
    reader.raise_problems()
    made = reader.checked(made)
    cases, attempts, verdicts = made["cases"], made["attempts"], made["verdicts"]
    _note_equal_graders(verdicts, reader)
    if "repeat" in reader.names:
        refuse_ids_as_repeats(attempts)
    attempts = with_asked(attempts, asked, WHAT)
    cases = with_cases(cases, attempts)
    if "repeat" in reader.names and not reader.numbered:
        cases[NAMED_REPEATS] = True
    if reader.caution:
        cases[CAUTION] = verdicts[CAUTION] = reader.caution
    if asked is not None:
        # a store keeps columns of cases
        cases[PLANNED] = True
        del attempts[PLANNED]
    attempts["n_words"] = n_words(attempts["answer"])
    attempts = with_facts_of_cases(attempts, cases)
    check_draw(gold_drawn, drawn_by, verdicts["grader"], reader.place)
    verdicts = with_agent_models(without_unanswered(verdicts, attempts), attempts)
    outcomes = outcomes_of(verdicts, cases, attempts=attempts, checks=checks)
    compared = compared_rows(outcomes, gold_drawn)
    return Frames(
        cases=cases,
        attempts=attempts,
        verdicts=verdicts,
        outcomes=compared,
        gold=made["gold"],
        **reader.facts(),
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
    )


def _without_copies(
    rows: pd.DataFrame, reader: TableReader
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Keep one row of a verdict that has a row for each labeller; also return the labels.

    Both have the number of the verdict in a column. The labels are None if there are no such rows.
    """
    if not {"gold", "labeller"} <= reader.names.keys():
        return rows, None
    of_labels = columns_of(rows, "gold", *ARGUMENTS["label"])
    verdict = rows.drop(columns=of_labels)
    code = verdict.groupby(list(verdict), dropna=False, sort=False).ngroup()
    nth = code.groupby([code, rows["labeller"]], dropna=False).cumcount()
    code = code.groupby([code, nth], sort=False).ngroup()  # the nth row of each labeller
    first = ~code.duplicated()
    if first.all():
        return rows, None
    rows = rows.assign(**{_VERDICT: code})
    return reader.taken(rows, first), rows[[*of_labels, _VERDICT]]


def _note_equal_graders(verdicts: pd.DataFrame, reader: TableReader) -> None:
    """Add a change if two graders or versions gave equal verdicts, with equal rationales."""
    said = verdicts["passed"].astype("str") + verdicts["rationale"].fillna("")
    said = said.where(verdicts["passed"].notna())
    who = verdicts["grader"] + (" " + verdicts["grader_version"]).fillna("")
    table = verdicts.assign(said=said, who=who).drop_duplicates([*ITEM, "who"])
    wide = table.pivot(index=ITEM, columns="who", values="said")
    for one, other in combinations(wide.columns[:_MOST_GRADERS], 2):
        both = wide[[one, other]].dropna()
        if len(both) >= _MANY_EQUAL and both[one].eq(both[other]).all() and both[one].nunique() > 1:
            found = f"all {len(both)} verdicts of {one} and {other} are equal"
            reader.add_change("grader", found, "is one a copy?", len(both), warns=False)


def _cases_frame(
    rows: pd.DataFrame, facts: list[str], reader: TableReader, shared_cases: bool | None
) -> pd.DataFrame:
    cases = _one_each(rows, CASE, facts, reader, "case")
    cases = cases.assign(task=tasks_of(cases.reindex(columns=[*CASE, "prompt"]), shared_cases))
    kept = {role: str(name) for role, name in reader.names.items() if " " in role}
    clusters = {role: name for role, name in kept.items() if role.startswith("cluster")}
    taken = {n for kind in ("cases", "attempts", "outcomes") for n in CONTRACTS[kind].columns}
    taken.add(CAUTION)
    for role, name in kept.items():
        if name in taken:
            reader.add_problem(role, "the frames have a column of that name. Rename yours.")
    for role in clusters:
        n_values, n = plural(cases[role].nunique(), "value"), cases[role].notna().sum()
        reader.add_change(role, n_values, "linked cases are one cluster", n, warns=False)
    cases = cases.rename(columns=kept)
    if clusters:
        cases[LINKED_BY] = "\n".join(clusters.values())
    dimensions = set(rows["dimension"].dropna()) if "dimension" in rows else set()
    if dimensions and dimensions <= set(dimension_family(dimensions)):
        cases = cases.rename(columns={"dimension": "comprehension_dimension"})
    # graders may judge different numbers of checks: with the smallest, no grader lacks checks
    by_grader = rows.groupby([*CASE, "grader", "grader_version"], dropna=False)["check_id"]
    counted = by_grader.nunique().groupby(CASE).min().rename("n_checks").reset_index()
    return cases.merge(counted, on=CASE, how="left")


def _one_each(
    rows: pd.DataFrame,
    unit: list[str],
    roles: list[str],
    reader: TableReader,
    what: str,
    others: Sequence[str] = (),
) -> pd.DataFrame:
    """Return one row per unit; report values of ``roles`` that differ between its rows."""
    table = rows[[*unit, *others, *roles]]
    for role in roles:
        several = table.groupby(unit)[role].nunique().gt(1)
        if several.any():
            first = several.index[several][0]
            name = "/".join(first) if isinstance(first, tuple) else first
            count = f"{plural(int(several.sum()), what)}; the first: '{name}'"
            reader.add_problem(role, f"differs between the rows of one {what} ({count}).")
    # first() takes the first value that is not missing, which need not be in the first row
    return table.groupby(unit, sort=False, as_index=False).first()[list(table.columns)]


def _verdicts_frame(rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    place = ["attempt_id", "check_id", "grader", "grader_version", *columns_of(rows, "round")]
    if not reader.problems:
        reader.ask_about_equal_rows(rows, place)
    if "check_weight" in rows:
        _one_each(rows, _CHECK, ["check_weight"], reader, "check")
    # without `verdict_status`, the reason why a verdict is missing is unknown
    usable = rows["passed"].notna() | (rows["score"].notna() if "score" in rows else False)
    reasons = rows.get("verdict_status", pd.Series(None, rows.index, dtype="object"))
    of_verdicts = [*ARGUMENTS["verdict"], *CARRIED["verdicts"]]
    names = ["attempt_id", *GRADED, "repeat", "passed", *columns_of(rows, *of_verdicts)]
    return rows[names].assign(round=rows.get("round", 1), status=reasons.mask(usable, "ok"))


def labels_inside(rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Return the labels in the gold column of the table, one row per item and labeller."""
    if "gold" not in rows:
        return empty("gold")
    values, label = rows["gold"], "passed"
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype.kind != "b"
    if "passed" not in reader.names and is_number:  # a table of scores
        label, values = "score", reader.as_numbers(values, "gold")
    else:
        values = reader.as_verdicts(values, "gold")
    labels = rows[ITEM].assign(**{label: values})
    labels = labels.assign(**_labeller_facts(rows, reader, needed=False))
    labels["labeller"] = labels["labeller"].fillna("own")
    labels = labels[labels[label].notna()].drop_duplicates()
    twice = labels.loc[labels.duplicated([*ITEM, "labeller"]), ITEM]
    if len(twice):
        item = twice.iloc[0].to_dict()
        reader.add_problem("gold", f"differs between rows of one item; the first: {item}.")
    return labels


def _labeller_facts(rows: pd.DataFrame, reader: TableReader, *, needed: bool) -> dict[str, Any]:
    """Return the labellers ("own" without a column of them), and their kind and family."""
    facts: dict[str, Any] = {"labeller": "own"}
    for name in columns_of(rows, *ARGUMENTS["label"]):
        is_needed = needed and name == "labeller"
        facts[name] = reader.as_texts(rows[name], name, needed=is_needed)
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
            f"gold: several repeats could have this label; name {argument('repeat')} or "
            f"{argument('attempt')}, a column of both."
        )
        return empty("gold")
    own = (*keys, "check", "passed", "score")
    names = {r: reader.names[r] for r in own if r in reader.names}
    if "passed" not in names and names.get("score") not in gold and "score" in gold:
        names["score"] = "score"
    elif "passed" in names and names.get("score") not in gold:
        names.pop("score", None)
    other, items = reader.beside("gold", gold, {**names, **labellers})
    items["repeat"] = items.get("repeat", 1)
    if "attempt" in names:
        items["attempt_id"] = other.as_texts(items["attempt_id"], "attempt")
    else:
        known = rows[[*TRY, "attempt_id"]].drop_duplicates(TRY, keep="last")
        ids = items[TRY].merge(known, on=TRY, how="left")["attempt_id"]
        items["attempt_id"] = ids.fillna(made_ids(items))
    if "passed" in items:
        items["passed"] = other.as_verdicts(items["passed"], "passed")
    if "score" in items:
        items["score"] = other.as_numbers(items["score"], "score")
    items = items.assign(**_labeller_facts(items, other, needed=True))
    for name in ("inclusion_probability", "borderline", "note"):
        if name in gold:
            items[name] = gold[name].array
    reader.problems += [f"gold: {problem}" for problem in other.problems]
    # gold may cover a single condition, so leave out the warning that no condition is the baseline
    changes = [change for change in other.changes if "none is 'baseline'" not in change.found]
    reader.changes += [c._replace(place=f"gold: {c.place}") for c in changes]
    strays = items.loc[~is_among(items, rows, ITEM), ITEM]
    if len(strays):
        n, first = f"{len(strays)} of {plural(len(gold), 'label')}", strays.iloc[0].to_dict()
        stray = f"{n} match nothing in the table"
        reader.changes.append(Change("gold", stray, f"the first: {first}", len(strays)))
    return items[[c for c in items if c in CONTRACTS["gold"].columns]]


_LONG_NAME = 100  # A value with more characters is a text and not the name of a system.
_KEY = ["case_id", "grader", "first", "second", "repeat"]
_SIDES = ("first", "second")
_TEXTS = ("first_answer", "second_answer")
OF_PAIR = "better than "  # begins the id of a check that compares two answers


def frames_of_pairs(reader: TableReader, keep: str | None) -> Frames:
    """Return the frames of a table of pairwise verdicts, one row per shown pair."""
    _add_usual_columns(reader)
    has_answers = {*_SIDES} & set(reader.names) or "order" not in reader.names
    needed = ("case", *_SIDES, "winner") if has_answers else ("case", "winner")
    rows = reader.read(*needed)
    reader.convert_keys(rows)
    rows = reader.kept(rows.assign(passed=pd.Series(None, rows.index, dtype="boolean")), keep)
    pairs = rows[["skill", "case_id", "condition", "grader"]]
    nothing = pd.Series(None, pairs.index, dtype="object")
    for side, name in zip(_SIDES, "AB", strict=True):
        texts = reader.as_texts(rows[side], side) if side in rows else name
        pairs[side] = pd.Series(texts, pairs.index, dtype="str")
    for text in _TEXTS:
        pairs[text] = reader.as_texts(rows.get(text, nothing), text, needed=False)
    pairs["repeat"] = reader.as_tries(rows["repeat"]) if "repeat" in rows else 1
    swapped = _second_shown_first(rows, reader)
    winners, gold_winners = (
        _first_wins(rows.get(role, nothing), role, pairs, swapped, reader)
        for role in ("winner", "gold")
    )
    n_missing = int(winners.isna().sum())
    if n_missing:
        reader.add_change("winner", "no verdict", "missing, neither a tie nor a loss", n_missing)
    systems = _TEXTS[0] in rows or _hold_systems(pairs, reader)
    reader.raise_problems()
    pairs, attempts = _with_ids(pairs, swapped, systems)
    pairs = pairs.assign(gold_winner=with_winners(pairs, gold_winners)["winner"])
    pairs = with_winners(pairs, winners)
    pairs = _with_orders_and_gold(pairs, swapped if "order" in rows else None, reader)
    # pairs of identical answers look alike, whatever their order
    same = pairs["first"].eq(pairs["second"])
    again = pairs.groupby(_KEY[:4], dropna=False).cumcount() + 1
    pairs["repeat"] = again.where(same | (keep == "all"), pairs["repeat"])
    reader.ask_about_equal_rows(pairs.assign(passed=None), _KEY)
    reader.raise_problems()
    rows = _rows_by_side(pairs[~same])
    gold = rows[ITEM].assign(passed=rows["gold"], labeller="own").dropna(subset="passed")
    made = {
        "cases": attempts[["skill", "case_id"]].drop_duplicates(),
        "attempts": attempts,
        "verdicts": rows.drop(columns="gold"),
        "gold": gold.drop_duplicates(),
        "pairwise": pairs.drop(columns="condition"),
    }
    return Frames(**reader.checked(made), **reader.facts())


def _add_usual_columns(reader: TableReader) -> None:
    """Find columns by their usual names for arguments that are not given."""
    frame, names = reader.frame, reader.names
    if "skill" in frame and not any(map(usual_condition, distinct_words(frame["skill"]))):
        names["skill"] = "skill"
    reader.find(_SIDES, columns_of_answers(frame, names.values()))
    for role in ("case", "winner", "gold", "grader", "order"):
        labels = reader.usual(role)
        if role == "order":
            labels = [label for label in labels if _are_orders(frame[label], label)]
        reader.find([role], [[label] for label in labels])
    label = plain_label(names.get("first", TEXTS[0]))
    if not any(word in label for word in TEXTS):
        reader.find(_TEXTS, columns_of_answers(frame, names.values(), texts=True))


def _order_words(label: Hashable) -> Mapping[str, int | None]:
    return SWAPS if "swap" in str(label).casefold() else ORDERS


def _are_orders(values: pd.Series, label: Hashable) -> bool:
    """Return whether all words of a column are known words for an order of presentation."""
    words = distinct_words(values)
    return bool(words) and all(_order_words(label).get(winner_word(word)) for word in words)


def _second_shown_first(rows: pd.DataFrame, reader: TableReader) -> pd.Series:
    """Return for each row whether the answer in ``second`` was shown first."""
    if "order" not in rows:
        return pd.Series(False, index=rows.index)
    words, n_problems = _order_words(reader.names["order"]), len(reader.problems)
    meanings = reader.meanings_of(rows["order"], "order", words)
    orders = rows["order"].astype("object").map(meanings.get)
    if len(reader.problems) == n_problems:
        reader.require_values(orders.isna(), "order")
    return orders.eq(2)


def _first_wins(
    values: pd.Series,
    role: str,
    pairs: pd.DataFrame,
    swapped: pd.Series,
    reader: TableReader,
) -> pd.Series:
    """Return 1 for each row in which the answer shown first won, 0 if it lost, and .5 for a tie.

    A graded preference is between 0 and 1. Rows without a verdict have a missing value. The answers
    in the columns ``first`` and ``second`` are called A and B.
    """
    values, words = values.astype("object"), dict(WINNERS)
    answers = pd.Series(None, values.index, dtype="object")
    for side, name in zip(_SIDES, "AB", strict=True):
        if side in reader.names:
            texts = values.map(lambda value: str(value).strip(), na_action="ignore")
            answers = answers.mask(texts.eq(pairs[side].str.strip()), name)
            words.setdefault(winner_word(reader.names[side]), name)
    both = answers.notna() & pairs["first"].eq(pairs["second"])
    if both.any():
        reader.add_change(role, "the value of two equal answers", "no verdict", both.sum())
        answers, values = answers.mask(both, None), values.mask(both, None)
    if answers.isna().all() and (graded := _graded(values, role, swapped, reader)) is not None:
        return graded
    others = values.mask(answers.notna(), None)
    plain_words = {winner_word(word) for word in distinct_words(others)}
    if "0" in plain_words and "2" not in plain_words:
        # in a column of 0 and 1, a 1 may be the second answer or "yes, the first won"
        words.pop("1")
    own_words = {*map(winner_word, reader.own_words(role))}
    meaning_of = reader.meanings_of(others, role, words)
    meanings = others.map(meaning_of.get, na_action="ignore").astype("object").fillna(answers)
    plain_ties = {*PLAIN_WINNERS, *own_words}
    ties = [word for word, meaning in meaning_of.items() if meaning == "tie"]
    odd_ties = {word: "a tie" for word in ties if winner_word(word) not in plain_ties}
    reader.add_mapping(others, role, odd_ties)
    by_place, is_letter = meanings.isin(["first", "second"]), meanings.isin(["A", "B"])
    # A may be the answer in the column `first`, or the answer shown first
    unclear = {
        plain_value(word): meaning
        for word, meaning in meaning_of.items()
        if meaning in ("A", "B") and winner_word(word) in WINNERS.keys() - own_words
    }
    if role == "winner" and swapped.any() and unclear:
        places = {word: _SIDES["AB".index(meaning)] for word, meaning in unclear.items()}
        answer, place = (argument("words", {"winner": own}) for own in (unclear, places))
        reader.add_problem(
            "winner",
            f"with {argument('order')}, {as_literal(next(iter(unclear)))} may be an answer or a "
            f"place. {answer}: the answer in the first or second column, in both orders; "
            f"{place}: the answer shown first or second.",
        )
    wins = meanings.isin(["A", "first"]) ^ (swapped & ~by_place)
    return wins.astype("float64").where(by_place | is_letter).mask(meanings.eq("tie"), 0.5)


def _graded(
    values: pd.Series, role: str, swapped: pd.Series, reader: TableReader
) -> pd.Series | None:
    """Return graded preferences for the answer shown first, from 0 to 1; None if these are words.

    The ends of the scale are the numbers in ``words=``.
    """
    numbers = pd.to_numeric(values, errors="coerce").astype("float64")
    own = pd.Series(reader.own_words(role), dtype="object")
    if numbers.notna().ne(values.notna()).any():
        return None
    own.index = pd.to_numeric(own.index.to_series(), errors="coerce").to_numpy(float)
    known = [*own.index] if own.index.notna().any() else [1.0, 2.0]
    if numbers.dropna().isin(known).all():
        return None
    own = own[own.index.notna() & own.isin(["A", "B", *_SIDES]).to_numpy()]
    ends: dict[Any, str] = own.to_dict()
    least, most = numbers.min(), numbers.max()
    if not ends and least >= 1 and most <= 2 and not swapped.any():
        ends = {1.0: "A", 2.0: "B"}
    if set(ends.values()) in ({"A", "B"}, {*_SIDES}) and len(ends) == 2:
        low, high = sorted(ends)
        if least < low or most > high:
            reader.add_problem(role, f"found {least:g} to {most:g}, outside {low:g} to {high:g}.")
        wins = (numbers - low) / (high - low)
        wins = wins if ends[high] in ("A", "first") else 1.0 - wins
        found = f"graded preferences from {low:g} to {high:g}"
        done = f"{low:g} means {ends[low]}, {high:g} means {ends[high]}"
        reader.add_change(role, found, done, len(numbers), warns=False)
        return pd.Series(wins.where(~swapped | (ends[low] in _SIDES), 1.0 - wins))
    if not ends and numbers.nunique() > len(_SIDES):
        high = math.ceil(max(-least, most))
        scale = {-high if least < 0 else math.floor(least): "A", high: "B"}
        forms = (scale, dict(zip(scale, "BA", strict=True)))
        reader.add_problem(
            role,
            f"found numbers from {least:g} to {most:g}. For graded preferences, name the "
            f"ends of the scale, such as {' or '.join(argument('words', {role: f}) for f in forms)}"
            ". A and B are the columns first and second; for the places use first and second.",
        )
        return numbers
    return None


def _hold_systems(pairs: pd.DataFrame, reader: TableReader) -> bool:
    """Return whether the answers are names of systems and not texts."""
    if "first" not in reader.names:
        return True
    label = plain_label(reader.names["first"])
    if any(word in label for word in (*SYSTEMS, *TEXTS)):
        return any(word in label for word in SYSTEMS)
    sides = pairs.melt("case_id", list(_SIDES))
    values = sides["value"]
    is_long = values.str.len().gt(_LONG_NAME).any() or values.str.contains("\n", regex=False).any()
    systems = not is_long and bool(sides.groupby("value")["case_id"].nunique().gt(1).any())
    kind = f"names of {plural(values.nunique(), 'system')}" if systems else "texts of answers"
    done = f"{kind}; rename the columns to model_a and model_b, or output_a and output_b, to decide"
    reader.changes.append(Change("first=, second=", "read by their values", done, len(pairs)))
    return systems


def _with_ids(
    pairs: pd.DataFrame, swapped: pd.Series, systems: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Replace the answers by ids, in the order shown; also return the attempts with these ids."""
    keys = ["skill", "case_id", "condition"]
    first, second = (
        pairs[[*keys, side, text]].set_axis([*keys, "value", "answer"], axis=1)
        for side, text in zip(_SIDES, _TEXTS, strict=True)
    )
    shown = [first.where(~swapped, second), second.where(~swapped, first)]
    answers = pd.concat(shown, keys=_SIDES, names=["side", "row"]).reset_index()
    answers = answers.sort_values("row", kind="stable", ignore_index=True)
    names = ["case_id", "value", "answer"]
    number = answers.groupby(names, dropna=False, sort=False).ngroup()
    attempts = answers[~number.duplicated()].drop(columns=["side", "row"]).reset_index(drop=True)
    value = attempts["value"]
    label = value.where(~value.str.isdigit(), "system " + value)  # a number is that of a text
    if not systems:
        label = (attempts.groupby("case_id", sort=False).cumcount() + 1).astype("str")
        attempts["answer"] = value
    ids = attempts["case_id"] + "/" + label
    again = ids.groupby(ids).cumcount() + 1  # texts of one system, or names that contain slashes
    ids = ids.where(again.eq(1), ids + "#" + again.astype("str"))
    shown_ids = ids.loc[number].to_numpy()
    pairs = pairs.assign(**{side: shown_ids[answers["side"].eq(side)] for side in _SIDES})
    same = pairs[_TEXTS[0]].eq(pairs[_TEXTS[1]])  # two systems with one answer
    pairs["second"] = pairs["second"].where(~same, pairs["first"])
    attempts = attempts.assign(attempt_id=ids, status="ok", repeat=again)
    attempts = attempts.assign(n_words=n_words(attempts["answer"]))
    attempts = attempts.assign(agent=value) if systems else attempts
    return pairs.drop(columns=list(_TEXTS)), attempts.drop(columns="value")


def with_winners(pairs: pd.DataFrame, wins: pd.Series) -> pd.DataFrame:
    """Add the id and the position of the winner.

    ``wins`` is 1 if the answer in ``first`` won, 0 if it lost, .5 for a tie, between these values
    for a graded preference, and missing without a verdict.
    """
    winner = pairs["first"].where(wins.gt(0.5), pairs["second"]).mask(wins.eq(0.5), "tie")
    winner = winner.where(wins.notna())
    position = (2 - wins.gt(0.5).astype("Int64")).where(wins.notna() & wins.ne(0.5))
    graded = None if wins.dropna().isin([0.0, 0.5, 1.0]).all() else wins
    return pairs.assign(winner=winner, winner_position=position, preference=graded)


def _with_orders_and_gold(
    pairs: pd.DataFrame, swapped: pd.Series | None, reader: TableReader
) -> pd.DataFrame:
    """Add the order of each row; copy the gold winner to all rows of its pair."""
    both = zip(pairs["first"], pairs["second"], strict=True)
    names = pd.Series(list(map(frozenset, both)), dtype="object")
    of_pair = pairs.groupby([names, pairs["repeat"]], sort=False)
    if swapped is None:
        swapped = pairs["first"].ne(of_pair["first"].transform("first"))
    pairs = pairs.assign(order=swapped.astype("Int64") + 1)
    several = of_pair["gold_winner"].transform("nunique").gt(1)
    if several.any():
        reader.add_problem(
            "gold",
            f"differs between the rows of a pair (case '{pairs.loc[several, 'case_id'].iloc[0]}')."
            " A and B are the first and the second column in both orders; for places as shown use "
            "the words first and second.",
        )
    return pairs.assign(gold_winner=of_pair["gold_winner"].transform("first"))


def compare_answers(verdicts: pd.DataFrame, attempts: pd.DataFrame) -> pd.Series:
    """Return for each verdict whether its check compares the answer with another attempt."""
    others = verdicts["check_id"].str.extract(rf"^{OF_PAIR}(.*?)(?:, order 2)?(?:, repeat \d+)?$")
    return others[0].isin(attempts["attempt_id"]) & others[0].notna()


def _rows_by_side(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return two verdicts per shown pair, one for each answer; ``gold`` is its label."""
    sides = []
    for own, other in (_SIDES, _SIDES[::-1]):
        check_id = OF_PAIR + pairs[other]
        check_id = check_id.where(pairs["order"].eq(1), check_id + ", order 2")
        again = check_id + ", repeat " + pairs["repeat"].astype("str")
        check_id = check_id.where(pairs["repeat"].eq(1), again)
        sides.append(pairs.assign(attempt_id=pairs[own], check_id=check_id))
    rows = pd.concat(sides).sort_index(kind="stable").reset_index(drop=True)
    for column, role in (("winner", "passed"), ("gold_winner", "gold")):
        is_winner = rows[column].eq(rows["attempt_id"]).astype("boolean")
        rows[role] = is_winner.where(rows[column].notna())
    status = rows["passed"].notna().map({True: "ok", False: None})
    taken = ["order", "winner", "winner_position", "gold_winner", "preference"]
    rows = rows.drop(columns=[*_SIDES, *taken])
    return rows.assign(repeat=1, round=1, status=status)


def pairwise_of(
    pairs: pd.DataFrame,
    attempts: pd.DataFrame,
    meanings: Mapping[str, str],
    report: Callable[[str, str, str], None],
) -> pd.DataFrame:
    """Return comparisons as a pairwise frame, with the ids of the attempts compared.

    ``meanings`` has the condition of each word for an arm. A comparison is left out and reported if
    one of its two answers has no results.
    """
    key = ["skill", "case_id", "condition", "repeat"]
    ids = attempts.drop_duplicates(key).set_index(key)["attempt_id"].to_dict()
    pairs = pairs.assign(case_id=pairs["case"].astype("str"), repeat=pairs.get("repeat", 1))
    pairs["grader"] = pairs.get("grader", pd.Series(None, pairs.index)).fillna("comparator")
    for side in ("first", "second"):
        words = pairs[side].astype("str")
        pairs["condition"] = words.map(meanings).fillna(words)
        cells = list(pairs[key].itertuples(index=False, name=None))
        pairs[side] = [ids.get(cell) for cell in cells]
        for _, case, condition, _ in (cell for cell in cells if cell not in ids):
            what = f"of case '{case}', which has no answer under '{condition}'"
            arms = argument("words", {"condition": dict.fromkeys(words.unique(), UNKNOWN)})
            report("comparisons", what, f"left out; {arms} names the arm of each side")
        pairs = pairs[pairs[side].notna()]
    if pairs.empty:
        return empty("pairwise")
    wins = pairs["winner"].map({"first": 1.0, "second": 0.0, "tie": 0.5})
    pairs = with_winners(pairs, wins)
    place = ["skill", "case_id", "grader", "first", "second"]
    pairs = pairs.assign(order=pairs.groupby(place).cumcount() + 1)
    return check(pairs[columns_of(pairs, *CONTRACTS["pairwise"].columns)], "pairwise")


_NEEDED = ("text", "source", "level")
# fewest words, or characters, of the text of a source; a shorter value may be its name
_FEWEST_WORDS, _FEWEST_LETTERS = 5, 20


def frames_of_passages(reader: TableReader, documents: Mapping[str, str]) -> Frames:
    """Return the passages of a table with one row per text; ``documents`` are texts of sources."""
    for role in _NEEDED:
        reader.find([role], [[label] for label in reader.usual(role)])
    rows = reader.read(*_NEEDED)
    if reader.require_direction("level", rows["level"], ("copied", "fresh")):
        reader.raise_problems()
    rows["level"] = reader.mapped(rows["level"], "level").astype("str")
    for role in columns_of(rows, "text", "question", "document"):
        rows[role] = reader.as_texts(rows[role], role, needed=False)
    rows["skill"], texts = _named_sources(rows, documents, reader)
    reader.raise_problems()
    if "document" in rows:
        rows["document"] = rows["skill"] + "/" + rows["document"].fillna("none")
    rows = rows.assign(document=rows.get("document", rows["skill"]))
    rows["passage_id"] = rows["skill"] + "/" + (rows.index + 1).astype("str")
    rows = _labelled_rows(rows, reader)
    return Frames(**reader.checked({"passages": rows}), **reader.facts(), skills=texts)


def _named_sources(
    rows: pd.DataFrame, documents: Mapping[str, str], reader: TableReader
) -> tuple[pd.Series, dict[str, str]]:
    """Return the name of each row's source, and the texts of the sources by name."""
    names = reader.as_texts(rows.pop("source"), "source")
    is_source = rows["level"].eq(SOURCE)
    texts = dict(documents)
    if is_source.any():
        twice = names[is_source][names[is_source].duplicated()]
        if len(twice):
            reader.add_problem(
                "level",
                f"several rows are the text of source '{twice.iloc[0]}'. "
                f"{argument('words', {'level': {'original': UNKNOWN}})} says what the word means.",
            )
        texts |= dict(zip(names[is_source], rows.loc[is_source, "text"].fillna(""), strict=True))
        done = "taken as the texts of the sources"
        reader.add_change("level", "rows of sources", done, is_source.sum())
    if not texts:
        return _numbered_sources(names, reader)
    for slug in names.dropna().unique():
        if slug not in texts:
            n = plural(int(names.eq(slug).sum()), "row")
            words = instead(slug, texts)
            reader.add_problem(
                "source", f"'{slug[:60]}' ({n}) has no text in {argument('skills')}{words}"
            )
        elif not isinstance(texts[slug], str) or not texts[slug].strip():
            reader.problems.append(f"{argument('skills')}: '{slug[:60]}' has no text.")
    return names, {slug: texts[slug] for slug in names.dropna().unique() if slug in texts}


def _numbered_sources(texts: pd.Series, reader: TableReader) -> tuple[pd.Series, dict[str, str]]:
    """Call the source texts of the table "source 1", "source 2" and so on.

    A value that is too short for a text is reported, because it is probably the name of a source.
    """
    several = pd.unique(texts.dropna())
    short = [t for t in several if len(t.split()) < _FEWEST_WORDS and _is_short(t)]
    if short:
        reader.add_problem(
            "source",
            f"found {plural(len(short), 'name')}, such as '{short[0]}'; allowed: the text of the "
            f"source, or names with {argument('skills')}, the texts by name.",
        )
    names = {text: f"source {number}" for number, text in enumerate(several, start=1)}
    return texts.map(names).astype("str"), {name: text for text, name in names.items()}


def _is_short(text: str) -> bool:
    """Return whether a value of few words is too short for the text of a source.

    ASCII values are always too short. Other values may be in a script without spaces, such as
    Chinese; they are too short if they have few characters.
    """
    return text.isascii() or len(text) < _FEWEST_LETTERS


def _labelled_rows(rows: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """Return the rows with a text and a label, except rows of sources; report incomplete rows."""
    rows = rows[~rows["level"].eq(SOURCE).fillna(False)]
    for role in ("text", "level"):
        lacking = rows[role].isna() | rows[role].eq("").fillna(False)
        if lacking.any():
            reader.add_change(role, "missing", "row left out", lacking.sum())
        rows = rows[~lacking]
    if rows.empty:
        reader.problems.append("no row has both a text and a level.")
    return rows.reset_index(drop=True)
