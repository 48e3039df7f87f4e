"""The tables that the benchmarks read, made once into a folder of temporary files."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from lakeport import tables
from lakeport.engine import default_engine
from lakeport.kernel.deletion_vectors import encode_deletion_vector, encode_inline
from lakeport.kernel.maintenance import finish_commit
from lakeport.kernel.snapshot import Table
from lakeport.kernel.transaction import update_table

PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}
LARGE_LOG = Path(__file__).resolve().parents[2] / "shared/tables/large/300k-add-files-100-col-partitioned.tar.zst"


def large_json_log(folder: Path) -> Path | None:
    """A log of 300,000 live files in five JSON commits; None where the shared tables are not at hand."""
    if not LARGE_LOG.exists():
        return None
    with (
        LARGE_LOG.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        archive.extractall(folder, filter="data")
    return folder / LARGE_LOG.name.partition(".")[0]


def large_checkpoint(folder: Path, files: int) -> Path:
    """A log whose checkpoint holds so many live files, with statistics of three columns."""
    table = folder / f"checkpoint-{files}"
    log = table / "_delta_log"
    log.mkdir(parents=True)
    schema = _schema({"id": "long", "value": "double", "name": "string", "day": "date"})
    version = 10
    writer: pq.ParquetWriter | None = None
    for start in range(0, files, 100_000):
        batch = _checkpoint_rows(start, min(100_000, files - start), schema if start == 0 else None)
        writer = writer or pq.ParquetWriter(log / f"{version:020d}.checkpoint.parquet", batch.schema)
        writer.write_table(batch)
    assert writer is not None
    writer.close()
    (log / "_last_checkpoint").write_text(json.dumps({"version": version, "size": files + 2}))
    (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
    return table


def _checkpoint_rows(start: int, count: int, schema: dict[str, Any] | None) -> pa.Table:
    days = [f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(start, start + count)]
    adds = [
        {
            "path": f"day={day}/part-{i:09d}-c000.snappy.parquet",
            "partitionValues": [("day", day)],
            "size": 1_000_000 + i,
            "modificationTime": 1_760_000_000_000 + i,
            "dataChange": False,
            "stats": f'{{"numRecords":1000,"minValues":{{"id":{i * 1000},"value":0.5,"name":"a"}},"maxValues":'
            f'{{"id":{i * 1000 + 999},"value":99.5,"name":"z"}},"nullCount":{{"id":0,"value":0,"name":0}}}}',
        }
        for i, day in enumerate(days, start)
    ]
    text_map = pa.map_(pa.string(), pa.string())
    add_type = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", text_map),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    )
    head = [None] * (2 if schema else 0)
    protocol_type = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    metadata_type = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", text_map)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", text_map),
            ("createdTime", pa.int64()),
        ]
    )
    metadata = {
        "id": "bench",
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps(schema),
        "partitionColumns": ["day"],
        "configuration": [],
        "createdTime": 0,
    }
    protocols = [{"minReaderVersion": 1, "minWriterVersion": 2}, None] if schema else []
    metadatas = [None, metadata] if schema else []
    none = [None] * count
    return pa.table(
        {
            "protocol": pa.array([*protocols, *none], protocol_type),
            "metaData": pa.array([*metadatas, *none], metadata_type),
            "add": pa.array([*head, *adds], add_type),
        }
    )


def wide_rows(folder: Path, rows: int, *, files: int = 10, deleted: float = 0.0, ordered: bool = False) -> Path:
    """A table of sixteen columns, whose first one is in order or at random; a share of the rows deleted by deletion
    vectors."""
    table = folder / f"wide-{rows}-{files}-{deleted}"
    (table / "_delta_log").mkdir(parents=True)
    random = np.random.default_rng(1)
    adds, sample = [], None
    for number in range(files):
        data = _wide_data(random, rows // files)
        if ordered:
            data = data.set_column(0, "i0", pa.array(np.arange(number * data.num_rows, (number + 1) * data.num_rows)))
        sample = data.schema
        path = f"part-{number:05d}.parquet"
        pq.write_table(data, table / path, compression="snappy", row_group_size=125_000)
        adds.append(_add(table, path, data, random, deleted))
    assert sample is not None
    actions = [
        {
            "protocol": PROTOCOL
            | ({k: ["deletionVectors"] for k in ("readerFeatures", "writerFeatures")} if deleted else {})
        },
        {"metaData": _metadata(_schema({f.name: _DELTA_TYPES[str(f.type)] for f in sample}))},
        *adds,
    ]
    (table / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    return table


def rows_to_write(folder: Path, rows: int) -> Path:
    """The wide rows as Parquet files, to be read into memory and written again."""
    source = folder / "rows"
    source.mkdir()
    pq.write_table(_wide_data(np.random.default_rng(1), rows), source / "rows.parquet")
    return source


def rows_to_delete(folder: Path, files: int, rows: int) -> Path:
    """A table of wide rows; `bucket = 7` holds for one in a hundred, in every file."""
    table, random = folder / "buckets", np.random.default_rng(1)
    for number in range(files):
        data = _wide_data(random, rows // files)
        data = data.append_column("bucket", pa.array(random.integers(0, 100, rows // files)))
        if number:
            tables.append(str(table), data)
        else:
            tables.create(str(table), data)
    return table


def many_versions(folder: Path, versions: int) -> Path:
    """A table with so many versions, but always one file: what counts is the length of its history."""
    table, engine = folder / f"versions-{versions}", default_engine()
    tables.create(str(table), {"id": [0]}, engine=engine)
    snapshot = Table.for_path(engine, str(table)).latest_snapshot()
    for version in range(1, versions):
        transaction = update_table(snapshot, "WRITE")
        transaction.set_application_version("bench", version)
        finish_commit(engine, transaction.commit(), snapshot)
        snapshot = snapshot.refresh()
    return table


def _wide_data(random: np.random.Generator, rows: int) -> pa.Table:
    columns: dict[str, Any] = {f"i{n}": random.integers(0, 1_000_000, rows) for n in range(5)}
    columns |= {f"d{n}": random.random(rows) for n in range(4)}
    columns |= {f"s{n}": np.char.add("v", random.integers(0, 5000, rows).astype(str)) for n in range(3)}
    columns["unique"] = np.char.add("unique-value-", random.integers(0, 10**9, rows).astype(str))
    columns["flag"] = random.integers(0, 2, rows).astype(bool)
    columns["moment"] = pa.array(random.integers(0, 10**15, rows), pa.timestamp("us", tz="UTC"))
    columns["day"] = pa.array(random.integers(0, 20_000, rows).astype("int32"), pa.int32()).cast(pa.date32())
    return pa.table(columns)


def _add(table: Path, path: str, data: pa.Table, random: np.random.Generator, deleted: float) -> dict[str, Any]:
    rows, first = data.num_rows, data.column("i0").to_numpy()
    bounds = {"minValues": {"i0": int(first.min())}, "maxValues": {"i0": int(first.max())}, "nullCount": {"i0": 0}}
    add: dict[str, Any] = {
        "path": path,
        "partitionValues": {},
        "size": (table / path).stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows, **bounds}),
    }
    if deleted:
        positions = np.sort(random.choice(rows, int(rows * deleted), replace=False)).astype(np.uint64)
        payload = encode_deletion_vector(positions)
        add["deletionVector"] = {
            "storageType": "i",
            "pathOrInlineDv": encode_inline(payload),
            "sizeInBytes": len(payload),
            "cardinality": len(positions),
        }
    return {"add": add}


_DELTA_TYPES = {
    "int64": "long",
    "double": "double",
    "string": "string",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamp",
    "date32[day]": "date",
}


def _schema(columns: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()],
    }


def _metadata(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "bench",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
