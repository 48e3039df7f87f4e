"""The change data feed: which rows the commits of a range inserted, updated and deleted."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport.engine import default_engine, memory_engine
from lakeport.errors import ChangeFeedError, CorruptTableError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.frame import Changes
from lakeport.kernel.changes import (
    ChangeFile,
    ChangeState,
    first_version_since,
    last_version_until,
    table_changes,
    table_changes_between,
    transform_change_data,
)
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.testing.builder import Action, TableBuilder, mapped, protocol, remove, struct, to_table
from lakeport.testing.counting import counting_engine
from lakeport.workers.reading import RowReader, read_rows
from tests.properties import FEED

ROOT = "memory:///t"
VECTORS = protocol(features=["deletionVectors"], writer_only=["changeDataFeed"])
LONG, STRING = PrimitiveType("long"), PrimitiveType("string")


def builder(schema: StructType | None = None, engine: Engine | None = None, **options: Any) -> TableBuilder:
    """A table of `id` and `name` with the feed on."""
    options["properties"] = FEED | options.get("properties", {})
    options.setdefault("protocol", VECTORS)
    return TableBuilder(engine or memory_engine(), ROOT, schema or struct(id="long", name="string"), **options)


def feed(table: TableBuilder, start: int = 0, end: int | None = None) -> Changes:
    return lakeport.scan(table.root, engine=table.engine).changes(start, end)


def found(view: Changes, *columns: str) -> list[tuple[Any, ...]]:
    """The changes as sorted tuples: version, type, and these columns."""
    rows = view.select("_commit_version", "_change_type", *columns or ("id",)).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)


def removal(add: Action) -> Action:
    """A remove that says all that it can, as most writers do."""
    extra = {key: add["add"][key] for key in ("partitionValues", "size")}
    return {"remove": remove(add)["remove"] | extra | {"extendedFileMetadata": True}}


def quietly(action: Action) -> Action:
    (kind,) = action
    return {kind: action[kind] | {"dataChange": False}}


# What a commit changed


def test_added_files_are_inserted_and_removed_files_deleted_from_the_first_version_on() -> None:
    table = builder()
    first = table.add({"id": [1, 2], "name": ["a", None]})
    table.create(first).commit(table.add({"id": [3]})).commit(remove(first), table.add({"id": [4]}))
    assert found(feed(table)) == [
        *((0, "insert", 1), (0, "insert", 2), (1, "insert", 3)),
        *((2, "delete", 1), (2, "delete", 2), (2, "insert", 4)),
    ]
    assert found(feed(table, 1, 1), "id", "name") == [(1, "insert", 3, None)]


def test_the_schema_is_that_of_the_last_version_and_the_columns_of_the_change() -> None:
    table = builder().create()
    expected = [("id", pa.int64()), ("name", pa.string()), ("_change_type", pa.string())]
    expected += [("_commit_version", pa.int64()), ("_commit_timestamp", pa.timestamp("us", "UTC"))]
    assert feed(table).schema == pa.schema(expected)
    assert feed(table).to_arrow().schema == feed(table).schema


def test_cdc_files_are_all_the_changes_of_their_commit() -> None:
    table = builder()
    old, new = table.add({"id": [1, 2]}), table.add({"id": [1, 3]})
    table.create(old)
    changed = table.cdc({"id": [2, 3]}, ["update_preimage", "update_postimage"])
    table.commit(remove(old), new, changed, table.cdc({"id": [9]}, ["delete"]))
    assert found(feed(table, 1)) == [(1, "delete", 9), (1, "update_postimage", 3), (1, "update_preimage", 2)]


def test_a_cdc_file_without_change_types_is_corrupt() -> None:
    table = builder().create()
    action = table.add({"id": [1]})["add"]
    table.commit({"cdc": {key: action[key] for key in ("path", "partitionValues", "size")} | {"dataChange": False}})
    with pytest.raises(CorruptTableError, match="_change_type"):
        feed(table).to_arrow()
    assert feed(table).select("id").to_arrow().to_pylist() == [{"id": 1}]


def test_actions_that_only_rearrange_rows_are_not_changes() -> None:
    table = builder()
    first, second = table.add({"id": [1]}), table.add({"id": [2]})
    table.create(first, second)
    table.commit(quietly(remove(first)), quietly(remove(second)), quietly(table.add({"id": [1, 2]})))
    assert found(feed(table)) == [(0, "insert", 1), (0, "insert", 2)]


def test_a_stray_change_type_column_of_a_data_file_is_dropped() -> None:
    table = builder()
    rows = to_table({"id": [1]}, table.physical_schema()).append_column("_change_type", pa.array(["nonsense"]))
    table.create(table.add(rows, stats=None))
    assert found(feed(table)) == [(0, "insert", 1)]


# Deletion vectors


def test_only_rows_that_live_are_inserted_and_deleted_with_a_file() -> None:
    table = builder()
    whole = table.add({"id": [0, 1, 2, 3]})
    vector = {"add": whole["add"] | {"deletionVector": table.deletion_vector([1, 3])}}
    table.create(vector).commit(remove(vector))
    assert found(feed(table)) == [(0, "insert", 0), (0, "insert", 2), (1, "delete", 0), (1, "delete", 2)]
    assert feed(table).count() == 4


@pytest.mark.parametrize("kind", ["u", "i", "p"])
def test_a_replaced_vector_changes_the_rows_in_which_it_differs(kind: str) -> None:
    table = builder()
    bare = table.add({"id": [0, 1, 2, 3, 4]})
    table.create(bare)
    removed, once = table.delete(bare, [0, 1], kind)
    table.commit(removed, once)
    removed, twice = table.delete(once, [1, 2, 4], kind)
    table.commit(twice, removed)  # the order within a commit means nothing
    table.commit(remove(twice), bare)
    assert found(feed(table, 1)) == [
        *((1, "delete", 0), (1, "delete", 1)),
        *((2, "delete", 2), (2, "delete", 4), (2, "insert", 0)),
        *((3, "insert", 1), (3, "insert", 2), (3, "insert", 4)),
    ]
    assert feed(table, 1).count() == 8
    assert found(feed(table, 1).where("id >= 2 AND _change_type = 'delete'")) == [(2, "delete", 2), (2, "delete", 4)]


def test_the_same_file_with_the_same_vector_has_not_changed() -> None:
    table = builder()
    bare = table.add({"id": [0, 1]})
    table.create(bare).commit(remove(bare), bare)
    removed, vector = table.delete(bare, [0])
    table.commit(removed, vector).commit(remove(vector), vector)
    assert found(feed(table, 1)) == [(2, "delete", 0)]


@pytest.mark.parametrize("written", ["ä%20b.parquet", "%c3%a4%20b.parquet", f"{ROOT}/%C3%A4%20b.parquet"])
def test_a_file_is_the_same_however_its_path_is_written(written: str) -> None:
    table = builder()
    bare = table.add({"id": [0, 1]}, name="ä b.parquet", path="%C3%A4%20b.parquet")
    table.create(bare)
    _, vector = table.delete(bare, [1])
    table.commit({"remove": remove(bare)["remove"] | {"path": written}}, vector)
    assert found(feed(table, 1)) == [(1, "delete", 1)]


def test_a_file_may_lie_outside_of_the_table() -> None:
    table = builder()
    bare = table.add({"id": [0, 1]}, name="x.parquet", path="memory:///t//x.parquet")
    table.write("memory:///t//x.parquet", table.engine.storage.read(f"{ROOT}/x.parquet"))
    table.create(bare).commit(*table.delete(bare, [1]))
    assert found(feed(table, 1)) == [(1, "delete", 1)]


def test_a_data_file_whose_vector_took_nothing_back_is_not_opened_for_inserts() -> None:
    engine, storage = counting_engine()
    table = builder(engine=engine)
    bare = table.add({"id": [0, 1]}, name="data.parquet")
    table.create(bare)
    removed, once = table.delete(bare, [0])
    table.commit(removed, once)
    table.commit(*table.delete(once, [0, 1]))
    storage.opened.clear()
    assert found(feed(table, 2)) == [(2, "delete", 1)]
    assert storage.opened.count("data.parquet") == 1


@given(old=st.sets(st.integers(0, 19)), new=st.sets(st.integers(0, 19)), least=st.integers(0, 20))
def test_the_difference_of_two_vectors_is_that_of_their_sets(old: set[int], new: set[int], least: int) -> None:
    table = builder()
    whole = table.add({"id": list(range(20))}, row_group_size=3)
    before, after = (
        {"add": whole["add"] | {"deletionVector": table.deletion_vector(rows, "i")}} for rows in (old, new)
    )
    table.create(before).commit(remove(before), after)
    expected = [(1, "delete", i) for i in new - old] + [(1, "insert", i) for i in old - new]
    view = feed(table, 1).where(f"id >= {least}")
    assert found(view) == sorted((row for row in expected if row[2] >= least), key=repr)
    assert view.count() == len(found(view))


# Partitions, column mapping, types


def days(engine: Engine | None = None) -> TableBuilder:
    """Rows by day; version 1 updates one of the first day, version 2 deletes the second day."""
    table = builder(struct(id="long", day="date"), engine, partition_by=["day"])
    first, second = (table.add({"id": [i, i + 1]}, {"day": d}) for i, d in ((0, "2026-01-01"), (2, "2026-01-02")))
    table.create(first, second, table.add({"id": [9]}, {"day": None}))
    day = {"day": "2026-01-01"}
    table.commit(
        remove(first),
        table.add({"id": [0, 7]}, day),
        table.cdc({"id": [1, 7]}, ["update_preimage", "update_postimage"], day),
    )
    return table.commit(removal(second))


def test_changes_carry_the_partition_values_of_their_files() -> None:
    rows = [(v, kind, i, str(day)) for v, kind, i, day in found(feed(days()), "id", "day")]
    assert rows == [
        *((0, "insert", 0, "2026-01-01"), (0, "insert", 1, "2026-01-01")),
        *((0, "insert", 2, "2026-01-02"), (0, "insert", 3, "2026-01-02"), (0, "insert", 9, "None")),
        *((1, "update_postimage", 7, "2026-01-01"), (1, "update_preimage", 1, "2026-01-01")),
        *((2, "delete", 2, "2026-01-02"), (2, "delete", 3, "2026-01-02")),
    ]


def test_files_of_other_partitions_are_not_planned() -> None:
    view = feed(days()).where("day = '2026-01-02'")
    assert [(c.commit_version, c.change_type) for c in view.files()] == [(0, "insert"), (2, "delete")]
    assert view.count() == 4
    assert [c.commit_version for c in feed(days()).where("id = 9").files()] == [0, 1, 2]  # by statistics; cdc has none


def test_a_remove_that_does_not_tell_its_partition_is_an_error() -> None:
    table = days()
    add = table.add({"id": [5]}, {"day": "2026-01-03"})
    table.commit(add).commit(remove(add))
    with pytest.raises(ChangeFeedError, match="partition") as caught:
        feed(table).to_arrow()
    assert caught.value.version == 4
    assert found(feed(table, 3, 3)) == [(3, "insert", 5)]


def test_a_replaced_vector_takes_the_partition_from_the_add() -> None:
    table = days()
    add = table.add({"id": [5, 6]}, {"day": "2026-01-03"})
    table.commit(add).commit(*table.delete(add, [1]))
    assert [(*row[:3], str(row[3])) for row in found(feed(table, 4), "id", "day")] == [(4, "delete", 6, "2026-01-03")]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_under_their_physical_names(mode: str) -> None:
    schema = mapped(struct(id="long", place=struct(city="string"), day="date"))
    features = protocol(features=["columnMapping", "deletionVectors"], writer_only=["changeDataFeed"])
    properties = {"delta.columnMapping.mode": mode}
    table = builder(schema, partition_by=["day"], properties=properties, protocol=features)
    day = {"col-4": "2026-01-01"}
    table.create(table.add({"col-1": [1], "col-2": [{"col-3": "Oslo"}]}, day))
    table.commit(table.cdc({"col-1": [2], "col-2": [{"col-3": "Rome"}]}, ["update_preimage"], day))
    rows = found(feed(table).where("day = '2026-01-01' AND place.city <> 'Cork'"), "id", "place")
    assert rows == [(0, "insert", 1, {"city": "Oslo"}), (1, "update_preimage", 2, {"city": "Rome"})]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_may_have_been_renamed_and_dropped_under_column_mapping(mode: str) -> None:
    schema = mapped(struct(id="long", name="string", gone="string"))
    features = protocol(features=["columnMapping"], writer_only=["changeDataFeed"])
    table = builder(schema, properties={"delta.columnMapping.mode": mode}, protocol=features)
    table.create(table.add({"col-1": [1], "col-2": ["a"], "col-3": ["x"]}))
    number, text, _ = schema
    renamed = StructField("title", STRING, metadata=text.metadata)
    added = StructField("name", STRING, metadata=_mapping(4))
    table.schema = StructType((renamed, number, added))
    table.commit(table.metadata, table.cdc({"col-1": [2], "col-2": ["b"]}, ["delete"]))
    assert found(feed(table), "id", "title", "name") == [(0, "insert", 1, "a", None), (1, "delete", 2, "b", None)]


def test_rows_from_before_a_column_was_added_or_widened_are_read_under_the_last_schema() -> None:
    features = protocol(features=["typeWidening"], writer_only=["changeDataFeed"])
    table = builder(struct(id="integer", part="integer"), partition_by=["part"], protocol=features)
    table.create(table.add({"id": [1]}, {"part": "7"}))
    table.schema = struct(id="long", part="long", place=struct(city="string"))
    table.commit(table.metadata, table.add({"id": [2**40], "place": [{"city": "Oslo"}]}, {"part": str(2**40)}))
    rows = found(feed(table), "id", "part", "place")
    assert rows == [(0, "insert", 1, 7, None), (1, "insert", 2**40, 2**40, {"city": "Oslo"})]


def _mapping(number: int) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}


REQUIRED = StructField("id", LONG, nullable=False)
CHANGED_SCHEMAS = {
    "a narrower type": (struct(id="long"), struct(id="integer"), "id", "it changed from long to integer"),
    "another type": (struct(id="long"), struct(id=struct(a="long")), "id", "it changed from long to a struct"),
    "null forbidden": (struct(id="long"), struct(REQUIRED), "id", "it was nullable"),
    "a required addition": (struct(name="string"), struct(REQUIRED, name="string"), "id", "must not be null"),
    "a dropped column": (struct(id="long", name="string"), struct(id="long"), "name", "it was dropped"),
    "a nested one": (struct(p=struct(a="long", b="long")), struct(p=struct(a="long")), "p.b", "it was dropped"),
    "in a list": (struct(p=ArrayType(LONG)), struct(p=ArrayType(STRING)), "p.element", "it changed from long"),
    "null in a list": (struct(p=ArrayType(LONG)), struct(p=ArrayType(LONG, False)), "p.element", "it was nullable"),
    "in a map": (struct(p=MapType(STRING, LONG)), struct(p=MapType(STRING, STRING)), "p.value", "it changed from long"),
}


@pytest.mark.parametrize("case", CHANGED_SCHEMAS)
def test_a_version_that_does_not_fit_the_last_schema_is_named_with_its_column(case: str) -> None:
    before, after, column, reason = CHANGED_SCHEMAS[case]
    table = builder(before).create()
    table.schema = after
    table.commit(table.metadata)
    with pytest.raises(ChangeFeedError, match=reason) as caught:
        _ = feed(table).schema
    assert caught.value.version == 0
    assert f"column {column!r}" in str(caught.value)
    assert feed(table, 0, 0).schema.names[0] == before.names[0]
    assert feed(table, 1).schema.names[0] == after.names[0]


def test_a_version_in_the_middle_that_does_not_fit_is_found_when_it_is_planned() -> None:
    table = builder(struct(id="long"))
    table.create(table.add({"id": [1]}))
    table.schema = struct(id="string")
    table.commit(table.metadata)
    table.schema = struct(id="long")
    table.commit(table.metadata)
    with pytest.raises(ChangeFeedError, match="'id': it changed from string") as caught:
        feed(table).to_arrow()
    assert caught.value.version == 1


def test_a_column_that_was_dropped_and_added_again_is_not_the_same() -> None:
    features = protocol(features=["columnMapping"], writer_only=["changeDataFeed"])
    table = builder(
        mapped(struct(id="long", name="string")), properties={"delta.columnMapping.mode": "name"}, protocol=features
    )
    table.create()
    table.schema = StructType((table.schema.fields[0], StructField("name", STRING, metadata=_mapping(3))))
    table.commit(table.metadata)
    with pytest.raises(ChangeFeedError, match="another column with its name"):
        _ = feed(table).schema


def test_other_partition_columns_are_another_schema() -> None:
    table = builder(struct(id="long", day="date")).create()
    table.partition_by = ("day",)
    table.commit(table.metadata)
    with pytest.raises(ChangeFeedError, match="'day': it is now a partition column"):
        _ = feed(table).schema
    table.partition_by = ()
    table.commit(table.metadata)
    with pytest.raises(ChangeFeedError, match="'day': it is no longer a partition column"):
        _ = feed(table, 1).schema


def test_a_table_with_a_column_of_that_name_has_no_feed() -> None:
    table = builder(struct(id="long", _Change_Type="string")).create()
    with pytest.raises(ChangeFeedError, match="_change_type"):
        _ = feed(table).schema


# Which versions


def test_a_start_before_the_feed_was_on_is_told_where_it_starts() -> None:
    table = TableBuilder(memory_engine(), ROOT, struct(id="long"))
    table.create(table.add({"id": [1]})).commit(table.add({"id": [2]}))
    table.properties |= FEED
    table.commit(table.metadata, table.add({"id": [3]})).commit(table.add({"id": [4]}))
    for start in (0, 1):
        with pytest.raises(ChangeFeedError, match="on since version 2: start there") as caught:
            _ = feed(table, start).schema
        assert caught.value.version == start
    with pytest.raises(ChangeFeedError, match=r"set delta\.enableChangeDataFeed to true"):
        _ = feed(table, 0, 1).schema
    assert found(feed(table, 2)) == [(2, "insert", 3), (3, "insert", 4)]


def test_a_range_in_which_the_feed_was_switched_off_is_refused() -> None:
    table = builder().create().commit()
    table.properties = {"delta.enableChangeDataFeed": "false"}
    table.commit(table.metadata).commit()
    table.properties = FEED
    table.commit(table.metadata)
    for start, end, advice in ((0, 3, "end at version 1"), (1, None, "on since version 4"), (2, 2, "set delta")):
        with pytest.raises(ChangeFeedError, match=advice) as caught:
            feed(table, start, end).files()
        assert caught.value.version == 2
    with pytest.raises(ChangeFeedError, match="off at version 3"):
        feed(table, 3).files()
    assert feed(table, 0, 1).files() == feed(table, 4).files() == []


def test_a_range_must_lie_within_the_table_and_run_forwards() -> None:
    table = builder().create().commit()
    with pytest.raises(ChangeFeedError, match="after their end"):
        _ = feed(table, 1, 0).schema
    for start, end in ((2, None), (0, 2), (2, 3)):
        with pytest.raises(VersionNotFoundError, match="has no version") as caught:
            _ = feed(table, start, end).schema
        assert (caught.value.earliest, caught.value.latest) == (0, 1)
    with pytest.raises(ValueError, match="0 or more"):
        _ = feed(table, -1).schema


def test_commits_that_are_cleaned_up_are_gone(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long"), properties=FEED)
    table.create()
    for number in range(1, 5):
        table.commit(table.add({"id": [number]}))
    table.checkpoint(2)
    for version in (0, 1, 2):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(VersionNotFoundError) as caught:
        _ = feed(table, 1).schema
    assert caught.value.earliest == 2
    with pytest.raises(VersionNotFoundError, match="cleaned up") as caught:
        _ = feed(table, 2).schema
    assert (caught.value.version, caught.value.earliest, caught.value.latest) == (2, 3, 4)
    assert found(feed(table, 3)) == [(3, "insert", 3), (4, "insert", 4)]
    with pytest.raises(VersionNotFoundError, match="earlier than the earliest"):
        first_version_since(table.table(), 0)


def test_an_unsupported_feature_within_the_range_is_refused() -> None:
    table = builder().create().commit(protocol(features=["fromTheFuture"])).commit(VECTORS)
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        feed(table).files()


# Timestamps


SECOND = 1_700_000_000_000


def timed(tmp_path: Path) -> TableBuilder:
    """Versions 0 to 3 with one row each, made a second apart."""
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long"), properties=FEED)
    table.create(table.add({"id": [0]}))
    for number in (1, 2, 3):
        table.commit(table.add({"id": [number]}))
    for version in range(4):
        nanoseconds = (SECOND + 1000 * version) * 1_000_000
        os.utime(tmp_path / "_delta_log" / f"{version:020d}.json", ns=(nanoseconds, nanoseconds))
    return table


def test_a_time_stands_for_the_first_version_from_it_or_the_last_up_to_it(tmp_path: Path) -> None:
    table = timed(tmp_path).table()
    cases = {(0, None): (0, 3), (SECOND, SECOND): (0, 0), (SECOND + 1, SECOND + 2999): (1, 2)}
    cases |= {(SECOND + 1000, SECOND + 10**9): (1, 3), (SECOND + 3000, None): (3, 3)}
    for (start, end), versions in cases.items():
        changes = table_changes_between(table, start, end)
        assert (changes.start, changes.end) == versions
    moment = datetime.fromtimestamp(SECOND / 1000 + 2, UTC)
    assert first_version_since(table, moment) == last_version_until(table, moment) == 2


def test_no_commit_between_two_times_is_no_change(tmp_path: Path) -> None:
    table = timed(tmp_path)
    changes = table_changes_between(table.table(), SECOND + 1, SECOND + 999)
    assert list(changes.scan_builder().build().files()) == []
    with pytest.raises(ChangeFeedError, match="after their end"):
        table_changes_between(table.table(), SECOND + 999, SECOND + 1)


def test_times_out_of_reach_are_not_found(tmp_path: Path) -> None:
    table = timed(tmp_path).table()
    with pytest.raises(VersionNotFoundError, match="later than the latest"):
        table_changes_between(table, SECOND + 3001)
    with pytest.raises(VersionNotFoundError, match="earlier than the earliest"):
        table_changes_between(table, 0, SECOND - 1)


def test_the_times_of_the_changes_are_those_of_their_commits(tmp_path: Path) -> None:
    rows = feed(timed(tmp_path)).where("_commit_timestamp > '2023-11-14T22:13:21Z'").to_arrow()
    times = [datetime.fromtimestamp(SECOND / 1000 + version, UTC) for version in (2, 3)]
    assert rows.column("_commit_timestamp").to_pylist() == times


def test_in_commit_timestamps_count_from_their_enablement_on() -> None:
    table = builder(struct(id="long"))
    table.create(table.add({"id": [0]}))
    stamps = {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "1"}
    late = 4_000_000_000_000  # after the modification time of any file of this test
    table.properties |= stamps | {"delta.inCommitTimestampEnablementTimestamp": str(late)}
    for version, more in ((1, [table.metadata]), (2, [])):
        info = {"commitInfo": {"inCommitTimestamp": late + version - 1, "operation": "WRITE"}}
        table.commit(info, *more, table.add({"id": [version]}))
    rows = feed(table).to_arrow().sort_by("_commit_version")
    times = [int(t.timestamp() * 1000) for t in rows.column("_commit_timestamp").to_pylist()]
    assert times[1:] == [late, late + 1]
    assert 0 < times[0] < late
    bounds = {times[0]: 0, times[0] + 1: 1, late - 1: 1, late: 1, late + 1: 2}
    assert {moment: first_version_since(table.table(), moment) for moment in bounds} == bounds


@pytest.mark.parametrize("operation", [{"name": "WRITE"}, 5, None])
def test_writers_may_call_their_operation_anything(operation: Any) -> None:
    """The protocol leaves it to them what a commitInfo has."""
    table = builder(struct(id="long"))
    table.create(table.add({"id": [0]}))
    table.commit({"commitInfo": {"operation": operation}}, table.add({"id": [1]}))
    assert found(feed(table)) == [(0, "insert", 0), (1, "insert", 1)]


# Filters, columns, counting


def test_filters_on_the_change_decide_which_files_are_planned() -> None:
    table = days()
    plan = {
        "_change_type = 'insert'": [(0, "insert"), (0, "insert"), (0, "insert"), (1, None)],
        "_commit_version > 0 AND _commit_version < 2": [(1, None)],
        "_commit_version = 2 OR id = 9": [(0, "insert"), (0, "insert"), (0, "insert"), (1, None), (2, "delete")],
        "_CHANGE_TYPE IN ('delete', 'x') AND _commit_version >= 0": [(1, None), (2, "delete")],
        "_commit_timestamp IS NULL": [],
    }
    for condition, expected in plan.items():
        files = feed(table).where(condition).files()
        assert [(c.commit_version, c.change_type) for c in files] == expected, condition
    assert [row[2] for row in found(feed(table).where("_commit_version = 2 OR id = 9"))] == [9, 2, 3]
    assert [row[1] for row in found(feed(table).where("_change_type LIKE 'update%'"))] == [
        "update_postimage",
        "update_preimage",
    ]


def test_columns_come_in_the_order_asked_for() -> None:
    view = feed(days()).select("_commit_version", "day", "_change_type").where("id = 7")
    assert view.schema.names == ["_commit_version", "day", "_change_type"]
    assert [list(row.values())[::2] for row in view.to_arrow().to_pylist()] == [[1, "update_postimage"]]


def test_counting_opens_only_files_that_the_log_does_not_count() -> None:
    engine, storage = counting_engine()
    table = days(engine)
    storage.opened.clear()
    assert feed(table, 0, 0).where("day IS NOT NULL AND _change_type <> 'delete'").count() == 4
    assert not [name for name in storage.opened if name.endswith(".parquet")]
    assert feed(table).count() == 9
    assert feed(table).limit(3).count() == 3
    assert feed(table).where("_change_type = 'update_preimage'").count() == 1


def test_each_commit_is_planned_from_one_read_when_it_is_needed() -> None:
    engine, storage = counting_engine()
    table = builder(engine=engine)
    table.create()
    for number in range(1, 6):
        table.commit(table.add({"id": [number]}))
    view = feed(table, 1)
    _ = view.schema
    storage.opened.clear()
    assert view.limit(2).to_arrow().num_rows == 2
    assert [name for name in storage.opened if name.endswith(".json")] == [f"{v:020d}.json" for v in (1, 2)]
    storage.opened.clear()
    view.files()
    assert storage.opened == [f"{v:020d}.json" for v in (1, 2, 3, 4, 5)]


ROW_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "id > 1": lambda row: row["id"] > 1,
    "id = 7": lambda row: row["id"] == 7,
    "id > 100": lambda row: False,
    "day = '2026-01-01' AND id < 2": lambda row: str(row["day"]) == "2026-01-01" and row["id"] < 2,
    "id = 1 OR _change_type = 'delete'": lambda row: row["id"] == 1 or row["_change_type"] == "delete",
}


@pytest.mark.parametrize("condition", ROW_FILTERS)
def test_a_filter_on_rows_is_exact_for_every_kind_of_file(condition: str) -> None:
    whole = feed(days())
    expected = [row for row in whole.to_arrow().drop(["_commit_timestamp"]).to_pylist() if ROW_FILTERS[condition](row)]
    assert whole.where(condition).to_arrow().drop(["_commit_timestamp"]).to_pylist() == expected
    assert whole.where(condition).count() == len(expected)


def test_many_conditions_are_as_good_as_few() -> None:
    view = feed(days())
    for number in range(100, 500):
        view = view.where(f"id <> {number}").where(f"_commit_version <> {number}")
    assert view.count() == 9


# Workers


def test_files_and_state_travel_as_bytes_to_who_reads_them() -> None:
    table = days()
    bare = table.add({"id": [5, 6]}, {"day": "2026-01-03"})
    table.commit(bare).commit(*table.delete(bare, [1]))
    scan = table_changes(table.table(), 0).scan_builder().build()
    state = ChangeState.from_bytes(scan.scan_state.to_bytes())
    rows = []
    for data in [change.to_bytes() for change in scan.files()]:
        change = ChangeFile.from_bytes(data)
        physical = table.engine.parquet.read_parquet_files([FileSplit(change.status)], state.physical_schema(change))
        rows += [b.selected() for b in transform_change_data(table.engine, state, change, physical)]
    reader = pickle.loads(pickle.dumps(RowReader.for_scan(scan)))
    again = pa.Table.from_batches(read_rows(table.engine, reader, scan.files()))
    assert (
        pa.Table.from_batches(rows).combine_chunks()
        == again.combine_chunks()
        == feed(table).to_arrow().combine_chunks()
    )


def test_a_file_of_another_scan_is_refused() -> None:
    table = days()
    reader = RowReader.for_scan(table.snapshot().scan_builder().build())
    with pytest.raises(TypeError, match="ChangeFile cannot be read with a ScanState"):
        list(reader.read(table.engine, feed(table).files()[0]))


# Peers


def written(path: str, partition_by: list[str] | None = None) -> None:
    """Inserts, a delete, an update, a merge, an optimize and an overwrite."""
    rows = pa.table({"id": range(20), "kind": [f"k{i % 3}" for i in range(20)], "value": [i / 2 for i in range(20)]})
    write_deltalake(path, rows, partition_by=partition_by, configuration=FEED)
    write_deltalake(path, rows.slice(0, 5), mode="append")
    DeltaTable(path).delete("id % 4 = 0")
    DeltaTable(path).update(updates={"value": "value + 1"}, predicate="id > 10")
    source = pa.table({"id": [1, 2, 100], "kind": ["k1", "k9", "k1"], "value": [0.0, None, 1.0]})
    merge = DeltaTable(path).merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("kind = 'k1'")
    write_deltalake(path, rows.slice(3, 4), mode="overwrite")


@pytest.mark.parametrize("partition_by", [None, ["kind"]])
def test_deltalake_reads_the_same_changes_of_what_it_wrote(tmp_path: Path, partition_by: list[str] | None) -> None:
    written(str(tmp_path), partition_by)
    last = DeltaTable(str(tmp_path)).version()
    for start, end in ((0, last), (2, 4), (last, last)):
        theirs = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=start, ending_version=end).read_all())
        ours = lakeport.scan(str(tmp_path)).changes(start, end).to_arrow()
        names = ["id", "kind", "value", "_change_type", "_commit_version"]
        assert _rows(ours.select(names)) == _rows(theirs.select(names))
        assert ours.num_rows == lakeport.scan(str(tmp_path)).changes(start, end).count()


@pytest.mark.parametrize("partition_by", [None, ["kind"]])
def test_the_changes_of_a_version_are_what_tells_it_from_the_one_before(
    tmp_path: Path, partition_by: list[str] | None
) -> None:
    written(str(tmp_path), partition_by)
    table = lakeport.scan(str(tmp_path))
    before: Counter[tuple[Any, ...]] = Counter()
    for version in range(table.version + 1):
        changes = table.changes(version, version)
        for kind, sign in {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}.items():
            rows = changes.where(f"_change_type = '{kind}'").select("id", "kind", "value").to_arrow()
            before.update({row: sign * n for row, n in _rows(rows).items()})
        after = _rows(table.at(version=version).to_arrow().select(["id", "kind", "value"]))
        assert {row: n for row, n in before.items() if n} == dict(after)


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
