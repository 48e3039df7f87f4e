"""Column mapping for writers: ids, physical names, and allowed mode changes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from lakeport.kernel.schema.types import (
    COLUMN_ID,
    MAPPING_PREFIX,
    NESTED_IDS,
    PHYSICAL_NAME,
    StructField,
    StructType,
    fields_in,
    map_fields,
    types_in,
)


def assign_mapping(schema: StructType, mode: str, max_id: int, *, keep_names: bool) -> tuple[StructType, int]:
    """Give every field an id and a physical name; return the schema and the highest id ever assigned.

    Existing ids and names are kept. `max_id` is the table's `delta.columnMapping.maxColumnId`. A new column gets a
    unique physical name. With `keep_names`, for a table whose files use logical names, every field is mapped to its own
    name and existing mapping is ignored. Mode `none` assigns nothing."""
    if mode == "none":
        return schema, max_id
    ids = count(max([max_id, *_ids_in(schema)]) + 1)

    def assign(field: StructField) -> StructField:
        metadata: dict[str, Any] = dict(field.metadata)
        if metadata.get(COLUMN_ID) is None:
            metadata[COLUMN_ID] = next(ids)
        if not metadata.get(PHYSICAL_NAME):
            metadata[PHYSICAL_NAME] = field.name if keep_names else f"col-{uuid.uuid4()}"
        return replace(field, metadata=metadata)

    assigned = map_fields(without_mapping(schema) if keep_names else schema, assign)
    return assigned, next(ids) - 1


def without_mapping(schema: StructType) -> StructType:
    """The schema without ids and physical names, which are valid only in the table that assigned them."""
    return map_fields(schema, lambda field: replace(field, metadata=_unmapped(field.metadata)))


def _unmapped(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith(MAPPING_PREFIX)}


def find_twice_mapped(schema: StructType) -> Iterator[str]:
    """Problems of a schema's mapping: duplicate ids, and duplicate physical names within a struct."""
    for number, times in Counter(_ids_in(schema)).items():
        if times > 1:
            names = " and ".join(repr(f.name) for f in fields_in(schema) if f.field_id == number)
            yield f"the columns {names} have the same {COLUMN_ID} {number}"
    for struct in (found for found in types_in(schema) if isinstance(found, StructType)):
        for name, times in Counter(f.physical_name("name") for f in struct).items():
            if times > 1:
                names = " and ".join(repr(f.name) for f in struct if f.physical_name("name") == name)
                yield f"the columns {names} have the same {PHYSICAL_NAME} {name!r}"


def _ids_in(schema: StructType) -> Iterator[int]:
    for field in fields_in(schema):
        if field.field_id is not None:
            yield field.field_id
        yield from (field.metadata.get(NESTED_IDS) or {}).values()


def check_mode_change(before: str, after: str) -> None:
    """Raises `ValueError` with the reason if an existing table may not change its column mapping mode this way."""
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
