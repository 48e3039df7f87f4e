"""Scans: projection, row tracking, and what travels to workers."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import default_engine, memory_engine
from lakeport.errors import CorruptTableError, InvalidFilterError, UnknownColumnError
from lakeport.kernel.engine import FileSplit
from lakeport.kernel.expressions import col
from lakeport.kernel.expressions.tree import same
from lakeport.kernel.scan import Scan, ScanFile, ScanState, transform_physical_data
from lakeport.kernel.schema import ArrayType, StructField
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, rows, struct
from tests.properties import TRACKING

ROOT = "memory:///t"


def new_table(**options: Any) -> TableBuilder:
    schema = options.pop("schema", None) or struct(id="long", name="string", day="date")
    return TableBuilder(options.pop("engine", None) or memory_engine(), ROOT, schema, ["day"], **options)


def small_table(**options: Any) -> TableBuilder:
    table = new_table(**options)
    table.create(
        table.add({"id": [1, 2], "name": ["a", "b"]}, {"day": "2026-01-01"}),
        table.add({"id": [3], "name": [None]}, {"day": None}),
    )
    return table


# Projection


def test_a_scan_returns_the_columns_of_its_read_schema_in_their_order() -> None:
    snapshot = small_table().snapshot()
    scan = snapshot.scan_builder().with_read_schema(snapshot.schema.select([("day",), ("id",)])).build()
    found = read(snapshot, scan=scan)
    assert found.column_names == ["day", "id"]
    assert sorted(found.column("id").to_pylist()) == [1, 2, 3]


def test_a_scan_of_partition_columns_alone_counts_the_rows() -> None:
    snapshot = small_table().snapshot()
    scan = snapshot.scan_builder().with_read_schema(snapshot.schema.select([("day",)])).build()
    assert sorted(map(str, read(snapshot, scan=scan).column("day").to_pylist())) == ["2026-01-01", "2026-01-01", "None"]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_structs_are_pruned_at_every_level(mode: str) -> None:
    schema = struct(s=struct(x="long", deep=struct(y="string", z="long")), l=ArrayType(struct(p="long")))
    schema = schema if mode == "none" else mapped(schema)
    properties = {"delta.columnMapping.mode": mode}
    table = TableBuilder(memory_engine(), ROOT, schema, properties=properties, protocol=protocol(2, 5))
    physical = table.physical_schema()

    def to_physical(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_struct(kind) and value is not None:
            return {f.name: to_physical(v, f.type) for f, v in zip(kind, value.values(), strict=True)}
        return value

    values = [{"x": 1, "deep": {"y": "a", "z": 2}}, {"x": 3, "deep": None}, None]
    data = {physical[0].name: [to_physical(v, physical[0].type) for v in values], physical[1].name: [[], None, None]}
    table.create(table.add(data))
    snapshot = table.snapshot()
    assert read(snapshot).column("s").to_pylist() == values
    scan = snapshot.scan_builder().with_read_schema(snapshot.schema.select([("s", "deep", "z")])).build()
    assert read(snapshot, scan=scan).to_pylist() == [{"s": {"deep": {"z": 2}}}, {"s": {"deep": None}}, {"s": None}]


def test_an_unknown_column_is_named() -> None:
    snapshot = small_table().snapshot()
    with pytest.raises(UnknownColumnError, match="nme") as caught:
        snapshot.schema.select([("nme",)])
    assert caught.value.column == "nme"
    with pytest.raises(UnknownColumnError, match="it has id, name, day"):
        snapshot.scan_builder().with_filter(col("nme") == 1)


def test_a_filter_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidFilterError):
        small_table().snapshot().scan_builder().with_filter(col("id") == "many")


# Filters


def test_the_remaining_filter_is_what_partitions_do_not_decide() -> None:
    builder = small_table().snapshot().scan_builder()
    scan = builder.with_filter((col("day") == "2026-01-01") & (col("id") > 1)).build()
    assert same(scan.remaining_filter, col("id") > 1)
    assert builder.with_filter(col("day").is_null()).build().remaining_filter is None
    assert builder.build().remaining_filter is None
    mixed = builder.with_filter((col("day") == "2026-01-01") | (col("id") > 1)).build()
    assert mixed.remaining_filter is not None


def test_several_filters_must_all_hold() -> None:
    snapshot = small_table().snapshot()
    scan = snapshot.scan_builder().with_filter(col("id") > 1).with_filter(col("name").is_not_null()).build()
    assert read(snapshot, scan=scan).column("id").to_pylist() == [2]


def test_a_builder_is_not_changed_by_what_is_built_from_it() -> None:
    builder = small_table().snapshot().scan_builder()
    builder.with_filter(col("id") > 100).build()
    assert len(list(builder.build().files())) == 2


def test_scan_files_come_in_batches_with_selections() -> None:
    scan = small_table().snapshot().scan_builder().with_filter(col("id") > 2).build()
    (batch,) = scan.scan_files()
    assert (batch.data.num_rows, batch.selected().num_rows) == (2, 1)
    assert batch.selection is not None
    assert batch.selection.null_count == 0


@pytest.mark.parametrize("parsed", [False, True])
def test_statistics_come_with_the_files_if_they_are_wanted(parsed: bool) -> None:
    table = small_table()
    table.checkpoint(parsed_stats=parsed)
    assert all(f.stats is None for f in table.snapshot().scan_builder().build().files())
    files = list(table.snapshot().scan_builder().with_stats().build().files())
    assert [f.num_records for f in files] == [2, 1]
    assert json.loads(files[0].stats or "")["minValues"] == {"id": 1, "name": "a"}


def test_the_number_of_records_leaves_out_the_deleted_ones() -> None:
    table = new_table()
    add = table.add({"id": [1, 2, 3]}, {"day": None})
    table.create(table.delete(add, [0, 2])[1])
    (file,) = table.snapshot().scan_builder().with_stats().build().files()
    assert file.num_records == 1
    for stats in (None, "", "no json", '{"numRecords": -1}', '{"numRecords": "3"}', "{}"):
        assert ScanFile(path="x", size=1, stats=stats).num_records is None


# Row tracking

MATERIALISED = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col",
}


def tracked_rows(table: TableBuilder, **options: Any) -> list[tuple[Any, ...]]:
    snapshot = table.snapshot()
    scan = snapshot.scan_builder().with_row_tracking().build()
    found = read(snapshot, scan=scan, **options)
    assert found.column_names[-2:] == ["_row_id", "_row_commit_version"]
    return sorted(zip(*(found.column(n).to_pylist() for n in ("id", "_row_id", "_row_commit_version")), strict=True))


def tracked_table(properties: dict[str, str]) -> TableBuilder:
    which = protocol(features=["deletionVectors"], writer_only=["rowTracking", "domainMetadata"])
    return TableBuilder(memory_engine(), ROOT, struct(id="long"), properties=properties, protocol=which)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_a_row_id_is_the_base_and_the_physical_index(checkpoint: bool, batch_size: int | None) -> None:
    table = tracked_table(TRACKING | MATERIALISED)
    add = table.add({"id": [10, 11, 12, 13]}, baseRowId=100, defaultRowCommitVersion=5, row_group_size=2)
    table.create(table.delete(add, [0, 2])[1])
    if checkpoint:
        table.checkpoint()
    assert tracked_rows(table, batch_size=batch_size) == [(11, 101, 5), (13, 103, 5)]


def test_materialised_row_ids_win_over_the_default() -> None:
    table = tracked_table(TRACKING | MATERIALISED)
    stored = pa.table({"id": [1, 2], "_row-id-col": [7, None], "_row-version-col": [None, 3]})
    plain = table.add({"id": [3]}, baseRowId=50, defaultRowCommitVersion=4)
    table.create(table.add(stored, baseRowId=20, defaultRowCommitVersion=9), plain)
    assert tracked_rows(table) == [(1, 7, 9), (2, 21, 3), (3, 50, 4)]


def test_row_tracking_that_is_not_on_is_a_bad_request() -> None:
    with pytest.raises(ValueError, match="enableRowTracking"):
        tracked_table({}).create().snapshot().scan_builder().with_row_tracking()


def test_a_file_without_a_base_row_id_is_an_error() -> None:
    table = tracked_table(TRACKING)
    table.create(table.add({"id": [1]}))
    with pytest.raises(CorruptTableError, match="baseRowId"):
        tracked_rows(table)


# Workers


def distributed_table(root: str) -> TableBuilder:
    schema = mapped(struct(id="long", s=struct(x="string"), day="date"))
    properties = {"delta.columnMapping.mode": "id"} | TRACKING
    which = protocol(features=["deletionVectors", "columnMapping"])
    table = TableBuilder(default_engine(), root, schema, ["day"], properties, which)
    adds = []
    for i in range(3):
        ids = list(range(i * 100, i * 100 + 50))
        data = {"col-1": ids, "col-2": [{"col-3": f"n{k}"} for k in ids]}
        adds.append(table.add(data, {"col-4": f"2026-01-0{i + 1}"}, row_group_size=7, baseRowId=i * 1000))
    deleted = table.delete(adds[1], range(3, 40))[1]
    table.create(adds[0], deleted, table.delete(adds[2], [0, 49], "i")[1])
    return table


def read_part(state: bytes, file: bytes, groups: tuple[int, int | None]) -> list[dict[str, Any]]:
    """What a worker does: it has only bytes."""
    engine = default_engine()
    scan_state, scan_file = ScanState.from_bytes(state), ScanFile.from_bytes(file)
    split = FileSplit(scan_file.status, *groups)
    batches = engine.parquet.read_parquet_files([split], scan_state.physical_schema(scan_file))
    logical = transform_physical_data(engine, scan_state, scan_file, batches)
    return [row for batch in logical for row in batch.selected().to_pylist()]


def plan(scan: Scan, parts: int) -> list[tuple[bytes, bytes, tuple[int, int | None]]]:
    state = scan.scan_state.to_bytes()
    return [
        (state, file.to_bytes(), (split.first_row_group, split.end_row_group))
        for file in scan.files()
        for split in scan.snapshot.engine.parquet.split(file.status, parts)
    ]


@pytest.mark.parametrize("parts", [1, 2, 3, 20])
def test_the_parts_of_a_scan_are_together_the_whole(tmp_path: Path, parts: int) -> None:
    snapshot = distributed_table(str(tmp_path)).snapshot()
    for scan in (snapshot.scan_builder().build(), snapshot.scan_builder().with_row_tracking().build()):
        tasks = plan(scan, parts)
        assert len(tasks) >= 3 * min(parts, 8)
        assert [row for task in tasks for row in read_part(*task)] == read(snapshot, scan=scan).to_pylist()


def test_spawned_workers_read_the_same_rows(tmp_path: Path) -> None:
    snapshot = distributed_table(str(tmp_path)).snapshot()
    scan = snapshot.scan_builder().build()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.starmap(read_part, plan(scan, 2))
    assert [row for part in found for row in part] == read(snapshot, scan=scan).to_pylist()


def test_another_process_reads_from_nothing_but_bytes(tmp_path: Path) -> None:
    snapshot = distributed_table(str(tmp_path / "t")).snapshot()
    tasks = tmp_path / "tasks"
    tasks.write_bytes(pickle.dumps(plan(snapshot.scan_builder().build(), 3)))
    code = (
        "import pickle, sys; from tests.kernel.scan.test_scan import read_part; "
        "print(sum(len(read_part(*task)) for task in pickle.load(open(sys.argv[1], 'rb'))))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tasks)], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) == read(snapshot).num_rows


def test_scan_files_and_states_survive_the_way_to_bytes_and_back(tmp_path: Path) -> None:
    snapshot = distributed_table(str(tmp_path)).snapshot()
    scan = snapshot.scan_builder().with_stats().with_row_tracking().build()
    assert ScanState.from_bytes(scan.scan_state.to_bytes()) == scan.scan_state
    assert pickle.loads(pickle.dumps(scan.scan_state)) == scan.scan_state
    for file in scan.files():
        assert ScanFile.from_bytes(file.to_bytes()) == pickle.loads(pickle.dumps(file)) == file


def test_required_columns_stay_required() -> None:
    kind = struct(id="long").fields[0].type
    table = TableBuilder(memory_engine(), ROOT, struct(StructField("id", kind, nullable=False)))
    table.create(table.add({"id": [1]}))
    assert not read(table.snapshot()).schema.field("id").nullable
    assert rows(table.snapshot()) == [(1,)]
