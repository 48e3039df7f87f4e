"""`overwrite`: replace rows in one commit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import decode_num_records, parse_partition_value
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import And, Column, Comparison, Expression, Or, chain, lit
from lakeport.kernel.schema import MAPPING_PREFIX, StructField, StructType, arrow_field, schema_from_arrow
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction
from lakeport.tables.input.rows import to_reader
from lakeport.tables.operation import Result, StorageOptions, begin_unless_done, open_snapshot, snapshot_of
from lakeport.tables.rows.changes import ChangeCounts, FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.output import Inserted, WrittenRows
from lakeport.tables.rows.search import find_rows, format_condition, parse_condition
from lakeport.tables.write.append import add_missing_columns
from lakeport.workers.writing import write_rows


def overwrite(
    target: str,
    data: Any,
    *,
    where: str | Expression | None = None,
    partitions: Literal["all", "dynamic"] = "all",
    overwrite_schema: bool = False,
    partition_by: Sequence[str] | None = None,
    merge_schema: bool = False,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Replace rows of the table: all of them; with `partitions="dynamic"`, those in the partitions of the data; or
    those that satisfy `where`, which the new rows must then satisfy too.

    `overwrite_schema` gives the table the columns of the data, partitioned by `partition_by`, or as before;
    `merge_schema` adds missing columns. `application` is as for `append`.

    Raises `ConstraintError` for a new row that violates `where`, `InvalidDataError` for data that does not fit, and
    `CommitConflictError`. On any error, the table is unchanged."""
    replacing = Replacing(where, partitions, overwrite_schema, partition_by, merge_schema)
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin_unless_done(snapshot, "WRITE", application)
    if transaction is None:
        return Result(snapshot.version)
    reader = to_reader(data, None if overwrite_schema else snapshot.schema)
    replacing.define(transaction, reader.schema)
    if replacing.is_by_partition(snapshot):
        files = write_rows(snapshot.engine, transaction.write_context(), reader)
        return replace_by_files(transaction, replacing, files)
    inserts = map(Inserted, reader)
    found = _deletions(transaction, replacing)
    changes = RowChanges(found, inserts, constraints=replacing.constraints, metrics=_metrics)
    return execute(transaction, changes)


def replace_by_files(
    transaction: Transaction, replacing: Replacing, files: Sequence[Add], images: Sequence[Add] = ()
) -> Result:
    """Commit files written elsewhere in place of rows; `replacing` must have defined the transaction."""
    rows = sum(decode_num_records(add.stats) or 0 for add in files)
    found = _deletions(transaction, replacing, files)
    changes = RowChanges(found, written=WrittenRows(files, images, inserted_rows=rows), metrics=_metrics)
    return execute(transaction, changes)


@dataclass(frozen=True)
class Replacing:
    """Which rows to replace, and how the table's columns change; the options of `overwrite`."""

    where: str | Expression | None = None
    partitions: Literal["all", "dynamic"] = "all"
    overwrite_schema: bool = False
    partition_by: Sequence[str] | None = None
    merge_schema: bool = False

    def __post_init__(self) -> None:
        if self.partitions not in ("all", "dynamic"):
            raise ValueError(f'partitions must be "all" or "dynamic", not {self.partitions!r}')
        if self.where is not None and self.partitions == "dynamic":
            raise ValueError("a condition and dynamic partitions both choose rows to replace: pass only one of them")
        if self.overwrite_schema and (self.where is not None or self.partitions == "dynamic" or self.merge_schema):
            raise ValueError(
                "replacing the schema replaces the whole table: drop the condition, dynamic partitions "
                "and schema merging"
            )
        if self.partition_by is not None and not self.overwrite_schema:
            raise ValueError("partitioning a table differently needs `overwrite_schema`")

    @property
    def constraints(self) -> dict[str, str]:
        """Conditions on new rows, by name."""
        return {} if self.where is None else {"where": format_condition(self.where)}

    def is_by_partition(self, snapshot: Snapshot) -> bool:
        return self.partitions == "dynamic" and bool(snapshot.partition_columns)

    def condition(self, transaction: Transaction) -> Expression | None:
        """The rows to replace, unless chosen by partition; None means all."""
        return parse_condition(self.where, transaction.started)

    def define(self, transaction: Transaction, given: pa.Schema | StructType) -> None:
        """Set the table's columns and record the operation's parameters. Raises `UnsupportedFeatureError` for an
        append-only table."""
        transaction.check_rows_may_change()
        if self.overwrite_schema:
            columns = given if isinstance(given, StructType) else schema_from_arrow(given)
            _redefine(transaction, columns, self.partition_by)
        if self.merge_schema:
            add_missing_columns(transaction, given)
        transaction.parameters |= {"mode": "Overwrite", "partitionBy": list(transaction.metadata.partition_columns)}
        if self.where is not None:
            transaction.parameters["predicate"] = [format_condition(self.where)]
        if self.partitions == "dynamic":
            transaction.parameters["partitionOverwriteMode"] = "dynamic"


