"""Run one test file on one answer. `sandbox` starts this file as a program; nothing imports it.

skillcomp cannot be imported here. The job is read from standard input. The outcome of each test is
written to standard output as soon as it is known, so that it is kept even if this process crashes.
No other process can write there: the output is a file without a name, its descriptor is not passed
to other programs, and no program of the same user may look into this process.

The tests belong to the judge. A program that a test starts is separated from it: it runs in a
sandbox of its own or as another user, and it finds none of the test's files.
"""

import builtins
import ctypes
import importlib.abc
import importlib.util
import inspect
import io
import json
import linecache
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# Arguments of the system call prctl.
_DUMPABLE, _KEEP_CAPS, _AMBIENT, _RAISE, _NO_NEW_PRIVS = 4, 8, 47, 2, 38
_READ_ALL = 2  # The Linux capability CAP_DAC_READ_SEARCH, which gives the right to read all files.
_NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo")
# Audit events of programs and processes that a test starts without subprocess.
_STARTS = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn")
_WORD = re.compile(r"[^\s'\"=:;<>|&()]+")  # Matches a path in a command of the shell.
_ENDINGS = (".py", "/__init__.py")
_TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


def _drop_root(users: Sequence[int], reads_all: bool) -> None:
    """Change permanently from root to other users, who may read all files if `reads_all`.

    The effective user is the last of `users`, who is also the user of the programs that a test
    starts: tests and programs share their folders. The real and saved user is the first. Only
    these two decide who may send a signal, so the programs cannot end this process. With the
    groups it is the other way round: the effective group may read the test's files.
    """
    libc = ctypes.CDLL(None)
    if reads_all:
        libc.prctl(_KEEP_CAPS, 1, 0, 0, 0)
    judge, program = users[0], users[-1]
    os.setgroups([])
    os.setresgid(program, judge, judge)
    os.setresuid(judge, program, judge)
    if reads_all:
        # The header of capset holds the version of the interface (3) and the process (0 for this
        # one). The data are the effective, permitted and inheritable sets: first the lower 32 bits
        # of all three, then the upper 32 bits.
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        caps = (ctypes.c_uint32 * 6)(*[1 << _READ_ALL] * 3, 0, 0, 0)
        if libc.capset(header, caps) == 0:
            libc.prctl(_AMBIENT, _RAISE, _READ_ALL, 0, 0)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)


def _set_limits(limits: Mapping[str, int]) -> None:
    import resource

    for name, most in limits.items():
        with suppress(AttributeError, OSError, ValueError):  # skip limits that the system lacks
            number = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(number)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(number, (most, most))


