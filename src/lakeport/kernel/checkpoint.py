"""Reading checkpoints: classic, multi-part and V2 (JSON or Parquet, with or without sidecars), told apart by content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import SIDECAR
from lakeport.kernel.engine import Engine, FileSplit, FileStatus
from lakeport.kernel.log import Checkpoint
from lakeport.kernel.paths import resolve_path


def read_checkpoint_actions(
    engine: Engine, checkpoint: Checkpoint, fields: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """The actions that a checkpoint holds itself, which is every kind but file actions."""
    return _read(engine, checkpoint.files, pa.schema(fields), pa.schema(fields))


def read_checkpoint_adds(
    engine: Engine, checkpoint: Checkpoint, json_add: pa.DataType, parquet_add: pa.DataType
) -> Iterator[pa.StructArray]:
    """The live files at the checkpoint, those in its sidecars included. JSON files give columns of the type `json_add`,
    Parquet files of `parquet_add`."""
    sidecars: list[FileStatus] = []
    directory = f"{checkpoint.files[0].path.rpartition('/')[0]}/_sidecars"
    json_schema = pa.schema([pa.field("add", json_add), SIDECAR])
    parquet_schema = pa.schema([pa.field("add", parquet_add), SIDECAR])
    for batch in _read(engine, checkpoint.files, json_schema, parquet_schema):
        yield _present(batch.column("add"))
        sidecars += _sidecar_files(batch.column("sidecar"), directory)
    for batch in _read(engine, sidecars, json_schema, parquet_schema):
        yield _present(batch.column("add"))


def _present(column: pa.StructArray) -> pa.StructArray:
    """The rows that are actions of this kind. (Some writers give every kind a struct of nulls in every row.)"""
    present = column.field(0).is_valid() if column.null_count == 0 else column.is_valid()
    kept = column if present.true_count == len(column) else column.filter(present)
    paths = kept.field(0)
    return kept if paths.null_count == 0 else kept.filter(paths.is_valid())


def _sidecar_files(column: pa.StructArray, directory: str) -> list[FileStatus]:
    return [
        FileStatus(resolve_path(directory, row["path"]), row["sizeInBytes"] or 0, row["modificationTime"] or 0)
        for row in _present(column).to_pylist()
    ]


def _read(
    engine: Engine, files: Sequence[FileStatus], json_schema: pa.Schema, parquet_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for file in files:
        if file.path.endswith(".json"):
            yield from engine.json.read_json_files([file], json_schema)
        else:
            if file.size == 0:
                raise CorruptTableError(
                    "the checkpoint file is empty; remove it to fall back on the log", path=file.path
                )
            yield from engine.parquet.read_parquet_files([FileSplit(file)], parquet_schema)
