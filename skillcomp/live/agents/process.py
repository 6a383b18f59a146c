"""Run a program for one prompt in a folder of its own, with limits on time and output.

The program is ended when this process ends. Its output and the files in its working folder can be
kept.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import orjson
from filelock import FileLock, Timeout

from skillcomp.errors import extra_imports
from skillcomp.io.files import json_or_none
from skillcomp.io.redaction import redact_bytes, redact_json, redacted_start

with extra_imports("live", "starting a program"):
    import psutil

MAX_OUTPUT = 64_000_000  # Maximum size of the output in bytes; a program with more is ended.
_CUT = 1 << 16  # An output that is too long loses this many characters, not to cut a secret in two.
MAX_FILE = 2_000_000_000  # Maximum size in bytes of a file that the program writes.
VAR_TMP = Path("/var/tmp")  # Files in this temporary directory survive a restart.
LOOK = 0.25  # Seconds between two checks of the size of the output.
LOOK_CLOSELY = 0.1  # Seconds between two checks of memory and time.

# maximum number of files, and of bytes, that are kept from a working folder
MAX_LEFT, MAX_LEFT_BYTES = 1000, 50_000_000
MAX_DEPTH = 100  # Files in more deeply nested folders are not kept.
_TRACE, _STDERR, LEFT = "trace.jsonl", "stderr.txt", "left.json"
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_PREFIX, _LOCK = "skillcomp-", ".lock"
# Match three sizes of a process, in KiB: its own memory, its part of the shared memory, and its
# memory that is swapped out.
_SHARES = re.compile(r"^(?:Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+)", re.MULTILINE)
# The watchdog is a separate process. Its input lists each process group that begins (+) or has
# ended (-). The input closes when the process of skillcomp ends, even by SIGKILL. The watchdog then
# ends the remaining groups and removes the folder.
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
    """Output, exit code and duration of a program that has ended.

    Attributes
    ----------
    output, complaint : str
        Standard output and standard error.
    code : int, str or None
        Exit code; a message if the program could not be started; None after a timeout.
    seconds : float
        Duration of the program.
    is_cut : bool
        Whether the output exceeded its limit, so that the program was ended.
    excess : str
        The limit that all processes together exceeded, so that they were ended; empty if none.
    """

    output: str
    complaint: str
    code: int | str | None
    seconds: float
    is_cut: bool
    excess: str = ""


class Limits(NamedTuple):
    """Limits of a program: the size of a file, and the memory and time of all its processes.

    Attributes
    ----------
    max_file : int
        Maximum size of each file, in bytes.
    memory : int or None
        Maximum memory of all processes together, in bytes. Memory that processes share is counted
        once; the code of programs is not counted.
    cpu : float or None
        Maximum processor time of all processes together, in seconds.
    """

    max_file: int = MAX_FILE
    memory: int | None = None
    cpu: float | None = None


class _TemporaryRoot:
    """Folder that holds the case folders. A watchdog removes it when this process ends."""

    def __init__(self, base: Path) -> None:
        # remove the unlocked folders that killed processes left behind
        for folder in base.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError, Timeout):
                if (folder / _LOCK).is_file() and folder.stat().st_uid == os.getuid():
                    with FileLock(folder / _LOCK).acquire(timeout=0):
                        _remove_tree(folder)
        self.pid = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
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
        assert self._watchdog.stdin is not None
        with contextlib.suppress(OSError):  # writing fails if the watchdog was killed
            self._watchdog.stdin.write(f"{sign}{group}\n".encode())
            self._watchdog.stdin.flush()

    def close(self) -> None:
        """Make the watchdog end the remaining process groups, and wait for the watchdog."""
        if os.getpid() == self.pid and self._watchdog.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._watchdog.stdin.close()
                self._watchdog.wait(_GRACE)
            self._lock.release()


_roots: dict[Path, _TemporaryRoot] = {}


def private_base() -> Path:
    """Return the folder in which to make working folders.

    The folder is below ``/var/tmp`` if possible, else in the user's cache. Only this user may enter
    it. If neither is possible, the result is the temporary directory. This is the last choice,
    because the sandbox of codex lets every command write to it. The cache is not the first choice,
    because in a folder below the home, a program would read the user's own instructions and skills.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # the XDG specification does not allow relative paths
        cache = Path(os.path.expanduser("~/.cache"))
    bases = [cache / "skillcomp" / "work"] if cache.is_absolute() else []
    bases = [VAR_TMP / f"skillcomp-{os.getuid()}", *bases] if VAR_TMP.is_dir() else bases
    return next(filter(_is_made_private, bases), Path(tempfile.gettempdir()))


