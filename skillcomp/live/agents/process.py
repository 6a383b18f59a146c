"""Run a program for one question in a temporary folder, with limits; it ends with this process.

What it wrote and left in its working folder is kept where it could not write itself.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from filelock import FileLock, Timeout

from skillcomp.io.files import json_or_none
from skillcomp.live.agents.agent import redact

MAX_OUTPUT = 64_000_000  # bytes of the output that are read; a program that writes more is ended
MAX_FILE = 2_000_000_000  # bytes of any one file that a program writes
LOOK = 0.25  # seconds between two looks at how much was written
MAX_LEFT, MAX_LEFT_BYTES = 1000, 50_000_000  # of what is left behind; the rest is not kept
_TRACE, _STDERR, LEFT = "trace.jsonl", "stderr.txt", "left.json"
_GRACE = 2.0  # seconds between asking a program to end and ending it
_PREFIX, _LOCK = "skillcomp-", ".lock"
# Reads which process groups are under way; its input ends when this process does, however it does.
_WATCHDOG = """
import os, shutil, signal, sys
left = set()
for line in sys.stdin:
    (left.add if line[0] == "+" else left.discard)(int(line[1:]))
for group in left:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


@dataclass(frozen=True)
class Ran:
    """What came of a program: exit code, None after a timeout, or why it did not start."""

    output: str
    complaint: str
    code: int | str | None
    seconds: float
    is_cut: bool


class _House:
    """The folder of this process with a room for each question, and who watches over both."""

    def __init__(self) -> None:
        _sweep()
        self.pid = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = FileLock(self.folder / _LOCK)
        self._lock.acquire(timeout=0)
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        atexit.register(self.close)

    def watch(self, sign: str, group: int) -> None:
        """Tell the watchdog that a process group began (+) or ended (-)."""
        assert self._watchdog.stdin is not None
        with contextlib.suppress(OSError):  # it may have been killed itself
            self._watchdog.stdin.write(f"{sign}{group}\n".encode())
            self._watchdog.stdin.flush()

    def close(self) -> None:
        """Let the watchdog end what is left, and wait for it."""
        if os.getpid() == self.pid and self._watchdog.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._watchdog.stdin.close()
                self._watchdog.wait(_GRACE)
            self._lock.release()


_house: _House | None = None


def _here() -> _House:
    global _house
    if _house is None or _house.pid != os.getpid() or not _house.folder.exists():
        _house = _House()
    return _house


def _sweep() -> None:
    """Remove the folders that killed processes of ours have left: nobody holds their lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, Timeout):
            if (folder / _LOCK).is_file() and folder.stat().st_uid == os.getuid():
                with FileLock(folder / _LOCK).acquire(timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """Make a folder with an empty home, working folder and place for files."""
    made = Path(tempfile.mkdtemp(dir=_here().folder))
    try:
        for name in ("home", "work", "tmp", "io"):
            (made / name).mkdir()
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


async def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: Path,
    timeout: float,
    *,
    max_file: int | None = None,
) -> Ran:
    """Run a command in a room on what stands in its ``io/in``, and end all that it began."""
    begun = time.monotonic()
    code = await _code(command, environment, place, begun + timeout, max_file or MAX_FILE)
    seconds = time.monotonic() - begun
    cut = _is_full(place)
    return Ran(_read(place / "io" / "out"), _read(place / "io" / "err"), code, seconds, cut)


async def _code(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: Path,
    last: float,
    max_file: int,
) -> int | str | None:
    with contextlib.ExitStack() as stack:
        # files, not pipes: a child that lives on cannot keep us waiting for their end
        stdin = stack.enter_context((place / "io" / "in").open("rb"))
        stdout = stack.enter_context((place / "io" / "out").open("wb"))
        stderr = stack.enter_context((place / "io" / "err").open("wb"))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=place / "work",
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return f"{command[0]} cannot be started: {error.strerror}"
        _here().watch("+", process.pid)
        # the size of every file, where the system can bound it from here
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import resource

            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (max_file, max_file))
        try:
            return await _ended(process, place, last)
        finally:
            await _end(process)
            _here().watch("-", process.pid)


async def _ended(process: asyncio.subprocess.Process, place: Path, last: float) -> int | None:
    """Wait for the end; None after a timeout. A program that writes too much is ended."""
    while (left := last - time.monotonic()) > 0:
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(process.wait(), min(LOOK, left))
        if _is_full(place):
            await _end(process)
    return process.returncode


def _read(file: Path) -> str:
    if not file.exists():
        return ""
    with file.open("rb") as stream:
        return stream.read(MAX_OUTPUT).decode("utf-8", "replace")


def _is_full(place: Path) -> bool:
    files = (place / "io" / "out", place / "io" / "err")
    return any(file.exists() and file.stat().st_size > MAX_OUTPUT for file in files)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and whatever is left of its group."""
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def keep(work: Path, folder: Path, output: str, complaint: str, hidden: Mapping[str, str]) -> None:
    """Keep the files of a working folder, then the two streams, in the place of what was there.

    Links are not followed and not kept. Secrets are replaced in every file. ``left.json`` lists the
    program's own files by name: what is not there it did not leave, whatever else stands in the
    folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    left: list[str] = []
    n_bytes = 0
    for root, folders, names in os.walk(work):
        folders[:] = sorted(n for n in folders if not (Path(root) / n).is_symlink())
        for name in sorted(names):
            file = Path(root) / name
            if file.is_symlink() or not file.is_file():
                continue
            n_bytes += file.stat().st_size
            if len(left) == MAX_LEFT or n_bytes > MAX_LEFT_BYTES:
                break
            inside = file.relative_to(work)
            # Latin-1 gives every byte a sign and back
            with contextlib.suppress(OSError):  # a file that cannot be read
                text = file.read_bytes().decode("latin-1")
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).write_bytes(redact(text, hidden).encode("latin-1"))
            left.append(os.fsencode(inside).decode("utf-8", "replace"))
    for name, text in ((_TRACE, output), (_STDERR, complaint)):
        put(folder, name, text.encode("utf-8"))
    put(folder, LEFT, orjson.dumps(left))


def put(folder: Path, name: str, data: bytes) -> None:
    """Write one of our files into a folder where a program may have left one of this name."""
    drop(folder, name)
    (folder / name).write_bytes(data)


def drop(folder: Path, name: str) -> None:
    """Remove what stands in a folder under a name of ours."""
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
    (folder / name).unlink(missing_ok=True)


def left_in(folder: Path) -> list[str] | None:
    """Return what a program left, as its kept folder lists it; None without such a list."""
    found = json_or_none(folder / LEFT)
    return found if isinstance(found, list) else None
