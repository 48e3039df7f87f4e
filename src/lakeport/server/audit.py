"""The audit log: one line of JSON for every request on a table, so that a provider can tell who was given what."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from typing import Any

import msgspec

from lakeport.server.exchange import Exchange

_log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder()


class AuditLog:
    """Appends to a file, or writes to stdout for `-`. A thread writes: `write` never blocks.

    The file is opened for each batch of lines, so that it may be moved away at any time."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._failing = False
        self._writer = Thread(target=self._run, name="lakeport-audit", daemon=True)
        if path is not None:
            try:
                self._append(b"")
            except OSError as error:  # told at the start
                raise OSError(error.errno, f"the audit log cannot be written: {error.strerror}", path) from error
            self._writer.start()

    def write(self, exchange: Exchange) -> None:
        if self._path is not None and exchange.table is not None:
            self._lines.put(_ENCODER.encode(_line(exchange)) + b"\n")

    def close(self) -> None:
        """Writes what is left."""
        if self._writer.is_alive():
            self._lines.put(None)
            self._writer.join()

    def _run(self) -> None:
        more = True
        while more:
            batch = [self._lines.get()]
            while not self._lines.empty():
                batch.append(self._lines.get())
            more = None not in batch
            self._try(b"".join(line for line in batch if line is not None))

    def _try(self, lines: bytes) -> None:
        try:
            self._append(lines)
            self._failing = False
        except OSError as error:
            if not self._failing:
                _log.error("the audit log cannot be written: %s", error)
            self._failing = True

    def _append(self, lines: bytes) -> None:
        assert self._path is not None
        if self._path == "-":
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
            return
        with open(self._path, "ab") as file:
            file.write(lines)


def _line(exchange: Exchange) -> dict[str, Any]:
    table, recipient = exchange.table, exchange.recipient
    assert table is not None
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(exchange.received, UTC).isoformat(timespec="milliseconds"),
        "requestId": exchange.request_id,
        "recipient": recipient.name if recipient else None,
        "address": exchange.address,
        "table": f"{table.share}.{table.schema}.{table.name}",
        "tableId": table.id,
        "operation": exchange.operation,
        **exchange.details,
        "files": exchange.files,
        "bytes": exchange.bytes,
        "status": exchange.status,
        "complete": exchange.complete,
        "seconds": round(exchange.seconds, 6),
    }
    return line if exchange.error is None else line | {"error": exchange.error}
