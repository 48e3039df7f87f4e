"""`WriteContext`: a serialisable value with everything a worker needs to write data files of a table."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.actions import Add, AddCdc
from lakeport.kernel.data_files import partition_directory, physical_field
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.paths import encode_path
from lakeport.kernel.schema import (
    CHANGE_TYPE,
    GENERATION_EXPRESSION,
    ROW_COMMIT_VERSION,
    ROW_ID,
    VOID,
    StructField,
    StructType,
    format_schema,
    parse_schema,
    types_in,
)
from lakeport.kernel.values import Portable

CHANGE_DIRECTORY = "_change_data"


class WriteContext(Portable, frozen=True, kw_only=True, dict=True):
    """How to write rows to a table, as of the transaction that created it."""

    table_root: str
    schema_json: str
    partition_columns: tuple[str, ...] = ()
    """Logical names."""
    mapping_mode: str = "none"
    stats_columns: tuple[tuple[str, ...], ...] = ()
    """Physical paths of the columns with statistics."""
    tight_bounds: bool = False
    """Whether statistics record tight bounds, as in tables with deletion vectors."""
    constraints: dict[str, str] = msgspec.field(default_factory=dict)
    """SQL conditions by name."""
    target_file_size: int = 128 << 20
    gathers_rows: bool = False
    """Whether to write few files of the target size rather than several at once."""
    compression: str = "snappy"
    now: int = 0
    """The value of `current_timestamp()`, in milliseconds since the epoch."""
    row_id_column: str | None = None
    row_commit_version_column: str | None = None
    """Physical names of the materialised row tracking columns, if the input has `_row_id` and `_row_commit_version`."""
    change_data: bool = False
    """Whether the rows are changes with a `_change_type`, for the change data feed."""

    @cached_property
    def schema(self) -> StructType:
        """The table's columns."""
        return parse_schema(self.schema_json)

    @cached_property
    def logical_fields(self) -> tuple[StructField, ...]:
        """The columns of complete logical rows."""
        tracking = (ROW_ID, ROW_COMMIT_VERSION) if self.row_id_column else ()
        return (*self.schema.fields, *tracking, *((CHANGE_TYPE,) if self.change_data else ()))

    @cached_property
    def physical_schema(self) -> pa.Schema:
        """The columns of data files."""
        return pa.schema([self._physical(f) for f in self.stored_fields])

    @cached_property
    def bounded_columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns with statistics whose bounds the encoder finds anyway, faster than anyone else could."""
        return tuple(path for path in self.stats_columns if _is_bounded_by_encoder(self.physical_schema, path))

    @cached_property
    def stored_fields(self) -> tuple[StructField, ...]:
        """The columns of complete logical rows that are stored in data files."""
        return tuple(f for f in self.logical_fields if f.name not in self.partition_columns and f.type != VOID)

    def _physical(self, field: StructField) -> pa.Field:
        if field is ROW_ID:
            return pa.field(self.row_id_column, pa.int64())
        if field is ROW_COMMIT_VERSION:
            return pa.field(self.row_commit_version_column, pa.int64())
        # Both column mapping modes write ids.
        return physical_field(field, "none" if self.mapping_mode == "none" else "id")

    @cached_property
    def partition_fields(self) -> tuple[StructField, ...]:
        return tuple(self.schema.resolve((name,))[0] for name in self.partition_columns)

    def without_row_ids(self) -> WriteContext:
        """The same context for rows that are new to the table."""
        return msgspec.structs.replace(self, row_id_column=None, row_commit_version_column=None)

    def for_changes(self) -> WriteContext:
        """The same context for files of the change data feed."""
        return msgspec.structs.replace(
            self, change_data=True, row_id_column=None, row_commit_version_column=None, stats_columns=(), constraints={}
        )

    def for_moved_rows(self) -> WriteContext:
        """The same context for rows that are already valid: computes no values and checks no constraints."""
        fields = [replace(f, metadata=_without_generation(f.metadata)) for f in self.schema]
        return msgspec.structs.replace(self, schema_json=format_schema(StructType(tuple(fields))), constraints={})

    def new_file(self, partition_values: Mapping[str, str | None]) -> str:
        """A unique plain path, relative to the table, for a new file in a partition."""
        names = [] if self.mapping_mode != "none" or not partition_values else [partition_directory(partition_values)]
        if self.change_data:
            names.insert(0, CHANGE_DIRECTORY)
        prefix = "cdc" if self.change_data else "part"
        return "/".join([*names, f"{prefix}-00000-{uuid.uuid4()}-c000.{self.compression}.parquet"])

    def add(self, file: FileStatus, partition_values: Mapping[str, str | None], stats: str | None) -> Add:
        """The add action for a written file."""
        relative = file.path.removeprefix(f"{self.table_root}/")
        return Add(
            path=encode_path(relative),
            partition_values=dict(partition_values),
            size=file.size,
            modification_time=file.modification_time,
            data_change=True,
            stats=stats,
        )


def _is_bounded_by_encoder(schema: pa.Schema, path: Sequence[str]) -> bool:
    data_type = schema.field(path[0]).type
    for name in path[1:]:
        data_type = data_type.field(name).type
    return bool(pa.types.is_string(data_type) or pa.types.is_decimal(data_type))


def check_storable(schema: StructType, partition_columns: Iterable[str], path: str) -> None:
    """Raises `UnsupportedFeatureError` for a table that cannot hold rows: a void column is never stored, so it cannot
    be nested in another one, nor can all columns be void (section "Void Type")."""
    inside = [f.name for f in schema if f.type != VOID and VOID in types_in(f.type)]
    stored = [f for f in schema if f.type != VOID and f.name not in set(partition_columns)]
    if inside or not stored:
        why = (
            f"the column {inside[0]!r} contains a void type; give that part a type"
            if inside
            else "every column is a partition column or void; add a column that is neither"
        )
        raise UnsupportedFeatureError(f"no rows can be written: {why} [{path}]", features=["void"])


def _without_generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != GENERATION_EXPRESSION}


def to_change(add: Add) -> AddCdc:
    """Convert the add of a file of changes to a cdc action."""
    return AddCdc(path=add.path, partition_values=add.partition_values, size=add.size, data_change=False)


def encode_adds(adds: Iterable[Add]) -> bytes:
    """Serialise adds for a worker to return."""
    return msgspec.msgpack.encode(list(adds))


def decode_adds(data: bytes) -> list[Add]:
    """The inverse of `encode_adds`."""
    return msgspec.msgpack.decode(data, type=list[Add])
