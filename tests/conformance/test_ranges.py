"""Queries with startingVersion: what streams read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.reading import snapshot_rows, table_rows
from tests.conformance.target import (
    DELTA,
    END,
    PARQUET,
    Answer,
    File,
    SharedTable,
    Target,
    assert_refused,
    both_formats,
)

pytestmark = pytest.mark.section("Read Data from a Table", "Delta Sharing Streaming Specs")


def told(answer: Answer) -> list[tuple[int, str]]:
    return [(file.body["version"], file.kind) for file in answer.files]


@pytest.mark.section("Example for query with startingVersion")
@both_formats
def test_the_files_that_commits_added_and_removed_are_told(stream: SharedTable, capabilities: str) -> None:
    answer = stream.query(capabilities, startingVersion=0)
    assert answer.version == 0
    assert sorted(told(answer)) == [(0, "add"), (1, "add"), (4, "add"), (5, "remove"), (7, "add")]
    assert all(file.body["timestamp"] > 0 for file in answer.files)


@both_formats
def test_files_that_are_only_rearranged_are_not_told(stream: SharedTable, capabilities: str) -> None:
    answer = stream.query(capabilities, startingVersion=6, endingVersion=6)
    assert (answer.version, answer.files) == (6, [])


@pytest.mark.section("Request Body")
@both_formats
@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 4), (2, 3), (5, 7), (7, 7), (2, None)])
def test_a_window_is_inclusive(stream: SharedTable, capabilities: str, start: int, end: int | None) -> None:
    whole = told(stream.query(capabilities, startingVersion=0))
    window = {"startingVersion": start} | ({} if end is None else {"endingVersion": end})
    answer = stream.query(capabilities, **window)
    last = 7 if end is None else end
    assert answer.version == start
    assert told(answer) == [(version, kind) for version, kind in whole if start <= version <= last]


@pytest.mark.section("Request Body")
@both_formats
def test_later_metadata_come_with_their_versions(stream: SharedTable, capabilities: str) -> None:
    answer = stream.query(capabilities, startingVersion=1)
    assert answer.metadata["version"] == 1
    assert [field["name"] for field in answer.fields] == ["id", "name", "amount"]
    assert [metadata["version"] for metadata in answer.historical_metadata] == [2, 3]
    after = stream.query(capabilities, startingVersion=4)
    assert after.metadata["version"] == 4
    assert [field["name"] for field in after.fields] == ["id", "name", "amount", "flag"]
    assert after.historical_metadata == []


@pytest.mark.parametrize("role", ["stream", "feed", "vectors", "mapped"])
def test_the_commits_one_after_the_other_make_the_snapshot(target: Target, role: str, tmp_path: Path) -> None:
    """Adds less removes; rearranging commits are not told, so that the table is read before them."""
    table = target.table(role)
    last = 5 if role == "stream" else table.version().version
    live: dict[str, File] = {}
    answer = table.query(DELTA, startingVersion=0, endingVersion=last)
    for version in range(last + 1):
        changed = [file for file in answer.files if file.body["version"] == version]
        for file in changed:
            if file.kind == "remove":
                live.pop(file.body["id"])
        live |= {file.body["id"]: file for file in changed if file.kind == "add"}
    snapshot = table.query(DELTA, version=last)
    assert set(live) == {file.body["id"] for file in snapshot.files}
    rebuilt = Answer(snapshot.response)
    rebuilt.__dict__["lines"] = [*snapshot.lines[:2], *({"file": file.body} for file in live.values())]
    assert snapshot_rows(rebuilt, tmp_path / "log") == table_rows(table.truth(), last)


@both_formats
def test_files_of_changes_are_not_for_streams(feed: SharedTable, capabilities: str) -> None:
    assert {kind for _, kind in told(feed.query(capabilities, startingVersion=0))} == {"add", "remove"}


@pytest.mark.section("Request Body", "Errors")
def test_ranges_that_make_no_sense_are_refused(stream: SharedTable) -> None:
    for body in (
        {"startingVersion": 8},
        {"startingVersion": -1},
        {"startingVersion": 0, "endingVersion": 8},
        {"startingVersion": 3, "endingVersion": 2},
        {"startingVersion": 0, "endingVersion": -1},
        {"startingVersion": 0, "version": 1},
        {"startingVersion": 0, "timestamp": "2026-01-01T00:00:00Z"},
    ):
        assert_refused(stream.query(**body), 400, "INVALID_PARAMETER_VALUE")


@pytest.mark.section("Later: historical protocol")
def test_protocols_come_with_their_versions_if_asked_for(target: Target) -> None:
    table = target.table("feed_later")
    asked = table.query(DELTA, startingVersion=1, includeHistoricalProtocol=True)
    assert asked.protocol["version"] == 1
    plain = table.query(DELTA, startingVersion=1)
    assert "version" not in plain.protocol
    assert not any("protocol" in line for line in plain.later_lines)
    later = [line["protocol"]["version"] for line in asked.later_lines if "protocol" in line]
    target.requires("a commit that changes the protocol", present=bool(later))
    assert later == [2]


@both_formats
def test_an_end_may_be_asked_for(stream: SharedTable, capabilities: str) -> None:
    answer = stream.query(capabilities + END, startingVersion=2, endingVersion=3)
    assert answer.end is not None
    assert len(answer.historical_metadata) == 1


@pytest.mark.section("Add File", "Remove File", "Data Change Files")
def test_a_file_that_was_removed_can_still_be_read(stream: SharedTable, tmp_path: Path) -> None:
    answer = stream.query(PARQUET, startingVersion=5, endingVersion=5)
    (removed,) = answer.files
    assert removed.kind == "remove"
    rows = snapshot_rows(answer, tmp_path / "log")
    assert [row[0] for row in rows] == [0, 1, 2, 3]
