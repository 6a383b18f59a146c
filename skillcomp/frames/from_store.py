"""Readers of a store: each returns one checked frame and is named after its rows.

By default a reader returns the plain study: unperturbed attempts, first gradings, and one gold
label per item if labels were adjudicated. Arguments add perturbed copies, later rounds of grading
and the labels of single labellers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from skillcomp.errors import FrameError, instead, literal, plural
from skillcomp.frames.check import as_list, check, empty
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CAUTION, CONTRACTS
from skillcomp.frames.estimates import rows_of_group, with_agent_models
from skillcomp.frames.outcomes import outcomes, with_asked
from skillcomp.frames.reference_labels import ADJUDICATED, ITEM, compared_rows, one_label
from skillcomp.frames.save_frames import Frames, saved_facts
from skillcomp.grading_rules import normalise_quote
from skillcomp.io.event_streams import read_trace
from skillcomp.io.files import as_object, read_json
from skillcomp.io.json_lines import read_lines
from skillcomp.io.store import SAVED_FRAMES, SOURCE, RunStore, require_store
from skillcomp.io.trigger_suites import kind_of_prompt
from skillcomp.ngrams import count_words
from skillcomp.records import BLOOM, KNOWLEDGE, SCHEMA_WEIGHTS, Suite, dimension_family

Chosen = str | Sequence[str] | None  # One name, several, "all", or None for the default.
LABELLERS_FILE = "labellers.json"  # a store's file for the kind and family of each labeller
PLAIN = "none"
_OF_CHECKS = [*CASE, "check_id", "check_kind", "goal"]
_DIGITS = 12  # number of digits of a sha256 to show; enough to distinguish two texts


def cases(store: RunStore) -> pd.DataFrame:
    """Return the cases of a study, one row per case.

    Parameters
    ----------
    store : RunStore
        The recorded study; its suites are read.

    Returns
    -------
    pandas.DataFrame
        One row per case in suite order: skill, suite, case_id (``suite/id``), prompt, dimension,
        comprehension_dimension (C1 to C9, or the study's own names), concept_field, transfer
        (near, far or NA), criticality, bloom, schema_weight (NaN if the source schema has no
        weight, as for C7 to C9), contrast_of (case_id of the other case of a contrast pair), task
        (equal for cases of several skills that have the same name and prompt), should_trigger,
        prompt_kind (explicit, implicit or negative; NA if the suite tests no triggers), n_checks.
        If a case has a kind of knowledge, the last column is ``knowledge`` (factual, conceptual,
        procedural, metacognitive). Outcomes have this column, too, so that changes can be estimated
        by it. Words outside the vocabulary are NA; ``store.suites[slug].problems`` lists them.
    """
    if (saved := _saved_cases(store)) is not None:
        return saved
    return cases_of(store.suites.values())


def cases_of(suites: Collection[Suite]) -> pd.DataFrame:
    """Return the cases frame of some suites."""
    pairs = [(suite, case) for suite in suites for case in suite.cases]
    if not pairs:
        return empty("cases")
    contract = CONTRACTS["cases"]
    table = pd.DataFrame([dict(case) for _, case in pairs])
    table = table.reindex(columns=[*contract.columns, "knowledge"])
    family = dimension_family(table["comprehension_dimension"])
    own = {"comprehension_dimension": family, "knowledge": KNOWLEDGE}
    for name, words in {**contract.allowed, **own}.items():
        table[name] = table[name].where(table[name].isin(words))
    dimension = table["comprehension_dimension"]
    kinds = [kind_of_prompt(case.prompt, suite.skill, case.should_trigger) for suite, case in pairs]
    table = table.assign(
        skill=[suite.skill for suite, _ in pairs],
        suite=[suite.slug for suite, _ in pairs],
        bloom=dimension.map(BLOOM),
        schema_weight=dimension.map(SCHEMA_WEIGHTS),
        prompt_kind=table["prompt_kind"].fillna(pd.Series(kinds)),
        n_checks=[len(case.checks) for _, case in pairs],
    )
    if table["knowledge"].isna().all():
        table = table.drop(columns="knowledge")
    made = check(table, "cases")
    return made.assign(task=tasks_of(made))


def _saved_cases(store: RunStore) -> pd.DataFrame | None:
    """Return the cases of a store that `Frames.save` wrote; None for any other store."""
    if SAVED_FRAMES not in require_store(store).manifest:
        return None
    rows = list(store.records("cases"))
    if not rows:
        return empty("cases")
    saved = pd.DataFrame(rows)
    empty_columns = [name for name in saved if saved[name].isna().all()]
    return check(saved.astype(dict.fromkeys(empty_columns, "str")), "cases")


def coverage(cases: pd.DataFrame) -> pd.DataFrame:
    """Count the cases of each dimension, and how many are near and far transfer.

    Parameters
    ----------
    cases : pandas.DataFrame
        A cases frame.

    Returns
    -------
    pandas.DataFrame
        One row per skill and dimension, also for dimensions without a case: skill, ``dimension``,
        ``case_ids`` (separated by commas), ``n_cases``, ``n_near``, ``n_far`` and ``share`` of the
        skill's cases. The dimension is ``comprehension_dimension``, or the column ``dimension`` if
        no case of the frame has one. Cases without a dimension are in a last row of their skill.
    """
    checked = check(cases, "cases")
    names = checked["comprehension_dimension"]
    if names.isna().all():
        names = checked["dimension"]
        family = tuple(sorted(names.dropna().unique()))
    else:
        family = dimension_family(names)
    rows = []
    for skill, part in checked.assign(dimension=names).groupby("skill", sort=False):
        others = [None] if part["dimension"].isna().any() else []
        for name in [*family, *others]:
            mine = rows_of_group(part, {"dimension": name})
            transfer = [int(mine["transfer"].eq(word).sum()) for word in ("near", "far")]
            ids, n = ", ".join(mine["case_id"]), len(mine)
            rows.append([skill, name, ids, n, *transfer, n / len(part)])
    columns = ["skill", "dimension", "case_ids", "n_cases", "n_near", "n_far", "share"]
    return pd.DataFrame(rows, columns=columns)


def with_facts_of_cases(attempts: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Add to attempts the columns that link cases: task, contrast pair and a user's own columns."""
    taken = {*CONTRACTS["cases"].columns, *CONTRACTS["attempts"].columns}
    own = [name for name in cases if name not in taken]
    return attempts.merge(cases[[*CASE, "task", "contrast_of", *own]], on=CASE, how="left")


def tasks_of(cases: pd.DataFrame, shared_cases: bool | None = None) -> pd.Series:
    """Return the task of each case; two cases with equal tasks are one case under two skills.

    Parameters
    ----------
    cases : pandas.DataFrame
        skill, case_id and prompt, one row per case.
    shared_cases : bool, optional
        Whether equal case names under several skills are the same task. Default: if their prompts
        are equal.

    Returns
    -------
    pandas.Series
        The tasks as text. By default, the task of a case is NA if its name occurs under a single
        skill, or if it has no prompt.
    """
    if shared_cases:
        return cases["case_id"]
    own = cases["skill"] + "/" + cases["case_id"]
    if shared_cases is not None:
        return own
    several = cases.groupby("case_id")["skill"].transform("nunique").gt(1)
    first = own.groupby([cases["case_id"], cases["prompt"]]).transform("first")
    return first.where(several & cases["prompt"].notna()).astype("str")


def checks(store: RunStore) -> pd.DataFrame:
    """Return the checks of each case, one row per check.

    Parameters
    ----------
    store : RunStore
        The recorded study; its suites are read.

    Returns
    -------
    pandas.DataFrame
        One row per check of a case: skill, case_id, check_id, check_kind (positive or negative),
        goal (outcome, process, style, efficiency), description, judge (contains, pytest or
        llm-rubric; NA if a grader reads the description). In a store of saved frames, the checks
        are those of the verdicts.
    """
    if SAVED_FRAMES in require_store(store).manifest:
        rows_of_checks = verdicts(store, perturbation="all", round="all")
        return check(
            rows_of_checks[_OF_CHECKS].groupby(_OF_CHECKS[:3]).first().reset_index(), "checks"
        )
    rows = [
        {
            "skill": suite.skill,
            "case_id": case.case_id,
            **check_record.model_dump(exclude={"judge"}),
            "judge": check_record.judge.type if check_record.judge else None,
        }
        for suite in store.suites.values()
        for case in suite.cases
        for check_record in case.checks
    ]
    return check(pd.DataFrame(rows), "checks") if rows else empty("checks")


def attempts(
    store: RunStore | Frames,
    *,
    perturbation: Chosen = None,
    asked: pd.DataFrame | Literal["plan"] | None = None,
) -> pd.DataFrame:
    """Return the recorded answers, one row per attempt.

    Parameters
    ----------
    store : RunStore or Frames
        The recorded study, or its frames, whose attempts are returned whole.
    perturbation : str or sequence of str, optional
        None (default) selects the unperturbed attempts, ``"all"`` selects all attempts, and one or
        several names (such as ``"pad"``) select the copies with these perturbations. In a
        sequence, ``"none"`` means the unperturbed attempts.
    asked : pandas.DataFrame or "plan", optional
        The planned attempts, as in :func:`skillcomp.from_frame`; ``"plan"`` means the plan that
        the store has recorded, if any. A planned attempt that was never made gets a row with the
        status ``error``.

    Returns
    -------
    pandas.DataFrame
        One row per attempt with the columns of the attempts contract. ``answer`` is NA after an
        error or a refusal; ``n_words`` counts the words of the answer (separated by white space or,
        in scripts without blanks, characters), NA without an answer; ``status`` is ok, error,
        refused, truncated, paused or timeout.

    Raises
    ------
    FrameError
        If the store has no such perturbation, or holds only a trial run with
        mock answers (``skillcomp evaluate --mock``).
    """
    if isinstance(store, Frames):
        frame, plan = store.attempts, []
    else:
        _require_measured(store)
        frame = _stored_frame(store, "attempts")
        frame["n_words"] = n_words(frame["answer"])
        frame = check(frame[_has_perturbation(frame["perturbation"], perturbation)], "attempts")
        plan = list(store.records("plan"))
        if (saved := _saved_cases(store)) is not None:
            frame = with_facts_of_cases(frame, saved)
    if isinstance(asked, str):
        asked = pd.DataFrame(plan) if plan else None
    return with_asked(frame, asked, "attempts")


def _require_measured(store: RunStore) -> None:
    if require_store(store).manifest.get("mock"):
        raise FrameError(
            f"{store.path} is a trial of the wiring (--mock): nothing was asked and nothing "
            "judged, so there is nothing to analyse."
        )


def n_words(answers: pd.Series) -> pd.Series:
    """Count the words of each answer; NA without an answer."""
    counts = [count_words(a) if isinstance(a, str) else None for a in answers.to_numpy(object)]
    return pd.Series(counts, index=answers.index, dtype="Int64")


def _has_perturbation(values: pd.Series, perturbation: Chosen) -> pd.Series:
    if perturbation is None:
        return values.isna()
    if perturbation == "all":
        return pd.Series(True, index=values.index)
    names = _stored_names(perturbation, [*values.dropna().unique(), PLAIN], "perturbation")
    return values.fillna(PLAIN).isin(names)


def verdicts(
    store: RunStore,
    *,
    perturbation: Chosen = None,
    round: int | Sequence[int] | Literal["all"] = 1,
) -> pd.DataFrame:
    """Return the verdicts, one row per attempt, check, grader version and round.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        As in :func:`attempts`; None selects verdicts on unperturbed attempts.
    round : int or sequence of int or "all", default 1
        1 is the first grading; 2 and above are later repetitions. A round that was not recorded
        has no rows.

    Returns
    -------
    pandas.DataFrame
        The columns of the verdicts contract. ``perturbation`` names the change of an altered copy
        and is NA for original answers. Analyses refuse to count copies as repeats unless ``by``
        contains this column. ``passed`` is NA unless ``status`` is ok, so that an error of the
        grader never counts as a fail. ``check_kind`` and ``goal`` come from the suite if the
        verdict has none. ``evidence_found`` is True if the answer contains the quote, after white
        space and quotation marks are normalised; NA without a quote or an answer.

    Raises
    ------
    FrameError
        If the attempt of a verdict is not in the store, the store has no such ``perturbation``,
        or ``round`` is not a number, several numbers or "all".
    """
    _require_measured(store)
    frame = _stored_frame(store, "verdicts", "check_weight")
    if frame["check_weight"].isna().all():
        del frame["check_weight"]
    # a malformed verdict does not count if a later request gave another one
    place = ["attempt_id", "check_id", "grader", "grader_version", "round"]
    replaced = frame["status"].eq("malformed") & frame.duplicated(place, keep="last")
    frame = frame[~replaced]
    every = _stored_frame(store, "attempts")
    if every["attempt_id"].duplicated().any():
        check(every, "attempts")  # raises FrameError: ids must be unique
    orphans = frame.loc[~frame["attempt_id"].isin(every["attempt_id"]), "attempt_id"]
    if len(orphans):
        names = ", ".join(orphans.unique()[:3])
        n = plural(len(orphans), "row")
        raise FrameError(f"verdicts: {n} of attempts that the store does not hold: {names} ...")
    about = every[_has_perturbation(every["perturbation"], perturbation)]
    frame = frame[_is_in_rounds(frame["round"], round)].drop(columns=ATTEMPT_KEYS[1:])
    frame = frame.merge(about[[*ATTEMPT_KEYS, "answer"]], on="attempt_id")
    frame["passed"] = frame["passed"].where(frame["status"].eq("ok"))
    frame = _with_check_columns(frame, store)
    frame["evidence_found"] = _evidence_found(frame["evidence_quote"], frame.pop("answer"))
    if SAVED_FRAMES in store.manifest and CAUTION in (about := cases(store)):
        frame = frame.merge(about[[*CASE, CAUTION]], on=CASE, how="left")
    return with_agent_models(check(frame, "verdicts"), every)


def _is_in_rounds(values: pd.Series, round: int | Sequence[int] | str) -> pd.Series:
    if round == "all":
        return pd.Series(True, index=values.index)
    names = as_list(round)
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in names):
        raise FrameError(f"round: found {round!r}; allowed: a number, several numbers or 'all'.")
    return values.fillna(1).isin(names)


