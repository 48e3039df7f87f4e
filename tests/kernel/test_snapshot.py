"""Snapshots: state, time travel, refreshing."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeport import tables
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import CorruptTableError, TableNotFoundError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.kernel.expressions import col
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.testing.builder import TableBuilder, protocol, remove, rows, struct
from lakeport.testing.counting import counting_engine

ROOT = "memory:///t"


def new_table(**options: Any) -> TableBuilder:
    return TableBuilder(options.pop("engine", None) or memory_engine(), ROOT, struct(id="long"), **options)


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


# State


def test_a_table_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(TableNotFoundError, match="memory:///nowhere"):
        Table.for_path(memory_engine(), "memory:///nowhere").latest_snapshot()


def test_a_negative_version_is_a_bad_argument() -> None:
    with pytest.raises(ValueError, match="-1"):
        new_table().create().snapshot(-1)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_newest_transaction_and_domain_count(checkpoint: bool) -> None:
    def domain(name: str, text: str, removed: bool = False) -> dict[str, Any]:
        return {"domainMetadata": {"domain": name, "configuration": text, "removed": removed}}

    table = new_table().create({"txn": {"appId": "a", "version": 1}}, domain("x", "1"), domain("y", "1"))
    table.commit({"txn": {"appId": "b", "version": 7}}, domain("x", "2"), domain("z", "1"))
    if checkpoint:
        table.checkpoint()
    table.commit({"txn": {"appId": "a", "version": 0}}, domain("y", "", removed=True))
    snapshot = table.snapshot()
    assert [snapshot.transaction_version(app) for app in "abc"] == [0, 7, None]
    assert snapshot.domain_metadata == {"x": "2", "z": "1"}
    assert table.snapshot(0).domain_metadata == {"x": "1", "y": "1"}


def test_metadata_changes_with_the_versions() -> None:
    table = new_table().create()
    table.schema, table.properties = struct(id="long", more="string"), {"a": "b"}
    table.commit(table.metadata)
    assert table.snapshot(0).schema.names == ("id",)
    assert (table.snapshot().schema.names, table.snapshot().properties) == (("id", "more"), {"a": "b"})


def test_two_columns_of_one_name_are_an_error() -> None:
    with pytest.raises(CorruptTableError, match="two columns"):
        new_table(properties={}).__class__(memory_engine(), ROOT, struct(id="long", ID="long")).create().snapshot()


def test_a_partition_column_that_is_not_in_the_schema_is_an_error() -> None:
    with pytest.raises(CorruptTableError, match="'day'"):
        new_table(partition_by=["day"]).create().snapshot()


def test_a_partition_column_that_the_schema_spells_otherwise_is_an_error() -> None:
    """Partition values go by the name: its rows would be NULL."""
    with pytest.raises(CorruptTableError, match="the partition column 'ID' is not one of the columns 'id'"):
        new_table(partition_by=["ID"]).create().snapshot()


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_log_without_protocol_or_metadata_is_an_error(missing: str) -> None:
    table = new_table()
    table.commit(*(a for a in (table.protocol, table.metadata) if missing not in a))
    with pytest.raises(CorruptTableError, match=missing.lower()):
        table.snapshot()


@pytest.mark.parametrize("text", ["", "{", '{"metadata": 1}', "null", '{"protocol": {"minReaderVersion": 1}}'])
def test_a_checksum_that_is_not_whole_is_passed_over(text: str) -> None:
    table = new_table()
    table.create(table.add({"id": [1]}))
    table.write(table.log_file(f"{0:020d}.crc"), text)
    assert rows(table.snapshot()) == [(1,)]


@pytest.mark.parametrize("missing", ["schemaString", "partitionColumns", "configuration"])
def test_a_checksum_with_half_of_the_metadata_is_passed_over(missing: str) -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long", p="string"), ["p"], {"delta.appendOnly": "true"})
    table.create(table.add({"id": [1]}, {"p": "a"}))
    metadata = {key: value for key, value in table.metadata["metaData"].items() if key != missing}
    checksum = {"metadata": metadata, "protocol": table.protocol["protocol"]}
    table.write(table.log_file(f"{0:020d}.crc"), json.dumps(checksum))
    snapshot = table.snapshot()
    assert rows(snapshot) == [(1, "a")]
    assert snapshot.properties == {"delta.appendOnly": "true"}


def test_a_checksum_spares_the_log_for_protocol_and_metadata() -> None:
    engine, storage = counting_engine()
    table = new_table(engine=engine)
    table.create(table.add({"id": [1]}))
    checksum = {"metadata": table.metadata["metaData"], "protocol": table.protocol["protocol"]}
    table.write(table.log_file(f"{0:020d}.crc"), json.dumps(checksum))
    snapshot = table.snapshot()
    assert commit_name(0) not in storage.opened
    assert rows(snapshot) == [(1,)]


# Time


def on_disk(tmp_path: Path, times: list[int], **options: Any) -> TableBuilder:
    """A table whose commits were modified at these times."""
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(id="long"), **options)
    table.create()
    for version, ms in enumerate(times):
        if version:
            table.commit({"commitInfo": {"timestamp": 0}})
        os.utime(table.log_file(commit_name(version)), ns=(ms * 1_000_000, ms * 1_000_000))
    return table


def test_modification_times_that_go_back_are_pushed_forward(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [1000, 5000, 3000, 9000])
    at = table.table().version_at_timestamp
    assert [at(t) for t in (1000, 4999, 5000, 5001, 8999, 9000)] == [0, 0, 1, 2, 2, 3]
    assert [c.timestamp for c in table.snapshot().history()] == [9000, 5001, 5000, 1000]


def test_a_time_out_of_range_says_what_can_be_read(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [1000, 5000])
    for timestamp, relation in ((999, "earlier"), (5001, "later")):
        with pytest.raises(VersionNotFoundError, match=relation) as caught:
            table.table().snapshot_at_timestamp(timestamp)
        assert (caught.value.earliest, caught.value.latest) == (0, 1)


def test_a_datetime_without_a_zone_is_utc(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [0, 60_000])
    assert table.table().snapshot_at_timestamp(datetime(1970, 1, 1, 0, 0, 59, 999_999)).version == 0
    assert table.table().snapshot_at_timestamp(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)).version == 1


def test_a_time_before_the_oldest_commit_that_can_be_read_is_refused(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [1000, 2000, 3000, 4000])
    table.checkpoint(2)
    for version in (0, 1):
        os.unlink(table.log_file(commit_name(version)))
    assert table.table().version_at_timestamp(3500) == 2
    with pytest.raises(VersionNotFoundError, match="earlier"):
        table.table().version_at_timestamp(2500)


def enabled(at_version: int | None = None, at: int | None = None) -> dict[str, str]:
    properties = {"delta.enableInCommitTimestamps": "true"}
    if at_version is not None:
        properties["delta.inCommitTimestampEnablementVersion"] = str(at_version)
        properties["delta.inCommitTimestampEnablementTimestamp"] = str(at)
    return properties


def test_in_commit_timestamps_count_from_their_enablement_on(tmp_path: Path) -> None:
    # Modification times say 1000, 2000; from version 2 on commits say 10000, 11000, and were copied much later.
    table = on_disk(tmp_path, [1000, 2000])
    table.properties = enabled(2, 10_000)
    table.commit({"commitInfo": {"inCommitTimestamp": 10_000}}, table.metadata)
    table.commit({"commitInfo": {"inCommitTimestamp": 11_000}})
    at = table.table().version_at_timestamp
    assert [at(t) for t in (1000, 1999, 2000, 9999, 10_000, 10_999, 11_000)] == [0, 0, 1, 1, 2, 2, 3]
    assert [c.timestamp for c in table.snapshot().history()] == [11_000, 10_000, 2000, 1000]
    assert (table.snapshot().timestamp, table.snapshot(2).timestamp) == (11_000, 10_000)


def test_modification_times_after_the_enablement_do_not_matter(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [50_000, 60_000])  # copied: later than the enablement
    table.properties = enabled(2, 10_000)
    table.commit({"commitInfo": {"inCommitTimestamp": 10_000}}, table.metadata)
    assert table.table().version_at_timestamp(10_000) == 2
    with pytest.raises(VersionNotFoundError, match="earlier"):
        table.table().version_at_timestamp(9999)


@pytest.mark.parametrize("properties", [{}, enabled()])
def test_times_before_damaged_commits_can_be_read(tmp_path: Path, properties: dict[str, str]) -> None:
    table = on_disk(tmp_path, [], properties=properties)
    for version, ms in enumerate((1000, 2000, 3000)):
        info = {"commitInfo": {"inCommitTimestamp": ms}}
        table.commit(info, *(() if version else (table.protocol, table.metadata)), version=version)
    table.write(table.log_file(commit_name(3)), "{")
    for version in range(4):
        os.utime(table.log_file(commit_name(version)), (version + 1, version + 1))
    snapshot_at = table.table().snapshot_at_timestamp
    assert [snapshot_at(t).version for t in (1000, 1999, 2000, 3000)] == [0, 0, 1, 2]
    with pytest.raises(CorruptTableError):
        snapshot_at(4000)


def test_a_table_of_damaged_commits_alone_has_no_times(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [])
    table.write(table.log_file(commit_name(0)), "{")
    with pytest.raises(CorruptTableError):
        table.table().snapshot_at_timestamp(1000)


def test_a_commit_without_its_in_commit_timestamp_is_an_error() -> None:
    table = new_table(properties=enabled()).create()
    with pytest.raises(CorruptTableError, match="inCommitTimestamp"):
        _ = table.snapshot().timestamp


def test_a_version_whose_commit_is_cleaned_up_has_the_time_of_its_checkpoint(tmp_path: Path) -> None:
    table = on_disk(tmp_path, [1000])
    table.properties = enabled(1, 10_000)
    table.commit({"commitInfo": {"inCommitTimestamp": 10_000}}, table.metadata).checkpoint(1)
    checkpoint = table.snapshot().segment.checkpoint
    assert checkpoint is not None
    os.utime(checkpoint.files[0].path, (20, 20))
    for version in (0, 1):
        os.unlink(table.log_file(commit_name(version)))
    assert table.snapshot().timestamp == 20_000


def test_enablement_properties_that_are_no_numbers_are_an_error() -> None:
    table = new_table(properties=enabled() | {"delta.inCommitTimestampEnablementVersion": "soon"}).create()
    with pytest.raises(CorruptTableError, match="soon"):
        table.table().snapshot_at_timestamp(5)


@pytest.mark.parametrize("since", ["", "-1"])
def test_enablement_properties_may_say_that_it_was_always_on(since: str) -> None:
    none = {f"delta.inCommitTimestampEnablement{what}": since for what in ("Version", "Timestamp")}
    table = new_table(properties=enabled() | none).create({"commitInfo": {"inCommitTimestamp": 10_000}})
    assert table.table().version_at_timestamp(10_000) == 0


def test_history_tells_of_the_commits_newest_first() -> None:
    table = new_table().create({"commitInfo": {"operation": "CREATE", "operationParameters": {"a": [1, {"b": None}]}}})
    table.commit({"commitInfo": {"operation": "WRITE"}})
    table.commit()
    history = list(table.snapshot().history())
    assert [(c.version, c.operation) for c in history] == [(2, None), (1, "WRITE"), (0, "CREATE")]
    assert history[2].info["operationParameters"] == {"a": [1, {"b": None}]}
    assert [c.version for c in table.snapshot().history(limit=1)] == [2]


def test_history_does_not_depend_on_other_actions() -> None:
    table = new_table().create()
    lines = [
        r'{"add": {"path": "a.parquet", "tags": {"city": "Z\u00fcrich"}}}',  # without its size
        '{"commitInfo": {"operation": "WRITE"}}',
    ]
    table.write(table.log_file(commit_name(1)), "\n".join(lines))
    assert [c.operation for c in table.table().latest_snapshot().history()] == ["WRITE", None]
    assert [c.version for c in table.snapshot(1).history()] == [1, 0]


# Refreshing


def test_a_refresh_without_news_is_the_same_snapshot() -> None:
    snapshot = new_table().create().snapshot()
    assert snapshot.refresh() is snapshot


@pytest.mark.parametrize("checkpoint", [None, "classic", "v2-parquet-sidecars"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_refresh_opens_only_the_new_commits(checkpoint: str | None, listed: bool) -> None:
    engine, storage = counting_engine()
    table = new_table(engine=engine, protocol=protocol(features=["v2Checkpoint"]))
    adds = [table.add({"id": [i]}, name=f"{i}.parquet") for i in range(25)]
    table.create(adds[0])
    for add in adds[1:10]:
        table.commit(add)
    if checkpoint:
        table.checkpoint(form=checkpoint)
    table.commit(remove(adds[3]))
    old = table.snapshot()
    if listed:
        assert len(list(old.scan_builder().build().files())) == 9
    for i in range(10):
        table.commit(adds[10 + i], remove(adds[i + 5]))
    storage.opened.clear()
    snapshot = old.refresh()
    new_commits = sorted(commit_name(v) for v in range(11, 21))
    assert (snapshot.version, sorted(storage.opened)) == (20, new_commits)
    names = {Path(f.path).name for f in snapshot.scan_builder().build().files()}
    assert names == {f"{i}.parquet" for i in (0, 1, 2, 4, *range(15, 20))}
    if listed:
        assert sorted(storage.opened) == new_commits
    assert not any(name.endswith(".parquet") and name[0].isdigit() and len(name) < 12 for name in storage.opened)
    assert rows(snapshot) == rows(table.snapshot())
    assert len(list(old.scan_builder().build().files())) == 9


def test_a_refresh_sees_new_metadata_and_protocol() -> None:
    table = new_table()
    table.create(table.add({"id": [1]}))
    old = table.snapshot()
    table.schema = struct(id="long", more="string")
    table.commit(table.metadata, protocol(features=["deletionVectors"]))
    table.commit(table.add({"id": [2], "more": ["x"]}))
    new = old.refresh()
    assert rows(new) == [(1, None), (2, "x")]
    assert new.protocol.min_reader_version == 3
    assert rows(old) == [(1,)]


def test_a_refresh_refuses_a_table_that_a_catalog_has_taken_over() -> None:
    table = new_table().create()
    snapshot = table.snapshot()
    table.commit(protocol(features=["catalogManaged"]))
    with pytest.raises(UnsupportedFeatureError, match="catalog"):
        snapshot.refresh()
    managed = Table.for_path(table.engine, ROOT, max_catalog_version=1).latest_snapshot()
    table.commit(table.add({"id": [1]}))
    assert rows(managed.refresh()) == [(1,)]


def test_a_refresh_sees_new_transactions_and_domains() -> None:
    table = new_table().create({"txn": {"appId": "a", "version": 1}})
    old = table.snapshot()
    table.commit({"txn": {"appId": "a", "version": 2}}, {"domainMetadata": {"domain": "d", "configuration": "1"}})
    new = old.refresh()
    assert (new.transaction_version("a"), new.domain_metadata) == (2, {"d": "1"})
    assert (old.transaction_version("a"), old.domain_metadata) == (1, {})


@pytest.mark.parametrize("listed", [True, False])
def test_a_refresh_survives_a_clean_up_of_the_log(tmp_path: Path, listed: bool) -> None:
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long"))
    add = table.add({"id": [1]})
    table.create(add)
    old = table.snapshot()
    if listed:
        assert rows(old) == [(1,)]
    table.commit(table.add({"id": [2]}))
    table.commit(remove(add), table.add({"id": [3]}))
    table.checkpoint()
    table.commit(table.add({"id": [4]}))
    for version in (0, 1, 2):
        os.unlink(table.log_file(commit_name(version)))
    new = old.refresh()
    assert (new.version, rows(new)) == (3, [(2,), (3,), (4,)])


def test_refreshes_can_follow_each_other() -> None:
    table = new_table()
    table.create(table.add({"id": [0]}))
    snapshot = table.snapshot()
    for i in range(1, 6):
        table.commit(table.add({"id": [i]}))
        snapshot = snapshot.refresh()
        if i % 2:
            assert rows(snapshot) == [(k,) for k in range(i + 1)]
    assert rows(snapshot) == [(k,) for k in range(6)]


def test_a_snapshot_that_nobody_reads_can_be_refreshed_any_number_of_times() -> None:
    table = new_table()
    adds = [table.add({"id": [i]}) for i in range(3)]
    snapshot = table.create(*adds).snapshot()
    table.commit(remove(adds[1]))
    for i in range(1200):
        table.commit({"commitInfo": {}} if i else table.add({"id": [9]}))
        snapshot = snapshot.refresh()
    assert rows(snapshot) == [(0,), (2,), (9,)]


# Planning


@pytest.mark.parametrize("checkpoint", [None, "classic", "parts", "v2-json-sidecars"])
def test_planning_opens_no_data_file(checkpoint: str | None) -> None:
    engine, storage = counting_engine()
    table = new_table(engine=engine)
    adds = [table.add({"id": [i]}, name=f"data-{i}.parquet") for i in range(4)]
    deleted = table.delete(adds[0], [0])
    table.create(*adds).commit(*deleted)
    if checkpoint:
        table.checkpoint(form=checkpoint)
    table.commit(table.add({"id": [9]}, name="data-9.parquet"))
    storage.opened.clear()
    scan = table.snapshot().scan_builder().with_filter(col("id") >= 2).with_stats().build()
    assert len(list(scan.files())) == 3
    assert scan.scan_state.to_bytes()
    assert storage.opened
    assert not any(name.startswith("data-") or name.endswith(".bin") for name in storage.opened)


@pytest.mark.parametrize("commits", [1, 2, 3, 5])
def test_a_refresh_notices_that_another_table_has_taken_the_place(tmp_path: Path, commits: int) -> None:
    """With fewer versions, as many, or more than the old table had: commits are never put on top of another table's."""

    def table(value: str, versions: int) -> None:
        tables.create(tmp_path / "t", {"x": [value]})
        for _ in range(versions - 1):
            tables.append(tmp_path / "t", {"x": [value]})

    def files(snapshot: Snapshot) -> set[str]:
        return {file.path for file in snapshot.scan_builder().build().files()}

    table("old", 3)
    snapshot = Table.for_path(default_engine(), str(tmp_path / "t")).latest_snapshot()
    assert snapshot.refresh() is snapshot
    old = files(snapshot)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        snapshot.refresh()
    table("new", commits)
    newer = snapshot.refresh()
    assert newer.version == commits - 1
    new = files(newer)
    assert len(new) == commits
    assert old.isdisjoint(new)
