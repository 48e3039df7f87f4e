"""An HTTP server that sends exactly the bytes a test gives it, and fails where the test says.

with scripted(lambda asked: [reply(503), reply(b"here")][asked.number]) as server:
    HttpPool().request("GET", server.url)
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass(frozen=True)
class Close:
    """The connection ends here."""


@dataclass(frozen=True)
class Reset:
    """The connection breaks here."""


@dataclass(frozen=True)
class Stall:
    """Nothing is sent until the client is gone."""

    seconds: float = 20


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for a while."""

    seconds: float


Steps = list[bytes | Close | Reset | Stall | Pause]


@dataclass(frozen=True)
class Asked:
    """A request; numbers start at 0."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


Script = Callable[[Asked], Steps]


@dataclass
class Scripted:
    """A running server, and the requests that it has received."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0


def reply(
    body: bytes = b"",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    length: int | None = None,
) -> Steps:
    """A complete response; `length` states another content length than the body's."""
    lines = {"content-length": str(len(body) if length is None else length), **(headers or {})}
    return [head(status, lines), body]


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and headers of a response."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Spoken\r\n{lines}\r\n".encode("latin-1")


def chunked(*pieces: bytes, headers: Mapping[str, str] | None = None, whole: bool = True) -> Steps:
    """A chunked response; without the last chunk if it is not `whole`."""
    lines = {"transfer-encoding": "chunked", **(headers or {})}
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return [head(200, lines), body + (b"0\r\n\r\n" if whole else b"")]


@contextmanager
def scripted(script: Script, certificate: tuple[str, str] | None = None) -> Iterator[Scripted]:
    """Start a server that runs the script for each request; `certificate` names the files of certificate and key."""
    listener = socket.create_server(("127.0.0.1", 0))
    scheme = "https" if certificate else "http"
    server = Scripted(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    ending = threading.Event()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if ending.is_set():
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connections += 1
            sockets.append(connection)
            thread = threading.Thread(target=_serve, args=(connection, context, script, server, ending))
            threads.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        ending.set()
        with suppress(OSError), socket.create_connection(listener.getsockname(), 1):
            pass
        accepting.join(10)
        listener.close()
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def _serve(
    connection: socket.socket,
    context: ssl.SSLContext | None,
    script: Script,
    server: Scripted,
    ending: threading.Event,
) -> None:
    try:
        with connection, suppress(OSError):
            plain = connection
            connection = context.wrap_socket(plain, server_side=True) if context else plain
            with connection, connection.makefile("rb") as incoming:
                while (asked := _read(incoming, server)) is not None:
                    for step in script(asked):
                        if isinstance(step, bytes):
                            connection.sendall(step)
                        elif isinstance(step, Pause):
                            ending.wait(step.seconds)
                        elif isinstance(step, Stall):
                            ending.wait(step.seconds)
                            return
                        elif isinstance(step, Reset):
                            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                            return
                        else:
                            return
    except ssl.SSLError:
        return


def _read(incoming: BinaryIO, server: Scripted) -> Asked | None:
    first = incoming.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while line := incoming.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = incoming.read(int(headers.get("content-length", 0)))
    asked = Asked(len(server.asked), first[0], first[1], headers, body)
    server.asked.append(asked)
    return asked
