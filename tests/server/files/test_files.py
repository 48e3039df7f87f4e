"""Files on a disk over HTTP, on a real server."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from litestar import Litestar, asgi

from lakeport.server.catalog.model import BearerToken
from lakeport.server.files import FilesApp
from lakeport.server.signing.disk import FileUrls
from tests.server.files.serving import ANN, ENDPOINT, KEY, ServedTable, request, running, serving_files

DATA = bytes(range(256)) * 40
LARGE = 64 << 20
"""More than the buffers between server and client hold."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTable]:
    (tmp_path / "table").mkdir()
    with serving_files(tmp_path / "table") as table:
        yield table
        until(lambda: not table.open_files())


def until(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it did not come about in 10 s"
        time.sleep(0.01)


def refusal(url: str, **headers: str) -> tuple[int, str]:
    """The status and the code; the body must be the protocol's."""
    reply = request(url, **headers)
    body = json.loads(reply.body)
    assert body.keys() == {"errorCode", "message"}
    assert "/table" not in body["message"]
    return reply.status, body["errorCode"]


def test_a_file_is_answered_whole(served: ServedTable) -> None:
    reply = request(served.write("a.parquet", DATA))
    assert (reply.status, reply.body) == (200, DATA)
    assert reply.headers["content-length"] == str(len(DATA))
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["accept-ranges"] == "bytes"


def test_head_tells_what_get_would_without_the_bytes(served: ServedTable) -> None:
    url = served.write("a.parquet", DATA)
    head, whole = request(url, "HEAD"), request(url)
    assert (head.status, head.body) == (200, b"")
    assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}


def test_an_empty_file_is_answered(served: ServedTable) -> None:
    reply = request(served.write("empty", b""))
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")


def test_a_file_of_many_chunks_is_answered_exactly(served: ServedTable) -> None:
    data = os.urandom((3 << 20) + 17)
    url = served.write("large", data)
    assert request(url).body == data
    assert request(url, range="bytes=1048575-3145729").body == data[1048575:3145730]


SIZE = len(DATA)


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=5-9", 5, 9),
        ("bytes=100-", 100, SIZE - 1),
        ("bytes=-7", SIZE - 7, SIZE - 1),
        (f"bytes=-{SIZE + 5}", 0, SIZE - 1),
        (f"bytes=3-{SIZE + 5}", 3, SIZE - 1),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE - 1),
        ("BYTES = 5 - 9", 5, 9),
    ],
)
def test_a_range_is_answered_by_206(served: ServedTable, header: str, first: int, last: int) -> None:
    reply = request(served.write("a", DATA), range=header)
    assert (reply.status, reply.body) == (206, DATA[first : last + 1])
    assert reply.headers["content-range"] == f"bytes {first}-{last}/{SIZE}"
    assert reply.headers["content-length"] == str(last - first + 1)


@pytest.mark.parametrize(
    "header",
    [
        "bytes=9-5",
        "bytes=0-1,4-5",
        "lines=0-1",
        "bytes=-",
        "bytes=a-b",
        "bytes=٣-٤".encode().decode("latin-1"),
        "",
        f"bytes=0-{10**30}",
    ],
)
def test_a_range_that_is_not_one_is_ignored(served: ServedTable, header: str) -> None:
    reply = request(served.write("a", DATA), range=header)
    assert (reply.status, reply.body) == (200, DATA)


def test_a_range_of_blanks_does_not_keep_the_server_busy(served: ServedTable) -> None:
    url = served.write("a", DATA)
    began = time.process_time()
    assert request(url, range=f"bytes={' ' * 60_000}x").status == 200
    assert time.process_time() - began < 2  # in a time by the square of its length, 5 s and more


@pytest.mark.parametrize("header", [f"bytes={SIZE}-", f"bytes={SIZE + 9}-{SIZE + 10}", "bytes=-0"])
def test_a_range_behind_the_end_is_answered_by_416(served: ServedTable, header: str) -> None:
    url = served.write("a", DATA)
    assert refusal(url, range=header)[0] == 416
    assert request(url, range=header).headers["content-range"] == f"bytes */{SIZE}"


def test_a_range_is_nothing_to_head(served: ServedTable) -> None:
    reply = request(served.write("a", DATA), "HEAD", range="bytes=5-9")
    assert (reply.status, reply.headers["content-length"]) == (200, str(SIZE))


def test_a_client_that_has_the_file_does_not_get_it_again(served: ServedTable) -> None:
    url = served.write("a", DATA)
    tag = request(url, "HEAD").headers["etag"]
    for known in (tag, f'"x", W/{tag}', "*"):
        reply = request(url, if_none_match=known)
        assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert request(url, if_none_match='"x"').status == 200


def test_the_tag_is_another_when_the_content_is(served: ServedTable) -> None:
    url = served.write("a", DATA)
    before = request(url, "HEAD").headers["etag"]
    served.write("a", DATA[::-1])
    assert request(url, "HEAD").headers["etag"] != before


