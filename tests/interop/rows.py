"""Rows and changes of tables as each reader gives them, in a form that can be compared."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import lakeport
from lakeport.cli.rendering import plain_batch, plain_schema
from lakeport.frame import Changes, Frame
from lakeport.kernel.schema import ArrayType, DataType, MapType, StructField, StructType, is_variant, types_in
from tests.interop.peers import Peer
from tests.rows import canonical

TRACKING = "_metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version"


def versions(path: str) -> list[int]:
    """The versions that can be read, oldest first."""
    return sorted(commit.version for commit in lakeport.scan(path).history())


def frame_at(path: str, version: int | None = None) -> Frame:
    """A version with the ids of its rows, if it tracks them."""
    frame = lakeport.scan(path)
    frame = frame if version is None else frame.at(version=version)
    return frame.with_row_tracking() if frame.snapshot.tracks_rows else frame


def read(frame: Frame | Changes) -> pa.Table:
    """The rows, with variants as the text of Spark's `to_json`."""
    schema = plain_schema(frame.schema)
    return pa.Table.from_batches([plain_batch(batch, schema) for batch in frame.to_batches()], schema)


def spark_columns(schema: StructType) -> str:
    """`*`, unless there are variants, which Arrow cannot carry out of Spark."""
    if not any(map(is_variant, types_in(schema))):
        return "*"
    return ", ".join(_column(field) for field in schema)


def spark_query(path: str, version: int) -> str:
    """What has Spark read the rows that `read(frame_at(path, version))` gives."""
    snapshot = frame_at(path, version).snapshot
    tracking = f", {TRACKING}" if snapshot.tracks_rows else ""
    return f"SELECT {spark_columns(snapshot.schema)}{tracking} FROM delta.`{path}` VERSION AS OF {version}"


def spark_changes_query(path: str, start: int, end: int) -> str:
    columns = spark_columns(lakeport.scan(path).at(version=end).snapshot.schema)
    columns += "" if columns == "*" else ", _change_type, _commit_version, _commit_timestamp"
    return f"SELECT {columns} FROM table_changes_by_path('{path}', {start}, {end})"


def duckdb_query(path: str, version: int) -> str:
    return f"SELECT * FROM delta_scan('{path}', version => {version})"


def read_by_deltalake(path: str, version: int) -> pa.Table:
    table = DeltaTable(path, version=version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def assert_spark_reads_the_same(spark: Peer, path: str, which: list[int]) -> None:
    """At each of the versions: columns, rows, and their ids if they have any."""
    for version, theirs in zip(which, spark.read(*(spark_query(path, v) for v in which)), strict=True):
        ours = read(frame_at(path, version))
        assert ours.schema.names == theirs.schema.names, f"version {version}"
        assert canonical(ours) == canonical(theirs), f"version {version}"


def assert_spark_reads_the_same_changes(spark: Peer, path: str, ranges: list[tuple[int, int]]) -> None:
    queries = [spark_changes_query(path, start, end) for start, end in ranges]
    for (start, end), theirs in zip(ranges, spark.read(*queries), strict=True):
        ours = read(lakeport.scan(path).changes(start, end))
        assert ours.schema.names == theirs.schema.names, f"versions {start} to {end}"
        assert canonical(ours) == canonical(theirs), f"versions {start} to {end}"


def _column(field: StructField) -> str:
    name = f"`{field.name}`"
    return f"{_text(field.type, name)} AS {name}"


def _text(data_type: DataType, value: str) -> str:
    """The value with the variants in it as text."""
    if is_variant(data_type):
        return f"to_json({value})"
    if not any(map(is_variant, types_in(data_type))):
        return value
    item = f"x{len(value)}"  # another name than those of the functions around it
    match data_type:
        case ArrayType(element):
            return f"transform({value}, {item} -> {_text(element, item)})"
        case MapType(_, of):
            return f"transform_values({value}, (key, {item}) -> {_text(of, item)})"
        case StructType(fields):
            parts = ", ".join(f"'{field.name}', {_text(field.type, f'{value}.`{field.name}`')}" for field in fields)
            return f"if({value} IS NULL, NULL, named_struct({parts}))"
    raise TypeError(data_type)
