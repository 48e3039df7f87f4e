"""Make the tables of `deltalake`, and read them back with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.corpus.make.deltalake_tables import LOSE_VERSIONS, MAKERS, rows
from tests.corpus.make.duckdb_tables import BASES, STATEMENTS
from tests.corpus.make.expected import Expectations, change_ranges, versions_of

NAME = "deltalake"


def make_tables(folder: Path, wanted: str = "") -> None:
    for name, make in MAKERS.items():
        if wanted in name:
            print(f"{NAME}--{name}", flush=True)
            path = folder / "tables" / f"{NAME}--{name}"
            make(str(path))
            read_back(folder, path.name, name in LOSE_VERSIONS)


def make_bases(folder: Path) -> None:
    """Create the tables into which DuckDB inserts."""
    for name in STATEMENTS:
        path = folder / "tables" / f"duckdb--{name}"
        if name in BASES:
            shutil.copytree(path.with_name(BASES[name]), path)
        else:
            DeltaTable.create(path, rows(0, 0).schema, partition_by=["name"] if "partitioned" in name else None)


def read_back(folder: Path, name: str, loses_versions: bool) -> None:
    """Write down what `deltalake` reads of each version, and of the change feed."""
    path = folder / "tables" / name
    expectations = Expectations(folder, name)
    for version in versions_of(path):
        try:
            rows = read_rows(path, version)
        except Exception:
            if expectations.versions or not loses_versions:
                raise
        else:
            expectations.add_version(version, rows)
    for begin, end in change_ranges(path):
        changes = pa.table(DeltaTable(path).load_cdf(begin, end).read_all())
        expectations.add_changes(begin, end, plain(in_order(changes, path)))
    expectations.active_files = len(DeltaTable(path).file_uris())
    expectations.save()


def read_rows(path: Path, version: int) -> pa.Table:
    table = DeltaTable(path, version=version)
    names = [field.name for field in table.schema().fields]
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    found = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t").read_all()
    return plain(pa.table(found))


def in_order(changes: pa.Table, path: Path) -> pa.Table:
    """Columns in the order of the schema; `deltalake` puts those of partitions last."""
    names = [field.name for field in DeltaTable(path).schema().fields]
    return changes.select([*names, *(name for name in changes.column_names if name not in names)])


def plain(rows: pa.Table) -> pa.Table:
    """Rows without views and dictionaries, which Parquet files would not give back."""
    return rows.cast(pa.schema([(field.name, plain_type(field.type)) for field in rows.schema]))


def plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    return kind
