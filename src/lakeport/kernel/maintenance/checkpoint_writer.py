"""Write checkpoints: one file under the classic name, or a V2 checkpoint with sidecars.

A checkpoint takes effect when its last file is written, atomically; the hint in `_last_checkpoint` follows. So a crash
leaves a readable table, at worst with unreferenced files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import SIDECAR, STATE_FIELDS, TEXT_MAP
from lakeport.kernel.definition import (
    CHECKPOINT_POLICY,
    DELETED_FILE_RETENTION,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    TRANSACTION_RETENTION,
)
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import (
    FileTotals,
    LogSegment,
    checkpoint_path,
    find_segment,
    last_checkpoint,
    last_checkpoint_path,
    log_path,
    whole_checksum,
    write_checksum,
)
from lakeport.kernel.maintenance.checkpoint_actions import (
    REMOVE,
    Actions,
    AddColumns,
    SurvivingActions,
    action_batch,
    file_batch,
    known_stats_type,
    state_actions,
)
from lakeport.kernel.snapshot import Snapshot

SIDECAR_ROWS = 100_000
"""Maximum number of file actions in a sidecar."""

_CHECKPOINT_METADATA = pa.field("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", TEXT_MAP)]))


@dataclass(frozen=True, slots=True)
class _Written:
    """The written checkpoint, for the hint."""

    actions: int
    size: int


def write_checkpoint(engine: Engine, snapshot: Snapshot) -> None:
    """Write a checkpoint of the snapshot's version, its hint, and the version's checksum if missing. Does nothing if
    that version has a complete checkpoint.

    Reads only log files: the newest earlier checkpoint and the commits since. Raises storage errors, and `ValueError`
    for an invalid table property. On any error, the table stays as readable as before."""
    segment = find_segment(engine.storage, snapshot.root, snapshot.version)
    if segment.checkpoint is not None and segment.checkpoint.version == snapshot.version:
        return
    contents = _Contents(engine, snapshot, segment)
    is_v2 = snapshot.protocol.has_reader_feature("v2Checkpoint") and CHECKPOINT_POLICY.of(snapshot.properties) == "v2"
    written = _write_v2(engine, snapshot, contents) if is_v2 else _write_classic(engine, snapshot, contents)
    _write_hint(engine, snapshot, written, contents.totals.files)
    if segment.checksum is None:
        stamp = snapshot.timestamp if ENABLE_IN_COMMIT_TIMESTAMPS.of(snapshot.properties) else None
        checksum = whole_checksum(contents.totals, contents.state, snapshot.root, stamp)
        write_checksum(engine, snapshot.root, snapshot.version, checksum)


class _Contents:
    """The rows of a checkpoint; counts files while streaming them."""

    def __init__(self, engine: Engine, snapshot: Snapshot, segment: LogSegment) -> None:
        now, properties = engine.now(), snapshot.properties
        self._surviving = SurvivingActions(
            engine, snapshot.root, segment, known_stats_type(snapshot), now - DELETED_FILE_RETENTION.of(properties)
        )
        self.state = self._surviving.state
        domains = {name: d.configuration for name, d in self.state.domains.items() if not d.removed}
        self._adds = AddColumns(engine, snapshot, domains)
        retention = TRANSACTION_RETENTION.of(properties)
        self.actions = state_actions(self.state, snapshot.root, None if retention is None else now - retention)
        self.file_schema = pa.schema([pa.field("add", self._adds.type), REMOVE])
        self.totals, self.rows = FileTotals(), 0

    def file_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Batches of `schema`, which has at least the columns of `file_schema`."""
        for adds, removes in self._surviving.adds_and_tombstones():
            if len(adds):
                self._count(adds)
                yield file_batch(self._adds.shape(adds), "add", schema)
            if len(removes):
                self.rows += len(removes)
                yield file_batch(removes, "remove", schema)

    def _count(self, adds: pa.StructArray) -> None:
        self.rows += len(adds)
        vectors, totals = adds.field("deletionVector"), self.totals
        self.totals = FileTotals(
            totals.files + len(adds),
            totals.size + _sum(adds.field("size")),
            (totals.deletion_vectors or 0) + len(vectors) - vectors.null_count,
            totals.deleted_records + _sum(vectors.drop_null().field("cardinality")),
        )