def _is_made_private(base: Path) -> bool:
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if base.is_symlink() or base.stat().st_uid != os.getuid():
            return False
        base.chmod(0o700)
    except OSError:
        return False
    return os.access(base, os.W_OK)


@contextlib.contextmanager
def case_folder(base: Path | None = None) -> Iterator[Path]:
    """Yield a new folder with empty folders ``home``, ``work``, ``tmp`` and ``io``.

    The folder is below `base` (default: the temporary directory) and is removed at the end.
    """
    base = (Path(tempfile.gettempdir()) if base is None else base).resolve()
    root = _roots.get(base)
    if root is None or root.pid != os.getpid() or not root.folder.exists():
        root = _roots[base] = _TemporaryRoot(base)
    folder = Path(tempfile.mkdtemp(dir=root.folder))
    try:
        for name in ("home", "work", "tmp", "io"):
            (folder / name).mkdir()
        yield folder
    finally:
        _remove_tree(folder)


def _remove_tree(folder: Path) -> None:
    """Remove a folder, even if a program nested folders more deeply than Python can follow."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)


async def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    limits: Limits | None = None,
) -> Ran:
    """Run a command in a `case_folder`, with ``io/in`` as its input, then end its process group."""
    begun = time.monotonic()
    # Use files instead of pipes, because a surviving child process would keep a pipe open. The
    # files have no name, so only programs that inherit them can write to them.
    with (
        tempfile.TemporaryFile(dir=folder / "io") as stdout,
        tempfile.TemporaryFile(dir=folder / "io") as stderr,
    ):
        streams = (stdout, stderr)
        code, excess = await _exit_code(
            command, environment, folder, streams, begun + timeout, limits or Limits(MAX_FILE)
        )
        seconds = time.monotonic() - begun
        output, complaint = map(_decoded_text, streams)
        return Ran(output, complaint, code, seconds, any(map(_is_long, streams)), excess)


async def _exit_code(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    streams: Sequence[IO[bytes]],
    deadline: float,
    limits: Limits,
) -> tuple[int | str | None, str]:
    """Run a program; return its exit code (None after a timeout) and the limit it exceeded.

    A program that writes too much output is ended. The code is a text if it cannot be started.
    """
    with (folder / "io" / "in").open("rb") as stdin:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=streams[0],
                stderr=streams[1],
                cwd=folder / "work",
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return f"{command[0]} cannot be started: {error.strerror}", ""
        watchdog = _roots[folder.parents[1]]
        watchdog.watch("+", process.pid)
        # Limit the size of the files that the program writes; only Linux can do this from outside.
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import resource

            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limits.max_file, limits.max_file))
        try:
            while (seconds := deadline - time.monotonic()) > 0:
                look = LOOK if limits.memory is None else LOOK_CLOSELY
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(process.wait(), min(look, seconds)), ""
                excess = _excess_of_all(process.pid, limits)
                if excess or any(map(_is_long, streams)):
                    await _end_group(process)
                if excess:
                    return process.returncode, excess
            return process.returncode, ""
        finally:
            await _end_group(process)
            watchdog.watch("-", process.pid)


def _excess_of_all(pid: int, limits: Limits) -> str:
    """Describe the limit that the processes of a program exceed together; empty if none."""
    if limits.memory is None or limits.cpu is None:
        return ""
    upper, cpu, nameless, pids = 0, 0.0, dict[int, int](), list[int]()
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(pid)
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                pids.append(process.pid)
                upper += process.memory_info().rss
                # add the user and system times of the process and of its ended children
                cpu += sum(process.cpu_times()[:4])
                nameless |= _nameless_files(process.pid)
    # The simple sum counts shared memory several times, but the exact sum takes longer. So compute
    # the exact sum only if the simple sum exceeds the limit.
    memory = upper if upper <= limits.memory else sum(map(_share_of_memory, pids))
    if memory + sum(nameless.values()) > limits.memory:
        return f"all its processes used more than {limits.memory >> 20} MiB of memory"
    if cpu > limits.cpu:
        return f"all its processes used more than {limits.cpu:g} s of processor time"
    return ""


def _share_of_memory(pid: int) -> int:
    """Return the memory of a process in bytes, including its part of shared memory.

    If the system does not report this part, shared memory is left out.
    """
    try:
        counts = _SHARES.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except ProcessLookupError:
        return 0
    except OSError:
        counts = []
    if counts:
        return sum(map(int, counts)) << 10
    with contextlib.suppress(psutil.Error):
        usage = psutil.Process(pid).memory_info()
        return int(usage.rss) - int(getattr(usage, "shared", 0))
    return 0


def _nameless_files(pid: int) -> dict[int, int]:
    """Map the inode of each memory-only file that a process has open to its size in bytes."""
    sizes = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(entry.path).startswith("/memfd:"):
                    status = os.stat(entry.path)
                    sizes[status.st_ino] = status.st_blocks * 512
    return sizes


def _decoded_text(stream: IO[bytes]) -> str:
    stream.seek(0)
    text = stream.read(MAX_OUTPUT + _CUT).decode("utf-8", "replace")
    return redacted_start(text, len(text) - _CUT) if _is_long(stream) else text


def _is_long(stream: IO[bytes]) -> bool:
    return os.fstat(stream.fileno()).st_size > MAX_OUTPUT


async def _end_group(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _send_signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
    _send_signal(process.pid, signal.SIGKILL)
    await process.wait()


def _send_signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def keep_files(work: Path, folder: Path, ran: Ran) -> None:
    """Fill a folder with the files of a working folder and the two output streams of a program.

    Earlier contents of the folder are deleted. Symbolic links are neither followed nor kept.
    Secrets are replaced in the names and contents of files. The file ``left.json`` lists the names
    of the files that come from the working folder; the other files in the folder were written by
    this library.
    """
    _remove_tree(folder)
    folder.mkdir(parents=True)
    left: list[str] = []
    n_bytes = 0
    for root, folders, names in os.walk(work):
        folders.sort()
        if len(Path(root).relative_to(work).parts) == MAX_DEPTH:
            folders.clear()
        for name in sorted(names):
            file = Path(root) / name
            if file.is_symlink() or not file.is_file():
                continue
            n_bytes += file.stat().st_size
            if len(left) == MAX_LEFT or n_bytes > MAX_LEFT_BYTES:
                break
            # the whole path is redacted, because a slash in a secret divides it into two names
            inside = redact_bytes(os.fsencode(file.relative_to(work)))
            target = path = folder / os.fsdecode(inside)
            # two names can be equal after redaction
            numbers = itertools.count(2)
            while target.exists():
                target = path.with_name(f"{path.stem}-{next(numbers)}{path.suffix}")
            # skip unreadable files
            with contextlib.suppress(OSError):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(redact_bytes(file.read_bytes()))
            left.append(os.fsencode(target.relative_to(folder)).decode("utf-8", "replace"))
    for name, text in ((_TRACE, ran.output), (_STDERR, ran.complaint)):
        write_file(folder, name, text.encode("utf-8"))
    write_file(folder, LEFT, orjson.dumps(left))


def write_file(folder: Path, name: str, data: bytes) -> None:
    """Write a file without secrets; if the folder has an entry of this name, replace it."""
    remove_entry(folder, name)
    is_json = name.endswith(".json")
    (folder / name).write_bytes(redact_json(data) if is_json else redact_bytes(data))


def remove_entry(folder: Path, name: str) -> None:
    """Remove the file or folder `name` from `folder`; do nothing if it does not exist."""
    if (folder / name).is_dir():
        _remove_tree(folder / name)
    (folder / name).unlink(missing_ok=True)


def files_left(folder: Path) -> list[str] | None:
    """Return the names of the files that a program left; None if ``left.json`` cannot be read."""
    names = json_or_none(folder / LEFT)
    return names if isinstance(names, list) else None
