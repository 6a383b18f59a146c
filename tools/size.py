"""Print the size of the package: tokens, lines, files and public names.

Usage: ``python tools/size.py``, or ``make size``. A token counts unless it is a comment, a
docstring or layout; a line counts if such a token is on it. A public name is a dotted name that
``dir`` lists, from ``skillcomp`` down through its modules; the modules do not count.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import skillcomp

LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def counted_tokens(source: str) -> list[tokenize.TokenInfo]:
    """Return the tokens of a source text without comments, docstrings and layout."""
    in_docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            in_docstrings |= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        token
        for token in tokens
        if token.type not in LAYOUT and token.start[0] not in in_docstrings
    ]


def size_of_files(folder: Path) -> dict[str, int]:
    """Return the tokens, lines and files of the Python sources below a folder."""
    size = {"tokens": 0, "lines": 0, "files": 0}
    for path in sorted(folder.rglob("*.py")):
        tokens = counted_tokens(path.read_text(encoding="utf-8"))
        lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
        size["tokens"] += len(tokens)
        size["lines"] += len(lines)
        size["files"] += 1
    return size


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the dotted names of a package that are not modules."""
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and value.__name__.startswith("skillcomp."):
            yield from (f"{name}.{below}" for below in public_names(value))
        elif not name.startswith("__"):
            yield name


if __name__ == "__main__":
    size = size_of_files(Path(skillcomp.__file__).parent)
    size["public names"] = len(set(public_names(skillcomp)))
    for what, number in size.items():
        print(f"{number:>9,} {what}")
