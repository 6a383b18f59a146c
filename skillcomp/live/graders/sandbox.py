"""Running a test file on what a model wrote, where that can hurt nothing.

bubblewrap gives the test a file system that holds Python, the test and the answer alone, its own
processes and no network; limits bound its time, memory, processes and output. Without bubblewrap
nothing is run unless the answers are trusted, and then only the limits are there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillcomp.errors import GraderError
from skillcomp.live.agents.process import Ran, case_folder, run_program
from skillcomp.live.concurrency import run_sync

# Of one run of a test file. The address space is larger than what is used of it; a test that
# writes does so into files of its own folder or to its output.
MEMORY, FILE, PROCESSES, OPEN = 2 << 30, 16 << 20, 64, 256
DISK = 64 << 20  # bytes of the folders that the sandbox may write to
USERS = range(61184, 65520)  # user ids that systems leave for programs like this one
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
_PYTHON = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg")  # what a Python needs of its folder
_WAIT = 2.0  # seconds for what is left of a user's processes to end
_SETTINGS = ".settings.ini"  # nobody else's is looked for
_PROBE = b"""
import os

def test_it():
    assert open(os.environ["AI_OUTPUT_FILE"]).read() == "x"
"""
_INSIDE = Path(__file__).with_name("sandbox_inside.py")


@dataclass
class Report:
    """What is known of a run: which tests there are, which passed, and how it ended.

    Attributes
    ----------
    collected : list of str
        The tests; empty where it ended before they were known.
    failed : dict of str to str
        Tests that ran to an end and failed, with what they said.
    passed : set of str
        Tests whose set-up, call and clean-up all passed.
    said : str
        Why it ended otherwise than by its tests; empty when all was in order.
    seconds : float
        Wall clock.
    """

    collected: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    said: str = ""
    seconds: float = 0.0

    @property
    def is_pass(self) -> bool:
        """Whether every collected test passed and the program ended as it should."""
        return bool(self.collected) and not self.said and set(self.collected) == self.passed


async def run_tests(
    files: Mapping[str, bytes], test: str, answer: str, *, timeout: float, trusted: bool
) -> Report:
    """Run one test file on one answer.

    Parameters
    ----------
    files : mapping of str to bytes
        The suite's fixtures by name; `test` is one of them.
    test : str
        The test file.
    answer : str
        What ``AI_OUTPUT_FILE`` holds.
    timeout : float
        Seconds of wall clock, and of processor time.
    trusted : bool
        Run it without bubblewrap, under limits alone.

    Returns
    -------
    Report
        Whatever happened inside.
    """
    with case_folder() as place, _user() as user:
        for name, data in {**files, _SETTINGS: b"[pytest]\n"}.items():
            target = place / "judge" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        (place / "judge" / "answer.txt").write_text(answer, encoding="utf-8", errors="replace")
        shutil.copyfile(_INSIDE, place / "judge" / ".inside.py")
        (place / "io" / "in").touch()
        (place / "io" / "report").touch()
        if user is not None:
            _hand_over(place, user)
        inside = place if trusted else Path("/room")
        limits = {"AS": MEMORY, "FSIZE": FILE, "NOFILE": OPEN, "CORE": 0, "CPU": int(timeout) + 1}
        # in a sandbox, and for a user of its own, the count of processes begins at none
        counted = _n_processes(os.getuid()) if trusted and user is None else 0
        job = {
            "uid": user,
            "reads_all": trusted and user is not None and not _is_open(Path(sys.executable)),
            "limits": {**limits, "NPROC": counted + PROCESSES},
            "report": str(inside / "io" / "report"),
            "settings": str(inside / "judge" / _SETTINGS),
            "root": str(inside / "judge"),
            "test": str(inside / "judge" / test),
        }
        (place / "judge" / ".job").write_text(json.dumps(job), encoding="utf-8")
        program = [sys.executable, "-I", "-B"]
        program += [str(inside / "judge" / name) for name in (".inside.py", ".job")]
        command = program if trusted else [*sandboxed(place, user is not None), *program]
        environment = _environment(inside)
        ran = await run_program(command, environment, place, timeout, max_file=FILE)
        return _read(place / "io" / "report", ran, timeout)


@cache
def why_no_sandbox() -> str | None:
    """Return why bubblewrap cannot be used here, None where it can: it is tried, not believed."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return "bubblewrap (the program bwrap) is not installed"
    found = probe(trusted=False)
    return None if found.is_pass else f"bubblewrap does not work here ({found.said})"


