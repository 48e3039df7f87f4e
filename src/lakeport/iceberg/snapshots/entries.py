"""Manifest entries of new files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import CorruptTableError
from lakeport.iceberg.encoding.avro import encode_bytes
from lakeport.iceberg.manifests.manifest import PARQUET, Entry, hash_path
from lakeport.iceberg.snapshots.deletes import (
    DeleteFile,
    DeleteTask,
    members_of,
    new_delete_entry,
)
from lakeport.iceberg.snapshots.metrics import MetricsEncoder
from lakeport.iceberg.snapshots.shape import Shape
from lakeport.iceberg.table.partitions import Values
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.workers.ordered import map_ordered

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
        told = list(metrics.encode([file.stats for file in files]))
        counted = self._count_rows([file for file, (rows, _) in zip(files, told, strict=True) if rows is None])
        entries, partitions = [], set()
        for file, (rows, encoded) in zip(files, told, strict=True):
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
