"""The columns that a stream reads, and whether changes to the table leave them intact.

A stream has one schema: that of the latest version at its start. Earlier versions are read with it if possible. A later
version that changes it stops the stream, which then restarts with the new schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import types as spark

from lakeport.errors import StreamError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.changes import ChangeState
from lakeport.kernel.definition import Layout, find_incompatibility, layout_of
from lakeport.kernel.schema import CHANGE_COLUMNS, StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.schemas import selected_columns, spark_arrow_schema, to_spark_schema
from lakeport.workers.reading import RowReader


@dataclass(frozen=True)
class StreamSchema:
    """The columns that a stream reads. `head` is the latest version at its start; `name` is the table's display
    name."""

    head: Snapshot
    wanted: spark.StructType
    change_feed: bool
    name: str

    @property
    def table_id(self) -> str:
        return self.head.metadata.id

    @cached_property
    def reader(self) -> RowReader:
        """The reader for the files of all versions. Raises like `selected_columns`."""
        state = self.head.scan_builder().with_read_schema(self._of_table).build().scan_state
        output = spark_arrow_schema(self.wanted)
        if not self.change_feed:
            return RowReader(state, output)
        names = tuple(f.name for f in self._selected if f.name in CHANGE_COLUMNS.names)
        return RowReader(ChangeState(table=state, change_columns=names), output)

    def check_id(self, table_id: str, version: int) -> None:
        """Raises `StreamError` for another table."""
        if table_id != self.table_id:
            raise StreamError(
                f"the table was replaced: the stream reads the table with the id {table_id}, but {self.name} now has "
                f"the id {self.table_id}; start the stream with a new checkpoint location",
                version=version,
            )

    def check(self, version: int, protocol: Protocol, metadata: Metadata) -> None:
        """Raises `StreamError` if a version's rows do not fit this stream."""
        if metadata.id != self.table_id:
            raise StreamError(
                f"the table was replaced: at version {version} it has the id {metadata.id}, but the stream reads the "
                f"one with the id {self.table_id}; start the stream with a new checkpoint location [{self.name}]",
                version=version,
            )
        layout = self._read_of(layout_of(protocol, metadata, self.head.root))
        if version <= self.head.version:
            if found := find_incompatibility(layout, self._layout):
                raise self._unreadable(version, *found)
        elif found := _find_change(self._layout, layout):
            raise self._changed(version, *found)

    @cached_property
    def _layout(self) -> Layout:
        return self._read_of(layout_of(self.head.protocol, self.head.metadata, self.head.root))

    @cached_property
    def _selected(self) -> StructType:
        extra = CHANGE_COLUMNS.fields if self.change_feed else ()
        whole = StructType((*self.head.schema, *extra))
        return whole.select(map(whole.path_of, selected_columns(whole, self.wanted)))

    @cached_property
    def _of_table(self) -> StructType:
        """Without the change data columns."""
        extra = CHANGE_COLUMNS.names if self.change_feed else ()
        return StructType(tuple(f for f in self._selected if f.name not in extra))

    def _read_of(self, layout: Layout) -> Layout:
        """Changes to columns that the stream does not read are ignored."""
        names = {name.lower() for name in self._of_table.names}
        if len(names) == len(self.head.schema.fields):
            return layout
        physical = {f.physical_name(self.head.mapping_mode) for f in self.head.schema if f.name.lower() in names}
        kept = (f for f in layout.schema if f.name.lower() in names or f.physical_name(layout.mapping_mode) in physical)
        return replace(layout, schema=StructType(tuple(kept)))

    def _unreadable(self, version: int, column: str, reason: str) -> StreamError:
        return StreamError(
            f"version {version} cannot be read under the schema of version {self.head.version} because of the column "
            f"{column!r}: {reason}; start the stream after the change, with a new checkpoint location [{self.name}]",
            version=version,
        )

    def _changed(self, version: int, column: str, reason: str) -> StreamError:
        return StreamError(
            f"version {version} changed the schema: the column {column!r} {reason}; restart the stream to continue "
            f"with the new schema [{self.name}]",
            version=version,
        )


def _find_change(before: Layout, after: Layout) -> tuple[str, str] | None:
    """A column that changed, and how. Columns that become non-nullable are ignored."""
    for field in before.schema:
        found = after.schema.find(field.name)
        if found is None:
            return field.name, "was dropped or renamed"
        if found.physical_name(after.mapping_mode) != field.physical_name(before.mapping_mode):
            return field.name, "was dropped, and another one with its name was added"
        old, new = to_spark_schema(StructType((field,)))[0], to_spark_schema(StructType((found,)))[0]
        if old.dataType != new.dataType:
            return field.name, f"changed from {old.dataType.simpleString()} to {new.dataType.simpleString()}"
        if new.nullable and not old.nullable:
            return field.name, "is now nullable"
    if added := [f.name for f in after.schema if before.schema.find(f.name) is None]:
        return added[0], "was added"
    if odd := before.partition_columns ^ after.partition_columns:
        return min(odd), "is a partition column at only one of the versions"
    return None
