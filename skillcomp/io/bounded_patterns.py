"""Search texts for the patterns of a suite, and apply JSON Schemas, within one time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

from skillcomp.errors import literal

_BY_PATTERN = "patternProperties"
# jsonschema checks unevaluatedProperties with a pattern search that has no time limit
_UNSUPPORTED = f"unevaluatedProperties is not supported in a schema with {_BY_PATTERN}"


class PatternError(Exception):
    """A search for a pattern took too much time or memory."""


class PatternSearch:
    """Searches for patterns in texts, with one time limit for all of them.

    Parameters
    ----------
    seconds : float
        The time limit in seconds; the time starts when the object is made.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._last = ""

    def occurs(self, pattern: str, text: str, flags: int = 0) -> bool:
        """Return whether a pattern occurs in a text.

        Raises
        ------
        PatternError
            If the search runs out of time or memory, or the pattern cannot be read.
        """
        self._last = pattern
        left = self.require_time()
        try:
            return regex.search(pattern, text, flags, timeout=left) is not None
        except TimeoutError:
            raise self._time_error() from None
        except (MemoryError, RecursionError, OverflowError, regex.error) as error:
            why = str(error) or type(error).__name__
            raise PatternError(f"cannot search for {literal(pattern)} ({why})") from error

    def require_time(self) -> float:
        """Return the seconds that are left; raise PatternError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._time_error()
        return left

    def _time_error(self) -> PatternError:
        return PatternError(
            f"the patterns of this case took longer than {self._seconds:g} seconds together; "
            f"the last was {literal(self._last)}"
        )


def schema_problem(content: Mapping[str, Any]) -> str | None:
    """Return why a JSON object cannot be used as a JSON Schema; None if it can."""
    import jsonschema

    if _names_both(content):
        return _UNSUPPORTED
    try:
        jsonschema.validators.validator_for(content).check_schema(content)
    except jsonschema.SchemaError as cause:
        return str(cause.message)[:200]
    except RecursionError:
        return "it is nested too deeply"
    except Exception as cause:  # jsonschema raises TypeError if `$schema` is a list
        return f"{cause!r:.200}"
    return None


def _names_both(content: Any) -> bool:
    names: set[str] = set()
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            names |= part.keys()
        waiting += part.values() if isinstance(part, dict) else part if type(part) is list else ()
    return {"unevaluatedProperties", _BY_PATTERN} <= names


def misfit(content: Any, schema: Mapping[str, Any], patterns: PatternSearch) -> str | None:
    """Return the first place where content does not fit a JSON Schema, and why; None if it fits.

    References from the schema to files or addresses are not followed. A part of the schema cannot
    change the version of JSON Schema with a ``$schema`` of its own.

    Raises
    ------
    PatternError
        If the time limit ends before a result is known.
    """
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    if _names_both(schema):
        raise PatternError(_UNSUPPORTED)
    kind: Any = extend(validator_for(schema), _bounded_keywords(patterns))

    def evolve(self: Any, **changes: Any) -> Any:
        # a part of the schema may have its own `$schema`; for such a part, jsonschema would use a
        # validator without a time limit
        patterns.require_time()
        same = {"schema": self.schema, "registry": self._registry, "_resolver": self._resolver}
        return kind(**same | changes)

    kind.evolve = evolve
    error = next(kind(schema, registry=Registry()).iter_errors(content), None)
    return None if error is None else f"{error.json_path}: {error.message:.300}"


def _bounded_keywords(patterns: PatternSearch) -> dict[str, Callable[..., Iterator[Any]]]:
    """Return validators of the JSON Schema keywords that use patterns; all share one time limit."""
    from jsonschema import ValidationError

    def pattern(_: Any, regexp: str, text: Any, __: Any) -> Iterator[Any]:
        if isinstance(text, str) and not patterns.occurs(regexp, text):
            yield ValidationError(f"{text!r} does not match {regexp!r}")

    def pattern_properties(kind: Any, parts: Any, row: Any, __: Any) -> Iterator[Any]:
        for regexp, part in parts.items() if isinstance(row, dict) else ():
            for name in row:
                if patterns.occurs(regexp, name):
                    yield from kind.descend(row[name], part, path=name, schema_path=regexp)

    def additional_properties(kind: Any, part: Any, row: Any, schema: Any) -> Iterator[Any]:
        others = schema.get("properties", {}), schema.get(_BY_PATTERN, {})
        for name in row if isinstance(row, dict) else ():
            if name in others[0] or any(patterns.occurs(regexp, name) for regexp in others[1]):
                continue
            if part is False:
                yield ValidationError(f"additional properties are not allowed: {name!r}")
            else:
                yield from kind.descend(row[name], part, path=name)

    return {
        "pattern": pattern,
        _BY_PATTERN: pattern_properties,
        "additionalProperties": additional_properties,
    }
