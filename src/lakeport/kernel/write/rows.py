"""Convert logical rows to physical batches.

Fits them to the table's columns; fills in defaults and generated columns; checks NOT NULL, invariants and CHECK
constraints; renames columns to physical names and splits rows by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.kernel.data_files import format_partition_value, make_batch, to_physical, without_hidden_nulls
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Column, Expression, bind, bind_value, columns_in, parse_expression, replace_now
from lakeport.kernel.schema import (
    DEFAULT,
    GENERATION_EXPRESSION,
    StructField,
    StructType,
    arrow_field,
    arrow_schema,
    nullable,
)
from lakeport.kernel.values import from_numpy, null_of, python_value, scalar_of, to_integers, to_mask
from lakeport.kernel.write.context import WriteContext
from lakeport.kernel.write.fitting import RowNames, count_from, first_null, fit_column, format_cell, match_columns

_Evaluator = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class PhysicalBatch:
    """Rows for the data files of one partition."""

    partition_values: Mapping[str, str | None]
    """Serialised, by physical name."""
    data: pa.RecordBatch


class RowTransformer:
    """Converts a stream of logical rows to physical batches. Counts rows so that errors can name them; for other rows,
    callers pass `name_row`."""

    def __init__(self, engine: Engine, context: WriteContext) -> None:
        self._engine, self._context = engine, context
        self._fields = pa.schema([arrow_field(f) for f in context.logical_fields])
        self._arrow = arrow_schema(context.schema)
        self._rows = 0
        generated = [f for f in context.schema if GENERATION_EXPRESSION in f.metadata]
        self._generated = {f.name: self._value(f, str(f.metadata[GENERATION_EXPRESSION])) for f in generated}
        self._generated_checks = {f.name: self._agrees(f) for f in generated}
        self._constraints = {name: self._condition(name, sql) for name, sql in context.constraints.items()}

    def transform(self, batch: pa.RecordBatch) -> Iterator[PhysicalBatch]:
        """Raises `InvalidDataError` and `ConstraintError`."""
        yield from self._partitions(self.checked(batch))

    def checked(self, batch: pa.RecordBatch, name_row: RowNames | None = None) -> pa.RecordBatch:
        """Complete and check the next rows of the stream.

        Raises `InvalidDataError` and `ConstraintError`."""
        names = name_row or count_from(self._rows)
        logical = self._complete(batch, names)
        self._check(logical, names)
        self._rows += batch.num_rows
        return logical

    def _complete(self, batch: pa.RecordBatch, name_row: RowNames) -> pa.RecordBatch:
        """Fit the rows to exactly the table's columns, filling in missing defaults and generated values."""
        places = match_columns(batch.schema.names, self._fields)
        arrays: dict[str, pa.Array] = {}
        missing: list[StructField] = []
        for field, place in zip(self._context.logical_fields, places, strict=True):
            if place is not None:
                arrays[field.name] = fit_column(batch.column(place), self._fields.field(field.name), name_row)
            elif field.name not in self._generated:
                arrays[field.name] = self._default(field, batch.num_rows)
            else:
                missing.append(field)
        known = self._batch(arrays, batch.num_rows)
        for field in missing:
            arrays[field.name] = self._generated[field.name](known)
        self._check_generated(arrays, [f for f in self._generated if f not in {m.name for m in missing}], name_row)
        for field in self._context.partition_fields:
            arrays[field.name] = _without_empty(arrays[field.name])
        return make_batch([arrays[name] for name in self._fields.names], self._fields, batch.num_rows)

    def _batch(self, arrays: Mapping[str, pa.Array], length: int) -> pa.RecordBatch:
        """The table's columns, null where not yet known."""
        columns = [arrays[f.name] if f.name in arrays else pa.nulls(length, f.type) for f in self._arrow]
        return make_batch(columns, nullable(self._arrow), length)

    def _default(self, field: StructField, length: int) -> pa.Array:
        target = self._fields.field(field.name)
        if (sql := field.metadata.get(DEFAULT)) is None:
            return pa.nulls(length, target.type)
        rows = make_batch([], pa.schema([]), length)
        return self._value(field, str(sql), StructType(()))(rows)

    def _expression(self, name: str, sql: str) -> Expression:
        try:
            return replace_now(parse_expression(sql), self._context.now)
        except ValueError as error:
            raise InvalidDataError(f"the table cannot be written: {name} is not understood: {error}") from error

    def _value(self, field: StructField, sql: str, schema: StructType | None = None) -> _Evaluator:
        schema = self._context.schema if schema is None else schema
        bound = bind_value(self._expression(f"the expression of column {field.name!r}", sql), schema, field.type)
        return self._engine.expressions.evaluator(nullable(arrow_schema(schema)), bound)

    def _condition(self, name: str, sql: str) -> tuple[str, _Evaluator, list[str]]:
        bound = bind(self._expression(f"the constraint {name!r}", sql), self._context.schema)
        names = list(dict.fromkeys(column.path[0] for column in columns_in(bound)))
        return sql, self._engine.expressions.evaluator(nullable(self._arrow), bound), names

    def _agrees(self, field: StructField) -> Callable[[pa.Array, pa.Array], pa.Array]:
        """Return a null-safe equality for columns of the field's type."""
        pair = StructType((StructField("given", field.type), StructField("computed", field.type)))
        given, computed = (Column((name,)) for name in ("given", "computed"))
        schema = arrow_schema(pair)
        evaluate = self._engine.expressions.evaluator(schema, bind(given.equals_null_safe(computed), pair))
        return lambda a, b: evaluate(make_batch([a, b], schema, len(a)))

    def _check_generated(self, arrays: Mapping[str, pa.Array], given: list[str], name_row: RowNames) -> None:
        for name in given:
            rows = self._batch(arrays, len(arrays[name]))
            agrees = self._generated_checks[name](arrays[name], self._generated[name](rows))
            _refuse_failures(agrees, name, f"the generated column {name!r}", [name], rows, name_row)

    def _check(self, rows: pa.RecordBatch, name_row: RowNames) -> None:
        for index, field in enumerate(rows.schema):
            if (found := first_null(rows.column(index), field)) is not None:
                column, row = found[0], name_row(found[1])
                raise ConstraintError(
                    f"{row.text}: the column {column!r} is null, but NOT NULL in the table",
                    constraint="NOT NULL",
                    column=column,
                    row=row.number,
                )
        if not self._constraints:
            return
        table_rows = self._batch({name: rows.column(name) for name in self._arrow.names}, rows.num_rows)
        for name, (sql, evaluate, columns) in self._constraints.items():
            what = f"the constraint {name!r} ({sql})"
            _refuse_failures(evaluate(table_rows), name, what, columns, table_rows, name_row)

    def _partitions(self, rows: pa.RecordBatch) -> Iterator[PhysicalBatch]:
        if not rows.num_rows:
            return
        context = self._context
        arrays = [
            to_stored(rows.column(f.name), self._fields.field(f.name), target)
            for f, target in zip(context.stored_fields, context.physical_schema, strict=True)
        ]
        physical = make_batch(arrays, context.physical_schema, rows.num_rows)
        if not context.partition_columns:
            yield PhysicalBatch({}, physical)
            return
        codes, values = partition_codes([rows.column(f.name) for f in context.partition_fields])
        names = [f.physical_name(context.mapping_mode) for f in context.partition_fields]
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        ends = np.append(starts[1:], len(order))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            chosen = order[start:end]
            pairs = zip(names, values(int(chosen[0])), context.partition_fields, strict=True)
            serialised = {name: format_partition_value(value, f) for name, value, f in pairs}
            whole = len(chosen) == rows.num_rows
            yield PhysicalBatch(serialised, physical if whole else physical.take(from_numpy(chosen)))


