"""YAML read strictly: a mapping, no key twice, no alias that stands for more than a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from skillcomp.errors import StudyError

__all__ = ["MAX_BYTES", "line_of", "read_yaml"]

MAX_BYTES = 1 << 20  # a study is a page of text


def read_yaml(path: Path) -> tuple[dict[Any, Any], yaml.Node | None]:
    """Return a file of ``key: value`` lines and its nodes, which know their lines.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Returns
    -------
    tuple of (dict, yaml.Node or None)
        What it says, and the tree for `line_of`.

    Raises
    ------
    StudyError
        When it cannot be read, is not UTF-8, not YAML or no mapping, is larger than a megabyte
        (with its aliases written out), gives a key twice or has a value that holds itself.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as cause:
        raise StudyError(f"{path}: cannot be read ({cause.strerror}).") from cause
    except UnicodeDecodeError as cause:
        raise StudyError(f"{path}: not UTF-8.") from cause
    if len(data) > MAX_BYTES:
        raise StudyError(f"{path}: {len(data):,} bytes; a study may have at most {MAX_BYTES:,}.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _require_plain(node, path)
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise StudyError(f"{path}{line}: not YAML ({cause.problem}).") from cause
    except (yaml.YAMLError, ValueError, RecursionError) as cause:
        raise StudyError(f"{path}: not YAML ({str(cause).splitlines()[0]}).") from cause
    if not isinstance(content, dict):
        raise StudyError(f"{path}: expected 'key: value' lines, as 'store: my-study'.")
    return content, node


def _require_plain(node: yaml.Node | None, path: Path) -> None:
    sizes: dict[int, float] = {}  # of each node with its aliases written out

    def size(one: yaml.Node) -> float:
        if id(one) in sizes:
            return sizes[id(one)]
        sizes[id(one)] = math.inf  # while it is being looked at: it may hold itself
        found = 1.0
        if isinstance(one, yaml.MappingNode):
            _require_once(one, path)
            found += sum(size(key) + size(value) for key, value in one.value)
        else:
            found += sum(map(size, one.value)) if isinstance(one.value, list) else len(one.value)
        sizes[id(one)] = found
        return found

    if node is not None and size(node) > MAX_BYTES:
        raise StudyError(
            f"{path}: with its aliases written out it has more than {MAX_BYTES:,} characters."
        )


def _require_once(node: yaml.MappingNode, path: Path) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line, name = key.start_mark.line + 1, (key.tag, key.value)
        if name in lines:
            raise StudyError(
                f"{path}, line {line}: '{key.value}' is given twice; first in line {lines[name]}."
            )
        lines[name] = line


def line_of(node: yaml.Node | None, place: Sequence[Any]) -> int:
    """Return the line, counted from 1, of a place given as keys and positions.

    Parameters
    ----------
    node : yaml.Node or None
        The tree that `read_yaml` returned.
    place : sequence of str and int
        As ``["agents", 0, "model"]``.

    Returns
    -------
    int
        Of the deepest part of the place that is there.
    """
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
