"""Floods from clients without a token: the server cuts them off early and keeps answering others."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from lakeport.server.config import Limits
from tests.server.running import Running, running, sharing

CONTENT = sharing({"a.b.c": "/nowhere"})
HEAD = b"POST /health HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MOST_SENT = 16 << 20
"""More than what the buffers of two sockets hold, and much more than the server may take."""


def opened(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def received(peer: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := peer.recv(65536):
            answer += part
    return answer


def flooded(server: Running, start: bytes, flood: bytes) -> int:
    """How many bytes can be sent before the server closes the connection."""
    with opened(server) as peer:
        peer.sendall(start)
        total = 0
        with contextlib.suppress(ConnectionError):
            while total < MOST_SENT:
                total += peer.send(flood)
        return total


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(CONTENT) as server:
        yield server


FLOODS = {
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n" * 10_000),
    "one trailer": (CHUNKED + b"0\r\nX: ", b"y" * 65536),
    "the name of a trailer": (CHUNKED + b"0\r\n", b"y" * 65536),
    "small chunks": (CHUNKED, b"1\r\nx\r\n" * 10_000),
    "a chunk extension": (CHUNKED + b"1;", b"y" * 65536),
    "a body that nobody reads": (HEAD + b"Content-Length: 1000000000\r\n\r\n", b"y" * 65536),
    "blank lines": (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n\r\n", b"\r\n" * 32768),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_cut_off(server: Running, name: str) -> None:
    assert flooded(server, *FLOODS[name]) < MOST_SENT


@pytest.mark.parametrize("end", [b"", b"\r\n"])
def test_a_request_with_too_many_headers_is_refused(server: Running, end: bytes) -> None:
    with opened(server) as peer:
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 101 + end)
        assert received(peer).startswith(b"HTTP/1.1 431")
    with opened(server) as peer:
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"X: y\r\n" * 98 + b"\r\n")
        assert received(peer).startswith(b"HTTP/1.1 200")


def test_requests_that_wait_for_earlier_answers_are_limited(server: Running) -> None:
    with opened(server) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
        peer.shutdown(socket.SHUT_WR)
        assert received(peer).count(b"HTTP/1.1 200") < 50


def test_a_body_whose_reader_is_held_up_still_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine: the connection's time is up before that of who reads the body."""
    monkeypatch.setattr("asyncio.timeout", lambda _: contextlib.nullcontext())
    with running(CONTENT, limits=Limits(body_seconds=0.1)) as server, opened(server) as peer:
        path = b"POST /delta-sharing/shares/a/schemas/b/tables/c/query HTTP/1.1\r\nHost: x\r\n"
        peer.sendall(path + b"Authorization: Bearer token-of-ann\r\nContent-Length: 9\r\n\r\n{")
        assert received(peer).startswith(b"HTTP/1.1 408")


def test_trailers_do_not_become_headers() -> None:
    with running(CONTENT) as server, opened(server) as peer:
        path = b"POST /delta-sharing/shares/a/schemas/b/tables/c/query HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        peer.sendall(path + b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer token-of-ann\r\n\r\n")
        assert received(peer).startswith(b"HTTP/1.1 401")


def test_a_refusal_is_not_written_into_an_answer(server: Running) -> None:
    """A bad request behind a good one breaks the connection: else its 400 could be taken for the first answer."""
    with opened(server) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nrubbish\r\n\r\n")
        assert b"400" not in received(peer)


def test_partial_requests_of_an_address_are_limited() -> None:
    with running(CONTENT, limits=Limits(partial_requests_per_address=20)) as server, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(opened(server)) for _ in range(30)]
        for peer in peers[:20]:
            peer.sendall(b"GET /health HT")
        for peer in peers[20:]:
            peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
            assert received(peer).startswith(b"HTTP/1.1 429")
        assert server.get("/health").status_code == 200  # it comes whole
        for peer in peers[:20]:
            peer.sendall(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert received(peer).startswith(b"HTTP/1.1 200")
        with opened(server) as peer:
            peer.sendall(b"GET /health HT")
            peer.sendall(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert received(peer).startswith(b"HTTP/1.1 200")


def test_blank_lines_do_not_keep_a_connection() -> None:
    with running(CONTENT, limits=Limits(head_seconds=0.3)) as server, opened(server) as peer:
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        peer.sendall(b"\r\n")
        peer.settimeout(10)
        assert received(peer) == b""
