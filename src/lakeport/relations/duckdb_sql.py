"""Names, types, constants and conditions in DuckDB's SQL, if they mean exactly the same as the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakeport.kernel.expressions import And, Column, Comparison, Expression, In, IsNull, Literal, Not, Or
from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from lakeport.kernel.values import days_of, microseconds_of
from lakeport.relations.duckdb_compatibility import DuckDBMismatchError

_TYPES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_ORDERED = frozenset({"byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz"})
"""Types besides decimals that both sides order alike. Floats are missing: DuckDB orders NaN above all numbers."""
_COMPARISONS = {"<=>": "IS NOT DISTINCT FROM"}


def name_of(name: str) -> str:
    return f'"{name.replace(chr(34), chr(34) * 2)}"'


def text_of(text: str) -> str:
    """Raises `DuckDBMismatchError` for text that SQL cannot contain."""
    if "\0" in text:
        raise DuckDBMismatchError("SQL text cannot hold the character NUL")
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def shielded(column: str, data_type: pa.DataType) -> str:
    """A column that, if it has floats, DuckDB filters only row by row.

    NaN is its greatest number. But it skips row groups by statistics, which leave NaN out, and lets Arrow compare, in
    another order. It does neither for TRY."""
    return shield(column) if _has_floats(data_type) else column


def shield(column: str) -> str:
    return f"TRY({column})"


def _has_floats(data_type: pa.DataType) -> bool:
    if pa.types.is_struct(data_type):
        return any(_has_floats(field.type) for field in data_type)
    return bool(pa.types.is_floating(data_type))


def type_of(data_type: DataType) -> str:
    """Raises `DuckDBMismatchError` for types that DuckDB does not have."""
    match data_type:
        case ArrayType(element):
            return f"{type_of(element)}[]"
        case MapType(key, value):
            return f"MAP({type_of(key)}, {type_of(value)})"
        case StructType(fields) if fields:
            return f"STRUCT({', '.join(f'{name_of(f.name)} {type_of(f.type)}' for f in fields)})"
        case PrimitiveType(name) if data_type.decimal:
            return "DECIMAL({}, {})".format(*data_type.decimal)
        case PrimitiveType(name) if name in _TYPES:
            return _TYPES[name]
    raise DuckDBMismatchError(f"DuckDB has no type like {data_type}")


def value_of(stored: str, data_type: PrimitiveType) -> str:
    """A value of the type: `stored` is SQL for text or, of dates and timestamps, for the number of days or microseconds
    since 1970 as text."""
    match data_type.name:
        case "date":
            return f"(DATE '1970-01-01' + CAST({stored} AS INTEGER))"
        case "timestamp":
            return f"make_timestamptz(CAST({stored} AS BIGINT))"
        case "timestamp_ntz":
            return f"make_timestamp(CAST({stored} AS BIGINT))"
        case "binary":
            raise DuckDBMismatchError("binary values are not written as SQL")
    return f"CAST({stored} AS {type_of(data_type)})"


def condition_of(condition: Expression, schema: StructType, column_of: Callable[[str], str]) -> str:
    """A bound condition on columns of the schema, in SQL. `column_of` is the SQL of a top-level column.

    Raises `DuckDBMismatchError` if DuckDB might answer differently."""

    def sql(node: Expression) -> str:
        match node:
            case And(left, right):
                return f"({sql(left)} AND {sql(right)})"
            case Or(left, right):
                return f"({sql(left)} OR {sql(right)})"
            case Not(child):
                return f"(NOT {sql(child)})"
            case IsNull(Column() as column):
                return f"({_column(column, schema, column_of)[0]} IS NULL)"
            case Comparison(op, Column() as column, Literal(value)):
                return f"({' '.join(_compared(column, _COMPARISONS.get(op, op), value))})"
            case In(Column() as column, values) if values and all(isinstance(v, Literal) for v in values):
                tests = [" ".join(_compared(column, "=", v.value)) for v in values if isinstance(v, Literal)]
                return f"({' OR '.join(tests)})"
        raise DuckDBMismatchError("the filter has no exact counterpart in DuckDB")

    def _compared(column: Column, op: str, value: Any) -> tuple[str, str, str]:
        name, data_type = _column(column, schema, column_of)
        return name, op, _constant(value, data_type)

    return sql(condition)


def _column(column: Column, schema: StructType, column_of: Callable[[str], str]) -> tuple[str, DataType]:
    if len(column.path) > 1:
        raise DuckDBMismatchError("the filter is on a field of a struct")
    field = schema.resolve(column.path)[0]
    return column_of(field.name), field.type


def _constant(value: Any, data_type: DataType) -> str:
    is_ordered = isinstance(data_type, PrimitiveType) and (data_type.name in _ORDERED or data_type.decimal)
    if value is None or not isinstance(data_type, PrimitiveType) or not is_ordered:
        raise DuckDBMismatchError("DuckDB may compare these values differently")
    constant = value_of(text_of(_stored(value, data_type.name)), data_type)
    # The connection may compare text by another collation.
    return f'{constant} COLLATE "C"' if data_type.name == "string" else constant


def _stored(value: Any, type_name: str) -> str:
    if type_name == "date":
        return str(days_of(value))
    if type_name in ("timestamp", "timestamp_ntz"):
        return str(microseconds_of(value))
    return f"{value:f}" if type_name.startswith("decimal") else str(value)
