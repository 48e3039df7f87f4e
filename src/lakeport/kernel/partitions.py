"""Partition values: the strings of the log as typed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.arrays import array_of, scalar_of
from lakeport.kernel.schema import PrimitiveType, StructField, arrow_type


def parse_partition_values(texts: pa.Array, field: StructField, *, path: str) -> pa.Array:
    """A column of serialised values as a column of the field's type. Each distinct value is parsed once.

    Raises `CorruptTableError`, naming the table at `path`."""
    encoded = texts.dictionary_encode()
    values = [parse_partition_value(text, field, path=path) for text in encoded.dictionary.to_pylist()]
    return array_of(values, arrow_type(field.type)).take(encoded.indices)


def parse_partition_value(text: str | None, field: StructField, *, path: str) -> Any:
    """One value; the empty string is null for every type."""
    if not text:
        return None
    name = field.type.name if isinstance(field.type, PrimitiveType) else ""
    parse = _parse_decimal(field.type) if name.startswith("decimal") else _PARSERS.get(name)
    if parse is None:
        raise CorruptTableError(f"the column {field.name!r} cannot be a partition column: it is {name}", path=path)
    try:
        return parse(text)
    except (ValueError, InvalidOperation, OverflowError, KeyError) as error:
        raise CorruptTableError(
            f"{text!r} is not a {name} value of partition column {field.name!r}", path=path
        ) from error


def constant_column(value: Any, data_type: pa.DataType, length: int) -> pa.Array:
    """A column that repeats one value."""
    if value is None:
        return pa.nulls(length, data_type)
    return pa.repeat(scalar_of(value, data_type), length)


def partition_struct(values: pa.Array | None, names: tuple[str, ...], length: int, *, path: str) -> pa.StructArray:
    """The serialised values of `names` as a struct: from JSON texts as commits have them (each distinct text is parsed
    once), or from maps as checkpoints have them. Raises `CorruptTableError`, naming the table at `path`."""
    if values is None or not names or pa.types.is_null(values.type):
        columns = [pa.nulls(length, pa.string()) for _ in names]
    elif pa.types.is_map(values.type):
        columns = [pc.map_lookup(values, scalar_of(name, pa.string()), "first").cast(pa.string()) for name in names]
    else:
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        objects = [_parse_object(text, path) for text in encoded.dictionary.to_pylist()]
        columns = [array_of([o.get(name) for o in objects], pa.string()).take(encoded.indices) for name in names]
    fields = [pa.field(name, pa.string()) for name in names]
    return pa.Array.from_buffers(pa.struct(fields), length, [None], children=columns)


_OBJECT = msgspec.json.Decoder(dict[str, str | None])


def _parse_object(text: str | None, path: str) -> dict[str, str | None]:
    try:
        return _OBJECT.decode(text) if text else {}
    except msgspec.MsgspecError as error:
        raise CorruptTableError(f"{text!r:.80} are not partition values: {error}", path=path) from error


def _parse_integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise OverflowError(text)
        return value

    return parse


def _parse_decimal(data_type: Any) -> Callable[[str], Decimal]:
    precision, scale = data_type.decimal

    def parse(text: str) -> Decimal:
        number = Decimal(text)
        exact = number.quantize(Decimal(1).scaleb(-scale))
        if exact != number or abs(exact) >= Decimal(10) ** (precision - scale):
            raise ValueError(text)
        return exact

    return parse


def _parse_timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(_six_digits(text))
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_timestamp_ntz(text: str) -> datetime:
    return datetime.fromisoformat(_six_digits(text)).replace(tzinfo=None)


def _six_digits(text: str) -> str:
    """Cuts a fraction of a second to microseconds."""
    head, dot, tail = text.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[: min(digits, 6)]}{tail[digits:]}" if dot else text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    "long": _parse_integer(64),
    "integer": _parse_integer(32),
    "short": _parse_integer(16),
    "byte": _parse_integer(8),
    "float": lambda text: float(text.replace("Infinity", "inf")),
    "double": lambda text: float(text.replace("Infinity", "inf")),
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    "binary": str.encode,
    "date": date.fromisoformat,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}