def test_a_range_of_a_file_that_has_changed_is_answered_whole(served: ServedTable) -> None:
    url = served.write("a", DATA)
    head = request(url, "HEAD").headers
    for same in (head["etag"], head["last-modified"]):
        assert request(url, range="bytes=0-3", if_range=same).status == 206
    for other in ('"x"', f"W/{head['etag']}", "Thu, 01 Jan 1970 00:00:00 GMT"):
        assert request(url, range="bytes=0-3", if_range=other).body == DATA


def test_a_client_that_insists_on_a_content_gets_no_other(served: ServedTable) -> None:
    url = served.write("a", DATA)
    tag = request(url, "HEAD").headers["etag"]
    assert request(url, if_match=tag).body == request(url, if_match="*").body == DATA
    assert refusal(url, if_match='"x"') == refusal(url, if_match=f"W/{tag}") == (412, "PRECONDITION_FAILED")


@pytest.mark.parametrize(
    "name", ["day=1/a b.parquet", "100%.parquet", "%41.parquet", "a+b&c?d#e;f", "größe/日本.parquet"]
)
def test_any_name_is_served(served: ServedTable, name: str) -> None:
    assert request(served.write(name, DATA)).body == DATA


def test_a_url_is_good_however_its_percent_sequences_are_spelled(served: ServedTable) -> None:
    url = served.write("day=1/ü~.parquet", DATA)
    other = url.replace("/day=1/", "/%64ay%3d1/").replace("%C3%BC", "%c3%bc").replace("~", "%7E")
    assert other != url
    assert request(other).body == DATA


def test_a_url_that_was_changed_is_refused(served: ServedTable) -> None:
    url = served.write("a.parquet", DATA)
    served.write("b.parquet", DATA)
    expiry = urlsplit(url).query.partition("&")[0]
    changes = [("/4b1c/", "/4b1d/"), ("a.parquet", "b.parquet"), ("a.parquet", "a.parquet/"), (expiry, f"{expiry}0")]
    changes += [("a.parquet", "../table/a.parquet"), ("/4b1c/", "/4b1c/0"), ("Signature=", "Signature=0"), ("?", "?x")]
    changes += [
        (expiry, ""),
        (urlsplit(url).query, ""),
        ("X-Amz", "x-amz"),
        ("/files/4b1c/", "/files/"),
        ("a.parquet", ""),
    ]
    for old, new in changes:
        assert refusal(url.replace(old, new)) == (403, "PERMISSION_DENIED"), new


def test_another_servers_url_is_refused(served: ServedTable) -> None:
    served.write("a", DATA)
    foreign = FileUrls(b"another key", ENDPOINT)
    (url,) = foreign.format(served.url, "4b1c", str(served.root), ["a"], int(served.now) + 60, ANN.id)
    assert refusal(url) == (403, "PERMISSION_DENIED")


def test_whether_a_table_exists_is_not_told_to_who_has_no_signature(served: ServedTable) -> None:
    url = served.write("a", DATA).replace("Signature=", "Signature=0")
    assert refusal(url) == refusal(url.replace("/4b1c/", "/none/"))


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"tokens": ()}, (403, "PERMISSION_DENIED")),
        ({"tokens": (BearerToken(digest="x", expires=1),)}, (403, "PERMISSION_DENIED")),
        ({"ip_allow_list": ("10.0.0.0/8",)}, (403, "PERMISSION_DENIED")),
        ({"grants": ("sales.us",)}, (404, "RESOURCE_DOES_NOT_EXIST")),
        (None, (403, "PERMISSION_DENIED")),
    ],
    ids=["revoked", "expired", "elsewhere", "not granted", "removed"],
)
def test_a_url_ends_with_the_access_of_its_recipient(
    served: ServedTable, change: dict[str, Any] | None, refused: tuple[int, str]
) -> None:
    url = served.write("a", DATA)
    assert request(url).status == 200
    served.recipient = None if change is None else replace(ANN, **change)
    assert refusal(url) == refused
    served.recipient = replace(ANN, tokens=(BearerToken(digest="another"),), ip_allow_list=("127.0.0.1",))
    assert request(url).status == 200
    assert refusal(url.replace("recipient=id%20of%20ann", "recipient=bob")) == (403, "PERMISSION_DENIED")


def test_an_expired_url_is_refused(served: ServedTable) -> None:
    url = served.write("a", DATA)
    served.now += 3599
    assert request(url).status == 200
    served.now += 2
    assert refusal(url) == (403, "PERMISSION_DENIED")
    assert b"expired" in request(url).body


def test_a_table_that_left_the_catalog_takes_its_files_along(served: ServedTable) -> None:
    url = served.write("a", DATA)
    served.table = None
    assert refusal(url) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_a_url_is_not_good_for_the_same_name_in_another_place(served: ServedTable) -> None:
    url = served.write("a", DATA)
    assert served.table is not None
    (served.root / "moved").mkdir()
    (served.root / "moved" / "a").write_bytes(b"other")
    served.table = replace(served.table, location=f"{served.root}/moved")
    assert refusal(url) == (404, "RESOURCE_DOES_NOT_EXIST")
    served.table = replace(served.table, auxiliary_locations=(str(served.root),))
    assert request(url).body == DATA


