"""Column mapping for writers: ids and physical names, and which modes a table may change to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from lakeport.kernel.schema import ArrayType, DataType, MapType, StructField, StructType, fields_in

COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NESTED_IDS = "delta.columnMapping.nested.ids"


def assign_mapping(schema: StructType, mode: str, max_id: int, *, keep_names: bool) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every field, and the greatest id that was ever given.

    What a field already has stays. `max_id` is the table's `delta.columnMapping.maxColumnId`. A new column gets a
    physical name that no column ever had; with `keep_names`, for a table whose files have the logical names, its own.
    Without column mapping (mode `none`) nothing is assigned."""
    if mode == "none":
        return schema, max_id
    ids = count(max([max_id, *_ids_in(schema)]) + 1)
    assigned = _assign_in_struct(schema, ids, keep_names)
    return assigned, next(ids) - 1


def _ids_in(schema: StructType) -> Iterator[int]:
    for field in fields_in(schema):
        if field.field_id is not None:
            yield field.field_id
        yield from (field.metadata.get(_NESTED_IDS) or {}).values()


def _assign_in_struct(struct: StructType, ids: Iterator[int], keep_names: bool) -> StructType:
    return StructType(tuple(_assign(field, ids, keep_names) for field in struct))


def _assign(field: StructField, ids: Iterator[int], keep_names: bool) -> StructField:
    metadata: dict[str, Any] = dict(field.metadata)
    if metadata.get(COLUMN_ID) is None:
        metadata[COLUMN_ID] = next(ids)
    if not metadata.get(PHYSICAL_NAME):
        metadata[PHYSICAL_NAME] = field.name if keep_names else f"col-{uuid.uuid4()}"
    return replace(field, type=_assign_in_type(field.type, ids, keep_names), metadata=metadata)


def _assign_in_type(data_type: DataType, ids: Iterator[int], keep_names: bool) -> DataType:
    match data_type:
        case StructType():
            return _assign_in_struct(data_type, ids, keep_names)
        case ArrayType(element):
            return replace(data_type, element=_assign_in_type(element, ids, keep_names))
        case MapType(key, value):
            key = _assign_in_type(key, ids, keep_names)
            return replace(data_type, key=key, value=_assign_in_type(value, ids, keep_names))
    return data_type


def check_mode_change(before: str, after: str) -> None:
    """Whether an existing table may change its column mapping mode. Raises `ValueError` with the reason."""
    if before == after or (before, after) == ("none", "name"):
        return
    if before == "none":
        raise ValueError(
            "delta.columnMapping.mode cannot become 'id': the files of the table have no field ids. "
            "Use 'name', or set 'id' when the table is created"
        )
    if after == "none":
        raise ValueError(
            "delta.columnMapping.mode cannot become 'none': the files of the table have physical names. "
            "Write its rows into a new table instead"
        )
    raise ValueError(f"delta.columnMapping.mode cannot change from {before!r} to {after!r}: a table keeps its mode")
