"""Schemas as JSON, as in the log."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from lakeport.errors import CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.schema.arrow import ARROW_PRIMITIVES
from lakeport.kernel.schema.types import (
    COLUMN_ID,
    DECIMAL,
    PHYSICAL_NAME,
    TYPE_CHANGES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "null": "void"}
_METADATA_KINDS = {PHYSICAL_NAME: str | None, COLUMN_ID: int | None, TYPE_CHANGES: list | None}
"""The column metadata that this kernel reads."""


def parse_schema(text: str, *, path: str = "") -> StructType:
    """Parse the schema JSON of a `metaData` action. Raises `CorruptTableError` naming `path`."""
    try:
        parsed = _parse_type(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CorruptTableError(f"the table's schema cannot be read: {error!r}", path=path) from error
    if not isinstance(parsed, StructType):
        raise CorruptTableError("the table's schema is not a struct", path=path)
    return parsed


def _parse_type(raw: Any) -> DataType:
    if isinstance(raw, str):
        return parse_primitive(raw)
    match raw["type"]:
        case "struct":
            return StructType(tuple(_parse_field(item) for item in raw["fields"]))
        case "array":
            return ArrayType(_parse_type(raw["elementType"]), bool(raw.get("containsNull", True)))
        case "map":
            return MapType(
                _parse_type(raw["keyType"]), _parse_type(raw["valueType"]), bool(raw.get("valueContainsNull", True))
            )
        case str(name):
            return parse_primitive(name)
    raise ValueError(f"unknown type {raw!r}")


def _parse_field(raw: Any) -> StructField:
    name, nullable, metadata = raw["name"], raw.get("nullable", True), raw.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(nullable, bool) or not isinstance(metadata, dict):
        raise ValueError(f"bad field {raw!r}")
    for key in _METADATA_KINDS.keys() & metadata:
        if not isinstance(metadata[key], _METADATA_KINDS[key]):
            raise ValueError(f"bad {key} of field {name!r}")
    return StructField(name, _parse_type(raw["type"]), nullable, metadata)


@lru_cache(maxsize=256)
def parse_primitive(name: str) -> PrimitiveType:
    """Raises `ValueError` and `UnsupportedFeatureError`."""
    name = _ALIASES.get(name, name)
    if name == "decimal":
        name = "decimal(10,0)"
    if name in ARROW_PRIMITIVES:
        return PrimitiveType(name)
    if match := DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ValueError(f"bad type {name!r}")
        return PrimitiveType(f"decimal({precision},{scale})")
    raise UnsupportedFeatureError(
        f"a column has the type {name!r}, which this version of Lakeport does not read; upgrade Lakeport",
        features=[f"type {name}"],
    )


def format_schema(schema: StructType) -> str:
    """The JSON of a schema, as stored in a `metaData` action."""
    return msgspec.json.encode(_format_type(schema)).decode()


def _format_type(data_type: DataType) -> Any:
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _format_type(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            return {
                "type": "map",
                "keyType": _format_type(key),
                "valueType": _format_type(value),
                "valueContainsNull": contains_null,
            }
        case StructType(fields):
            return {
                "type": "struct",
                "fields": [
                    {"name": f.name, "type": _format_type(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
                    for f in fields
                ],
            }
