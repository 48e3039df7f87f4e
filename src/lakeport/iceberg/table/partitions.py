"""Partition specs and values: Delta's partition columns are Iceberg's identity transforms.

And Iceberg's binary single values, used for bounds of columns and partitions. See "Binary single-value serialization"
in its specification.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from lakeport.errors import ConversionError
from lakeport.iceberg.avro import NULL, PRESENT, encoder
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.data_files import parse_partition_value
from lakeport.kernel.schema import StructField
from lakeport.kernel.values import FarDate, FarTime, days_of, microseconds_of


def to_plain(value: Any) -> Any:
    """A value as stored: days and microseconds since the epoch, the unscaled digits of a decimal."""
    match value:
        case datetime() | FarTime():
            return microseconds_of(value)
        case date() | FarDate():
            return days_of(value)
        case Decimal():
            return unscaled(value)
    return value


def unscaled(value: Decimal) -> int:
    """A decimal's digits as one integer."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number


def encode_unscaled(number: int) -> bytes:
    """Two's complement, big-endian, in as few bytes as possible."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


_FIXED: Mapping[str, struct.Struct] = {
    "boolean": struct.Struct("<?"),
    "int": struct.Struct("<i"),
    "date": struct.Struct("<i"),
    "long": struct.Struct("<q"),
    "timestamp": struct.Struct("<q"),
    "timestamptz": struct.Struct("<q"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
}


def encode_value(value: Any, iceberg_type: str) -> bytes:
    """A plain value of a primitive type."""
    if form := _FIXED.get(iceberg_type):
        return form.pack(value)
    if iceberg_type.startswith("decimal"):
        return encode_unscaled(value)
    return value.encode() if isinstance(value, str) else bytes(value)


def decode_value(data: bytes, iceberg_type: str) -> Any:
    """The inverse; also decodes values written before their type was promoted."""
    if form := _FIXED.get(iceberg_type):
        narrower = {"<q": "<i", "<d": "<f"}.get(form.format, form.format)
        return struct.unpack(form.format if len(data) == form.size else narrower, data)[0]
    if iceberg_type.startswith("decimal"):
        return int.from_bytes(data, "big", signed=True)
    return data.decode() if iceberg_type == "string" else data


FIRST_PARTITION_ID = 1000
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Values = tuple[Any, ...]
"""The plain values of a partition, in the order of its spec."""


def plan_spec(columns: Sequence[Json], specs: Sequence[Json], last_partition_id: int, *, by_name: bool = False) -> Json:
    """The spec, in the JSON of the metadata, that partitions by `columns`, which are fields of the current schema: one
    of `specs` if it matches (with `by_name`, its names too), otherwise a new one. A column keeps its partition field id
    across specs."""
    wanted, names = [column["id"] for column in columns], [column["name"] for column in columns]
    for spec in specs:
        is_same = [field["source-id"] for field in spec["fields"]] == wanted
        if is_same and (not by_name or [field["name"] for field in spec["fields"]] == names):
            return spec
    given = {field["source-id"]: field["field-id"] for spec in specs for field in spec["fields"]}
    following = iter(range(last_partition_id + 1, last_partition_id + 1 + len(columns)))
    fields = [
        {
            "source-id": column["id"],
            "field-id": given[column["id"]] if column["id"] in given else next(following),
            "name": column["name"],
            "transform": "identity",
        }
        for column in columns
    ]
    return {"spec-id": max((spec["spec-id"] for spec in specs), default=-1) + 1, "fields": fields}


def check_spec_names(spec: Json, fields: Sequence[Json]) -> None:
    """Raises `ConversionError` if a partition field now has the name of another column."""
    by_name = {field["name"]: field["id"] for field in fields}
    for part in spec["fields"]:
        if by_name.get(part["name"], part["source-id"]) != part["source-id"]:
            raise ConversionError(
                f"the partition field {part['name']!r} has the name of another column: the partition "
                "column was renamed, and a new column got its name; rename the new column",
                reason="partition name taken",
            )


@dataclass(frozen=True)
class Partitioning:
    """A spec, and the means to encode the partitions of files."""

    spec: Json
    columns: tuple[StructField, ...]
    """Delta's partition columns, in spec order."""
    physical_names: tuple[str, ...]
    types: tuple[str, ...]
    """The columns' Iceberg types."""

    @cached_property
    def avro_fields(self) -> list[Json]:
        """The partition fields in a manifest."""
        return [
            _avro_field(part, iceberg_type) for part, iceberg_type in zip(self.spec["fields"], self.types, strict=True)
        ]

    def parse(self, texts: Mapping[str, str | None], path: str) -> Values:
        """The values of a file's partition, from Delta's strings. Raises `CorruptTableError`, naming the table."""
        pairs = zip(self.columns, self.physical_names, strict=True)
        values = (to_plain(parse_partition_value(texts.get(name), column, path=path)) for column, name in pairs)
        # Iceberg's Java library treats -0.0 and 0.0 as different: a filter on one would miss the other.
        return tuple(0.0 if isinstance(value, float) and value == 0 else value for value in values)

    def encode(self, values: Values) -> bytes:
        """A partition as a record in a manifest."""
        pairs = zip(values, self._encoders, strict=True)
        return b"".join([NULL if value is None else PRESENT + encode(value) for value, encode in pairs])

    @cached_property
    def _encoders(self) -> list[Any]:
        return [_value_encoder(iceberg_type) for iceberg_type in self.types]

    def summarise(self, partitions: Iterable[Values]) -> list[Json]:
        """The partition summaries of a manifest, for a manifest list."""
        columns = list(zip(*set(partitions), strict=True)) or [()] * len(self.types)
        return [_summarise(values, kind) for values, kind in zip(columns, self.types, strict=True)]


