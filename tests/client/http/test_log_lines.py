"""What urllib3 logs about our requests: hosts and statuses, and nothing by which a file or a table could be read."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import urllib3

from lakeport.testing.http import Asked, Steps, chunked, reply, scripted
from tests.client.faulty_proxy import Fault, at_random, faulty_proxy
from tests.client.pools import patient_pool
from tests.client.reading import frame_of, server_at
from tests.client.shares import sharing_tables
from tests.client.timing import pool
from tests.server.running import TOKEN

NAME = "sales.eu.orders"
AT_ONCE = (Fault.ERROR, Fault.BUSY, Fault.RESET, Fault.RESET_WITHIN, Fault.TRUNCATED)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "urllib3")
    return caplog


def lines_of_urllib3(logged: pytest.LogCaptureFixture) -> str:
    own = [record for record in logged.records if record.name.startswith("urllib3")]
    return "\n".join(logging.Formatter().format(record) for record in own)


def test_a_read_with_failures_logs_no_signature_and_no_token(logged: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with (
        sharing_tables(tmp_path) as shared,
        faulty_proxy(shared.server.url, at_random(3, 0.4, AT_ONCE, AT_ONCE)) as proxy,
    ):
        endpoint = shared.server.endpoint.replace(shared.server.url, proxy.url)
        with server_at(endpoint, patient_pool()) as client:
            frame = frame_of(client, NAME)
            assert [frame.to_arrow().num_rows, frame.changes(0).to_arrow().num_rows] == [4, 4]
            lines = lines_of_urllib3(logged)
        assert proxy.done.total() - proxy.done[Fault.NONE] >= 3
        signed = shared.server.post("shares/sales/schemas/eu/tables/orders/query").text.splitlines()[2]
    assert lines.count('"GET … HTTP/1.1" 206') >= 6
    assert f"http://127.0.0.1:{proxy.url.rpartition(':')[2]}" in lines
    assert TOKEN not in lines
    # What is signed may be in the path or in the query: both are left out.
    target = urlsplit(json.loads(signed)["file"]["url"])
    for part in (*target.path.split("/"), *target.query.split("&")):
        assert not part or part not in lines
    assert "?" not in lines


def test_a_head_that_urllib3_warns_of_is_not_shown(logged: pytest.LogCaptureFixture) -> None:
    wrong = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nlocation\r\nx: https://h/f?sig=secret\r\n\r\nok"
    with scripted(lambda _: [wrong]) as server, pool() as http:
        http.request("GET", f"{server.url}/f?sig=secret").close()
    lines = lines_of_urllib3(logged)
    assert "Failed to parse headers (url=…): HeaderParsingError" in lines
    assert "secret" not in lines


def test_the_url_that_a_proxy_is_asked_for_is_not_shown(logged: pytest.LogCaptureFixture) -> None:
    with scripted(lambda _: reply(b"ok")) as server, pool(proxy=server.url) as http:
        http.request("GET", "http://storage.example/f?sig=secret").close()
        assert server.asked[0].target == "http://storage.example/f?sig=secret"
    assert '"GET … HTTP/1.1" 200' in lines_of_urllib3(logged)
    assert "secret" not in lines_of_urllib3(logged)


def test_a_redirect_to_a_signed_url_is_not_shown(logged: pytest.LogCaptureFixture) -> None:
    def script(asked: Asked) -> Steps:
        return reply(b"ok") if "sig" in asked.target else reply(b"", 302, {"location": "/f?sig=secret"})

    with scripted(script) as server, pool() as http:
        assert http.request("GET", f"{server.url}/g").read() == b"ok"
    assert lines_of_urllib3(logged).count('"GET … HTTP/1.1"') == 2
    assert "secret" not in lines_of_urllib3(logged)


def test_the_lines_about_the_requests_of_others_stay_as_they_are(logged: pytest.LogCaptureFixture) -> None:
    with scripted(lambda _: chunked(b"ok")) as server, pool() as http, urllib3.PoolManager() as others:
        http.request("GET", f"{server.url}/ours?sig=secret").close()
        others.request("GET", f"{server.url}/theirs?a=1")
    assert '"GET /theirs?a=1 HTTP/1.1" 200' in lines_of_urllib3(logged)
    assert "/ours" not in lines_of_urllib3(logged)
