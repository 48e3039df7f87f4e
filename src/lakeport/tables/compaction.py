"""Rewrite small files into larger ones: for `optimize`, and after writes to tables that ask for it
(`delta.autoOptimize.autoCompact`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec
import pyarrow as pa

from lakeport.errors import CommitConflictError
from lakeport.kernel.actions import Add
from lakeport.kernel.definition import TARGET_FILE_SIZE, compacts_after_writes
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import Bin, by_partition, partition_of, plan_bins
from lakeport.kernel.scan import ScanBuilder, ScanFile
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Committed, Transaction, update_table
from lakeport.kernel.write import PhysicalBatch, WriteContext
from lakeport.tables.clustering.reorder import ReorderFiles, Rewritten
from lakeport.tables.operation import Progress, Result, commit, discard, finish, paths_of, result_of
from lakeport.workers import ThreadWorkers, Workers, Workplace
from lakeport.workers.copying import RowCopier, can_copy
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader
from lakeport.workers.writing import DataWriter, write_rows

_READ_TOGETHER = 4 << 20
_MANY = 50
"""So many small files of a partition are compacted after a write. This and the next are Delta's own defaults."""
_SMALL = 0.5
"""Files of less than this fraction of the target size are small."""
_log = logging.getLogger(__name__)


def finish_write(transaction: Transaction, written: Sequence[str] = (), workers: Workers | None = None) -> Result:
    """`finish`, after which the small files of the partitions that got rows are compacted if the table asks for it.
    That is a commit of its own, and raises nothing: the write is done."""
    committed = commit(transaction, written)
    if committed is not None and committed.adds:
        try:
            if compacts_after_writes(committed.definition.metadata.configuration):
                _compact_after(committed, transaction, workers or ThreadWorkers(transaction.engine))
        except CommitConflictError as error:  # often a concurrent writer, which compacts the same files
            _log.info("small files stay after version %d: %s", committed.version, error)
        except Exception as error:
            _log.warning(
                "version %d is committed, but compacting small files after it failed: %s",
                committed.version,
                error,
                exc_info=True,
            )
    return result_of(transaction, committed)


def _compact_after(committed: Committed, transaction: Transaction, workers: Workers) -> None:
    """Clustered tables are left alone: `optimize` orders their rows."""
    snapshot = _newest(transaction)
    if snapshot.definition.clustering_columns:
        return
    size = TARGET_FILE_SIZE.of(snapshot.properties)
    scan = rewriting_scan(snapshot).build()
    files = _many_small(scan.files(), {partition_of(add) for add in committed.adds}, _SMALL * size)
    bins = plan_bins(files, size)
    if not bins:
        return
    compaction = update_table(snapshot, "OPTIMIZE")
    compaction.parameters |= {"predicate": [], "zOrderBy": [], "clusterBy": [], "auto": "true"}
    task = RewriteBin(RowReader.for_scan(scan), rewriting_context(compaction, size))
    adds = [add for outcome in rewrite(workers, task, bins, snapshot.engine) for add in outcome.adds]
    stage_rewritten(compaction, [file for found in bins for file in found], adds)
    finish(compaction, paths_of(compaction.root, adds))


def _newest(transaction: Transaction) -> Snapshot:
    if transaction.snapshot is None:
        return Table.for_path(transaction.engine, transaction.root).latest_snapshot()
    return transaction.snapshot.refresh()


def _many_small(files: Iterable[ScanFile], partitions: Collection[object], size: float) -> list[ScanFile]:
    """The files smaller than `size` of those partitions that have many of them."""
    small = by_partition(file for file in files if file.size < size and partition_of(file) in partitions)
    return [file for found in small if len(found) >= _MANY for file in found]


def rewriting_scan(snapshot: Snapshot) -> ScanBuilder:
    """A scan of files to rewrite, with all that their log entries say."""
    builder = snapshot.scan_builder().with_log_details()
    return builder.with_row_tracking() if snapshot.tracks_rows else builder


def rewriting_context(transaction: Transaction, size: int) -> WriteContext:
    """How to write rewritten rows. A file may exceed its estimated size: one large file beats a tiny second one."""
    context = transaction.write_context(keep_row_ids=True).for_moved_rows()
    return msgspec.structs.replace(context, target_file_size=2 * size)


def stage_rewritten(transaction: Transaction, rewritten: Sequence[ScanFile], adds: list[Add]) -> None:
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


def rewrite(
    workers: Workers,
    task: RewriteBin | ReorderFiles,
    bins: Sequence[Bin],
    engine: Engine,
    progress: Progress | None = None,
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
