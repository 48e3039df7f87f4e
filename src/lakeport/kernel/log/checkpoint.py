"""Read checkpoints: classic, multi-part and V2 (JSON or Parquet, with or without sidecars), detected by content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import SIDECAR, STATE_FIELDS, TableState
from lakeport.kernel.engine import Engine, FileSplit, FileStatus
from lakeport.kernel.log.segment import Checkpoint
from lakeport.kernel.paths import is_within, resolve_path


def read_checkpoint_state(engine: Engine, checkpoint: Checkpoint) -> TableState:
    """The newest action of each kind but file actions, from the checkpoint itself."""
    state = TableState()
    for batch in _read(engine, checkpoint.files, pa.schema(STATE_FIELDS)):
        state.add_older(batch, checkpoint.files)
    return state


def read_checkpoint_adds(engine: Engine, checkpoint: Checkpoint, add_type: pa.DataType) -> Iterator[pa.StructArray]:
    """The live files at the checkpoint, including those in sidecars."""
    return (add for (add,) in read_checkpoint_files(engine, checkpoint, [pa.field("add", add_type)]))


def read_checkpoint_files(
    engine: Engine, checkpoint: Checkpoint, fields: Sequence[pa.Field], batch_size: int | None = None
) -> Iterator[list[pa.StructArray]]:
    """The checkpoint's file actions, including those in sidecars: lists of one array per kind in `fields`."""
    sidecars: dict[str, FileStatus] = {}  # by path, so duplicates are read once
    for batch in _read(engine, checkpoint.files, pa.schema([*fields, SIDECAR]), batch_size):
        yield [_present(batch.column(field.name), checkpoint) for field in fields]
        sidecars |= {sidecar.path: sidecar for sidecar in _sidecars(batch, checkpoint)}
    for batch in _read(engine, list(sidecars.values()), pa.schema(fields), batch_size):
        yield [_present(batch.column(field.name), checkpoint) for field in fields]


def read_sidecars(engine: Engine, checkpoint: Checkpoint) -> list[FileStatus]:
    """The sidecars referenced by the checkpoint."""
    batches = _read(engine, checkpoint.files, pa.schema([SIDECAR]))
    return [sidecar for batch in batches for sidecar in _sidecars(batch, checkpoint)]


def _sidecars(batch: pa.RecordBatch, checkpoint: Checkpoint) -> Iterator[FileStatus]:
    """Raises `CorruptTableError` for a sidecar outside the table's `_sidecars`, where the protocol puts them."""
    directory = f"{checkpoint.files[0].path.rpartition('/')[0]}/_sidecars"
    for row in _present(batch.column("sidecar"), checkpoint).to_pylist():
        path = resolve_path(directory, row["path"])
        if not is_within(path, directory):
            raise CorruptTableError(
                f"the checkpoint names a sidecar outside the table's {directory!r}: {path!r}; it is not read. "
                "Remove the checkpoint if all commits are still there, or restore it from a backup",
                path=checkpoint.files[0].path,
            )
        yield FileStatus(path, row["sizeInBytes"] or 0, row["modificationTime"] or 0)


def _present(column: pa.StructArray, checkpoint: Checkpoint) -> pa.StructArray:
    """The rows that are actions of this kind. (Some writers fill every kind with a struct of nulls.)

    Raises `CorruptTableError` for an action without a path."""
    kept = column.drop_null() if column.null_count else column
    pathless = kept.field("path").is_null()
    if not pathless.true_count:
        return kept
    rest = kept.filter(pathless)
    if any(pa.types.is_integer(f.type) and rest.field(f.name).null_count < len(rest) for f in rest.type):
        raise CorruptTableError("a file action in the checkpoint has no path", path=checkpoint.files[0].path)
    return kept.filter(pc.invert(pathless))


def _read(
    engine: Engine, files: Sequence[FileStatus], schema: pa.Schema, batch_size: int | None = None
) -> Iterator[pa.RecordBatch]:
    for is_json, group in groupby(files, lambda file: file.path.endswith(".json")):
        if is_json:
            yield from engine.json.read_json_files(list(group), _without_parsed_statistics(schema))
        else:
            yield from engine.parquet.read_parquet_files(map(FileSplit, group), schema, batch_size=batch_size)


def _without_parsed_statistics(schema: pa.Schema) -> pa.Schema:
    """JSON holds statistics as text only."""
    fields = []
    for field in schema:
        if field.name == "add":
            field = field.with_type(pa.struct([inner for inner in field.type if inner.name != "stats_parsed"]))
        fields.append(field)
    return pa.schema(fields)
