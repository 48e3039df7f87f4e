"""Delete files: the deleted rows of data files, as Iceberg's format versions 2 and 3 write them down.

Version 2 has Parquet files of positions, in which several data files of a partition share one; version 3 has deletion
vectors in Puffin files, whose blobs are Delta's own bytes, one in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.kernel.engine import FIELD_ID, Engine
from lakeport.kernel.values import array_of, from_numpy
from lakeport.version import __version__
from lakeport.workers import Workers, Workplace

DELETED_FILE_PATH_ID = 2147483546
DELETED_POSITION_ID = 2147483545
_ROW_POSITION_ID = 2147483645
"""Reserved field ids, see "Reserved Field IDs" in Iceberg's specification."""

_SCHEMA = pa.schema(
    [
        # In memory and in the file a path is there once, not once per row.
        pa.field(
            "file_path",
            pa.dictionary(pa.int32(), pa.string()),
            nullable=False,
            metadata={FIELD_ID: str(DELETED_FILE_PATH_ID).encode()},
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(DELETED_POSITION_ID).encode()}),
    ]
)
_PUFFIN_MAGIC = b"PFA1"
_NO_FLAGS = bytes(4)


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of deleted positions, as a delete manifest lists it."""

    path: str
    """Where it was written: plain, as storage takes it."""
    format: Literal["parquet", "puffin"]
    file_size: int
    record_count: int
    """How many rows it deletes."""
    data_files: tuple[str, ...]
    """Whose rows they are, as the manifests name them, in the order of their names."""
    content_offset: int | None = None
    content_size: int | None = None
    """Where the blob of the vector lies in a Puffin file."""


def write_position_deletes(engine: Engine, vectors: Sequence[InternalDeletionVector], path: str) -> DeleteFile:
    """Writes the positions of vectors, which are in the order of their data files' names, into a new Parquet file at
    `path`, whose name must be unique. Data files have the names that the manifests must have for them too, byte for
    byte.

    Raises what `InternalDeletionVector.ordinals` raises; then no file stays."""
    data_files = tuple(vector.data_file_path for vector in vectors)
    names = array_of(list(data_files), pa.string())
    writer = engine.parquet.open_writer(path, _SCHEMA, "zstd")
    try:
        for index, vector in enumerate(vectors):
            for positions in vector.ordinals(engine):
                writer.write(_delete_batch(names, index, positions))
        file = writer.close()
    except BaseException:
        writer.abort()
        raise
    deleted = sum(vector.count_records_deleted for vector in vectors)
    return DeleteFile(path, "parquet", file.size, deleted, data_files)


def _delete_batch(names: pa.StringArray, index: int, positions: npt.NDArray[np.uint64]) -> pa.RecordBatch:
    indices = from_numpy(np.full(len(positions), index, dtype=np.int32))
    paths = pa.DictionaryArray.from_arrays(indices, names)
    return pa.RecordBatch.from_arrays([paths, from_numpy(positions.view(np.int64))], schema=_SCHEMA)


def write_puffin(engine: Engine, vector: InternalDeletionVector, path: str) -> DeleteFile:
    """Writes a vector as the one blob of a new Puffin file at `path`. Otherwise as `write_position_deletes`."""
    output = engine.storage.open_output(path)
    try:
        start = output.write(_PUFFIN_MAGIC)
        length = output.write(vector.blob(engine))
        footer_length = output.write(_encode_footer(vector, start, length))
        output.close()
    except BaseException:
        output.abort()
        raise
    size = start + length + footer_length
    return DeleteFile(path, "puffin", size, vector.count_records_deleted, (vector.data_file_path,), start, length)


def _encode_footer(vector: InternalDeletionVector, offset: int, length: int) -> bytes:
    """The footer of a Puffin file with one deletion vector, see "Blob types" in the specification of Puffin: its
    snapshot is not known before the commit, so that snapshot and sequence number are -1."""
    blob = {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_ID],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {
            "referenced-data-file": vector.data_file_path,
            "cardinality": str(vector.count_records_deleted),
        },
    }
    payload = msgspec.json.encode({"blobs": [blob], "properties": {"created-by": f"lakeport {__version__}"}})
    return _PUFFIN_MAGIC + payload + len(payload).to_bytes(4, "little") + _NO_FLAGS + _PUFFIN_MAGIC


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """A delete file to write. Can be pickled."""

    vectors: tuple[InternalDeletionVector, ...]
    """Of data files of one partition, in the order of their names; one only in format version 3."""
    path: str
    """Where to, unique."""
    format_version: int


def write_deletes(workers: Workers, tasks: Sequence[DeleteTask]) -> list[DeleteFile]:
    """The files, in the order of their tasks."""
    return list(workers.map(_write, tasks)) if tasks else []


def _write(place: Workplace, task: DeleteTask) -> DeleteFile:
    if task.format_version < 3:
        return write_position_deletes(place.engine, task.vectors, task.path)
    [vector] = task.vectors
    return write_puffin(place.engine, vector, task.path)
