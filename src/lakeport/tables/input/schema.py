"""Columns in every supported form: an Arrow or kernel schema, SQL text, or types by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from lakeport.errors import CorruptTableError, InvalidFilterError, UnsupportedFeatureError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import (
    Expression,
    bind_value,
    columns_in,
    format_expression,
    parse_expression,
    replace_now,
)
from lakeport.kernel.schema import (
    COMMENT,
    DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    fields_in,
    format_schema,
    parse_schema,
    parse_schema_text,
    parse_type,
    schema_from_arrow,
)

TypeInput: TypeAlias = str | pa.DataType | DataType
SchemaInput: TypeAlias = str | Mapping[str, TypeInput] | pa.Schema | StructType

_TEXTS = (COMMENT, DEFAULT, GENERATION_EXPRESSION, INVARIANTS)


def to_schema(given: SchemaInput) -> StructType:
    """Parse columns from `"id long not null, day date"`, `{"id": "long"}`, or a schema; metadata of Arrow fields may
    hold comments, defaults, generation expressions and invariants.

    Raises `ValueError`."""
    match given:
        case str():
            return parse_schema_text(given)
        case pa.Schema():
            return schema_from_arrow(given, with_metadata=True)
        case StructType():
            return _checked(given)
        case Mapping():
            return _checked(StructType(tuple(StructField(name, to_type(kind)) for name, kind in given.items())))
    raise ValueError(
        f"{type(given).__name__} is not a schema: pass text as 'id long not null, day date', a dict of names and "
        "types, a pyarrow.Schema or a StructType"
    )


def to_type(given: TypeInput) -> DataType:
    """Raises `ValueError`."""
    match given:
        case str():
            return parse_type(given)
        case pa.DataType():
            return schema_from_arrow(pa.schema([pa.field("column", given)]), with_metadata=True).fields[0].type
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            return given
    raise ValueError(f"{given!r} is not a type: pass text as 'decimal(10,2)' or 'array<int>', or a pyarrow type")


def _checked(schema: StructType) -> StructType:
    """The schema, if it survives serialization."""
    for field in fields_in(schema):
        check_text(field.name, "the name of a column")
        for key in _TEXTS:
            check_text(field.metadata.get(key, ""), f"{key} of the column {field.name!r}")
    try:
        return parse_schema(format_schema(schema))
    except (TypeError, CorruptTableError, UnsupportedFeatureError, msgspec.MsgspecError) as error:
        raise ValueError(f"the schema cannot be written: {error}") from error


def check_text(given: Any, what: str) -> None:
    """Raises `ValueError` unless given text."""
    if not isinstance(given, str):
        raise ValueError(f"{what} must be text, not {given!r:.80}")


def check_sql(given: Any, what: str) -> None:
    """Raises `ValueError` unless given SQL text: the log stores the text for every writer."""
    if isinstance(given, Expression):
        raise ValueError(f"{what} must be SQL text: write {format_expression(given)!r}")
    check_text(given, f"{what} is SQL, which")


def check_defaults(engine: Engine, schema: StructType) -> None:
    """Raises `ValueError` for a default that does not yield a value of the column's type, or is in a nested column."""
    columns = {id(field) for field in schema}
    for field in fields_in(schema):
        if (sql := field.metadata.get(DEFAULT)) is None:
            continue
        if id(field) not in columns:
            raise ValueError(f"the column {field.name!r} cannot have a default: it is nested")
        check_default(engine, field, sql)


def check_default(engine: Engine, field: StructField, sql: str) -> None:
    """Raises `ValueError` if the SQL does not yield a value of the column's type."""
    expression = replace_now(parse_expression(sql), engine.now())
    for used in columns_in(expression):
        raise InvalidFilterError(
            f"the default of {field.name!r} uses {'.'.join(used.path)!r}: a default cannot use columns; put text in "
            "single quotes"
        )
    nothing = pa.schema([])
    value = bind_value(expression, StructType(()), field.type)
    engine.expressions.evaluator(nothing, value)(make_batch([], nothing, 1))
