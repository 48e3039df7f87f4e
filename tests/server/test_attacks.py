"""What somebody with bad intentions tries on a server: refused, logged, and without harm to others."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import re
import socket
import statistics
import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.server.catalog.index import token_digest
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient
from lakeport.server.config import Limits
from lakeport.server.records.logs import JsonLines, TextLines
from lakeport.server.signing.disk import FileUrls
from lakeport.server.signing.signers import Signers
from tests.server.asking import built, pretended
from tests.server.running import KEY, TOKEN, Running, recipient, running, sharing, wait_until

BOB = "token-of-bob"
EXPIRED = "expired-token-of-cid"
ORDERS = "shares/sales/schemas/eu/tables/orders"
OTHERS = "shares/sales/schemas/eu/tables/others"
SALARIES = "shares/hr/schemas/all/tables/salaries"
SECRET = b"the secret beside the tables"
PAGED = {"delta-sharing-capabilities": "responseformat=parquet;includeendstreamaction=true"}
DAMAGED = ("RESOURCE_DOES_NOT_EXIST", "the log of the table is damaged")
OUTSIDE = ("UNSUPPORTED_OPERATION", "outside its location")
QUICK = Limits(head_seconds=0.6, body_seconds=0.4, stall_seconds=0.6, failed_tokens_per_minute=0)


@dataclass(frozen=True)
class Attacked:
    """A server with two recipients who do not see each other's tables, and what it has logged."""

    server: Running
    folder: Path

    def logged(self) -> str:
        """Everything, also the audit log."""
        return "".join((self.folder / name).read_text() for name in ("text.log", "json.log", "audit.jsonl"))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("attacked")
    recorded = str(folder / "audit.jsonl")
    with (
        logging_into(folder),
        running(content(folder), limits=QUICK, audit_log=recorded, evaluate_predicate_hints=True) as server,
    ):
        yield Attacked(server, folder)


@pytest.fixture
def server(attacked: Attacked) -> Iterator[Running]:
    """Which answers others as before, whatever has been tried."""
    yield attacked.server
    assert attacked.server.get("shares").status_code == 200


def content(folder: Path) -> CatalogContent:
    (folder / "secret").write_bytes(SECRET)
    names = {"sales.eu.orders": "orders", "sales.eu.others": "others", "hr.all.salaries": "salaries"}
    for name in names.values():
        rows = pa.table({"id": [1, 2, 3], "day": ["a", "b", "c"]})
        feed = {"delta.enableChangeDataFeed": "true"}
        tables.create(str(folder / name), rows, partition_by=["day"], properties=feed)
    (folder / "orders" / "link").symlink_to("../secret")
    expired = BearerToken(digest=token_digest(EXPIRED), expires=1)
    people = [recipient("ann", TOKEN, "sales"), recipient("bob", BOB, "hr", "sales.eu.others")]
    people.append(Recipient(id="id-of-cid", name="cid", tokens=(expired,), grants=("*",)))
    return sharing({name: folder / place for name, place in names.items()}, *people, history_shared=True)