def test_a_file_that_is_gone_is_told_and_logged(served: ServedTable, caplog: pytest.LogCaptureFixture) -> None:
    url = served.write("a", DATA)
    (served.root / "a").unlink()
    assert refusal(url) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert request(url, "HEAD").body == b""
    assert f"{served.root}/a" in caplog.text


def test_links_that_lead_out_are_refused_and_logged(served: ServedTable, caplog: pytest.LogCaptureFixture) -> None:
    outside = served.root.parent / "table2"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (served.root / "file").symlink_to(outside / "secret")
    (served.root / "directory").symlink_to("../table2")
    (served.root / "loop").symlink_to("loop")
    for name in ("file", "directory/secret", "loop"):
        assert refusal(served.sign(name)) == (404, "RESOURCE_DOES_NOT_EXIST")
        assert f"{served.root}/{name}" in caplog.text


def test_links_that_stay_inside_are_followed(served: ServedTable) -> None:
    served.write("data/a", DATA)
    (served.root / "link").symlink_to("data")
    assert request(served.sign("link/a")).body == DATA


def test_a_table_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with serving_files(tmp_path / "link") as served:
        assert request(served.write("a", DATA)).body == DATA


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/passwd", ".", "", "a//b", "a\0b", "x" * 300])
def test_not_even_the_key_opens_what_is_no_path_below_the_root(served: ServedTable, name: str) -> None:
    (served.root.parent / "secret").write_bytes(b"secret")
    (url,) = FileUrls(KEY, ENDPOINT).format(served.url, "4b1c", str(served.root), [name], int(served.now) + 60, ANN.id)
    assert request(url).status in (403, 404)


def test_only_regular_files_are_served(served: ServedTable) -> None:
    (served.root / "directory").mkdir()
    os.mkfifo(served.root / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(served.root / "socket"))
        for name in ("directory", "fifo", "socket"):
            assert refusal(served.sign(name)) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_files_cannot_be_written(served: ServedTable) -> None:
    url = served.write("a", DATA)
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        reply = request(url, method)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
    assert (served.root / "a").read_bytes() == DATA


def begun(url: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A download of which only the head was read."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection, connection.getresponse()


def large(served: ServedTable) -> tuple[Path, str]:
    url = served.write("large", b"")
    os.truncate(served.root / "large", LARGE)
    return served.root / "large", url


@pytest.mark.parametrize("size", [LARGE // 2, LARGE + 1])
def test_a_file_that_changes_meanwhile_breaks_the_connection(
    served: ServedTable, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    path, url = large(served)
    connection, reply = begun(url)
    os.truncate(path, size)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        reply.read()
    connection.close()
    assert "changed while it was read" in caplog.text


def test_a_client_that_takes_nothing_is_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "table").mkdir()
    with serving_files(tmp_path / "table", stall_seconds=0.3) as served:
        _, url = large(served)
        connection, reply = begun(url)
        until(lambda: "disconnected a client that read nothing" in caplog.text)
        until(lambda: not served.open_files())
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            reply.read()
        connection.close()


def test_a_client_that_goes_away_leaves_nothing_open(served: ServedTable) -> None:
    _, url = large(served)
    connection, reply = begun(url)
    assert served.open_files()
    reply.close()
    connection.close()
    until(lambda: not served.open_files())


def test_many_downloads_at_once_are_all_right(served: ServedTable) -> None:
    contents = [os.urandom(2 << 20) for _ in range(4)]
    urls = [served.write(f"{number}", data) for number, data in enumerate(contents)]
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(request, urls * 8))
    assert [reply.body for reply in replies] == contents * 8


def test_a_server_that_can_send_files_by_itself_is_given_the_path(served: ServedTable) -> None:
    url = urlsplit(served.write("a", DATA))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "headers": [],
        "extensions": {"http.response.pathsend": {}},
    }
    scope |= {"raw_path": url.path.encode(), "query_string": url.query.encode()}
    files = FilesApp(served.catalog, KEY, endpoint=ENDPOINT)
    asyncio.run(files(scope, receive, send))
    files.close()
    assert sent[0]["status"] == 200
    assert (b"content-length", str(SIZE).encode()) in sent[0]["headers"]
    assert sent[1:] == [{"type": "http.response.pathsend", "path": os.path.realpath(served.root / "a")}]


def test_it_can_be_mounted_in_an_application(served: ServedTable, caplog: pytest.LogCaptureFixture) -> None:
    files = FilesApp(served.catalog, KEY, endpoint=ENDPOINT)
    mounted = asgi(f"{ENDPOINT}/files", is_mount=True, copy_scope=True)(files.__call__)
    url = served.write("day=1/a b%41.parquet", DATA)
    with running(Litestar([mounted], logging_config=None)) as server:
        assert request(url.replace(served.url, server)).body == DATA
        assert refusal(url.replace(served.url, server) + "0") == (403, "PERMISSION_DENIED")
    files.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
