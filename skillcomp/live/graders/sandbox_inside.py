"""Run one test file on one answer. `sandbox` starts this file as a program; nothing imports it.

skillcomp cannot be imported here. The outcome of each test is written to a report file as soon as
it is known, so that it is kept even if this process crashes.
"""

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_KEEP_CAPS, _AMBIENT, _RAISE, _NO_NEW_PRIVS = 8, 47, 2, 38  # Arguments of the system call prctl.
_READ_ALL = 2  # The Linux capability CAP_DAC_READ_SEARCH, which gives the right to read all files.
_NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo")


def _drop_root(uid: int, reads_all: bool) -> None:
    """Change permanently from root to another user, who may read all files if `reads_all`."""
    libc = ctypes.CDLL(None)
    if reads_all:
        libc.prctl(_KEEP_CAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
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
    """A pytest plugin that writes the outcome of each test to the report file."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, **line: Any) -> None:
        os.write(self.descriptor, (json.dumps(line) + "\n").encode())

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            last = str(report.longrepr).strip().splitlines()[-1]
            self.write(broken=report.nodeid, message=last.removeprefix("E").strip()[:2000])

    def pytest_collection_finish(self, session: Any) -> None:
        self.write(collected=[item.nodeid for item in session.items])

    def pytest_runtest_logreport(self, report: Any) -> None:
        message = _failure_message(report) if report.outcome == "failed" else ""
        self.write(test=report.nodeid, when=report.when, outcome=report.outcome, message=message)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.write(end=int(exitstatus))


def _failure_message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[:2000]


def _run_job() -> None:
    with open(sys.argv[1], encoding="utf-8") as stream:
        job = json.load(stream)
    # Only root may open the report file. If this program was restarted as another user, it has
    # inherited the open file.
    opened = [int(number) for number in sys.argv[2:]]
    descriptor = opened[0] if opened else os.open(job["report"], os.O_WRONLY | os.O_APPEND)
    os.set_inheritable(descriptor, False)
    if job["core"] is not None:
        with suppress(AttributeError, OSError):  # only Linux has sched_setaffinity
            os.sched_setaffinity(0, {job["core"]})
    if job["uid"] is not None and os.getuid() == 0:
        _drop_root(job["uid"], job["reads_all"])
        if job["command"]:
            os.set_inheritable(descriptor, True)
            again = [sys.executable, "-I", "-B", *sys.argv, str(descriptor)]
            os.execvp(job["command"][0], [*job["command"], *again])
    _set_limits(job["limits"])

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            raise PermissionError(f"{event}: a judged answer has no network")

    sys.addaudithook(refuse)
    import pytest

    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler", "-s"]
    options += ["-c", job["settings"], "--rootdir", job["root"], "--confcutdir", job["root"]]
    sys.exit(pytest.main([*options, job["test"]], plugins=[_Reporter(descriptor)]))


if __name__ == "__main__":
    _run_job()
