"""`optimize`: rewrite rows into fewer, larger files, without deleted rows, and in an order that helps filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression, parse_filter
from lakeport.kernel.maintenance import Bin, plan_bins
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction, update_table
from lakeport.kernel.write import PhysicalBatch, WriteContext
from lakeport.tables.clustering.effect import FilterEffect, effect_of
from lakeport.tables.clustering.layout import Layout, choose_layout
from lakeport.tables.clustering.reorder import ReorderFiles, Rewritten, plan_reordering
from lakeport.tables.operation import Progress, Result, StorageOptions, discard, finish, open_snapshot, paths_of
from lakeport.workers import Workers, Workplace, open_workers
from lakeport.workers.copying import RowCopier, can_copy
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader
from lakeport.workers.writing import DataWriter, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ_TOGETHER = 4 << 20


@dataclass(frozen=True)
class OptimizeResult(Result):
    """`effect` is empty unless rows were ordered."""

    effect: tuple[FilterEffect, ...] = ()


def optimize(
    target: str,
    *,
    where: str | Expression | None = None,
    zorder_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    full: bool = False,
    target_size: int | None = None,
    purge: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> OptimizeResult:
    """Compact small files, partition by partition, up to `target_size` bytes (default: the table's
    `delta.targetFileSize`), and rewrite files with more than 5 % deleted rows; with `purge`, every file with a deletion
    vector. `where` selects partitions. Rows and row ids do not change, and the change data feed shows nothing.

    `zorder_by` and `cluster_by` rewrite all files, in the order of a Z-order or a Hilbert curve over some columns, so
    that filters on any of them skip files. A clustered table is always ordered by its own columns, but only the rows
    added since, together with files ordered earlier as long as those are few; with `full`, also files ordered by other
    columns. Memory is bounded: rows are sorted in a temporary directory (`TMPDIR`).

    Makes one commit, or none if there is nothing to do. Concurrent appends are fine; raises `CommitConflictError` if
    another writer changes or removes one of the files, and `ValueError` if `where` needs more than partition columns,
    or a column does not fit. `progress` receives the bytes of rewritten files. `spark` is as for `delete`; the rows of
    a partition are ordered by one task."""
    if target_size is not None and target_size < 1:
        raise ValueError(f"the target size must be a number of bytes, 1 or more, not {target_size}")
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = update_table(snapshot, "OPTIMIZE")
    layout = choose_layout(transaction, zorder_by, cluster_by)
    if full and not (layout and layout.is_own):
        raise ValueError("full is for clustered tables: this one is not clustered")
    scan = _plan_scan(snapshot, where)
    size = target_size or TARGET_FILE_SIZE.of(snapshot.properties)
    context = transaction.write_context(keep_row_ids=True).for_moved_rows()
    # A bin may exceed its estimated size: one large file beats a tiny second one.
    context = msgspec.structs.replace(context, target_file_size=2 * size)
    files = list(scan.files())
    if layout is None:
        task: RewriteBin | ReorderFiles = RewriteBin(RowReader.for_scan(scan), context)
        bins = plan_bins(files, size, purge=purge)
    else:
        task = ReorderFiles.of(scan, context, layout, size)
        bins = plan_reordering(files, layout, full=full, purge=purge)
    outcomes = _rewrite(open_workers(snapshot.engine, spark), task, bins, snapshot.engine, progress)
    rewritten, adds = [file for found in bins for file in found], [add for outcome in outcomes for add in outcome.adds]
    _stage(transaction, rewritten, adds)
    transaction.parameters |= _describe(scan.filter, layout, full)
    probes = [probe for outcome in outcomes for probe in outcome.probes]
    effect = effect_of(snapshot, files, rewritten, adds, probes)
    result = finish(transaction, paths_of(transaction.root, adds))
    return OptimizeResult(result.version, result.metrics, effect)


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
            f"a condition for optimize can only choose partitions, but {format_expression(scan.remaining_filter)} "
            f"needs the rows; partition columns are {columns}"
        )
    return scan


def _describe(where: Expression | None, layout: Layout | None, full: bool) -> dict[str, Any]:
    """The operation's parameters, under the names other writers use."""
    return {
        "predicate": [] if where is None else [format_expression(where)],
        "zOrderBy": layout.names if layout and layout.curve == "zorder" else [],
        "clusterBy": layout.names if layout and layout.curve == "hilbert" else [],
        **({"isFull": str(full).lower()} if layout and layout.is_own else {}),
        "auto": "false",
    }


def _stage(transaction: Transaction, rewritten: Sequence[ScanFile], adds: list[Add]) -> None:
    transaction.remove_files(rewritten, data_change=False)
    transaction.add_files(adds, data_change=False)
    transaction.metrics |= {
        "numRemovedFiles": len(rewritten),
        "numRemovedBytes": sum(file.size for file in rewritten),
        "numAddedFiles": len(adds),
        "numAddedBytes": sum(add.size for add in adds),
        "numDeletionVectorsRemoved": sum(file.deletion_vector is not None for file in rewritten),
        **_size_summary(sorted(add.size for add in adds)),
    }


def _size_summary(sizes: list[int]) -> dict[str, int]:
    """The sizes of new files, under the names other writers use."""
    if not sizes:
        return {}
    quarters = {f"p{part}FileSize": sizes[min(len(sizes) * part // 100, len(sizes) - 1)] for part in (25, 50, 75)}
    return {"minFileSize": sizes[0], **quarters, "maxFileSize": sizes[-1]}


@dataclass(frozen=True)
class RewriteBin:
    """A task: rewrite some files into one. If it fails, no file is left behind."""

    reader: RowReader
    context: WriteContext

    def __call__(self, place: Workplace, files: Bin) -> Rewritten:
        if can_copy(self.context):
            return Rewritten(self._copied(place, files))
        return Rewritten(write_rows(place.engine, self.context, self._rows(place, files), lanes=1))

    def _copied(self, place: Workplace, files: Bin) -> list[Add]:
        with DataWriter(place.engine, self.context, lanes=1) as writer:
            for rows in in_order(_neighbours(files), partial(self._copies, place.engine), place.threads):
                place.check()
                writer.write_physical(rows)
            return writer.finish()

    def _copies(self, engine: Engine, files: Bin) -> Iterator[PhysicalBatch]:
        return chain.from_iterable(RowCopier(self.context).read(engine, file) for file in files)

    def _rows(self, place: Workplace, files: Bin) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in self.reader.read(place.engine, file):
                place.check()
                yield batch


def _rewrite(
    workers: Workers, task: RewriteBin | ReorderFiles, bins: Sequence[Bin], engine: Engine, progress: Progress | None
) -> list[Rewritten]:
    """The new files of each bin. If it fails, none is left behind."""

    def remove(outcome: Rewritten) -> None:
        discard(engine, paths_of(task.context.table_root, outcome.adds))

    total, done = sum(map(_size, bins)), 0
    found: list[Rewritten] = []
    for files, outcome in zip(bins, workers.map(task, bins, undo=remove), strict=True):
        found.append(outcome)
        done += _size(files)
        if progress is not None:
            progress(done, total)
    return found


def _neighbours(files: Bin) -> Iterator[Bin]:
    """Small files in groups, each for one thread to read: a thread costs as much as reading one of them."""
    group: list[ScanFile] = []
    size = 0
    for file in files:
        if group and size + file.size > _READ_TOGETHER:
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += file.size
    yield tuple(group)


def _size(files: Bin) -> int:
    return sum(file.size for file in files)
