"""Estimate of the tokens and dollars that a study costs, with or without caching."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import pandas as pd

from skillcomp import pricing
from skillcomp.errors import StudyError, require_type, suggest
from skillcomp.frames.check import as_list
from skillcomp.frames.estimates import require_columns
from skillcomp.io.skills import require_skills
from skillcomp.records import CONDITIONS, Case, Skill, Suite
from skillcomp.stats.results import NAN, Fields, join_notes

MODES = {"plain": False, "cached": True}  # mode -> whether prefixes are cached
_TOKENS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
ANSWER_TOKENS = 300.0  # About 180 words, the mean length of 420 answers of the pilot.
_COLUMNS = {
    **dict.fromkeys(("role", "name", "model", "condition", "mode"), "str"),
    "n_calls": "int64",
    **dict.fromkeys((*_TOKENS, "cost_usd"), "float64"),
    "note": "str",
}


def cost_estimate(
    suites: Suite | Iterable[Suite] | Mapping[str, Suite],
    skills: Mapping[str, Skill | str],
    *,
    agents: Any,
    graders: Any = (),
    conditions: Sequence[str] = ("baseline", "skill"),
    repeats: int | Mapping[str, int] = 1,
    loaded: Loaded | None = None,
    attempts: pd.DataFrame | None = None,
    answer_tokens: float = ANSWER_TOKENS,
    thinking_tokens: float = 0.0,
    on: date | None = None,
    prices: Sequence[pricing.Price] = (),
) -> pd.DataFrame:
    """Estimate the tokens and dollars of a study before it is run.

    Each agent answers each case `repeats` times in each condition, and each grader grades each
    answer once, in a separate call.

    Parameters
    ----------
    suites : Suite, iterable of Suite, or mapping such as ``store.suites``
        Suites that contain the cases of the study.
    skills : mapping of slug to Skill or text, such as ``store.skills``
        Skills of the suites; the skill of each suite must be among them.
    agents, graders : str, object with ``model``, or a sequence of them
        Agents and graders, or the names of their models. The ``style`` of a grader determines its
        prompt; without a style, ``forced`` is assumed.
    conditions : sequence of str
        Conditions of the study. ``baseline`` loads nothing, and ``skill`` loads the suite's skill.
        Other conditions load the text that `loaded` has for them. If `loaded` has no text for
        ``placebo`` or ``previous``, a text as long as the skill is assumed.
    repeats : int or mapping of str to int, default 1
        Number of attempts per case, as one number for all conditions or by condition.
    loaded : mapping of str to text, Skill, or mapping of slug to either, optional
        For each condition, the text that it loads: one text for all skills, or one per skill.
    attempts : pandas.DataFrame, optional
        Answers of a pilot, with columns case_id, condition and answer. The mean length of the
        answers to a case under a condition replaces `answer_tokens`. Without such answers, the mean
        of the condition is used, or else the mean of all answers.
    answer_tokens : float, default 300
        Assumed length of an answer.
    thinking_tokens : float, default 0
        Number of thinking tokens per call, which count as output. It is unknown before a first run.
    on : datetime.date, optional
        Day of the prices; today if omitted.
    prices : sequence of Price, optional
        The user's own prices; they replace the library's prices of the same models.

    Returns
    -------
    pandas.DataFrame
        One row per role (``agent`` or ``grader``), name, model, condition and mode (``plain``, or
        ``cached`` as in `skillcomp.run`). ``n_calls`` is the number of calls. ``input_tokens``
        counts whole prompts; ``cached_tokens`` and ``cache_write_tokens`` are the parts of them
        that are read from the cache and written to it. ``output_tokens`` counts replies.
        ``cost_usd`` is NaN if a price is unknown. ``note`` states assumptions and unknown prices.

    Raises
    ------
    StudyError
        If a suite's skill is missing, a condition is unknown and not in `loaded`, `repeats` is
        below one, or the study has no calls.
    FrameError
        If a required column of `attempts` is missing.

    See Also
    --------
    cost_total : Sums over all rows of a mode.

    Notes
    -----
    3.5 characters count as a token, as for English text in Anthropic's glossary.
    Newer tokenizers give up to 30 % more tokens, and code and other languages give even more. The
    length of instructions is measured on the prompt templates. Replies of graders are assumed to
    have 225 characters per verdict, including quote and rationale, as in the pilot.

    With caching, the first call writes its prefix to the cache, and all other calls with this
    prefix read it. The prefix of an agent is the loaded skill; the prefix of a grader is its
    instructions and the skill, and is the same in all conditions. The cost is a lower bound. It
    assumes that each call follows the previous one before the cache expires after five minutes.
    Prefixes shorter than the model's minimum are not cached, as a note then states. The cost does
    not include retries, repeated calls after malformed replies, refusals, gold and retests, tools
    and traces of CLI agents, taxes and discounts (a batch service costs half of ``plain``).

    Examples
    --------
    >>> from datetime import date
    >>> from skillcomp.records import Case, Suite
    >>> suite = Suite(slug="tea", skill="tea", cases=(Case(case_id="tea/1", prompt="x" * 320),))
    >>> costs = cost_estimate(suite, {"tea": "y" * 7000}, agents="claude-opus-5-5",
    ...                       conditions=["skill"], repeats=10, on=date(2026, 11, 21))
    >>> costs.set_index("mode")["cost_usd"].round(4).to_dict()
    {'plain': 0.1447, 'cached': 0.0777}
    """
    study = CostedStudy(
        _list_of_suites(suites), _skills_by_slug(skills), list(conditions), repeats,
        loaded or {}, answer_tokens, thinking_tokens, answer_lengths(attempts),
    )  # fmt: skip
    agent_list = as_list(agents)
    calls_of: list[tuple[str, Any, Callable[..., Calls]]]
    calls_of = [("agent", agent, study.agent_calls) for agent in agent_list]
    for grader in as_list(graders):
        calls_of.append(("grader", grader, partial(study.grader_calls, grader, len(agent_list))))
    rows = []
    for role, who, calls_of_case in calls_of:
        model = who if isinstance(who, str) else getattr(who, "model", None)
        about = {"role": role, "name": str(getattr(who, "name", None) or model), "model": model}
        calls = {name: [calls_of_case(*case, name) for case in study.cases] for name in conditions}
        for mode, cached in MODES.items():
            costs = _condition_rows(model, calls, cached, on, prices)
            rows += [{**about, **row, "mode": mode} for row in costs]
    if not any(row["n_calls"] for row in rows):
        raise StudyError(
            "cost_estimate: nothing would be asked: no agent, no grader or no case; give suites "
            "with cases (a study made from a table has none)."
        )
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def cost_total(estimate: pd.DataFrame) -> pd.DataFrame:
    """Sum the rows of `cost_estimate` by mode.

    Parameters
    ----------
    estimate : pandas.DataFrame
        Frame of `cost_estimate`, or some of its rows.

    Returns
    -------
    pandas.DataFrame
        One row per mode: mode, n_calls, input_tokens and output_tokens, then ``cost_usd``
        (NaN if the cost of any row is unknown), ``ratio`` (the cost divided by that of the mode
        ``plain``) and ``note`` (the prices that are unknown).

    Raises
    ------
    FrameError
        If a column is missing.
    """
    require_columns(estimate, list(_COLUMNS), "cost_total")
    modes = estimate.groupby("mode", sort=False)
    table = modes[["n_calls", "input_tokens", "output_tokens"]].sum()
    # If the cost of a row is unknown (NaN), the sum is unknown, too.
    table["cost_usd"] = modes["cost_usd"].sum(skipna=False)
    table["ratio"] = table["cost_usd"] / (table["cost_usd"].get("plain") or NAN)
    unknown = estimate[estimate["cost_usd"].isna()].groupby("mode")["note"]
    notes = {
        mode: "; ".join(dict.fromkeys("; ".join(part.dropna()).split("; "))) or None
        for mode, part in unknown
    }
    return table.assign(note=pd.Series(notes, dtype="str")).reset_index()


def _condition_rows(
    model: str | None,
    calls_by_condition: Mapping[str, Sequence[Calls]],
    cached: bool,
    on: date | None,
    prices: Sequence[pricing.Price],
) -> Iterator[Fields]:
    """Yield the costs of each condition; only the first call with a prefix pays for caching it."""
    written: set[str] = set()
    least = minimum_prefix(model) if cached else math.inf
    for condition, calls in calls_by_condition.items():
        sums = dict.fromkeys((*_TOKENS, "cost_usd"), 0.0)
        notes = [call.note for call in calls]
        for call in calls:
            prefix, whole = call.prefix, call.prefix + call.rest
            parts = [(call.n, 0.0, 0.0)]
            if prefix >= least and call.n:
                first = int(call.key not in written)
                written.add(call.key)
                parts = [(first, 0.0, prefix), (call.n - first, prefix, 0.0)]
            for n, read, wrote in parts:
                if not n:
                    continue
                usage = pricing.Usage(whole, call.output, read, wrote)
                cost = pricing.Cost(NAN, "no model is named, so no price is known")
                if model is not None:
                    cost = pricing.cost(usage, model, on=on, prices=prices)
                notes += [cost.note] if cost.note else []
                sums["cost_usd"] += cost.usd * n
                for name in _TOKENS:
                    sums[name] += getattr(usage, name) * n
            if cached and 0 < prefix < least:
                notes.append(f"prefixes below {least:,} tokens are not cached")
        notes.append(f"tokens estimated at {CHARS_PER_TOKEN} characters each")
        yield {
            "condition": condition,
            "n_calls": sum(call.n for call in calls),
            **sums,
            "note": join_notes(*dict.fromkeys(notes)) or None,
        }


Loaded = Mapping[str, Mapping[str, Skill | str] | Skill | str]

CHARS_PER_TOKEN = 3.5  # Characters per token of English text (glossary of platform.claude.com).
MESSAGE_TOKENS = 8  # Number of tokens for the role and the delimiters of a message.
SKILL_FRAME = 64  # Number of characters around a skill in the system prompt of an agent.
# The shortest prompt prefix, in tokens, that the service caches (documentation of prompt caching,
# read on 2026-11-21). For other models, 1,024 is assumed.
_MINIMUM = {
    "claude-opus-5": 512,
    "claude-fable-5": 512,
    "claude-fable-5-1": 512,
    "claude-haiku-5-5": 512,
    "claude-opus-4-7": 2048,
    "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096,
    "claude-haiku-4-5": 4096,
}
_ASSUMED_MINIMUM = 1024


def minimum_prefix(model: str | None) -> int:
    """Return the length in tokens of the shortest prompt prefix that the service caches."""
    undated = re.sub(r"-\d{8}$", "", model or "")
    return _MINIMUM.get(undated, _ASSUMED_MINIMUM)


class GraderFrame(NamedTuple):
    """Numbers of characters in a grader's prompt and reply; the data of the case are not counted.

    ``system`` counts the instructions and the schema of the reply. ``case`` counts the tags that
    occur once per case, and ``check`` those that occur once per check. ``reply`` counts the part of
    a reply that occurs once, and ``verdict`` the part that occurs once per check. ``sees_skill`` is
    True if the prompt contains the skill, the concept field and the expected reasoning.
    """

    system: int
    case: int
    check: int
    reply: int
    verdict: int
    sees_skill: bool = True


# These numbers were fitted by least squares to the prompts of skillcomp.live.graders.grader for
# the 84 cases of the pilot. There, quotes of the grader g2 have 66 characters on average, and
# rationales have 75. A test compares the numbers with the templates.
_FRAMES = {
    "forced": GraderFrame(3183 + 915, 631, 53, 60, 225),
    "evidence": GraderFrame(1235 + 915, 631, 53, 60, 225),
    # style of the graders for tasks that have a rubric (templates rubric.j2 and rubric-case.j2)
    "rubric": GraderFrame(753 + 388, 247, 0, 60, 150, sees_skill=False),
    "impression": GraderFrame(555 + 627, 368, 44, 40, 60, sees_skill=False),
}


def frame_of_grader(grader: Any) -> GraderFrame:
    """Return the `GraderFrame` for a grader's style, or that of ``forced`` for an unknown style."""
    return _FRAMES.get(getattr(grader, "style", "forced"), _FRAMES["forced"])


