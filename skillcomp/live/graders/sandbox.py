"""Run a test file on model output in a sandbox.

bubblewrap makes the sandbox. Inside, the test has only its own processes, no network, and a file
system with only the system's programs, Python, the suite's fixtures and the answer. Limits bound
the time, memory, processes and output of a run; each holds for all processes together. Without
bubblewrap, only trusted answers run, and only these limits apply.

A program that a test starts is separated from the test, which judges it: it runs in a second
sandbox, which has neither the test's files nor the test's process. Without bubblewrap it runs as
another user if root started the run, and the test's files are emptied before it starts.

If systemd can start a run in a control group, the kernel limits the number of processes and the
memory, including the memory that the kernel itself uses for the run. Otherwise the memory is added
up ten times a second, so a run can exceed its limit for a tenth of a second. Processor time is
always measured in this way. Two things are not counted in such sums: files in memory while they are
sent through a socket, and the processor time of a child if its parent ends without waiting for it.
There is no limit on the bandwidth of memory and disk or on the number of runs at the same time.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from skillcomp.errors import GraderError, missing_package
from skillcomp.live.agents.process import (
    USERS,
    Limits,
    Ran,
    case_folder,
    lent_users,
    processes,
    run_program,
)
from skillcomp.live.concurrency import run_sync

# Limits of a run: memory of all processes together in bytes, size of one file in bytes, number of
# processes and threads, and number of open files of one process. The limit on memory also applies
# to the address space of each process.
MEMORY, FILE, PROCESSES, OPEN = 2 << 30, 16 << 20, 64, 256
# Limits that the kernel applies. They are higher than the limits above, so that a run reaches the
# limits above first: only then is the reason known.
TASKS, KERNEL_MEMORY = PROCESSES + 8, MEMORY + (MEMORY >> 2)
DISK = 64 << 20  # Maximum number of bytes in each folder to which a sandboxed program may write.
# Folders and files of the system that a sandbox has, where they exist.
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"),
)
# the parts of Python's folder that a run needs
_PYTHON = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg")
# Limits of each process, by the names of the kernel.
_LIMITS = {"AS": MEMORY, "FSIZE": FILE, "NOFILE": OPEN, "CORE": 0}
# The processors that no test is using, for each event loop.
_cores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Queue[int]] = WeakKeyDictionary()
# The environment variables with the address of systemd.
_SYSTEMD = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_PROBE = b"""
import os

def test_it():
    assert open(os.environ["AI_OUTPUT_FILE"]).read() == "x"
"""
_NESTED = b"""
import subprocess, sys

def test_it():
    assert subprocess.run([sys.executable, "-I", "-c", ""]).returncode == 0
