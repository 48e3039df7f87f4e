"""Delete files: the deleted rows of data files, in Iceberg's format versions 2 and 3.

Version 2 has Parquet files of positions, shared by several data files of a partition. Version 3 has deletion vectors in
Puffin files, with Delta's own bytes as the only blob of each.

Data files share delete files: after a delete across many files, one each would make up most of the files a reader
opens. Shared files stay small, because new deletes in one data file rewrite the shared file. In a NaN partition, each
data file has its own: pyiceberg finds shared files by equal partitions, and NaN is not equal to NaN.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport.iceberg.avro import NULL, PRESENT, decoder, encode_array, encode_bytes, encode_long, encoder
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.manifests.manifest import (
    PARQUET,
    PUFFIN,
    Entry,
    ManifestLayout,
    Member,
    hash_path,
    partition_fields,
)
from lakeport.iceberg.table.partitions import Values, has_nan
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor, encode_deletion_vector, encode_inline
from lakeport.kernel.engine import FIELD_ID, Engine, FileStatus
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
_TARGET_BYTES = 1 << 20
"""Positions and paths, before compression."""
_POSITION_BYTES = 8


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


# Shared delete files


def pack(
    vectors: Iterable[InternalDeletionVector], parse: Callable[[Mapping[str, str | None]], Values]
) -> Iterator[tuple[InternalDeletionVector, ...]]:
    """Groups of vectors that share a delete file. Each group is in one partition, sorted by data file name, and about
    the target size. A larger vector gets its own group. `parse` returns the values of a partition, and may raise."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[InternalDeletionVector]] = {}
    for vector in vectors:
        partitions.setdefault(tuple(sorted(vector.partition_values.items())), []).append(vector)
    for texts, found in partitions.items():
        ordered = sorted(found, key=lambda vector: vector.data_file_path.encode())
        yield from ((vector,) for vector in ordered) if has_nan(parse(dict(texts))) else _cut(ordered)


def _cut(vectors: Sequence[InternalDeletionVector]) -> Iterator[tuple[InternalDeletionVector, ...]]:
    waiting: list[InternalDeletionVector] = []
    size = 0
    for vector in vectors:
        own = vector.count_records_deleted * _POSITION_BYTES + len(vector.data_file_path)
        if waiting and size + own > _TARGET_BYTES:
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(vector)
        size += own
    if waiting:
        yield tuple(waiting)


def new_path(location: str, first: Member, suffix: str) -> str:
    """A path for a delete file of a mirror."""
    return f"{location}{vector_mark(first.vector)}{uuid.uuid4()}.{suffix}"


def vector_mark(vector: int) -> str:
    """The part of a delete file's path that identifies its first deletion vector: see `Member.vector`."""
    return f"/deletes/{vector:016x}-"


def members_of(vectors: Sequence[InternalDeletionVector]) -> tuple[Member, ...]:
    return tuple(
        Member(hash_path(v.data_file_path), hash_path(v.descriptor.unique_id), v.count_records_deleted) for v in vectors
    )


def new_delete_entry(
    file: DeleteFile, partition: bytes, members: tuple[Member, ...], snapshot_id: int, format_version: int
) -> Entry:
    """`members` are those of the file, even if there is only one; `partition` is encoded."""
    return Entry(
        members[0].key,
        file.record_count,
        file.file_size,
        _encode_tail(file, partition, format_version),
        snapshot_id=snapshot_id,
        members=members if len(members) > 1 else (),
    )


def _encode_tail(file: DeleteFile, partition: bytes, format_version: int) -> bytes:
    # pyiceberg finds the data file by these bounds, for Puffin files too: it does not read the next field.
    lower, upper = (encode_bytes(name.encode()) for name in (file.data_files[0], file.data_files[-1]))
    bounds = (PRESENT + encode_array(1, [encode_long(DELETED_FILE_PATH_ID) + about]) for about in (lower, upper))
    parts = [encode_bytes(file.path.encode()), PARQUET if file.format == "parquet" else PUFFIN, partition]
    parts += [NULL, NULL, *bounds, PRESENT + lower if len(file.data_files) == 1 else NULL]
    if format_version >= 3:
        ends = (file.content_offset, file.content_size)
        parts += [NULL if number is None else PRESENT + encode_long(number) for number in ends]
    return b"".join(parts)


def repack(
    engine: Engine,
    location: str,
    layout: ManifestLayout,
    entry: Entry,
    gone: Collection[int],
    snapshot_id: int,
    written: list[str],
) -> list[Entry]:
    """Rewrite a delete file without the data files in `gone`; return the entries of the new files. Their paths are
    added to `written` before they are created. Raises `MissingFileError`."""
    kept = {member.key: member for member in entry.members if member.key not in gone}
    if not kept:
        return []
    tail, _ = decoder(layout.tail_schema)(memoryview(entry.tail), 0)
    partition = encoder({"type": "record", "fields": partition_fields(layout.avro_schema)})(tail["partition"])
    vectors = _read_vectors(engine, FileStatus(tail["file_path"], entry.file_size), kept)
    entries = []
    is_shared = layout.format_version < 3 and not has_nan(tail["partition"].values())
    for group in [vectors] if is_shared else [[vector] for vector in vectors]:
        members = tuple(kept[hash_path(vector.data_file_path)] for vector in group)
        path = new_path(location, members[0], "parquet" if layout.format_version < 3 else "puffin")
        written.append(path)
        file = (
            write_position_deletes(engine, group, path)
            if layout.format_version < 3
            else write_puffin(engine, group[0], path)
        )
        entries.append(new_delete_entry(file, partition, members, snapshot_id, layout.format_version))
    return entries


def _read_vectors(engine: Engine, file: FileStatus, kept: Collection[int]) -> list[InternalDeletionVector]:
    """The deleted rows of the data files with these keys, from a delete file, as in-memory vectors."""
    with engine.storage.open_input(file) as source:
        rows = pq.read_table(source, columns=["file_path", "pos"])
    names = sorted(
        (name for name in pc.unique(rows["file_path"]).to_pylist() if hash_path(name) in kept), key=str.encode
    )
    return [_vector(name, rows.filter(pc.equal(rows["file_path"], name))["pos"]) for name in names]


def _vector(data_file: str, positions: pa.ChunkedArray) -> InternalDeletionVector:
    payload = encode_deletion_vector(positions.to_numpy().astype(np.uint64))
    descriptor = DeletionVectorDescriptor("i", encode_inline(payload), len(payload), len(positions))
    return InternalDeletionVector(data_file, descriptor, None)
