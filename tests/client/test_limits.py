"""A server that sends more than any client should hold: it is refused, and takes neither memory nor time for ever."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from lakeport.client.rest import answers
from lakeport.client.rest import server as rest
from lakeport.client.rest.answers import PageCount
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.local_log import changes_log
from lakeport.errors import SharingError
from lakeport.sharing.models import QueryRequest
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import BearerToken, Profile
from lakeport.source import LATEST, At
from lakeport.testing.http import Asked, Script, Steps, reply, scripted
from tests.client.provider import schema
from tests.client.timing import pool

ORDERS = TableName("sales", "eu", "orders")
VERSION = {"delta-table-version": "7"}
HEAD: list[object] = [
    {"protocol": {"minReaderVersion": 1}},
    {
        "metaData": {
            "id": "t",
            "format": {"provider": "parquet"},
            "schemaString": schema(id="long"),
            "partitionColumns": [],
        }
    },
]
MEGABYTES = 1 << 20


@contextmanager
def client_of(script: Script) -> Iterator[SharingServer]:
    with scripted(script) as server, pool() as http:
        yield SharingServer(Profile(endpoint=server.url, credentials=BearerToken(token="t")), http)


def lines(*found: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in found)


@contextmanager
def taking_at_most(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MEGABYTES
    finally:
        tracemalloc.stop()


def change(version: int) -> object:
    return {
        "add": {
            "url": "http://x/",
            "id": f"f{version}",
            "partitionValues": {},
            "size": 7,
            "version": version,
            "timestamp": 1,
        }
    }


def test_changes_of_far_versions_take_no_memory() -> None:
    body = lines(*HEAD, change(7), change(200_000_000))
    with client_of(lambda _: reply(body, headers=VERSION)) as client, taking_at_most(20):
        with pytest.raises(SharingError, match=r"versions 7 to 200000000, but at most 250,000 versions") as failed:
            SharedTable(client, ORDERS).changes(At(7), LATEST)
        assert failed.value.code == "TOO_MANY_VERSIONS"
        with pytest.raises(SharingError, match="at most 250,000 versions"):
            SharedTable(client, ORDERS).commits(7, 10**18)
    assert len(changes_log(7, 9, [], [])) == 4


@pytest.mark.parametrize("status", [200, 403, 503])
def test_a_small_body_does_not_unpack_into_a_large_one(status: int) -> None:
    packed = gzip.compress(bytes(300 * MEGABYTES), 9)
    bomb = reply(packed, status, {"content-encoding": "gzip"})
    for ask in (SharingServer.shares, lambda client: client.metadata(ORDERS)):
        with client_of(lambda _: bomb) as client, taking_at_most(60), pytest.raises(SharingError):
            ask(client)


def test_pages_that_compress_well_are_read() -> None:
    names = [f"day=2026-01-01/hour=12/part-00000-of-the-table-{number:09}" for number in range(150_000)]
    body = lines(*HEAD, *({"file": {"url": f"https://storage.example/{name}", "id": name}} for name in names))
    packed = gzip.compress(body)
    assert len(body) > 20 * MEGABYTES > 10 * len(packed)
    with client_of(lambda _: reply(packed, headers={**VERSION, "content-encoding": "gzip"})) as client:
        assert sum(1 for _ in client.query(ORDERS, QueryRequest()).lines()) == 150_000


def test_a_list_that_does_not_fit_is_not_read_to_its_end() -> None:
    with client_of(lambda _: reply(b" " * (17 * MEGABYTES))) as client:
        with pytest.raises(SharingError, match="about the shares has more than 16,777,216 bytes") as failed:
            client.shares()
        assert failed.value.code == "ANSWER_TOO_LARGE"


def endless_list(*names: str) -> Callable[[Asked], Steps]:
    def script(asked: Asked) -> Steps:
        page = {"items": [{"name": f"{name}{asked.number}"} for name in names], "nextPageToken": f"t{asked.number}"}
        return reply(json.dumps(page).encode())

    return script


def test_a_list_of_endless_names_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LIST_ITEMS", 50)
    with client_of(endless_list("a", "b")) as client, pytest.raises(SharingError, match="lists more than 50 names"):
        client.shares()


def test_a_list_of_endless_pages_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "EMPTY_PAGES", 100)
    with client_of(endless_list()) as client, pytest.raises(SharingError, match="100 empty pages in a row"):
        client.shares()


def test_many_pages_with_nothing_on_them_are_followed() -> None:
    """As of a server that goes through all that it has, in search of what is granted."""

    def script(asked: Asked) -> Steps:
        last = asked.number == 300
        page = {"items": [{"name": "sales"}]} if last else {"nextPageToken": f"t{asked.number}"}
        return reply(json.dumps(page).encode())

    with client_of(script) as client:
        assert [share.name for share in client.shares()] == ["sales"]


def test_long_tokens_of_many_pages_are_not_held() -> None:
    pages = PageCount("server", "the shares")
    with taking_at_most(10):
        for number in range(60):
            pages.add(1, f"{number}".zfill(MEGABYTES))
    with pytest.raises(SharingError, match="form a loop"):
        pages.add(1, "7".zfill(MEGABYTES))


def test_long_ends_of_many_pages_are_not_held() -> None:
    def script(asked: Asked) -> Steps:
        token = {} if asked.number == 60 else {"nextPageToken": f"{asked.number}"}
        end = {"endStreamAction": {"refreshToken": f"{asked.number}".zfill(MEGABYTES), **token}}
        return reply(lines(*HEAD, end), headers=VERSION)

    with client_of(script) as client, taking_at_most(40):
        answer = client.query(ORDERS, QueryRequest())
        assert list(answer.lines()) == []
        assert answer.end is not None
        assert answer.end.refresh_token == "0".zfill(MEGABYTES)


@pytest.mark.parametrize("on_each", [0, 1])
def test_endless_pages_of_a_table_end(monkeypatch: pytest.MonkeyPatch, on_each: int) -> None:
    monkeypatch.setattr(answers, "PAGES", 120)
    monkeypatch.setattr(answers, "EMPTY_PAGES", 100)
    numbers = count()

    def script(asked: Asked) -> Steps:
        files = [{"file": {"id": f"{number}"}} for number in range(on_each)]
        return reply(lines(*HEAD, *files, {"endStreamAction": {"nextPageToken": f"{next(numbers)}"}}), headers=VERSION)

    expected = "has more than 120 pages" if on_each else "has 100 empty pages in a row"
    with client_of(script) as client, pytest.raises(SharingError, match=expected):
        list(client.query(ORDERS, QueryRequest()).lines())


@pytest.mark.parametrize("last", [True, False])
def test_a_line_that_does_not_end_is_not_held(monkeypatch: pytest.MonkeyPatch, last: bool) -> None:
    monkeypatch.setattr(answers, "LINE_BYTES", MEGABYTES)
    body = lines(*HEAD) + b'{"file":"' + b"x" * (2 * MEGABYTES) + b'"}' + (b"" if last else b"\n" + lines(change(7)))
    with (
        client_of(lambda _: reply(body, headers=VERSION)) as client,
        pytest.raises(SharingError, match="has a line of more than"),
    ):
        list(client.query(ORDERS, QueryRequest()).lines())


def test_metadata_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "METADATA_BYTES", MEGABYTES)
    body = lines(*HEAD) + b"\n" * (2 * MEGABYTES)
    with (
        client_of(lambda _: reply(body, headers=VERSION)) as client,
        pytest.raises(SharingError, match="has more than 1,048,576 bytes"),
    ):
        client.metadata(ORDERS)


@pytest.mark.parametrize("size", [10**15, -1])
def test_a_file_of_an_impossible_size_is_refused(size: int) -> None:
    told = {"file": {"url": "http://x/", "id": "f", "partitionValues": {}, "size": size}}
    with (
        client_of(lambda _: reply(lines(*HEAD, told), headers=VERSION)) as client,
        pytest.raises(SharingError, match=f"a file with the invalid size of {size} bytes"),
    ):
        SharedTable(client, ORDERS).snapshot(LATEST)


def test_a_version_that_no_table_can_have_is_refused() -> None:
    with (
        client_of(lambda _: reply(headers={"delta-table-version": str(2**63)})) as client,
        pytest.raises(SharingError, match="Delta-Table-Version is missing or invalid"),
    ):
        client.version(ORDERS)