def _with_check_columns(frame: pd.DataFrame, store: RunStore) -> pd.DataFrame:
    names = ["check_kind", "goal"]
    has_kinds = not frame[names].isna().any(axis=None)
    if has_kinds or SAVED_FRAMES in store.manifest:
        return frame
    keys = pd.MultiIndex.from_frame(frame[[*CASE, "check_id"]])
    matches = checks(store).set_index(keys.names)[names].reindex(keys).reset_index(drop=True)
    return frame.assign(**frame[names].fillna(matches))


def _evidence_found(quotes: pd.Series, answers: pd.Series) -> pd.Series:
    normalised = cache(normalise_quote)

    def is_found(quote: object, answer: object) -> bool | None:
        if not (isinstance(quote, str) and quote.strip() and isinstance(answer, str)):
            return None
        # a quote that matches exactly needs no normalisation
        return quote in answer or normalised(quote) in normalised(answer)

    flags = map(is_found, quotes.to_numpy(object), answers.to_numpy(object))
    return pd.Series(list(flags), index=quotes.index, dtype="boolean")


def gold(store: RunStore, *, labeller: Chosen = None) -> pd.DataFrame:
    """Return the reference labels, one row per attempt, check and labeller.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    labeller : str or sequence of str, optional
        None (default) selects one label per item if the store has adjudicated labels: the
        adjudicated label or, without one, the label that all labellers agree on. If nothing was
        adjudicated, None selects the labels of every labeller, as ``"all"`` does. One or several
        names select the labels of these labellers.

    Returns
    -------
    pandas.DataFrame
        attempt_id, check_id, labeller, labeller_kind (person, model or program), labeller_family
        (of a model), passed (NA if the labeller gave no label), borderline, inclusion_probability
        (chance that the attempt was drawn for labelling), note. Where the labels have no kind or
        family, the file ``labellers.json`` of the store may give it for each labeller. With one
        label per item, labeller shows how it was chosen: ``adjudicated``, ``agreed``,
        ``disputed`` (not adjudicated: passed is NA), or the name of the only labeller with a
        label. If a labeller labelled an item several times, the last label counts. It must agree
        with the earlier ones or be marked as replacing them (``replaces``).

    Raises
    ------
    FrameError
        If ``labeller`` is not in the store, or a labeller contradicts an earlier label of their own
        without replacing it.
    """
    written = _stored_frame(store, "gold", "replaces")
    _refuse_contradictions(written, written.pop("replaces"))
    written = _with_labellers(written, store.path / LABELLERS_FILE)
    frame = check(written.drop_duplicates([*ITEM, "labeller"], keep="last"), "gold")
    if labeller == "all":
        return frame
    if labeller is None:
        return one_label(frame, "frames.gold") if frame["labeller"].eq(ADJUDICATED).any() else frame
    names = _stored_names(labeller, frame["labeller"].dropna().unique(), "labeller")
    return frame[frame["labeller"].isin(names)].reset_index(drop=True)


