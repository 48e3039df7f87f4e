"""More connections, or more bad tokens, than a server can afford."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.server.access.recipients import FailedTokens
from lakeport.server.config import Limits, TlsSettings
from lakeport.server.http.refusals import Refusal
from tests.server.processes import make_certificate, served
from tests.server.running import TOKEN, Running, recipient, running, sharing, wait_until

CONTENT = sharing({"a.b.c": "/nowhere"})


def place(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def connected(url: str, address: str = "127.0.0.1") -> socket.socket:
    """From one of the addresses of the loopback interface."""
    return socket.create_connection(place(url), timeout=20, source_address=(address, 0))


def answer(peer: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := peer.recv(65536):
            received += part
    return received


def status(url: str, path: str, address: str, token: str | None = None) -> int:
    """The status of an answer; 0 if the connection is reset."""
    connection = http.client.HTTPConnection(*place(url), timeout=20, source_address=(address, 0))
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status
    except ConnectionError:
        return 0
    finally:
        connection.close()


@contextlib.contextmanager
def crowd(url: str, count: int, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connected(url, address)) for _ in range(count)]


def test_connections_of_an_address_are_limited() -> None:
    with running(CONTENT, limits=Limits(connections_per_address=10)) as server:
        with crowd(server.url, 10, "127.0.0.2"), connected(server.url, "127.0.0.2") as one_more:
            one_more.sendall(b"GET /delta-sharing/shares HTTP/1.1\r\nHost: x\r\n\r\n")
            refused = answer(one_more)
            assert refused.startswith(b"HTTP/1.1 429")
            assert b"retry-after: 1\r\n" in refused
            assert b"this address has 10 connections" in refused
            assert server.get("shares").status_code == 200  # from another address
        wait_until(lambda: status(server.url, "/delta-sharing/shares", "127.0.0.2", TOKEN) == 200)  # they are closed


def test_an_address_at_its_limit_may_still_probe() -> None:
    """As a load balancer does that all clients come through."""
    with (
        running(CONTENT, limits=Limits(connections_per_address=10)) as server,
        crowd(server.url, 10, "127.0.0.2"),
    ):
        for _ in range(20):
            assert status(server.url, "/health", "127.0.0.2") == 200
            assert status(server.url, "/ready", "127.0.0.2") == 200
            assert status(server.url, "/delta-sharing/shares", "127.0.0.2", TOKEN) == 429


def test_connections_for_probes_are_limited_by_address_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.server.connections.protocol.CROWDED_SECONDS", 60)
    with (
        running(CONTENT, limits=Limits(connections_per_address=10)) as server,
        crowd(server.url, 10, "127.0.0.2"),
        crowd(server.url, 10, "127.0.0.3"),
        crowd(server.url, 8, "127.0.0.2"),
        connected(server.url, "127.0.0.2") as one_more,
    ):
        assert answer(one_more).startswith(b"HTTP/1.1 429")  # at once, whatever it asks
        assert status(server.url, "/health", "127.0.0.3") == 200


def test_trusted_proxies_have_no_limit_of_connections() -> None:
    limits = Limits(connections_per_address=5, partial_requests_per_address=5)
    with (
        running(CONTENT, limits=limits, trusted_proxies=("127.0.0.2",)) as server,
        crowd(server.url, 20, "127.0.0.2") as peers,
    ):
        for peer in peers:
            peer.sendall(b"GET /health HT")
        for peer in peers:
            peer.sendall(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert answer(peer).startswith(b"HTTP/1.1 200")


def test_a_full_server_still_answers_probes(tmp_path: Path) -> None:
    """The process has 256 descriptors: 64 connections, and 32 for probes."""
    (tmp_path / "server.yaml").write_text("version: 1\nhost: 127.0.0.1\nport: 0\nauthorization: {bearerToken: a-token}")
    with served("server.yaml", folder=tmp_path, descriptors=256) as server:
        with contextlib.ExitStack() as stack:
            for address in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
                stack.enter_context(crowd(server.url, 100, address))
            # Connections that are kept for probes are soon free again.
            wait_until(lambda: status(server.url, "/health", "127.0.0.5") == 200)
            assert status(server.url, "/ready", "127.0.0.5") == 200
            assert status(server.url, "/delta-sharing/shares", "127.0.0.5", "a-token") == 503
        wait_until(lambda: status(server.url, "/delta-sharing/shares", "127.0.0.5", "a-token") == 200)
        text = "".join(server.told)
        assert "rejected a connection from 127.0.0.2 with 429" in text
        assert server.end() == 0


def test_a_connection_for_probes_ends_soon_whatever_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.server.connections.protocol.CROWDED_SECONDS", 0.3)
    with (
        running(CONTENT, limits=Limits(connections=8)) as server,
        crowd(server.url, 5, "127.0.0.2"),
        crowd(server.url, 5, "127.0.0.3"),
        connected(server.url, "127.0.0.4") as peer,
    ):
        answers, began = 0, time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 10:
                peer.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                if not peer.recv(65536):
                    break
                answers += 1
        assert answers > 0
        assert time.monotonic() - began < 5


def test_connections_count_before_their_tls_handshake(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    tls = TlsSettings(certificate_file=str(certificate), certificate_key_file=str(key))
    with running(CONTENT, ssl=tls, limits=Limits(connections_per_address=5, head_seconds=1)) as server:
        url = server.url.removeprefix("https://")
        with crowd(url, 5, "127.0.0.2") as silent:
            with connected(url, "127.0.0.2") as one_more:
                assert answer(one_more) == b""
            assert [answer(peer) for peer in silent] == [b""] * 5  # none begins a handshake in time
            wait_until(lambda: connects(url, "127.0.0.2"))


def connects(url: str, address: str) -> bool:
    """Whether a TLS handshake succeeds."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connected(url, address) as peer:
        try:
            context.wrap_socket(peer, suppress_ragged_eofs=True).close()
        except OSError:
            return False
        return True


