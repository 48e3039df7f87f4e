"""`lakeport changes`."""

from pathlib import Path

import pytest

from lakeport.engine import default_engine
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.cli.conftest import Run

LATE = 4_000_000_000_000
"""In-commit timestamps: a second apart, from the year 2096 on."""


@pytest.fixture
def events(tmp_path: Path) -> str:
    """Version 0: two rows; 1: an update of one; 2: one deleted by a vector."""
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"}
    features = protocol(features=["deletionVectors"], writer_only=["changeDataFeed", "inCommitTimestamp"])
    table = TableBuilder(
        default_engine(), str(tmp_path / "events"), struct(id="long", name="string"), (), properties, features
    )
    stamps = [{"commitInfo": {"inCommitTimestamp": LATE + 1000 * version}} for version in range(3)]
    first = table.add({"id": [1, 2], "name": ["a", "b"]})
    second = table.add({"id": [3], "name": ["c"]})
    table.create(stamps[0], first)
    cdc = table.cdc({"id": [2, 3], "name": ["b", "c"]}, ["update_preimage", "update_postimage"])
    table.commit(stamps[1], *table.delete(first, [1]), second, cdc)
    table.commit(stamps[2], *table.delete(second, [0]))
    return table.root


def test_changes_prints_a_table(lakeport: Run, events: str) -> None:
    lines = lakeport("changes", events, "--start-version", 1).out.splitlines()
    assert lines[0].split() == ["id", "name", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [line.split()[2:4] for line in lines[2:]] == [
        ["update_preimage", "1"],
        ["update_postimage", "1"],
        ["delete", "2"],
    ]


def test_changes_prints_json_with_the_columns_and_rows_asked_for(lakeport: Run, events: str) -> None:
    options = ("--columns", "_change_type,id,_commit_timestamp", "--where", "_commit_version <> 1", "--json")
    result = lakeport("changes", events, "--start-version", 0, *options)
    assert result.documents == [
        {"_change_type": "insert", "id": 1, "_commit_timestamp": "2096-10-02T07:06:40Z"},
        {"_change_type": "insert", "id": 2, "_commit_timestamp": "2096-10-02T07:06:40Z"},
        {"_change_type": "delete", "id": 3, "_commit_timestamp": "2096-10-02T07:06:42Z"},
    ]
    assert len(lakeport("changes", events, "--start-version", 0, "-n", 2, "--json").documents) == 2


def test_changes_takes_times(lakeport: Run, events: str) -> None:
    times = ("--start-timestamp", "2096-10-02T07:06:40.001Z", "--end-timestamp", "2096-10-02T07:06:41")
    assert [row["_commit_version"] for row in lakeport("changes", events, *times, "--json").documents] == [1, 1]
    mixed = ("--start-version", 1, "--end-timestamp", "2096-10-02T07:06:41.999+00:00")
    assert [row["_commit_version"] for row in lakeport("changes", events, *mixed, "--json").documents] == [1, 1]


def test_changes_says_what_is_wrong(lakeport: Run, events: str, orders: str) -> None:
    missing = lakeport("changes", events)
    assert (missing.code, missing.out) == (2, "")
    assert "pass either a start version or a start timestamp" in missing.err
    off = lakeport("changes", orders, "--start-version", 0)
    assert (off.code, off.out) == (1, "")
    assert "the change data feed is off at version 0" in off.err
    assert len(off.err.splitlines()) == 1