def tokens_of(letters: float) -> float:
    """Return the estimated number of tokens in a number of characters of English text."""
    return letters / CHARS_PER_TOKEN


def loaded_text(skill: Skill | str) -> str:
    """Return the text that an agent loads for a skill; return a plain text unchanged."""
    return skill if isinstance(skill, str) else skill.text or skill.body


def case_data(case: Case, skill: Skill, frame: GraderFrame) -> str:
    """Return the texts about a case in a grader's prompt, without the answer."""
    parts = [case.prompt]
    for check in case.checks:
        parts.append(f"{check.check_id} {check.description}")
        if check.judge and check.judge.rubric:
            parts.append(check.judge.rubric)
    if frame.sees_skill:
        parts += [case.expected_reasoning or "", skill.concept.get(case.concept_field or "", "")]
    return "\n".join(parts)


class Calls(NamedTuple):
    """``n`` calls with the same prefix, prompt and length of reply.

    Calls with the same ``key`` have the same prefix, which is written to the cache once. The other
    fields count tokens: ``prefix`` counts the part of the prompt that can be cached, ``rest`` the
    rest of the prompt, and ``output`` the reply. ``note`` says what was assumed, if anything.
    """

    key: str
    prefix: float
    rest: float
    output: float
    n: int
    note: str = ""


