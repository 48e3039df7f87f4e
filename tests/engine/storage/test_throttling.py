"""A store that throttles is given time; one that fails is not."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from lakeport.engine.storage.objects import ObjectFiles, open_object_files
from lakeport.engine.storage.throttling import Patience
from lakeport.errors import StorageError
from lakeport.testing.http import Asked, Steps, reply, scripted

SLOW_DOWN = reply(b"<?xml version='1.0'?>\n<Error><Code>SlowDown</Code></Error>", 503)
SERVER_BUSY = reply(b"<Error><Code>ServerBusy</Code></Error>", 503)
TOO_MANY = reply(b"", 429, {"retry-after": "1"})
FOUND = {"last-modified": "Mon, 16 Nov 2026 00:00:00 GMT", "etag": "x"}
BRIEF = Patience(total_seconds=0.05, first_seconds=0.01, longest_seconds=0.02)
OPTIONS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b", "allow_http": "true"}
LISTING = b"""<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>t/a</Key><Size>1</Size><ETag>x</ETag>
<LastModified>2026-11-16T00:00:00.000Z</LastModified></Contents></ListBucketResult>"""


def throttling(times: int, answer: Steps, then: Steps) -> Callable[[Asked], Steps]:
    return lambda asked: answer if asked.number < times else then


def files_at(url: str) -> ObjectFiles:
    return open_object_files("s3://b", OPTIONS | {"endpoint": url}, patience=BRIEF)


CALLS: dict[str, tuple[Callable[[ObjectFiles], object], Steps]] = {
    "read": (lambda files: files.read("s3://b/t/a"), reply(b"1", 200, FOUND)),
    "status": (lambda files: files.status("s3://b/t/a"), reply(b"", 200, {**FOUND, "content-length": "1"})),
    "list": (lambda files: list(files.list_all("s3://b/t")), reply(LISTING)),
    "list from": (lambda files: list(files.list_from("s3://b/t", "a")), reply(LISTING)),
    "write": (lambda files: files.write("s3://b/t/a", b"1"), reply(b"", 200, FOUND)),
    "upload": (lambda files: files.open_output("s3://b/t/a").close(), reply(b"", 200, FOUND)),
}


@pytest.mark.parametrize("answer", [SLOW_DOWN, SERVER_BUSY, TOO_MANY])
@pytest.mark.parametrize("call", CALLS)
def test_throttled_requests_are_repeated_for_long(call: str, answer: Steps) -> None:
    do, then = CALLS[call]
    with scripted(throttling(7, answer, then)) as server:  # obstore gives up after five
        do(files_at(server.url))
        assert len(server.asked) == 8


@pytest.mark.parametrize("call", ["read", "list", "write"])
def test_a_store_that_throttles_for_good_says_so(call: str) -> None:
    with scripted(lambda _: SLOW_DOWN) as server:
        with pytest.raises(StorageError, match="asks for fewer requests, even after waiting; try again later"):
            CALLS[call][0](files_at(server.url))
        assert len(server.asked) > 10


@pytest.mark.parametrize("call", ["read", "list", "write"])
@pytest.mark.parametrize("status", [500, 503])
def test_a_store_that_fails_is_given_up_soon(call: str, status: int) -> None:
    with scripted(lambda _: reply(b"<Error><Code>InternalError</Code></Error>", status)) as server:
        with pytest.raises(StorageError, match="the storage failed"):
            CALLS[call][0](files_at(server.url))
        assert len(server.asked) == 5


def listing(names: list[str], more: bool) -> bytes:
    [start, entry, end] = LISTING.replace(b"<Contents>", b"|<Contents>").replace(b"</ListB", b"|</ListB").split(b"|")
    entries = b"".join(entry.replace(b"t/a", f"t/{name}".encode()) for name in names)
    token = b"<NextContinuationToken>n</NextContinuationToken>"
    return (start.replace(b"false", b"true") + token if more else start) + entries + end


def test_a_listing_that_is_throttled_goes_on_where_it_was() -> None:
    names = [f"{number:03}" for number in range(80)]

    def answer(asked: Asked) -> Steps:
        if "continuation-token" in asked.target:
            return SLOW_DOWN
        _, started, last = asked.target.partition("start-after=t%2F")
        return reply(listing([name for name in names if name > last], False) if started else listing(names[:60], True))

    with scripted(answer) as server:
        found = files_at(server.url).list_all("s3://b/t")
        assert [file.path for file in found] == [f"s3://b/t/{name}" for name in names]


def test_a_file_below_12_mb_is_put_by_one_request() -> None:
    with scripted(lambda _: reply(b"", 200, FOUND)) as server:
        output = files_at(server.url).open_output("s3://b/t/a")
        for _ in range(11):
            output.write(bytes(1 << 20))
        output.close()
        assert [(asked.method, asked.target) for asked in server.asked] == [("PUT", "/b/t/a")]


def test_waits_double_up_to_the_longest() -> None:
    intervals = list(Patience().intervals())
    assert all(0.5 <= interval <= 20 for interval in intervals)
    assert 0.5 <= intervals[0] <= 1 <= intervals[1] <= 2 <= intervals[2] <= 4
    assert 90 <= sum(intervals) <= 200


def test_credentials_that_expire_are_asked_for_again() -> None:
    numbers = count()

    def provider() -> dict[str, object]:
        expires = datetime.now(UTC) + timedelta(seconds=0.2)
        return {"access_key_id": f"key{next(numbers)}", "secret_access_key": "b", "expires_at": expires}

    def answer(asked: Asked) -> Steps:
        return SLOW_DOWN if asked.number == 1 else reply(b"1", 200, FOUND)

    with scripted(answer) as server:
        given = {"region": "us-east-1", "allow_http": "true", "endpoint": server.url, "credential_provider": provider}
        files = open_object_files("s3://b", given, patience=BRIEF)
        assert files.read("s3://b/t/a") == b"1"
        time.sleep(0.3)
        assert files.read("s3://b/t/a") == b"1"
        files.write("s3://b/t/a", b"1")
        keys = [asked.headers["authorization"].partition("Credential=")[2].partition("/")[0] for asked in server.asked]
        read_first, *_, read_later, written = keys
        assert read_first == "key0"
        assert len({read_first, read_later, written}) == 3
