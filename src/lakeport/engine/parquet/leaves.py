"""The columns that Parquet makes of Arrow's."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import types

Path = tuple[str, ...]


def leaves_of(field: pa.Field, parents: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
    """The paths and types of a field's Parquet columns, in file order."""
    path, data_type = (*parents, field.name), field.type
    if types.is_struct(data_type):
        for inner in data_type:
            yield from leaves_of(inner, path)
    elif types.is_map(data_type):
        yield from leaves_of(data_type.key_field.with_name("key"), (*path, "key_value"))
        yield from leaves_of(data_type.item_field.with_name("value"), (*path, "key_value"))
    elif types.is_nested(data_type):
        yield from leaves_of(data_type.value_field.with_name("element"), (*path, "list"))
    else:
        yield path, data_type
