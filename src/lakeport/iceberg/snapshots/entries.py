"""Manifest entries of new files, with Delta's file statistics as Iceberg metrics, as far as they are true.

An uncertain bound is omitted: that costs readers time, while a false one would lose rows. Delta's statistics truncate
strings and round timestamps; `FileStatistics` accounts for that and returns bounds that hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import CorruptTableError
from lakeport.iceberg.avro import NULL, PRESENT, encode_array, encode_bytes, encode_long
from lakeport.iceberg.manifests.manifest import PARQUET, Entry, hash_path
from lakeport.iceberg.snapshots.deletes import (
    DeleteFile,
    DeleteTask,
    members_of,
    new_delete_entry,
)
from lakeport.iceberg.snapshots.shape import Shape
from lakeport.iceberg.table.partitions import Values, encode_unscaled, unscaled
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.data_files import Bounds, FileStatistics, stats_type
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.workers.ordered import map_ordered

_WIDTHS = {"int": "<i4", "date": "<i4", "long": "<i8", "timestamp": "<i8", "timestamptz": "<i8", "float": "<f4"}
_WIDTHS |= {"double": "<f8"}
_STORED_AS = {"date": pa.int32(), "timestamp": pa.int64(), "timestamptz": pa.int64(), "int": pa.int32()}


@dataclass(frozen=True)
class _Leaf:
    """A column with metrics: primitive, and nested in structs only."""

    path: tuple[str, ...]
    id: int
    type: str


class MetricsEncoder:
    """Encodes the metrics of files with one schema."""

    def __init__(
        self, engine: Engine, schema: StructType, mapping_mode: str, fields: Sequence[Json], skipped: Sequence[str]
    ) -> None:
        """`fields` is the Iceberg schema; `skipped` are the logical names of top-level columns without metrics: the
        partition columns."""
        self._engine, self._schema, self._mode = engine, schema, mapping_mode
        self._leaves = [leaf for leaf in _leaves(fields, ()) if leaf.path[0] not in skipped]
        self._type = pa.schema(list(stats_type(schema, [Column(leaf.path) for leaf in self._leaves], mapping_mode)))

    def encode(self, stats: Sequence[str | None]) -> Iterator[tuple[int | None, bytes]]:
        """For each file's statistics: its row count, if present, and its metrics as four optional maps of a manifest:
        value counts, null counts, lower bounds, upper bounds."""
        parsed = self._engine.json.parse_json(pa.array(stats, pa.string()), self._type)
        structs = pa.StructArray.from_arrays(parsed.columns, fields=list(parsed.schema))
        statistics = FileStatistics(structs, self._schema, self._mode)
        rows = [count if count is None or count >= 0 else None for count in parsed.column("numRecords").to_pylist()]
        columns = [_encode_column(leaf, statistics.bounds_of(Column(leaf.path)), rows) for leaf in self._leaves]
        maps = [_encode_maps([column[kind] for column in columns], len(rows)) for kind in range(4)]
        return zip(rows, map(b"".join, zip(*maps, strict=True)), strict=True)


def _leaves(fields: Sequence[Json], parents: tuple[str, ...]) -> Iterator[_Leaf]:
    for column in fields:
        path = (*parents, column["name"])
        match column["type"]:
            case str(name) if name != "variant":
                yield _Leaf(path, column["id"], name)
            case {"type": "struct", "fields": inner}:
                yield from _leaves(inner, path)


Fragments = Sequence[bytes]
"""One column's key and value in a map, for each file; empty if absent."""


def _encode_column(leaf: _Leaf, bounds: Bounds | None, rows: list[int | None]) -> tuple[Fragments, ...]:
    absent = [b""] * len(rows)
    if bounds is None:
        return absent, absent, absent, absent
    key = encode_long(leaf.id)
    nulls = absent if bounds.nulls is None else _encode_nulls(key, bounds.nulls.to_pylist(), rows)
    values = [
        key + encode_long(count) if null and count is not None else b"" for null, count in zip(nulls, rows, strict=True)
    ]
    lower = absent if bounds.lower is None else _encode_bounds(key, bounds.lower, leaf.type, upper=False)
    upper = absent if bounds.upper is None else _encode_bounds(key, bounds.upper, leaf.type, upper=True)
    return values, nulls, lower, upper


def _encode_nulls(key: bytes, nulls: list[int | None], rows: list[int | None]) -> Fragments:
    pairs = zip(nulls, rows, strict=True)
    return [
        key + encode_long(count) if count is not None and total is not None and 0 <= count <= total else b""
        for count, total in pairs
    ]


def _encode_bounds(key: bytes, bounds: pa.Array, iceberg_type: str, *, upper: bool) -> Fragments:
    if iceberg_type in ("float", "double"):
        # Some writers ignore NaN, which Spark's and DuckDB's filters treat as the greatest value.
        return [b""] * len(bounds) if upper else _encode_lower_floats(key, bounds, iceberg_type)
    if iceberg_type in _WIDTHS:
        return _encode_fixed(key, bounds.cast(_STORED_AS.get(iceberg_type, bounds.type)), _WIDTHS[iceberg_type])
    encode = _encoder_of(iceberg_type)
    return [b"" if value is None else key + encode_bytes(encode(value)) for value in bounds.to_pylist()]


