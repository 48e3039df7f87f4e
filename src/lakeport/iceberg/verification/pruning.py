"""Checks that filters skip no file with matching rows: the metrics of data files must hold for their rows, and the
summaries in the manifest list for the manifests' entries.

pyiceberg is an optional dependency: import this module where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType

from lakeport.iceberg.verification.comparison import without_views

Path = tuple[str, ...]


@dataclass
class _Held:
    """The values of one column in a file's rows."""

    values: int = 0
    nulls: int = 0
    extremes: list[pa.Scalar] = field(default_factory=list)

    def add(self, column: pa.Array) -> None:
        self.values += len(column) - column.null_count
        self.nulls += column.null_count
        self.extremes += [one for _, one in pc.min_max(without_views(column)).items() if one.is_valid]


class RowsHeld:
    """Collects the values of a data file's rows, in every column that can have metrics, as they stream by."""

    def __init__(self, schema: Schema) -> None:
        self._leaves = dict(_leaves(schema.fields, ()))
        self._held = {path: _Held() for path in self._leaves}
        self._rows = 0

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            for path, held in self._held.items():
                column = batch.column(path[0])
                held.add(pc.struct_field(column, path[1:]) if path[1:] else column)
            yield batch

    def false_metrics(self, file: DataFile, deleted: int) -> Iterator[str]:
        """The file's metrics that do not hold for the collected and the deleted rows."""
        if (records := self._rows + deleted) != file.record_count:
            yield f"it has {records} records, its metrics say {file.record_count}"
        for path, leaf in self._leaves.items():
            for what in _false_metrics(file, leaf, self._held[path]):
                yield f"its metrics of {'.'.join(path)!r}, which the table's statistics gave, are wrong: {what}"


def _leaves(fields: Iterable[NestedField], parents: Path) -> Iterator[tuple[Path, NestedField]]:
    for one in fields:
        path = (*parents, one.name)
        if isinstance(one.field_type, StructType):
            yield from _leaves(one.field_type.fields, path)
        elif isinstance(one.field_type, PrimitiveType):
            yield path, one


def _false_metrics(file: DataFile, leaf: NestedField, held: _Held) -> Iterator[str]:
    nulls, values = (_of(counts, leaf) for counts in (file.null_value_counts, file.value_counts))
    if nulls == 0 and held.nulls:
        yield "there are nulls"
    if nulls is not None and nulls == values and held.values:
        yield "there are not only nulls"
    for which, bounds, is_beyond in (("less", file.lower_bounds, pc.less), ("greater", file.upper_bounds, pc.greater)):
        data = _of(bounds, leaf)
        bound = None if data is None else _decode(data, leaf)
        if bound is not None and any(is_beyond(one, pa.scalar(bound, one.type)).as_py() for one in held.extremes):
            yield f"there are values {which} than {bound!r}"


def _decode(data: bytes, leaf: NestedField) -> Any:
    assert isinstance(leaf.field_type, PrimitiveType)
    return from_bytes(leaf.field_type, data)


def _of(metrics: Mapping[int, Any] | None, leaf: NestedField) -> Any:
    return (metrics or {}).get(leaf.field_id)


def false_summary(manifest: ManifestFile, entries: Sequence[ManifestEntry], partition: StructType) -> Iterator[str]:
    """Claims of the manifest list about a manifest that do not hold for its live entries."""
    is_data = manifest.content == ManifestContent.DATA
    if any((entry.data_file.content == DataFileContent.DATA) != is_data for entry in entries):
        yield f"the manifest list takes it for a manifest of {'data' if is_data else 'deletes'}"
    added = sum(entry.status == ManifestEntryStatus.ADDED for entry in entries)
    if (manifest.added_files_count, manifest.existing_files_count) != (added, len(entries) - added):
        yield "the manifest list has a wrong number of its files"
    for number, (part, summary) in enumerate(zip(partition.fields, manifest.partitions or (), strict=False)):
        if not all(_covers(summary, entry.data_file.partition[number], part.field_type) for entry in entries):
            yield f"the manifest list leaves out values of the partition field {part.name!r} that are in it"


def _covers(summary: PartitionFieldSummary, value: Any, data_type: Any) -> bool:
    if value is None or _is_nan(value):
        return summary.contains_null if value is None else summary.contains_nan is not False
    lower, upper = (
        None if data is None else from_bytes(data_type, data) for data in (summary.lower_bound, summary.upper_bound)
    )
    return lower is not None and upper is not None and bool(lower <= value <= upper)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