@dataclass(frozen=True)
class CostedStudy:
    """Arguments of `cost_estimate`, with methods that derive the calls of agents and graders."""

    suites: list[Suite]
    skills: Mapping[str, Skill]
    conditions: list[str]
    repeats: int | Mapping[str, int]
    loaded: Loaded
    answer_tokens: float
    thinking: float
    lengths: Mapping[tuple[str, str], float]

    def __post_init__(self) -> None:
        """Raise StudyError if skills, conditions or repeats are not as `cost_estimate` requires."""
        for suite in self.suites:
            if suite.skill not in self.skills:
                rule = (
                    f"suite '{suite.slug}' is about the skill '{suite.skill}', which is not given."
                )
                raise StudyError(f"cost_estimate: {rule}{suggest(suite.skill, self.skills)}")
        conditions = {*CONDITIONS, *self.loaded}
        for condition in self.conditions:
            if condition not in conditions:
                rule = f"found no text; allowed: {', '.join(CONDITIONS)}, or what loaded= names."
                near = suggest(condition, conditions)
                raise StudyError(f"cost_estimate: condition '{condition}': {rule}{near}")
            if self.times(condition) < 1:
                rule = "whole numbers of at least 1, for every condition"
                raise StudyError(f"repeats: found {self.repeats!r}; allowed: {rule}.")

    def times(self, condition: str) -> int:
        """Return the number of attempts per case in a condition."""
        repeats = self.repeats
        return int(repeats.get(condition, 0) if isinstance(repeats, Mapping) else repeats)

    @property
    def cases(self) -> list[tuple[Case, Skill]]:
        """All cases, each with its skill."""
        return [(case, self.skills[suite.skill]) for suite in self.suites for case in suite.cases]

    def text(self, condition: str, skill: Skill) -> str | None:
        """Return the text that a condition loads for a skill; None if it is unknown."""
        if condition == "baseline":
            return ""
        if condition == "skill":
            return loaded_text(skill)
        loaded = self.loaded.get(condition)
        if isinstance(loaded, Mapping):
            loaded = loaded.get(skill.slug)
        return None if loaded is None else loaded_text(loaded)

    def agent_calls(self, case: Case, skill: Skill, condition: str) -> Calls:
        """Return the calls with which an agent answers a case under a condition."""
        text, note = self.text(condition, skill), ""
        key = text
        if text is None:
            key, text = f"{condition}/{skill.slug}", loaded_text(skill)
            note = f"{condition}: taken to be as long as the skill"
        prefix = tokens_of(len(text) + SKILL_FRAME) if text else 0.0
        prompt = tokens_of(len(case.prompt)) + MESSAGE_TOKENS
        reply = self.answer(case, condition) + self.thinking
        return Calls(key or "", prefix, prompt, reply, self.times(condition), note)

    def grader_calls(
        self, grader: Any, n_agents: int, case: Case, skill: Skill, condition: str
    ) -> Calls:
        """Return the calls that grade the answers of all agents to a case under a condition."""
        frame, n = frame_of_grader(grader), len(case.checks)
        if getattr(grader, "style", None) == "rubric":
            n = sum(c.judge is not None and c.judge.type == "llm-rubric" for c in case.checks)
        skill_text = (skill.body or skill.text) if frame.sees_skill else ""
        rest = tokens_of(len(case_data(case, skill, frame)) + frame.case + n * frame.check)
        rest += self.answer(case, condition) + MESSAGE_TOKENS
        key = skill.slug if frame.sees_skill else "all"
        prefix = tokens_of(len(skill_text) + frame.system)
        reply = tokens_of(frame.reply + n * frame.verdict) + self.thinking
        return Calls(key, prefix, rest, reply, self.times(condition) * n_agents if n else 0)

    def answer(self, case: Case, condition: str) -> float:
        """Return the mean length of an answer in tokens: from a pilot, or the assumed length."""
        for key in ((case.case_id, condition), ("", condition), ("", "")):
            if key in self.lengths:
                return tokens_of(self.lengths[key])
        return self.answer_tokens


