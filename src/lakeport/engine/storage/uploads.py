"""Upload a new object while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING

from lakeport.engine.storage.failures import store_errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SINGLE_PUT = 12 << 20
"""Objects smaller than this are put by one request: to begin and complete an upload in parts takes two more."""
_PART_SIZE = 8 << 20
"""Stores accept 10,000 parts, at least 5 MiB each except the last: the largest object is 80 GiB."""

_PARTS_IN_FLIGHT = 3


class _GivenUpError(Exception):
    """Makes obstore abort an upload."""


class ObjectUpload:
    """An `OutputFile`: a small object is put on close; a larger one is uploaded by its own thread while it is written.
    It is invisible until complete."""

    def __init__(self, put: Callable[[bytearray], None], store: Callable[[], ObjectStore], key: str, path: str) -> None:
        """`put` puts the whole object; `store` opens the store for an upload in parts."""
        self._put, self._store, self._key, self._path = put, store, key, path
        self._buffer = bytearray()
        self._parts: Queue[bytearray | _GivenUpError | None] = Queue(1)
        self._sent: Future[None] | None = None
        self._finished = False

    def write(self, data: bytes | memoryview) -> int:
        self._buffer += data
        if len(self._buffer) >= (SINGLE_PUT if self._sent is None else _PART_SIZE):
            if self._sent is None:
                self._sent = Future()
                Thread(target=self._upload, args=[self._sent], name="lakeport-upload", daemon=True).start()
            self._hand_over(self._sent, self._buffer)
            self._buffer = bytearray()
        return len(data)

    def close(self) -> None:
        if self._sent is None:
            self._put(self._buffer)
        else:
            self._hand_over(self._sent, self._buffer)
            self._hand_over(self._sent, None)
            with store_errors(self._path):
                self._sent.result()
        self._finished = True

    def abort(self) -> None:
        if self._finished:
            return
        self._finished = True
        self._buffer = bytearray()
        if self._sent is not None:
            with suppress(Exception):
                self._hand_over(self._sent, _GivenUpError())
                self._sent.result()

    def _hand_over(self, sent: Future[None], part: bytearray | _GivenUpError | None) -> None:
        """Wait until the upload takes the part; raises its error if it has failed meanwhile."""
        while not sent.done():
            with suppress(Full):
                self._parts.put(part, timeout=0.1)
                return
        with store_errors(self._path):
            sent.result()

    def _upload(self, sent: Future[None]) -> None:
        try:
            self._store().put(
                self._key,
                self._taken(),
                use_multipart=True,
                chunk_size=_PART_SIZE,
                max_concurrency=_PARTS_IN_FLIGHT,
            )
        except BaseException as error:
            sent.set_exception(error)
        else:
            sent.set_result(None)

    def _taken(self) -> Iterator[bytearray]:
        while (part := self._parts.get()) is not None:
            if isinstance(part, _GivenUpError):
                raise part
            yield part
