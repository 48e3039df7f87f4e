"""The files of a snapshot, and the rows that are read by their URLs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import requests

from lakeport.kernel.log import format_time
from tests.conformance.reading import snapshot_rows, table_rows
from tests.conformance.roles import READABLE_AS_PARQUET, ROLES
from tests.conformance.target import DELTA, PARQUET, SharedTable, Target, assert_refused, both_formats

pytestmark = pytest.mark.section("Read Data from a Table")


@pytest.mark.section("Read Data from a Table", "API Response Actions in Delta Format")
@pytest.mark.parametrize("role", list(ROLES))
def test_the_rows_in_delta_format_are_those_of_the_table(target: Target, role: str, tmp_path: Path) -> None:
    table = target.table(role)
    assert snapshot_rows(table.query(DELTA), tmp_path / "log") == table_rows(table.truth())


@pytest.mark.section("Read Data from a Table", "API Response Actions in Parquet Format")
@pytest.mark.parametrize("role", READABLE_AS_PARQUET)
def test_the_rows_in_parquet_format_are_those_of_the_table(target: Target, role: str, tmp_path: Path) -> None:
    table = target.table(role)
    found = snapshot_rows(table.query(PARQUET), tmp_path / "log")
    assert [_plain(row) for row in found] == [_plain(row) for row in table_rows(table.truth())]


def _plain(value: Any) -> Any:
    """Maps and lists of pairs are the same here."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@both_formats
@pytest.mark.parametrize("version", range(8))
def test_every_version_has_its_rows(stream: SharedTable, capabilities: str, version: int, tmp_path: Path) -> None:
    answer = stream.query(capabilities, version=version)
    assert answer.version == version
    assert snapshot_rows(answer, tmp_path / "log") == table_rows(stream.truth(), version)


@pytest.mark.parametrize("role", ["vectors", "mapped"])
def test_versions_with_advanced_features_have_their_rows(target: Target, role: str, tmp_path: Path) -> None:
    table = target.table(role)
    for version in range(table.version().version + 1):
        answer = table.query(DELTA, version=version)
        assert snapshot_rows(answer, tmp_path / str(version)) == table_rows(table.truth(), version)


@pytest.mark.section("Read Data from a Table", "Example for snapshot query")
@both_formats
def test_the_lines_are_the_protocol_the_metadata_and_files(plain: SharedTable, capabilities: str) -> None:
    answer = plain.query(capabilities)
    assert answer.response.headers["Content-Type"].replace(" ", "").lower() == "application/x-ndjson;charset=utf-8"
    assert [list(line) for line in answer.lines] == [["protocol"], ["metaData"], *[["file"]] * 9]
    assert answer.version == 2
    assert answer.response.text.endswith("}\n")
    assert not answer.response.text.endswith("\n\n")


@pytest.mark.section("Request Body")
@both_formats
@pytest.mark.parametrize("body", [b"", b"{}", b'{"someday": {"a": [1]}}'])
def test_nothing_has_to_be_asked_for(plain: SharedTable, capabilities: str, body: bytes) -> None:
    answer = plain.request("POST", "/query", capabilities, data=body)
    assert len(answer.files) == 9


@pytest.mark.section("Request Body")
@both_formats
def test_a_version_or_a_time_is_told_with_every_file(stream: SharedTable, capabilities: str) -> None:
    by_version = stream.query(capabilities, version=4)
    (stamp,) = {file.body["timestamp"] for file in by_version.files}
    assert {file.body["version"] for file in by_version.files} == {4}
    assert by_version.metadata["version"] == 4
    by_time = stream.query(capabilities, timestamp=format_time(stamp))
    assert by_time.version == 4
    assert [f.body["id"] for f in by_time.files] == [f.body["id"] for f in by_version.files]
    assert {(f.body["version"], f.body["timestamp"]) for f in by_time.files} == {(4, stamp)}


@pytest.mark.section("Request Body")
@both_formats
def test_the_latest_version_is_told_by_the_header_alone(stream: SharedTable, capabilities: str) -> None:
    answer = stream.query(capabilities)
    assert answer.version == 7
    assert all("version" not in file.body and "timestamp" not in file.body for file in answer.files)
    assert "version" not in answer.metadata


@pytest.mark.section("Request Body", "Errors")
def test_numbers_may_come_as_text(stream: SharedTable) -> None:
    assert stream.query(version="3", limitHint="100").version == 3
    assert stream.query(startingVersion="3", endingVersion="4").version == 3


@pytest.mark.section("Request Body")
@both_formats
@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_a_limit_leaves_enough_rows(plain: SharedTable, capabilities: str, limit: int, tmp_path: Path) -> None:
    answer = plain.query(capabilities, limitHint=limit)
    rows = snapshot_rows(answer, tmp_path / "log") if answer.files else []
    assert len(rows) >= min(limit, 18)
    assert set(map(repr, rows)) <= set(map(repr, table_rows(plain.truth())))


