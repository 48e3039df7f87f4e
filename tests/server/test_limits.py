"""What clients cannot do to the server: ask too often, send too much, or make it wait."""

import contextlib
import socket
import time

import pytest

from lakeport.server.access.recipients import RateLimiter
from lakeport.server.config import Limits
from lakeport.server.http.refusals import Refusal
from tests.server.raw_requests import connected
from tests.server.running import Running, recipient, running, sharing

CONTENT = sharing({"a.b.c": "/nowhere"}, recipient("ann", "token-of-ann"), recipient("bob", "token-of-bob"))
QUERY = "shares/a/schemas/b/tables/c/query"


def test_requests_beyond_the_limit_are_told_when_to_come_back() -> None:
    with running(CONTENT, rate_limit=5) as server:
        assert [server.get("shares").status_code for _ in range(6)] == [200] * 5 + [429]
        refused = server.get("shares")
        assert refused.json()["errorCode"] == "RATE_LIMIT_EXCEEDED"
        assert 1 <= int(refused.headers["Retry-After"]) <= 12
        assert server.get("shares", token="token-of-bob").status_code == 200  # everyone has its own
        assert server.get("/health").status_code == 200


def test_a_limit_of_requests_refills_with_time() -> None:
    clock = [0.0]
    limiter = RateLimiter(60, now=lambda: clock[0])
    for _ in range(60):
        limiter.take("ann")
    with pytest.raises(Refusal) as refused:
        limiter.take("ann")
    assert refused.value.headers == ((b"retry-after", b"1"),)
    clock[0] = 1.0
    limiter.take("ann")
    clock[0] = 1000.0
    for _ in range(60):
        limiter.take("ann")
    with pytest.raises(Refusal):
        limiter.take("ann")


def test_no_limit_is_no_limit() -> None:
    limiter = RateLimiter(0)
    for _ in range(10_000):
        limiter.take("ann")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(chunked: bool) -> None:
    body = b'{"predicateHints":["' + b"x" * 5000 + b'"]}'
    with running(CONTENT, max_request_bytes=1000) as server:
        answer = server.request("POST", QUERY, data=iter([body]) if chunked else body)
        assert (answer.status_code, answer.json()["errorCode"]) == (413, "REQUEST_TOO_LARGE")


def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    with running(CONTENT, limits=Limits(body_seconds=0.5)) as server:
        peer = _opened(server)
        peer.sendall(
            f"POST /delta-sharing/{QUERY} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-ann\r\n"
            'Content-Length: 100\r\n\r\n{"a'.encode()
        )
        answer = _read_all(peer)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"REQUEST_TIMEOUT" in answer


def _opened(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def _read_all(peer: socket.socket) -> bytes:
    with peer:
        return b"".join(iter(lambda: peer.recv(65536), b""))


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nX: " + b"y" * 200_000,  # one header without an end
        b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 50_000,
        b"GET /" + b"z" * 200_000,
    ],
)
def test_a_head_that_is_too_large_is_refused(head: bytes) -> None:
    with running(CONTENT) as server:
        peer = _opened(server)
        try:
            peer.sendall(head)
            answer = _read_all(peer)
        except ConnectionError:  # refused while it was still being sent
            answer = b"HTTP/1.1 431"
        assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
        assert server.get("/health").status_code == 200


@pytest.mark.parametrize("head", [b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_arrive_is_not_waited_for(head: bytes) -> None:
    with running(CONTENT, limits=Limits(head_seconds=0.5)) as server:
        peer = _opened(server)
        started = time.monotonic()
        peer.sendall(head)
        with contextlib.suppress(ConnectionError):
            assert _read_all(peer) == b""
        assert 0.4 < time.monotonic() - started < 10


def test_a_second_request_on_a_connection_has_its_own_time() -> None:
    with running(CONTENT, limits=Limits(head_seconds=0.5)) as server:
        peer = connected(server, "GET /health")
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(0.8)  # idle between requests
        peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        peer.close()
