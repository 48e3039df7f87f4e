"""The source of a stream, asked as Spark asks it. `test_queries` runs it in Spark."""

import json
import pickle
import shutil
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

import lakeport
from lakeport import tables
from lakeport.errors import ChangeFeedError, SharingError, StreamError, VersionNotFoundError
from lakeport.kernel.log import format_time
from lakeport.spark.stream import reader as stream
from lakeport.spark.stream.reader import TableStreamReader
from tests.client.provider import NAME, DataFile, Shared, providing, schema
from tests.client.shares import profile_text
from tests.properties import FEED, VECTORS
from tests.server.running import Running
from tests.spark.streaming import Checkpoint, Followed, Row, files_between, following, ids, requests_to

SHARED = "deltaSharing"


@pytest.fixture(params=["lakeport", SHARED])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def served(kind: str, tmp_path: Path) -> Iterator[tuple[Followed, Running | None]]:
    with following(kind, tmp_path) as found:
        yield found


@pytest.fixture
def events(served: tuple[Followed, Running | None]) -> Followed:
    return served[0]


def event(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "day": f"2026-01-{number % 28 + 1:02d}"} for number in numbers]


def create(table: Followed, *numbers: int, **properties: str) -> None:
    tables.create(table.path, event(*numbers), properties=properties)


def append(table: Followed, *numbers: int) -> None:
    tables.append(table.path, event(*numbers))


def test_a_stream_has_the_rows_of_the_table_and_then_those_that_are_added(events: Followed) -> None:
    create(events, 1, 2)
    append(events, 3)
    checkpoint = Checkpoint()
    assert ids(checkpoint.run(events.reader())) == [1, 2, 3]
    append(events, 4)
    append(events, 5, 6)
    assert ids(checkpoint.run(events.reader())) == [4, 5, 6]
    assert checkpoint.run(events.reader()) == []


def test_what_is_added_while_a_stream_runs_comes_in_its_next_batch(tmp_path: Path) -> None:
    with following("lakeport", tmp_path) as (events, _):
        create(events, 1)
        checkpoint, reader = Checkpoint(), events.reader()
        assert ids(checkpoint.run(reader)) == [1]
        for number in range(2, 5):
            append(events, number)
            assert ids(checkpoint.run(reader)) == [number]


def test_the_offset_after_a_snapshot_is_before_the_next_version(events: Followed) -> None:
    create(events, 1)
    append(events, 2)
    checkpoint = Checkpoint()
    checkpoint.run(events.reader())
    table_id = lakeport.scan(events.path).snapshot.metadata.id
    shape = {"sourceVersion": 1, "tableId": table_id}
    assert checkpoint.last == {**shape, "tableVersion": 2, "index": -1, "isStartingVersion": False}


def test_batches_have_as_many_files_as_they_may(events: Followed) -> None:
    create(events, 0)
    for number in range(1, 5):
        append(events, number)
    checkpoint = Checkpoint()
    snapshot = [ids(batch) for batch in checkpoint.batches(events.reader(maxFilesPerTrigger=2))]
    assert [len(batch) for batch in snapshot] == [2, 2, 1]
    assert sorted(chain(*snapshot)) == [0, 1, 2, 3, 4]
    append(events, 5)
    append(events, 6)
    append(events, 7)
    assert [ids(batch) for batch in checkpoint.batches(events.reader(maxFilesPerTrigger=2))] == [[5, 6], [7]]