@pytest.fixture
def guessed() -> Iterator[Running]:
    people = (recipient("ann", TOKEN), recipient("bob", "token-of-bob"))
    limits = Limits(failed_tokens_per_minute=5)
    with running(sharing({"a.b.c": "/nowhere"}, *people), limits=limits) as server:
        yield server


def test_an_address_that_guesses_tokens_is_made_to_wait(guessed: Running) -> None:
    assert guessed.get("shares").status_code == 200
    assert [guessed.get("shares", token=f"guess-{n}").status_code for n in range(6)] == [401] * 5 + [429]
    refused = guessed.get("shares", token="another")
    assert refused.json()["errorCode"] == "RATE_LIMIT_EXCEEDED"
    assert 1 <= int(refused.headers["Retry-After"]) <= 12
    assert guessed.get("shares", token="token-of-bob").status_code == 429  # a good guess looks like a bad one
    assert guessed.get("shares").status_code == 200  # it was good here before
    assert guessed.get("shares", token=None).status_code == 401
    assert status(guessed.url, "/delta-sharing/shares", "127.0.0.2", "token-of-bob") == 200


def test_failures_are_forgiven_with_time() -> None:
    clock = [0.0]
    failed = FailedTokens(2, now=lambda: clock[0])
    for _ in range(4):
        failed.note("a", "x", good=False)
    with pytest.raises(Refusal):
        failed.check("a", "y")
    failed.check("b", "y")
    clock[0] = 31.0
    failed.check("a", "y")


def test_a_token_that_is_not_good_any_more_loses_its_privilege() -> None:
    failed = FailedTokens(1)
    failed.note("a", "x", good=True)
    failed.note("a", "y", good=False)
    failed.check("a", "x")
    failed.note("a", "x", good=False)
    with pytest.raises(Refusal):
        failed.check("a", "x")


def test_addresses_are_forgotten() -> None:
    failed = FailedTokens(60)
    for number in range(30_000):
        failed.note(f"a{number}", "x", good=number % 2 == 0)
    assert len(failed._good) <= 10_000
    assert len(failed._failures._buckets) <= 10_000
