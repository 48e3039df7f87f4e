"""What is recorded of requests: the audit log and the log, and that neither holds a secret."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.server.exchange import REQUEST_ID
from lakeport.server.logs import JsonLines, TextLines, without_secrets
from tests.server.running import TOKEN, running, sharing, wait_until

ORDERS = "shares/sales/schemas/eu/tables/orders"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "orders"
    tables.create(str(path), pa.table({"id": [1, 2]}))
    return path


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield


def recorded(path: Path, count: int) -> list[dict[str, Any]]:
    wait_until(lambda: path.read_text().count("\n") >= count)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_request_on_a_table_is_recorded(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get("shares")
        server.get(f"{ORDERS}/version", headers={"X-Request-Id": "one"})
        server.post(f"{ORDERS}/query", {"predicateHints": ["id > 0"]}, headers={"X-Request-Id": "two"})
        server.post(f"{ORDERS}/query", {"version": 0}, headers={"X-Request-Id": "three"})
        server.get(f"{ORDERS}/version", token="wrong")
        version, query, refused = recorded(log, 3)
    assert version["requestId"] == "one"
    assert version["operation"] == "getTableVersion"
    assert version["recipient"] == "ann"
    assert version["address"] == "127.0.0.1"
    assert version["table"] == "sales.eu.orders"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", version["time"])
    assert (query["operation"], query["version"], query["files"], query["complete"]) == ("queryTable", 0, 1, True)
    assert query["predicateHints"] == ["id > 0"]
    assert query["bytes"] > 100
    assert 0 < query["seconds"] < 10
    assert (refused["status"], refused["requestId"]) == (400, "three")
    assert "historyShared" in refused["error"]


def test_the_audit_log_may_be_moved_away_while_the_server_runs(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get(f"{ORDERS}/version")
        recorded(log, 1)
        log.rename(tmp_path / "audit.jsonl.1")
        server.get(f"{ORDERS}/metadata")
        wait_until(log.exists)
        assert recorded(log, 1)[0]["operation"] == "getTableMetadata"


def test_an_audit_log_that_cannot_be_written_keeps_the_server_from_starting(orders: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        running(sharing({"sales.eu.orders": orders}), audit_log=str(tmp_path / "no" / "audit")),
    ):
        pass


def test_the_log_has_a_line_for_each_request_and_no_secret(
    orders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.jsonl"
    content = sharing({"sales.eu.orders": orders, "sales.eu.more": orders})
    with running(content, audit_log=str(log)) as server:
        token = server.get("shares/sales/all-tables?maxResults=1").json()["nextPageToken"]
        server.get("shares/sales/all-tables", params={"pageToken": token})
        answer = server.post(f"{ORDERS}/query", {"maxFiles": 1, "includeRefreshToken": True})
        url = re.findall(r'"url":"([^"]+)"', answer.text)[0]
        server.session.get(url, timeout=10)
        server.session.get(url.replace("Signature=", "Signature=x"), timeout=10)
        server.get("shares", token="not-a-good-token")
    served = [record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")]
    written = "\n".join(served) + log.read_text()
    signature = url.partition("Signature=")[2]
    for secret in (TOKEN, "not-a-good-token", token, signature, *re.findall(r'"refreshToken":"([^"]+)"', answer.text)):
        assert secret
        assert secret not in written
    assert "POST /delta-sharing/shares/sales/schemas/eu/tables/orders/query 200" in written


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("lakeport.test", logging.WARNING, __file__, 1, message, args, None)
    made.__dict__.update(extra)
    return made


def test_a_log_line_carries_the_id_of_its_request() -> None:
    identity = REQUEST_ID.set("abc")
    try:
        line = json.loads(JsonLines().format(record("slow: %d s", 3, fields={"path": "/x"})))
        text = TextLines().format(record("slow: %d s", 3))
    finally:
        REQUEST_ID.reset(identity)
    assert line.pop("time").endswith("Z")
    expected = {"level": "WARNING", "logger": "lakeport.test", "message": "slow: 3 s", "requestId": "abc", "path": "/x"}
    assert line == expected
    assert re.fullmatch(r"\S+Z WARNING abc slow: 3 s", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer …"),
        ("https://b/f?X-Amz-Signature=abc&X-Amz-Date=1", "https://b/f?X-Amz-Signature=…&X-Amz-Date=…"),
        ("https://a/f?sv=1&sig=abc%3D", "https://a/f?sv=1&sig=…"),
        ("GET /shares?pageToken=abc done", "GET /shares?pageToken=… done"),
        ("a forged\r\nline\x1b[0m", "a forged\\x0d\\nline\\x1b[0m"),
    ],
)
def test_secrets_and_control_characters_are_taken_out_of_messages(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
