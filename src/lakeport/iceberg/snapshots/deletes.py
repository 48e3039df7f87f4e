"""Delete files: the deleted rows of data files, in Iceberg's format versions 2 and 3.

Version 2 has Parquet files of positions, shared by several data files of a partition. Version 3 has deletion vectors in
Puffin files, with Delta's own bytes as the only blob of each.
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
"""See "Reserved Field IDs" in Iceberg's specification."""

_SCHEMA = pa.schema(
    [
        # Dictionary-encoded: a path is stored once, not once per row.
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
    """Its path, plain, as storage takes it."""
    format: Literal["parquet", "puffin"]
    file_size: int
    record_count: int
    """The number of rows it deletes."""
    data_files: tuple[str, ...]
    """The affected data files, named as in the manifests, sorted."""
    content_offset: int | None = None
    content_size: int | None = None
    """The range of the vector's blob in a Puffin file."""


def write_position_deletes(engine: Engine, vectors: Sequence[InternalDeletionVector], path: str) -> DeleteFile:
    """Write the positions of vectors, sorted by data file name, to a new Parquet file at `path`, whose name must be
    unique. Data file names must match those in the manifests byte for byte.

    Raises like `InternalDeletionVector.ordinals`; then no file is left behind."""
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
    """Write a vector as the only blob of a new Puffin file at `path`. Otherwise like `write_position_deletes`."""
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
    """The footer of a Puffin file with one deletion vector, see "Blob types" in the Puffin specification. Snapshot and
    sequence number are -1: they are unknown before the commit."""
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
    """Of data files in one partition, sorted by name; only one in format version 3."""
    path: str
    """The unique path to write to."""
    format_version: int


def write_deletes(workers: Workers, tasks: Sequence[DeleteTask]) -> list[DeleteFile]:
    """The files, in task order."""
    return list(workers.map(_write, tasks)) if tasks else []


def _write(place: Workplace, task: DeleteTask) -> DeleteFile:
    if task.format_version < 3:
        return write_position_deletes(place.engine, task.vectors, task.path)
    [vector] = task.vectors
    return write_puffin(place.engine, vector, task.path)
