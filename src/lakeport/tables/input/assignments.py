"""Assignments: the column names and values that a user sets, fitted to a table.

Plain Python values and columns follow the rule of `append`: they keep their meaning or are rejected. SQL results are
converted as in Spark's store assignment, but lose no digits without an explicit CAST or function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from lakeport.errors import InvalidDataError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import (
    DATE,
    FLOATS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Column,
    Expression,
    bind_value,
    convert,
    digits_of,
    is_integer,
    is_number,
    parse_expression,
    plain,
    replace_now,
    type_of,
)
from lakeport.kernel.schema import (
    GENERATION_EXPRESSION,
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_field,
    arrow_schema,
    nullable,
)
from lakeport.kernel.values import array_of, from_numpy, own_scalar
from lakeport.kernel.write import RowName, fit_column, match_columns

Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constant:
    """The same value in all rows, in the type of its column."""

    value: pa.Array
    """Holds one item."""

    @classmethod
    def of(cls, value: Any, field: StructField) -> Constant:
        """Convert a Python value: lists for arrays, dicts for structs and maps. Raises `InvalidDataError`."""
        target = arrow_field(field)
        try:
            if isinstance(value, list | dict):
                return cls(array_of([_with_names(value, target.type, field.name)], target.type))
            own = own_scalar(plain(value))
        except (TypeError, OverflowError) as error:
            raise InvalidDataError(f"the column {field.name!r} cannot be set: {error}", column=field.name) from error
        return cls(fit_column(pa.repeat(own, 1), target, lambda _: RowName("the new value")))

    def repeat(self, length: int) -> pa.Array:
        # Not pa.repeat: it fails for zero rows of some nested types.
        return self.value.take(from_numpy(np.zeros(length, np.int64)))


def _with_names(value: Any, data_type: pa.DataType, name: str) -> Any:
    """The value with struct fields spelled as in the type. Raises `InvalidDataError` for an unknown field."""
    if types.is_struct(data_type) and isinstance(value, dict):
        given, places = list(value.values()), match_columns(list(map(str, value)), pa.schema(list(data_type)), name)
        found = [(field, given[place]) for field, place in zip(data_type, places, strict=True) if place is not None]
        return {field.name: _with_names(part, field.type, f"{name}.{field.name}") for field, part in found}
    if types.is_list(data_type) and isinstance(value, list):
        return [_with_names(item, data_type.value_type, f"{name}.element") for item in value]
    if types.is_map(data_type) and isinstance(value, dict):
        return {key: _with_names(item, data_type.item_type, f"{name}.value") for key, item in value.items()}
    return value


Value = Expression | Constant


def check_assignments(given: Any) -> None:
    """Raises `ValueError` unless given a mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"the new values must be a dict of columns and values, as {{'v': 'v + 1'}}, not {given!r:.80}")


def parse_assignments(schema: StructType, given: Mapping[str, Any], now: int) -> dict[Path, Value]:
    """The values to set, not yet bound, by column path as the schema spells it. `now`, in milliseconds since the epoch,
    is the current time in SQL text and expressions.

    Raises `InvalidFilterError`, `UnknownColumnError`, `InvalidDataError`, and `ValueError` if a column is set twice, or
    both whole and in part."""
    check_assignments(given)
    if not given:
        raise ValueError("nothing is set: pass at least one column and its value")
    found: dict[Path, Value] = {}
    for name, value in given.items():
        fields = schema.resolve(schema.path_of(name))
        path = tuple(f.name for f in fields)
        if any(path[: len(other)] == other or other[: len(path)] == path for other in found):
            raise ValueError(f"the column {name!r} is set twice, or together with one of its fields")
        found[path] = _parse_value(value, fields[-1], now)
    return found


def _parse_value(value: Any, field: StructField, now: int) -> Value:
    parsed = parse_expression(value) if isinstance(value, str) else value
    return replace_now(parsed, now) if isinstance(parsed, Expression) else Constant.of(value, field)


def as_stored(bound: Expression, schema: StructType, target: DataType) -> Expression:
    """Cast a bound value to a column's type. Possibly lossy values keep their own type: `fit_column` accepts or rejects
    them on write. So do structs, lists and maps, which are fitted field by field.

    Raises `InvalidFilterError` naming the types that do not fit."""
    if not isinstance(target, PrimitiveType):
        return bound
    source = type_of(bound, schema)
    converted = convert((bound, source), target)
    return bound if isinstance(bound, Column) or _may_lose(source, target) else converted


def _may_lose(source: DataType, target: DataType) -> bool:
    """Whether Spark's store assignment could truncate a value. Rounding a double to a decimal or a float is not a loss:
    it was approximate already."""
    if target == DATE:
        return source in (TIMESTAMP, TIMESTAMP_NTZ)
    if source in FLOATS:
        return is_integer(target)
    return is_number(source) and digits_of(target) is not None


@dataclass(frozen=True, eq=False)
class Assignments:
    """Compute new rows from old ones. Callable on rows with some of the table's columns, and any others."""

    schema: StructType
    columns: StructType
    """Those of the table's columns that rows have."""
    values: Mapping[Path, Callable[[pa.RecordBatch], pa.Array]]

    @classmethod
    def bind(
        cls, engine: Engine, schema: StructType, given: Mapping[Path, Value], columns: StructType | None = None
    ) -> Assignments:
        """`columns` are those of the rows, all by default. Raises `InvalidFilterError` and `UnknownColumnError`."""
        columns = columns or schema
        arrow = nullable(arrow_schema(columns))

        def evaluator(path: Path, value: Value) -> Callable[[pa.RecordBatch], pa.Array]:
            if isinstance(value, Constant):
                return lambda rows: value.repeat(rows.num_rows)
            bound = as_stored(bind_value(value, columns), columns, schema.resolve(path)[-1].type)
            return engine.expressions.evaluator(arrow, bound)

        return cls(schema, columns, {path: evaluator(path, value) for path, value in given.items()})

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with new values, not yet fitted, and without the generated columns that are not set: those are
        filled in later."""
        arrow = nullable(arrow_schema(self.columns))
        names = frozenset(arrow.names)
        known = make_batch([rows.column(name) for name in arrow.names], arrow, rows.num_rows)
        new: dict[str, dict[Path, pa.Array]] = {}
        for path, evaluate in self.values.items():
            new.setdefault(path[0], {})[path[1:]] = evaluate(known)
        columns = {name: rows.column(name) for name in rows.schema.names if name not in names}
        for field in self.schema:
            parts = new.get(field.name, {})
            if () in parts:
                columns[field.name] = parts[()]
            elif parts or (field.name in names and GENERATION_EXPRESSION not in field.metadata):
                columns[field.name] = replace_column(rows.column(field.name), field, parts)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def replace_column(column: pa.Array, field: StructField, parts: Mapping[Path, pa.Array]) -> pa.Array:
    """The column with new values, or a struct with new values in some fields, which is then never null. The table may
    have fields that the struct lacks."""
    if not parts:
        return column
    if () in parts:
        return parts[()]
    assert isinstance(field.type, StructType)
    known = dict(zip((inner.name for inner in column.type), column.flatten(), strict=True))
    children = [
        replace_column(
            known[inner.name] if inner.name in known else pa.nulls(len(column), arrow_field(inner).type),
            inner,
            {path[1:]: value for path, value in parts.items() if path[0] == inner.name},
        )
        for inner in field.type
    ]
    return pa.StructArray.from_arrays(children, names=[inner.name for inner in field.type])