def test_batches_have_as_many_bytes_as_they_may(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    append(events, 2)
    size = max(file.size for file in lakeport.scan(events.path).files())
    found = [ids(batch) for batch in Checkpoint().batches(events.reader(maxBytesPerTrigger=size + 1))]
    assert [len(batch) for batch in found] == [2, 1]
    assert [len(batch) for batch in Checkpoint().batches(events.reader(maxBytesPerTrigger=1))] == [1, 1, 1]


def test_a_batch_has_no_more_than_one_call_brings(events: Followed) -> None:
    create(events, 0)
    for number in range(1, 6):
        append(events, number)
    options: dict[str, Any] = {"startingVersion": 1, "maxFilesPerTrigger": 100}
    if events.sharing:
        options |= {"maxVersionsPerRpc": 2}
        assert [ids(b) for b in Checkpoint().batches(events.reader(**options))] == [[1, 2], [3, 4], [5]]
    else:
        assert [ids(b) for b in Checkpoint().batches(events.reader(**options))] == [[1, 2, 3, 4, 5]]


def test_a_batch_without_limits_has_everything(events: Followed) -> None:
    create(events, 0)
    for number in range(1, 6):
        append(events, number)
    options = {"maxFilesPerTrigger": 1} | ({"maxVersionsPerRpc": 1} if events.sharing else {})
    batches = list(Checkpoint().batches(events.reader(**options), ReadAllAvailable()))
    assert [ids(batch) for batch in batches] == [[0, 1, 2, 3, 4, 5]]


def test_the_limit_that_spark_is_told_is_that_of_the_options(tmp_path: Path) -> None:
    events = Followed(str(tmp_path), str(tmp_path), sharing=False)
    create(events, 0)
    assert events.reader().getDefaultReadLimit() == ReadMaxFiles(1000)
    assert events.reader(maxBytesPerTrigger="2k").getDefaultReadLimit() == ReadMaxBytes(2048)
    assert events.reader(maxBytesPerTrigger="2k", maxFilesPerTrigger=3).getDefaultReadLimit() == ReadMaxFiles(3)


def test_spark_that_passes_no_offset_goes_on_where_it_was(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    append(events, 2)
    reader = events.reader(maxFilesPerTrigger=2)
    start = reader.initialOffset()
    first = reader.latestOffset()
    assert reader.latestOffset() == first
    reader.partitions(start, first)
    second = reader.latestOffset()
    assert second != first
    again = events.reader(maxFilesPerTrigger=2)
    again.partitions(first, first)  # what Spark 4.1 does when it starts again
    assert again.latestOffset() == second


def test_a_new_reader_plans_the_same_batches(events: Followed) -> None:
    tables.create(events.path, event(*range(20)), partition_by=["day"])
    append(events, *range(20, 40))
    tables.optimize(events.path)
    append(events, 41)
    checkpoint, planned = Checkpoint(), []
    reader = events.reader(maxFilesPerTrigger=3, startingVersion=0)
    for start, end in _pairs(checkpoint, reader):
        planned.append((start, end, files_between(reader, start, end)))
    assert sum(len(files) for _, _, files in planned) == 41
    for start, end, files in planned:
        assert files_between(events.reader(), start, end) == files


def test_a_snapshot_has_the_same_order_whenever_it_is_asked_for(events: Followed) -> None:
    tables.create(events.path, event(*range(28)), partition_by=["day"])
    checkpoint = Checkpoint()
    batches = []
    for _ in range(20):  # a new reader for each batch
        batches.append(ids(next(checkpoint.batches(events.reader(maxFilesPerTrigger=3)))))
        append(events, 100 + len(batches))
    snapshot, later = [b for b in batches if b[0] < 100], [b for b in batches if b[0] >= 100]
    assert sorted(chain(*snapshot)) == list(range(28))
    assert [len(batch) for batch in snapshot] == [3] * 9 + [1]
    assert sorted(chain(*later)) == [101 + number for number in range(sum(map(len, later)))]


def _pairs(checkpoint: Checkpoint, reader: TableStreamReader) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        yield start, end
        start = end


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}], ids=["snapshot", "latest"])
def test_a_first_batch_that_is_done_again_after_a_restart_is_the_same(
    events: Followed, options: dict[str, Any]
) -> None:
    create(events, 0, 1)
    first = events.reader(**options)
    start = first.initialOffset()
    append(events, 2)
    end = first.latestOffset(start, first.getDefaultReadLimit())
    expected = files_between(first, start, end)
    append(events, 3)
    tables.delete(events.path, "id = 1")
    again = events.reader(**options)
    assert files_between(again, again.initialOffset(), end) == expected
    rows = Checkpoint([json.dumps(end)]).run(events.reader(**options, skipChangeCommits=True))
    assert ids(rows) == [2, 3]


