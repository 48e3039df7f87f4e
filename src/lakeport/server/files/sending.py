"""Sends part of a file with backpressure, without blocking the event loop on the disk."""

from __future__ import annotations

import asyncio
import logging

from lakeport.errors import StorageError
from lakeport.server.files.opening import OpenFile
from lakeport.server.http.asgi import Receive, Scope, Send, abort, disconnection
from lakeport.server.http.lanes import Lane

_log = logging.getLogger(__name__)

_CHUNK_SIZE = 1 << 20
"""Bytes per read and write; a client must take this much within the write timeout."""


class FileSender:
    """Sends bodies; a client that does not take a chunk within `stall_seconds` is disconnected."""

    def __init__(self, lane: Lane, stall_seconds: float) -> None:
        self._lane, self._stall = lane, stall_seconds

    async def send(
        self, file: OpenFile, start: int, length: int, scope: Scope, receive: Receive, send: Send
    ) -> str | None:
        """Send the body after its headers. If that fails, return the reason and leave the response incomplete, so that
        the server aborts the connection and the client notices."""
        gone = asyncio.create_task(disconnection(receive))
        try:
            sent = await self._send_chunks(file, start, start + length, gone, send)
            return None if sent else "the client went away"
        except StorageError as error:
            _log.error("a transfer was broken off: %s", error)
            return "the file could not be read to its end"
        except TimeoutError:
            _log.warning("cut off: the client has not taken what was sent for %g s [%s]", self._stall, file.path)
            abort(scope)
            return "the client took nothing"
        finally:
            gone.cancel()

    async def _send_chunks(self, file: OpenFile, start: int, end: int, gone: asyncio.Task[None], send: Send) -> bool:
        """Return whether everything was sent before the client disconnected."""
        while not gone.done():
            chunk = await self._lane.run(file.read, start, min(_CHUNK_SIZE, end - start))
            start += len(chunk)
            async with asyncio.timeout(self._stall):
                await send({"type": "http.response.body", "body": chunk, "more_body": start < end})
            if start == end:
                return True
        return False