"""
_INSIDE = Path(__file__).with_name("sandbox_inside.py")


@dataclass
class Report:
    """Result of a run: the tests, the outcome of each test, and how the run ended.

    Attributes
    ----------
    collected : list of str
        Names of the tests; empty if the run ended before pytest had collected them.
    failed : dict of str to str
        Error message of each test that ran and failed, by name.
    passed : set of str
        Names of the tests that passed in set-up, call and clean-up.
    reason : str
        Reason why the run ended abnormally; empty if it ended normally.
    seconds : float
        Duration of the run by the wall clock.
    has_started : bool
        Whether the test started a program.
    is_skipped : bool
        Whether a test was skipped.
    notes : list of str
        What the answer could read or forge in this run.
    """

    collected: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    reason: str = ""
    seconds: float = 0.0
    has_started: bool = False
    is_skipped: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_pass(self) -> bool:
        """Whether tests were collected, all of them passed and the program ended normally."""
        return bool(self.collected) and not self.reason and set(self.collected) == self.passed


async def run_tests(
    files: Mapping[str, bytes],
    test: str,
    answer: str,
    *,
    timeout: float,
    trusted: bool,
    separate: bool = True,
    launch: Sequence[str] | None = None,
) -> Report:
    """Run one test file on one answer.

    Parameters
    ----------
    files : mapping of str to bytes
        Content of the suite's fixtures, including the test file, by name.
    test : str
        Name of the test file.
    answer : str
        The answer, which the test reads from the file that ``AI_OUTPUT_FILE`` names.
    timeout : float
        Time limit in seconds. It holds for the wall clock, and for the processor time of all
        processes together.
    trusted : bool
        Whether to run without bubblewrap, so that only the limits apply.
    separate : bool, default True
        Whether to separate the programs that the test starts from the test. This is of no use if
        the test executes the answer in its own process.
    launch : list of str, optional
        Words to put before the command of each program in a sandbox. Default: those of `launcher`
        if `separate`.

    Returns
    -------
    Report
        The result. Errors inside the run do not raise; ``reason`` describes them.

    Raises
    ------
    ExtraError
        If pytest is not installed.
    """
    if find_spec("pytest") is None:
        raise missing_package("live", "a judge of kind pytest", "pytest")
    if launch is None:
        launch = launcher() if separate and not trusted else []
    async with _lent_core() as core:
        with case_folder() as place, lent_users() as lent:
            # An answer that cannot see the tests must not guess their place either: the test could
            # follow a link to them that the answer made.
            hidden = f"judge/{secrets.token_hex(8)}"
            written = {f"{hidden}/{name}": data for name, data in files.items()}
            written["given/answer.txt"] = answer.encode("utf-8", "replace")
            for name, data in written.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(data)
            users = lent if trusted and separate else lent[:1]
            if users:
                _hand_over(place, users, separate)
            room = place if trusted else Path("/room")
            # The kernel counts all processes of a user, including those outside the run. In a
            # sandbox or with the user id of `lent_users`, there are none outside. Otherwise add
            # their number to the limit.
            outside = processes({os.getuid()}) if trusted and not users else ()
            counted = sum(process.info["num_threads"] or 1 for process in outside)
            program = [sys.executable, "-I", "-B", "-c", _INSIDE.read_text(encoding="utf-8")]
            # A sandbox that root made cannot forbid user namespaces, but a second one inside it
            # can. If the test is separated from its programs, each of these has such a sandbox.
            is_nested = users and not trusted and not launch and without_userns()
            job = {
                "users": users,
                "core": core,
                "again": ["bwrap", *without_userns(), "--dev-bind", "/", "/", *program]
                if is_nested
                else [],
                "reads_all": trusted and bool(users) and not _is_open(Path(sys.executable)),
                "limits": {**_LIMITS, "CPU": int(timeout) + 1, "NPROC": counted + PROCESSES},
                "separate": separate,
                "launch": launch,
                "empties": trusted,
                "root": str(room / hidden),
                "test": str(room / hidden / test),
            }
            environment = {
                "AI_OUTPUT_FILE": str(room / "given" / "answer.txt"),
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "HOME": str(room / "home"),
                "TMPDIR": str(room / "tmp"),
                "LANG": "C.UTF-8",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            }
            group = control_group()
            # from the environment of this process, keep only the address of systemd
            kept = [name for name in _SYSTEMD if group and name in os.environ]
            environment |= {name: os.environ[name] for name in kept}
            command = [*group]
            if not trusted:
                command += sandboxed(place, bool(users), nests=separate)
            with _closed_memory() if trusted else nullcontext():
                ran = await run_program(
                    [*command, *program],
                    json.dumps(job).encode(),
                    environment,
                    place,
                    timeout,
                    Limits(FILE, MEMORY, timeout),
                )
            report = _read_report(ran, timeout)
            report.notes += _notes(report, job, trusted)
            return report


@asynccontextmanager
async def _lent_core() -> AsyncIterator[int]:
    """Yield a processor that no other test uses, so that no test takes the time of another one."""
    loop = asyncio.get_running_loop()
    if loop not in _cores:
        free = _cores[loop] = asyncio.Queue()
        own = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
        # simultaneous runs of skillcomp should not all start with the same core
        for number in random.sample(list(own), len(own)):
            free.put_nowait(number)
    core = await _cores[loop].get()
    try:
        yield core
    finally:
        _cores[loop].put_nowait(core)


def _notes(report: Report, job: Mapping[str, Any], trusted: bool) -> Iterator[str]:
    """Yield what the answer could read or forge although the test ran it as a program."""
    if not job["separate"]:
        yield "the test executes the answer in its own process, so the answer can forge its result"
    elif report.has_started and trusted:
        rights = "read and change what you can, such as your suite and results"
        if job["reads_all"]:
            rights = "read every file, such as your suite"
        elif job["users"]:
            rights = "read what every user can"
        yield f"without bubblewrap, the answer could {rights}"
    elif report.has_started and not job["launch"]:
        yield "bubblewrap starts no second sandbox here, so the answer could read its tests"


@cache
def launcher() -> list[str]:
    """Return words to put before a command in a sandbox, so that it runs in a second one.

    The second sandbox lacks the tests and the processes of the first. The result is empty if a
    trial shows that this does not work.
    """
    program = shutil.which("bwrap")
    if program is None:
        return []
    command = [program, *(without_userns() or ["--unshare-user"])]
    command += shlex.split("--unshare-pid --new-session --die-with-parent --dev-bind / /")
    rooms = shlex.split(
        "--tmpfs /room/judge --remount-ro /room/judge --ro-bind /room/given /room/given --"
    )
    # In a sandbox that root made, no list of processes can be mounted. The list of the first
    # sandbox then stays; the processes on it cannot be reached.
    for processes_of_program in (["--proc", "/proc"], []):
        launch = [*command, *processes_of_program, *rooms]
        if probe(trusted=False, test=_NESTED, launch=launch).is_pass:
            return launch
    return []


@cache
def why_no_sandbox() -> str | None:
    """Return the reason why bubblewrap cannot be used here; None if a trial run succeeds."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return "bubblewrap (the program bwrap) is not installed"
    report = probe(trusted=False)
    return None if report.is_pass else f"bubblewrap does not work here ({report.reason})"


