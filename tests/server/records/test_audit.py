"""What is recorded of requests: the audit log and the log, and that neither holds a secret."""

import errno
import fcntl
import json
import logging
import os
import re
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.server.http.asgi import REQUEST_ID
from lakeport.server.records.logs import JsonLines, TextLines, without_secrets
from tests.server.running import TOKEN, recipient, running, sharing, wait_until

ORDERS = "shares/sales/schemas/eu/tables/orders"


@dataclass
class Disk:
    room: int = sys.maxsize


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


def test_refusals_are_recorded_with_the_name_that_was_asked_for(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    elsewhere = recipient("bob", "token-of-bob", ip_allow_list=("10.0.0.0/8",))
    stranger = recipient("eve", "token-of-eve", "other")
    content = sharing({"sales.eu.orders": orders}, recipient("ann", TOKEN), elsewhere, stranger)
    with running(content, audit_log=str(log)) as server:
        for token in ("wrong", None, "token-of-bob", "token-of-eve"):
            server.post(f"{ORDERS}/query", token=token)
        server.get(f"shares/sales/schemas/eu/tables/{'x' * 5000}/metadata")
        lines = recorded(log, 5)
    assert [(line["status"], line["recipient"]) for line in lines] == [
        (401, None),
        (401, None),
        (403, "bob"),
        (404, "eve"),
        (404, "ann"),
    ]
    assert {line["table"] for line in lines[:4]} == {"sales.eu.orders"}
    assert {line["tableId"] for line in lines} == {None}
    assert all(line["error"] for line in lines)
    assert len(lines[4]["table"]) < 300
    assert lines[4]["operation"] == "getTableMetadata"


def test_downloads_are_recorded_with_their_recipient_and_what_was_sent(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    content = sharing({"sales.eu.orders": orders})
    with running(content, audit_log=str(log)) as server:
        url = re.findall(r'"url":"([^"]+)"', server.post(f"{ORDERS}/query").text)[0]
        size = len(server.session.get(url, timeout=10).content)
        server.session.get(url, headers={"Range": "bytes=0-9"}, timeout=10)
        server.session.head(url, timeout=10)
        assert server.source is not None
        server.source.content = sharing({"sales.eu.orders": orders}, recipient("ann", TOKEN, ip_allow_list=("::1",)))
        wait_until(lambda: server.session.get(url, timeout=10).status_code == 403)
        assert f"lakeport_bytes_granted_total {size}.0\n" in server.get("/metrics").text
    lines = recorded(log, 5)
    assert {(line["operation"], line["recipient"], line["table"]) for line in lines[1:]} == {
        ("file", "ann", "sales.eu.orders")
    }
    # In any order: a record is written after its response, when the next request may be under way.
    served = {(line["status"], line["files"], line["bytes"]) for line in lines[1:-1]}
    assert served == {(200, 1, size), (206, 1, 10), (200, 0, 0)}
    assert lines[-1]["status"] == 403
    assert "not allowed" in lines[-1]["error"]


def test_downloads_by_urls_that_were_altered_are_recorded(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        url = re.findall(r'"url":"([^"]+)"', server.post(f"{ORDERS}/query").text)[0]
        assert server.session.get(f"{url}0", timeout=10).status_code == 403
        line = recorded(log, 2)[1]
    assert (line["operation"], line["status"], line["recipient"]) == ("file", 403, None)


def test_long_hints_are_cut_short(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    hints = {"predicateHints": ["id > 0", "x" * 9000, *["id < 9"] * 500], "jsonPredicateHints": "y" * 90_000}
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        assert server.post(f"{ORDERS}/query", hints).status_code == 200
        [line] = recorded(log, 1)
    assert line["predicateHints"][0] == "id > 0"
    assert "9000 characters" in line["predicateHints"][1]
    assert "90000 characters" in line["jsonPredicateHints"]
    assert "502" in line["predicateHints"][-1]
    assert log.stat().st_size < 5000


def test_only_the_owner_may_read_the_audit_log(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)):
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_part_of_a_line_is_not_continued(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text('{"a part of')
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get(f"{ORDERS}/version")
    torn, whole = log.read_text().splitlines()
    assert torn == '{"a part of'
    assert json.loads(whole)["operation"] == "getTableVersion"


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk whose room is what a test says; everything else is that of this machine."""
    disk, write = Disk(), os.write

    def written(descriptor: int, data: bytes | memoryview) -> int:
        if threading.current_thread().name != "lakeport-audit":
            return write(descriptor, data)
        if disk.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(descriptor, data[: disk.room])
        disk.room -= count
        return count

    monkeypatch.setattr("lakeport.server.records.audit.os.write", written)
    monkeypatch.setattr("lakeport.server.records.audit._RETRY_SECONDS", 0.01)
    return disk


def test_a_part_of_a_line_is_not_continued_after_a_full_disk(orders: Path, tmp_path: Path, small_disk: Disk) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text('{"a part of')
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        small_disk.room = 0
        server.get(f"{ORDERS}/version")
        wait_until(lambda: server.get("/ready").status_code == 503)
        small_disk.room = sys.maxsize
    torn, whole = log.read_text().splitlines()
    assert torn == '{"a part of'
    assert json.loads(whole)["operation"] == "getTableVersion"


def test_a_lock_that_another_process_holds_is_told(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.server.records.audit._LOCK_SECONDS", 0.05)
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        with log.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            server.get(f"{ORDERS}/version")
            wait_until(lambda: server.get("/ready").status_code == 503)
            assert not log.read_bytes()
        recorded(log, 1)
        wait_until(lambda: server.get("/ready").status_code == 200)


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that hangs until the event is set."""
    event, write = threading.Event(), os.write

    def hanging(descriptor: int, data: bytes | memoryview) -> int:
        if threading.current_thread().name == "lakeport-audit":
            event.wait()
        return write(descriptor, data)

    monkeypatch.setattr("lakeport.server.records.audit.os.write", hanging)
    monkeypatch.setattr("lakeport.server.records.audit._STUCK_SECONDS", 0.05)
    yield event
    event.set()


def test_a_write_that_does_not_end_is_told_and_takes_no_memory(
    orders: Path, tmp_path: Path, goes_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.server.records.audit._MOST_WAITING", 1)
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get(f"{ORDERS}/version")
        wait_until(lambda: server.get("/ready").status_code == 503)
        for _ in range(5):
            server.get(f"{ORDERS}/version")
        wait_until(lambda: "lakeport_audit_lines_lost 4.0\n" in server.get("/metrics").text)
        goes_on.set()
        wait_until(lambda: server.get("/ready").status_code == 200)
    assert len(log.read_text().splitlines()) == 2


def test_requests_that_cannot_be_recorded_take_no_memory(
    orders: Path, tmp_path: Path, goes_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.server.records.audit._BEGIN_SECONDS", 0.1)
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log), audit_required=True) as server:
        assert server.get(f"{ORDERS}/version").status_code == 503
        wait_until(lambda: server.get("/ready").status_code == 503)
        assert {server.get(f"{ORDERS}/version").status_code for _ in range(20)} == {503}
        goes_on.set()
        wait_until(lambda: server.get("/ready").status_code == 200)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines if "event" not in line] == [503] * 21
    assert len([line for line in lines if "event" in line]) == 1  # the others are not kept


@pytest.mark.parametrize("required", [False, True])
def test_a_full_disk_is_told_and_no_line_is_lost_or_torn(
    orders: Path, tmp_path: Path, small_disk: Disk, required: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log), audit_required=required) as server:
        url = re.findall(r'"url":"([^"]+)"', server.post(f"{ORDERS}/query").text)[0]
        recorded(log, 2 if required else 1)
        before = log.read_bytes()
        small_disk.room = 100
        answers = [server.get(f"{ORDERS}/version"), server.post(f"{ORDERS}/query"), server.session.get(url, timeout=10)]
        assert [answer.status_code for answer in answers] == [503 if required else 200] * 3
        if required:
            assert answers[0].json()["errorCode"] == "TEMPORARILY_UNAVAILABLE"
            assert answers[2].headers["X-Request-Id"]
        wait_until(lambda: server.get("/ready").status_code == 503)
        assert "audit log" in server.get("/ready").json()["reason"]
        assert "lakeport_audit_log_failing 1.0\n" in server.get("/metrics").text
        wait_until(lambda: "lakeport_audit_lines_waiting 3.0\n" in server.get("/metrics").text)
        assert server.get("/health").status_code == server.get("shares").status_code == 200
        assert server.get(f"{ORDERS}/version", token="wrong").status_code == 401
        assert log.read_bytes() == before
        assert caplog.text.count("the audit log cannot be written") == 1
        small_disk.room = sys.maxsize
        wait_until(lambda: server.get("/ready").status_code == 200)
        assert "lakeport_audit_log_failing 0.0\n" in server.get("/metrics").text
        assert server.get(f"{ORDERS}/version").status_code == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [(line["operation"], line["status"]) for line in lines if "event" not in line]
    status = 503 if required else 200
    refused = [("getTableVersion", status), ("queryTable", status), ("file", status), ("getTableVersion", 401)]
    assert ended == [("queryTable", 200), *refused, ("getTableVersion", 200)]
    assert [line["files"] for line in lines if line.get("status") == 503] == ([0, 0, 0] if required else [])
    begun = [(line["operation"], line["recipient"]) for line in lines if line.get("event") == "begin"]
    assert begun == ([("queryTable", "ann"), ("getTableVersion", "ann")] if required else [])
    assert log.read_bytes().startswith(before)


def test_lines_that_wait_too_long_are_given_up_and_counted(
    orders: Path, tmp_path: Path, small_disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.server.records.audit._MOST_WAITING", 1)
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        small_disk.room = 0
        for _ in range(5):
            server.get(f"{ORDERS}/version")
        wait_until(lambda: "lakeport_audit_lines_lost 4.0\n" in server.get("/metrics").text)
        small_disk.room = sys.maxsize
    assert len(log.read_text().splitlines()) == 1


def test_the_audit_log_may_be_moved_away_while_the_server_runs(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get(f"{ORDERS}/version")
        recorded(log, 1)
        log.rename(tmp_path / "audit.jsonl.1")
        server.get(f"{ORDERS}/metadata")
        wait_until(log.exists)
        assert recorded(log, 1)[0]["operation"] == "getTableMetadata"


def test_the_audit_log_may_be_copied_and_emptied_while_the_server_runs(orders: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        server.get(f"{ORDERS}/version")
        recorded(log, 1)
        os.truncate(log, 0)
        server.get(f"{ORDERS}/metadata")
        assert [line["operation"] for line in recorded(log, 1)] == ["getTableMetadata"]


def test_a_file_that_is_emptied_while_a_write_fails_has_whole_lines_only(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an operator who makes room on a full disk."""
    log, write, failed = tmp_path / "audit.jsonl", os.write, threading.Event()

    def failing(descriptor: int, data: bytes | memoryview) -> int:
        if threading.current_thread().name == "lakeport-audit" and not failed.is_set():
            failed.set()
            os.truncate(log, 0)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("lakeport.server.records.audit._RETRY_SECONDS", 0.01)
    log.write_text('{"older": 1}\n{"a part of')
    with running(sharing({"sales.eu.orders": orders}), audit_log=str(log)) as server:
        monkeypatch.setattr("lakeport.server.records.audit.os.write", failing)
        server.get(f"{ORDERS}/version")
        assert failed.wait(20)
    assert [json.loads(line)["operation"] for line in log.read_text().splitlines()] == ["getTableVersion"]


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
