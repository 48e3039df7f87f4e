"""Async queries: if planning takes too long, the client gets an id and polls.

The id is a signed token that holds the whole query, so any server with the same key can answer it. The server that is
already planning the query continues; any other plans it again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from lakeport.errors import SharingError
from lakeport.server.access.tokens import TokenSigner
from lakeport.server.answers.answer_lines import Answer
from lakeport.server.answers.streaming import Lines, begin
from lakeport.server.http.lanes import Lane
from lakeport.server.http.refusals import Refusal, not_found, too_many
from lakeport.sharing.models import QueryRequest

_KIND = "query"
_LIFETIME = 24 * 3600
_ROUNDING = 3600
"""Seconds within which the same query gets the same id."""
_LONGEST_ID = 6000
"""Ids are part of URLs, whose length proxies and servers limit."""
_KEPT_SECONDS = 120.0
"""How long an answer is kept if nobody polls for it."""
_MOST_KEPT = 64
_MOST_UNDER_WAY = 64
"""Per recipient: queries wait for threads, and continue even if nobody polls."""
_RETRY_SECONDS = 5
_POLL_SECONDS = 5.0
"""The maximum wait of a poll if `asyncQueryAfterSeconds` is 0."""

StartedAnswer: TypeAlias = tuple[Lines, bytes]


@dataclass(frozen=True, slots=True)
class Job:
    """A blocking function that makes an answer, the threads it runs on, and its recipient."""

    answer: Callable[[], Answer]
    lane: Lane
    recipient: str


class AsyncQuery(msgspec.Struct, frozen=True, array_like=True):
    """Everything that the answer depends on."""

    recipient: str
    table: str
    capabilities: str | None
    """The header of the request."""
    file_id_hash: str | None
    request: QueryRequest
    nonce: str = ""
    """Distinguishes queries without an idempotency key."""


class AsyncQueries:
    """The queries under way in this process. Use only on the event loop."""

    def __init__(self, tokens: TokenSigner, after_seconds: float) -> None:
        self._tokens, self._after = tokens, after_seconds
        self._running: dict[str, asyncio.Task[StartedAnswer]] = {}
        self._under_way: Counter[str] = Counter()
        """Unfinished queries per recipient."""

    def new_id(self, query: AsyncQuery) -> str | None:
        """The id of a query, the same for the same idempotency key; None if the query is too large."""
        if query.request.idempotency_key is None:
            query = msgspec.structs.replace(query, nonce=secrets.token_urlsafe(9))
        now = time.time()
        expires = (now + _LIFETIME) // _ROUNDING * _ROUNDING
        token = self._tokens.sign(_KIND, query, expires - now + 0.5)
        return token if len(token) <= _LONGEST_ID else None

    def read_id(self, query_id: str, recipient: str, table: str) -> AsyncQuery:
        """Raises `SharingError` (404) if the id has expired or is not one of this recipient's for this table."""
        try:
            query = self._tokens.read(_KIND, query_id, AsyncQuery)
        except SharingError as error:
            raise _unknown() from error
        if (query.recipient, query.table) != (recipient, table):
            raise _unknown()
        return query

    async def started(
        self, query_id: str, request: QueryRequest, job: Job, *, polled: bool = False
    ) -> StartedAnswer | None:
        """The beginning of the answer, or None if it is not ready in time. Raises planning errors, and `Refusal` (429)
        if the recipient has too many queries under way."""
        key = f"{query_id} {request.max_files} {request.page_token}"  # each page is a separate answer
        deadline = time.monotonic() + (self._after or (_POLL_SECONDS if polled else 0.0))
        while True:
            task = self._running.get(key) or self._start(key, job)
            await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
            if not task.done():
                return None
            # An answer can be consumed only once: any other waiter must start the planning again.
            if self._running.get(key) is task:
                del self._running[key]
                return task.result()

    def _start(self, key: str, job: Job) -> asyncio.Task[StartedAnswer]:
        if self._under_way[job.recipient] >= _MOST_UNDER_WAY:
            message = f"{_MOST_UNDER_WAY} queries of this recipient are pending: wait for their answers"
            raise too_many(message, _RETRY_SECONDS)
        task = asyncio.create_task(job.lane.run(begin, job.answer))
        self._running[key] = task
        self._under_way[job.recipient] += 1
        task.add_done_callback(lambda _: self._ended(key, task, job.recipient))
        finished = [(old_key, old) for old_key, old in self._running.items() if old.done()]
        for old_key, old in finished[: max(0, len(self._running) - _MOST_KEPT)]:
            self._forget(old_key, old)
        return task

    def _ended(self, key: str, task: asyncio.Task[StartedAnswer], recipient: str) -> None:
        self._under_way[recipient] -= 1
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget, key, task)

    def _forget(self, key: str, task: asyncio.Task[StartedAnswer]) -> None:
        if self._running.get(key) is not task:
            return
        del self._running[key]
        if not task.cancelled() and task.exception() is None:
            task.result()[0].close()


def _unknown() -> Refusal:
    return not_found("the query does not exist or has expired: send it again")
