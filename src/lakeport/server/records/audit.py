"""The audit log: one line of JSON per request on a table, so that a provider knows who was given what.

Failed writes are kept and retried: a full disk delays lines, and never leaves a partial one.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from stat import S_ISREG
from threading import Lock, Thread
from typing import Any

import msgspec

from lakeport.server.http.asgi import RequestRecord
from lakeport.server.http.refusals import unavailable

_log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder()
_RETRY_SECONDS = 1.0
_BEGIN_SECONDS = 10.0
"""The longest a request waits for its begin to be recorded."""
_MOST_WAITING = 16 << 20
"""Bytes of lines to keep until they can be written."""
_STUCK_SECONDS = 10.0
"""Report a write that takes longer than this."""
_LOCK_SECONDS = 1.0
_CLOSE_SECONDS = 10.0
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # do not wait for a FIFO's reader
_AT_ONCE = 1 << 16
_LONGEST_TEXT, _MOST_ITEMS = 200, 10


class _Begin(msgspec.Struct, frozen=True):
    """A line that a request waits for; `done` gets the reason if it could not be written."""

    line: bytes
    done: Callable[[OSError | None], None]


class AuditLog:
    """Appends to a file, or writes to stdout for `-`. A thread writes: only `close` blocks.

    The file is opened for each batch of lines, so it may be rotated at any time. With `required`, every request is also
    recorded before its response begins, and refused if that fails."""

    def __init__(self, path: str | None, *, required: bool = False) -> None:
        self._path, self._required = path, required
        self._new: SimpleQueue[bytes | _Begin | None] = SimpleQueue()
        self._waiting: list[bytes] = []
        self._torn = False
        self._failure: str | None = None
        self._busy_since: float | None = None
        """When the writer began its current batch."""
        self._queued, self._lock = 0, Lock()
        """Bytes of lines in `_new`."""
        self.lost = 0
        """Lines that were dropped."""
        self._writer = Thread(target=self._run, name="lakeport-audit", daemon=True)
        if path is not None:
            try:
                self._torn = _ends_within_a_line(path)
                self._append(b"")
            except OSError as error:  # reported at startup
                raise OSError(error.errno, f"the audit log cannot be written: {error.strerror}", path) from error
            self._writer.start()

    @property
    def problem(self) -> str | None:
        """Why lines cannot be written at the moment."""
        return "a write hangs" if self._is_stuck else self._failure

    @property
    def _is_stuck(self) -> bool:
        busy_since = self._busy_since
        return busy_since is not None and time.monotonic() - busy_since > _STUCK_SECONDS

    @property
    def waiting(self) -> int:
        """Lines waiting to be written."""
        return len(self._waiting)

    async def begin(self, record: RequestRecord) -> None:
        """Record that a response is about to begin, if required. Raises `Refusal` (503) if that fails."""
        if self._path is None or not self._required or not _is_recorded(record):
            return
        if self._is_stuck or await self._fails(_encoded(_subject(record) | {"event": "begin"})):
            raise unavailable("the server cannot audit the request, so it was rejected: try again later")

    async def _fails(self, line: bytes) -> bool:
        """Whether a line could not be written in time."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[OSError | None] = loop.create_future()
        self._new.put(_Begin(line, lambda error: _resolve(loop, written, error)))
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                return await written is not None
        except TimeoutError:
            return True

    def write(self, record: RequestRecord) -> None:
        """Record an answered request."""
        if self._path is None or not _is_recorded(record):
            return
        line = _encoded(_subject(record) | _outcome(record))
        with self._lock:
            if self._queued > _MOST_WAITING:
                self.lost += 1
                return
            self._queued += len(line)
        self._new.put(line)

    def close(self) -> None:
        """Write the remaining lines."""
        if self._writer.is_alive():
            self._new.put(None)
            self._writer.join(_CLOSE_SECONDS)
            if self._writer.is_alive():
                _log.error("the audit log cannot be written: a write hangs, and lines are lost")

    def _run(self) -> None:
        more = True
        while more:
            entries = self._take()
            more = None not in entries
            begins = [entry for entry in entries if isinstance(entry, _Begin)]
            self._keep([entry for entry in entries if isinstance(entry, bytes)])
            self._busy_since = time.monotonic()
            error = self._write_waiting() or self._try(b"".join(begin.line for begin in begins))
            self._busy_since = None
            for begin in begins:
                begin.done(error)
            self._report(error)
        if self._waiting:
            _log.error("the audit log cannot be written: its last %d lines are lost", len(self._waiting))

    def _take(self) -> list[bytes | _Begin | None]:
        """New entries; empty when it is time to retry."""
        try:
            entries = [self._new.get(timeout=_RETRY_SECONDS if self._waiting else None)]
        except Empty:
            return []
        while not self._new.empty():
            entries.append(self._new.get())
        return entries

    def _keep(self, lines: list[bytes]) -> None:
        with self._lock:
            self._queued -= sum(map(len, lines))
        size = sum(map(len, self._waiting))
        for line in lines:
            size += len(line)
            if self._waiting and size > _MOST_WAITING:
                self.lost += 1
            else:
                self._waiting.append(line)

    def _write_waiting(self) -> OSError | None:
        """Write in small batches, to use whatever space there is."""
        while self._waiting:
            count = size = 0
            while count < len(self._waiting) and (not count or size + len(self._waiting[count]) <= _AT_ONCE):
                size += len(self._waiting[count])
                count += 1
            if error := self._try(b"".join(self._waiting[:count])):
                return error
            self._waiting = self._waiting[count:]
        return None

    def _try(self, lines: bytes) -> OSError | None:
        try:
            if lines:
                self._append(lines)
        except OSError as error:
            return error
        return None

    def _report(self, error: OSError | None) -> None:
        if error is not None and self._failure is None:
            _log.error("the audit log cannot be written; lines are kept and retried: %s", error)
        elif error is None and self._failure is not None:
            _log.warning("the audit log can be written again; %d lines were lost", self.lost)
        self._failure = None if error is None else str(error)

    def _append(self, lines: bytes) -> None:
        assert self._path is not None
        if self._path == "-":
            self._put(sys.stdout.fileno(), lines)
            return
        descriptor = os.open(self._path, _FLAGS, 0o600)
        try:
            _lock(descriptor)  # servers may share the file, and roll back partial lines
            status = os.fstat(descriptor)
            is_file, before = S_ISREG(status.st_mode), status.st_size
            if is_file and not before:  # any partial line is in another file by now
                self._torn = False
            was_torn = self._torn
            try:
                self._put(descriptor, lines)
            except OSError:
                with suppress(OSError):
                    if is_file and os.fstat(descriptor).st_size > before:  # unless it was truncated meanwhile
                        os.ftruncate(descriptor, before)
                        self._torn = was_torn
                raise
        finally:
            os.close(descriptor)

    def _put(self, descriptor: int, lines: bytes) -> None:
        """Write everything, or note that a partial line may precede the next lines."""
        left = memoryview(b"\n" + lines if self._torn and lines else lines)
        while left:
            left = left[os.write(descriptor, left) :]
            self._torn = bool(left)