def has_nan(values: Iterable[Any]) -> bool:
    return any(map(_is_nan, values))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _summarise(values: Sequence[Any], iceberg_type: str) -> Json:
    known = [value for value in values if value is not None]
    ordered = [value for value in known if not _is_nan(value)]
    return _summary(
        ordered, ordered, iceberg_type, has_null=len(known) < len(values), has_nan=len(ordered) < len(known)
    )


def _summary(lower: Sequence[Any], upper: Sequence[Any], iceberg_type: str, *, has_null: bool, has_nan: bool) -> Json:
    """The bounds of these values. -0.0 and 0.0 bracket both zeros, in Iceberg's order. NaN is not allowed as a bound,
    but Spark's and DuckDB's filters treat it as the greatest value: infinity stands in for it."""
    if has_nan:
        lower, upper = [*lower, math.inf], [math.inf]
    least, greatest = min(lower, key=_order, default=None), max(upper, key=_order, default=None)
    if isinstance(least, float) and isinstance(greatest, float):
        least, greatest = least or -0.0, greatest or 0.0
    return {
        "contains_null": has_null,
        "contains_nan": has_nan,
        "lower_bound": None if least is None else encode_value(least, iceberg_type),
        "upper_bound": None if greatest is None else encode_value(greatest, iceberg_type),
    }


def _avro_field(part: Json, iceberg_type: str) -> Json:
    name = part["name"]
    field = {"name": _avro_name(name), "field-id": part["field-id"], "default": None}
    field["type"] = ["null", _avro_type(iceberg_type, part["field-id"])]
    return field if _AVRO_NAME.fullmatch(name) else field | {"iceberg-field-name": name}


def _avro_name(name: str) -> str:
    """A valid Avro name, built like Iceberg's libraries do."""
    letters = [c if _AVRO_NAME.fullmatch(f"_{c}") else f"_x{ord(c):X}" for c in name]
    if letters and name[0].isascii() and name[0].isdigit():
        letters[0] = f"_{name[0]}"
    return "".join(letters)


def _avro_type(iceberg_type: str, field_id: int) -> Any:
    if decimal := _DECIMAL.fullmatch(iceberg_type):
        precision, scale = int(decimal[1]), int(decimal[2])
        return {
            "type": "fixed",
            "name": f"decimal_{precision}_{scale}_{field_id}",
            "size": _decimal_size(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    match iceberg_type:
        case "date":
            return {"type": "int", "logicalType": "date"}
        case "timestamp" | "timestamptz":
            utc = iceberg_type == "timestamptz"
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": utc}
        case "binary":
            return "bytes"
    return iceberg_type


def _decimal_size(precision: int) -> int:
    """Bytes that fit every decimal of this precision."""
    return int(10**precision - 1).bit_length() // 8 + 1


def _value_encoder(iceberg_type: str) -> Any:
    if decimal := _DECIMAL.fullmatch(iceberg_type):
        size = _decimal_size(int(decimal[1]))
        return lambda number: number.to_bytes(size, "big", signed=True)
    return encoder(_avro_type(iceberg_type, 0))


def merge_summaries(summaries: Sequence[Sequence[Json]], types: Sequence[str]) -> list[Json]:
    """The combined summaries of several manifests."""
    return [_merged(columns, kind) for columns, kind in zip(zip(*summaries, strict=True), types, strict=True)]


def _merged(columns: Sequence[Json], iceberg_type: str) -> Json:
    return _summary(
        [decode_value(c["lower_bound"], iceberg_type) for c in columns if c["lower_bound"] is not None],
        [decode_value(c["upper_bound"], iceberg_type) for c in columns if c["upper_bound"] is not None],
        iceberg_type,
        has_null=any(column["contains_null"] for column in columns),
        has_nan=any(column["contains_nan"] for column in columns),
    )


def _order(value: Any) -> Any:
    """Strings are ordered by their bytes."""
    return value.encode() if isinstance(value, str) else value
