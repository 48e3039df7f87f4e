"""Parse single JSON texts into rows, with null for values that do not fit: file statistics."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from lakeport.kernel.values import EXACT, array_of

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SINGLE_LIMIT = 2.0**128


def parse_cells(texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
    """One row per text; text that does not parse gives a row of nulls, a value of another type gives null."""
    decode = msgspec.json.Decoder(_row_type(pa.struct(list(schema)))).decode
    rows = [_decode_or_none(decode, text) for text in texts.to_pylist()]
    return pa.RecordBatch.from_arrays(_cells(rows, schema), schema=schema)


def _decode_or_none(decode: Callable[[str], Any], text: str | None) -> Any:
    if text is None:
        return None
    try:
        return decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _row_type(struct: pa.DataType) -> Any:
    """A msgspec type for the objects of one level, so that only requested fields are decoded."""
    fields: list[tuple[str, Any, Any]] = []
    for i, field in enumerate(struct):
        if _ESCAPED.search(field.name):  # msgspec cannot map such a key to an attribute: it stays null
            continue
        if types.is_struct(field.type):
            fields.append((f"f{i}", _row_type(field.type) | None, None))
        elif types.is_decimal(field.type):
            fields.append((f"f{i}", msgspec.Raw, msgspec.Raw(b"null")))  # a float would lose digits
        else:
            fields.append((f"f{i}", Any, None))
    names = {f"f{i}": field.name for i, field in enumerate(struct)}
    return msgspec.defstruct("Row", fields, rename={name: names[name] for name, *_ in fields}, gc=False)


def _cells(rows: list[Any], fields: Any) -> list[pa.Array]:
    return [_cell_column([getattr(row, f"f{i}", None) for row in rows], field) for i, field in enumerate(fields)]


def _cell_column(values: list[Any], field: pa.Field) -> pa.Array:
    if types.is_struct(field.type):
        return pa.StructArray.from_arrays(_cells(values, field.type), fields=list(field.type))
    convert = _cell_converter(field.type)
    return array_of([None if value is None else convert(value) for value in values], field.type)


def _cell_converter(data_type: pa.DataType) -> Callable[[Any], Any]:
    """A function from a JSON value to a value of the type, or None if it does not fit."""
    if types.is_integer(data_type):
        return partial(_integer, limit=1 << (data_type.bit_width - 1))
    if types.is_floating(data_type):
        return partial(_float, limit=_SINGLE_LIMIT if types.is_float32(data_type) else math.inf)
    if types.is_decimal(data_type):
        return partial(_decimal, scale=data_type.scale, limit=Decimal(10 ** (data_type.precision - data_type.scale)))
    if types.is_boolean(data_type):
        return lambda value: value if isinstance(value, bool) else None
    if types.is_string(data_type):
        return lambda value: value if isinstance(value, str) else None
    if types.is_date(data_type):
        return _date
    if types.is_timestamp(data_type):
        return partial(_timestamp, zoned=data_type.tz is not None)
    return lambda value: None


def _integer(value: Any, limit: int) -> int | None:
    return value if type(value) is int and -limit <= value < limit else None


def _float(value: Any, limit: float) -> float | None:
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value)
    return float(value) if type(value) in (int, float) and abs(value) < limit else None


def _decimal(value: msgspec.Raw, scale: int, limit: Decimal) -> Decimal | None:
    try:
        number = Decimal(bytes(value).decode().strip('"'))
        exact = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except (InvalidOperation, UnicodeError):
        return None
    return exact if exact == number and exact.copy_abs() < limit else None


def _date(value: Any) -> date | None:
    try:
        return date.fromisoformat(value[:10])
    except (ValueError, TypeError):
        return None


def _timestamp(value: Any, zoned: bool) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        if not zoned:
            return moment.replace(tzinfo=None)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
