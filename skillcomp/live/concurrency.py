"""Asynchronous work behind plain functions: in a script, a terminal or a notebook."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from skillcomp.errors import AgentError

_T = TypeVar("_T")
_X = TypeVar("_X")


class StoppedError(AgentError):
    """Work was asked to stop before the first try: nothing was sent, and nothing is to be kept."""


class Stop:
    """Whether work should end early, why, and with which error.

    Attributes
    ----------
    reason : str or None
        Why nothing new is begun any more; None while all is well.
    error : Exception or None
        What to raise once everything under way has come home.
    n_under_way : int
        How many items of `fan_out` are being worked on.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.error: Exception | None = None
        self.n_under_way = 0
        self._event: asyncio.Event | None = None

    def ask(self, reason: str, error: Exception | None = None) -> None:
        """Begin nothing new; the first reason and the first error are kept."""
        self.reason = self.reason or reason
        self.error = self.error or error
        if self._event is not None:
            self._event.set()

    def check(self) -> None:
        """Raise `StoppedError` when nothing new is to begin any more."""
        if self.reason is not None:
            raise StoppedError(f"Not asked: {self.reason}.")

    async def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until work is to stop."""
        self._event = self._event or asyncio.Event()
        if self.reason is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass


_INTERRUPTION: contextvars.ContextVar[Stop | None] = contextvars.ContextVar(
    "skillcomp_interruption", default=None
)


def interruption() -> Stop | None:
    """Return what Ctrl-C asks to stop in the work of `run_sync` that this is called from.

    It is asked by Ctrl-C and SIGTERM only: at the end of a budget, what is under way may still try
    again.
    """
    return _INTERRUPTION.get()


def run_sync(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end from a plain function, also where an event loop is running.

    In a notebook the kernel's loop runs already; the work then has a loop of its own in a thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _here(main)
    # an exception in the thread of the cell, as Ctrl-C is
    with _on_sigterm(signal.default_int_handler):
        return _in_thread(main)


@contextmanager
def _on_sigterm(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    mine = threading.current_thread() is threading.main_thread()
    mine = mine and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _here(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    async def entry() -> _T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with _on_sigterm(lambda *_: loop.call_soon_threadsafe(task.cancel)):
            return await _guarded(main)

    try:
        return asyncio.run(entry())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _guarded(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    stop, interrupted = Stop(), Stop()
    _INTERRUPTION.set(interrupted)
    task = asyncio.ensure_future(main(stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.ask("interrupted")
        interrupted.ask("interrupted")
        told, n = "stopping; Ctrl-C again ends at once", stop.n_under_way
        if n:
            told = f"finishing {n} under way; Ctrl-C again gives {'it' if n == 1 else 'them'} up"
        from tqdm.auto import tqdm  # here, since `skillcomp status` shows no bar

        tqdm.write(told, file=sys.stderr)
        await task
        raise


def _in_thread(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    found: dict[str, Any] = {}

    async def entry() -> _T:
        found["loop"], found["task"] = asyncio.get_running_loop(), asyncio.current_task()
        return await _guarded(main)

    with ThreadPoolExecutor(1, thread_name_prefix="skillcomp") as pool:
        future = pool.submit(contextvars.copy_context().run, lambda: asyncio.run(entry()))
        while True:
            try:
                return future.result()
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None
            except KeyboardInterrupt:
                if future.done() or "loop" not in found:
                    raise
                found["loop"].call_soon_threadsafe(found["task"].cancel)


async def fan_out(
    items: Iterable[_X], work: Callable[[_X], Awaitable[None]], *, width: int, stop: Stop
) -> None:
    """Work on items in their order, at most ``width`` at a time, until done or asked to stop.

    An item whose work raises stops the rest; what is under way comes home first, then the error is
    raised. `StoppedError` is no such error: the item is left as it was. Items are drawn only when
    there is a free hand, so memory does not grow with them.
    """
    source = iter(items)

    async def hand() -> None:
        # the check comes before the draw: an item that is drawn is worked on
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
                stop.ask(f"{type(error).__name__}: {error}", error)
            finally:
                stop.n_under_way -= 1

    hands = [asyncio.ensure_future(hand()) for _ in range(max(1, width))]
    try:
        await asyncio.gather(*hands)
    finally:
        for one in hands:
            one.cancel()
        await asyncio.gather(*hands, return_exceptions=True)
    if stop.error is not None:
        raise stop.error