@cache
def without_userns() -> list[str]:
    """Return options that disable user namespaces in a sandbox; [] if they do not work here.

    The options are needed, because a program has all capabilities in its own user namespace and can
    make file systems in memory there.
    """
    options = ["--unshare-user", "--disable-userns"]
    user = {}
    if os.getuid() == 0:
        user = {"user": USERS[-1], "group": USERS[-1], "extra_groups": []}
    command = ["bwrap", *options, "--dev-bind", "/", "/", "/bin/true"]
    return options if _exit_code(command, **user) == 0 else []


def _exit_code(command: Sequence[str], **options: Any) -> int | None:
    """Return the exit code of a trial; None if it cannot be started or takes too long."""
    with suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(command, capture_output=True, timeout=20, cwd="/", **options)
        return ended.returncode
    return None


@cache
def control_group() -> list[str]:
    """Return words to put before a command so that the kernel limits its memory and processes.

    The result is empty if systemd cannot start a program in a control group or does not limit its
    memory. This is tested by a program that takes too much memory and must be killed.
    """
    program = shutil.which("systemd-run") if sys.platform == "linux" else None
    if program is None:
        return []
    command = [program, *([] if os.getuid() == 0 else ["--user"])]
    command += shlex.split(f"--scope --quiet --collect -p MemorySwapMax=0 -p TasksMax={TASKS}")
    waste = [sys.executable, "-I", "-c", "bytearray(256 << 20)"]
    if _exit_code([*command, "-p", "MemoryMax=64M", "--", *waste]) != -signal.SIGKILL:
        return []
    return [*command, "-p", f"MemoryMax={KERNEL_MEMORY}", "--"]


def probe(*, trusted: bool, test: bytes = _PROBE, launch: Sequence[str] = ()) -> Report:
    """Run a trivial test and return its report. This works even inside a running event loop."""
    files = {"t.py": test}
    return run_sync(
        lambda _: run_tests(files, "t.py", "x", timeout=60, trusted=trusted, launch=launch)
    )


