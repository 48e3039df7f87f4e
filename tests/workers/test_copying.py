"""Rows are copied from file to file as they are, whatever the files hold."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.actions import Add
from tests.properties import VECTORS

ROWS = 6_000
ORDINARY: dict[str, str] = {}
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}
WIDENING = {"delta.enableTypeWidening": "true"}


def rows(start: int) -> pa.Table:
    ids = range(start, start + ROWS)
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int32()),
        "part": [f"p={n % 2}" for n in ids],
        "kind": [None if n % 7 == 0 else f"kind {start} {n % 3}" for n in ids],
        "text": [f"text {n}" for n in ids],
        "s": [{"a": n, "b": [str(n % 5)] * (n % 3)} if n % 4 else None for n in ids],
        "d": [float("nan") if n == 77 else n / 2 for n in ids],
    }
    return pa.table(columns)


def read(path: Path) -> list[dict[str, Any]]:
    return lakeport.scan(str(path)).to_arrow().sort_by("id").to_pylist()


def adds_of(path: Path) -> list[Add]:
    scan = lakeport.scan(str(path)).snapshot.scan_builder().with_log_details().build()
    return [file.to_add(str(path), data_change=True) for file in scan.files()]


@pytest.mark.parametrize("partition_by", [[], ["part"]])
@pytest.mark.parametrize("properties", [ORDINARY, MAPPED, BY_ID, WIDENING, WIDENING | MAPPED])
def test_copied_rows_stay_what_they_were(tmp_path: Path, properties: dict[str, str], partition_by: list[str]) -> None:
    """Files from before a column was added, renamed or widened are copied with those from after."""
    table = str(tmp_path)
    tables.create(table, rows(0), partition_by=partition_by, properties=properties)
    if properties.get("delta.columnMapping.mode"):
        tables.rename_column(table, "text", "words")
    if "delta.enableTypeWidening" in properties:
        tables.widen_column(table, "id", "long")
    tables.add_columns(table, "added string")
    later = rows(ROWS).rename_columns(lakeport.scan(table).to_arrow().schema.names[:6])
    tables.append(table, later.append_column("added", pa.array(["x", "y"] * (ROWS // 2))))
    before = read(tmp_path)
    assert len(before) == 2 * ROWS
    tables.delete(table, "id % 10 = 3")
    kept = [row for row in before if row["id"] % 10 != 3]
    assert repr(read(tmp_path)) == repr(kept)
    tables.set_properties(table, VECTORS)
    tables.delete(table, "id % 10 = 4")
    kept = [row for row in kept if row["id"] % 10 != 4]
    assert tables.optimize(table, purge=True).metrics["numRemovedFiles"] >= 1
    assert repr(read(tmp_path)) == repr(kept)
    check_statistics(tmp_path, kept, len(partition_by) + 1)


def check_statistics(path: Path, kept: list[dict[str, Any]], files: int) -> None:
    adds = adds_of(path)
    assert len(adds) == files
    stats = [json.loads(add.stats or "") for add in adds]
    assert sum(each["numRecords"] for each in stats) == len(kept)
    snapshot = lakeport.scan(str(path)).snapshot
    (kind,) = snapshot.schema.resolve(("kind",))
    column = kind.physical_name(snapshot.properties.get("delta.columnMapping.mode", "none"))
    kinds = [row["kind"] for row in kept if row["kind"] is not None]
    assert min(each["minValues"][column] for each in stats) == min(kinds)
    assert max(each["maxValues"][column] for each in stats) == max(kinds)
    assert sum(each["nullCount"][column] for each in stats) == len(kept) - len(kinds)


def test_partition_values_are_written_anew(tmp_path: Path) -> None:
    """Two writers may format a value differently; copies have one directory."""
    table = str(tmp_path)
    moments = pa.array([1_000_000] * ROWS, pa.timestamp("us", "UTC"))
    tables.create(table, pa.table({"id": range(ROWS), "at": moments}), partition_by=["at"])
    [add] = adds_of(tmp_path)
    ours, other = add.partition_values["at"], "1970-01-01T00:00:01.000000Z"
    assert ours != other
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace(f'"at":"{ours}"', f'"at":"{other}"'))
    tables.append(table, pa.table({"id": range(ROWS, 2 * ROWS), "at": moments}))
    assert {add.partition_values["at"] for add in adds_of(tmp_path)} == {ours, other}
    tables.delete(table, "id % 2 = 0")
    assert [add.partition_values for add in adds_of(tmp_path)] == [{"at": ours}]
    assert [row["id"] for row in read(tmp_path)] == list(range(1, 2 * ROWS, 2))


def test_repeated_text_is_stored_as_a_dictionary_again(tmp_path: Path) -> None:
    table = str(tmp_path)
    for start in (0, ROWS):
        (tables.append if start else tables.create)(table, rows(start))
    tables.optimize(table)
    [add] = adds_of(tmp_path)
    group = pq.read_metadata(tmp_path / add.path).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert found["kind"].has_dictionary_page
    assert found["kind"].statistics.max == f"kind {ROWS} 2"
    assert read(tmp_path)[5]["kind"] == "kind 0 2"
