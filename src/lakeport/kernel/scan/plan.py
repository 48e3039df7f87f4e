"""Scan planning: which files to read and which filter remains. Reads only the log, never a data file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.data_files import (
    Bounds,
    FileStatistics,
    conform_parsed,
    format_stats,
    make_batch,
    may_match,
    parse_partition_values,
    physical_path,
    stats_type,
    whole_stats_type,
)
from lakeport.kernel.definition import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import (
    Column,
    Expression,
    all_of,
    bind,
    columns_in,
    conjuncts,
    normalize,
    replace_now,
    rewrite,
)
from lakeport.kernel.log import FileColumns
from lakeport.kernel.scan.files import FilteredBatch, ScanFile, ScanState, scan_files_in
from lakeport.kernel.schema import StructField, StructType, arrow_field, format_schema
from lakeport.kernel.values import from_numpy, null_of, to_mask

if TYPE_CHECKING:
    from lakeport.kernel.snapshot import Snapshot


_Plan = TypeVar("_Plan", covariant=True)
_FILES_AT_ONCE, _BYTES_AT_ONCE = 4096, 16 << 20
"""Batches of files are combined up to these limits before filtering."""


class PlanBuilder(ABC, Generic[_Plan]):
    """Collects the options of a plan; each `with_…` returns a new builder."""

    def __init__(self, engine: Engine, schema: StructType) -> None:
        """`schema` has all columns that can be returned or filtered on."""
        self._engine, self._whole_schema = engine, schema
        self._schema = schema
        self._filter: Expression | None = None
        self._stats = False

    def with_filter(self, predicate: Expression) -> Self:
        """Skip rows that do not satisfy the filter where possible; readers must still apply the plan's
        `remaining_filter`. Several filters are combined with AND.

        Raises `InvalidFilterError` and `UnknownColumnError`."""
        bound = bind(replace_now(predicate, self._engine.now()), self._whole_schema)
        return self._with(_filter=all_of([self._filter, bound] if self._filter is not None else [bound]))

    def with_read_schema(self, schema: StructType) -> Self:
        """The columns to return: a subset of the whole schema (see `StructType.select`), including nested fields."""
        return self._with(_schema=schema)

    def with_stats(self) -> Self:
        """Include statistics in the files."""
        return self._with(_stats=True)

    @abstractmethod
    def build(self) -> _Plan: ...

    def _with(self, **changes: Any) -> Self:
        builder = copy(self)
        builder.__dict__.update(changes)
        return builder


class ScanBuilder(PlanBuilder["Scan"]):
    """Collects the options of a scan."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.engine, snapshot.schema)
        self._snapshot = snapshot
        self._log_details = False
        self._row_tracking = False
        self._row_position = False

    def with_log_details(self) -> ScanBuilder:
        """Include the complete log entry in scan files, for writers."""
        return self._with(_stats=True, _log_details=True)

    def with_row_tracking(self) -> ScanBuilder:
        """Add `_row_id` and `_row_commit_version` to the rows. Raises `ValueError` if the table does not track rows."""
        if not self._snapshot.tracks_rows:
            raise ValueError(
                f"the table does not track rows: delta.enableRowTracking is not set [{self._snapshot.root}]"
            )
        return self._with(_row_tracking=True)

    def with_row_position(self) -> ScanBuilder:
        """Add each row's position in its file, as `scan_files.ROW_POSITION`."""
        return self._with(_row_position=True)

    def build(self) -> Scan:
        extras = _Extras(self._stats, self._log_details, self._row_tracking, self._row_position)
        return Scan(self._snapshot, self._schema, self._filter, extras)


@dataclass(frozen=True)
class _Extras:
    """Output of a scan beyond the table's columns."""

    stats: bool
    log_details: bool
    row_tracking: bool
    row_position: bool


