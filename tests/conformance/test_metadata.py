"""The metadata of a table."""

from __future__ import annotations

import pytest

from lakeport.kernel.log import format_time
from tests.conformance.roles import READABLE_AS_PARQUET, ROLES
from tests.conformance.target import DELTA, END, PARQUET, SharedTable, Target, assert_refused, both_formats

pytestmark = pytest.mark.section("Query Table Metadata")


@pytest.mark.parametrize("role", list(ROLES))
def test_the_answer_is_the_protocol_and_the_metadata(target: Target, role: str) -> None:
    table = target.table(role)
    for capabilities in [DELTA, *([PARQUET] if role in READABLE_AS_PARQUET else [])]:
        answer = table.metadata(capabilities)
        assert answer.response.headers["Content-Type"].replace(" ", "").lower() == "application/x-ndjson;charset=utf-8"
        assert [list(line) for line in answer.lines] == [["protocol"], ["metaData"]]
        assert answer.version == table.version().version
        assert answer.response.text.endswith("}\n")


@both_formats
def test_the_metadata_are_those_of_the_query(plain: SharedTable, capabilities: str) -> None:
    assert plain.metadata(capabilities).lines == plain.query(capabilities).lines[:2]


def test_the_end_is_told_to_clients_that_ask_for_it_or_denied(plain: SharedTable) -> None:
    answer = plain.metadata(DELTA + END)
    promised = answer.capabilities.get("includeendstreamaction") == "true"
    assert [list(line) for line in answer.lines][:2] == [["protocol"], ["metaData"]]
    assert (answer.end is not None) == promised


@pytest.mark.section("Later: metadata by version")
@both_formats
def test_the_metadata_of_an_older_version_can_be_asked_for(stream: SharedTable, capabilities: str) -> None:
    older = stream.metadata(capabilities, version=1)
    assert older.version == 1
    assert [field["name"] for field in older.fields] == ["id", "name", "amount"]
    assert [field["name"] for field in stream.metadata(capabilities).fields] == ["id", "name", "amount", "flag"]


@pytest.mark.section("Later: metadata by version")
def test_a_time_stands_for_the_version_that_was_the_latest_then(stream: SharedTable) -> None:
    stamp = stream.query(version=4).files[0].body["timestamp"]
    assert stream.metadata(timestamp=format_time(stamp)).version == 4


@pytest.mark.section("Later: metadata by version", "Errors")
def test_versions_that_make_no_sense_are_refused(stream: SharedTable, target: Target) -> None:
    time = "2026-01-01T00:00:00Z"
    for refused in (
        stream.metadata(version=8),
        stream.metadata(version=-1),
        stream.metadata(version="one"),
        stream.metadata(version=1, timestamp=time),
        stream.metadata(timestamp="1999-01-01T00:00:00Z"),
        target.table("later").metadata(version=1),
        target.table("latest_only").metadata(version=1),
        target.table("latest_only").metadata(timestamp=time),
    ):
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE")
    assert target.table("later").metadata(version=2).version == 2
