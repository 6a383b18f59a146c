"""Search texts for patterns of files, and apply JSON Schemas, within limits of time and memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import regex

from skillcomp.errors import literal
from skillcomp.io.files import JsonObject

COMPILE_SECONDS = 5.0  # Time limit for compiling one pattern of a file.
MEMORY = 1 << 30  # Maximum memory in bytes of the process that handles a large or slow pattern.
# A pattern with at most this many characters, all counts written out, takes a few megabytes.
_SMALL, _MAX_GROUPS = 20_000, 100
_AT_ONCE = 0.1  # Seconds of processor time for a search in this process.
_BRACES = re.compile(r"\{([^{}]*)\}")
_NUMBER = re.compile(r"\d+")
# jsonschema searches for the patterns of this keyword without a time limit
_BY_PATTERN = "patternProperties"
_UNSUPPORTED = f"{_BY_PATTERN} is not supported; list the properties"
# The time limit of `regex` counts processor time and does not cover compiling; only a process of
# its own can be stopped at any time, and has a limit of memory.
_CHILD = """
import json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
except (ImportError, ValueError, OSError):
    pass
sys.path.insert(0, sys.argv[1])
import regex
try:
    job = json.load(sys.stdin)
    pattern = regex.compile(job["pattern"], job["flags"])
    print(json.dumps({"result": pattern.search(job["text"]) is not None}))
except (MemoryError, RecursionError, OverflowError, regex.error) as error:
    print(json.dumps({"why": str(error) or type(error).__name__}))
"""


class PatternError(Exception):
    """A pattern cannot be read, or takes too much time or memory."""


class PatternSearch:
    """Searches for patterns in texts, with one time limit for all of them.

    Parameters
    ----------
    seconds : float
        The limit in seconds of wall time; the time starts when the object is made.

    Notes
    -----
    A small pattern is searched for in this process. A pattern that is large once its counts are
    written out, and a search that takes long, get a process of their own, which ends at the time
    limit and may take at most 1 GiB of memory. Compiling is inside both limits.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._last = ""

    def occurs(self, pattern: str, text: str, flags: int = 0) -> bool:
        """Return whether a pattern occurs in a text; with no text, only check the pattern.

        Raises
        ------
        PatternError
            If the search runs out of time or memory, or the pattern cannot be read.
        """
        self._last = pattern
        left = self.require_time()
        try:
            if _is_small(pattern):
                compiled, limit = regex.compile(pattern, flags), min(left, _AT_ONCE)
                return compiled.search(text, timeout=limit) is not None
        except TimeoutError:
            pass
        except (MemoryError, RecursionError, OverflowError, regex.error) as error:
            raise self._reading_error(str(error) or type(error).__name__) from error
        job = {"pattern": pattern, "text": text, "flags": int(flags)}
        command = [sys.executable, "-I", "-S", "-c", _CHILD]
        command += [str(Path(regex.__file__).parent.parent), str(MEMORY)]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(job).encode(),
                capture_output=True,
                timeout=self.require_time(),
                check=False,
            )
            answer = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            raise self._time_error() from None
        except (OSError, ValueError):  # the process could not start, or was ended by the system
            answer = {"why": "MemoryError"}
        if "why" in answer:
            raise self._reading_error(answer["why"])
        return bool(answer["result"])

    def require_time(self) -> float:
        """Return the seconds that are left; raise PatternError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._time_error()
        return left

    def _reading_error(self, why: str) -> PatternError:
        if why == "MemoryError":
            why = f"it needs more than {MEMORY >> 20:,} MiB of memory; write smaller counts"
        return PatternError(f"cannot search for {literal(self._last)} ({why})")

    def _time_error(self) -> PatternError:
        return PatternError(
            f"the patterns of this case took longer than {self._seconds:g} seconds together; "
            f"the last was {literal(self._last)}"
        )


def _is_small(pattern: str) -> bool:
    """Return whether a pattern is short once its counts, such as ``{9}``, are written out."""
    counts = []
    for braces in _BRACES.findall(pattern):
        counts += [min(int(digits[:9]), _SMALL) for digits in _NUMBER.findall(braces)[-1:]]
    size = len(pattern) * prod(max(count, 1) for count in counts[:_MAX_GROUPS])
    n_groups = pattern.count("(") + pattern.count("[")
    return size <= _SMALL and len(counts) <= _MAX_GROUPS and n_groups <= _MAX_GROUPS


def schema_problem(content: JsonObject) -> str | None:
    """Return why a JSON object cannot be used as a JSON Schema; None if it can."""
    import jsonschema

    if any(_BY_PATTERN in part for part in _objects_in(content)):
        return _UNSUPPORTED
    try:
        jsonschema.validators.validator_for(content).check_schema(content)
    except jsonschema.SchemaError as cause:
        return str(cause.message)[:200]
    except RecursionError:
        return "it is nested too deeply"
    except Exception as cause:  # jsonschema raises TypeError if `$schema` is a list
        return f"{cause!r:.200}"
    patterns = PatternSearch(COMPILE_SECONDS)
    try:
        for part in _objects_in(content):
            if isinstance(part.get("pattern"), str):
                patterns.occurs(part["pattern"], "")
    except PatternError as error:
        return str(error)
    return None


def _objects_in(content: Any) -> Iterator[JsonObject]:
    """Yield the objects in parsed JSON."""
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def misfit(content: Any, schema: JsonObject, patterns: PatternSearch) -> str | None:
    """Return the first place where content does not fit a JSON Schema, and why; None if it fits.

    References from the schema to files or addresses are not followed. A part of the schema cannot
    change the version of JSON Schema with a ``$schema`` of its own.

    Raises
    ------
    PatternError
        If the time limit ends before a result is known.
    """
    from jsonschema import ValidationError
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    if any(_BY_PATTERN in part for part in _objects_in(schema)):
        raise PatternError(_UNSUPPORTED)

    def pattern(_: Any, regexp: str, text: Any, __: Any) -> Iterator[Any]:
        if isinstance(text, str) and not patterns.occurs(regexp, text):
            yield ValidationError(f"{text!r} does not match {regexp!r}")

    kind = extend(validator_for(schema), {"pattern": pattern})

    def evolve(self: Any, **changes: Any) -> Any:
        # a part of the schema may have its own `$schema`; for such a part, jsonschema would use a
        # validator without a time limit
        patterns.require_time()
        same = {"schema": self.schema, "registry": self._registry, "_resolver": self._resolver}
        return kind(**same | changes)

    kind.evolve = evolve
    error = next(kind(schema, registry=Registry()).iter_errors(content), None)
    return None if error is None else f"{error.json_path}: {error.message:.300}"
