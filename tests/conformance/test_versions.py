"""The version of a table, and timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakeport import tables
from lakeport.kernel.log import format_time
from tests.conformance.roles import numbers
from tests.conformance.target import SharedTable, Target, assert_refused


def commit_times(stream: SharedTable) -> dict[int, int]:
    """When the versions were made that changed files, as the server tells it."""
    return {file.body["version"]: file.body["timestamp"] for file in stream.query(startingVersion=0).files}


@pytest.mark.section("Query Table Version")
def test_the_version_is_in_a_header_and_the_body_is_empty(stream: SharedTable) -> None:
    answer = stream.version()
    assert answer.response.status_code == 200
    assert answer.version == 7
    assert answer.response.content == b""


@pytest.mark.section("Query Table Version")
def test_the_deprecated_way_to_ask_is_a_head_request(stream: SharedTable) -> None:
    answer = stream.request("HEAD", "")
    assert (answer.response.status_code, answer.version, answer.response.content) == (200, 7, b"")


@pytest.mark.section("Query Table Version")
def test_a_new_commit_is_seen_at_once(own: Target) -> None:
    table = own.table("growing")
    before = table.version().version
    tables.append(table.truth(), numbers(3, 1))
    assert table.version().version == table.query().version == table.metadata().version == before + 1


@pytest.mark.section("Query Table Version")
def test_a_starting_timestamp_gives_the_first_version_from_it_on(stream: SharedTable) -> None:
    for version, stamp in commit_times(stream).items():
        assert stream.version(startingTimestamp=format_time(stamp)).version == version
        assert stream.version(startingTimestamp=format_time(stamp - 1)).version <= version
        assert stream.version(startingTimestamp=format_time(stamp - 1)).version > version - 2


@pytest.mark.section("Query Table Version")
def test_a_starting_timestamp_may_be_earlier_than_the_table(stream: SharedTable) -> None:
    assert stream.version(startingTimestamp="2000-01-01T00:00:00Z").version == 0


@pytest.mark.section("Query Table Version", "Errors")
def test_a_starting_timestamp_after_the_latest_version_is_refused(stream: SharedTable) -> None:
    assert_refused(stream.version(startingTimestamp="2999-01-01T00:00:00Z"), 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Query Table Version", "Errors")
def test_a_starting_timestamp_needs_the_history(target: Target) -> None:
    refused = target.table("latest_only").version(startingTimestamp="2000-01-01T00:00:00Z")
    assert_refused(refused, 400, "INVALID_PARAMETER_VALUE", "history")


@pytest.mark.section("Timestamp Format")
def test_a_timestamp_may_have_fractions_and_another_zone(stream: SharedTable) -> None:
    stamp = commit_times(stream)[4]
    moment = datetime.fromtimestamp(stamp / 1000, UTC)
    berlin = moment.astimezone(timezone(timedelta(hours=1))).isoformat(timespec="milliseconds")
    assert stream.query(timestamp=format_time(stamp)).version == stream.query(timestamp=berlin).version == 4


@pytest.mark.section("Timestamp Format", "Errors")
@pytest.mark.parametrize("text", ["yesterday", "", "2022-01-01", "2022-13-01T00:00:00Z", "1652140800000"])
def test_what_is_no_timestamp_is_refused(stream: SharedTable, feed: SharedTable, text: str) -> None:
    for answer in (
        stream.version(startingTimestamp=text),
        stream.query(timestamp=text),
        stream.metadata(timestamp=text),
        feed.changes(startingTimestamp=text),
        feed.changes(startingVersion=0, endingTimestamp=text),
    ):
        assert_refused(answer, 400, "INVALID_PARAMETER_VALUE")