def _with_labellers(gold: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Fill in the kind and family of labellers from a JSON file.

    The file has the form ``{labeller: {"kind": ..., "family": ...}}``.
    """
    if not file.is_file():
        return gold
    about = read_json(file.resolve())
    if not all(isinstance(facts, dict) for facts in (about, *as_object(about).values())):
        raise FrameError(f'{file}: expected an object such as {{"ann": {{"kind": "person"}}}}.')
    for fact in ("kind", "family"):
        values = gold["labeller"].map({name: facts.get(fact) for name, facts in about.items()})
        gold[f"labeller_{fact}"] = gold[f"labeller_{fact}"].fillna(values)
    return gold


def _refuse_contradictions(gold: pd.DataFrame, replaces: pd.Series) -> None:
    """Raise FrameError if a labeller contradicts an earlier label without replacing it."""
    keys = [*ITEM, "labeller"]
    again = gold.duplicated(keys, keep=False)
    if not again.any():
        return
    version = replaces.fillna(False).groupby([gold[name] for name in keys], dropna=False).cumsum()
    labels = gold.assign(version=version)[again & gold["passed"].notna()]
    several = labels.groupby([*keys, "version"], dropna=False)["passed"].transform("nunique").gt(1)
    if several.any():
        first = labels[several].iloc[0]
        raise FrameError(
            f"gold: {plural(int(several.sum()), 'row')} of labellers who contradict themselves; "
            f"the first: {', '.join(f'{name} {first[name]!r}' for name in keys)}. Remove the wrong "
            'line from gold.jsonl, or add "replaces": true to the later one.'
        )


def pairwise(store: RunStore, *, perturbation: Chosen = None) -> pd.DataFrame:
    """Return pairwise judgements, one row per comparison and order of presentation.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        As in :func:`attempts`; None selects comparisons of two unperturbed attempts, and a name
        such as ``"bullets"`` those of such a copy with its original.

    Returns
    -------
    pandas.DataFrame
        skill, case_id, grader, grader_family, grader_version, order, first and second (attempt ids
        in the order shown), winner (attempt id or "tie"), winner_position (1 or 2; NA for a tie),
        gold_winner, rationale. A comparison that failed has no row or, in a store of saved frames,
        no winner.

    Raises
    ------
    FrameError
        If the position of a winner is not that of the winning attempt, or the store has no such
        ``perturbation``.
    """
    pairs = check(_stored_frame(store, "pairwise"), "pairwise")
    about = _stored_frame(store, "attempts").drop_duplicates("attempt_id")
    change = about.set_index("attempt_id")["perturbation"]
    change = pairs["first"].map(change).fillna(pairs["second"].map(change))
    pairs = pairs[_has_perturbation(change, perturbation)].reset_index(drop=True)
    winner, position = pairs["winner"], pairs["winner_position"]
    wrong = winner.isna() | (winner.eq(pairs["first"]) & position.eq(2))
    wrong |= winner.eq(pairs["second"]) & position.eq(1)
    rows = pairs[wrong & position.notna() & pairs["first"].ne(pairs["second"])]
    if len(rows):
        first = rows[["case_id", "first", "second", "winner", "winner_position"]].iloc[0]
        raise FrameError(
            f"pairwise: column 'winner_position' contradicts 'winner' in "
            f"{plural(len(rows), 'row')}; the first: {first.dropna().astype(str).to_dict()}; "
            "expected 1 if the first attempt wins, 2 if the second does, missing for a tie."
        )
    # in saved frames, a tie has the winner "tie", and a missing winner means a failed comparison
    failed = SAVED_FRAMES in store.manifest
    return pairs if failed else pairs.assign(winner=winner.fillna("tie"))


def invocations(store: RunStore | Frames, *, perturbation: Chosen = None) -> pd.DataFrame:
    """Return the invocations of skills, one row per attempt and skill on offer.

    Parameters
    ----------
    store : RunStore or Frames
        The recorded study, or the log of a suite of triggers that `skillcomp.read_results` read.
    perturbation : str or sequence of str, optional
        As in :func:`attempts`.

    Returns
    -------
    pandas.DataFrame
        attempt_id, skill and case_id (of the case), condition, repeat, agent, perturbation,
        offered (the skill on offer), invoked, should_invoke. ``invoked`` is NA if the program does
        not report it, or if the attempt ended early (an error, a time-out) without invoking the
        skill. ``should_invoke`` follows the case's ``right_skills``; without them it is
        ``should_trigger`` for the case's own skill and NA for others. An attempt without a skill
        on offer has no row.
    """
    columns = ("status", "offered", "invoked")
    if isinstance(store, Frames):
        table = store.attempts.reindex(columns=[*ATTEMPT_KEYS, *columns])
    else:
        table = _attempt_rows(store, perturbation, *columns)
    table = table[table["offered"].notna() | table["invoked"].notna()]
    facts = {
        case: (skill, should, _skills_in(right))
        for case, skill, should, right in _rows_of_facts(store)
    }
    rows = []
    for attempt in table.to_dict("records"):
        fired, on_offer = (_skills_in(attempt[name]) for name in ("invoked", "offered"))
        own, should, right = facts.get(attempt["case_id"], (None, None, None))
        keys = {name: attempt[name] for name in ATTEMPT_KEYS}
        for name in dict.fromkeys([*(on_offer or ()), *(fired or ())]):
            did = None if fired is None else name in fired
            ought = (should if name == own else None) if right is None else name in right
            unended = not did and attempt["status"] != "ok"
            is_used = None if unended else did
            rows.append({**keys, "offered": name, "should_invoke": ought, "invoked": is_used})
    return check(pd.DataFrame(rows), "invocations") if rows else empty("invocations")


def _rows_of_facts(store: RunStore | Frames) -> Iterable[Sequence[Any]]:
    """Return case_id, skill, should_trigger and right_skills of each case."""
    if isinstance(store, RunStore) and SAVED_FRAMES not in store.manifest:
        every = ((suite.skill, case) for suite in store.suites.values() for case in suite.cases)
        return [(c.case_id, skill, c.should_trigger, c.right_skills) for skill, c in every]
    names = ["case_id", "skill", "should_trigger", "right_skills"]
    table = cases(store) if isinstance(store, RunStore) else store.cases
    return table.reindex(columns=names).itertuples(index=False, name=None)


def _skills_in(value: Any) -> list[str] | None:
    """Return skills as a list, from a list or a text such as "tea, coffee"; None if unknown.

    The text "none" means no skill.
    """
    if isinstance(value, str):
        return [] if value == PLAIN else value.split(", ")
    return list(value) if isinstance(value, Sequence | np.ndarray) else None


def events(store: RunStore, *, perturbation: Chosen = None) -> pd.DataFrame:
    """Return the events of the agents' traces, one row per event.

    Parameters
    ----------
    store : RunStore
        The recorded study; the traces of all its attempts are read, including those without
        an answer.
    perturbation : str or sequence of str, optional
        As in :func:`skillcomp.frames.attempts`.

    Returns
    -------
    pandas.DataFrame
        One row per event: the keys of the attempt, ordinal (from 1), turn, kind (session, turn,
        result, message, reasoning, command, skill, tool, file_change, web_search, todo, subagent,
        retry, error, other), tool (its name; for kind other, the type of the event), text (the
        text or name; for a command, the command), status (completed, failed, declined,
        in_progress), exit_code (of a command; NA if not reported), read_only (NA if unknown),
        in_subagent, input_tokens, cached_tokens and output_tokens. Each count of
        tokens that the agent reported appears in one event only, so the columns can be summed. An
        attempt without a trace has no row.

    Notes
    -----
    The formats are ``claude -p --output-format stream-json`` and ``codex exec --json``. An item
    that spans several lines (an item of codex, a tool of claude and its result) is one event, at
    the place of its first line and with its last status. A command is read-only if all programs
    in it are known to write nothing.
    """
    table = _attempt_rows(store, perturbation, "trace").dropna(subset=["trace"])
    rows = [
        {**attempt, "ordinal": ordinal, **asdict(step)}
        for attempt in table.to_dict("records")
        for ordinal, step in enumerate(read_trace(attempt.pop("trace")).steps, start=1)
    ]
    return check(pd.DataFrame(rows), "events") if rows else empty("events")


def commands(store: RunStore, *, perturbation: Chosen = None) -> pd.DataFrame:
    """Return the shell commands that each agent ran, one row per command.

    Parameters
    ----------
    store : RunStore
        The recorded study.
    perturbation : str or sequence of str, optional
        As in :func:`skillcomp.frames.attempts`.

    Returns
    -------
    pandas.DataFrame
        The rows of :func:`events` with kind ``command``, except declined commands. ``text`` is the
        command and ``ordinal`` its place among all events of the attempt.
    """
    frame = events(store, perturbation=perturbation)
    ran = frame["kind"].eq("command") & frame["status"].ne("declined").fillna(True)
    return frame[ran].reset_index(drop=True)


def runs(stores: Mapping[str, RunStore]) -> pd.DataFrame:
    """Return the properties of each run, and which of them changed since the previous run.

    Parameters
    ----------
    stores : mapping of str to RunStore
        The runs by name, the oldest first, for example the stores of trigger runs by run-id.

    Returns
    -------
    pandas.DataFrame
        One row per run and property: run, what (``text of <skill>``, ``description of <skill>``,
        ``prompts of <suite>``, ``agent``, ``model``, ``settings``, ``skills on offer``,
        ``grader <name>``), value (a name, or the first digits of a sha256; NA if only the
        previous run has the property) and changed (False in the first run).

    See Also
    --------
    skillcomp.deltas.over_time : The scores of these runs, paired case by case.
    """
    if not isinstance(stores, Mapping):
        raise FrameError(
            f"runs: expected a mapping of names to stores, found {type(stores).__name__} "
            f"{literal(stores)}."
        )
    rows = []
    before: dict[str, str] | None = None
    for name, store in stores.items():
        now = _made_with(store)
        for what in dict.fromkeys([*now, *(before or {})]):
            changed = before is not None and now.get(what) != before.get(what)
            rows.append({"run": name, "what": what, "value": now.get(what), "changed": changed})
        before = now
    columns = {"run": "str", "what": "str", "value": "str", "changed": "bool"}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def _made_with(store: RunStore) -> dict[str, str]:
    parts = {}
    for slug, skill in require_store(store).skills.items():
        parts[f"text of {slug}"] = skill.sha256[:_DIGITS]
        parts[f"description of {slug}"] = _short_hash([skill.description])
    for slug, suite in store.suites.items():
        parts[f"prompts of {slug}"] = suite.sha256[:_DIGITS]
    attempts = store.table("attempts")
    for what, column in (("agent", "agent"), ("model", "agent_model"), ("settings", "settings")):
        names = sorted(filter(None, set(attempts.column(column).to_pylist())))
        if names:
            parts[what] = _short_hash(names) if what == "settings" else ", ".join(names)
    offered = sorted(invocations(store, perturbation="all")["offered"].unique())
    parts |= {"skills on offer": ", ".join(offered)} if offered else {}
    versions = store.table("verdicts").select(["grader", "grader_version"]).to_pandas()
    for grader, names in versions.fillna("no version").groupby("grader")["grader_version"]:
        parts[f"grader {grader}"] = ", ".join(sorted(names.unique()))
    return parts


def _short_hash(texts: Iterable[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]


def passages(path: str | PathLike[str] | RunStore) -> pd.DataFrame:
    """Read passages with a known degree of copying, one row per passage.

    Parameters
    ----------
    path : str, path or RunStore
        A JSON Lines file of passages, or a study. If a study has no recorded passages, the files
        of the folder ``corpus`` next to it are read, and passages about its skills are kept.

    Returns
    -------
    pandas.DataFrame
        passage_id, skill, document (skill and topic: passages of one document are related), level
        (such as verbatim or fresh), text, made_up (whether :func:`skillcomp.overlap.positives` made
        it); then topic and question if the file has them. Empty for a study without passages.
    """
    if not isinstance(path, RunStore):
        table, _ = read_lines(Path(path), "passages")
        return check(table.to_pandas(types_mapper=_TYPES.get), "passages")
    texts = check(path.table("passages").to_pandas(types_mapper=_TYPES.get), "passages")
    texts = texts[texts["level"].ne(SOURCE)].reset_index(drop=True)
    if texts.empty:
        tables = [passages(file) for file in sorted((path.path.parent / "corpus").glob("*.jsonl"))]
        rows = pd.concat(tables, ignore_index=True) if tables else texts
        texts = check(rows[rows["skill"].isin(list(path.skills))], "passages")
    unused = [name for name in ("topic", "question") if texts[name].isna().all()]
    return texts.drop(columns=unused)


_TYPES = {
    pa.string(): pd.StringDtype(na_value=np.nan),
    pa.bool_(): pd.BooleanDtype(),
    pa.int64(): pd.Int64Dtype(),
}


def _attempt_rows(store: RunStore, perturbation: Chosen, *columns: str) -> pd.DataFrame:
    """Return the keys and the given columns of the selected attempts, without checking them."""
    frame = _stored_frame(store, "attempts", *columns)[[*ATTEMPT_KEYS, *columns]]
    return frame[_has_perturbation(frame["perturbation"], perturbation)]


def _stored_frame(store: RunStore, kind: str, *others: str) -> pd.DataFrame:
    """Return a table of a store with the columns of its contract and others, without a check."""
    table, types = require_store(store).table(kind), CONTRACTS[kind].columns
    names = list(dict.fromkeys([*types, *others]))
    selected = table.select([name for name in names if name in table.column_names])
    frame: pd.DataFrame = selected.to_pandas(types_mapper=_TYPES.get).reindex(columns=names)
    return frame.astype(dict(types))


def _stored_names(argument: str | Sequence[str], present: Iterable[str], what: str) -> list[str]:
    """Return an argument as a list of names; raise FrameError if the store lacks one of them."""
    names = as_list(argument)
    if not all(isinstance(name, str) for name in names):
        raise FrameError(f"{what}: found {argument!r}; allowed: a name, several names or 'all'.")
    there = sorted(set(present))
    for name in names:
        if name not in there:
            raise FrameError(f"{what} '{name}' is not in the store{instead(name, there)}")
    return names


def frames_of_store(path: Path) -> Frames:
    """Return the frames of a recorded study or of saved frames."""
    store = RunStore(path)
    made = cases(store), attempts(store, asked="plan"), verdicts(store)
    facts = saved_facts(store)
    graded = outcomes(made[2], made[0], attempts=made[1])
    return Frames(
        cases=made[0],
        attempts=made[1],
        verdicts=made[2],
        outcomes=compared_rows(graded, facts.get("gold_drawn", "")),
        gold=gold(store),
        pairwise=pairwise(store),
        passages=passages(store),
        skills={slug: skill.text for slug, skill in store.skills.items()},
        **facts,
    )
