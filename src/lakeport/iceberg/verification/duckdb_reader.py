"""A mirror as read by DuckDB. DuckDB and its Iceberg extension are optional dependencies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import ConversionError

if TYPE_CHECKING:
    import duckdb

_EXTENSIONS = ("avro", "iceberg")


def find_difference(metadata_path: str, snapshot_id: int, read_table: Callable[[], pa.RecordBatchReader]) -> str | None:
    """Describe how a snapshot, as read by DuckDB, differs from the table, or why DuckDB cannot read it; None if the
    rows are equal, in any order. The table's rows can be read more than once. Data that exceeds memory spills to disk.

    Raises `ConversionError` if the extension is missing."""
    import duckdb

    location = metadata_path.replace("'", "''")
    with _connect() as connection:
        try:
            return _compare(
                connection, f"FROM iceberg_scan('{location}', snapshot_from_id = {snapshot_id})", read_table
            )
        except duckdb.Error as error:
            return f"the rows cannot be read: {error}"


def _compare(
    connection: duckdb.DuckDBPyConnection, mirror: str, read_table: Callable[[], pa.RecordBatchReader]
) -> str | None:
    names = read_table().schema.names
    if (found := [column[0] for column in connection.execute(f"{mirror} LIMIT 0").description]) != names:
        return f"the mirror has the columns {', '.join(found)}, not {', '.join(names)}"
    for what, query in {
        "the mirror lacks the row": f"FROM delta EXCEPT ALL ({mirror})",
        "the table lacks the row": f"{mirror} EXCEPT ALL (FROM delta)",
    }.items():
        connection.register("delta", read_table())
        if row := connection.execute(f"{query} LIMIT 1").fetchone():
            return f"{what} {dict(zip(names, row, strict=True))}"
    return None


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    try:
        for extension in _EXTENSIONS:
            connection.execute(f"LOAD '{_find(extension)}'")
    except duckdb.Error as error:
        connection.close()
        packages = " ".join(f"duckdb-extension-{extension}=={duckdb.__version__}" for extension in _EXTENSIONS)
        raise ConversionError(
            f"DuckDB {duckdb.__version__} cannot load its extension for Iceberg: run INSTALL iceberg in it, or pip "
            f"install {packages}, where they are published ({error})",
            reason="duckdb",
        ) from error
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _find(extension: str) -> str:
    """The extension from its Python package; else its name, under which DuckDB finds an installed one."""
    package = f"duckdb_extension_{extension}"
    if find_spec(package) is None:
        return extension
    (path,) = Path(str(import_module(package).__file__)).parent.rglob("*.duckdb_extension")
    return str(path).replace("'", "''")
