"""`create` and `append`: write rows into tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeport.errors import InvalidDataError, TableNotFoundError
from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.definition import ENABLE_TYPE_WIDENING
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import StructType, schema_from_arrow
from lakeport.kernel.schema import evolution as schema_changes
from lakeport.kernel.snapshot import Table
from lakeport.kernel.transaction import Transaction, create_table
from lakeport.tables.compaction import finish_write
from lakeport.tables.input.rows import to_reader
from lakeport.tables.input.schema import SchemaInput, check_defaults, check_text, to_schema
from lakeport.tables.operation import (
    Result,
    StorageOptions,
    begin_unless_done,
    finish,
    open_snapshot,
    paths_of,
    table_at,
)
from lakeport.workers.writing import write_rows


def create(
    target: str,
    data: Any = None,
    *,
    schema: SchemaInput | None = None,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Create a table, with rows if `data` is given. Its columns are those of the data, or of `schema`: text such as
    `"id long not null, day date"`, types by name, a `pyarrow.Schema` or a `StructType`.

    Raises `ValueError` if the table exists."""
    partitions, clustering = _names(partition_by), _names(cluster_by)
    check_text("" if name is None else name, "the name of a table")
    check_text("" if description is None else description, "the description of a table")
    table = table_at(target, engine, storage_options)
    columns = None if schema is None else to_schema(schema)
    reader = None if data is None else to_reader(data, columns)
    if columns is None:
        if reader is None:
            raise ValueError("a new table needs data or a schema")
        columns = to_schema(reader.schema)
    _refuse_existing(table)
    transaction = begin_create(
        table,
        columns,
        partition_by=partitions,
        cluster_by=clustering,
        properties=properties,
        name=name,
        description=description,
        with_rows=reader is not None,
    )
    return finish(transaction) if reader is None else _write(transaction, reader)


def begin_create(
    table: Table,
    columns: StructType,
    *,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    with_rows: bool,
) -> Transaction:
    """Begin a transaction that creates the table. Raises `ValueError` for an invalid definition."""
    check_defaults(table.engine, columns)
    transaction = create_table(
        table.engine,
        table.root,
        columns,
        partition_by,
        properties,
        clustering_columns=cluster_by,
        name=name,
        description=description,
        operation="CREATE TABLE AS SELECT" if with_rows else "CREATE TABLE",
    )
    transaction.parameters |= {
        "partitionBy": list(transaction.metadata.partition_columns),
        "clusterBy": list(cluster_by),
        "description": description or "",
        "isManaged": "false",
        "properties": dict(properties or {}),
    }
    return transaction


def _names(given: Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _refuse_existing(table: Table) -> None:
    try:
        found = table.latest_snapshot()
    except TableNotFoundError:
        return
    raise ValueError(
        f"the table already exists, at version {found.version}: append to it or overwrite it [{table.root}]"
    )


def append(
    target: str,
    data: Any,
    *,
    merge_schema: bool = False,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Append rows. Columns are matched by name; with `merge_schema`, missing ones are added to the table.

    `application` makes the write idempotent: a name and a number of the caller's own work, skipped if the table already
    has it. Appends never conflict with one another."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin_unless_done(snapshot, "WRITE", application)
    if transaction is None:
        return Result(snapshot.version)
    reader = to_reader(data, transaction.schema)
    if merge_schema:
        add_missing_columns(transaction, reader.schema)
    describe_append(transaction)
    return _write(transaction, reader)


def describe_append(transaction: Transaction) -> None:
    transaction.parameters |= {"mode": "Append", "partitionBy": list(transaction.metadata.partition_columns)}


def _write(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> Result:
    """Write and commit rows."""
    return finish_write(transaction, paths_of(transaction.root, add_rows(transaction, batches)))


def add_missing_columns(transaction: Transaction, given: pa.Schema | StructType) -> None:
    """Add columns to the table that only the data has."""
    widen = ENABLE_TYPE_WIDENING.of(transaction.metadata.configuration)
    try:
        columns = given if isinstance(given, StructType) else schema_from_arrow(given)
        merged = schema_changes.merge_schema(transaction.schema, columns, widen=widen)
    except ValueError as error:
        raise InvalidDataError(str(error)) from error
    if merged != transaction.schema:
        transaction.definition = transaction.definition.with_schema(merged)


def add_rows(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> list[Add]:
    """Write rows into files and add them to the transaction."""
    adds = write_rows(transaction.engine, transaction.write_context(), batches)
    stage_files(transaction, adds)
    return adds


def stage_files(transaction: Transaction, adds: Sequence[Add]) -> None:
    """Add files of new rows to the transaction, and their metrics."""
    transaction.add_files(adds)
    transaction.metrics |= {
        "numFiles": len(adds),
        "numOutputRows": sum(decode_num_records(add.stats) or 0 for add in adds),
        "numOutputBytes": sum(add.size for add in adds),
    }
