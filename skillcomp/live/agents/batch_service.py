"""The protocol behind ``agent.batches``: what a service must do so that batches can be sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from skillcomp.errors import AgentError
from skillcomp.live.agents.agent import Reply
from skillcomp.records import Skill


class BatchError(AgentError):
    """A call about batches failed.

    Attributes
    ----------
    is_transient : bool
        Whether the same call may succeed soon.
    is_missing : bool
        Whether the service does not know the batch, in the workspace of the key.
    was_refused : bool
        Whether the service certainly did not take what was sent.
    wait_seconds : float or None
        How long the service asks to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        is_transient: bool = False,
        is_missing: bool = False,
        was_refused: bool = False,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.is_transient, self.is_missing = is_transient, is_missing
        self.was_refused, self.wait_seconds = was_refused, wait_seconds


class Before(NamedTuple):
    """The service's list of batches before one was sent.

    Attributes
    ----------
    newest : str or None
        Name of the newest batch; None if there was none.
    at : datetime or None
        Time by the service's clock.
    """

    newest: str | None
    at: datetime | None


class BatchState(NamedTuple):
    """A batch as its service describes it.

    Attributes
    ----------
    batch_id : str
        Its name.
    size : int
        Number of requests.
    created_at : datetime
        Time by the service's clock.
    has_ended, has_results : bool
        Whether all requests are done, and whether their results can be read.
    is_archived : bool
        Whether the service has deleted its results.
    """

    batch_id: str
    size: int
    created_at: datetime
    has_ended: bool
    has_results: bool
    is_archived: bool


class BatchService(Protocol):
    """The calls of one service. Each is one try; a failure raises `BatchError`."""

    def request(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
    ) -> dict[str, Any]:
        """Return the body of a request; the arguments are those of `Agent.ask`."""
        ...

    def texts(self, body: Mapping[str, Any]) -> list[str]:
        """Return every text of a body, from which its highest cost is estimated."""
        ...

    async def create(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Send the bodies by name in one batch and return the name of the batch."""
        ...

    async def before(self) -> Before:
        """Return the newest batch and the time of the service."""
        ...

    async def newer_than(self, batch_id: str | None) -> tuple[list[BatchState], bool]:
        """Return the batches after `batch_id`, newest first, and whether `batch_id` was listed."""
        ...

    async def state(self, batch_id: str) -> BatchState:
        """Return the present state of a batch."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """Yield name and reply for each request of a batch that has ended."""
        ...
