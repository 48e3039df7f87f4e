"""Floods from clients without a token: the server cuts them off early and keeps answering others."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator

import pytest

from lakeport.server.config import Limits
from tests.server.running import Running, running, sharing
from tests.server.scripted import ScriptedTables

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


def pipelined(count: int, path: bytes = b"/delta-sharing/shares") -> bytes:
    """Requests, of which each has its number as its id, and the last ends the connection."""
    head = b"GET %b HTTP/1.1\r\nHost: x\r\nX-Request-Id: n-%d\r\n%b\r\n"
    return b"".join(head % (path, n, b"Connection: close\r\n" * (n == count - 1)) for n in range(count))


def answered(answers: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"x-request-id: n-(\d+)\r\n", answers)]


@pytest.mark.parametrize("limit", [1, 16, 0])
def test_all_requests_of_a_pipeline_are_answered_in_order(limit: int) -> None:
    with running(CONTENT, limits=Limits(pipelined_requests=limit)) as server, opened(server) as peer:
        peer.sendall(pipelined(500))
        assert answered(received(peer)) == list(range(500))


def test_bodies_in_a_pipeline_go_to_their_requests(server: Running) -> None:
    path = b"POST /delta-sharing/shares/a/schemas/b/tables/c/query HTTP/1.1\r\nHost: x\r\n"
    path += b"Authorization: Bearer token-of-ann\r\nX-Request-Id: n-%d\r\nContent-Length: %d\r\n%b\r\n"
    bodies = [b'{"limitHint": "x%d"%b}' % (n, b" " * 1500 * (n % 3)) for n in range(100)]
    with opened(server) as peer:
        for n, body in enumerate(bodies):
            peer.sendall(path % (n, len(body), b"Connection: close\r\n" * (n == 99)) + body)
        answers = received(peer)
    assert answered(answers) == list(range(100))
    assert answers.count(b"HTTP/1.1 400") == 100
    assert answers.count(b"limitHint") == 100


def test_requests_that_wait_for_earlier_answers_are_not_read() -> None:
    """Nor is a client blamed for what the server does not read: the head of one of the requests is late."""
    version = b"GET /delta-sharing/shares/a/schemas/b/tables/c/version HTTP/1.1\r\nHost: x\r\n"
    requests = memoryview(version + b"Authorization: Bearer token-of-ann\r\n\r\n" + pipelined(MOST_SENT // 60))
    held = threading.Event()
    tables = ScriptedTables(lambda *_: iter(()), lambda _: held.wait())
    with running(CONTENT, tables=tables, limits=Limits(head_seconds=1)) as server, opened(server) as peer:
        peer.settimeout(2)
        sent = 0
        with contextlib.suppress(TimeoutError):  # the buffers of the sockets are full
            while sent < len(requests):
                sent += peer.send(requests[sent : sent + 65536])
        assert sent < MOST_SENT
        held.set()
        peer.settimeout(20)
        answers = b""
        while len(found := answered(answers)) < 100:
            answers += peer.recv(65536)
        assert answers.startswith(b"HTTP/1.1 200")
        assert found[:100] == list(range(100))


UPGRADE = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


def test_upgrades_are_ignored_without_a_word(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    with opened(server) as peer:
        peer.sendall(b"GET /health HTTP/1.1\r\n" + UPGRADE + b"\r\n" + pipelined(3))
        answers = received(peer)
    assert answers.startswith(b"HTTP/1.1 200")
    assert answered(answers) == [0, 1, 2]
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


def test_a_body_behind_an_upgrade_is_not_lost_without_a_word(server: Running) -> None:
    with opened(server) as peer:
        path = b"POST /delta-sharing/shares/a/schemas/b/tables/c/query HTTP/1.1\r\n"
        peer.sendall(path + UPGRADE + b'Content-Length: 13\r\n\r\n{"version":1}')
        refused = received(peer)
    assert refused.startswith(b"HTTP/1.1 400")
    assert b"must not ask for an upgrade" in refused


def test_rubbish_is_logged_once_in_a_while(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        with opened(server) as peer:
            peer.sendall(b"rubbish\r\n\r\n")
            assert received(peer).startswith(b"HTTP/1.1 400")
    assert len(caplog.records) <= 1


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