def _deletions(transaction: Transaction, replacing: Replacing, files: Sequence[Add] = ()) -> Iterator[FileChange]:
    """The rows to replace. A generator, so that `execute` deletes the files if the search fails."""
    snapshot = snapshot_of(transaction)
    by_partition = replacing.is_by_partition(snapshot)
    condition = _in_partitions_of(files, snapshot) if by_partition else replacing.condition(transaction)
    for file, positions in find_rows(transaction, condition):
        yield FileChange(file, deleted=positions)


def _in_partitions_of(files: Iterable[Add], snapshot: Snapshot) -> Expression:
    """A condition that selects the partitions of written files."""
    named = list(zip(snapshot.physical_partition_columns, snapshot.partition_fields, strict=True))
    found = dict.fromkeys(
        tuple(parse_partition_value(add.partition_values.get(name), field, path=snapshot.root) for name, field in named)
        for add in files
    )
    return _any_of(snapshot.partition_fields, found)


def _any_of(fields: Sequence[StructField], partitions: Iterable[tuple[Any, ...]]) -> Expression:
    alternatives = [chain(And, list(map(_is, fields, values))) for values in partitions]
    return chain(Or, alternatives) if alternatives else lit(False)


def _is(field: StructField, value: Any) -> Expression:
    column = Column((field.name,))
    if isinstance(value, float) and math.isnan(value):
        return Comparison("<>", column, column)  # only NaN differs from itself
    return column.equals_null_safe(lit(value))


def _metrics(counts: ChangeCounts) -> dict[str, int]:
    return {
        **counts.deletions,
        "numFiles": counts.added_files,
        "numOutputRows": counts.inserted_rows + counts.copied_rows,
        "numOutputBytes": counts.added_bytes,
        **counts.metrics,
    }


def _redefine(transaction: Transaction, given: StructType, partition_by: Sequence[str] | None) -> None:
    """Give the table the columns of the data. Raises `ValueError` for an invalid definition."""
    before = transaction.definition
    if partition_by and before.clustering_columns:
        raise ValueError(
            "the table is clustered, so it cannot be partitioned: leave out `partition_by`, or write the rows "
            "into a new table"
        )
    schema = StructType(tuple(_as_known(field, before.schema) for field in given))
    kept = [name for name in before.metadata.partition_columns if schema.find(name) is not None]
    names = tuple(schema.resolve((name,))[0].name for name in (kept if partition_by is None else partition_by))
    metadata = msgspec.structs.replace(before.metadata, partition_columns=names)
    transaction.definition = replace(before, metadata=metadata).with_schema(schema)


def _as_known(field: StructField, before: StructType) -> StructField:
    """Keep the id and physical name of a column that the table had under this name and type."""
    known = before.find(field.name)
    if known is None or arrow_field(known).type != arrow_field(field).type:
        return field
    mapping = {name: value for name, value in known.metadata.items() if name.startswith(MAPPING_PREFIX)}
    return replace(field, type=known.type, metadata={**field.metadata, **mapping})
