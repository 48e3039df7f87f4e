"""`create` and `append`: rows into tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeport.engine.writing import write_rows
from lakeport.errors import InvalidDataError, TableNotFoundError
from lakeport.kernel import schema_changes
from lakeport.kernel.actions import Add
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan_files import decode_num_records
from lakeport.kernel.schema import StructType, schema_from_arrow
from lakeport.kernel.snapshot import Table
from lakeport.kernel.table_properties import ENABLE_TYPE_WIDENING
from lakeport.kernel.transaction import Transaction, create_table
from lakeport.tables.arrow_input import to_reader
from lakeport.tables.operation import Result, StorageOptions, begin, engine_for, finish, open_snapshot


def create(
    target: str,
    data: Any = None,
    *,
    schema: pa.Schema | StructType | None = None,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """A new table, with rows if `data` is given; its columns are those of the data unless `schema` says them.

    Raises `ValueError` if there is a table already."""
    engine = engine_for(engine, storage_options)
    reader = None if data is None else to_reader(data)
    if schema is None:
        if reader is None:
            raise ValueError("a new table needs data or a schema")
        schema = reader.schema
    _refuse_existing(engine, target)
    transaction = create_table(
        engine,
        str(target),
        schema if isinstance(schema, StructType) else schema_from_arrow(schema),
        partition_by,
        properties,
        clustering_columns=cluster_by,
        name=name,
        description=description,
        operation="CREATE TABLE" if reader is None else "CREATE TABLE AS SELECT",
    )
    transaction.parameters |= {
        "partitionBy": list(transaction.metadata.partition_columns),
        "clusterBy": list(cluster_by),
        "description": description or "",
        "isManaged": "false",
        "properties": dict(properties or {}),
    }
    return finish(transaction) if reader is None else _write(transaction, reader)


def _refuse_existing(engine: Engine, target: str) -> None:
    try:
        found = Table.for_path(engine, str(target)).latest_snapshot()
    except TableNotFoundError:
        return
    raise ValueError(f"there is a table already, at version {found.version}: append to it or overwrite it [{target}]")


def append(
    target: str,
    data: Any,
    *,
    merge_schema: bool = False,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Adds rows. Columns are matched by name; with `merge_schema`, those that the table lacks are added to it.

    `application` is a name and a number of the caller's own work: what the table already has of it is not written
    again. Appends never conflict with one another."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin(snapshot, "WRITE", application)
    if transaction is None:
        return Result(snapshot.version)
    reader = to_reader(data)
    if merge_schema:
        add_missing_columns(transaction, reader.schema)
    transaction.parameters |= {"mode": "Append", "partitionBy": list(transaction.metadata.partition_columns)}
    return _write(transaction, reader)


def _write(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> Result:
    """Commits rows."""
    return finish(transaction, add_rows(transaction, batches))


def add_missing_columns(transaction: Transaction, given: pa.Schema) -> None:
    """Columns of the data that the table lacks become columns of the table."""
    widen = ENABLE_TYPE_WIDENING.of(transaction.metadata.configuration)
    try:
        merged = schema_changes.merge_schema(transaction.schema, schema_from_arrow(given), widen=widen)
    except ValueError as error:
        raise InvalidDataError(str(error)) from error
    if merged != transaction.schema:
        transaction.definition = transaction.definition.with_schema(merged)


def add_rows(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> list[Add]:
    """Writes rows into files that the transaction adds."""
    adds = write_rows(transaction.engine, transaction.write_context(), batches)
    transaction.add_files(adds)
    transaction.metrics |= {
        "numFiles": len(adds),
        "numOutputRows": sum(decode_num_records(add.stats) or 0 for add in adds),
        "numOutputBytes": sum(add.size for add in adds),
    }
    return adds
