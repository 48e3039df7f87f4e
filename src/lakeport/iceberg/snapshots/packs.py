"""Delete files shared by several data files: how vectors are grouped, and how a data file leaves its group.

After a wide delete, one small file per data file would be most of the files a reader opens. A shared file must be
rewritten when one of its data files gets other deletes, so it is kept small.

In a NaN partition, each data file has its own: pyiceberg finds shared files by equal partitions, and NaN is not equal
to NaN.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.encoding.avro import decoder, encoder
from lakeport.iceberg.manifests.manifest import Entry, ManifestLayout, Member, hash_path
from lakeport.iceberg.snapshots.deletes import DELETED_FILE_PATH_ID, DeleteFile, write_position_deletes, write_puffin
from lakeport.iceberg.table.partitions import Values, has_nan
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor, encode_deletion_vector, encode_inline
from lakeport.kernel.engine import Engine, FileStatus

_TARGET_BYTES = 1 << 20
"""Positions and paths, before compression."""
_POSITION_BYTES = 8


def pack(
    vectors: Iterable[InternalDeletionVector], parse: Callable[[Mapping[str, str | None]], Values]
) -> Iterator[tuple[InternalDeletionVector, ...]]:
    """Groups of vectors that share a delete file: in one partition, sorted by data file name, about the target size
    together. A larger vector is alone. `parse` returns the values of a partition, and may raise."""
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


def new_delete_entry(file: DeleteFile, tail: bytes, members: tuple[Member, ...], snapshot_id: int) -> Entry:
    """`members` are those of the file, even if there is only one."""
    return Entry(
        members[0].key,
        file.record_count,
        file.file_size,
        tail,
        snapshot_id=snapshot_id,
        members=members if len(members) > 1 else (),
    )


def repack(
    engine: Engine,
    location: str,
    layout: ManifestLayout,
    entry: Entry,
    gone: Collection[int],
    snapshot_id: int,
    written: list[str],
) -> list[Entry]:
    """New entries, in new files, for a delete file's data files whose keys are not in `gone`. The new paths are added
    to `written` before the files are created. Raises `MissingFileError`."""
    kept = {member.key: member for member in entry.members if member.key not in gone}
    if not kept:
        return []
    tail, _ = decoder(layout.tail_schema)(memoryview(entry.tail), 0)
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
        entries.append(new_delete_entry(file, encoder(layout.tail_schema)(tail | _about(file)), members, snapshot_id))
    return entries


def _about(file: DeleteFile) -> dict[str, object]:
    """The file's fields in an entry's tail."""
    lower, upper = ([{"key": DELETED_FILE_PATH_ID, "value": file.data_files[i].encode()}] for i in (0, -1))
    return {
        "file_path": file.path,
        "file_format": file.format.upper(),
        "lower_bounds": lower,
        "upper_bounds": upper,
        "referenced_data_file": file.data_files[0] if len(file.data_files) == 1 else None,
        "content_offset": file.content_offset,
        "content_size_in_bytes": file.content_size,
    }


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
