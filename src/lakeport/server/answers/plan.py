"""The plan of an answer: its contents as values, such as rows of files, before anything is signed or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from lakeport.kernel.actions import Metadata, Protocol, to_action
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.log import decode_paths
from lakeport.kernel.paths import whole_path
from lakeport.server.answers.formats import Needs
from lakeport.server.answers.opened_tables import Totals

CHUNK_FILES = 2000
"""Files planned, signed and written at once: enough to be fast, few enough for memory and for other requests."""

_DETAILS = {
    "tags": "tags",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "default_row_commit_version",
    "clusteringProvider": "clustering_provider",
}


class FileRow(msgspec.Struct, frozen=True):
    """A file of the log."""

    path: str
    """Absolute and not percent-encoded, as storage expects it."""
    key: str
    """The input of the file id: the path, relative to the table if it is below it."""
    size: int | None
    modification_time: int
    partition_values: dict[str, str | None]
    """Serialised, by physical column name."""
    stats: str | None
    vector: DeletionVectorDescriptor | None
    vector_path: str | None
    """The file that holds the deletion vector; None if there is no vector or it is inline."""
    details: dict[str, Any]
    """The remaining log fields, named as in `Add`."""


def rows_of_scan(batch: pa.RecordBatch, root: str) -> Iterator[FileRow]:
    """The rows of a `Scan.scan_files` batch, planned with log details. Raises `CorruptTableError`."""
    values = batch.column("partitionValues")
    partitions = values.to_pylist() if values.type.num_fields else repeat({})
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return _rows(columns, columns["path"].to_pylist(), partitions, root)


def rows_of_actions(actions: pa.StructArray, root: str) -> Iterator[FileRow]:
    """The rows of a commit's file actions. Raises `CorruptTableError`."""
    columns = dict(zip(actions.type.names, actions.flatten(), strict=True))
    partitions = (dict(pairs or ()) for pairs in columns["partitionValues"].to_pylist())
    return _rows(columns, decode_paths(columns["path"], root).to_pylist(), partitions, root)


def chunked(rows: Iterable[FileRow]) -> Iterator[list[FileRow]]:
    iterator = iter(rows)
    while some := list(islice(iterator, CHUNK_FILES)):
        yield some


def _rows(
    columns: dict[str, pa.Array], keys: list[str], partitions: Iterable[dict[str, str | None]], root: str
) -> Iterator[FileRow]:
    sizes, times, stats = (_values(columns.get(name)) for name in ("size", "modificationTime", "stats"))
    vectors, details = _values(columns["deletionVector"]), _details(columns)
    for key, size, time, values, text, vector, detail in zip(
        keys, sizes, times, partitions, stats, vectors, details, strict=False
    ):
        descriptor = None if vector is None else to_action(vector, DeletionVectorDescriptor, root)
        vector_path = None if descriptor is None else descriptor.location(root)
        yield FileRow(whole_path(key, root), key, size, time or 0, values, text, descriptor, vector_path, detail)


def _values(column: pa.Array | None) -> Iterable[Any]:
    """The values of a column. Many columns are all null; those cost nothing."""
    if column is None or column.null_count == len(column):
        return repeat(None)
    values: list[Any] = column.to_pylist()
    return values


def _details(columns: dict[str, pa.Array]) -> Iterable[dict[str, Any]]:
    present = [name for name in _DETAILS if name in columns and columns[name].null_count < len(columns[name])]
    if not present:
        return repeat({})
    names = [_DETAILS[name] for name in present]
    rows = zip(*(_maps_as_dicts(columns[name]) for name in present), strict=True)
    return ({name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows)


def _maps_as_dicts(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if pairs is None else dict(pairs) for pairs in values]
    return values


FILE, ADD, REMOVE, CDC = "file", "add", "remove", "cdc"
"""The kinds of files: in the snapshot; or added, removed, or written as change data by a commit."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class State:
    """The protocol or the metadata of the table."""

    action: Protocol | Metadata
    version: int | None = None
    totals: Totals | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """A batch of files of one kind and version."""

    kind: str
    rows: list[FileRow]
    version: int | None = None
    timestamp: int | None = None
    """Of the version, if the answer spans several or one was requested."""
    replaced: frozenset[str] = frozenset()
    """Paths that this commit removes and adds again. Each gets one URL: clients take two URLs for two files."""


class Page(msgspec.Struct, Generic[P], frozen=True, array_like=True):
    """A page of an answer, and the content of its token."""

    request: str
    """The fingerprint of the query."""
    first: int
    last: int
    """The range of versions; a snapshot has one."""
    start: P | None = None
    """None for the first page."""


Part: TypeAlias = State | Files | Page[Any]


@dataclass(frozen=True)
class Plan:
    """Parts in the order of the answer; the next page, if there is one, comes last. Iterating blocks and may raise."""

    version: int
    """For the `Delta-Table-Version` header."""
    needs: Needs
    parts: Iterator[Part]
    details: dict[str, Any]
    """Request parameters, for the audit log."""