def probe(*, trusted: bool) -> Report:
    """Run a test that passes; also where a loop is running, as in a notebook."""
    tests = {"t.py": _PROBE}
    return run_sync(lambda _: run_tests(tests, "t.py", "x", timeout=60, trusted=trusted))


def _environment(inside: Path) -> dict[str, str]:
    """Return the whole environment of a test: nothing of ours is in it."""
    return {
        "AI_OUTPUT_FILE": str(inside / "judge" / "answer.txt"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(inside / "home"),
        "TMPDIR": str(inside / "tmp"),
        "LANG": "C.UTF-8",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def sandboxed(place: Path, is_root: bool) -> list[str]:
    """Return the command that puts what follows into a sandbox."""
    found = find_spec("pytest")
    python = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    # not the whole of it: a Python can be installed into somebody's home
    kept = {path / name for path in python for name in _PYTHON if (path / name).exists()}
    if found is not None and found.origin is not None:
        kept.add(Path(found.origin).resolve().parents[1])
    kept = {one for one in kept if not (one.is_relative_to("/usr") or str(one) in _SYSTEM)}
    command = ["bwrap", "--die-with-parent", "--new-session"]
    command += [f"--unshare-{name}" for name in ("ipc", "pid", "net", "uts", "cgroup-try")]
    if is_root:  # who is root outside becomes another user inside, before anything is run
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    for folder in map(Path, _SYSTEM):
        if folder.is_symlink():
            command += ["--symlink", os.readlink(folder), str(folder)]
        elif folder.is_dir():
            command += ["--ro-bind", str(folder), str(folder)]
    for name in ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"):
        command += ["--ro-bind-try", name, name]
    command += ["--proc", "/proc", "--dev", "/dev"]
    above = {parent for path in kept for parent in path.parents} - {Path("/"), *map(Path, _SYSTEM)}
    for path in sorted([*above, Path("/room"), Path("/room/io")]):
        command += ["--perms", "0755", "--dir", str(path)]
    for path in sorted(kept):
        command += ["--ro-bind", str(path), str(path)]
    for name in ("/room/home", "/room/work", "/room/tmp", "/dev/shm"):
        command += ["--perms", "1777", "--size", str(DISK), "--tmpfs", name]
    command += ["--ro-bind", str(place / "judge"), "/room/judge"]
    command += ["--bind", str(place / "io" / "report"), "/room/io/report"]
    # all else is in memory and would grow without an end
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*command, "--chdir", "/room/work"]


@contextmanager
def _user() -> Iterator[int | None]:
    """Lend a user id that nobody has, where we are root; all its processes end with the loan."""
    if sys.platform != "linux" or os.getuid() != 0:
        yield None
        return
    busy = {uid for uid, _ in processes()}
    user = random.SystemRandom().choice([uid for uid in USERS if uid not in busy])
    try:
        yield user
    finally:
        _end_all(user)


def _end_all(user: int) -> None:
    last = time.monotonic() + _WAIT
    while left := [pid for uid, pid in processes() if uid == user]:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > last:
            return
        time.sleep(0.01)


def processes() -> Iterator[tuple[int, int]]:
    """Yield the user of every process, and its id."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if "State:\tZ" not in (entry / "status").read_text():
                    yield entry.stat().st_uid, int(entry.name)


def _n_processes(user: int) -> int:
    """Return how many processes and threads a user has."""
    found = 0
    for uid, pid in processes() if sys.platform == "linux" else ():
        with suppress(OSError):
            found += len(os.listdir(f"/proc/{pid}/task")) if uid == user else 0
    return found


def _hand_over(place: Path, user: int) -> None:
    """Let a user into a room: to read what is judged, and to write into folders of its own."""
    for folder in (place.parent, place, place / "io"):
        folder.chmod(0o711)
    for path in [place / "judge", *(place / "judge").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name in ("home", "work", "tmp"):
        os.chown(place / name, user, user)


def _is_open(program: Path) -> bool:
    """Tell whether any user may run a program: all folders above it and its target are open."""
    paths = [program, program.resolve()]
    return all(above.stat().st_mode & 0o001 for path in paths for above in (path, *path.parents))


def _read(file: Path, ran: Ran, timeout: float) -> Report:
    """Return what a report says, and how the program ended."""
    found = Report(seconds=ran.seconds)
    parts: dict[str, set[str]] = {}
    ended: int | None = None
    with file.open("rb") as stream:
        lines = stream.read(FILE).decode("utf-8", "replace").splitlines()
    for line in lines:
        try:
            one = json.loads(line)
            if "collected" in one:
                found.collected = [str(name) for name in one["collected"]]
            elif "broken" in one:
                found.said = f"the test file cannot be loaded: {_line(one['said'])}"
            elif "test" in one:
                name = str(one["test"])
                if one["outcome"] == "passed":
                    parts.setdefault(name, set()).add(one["when"])
                elif one["outcome"] == "failed" and one["when"] == "call":
                    found.failed[name] = _line(one["said"])
                elif not found.said:
                    found.said = f"{name}: {one['when']} {one['outcome']} {_line(one['said'])}"
            elif "end" in one:
                ended = int(one["end"])
        except (ValueError, TypeError, KeyError, AttributeError):
            found.said = "its report cannot be read"
    whole = {"setup", "call", "teardown"}
    found.passed = {name for name, done in parts.items() if whole <= done} - set(found.failed)
    if ran.code is None:
        found.said = f"not done within {timeout:g} seconds"
    elif not isinstance(ran.code, int):
        found.said = str(ran.code)
    elif ran.code == ended == 5:
        found.said = "no test was collected"
    elif found.said:
        pass
    elif ended is None or ran.code not in (0, 1) or (ran.code == 0) != (not found.failed):
        found.said = f"ended by itself with {_how(ran.code)} {_line(ran.complaint, last=True)}"
    elif set(found.collected) != found.passed | set(found.failed):
        found.said = "ended by itself before all tests were done"
    found.said = found.said.strip()
    return found


def _how(code: int) -> str:
    number = -code if code < 0 else code - 128  # as a shell, and bubblewrap, tell of a signal
    if number > 0:
        with suppress(ValueError):
            return signal.Signals(number).name
    return f"exit code {code}"


def _line(text: Any, *, last: bool = False) -> str:
    """Return the first or last line of what a program said, cut to 300 characters."""
    lines: Sequence[str] = str(text).strip().splitlines() or [""]
    return " ".join(lines[-1 if last else 0].split())[:300]


def require_sandbox(trust: bool) -> bool:
    """Return whether answers are run trusted; raise where they may not be run at all.

    Raises
    ------
    GraderError
        When there is no sandbox and answers are not trusted, or not even that works.
    """
    why = why_no_sandbox()
    if why is None:
        return False
    if not trust:
        raise GraderError(
            f"The pytest judge runs what a model wrote, and {why}. Install bubblewrap, or say that "
            "the answers are trusted (--trust-answers, trust=True): they are then run under limits "
            "alone, as a program of yours that may read, write and send what you may."
        )
    found = probe(trusted=True)
    if not found.is_pass:
        where = tempfile.gettempdir()
        raise GraderError(f"The pytest judge cannot run a test below {where} ({found.said}).")
    return True
