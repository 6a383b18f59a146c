"""Conversion of a researcher's own table to checked frames: ids are made and words mapped."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from os import PathLike
from typing import Any, Literal

import pandas as pd

from skillcomp.errors import FrameError, argument, literal, plural, require_known
from skillcomp.frames.check import as_list, empty, require_frame
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.contracts import CASE, CAUTION, CONTRACTS, LINKED_BY, NAMED_REPEATS, PLANNED
from skillcomp.frames.estimates import (
    columns_of,
    copied_skills,
    is_among,
    refuse_ids_as_repeats,
    with_agent_models,
)
from skillcomp.frames.from_store import n_words, tasks_of, with_facts_of_cases
from skillcomp.frames.outcomes import UNANSWERED, with_asked, with_cases, without_unanswered
from skillcomp.frames.outcomes import outcomes as outcomes_of
from skillcomp.frames.reference_labels import ITEM, RESULTS, Drawn, check_draw, compared_rows
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_pairs import frames_of_pairs
from skillcomp.frames.table_passages import frames_of_passages
from skillcomp.frames.table_reader import (
    GRADED,
    TRY,
    WHAT,
    Change,
    TableReader,
    made_ids,
)
from skillcomp.frames.words import ARGUMENTS, ColumnName, kind_of_table
from skillcomp.io.skills import read_skill
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