class _Reporter:
    """A pytest plugin that writes the outcome of each test to the report."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.pid = os.getpid()

    def write(self, **line: Any) -> None:
        if os.getpid() == self.pid:  # a copy of this process that a test forked reports nothing
            os.write(self.descriptor, (json.dumps(line) + "\n").encode())

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            last = str(report.longrepr).strip().splitlines()[-1]
            self.write(broken=last.removeprefix("E").strip()[:2000])

    def pytest_collection_finish(self, session: Any) -> None:
        self.write(collected=[item.nodeid for item in session.items])

    def pytest_runtest_logreport(self, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = str(crash.message if crash else report.longrepr)[:2000]
        message = message if report.outcome == "failed" else ""
        self.write(test=report.nodeid, when=report.when, outcome=report.outcome, message=message)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.write(end=int(exitstatus))


def _bare(text: str) -> str:
    """Return a text without blanks, quotes and other signs, which a test may add or escape."""
    return re.sub(r"[^\w./-]", "", text)


class _Separation:
    """Start the programs of a test where they can reach neither this process nor the test's files.

    A program sees the folder `given`: the answer, and copies of those fixtures that its arguments,
    its working folder or its variables name, at the same places as below `root`. If `empties`, the
    files below `root` are emptied before the first program starts. The test then opens and imports
    them from memory; their names stay, so that the test can list its folders.

    Attributes
    ----------
    root, given : str
        Folder of the test's files, and folder of the files for programs.
    launch : list of str
        Words to put before each command.
    user : int or None
        User id of the programs; None if it is that of this process.
    empties : bool
        Whether the test's files are emptied.
    """

    def __init__(self, job: Mapping[str, Any], report: _Reporter) -> None:
        self.root = job["root"]
        self.given = os.path.dirname(os.environ["AI_OUTPUT_FILE"])
        self.launch, self.empties = job["launch"], job["empties"]
        self.user = job["users"][-1] if job["users"][1:] else None
        self.report = report
        self.has_started = self.is_starting = self.is_emptying = False
        self.files = {str(p): p.read_bytes() for p in Path(self.root).rglob("*") if p.is_file()}
        self.answer = Path(os.environ["AI_OUTPUT_FILE"]).read_bytes()
        self.answer_lines = self.answer.decode("utf-8", "replace").splitlines()
        self.real_open, self.real_stat = io.open, os.stat
        sys.addaudithook(self._look)
        start = subprocess.Popen.__init__
        signature = inspect.signature(start)

        def separated(*words: Any, **options: Any) -> None:
            call = signature.bind(*words, **options)
            self._separate(call.arguments)
            self.is_starting = True
            try:
                start(*call.args, **call.kwargs)
            finally:
                self.is_starting = False

        subprocess.Popen.__init__ = separated  # type: ignore[method-assign]
        os.system = lambda command: subprocess.call(command, shell=True) << 8

    def _separate(self, call: dict[str, Any]) -> None:
        """Change the arguments of a call of `subprocess.Popen`."""
        self._begin()
        environment = dict(os.environ if call.get("env") is None else call["env"])
        environment = {os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()}
        folder = os.path.abspath(os.fsdecode(call.get("cwd") or os.getcwd()))
        words = call["args"]
        if isinstance(words, str | bytes | os.PathLike):
            words = [words]
        words = [os.fsdecode(word) for word in words]
        if call.pop("shell", False):
            words = ["/bin/sh", "-c", *words]
        if call.get("executable") is not None:
            words[0] = os.fsdecode(call.pop("executable"))
        self._give(folder, words)
        self._give(folder, list(environment.values()))
        words = [self._renamed(word) for word in words]
        call["env"] = {name: self._renamed(value) for name, value in environment.items()}
        call["cwd"] = self._renamed(folder)
        if self.launch:
            # the launcher would start where a missing program raises
            name = os.path.join(call["cwd"], words[0]) if "/" in words[0] else words[0]
            program = shutil.which(name, path=environment.get("PATH"))
            if program is None:
                raise FileNotFoundError(2, os.strerror(2), words[0])
            words = [*self.launch, program, *words[1:]]
        if self.user is not None:
            call |= {"user": self.user, "group": self.user}
        call["args"] = words

    def _give(self, folder: str, texts: Sequence[str]) -> None:
        """Copy the fixtures to `given` that texts name, seen from a folder."""
        command = _bare("".join(texts))
        if command and any(command in _bare(line) for line in self.answer_lines):
            texts = []  # the answer is the command, and must not choose the fixtures
        names = {name for text in texts for name in (text, *self._names_in(text))}
        paths = {os.path.normpath(os.path.join(folder, name)) for name in names if "\0" not in name}
        for path, data in self.files.items():
            # a folder is given without the tests in it; the folder of all files cannot be given
            above = {str(p) for p in Path(path).parents if str(p).startswith(f"{self.root}/")}
            if path in paths or (above & (paths - {folder}) and not _TEST.search(path)):
                self._write(self._renamed(path), data)
        if self._renamed(folder) != folder:
            os.makedirs(self._renamed(folder), exist_ok=True)
        if self.empties:  # an earlier program may have changed the answer
            self._write(os.environ["AI_OUTPUT_FILE"], self.answer)

    def _names_in(self, text: str) -> set[str]:
        """Return the words of a text that may name fixtures, without those the answer wrote.

        If the text carries a line of the answer, such as the code after ``python -c``, the answer
        must not choose the fixtures: the names in that line do not count.
        """
        whole = _bare(text)
        carried = [line for line in self.answer_lines if _bare(line) and _bare(line) in whole]
        written = "\n".join(carried)
        return {name for name in _WORD.findall(text) if name not in written}

    def _write(self, path: str, data: bytes) -> None:
        with suppress(OSError):
            if Path(path).read_bytes() == data and not os.path.islink(path):
                return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(path)
        Path(path).write_bytes(data)

    def _renamed(self, text: str) -> str:
        return text.replace(self.root, self.given)

    def _begin(self) -> None:
        """Report the first program, and empty the test's files."""
        if self.has_started:
            return
        self.has_started = True
        self.report.write(started=True)
        for path, data in self.files.items():
            if path.endswith(".py"):  # messages of failed tests quote lines
                lines = data.decode("utf-8", "replace").splitlines(keepends=True)
                linecache.cache[path] = (len(data), None, lines, path)
        if not self.empties:
            return
        # A program could write modules there, which this process would import later.
        folders = [path for path in sys.path if path.startswith(self.root)]
        sys.path[:] = [path for path in sys.path if path not in folders]
        sys.meta_path.insert(0, _Modules(self.files, folders))
        self._empty_files()
        io.open = builtins.open = self._open
        os.stat = self._stat

    def _empty_files(self) -> None:
        """Replace the files of the test by empty ones; undo what a program changed there."""
        self.is_emptying = True
        folders = {str(folder) for path in self.files for folder in Path(path).parents}
        for top, inside, names in os.walk(self.root):
            if os.path.realpath(top) != top:
                raise PermissionError(f"{top} was replaced by a link")
            for name in [*inside, *names]:
                path = os.path.join(top, name)
                if os.path.islink(path) or path not in folders:
                    shutil.rmtree(path, ignore_errors=True)
                    with suppress(OSError):
                        os.unlink(path)
        for path in self.files:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        self.is_emptying = False

    def _content(self, file: Any) -> bytes | None:
        """Return the content of an emptied file or of the answer; None for other files."""
        if not isinstance(file, str | bytes | os.PathLike):
            return None
        path = os.path.abspath(os.fsdecode(file))
        return self.answer if path == os.environ["AI_OUTPUT_FILE"] else self.files.get(path)

    def _open(self, file: Any, mode: str = "r", *words: Any, **options: Any) -> Any:
        data = self._content(file)
        if data is None or not set(mode).isdisjoint("wax+"):
            return self.real_open(file, mode, *words, **options)
        with tempfile.TemporaryFile(buffering=0) as copy:
            copy.write(data)
            copy.seek(0)
            return self.real_open(os.dup(copy.fileno()), mode, *words, **options)

    def _stat(self, path: Any, *words: Any, **options: Any) -> os.stat_result:
        if self._content(path) is None:
            return self.real_stat(path, *words, **options)
        with self._open(path, "rb") as copy:
            return self.real_stat(copy.fileno())

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Report programs that are not separated; refuse links that a program made to the tests."""
        if event in _STARTS and not self.is_starting:
            self._begin()
            self.report.write(unseparated=event)
        path = arguments[0] if arguments else None
        if not self.has_started or not isinstance(path, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(path))
        is_test = f"{path}/".startswith(f"{self.root}/")
        if event in ("os.listdir", "os.scandir") and is_test and self.empties:
            if not self.is_emptying:
                self._empty_files()
        elif event == "open" and not is_test and not path.startswith("/proc/"):
            target = os.path.realpath(path)
            if target.startswith((f"{self.root}/", "/proc/")):
                raise PermissionError(f"{path} is a link to {target}, which a program may not name")


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Import the emptied modules of a suite from memory."""

    def __init__(self, files: Mapping[str, bytes], folders: Sequence[str]) -> None:
        self.files, self.folders = files, folders

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        with suppress(ImportError):
            return importlib.util.spec_from_file_location(
                name, self.get_filename(name), loader=self
            )
        return None

    def get_filename(self, name: str) -> str:
        inside = name.replace(".", "/")
        for file in (f"{at}/{inside}{end}" for at in self.folders for end in _ENDINGS):
            if file in self.files:
                return file
        raise ImportError(name)

    def get_data(self, path: str | bytes) -> bytes:
        try:
            return self.files[os.fsdecode(path)]
        except KeyError:
            raise FileNotFoundError(2, os.strerror(2), path) from None