def _encoder_of(iceberg_type: str) -> Callable[[Any], bytes]:
    if iceberg_type.startswith("decimal"):
        return lambda value: encode_unscaled(unscaled(value))
    if iceberg_type == "boolean":
        return lambda value: b"\x01" if value else b"\x00"
    return lambda value: value.encode() if isinstance(value, str) else bytes(value)


def _encode_lower_floats(key: bytes, bounds: pa.Array, iceberg_type: str) -> Fragments:
    """Iceberg orders -0.0 before 0.0; writers of statistics may treat them as equal."""
    values = bounds.fill_null(float("nan")).to_numpy(zero_copy_only=False)
    known = ~np.isnan(values)
    lowered = np.where(values == 0, -0.0, values)
    return _slices(key, lowered, known, _WIDTHS[iceberg_type])


def _encode_fixed(key: bytes, bounds: pa.Array, form: str) -> Fragments:
    known = bounds.is_valid().to_numpy(zero_copy_only=False)
    return _slices(key, bounds.fill_null(0).to_numpy(zero_copy_only=False), known, form)


def _slices(key: bytes, values: Any, known: Any, form: str) -> Fragments:
    data = np.ascontiguousarray(values, dtype=form).tobytes()
    width = np.dtype(form).itemsize
    prefix = key + encode_long(width)
    starts = range(0, len(data), width)
    return [prefix + data[at : at + width] if there else b"" for at, there in zip(starts, known.tolist(), strict=True)]


def _encode_maps(columns: list[Fragments], files: int) -> Iterator[bytes]:
    """One of the maps, for each file."""
    rows = zip(*columns, strict=True) if columns else repeat((), files)
    for row in rows:
        items = [fragment for fragment in row if fragment]
        yield PRESENT + encode_array(len(items), items) if items else NULL


_THREADS = 16


@dataclass(frozen=True)
class Batch:
    """Entries of one manifest, and the partitions of their files."""

    entries: list[Entry]
    partitions: set[Values]


@dataclass(frozen=True)
class EntryMaker:
    """Builds entries with one shape, for one snapshot of the mirror."""

    engine: Engine
    shape: Shape
    snapshot: Snapshot
    snapshot_id: int
    _partitions: dict[tuple[str | None, ...], tuple[Values, bytes]] = field(default_factory=dict)

    def data_files(self, files: Sequence[ScanFile], batch_size: int) -> Iterator[Batch]:
        """Entries of data files, grouped by partition."""
        names = self.shape.partitioning.physical_names
        if names:
            files = sorted(files, key=lambda file: [file.partition_values.get(name) or "" for name in names])
        metrics = MetricsEncoder(
            self.engine,
            self.snapshot.schema,
            self.snapshot.mapping_mode,
            self.shape.schema["fields"],
            self.snapshot.partition_columns,
        )
        for start in range(0, len(files), batch_size):
            yield self._data_batch(files[start : start + batch_size], metrics)

    def _data_batch(self, files: Sequence[ScanFile], metrics: MetricsEncoder) -> Batch:
        encoded_stats = list(metrics.encode([file.stats for file in files]))
        counted = self._count_rows([file for file, (rows, _) in zip(files, encoded_stats, strict=True) if rows is None])
        entries, partitions = [], set()
        for file, (rows, encoded) in zip(files, encoded_stats, strict=True):
            values, partition = self._partition(file.partition_values)
            partitions.add(values)
            tail = b"".join((encode_bytes(file.path.encode()), PARQUET, partition, encoded))
            records = counted[file.path] if rows is None else rows
            entries.append(Entry(hash_path(file.path), records, file.size, tail, snapshot_id=self.snapshot_id))
        return Batch(entries, partitions)

    def _count_rows(self, files: Sequence[ScanFile]) -> dict[str, int]:
        """The row counts of files without them in their statistics, from the files themselves."""
        counts = map_ordered(self._count_rows_of, files, _THREADS, "footers")
        return {file.path: rows for file, rows in zip(files, counts, strict=True)}

    def _count_rows_of(self, file: ScanFile) -> int:
        try:
            with self.engine.storage.open_input(file.status) as source, pq.ParquetFile(source) as parquet:
                rows: int = parquet.metadata.num_rows
        except pa.ArrowInvalid as error:
            raise CorruptTableError(f"the data file is not a Parquet file: {error}", path=file.path) from error
        return rows

    def delete_files(
        self, tasks: Sequence[DeleteTask], files: Sequence[DeleteFile], batch_size: int
    ) -> Iterator[Batch]:
        """Entries of delete files, each paired with its task."""
        for start in range(0, len(files), batch_size):
            entries, partitions = [], set()
            chosen = slice(start, start + batch_size)
            for task, file in zip(tasks[chosen], files[chosen], strict=True):
                values, partition = self._partition(task.vectors[0].partition_values)
                partitions.add(values)
                members, version = members_of(task.vectors), self.shape.format_version
                entries.append(new_delete_entry(file, partition, members, self.snapshot_id, version))
            yield Batch(entries, partitions)

    def _partition(self, texts: Mapping[str, str | None]) -> tuple[Values, bytes]:
        partitioning = self.shape.partitioning
        key = tuple(texts.get(name) for name in partitioning.physical_names)
        if key not in self._partitions:
            values = partitioning.parse(texts, self.snapshot.root)
            self._partitions[key] = values, partitioning.encode(values)
        return self._partitions[key]
