"""The contract of every frame: its columns, their dtypes, allowed values and keys.

``CONTRACTS`` is the only definition of the columns of each kind of frame. The readers build frames
of these kinds, and :func:`skillcomp.frames.check` converts and checks any other DataFrame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    JUDGES,
    AttemptStatus,
    CheckKind,
    Goal,
    LabellerKind,
    PromptKind,
    VerdictStatus,
)

TIME: Any = "datetime64[us, UTC]"
# the pandas dtype "str", with texts stored by Arrow and not as Python objects
TEXT = pd.StringDtype("pyarrow", na_value=np.nan)


@dataclass(frozen=True)
class Contract:
    """The columns, allowed values and keys of one kind of frame."""

    columns: Mapping[str, str]  # The pandas dtype of each column, in the order of the frame.
    required: tuple[str, ...]  # Columns with a value in every row; others may be absent or NA.
    unique: tuple[str, ...]  # Columns that form the key of a row.
    # Columns that form the key of a row if its value in the first column of `unique` is missing.
    otherwise: tuple[str, ...]
    # Allowed words of each column. NA is allowed, too, unless the column is required.
    allowed: Mapping[str, tuple[Any, ...]]
    ranges: Mapping[str, tuple[float, float]]  # Lowest and highest allowed value of each column.


Cluster = Literal["case", "skill"]  # what an interval is about: these cases, or skills in general
Amount = Literal[
    "cost_usd", "seconds", "input_tokens", "output_tokens", "n_words", "n_commands", "score"
]
AMOUNTS = get_args(Amount)
CASE = ["skill", "case_id"]  # The key of a case: two suites may use the same case ids.
CELL = [*CASE, "condition", "agent"]  # The attempts of a cell are repeats of each other.
# A column of attempts and outcomes: True if the planned attempts are known and all have a row.
PLANNED = "in_plan"
# A column of cases and outcomes: the names of the columns whose equal values link cases, one per
# line. A table declares them by `cluster=` of from_frame.
LINKED_BY = "linked_by"
# A column of cases and outcomes: True if the table names the repeats (`repeat=` of from_frame), so
# that attempts of one repeat may share something.
NAMED_REPEATS = "named_repeats"
# column of cases with a text that the note of every outcome has, such as how rows were replaced
CAUTION = "caution"
REPLACED = "failed rows were replaced more often in one arm"  # starts such a text
DIFFERENT_MODELS = "the conditions have different models"  # starts a note of outcomes
# The smallest number above 0: the lower end of a range that excludes 0.
ABOVE_ZERO = math.ulp(0.0)
# dtypes of the columns that are not text; a column has the same dtype in every frame
_TYPED: Mapping[str, str] = {
    "Int64": "repeat round order ordinal turn winner_position exit_code n_checks n_passed n_missing"
    " n_words n_commands input_tokens cached_tokens output_tokens",
    "boolean": "passed evidence_found borderline dimension_passed should_trigger triggered invoked"
    " should_invoke read_only in_subagent checks_differ made_up shown",
    "float64": "schema_weight cost_usd seconds score share_passed inclusion_probability estimate"
    " ci_low ci_high ci_level se df n n_clusters p_value p_adjusted preference",
    TIME: "started_at graded_at",
}


def key_by_word(table: Mapping[Any, str], separator: str | None = None) -> dict[str, Any]:
    """Return the key of each word, from texts that list the words of each key."""
    return {word: key for key, words in table.items() for word in words.split(separator)}


_DTYPES = key_by_word(_TYPED)
# closed ranges of numbers; they do not apply to the columns that a contract lists as `unranged`
_RANGED: Mapping[tuple[float, float], str] = {
    (1, math.inf): "repeat round order ordinal turn",
    (0.0, math.inf): "n_checks n_passed n_missing n_words n_commands schema_weight input_tokens"
    " cached_tokens output_tokens cost_usd seconds",
    (0.0, 1.0): "share_passed ci_level p_value p_adjusted preference",
    (ABOVE_ZERO, 1.0): "inclusion_probability",
}
_RANGES = key_by_word(_RANGED)
# closed vocabularies; the words of the column `status` depend on the frame and are not here
_WORDS: Mapping[str, tuple[Any, ...]] = {
    "comprehension_dimension": DIMENSIONS,
    "concept_field": CONCEPT_FIELDS,
    "transfer": ("near", "far"),
    "prompt_kind": get_args(PromptKind),
    "check_kind": get_args(CheckKind),
    "goal": get_args(Goal),
    "judge": JUDGES,
    "labeller_kind": get_args(LabellerKind),
    "winner_position": (1, 2),
}


def _contract_of(
    *columns: str,
    required: str = "",
    unique: str = "",
    otherwise: str = "",
    status: tuple[str, ...] = (),
    unranged: tuple[str, ...] = (),
) -> Contract:
    """Make a contract from column names, which determine the dtypes, allowed words and ranges."""
    names = " ".join(columns).split()
    words = {**_WORDS, **({"status": status} if status else {})}
    return Contract(
        columns={name: _DTYPES.get(name, "str") for name in names},
        required=tuple(required.split()),
        unique=tuple(unique.split()),
        otherwise=tuple(otherwise.split()),
        allowed={name: words[name] for name in names if name in words},
        ranges={n: _RANGES[n] for n in names if n in _RANGES and n not in unranged},
    )


# columns that identify an attempt and its grading; every frame uses the same names
ORIGINAL = "original"  # names an answer when it is compared with its perturbed copy
ATTEMPT_KEYS = ["attempt_id", *CASE, "condition", "repeat", "agent", "perturbation"]
GRADER_KEYS = [
    "grader",
    "grader_kind",
    "grader_model",
    "grader_family",
    "grader_version",
    "round",
]
_TOKENS = "input_tokens cached_tokens output_tokens"

CONTRACTS: Mapping[str, Contract] = {
    "cases": _contract_of(
        "skill suite case_id prompt dimension comprehension_dimension concept_field transfer"
        " criticality bloom schema_weight contrast_of task should_trigger prompt_kind n_checks",
        required="skill case_id",
        unique="skill case_id",
    ),
    "checks": _contract_of(
        "skill case_id check_id check_kind goal description judge",
        required="skill case_id check_id",
        unique="skill case_id check_id",
    ),
    "attempts": _contract_of(
        "attempt_id skill case_id condition repeat sitting loaded_skill source_attempt_id"
        " perturbation agent agent_model agent_family status stop_reason answer n_words"
        f" {_TOKENS} cost_usd seconds triggered n_commands exit_code started_at",
        required="attempt_id skill case_id condition",
        unique="attempt_id",
        status=get_args(AttemptStatus),
    ),
    "verdicts": _contract_of(
        *ATTEMPT_KEYS,
        "check_id check_kind goal",
        *GRADER_KEYS,
        "batch item order status passed score evidence_quote evidence_found rationale borderline"
        " dimension_passed cost_usd graded_at",
        required="attempt_id skill case_id condition check_id grader",
        unique="attempt_id check_id grader grader_version round",
        status=get_args(VerdictStatus),
        unranged=("order",),
    ),
    "outcomes": _contract_of(
        *ATTEMPT_KEYS,
        *GRADER_KEYS,
        "comprehension_dimension transfer contrast_of task n_checks n_passed n_missing share_passed"
        " score passed checks_differ note",
        required="skill case_id condition",
        unique="attempt_id grader grader_version round",
        otherwise="skill case_id condition repeat agent perturbation grader grader_version round",
    ),
    "gold": _contract_of(
        "attempt_id check_id labeller labeller_kind labeller_family passed score"
        " borderline inclusion_probability note",
        required="attempt_id check_id",
        unique="attempt_id check_id labeller",
    ),
    "pairwise": _contract_of(
        "skill case_id grader grader_family grader_version order repeat first second winner"
        " winner_position gold_winner preference rationale",
        required="case_id first second",
        unique="case_id skill grader grader_version order repeat first second",
    ),
    "invocations": _contract_of(
        *ATTEMPT_KEYS,
        "offered invoked should_invoke",
        required="attempt_id skill case_id condition offered",
        unique="attempt_id offered",
    ),
    "events": _contract_of(
        *ATTEMPT_KEYS,
        f"ordinal turn kind tool text status exit_code read_only in_subagent {_TOKENS}",
        required="attempt_id skill case_id condition ordinal kind",
        unique="attempt_id ordinal",
    ),
    "passages": _contract_of(
        "passage_id skill document level text made_up",
        required="passage_id skill level",
        unique="passage_id",
    ),
    "estimates": _contract_of(
        "measure unit estimate ci_low ci_high ci_level se df n n_clusters p_value p_adjusted"
        " shown method note"
    ),
}
