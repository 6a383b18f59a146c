"""Send batches to any service behind `agent.batches`, record them, and collect their results.

A batch is recorded before it is sent, and again when the service has given it a name. If the
process dies in between, the next start finds the batch by the names of its requests, so that
nothing is paid for twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from skillcomp.errors import AgentError, error_text, extra_imports, plural
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent, Reply, attribute_of, whole_hash
from skillcomp.live.agents.batch_service import BatchError, BatchService, BatchState, Before
from skillcomp.live.concurrency import Stop, StoppedError
from skillcomp.live.ledger import Budget, Ledger, upper_cost, with_upper_cost

if TYPE_CHECKING:
    import tenacity

_log = logging.getLogger("skillcomp.live")
# largest assumed difference between the clocks of two machines of the service
_SERVICE_SLACK = timedelta(minutes=10)
# largest assumed difference between the clocks of this machine and of the service
_CLOCK_SLACK = timedelta(days=1)
# longest time that sending a batch can take, with all tries and the waits between them
_SENDING = timedelta(hours=6)
_NOTHING_LOST = "What was sent stays with the service for 29 days; the same call continues with it."

_T = TypeVar("_T")
RecordReply = Callable[[str, Reply], Awaitable[None]]


@dataclass(frozen=True)
class BatchLimits:
    """Limits on the size of a batch and on the time to wait for it.

    Attributes
    ----------
    max_requests : int, default 10000
        Requests in one batch. The service accepts up to 100,000.
    max_bytes : int, default 64 million
        Size of one batch. The service accepts up to 256 MB. A batch is held in memory while it is
        sent.
    first_wait, longest_wait : float
        Seconds between two checks of whether a batch has ended. The wait begins with `first_wait`
        and doubles until it is `longest_wait`. A failed call is repeated after a tenth of
        `first_wait`, and that wait doubles, too.
    longest_silence : float, default 86400
        Seconds without contact with the service after which the waiting ends with an error. The
        batch stays with the service, and the next call of the stage collects it.
    n_rounds : int, default 4
        Maximum number of times that a request is sent, if it fails or expires each time.
    resend : bool, default False
        Whether to send the requests of a batch again if the service does not know the batch. They
        may then be paid for twice, because the batch may exist in another workspace, which the
        API key cannot see.
    """

    max_requests: int = 10_000
    max_bytes: int = 64_000_000
    first_wait: float = 5.0
    longest_wait: float = 120.0
    longest_silence: float = 86_400.0
    n_rounds: int = 4
    resend: bool = False


class MissingBatchError(AgentError):
    """The service has no batch with this name in the workspace of the API key."""


def batch_service(agent: Agent) -> BatchService:
    """Return the service for the batches of an agent; raise if the agent has none."""
    service: BatchService | None = attribute_of(agent, "batches")
    if service is None:
        raise AgentError(
            f"agent '{agent.name}' ({type(agent).__name__}) cannot be asked in batches; allowed: "
            "AnthropicAgent."
        )
    return service


def batch_cost(agent: Agent, body: Mapping[str, Any]) -> float:
    """Return the highest possible cost of a request in a batch, in dollars; NaN if unknown."""
    return upper_cost(agent, *batch_service(agent).texts(body), batch=True)


def custom_id(nonce: str, key: str) -> str:
    """Return the name of a job's request in a batch."""
    return whole_hash(nonce, key)[:48]


@dataclass
class Sent:
    """A batch that is recorded in the store and that was sent or is about to be sent.

    Attributes
    ----------
    nonce : str
        Name of the batch in the store.
    keys : list of str
        Keys of the jobs for which the batch contains requests.
    at : datetime
        When the batch was recorded, by the clock of this machine.
    batch_id : str or None
        Name of the batch at the service; None until the service has given one.
    before : Before or None
        State of the service's list of batches before this batch was sent; None if the list could
        not be read.
    usd : float
        Highest possible cost of the batch, in dollars; NaN if unknown.
    reserved : dict of str to float
        Dollars that the budget still reserves for each key.
    """

    nonce: str
    keys: list[str]
    at: datetime
    batch_id: str | None = None
    before: Before | None = None
    usd: float = math.nan
    reserved: dict[str, float] = field(default_factory=dict)

    @property
    def usd_per_request(self) -> float:
        """Highest possible cost of the batch per request, in dollars; NaN if unknown."""
        return self.usd / len(self.keys)

    @property
    def key_by_name(self) -> dict[str, str]:
        """Keys of the jobs, by the names (custom_id) of their requests."""
        return {custom_id(self.nonce, key): key for key in self.keys}

    @property
    def is_expired(self) -> bool:
        """Whether the batch is so old that the service no longer keeps its results."""
        return datetime.now(UTC) - self.at > timedelta(days=29)

    def as_record(self) -> dict[str, Any]:
        """Return the fields to store before sending, so that the batch can be found again."""
        record: dict[str, Any] = {"keys": self.keys}
        if not math.isnan(self.usd):
            record["usd"] = self.usd
        if self.before is not None:
            record["after"] = self.before.newest
            record["server_at"] = self.before.at.isoformat() if self.before.at else None
        return record

    def __str__(self) -> str:
        """Describe the batch by its name, date and number of requests."""
        name = f"batch {self.batch_id}" if self.batch_id else "a batch"
        return f"{name} of {self.at:%Y-%m-%d %H:%M} UTC with {plural(len(self.keys), 'request')}"


