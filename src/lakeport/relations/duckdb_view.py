"""The rows of a frame as SQL over DuckDB's own Parquet scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from lakeport.engine.column_editing import EditableParquetFiles
from lakeport.engine.storage import Storage
from lakeport.errors import MissingFileError
from lakeport.kernel.data_files import parse_partition_values, physical_field
from lakeport.kernel.engine import FIELD_ID
from lakeport.kernel.scan import Scan, ScanFile, read_vector
from lakeport.kernel.schema import PrimitiveType, StructField, StructType, fields_in, is_variant, types_in
from lakeport.kernel.values import array_of, is_bytes, is_text
from lakeport.locations import is_url
from lakeport.relations.duckdb_compatibility import DuckDBMismatchError, Layout, Zone, layouts_of
from lakeport.relations.duckdb_deletions import living_rows
from lakeport.relations.duckdb_sql import condition_of, name_of, shield, shielded, text_of, type_of, value_of

if TYPE_CHECKING:
    from lakeport.frame import Rows

_MOST_DELETED = 4_000_000
"""More positions than this would make the text of the query too long."""
_PATTERN_CHARACTERS = frozenset("*?[")


def view_text(rows: Rows[Any]) -> str:
    """The SELECT statement for the rows. Reads the log, deletion vectors and footers.

    Raises `DuckDBMismatchError` if DuckDB might return other rows than the kernel."""
    if rows.definition is None:
        raise DuckDBMismatchError("changes were requested")
    if rows.tracks_rows:
        raise DuckDBMismatchError("row ids were requested")
    # Files read by anything else may be remote, cached, in memory or encrypted.
    if type(rows.engine.storage) is not Storage or type(rows.engine.parquet) is not EditableParquetFiles:
        raise DuckDBMismatchError("the engine is not the default one")
    plan = rows.plan()
    return _View(plan, list(plan.files())).select(rows.selected, rows.row_limit)


class _View:
    """Raises `DuckDBMismatchError` from all its methods."""

    def __init__(self, plan: Scan, files: Sequence[ScanFile]) -> None:
        self._plan, self._files = plan, files
        self._state = plan.scan_state

    def select(self, selected: StructType, limit: int | None) -> str:
        if selected != self._state.table_schema.select([(name,) for name in selected.names]):
            raise DuckDBMismatchError("the filter needs other fields of a struct")
        columns = ", ".join(f"{self._columns[name]} AS {name_of(name)}" for name in selected.names)
        if not self._files:
            return f"SELECT {columns} LIMIT 0"
        conditions = [*self._deletions(), *self._filters()]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {columns} FROM {self._scan()}{where}" + ("" if limit is None else f" LIMIT {limit}")

    def _scan(self) -> str:
        if any(is_url(f.path) for f in self._files):
            raise DuckDBMismatchError("a file is not on a local disk")
        if any(not _PATTERN_CHARACTERS.isdisjoint(f.path) for f in self._files):
            raise DuckDBMismatchError("DuckDB would take a path as a pattern")
        paths = ", ".join(text_of(f.path) for f in self._files)
        return f"read_parquet([{paths}], hive_partitioning=false, binary_as_string=false{self._schema()})"

    def _schema(self) -> str:
        """The `schema` argument, which maps columns of files to columns of the table. Empty if they already match:
        DuckDB is faster without it."""
        if self._names is not None:
            return ""
        if not self._physical:
            return self._no_columns()
        read = [f"{self._keys[i]}: {self._target(i)}" for i in range(len(self._state.data_fields))]
        return f", schema=MAP {{{', '.join(read)}}}"

    def _no_columns(self) -> str:
        if any(layout.names_of([]) is None for layout in self._layouts):
            raise DuckDBMismatchError("a file has a column named like one that DuckDB adds")
        return ""

    def _target(self, index: int) -> str:
        stored = "TIMESTAMP" if index in self._local else type_of(self._state.data_fields[index].type)
        return f"{{name: 'c{index}', type: '{stored.replace(chr(39), chr(39) * 2)}', default_value: NULL}}"

    @cached_property
    def _physical(self) -> list[pa.Field]:
        mode = self._state.mapping_mode
        for field in self._state.data_fields:
            if any(map(is_variant, types_in(field.type))):
                raise DuckDBMismatchError(f"there are variants in the column {field.name!r}")
            if mode != "none" and any(mode == "id" or f.physical_name(mode) != f.name for f in fields_in(field.type)):
                raise DuckDBMismatchError(f"the fields in the column {field.name!r} are mapped")
        return [physical_field(field, mode) for field in self._state.data_fields]

    @cached_property
    def _keys(self) -> list[str]:
        """What identifies each column in the files."""
        ids = [(field.metadata or {}).get(FIELD_ID) for field in self._physical]
        if None in ids and any(ids):
            raise DuckDBMismatchError("some columns are matched by ids, others by names")
        return [text_of(f.name) if key is None else key.decode() for f, key in zip(self._physical, ids, strict=True)]

    @cached_property
    def _layouts(self) -> list[Layout]:
        has_times = any(_has_times(field.type) for field in self._physical)
        return layouts_of([f.path for f in self._files], with_times=has_times)

    @cached_property
    def _names(self) -> list[str] | None:
        """The names of the columns in the files, if all are alike and as the table has them."""
        return self._layouts[0].names_of(self._physical) if len(self._layouts) == 1 else None

    def _source(self, index: int) -> str:
        """The SQL of a column of the scan."""
        if self._names is None:
            return f"c{index}"
        name, field = name_of(self._names[index]), self._state.data_fields[index]
        # Bytes that are marked as JSON, for example, are a type of their own in DuckDB.
        return f"CAST({name} AS {type_of(field.type)})" if _has_bytes(self._physical[index].type) else name

    @cached_property
    def _local(self) -> frozenset[int]:
        """The columns of timestamps that files store without a zone."""
        found = set()
        for index, field in enumerate(self._physical):
            zones = {layout.zone_of(field) for layout in self._layouts} - {None}
            if len(zones) > 1:
                raise DuckDBMismatchError(f"files store the column {field.name!r} in different ways")
            found |= {index} if Zone.LOCAL in zones else set()
        return frozenset(found)

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The SQL of each logical column."""
        if not self._files:
            return {f.name: f"CAST(NULL AS {type_of(f.type)})" for f in self._state.table_schema}
        found = {f.name: self._data_column(index) for index, f in enumerate(self._state.data_fields)}
        return found | {f.name: self._partition(f) for f in self._state.table_schema if f.name not in found}

    def _data_column(self, index: int) -> str:
        if index in self._local:
            return f"({self._source(index)} AT TIME ZONE 'UTC')"
        field = self._physical[index]
        if any(layout.is_constant(field) for layout in self._layouts):
            return shield(self._source(index))
        return shielded(self._source(index), field.type)

    def _partition(self, field: StructField) -> str:
        if not isinstance(field.type, PrimitiveType):
            raise DuckDBMismatchError("a partition column is nested")
        name = field.physical_name(self._state.mapping_mode)
        texts = array_of([f.partition_values.get(name) for f in self._files], pa.string())
        values = _stored_values(parse_partition_values(texts, field, path=self._state.table_root))
        listed = ["NULL" if value is None else text_of(value) for value in values]
        if len(set(listed)) == 1:
            return value_of(listed[0], field.type)
        of_file = f"CAST([{', '.join(listed)}] AS VARCHAR[])[CAST(file_index AS BIGINT) + 1]"
        return value_of(of_file, field.type)

    def _deletions(self) -> list[str]:
        engine, root = self._plan.snapshot.engine, self._state.table_root
        marked = [(i, f.deletion_vector) for i, f in enumerate(self._files) if f.deletion_vector is not None]
        if sum(vector.cardinality for _, vector in marked) > _MOST_DELETED:
            raise DuckDBMismatchError("too many rows are deleted")
        try:
            vectors = {index: read_vector(engine, root, descriptor) for index, descriptor in marked}
        except MissingFileError as error:  # reading the rows raises it again, with advice
            raise DuckDBMismatchError(str(error)) from error
        return living_rows({index: vector for index, vector in vectors.items() if vector is not None})

    def _filters(self) -> list[str]:
        condition = self._plan.remaining_filter
        if condition is None:
            return []
        return [condition_of(condition, self._plan.snapshot.schema, self._columns.__getitem__)]


def _stored_values(values: pa.Array) -> list[str | None]:
    """Values as text; dates and timestamps as numbers."""
    if types.is_date(values.type) or types.is_timestamp(values.type):
        values = values.view(f"int{values.type.bit_width}")
    if types.is_binary(values.type):
        raise DuckDBMismatchError("a partition column is binary")
    return [
        None if value is None else format(value, "f") if isinstance(value, Decimal) else str(value)
        for value in values.to_pylist()
    ]


def _has_times(data_type: pa.DataType) -> bool:
    return _has(data_type, lambda part: types.is_date(part) or types.is_timestamp(part))


def _has_bytes(data_type: pa.DataType) -> bool:
    return _has(data_type, lambda part: is_text(part) or is_bytes(part))


def _has(data_type: pa.DataType, is_meant: Callable[[pa.DataType], bool]) -> bool:
    parts = (data_type.field(index).type for index in range(data_type.num_fields))
    return is_meant(data_type) or any(_has(part, is_meant) for part in parts)