def test_a_first_batch_within_a_snapshot_is_the_same_after_a_restart(events: Followed) -> None:
    tables.create(events.path, event(*range(8)), partition_by=["day"])
    first = events.reader(maxFilesPerTrigger=3)
    start = first.initialOffset()
    end = first.latestOffset(start, first.getDefaultReadLimit())
    expected = files_between(first, start, end)
    tables.optimize(events.path)
    append(events, 9)
    again = events.reader()
    assert files_between(again, again.initialOffset(), end) == expected
    assert len(expected) == 3


def test_a_stream_starts_at_a_version(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    append(events, 2)
    assert ids(Checkpoint().run(events.reader(startingVersion=1))) == [1, 2]
    assert ids(Checkpoint().run(events.reader(startingVersion=0))) == [0, 1, 2]
    assert ids(Checkpoint().run(events.reader(startingVersion=3))) == []


def test_a_stream_starts_after_what_there_is(events: Followed) -> None:
    create(events, 0)
    checkpoint = Checkpoint()
    assert checkpoint.run(events.reader(startingVersion="latest")) == []
    append(events, 1)
    assert ids(checkpoint.run(events.reader(startingVersion="latest"))) == [1]


def test_a_stream_starts_at_a_time(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    append(events, 2)
    times = {commit.version: commit.timestamp for commit in lakeport.scan(events.path).history()}
    assert ids(Checkpoint().run(events.reader(startingTimestamp=format_time(times[1])))) == [1, 2]


def test_a_version_that_is_to_come_is_no_start(events: Followed) -> None:
    create(events, 0)
    with pytest.raises(VersionNotFoundError, match="cannot start at version 7: the latest one is 0"):
        events.reader(startingVersion=7).initialOffset()


def test_rows_that_optimize_moved_do_not_come_again(events: Followed) -> None:
    create(events, 0, **VECTORS)
    append(events, 1)
    append(events, 2)
    checkpoint = Checkpoint()
    checkpoint.run(events.reader())
    tables.optimize(events.path)
    append(events, 3)
    assert ids(checkpoint.run(events.reader())) == [3]


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["rewriting", "vectors"])
def test_an_update_stops_the_stream_after_what_came_before_it(events: Followed, properties: dict[str, str]) -> None:
    create(events, 0, 1, 2, **properties)
    checkpoint = Checkpoint()
    checkpoint.run(events.reader())
    append(events, 3)
    tables.delete(events.path, "id = 1")
    append(events, 4)
    found: list[Row] = []
    with pytest.raises(StreamError, match=r"version 2 updates or deletes rows .* skipChangeCommits") as error:
        checkpoint.run(events.reader(), found)
    assert (ids(found), error.value.version) == ([3], 2)
    assert ids(Checkpoint(checkpoint.offsets[:]).run(events.reader(skipChangeCommits=True))) == [4]
    assert ids(Checkpoint(checkpoint.offsets[:]).run(events.reader(ignoreChanges=True))) == [0, 2, 4]
    with pytest.raises(StreamError, match="version 2"):
        Checkpoint(checkpoint.offsets[:]).run(events.reader(ignoreDeletes=True))


def test_a_delete_of_whole_files_stops_the_stream_unless_deletes_are_ignored(events: Followed) -> None:
    create(events, 0)
    checkpoint = Checkpoint()
    checkpoint.run(events.reader())
    tables.delete(events.path)
    append(events, 1)
    with pytest.raises(StreamError, match=r"version 1 deletes files .* ignoreDeletes"):
        checkpoint.run(events.reader())
    for option in ("ignoreDeletes", "ignoreChanges", "skipChangeCommits"):
        assert ids(Checkpoint(checkpoint.offsets[:]).run(events.reader(**{option: True}))) == [1]


def test_a_new_column_stops_the_stream_which_goes_on_with_it(events: Followed) -> None:
    create(events, 0)
    checkpoint, running = Checkpoint(), events.reader()
    checkpoint.run(running)
    append(events, 1)
    tables.add_columns(events.path, "note string")
    tables.append(events.path, [{"id": 2, "day": "2026-01-01", "note": "new"}])
    if not events.sharing:
        found: list[Row] = []
        with pytest.raises(StreamError, match="version 2 changed the schema: the column 'note' was added"):
            checkpoint.run(running, found)
        assert ids(found) == [1]
    rows = checkpoint.run(events.reader())
    assert {row["id"]: row["note"] for row in rows if row["id"] > 1} == {2: "new"}


def test_of_a_stream_of_some_columns_other_columns_may_change(tmp_path: Path) -> None:
    events = Followed(str(tmp_path / "events"), str(tmp_path / "events"), sharing=False)
    create(events, 0)
    reader, checkpoint = events.reader(columns="id"), Checkpoint()
    assert checkpoint.run(reader) == [{"id": 0}]
    tables.add_columns(events.path, "note string")
    tables.append(events.path, [{"id": 2, "day": "2026-01-01", "note": "new"}])
    assert checkpoint.run(reader) == [{"id": 2}]


def test_versions_from_before_a_column_was_added_have_nulls_in_it(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    tables.add_columns(events.path, "note string")
    tables.append(events.path, [{"id": 2, "day": "2026-01-01", "note": "new"}])
    rows = Checkpoint().run(events.reader(startingVersion=0))
    assert {row["id"]: row["note"] for row in rows} == {0: None, 1: None, 2: "new"}


def test_a_renamed_column_stops_a_running_stream(tmp_path: Path) -> None:
    events = Followed(str(tmp_path / "events"), str(tmp_path / "events"), sharing=False)
    create(events, 0, **{"delta.columnMapping.mode": "name"})
    checkpoint, reader = Checkpoint(), events.reader()
    checkpoint.run(reader)
    tables.rename_column(events.path, "day", "date")
    tables.append(events.path, [{"id": 1, "date": "2026-01-01"}])
    with pytest.raises(StreamError, match="version 1 changed the schema: the column 'day' was dropped or renamed"):
        checkpoint.run(reader)
    assert checkpoint.run(events.reader()) == [{"id": 1, "date": "2026-01-01"}]


def test_a_table_that_was_replaced_is_another_table(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    checkpoint = Checkpoint()
    checkpoint.run(events.reader())
    shutil.rmtree(events.path)
    create(events, 5)
    for _ in range(4):
        append(events, 6)
    with pytest.raises(StreamError, match="the table was replaced"):
        checkpoint.run(events.reader())


def test_a_table_that_is_replaced_while_the_stream_runs_is_noticed(tmp_path: Path) -> None:
    events = Followed(str(tmp_path / "events"), str(tmp_path / "events"), sharing=False)
    for more in (0, 5):
        create(events, 0)
        append(events, 1)
        append(events, 2)
        checkpoint, reader = Checkpoint(), events.reader()
        checkpoint.run(reader)
        shutil.rmtree(events.path)
        create(events, 5)
        for _ in range(more):
            append(events, 6)
        with pytest.raises(StreamError, match="replaced"):
            checkpoint.run(reader)
        shutil.rmtree(events.path)


def test_a_shared_table_that_is_replaced_while_the_stream_runs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_INTERVAL_SECONDS", 0)
    profile = tmp_path / "config.share"
    shared = Shared(schema(id="long"), [DataFile("1", pa.table({"id": [1]}))], version=5)
    with providing(shared) as provider:
        profile.write_text(profile_text(provider.server.url))
        checkpoint, reader = Checkpoint(), Followed("", f"{profile}#{NAME}", sharing=True).reader()
        assert checkpoint.run(reader) == [{"id": 1}]
        shared.version = 0
        assert checkpoint.run(reader) == []  # a server that is behind
        shared.id = "another-table"
        with pytest.raises(StreamError, match="replaced"):
            checkpoint.run(reader)


def test_changes_of_a_table_come_as_a_stream(events: Followed) -> None:
    create(events, 0, 1, **FEED)
    checkpoint = Checkpoint()
    snapshot = checkpoint.run(events.reader(readChangeFeed=True))
    assert {(r["id"], r["_change_type"], r["_commit_version"]) for r in snapshot} == {
        (0, "insert", 0),
        (1, "insert", 0),
    }
    append(events, 2)
    tables.update(events.path, {"day": "'later'"}, "id = 1")
    tables.delete(events.path, "id = 0")
    rows = checkpoint.run(events.reader(readChangeFeed=True))
    assert sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in rows) == [
        (1, "insert", 2),
        (2, "update_postimage", 1),
        (2, "update_preimage", 1),
        (3, "delete", 0),
    ]


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["rewriting", "vectors"])
def test_changes_from_a_version_on_are_those_of_the_feed(events: Followed, properties: dict[str, str]) -> None:
    create(events, *range(10), **properties)
    append(events, 10, 11)
    tables.update(events.path, {"day": "'later'"}, "id % 3 = 1")
    tables.delete(events.path, "id % 5 = 0")
    tables.optimize(events.path)
    append(events, 12)
    columns = ("id", "day", "_change_type", "_commit_version")
    feed = lakeport.scan(events.path).changes(1).to_arrow().to_pylist()
    rows = Checkpoint().run(events.reader(readChangeFeed=True, startingVersion=1, maxFilesPerTrigger=1))
    assert sorted(tuple(row[c] for c in columns) for row in rows) == sorted(
        tuple(row[c] for c in columns) for row in feed
    )


def test_the_changes_of_an_update_come_in_one_batch(events: Followed) -> None:
    tables.create(events.path, event(*range(6)), partition_by=["day"], properties=FEED)
    tables.update(events.path, {"id": "id + 100"})
    reader = events.reader(readChangeFeed=True, startingVersion=1, maxFilesPerTrigger=1)
    batches = list(Checkpoint().batches(reader))
    assert [len(batch) for batch in batches if batch] == [12]


def test_where_the_feed_is_off_the_changes_stop(events: Followed) -> None:
    create(events, 0, **FEED)
    append(events, 1)
    tables.set_properties(events.path, {"delta.enableChangeDataFeed": "false"})
    found: list[Row] = []
    with pytest.raises(SharingError if events.sharing else ChangeFeedError, match="change data feed"):
        Checkpoint().run(events.reader(readChangeFeed=True, startingVersion=0), found)
    assert ids(found) == [0, 1]


def test_what_comes_after_the_start_of_a_run_is_left_for_the_next(events: Followed) -> None:
    create(events, 0)
    reader = events.reader()
    reader.prepareForTriggerAvailableNow()
    append(events, 1)
    checkpoint = Checkpoint()
    assert ids(checkpoint.run(reader)) == [0]
    append(events, 2)
    again = events.reader()
    again.prepareForTriggerAvailableNow()
    assert ids(checkpoint.run(again)) == [1, 2]


def test_the_newest_offset_is_reported(events: Followed) -> None:
    create(events, 0)
    append(events, 1)
    reader = events.reader(maxFilesPerTrigger=1)
    reader.initialOffset()
    report = reader.reportLatestOffset()
    assert (report["tableVersion"], report["index"], report["isStartingVersion"]) == (2, -1, False)


def test_a_snapshot_is_asked_for_once_however_many_batches_it_has(tmp_path: Path) -> None:
    with following(SHARED, tmp_path) as (events, server):
        assert server is not None
        tables.create(events.path, event(*range(28)), partition_by=["day"])
        reader = events.reader(maxFilesPerTrigger=2)
        before = requests_to(server)
        assert len(list(Checkpoint().batches(reader))) == 14
        asked = requests_to(server) - before
        assert asked == {"queryTable": 1, "getTableMetadata": 1, "file": 28}


def test_the_version_of_a_shared_table_is_asked_for_once_in_an_interval(tmp_path: Path) -> None:
    with following(SHARED, tmp_path) as (events, server):
        assert server is not None
        create(events, 0)
        reader, checkpoint = events.reader(), Checkpoint()
        checkpoint.run(reader)
        before = requests_to(server)
        append(events, 1)
        for _ in range(20):
            assert checkpoint.run(reader) == []
        assert requests_to(server) - before == {}


def test_urls_that_have_expired_are_asked_for_once_before_tasks_get_them(tmp_path: Path) -> None:
    with following(SHARED, tmp_path, pre_signed_url_timeout_seconds=2) as (events, server):
        assert server is not None
        tables.create(events.path, event(*range(12)), partition_by=["day"])
        reader = events.reader(maxFilesPerTrigger=4)
        batches = Checkpoint().batches(reader)
        found = ids(next(batches))
        time.sleep(2.5)
        before = requests_to(server)
        for batch in batches:
            found += ids(batch)
        assert sorted(found) == list(range(12))
        assert requests_to(server) - before == {"queryTable": 1, "file": 8}


def test_the_interval_is_an_option_by_the_name_of_the_setting(tmp_path: Path) -> None:
    with following(SHARED, tmp_path) as (events, _):
        create(events, 0)
        name = "spark.delta.sharing.streaming.queryTableVersionIntervalSeconds"
        assert events.reader(**{name: 12})._options.query_table_version_interval_seconds == 12
        with pytest.raises(ValueError, match="must be 10 or more"):
            events.reader(**{name: 9})


def test_what_was_committed_is_forgotten(tmp_path: Path) -> None:
    with following(SHARED, tmp_path) as (events, _):
        create(events, 0)
        for number in range(1, 10):
            append(events, number)
        reader = events.reader(startingVersion=0, maxVersionsPerRpc=1)
        storage: Any = reader._source.engine.storage
        kept = []
        for _ in Checkpoint().batches(reader):
            kept.append((len(storage._logs), len(storage._files)))
        assert len(kept) == 10
        assert kept[-1] <= kept[1]
        assert len(storage._files) <= 1


def test_a_reader_travels_without_the_profile_and_shows_no_url(tmp_path: Path) -> None:
    with following(SHARED, tmp_path) as (events, _):
        create(events, 0)
        reader = events.reader()
        start = reader.initialOffset()
        [part] = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        assert len(pickle.dumps(reader)) < 200
        assert repr(part) == "StreamPartition(1 files)"


def test_an_offset_beyond_a_version_is_not_passed_over(events: Followed) -> None:
    create(events, 0)
    reader = events.reader(startingVersion=0)
    start = reader.initialOffset()
    with pytest.raises(StreamError, match=r"has read 4 files of version 0, which now has only 1"):
        reader.partitions(start, {**start, "index": 3})


@pytest.mark.parametrize("option", ["versionAsOf", "endingVersion"])
def test_options_of_a_batch_are_refused(tmp_path: Path, option: str) -> None:
    events = Followed(str(tmp_path / "events"), str(tmp_path / "events"), sharing=False)
    create(events, 0, **FEED)
    with pytest.raises(ValueError, match="a stream"):
        events.reader(**{option: 0}).initialOffset()