def open_batches(store: RunStore) -> Iterator[tuple[str, Sent]]:
    """Yield (purpose, batch) for each open batch, which is neither collected nor given up.

    A purpose is a text ``stage:name``, which shows what the batch is for, such as the grading by
    one grader.
    """
    yield from _open_and_lost(store)[0].values()


def _open_and_lost(store: RunStore) -> tuple[dict[str, tuple[str, Sent]], list[tuple[str, float]]]:
    """Return the open batches, and the purpose and cost of each batch that was given up.

    The dictionary maps the nonce of each open batch to its purpose and the batch. Batches that
    were given up are left out if they were never created or have no known cost.
    """
    still_open: dict[str, tuple[str, Sent]] = {}
    lost = []
    for row in store.records("batches"):
        nonce = row["nonce"]
        if row["event"] == "intent":
            still_open[nonce] = (row["purpose"], _sent_from_row(row))
        elif row["event"] == "created" and nonce in still_open:
            still_open[nonce][1].batch_id = row["batch_id"]
        elif row["event"] in ("collected", "dropped"):
            closed = still_open.pop(nonce, None)
            if closed is not None and "usd" in row:
                lost.append((closed[0], row["usd"]))
    return still_open, lost


def _sent_from_row(row: Mapping[str, Any]) -> Sent:
    at, before = datetime.fromisoformat(row["at"]), None
    if "after" in row:
        clock = row.get("server_at")
        before = Before(row["after"], datetime.fromisoformat(clock) if clock else None)
    usd = row.get("usd")
    return Sent(row["nonce"], row["keys"], at, before=before, usd=math.nan if usd is None else usd)


def outstanding(store: RunStore, stage: str, but: Collection[str] = ()) -> float:
    """Return the highest possible cost, in dollars, of a stage's batches that have no results.

    Open batches with a purpose in `but` are left out; batches that were given up always count.
    """
    still_open, lost = _open_and_lost(store)
    costs = [(purpose, sent.usd) for purpose, sent in still_open.values() if purpose not in but]
    each = (usd for purpose, usd in costs + lost if purpose.startswith(f"{stage}:"))
    return math.fsum(usd for usd in each if not math.isnan(usd))


def under_way(store: RunStore, stage: str) -> dict[str, str]:
    """Describe, for each agent or grader, the number of open batches and of their requests."""
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for purpose, sent in open_batches(store):
        purpose_stage, _, name = purpose.partition(":")
        if purpose_stage == stage:
            # for a grading, the name ends with a slash and the name of a table, so drop both
            name = name.rsplit("/", 1)[0] if stage == "grade" else name
            sizes[name].append(len(sent.keys))
    return {
        name: f"{len(n)} {'batch' if len(n) == 1 else 'batches'} with {plural(sum(n), 'request')}"
        for name, n in sizes.items()
    }


def log_waiting(who: str, n: int) -> None:
    """Log that `n` batches of an earlier call are collected first; this call sends no batches."""
    what = "a batch under way; it is" if n == 1 else f"{n} batches under way; they are"
    _log.warning(
        "%s has %s collected before anything else is asked, which may take a day (Ctrl-C leaves "
        "what is under way with the service)",
        who,
        what,
    )


