"""Answers that are sent while they are made: never a short one that looks whole, and nobody waits for ever."""

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from lakeport.errors import StorageError
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.config import Limits
from lakeport.sharing.models import QueryRequest
from tests.server.raw_requests import connected
from tests.server.running import running, sharing, wait_until
from tests.server.scripted import ScriptedTables

TABLE = "shares/a/schemas/b/tables/c"
CONTENT = sharing({"a.b.c": "/nowhere"})
LINE = b'{"file":{"id":"%07d"}}\n'
END = {"delta-sharing-capabilities": "includeendstreamaction=true"}


def lines(count: int, then: Callable[[], None] = lambda: None, per_chunk: int = 10_000) -> Iterator[bytes]:
    for start in range(0, count, per_chunk):
        yield b"".join(LINE % number for number in range(start, min(count, start + per_chunk)))
    then()


def fail() -> None:
    raise StorageError("the storage went away", path="s3://secret-bucket/t")


def scripted(chunks: Callable[[], Iterator[bytes]]) -> ScriptedTables:
    return ScriptedTables(lambda table_request, request: chunks())


def test_a_long_answer_arrives_whole_in_chunks() -> None:
    with running(CONTENT, tables=scripted(lambda: lines(200_000))) as server:
        answer = server.post(f"{TABLE}/query")
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.content == b"".join(lines(200_000))


@pytest.mark.parametrize("count", [0, 10, 5000])
@pytest.mark.parametrize("headers", [{}, END])
def test_an_error_before_the_first_piece_is_sent_is_told_by_the_status(count: int, headers: dict[str, str]) -> None:
    with running(CONTENT, tables=scripted(lambda: lines(count, fail))) as server:
        answer = server.post(f"{TABLE}/query", headers=headers)
    assert (answer.status_code, answer.json()["errorCode"]) == (500, "INTERNAL_ERROR")


def test_an_error_on_the_way_is_told_in_the_last_line_if_the_client_looks_for_one() -> None:
    with running(CONTENT, tables=scripted(lambda: lines(100_000, fail))) as server:
        answer = server.post(f"{TABLE}/query", headers=END)
    *some, last = answer.text.splitlines()
    assert len(some) == 100_000
    told = json.loads(last)["endStreamAction"]
    assert told["httpStatusErrorCode"] == 500
    assert "secret-bucket" not in told["errorMessage"]


def test_an_error_on_the_way_breaks_the_connection_otherwise() -> None:
    with running(CONTENT, tables=scripted(lambda: lines(100_000, fail))) as server:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            server.post(f"{TABLE}/query")
        wait_until(lambda: "lakeport_answers_incomplete_total 1.0" in server.get("/metrics").text)


class Endless:
    """Lines without an end; it knows whether it was closed, and how much it gave."""

    def __init__(self) -> None:
        self.given = 0
        self.closed = threading.Event()

    def __call__(self, table_request: TableRequest, request: QueryRequest) -> Iterator[bytes]:
        try:
            while True:
                self.given += 1
                yield (LINE % 0) * 5_000
        finally:
            self.closed.set()


@pytest.mark.parametrize("behind", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_client_that_goes_away_ends_the_work_for_it(behind: bytes, caplog: pytest.LogCaptureFixture) -> None:
    endless = Endless()
    with running(CONTENT, tables=ScriptedTables(endless)) as server:
        with connected(server, f"POST /delta-sharing/{TABLE}/query") as peer:
            peer.sendall(behind)
            assert peer.recv(4096).startswith(b"HTTP/1.1 200")
        assert endless.closed.wait(10)
    assert "Exception" not in caplog.text


def test_a_client_that_does_not_read_holds_little_memory_and_is_cut_off() -> None:
    endless = Endless()
    with (
        running(CONTENT, tables=ScriptedTables(endless), limits=Limits(stall_seconds=1)) as server,
        connected(server, f"POST /delta-sharing/{TABLE}/query", receive_buffer=4096) as peer,
    ):
        started = time.monotonic()
        assert endless.closed.wait(10)
        assert time.monotonic() - started > 0.9
        assert endless.given * 5_000 * len(LINE % 0) < 20 << 20
        received = b"".join(iter(lambda: peer.recv(1 << 20), b""))
        assert not received.endswith(b"0\r\n\r\n")  # what ends an answer that is whole


def test_a_client_that_does_not_read_the_end_is_cut_off_too() -> None:
    with (
        running(CONTENT, tables=scripted(lambda: lines(40_000)), limits=Limits(stall_seconds=1)) as server,
        connected(server, f"POST /delta-sharing/{TABLE}/query", receive_buffer=4096) as peer,
    ):
        wait_until(lambda: 'operation="queryTable",status="200"} 1.0' in server.get("/metrics").text)
        time.sleep(3)
        with pytest.raises(ConnectionResetError):
            b"".join(iter(lambda: peer.recv(1 << 20), b""))


def test_the_event_loop_goes_on_while_an_answer_is_planned_and_written() -> None:
    release = threading.Event()

    def blocked() -> Iterator[bytes]:
        yield from lines(100_000)
        release.wait(20)

    with running(CONTENT, tables=scripted(blocked)) as server:
        peers = [connected(server, f"POST /delta-sharing/{TABLE}/query") for _ in range(8)]
        for _ in range(20):
            assert server.get("shares").elapsed.total_seconds() < 1
            assert server.get(f"{TABLE}/version").headers["Delta-Table-Version"] == "7"
        release.set()
        for peer in peers:
            peer.close()


def test_an_answer_that_does_not_begin_in_time_is_refused_for_now() -> None:
    tables = ScriptedTables(lambda table_request, request: lines(1), plan=lambda request: time.sleep(3))
    with running(CONTENT, tables=tables, request_timeout_seconds=1) as server:
        for answer in (server.post(f"{TABLE}/query"), server.get(f"{TABLE}/version")):
            assert (answer.status_code, answer.json()["errorCode"]) == (503, "TEMPORARILY_UNAVAILABLE")
            assert "1 s" in answer.json()["message"]