def _run_job() -> None:
    job = json.load(sys.stdin)
    if job["core"] is not None:
        with suppress(AttributeError, OSError):  # only Linux has sched_setaffinity
            os.sched_setaffinity(0, {job["core"]})
    # Start a new session keyring of the kernel, so that no answer leaves keys for the next one.
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, 1, None)  # keyctl(KEYCTL_JOIN_SESSION_KEYRING)
    if job["users"] and os.getuid() == 0:
        _drop_root(job["users"], job["reads_all"])
        if job["again"]:
            os.lseek(0, 0, os.SEEK_SET)
            os.execvp(job["again"][0], job["again"])
    _set_limits(job["limits"])
    report = _Reporter(os.dup(1))  # the copy is closed in other programs
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            raise PermissionError(f"{event}: a judged answer has no network")

    sys.addaudithook(refuse)
    if job["separate"]:
        if sys.platform == "linux":
            # Other processes of the user cannot read or write the memory and the open files of
            # this process. The setting ends when a program is executed, so it is made last.
            ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
        _Separation(job, report)
    import pytest

    # The empty settings file keeps pytest from using one that the answer wrote. A test that an
    # answer left without parameters is an error, not a test that is skipped.
    options = shlex.split(
        "-p no:cacheprovider -p no:terminal -p no:faulthandler -s -c /dev/null"
        " -o empty_parameter_set_mark=fail_at_collect"
    )
    options += ["--rootdir", job["root"], "--confcutdir", job["root"]]
    options += ["--basetemp", f"{os.environ['TMPDIR']}/pytest", job["test"]]
    sys.exit(pytest.main(options, plugins=[report]))


if __name__ == "__main__":
    _run_job()