@dataclass
class Batches:
    """The batches of one agent or grader in a stage: send them, find them again, collect them.

    Attributes
    ----------
    purpose : str
        Stage and name under which the batches are stored.
    record : callable
        Function that stores a reply, given the key of its job.
    recorded : set of str
        Names (request_id) of the results that are already in the store.
    """

    store: RunStore
    ledger: Ledger
    agent: Agent
    purpose: str
    record: RecordReply
    recorded: set[str]
    budget: Budget
    stop: Stop
    limits: BatchLimits

    def __post_init__(self) -> None:
        """Look up the service of the agent."""
        self._service = batch_service(self.agent)

    async def _store_event(self, sent: Sent, event: str, **more: Any) -> None:
        row = {"event": event, "nonce": sent.nonce, "at": datetime.now(UTC).isoformat(), **more}
        await self.ledger.write("batches", [row])

    async def _with_retries(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call; repeat it up to five times after temporary failures, unless a stop comes."""
        with extra_imports("live", "a batch"):
            import tenacity

        async def one_try() -> _T:
            self.stop.check()
            return await call()

        growth = tenacity.wait_exponential(self.limits.first_wait / 10, self.limits.longest_wait)

        def seconds_to_wait(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            requested = error.wait_seconds if isinstance(error, BatchError) else None
            return growth(state) if requested is None else requested

        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(6),
            wait=seconds_to_wait,
            sleep=self.stop.sleep,
            retry=tenacity.retry_if_exception(lambda error: getattr(error, "is_transient", False)),
            reraise=True,
        )
        return await retrying(one_try)

    async def _call_or_raise(self, call: Callable[[], Awaitable[_T]], failure: str) -> _T:
        """Make a call with retries; if it fails, raise an error that begins with `failure`."""
        try:
            return await self._with_retries(call)
        except BatchError as error:
            raise self._error_of_call(error, failure) from None

    def _error_of_call(self, error: BatchError, failure: str) -> AgentError:
        if self.stop.reason and error.is_transient:
            return StoppedError(f"{failure}: {self.stop.reason}.")
        kind = MissingBatchError if error.is_missing else AgentError
        return kind(f"agent '{self.agent.name}': {failure} ({error_text(error)}). {_NOTHING_LOST}")

    async def _newest_or_none(self) -> Before | None:
        """Return the newest batch and the current time at the service; None if the call fails."""
        try:
            return await self._call_or_raise(self._service.before, "batches cannot be listed")
        except StoppedError:
            raise
        except AgentError as error:
            _log.info("%s", error)
            return None  # raise no error here: if the service still fails, sending the batch does

    async def await_end(self, batch_id: str) -> BatchState:
        """Wait until a batch has ended, even if the service cannot be reached for some time."""
        with extra_imports("live", "a batch"):
            import tenacity

        last_contact, level = time.monotonic(), logging.WARNING

        async def look() -> BatchState | None:
            nonlocal last_contact, level
            try:
                state = await self._service.state(batch_id)
            except BatchError as error:
                is_silent = time.monotonic() - last_contact >= self.limits.longest_silence
                if is_silent or not error.is_transient:
                    raise
                _log.log(level, "batch %s: no word (%s); asking on", batch_id, error)
                level = logging.DEBUG  # warn only once until the service answers again
                return None
            last_contact, level = time.monotonic(), logging.WARNING
            return state

        waiting = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda s: not ((s and s.has_ended) or self.stop.reason)),
            wait=tenacity.wait_exponential(self.limits.first_wait, self.limits.longest_wait),
            sleep=self.stop.sleep,
        )
        try:
            state: BatchState | None = await waiting(look)
        except BatchError as error:
            failure = f"batch {batch_id} cannot be looked at"
            raise self._error_of_call(error, failure) from None
        if state is None or not state.has_ended:
            raise StoppedError(f"batch {batch_id} has not ended: {self.stop.reason}.")
        return state

    async def _has_result_named(self, batch_id: str, names: Collection[str]) -> bool:
        """Return whether the first result of a batch has one of these names."""

        async def first() -> bool:
            async with aclosing(self._service.results(batch_id)) as results:
                async for name, _ in results:
                    return name in names
            return False

        return await self._call_or_raise(first, f"results of batch {batch_id} cannot be read")

    def _unknown_error(self, sent: Sent, what: str) -> AgentError:
        """Return the error for a batch that is unknown in the workspace of the API key."""
        return AgentError(
            f"agent '{self.agent.name}': {what}: {sent}. The key is likely of another workspace "
            "than the one it was sent from: start again with a key of that one, and nothing is "
            "paid twice. Where the batch is truly lost, --resend-lost (in Python: "
            "batch=BatchLimits(resend=True)) sends its requests again."
        )

    async def send(self, bodies: AsyncIterator[tuple[str, dict[str, Any]]]) -> int:
        """Send requests in as many batches as needed, wait for the results and record them.

        Returns
        -------
        int
            Number of requests that were sent.
        """
        sent: list[Sent] = []
        async for batch, requests in self._chunked_requests(bodies):
            if await self._send_batch(batch, requests):
                sent.append(batch)
            if self.stop.reason:
                break
        await self._collect_all(sent)
        return sum(len(batch.keys) for batch in sent)

    async def _chunked_requests(
        self, bodies: AsyncIterator[tuple[str, dict[str, Any]]]
    ) -> AsyncIterator[tuple[Sent, dict[str, dict[str, Any]]]]:
        sent, requests, size = None, dict[str, dict[str, Any]](), 0
        async for key, body in bodies:
            usd = batch_cost(self.agent, body)
            if self.stop.reason or (reserved := self.budget.reserve_now(usd)) is None:
                break
            # add 100 bytes for the name of the request and the brackets around the request
            length = len(json.dumps(body)) + 100
            is_full = len(requests) >= self.limits.max_requests
            if sent is not None and (is_full or size + length > self.limits.max_bytes):
                yield sent, requests
                sent, requests, size = None, {}, 0
            sent = sent or Sent(uuid.uuid4().hex, [], datetime.now(UTC), usd=0.0)
            sent.keys.append(key)
            sent.reserved[key] = reserved
            sent.usd += usd
            requests[custom_id(sent.nonce, key)] = body
            size += length
        if sent is not None:
            yield sent, requests

    async def _send_batch(self, sent: Sent, requests: Mapping[str, dict[str, Any]]) -> bool:
        """Send one batch; return False if a stop comes before the service confirms the batch."""
        try:
            sent.before = await self._newest_or_none()
            await self._store_event(sent, "intent", purpose=self.purpose, **sent.as_record())
            sent.batch_id = await self._create_once(sent, requests)
        except StoppedError:
            await self._release_reserved(sent)
            return False
        await self._store_event(sent, "created", batch_id=sent.batch_id)
        return True

    async def _create_once(self, sent: Sent, requests: Mapping[str, dict[str, Any]]) -> str:
        may_exist = False

        async def create() -> str:
            nonlocal may_exist
            # If the response to an earlier try was lost, the batch may exist already, and a second
            # batch would also be paid for.
            if may_exist and (batch_id := await self._find_batch(sent)):
                return batch_id
            try:
                return await self._service.create(requests)
            except BatchError as error:
                may_exist = may_exist or not error.was_refused
                raise

        try:
            return await self._with_retries(create)
        except (BatchError, StoppedError) as error:
            if not may_exist:
                await self._store_event(sent, "dropped")
            await self._release_reserved(sent)
            if self.stop.reason:
                message = f"interrupted while sending a batch: {error_text(error)}"
                raise StoppedError(message) from None
            again = " The next start looks whether the service has it." if may_exist else ""
            raise AgentError(
                f"agent '{self.agent.name}': a batch of {len(sent.keys)} requests was not taken "
                f"({error_text(error)}).{again}"
            ) from None

    async def resume(self) -> None:
        """Collect every batch of this purpose that an earlier process sent."""
        earlier = [sent for purpose, sent in open_batches(self.store) if purpose == self.purpose]
        for sent in earlier:
            usd = sent.usd_per_request
            usd = 0.0 if math.isnan(usd) else usd
            sent.reserved = {key: self.budget.reserve_running(usd) for key in sent.keys}
        ready = []
        for sent in earlier:
            if sent.batch_id is None:
                try:
                    sent.batch_id = await self._find_batch(sent)
                except StoppedError:
                    break
                if sent.batch_id is None:
                    await self._store_event(sent, "dropped")
                    await self._release_reserved(sent)
                    continue
                await self._store_event(sent, "created", batch_id=sent.batch_id)
            ready.append(sent)
        await self._collect_all(ready, earlier=True)

    async def _find_batch(self, sent: Sent) -> str | None:
        """Return the service's name for a recorded batch; None if the service has no such batch."""
        newest = sent.before.newest if sent.before else None
        listed, has_newest = await self._call_or_raise(
            lambda: self._service.newer_than(newest), "batches cannot be listed"
        )
        of_others = {row.get("batch_id") for row in self.store.records("batches")}
        names = sent.key_by_name
        unclaimed = [state for state in listed if state.batch_id not in of_others]
        candidates = [s for s in unclaimed if s.size == len(names) and not s.is_archived]
        # Only the results of a batch contain the names of its requests, which identify the batch.
        for state in candidates:
            if state.has_ended and await self._has_result_named(state.batch_id, names):
                return state.batch_id
        for state in reversed(candidates):
            if not state.has_ended and _may_be_batch_of(state, sent):
                _log.warning("batch %s may be %s; waiting for its end", state.batch_id, sent)
                await self.await_end(state.batch_id)
                if await self._has_result_named(state.batch_id, names):
                    return state.batch_id
        if not (has_newest or self.limits.resend or _was_empty_before(sent, listed)):
            raise self._unknown_error(sent, "the service lists neither it nor the one before it")
        return None

    async def _collect_all(self, batches: list[Sent], *, earlier: bool = False) -> None:
        """Collect all batches, then raise the first error; a batch with an error stays open."""
        await _await_all(self._collect_batch(sent, earlier) for sent in batches)

    async def _collect_batch(self, sent: Sent, earlier: bool) -> None:
        try:
            state = await self.await_end(sent.batch_id or "")
            if state.is_archived or (sent.is_expired and not state.has_results):
                await self._give_up(sent, "the service has deleted its results", earlier)
                return
            failure = f"results of {sent} cannot be read"
            await self._call_or_raise(lambda: self._take_in(state, sent), failure)
            await self._store_event(sent, "collected", batch_id=state.batch_id)
        except StoppedError:
            pass  # the batch stays with the service, and a later run collects it
        except MissingBatchError:
            if not (earlier and (self.limits.resend or sent.is_expired)):
                raise self._unknown_error(sent, "the service does not know it") from None
            await self._give_up(sent, "the service does not know it any more", earlier)
        finally:
            await self._release_reserved(sent)

    async def _give_up(self, sent: Sent, why: str, earlier: bool) -> None:
        if not earlier:
            raise AgentError(
                f"agent '{self.agent.name}': {sent}: {why} before they could be read; they may "
                "have been paid for. The same call sends its requests again."
            )
        _log.warning("%s: %s; they are sent again", sent, why)
        usd = sent.usd_per_request * len(sent.reserved)
        more = {} if math.isnan(usd) else {"usd": usd}
        await self._store_event(sent, "dropped", batch_id=sent.batch_id, why=why, **more)
        # the batch may have been paid for, so count the reserved money as spent
        for reserved in sent.reserved.values():
            lost = Reply(status="error", error=why, cost_usd=reserved) if reserved else None
            await self.budget.settle(reserved, lost)
        sent.reserved.clear()

    async def _take_in(self, state: BatchState, sent: Sent) -> None:
        waiting: list[tuple[str, Reply]] = []
        missing, n_results = sent.key_by_name, 0
        async with aclosing(self._service.results(state.batch_id)) as results:
            async for name, reply in results:
                n_results += 1
                key, request_id = missing.pop(name, None), f"{state.batch_id}/{name}"
                if key is None or request_id in self.recorded:
                    continue
                waiting.append((key, reply.model_copy(update={"request_id": request_id})))
                if len(waiting) >= 256:  # store up to 256 results with one write to the disk
                    await _await_all(self._record_one(key, reply, sent) for key, reply in waiting)
                    waiting = []
        is_whole = n_results >= state.size
        absent = Reply(status="error", error="not among the results", settings=self.agent.settings)
        for name, key in missing.items() if is_whole else ():
            if (request_id := f"{state.batch_id}/{name}") not in self.recorded:
                waiting.append((key, absent.model_copy(update={"request_id": request_id})))
        await _await_all(self._record_one(key, reply, sent) for key, reply in waiting)
        if not is_whole:
            raise BatchError(f"{n_results} of {state.size} results came", is_transient=True)

    async def _record_one(self, key: str, reply: Reply, sent: Sent) -> None:
        reply = with_upper_cost(reply, lambda: sent.usd_per_request)
        await self.record(key, reply)
        self.recorded.add(reply.request_id or "")
        await self.budget.settle(sent.reserved.pop(key), reply)

    async def _release_reserved(self, sent: Sent) -> None:
        """Release the money that the budget reserves for a batch."""
        for reserved in sent.reserved.values():
            await self.budget.settle(reserved, None)
        sent.reserved.clear()


def _may_be_batch_of(state: BatchState, sent: Sent) -> bool:
    """Return whether the creation time of a batch at the service fits the batch ``sent``."""
    # if the time of the service is unknown, rely on the clock of this machine
    if sent.before is None:
        return abs(state.created_at - sent.at) <= _CLOCK_SLACK
    at = sent.before.at
    return at is None or at - _SERVICE_SLACK <= state.created_at <= at + _SENDING


def _was_empty_before(sent: Sent, listed: list[BatchState]) -> bool:
    """Return whether `sent` may be the first batch in the workspace.

    `listed` contains the batches that the workspace has now.
    """
    if sent.before is None:
        return True  # possible, because the list of earlier batches could not be read
    if sent.before.newest is not None:
        return False
    since = sent.before.at - _SERVICE_SLACK if sent.before.at else sent.at - _CLOCK_SLACK
    return all(state.created_at >= since for state in listed)


async def _await_all(work: Iterator[Awaitable[None]]) -> None:
    """Wait until all work has ended, then raise the first error."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error