def _lock(descriptor: int) -> None:
    """Raises `OSError` if another process does not release the file."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(errno.EWOULDBLOCK, "another process holds a lock on it") from None
            time.sleep(0.02)


def _ends_within_a_line(path: str) -> bool:
    """Whether a file ends with a partial line."""
    if path == "-" or not os.path.isfile(path) or not os.path.getsize(path):
        return False
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except PermissionError:  # writable, but not readable
        return False


def _resolve(loop: asyncio.AbstractEventLoop, written: asyncio.Future[OSError | None], error: OSError | None) -> None:
    def resolve() -> None:
        if not written.done():
            written.set_result(error)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(resolve)


def _is_recorded(record: RequestRecord) -> bool:
    return record.table is not None or record.asked is not None


def _encoded(line: dict[str, Any]) -> bytes:
    return _ENCODER.encode(line) + b"\n"


def _subject(record: RequestRecord) -> dict[str, Any]:
    """The recipient and the requested object."""
    table, recipient = record.table, record.recipient
    name = record.asked if table is None else f"{table.share}.{table.schema}.{table.name}"
    return {
        "time": datetime.fromtimestamp(record.received, UTC).isoformat(timespec="milliseconds"),
        "requestId": record.request_id,
        "recipient": recipient.name if recipient else None,
        "address": record.address,
        "table": _cut(name),
        "tableId": table.id if table else None,
        "operation": record.operation,
        **{key: _cut(value) for key, value in record.details.items()},
    }


def _outcome(record: RequestRecord) -> dict[str, Any]:
    outcome = {
        "files": record.files,
        "bytes": record.bytes,
        "status": record.status,
        "complete": record.complete,
        "seconds": round(record.seconds, 6),
    }
    return outcome if record.error is None else outcome | {"error": _cut(record.error)}


def _cut(value: Any) -> Any:
    """Truncate client input so that it cannot flood the log."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, list):
        shown = [_cut(item) for item in value[:_MOST_ITEMS]]
        return shown if len(value) <= _MOST_ITEMS else [*shown, f"… ({len(value)} in all)"]
    return value
