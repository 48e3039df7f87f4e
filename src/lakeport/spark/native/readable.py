"""What Spark's own reader gives exactly as the kernel does."""

from __future__ import annotations

from dataclasses import replace

from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.native.scans import FILE_NUMBER

_VOID, _BINARY = PrimitiveType("void"), PrimitiveType("binary")
_RESERVED = (FILE_NUMBER, "_metadata")
_WIDENED_BY_SPARK = {
    ("byte", "short"), ("byte", "integer"), ("byte", "long"), ("short", "integer"), ("short", "long"),
    ("integer", "long"), ("float", "double"), ("byte", "double"), ("short", "double"), ("integer", "double"),
}  # fmt: skip


def why_not_readable(snapshot: Snapshot) -> str | None:
    """Why a table has to be read in Python; None if Spark can."""
    schema = snapshot.schema
    if snapshot.mapping_mode == "id":
        return "its columns are matched by ids"
    for field in schema:
        name = field.physical_name(snapshot.mapping_mode)
        if name.lower() in _RESERVED:
            return f"it has a column {name!r}, which means something else here"
        if field.type != _VOID and _VOID in types_in(field.type):
            return f"a part of the column {field.name!r} is void"
    for field in snapshot.partition_fields:
        if field.type == _BINARY:
            return f"the partition column {field.name!r} is binary"
    if (widened := _unknown_widening(schema)) is not None:
        return f"the type of {widened} was widened in a way that Spark's reader does not know"
    return None


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The columns under the names that they have in data files, less those that no file has."""
    return StructType(tuple(_physical(field, mode) for field in schema if field.type != _VOID))


def _physical(field: StructField, mode: str) -> StructField:
    return replace(field, name=field.physical_name(mode), type=_physical_type(field.type, mode))


def _physical_type(data_type: DataType, mode: str) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_physical(field, mode) for field in fields))
        case ArrayType(element, contains_null):
            return ArrayType(_physical_type(element, mode), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_physical_type(key, mode), _physical_type(value, mode), contains_null)
    return data_type


def _unknown_widening(schema: StructType, where: str = "") -> str | None:
    for field in schema:
        name = f"{where}{field.name}"
        for change in field.metadata.get("delta.typeChanges", ()):
            if "fieldPath" in change or (change.get("fromType"), change.get("toType")) not in _WIDENED_BY_SPARK:
                return repr(name)
        if isinstance(field.type, StructType) and (found := _unknown_widening(field.type, f"{name}.")):
            return found
    return None
