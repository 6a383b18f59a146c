"""When a call is made again, and when it no longer is."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from skillcomp.live.agents import service as retry
from skillcomp.live.agents.service import RetryPolicy
from skillcomp.live.concurrency import Stop, StoppedError


def counted(policy, stop, ask_at=None):
    """Call what always loses its connection; return how often it was called and what it raised."""
    n = 0

    async def lost():
        nonlocal n
        n += 1
        if n == ask_at:
            stop.ask("interrupted")
        raise ConnectionError(f"try {n}")

    async def main():
        with pytest.raises(Exception) as raised:
            await policy.call(lost, stop)
        return raised.value

    return asyncio.run(main()), n


def test_no_try_begins_once_work_is_to_stop():
    hour = RetryPolicy(tries=9, base=3600.0, longest=3600.0)
    error, n = counted(hour, Stop(), ask_at=1)
    assert (str(error), n, error.n_tries) == ("try 1", 1, 1)


def test_a_stop_ends_the_wait_before_the_next_try():
    stop = Stop()

    async def lost():
        asyncio.get_running_loop().call_later(0.01, stop.ask, "interrupted")
        raise ConnectionError("lost")

    async def main():
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionError) as raised:
                await RetryPolicy(base=3600.0, longest=3600.0).call(lost, stop)
        return raised.value.n_tries

    assert asyncio.run(main()) == 1


def test_a_first_try_after_the_stop_is_not_made():
    stop = Stop()
    stop.ask("interrupted")
    error, n = counted(RetryPolicy(), stop)
    assert isinstance(error, StoppedError) and n == 0
    assert str(error) == "Not asked: interrupted."


def test_without_a_stop_the_tries_are_used_up():
    error, n = counted(RetryPolicy(tries=3, base=0.001, longest=0.001), None)
    assert (str(error), n) == ("try 3", 3)


@pytest.mark.parametrize(
    "error",
    [
        httpx2.RemoteProtocolError("closed halfway"),
        httpx2.ReadError("reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
)
def test_a_reply_cut_halfway_is_asked_for_again(error):
    assert retry.is_transient(error)
