"""What columns of rows are set to: names and values that a person gave, fitted to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.kernel.binding import bind_value
from lakeport.kernel.columns import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, lit, replace_now
from lakeport.kernel.schema import StructField, StructType, arrow_field, arrow_schema
from lakeport.kernel.sql import parse_expression
from lakeport.kernel.write_context import GENERATION_EXPRESSION

Path = tuple[str, ...]


def parse_value(value: Any, now: int) -> Expression:
    """SQL text, an expression or a plain Python value, at one time in milliseconds since the epoch.

    Raises `InvalidFilterError` for text that does not parse."""
    if isinstance(value, str):
        value = parse_expression(value)
    return replace_now(value if isinstance(value, Expression) else lit(value), now)


def parse_assignments(schema: StructType, given: Mapping[str, Any], now: int) -> dict[Path, Expression]:
    """What is set, by the path of the column as the schema writes it; not yet bound.

    Raises `InvalidFilterError`, `UnknownColumnError`, and `ValueError` for a column that is set twice, or a part of one
    that is set whole."""
    if not given:
        raise ValueError("nothing is set: give at least one column and its value")
    found: dict[Path, Expression] = {}
    for name, value in given.items():
        path = tuple(f.name for f in schema.resolve(schema.path_of(name)))
        if any(path[: len(other)] == other or other[: len(path)] == path for other in found):
            raise ValueError(f"the column {name!r} is set twice, or beside a part of it")
        found[path] = parse_value(value, now)
    return found


@dataclass(frozen=True, eq=False)
class Assignments:
    """Computes new rows from old ones: a function for rows of the table's columns, whatever else they have."""

    schema: StructType
    values: Mapping[Path, Callable[[pa.RecordBatch], pa.Array]]

    @classmethod
    def bind(cls, engine: Engine, schema: StructType, given: Mapping[Path, Expression]) -> Assignments:
        """Raises `InvalidFilterError` and `UnknownColumnError`."""
        arrow = _nullable(arrow_schema(schema))
        bound = {
            path: bind_value(expression, schema, schema.resolve(path)[-1].type) for path, expression in given.items()
        }
        return cls(schema, {path: engine.expressions.evaluator(arrow, value) for path, value in bound.items()})

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the new values; without the generated columns that are not set: they are to be filled in."""
        arrow = _nullable(arrow_schema(self.schema))
        known = make_batch([rows.column(name) for name in arrow.names], arrow, rows.num_rows)
        new = {path: evaluate(known) for path, evaluate in self.values.items()}
        others = [name for name in rows.schema.names if name not in arrow.names]
        columns = {name: rows.column(name) for name in others}
        for field in self.schema:
            parts = {path[1:]: value for path, value in new.items() if path[0] == field.name}
            if parts or GENERATION_EXPRESSION not in field.metadata:
                columns[field.name] = replace_column(rows.column(field.name), field, parts)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def replace_column(column: pa.Array, field: StructField, parts: Mapping[Path, pa.Array]) -> pa.Array:
    """The column with other values, or a struct with other values in some of its fields: it is null nowhere then."""
    if not parts:
        return column
    if () in parts:
        value = parts[()]
        return pa.nulls(len(column), arrow_field(field).type) if pa.types.is_null(value.type) else value
    assert isinstance(field.type, StructType)
    children = [
        replace_column(child, inner, {path[1:]: value for path, value in parts.items() if path[0] == inner.name})
        for child, inner in zip(column.flatten(), field.type, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(arrow_field(field).type))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema])