def _list_of_suites(suites: Suite | Iterable[Suite] | Mapping[str, Suite]) -> list[Suite]:
    values = suites.values() if isinstance(suites, Mapping) else suites
    records = [values] if isinstance(values, Suite | str | PathLike) else list(values)
    for record in records:
        require_type("cost_estimate: suites", record, Suite, "sc.read_suite(path)", StudyError)
    return list({suite.slug: suite for suite in records}.values())


def _skills_by_slug(skills: Mapping[str, Skill | str]) -> dict[str, Skill]:
    require_skills("cost_estimate: skills", skills, StudyError)
    return {
        slug: Skill(slug=slug, text=skill) if isinstance(skill, str) else skill
        for slug, skill in skills.items()
    }


def answer_lengths(attempts: pd.DataFrame | None) -> dict[tuple[str, str], float]:
    """Return mean lengths of answers in characters; keys are pairs of case_id and condition.

    The mean over all cases of a condition has an empty case_id in its key. The key of the overall
    mean is two empty strings.
    """
    if attempts is None:
        return {}
    require_columns(attempts, ["case_id", "condition", "answer"], "attempts")
    answered = attempts.dropna(subset=["answer"])
    answered = answered.assign(letters=answered["answer"].str.len(), any_case="", any_condition="")
    lengths: dict[Any, float] = {}
    for keys in (
        ["any_case", "any_condition"],
        ["any_case", "condition"],
        ["case_id", "condition"],
    ):
        lengths |= answered.groupby(keys)["letters"].mean().to_dict()
    return lengths
