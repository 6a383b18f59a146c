"""Run asynchronous work from plain functions, with limited concurrency and a stop on Ctrl-C."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from skillcomp.errors import AgentError, error_text

_T = TypeVar("_T")
_X = TypeVar("_X")
_Main = Callable[["Stop"], Coroutine[Any, Any, _T]]


class StoppedError(AgentError):
    """An item was stopped before it had a result, so there is nothing to store."""


@dataclass
class Stop:
    """A request to end work early.

    Attributes
    ----------
    reason : str or None
        Why no further item is started; None while work continues.
    error : Exception or None
        The error to raise after all running items have ended.
    n_under_way : int
        Number of running items of `fan_out`.
    """

    reason: str | None = None
    error: Exception | None = None
    n_under_way: int = 0

    def ask(self, reason: str, error: Exception | None = None) -> None:
        """Request that no further item is started; only the first reason and error are kept."""
        self.reason = self.reason or reason
        self.error = self.error or error

    def check(self) -> None:
        """Raise `StoppedError` if a stop was requested."""
        if self.reason is not None:
            raise StoppedError(f"Not asked: {self.reason}.")


_INTERRUPTION: contextvars.ContextVar[Stop | None] = contextvars.ContextVar(
    "skillcomp_interruption", default=None
)


def interruption() -> Stop | None:
    """Return the `Stop` that only Ctrl-C and SIGTERM trigger; None outside of `run_sync`.

    An exhausted budget does not trigger this `Stop`: a call that has begun may still be repeated
    after an error.
    """
    return _INTERRUPTION.get()


def run_sync(main: _Main[_T]) -> _T:
    """Run a coroutine to its end from a plain function, even inside a running event loop.

    The coroutine runs in a loop of its own in a new thread, and this thread passes Ctrl-C on to it.
    """
    running: dict[str, Any] = {}
    started = threading.Event()

    async def entry() -> _T:
        running["loop"], running["task"] = asyncio.get_running_loop(), asyncio.current_task()
        started.set()
        stop, interrupted = Stop(), Stop()
        _INTERRUPTION.set(interrupted)
        task = asyncio.ensure_future(main(stop))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # wait for the items that are running, then raise the cancellation
            stop.ask("interrupted")
            interrupted.ask("interrupted")
            message, n = "stopping; Ctrl-C again ends at once", stop.n_under_way
            if n:
                them = "it" if n == 1 else "them"
                message = f"finishing {n} under way; Ctrl-C again gives {them} up"
            from tqdm.auto import tqdm  # tqdm is imported only here, because few callers need it

            tqdm.write(message, file=sys.stderr)
            await task
            raise

    with _sigterm_as_ctrl_c(), ThreadPoolExecutor(1, thread_name_prefix="skillcomp") as pool:
        future = pool.submit(contextvars.copy_context().run, lambda: asyncio.run(entry()))
        while True:
            try:
                return future.result()
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None
            except KeyboardInterrupt:
                if future.done():
                    raise
                started.wait()
                running["loop"].call_soon_threadsafe(running["task"].cancel)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, unless the program handles it in another way."""
    is_free = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    )
    if is_free:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if is_free:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


async def fan_out(
    items: Iterable[_X], work: Callable[[_X], Awaitable[None]], *, width: int, stop: Stop
) -> None:
    """Work on items in their order, at most `width` at a time, until all are done or work stops.

    If the work on an item raises, no further item is started, and the error is raised after the
    running items have ended. An item that raises `StoppedError` stays open; `fan_out` does not
    raise this error. Items are taken only when a worker is free, so memory does not grow with
    their number.
    """
    source = iter(items)

    async def worker() -> None:
        # look for a stop before taking an item, because every item that was taken is worked on
        while stop.reason is None:
            try:
                item = next(source)
            except StopIteration:
                return
            stop.n_under_way += 1
            try:
                await work(item)
            except StoppedError:
                return
            except Exception as error:
                stop.ask(error_text(error), error)
            finally:
                stop.n_under_way -= 1

    async with asyncio.TaskGroup() as workers:
        for _ in range(max(1, width)):
            workers.create_task(worker())
    if stop.error is not None:
        raise stop.error
