"""Test the checks of a study before use: run every check on answers of known quality."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import GraderError, SkillcompError, StudyError, plural
from skillcomp.frames.probes import ANSWERS, NO_VERDICT, PROBE, probed_frame, untested_reasons
from skillcomp.grading_rules import forbids_copying, shared_with_skill
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RunStore, as_store
from skillcomp.io.task_suites import reference_of
from skillcomp.io.trigger_suites import checks_of
from skillcomp.live.agents.agent import Reply
from skillcomp.live.concurrency import Stop, fan_out, run_sync
from skillcomp.live.graders import sandbox
from skillcomp.live.graders.gold_answers import gold_answers
from skillcomp.live.graders.grader import GraderWarning, LiveGrader, agent_of
from skillcomp.live.graders.task_graders import Contains, Pytest
from skillcomp.live.graders.traces import WITHOUT_RUN, grade_trace, rule_name, usage
from skillcomp.planning.cost import cost_estimate, cost_total
from skillcomp.records import Attempt, Case, Check, Skill

REFUSAL = (
    "This cannot be done as asked: what the task needs does not exist, so any result would be "
    "invented. I stop here and have changed nothing."
)
# If a case has this key, refusing is right. The value is the text of a refusal, or true for
# `REFUSAL`.
REFUSING = "refusal"
NGRAM = 6  # length of an n-gram in the overlap check, as in ComprehensionGrader

# ids of the checks that are decided by the rules of a trigger suite
_RULES = {check.check_id for check in checks_of(True, {})} | {*WITHOUT_RUN, "required_steps"}
_RULES |= {f"max_{what}" for what in ("commands", *usage(Reply()))}
_PROHIBITION = re.compile(r"(?:\^|\\A)\(\?!")


_Result = tuple[bool | None, str]  # whether an answer passes (None if unknown), and why


@dataclass
class _Probed:
    """A case with its five answers (None if an answer does not exist) and the results so far."""

    case: Case
    skill: Skill
    answers: Mapping[str, str | None]
    refuses: bool  # whether a refusal is the right answer

    # results by check_id and grader, then by answer
    results: dict[tuple[str, str], dict[str, _Result]]

    def attempt(self, name: str, answer: str) -> Attempt:
        return Attempt(
            attempt_id=f"{PROBE}/{self.case.case_id}/{name}",
            skill=self.skill.slug,
            case_id=self.case.case_id,
            condition=PROBE,
            answer=answer,
        )


def probe(
    store: RunStore,
    *,
    graders: Sequence[LiveGrader] = (),
    concurrency: int = 4,
    progress: bool = True,
) -> pd.DataFrame:
    """Run every check on five answers of known quality, to find checks that measure nothing.

    The answers are the empty one, the skill's own text, a reference answer about another skill, the
    reference answer of the case, and a refusal. Checks that a program decides are always tested:
    rules, contained words, tests in the sandbox, the patterns, schemas and files of a trigger suite
    and the search for copied text.

    Parameters
    ----------
    store : RunStore
        The study. The result is also added to its table ``probe``, which the page of a report
        shows and `skillcomp.frames.probes` reads.
    graders : sequence of BaseGrader
        Graders that ask a model, to test all other checks as well. This costs up to five gradings
        per case and grader.
    concurrency : int, default 4
        Maximum number of tests and gradings that are under way at the same time.
    progress : bool, default True
        Whether to announce the cost of the graders and to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        One row per check and grader: skill, case_id, check_id and ``grader`` (``rule``,
        ``contains``, ``pytest``, ``overlap`` or the name of a grader; missing if nothing decided
        the check). The columns ``empty``, ``skill_text``, ``other_reference``, ``reference`` and
        ``refusal`` state whether that answer passes; missing if there is no such answer or no
        verdict. ``finding`` is empty or names faults: ``vacuous``, ``impossible``, ``punishes
        refusal``. ``note`` names the answers that show the faults, and says why verdicts are
        missing.

    Raises
    ------
    StudyError
        If the store has no checks.

    Warns
    -----
    GraderWarning
        If tests cannot be run, because this machine lacks a program; names what to install.

    Notes
    -----
    A positive check is vacuous if one of the first three answers passes it. A check against copying
    is vacuous if the skill's text passes it. Other negative checks are never called vacuous,
    because an answer without content does nothing wrong. The same holds for a pattern that only
    forbids a text: it begins with ``^(?!`` and passes the empty answer.

    A check is impossible if the reference answer fails it. The reference answer of a task is the
    file ``reference/<id>.*``; that of any other case is its first gold answer with no label False.
    The reference answer about another skill comes from the same study.

    A refusal is right for a case with the key ``refusal`` (its value is the text of the refusal, or
    true for a text of this library), and for negative checks of dimension C9. A check that fails
    such a refusal punishes a justified refusal.

    Rules about files are decided only for the empty answer, which leaves no files. Rules about the
    trace have no verdict, because these answers have no trace.

    Examples
    --------
    A heat map of the share of checks that each answer passes:

    >>> probed = probe(store)  # doctest: +SKIP
    >>> rates = sc.frames.probe_rates(probed)  # doctest: +SKIP
    >>> sc.plots.dimensions(rates, x="answer", y="skill")  # doctest: +SKIP
    """
    cases = _probed_cases(as_store(store))
    if not any(probed.case.checks for probed in cases):
        raise StudyError("probe: the suites of the study have no checks; add suites to the store.")
    if progress and graders:
        tqdm.write(f"probe: {_cost_sentence(store, graders)}")
    work = [(probed, name) for probed in cases for name in ANSWERS]
    judges, problem = _judges(store, cases)

    async def main(stop: Stop) -> None:
        with tqdm(total=len(work), desc=PROBE, disable=not progress) as bar:

            async def put(item: tuple[_Probed, str]) -> None:
                await _decide_by_program(*item, judges, problem)
                for grader in graders:
                    await _decide_by_grader(*item, grader)
                bar.update()

            await fan_out(work, put, width=concurrency, stop=stop)
        for grader in graders:
            await grader.aclose()

    run_sync(main)
    rows = [row for probed in cases for row in _rows_of(probed)]
    now = datetime.now(UTC).isoformat()
    store.append(PROBE, [{**row, "probed_at": now} for row in rows])
    probed = probed_frame(rows)
    if problem:
        of_tests = probed[probed["grader"].eq("pytest")]
        warnings.warn(f"probe: {untested_reasons(of_tests)}", GraderWarning, stacklevel=2)
    return probed


def _probed_cases(store: RunStore) -> list[_Probed]:
    suites = store.suites.values()
    gold = reversed(gold_answers(suites, None))
    # the first gold answer of a case that passes all its labelled checks
    references: dict[str, str | None] = {
        a.case_id: a.answer for a in gold if all(a.labels.values())
    }
    for suite in (suite for suite in suites if suite.kind == "tasks"):
        folder = (store.path / suite.path).parent
        references |= {c.case_id: reference_of(folder, c) for c in suite.cases}
    others = [(s.skill, references.get(c.case_id)) for s in suites for c in s.cases]
    about_others: list[str | None]
    cases = []
    for suite in suites:
        skill = store.skills.get(suite.skill) or Skill(slug=suite.skill)
        about_others = [text for slug, text in others if slug != suite.skill and text] or [None]
        for position, case in enumerate(suite.cases):
            own = case.extra.get(REFUSING)
            answers = {
                "empty": "",
                "skill_text": skill.text or skill.body or None,
                "other_reference": about_others[position % len(about_others)],
                "reference": references.get(case.case_id),
                "refusal": own if isinstance(own, str) else REFUSAL,
            }
            cases.append(_Probed(case, skill, answers, bool(own), {}))
    return cases


def _judges(store: RunStore, cases: Sequence[_Probed]) -> tuple[JsonObject, str]:
    """Return the task judges that need no model; if tests cannot be run, also return the reason."""
    judges: JsonObject = {"contains": Contains()}
    checks = (check for probed in cases for check in probed.case.checks)
    if any(check.judge and check.judge.type == "pytest" for check in checks):
        try:
            judges["pytest"] = Pytest(store)
        except GraderError as error:
            reason = sandbox.why_no_sandbox()
            remedy = "install bubblewrap, or probe on a machine where it works"
            return judges, f"{reason}; {remedy}" if reason else str(error)
    return judges, ""


def _program_for(check: Check, case: Case) -> str | None:
    """Return the kind of program that decides a check; None if the check needs a model."""
    if check.judge is not None:
        return check.judge.type if check.judge.type != "llm-rubric" else None
    if case.prompt_kind is not None and rule_name(check) in _RULES:
        return "trace"
    return "overlap" if forbids_copying(check) else None


async def _decide_by_program(probed: _Probed, name: str, judges: JsonObject, problem: str) -> None:
    answer, case = probed.answers[name], probed.case
    if answer is None:
        return
    for check in case.checks:
        program = _program_for(check, case)
        if program is None:
            continue
        result: _Result = (None, problem)
        if program == "trace":
            result = (None, "a run of the program decides this check")
            if rule_name(check) in WITHOUT_RUN:
                files = () if name == "empty" else None
                one = case.model_copy(update={"checks": (check,)})
                skill = probed.skill.name or probed.skill.slug
                checked = grade_trace(probed.attempt(name, answer), one, skill, files)[0]
                result = (checked.passed, checked.note)
        elif program == "overlap":
            shared = shared_with_skill(answer, probed.skill, case, n=NGRAM)
            result = (None if shared is None else not shared, "")
        elif program in judges:
            judgement = await judges[program].judge(case, check, answer)
            result = (judgement.passed, judgement.reason)
            if judgement.passed is None and name == "reference":
                # if a test cannot judge even the reference answer, that answer counts as failed
                result = (False, judgement.reason)
        probed.results.setdefault((check.check_id, program), {})[name] = result


async def _decide_by_grader(probed: _Probed, name: str, grader: LiveGrader) -> None:
    answer = probed.answers[name]
    results: dict[str, _Result]
    checks = [c for c in probed.case.checks if _program_for(c, probed.case) in (None, "overlap")]
    if answer is None or not checks:
        return
    case = probed.case.model_copy(update={"checks": tuple(checks)})
    try:
        grading = await grader.grade(probed.attempt(name, answer), case, probed.skill)
    except SkillcompError as error:
        results = {check.check_id: (None, str(error)) for check in checks}
    else:
        results = {v.check_id: (v.passed, v.rationale or "") for v in grading.verdicts}
    for check_id, result in results.items():
        probed.results.setdefault((check_id, grader.name), {})[name] = result


def _rows_of(probed: _Probed) -> list[JsonObject]:
    rows = []
    for check in probed.case.checks:
        own = {g: r for (check_id, g), r in probed.results.items() if check_id == check.check_id}
        for grader, results in own.items() or [(None, {})]:
            passed = {name: results.get(name, (None, ""))[0] for name in ANSWERS}
            # a pattern that only forbids a text passes the empty answer
            forbids_only = passed["empty"] and _PROHIBITION.match(check.description)
            is_positive = check.check_kind == "positive" and not forbids_only
            empty = ["empty", "skill_text", "other_reference"] if is_positive else []
            if forbids_copying(check):
                empty = ["skill_text"]
            vacuous = [ANSWERS[name] for name in empty if passed[name]]
            notes = [f"passes on {', '.join(vacuous)}"] if vacuous else []
            faults = ["vacuous"] if vacuous else []
            is_c9 = probed.case.comprehension_dimension == "C9" and not is_positive
            refuses = probed.refuses or is_c9
            for fault, name in {"impossible": "reference", "punishes refusal": "refusal"}.items():
                if passed[name] is False and (name == "reference" or refuses):
                    why = results[name][1]
                    faults.append(fault)
                    notes.append(f"fails {ANSWERS[name]}" + f" ({why[:200]})" * bool(why))
            missing = {results[name][1] for name in results if passed[name] is None} - {""}
            notes += [f"{NO_VERDICT}{why[:200]}" for why in sorted(missing)]
            if grader is None:
                notes.append("no program decides this check; ask a grader (graders=, --ask)")
            row = {
                "skill": probed.skill.slug,
                "case_id": probed.case.case_id,
                "check_id": check.check_id,
                "grader": grader,
                **passed,
                "finding": ", ".join(faults),
                "note": "; ".join(notes),
            }
            rows.append(row)
    return rows


def _cost_sentence(store: RunStore, graders: Sequence[LiveGrader]) -> str:
    """Return a phrase with the maximum number of questions to graders and what they cost."""
    asked = [grader for grader in graders if agent_of(grader) is not None]
    if not asked:
        return "the graders ask no model, so they cost nothing."
    costs = cost_estimate(
        store.suites,
        store.skills,
        agents="any",
        graders=asked,
        conditions=["baseline"],
        repeats=len(ANSWERS),
    )
    # the price of calls without caching
    plain, _ = cost_total(costs[costs["role"].eq("grader")]).to_dict("records")
    usd = plain["cost_usd"]
    dollars = "an unknown cost" if pd.isna(usd) else f"about ${usd:.2f}"
    return f"up to {plural(plain['n_calls'], 'question')} to graders, {dollars}."
