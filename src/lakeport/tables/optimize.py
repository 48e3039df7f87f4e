"""`optimize`: the same rows in fewer, larger files, without those that are deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression, parse_filter
from lakeport.kernel.maintenance import Bin, plan_bins
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction, update_table
from lakeport.kernel.write import WriteContext
from lakeport.tables.operation import Progress, Result, StorageOptions, discard, finish, open_snapshot
from lakeport.workers import Workers, Workplace, open_workers
from lakeport.workers.reading import RowReader
from lakeport.workers.writing import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def optimize(
    target: str,
    *,
    where: str | Expression | None = None,
    target_size: int | None = None,
    purge: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> Result:
    """Puts small files together, partition by partition, up to `target_size` bytes (the table's `delta.targetFileSize`
    unless given), and rewrites files of which more than 5 % of the rows are deleted; with `purge`, all that have a
    deletion vector. `where` chooses partitions. No row changes, row ids included; readers of the change data feed see
    nothing of it. A clustered table is not clustered anew.

    All is one commit, or none if there is nothing to do. Appends meanwhile do no harm; `CommitConflictError` is raised
    if another writer changes or removes one of the files. Raises `ValueError` if `where` needs more than the partition
    columns. `progress` is told the bytes of files that are rewritten. `spark` is as for `delete`."""
    if target_size is not None and target_size < 1:
        raise ValueError(f"the target size is a number of bytes, 1 or more, not {target_size}")
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = update_table(snapshot, "OPTIMIZE")
    scan = _plan_scan(snapshot, where)
    size = target_size or TARGET_FILE_SIZE.of(snapshot.properties)
    bins = plan_bins(scan.files(), size, purge=purge)
    context = transaction.write_context(keep_row_ids=True).for_moved_rows()
    # A bin may turn out larger than it was reckoned: better so than with a tiny second file.
    context = msgspec.structs.replace(context, target_file_size=2 * size)
    workers = open_workers(snapshot.engine, spark)
    adds = _rewrite(workers, RewriteBin(RowReader.for_scan(scan), context), bins, snapshot.engine, progress)
    _stage(transaction, [file for found in bins for file in found], adds, scan.filter)
    return finish(transaction, adds)


def _plan_scan(snapshot: Snapshot, where: str | Expression | None) -> Scan:
    builder = snapshot.scan_builder().with_log_details()
    if snapshot.tracks_rows:
        builder = builder.with_row_tracking()
    if where is not None:
        builder = builder.with_filter(parse_filter(where) if isinstance(where, str) else where)
    scan = builder.build()
    if scan.remaining_filter is not None:
        columns = ", ".join(snapshot.partition_columns) or "none: the table is not partitioned"
        raise ValueError(
            f"a condition for optimize chooses partitions, but {format_expression(scan.remaining_filter)} needs the "
            f"rows; partition columns are {columns}"
        )
    return scan


def _stage(transaction: Transaction, rewritten: Sequence[ScanFile], adds: list[Add], where: Expression | None) -> None:
    transaction.remove_files(rewritten, data_change=False)
    transaction.add_files(adds, data_change=False)
    transaction.parameters |= {
        "predicate": [] if where is None else [format_expression(where)],
        "zOrderBy": [],
        "clusterBy": [],
        "auto": "false",
    }
    transaction.metrics |= {
        "numRemovedFiles": len(rewritten),
        "numRemovedBytes": sum(file.size for file in rewritten),
        "numAddedFiles": len(adds),
        "numAddedBytes": sum(add.size for add in adds),
        "numDeletionVectorsRemoved": sum(file.deletion_vector is not None for file in rewritten),
        **_size_summary(sorted(add.size for add in adds)),
    }


def _size_summary(sizes: list[int]) -> dict[str, int]:
    """The sizes of new files, as other writers tell them."""
    if not sizes:
        return {}
    quarters = {f"p{part}FileSize": sizes[min(len(sizes) * part // 100, len(sizes) - 1)] for part in (25, 50, 75)}
    return {"minFileSize": sizes[0], **quarters, "maxFileSize": sizes[-1]}


@dataclass(frozen=True)
class RewriteBin:
    """A task: the rows of some files in one. If it fails, no file stays."""

    reader: RowReader
    context: WriteContext

    def __call__(self, place: Workplace, files: Bin) -> list[Add]:
        return write_rows(place.engine, self.context, self._rows(place, files), lanes=1)

    def _rows(self, place: Workplace, files: Bin) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in self.reader.read(place.engine, file):
                place.check()
                yield batch


def _rewrite(
    workers: Workers, task: RewriteBin, bins: list[Bin], engine: Engine, progress: Progress | None
) -> list[Add]:
    """The new files. If it fails, none of them stays."""

    def remove(adds: list[Add]) -> None:
        discard(engine, [resolve_path(task.context.table_root, add.path) for add in adds])

    total, done = sum(map(_size, bins)), 0
    found: list[Add] = []
    for files, adds in zip(bins, workers.map(task, bins, undo=remove), strict=True):
        found += adds
        done += _size(files)
        if progress is not None:
            progress(done, total)
    return found


def _size(files: Bin) -> int:
    return sum(file.size for file in files)