class Scan:
    """A plan for reading a snapshot."""

    def __init__(self, snapshot: Snapshot, schema: StructType, predicate: Expression | None, extras: _Extras) -> None:
        self.snapshot, self.schema, self.filter, self._extras = snapshot, schema, predicate, extras
        parts = conjuncts(predicate) if predicate is not None else []
        self._partition_filter = all_of(p for p in parts if self._is_on_partitions(p))
        self.remaining_filter = all_of(p for p in parts if not self._is_on_partitions(p))
        """The part of the filter that file selection does not already guarantee."""

    @cached_property
    def scan_state(self) -> ScanState:
        snapshot = self.snapshot
        properties = snapshot.properties
        tracking = self._extras.row_tracking
        state = ScanState(
            table_root=snapshot.root,
            schema_json=format_schema(self.schema),
            partition_columns=tuple(f.name for f in self.schema if f.name in snapshot.partition_columns),
            mapping_mode=snapshot.mapping_mode,
            with_row_tracking=tracking,
            with_row_position=self._extras.row_position,
            row_id_column=ROW_ID_COLUMN.of(properties) if tracking else None,
            row_commit_version_column=ROW_COMMIT_VERSION_COLUMN.of(properties) if tracking else None,
        )
        vars(state)["table_schema"] = self.schema  # known already: only other processes parse the JSON
        return state

    def scan_files(self) -> Iterator[FilteredBatch]:
        """Batches with a row for each file of the table, with the files to read selected."""
        batches = self.snapshot.live_files(self.columns)
        # Filtering has a high cost per batch, and every commit is a batch.
        return map(self.select, batches if self.filter is None else _combined(batches))

    def select(self, files: pa.RecordBatch) -> FilteredBatch:
        """Select the files to read from a batch of `columns.schema`."""
        mask = self._selection(files)
        return FilteredBatch(self._public(files), None if mask.all() else from_numpy(mask))

    def files(self) -> Iterator[ScanFile]:
        """The files to read."""
        for batch in self.scan_files():
            yield from scan_files_in(batch, self.snapshot.root)

    def counted_files(self) -> Iterator[tuple[ScanFile, int | None]]:
        """The files to read, each with the number of rows that satisfy the filter, if known from the log."""
        return ((file, file.num_records if self.remaining_filter is None else None) for file in self.files())

    @cached_property
    def physical_filter(self) -> Expression | None:
        """The remaining filter in physical names, for the Parquet handler, without columns that the files lack."""
        if self.remaining_filter is None:
            return None
        parts = conjuncts(self._normal_filter)
        return all_of(rewrite(part, self._to_physical) for part in parts if not self._mentions_partitions(part))

    def _to_physical(self, node: Expression) -> Expression:
        if not isinstance(node, Column):
            return node
        return Column(physical_path(self.snapshot.schema, node.path, self.snapshot.mapping_mode))

    def _is_on_partitions(self, predicate: Expression) -> bool:
        """Whether partition values alone decide the predicate."""
        columns = columns_in(predicate)
        return all(column.path[0] in self.snapshot.partition_columns for column in columns)

    def _mentions_partitions(self, predicate: Expression) -> bool:
        return any(column.path[0] in self.snapshot.partition_columns for column in columns_in(predicate))

    @cached_property
    def _stats_type(self) -> pa.DataType | None:
        """The type of the statistics that the remaining filter needs."""
        if self.remaining_filter is None:
            return None
        columns = [c for c in columns_in(self.remaining_filter) if c.path[0] not in self.snapshot.partition_columns]
        return stats_type(self.snapshot.schema, columns, self.snapshot.mapping_mode) if columns else None

    @cached_property
    def columns(self) -> FileColumns:
        """The columns of the log's file actions that the scan needs."""
        snapshot = self.snapshot
        parsed = self._stats_type
        if self._extras.stats:
            parsed = whole_stats_type(snapshot.schema, snapshot.partition_columns, snapshot.mapping_mode)
        return FileColumns(
            snapshot.physical_partition_columns,
            self._extras.row_tracking or self._extras.log_details,
            stats=parsed is not None,
            stats_parsed=parsed,
            log_details=self._extras.log_details,
        )

    def _public(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in its public form, with statistics as JSON text if requested."""
        index = batch.schema.get_field_index("stats_parsed")
        if index < 0:
            return batch
        parsed = batch.column(index)
        batch = batch.remove_column(index)
        stats = batch.schema.get_field_index("stats")
        if not self._extras.stats:
            return batch.remove_column(stats)
        missing = from_numpy(_has_statistics(parsed) & to_mask(batch.column(stats).is_null()))
        if missing.true_count:
            texts = format_stats(parsed.filter(missing))
            batch = batch.set_column(stats, "stats", pc.replace_with_mask(batch.column(stats), missing, texts))
        return batch

    def _selection(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        mask = np.ones(len(batch), dtype=np.bool_)
        if self.filter is None:
            return mask
        mask &= self._partition_selection(batch)
        if self.remaining_filter is not None and mask.any():
            mask &= self._statistics_selection(batch)
        return mask

    def _partition_selection(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        if self._partition_filter is None:
            return np.ones(len(batch), dtype=np.bool_)
        names = {column.path[0] for column in columns_in(self._partition_filter)}
        fields = [f for f in self.snapshot.partition_fields if f.name in names]
        schema = pa.schema([arrow_field(f) for f in fields])
        arrays = [self._partition_values(batch, f) for f in fields]
        rows = make_batch(arrays, schema, len(batch))
        evaluate = self.snapshot.engine.expressions.predicate_evaluator(schema, self._partition_filter)
        return to_mask(evaluate(rows, None))

    def _partition_values(self, batch: pa.RecordBatch, field: StructField) -> pa.Array:
        name = field.physical_name(self.snapshot.mapping_mode)
        texts = batch.column("partitionValues").field(name)
        return parse_partition_values(texts, field, path=self.snapshot.root)

    def _statistics_selection(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        schema, mode = self.snapshot.schema, self.snapshot.mapping_mode
        statistics = None if self._stats_type is None else FileStatistics(self._statistics(batch), schema, mode)

        def bounds_of(column: Column) -> Bounds | None:
            if column.path[0] in self.snapshot.partition_columns:
                return _partition_bounds(self._partition_values(batch, schema.resolve(column.path)[0]))
            return None if statistics is None else statistics.bounds_of(column)

        return may_match(self._normal_filter, bounds_of, len(batch))

    @cached_property
    def _normal_filter(self) -> Expression:
        assert self.remaining_filter is not None
        return normalize(self.remaining_filter, self.snapshot.schema)

    def _statistics(self, batch: pa.RecordBatch) -> pa.StructArray:
        """The statistics that the filter needs: from a checkpoint's `stats_parsed` if present, else from the JSON."""
        assert self._stats_type is not None
        texts, parsed = batch.column("stats"), batch.column("stats_parsed")
        known = _has_statistics(parsed)
        if known.all():
            return conform_parsed(parsed, self._stats_type)
        texts = pc.if_else(from_numpy(known), null_of(pa.string()), texts)
        from_json = self.snapshot.engine.json.parse_json(texts, pa.schema(list(self._stats_type))).to_struct_array()
        if not known.any():
            return from_json
        return pc.if_else(from_numpy(known), conform_parsed(parsed, self._stats_type), from_json)


def _combined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same files in fewer batches; large batches are passed through."""
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        added = batch.nbytes
        if small and (rows + len(batch) > _FILES_AT_ONCE or size + added > _BYTES_AT_ONCE):
            yield pa.concat_batches(small)
            small, rows, size = [], 0, 0
        small.append(batch)
        rows, size = rows + len(batch), size + added
    if small:
        yield pa.concat_batches(small)


def _has_statistics(parsed: pa.StructArray) -> npt.NDArray[np.bool_]:
    if parsed.null_count == len(parsed):
        return np.zeros(len(parsed), dtype=np.bool_)
    return to_mask(parsed.flatten()[0].is_valid())


def _partition_bounds(values: pa.Array) -> Bounds:
    """A partition value as bounds: all rows of the file share it."""
    nulls = values.is_null().cast(pa.int64())
    ones = from_numpy(np.ones(len(values), dtype=np.int64))
    return Bounds(lower=values, upper=values, nulls=nulls, rows=ones, exact=not pa.types.is_floating(values.type))