def to_stored(column: pa.Array, logical: pa.Field, physical: pa.Field) -> pa.Array:
    """A column as data files hold it."""
    return without_hidden_nulls(to_physical(column, logical, physical))


def _refuse_failures(
    holds: pa.BooleanArray, name: str, what: str, columns: list[str], rows: pa.RecordBatch, name_row: RowNames
) -> None:
    mask = to_mask(holds)
    if mask.all():
        return
    index = int((~mask).argmax())
    row = name_row(index)
    values = ", ".join(f"{c} = {format_cell(rows.column(c)[index])}" for c in columns)
    raise ConstraintError(
        f"{row.text} violates {what}: {values}; nothing was written to the table",
        constraint=name,
        column=columns[0] if columns else None,
        row=row.number,
    )


def partition_codes(columns: list[pa.Array]) -> tuple[npt.NDArray[np.int64], Callable[[int], list[Any]]]:
    """A code for each row, equal for equal values; and a function from a row to its values."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        own = to_integers(encoded.indices.cast(pa.int64()))
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)[1].astype(np.int64)
    return codes, lambda row: [python_value(column[row]) for column in columns]


def _without_empty(column: pa.Array) -> pa.Array:
    """Replace empty text by null, its only form as a partition value."""
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column
    empty = pc.equal(pc.binary_length(column), scalar_of(0, pa.int32()))
    return pc.if_else(empty, null_of(column.type), column) if empty.true_count else column
