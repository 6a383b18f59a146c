"""Search test files of task suites for code that executes an answer in the test's own process."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from skillcomp.errors import SuiteError, literal
from skillcomp.io.files import read_bytes
from skillcomp.lint.lint_rules import RuleMessages
from skillcomp.records import Suite

_MAX_BYTES = 1 << 20
_BUILTINS = frozenset(["exec", "eval", "__import__"])
# module -> its functions that execute or load code
_FUNCTIONS = {
    "builtins": _BUILTINS,
    "runpy": frozenset(["run_path", "run_module"]),
    "importlib": frozenset(["import_module", "reload"]),
    "importlib.util": frozenset(["spec_from_file_location", "module_from_spec"]),
    "importlib.machinery": frozenset(["SourceFileLoader", "SourcelessFileLoader"]),
}


def in_process_messages(suite: Suite, folder: Path) -> RuleMessages:
    """Yield rule and message for each call that can execute the answer in the process of a test.

    A test file that never names ``AI_OUTPUT_FILE`` is searched too, because a ``conftest.py`` or a
    helper can read the variable. A file that is not Python is skipped; pytest reports it.
    """
    judges = (check.judge for case in suite.cases for check in case.checks)
    names = dict.fromkeys(judge.test_file for judge in judges if judge and judge.test_file)
    for name in names:
        what = "test file"
        try:
            data = read_bytes(
                folder / name, root=folder, max_bytes=_MAX_BYTES, what=what, error=SuiteError
            )
            # parsing can warn, for example about an invalid escape sequence
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(data)
        except (SuiteError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for line, call in _calls_in_process(tree):
            yield "answer_in_process", f"{name}, line {line}: {literal(call)[1:-1]}(...)."


def _calls_in_process(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each call that can execute the answer in the test's process."""
    modules = {name: name for name in _FUNCTIONS}
    functions = {name: name for name in _BUILTINS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname: a.name for a in node.names if a.asname and a.name in _FUNCTIONS}
        elif isinstance(node, ast.ImportFrom) and node.module in _FUNCTIONS:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in _FUNCTIONS:
                    modules[alias.asname or alias.name] = whole
                elif alias.name in _FUNCTIONS[node.module]:
                    functions[alias.asname or alias.name] = whole
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda call: call.lineno):
        name = _dotted_name(node.func)
        module, _, function = name.rpartition(".")
        if name in functions:
            yield node.lineno, functions[name]
        elif module in modules and function in _FUNCTIONS[modules[module]]:
            yield node.lineno, f"{modules[module]}.{function}"
        elif function == "exec_module":
            # every module loader has a method `exec_module`, so its name is enough
            yield node.lineno, name


def _dotted_name(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id if isinstance(node, ast.Name) else ""]))
