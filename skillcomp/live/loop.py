"""Asynchronous work behind plain functions: in a script, a terminal or a notebook."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Stop", "fan_out", "run_sync"]

_T = TypeVar("_T")
_X = TypeVar("_X")


class Stop:
    """Whether work should end early, why, and with which error.

    Attributes
    ----------
    reason : str or None
        Why nothing new is begun any more; None while all is well.
    error : Exception or None
        What to raise once everything under way has come home.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.error: Exception | None = None
        self._event: asyncio.Event | None = None

    def ask(self, reason: str, error: Exception | None = None) -> None:
        """Begin nothing new; the first reason and the first error are kept."""
        self.reason = self.reason or reason
        self.error = self.error or error
        if self._event is not None:
            self._event.set()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until work is to stop."""
        self._event = self._event or asyncio.Event()
        if self.reason is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass


def run_sync(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end from a plain function, also where an event loop is running.

    In a notebook the kernel's loop runs already; the work then has a loop of its own in a thread.

    Parameters
    ----------
    main : callable
        Takes a `Stop` and returns the coroutine.

    Returns
    -------
    object
        What the coroutine returns.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C. The first one asks the work to stop and waits for what is under way, since
        that is being paid for; the second one gives it up.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_guarded(main))
    return _in_thread(main)


async def _guarded(main: Callable[[Stop], Coroutine[Any, Any, _T]]) -> _T:
    stop = Stop()
    task = asyncio.ensure_future(main(stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.ask("interrupted")
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
    raised. Items are drawn only when there is a free hand, so memory does not grow with them.
    """
    source = iter(items)

    async def hand() -> None:
        # the check comes before the draw: an item that is drawn is worked on
        while stop.reason is None:
            try:
                item = next(source)
            except StopIteration:
                return
            try:
                await work(item)
            except Exception as error:
                stop.ask(f"{type(error).__name__}: {error}", error)

    hands = [asyncio.ensure_future(hand()) for _ in range(max(1, width))]
    try:
        await asyncio.gather(*hands)
    finally:
        for one in hands:
            one.cancel()
        await asyncio.gather(*hands, return_exceptions=True)
    if stop.error is not None:
        raise stop.error
