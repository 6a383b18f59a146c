"""Search test files of task suites for code that executes an answer in the test's own process."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from skillcomp.errors import SuiteError, literal
from skillcomp.io.files import read_bytes
from skillcomp.io.task_suites import FIXTURES, task_files
from skillcomp.lint.lint_rules import RuleMessages
from skillcomp.records import Suite

_MAX_BYTES = 1 << 20
_FORKS = "fork forkpty execl execle execlp execlpe execv execve execvp execvpe posix_spawn"
_SPAWNS = "posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
# module -> its functions that execute or load code in the process of the test, or start a process
# that is not separated from the test
_NAMES = {
    "builtins": "exec eval __import__",
    "runpy": "run_path run_module",
    "importlib": "import_module reload",
    "importlib.util": "spec_from_file_location module_from_spec",
    "importlib.machinery": "SourceFileLoader SourcelessFileLoader",
    "code": "InteractiveInterpreter InteractiveConsole interact",
    "cProfile": "run runctx",
    "profile": "run runctx",
    "timeit": "timeit repeat Timer",
    "doctest": "testfile testmod",
    "pkgutil": "resolve_name",
    "types": "FunctionType CodeType",
    "pickle": "load loads Unpickler",
    "marshal": "load loads",
    "shelve": "open",
    "zipimport": "zipimporter",
    "ctypes": "CDLL PyDLL cdll",
    "os": f"{_FORKS} {_SPAWNS}",
    "pty": "fork spawn",
    "multiprocessing": "Process Pool get_context",
    "concurrent.futures": "ProcessPoolExecutor",
}
_CALLS = {f"{module}.{name}" for module, names in _NAMES.items() for name in names.split()}
_CALLS |= {*_NAMES["builtins"].split()}  # these names need no module


def in_process_messages(suite: Suite, folder: Path) -> RuleMessages:
    """Yield rule and message for each place that can execute the answer in the process of a test.

    A test file that never names ``AI_OUTPUT_FILE`` is searched too, because a ``conftest.py`` or a
    helper can read the variable. Files that a test imports and every ``conftest.py`` are searched
    as well. A file that is not Python is skipped; pytest reports it.
    """
    judges = (check.judge for case in suite.cases for check in case.checks)
    tests = dict.fromkeys(judge.test_file for judge in judges if judge and judge.test_file)
    files = {}
    try:
        names = [name for name in task_files(folder) if name.startswith(f"{FIXTURES}/")]
    except (SuiteError, OSError):
        names = []
    for name in dict.fromkeys([*tests, *names]):
        if name.endswith(".py"):
            try:
                files[name] = read_bytes(
                    folder / name,
                    root=folder,
                    max_bytes=_MAX_BYTES,
                    what="test file",
                    error=SuiteError,
                )
            except SuiteError:
                continue
    places = dict.fromkeys(place for test in tests for place in _places(files, test))
    for name, line, call in places:
        yield "answer_in_process", f"{name}, line {line}: {literal(call)[1:-1]}."


def executes_answer(files: Mapping[str, bytes], test: str) -> bool:
    """Return whether a test can execute the answer in its own process; see `in_process_messages`.

    Parameters
    ----------
    files : mapping of str to bytes
        The files of the suite's fixtures, by name.
    test : str
        Name of the test file.
    """
    return any(True for _ in _places(files, test))


def _places(files: Mapping[str, bytes], test: str) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and name of each call in a test file and in the files that it loads."""
    folders = set(map(str, PurePosixPath(test).parents))
    conftests = [name for folder in folders if (name := f"{folder}/conftest.py") in files]
    names, seen = [test, *sorted(conftests)], set[str]()
    while names:
        name = names.pop(0)
        if name in seen or name not in files:
            continue
        seen.add(name)
        try:
            # parsing can warn, for example about an invalid escape sequence
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(files[name])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        written = {posixpath.basename(text) for text in texts if isinstance(text, str)}
        for line, call in _calls_in_process(tree):
            yield name, line, f"{call}(...)"
        for line, _, whole in _imports(tree):
            # the name can be a module or something in a module
            for module in filter(None, (whole.rpartition(".")[0], whole)):
                place = module.replace(".", "/")
                inside = [f"{at}/{place}{end}" for at in folders for end in (".py", "/__init__.py")]
                helpers = [file for file in inside if file in files]
                names += helpers
                package = module.partition(".")[0]
                if not helpers and f"{package}.py" in written:  # the test writes the module
                    yield name, line, f"import {package}"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and full name of everything that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                yield node.lineno, alias.asname or alias.name, whole


def _calls_in_process(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each function that can execute the answer in the test's process.

    A function is found where it is called and where it is only named, as in ``run = exec``.
    """
    full_names = {name: whole for _, name, whole in _imports(tree) if whole in {*_CALLS, *_NAMES}}
    places = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = _dotted_name(node)
        elif isinstance(node, ast.Call) and _dotted_name(node.func) == "getattr" and node.args[1:]:
            place, attribute = node.args[:2]
            name = f"{_dotted_name(place)}.{getattr(attribute, 'value', '')}"
        else:
            continue
        module, _, function = name.rpartition(".")
        call = full_names.get(name, name)
        if module in full_names:
            call = f"{full_names[module]}.{function}"
        # every module loader has a method `exec_module`, so its name is enough
        if call in _CALLS or function == "exec_module":
            places.add((node.lineno, call))
    yield from sorted(places)


def _dotted_name(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id if isinstance(node, ast.Name) else ""]))
