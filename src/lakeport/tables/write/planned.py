"""Distributed writes: planned on one version of a table, written to files by other processes, then committed.

    planned = plan_append(snapshot, columns)                       # or plan_overwrite, plan_create
    written = [write_task(engine, planned, batches) for …]         # anywhere: `planned` can be pickled
    commit_files(engine, planned, written)

The commit is the same as from `append`, `overwrite` and `create` with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import pyarrow as pa

from lakeport.errors import ConstraintError
from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import DEFAULT, GENERATION_EXPRESSION, StructType
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import ParkedTransaction, Transaction, park
from lakeport.kernel.write import RowTransformer, WriteContext, decode_adds, encode_adds
from lakeport.tables.compaction import finish_write
from lakeport.tables.operation import Result, begin_unless_done, discard, paths_of, record_application
from lakeport.tables.rows.execution import uses_vectors
from lakeport.tables.rows.output import Inserted, RowOutput
from lakeport.tables.write.append import add_missing_columns, begin_create, describe_append, stage_files
from lakeport.tables.write.overwrite import Replacing, replace_by_files
from lakeport.workers.writing import write_rows

Application = tuple[str, int] | None


@dataclass(frozen=True)
class PlannedWrite:
    """A write in progress; picklable. `commit_files` commits its files."""

    parked: ParkedTransaction
    context: WriteContext
    replacing: Replacing | None = None
    """None if rows are only added."""
    imaged: bool = False
    """Whether writers also write each row to the change data feed."""

    @property
    def root(self) -> str:
        return self.context.table_root


@dataclass(frozen=True)
class WrittenFiles:
    """Files written by a task, not yet referenced."""

    adds: bytes = encode_adds(())
    images: bytes = encode_adds(())


def plan_create(
    table: Table,
    columns: StructType,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    application: Application = None,
) -> PlannedWrite:
    """Plan rows for a new table. Raises `ValueError` for an invalid definition."""
    transaction = begin_create(table, columns, partition_by=partition_by, properties=properties, with_rows=True)
    if application is not None:
        record_application(transaction, application)
    return PlannedWrite(park(transaction), transaction.write_context())


def plan_append(
    snapshot: Snapshot, columns: StructType, *, merge_schema: bool = False, application: Application = None
) -> PlannedWrite | None:
    """Plan to append rows with these columns; None if the table already has the application's work."""
    transaction = begin_unless_done(snapshot, "WRITE", application)
    if transaction is None:
        return None
    if merge_schema:
        add_missing_columns(transaction, columns)
    describe_append(transaction)
    return PlannedWrite(park(transaction), transaction.write_context())


def plan_overwrite(
    snapshot: Snapshot, columns: StructType, replacing: Replacing, *, application: Application = None
) -> PlannedWrite | None:
    """Plan to replace rows by rows with these columns; None if the table already has the application's work.

    Raises `UnsupportedFeatureError` for an append-only table, and for invalid options the errors of `overwrite`."""
    transaction = begin_unless_done(snapshot, "WRITE", application)
    if transaction is None:
        return None
    replacing.define(transaction, columns)
    context = transaction.write_context()
    strict = msgspec.structs.replace(context, constraints={**context.constraints, **replacing.constraints})
    return PlannedWrite(park(transaction), strict, replacing, _is_imaged(transaction, snapshot, replacing))


def _is_imaged(transaction: Transaction, snapshot: Snapshot, replacing: Replacing) -> bool:
    """Whether files may keep some of their rows, so that rows are copied and the change data feed needs its own
    files."""
    condition = replacing.condition(transaction)
    if condition is None:
        return False
    scan = snapshot.scan_builder().with_filter(condition).build()
    feed = ENABLE_CHANGE_DATA_FEED.of(transaction.metadata.configuration)
    return feed and not uses_vectors(transaction) and scan.remaining_filter is not None


def check_columns(engine: Engine, planned: PlannedWrite, given: pa.Schema) -> None:
    """Raises `InvalidDataError` if rows of this schema can never be written, `ConstraintError` if a required column is
    missing."""
    RowTransformer(engine, planned.context).checked(make_batch([pa.nulls(0, f.type) for f in given], given, 0))
    names = {name.lower() for name in given.names}
    for field in planned.context.schema:
        filled = field.nullable or not {DEFAULT, GENERATION_EXPRESSION}.isdisjoint(field.metadata)
        if not filled and field.name.lower() not in names:
            raise ConstraintError(
                f"the data has no column {field.name!r}, which is NOT NULL in the table [{planned.root}]",
                constraint="NOT NULL",
                column=field.name,
            )


def write_task(engine: Engine, planned: PlannedWrite, batches: Iterable[pa.RecordBatch]) -> WrittenFiles:
    """Write the rows of one task to files. If it fails, no file is left behind.

    Raises `InvalidDataError` and `ConstraintError`."""
    if not planned.imaged:
        return WrittenFiles(encode_adds(write_rows(engine, planned.context, batches, lanes=1)))
    with RowOutput(engine, planned.context, imaged=True) as output:
        for batch in batches:
            output.write(Inserted(batch))
        written = output.finish()
    return WrittenFiles(encode_adds(written.files), encode_adds(written.images))


def commit_files(
    engine: Engine, planned: PlannedWrite, written: Iterable[WrittenFiles], application: Application = None
) -> Result:
    """Commit the tasks' files, once. If it definitely fails, or the table already has `application`, deletes the files.

    Raises `CommitConflictError` if commits made since the plan conflict with it, and `CommitUnknownError`."""
    tasks = list(written)
    files, images = _files(task.adds for task in tasks), _files(task.images for task in tasks)
    try:
        transaction = planned.parked.resume(engine)
        if transaction.changes_nothing and not files and planned.replacing is None:
            return Result(planned.parked.version or 0)
        is_new = application is None or record_application(transaction, application)
    except Exception:
        discard_files(engine, planned, tasks)
        raise
    if not is_new:
        discard_files(engine, planned, tasks)
        return Result(planned.parked.version or 0)
    if planned.replacing is not None:
        return replace_by_files(transaction, planned.replacing, files, images)
    stage_files(transaction, files)
    return finish_write(transaction, paths_of(transaction.root, files))


def discard_files(engine: Engine, planned: PlannedWrite, written: Iterable[WrittenFiles]) -> None:
    """Delete the tasks' files, which must never be committed."""
    adds = _files(chain.from_iterable((task.adds, task.images) for task in written))
    discard(engine, paths_of(planned.root, adds))


def _files(encoded: Iterable[bytes]) -> list[Add]:
    return [add for data in encoded for add in decode_adds(data)]
