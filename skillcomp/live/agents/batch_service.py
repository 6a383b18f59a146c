"""The protocol of ``agent.batches``: the calls that a service must offer for batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from skillcomp.errors import AgentError
from skillcomp.live.agents.agent import Reply
from skillcomp.records import Skill


class BatchError(AgentError):
    """A call to the batch service failed.

    Attributes
    ----------
    is_transient : bool
        Whether the same call may succeed soon.
    is_missing : bool
        Whether the batch does not exist in the workspace to which the key belongs.
    was_refused : bool
        Whether it is certain that the service did not accept the requests.
    wait_seconds : float or None
        Seconds that the service asks to wait; None if it did not ask to wait.
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
    """State of the service's list of batches just before a new batch was sent.

    Attributes
    ----------
    newest : str or None
        Name of the newest batch in the list; None if the list was empty.
    at : datetime or None
        When the list was read, by the service's clock; None if the service named no time.
    """

    newest: str | None
    at: datetime | None


class BatchState(NamedTuple):
    """A batch as its service describes it.

    Attributes
    ----------
    batch_id : str
        Name of the batch.
    size : int
        Number of requests in the batch.
    created_at : datetime
        When the batch was created, by the service's clock.
    has_ended, has_results : bool
        Whether all requests are done, and whether their results can be read.
    is_archived : bool
        Whether the service has deleted the results.
    """

    batch_id: str
    size: int
    created_at: datetime
    has_ended: bool
    has_results: bool
    is_archived: bool


class BatchService(Protocol):
    """The batch API of a service. Each call is tried once and raises `BatchError` if it fails."""

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
        """Return all texts in the body of a request, to estimate how much it can cost."""
        ...

    async def create(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Send a batch and return its name; `bodies` maps the name of each request to its body."""
        ...

    async def before(self) -> Before:
        """Return the newest batch of the service, and the time by the service's clock.

        The caller sends a new batch right afterwards.
        """
        ...

    async def newer_than(self, batch_id: str | None) -> tuple[list[BatchState], bool]:
        """Return batches newer than `batch_id`, newest first, and whether `batch_id` was listed."""
        ...

    async def state(self, batch_id: str) -> BatchState:
        """Return the current state of a batch."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """Yield the name and the reply of each request in a batch that has ended."""
        ...
