"""A proxy in front of a sharing server, and of the files that it serves, that does harm as a test says."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Fault(Enum):
    NONE = "none"
    FORBIDDEN = "forbidden"
    ERROR = "error"
    BUSY = "busy"
    RESET = "reset"
    RESET_WITHIN = "reset within the body"
    STALL = "stall"
    STALL_WITHIN = "stall within the body"
    TRUNCATED = "truncated"
    FEWER = "fewer bytes than asked for, and said so"
    WHOLE = "the whole file"
    OTHER_BYTES = "other bytes, and said so"
    NO_RANGE = "no word about which bytes"


_LASTING = (Fault.NONE, Fault.FORBIDDEN, Fault.OTHER_BYTES, Fault.NO_RANGE)
PASSING = tuple(fault for fault in Fault if fault not in _LASTING)
"""Those after which the same request may succeed, with no new URL."""
OF_ANSWERS = (Fault.ERROR, Fault.BUSY, Fault.RESET, Fault.RESET_WITHIN, Fault.STALL, Fault.TRUNCATED)
"""Those of the sharing server, rather than of the storage."""

Choose = Callable[[str, str | None], Fault]
"""By the path of a request, and the range of bytes that it asks for, if it is for a file."""


@dataclass
class Proxy:
    url: str
    choose: Choose
    asked: Counter[str] = field(default_factory=Counter)
    """How often what came: `query`, `metadata`, `changes`, `file` …"""
    done: Counter[Fault] = field(default_factory=Counter)
    sent: int = 0
    """Bytes of answers about files."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    ending: threading.Event = field(default_factory=threading.Event)


def at_random(
    seed: int, rate: float, of_files: tuple[Fault, ...], of_answers: tuple[Fault, ...] = OF_ANSWERS
) -> Choose:
    chance = random.Random(seed)

    def choose(path: str, byte_range: str | None) -> Fault:
        return chance.choice(of_files if byte_range else of_answers) if chance.random() < rate else Fault.NONE

    return choose


@contextmanager
def faulty_proxy(server: str, choose: Choose) -> Iterator[Proxy]:
    """A proxy to the server at a URL. The signed URLs lead through it too: they are made from the request's host."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    listener.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{listener.server_address[1]}", choose)
    listener.proxy = proxy  # type: ignore[attr-defined]  # what its handlers need
    listener.upstream = urlsplit(server).netloc  # type: ignore[attr-defined]
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ending.set()
        listener.shutdown()
        thread.join()
        listener.server_close()


class _BrokenError(Exception):
    """The connection to the client ends here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self._pass_on()

    do_POST = do_HEAD = do_PUT = do_DELETE = do_GET  # noqa: N815  # the names that http.server looks for

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        byte_range = self.headers.get("range")
        proxy = self.server.proxy
        with proxy.lock:
            fault = proxy.choose(self.path, byte_range)
            proxy.asked["file" if byte_range else urlsplit(self.path).path.rpartition("/")[2]] += 1
            proxy.done[fault] += 1
        try:
            self._do(fault, body)
        except (_BrokenError, OSError):
            self.close_connection = True

    def _do(self, fault: Fault, body: bytes) -> None:
        match fault:
            case Fault.FORBIDDEN:
                self._send(403, {}, b"<Error>expired</Error>")
            case Fault.ERROR:
                self._send(500, {}, b"oh")
            case Fault.BUSY:
                self._send(503, {"retry-after": "0"}, b"later")
            case Fault.RESET:
                self._reset()
            case Fault.STALL:
                self._stall()
            case _:
                self._answer(fault, body)

    def _answer(self, fault: Fault, body: bytes) -> None:
        status, headers, content = self._ask(body, with_range=fault is not Fault.WHOLE)
        cut = len(content) // 2
        if fault in (Fault.TRUNCATED, Fault.RESET_WITHIN, Fault.STALL_WITHIN) and content:
            self._send(status, headers, content[:cut], length=len(content))
            if fault is Fault.RESET_WITHIN:
                self._reset()
            if fault is Fault.STALL_WITHIN:
                self._stall()
            raise _BrokenError
        if status == 206 and cut and "content-range" in headers:
            headers, content = _misled(fault, headers, content)
        self._send(status, headers, content)

    def _ask(self, body: bytes, *, with_range: bool) -> tuple[int, dict[str, str], bytes]:
        sent = {k: v for k, v in self.headers.items() if k.lower() != "accept-encoding"}
        if not with_range:
            sent = {k: v for k, v in sent.items() if k.lower() != "range"}
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            kept = {k.lower(): v for k, v in answer.getheaders() if k.lower() not in _OF_THE_CONNECTION}
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], content: bytes, length: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "content-length": str(len(content) if length is None else length)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        with self.server.proxy.lock:
            self.server.proxy.sent += len(content) if "range" in self.headers else 0

    def _stall(self) -> None:
        """Until the client has lost its patience."""
        self.connection.settimeout(0.2)
        while not self.server.proxy.ending.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1):
                    break
        raise _BrokenError

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        raise _BrokenError


_OF_THE_CONNECTION = frozenset({"transfer-encoding", "connection", "content-length", "keep-alive"})


def _misled(fault: Fault, headers: dict[str, str], content: bytes) -> tuple[dict[str, str], bytes]:
    first, last, total = _parsed(headers["content-range"])
    cut = len(content) // 2
    match fault:
        case Fault.FEWER:
            return {**headers, "content-range": f"bytes {first}-{first + cut - 1}/{total}"}, content[:cut]
        case Fault.OTHER_BYTES:
            return {**headers, "content-range": f"bytes {first + cut}-{last}/{total}"}, content[cut:]
        case Fault.NO_RANGE:
            return {name: value for name, value in headers.items() if name != "content-range"}, content[cut:]
        case _:
            return headers, content


def _parsed(content_range: str) -> tuple[int, int, str]:
    span, _, total = content_range.removeprefix("bytes ").partition("/")
    first, _, last = span.partition("-")
    return int(first), int(last), total
