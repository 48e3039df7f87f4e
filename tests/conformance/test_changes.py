"""The change data feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.kernel.log import format_time
from tests.conformance.reading import change_rows, table_changes
from tests.conformance.target import DELTA, Answer, SharedTable, Target, assert_refused, both_formats

pytestmark = pytest.mark.section("Read Change Data Feed from a Table")


def told(answer: Answer) -> list[tuple[int, str]]:
    return sorted({(file.body["version"], file.kind) for file in answer.files})


@both_formats
@pytest.mark.parametrize(("start", "end"), [(0, 6), (0, 0), (1, 1), (1, 2), (3, 5), (4, 4), (5, 6), (2, None)])
def test_the_changes_are_those_of_the_table(
    feed: SharedTable, capabilities: str, start: int, end: int | None, tmp_path: Path
) -> None:
    window = {"startingVersion": start} | ({} if end is None else {"endingVersion": end})
    answer = feed.changes(capabilities, **window)
    last = 6 if end is None else end
    assert answer.version == start
    assert change_rows(answer, tmp_path / "log", last) == table_changes(feed.truth(), start, last)


@pytest.mark.parametrize(("role", "first"), [("vectors", 0), ("vectors", 1), ("vectors", 3), ("mapped", 1)])
def test_the_changes_of_tables_with_advanced_features(target: Target, role: str, first: int, tmp_path: Path) -> None:
    table = target.table(role)
    last = table.version().version
    answer = table.changes(DELTA, startingVersion=first)
    assert change_rows(answer, tmp_path / "log", last) == table_changes(table.truth(), first)


@pytest.mark.section("CDF File", "Data Change Files")
@both_formats
def test_files_of_changes_come_instead_of_what_they_tell(feed: SharedTable, capabilities: str) -> None:
    answer = feed.changes(capabilities, startingVersion=0)
    kinds = [(0, "add"), (1, "cdf"), (2, "cdf"), (3, "add"), (5, "remove"), (6, "add")]
    assert told(answer) == kinds


@both_formats
def test_a_time_stands_for_a_version(feed: SharedTable, capabilities: str) -> None:
    whole = feed.changes(capabilities, startingVersion=0)
    times = {file.body["version"]: file.body["timestamp"] for file in whole.files}
    answer = feed.changes(capabilities, startingTimestamp=format_time(times[1]), endingTimestamp=format_time(times[3]))
    assert answer.version == 1
    assert told(answer) == [(1, "cdf"), (2, "cdf"), (3, "add")]
    between = feed.changes(
        capabilities, startingTimestamp=format_time(times[0] + 1), endingTimestamp=format_time(times[2] - 1 + 1)
    )
    assert told(between) == [(1, "cdf"), (2, "cdf")]
    mixed = feed.changes(capabilities, startingVersion=1, endingTimestamp="2999-01-01T00:00:00Z")
    assert told(mixed) == [entry for entry in told(whole) if entry[0] >= 1]
    early = feed.changes(capabilities, startingTimestamp="2000-01-01T00:00:00Z", endingVersion=0)
    assert told(early) == [(0, "add")]


@both_formats
def test_an_end_after_the_latest_version_is_the_latest(feed: SharedTable, capabilities: str) -> None:
    assert told(feed.changes(capabilities, startingVersion=5, endingVersion=100)) == told(
        feed.changes(capabilities, startingVersion=5)
    )


@pytest.mark.section("Metadata", "Metadata in Delta Format")
@both_formats
@pytest.mark.parametrize("spelled", ["true", "True"])
def test_historical_metadata_come_if_they_are_asked_for(feed: SharedTable, capabilities: str, spelled: str) -> None:
    asked = feed.changes(capabilities, startingVersion=2, includeHistoricalMetadata=spelled)
    assert asked.metadata["version"] == 2
    assert [metadata["version"] for metadata in asked.historical_metadata] == [4]
    comment = asked.historical_metadata[0].get("deltaMetadata", asked.historical_metadata[0])["schemaString"]
    assert "a word on it" in comment
    assert "a word on it" not in asked.delta_metadata["schemaString"]
    for unasked in ({}, {"includeHistoricalMetadata": "false"}):
        answer = feed.changes(capabilities, startingVersion=2, **unasked)
        assert answer.historical_metadata == []
        assert "a word on it" in answer.delta_metadata["schemaString"]


@pytest.mark.section("Later: historical protocol")
def test_historical_protocols_come_if_they_are_asked_for(feed: SharedTable) -> None:
    asked = feed.changes(DELTA, startingVersion=2, includeHistoricalProtocol="true")
    assert asked.protocol["version"] == 2
    assert "version" not in feed.changes(DELTA, startingVersion=2).protocol


@pytest.mark.section("Errors")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"endingVersion": 3},
        {"startingVersion": 0, "startingTimestamp": "2026-01-01T00:00:00Z"},
        {"startingVersion": 0, "endingVersion": 1, "endingTimestamp": "2026-01-01T00:00:00Z"},
        {"startingVersion": -1},
        {"startingVersion": 0, "endingVersion": -1},
        {"startingVersion": 7},
        {"startingVersion": 3, "endingVersion": 2},
        {"startingVersion": "one"},
        {"startingVersion": 0, "endingVersion": "1.5"},
        {"startingVersion": 0, "maxFiles": 0},
        {"startingVersion": 0, "maxFiles": "many"},
        {"startingTimestamp": "2999-01-01T00:00:00Z"},
        {"startingVersion": 3, "endingTimestamp": "2000-01-01T00:00:00Z"},
    ],
)
def test_ranges_that_make_no_sense_are_refused(feed: SharedTable, parameters: dict[str, Any]) -> None:
    assert_refused(feed.changes(**parameters), 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Errors")
@both_formats
def test_changes_that_were_not_recorded_are_refused(target: Target, capabilities: str) -> None:
    table = target.table("feed_later")
    for start, end in ((0, 0), (0, 3), (1, 1), (1, 2)):
        refused = table.changes(capabilities, startingVersion=start, endingVersion=end)
        assert_refused(refused, 400, "INVALID_PARAMETER_VALUE", "change data feed")
    assert told(table.changes(capabilities, startingVersion=2)) == [(3, "add")]
    refused = target.table("stream").changes(capabilities, startingVersion=0)
    assert_refused(refused, 400, "INVALID_PARAMETER_VALUE", "change data feed")


@pytest.mark.section("Errors")
def test_changes_need_the_history(target: Target) -> None:
    refused = target.table("latest_only").changes(startingVersion=0)
    assert_refused(refused, 400, "INVALID_PARAMETER_VALUE", "history")


@pytest.mark.section("What clients need")
def test_the_parameter_that_spark_adds_does_not_matter(feed: SharedTable) -> None:
    assert told(feed.changes(startingVersion=0, readChangeFeed="true")) == told(feed.changes(startingVersion=0))


@pytest.mark.section("What clients need")
def test_in_delta_format_the_protocol_permits_the_feed_and_the_metadata_have_the_start(feed: SharedTable) -> None:
    for start in (0, 3):
        answer = feed.changes(DELTA, startingVersion=start)
        assert answer.metadata["version"] == start
        protocol = answer.protocol["deltaProtocol"]
        assert protocol["minWriterVersion"] >= 4
        assert protocol["minWriterVersion"] < 7 or "changeDataFeed" in protocol["writerFeatures"]
        assert answer.delta_metadata["configuration"]["delta.enableChangeDataFeed"] == "true"


@pytest.mark.section("What clients need", "File in Delta Format")
def test_a_file_that_gets_another_vector_is_removed_and_added_under_one_url(vectors: SharedTable) -> None:
    answer = vectors.changes(DELTA, startingVersion=0)
    pairs = 0
    for version in range(5):
        of_version = [file for file in answer.files if file.body["version"] == version]
        urls = {
            kind: {file.body["id"]: file.url for file in of_version if file.kind == kind} for kind in ("add", "remove")
        }
        for file_id in urls["add"].keys() & urls["remove"].keys():
            assert urls["add"][file_id] == urls["remove"][file_id]
            pairs += 1
    vectors.target.requires("a commit that replaces a deletion vector", present=pairs > 0)
