"""`optimize`: the same rows in fewer, larger files, without those that are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Event

import msgspec
import pyarrow as pa

from lakeport.engine.reading import RowReader
from lakeport.engine.writing import write_rows
from lakeport.kernel.actions import Add
from lakeport.kernel.bin_packing import Bin, plan_bins
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.scan import Scan
from lakeport.kernel.scan_files import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.sql import parse_filter
from lakeport.kernel.table_properties import TARGET_FILE_SIZE
from lakeport.kernel.transaction import Transaction, update_table
from lakeport.kernel.write_context import WriteContext
from lakeport.tables.operation import Progress, Result, StorageOptions, discard, finish, open_snapshot


def optimize(
    target: str,
    *,
    where: str | Expression | None = None,
    target_size: int | None = None,
    purge: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Puts small files together, partition by partition, up to `target_size` bytes (the table's `delta.targetFileSize`
    unless given), and rewrites files of which more than 5 % of the rows are deleted; with `purge`, all that have a
    deletion vector. `where` chooses partitions. No row changes, row ids included; readers of the change data feed see
    nothing of it. A clustered table is not clustered anew.

    All is one commit, or none if there is nothing to do. Appends meanwhile do no harm; `CommitConflictError` is raised
    if another writer changes or removes one of the files. Raises `ValueError` if `where` needs more than the partition
    columns. `progress` is told the bytes of files that are rewritten."""
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
    adds = _Rewriter(snapshot.engine, RowReader.for_scan(scan), context, progress).rewrite(bins)
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


class _StoppedError(Exception):
    """Another bin has failed."""


@dataclass(frozen=True)
class _Rewriter:
    """Rewrites several bins at once; of each, a few batches are in memory."""

    engine: Engine
    reader: RowReader
    context: WriteContext
    progress: Progress | None
    stopped: Event = field(default_factory=Event)

    def rewrite(self, bins: list[Bin]) -> list[Add]:
        """The new files. If it fails, none of them stays."""
        with ThreadPoolExecutor(pa.cpu_count(), "lakeport-optimize") as pool:
            started = {pool.submit(self._rewrite_bin, found): found for found in bins}
            try:
                self._wait(started)
            except BaseException:
                self.stopped.set()
                pool.shutdown(cancel_futures=True)
                discard(self.engine, [resolve_path(self.context.table_root, add.path) for add in _results(started)])
                raise
        return list(_results(started))

    def _wait(self, started: dict[Future[list[Add]], Bin]) -> None:
        total, done = sum(map(_size, started.values())), 0
        for future in as_completed(started):
            future.result()
            done += _size(started[future])
            if self.progress is not None:
                self.progress(done, total)

    def _rewrite_bin(self, files: Bin) -> list[Add]:
        return write_rows(self.engine, self.context, self._rows(files), lanes=1)

    def _rows(self, files: Bin) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in self.reader.read(self.engine, file):
                if self.stopped.is_set():
                    raise _StoppedError
                yield batch


def _size(files: Bin) -> int:
    return sum(file.size for file in files)


def _results(futures: Iterable[Future[list[Add]]]) -> Iterator[Add]:
    """What those have written that came to their end."""
    for future in futures:
        if future.done() and not future.cancelled() and future.exception() is None:
            yield from future.result()
