"""What a frame of each kind holds: columns, dtypes, keys and allowed values, stated once.

``skillcomp.contracts`` holds frames against these tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillcomp.records import CONCEPT_FIELDS, DIMENSIONS

__all__ = ["ABOVE_ZERO", "CONTRACTS", "TIME", "Contract"]

TIME: Any = "datetime64[us, UTC]"


@dataclass(frozen=True)
class Contract:
    """What a frame of one kind holds.

    Attributes
    ----------
    columns : dict of str to str
        Column name to pandas dtype, in order.
    required : tuple of str
        Columns that must be there and hold no missing value; others are added as NA.
    unique : tuple of str
        Columns that together name a row.
    otherwise : tuple of str
        Columns that together name a row whose first ``unique`` column is missing.
    allowed : dict of str to tuple
        Closed vocabularies; NA is allowed beside them unless the column is required.
    ranges : dict of str to (float, float)
        Closed ranges of numeric columns.
    """

    columns: Mapping[str, str]
    required: tuple[str, ...]
    unique: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


_KINDS = ("positive", "negative")
_GOALS = ("outcome", "process", "style", "efficiency")
_TRANSFER = ("near", "far")
_GRADER_COLUMNS = {
    "grader": "str",
    "grader_kind": "str",
    "grader_model": "str",
    "grader_family": "str",
    "grader_version": "str",
    "round": "Int64",
}
_POSITIVE = (0.0, float("inf"))
_COUNT = (0.0, float("inf"))
# the least number above 0: the low end of a range that leaves 0 out
ABOVE_ZERO = math.ulp(0.0)

CONTRACTS: Mapping[str, Contract] = {
    "cases": Contract(
        columns={
            "skill": "str",
            "suite": "str",
            "case_id": "str",
            "prompt": "str",
            "dimension": "str",
            "comprehension_dimension": "str",
            "concept_field": "str",
            "transfer": "str",
            "criticality": "str",
            "bloom": "str",
            "schema_weight": "float64",
            "contrast_of": "str",
            "should_trigger": "boolean",
            "n_checks": "Int64",
        },
        required=("skill", "case_id"),
        unique=("case_id",),
        allowed={
            "comprehension_dimension": DIMENSIONS,
            "concept_field": CONCEPT_FIELDS,
            "transfer": _TRANSFER,
        },
        ranges={"n_checks": _COUNT, "schema_weight": _POSITIVE},
    ),
    "checks": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "check_id": "str",
            "check_kind": "str",
            "goal": "str",
            "description": "str",
        },
        required=("skill", "case_id", "check_id"),
        unique=("case_id", "check_id"),
        allowed={"check_kind": _KINDS, "goal": _GOALS},
    ),
    "attempts": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "sitting": "str",
            "loaded_skill": "str",
            "source_attempt_id": "str",
            "perturbation": "str",
            "agent": "str",
            "agent_model": "str",
            "agent_family": "str",
            "status": "str",
            "stop_reason": "str",
            "answer": "str",
            "n_words": "Int64",
            "input_tokens": "Int64",
            "cached_tokens": "Int64",
            "output_tokens": "Int64",
            "cost_usd": "float64",
            "seconds": "float64",
            "triggered": "boolean",
            "n_commands": "Int64",
            "started_at": TIME,
        },
        required=("attempt_id", "skill", "case_id", "condition"),
        unique=("attempt_id",),
        allowed={"status": ("ok", "error", "refused", "truncated", "paused", "timeout")},
        ranges={
            "repeat": (1, float("inf")),
            "n_words": _COUNT,
            "input_tokens": _COUNT,
            "cached_tokens": _COUNT,
            "output_tokens": _COUNT,
            "cost_usd": _COUNT,
            "seconds": _COUNT,
            "n_commands": _COUNT,
        },
    ),
    "verdicts": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "agent": "str",
            "perturbation": "str",
            "check_id": "str",
            "check_kind": "str",
            "goal": "str",
            **_GRADER_COLUMNS,
            "batch": "str",
            "item": "str",
            "order": "Int64",
            "status": "str",
            "passed": "boolean",
            "score": "float64",
            "evidence_quote": "str",
            "evidence_found": "boolean",
            "rationale": "str",
            "borderline": "boolean",
            "dimension_passed": "boolean",
            "cost_usd": "float64",
            "graded_at": TIME,
        },
        required=("attempt_id", "skill", "case_id", "condition", "check_id", "grader"),
        unique=("attempt_id", "check_id", "grader", "grader_version", "round"),
        allowed={
            "check_kind": _KINDS,
            "goal": _GOALS,
            "status": ("ok", "malformed", "error", "refused"),
        },
        ranges={
            "repeat": (1, float("inf")),
            "round": (1, float("inf")),
            "cost_usd": _COUNT,
        },
    ),
    "outcomes": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "agent": "str",
            "perturbation": "str",
            **_GRADER_COLUMNS,
            "comprehension_dimension": "str",
            "transfer": "str",
            "contrast_of": "str",
            "n_checks": "Int64",
            "n_passed": "Int64",
            "n_missing": "Int64",
            "share_passed": "float64",
            "passed": "boolean",
        },
        required=("skill", "case_id", "condition"),
        unique=("attempt_id", "grader", "grader_version", "round"),
        otherwise=(
            *("skill", "case_id", "condition", "repeat", "agent", "perturbation"),
            *("grader", "grader_version", "round"),
        ),
        allowed={"comprehension_dimension": DIMENSIONS, "transfer": _TRANSFER},
        ranges={
            "repeat": (1, float("inf")),
            "round": (1, float("inf")),
            "n_checks": _COUNT,
            "n_passed": _COUNT,
            "n_missing": _COUNT,
            "share_passed": (0.0, 1.0),
        },
    ),
    "gold": Contract(
        columns={
            "attempt_id": "str",
            "check_id": "str",
            "labeller": "str",
            "passed": "boolean",
            "borderline": "boolean",
            "inclusion_probability": "float64",
            "note": "str",
        },
        required=("attempt_id", "check_id"),
        unique=("attempt_id", "check_id", "labeller"),
        ranges={"inclusion_probability": (ABOVE_ZERO, 1.0)},
    ),
    "pairwise": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "grader": "str",
            "grader_family": "str",
            "order": "Int64",
            "first": "str",
            "second": "str",
            "winner": "str",
            "winner_position": "Int64",
            "rationale": "str",
        },
        required=("case_id", "first", "second"),
        unique=("case_id", "grader", "order", "first", "second"),
        allowed={"winner_position": (1, 2)},
        ranges={"order": (1, float("inf"))},
    ),
    "passages": Contract(
        columns={
            "passage_id": "str",
            "skill": "str",
            "document": "str",
            "level": "str",
            "text": "str",
        },
        required=("passage_id", "skill", "level"),
        unique=("passage_id",),
    ),
    "estimates": Contract(
        columns={
            "measure": "str",
            "estimate": "float64",
            "ci_low": "float64",
            "ci_high": "float64",
            "ci_level": "float64",
            "n": "float64",
            "n_clusters": "float64",
            "p_value": "float64",
            "p_adjusted": "float64",
            "method": "str",
            "note": "str",
        },
        required=(),
        ranges={"ci_level": (0.0, 1.0), "p_value": (0.0, 1.0), "p_adjusted": (0.0, 1.0)},
    ),
}
