"""Accepts connections; decides on admission before spending anything on TLS or HTTP."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from lakeport.server.connections.admission import Admission, Refused, Slot
from lakeport.server.connections.protocol import CROWDED_SECONDS, plain_answer
from lakeport.server.records.logs import Throttled

_log = Throttled(__name__)
_debug = logging.getLogger(__name__).debug

_AT_ONCE = 64
"""Connections accepted in a row before yielding to the loop."""
_PAUSE_SECONDS = 1.0
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Serves one listening socket, in place of asyncio's server, which accepts every connection."""

    def __init__(
        self,
        listening: socket.socket,
        admission: Admission,
        protocol: Callable[..., asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._listening, self._admission, self._protocol, self._tls = listening, admission, protocol, tls
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._closed = False
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Stop accepting; the caller owns the socket."""
        self._closed = True
        self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        """Nothing to wait for."""

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                peer, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.warning("exhausted", "cannot accept connections: %s", error.strerror)
                self._loop.remove_reader(self._listening)  # it would fire again at once
                self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            self._admit(peer, address[0])

    def _admit(self, peer: socket.socket, address: str) -> None:
        slot = self._admission.admit(address)
        if isinstance(slot, Refused):
            topic = f"rejected a connection with {slot.status}"
            _log.warning(topic, "rejected a connection from %s with %d: %s", address, *slot)
            self._turn_away(peer, slot)
            return
        task = self._loop.create_task(self._connect(peer, slot))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _turn_away(self, peer: socket.socket, refused: Refused) -> None:
        with peer, suppress(OSError):
            peer.setblocking(False)
            if self._tls is None:
                peer.send(plain_answer(*refused))
                peer.shutdown(socket.SHUT_WR)

    async def _connect(self, peer: socket.socket, slot: Slot) -> None:
        peer.setblocking(False)
        seconds = min(self._admission.limits.head_seconds, CROWDED_SECONDS if slot.refused else math.inf)
        timing = {} if self._tls is None else {"ssl_handshake_timeout": seconds}
        try:
            await self._loop.connect_accepted_socket(lambda: self._protocol(slot=slot), peer, ssl=self._tls, **timing)
        except Exception as error:  # the client does not speak TLS, or has disconnected
            slot.release()
            _debug("a connection failed: %s", error)
        except BaseException:
            slot.release()
            raise