def _sum(numbers: pa.Array) -> int:
    return pc.sum(numbers).as_py() or 0


def _write_classic(engine: Engine, snapshot: Snapshot, contents: _Contents) -> _Written:
    """Write one file, encoded in memory: it must not be visible before it is complete."""
    schema = pa.schema([*STATE_FIELDS, *contents.file_schema])
    first = action_batch(contents.actions, schema)
    data = engine.parquet.encode_parquet(chain([first], contents.file_batches(schema)), schema)
    _write_once(engine, checkpoint_path(snapshot.root, snapshot.version), data)
    return _Written(first.num_rows + contents.rows, len(data))


def _write_v2(engine: Engine, snapshot: Snapshot, contents: _Contents) -> _Written:
    """Write the file actions to sidecars, then the file that refers to them."""
    sidecars = list(_write_sidecars(engine, snapshot, contents))
    size = sum(sidecar.size for sidecar in sidecars)
    tags = {
        "sidecarNumActions": str(contents.rows),
        "sidecarSizeInBytes": str(size),
        "numOfAddFiles": str(contents.totals.files),
    }
    actions: Actions = {
        "checkpointMetadata": [{"version": snapshot.version, "tags": tags}],
        **contents.actions,
        "sidecar": [_sidecar(sidecar) for sidecar in sidecars],
    }
    schema = pa.schema([_CHECKPOINT_METADATA, *STATE_FIELDS, *contents.file_schema, SIDECAR])
    top = action_batch(actions, schema)
    data = engine.parquet.encode_parquet([top], schema)
    _write_once(engine, checkpoint_path(snapshot.root, snapshot.version, uuid4()), data)
    return _Written(top.num_rows + contents.rows, len(data) + size)


def _write_once(engine: Engine, path: str, data: bytes) -> None:
    """Write unless it exists: a concurrent writer wrote the same checkpoint, and readers may be using it."""
    with suppress(FileExistsError):
        engine.storage.write(path, data)


def _write_sidecars(engine: Engine, snapshot: Snapshot, contents: _Contents) -> Iterator[FileStatus]:
    schema = contents.file_schema
    for batches in _chunks(contents.file_batches(schema), SIDECAR_ROWS):
        writer = engine.parquet.open_writer(f"{log_path(snapshot.root)}/_sidecars/{uuid4()}.parquet", schema)
        try:
            for batch in batches:
                writer.write(batch)
            yield writer.close()
        except BaseException:
            writer.abort()
            raise


def _chunks(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """Split the batches into runs of at most `rows` rows; consume each run before the next."""
    rest: list[pa.RecordBatch] = []

    def run() -> Iterator[pa.RecordBatch]:
        room = rows
        for batch in chain([rest.pop()], batches):
            if batch.num_rows >= room:
                rest.extend([batch.slice(room)] if batch.num_rows > room else [])
                yield batch.slice(0, room)
                return
            room -= batch.num_rows
            yield batch

    while rest or (rest := list(islice(batches, 1))):
        yield run()


def _sidecar(file: FileStatus) -> dict[str, Any]:
    return {
        "path": file.path.rpartition("/")[2],
        "sizeInBytes": file.size,
        "modificationTime": file.modification_time,
    }


def _write_hint(engine: Engine, snapshot: Snapshot, written: _Written, add_files: int) -> None:
    """Write the hint, unless it points to a newer checkpoint."""
    if (last_checkpoint(engine.storage, snapshot.root) or 0) > snapshot.version:
        return
    hint = {
        "version": snapshot.version,
        "size": written.actions,
        "sizeInBytes": written.size,
        "numOfAddFiles": add_files,
    }
    engine.storage.write(last_checkpoint_path(snapshot.root), msgspec.json.encode(hint), overwrite=True)
