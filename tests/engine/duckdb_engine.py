"""A third engine: DuckDB reads the Parquet files, the default engine does the rest.

It shows that a part of an engine can be swapped: nothing here uses pyarrow's Parquet reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lakeport.engine import ComposedEngine, default_engine
from lakeport.errors import CorruptTableError, MissingFileError
from lakeport.kernel.data_files import FieldIndex, conform
from lakeport.kernel.engine import FIELD_ID, METADATA_COLUMN, DataFileWriter, FileSplit, FileStatus, ParquetHandler
from lakeport.kernel.expressions import Expression

_ROW_NUMBER = "file_row_number"
_DEFAULT_BATCH_SIZE = 64 * 1024


def duckdb_engine() -> ComposedEngine:
    engine = default_engine()
    return replace(engine, parquet=DuckDBParquet(engine.parquet))


@dataclass(frozen=True)
class Node:
    """A column of a Parquet file: its name, its field id and what is in it."""

    name: str
    field_id: int | None
    children: tuple[Node, ...]


class DuckDBParquet:
    """A `ParquetHandler` for files on the disk; `writing` is the one that writes them."""

    def __init__(self, writing: ParquetHandler) -> None:
        self._writing = writing
        self._connection = duckdb.connect(config={"preserve_insertion_order": True})

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        for split in files:
            with _errors(split.file.path):
                yield from self._read(split, schema, batch_size or _DEFAULT_BATCH_SIZE)

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        with _errors(file.path):
            groups = len(self._row_group_starts(self._connection.cursor(), file.path)) - 1
        cuts = np.unique(np.linspace(0, groups, parts + 1).astype(int)).tolist()
        return [FileSplit(file, first, end) for first, end in pairwise(cuts)] or [FileSplit(file)]

    def read_encoded(
        self, split: FileSplit, schema: pa.Schema, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self.read_parquet_files([split], schema, batch_size=batch_size)

    def open_writer(
        self, path: str, schema: pa.Schema, compression: str = "snappy", bounded: Collection[tuple[str, ...]] = ()
    ) -> DataFileWriter:
        return self._writing.open_writer(path, schema, compression, bounded)

    def encode_parquet(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
        return self._writing.encode_parquet(batches, schema)

    def _read(self, split: FileSplit, schema: pa.Schema, batch_size: int) -> Iterator[pa.RecordBatch]:
        cursor, path = self._connection.cursor(), split.file.path
        nodes = self._columns(cursor, path)
        stored = pa.schema([f for f in schema if METADATA_COLUMN not in (f.metadata or {})])
        wanted = _find(nodes, stored)
        starts = self._row_group_starts(cursor, path)
        first, last = starts[split.first_row_group], starts[-1 if split.end_row_group is None else split.end_row_group]
        names = ", ".join([*(_quote(node.name) for node in wanted), _ROW_NUMBER])
        query = cursor.sql(
            f"SELECT {names} FROM read_parquet(?, file_row_number = true) "
            f"WHERE {_ROW_NUMBER} >= ? AND {_ROW_NUMBER} < ?",
            params=[path, first, last],
        )
        for big in query.to_arrow_reader(batch_size):
            for start in range(0, big.num_rows, batch_size):
                yield _logical(big.slice(start, batch_size), wanted, stored, schema, path)

    def _columns(self, cursor: Any, path: str) -> list[Node]:
        rows = iter(cursor.execute("SELECT name, field_id, num_children FROM parquet_schema(?)", [path]).fetchall())

        def node() -> Node:
            name, field_id, count = next(rows)
            return Node(name, field_id, tuple(node() for _ in range(count or 0)))

        return list(node().children)

    def _row_group_starts(self, cursor: Any, path: str) -> list[int]:
        rows = cursor.execute(
            "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata(?) ORDER BY 1", [path]
        ).fetchall()
        return list(accumulate((count for _, count in rows), initial=0))


def _find(nodes: list[Node], schema: pa.Schema) -> list[Node]:
    fields = [_field(pa.field(node.name, pa.null()), node) for node in nodes]
    found = map(FieldIndex(fields).find, schema)
    return [nodes[i] for i in sorted({i for i in found if i is not None})]


def _logical(
    batch: pa.RecordBatch, nodes: list[Node], stored: pa.Schema, schema: pa.Schema, path: str
) -> pa.RecordBatch:
    arrays = [_annotate(batch.column(i), node) for i, node in enumerate(nodes)]
    fields = [_field(pa.field(node.name, array.type), node) for node, array in zip(nodes, arrays, strict=True)]
    if arrays:
        physical = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    else:
        physical = pa.RecordBatch.from_struct_array(pa.nulls(batch.num_rows, pa.struct([])))
    conformed = conform(physical, stored, path=path)
    columns, out = conformed.columns, list(conformed.schema)
    for index, field in enumerate(schema):
        if METADATA_COLUMN in (field.metadata or {}):
            columns.insert(index, batch.column(batch.num_columns - 1))
            out.insert(index, field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(out)) if columns else conformed


def _field(field: pa.Field, node: Node) -> pa.Field:
    return field if node.field_id is None else field.with_metadata({FIELD_ID: str(node.field_id).encode()})


def _annotate(array: pa.Array, node: Node) -> pa.Array:
    """The array with the field ids of the file, which DuckDB does not hand on."""
    kind, buffers = array.type, array.buffers()
    if pa.types.is_struct(kind):
        children = [_annotate(array.field(i), child) for i, child in enumerate(node.children)]
        fields = [_field(f.with_type(c.type), n) for f, c, n in zip(kind, children, node.children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_list(kind):
        element = node.children[0].children[0] if node.children[0].children else node.children[0]
        values = _annotate(array.values, element)
        target: pa.DataType = pa.list_(_field(pa.field("element", values.type), element))
        return pa.Array.from_buffers(target, len(array), buffers[:2], array.null_count, array.offset, [values])
    if pa.types.is_map(kind):
        pair = node.children[0].children
        keys, items = _annotate(array.keys, pair[0]), _annotate(array.items, pair[1])
        target = pa.map_(
            _field(pa.field("key", keys.type, nullable=False), pair[0]), _field(pa.field("value", items.type), pair[1])
        )
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return pa.Array.from_buffers(target, len(array), buffers[:2], array.null_count, array.offset, [entries])
    return array


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except duckdb.IOException as error:
        if "No files found" in str(error) or "No such file" in str(error):
            raise MissingFileError("the file does not exist", path=path) from error
        raise CorruptTableError(f"DuckDB cannot read the file: {error}", path=path) from error
    except duckdb.Error as error:
        raise CorruptTableError(f"DuckDB cannot read the file: {error}", path=path) from error