def test_a_limit_saves_files(own: Target) -> None:
    plain = own.table("plain")
    assert [len(plain.query(limitHint=limit).files) for limit in (0, 1, 3, 100)] == [0, 1, 2, 9]


@pytest.mark.section("Request Body", "Errors")
def test_the_history_has_to_be_shared(target: Target) -> None:
    table = target.table("latest_only")
    for body in ({"version": 0}, {"timestamp": "2026-01-01T00:00:00Z"}, {"startingVersion": 0}):
        assert_refused(table.query(**body), 400, "INVALID_PARAMETER_VALUE", "history")
    assert len(table.query().files) == 9


@pytest.mark.section("Request Body", "Errors")
def test_versions_that_make_no_sense_are_refused(stream: SharedTable) -> None:
    time = "2026-01-01T00:00:00Z"
    bodies: list[dict[str, Any]] = [
        {"version": 8},
        {"version": -1},
        {"version": 2**63},
        {"timestamp": "1999-01-01T00:00:00Z"},
        {"timestamp": "2999-01-01T00:00:00Z"},
        {"version": 1, "timestamp": time},
        {"version": 1, "startingVersion": 1},
        {"timestamp": time, "startingVersion": 1},
        {"limitHint": -1},
        {"maxFiles": 0},
        {"maxFiles": -1},
    ]
    for body in bodies:
        assert_refused(stream.query(**body), 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Request Body", "Errors")
def test_versions_before_the_first_that_is_shared_are_refused(target: Target) -> None:
    table = target.table("later")
    bodies: list[dict[str, Any]] = [{"version": 1}, {"startingVersion": 1}]
    for body in bodies:
        assert_refused(table.query(**body), 400, "INVALID_PARAMETER_VALUE")
    assert table.query(version=2).version == 2
    assert table.query(startingVersion=2).version == 2


@pytest.mark.section("Request Body", "Errors")
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b'{"version": "three"}',
        b'{"version": [3]}',
        b'{"version": true}',
        b'{"predicateHints": "id = 1"}',
        b'{"predicateHints": 1}',
        b"[" * 100_000,
        b'{"jsonPredicateHints": {"op": "equal"}}',
        b'{"limitHint": 1.5}',
        b'{"timestamp": 5}',
        b"\xff\xfe",
        b'{"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_a_body_that_cannot_be_read_is_refused(plain: SharedTable, body: bytes) -> None:
    assert_refused(plain.request("POST", "/query", data=body), 400, "MALFORMED_REQUEST")


@pytest.mark.section("Errors")
def test_a_table_whose_files_are_gone_is_refused_for_good(target: Target) -> None:
    gone = target.table("gone")
    for answer in (gone.version(), gone.metadata(), gone.query(), gone.query(startingVersion=0)):
        assert_refused(answer, 400, "RESOURCE_DOES_NOT_EXIST")
        assert gone.truth() not in answer.response.text


@pytest.mark.section("Errors")
def test_there_is_no_other_api(plain: SharedTable) -> None:
    assert plain.request("GET", "/nothing").response.status_code == 404
    assert plain.request("GET", "/query").response.status_code == 405
    assert plain.request("POST", "/changes").response.status_code == 405


@pytest.mark.section("File", "What clients need")
def test_a_file_is_fetched_whole_in_part_or_only_asked_about(plain: SharedTable) -> None:
    file = plain.query().files[0]
    whole = requests.get(file.url, timeout=60)
    assert (whole.status_code, len(whole.content)) == (200, file.body["size"])
    part = requests.get(file.url, headers={"Range": "bytes=4-9"}, timeout=60)
    assert (part.status_code, part.content) == (206, whole.content[4:10])
    tail = requests.get(file.url, headers={"Range": "bytes=-8"}, timeout=60)
    assert (tail.status_code, tail.content[-4:]) == (206, b"PAR1")
    head = requests.head(file.url, timeout=60)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(whole.content)))


@pytest.mark.section("What clients need")
def test_a_url_may_be_spelled_as_clients_rewrite_it(own: Target) -> None:
    file = own.table("plain").query().files[0]
    path, query = file.url.split("?")
    content = requests.get(file.url, timeout=60).content
    assert "day=" in path
    assert requests.get(f"{path.replace('day=', 'day%3D')}?{query}", timeout=60).content == content


@pytest.mark.section("What clients need")
def test_urls_outlast_a_read(plain: SharedTable) -> None:
    now = time.time() * 1000
    expiring = [file.body["expirationTimestamp"] for file in plain.query().files if "expirationTimestamp" in file.body]
    plain.target.requires("URLs that tell when they expire", present=bool(expiring))
    assert min(expiring) - now > 15 * 60 * 1000


@pytest.mark.section("File")
def test_a_url_is_good_for_its_file_alone(own: Target) -> None:
    first, second = own.table("plain").query().files[:2]
    path, query = first.url.split("?")
    other = second.url.split("?")[0]
    for forged in (f"{other}?{query}", path, first.url.replace("expires=1", "expires=2")):
        assert requests.get(forged, timeout=60).status_code == 403