def sandboxed(place: Path, is_root: bool, *, nests: bool) -> list[str]:
    """Return words to put before a command so that it runs in a sandbox.

    If `nests`, the test may start each of its programs in a second sandbox, and give it files.
    """
    pytest_spec = find_spec("pytest")
    python = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    # Python's folder may be a home folder with other files, so bind only the parts in `_PYTHON`.
    bound = {path / name for path in python for name in _PYTHON if (path / name).exists()}
    if pytest_spec is not None and pytest_spec.origin is not None:
        bound.add(Path(pytest_spec.origin).resolve().parents[1])
    bound = {path for path in bound if not path.is_relative_to("/usr")}
    command = shlex.split(
        "bwrap --die-with-parent --new-session --unshare-ipc --unshare-pid --unshare-net"
        " --unshare-uts --unshare-cgroup-try --proc /proc --dev /dev"
    )
    if is_root:
        # with CAP_SETUID and CAP_SETGID, sandbox_inside can change from root to another user
        command += shlex.split("--cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID")
    else:
        forbid = [] if nests else without_userns()
        command += forbid or ["--unshare-user"]
    for name in _SYSTEMD:
        command += ["--unsetenv", name]
    for name in _SYSTEM:
        is_link = os.path.islink(name)
        command += (
            ["--symlink", os.readlink(name), name] if is_link else ["--ro-bind-try", name, name]
        )
    folders = {Path("/room"), Path("/tmp"), *(above for path in bound for above in path.parents)}
    for path in sorted(map(str, folders)):
        command += ["--perms", "0755", "--dir", path]
    for path in sorted(map(str, bound)):
        command += ["--ro-bind", path, path]
    for name in ("/room/home", "/room/work", "/room/tmp", "/dev/shm"):
        command += ["--perms", "1777", "--size", str(DISK), "--tmpfs", name]
    command += ["--ro-bind", str(place / "judge"), "/room/judge"]
    command += ["--bind" if nests else "--ro-bind", str(place / "given"), "/room/given"]
    # all other folders are in memory and could grow without limit if they were writable
    return command + shlex.split("--remount-ro /dev --remount-ro / --chdir /room/work")


_n_closed = 0  # Number of runs for which the memory of this process is closed.


@contextmanager
def _closed_memory() -> Iterator[None]:
    """Keep other processes of this user from reading and writing the memory of this process."""
    global _n_closed
    if sys.platform != "linux":
        yield
        return
    get_dumpable, set_dumpable = 3, 4  # arguments of the system call prctl
    libc = ctypes.CDLL(None)
    if not _n_closed and libc.prctl(get_dumpable, 0, 0, 0, 0) != 1:
        yield  # the memory is closed already
        return
    libc.prctl(set_dumpable, 0, 0, 0, 0)
    _n_closed += 1
    try:
        yield
    finally:
        _n_closed -= 1
        if not _n_closed:
            libc.prctl(set_dumpable, 1, 0, 0, 0)


def _hand_over(place: Path, users: Sequence[int], separate: bool) -> None:
    """Let the first user read ``judge``, and the last write to ``home``, ``work`` and ``tmp``.

    If `separate`, the first user may also write to ``given`` and, if there are two users, only this
    user may read ``judge``, and change it.
    """
    for folder in (place.parent, place):
        folder.chmod(0o711)
    judge_modes = (0o770, 0o640) if users[1:] else (0o755, 0o644)
    given_modes = (0o775 if separate else 0o755, 0o644)
    for name, (of_folders, of_files) in (("judge", judge_modes), ("given", given_modes)):
        for path in [place / name, *(place / name).rglob("*")]:
            os.chown(path, -1, users[0])
            path.chmod(of_folders if path.is_dir() else of_files)
    for name in ("home", "work", "tmp"):
        os.chown(place / name, users[-1], users[-1])


