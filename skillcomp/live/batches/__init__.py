"""The Message Batches API as a way to ask: half the price, within a day."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be and how patiently it is waited for.

    Attributes
    ----------
    max_requests : int, default 10000
        The service takes 100,000.
    max_bytes : int, default 64 million
        The service takes 256 MB; a batch of this size is held in memory while it is sent.
    first_wait, longest_wait : float
        Seconds between two looks at a batch; the wait doubles from the first to the longest.
    longest_silence : float, default 86400
        Seconds without a word from the service after which it is no longer asked for a batch. The
        batch stays there and is asked for at the next start.
    n_rounds : int, default 4
        How often a request that comes back with an error, or expires, is sent in all.
    resend : bool, default False
        Send the requests of a batch again that the service does not know, although they may have
        been paid for: it knows only batches of the key's own workspace.
    """

    max_requests: int = 10_000
    max_bytes: int = 64_000_000
    first_wait: float = 5.0
    longest_wait: float = 120.0
    longest_silence: float = 86_400.0
    n_rounds: int = 4
    resend: bool = False
