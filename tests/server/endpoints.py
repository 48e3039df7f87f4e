"""Small HTTP servers that play a cloud's token service: they keep what they were asked, and answer by a function."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any
from urllib.parse import parse_qs

from tests.interop.servers import free_port


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form; each has one value."""
        return {name: values[0] for name, values in parse_qs(self.body.decode(), strict_parsing=True).items()}


Answer = tuple[int, bytes]


@dataclass(frozen=True)
class Endpoint:
    url: str
    received: list[Received] = field(default_factory=list)


@contextmanager
def endpoint(answer: Callable[[Received], Answer], certificate: tuple[str, str] | None = None) -> Iterator[Endpoint]:
    """A server on a free port; with TLS if there are files of a certificate and its key."""
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), BaseHTTPRequestHandler)
    if certificate:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    place = Endpoint(f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = _handler(place, answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(place: Endpoint, answer: Callable[[Received], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received = Received(self.path, dict(self.headers), body)
            place.received.append(received)
            status, content = answer(received)
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if content[:1] in b"{[" else "text/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 (the names that the library looks for)

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


def as_json(content: dict[str, Any], status: int = 200) -> Answer:
    return status, json.dumps(content).encode()