def _is_open(program: Path) -> bool:
    """Return whether every user may run a program and enter all folders above it."""
    paths = [program, program.resolve()]
    return all(above.stat().st_mode & 0o001 for path in paths for above in (path, *path.parents))


def _read_report(ran: Ran, timeout: float) -> Report:
    """Read the `Report` of a run; ``reason`` is empty if the run ended normally."""
    report, ended = Report(seconds=ran.seconds), None
    phases: defaultdict[str, set[str]] = defaultdict(set)
    for line in ran.output.splitlines():
        try:
            match json.loads(line):
                case {"collected": names}:
                    report.collected = [str(name) for name in names]
                case {"started": _}:
                    report.has_started = True
                case {"unseparated": event}:
                    report.notes.append(
                        f"the test started a process by {event}, which can read the test and "
                        "forge its result; subprocess separates them"
                    )
                case {"broken": message}:
                    report.reason = f"the test file cannot be loaded: {_short_line(message)}"
                case {"test": str(name), "when": when, "outcome": "passed"}:
                    phases[name].add(when)
                case {"test": str(name), "when": "call", "outcome": "failed", "message": message}:
                    report.failed[name] = _short_line(message)
                case {"test": name, "when": when, "outcome": outcome, "message": message}:
                    report.is_skipped |= not report.reason and outcome == "skipped"
                    why = f"{name}: {when} {outcome} {_short_line(message)}"
                    report.reason = report.reason or why
                case {"end": int(code)}:
                    ended = code
                case other:
                    raise ValueError(other)
        except (ValueError, TypeError, RecursionError):
            report.reason = "its report cannot be read"
    whole = {"setup", "call", "teardown"}
    report.passed = {name for name, done in phases.items() if whole <= done} - set(report.failed)
    report.reason = _end_reason(report, ran, ended, timeout).strip()
    return report


def _end_reason(report: Report, ran: Ran, ended: int | None, timeout: float) -> str:
    if ran.excess:
        return f"ended because {ran.excess}"
    if ran.code is None:
        return f"not done within {timeout:g} seconds"
    if not isinstance(ran.code, int):
        return str(ran.code)
    if ran.code == ended == 5:
        return "no test was collected"
    if report.reason:
        return report.reason
    if ended is None or ran.code not in (0, 1) or (ran.code == 0) != (not report.failed):
        last = _short_line(ran.complaint, last=True)
        name = f"exit code {ran.code}"
        with suppress(ValueError):
            # shells and bubblewrap return 128 plus the number of the signal
            name = signal.Signals(-ran.code if ran.code < 0 else ran.code - 128).name
        if name == "SIGKILL" and control_group():
            return f"killed, as the kernel does above {KERNEL_MEMORY >> 20} MiB of memory {last}"
        return f"ended by itself with {name} {last}"
    if set(report.collected) != report.passed | set(report.failed):
        return "ended by itself before all tests were done"
    return ""


def _short_line(text: Any, *, last: bool = False) -> str:
    """Return the first line of a text (the last one if `last`), cut to 300 characters."""
    lines = str(text).strip().splitlines() or [""]
    return " ".join(lines[-1 if last else 0].split())[:300]


def require_sandbox(trust: bool) -> bool:
    """Return whether answers must run without a sandbox; raise if they cannot run at all.

    Raises
    ------
    GraderError
        If there is no sandbox, and either `trust` is False or a trial run without a sandbox fails.
    """
    why = why_no_sandbox()
    if why is None:
        launcher()  # its trial run takes a moment; the result is kept
        return False
    if not trust:
        raise GraderError(
            f"The pytest judge runs what a model wrote, and {why}. Install bubblewrap, or say that "
            "the answers are trusted (--trust-answers, trust=True): they are then run under limits "
            "alone, as a program of yours that may read, write and send what you may."
        )
    report = probe(trusted=True)
    if not report.is_pass:
        where = tempfile.gettempdir()
        raise GraderError(f"The pytest judge cannot run a test below {where} ({report.reason}).")
    return True
