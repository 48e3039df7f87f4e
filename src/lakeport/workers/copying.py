"""Copy rows of data files as they are stored: no value is converted, and text that repeats is not even decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.data_files import format_partition_value, parse_partition_value, physical_field
from lakeport.kernel.deletion_vectors import DeletionVector
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.scan import ScanFile, read_vector
from lakeport.kernel.schema import is_variant, types_in
from lakeport.kernel.values import from_numpy
from lakeport.kernel.write import PhysicalBatch, WriteContext
from lakeport.workers.reading import reporting_vacuumed_files

_BATCH_ROWS = 1 << 15


@dataclass(frozen=True)
class RowCopier:
    """Reads rows to be written again, for a context that `can_copy`. Picklable."""

    context: WriteContext

    def read(
        self, engine: Engine, file: ScanFile, gone: npt.NDArray[np.uint64] | None = None
    ) -> Iterator[PhysicalBatch]:
        """The living rows of a file except those at the positions `gone`. Raises `MissingFileError`."""
        values = self.partition_values(file)
        with reporting_vacuumed_files():
            vector = read_vector(engine, self.context.table_root, file.deletion_vector)
            vectors = [v for v in (vector, None if gone is None else DeletionVector(gone)) if v is not None]
            start = 0
            for batch in engine.parquet.read_encoded(FileSplit(file.status), self._schema, _BATCH_ROWS):
                positions = np.arange(start, start := start + batch.num_rows, dtype=np.int64)
                rows = _living(batch, [vector.selection(positions) for vector in vectors])
                if rows.num_rows:
                    yield PhysicalBatch(values, self._to_write(rows))

    @cached_property
    def _schema(self) -> pa.Schema:
        """How the columns are found in files."""
        context = self.context
        return pa.schema([physical_field(field, context.mapping_mode) for field in context.stored_fields])

    def _to_write(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        fields = zip(self.context.physical_schema, rows.columns, strict=True)
        return pa.RecordBatch.from_arrays(
            rows.columns, schema=pa.schema([field.with_type(column.type) for field, column in fields])
        )

    def partition_values(self, file: ScanFile) -> dict[str, str | None]:
        """As they are written now: other writers may have formatted them differently."""
        values = {}
        for field in self.context.partition_fields:
            name = field.physical_name(self.context.mapping_mode)
            value = parse_partition_value(file.partition_values.get(name), field, path=file.path)
            values[name] = format_partition_value(value, field)
        return values


def can_copy(context: WriteContext) -> bool:
    """Whether files hold rows as they are written. Row ids are not in all of them, and variants may be shredded."""
    all_types = (inner for field in context.stored_fields for inner in types_in(field.type))
    return context.row_id_column is None and not any(map(is_variant, all_types))


def _living(rows: pa.RecordBatch, selections: list[npt.NDArray[np.bool_]]) -> pa.RecordBatch:
    living = np.logical_and.reduce(selections) if selections else np.ones(rows.num_rows, np.bool_)
    return rows if living.all() else rows.filter(from_numpy(living))
