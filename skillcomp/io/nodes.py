"""Reading YAML that strangers wrote: bounded, no key twice, and every place with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from skillcomp.errors import SkillcompError
from skillcomp.io.files import decode

MAX_BYTES = 1 << 20  # a study or a suite is some pages of text


def read_yaml(
    path: Path, *, what: str, error: type[SkillcompError], data: bytes | None = None
) -> tuple[dict[Any, Any], yaml.Node | None]:
    """Return a file of ``key: value`` lines and its nodes, which know their lines."""
    try:
        data = path.read_bytes() if data is None else data
    except OSError as cause:
        raise error(f"{path}: cannot be read ({cause.strerror}).") from cause
    text = decode(data, path, error)
    if len(data) > MAX_BYTES:
        raise error(f"{path}: {len(data):,} bytes; a {what} may have at most {MAX_BYTES:,}.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _require_plain(node, path, error)
        content = None if node is None else SafeConstructor().construct_document(node)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise error(f"{path}{line}: not YAML ({cause.problem}).") from cause
    except (yaml.YAMLError, ValueError, RecursionError) as cause:
        raise error(f"{path}: not YAML ({str(cause).splitlines()[0]}).") from cause
    if not isinstance(content, dict):
        example = "store: my-study" if what == "study" else "skill_id: my-skill"
        raise error(f"{path}: expected 'key: value' lines, as '{example}'.")
    return content, node


def _require_plain(node: yaml.Node | None, path: Path, error: type[SkillcompError]) -> None:
    sizes: dict[int, float] = {}  # of each node with its aliases written out

    def size(one: yaml.Node) -> float:
        if id(one) in sizes:
            return sizes[id(one)]
        sizes[id(one)] = math.inf  # while it is being looked at: it may hold itself
        found = 1.0
        if isinstance(one, yaml.MappingNode):
            _require_once(one, path, error)
            found += sum(size(key) + size(value) for key, value in one.value)
        else:
            found += sum(map(size, one.value)) if isinstance(one.value, list) else len(one.value)
        sizes[id(one)] = found
        return found

    if node is not None and size(node) > MAX_BYTES:
        raise error(
            f"{path}: with its aliases written out it has more than {MAX_BYTES:,} characters."
        )


def _require_once(node: yaml.MappingNode, path: Path, error: type[SkillcompError]) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line, name = key.start_mark.line + 1, (key.tag, key.value)
        if name in lines:
            raise error(
                f"{path}, line {line}: '{key.value}' is given twice; first in line {lines[name]}."
            )
        lines[name] = line


def line_of(node: yaml.Node | None, place: Sequence[Any]) -> int:
    """Return the line, counted from 1, of a place given as keys and positions."""
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if k.value == str(part)]
            if not found:
                break
            key, value = found[-1]
            # the line of the key, unless the value is a list or mapping to go down into
            node = value if isinstance(value, yaml.CollectionNode) else key
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
        else:
            break
    return node.start_mark.line + 1 if node is not None else 1