@contextlib.contextmanager
def logging_into(folder: Path) -> Iterator[None]:
    """The logs of this process, in both forms."""
    root, handlers = logging.getLogger(), []
    for name, formatter in (("text.log", TextLines()), ("json.log", JsonLines())):
        handlers.append(logging.FileHandler(folder / name))
        handlers[-1].setFormatter(formatter)
        root.addHandler(handlers[-1])
    level = logging.getLogger("lakeport").level
    logging.getLogger("lakeport").setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logging.getLogger("lakeport").setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def asked(server: Running, path: str, method: str = "GET", token: str | None = TOKEN) -> tuple[int, bytes]:
    """Sends exactly this path, as no client would."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    connection._validate_path = lambda url: None  # type: ignore[attr-defined]  # it would refuse what is tried here
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def opened(server: Running) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def sent(server: Running, data: bytes) -> bytes:
    """What is answered to these bytes until the server closes the connection."""
    with opened(server) as peer:
        received = b""
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
            while part := peer.recv(65536):
                received += part
        return received


def last_line(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])["endStreamAction"]
    return found


def file_urls(server: Running, path: str = ORDERS, **options: Any) -> list[str]:
    return re.findall(r'"url":"([^"]+)"', server.post(f"{path}/query", **options).text)


TRAVERSALS = [
    "..",
    "../secret",
    "../../../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "%2e%2e/secret",
    "%2e%2e%2fsecret",
    "..%2fsecret",
    "%252e%252e/secret",
    "%252e%252e%252fsecret",
    "..%5csecret",
    "..\\secret",
    "..%00/secret",
    "%00",
    "..;/secret",
    "....//secret",
    "%c0%ae%c0%ae/secret",
    "%ef%bc%8e%ef%bc%8e/secret",
    "file:///etc/passwd",
    "link",
    "_delta_log/../../secret",
    "x" * 5000,
    "%2e" * 5000,
]


@pytest.mark.parametrize("name", TRAVERSALS, ids=lambda name: name[:30])
def test_no_name_leads_out_of_the_catalog(server: Running, name: str) -> None:
    for path in (f"shares/{name}", f"shares/sales/schemas/{name}/tables", f"shares/sales/schemas/eu/tables/{name}"):
        for end in ("", "/metadata", "/version"):
            status, body = asked(server, f"/delta-sharing/{path}{end}")
            assert status in (400, 404, 405)
            assert SECRET not in body
            assert b"root:" not in body


@pytest.mark.parametrize("name", TRAVERSALS, ids=lambda name: name[:30])
def test_no_path_leads_out_of_a_table(server: Running, name: str) -> None:
    parts = urlsplit(file_urls(server)[0])
    head = "/".join(parts.path.split("/")[:5])  # until the fingerprint of the location
    changed = [f"{parts.path}/../{name}", f"{head}/{name}", f"{parts.path}/{name}", f"{parts.path}%00{name}"]
    for path in [*changed, f"/delta-sharing/files/{name}", f"/delta-sharing/files/{name}/{name}/{name}"]:
        status, body = asked(server, f"{path}?{parts.query}", token=None)
        assert status in (400, 403, 404), path
        assert SECRET not in body
        assert b"root:" not in body


def test_a_link_out_of_a_table_is_not_followed_even_with_a_good_signature(attacked: Attacked) -> None:
    root = str(attacked.folder / "orders")
    urls = FileUrls(KEY.encode(), "/delta-sharing")
    for name in ("link", "../secret", "_delta_log/../../secret", f"{attacked.folder}/secret"):
        (url,) = urls.format("", "id-of-sales.eu.orders", root, [name], int(time.time()) + 60, "id-of-ann")
        status, body = asked(attacked.server, url, token=None)
        assert status in (403, 404)
        assert SECRET not in body
    assert "a link leads outside the table's location" in attacked.logged()


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        *((path, *DAMAGED) for path in ("../secret", "%2E%2E/secret", "a/../../secret", "s3://b/secret")),
        *((path, *OUTSIDE) for path in ("{folder}/secret", "file://{folder}/secret", "file:///etc/passwd")),
    ],
)
def test_a_table_whose_log_names_other_files_does_not_give_them_away(
    tmp_path: Path, path: str, code: str, message: str
) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    built(tmp_path / "table").create(pretended(path.format(folder=tmp_path)))
    with running(sharing({"sales.eu.orders": tmp_path / "table"})) as server:
        answers = [server.post(f"{ORDERS}/query", headers=headers) for headers in ({}, PAGED)]
    for answer in answers:
        assert (answer.status_code, answer.json()["errorCode"]) == (400, code)
        assert message in answer.json()["message"]
        assert str(tmp_path) not in answer.text


@dataclass(frozen=True)
class Uses:
    """Tokens of one recipient for one table, and how each kind is used."""

    server: Running

    def tokens(self) -> dict[str, str]:
        paged = self.server.post(f"{ORDERS}/query", {"maxFiles": 1}, headers=PAGED)
        changes = self.server.get(f"{ORDERS}/changes?startingVersion=0&maxFiles=1", headers=PAGED)
        refreshing = self.server.post(f"{ORDERS}/query", {"includeRefreshToken": True}, headers=PAGED)
        return {
            "list": self.server.get("shares/sales/schemas/eu/tables?maxResults=1").json()["nextPageToken"],
            "page": last_line(paged.text)["nextPageToken"],
            "changes": last_line(changes.text)["nextPageToken"],
            "refresh": last_line(refreshing.text)["refreshToken"],
            "file": re.findall(r"Signature=([^\"&]+)", refreshing.text)[0],
            "bearer": TOKEN,
        }

    def use(self, kind: str, given: str, table: str = ORDERS, token: str = TOKEN) -> int:
        post, get = self.server.post, self.server.get
        options: dict[str, Any] = {"headers": PAGED, "token": token}
        match kind:
            case "list":
                schema = table.rpartition("/")[0]
                return get(schema, params={"maxResults": 1, "pageToken": given}, token=token).status_code
            case "page":
                return post(f"{table}/query", {"maxFiles": 1, "pageToken": given}, **options).status_code
            case "stream":
                body = {"maxFiles": 1, "startingVersion": 0, "pageToken": given}
                return post(f"{table}/query", body, **options).status_code
            case "changes":
                parameters = {"startingVersion": 0, "maxFiles": 1, "pageToken": given}
                return get(f"{table}/changes", params=parameters, **options).status_code
            case "refresh":
                return post(f"{table}/query", {"refreshToken": given}, **options).status_code
            case "query":
                return post(f"{table}/queries/{given}", **options).status_code
        return get("shares", token=given).status_code


KINDS = ("list", "page", "changes", "refresh")
REFUSED = {"query": 404, "bearer": 401}


def test_tokens_work_for_what_they_were_made_for(server: Running) -> None:
    uses = Uses(server)
    given = uses.tokens()
    assert [uses.use(kind, given[kind]) for kind in (*KINDS, "bearer")] == [200] * 5


def test_a_token_of_one_kind_is_no_token_of_another(server: Running) -> None:
    uses = Uses(server)
    given = uses.tokens()
    for kind in (*KINDS, "stream", "query", "bearer"):
        for other, token in given.items():
            if other != kind:
                assert uses.use(kind, token) == REFUSED.get(kind, 400), (kind, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_of_no_use_to_another_recipient_or_for_another_table(server: Running, kind: str) -> None:
    uses = Uses(server)
    token = uses.tokens()[kind]
    assert uses.use(kind, token, OTHERS, BOB) == 400
    if kind != "list":  # both tables are in one list
        assert uses.use(kind, token, OTHERS) == 400


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_was_changed_anywhere_is_refused(server: Running, kind: str) -> None:
    uses = Uses(server)
    token = uses.tokens()[kind]
    data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    flipped = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data))]
    changed = [urlsafe_b64encode(other).decode() for other in (*flipped, data[:-1], data[:16], data * 2)]
    for other in (*changed, "x", "=", "é", "\0", "A" * 30_000, '{"version":0}'):
        assert uses.use(kind, other) == 400, other


def test_a_pending_query_belongs_to_who_asked_for_it(tmp_path: Path) -> None:
    with running(content(tmp_path), async_query_after_seconds=0) as server:
        pending = server.post(f"{OTHERS}/query", headers={"delta-sharing-capabilities": "asyncquery=true"})
        given = json.loads(pending.text)["queryStatus"]["queryId"]
        uses = Uses(server)
        assert uses.use("query", given, OTHERS) == 200
        assert uses.use("query", given, OTHERS, BOB) == uses.use("query", given, ORDERS) == 404
        assert uses.use("query", given[:-2], OTHERS) == uses.use("query", f"A{given[1:]}", OTHERS) == 404
        for other, token in uses.tokens().items():
            assert uses.use("query", token) == 404, other


def test_expired_tokens_are_refused(tmp_path: Path) -> None:
    with running(content(tmp_path), query_table_page_token_ttl_ms=1, refresh_token_ttl_ms=1) as server:
        uses = Uses(server)
        given = uses.tokens()
        time.sleep(1.1)  # they count in seconds
        assert [uses.use(kind, given[kind]) for kind in KINDS] == [400] * 4
        assert server.get("shares", token=EXPIRED).status_code == 401


def test_tokens_and_urls_of_another_server_are_refused(server: Running) -> None:
    assert server.source is not None
    with running(server.source.content, signing_key="another key altogether") as foreign:
        given = Uses(foreign).tokens()
        url = file_urls(foreign)[0].removeprefix(foreign.url)
        assert asked(foreign, url, token=None)[0] == 200
    assert [Uses(server).use(kind, given[kind]) for kind in KINDS] == [400] * 4
    assert asked(server, url, token=None)[0] == 403


def test_urls_of_files_are_refused_when_they_expire_or_are_changed(server: Running) -> None:
    assert server.source is not None
    table = server.source.content.tables[0]
    path = next(Path(table.location).rglob("*.parquet"))
    for age, status in ((0, 200), (59, 200), (61, 403)):
        signers = Signers(KEY.encode(), endpoint="/delta-sharing", seconds=60, now=lambda age=age: time.time() - age)  # type: ignore[misc]
        (url,) = signers.for_table(table, "", "id-of-ann").sign([str(path)])
        assert asked(server, url, token=None)[0] == status, age
    (good,) = (
        Signers(KEY.encode(), endpoint="/delta-sharing", seconds=60).for_table(table, "", "id-of-ann").sign([str(path)])
    )
    signature = good.rpartition("=")[2]
    other = file_urls(server, OTHERS)[0].removeprefix(server.url)
    for changed in (
        *(
            good.replace(signature, f"{signature[:at]}{int(signature[at], 16) ^ 1:x}{signature[at + 1 :]}")
            for at in (0, 15, 31)
        ),
        good.replace(signature, signature[:-1]),
        good.replace(signature, signature.upper() if signature.upper() != signature else "f" * 32),
        good.replace(signature, other.rpartition("=")[2]),
        good.replace(signature, Uses(server).tokens()["page"]),
        f"{other.partition('?')[0]}?{good.partition('?')[2]}",
        good.replace("expires=", "expires=9"),
        good.replace("expires=", "expires=-"),
    ):
        assert asked(server, changed, token=None)[0] == 403, changed


def test_what_belongs_to_others_looks_like_what_does_not_exist(server: Running) -> None:
    missing = {"hr": "xx", "salaries": "nothing1", "all": "yyy", "orders": "zzzzzz"}

    def text(path: str, token: str) -> tuple[int, str]:
        answer = server.get(path, token=token)
        return answer.status_code, answer.text

    for path, token, name in (
        ("shares/hr", TOKEN, "hr"),
        ("shares/hr/schemas", TOKEN, "hr"),
        ("shares/hr/all-tables", TOKEN, "hr"),
        (f"{SALARIES}/version", TOKEN, "hr"),
        (f"{SALARIES}/metadata", TOKEN, "hr"),
        (f"{ORDERS}/version", BOB, "orders"),
        (f"{ORDERS}/changes?startingVersion=0", BOB, "orders"),
    ):
        status, theirs = text(path, token)
        none = text(path.replace(name, missing[name]), token)
        assert (status, theirs) == (404, none[1].replace(missing[name], name))
    assert [share["name"] for share in server.get("shares").json()["items"]] == ["sales"]
    assert [t["name"] for t in server.get("shares/sales/all-tables", token=BOB).json()["items"]] == ["others"]


def test_time_tells_neither_tables_nor_tokens_apart(server: Running) -> None:
    def seconds(path: str, token: str) -> float:
        started = time.perf_counter()
        server.get(path, token=token)
        return time.perf_counter() - started

    asked_for = [(f"{ORDERS}/version", BOB), (f"{ORDERS[:-1]}x/version", BOB)]
    asked_for += [("shares", f"{TOKEN[:-1]}x"), ("shares", "x" * len(TOKEN))]
    times = [[seconds(*each) for each in asked_for] for _ in range(60)]
    theirs, missing, near, far = (statistics.median(column) for column in zip(*times, strict=True))
    assert 0.5 < theirs / missing < 2
    assert 0.5 < near / far < 2


BODIES = {
    "deep arrays": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 150_000,
    "deep objects that end": b'{"a":' * 150_000 + b"1" + b"}" * 150_000,
    "deep in a known field": b'{"predicateHints":' + b"[" * 900_000,
    "a number of many digits": b'{"version":' + b"9" * 900_000 + b"}",
    "text of many digits": b'{"version":"' + b"9" * 900_000 + b'"}',
    "zeros": b'{"version":"' + b"0" * 900_000 + b'1"}',
    "infinity": b'{"maxFiles":1e999}',
    "not a number": b'{"maxFiles":NaN}',
    "a fraction": b'{"version":0.5}',
    "beyond 64 bits": b'{"limitHint":18446744073709551616}',
    "negative zero files": b'{"maxFiles":-0}',
    "invalid UTF-8": b'{"predicateHints":["\xff\xfe"]}',
    "half a surrogate": b'{"predicateHints":["\\ud800"]}',
    "UTF-16": '{"version":0}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "NUL": b'{"version":\x00}',
    "two documents": b"{}{}",
    "an array": b"[]",
    "nothing but a quote": b'"',
    "the last of two is wrong": b'{"version":0,"version":"x"}',
    "form data": b"version=0",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_makes_no_sense_is_refused_at_once(server: Running, name: str) -> None:
    started = time.monotonic()
    for path in (f"{ORDERS}/query", f"{ORDERS}/queries/x", f"{ORDERS}/temporary-table-credentials"):
        answer = server.post(path, BODIES[name])
        assert answer.status_code == 400 or not path.endswith("query")
        assert 400 <= answer.status_code < 500
        assert len(answer.content) < 1000
    assert time.monotonic() - started < 5


HINTS = {
    "deep JSON": {"jsonPredicateHints": '{"op":"not","children":[' * 20_000 + "]}" * 20_000},
    "wide JSON": {"jsonPredicateHints": json.dumps({"op": "and", "children": [{"op": "isNull"}] * 40_000})},
    "deep SQL": {"predicateHints": ["(" * 400_000 + "id = 1" + ")" * 400_000]},
    "long SQL": {"predicateHints": ["NOT " * 200_000 + "id = 1"]},
    "much SQL": {"predicateHints": ["id = 1"] * 80_000},
    "a pattern of many parts": {"predicateHints": ["day LIKE '" + "%a" * 200_000 + "b'"]},
    "a number of many digits": {"predicateHints": ["id = " + "1" * 19_000]},
    "statements": {"predicateHints": ["1=1; DROP TABLE orders; --", "id = 1 UNION SELECT 1"]},
}


@pytest.mark.parametrize("name", HINTS)
def test_hints_that_are_too_much_are_ignored_at_once(server: Running, name: str) -> None:
    started = time.monotonic()
    answer = server.post(f"{ORDERS}/query", HINTS[name], headers=PAGED)
    assert answer.status_code == 200
    assert len(re.findall('"url"', answer.text)) == 3
    assert "errorMessage" not in last_line(answer.text)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "query", ["version=" + "0" * 5000, "version=" + "0" * 20 + "9" * 30, "version=%D9%A3", "version=1_0"]
)
def test_versions_that_are_none_are_refused(server: Running, query: str) -> None:
    assert server.get(f"{ORDERS}/metadata?{query}").status_code == 400


def test_floods_of_parameters_and_headers_are_refused(server: Running) -> None:
    assert server.get("shares?" + "&".join(f"a{n}=1" for n in range(5000))).status_code == 400
    head = b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(40_000)) + b"\r\n"
    assert sent(server, head).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")) or not sent(server, head)


LINE = f"POST /delta-sharing/{ORDERS}/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
SMUGGLED = b"GET /delta-sharing/shares HTTP/1.1\r\nHost: x\r\n\r\n"
AMBIGUOUS = {
    "a length and chunks": LINE + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks and a length": LINE + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": LINE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} " + SMUGGLED,
    "a negative length": LINE + b"Content-Length: -2\r\n\r\n{}" + SMUGGLED,
    "a length with a sign": LINE + b"Content-Length: +2\r\n\r\n{}" + SMUGGLED,
    "an unknown encoding": LINE + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a blank before the colon": LINE + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a chunk of no size": LINE + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
    "a folded header": LINE + b"X: a\r\n Content-Length: 2\r\n\r\n{}" + SMUGGLED,
    "lines that end with a line feed": (LINE + b"\r\n").replace(b"\r\n", b"\n") + SMUGGLED,
    "a NUL in a header": LINE + b"X: a\0b\r\n\r\n" + SMUGGLED,
    "an escape in a header": LINE + b"X: \x1b[2J\r\n\r\n" + SMUGGLED,
    "a path beyond ASCII": b"GET /health\xff HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED,
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    "no Host": LINE.replace(b"Host: x\r\n", b"") + b"\r\n" + SMUGGLED,
    "two Hosts": LINE + b"Host: y\r\n\r\n" + SMUGGLED,
    "a Host with a path": LINE.replace(b"Host: x", b"Host: x/y@z") + b"\r\n" + SMUGGLED,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_that_could_be_read_in_two_ways_ends_the_connection(server: Running, name: str) -> None:
    answer = sent(server, AMBIGUOUS[name])
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_requests_in_one_go_are_answered_in_their_order(server: Running) -> None:
    paths = ["/health", "/delta-sharing/shares", "/nowhere", "/ready"]
    lines = [f"GET {path} HTTP/1.1\r\nHost: x\r\n" for path in paths]
    answer = sent(server, ("\r\n".join(lines) + "Connection: close\r\n\r\n").encode())
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"401", b"404", b"200"]


def test_clients_of_old_are_answered_and_their_connections_closed(server: Running) -> None:
    answer = sent(server, LINE.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Content-Length: 2\r\n\r\n{}")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n0\r\n\r\n")  # even so: an answer that breaks off can be told from a whole one


@pytest.mark.parametrize("path", ["/health", "/delta-sharing/shares", "/nowhere", f"/delta-sharing/{ORDERS}"])
def test_head_has_no_body(server: Running, path: str) -> None:
    line = f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    assert sent(server, line).endswith(b"\r\n\r\n")


def test_other_sites_are_not_let_in(server: Running) -> None:
    origin = {"Origin": "https://evil.example.org", "Access-Control-Request-Method": "GET"}
    for method in ("GET", "OPTIONS"):
        answer = server.request(method, "shares", headers=origin)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_a_hundred_slow_clients_keep_nobody_from_an_answer(server: Running, attacked: Attacked) -> None:
    slow = [opened(server) for _ in range(100)]
    try:
        for number, peer in enumerate(slow):
            peer.sendall([b"GET /health HT", LINE + b"X: ", LINE + b"Content-Length: 9\r\n\r\n{"][number % 3])
        started = time.monotonic()
        assert all(server.get(f"{ORDERS}/version").status_code == 200 for _ in range(10))
        assert time.monotonic() - started < 5
        for number, peer in enumerate(slow):
            with contextlib.suppress(ConnectionError):
                answer = b"".join(iter(lambda peer=peer: peer.recv(65536), b""))  # type: ignore[misc]
                assert answer.startswith(b"HTTP/1.1 408") if number % 3 == 2 else not answer
    finally:
        for peer in slow:
            peer.close()
    assert '"status":408' in attacked.logged()


@pytest.mark.parametrize("head", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_body_that_comes_by_drops_is_not_waited_for(server: Running, head: str, token: str) -> None:
    line = LINE.replace(TOKEN.encode(), token.encode()) + f"{head}\r\n\r\n".encode()
    with opened(server) as peer:
        started = time.monotonic()
        peer.sendall(line)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 8:
                peer.sendall(b"1\r\n \r\n" if "chunked" in head else b" ")
                time.sleep(0.05)
        assert time.monotonic() - started < 4


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_body_without_end_is_cut_off(server: Running, token: str) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with opened(server) as peer:
        peer.sendall(LINE.replace(TOKEN.encode(), token.encode()) + b"Transfer-Encoding: chunked\r\n\r\n")
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 8:
                peer.sendall(chunk)
        assert time.monotonic() - started < 4


def test_a_limit_of_requests_holds_however_many_come_at_once() -> None:
    with running(sharing({"a.b.c": "/nowhere"}), rate_limit=20) as server, ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: asked(server, "/delta-sharing/shares")[0], range(100)))
    assert statuses.count(429) == 100 - statuses.count(200)
    assert 20 <= statuses.count(200) <= 22  # one more every three seconds


FORGED = "2026-01-01T00:00:00.000Z INFO forged"


def test_nobody_writes_lines_of_the_log(server: Running, attacked: Attacked) -> None:
    for end in ("\n", "\r\n", "\r", "\u2028", "\x85", "\x1b[2K", "\x9b2K"):
        name = f"x{end}{FORGED}"
        quoted = "".join(f"%{byte:02x}" for byte in name.encode())
        asked(server, f"/delta-sharing/shares/{quoted}")
        asked(server, f"/delta-sharing/{ORDERS}/{quoted}")
        asked(server, f"/delta-sharing/files/{quoted}?expires=1", token=None)
        server.post(f"{ORDERS}/query", {"predicateHints": [name], "jsonPredicateHints": name, "version": 0})
        server.post(f"{ORDERS}/query", {"timestamp": name})
        server.get("shares", headers={"X-Request-Id": "a b"}, token="wrong")
    wait_until(lambda: attacked.logged().count("forged") > 30)
    text = (attacked.folder / "text.log").read_text()
    starts = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ \S+ |  ")
    assert all(starts.match(line) and not line.startswith(FORGED) for line in text.splitlines())
    assert all(json.loads(line) for line in (attacked.folder / "json.log").read_text().split("\n")[:-1])
    assert all(json.loads(line) for line in (attacked.folder / "audit.jsonl").read_text().split("\n")[:-1])
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_a_path_cannot_pretend_to_be_fields_of_the_log(server: Running, attacked: Attacked) -> None:
    asked(server, "/delta-sharing/shares/x%20200%201.0ms%20recipient=admin%20address=10.9.8.7%20error=%22none")
    wait_until(lambda: "10.9.8.7" in attacked.logged())
    for line in (attacked.folder / "text.log").read_text().splitlines():
        bare = re.sub(r'"(\\.|[^"\\])*"', '""', line)  # as who splits lines into fields takes quoted ones whole
        assert "recipient=admin" not in bare.split()
        assert "address=10.9.8.7" not in bare.split()


@pytest.mark.parametrize("reset", [False, True])
def test_a_body_that_breaks_off_is_no_failure_of_the_server(server: Running, attacked: Attacked, reset: bool) -> None:
    broken = attacked.logged().count("closed within the request body")
    with opened(server) as peer:
        peer.sendall(LINE + b'Content-Length: 100\r\n\r\n{"a')
        if reset:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: attacked.logged().count("closed within the request body") > broken)
    assert "Traceback" not in attacked.logged()
    assert '"status":500' not in attacked.logged()


def test_attacks_are_logged_and_no_secret_is(server: Running, attacked: Attacked) -> None:
    """Looks at what all tests above have left, and tries some more."""
    given = Uses(server).tokens()
    (url, *_) = file_urls(server)
    asked(server, url.removeprefix(server.url) + "0", token=None)
    for kind in (*KINDS, "query"):
        Uses(server).use(kind, given["page"] + "AAAA")
    server.get(f"shares?pageToken={given['page']}&access_token={TOKEN}", token="a-wrong-token")
    server.get("shares", token=EXPIRED)
    wait_until(lambda: "an expired token of cid" in attacked.logged())
    logged = attacked.logged()
    assert "rejected a URL that this server did not sign" in logged
    assert "rejected an unknown token" in logged
    assert '"status":404' in logged and '"status":401' in logged and '"status":400' in logged  # noqa: PT018
    secrets = [TOKEN, BOB, KEY, "a-wrong-token", EXPIRED, *given.values(), url.rpartition("=")[2]]
    secrets += [token_digest(TOKEN), token_digest(BOB)]
    assert [secret for secret in secrets if secret in logged] == []
    assert not re.search(r"X-Amz-Signature=[0-9a-f]", logged)
