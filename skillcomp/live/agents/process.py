"""Run a program for one prompt in a folder of its own, with limits on time and output.

The program is ended when this process ends. Its output and the files in its working folder can be
kept.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import orjson
from filelock import FileLock, Timeout

from skillcomp.errors import extra_imports
from skillcomp.io.files import json_content
from skillcomp.io.redaction import redact_bytes, redact_json, redacted_start

with extra_imports("live", "starting a program"):
    import psutil

MAX_OUTPUT = 64_000_000  # Maximum size of the output in bytes; a program with more is ended.
_CUT = 1 << 16  # An output that is too long loses this many characters, not to cut a secret in two.
MAX_FILE = 2_000_000_000  # Maximum size in bytes of a file that the program writes.
VAR_TMP = Path("/var/tmp")  # Files in this temporary directory survive a restart.
LOOK = 0.1  # Seconds between two checks of the limits.

# maximum number of files, and of bytes, that are kept from a working folder
MAX_LEFT, MAX_LEFT_BYTES = 1000, 50_000_000
MAX_DEPTH = 100  # Files in more deeply nested folders are not kept.
_TRACE, _STDERR, LEFT = "trace.jsonl", "stderr.txt", "left.json"
_GRACE = 2.0  # Seconds that programs have to end, after SIGTERM and after SIGKILL.
USERS = range(61184, 65520)  # User ids that operating systems leave unassigned.
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
    excess : str
        A clause that names the limit that was exceeded, so that the program was ended; empty if
        none was.
    """

    output: str
    complaint: str
    code: int | str | None
    seconds: float
    excess: str = ""


class Limits(NamedTuple):
    """Limits of a program: the size of a file, and the memory and time of all its processes.

    Attributes
    ----------
    max_file : int
        Maximum size of each file, in bytes.
    memory : int or None
        Maximum memory of all processes together, in bytes; None for no limit on memory and time.
        Memory that processes share is counted once; the code of programs is not counted.
    cpu : float
        Maximum processor time of all processes together, in seconds.
    """

    max_file: int = MAX_FILE
    memory: int | None = None
    cpu: float = math.inf


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
        # it gets its name when it is locked, because another process could remove it before
        fresh = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        self._lock = FileLock(fresh / _LOCK)
        self._lock.acquire(timeout=0)
        self.folder = fresh.rename(base / fresh.name[1:])
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            text=True,
        )
        atexit.register(self.close)

    def watch(self, sign: str, group: int) -> None:
        with contextlib.suppress(OSError):  # writing fails if the watchdog was killed
            print(f"{sign}{group}", file=self._watchdog.stdin, flush=True)

    def close(self) -> None:
        """Make the watchdog end the remaining process groups, and wait for the watchdog."""
        if os.getpid() == self.pid:
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                self._watchdog.communicate(timeout=_GRACE)
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
    bases = [VAR_TMP / f"skillcomp-{os.getuid()}"] if VAR_TMP.is_dir() else []
    bases += [cache / "skillcomp" / "work"] if cache.is_absolute() else []
    for base in bases:
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not base.is_symlink() and base.stat().st_uid == os.getuid():
                base.chmod(0o700)
                if os.access(base, os.W_OK):
                    return base
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def case_folder(base: Path | None = None) -> Iterator[Path]:
    """Yield a new folder with empty folders ``home``, ``work``, ``tmp`` and ``io``.

    The folder is below `base` (default: the temporary directory) and is removed at the end.
    """
    base = Path(base or tempfile.gettempdir()).resolve()
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
    given: bytes,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    limits: Limits | None = None,
) -> Ran:
    """Run a command in the folder ``work`` of a `case_folder`, then end its process group.

    The command reads `given` from its standard input and gets only the variables in `environment`.
    """
    limits = limits or Limits(MAX_FILE)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        # Use files instead of pipes, because a surviving child process would keep a pipe open. The
        # files have no name, so only programs that inherit them can write to them.
        stdin, *streams = [
            stack.enter_context(tempfile.TemporaryFile(dir=folder / "io")) for _ in range(3)
        ]
        stdin.write(given)
        stdin.seek(0)
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
            why = f"{command[0]} cannot be started: {error.strerror}"
            return Ran("", "", why, time.monotonic() - begun)
        watchdog = _roots[folder.parents[1]]
        watchdog.watch("+", process.pid)
        # Limit the size of the files that the program writes; only Linux can do this from outside.
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import resource

            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limits.max_file, limits.max_file))
        code, excess = None, ""
        try:
            while code is None and (left := begun + timeout - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    code = await asyncio.wait_for(process.wait(), min(LOOK, left))
                    continue
                excess = _excess_of_output(streams) or _excess_of_all(process.pid, limits)
                if excess:
                    await _end_group(process)
                    code = process.returncode
        finally:
            await _end_group(process)
            watchdog.watch("-", process.pid)
        seconds = time.monotonic() - begun
        excess = excess or _excess_of_output(streams)
        output, complaint = map(_decoded_text, streams)
        return Ran(output, complaint, code, seconds, excess)


def _excess_of_output(streams: Sequence[IO[bytes]]) -> str:
    if all(os.fstat(stream.fileno()).st_size <= MAX_OUTPUT for stream in streams):
        return ""
    return f"the program wrote more than {MAX_OUTPUT // 1_000_000} MB"


def _excess_of_all(pid: int, limits: Limits) -> str:
    """Describe the limit that the processes of a program exceed together; empty if none."""
    if limits.memory is None:
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
    with contextlib.suppress(OSError):
        if counts := _SHARES.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()):
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
    data = stream.read(MAX_OUTPUT + _CUT)
    text = data.decode("utf-8", "replace")
    return redacted_start(text, len(text) - _CUT) if len(data) > MAX_OUTPUT else text


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """Ask the processes of a group to end, and kill them if they take too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE if number == signal.SIGTERM else None)


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
    redacted = redact_json if name.endswith(".json") else redact_bytes
    (folder / name).write_bytes(redacted(data))


def remove_entry(folder: Path, name: str) -> None:
    """Remove the file or folder `name` from `folder`; do nothing if it does not exist."""
    if (folder / name).is_dir():
        _remove_tree(folder / name)
    (folder / name).unlink(missing_ok=True)


def files_left(folder: Path) -> list[str] | None:
    """Return the names of the files that a program left; None if ``left.json`` cannot be read."""
    names = json_content(folder / LEFT)
    return names if isinstance(names, list) else None


@contextlib.contextmanager
def lent_users() -> Iterator[list[int]]:
    """Yield two unused user ids (none unless run by root); at the end, kill their processes."""
    if sys.platform != "linux" or os.getuid() != 0:
        yield []
        return
    while True:
        first = random.SystemRandom().choice(USERS[::2])
        users = [first, first + 1]
        # another run may have these users, although no process has started yet
        lock = FileLock(private_base() / f"user-{first}{_LOCK}")
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
            if not any(processes(users)):
                break
            lock.release()
    try:
        yield users
    finally:
        last = time.monotonic() + _GRACE
        while (left := list(processes(users))) and time.monotonic() < last:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=0.01)
        lock.release()


def processes(users: Collection[int]) -> Iterator[psutil.Process]:
    """Yield the processes of some users that are not zombies."""
    for process in psutil.process_iter(["uids", "status", "num_threads"]):
        is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
        if not is_zombie and not set(process.info["uids"] or ()).isdisjoint(users):
            yield process
